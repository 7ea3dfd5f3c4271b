/* engine_bench.c - an engine alone, on the batches a campaign would send it.

   Reads events, cuts and encodes them as a producer does, decodes them all as a worker does, and
   only then times the engine: as many devices as workers, of one thread each or of --threads, every
   device the next batch. So the number is what the same cores could do if nothing but the engine ran.

   usage: engine_bench MODEL.wmm SPEC INPUT [--engine E] [--precision P] [--workers N]
          [--threads N] [--hits N]
   SPEC is a preset or a YAML file; --hits stops after so many (all). Prints one line of JSON.  */
#include "kernels/wm_device.h"
#include "producer/wm_pack.h"
#include "producer/wm_reader.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define WORKERS_MAX 64

typedef struct {
    wm_batch_t *batch;
    size_t n_batch, capacity;
    uint64_t n_hit;
} batches_t;

typedef struct {
    const batches_t *batches;
    atomic_size_t next;
    wm_device_t *device[WORKERS_MAX];
    uint32_t n_output;
} work_t;

typedef struct {
    work_t *work;
    int number;
} worker_t;

static void die (const char *text)
{
    fprintf (stderr, "engine_bench: %s\n", text);
    exit (1);
}

static double seconds (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static void spec_read (wm_spec_t *spec, const char *name)
{
    wm_error_t error;
    struct stat st;
    if (stat (name, &st)) {
        if (wm_spec_preset (spec, name, &error))
            die (error.text);
        return;
    }
    static char text[WM_PINS_BYTES_MAX];
    FILE *file = fopen (name, "r");
    size_t bytes = file ? fread (text, 1, sizeof text, file) : 0;
    if (!file || fclose (file) || wm_spec_parse (spec, text, bytes, name, &error))
        die (file ? error.text : name);
}

static void pack_decode (batches_t *all, wm_coder_t *coder, const wm_pack_t *pack, uint64_t hits)
{
    wm_error_t error;
    for (uint32_t b = 0; b < pack->n_batch && all->n_hit < hits; b++) {
        if (all->n_batch == all->capacity) {
            all->capacity = all->capacity ? 2 * all->capacity : 256;
            all->batch = realloc (all->batch, all->capacity * sizeof *all->batch);
            assert (all->batch);
        }
        wm_batch_t *batch = &all->batch[all->n_batch++];
        memset (batch, 0, sizeof *batch);
        size_t first = pack->frame_start[b], bytes = pack->frame_start[b + 1] - first;
        if (wm_batch_decode (batch, coder, pack->frames + first, bytes, &error))
            die (error.text);
        all->n_hit += batch->n_hit;
    }
}

static batches_t batches_read (const char *input, const wm_spec_t *spec, const wm_model_t *model,
                               uint64_t hits)
{
    batches_t all = { 0 };
    const uint8_t digest[16] = { 0 }, *in_fiducial;
    wm_error_t error;
    wm_event_t event = { 0 };
    wm_reader_t *reader = wm_reader_open (input, spec, wm_model_n_value (model), &error);
    if (!reader)
        die (error.text);
    wm_packer_t *packer =
        wm_packer_new (spec, wm_model_n_output (model), 4096, WM_RAW_BYTES_MAX, digest);
    wm_coder_t *coder = wm_coder_new ();
    for (uint32_t e = 0; e < wm_reader_n_event (reader) && all.n_hit < hits; e++) {
        wm_pack_t *pack = NULL;
        if (wm_reader_event (reader, e, &event, &error) ||
            wm_packer_pack (packer, &event, input, &pack, &in_fiducial, &error))
            die (error.text);
        pack_decode (&all, coder, pack, hits);
        wm_pack_destroy (&pack);
    }
    wm_coder_destroy (&coder);
    wm_packer_destroy (&packer);
    wm_event_clear (&event);
    wm_reader_destroy (&reader);
    return all;
}

static void *worker_run (void *argument)
{
    worker_t *worker = argument;
    work_t *work = worker->work;
    uint8_t *status = malloc (WM_RAW_BYTES_MAX);
    float *scores = malloc (WM_RAW_BYTES_MAX);
    assert (status && scores);
    wm_error_t error;
    for (size_t i; (i = atomic_fetch_add (&work->next, 1)) < work->batches->n_batch;)
        if (wm_device_score (work->device[worker->number], &work->batches->batch[i], status, scores,
                             &error))
            die (error.text);
    free (status);
    free (scores);
    return NULL;
}

static double score_all (work_t *work, int workers)
{
    pthread_t thread[WORKERS_MAX];
    worker_t worker[WORKERS_MAX];
    atomic_store (&work->next, 0);
    double start = seconds ();
    for (int i = 0; i < workers; i++) {
        worker[i] = (worker_t){ work, i };
        pthread_create (&thread[i], NULL, worker_run, &worker[i]);
    }
    for (int i = 0; i < workers; i++)
        pthread_join (thread[i], NULL);
    return seconds () - start;
}

int main (int argc, char **argv)
{
    if (argc < 4)
        die ("usage: engine_bench MODEL.wmm SPEC INPUT [--engine E] [--precision P] [--workers N] "
             "[--threads N] [--hits N]");
    wm_device_config_t config = { .engine = "auto", .precision = "fp32", .threads = 1 };
    int workers = 2;
    uint64_t hits = UINT64_MAX;
    for (int i = 4; i + 1 < argc; i += 2)
        if (!strcmp (argv[i], "--engine"))
            config.engine = argv[i + 1];
        else if (!strcmp (argv[i], "--precision"))
            config.precision = argv[i + 1];
        else if (!strcmp (argv[i], "--workers"))
            workers = atoi (argv[i + 1]);
        else if (!strcmp (argv[i], "--threads"))
            config.threads = atoi (argv[i + 1]);
        else if (!strcmp (argv[i], "--hits"))
            hits = strtoull (argv[i + 1], NULL, 10);
        else
            die (argv[i]);
    if (workers < 1 || workers > WORKERS_MAX)
        die ("--workers takes 1 to 64");
    wm_error_t error;
    wm_spec_t spec;
    spec_read (&spec, argv[2]);
    wm_model_t *model = wm_model_open (argv[1], &error);
    if (!model)
        die (error.text);
    batches_t all = batches_read (argv[3], &spec, model, hits);
    work_t work = { .batches = &all, .n_output = wm_model_n_output (model) };
    for (int i = 0; i < workers; i++)
        if (!(work.device[i] = wm_device_new (model, &spec, &config, &error)))
            die (error.text);
    double best = score_all (&work, workers); /* the first run also warms memory up */
    for (double spent = best, again; spent < 2; spent += again)
        best = (again = score_all (&work, workers)) < best ? again : best;
    printf ("{\"signature\": \"%s\", \"workers\": %d, \"threads\": %d, \"hits\": %llu, "
            "\"batches\": %zu, "
            "\"seconds\": %.3f, \"hits_s\": %.0f}\n",
            wm_device_signature (work.device[0]), workers, config.threads,
            (unsigned long long) all.n_hit, all.n_batch, best, (double) all.n_hit / best);
    for (int i = 0; i < workers; i++)
        wm_device_destroy (&work.device[i]);
    for (size_t i = 0; i < all.n_batch; i++)
        wm_batch_clear (&all.batch[i]);
    free (all.batch);
    wm_model_destroy (&model);
    return 0;
}
