/* test_producer_joined.c - hits and planes in files of their own: joined, and each refusal.  */
#include "producer/layouts/wm_layout.h"
#include "schema/wm_defaults.h"
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { CHANNELS = 4, TICKS = 30 };
static wm_spec_t spec;
static wm_event_t event;

/* Returns the path of a file of this set. all_make makes a new set, because HDF5 refuses to replace
   a file that a failed test left open.  */
static unsigned set;
static const char *own_path (const char *name)
{
    char numbered[64];
    snprintf (numbered, sizeof numbered, "%u-%s", set, name);
    return test_path (numbered);
}

static void map_make (const char *text)
{
    FILE *file = fopen (own_path ("map.csv"), "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

/* Channel 3 is wrapped: wires 2 of plane 0 and 0 of plane 1; channel 9 has no wire; wire 5 of plane
   0 is of channel 8, which the frame lacks.  */
static const char usual_map[] = "channel,cryostat,tpc,plane,wire\n1,0,0,0,0\n2,0,0,0,1\n3,0,0,0,2\n"
                                "3,0,0,1,0\r\n8,0,0,0,5\n9,0,0,-1,-1\n40,0,7,0,3\n";

/* Frame 5 of channels 3, 1, 9, 2, its first column is tick 10.  */
static void frames_make (void)
{
    static const int channel[CHANNELS] = { 3, 1, 9, 2 };
    static const double info[] = { 1e6, 500, 10 };
    float adc[CHANNELS][TICKS] = { { 0 } };
    adc[0][5] = 7, adc[0][6] = -1, adc[0][29] = 2; /* ticks 15, 16, 39 */
    adc[1][0] = 3;
    adc[2][1] = 99; /* of no wire */
    hid_t file = H5Fcreate (own_path ("frames.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_f32 (file, "5/frame_gauss", CHANNELS, TICKS, &adc[0][0]);
    put_i32 (file, "5/channels_gauss", CHANNELS, 0, channel);
    put_f64 (file, "5/tickinfo_gauss", 3, info);
    put_i32 (file, "notes/x", CHANNELS, 0, channel); /* no frame */
    H5Fclose (file);
}

/* Rows: two on signal, one on a fraction of a wire, one off the map, one without a frame, one on a
   channel that the frame lacks, one in a TPC that it has nothing of.  */
static void hits_make (void)
{
    static const int id[][3] = { { 1, 0, 5 }, { 1, 0, 5 }, { 1, 0, 5 }, { 1, 0, 5 },
                                 { 1, 0, 6 }, { 1, 0, 5 }, { 1, 0, 5 } };
    static const int tpc[] = { 0, 0, 0, 0, 0, 0, 7 }, plane[] = { 0, 1, 0, 0, 0, 0, 0 },
                     hit_id[] = { 70, 71, 72, 73, 74, 75, 76 };
    static const float wire[] = { 2, 0, 1.5f, 3, 0, 5, 3 }, time[] = { 15, 15.5f, 1, 2, 3, 4, 5 };
    hid_t file = H5Fcreate (own_path ("hits.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_i32 (file, "hit_table/event_id", 7, 3, &id[0][0]);
    put_i32 (file, "hit_table/hit_id", 7, 1, hit_id);
    put_i32 (file, "hit_table/tpc", 7, 1, tpc);
    put_i32 (file, "hit_table/plane", 7, 1, plane);
    put_f32 (file, "hit_table/wire", 7, 1, wire);
    put_f32 (file, "hit_table/time", 7, 1, time);
    H5Fclose (file);
}

static wm_reader_t *joined_open (const char *planes, const char *hit_time, wm_error_t *error)
{
    char hits[160], frames[200], map[160];
    snprintf (hits, sizeof hits, "%s", own_path ("hits.h5"));
    snprintf (frames, sizeof frames, "%s%s", own_path ("frames.h5"), planes);
    snprintf (map, sizeof map, "%s", own_path ("map.csv"));
    const wm_reader_pair_t pair = { .planes = frames, .channels = map, .hit_time = hit_time };
    wm_spec_preset (&spec, WM_DEFAULT_SPEC, NULL);
    return wm_reader_open_pair (hits, &pair, &spec, error);
}

static void all_make (void)
{
    set++;
    map_make (usual_map);
    frames_make ();
    hits_make ();
}

static void hits_and_planes_are_joined (void **state)
{
    wm_error_t error;
    all_make ();
    wm_reader_t *reader = joined_open ("", "", &error);
    assert_non_null (reader);
    assert_string_equal (reader->layout->name, "joined");
    assert_int_equal (wm_reader_n_event (reader), 2); /* the second without a frame */
    assert_int_equal (wm_reader_n_missing (reader), 1);
    assert_int_equal (wm_reader_n_row (reader), 7);
    for (int again = 0; again < 2; again++) /* counts do not add up */
        assert_int_equal (wm_reader_event (reader, 0, &event, &error), WM_OK);
    assert_true (event.run == 1 && event.event == 5 && event.n_tick == 40 && event.tick_us == 0.5);
    assert_int_equal (event.n_plane, 2);
    assert_int_equal (event.plane[0].n_wire, 6);
    assert_int_equal (event.plane[1].n_wire, 1);
    assert_int_equal (event.n_roi, 5);
    assert_true (event.roi[0].wire == 0 && event.roi[0].tick == 10 && event.roi[0].count == 1);
    assert_true (event.roi[1].wire == 2 && event.roi[1].tick == 15 && event.roi[1].count == 2);
    assert_true (event.roi[2].tick == 39 && event.roi[3].plane == 1 && event.roi[3].wire == 0);
    assert_int_equal (event.roi[1].value, event.roi[3].value); /* a wrapped channel's samples */
    assert_true (event.sample[event.roi[3].value] == 7);
    assert_int_equal (event.n_hit, 6);
    static const int wire[] = { 2, 0, -1, -1, 5, 3 }, row[] = { 0, 1, 2, 3, 5, 6 };
    for (int i = 0; i < 6; i++)
        assert_true (event.hit[i].wire == wire[i] && (int) event.hit[i].row == row[i]);
    assert_int_equal (event.n_bad_channel_hit, 2); /* on channels 8 and 40 */
    assert_non_null (strstr (wm_reader_unmatched (reader), "1 hit of 1 event without planes in"));
    assert_non_null (strstr (wm_reader_unmatched (reader), "2 hits in 1 event (first 1:0:5) on"));
    assert_int_equal (wm_reader_event (reader, 1, &event, &error), WM_OK);
    assert_true (event.is_missing && event.event == 6 && event.n_hit == 1 && event.n_plane == 0);
    assert_int_equal (event.hit[0].row, 4);
    wm_reader_destroy (&reader);

    spec.tick_us = NAN;
    reader = joined_open (":/gau*", "us", &error);
    assert_non_null (reader);
    assert_int_equal (wm_reader_event (reader, 0, &event, &error), WM_OK);
    assert_true (event.hit[0].time == 30 && event.hit[1].time == 31); /* too few for the unit */
    assert_non_null (strstr (wm_reader_joined (reader), "hit_table/time read in us, ticks of 0.5"));
    wm_reader_destroy (&reader);
}

static void channels_that_the_map_lacks_are_named (void **state)
{
    wm_error_t error;
    static const char *const maps[][2] = {
        { "channel,cryostat,tpc,plane,wire\n3,0,0,0,2\n9,0,0,-1,-1\n",
          "; 2 channels of frame 5 (1, 2) are not in " },
        { "channel,cryostat,tpc,plane,wire\n9,0,0,-1,-1\n3,0,0,0,2\n1,0,0,0,1\n",
          "; 1 channel of frame 5 (2) is not in " },
        { "channel,cryostat,tpc,plane,wire\n8,0,0,0,2\n",
          "; 4 channels of frame 5 (1, 2, 3, ...) are not in " },
    };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        all_make ();
        map_make (maps[i][0]);
        wm_reader_t *reader = joined_open ("", "", &error);
        assert_non_null (reader);
        assert_int_equal (wm_reader_event (reader, 0, &event, &error), WM_OK);
        const char *text = wm_reader_unmatched (reader);
        if (!strstr (text, maps[i][1]) || !strstr (text, "plane and wire -1 where it has none"))
            fail_msg ("'%s' is not in: %s", maps[i][1], text);
        wm_reader_destroy (&reader);
    }
}

static void refused (const char *planes, const char *text)
{
    wm_error_t error = { 0 };
    wm_reader_t *reader = joined_open (planes, "", &error);
    if (reader)
        assert_int_equal (wm_reader_event (reader, 0, &event, &error), WM_EBATCH);
    assert_int_equal (error.fault, WM_EBATCH);
    if (!strstr (error.text, text))
        fail_msg ("'%s' is not in: %s", text, error.text);
    wm_reader_destroy (&reader);
}

static void frames_that_are_none_are_refused (void **state)
{
    static const double good[] = { 0, 500, 10 }, negative[] = { 0, 500, -1 },
                        fraction[] = { 0, 500, 0.5 }, beyond[] = { 0, 500, 16777200 },
                        us[] = { 0, 0.5, 0 }, seconds[] = { 0, 5e8, 0 }, nan_tick[] = { 0, NAN, 0 };
    static const int channel[] = { 3, 1, 9, 2, 4 }, twice[] = { 3, 1, 3, 2 };
    static const int64_t wide[] = { 3, 1, (1LL << 32) + 3, 2 };
    static const float adc[CHANNELS * TICKS], cube[8];
    const struct {
        const char *text, *name;
        hid_t type;
        hsize_t n, width;
        const void *from;
    } list[] = {
        { "the first column is tick -1,", "tickinfo", H5T_NATIVE_DOUBLE, 3, 0, negative },
        { "the first column is tick 0.5,", "tickinfo", H5T_NATIVE_DOUBLE, 3, 0, fraction },
        { "the first column is tick 1.67772e+07,", "tickinfo", H5T_NATIVE_DOUBLE, 3, 0, beyond },
        { "a tick of 0.5; Wire-Cell writes nano", "tickinfo", H5T_NATIVE_DOUBLE, 3, 0, us },
        { "a tick of 5e+08;", "tickinfo", H5T_NATIVE_DOUBLE, 3, 0, seconds },
        { "a tick of nan;", "tickinfo", H5T_NATIVE_DOUBLE, 3, 0, nan_tick },
        { "and 2 values of tickinfo", "tickinfo", H5T_NATIVE_DOUBLE, 2, 0, good },
        { "with 5 channels", "channels", H5T_NATIVE_INT, 5, 0, channel },
        { "channels_gauss has channel 3 twice", "channels", H5T_NATIVE_INT, 4, 0, twice },
        { "channels_gauss row 2: 4294967299 does not fit 32 bits", "channels", H5T_NATIVE_INT64, 4,
          0, wide },
        { "does not contain integers", "channels", H5T_NATIVE_FLOAT, 4, 0, adc },
        { "is of shape (4, 1)", "frame", H5T_NATIVE_FLOAT, 4, 0, adc },
        { "is of shape (8, 1)", "frame", H5T_NATIVE_FLOAT, 8, 0, cube },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char name[64];
        all_make ();
        hid_t file = H5Fopen (own_path ("frames.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
        snprintf (name, sizeof name, "5/%s_gauss", list[i].name);
        replace (file, name, list[i].type, list[i].n, list[i].width, list[i].from);
        H5Fclose (file);
        refused ("", list[i].text);
    }
    all_make ();
    hid_t file = H5Fopen (own_path ("frames.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Lmove (file, "5/channels_gauss", file, "away", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external ("/etc/passwd", "x", file, "5/channels_gauss", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose (file);
    refused ("", "channels_gauss is a link: refused");
    file = H5Fopen (own_path ("frames.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Ldelete (file, "5", H5P_DEFAULT);
    H5Lcreate_external ("/etc/passwd", "x", file, "5", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose (file);
    refused ("", "group 5 has no dataset frame_*");
    all_make ();
    file = H5Fopen (own_path ("frames.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    put_i32 (file, "05/x", CHANNELS, 0, channel);
    H5Fclose (file);
    refused ("", "groups 05 and 5 are both frame 5: remove one of them");
    file = H5Fopen (own_path ("frames.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Ldelete (file, "5", H5P_DEFAULT);
    H5Fclose (file);
    refused ("", "group 05 is not named as Wire-Cell names a frame: rename it 5");
    all_make ();
    refused (":/raw", "group 5 has no dataset frame_raw");
    refused (":/a-tag-of-more-than-sixty-three-characters-is-longer-than-Wire-Cell-ever-wrote",
             "a tag has at most 63 characters");
}

static void frames_of_two_kinds_of_ticks_are_refused (void **state)
{
    static const int channel[] = { 17 };
    static const double info[] = { 0, 512, 0 };
    static const float adc[TICKS];
    char name[64];
    all_make ();
    hid_t file = H5Fopen (own_path ("frames.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    put_f32 (file, "5/frame_other", 1, TICKS, adc);
    put_i32 (file, "5/channels_other", 1, 0, channel);
    put_f64 (file, "5/tickinfo_other", 3, info);
    H5Fclose (file);
    refused ("", "frame_gauss has ticks of 500 ns, frame_other of 512");
    file = H5Fopen (own_path ("frames.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    for (int i = 0; i < 64; i++) {
        snprintf (name, sizeof name, "5/frame_%d", i);
        put_f32 (file, name, 1, TICKS, adc);
    }
    H5Fclose (file);
    refused ("", "group 5 has too many frames");
}

static void maps_are_read_by_their_head (void **state)
{
    wm_error_t error;
    all_make ();
    map_make ("\xef\xbb\xbf wire ,\tname,plane,tpc,cryostat,channel\n# x\n\n"
              "0,a,0,0,0,1\n 2 ,b, 0 ,0,0,3\n#\n");
    wm_reader_t *reader = joined_open ("", "", &error);
    assert_non_null (reader);
    assert_int_equal (wm_reader_event (reader, 0, &event, &error), WM_OK);
    assert_true (event.n_plane == 1 && event.plane[0].n_wire == 3 && event.n_roi == 3);
    wm_reader_t *second = joined_open ("", "", &error); /* both have one map */
    wm_reader_destroy (&reader);
    assert_int_equal (wm_reader_event (second, 0, &event, &error), WM_OK);
    assert_int_equal (event.n_roi, 3);
    wm_reader_destroy (&second);
    static const char *const bad[][2] = {
        { "", "the channel map has no wires" },
        { "channel,tpc,plane,wire\n", "map.csv:1: no column 'cryostat'" },
        { "channel cryostat  tpc plane wire\n",
          "channel,cryostat,tpc,plane,wire; columns are separated by blanks here: put commas" },
        { "channel,cryostat,tpc,plane,wire\n1,0,0,0\n", "map.csv:2: the line has no wire" },
        { "channel,cryostat,tpc,plane,wire\n1,0,0,0,\n", "map.csv:2: wire is '', not a whole" },
        { "channel,cryostat,tpc,plane,wire\n1,0,0,0,2.5\n",
          "map.csv:2: wire is '2.5', not a whole number from 0 on, or -1 where the channel has" },
        { "channel,cryostat,tpc,plane,wire\n1,0,0,0,1\n1,0,0,0,-7\n",
          "map.csv:3: wire is '-7', not a whole number from 0 on, or -1" },
        { "channel,cryostat,tpc,plane,wire\n1,0,0,0,1048576\n", "wire 1048576: a plane has at" },
        { "channel,cryostat,tpc,plane,wire\n4294967296,0,0,0,1\n", "channel is '4294967296', not" },
        { "channel,cryostat,tpc,plane,wire\n1,0,0,0,1\n2,0,0,0,1\n", "lines 2 and 3 both are" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        map_make (bad[i][0]);
        refused ("", bad[i][1]);
    }
    char text[5000] = "channel,cryostat,tpc,plane,wire\n#";
    memset (text + strlen (text), 'x', sizeof text - 1 - strlen (text));
    map_make (text); /* the last line, without its end */
    refused ("", "map.csv:2: a line of more than 4096 bytes");
    unlink (own_path ("map.csv"));
    refused ("", "map.csv: cannot open: No such file");
}

/* A pipe would wait for a writer, for ever.  */
static void irregular_files_are_refused (void **state)
{
    static const char *const name[] = { "map.csv", "frames.h5", "hits.h5" };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    alarm (60);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        all_make ();
        const char *path = own_path (name[i]);
        unlink (path);
        assert_int_equal (mkfifo (path, 0600), 0);
        refused ("", "a pipe; it must be a regular file");
        path = own_path (name[i]);
        unlink (path);
        assert_int_equal (mkdir (path, 0700), 0);
        refused ("", "a folder; it must be a regular file");
        path = own_path (name[i]);
        rmdir (path);
        const int fd = socket (AF_UNIX, SOCK_STREAM, 0);
        snprintf (address.sun_path, sizeof address.sun_path, "%s", path);
        assert_int_equal (bind (fd, (struct sockaddr *) &address, sizeof address), 0);
        refused ("", "a socket; it must be a regular file");
        close (fd);
        unlink (own_path (name[i]));
        assert_int_equal (symlink ("/dev/zero", own_path (name[i])), 0);
        refused ("", "a device; it must be a regular file");
        unlink (own_path (name[i]));
    }
    alarm (0);
}

static void hits_without_a_column_are_refused (void **state)
{
    all_make ();
    hid_t file = H5Fopen (own_path ("hits.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    static const float wire[3];
    static const uint64_t id[7][3] = { { 1, 0, 5 }, { 1, 0, 1ull << 63 | 5 } };
    static const int64_t tpc[7] = { 0, 1LL << 32 };
    replace (file, "hit_table/tpc", H5T_NATIVE_INT64, 7, 1, tpc);
    H5Fclose (file);
    wm_error_t error;
    wm_reader_t *reader = joined_open ("", "", &error);
    assert_int_equal (wm_reader_event (reader, 0, &event, &error), WM_OK);
    assert_int_equal (event.hit[1].wire, -1); /* of a TPC that no map has: a bad wire */
    wm_reader_destroy (&reader);
    file = H5Fopen (own_path ("hits.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    replace (file, "hit_table/event_id", H5T_NATIVE_UINT64, 7, 3, id);
    H5Fclose (file);
    refused ("", "hit_table/event_id row 1: 9223372036854775813 does not fit 63 bits");
    all_make ();
    file = H5Fopen (own_path ("hits.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    replace (file, "hit_table/wire", H5T_NATIVE_FLOAT, 3, 1, wire);
    H5Fclose (file);
    refused ("", "hit_table/wire has 3 rows, hit_table/event_id 7");
    file = H5Fopen (own_path ("hits.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Ldelete (file, "hit_table/wire", H5P_DEFAULT);
    H5Fclose (file);
    refused ("", "no dataset hit_table/wire");
    file = H5Fopen (own_path ("hits.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    put_f32 (file, "chargehits/time", 3, 1, wire);
    H5Fclose (file);
    refused ("", "both hit_table (numl) and chargehits (larrecodnn)");
    file = H5Fopen (own_path ("hits.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    put_layout (file, "wiremill-exchange-1");
    H5Fclose (file);
    refused ("", "planes of its own: leave --planes and --channels out");
}

static int remove_files (void **state)
{
    wm_event_clear (&event);
    test_folder_remove ();
    return 0;
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (hits_and_planes_are_joined),
        cmocka_unit_test (channels_that_the_map_lacks_are_named),
        cmocka_unit_test (frames_that_are_none_are_refused),
        cmocka_unit_test (frames_of_two_kinds_of_ticks_are_refused),
        cmocka_unit_test (maps_are_read_by_their_head),
        cmocka_unit_test (irregular_files_are_refused),
        cmocka_unit_test (hits_without_a_column_are_refused),
    };
    return cmocka_run_group_tests (tests, NULL, remove_files);
}
