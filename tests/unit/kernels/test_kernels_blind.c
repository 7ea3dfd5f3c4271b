/* test_kernels_blind.c - what ONNX Runtime sees of the environment in a process of others: not that
   it may send telemetry. A process of its own stands for that of others.  */
#include "kernels/wm_blind.h"
#include "schema/base/wm_environment.h"
#include "tests/unit/unit.h"

#include <dlfcn.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first slots of ONNX Runtime's C interface.  */
typedef struct {
    void *const *(*api) (uint32_t version);
    const char *(*version) (void);
} base_t;
#define CREATE_ENV 3
typedef void *(*create_env_t) (int level, const char *name, void **env);

static void *library; /* NULL: it is not built here */
static char home[] = "/tmp/wm-blind-XXXXXX";

static int open_library (void **state)
{
    char path[PATH_MAX];
    const char *build = getenv ("WM_BUILD");
    snprintf (path, sizeof path, "%s/lib/onnxruntime/libonnxruntime.so.1",
              build ? build : "build/release");
    library = dlopen (path, RTLD_NOW | RTLD_LOCAL);
    return mkdtemp (home) ? 0 : -1;
}

static int remove_one (const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
    return remove (path);
}

static int remove_home (void **state)
{
    return nftw (home, remove_one, 10, FTW_DEPTH | FTW_PHYS);
}

static int n_inside;

static int count_one (const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
    n_inside++;
    return 0;
}

/* Exit code 0: ONNX Runtime has begun.  */
static int begin (void)
{
    char path[PATH_MAX];
    void *env = NULL;
    const base_t *(*base) (void);
    create_env_t create;
    *(void **) &base = dlsym (library, "OrtGetApiBase");
    if (!base || !wm_blind_file (*(void **) &base, path) || wm_blind (path))
        return 1;
    void *function = base ()->api (17)[CREATE_ENV];
    memcpy (&create, &function, sizeof create);
    return create (3, "test", &env) || !env;
}

/* What its calls of getenv are given, whatever the user's environment says.  */
static void fixed_values (void **state)
{
    setenv ("ORT_DISABLE_TELEMETRY", "0", 1);
    assert_string_equal (wm_environment_visible ("ORT_DISABLE_TELEMETRY"), "1");
    unsetenv ("ORT_DISABLE_TELEMETRY");
    assert_string_equal (wm_environment_visible ("ORT_DISABLE_TELEMETRY"), "1");
}

/* With telemetry it writes an identifier into the home when it begins. A thread of its own does so,
   and on a busy machine the process may end first.  */
static void no_telemetry (void **state)
{
    int status;
    if (!library)
        skip ();
    fflush (NULL);
    const pid_t pid = fork ();
    if (pid == 0) {
        setenv ("HOME", home, 1);
        unsetenv ("XDG_CACHE_HOME");
        setenv ("ORT_DISABLE_TELEMETRY", "0", 1);
        setenv ("https_proxy", "http://127.0.0.1:9",
                1); /* nothing leaves this machine in any case */
        _exit (begin ());
    }
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (status, 0);
    n_inside = 0;
    nftw (home, count_one, 10, FTW_PHYS);
    assert_int_equal (n_inside, 1); /* itself */
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (fixed_values),
        cmocka_unit_test (no_telemetry),
    };
    return cmocka_run_group_tests (tests, open_library, remove_home);
}
