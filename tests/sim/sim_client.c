/* sim_client.c - a client as producer/client.c and a gateway are one: it asks for scores, keeps a
   request until it is answered, and in a new session announces again what was not.

   It has a few requests open, each an event of the truth, answers NEEDs, and takes RESULTS as they
   come. Some clients count their ordinals on, others give that of an answered request to the next
   one at once. What it was asked for may come late: it takes its time for a NEED (encode_ms), and
   its link for a BATCH (slow_link_ms).  */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define HEARTBEAT_MS 1750
#define CALLS_MAX 60u

static const truth_event_t *truth_of (const request_t *request)
{
    return &sim.input[request->input].event[request->event];
}

static void send_msg (peer_t *peer, const wm_msg_t *msg, const void *data, size_t data_bytes,
                      size_t bytes)
{
    peer_send (peer, msg, data, data_bytes, bytes);
    peer->beat_ms = sim.now_ms;
}

void client_begin (peer_t *peer)
{
    peer->alive = true;
    peer->open_max = 1 + roll (REQUESTS);
    peer->n_call = 1 + roll (CALLS_MAX);
    peer->next_input = roll (sim.n_input);
    uint64_t id[2] = { peer->index + 1, peer->n_instance + 1 };
    memcpy (peer->instance, id, 16);
    log_event (peer->label, "begins: %u calls, %u at a time%s", peer->n_call, peer->open_max,
               sim.reuses ? ", ordinals used again" : "");
}

bool client_is_done (const peer_t *peer)
{
    return peer->alive && !peer->n_call && !peer->n_open;
}

/* ---- requests -------------------------------------------------------------------------------- */

static request_t *request_of (peer_t *peer, const wm_key_t *key)
{
    for (uint32_t i = 0; i < REQUESTS; i++)
        if (peer->request[i].is_open && peer->request[i].announced &&
            peer->request[i].ordinal == key->ordinal)
            return &peer->request[i];
    return NULL;
}

/* The events take turns, so that an ordinal that is used again stands for another event: what a
   worker answers late to the old one could not be told from an answer to the same event.  */
static void next_event (peer_t *peer, request_t *request)
{
    request->input = peer->next_input;
    request->event = peer->next_event++;
    if (peer->next_event < sim.input[peer->next_input].n_event)
        return;
    peer->next_event = 0;
    peer->next_input = (peer->next_input + 1) % sim.n_input;
}

/* Opens the next request, if there is one now.  */
static void call (peer_t *peer)
{
    if (!peer->n_call || peer->n_open >= peer->open_max)
        return;
    uint32_t i = 0;
    while (peer->request[i].is_open)
        i++;
    peer->request[i] =
        (request_t){ .is_open = true, .ordinal = sim.reuses ? i : peer->last_ordinal++ };
    next_event (peer, &peer->request[i]);
    peer->n_call--;
    peer->n_open++;
}

static void announce (peer_t *peer, request_t *request)
{
    const truth_event_t *event = truth_of (request);
    wm_manifest_batch_t line[BATCHES];
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    for (uint32_t b = 0; b < event->n_batch; b++) {
        line[b] = (wm_manifest_batch_t){ .n_hit = event->unit[b].n_hit,
                                         .raw_bytes = event->unit[b].raw_bytes };
        memcpy (line[b].digest, event->unit[b].digest, 16);
        msg.n_hit += line[b].n_hit;
    }
    msg.key = peer->ours;
    msg.key.ordinal = request->ordinal;
    msg.n_batch = event->n_batch;
    request->announced = true;
    request->n_answer = 0;
    memset (request->answered, 0, sizeof request->answered);
    const size_t bytes = event->n_batch * sizeof *line;
    send_msg (peer, &msg, line, bytes, bytes);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void session_begin (peer_t *peer)
{
    wm_msg_t msg;
    for (uint32_t i = 0; i < REQUESTS; i++)
        peer->request[i].announced = false;
    peer->welcome = true;
    peer->has_ours = false;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    snprintf (msg.name, sizeof msg.name, "client");
    snprintf (msg.path, sizeof msg.path, "client");
    send_msg (peer, &msg, NULL, 0, 0);
}

static void on_need (peer_t *peer, const wm_msg_t *need)
{
    const request_t *request = request_of (peer, &need->key);
    const truth_event_t *event = request ? truth_of (request) : NULL;
    const uint32_t b = need->key.batch;
    wm_msg_t msg;
    if (!event || b >= event->n_batch || memcmp (event->unit[b].digest, need->digest, 16) != 0) {
        fail ("%s is asked for %u.%u.%u, which it did not announce", peer->label, need->key.input,
              need->key.ordinal, b);
        return;
    }
    if (sim.now_ms < peer->mute_ms)
        return;
    if (sim.faults.encode_ms)
        peer->encoded_ms = sim.now_ms + 1 + roll (sim.faults.encode_ms);
    wm_msg_init (&msg, WM_MSG_BATCH);
    msg.key = need->key;
    memcpy (msg.digest, need->digest, 16);
    send_msg (peer, &msg, event->unit[b].digest, 16, event->unit[b].payload_bytes);
}

static bool is_right (const unit_t *unit, const uint8_t *data, size_t bytes)
{
    uint8_t result[64 * (1 + 4 * N_OUTPUT)];
    for (uint32_t signature = 1; signature <= 2; signature++)
        if (truth_result (unit->digest, unit->n_hit, signature, result) == bytes &&
            memcmp (result, data, bytes) == 0)
            return true;
    return false;
}

static void on_results (peer_t *peer, const wm_msg_t *msg, const packet_t *packet)
{
    request_t *request = request_of (peer, &msg->key);
    const truth_event_t *event = request ? truth_of (request) : NULL;
    const uint32_t b = msg->key.batch;
    if (!event || b >= event->n_batch || request->answered[b]) {
        fail ("%s gets an answer to %u.%u.%u, which %s", peer->label, msg->key.input,
              msg->key.ordinal, b, request ? "was answered before" : "it did not ask for");
        return;
    }
    const unit_t *unit = &event->unit[b];
    if (memcmp (msg->digest, unit->digest, 16) != 0 || msg->n_hit != unit->n_hit ||
        (!msg->code &&
         (unit->lasting || !is_right (unit, packet->data + packet->header_bytes, packet->bytes))))
        fail ("%s gets wrong scores for %u.%u.%u", peer->label, msg->key.input, msg->key.ordinal,
              b);
    request->answered[b] = true;
    sim.count.answers++;
    if (++request->n_answer == event->n_batch) {
        request->is_open = false;
        peer->n_open--;
    }
}

static void on_message (peer_t *peer, const wm_msg_t *msg, const packet_t *packet)
{
    switch (msg->type) {
    case WM_MSG_WELCOME:
        session_begin (peer);
        return;
    case WM_MSG_INPUT_ACK:
        if (msg->code != WM_INPUT_CLAIMED || peer->has_ours)
            fail ("%s is told that its input is in state %u", peer->label, msg->code);
        peer->ours = (wm_key_t){ .input = msg->key.input, .generation = msg->key.generation };
        peer->has_ours = true;
        return;
    case WM_MSG_NEED:
        on_need (peer, msg);
        return;
    case WM_MSG_RESULTS:
        on_results (peer, msg, packet);
        return;
    case WM_MSG_EVENT_DONE:
        fail ("%s gets EVENT_DONE, which is for producers of files", peer->label);
        return;
    default:
        return;
    }
}

/* ---- the step -------------------------------------------------------------------------------- */

/* One message of work; false: there is none now.  */
static bool work (peer_t *peer)
{
    call (peer);
    for (uint32_t i = 0; peer->has_ours && i < REQUESTS; i++)
        if (peer->request[i].is_open && !peer->request[i].announced) {
            announce (peer, &peer->request[i]);
            return true;
        }
    return false;
}

void client_step (peer_t *peer)
{
    wm_msg_t msg;
    packet_t *packet;
    peer_session (peer, NULL, 0);
    while (sim.now_ms >= peer->encoded_ms && peer_receive (peer, &msg, &packet)) {
        on_message (peer, &msg, packet);
        free (packet);
    }
    peer->wake_ms = sim.now_ms + 500;
    if (peer->link && peer->welcome && sim.now_ms >= peer->encoded_ms) {
        if (work (peer))
            peer->wake_ms = sim.now_ms + 1 + roll (20);
        else if (sim.now_ms - peer->beat_ms >= HEARTBEAT_MS) {
            wm_msg_init (&msg, WM_MSG_HEARTBEAT);
            send_msg (peer, &msg, NULL, 0, 0);
        }
    }
    peer_sleep (peer);
}
