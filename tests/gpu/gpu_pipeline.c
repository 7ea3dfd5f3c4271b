/* gpu_pipeline.c - how fast the whole pipeline is when no file is read.

   A producer that keeps a few synthetic events encoded in memory and announces them over and over
   to a real broker: broker, ledger, journal, workers and their engines are measured, reading and
   cutting are not. gpu_check.sh starts broker and workers.

   usage: gpu_pipeline ENDPOINT [SECONDS [HITS]]    (15 seconds, events of about 55,000 hits)
   The clock starts when the first event is done. Prints one line; exits 1 where the session ends,
   or nothing is done within two minutes.  */
#include "schema/session/wm_client.h"
#include "schema/wm_sample.h"
#include "tests/gpu/gpu_event.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS 4u       /* different ones */
#define OPEN_EVENTS 32u /* announced and not done */
#define PATIENCE_MS 120000

typedef struct {
    uint32_t n_batch, n_hit;
    wm_manifest_batch_t *manifest;
    uint8_t **frame;
    size_t *bytes;
} replay_t;

static replay_t replay[EVENTS];

static void die (const char *what, const char *why)
{
    fprintf (stderr, "gpu_pipeline: %s: %s\n", what, why);
    exit (1);
}

/* The sample on which a campaign in split or fast measures: batches of the first event.  */
static void send_sample (wm_client_t *client, wm_coder_t *coder, const gpu_event_t *event)
{
    uint8_t *payload = malloc (WM_RAW_BYTES_MAX);
    assert (payload);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SAMPLE);
    size_t bytes = wm_sample_begin (payload), more = bytes;
    for (uint32_t b = 0; b < event->n_batch && more && msg.n_hit < WM_SAMPLE_HITS; b++) {
        wm_batch_t batch = event->batch[b];
        if (batch.n_hit > WM_SAMPLE_HITS - msg.n_hit)
            batch.n_hit = WM_SAMPLE_HITS - msg.n_hit;
        more = wm_sample_add (payload, bytes, &batch, coder);
        bytes = more ? more : bytes;
        msg.n_hit += more ? batch.n_hit : 0;
    }
    wm_client_send (client, &msg, payload, bytes);
    free (payload);
}

/* Event `number` encoded as the campaign's producers would send it. Returns its bytes.  */
static size_t encode (replay_t *self, wm_client_t *client, double hits, uint64_t number)
{
    const wm_pins_t *pins = wm_client_pins (client);
    wm_coder_t *coder = wm_coder_new ();
    wm_spec_t spec;
    wm_error_t error = { 0 };
    gpu_event_t event;
    size_t all = 0;
    if (wm_spec_parse (&spec, pins->spec, strlen (pins->spec), "the pins", &error))
        die ("pins", error.text);
    gpu_event_new (&event, &spec, hits, 1, number);
    self->n_batch = event.n_batch, self->n_hit = event.n_hit;
    self->manifest = calloc (event.n_batch, sizeof *self->manifest);
    self->frame = calloc (event.n_batch, sizeof *self->frame);
    self->bytes = calloc (event.n_batch, sizeof *self->bytes);
    assert (self->manifest && self->frame && self->bytes);
    for (uint32_t b = 0; b < event.n_batch; b++) {
        wm_batch_t *batch = &event.batch[b];
        const size_t bound = wm_batch_encode_bound (batch);
        self->frame[b] = malloc (bound);
        assert (self->frame[b]);
        if (wm_batch_encode (batch, coder, self->frame[b], bound, &self->bytes[b], &error))
            die ("encode", error.text);
        wm_batch_digest (batch, wm_client_pins_digest (client), self->manifest[b].digest);
        self->manifest[b].n_hit = batch->n_hit;
        self->manifest[b].raw_bytes = (uint32_t) wm_batch_raw_bytes (batch);
        all += self->bytes[b];
    }
    if (number == 1 && wm_client_wants_sample (client))
        send_sample (client, coder, &event);
    gpu_event_free (&event);
    wm_coder_destroy (&coder);
    return all;
}

static void claim (wm_client_t *client)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    msg.size = 1;
    strcpy (msg.name, "replay.scores.h5"); /* no such file: the broker does not open it */
    strcpy (msg.path, "/replay.h5");
    wm_client_send (client, &msg, NULL, 0);
}

static void submit (wm_client_t *client, wm_key_t input, uint32_t ordinal)
{
    const replay_t *event = &replay[ordinal % EVENTS];
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = input;
    msg.key.ordinal = ordinal;
    msg.event = ordinal;
    msg.n_batch = event->n_batch;
    msg.n_hit = event->n_hit;
    wm_client_send (client, &msg, event->manifest, event->n_batch * sizeof *event->manifest);
}

/* Feeds the broker until `seconds` after the first event is done. Returns the hits done since.  */
static uint64_t produce (wm_client_t *client, double seconds, double *took)
{
    wm_key_t input = { 0 };
    uint32_t sent = 0, done = 0, held = 0;
    uint64_t hits = 0;
    int64_t start = wm_now_ms (), first = 0;
    claim (client);
    for (int64_t now; now = wm_now_ms (), !first || (double) (now - first) < seconds * 1e3;) {
        if (!first && now - start > PATIENCE_MS)
            die ("nothing is done", "is there a worker?");
        while (input.input && sent - done < OPEN_EVENTS)
            submit (client, input, sent++);
        const wm_client_event_t event = wm_client_wait (client, 100);
        if (event == WM_CLIENT_CLOSED)
            die ("the session ended", wm_client_error (client)->text);
        if (event != WM_CLIENT_MESSAGE)
            continue;
        wm_msg_t msg = *wm_client_msg (client);
        if (msg.type == WM_MSG_INPUT_ACK && msg.code != WM_INPUT_CLAIMED)
            die ("no claim", msg.text);
        else if (msg.type == WM_MSG_INPUT_ACK)
            input = msg.key;
        else if (msg.type == WM_MSG_NEED &&
                 msg.key.batch < replay[msg.key.ordinal % EVENTS].n_batch) {
            const replay_t *from = &replay[msg.key.ordinal % EVENTS];
            msg.type = WM_MSG_BATCH;
            wm_client_send (client, &msg, from->frame[msg.key.batch], from->bytes[msg.key.batch]);
        } else if (msg.type == WM_MSG_EVENT_DONE) {
            done++, held += msg.n_held;
            hits += first ? replay[msg.key.ordinal % EVENTS].n_hit : 0;
            first = first ? first : wm_now_ms ();
        }
    }
    *took = (double) (wm_now_ms () - first) * 1e-3;
    if (held)
        die ("batches are held", "see the workers' logs");
    return hits;
}

int main (int argc, char **argv)
{
    wm_error_t error;
    if (argc < 2)
        die ("usage", "gpu_pipeline ENDPOINT [SECONDS [HITS]]");
    const double seconds = argc > 2 ? atof (argv[2]) : 15,
                 wanted = argc > 3 ? atof (argv[3]) : 55000;
    wm_client_t *client = wm_client_new (argv[1], WM_ROLE_PRODUCER, "replay", NULL, NULL);
    if (wm_client_open_patiently (client, NULL, 0, 20000, &error))
        die (argv[1], error.text);
    size_t bytes = 0;
    uint64_t held = 0;
    for (uint32_t e = 0; e < EVENTS; e++) {
        bytes += encode (&replay[e], client, wanted, e + 1);
        held += replay[e].n_hit;
    }
    double took;
    const uint64_t hits = produce (client, seconds, &took);
    printf ("%.3f million hits/s: %llu hits in %.1f s, %.1f bytes a hit to workers\n",
            (double) hits / took / 1e6, (unsigned long long) hits, took,
            (double) bytes / (double) held);
    wm_client_close (client, WM_REASON_DONE, "measured");
    wm_client_destroy (&client);
    return 0;
}
