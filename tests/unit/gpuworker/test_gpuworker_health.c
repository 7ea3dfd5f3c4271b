/* test_gpuworker_health.c - NVML by dlopen: known values are reported, others are left out.

   The library is made here from C: its functions answer as WM_FAKE_NVML says, one letter a
   fault.  */

#include "gpuworker/engine/wm_health.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/wm-nvml-XXXXXX", library[64], bare[64];

static int setup (void **state)
{
    char line[512];
    assert_non_null (mkdtemp (folder));
    snprintf (library, sizeof library, "%s/nvml.so", folder);
    snprintf (bare, sizeof bare, "%s/bare.so", folder);
    snprintf (line, sizeof line,
              "${CC:-gcc} -shared -fPIC -x c tests/unit/fake_nvml.h -o %s && "
              "${CC:-gcc} -shared -fPIC -DBARE -x c tests/unit/fake_nvml.h -o %s",
              library, bare);
    return system (line);
}

static int teardown (void **state)
{
    unlink (library);
    unlink (bare);
    return rmdir (folder);
}

/* The first words of a GPU that fails as `faults` say; "" if it cannot be opened (see why).  */
static const char *words_of (const char *path, const char *faults, const char *visible,
                             char why[160])
{
    static char text[WM_HEALTH_BYTES];
    setenv ("WM_NVML_SO", path, 1);
    setenv ("WM_FAKE_NVML", faults, 1);
    setenv ("CUDA_VISIBLE_DEVICES", visible, 1);
    wm_health_t *health = wm_health_new (5, why);
    *text = 0;
    for (int i = 0; health && i < 30000 && !*text; i++) {
        usleep (1000);
        wm_health_text (health, text);
    }
    assert_true (!health == (*why != 0));
    wm_health_destroy (&health);
    assert_null (health);
    return text;
}

static void everything_is_told (void **state)
{
    char why[160];
    assert_string_equal (
        words_of (library, "", "", why),
        "{\"gpu\": \"NVIDIA H200 ?0?\", \"uuid\": \"GPU-0\", \"temperature_c\": 61, "
        "\"power_w\": 512.3, \"power_limit_w\": 700.0, \"energy_j\": 81234, \"load\": 98, "
        "\"memory_used_mb\": 17512, \"memory_mb\": 143771, \"ecc_corrected\": 3, "
        "\"ecc_uncorrected\": 1, \"throttled\": \"power, heat\"}");
    assert_non_null (strstr (words_of (library, "", "2,3", why), "NVIDIA H200 ?2?"));
    assert_non_null (strstr (words_of (library, "", "GPU-7", why), "NVIDIA H200 ?7?"));
    char path[64];
    snprintf (path, sizeof path, "%s/heat", folder);
    FILE *file = fopen (path, "w");
    assert_true (file && fputs ("61 ec", file) >= 0 && !fclose (file)); /* all reasons that are */
    setenv ("WM_FAKE_NVML_HEAT", path, 1);
    assert_non_null (
        strstr (words_of (library, "", "", why),
                "\"throttled\": \"power, hardware, heat, hardware heat, power brake\""));
    unsetenv ("WM_FAKE_NVML_HEAT");
    unlink (path);
}

static void what_is_not_known_is_absent (void **state)
{
    static const char *const word[] = { "\"gpu\"", "temperature", "power_w",       "limit",
                                        "load",    "memory_used", "ecc_corrected", "throttled",
                                        "uuid",    "energy_j" };
    static const char fault[] = "ntpqlmexuj";
    char why[160], one[2] = "";
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        one[0] = fault[i];
        const char *text = words_of (library, one, "", why);
        assert_true (text[0] == '{' && text[strlen (text) - 1] == '}');
        if (strstr (text, word[i]))
            fail_msg ("%s is told: %s", word[i], text);
    }
    assert_string_equal (words_of (library, fault, "", why), "{}");
    assert_string_equal (words_of (bare, "", "", why), "{}"); /* an old library */
}

/* Errors that were there already are not this worker's.  */
static void errors_of_memory_are_counted_from_the_start (void **state)
{
    char why[160], path[64];
    snprintf (path, sizeof path, "%s/ecc", folder);
    setenv ("WM_NVML_SO", library, 1);
    setenv ("WM_FAKE_NVML", "", 1);
    setenv ("CUDA_VISIBLE_DEVICES", "", 1);
    setenv ("WM_FAKE_NVML_ECC", path, 1);
    wm_health_t *health = wm_health_new (5, why);
    assert_non_null (health);
    usleep (50000);
    assert_true (wm_health_ecc (health) == 0);
    FILE *file = fopen (path, "w");
    fputs ("2", file);
    fclose (file);
    for (int i = 0; i < 30000 && !wm_health_ecc (health); i++)
        usleep (1000);
    assert_true (wm_health_ecc (health) == 2);
    wm_health_destroy (&health);
    unsetenv ("WM_FAKE_NVML_ECC");
    unlink (path);
}

static void what_cannot_be_opened_says_why (void **state)
{
    char why[160];
    words_of ("./no-such-library.so", "", "", why);
    assert_string_equal (why, "./no-such-library.so cannot be opened");
    words_of ("libm.so.6", "", "", why);
    assert_string_equal (why, "libm.so.6 has no nvmlInit_v2");
    words_of (library, "i", "", why);
    assert_string_equal (why, "nvmlInit answers 9");
    words_of (library, "", "17", why);
    assert_string_equal (why, "NVML does not know the GPU (2)");
    words_of (bare, "", "GPU-7", why);
    assert_string_equal (why, "NVML does not know the GPU (-1)");
}

/* A library that never answers: the worker goes on, and leaves all the same.  */
static void a_gpu_that_hangs_stops_nobody (void **state)
{
    char why[160], text[WM_HEALTH_BYTES];
    setenv ("WM_NVML_SO", library, 1);
    setenv ("WM_FAKE_NVML", "h", 1);
    setenv ("CUDA_VISIBLE_DEVICES", "", 1);
    wm_health_t *health = wm_health_new (5, why);
    assert_non_null (health);
    usleep (20000);
    wm_health_text (health, text);
    assert_string_equal (text, "");
    wm_health_destroy (&health);
    assert_null (health);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (everything_is_told),
        cmocka_unit_test (what_is_not_known_is_absent),
        cmocka_unit_test (errors_of_memory_are_counted_from_the_start),
        cmocka_unit_test (what_cannot_be_opened_says_why),
        cmocka_unit_test (a_gpu_that_hangs_stops_nobody),
    };
    return cmocka_run_group_tests (tests, setup, teardown);
}
