/* test_broker_client.c - a session from the peer's side: opening, refusals, the end, hostile
 * frames. */

#include "tests/unit/fake_broker.h"
#include "schema/session/wm_client.h"
#include "tests/unit/unit.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/wm-client-XXXXXX";

/* Plays HELLO -> WELCOME; argument: the hostile thing it says next, if any.  */
typedef enum {
    NOTHING,
    EMPTY, /* what is not sealed: damaged on its way, so the client may come again */
    GARBAGE,
    THREE_FRAMES,
    FLIPPED_HEADER,
    FLIPPED_PAYLOAD,
    ONE_LOST,   /* the message before this one */
    HUGE_FRAME, /* what is sealed: the broker's own fault */
    NO_PAYLOAD,
    SURPLUS_PAYLOAD,
    OUT_OF_TURN,
    HELLO_BACK,
    HOSTILE_END
} hostile_t;

static void say_hostile (fake_t *self, hostile_t what)
{
    wm_msg_t msg;
    uint8_t frame[WM_HEADER_BYTES_MAX];
    static uint8_t huge[WM_FRAME_BYTES_MAX + 1];
    wm_msg_init (&msg, what == NO_PAYLOAD ? WM_MSG_MODEL : WM_MSG_RESULT_ACK);
    size_t bytes = wm_msg_seal (frame, wm_msg_encode (&msg, frame),
                                what == SURPLUS_PAYLOAD   ? wm_msg_check ("x", 1)
                                : what == FLIPPED_PAYLOAD ? wm_msg_check ("y", 1)
                                                          : 0,
                                self->peer_count->n_sent + (what == ONE_LOST));
    if (what == FLIPPED_HEADER)
        frame[1] ^= 1;
    if (what == EMPTY)
        fake_frames (self, "", 0, NULL, 0);
    else if (what == GARBAGE)
        fake_frames (self, "\xdd\xff\xff\xff\xff", 5, NULL, 0);
    else if (what == NO_PAYLOAD || what == FLIPPED_HEADER || what == ONE_LOST)
        fake_frames (self, frame, bytes, NULL, 0);
    else if (what == SURPLUS_PAYLOAD || what == FLIPPED_PAYLOAD)
        fake_frames (self, frame, bytes, "x", 1);
    else if (what == OUT_OF_TURN)
        fake_code (self, WM_MSG_INPUT_HELD, 1, "a producer's word");
    else if (what == HELLO_BACK)
        fake_welcome (self);
    else if (what == HUGE_FRAME)
        fake_frames (self, frame, bytes, huge, sizeof huge);
    else if (what == THREE_FRAMES) {
        void *handle = zsock_resolve (self->router);
        zmq_send (handle, self->peer, self->peer_bytes, ZMQ_SNDMORE);
        zmq_send (handle, frame, bytes, ZMQ_SNDMORE);
        zmq_send (handle, "a", 1, ZMQ_SNDMORE);
        zmq_send (handle, "b", 1, 0);
    }
}

static void welcome (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    if (!msg)
        return;
    if (msg->type == WM_MSG_HELLO) {
        fake_welcome (self);
        if (self->argument)
            say_hostile (self, *(hostile_t *) self->argument);
    } else if (msg->type == WM_MSG_CREDIT) { /* the echo of these tests */
        wm_msg_t task;
        wm_msg_init (&task, WM_MSG_TASK);
        task.key.input = (uint32_t) msg->count;
        fake_send (self, &task, "payload", 7);
    } else if (msg->type == WM_MSG_NACK) {
        fake_code (self, msg->code, msg->key.ordinal ? WM_REASON_BUSY : WM_REASON_DONE,
                   "as you wish"); /* BYE or REJECT */
    }
}

static void reject (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    if (msg && msg->type == WM_MSG_HELLO)
        fake_code (self, WM_MSG_REJECT, *(uint32_t *) self->argument, "because");
}

static void mute (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
}

static wm_client_t *client_for (const fake_t *broker, const int *extra)
{
    return wm_client_new (broker->endpoint, WM_ROLE_WORKER, "test:1", "engine/1", extra);
}

static void ask (wm_client_t *client, uint64_t number)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CREDIT);
    msg.count = number;
    assert_int_equal (wm_client_send (client, &msg, NULL, 0), WM_OK);
}

static void opens_and_exchanges (void **state)
{
    wm_error_t error;
    fake_t *broker = fake_new (folder, welcome, NULL);
    fake_start (broker);
    wm_client_t *client = client_for (broker, NULL);
    assert_false (wm_client_is_open (client));
    assert_int_equal (wm_client_wait (client, 1000), WM_CLIENT_CLOSED);
    assert_int_equal (wm_client_open (client, "held", 4, 20000, &error), WM_OK);
    assert_true (wm_client_is_open (client));
    assert_int_equal (wm_client_epoch (client), 7);
    assert_string_equal (wm_client_pins (client)->precision, "fp32");
    assert_memory_equal (wm_client_campaign (client), broker->campaign, 16);
    for (uint32_t i = 1; i <= 50; i++)
        ask (client, i);
    for (uint32_t i = 1; i <= 50; i++) {
        size_t bytes;
        assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_MESSAGE);
        assert_int_equal (wm_client_msg (client)->type, WM_MSG_TASK);
        assert_int_equal (wm_client_msg (client)->key.input, i);
        assert_memory_equal (wm_client_payload (client, &bytes), "payload", 7);
        assert_int_equal (bytes, 7);
    }
    assert_int_equal (wm_client_wait (client, 1), WM_CLIENT_TIMEOUT);
    wm_client_close (client, WM_REASON_DONE, "enough");
    assert_false (wm_client_is_open (client));
    for (int i = 0; i < 200 && !broker->seen[WM_MSG_BYE]; i++)
        zclock_sleep (5);
    assert_int_equal (broker->seen[WM_MSG_BYE], 1);
    /* The same client opens again: a new session of the same instance.  */
    assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_OK);
    wm_client_destroy (&client);
    wm_client_destroy (&client);
    fake_destroy (&broker);
}

static void refuses_endpoints (void **state)
{
    static const char *const bad[] = {
        "",          "nonsense",      "tcp://",      "tcp://host", "tcp://:5555",
        "tcp://h:0", "tcp://h:65534", "tcp://h:12x", "ipc://",     "inproc://x"
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wm_error_t error = { 0 };
        wm_client_t *client = wm_client_new (bad[i], WM_ROLE_PRODUCER, "test:1", NULL, NULL);
        assert_int_equal (wm_client_open (client, NULL, 0, 1000, &error), WM_EPEER);
        assert_int_not_equal (error.text[0], 0);
        wm_client_destroy (&client);
    }
}

static void no_broker (void **state)
{
    /* Nobody listens: known at once, not after the time allowed. localhost has two addresses.  */
    static const char *const absent[] = { "tcp://127.0.0.1:9", "tcp://localhost:9",
                                          "ipc://wm-no-such-folder/b" };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        wm_error_t error = { 0 };
        wm_client_t *client = wm_client_new (absent[i], WM_ROLE_WORKER, "test:1", NULL, NULL);
        int64_t start = wm_now_ms ();
        assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_EAGAIN);
        assert_true (wm_now_ms () - start < 5000);
        start = wm_now_ms ();
        assert_int_equal (wm_client_open_patiently (client, NULL, 0, 300, &error), WM_EAGAIN);
        assert_in_range (wm_now_ms () - start, 300, 5000);
        wm_client_destroy (&client);
    }
}

/* A socket of another user's.  */
static void no_right (void **state)
{
    char path[200], endpoint[200];
    snprintf (endpoint, sizeof endpoint, "ipc://%s/shut", folder);
    snprintf (path, sizeof path, "%s/shut.w", folder);
    fclose (fopen (path, "w"));
    assert_int_equal (chmod (path, 0444), 0);
    assert_int_equal (chmod (folder, 0755), 0);
    const int is_root = geteuid () == 0;
    assert_false (is_root && seteuid (65534));
    wm_error_t error = { 0 };
    wm_client_t *client = wm_client_new (endpoint, WM_ROLE_WORKER, "test:1", NULL, NULL);
    assert_int_equal (wm_client_open_patiently (client, NULL, 0, 20000, &error), WM_EPEER);
    assert_non_null (strstr (error.text, "may not connect to ipc://"));
    wm_client_destroy (&client);
    assert_false (is_root && seteuid (0));
    unlink (path);
}

static void refusals (void **state)
{
    uint32_t code;
    fake_t *broker = fake_new (folder, reject, &code);
    fake_start (broker);
    wm_client_t *client = client_for (broker, NULL);
    for (code = WM_REASON_DONE; code <= WM_REASON_FAILED; code++) {
        wm_error_t error = { 0 };
        int passes = code == WM_REASON_BUSY || code == WM_REASON_STOPPING;
        assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error),
                          passes ? WM_EAGAIN : WM_EPEER);
        assert_non_null (strstr (error.text, "because"));
        assert_int_equal (wm_client_reason (client), code);
    }
    wm_client_destroy (&client);
    fake_destroy (&broker);
}

static void broker_ends_it (void **state)
{
    wm_error_t error;
    fake_t *broker = fake_new (folder, welcome, NULL);
    fake_start (broker);
    wm_client_t *client = client_for (broker, NULL);
    assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_OK);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_NACK);
    msg.code = WM_MSG_BYE;
    assert_int_equal (wm_client_send (client, &msg, NULL, 0), WM_OK);
    assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_CLOSED);
    assert_int_equal (wm_client_reason (client), WM_REASON_DONE);
    assert_int_equal (wm_client_error (client)->fault, WM_EAGAIN);
    assert_int_equal (wm_client_send (client, &msg, NULL, 0), WM_EAGAIN);

    assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_OK);
    assert_int_equal (wm_client_reason (client), 0);
    msg.code = WM_MSG_REJECT;
    assert_int_equal (wm_client_send (client, &msg, NULL, 0), WM_OK);
    assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_CLOSED);
    assert_int_equal (wm_client_error (client)->fault, WM_EPEER);

    /* "Try later": who tries patiently rests first.  */
    assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_OK);
    msg.key.ordinal = 1;
    assert_int_equal (wm_client_send (client, &msg, NULL, 0), WM_OK);
    assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_CLOSED);
    assert_int_equal (wm_client_reason (client), WM_REASON_BUSY);
    const int64_t began = wm_now_ms ();
    assert_int_equal (wm_client_open_patiently (client, NULL, 0, 20000, &error), WM_OK);
    assert_true (wm_now_ms () - began >= wm_times ()->backoff_max_ms / 2);
    wm_client_destroy (&client);
    fake_destroy (&broker);
}

static void broker_dies (void **state)
{
    wm_error_t error;
    fake_t *broker = fake_new (folder, welcome, NULL);
    fake_start (broker);
    wm_client_t *client = client_for (broker, NULL);
    assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_OK);
    /* What it said before it died is still handed out.  */
    ask (client, 3);
    zclock_sleep (50);
    fake_stop (broker);
    zclock_sleep (50);
    assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_MESSAGE);
    int64_t start = wm_now_ms ();
    assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_CLOSED);
    assert_true (wm_now_ms () - start < 2000); /* at once, not by silence (3 s here) */
    assert_non_null (strstr (wm_client_error (client)->text, "closed"));
    /* Or a send notices.  */
    fake_start (broker);
    assert_int_equal (wm_client_open_patiently (client, NULL, 0, 20000, &error), WM_OK);
    fake_stop (broker);
    zclock_sleep (50);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CREDIT);
    assert_int_equal (wm_client_send (client, &msg, NULL, 0), WM_EAGAIN);
    assert_false (wm_client_is_open (client));
    assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_CLOSED);
    /* Patience finds the next one.  */
    fake_start (broker);
    assert_int_equal (wm_client_open_patiently (client, NULL, 0, 20000, &error), WM_OK);
    wm_client_destroy (&client);
    fake_destroy (&broker);
}

static void silence (void **state)
{
    wm_error_t error;
    fake_t *broker = fake_new (folder, mute, NULL);
    fake_start (broker);
    wm_client_t *client = client_for (broker, NULL);
    assert_int_equal (wm_client_open (client, NULL, 0, 100, &error), WM_EAGAIN);
    fake_destroy (&broker);
    broker = fake_new (folder, welcome, NULL);
    fake_start (broker);
    wm_client_destroy (&client);
    client = client_for (broker, NULL);
    assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_OK);
    int64_t start = wm_now_ms ();
    assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_CLOSED);
    assert_in_range (wm_now_ms () - start, 2900, 15000); /* 30 s / 10 */
    assert_non_null (strstr (wm_client_error (client)->text, "silent"));
    assert_true (broker->seen[WM_MSG_HEARTBEAT] >= 3); /* ours went out meanwhile */

    assert_true (wm_client_silent_ms (client) >= 2900);

    /* Sooner, where the owner asks for that; but not before three heartbeats.  */
    wm_client_silence (client, 1);
    assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_OK);
    assert_int_equal (wm_client_silent_ms (client), 0);
    assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_CLOSED);
    assert_in_range (wm_client_silent_ms (client), 600, 2900);
    wm_client_silence (client, 100000);

    /* A pause of our own is no silence of the broker.  */
    assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_OK);
    zclock_sleep (3500);
    wm_client_event_t after = wm_client_wait (client, 20);
    if (after != WM_CLIENT_TIMEOUT)
        print_error ("%s\n", wm_client_error (client)->text);
    assert_int_equal (after, WM_CLIENT_TIMEOUT);
    wm_client_destroy (&client);
    fake_destroy (&broker);
}

static void hostile_frames (void **state)
{
    wm_error_t error;
    hostile_t what;
    fake_t *broker = fake_new (folder, welcome, &what);
    fake_start (broker);
    wm_client_t *client = client_for (broker, NULL);
    for (what = NOTHING + 1; what < HOSTILE_END; what++) {
        assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_OK);
        assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_CLOSED);
        assert_int_equal (wm_client_error (client)->fault,
                          what <= HUGE_FRAME ? WM_EAGAIN : WM_EPEER);
    }
    wm_client_destroy (&client);
    fake_destroy (&broker);
}

static void wrong_welcome (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    if (!msg || msg->type != WM_MSG_HELLO)
        return;
    int what = *(int *) self->argument;
    char text[WM_PINS_BYTES_MAX];
    wm_msg_t answer;
    wm_msg_init (&answer, WM_MSG_WELCOME);
    answer.protocol = what == 0 ? WM_PROTOCOL + 1 : WM_PROTOCOL;
    wm_pins_digest (&self->pins, answer.digest);
    answer.digest[3] ^= what == 1;
    size_t length = wm_pins_print (&self->pins, text);
    if (what == 3)
        wm_msg_init (&answer, WM_MSG_TASK);
    fake_send (self, &answer, text, what == 2 ? length / 2 : length);
}

static void wrong_welcomes (void **state)
{
    int what;
    fake_t *broker = fake_new (folder, wrong_welcome, &what);
    fake_start (broker);
    wm_client_t *client = client_for (broker, NULL);
    for (what = 0; what < 4; what++) {
        wm_error_t error = { 0 };
        assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_EPEER);
        assert_false (wm_client_is_open (client));
    }
    wm_client_destroy (&client);
    fake_destroy (&broker);
}

static void flood (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    welcome (self, msg, payload, bytes);
    if (msg && msg->type == WM_MSG_CREDIT)
        for (int i = 0; i < 200; i++)
            fake_code (self, WM_MSG_DRAIN, 0, "go");
}

static void extra_is_heard (void **state)
{
    wm_error_t error;
    int extra[2]; /* read here, written there */
    char byte;
    assert_int_equal (pipe (extra), 0);
    fake_t *broker = fake_new (folder, flood, NULL);
    fake_start (broker);
    wm_client_t *client = client_for (broker, &extra[0]);
    assert_int_equal (wm_client_open (client, NULL, 0, 20000, &error), WM_OK);
    assert_int_equal (write (extra[1], "1", 1), 1);
    assert_int_equal (wm_client_wait (client, 20000), WM_CLIENT_EXTRA);
    assert_int_equal (wm_client_wait (client, 0), WM_CLIENT_EXTRA); /* until it is read */
    assert_int_equal (read (extra[0], &byte, 1), 1);
    assert_int_equal (wm_client_wait (client, 1), WM_CLIENT_TIMEOUT);
    /* A busy broker does not starve it.  */
    ask (client, 1);
    zclock_sleep (50);
    assert_int_equal (write (extra[1], "2", 1), 1);
    int turns = 1;
    while (wm_client_wait (client, 20000) != WM_CLIENT_EXTRA)
        turns++;
    assert_true (turns <= 3);
    wm_client_destroy (&client);
    fake_destroy (&broker);
    close (extra[0]);
    close (extra[1]);
}

int main (void)
{
    setenv ("WM_TIME_SCALE", "10", 1);
    if (!mkdtemp (folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (opens_and_exchanges),
        cmocka_unit_test (refuses_endpoints),
        cmocka_unit_test (no_broker),
        cmocka_unit_test (no_right),
        cmocka_unit_test (refusals),
        cmocka_unit_test (broker_ends_it),
        cmocka_unit_test (broker_dies),
        cmocka_unit_test (silence),
        cmocka_unit_test (hostile_frames),
        cmocka_unit_test (wrong_welcomes),
        cmocka_unit_test (extra_is_heard),
    };
    int rc = cmocka_run_group_tests (tests, NULL, NULL);
    zdir_t *dir = zdir_new (folder, NULL);
    zdir_remove (dir, true);
    zdir_destroy (&dir);
    return rc;
}
