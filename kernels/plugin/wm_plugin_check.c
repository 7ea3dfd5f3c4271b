/* wm_plugin_check.c - see wm_plugin_check.h.  */
#include "kernels/plugin/wm_plugin_check.h"
#include "kernels/model/wm_seed.h"
#include "kernels/plugin/wm_plugin.h"
#include "kernels/wm_backend_private.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ROWS = 16,
    SEED = 43,
    CALLS = 100,         /* of the trial for leaks */
    THREADS = 4,         /* of CONCURRENT */
    LEAK_BYTES = 100000, /* a call may keep a hundredth of it */
    SLOW_ROW_S = 20      /* wm_times ()->engine_ms */
};

/* A plug-in in a trial's process.  */
typedef struct {
    wm_plugin_t plugin;
    wiremill_engine_description_t about;
    wm_port_t input[WM_MODEL_PORTS_MAX], output[WM_MODEL_PORTS_MAX];
    size_t n_value, n_output;
    float *in, *out, *again; /* (ROWS) */
    double end_s;            /* half of its patience is over: what repeats calls ends */
    wm_plugin_finding_t *finding;
} trial_t;

typedef struct {
    const char *what;
    void (*run) (trial_t *self);
} probe_t;

static void find (trial_t *self, wm_plugin_verdict_t verdict, const char *advice,
                  const char *format, ...) __attribute__ ((format (printf, 4, 5)));
static void find (trial_t *self, wm_plugin_verdict_t verdict, const char *advice,
                  const char *format, ...)
{
    va_list args;
    self->finding->verdict = verdict;
    snprintf (self->finding->advice, sizeof self->finding->advice, "%s", advice);
    va_start (args, format);
    vsnprintf (self->finding->seen, sizeof self->finding->seen, format, args);
    va_end (args);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Scores rows from `first` on to their places in `out`. false: it failed: the finding has it.  */
static bool score (trial_t *self, uint32_t first, uint32_t n, float *out)
{
    wm_error_t error = { 0 };
    if (!wm_plugin_score (&self->plugin, n, self->in + first * self->n_value,
                          out + first * self->n_output, &error))
        return true;
    find (self, WM_PLUGIN_FAIL, "return 0 from score; refuse a row by NaN in its answer", "%s",
          error.text);
    return false;
}

/* Returns the first row whose bits differ, ROWS for none.  */
static uint32_t differing (const trial_t *self, const float *a, const float *b)
{
    return (uint32_t) (wm_bits_differ (a, b, ROWS * self->n_output) / self->n_output);
}

#define ALONE "let the answer to a row depend on this row alone"

static void compare (trial_t *self, const char *good, const char *bad)
{
    const uint32_t row = differing (self, self->out, self->again);
    if (row < ROWS)
        find (self, WM_PLUGIN_FAIL, ALONE, "row %u has another answer %s", row, bad);
    else
        find (self, WM_PLUGIN_GOOD, "", "%s", good);
}

/* ---- trials ---------------------------------------------------------------------------------- */

static void try_contract (trial_t *self)
{
    static wiremill_engine_description_t again;
    wm_port_t input[WM_MODEL_PORTS_MAX], output[WM_MODEL_PORTS_MAX];
    wm_error_t error;
    const wiremill_engine_description_t *about = &self->about;
    if (wm_plugin_describe (&self->plugin, &again, input, output, &error) ||
        memcmp (&again, about, sizeof again) != 0)
        find (self, WM_PLUGIN_FAIL, "let describe give the same each time",
              "it describes itself otherwise the second time");
    else
        find (self, WM_PLUGIN_GOOD, "", "%s %s, version %u: %zu values in, %zu out%s%s",
              about->name, about->version, self->plugin.table->version, self->n_value,
              self->n_output, about->flags & WIREMILL_ENGINE_CONCURRENT ? ", CONCURRENT" : "",
              about->flags & WIREMILL_ENGINE_SAME_BITS ? ", SAME_BITS" : "");
}

static void try_grouping (trial_t *self)
{
    bool fine = score (self, 0, ROWS, self->out);
    for (uint32_t i = 0; i < ROWS && fine; i++)
        fine = score (self, i, 1, self->again);
    if (fine)
        compare (self, "each row has the same bits alone and among others",
                 "alone than among others");
}

static void try_halving (trial_t *self)
{
    bool fine = score (self, 0, ROWS, self->out);
    for (uint32_t n = ROWS / 2; n > 0 && fine; n /= 2) {
        for (uint32_t i = 0; i < ROWS && fine; i += n)
            fine = score (self, i, n, self->again);
        if (fine && differing (self, self->out, self->again) < ROWS)
            break;
    }
    if (fine)
        compare (self, "halves, quarters and so on give the same bits", "in a part of the rows");
}

static void try_order (trial_t *self)
{
    float *row = calloc (ROWS * self->n_value, sizeof *row),
          *answer = calloc (ROWS * self->n_output, sizeof *answer);
    bool fine = row && answer && score (self, 0, ROWS, self->out);
    for (size_t i = 0; i < ROWS && fine; i++) /* the last row first */
        memcpy (row + i * self->n_value, self->in + (ROWS - 1 - i) * self->n_value,
                self->n_value * sizeof *row);
    if (fine)
        memcpy (self->in, row, ROWS * self->n_value * sizeof *row);
    fine = fine && score (self, 0, ROWS, answer);
    for (size_t i = 0; i < ROWS && fine; i++)
        memcpy (self->again + i * self->n_output, answer + (ROWS - 1 - i) * self->n_output,
                self->n_output * sizeof *answer);
    if (fine)
        compare (self, "rows in reverse have the same bits", "at another place");
    free (row);
    free (answer);
}

static void try_repeat (trial_t *self)
{
    bool fine = score (self, 0, ROWS, self->out);
    for (uint32_t i = 0; i < 20 && fine; i++)
        fine = score (self, i % ROWS, 1, self->again);
    if (fine && score (self, 0, ROWS, self->again))
        compare (self, "the same bits after 20 other calls", "after 20 other calls");
}

static bool is_finite (const trial_t *self, const float *answer)
{
    for (size_t i = 0; i < self->n_output; i++)
        if (!isfinite (answer[i]))
            return false;
    return true;
}

/* NaN, infinities, huge, tiny and zero in one row each, the others as they were.  */
static void try_extremes (trial_t *self)
{
    static const struct {
        const char *name;
        float value;
    } odd[] = { { "NaN", NAN },    { "infinity", INFINITY }, { "-infinity", -INFINITY },
                { "3e38", 3e38f }, { "-3e38", -3e38f },      { "1e-40", 1e-40f } };
    enum { ODD = sizeof odd / sizeof *odd };
    if (!score (self, 0, ROWS, self->out))
        return;
    for (size_t k = 0; k < ODD; k++)
        for (size_t i = 0; i < self->n_value; i++)
            self->in[k * self->n_value + i] = odd[k].value;
    if (!score (self, 0, ROWS, self->again))
        return;
    char held[80] = "", passed[80] = "";
    for (size_t k = 0; k < ODD; k++) {
        char *list = is_finite (self, self->again + k * self->n_output) ? passed : held;
        snprintf (list + strlen (list), 80 - strlen (list), "%s%s", *list ? ", " : "", odd[k].name);
    }
    const bool nan_passes = is_finite (self, self->again);
    memcpy (self->again, self->out, ODD * self->n_output * sizeof *self->out);
    if (differing (self, self->out, self->again) < ROWS)
        find (self, WM_PLUGIN_FAIL, ALONE, "a row of NaN changes the answer to row %u beside it",
              differing (self, self->out, self->again));
    else
        find (self, nan_passes ? WM_PLUGIN_WARN : WM_PLUGIN_GOOD,
              nan_passes ? "answer NaN to a row that has NaN, unless a finite answer is meant" : "",
              "rows held: %s; rows with a finite answer: %s", *held ? held : "none",
              *passed ? passed : "none");
}

static void try_writes (trial_t *self)
{
    const size_t n = ROWS / 2 * self->n_output;
    static const uint8_t mark = 0xa5;
    memset (self->again, mark, ROWS * self->n_output * sizeof *self->again);
    float *before = calloc (ROWS * self->n_value, sizeof *before);
    if (!before || !score (self, 0, ROWS / 2, self->again)) {
        free (before);
        return;
    }
    wm_seed_rows (SEED, ROWS, self->n_value, before);
    const bool kept = memcmp (before, self->in, ROWS * self->n_value * sizeof *before) == 0;
    const uint8_t *answer = (const uint8_t *) self->again;
    size_t unwritten = 0, beyond = 0;
    for (size_t i = 0; i < n; i++)
        unwritten += answer[4 * i] == mark && !memcmp (answer + 4 * i, answer + 4 * i + 1, 3);
    for (size_t i = 4 * n; i < ROWS * self->n_output * 4; i++)
        beyond += answer[i] != mark;
    if (beyond)
        find (self, WM_PLUGIN_FAIL, "write n times the values of a row's outputs, no more",
              "it writes %zu bytes beyond the answers", beyond);
    else if (unwritten)
        find (self, WM_PLUGIN_FAIL, "write all outputs of all rows",
              "%zu values of %zu are not written", unwritten, n);
    else if (!kept)
        find (self, WM_PLUGIN_FAIL, "leave `in` as it is", "it changes its input");
    else
        find (self, WM_PLUGIN_GOOD, "", "all %zu values of %d rows are written, and nothing else",
              n, ROWS / 2);
    free (before);
}

static void try_speed (trial_t *self)
{
    const double start = wm_now_s ();
    double seconds = 0;
    uint32_t calls = 0;
    while (calls < CALLS && seconds < 1) {
        if (!score (self, 0, ROWS, self->out))
            return;
        calls++, seconds = wm_now_s () - start;
    }
    const double row_s = seconds / calls / ROWS;
    find (self, row_s > SLOW_ROW_S / 2. ? WM_PLUGIN_FAIL : WM_PLUGIN_GOOD,
          row_s > SLOW_ROW_S / 2. ? "divide a row's work: a call of 20 s is taken for a hang" : "",
          "%.3g ms a row, in calls of %d rows", row_s * 1e3, ROWS);
}

static void try_prints (trial_t *self)
{
    struct stat printed;
    if (!score (self, 0, ROWS, self->out))
        return;
    fflush (stdout);
    if (fstat (STDOUT_FILENO, &printed) == 0 && printed.st_size > 0)
        find (self, WM_PLUGIN_WARN, "print to standard error, and little: it is the worker's log",
              "it prints %lld bytes to standard output", (long long) printed.st_size);
    else
        find (self, WM_PLUGIN_GOOD, "", "nothing is printed to standard output");
}

/* The locale, the folder and the signals: as a text that is compared.  */
static void print_state (char text[4200])
{
    char folder[4000] = "";
    struct sigaction action;
    int n_handler = 0;
    if (!getcwd (folder, sizeof folder))
        *folder = 0;
    for (int number = 1; number < 32; number++)
        n_handler += sigaction (number, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
                     action.sa_handler != SIG_IGN;
    snprintf (text, 4200, "%s %d %s", setlocale (LC_ALL, NULL), n_handler, folder);
}

static void try_state (trial_t *self)
{
    static char before[4200], after[4200];
    fenv_t modes;
    print_state (before);
    char text[WIREMILL_ENGINE_ERROR_BYTES] = "";
    fegetenv (&modes);
    const unsigned was = wm_plugin_modes ();
    self->plugin.table->score (self->plugin.engine, ROWS, self->in, self->out, text);
    const bool changed = wm_plugin_modes () != was || self->plugin.changes_modes;
    fesetenv (&modes);
    print_state (after);
    if (strcmp (before, after) != 0 || changed)
        find (self, WM_PLUGIN_WARN,
              "leave the locale, signal handlers, the folder and the floating-point mode alone",
              "it changes the process%s: %.100s was %.100s",
              changed ? "'s floating-point mode" : "", after, before);
    else
        find (self, WM_PLUGIN_GOOD, "",
              "locale, floating-point mode, signal handlers and folder are left alone");
}

static unsigned count_entries (const char *folder)
{
    DIR *list = opendir (folder);
    unsigned n = 0;
    while (list && readdir (list))
        n++;
    if (list)
        closedir (list);
    return n;
}

static void try_children (trial_t *self)
{
    if (!score (self, 0, ROWS, self->out))
        return;
    siginfo_t info = { .si_pid = 0 };
    const bool child = waitid (P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    const unsigned threads = count_entries ("/proc/self/task") - 2;
    if (child)
        find (self, WM_PLUGIN_WARN, "let a child end when its standard input ends, or by fork ()",
              "it has a process of its own, which ends with the engine if fork () made it");
    else if (threads > 1)
        find (self, WM_PLUGIN_GOOD, "", "it has %u threads of its own, and no process",
              threads - 1);
    else
        find (self, WM_PLUGIN_GOOD, "", "it starts no process and keeps no thread");
}

static void try_leak (trial_t *self)
{
    int n = 0;
    for (int i = 0; i < 10 && wm_now_s () < self->end_s; i++)
        if (!score (self, 0, ROWS, self->out))
            return;
    const unsigned open = count_entries ("/proc/self/fd");
    long long grown = INT64_MAX; /* by the less of two rounds: an allocator may take an arena */
    for (int round = 0; round < 2; round++) {
        const uint64_t before = wm_plugin_memory ().used;
        for (n = 0; n < CALLS && (n == 0 || wm_now_s () < self->end_s); n++)
            if (!score (self, 0, ROWS, self->out))
                return;
        const long long here = (long long) (wm_plugin_memory ().used - before);
        grown = here < grown ? here : grown;
    }
    const unsigned more = count_entries ("/proc/self/fd") - open;
    if (grown > LEAK_BYTES)
        find (self, WM_PLUGIN_FAIL, "free what a call allocates", "%d calls kept %lld kB of memory",
              n, grown / 1000);
    else if (more > 0)
        find (self, WM_PLUGIN_FAIL, "close what a call opens", "%d calls left %u files open", n,
              more);
    else
        find (self, WM_PLUGIN_GOOD, "", "%d calls keep no memory and no open file", n);
}

typedef struct {
    trial_t *trial;
    uint32_t first;
    bool failed;
} hand_t;

static void *score_beside (void *argument)
{
    hand_t *self = argument;
    const uint32_t n = ROWS / THREADS;
    wm_error_t error;
    for (int i = 0; i < CALLS && !self->failed && wm_now_s () < self->trial->end_s; i++)
        self->failed = wm_plugin_score (&self->trial->plugin, n,
                                        self->trial->in + self->first * self->trial->n_value,
                                        self->trial->again + self->first * self->trial->n_output,
                                        &error) != WM_OK;
    return NULL;
}

static void try_threads (trial_t *self)
{
    pthread_t thread[THREADS];
    hand_t hand[THREADS];
    bool failed = false;
    unsigned n = 0;
    if (!(self->about.flags & WIREMILL_ENGINE_CONCURRENT)) {
        find (self, WM_PLUGIN_GOOD, "",
              "not CONCURRENT: one call at a time; run more workers for more CPUs");
        return;
    }
    if (!score (self, 0, ROWS, self->out))
        return;
    for (; n < THREADS; n++) {
        hand[n] = (hand_t){ self, n * (ROWS / THREADS), false };
        if (pthread_create (&thread[n], NULL, score_beside, &hand[n]))
            break;
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join (thread[i], NULL);
        failed |= hand[i].failed;
    }
    if (failed)
        find (self, WM_PLUGIN_FAIL, "leave CONCURRENT out", "a call beside others fails");
    else
        compare (self, "four threads at once get the same bits", "beside calls of other threads");
}

static void try_machines (trial_t *self)
{
    if (self->about.flags & WIREMILL_ENGINE_SAME_BITS)
        find (self, WM_PLUGIN_GOOD, "",
              "SAME_BITS: each worker must give the answers of the first machine");
    else
        find (self, WM_PLUGIN_GOOD, "",
              "no SAME_BITS: a campaign keeps to CPUs of one kind, or needs --mixed");
}

static const probe_t probes[] = {
    { "contract", try_contract }, { "grouping", try_grouping }, { "order", try_order },
    { "halving", try_halving },   { "repeats", try_repeat },    { "extremes", try_extremes },
    { "writes", try_writes },     { "speed", try_speed },       { "prints", try_prints },
    { "process", try_state },     { "children", try_children }, { "leaks", try_leak },
    { "threads", try_threads },   { "machines", try_machines },
};

static_assert (sizeof probes / sizeof *probes <= WM_PLUGIN_FINDINGS_MAX, "a finding each");

/* ---- processes ------------------------------------------------------------------------------- */

typedef struct {
    const char *path;
    const uint8_t *data;
    size_t bytes;
    unsigned patience_s;
} check_t;

/* Opens the plug-in and runs a trial of it.  */
static void try_one (const check_t *check, const probe_t *probe, wm_plugin_finding_t *finding)
{
    static trial_t self;
    wm_error_t error;
    self.finding = finding;
    find (&self, WM_PLUGIN_FAIL, "", "there is no memory for this trial");
    if (wm_plugin_load (&self.plugin, check->path, NULL, check->data, check->bytes, THREADS,
                        &error) ||
        wm_plugin_describe (&self.plugin, &self.about, self.input, self.output, &error) ||
        wm_plugin_open (&self.plugin, &error)) {
        find (&self, WM_PLUGIN_FAIL, "see `wiremill help plug-ins`, the contract", "%s",
              error.text);
        return;
    }
    for (uint32_t i = 0; i < self.about.n_input; i++)
        self.n_value += self.input[i].n_value;
    for (uint32_t i = 0; i < self.about.n_output; i++)
        self.n_output += self.output[i].n_value;
    self.in = calloc (ROWS * self.n_value, sizeof *self.in);
    self.out = calloc (ROWS * self.n_output, sizeof *self.out);
    self.again = calloc (ROWS * self.n_output, sizeof *self.again);
    if (!self.in || !self.out || !self.again)
        return;
    wm_seed_rows (SEED, ROWS, self.n_value, self.in);
    self.end_s = wm_now_s () + check->patience_s / 2.;
    probe->run (&self);
}

static void __attribute__ ((noreturn))
be_apart (const check_t *check, const probe_t *probe, int end, pid_t parent)
{
    static wm_plugin_finding_t finding;
    const int printed = memfd_create ("wiremill-printed", 0);
    wm_process_name ("wm-plugin");
    if (!wm_process_follow (parent, SIGKILL) || dup2 (printed, STDOUT_FILENO) < 0)
        _exit (1);
    signal (SIGALRM, SIG_DFL);
    alarm (check->patience_s);
    try_one (check, probe, &finding);
    alarm (0);
    _exit (write (end, &finding, sizeof finding) != (ssize_t) sizeof finding);
}

/* Makes a finding of how a process without an answer ended. Returns whether it hung.  */
static bool explain (wm_plugin_finding_t *finding, unsigned patience_s, int status)
{
    const int number = WIFSIGNALED (status) ? WTERMSIG (status) : 0;
    finding->verdict = WM_PLUGIN_FAIL;
    if (number == SIGALRM) {
        snprintf (finding->seen, sizeof finding->seen, "no answer within %u s: a hang", patience_s);
        snprintf (finding->advice, sizeof finding->advice,
                  "find out what it waits for: gdb -p; wiremill would hold the row");
    } else if (number) {
        snprintf (finding->seen, sizeof finding->seen, "it crashes by signal %d (%s)", number,
                  strsignal (number));
        snprintf (finding->advice, sizeof finding->advice,
                  "compile it with -g -fsanitize=address, and try again");
    } else {
        snprintf (finding->seen, sizeof finding->seen, "it ends the process, with exit code %d",
                  WEXITSTATUS (status));
        snprintf (finding->advice, sizeof finding->advice, "return an error, call no exit");
    }
    return number == SIGALRM;
}

/* Returns whether the trial hung.  */
static bool run_apart (const check_t *check, const probe_t *probe, wm_plugin_finding_t *finding)
{
    wm_plugin_finding_t answer;
    int ends[2], status = 0;
    const pid_t parent = getpid ();
    *finding = (wm_plugin_finding_t){ .what = probe->what, .verdict = WM_PLUGIN_FAIL };
    snprintf (finding->seen, sizeof finding->seen, "no process to try it in");
    if (pipe2 (ends, O_CLOEXEC))
        return false;
    fflush (NULL);
    const pid_t pid = fork ();
    if (pid == 0)
        be_apart (check, probe, ends[1], parent);
    close (ends[1]);
    const bool told = pid > 0 && wm_plugin_hear (ends[0], pid, check->patience_s, &answer,
                                                 sizeof answer, &status);
    close (ends[0]);
    if (pid > 0 && !told)
        return explain (finding, check->patience_s, status);
    if (told) {
        answer.what = probe->what;
        answer.seen[sizeof answer.seen - 1] = answer.advice[sizeof answer.advice - 1] = 0;
        wm_log_sanitize (answer.seen);
        *finding = answer;
    }
    return false;
}

uint32_t wm_plugin_check (const char *path, const char *data, unsigned patience_s,
                          wm_plugin_finding_t finding[WM_PLUGIN_FINDINGS_MAX])
{
    check_t check = { .path = path, .patience_s = patience_s };
    wm_error_t error;
    uint32_t n = 0, hangs = 0;
    finding[0] = (wm_plugin_finding_t){ .what = "model", .verdict = WM_PLUGIN_FAIL };
    if (data && wm_file_map (data, WM_MODEL_BYTES_MAX, &check.data, &check.bytes, &error)) {
        snprintf (finding[0].seen, sizeof finding[0].seen, "%.400s", error.text);
        return 1;
    }
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
        hangs += run_apart (&check, &probes[i], &finding[n++]);
        if ((i == 0 && finding[0].verdict == WM_PLUGIN_FAIL) || hangs > 1)
            break;
    }
    if (check.data)
        munmap ((void *) (uintptr_t) check.data, check.bytes);
    return n;
}
