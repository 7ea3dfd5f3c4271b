/* wm_produce_event.c - events on their way: manifests, payloads on NEED, results.  */
#include "producer/session/wm_produce_private.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_path.h"

#include <inttypes.h>

#define FETCHES_MAX 16u               /* on their way: answers come in the order of questions */
#define FETCH_SMALL_BYTES (64u << 10) /* a larger result is asked for alone */
#define ENGINES_MAX 60000u            /* signatures; 16-bit in scratch and output */

/* ---- events ---------------------------------------------------------------------------------- */

/* The input of ours that a message speaks of; NULL: of a claim that is over.  */
static wm_input_t *input_of (const wm_produce_t *self, const wm_msg_t *msg)
{
    wm_input_t *input = wm_produce_by_id (self, msg->key.input);
    return input && input->is == WM_INPUT_IS_OURS && input->event &&
                   input->generation == msg->key.generation && msg->key.ordinal < input->n_event
               ? input
               : NULL;
}

/* Counts them, and keeps the first for the line that wm_produce logs at its end.  */
static void repeat_notice (wm_produce_t *self, const wm_input_t *input, uint32_t ordinal)
{
    const wm_pack_t *pack = input->event[ordinal].pack;
    if (self->content.is_missing || self->content.segment ||
        (self->content.patch_values && !pack->run && !pack->subrun && !pack->event))
        return; /* only hits name it; noticed with its first segment; ready patches name none */
    const wm_repeats_at_t at = { (uint32_t) (input - self->input), ordinal };
    wm_repeats_at_t first;
    if (wm_repeats_add (self->repeats, pack->run, pack->subrun, pack->event, at, &first) &&
        self->n_repeat++ == 0)
        snprintf (self->repeat, sizeof self->repeat,
                  "run %" PRId64 ", subrun %" PRId64 ", event %" PRId64 " is in %.300s and %.300s",
                  pack->run, pack->subrun, pack->event, self->input[first.input].path, input->path);
}

wm_fault_t wm_produce_announce (wm_produce_t *self, wm_input_t *input)
{
    uint32_t ordinal = input->next;
    wm_input_event_t *event = &input->event[ordinal];
    if (!event->pack) {
        wm_produce_set_reading (input->path);
        const wm_fault_t fault =
            wm_input_pack (input, ordinal, self->packer, &self->content, &self->error);
        wm_produce_set_reading ("");
        if (fault)
            return fault;
        self->n_kept++;
        self->frame_bytes += wm_input_event_bytes (input, ordinal);
        repeat_notice (self, input, ordinal);
    }
    const wm_pack_t *pack = event->pack;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = wm_produce_key (input, ordinal, 0);
    msg.run = pack->run;
    msg.subrun = pack->subrun;
    msg.event = pack->event;
    msg.n_batch = pack->n_batch;
    msg.n_hit = pack->n_hit;
    msg.n_held = pack->n_held;
    event->announced = 1;
    self->n_open++;
    input->next++;
    WM_FAILPOINT ("producer-submit-send");
    wm_produce_send (self, &msg, pack->batch, pack->manifest_bytes);
    WM_FAILPOINT ("producer-submit-sent");
    return WM_OK;
}

static void event_complete (wm_produce_t *self, wm_input_t *input, uint32_t ordinal)
{
    self->n_kept--;
    self->frame_bytes -= wm_input_event_bytes (input, ordinal);
    wm_input_complete (input, ordinal);
}

void wm_produce_on_event_done (wm_produce_t *self, const wm_msg_t *msg)
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
            (wm_produce_place_t){ input, msg->key.ordinal };
}

/* The frames of an event: those kept, or made again.  */
static const wm_pack_t *frames_of (wm_produce_t *self, wm_input_t *input, uint32_t ordinal)
{
    const wm_pack_t *pack = input->event[ordinal].pack;
    if (pack && pack->frames)
        return pack;
    if (self->rebuilt && self->rebuilt_for.input == input && self->rebuilt_for.ordinal == ordinal)
        return self->rebuilt;
    wm_pack_destroy (&self->rebuilt);
    wm_produce_set_reading (input->path);
    wm_fault_t fault = wm_input_repack (input, ordinal, self->packer, &self->content,
                                        &self->rebuilt, &self->error);
    wm_produce_set_reading ("");
    if (fault)
        wm_produce_blame (self, input, fault);
    self->rebuilt_for = (wm_produce_place_t){ input, ordinal };
    return self->rebuilt;
}

void wm_produce_on_need (wm_produce_t *self, const wm_msg_t *need)
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
        wm_produce_hold (self, input, text);
        return;
    }
    WM_FAILPOINT ("producer-batch-send");
    wm_msg_init (&msg, WM_MSG_BATCH);
    msg.key = need->key;
    memcpy (msg.digest, need->digest, 16);
    wm_produce_send (self, &msg, pack->frames + pack->frame_start[b],
                     pack->frame_start[b + 1] - pack->frame_start[b]);
}

/* ---- results --------------------------------------------------------------------------------- */

/* The first event with a batch that was not asked for; NULL: none.  */
static const wm_produce_place_t *fetch_next (const wm_produce_t *self)
{
    for (uint32_t i = 0; i < self->n_fetch; i++) {
        const wm_produce_place_t *place =
            &self->fetch[(self->fetch_first + i) % WM_OPEN_EVENTS_MAX];
        const wm_input_event_t *event = &place->input->event[place->ordinal];
        if (event->n_wanted < event->pack->n_batch)
            return place;
    }
    return NULL;
}

bool wm_produce_fetch (wm_produce_t *self)
{
    if (self->fetching_large || self->n_fetching == FETCHES_MAX)
        return false;
    const wm_produce_place_t *place = fetch_next (self);
    if (!place)
        return false;
    wm_input_event_t *event = &place->input->event[place->ordinal];
    const bool large = wm_result_bytes (event->pack->batch[event->n_wanted].n_hit,
                                        self->pins.n_output) > FETCH_SMALL_BYTES;
    if (large && self->n_fetching)
        return false;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = wm_produce_key (place->input, place->ordinal, event->n_wanted++);
    self->n_fetching++;
    self->fetching_large = large;
    WM_FAILPOINT ("producer-fetch-send");
    wm_produce_send (self, &msg, NULL, 0);
    return true;
}

/* Number of a signature, from 1; 0: too many, or no memory.  */
static uint16_t engine_number (wm_produce_t *self, const char *signature, double error)
{
    for (uint32_t i = 0; i < self->n_engine; i++)
        if (!strcmp (self->engine[i], signature))
            return (uint16_t) (i + 1);
    if (self->n_engine == ENGINES_MAX ||
        wm_event_reserve (&self->engine, &self->engine_max, self->n_engine + 1ull,
                          sizeof *self->engine, &self->error) ||
        wm_event_reserve (&self->engine_error, &self->engine_error_max, self->n_engine + 1ull,
                          sizeof *self->engine_error, &self->error))
        return 0;
    char *copy = strdup (signature);
    if (copy) {
        self->engine_error[self->n_engine] = error;
        self->engine[self->n_engine++] = copy;
    }
    return copy ? (uint16_t) self->n_engine : 0;
}

void wm_produce_on_results (wm_produce_t *self, const wm_msg_t *msg)
{
    size_t bytes;
    const uint8_t *payload = wm_client_payload (self->client, &bytes);
    self->n_fetching -= self->n_fetching > 0;
    self->fetching_large = false;
    wm_input_t *input = input_of (self, msg);
    const wm_produce_place_t *place = self->n_fetch ? &self->fetch[self->fetch_first] : NULL;
    if (!input || !place || place->input != input || place->ordinal != msg->key.ordinal)
        return;                     /* of an input that was held meanwhile */
    if (msg->code && !msg->n_hit) { /* no batch is empty: the input is held, or was kicked */
        wm_produce_claim_over (self, input);
        return;
    }
    wm_input_event_t *event = &input->event[place->ordinal];
    const wm_pack_t *pack = event->pack;
    uint32_t b = event->n_fetched;
    if (msg->key.batch != b || memcmp (msg->digest, pack->batch[b].digest, 16) ||
        msg->n_hit != pack->batch[b].n_hit ||
        (!msg->code && bytes != wm_result_bytes (msg->n_hit, self->pins.n_output))) {
        wm_produce_fatal (self, WM_EXIT_FAILURE, "the broker sent results that were not asked for");
        return;
    }
    if (msg->code) {
        wm_input_hold_batch (input, place->ordinal, b,
                             (uint8_t) (msg->code < UINT8_MAX ? msg->code : WM_HIT_HELD));
        wm_produce_warn (self, "%u %s held: %s: event %lld:%lld:%lld batch %u: %s", msg->n_hit,
                         wm_pins_rows (self->pins.spec), input->path, (long long) pack->run,
                         (long long) pack->subrun, (long long) pack->event, b,
                         wm_path_behind (msg->text, input->path));
    } else {
        uint16_t engine = engine_number (self, msg->text, msg->error);
        if (!engine) {
            wm_produce_fatal (self, WM_EXIT_FAILURE,
                              "too many engine signatures, or out of memory");
            return;
        }
        WM_FAILPOINT ("producer-results");
        wm_input_place (input, place->ordinal, b, payload, engine);
    }
    if (++event->n_fetched < pack->n_batch)
        return;
    event_complete (self, input, place->ordinal);
    self->fetch_first = (self->fetch_first + 1) % WM_OPEN_EVENTS_MAX;
    self->n_fetch--;
}
