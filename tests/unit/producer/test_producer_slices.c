/* test_producer_slices.c - runs are the cells that are not zero, slices carry the blocks that their
   patches read and no more, lifetime factors and limits are as defined; what is odd is counted.  */
#include "kernels/patch/wm_image.h"
#include "producer/cutting/wm_cut.h"
#include "producer/cutting/wm_pack.h"
#include "producer/cutting/wm_runs.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WIRES = 60, TICKS = 1003 };

static wm_event_t event;
static wm_spec_t spec;
static wm_error_t error;

static void parse (const char *text)
{
    if (wm_spec_parse (&spec, text, strlen (text), "test", &error))
        fail_msg ("%s", error.text);
}

/* Begins an event of planes 0 .. n_plane - 1 of TPC 1, WIRES wires each.  */
static void begin (int n_plane)
{
    wm_event_reset (&event);
    event.run = 7, event.subrun = 8, event.event = 9;
    event.n_tick = TICKS;
    event.tau_us = 900, event.tick_us = 0.5, event.trigger_offset = 20;
    assert_int_equal (wm_event_reserve (&event.plane, &event.plane_max, (uint64_t) n_plane,
                                        sizeof *event.plane, NULL),
                      WM_OK);
    for (int p = 0; p < n_plane; p++)
        event.plane[event.n_plane++] = (wm_event_plane_t){ 0, 1, p, WIRES, 0, 0, 0, 0 };
    assert_int_equal (wm_event_sort_planes (&event, "test", NULL), WM_OK);
}

static void roi_add (uint32_t plane, uint32_t wire, uint32_t tick, uint32_t n, const float *sample)
{
    const wm_roi_t roi = { plane, wire, tick, n, event.n_sample };
    assert_int_equal (
        wm_event_reserve (&event.sample, &event.sample_max, event.n_sample + n, 4, NULL), WM_OK);
    memcpy (event.sample + event.n_sample, sample, n * sizeof *sample);
    event.n_sample += n;
    assert_int_equal (wm_event_add_roi (&event, &roi, NULL), WM_OK);
}

static void arrange (void)
{
    assert_int_equal (wm_event_arrange (&event, "test", NULL), WM_OK);
}

static void hit_add (int32_t plane, int32_t wire, float time)
{
    assert_int_equal (
        wm_event_reserve (&event.hit, &event.hit_max, event.n_hit + 1ull, sizeof *event.hit, NULL),
        WM_OK);
    event.hit[event.n_hit] = (wm_hit_t){ 0, 1, plane, wire, time, event.n_hit };
    event.n_hit++;
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct {
    uint32_t wire, first, length;
} run_t;

static void runs_are (const wm_runs_t *runs, const run_t *want, size_t n, const float *value)
{
    uint64_t at = 0;
    assert_int_equal (runs->n_run, n);
    for (size_t r = 0; r < n; r++) {
        assert_int_equal (runs->run[r].wire, want[r].wire);
        assert_int_equal (runs->run[r].first, want[r].first);
        assert_int_equal (runs->run[r].length, want[r].length);
        assert_int_equal (runs->run[r].value, at);
        at += want[r].length;
    }
    assert_int_equal (runs->n_value, at);
    assert_memory_equal (runs->value, value, at * sizeof *value);
}

/* Own view: zeros of either sign end a run, regions that touch make one, a value that is not finite
   is listed and ends it; what lies on or beyond `adc`, by the plane's amplitude, is counted.  */
static void ticks_become_runs (void **state)
{
    static const float a[] = { 0, 1, 2, 0, -0.0f, 3 }, b[] = { 4, 5 }, c[] = { 6, NAN, 7 },
                       d[] = { 8, -INFINITY }, e[] = { -9 };
    static const run_t want[] = { { 0, 11, 2 }, { 0, 15, 3 }, { 2, 0, 1 },
                                  { 2, 2, 1 },  { 3, 7, 1 },  { 4, 8, 1 } };
    static const float value[] = { 1, 2, 3, 4, 5, 6, 7, 8, -9 };
    wm_runs_t runs = { 0 };
    parse ("lifetime: none\nview: own\npatch: [4, 4]\nadc: [-18, 14]\nout: [-18, 14]\n"
           "amplitude: [1, 2]\n");
    begin (2);
    roi_add (1, 0, 10, 6, a);
    roi_add (1, 0, 16, 2, b);
    roi_add (1, 2, 0, 3, c);
    roi_add (1, 3, 7, 2, d); /* ends where that of the next wire begins */
    roi_add (1, 4, 8, 1, e);
    arrange ();
    for (int again = 0; again < 2; again++) {
        assert_int_equal (wm_runs_make (&runs, &spec, &event, 1, NULL, &error), WM_OK);
        runs_are (&runs, want, sizeof want / sizeof *want, value);
        assert_int_equal (runs.n_bad, 2);
        assert_true (runs.bad[0].wire == 2 && runs.bad[0].col == 1);
        assert_true (runs.bad[1].wire == 3 && runs.bad[1].col == 8);
        assert_int_equal (runs.n_clamped, 3); /* 7, 8 and -9, times 2 */
        assert_true (runs.n_wire == WIRES && runs.n_col == TICKS);
        assert_true (runs.wire_start[0] == 0 && runs.wire_start[1] == 2 && runs.wire_start[2] == 2);
        assert_true (runs.wire_start[3] == 4 && runs.wire_start[WIRES] == 6);
    }
    /* another plane has none; factors are those of the tick */
    assert_int_equal (wm_runs_make (&runs, &spec, &event, 0, NULL, &error), WM_OK);
    assert_int_equal (runs.n_run + runs.n_value + runs.n_bad + runs.n_clamped, 0);
    static float factor[TICKS];
    for (int t = 0; t < TICKS; t++)
        factor[t] = t == 12 ? 0 : (float) t;
    static const run_t one[] = {
        { 0, 11, 1 }, { 0, 15, 3 }, { 2, 2, 1 }, { 3, 7, 1 }, { 4, 8, 1 }
    };
    static const float products[] = { 11, 45, 64, 85, 14, 56, -72 };
    assert_int_equal (wm_runs_make (&runs, &spec, &event, 1, factor, &error), WM_OK);
    runs_are (&runs, one, sizeof one / sizeof *one, products);
    wm_runs_clear (&runs);
}

/* Full view: the bins of the whole wire that are not the zero level, also where regions share a
   bin or reach into the last, unfinished one.  */
static void bins_become_runs (void **state)
{
    static const char *const text[] = {
        "lifetime: none\ndrift_window: 4\npatch: [4, 4]\nadc: [-5, 5]\n",
        "lifetime: none\ndrift_window: 4\npatch: [4, 4]\ndownscale: maxpool\nadc: [-5, 5]\n",
        "lifetime: none\ndrift_window: 4\npatch: [4, 4]\ndownscale: maxmean\nadc: [-5, 5]\n",
    };
    static const uint32_t at[][2] = { { 0, 3 },   { 3, 1 },   { 40, 9 },  { 50, 1 },  { 53, 2 },
                                      { 57, 14 }, { 500, 1 }, { 996, 5 }, { 1002, 1 } };
    static const uint32_t wires[] = { 0, 7, WIRES - 1 };
    static float factor[TICKS], wave[TICKS], bins[TICKS];
    wm_runs_t runs = { 0 };
    for (size_t s = 0; s < sizeof text / sizeof *text; s++) {
        uint64_t n_clamped = 0, n_value = 0, r = 0;
        parse (text[s]);
        begin (1);
        memset (wave, 0, sizeof wave);
        for (uint32_t t = 0; t < TICKS; t++)
            factor[t] = 1 + 0.001f * (float) t;
        for (size_t i = 0; i < sizeof at / sizeof *at; i++)
            for (uint32_t t = at[i][0]; t < at[i][0] + at[i][1]; t++)
                wave[t] = (float) ((int) (t * 7 % 23) - 9);
        for (size_t w = 0; w < sizeof wires / sizeof *wires; w++)
            for (size_t i = 0; i < sizeof at / sizeof *at; i++)
                roi_add (0, wires[w], at[i][0], at[i][1], wave + at[i][0]);
        arrange ();
        const float zero = wm_spec_zero (&spec);
        const uint32_t n_bin = TICKS / 4;
        wm_image_downscale (&spec, 0, wave, factor, TICKS, bins);
        assert_int_equal (wm_runs_make (&runs, &spec, &event, 0, factor, &error), WM_OK);
        assert_int_equal (runs.n_col, n_bin);
        for (size_t w = 0; w < sizeof wires / sizeof *wires; w++)
            for (uint32_t b = 0; b < n_bin; b++) {
                if (bins[b] == zero)
                    continue;
                if (!b || bins[b - 1] == zero) {
                    assert_true (r < runs.n_run);
                    assert_true (runs.run[r].wire == wires[w] && runs.run[r].first == b);
                    assert_int_equal (runs.run[r].value, n_value);
                    uint32_t length = 1;
                    while (b + length < n_bin && bins[b + length] != zero)
                        length++;
                    assert_int_equal (runs.run[r++].length, length);
                }
                assert_true (runs.value[n_value++] == bins[b]);
                /* on the level of the lowest or highest ADC, or further out */
                n_clamped += bins[b] == wm_image_scale (&spec, 0, -5) ||
                             bins[b] == wm_image_scale (&spec, 0, 5);
            }
        assert_true (r == runs.n_run && n_value == runs.n_value);
        assert_true (n_clamped > 0 && n_clamped < n_value);
        assert_int_equal (runs.n_clamped, n_clamped);
        for (uint32_t t = 0; t < TICKS; t++)
            assert_true (runs.row[t] == 0);
    }
    wm_runs_clear (&runs);
}

/* Runs of two planes in one: the second lies behind a gap of wires without runs.  */
static void runs_are_stacked (void **state)
{
    static const float one[] = { 1, 2, NAN }, two[] = { INFINITY, 3, 0, 40 };
    static const run_t want[] = { { 1, 5, 2 }, { 64, 1, 1 }, { 64, 3, 1 } };
    static const float value[] = { 1, 2, 3, 40 };
    wm_runs_t runs = { 0 }, part = { 0 };
    parse ("lifetime: none\nview: own\npatch: [4, 4]\nadc: [-30, 30]\nout: [-30, 30]\n");
    begin (2);
    roi_add (0, 1, 5, 3, one);
    roi_add (1, 0, 0, 4, two);
    arrange ();
    for (int again = 0; again < 2; again++) {
        assert_int_equal (wm_runs_make (&part, &spec, &event, 0, NULL, &error), WM_OK);
        assert_int_equal (wm_runs_stack (&runs, &part, 0, &error), WM_OK);
        assert_int_equal (wm_runs_make (&part, &spec, &event, 1, NULL, &error), WM_OK);
        assert_int_equal (wm_runs_stack (&runs, &part, WIRES + 4, &error), WM_OK);
        runs_are (&runs, want, 3, value);
        assert_true (runs.n_wire == 2 * WIRES + 4 && runs.n_col == TICKS);
        assert_int_equal (runs.n_clamped, 1);
        assert_int_equal (runs.n_bad, 2);
        assert_true (runs.bad[0].wire == 1 && runs.bad[0].col == 7);
        assert_true (runs.bad[1].wire == WIRES + 4 && runs.bad[1].col == 0);
        for (uint32_t w = 0; w <= runs.n_wire; w++)
            assert_int_equal (runs.wire_start[w], w < 2 ? 0 : w <= WIRES + 4 ? 1 : 3);
    }
    wm_runs_clear (&runs);
    wm_runs_clear (&part);
    wm_runs_clear (&part); /* again, and it can be used again */
    assert_int_equal (wm_runs_make (&part, &spec, &event, 0, NULL, &error), WM_OK);
    assert_int_equal (part.n_run, 1);
    wm_runs_clear (&part);
    wm_runs_clear (NULL);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Whether a patch of the batch reads a cell of this block of WM_CUT_BLOCK columns.  */
static bool is_read (const wm_batch_t *batch, uint32_t wire, uint32_t block)
{
    for (uint32_t i = 0; i < batch->n_hit; i++)
        for (uint32_t c = block * WM_CUT_BLOCK; c < (block + 1) * WM_CUT_BLOCK; c++)
            if (c < batch->n_col &&
                wm_image_covers (&spec, batch->hit_wire[i], batch->hit_col[i], wire, c))
                return true;
    return false;
}

/* The batch has the runs of the plane, cut at the edges of blocks that none of its patches reads.
   Returns how many cells those are.  */
static uint64_t slice_is_right (const wm_batch_t *batch, const wm_runs_t *plane)
{
    uint32_t n_run = 0;
    uint64_t n_value = 0, n_left = 0;
    for (uint64_t r = 0; r < plane->n_run; r++) {
        const wm_run_t *run = &plane->run[r];
        uint32_t length = 0; /* of the run of the batch that is being followed */
        for (uint32_t c = run->first; c < run->first + run->length; c++) {
            if (!is_read (batch, run->wire, c / WM_CUT_BLOCK)) {
                length = 0;
                n_left++;
                continue;
            }
            if (!length++) {
                assert_true (n_run < batch->n_run);
                assert_int_equal (batch->run_wire[n_run], run->wire);
                assert_int_equal (batch->run_first[n_run++], c);
            }
            assert_true (batch->run_length[n_run - 1] >= length);
            assert_true (batch->value[n_value++] == plane->value[run->value + (c - run->first)]);
        }
    }
    assert_int_equal (batch->n_run, n_run);
    assert_int_equal (batch->n_value, n_value);
    return n_left;
}

static void slices_have_what_is_read (void **state)
{
    static const char *const text[] = {
        "lifetime: none\npatch: [17, 9]\ndrift_window: 2\n",
        "lifetime: none\npatch: [6, 64]\ndrift_window: 1\n",
        "lifetime: none\nview: own\npatch: [9, 11]\ndrift_window: 5\n",
        "lifetime: none\nview: own\npatch: [1, 2]\n",
    };
    static float sample[TICKS];
    static const float time[] = { 0, 31, 32, 95.9f, 500, 640, 1002 };
    wm_runs_t runs = { 0 };
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    for (int t = 0; t < TICKS; t++)
        sample[t] = (float) (t % 57 ? t % 91 + 1 : 0);
    for (size_t s = 0; s < sizeof text / sizeof *text; s++) {
        uint64_t n_left = 0;
        parse (text[s]);
        begin (1);
        for (uint32_t w = 0; w < WIRES; w++)
            if (w % 3) /* the whole readout, or pieces of it */
                roi_add (0, w, w, TICKS - w, sample + w);
            else
                for (uint32_t t = w; t + 70 < TICKS; t += 100)
                    roi_add (0, w, t, 40 + t % 29, sample + t);
        arrange ();
        for (int32_t w = 0; w < WIRES; w += w % 7 == 5 ? 9 : 1)
            for (size_t k = 0; k < sizeof time / sizeof *time; k++)
                if (((size_t) w + k) % 5 == 0)
                    hit_add (0, w, time[k]);
        wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 4, WM_RAW_BYTES_MAX, false });
        assert_int_equal (wm_runs_make (&runs, &spec, &event, 0, NULL, &error), WM_OK);
        assert_int_equal (wm_cut_start (cut, &event, "test", &error), WM_OK);
        uint32_t n_hit = 0;
        for (;;) {
            assert_int_equal (wm_cut_next (cut, &batch, &hit, &error), WM_OK);
            if (!batch.n_hit)
                break;
            n_hit += batch.n_hit;
            n_left += slice_is_right (&batch, &runs);
        }
        assert_int_equal (n_hit, event.n_hit);
        assert_true (n_left > 0);
        wm_cut_destroy (&cut);
    }
    wm_runs_clear (&runs);
    wm_batch_clear (&batch);
}

/* ---- hits ------------------------------------------------------------------------------------ */

/* Starts, and returns the status of each hit: SCORED, or why it is held.  */
static const uint8_t *statuses (wm_cut_t *cut)
{
    static uint8_t status[64];
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    uint32_t n_held;
    memset (status, WM_HIT_SCORED, sizeof status);
    assert_int_equal (wm_cut_start (cut, &event, "test", &error), WM_OK);
    do
        assert_int_equal (wm_cut_next (cut, &batch, &hit, &error), WM_OK);
    while (batch.n_hit);
    const wm_manifest_held_t *held = wm_cut_held (cut, &n_held);
    for (uint32_t i = 0; i < n_held; i++)
        status[held[i].row] = (uint8_t) held[i].status;
    wm_batch_clear (&batch);
    return status;
}

/* A patch of own view reads the ticks from W n / 2 before its hit's to as many behind; a hit whose
   patch reads none is held. Its time counts from the beginning of the stream.  */
static void times_in_own_view (void **state)
{
    static const struct {
        float time;
        bool is_bad;
    } list[] = { { -27, true },   { -26.9f, false }, { -26, false },      { 0, false },
                 { 1029, false }, { 1030, true },    { 0x1.8p29f, true }, { -0x1p30f, true },
                 { 1e30f, true }, { 1031.5f, true }, { -INFINITY, true } };
    enum { N = sizeof list / sizeof *list };
    parse ("lifetime: none\nview: own\npatch: [4, 11]\ndrift_window: 5\n");
    begin (1);
    event.first_tick = 5000;
    arrange ();
    for (int i = 0; i < N; i++)
        hit_add (0, 3, list[i].time);
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, WM_RAW_BYTES_MAX, true });
    const uint8_t *status = statuses (cut);
    for (int i = 0; i < N; i++)
        if (status[i] != (list[i].is_bad ? WM_HIT_BAD_TIME : WM_HIT_SCORED))
            fail_msg ("hit %d: %d", i, status[i]);
    const wm_cut_odd_t *odd = wm_cut_odd (cut);
    assert_true (odd->n_early == 2 && odd->early == 5000 - 0x1p30);
    assert_true (odd->n_late == 3 && odd->late == 5000 + 1031.5);
    assert_int_equal (odd->n_tick, TICKS);
    assert_int_equal (wm_cut_n_empty (cut), 4);
    wm_cut_destroy (&cut);
}

/* Upstream's buffer takes a patch for that of the hit before in the same plane: in own view where
   the time is the whole ticks of that one.  */
static void same_cells_in_own_view (void **state)
{
    static const struct {
        int32_t plane, wire;
        float time;
    } list[] = { { 0, 5, 100.5f },
                 { 0, 5, 100 } /* same */,
                 { 0, 5, 100 } /* same */,
                 { 0, 5, 100.5f },
                 { 0, 6, 100 },
                 { 1, 6, 100 },
                 { 1, 6, 101 },
                 { 1, 6, 101 } /* same */ };
    parse ("lifetime: none\nview: own\npatch: [4, 12]\n");
    begin (2);
    arrange ();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        hit_add (list[i].plane, list[i].wire, list[i].time);
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, WM_RAW_BYTES_MAX, true });
    statuses (cut);
    assert_int_equal (wm_cut_n_same_cell (cut), 3);
    wm_cut_destroy (&cut);
}

/* An event that only hits name: all are held, none is inside.  */
static void missing_events_hold_their_hits (void **state)
{
    parse ("lifetime: none\n");
    begin (1);
    arrange ();
    for (int i = 0; i < 3; i++)
        hit_add (0, 30, 500);
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, WM_RAW_BYTES_MAX, true });
    const uint8_t *status = statuses (cut);
    for (int i = 0; i < 3; i++)
        assert_true (status[i] == WM_HIT_SCORED && wm_cut_in_fiducial (cut)[i]);
    event.is_missing = true;
    status = statuses (cut);
    for (int i = 0; i < 3; i++)
        assert_true (status[i] == WM_HIT_NO_EVENT && !wm_cut_in_fiducial (cut)[i]);
    wm_cut_destroy (&cut);
}

/* ---- lifetime -------------------------------------------------------------------------------- */

static float first_value (wm_cut_t *cut)
{
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    if (wm_cut_start (cut, &event, "here", &error) || wm_cut_next (cut, &batch, &hit, &error))
        fail_msg ("%s", error.text);
    assert_true (batch.n_hit == 1 && batch.n_value == 1);
    const float value = batch.value[0];
    wm_batch_clear (&batch);
    return value;
}

static void near (double value, double want)
{
    assert_true (fabs (value / want - 1) < 1e-6);
}

static void refused (wm_cut_t *cut, const char *text)
{
    assert_int_equal (wm_cut_start (cut, &event, "here", &error), WM_EBATCH);
    assert_string_equal (error.text, text);
}

/* The factor of tick t is exp (((t - trigger_offset) tick_us - t0_us) / tau_us); what the
   specification states goes before what the input does.  */
static void lifetimes_are_as_defined (void **state)
{
    static const float two = 2;
    static float table[TICKS];
    parse ("lifetime: exp\nview: own\npatch: [4, 12]\n");
    begin (1);
    roi_add (0, 3, 400, 1, &two);
    arrange ();
    hit_add (0, 3, 400);
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, WM_RAW_BYTES_MAX, true });
    near ((double) first_value (cut), 2 * exp ((400 - 20) * 0.5 / 900));
    near (wm_cut_odd (cut)->growth, (1002 - 20) * 0.5 / 900);
    assert_true (wm_cut_odd (cut)->tau_us == 900);
    event.first_tick = 3000;
    near ((double) first_value (cut), 2 * exp ((3400 - 20) * 0.5 / 900));
    near (wm_cut_odd (cut)->growth, (4002 - 20) * 0.5 / 900);
    event.first_tick = 0;
    spec.t0_us = 30, spec.tau_us = 500, spec.tick_us = 0.4, spec.trigger_offset = 100;
    near ((double) first_value (cut), 2 * exp (((400 - 100) * 0.4 - 30) / 500));
    near (wm_cut_odd (cut)->growth, ((1002 - 100) * 0.4 - 30) / 500);
    /* without hits nothing is odd */
    event.n_hit = 0;
    assert_int_equal (wm_cut_start (cut, &event, "here", &error), WM_OK);
    assert_true (wm_cut_odd (cut)->growth == 0);
    event.n_hit = 1;
    for (int k = 1; k < 8; k++) { /* a bit for each fact that is missing */
        static const char *const needs[8] = {
            NULL,
            "a tau_us above 0",
            "a tick_us above 0",
            "a tau_us above 0 and a tick_us above 0",
            "trigger_offset",
            "a tau_us above 0 and trigger_offset",
            "a tick_us above 0 and trigger_offset",
            "a tau_us above 0, a tick_us above 0 and trigger_offset",
        };
        spec.tau_us = spec.tick_us = spec.trigger_offset = NAN;
        event.tau_us = k & 1 ? 0 : 900;
        event.tick_us = k & 2 ? 0 : 0.5;
        event.trigger_offset = k & 4 ? (double) NAN : 20;
        char text[300];
        snprintf (text, sizeof text,
                  "here: lifetime: exp needs %s, which neither the specification nor the input "
                  "gives; write %s, or lifetime: none, into --spec",
                  needs[k], k & (k - 1) ? "them" : "it");
        refused (cut, text);
    }
    event.tau_us = 900;
    event.tick_us = 0.5;
    event.trigger_offset = 20;
    /* a stream: the factor of its last tick must be finite */
    event.stream_ticks = 100000;
    near ((double) first_value (cut), 2 * exp (((400 - 20) * 0.5 - 30) / 900));
    event.stream_ticks = 170000; /* exp (94) */
    refused (cut, "here: lifetime: exp is a factor of inf at tick 169999 (tau_us 900); write "
                  "lifetime: none into --spec: a stream is corrected before");
    spec.lifetime = WM_LIFETIME_TABLE;
    refused (cut, "here: lifetime: table is not for a stream of 170000 ticks; write lifetime: none "
                  "into --spec");
    event.stream_ticks = 0;
    refused (cut, "here: the specification has lifetime: table, but the input has no table of 1003 "
                  "factors (event_table/lifetime)");
    table[400] = 1.5f;
    event.lifetime = table;
    event.n_lifetime = TICKS;
    assert_true (first_value (cut) == 3);
    event.lifetime = NULL;
    event.n_lifetime = 0;
    spec.lifetime = WM_LIFETIME_NONE;
    assert_true (first_value (cut) == 2);
    wm_cut_destroy (&cut);
}

/* ---- limits and counts ----------------------------------------------------------------------- */

/* Hits of as many batches as are wanted: patches of `values`.  */
static void patches (uint32_t n_hit, uint32_t values)
{
    wm_event_reset (&event);
    event.patch_values = values;
    assert_int_equal (
        wm_event_reserve (&event.patch, &event.patch_max, (uint64_t) n_hit * values, 4, NULL),
        WM_OK);
    for (uint64_t i = 0; i < (uint64_t) n_hit * values; i++)
        event.patch[i] = (float) i;
    for (uint32_t i = 0; i < n_hit; i++)
        hit_add (-1, -1, 0);
}

static void batches_keep_their_limits (void **state)
{
    static const struct {
        wm_cut_limits_t limits;
        uint32_t values, batch[4];
    } list[] = {
        { { 4, 64, WM_RAW_BYTES_MAX, false }, 10, { 6 } },
        /* three results of so many scores fit 4 MiB, with a status each */
        { { WM_RAW_BYTES_MAX / 12 - 1, 64, WM_RAW_BYTES_MAX, false }, 10, { 3, 3 } },
        { { WM_RAW_BYTES_MAX / 8, 64, WM_RAW_BYTES_MAX, false }, 10, { 1, 1, 1, 1 } },
        { { WM_RAW_BYTES_MAX, 64, WM_RAW_BYTES_MAX, false }, 10, { 1, 1, 1, 1 } },
        { { 4, 64, UINT32_MAX, false }, 1 << 18, { 4, 2 } },
        { { 4, 2, UINT32_MAX, false }, 1 << 18, { 2, 2, 2 } },
        { { 4, 64, 4 * 10 * 5, false }, 10, { 5, 1 } },
        { { 4, 64, 4 * 10 * 5 - 1, false }, 10, { 4, 2 } },
    };
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    parse ("lifetime: none\n");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        patches (6, list[i].values);
        wm_cut_t *cut = wm_cut_new (&spec, list[i].limits);
        assert_int_equal (wm_cut_start (cut, &event, "test", &error), WM_OK);
        for (int b = 0; b < 4; b++) {
            assert_int_equal (wm_cut_next (cut, &batch, &hit, &error), WM_OK);
            assert_int_equal (batch.n_hit, list[i].batch[b]);
        }
        wm_cut_destroy (&cut);
    }
    wm_batch_clear (&batch);
    wm_pins_t pins = { .n_output = 3, .batch_hits = 5, .batch_bytes = 7, .cut = "even" };
    wm_cut_limits_t limits = wm_cut_limits (&pins);
    assert_true (limits.n_output == 3 && limits.batch_hits == 5 && limits.batch_bytes == 7);
    assert_true (limits.even);
    *pins.cut = 0;
    assert_false (wm_cut_limits (&pins).even);
}

/* Batches of a plane are halved until they fit; a hit that does not fit alone is named.  */
static void a_patch_that_is_too_large (void **state)
{
    static float sample[TICKS];
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    for (int t = 0; t < TICKS; t++)
        sample[t] = 1;
    parse ("lifetime: none\nview: own\npatch: [4, 64]\ndrift_window: 1\n");
    begin (1);
    for (uint32_t w = 0; w < WIRES; w++)
        roi_add (0, w, 0, TICKS, sample);
    arrange ();
    for (int32_t i = 0; i < 5; i++)
        hit_add (0, 10, (float) (100 + 160 * i)); /* they share no block */
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, WM_RAW_BYTES_MAX, true });
    assert_int_equal (wm_cut_start (cut, &event, "test", &error), WM_OK);
    assert_int_equal (wm_cut_next (cut, &batch, &hit, &error), WM_OK);
    assert_int_equal (batch.n_hit, 5);
    const uint32_t all = (uint32_t) wm_batch_raw_bytes (&batch), one = all / 5;
    assert_int_equal (all % 5, 0);
    wm_cut_destroy (&cut);
    const uint32_t limits[] = { all, all - 1, 3 * one, 3 * one - 1, one, one - 1 },
                   sizes[] = { 5, 3, 3, 2, 1, 0 };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, limits[i], true });
        assert_int_equal (wm_cut_start (cut, &event, "test", &error), WM_OK);
        const wm_fault_t fault = wm_cut_next (cut, &batch, &hit, &error);
        assert_int_equal (fault, sizes[i] ? WM_OK : WM_EBATCH);
        if (sizes[i])
            assert_int_equal (batch.n_hit, sizes[i]);
        wm_cut_destroy (&cut);
    }
    char text[200];
    snprintf (text, sizeof text,
              "event 7:8:9: the patch of one hit takes %u bytes, more than a batch of %u", one,
              one - 1);
    assert_string_equal (error.text, text);
    wm_batch_clear (&batch);
}

static void oddities_are_added (void **state)
{
    wm_cut_odd_t sum = { 0 };
    const wm_cut_odd_t early = { .n_early = 2, .early = -50, .n_tick = 10, .n_pixel = 100 },
                       late = { .n_late = 3, .late = 70, .n_tick = 20, .n_clamped = 40 },
                       grown = { .growth = 2, .tau_us = 5, .n_pixel = 7, .n_tick = 99 },
                       less = { .growth = 1, .tau_us = 6, .n_clamped = 1 };
    wm_cut_odd_add (&sum, &early);
    assert_true (sum.n_early == 2 && sum.early == -50 && sum.n_tick == 10 && sum.n_late == 0);
    wm_cut_odd_add (&sum, &late);
    assert_true (sum.n_early == 2 && sum.early == -50 && sum.n_tick == 20);
    assert_true (sum.n_late == 3 && sum.late == 70);
    wm_cut_odd_add (&sum, &grown);
    wm_cut_odd_add (&sum, &less);
    wm_cut_odd_add (&sum, &early);
    assert_true (sum.n_early == 4 && sum.n_late == 3 && sum.n_tick == 10 && sum.late == 70);
    assert_true (sum.n_pixel == 207 && sum.n_clamped == 41);
    assert_true (sum.growth == 2 && sum.tau_us == 5);
}

/* Of the planes that have hits, and of those alone.  */
static void pixels_are_counted (void **state)
{
    static const float some[] = { 1, 20, -30 }, other[] = { 40 };
    parse ("lifetime: none\nview: own\npatch: [4, 12]\nadc: [-20, 20]\nout: [-20, 20]\n");
    begin (3);
    for (uint32_t p = 0; p < 2; p++)
        roi_add (p, 5, 100, 3, some);
    roi_add (2, 5, 100, 1, other);
    arrange ();
    for (int i = 0; i < 2; i++)
        hit_add (0, 5, 100), hit_add (2, 5, 100);
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 1, WM_RAW_BYTES_MAX, true });
    statuses (cut);
    assert_true (wm_cut_odd (cut)->n_pixel == 4 && wm_cut_odd (cut)->n_clamped == 3);
    wm_cut_destroy (&cut);
}

/* ---- packs ----------------------------------------------------------------------------------- */

/* The facts of an event go along.  */
static void packs_have_the_facts (void **state)
{
    static const uint8_t pins[16];
    static const float some[] = { 1, 2 };
    wm_pack_t *pack;
    const uint8_t *inside;
    parse ("lifetime: none\nview: own\npatch: [16, 16]\ndrift_window: 1\n");
    begin (1);
    roi_add (0, 5, 100, 2, some);
    arrange ();
    event.n_bad_channel_hit = 3;
    for (int32_t i = 0; i < 40; i++)
        hit_add (0, 1 + i, 100);
    hit_add (0, 40, 100);
    hit_add (0, -1, 100);
    event.hit[41].row = 77;
    wm_packer_t *packer = wm_packer_new (&spec, (wm_cut_limits_t){ 4, 10, 1 << 20, true }, pins);
    for (int again = 0; again < 3; again++) {
        assert_int_equal (wm_packer_pack (packer, &event, "test", &pack, &inside, &error), WM_OK);
        assert_true (pack->run == 7 && pack->subrun == 8 && pack->event == 9);
        assert_true (pack->n_hit == 42 && pack->n_bad_channel_hit == 3 && pack->n_same_cell == 1);
        assert_true (pack->n_batch == 5 && pack->n_held == 1 && pack->held_row[0] == 77);
        assert_int_equal (pack->n_empty, 41 - 13); /* those of wires 1 to 13 read wire 5 */
        assert_int_equal (pack->odd.n_pixel, 2);
        assert_true (!inside[0] && inside[1]);
        assert_true (pack->hit_start[0] == 0 && pack->hit_start[5] == 41);
        assert_int_equal (pack->frame_start[0], 0);
        assert_int_equal (pack->manifest_bytes,
                          5 * sizeof *pack->batch + sizeof (wm_manifest_held_t));
        wm_pack_destroy (&pack);
    }
    wm_packer_destroy (&packer);
}

/* The held hits of a manifest that just fits a frame, and one more.  */
static void a_manifest_that_is_too_large (void **state)
{
    static const uint8_t pins[16];
    const uint32_t most = (WM_RAW_BYTES_MAX + WM_FRAME_OVERHEAD) / sizeof (wm_manifest_held_t);
    wm_pack_t *pack;
    const uint8_t *inside;
    parse ("lifetime: none\n");
    begin (1);
    arrange ();
    for (uint32_t i = 0; i < most; i++)
        hit_add (0, 3, NAN);
    wm_packer_t *packer = wm_packer_new (&spec, (wm_cut_limits_t){ 4, 10, 1 << 20, true }, pins);
    assert_int_equal (wm_packer_pack (packer, &event, "test", &pack, &inside, &error), WM_OK);
    assert_int_equal (pack->n_held, most);
    wm_pack_destroy (&pack);
    hit_add (0, 3, NAN);
    assert_int_equal (wm_packer_pack (packer, &event, "test", &pack, &inside, &error), WM_EBATCH);
    char text[100];
    snprintf (text, sizeof text, "test: %u of its %u hits are bad, too many to list", most + 1,
              most + 1);
    assert_string_equal (error.text, text);
    wm_packer_destroy (&packer);
}

static int end (void **state)
{
    wm_event_clear (&event);
    return 0;
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (ticks_become_runs),
        cmocka_unit_test (bins_become_runs),
        cmocka_unit_test (runs_are_stacked),
        cmocka_unit_test (slices_have_what_is_read),
        cmocka_unit_test (times_in_own_view),
        cmocka_unit_test (same_cells_in_own_view),
        cmocka_unit_test (missing_events_hold_their_hits),
        cmocka_unit_test (lifetimes_are_as_defined),
        cmocka_unit_test (batches_keep_their_limits),
        cmocka_unit_test (a_patch_that_is_too_large),
        cmocka_unit_test (oddities_are_added),
        cmocka_unit_test (pixels_are_counted),
        cmocka_unit_test (packs_have_the_facts),
        cmocka_unit_test (a_manifest_that_is_too_large),
    };
    return cmocka_run_group_tests (tests, NULL, end);
}
