/* wm_plugin_engine.c - the backend of a plug-in: rows in groups, of planes cut first; spot checks.

   Groups are as large as take about GROUP_S, so that a hang shows early. A plug-in that is
   CONCURRENT gets them in several threads. In one of SPOT batches a row is scored once more, alone:
   other bits end the process, because then nothing the plug-in answers can be trusted.  */
#include "kernels/patch/wm_image.h"
#include "kernels/plugin/wm_plugin.h"
#include "kernels/sparse/wm_sparse.h"
#include "kernels/wm_backend_private.h"
#include "schema/wm_limits.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define GROUP_S 0.25
#define GROUP_MAX 4096u
#define BLOCK_VALUES (1u << 20) /* of patches that are cut before they are scored */
#define THREADS_MAX 256
#define SPOT 16u
#define MEMORY_LEAST (1u << 26) /* as of --engine-memory */

typedef struct {
    const wm_model_t *model;
    wm_plugin_t plugin;
    wm_plane_t *plane; /* NULL: dense rows only */
    float *patch;      /* (block) cut from a plane */
    float *again;      /* a row's answer */
    uint32_t block;
    wm_sparse_pool_t *pool; /* NULL: one call at a time */
    uint32_t group;         /* rows a call */
    uint32_t n_score;       /* batches */
    uint64_t memory_most;   /* bytes that each process may have; 0: no limit */
} engine_t;

/* ---- open ------------------------------------------------------------------------------------ */

/* What decides the bits of code that does not promise them: the widest vectors of this CPU.  */
static const char *machine (uint32_t flags)
{
    if (flags & WIREMILL_ENGINE_SAME_BITS)
        return wm_device_cpu ();
#if defined __x86_64__
    __builtin_cpu_init ();
    return __builtin_cpu_supports ("avx512f") ? "x86-64-avx512"
           : __builtin_cpu_supports ("avx2")  ? "x86-64-avx2"
                                              : "x86-64";
#else
    return wm_device_cpu ();
#endif
}

static void engine_close (void *engine)
{
    engine_t *self = engine;
    wm_sparse_pool_destroy (&self->pool);
    wm_plugin_clear (&self->plugin);
    wm_plane_destroy (&self->plane);
    free (self->patch);
    free (self->again);
    free (self);
}

/* The plug-in must be the version, with the tensors, that the model was made of.  */
static wm_fault_t check_description (const wm_model_t *model,
                                     const wiremill_engine_description_t *about,
                                     const wm_port_t *input, const wm_port_t *output,
                                     wm_error_t *error)
{
    const wm_model_plugin_t *begun = wm_model_plugin (model);
    if (strcmp (about->name, begun->name) != 0 || strcmp (about->version, begun->version) != 0)
        return wm_fault (error, WM_EHOST,
                         "the plug-in is %s %s here, but the campaign was begun with %s %s: give "
                         "all workers the same",
                         about->name, about->version, begun->name, begun->version);
    bool same = about->n_input == wm_model_n_input (model) &&
                about->n_output == wm_model_n_output_port (model) && about->flags == begun->flags;
    for (uint32_t i = 0; i < about->n_input && same; i++)
        same = !memcmp (&input[i], wm_model_input (model, i), sizeof *input);
    for (uint32_t i = 0; i < about->n_output && same; i++)
        same = !memcmp (&output[i], wm_model_output (model, i), sizeof *output);
    return same ? WM_OK
                : wm_fault (error, WM_EHOST,
                            "the plug-in describes other inputs, outputs or flags here than where "
                            "the campaign was begun");
}

static wm_fault_t open_plugin (engine_t *self, const char *path, uint32_t threads,
                               wm_error_t *error)
{
    static wiremill_engine_description_t about;
    wm_port_t input[WM_MODEL_PORTS_MAX], output[WM_MODEL_PORTS_MAX];
    size_t bytes;
    const void *data = wm_model_original (self->model, &bytes);
    wm_fault_t fault = wm_plugin_load (&self->plugin, path, wm_model_plugin (self->model)->sha256,
                                       data, bytes, threads, error);
    if (!fault)
        fault = wm_plugin_describe (&self->plugin, &about, input, output, error);
    if (!fault)
        fault = check_description (self->model, &about, input, output, error);
    return fault ? fault : wm_plugin_open (&self->plugin, error);
}

/* Takes WM_ENGINE_MEMORY, which the children of this process have, too. A row that needs more makes
   the plug-in fail, and is found as any that does.  */
static wm_fault_t limit_memory (engine_t *self, wm_error_t *error)
{
    const char *text = getenv ("WM_ENGINE_MEMORY");
    char *end;
    struct rlimit data;
    if (!text)
        return WM_OK;
    errno = 0;
    self->memory_most = strtoull (text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || self->memory_most < MEMORY_LEAST)
        return wm_fault (error, WM_EHOST,
                         "WM_ENGINE_MEMORY=%.40s: give a number of bytes, at least %u", text,
                         MEMORY_LEAST);
    if (getrlimit (RLIMIT_DATA, &data) == 0 && data.rlim_max >= self->memory_most) {
        data.rlim_cur = self->memory_most;
        setrlimit (RLIMIT_DATA, &data);
    }
    return WM_OK;
}

/* Half of it is left for the next batch.  */
static bool engine_is_worn (const void *engine, wm_error_t *error)
{
    const engine_t *self = engine;
    const uint64_t bytes = self->memory_most ? wm_plugin_memory ().largest : 0;
    if (bytes <= self->memory_most / 2)
        return false;
    wm_fault (error, WM_EAGAIN,
              "the plug-in keeps %llu MiB, more than half of --engine-memory %lluM",
              (unsigned long long) (bytes >> 20), (unsigned long long) (self->memory_most >> 20));
    return true;
}

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const wm_model_plugin_t *facts = wm_model_plugin (model);
    engine_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for a plug-in");
        return NULL;
    }
    snprintf (signature, 64, "plugin%s/%.13s/fp32/%.32s",
              facts->flags & WIREMILL_ENGINE_SAME_BITS ? "-same" : "", machine (facts->flags),
              facts->sha256);
    const uint32_t n_value = wm_model_n_value (model),
                   threads =
                       (uint32_t) (config->threads < THREADS_MAX ? config->threads : THREADS_MAX);
    self->model = model;
    self->plugin.model = self->plugin.file = -1;
    self->group = 1;
    self->block = n_value < BLOCK_VALUES ? BLOCK_VALUES / n_value : 1;
    self->plane = spec ? wm_plane_new (spec) : NULL;
    self->patch = spec ? calloc ((size_t) self->block * n_value, sizeof *self->patch) : NULL;
    self->again = calloc (wm_model_n_output (model), sizeof *self->again);
    if (threads > 1 && facts->flags & WIREMILL_ENGINE_CONCURRENT)
        self->pool = wm_sparse_pool_new (threads, config->pin);
    wm_fault_t fault = self->again && (!spec || (self->plane && self->patch))
                           ? limit_memory (self, error)
                           : wm_fault (error, WM_EHOST, "no memory for a plug-in");
    if (!fault)
        fault = open_plugin (self, config->engine, threads, error);
    if (!fault && engine_is_worn (self, error))
        fault = WM_EHOST; /* it would be started again after each batch */
    if (fault) {
        engine_close (self);
        return NULL;
    }
    return self;
}

/* ---- score ----------------------------------------------------------------------------------- */

typedef struct {
    const engine_t *self;
    const float *in;
    float *out;
    uint32_t n, group;
    _Atomic uint64_t *progress;
    wm_error_t *error; /* (threads) */
    double *seconds;   /* (threads) the longest call */
} work_t;

static void score_group (void *argument, uint32_t task, uint32_t thread)
{
    const work_t *work = argument;
    const wm_model_t *model = work->self->model;
    const uint32_t first = task * work->group, left = work->n - first,
                   n = left < work->group ? left : work->group;
    if (work->error[thread].fault)
        return;
    const double start = wm_now_s ();
    if (!wm_plugin_score (
            &work->self->plugin, n, work->in + (size_t) first * wm_model_n_value (model),
            work->out + (size_t) first * wm_model_n_output (model), &work->error[thread]))
        atomic_fetch_add (work->progress, n);
    work->seconds[thread] = fmax (work->seconds[thread], wm_now_s () - start);
}

/* The next groups, after the longest call of `group` rows took so long.  */
static void adapt (engine_t *self, uint32_t group, double seconds)
{
    const double rows = seconds > 0 ? GROUP_S / seconds * group : GROUP_MAX;
    const uint32_t most = 4 * self->group < GROUP_MAX ? 4 * self->group : GROUP_MAX;
    self->group = rows < 1 ? 1 : rows > most ? most : (uint32_t) rows;
}

static wm_fault_t score_rows (engine_t *self, uint32_t n, const float *in, float *out,
                              _Atomic uint64_t *progress, wm_error_t *error)
{
    wm_error_t of_thread[THREADS_MAX] = { { .fault = WM_OK } };
    double seconds[THREADS_MAX] = { 0 }, longest = 0;
    work_t work = { self, in, out, n, self->group, progress, of_thread, seconds };
    const uint32_t n_task = (n + work.group - 1) / work.group;
    if (self->pool)
        wm_sparse_pool_run (self->pool, score_group, &work, n_task);
    for (uint32_t i = 0; i < n_task && !self->pool && !of_thread[0].fault; i++)
        score_group (&work, i, 0);
    for (uint32_t t = 0; t < THREADS_MAX; t++) {
        longest = fmax (longest, seconds[t]);
        if (of_thread[t].fault) {
            *error = of_thread[t];
            return error->fault;
        }
    }
    adapt (self, work.group < n ? work.group : n, longest);
    return WM_OK;
}

/* Scores a row of some calls once more.  */
static wm_fault_t check_spot (engine_t *self, uint32_t n, const float *in, const float *out,
                              wm_error_t *error)
{
    const size_t n_value = wm_model_n_value (self->model),
                 n_output = wm_model_n_output (self->model);
    const uint32_t row = self->n_score / SPOT % n;
    if (self->n_score++ % SPOT)
        return WM_OK;
    const wm_fault_t fault =
        wm_plugin_score (&self->plugin, 1, in + row * n_value, self->again, error);
    if (fault)
        return fault;
    const float *was = out + row * n_output;
    const size_t i = wm_bits_differ (was, self->again, n_output);
    return i == n_output
               ? WM_OK
               : wm_fault (error, WM_EPEER,
                           "the plug-in breaks its contract: it answered a row with %.9g, and the "
                           "same row alone with %.9g (output %zu); what it scored before may be "
                           "wrong, too: mend it, and begin a new campaign",
                           (double) was[i], (double) self->again[i], i);
}

static wm_fault_t engine_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    engine_t *self = engine;
    const size_t n_value = wm_model_n_value (self->model),
                 n_output = wm_model_n_output (self->model);
    const bool dense = batch->kind == WM_BATCH_PATCHES;
    wm_fault_t fault = dense ? WM_OK : wm_plane_load (self->plane, batch, error);
    (void) status;
    for (uint32_t first = 0; first < batch->n_hit && !fault; first += self->block) {
        const uint32_t left = batch->n_hit - first, n = left < self->block ? left : self->block;
        const float *in = dense ? batch->patch + first * n_value : self->patch;
        float *out = scores + first * n_output;
        if (!dense)
            wm_plane_cut (self->plane, first, n, self->patch);
        fault = score_rows (self, n, in, out, progress, error);
        if (!fault)
            fault = check_spot (self, n, in, out, error);
    }
    return fault;
}

const wm_backend_t wm_backend_plugin = {
    .open = engine_open, .close = engine_close, .score = engine_score, .is_worn = engine_is_worn
};
