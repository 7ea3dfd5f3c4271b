/* made_worker.h - a whole worker against a scripted broker, with an engine made up (made_engine.h).

   The broker below sends N_BATCH batches within the credit it is granted, checks every result, and
   can be told to acknowledge nothing, to damage payloads, to die. A test's main is
   made_worker_main.  */
#ifndef MADE_WORKER_H
#define MADE_WORKER_H

#include "tests/unit/made_engine.h"

#include "tests/unit/fake_broker.h"
#include "gpuworker/engine/wm_engine_process.h"
#include "gpuworker/wm_replay.h"
#include "gpuworker/wm_worker.h"

#include <pthread.h>
#include <sodium.h>

enum { MODEL_BYTES = (5 << 20) + 123 };

static char folder[] = "/tmp/wm-worker-XXXXXX";
static char model_hash[65]; /* of the file the broker serves */
static uint8_t model_bytes[MODEL_BYTES];

/* ---- the broker ------------------------------------------------------------------------------ */

typedef struct {
    atomic_int n_batch; /* to send */
    int mute_acks;      /* results are not acknowledged */
    int damage;         /* of every third batch: 1 garbage, 2 digest, 3 number of hits */
    int wrong_model;    /* 1: other bytes, 2: other offset, 3: too large */
    int refuses;        /* each HELLO, for this reason */
    atomic_int leaves;  /* so many sessions end where the worker asks for the model, 0.4 s later */
    int say_at;         /* after so many results (0: none) ... */
    wm_msg_type_t say;  /* ... say this */
    int revoke;         /* batch 5 right after it was sent */
    int early_ack;      /* of batch 5, right after it was sent */
    int late_revoke;    /* of batch 1, at its result */
    int repeat;         /* batch 1 at its first result, and with another digest at its second */
    atomic_int sent, granted, hellos, held, held_unacked;
    atomic_int held_key[N_BATCH + 1]; /* by the last HELLO: 1 a task, 2 a result not acknowledged */
    atomic_int got[N_BATCH + 1], acked[N_BATCH + 1], nacked[N_BATCH + 1], nack_code[N_BATCH + 1];
    atomic_int n_poison;                  /* hits held because the engine dies of them */
    atomic_int n_got, n_model, n_working; /* n_working: heartbeats that name a batch */
    atomic_ullong progress;
    atomic_int n_bye, bye_code;
    int n_idle;
    atomic_int n_over; /* heartbeats that claim more TASKs than this session has sent */
    wm_coder_t *coder;
    int waits; /* a batch came back: it sends nothing before it has new credit */
} play_t;

static uint32_t n_cell = 1; /* of a hit, all of them the same */

/* Fills in the batch of this number.  */
static void fill_batch (wm_batch_t *batch, uint32_t number)
{
    wm_error_t error;
    batch->kind = n_cell > 1 ? WM_BATCH_STACK : WM_BATCH_BINS;
    batch->n_cell = n_cell;
    batch->n_hit = N_HIT;
    batch->n_wire = number + 100;
    batch->n_col = 50;
    batch->n_run = 1;
    batch->n_value = 3;
    CHECK (wm_batch_reserve (batch, &error) == WM_OK);
    batch->run_wire[0] = 3;
    batch->run_first[0] = 4;
    batch->run_length[0] = 3;
    for (int i = 0; i < 3; i++)
        batch->value[i] = (float) i;
    for (uint32_t i = 0; i < N_HIT * n_cell; i++) {
        batch->hit_wire[i] = i / n_cell;
        batch->hit_col[i] = (int32_t) (i / n_cell);
    }
}

static size_t make_batch (play_t *play, uint32_t number, const uint8_t pins_digest[16],
                          uint8_t *frame, size_t bytes_max, uint8_t digest[16])
{
    wm_error_t error;
    size_t bytes = 0;
    wm_batch_t batch = { 0 };
    fill_batch (&batch, number);
    wm_batch_digest (&batch, pins_digest, digest);
    CHECK (wm_batch_encode_bound (&batch) <= bytes_max);
    CHECK (wm_batch_encode (&batch, play->coder, frame, bytes_max, &bytes, &error) == WM_OK);
    wm_batch_clear (&batch);
    return bytes;
}

static void send_batch (fake_t *self, play_t *play, uint32_t number)
{
    static uint8_t frame[1 << 16];
    wm_msg_t msg;
    uint8_t pins_digest[16];
    wm_msg_init (&msg, WM_MSG_TASK);
    wm_pins_digest (&self->pins, pins_digest);
    size_t bytes = make_batch (play, number, pins_digest, frame, sizeof frame, msg.digest);
    msg.key = (wm_key_t){ 1, number, 0, 0 };
    msg.n_batch = 1;
    msg.n_hit = N_HIT;
    msg.attempt = 1;
    int damaged = number % 3 == 0 ? play->damage : 0;
    if (damaged == 1)
        memset (frame, 0xff, bytes);
    msg.digest[0] ^= damaged == 2 || (play->repeat && number == 1 && play->got[1] == 2);
    msg.n_hit += damaged == 3;
    fake_send (self, &msg, frame, bytes);
    if ((play->revoke || play->early_ack) && number == 5) {
        wm_msg_init (&msg, play->revoke ? WM_MSG_REVOKE : WM_MSG_RESULT_ACK);
        msg.key = (wm_key_t){ 1, number, 0, 0 };
        fake_send (self, &msg, NULL, 0);
    }
}

static void send_model (fake_t *self, play_t *play, uint64_t offset)
{
    wm_msg_t msg;
    play->n_model++;
    wm_msg_init (&msg, WM_MSG_MODEL);
    msg.offset = offset + (play->wrong_model == 2);
    msg.size = play->wrong_model == 3 ? WM_MODEL_BYTES_MAX + 1 : MODEL_BYTES;
    size_t left = MODEL_BYTES - (size_t) offset;
    model_bytes[7] ^= play->wrong_model == 1;
    fake_send (self, &msg, model_bytes + offset, left < WM_RAW_BYTES_MAX ? left : WM_RAW_BYTES_MAX);
    model_bytes[7] ^= play->wrong_model == 1;
}

static void take_hello (fake_t *self, play_t *play, const wm_msg_t *msg, const uint8_t *payload,
                        size_t bytes)
{
    if (strcmp (msg->text, "made-up/1") == 0) {
        play->hellos++;
        play->granted =
            play->sent; /* absolute in this session: counted from what was sent before */
        play->held = (int) (bytes / sizeof (wm_hello_held_t));
        play->held_unacked = 0;
        for (size_t i = 0; i + sizeof (wm_hello_held_t) <= bytes; i += sizeof (wm_hello_held_t)) {
            wm_hello_held_t held;
            memcpy (&held, payload + i, sizeof held);
            play->held_unacked += (int) held.unacked;
            play->held_key[held.key.ordinal] = held.unacked ? 2 : 1;
        }
        self->argument = play;
    }
    fake_welcome (self);
}

static void take_result (fake_t *self, play_t *play, const wm_msg_t *msg, const uint8_t *payload,
                         size_t bytes)
{
    uint32_t number = msg->key.ordinal;
    CHECK (number >= 1 && number <= N_BATCH);
    CHECK (bytes == wm_result_bytes (N_HIT, N_OUTPUT));
    for (uint32_t i = 0; i < N_HIT; i++)
        for (uint32_t j = 0; j < N_OUTPUT; j++) {
            float score, wanted = (float) (1000 * (number + 100) + i) + (float) j / 8;
            memcpy (&score, payload + N_HIT + 4 * (i * N_OUTPUT + j), 4);
            CHECK (payload[i] ? payload[i] == WM_HIT_POISON && is_bad (number, i) && score != score
                              : score == wanted);
            play->n_poison += j == 0 && payload[i] != 0;
        }
    if (play->late_revoke && number == 1) {
        wm_msg_t revoke;
        wm_msg_init (&revoke, WM_MSG_REVOKE);
        revoke.key = msg->key;
        fake_send (self, &revoke, NULL, 0);
    }
    play->got[number]++;
    play->n_got++;
    if (play->repeat && number == 1 && play->got[1] <= 2)
        send_batch (self, play, 1);
    if (!play->mute_acks) {
        wm_msg_t ack;
        wm_msg_init (&ack, WM_MSG_RESULT_ACK);
        ack.key = msg->key;
        fake_send (self, &ack, NULL, 0);
        play->acked[number] = 1;
    }
    if (play->say_at && play->n_got == play->say_at)
        fake_code (self, play->say, WM_REASON_DONE, "said the test");
}

static void script (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    play_t *play = self->argument;
    static int base; /* tasks sent before this session */
    wm_msg_t beat;
    wm_msg_init (&beat, WM_MSG_HEARTBEAT);
    switch (msg ? msg->type : 0) {
    case 0:
        fake_send (self, &beat, NULL, 0);
        if (play->repeat && ++play->n_idle == 2000) /* 10 s: the answer does not come */
            fake_code (self, WM_MSG_DRAIN, WM_REASON_DONE, "said the test");
        break;
    case WM_MSG_HELLO:
        if (play->refuses) {
            fake_code (self, WM_MSG_REJECT, (uint32_t) play->refuses, "said the test");
            break;
        }
        take_hello (self, play, msg, payload, bytes);
        base = play->sent;
        break;
    case WM_MSG_MODEL_GET:
        if (play->leaves > 0) {
            play->leaves--;
            zclock_sleep (400);
            fake_code (self, WM_MSG_BYE, WM_REASON_STOPPING, "said the test");
        } else
            send_model (self, play, msg->offset);
        break;
    case WM_MSG_CREDIT:
        CHECK (base + (int) msg->count > play->granted - play->waits); /* once more */
        play->granted = base + (int) msg->count;
        play->waits = 0;
        break;
    case WM_MSG_RESULT:
        take_result (self, play, msg, payload, bytes);
        break;
    case WM_MSG_NACK:
        play->nacked[msg->key.ordinal]++;
        play->nack_code[msg->key.ordinal] = (int) msg->code;
        play->waits |= msg->code == WM_EAGAIN;
        CHECK (msg->text[0] != 0);
        break;
    case WM_MSG_HEARTBEAT:
        play->n_working += msg->key.input == 1;
        play->n_over += (int) msg->received > play->sent - base;
        CHECK (msg->count >= play->progress || !msg->key.input);
        play->progress = msg->count;
        break;
    case WM_MSG_BYE:
        play->bye_code = (int) msg->code;
        play->n_bye++;
        break;
    default:
        break;
    }
    if (play->repeat && play->nacked[1] && play->got[2] && !play->n_bye)
        fake_code (self, WM_MSG_DRAIN, WM_REASON_DONE, "said the test");
    while (play->sent < play->n_batch && play->sent < play->granted && !play->waits)
        send_batch (self, play, (uint32_t) ++play->sent);
}

/* ---- running one ----------------------------------------------------------------------------- */

typedef struct {
    wm_worker_config_t config;
    pthread_t thread;
    int code;
} run_t;

static void *worker_thread (void *argument)
{
    run_t *run = argument;
    run->code = wm_worker_run (&run->config);
    return NULL;
}

/* It leaves when it had no work for idle_s.  */
static void run_start_idle (run_t *run, const fake_t *broker, double idle_s)
{
    static char cache[sizeof folder + 16];
    snprintf (cache, sizeof cache, "%s/cache/deep", folder);
    run->config = (wm_worker_config_t){ .n_broker = 1,
                                        .broker = { { broker->endpoint, 1 } },
                                        .engine = "auto",
                                        .cache = cache,
                                        .threads = 1,
                                        .idle_s = idle_s,
                                        .give_up_s = 2 };
    pthread_create (&run->thread, NULL, worker_thread, run);
}

static void run_start (run_t *run, const fake_t *broker)
{
    run_start_idle (run, broker, 0.3);
}

static int run_wait (run_t *run)
{
    pthread_join (run->thread, NULL);
    return run->code;
}

static int n_broker; /* that run */

/* A failed test leaves its broker behind, which would answer on the memory of the next test.  */
static int nothing_runs_on (void **state)
{
    if (n_broker > 0) {
        fprintf (stderr, "the broker of a test that failed runs on: no other test is run\n");
        _exit (1);
    }
    return 0;
}

static fake_t *broker_for (play_t *play)
{
    wm_error_t error;
    wm_spec_t spec;
    fake_t *broker = fake_new (folder, script, play);
    strcpy (broker->pins.wmm, model_hash);
    assert_int_equal (wm_spec_preset (&spec, "protodune-2021", &error), WM_OK);
    wm_spec_print (&spec, broker->pins.spec, sizeof broker->pins.spec);
    play->coder = wm_coder_new ();
    memset (told, 0, sizeof *told);
    strcpy (told->identity, broker->pins.model);
    told->score_ms = 1;
    zsys_interrupted = 0;
    fake_start (broker);
    n_broker++;
    return broker;
}

static void broker_gone (fake_t **broker, play_t *play)
{
    fake_destroy (broker);
    n_broker--;
    wm_coder_destroy (&play->coder);
    zsys_interrupted = 0;
}

static void wait_for (atomic_int *value, int goal)
{
    for (int i = 0; i < 15000 && *value < goal; i++) /* 30 s */
        zclock_sleep (2);
    assert_true (*value >= goal);
}

/* The exit code, when the broker has heard the BYE of the second session too.  */
static int run_wait_bye (run_t *run, play_t *play)
{
    int code = run_wait (run);
    wait_for (&play->n_bye, 2);
    return code;
}

static int nacks (const play_t *play, int code)
{
    int n = 0;
    for (int b = 1; b <= N_BATCH; b++)
        n += play->nacked[b] && play->nack_code[b] == code;
    return n;
}

/* The one file below cache/deep/replay.  */
static void replay_path (char path[512])
{
    char replays[sizeof folder + 32];
    snprintf (replays, sizeof replays, "%s/cache/deep/replay", folder);
    zdir_t *dir = zdir_new (replays, NULL);
    assert_non_null (dir);
    zlist_t *files = zdir_list (dir);
    zfile_t *file = zlist_first (files);
    assert_non_null (file);
    snprintf (path, 512, "%s", zfile_filename (file, NULL));
    zlist_destroy (&files);
    zdir_destroy (&dir);
}

static void forget_replays (void)
{
    char replays[sizeof folder + 32];
    snprintf (replays, sizeof replays, "%s/cache/deep/replay", folder);
    zdir_t *dir = zdir_new (replays, NULL);
    zdir_remove (dir, true);
    zdir_destroy (&dir);
}

/* Runs the tests, or is their engine process.  */
#define made_worker_main(argc, argv, tests)                                                        \
    made_worker_run (argc, argv, tests, sizeof (tests) / sizeof *(tests))
static int made_worker_run (int argc, char **argv, const struct CMUnitTest *tests, size_t n_test)
{
    char path[sizeof folder + 16];
    if (argc > 2 && !strcmp (argv[1], WM_ENGINE_MODE)) {
        tell (getenv ("WM_TEST_TOLD"));
        return wm_engine_process_main (argv[2]);
    }
    setenv ("WM_TIME_SCALE", "10", 1); /* a handshake has 0.5 s, a silence is 3 s */
    if (!mkdtemp (folder) || sodium_init () < 0)
        return 1;
    snprintf (path, sizeof path, "%s/told", folder);
    setenv ("WM_TEST_TOLD", path, 1);
    tell (path);
    uint8_t hash[crypto_hash_sha256_BYTES];
    for (size_t i = 0; i < MODEL_BYTES; i++)
        model_bytes[i] = (uint8_t) (i * i >> 7);
    crypto_hash_sha256 (hash, model_bytes, MODEL_BYTES);
    sodium_bin2hex (model_hash, sizeof model_hash, hash, sizeof hash);
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    struct CMUnitTest list[64];
    CHECK (n_test <= sizeof list / sizeof *list);
    memcpy (list, tests, n_test * sizeof *list);
    for (size_t i = 0; i < n_test; i++)
        if (!list[i].setup_func)
            list[i].setup_func = nothing_runs_on;
    int rc = _cmocka_run_group_tests ("worker", list, n_test, NULL, NULL);
    zdir_t *dir = zdir_new (folder, NULL);
    zdir_remove (dir, true);
    zdir_destroy (&dir);
    return rc;
}

#endif
