/* test_kernels_spec.c - specifications: presets, defaults, round trips, refusals by name.  */
#include "kernels/patch/wm_spec_private.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static wm_spec_t parsed (const char *text)
{
    wm_spec_t spec;
    wm_error_t error = { 0 };
    if (wm_spec_parse (&spec, text, strlen (text), "test", &error))
        fail_msg ("%s", error.text);
    return spec;
}

/* Refused, with these words in the text.  */
static void refused (const char *text, const char *words)
{
    wm_spec_t spec, before;
    wm_error_t error = { 0 };
    memset (&spec, 7, sizeof spec);
    before = spec;
    assert_int_equal (wm_spec_parse (&spec, text, strlen (text), "my.yaml", &error), WM_EBATCH);
    assert_memory_equal (&spec, &before, sizeof spec);
    if (!strstr (error.text, words) || !strstr (error.text, "my.yaml"))
        fail_msg ("'%s' lacks '%s'", error.text, words);
}

static void keys_of_a_users_file_are_read (void **state)
{
    wm_spec_t spec = parsed ("# a comment\n"
                             "table: scores\n"
                             "patch: [44, 40]   # wires, drift bins\n"
                             "drift_window: 4\n"
                             "downscale: maxmean\n"
                             "view: own\n"
                             "adc:\n  - -50\n  - 150\n"
                             "out: [-5, 15]\n"
                             "amplitude: [0.02, 0.03]\n"
                             "lifetime: table\n"
                             "tau_us: 35000\n"
                             "t0_us: -2.5\n"
                             "tick_us: 0.5\n"
                             "trigger_offset: input\n"
                             "n_wire: 800\n"
                             "labels: # in lists too\n"
                             "  # of\n  - track # one\n  - em\n  - michel # three\n");
    assert_string_equal (spec.table, "scores");
    assert_int_equal (spec.patch_wire, 44);
    assert_int_equal (spec.patch_bin, 40);
    assert_int_equal (spec.drift_window, 4);
    assert_int_equal (spec.downscale, WM_MAXMEAN);
    assert_int_equal (spec.view, WM_OWN_VIEW);
    assert_true (spec.adc_min == -50 && spec.adc_max == 150);
    assert_true (spec.n_amplitude == 2 && spec.amplitude[1] == 0.03 && spec.amplitude[2] == 0);
    assert_int_equal (spec.lifetime, WM_LIFETIME_TABLE);
    assert_true (spec.tau_us == 35000 && spec.t0_us == -2.5 && spec.tick_us == 0.5);
    assert_true (isnan (spec.trigger_offset));
    assert_int_equal (spec.n_wire, 800);
    assert_int_equal (spec.n_label, 3);
    assert_string_equal (spec.label[2], "michel");
}

static void keys_left_out_are_protodune_2021 (void **state)
{
    wm_spec_t preset, spec = parsed ("view: full\n");
    assert_int_equal (wm_spec_preset (&preset, "protodune-2021", NULL), WM_OK);
    assert_memory_equal (&spec, &preset, sizeof spec);
    assert_true (spec.amplitude[2] == 1.3636 && spec.lifetime == WM_LIFETIME_EXP);
    assert_string_equal (spec.label[3], "michel");
    assert_true (wm_spec_zero (&spec) == 0);
}

static void presets_differ_where_they_should (void **state)
{
    wm_spec_t spec;
    wm_error_t error = { 0 };
    assert_int_equal (wm_spec_preset (&spec, "dunefd-44x48", NULL), WM_OK);
    assert_true (spec.patch_wire == 44 && spec.patch_bin == 48 && spec.view == WM_OWN_VIEW);
    assert_string_equal (spec.label[2], "michel");
    assert_int_equal (wm_spec_preset (&spec, "protodune", &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "protodune-2021"));
}

static void canonical_text_reads_back_the_same (void **state)
{
    const char *texts[] = {
        "view: full",
        "adc: [-20, 30]\nout: [-0.1, 0.3]\namplitude: [0.1, 3, 1e-7]\nn_wire: 1148\ntau_us: 3e4",
        "view: own\npatch: [1, 512]\ndrift_window: 64\nlabels: []\nlifetime: none\ntick_us: 0.5125",
        "points: windows\npatch: [1, 16384]\nstep_bin: 150\ntags: [a, b]\nchannels: 2",
        "points: spacepoints\nchannels: 3",
        "points: windows\nresult: image\npatch: [256, 512]\nstep_wire: 192",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        wm_spec_t spec = parsed (texts[i]), back;
        char text[4096], again[4096];
        size_t n = wm_spec_print (&spec, text, sizeof text);
        assert_int_equal (n, strlen (text));
        back = parsed (text);
        assert_memory_equal (&spec, &back, sizeof spec);
        wm_spec_print (&back, again, sizeof again);
        assert_string_equal (text, again);
    }
    char text[4096];
    wm_spec_t spec = parsed ("adc: [-0.1, 30]");
    wm_spec_print (&spec, text, sizeof text);
    assert_non_null (
        strstr (text, "adc: [-0.1, 30]\n")); /* the shortest, not -0.10000000000000001 */
    assert_non_null (strstr (text, "tau_us: input\n"));
}

/* The commented file of a preset is that preset; no line is wider than a terminal.  */
static void the_commented_text_reads_back_the_same (void **state)
{
    static const char *const presets[] = { "protodune-2021", "dunefd-44x48", "waveform-200" };
    for (int i = 0; i < 3; i++) {
        wm_spec_t preset, back;
        char text[8192];
        assert_int_equal (wm_spec_preset (&preset, presets[i], NULL), WM_OK);
        const size_t n = wm_spec_print_page (&preset, presets[i], text, sizeof text);
        assert_true (n == strlen (text) && n < sizeof text - 1);
        back = parsed (text);
        assert_memory_equal (&preset, &back, sizeof back);
        for (const char *line = text, *end; (end = strchr (line, '\n')); line = end + 1)
            if (end - line > 80)
                fail_msg ("wide: %.*s", (int) (end - line), line);
    }
}

/* What is understood, with units; what the file leaves out is marked.  */
static void values_are_explained_in_units (void **state)
{
    static const char yaml[] = "patch: [32, 40]\ntick_us: 0.5\nadc: [-20, 30]\nt0_us: input\n";
    wm_spec_t spec;
    uint32_t given;
    char text[8192];
    assert_int_equal (wm_spec_parse_user (&spec, yaml, strlen (yaml), "my.yaml", &given, NULL),
                      WM_OK);
    assert_true (wm_spec_gives (given, "patch") && !wm_spec_gives (given, "labels"));
    wm_spec_explain (&spec, given, text, sizeof text);
    static const char *const lines[] = {
        "  patch           32 wires x 40 drift bins\n",
        "  adc             -20 to 30 ADC after amplitude\n",
        "  drift_window    6 ticks a drift bin (default)\n",
        "  tau_us          as each input states it, in us (def",
        "  t0_us           0 us after the trigger\n",
        "becomes the pixel value 3. A patch covers 240 ticks, 120 us"
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr (text, lines[i]))
            fail_msg ("'%s' is not in:\n%s", lines[i], text);
    static const char none[] = "view: full";
    assert_int_equal (wm_spec_parse_user (&spec, none, strlen (none), "my.yaml", &given, NULL),
                      WM_OK);
    wm_spec_explain (&spec, given, text, sizeof text);
    assert_non_null (strstr (text, "48 wires x 48 drift bins (or the model's own size)"));
}

static void the_longest_text_fits (void **state)
{
    wm_spec_t spec = parsed ("view: full");
    char text[4096];
    spec.n_amplitude = WM_SPEC_AMPLITUDES_MAX;
    for (int i = 0; i < WM_SPEC_AMPLITUDES_MAX; i++)
        spec.amplitude[i] = 1.2345678901234567e-300;
    spec.n_label = WM_SPEC_LABELS_MAX;
    for (int i = 0; i < WM_SPEC_LABELS_MAX; i++)
        snprintf (spec.label[i], sizeof spec.label[i], "%031u", (unsigned) i % 64);
    assert_true (wm_spec_print (&spec, text, sizeof text) < sizeof text - 1);
    wm_spec_t back = parsed (text);
    assert_memory_equal (&spec, &back, sizeof spec);
}

static void unknown_keys_name_the_nearest (void **state)
{
    refused ("table: t\ndrift_windw: 6\n",
             ":2: unknown key 'drift_windw'; the nearest known one is "
             "'drift_window'");
    refused ("amplitudes: [1]", "'amplitude'");
    refused ("Out: [1, 2]", "'out'");
    refused ("PATCH: [1, 2]", "unknown key 'PATCH'; the nearest known one is 'patch'");
    refused ("view: full\nview: own", "occurs twice");
}

static void values_out_of_range_are_refused (void **state)
{
    refused ("patch: [48]", "1 value, it takes 2, such as [48, 48]");
    refused ("patch: 48", "takes a list");
    refused ("patch: [48, 0]", "from 1 to 16384");
    refused ("view: full\npatch: [513, 48]",
             ":2: patch: 513 x 48: around hits each is at most 512");
    refused ("patch: [-1, 48]", "from 1 to 16384");
    refused ("patch: [4.5, 48]", "from 1 to 16384");
    refused ("drift_window: 65", "from 1 to 64");
    refused ("drift_window: [6]", "one value");
    refused ("downscale: median", "mean, maxpool, maxmean");
    refused ("adc: [30, -10]", "not below");
    refused ("adc: [1, 30]", "does not contain 0");
    refused ("adc: [nan, 30]", "not a finite number");
    refused ("out: [-5, 1e999]", "not a finite number");
    refused ("out: [-1e300, 1e300]", "beyond float32");
    refused ("amplitude: []", "0 values");
    refused ("amplitude: [1, 0]", "not above 0");
    refused ("amplitude: [1, 2, 3, 4, 5, 6, 7, 8, 9]", "9 values");
    refused ("tau_us: -1", "not above 0");
    refused ("t0_us: soon", "not a finite number");
    refused ("n_wire: 0", "whole number");
    refused ("labels: [em, em]", "occurs twice");
    refused ("labels: [a/b]", "not a name");
    refused ("table: ''", "not a name");
    refused ("table: held", "the output already has a table");
    refused ("view: full\nlabels: [em, status]",
             "my.yaml:2: labels: the output already has a column 'status'");
    refused ("tick_us: 500 ns", "'500 ns' is not a finite number, such as 0.5 (without a unit)");
    refused ("view: full\nadc: [1, 30]", "my.yaml:2: adc");
    refused ("\nview: own\nadc: [-20, 30]",
             "my.yaml:2: view: own is defined only where 0 ADC becomes 0");
}

/* Keys that came later are printed only where they differ: texts of earlier campaigns stay.  */
static void points_and_their_keys (void **state)
{
    char text[4096];
    wm_spec_t spec = parsed ("points: hits\nstep_wire: patch\nchannels: 1\ntags: []");
    wm_spec_print (&spec, text, sizeof text);
    for (uint32_t i = 15; i < WM_SPEC_KEYS; i++)
        assert_null (strstr (text, wm_spec_keys[i].name));
    spec = parsed ("points: windows\npatch: [1, 200]\nstep_bin: 150\n");
    assert_true (spec.points == WM_POINTS_WINDOWS && spec.step_bin == 150 && !spec.step_wire);
    assert_true (wm_spec_values (&spec) == 200);
    wm_spec_print (&spec, text, sizeof text);
    assert_non_null (strstr (text, "points: windows\nstep_bin: 150\n"));
    assert_int_equal (wm_spec_preset (&spec, "waveform-200", NULL), WM_OK);
    assert_true (wm_spec_zero (&spec) == 0);
    refused ("points: wires", "hits, spacepoints, windows");
    refused ("view: full\nstep_wire: 3", ":2: step_wire and step_bin go with points: windows");
    refused ("points: windows\nstep_bin: 0", "whole number");
    refused ("tags: [a]", "tags: they go with points: windows");
    refused ("points: windows\ntags: [a, b]", ":2: channels: 1, but 2 tags");
    refused ("points: windows\nchannels: 2", "channels: 2, but 0 tags");
    refused ("channels: 9", "from 1 to 8");
    refused ("points: spacepoints", "needs channels: 3");
    refused ("channels: 3", "a hit has 1");
    refused ("points: windows\nview: own",
             ":2: view: own is cut around hits; with points: windows");
    refused ("tags: a", "takes a list, such as [loose_lf, mp2_roi]");
    refused ("points: windows\nlabels: [wire]", "already has a column 'wire'");
}

static void images_come_from_windows_without_gaps (void **state)
{
    wm_spec_t spec = parsed ("points: windows\nresult: image\nstep_wire: 48\nstep_bin: 48");
    assert_true (spec.result == WM_RESULT_IMAGE);
    spec = parsed ("result: scores");
    assert_true (spec.result == WM_RESULT_SCORES);
    refused ("result: images", "scores, image");
    refused ("view: full\nresult: image", ":2: result: image goes with points: windows");
    refused ("points: windows\nresult: image\nstep_wire: 49", ":3: step_wire: 49 leaves gaps");
    refused ("points: windows\nresult: image\nstep_bin: 60", ":3: step_bin: 60 leaves gaps");
    refused ("table: '12'\npoints: windows\nresult: image", "'12' could be an event's number");
}

static void what_is_no_flat_mapping_is_refused (void **state)
{
    refused ("", "flat list");
    refused ("- a\n- b\n", "flat list");
    refused ("view: full\n---\nview: own\n", "flat list");
    refused ("adc: {min: 1}\n", "nothing nested");
    refused ("adc: [[1, 2], 3]\n", "nothing nested");
    refused ("out: &a [0, 1]\nadc: *a\n", "nothing nested");
    refused ("[a, b]: c\n", "a list where a key should be");
    refused ("view: full\nadc: [1, 2\nout: [0, 1]\n", "my.yaml:2: not YAML: the list is not ended");
    refused ("adc:\n\t- 1\n\t- 2\n", "my.yaml:2: not YAML: the line has a tab; write spaces");
    refused ("view: full\nadc: \xff\n", "not YAML: byte 16 is not UTF-8");
    refused ("# nothing\n", "the file is empty");
    refused ("view:own\n", "a space behind the colon");
    refused ("table: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
             "64 bytes");
    char *large = malloc (70000);
    memset (large, '#', 69999);
    large[69999] = 0;
    refused (large, "too many for a specification");
    free (large);
}

/* 20 / 200 is not exact in binary; the level must be all the same.  */
static void a_zero_level_of_almost_nothing_is_zero (void **state)
{
    wm_spec_t spec = parsed ("adc: [-50, 150]\nout: [-5, 15]\nview: own");
    assert_true (wm_spec_zero (&spec) == 0);
    spec = parsed ("adc: [-30, 70]\nout: [-0.3, 0.7]\nview: own");
    assert_true (wm_spec_zero (&spec) == 0);
    spec = parsed ("adc: [-20, 30]\nout: [-5, 15]");
    assert_true (fabsf (wm_spec_zero (&spec) - 3) < 1e-6f);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (keys_of_a_users_file_are_read),
        cmocka_unit_test (keys_left_out_are_protodune_2021),
        cmocka_unit_test (presets_differ_where_they_should),
        cmocka_unit_test (canonical_text_reads_back_the_same),
        cmocka_unit_test (the_commented_text_reads_back_the_same),
        cmocka_unit_test (values_are_explained_in_units),
        cmocka_unit_test (the_longest_text_fits),
        cmocka_unit_test (unknown_keys_name_the_nearest),
        cmocka_unit_test (values_out_of_range_are_refused),
        cmocka_unit_test (points_and_their_keys),
        cmocka_unit_test (images_come_from_windows_without_gaps),
        cmocka_unit_test (what_is_no_flat_mapping_is_refused),
        cmocka_unit_test (a_zero_level_of_almost_nothing_is_zero),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
