/* wm_produce.c - drives inputs through a session with a broker.

   One loop: a message, if there is one, is answered; else a piece of work is done for each input
   (`work` lists them by urgency); else it waits. Inputs are made known many at a time. Large ones
   are claimed one at a time, small ones many: their outputs are committed together
   (wm_produce_write.c).

   What must end the process (wm_produce_fatal) and what ends only an input (wm_produce_hold) are
   told apart by the fault: WM_EBATCH is the input's.  */
#include "producer/session/wm_produce_confine.h"
#include "producer/session/wm_produce_private.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_process.h"
#include "schema/wm_sample.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FRAMES_BYTES_MAX (96ull << 20) /* encoded and kept; one event may pass it */
#define FRAMES_PART 16                 /* likewise, of the memory that this process may use */
#define INPUTS_ASKED_MAX 256u          /* on their way: one group commit answers many */
#define INPUTS_OPEN_MAX 16u            /* files, scratch files, claims at a time, and of files */
#define SMALL_INPUT_BYTES (256u << 10) /* up to this size more: */
#define SMALL_OPEN_MAX 128u            /* so many, which are 32 MiB of files */
#define WORK_MS 10                     /* without reading messages */
#define NAP_MS 500

/* ---- INPUT ----------------------------------------------------------------------------------- */

/* With --retry-held: the first answer about an input names its output. The producer inspects that
   output before it kicks the input, because the new output takes the place of the old one. Returns
   whether the answer is dealt with.  */
static bool retry (wm_produce_t *self, wm_input_t *input, const wm_msg_t *msg)
{
    bool there;
    const bool known =
        msg->code == WM_INPUT_OPEN || msg->code == WM_INPUT_WRITTEN || msg->code == WM_INPUT_HELD;
    if (self->options->retry_held && input->retried && input->pinning && !input->pin_retried &&
        msg->code == WM_INPUT_HELD) { /* another file than the one that was pinned */
        input->pin_retried = true;
        wm_produce_ask (self, input, 2);
        return true;
    }
    if (!self->options->retry_held || input->retried || !known)
        return false;
    input->result.size = msg->size;
    input->result.mtime_ns = msg->mtime_ns;
    memcpy (input->result.digest, msg->digest, 16);
    if (msg->code == WM_INPUT_WRITTEN && !wm_produce_as_written (self, input, &there))
        return false; /* wm_produce_written_check opens it again */
    input->retried = true;
    wm_produce_ask (self, input, 2);
    return true;
}

static void on_input_ack (wm_produce_t *self, const wm_msg_t *msg)
{
    wm_input_t *input = wm_produce_by_path (self, msg->path);
    if (input && input->asked) {
        self->n_asked--;
        self->n_claiming -= input->claiming;
        input->asked = input->claiming = false;
    }
    bool kicked = input && input->id && input->generation < msg->key.generation;
    if (!input || (!kicked && (input->is == WM_INPUT_IS_WRITTEN || input->is == WM_INPUT_IS_HELD)))
        return;
    if (kicked) { /* from the start, from the file as it is now */
        wm_produce_end (self, input, WM_INPUT_IS_OPEN);
        wm_input_look_again (input);
        input->n_held = 0;
        input->changed = input->edited = input->seen = false;
    }
    wm_produce_set_id (self, input, msg->key.input);
    input->generation = msg->key.generation;
    snprintf (input->name, sizeof input->name, "%s", msg->name);
    if (retry (self, input, msg))
        return;
    switch (msg->code) {
    case WM_INPUT_OPEN:
        if (!wm_produce_in_the_way (self, input))
            wm_produce_set_is (self, input, WM_INPUT_IS_OPEN);
        return;
    case WM_INPUT_CLAIMED:
        WM_FAILPOINT ("producer-claimed");
        if (wm_produce_active (self) == WM_PRODUCE_ACTIVE_MAX)
            wm_produce_fatal (self, WM_EXIT_FAILURE,
                              "the broker gave this producer inputs that it did not ask for");
        else if (!wm_produce_in_the_way (self, input)) {
            wm_produce_set_is (self, input, WM_INPUT_IS_OURS);
            if (self->options->store)
                wm_produce_store_claimed (self, input);
        }
        input->pinned = input->pinning;
        return;
    case WM_INPUT_BUSY:
        input->retry_ms = wm_now_ms () + wm_times ()->heartbeat_ms;
        wm_produce_set_is (self, input, WM_INPUT_IS_BUSY);
        return;
    case WM_INPUT_WRITTEN:
        wm_produce_written_check (self, input, msg);
        return;
    default:
        if (input->is !=
            WM_INPUT_IS_ENDING) /* else this producer asked for it, and has logged it */
            wm_produce_warn_of (self, input, "input held: ", msg->text);
        wm_produce_end (self, input, WM_INPUT_IS_HELD);
    }
}

static void on_ack (wm_produce_t *self, const wm_msg_t *msg)
{
    wm_input_t *input = wm_produce_by_id (self, msg->key.input);
    if (!input)
        return;
    switch (msg->code) {
    case WM_MSG_INPUT_END:
        input->end_acked = input->end_sent;
        return;
    case WM_MSG_FILE_WRITTEN:
        WM_FAILPOINT ("producer-file-written-acked");
        if (input->written_sent) {
            input->n_held = input->result.n_held;
            self->n_written++;
            wm_produce_end (self, input, WM_INPUT_IS_WRITTEN);
        }
        return;
    case WM_MSG_FILE_LOST:
        if (input->is == WM_INPUT_IS_LOST)
            wm_produce_set_is (self, input, WM_INPUT_IS_OPEN);
        return;
    case WM_MSG_INPUT_HELD:
        if (input->is == WM_INPUT_IS_ENDING)
            wm_produce_set_is (self, input, WM_INPUT_IS_HELD);
        return;
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static void on_drain (wm_produce_t *self, const wm_msg_t *msg)
{
    (void) msg;
    self->exit_code = WM_EXIT_AGAIN;
}

/* Which file acts on which message. SUBMIT_ACK is not here: NEED and EVENT_DONE carry all that is
   needed.  */
static const struct {
    wm_msg_type_t type;
    void (*on) (wm_produce_t *self, const wm_msg_t *msg);
} row[] = {
    { WM_MSG_INPUT_ACK, on_input_ack },        { WM_MSG_ACK, on_ack },
    { WM_MSG_NEED, wm_produce_on_need },       { WM_MSG_EVENT_DONE, wm_produce_on_event_done },
    { WM_MSG_RESULTS, wm_produce_on_results }, { WM_MSG_DRAIN, on_drain },
};

/* Answers the message that wm_client_wait returned.  */
static void on_message (wm_produce_t *self)
{
    const wm_msg_t *msg = wm_client_msg (self->client);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].type == msg->type) {
            row[i].on (self, msg);
            return;
        }
}

/* ---- the sample on which split and fast measure ---------------------------------------------- */

/* Up to WM_SAMPLE_HITS hits of the first events in the order of the inputs: all of small events, of
   one that has more an even share over all its planes. They are cut as any others are. An input
   that is held is left out, and one that cannot be read: the producer meets it again when it works
   on it. The session is kept alive between events.  */
typedef struct {
    wm_produce_t *self;
    wm_cut_t *cut;
    wm_coder_t *coder;
    wm_batch_t batch;
    uint8_t *payload;
    size_t bytes;
    uint32_t n_hit;
    bool full;
} sample_t;

/* Leaves at most `most` hits in the event, every k-th.  */
static void thin_out (wm_event_t *event, uint32_t most)
{
    const size_t values = event->patch_values;
    const uint32_t n = event->n_hit < most ? event->n_hit : most;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t from = (uint32_t) ((uint64_t) i * event->n_hit / n);
        event->hit[i] = event->hit[from];
        if (values)
            memmove (event->patch + i * values, event->patch + from * values,
                     values * sizeof *event->patch);
    }
    event->n_hit = n;
}

static void add_event (sample_t *sample, const char *path)
{
    wm_produce_t *self = sample->self;
    const uint32_t *hit;
    thin_out (&self->content, WM_SAMPLE_HITS - sample->n_hit);
    if (wm_cut_start (sample->cut, &self->content, path, &self->error))
        return;
    while (!sample->full && !wm_cut_next (sample->cut, &sample->batch, &hit, &self->error) &&
           sample->batch.n_hit) {
        const size_t bytes =
            wm_sample_add (sample->payload, sample->bytes, &sample->batch, sample->coder);
        sample->full = bytes == 0;
        if (sample->full)
            return;
        sample->bytes = bytes;
        sample->n_hit += sample->batch.n_hit;
    }
    sample->full |= sample->n_hit >= WM_SAMPLE_HITS;
}

/* Lets heartbeats out, and answers messages: of inputs that lie elsewhere INPUTs are on their way.
   */
static bool stays_open (wm_produce_t *self)
{
    if (wm_client_is_open (self->client) && wm_client_wait (self->client, 0) == WM_CLIENT_MESSAGE)
        on_message (self);
    return wm_client_is_open (self->client) && self->exit_code < 0 && !zsys_interrupted;
}

static void add_input (sample_t *sample, const wm_input_t *input)
{
    wm_produce_t *self = sample->self;
    wm_error_t error;
    if (!wm_input_file (input))
        return; /* it lies elsewhere */
    wm_produce_set_reading (input->path);
    wm_reader_t *reader =
        wm_reader_open_input (wm_input_file (input), input->path, &self->pins,
                              wm_client_shape (self->client), &self->spec, &error);
    for (uint32_t e = 0; reader && !sample->full && e < wm_reader_n_event (reader); e++) {
        wm_produce_set_reading (input->path); /* the time limit for one read starts again */
        if (!wm_reader_event (reader, e, &self->content, &error) && self->content.n_hit)
            add_event (sample, input->path);
        wm_produce_set_reading ("");
        if (!stays_open (self))
            break;
    }
    wm_reader_destroy (&reader);
    wm_produce_set_reading ("");
}

/* Raw bytes of a batch: small, so that a few that cannot be compressed still fit the sample, but
   room for one patch.  */
static uint32_t batch_bytes (const wm_pins_t *pins)
{
    const uint64_t one = 4ull * pins->n_value + (64u << 10), some = WM_RAW_BYTES_MAX / 8;
    const uint64_t bytes = one > some ? one : some;
    return bytes < pins->batch_bytes ? (uint32_t) bytes : pins->batch_bytes;
}

/* Sends SAMPLE in a session whose broker wants it: of all inputs that are here; where none of them
   has a hit, of the next one that is `opened` (NULL: none) and has some. Returns whether it read
   inputs: then messages were answered meanwhile.  */
static bool sample_send (wm_produce_t *self, const wm_input_t *opened)
{
    if (self->sampled || (self->looked && !opened))
        return false;
    const wm_pins_t *pins = &self->pins;
    wm_cut_limits_t limits = wm_cut_limits (pins);
    limits.batch_bytes = batch_bytes (pins);
    sample_t sample = { .self = self,
                        .cut = wm_cut_new (&self->spec, limits),
                        .coder = wm_coder_new (),
                        .payload = malloc (WM_RAW_BYTES_MAX) };
    assert (sample.payload);
    sample.bytes = wm_sample_begin (sample.payload);
    if (self->looked)
        add_input (&sample, opened);
    for (uint32_t i = 0; !self->looked && i < self->n_input && !sample.full && stays_open (self);
         i++)
        if (self->input[i].is != WM_INPUT_IS_HELD)
            add_input (&sample, &self->input[i]);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SAMPLE);
    msg.n_hit = sample.n_hit;
    self->looked = true;
    self->sampled = sample.n_hit || sample.full;
    if (self->sampled) /* else another input, or another producer, may have hits */
        wm_produce_send (self, &msg, sample.payload, sample.bytes);
    free (sample.payload);
    wm_batch_clear (&sample.batch);
    wm_coder_destroy (&sample.coder);
    wm_cut_destroy (&sample.cut);
    return true;
}

/* ---- work ------------------------------------------------------------------------------------ */

/* One step of an input of ours; false: there is nothing to do for it now.  */
static bool input_step (wm_produce_t *self, wm_input_t *input, bool *unannounced, wm_fault_t *fault)
{
    if (!input->event) {
        if (wm_produce_is_full (self) ||
            (input->remote && !wm_produce_stage_step (self, input, *unannounced)))
            return false;
        /* an answer that came while inputs were read for it may have ended this one */
        if (input->remote && sample_send (self, input) &&
            (self->exit_code >= 0 || input->is != WM_INPUT_IS_OURS || !input->staged))
            return false;
        wm_produce_set_reading (input->path);
        *fault = wm_input_open (input, &self->spec, &self->pins, wm_client_shape (self->client),
                                &self->error);
        wm_produce_set_reading ("");
        if (!*fault)
            wm_produce_has_room (self, input);
        return true;
    }
    while (input->next < input->n_event && input->event[input->next].announced)
        input->next++;
    if (input->next < input->n_event) {
        const uint64_t room = wm_allowance_part (wm_allowance (), FRAMES_PART, FRAMES_BYTES_MAX);
        *unannounced = true;
        bool known = input->event[input->next].pack != NULL;
        if (self->n_open >= WM_OPEN_EVENTS_MAX ||
            (!known && (self->n_kept >= WM_OPEN_EVENTS_MAX || self->frame_bytes >= room)))
            return false;
        *fault = wm_produce_announce (self, input);
        return true;
    }
    if (!input->end_sent) {
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_INPUT_END);
        msg.key = wm_produce_key (input, 0, 0);
        msg.count = input->n_event;
        input->end_sent = true;
        WM_FAILPOINT ("producer-input-end-send");
        wm_produce_send (self, &msg, NULL, 0);
        return true;
    }
    return wm_produce_write (self, input, fault);
}

/* As input_step; acts on its fault.  */
static bool input_work (wm_produce_t *self, wm_input_t *input, bool *unannounced)
{
    wm_fault_t fault = WM_OK;
    const bool worked = input_step (self, input, unannounced, &fault);
    if (fault)
        wm_produce_blame (self, input, fault);
    return worked;
}

/* How many inputs may be worked on at a time if the next one is this. For small inputs the limit
   grows with each output written, so that producers share a campaign of few inputs.  */
static uint32_t open_max (const wm_produce_t *self, const wm_input_t *next)
{
    if (next->size > SMALL_INPUT_BYTES)
        return INPUTS_OPEN_MAX;
    const uint32_t more = self->open_max - INPUTS_OPEN_MAX;
    return INPUTS_OPEN_MAX + (self->n_written < more ? self->n_written : more);
}

/* Asks for the next input: those never seen first, so that totals are known; then those to claim,
   where all events of the claimed ones are announced. Small inputs are claimed ahead.  */
static bool input_next (wm_produce_t *self, bool unannounced)
{
    if (self->n_asked == INPUTS_ASKED_MAX)
        return false;
    wm_input_t *input = wm_produce_next_new (self);
    if (input) {
        wm_produce_ask (self, input, 0);
        return true;
    }
    const bool stage = wm_produce_stage_more (self);
    if ((unannounced && !stage) || self->n_asked > self->n_claiming)
        return false;
    input = wm_produce_next_open (self);
    if (input && input->remote) {
        if (stage)
            wm_produce_ask (self, input, 1);
        return stage;
    }
    if (!input || unannounced || (self->n_claiming && input->size > SMALL_INPUT_BYTES))
        return false;
    /* one of an old session has its room: if it waited for more, all might deadlock */
    if (!input->event && self->n_claiming + self->n_active >= open_max (self, input))
        return false;
    if (!sample_send (self, NULL)) /* all inputs are known, so that it reads no held one */
        wm_produce_ask (self, input, 1);
    return true;
}

/* Does pieces of work until messages should be read again; false: nothing is to do before *wait_ms
   have passed, or a message comes.  */
static bool work (wm_produce_t *self, int64_t *wait_ms)
{
    const int64_t end = wm_now_ms () + WORK_MS;
    bool unannounced = false, done = false;
    wm_produce_stage_handle (self);
    while (wm_produce_fetch (self))
        done = true;
    done |= wm_produce_commit (self, wait_ms);
    const uint32_t n_active = wm_produce_active (self);
    for (uint32_t i = 0; i < n_active; i++) {
        if (self->active[i]->is == WM_INPUT_IS_OURS)
            done |= input_work (self, self->active[i], &unannounced);
        if (wm_now_ms () >= end)
            return true;
    }
    wm_produce_active (self);
    wm_produce_report_low (self);
    while (self->exit_code < 0 && input_next (self, unannounced))
        done = true;
    wm_produce_stage_report (self, wait_ms);
    if (done || self->n_ended < self->n_input)
        return done;
    if (wm_produce_outputs_missed (self))
        return true;
    self->exit_code = WM_EXIT_OK; /* `result` makes it what it is */
    return false;
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* Takes what the campaign is pinned to.  */
static wm_fault_t pins_take (wm_produce_t *self)
{
    const wm_pins_t *pins = wm_client_pins (self->client);
    if (*pins->serves)
        return wm_fault (&self->error, WM_EBATCH,
                         "the broker serves %s, not files: start one without --%s", pins->serves,
                         pins->serves);
    wm_error_t *error = &self->error;
    memcpy (self->campaign, wm_client_campaign (self->client), 16);
    memcpy (self->pins_digest, wm_client_pins_digest (self->client), 16);
    self->pins = *pins;
    wm_fault_t fault = wm_spec_parse (&self->spec, pins->spec, strlen (pins->spec),
                                      "the campaign's specification", error);
    if (!fault)
        fault = wm_writer_check (&self->spec, pins->n_output, pins->layout, error);
    if (fault)
        return fault;
    if (wm_produce_store_begin (self))
        return error->fault;
    pins = &self->pins;
    if (mkdir (pins->output, 0777) && errno != EEXIST)
        return wm_fault (error, WM_EBATCH, "output folder %s cannot be made: %s", pins->output,
                         strerror (errno));
    if (access (pins->output, W_OK))
        return wm_fault (error, WM_EBATCH,
                         "this user may not write in the campaign's output folder %s: %s; run the "
                         "producer as a user who may, on a machine that has that folder",
                         pins->output, strerror (errno));
    if (wm_folder_sync_parent (pins->output)) /* FILE_WRITTEN promises that outputs stay */
        return wm_fault (error, WM_EHOST, "fsync of the folder that holds %s: %s", pins->output,
                         strerror (errno));
    self->packer = wm_packer_new (&self->spec, wm_cut_limits (pins), self->pins_digest);
    wm_produce_report_output (self);
    for (uint32_t i = 0; i < self->n_input && *pins->channels; i++) {
        self->input[i].pins = pins; /* none is known to the broker yet */
        wm_input_look_again (&self->input[i]);
    }
    if (self->options->confined)
        wm_produce_confine_files (self);
    return WM_OK;
}

/* Opens a session, the first or the next.  */
static void session_open (wm_produce_t *self)
{
    const int64_t all_ms = self->options->give_up_ms, some_ms = wm_times ()->reconnect_ms;
    wm_fault_t fault = wm_client_open_patiently (self->client, NULL, 0,
                                                 all_ms < some_ms ? all_ms : some_ms, &self->error);
    if (fault == WM_EAGAIN && !zsys_interrupted && all_ms > some_ms) {
        wm_produce_warn (self, "%s; goes on trying for %lld s", self->error.text,
                         (long long) (all_ms - some_ms) / 1000);
        fault = wm_client_open_patiently (self->client, NULL, 0, all_ms - some_ms, &self->error);
    }
    if (zsys_interrupted) {
        self->exit_code = WM_EXIT_AGAIN;
        return;
    }
    if (fault) {
        wm_produce_fatal (self,
                          fault == WM_EAGAIN ? WM_EXIT_UNREACHABLE
                          : fault == WM_EKEY ? WM_EXIT_REFUSED
                                             : WM_EXIT_FAILURE,
                          self->error.text);
        return;
    }
    if (!self->packer) {
        if (pins_take (self))
            wm_produce_fatal (self, WM_EXIT_INPUT, self->error.text);
    } else if (memcmp (self->campaign, wm_client_campaign (self->client), 16) ||
               memcmp (self->pins_digest, wm_client_pins_digest (self->client), 16))
        wm_produce_fatal (self, WM_EXIT_FAILURE,
                          "another campaign is now at this broker's address");
    bool new_epoch = self->epoch != wm_client_epoch (self->client);
    self->epoch = wm_client_epoch (self->client);
    wm_produce_inputs_session (self, new_epoch);
    self->n_open = self->n_fetch = self->n_fetching = 0;
    self->fetching_large = false;
    self->sampled = !wm_client_wants_sample (self->client);
    self->looked = false;
}

static void run (wm_produce_t *self)
{
    bool idle = false;
    int64_t wait_ms = NAP_MS;
    session_open (self);
    while (self->exit_code < 0) {
        wm_client_event_t event = wm_client_wait (self->client, idle ? wait_ms : 0);
        wait_ms = NAP_MS;
        idle = false;
        if (zsys_interrupted)
            self->exit_code = WM_EXIT_AGAIN;
        else if (event == WM_CLIENT_MESSAGE)
            on_message (self);
        else if (event == WM_CLIENT_CLOSED)
            session_open (self);
        else
            idle = !work (self, &wait_ms);
    }
}

static void log_summary (const wm_produce_t *self)
{
    uint32_t n_written = 0, n_bad = 0;
    for (uint32_t i = 0; i < self->n_input; i++) {
        n_written += self->input[i].is == WM_INPUT_IS_WRITTEN;
        n_bad += self->input[i].is == WM_INPUT_IS_HELD;
    }
    fprintf (stderr, "%u input%s of this command: %u written, %u held, %u not finished\n",
             self->n_input, self->n_input == 1 ? "" : "s", n_written, n_bad,
             self->n_input - n_written - n_bad);
}

/* What became of it all.  */
static int result (const wm_produce_t *self)
{
    uint32_t n_bad = 0;
    uint64_t n_held = 0;
    for (uint32_t i = 0; i < self->n_input; i++) {
        n_bad += self->input[i].is == WM_INPUT_IS_HELD;
        n_held += self->input[i].n_held + self->input[i].changed;
    }
    if (n_bad && n_bad == self->n_input)
        return WM_EXIT_INPUT;
    return n_bad || n_held ? WM_EXIT_HELD : WM_EXIT_OK;
}

/* ---- from outside ---------------------------------------------------------------------------- */

/* An input that is worked on has two files open, its own and its output.  */
static uint32_t files_open_max (void)
{
    struct rlimit limit;
    const rlim_t most = getrlimit (RLIMIT_NOFILE, &limit) ? 0 : limit.rlim_cur;
    const uint32_t fits = most > 512 + 2 * SMALL_OPEN_MAX ? SMALL_OPEN_MAX : (uint32_t) (most / 8);
    return fits < INPUTS_OPEN_MAX ? INPUTS_OPEN_MAX : fits > SMALL_OPEN_MAX ? SMALL_OPEN_MAX : fits;
}

int wm_produce (const wm_produce_options_t *options)
{
    wm_produce_t *self = calloc (1, sizeof *self);
    assert (self);
    wm_process_keep_memory ();
    self->options = options;
    self->exit_code = -1;
    self->repeats = wm_repeats_new ();
    char host[128] = "", label[160];
    gethostname (host, sizeof host - 1);
    snprintf (label, sizeof label, "%s:%d", host, (int) getpid ());
    self->open_max = files_open_max ();
    if (wm_produce_inputs_make (self))
        wm_produce_fatal (self, WM_EXIT_INPUT, self->error.text);
    else {
        self->client = wm_client_new (options->broker, WM_ROLE_PRODUCER, label, NULL, NULL);
        run (self);
    }
    if (self->n_repeat)
        wm_produce_warn (self, "%" PRIu64 " event%s repeated: %s; all are scored", self->n_repeat,
                         self->n_repeat == 1 ? " is" : "s are", self->repeat);
    int code = self->exit_code ? self->exit_code : result (self);
    if (options->summary)
        log_summary (self);
    if (self->client && wm_client_is_open (self->client))
        wm_client_close (self->client,
                         code == WM_EXIT_AGAIN  ? WM_REASON_DRAINED
                         : self->exit_code == 0 ? WM_REASON_DONE
                                                : WM_REASON_FAILED,
                         self->exit_code > 0 && code != WM_EXIT_AGAIN ? self->error.text : "");
    wm_client_destroy (&self->client);
    wm_produce_inputs_clear (self);
    for (uint32_t i = 0; i < self->n_engine; i++)
        free (self->engine[i]);
    free (self->engine);
    free (self->engine_error);
    wm_pack_destroy (&self->rebuilt);
    wm_repeats_destroy (&self->repeats);
    wm_packer_destroy (&self->packer);
    wm_event_clear (&self->content);
    free (self);
    return code;
}
