/* sim_worker.c - a worker as gpuworker/wm_worker.c is one, its device a number of milliseconds;
   what sessions of all peers have in common; and a peer that keeps no rule.

   A worker may hang (no progress, heartbeats go on), be slow beyond its lease, refuse, answer
   twice, answer other bytes (once, or again and again: the liar), drain, and die.  */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEARTBEAT_MS 1750
#define SILENCE_MS 30000
#define WELCOME_MS 3000

/* ---- sessions -------------------------------------------------------------------------------- */

void peer_send (peer_t *peer, const wm_msg_t *msg, const void *data, size_t data_bytes,
                size_t bytes)
{
    if (peer->link)
        link_send (peer->link, true, msg, data, data_bytes, bytes);
}

void peer_lose (peer_t *peer)
{
    if (peer->link) {
        link_t *link = peer->link;
        link_leave (link, true);
        link_free_if_over (link);
    }
    peer->link = NULL;
    peer->welcome = false;
    peer->retry_ms = sim.now_ms + 50 + roll (chance (300) ? 5000 : 200);
}

void peer_die (peer_t *peer, int64_t back_ms)
{
    log_event (peer->label, "dies");
    if (peer->link) {
        link_t *link = peer->link;
        link_leave (link, true);
        link_free_if_over (link);
    }
    peer_t next = { .role = peer->role,
                    .index = peer->index,
                    .hostile = peer->hostile,
                    .broken = peer->broken,
                    .lies = peer->lies,
                    .n_instance = peer->n_instance + 1,
                    .back_ms = sim.now_ms + back_ms,
                    .wake_ms = sim.now_ms + back_ms };
    memcpy (next.label, peer->label, sizeof next.label);
    *peer = next;
}

static void hello (peer_t *peer, const void *held, size_t held_bytes)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = (uint32_t) peer->role;
    memcpy (msg.instance, peer->instance, 16);
    snprintf (msg.name, sizeof msg.name, "%s", peer->label);
    snprintf (msg.text, sizeof msg.text, "engine-%u", peer->signature);
    snprintf (msg.class, sizeof msg.class, "class-%u", peer->signature);
    peer_send (peer, &msg, held, held_bytes, held_bytes);
}

bool peer_session (peer_t *peer, const void *held, size_t held_bytes)
{
    if (peer->link && peer->welcome) {
        if (sim.now_ms - peer->heard_ms <= SILENCE_MS)
            return true;
        log_event (peer->label, "receives nothing any more");
        peer_lose (peer);
    }
    if (peer->link && sim.now_ms - peer->opened_ms > WELCOME_MS)
        peer_lose (peer);
    if (peer->link || sim.now_ms < peer->retry_ms)
        return false;
    peer->link = link_open (peer);
    if (!peer->link) {
        peer->retry_ms = sim.now_ms + 100 + roll (1000);
        return false;
    }
    peer->opened_ms = peer->heard_ms = sim.now_ms;
    peer->welcome = false;
    hello (peer, held, held_bytes);
    return false;
}

bool peer_receive (peer_t *peer, wm_msg_t *msg, packet_t **packet)
{
    *packet = NULL;
    link_t *link = peer->link;
    if (!link)
        return false;
    *packet = link_take (link, false);
    if (!*packet) {
        if (link->down_closed_ms <= sim.now_ms && !link->down.head) {
            log_event (peer->label, "its connection is closed");
            peer_lose (peer);
        }
        return false;
    }
    size_t header_bytes = packet_unseal (link, false, *packet);
    if (!header_bytes) {
        log_event (peer->label, "a message is damaged");
        free (*packet);
        *packet = NULL;
        peer_lose (peer);
        return false;
    }
    wm_error_t error;
    if (wm_msg_decode (msg, (*packet)->data, header_bytes, &error) != WM_OK)
        fail ("the broker sent what is no message: %s", error.text);
    int64_t silent_ms = sim.now_ms - peer->heard_ms;
    peer->heard_ms = sim.now_ms;
    if (msg->type != WM_MSG_REJECT && msg->type != WM_MSG_BYE)
        return true;
    bool again = msg->code == WM_REASON_BUSY || msg->code == WM_REASON_STOPPING;
    if (msg->type == WM_MSG_REJECT && msg->code == WM_REASON_FAILED && peer->lies) {
        log_event (peer->label, "is found wrong: %s", msg->text);
        free (*packet);
        *packet = NULL;
        peer_die (peer, NEVER / 2);
        return false;
    }
    if (msg->type == WM_MSG_REJECT && !again)
        fail ("%s, which is honest, is refused: %s", peer->label, msg->text);
    if (msg->type == WM_MSG_BYE && msg->code == WM_REASON_STALE && sim.now_ms >= peer->frozen_ms &&
        sim.now_ms - peer->frozen_ms > SILENCE_MS && silent_ms < SILENCE_MS &&
        (peer->role != WM_ROLE_PRODUCER || strncmp (msg->text, "fills the", 9) != 0))
        fail ("%s, which is not silent, is ended as silent: %s", peer->label, msg->text);
    free (*packet);
    *packet = NULL;
    peer_lose (peer);
    return false;
}

void peer_sleep (peer_t *peer)
{
    if (!peer->link && peer->retry_ms < peer->wake_ms)
        peer->wake_ms = peer->retry_ms > sim.now_ms ? peer->retry_ms : sim.now_ms + 1;
    int64_t at_ms = peer->link ? link_next_ms (peer->link, false) : NEVER;
    if (at_ms < peer->encoded_ms)
        at_ms = peer->encoded_ms;
    if (at_ms < peer->wake_ms)
        peer->wake_ms = at_ms > sim.now_ms ? at_ms : sim.now_ms + 1;
}

/* ---- what may be blamed ---------------------------------------------------------------------- */

void worker_lent (peer_t *peer, const wm_key_t *key, bool lent)
{
    uint32_t i, e, b;
    const unit_t *of_key = truth_unit_of_key (key);
    if (peer->role != WM_ROLE_WORKER || !of_key || !truth_place (of_key->digest, &i, &e, &b))
        return;
    peer->lent[i][e][b] = lent || sim.kind == CLIENTS; /* who may ask for one twice at a time */
    if (lent && (peer->hangs || peer->hostile || sim.now_ms < peer->frozen_ms)) {
        sim.blames++;
        unit_blame (&sim.input[i].event[e].unit[b], tag_of (peer));
    }
}

void worker_misfortune (peer_t *peer, link_t *link)
{
    if (peer->role != WM_ROLE_WORKER || (link && link->mourned))
        return;
    if (link)
        link->mourned = true;
    sim.blames++;
    for (uint32_t i = 0; i < INPUTS; i++)
        for (uint32_t e = 0; e < EVENTS; e++)
            for (uint32_t b = 0; b < BATCHES; b++)
                if (peer->lent[i][e][b])
                    unit_blame (&sim.input[i].event[e].unit[b], tag_of (peer));
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static task_t *find (peer_t *peer, const wm_key_t *key)
{
    for (size_t i = 0; i < TASKS; i++)
        if (peer->task[i].state != TASK_FREE &&
            memcmp (&peer->task[i].msg.key, key, sizeof *key) == 0)
            return &peer->task[i];
    return NULL;
}

static task_t *oldest (peer_t *peer, task_state_t state)
{
    task_t *first = NULL;
    for (size_t i = 0; i < TASKS; i++)
        if (peer->task[i].state == state && (!first || peer->task[i].serial < first->serial))
            first = &peer->task[i];
    return first;
}

static uint32_t count (const peer_t *peer, task_state_t state)
{
    uint32_t n = 0;
    for (size_t i = 0; i < TASKS; i++)
        n += peer->task[i].state == state;
    return n;
}

static void send_result (peer_t *peer, task_t *task)
{
    uint8_t result[64 * (1 + 4 * N_OUTPUT)];
    size_t bytes = truth_result (task->msg.digest, task->msg.n_hit, peer->signature, result);
    if (task->wrong)
        result[bytes - 1] ^= 0x40;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_RESULT);
    msg.key = task->msg.key;
    memcpy (msg.digest, task->msg.digest, 16);
    msg.n_batch = task->msg.n_batch;
    msg.n_hit = task->msg.n_hit;
    msg.attempt = task->msg.attempt;
    peer_send (peer, &msg, result, bytes, bytes);
}

static void nack (peer_t *peer, task_t *task, wm_fault_t code)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_NACK);
    msg.key = task->msg.key;
    msg.attempt = task->msg.attempt;
    msg.code = code;
    peer_send (peer, &msg, NULL, 0, 0);
    unit_t *unit = truth_unit (task->msg.digest);
    if (code != WM_EAGAIN && unit) {
        unit_blame (unit, tag_of (peer));
        sim.blames++;
    }
    task->state = TASK_FREE;
}

static void take_task (peer_t *peer, const wm_msg_t *msg)
{
    peer->received++;
    task_t *held = find (peer, &msg->key);
    if (held && memcmp (held->msg.digest, msg->digest, 16) != 0) {
        task_t other = { .state = TASK_QUEUED, .msg = *msg };
        nack (peer, &other, WM_EAGAIN); /* a client has given the number to another batch */
        return;
    }
    if (held) {
        held->msg.attempt = msg->attempt;
        if (held->state == TASK_RETURNED)
            send_result (peer, held);
        return;
    }
    task_t *task = peer->task;
    while (task < peer->task + TASKS && task->state != TASK_FREE)
        task++;
    if (task == peer->task + TASKS) {
        fail ("%s holds more batches than it ever asked for", peer->label);
        return;
    }
    *task = (task_t){ .state = TASK_QUEUED, .msg = *msg, .serial = peer->serial++ };
    if (peer->draining)
        nack (peer, task, WM_EAGAIN);
}

/* ---- the device ------------------------------------------------------------------------------ */

static void start (peer_t *peer)
{
    task_t *task = oldest (peer, TASK_QUEUED);
    if (!task || oldest (peer, TASK_EXECUTING) || peer->draining)
        return;
    task->state = TASK_EXECUTING;
    peer->finish_ms = sim.now_ms + 1 + roll (2 * peer->speed_ms);
}

static void finish (peer_t *peer)
{
    task_t *task = oldest (peer, TASK_EXECUTING);
    if (!task || sim.now_ms < peer->finish_ms)
        return;
    peer->hangs = false;
    peer->progress += task->msg.n_hit;
    unit_t *unit = truth_unit (task->msg.digest);
    const bool lasting = peer->broken || (unit && unit->lasting);
    if (lasting || (!sim.calm && chance (sim.faults.nack))) {
        log_event (peer->label, "fails on %u.%u.%u", task->msg.key.input, task->msg.key.ordinal,
                   task->msg.key.batch);
        nack (peer, task, (lasting ? !peer->broken : chance (500)) ? WM_EBATCH : WM_EHOST);
        peer->window = 1;
        return;
    }
    if (!sim.calm && unit && chance (sim.faults.wrong)) {
        log_event (peer->label, "answers %u.%u.%u with wrong bytes", task->msg.key.input,
                   task->msg.key.ordinal, task->msg.key.batch);
        unit->alarm = task->wrong = true;
    }
    if (!sim.calm && unit && peer->lies && chance (peer->lies)) {
        log_event (peer->label, "lies about %u.%u.%u", task->msg.key.input, task->msg.key.ordinal,
                   task->msg.key.batch);
        unit->alarm = task->wrong = true;
    }
    task->state = TASK_RETURNED;
    if (peer->window < 4)
        peer->window++;
    send_result (peer, task);
    if (!sim.calm && chance (sim.faults.twice))
        send_result (peer, task);
}

void worker_hang (peer_t *peer)
{
    if (!oldest (peer, TASK_EXECUTING))
        return;
    int64_t ms = 20000 + roll (chance (300) ? 600000 : 60000);
    log_event (peer->label, "hangs for %lld ms", (long long) ms);
    peer->finish_ms = sim.now_ms + ms;
    peer->hangs = true;
    worker_misfortune (peer, NULL);
}

/* Gives back what waits; goes when nothing executes or waits for its acknowledgement.  */
void worker_drain (peer_t *peer)
{
    if (!peer->alive || peer->draining)
        return;
    log_event (peer->label, "drains");
    peer->draining = true;
    peer->drained_ms = sim.now_ms;
    for (size_t i = 0; i < TASKS; i++)
        if (peer->task[i].state == TASK_QUEUED)
            nack (peer, &peer->task[i], WM_EAGAIN);
}

static bool leave_if_drained (peer_t *peer)
{
    if (!peer->draining || oldest (peer, TASK_EXECUTING) ||
        (oldest (peer, TASK_RETURNED) && sim.now_ms - peer->drained_ms < SILENCE_MS))
        return false;
    wm_msg_t bye;
    wm_msg_init (&bye, WM_MSG_BYE);
    bye.code = WM_REASON_DRAINED;
    if (peer->welcome)
        peer_send (peer, &bye, NULL, 0, 0);
    peer_die (peer, 100 + roll (4000));
    return true;
}

/* ---- the step -------------------------------------------------------------------------------- */

static void heartbeat (peer_t *peer)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    const task_t *task = oldest (peer, TASK_EXECUTING);
    if (task) {
        msg.key = task->msg.key;
        if (!peer->hangs)
            peer->progress++;
    }
    msg.count = peer->progress;
    msg.received = peer->received;
    peer_send (peer, &msg, NULL, 0, 0);
    peer->beat_ms = sim.now_ms;
}

static void on_message (peer_t *peer, const wm_msg_t *msg)
{
    task_t *task = find (peer, &msg->key);
    switch (msg->type) {
    case WM_MSG_WELCOME:
        peer->welcome = true;
        peer->received = peer->granted = 0;
        if (peer->hangs)
            worker_misfortune (peer, NULL);
        for (size_t i = 0; i < TASKS; i++)
            if (peer->task[i].state == TASK_RETURNED)
                send_result (peer, &peer->task[i]);
        heartbeat (peer);
        return;
    case WM_MSG_TASK:
        take_task (peer, msg);
        return;
    case WM_MSG_RESULT_ACK:
        if (task && task->state == TASK_RETURNED)
            task->state = TASK_FREE;
        return;
    case WM_MSG_DRAIN:
        worker_drain (peer);
        return;
    case WM_MSG_REVOKE:
        if (task && task->state == TASK_QUEUED)
            task->state = TASK_FREE;
        return;
    default:
        return;
    }
}

static size_t held (peer_t *peer, wm_hello_held_t *list)
{
    size_t n = 0;
    for (size_t i = 0; i < TASKS; i++) {
        const task_t *task = &peer->task[i];
        if (task->state == TASK_FREE)
            continue;
        wm_hello_held_t *line = &list[n++];
        *line = (wm_hello_held_t){ .key = task->msg.key,
                                   .n_hit = task->msg.n_hit,
                                   .unacked = task->state == TASK_RETURNED };
        memcpy (line->digest, task->msg.digest, 16);
        worker_lent (peer, &task->msg.key, true);
    }
    return n * sizeof *list;
}

static void grant (peer_t *peer)
{
    uint32_t in_hand = count (peer, TASK_QUEUED) + count (peer, TASK_EXECUTING);
    uint32_t room = count (peer, TASK_FREE);
    uint32_t wanted = peer->window > in_hand ? peer->window - in_hand : 0;
    uint64_t credit = peer->received + (wanted < room ? wanted : room);
    if (credit <= peer->granted || peer->draining)
        return;
    peer->granted = credit;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CREDIT);
    msg.count = credit;
    peer_send (peer, &msg, NULL, 0, 0);
}

void worker_begin (peer_t *peer)
{
    peer->alive = true;
    peer->window = 2;
    peer->speed_ms = 20 + roll (chance (200) ? 4000 : 800);
    peer->signature = sim.check_share > 0 || peer->index % 3 ? 1 : 2;
    uint64_t id[2] = { peer->index + 1, peer->n_instance + 1 };
    memcpy (peer->instance, id, 16);
    log_event (peer->label, "begins, %u ms a batch", peer->speed_ms);
}

bool worker_is_clear (const peer_t *peer)
{
    return count (peer, TASK_RETURNED) == 0;
}

void worker_step (peer_t *peer)
{
    wm_hello_held_t list[TASKS];
    size_t list_bytes = peer->link ? 0 : held (peer, list);
    finish (peer);
    start (peer);
    bool open = peer_session (peer, list, list_bytes);
    wm_msg_t msg;
    packet_t *packet;
    while (peer_receive (peer, &msg, &packet)) {
        on_message (peer, &msg);
        free (packet);
    }
    if (leave_if_drained (peer))
        return;
    start (peer);
    open = peer->link && peer->welcome;
    if (open && sim.now_ms - peer->beat_ms >= HEARTBEAT_MS)
        heartbeat (peer);
    if (open)
        grant (peer);
    peer->wake_ms = sim.now_ms + 500;
    if (oldest (peer, TASK_EXECUTING) && peer->finish_ms < peer->wake_ms)
        peer->wake_ms = peer->finish_ms > sim.now_ms ? peer->finish_ms : sim.now_ms + 1;
    peer_sleep (peer);
}

/* ---- a peer that keeps no rule --------------------------------------------------------------- */

/* Any message with any numbers; nothing that forges a result of a batch it was not given.  */
void hostile_step (peer_t *peer)
{
    peer->wake_ms = sim.now_ms + 200 + roll (3000);
    if (!peer->link) {
        peer->role = chance (500) ? WM_ROLE_WORKER : WM_ROLE_PRODUCER;
        uint64_t id[2] = { 1000 + roll (4), 0 };
        memcpy (peer->instance, id, 16);
        peer->link = link_open (peer);
        if (peer->link && chance (800))
            hello (peer, NULL, 0);
        return;
    }
    packet_t *packet;
    while (peer->link && (packet = link_take (peer->link, false)))
        free (packet);
    if (peer->link->down_closed_ms <= sim.now_ms || chance (200)) {
        link_t *link = peer->link;
        link_leave (link, true);
        link_free_if_over (link);
        peer->link = NULL;
        return;
    }
    wm_msg_t msg;
    wm_msg_init (&msg, (wm_msg_type_t) (1 + roll (WM_MSG_TYPE_END - 1)));
    if ((msg.type == WM_MSG_INPUT && sim.kind != CLIENTS) || msg.type == WM_MSG_CONTROL ||
        msg.type == WM_MSG_INPUT_HELD ||
        (msg.type == WM_MSG_FILE_LOST && sim.seed % 4)) /* in some worlds: those are ignored */
        return;                                         /* valid from a producer or an operator */
    if (msg.type == WM_MSG_RESULT && chance (900))
        return;
    msg.key = (wm_key_t){ roll (INPUTS + 2), roll (EVENTS), roll (BATCHES), chance (100) };
    msg.code = roll (12);
    msg.count = chance (500) ? roll (4) : UINT64_MAX - roll (3);
    msg.n_batch = roll (BATCHES + 1);
    msg.n_hit = chance (500) ? 0 : UINT32_MAX;
    uint8_t junk[100] = { 0 };
    size_t bytes = wm_msg_has_payload (msg.type) ? roll (sizeof junk) : 0;
    peer_send (peer, &msg, junk, bytes, bytes);
}
