/* sim_broker.c - a broker's life: wm_campaign, wm_core and wm_recorder as they are, on the disk
   that loses its power, with links for listeners; the loop is that of wm_reactor_run, in virtual
   time.  */
#include "broker/campaign/wm_campaign.h"
#include "broker/campaign/wm_restore.h"
#include "broker/wm_recorder.h"
#include "tests/sim/sim.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP_RECORDS 256
#define OPERATORS 8 /* that wait for an answer */
#define TICK_MS 250

typedef struct {
    wm_campaign_t campaign;
    wm_core_t *core;
    wm_recorder_t *recorder;
    bool up; /* it takes connections */
    int64_t next_ms, ticked_ms, start_ms, stopped_ms;
    size_t n_appended;
    bool fetch_failed;
    wm_key_t fetch_key;
    uint32_t fetch_session;
    operator_t operator[OPERATORS];
} broker_t;

static broker_t broker;
static jmp_buf end_of_process;
static bool in_process;

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

const wm_campaign_t *broker_campaign (void)
{
    return &broker.campaign;
}

static bool is_dead (void)
{
    return wm_recorder_fault (broker.recorder, NULL) != WM_OK;
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

/* ---- handles --------------------------------------------------------------------------------- */

static handle_t *handle_new (const packet_t *packet)
{
    handle_t *handle = malloc (sizeof *handle + packet->data_bytes);
    if (!handle)
        abort ();
    *handle = (handle_t){ .refs = 1, .bytes = packet->bytes, .data_bytes = packet->data_bytes };
    memcpy (handle->data, packet->data + packet->header_bytes, packet->data_bytes);
    return handle;
}

void handle_ref (void *context, void *handle)
{
    (void) context;
    ((handle_t *) handle)->refs++;
}

void handle_unref (void *context, void *handle)
{
    (void) context;
    if (--((handle_t *) handle)->refs == 0)
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
    handle_unref (NULL, handle);
}

/* ---- sending --------------------------------------------------------------------------------- */

link_t *link_of_session (uint32_t session)
{
    for (size_t i = 0; session && i < LINKS; i++)
        if (sim.link[i].used && sim.link[i].session == session)
            return &sim.link[i];
    return NULL;
}

void broker_transmit (link_t *link, const wm_msg_t *msg, const wm_payload_t *payload)
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
        log_event ("broker", "-> %s %u: %s", link->role == WM_ROLE_WORKER ? "worker" : "producer",
                   link->peer ? link->peer->index : 99, msg_text (msg, bytes));
    link_send (link, false, msg, data, data_bytes, bytes);
}

/* 0: a place for one more.  */
static operator_t *operator_of (uint32_t session)
{
    for (size_t i = 0; i < OPERATORS; i++)
        if (broker.operator[i].session == session)
            return &broker.operator[i];
    return NULL;
}

static void on_send (void *context, uint32_t session, const wm_msg_t *msg,
                     const wm_payload_t *payload)
{
    (void) context;
    link_t *link = link_of_session (session);
    if (link && !bug_sends (link, msg, payload))
        broker_transmit (link, msg, payload);
    operator_t *operator= operator_of (session);
    if (operator&& msg->type == WM_MSG_ACK) {
        standing_acked (operator);
        operator->is_answered = true;
    }
}

static void on_drop (void *context, uint32_t session)
{
    (void) context;
    link_t *link = link_of_session (session);
    operator_t *operator= operator_of (session);
    if (operator)
        operator->session = 0;
    if (!link)
        return;
    if (broker.core && broker.up)
        served_ended (broker.core, link);
    if (link->peer)
        worker_misfortune (link->peer, link);
    link->session = 0;
}

static void on_log (void *context, const char *text)
{
    (void) context;
    log_event ("broker", "%s", text);
}

static void on_model (void *context, uint32_t session, uint64_t offset)
{
    (void) context, (void) session, (void) offset;
}

static void on_status (void *context, uint32_t session)
{
    (void) context, (void) session;
}

static void on_fetch (void *context, uint32_t session, const wm_msg_t *results,
                      const wm_place_t *place)
{
    (void) context;
    link_t *link = link_of_session (session);
    if (!link)
        return;
    wm_record_t record;
    sim.fetched = results->key;
    wm_error_t error = { .text = "the journal has another record where a result should be" };
    const wm_record_t *current = wm_recorder_current (broker.recorder);
    if (current)
        record = *current;
    if ((!current && wm_journal_read (broker.campaign.journal, place, &record, &error) != WM_OK) ||
        record.type != WM_RECORD_RESULT ||
        memcmp (&record.key, &results->key, sizeof record.key) != 0) {
        check_unreadable (&results->key, error.text);
        broker.fetch_failed = true;
        broker.fetch_key = results->key;
        broker.fetch_session = session;
        return;
    }
    wm_msg_t msg = *results;
    snprintf (msg.text, sizeof msg.text, "%.*s", (int) record.text_bytes,
              record.text ? record.text : "");
    broker_transmit (link, &msg, &(wm_payload_t){ NULL, record.payload, record.payload_bytes });
}

static void on_append (void *context, const wm_record_t *record, const wm_payload_t *body)
{
    (void) context;
    check_appended (record, body ? body->data : NULL, body ? body->bytes : 0);
    wm_recorder_append (broker.recorder, record, body);
}

static void on_left (void *context, const wm_core_worker_t *worker)
{
    (void) context;
    if (broker.recorder) /* not while the core of a dead broker is freed */
        wm_recorder_left (broker.recorder, worker);
}

/* The core has returned: what it appended goes into the journal, failures are reported to it.  */
static void settle (void)
{
    if (broker.fetch_failed) {
        broker.fetch_failed = false;
        wm_core_damaged (broker.core, broker.fetch_key, broker.fetch_session, sim.now_ms);
    }
    for (size_t i = 0; i < OPERATORS; i++)
        if (broker.operator[i].session && broker.operator[i].is_answered)
            wm_core_closed (broker.core, broker.operator[i].session, sim.now_ms);
    broker.n_appended = wm_recorder_settle (broker.recorder);
    if (!is_dead ())
        check_core (broker.core);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void closed (link_t *link)
{
    link->broker_end = false;
    uint32_t session = link->session;
    if (session && bug_closes (link)) {
        link->session = 0; /* the end is not reported to the core, which keeps the session */
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

static void hang_up (link_t *link)
{
    if (link->peer)
        worker_misfortune (link->peer, link);
    link_hang_up (link);
    closed (link);
}

/* Whether this session holds a lease of the batch that is still its own.  */
static bool is_leased (const link_t *link, const wm_key_t *key)
{
    const batch_t *batch = wm_core_batch_find (broker.core, key);
    for (const lease_t *lease = batch ? batch->lease : NULL; lease; lease = lease->other)
        if (lease->worker->id == link->session)
            return true;
    return false;
}

/* Whether no NEED holds bytes for this BATCH any more.  */
static bool is_late (const link_t *link, const wm_msg_t *msg)
{
    const batch_t *batch = wm_core_batch_find (broker.core, &msg->key);
    return !link->hostile && !(batch && batch->flags & BATCH_ASKED);
}

static void receive (link_t *link, packet_t *packet)
{
    if (link->is_known && !link->session)
        return;
    const size_t header_bytes = packet_unseal (link, true, packet);
    if (!header_bytes && sim.bug != BUG_SEAL_IGNORED) { /* as damaged () of wm_reactor.c */
        log_event ("broker", "a message of %s is damaged",
                   link->peer ? link->peer->label : "a closed link");
        hang_up (link);
        return;
    }
    if (!link->is_known) {
        link->session = wm_core_open (broker.core, link->role, sim.now_ms);
        link->is_known = true;
        if (!link->session) {
            fail ("no session for a peer, and there are few");
            return;
        }
    }
    wm_msg_t msg;
    wm_error_t error;
    sim.count.messages++;
    if (wm_msg_decode (&msg, packet->data, header_bytes ? header_bytes : packet->header_bytes - 8,
                       &error) != WM_OK) {
        wm_core_reject (broker.core, link->session, WM_REASON_PROTOCOL, error.text);
        settle ();
        return;
    }
    if (msg.type != WM_MSG_HEARTBEAT)
        log_event ("broker", "<- %s %u: %s", link->role == WM_ROLE_WORKER ? "worker" : "producer",
                   link->peer ? link->peer->index : 99, msg_text (&msg, packet->bytes));
    if (msg.type == WM_MSG_CREDIT && msg.count > link->granted)
        link->granted = msg.count;
    if (msg.type == WM_MSG_NACK && link->peer)
        worker_lent (link->peer, &msg.key, false);
    if ((msg.type == WM_MSG_NACK || msg.type == WM_MSG_RESULT) && is_leased (link, &msg.key))
        check_answered (link, msg.type == WM_MSG_NACK && msg.code != WM_EAGAIN);
    handle_t *handle = packet->has_payload ? handle_new (packet) : NULL;
    wm_payload_t payload = { handle, handle ? handle->data : NULL, packet->bytes };
    if (msg.type == WM_MSG_BATCH) {
        link->owed_ms = 0;
        link->n_batch++;
        sim.count.late += is_late (link, &msg);
    }
    check_came (broker.core, link, &msg);
    if (msg.type == WM_MSG_SUBMIT && sim.kind == CLIENTS && !link->hostile)
        served_submitted (&msg, &payload);
    const bool due = check_alarm_due (link, &msg, handle ? &payload : NULL);
    const uint64_t alarms = broker.core->totals.n_alarm;
    const check_before_t before = check_compare_begin (broker.core, link, &msg);
    if (!bug_receives (link, &msg, handle ? &payload : NULL))
        wm_core_message (broker.core, link->session, &msg, handle ? &payload : NULL, sim.now_ms);
    link->heard_ms = broker.core->now_ms;
    check_alarm (broker.core, &msg, due, broker.core->totals.n_alarm - alarms);
    check_compare_end (broker.core, &before, handle ? &payload : NULL);
    check_taken (broker.core, link, &msg);
    if (handle)
        handle_unref (NULL, handle);
    settle ();
}

static void read_all (void)
{
    uint32_t first = roll (LINKS);
    for (uint32_t i = 0; i < LINKS && !is_dead (); i++) {
        link_t *link = &sim.link[(first + i) % LINKS];
        packet_t *packet;
        while (link->used && link->broker_end && !is_dead () && broker.n_appended < GROUP_RECORDS &&
               (packet = link_take (link, true))) {
            receive (link, packet);
            free (packet);
        }
        if (link->used && link->broker_end && link->up_closed_ms <= sim.now_ms && !link->up.head)
            closed (link);
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void tick (void)
{
    if (sim.now_ms - broker.ticked_ms < TICK_MS)
        return;
    bug_ticks (broker.ticked_ms);
    broker.ticked_ms = sim.now_ms;
    wm_core_tick (broker.core, sim.now_ms);
    if (roll (40) == 0) {
        const wm_record_t told = standing_tell ();
        wm_recorder_note (broker.recorder, &told);
    }
    settle ();
    if (!is_dead ()) {
        check_tail (broker.core);
        check_needs (broker.core);
    }
}

static void loop (void)
{
    if (sim.bug == BUG_WALL_CLOCK)
        tick ();
    read_all ();
    if (!is_dead ())
        tick ();
    if (!is_dead ())
        broker.n_appended = wm_recorder_turn (broker.recorder);
    if (!is_dead ())
        check_core (broker.core);
}

static void next (void)
{
    broker.next_ms = broker.ticked_ms + TICK_MS;
    if (broker.n_appended)
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

/* ---- start and end --------------------------------------------------------------------------- */

static void end (bool is_power_cut, const char *why)
{
    log_event ("broker", "dies: %s", why);
    in_process = false;
    check_journal_abandon ();
    broker.up = false;
    for (size_t i = 0; i < LINKS; i++)
        if (sim.link[i].used && sim.link[i].broker_end)
            link_broker_died (&sim.link[i]);
    sim_disk_power (0); /* what destroying does must not reach the disk */
    wm_recorder_destroy (&broker.recorder);
    wm_core_destroy (&broker.core);
    wm_campaign_close (&broker.campaign);
    if (sim.held_bytes)
        fail ("a core that is gone holds %llu bytes", (unsigned long long) sim.held_bytes);
    sim_disk_come_back (is_power_cut);
    if (sim.faults.ledger_spoils && roll (sim.faults.ledger_spoils) == 0)
        sim_disk_spoil_ledger ();
    sim.count.restarts++;
    sim.count.powercuts += is_power_cut;
    int64_t start_ms = sim.now_ms + 100 +
                       roll (sim.calm                                ? 1000
                             : sim.kind == ONLY_CUTS || chance (800) ? 2000
                                                                     : 20000);
    broker = (broker_t){ .start_ms = start_ms, .campaign.lock_fd = -1 };
}

static wm_fault_t see (void *argument, const wm_record_t *record, const wm_place_t *place,
                       wm_error_t *error)
{
    (void) argument, (void) place, (void) error;
    check_journal_record (record);
    return WM_OK;
}

/* What the journal has, judged by itself.  */
static wm_fault_t check_journal (wm_error_t *error)
{
    wm_journal_found_t found;
    wm_journal_t *journal = wm_journal_open ("/sim", &sim_disk_ops, error);
    if (!journal)
        return error->fault;
    check_journal_begin ();
    wm_fault_t fault = wm_journal_replay (journal, 0, 0, see, NULL, &found, error);
    if (!fault)
        check_journal_end ();
    if (!fault && found.n_lost && !sim.rotten)
        fail ("the journal reports damage: %s", found.text);
    wm_journal_destroy (&journal);
    return fault;
}

static wm_fault_t campaign_open (wm_error_t *error)
{
    static wm_pins_t pins = { .precision = "fp32",
                              .n_output = N_OUTPUT,
                              .n_value = 1,
                              .batch_hits = 4096,
                              .batch_bytes = WM_RAW_BYTES_MAX };
    snprintf (pins.serves, sizeof pins.serves, "%s", sim.kind == CLIENTS ? "clients" : "");
    memset (pins.model, 'a', 64);
    memset (pins.wmm, 'b', 64);
    broker.campaign = (wm_campaign_t){ .dir = "/sim", .lock_fd = -1 };
    wm_fault_t fault = check_journal (error);
    if (!fault)
        fault = wm_campaign_open (&broker.campaign, NULL, &sim_disk_ops, error);
    return fault ? fault : wm_campaign_start (&broker.campaign, &pins, error);
}

static int64_t now_ms (void)
{
    return sim.now_ms;
}

static int64_t unix_s (void)
{
    return 1700000000 + sim.now_ms / 1000;
}

static wm_fault_t core_begin (wm_error_t *error)
{
    const wm_core_config_t config = { .campaign = { 7 },
                                      .pins_digest = { 9 },
                                      .pins = "pins",
                                      .pins_bytes = 4,
                                      .n_output = N_OUTPUT,
                                      .peers_max = WM_PEERS_MAX,
                                      .stray_max = sim.seed % 2 ? 2 : 0, /* some wait for it */
                                      .for_clients = sim.kind == CLIENTS,
                                      .check_share = sim.check_share,
                                      .measures = sim.kind != CLIENTS && sim.seed % 3 == 0,
                                      .check_key = { (uint8_t) sim.seed },
                                      .epoch = broker.campaign.epoch,
                                      .budget_bytes =
                                          BUDGET_BYTES * (sim.bug == BUG_BUDGET_IGNORED ? 4 : 1),
                                      .times = *wm_times (),
                                      .now_ms = sim.now_ms };
    const wm_core_sink_t sink = { .send = on_send,
                                  .append = on_append,
                                  .fetch = on_fetch,
                                  .model = on_model,
                                  .status = on_status,
                                  .left = on_left,
                                  .drop = on_drop,
                                  .hold = on_hold,
                                  .release = on_release,
                                  .log = on_log };
    broker.core = wm_core_new (&config, &sink);
    if (!broker.core)
        abort ();
    broker.recorder =
        wm_recorder_new (&(wm_recorder_config_t){ .core = broker.core,
                                                  .journal = broker.campaign.journal,
                                                  .ledger = broker.campaign.ledger,
                                                  .epoch = broker.campaign.epoch,
                                                  .keeps_nothing = sim.kind == CLIENTS,
                                                  .now_ms = now_ms,
                                                  .unix_s = unix_s,
                                                  .hold = handle_ref,
                                                  .release = handle_unref });
    uint64_t n_gone = 0;
    wm_fault_t fault =
        wm_restore (broker.core, broker.campaign.ledger, broker.campaign.journal, &n_gone, error);
    if (fault)
        return fault;
    if (n_gone && !sim.rotten)
        fail ("%llu results of the ledger are not in the journal", (unsigned long long) n_gone);
    sim.blames =
        broker.core->totals.n_fail + broker.core->totals.n_lost; /* the ledger keeps them */
    check_restored (broker.core);
    check_core (broker.core);
    wm_journal_sweep (broker.campaign.journal);
    return WM_OK;
}

static void begin (void)
{
    wm_error_t error = { 0 };
    log_event ("broker", "starts");
    if (sim.bug == BUG_TAIL_TRUNCATED)
        sim_disk_truncate_tail ();
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
    log_event ("broker", "runs, epoch %llu", (unsigned long long) broker.campaign.epoch);
    broker.up = true;
    broker.ticked_ms = sim.now_ms;
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
        wm_error_t error;
        if (wm_recorder_fault (broker.recorder, &error)) {
            if (!sim_disk_is_gone ())
                fail ("the disk refuses: %s", error.text);
            end (true, "its disk is gone");
        } else
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
    broker.up = false;
    wm_recorder_stop (broker.recorder, "the broker stops");
    end (is_dead (), "stopped cleanly");
}

/* What an operator's CONTROL does.  */
void broker_control (const char *word, const char *text)
{
    if (!broker.up)
        return;
    in_process = true;
    if (setjmp (end_of_process)) {
        end (sim_disk_is_gone () || chance (500), "an fsync failed");
        return;
    }
    log_event ("operator", "%s %s", word, text);
    if (strcmp (word, "resume") == 0)
        sim.paused_promised = false;
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
    snprintf (msg.text, sizeof msg.text, "%s", text);
    operator_t *operator= operator_of (0);
    const bool pauses = strcmp (word, "pause") == 0;
    const bool waits = operator&& (pauses || strcmp (word, "resume") == 0);
    if (waits)
        *operator= (operator_t){ .session = session };
    sim.is_ordered = true;
    wm_core_message (broker.core, session, &msg, NULL, sim.now_ms);
    sim.is_ordered = false;
    if (waits)
        standing_ordered (operator, pauses);
    else
        wm_core_closed (broker.core, session, sim.now_ms);
    settle ();
    in_process = false;
}

void broker_stall (int64_t ms)
{
    if (!broker.core)
        return;
    log_event ("broker", "is stopped for %lld ms", (long long) ms);
    broker.stopped_ms = sim.now_ms + ms;
}

void broker_new (void)
{
    broker = (broker_t){ .start_ms = sim.now_ms, .campaign.lock_fd = -1 };
}

void broker_free (void)
{
    if (broker.core || broker.campaign.journal)
        end (false, "the seed is over");
}
