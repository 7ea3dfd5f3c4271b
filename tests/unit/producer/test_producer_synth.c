/* test_producer_synth.c - synthetic events: reproducible, well-formed, plausible.  */
#include "producer/synth/wm_synth.h"
#include "producer/verbs.h"
#include "schema/base/wm_fault.h"
#include "tests/unit/unit.h"

#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/wm_synth_XXXXXX";

static void path_of (char path[256], const char *name)
{
    snprintf (path, 256, "%s/%s", folder, name);
}

static int synth (const char *name, const char *events, const char *seed)
{
    char path[256];
    path_of (path, name);
    char *argv[] = { "synth",       "--output", path, "--events", (char *) events, "--seed",
                     (char *) seed, "--tpcs",   "1",  "--hits",   "3000",          NULL };
    return wm_verb_main (&wm_verb_synth, 11, argv);
}

/* Reads a 1-D or (n,3) dataset of a file as doubles; *rows counts its rows.  */
static double *read_all (const char *name, const char *dataset, hsize_t *rows)
{
    char path[256];
    path_of (path, name);
    hid_t file = H5Fopen (path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t data = H5Dopen2 (file, dataset, H5P_DEFAULT), space = H5Dget_space (data);
    hsize_t size[2] = { 0, 1 };
    H5Sget_simple_extent_dims (space, size, NULL);
    double *value = malloc ((size[0] * size[1] + 1) * sizeof *value);
    assert_true (H5Dread (data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0);
    H5Sclose (space);
    H5Dclose (data);
    H5Fclose (file);
    *rows = size[0];
    return value;
}

static void events_follow_from_seed_and_number (void **state)
{
    assert_int_equal (synth ("a.h5", "2", "9"), WM_EXIT_OK);
    assert_int_equal (synth ("b.h5", "1", "9"), WM_EXIT_OK);
    assert_int_equal (synth ("c.h5", "1", "10"), WM_EXIT_OK);
    hsize_t a_rows, b_rows, c_rows;
    double *a = read_all ("a.h5", "hit_table/time", &a_rows);
    double *b = read_all ("b.h5", "hit_table/time", &b_rows);
    double *c = read_all ("c.h5", "hit_table/time", &c_rows);
    assert_true (a_rows > b_rows && b_rows > 200);
    assert_memory_equal (a, b, b_rows * sizeof *a); /* event 1 is the same in both */
    assert_true (c_rows != b_rows || memcmp (b, c, b_rows * sizeof *b));
    free (a);
    free (b);
    free (c);
}

static void tables_agree (void **state)
{
    hsize_t rois, values, hits, n;
    double *count = read_all ("a.h5", "roi_table/n", &rois), sum = 0;
    free (read_all ("a.h5", "roi_value/adc", &values));
    for (hsize_t i = 0; i < rois; i++)
        sum += count[i];
    assert_true (sum == (double) values);
    free (count);
    double *wire = read_all ("a.h5", "hit_table/wire", &hits);
    double *plane = read_all ("a.h5", "hit_table/plane", &n);
    double *time = read_all ("a.h5", "hit_table/time", &n);
    double *truth = read_all ("a.h5", "hit_table/truth", &n);
    double label[WM_TRUTH_END] = { 0 };
    for (hsize_t i = 0; i < hits; i++) {
        assert_true (wire[i] < wm_plane_wires[(int) plane[i]]);
        assert_true (time[i] > 0 && time[i] < WM_TICKS);
        label[(int) truth[i]]++;
    }
    assert_true (label[WM_TRACK] > label[WM_MICHEL] && label[WM_NONE] > 0);
    free (wire);
    free (plane);
    free (time);
    free (truth);
    double *channel = read_all ("a.h5", "wire_table/channel", &n);
    assert_int_equal (n, 1148 + 1148 + 480);
    assert_true (channel[0] == channel[800] && channel[1148] == 800); /* U is wrapped */
    free (channel);
}

/* A muon on its way loses what the tables say, with a tail to high losses.  */
static void ionisation_is_plausible (void **state)
{
    wm_deposits_t deposits = { 0 };
    wm_random_t random;
    wm_random_seed (&random, 1, 1);
    wm_synth_physics (&random, 200, 6, &deposits);
    double sum = 0, high = 0, tracks = 0;
    for (size_t i = 0; i < deposits.count; i++)
        if (deposits.deposit[i].truth == WM_TRACK) {
            sum += (double) deposits.deposit[i].charge / 0.15;
            high += deposits.deposit[i].charge > 2 * 0.15;
            tracks++;
        }
    assert_true (tracks > 10000);
    assert_true (sum / tracks > 0.8 && sum / tracks < 1.5); /* near the MIP */
    assert_true (high / tracks > 0.005 && high / tracks < 0.15);
    free (deposits.deposit);
}

static void bad_command_lines_are_refused (void **state)
{
    static const char *const bad[][3] = { { "--events", "0", NULL },
                                          { "--tpcs", "7", NULL },
                                          { "--events", "x", NULL },
                                          { "--nonsense", "1", NULL } };
    char path[256];
    path_of (path, "never.h5");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *argv[] = { "synth", "--output", path, (char *) bad[i][0], (char *) bad[i][1], NULL };
        assert_int_equal (wm_verb_main (&wm_verb_synth, 5, argv), WM_EXIT_USAGE);
    }
    char missing[256];
    path_of (missing, "no/folder.h5");
    char *nowhere[] = { "synth", "--output", missing, NULL };
    assert_int_equal (wm_verb_main (&wm_verb_synth, 3, nowhere), WM_EXIT_USAGE);
    assert_int_equal (access (path, F_OK), -1);
}

static int remove_folder (void **state)
{
    static const char *const names[] = { "a.h5", "b.h5", "c.h5" };
    char path[256];
    for (size_t i = 0; i < 3; i++) {
        path_of (path, names[i]);
        unlink (path);
    }
    return rmdir (folder);
}

int main (void)
{
    if (!mkdtemp (folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (events_follow_from_seed_and_number),
        cmocka_unit_test (tables_agree),
        cmocka_unit_test (ionisation_is_plausible),
        cmocka_unit_test (bad_command_lines_are_refused),
    };
    return cmocka_run_group_tests (tests, NULL, remove_folder);
}
