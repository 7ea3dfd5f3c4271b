/* wm_produce_store.c - outputs that are copied to a root:// folder, as the process that writes them
   sees them.

   An output is written here, in `spool`, as anywhere; when it is complete and has its name, the
   stager is asked to copy it (wm_stage.h), and FILE_WRITTEN leaves when the server has all of it:
   size and adler32 (in place of a time) are the server's. Until then the input stays claimed, so
   that no more inputs are worked on than usual while the server is away; their results stay with
   the broker. After a kill an output is made again from those: it is the same bytes, so what the
   server has of it is recognised.
   What had the name when this process started is fetched and opened when the input is claimed: a
   file of another campaign ends the process, one of this campaign will be replaced.
   That list is no proof that an output is missing or changed: another producer may have stored it
   since. So the stager looks before it is reported lost, and renames what somebody changed.
   With --sidecars this process reports each placed output to the one that started it, which writes
   the sidecar beside the output; the stager waits for that. An output that was stored without one
   is fetched for it.  */
#include "producer/session/wm_produce_private.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_url.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECKING_MAX 64u /* at a time: the stager has a table of jobs */

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

static void ask (wm_produce_t *self, const wm_input_t *input, wm_stage_kind_t kind)
{
    wm_stage_msg_t msg = { .kind = kind,
                           .line = input->line,
                           .how = input->how,
                           .adler = input->there_adler,
                           .size = input->there_size };
    snprintf (msg.text, sizeof msg.text, "%s", input->name);
    wm_produce_stage_send (self, &msg);
}

static void check_end (wm_produce_t *self, wm_input_t *input)
{
    self->n_checking -= input->checking;
    input->checking = false;
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
    ask (self, input, kind);
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
    check_end (self, input);
    if (input->looking || input->storing || input->stored)
        return; /* claimed again, in another session */
    input->there_size = 0;
    input->how = WM_STAGE_PLAIN;
    if (input->is_there)
        input->how = WM_STAGE_REPLACE;
    else if (wm_produce_store_has (self, input, &size)) {
        input->looking = true;
        ask (self, input, WM_STAGE_LOOK);
    }
}

bool wm_produce_store (wm_produce_t *self, wm_input_t *input)
{
    if (input->stored || input->storing || input->looking)
        return input->stored;
    if (wm_input_changed (input)) { /* scores of the old content must not pass for the new file's */
        char text[480];
        snprintf (text, sizeof text, "%.400s changed while it was worked on", input->path);
        wm_produce_hold (self, input, text);
        return false;
    }
    input->storing = true;
    ask (self, input, WM_STAGE_STORE);
    if (self->options->sidecars)
        wm_produce_tell_placed (self, input);
    return false;
}

void wm_produce_store_drop (wm_produce_t *self, wm_input_t *input)
{
    check_end (self, input);
    if (self->options->store) /* the stager may also have an answered question of it */
        ask (self, input, WM_STAGE_FORGET);
}

bool wm_produce_store_works (const wm_produce_t *self)
{
    for (uint32_t i = 0; self->options->store && i < self->n_active; i++)
        if (self->active[i]->looking || self->active[i]->storing)
            return true;
    return self->n_checking > 0;
}

/* ---- what the stager tells ------------------------------------------------------------------- */

/* What the stager found where an output was to be, or what it made of it.  */
static void on_checked (wm_produce_t *self, wm_input_t *input, const wm_stage_msg_t *msg)
{
    const bool looked = msg->kind == WM_STAGE_THERE;
    check_end (self, input);
    input->seen = true;
    input->seen_size = looked && *msg->text ? msg->size : UINT64_MAX;
    ask (self, input, WM_STAGE_FORGET);
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
    check_end (self, input);
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
    uint32_t low = 0, high = self->n_input;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (self->input[middle].line < line)
            low = middle + 1;
        else
            high = middle;
    }
    return low < self->n_input && self->input[low].line == line ? &self->input[low] : NULL;
}

void wm_produce_store_told (wm_produce_t *self, const wm_stage_msg_t *msg)
{
    wm_input_t *input = by_line (self, msg->line);
    if (msg->kind == WM_STAGE_TROUBLE)
        on_trouble (self, msg->text);
    else if (msg->kind == WM_STAGE_DENIED)
        on_denied (self, msg->text);
    else if (input && msg->kind == WM_STAGE_FETCHED && input->checking)
        wm_produce_tell_placed (self, input);
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
