/* test_producer_sessions.c - a producer begins again where a session, an epoch or a claim ended.

   The real producer works on one input of many events, with a broker that fake_broker.h plays. This
   broker ends the session at a chosen message, which it does not handle, and from then on expects
   what the next session owes it:

   - no SUBMIT before the claim, none of another generation, at most 256 open events;
   - in a new epoch, or after a kick, every event again; INPUT_END in every session, after them;
   - FILE_WRITTEN after the ACK of this session's INPUT_END, and again where it had no ACK;
   - FETCH of events only that this generation has done.

   It reports events as done only when no more can be announced: a producer whose counts of open or
   kept events are wrong announces too few or too many. One that waits for ever is ended.  */
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include "tests/unit/fake_broker.h"
#include "producer/session/wm_produce.h"

#include <sys/stat.h>

#define EVENTS 600u
#define HITS 2u          /* an event */
#define STALL_TICKS 3000 /* of 5 ms without a word that leads on */
#define HEARTBEAT_TICKS 20
#define ACK_TICKS 10 /* INPUT_END is acknowledged when the producer was silent for so long */

/* Where the broker ends the session, or the claim.  */
typedef struct {
    wm_msg_type_t type;
    int count;  /* of these messages, in all */
    bool epoch; /* the next session is of a new epoch */
    bool kick;  /* the next claim is of a new generation */
    bool claim; /* the claim alone ends, at a FETCH */
} end_t;

typedef struct {
    bool announced, reported; /* in this session */
    bool known, done;         /* in this epoch and generation */
    wm_manifest_batch_t batch;
} event_t;

static struct {
    end_t end;
    bool ended; /* the session: nothing is answered until the next HELLO */
    int seen, idle, n_written;
    uint32_t generation, n_open;
    event_t event[EVENTS];
    bool claimed, end_sent, end_acked;
    uint8_t peer[64]; /* of this session */
    size_t peer_bytes;
    char broken[200]; /* the first promise that was broken */
} broker;

__attribute__ ((format (printf, 2, 3))) static void broke (fake_t *self, const char *format, ...)
{
    va_list list;
    va_start (list, format);
    if (!broker.broken[0])
        vsnprintf (broker.broken, sizeof broker.broken, format, list);
    va_end (list);
    fake_code (self, WM_MSG_DRAIN, 0, "");
}

static void answer (fake_t *self, wm_msg_type_t type, uint32_t ordinal, uint32_t code)
{
    wm_msg_t msg;
    wm_msg_init (&msg, type);
    msg.key = (wm_key_t){ .input = 1, .ordinal = ordinal, .generation = broker.generation };
    msg.code = code;
    fake_send (self, &msg, NULL, 0);
}

static void forget_epoch (void)
{
    for (uint32_t i = 0; i < EVENTS; i++)
        broker.event[i].known = broker.event[i].done = false;
}

static void forget_session (void)
{
    for (uint32_t i = 0; i < EVENTS; i++)
        broker.event[i].announced = broker.event[i].reported = false;
    broker.n_open = 0;
    broker.claimed = broker.end_sent = broker.end_acked = false;
}

/* Everything that is announced has its results.  */
static void all_done (fake_t *self)
{
    for (uint32_t i = 0; i < EVENTS; i++) {
        event_t *event = &broker.event[i];
        if (!event->announced || event->reported)
            continue;
        event->reported = event->done = true;
        answer (self, WM_MSG_EVENT_DONE, i, 0);
    }
    broker.n_open = 0;
}

static void kick (void)
{
    broker.generation++;
    forget_session ();
    forget_epoch ();
}

/* Ends what is to end at this message; true: it did.  */
static bool ends_here (fake_t *self, const wm_msg_t *msg)
{
    if (msg->type != broker.end.type || ++broker.seen != broker.end.count)
        return false;
    if (broker.end.kick)
        kick ();
    if (broker.end.claim) {
        wm_msg_t over;
        wm_msg_init (&over, WM_MSG_RESULTS);
        over.key = msg->key;
        over.code = WM_HIT_HELD;
        fake_send (self, &over, NULL, 0);
        return true;
    }
    self->epoch += broker.end.epoch;
    if (broker.end.epoch)
        forget_epoch ();
    broker.ended = true;
    fake_code (self, WM_MSG_BYE, WM_REASON_STOPPING, "the test ends this session");
    return true;
}

static void on_input (fake_t *self, const wm_msg_t *msg)
{
    wm_msg_t ack;
    wm_msg_init (&ack, WM_MSG_INPUT_ACK);
    ack.key = (wm_key_t){ .input = 1, .generation = broker.generation };
    ack.code = msg->code ? WM_INPUT_CLAIMED : WM_INPUT_OPEN;
    broker.claimed |= msg->code == 1;
    snprintf (ack.name, sizeof ack.name, "%s", msg->name);
    snprintf (ack.path, sizeof ack.path, "%s", msg->path);
    fake_send (self, &ack, NULL, 0);
}

/* What is not of this claim, and must not be noticed.  */
static void strays (fake_t *self, uint32_t ordinal)
{
    answer (self, WM_MSG_NEED, EVENTS, 0);
    answer (self, WM_MSG_EVENT_DONE, EVENTS, 0);
    broker.generation--;
    answer (self, WM_MSG_EVENT_DONE, ordinal, 0);
    broker.generation++;
}

static void on_submit (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    event_t *event = &broker.event[msg->key.ordinal % EVENTS];
    if (msg->key.ordinal >= EVENTS || msg->n_batch != 1 || bytes < sizeof event->batch)
        broke (self, "SUBMIT of event %u with %u batches", msg->key.ordinal, msg->n_batch);
    else if (event->announced)
        broke (self, "SUBMIT of event %u twice in a session", msg->key.ordinal);
    else if (broker.end_sent)
        broke (self, "SUBMIT of event %u after INPUT_END", msg->key.ordinal);
    else if (broker.n_open == WM_OPEN_EVENTS_MAX)
        broke (self, "SUBMIT of event %u above %u open ones", msg->key.ordinal, WM_OPEN_EVENTS_MAX);
    if (broker.broken[0])
        return;
    event->announced = event->known = true;
    memcpy (&event->batch, payload, sizeof event->batch);
    if (msg->key.ordinal == 0)
        strays (self, 0);
    if (++broker.n_open == WM_OPEN_EVENTS_MAX)
        all_done (self);
}

static void on_end (fake_t *self, const wm_msg_t *msg)
{
    for (uint32_t i = 0; i < EVENTS; i++)
        if (!broker.event[i].known) {
            broke (self, "INPUT_END, and event %u was not announced in this epoch", i);
            return;
        }
    if (msg->count != EVENTS || broker.end_sent)
        broke (self, "INPUT_END of %u events, or twice in a session", (unsigned) msg->count);
    broker.end_sent = true;
    all_done (self);
}

static void on_fetch (fake_t *self, const wm_msg_t *msg)
{
    static const uint8_t scores[1 << 10];
    const event_t *event = &broker.event[msg->key.ordinal % EVENTS];
    if (!event->reported) {
        broke (self, "FETCH of event %u, which is not done", msg->key.ordinal);
        return;
    }
    wm_msg_t results;
    wm_msg_init (&results, WM_MSG_RESULTS);
    results.key = msg->key;
    results.n_hit = event->batch.n_hit;
    memcpy (results.digest, event->batch.digest, 16);
    strcpy (results.text, "sparse/avx2");
    const size_t bytes = wm_result_bytes (results.n_hit, self->pins.n_output);
    if (msg->key.ordinal == 1) { /* of another event, of another generation: none is asked for */
        results.key.ordinal++;
        fake_send (self, &results, scores, bytes);
        results.key.ordinal--;
        results.key.generation--;
        fake_send (self, &results, scores, bytes);
        results.key.generation++;
    }
    fake_send (self, &results, scores, bytes);
}

static void tick (fake_t *self)
{
    if (++broker.idle % HEARTBEAT_TICKS == 0)
        answer (self, WM_MSG_HEARTBEAT, 0, 0);
    if (broker.end_sent && !broker.end_acked && broker.idle >= ACK_TICKS) {
        broker.end_acked = true;
        answer (self, WM_MSG_ACK, 0, WM_MSG_INPUT_END);
    }
    if (broker.idle == STALL_TICKS)
        broke (self, "the producer waits for ever, with %u open events", broker.n_open);
}

static void play (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    if (!msg) {
        tick (self);
        return;
    }
    if (msg->type == WM_MSG_HELLO) {
        broker.ended = false;
        broker.peer_bytes = self->peer_bytes;
        memcpy (broker.peer, self->peer, sizeof self->peer);
        forget_session ();
        fake_welcome (self);
        return;
    }
    if (self->peer_bytes != broker.peer_bytes ||
        memcmp (self->peer, broker.peer, self->peer_bytes)) {
        self->peer_bytes = broker.peer_bytes; /* what an ended session had sent comes late */
        memcpy (self->peer, broker.peer, sizeof self->peer);
        return;
    }
    if (broker.ended || msg->type == WM_MSG_HEARTBEAT)
        return;
    broker.idle = 0;
    const bool of_input = msg->type == WM_MSG_SUBMIT || msg->type == WM_MSG_INPUT_END ||
                          msg->type == WM_MSG_FETCH || msg->type == WM_MSG_FILE_WRITTEN;
    if (of_input && msg->key.generation < broker.generation && broker.end.claim)
        return; /* it was on its way when the claim ended */
    if (of_input &&
        (!broker.claimed || msg->key.generation != broker.generation || msg->key.input != 1))
        broke (self, "message %d of generation %u before the claim of %u", msg->type,
               msg->key.generation, broker.generation);
    if (broker.broken[0] || ends_here (self, msg))
        return;
    switch (msg->type) {
    case WM_MSG_INPUT:
        on_input (self, msg);
        return;
    case WM_MSG_SUBMIT:
        on_submit (self, msg, payload, bytes);
        return;
    case WM_MSG_INPUT_END:
        on_end (self, msg);
        return;
    case WM_MSG_FETCH:
        on_fetch (self, msg);
        return;
    case WM_MSG_FILE_WRITTEN:
        if (!broker.end_acked)
            broke (self, "FILE_WRITTEN before the ACK of INPUT_END");
        broker.n_written++;
        answer (self, WM_MSG_ACK, 0, WM_MSG_FILE_WRITTEN);
        return;
    case WM_MSG_INPUT_HELD:
    case WM_MSG_BATCH:
        broke (self, "message %d, for which there is no reason: %s", msg->type, msg->text);
        return;
    default:
        return;
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void produces (end_t end)
{
    static int serial;
    const char *path = test_path ("hits.h5");
    fake_t *fake = fake_new (test_folder, play, NULL);
    memset (&broker, 0, sizeof broker);
    broker.end = end;
    broker.generation = 1;
    snprintf (fake->pins.output, sizeof fake->pins.output, "%s/out-%d", test_folder, serial++);
    fake->pins.n_value = 2;
    fake_start (fake);
    const int code = wm_produce (&(wm_produce_options_t){ .broker = fake->endpoint,
                                                          .give_up_ms = 30000,
                                                          .quiet = true,
                                                          .input = &path,
                                                          .n_input = 1 });
    fake_destroy (&fake);
    if (broker.broken[0] || code || !broker.n_written || (end.count && broker.seen < end.count))
        fail_msg ("end at message %d of type %d, epoch %d, kick %d: exit %d, written %d: %s",
                  end.count, end.type, end.epoch, end.kick, code, broker.n_written, broker.broken);
}

static const end_t ends[] = {
    { WM_MSG_INPUT, 1, 0, 0, 0 },        { WM_MSG_INPUT, 2, 0, 0, 0 },
    { WM_MSG_SUBMIT, 1, 0, 0, 0 },       { WM_MSG_SUBMIT, 200, 0, 0, 0 },
    { WM_MSG_SUBMIT, 400, 0, 0, 0 },     { WM_MSG_FETCH, 1, 0, 0, 0 },
    { WM_MSG_FETCH, 300, 0, 0, 0 },      { WM_MSG_INPUT_END, 1, 0, 0, 0 },
    { WM_MSG_FILE_WRITTEN, 1, 0, 0, 0 },
};

static int setup (void **state)
{
    static float value[EVENTS * HITS * 2];
    static int id[EVENTS * HITS * 3];
    for (uint32_t i = 0; i < EVENTS * HITS; i++) {
        value[2 * i] = value[2 * i + 1] = (float) (i % 250 + 1);
        id[3 * i] = id[3 * i + 1] = 1;
        id[3 * i + 2] = (int) (i / HITS);
    }
    hid_t file = H5Fcreate (test_path ("hits.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_f32 (file, "patches", EVENTS * HITS, 2, value);
    put_i32 (file, "event_id", EVENTS * HITS, 3, id);
    H5Fclose (file);
    return 0;
}

static int teardown (void **state)
{
    test_folder_remove ();
    return 0;
}

static void one_session (void **state)
{
    produces ((end_t){ .count = 0 });
}

static void next_session (void **state)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        produces (ends[i]);
}

static void next_epoch (void **state)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        end_t end = ends[i];
        end.epoch = true;
        produces (end);
    }
}

static void next_generation (void **state)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        end_t end = ends[i];
        end.kick = true;
        produces (end);
    }
    produces ((end_t){ WM_MSG_FETCH, 1, .kick = true, .claim = true });
    produces ((end_t){ WM_MSG_FETCH, 300, .kick = true, .claim = true });
}

int main (void)
{
    setenv ("WM_TIME_SCALE", "10", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (one_session),
        cmocka_unit_test (next_session),
        cmocka_unit_test (next_epoch),
        cmocka_unit_test (next_generation),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("producer sessions", tests, setup, teardown);
}
