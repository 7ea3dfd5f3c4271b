/* fuzz_h5.h - reads an HDF5 file as the producer does: every event, every row.  */
#ifndef FUZZ_H5_H
#define FUZZ_H5_H

#include "producer/files/wm_h5.h"
#include "producer/layouts/wm_reader.h"
#include "schema/wm_defaults.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void check_event (const wm_event_t *event)
{
    for (size_t i = 0; i < event->n_roi; i++)
        FUZZ_CHECK ((uint64_t) event->roi[i].value + event->roi[i].count <= event->n_sample);
    for (size_t i = 0; i < event->n_plane; i++)
        FUZZ_CHECK ((uint64_t) event->plane[i].roi_first + event->plane[i].roi_count <=
                    event->n_roi);
}

static void read_file (const char *path)
{
    static wm_spec_t spec;
    static wm_event_t event;
    static struct {
        int64_t big[5][64];
        int32_t small[4][64];
    } space;
    const wm_reader_rows_t rows = { space.big[0],   space.big[1],   space.big[2],
                                    space.big[3],   space.small[0], space.small[1],
                                    space.small[2], space.small[3], space.big[4] };
    wm_error_t error;
    if (!spec.patch_bin)
        wm_spec_preset (&spec, WM_DEFAULT_SPEC, NULL);
    wm_reader_t *reader = wm_reader_open (path, &spec, &error);
    if (!reader)
        return;
    wm_reader_fits (reader, "fuzz.h5", 6, "2x3", &error);
    const uint32_t n_event = wm_reader_n_event (reader);
    for (uint32_t i = 0; i < n_event; i = i < 7 || i + 1 == n_event ? i + 1 : n_event - 1)
        if (!wm_reader_event (reader, i, &event, &error))
            check_event (&event);
    for (uint64_t first = 0; first < wm_reader_n_row (reader) && first < 256; first += 64) {
        const uint64_t left = wm_reader_n_row (reader) - first;
        wm_reader_rows (reader, first, (uint32_t) (left < 64 ? left : 64), &rows, &error);
    }
    wm_reader_destroy (&reader);
}

#endif
