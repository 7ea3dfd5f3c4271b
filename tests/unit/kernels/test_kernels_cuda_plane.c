/* test_kernels_cuda_plane.c - a plane on the device equals the host's patches bit for bit.

   The kernels are those of the product, compiled for the host and run by the stand-in; the judge is
   wm_image_patch_reference, which knows neither windows nor phases. Planes are harsh on purpose:
   runs that touch one bin from both sides, readouts that end inside a bin, hits before tick 0 and
   behind the end.  */
#include "kernels/gpu/wm_cuda_plane.h"
#include "kernels/model/wm_seed.h"
#include "tests/standin/wm_gpu_fake.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 300000u
#define HITS 60u
#define RUNS_MAX 2000u
#define VALUES_MAX 20000u

typedef struct {
    wm_batch_t batch;
    uint32_t wire[RUNS_MAX], first[RUNS_MAX], length[RUNS_MAX], hit_wire[HITS];
    int32_t hit_col[HITS];
    float value[VALUES_MAX];
} plane_t;

/* A seeded number below n.  */
static uint32_t below (uint64_t *seed, uint32_t n)
{
    return (uint32_t) (wm_seed_next (seed) >> 33) % n;
}

static void make_plane (plane_t *self, const wm_spec_t *spec, uint32_t n_wire, uint32_t n_col,
                        uint64_t seed)
{
    wm_batch_t *b = &self->batch;
    *b = (wm_batch_t){ .kind = spec->view == WM_OWN_VIEW ? WM_BATCH_TICKS : WM_BATCH_BINS,
                       .n_hit = HITS,
                       .plane = below (&seed, 3),
                       .n_wire = n_wire,
                       .n_col = n_col,
                       .run_wire = self->wire,
                       .run_first = self->first,
                       .run_length = self->length,
                       .value = self->value,
                       .hit_wire = self->hit_wire,
                       .hit_col = self->hit_col };
    for (uint32_t w = 0; w < n_wire; w++)
        for (uint32_t c = below (&seed, 40); c < n_col;) {
            uint32_t length = 1 + below (&seed, 20);
            length = length < n_col - c ? length : n_col - c;
            self->wire[b->n_run] = w, self->first[b->n_run] = c, self->length[b->n_run++] = length;
            for (uint32_t i = 0; i < length; i++)
                self->value[b->n_value++] = (float) below (&seed, 100000) / 1537 - 12;
            c += length + below (&seed, below (&seed, 4) ? 4 : 60); /* mostly close together */
        }
    assert_true (b->n_run <= RUNS_MAX && b->n_value <= VALUES_MAX);
    for (uint32_t i = 0; i < HITS; i++) {
        self->hit_wire[i] = below (&seed, n_wire);
        self->hit_col[i] = (int32_t) below (&seed, n_col + 60) - 30;
    }
    const int32_t edge[] = { 0, -1, -(1 << 30), 1 << 30, (int32_t) n_col, (int32_t) n_col - 1 };
    memcpy (self->hit_col, edge, sizeof edge);
    self->hit_wire[0] = 0, self->hit_wire[1] = n_wire - 1;
}

typedef struct {
    void *gpu, *stream, *h_image;
    wm_cuda_plane_t *plane;
} device_t;

static void open_device (device_t *self, const wm_spec_t *spec)
{
    wm_gpu_info_t info;
    self->gpu = wm_gpu_stand_in.make ();
    assert_null (wm_gpu_stand_in.open (self->gpu, &info));
    assert_null (wm_gpu_stand_in.stream_new (self->gpu, &self->stream, true));
    assert_null (wm_gpu_stand_in.pinned_new (self->gpu, &self->h_image, CELLS * sizeof (float)));
    assert_null (wm_cuda_plane_new (&self->plane, &wm_gpu_stand_in, self->gpu, spec, CELLS));
}

static void close_device (device_t *self)
{
    wm_cuda_plane_destroy (&self->plane);
    assert_null (self->plane);
    wm_gpu_stand_in.destroy (self->gpu);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

/* Loads all of n batches, and queues a copy of their image to h_image.  */
static void load_all (device_t *self, uint32_t n, const wm_batch_t *const *batch)
{
    uint32_t n_row, n_col, laid;
    assert_null (wm_cuda_plane_load (self->plane, n, batch, self->stream, &laid));
    assert_int_equal (laid, n);
    const float *d_image = wm_cuda_plane_image (self->plane, &n_row, &n_col);
    assert_true ((uint64_t) n_row * n_col <= CELLS);
    assert_null (wm_gpu_stand_in.copy_out (self->gpu, self->h_image, d_image,
                                           (size_t) n_row * n_col * sizeof (float), self->stream));
}

/* Whether the patch of every hit is in the image that was copied, bit for bit.  */
static bool is_there (const device_t *self, const wm_spec_t *spec, uint32_t n,
                      const wm_batch_t *const *batch)
{
    static float patch[64 * 64];
    bool right = true;
    uint32_t n_row, n_col;
    const uint32_t *offset = wm_cuda_plane_offset (self->plane);
    const float *h_image = self->h_image;
    wm_cuda_plane_image (self->plane, &n_row, &n_col);
    for (uint32_t b = 0; b < n; b++)
        for (uint32_t i = 0; i < batch[b]->n_hit; i++) {
            wm_image_patch_reference (spec, batch[b], i, patch);
            const uint32_t at = *offset++;
            assert_true (at % n_col + spec->patch_bin <= n_col &&
                         at / n_col + spec->patch_wire <= n_row);
            for (uint32_t r = 0; r < spec->patch_wire; r++)
                right &= memcmp (h_image + at + (size_t) r * n_col, patch + r * spec->patch_bin,
                                 spec->patch_bin * sizeof (float)) == 0;
        }
    return right;
}

static bool agrees (device_t *self, const wm_spec_t *spec, const wm_batch_t *batch)
{
    load_all (self, 1, &batch);
    assert_null (wm_gpu_stand_in.stream_sync (self->gpu, self->stream));
    return is_there (self, spec, 1, &batch);
}

static wm_spec_t spec_of (wm_spec_view_t view, wm_downscale_t downscale, uint32_t window,
                          uint32_t wire, uint32_t bin)
{
    return (wm_spec_t){ .patch_wire = wire,
                        .patch_bin = bin,
                        .drift_window = window,
                        .downscale = downscale,
                        .view = view,
                        .adc_min = -10,
                        .adc_max = 30,
                        .out_min = -5,
                        .out_max = 15,
                        .n_amplitude = 3,
                        .amplitude = { 1.3285, 1.1665, 1.3636 } };
}

/* Three planes through one device: nothing of one is left for the next.  */
static bool all_right (const wm_spec_t *spec)
{
    static plane_t plane;
    device_t device;
    bool right = true;
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    open_device (&device, spec);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        make_plane (&plane, spec, 20 + (uint32_t) seed, 150 + 37 * (uint32_t) seed, seed);
        right &= agrees (&device, spec, &plane.batch);
    }
    close_device (&device);
    return right;
}

static void patches_equal_the_host_s_bit_for_bit (void **state)
{
    for (int mode = WM_MEAN; mode <= WM_MAXMEAN; mode++)
        for (uint32_t window = 1; window <= 7; window++) {
            wm_spec_t even = spec_of (WM_OWN_VIEW, (wm_downscale_t) mode, window, 12, 10),
                      odd = spec_of (WM_OWN_VIEW, (wm_downscale_t) mode, window, 9, 11);
            if (!all_right (&even) || !all_right (&odd))
                fail_msg ("downscale %d, drift window %u", mode, window);
        }
    wm_spec_t full = spec_of (WM_FULL_VIEW, WM_MEAN, 6, 12, 10);
    full.adc_min = 0, full.out_min = 0, full.out_max = 20;
    assert_true (all_right (&full));
    wm_spec_t real = spec_of (WM_OWN_VIEW, WM_MEAN, 6, 48, 48);
    assert_true (all_right (&real));
}

/* Planes of one width share an image, a copy, a fill and a scatter; one of another width, or one
   for which there is no room, is left for the next load.  */
static void planes_of_one_width_go_together (void **state)
{
    enum { N = 5 };
    static plane_t plane[N];
    const wm_batch_t *batch[N];
    device_t device;
    uint32_t laid;
    wm_spec_t spec = spec_of (WM_FULL_VIEW, WM_MEAN, 6, 12, 10);
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    open_device (&device, &spec);
    for (uint32_t i = 0; i < N; i++) {
        make_plane (&plane[i], &spec, 10 + 3 * i, 150, i + 1);
        batch[i] = &plane[i].batch;
    }
    const uint32_t calls = wm_gpu_fake.calls;
    load_all (&device, N, batch);
    assert_int_equal (wm_gpu_fake.calls - calls, 6); /* wait, copy, record, fill, scatter; out */
    assert_null (wm_gpu_stand_in.stream_sync (device.gpu, device.stream));
    assert_true (is_there (&device, &spec, N, batch));
    plane[3].batch.n_col++;
    assert_null (wm_cuda_plane_load (device.plane, N, batch, device.stream, &laid));
    assert_int_equal (laid, 3);
    plane[2].batch.n_wire = CELLS;
    assert_null (wm_cuda_plane_load (device.plane, N, batch, device.stream, &laid));
    assert_int_equal (laid, 2);
    plane[1].batch.kind = WM_BATCH_PATCHES;
    assert_null (wm_cuda_plane_load (device.plane, N, batch, device.stream, &laid));
    assert_int_equal (laid, 1);
    close_device (&device);
}

/* The host is several loads ahead of the device, and no more than it has buffers: each image is
   right, though nothing waited for the one before.  */
static void the_host_runs_ahead (void **state)
{
    enum { LOADS = 2 * WM_PLANE_BUFFERS + 1, EACH = CELLS / LOADS };
    static plane_t plane[LOADS];
    device_t device;
    wm_spec_t spec = spec_of (WM_FULL_VIEW, WM_MEAN, 6, 12, 10);
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    open_device (&device, &spec);
    float *const h_image = device.h_image;
    for (uint32_t i = 0; i < LOADS; i++) {
        make_plane (&plane[i], &spec, 12, 150, i + 1);
        const wm_batch_t *batch = &plane[i].batch;
        const uint32_t launches = wm_gpu_fake.launches;
        device.h_image = h_image + i * EACH;
        load_all (&device, 1, &batch);
        if (i < WM_PLANE_BUFFERS)
            assert_int_equal (wm_gpu_fake.launches, launches); /* nothing waited */
    }
    assert_null (wm_gpu_stand_in.stream_sync (device.gpu, device.stream));
    for (uint32_t i = 0; i < LOADS; i++) {
        const wm_batch_t *batch = &plane[i].batch;
        uint32_t laid;
        assert_null (wm_cuda_plane_load (device.plane, 1, &batch, device.stream, &laid));
        device.h_image = h_image + i * EACH;
        assert_true (is_there (&device, &spec, 1, &batch));
    }
    close_device (&device);
}

static uint32_t load_one (device_t *self, const wm_batch_t *batch)
{
    uint32_t laid = 1;
    assert_null (wm_cuda_plane_load (self->plane, 1, &batch, self->stream, &laid));
    return laid;
}

static void what_does_not_fit_is_left_to_the_host (void **state)
{
    static plane_t plane;
    device_t device;
    wm_spec_t own = spec_of (WM_OWN_VIEW, WM_MEAN, 6, 12, 10),
              full = spec_of (WM_FULL_VIEW, WM_MEAN, 6, 12, 10);
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    open_device (&device, &own);
    make_plane (&plane, &full, 20, 150, 1); /* bins, where ticks are expected */
    assert_int_equal (load_one (&device, &plane.batch), 0);
    make_plane (&plane, &own, 20, 150, 1);
    const wm_batch_t small = plane.batch;
    plane.batch.n_col = 100000; /* cells */
    assert_int_equal (load_one (&device, &plane.batch), 0);
    plane.batch = small, plane.batch.n_wire = UINT32_MAX; /* rows */
    assert_int_equal (load_one (&device, &plane.batch), 0);
    plane.batch = small, plane.batch.n_value = 1u << 30; /* words */
    assert_int_equal (load_one (&device, &plane.batch), 0);
    assert_true (agrees (&device, &own, &small)); /* and it goes on */
    close_device (&device);
    enum { CELLS_EACH = 300000 }; /* of hits: two such stacks are more than fit */
    static uint32_t wire[CELLS_EACH], laid;
    static int32_t col[CELLS_EACH];
    const wm_batch_t stack = { .kind = WM_BATCH_STACK,
                               .n_hit = CELLS_EACH / 2,
                               .n_cell = 2,
                               .n_wire = 20,
                               .n_col = 150,
                               .hit_wire = wire,
                               .hit_col = col },
                     *const stacks[] = { &stack, &stack };
    full.n_channel = 2;
    open_device (&device, &full);
    assert_null (wm_cuda_plane_load (device.plane, 2, stacks, device.stream, &laid));
    assert_int_equal (laid, 1);
    close_device (&device);
}

static void every_failure_is_passed_on (void **state)
{
    static plane_t plane;
    const wm_spec_t spec = spec_of (WM_OWN_VIEW, WM_MEAN, 6, 12, 10);
    make_plane (&plane, &spec, 20, 150, 1);
    const wm_batch_t *batch = &plane.batch;
    uint32_t k = 1;
    for (bool failed = true; failed; k++) {
        wm_gpu_info_t info;
        wm_gpu_text_t text = NULL;
        void *gpu = wm_gpu_stand_in.make (), *stream;
        uint32_t laid;
        wm_gpu_fake = (wm_gpu_fake_t){ 0 };
        assert_null (wm_gpu_stand_in.open (gpu, &info));
        assert_null (wm_gpu_stand_in.stream_new (gpu, &stream, true));
        wm_gpu_fake.fail_at = 2 + k;
        wm_cuda_plane_t *self;
        text = wm_cuda_plane_new (&self, &wm_gpu_stand_in, gpu, &spec, CELLS);
        if (!text)
            text = wm_cuda_plane_load (self, 1, &batch, stream, &laid);
        failed = text != NULL;
        assert_true (!failed || strstr (text, "cudaErrorLaunchFailure"));
        wm_cuda_plane_destroy (&self);
        wm_gpu_stand_in.destroy (gpu);
    }
    /* memory and events; wait, copy, record, fill, phases, cut; one without */
    assert_int_equal (k, 2 + 2 * WM_PLANE_BUFFERS + 6 + 2);
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (patches_equal_the_host_s_bit_for_bit),
        cmocka_unit_test (planes_of_one_width_go_together),
        cmocka_unit_test (the_host_runs_ahead),
        cmocka_unit_test (what_does_not_fit_is_left_to_the_host),
        cmocka_unit_test (every_failure_is_passed_on),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
