/* wm_produce_write.c - outputs: each is written in steps, many are committed together.

   An output that is complete under its partial name is ready. Ready outputs wait for others, at
   most until half of the inputs that are worked on are ready, or COMMIT_MAX of them, or until the
   oldest has waited half a heartbeat. Then all are synced, all renamed, and their folder is synced
   once. No FILE_WRITTEN leaves before that. The syncs go in steps, so that the session stays alive
   on a slow disk. A crash before the renames leaves partial files, after them outputs that are made
   again: the broker has no FILE_WRITTEN of either.  */
#include "producer/session/wm_produce_private.h"
#include "schema/base/wm_failpoint.h"

#include <unistd.h>

#define COMMIT_MAX 64u
#define SYNC_MS 50 /* of syncs in a step */

/* Whether the broker has all of this input, and this producer all of its results.  */
static bool may_write (const wm_input_t *input)
{
    return input->is == WM_INPUT_IS_OURS && input->event && input->end_acked &&
           input->n_complete == input->n_event && input->n_done == input->n_event &&
           !input->written_sent;
}

static bool is_ready (const wm_input_t *input)
{
    return input->writer && may_write (input) && wm_writer_is_ready (input->writer);
}

/* ---- one output ------------------------------------------------------------------------------ */

static void file_written_send (wm_produce_t *self, wm_input_t *input)
{
    char text[480];
    if (!input->stored && wm_input_changed (input)) {
        snprintf (text, sizeof text, "%.400s changed while it was worked on", input->path);
        unlink (input->output); /* scores of the old content must not pass for the new file's */
        wm_produce_hold (self, input, text);
        return;
    }
    input->written_sent = true;
    WM_FAILPOINT ("producer-file-written-send");
    wm_produce_written_send (self, input);
    WM_FAILPOINT ("producer-file-written-sent");
}

/* false: a foreign file is in the way of the output, or the input was held.  */
static bool writer_make (wm_produce_t *self, wm_input_t *input)
{
    if (wm_produce_in_the_way (self, input) || wm_produce_doubt (self, input))
        return false;
    const char *unmatched = wm_reader_unmatched (input->reader);
    if (*unmatched)
        wm_produce_warn (self, "%s: %s", input->path, unmatched);
    if (!input->scratch.n_row)
        wm_produce_warn (self, "%s: no %s: nothing is scored, its output has no rows", input->path,
                         wm_pins_rows (self->pins.spec));
    const wm_writer_job_t job = { input->output,
                                  &self->spec,
                                  &self->pins,
                                  self->campaign,
                                  &input->scratch,
                                  input->reader,
                                  (const char *const *) self->engine,
                                  self->engine_error,
                                  self->n_engine,
                                  input->n_same_cell,
                                  input->n_empty,
                                  input->n_bad_channel,
                                  { input->given, input->path, input->size, input->mtime_ns,
                                    self->options->folder, self->options->command } };
    input->writer = wm_writer_new (&job);
    return true;
}

/* Whether another output was begun before this one. The library keeps megabytes for each file that
   it writes, so that one is written after the other.  */
static bool waits_for_another (const wm_produce_t *self, const wm_input_t *input)
{
    for (uint32_t i = 0; i < self->n_active && !input->writer; i++) {
        const wm_input_t *other = self->active[i];
        if (other->writer && !other->placed && may_write (other) && !is_ready (other))
            return true;
    }
    return false;
}

bool wm_produce_write (wm_produce_t *self, wm_input_t *input)
{
    if (!may_write (input) || is_ready (input) || wm_produce_is_full (self) ||
        (!input->placed && waits_for_another (self, input)))
        return false;
    if (input->placed) {
        if (self->options->store && !input->stored && !wm_produce_store (self, input))
            return false;
        file_written_send (self, input);
        return true;
    }
    if (!input->writer && !writer_make (self, input))
        return true;
    bool done;
    wm_produce_set_reading (input->path);
    wm_fault_t fault = wm_writer_step (input->writer, &done, &input->result, &self->error);
    wm_produce_set_reading ("");
    if (fault)
        wm_produce_blame (self, input, fault);
    else if (done || wm_writer_is_ready (input->writer))
        wm_produce_has_room (self, input);
    if (!fault && done) {
        wm_writer_destroy (&input->writer);
        input->placed = true;
        if (!self->options->store)
            file_written_send (self, input);
    }
    return true;
}

/* ---- many ------------------------------------------------------------------------------------ */

/* Chooses the outputs to commit; false: it is better to wait for more.  */
static bool commit_begin (wm_produce_t *self, int64_t *wait_ms)
{
    uint32_t n_ready = 0, n_ours = 0;
    for (uint32_t i = 0; i < self->n_active; i++) {
        n_ours += self->active[i]->is == WM_INPUT_IS_OURS;
        n_ready += is_ready (self->active[i]);
    }
    if (!n_ready) {
        self->ready_ms = 0;
        return false;
    }
    const int64_t now = wm_now_ms ();
    if (!self->ready_ms)
        self->ready_ms = now;
    const int64_t left = self->ready_ms + wm_times ()->heartbeat_ms / 2 - now;
    if (n_ready < COMMIT_MAX && 2 * n_ready < n_ours + self->n_claiming && left > 0) {
        *wait_ms = left < *wait_ms ? left : *wait_ms;
        return false;
    }
    self->ready_ms = 0;
    for (uint32_t i = 0, n = 0; i < self->n_active && n < COMMIT_MAX; i++)
        if (is_ready (self->active[i])) {
            self->active[i]->committing = true;
            n++;
        }
    return true;
}

bool wm_produce_commit (wm_produce_t *self, int64_t *wait_ms)
{
    const int64_t end = wm_now_ms () + SYNC_MS;
    wm_writer_t *writer[COMMIT_MAX];
    uint32_t n = 0, n_left = 0;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < self->n_active; i++)
        n_left += self->active[i]->committing;
    if (!n_left && !commit_begin (self, wait_ms))
        return false;
    for (uint32_t i = 0; i < self->n_active && !fault; i++)
        if (self->active[i]->committing && is_ready (self->active[i])) {
            if (wm_now_ms () >= end)
                return true;
            fault = wm_writer_sync (self->active[i]->writer, &self->error);
            writer[n++] = self->active[i]->writer;
        }
    if (!fault)
        fault = wm_writer_place (writer, n, &self->error);
    for (uint32_t i = 0; i < self->n_active; i++)
        self->active[i]->committing = false;
    if (fault)
        wm_produce_fatal (self, WM_EXIT_FAILURE, self->error.text);
    return true;
}
