/* test_producer_cut.c - every hit is in exactly one batch or held, batches keep their limits and
   are a pure function, and the patch that a slice gives is the patch of the whole plane.  */
#include "kernels/patch/wm_image.h"
#include "producer/cutting/wm_cut.h"
#include "producer/cutting/wm_pack.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64: the same events in every run.  */
static uint64_t random_state;
static uint32_t random_below (uint32_t n)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint32_t) ((z ^ z >> 31) >> 32) % n;
}

static void roi_add (wm_event_t *event, uint32_t plane, uint32_t wire, uint32_t tick, uint32_t n)
{
    wm_roi_t roi = { plane, wire, tick, n, event->n_sample };
    assert_int_equal (
        wm_event_reserve (&event->sample, &event->sample_max, event->n_sample + n, 4, NULL), WM_OK);
    for (uint32_t i = 0; i < n; i++)
        event->sample[event->n_sample++] = (float) random_below (200) * 0.25f - 10;
    assert_int_equal (wm_event_add_roi (event, &roi, NULL), WM_OK);
}

static void hit_add (wm_event_t *event, int32_t tpc, int32_t plane, int32_t wire, float time)
{
    assert_int_equal (wm_event_reserve (&event->hit, &event->hit_max, event->n_hit + 1ull,
                                        sizeof *event->hit, NULL),
                      WM_OK);
    event->hit[event->n_hit] = (wm_hit_t){ 0, tpc, plane, wire, time, event->n_hit + 1000 };
    event->n_hit++;
}

typedef struct {
    int32_t tpc, plane;
    uint32_t n_wire;
} of_t;

/* Planes with 1,003 ticks, in order, without hits.  */
static void planes_make (wm_event_t *event, uint64_t seed, uint32_t n, const of_t *of)
{
    random_state = seed;
    wm_event_reset (event);
    event->n_tick = 1003;
    event->tau_us = 900, event->tick_us = 0.5, event->trigger_offset = 20;
    assert_int_equal (
        wm_event_reserve (&event->plane, &event->plane_max, n, sizeof *event->plane, NULL), WM_OK);
    for (uint32_t p = 0; p < n; p++)
        event->plane[event->n_plane++] =
            (wm_event_plane_t){ 0, of[p].tpc, of[p].plane, of[p].n_wire, 0, 0, 0, 0 };
    assert_int_equal (wm_event_sort_planes (event, "test", NULL), WM_OK);
    for (uint32_t p = 0; p < n; p++)
        for (uint32_t w = 0; w < of[p].n_wire; w++)
            for (uint32_t t = random_below (150); t < 950; t += 51 + random_below (200))
                roi_add (event, p, w, t, 1 + random_below (50));
    assert_int_equal (wm_event_arrange (event, "test", NULL), WM_OK);
}

/* Planes 0 (70 wires) and 1 (40) of TPC 1, hits anywhere in them.  */
static void event_make (wm_event_t *event, uint64_t seed, uint32_t n_hit)
{
    static const of_t of[] = { { 1, 0, 70 }, { 1, 1, 40 } };
    planes_make (event, seed, 2, of);
    for (uint32_t i = 0; i < n_hit; i++) {
        int32_t p = (int32_t) random_below (2);
        hit_add (event, 1, p, (int32_t) random_below (of[p].n_wire),
                 (float) random_below (100300) * 0.01f);
    }
}

static const char *const spec_text[] = {
    "lifetime: none\n",
    "lifetime: none\ndownscale: maxmean\npatch: [44, 48]\nadc: [-20, 30]\n",
    "lifetime: exp\ndownscale: maxpool\ndrift_window: 4\npatch: [17, 9]\n",
    "lifetime: exp\nview: own\npatch: [20, 12]\n",
    "lifetime: none\nview: own\ndownscale: maxmean\npatch: [44, 48]\n",
};
enum { SPECS = sizeof spec_text / sizeof *spec_text };

static wm_spec_t spec_of (int i)
{
    wm_spec_t spec;
    wm_error_t error;
    if (wm_spec_parse (&spec, spec_text[i], strlen (spec_text[i]), "test", &error))
        fail_msg ("%s", error.text);
    return spec;
}

/* ---- the invariants -------------------------------------------------------------------------- */

static void batch_is_valid (const wm_batch_t *batch, uint32_t batch_hits, uint32_t batch_bytes)
{
    uint64_t free_from = 0, values = 0;
    assert_true (batch->n_hit <= batch_hits);
    assert_true (wm_batch_raw_bytes (batch) <= batch_bytes);
    for (uint32_t r = 0; r < batch->n_run; r++) {
        uint64_t at = (uint64_t) batch->run_wire[r] << 32 | batch->run_first[r];
        assert_true (batch->run_length[r] > 0 && batch->run_wire[r] < batch->n_wire);
        assert_true (batch->run_first[r] + batch->run_length[r] <= batch->n_col);
        assert_true (!r || at > free_from); /* in order, not even touching */
        free_from = at + batch->run_length[r];
        values += batch->run_length[r];
    }
    assert_int_equal (values, batch->n_value);
    for (uint32_t i = 0; i < batch->n_value; i++)
        assert_true (isfinite (batch->value[i]));
}

/* Each run of a batch lies in blocks of wires and columns that a patch of it reads: no others are
   sent.  */
static void batch_has_no_more (const wm_batch_t *batch, const wm_spec_t *spec)
{
    const int64_t ticks = spec->view == WM_FULL_VIEW ? 1 : spec->drift_window,
                  half = spec->patch_bin * ticks / 2, all = spec->patch_bin * ticks;
    const int64_t above = spec->patch_wire / 2, below = spec->patch_wire - above;
    for (uint32_t r = 0; r < batch->n_run; r++) {
        const int64_t wire = batch->run_wire[r],
                      end = (int64_t) batch->run_first[r] + batch->run_length[r];
        for (int64_t col = batch->run_first[r], next; col < end; col = next) {
            const int64_t block = col / WM_CUT_BLOCK * WM_CUT_BLOCK;
            bool is_read = false;
            next = block + WM_CUT_BLOCK;
            for (uint32_t i = 0; i < batch->n_hit && !is_read; i++) {
                const int64_t w = batch->hit_wire[i], first = batch->hit_col[i] - half;
                is_read =
                    wire >= w - above && wire < w + below && next > first && block < first + all;
            }
            assert_true (is_read);
        }
    }
}

/* The patch of each hit from the whole of its plane, without what cuts: every cell of every wire is
   there, zero or not. Hits outside their plane are left out.  */
static void patches_of_planes (const wm_event_t *event, const wm_spec_t *spec, float *want)
{
    const size_t values = (size_t) spec->patch_wire * spec->patch_bin;
    const uint32_t n_tick = event->n_tick, n_col = wm_image_n_col (spec, n_tick);
    float *row = malloc (n_tick * sizeof *row), *factor = NULL;
    wm_batch_t batch = { 0 };
    if (spec->lifetime == WM_LIFETIME_EXP) {
        factor = malloc (n_tick * sizeof *factor);
        wm_image_lifetime (event->tau_us, 0, event->tick_us, event->trigger_offset, 0, n_tick,
                           factor);
    }
    for (uint32_t p = 0; p < event->n_plane; p++) {
        const wm_event_plane_t *plane = &event->plane[p];
        batch.kind = wm_image_kind (spec), batch.plane = (uint32_t) plane->plane;
        batch.n_wire = batch.n_run = plane->n_wire, batch.n_col = n_col, batch.n_hit = 1;
        batch.n_value = plane->n_wire * n_col;
        assert_int_equal (wm_batch_reserve (&batch, NULL), WM_OK);
        for (uint32_t w = 0; w < plane->n_wire; w++) {
            float *cell = batch.value + (size_t) w * n_col;
            batch.run_wire[w] = w, batch.run_first[w] = 0, batch.run_length[w] = n_col;
            memset (row, 0, n_tick * sizeof *row);
            for (uint64_t r = plane->roi_first; r < plane->roi_first + plane->roi_count; r++)
                if (event->roi[r].wire == w)
                    memcpy (row + event->roi[r].tick, event->sample + event->roi[r].value,
                            event->roi[r].count * sizeof *row);
            if (spec->view == WM_FULL_VIEW)
                wm_image_downscale (spec, batch.plane, row, factor, n_tick, cell);
            else
                for (uint32_t t = 0; t < n_tick; t++)
                    cell[t] = factor ? row[t] * factor[t] : row[t];
        }
        for (uint32_t i = 0; i < event->n_hit; i++)
            if (event->hit[i].plane == plane->plane && isfinite (event->hit[i].time)) {
                batch.hit_wire[0] = (uint32_t) event->hit[i].wire;
                batch.hit_col[0] = wm_image_col (spec, event->hit[i].time);
                wm_image_patch_reference (spec, &batch, 0, want + i * values);
            }
    }
    wm_batch_clear (&batch);
    free (factor);
    free (row);
}

/* Cuts with small limits; the patch of every hit must be that of its whole plane.  */
static void patches_agree (const wm_event_t *event, const wm_spec_t *spec, uint32_t batch_hits,
                           uint32_t batch_bytes)
{
    size_t values = (size_t) spec->patch_wire * spec->patch_bin;
    float *want = calloc (event->n_hit * values, 4), *patch = malloc (4 * values);
    uint8_t *seen = calloc (event->n_hit, 1);
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    uint32_t last_plane = 0, last_wire = 0;
    wm_error_t error;
    wm_cut_t *cut = wm_cut_new (spec, (wm_cut_limits_t){ 4, batch_hits, batch_bytes, true });
    patches_of_planes (event, spec, want);
    assert_int_equal (wm_cut_start (cut, event, "test", NULL), WM_OK);
    for (;;) {
        if (wm_cut_next (cut, &batch, &hit, &error))
            fail_msg ("%s", error.text);
        if (!batch.n_hit)
            break;
        batch_is_valid (&batch, batch_hits, batch_bytes);
        batch_has_no_more (&batch, spec);
        for (uint32_t i = 0; i < batch.n_hit; i++) {
            const wm_hit_t *h = &event->hit[hit[i]];
            assert_int_equal (h->wire, batch.hit_wire[i]);
            assert_int_equal (h->plane, batch.plane);
            assert_int_equal (seen[hit[i]]++, 0);
            assert_true (batch.plane > last_plane ||
                         (batch.plane == last_plane && batch.hit_wire[i] >= last_wire));
            if (i && batch.hit_wire[i] == batch.hit_wire[i - 1]) { /* by time, then by row */
                const wm_hit_t *before = &event->hit[hit[i - 1]];
                assert_true (before->time < h->time ||
                             (before->time == h->time && hit[i - 1] < hit[i]));
            }
            last_plane = batch.plane, last_wire = batch.hit_wire[i];
            wm_image_patch_reference (spec, &batch, i, patch);
            for (size_t k = 0; k < values; k++)
                assert_true (patch[k] == want[hit[i] * values + k]);
        }
    }
    uint32_t n_held;
    const wm_manifest_held_t *held = wm_cut_held (cut, &n_held);
    for (uint32_t i = 0; i < n_held; i++) {
        assert_true (!i || held[i].row > held[i - 1].row);
        assert_int_equal (seen[held[i].row]++, 0);
    }
    for (uint32_t i = 0; i < event->n_hit; i++)
        assert_int_equal (seen[i], 1);
    wm_cut_destroy (&cut);
    wm_batch_clear (&batch);
    free (want);
    free (patch);
    free (seen);
}

/* Hits of plane 1 only: batches as large as listed, where batch_hits is 10.  */
static void batches_are_of_equal_size (void **state)
{
    static const struct {
        uint32_t hits;
        bool even;
        uint32_t batch[5];
    } list[] = { { 10, true, { 10 } },         { 11, true, { 6, 5 } },
                 { 30, true, { 10, 10, 10 } }, { 31, true, { 8, 8, 8, 7 } },
                 { 11, false, { 10, 1 } },     { 31, false, { 10, 10, 10, 1 } } };
    const wm_spec_t spec = spec_of (0);
    wm_event_t event = { 0 };
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_cut_t *cut =
            wm_cut_new (&spec, (wm_cut_limits_t){ 4, 10, WM_RAW_BYTES_MAX, list[i].even });
        event_make (&event, 1, 0);
        for (uint32_t h = 0; h < list[i].hits; h++)
            hit_add (&event, 1, 0, (int32_t) h, 100);
        assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
        for (int b = 0; b < 5; b++) {
            assert_int_equal (wm_cut_next (cut, &batch, &hit, NULL), WM_OK);
            assert_int_equal (batch.n_hit, list[i].batch[b]);
        }
        wm_cut_destroy (&cut);
    }
    wm_batch_clear (&batch);
    wm_event_clear (&event);
}

static void every_hit_once_and_right (void **state)
{
    wm_event_t event = { 0 };
    for (int s = 0; s < SPECS; s++) {
        wm_spec_t spec = spec_of (s);
        event_make (&event, 100 + (uint64_t) s, 120);
        hit_add (&event, 1, 0, 0, 0); /* corners, and outside the readout */
        hit_add (&event, 1, 0, 69, 1002.9f);
        hit_add (&event, 1, 1, 39, 1e6f);
        hit_add (&event, 1, 1, 0, -3000.5f);
        hit_add (&event, 1, 0, 10, 50);
        hit_add (&event, 1, 0, 10, 50); /* the same cell twice */
        patches_agree (&event, &spec, 1u << 20, WM_RAW_BYTES_MAX);
        patches_agree (&event, &spec, 7, WM_RAW_BYTES_MAX);
        patches_agree (&event, &spec, 1000, 60000);
        patches_agree (&event, &spec, 1, WM_RAW_BYTES_MAX);
    }
    wm_event_clear (&event);
}

/* Regions of neighbouring wires, each of which begins where the one before ends, and batches that
   are as large as they may be.  */
static void runs_end_with_their_wire (void **state)
{
    static const of_t of = { 1, 0, 70 };
    wm_event_t event = { 0 };
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    for (int s = 0; s < SPECS; s++) {
        wm_spec_t spec = spec_of (s);
        planes_make (&event, 1, 1, &of);
        event.n_roi = 0, event.n_sample = 0;
        for (uint32_t w = 0; w < 70; w++)
            roi_add (&event, 0, w, 12 * w, 12);
        assert_int_equal (wm_event_arrange (&event, "test", NULL), WM_OK);
        for (int32_t w = 0; w < 70; w += 3)
            hit_add (&event, 1, 0, w, (float) (12 * w));
        patches_agree (&event, &spec, 1000, WM_RAW_BYTES_MAX);
        uint32_t bytes = WM_RAW_BYTES_MAX, n[3];
        for (int i = 0; i < 3; i++) { /* all; as large as all; one byte less */
            wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 1000, bytes, true });
            assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
            assert_int_equal (wm_cut_next (cut, &batch, &hit, NULL), WM_OK);
            n[i] = batch.n_hit;
            bytes = (uint32_t) wm_batch_raw_bytes (&batch) - (i == 1);
            wm_cut_destroy (&cut);
        }
        assert_true (n[0] == event.n_hit && n[1] == n[0] && n[2] < n[0]);
    }
    wm_batch_clear (&batch);
    wm_event_clear (&event);
}

/* A hit is held for a non-finite cell exactly if its patch reads it.  */
static void bad_pixels_hold_their_hits (void **state)
{
    wm_event_t event = { 0 };
    for (int s = 0; s < SPECS; s++) {
        wm_spec_t spec = spec_of (s);
        event_make (&event, 7 + (uint64_t) s, 300);
        /* samples of one region of each plane become NaN, Inf */
        float poison[] = { NAN, INFINITY };
        const wm_roi_t *bad[2];
        for (int p = 0; p < 2; p++) {
            bad[p] = &event.roi[event.plane[p].roi_first + event.plane[p].roi_count / 2];
            event.sample[bad[p]->value] = poison[p];
        }
        patches_agree (&event, &spec, 64, WM_RAW_BYTES_MAX); /* the others are there, once */
        wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, WM_RAW_BYTES_MAX, true });
        wm_batch_t batch = { 0 };
        const uint32_t *hit;
        assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
        do {
            assert_int_equal (wm_cut_next (cut, &batch, &hit, NULL), WM_OK);
            if (batch.n_hit)
                batch_is_valid (&batch, 64, WM_RAW_BYTES_MAX);
        } while (batch.n_hit);
        uint32_t n_held, at = 0, n_bad = 0;
        const wm_manifest_held_t *held = wm_cut_held (cut, &n_held);
        for (uint32_t i = 0; i < event.n_hit; i++) {
            const wm_hit_t *h = &event.hit[i];
            const wm_roi_t *r = bad[h->plane];
            uint32_t first = r->tick, last = r->tick + 1;
            if (spec.view == WM_FULL_VIEW)
                wm_image_touched (&spec, event.n_tick, r->tick, r->tick + 1, &first, &last);
            bool want = false; /* with maxmean not every bin near it needs to read it */
            bool may = false;
            for (uint32_t c = first; c < last; c++) {
                bool covers = wm_image_covers (&spec, (uint32_t) h->wire,
                                               wm_image_col (&spec, h->time), r->wire, c);
                may |= covers;
                want |= covers && (spec.downscale != WM_MAXMEAN || spec.view == WM_OWN_VIEW ||
                                   c == r->tick / spec.drift_window);
            }
            bool is = at < n_held && held[at].row == i;
            if (want ? !is : is && !may)
                fail_msg ("spec %d hit %u: held %d", s, i, is);
            if (is) {
                assert_int_equal (held[at].status, WM_HIT_BAD_PIXEL);
                at++;
            }
            n_bad += is;
        }
        assert_true (n_bad > 0 && n_bad < event.n_hit);
        assert_int_equal (at, n_held);
        wm_batch_clear (&batch);
        wm_cut_destroy (&cut);
    }
    wm_event_clear (&event);
}

static void bad_hits_are_held (void **state)
{
    wm_event_t event = { 0 };
    wm_spec_t spec = spec_of (0);
    event_make (&event, 1, 0);
    static const struct {
        int32_t tpc, plane, wire;
        float time;
        uint8_t status;
    } list[] = { { 1, 0, 5, NAN, WM_HIT_BAD_TIME },
                 { 1, 0, 5, INFINITY, WM_HIT_BAD_TIME },
                 { 1, 0, 5, 0x1.8p30f, WM_HIT_BAD_TIME },
                 { 1, 0, 5, -0x1.8p30f, WM_HIT_BAD_TIME },
                 { 1, 0, 70, 5, WM_HIT_BAD_WIRE },
                 { 1, 0, -1, 5, WM_HIT_BAD_WIRE },
                 { 1, 1, 40, 5, WM_HIT_BAD_WIRE },
                 { 1, 2, 0, 5, WM_HIT_BAD_WIRE },
                 { 2, 0, 0, 5, WM_HIT_BAD_WIRE },
                 { 1, 0, 0, -0x1p30f, WM_HIT_BAD_TIME },
                 { 1, 0, 0, 3000, WM_HIT_BAD_TIME },
                 /* bins of 6 ticks, 167 of them; a patch of 48 begins 24 before its hit's */
                 { 1, 0, 0, -144, WM_HIT_BAD_TIME },
                 { 1, 0, 0, 1146, WM_HIT_BAD_TIME },
                 { 1, 0, 69, 5, WM_HIT_SCORED },
                 { 1, 0, 0, -143, WM_HIT_SCORED },
                 { 1, 0, 0, 1145, WM_HIT_SCORED } };
    enum { N = sizeof list / sizeof *list, SCORED = 3 };
    event.first_tick = 5000; /* of a stream: reported are its ticks */
    for (int i = 0; i < N; i++)
        hit_add (&event, list[i].tpc, list[i].plane, list[i].wire, list[i].time);
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, WM_RAW_BYTES_MAX, true });
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
    assert_int_equal (wm_cut_next (cut, &batch, &hit, NULL), WM_OK);
    assert_int_equal (batch.n_hit, SCORED);
    assert_int_equal (wm_cut_next (cut, &batch, &hit, NULL), WM_OK);
    assert_int_equal (batch.n_hit, 0);
    uint32_t n_held;
    const wm_manifest_held_t *held = wm_cut_held (cut, &n_held);
    assert_int_equal (n_held, N - SCORED);
    for (uint32_t i = 0; i < n_held; i++) {
        assert_int_equal (held[i].row, i);
        assert_int_equal (held[i].status, list[i].status);
    }
    assert_int_equal (wm_cut_in_fiducial (cut)[0], 0);
    const wm_cut_odd_t *odd = wm_cut_odd (cut);
    assert_true (odd->n_early == 2 && odd->early == 5000 - 144 && odd->n_late == 2);
    assert_true (odd->late == 5000 + 1146 && odd->n_tick == 1003);
    event.is_missing = true; /* only its hits are known */
    assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
    held = wm_cut_held (cut, &n_held);
    assert_int_equal (n_held, N);
    for (uint32_t i = 0; i < n_held; i++) {
        assert_true (held[i].row == i && held[i].status == WM_HIT_NO_EVENT);
        assert_int_equal (wm_cut_in_fiducial (cut)[i], 0);
    }
    wm_batch_clear (&batch);
    wm_cut_destroy (&cut);
    wm_event_clear (&event);
}

static void fiducial_and_same_cell (void **state)
{
    wm_event_t event = { 0 };
    wm_spec_t spec = spec_of (0); /* 48 x 48, W = 6: margins of 6 wires and 6 bins */
    event_make (&event, 1, 0);
    static const struct {
        int32_t wire;
        float time;
        uint8_t inside, same;
        int32_t plane;
    } list[] = { { 6, 36, 1, 0, 0 },   { 5, 36, 0, 0, 0 },     { 63, 36, 1, 0, 0 },
                 { 64, 36, 0, 0, 0 },  { 30, 35.9f, 0, 0, 0 }, { 30, 966.9f, 0, 0, 0 },
                 { 30, 965, 1, 0, 0 }, { 30, 960, 1, 1, 0 },   { 31, 960, 1, 0, 0 },
                 { 30, 960, 1, 0, 0 }, { 30, 960, 1, 0, 1 },   { 33, 960, 1, 0, 1 },
                 { 34, 960, 0, 0, 1 } };
    enum { N = sizeof list / sizeof *list };
    uint32_t n_same = 0;
    for (int i = 0; i < N; i++) {
        hit_add (&event, 1, list[i].plane, list[i].wire, list[i].time);
        n_same += list[i].same;
    }
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, WM_RAW_BYTES_MAX, true });
    assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
    for (int i = 0; i < N; i++)
        if (wm_cut_in_fiducial (cut)[i] != list[i].inside)
            fail_msg ("hit %d", i);
    assert_int_equal (wm_cut_n_same_cell (cut), n_same);
    wm_cut_destroy (&cut);
    wm_event_clear (&event);
}

/* The margins are an eighth of each side of the patch. In own view a cell is the same where a time
   is the whole ticks of the one before.  */
static void margins_and_ticks (void **state)
{
    static const char tall[] = "lifetime: none\npatch: [16, 48]\n"; /* 2 wires, 6 bins of 6 ticks */
    static const struct {
        int32_t wire;
        float time;
        uint8_t inside;
    } list[] = { { 2, 36, 1 }, { 1, 36, 0 }, { 67, 36, 1 }, { 68, 36, 0 }, { 30, 35.9f, 0 } };
    enum { N = sizeof list / sizeof *list };
    const wm_cut_limits_t limits = { 4, 64, WM_RAW_BYTES_MAX, true };
    wm_event_t event = { 0 };
    wm_spec_t spec;
    assert_int_equal (wm_spec_parse (&spec, tall, strlen (tall), "test", NULL), WM_OK);
    event_make (&event, 1, 0);
    for (int i = 0; i < N; i++)
        hit_add (&event, 1, 0, list[i].wire, list[i].time);
    wm_cut_t *cut = wm_cut_new (&spec, limits);
    assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal (wm_cut_in_fiducial (cut)[i], list[i].inside);
    wm_cut_destroy (&cut);
    spec = spec_of (3);
    event_make (&event, 1, 0);
    static const float time[] = { 50, 50.4f, 50, 50.4f, 51 };
    for (int i = 0; i < 5; i++)
        hit_add (&event, 1, 0, 10, time[i]);
    cut = wm_cut_new (&spec, limits);
    assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
    assert_int_equal (wm_cut_n_same_cell (cut), 1); /* the third */
    wm_cut_destroy (&cut);
    wm_event_clear (&event);
}

/* Of one plane: cells that are not zero, and those at or beyond an end of `adc`, from its whole
   rows.  */
static void cells_count (const wm_event_t *event, const wm_spec_t *spec, uint32_t p,
                         uint64_t *n_pixel, uint64_t *n_clamped)
{
    static float row[1003], bins[1003];
    const wm_event_plane_t *plane = &event->plane[p];
    const bool full = spec->view == WM_FULL_VIEW;
    const double amplitude = spec->amplitude[p];
    for (uint32_t w = 0; w < plane->n_wire; w++) {
        memset (row, 0, sizeof row);
        for (uint64_t r = plane->roi_first; r < plane->roi_first + plane->roi_count; r++)
            if (event->roi[r].wire == w)
                memcpy (row + event->roi[r].tick, event->sample + event->roi[r].value,
                        event->roi[r].count * sizeof *row);
        if (full)
            wm_image_downscale (spec, p, row, NULL, event->n_tick, bins);
        for (uint32_t c = 0; c < wm_image_n_col (spec, event->n_tick); c++)
            if (full) {
                *n_pixel += bins[c] != wm_spec_zero (spec);
                *n_clamped += bins[c] == (float) spec->out_min || bins[c] == (float) spec->out_max;
            } else {
                *n_pixel += row[c] != 0;
                *n_clamped += row[c] != 0 && ((double) row[c] * amplitude <= spec->adc_min ||
                                              (double) row[c] * amplitude >= spec->adc_max);
            }
    }
}

/* What a log says of an event: cells beyond `adc`, of all channels, and the growth of the
   lifetime's factors until the last tick of the segment. Of several events the largest stays.  */
static void odd_values_are_counted (void **state)
{
    static const char *const text[] = {
        "lifetime: none\npatch: [16, 12]\nadc: [-4, 16]\namplitude: [2, 1]\n",
        "lifetime: none\npatch: [16, 12]\nadc: [-4, 16]\nout: [-1, 4]\namplitude: [2, 1]\n"
        "view: own\n",
    };
    const wm_cut_limits_t limits = { 4, 64, WM_RAW_BYTES_MAX, true };
    wm_event_t event = { 0 };
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    for (int way = 0; way < 4; way++) {
        wm_spec_t spec;
        uint64_t n_pixel = 0, n_clamped[2] = { 0 };
        wm_error_t error;
        if (wm_spec_parse (&spec, text[way % 2], strlen (text[way % 2]), "test", &error))
            fail_msg ("%s", error.text);
        event_make (&event, 11, 0);
        for (uint64_t k = 0; k < event.n_sample; k += 5)
            event.sample[k] = -0.0f; /* is 0 ADC, too */
        for (uint32_t p = 0; p < 2; p++)
            cells_count (&event, &spec, p, &n_pixel, &n_clamped[p]);
        assert_true (n_clamped[0] > 20 && n_clamped[1] > 20 &&
                     n_clamped[0] + n_clamped[1] < n_pixel / 2 + n_pixel / 3);
        if (way >= 2) { /* both planes as channels */
            spec.n_channel = 2, spec.points = WM_POINTS_SPACEPOINTS;
            assert_int_equal (
                wm_event_reserve (&event.cell, &event.cell_max, 2, sizeof *event.cell, NULL),
                WM_OK);
            hit_add (&event, 1, -1, -1, 0);
            event.cell[0] = event.cell[1] = (wm_event_cell_t){ 5, 500 };
        } else
            for (int p = 0; p < 2; p++)
                hit_add (&event, 1, p, 5, 500);
        wm_cut_t *cut = wm_cut_new (&spec, limits);
        assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
        while (!wm_cut_next (cut, &batch, &hit, NULL) && batch.n_hit)
            continue;
        assert_int_equal (wm_cut_odd (cut)->n_pixel, n_pixel);
        assert_int_equal (wm_cut_odd (cut)->n_clamped, n_clamped[0] + n_clamped[1]);
        wm_cut_destroy (&cut);
    }
    wm_spec_t spec = spec_of (3);
    event_make (&event, 11, 1);
    event.first_tick = 100;
    wm_cut_t *cut = wm_cut_new (&spec, limits);
    assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
    assert_true (wm_cut_odd (cut)->growth == (100 + 1002 - 20) * 0.5 / 900);
    assert_true (wm_cut_odd (cut)->tau_us == 900);
    wm_cut_destroy (&cut);
    static const wm_cut_odd_t of[] = { { .n_early = 1, .early = -5, .n_tick = 7, .n_pixel = 10 },
                                       { .growth = 0.5, .tau_us = 3, .n_clamped = 2 },
                                       { .n_late = 2, .late = 9, .n_tick = 8, .growth = 0.25 },
                                       { .n_early = 3, .early = -6, .n_tick = 6, .n_late = 1 } };
    wm_cut_odd_t sum = { 0 };
    for (int i = 0; i < 3; i++)
        wm_cut_odd_add (&sum, &of[i]);
    assert_true (sum.n_early == 1 && sum.early == -5 && sum.n_late == 2 && sum.late == 9);
    assert_true (sum.growth == 0.5 && sum.tau_us == 3 && sum.n_tick == 8);
    assert_true (sum.n_pixel == 10 && sum.n_clamped == 2);
    wm_cut_odd_add (&sum, &of[3]);
    assert_true (sum.n_early == 4 && sum.early == -6 && sum.n_late == 3 && sum.late == 0);
    assert_int_equal (sum.n_tick, 6);
    wm_batch_clear (&batch);
    wm_event_clear (&event);
}

/* What the batch itself shows: no run in any wire and column of the hit's patch.  */
static uint32_t count_empty (const wm_batch_t *batch, const wm_spec_t *spec)
{
    uint32_t n_empty = 0;
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        int seen = 0;
        for (uint32_t r = 0; r < batch->n_run; r++)
            for (uint32_t k = 0; k < batch->run_length[r]; k++)
                seen |= wm_image_covers (spec, batch->hit_wire[i], batch->hit_col[i],
                                         batch->run_wire[r], batch->run_first[r] + k);
        n_empty += !seen;
    }
    return n_empty;
}

static void empty_patches (void **state)
{
    uint32_t found = 0;
    for (int how = 0; how < SPECS; how++) {
        wm_event_t event = { 0 };
        wm_error_t error;
        wm_spec_t spec = spec_of (how);
        wm_batch_t batch = { 0 };
        const uint32_t *hit;
        uint32_t n_empty = 0;
        event_make (&event, (uint64_t) how + 1, 0);
        for (int32_t wire = 0; wire < 70; wire++)
            for (int k = 0; k < 12; k++)
                hit_add (&event, 1, 0, wire, (float) (k * 85));
        wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, WM_RAW_BYTES_MAX, true });
        assert_int_equal (wm_cut_start (cut, &event, "test", &error), WM_OK);
        for (;;) {
            assert_int_equal (wm_cut_next (cut, &batch, &hit, &error), WM_OK);
            if (!batch.n_hit)
                break;
            n_empty += count_empty (&batch, &spec);
        }
        assert_int_equal (wm_cut_n_empty (cut), n_empty);
        found += n_empty;
        wm_batch_clear (&batch);
        wm_cut_destroy (&cut);
        wm_event_clear (&event);
    }
    assert_true (found > 0);
}

/* Windows: those without charge are first, in one cell, so that engines compute them once; the
   others have their own, in order; and the patches are those of the plane.  */
static void windows_without_charge_share_a_cell (void **state)
{
    static const char text[] = "points: windows\npatch: [1, 20]\nlifetime: none\ndrift_window: 1\n";
    static wm_event_t event;
    wm_batch_t batch = { 0 };
    wm_spec_t spec;
    wm_error_t error;
    const uint32_t *hit;
    uint32_t seen = 0, n_empty = 0;
    assert_int_equal (wm_spec_parse (&spec, text, strlen (text), "test", &error), WM_OK);
    event_make (&event, 3, 0);
    for (int32_t w = 0; w < 70; w++)
        for (uint32_t t = 0; t < 50; t++)
            hit_add (&event, 1, 0, w, (float) (20 * t + 10));
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 1, 4000, WM_RAW_BYTES_MAX, true });
    assert_int_equal (wm_cut_start (cut, &event, "test", &error), WM_OK);
    assert_int_equal (wm_cut_next (cut, &batch, &hit, &error), WM_OK);
    assert_int_equal (batch.n_hit, 3500);
    wm_plane_t *plane = wm_plane_new (&spec);
    assert_int_equal (wm_plane_load (plane, &batch, &error), WM_OK);
    while (n_empty < batch.n_hit && batch.hit_col[n_empty] < 0)
        assert_true (batch.hit_wire[n_empty] == 0 && batch.hit_col[n_empty] == batch.hit_col[0] &&
                     ++n_empty);
    assert_int_equal (n_empty, wm_cut_n_empty (cut));
    assert_true (n_empty > 500 && n_empty < 3000);
    for (uint32_t i = 0; i < batch.n_hit; i++) {
        const wm_hit_t *h = &event.hit[hit[i]];
        float patch[20], charge = 0;
        wm_plane_cut (plane, i, 1, patch);
        for (int k = 0; k < 20; k++)
            charge += fabsf (patch[k]);
        assert_true ((charge == 0) == (i < n_empty));
        assert_true (i < n_empty || (batch.hit_wire[i] == (uint32_t) h->wire &&
                                     batch.hit_col[i] == (int32_t) h->time));
        seen += hit[i];
    }
    assert_int_equal (seen, 3500 * 3499 / 2);
    wm_plane_destroy (&plane);
    wm_batch_clear (&batch);
    wm_cut_destroy (&cut);
    wm_event_clear (&event);
}

static void lifetime_needs_facts (void **state)
{
    wm_event_t event = { 0 };
    wm_error_t error;
    wm_spec_t spec = spec_of (3);
    event_make (&event, 1, 3);
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, WM_RAW_BYTES_MAX, true });
    event.tau_us = NAN;
    assert_int_equal (wm_cut_start (cut, &event, "here", &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "here"));
    assert_non_null (strstr (error.text, "a tau_us above 0, which neither the specification nor"));
    event.tau_us = 0;
    assert_int_equal (wm_cut_start (cut, &event, "here", &error), WM_EBATCH);
    spec.tau_us = 1000;
    assert_int_equal (wm_cut_start (cut, &event, "here", &error), WM_OK);
    event.tick_us = 0;
    assert_int_equal (wm_cut_start (cut, &event, "here", &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "a tick_us above 0"));
    event.tick_us = 0.5;
    event.trigger_offset = NAN;
    assert_int_equal (wm_cut_start (cut, &event, "here", &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "exp needs trigger_offset"));
    spec.lifetime = WM_LIFETIME_TABLE;
    assert_int_equal (wm_cut_start (cut, &event, "here", &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "table"));
    assert_int_equal (
        wm_event_reserve (&event.lifetime, &event.lifetime_max, event.n_tick + 1ull, 4, NULL),
        WM_OK);
    for (uint32_t n = event.n_tick - 1; n <= event.n_tick + 1; n++) { /* a factor for each tick */
        event.n_lifetime = n;
        assert_int_equal (wm_cut_start (cut, &event, "here", &error),
                          n == event.n_tick ? WM_OK : WM_EBATCH);
    }
    spec.lifetime = WM_LIFETIME_NONE;
    event.n_tick = 5; /* shorter than a bin */
    spec.view = WM_FULL_VIEW;
    assert_int_equal (wm_cut_start (cut, &event, "here", &error), WM_EBATCH);
    wm_cut_destroy (&cut);
    wm_event_clear (&event);
}

/* ---- packs ----------------------------------------------------------------------------------- */

static wm_pack_t *packed (wm_packer_t *packer, const wm_event_t *event)
{
    wm_pack_t *pack;
    const uint8_t *in_fiducial;
    wm_error_t error;
    if (wm_packer_pack (packer, event, "test", &pack, &in_fiducial, &error))
        fail_msg ("%s", error.text);
    return pack;
}

/* The same event gives the same manifest and frames, whatever the packer did before; another
   specification other digests.  */
static void packs_are_pure (void **state)
{
    static const uint8_t pins[2][16] = { { 1, [15] = 3 }, { 1, [15] = 4 } };
    wm_event_t event = { 0 }, other = { 0 };
    wm_spec_t spec = spec_of (3);
    wm_packer_t *packer =
        wm_packer_new (&spec, (wm_cut_limits_t){ 4, 50, 1u << 20, true }, pins[0]);
    wm_packer_t *second =
        wm_packer_new (&spec, (wm_cut_limits_t){ 4, 50, 1u << 20, true }, pins[1]);
    event_make (&event, 5, 400);
    event_make (&other, 6, 900);
    wm_pack_t *a = packed (packer, &event), *between = packed (packer, &other),
              *b = packed (packer, &event), *c = packed (second, &event);
    assert_int_equal (a->n_batch, b->n_batch);
    assert_true (a->n_batch >= 8);
    assert_int_equal (a->manifest_bytes, b->manifest_bytes);
    assert_memory_equal (a->batch, b->batch, a->manifest_bytes);
    assert_memory_equal (a->row, b->row, 4 * 400);
    assert_memory_equal (a->frames, b->frames, a->frame_start[a->n_batch]);
    assert_memory_not_equal (a->batch[0].digest, c->batch[0].digest, 16);
    assert_memory_not_equal (a->batch[0].digest, between->batch[0].digest, 16);
    /* frames are what the manifest says */
    wm_coder_t *coder = wm_coder_new ();
    wm_batch_t batch = { 0 };
    for (uint32_t i = 0; i < a->n_batch; i++) {
        uint8_t digest[16];
        assert_int_equal (wm_batch_decode (&batch, coder, a->frames + a->frame_start[i],
                                           a->frame_start[i + 1] - a->frame_start[i], NULL),
                          WM_OK);
        wm_batch_digest (&batch, pins[0], digest);
        assert_memory_equal (digest, a->batch[i].digest, 16);
        assert_int_equal (batch.n_hit, a->hit_start[i + 1] - a->hit_start[i]);
        for (uint32_t h = 0; h < batch.n_hit; h++)
            assert_int_equal (event.hit[a->row[a->hit_start[i] + h] - 1000].wire,
                              batch.hit_wire[h]);
    }
    wm_batch_clear (&batch);
    wm_coder_destroy (&coder);
    wm_pack_destroy (&a), wm_pack_destroy (&b), wm_pack_destroy (&c), wm_pack_destroy (&between);
    wm_packer_destroy (&packer), wm_packer_destroy (&second);
    wm_event_clear (&event), wm_event_clear (&other);
}

/* Each channel of a patch of several is the patch that its plane alone would give, also where the
   cell is at the edge of its plane; a hit is in the fiducial volume where all of its cells are.  */
static void stacks_are_their_planes (void **state)
{
    static const wm_event_cell_t cells[][2] = {
        { { 30, 500 }, { 20, 510 } },
        { { 69, 500 }, { 0, 500 } },
        { { 0, 2 }, { 39, 1002 } },
        { { 66, 100.5f }, { 3, 800 } },
        { { 30, 500 }, { 39, 500 } },
        { { 69, 500 }, { 20, 500 } },
        { { 1, 700 }, { 20, 700 } },
        { { WM_EVENT_NO_CELL, 0 }, { 20, 300 } },
        { { 30, 500 }, { WM_EVENT_NO_CELL, 0 } },
    };
    enum { N = sizeof cells / sizeof *cells, VALUES = 16 * 12 };
    static float want[N][2][VALUES], patch[2 * VALUES];
    static const char text[] = "lifetime: none\npatch: [16, 12]\nadc: [-20, 30]\n";
    wm_event_t event = { 0 };
    wm_spec_t spec;
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    uint8_t inside[N];
    uint32_t n_found = 0, n_held;
    const wm_cut_limits_t limits = { 4, 64, WM_RAW_BYTES_MAX, true };
    assert_int_equal (wm_spec_parse (&spec, text, strlen (text), "test", NULL), WM_OK);
    event_make (&event, 7, 0);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 2; k++)
            hit_add (&event, 1, k, cells[i][k].wire, cells[i][k].time);
    wm_cut_t *cut = wm_cut_new (&spec, limits);
    assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
    for (int i = 0; i < N; i++) {
        inside[i] = true;
        for (int k = 0; k < 2; k++) {
            for (int v = 0; v < VALUES; v++)
                want[i][k][v] = wm_spec_zero (&spec);
            if (cells[i][k].wire >= 0)
                inside[i] &= wm_cut_in_fiducial (cut)[2 * i + k];
        }
    }
    while (!wm_cut_next (cut, &batch, &hit, NULL) && batch.n_hit)
        for (uint32_t i = 0; i < batch.n_hit; i++)
            wm_image_patch_reference (&spec, &batch, i, want[hit[i] / 2][hit[i] % 2]);
    wm_cut_destroy (&cut);
    spec.n_channel = 2;
    spec.points = WM_POINTS_SPACEPOINTS;
    event_make (&event, 7, 0);
    assert_int_equal (
        wm_event_reserve (&event.cell, &event.cell_max, 2 * (N + 4), sizeof *event.cell, NULL),
        WM_OK);
    for (int i = 0; i < N + 4; i++)
        hit_add (&event, 1, -1, -1, 0);
    memcpy (event.cell, cells, sizeof cells);
    event.cell[2 * N] = (wm_event_cell_t){ 30, 500 }; /* four that are held */
    event.cell[2 * N + 1] = (wm_event_cell_t){ 20, -0x1.8p30f };
    event.cell[2 * N + 2] = (wm_event_cell_t){ 30, 500 };
    event.cell[2 * N + 3] = (wm_event_cell_t){ 40, 500 };
    event.cell[2 * N + 4] = event.cell[2 * N + 5] = (wm_event_cell_t){ 30, 500 };
    event.hit[N + 2].tpc = 2; /* of which there are no planes */
    event.cell[2 * N + 6] = event.cell[2 * N + 7] = (wm_event_cell_t){ WM_EVENT_NO_CELL, 0 };
    cut = wm_cut_new (&spec, limits);
    assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
    for (int i = 0; i < N + 4; i++)
        assert_int_equal (wm_cut_in_fiducial (cut)[i], i < N && inside[i]);
    while (!wm_cut_next (cut, &batch, &hit, NULL) && batch.n_hit)
        for (uint32_t i = 0; i < batch.n_hit; i++, n_found++) {
            assert_int_equal (batch.n_wire, 70 + 16 + 40); /* a patch of wires between */
            wm_image_patch_reference (&spec, &batch, i, patch);
            assert_memory_equal (patch, want[hit[i]][0], 4 * VALUES);
            assert_memory_equal (patch + VALUES, want[hit[i]][1], 4 * VALUES);
        }
    assert_int_equal (n_found, N);
    const wm_manifest_held_t *held = wm_cut_held (cut, &n_held);
    assert_int_equal (n_held, 4);
    assert_int_equal (held[0].status, WM_HIT_BAD_TIME);
    for (int i = 1; i < 4; i++)
        assert_int_equal (held[i].status, WM_HIT_BAD_WIRE);
    wm_cut_destroy (&cut);
    /* A cell that is not finite holds the hits that read it in any channel.  */
    const wm_roi_t *bad = &event.roi[event.plane[1].roi_first];
    event.sample[bad->value] = NAN;
    event.cell[0] = (wm_event_cell_t){ 30, 500 };
    event.cell[1] = (wm_event_cell_t){ (int32_t) bad->wire, (float) bad->tick };
    event.n_hit = 1;
    cut = wm_cut_new (&spec, limits);
    assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
    assert_int_equal (wm_cut_next (cut, &batch, &hit, NULL), WM_OK);
    assert_int_equal (batch.n_hit, 0);
    held = wm_cut_held (cut, &n_held);
    assert_int_equal (n_held, 1);
    assert_int_equal (held[0].status, WM_HIT_BAD_PIXEL);
    wm_cut_destroy (&cut);
    wm_batch_clear (&batch);
    wm_event_clear (&event);
}

/* Planes of three TPCs, of which two lack the second: a hit has the channels of its own TPC. Hits
   go by their first cell.  */
static void stacks_of_several_tpcs (void **state)
{
    static const of_t of[] = { { 1, 0, 70 }, { 1, 1, 40 }, { 2, 0, 30 }, { 3, 0, 50 } };
    static const struct {
        int32_t tpc;
        wm_event_cell_t cell[2];
    } at[] = {
        { 3, { { 5, 300 }, { WM_EVENT_NO_CELL, 0 } } },
        { 1, { { 20, 500 }, { 5, 500 } } },
        { 2, { { 5, 300 }, { WM_EVENT_NO_CELL, 0 } } },
        { 1, { { 10, 500 }, { 30, 510 } } },
        { 3, { { 40, 100 }, { WM_EVENT_NO_CELL, 0 } } },
        { 2, { { 29, 600 }, { WM_EVENT_NO_CELL, 0 } } },
    };
    enum { N = sizeof at / sizeof *at, VALUES = 16 * 12 };
    static float want[N][2][VALUES], patch[2 * VALUES];
    static const char text[] = "lifetime: none\npatch: [16, 12]\nadc: [-20, 30]\n";
    const wm_cut_limits_t limits = { 4, 64, WM_RAW_BYTES_MAX, true };
    wm_event_t event = { 0 };
    wm_spec_t spec;
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    uint32_t n_found = 0;
    assert_int_equal (wm_spec_parse (&spec, text, strlen (text), "test", NULL), WM_OK);
    for (int way = 0; way < 3; way++) { /* the first channel alone, the second, both */
        planes_make (&event, 9, 4, of);
        assert_int_equal (
            wm_event_reserve (&event.cell, &event.cell_max, 2 * N, sizeof *event.cell, NULL),
            WM_OK);
        for (int i = 0; i < N; i++) {
            const wm_event_cell_t *cell = at[i].cell;
            memcpy (&event.cell[2 * i], cell, sizeof at[i].cell);
            hit_add (&event, at[i].tpc, way % 2, cell[way % 2].wire, cell[way % 2].time);
            for (int v = 0; v < VALUES && way == 0; v++)
                want[i][1][v] = wm_spec_zero (&spec);
        }
        if (way == 2)
            spec.n_channel = 2, spec.points = WM_POINTS_SPACEPOINTS;
        wm_cut_t *cut = wm_cut_new (&spec, limits);
        assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
        while (!wm_cut_next (cut, &batch, &hit, NULL) && batch.n_hit)
            for (uint32_t i = 0; i < batch.n_hit; i++, n_found++) {
                if (way < 2) {
                    assert_int_equal (batch.plane, way);
                    wm_image_patch_reference (&spec, &batch, i, want[hit[i]][way]);
                    continue;
                }
                wm_image_patch_reference (&spec, &batch, i, patch);
                assert_memory_equal (patch, want[hit[i]], sizeof patch);
                assert_true (!i || at[hit[i - 1]].cell[0].wire < at[hit[i]].cell[0].wire);
                assert_true (!i || at[hit[i - 1]].tpc == at[hit[i]].tpc);
            }
        wm_cut_destroy (&cut);
    }
    assert_int_equal (n_found, N + 2 + N);
    wm_batch_clear (&batch);
    wm_event_clear (&event);
}

/* Between the planes of a stack there is nothing, also where the event before had charge.  */
static void stacks_have_gaps (void **state)
{
    static const char text[] = "lifetime: none\npatch: [16, 12]\n";
    static const of_t of[2][2] = { { { 1, 0, 200 }, { 1, 1, 40 } },
                                   { { 1, 0, 70 }, { 1, 1, 40 } } };
    enum { VALUES = 2 * 16 * 12, TIMES = 60 };
    wm_event_t event = { 0 };
    wm_spec_t spec;
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    assert_int_equal (wm_spec_parse (&spec, text, strlen (text), "test", NULL), WM_OK);
    spec.n_channel = 2, spec.points = WM_POINTS_SPACEPOINTS;
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 1, WM_RAW_BYTES_MAX, true });
    for (int e = 0; e < 2; e++) {
        uint32_t n_empty = 0, n_found = 0;
        planes_make (&event, (uint64_t) e + 1, 2, of[e]);
        for (uint64_t k = 0; k < event.n_sample && e; k++)
            event.sample[k] = 0; /* but for one wire of each plane */
        for (uint64_t r = 0; r < event.n_roi; r++)
            if (event.roi[r].wire == 35)
                event.sample[event.roi[r].value] = 20;
        assert_int_equal (
            wm_event_reserve (&event.cell, &event.cell_max, 2 * TIMES, sizeof *event.cell, NULL),
            WM_OK);
        for (int i = 0; i < TIMES; i++) {
            hit_add (&event, 1, -1, -1, 0);
            event.cell[2 * i] =
                (wm_event_cell_t){ (int32_t) of[e][0].n_wire - 1 - i % 2 * 30, (float) (16 * i) };
            event.cell[2 * i + 1] = (wm_event_cell_t){ 0, (float) (16 * i) };
        }
        assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
        while (!wm_cut_next (cut, &batch, &hit, NULL) && batch.n_hit) {
            float patch[VALUES];
            uint32_t v = 0;
            wm_image_patch_reference (&spec, &batch, 0, patch);
            while (v < VALUES && patch[v] == wm_spec_zero (&spec))
                v++;
            n_empty += v == VALUES;
            n_found++;
        }
        assert_int_equal (n_found, TIMES);
        assert_int_equal (wm_cut_n_empty (cut), n_empty);
        assert_true (!e || (n_empty >= TIMES / 2 && n_empty < TIMES));
    }
    wm_cut_destroy (&cut);
    wm_batch_clear (&batch);
    wm_event_clear (&event);
}

/* Several channels of one plane: each is what a plane of its own would give.  */
static void channels_of_one_plane (void **state)
{
    enum { N = 5, VALUES = 16 * 12 };
    static float want[N][2][VALUES], patch[2 * VALUES];
    static const char text[] = "lifetime: none\npatch: [16, 12]\nadc: [-20, 30]\n";
    wm_event_t event = { 0 };
    wm_spec_t spec;
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    uint32_t n_found = 0;
    const wm_cut_limits_t limits = { 4, 64, WM_RAW_BYTES_MAX, true };
    assert_int_equal (wm_spec_parse (&spec, text, strlen (text), "test", NULL), WM_OK);
    for (int way = 0; way < 3; way++) { /* the first plane alone, the second alone, both */
        spec.n_channel = way == 2 ? 2 : 1;
        event_make (&event, 7, 0);
        if (way == 1) {
            const wm_event_plane_t first = event.plane[0];
            event.plane[0] = event.plane[1], event.plane[1] = first;
        }
        event.plane[0].plane = event.plane[1].plane = 0;
        event.plane[1].channel = 1;
        assert_int_equal (
            wm_event_reserve (&event.cell, &event.cell_max, 2 * N, sizeof *event.cell, NULL),
            WM_OK);
        for (int i = 0; i < N; i++) {
            const wm_event_cell_t at = { 9 * i, 100.0f * (float) i + 50 };
            hit_add (&event, 1, 0, at.wire, at.time);
            event.cell[2 * i] = event.cell[2 * i + 1] = at;
        }
        wm_cut_t *cut = wm_cut_new (&spec, limits);
        assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
        while (!wm_cut_next (cut, &batch, &hit, NULL) && batch.n_hit)
            for (uint32_t i = 0; i < batch.n_hit; i++, n_found++)
                if (way < 2)
                    wm_image_patch_reference (&spec, &batch, i, want[hit[i]][way]);
                else {
                    wm_image_patch_reference (&spec, &batch, i, patch);
                    assert_memory_equal (patch, want[hit[i]], sizeof patch);
                }
        wm_cut_destroy (&cut);
    }
    assert_int_equal (n_found, 3 * N);
    wm_batch_clear (&batch);
    wm_event_clear (&event);
}

static void patches_are_cut (void **state)
{
    enum { N = 23, VALUES = 100 };
    static const uint8_t pins[16];
    wm_spec_t spec = spec_of (0);
    wm_event_t event = { 0 };
    event.patch_values = VALUES;
    assert_int_equal (wm_event_reserve (&event.patch, &event.patch_max, N * VALUES, 4, NULL),
                      WM_OK);
    for (int i = 0; i < N; i++) {
        hit_add (&event, -1, -1, -1, 0);
        for (int k = 0; k < VALUES; k++)
            event.patch[i * VALUES + k] = (float) (i + k);
    }
    event.patch[5 * VALUES + 99] = NAN;
    event.patch[6 * VALUES] = -INFINITY;
    event.patch[7 * VALUES] = 1e38f; /* large is not bad */
    memset (event.patch + 8 * VALUES, 0,
            VALUES * sizeof (float)); /* one is empty; these are not: */
    memset (event.patch + 9 * VALUES, 0, (VALUES - 1) * sizeof (float));
    memset (event.patch + 10 * VALUES + 1, 0, (VALUES - 1) * sizeof (float));
    wm_packer_t *packer =
        wm_packer_new (&spec, (wm_cut_limits_t){ 4, 64, 4 * VALUES * 10, true }, pins);
    wm_pack_t *pack = packed (packer, &event);
    assert_int_equal (pack->n_batch, 3); /* 21 hits, at most ten a batch */
    assert_int_equal (pack->batch[2].n_hit, 7);
    assert_int_equal (pack->n_held, 2);
    assert_int_equal (pack->n_empty, 1);
    assert_int_equal (pack->held_row[0], 1005);
    assert_int_equal (pack->row[5], 1007);
    assert_int_equal (pack->batch[0].raw_bytes, 4 * VALUES * 7);
    wm_cut_t *cut = wm_cut_new (&spec, (wm_cut_limits_t){ 4, 64, 4 * VALUES * 10, true });
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    uint32_t n = 0;
    assert_int_equal (wm_cut_start (cut, &event, "test", NULL), WM_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal (wm_cut_in_fiducial (cut)[i], i != 5 && i != 6);
    while (!wm_cut_next (cut, &batch, &hit, NULL) && batch.n_hit)
        for (uint32_t i = 0; i < batch.n_hit; i++) /* each row is the patch of its hit */
            assert_memory_equal (batch.patch + i * VALUES, event.patch + hit[i] * VALUES,
                                 VALUES * sizeof (float)),
                n++;
    assert_int_equal (n, N - 2);
    wm_cut_destroy (&cut);
    wm_batch_clear (&batch);
    wm_pack_destroy (&pack);
    wm_packer_destroy (&packer);
    packer = wm_packer_new (&spec, (wm_cut_limits_t){ 4, 64, 4 * VALUES - 1, true },
                            pins); /* each is too large to share a batch */
    pack = packed (packer, &event);
    assert_int_equal (pack->n_batch, 21);
    assert_int_equal (pack->batch[20].n_hit, 1);
    assert_int_equal (pack->batch[20].raw_bytes, 4 * VALUES);
    wm_pack_destroy (&pack);
    wm_packer_destroy (&packer);
    wm_event_clear (&event);
}

static void empty_events_have_no_batches (void **state)
{
    static const uint8_t pins[16];
    wm_spec_t spec = spec_of (0);
    wm_event_t event = { 0 };
    event_make (&event, 3, 0);
    wm_packer_t *packer = wm_packer_new (&spec, (wm_cut_limits_t){ 4, 64, 1u << 20, true }, pins);
    wm_pack_t *pack = packed (packer, &event);
    assert_int_equal (pack->n_batch, 0);
    assert_int_equal (pack->manifest_bytes, 0);
    wm_pack_destroy (&pack);
    event.n_tick = 0, event.n_plane = 0; /* not even a readout */
    hit_add (&event, 1, 0, 1, NAN);
    event.n_hit = 0;
    pack = packed (packer, &event);
    assert_int_equal (pack->n_batch, 0);
    wm_pack_destroy (&pack);
    wm_packer_destroy (&packer);
    wm_event_clear (&event);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (batches_are_of_equal_size),
        cmocka_unit_test (every_hit_once_and_right),
        cmocka_unit_test (runs_end_with_their_wire),
        cmocka_unit_test (bad_pixels_hold_their_hits),
        cmocka_unit_test (bad_hits_are_held),
        cmocka_unit_test (fiducial_and_same_cell),
        cmocka_unit_test (margins_and_ticks),
        cmocka_unit_test (odd_values_are_counted),
        cmocka_unit_test (empty_patches),
        cmocka_unit_test (windows_without_charge_share_a_cell),
        cmocka_unit_test (lifetime_needs_facts),
        cmocka_unit_test (packs_are_pure),
        cmocka_unit_test (patches_are_cut),
        cmocka_unit_test (channels_of_one_plane),
        cmocka_unit_test (stacks_are_their_planes),
        cmocka_unit_test (stacks_of_several_tpcs),
        cmocka_unit_test (stacks_have_gaps),
        cmocka_unit_test (empty_events_have_no_batches),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("producer cut", tests, NULL, NULL);
}
