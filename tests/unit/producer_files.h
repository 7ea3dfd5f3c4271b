/* producer_files.h - small input files that the tests of the producer write themselves.  */
#ifndef PRODUCER_FILES_H
#define PRODUCER_FILES_H

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder of this test's own, and a file in it.  */
static char test_folder[64];
static const char *test_path (const char *name)
{
    static char path[4][160];
    static int turn;
    if (!test_folder[0]) {
        strcpy (test_folder, "/tmp/wm-producer-XXXXXX");
        if (!mkdtemp (test_folder))
            abort ();
    }
    char *to = path[turn++ % 4];
    snprintf (to, sizeof path[0], "%s/%s", test_folder, name);
    return to;
}

static void test_folder_remove (void)
{
    char command[100];
    snprintf (command, sizeof command, "rm -rf '%s'", test_folder);
    if (test_folder[0] && system (command))
        abort ();
}

/* Objects of the library that are not closed are found by their numbers, which it gives in turn: of
   spaces, types and lists between a begin and its end.  */
typedef struct {
    hid_t id[3];
} test_ids_t;

static inline test_ids_t test_ids_begin (void)
{
    return (
        test_ids_t){ { H5Screate (H5S_SCALAR), H5Tcopy (H5T_C_S1), H5Pcreate (H5P_FILE_CREATE) } };
}

/* Returns how many are open.  */
static inline int test_ids_end (const test_ids_t *begin)
{
    const test_ids_t end = test_ids_begin ();
    int n = 0;
    for (int k = 0; k < 3; k++)
        for (hid_t id = begin->id[k] + 1; id < end.id[k]; id++)
            n += H5Iis_valid (id) > 0;
    for (int k = 0; k < 2; k++) {
        const hid_t *id = k ? begin->id : end.id;
        H5Sclose (id[0]), H5Tclose (id[1]), H5Pclose (id[2]);
    }
    return n;
}

/* Writes a dataset "a/b" (its group is made as needed) of shape (n, width), or (n) for width 0.  */
static void put (hid_t file, const char *name, hid_t type, hsize_t n, hsize_t width,
                 const void *from)
{
    hid_t links = H5Pcreate (H5P_LINK_CREATE);
    H5Pset_create_intermediate_group (links, 1);
    hsize_t dim[2] = { n, width };
    hid_t space = H5Screate_simple (width ? 2 : 1, dim, NULL);
    if (H5Lexists (file, "/", H5P_DEFAULT) >= 0 && strchr (name, '/') == NULL &&
        H5Lexists (file, name, H5P_DEFAULT) > 0)
        H5Ldelete (file, name, H5P_DEFAULT);
    hid_t data = H5Dcreate2 (file, name, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
    if (data < 0 || (n && H5Dwrite (data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, from) < 0))
        abort ();
    H5Dclose (data);
    H5Sclose (space);
    H5Pclose (links);
}

static void put_i32 (hid_t file, const char *name, hsize_t n, hsize_t width, const int *from)
{
    put (file, name, H5T_NATIVE_INT, n, width, from);
}

static void put_f32 (hid_t file, const char *name, hsize_t n, hsize_t width, const float *from)
{
    put (file, name, H5T_NATIVE_FLOAT, n, width, from);
}

static void put_f64 (hid_t file, const char *name, hsize_t n, const double *from)
{
    put (file, name, H5T_NATIVE_DOUBLE, n, 0, from);
}

static void put_layout (hid_t file, const char *text)
{
    hid_t type = H5Tcopy (H5T_C_S1), space = H5Screate (H5S_SCALAR);
    H5Tset_size (type, strlen (text) + 1);
    hid_t attribute = H5Acreate2 (file, "layout", type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite (attribute, type, text);
    H5Aclose (attribute);
    H5Sclose (space);
    H5Tclose (type);
}

/* Two events (1:0:5 and 1:0:6) of one TPC with planes 0 (8 wires) and 2 (6 wires) of 100 ticks.
   Channel 3 is wrapped: wires 3 and 7 of plane 0. Channel 4 is bad in event 6. Hits are
   interleaved, and row 4 is of an event that does not exist.  */
__attribute__ ((unused)) static hid_t exchange_make (const char *path)
{
    static const int event[] = { 1, 0, 5, 1, 0, 6 }, n_tick[] = { 100, 100 };
    static const double tick_us[] = { 0.5, 0.5 }, trigger[] = { 10, 0 }, tau[] = { 1000, 2000 };
    static const int plane_event[] = { 1, 0, 5, 1, 0, 5, 1, 0, 6, 1, 0, 6 };
    static const int zero[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    static const int plane[] = { 2, 0, 0, 2 }, n_wire[] = { 6, 8, 8, 6 };
    static const int channel[] = { 0, 1, 2, 3, 4, 5, 6, 3, 10, 11, 12, 13, 14, 15 };
    static const int wire_plane[] = { 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2 };
    static const int wire[] = { 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5 };
    static const int roi_event[] = { 1, 0, 6, 1, 0, 5, 1, 0, 5, 1, 0, 6 };
    static const int roi_channel[] = { 4, 3, 12, 10 }, roi_tick[] = { 20, 30, 96, 0 },
                     roi_n[] = { 2, 3, 4, 2 };
    static const float adc[] = { 1, 2, 10, 11, 12, 5, 6, 7, 8, 3, 4 };
    static const int bad_event[] = { 1, 0, 6 }, bad_channel[] = { 4 };
    static const int hit_event[] = { 1, 0, 6, 1, 0, 5, 1, 0, 6, 1, 0, 5, 9, 9, 9, 1, 0, 5 };
    static const int hit_plane[] = { 0, 0, 2, 2, 0, 0 }, hit_wire[] = { 4, 7, 0, 2, 1, 3 };
    static const float hit_time[] = { 21, 31.5f, 0, 99, 50, 30 };
    static const int key[] = { 100, 101, 102, 103, 104, 105 };
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_layout (file, "wiremill-exchange-1");
    put_i32 (file, "event_table/event_id", 2, 3, event);
    put_i32 (file, "event_table/n_tick", 2, 0, n_tick);
    put_f64 (file, "event_table/tick_us", 2, tick_us);
    put_f64 (file, "event_table/trigger_offset", 2, trigger);
    put_f64 (file, "event_table/tau_us", 2, tau);
    put_i32 (file, "plane_table/event_id", 4, 3, plane_event);
    put_i32 (file, "plane_table/cryostat", 4, 0, zero);
    put_i32 (file, "plane_table/tpc", 4, 0, zero);
    put_i32 (file, "plane_table/plane", 4, 0, plane);
    put_i32 (file, "plane_table/n_wire", 4, 0, n_wire);
    put_i32 (file, "wire_table/channel", 14, 0, channel);
    put_i32 (file, "wire_table/cryostat", 14, 0, zero);
    put_i32 (file, "wire_table/tpc", 14, 0, zero);
    put_i32 (file, "wire_table/plane", 14, 0, wire_plane);
    put_i32 (file, "wire_table/wire", 14, 0, wire);
    put_i32 (file, "roi_table/event_id", 4, 3, roi_event);
    put_i32 (file, "roi_table/channel", 4, 0, roi_channel);
    put_i32 (file, "roi_table/tick", 4, 0, roi_tick);
    put_i32 (file, "roi_table/n", 4, 0, roi_n);
    put_f32 (file, "roi_value/adc", 11, 0, adc);
    put_i32 (file, "bad_channel/event_id", 1, 3, bad_event);
    put_i32 (file, "bad_channel/channel", 1, 0, bad_channel);
    put_i32 (file, "hit_table/event_id", 6, 3, hit_event);
    put_i32 (file, "hit_table/cryostat", 6, 0, zero);
    put_i32 (file, "hit_table/tpc", 6, 0, zero);
    put_i32 (file, "hit_table/plane", 6, 0, hit_plane);
    put_i32 (file, "hit_table/wire", 6, 0, hit_wire);
    put_f32 (file, "hit_table/time", 6, 0, hit_time);
    put_i32 (file, "hit_table/key", 6, 0, key);
    return file;
}

/* Replaces a dataset.  */
__attribute__ ((unused)) static void replace (hid_t file, const char *name, hid_t type, hsize_t n,
                                              hsize_t width, const void *from)
{
    if (H5Ldelete (file, name, H5P_DEFAULT) < 0)
        abort ();
    put (file, name, type, n, width, from);
}

#endif
