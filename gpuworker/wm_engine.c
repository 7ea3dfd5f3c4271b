/* wm_engine.c - see wm_engine.h.  */
#include "gpuworker/wm_engine.h"
#include "gpuworker/wm_slots.h"
#include "kernels/wm_device.h"
#include "schema/wm_failpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    wm_slots_t slots;
    int line;
    wm_model_t *model;
    wm_device_t *device;
} engine_t;

/* The first fault it meets ends it; the worker reads it here.  */
static int ends (engine_t *self, int code, const wm_error_t *error)
{
    self->slots.control->error = *error;
    return code;
}

static int open_model (engine_t *self)
{
    const wm_control_t *control = self->slots.control;
    wm_error_t error = { 0 };
    self->model = wm_model_open (control->model_path, &error);
    if (!self->model)
        return ends (self, error.fault == WM_EBATCH ? WM_EXIT_INPUT : WM_EXIT_ENGINE, &error);
    if (strcmp (wm_model_sha256 (self->model), control->model) == 0 &&
        wm_model_n_output (self->model) == control->n_output &&
        wm_model_n_value (self->model) == control->n_value)
        return WM_EXIT_OK;
    wm_fault (&error, WM_EBATCH,
              "the model %.12s is not the one the campaign is pinned to (%.12s, %u values in, %u "
              "out)",
              wm_model_sha256 (self->model), control->model, control->n_value, control->n_output);
    return ends (self, WM_EXIT_INPUT, &error);
}

static double now_s (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

static int open_device (engine_t *self)
{
    wm_control_t *control = self->slots.control;
    wm_error_t error = { 0 };
    wm_spec_t spec;
    const int has_spec = control->spec[0] != '\0';
    if (has_spec &&
        wm_spec_parse (&spec, control->spec, strlen (control->spec), "the broker's pins", &error))
        return ends (self, WM_EXIT_INPUT, &error);
    const wm_device_config_t config = { .engine = control->engine,
                                        .precision = control->precision,
                                        .threads = control->threads,
                                        .pin = control->pin,
                                        .progress = &control->progress };
    self->device = wm_device_new (self->model, has_spec ? &spec : NULL, &config, &error);
    if (!self->device)
        return ends (self, error.fault == WM_EBATCH ? WM_EXIT_INPUT : WM_EXIT_ENGINE, &error);
    snprintf (control->signature, sizeof control->signature, "%s",
              wm_device_signature (self->device));
    const double start = now_s ();
    WM_FAILPOINT ("engine-self-test");
    if (wm_device_self_test (self->device, &error))
        return ends (self, WM_EXIT_FAILURE, &error);
    control->test_s = now_s () - start;
    return WM_EXIT_OK;
}

/* The slot that is due, marked as running; -1: none.  */
static int next_slot (const engine_t *self)
{
    for (;;) {
        wm_slot_t *slot = self->slots.control->slot, *due = NULL;
        for (unsigned i = 0; i < WM_SLOTS; i++)
            if (atomic_load (&slot[i].state) == WM_SLOT_READY &&
                (!due || slot[i].serial < due->serial))
                due = &slot[i];
        uint32_t ready = WM_SLOT_READY;
        if (!due)
            return -1;
        if (atomic_compare_exchange_strong (&due->state, &ready, WM_SLOT_RUNNING))
            return (int) (due - slot);
    }
}

static int score (engine_t *self, unsigned i)
{
    wm_slot_t *slot = &self->slots.control->slot[i];
    wm_error_t error = { 0 };
    wm_batch_t batch;
    WM_FAILPOINT ("engine-slot-taken");
    wm_slots_part (&self->slots, i, &batch);
    const double start = now_s ();
    const wm_fault_t fault = wm_device_score (
        self->device, &batch, wm_slots_status (&self->slots, i) + slot->first,
        wm_slots_scores (&self->slots, i) + (size_t) slot->first * self->slots.control->n_output,
        &error);
    slot->seconds = now_s () - start;
    slot->error = error;
    slot->error.fault = fault;
    if (fault && fault != WM_EBATCH)
        return ends (self, WM_EXIT_FAILURE, &error); /* the slot stays RUNNING: it died of it */
    WM_FAILPOINT ("engine-scored");
    atomic_store (&slot->state, WM_SLOT_DONE);
    WM_FAILPOINT ("engine-done");
    return WM_EXIT_OK;
}

/* A failed write is a worker that is gone, which read tells.  */
static void poke (const engine_t *self)
{
    while (write (self->line, "", 1) < 0 && errno == EINTR)
        ;
}

static int serve (engine_t *self)
{
    char bytes[64];
    int code = open_model (self);
    if (!code)
        code = open_device (self);
    if (code)
        return code;
    atomic_store (&self->slots.control->is_ready, 1);
    WM_FAILPOINT ("engine-ready");
    poke (self);
    for (;;) {
        for (int slot; !code && (slot = next_slot (self)) >= 0; poke (self))
            code = score (self, (unsigned) slot);
        const ssize_t n = code ? 0 : read (self->line, bytes, sizeof bytes);
        if (n == 0 || (n < 0 && errno != EINTR))
            return code;
    }
}

int wm_engine_main (const char *files)
{
    engine_t self = { .line = -1 };
    int memory;
    wm_error_t error = { 0 };
    /* Its worker decides when it ends; a signal to the whole group is the worker's to obey.  */
    static const int left_to_worker[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
    for (size_t i = 0; i < sizeof left_to_worker / sizeof *left_to_worker; i++)
        signal (left_to_worker[i], SIG_IGN);
    prctl (PR_SET_NAME, "wiremill-engine");
    if (!files || sscanf (files, "%d,%d", &memory, &self.line) != 2 ||
        wm_slots_map (&self.slots, memory, &error)) {
        fprintf (stderr, "wiremill-worker: %s is a mode that only a worker starts\n",
                 WM_ENGINE_MODE);
        return WM_EXIT_USAGE;
    }
    int code = WM_EXIT_AGAIN;
    if (!prctl (PR_SET_PDEATHSIG, SIGKILL) && getppid () == self.slots.control->worker)
        code = serve (&self);
    wm_device_destroy (&self.device);
    wm_model_destroy (&self.model);
    wm_slots_clear (&self.slots);
    return code;
}
