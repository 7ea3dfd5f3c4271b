/* wm_produce_stage.c - remote inputs: the reading process asks for copies, pins and gives them up.

   INPUT without a size makes such an input known, and claims it: so producers that share a list
   copy no file twice, and what is written already is never copied. Then the stager is asked for it
   (wm_stage.h). When it is here, INPUT with size and adler32 pins it, or finds that it is another
   file than the one that was pinned before a kill: then the broker holds it as changed. Only after
   that it is opened. The copy goes when the input is written, held, or no longer ours.  */
#include "producer/session/wm_produce_private.h"
#include "producer/staging/wm_stage.h"
#include "schema/base/wm_path.h"

#include <errno.h>
#include <sys/socket.h>

#define OPEN_MAX 16u /* copies that are read at a time */
#define WAIT_MS 50   /* between looks at what the stager tells */

static bool is_waiting (const wm_input_t *input)
{
    return input->remote && input->is == WM_INPUT_IS_OURS && !input->event;
}

/* Inputs of ours whose copy is not read yet; *n_other: those that are worked on.  */
static uint32_t count_waiting (const wm_produce_t *self, uint32_t *n_other)
{
    uint32_t n = 0;
    *n_other = 0;
    for (uint32_t i = 0; i < self->n_active; i++) {
        n += is_waiting (self->active[i]);
        *n_other += !is_waiting (self->active[i]);
    }
    return n;
}

void wm_produce_stage_send (wm_produce_t *self, const wm_stage_msg_t *msg)
{
    while (send (self->options->stager, msg, sizeof *msg, MSG_NOSIGNAL) < 0)
        if (errno != EINTR) { /* its end is this process's end too */
            self->exit_code = WM_EXIT_AGAIN;
            return;
        }
}

static void stager_send (wm_produce_t *self, const wm_input_t *input, wm_stage_kind_t kind)
{
    const wm_stage_msg_t msg = { .kind = kind, .line = input->line };
    wm_produce_stage_send (self, &msg);
}

static wm_input_t *by_line (const wm_produce_t *self, uint32_t line)
{
    for (uint32_t i = 0; i < self->n_active; i++)
        if (self->active[i]->remote && self->active[i]->line == line)
            return self->active[i];
    return NULL;
}

static void on_ready (wm_produce_t *self, wm_input_t *input, const wm_stage_msg_t *msg)
{
    free (input->staged);
    input->staged = strdup (msg->text);
    if (!input->staged)
        wm_produce_fatal (self, WM_EXIT_FAILURE, "out of memory");
    input->size = msg->size;
    input->mtime_ns = (int64_t) msg->adler;
}

void wm_produce_stage_hear (wm_produce_t *self)
{
    wm_stage_msg_t msg;
    while (self->options->ahead &&
           recv (self->options->stager, &msg, sizeof msg, MSG_DONTWAIT) == (ssize_t) sizeof msg) {
        msg.text[sizeof msg.text - 1] = 0;
        if (msg.kind == WM_STAGE_WAITS) {
            self->stage_wait = msg.how < WM_WAIT_END ? (wm_wait_t) msg.how : WM_WAIT_NONE;
            snprintf (self->stage_text, sizeof self->stage_text, "%.479s", msg.text);
            continue;
        }
        if (msg.kind >= WM_STAGE_LOOK) {
            wm_produce_store_told (self, &msg);
            continue;
        }
        wm_input_t *input = by_line (self, msg.line);
        if (!input || !is_waiting (input) || !input->wanted)
            continue; /* it was dropped meanwhile */
        if (msg.kind == WM_STAGE_READY)
            on_ready (self, input, &msg);
        else
            wm_produce_hold (self, input, msg.text);
    }
}

bool wm_produce_stage_step (wm_produce_t *self, wm_input_t *input, bool unannounced)
{
    uint32_t n_open;
    if (!input->wanted) {
        input->wanted = true;
        stager_send (self, input, WM_STAGE_WANT);
    }
    if (!input->staged || input->asked)
        return false;
    if (!input->pinned) {
        wm_produce_ask (self, input, 1);
        return false;
    }
    count_waiting (self, &n_open);
    if (unannounced || n_open >= OPEN_MAX)
        return false;
    /* an answer that came while inputs were read for it may have ended this one */
    return !wm_produce_sample (self, input) ||
           (self->exit_code < 0 && input->is == WM_INPUT_IS_OURS && input->staged);
}

bool wm_produce_stage_more (const wm_produce_t *self)
{
    uint32_t n_other;
    return self->n_active + self->n_claiming < WM_PRODUCE_ACTIVE_MAX - 16u &&
           count_waiting (self, &n_other) + self->n_claiming < self->options->ahead;
}

/* Outputs that go elsewhere are written in --scratch.  */
static wm_wait_t full_wait (const wm_produce_t *self)
{
    return self->options->store ? WM_WAIT_SCRATCH_DISK : WM_WAIT_OUTPUT_DISK;
}

void wm_produce_stage_report (wm_produce_t *self, int64_t *wait_ms)
{
    char text[160];
    uint32_t n_other;
    const uint32_t n = count_waiting (self, &n_other);
    if ((n || wm_produce_store_works (self)) && *wait_ms > WAIT_MS)
        *wait_ms = WAIT_MS;
    const wm_wait_t stage = n ? self->stage_wait : WM_WAIT_NONE;
    if (self->full_with)
        wm_client_waits (self->client, full_wait (self), self->full_text);
    else if (stage == WM_WAIT_SCRATCH_DISK)
        wm_client_waits (self->client, stage, self->stage_text);
    else if (*self->trouble)
        wm_client_waits (self->client, WM_WAIT_AWAY, self->trouble);
    else if (stage)
        wm_client_waits (self->client, stage, self->stage_text);
    else if (n && !n_other) {
        const char *url = self->active[0]->path;
        const char *host = strstr (url, "://") ? strstr (url, "://") + strlen ("://") : url;
        snprintf (text, sizeof text, "inputs are copied from %.*s", (int) strcspn (host, "/"),
                  host);
        wm_client_waits (self->client, WM_WAIT_COPIES, text);
    } else
        wm_client_waits (self->client, WM_WAIT_NONE, "");
}

void wm_produce_stage_drop (wm_produce_t *self, wm_input_t *input)
{
    free (input->staged);
    input->staged = NULL;
    input->wanted = input->pinned = false;
    wm_input_look_again (input);
    if (self->options->ahead)
        stager_send (self, input, WM_STAGE_DROP);
}

void wm_produce_stage_name (const wm_input_t *input, char *text, size_t bytes)
{
    char *named = NULL, rest[512];
    const size_t n = input->staged ? wm_path_length (input->staged) : 0;
    char *at = n ? memmem (text, strlen (text), input->staged, n) : NULL;
    if (!at)
        return;
    snprintf (rest, sizeof rest, "%s", at + n);
    *at = 0;
    if (asprintf (&named, "%s%.*s%s", text, (int) wm_path_length (input->path), input->path, rest) <
        0)
        return;
    snprintf (text, bytes, "%s", named);
    free (named);
}
