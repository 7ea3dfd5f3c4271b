/* wm_produce_input.c - the inputs: found by path and by id, counted by what they are, asked for,
   ended; and what is sent and reported of them.

   All other files of wm_produce call this one, and it calls none of them.

   A campaign may have 10^5 inputs and a dozen messages for each, so that nothing here goes through
   all of them for one message. first_new and first_open move forward only, and back where an input
   becomes new or open again.

   Lines on an inherited pipe report to the command that started this producer. N is the place of an
   input in the list of inputs, from 0:

     output FOLDER   where outputs lie; sent before any input is read, so that a hostile one cannot
                     choose it
     written N NAME  the broker has journaled that the output is written
     held N          no output, as it is reported
     changed N       its output is written, and stays; the input was changed since
     edited N        its output was changed by others since it was written, and stays
     placed N SLOT NAME
                     with --sidecars: the output is whole in the folder SLOT/out of --scratch, and
                     goes to its server; its sidecar is to be written there, as NAME.json
     low             nothing is left to read, and half of the events on their way are done
     away            the outputs' server does not answer: this producer ends with 75 and may be
                     started again (producer/produce.c, before there is a session)

   Each line is one write of less than PIPE_BUF bytes, so that a kill leaves no part of one. A
   producer that is started again repeats earlier reports.  */
#include "producer/session/wm_produce_private.h"
#include "schema/base/wm_bisect.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_path.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static const char *reading = "";

/* The timer counts computing, not waiting: a slow disk is no endless loop.  */
void wm_produce_set_reading (const char *path)
{
    const struct itimerval limit = { .it_value.tv_sec = path[0] ? WM_PRODUCE_READ_S : 0 };
    reading = path;
    setitimer (ITIMER_VIRTUAL, &limit, NULL);
}

const char *wm_produce_reading (void)
{
    return reading;
}

/* ---- what people, the broker and the stager are sent ----------------------------------------- */

void wm_produce_warn (const wm_produce_t *self, const char *format, ...)
{
    va_list arguments;
    if (self->options->quiet)
        return;
    va_start (arguments, format);
    fputs ("warning: ", stderr);
    vfprintf (stderr, format, arguments);
    fputc ('\n', stderr);
    va_end (arguments);
}

void wm_produce_fatal (wm_produce_t *self, int code, const char *text)
{
    if (self->exit_code >= 0)
        return;
    fprintf (stderr, "error: %s\n", text);
    if (text != self->error.text) /* the broker is sent this */
        snprintf (self->error.text, sizeof self->error.text, "%s", text);
    self->exit_code = code;
}

void wm_produce_send (wm_produce_t *self, const wm_msg_t *msg, const void *payload, size_t bytes)
{
    WM_FAILPOINT ("producer-send");
    wm_client_send (self->client, msg, payload, bytes);
    WM_FAILPOINT ("producer-sent");
}

static void stage_send (wm_produce_t *self, const wm_stage_msg_t *msg)
{
    if (TEMP_FAILURE_RETRY (send (self->options->stager, msg, sizeof *msg, MSG_NOSIGNAL)) < 0)
        self->exit_code = WM_EXIT_AGAIN; /* its end is this process's end too */
}

void wm_produce_stager_send (wm_produce_t *self, const wm_input_t *input, wm_stage_kind_t kind)
{
    const wm_stage_msg_t msg = { .kind = kind, .line = input->line };
    stage_send (self, &msg);
}

void wm_produce_store_ask (wm_produce_t *self, const wm_input_t *input, wm_stage_kind_t kind)
{
    wm_stage_msg_t msg = { .kind = kind,
                           .line = input->line,
                           .how = input->how,
                           .adler = input->there_adler,
                           .size = input->there_size };
    snprintf (msg.text, sizeof msg.text, "%s", input->name);
    stage_send (self, &msg);
}

/* ---- what the command that started this process is told -------------------------------------- */

static void tell (const wm_produce_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
static void tell (const wm_produce_t *self, const char *format, ...)
{
    char line[2048];
    va_list arguments;
    va_start (arguments, format);
    const int n = vsnprintf (line, sizeof line, format, arguments);
    va_end (arguments);
    /* if this fails, the reader has ended, which ends this process, too */
    if (self->options->tell && n > 0 && n < (int) sizeof line)
        TEMP_FAILURE_RETRY (write (self->options->tell, line, (size_t) n));
}

void wm_produce_report_output (const wm_produce_t *self)
{
    tell (self, "output %s\n", self->pins.output);
}

static void tell_end (const wm_produce_t *self, const wm_input_t *input)
{
    if (input->is == WM_INPUT_IS_WRITTEN && !input->changed)
        tell (self, "written %u %s\n", input->line, input->name);
    else if (input->is == WM_INPUT_IS_WRITTEN)
        tell (self, "%s %u\n", input->edited ? "edited" : "changed", input->line);
    else if (input->is == WM_INPUT_IS_HELD)
        tell (self, "held %u\n", input->line);
}

void wm_produce_report_placed (const wm_produce_t *self, const wm_input_t *input)
{
    const char *slot = strrchr (self->options->staged, '/') + 1;
    tell (self, "placed %u %s %s\n", input->line, slot, input->name);
}

void wm_produce_report_low (wm_produce_t *self)
{
    uint64_t n_event = 0, n_done = 0;
    if (!self->options->tell || self->told_low || self->n_ended + self->n_active < self->n_input)
        return;
    for (uint32_t i = 0; i < self->n_active; i++) {
        const wm_input_t *input = self->active[i];
        if (!input->event || input->next < input->n_event)
            return;
        n_event += input->n_event;
        n_done += input->n_done;
    }
    if (2 * n_done < n_event)
        return;
    self->told_low = true;
    tell (self, "low\n");
}

/* ---- which inputs there are ------------------------------------------------------------------ */

static int path_compare (const void *a, const void *b)
{
    return strcmp ((*(wm_input_t *const *) a)->path, (*(wm_input_t *const *) b)->path);
}

static void sort_by_path (wm_produce_t *self)
{
    for (uint32_t i = 0; i < self->n_input; i++)
        self->by_path[i] = &self->input[i];
    if (self->n_input > 1)
        qsort (self->by_path, self->n_input, sizeof *self->by_path, path_compare);
}

/* Drops inputs that were given twice, keeping the order.  */
static void repeats_drop (wm_produce_t *self)
{
    wm_input_t **order = self->by_path;
    sort_by_path (self);
    for (uint32_t i = 1; i < self->n_input; i++)
        if (!strcmp (order[i]->path, order[i - 1]->path)) {
            /* the later of the two goes; the other stays for the next comparison */
            wm_input_t *later = order[i] > order[i - 1] ? order[i] : order[i - 1];
            order[i] = order[i] > order[i - 1] ? order[i - 1] : order[i];
            later->is = WM_INPUT_IS_HELD;
        }
    uint32_t n = 0;
    for (uint32_t i = 0; i < self->n_input; i++) {
        if (self->input[i].is == WM_INPUT_IS_HELD)
            wm_input_clear (&self->input[i]);
        else
            self->input[n++] = self->input[i];
    }
    self->n_input = n;
    sort_by_path (self);
}

wm_fault_t wm_produce_inputs_make (wm_produce_t *self)
{
    const wm_produce_options_t *options = self->options;
    for (self->n_slot = 64; self->n_slot < 2ull * options->n_input; self->n_slot *= 2)
        ;
    self->input = calloc (options->n_input + 1ul, sizeof *self->input);
    self->by_path = calloc (options->n_input + 1ul, sizeof (wm_input_t *));
    self->by_id = calloc (self->n_slot, sizeof *self->by_id);
    if (!self->input || !self->by_path || !self->by_id)
        return wm_fault (&self->error, WM_EHOST, "out of memory");
    for (uint32_t i = 0; i < options->n_input; i++) {
        wm_fault_t fault =
            wm_input_init (&self->input[self->n_input++], options->input[i], &self->error);
        if (fault)
            return fault;
        self->input[self->n_input - 1].line = i;
    }
    repeats_drop (self);
    return WM_OK;
}

void wm_produce_inputs_clear (wm_produce_t *self)
{
    for (uint32_t i = 0; i < self->n_input; i++)
        wm_input_clear (&self->input[i]);
    free (self->input);
    free (self->by_path);
    free (self->by_id);
}

wm_input_t *wm_produce_by_path (const wm_produce_t *self, const char *path)
{
    const uint32_t at = WM_BISECT (0, self->n_input, i, strcmp (self->by_path[i]->path, path) < 0);
    return at < self->n_input && !strcmp (self->by_path[at]->path, path) ? self->by_path[at] : NULL;
}

/* The slot of this id, or the free one where it belongs.  */
static uint32_t *slot_of (const wm_produce_t *self, uint32_t id)
{
    uint32_t i = id * 2654435769u & (self->n_slot - 1); /* brokers count from 1 */
    while (self->by_id[i] && self->input[self->by_id[i] - 1].id != id)
        i = (i + 1) & (self->n_slot - 1);
    return &self->by_id[i];
}

wm_input_t *wm_produce_by_id (const wm_produce_t *self, uint32_t id)
{
    const uint32_t index = *slot_of (self, id);
    return index ? &self->input[index - 1] : NULL;
}

void wm_produce_set_id (wm_produce_t *self, wm_input_t *input, uint32_t id)
{
    if (input->id == id)
        return;
    const bool was_known = input->id != 0;
    input->id = id;
    if (!was_known) {
        *slot_of (self, id) = (uint32_t) (input - self->input) + 1;
        return;
    }
    memset (self->by_id, 0, self->n_slot * sizeof *self->by_id); /* brokers do not do this */
    for (uint32_t i = 0; i < self->n_input; i++)
        if (self->input[i].id)
            *slot_of (self, self->input[i].id) = i + 1;
}

/* ---- what they are --------------------------------------------------------------------------- */

static bool is_ended (wm_input_is_t is)
{
    return is == WM_INPUT_IS_WRITTEN || is == WM_INPUT_IS_HELD;
}

static bool is_active (const wm_input_t *input)
{
    return input->is == WM_INPUT_IS_OURS || (input->is == WM_INPUT_IS_OPEN && input->event);
}

void wm_produce_set_is (wm_produce_t *self, wm_input_t *input, wm_input_is_t is)
{
    const uint32_t index = (uint32_t) (input - self->input);
    self->n_ended -= is_ended (input->is);
    self->n_ended += is_ended (is);
    input->is = is;
    tell_end (self, input);
    if (is == WM_INPUT_IS_NEW && index < self->first_new)
        self->first_new = index;
    if (is == WM_INPUT_IS_OPEN && index < self->first_open)
        self->first_open = index;
    if (is == WM_INPUT_IS_BUSY && input->retry_ms < self->busy_ms)
        self->busy_ms = input->retry_ms;
    if (is == WM_INPUT_IS_OURS) {
        const uint32_t n = wm_produce_active (self);
        for (uint32_t i = 0; i < n; i++)
            if (self->active[i] == input)
                return;
        assert (n < WM_PRODUCE_ACTIVE_MAX); /* on_input_ack has checked it */
        self->active[self->n_active++] = input;
    }
}

uint32_t wm_produce_active (wm_produce_t *self)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < self->n_active; i++)
        if (is_active (self->active[i]))
            self->active[n++] = self->active[i];
    return self->n_active = n;
}

void wm_produce_inputs_session (wm_produce_t *self, bool new_epoch)
{
    for (uint32_t i = 0; i < self->n_input; i++)
        wm_input_session_end (&self->input[i], new_epoch);
    self->first_new = self->first_open = 0;
    self->n_asked = self->n_claiming = 0;
    self->busy_ms = 0;
}

wm_input_t *wm_produce_next_new (wm_produce_t *self)
{
    for (; self->first_new < self->n_input; self->first_new++) {
        wm_input_t *input = &self->input[self->first_new];
        if (input->is == WM_INPUT_IS_NEW && !input->asked)
            return input;
    }
    return NULL;
}

/* Opens the inputs of other producers whose time to be asked for has come: at most a few times a
   heartbeat, because all inputs are looked through.  */
static void busy_open (wm_produce_t *self)
{
    const int64_t now = wm_now_ms ();
    if (now < self->busy_ms)
        return;
    self->busy_ms = INT64_MAX;
    for (uint32_t i = 0; i < self->n_input; i++) {
        wm_input_t *input = &self->input[i];
        if (input->is != WM_INPUT_IS_BUSY || input->asked)
            continue;
        if (now >= input->retry_ms)
            wm_produce_set_is (self, input, WM_INPUT_IS_OPEN);
        else if (input->retry_ms < self->busy_ms)
            self->busy_ms = input->retry_ms;
    }
    const int64_t soonest = now + wm_times ()->heartbeat_ms / 8;
    self->busy_ms = self->busy_ms < soonest ? soonest : self->busy_ms;
}

wm_input_t *wm_produce_next_open (wm_produce_t *self)
{
    busy_open (self);
    for (uint32_t i = 0; i < self->n_active; i++)
        if (self->active[i]->is == WM_INPUT_IS_OPEN && self->active[i]->event &&
            !self->active[i]->asked)
            return self->active[i];
    for (; self->first_open < self->n_input; self->first_open++) {
        wm_input_t *input = &self->input[self->first_open];
        if (input->is == WM_INPUT_IS_OPEN && !input->asked)
            return input;
    }
    return NULL;
}

/* ---- INPUT is sent --------------------------------------------------------------------------- */

void wm_produce_ask (wm_produce_t *self, wm_input_t *input, uint32_t code)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = code;
    msg.size = input->size;
    msg.mtime_ns = input->mtime_ns;
    wm_input_propose (input, msg.name);
    snprintf (msg.path, sizeof msg.path, "%s", input->path);
    input->asked = true;
    input->claiming = code == 1;
    input->pinning = input->remote && input->size != WM_SIZE_UNKNOWN;
    self->n_asked++;
    self->n_claiming += input->claiming;
    wm_produce_send (self, &msg, NULL, 0);
}

/* ---- ends of inputs -------------------------------------------------------------------------- */

static void stage_drop (wm_produce_t *self, wm_input_t *input)
{
    free (input->staged);
    input->staged = NULL;
    input->wanted = input->pinned = false;
    wm_input_look_again (input);
    if (self->options->ahead)
        wm_produce_stager_send (self, input, WM_STAGE_DROP);
}

static void stage_name (const wm_input_t *input, char *text, size_t bytes)
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

void wm_produce_check_end (wm_produce_t *self, wm_input_t *input)
{
    self->n_checking -= input->checking;
    input->checking = false;
}

void wm_produce_store_drop (wm_produce_t *self, wm_input_t *input)
{
    wm_produce_check_end (self, input);
    if (self->options->store) /* the stager may also have an answered question of it */
        wm_produce_store_ask (self, input, WM_STAGE_FORGET);
}

void wm_produce_end (wm_produce_t *self, wm_input_t *input, wm_input_is_t is)
{
    for (uint32_t i = 0; i < input->n_event; i++) {
        const wm_input_event_t *event = &input->event[i];
        self->n_open -= event->announced && !event->done;
        if (event->pack && !event->complete) {
            self->n_kept--;
            self->frame_bytes -= wm_input_event_bytes (input, i);
        }
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < self->n_fetch; i++) {
        wm_produce_place_t place = self->fetch[(self->fetch_first + i) % WM_OPEN_EVENTS_MAX];
        if (place.input != input)
            self->fetch[(self->fetch_first + n++) % WM_OPEN_EVENTS_MAX] = place;
    }
    self->n_fetch = n;
    wm_produce_has_room (self, input);
    if (self->rebuilt_for.input == input)
        wm_pack_destroy (&self->rebuilt);
    wm_produce_store_drop (self, input);
    wm_input_close (input);
    if (input->remote)
        stage_drop (self, input);
    wm_produce_set_is (self, input, is);
}

void wm_produce_claim_over (wm_produce_t *self, wm_input_t *input)
{
    input->retry_ms = wm_now_ms () + wm_times ()->heartbeat_ms;
    wm_produce_end (self, input, WM_INPUT_IS_BUSY);
}

void wm_produce_wait (wm_produce_t *self, wm_input_t *input)
{
    wm_produce_end (self, input, WM_INPUT_IS_LOST);
}

void wm_produce_hold (wm_produce_t *self, wm_input_t *input, const char *text)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT_HELD);
    msg.key = wm_produce_key (input, 0, 0);
    snprintf (msg.text, sizeof msg.text, "%s", text);
    wm_produce_warn (self, "input held: %s", text);
    wm_produce_end (self, input, WM_INPUT_IS_ENDING);
    wm_produce_send (self, &msg, NULL, 0);
}

void wm_produce_blame (wm_produce_t *self, wm_input_t *input, wm_fault_t fault)
{
    if (fault == WM_EBATCH) {
        stage_name (input, self->error.text, sizeof self->error.text);
        wm_produce_hold (self, input, self->error.text);
    } else if (fault == WM_EAGAIN) {
        if (!self->full_with) {
            wm_produce_warn (self, "%s", self->error.text);
            self->full_with = input;
        }
        snprintf (self->full_text, sizeof self->full_text, "%s", self->error.text);
        self->full_ms = wm_now_ms () + wm_times ()->disk_full_ms;
    } else
        wm_produce_fatal (self, WM_EXIT_FAILURE, self->error.text);
}

wm_fault_t wm_produce_is_changed (wm_produce_t *self, const wm_input_t *input)
{
    if (!wm_input_changed (input))
        return WM_OK;
    return wm_fault (&self->error, WM_EBATCH, "%.400s changed while it was worked on", input->path);
}

bool wm_produce_is_full (const wm_produce_t *self)
{
    return self->full_ms && wm_now_ms () < self->full_ms;
}

void wm_produce_lost (wm_produce_t *self, wm_input_t *input, const char *text)
{
    wm_msg_t lost;
    wm_msg_init (&lost, WM_MSG_FILE_LOST);
    lost.key = wm_produce_key (input, 0, 0);
    snprintf (lost.text, sizeof lost.text, "%s", text);
    wm_produce_end (self, input, WM_INPUT_IS_LOST);
    wm_produce_send (self, &lost, NULL, 0);
}
