/* sim_producer.c - a producer as producer/session/wm_produce.c is one, its files made from the
   seed.

   It makes its inputs known, claims them, announces their events, answers NEED, fetches, writes the
   output and reports it; what it fetched outlives its sessions, not its process.  */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define HEARTBEAT_MS 1750
#define BUSY_MS 2000

static wm_key_t key_of (const in_work_t *in, uint32_t ordinal, uint32_t batch)
{
    return (wm_key_t){ in->id, ordinal, batch, in->generation };
}

static void send_msg (peer_t *peer, const wm_msg_t *msg)
{
    peer_send (peer, msg, NULL, 0, 0);
    peer->beat_ms = sim.now_ms;
}

void producer_begin (peer_t *peer)
{
    peer->alive = true;
    peer->open_max = 1 + roll (8);
    uint64_t id[2] = { peer->index + 1, peer->n_instance + 1 };
    memcpy (peer->instance, id, 16);
    log_event (peer->label, "begins, %u open events", peer->open_max);
}

bool producer_is_done (const peer_t *peer)
{
    for (uint32_t i = 0; i < sim.n_input; i++)
        if (peer->in[i].is != IN_WRITTEN && peer->in[i].is != IN_HELD)
            return false;
    return true;
}

/* A session is over: claims and announcements are, what was fetched is not.  */
static void session_begin (peer_t *peer)
{
    for (uint32_t i = 0; i < sim.n_input; i++) {
        in_work_t *in = &peer->in[i];
        if (in->is != IN_WRITTEN && in->is != IN_HELD)
            in->is = IN_NEW;
        in->next = in->n_done = 0;
        in->end_sent = in->end_acked = in->written_sent = false;
        for (uint32_t e = 0; e < EVENTS; e++) {
            in->announced[e] = in->done[e] = false;
            if (!in->complete[e])
                in->n_fetched[e] = 0;
        }
    }
    peer->asked = peer->n_open = 0;
    peer->fetching = false;
    peer->welcome = true;
}

static void ask (peer_t *peer, uint32_t i, uint32_t code)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = code;
    msg.size = 1000 + i;
    msg.mtime_ns = 77 + i;
    snprintf (msg.name, sizeof msg.name, "f%u.scores.h5", i);
    snprintf (msg.path, sizeof msg.path, "/data/%u", i);
    peer->asked = 1 + i;
    peer->asked_code = code;
    peer->in[i].is = IN_ASKED;
    send_msg (peer, &msg);
}

static void start_over (peer_t *peer, in_work_t *in)
{
    uint32_t id = in->id, generation = in->generation;
    for (uint32_t e = 0; e < EVENTS; e++)
        peer->n_open -= in->announced[e] && !in->done[e];
    *in = (in_work_t){ .is = IN_OPEN, .id = id, .generation = generation };
}

static void written_check (peer_t *peer, uint32_t i, const wm_msg_t *msg)
{
    in_work_t *in = &peer->in[i];
    truth_input_t *truth = &sim.input[i];
    if (truth->there && truth->out_size == msg->size && truth->out_mtime_ns == msg->mtime_ns) {
        in->is = IN_WRITTEN;
        return;
    }
    start_over (peer, in);
    in->is = IN_LOST;
    wm_msg_t lost;
    wm_msg_init (&lost, WM_MSG_FILE_LOST);
    lost.key = key_of (in, 0, 0);
    snprintf (lost.text, sizeof lost.text, "%s", truth->there ? "changed" : "missing");
    send_msg (peer, &lost);
}

static in_work_t *in_of (peer_t *peer, const wm_msg_t *msg)
{
    for (uint32_t i = 0; i < sim.n_input; i++)
        if (peer->in[i].id && peer->in[i].id == msg->key.input)
            return &peer->in[i];
    return NULL;
}

/* Unasked: the input was kicked, and begins again. (An INPUT that only makes it known is answered
   so too.)  */
static bool is_kicked (peer_t *peer, const wm_msg_t *msg)
{
    in_work_t *in = in_of (peer, msg);
    const truth_input_t *asked = peer->asked ? &sim.input[peer->asked - 1] : NULL;
    if (msg->code != WM_INPUT_OPEN ||
        (asked && !peer->asked_code && asked == truth_input_of_id (msg->key.input)))
        return false;
    if (in && msg->key.generation > in->generation) {
        bool is_asked = in->is == IN_ASKED;
        in->generation = msg->key.generation;
        if (in->is == IN_ENDING)
            memset (in->announced, 0, sizeof in->announced); /* they are not counted any more */
        start_over (peer, in);
        in->is = is_asked ? IN_ASKED : IN_OPEN;
    }
    return true;
}

static void on_input_ack (peer_t *peer, const wm_msg_t *msg)
{
    if (is_kicked (peer, msg))
        return;
    in_work_t *lost = in_of (peer, msg);
    if (lost && lost->is == IN_LOST && msg->code == WM_INPUT_BUSY) {
        lost->is = IN_BUSY; /* another producer has asked since: this one asks again */
        lost->retry_ms = sim.now_ms + BUSY_MS;
        return;
    }
    if (!peer->asked && msg->code == WM_INPUT_HELD) {
        in_work_t *in = in_of (peer, msg); /* the end of a claim, unasked */
        if (in)
            in->is = IN_HELD;
        return;
    }
    if (peer->asked && truth_input_of_id (msg->key.input) != &sim.input[peer->asked - 1]) {
        in_work_t *in = in_of (peer, msg);
        if (!in || msg->code != WM_INPUT_HELD)
            fail ("%s gets an answer about input %u, and asked for another", peer->label,
                  msg->key.input);
        else
            in->is = IN_HELD;
        return;
    }
    if (!peer->asked) {
        fail ("%s gets an answer about input %u, and did not ask", peer->label, msg->key.input);
        return;
    }
    uint32_t i = peer->asked - 1;
    in_work_t *in = &peer->in[i];
    peer->asked = 0;
    in->id = msg->key.input;
    if (msg->key.generation > in->generation)
        start_over (peer, in);
    in->generation = msg->key.generation;
    switch (msg->code) {
    case WM_INPUT_OPEN:
        in->is = IN_OPEN;
        return;
    case WM_INPUT_CLAIMED:
        in->is = IN_OURS;
        return;
    case WM_INPUT_BUSY:
        in->is = IN_BUSY;
        in->retry_ms = sim.now_ms + BUSY_MS;
        return;
    case WM_INPUT_WRITTEN:
        written_check (peer, i, msg);
        return;
    default:
        in->is = IN_HELD;
    }
}

static void on_ack (peer_t *peer, const wm_msg_t *msg)
{
    in_work_t *in = in_of (peer, msg);
    if (!in || msg->key.generation != in->generation)
        return;
    if (msg->code == WM_MSG_INPUT_END)
        in->end_acked = in->end_sent;
    else if (msg->code == WM_MSG_FILE_WRITTEN && in->written_sent)
        in->is = IN_WRITTEN;
    else if (msg->code == WM_MSG_INPUT_HELD && in->is == IN_ENDING)
        in->is = IN_HELD;
    else if (msg->code == WM_MSG_FILE_LOST && in->is == IN_LOST)
        in->is = IN_OPEN;
}

static void on_need (peer_t *peer, const wm_msg_t *need)
{
    const unit_t *unit = truth_unit (need->digest);
    if (!unit || unit != truth_unit_of_key (&need->key)) {
        fail ("NEED %u.%u.%u of no batch that exists", need->key.input, need->key.ordinal,
              need->key.batch);
        return;
    }
    if (sim.now_ms < peer->mute_ms)
        return;
    if (sim.faults.encode_ms)
        peer->encoded_ms = sim.now_ms + 1 + roll (sim.faults.encode_ms);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_BATCH);
    msg.key = need->key;
    memcpy (msg.digest, need->digest, 16);
    peer_send (peer, &msg, unit->digest, 16, unit->payload_bytes);
    peer->beat_ms = sim.now_ms;
}

static void on_event_done (peer_t *peer, const wm_msg_t *msg)
{
    in_work_t *in = in_of (peer, msg);
    uint32_t e = msg->key.ordinal;
    if (!in || in->is != IN_OURS || msg->key.generation != in->generation || e >= EVENTS ||
        !in->announced[e] || in->done[e])
        return;
    in->done[e] = true;
    in->n_done++;
    peer->n_open--;
    if (!in->complete[e] && !sim.input[in - peer->in].event[e].n_batch) {
        in->complete[e] = true;
        in->n_complete++;
    }
}

static void on_results (peer_t *peer, const wm_msg_t *msg, const packet_t *packet)
{
    peer->fetching = false;
    in_work_t *in = in_of (peer, msg);
    if (msg->code && !msg->n_hit)
        return; /* the claim is over */
    const unit_t *unit = truth_unit (msg->digest);
    uint32_t e = msg->key.ordinal, b = msg->key.batch;
    if (!in || !unit || unit != truth_unit_of_key (&msg->key) || b != in->n_fetched[e]) {
        fail ("RESULTS %u.%u.%u, which were not asked for", msg->key.input, e, b);
        return;
    }
    uint64_t hash =
        msg->code ? 0 : XXH3_64bits (packet->data + packet->header_bytes, packet->bytes);
    /* If two answers differ, or the input was kicked since these were sent, others may be.  */
    const truth_input_t *truth = truth_input_of_id (msg->key.input);
    if (!unit->alarm && (!truth || msg->key.generation == truth->generation) &&
        (hash ? hash != unit->hash : !unit->held))
        fail ("RESULTS %u.%u.%u are not those in the journal", msg->key.input, e, b);
    in->hash[e][b] = hash;
    if (++in->n_fetched[e] == sim.input[in - peer->in].event[e].n_batch) {
        in->complete[e] = true;
        in->n_complete++;
    }
}

/* ---- work ------------------------------------------------------------------------------------ */

static bool fetch (peer_t *peer)
{
    if (peer->fetching)
        return false;
    for (uint32_t i = 0; i < sim.n_input; i++) {
        in_work_t *in = &peer->in[i];
        for (uint32_t e = 0; in->is == IN_OURS && e < sim.input[i].n_event; e++) {
            if (!in->done[e] || in->complete[e])
                continue;
            wm_msg_t msg;
            wm_msg_init (&msg, WM_MSG_FETCH);
            msg.key = key_of (in, e, in->n_fetched[e]);
            peer->fetching = true;
            send_msg (peer, &msg);
            return true;
        }
    }
    return false;
}

static void announce (peer_t *peer, uint32_t i)
{
    in_work_t *in = &peer->in[i];
    const truth_event_t *event = &sim.input[i].event[in->next];
    uint8_t payload[sizeof (wm_manifest_batch_t) * BATCHES + sizeof (wm_manifest_held_t) * 4];
    size_t bytes = 0;
    for (uint32_t b = 0; b < event->n_batch; b++, bytes += sizeof (wm_manifest_batch_t)) {
        wm_manifest_batch_t line = { .n_hit = event->unit[b].n_hit,
                                     .raw_bytes = event->unit[b].raw_bytes };
        memcpy (line.digest, event->unit[b].digest, 16);
        memcpy (payload + bytes, &line, sizeof line);
    }
    for (uint32_t h = 0; h < event->n_bad; h++, bytes += sizeof (wm_manifest_held_t))
        memcpy (payload + bytes, &(wm_manifest_held_t){ .row = h, .status = WM_HIT_BAD_TIME },
                sizeof (wm_manifest_held_t));
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = key_of (in, in->next, 0);
    msg.run = 1;
    msg.event = in->next;
    msg.n_batch = event->n_batch;
    msg.n_hit = event->n_hit;
    msg.n_held = event->n_bad;
    in->announced[in->next++] = true;
    peer->n_open++;
    peer_send (peer, &msg, payload, bytes, bytes);
    peer->beat_ms = sim.now_ms;
}

static void write_output (peer_t *peer, uint32_t i)
{
    in_work_t *in = &peer->in[i];
    truth_input_t *truth = &sim.input[i];
    if (!in->placed) {
        truth->there = true;
        truth->out_size = 100 + i;
        truth->out_mtime_ns = sim.now_ms * 1000 + peer->index;
        memcpy (truth->out_hash, in->hash, sizeof truth->out_hash);
        in->placed = true;
        log_event (peer->label, "writes output %u", i);
        return;
    }
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = key_of (in, 0, 0);
    msg.size = truth->out_size;
    msg.mtime_ns = truth->out_mtime_ns;
    in->written_sent = true;
    send_msg (peer, &msg);
}

/* One step of an input; false: nothing to do now.  */
static bool input_work (peer_t *peer, uint32_t i, bool *unannounced)
{
    in_work_t *in = &peer->in[i];
    uint32_t n_event = sim.input[i].n_event;
    if (sim.input[i].bad_at && in->next + 1 == sim.input[i].bad_at) {
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_INPUT_HELD);
        msg.key = key_of (in, 0, 0);
        snprintf (msg.text, sizeof msg.text, "unreadable");
        for (uint32_t e = 0; e < n_event; e++)
            peer->n_open -= in->announced[e] && !in->done[e];
        in->is = IN_ENDING;
        send_msg (peer, &msg);
        return true;
    }
    if (in->next < n_event) {
        *unannounced = true;
        if (peer->n_open >= peer->open_max)
            return false;
        announce (peer, i);
        return true;
    }
    if (!in->end_sent) {
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_INPUT_END);
        msg.key = key_of (in, 0, 0);
        msg.count = n_event;
        in->end_sent = true;
        send_msg (peer, &msg);
        return true;
    }
    if (!in->end_acked || in->n_complete < n_event || in->n_done < n_event || in->written_sent)
        return false;
    write_output (peer, i);
    return true;
}

static bool work (peer_t *peer)
{
    bool unannounced = false;
    if (fetch (peer))
        return true;
    for (uint32_t i = 0; i < sim.n_input; i++)
        if (peer->in[i].is == IN_OURS && input_work (peer, i, &unannounced))
            return true;
    if (peer->asked)
        return false;
    for (uint32_t i = 0; i < sim.n_input; i++)
        if (peer->in[i].is == IN_NEW) {
            ask (peer, i, 0);
            return true;
        }
    for (uint32_t i = 0; i < sim.n_input && !unannounced; i++) {
        in_work_t *in = &peer->in[i];
        if (in->is == IN_OPEN || (in->is == IN_BUSY && sim.now_ms >= in->retry_ms)) {
            ask (peer, i, 1);
            return true;
        }
    }
    return false;
}

static void send_sample (peer_t *peer)
{
    wm_msg_t sample;
    wm_msg_init (&sample, WM_MSG_SAMPLE);
    sample.n_hit = 1;
    peer_send (peer, &sample, &sim.seed, sizeof sim.seed, sizeof sim.seed);
}

static void on_message (peer_t *peer, const wm_msg_t *msg, const packet_t *packet)
{
    switch (msg->type) {
    case WM_MSG_WELCOME:
        if (msg->code) /* the broker has no sample */
            send_sample (peer);
        session_begin (peer);
        return;
    case WM_MSG_INPUT_ACK:
        on_input_ack (peer, msg);
        return;
    case WM_MSG_ACK:
        on_ack (peer, msg);
        return;
    case WM_MSG_NEED:
        on_need (peer, msg);
        return;
    case WM_MSG_EVENT_DONE:
        on_event_done (peer, msg);
        return;
    case WM_MSG_RESULTS:
        on_results (peer, msg, packet);
        return;
    default:
        return;
    }
}

void producer_step (peer_t *peer)
{
    peer_session (peer, NULL, 0);
    wm_msg_t msg;
    packet_t *packet;
    while (sim.now_ms >= peer->encoded_ms && peer_receive (peer, &msg, &packet)) {
        on_message (peer, &msg, packet);
        free (packet);
    }
    peer->wake_ms = sim.now_ms + 500;
    if (peer->link && peer->welcome) {
        if (work (peer))
            peer->wake_ms = sim.now_ms + 1 + roll (20);
        else if (sim.now_ms - peer->beat_ms >= HEARTBEAT_MS) {
            wm_msg_init (&msg, WM_MSG_HEARTBEAT);
            send_msg (peer, &msg);
        }
    }
    peer_sleep (peer);
}
