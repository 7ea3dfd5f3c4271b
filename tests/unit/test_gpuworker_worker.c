/* test_gpuworker_worker.c - a whole worker against a scripted broker, with an engine made up here.

   The broker below sends N_BATCH batches within the credit it is granted, checks every result, and
   can be told to acknowledge nothing, to damage payloads, to die. The made-up engine scores hit
   i of batch b as 1000 b + i, takes as long and fails as often as it is told.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "fake_broker.h"
#include "gpuworker/wm_engine.h"
#include "gpuworker/wm_replay.h"
#include "gpuworker/wm_worker.h"
#include "kernels/wm_device.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <sys/mman.h>

enum { N_BATCH = 60, N_HIT = 7, N_OUTPUT = 4, MODEL_BYTES = (5 << 20) + 123 };

static char folder[] = "wm-worker-XXXXXX";
static char model_hash[65]; /* of the file the broker serves */
static uint8_t model_bytes[MODEL_BYTES];

/* cmocka's own asserts belong to the test's thread; those of broker and engine end the program.  */
#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf (stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                    \
            abort ();                                                                              \
        }                                                                                          \
    } while (0)

/* ---- the engine -------------------------------------------------------------------------------*/

struct wm_model_t {
    int unused;
};
struct wm_device_t {
    _Atomic uint64_t *progress;
};
static wm_model_t the_model;
static wm_device_t the_device;

/* The engine is a process of its own, as in the product: this program in another mode. What the test
   tells it, and what it counts, lies in a file that both map.  */
typedef struct {
    char identity[80]; /* what the model says it is */
    atomic_int score_ms, n_score, n_test, n_open;
    atomic_int failing;      /* bit i: call i fails */
    atomic_int test_failing; /* bit i: self-test i fails */
    atomic_int refuses;      /* the device cannot be opened: with this fault */
    atomic_int bad[4];       /* 1000 batch + hit: it dies of them; 0: none */
    atomic_int manner;       /* how */
    atomic_int hangs;        /* the call of this number, from 1 */
    atomic_int engine;       /* its process */
} told_t;
enum { SEGV, EXITS, SPOILS };
static told_t *told;

static void tell (const char *path)
{
    int fd = open (path, O_RDWR | O_CREAT, 0600);
    CHECK (fd >= 0 && !ftruncate (fd, sizeof *told));
    told = mmap (NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK (told != MAP_FAILED);
    close (fd);
}

wm_model_t *wm_model_open (const char *path, wm_error_t *error)
{
    char hex[65];
    CHECK (wm_file_sha256 (path, hex, error) == WM_OK);
    CHECK (strstr (path, hex)); /* it lies under its hash */
    return &the_model;
}

void wm_model_destroy (wm_model_t **self_p)
{
    *self_p = NULL;
}

const char *wm_model_sha256 (const wm_model_t *self)
{
    (void) self;
    return told->identity;
}

uint32_t wm_model_n_value (const wm_model_t *self)
{
    (void) self;
    return 9;
}

uint32_t wm_model_n_output (const wm_model_t *self)
{
    (void) self;
    return N_OUTPUT;
}

wm_device_t *wm_device_new (const wm_model_t *model, const wm_spec_t *spec,
                            const wm_device_config_t *config, wm_error_t *error)
{
    (void) model;
    CHECK (spec->patch_wire == 48);
    CHECK (!strcmp (config->precision, "fp32"));
    the_device.progress = config->progress;
    told->n_open++;
    told->engine = (int) getpid ();
    if (!told->refuses)
        return &the_device;
    wm_fault (error, (wm_fault_t) told->refuses, "there is no driver");
    return NULL;
}

void wm_device_destroy (wm_device_t **self_p)
{
    *self_p = NULL;
}

const char *wm_device_signature (const wm_device_t *self)
{
    (void) self;
    return "made-up/1";
}

uint64_t wm_device_progress (const wm_device_t *self)
{
    return *self->progress;
}

wm_fault_t wm_device_self_test (wm_device_t *self, wm_error_t *error)
{
    (void) self;
    int test = told->n_test++;
    if (test < 32 && told->test_failing >> test & 1)
        return wm_fault (error, WM_EHOST, "known answers are wrong by 3");
    return WM_OK;
}

static int is_bad (uint32_t number, uint32_t hit)
{
    for (int k = 0; k < 4; k++)
        if (told->bad[k] == (int) (1000 * number + hit))
            return 1;
    return 0;
}

static void die (const wm_batch_t *batch)
{
    switch (told->manner) {
    case SEGV:
        raise (SIGSEGV);
        break;
    case EXITS:
        _exit (99);
    case SPOILS: /* writes where it must not */
        *(volatile uint32_t *) batch->hit_wire = 1;
        break;
    default:
        break;
    }
}

wm_fault_t wm_device_score (wm_device_t *self, const wm_batch_t *batch, uint8_t *status,
                            float *scores, wm_error_t *error)
{
    int call = told->n_score++;
    zclock_sleep (told->score_ms);
    if (call + 1 == told->hangs)
        for (;;)
            pause ();
    if (call < 32 && told->failing >> call & 1)
        return wm_fault (error, WM_EHOST, "the engine says no");
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        if (is_bad (batch->n_wire - 100, batch->hit_wire[i]))
            die (batch);
        status[i] = WM_HIT_SCORED;
        for (uint32_t j = 0; j < N_OUTPUT; j++)
            scores[i * N_OUTPUT + j] =
                (float) (1000 * batch->n_wire + batch->hit_wire[i]) + (float) j / 8;
        ++*self->progress;
    }
    return WM_OK;
}

/* ---- the broker -------------------------------------------------------------------------------*/

typedef struct {
    int n_batch;       /* to send */
    int mute_acks;     /* results are not acknowledged */
    int damage;        /* of every third batch: 1 garbage, 2 digest, 3 number of hits */
    int wrong_model;   /* 1: other bytes, 2: other offset, 3: too large */
    int say_at;        /* after so many results (0: none) ... */
    wm_msg_type_t say; /* ... say this */
    int revoke;        /* batch 5 right after it was sent */
    atomic_int sent, granted, hellos, held, held_unacked;
    atomic_int held_key[N_BATCH + 1]; /* by the last HELLO: 1 a task, 2 a result not acknowledged */
    atomic_int got[N_BATCH + 1], acked[N_BATCH + 1], nacked[N_BATCH + 1], nack_code[N_BATCH + 1];
    atomic_int n_poison;                  /* hits held because the engine dies of them */
    atomic_int n_got, n_model, n_working; /* n_working: heartbeats that name a batch */
    atomic_ullong progress;
    atomic_int n_bye, bye_code;
    wm_coder_t *coder;
} play_t;

static size_t make_batch (play_t *play, uint32_t number, const uint8_t pins_digest[16],
                          uint8_t *frame, size_t bytes_max, uint8_t digest[16])
{
    wm_error_t error;
    size_t bytes = 0;
    wm_batch_t batch = { .kind = WM_BATCH_BINS,
                         .n_hit = N_HIT,
                         .n_wire = number + 100,
                         .n_col = 50,
                         .n_run = 1,
                         .n_value = 3 };
    CHECK (wm_batch_reserve (&batch, &error) == WM_OK);
    batch.run_wire[0] = 3;
    batch.run_first[0] = 4;
    batch.run_length[0] = 3;
    for (int i = 0; i < 3; i++)
        batch.value[i] = (float) i;
    for (int i = 0; i < N_HIT; i++) {
        batch.hit_wire[i] = (uint32_t) i;
        batch.hit_col[i] = i;
    }
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
    msg.digest[0] ^= damaged == 2;
    msg.n_hit += damaged == 3;
    fake_send (self, &msg, frame, bytes);
    if (play->revoke && number == 5) {
        wm_msg_init (&msg, WM_MSG_REVOKE);
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
    play->got[number]++;
    play->n_got++;
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
        break;
    case WM_MSG_HELLO:
        take_hello (self, play, msg, payload, bytes);
        base = play->sent;
        break;
    case WM_MSG_MODEL_GET:
        send_model (self, play, msg->offset);
        break;
    case WM_MSG_CREDIT:
        CHECK (base + (int) msg->count > play->granted);
        play->granted = base + (int) msg->count;
        break;
    case WM_MSG_RESULT:
        take_result (self, play, msg, payload, bytes);
        break;
    case WM_MSG_NACK:
        play->nacked[msg->key.ordinal]++;
        play->nack_code[msg->key.ordinal] = (int) msg->code;
        CHECK (msg->text[0] != 0);
        break;
    case WM_MSG_HEARTBEAT:
        play->n_working += msg->key.input == 1;
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
    while (play->sent < play->n_batch && play->sent < play->granted)
        send_batch (self, play, (uint32_t) ++play->sent);
}

/* ---- running one ------------------------------------------------------------------------------*/

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

static void run_start (run_t *run, const fake_t *broker)
{
    static char cache[sizeof folder + 16];
    snprintf (cache, sizeof cache, "%s/cache/deep", folder);
    run->config = (wm_worker_config_t){ .n_broker = 1,
                                        .broker = { { broker->endpoint, 1 } },
                                        .engine = "auto",
                                        .cache = cache,
                                        .threads = 1,
                                        .idle_s = 0.3,
                                        .give_up_s = 2 };
    pthread_create (&run->thread, NULL, worker_thread, run);
}

static int run_wait (run_t *run)
{
    pthread_join (run->thread, NULL);
    return run->code;
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
    return broker;
}

static void broker_gone (fake_t **broker, play_t *play)
{
    fake_destroy (broker);
    wm_coder_destroy (&play->coder);
    zsys_interrupted = 0;
}

static void wait_for (atomic_int *value, int goal)
{
    for (int i = 0; i < 2000 && *value < goal; i++)
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

/* ---- the tests --------------------------------------------------------------------------------*/

static void scores_everything_and_leaves (void **state)
{
    (void) state;
    for (int i = 0; i < 2; i++) { /* the second time from the cache */
        play_t play = { .n_batch = N_BATCH };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->score_ms = 5;
        run_start (&run, broker);
        assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
        for (int b = 1; b <= N_BATCH; b++)
            assert_int_equal (play.got[b], 1);
        assert_int_equal (play.n_model, i == 0 ? 2 : 0);
        assert_int_equal (play.bye_code, WM_REASON_DRAINED);
        assert_int_equal (told->n_test, 1);
        assert_true (play.n_working >= 3);
        assert_int_equal (play.progress, N_BATCH * N_HIT);
        assert_int_equal (broker->undecodable, 0);
        broker_gone (&broker, &play);
    }
}

static void damaged_cache (void **state)
{
    (void) state;
    play_t play = { .n_batch = 1 };
    run_t run;
    char path[256];
    fake_t *broker = broker_for (&play);
    snprintf (path, sizeof path, "%s/cache/deep/%s.wmm", folder, model_hash);
    FILE *file = fopen (path, "r+");
    assert_non_null (file);
    fputs ("damage", file);
    fclose (file);
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
    assert_int_equal (play.n_model, 2);
    assert_int_equal (play.n_got, 1);
    broker_gone (&broker, &play);
}

static void wrong_models (void **state)
{
    (void) state;
    char path[256];
    snprintf (path, sizeof path, "%s/cache/deep/%s.wmm", folder, model_hash);
    for (int what = 1; what <= 4; what++) {
        play_t play = { .n_batch = 1, .wrong_model = what };
        run_t run;
        fake_t *broker = broker_for (&play);
        if (what == 4)
            strcpy (told->identity, "cccc");
        else
            unlink (path);
        run_start (&run, broker);
        assert_int_equal (run_wait (&run), what == 4 ? WM_EXIT_INPUT : WM_EXIT_FAILURE);
        assert_int_equal (play.hellos, 0);
        if (what < 4)
            assert_int_not_equal (access (path, F_OK), 0);
        broker_gone (&broker, &play);
        if (what == 3) { /* for those after us */
            play_t good = { 0 };
            broker = broker_for (&good);
            run_start (&run, broker);
            assert_int_equal (run_wait (&run), WM_EXIT_OK);
            broker_gone (&broker, &good);
        }
    }
}

static void no_broker (void **state)
{
    (void) state;
    play_t play = { 0 };
    run_t run;
    fake_t *broker = broker_for (&play);
    fake_stop (broker);
    run_start (&run, broker);
    assert_int_equal (run_wait (&run), WM_EXIT_UNREACHABLE);
    broker_gone (&broker, &play);
}

static void self_test_first (void **state)
{
    (void) state;
    play_t play = { .n_batch = 1 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->test_failing = 1;
    run_start (&run, broker);
    assert_int_equal (run_wait (&run), WM_EXIT_FAILURE);
    assert_int_equal (play.hellos, 0); /* it never asked for work */
    broker_gone (&broker, &play);
}

static void keeps_until_acknowledged (void **state)
{
    (void) state;
    play_t play = { .n_batch = N_BATCH, .mute_acks = 1 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 3;
    run_start (&run, broker);
    wait_for (&play.n_got, 20);
    fake_stop (broker); /* killed: nothing was acknowledged */
    int before = play.n_got;
    play.mute_acks = 0;
    zclock_sleep (20);
    fake_start (broker);
    assert_int_equal (run_wait (&run), WM_EXIT_OK);
    assert_int_equal (play.hellos, 2);
    assert_true (play.held_unacked >= before);
    int lost = 0;
    for (int b = 1; b <= play.sent; b++) {
        lost +=
            !play.got[b]; /* its TASK was on the way when the broker died: the broker's business */
        assert_true (!play.held_key[b] || (play.got[b] && play.acked[b]));
        assert_true (play.held_key[b] || play.got[b] <= 1);
    }
    assert_true (play.n_got >= before + play.sent - lost); /* each of the first came again */
    assert_int_equal (told->n_score, play.sent - lost);    /* and none was computed twice */
    broker_gone (&broker, &play);
}

static void bad_batches_are_refused_by_name (void **state)
{
    (void) state;
    for (int damage = 1; damage <= 3; damage++) {
        play_t play = { .n_batch = 30, .damage = damage };
        run_t run;
        fake_t *broker = broker_for (&play);
        run_start (&run, broker);
        assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
        for (int b = 1; b <= 30; b++) {
            assert_int_equal (play.got[b], b % 3 != 0);
            assert_int_equal (play.nacked[b], b % 3 == 0);
            assert_int_equal (play.nack_code[b], b % 3 == 0 ? WM_EBATCH : 0);
        }
        assert_int_equal (told->n_open, 1); /* the engine never saw them */
        broker_gone (&broker, &play);
    }
}

static int nacks (const play_t *play, int code)
{
    int n = 0;
    for (int b = 1; b <= N_BATCH; b++)
        n += play->nacked[b] && play->nack_code[b] == code;
    return n;
}

/* An engine that fails once, without any hit that would explain it: nobody notices.  */
static void accidents (void **state)
{
    (void) state;
    for (int i = 0; i < 3; i++) {
        play_t play = { .n_batch = 10 };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->failing = i == 0; /* the first call fails, or hangs */
        told->hangs = i == 1;
        told->score_ms = 20;
        run_start (&run, broker);
        if (i == 2) { /* or it is killed from outside */
            wait_for (&play.n_got, 2);
            kill (told->engine, SIGKILL);
        }
        assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
        assert_int_equal (play.n_got, 10);
        assert_int_equal (told->n_open, 2);
        assert_int_equal (nacks (&play, WM_EHOST) + play.n_poison, 0);
        broker_gone (&broker, &play);
    }
}

/* One that fails whatever it is given: after three batches the worker leaves.  */
static void a_machine_that_always_fails (void **state)
{
    (void) state;
    play_t play = { .n_batch = 10 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->failing = -1;
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_FAILURE);
    assert_int_equal (nacks (&play, WM_EHOST), 3);
    assert_int_equal (told->n_score, 21); /* seven deaths of each */
    assert_int_equal (play.n_got, 0);
    assert_int_equal (play.bye_code, WM_REASON_FAILED);
    assert_true (play.sent <= 4); /* a black hole eats little */
    broker_gone (&broker, &play);
}

static void failed_tests_after_a_failure (void **state)
{
    (void) state;
    for (int leaves = 0; leaves < 2; leaves++) {
        play_t play = { .n_batch = 10 };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->failing = 1;
        told->test_failing = leaves ? 14 : 2; /* from the second start on: three times, or once */
        run_start (&run, broker);
        assert_int_equal (run_wait_bye (&run, &play), leaves ? WM_EXIT_FAILURE : WM_EXIT_OK);
        assert_int_equal (told->n_open, leaves ? 4 : 3);
        assert_int_equal (play.n_got, leaves ? 0 : 10);
        assert_int_equal (play.bye_code, leaves ? WM_REASON_FAILED : WM_REASON_DRAINED);
        assert_int_equal (nacks (&play, WM_EHOST), 0); /* given back, blamed on nobody */
        broker_gone (&broker, &play);
    }
}

static void an_engine_that_cannot_start (void **state)
{
    (void) state;
    const wm_fault_t faults[] = { WM_EHOST, WM_EBATCH };
    for (int i = 0; i < 2; i++) {
        play_t play = { .n_batch = 1 };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->refuses = (int) faults[i];
        run_start (&run, broker);
        assert_int_equal (run_wait (&run), i ? WM_EXIT_INPUT : WM_EXIT_ENGINE);
        assert_int_equal (told->n_open, 1); /* and it is not tried again */
        assert_int_equal (play.hellos, 0);
        broker_gone (&broker, &play);
    }
}

/* ---- poison -----------------------------------------------------------------------------------*/

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

/* Hits that kill the engine are held, their neighbours keep their bits, a file shows it again.  */
static void poison_is_found (void **state)
{
    (void) state;
    for (int manner = SEGV; manner <= SPOILS; manner++) {
        play_t play = { .n_batch = 12 };
        run_t run;
        char path[512];
        fake_t *broker = broker_for (&play);
        told->manner = manner;
        told->bad[0] = 1003;
        told->bad[1] = manner == SPOILS ? 0 : 5000;
        told->bad[2] = manner == SPOILS ? 0 : 5006;
        run_start (&run, broker);
        assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
        assert_int_equal (play.n_got, 12);
        assert_int_equal (play.n_poison, manner == SPOILS ? 1 : 3);
        assert_int_equal (nacks (&play, WM_EHOST) + nacks (&play, WM_EBATCH), 0);
        replay_path (path);
        assert_int_equal (wm_replay_run (path, NULL), WM_EXIT_HELD);
        memset (told->bad, 0, sizeof told->bad); /* mended */
        assert_int_equal (wm_replay_run (path, NULL), WM_EXIT_OK);
        told->refuses = WM_EHOST;
        assert_int_equal (wm_replay_run (path, NULL), WM_EXIT_ENGINE);
        forget_replays ();
        broker_gone (&broker, &play);
    }
}

static void replay_files_are_checked (void **state)
{
    (void) state;
    char path[sizeof folder + 16];
    snprintf (path, sizeof path, "%s/none", folder);
    assert_int_equal (wm_replay_run (path, NULL), WM_EXIT_INPUT);
    static const char *const texts[] = { "x", "wiremill-replay 2\n",
                                         "wiremill-replay 1\nengine auto\n",
                                         "wiremill-replay 1\nengine auto\nthreads 0\n"
                                         "hit 1\nhow x\npins 99999\n" };
    for (int i = 0; i < 4; i++) {
        FILE *file = fopen (path, "w");
        fputs (texts[i], file);
        fclose (file);
        assert_int_equal (wm_replay_run (path, NULL), WM_EXIT_INPUT);
    }
}

/* A drain does not wait for a search: the batch is somebody else's.  */
static void a_drain_ends_the_search (void **state)
{
    (void) state;
    play_t play = { .n_batch = 1 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->bad[0] = 1003;
    told->score_ms = 100;
    run_start (&run, broker);
    wait_for (&told->n_open, 2);
    zsys_interrupted = 1;
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_AGAIN);
    assert_int_equal (play.n_got, 0);
    assert_int_equal (nacks (&play, WM_EAGAIN), 1);
    broker_gone (&broker, &play);
}

static void signal_drains (void **state)
{
    (void) state;
    play_t play = { .n_batch = 8 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 30;
    run_start (&run, broker);
    wait_for (&play.sent, 8);
    zsys_interrupted = 1;
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_AGAIN);
    assert_int_equal (play.bye_code, WM_REASON_DRAINED);
    int back = 0;
    for (int b = 1; b <= 8; b++) {
        assert_int_equal (play.got[b] + play.nacked[b], 1); /* done, or given back */
        assert_int_equal (play.nack_code[b], play.nacked[b] ? WM_EAGAIN : 0);
        back += play.nacked[b];
    }
    assert_true (back >= 1);
    assert_int_equal (told->n_score, play.n_got);
    broker_gone (&broker, &play);
}

static void broker_says_so (void **state)
{
    (void) state;
    static const wm_msg_type_t words[] = { WM_MSG_DRAIN, WM_MSG_BYE };
    for (int i = 0; i < 2; i++) {
        play_t play = { .n_batch = N_BATCH, .say_at = 5, .say = words[i] };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->score_ms = 10;
        run_start (&run, broker);
        assert_int_equal (run_wait (&run), WM_EXIT_OK);
        assert_true (told->n_score < N_BATCH);
        broker_gone (&broker, &play);
    }
}

static void revoked_work_is_dropped (void **state)
{
    (void) state;
    play_t play = { .n_batch = 10, .revoke = 1 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 10;
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
    assert_int_equal (play.n_got, 9);
    assert_int_equal (play.got[5] + play.nacked[5], 0);
    assert_int_equal (told->n_score, 9);
    broker_gone (&broker, &play);
}

static void another_campaign (void **state)
{
    (void) state;
    play_t play = { .n_batch = 5 };
    run_t run;
    fake_t *broker = broker_for (&play);
    run_start (&run, broker);
    wait_for (&play.n_got, 5);
    fake_stop (broker);
    broker->campaign[0] ^= 1;
    fake_start (broker);
    assert_int_equal (run_wait (&run), WM_EXIT_FAILURE);
    broker_gone (&broker, &play);
}

int main (int argc, char **argv)
{
    char path[sizeof folder + 16];
    if (argc > 2 && !strcmp (argv[1], WM_ENGINE_MODE)) {
        tell (getenv ("WM_TEST_TOLD"));
        return wm_engine_main (argv[2]);
    }
    setenv ("WM_TIME_SCALE", "100", 1);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (scores_everything_and_leaves),
        cmocka_unit_test (damaged_cache),
        cmocka_unit_test (wrong_models),
        cmocka_unit_test (no_broker),
        cmocka_unit_test (self_test_first),
        cmocka_unit_test (keeps_until_acknowledged),
        cmocka_unit_test (bad_batches_are_refused_by_name),
        cmocka_unit_test (accidents),
        cmocka_unit_test (a_machine_that_always_fails),
        cmocka_unit_test (failed_tests_after_a_failure),
        cmocka_unit_test (an_engine_that_cannot_start),
        cmocka_unit_test (poison_is_found),
        cmocka_unit_test (replay_files_are_checked),
        cmocka_unit_test (a_drain_ends_the_search),
        cmocka_unit_test (signal_drains),
        cmocka_unit_test (broker_says_so),
        cmocka_unit_test (revoked_work_is_dropped),
        cmocka_unit_test (another_campaign),
    };
    int rc = cmocka_run_group_tests (tests, NULL, NULL);
    zdir_t *dir = zdir_new (folder, NULL);
    zdir_remove (dir, true);
    zdir_destroy (&dir);
    return rc;
}
