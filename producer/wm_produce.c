/* wm_produce.c - drives inputs through a session with a broker.

   One loop: a message, if there is one, is answered; else one piece of work is done (`work` lists
   them by urgency); else it waits. INPUT is stop-and-wait, because its answer names no path.

   What must end the process (`fatal`) and what ends only an input (`hold`) are told apart by the
   fault: WM_EBATCH is the input's.  */
#include "producer/wm_produce.h"

#include "producer/wm_input.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#define FRAMES_BYTES_MAX (256ull << 20) /* encoded and kept; one event may pass it */
#define INPUTS_OPEN_MAX 16u             /* files, scratch files, claims at a time */
#define ENGINES_MAX 60000u              /* signatures; 16-bit in scratch and output */
#define NAP_MS 500

/* An event whose results can be fetched.  */
typedef struct {
    wm_input_t *input;
    uint32_t ordinal;
} place_t;

typedef struct {
    const wm_produce_options_t *options;
    wm_client_t *client;
    uint64_t epoch;
    uint8_t campaign[16], pins_digest[16];
    wm_pins_t pins;
    wm_spec_t spec;
    wm_packer_t *packer;
    wm_event_t content; /* work space */

    wm_input_t *input;
    uint32_t n_input;
    wm_input_t *asked;                 /* INPUT is on its way */
    uint32_t n_open;                   /* events announced and not done */
    uint32_t n_kept;                   /* events with frames or results to fetch */
    uint64_t frame_bytes;              /* of those */
    place_t fetch[WM_OPEN_EVENTS_MAX]; /* ring */
    uint32_t fetch_first, n_fetch;
    bool fetching;

    place_t rebuilt_for; /* the last event whose frames had to be made again */
    wm_pack_t *rebuilt;

    char **engine; /* signatures, numbered from 1 */
    uint32_t n_engine;
    size_t engine_max;

    int64_t full_ms; /* disk full: no try before */
    bool full_said;
    int exit_code; /* -1: go on */
    wm_error_t error;
} produce_t;

static const char *reading = "";

const char *wm_produce_reading (void)
{
    return reading;
}

/* ---- words ------------------------------------------------------------------------------------*/

static void warn (const produce_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
static void warn (const produce_t *self, const char *format, ...)
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

/* Ends the process with this code; says why.  */
static void fatal (produce_t *self, int code, const char *text)
{
    if (self->exit_code >= 0)
        return;
    fprintf (stderr, "error: %s\n", text);
    self->exit_code = code;
}

/* Sends; a failure shows as CLOSED at the next wait.  */
static void send_msg (produce_t *self, const wm_msg_t *msg, const void *payload, size_t bytes)
{
    wm_client_send (self->client, msg, payload, bytes);
}

static wm_key_t key_of (const wm_input_t *input, uint32_t ordinal, uint32_t batch)
{
    return (wm_key_t){ input->id, ordinal, batch, input->generation };
}

/* ---- ends of inputs ---------------------------------------------------------------------------*/

/* Takes the input's events out of the counters and queues, and closes it.  */
static void input_end (produce_t *self, wm_input_t *input, wm_input_is_t is)
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
        place_t place = self->fetch[(self->fetch_first + i) % WM_OPEN_EVENTS_MAX];
        if (place.input != input)
            self->fetch[(self->fetch_first + n++) % WM_OPEN_EVENTS_MAX] = place;
    }
    self->n_fetch = n;
    if (self->rebuilt_for.input == input)
        wm_pack_destroy (&self->rebuilt);
    wm_input_close (input);
    input->is = is;
}

/* The input is bad as a whole: tells the broker, goes on with the others.  */
static void hold (produce_t *self, wm_input_t *input, const char *text)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT_HELD);
    msg.key = key_of (input, 0, 0);
    snprintf (msg.text, sizeof msg.text, "%s", text);
    warn (self, "input held: %s", text);
    input_end (self, input, WM_INPUT_IS_ENDING);
    send_msg (self, &msg, NULL, 0);
}

/* What a fault while working on an input means.  */
static void blame (produce_t *self, wm_input_t *input, wm_fault_t fault)
{
    if (fault == WM_EBATCH)
        hold (self, input, self->error.text);
    else if (fault == WM_EAGAIN) {
        if (!self->full_said)
            warn (self, "%s", self->error.text);
        self->full_said = true;
        self->full_ms = wm_now_ms () + wm_times ()->disk_full_ms;
    } else
        fatal (self, WM_EXIT_FAILURE, self->error.text);
}

/* ---- INPUT ------------------------------------------------------------------------------------*/

static void input_ask (produce_t *self, wm_input_t *input, uint32_t code)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = code;
    msg.size = input->size;
    msg.mtime_ns = input->mtime_ns;
    wm_input_propose (input, msg.name);
    snprintf (msg.path, sizeof msg.path, "%s", input->path);
    self->asked = input;
    send_msg (self, &msg, NULL, 0);
}

static void output_path (const produce_t *self, const wm_input_t *input, char path[1400])
{
    snprintf (path, 1400, "%s/%s", self->pins.output, input->name);
}

/* A file in the way of the output that is not this campaign's stays; nothing is done at all then.
 */
static bool in_the_way (produce_t *self, const wm_input_t *input)
{
    char path[1400], text[480];
    output_path (self, input, path);
    if (access (path, F_OK) || wm_writer_is_ours (path, self->campaign, NULL))
        return false;
    snprintf (text, sizeof text,
              "%.300s is in the way: it was not written by this campaign; move it, or choose "
              "another output folder",
              path);
    fatal (self, WM_EXIT_INPUT, text);
    return true;
}

/* The broker says that the output is written: is it still there?  */
static void written_check (produce_t *self, wm_input_t *input, const wm_msg_t *msg)
{
    char path[1400];
    struct stat status;
    output_path (self, input, path);
    bool there = stat (path, &status) == 0;
    if (there && (uint64_t) status.st_size == msg->size &&
        (int64_t) status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec == msg->mtime_ns) {
        wm_writer_is_ours (path, self->campaign, &input->n_held);
        input_end (self, input, WM_INPUT_IS_WRITTEN);
        return;
    }
    if (there && in_the_way (self, input))
        return;
    warn (self, "output %s is %s: made again", path, there ? "not as it was written" : "gone");
    wm_msg_t lost;
    wm_msg_init (&lost, WM_MSG_FILE_LOST);
    lost.key = key_of (input, 0, 0);
    snprintf (lost.text, sizeof lost.text, "%s", there ? "changed" : "missing");
    input_end (self, input, WM_INPUT_IS_LOST);
    send_msg (self, &lost, NULL, 0);
}

static void on_input_ack (produce_t *self, const wm_msg_t *msg)
{
    wm_input_t *input = NULL;
    for (uint32_t i = 0; i < self->n_input && !input; i++)
        if (self->input[i].id == msg->key.input)
            input = &self->input[i];
    if (self->asked && (!input || input == self->asked)) {
        input = self->asked;
        self->asked = NULL;
    }
    if (!input || input->is == WM_INPUT_IS_WRITTEN || input->is == WM_INPUT_IS_HELD)
        return;
    if (input->id && input->generation != msg->key.generation)
        input_end (self, input, WM_INPUT_IS_OPEN); /* kicked meanwhile: all anew */
    input->id = msg->key.input;
    input->generation = msg->key.generation;
    snprintf (input->name, sizeof input->name, "%s", msg->name);
    switch (msg->code) {
    case WM_INPUT_OPEN:
        if (!in_the_way (self, input))
            input->is = WM_INPUT_IS_OPEN;
        return;
    case WM_INPUT_CLAIMED:
        if (!in_the_way (self, input))
            input->is = WM_INPUT_IS_OURS;
        return;
    case WM_INPUT_BUSY:
        input->is = WM_INPUT_IS_BUSY;
        input->retry_ms = wm_now_ms () + wm_times ()->heartbeat_ms;
        return;
    case WM_INPUT_WRITTEN:
        written_check (self, input, msg);
        return;
    default:
        if (input->is != WM_INPUT_IS_ENDING) /* else it was said, and is what we asked for */
            warn (self, "input held: %s: %s", input->path, msg->text);
        input_end (self, input, WM_INPUT_IS_HELD);
    }
}

static void on_ack (produce_t *self, const wm_msg_t *msg)
{
    wm_input_t *input = NULL;
    for (uint32_t i = 0; i < self->n_input && !input; i++)
        if (self->input[i].id == msg->key.input)
            input = &self->input[i];
    if (!input)
        return;
    switch (msg->code) {
    case WM_MSG_INPUT_END:
        input->end_acked = input->end_sent;
        return;
    case WM_MSG_FILE_WRITTEN:
        if (input->written_sent) {
            input->n_held = input->result.n_held;
            input_end (self, input, WM_INPUT_IS_WRITTEN);
        }
        return;
    case WM_MSG_FILE_LOST:
        if (input->is == WM_INPUT_IS_LOST)
            input->is = WM_INPUT_IS_OPEN;
        return;
    case WM_MSG_INPUT_HELD:
        if (input->is == WM_INPUT_IS_ENDING)
            input->is = WM_INPUT_IS_HELD;
        return;
    }
}

/* ---- events -----------------------------------------------------------------------------------*/

/* The input of ours that a message speaks of; NULL: of a claim that is over.  */
static wm_input_t *input_of (produce_t *self, const wm_msg_t *msg)
{
    for (uint32_t i = 0; i < self->n_input; i++) {
        wm_input_t *input = &self->input[i];
        if (input->id == msg->key.input && input->is == WM_INPUT_IS_OURS && input->event &&
            input->generation == msg->key.generation && msg->key.ordinal < input->n_event)
            return input;
    }
    return NULL;
}

/* Announces the next event of an input, making it if needed.  */
static void announce (produce_t *self, wm_input_t *input)
{
    uint32_t ordinal = input->next;
    wm_input_event_t *event = &input->event[ordinal];
    if (!event->pack) {
        reading = input->path;
        wm_fault_t fault =
            wm_input_pack (input, ordinal, self->packer, &self->content, &self->error);
        reading = "";
        if (fault) {
            blame (self, input, fault);
            return;
        }
        self->n_kept++;
        self->frame_bytes += wm_input_event_bytes (input, ordinal);
    }
    const wm_pack_t *pack = event->pack;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = key_of (input, ordinal, 0);
    msg.run = pack->run;
    msg.subrun = pack->subrun;
    msg.event = pack->event;
    msg.n_batch = pack->n_batch;
    msg.n_hit = pack->n_hit;
    msg.n_held = pack->n_held;
    event->announced = 1;
    self->n_open++;
    input->next++;
    send_msg (self, &msg, pack->batch, pack->manifest_bytes);
}

static void event_complete (produce_t *self, wm_input_t *input, uint32_t ordinal)
{
    self->n_kept--;
    self->frame_bytes -= wm_input_event_bytes (input, ordinal);
    wm_input_complete (input, ordinal);
}

static void on_event_done (produce_t *self, const wm_msg_t *msg)
{
    wm_input_t *input = input_of (self, msg);
    wm_input_event_t *event = input ? &input->event[msg->key.ordinal] : NULL;
    if (!event || !event->announced || event->done)
        return;
    event->done = 1;
    input->n_done++;
    self->n_open--;
    if (event->complete)
        return;
    if (!event->pack->n_batch)
        event_complete (self, input, msg->key.ordinal);
    else /* kept events are at most as many as the ring takes, and each is in it once */
        self->fetch[(self->fetch_first + self->n_fetch++) % WM_OPEN_EVENTS_MAX] =
            (place_t){ input, msg->key.ordinal };
}

/* The frames of an event: those kept, or made again.  */
static const wm_pack_t *frames_of (produce_t *self, wm_input_t *input, uint32_t ordinal)
{
    const wm_pack_t *pack = input->event[ordinal].pack;
    if (pack && pack->frames)
        return pack;
    if (self->rebuilt && self->rebuilt_for.input == input && self->rebuilt_for.ordinal == ordinal)
        return self->rebuilt;
    wm_pack_destroy (&self->rebuilt);
    reading = input->path;
    wm_fault_t fault = wm_input_repack (input, ordinal, self->packer, &self->content,
                                        &self->rebuilt, &self->error);
    reading = "";
    if (fault)
        blame (self, input, fault);
    self->rebuilt_for = (place_t){ input, ordinal };
    return self->rebuilt;
}

static void on_need (produce_t *self, const wm_msg_t *need)
{
    wm_msg_t msg;
    wm_input_t *input = input_of (self, need);
    const wm_pack_t *pack = input ? frames_of (self, input, need->key.ordinal) : NULL;
    if (!pack)
        return;
    uint32_t b = need->key.batch;
    if (b >= pack->n_batch || memcmp (pack->batch[b].digest, need->digest, 16)) {
        char text[480];
        snprintf (text, sizeof text, "%.400s changed while it was read", input->path);
        hold (self, input, text);
        return;
    }
    wm_msg_init (&msg, WM_MSG_BATCH);
    msg.key = need->key;
    memcpy (msg.digest, need->digest, 16);
    send_msg (self, &msg, pack->frames + pack->frame_start[b],
              pack->frame_start[b + 1] - pack->frame_start[b]);
}

/* ---- results ----------------------------------------------------------------------------------*/

static void fetch_next (produce_t *self)
{
    const place_t *place = &self->fetch[self->fetch_first];
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = key_of (place->input, place->ordinal, place->input->event[place->ordinal].n_fetched);
    self->fetching = true;
    send_msg (self, &msg, NULL, 0);
}

/* Number of a signature, from 1; 0: too many, or no memory.  */
static uint16_t engine_number (produce_t *self, const char *signature)
{
    for (uint32_t i = 0; i < self->n_engine; i++)
        if (!strcmp (self->engine[i], signature))
            return (uint16_t) (i + 1);
    if (self->n_engine == ENGINES_MAX ||
        wm_event_reserve (&self->engine, &self->engine_max, self->n_engine + 1ull,
                          sizeof *self->engine, &self->error))
        return 0;
    char *copy = strdup (signature);
    if (copy)
        self->engine[self->n_engine++] = copy;
    return copy ? (uint16_t) self->n_engine : 0;
}

static void on_results (produce_t *self, const wm_msg_t *msg)
{
    size_t bytes;
    const uint8_t *payload = wm_client_payload (self->client, &bytes);
    self->fetching = false;
    wm_input_t *input = input_of (self, msg);
    const place_t *place = self->n_fetch ? &self->fetch[self->fetch_first] : NULL;
    if (!input || !place || place->input != input || place->ordinal != msg->key.ordinal)
        return; /* of an input that was held meanwhile */
    wm_input_event_t *event = &input->event[place->ordinal];
    const wm_pack_t *pack = event->pack;
    uint32_t b = event->n_fetched;
    if (msg->key.batch != b || memcmp (msg->digest, pack->batch[b].digest, 16) ||
        msg->n_hit != pack->batch[b].n_hit ||
        (!msg->code && bytes != wm_result_bytes (msg->n_hit, self->pins.n_output))) {
        fatal (self, WM_EXIT_FAILURE, "the broker sent results that were not asked for");
        return;
    }
    if (msg->code) {
        wm_input_hold_batch (input, place->ordinal, b,
                             (uint8_t) (msg->code < UINT8_MAX ? msg->code : WM_HIT_HELD));
        warn (self, "%u hits held: %s: event %lld:%lld:%lld batch %u: %s", msg->n_hit, input->path,
              (long long) pack->run, (long long) pack->subrun, (long long) pack->event, b,
              msg->text);
    } else {
        uint16_t engine = engine_number (self, msg->text);
        if (!engine) {
            fatal (self, WM_EXIT_FAILURE, "too many engine signatures, or out of memory");
            return;
        }
        wm_input_place (input, place->ordinal, b, payload, engine);
    }
    if (++event->n_fetched < pack->n_batch)
        return;
    event_complete (self, input, place->ordinal);
    self->fetch_first = (self->fetch_first + 1) % WM_OPEN_EVENTS_MAX;
    self->n_fetch--;
}

/* ---- the output -------------------------------------------------------------------------------*/

static void file_written_send (produce_t *self, wm_input_t *input)
{
    char text[480];
    if (wm_input_changed (input)) {
        snprintf (text, sizeof text, "%.400s changed while it was worked on", input->path);
        hold (self, input, text);
        return;
    }
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = key_of (input, 0, 0);
    msg.size = input->result.size;
    msg.mtime_ns = input->result.mtime_ns;
    memcpy (msg.digest, input->result.digest, 16);
    input->written_sent = true;
    send_msg (self, &msg, NULL, 0);
}

static void write_step (produce_t *self, wm_input_t *input)
{
    if (input->placed) {
        file_written_send (self, input);
        return;
    }
    if (!input->writer) {
        if (in_the_way (self, input))
            return;
        const wm_writer_job_t job = { input->output,
                                      &self->spec,
                                      &self->pins,
                                      self->campaign,
                                      &input->scratch,
                                      input->reader,
                                      (const char *const *) self->engine,
                                      self->n_engine,
                                      input->n_same_cell,
                                      input->n_bad_channel };
        input->writer = wm_writer_new (&job);
    }
    bool done;
    reading = input->path;
    wm_fault_t fault = wm_writer_step (input->writer, &done, &input->result, &self->error);
    reading = "";
    if (fault)
        blame (self, input, fault);
    else if (done) {
        wm_writer_destroy (&input->writer);
        input->placed = true;
        self->full_said = false;
    }
}

/* ---- work -------------------------------------------------------------------------------------*/

/* One step of an input of ours; false: there is nothing to do for it now.  */
static bool input_work (produce_t *self, wm_input_t *input, bool *unannounced)
{
    bool full = wm_now_ms () < self->full_ms;
    if (!input->event) {
        if (full)
            return false;
        reading = input->path;
        wm_fault_t fault = wm_input_open (input, &self->spec, &self->pins, &self->error);
        reading = "";
        if (fault)
            blame (self, input, fault);
        else
            self->full_said = false;
        return true;
    }
    while (input->next < input->n_event && input->event[input->next].announced)
        input->next++;
    if (input->next < input->n_event) {
        *unannounced = true;
        bool known = input->event[input->next].pack != NULL;
        if (self->n_open >= WM_OPEN_EVENTS_MAX ||
            (!known &&
             (self->n_kept >= WM_OPEN_EVENTS_MAX || self->frame_bytes >= FRAMES_BYTES_MAX)))
            return false;
        announce (self, input);
        return true;
    }
    if (!input->end_sent) {
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_INPUT_END);
        msg.key = key_of (input, 0, 0);
        msg.count = input->n_event;
        input->end_sent = true;
        send_msg (self, &msg, NULL, 0);
        return true;
    }
    if (!input->end_acked || input->n_complete < input->n_event || input->n_done < input->n_event ||
        input->written_sent || full)
        return false;
    write_step (self, input);
    return true;
}

/* Asks for the next input: those never seen first, so that totals are known; then those to claim,
   where all events of the claimed ones are announced.  */
static bool input_next (produce_t *self, bool unannounced, uint32_t n_ours)
{
    wm_input_t *claim = NULL;
    int64_t now = wm_now_ms ();
    if (self->asked)
        return false;
    for (uint32_t i = 0; i < self->n_input; i++) {
        wm_input_t *input = &self->input[i];
        if (input->is == WM_INPUT_IS_NEW) {
            input_ask (self, input, 0);
            return true;
        }
        bool due = input->is == WM_INPUT_IS_OPEN ||
                   (input->is == WM_INPUT_IS_BUSY && now >= input->retry_ms);
        if (due && (!claim || (input->event && !claim->event)))
            claim = input; /* one that was being worked on goes first */
    }
    if (!claim || unannounced || n_ours >= INPUTS_OPEN_MAX)
        return false;
    input_ask (self, claim, 1);
    return true;
}

/* Does one piece of work; false: there is none now.  */
static bool work (produce_t *self)
{
    bool unannounced = false, done = false;
    uint32_t n_ours = 0, n_ended = 0;
    if (!self->fetching && self->n_fetch) {
        fetch_next (self);
        done = true;
    }
    for (uint32_t i = 0; i < self->n_input && !done; i++) {
        wm_input_t *input = &self->input[i];
        n_ended += input->is == WM_INPUT_IS_WRITTEN || input->is == WM_INPUT_IS_HELD;
        if (input->is == WM_INPUT_IS_OURS) {
            n_ours++;
            done = input_work (self, input, &unannounced);
        }
    }
    if (done || input_next (self, unannounced, n_ours))
        return true;
    if (n_ended == self->n_input)
        self->exit_code = WM_EXIT_OK; /* `result` makes it what it is */
    return false;
}

/* ---- sessions ---------------------------------------------------------------------------------*/

static void message (produce_t *self)
{
    const wm_msg_t *msg = wm_client_msg (self->client);
    switch (msg->type) {
    case WM_MSG_INPUT_ACK:
        on_input_ack (self, msg);
        return;
    case WM_MSG_ACK:
        on_ack (self, msg);
        return;
    case WM_MSG_NEED:
        on_need (self, msg);
        return;
    case WM_MSG_EVENT_DONE:
        on_event_done (self, msg);
        return;
    case WM_MSG_RESULTS:
        on_results (self, msg);
        return;
    case WM_MSG_DRAIN:
        self->exit_code = WM_EXIT_AGAIN;
        return;
    default: /* SUBMIT_ACK: NEED and EVENT_DONE say all that must be known */
        return;
    }
}

/* Takes what the campaign is pinned to.  */
static wm_fault_t pins_take (produce_t *self)
{
    const wm_pins_t *pins = wm_client_pins (self->client);
    wm_error_t *error = &self->error;
    memcpy (self->campaign, wm_client_campaign (self->client), 16);
    memcpy (self->pins_digest, wm_client_pins_digest (self->client), 16);
    self->pins = *pins;
    wm_fault_t fault = wm_spec_parse (&self->spec, pins->spec, strlen (pins->spec),
                                      "the campaign's specification", error);
    if (!fault)
        fault = wm_writer_check (&self->spec, pins->n_output, error);
    if (fault)
        return fault;
    if (mkdir (pins->output, 0777) && errno != EEXIST)
        return wm_fault (error, WM_EBATCH, "output folder %s cannot be made: %s", pins->output,
                         strerror (errno));
    self->packer = wm_packer_new (&self->spec, pins->n_output, pins->batch_hits, pins->batch_bytes,
                                  self->pins_digest);
    return WM_OK;
}

/* Opens a session, the first or the next.  */
static void session_open (produce_t *self)
{
    wm_fault_t fault =
        wm_client_open_patiently (self->client, NULL, 0, self->options->give_up_ms, &self->error);
    if (zsys_interrupted) {
        self->exit_code = WM_EXIT_AGAIN;
        return;
    }
    if (fault) {
        fatal (self, fault == WM_EAGAIN ? WM_EXIT_UNREACHABLE : WM_EXIT_FAILURE, self->error.text);
        return;
    }
    if (!self->packer) {
        if (pins_take (self))
            fatal (self, WM_EXIT_INPUT, self->error.text);
    } else if (memcmp (self->campaign, wm_client_campaign (self->client), 16) ||
               memcmp (self->pins_digest, wm_client_pins_digest (self->client), 16))
        fatal (self, WM_EXIT_FAILURE, "another campaign is now at this broker's address");
    bool new_epoch = self->epoch != wm_client_epoch (self->client);
    self->epoch = wm_client_epoch (self->client);
    for (uint32_t i = 0; i < self->n_input; i++)
        wm_input_session_end (&self->input[i], new_epoch);
    self->asked = NULL;
    self->n_open = self->n_fetch = 0;
    self->fetching = false;
}

static void run (produce_t *self)
{
    bool idle = false;
    session_open (self);
    while (self->exit_code < 0) {
        wm_client_event_t event = wm_client_wait (self->client, idle ? NAP_MS : 0);
        idle = false;
        if (zsys_interrupted)
            self->exit_code = WM_EXIT_AGAIN;
        else if (event == WM_CLIENT_MESSAGE)
            message (self);
        else if (event == WM_CLIENT_CLOSED)
            session_open (self);
        else
            idle = !work (self);
    }
}

/* What became of it all.  */
static int result (const produce_t *self)
{
    uint32_t n_bad = 0;
    uint64_t n_held = 0;
    for (uint32_t i = 0; i < self->n_input; i++) {
        n_bad += self->input[i].is == WM_INPUT_IS_HELD;
        n_held += self->input[i].n_held;
    }
    if (n_bad && n_bad == self->n_input)
        return WM_EXIT_INPUT;
    return n_bad || n_held ? WM_EXIT_HELD : WM_EXIT_OK;
}

/* ---- from outside -----------------------------------------------------------------------------*/

static int path_compare (const void *a, const void *b)
{
    return strcmp ((*(wm_input_t *const *) a)->path, (*(wm_input_t *const *) b)->path);
}

/* Drops inputs that were given twice, keeping the order.  */
static void repeats_drop (produce_t *self)
{
    wm_input_t **order = malloc ((self->n_input + 1ul) * sizeof *order);
    assert (order);
    for (uint32_t i = 0; i < self->n_input; i++)
        order[i] = &self->input[i];
    if (self->n_input > 1)
        qsort (order, self->n_input, sizeof *order, path_compare);
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
    free (order);
}

static wm_fault_t inputs_make (produce_t *self)
{
    const wm_produce_options_t *options = self->options;
    self->input = calloc (options->n_input + 1ul, sizeof *self->input);
    if (!self->input)
        return wm_fault (&self->error, WM_EHOST, "out of memory");
    for (uint32_t i = 0; i < options->n_input; i++) {
        wm_fault_t fault =
            wm_input_init (&self->input[self->n_input++], options->input[i], &self->error);
        if (fault)
            return fault;
    }
    repeats_drop (self);
    return WM_OK;
}

int wm_produce (const wm_produce_options_t *options)
{
    produce_t *self = calloc (1, sizeof *self);
    assert (self);
    self->options = options;
    self->exit_code = -1;
    char host[128] = "", label[160];
    gethostname (host, sizeof host - 1);
    snprintf (label, sizeof label, "%s:%d", host, (int) getpid ());
    if (inputs_make (self))
        fatal (self, WM_EXIT_INPUT, self->error.text);
    else {
        self->client = wm_client_new (options->broker, WM_ROLE_PRODUCER, label, NULL, NULL);
        run (self);
    }
    int code = self->exit_code ? self->exit_code : result (self);
    if (self->client && wm_client_is_open (self->client))
        wm_client_close (self->client,
                         code == WM_EXIT_AGAIN  ? WM_REASON_DRAINED
                         : self->exit_code == 0 ? WM_REASON_DONE
                                                : WM_REASON_FAILED,
                         self->exit_code > 0 && code != WM_EXIT_AGAIN ? self->error.text : "");
    wm_client_destroy (&self->client);
    for (uint32_t i = 0; i < self->n_input; i++)
        wm_input_clear (&self->input[i]);
    for (uint32_t i = 0; i < self->n_engine; i++)
        free (self->engine[i]);
    free (self->engine);
    free (self->input);
    wm_pack_destroy (&self->rebuilt);
    wm_packer_destroy (&self->packer);
    wm_event_clear (&self->content);
    free (self);
    return code;
}
