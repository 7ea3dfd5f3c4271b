/* sim_main.c - the simulator's command line.

     sim --seed N             the story of one seed
     sim --seeds FIRST COUNT  many, silently
     sim --clients ...        the same of a broker for clients
     sim --cuts COUNT [FIRST] so many power cuts, half of them with a ledger synced lazily; and the
                              same without the journal's fdatasync, which must be noticed
     sim --bugs [COUNT]       every planted bug must be caught within COUNT (2,000) seeds
     sim --bug B ...          with a planted bug (a number or a name)
     sim --jobs N ...         processes side by side (default: one for each processor)
   Exit code 0: nothing broke (for --bugs: every bug was caught). The last lines are for
   tests/proof.sh.  */
#include "tests/proof.h"
#include "tests/sim/sim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 64
static const char *const kind_option[] = { "", " (--only-cuts)", " (--clients)" };
#define UNSYNCED_SEEDS 20

static long n_job;

/* Sums over seeds, of one process.  */
typedef struct {
    uint64_t seeds, failed, messages, restarts, powercuts, survived, cuts, acked, held, spoils,
        mended, checked, named, answers, late;
    bool over;
} totals_t;

static void on_abort (int signal_number)
{
    (void) signal_number;
    char text[80];
    int n =
        snprintf (text, sizeof text, "seed %llu ends in an abort\n", (unsigned long long) sim.seed);
    if (write (1, text, (size_t) n) < 0)
        _exit (2);
}

/* ---- many seeds ------------------------------------------------------------------------------ */

typedef struct {
    uint64_t first, count; /* count: of seeds, or of power cuts */
    bug_t bug;
    kind_t kind;
    bool quiet;
} many_t;

static void add_seed (totals_t *totals, bool kept)
{
    totals->seeds++;
    totals->failed += !kept;
    totals->messages += sim.count.messages;
    totals->restarts += sim.count.restarts;
    totals->powercuts += sim.count.powercuts;
    totals->survived += kept ? sim.count.powercuts : 0;
    totals->cuts += sim.count.cuts;
    totals->acked += sim.count.acked;
    totals->held += sim.count.held;
    totals->spoils += sim.count.spoils;
    totals->mended += kept ? sim.count.spoils : 0;
    totals->checked += sim.count.checked;
    totals->named += sim.count.named;
    totals->answers += sim.count.answers;
    totals->late += sim.count.late;
}

/* This process's part: every n_job-th seed.  */
static void run_part (const many_t *task, uint64_t job, totals_t *totals)
{
    const uint64_t step = (uint64_t) n_job, share = (task->count + step - 1 - job) / step;
    while ((task->kind == ONLY_CUTS ? totals->powercuts : totals->seeds) < share) {
        const uint64_t seed = task->first + job + totals->seeds * step;
        const bool kept = sim_run (seed, task->bug, task->kind, false);
        if (!kept && !task->quiet)
            printf ("seed %llu%s, %.3f s: %s\n", (unsigned long long) seed, kind_option[task->kind],
                    (double) sim.now_ms / 1000, sim.failure);
        add_seed (totals, kept);
    }
    totals->over = true;
}

static totals_t run (const many_t *task)
{
    totals_t *part = mmap (NULL, JOBS_MAX * sizeof *part, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (part == MAP_FAILED)
        abort ();
    fflush (NULL);
    for (long job = 0; job < n_job; job++)
        if (fork () == 0) {
            run_part (task, (uint64_t) job, &part[job]);
            fflush (NULL);
            _exit (0);
        }
    while (wait (NULL) > 0)
        ;
    totals_t sum = { 0 };
    for (long job = 0; job < n_job; job++) {
        sum.seeds += part[job].seeds;
        sum.failed += part[job].failed + !part[job].over; /* an assertion of the product */
        sum.messages += part[job].messages;
        sum.restarts += part[job].restarts;
        sum.powercuts += part[job].powercuts;
        sum.survived += part[job].survived;
        sum.cuts += part[job].cuts;
        sum.acked += part[job].acked;
        sum.held += part[job].held;
        sum.spoils += part[job].spoils;
        sum.mended += part[job].mended;
        sum.checked += part[job].checked;
        sum.named += part[job].named;
        sum.answers += part[job].answers;
        sum.late += part[job].late;
    }
    munmap (part, JOBS_MAX * sizeof *part);
    return sum;
}

static void print_totals (const char *what, const totals_t *t, double start)
{
    const double took = proof_clock () - start;
    printf (
        "%s: %llu seeds in %.1f s (%.0f/s): %llu messages, %llu connections cut, %llu ends of "
        "the broker (%llu power cuts, %llu with a ledger lost or damaged), %llu results "
        "acknowledged, %llu batches held, %llu scored twice to compare (%llu decided by a third "
        "machine), %llu answers to clients, %llu payloads too late to count; %llu seeds broke a "
        "promise\n",
        what, (unsigned long long) t->seeds, took, (double) t->seeds / took,
        (unsigned long long) t->messages, (unsigned long long) t->cuts,
        (unsigned long long) t->restarts, (unsigned long long) t->powercuts,
        (unsigned long long) t->spoils, (unsigned long long) t->acked, (unsigned long long) t->held,
        (unsigned long long) t->checked, (unsigned long long) t->named,
        (unsigned long long) t->answers, (unsigned long long) t->late,
        (unsigned long long) t->failed);
}

static int run_seeds (uint64_t first, uint64_t count, bug_t bug, kind_t kind)
{
    const double start = proof_clock ();
    const many_t task = { .first = first, .count = count, .bug = bug, .kind = kind };
    const totals_t t = run (&task);
    print_totals (kind == CLIENTS ? "sim of clients" : "sim", &t, start);
    /* A seed ends in calm, in which everything must be written or held; and nothing acknowledged
       may be gone after any of its power cuts. */
    proof_line ("P20", t.seeds, t.seeds - t.failed, start);
    proof_line ("P2", t.powercuts, t.survived, proof_clock ());
    proof_line ("P5", t.spoils, t.mended, proof_clock ());
    return t.failed != 0;
}

static int run_cuts (uint64_t count, uint64_t first, bug_t bug)
{
    const double start = proof_clock ();
    const many_t task = { .first = first, .count = count, .bug = bug, .kind = ONLY_CUTS };
    const totals_t t = run (&task);
    print_totals ("sim-cuts", &t, start);
    proof_line ("P2", t.powercuts, t.survived, start);
    /* The proof proves something only if it sees what is lost without the one sync that counts.  */
    const double start_unsynced = proof_clock ();
    bool noticed = false;
    for (uint64_t seed = 1; seed <= UNSYNCED_SEEDS && !noticed; seed++)
        noticed = !sim_run (seed, BUG_NO_FDATASYNC, ONLY_CUTS, false) &&
                  strstr (sim.failure, "was acknowledged and is lost");
    printf ("sim-cuts: without the journal's fdatasync %s%s\n",
            noticed ? "results are lost: " : "NOTHING WAS NOTICED", noticed ? sim.failure : "");
    proof_line ("bugs", 1, noticed, start_unsynced);
    return t.failed != 0 || !noticed;
}

/* ---- planted bugs ---------------------------------------------------------------------------- */

/* In a process of its own, because a bug may as well end in an assertion. Exit 0: it was
   caught.  */
static void hunt (bug_t bug, uint64_t count)
{
    const double start = proof_clock ();
    for (uint64_t seed = 1; seed <= count; seed++)
        if (!sim_run (seed, bug, bug >= BUG_FIRST_OF_CLIENTS ? CLIENTS : A_CAMPAIGN, false)) {
            printf ("%2d  %-24s %-52s seed %3llu: %s\n", (int) bug, bug_text[bug].name,
                    bug_text[bug].what, (unsigned long long) seed, sim.failure);
            fflush (NULL);
            _exit (0);
        }
    printf ("%2d  %-24s %-52s NOT CAUGHT in %llu seeds, %.1f s\n", (int) bug, bug_text[bug].name,
            bug_text[bug].what, (unsigned long long) count, proof_clock () - start);
    fflush (NULL);
    _exit (1);
}

static int run_bugs (uint64_t count)
{
    const double start = proof_clock ();
    pid_t child[BUG_END] = { 0 };
    unsigned long caught = 0;
    int next = 1;
    fflush (NULL);
    for (int running = 0; next < BUG_END || running;) {
        for (; next < BUG_END && running < n_job; next++, running++)
            if ((child[next] = fork ()) == 0)
                hunt ((bug_t) next, count);
        int status, bug = 1;
        const pid_t pid = wait (&status);
        while (bug < BUG_END && child[bug] != pid)
            bug++;
        if (bug == BUG_END)
            continue;
        running--;
        if (WIFSIGNALED (status))
            printf ("%2d  %-24s %-52s an assertion of the product\n", bug, bug_text[bug].name,
                    bug_text[bug].what);
        caught += WIFSIGNALED (status) || WEXITSTATUS (status) == 0;
    }
    printf ("sim-proof: %lu of %d planted bugs caught\n", caught, BUG_END - 1);
    proof_line ("bugs", BUG_END - 1, caught, start);
    return caught != BUG_END - 1;
}

/* ---- the command line ------------------------------------------------------------------------ */

static bug_t bug_of (const char *text)
{
    for (int bug = 1; bug < BUG_END; bug++)
        if (strcmp (text, bug_text[bug].name) == 0 || atoi (text) == bug)
            return (bug_t) bug;
    printf ("no bug '%s'\n", text);
    exit (2);
}

static uint64_t number (int argc, char **argv, int i, uint64_t fallback)
{
    return i < argc ? strtoull (argv[i], NULL, 10) : fallback;
}

static int story (uint64_t seed, bug_t bug, kind_t kind)
{
    const bool kept = sim_run (seed, bug, kind, true);
    printf ("seed %llu: %s\n", (unsigned long long) seed,
            kept ? "every promise was kept" : sim.failure);
    return !kept;
}

int main (int argc, char **argv)
{
    bug_t bug = BUG_NONE;
    kind_t kind = A_CAMPAIGN;
    n_job = sysconf (_SC_NPROCESSORS_ONLN);
    setvbuf (stdout, NULL, _IOLBF, 0);
    signal (SIGABRT, on_abort);
    if (!freopen ("/dev/null", "w", stderr)) /* the journal's last line when it ends the process */
        return 2;
    for (int i = 1; i < argc; i++) {
        const uint64_t value = number (argc, argv, i + 1, 0);
        if (strcmp (argv[i], "--bugs") == 0)
            return run_bugs (value ? value : 2000);
        if (strcmp (argv[i], "--only-cuts") == 0 || strcmp (argv[i], "--clients") == 0) {
            kind = strcmp (argv[i], "--clients") == 0 ? CLIENTS : ONLY_CUTS;
            continue;
        }
        if (i + 1 == argc)
            break;
        if (strcmp (argv[i], "--seed") == 0)
            return story (value, bug, kind);
        if (strcmp (argv[i], "--seeds") == 0)
            return run_seeds (value, number (argc, argv, i + 2, 1), bug, kind);
        if (strcmp (argv[i], "--cuts") == 0)
            return run_cuts (value, number (argc, argv, i + 2, 1), bug);
        if (strcmp (argv[i], "--jobs") == 0)
            n_job = (long) value;
        else if (strcmp (argv[i], "--bug") == 0)
            bug = bug_of (argv[i + 1]);
        else
            break;
        if (n_job < 1 || n_job > JOBS_MAX)
            n_job = n_job < 1 ? 1 : JOBS_MAX;
        i++;
    }
    printf (
        "sim [--bug B] [--jobs N] --seeds FIRST COUNT | --cuts COUNT [FIRST] | --bugs [COUNT] | "
        "[--only-cuts | --clients] --seed N\n");
    return 2;
}
