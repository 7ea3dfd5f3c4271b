/* test_producer_segments.c - which ticks, hits and regions each segment of a stream reads.  */
#include "producer/layouts/wm_layout.h"
#include "schema/wm_defaults.h"
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include <math.h>

#define LONG_TICKS (WM_EVENT_TICKS_MAX + 5u)

/* Opens the small file of two events, of which the second is a stream.  */
static wm_reader_t *stream_open (const wm_spec_t *spec)
{
    static const int n_tick[] = { 100, LONG_TICKS };
    const char *path = test_path ("stream.h5");
    hid_t file = exchange_make (path);
    H5Ldelete (file, "event_table/n_tick", H5P_DEFAULT);
    put_i32 (file, "event_table/n_tick", 2, 0, n_tick);
    H5Fclose (file);
    wm_error_t error;
    wm_reader_t *reader = wm_reader_open (path, spec, &error);
    assert_non_null (reader);
    return reader;
}

/* By definition: a segment reads its core and `beside` ticks on both sides, within the stream.  */
static bool reads (const wm_segments_t *s, uint32_t segment, uint64_t n_tick, uint64_t tick)
{
    const int64_t core = (int64_t) (segment * s->core_ticks), beside = (int64_t) s->beside_ticks;
    return tick < n_tick && (int64_t) tick >= core - beside &&
           (int64_t) tick < core + (int64_t) s->core_ticks + beside;
}

static void ticks_are_read_by_the_segments_around_them (void **state)
{
    uint32_t first[] = { 0, 4 };
    const uint64_t n_tick = 35, core = 10, beside = 3;
    wm_segments_t s = { 1, first, (uint64_t[]){ n_tick }, core, beside };
    for (uint32_t k = 0; k < 4; k++) {
        uint64_t from, end;
        wm_segments_window (&s, 0, k, &from, &end);
        for (uint64_t t = 0; t < n_tick + 20; t++)
            assert_int_equal (t >= from && t < end, reads (&s, k, n_tick, t));
    }
    for (uint64_t tick = 0; tick < n_tick; tick++)
        for (uint64_t count = 1; tick + count <= n_tick; count++) {
            uint32_t low, high;
            wm_segments_of_ticks (&s, 0, tick, count, &low, &high);
            for (uint32_t k = 0; k < 4; k++) {
                bool any = false;
                for (uint64_t t = tick; t < tick + count; t++)
                    any = any || reads (&s, k, n_tick, t);
                assert_int_equal (any, k >= low && k <= high);
            }
        }
}

static void each_time_is_of_one_segment (void **state)
{
    uint32_t first[] = { 0, 1, 5 };
    wm_segments_t s = { 2, first, (uint64_t[]){ 0, 35 }, 10, 3 };
    const struct {
        double time;
        uint32_t ordinal;
    } list[] = { { 0, 1 },     { -0.5, 1 },  { -1e300, 1 },   { NAN, 1 },
                 { 9.999, 1 }, { 10, 2 },    { 29.99999, 3 }, { 30, 4 },
                 { 35, 4 },    { 1e300, 4 }, { INFINITY, 4 }, { -INFINITY, 1 } };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        assert_int_equal (wm_segments_of_time (&s, 1, list[i].time), list[i].ordinal);
    for (uint32_t ordinal = 0; ordinal < 5; ordinal++) {
        uint32_t segment;
        assert_int_equal (wm_segments_event (&s, ordinal, &segment), ordinal > 0);
        assert_int_equal (segment, ordinal ? ordinal - 1 : 0);
    }
}

static void a_stream_stands_beside_an_event (void **state)
{
    wm_spec_t spec;
    wm_event_t event = { 0 };
    char name[128];
    assert_int_equal (wm_spec_preset (&spec, WM_DEFAULT_SPEC, NULL), WM_OK);
    wm_reader_t *reader = stream_open (&spec);
    const uint32_t core = WM_SEGMENT_BINS * spec.drift_window, n = (LONG_TICKS - 1) / core + 1;
    assert_int_equal (wm_reader_n_event (reader), 2 + n); /* the last is named by a hit only */
    assert_int_equal (wm_reader_event (reader, 0, &event, NULL), WM_OK);
    assert_true (event.n_tick == 100 && event.stream_ticks == 0 && event.n_hit == 3);
    assert_string_equal (wm_event_format (&event, name), "event 1:0:5");
    assert_int_equal (wm_reader_event (reader, 1, &event, NULL), WM_OK);
    assert_true (event.event == 6 && event.first_tick == 0 && event.stream_ticks == LONG_TICKS);
    assert_true (event.n_hit == 2 && event.n_roi == 1 && event.roi[0].plane == 1);
    assert_true (event.hit[0].time == 21 && event.hit[1].time == 0); /* channel 4 is bad */
    assert_int_equal (event.n_bad_channel_hit, 1);
    assert_int_equal (wm_reader_event (reader, n, &event, NULL), WM_OK);
    assert_true (event.segment == n - 1 && event.n_hit == 0 && event.n_roi == 0);
    assert_true (event.first_tick + event.n_tick == LONG_TICKS);
    assert_int_equal (event.first_tick % spec.drift_window, 0);
    snprintf (name + 64, 64, "event 1:0:6, ticks %u to %u", (unsigned) event.first_tick,
              LONG_TICKS - 1);
    char said[128];
    assert_string_equal (wm_event_format (&event, said), name + 64);
    assert_int_equal (wm_reader_event (reader, n + 1, &event, NULL), WM_OK);
    assert_true (event.is_missing && event.event == 9 && event.n_hit == 1 && event.hit[0].row == 4);
    wm_reader_destroy (&reader);
    wm_event_clear (&event);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (ticks_are_read_by_the_segments_around_them),
        cmocka_unit_test (each_time_is_of_one_segment),
        cmocka_unit_test (a_stream_stands_beside_an_event),
    };
    wm_h5_init ();
    const int failed = cmocka_run_group_tests (tests, NULL, NULL);
    test_folder_remove ();
    return failed;
}
