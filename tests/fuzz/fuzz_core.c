/* fuzz_core.c - the broker's core under any sequence of messages, of up to eight sessions at once.

   Input: a byte that chooses the campaign, then steps. The first byte of a step chooses what
   happens: a session is opened or closed, sends a message whose fields are taken from the bytes
   behind, a record becomes durable, time passes. Keys, paths and instances come from few, so that
   messages meet each other. After each step the simulator's sums must hold (check_core), and no
   acknowledgement may leave before its record is durable.  */
#include "tests/sim/sim_check.c" /* its invariants; there is no world of the simulator here */
#include "tests/sim/sim_served.c"
#include "tests/sim/sim_standing.c"

#include "tests/fuzz/fuzz.h"

#include <stdarg.h>

const size_t fuzz_bytes_max = 16u << 20;

#define SLOTS 8
#define STEPS_MAX 400
#define KEYS 4

typedef struct {
    uint32_t id; /* of its session; 0: none */
    wm_role_t role;
} slot_t;

static wm_core_t *core;
static slot_t slots[SLOTS];
static int64_t now_ms;
static long n_handle; /* references that the core holds */
static bool no_disk;  /* notes cannot be written */
static struct {
    wm_record_type_t type;
    wm_key_t key;
    uint8_t digest[16];
    uint64_t n_hit, n_batch;
} * waiting;                     /* records that are not durable, oldest first */
static const wm_msg_t *answered; /* the message that the core handles now; NULL: none */
static size_t n_waiting, waiting_max;
static uint8_t journalled[KEYS + 1][KEYS][KEYS]; /* RESULT records of a batch */
static uint32_t generation[KEYS + 1];            /* of the last KICK record */

/* ---- in place of the simulator's world ------------------------------------------------------- */

sim_t sim;

void fail (const char *format, ...)
{
    char text[600];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    fuzz_fail (text, "tests/sim/sim_check.c", 0);
}

uint32_t roll (uint32_t sides)
{
    (void) sides;
    return 0;
}
bool chance (uint32_t permille)
{
    (void) permille;
    return false;
}
bool sim_disk_is_gone (void)
{
    return false;
}
void worker_lent (peer_t *peer, const wm_key_t *key, bool lent)
{
    (void) peer, (void) key, (void) lent;
}
wm_core_t *broker_core (void)
{
    return core;
}

/* ---- what the core does ---------------------------------------------------------------------- */

static slot_t *slot_of (uint32_t session)
{
    for (int i = 0; i < SLOTS; i++)
        if (session && slots[i].id == session)
            return &slots[i];
    return NULL;
}

/* Whether a record of this type waits that is of the key's event, or of its input.  */
static bool is_waiting (wm_record_type_t type, const wm_key_t *key, bool of_event)
{
    for (size_t i = 0; i < n_waiting; i++) {
        const wm_key_t *its = &waiting[i].key;
        if (waiting[i].type == type && its->input == key->input &&
            (!of_event || (its->generation == key->generation && its->ordinal == key->ordinal)))
            return true;
    }
    return false;
}

/* Whether this acknowledges a result that is not durable. One of other data than the batch has is
   not wanted, which an acknowledgement states, too.  */
static bool is_early (const wm_key_t *key)
{
    for (size_t i = 0; i < n_waiting; i++)
        if (waiting[i].type == WM_RECORD_RESULT &&
            memcmp (&waiting[i].key, key, sizeof *key) == 0 &&
            (!answered || answered->type != WM_MSG_RESULT ||
             (memcmp (waiting[i].digest, answered->digest, 16) == 0 &&
              waiting[i].n_hit == answered->n_hit && waiting[i].n_batch == answered->n_batch)))
            return true;
    return false;
}

/* There is no disk here.  */
const wm_campaign_t *broker_campaign (void)
{
    return NULL;
}

/* A session that is over has no connection.  */
link_t *link_of_session (uint32_t session)
{
    static link_t any;
    return slot_of (session) ? &any : NULL;
}

static void on_send (void *context, uint32_t session, const wm_msg_t *msg,
                     const wm_payload_t *payload)
{
    (void) context;
    static wm_msg_t back;
    uint8_t frame[WM_HEADER_BYTES_MAX];
    wm_error_t error;
    const slot_t *slot = slot_of (session);
    FUZZ_CHECK (slot && wm_msg_is_for (msg->type, slot->role));
    FUZZ_CHECK ((payload != NULL) == wm_msg_has_payload (msg->type));
    FUZZ_CHECK (!wm_msg_decode (&back, frame, wm_msg_encode (msg, frame), &error));
    if (msg->type == WM_MSG_RESULT_ACK)
        FUZZ_CHECK (!is_early (&msg->key));
    if (msg->type == WM_MSG_EVENT_DONE)
        FUZZ_CHECK (!is_waiting (WM_RECORD_RESULT, &msg->key, true));
    if (msg->type == WM_MSG_INPUT_ACK && msg->code == WM_INPUT_CLAIMED)
        FUZZ_CHECK (!is_waiting (WM_RECORD_INPUT, &msg->key, false));
    if (msg->type == WM_MSG_ACK && msg->code == WM_MSG_FILE_WRITTEN)
        FUZZ_CHECK (!is_waiting (WM_RECORD_FILE_WRITTEN, &msg->key, false));
    if (msg->type == WM_MSG_ACK && msg->code == WM_MSG_INPUT_END)
        FUZZ_CHECK (!is_waiting (WM_RECORD_INPUT_END, &msg->key, false));
}

static void on_append (void *context, const wm_record_t *record, const wm_payload_t *body)
{
    (void) context;
    const wm_key_t key = record->key;
    FUZZ_CHECK (wm_record_stands (record->type) ||
                (body != NULL) == (record->type == WM_RECORD_RESULT));
    if (n_waiting == waiting_max) {
        waiting_max = waiting_max ? 2 * waiting_max : 64;
        waiting = realloc (waiting, waiting_max * sizeof *waiting);
        FUZZ_CHECK (waiting);
    }
    waiting[n_waiting].type = (wm_record_type_t) record->type;
    memcpy (waiting[n_waiting].digest, record->digest, 16);
    waiting[n_waiting].n_hit = record->n_hit;
    waiting[n_waiting].n_batch = record->n_batch;
    waiting[n_waiting++].key = key;
    FUZZ_CHECK (key.input <= KEYS);
    if (record->type == WM_RECORD_FILE_LOST || record->type == WM_RECORD_KICK)
        memset (journalled[key.input], 0, sizeof journalled[0]);
    if (record->type == WM_RECORD_KICK)
        generation[key.input] = key.generation;
    if (record->type == WM_RECORD_RESULT && key.ordinal < KEYS && key.batch < KEYS &&
        key.generation >= generation[key.input]) /* else it was on its way when it was kicked */
        FUZZ_CHECK (!journalled[key.input][key.ordinal][key.batch]++);
}

static void on_fetch (void *context, uint32_t session, const wm_msg_t *results,
                      const wm_place_t *place)
{
    (void) context, (void) place;
    FUZZ_CHECK (slot_of (session) && results->type == WM_MSG_RESULTS);
}

static void on_offset (void *context, uint32_t session, uint64_t offset)
{
    (void) context, (void) offset;
    FUZZ_CHECK (slot_of (session));
}

static int on_sample (void *context, uint32_t session, const wm_msg_t *trial, const char *table,
                      const wm_place_t *place)
{
    (void) place;
    const wm_payload_t payload = { .data = table, .bytes = strlen (table) + 1 };
    if (no_disk)
        return -1;
    on_send (context, session, trial, &payload);
    return 0;
}

static void on_status (void *context, uint32_t session)
{
    (void) context;
    FUZZ_CHECK (slot_of (session));
}

static void on_history (void *context, uint32_t session, bool is_of_workers, uint64_t from)
{
    (void) is_of_workers, (void) from;
    on_status (context, session);
}

static void on_files (void *context, uint32_t session, uint32_t from, const char *name)
{
    (void) context;
    FUZZ_CHECK (slot_of (session));
    for (uint32_t id = from;
         (id = name ? wm_core_named_from (core, id, name) : wm_core_held_from (core, id)); id++) {
        wm_core_known_t known;
        FUZZ_CHECK (wm_core_known (core, id, &known));
    }
}

static void on_drop (void *context, uint32_t session)
{
    (void) context;
    slot_t *slot = slot_of (session);
    FUZZ_CHECK (slot);
    slot->id = 0;
}

static void on_hold (void *context, void *pointer)
{
    (void) context;
    handle_t *handle = pointer;
    n_handle++;
    handle->refs++;
    if (!handle->held++)
        sim.held_bytes += handle->bytes;
}

static void unref (handle_t *handle)
{
    if (--handle->refs == 0)
        free (handle);
}

static void on_release (void *context, void *pointer)
{
    (void) context;
    handle_t *handle = pointer;
    n_handle--;
    if (!--handle->held)
        sim.held_bytes -= handle->bytes;
    unref (handle);
}

static void on_log (void *context, const char *text)
{
    (void) context;
    FUZZ_CHECK (strlen (text) < 4096);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* One of few: 2 bits each of input, event and batch; the generation that the input has, or 1.  */
static wm_key_t take_key (fuzz_take_t *in)
{
    const uint8_t bits = (uint8_t) fuzz_take (in, 1);
    wm_key_t key = { 1 + bits % KEYS, bits / 4 % KEYS, bits / 16 % KEYS, 1 };
    const input_t *input = wm_core_input_find (core, key.input);
    if (bits / 64 < 3)
        key.generation = input ? input->generation : 0;
    return key;
}

static uint32_t hits_of (const wm_key_t *key)
{
    return 1 + (key->input + key->ordinal + key->batch) % 3;
}

static void digest_of (const wm_key_t *key, uint8_t change, uint8_t digest[16])
{
    memset (digest, 0, 16);
    digest[0] = (uint8_t) key->input;
    digest[1] = (uint8_t) key->ordinal;
    digest[2] = (uint8_t) key->batch;
    digest[15] = change < 8 ? change : 0;
}

/* A handle of the core's, as the reactor makes one of a payload frame.  */
static void say (uint32_t session, const wm_msg_t *msg, const void *data, size_t bytes)
{
    if (!data)
        bytes = 0;
    handle_t *handle = calloc (1, sizeof *handle + bytes);
    FUZZ_CHECK (handle);
    *handle = (handle_t){ .refs = 1, .bytes = msg->type == WM_MSG_BATCH ? bytes : 0 };
    if (bytes)
        memcpy (handle->data, data, bytes);
    const wm_payload_t payload = { handle, handle->data, bytes };
    answered = msg;
    wm_core_message (core, session, msg, data ? &payload : NULL, now_ms);
    answered = NULL;
    unref (handle);
}

static void say_hello (fuzz_take_t *in, const slot_t *slot)
{
    wm_hello_held_t held[3];
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    const uint8_t who = (uint8_t) fuzz_take (in, 1), n = (uint8_t) fuzz_take (in, 1) % 4;
    msg.protocol = who < 250 ? WM_PROTOCOL : who;
    msg.role = who < 240 ? slot->role : who % 5;
    msg.instance[0] = who % 4;
    snprintf (msg.name, sizeof msg.name, "hostile:%u", who % 4); /* so the simulator excuses it */
    snprintf (msg.text, sizeof msg.text, "engine-%u/v1", who / 4 % 2);
    strcpy (msg.class, who / 8 % 4 ? "x86-64" : "");
    msg.error = who / 32 % 2 ? 1e-3 : 0;
    msg.n_hit = who / 32 % 2 ? 100 : 0;
    for (uint8_t i = 0; i < n; i++) {
        held[i].key = take_key (in);
        held[i].n_hit = hits_of (&held[i].key);
        held[i].unacked = (uint32_t) fuzz_take (in, 1) % 2;
        digest_of (&held[i].key, 0, held[i].digest);
    }
    say (slot->id, &msg, held, n * sizeof *held);
}

static void say_input (fuzz_take_t *in, const slot_t *slot)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    const uint8_t which = (uint8_t) fuzz_take (in, 1);
    msg.code = which / 4 % 2;
    msg.size = 100 + which / 128;
    msg.mtime_ns = 5;
    snprintf (msg.path, sizeof msg.path, "/data/%u.h5", which % KEYS);
    snprintf (msg.name, sizeof msg.name, "%u.scores.h5", which / 8 % 8 ? which % KEYS : 0);
    say (slot->id, &msg, NULL, 0);
}

static void say_submit (fuzz_take_t *in, const slot_t *slot)
{
    struct {
        wm_manifest_batch_t batch[KEYS];
        wm_manifest_held_t held[2];
    } lines = { 0 };
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = take_key (in);
    msg.key.batch = 0;
    const uint8_t how = (uint8_t) fuzz_take (in, 1), change = (uint8_t) fuzz_take (in, 1);
    msg.n_batch = how % (KEYS + 1);
    msg.n_held = how / 8 % 3;
    msg.n_hit = msg.n_held + (how == 255);
    for (uint32_t b = 0; b < msg.n_batch; b++) {
        wm_key_t key = msg.key;
        key.batch = b;
        digest_of (&key, change, lines.batch[b].digest);
        lines.batch[b].n_hit = hits_of (&key);
        lines.batch[b].raw_bytes = how / 32 % 2 ? WM_RAW_BYTES_MAX : 1000;
        msg.n_hit += lines.batch[b].n_hit;
    }
    for (uint32_t i = 0; i < msg.n_held; i++)
        memcpy ((uint8_t *) &lines + msg.n_batch * sizeof *lines.batch + i * sizeof *lines.held,
                &(wm_manifest_held_t){ i, WM_HIT_BAD_TIME }, sizeof *lines.held);
    say (slot->id, &msg, &lines,
         msg.n_batch * sizeof *lines.batch + msg.n_held * sizeof *lines.held + (how == 254));
}

static void say_batch (fuzz_take_t *in, const slot_t *slot)
{
    static const uint8_t zeros[4096];
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_BATCH);
    msg.key = take_key (in);
    digest_of (&msg.key, (uint8_t) fuzz_take (in, 1), msg.digest);
    say (slot->id, &msg, zeros, fuzz_take (in, 2) % sizeof zeros);
}

static void say_result (fuzz_take_t *in, const slot_t *slot)
{
    uint8_t scores[8 * (1 + 4 * N_OUTPUT)] = { 0 };
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_RESULT);
    msg.key = take_key (in);
    const uint8_t how = (uint8_t) fuzz_take (in, 1), change = (uint8_t) fuzz_take (in, 1);
    digest_of (&msg.key, change, msg.digest);
    msg.n_batch = how % (KEYS + 1);
    msg.n_hit = hits_of (&msg.key) + (how >= 250);
    msg.attempt = how / 8 % 4;
    snprintf (msg.text, sizeof msg.text, "engine-%u/v1", how / 32 % 2);
    snprintf (msg.name, sizeof msg.name, "%s", how / 64 % 2 ? "again" : "");
    fuzz_take_bytes (in, scores, change % 4 == 3 ? sizeof scores : 0);
    say (slot->id, &msg, scores, wm_result_bytes (msg.n_hit, N_OUTPUT) + (how == 249));
}

static void say_control (fuzz_take_t *in, const slot_t *slot)
{
    static const char *const name[] = { "drain",      "pause",  "resume",  "kick", "files",
                                        "held-files", "kick",   "unknown", "",     "history",
                                        "workers",    "ledger", "trust" };
    static const char *const text[] = { "",  "/data/1.h5", "1", "2", "hostile:1",
                                        "0", "1 a.h5",     "x", "/" };
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    strcpy (msg.name, name[fuzz_take (in, 1) % (sizeof name / sizeof *name)]);
    strcpy (msg.text, text[fuzz_take (in, 1) % (sizeof text / sizeof *text)]);
    say (slot->id, &msg, NULL, 0);
}

/* Any type, with fields that are sound for the decoder and no more.  */
static void say_any (fuzz_take_t *in, const slot_t *slot)
{
    static const uint64_t border[] = { 0, 1, 2, 3, 5, 100, UINT32_MAX, UINT64_MAX };
    uint8_t data[256];
    wm_msg_t msg;
    wm_msg_init (&msg, (wm_msg_type_t) (1 + fuzz_take (in, 1) % (WM_MSG_TYPE_END - 1)));
    msg.key = take_key (in);
    const uint8_t how = (uint8_t) fuzz_take (in, 1);
    const uint64_t number = border[how % 8];
    if (how / 64 == 3)
        msg.key.batch = WM_ALL;
    if (how / 64 == 2)
        msg.key.ordinal = msg.key.batch = WM_ALL;
    digest_of (&msg.key, 0, msg.digest);
    msg.code = how / 8 % 8;
    msg.n_batch = (uint32_t) fuzz_take (in, 1);
    msg.n_hit = (uint32_t) number;
    msg.attempt = (uint32_t) fuzz_take (in, 1);
    msg.count = msg.received = msg.offset = msg.size = msg.epoch = number;
    strcpy (msg.text, how / 8 % 2 ? "engine-0/v1" : "");
    strcpy (msg.name, how / 16 % 2 ? "0.scores.h5" : "");
    const size_t bytes = fuzz_take_bytes (in, data, fuzz_take (in, 1));
    say (slot->id, &msg, wm_msg_has_payload (msg.type) || how == 255 ? data : NULL, bytes);
}

/* ---- steps ----------------------------------------------------------------------------------- */

enum {
    OPEN,
    HELLO,
    INPUT,
    SUBMIT,
    BATCH,
    CREDIT,
    RESULT,
    HEARTBEAT,
    CONTROL,
    DURABLE,
    TIME,
    CLOSED,
    ANY,
    OTHER,
    STEP_END
};

static void durable (size_t n)
{
    for (; n && n_waiting; n--) {
        static uint64_t sequence;
        const wm_place_t place = { 1 << 24, (uint32_t) sequence++, 100 };
        memmove (waiting, waiting + 1, --n_waiting * sizeof *waiting);
        wm_core_durable (core, &place, now_ms);
    }
}

static void step_other (fuzz_take_t *in, const slot_t *slot)
{
    static wm_summary_t summary;
    const uint8_t what = (uint8_t) fuzz_take (in, 1);
    if (what % 8 == 0)
        wm_core_disk_full (core, what & 8, now_ms);
    else if (what % 8 == 1)
        wm_core_reject (core, slot->id, WM_REASON_PROTOCOL, "undecodable");
    else if (what % 8 == 2) {
        const wm_key_t key = take_key (in);
        const batch_t *batch = wm_core_batch_find (core, &key);
        if (batch && batch->state == BATCH_RETURNED)
            journalled[key.input][key.ordinal][key.batch] = 0; /* it is scored again */
        wm_core_damaged (core, key, slot->id, now_ms);
    } else if (what % 8 == 3)
        wm_core_reads_only (core, slot->id);
    else if (what % 8 == 4)
        no_disk = what & 8;
    else if (what == 255)
        wm_core_stop (core, "the end");
    else {
        wm_core_summary (core, &summary);
        FUZZ_CHECK (summary.budget_used_bytes <= summary.budget_bytes);
    }
}

static void step (fuzz_take_t *in)
{
    const uint8_t what = (uint8_t) fuzz_take (in, 1) % STEP_END;
    slot_t *slot = &slots[fuzz_take (in, 1) % SLOTS];
    wm_msg_t msg;
    if (what == DURABLE)
        durable (1 + fuzz_take (in, 1) % 8);
    else if (what == TIME) {
        const uint64_t by = fuzz_take (in, 1) * 50, n = 1 + fuzz_take (in, 1) % 32;
        for (uint64_t i = 0; i < n; i++) {
            now_ms += (int64_t) by;
            wm_core_tick (core, now_ms);
        }
    } else if (what == OTHER)
        step_other (in, slot);
    else if (what == OPEN && !slot->id) {
        slot->role = (wm_role_t) (WM_ROLE_WORKER + (int) (fuzz_take (in, 1) % 3));
        slot->id = wm_core_open (core, slot->role, now_ms);
    } else if (!slot->id)
        return;
    else if (what == CLOSED) {
        wm_core_closed (core, slot->id, now_ms);
        FUZZ_CHECK (!slot->id);
    } else if (what == HELLO)
        say_hello (in, slot);
    else if (what == INPUT)
        say_input (in, slot);
    else if (what == SUBMIT)
        say_submit (in, slot);
    else if (what == BATCH)
        say_batch (in, slot);
    else if (what == RESULT)
        say_result (in, slot);
    else if (what == CONTROL)
        say_control (in, slot);
    else if (what == ANY)
        say_any (in, slot);
    else {
        wm_msg_init (&msg, what == CREDIT ? WM_MSG_CREDIT : WM_MSG_HEARTBEAT);
        msg.key = take_key (in);
        msg.count = msg.received = fuzz_take (in, 1);
        say (slot->id, &msg, NULL, 0);
    }
}

static void core_begin (uint8_t how)
{
    const wm_core_config_t config = { .campaign = { 7 },
                                      .pins_digest = { 9 },
                                      .pins = "pins",
                                      .pins_bytes = 4,
                                      .n_output = N_OUTPUT,
                                      .epoch = 1,
                                      .budget_bytes = BUDGET_BYTES,
                                      .peers_max = how & 1 ? SLOTS : 3,
                                      .stray_max = 4,
                                      .measures = how & 4,
                                      .mixed = how & 16,
                                      .now_ms = now_ms,
                                      .times = { .heartbeat_ms = 2000,
                                                 .silence_ms = 30000,
                                                 .reconnect_ms = 3000,
                                                 .lease_ms = 30000,
                                                 .handshake_ms = 3000,
                                                 .need_ms = 5000,
                                                 .gap_ms = 2000,
                                                 .group_commit_ms = 10 } };
    const wm_core_sink_t sink = { .send = on_send,
                                  .append = on_append,
                                  .fetch = on_fetch,
                                  .model = on_offset,
                                  .sample = on_sample,
                                  .status = on_status,
                                  .files = on_files,
                                  .history = on_history,
                                  .copy = on_status,
                                  .drop = on_drop,
                                  .hold = on_hold,
                                  .release = on_release,
                                  .log = on_log };
    core = wm_core_new (&config, &sink);
    FUZZ_CHECK (core);
    wm_record_t pause;
    wm_record_init (&pause, WM_RECORD_PAUSE);
    pause.code = how >> 1 & 1;
    wm_record_text (&pause, "by me");
    wm_core_restore_standing (core, &pause, &(wm_place_t){ 0 });
    pause.type = WM_RECORD_SAMPLE;
    if (how & 8)
        wm_core_restore_standing (core, &pause, &(wm_place_t){ 1 << 24, 8, 8 });
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    fuzz_take_t in = { data, data + size };
    now_ms = 1000000;
    no_disk = false;
    n_waiting = 0;
    sim.blames = UINT64_MAX; /* any message may be blamed here */
    memset (slots, 0, sizeof slots);
    memset (journalled, 0, sizeof journalled);
    memset (generation, 0, sizeof generation);
    core_begin ((uint8_t) fuzz_take (&in, 1));
    for (int i = 0; i < STEPS_MAX && in.at < in.end; i++) {
        step (&in);
        check_core (core);
    }
    durable (SIZE_MAX);
    check_core (core);
    wm_core_destroy (&core);
    FUZZ_CHECK (!n_handle && !sim.held_bytes);
    return 0;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

/* An input of two batches to its end; with a worker that leaves, comes back and repeats itself; and
   with an operator who kicks it.  */
void fuzz_seeds (void)
{
    static const uint8_t begin[] = { 1,     OPEN,   0,      1,       HELLO, 0,      0x18,  0,
                                     INPUT, 0,      0x0c,   DURABLE, 0,     7,      OPEN,  1,
                                     0,     HELLO,  1,      0x19,    0,     CREDIT, 1,     0,
                                     8,     SUBMIT, 0,      0,       2,     0,      BATCH, 0,
                                     0,     0,      100,    0,       BATCH, 0,      0x10,  0,
                                     200,   0,      RESULT, 1,       0,     2,      0 },
                         end[] = { RESULT,
                                   1,
                                   0x10,
                                   2,
                                   0,
                                   DURABLE,
                                   0,
                                   7,
                                   ANY,
                                   0,
                                   WM_MSG_INPUT_END - 1,
                                   0,
                                   1,
                                   0,
                                   0,
                                   0,
                                   DURABLE,
                                   0,
                                   7,
                                   ANY,
                                   0,
                                   WM_MSG_FETCH - 1,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0,
                                   ANY,
                                   0,
                                   WM_MSG_FILE_WRITTEN - 1,
                                   0,
                                   5,
                                   0,
                                   0,
                                   0,
                                   DURABLE,
                                   0,
                                   7 },
                         away[] = { CLOSED, 1,    TIME, 0,    10, 2,      OPEN, 1,  0, HELLO,
                                    1,      0x19, 1,    0x10, 1,  RESULT, 1,    0,  2, 0,
                                    RESULT, 1,    0,    2,    1,  TIME,   0,    39, 31 },
                         operator[] = { OPEN, 2,       2, HELLO, 2, 0x1a,    0, CONTROL, 2, 3,
                                        2,    CONTROL, 2, 1,     0, CONTROL, 2, 4,       0, CONTROL,
                                        2,    2,       0, OTHER, 2, 7 };
    uint8_t all[sizeof begin + sizeof end + sizeof away + sizeof operator];
    memcpy (all, begin, sizeof begin);
    memcpy (all + sizeof begin, end, sizeof end);
    fuzz_seed (all, sizeof begin + sizeof end);
    memcpy (all + sizeof begin, away, sizeof away);
    memcpy (all + sizeof begin + sizeof away, end, sizeof end);
    fuzz_seed (all, sizeof begin + sizeof away + sizeof end);
    memcpy (all + sizeof begin + sizeof away, operator, sizeof operator);
    memcpy (all + sizeof begin + sizeof away + sizeof operator, end, sizeof end);
    fuzz_seed (all, sizeof all);
    all[0] = 4; /* the arithmetic is measured */
    fuzz_seed (all, sizeof all);
}
