/* gpu_bench.c - how fast the CUDA engine is, by version, precision, stage and algorithm.

   One plane with all hits of a synthetic event, scored over and over through wm_cuda_score, from a
   decoded batch in host memory to scores in host memory. Times of whole events are the host's
   clock, the best of several; stages are CUDA events in a second engine with one slot, since two
   slots overlap. Operations and bytes are counted first (gpu_floor.c), and each version's gap to its
   floor is told. The floors' rates are an H200's as measured elsewhere: the machine's own are among
   the ceilings.  */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_floor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 5
#define CHECKED 64u /* hits compared with double */
#define TENSOR_FLOPS 790e12
#define MEMORY_RATE 4.3e12
#define L2_RATE 5.5e12

static const char *const precisions[] = { "fp32", "tf32", "fp16" };

typedef struct {
    wm_net_t *net;
    wm_spec_t spec;
    wm_batch_t batch;
    float *scores;
} event_t;

static double now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return 1e3 * (double) now.tv_sec + 1e-6 * (double) now.tv_nsec;
}

static bool make_event (event_t *self, uint32_t hits)
{
    self->net = gpu_net_new (&gpu_shape_real, 1);
    self->spec = gpu_spec (self->net, false, WM_FULL_VIEW);
    gpu_plane_new (&self->batch, &self->spec, 2400, 1000, hits, 1);
    self->scores = calloc ((size_t) hits * GPU_OUTPUTS, sizeof *self->scores);
    return self->scores != NULL;
}

static void free_event (event_t *self)
{
    free (self->scores);
    gpu_plane_free (&self->batch);
    gpu_net_destroy (&self->net);
}

/* Best time of an event; negative with *error if the engine failed.  */
static double time_event (wm_cuda_t *cuda, event_t *event, int rounds, wm_error_t *error)
{
    double best = INFINITY;
    for (int r = 0; r <= rounds; r++) { /* the first is not counted */
        double start = now_ms ();
        if (wm_cuda_score (cuda, &event->batch, event->scores, NULL, error))
            return -1;
        double ms = now_ms () - start;
        best = r > 0 && ms < best ? ms : best;
    }
    return best;
}

/* One row of the table; the time goes to *ms, negative if the engine failed.  */
static void bench_version (event_t *event, uint32_t version, int precision, double *ms)
{
    wm_error_t error = { 0 };
    double allowed = 0, start = now_ms ();
    wm_cuda_config_t config = { .precision = (wm_gpu_precision_t) precision, .version = version };
    wm_cuda_t *cuda = wm_cuda_new (&wm_gpu_real, event->net, &event->spec, &config, &error);
    const double opened = now_ms () - start;
    *ms = cuda ? time_event (cuda, event, ROUNDS, &error) : -1;
    if (*ms < 0)
        printf ("| v%u | %s | %s | | | | |\n", version, precisions[precision], error.text);
    else {
        const uint32_t step = event->batch.n_hit / CHECKED + 1;
        const double residual = wm_cuda_residual (cuda, &allowed);
        printf ("| v%u | %s | %.2f | %.2f | %.1e | %.0f | %s; %s", version, precisions[precision],
                *ms, event->batch.n_hit / *ms / 1e3,
                gpu_worst (event->net, &event->spec, &event->batch, event->scores, step), opened,
                wm_cuda_signature (cuda), wm_cuda_choice (cuda));
        printf (allowed > 0 ? "; checksum off by %.1e, %.1e allowed |\n" : " |\n", residual,
                allowed);
    }
    fflush (stdout);
    wm_cuda_destroy (&cuda);
}

/* What each version must do at least, beside what it took. ms: by version, in half.  */
static void print_floors (const gpu_work_t work[4], const double ms[4])
{
    static const char *const bound[] = { "tensor cores", "memory", "L2 cache" };
    printf (
        "\nfp16, what each version does for this event (%.0f %% of the (hit, position) pairs are "
        "active), and its floor at %.0f TFLOP/s, %.1f TB/s of memory and %.1f TB/s of L2:\n\n"
        "| version | TFLOP | memory, GB | L2, GB | floor, ms | bound by | measured, ms | times "
        "the floor |\n|---|---|---|---|---|---|---|---|\n",
        100 * work[3].active, TENSOR_FLOPS / 1e12, MEMORY_RATE / 1e12, L2_RATE / 1e12);
    for (int v = 1; v <= 3; v++) {
        const double floor[] = { work[v].tensor_flop / TENSOR_FLOPS * 1e3,
                                 work[v].memory_bytes / MEMORY_RATE * 1e3,
                                 work[v].l2_bytes / L2_RATE * 1e3 };
        int most = floor[1] > floor[0] ? 1 : 0;
        most = floor[2] > floor[most] ? 2 : most;
        printf ("| v%d | %.3f | %.2f | %.2f | %.2f | %s |", v, work[v].tensor_flop / 1e12,
                work[v].memory_bytes / 1e9, work[v].l2_bytes / 1e9, floor[most], bound[most]);
        printf (ms[v] > 0 ? " %.2f | %.2f |\n" : " | |\n", ms[v], ms[v] / floor[most]);
    }
    fflush (stdout);
}

/* One row a stage of version 1: time, bytes to memory and operations of all chunks.  */
static bool bench_stages (event_t *event, int precision)
{
    static const char *const name[] = { "copies in", "gather", "convolution",
                                        "Dense-1",   "tail",   "copies out" };
    wm_error_t error = { 0 };
    double ms[WM_CUDA_STAGES];
    wm_cuda_config_t config = { .version = 1,
                                .precision = (wm_gpu_precision_t) precision,
                                .timed = true };
    wm_cuda_t *cuda = wm_cuda_new (&wm_gpu_real, event->net, &event->spec, &config, &error);
    if (!cuda || time_event (cuda, event, 1, &error) < 0) {
        printf ("| %s | %s | | | |\n", precisions[precision], error.text);
        wm_cuda_destroy (&cuda);
        return false;
    }
    wm_cuda_times (cuda, ms); /* of the first round as well: thrown away */
    time_event (cuda, event, ROUNDS - 1, &error);
    wm_cuda_times (cuda, ms);
    const double rows = ceil (event->batch.n_hit / (double) WM_CUDA_ROWS) * WM_CUDA_ROWS;
    const double each = precision == WM_GPU_F16 ? 2 : 4, conv = 92928 * each, sums = 44 * 128 * 4;
    const double bytes[] = { 4, 2304 * (4 + each), 2304 * each + conv, conv + sums, sums, 16 };
    const double flops[] = { 0, 0, 2. * 92928 * 25, 2. * 92928 * 128, 2. * 128 * 33, 0 };
    for (int s = 0; s < WM_CUDA_STAGES; s++) {
        double t = ms[s] / ROUNDS;
        printf ("| %s | %s | %.3f | %.0f | %.1f |\n", precisions[precision], name[s], t,
                rows * bytes[s] / t / 1e6, rows * flops[s] / t / 1e9);
    }
    fflush (stdout);
    wm_cuda_destroy (&cuda);
    return true;
}

/* The same of versions 2 and 3 in half; rates of what bounds each.  */
static bool bench_window_stages (event_t *event, uint32_t version, const gpu_work_t *work)
{
    static const char *const name[] = { "runs in, laid out", "what is active", "convolution",
                                        "Dense-1",           "tail",           "scores out" };
    wm_error_t error = { 0 };
    double ms[WM_CUDA_STAGES];
    wm_cuda_config_t config = { .version = version, .precision = WM_GPU_F16, .timed = true };
    wm_cuda_t *cuda = wm_cuda_new (&wm_gpu_real, event->net, &event->spec, &config, &error);
    if (!cuda || time_event (cuda, event, 1, &error) < 0) {
        printf ("| v%u | %s | | |\n", version, error.text);
        wm_cuda_destroy (&cuda);
        return false;
    }
    wm_cuda_times (cuda, ms); /* of the first rounds: thrown away */
    time_event (cuda, event, ROUNDS - 1, &error);
    wm_cuda_times (cuda, ms);
    for (int s = 0; s < WM_CUDA_STAGES; s++) {
        const double t = ms[s] / ROUNDS;
        printf ("| v%u | %s | %.3f |", version, name[s], t);
        if (s == WM_CUDA_GEMM)
            printf (" %.2f TB/s of L2, %.0f TFLOP/s", work->l2_bytes / t / 1e9,
                    work->tensor_flop / t / 1e9);
        else if (s == WM_CUDA_CONV)
            printf (" %.2f TB/s written", work->memory_bytes / 2 / t / 1e9);
        printf (" |\n");
    }
    fflush (stdout);
    wm_cuda_destroy (&cuda);
    return true;
}

/* Which of the libraries' algorithms is the fastest: a wish to pin another is made with this.  */
static void bench_candidates (event_t *event)
{
    for (uint32_t c = 0; c < 10; c++) {
        wm_error_t error = { 0 };
        wm_cuda_config_t config = { .version = 1, .precision = WM_GPU_F16, .timed = true };
        double ms[WM_CUDA_STAGES];
        config.conv_candidate = c % 2 ? c / 2 : 0, config.gemm_candidate = c % 2 ? 0 : c / 2;
        if (c == 1)
            continue; /* both 0 again */
        wm_cuda_t *cuda = wm_cuda_new (&wm_gpu_real, event->net, &event->spec, &config, &error);
        if (!cuda)
            continue;
        time_event (cuda, event, 1, &error);
        wm_cuda_times (cuda, ms);
        if (time_event (cuda, event, 1, &error) >= 0) {
            wm_cuda_times (cuda, ms);
            printf ("| %u | %u | %s | %.3f | %.3f |\n", config.conv_candidate,
                    config.gemm_candidate, wm_cuda_choice (cuda), ms[WM_CUDA_CONV] / 2,
                    ms[WM_CUDA_GEMM] / 2);
        }
        fflush (stdout);
        wm_cuda_destroy (&cuda);
    }
}

/* How many hits a launch: few keep what version 1 convolves in the L2 cache, many fill the chip.  */
static void bench_rows (event_t *event)
{
    for (uint32_t i = 0; i < 10; i++) {
        const uint32_t version = i < 5 ? 1 : 3, rows = (i < 5 ? 256u << i : 2048u << (i - 5));
        wm_error_t error = { 0 };
        wm_cuda_config_t config = { .version = version, .precision = WM_GPU_F16, .rows = rows };
        wm_cuda_t *cuda = wm_cuda_new (&wm_gpu_real, event->net, &event->spec, &config, &error);
        double ms = cuda ? time_event (cuda, event, 2, &error) : -1;
        if (ms < 0)
            printf ("| v%u | %u | %s | | |\n", version, rows, error.text);
        else
            printf ("| v%u | %u | %.2f | %.2f | %s |\n", version, rows, ms,
                    event->batch.n_hit / ms / 1e3, wm_cuda_choice (cuda));
        fflush (stdout);
        wm_cuda_destroy (&cuda);
    }
}

int gpu_bench (uint32_t hits)
{
    event_t event;
    gpu_work_t work[4];
    double ms[WM_GPU_F16 + 1][4] = { 0 };
    bool ok = make_event (&event, hits);
    gpu_count_work (&event.batch, &event.spec, work);
    printf ("\n%u hits on one plane, %u runs, %u values between them; %u patches a launch of v1, "
            "%u hits of "
            "v2 and v3\n\n"
            "| version | precision | event, ms | million hits/s | off from double | open, ms | "
            "what ran |\n|---|---|---|---|---|---|---|\n",
            hits, event.batch.n_run, event.batch.n_value, WM_CUDA_ROWS, WM_CUDA_HITS);
    for (int p = WM_GPU_F16; p >= WM_GPU_F32; p--)
        for (uint32_t v = 3; v >= 1; v--)
            if (p != WM_GPU_F32 || v == 1) {
                bench_version (&event, v, p, &ms[p][v]);
                ok = ok && ms[p][v] >= 0;
            }
    print_floors (work, ms[WM_GPU_F16]);
    printf ("\nfp16, stages, one after another:\n\n| version | stage | ms an event | rate |\n"
            "|---|---|---|---|\n");
    for (uint32_t v = 3; v >= 2; v--)
        ok &= bench_window_stages (&event, v, &work[v]);
    printf (
        "\nv1:\n\n| precision | stage | ms an event | GB/s | TFLOP/s |\n|---|---|---|---|---|\n");
    for (int p = WM_GPU_F16; p >= WM_GPU_F32; p--)
        ok &= bench_stages (&event, p);
    printf ("\nv1 in fp16, the libraries' candidates (pinned is the first that treats all rows "
            "alike):\n\n"
            "| first cuDNN | first cuBLASLt | what ran | convolution, ms | Dense-1, ms |\n"
            "|---|---|---|---|---|\n");
    bench_candidates (&event);
    printf ("\nfp16, hits a launch:\n\n| version | hits | event, ms | million hits/s | what ran |\n"
            "|---|---|---|---|---|\n");
    bench_rows (&event);
    free_event (&event);
    return ok ? 0 : 1;
}

int gpu_floors (uint32_t hits)
{
    event_t event;
    gpu_work_t work[4];
    const double ms[4] = { 0 };
    make_event (&event, hits);
    gpu_count_work (&event.batch, &event.spec, work);
    print_floors (work, ms);
    free_event (&event);
    return 0;
}

/* ---- for PyTorch ----------------------------------------------------------------------------- */

static bool write_file (const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[4096];
    snprintf (path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen (path, "wb");
    bool ok = file && fwrite (data, 1, bytes, file) == bytes;
    return (!file || fclose (file) == 0) && ok;
}

static bool dump_net (const char *folder, const wm_net_t *net)
{
    const wm_conv_t *c = &net->conv[0];
    char name[32];
    bool ok = write_file (folder, "conv.w", c->weight, (size_t) c->kh * c->kw * c->c_out * 4) &&
              write_file (folder, "conv.b", c->bias, c->c_out * sizeof (float));
    for (uint32_t i = 0; ok && i < net->n_dense; i++) {
        const wm_dense_t *d = &net->dense[i];
        snprintf (name, sizeof name, "dense%u.w", i);
        ok = write_file (folder, name, d->weight, (size_t) d->n_in * d->n_out * sizeof (float));
        snprintf (name, sizeof name, "dense%u.b", i);
        ok = ok && write_file (folder, name, d->bias, d->n_out * sizeof (float));
    }
    return ok;
}

int gpu_dump (const char *folder, uint32_t hits)
{
    event_t event;
    wm_error_t error = { 0 };
    bool ok = make_event (&event, hits);
    float *patches = calloc (hits, 2304 * sizeof *patches);
    wm_plane_t *plane = wm_plane_new (&event.spec);
    ok = ok && patches && plane && !wm_plane_load (plane, &event.batch, &error);
    if (ok)
        wm_plane_cut (plane, 0, hits, patches);
    wm_cuda_config_t config = { .precision = WM_GPU_F16 };
    wm_cuda_t *cuda = wm_cuda_new (&wm_gpu_real, event.net, &event.spec, &config, &error);
    ok = ok && cuda && !wm_cuda_score (cuda, &event.batch, event.scores, NULL, &error);
    ok = ok && dump_net (folder, event.net) &&
         write_file (folder, "patches", patches, (size_t) hits * 2304 * sizeof *patches) &&
         write_file (folder, "scores", event.scores, (size_t) hits * GPU_OUTPUTS * sizeof (float));
    if (!ok)
        fprintf (stderr, "gpu_check dump %s: %s\n", folder, *error.text ? error.text : "cannot");
    wm_cuda_destroy (&cuda);
    wm_plane_destroy (&plane);
    free (patches);
    free_event (&event);
    return ok ? 0 : 1;
}
