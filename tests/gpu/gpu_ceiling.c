/* gpu_ceiling.c - what this GPU can do at best, by the engine's own calls; and that a plane in own
   view is laid out on it as on the host.

   A gap to a floor can only be judged beside the ceilings of the same machine: bytes to memory
   (cells filled by our kernel), bytes over the bus (pinned copies), operations (cuDNN, one
   product of 8,192 x 8,192 x 8,192 of random halves, as a convolution; zeros run faster).  */
#include "kernels/gpu/wm_cuda_plane.h"
#include "kernels/gpu/wm_gpu_args.h"
#include "kernels/gpu/wm_gpu_kernels.cuh"
#include "kernels/model/wm_seed.h"
#include "tests/gpu/gpu_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE 8192u                       /* of the product */
#define BYTES ((size_t) SIDE * SIDE * 4) /* of its result: 256 MiB */
#define ROUNDS 5

static const wm_gpu_api_t *const api = &wm_gpu_real;

typedef struct {
    void *gpu, *stream, *from, *to;
    void *d_a, *d_b, *d_c, *d_workspace, *h_a;
    wm_conv_plan_t *plan;
    char text[400]; /* of the first error; "" */
} ceiling_t;

/* Whether a call succeeded; keeps the text of the first that did not.  */
static bool fine (ceiling_t *self, wm_gpu_text_t text)
{
    if (text && !*self->text)
        snprintf (self->text, sizeof self->text, "%s", text);
    return !text;
}

typedef wm_gpu_text_t action_t (ceiling_t *self);

static wm_gpu_text_t fill (ceiling_t *self)
{
    wm_gpu_fill_t args = { self->d_c, (uint32_t) (BYTES / 4), 1 };
    wm_gpu_launch_t launch = { WM_GPU_FILL, 132 * 16, 256, 0, &args };
    return api->launch (self->gpu, &launch, self->stream);
}

static wm_gpu_text_t copy_in (ceiling_t *self)
{
    return api->copy_in (self->gpu, self->d_a, self->h_a, BYTES / 2, self->stream);
}

static wm_gpu_text_t copy_out (ceiling_t *self)
{
    return api->copy_out (self->gpu, self->h_a, self->d_a, BYTES / 2, self->stream);
}

static wm_gpu_text_t product (ceiling_t *self)
{
    return api->conv_run (self->gpu, self->plan, self->d_a, self->d_b, self->d_b, self->d_c,
                          self->d_workspace, self->stream);
}

/* The best time of an action; 0 if it failed.  */
static double best_ms (ceiling_t *self, action_t *action)
{
    double best = 0;
    for (int r = 0; r <= ROUNDS; r++) { /* the first is not counted */
        float ms = 0;
        if (!fine (self, api->event_record (self->gpu, self->from, self->stream)) ||
            !fine (self, action (self)) ||
            !fine (self, api->event_record (self->gpu, self->to, self->stream)) ||
            !fine (self, api->event_sync (self->gpu, self->to)) ||
            !fine (self, api->event_ms (self->gpu, self->from, self->to, &ms)))
            return 0;
        if (r > 0 && (best == 0 || (double) ms < best))
            best = (double) ms;
    }
    return best;
}

static bool make (ceiling_t *self, wm_gpu_info_t *info)
{
    uint64_t seed = 1;
    self->gpu = api->make ();
    if (!fine (self, api->open (self->gpu, info)) ||
        !fine (self, api->stream_new (self->gpu, &self->stream, false)) ||
        !fine (self, api->event_new (self->gpu, &self->from, true)) ||
        !fine (self, api->event_new (self->gpu, &self->to, true)) ||
        !fine (self, api->device_new (self->gpu, &self->d_a, BYTES / 2)) ||
        !fine (self, api->device_new (self->gpu, &self->d_b, BYTES / 2)) ||
        !fine (self, api->device_new (self->gpu, &self->d_c, BYTES)) ||
        !fine (self, api->pinned_new (self->gpu, &self->h_a, BYTES / 2)))
        return false;
    for (size_t i = 0; i < BYTES / 4; i++)
        ((uint16_t *) self->h_a)[i] = wm_half ((float) (wm_seed_next (&seed) >> 40) * 0x1p-24f);
    return fine (self, copy_in (self)) &&
           fine (self, api->copy_in (self->gpu, self->d_b, self->h_a, BYTES / 2, self->stream)) &&
           fine (self, api->stream_sync (self->gpu, self->stream));
}

/* The product, by cuDNN, if it is here.  */
static void print_product (ceiling_t *self, wm_gpu_info_t *info)
{
    const wm_gpu_anyconv_t conv = { .precision = WM_GPU_F16,
                                    .rows = SIDE / 128,
                                    .c_in = SIDE,
                                    .c_out = SIDE,
                                    .groups = 1,
                                    .in = { 8, 16 },
                                    .out = { 8, 16 },
                                    .kernel = { 1, 1 },
                                    .stride = { 1, 1 },
                                    .dilation = { 1, 1 } };
    wm_gpu_choice_t choice = { 0 };
    const wm_gpu_text_t missing = api->open_cudnn (self->gpu, info);
    if (missing)
        printf ("| product of random halves | %s |\n", missing);
    else if (fine (self, api->anyconv_new (self->gpu, &conv, 0, &self->plan, &choice)) &&
             fine (self, self->plan ? NULL : "no such product") &&
             fine (self,
                   api->device_new (self->gpu, &self->d_workspace, choice.workspace_bytes + 256))) {
        const double ms = best_ms (self, product);
        printf ("| product of random halves, %u a side (%s) | %.0f TFLOP/s |\n", SIDE, choice.name,
                2. * SIDE * SIDE * SIDE / ms / 1e9);
    }
}

int gpu_ceilings (void)
{
    ceiling_t self = { 0 };
    wm_gpu_info_t info = { 0 };
    printf ("| ceiling of this machine | measured |\n|---|---|\n");
    if (make (&self, &info)) {
        const double in = best_ms (&self, copy_in), out = best_ms (&self, copy_out),
                     write = best_ms (&self, fill);
        printf ("| memory, written by a kernel | %.0f GB/s |\n", (double) BYTES / write / 1e6);
        printf ("| to the device, pinned | %.1f GB/s |\n", (double) BYTES / 2 / in / 1e6);
        printf ("| from the device, pinned | %.1f GB/s |\n", (double) BYTES / 2 / out / 1e6);
        print_product (&self, &info);
    }
    if (*self.text)
        printf ("| failed | %s |\n", self.text);
    if (self.plan)
        api->conv_destroy (self.gpu, &self.plan);
    api->destroy (self.gpu);
    return *self.text ? 1 : 0;
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* Lays the batch out and brings its image back.  */
static bool load (ceiling_t *self, wm_cuda_plane_t *plane, const wm_batch_t *batch, uint32_t *n_col)
{
    uint32_t n_row;
    uint32_t laid = 0;
    if (!fine (self, wm_cuda_plane_load (plane, 1, &batch, self->stream, &laid)) ||
        !fine (self, laid ? NULL : "it was left to the host"))
        return false;
    const float *d_image = wm_cuda_plane_image (plane, &n_row, n_col);
    return fine (self, api->copy_out (self->gpu, self->h_a, d_image,
                                      (size_t) n_row * *n_col * sizeof (float), self->stream)) &&
           fine (self, api->stream_sync (self->gpu, self->stream));
}

bool gpu_plane_agrees (wm_downscale_t downscale, char text[400])
{
    const wm_net_t shape = { .height = 48, .width = 48 };
    ceiling_t self = { 0 };
    wm_gpu_info_t info;
    wm_spec_t spec = gpu_spec (&shape, false, WM_OWN_VIEW);
    wm_batch_t batch;
    uint32_t n_col;
    spec.downscale = downscale;
    gpu_plane_new (&batch, &spec, 480, 500, 1000, 1);
    float *patches = calloc (batch.n_hit, 2304 * sizeof *patches);
    wm_plane_t *judge = wm_plane_new (&spec);
    wm_cuda_plane_t *plane = NULL;
    self.gpu = api->make ();
    if (!patches || !judge || wm_plane_load (judge, &batch, NULL))
        fine (&self, "no memory");
    else if (fine (&self, api->open (self.gpu, &info)) &&
             fine (&self, api->stream_new (self.gpu, &self.stream, false)) &&
             fine (&self, api->pinned_new (self.gpu, &self.h_a, sizeof (float) << 24)) &&
             fine (&self, wm_cuda_plane_new (&plane, api, self.gpu, &spec, 1u << 24)) &&
             load (&self, plane, &batch, &n_col)) {
        uint32_t wrong = 0;
        wm_plane_cut (judge, 0, batch.n_hit, patches);
        for (uint32_t i = 0; i < batch.n_hit * 48; i++)
            wrong += memcmp ((float *) self.h_a + wm_cuda_plane_offset (plane)[i / 48] +
                                 (size_t) (i % 48) * n_col,
                             patches + (size_t) i * 48, 48 * sizeof (float)) != 0;
        if (wrong)
            snprintf (self.text, sizeof self.text, "%u of %u rows differ", wrong, batch.n_hit * 48);
    }
    memcpy (text, self.text, sizeof self.text);
    wm_cuda_plane_destroy (&plane);
    api->destroy (self.gpu);
    wm_plane_destroy (&judge);
    gpu_plane_free (&batch);
    free (patches);
    return !*text;
}
