/* sim.c - seeds: a world each, faults for a while, then calm in which everything must end.

     sim --seed N            the story of one seed
     sim --seeds FIRST COUNT many, silently; says how fast
     sim --bug B ...         with a planted bug (a number or a name)
     sim --proof [COUNT]     every planted bug must be caught within COUNT (500) seeds
   Exit code 0: nothing broke (for --proof: every bug was caught).  */
#include "tests/proof.h"
#include "tests/sim/sim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALM_MS (40 * 60 * 1000)

sim_t sim;

const bug_text_t bug_text[BUG_END] = {
    [BUG_ACK_BEFORE_SYNC] = { "ack-before-sync", "effects leave before the fdatasync" },
    [BUG_RECORD_FORGOTTEN] = { "record-forgotten", "one RESULT in 8 never enters the journal" },
    [BUG_FULL_DISK_DROPS] = { "full-disk-drops", "a record met by a full disk is dropped" },
    [BUG_FSYNC_IGNORED] = { "fsync-ignored", "a failed fdatasync is passed over" },
    [BUG_LEDGER_AHEAD] = { "ledger-ahead", "the ledger commits before the journal's fdatasync" },
    [BUG_TAIL_TRUNCATED] = { "tail-truncated", "a torn tail is cut off, and more with it" },
    [BUG_DUPLICATE_JOURNALLED] = { "duplicate-journalled", "a repeated RESULT is appended again" },
    [BUG_HELD_FORGOTTEN] = { "held-forgotten", "HELD of a batch never enters the journal" },
    [BUG_WRITTEN_ACKED_EARLY] = { "written-acked-early",
                                  "FILE_WRITTEN is answered before it is durable" },
    [BUG_NEED_FORGOTTEN] = { "need-forgotten", "no second NEED when a producer comes back" },
    [BUG_LEASE_OUTLIVES] = { "lease-outlives", "leases outlive their worker's session" },
    [BUG_LATE_RESULT_IGNORED] = { "late-result-ignored", "a late RESULT is dropped" },
    [BUG_CREDIT_ACROSS_SESSIONS] = { "credit-across-sessions", "credit outlives its session" },
    [BUG_BLAME_THE_WAITING] = { "blame-the-waiting", "what waited at a lost worker is blamed" },
    [BUG_WALL_CLOCK] = { "wall-clock", "deadlines run on while the broker is stopped" },
    [BUG_REPEAT_ACKED_EARLY] = { "repeat-acked-early",
                                 "a repeat is acknowledged before the first is durable" },
    [BUG_DONE_ONE_EARLY] = { "done-one-early", "EVENT_DONE with one batch on its way" },
    [BUG_DONE_FORGOTTEN] = { "done-forgotten", "one EVENT_DONE in 16 is not sent" },
    [BUG_BUDGET_IGNORED] = { "budget-ignored", "four times the byte budget" },
    [BUG_CLAIM_OUTLIVES] = { "claim-outlives", "a claim outlives its session" },
    [BUG_DISK_STAYS_FULL] = { "disk-stays-full", "room on the disk is not noticed" },
    [BUG_WRONG_PAYLOAD] = { "wrong-payload", "a TASK with the payload of another" },
    [BUG_TASK_TWICE] = { "task-twice", "a TASK is sent twice, on one credit" },
    [BUG_RESULT_OF_A_NEIGHBOUR] = { "result-of-a-neighbour", "a batch is given the wrong place" },
    [BUG_NO_SECOND_ACK] = { "no-second-ack", "a repeated RESULT is not acknowledged" },
};

/* ---- faults ------------------------------------------------------------------------------------
 */

/* Each kind is off in some worlds; else once in so many seconds.  */
static uint32_t every_s (uint32_t from, uint32_t to)
{
    return chance (400) ? 0 : from + roll (to - from);
}

static void faults_choose (void)
{
    faults_t *faults = &sim.faults;
    if (chance (50))
        return; /* an undisturbed world */
    *faults = (faults_t){ .cut = every_s (2, 30),
                          .worker_dies = every_s (5, 60),
                          .worker_freezes = every_s (10, 90),
                          .worker_hangs = every_s (5, 60),
                          .producer_dies = every_s (10, 60),
                          .producer_freezes = every_s (15, 90),
                          .broker_killed = every_s (4, 60),
                          .broker_stops = every_s (10, 60),
                          .disk_full = every_s (10, 60),
                          .hostile = every_s (1, 2),
                          .output_lost = every_s (10, 60),
                          .fsync_fails = every_s (20, 90),
                          .operator_acts = every_s (10, 60),
                          .worker_drains = every_s (5, 60),
                          .broker_ends = every_s (20, 90) };
    faults->slow_ms = chance (300) ? roll (1000) : 0;
    faults->nack = chance (500) ? roll (chance (200) ? 900 : 300) : 0;
    faults->twice = chance (500) ? roll (500) : 0;
    faults->wrong = chance (200) ? roll (300) : 0;
    faults->late_ms = chance (500) ? roll (20000) : 300;
}

static bool due (uint32_t seconds)
{
    return seconds && roll (seconds * 10) == 0; /* asked ten times a second */
}

static peer_t *any (wm_role_t role)
{
    uint32_t n = role == WM_ROLE_WORKER ? sim.n_worker : sim.n_producer;
    return &sim.peer[(role == WM_ROLE_WORKER ? 0 : WORKERS) + roll (n)];
}

static void cut_something (void)
{
    link_t *link = &sim.link[roll (LINKS)];
    for (uint32_t i = 0; i < LINKS && !(link->used && link->peer && link->broker_end); i++)
        link = &sim.link[roll (LINKS)];
    if (!link->used || !link->peer || !link->broker_end)
        return;
    say ("network", "cuts %s off", link->peer->label);
    sim.count.cuts++;
    link_cut (link);
}

static void freeze (peer_t *peer, int64_t ms)
{
    if (!peer->alive)
        return;
    say (peer->label, "is stopped for %lld ms", (long long) ms);
    peer->frozen_ms = sim.now_ms + ms;
    worker_misfortune (peer, NULL);
}

static void disturb (void)
{
    const faults_t *f = &sim.faults;
    if (due (f->cut))
        cut_something ();
    if (due (f->worker_dies)) {
        peer_t *peer = any (WM_ROLE_WORKER);
        if (peer->alive)
            peer_die (peer, 100 + roll (8000));
    }
    if (due (f->worker_freezes))
        freeze (any (WM_ROLE_WORKER), 1000 + roll (chance (500) ? 90000 : 5000));
    if (due (f->worker_hangs))
        worker_hang (any (WM_ROLE_WORKER));
    if (due (f->producer_dies)) {
        peer_t *peer = any (WM_ROLE_PRODUCER);
        if (peer->alive)
            peer_die (peer, 100 + roll (8000));
    }
    if (due (f->producer_freezes))
        freeze (any (WM_ROLE_PRODUCER), 1000 + roll (chance (300) ? 60000 : 5000));
    if (due (f->broker_killed)) {
        if (chance (300))
            broker_kill (chance (600));
        else
            sim_disk_power (roll (60));
    }
    if (due (f->worker_drains))
        worker_drain (any (WM_ROLE_WORKER));
    if (due (f->broker_ends))
        broker_stop ();
    if (due (f->operator_acts)) {
        static const char *const words[] = { "pause", "resume", "resume", "drain" };
        broker_control (words[roll (4)]);
    }
    if (due (f->broker_stops))
        broker_stall (500 + roll (chance (300) ? 90000 : 5000));
    if (due (f->disk_full) || (sim_disk_is_full () && roll (50) == 0)) {
        sim_disk_full (!sim_disk_is_full ());
        say ("disk", sim_disk_is_full () ? "is full" : "has room");
    }
    if (due (f->output_lost)) {
        truth_input_t *input = &sim.input[roll (sim.n_input)];
        if (input->there)
            say ("disk", "output %u is deleted", (unsigned) (input - sim.input));
        input->there = false;
    }
    if (due (f->fsync_fails))
        sim_disk_fail_sync ();
}

/* ---- the world ---------------------------------------------------------------------------------
 */

static void peer_new (uint32_t slot, wm_role_t role, uint32_t number, const char *word)
{
    peer_t *peer = &sim.peer[slot];
    *peer = (peer_t){ .role = role, .index = slot, .wake_ms = sim.now_ms + roll (2000) };
    snprintf (peer->label, sizeof peer->label, "%s %u", word, number);
}

static void world_new (uint64_t seed, bug_t bug, bool story)
{
    memset (&sim, 0, sizeof sim);
    sim.seed = seed;
    sim.random = seed * 0x9e3779b97f4a7c15u + 1;
    sim.bug = bug;
    sim.story = story;
    sim.now_ms = 1000000;
    sim_disk_new (seed);
    sim.n_input = 1 + roll (INPUTS);
    sim.n_worker = 1 + roll (WORKERS);
    sim.n_producer = 1 + roll (PRODUCERS);
    truth_new ();
    faults_choose ();
    sim.faults_end_ms = sim.now_ms + 20000 + roll (100000);
    for (uint32_t i = 0; i < sim.n_worker; i++)
        peer_new (i, WM_ROLE_WORKER, i, "worker");
    for (uint32_t i = 0; i < sim.n_producer; i++)
        peer_new (WORKERS + i, WM_ROLE_PRODUCER, i, "producer");
    if (sim.faults.hostile) {
        peer_new (WORKERS + PRODUCERS, WM_ROLE_WORKER, 0, "hostile");
        sim.peer[WORKERS + PRODUCERS].hostile = true;
    }
    broker_new ();
}

static void peer_step (peer_t *peer)
{
    if (sim.now_ms < peer->frozen_ms) {
        peer->wake_ms = peer->frozen_ms;
        return;
    }
    if (peer->hostile) {
        hostile_step (peer);
        return;
    }
    if (!peer->alive && peer->role == WM_ROLE_WORKER)
        worker_begin (peer);
    else if (!peer->alive)
        producer_begin (peer);
    if (peer->role == WM_ROLE_WORKER)
        worker_step (peer);
    else
        producer_step (peer);
}

/* Faults are over: what hangs goes on, and the same command runs once more.  */
static void calm_begin (void)
{
    say ("world", "faults are over");
    sim.calm = true;
    sim.faults = (faults_t){ .late_ms = 300 };
    broker_control ("resume");
    sim.paused = false; /* where no broker is there to be told */
    sim_disk_full (false);
    sim_disk_power (UINT64_MAX);
    for (uint32_t i = 0; i < PEERS; i++) {
        peer_t *peer = &sim.peer[i];
        if (!*peer->label)
            continue;
        if (peer->frozen_ms > sim.now_ms)
            peer->frozen_ms = peer->wake_ms = sim.now_ms + 1;
        if (peer->finish_ms > sim.now_ms + 10000)
            peer->finish_ms = sim.now_ms + 10000;
        if (peer->hostile || peer->role == WM_ROLE_PRODUCER)
            peer_die (peer, peer->hostile ? NEVER / 2 : 1000 + roll (2000));
    }
}

static bool all_over (void)
{
    for (uint32_t i = 0; i < PEERS; i++) {
        const peer_t *peer = &sim.peer[i];
        if (!*peer->label || peer->hostile)
            continue;
        if (peer->role == WM_ROLE_PRODUCER ? !producer_is_done (peer) : !worker_is_clear (peer))
            return false;
    }
    return true;
}

static void step (void)
{
    int64_t at_ms = broker_next_ms ();
    peer_t *first = NULL;
    for (uint32_t i = 0; i < PEERS; i++)
        if (*sim.peer[i].label && sim.peer[i].wake_ms < at_ms) {
            first = &sim.peer[i];
            at_ms = first->wake_ms;
        }
    while (!sim.calm && sim.now_ms / 100 < at_ms / 100) {
        sim.now_ms = (sim.now_ms / 100 + 1) * 100;
        if (sim.now_ms >= sim.faults_end_ms)
            calm_begin ();
        else
            disturb ();
        return; /* what is first may have changed */
    }
    if (at_ms > sim.now_ms)
        sim.now_ms = at_ms;
    sim.count.steps++;
    if (first)
        peer_step (first);
    else
        broker_step ();
}

/* What the calm did not end, in words.  */
static void not_over (void)
{
    for (uint32_t i = 0; i < PEERS; i++) {
        const peer_t *peer = &sim.peer[i];
        if (*peer->label && peer->role == WM_ROLE_WORKER && !peer->hostile &&
            !worker_is_clear (peer))
            fail ("%s waits for an acknowledgement for ever", peer->label);
        for (uint32_t j = 0; peer->role == WM_ROLE_PRODUCER && j < sim.n_input; j++)
            if (*peer->label && peer->in[j].is != IN_WRITTEN && peer->in[j].is != IN_HELD)
                fail ("%s is not done with input %u (state %d, %u of %u events done)", peer->label,
                      j, (int) peer->in[j].is, peer->in[j].n_done, sim.input[j].n_event);
    }
}

/* Runs one seed; false: it broke, sim.failure says how.  */
static bool seed_run (uint64_t seed, bug_t bug, bool story)
{
    world_new (seed, bug, story);
    while (!*sim.failure && !(sim.calm && all_over ())) {
        step ();
        if (sim.calm && sim.now_ms > sim.faults_end_ms + CALM_MS) {
            not_over ();
            fail ("not over %d minutes after the last fault", CALM_MS / 60000);
        }
    }
    if (!*sim.failure)
        check_end ();
    broker_free ();
    links_clear ();
    sim_disk_free ();
    return !*sim.failure;
}

/* ---- the command line --------------------------------------------------------------------------
 */

static void on_abort (int signal_number)
{
    (void) signal_number;
    char text[80];
    int n =
        snprintf (text, sizeof text, "seed %llu ends in an abort\n", (unsigned long long) sim.seed);
    if (write (1, text, (size_t) n) < 0)
        _exit (2);
}

static int run_seeds (uint64_t first, uint64_t count, bug_t bug)
{
    double start = proof_clock ();
    uint64_t failed = 0, n_message = 0, n_restart = 0, n_cut = 0, n_power = 0, n_acked = 0,
             n_held = 0, n_power_survived = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        const bool kept = seed_run (seed, bug, false);
        if (!kept) {
            failed++;
            printf ("seed %llu, %.3f s: %s\n", (unsigned long long) seed,
                    (double) sim.now_ms / 1000, sim.failure);
        }
        n_message += sim.count.messages;
        n_restart += sim.count.restarts;
        n_cut += sim.count.cuts;
        n_power += sim.count.powercuts;
        n_power_survived += kept ? sim.count.powercuts : 0;
        n_acked += sim.count.acked;
        n_held += sim.count.held;
    }
    double took = proof_clock () - start;
    printf ("sim: %llu seeds in %.1f s (%.0f/s): %llu messages, %llu connections cut, %llu ends of "
            "the broker (%llu power cuts), %llu results acknowledged, %llu batches held; %llu "
            "seeds broke a promise\n",
            (unsigned long long) count, took, (double) count / took, (unsigned long long) n_message,
            (unsigned long long) n_cut, (unsigned long long) n_restart,
            (unsigned long long) n_power, (unsigned long long) n_acked, (unsigned long long) n_held,
            (unsigned long long) failed);
    /* A seed ends in calm, in which everything must be written or held; and nothing acknowledged may
       be gone after any of its power cuts. */
    proof_line ("P20", count, count - failed, start);
    proof_line ("P2", n_power, n_power_survived, proof_clock ());
    return failed != 0;
}

/* In a child, because a bug may as well end in an assertion.  */
static int prove (bug_t bug, uint64_t count)
{
    fflush (NULL);
    double start = proof_clock ();
    pid_t child = fork ();
    if (child == 0) {
        for (uint64_t seed = 1; seed <= count; seed++)
            if (!seed_run (seed, bug, false)) {
                printf ("%2d  %-24s %-52s seed %3llu: %s\n", (int) bug, bug_text[bug].name,
                        bug_text[bug].what, (unsigned long long) seed, sim.failure);
                fflush (NULL);
                _exit (0);
            }
        _exit (1);
    }
    int status;
    if (waitpid (child, &status, 0) != child)
        return 1;
    if (WIFEXITED (status) && WEXITSTATUS (status) == 0)
        return 0;
    if (WIFSIGNALED (status)) {
        printf ("%2d  %-24s %-52s an assertion of the product\n", (int) bug, bug_text[bug].name,
                bug_text[bug].what);
        return 0;
    }
    printf ("%2d  %-24s %-52s NOT CAUGHT in %llu seeds, %.1f s\n", (int) bug, bug_text[bug].name,
            bug_text[bug].what, (unsigned long long) count, proof_clock () - start);
    return 1;
}

static bug_t bug_of (const char *text)
{
    for (int bug = 1; bug < BUG_END; bug++)
        if (strcmp (text, bug_text[bug].name) == 0 || atoi (text) == bug)
            return (bug_t) bug;
    printf ("no bug '%s'\n", text);
    exit (2);
}

int main (int argc, char **argv)
{
    bug_t bug = BUG_NONE;
    setvbuf (stdout, NULL, _IOLBF, 0);
    signal (SIGABRT, on_abort);
    if (!freopen ("/dev/null", "w", stderr)) /* what the journal says when it ends its process */
        return 2;
    for (int i = 1; i < argc; i++) {
        if (strcmp (argv[i], "--bug") == 0 && i + 1 < argc)
            bug = bug_of (argv[++i]);
        else if (strcmp (argv[i], "--seed") == 0 && i + 1 < argc) {
            bool ok = seed_run (strtoull (argv[i + 1], NULL, 10), bug, true);
            printf ("seed %s: %s\n", argv[i + 1], ok ? "every promise was kept" : sim.failure);
            return !ok;
        } else if (strcmp (argv[i], "--seeds") == 0 && i + 2 < argc)
            return run_seeds (strtoull (argv[i + 1], NULL, 10), strtoull (argv[i + 2], NULL, 10),
                              bug);
        else if (strcmp (argv[i], "--proof") == 0) {
            uint64_t count = i + 1 < argc ? strtoull (argv[i + 1], NULL, 10) : 500;
            double start = proof_clock ();
            unsigned long missed = 0;
            for (int b = 1; b < BUG_END; b++)
                missed += (unsigned long) prove ((bug_t) b, count);
            printf ("sim-proof: %lu of %d planted bugs caught\n", BUG_END - 1 - missed,
                    BUG_END - 1);
            proof_line ("bugs", BUG_END - 1, BUG_END - 1 - missed, start);
            return missed != 0;
        }
    }
    printf ("sim [--bug B] --seed N | --seeds FIRST COUNT | --proof [COUNT]\n");
    return 2;
}
