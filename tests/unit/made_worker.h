/* made_worker.h - a whole worker against a scripted broker, with an engine made up here.

   The broker below sends N_BATCH batches within the credit it is granted, checks every result, and
   can be told to acknowledge nothing, to damage payloads, to die. The made-up engine scores hit
   i of batch b as 1000 b + i, takes as long and fails as often as it is told. A test's main is
   made_worker_main.  */
#ifndef MADE_WORKER_H
#define MADE_WORKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#pragma GCC diagnostic ignored "-Wunused-function" /* not every test needs all of it */

#include "fake_broker.h"
#include "gpuworker/wm_engine_process.h"
#include "gpuworker/wm_replay.h"
#include "gpuworker/wm_worker.h"
#include "kernels/wm_device.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <sys/mman.h>

enum { N_BATCH = 60, N_HIT = 7, N_OUTPUT = 4, MODEL_BYTES = (5 << 20) + 123 };

static char folder[] = "/tmp/wm-worker-XXXXXX";
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

/* ---- the engine ------------------------------------------------------------------------------ */

struct wm_model_t {
    int unused;
};
struct wm_device_t {
    _Atomic uint64_t *progress;
};
static wm_model_t the_model;
static wm_device_t the_device, the_judge;
static _Thread_local _Atomic uint64_t *count_here;

/* The engine is a process of its own, as in the product: this program in another mode. What the
   test tells it, and what it counts, lies in a file that both map.  */
typedef struct {
    char identity[80]; /* what the model says it is */
    atomic_int score_ms, n_score, n_test, n_open;
    atomic_int failing; /* bit i: call i fails */
    atomic_int starves; /* it has no memory for more than `fits` hits at a time: how it ends */
    atomic_int fits, oom_kills;
    atomic_int test_failing; /* bit i: self-test i fails */
    atomic_int refuses;      /* the device cannot be opened: with this fault */
    atomic_int bad[4];       /* 1000 batch + hit: it dies of them; 0: none */
    atomic_int manner;       /* how */
    atomic_int hangs;        /* the call of this number, from 1 */
    atomic_int engine;       /* its process */
    atomic_int fill;         /* hits that it gains by; 0: batches are scored one by one */
    atomic_int n_many, most; /* calls with several batches, and the most batches of one */
    atomic_int many_failing; /* bit i: such call i fails */
    atomic_int refused;      /* this batch can never be scored */
    atomic_int hands;        /* calls it takes at once; 0: one */
    atomic_int at_once;      /* most calls that ran at once */
    atomic_int running[2];   /* batches of the calls that run now */
    atomic_int suspect[2];   /* those that ran when the engine died, until they are scored */
    atomic_int n_mixed;      /* calls that ran beside a suspect one */
    atomic_int n_close;
    atomic_int hung;                  /* times that it hung: 1 at most, of the manner HANGS */
    atomic_int outlived;              /* a call went on for 30 s beside the one that hung */
    atomic_int hold;                  /* bit b: the call of batch b waits */
    atomic_int n_busy;                /* calls that have ended */
    atomic_int judges;                /* the campaign is fast: another device checks it */
    atomic_int n_judged, holds_judge; /* its calls; they go on, and do not end */
} told_t;
enum { SEGV, EXITS, SPOILS, HANGS };
enum { ENDS = 1, KILLED };
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
    if (told->judges && !strcmp (config->precision, "fp32")) {
        the_judge.progress = config->progress;
        return &the_judge;
    }
    CHECK (!strcmp (config->precision, told->judges ? "fast" : "fp32"));
    the_device.progress = config->progress;
    for (int i = 0; i < 2; i++) { /* what an engine process that died had begun */
        if (told->running[i])
            told->suspect[i] = (int) told->running[i];
        told->running[i] = 0;
    }
    told->n_open++;
    told->engine = (int) getpid ();
    if (!told->refuses)
        return &the_device;
    wm_fault (error, (wm_fault_t) told->refuses, "there is no driver");
    return NULL;
}

void wm_device_destroy (wm_device_t **self_p)
{
    told->n_close += *self_p == &the_device;
    *self_p = NULL;
}

const char *wm_device_signature (const wm_device_t *self)
{
    (void) self;
    return "made-up/1";
}

/* What only a trial needs: campaigns here have none.  */
wm_model_kind_t wm_model_kind (const wm_model_t *self)
{
    (void) self;
    abort ();
}

bool wm_device_candidate (const wm_model_t *model, const wm_device_config_t *config, uint32_t i,
                          wm_candidate_t *candidate, wm_error_t *error)
{
    (void) model, (void) config, (void) i, (void) candidate, (void) error;
    abort ();
}

void wm_device_strict_isa (const char *isa, char strict[32])
{
    (void) isa;
    *strict = 0;
}

void wm_device_recall (const char *signature, const char *precision, wm_candidate_t *candidate)
{
    (void) signature, (void) precision, (void) candidate;
    abort ();
}

double wm_device_max_error (const char *precision)
{
    (void) precision;
    abort ();
}

double wm_device_off (double score, double right)
{
    return fabs (score - right);
}

void wm_device_class (const wm_model_t *model, const wm_device_config_t *config,
                      const char *signature, char name[64])
{
    (void) model;
    CHECK (!strcmp (config->precision, told->judges ? "fast" : "fp32"));
    CHECK (!strcmp (signature, "made-up/1"));
    strcpy (name, "made");
}

void wm_device_count_here (_Atomic uint64_t *progress)
{
    count_here = progress;
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
    case HANGS: /* while another call goes on; later it is quicker */
        if (told->hung++)
            raise (SIGSEGV);
        for (;;)
            pause ();
    default:
        break;
    }
}

/* Goes on for as long as the call beside hangs.  */
static void outlive (wm_device_t *self)
{
    for (int i = 0; told->hung == 1 && told->n_open == 1 && !told->outlived; i++) {
        zclock_sleep (5);
        ++*(count_here ? count_here : self->progress);
        told->outlived = i >= 6000;
    }
}

/* Scores one hit.  */
static void score_hit (wm_device_t *self, const wm_batch_t *batch, uint32_t i, uint8_t *status,
                       float *scores)
{
    status[i] = WM_HIT_SCORED;
    for (uint32_t j = 0; j < N_OUTPUT; j++)
        scores[i * N_OUTPUT + j] =
            (float) (1000 * batch->n_wire + batch->hit_wire[i]) + (float) j / 8;
    ++*(count_here ? count_here : self->progress);
}

static wm_fault_t score (wm_device_t *self, const wm_batch_t *batch, uint8_t *status, float *scores,
                         wm_error_t *error)
{
    int call = told->n_score++;
    zclock_sleep (told->score_ms);
    if (call + 1 == told->hangs)
        for (;;)
            pause ();
    while (told->hold && told->hold >> (batch->n_wire - 100) & 1)
        zclock_sleep (1);
    if (call < 32 && told->failing >> call & 1)
        return wm_fault (error, WM_EHOST, "the engine says no to batch %u", batch->n_wire - 100);
    if (told->refused && batch->n_wire - 100 == (uint32_t) told->refused)
        return wm_fault (error, WM_EBATCH, "such a plane is none");
    if (told->starves && (int) batch->n_hit > told->fits) {
        if (told->starves == ENDS)
            return wm_fault (error, WM_EAGAIN, "no memory for %u hits", batch->n_hit);
        FILE *vmstat = fopen (getenv ("WM_VMSTAT"), "w"); /* the kernel counts, and kills */
        fprintf (vmstat, "pgfault 12\noom_kill %d\n", ++told->oom_kills);
        fclose (vmstat);
        raise (SIGKILL);
    }
    outlive (self);
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        if (is_bad (batch->n_wire - 100, batch->hit_wire[i]))
            die (batch);
        score_hit (self, batch, i, status, scores);
    }
    return WM_OK;
}

static bool is_suspect (int number)
{
    return number && (number == told->suspect[0] || number == told->suspect[1]);
}

wm_fault_t wm_device_score (wm_device_t *self, const wm_batch_t *batch, uint8_t *status,
                            float *scores, wm_error_t *error)
{
    if (self == &the_judge) {
        told->n_judged++;
        for (; told->holds_judge; zclock_sleep (5))
            ++*count_here;
        for (uint32_t i = 0; i < batch->n_hit; i++)
            score_hit (self, batch, i, status, scores);
        return WM_OK;
    }
    int number = (int) batch->n_wire - 100, none = 0;
    const int mine = atomic_compare_exchange_strong (&told->running[0], &none, number) ? 0 : 1;
    const int other = told->running[!mine];
    told->running[mine] = number;
    told->at_once = told->at_once > 1 || other ? 2 : 1;
    told->n_mixed += other && (is_suspect (number) || is_suspect (other));
    const wm_fault_t fault = score (self, batch, status, scores, error);
    if (!fault)
        for (int i = 0; i < 2; i++)
            told->suspect[i] = told->suspect[i] == number ? 0 : (int) told->suspect[i];
    told->running[mine] = 0;
    return fault;
}

uint32_t wm_device_hands (const wm_device_t *self)
{
    (void) self;
    return told->hands ? (uint32_t) told->hands : 1;
}

wm_device_busy_t wm_device_busy (wm_device_t *self)
{
    (void) self;
    told->n_busy++;
    return (wm_device_busy_t){ .busy_s = 8, .idle_s = 0.1 * told->n_score };
}

wm_fault_t wm_device_lend (wm_device_t *self, const void *memory, size_t bytes, wm_error_t *error)
{
    (void) self, (void) error;
    CHECK (memory && bytes);
    return WM_OK;
}

const wm_engine_t *wm_device_engine (const char *name)
{
    static const wm_engine_t made_up = { .name = "made-up", .gathers = true };
    (void) name;
    return &made_up;
}

const wm_engine_t *wm_device_engine_of_signature (const char *signature)
{
    return wm_device_engine (signature);
}

uint32_t wm_device_fill (const wm_device_t *self)
{
    (void) self;
    return (uint32_t) told->fill;
}

wm_fault_t wm_device_score_many (wm_device_t *self, uint32_t n, const wm_batch_t *const *batch,
                                 uint8_t *const *status, float *const *scores, wm_error_t *error)
{
    int call = told->n_many++;
    wm_fault_t fault = WM_OK;
    CHECK (told->fill && n > 1);
    told->most = (int) n > told->most ? (int) n : told->most;
    for (uint32_t i = 0; i < n && !fault; i++)
        fault = wm_device_score (self, batch[i], status[i], scores[i], error);
    if (call < 32 && told->many_failing >> call & 1)
        fault = wm_fault (error, WM_EHOST, "the engine says no to many");
    for (uint32_t i = 0; i < n && fault; i++) /* nothing holds now */
        memset (scores[i], 0x55, batch[i]->n_hit * N_OUTPUT * sizeof (float));
    return fault;
}

/* ---- the broker ------------------------------------------------------------------------------ */

typedef struct {
    int n_batch;       /* to send */
    int mute_acks;     /* results are not acknowledged */
    int damage;        /* of every third batch: 1 garbage, 2 digest, 3 number of hits */
    int wrong_model;   /* 1: other bytes, 2: other offset, 3: too large */
    int say_at;        /* after so many results (0: none) ... */
    wm_msg_type_t say; /* ... say this */
    int revoke;        /* batch 5 right after it was sent */
    int early_ack;     /* of batch 5, right after it was sent */
    int late_revoke;   /* of batch 1, at its result */
    int repeat;        /* batch 1 at its first result, and with another digest at its second */
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
} play_t;

/* Fills in the batch of this number.  */
static void fill_batch (wm_batch_t *batch, uint32_t number)
{
    wm_error_t error;
    batch->kind = WM_BATCH_BINS;
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
    for (int i = 0; i < N_HIT; i++) {
        batch->hit_wire[i] = (uint32_t) i;
        batch->hit_col[i] = i;
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
        take_hello (self, play, msg, payload, bytes);
        base = play->sent;
        break;
    case WM_MSG_MODEL_GET:
        send_model (self, play, msg->offset);
        break;
    case WM_MSG_CREDIT:
        CHECK (base + (int) msg->count > play->granted - (told->starves != 0)); /* once more */
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
    while (play->sent < play->n_batch && play->sent < play->granted)
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
    int rc = _cmocka_run_group_tests ("worker", tests, n_test, NULL, NULL);
    zdir_t *dir = zdir_new (folder, NULL);
    zdir_remove (dir, true);
    zdir_destroy (&dir);
    return rc;
}

#endif
