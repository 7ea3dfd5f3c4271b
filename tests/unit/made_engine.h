/* made_engine.h - an engine made up for tests of a worker, in place of kernels/wm_device.h.

   The engine scores hit i of batch b as 1000 b + i. A test sets how long a call takes, which
   calls fail and which hits end the engine. made_worker.h makes the batches.  */
#ifndef MADE_ENGINE_H
#define MADE_ENGINE_H

#pragma GCC diagnostic ignored "-Wunused-function" /* not every test needs all of it */

#include "kernels/wm_device.h"
#include "tests/unit/unit.h"

#include <czmq.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { N_BATCH = 60, N_HIT = 7, N_OUTPUT = 4 };

/* cmocka's own asserts belong to the test's thread; those of broker and engine end the program.  */
#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf (stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                    \
            abort ();                                                                              \
        }                                                                                          \
    } while (0)

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
    atomic_int hung;                   /* times that it hung: 1 at most, of the manner HANGS */
    atomic_int outlived;               /* a call went on for 30 s beside the one that hung */
    atomic_int hold;                   /* bit b: the call of batch b waits */
    atomic_int n_busy;                 /* calls that have ended */
    atomic_int streams;                /* it is a GPU: jobs are submitted and collected */
    atomic_int n_submit, n_job;        /* calls; jobs that are under way */
    atomic_int under_way[N_BATCH + 1]; /* by batch: 1 under way, 2 it was when the engine died */
    atomic_int judges;                 /* the campaign is fast: another device checks it */
    atomic_int n_judged, holds_judge;  /* its calls; they go on, and do not end */
    atomic_int judge_lies;             /* in its call of this number, from 1; the next one fails */
    atomic_int kind;                   /* of the model */
    char only[16], asked[60];          /* the one engine that opens, ""; all that were asked for */
    atomic_int changes;                /* it has another signature from this start on; 0: never */
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
    for (int b = 0; b <= N_BATCH; b++)
        told->under_way[b] = told->under_way[b] ? 2 : 0;
    told->n_job = 0;
    told->n_open++;
    told->engine = (int) getpid ();
    const size_t n = strlen (told->asked);
    snprintf (told->asked + n, sizeof told->asked - n, "%s ", config->engine);
    if (*told->only && strcmp (config->engine, told->only)) {
        wm_fault (error, WM_EHOST, "there is no %s", config->engine);
        return NULL;
    }
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
    return told->changes && told->n_open >= told->changes ? "made-up/2" : "made-up/1";
}

wm_model_kind_t wm_model_kind (const wm_model_t *self)
{
    (void) self;
    return (wm_model_kind_t) told->kind;
}

/* What only a trial needs: campaigns here have none.  */
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

double wm_device_off (double score, double right)
{
    return fabs (score - right);
}

void wm_device_class (const wm_model_t *model, const wm_device_config_t *config,
                      const char *signature, char name[64])
{
    (void) model;
    CHECK (!strcmp (config->precision, told->judges ? "fast" : "fp32"));
    CHECK (!strncmp (signature, "made-up/", 8));
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

/* A hit lies on the wire of its number, which its first cell has, and in the same column.  */
static uint32_t number_of (const wm_batch_t *batch, uint32_t i)
{
    return batch->hit_wire[i * wm_batch_cells (batch)];
}

static int kills (const wm_batch_t *batch, uint32_t i)
{
    const uint32_t hit = number_of (batch, i);
    return is_bad (batch->n_wire - 100, hit) &&
           batch->hit_col[i * wm_batch_cells (batch)] == (int32_t) hit;
}

static void die (const wm_batch_t *batch)
{
    if (told->streams && told->n_mixed) /* the test has failed: it need not search for ever */
        return;
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
            (float) (1000 * batch->n_wire + number_of (batch, i)) + (float) j / 8;
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
        if (kills (batch, i))
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
        const int judged = ++told->n_judged;
        const bool lies = judged == told->judge_lies;
        if (told->judge_lies && judged == told->judge_lies + 1)
            return wm_fault (error, WM_EHOST, "the judge says no");
        for (; told->holds_judge; zclock_sleep (5))
            ++*count_here;
        for (uint32_t i = 0; i < batch->n_hit; i++) {
            score_hit (self, batch, i, status, scores);
            scores[i * N_OUTPUT] += lies;
        }
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

bool wm_device_is_worn (const wm_device_t *self, wm_error_t *error)
{
    (void) self;
    (void) error;
    return false;
}

uint32_t wm_device_hands (const wm_device_t *self)
{
    (void) self;
    return told->streams ? 0 : told->hands ? (uint32_t) told->hands : 1;
}

const wm_engine_t *wm_device_by (const wm_device_t *self)
{
    (void) self;
    return wm_device_engine (told->streams ? "cuda" : "sparse");
}

uint64_t wm_device_launches (const wm_device_t *self)
{
    (void) self;
    return (uint64_t) told->n_submit;
}

/* A GPU that is made up: jobs end in random order, and what kills it kills it at a random time
   after it was submitted, whatever ends then.  */
static wm_job_t *jobs[64];

static uint32_t draw (uint32_t below)
{
    static uint64_t seed;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (seed >> 33) % below;
}

wm_fault_t wm_device_submit (wm_device_t *self, uint32_t n, wm_job_t *const *job, wm_error_t *error)
{
    (void) self, (void) error;
    told->n_submit++;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t number = job[i]->batch->n_wire - 100;
        CHECK (told->n_job < 64 && number >= 1 && number <= N_BATCH);
        for (int b = 1; b <= N_BATCH && told->n_job > 0; b++) /* a suspect goes alone */
            told->n_mixed += told->under_way[number] == 2 || told->under_way[b] == 3;
        told->under_way[number] = told->under_way[number] == 2 ? 3 : 1;
        job[i]->error = (wm_error_t){ 0 };
        jobs[told->n_job++] = job[i];
    }
    told->most = told->n_job > told->most ? told->n_job : told->most;
    return WM_OK;
}

wm_fault_t wm_device_collect (wm_device_t *self, wm_job_t **job, wm_error_t *error)
{
    CHECK (told->n_job > 0);
    const uint32_t n = (uint32_t) told->n_job, k = draw (n);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t h = 0; h < jobs[i]->batch->n_hit; h++)
            if (kills (jobs[i]->batch, h) && draw (2))
                die (jobs[i]->batch);
    *job = jobs[k];
    const wm_batch_t *batch = jobs[k]->batch;
    const wm_fault_t fault = score (self, batch, jobs[k]->status, jobs[k]->scores, &jobs[k]->error);
    if (fault == WM_EHOST) { /* nothing that is under way can be trusted */
        *error = jobs[k]->error;
        return fault;
    }
    jobs[k]->error.fault = fault;
    told->under_way[batch->n_wire - 100] = 0;
    jobs[k] = jobs[n - 1];
    told->n_job--;
    return WM_OK;
}

wm_device_busy_t wm_device_busy (wm_device_t *self)
{
    (void) self;
    told->n_busy++;
    return (wm_device_busy_t){ .busy_s = 8, .idle_s = 0.1 * told->n_score };
}

wm_fault_t wm_device_lend (wm_device_t *self, const void *memory, size_t bytes, wm_error_t *error)
{
    (void) self, (void) memory, (void) bytes, (void) error;
    CHECK (false); /* its batches are planes, which a GPU copies by columns */
    return WM_OK;
}

const wm_engine_t *wm_device_engine (const char *name)
{
    static const wm_engine_t made_up = { .name = "made-up", .gathers = true },
                             gpu = { .name = "made-up", .gathers = true, .is_gpu = true };
    return strcmp (name, "cuda") == 0 ? &gpu : &made_up;
}

bool wm_device_gpu_shows (wm_error_t *error)
{
    *error = (wm_error_t){ 0 };
    return false;
}

bool wm_device_opencl_shows (wm_error_t *error)
{
    return wm_device_gpu_shows (error);
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

#endif
