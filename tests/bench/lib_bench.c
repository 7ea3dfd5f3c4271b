/* lib_bench.c - how fast calls of libwiremill are beside the engine that they reach.

   usage: lib_bench engine|calls|eight MODEL.wmm PATCHES.f4 SECONDS [ROWS THREADS]

   engine: wm_device_score by one thread of its own, as a worker calls it, in batches of 4 MiB; or
   of ROWS patches (up to 455) by THREADS threads. calls: wiremill_score with 256 patches a call, in
   this thread. eight: the same by eight threads on one handle. Prints one point in the format of
   `wiremill bench --json`: hits_s, hits a second of CPU time (the same on an idle machine),
   wall_hits_s, of time, and the median call in milliseconds (of one thread), after a round that is
   not counted.  */
#include "kernels/wm_device.h"
#include "ops/lib/wiremill.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALL = 256, ENGINE_CALL = 455, THREADS = 8 }; /* 455 patches of 48 x 48: 4 MiB */
enum { TIMES_MAX = 1 << 20 };

static float *patches;
static size_t n_patch, n_value, n_output, engine_call = ENGINE_CALL;
static double *took_s; /* calls of one thread */
static size_t n_took;
static wm_device_t *device; /* or */
static wiremill_t *model;

static void __attribute__ ((noreturn)) die (const char *text)
{
    fprintf (stderr, "lib_bench: %s\n", text);
    exit (1);
}

static double seconds (clockid_t clock)
{
    struct timespec now;
    clock_gettime (clock, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static void read_patches (const char *path)
{
    FILE *file = fopen (path, "rb");
    if (!file || fseek (file, 0, SEEK_END))
        die (path);
    n_patch = (size_t) ftell (file) / sizeof (float) / n_value / CALL * CALL;
    rewind (file);
    patches = malloc (n_patch * n_value * sizeof *patches);
    if (!n_patch || !patches ||
        fread (patches, n_value * sizeof *patches, n_patch, file) != n_patch)
        die (path);
    fclose (file);
}

/* All patches once.  */
static void *score_once (void *argument)
{
    const size_t call = device ? engine_call : CALL;
    float *scores = argument;
    for (size_t i = 0; i < n_patch; i += call) {
        const size_t n = n_patch - i < call ? n_patch - i : call;
        uint8_t status[ENGINE_CALL];
        wm_error_t error;
        wiremill_error_t lib_error;
        const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                                   .n_hit = (uint32_t) n,
                                   .patch_values = (uint32_t) n_value,
                                   .patch = patches + i * n_value };
        const double begun_s = seconds (CLOCK_MONOTONIC);
        if (device && wm_device_score (device, &batch, status, scores, &error))
            die (error.text);
        if (model &&
            wiremill_score (model, patches + i * n_value, n, n_value, scores, status, &lib_error))
            die (lib_error.text);
        if (device && n == call && n_took < TIMES_MAX)
            took_s[n_took++] = seconds (CLOCK_MONOTONIC) - begun_s;
    }
    return NULL;
}

static int compare (const void *one, const void *other)
{
    const double a = *(const double *) one, b = *(const double *) other;
    return (a > b) - (a < b);
}

static void round_of (int n_thread, float *scores)
{
    pthread_t thread[THREADS];
    for (int t = 1; t < n_thread; t++)
        if (pthread_create (&thread[t], NULL, score_once,
                            scores + (size_t) t * ENGINE_CALL * n_output))
            die ("no thread");
    score_once (scores);
    for (int t = 1; t < n_thread; t++)
        pthread_join (thread[t], NULL);
}

int main (int argc, char **argv)
{
    wm_error_t error = { 0 };
    wiremill_error_t lib_error;
    if (argc != 5 && argc != 7)
        die ("usage: lib_bench engine|calls|eight MODEL.wmm PATCHES.f4 SECONDS [ROWS THREADS]");
    engine_call = argc == 7 ? (size_t) atol (argv[5]) : ENGINE_CALL;
    if (engine_call < 1 || engine_call > ENGINE_CALL)
        die ("ROWS is from 1 to 455");
    const int n_thread = strcmp (argv[1], "eight") == 0 ? THREADS : 1;
    wm_model_t *file = wm_model_open (argv[2], &error);
    if (!file)
        die (error.text);
    n_value = wm_model_n_value (file), n_output = wm_model_n_output (file);
    read_patches (argv[3]);
    const wm_device_config_t config = { .engine = "auto",
                                        .precision = "fp32",
                                        .threads = argc == 7 ? atoi (argv[6]) : 1 };
    if (strcmp (argv[1], "engine") == 0 && !(device = wm_device_new (file, NULL, &config, &error)))
        die (error.text);
    if (!device && !(model = wiremill_open (argv[2], NULL, &lib_error)))
        die (lib_error.text);
    float *scores = malloc (THREADS * ENGINE_CALL * n_output * sizeof *scores);
    took_s = malloc (TIMES_MAX * sizeof *took_s);
    if (!scores || !took_s)
        die ("no memory");
    round_of (n_thread, scores);
    n_took = 0;
    const double start = seconds (CLOCK_PROCESS_CPUTIME_ID), limit = atof (argv[4]);
    const double begun = seconds (CLOCK_MONOTONIC);
    double used;
    size_t hits = 0;
    do {
        round_of (n_thread, scores);
        hits += n_patch * (size_t) n_thread;
    } while ((used = seconds (CLOCK_PROCESS_CPUTIME_ID) - start) < limit);
    const double passed = seconds (CLOCK_MONOTONIC) - begun;
    qsort (took_s, n_took, sizeof *took_s, compare);
    printf (
        "{\"schema\": \"wiremill-bench-1\", \"points\": [{\"bench\": \"library\", \"of\": "
        "\"%s\", \"threads\": %d, \"hits_s\": %.1f, \"wall_hits_s\": %.1f, \"p50_ms\": %.3f}]}\n",
        argv[1], n_thread, (double) hits / used, (double) hits / passed,
        n_took ? 1e3 * took_s[n_took / 2] : 0.0);
    free (took_s);
    wm_device_destroy (&device);
    wm_model_destroy (&file);
    wiremill_close (&model);
    free (scores), free (patches);
    return 0;
}
