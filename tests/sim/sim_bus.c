/* sim_bus.c - the die, the story, and links: one connection each, in order, ended at any message.

   A link that ends keeps a prefix of what is under way in each direction and delivers it late, even
   after the next session of the same peer has begun.  */
#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint32_t roll (uint32_t sides)
{
    sim.random += 0x9e3779b97f4a7c15u;
    return (uint32_t) (wm_table_mix (sim.random) >> 33) % sides;
}

bool chance (uint32_t permille)
{
    return roll (1000) < permille;
}

/* ---- the story ------------------------------------------------------------------------------- */

void log_event (const char *who, const char *format, ...)
{
    if (!sim.story)
        return;
    va_list args;
    va_start (args, format);
    printf ("%10.3f  %-11s ", (double) sim.now_ms / 1000, who);
    vprintf (format, args);
    putchar ('\n');
    va_end (args);
}

void fail (const char *format, ...)
{
    if (*sim.failure)
        return;
    va_list args;
    va_start (args, format);
    vsnprintf (sim.failure, sizeof sim.failure, format, args);
    va_end (args);
    log_event ("VIOLATION", "%s", sim.failure);
}

const char *msg_text (const wm_msg_t *msg, size_t bytes)
{
    static char text[400];
    int n = snprintf (text, sizeof text, "%s", wm_msg_name (msg->type));
    size_t at = (size_t) n;
    if (msg->key.input)
        at += (size_t) snprintf (text + at, sizeof text - at, " %u.%d.%u", msg->key.input,
                                 (int) msg->key.ordinal, msg->key.batch);
    if (msg->code)
        at += (size_t) snprintf (text + at, sizeof text - at, " code %u", msg->code);
    if (msg->count)
        at += (size_t) snprintf (text + at, sizeof text - at, " count %llu",
                                 (unsigned long long) msg->count);
    if (msg->epoch)
        at += (size_t) snprintf (text + at, sizeof text - at, " epoch %llu",
                                 (unsigned long long) msg->epoch);
    if (bytes)
        at += (size_t) snprintf (text + at, sizeof text - at, " +%zu bytes", bytes);
    if (*msg->path)
        at += (size_t) snprintf (text + at, sizeof text - at, " %.60s", msg->path);
    if (*msg->text)
        snprintf (text + at, sizeof text - at, " \"%.200s\"", msg->text);
    return text;
}

/* ---- pipes ----------------------------------------------------------------------------------- */

static void pipe_clear (pipe_t *pipe)
{
    while (pipe->head) {
        packet_t *packet = pipe->head;
        pipe->head = packet->next;
        free (packet);
    }
    pipe->tail = NULL;
}

static void pipe_push (pipe_t *pipe, packet_t *packet)
{
    if (packet->at_ms < pipe->last_ms)
        packet->at_ms = pipe->last_ms;
    pipe->last_ms = packet->at_ms;
    packet->next = NULL;
    *(pipe->tail ? &pipe->tail->next : &pipe->head) = packet;
    pipe->tail = packet;
}

/* Loses what is under way from some packet on; the rest comes late. Returns when the last of it
   is there.  */
static int64_t pipe_tear (pipe_t *pipe)
{
    size_t n = 0;
    for (packet_t *packet = pipe->head; packet; packet = packet->next)
        n++;
    size_t keep = n ? roll ((uint32_t) n + 1) : 0;
    int64_t late = chance (500) ? 0 : roll (sim.faults.late_ms + 1);
    int64_t last = sim.now_ms;
    packet_t **at = &pipe->head;
    pipe->tail = NULL;
    for (; keep; keep--) {
        (*at)->at_ms += late;
        last = (*at)->at_ms;
        pipe->tail = *at;
        at = &(*at)->next;
    }
    packet_t *lost = *at;
    *at = NULL;
    while (lost) {
        packet_t *next = lost->next;
        free (lost);
        lost = next;
    }
    pipe->last_ms = last;
    return last;
}

/* ---- links ----------------------------------------------------------------------------------- */

uint32_t tag_of (const peer_t *peer)
{
    return (uint32_t) XXH3_64bits (peer->instance, sizeof peer->instance) | 1;
}

link_t *link_open (peer_t *peer)
{
    if (!broker_is_up ())
        return NULL;
    for (size_t i = 0; i < LINKS; i++) {
        link_t *link = &sim.link[i];
        if (link->used)
            continue;
        *link = (link_t){ .used = true,
                          .hostile = peer->hostile,
                          .serial = ++sim.serial,
                          .peer = peer,
                          .role = peer->role,
                          .tag = tag_of (peer),
                          .broker_end = true,
                          .up_closed_ms = NEVER,
                          .down_closed_ms = NEVER };
        return link;
    }
    return NULL;
}

/* Whether this is a TASK of a batch that this worker was told to drop. Notes each REVOKE.  */
static bool is_again (link_t *link, const wm_msg_t *msg)
{
    const uint32_t most = sizeof link->revoked / sizeof *link->revoked;
    if (msg->type == WM_MSG_REVOKE)
        link->revoked[link->n_revoked++ % most] = msg->key;
    for (uint32_t i = 0; msg->type == WM_MSG_TASK && i < link->n_revoked && i < most; i++)
        if (memcmp (&link->revoked[i], &msg->key, sizeof msg->key) == 0)
            return true;
    return false;
}

void link_send (link_t *link, bool up, const wm_msg_t *msg, const void *data, size_t data_bytes,
                size_t bytes)
{
    if ((up ? link->up_closed_ms : link->down_closed_ms) != NEVER ||
        !(up ? link->broker_end : link->peer != NULL))
        return; /* into a dead pipe */
    uint8_t header[WM_HEADER_BYTES_MAX];
    bool has_payload = wm_msg_has_payload (msg->type);
    size_t header_bytes = wm_msg_seal (
        header, wm_msg_encode (msg, header),
        has_payload ? wm_msg_check (data ? data : "", data_bytes) : 0, link->n_sent[up]);
    packet_t *packet = malloc (sizeof *packet + header_bytes + data_bytes);
    if (!packet)
        abort ();
    *packet = (packet_t){ .at_ms = sim.now_ms + 1 + roll (chance (20) ? 200 : 5),
                          .header_bytes = header_bytes,
                          .bytes = bytes,
                          .data_bytes = data_bytes,
                          .has_payload = has_payload,
                          .is_again = !up && is_again (link, msg),
                          .number = link->n_sent[up]++,
                          .type = msg->type };
    if (msg->type == WM_MSG_BATCH && sim.faults.slow_link_ms)
        packet->at_ms += roll (sim.faults.slow_link_ms);
    memcpy (packet->data, header, header_bytes);
    if (data_bytes)
        memcpy (packet->data + header_bytes, data, data_bytes);
    if (sim.faults.flipped && roll (10000) < sim.faults.flipped) {
        if (chance (250)) { /* libzmq takes the frame for a command, and drops it */
            log_event ("network", "loses %s", wm_msg_name (msg->type));
            free (packet);
            return;
        }
        packet->data[roll ((uint32_t) (header_bytes + data_bytes))] ^= (uint8_t) (1 << roll (8));
        log_event ("network", "flips a bit of %s", wm_msg_name (msg->type));
    }
    pipe_push (up ? &link->up : &link->down, packet);
    if (up)
        broker_wake (packet->at_ms);
    else if (link->peer->wake_ms > packet->at_ms)
        link->peer->wake_ms = packet->at_ms;
}

size_t packet_unseal (link_t *link, bool up, const packet_t *packet)
{
    const uint64_t number = link->n_read[up]++;
    const uint8_t *data = packet->data + packet->header_bytes;
    return wm_msg_unseal (packet->data, packet->header_bytes,
                          packet->has_payload ? wm_msg_check (data, packet->data_bytes) : 0,
                          sim.bug == BUG_LOSS_UNNOTICED ? packet->number : number);
}

packet_t *link_take (link_t *link, bool up)
{
    pipe_t *pipe = up ? &link->up : &link->down;
    packet_t *packet = pipe->head;
    if (!packet || packet->at_ms > sim.now_ms)
        return NULL;
    pipe->head = packet->next;
    if (!pipe->head)
        pipe->tail = NULL;
    return packet;
}

int64_t link_next_ms (const link_t *link, bool up)
{
    const pipe_t *pipe = up ? &link->up : &link->down;
    int64_t closed = up ? link->up_closed_ms : link->down_closed_ms;
    return pipe->head && pipe->head->at_ms < closed ? pipe->head->at_ms : closed;
}

void link_leave (link_t *link, bool lossy)
{
    worker_misfortune (link->peer, link);
    link->peer = NULL;
    pipe_clear (&link->down);
    if (!link->broker_end || link->up_closed_ms != NEVER)
        return;
    int64_t last = lossy ? pipe_tear (&link->up) : link->up.last_ms;
    if (last < sim.now_ms)
        last = sim.now_ms;
    /* Most ends are known at once; the end of a vanished host shows by silence only. */
    link->up_closed_ms = lossy && chance (150) ? last + roll (40000) : last + roll (5);
    broker_wake (link->up_closed_ms);
}

void link_cut (link_t *link)
{
    peer_t *peer = link->peer;
    if (peer)
        worker_misfortune (peer, link);
    if (peer && link->down_closed_ms == NEVER) {
        int64_t last = pipe_tear (&link->down);
        link->down_closed_ms = last + (chance (150) ? roll (40000) : roll (50));
        if (peer->wake_ms > link->down_closed_ms)
            peer->wake_ms = link->down_closed_ms;
    }
    if (link->broker_end && link->up_closed_ms == NEVER) {
        int64_t last = pipe_tear (&link->up);
        link->up_closed_ms = last + (chance (150) ? roll (40000) : roll (50));
        broker_wake (link->up_closed_ms);
    }
}

void link_hang_up (link_t *link)
{
    pipe_clear (&link->up);
    if (link->peer && link->down_closed_ms == NEVER) {
        int64_t last = pipe_tear (&link->down);
        link->down_closed_ms = last + roll (50);
        if (link->peer->wake_ms > link->down_closed_ms)
            link->peer->wake_ms = link->down_closed_ms;
    }
}

void link_broker_died (link_t *link)
{
    link_hang_up (link);
    link->broker_end = false;
    link->session = 0;
    link_free_if_over (link);
}

void link_free_if_over (link_t *link)
{
    if (link->peer || link->broker_end)
        return;
    pipe_clear (&link->up);
    pipe_clear (&link->down);
    link->used = false;
}

void links_clear (void)
{
    for (size_t i = 0; i < LINKS; i++) {
        pipe_clear (&sim.link[i].up);
        pipe_clear (&sim.link[i].down);
    }
}
