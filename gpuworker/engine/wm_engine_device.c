/* wm_engine_device.c - see wm_engine_device.h.  */
#include "gpuworker/engine/wm_engine_device.h"
#include "kernels/judge/wm_trial.h"
#include "schema/base/wm_file.h"
#include "schema/wm_sample.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIAL_BYTES_MAX (WM_RAW_BYTES_MAX + WM_CLASSES_MAX * 256 + 1)

static bool is_strict (const char *precision)
{
    return strcmp (precision, "fp32") == 0;
}

/* Waits until the worker has the trial. WM_EAGAIN: the worker leaves.  */
static wm_fault_t await_trial (const wm_control_t *control, int line, wm_error_t *error)
{
    char bytes[64];
    while (!atomic_load (&control->has_trial)) {
        const ssize_t n = read (line, bytes, sizeof bytes);
        if (n == 0 || (n < 0 && errno != EINTR))
            return wm_fault (error, WM_EAGAIN, "the worker left before it had hits to measure on");
    }
    return WM_OK;
}

/* Reads the signature of this class from the table. false: it has none.  */
static bool find_class (const char *table, const char *class, char signature[64])
{
    char name[64];
    for (const char *line = table; *line; line += strcspn (line, "\n"), line += *line == '\n')
        if (sscanf (line, "%63[^\t]\t%63[^\t]", name, signature) == 2 && strcmp (name, class) == 0)
            return true;
    return false;
}

/* Opens the arithmetic that is precise enough on the sample. NULL with *error.  */
static wm_device_t *measure (wm_control_t *control, const wm_model_t *model, const wm_spec_t *spec,
                             const wm_device_config_t *config, wm_device_t *judge,
                             wm_trial_ahead_t **ahead, const char *sample, size_t bytes,
                             wm_error_t *error)
{
    wm_batch_t *batch = calloc (WM_SAMPLE_BATCHES_MAX, sizeof *batch);
    wm_coder_t *coder = wm_coder_new ();
    wm_device_t *device = NULL;
    wm_trial_t trial;
    uint32_t n = 0;
    if (!batch)
        wm_fault (error, WM_EHOST, "no memory for a sample");
    else if (!wm_sample_decode ((const uint8_t *) sample, bytes, coder, batch, &n, error))
        device = wm_trial_open (model, spec, config, judge, ahead, batch, n, &trial, error);
    for (uint32_t i = 0; batch && i < WM_SAMPLE_BATCHES_MAX; i++)
        wm_batch_clear (&batch[i]);
    free (batch);
    wm_coder_destroy (&coder);
    if (device) {
        memcpy (control->taken_precision, trial.candidate.precision,
                sizeof control->taken_precision);
        memcpy (control->taken_isa, trial.candidate.isa, sizeof control->taken_isa);
        memcpy (control->refused, trial.refused, sizeof control->refused);
        control->measured = trial.error;
        control->n_measured = trial.n_hit;
    }
    return device;
}

/* Reads a TRIAL's payload: the table, a NUL, the sample. NULL with *error.  */
static char *read_trial (const char *path, size_t *bytes, wm_error_t *error)
{
    char *text = wm_file_text (path, TRIAL_BYTES_MAX, bytes);
    if (text && memchr (text, 0, *bytes))
        return text;
    wm_fault (error, WM_EHOST, "the trial that the broker sent cannot be read from %s: %s", path,
              text ? "it is cut off" : strerror (errno));
    free (text);
    return NULL;
}

/* Opens the arithmetic of this signature.  */
static wm_device_t *open_known (wm_control_t *control, const char *signature,
                                const wm_model_t *model, const wm_spec_t *spec,
                                wm_device_config_t *config, wm_trial_ahead_t **ahead,
                                wm_error_t *error)
{
    wm_candidate_t candidate;
    wm_device_t *device = wm_trial_ahead_end (ahead);
    wm_device_recall (signature, config->precision, &candidate);
    memcpy (control->taken_precision, candidate.precision, sizeof control->taken_precision);
    memcpy (control->taken_isa, candidate.isa, sizeof control->taken_isa);
    config->precision = control->taken_precision, config->isa = control->taken_isa;
    if (device && strcmp (wm_device_signature (device), signature) == 0)
        return device;
    wm_device_destroy (&device);
    return wm_device_new (model, spec, config, error);
}

/* Opens what the class of this machine has, or measures. NULL with *error.  */
static wm_device_t *choose (wm_control_t *control, const wm_model_t *model, const wm_spec_t *spec,
                            wm_device_config_t *config, wm_device_t *judge,
                            wm_trial_ahead_t **ahead, wm_error_t *error)
{
    size_t bytes;
    char signature[64], *trial = read_trial (control->trial, &bytes, error);
    wm_device_t *device = NULL;
    const char *open = wm_device_signature (judge);
    if (!trial)
        return NULL;
    if (wm_device_engine (config->engine)->is_gpu) { /* an open GPU names its class */
        const char *asked = config->precision;
        device = wm_device_new (model, spec, config, error);
        config->precision = "fp32";
        if (!device) /* its 16 bits cannot hold this model */
            device = wm_device_new (model, spec, config, error);
        config->precision = asked;
        if (!device) {
            free (trial);
            return NULL;
        }
        open = wm_device_signature (device);
    }
    wm_device_class (model, config, open, control->class);
    wm_device_destroy (&device);
    if (find_class (trial, control->class, signature))
        device = open_known (control, signature, model, spec, config, ahead, error);
    else {
        const size_t table = strlen (trial) + 1;
        device = measure (control, model, spec, config, judge, ahead, trial + table, bytes - table,
                          error);
    }
    free (trial);
    return device;
}

/* As wm_engine_device_open, of this engine.  */
static wm_fault_t open_engine (wm_control_t *control, const char *engine, int line,
                               const wm_model_t *model, const wm_spec_t *spec, wm_device_t **device,
                               wm_device_t **judge, wm_error_t *error)
{
    wm_device_config_t config = { .engine = engine,
                                  .precision = control->precision,
                                  .max_error = control->max_error,
                                  .threads = control->threads,
                                  .pin = control->pin,
                                  .keeps_infinite = control->keeps_infinite,
                                  .progress = &control->hand[0].progress };
    const bool measures =
        !is_strict (control->precision) && !*control->taken_precision && *control->trial;
    wm_trial_ahead_t *ahead = measures ? wm_trial_ahead_new (model, spec, &config) : NULL;
    wm_device_t *unused;
    if (!is_strict (control->precision))
        *judge = wm_trial_judge (model, spec, &config, error);
    bool failed = !is_strict (control->precision) &&
                  (!*judge || wm_device_self_test (*judge, error)); /* all checks depend on it */
    if (!failed && measures)
        failed = await_trial (control, line, error) != WM_OK;
    if (!failed && measures) {
        wm_device_config_t tried = config;
        *device = choose (control, model, spec, &tried, *judge, &ahead, error);
    } else if (!failed) {
        if (*control->taken_precision)
            config.precision = control->taken_precision, config.isa = control->taken_isa;
        *device = wm_device_new (model, spec, &config, error);
    }
    unused = wm_trial_ahead_end (&ahead);
    wm_device_destroy (&unused);
    if (failed)
        return error->fault;
    if (*device && !*control->class) {
        config.precision = control->precision, config.isa = NULL;
        wm_device_class (model, &config, wm_device_signature (*device), control->class);
    }
    if (*device)
        snprintf (control->signature, sizeof control->signature, "%s",
                  wm_device_signature (*device));
    if (*device && *judge)
        snprintf (control->strict, sizeof control->strict, "%s", wm_device_signature (*judge));
    if (*device &&
        is_strict (*control->taken_precision ? control->taken_precision : control->precision))
        wm_device_destroy (judge); /* it would check itself */
    return *device ? WM_OK : error->fault;
}

/* Opens the GPU by this engine and tests it. false: it is not taken, and nothing is left of the
   attempt but *error.  */
static bool try_gpu (wm_control_t *control, const char *engine, bool shows, int line,
                     const wm_model_t *model, const wm_spec_t *spec, wm_device_t **device,
                     wm_device_t **judge, wm_error_t *error)
{
    if (shows && !open_engine (control, engine, line, model, spec, device, judge, error) &&
        !wm_device_self_test (*device, error))
        return true;
    wm_device_destroy (device);
    wm_device_destroy (judge);
    wm_slots_forget_engine (control);
    return false;
}

/* By CUDA, unless that was tried, else by OpenCL, which has no general models. false: the CPU
   scores.  */
static bool take_gpu (wm_control_t *control, int line, const wm_model_t *model,
                      const wm_spec_t *spec, wm_device_t **device, wm_device_t **judge,
                      wm_error_t *error)
{
    wm_error_t cuda = { 0 };
    bool taken = false;
    if (control->gpu == WM_GPU_UNTRIED) {
        control->gpu = WM_GPU_TRIED_CUDA; /* from here on a driver may crash, or never return */
        taken = try_gpu (control, "cuda", wm_device_gpu_shows (error), line, model, spec, device,
                         judge, error);
    }
    const bool by_opencl = !taken && wm_model_kind (model) == WM_MODEL_FAMILY;
    if (by_opencl) {
        cuda = *error;
        control->gpu = WM_GPU_TRIED_OPENCL;
        taken = try_gpu (control, "opencl", wm_device_opencl_shows (error), line, model, spec,
                         device, judge, error);
    }
    control->gpu = !taken ? WM_GPU_DECLINED : by_opencl ? WM_GPU_TAKEN_OPENCL : WM_GPU_TAKEN_CUDA;
    if (taken)
        fprintf (stderr,
                 "wiremill-worker: takes the GPU%s: %s passed its self-test (--device cpu declines "
                 "it)\n",
                 by_opencl ? " by OpenCL" : "", control->signature);
    else if (cuda.fault || error->fault)
        fprintf (stderr, "wiremill-worker: does not take the GPU, the CPU scores: %s\n",
                 cuda.fault ? cuda.text : error->text);
    if (!taken)
        *error = (wm_error_t){ 0 };
    return taken;
}

wm_fault_t wm_engine_device_open (wm_control_t *control, int line, const wm_model_t *model,
                                  const wm_spec_t *spec, wm_device_t **device, wm_device_t **judge,
                                  wm_error_t *error)
{
    const bool is_auto = strcmp (control->engine, "auto") == 0,
               tries = control->gpu == WM_GPU_UNTRIED || control->gpu == WM_GPU_NOT_BY_CUDA;
    *device = *judge = NULL;
    if (is_auto && tries &&
        take_gpu (control, line, model, spec, device, judge, error))
        return WM_OK;
    return open_engine (control,
                        !is_auto                              ? control->engine
                        : control->gpu == WM_GPU_TAKEN_CUDA   ? "cuda"
                        : control->gpu == WM_GPU_TAKEN_OPENCL ? "opencl"
                                                              : "cpu",
                        line, model, spec, device, judge, error);
}
