/* wm_produce_stage.c - remote inputs and outputs, as the process that reads and writes them.

   INPUT without a size makes a remote input known, and claims it: so producers that share a list
   copy no file twice, and what is written already is never copied. Then the stager is asked for it
   (wm_stage.h). When it is here, INPUT with size and adler32 pins it, or finds that it is another
   file than the one that was pinned before a kill: then the broker holds it as changed. Only after
   that it is opened. The copy goes when the input is written, held, or no longer ours.

   An output that goes to a root:// folder is written here, in `spool`, as anywhere; when it is
   complete and has its name, the stager is asked to copy it, and FILE_WRITTEN leaves when the
   server has all of it: size and adler32 (in place of a time) are the server's. Until then the
   input stays claimed, so that no more inputs are worked on than usual while the server is away;
   their results stay with the broker. After a kill an output is made again from those: it is the
   same bytes, so what the server has of it is recognised.
   What had the name when this process started is fetched and opened when the input is claimed: a
   file of another campaign ends the process, one of this campaign will be replaced.
   That list is no proof that an output is missing or changed: another producer may have stored it
   since. So the stager looks before it is reported lost, and renames what was changed.
   With --sidecars this process reports each placed output to the one that started it, which writes
   the sidecar beside the output; the stager waits for that. An output that was stored without one
   is fetched for it.  */
#include "producer/session/wm_produce_private.h"
#include "producer/staging/wm_stage.h"
#include "schema/base/wm_bisect.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_url.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECKING_MAX 64u /* at a time: the stager has a table of jobs */
#define OPEN_MAX 16u     /* copies that are read at a time */
#define WAIT_MS 50       /* between looks at what the stager reports */

/* ---- outputs --------------------------------------------------------------------------------- */

wm_fault_t wm_produce_store_begin (wm_produce_t *self)
{
    const char *store = self->options->store, *output = self->pins.output;
    if (wm_url_of (output) && (!store || strcmp (store, output) != 0))
        return wm_fault (&self->error, WM_EBATCH,
                         "this campaign's outputs go to %.300s: give the producer --output with "
                         "that",
                         output);
    if (store && !wm_url_of (output))
        return wm_fault (&self->error, WM_EBATCH,
                         "--output %.150s is not where this campaign's outputs go, %.250s: leave "
                         "it out",
                         store, output);
    if (store)
        snprintf (self->pins.output, sizeof self->pins.output, "%s", self->options->spool);
    return WM_OK;
}

static int by_name (const void *key, const void *row)
{
    return strcmp (key, ((const wm_stage_there_t *) row)->name);
}

bool wm_produce_store_has (const wm_produce_t *self, const wm_input_t *input, uint64_t *size)
{
    const wm_produce_options_t *options = self->options;
    *size = UINT64_MAX;
    if (!input->is_there && input->seen)
        *size = input->seen_size;
    if (input->is_there || input->seen || !options->n_there)
        return input->is_there || (input->seen && input->seen_size != UINT64_MAX);
    const wm_stage_there_t *found =
        bsearch (input->name, options->there, options->n_there, sizeof *found, by_name);
    *size = found ? found->size : 0;
    return found != NULL;
}

/* Asks the stager, unless it has enough to do: then later.  */
static void check (wm_produce_t *self, wm_input_t *input, wm_stage_kind_t kind)
{
    if (self->n_checking == CHECKING_MAX) {
        wm_produce_claim_over (self, input);
        return;
    }
    wm_produce_wait (self, input);
    input->checking = true;
    self->n_checking++;
    wm_produce_store_ask (self, input, kind);
}

bool wm_produce_store_look (wm_produce_t *self, wm_input_t *input)
{
    if (!self->options->store || input->seen)
        return false;
    input->how = WM_STAGE_REPLACE; /* its size is enough */
    check (self, input, WM_STAGE_LOOK);
    return true;
}

void wm_produce_store_move (wm_produce_t *self, wm_input_t *input)
{
    check (self, input, WM_STAGE_MOVE);
}

bool wm_produce_store_sidecar (wm_produce_t *self, wm_input_t *input)
{
    char name[sizeof input->name + 8];
    const wm_produce_options_t *options = self->options;
    snprintf (name, sizeof name, "%s.json", input->name);
    if (!options->sidecars || input->is_there || input->has_sidecar ||
        (options->n_there &&
         bsearch (name, options->there, options->n_there, sizeof *options->there, by_name)))
        return false;
    if (input->checking) /* since another session */
        wm_produce_set_is (self, input, WM_INPUT_IS_LOST);
    else
        check (self, input, WM_STAGE_SIDECAR);
    return true;
}

void wm_produce_store_claimed (wm_produce_t *self, wm_input_t *input)
{
    uint64_t size;
    wm_produce_check_end (self, input);
    if (input->looking || input->storing || input->stored)
        return; /* claimed again, in another session */
    input->there_size = 0;
    input->how = WM_STAGE_PLAIN;
    if (input->is_there)
        input->how = WM_STAGE_REPLACE;
    else if (wm_produce_store_has (self, input, &size)) {
        input->looking = true;
        wm_produce_store_ask (self, input, WM_STAGE_LOOK);
    }
}

bool wm_produce_store (wm_produce_t *self, wm_input_t *input, wm_fault_t *fault)
{
    if (input->stored || input->storing || input->looking)
        return input->stored;
    *fault = wm_produce_is_changed (self, input);
    if (*fault)
        return false;
    input->storing = true;
    wm_produce_store_ask (self, input, WM_STAGE_STORE);
    if (self->options->sidecars)
        wm_produce_report_placed (self, input);
    return false;
}

static bool store_works (const wm_produce_t *self)
{
    for (uint32_t i = 0; self->options->store && i < self->n_active; i++)
        if (self->active[i]->looking || self->active[i]->storing)
            return true;
    return self->n_checking > 0;
}

/* ---- what the stager reports ----------------------------------------------------------------- */

/* What the stager found where an output was to be, or what it made of it.  */
static void on_checked (wm_produce_t *self, wm_input_t *input, const wm_stage_msg_t *msg)
{
    const bool looked = msg->kind == WM_STAGE_THERE;
    wm_produce_check_end (self, input);
    input->seen = true;
    input->seen_size = looked && *msg->text ? msg->size : UINT64_MAX;
    wm_produce_store_ask (self, input, WM_STAGE_FORGET);
    if (!looked && *msg->text)
        wm_produce_warn (self,
                         "output %s/%s was changed since it was written: it is kept as %s, and "
                         "made again",
                         self->options->store, input->name, msg->text);
    if (input->is != WM_INPUT_IS_LOST)
        return; /* in another session: the broker is asked anyway */
    if (looked)
        wm_produce_set_is (self, input, WM_INPUT_IS_NEW);
    else {
        WM_FAILPOINT ("producer-moved");
        wm_produce_lost (self, input, "changed");
    }
}

/* An output that was stored without a sidecar has one, or is gone.  */
static void on_sidecar (wm_produce_t *self, wm_input_t *input, bool stored)
{
    wm_produce_check_end (self, input);
    input->has_sidecar = stored;
    if (!stored) {
        input->seen = true;
        input->seen_size = UINT64_MAX;
    }
    if (input->is == WM_INPUT_IS_LOST)
        wm_produce_set_is (self, input, WM_INPUT_IS_NEW);
}

/* The server will not take or show a file: nothing can be done until a person has.  */
static void on_denied (wm_produce_t *self, const char *why)
{
    char text[480];
    snprintf (text, sizeof text,
              "the server refuses %.100s/%.250s. Renew the credentials, or ask for the right to "
              "write there; then the same command goes on with the scores",
              self->options->store, why);
    wm_produce_fatal (self, WM_EXIT_FAILURE, text);
}

/* Another file has the output's name there: it may be replaced if this campaign wrote it.  */
static void on_there (wm_produce_t *self, wm_input_t *input, const wm_stage_msg_t *msg)
{
    char text[480];
    if (!input->looking && !input->storing)
        return;
    input->looking = input->storing = false;
    if (!*msg->text)
        return;
    wm_produce_set_reading (msg->text);
    const bool ours = wm_writer_is_ours (msg->text, self->campaign, NULL);
    wm_produce_set_reading ("");
    unlink (msg->text);
    if (ours) {
        input->how = WM_STAGE_REPLACE;
        input->there_size = msg->size;
        input->there_adler = msg->adler;
        return;
    }
    snprintf (
        text, sizeof text,
        "%.200s/%.100s is in the way: it was not written by this campaign; move it, or choose "
        "another output folder",
        self->options->store, input->name);
    wm_produce_fatal (self, WM_EXIT_INPUT, text);
}

static void on_trouble (wm_produce_t *self, const char *why)
{
    if (*why)
        wm_produce_warn (self,
                         "outputs cannot be copied to %s: %s; scores are kept, and it is tried "
                         "again",
                         self->options->store, why);
    else
        wm_produce_warn (self, "outputs are copied to %s again", self->options->store);
    self->trouble[0] = 0;
    if (*why)
        snprintf (self->trouble, sizeof self->trouble, "%.100s takes no outputs: %.300s",
                  self->options->store, why);
}

/* Inputs are in the order of their lines.  */
static wm_input_t *by_line (const wm_produce_t *self, uint32_t line)
{
    const uint32_t at = WM_BISECT (0, self->n_input, i, self->input[i].line < line);
    return at < self->n_input && self->input[at].line == line ? &self->input[at] : NULL;
}

void wm_produce_store_told (wm_produce_t *self, const wm_stage_msg_t *msg)
{
    wm_input_t *input = by_line (self, msg->line);
    if (msg->kind == WM_STAGE_TROUBLE)
        on_trouble (self, msg->text);
    else if (msg->kind == WM_STAGE_DENIED)
        on_denied (self, msg->text);
    else if (input && msg->kind == WM_STAGE_FETCHED && input->checking)
        wm_produce_report_placed (self, input);
    else if (input && input->checking &&
             (msg->kind == WM_STAGE_STORED || msg->kind == WM_STAGE_GONE))
        on_sidecar (self, input, msg->kind == WM_STAGE_STORED);
    else if (input && input->checking &&
             (msg->kind == WM_STAGE_THERE || msg->kind == WM_STAGE_MOVED))
        on_checked (self, input, msg);
    else if (input && msg->kind == WM_STAGE_THERE)
        on_there (self, input, msg);
    else if (input && input->storing && msg->kind == WM_STAGE_STORED) {
        input->storing = false;
        input->stored = input->is_there = true;
        input->result.mtime_ns = (int64_t) msg->adler;
    } else if (input && input->storing && msg->kind == WM_STAGE_GONE) {
        wm_produce_warn (self,
                         "output %s vanished from %s before it was copied: it is written again",
                         input->name, self->pins.output);
        input->storing = input->placed = false;
    } else if (input && msg->kind == WM_STAGE_REFUSED && (input->storing || input->looking))
        wm_produce_hold (self, input, msg->text);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

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

static wm_input_t *waiting_by_line (const wm_produce_t *self, uint32_t line)
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

void wm_produce_stage_handle (wm_produce_t *self)
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
        wm_input_t *input = waiting_by_line (self, msg.line);
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
        wm_produce_stager_send (self, input, WM_STAGE_WANT);
    }
    if (!input->staged || input->asked)
        return false;
    if (!input->pinned) {
        wm_produce_ask (self, input, 1);
        return false;
    }
    count_waiting (self, &n_open);
    return !unannounced && n_open < OPEN_MAX;
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
    if ((n || store_works (self)) && *wait_ms > WAIT_MS)
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
