/* calls.c - tries libwiremill as a program outside of wiremill does: through its header alone.

   usage: calls facts MODEL        the model's facts, one a line
          calls patches MODEL N    N patches to stdout, as float32
          calls score MODEL        patches from stdin, scores to stdout, as float32
          calls threads MODEL N    8 threads, N calls of 256 patches each, against one thread
          calls hurry MODEL N      8 threads begin their first calls at once, N times
          calls open MODEL         8 threads open, score and close a handle each
          calls fork MODEL         a child scores while threads of the parent do; a child closes
          calls status MODEL       patches with NaN, infinity, 0 patches, no status
          calls memory MODEL       a call that gets no memory, and the same when there is some
          calls errors MODEL       what is refused
          calls rounding MODEL     the caller's rounding mode changes no bits, and stays
          calls quiet MODEL        signals, threads and descriptors are as they were
   PRECISION and ENGINE in the environment choose those of facts and score.
   Exits 0 if all is as wiremill.h promises; else 1, with a line.  */
#include "check.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, CALL = 256 };

static wiremill_t *open_or_end (const char *path, uint32_t threads, const char *precision)
{
    wiremill_error_t error = { 0 };
    wiremill_options_t options = { 0 };
    options.size = sizeof options;
    options.threads = threads;
    options.precision = precision;
    options.engine = getenv ("ENGINE");
    wiremill_t *self = wiremill_open (path, &options, &error);
    if (!self) {
        fprintf (stderr, "%s\n", error.text);
        exit (1);
    }
    return self;
}

/* Patches with a track through zeros, another one each.  */
static float *make_patches (const wiremill_t *model, size_t n)
{
    const size_t n_value = wiremill_n_value (model);
    uint32_t dim[WIREMILL_DIMS_MAX], n_dim = wiremill_shape (model, dim), state = 1;
    const size_t rows = dim[0], cols = n_dim > 1 ? dim[1] : 1;
    float *patches = calloc (n * n_value, sizeof *patches);
    CHECK (patches);
    for (size_t i = 0; i < n; i++)
        for (size_t row = 0; row < rows; row++)
            for (size_t k = 0; k < 3; k++) {
                state = state * 1664525u + 1013904223u;
                const size_t col = (row * (1 + i % 3) + i + k) % cols;
                patches[i * n_value + row * (n_value / rows) + col] =
                    (float) (state >> 8) / (float) (1 << 25);
            }
    return patches;
}

static float *room (const wiremill_t *model, size_t n)
{
    float *scores = malloc (n * wiremill_n_output (model) * sizeof *scores);
    CHECK (scores);
    return scores;
}

static void facts (wiremill_t *model)
{
    uint32_t dim[WIREMILL_DIMS_MAX], n = wiremill_shape (model, dim);
    printf ("shape");
    for (uint32_t i = 0; i < n; i++)
        printf (" %u", dim[i]);
    printf ("\nvalues %zu\nlabels", wiremill_n_value (model));
    for (size_t i = 0; i < wiremill_n_output (model); i++)
        printf (" %s", wiremill_label (model, i));
    CHECK (!wiremill_label (model, wiremill_n_output (model)));
    printf ("\nsignature %s\nsha256 %s\nversion %s\n", wiremill_signature (model),
            wiremill_sha256 (model), wiremill_version ());
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct {
    wiremill_t *model;
    const float *patches, *right;
    size_t calls, first, fault;
    pthread_barrier_t *begin;
    const char *argument;
} job_t;

/* Calls on stretches that overlap those of other threads, and are of several sizes.  */
static void *score_calls (void *argument)
{
    job_t *job = argument;
    const size_t n_value = wiremill_n_value (job->model), n_output = wiremill_n_output (job->model);
    float *scores = room (job->model, CALL);
    uint8_t status[CALL];
    pthread_barrier_wait (job->begin);
    for (size_t i = 0; i < job->calls; i++) {
        const size_t n = i % 2 ? CALL : CALL - 8 * job->first - 1, at = (job->first + i) % 9;
        memset (status, 77, sizeof status);
        job->fault += wiremill_score (job->model, job->patches + at * n_value, n, n_value, scores,
                                      status, NULL) != WIREMILL_OK;
        job->fault +=
            memcmp (scores, job->right + at * n_output, n * n_output * sizeof *scores) != 0;
        for (size_t k = 0; k < n; k++)
            job->fault += status[k] != WIREMILL_SCORED;
    }
    free (scores);
    return NULL;
}

static void run_threads (wiremill_t *model, const float *patches, const float *right, size_t calls)
{
    pthread_t thread[THREADS];
    job_t job[THREADS];
    pthread_barrier_t begin;
    pthread_barrier_init (&begin, NULL, THREADS);
    for (size_t t = 0; t < THREADS; t++) {
        job[t] = (job_t){ model, patches, right, calls, t, 0, &begin, NULL };
        CHECK (pthread_create (&thread[t], NULL, score_calls, &job[t]) == 0);
    }
    for (size_t t = 0; t < THREADS; t++)
        CHECK (pthread_join (thread[t], NULL) == 0);
    for (size_t t = 0; t < THREADS; t++)
        CHECK (job[t].fault == 0);
    pthread_barrier_destroy (&begin);
}

/* The scores of one thread, patch by patch: the grouping must not matter.  */
static float *score_alone (const char *path, const float *patches, size_t n)
{
    wiremill_t *model = open_or_end (path, 1, NULL);
    const size_t n_value = wiremill_n_value (model), n_output = wiremill_n_output (model);
    float *scores = room (model, n);
    for (size_t i = 0; i < n; i += 32)
        CHECK (wiremill_score (model, patches + i * n_value, n - i < 32 ? n - i : 32, n_value,
                               scores + i * n_output, NULL, NULL) == WIREMILL_OK);
    wiremill_close (&model);
    CHECK (!model);
    return scores;
}

static void threads (const char *path, size_t calls, size_t times)
{
    wiremill_t *model = open_or_end (path, 1, NULL);
    float *patches = make_patches (model, CALL + 8), *right = score_alone (path, patches, CALL + 8);
    run_threads (model, patches, right, calls);
    wiremill_close (&model);
    for (size_t i = 1; i < times; i++) { /* each with a handle that has no memory yet */
        model = open_or_end (path, 1, NULL);
        run_threads (model, patches, right, calls);
        wiremill_close (&model);
    }
    if (times == 1) { /* and where the handle has threads of its own, calls take turns */
        model = open_or_end (path, 2, NULL);
        run_threads (model, patches, right, 1);
        wiremill_close (&model);
    }
    free (patches), free (right);
}

static void *open_score_close (void *argument)
{
    job_t *job = argument;
    wiremill_t *model = wiremill_open (job->argument, NULL, NULL);
    CHECK (model);
    float *scores = room (model, CALL);
    pthread_barrier_wait (job->begin);
    CHECK (
        !wiremill_score (model, job->patches, CALL, wiremill_n_value (model), scores, NULL, NULL));
    job->fault += memcmp (scores, job->right, CALL * wiremill_n_output (model) * 4) != 0;
    wiremill_close (&model);
    free (scores);
    return NULL;
}

static void opens (const char *path)
{
    wiremill_t *model = open_or_end (path, 1, NULL);
    float *patches = make_patches (model, CALL), *right = score_alone (path, patches, CALL);
    pthread_t thread[THREADS];
    job_t job[THREADS];
    pthread_barrier_t begin;
    wiremill_close (&model);
    pthread_barrier_init (&begin, NULL, THREADS);
    for (size_t t = 0; t < THREADS; t++) {
        job[t] = (job_t){ NULL, patches, right, 1, t, 0, &begin, path };
        CHECK (pthread_create (&thread[t], NULL, open_score_close, &job[t]) == 0);
    }
    for (size_t t = 0; t < THREADS; t++)
        CHECK (pthread_join (thread[t], NULL) == 0 && job[t].fault == 0);
    pthread_barrier_destroy (&begin);
    free (patches), free (right);
}

/* ---- fork ------------------------------------------------------------------------------------ */

static int ends_well (pid_t child)
{
    int status;
    return waitpid (child, &status, 0) == child && WIFEXITED (status) && WEXITSTATUS (status) == 0;
}

static volatile int stop;
static void *score_on (void *argument)
{
    job_t *job = argument;
    float *scores = room (job->model, CALL);
    while (!stop)
        job->fault += wiremill_score (job->model, job->patches, CALL, wiremill_n_value (job->model),
                                      scores, NULL, NULL) != 0;
    free (scores);
    return NULL;
}

static void forks (const char *path)
{
    wiremill_t *model = open_or_end (path, 0, NULL), *pooled = open_or_end (path, 2, NULL);
    const size_t n_value = wiremill_n_value (model), bytes = wiremill_n_output (model) * CALL * 4;
    float *patches = make_patches (model, CALL), *right = score_alone (path, patches, CALL);
    pthread_t thread[2];
    job_t job[2] = { { model, patches, NULL, 0, 0, 0, NULL, NULL },
                     { pooled, patches, NULL, 0, 0, 0, NULL, NULL } };
    for (int t = 0; t < 2; t++)
        CHECK (pthread_create (&thread[t], NULL, score_on, &job[t]) == 0);
    for (int i = 0; i < 5; i++) {
        const pid_t child = fork ();
        if (child == 0) {
            wiremill_error_t error = { 0 };
            float *scores = room (model, CALL);
            alarm (60);
            CHECK (wiremill_score (model, patches, CALL, n_value, scores, NULL, &error) == 0);
            CHECK (memcmp (scores, right, bytes) == 0);
            CHECK (wiremill_score (pooled, patches, CALL, n_value, scores, NULL, &error) ==
                   WIREMILL_USAGE);
            CHECK (strstr (error.text, "opened before fork"));
            wiremill_close (&model);
            wiremill_close (&pooled);
            pooled = open_or_end (path, 2, NULL);
            CHECK (wiremill_score (pooled, patches, CALL, n_value, scores, NULL, &error) == 0);
            CHECK (memcmp (scores, right, bytes) == 0);
            wiremill_close (&pooled);
            _exit (0);
        }
        CHECK (child > 0 && ends_well (child));
    }
    stop = 1;
    for (int t = 0; t < 2; t++)
        CHECK (pthread_join (thread[t], NULL) == 0 && job[t].fault == 0);
    wiremill_close (&model);
    wiremill_close (&pooled);
    free (patches), free (right);
}

/* ---- what is not scored ---------------------------------------------------------------------- */

static void statuses (const char *path)
{
    wiremill_t *model = open_or_end (path, 1, NULL);
    const size_t n = 1500, n_value = wiremill_n_value (model), n_output = wiremill_n_output (model);
    float *patches = make_patches (model, n), *right = score_alone (path, patches, n);
    float *scores = room (model, n);
    uint8_t *status = calloc (n, 1);
    static const size_t bad[] = { 0, 1, 700, 1023, 1024, 1499 };
    for (size_t i = 0; i < 6; i++)
        patches[bad[i] * n_value + (i * 37) % n_value] = i % 3 == 0   ? NAN
                                                         : i % 3 == 1 ? INFINITY
                                                                      : -INFINITY;
    CHECK (status && wiremill_score (model, patches, n, n_value, scores, status, NULL) == 0);
    for (size_t i = 0, k = 0; i < n; i++) {
        const int is_bad = k < 6 && bad[k] == i;
        CHECK (status[i] == (is_bad ? WIREMILL_BAD_PIXEL : WIREMILL_SCORED));
        for (size_t o = 0; o < n_output && is_bad; o++)
            CHECK (isnan (scores[i * n_output + o]));
        CHECK (is_bad || !memcmp (scores + i * n_output, right + i * n_output, n_output * 4));
        k += (size_t) is_bad;
    }
    CHECK (wiremill_score (model, patches + n_value, 2, n_value, scores, NULL, NULL) == 0);
    CHECK (isnan (scores[0]) && !memcmp (scores + n_output, right + 2 * n_output, n_output * 4));
    scores[0] = 5, status[0] = 99; /* nothing is touched */
    CHECK (wiremill_score (model, NULL, 0, n_value, NULL, NULL, NULL) == 0);
    CHECK (wiremill_score (model, patches, 0, n_value, scores, status, NULL) == 0);
    CHECK (scores[0] == 5 && status[0] == 99);
    CHECK (!strcmp (wiremill_status_text (WIREMILL_BAD_PIXEL), "bad pixel"));
    CHECK (wiremill_status_text (255));
    free (patches), free (right), free (scores), free (status);
    wiremill_close (&model);
}

/* The first call of a handle needs memory of its own.  */
static void memory (const char *path)
{
    wiremill_t *model = open_or_end (path, 1, NULL);
    const size_t n_value = wiremill_n_value (model), n_output = wiremill_n_output (model);
    float *patches = make_patches (model, CALL), *right = score_alone (path, patches, CALL);
    float *scores = room (model, CALL);
    uint8_t status[CALL] = { 0 };
    wiremill_error_t error = { 0 };
    struct rlimit before, none;
    CHECK (getrlimit (RLIMIT_AS, &before) == 0);
    none = before, none.rlim_cur = 1; /* what is there stays; malloc may have some left */
    void *left[4096];
    size_t n_left = 0;
    wiremill_close (&model);
    model = open_or_end (path, 1, NULL);
    CHECK (setrlimit (RLIMIT_AS, &none) == 0);
    while (n_left < 4096 && (left[n_left] = malloc (100000)) != NULL)
        n_left++;
    const wiremill_fault_t fault =
        wiremill_score (model, patches, CALL, n_value, scores, status, &error);
    while (n_left)
        free (left[--n_left]);
    CHECK (setrlimit (RLIMIT_AS, &before) == 0);
    CHECK (fault == WIREMILL_AGAIN && error.fault == WIREMILL_AGAIN);
    CHECK (strstr (error.text, "no memory"));
    for (size_t i = 0; i < CALL; i++)
        CHECK (status[i] == WIREMILL_HELD && isnan (scores[i * n_output]));
    CHECK (wiremill_score (model, patches, CALL, n_value, scores, status, NULL) == WIREMILL_OK);
    CHECK (!memcmp (scores, right, CALL * n_output * sizeof *scores) && status[5] == 0);
    wiremill_close (&model);
    free (patches), free (right), free (scores);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Whether opening fails with this fault, and a text that contains `text`.  */
static int refuses (const char *path, const wiremill_options_t *options, int fault,
                    const char *text)
{
    wiremill_error_t error = { 0 };
    wiremill_t *model = wiremill_open (path, options, &error);
    fprintf (stderr, "# %s\n", error.text);
    return !model && error.fault == fault && strstr (error.text, text) &&
           !strchr (error.text, '\n') && !wiremill_open (path, options, NULL);
}

static void errors (const char *path, const char *damaged, const char *text)
{
    wiremill_t *model = open_or_end (path, 1, NULL), *none = NULL;
    const size_t n_value = wiremill_n_value (model);
    float *patches = make_patches (model, 2), *scores = room (model, 2);
    wiremill_error_t error = { 0 };
    wiremill_options_t o = { 0 };
    CHECK (refuses (o.size ? "" : o.engine, NULL, WIREMILL_USAGE, "NULL"));
    CHECK (refuses ("/proc/nowhere/model.onnx", NULL, WIREMILL_USAGE,
                    "/proc/nowhere/model.onnx: No such"));
    CHECK (
        refuses ("/proc/nowhere/a\nb\033c", NULL, WIREMILL_USAGE, "/proc/nowhere/a?b?c: No such"));
    CHECK (refuses ("/tmp", NULL, WIREMILL_USAGE, "folder"));
    CHECK (refuses (damaged, NULL, WIREMILL_INPUT, "damaged"));
    CHECK (refuses (text, NULL, WIREMILL_INPUT, text));
    CHECK (refuses (path, &o, WIREMILL_USAGE, "size is 0"));
    o.size = sizeof o, o.precision = "half";
    CHECK (refuses (path, &o, WIREMILL_USAGE, "'half'"));
    o.precision = NULL, o.engine = "warp";
    CHECK (refuses (path, &o, WIREMILL_USAGE, "'warp'"));
    o.engine = NULL, o.threads = 257;
    CHECK (refuses (path, &o, WIREMILL_USAGE, "257"));
    o.threads = 0, o.reserved = 1;
    CHECK (refuses (path, &o, WIREMILL_USAGE, "reserved"));
    o.reserved = 0, o.outputs = "michel";
    CHECK (refuses (path, &o, WIREMILL_USAGE, "outputs"));
    scores[0] = 5;
    CHECK (wiremill_score (NULL, patches, 2, n_value, scores, NULL, &error) == WIREMILL_USAGE);
    CHECK (wiremill_score (model, NULL, 2, n_value, scores, NULL, &error) == WIREMILL_USAGE);
    CHECK (strstr (error.text, "patches is NULL"));
    CHECK (wiremill_score (model, patches, 2, n_value, NULL, NULL, &error) == WIREMILL_USAGE);
    CHECK (wiremill_score (model, patches, 2, n_value - 1, scores, NULL, &error) == WIREMILL_USAGE);
    CHECK (strstr (error.text, "the model takes ("));
    CHECK (wiremill_score (model, patches, (size_t) -1 / 4, n_value, scores, NULL, NULL) ==
           WIREMILL_USAGE);
    CHECK (scores[0] == 5);
    wiremill_close (&none);
    wiremill_close (NULL);
    wiremill_close (&model);
    wiremill_close (&model);
    free (patches), free (scores);
}

/* ---- what the library leaves alone ----------------------------------------------------------- */

static void rounding (const char *path)
{
    static const int mode[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
    float *want = NULL;
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++) {
        fesetround (mode[i]);
        wiremill_t *model = open_or_end (path, 0, NULL);
        CHECK (fegetround () == mode[i]);
        fesetround (FE_TONEAREST);
        float *patches = make_patches (model, CALL), *scores = room (model, CALL);
        fesetround (mode[i]);
        CHECK (
            !wiremill_score (model, patches, CALL, wiremill_n_value (model), scores, NULL, NULL));
        CHECK (fegetround () == mode[i]);
        CHECK (!want || !memcmp (want, scores, CALL * wiremill_n_output (model) * sizeof *scores));
        wiremill_close (&model);
        free (patches), free (want);
        want = scores;
    }
    free (want);
}

static void quiet (const char *path)
{
    struct sigaction before[65], after;
    const int files = entries ("/proc/self/fd"), tasks = entries ("/proc/self/task");
    memset (before, 0, sizeof before);
    for (int i = 1; i < 65; i++)
        sigaction (i, NULL, &before[i]);
    wiremill_t *model = open_or_end (path, 0, NULL);
    float *patches = make_patches (model, CALL), *scores = room (model, CALL);
    CHECK (wiremill_score (model, patches, CALL, wiremill_n_value (model), scores, NULL, NULL) ==
           0);
    CHECK (entries ("/proc/self/task") == tasks); /* it computes in this thread */
    for (int i = 1; i < 65; i++)
        CHECK (sigaction (i, NULL, &after) || after.sa_handler == before[i].sa_handler);
    wiremill_close (&model);
    CHECK (entries ("/proc/self/fd") == files);
    free (patches), free (scores);
}

/* Patches that hold a NaN get NaN scores.  */
static void score (wiremill_t *model)
{
    const size_t n_value = wiremill_n_value (model), n_output = wiremill_n_output (model);
    float *patches = malloc (CALL * n_value * sizeof *patches), *scores = room (model, CALL);
    CHECK (patches);
    for (size_t n; (n = fread (patches, n_value * sizeof *patches, CALL, stdin)) > 0;) {
        CHECK (wiremill_score (model, patches, n, n_value, scores, NULL, NULL) == WIREMILL_OK);
        fwrite (scores, n_output * sizeof *scores, n, stdout);
    }
    free (patches), free (scores);
}

int main (int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "", *path = argc > 2 ? argv[2] : "";
    const size_t n = argc > 3 ? (size_t) atol (argv[3]) : 1;
    if (!strcmp (what, "facts") || !strcmp (what, "patches") || !strcmp (what, "score")) {
        wiremill_t *model = open_or_end (path, 0, getenv ("PRECISION"));
        float *patches = make_patches (model, n);
        if (*what == 'f')
            facts (model);
        else if (*what == 's')
            score (model);
        else
            fwrite (patches, wiremill_n_value (model) * sizeof *patches, n, stdout);
        free (patches);
        wiremill_close (&model);
    } else if (!strcmp (what, "threads"))
        threads (path, n, 1);
    else if (!strcmp (what, "hurry"))
        threads (path, 1, n);
    else if (!strcmp (what, "open"))
        opens (path);
    else if (!strcmp (what, "fork"))
        forks (path);
    else if (!strcmp (what, "status"))
        statuses (path);
    else if (!strcmp (what, "memory"))
        memory (path);
    else if (!strcmp (what, "errors") && argc > 4)
        errors (path, argv[3], argv[4]);
    else if (!strcmp (what, "rounding"))
        rounding (path);
    else if (!strcmp (what, "quiet"))
        quiet (path);
    else
        return fprintf (stderr, "usage: see calls.c\n"), 2;
    return 0;
}
