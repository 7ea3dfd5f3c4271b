/* wm_lib.c - scoring in the process that calls: what ops/lib/wiremill.h promises, over
   kernels/wm_device.h.

   A handle is a model and a device. Where the device computes on its callers' threads
   (wm_device_config_t), calls pass without a lock. Else the device has threads: calls take turns,
   and a child of fork, which has not got those threads, is refused.  */
#include "ops/lib/wm_lib_private.h"
#include "kernels/import/wm_import.h"
#include "kernels/judge/wm_trial.h"
#include "kernels/wm_device.h"
#include "ops/campaign/wm_columns.h"
#include "schema/base/wm_log.h"
#include "schema/wm_defaults.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS_MAX 256
#define LABEL_BYTES 32
#define NO_PLUGIN "plug-ins need a worker: use wiremill run"

struct wiremill_t {
    wm_model_t *model;
    wm_device_t *device;
    bool on_callers;
    pid_t owner; /* that opened it */
    pthread_mutex_t lock;
    size_t n_value, n_output;
    char (*label)[LABEL_BYTES]; /* (n_output) */
};

static_assert ((int) WIREMILL_AGAIN == WM_EAGAIN && (int) WIREMILL_INPUT == WM_EBATCH &&
                   (int) WIREMILL_HOST == WM_EHOST && (int) WIREMILL_USAGE == WM_EUSAGE,
               "faults are those of wiremill");
static_assert ((int) WIREMILL_BAD_PIXEL == WM_HIT_BAD_PIXEL && (int) WIREMILL_HELD == WM_HIT_HELD &&
                   (int) WIREMILL_NONFINITE == WM_HIT_NONFINITE,
               "statuses are those of outputs");
static_assert (sizeof (wiremill_error_t) == 512 && sizeof (wiremill_options_t) == 40,
               "sizes that programs were compiled with");

wm_fault_t wm_lib_wrong_size (size_t n_value, const uint32_t *dim, uint32_t n_dim,
                              wm_error_t *error)
{
    char shape[12 * WIREMILL_DIMS_MAX + 1];
    size_t n = 0;
    for (uint32_t d = 0; d < n_dim; d++)
        n += (size_t) sprintf (shape + n, "%s%u", d ? ", " : "", dim[d]);
    return wm_fault (error, WM_EUSAGE, "patches of %zu values, the model takes (%s)", n_value,
                     shape);
}

wiremill_fault_t wm_lib_fault (wiremill_error_t *error, const wm_error_t *from)
{
    /* a peer's fault is this machine's: there are no peers here */
    const wm_fault_t fault =
        from->fault == WM_EPEER || from->fault == WM_EKEY ? WM_EHOST : from->fault;
    if (error) {
        error->fault = (int32_t) fault;
        snprintf (error->text, sizeof error->text, "%s", from->text);
        wm_log_sanitize (error->text); /* names in a model's file, or a path, may hold anything */
    }
    return (wiremill_fault_t) fault;
}

const char *wiremill_version (void)
{
    return WM_VERSION;
}

const char *wiremill_status_text (uint8_t status)
{
    return wm_hit_status_text (status);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Whether the file is a .wmm, by its first bytes.  */
static bool is_wmm (const char *path)
{
    static const char mark[7] = "\x89WMM\r\n\x1a";
    char head[sizeof mark];
    const int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO is no model */
    const ssize_t n = fd < 0 ? -1 : read (fd, head, sizeof head);
    if (fd >= 0)
        close (fd);
    return n == (ssize_t) sizeof mark && memcmp (head, mark, sizeof mark) == 0;
}

/* Imports a model to a file that has no name any more when this returns.  */
static wm_model_t *import (const char *path, const wiremill_options_t *options, wm_error_t *error)
{
    char folder[PATH_MAX / 2], wmm[PATH_MAX], why[480];
    const char *temporary = getenv ("TMPDIR");
    const wm_import_choices_t choices = { .outputs = options->outputs };
    if (snprintf (folder, sizeof folder, "%s/libwiremill-XXXXXX",
                  temporary && *temporary ? temporary : "/tmp") >= (int) sizeof folder ||
        !mkdtemp (folder)) {
        wm_fault (error, WM_EHOST, "%.200s: no folder for the import of a model: %s; set TMPDIR",
                  folder, strerror (errno));
        return NULL;
    }
    snprintf (wmm, sizeof wmm, "%s/model.wmm", folder);
    wm_model_t *model = NULL;
    if (!wm_import_here (path, &choices, wmm, why, error))
        model = wm_model_open (wmm, error);
    unlink (wmm);
    rmdir (folder);
    return model;
}

static wm_fault_t open_model (wiremill_t *self, const char *path, const wiremill_options_t *options,
                              wm_error_t *error)
{
    struct stat status;
    if (stat (path, &status))
        return wm_fault (error, WM_EUSAGE, "%.300s: %s", path, strerror (errno));
    if (S_ISDIR (status.st_mode))
        return wm_fault (error, WM_EUSAGE, "%.300s: a folder, not a model", path);
    const bool is_made = is_wmm (path);
    if (is_made && options->outputs)
        return wm_fault (error, WM_EUSAGE,
                         "%.300s: a .wmm has the outputs that it was imported with: import the "
                         "model again with --outputs",
                         path);
    self->model = is_made ? wm_model_open (path, error) : import (path, options, error);
    if (!self->model)
        return error->fault;
    const wm_port_t *port;
    if (wm_model_plugin (self->model))
        return wm_fault (error, WM_EUSAGE, "%.300s: " NO_PLUGIN, path);
    if (wm_model_is_ragged (self->model, &port))
        return wm_fault (error, WM_EUSAGE,
                         "%.300s: '%.128s' has a free dimension: libwiremill takes patches of one "
                         "size; serve the model with wiremill gateway, or export it with fixed "
                         "sizes",
                         path, port->name);
    if ((port = wm_model_exact (self->model)))
        return wm_fault (error, WM_EUSAGE,
                         "%.300s: '%.128s' keeps a type that float32 does not hold, for wiremill "
                         "gateway: libwiremill takes float32; import the model without "
                         "--exact-types",
                         path, port->name);
    self->n_value = wm_model_n_value (self->model);
    self->n_output = wm_model_n_output (self->model);
    return WM_OK;
}

/* The known answers' patches decide which rounded arithmetic is precise enough.  */
static wm_device_t *open_rounded (const wm_model_t *model, const wm_device_config_t *config,
                                  wm_error_t *error)
{
    const float *inputs, *scores;
    wm_trial_t trial;
    const uint32_t n = wm_model_known (model, &inputs, &scores);
    const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                               .n_hit = n,
                               .patch_values = wm_model_n_value (model),
                               .patch = (float *) (uintptr_t) inputs };
    wm_device_t *judge = wm_trial_judge (model, NULL, config, error);
    wm_device_t *device =
        judge ? wm_trial_open (model, NULL, config, judge, NULL, &batch, n > 0, &trial, error)
              : NULL;
    wm_device_destroy (&judge);
    return device;
}

static wm_fault_t open_device (wiremill_t *self, const wiremill_options_t *options,
                               wm_error_t *error)
{
    const char *engine = options->engine ? options->engine : "auto";
    wm_device_config_t config = {
        .engine = engine,
        .precision = options->precision ? options->precision : "fp32",
        .threads = options->threads ? (int) options->threads : 1,
        .keeps_infinite = true,
    };
    self->on_callers = config.threads == 1 && wm_model_kind (self->model) == WM_MODEL_FAMILY &&
                       (strcmp (engine, "auto") == 0 || strcmp (engine, "sparse") == 0);
    config.on_callers = self->on_callers;
    const bool rounded =
        strcmp (config.precision, "split") == 0 || strcmp (config.precision, "fast") == 0;
    self->device = rounded ? open_rounded (self->model, &config, error)
                           : wm_device_new (self->model, NULL, &config, error);
    return self->device ? wm_device_self_test (self->device, error) : error->fault;
}

static wm_fault_t make_labels (wiremill_t *self, wm_error_t *error)
{
    wm_spec_t spec;
    const wm_columns_from_t from = { .preset = WM_DEFAULT_SPEC };
    char line[WM_COLUMNS_BYTES_MAX];
    if (self->n_output > WM_OUTPUTS_MAX) /* an image: no column has a name */
        return WM_OK;
    wm_fault_t fault = wm_spec_preset (&spec, WM_DEFAULT_SPEC, error);
    if (!fault)
        fault = wm_columns_choose (&spec, &from, self->model, line, error);
    self->label = fault ? NULL : calloc (self->n_output, sizeof *self->label);
    if (!fault && !self->label)
        fault = wm_fault (error, WM_EHOST, "no memory for %zu labels", self->n_output);
    for (size_t i = 0; i < self->n_output && !fault; i++)
        if (spec.n_label)
            snprintf (self->label[i], LABEL_BYTES, "%s", spec.label[i]);
        else
            snprintf (self->label[i], LABEL_BYTES, "out_%zu", i);
    return fault;
}

/* Takes what the caller's struct has; a later one may be longer, an unset field is 0 or NULL.  */
static wm_fault_t take_options (const wiremill_options_t *given, wiremill_options_t *options,
                                wm_error_t *error)
{
    static const char *const precision[] = { "fp32", "split", "fast" };
    *options = (wiremill_options_t){ .size = sizeof *options };
    if (!given)
        return WM_OK;
    if (given->size != sizeof *options)
        return wm_fault (error, WM_EUSAGE,
                         "wiremill_options_t: size is %zu, not %zu: zero the struct, then set its "
                         "size to sizeof (wiremill_options_t)",
                         given->size, sizeof *options);
    *options = *given;
    bool known = !options->precision;
    for (size_t i = 0; i < 3 && !known; i++)
        known = strcmp (options->precision, precision[i]) == 0;
    if (!known)
        return wm_fault (error, WM_EUSAGE,
                         "no precision is called '%.64s': there are fp32, split and fast",
                         options->precision);
    if (options->engine && wm_device_is_plugin (options->engine))
        return wm_fault (error, WM_EUSAGE, "%.300s: " NO_PLUGIN, options->engine);
    char names[160];
    wm_device_engine_names (names);
    if (options->engine && strcmp (options->engine, "auto") != 0 &&
        !*wm_device_engine (options->engine)->name)
        return wm_fault (error, WM_EUSAGE, "no engine is called '%.64s': there are %s",
                         options->engine, names);
    if (options->threads > THREADS_MAX || options->reserved)
        return wm_fault (error, WM_EUSAGE, "%u threads: there may be 1 to %d, and `reserved` is 0",
                         options->threads, THREADS_MAX);
    return WM_OK;
}

wiremill_t *wiremill_open (const char *path, const wiremill_options_t *options,
                           wiremill_error_t *error)
{
    wiremill_options_t mine;
    wm_error_t why = { .fault = WM_OK };
    wm_fault_t fault = path ? take_options (options, &mine, &why)
                            : wm_fault (&why, WM_EUSAGE, "the path of the model is NULL");
    wiremill_t *self = fault ? NULL : calloc (1, sizeof *self);
    if (!fault && !self)
        fault = wm_fault (&why, WM_EHOST, "%.300s: no memory to open it", path);
    if (!fault && pthread_mutex_init (&self->lock, NULL)) {
        fault = wm_fault (&why, WM_EHOST, "%.300s: no lock for it", path);
        free (self);
        self = NULL;
    }
    fenv_t callers; /* threads of the engine inherit the mode */
    fegetenv (&callers);
    fesetenv (FE_DFL_ENV);
    if (self) {
        self->owner = getpid ();
        if ((fault = open_model (self, path, &mine, &why)) == WM_OK &&
            (fault = make_labels (self, &why)) == WM_OK)
            fault = open_device (self, &mine, &why);
        if (fault)
            wiremill_close (&self);
    }
    fesetenv (&callers);
    if (fault)
        wm_lib_fault (error, &why);
    return self;
}

void wiremill_close (wiremill_t **self_p)
{
    wiremill_t *self = self_p ? *self_p : NULL;
    if (!self)
        return;
    /* A child has not got the threads that closing would wait for: their device is left.  */
    if (self->on_callers || self->owner == getpid ())
        wm_device_destroy (&self->device);
    if (!self->device && self->model)
        wm_model_destroy (&self->model);
    if (self->owner == getpid ())
        pthread_mutex_destroy (&self->lock);
    free (self->label);
    free (self);
    *self_p = NULL;
}

/* ---- facts ----------------------------------------------------------------------------------- */

size_t wiremill_n_value (const wiremill_t *self)
{
    return self->n_value;
}

size_t wiremill_n_output (const wiremill_t *self)
{
    return self->n_output;
}

uint32_t wiremill_shape (const wiremill_t *self, uint32_t dim[WIREMILL_DIMS_MAX])
{
    static_assert (WIREMILL_DIMS_MAX >= WM_MODEL_DIMS_MAX, "every shape fits");
    const wm_port_t *port = wm_model_input (self->model, 0);
    const bool whole = wm_model_n_input (self->model) > 1;
    uint32_t n = 0;
    for (uint32_t i = 0; i < port->n_dim && !whole; i++)
        if (port->dim[i] > 1)
            dim[n++] = port->dim[i];
    if (n == 0)
        dim[n++] = (uint32_t) self->n_value;
    return n;
}

const char *wiremill_label (const wiremill_t *self, size_t i)
{
    return self->label && i < self->n_output ? self->label[i] : NULL;
}

const char *wiremill_signature (const wiremill_t *self)
{
    return wm_device_signature (self->device);
}

const char *wiremill_sha256 (const wiremill_t *self)
{
    return wm_model_sha256 (self->model);
}

/* ---- score ----------------------------------------------------------------------------------- */

/* Finite: not all bits of the exponent are set.  */
bool wm_lib_is_finite (const float *value, size_t n)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy (&bits, &value[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return !bad;
}

static void hold (const wiremill_t *self, size_t first, size_t count, uint8_t why, float *scores,
                  uint8_t *status)
{
    for (size_t i = first * self->n_output; i < (first + count) * self->n_output; i++)
        scores[i] = NAN;
    if (status)
        memset (status + first, why, count);
}

/* Scores what the limits of a batch allow in one call of the engine, at most `count`.  */
static wm_fault_t score_some (wiremill_t *self, const float *patches, size_t count, float *scores,
                              uint8_t *status, wm_error_t *error)
{
    uint8_t unread[WM_LIB_CALL_MAX];
    const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                               .n_hit = (uint32_t) count,
                               .patch_values = (uint32_t) self->n_value,
                               .patch = (float *) (uintptr_t) patches }; /* engines only read it */
    if (!self->on_callers)
        pthread_mutex_lock (&self->lock);
    wm_fault_t fault =
        wm_device_score (self->device, &batch, status ? status : unread, scores, error);
    if (!self->on_callers)
        pthread_mutex_unlock (&self->lock);
    return fault;
}

static wm_fault_t score_all (wiremill_t *self, const float *patches, size_t n, float *scores,
                             uint8_t *status, wm_error_t *error)
{
    const size_t n_value = self->n_value;
    size_t most =
        WM_RAW_BYTES_MAX / sizeof (float) / (n_value > self->n_output ? n_value : self->n_output);
    most = most < 1 ? 1 : most < WM_LIB_CALL_MAX ? most : WM_LIB_CALL_MAX;
    wm_fault_t fault = WM_OK;
    for (size_t i = 0, end; i < n && !fault; i = end) {
        for (end = i;
             end < n && end - i < most && wm_lib_is_finite (patches + end * n_value, n_value);)
            end++;
        if (end > i)
            fault = score_some (self, patches + i * n_value, end - i, scores + i * self->n_output,
                                status ? status + i : NULL, error);
        if (end < n && end - i < most) { /* this one is not finite */
            hold (self, end, 1, WIREMILL_BAD_PIXEL, scores, status);
            end++;
        }
    }
    return fault;
}

wiremill_fault_t wiremill_score (wiremill_t *self, const float *patches, size_t n, size_t n_value,
                                 float *scores, uint8_t *status, wiremill_error_t *error)
{
    wm_error_t why = { .fault = WM_OK };
    uint32_t dim[WIREMILL_DIMS_MAX];
    size_t bytes;
    if (!self || (n && (!patches || !scores)))
        wm_fault (&why, WM_EUSAGE, "wiremill_score: %s is NULL",
                  !self      ? "the model"
                  : !patches ? "patches"
                             : "scores");
    else if (n_value != self->n_value)
        wm_lib_wrong_size (n_value, dim, wiremill_shape (self, dim), &why);
    else if (__builtin_mul_overflow (n, self->n_value * sizeof (float), &bytes) ||
             __builtin_mul_overflow (n, self->n_output * sizeof (float), &bytes))
        wm_fault (&why, WM_EUSAGE, "%zu patches are more than memory can hold", n);
    else if (!self->on_callers && self->owner != getpid ())
        wm_fault (&why, WM_EUSAGE,
                  "the model was opened before fork, and its engine's threads are in the parent: "
                  "open it in the child");
    if (why.fault)
        return wm_lib_fault (error, &why);
    fenv_t callers; /* another rounding would give other bits */
    fegetenv (&callers);
    fesetenv (FE_DFL_ENV);
    const wm_fault_t fault = score_all (self, patches, n, scores, status, &why);
    fesetenv (&callers);
    if (fault == WM_OK)
        return WIREMILL_OK;
    hold (self, 0, n, WIREMILL_HELD, scores, status);
    return wm_lib_fault (error, &why);
}
