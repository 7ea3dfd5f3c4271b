/* test_ops_setup.c - what is checked before a campaign begins: URLs, GPUs, and which input a reader
   crashed on.  */
#include "ops/campaign/wm_crash_hold.h"
#include "ops/campaign/wm_gpus.h"
#include "ops/campaign/wm_urls.h"
#include "schema/base/wm_url.h"
#include "tests/unit/unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/wm-setup-XXXXXX", programs[64], paths[128];

static void make (const char *command)
{
    char line[300];
    snprintf (line, sizeof line, "cd %s && %s", folder, command);
    assert_int_equal (system (line), 0);
}

/* PATH has two folders: the first without programs, the second with these.  */
static void has_programs (const char *names)
{
    char line[200];
    snprintf (line, sizeof line,
              "rm -rf bin && mkdir -p bin none && for p in %s; do : >bin/$p; done && "
              "chmod -R +x bin && : >none/curl",
              names);
    make (line);
}

static int set_up (void **state)
{
    if (!mkdtemp (folder))
        return -1;
    snprintf (programs, sizeof programs, "%s/bin", folder);
    snprintf (paths, sizeof paths, "%s/none:%s", folder, programs);
    return 0;
}

static int tear_down (void **state)
{
    make ("rm -rf bin none libcuda.so.1 log");
    return rmdir (folder);
}

static void check (const char *url, wm_fault_t fault, const char *words)
{
    wm_error_t error = { 0 };
    char *before = strdup (getenv ("PATH"));
    setenv ("PATH", paths, 1);
    const wm_fault_t got = wm_urls_check (url, &error);
    setenv ("PATH", before, 1);
    free (before);
    if (got != fault || !strstr (error.text, words))
        fail_msg ("%s: %d %s", url, (int) got, error.text);
}

static void inputs_by_url (void **state)
{
    has_programs ("curl xrdcp");
    check ("https://host/file.h5", WM_OK, "");
    check ("root://host//file.h5", WM_OK, "");
    check ("root://host/f", WM_OK, "");
    check ("file:///a%20b.h5", WM_EUSAGE, "is local: give /a b.h5");
    check ("gsiftp://host/f", WM_EUSAGE, "copies root://");
    static const char *const wrong[] = { "http://host",      "http://host/",    "http:///file",
                                         "http://host/a b",  "root://host/a\t", "root://host/a\r" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check (wrong[i], WM_EUSAGE, "no URL of a file");
    check ("root://host//a*.h5", WM_EUSAGE, "no pattern");
    has_programs ("curl");
    check ("https://host/file.h5", WM_OK, "");
    check ("root://host//f", WM_EHOST, "install the package xrootd-client");
    has_programs ("xrdcp");
    check ("root://host//f", WM_OK, "");
    check ("http://user:word@host/f", WM_EHOST, "http://host/f needs curl"); /* without the word */
}

static void check_output (const char *given, wm_fault_t fault, const char *want)
{
    wm_error_t error = { 0 };
    char url[PATH_MAX], *before = strdup (getenv ("PATH"));
    setenv ("PATH", paths, 1);
    const wm_fault_t got = wm_urls_output (given, url, &error);
    setenv ("PATH", before, 1);
    free (before);
    if (got != fault || !strstr (fault ? error.text : url, want) ||
        (!fault && strcmp (url, want) != 0))
        fail_msg ("%s: %d %s %s", given, (int) got, url, error.text);
}

static void outputs_by_url (void **state)
{
    char longest[1100];
    has_programs ("xrdcp xrdfs");
    check_output ("root://host//a/b", WM_OK, "root://host//a/b");
    check_output ("root://host//a/b///", WM_OK, "root://host//a/b");
    check_output ("root://host/a", WM_OK, "root://host/a");
    check_output ("https://host/a", WM_EUSAGE, "to root:// folders only");
    check_output ("root://host//a?authz=x", WM_EUSAGE, "a token in the URL");
    check_output ("root://host//a?b", WM_EUSAGE, "a token in the URL");
    check_output ("root://me:word@host//a", WM_EUSAGE, "--output root://host//a: a token");
    static const char *const wrong[] = { "root://host",     "root://host/",    "root://host//",
                                         "root:///a",       "root://host//a b", "root://host//a*",
                                         "root://host//\n" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_output (wrong[i], WM_EUSAGE, "no URL of a folder");
    for (int n = 1000; n < 1002; n++) {
        memset (longest, 'a', sizeof longest);
        memcpy (longest, "root://host//", 13);
        longest[n] = 0;
        check_output (longest, n > 1000 ? WM_EUSAGE : WM_OK, n > 1000 ? "no URL" : longest);
    }
    has_programs ("xrdcp");
    check_output ("root://host//a", WM_EHOST, "needs xrdcp and xrdfs");
    has_programs ("xrdfs");
    check_output ("root://host//a", WM_EHOST, "needs xrdcp and xrdfs");
}

static int nothing (const wm_args_t *args)
{
    return 0;
}

static void check_scratch (const char *given, const char *campaign, const char *want)
{
    static const wm_option_t options[] = {
        { .name = "scratch", .value = "FOLDER", .help = "h" }, { .name = NULL }
    };
    static const wm_verb_t verb = {
        .name = "run", .summary = "s", .options = options, .run = nothing
    };
    char path[PATH_MAX], *argv[] = { "run", "--scratch", (char *) (uintptr_t) given };
    int code;
    wm_args_t *args = wm_args_new (&verb, given ? 3 : 1, argv, &code);
    assert_non_null (args);
    wm_urls_scratch (args, campaign, path);
    assert_string_equal (path, want);
}

static void where_copies_go (void **state)
{
    char here[1000], want[PATH_MAX];
    assert_non_null (getcwd (here, sizeof here));
    snprintf (want, sizeof want, "%s/s", here);
    check_scratch ("s", "c", want);
    check_scratch ("/s", "c", "/s");
    check_scratch (NULL, "c", "c/staged");
    wm_url_scratch (want);
    check_scratch (NULL, "", want);
}

/* A library in the driver's place shows three GPUs.  */
static void gpus_by_number (void **state)
{
    char line[300], gpu[WM_GPUS_MAX][WM_GPU_BYTES];
    wm_error_t error = { 0 };
    void *real = dlopen ("libcuda.so.1", RTLD_LAZY);
    if (real) /* this machine has one */
        skip ();
    snprintf (line, sizeof line,
              "${CC:-gcc} -shared -fPIC -D_GNU_SOURCE -w -Wl,-soname,libcuda.so.1 -x c "
              "tests/unit/fake_driver.h -o %s/libcuda.so.1",
              folder);
    assert_int_equal (system (line), 0);
    snprintf (line, sizeof line, "%s/libcuda.so.1", folder);
    assert_non_null (dlopen (line, RTLD_NOW | RTLD_LOCAL));
    setenv ("WM_FAKE_DRIVER", "13000,3,0", 1);
    unsetenv ("CUDA_VISIBLE_DEVICES");
    assert_int_equal (wm_gpus_list ("all", gpu, &error), 3);
    assert_string_equal (gpu[2], "2");
    assert_int_equal (wm_gpus_list ("2,0", gpu, &error), 2);
    assert_string_equal (gpu[0], "2");
    assert_string_equal (gpu[1], "0");
    setenv ("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c", 1);
    assert_int_equal (wm_gpus_list ("1,2", gpu, &error), 2);
    assert_string_equal (gpu[0], "GPU-b");
    assert_string_equal (gpu[1], "GPU-c");
    assert_int_equal (wm_gpus_list ("all", gpu, &error), 3);
    assert_string_equal (gpu[0], "GPU-a");
    setenv ("CUDA_VISIBLE_DEVICES", "7", 1); /* names none of the others */
    assert_int_equal (wm_gpus_list ("0,1", gpu, &error), 2);
    assert_string_equal (gpu[0], "7");
    assert_string_equal (gpu[1], "1");
    unsetenv ("CUDA_VISIBLE_DEVICES");
    static const char *const wrong[] = { "3", "-1", "", "a", "0,", "0,3", "0;1" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        error.text[0] = 0;
        assert_int_equal (wm_gpus_list (wrong[i], gpu, &error), 0);
        if (!strstr (error.text, "numbers from 0 to 2"))
            fail_msg ("%s: %s", wrong[i], error.text);
    }
    setenv ("WM_FAKE_DRIVER", "13000,70,0", 1);
    assert_int_equal (wm_gpus_list ("all", gpu, &error), WM_GPUS_MAX);
    setenv ("WM_FAKE_DRIVER", "13000,0,0", 1);
    assert_int_equal (wm_gpus_list ("0", gpu, &error), 0);
    assert_int_equal (error.fault, WM_EHOST);
}

/* The last line of this start counts; one of an earlier start does not.  */
static void the_input_of_a_crash (void **state)
{
    wm_child_t child = { .began = 0 };
    snprintf (child.log, sizeof child.log, "%s/log", folder);
    make ("rm -f log");
    assert_string_equal (wm_crash_hold_input (&child), "");
    make ("echo 'a: crashed on input: /a/one' >log");
    assert_string_equal (wm_crash_hold_input (&child), "/a/one");
    make ("echo 'b: crashed on input: /a/two' >>log; echo more >>log");
    assert_string_equal (wm_crash_hold_input (&child), "/a/two");
    child.began = 30; /* behind the first line */
    assert_string_equal (wm_crash_hold_input (&child), "/a/two");
    make ("echo 'a: crashed on input: /a/one' >log; echo more >>log");
    assert_string_equal (wm_crash_hold_input (&child), "");
    make ("head -c 70000 /dev/zero | tr '\\0' x >>log && echo >>log");
    make ("echo 'crashed on input: /b' >>log");
    assert_string_equal (wm_crash_hold_input (&child), "/b"); /* only the end of a log is read */
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (inputs_by_url),   cmocka_unit_test (outputs_by_url),
        cmocka_unit_test (where_copies_go), cmocka_unit_test (gpus_by_number),
        cmocka_unit_test (the_input_of_a_crash),
    };
    return cmocka_run_group_tests (tests, set_up, tear_down);
}
