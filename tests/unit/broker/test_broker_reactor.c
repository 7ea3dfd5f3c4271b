/* test_broker_reactor.c - the broker's loop on real sockets and a real folder: a campaign from
   HELLO to FILE_WRITTEN and over a restart, closed connections, a full disk, addresses.  */
#include "tests/unit/reactor_harness.h"

static void test_campaign_and_restart (void **state)
{
    broker_t *b = broker_new ();
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
    assert_int_equal (wm_client_epoch (worker), 1);
    wm_msg_t input = claim (producer);
    assert_int_equal (input.code, WM_INPUT_CLAIMED);
    submit (producer, input.key, 3);
    credit (worker, 3);
    feed (producer, 3);
    wm_msg_t tasks[3];
    for (int i = 0; i < 3; i++) {
        tasks[i] = must (worker, WM_MSG_TASK);
        size_t payload_bytes;
        assert_memory_equal (wm_client_payload (worker, &payload_bytes), "payload", 7);
        assert_int_equal (payload_bytes, 7);
    }
    for (int i = 0; i < 3; i++) {
        answer (worker, &tasks[i]);
        assert_int_equal (must (worker, WM_MSG_RESULT_ACK).key.batch, tasks[i].key.batch);
    }
    wm_msg_t done = must (producer, WM_MSG_EVENT_DONE);
    wm_msg_t msg = done;
    msg.type = WM_MSG_FETCH;
    msg.key.batch = 2;
    wm_client_send (producer, &msg, NULL, 0);
    wm_msg_t results = must (producer, WM_MSG_RESULTS);
    size_t bytes;
    const uint8_t *payload = wm_client_payload (producer, &bytes);
    assert_int_equal (bytes, wm_result_bytes (N_HIT, N_OUTPUT));
    assert_int_equal (payload[bytes - 1], 42);
    assert_string_equal (results.text, "engine/fp32");
    json_t *json = status (b);
    assert_int_equal (number (json, "batches", "returned"), 3);
    assert_int_equal (number (json, "hits", "done"), 30);
    assert_int_equal (json_integer_value (json_object_get (json, "workers_total")), 1);
    json_decref (json);

    /* A new epoch: what was acknowledged is had, and is fetched as it was. */
    wm_client_destroy (&producer);
    wm_client_destroy (&worker);
    broker_stop (b);
    broker_start (b);
    producer = peer (b, WM_ROLE_PRODUCER, "producer");
    assert_int_equal (wm_client_epoch (producer), 2);
    claim (producer);
    submit (producer, input.key, 3);
    must (producer, WM_MSG_EVENT_DONE);
    wm_client_send (producer, &msg, NULL, 0);
    results = must (producer, WM_MSG_RESULTS);
    payload = wm_client_payload (producer, &bytes);
    assert_int_equal (payload[bytes - 1], 42);

    wm_msg_init (&msg, WM_MSG_INPUT_END);
    msg.key = input.key;
    msg.count = 1;
    wm_client_send (producer, &msg, NULL, 0);
    must (producer, WM_MSG_ACK);
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = input.key;
    msg.size = 4711;
    wm_client_send (producer, &msg, NULL, 0);
    must (producer, WM_MSG_ACK);
    wm_client_destroy (&producer);
    broker_stop (b);
    broker_start (b);
    producer = peer (b, WM_ROLE_PRODUCER, "producer");
    msg = claim (producer);
    assert_int_equal (msg.code, WM_INPUT_WRITTEN);
    assert_int_equal (msg.size, 4711);
    json = status (b);
    assert_int_equal (number (json, "inputs", "written"), 1);
    assert_int_equal (number (json, "hits", "done"), 30);
    assert_int_equal (number (json, "events", "written"), 1);
    json_decref (json);
    wm_client_destroy (&producer);
    broker_end (b);
}

static void test_closed_connection (void **state)
{
    broker_t *b = broker_new ();
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_client_t *first = peer (b, WM_ROLE_WORKER, "first");
    wm_client_t *second = peer (b, WM_ROLE_WORKER, "second");
    wm_msg_t input = claim (producer);
    submit (producer, input.key, 1);
    credit (first, 1);
    feed (producer, 1);
    wm_msg_t task = must (first, WM_MSG_TASK);
    credit (second, 1);
    int64_t then = wm_now_ms ();
    wm_client_destroy (&first); /* as if killed: no BYE */
    wm_msg_t again = must (second, WM_MSG_TASK);
    int64_t took = wm_now_ms () - then;
    assert_true (took >= wm_times ()->reconnect_ms);
    assert_int_equal (again.key.batch, task.key.batch);
    answer (second, &again);
    must (producer, WM_MSG_EVENT_DONE);
    /* A claim dies with its connection at once. */
    wm_client_t *other = peer (b, WM_ROLE_PRODUCER, "other");
    assert_int_equal (claim (other).code, WM_INPUT_BUSY);
    wm_client_destroy (&producer);
    int claimed = 0;
    for (then = wm_now_ms (); !claimed && wm_now_ms () - then < LIMIT_MS;)
        claimed = claim (other).code == WM_INPUT_CLAIMED;
    assert_true (claimed);
    wm_client_destroy (&other);
    wm_client_destroy (&second);
    broker_end (b);
}

/* What a worker says last counts, although its connection is closed by then.  */
static void test_last_words (void **state)
{
    broker_t *b = broker_new ();
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_msg_t input = claim (producer);
    submit (producer, input.key, 8);
    for (int i = 0; i < 5; i++) {
        wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
        credit (worker, 1);
        feed (producer, i ? 1 : 2); /* two are asked for ahead */
        wm_msg_t task = must (worker, WM_MSG_TASK);
        answer (worker, &task);
        wm_client_close (worker, WM_REASON_DRAINED, "");
        wm_client_destroy (&worker);
    }
    json_t *json = status (b);
    for (const int64_t then = wm_now_ms ();
         number (json, "batches", "returned") < 5 && wm_now_ms () - then < LIMIT_MS;) {
        json_decref (json);
        json = status (b);
    }
    assert_int_equal (number (json, "batches", "returned"), 5);
    assert_int_equal (number (json, "counters", "n_lost"), 0);
    json_decref (json);
    wm_client_destroy (&producer);
    broker_end (b);
}

static void test_disk_full (void **state)
{
    broker_t *b = broker_new ();
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
    wm_msg_t input = claim (producer);
    submit (producer, input.key, 2);
    credit (worker, 1);
    feed (producer, 2);
    wm_msg_t task = must (worker, WM_MSG_TASK);
    full = 1;
    answer (worker, &task);
    assert_null (next (worker, WM_MSG_RESULT_ACK, 400));
    credit (worker, 2);
    assert_null (next (worker, WM_MSG_TASK, 400)); /* nothing is handed out */
    json_t *json = status (b);
    assert_string_equal (json_string_value (json_object_get (json, "waiting_for")), "disk full");
    json_decref (json);
    full = 0;
    wm_msg_t second = must (worker, WM_MSG_TASK);
    assert_int_equal (must (worker, WM_MSG_RESULT_ACK).key.batch, task.key.batch);
    task = second;
    answer (worker, &task);
    must (worker, WM_MSG_RESULT_ACK);
    must (producer, WM_MSG_EVENT_DONE);
    wm_client_destroy (&producer);
    wm_client_destroy (&worker);
    broker_end (b);
}

static void test_model (void **state)
{
    broker_t *b = broker_new ();
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
    static const uint64_t offsets[] = { 0, WM_RAW_BYTES_MAX, 2 * WM_RAW_BYTES_MAX, UINT64_MAX };
    static const size_t sizes[] = { WM_RAW_BYTES_MAX, 1000, 0, 0 };
    for (int i = 0; i < 4; i++) {
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_MODEL_GET);
        msg.offset = offsets[i];
        wm_client_send (worker, &msg, NULL, 0);
        msg = must (worker, WM_MSG_MODEL);
        size_t bytes;
        const uint8_t *payload = wm_client_payload (worker, &bytes);
        assert_int_equal (bytes, sizes[i]);
        assert_true (msg.size == MODEL_BYTES && msg.offset == offsets[i]);
        if (bytes)
            assert_int_equal (payload[bytes - 1], ((offsets[i] + bytes - 1) * 7) & 0xff);
    }
    wm_client_destroy (&worker);
    broker_end (b);
    /* Where the broker cannot read the model it disconnects the worker, which asks again.  */
    b = broker_new ();
    worker = peer (b, WM_ROLE_WORKER, "worker");
    assert_int_equal (truncate (b->wmm, 10), 0);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_MODEL_GET);
    wm_client_send (worker, &msg, NULL, 0);
    assert_int_equal (wm_client_wait (worker, LIMIT_MS), WM_CLIENT_CLOSED);
    assert_int_equal (wm_client_error (worker)->fault, WM_EAGAIN);
    wm_client_destroy (&worker);
    broker_end (b);
}

static void test_addresses (void **state)
{
    broker_t *b = broker_new ();
    broker_stop (b);
    static const char *const bad[] = { "tcp://127.0.0.1",
                                       "tcp://127.0.0.1:x",
                                       "tcp://:5555",
                                       "tcp://127.0.0.1:65534",
                                       "ipc://",
                                       "udp://x:1",
                                       "",
                                       "tcp://no.such.host.invalid:5555",
                                       "ipc:///proc/no/such/folder/b" };
    wm_error_t error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal (wm_campaign_lock (&b->campaign, b->dir, WM_CAMPAIGN_SERVE, 0, &error),
                          WM_OK);
        assert_int_equal (wm_campaign_open (&b->campaign, NULL, &ops, &error), WM_OK);
        assert_int_equal (wm_campaign_start (&b->campaign, &b->pins, &error), WM_OK);
        b->config.journal = b->campaign.journal;
        b->config.ledger = b->campaign.ledger;
        b->config.endpoint = bad[i];
        if (wm_reactor_new (&b->config, &error))
            fail_msg ("%s was bound", bad[i]);
        assert_int_equal (error.fault, WM_EHOST);
        wm_campaign_close (&b->campaign);
    }
    strcpy (b->endpoint, "tcp://127.0.0.1:0");
    broker_start (b);
    strcpy (b->endpoint, wm_listener_endpoint (wm_reactor_listener (b->reactor)));
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_client_destroy (&worker);
    wm_client_destroy (&producer);
    broker_end (b);
}

static void test_one_master (void **state)
{
    broker_t *b = broker_new ();
    wm_campaign_t second;
    wm_error_t error;
    int64_t then = wm_now_ms ();
    assert_int_equal (wm_campaign_lock (&second, b->dir, WM_CAMPAIGN_SERVE, 300, &error),
                      WM_EAGAIN);
    assert_true (wm_now_ms () - then >= 300);
    char pid[32];
    snprintf (pid, sizeof pid, "%d", (int) getpid ());
    assert_non_null (strstr (error.text, pid));
    broker_stop (b);
    wm_pins_t other = b->pins;
    strcpy (other.precision, "fast");
    assert_int_equal (wm_campaign_lock (&b->campaign, b->dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    assert_int_equal (wm_campaign_open (&b->campaign, NULL, &ops, &error), WM_OK);
    assert_int_equal (wm_campaign_start (&b->campaign, &other, &error), WM_OK); /* no scores yet */
    wm_campaign_close (&b->campaign);
    broker_start (b);
    broker_end (b);
}

/* The largest there can be, with every character escaped, is cut to what operators accept.  */
static void test_status_is_bounded (void **state)
{
    static wm_summary_t s;
    static char path[256];
    memset (path, '"', sizeof path - 1);
    strcpy (s.worker[0].health, "{\"gpu\": \"a\\nforged: line\"}");
    s.state = "running";
    s.n_worker = 1000;
    s.n_worker_listed = s.n_producer_listed = WM_SUMMARY_PEERS_MAX;
    s.n_held = WM_SUMMARY_HELD_MAX;
    for (int i = 0; i < WM_SUMMARY_PEERS_MAX; i++) {
        memset (s.worker[i].label, 1, sizeof s.worker[i].label - 1);
        memset (s.worker[i].signature, '"', sizeof s.worker[i].signature - 1);
        s.worker[i].state = "busy";
        memset (s.producer[i].label, 0xff, sizeof s.producer[i].label - 1); /* not UTF-8 */
        s.producer[i].input = path;
        memset (s.producer[i].waits, 'w', sizeof s.producer[i].waits - 1);
    }
    for (int i = 0; i < WM_SUMMARY_HELD_MAX; i++)
        memset (s.held[i].reason, '\n', sizeof s.held[i].reason - 1);
    static const uint8_t id[16];
    static const wm_pins_t pins;
    char *json = wm_status_json (&s, &(wm_status_about_t){ .campaign = id, .pins = &pins });
    assert_non_null (json);
    assert_true (strlen (json) <= WM_STATUS_BYTES_MAX);
    json_t *parsed = json_loads (json, 0, NULL);
    assert_int_equal (json_integer_value (json_object_get (parsed, "workers_total")), 1000);
    const json_t *workers = json_object_get (parsed, "workers");
    assert_true (json_array_size (workers) > 10);
    const json_t *gpu = json_object_get (json_array_get (workers, 0), "gpu");
    assert_string_equal (json_string_value (json_object_get (gpu, "gpu")), "a?forged: line");
    assert_null (
        strstr (json, "\\n")); /* no line break of anybody's words, nor what steers a terminal */
    assert_null (strstr (json, "\\u00"));
    json_decref (parsed);
    free (json);
}

int main (void)
{
    harness_begin ();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_campaign_and_restart),
        cmocka_unit_test (test_closed_connection),
        cmocka_unit_test (test_last_words),
        cmocka_unit_test (test_disk_full),
        cmocka_unit_test (test_model),
        cmocka_unit_test (test_addresses),
        cmocka_unit_test (test_one_master),
        cmocka_unit_test (test_status_is_bounded),
    };
    return cmocka_run_group_tests_name ("broker_reactor", tests, NULL, NULL);
}
