/* test_schema_pins.c - pins: round trip, digest, comparison by name, refusals.  */
#include "schema/wm_pair.h"
#include "schema/base/wm_path.h"
#include "schema/wm_defaults.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static wm_pins_t good (void)
{
    wm_pins_t pins = { .precision = "fp32",
                       .n_output = 4,
                       .n_value = 2304,
                       .batch_hits = 4096,
                       .batch_bytes = WM_RAW_BYTES_MAX,
                       .output = "/data/out: put",
                       .spec = "table: emtrkmichel\nview: full\n" };
    memset (pins.model, 'a', 64);
    memset (pins.wmm, 'b', 64);
    return pins;
}

static void pins_survive (void **state)
{
    wm_pins_t pins = good (), back;
    char text[WM_PINS_BYTES_MAX];
    size_t bytes = wm_pins_print (&pins, text);
    assert_int_equal (wm_pins_parse (&back, text, bytes, NULL), WM_OK);
    assert_memory_equal (&pins, &back, sizeof pins);
    assert_int_equal (wm_pins_compare (&pins, &back, NULL), WM_OK);
    for (size_t cut = 0; cut + 1 < bytes; cut++) /* the last newline alone is no difference */
        if (wm_pins_parse (&back, text, cut, NULL) == WM_OK) /* a shorter spec is another spec */
            assert_int_equal (wm_pins_compare (&pins, &back, NULL), WM_EBATCH);
}

static void the_output_folder_is_not_in_the_digest (void **state)
{
    wm_pins_t pins = good ();
    uint8_t a[16], b[16];
    wm_pins_digest (&pins, a);
    strcpy (pins.output, "/elsewhere");
    wm_pins_digest (&pins, b);
    assert_memory_equal (a, b, 16);
    pins.batch_hits++;
    wm_pins_digest (&pins, b);
    assert_memory_not_equal (a, b, 16);
}

static void max_error_is_a_pin_of_its_own (void **state)
{
    wm_pins_t pins = good (), other = good (), back;
    char text[WM_PINS_BYTES_MAX];
    uint8_t a[16], b[16];
    wm_error_t error;
    assert_true (wm_pins_max_error (&pins) == 0);
    strcpy (pins.precision, "split"), strcpy (other.precision, "split");
    assert_true (wm_pins_max_error (&pins) == 1e-5); /* begun before it could be said */
    strcpy (back.precision, "fast"), back.max_error[0] = 0;
    assert_true (wm_pins_max_error (&back) == 5e-3);
    strcpy (pins.max_error, "2e-06");
    assert_true (wm_pins_max_error (&pins) == 2e-6);
    const size_t bytes = wm_pins_print (&pins, text);
    assert_int_equal (wm_pins_parse (&back, text, bytes, NULL), WM_OK);
    assert_memory_equal (&pins, &back, sizeof pins);
    wm_pins_digest (&pins, a), wm_pins_digest (&other, b);
    assert_memory_equal (a, b, 16);
    assert_int_equal (wm_pins_compare (&other, &pins, NULL), WM_EBATCH);
    strcpy (pins.max_error, "1e-05");
    assert_int_equal (wm_pins_compare (&other, &pins, NULL), WM_OK); /* an old campaign goes on */
    strcpy (pins.max_error, "2e-06");
    strcpy (other.max_error, "1e-05");
    assert_int_equal (wm_pins_compare (&pins, &other, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "max_error '2e-06', not '1e-05'"));
}

/* A campaign begun before batches were cut evenly goes on with its own cut.  */
static void cut_is_a_pin_of_its_own (void **state)
{
    wm_pins_t old = good (), even = good (), back;
    char text[WM_PINS_BYTES_MAX];
    uint8_t a[16], b[16];
    wm_error_t error;
    strcpy (even.cut, "even");
    const size_t bytes = wm_pins_print (&even, text);
    assert_int_equal (wm_pins_parse (&back, text, bytes, NULL), WM_OK);
    assert_memory_equal (&even, &back, sizeof even);
    wm_pins_digest (&old, a), wm_pins_digest (&even, b);
    assert_memory_equal (a, b, 16);
    assert_int_equal (wm_pins_compare (&old, &even, NULL), WM_OK);
    old.batch_hits = WM_DEFAULT_BATCH_GENERAL, even.batch_hits = WM_DEFAULT_BATCH_HITS;
    assert_int_equal (wm_pins_compare (&old, &even, NULL), WM_OK); /* the default then and now */
    old.batch_hits = WM_DEFAULT_BATCH_GENERAL + 1;
    assert_int_equal (wm_pins_compare (&old, &even, NULL), WM_EBATCH);
    old.batch_hits = WM_DEFAULT_BATCH_GENERAL;
    strcpy (old.cut, "even");
    assert_int_equal (wm_pins_compare (&old, &even, NULL), WM_EBATCH);
    *old.cut = 0, old.batch_hits = even.batch_hits;
    assert_int_equal (wm_pins_compare (&even, &old, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "cut 'even', not ''"));
}

/* A campaign begun before it was pinned who judged the model goes on.  */
static void judged_by_is_a_pin_of_its_own (void **state)
{
    wm_pins_t old = good (), judged = good (), back;
    char text[WM_PINS_BYTES_MAX];
    uint8_t a[16], b[16];
    wm_error_t error;
    memset (judged.judged_by, 'j', sizeof judged.judged_by - 1);
    const size_t bytes = wm_pins_print (&judged, text);
    assert_int_equal (wm_pins_parse (&back, text, bytes, NULL), WM_OK);
    assert_memory_equal (&judged, &back, sizeof judged);
    wm_pins_digest (&old, a), wm_pins_digest (&judged, b);
    assert_memory_equal (a, b, 16);
    assert_int_equal (wm_pins_compare (&old, &judged, NULL), WM_OK);
    strcpy (judged.judged_by, "none"), strcpy (back.judged_by, "onnxruntime-1.32.0");
    assert_int_equal (wm_pins_compare (&judged, &back, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "judged_by 'none', not 'onnxruntime-1.32.0'"));
}

static void differences_are_named (void **state)
{
    wm_pins_t pins = good (), other = good ();
    wm_error_t error;
    strcpy (other.precision, "fast");
    assert_int_equal (wm_pins_compare (&pins, &other, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "precision 'fp32', not 'fast'"));
    other = good ();
    strcpy (other.spec, "table: emtrkmichel\nview: own\n");
    assert_int_equal (wm_pins_compare (&pins, &other, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "'view: full', not 'view: own'"));
    /* A patch that the model does not take was never cut; one that it takes counts.  */
    strcpy (pins.spec, "table: t\npatch: [48, 48]\nview: full\n");
    strcpy (other.spec, "table: t\npatch: [32, 32]\nview: full\n");
    assert_int_equal (wm_pins_compare (&pins, &other, NULL), WM_EBATCH);
    pins.n_value = other.n_value = 1024;
    assert_int_equal (wm_pins_compare (&pins, &other, NULL), WM_OK);
    assert_int_equal (wm_pins_compare (&other, &pins, NULL), WM_EBATCH);
    strcpy (other.spec, "table: t\npatch: [32, 32]\nview: own\n");
    assert_int_equal (wm_pins_compare (&pins, &other, NULL), WM_EBATCH);
}

static void changes_are_listed (void **state)
{
    char text[400];
    wm_pins_t pins = good (), other = good ();
    wm_pins_changes (&pins, &other, text, sizeof text);
    assert_string_equal (text, "");
    strcpy (other.precision, "fast"), strcpy (other.max_error, "0.005"); /* which follows */
    strcpy (other.planes, "/p.h5");
    strcpy (other.spec, "table: emtrkmichel\nview: own\ntau_us: 3\n");
    wm_pins_changes (&pins, &other, text, sizeof text);
    assert_string_equal (text, "--precision (was fp32), --planes (was not given), view (was full), "
                               "tau_us (was not given)");
    wm_pins_changes (&other, &pins, text, sizeof text);
    assert_string_equal (text, "--precision (was fast), --planes (was /p.h5), view (was own), "
                               "tau_us (was 3)");
    other = good ();
    memset (other.model, 'c', 64), memset (other.wmm, 'd', 64), other.n_value = 1024;
    wm_pins_changes (&other, &pins, text, sizeof text);
    assert_string_equal (text, "--model (was cccccccccccc)");
    wm_pins_changes (&other, &pins, text, 12);
    assert_string_equal (text, "--model (wa");
}

static void broken_pins_are_refused (void **state)
{
    wm_pins_t pins = good (), back;
    char text[WM_PINS_BYTES_MAX], bad[WM_PINS_BYTES_MAX];
    size_t bytes = wm_pins_print (&pins, text);
    static const char *swap[][2] = { { "n_output: 4", "n_output: 0" },
                                     { "n_output: 4", "n_output: x" },
                                     { "batch_bytes: 4194304", "batch_bytes: 4194305" },
                                     { "precision: fp32", "precision: fp32fp32" },
                                     { "n_value: 2304", "n_valeu: 2304" } };
    for (size_t i = 0; i < sizeof swap / sizeof *swap; i++) {
        char *at = strstr (text, swap[i][0]);
        assert_non_null (at);
        size_t before = (size_t) (at - text), skip = before + strlen (swap[i][0]);
        memcpy (bad, text, before);
        strcpy (bad + before, swap[i][1]);
        strcpy (bad + before + strlen (swap[i][1]), text + skip);
        assert_int_equal (wm_pins_parse (&back, bad, strlen (bad), NULL), WM_EPEER);
    }
    assert_int_equal (wm_pins_parse (&back, text, WM_PINS_BYTES_MAX, NULL), WM_EPEER);
    assert_int_equal (wm_pins_parse (&back, text, bytes, NULL), WM_OK);
}

static void planes_elsewhere_are_pinned (void **state)
{
    static const struct {
        const char *planes, *input, *path;
    } list[] = { { "/p/all.h5", "/d/hits.h5", "/p/all.h5" },
                 { "/p/{stem}.h5:/gauss*", "/d/run.7.h5", "/p/run.7.h5:/gauss*" },
                 { "{dir}/../{stem}-f.h5", "/d/e/hits.h5", "/d/e/../hits-f.h5" },
                 { "{dir}/{stem}{stem}", "/hits", "//hitshits" },
                 { "{dir}/{stem}", ".h5", "./.h5" },
                 { "{dir}/x", "root://h//d/a.h5", "root://h//d/x" } };
    wm_pins_t pins = good (), plain = good (), back;
    uint8_t a[16], b[16];
    char path[PATH_MAX], text[WM_PINS_BYTES_MAX];
    wm_error_t error;
    assert_false (wm_pair_planes (&pins, "/d/hits.h5", path));
    assert_string_equal (path, "");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        strcpy (pins.planes, list[i].planes);
        assert_true (wm_pair_planes (&pins, list[i].input, path));
        assert_string_equal (path, list[i].path);
    }
    memset (text, 'x', 900);
    text[900] = 0;
    strcpy (pins.planes, "{stem}{stem}{stem}{stem}{stem}");
    assert_false (wm_pair_planes (&pins, text, path)); /* 4,500 characters */

    memset (pins.output, 'o', sizeof pins.output - 1); /* the longest pins there may be */
    memset (pins.planes, 'p', sizeof pins.planes - 1);
    memset (pins.channels, 'c', sizeof pins.channels - 1);
    memset (pins.spec, 's', sizeof pins.spec - 1);
    strcpy (pins.hit_time, "ticks");
    static const char *const bad[] = { "", "x", "1 ", "nan", "inf", "1e9", "-1e9" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal (wm_pair_offset (bad[i], pins.hit_offset, &error), WM_EUSAGE);
        assert_int_equal (wm_pair_pedestal (bad[i], pins.pedestal, &error), WM_EUSAGE);
    }
    assert_int_equal (wm_pair_offset ("-0.0", pins.hit_offset, &error), WM_OK);
    assert_string_equal (pins.hit_offset, "");
    assert_int_equal (wm_pair_offset ("-1234.56789e-7", pins.hit_offset, &error), WM_OK);
    assert_string_equal (pins.hit_offset, "-0.000123456789");
    assert_int_equal (wm_pair_pedestal ("9e2", pins.pedestal, &error), WM_OK);
    assert_string_equal (pins.pedestal, "900");
    memset (pins.hit_offset, '1', sizeof pins.hit_offset - 1);
    memset (pins.pedestal, '1', sizeof pins.pedestal - 1);
    const size_t bytes = wm_pins_print (&pins, text);
    assert_true (bytes < WM_PINS_BYTES_MAX);
    assert_int_equal (wm_pins_parse (&back, text, bytes, &error), WM_OK);
    assert_memory_equal (&pins, &back, sizeof pins);
    strcpy (plain.spec, pins.spec), strcpy (plain.output, pins.output);
    wm_pins_digest (&pins, a), wm_pins_digest (&plain, b);
    assert_memory_equal (a, b, 16);
    assert_int_equal (wm_pins_compare (&plain, &pins, &error), WM_EBATCH);
    assert_non_null (
        strstr (error.text, "begun without --planes, and this command gives --planes"));
    assert_int_equal (wm_pins_compare (&pins, &plain, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "was begun with --planes pp"));
    assert_non_null (strstr (error.text, ", which this command lacks"));
}

static void an_input_is_as_new_as_its_planes (void **state)
{
    char folder[] = "/tmp/wm-pair-XXXXXX", path[64], last[PATH_MAX];
    wm_pins_t pins = good ();
    uint64_t size = 7;
    int64_t hits_ns = 7, all_ns = 7;
    assert_non_null (mkdtemp (folder));
    for (int i = 0; i < 3; i++) {
        snprintf (path, sizeof path, "%s/%d", folder, i);
        FILE *file = fopen (path, "w");
        assert_non_null (file);
        fprintf (file, "%.*s", i + 1, "xyz");
        fclose (file);
        const struct timespec when[] = { { 1000 * (i + 1), 0 }, { 1000 * (i + 1), 5 } };
        assert_int_equal (utimensat (AT_FDCWD, path, when, 0), 0);
    }
    snprintf (pins.planes, sizeof pins.planes, "%s/1:/tag", folder);
    snprintf (pins.channels, sizeof pins.channels, "%s/2", folder);
    snprintf (path, sizeof path, "%s/0", folder);
    assert_int_equal (wm_path_stat (path, &size, &hits_ns), 0);
    assert_int_equal (wm_pair_stat (&pins, path, &size, &all_ns), 0);
    assert_int_equal (size, 6);
    assert_true (hits_ns == 1000000000005 && all_ns == 3000000000005);
    assert_true (wm_pair_last (&pins, path, last));
    assert_string_equal (last, pins.channels);
    assert_int_equal (utimensat (AT_FDCWD, path, NULL, 0), 0);
    assert_true (wm_pair_last (&pins, path, last));
    assert_string_equal (last, path);
    snprintf (last, sizeof last, "%s/1", folder);
    assert_int_equal (
        utimensat (AT_FDCWD, last, (struct timespec[]){ { 1, 0 }, { 1L << 32, 0 } }, 0), 0);
    assert_true (wm_pair_last (&pins, path, last));
    assert_string_equal (last, pins.planes);
    pins.planes[0] = 0; /* frames by themselves, and their map */
    assert_int_equal (
        utimensat (AT_FDCWD, path, (struct timespec[]){ { 1000, 0 }, { 1000, 5 } }, 0), 0);
    assert_int_equal (wm_path_stat (path, &size, &hits_ns), 0);
    assert_true (wm_pair_last (&pins, path, last));
    assert_string_equal (last, pins.channels);
    assert_int_equal (wm_pair_stat (&pins, path, &size, &all_ns), 0);
    assert_true (size == 4 && all_ns == 3000000000005);
    pins.channels[0] = 0;
    assert_false (wm_pair_last (&pins, path, last));
    assert_int_equal (wm_pair_stat (&pins, path, &size, &all_ns), 0);
    assert_true (size == 1 && all_ns == hits_ns);
    snprintf (pins.planes, sizeof pins.planes, "%s/none", folder);
    assert_int_equal (wm_pair_stat (&pins, path, &size, &all_ns), -1);
    assert_true (size == 1);
    for (int i = 0; i < 3; i++) {
        snprintf (path, sizeof path, "%s/%d", folder, i);
        unlink (path);
    }
    rmdir (folder);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (pins_survive),
        cmocka_unit_test (the_output_folder_is_not_in_the_digest),
        cmocka_unit_test (max_error_is_a_pin_of_its_own),
        cmocka_unit_test (judged_by_is_a_pin_of_its_own),
        cmocka_unit_test (cut_is_a_pin_of_its_own),
        cmocka_unit_test (planes_elsewhere_are_pinned),
        cmocka_unit_test (an_input_is_as_new_as_its_planes),
        cmocka_unit_test (differences_are_named),
        cmocka_unit_test (changes_are_listed),
        cmocka_unit_test (broken_pins_are_refused),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
