/* test_kernels_driver.c - what is found out of the NVIDIA driver, on a library in its place
   (fake_driver.h).  */
#include "kernels/wm_driver.h"
#include "tests/unit/unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/wm_driver_XXXXXX";

/* Puts a library in the driver's place, from now on: it has its soname.  */
static void *place (const char *options)
{
    char line[300];
    snprintf (line, sizeof line,
              "${CC:-gcc} -shared -fPIC -D_GNU_SOURCE -w %s -Wl,-soname,libcuda.so.1 -x c "
              "tests/unit/fake_driver.h -o %s/libcuda.so.1",
              options, folder);
    assert_int_equal (system (line), 0);
    snprintf (line, sizeof line, "%s/libcuda.so.1", folder);
    return dlopen (line, RTLD_NOW | RTLD_LOCAL);
}

static void expect (const char *set, wm_driver_state_t state, const char *text)
{
    if (set)
        setenv ("WM_FAKE_DRIVER", set, 1);
    const wm_driver_t driver = wm_driver_open (WM_DRIVER_LEAST);
    if (driver.state != state || !strstr (driver.why, text))
        fail_msg ("%s: state %d, '%s'", set ? set : "-", (int) driver.state, driver.why);
    assert_true ((driver.n_gpu > 0) == (state == WM_DRIVER_GOOD));
    assert_true ((driver.library != NULL) == (state != WM_DRIVER_NONE));
    unsetenv ("WM_FAKE_DRIVER");
}

static void a_machine_without_a_driver_says_so (void **state)
{
    void *real = dlopen ("libcuda.so.1", RTLD_LAZY);
    if (real) /* this machine has one */
        skip ();
    expect (NULL, WM_DRIVER_NONE, "there is no NVIDIA driver (libcuda.so.1 is not found");
}

/* In a process of its own, because a driver is never closed.  */
static void what_is_no_driver_says_so (void **state)
{
    int status = 1;
    const pid_t pid = fork ();
    if (pid == 0) {
        const bool is_placed = place ("-DBARE") != NULL;
        const wm_driver_t driver = wm_driver_open (WM_DRIVER_LEAST);
        _exit (!is_placed || driver.state != WM_DRIVER_BROKEN ||
               !strstr (driver.why, "libcuda.so.1 is no NVIDIA driver: it has no cuInit"));
    }
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (status, 0);
}

static void each_state_of_a_driver_has_its_text (void **state)
{
    assert_non_null (place (""));
    unsetenv ("CUDA_VISIBLE_DEVICES");
    expect ("12000,2,0", WM_DRIVER_GOOD, "");
    assert_int_equal (wm_driver_open (WM_DRIVER_LEAST).version, 13000);
    expect ("11080,1,0", WM_DRIVER_OLD,
            "too old: it is for CUDA 11.8, needed is CUDA 12.0 (driver 525 or newer)");
    expect ("12040,0,100", WM_DRIVER_NO_GPU, "shows no GPU: see nvidia-smi -L");
    expect ("12040,0,0", WM_DRIVER_NO_GPU, "shows no GPU");
    setenv ("CUDA_VISIBLE_DEVICES", "", 1);
    expect ("12040,0,100", WM_DRIVER_NO_GPU, "CUDA_VISIBLE_DEVICES is '', which hides them all");
    setenv ("CUDA_VISIBLE_DEVICES", "7", 1);
    expect ("12040,0,100", WM_DRIVER_NO_GPU, "CUDA_VISIBLE_DEVICES is '7', compare nvidia-smi -L");
    unsetenv ("CUDA_VISIBLE_DEVICES");
    expect ("12040,1,34", WM_DRIVER_BROKEN, "(error 34): this libcuda.so.1 is the stub");
    expect ("12040,1,999", WM_DRIVER_BROKEN, "(error 999): does nvidia-smi work?");
    setenv ("WM_FAKE_DRIVER_FAILS", "cuDeviceGetCount", 1);
    expect ("12040,1,0", WM_DRIVER_BROKEN, "(error 719)");
    setenv ("WM_FAKE_DRIVER_FAILS", "cuDriverGetVersion", 1);
    expect ("12040,1,0", WM_DRIVER_BROKEN, "(error 719)");
    unsetenv ("WM_FAKE_DRIVER_FAILS");
    char text[120];
    wm_driver_compare (text, 12040, 13000);
    assert_string_equal (text, "it is for CUDA 12.4, needed is CUDA 13.0 (driver 580 or newer)");
}

static int set_up (void **state)
{
    return mkdtemp (folder) ? 0 : -1;
}

static int tear_down (void **state)
{
    char path[64];
    snprintf (path, sizeof path, "%s/libcuda.so.1", folder);
    unlink (path);
    return rmdir (folder);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (a_machine_without_a_driver_says_so),
        cmocka_unit_test (what_is_no_driver_says_so),
        cmocka_unit_test (each_state_of_a_driver_has_its_text),
    };
    return cmocka_run_group_tests (tests, set_up, tear_down);
}
