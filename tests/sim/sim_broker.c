/* sim_broker.c - a broker's life: the start of wm_campaign.c and the loop of wm_reactor.c, in
   virtual time, on the disk that loses its power. The planted bugs (sim.bug) all live in this file
   and in sim_disk.c, between the core and its effects; the product's code is as it is.

   One difference from the reactor: a record enters the journal when the core has returned, not from
   inside its sink, so that the end of the process (a failed fsync) never unwinds the core.  */
#include "tests/sim/sim.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP_RECORDS 256
#define LEDGER_MS 500
#define TICK_MS 250
#define DISK_FULL_MS 1000
#define SEEN 4096

typedef struct entry_t {
    struct entry_t *next;
    wm_record_t record;
    wm_place_t place;
    handle_t *body;
    bool reported; /* BUG_ACK_BEFORE_SYNC: its effect is out already */
    char text[];
} entry_t;

typedef struct {
    entry_t *head, *tail;
    size_t count;
} entries_t;

typedef struct {
    wm_journal_t *journal;
    wm_ledger_t *ledger;
    wm_core_t *core;
    bool up; /* it takes connections */
    int64_t next_ms, ticked_ms, ledger_ms, retry_ms, start_ms, stopped_ms;
    entries_t said, appended, waiting;
    bool disk_full, dead;
    uint64_t epoch;
    bool fetch_failed;
    wm_key_t fetch_key;
    uint32_t fetch_session;
    uint64_t n_bug; /* chances that a planted bug had */
} broker_t;

static broker_t broker;
static jmp_buf end_of_process;
static bool in_process;

static const wm_times_t times = { .heartbeat_ms = 2000,
                                  .silence_ms = 30000,
                                  .reconnect_ms = 3000,
                                  .lease_ms = 30000,
                                  .handshake_ms = 3000,
                                  .gap_ms = 2000,
                                  .group_commit_ms = 10 };

/* The journal and the ledger end their process so; here only the broker ends (and what they had
   allocated in that call is never freed).  */
_Noreturn void __real__exit (int code);
_Noreturn void __wrap__exit (int code);
_Noreturn void __wrap__exit (int code)
{
    if (in_process)
        longjmp (end_of_process, 1);
    __real__exit (code);
}

wm_core_t *broker_core (void)
{
    return broker.core;
}

bool broker_is_up (void)
{
    return broker.up;
}

int64_t broker_next_ms (void)
{
    if (!broker.core)
        return broker.start_ms;
    return broker.next_ms > broker.stopped_ms ? broker.next_ms : broker.stopped_ms;
}

void broker_wake (int64_t at_ms)
{
    if (broker.next_ms > at_ms)
        broker.next_ms = at_ms > sim.now_ms ? at_ms : sim.now_ms + 1;
}

/* ---- handles -----------------------------------------------------------------------------------
 */

static handle_t *handle_new (const packet_t *packet)
{
    handle_t *handle = malloc (sizeof *handle + packet->data_bytes);
    if (!handle)
        abort ();
    *handle = (handle_t){ .refs = 1, .bytes = packet->bytes, .data_bytes = packet->data_bytes };
    memcpy (handle->data, packet->data + packet->header_bytes, packet->data_bytes);
    return handle;
}

static void handle_unref (handle_t *handle)
{
    if (--handle->refs == 0)
        free (handle);
}

static void on_hold (void *context, void *pointer)
{
    (void) context;
    handle_t *handle = pointer;
    handle->refs++;
    if (!handle->held++)
        sim.held_bytes += handle->bytes;
}

static void on_release (void *context, void *pointer)
{
    (void) context;
    handle_t *handle = pointer;
    if (!--handle->held)
        sim.held_bytes -= handle->bytes;
    handle_unref (handle);
}

/* ---- sending -----------------------------------------------------------------------------------
 */

static link_t *link_of_session (uint32_t session)
{
    for (size_t i = 0; session && i < LINKS; i++)
        if (sim.link[i].used && sim.link[i].session == session)
            return &sim.link[i];
    return NULL;
}

static void transmit (link_t *link, const wm_msg_t *msg, const wm_payload_t *payload)
{
    const void *data = payload ? payload->data : NULL;
    size_t data_bytes = payload ? payload->bytes : 0, bytes = data_bytes;
    if (payload && payload->handle) {
        const handle_t *handle = payload->handle;
        data = handle->data;
        data_bytes = handle->data_bytes;
    }
    check_sent (link, msg, payload);
    if (msg->type != WM_MSG_HEARTBEAT)
        say ("broker", "-> %s %u: %s", link->role == WM_ROLE_WORKER ? "worker" : "producer",
             link->peer ? link->peer->index : 99, msg_text (msg, bytes));
    link_send (link, false, msg, data, data_bytes, bytes);
}

/* The message that a planted bug keeps from being sent.  */
static bool bug_swallows (const wm_msg_t *msg)
{
    static wm_key_t asked[SEEN];
    static size_t n_asked;
    if (sim.count.messages == 0)
        n_asked = 0;
    if (sim.bug == BUG_NEED_FORGOTTEN && msg->type == WM_MSG_NEED) {
        for (size_t i = 0; i < n_asked; i++)
            if (memcmp (&asked[i], &msg->key, sizeof msg->key) == 0)
                return true;
        if (n_asked < SEEN)
            asked[n_asked++] = msg->key;
    }
    return sim.bug == BUG_DONE_FORGOTTEN && msg->type == WM_MSG_EVENT_DONE &&
           ++broker.n_bug % 16 == 0;
}

static void on_send (void *context, uint32_t session, const wm_msg_t *msg,
                     const wm_payload_t *payload)
{
    (void) context;
    link_t *link = link_of_session (session);
    if (!link || bug_swallows (msg))
        return;
    wm_payload_t other;
    static handle_t *kept; /* BUG_WRONG_PAYLOAD */
    if (sim.bug == BUG_WRONG_PAYLOAD && msg->type == WM_MSG_TASK && ++broker.n_bug % 8 == 0 &&
        kept) {
        other = *payload;
        other.handle = kept;
        payload = &other;
    }
    transmit (link, msg, payload);
    if (sim.bug == BUG_WRONG_PAYLOAD && msg->type == WM_MSG_TASK && payload->handle != kept) {
        if (kept)
            handle_unref (kept);
        kept = payload->handle;
        kept->refs++;
    }
    if (sim.bug == BUG_TASK_TWICE && msg->type == WM_MSG_TASK && ++broker.n_bug % 8 == 0)
        transmit (link, msg, payload);
}

static void on_drop (void *context, uint32_t session)
{
    (void) context;
    link_t *link = link_of_session (session);
    if (!link)
        return;
    if (link->peer)
        worker_misfortune (link->peer, link);
    link->session = 0;
}

static void on_log (void *context, const char *text)
{
    (void) context;
    say ("broker", "%s", text);
}

static void on_model (void *context, uint32_t session, uint64_t offset)
{
    (void) context, (void) session, (void) offset;
}

static void on_status (void *context, uint32_t session)
{
    (void) context, (void) session;
}

static int on_pause (void *context, const char *why)
{
    (void) context;
    sim.paused = why != NULL;
    return 0;
}

static void on_fetch (void *context, uint32_t session, const wm_msg_t *results,
                      const wm_place_t *place)
{
    (void) context;
    link_t *link = link_of_session (session);
    if (!link)
        return;
    wm_record_t record;
    wm_error_t error = { .text = "another record lies where a result should be" };
    if (wm_journal_read (broker.journal, place, &record, &error) != WM_OK ||
        record.type != WM_RECORD_RESULT ||
        memcmp (&record.key, &results->key, sizeof record.key) != 0) {
        if (!sim_disk_is_gone ())
            fail ("the result of %u.%u.%u cannot be read back: %s", results->key.input,
                  results->key.ordinal, results->key.batch, error.text);
        broker.fetch_failed = true;
        broker.fetch_key = results->key;
        broker.fetch_session = session;
        return;
    }
    wm_msg_t msg = *results;
    snprintf (msg.text, sizeof msg.text, "%.*s", (int) record.text_bytes,
              record.text ? record.text : "");
    transmit (link, &msg, &(wm_payload_t){ NULL, record.payload, record.payload_bytes });
}

/* ---- records -----------------------------------------------------------------------------------
 */

static void entries_push (entries_t *entries, entry_t *entry)
{
    entry->next = NULL;
    *(entries->tail ? &entries->tail->next : &entries->head) = entry;
    entries->tail = entry;
    entries->count++;
}

static entry_t *entries_pop (entries_t *entries)
{
    entry_t *entry = entries->head;
    if (!entry)
        return NULL;
    entries->head = entry->next;
    if (!entries->head)
        entries->tail = NULL;
    entries->count--;
    return entry;
}

static void entry_free (entry_t *entry)
{
    if (entry->body)
        handle_unref (entry->body);
    free (entry);
}

static void on_append (void *context, const wm_record_t *record, const wm_payload_t *body)
{
    (void) context;
    entry_t *entry = malloc (sizeof *entry + record->text_bytes + record->name_bytes);
    if (!entry)
        abort ();
    *entry = (entry_t){ .record = *record };
    if (record->text_bytes)
        memcpy (entry->text, record->text, record->text_bytes);
    if (record->name_bytes)
        memcpy (entry->text + record->text_bytes, record->name, record->name_bytes);
    entry->record.text = record->text_bytes ? entry->text : NULL;
    entry->record.name = record->name_bytes ? entry->text + record->text_bytes : NULL;
    if (body) {
        entry->body = body->handle;
        entry->body->refs++;
        entry->record.payload_bytes = (uint32_t) body->bytes;
    }
    check_appended (record, body ? entry->body->data : NULL, body ? body->bytes : 0);
    entries_push (&broker.said, entry);
}

static void entry_append (entry_t *entry)
{
    wm_record_t record = entry->record;
    wm_error_t error;
    record.payload = entry->body ? entry->body->data : NULL;
    wm_fault_t fault = WM_EAGAIN;
    if (sim.bug == BUG_RECORD_FORGOTTEN && record.type == WM_RECORD_RESULT &&
        ++broker.n_bug % 8 == 0)
        fault = WM_OK;
    else if (sim.bug == BUG_HELD_FORGOTTEN && record.type == WM_RECORD_HELD)
        fault = WM_OK;
    else if (!broker.waiting.count)
        fault = wm_journal_append (broker.journal, &record, &entry->place, &error);
    if (fault == WM_EAGAIN && sim.bug == BUG_FULL_DISK_DROPS)
        fault = WM_OK;
    if (fault == WM_EAGAIN) {
        entries_push (&broker.waiting, entry);
        return;
    }
    if (fault != WM_OK) {
        if (!sim_disk_is_gone ())
            fail ("the journal refuses a record: %s", error.text);
        broker.dead = true;
        entry_free (entry);
        return;
    }
    entry->record = record;
    entry->record.payload = NULL;
    entries_push (&broker.appended, entry);
}

/* What the core said goes into the journal, once it has returned.  */
static void settle (void)
{
    entry_t *entry;
    while (!broker.dead && (entry = entries_pop (&broker.said))) {
        entry_append (entry);
        if (sim.bug != BUG_ACK_BEFORE_SYNC || broker.waiting.count || broker.dead ||
            broker.appended.count > 1)
            continue;
        entry->reported = true; /* the first of a group does not wait */
        wm_core_durable (broker.core, &entry->place, sim.now_ms);
    }
    if (broker.fetch_failed) {
        broker.fetch_failed = false;
        wm_core_damaged (broker.core, broker.fetch_key, broker.fetch_session, sim.now_ms);
    }
    if (!broker.dead)
        check_core (broker.core);
}

static void retry (void)
{
    bool was_full = broker.disk_full;
    if (broker.waiting.count && sim.now_ms >= broker.retry_ms) {
        entries_t waiting = broker.waiting;
        broker.waiting = (entries_t){ 0 };
        entry_t *entry;
        while (!broker.dead && (entry = entries_pop (&waiting)))
            entry_append (entry);
        while ((entry = entries_pop (&waiting)))
            entry_free (entry);
        broker.retry_ms = sim.now_ms + DISK_FULL_MS;
    }
    broker.disk_full = broker.waiting.count != 0;
    if (broker.disk_full == was_full || (sim.bug == BUG_DISK_STAYS_FULL && !broker.disk_full))
        return;
    say ("broker", broker.disk_full ? "disk full, paused" : "the disk has room again");
    wm_core_disk_full (broker.core, broker.disk_full, sim.now_ms);
    settle ();
}

static void durable (entry_t *entry, const wm_place_t *place)
{
    wm_ledger_apply (broker.ledger, &entry->record, &entry->place);
    if (!entry->reported)
        wm_core_durable (broker.core, place, sim.now_ms);
    settle ();
}

static void ledger_commit (bool at_once)
{
    size_t pending = wm_ledger_pending (broker.ledger);
    if (!pending || (!at_once && sim.now_ms - broker.ledger_ms < LEDGER_MS))
        return;
    broker.ledger_ms = sim.now_ms;
    wm_error_t error;
    wm_fault_t fault = wm_ledger_commit (broker.ledger, &error);
    if (fault == WM_EAGAIN)
        broker.ledger_ms = sim.now_ms + DISK_FULL_MS;
    else if (fault != WM_OK) {
        if (!sim_disk_is_gone ())
            fail ("the ledger refuses: %s", error.text);
        broker.dead = true;
    } else
        wm_journal_sweep (broker.journal);
}

static void commit (void)
{
    size_t count = broker.appended.count;
    if (!count || broker.dead)
        return;
    if (sim.bug == BUG_LEDGER_AHEAD) {
        for (const entry_t *entry = broker.appended.head; entry; entry = entry->next)
            wm_ledger_apply (broker.ledger, &entry->record, &entry->place);
        ledger_commit (true);
        if (broker.dead)
            return;
    }
    wm_journal_sync (broker.journal);
    while (count-- && !broker.dead) {
        entry_t *entry = entries_pop (&broker.appended);
        wm_place_t place = entry->place;
        if (sim.bug == BUG_RESULT_OF_A_NEIGHBOUR && broker.appended.head &&
            entry->record.type == WM_RECORD_RESULT)
            place = broker.appended.head->place;
        if (sim.bug == BUG_LEDGER_AHEAD && !entry->reported)
            wm_core_durable (broker.core, &place, sim.now_ms), settle ();
        else
            durable (entry, &place);
        entry_free (entry);
    }
}

/* ---- reading -----------------------------------------------------------------------------------
 */

/* What a planted bug does to a message before the core sees it. true: the core never does.  */
static bool bug_receives (link_t *link, wm_msg_t *msg, const wm_payload_t *payload)
{
    session_t *session = core_session (broker.core, link->session);
    if (!session)
        return false;
    const batch_t *batch = batch_find (broker.core, &msg->key);
    bool leased = false;
    for (const lease_t *lease = batch ? batch->lease : NULL; lease; lease = lease->other)
        leased |= lease->worker == session && !lease->expired;
    if (sim.bug == BUG_LATE_RESULT_IGNORED && msg->type == WM_MSG_RESULT)
        return !leased && batch && batch->state < BATCH_COMMITTING;
    if (sim.bug == BUG_NO_SECOND_ACK && msg->type == WM_MSG_RESULT)
        return batch && (batch->state == BATCH_RETURNED || batch->state == BATCH_COMMITTING);
    wm_msg_t early;
    wm_msg_init (&early, msg->type == WM_MSG_RESULT ? WM_MSG_RESULT_ACK : WM_MSG_ACK);
    early.key = msg->key;
    if (sim.bug == BUG_REPEAT_ACKED_EARLY && msg->type == WM_MSG_RESULT && batch &&
        batch->state == BATCH_COMMITTING) {
        on_send (NULL, link->session, &early, NULL);
        return true;
    }
    if (sim.bug == BUG_WRITTEN_ACKED_EARLY && msg->type == WM_MSG_FILE_WRITTEN) {
        early.code = WM_MSG_FILE_WRITTEN;
        on_send (NULL, link->session, &early, NULL);
    }
    if (sim.bug == BUG_DUPLICATE_JOURNALLED && msg->type == WM_MSG_RESULT && batch &&
        batch->state == BATCH_RETURNED) {
        wm_record_t record;
        wm_record_init (&record, WM_RECORD_RESULT);
        record.key = msg->key;
        memcpy (record.digest, msg->digest, 16);
        record.n_batch = msg->n_batch;
        record.n_hit = msg->n_hit;
        on_append (NULL, &record, payload);
        broker.said.tail->reported = true; /* it asks the core for nothing */
        return false;
    }
    if (sim.bug == BUG_CREDIT_ACROSS_SESSIONS && msg->type == WM_MSG_CREDIT) {
        static uint64_t before[PEERS];
        uint32_t i = link->peer ? link->peer->index : 0;
        uint64_t granted = msg->count;
        if (link->peer && link->peer->serial)
            msg->count += before[i];
        if (link->tasks == 0)
            before[i] = granted;
    }
    if (sim.bug == BUG_DONE_ONE_EARLY && msg->type == WM_MSG_RESULT && batch &&
        batch->event->n_batch - batch->event->n_returned - batch->event->n_held == 1 &&
        batch->event->input->claim && batch->event->flags & EVENT_ANNOUNCED &&
        batch->state < BATCH_COMMITTING) {
        wm_msg_t done;
        wm_msg_init (&done, WM_MSG_EVENT_DONE);
        done.key = (wm_key_t){ msg->key.input, msg->key.ordinal, 0, msg->key.generation };
        on_send (NULL, batch->event->input->claim->id, &done, NULL);
    }
    return false;
}

static void receive (link_t *link, packet_t *packet)
{
    if (link->heard && !link->session)
        return;
    if (!link->heard) {
        link->session = wm_core_open (broker.core, link->role, sim.now_ms);
        link->heard = true;
        if (!link->session) {
            fail ("no session for a peer, and there are few");
            return;
        }
    }
    wm_msg_t msg;
    wm_error_t error;
    sim.count.messages++;
    if (wm_msg_decode (&msg, packet->data, packet->header_bytes, &error) != WM_OK) {
        wm_core_reject (broker.core, link->session, WM_REASON_PROTOCOL, error.text);
        settle ();
        return;
    }
    if (msg.type != WM_MSG_HEARTBEAT)
        say ("broker", "<- %s %u: %s", link->role == WM_ROLE_WORKER ? "worker" : "producer",
             link->peer ? link->peer->index : 99, msg_text (&msg, packet->bytes));
    if (msg.type == WM_MSG_CREDIT && msg.count > link->granted)
        link->granted = msg.count;
    if (msg.type == WM_MSG_NACK && link->peer)
        worker_lent (link->peer, &msg.key, false);
    handle_t *handle = packet->has_payload ? handle_new (packet) : NULL;
    wm_payload_t payload = { handle, handle ? handle->data : NULL, packet->bytes };
    if (!bug_receives (link, &msg, handle ? &payload : NULL))
        wm_core_message (broker.core, link->session, &msg, handle ? &payload : NULL, sim.now_ms);
    if (handle)
        handle_unref (handle);
    settle ();
}

static void blame_the_waiting (const link_t *link)
{
    const session_t *session = core_session (broker.core, link->session);
    if (!session || session->role != WM_ROLE_WORKER)
        return;
    wm_msg_t nack;
    wm_msg_init (&nack, WM_MSG_NACK);
    nack.code = WM_EHOST;
    while ((session = core_session (broker.core, link->session)) && session->n_lease > 1) {
        nack.key = batch_key (session->lease_tail->batch);
        wm_core_message (broker.core, link->session, &nack, NULL, sim.now_ms);
        settle ();
    }
}

static bool ghost_of (wm_role_t role)
{
    return sim.bug == (role == WM_ROLE_WORKER ? BUG_LEASE_OUTLIVES : BUG_CLAIM_OUTLIVES);
}

static void closed (link_t *link)
{
    link->broker_end = false;
    uint32_t session = link->session;
    if (session && sim.bug == BUG_BLAME_THE_WAITING)
        blame_the_waiting (link);
    if (session && ghost_of (link->role)) {
        link->session = 0; /* nobody tells the core; and it hears a ghost */
        link_free_if_over (link);
        return;
    }
    link->session = 0;
    if (session) {
        wm_core_closed (broker.core, session, sim.now_ms);
        settle ();
    }
    link_free_if_over (link);
}

/* The sessions of those whose end was not noticed go on saying that they advance.  */
static void ghosts_beat (void)
{
    wm_msg_t beat;
    wm_msg_init (&beat, WM_MSG_HEARTBEAT);
    const session_t *next;
    for (const session_t *session = broker.core->first; session; session = next) {
        next = session->next;
        if (session->state != SESSION_LIVE || !ghost_of (session->role) ||
            link_of_session (session->id))
            continue;
        beat.key.input = session->role == WM_ROLE_WORKER;
        beat.count = (uint64_t) sim.now_ms;
        wm_core_message (broker.core, session->id, &beat, NULL, sim.now_ms);
    }
}

static void read_all (void)
{
    uint32_t first = roll (LINKS);
    for (uint32_t i = 0; i < LINKS && !broker.dead; i++) {
        link_t *link = &sim.link[(first + i) % LINKS];
        packet_t *packet;
        while (link->used && link->broker_end && !broker.dead &&
               broker.appended.count < GROUP_RECORDS && (packet = link_take (link, true))) {
            receive (link, packet);
            free (packet);
        }
        if (link->used && link->broker_end && link->up_closed_ms <= sim.now_ms && !link->up.head)
            closed (link);
    }
}

/* ---- the loop ----------------------------------------------------------------------------------
 */

static void tick (void)
{
    if (sim.now_ms - broker.ticked_ms < TICK_MS)
        return;
    if (sim.bug == BUG_WALL_CLOCK) /* it sees no gap: time passes in small steps */
        for (int64_t ms = broker.ticked_ms; ms < sim.now_ms; ms += 1000) {
            wm_core_tick (broker.core, ms);
            settle ();
        }
    broker.ticked_ms = sim.now_ms;
    ghosts_beat ();
    wm_core_tick (broker.core, sim.now_ms);
    settle ();
}

static void loop (void)
{
    if (sim.bug == BUG_WALL_CLOCK)
        tick ();
    read_all ();
    if (!broker.dead)
        tick ();
    if (!broker.dead)
        retry ();
    commit ();
    if (!broker.dead)
        ledger_commit (false);
}

static void next (void)
{
    broker.next_ms = broker.ticked_ms + TICK_MS;
    if (broker.appended.count)
        broker.next_ms = sim.now_ms;
    for (size_t i = 0; i < LINKS; i++) {
        const link_t *link = &sim.link[i];
        int64_t at_ms = link->used && link->broker_end ? link_next_ms (link, true) : NEVER;
        if (at_ms < broker.next_ms)
            broker.next_ms = at_ms;
    }
    /* Reading and syncing take their time.  */
    int64_t busy_ms = sim.now_ms + 1 + roll (sim.faults.slow_ms + 10);
    if (broker.next_ms < busy_ms)
        broker.next_ms = busy_ms;
}

/* ---- start and end -----------------------------------------------------------------------------
 */

static void end (bool is_power_cut, const char *why)
{
    say ("broker", "dies: %s", why);
    in_process = false;
    broker.up = false;
    entry_t *entry;
    while ((entry = entries_pop (&broker.said)) || (entry = entries_pop (&broker.appended)) ||
           (entry = entries_pop (&broker.waiting)))
        entry_free (entry);
    for (size_t i = 0; i < LINKS; i++)
        if (sim.link[i].used && sim.link[i].broker_end)
            link_broker_died (&sim.link[i]);
    sim_disk_power (0); /* what destroying does must not reach the disk */
    wm_core_destroy (&broker.core);
    wm_ledger_destroy (&broker.ledger);
    wm_journal_destroy (&broker.journal);
    if (sim.held_bytes)
        fail ("a core that is gone holds %llu bytes", (unsigned long long) sim.held_bytes);
    sim_disk_come_back (is_power_cut);
    sim.count.restarts++;
    sim.count.powercuts += is_power_cut;
    uint64_t n_bug = broker.n_bug;
    int64_t start_ms = sim.now_ms + 100 +
                       roll (sim.calm                        ? 1000
                             : sim.only_cuts || chance (800) ? 2000
                                                             : 20000);
    broker = (broker_t){ .n_bug = n_bug, .start_ms = start_ms };
}

static void load_input (void *argument, const wm_ledger_input_t *row)
{
    (void) argument;
    if (wm_core_restore_input (broker.core, row))
        abort ();
}

static void load_batch (void *argument, const wm_ledger_batch_t *row)
{
    (void) argument;
    if (wm_core_restore_batch (broker.core, row,
                               wm_ledger_signature (broker.ledger, row->signature)))
        abort ();
}

static wm_fault_t see (void *argument, const wm_record_t *record, const wm_place_t *place,
                       wm_error_t *error)
{
    (void) argument, (void) place, (void) error;
    check_journal_record (record);
    return WM_OK;
}

static wm_fault_t campaign_open (wm_error_t *error)
{
    wm_journal_found_t found;
    broker.journal = wm_journal_open ("/sim", &sim_disk_ops, error);
    if (!broker.journal)
        return error->fault;
    check_journal_begin ();
    wm_fault_t fault = wm_journal_replay (broker.journal, 0, 0, see, NULL, &found, error);
    if (fault)
        return fault;
    check_journal_end ();
    if (found.n_lost)
        fail ("the journal speaks of damage: %s", found.text);
    broker.ledger = wm_ledger_open ("/sim", SIM_VFS, error);
    if (!broker.ledger)
        return error->fault;
    fault = wm_ledger_catch_up (broker.ledger, broker.journal, &found, error);
    if (fault)
        return fault;
    uint64_t sequence;
    wm_ledger_position (broker.ledger, &broker.epoch, &sequence);
    if (wm_journal_epoch (broker.journal) > broker.epoch)
        broker.epoch = wm_journal_epoch (broker.journal);
    broker.epoch++;
    fault = wm_journal_start (broker.journal, broker.epoch, error);
    if (fault || broker.epoch > 1)
        return fault;
    wm_record_t record;
    wm_place_t place;
    wm_record_init (&record, WM_RECORD_CAMPAIGN);
    wm_record_text (&record, "pins");
    fault = wm_journal_append (broker.journal, &record, &place, error);
    if (fault)
        return fault;
    wm_journal_sync (broker.journal);
    wm_ledger_apply (broker.ledger, &record, &place);
    return WM_OK;
}

static wm_fault_t core_begin (wm_error_t *error)
{
    const wm_core_config_t config = { .campaign = { 7 },
                                      .pins_digest = { 9 },
                                      .pins = "pins",
                                      .pins_bytes = 4,
                                      .n_output = N_OUTPUT,
                                      .peers_max = WM_PEERS_MAX,
                                      .paused = sim.paused ? "it was" : NULL,
                                      .epoch = broker.epoch,
                                      .budget_bytes =
                                          BUDGET_BYTES * (sim.bug == BUG_BUDGET_IGNORED ? 4 : 1),
                                      .times = times,
                                      .now_ms = sim.now_ms };
    const wm_core_sink_t sink = { .send = on_send,
                                  .append = on_append,
                                  .fetch = on_fetch,
                                  .model = on_model,
                                  .pause = on_pause,
                                  .status = on_status,
                                  .drop = on_drop,
                                  .hold = on_hold,
                                  .release = on_release,
                                  .log = on_log };
    broker.core = wm_core_new (&config, &sink);
    if (!broker.core)
        abort ();
    const wm_ledger_load_t to = { .input = load_input, .batch = load_batch };
    uint64_t n_gone = 0;
    wm_fault_t fault = wm_ledger_load (broker.ledger, broker.journal, &to, NULL, &n_gone, error);
    if (fault)
        return fault;
    if (n_gone)
        fail ("%llu results of the ledger are not in the journal", (unsigned long long) n_gone);
    check_restored (broker.core);
    check_core (broker.core);
    wm_journal_sweep (broker.journal);
    return WM_OK;
}

static void begin (void)
{
    wm_error_t error = { 0 };
    say ("broker", "starts");
    if (sim.bug == BUG_TAIL_TRUNCATED)
        sim_disk_truncate_tail ();
    sim.blames = 0;
    wm_fault_t fault = campaign_open (&error);
    if (!fault)
        fault = core_begin (&error);
    if (fault == WM_EAGAIN) {
        end (false, error.text);
        return;
    }
    if (fault) {
        if (!sim_disk_is_gone ())
            fail ("the broker cannot start: %s", error.text);
        end (sim_disk_is_gone (), "while it starts");
        return;
    }
    say ("broker", "runs, epoch %llu", (unsigned long long) broker.epoch);
    broker.up = true;
    broker.ticked_ms = broker.ledger_ms = sim.now_ms;
    broker.next_ms = sim.now_ms + TICK_MS;
    if (sim.faults.power_cut_operations)
        sim_disk_power (roll (chance (300) ? 40 : sim.faults.power_cut_operations));
}

void broker_step (void)
{
    in_process = true;
    if (setjmp (end_of_process)) {
        end (sim_disk_is_gone () || chance (500), "an fsync failed");
        return;
    }
    if (!broker.core)
        begin ();
    else {
        loop ();
        if (broker.dead)
            end (true, "its disk is gone");
        else
            next ();
    }
    in_process = false;
}

void broker_kill (bool is_power_cut)
{
    if (broker.core)
        end (is_power_cut, is_power_cut ? "power cut" : "killed");
}

/* SIGTERM, as the end of wm_reactor_run.  */
void broker_stop (void)
{
    if (!broker.core)
        return;
    in_process = true;
    if (setjmp (end_of_process)) {
        end (sim_disk_is_gone (), "an fsync failed while it stopped");
        return;
    }
    commit ();
    if (!broker.dead) {
        wm_core_stop (broker.core, "the broker stops");
        settle ();
    }
    commit ();
    if (!broker.dead)
        ledger_commit (true);
    end (broker.dead, "stopped cleanly");
}

/* What an operator's CONTROL does.  */
void broker_control (const char *word)
{
    if (!broker.up)
        return;
    say ("operator", "%s", word);
    uint32_t session = wm_core_open (broker.core, WM_ROLE_OPERATOR, sim.now_ms);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = WM_ROLE_OPERATOR;
    msg.instance[0] = 99;
    wm_payload_t nothing = { NULL, "", 0 };
    wm_core_message (broker.core, session, &msg, &nothing, sim.now_ms);
    wm_msg_init (&msg, WM_MSG_CONTROL);
    snprintf (msg.name, sizeof msg.name, "%s", word);
    wm_core_message (broker.core, session, &msg, NULL, sim.now_ms);
    wm_core_closed (broker.core, session, sim.now_ms);
    settle ();
}

void broker_stall (int64_t ms)
{
    if (!broker.core)
        return;
    say ("broker", "is stopped for %lld ms", (long long) ms);
    broker.stopped_ms = sim.now_ms + ms;
}

void broker_new (void)
{
    broker = (broker_t){ .start_ms = sim.now_ms };
}

void broker_free (void)
{
    if (broker.core || broker.journal)
        end (false, "the seed is over");
}
