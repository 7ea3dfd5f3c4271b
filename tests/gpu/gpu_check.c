/* gpu_check.c - what only a GPU can show of the CUDA engine: one program, nothing of ours beside
   it.

     gpu_check device        the GPU and the libraries that are used
     gpu_check test          all tests (TAP); skipped without a GPU, failed under WM_REQUIRE_GPU=1
     gpu_check quick [own]   those on small networks, in one process, for compute-sanitizer; own: of
                             our kernels alone, without a library of NVIDIA's
     gpu_check bench [N]     Markdown tables: the engine on a synthetic event of N hits (55,000)
                             and on sparse ones, cuDNN beside it
     gpu_check floors [N]    what the engine must do for them: counted, without a GPU
     gpu_check dump DIR [N]  weights, patches and scores for gpu_torch.py
     gpu_check ceilings      a Markdown table: memory, bus and tensor cores at their best

   `make gpu-check` runs it all by way of gpu_check.sh. The judge is the reference engine in double;
   tolerances are the project's: 1e-3 in half, 5e-4 in tf32, 1e-5 in split and in strict
   float32.  */
#include "tests/gpu/gpu_check.h"
#include "kernels/cudnn/wm_any.h"
#include "kernels/cudnn/wm_any_net.h"
#include "kernels/patch/wm_image.h"
#include "kernels/wm_driver.h"
#include "tests/unit/strict_arithmetic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PART_S 60 /* seconds a part of the tests may take */

static const char *const precisions[] = { "fp32", "tf32", "fp16", "split" };
static const double tolerance[] = { 1e-5, 5e-4, 1e-3, 1e-5 };
static struct {
    int number, failures;
} * results; /* shared by the processes that test */

static void report (bool ok, const char *what, const char *precision, const char *more)
{
    printf ("%sok %d - %s%s%s%s%s\n", ok ? "" : "not ", ++results->number, what,
            precision ? ", " : "", precision ? precision : "", *more ? ": " : "", more);
    fflush (stdout);
    results->failures += !ok;
}

bool gpu_lacks (const char *text)
{
    return strstr (text, "libcudnn.so.9 is ");
}

/* A test without cuDNN is skipped: what needs none is tested all the same.  */
static bool skips (const char *what, const char *precision, const char *text)
{
    char skip[700];
    const bool lacks = gpu_lacks (text);
    snprintf (skip, sizeof skip, "%s # SKIP %s", what, text);
    if (lacks)
        report (true, skip, precision, "");
    return lacks;
}

static wm_cuda_t *engine (const wm_net_t *net, const wm_spec_t *spec, int precision,
                          wm_error_t *error)
{
    wm_cuda_config_t config = { .precision = (wm_gpu_precision_t) precision };
    return wm_cuda_new (&wm_gpu_real, net, spec, &config, error);
}

/* The same hits in other groups, and once more: the same bits.  */
static bool same_bits (wm_cuda_t *cuda, const wm_batch_t *batch, const float *scores, float *again,
                       wm_error_t *error)
{
    const size_t bytes = (size_t) batch->n_hit * GPU_OUTPUTS * sizeof *scores;
    if (wm_cuda_score (cuda, batch, again, NULL, error) || memcmp (scores, again, bytes) != 0)
        return false;
    for (uint32_t i = 0, n = 1; i < batch->n_hit; i += n, n = n * 7 % 1500 + 1) {
        wm_batch_t part = *batch;
        part.n_hit = n = n < batch->n_hit - i ? n : batch->n_hit - i;
        part.hit_wire += i, part.hit_col += i;
        if (wm_cuda_score (cuda, &part, again + (size_t) i * GPU_OUTPUTS, NULL, error))
            return false;
    }
    return memcmp (scores, again, bytes) == 0;
}

/* Whether every step-th hit has the bits of strict fp32 as kernels/README.md states it.  */
static bool keeps_contract (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *batch,
                            const float *scores, uint32_t step)
{
    float *patch = calloc ((size_t) net->height * net->width, sizeof *patch), want[GPU_OUTPUTS];
    bool same = patch != NULL;
    for (uint32_t i = 0; i < batch->n_hit && same; i += step) {
        wm_image_patch_reference (spec, batch, i, patch);
        strict_scores (net, wm_spec_zero (spec), patch, want);
        same = memcmp (want, scores + (size_t) i * GPU_OUTPUTS, sizeof want) == 0;
    }
    free (patch);
    return same;
}

static void test_plane (const char *what, const gpu_shape_t *shape, wm_spec_view_t view,
                        int precision, uint32_t n_hit, uint32_t step)
{
    char more[600];
    wm_error_t error = { 0 };
    wm_net_t *net = gpu_net_new (shape, 1);
    wm_spec_t spec = gpu_spec (net, view == WM_FULL_VIEW, view);
    wm_batch_t batch;
    gpu_plane_new (&batch, &spec, 480, 500, n_hit, 1);
    float *scores = calloc (2 * (size_t) n_hit * GPU_OUTPUTS, sizeof *scores);
    wm_cuda_t *cuda = engine (net, &spec, precision, &error);
    if (!cuda || !scores || wm_cuda_score (cuda, &batch, scores, NULL, &error))
        report (strstr (error.text, "shared memory a block") != NULL, what, precisions[precision],
                error.text);
    else {
        double worst = gpu_worst (net, &spec, &batch, scores, step);
        snprintf (more, sizeof more, "off by %.1e (%s; %s)", worst, wm_cuda_signature (cuda),
                  wm_cuda_choice (cuda));
        report (worst <= tolerance[precision], what, precisions[precision], more);
        if (precision == WM_GPU_F32)
            report (keeps_contract (net, &spec, &batch, scores, step), "the bits of the CPU",
                    precisions[precision], "");
        report (same_bits (cuda, &batch, scores, scores + (size_t) n_hit * GPU_OUTPUTS, &error),
                "the same bits in other groups", precisions[precision], error.text);
    }
    wm_cuda_destroy (&cuda);
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
    free (scores);
}

static void test_held (int precision)
{
    static float patch[3 * 2304], scores[3 * GPU_OUTPUTS];
    wm_error_t error = { 0 };
    wm_net_t *net = gpu_net_new (&gpu_shape_real, 1);
    wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 3, .patch_values = 2304, .patch = patch
    };
    for (int i = 0; i < 3 * 2304; i++)
        patch[i] = (float) (i % 7) / 7;
    patch[2304 + 100] = NAN;
    wm_cuda_t *cuda = engine (net, NULL, precision, &error);
    bool ok = cuda && !wm_cuda_score (cuda, &batch, scores, NULL, &error);
    for (uint32_t k = 0; ok && k < GPU_OUTPUTS; k++)
        ok = isfinite (scores[k]) && isnan (scores[GPU_OUTPUTS + k]) &&
             isfinite (scores[2 * GPU_OUTPUTS + k]);
    report (ok, "a NaN pixel holds its patch only", precisions[precision], error.text);
    wm_cuda_destroy (&cuda);
    gpu_net_destroy (&net);
}

static void test_own_planes (void)
{
    static const char *const downscale[] = { "mean", "maxpool", "maxmean" };
    char text[400], more[420];
    for (int d = WM_MEAN; d <= WM_MAXMEAN; d++) {
        bool ok = gpu_plane_agrees ((wm_downscale_t) d, text);
        snprintf (more, sizeof more, "%s", text);
        report (ok, "own view's images are the host's bit for bit", downscale[d], more);
    }
}

static void test_any (void)
{
    char text[400];
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p++) {
        bool ok = gpu_any_agrees ((wm_gpu_precision_t) p, text);
        if (!skips ("any CNN", precisions[p], text))
            report (ok, "any CNN, as on the stand-in", precisions[p], text);
    }
}

/* Prints the files of the libraries: a machine may have two versions of one.  */
static void say_libraries (void)
{
    char line[4096], last[4096] = "";
    FILE *maps = fopen ("/proc/self/maps", "r");
    while (maps && fgets (line, sizeof line, maps)) {
        const char *path = strchr (line, '/'), *name = strrchr (line, '/');
        if (name && strcmp (path, last) != 0 &&
            (strncmp (name, "/libcudnn.so", 12) == 0 || strncmp (name, "/libcublasLt", 12) == 0 ||
             strncmp (name, "/libcuda.so", 11) == 0)) {
            printf ("# %s", path);
            snprintf (last, sizeof last, "%s", path);
        }
    }
    if (maps)
        fclose (maps);
}

/* Prints cuDNN's version, or why it cannot be used.  */
static void print_cudnn (void *gpu, wm_gpu_info_t *info)
{
    const wm_gpu_text_t text = wm_gpu_real.open_cudnn (gpu, info);
    if (text)
        printf ("# without cuDNN: %s\n", text);
    printf ("# our kernels are compiled by CUDA, cuDNN: %s\n", info->libraries);
}

/* 0: there is a GPU that opens; 1: there is none; 2: it cannot be opened.  */
static int print_device (void *argument)
{
    wm_gpu_info_t info = { 0 };
    void *gpu = wm_gpu_real.make ();
    wm_gpu_text_t text = wm_gpu_real.open (gpu, &info);
    const wm_driver_t driver = wm_driver_open (0);
    (void) argument;
    if (driver.version)
        printf ("# the driver is for CUDA %d.%d\n", driver.version / 1000,
                driver.version / 10 % 100);
    if (text)
        printf ("# %s\n", text);
    else {
        printf ("# %s, sm_%d%d, %d multiprocessors, %zu MiB free\n", info.device, info.major,
                info.minor, info.n_sm, info.free_bytes >> 20);
        print_cudnn (gpu, &info);
    }
    say_libraries ();
    const bool none = driver.state == WM_DRIVER_NONE || driver.state == WM_DRIVER_NO_GPU;
    wm_gpu_real.destroy (gpu);
    return !text ? 0 : none ? 1 : 2;
}

/* A network of the family by cuDNN: two convolutions, two roots, which our kernels refuse.  */
static void test_family (int precision)
{
    static const gpu_shape_t odd = { 9, 11, 1, 2, { 5, 6 }, { 3, 2 }, 13, 7, 3, true };
    static float scores[500 * GPU_OUTPUTS];
    char more[600];
    wm_error_t error = { 0 };
    wm_net_t *net = gpu_net_new (&odd, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t batch;
    gpu_plane_new (&batch, &spec, 48, 50, 500, 1);
    wm_any_net_t *steps = wm_any_family_new (net, precision == WM_GPU_F32, &error);
    wm_cuda_t *any =
        steps ? wm_any_new (&wm_gpu_real, steps, &spec, (wm_gpu_precision_t) precision, 0, &error)
              : NULL;
    if (!any || wm_cuda_score (any, &batch, scores, NULL, &error)) {
        if (!skips ("a family network by cuDNN", precisions[precision], error.text))
            report (false, "a family network by cuDNN", precisions[precision], error.text);
    } else {
        const double worst = gpu_worst (net, &spec, &batch, scores, 1);
        snprintf (more, sizeof more, "off by %.1e (%s; %s)", worst, wm_cuda_signature (any),
                  wm_cuda_choice (any));
        report (worst <= tolerance[precision], "a family network by cuDNN", precisions[precision],
                more);
    }
    wm_cuda_destroy (&any);
    wm_any_net_destroy (&steps);
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
}

static int test_small (void *argument)
{
    static const gpu_shape_t small = { 12, 10, 1, 1, { 8 }, { 5 }, 16, 8, 3, false },
                             small48 = { 14, 12, 1, 1, { 48 }, { 5 }, 128, 32, 1, false };
    (void) argument;
    for (int p = WM_GPU_F32; p <= WM_GPU_SPLIT; p++) {
        if (p == WM_GPU_TF32)
            continue;
        test_plane ("a small network", &small, WM_FULL_VIEW, p, 1500, 1);
        test_plane ("a small one of 48 filters", &small48, WM_FULL_VIEW, p, 1500, 1);
        test_plane ("own view", &small, WM_OWN_VIEW, p, 1500, 1);
    }
    return 0;
}

static int test_real (void *argument)
{
    const int precision = *(const int *) argument;
    test_plane ("the real network", &gpu_shape_real, WM_FULL_VIEW, precision, 5000, 37);
    test_held (precision);
    return 0;
}

static int test_others (void *argument)
{
    (void) argument;
    test_any ();
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p += 2)
        test_family (p);
    test_own_planes ();
    return 0;
}

static void run_part (const char *what, int (*part) (void *), void *argument)
{
    const int code = gpu_apart (PART_S, part, argument);
    if (code)
        report (false, what, NULL, code < 0 ? "see above" : "it ended early");
}

/* For compute-sanitizer, which checks one process, slowly: our kernels alone come first, in
   case that the time is over before all is done.  */
static void quick_tests (bool own)
{
    test_small (NULL);
    if (!own)
        test_any ();
}

int gpu_tests (gpu_tests_t which)
{
    const bool quick = which != GPU_ALL_TESTS;
    results =
        mmap (NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED)
        return 1;
    const bool required = getenv ("WM_REQUIRE_GPU") != NULL;
    const int device = quick ? 0 : gpu_apart (PART_S, print_device, NULL);
    if (device)
        report (device == 1 && !required,
                device == 1 && !required ? "# SKIP no GPU" : "a GPU that opens", NULL, "");
    else if (quick)
        quick_tests (which == GPU_OWN_TESTS);
    else {
        run_part ("small networks", test_small, NULL);
        for (int p = WM_GPU_SPLIT; p >= WM_GPU_F32; p--)
            if (p != WM_GPU_TF32)
                run_part ("the real network", test_real, &p);
        run_part ("any CNN, the family by cuDNN, own view", test_others, NULL);
    }
    printf ("1..%d\n", results->number);
    return results->failures;
}

int main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp (what, "test") == 0)
        return gpu_tests (GPU_ALL_TESTS) ? 1 : 0;
    if (strcmp (what, "quick") == 0)
        return gpu_tests (argc > 2 ? GPU_OWN_TESTS : GPU_QUICK_TESTS) ? 1 : 0;
    if (strcmp (what, "device") == 0)
        return print_device (NULL);
    if (strcmp (what, "bench") == 0)
        return gpu_bench (argc > 2 ? atof (argv[2]) : 55000);
    if (strcmp (what, "floors") == 0)
        return gpu_floors (argc > 2 ? atof (argv[2]) : 55000);
    if (strcmp (what, "dump") == 0 && argc > 2)
        return gpu_dump (argv[2], argc > 3 ? (uint32_t) atoi (argv[3]) : 16384);
    if (strcmp (what, "ceilings") == 0)
        return gpu_ceilings ();
    fprintf (
        stderr,
        "usage: gpu_check device | test | quick [own] | bench [HITS] | floors [HITS] | dump DIR "
        "[HITS] | ceilings\n");
    return 2;
}
