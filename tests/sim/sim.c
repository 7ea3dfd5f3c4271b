/* sim.c - seeds: a world each, faults for a while, then calm in which everything must end.  */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALM_MS (40 * 60 * 1000)

sim_t sim;

/* ---- faults ---------------------------------------------------------------------------------- */

/* Each kind is off in some worlds; else once in so many seconds.  */
static uint32_t every_s (uint32_t from, uint32_t to)
{
    return chance (400) ? 0 : from + roll (to - from);
}

/* Power cuts one after another, over work that begins again and again.  */
static const faults_t power_cuts = { .worker_dies = 15,
                                     .producer_dies = 4,
                                     .output_lost = 2,
                                     .power_cut_operations = 400,
                                     .late_ms = 300 };

/* Their broker keeps nothing, so of the disk no fault matters. More comes late.  */
static void faults_of_clients (faults_t *faults)
{
    const uint64_t salt = wm_table_mix (sim.seed + 7727);
    faults->disk_full = faults->fsync_fails = faults->rots = faults->ledger_spoils = 0;
    faults->output_lost = faults->wrong = 0;
    faults->encode_ms = salt % 100 < 30 ? 1 + (uint32_t) (salt / 100 % 9000) : 0;
    faults->slow_link_ms = salt / 7 % 100 < 50 ? 1 + (uint32_t) (salt / 700 % 20000) : 0;
}

static void faults_choose (void)
{
    faults_t *faults = &sim.faults;
    if (sim.kind == ONLY_CUTS) {
        *faults = power_cuts;
        return;
    }
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
    faults->rots = chance (150) ? 1 + roll (20) : 0;
    faults->flipped = chance (150) || sim.bug == BUG_SEAL_IGNORED ? 1 + roll (20) : 0;
    if (sim.bug == BUG_LOSS_UNNOTICED) /* most losses are made good by timers, or by a cut */
        faults->flipped = 400;
    faults->slow_ms = chance (300) ? roll (1000) : 0;
    faults->nack = chance (500) ? roll (chance (200) ? 900 : 300) : 0;
    faults->twice = chance (500) ? roll (500) : 0;
    faults->wrong = chance (200) ? roll (300) : 0;
    faults->late_ms = chance (500) ? roll (20000) : 300;
    /* Drawn from the seed, not from the generator: worlds without this fault stay as they were.  */
    const uint64_t salt = wm_table_mix (sim.seed + 4711);
    faults->ledger_spoils = salt % 100 < 20 ? 1 + (uint32_t) (salt / 100 % 3) : 0;
    const uint64_t mute = wm_table_mix (sim.seed + 1547);
    faults->producer_mute = mute % 100 < 40 ? 5 + (uint32_t) (mute / 100 % 30) : 0;
    faults->encode_ms = mute / 7 % 100 < 25 ? 1 + (uint32_t) (mute / 700 % 9000) : 0;
    if (sim.kind == CLIENTS)
        faults_of_clients (faults);
}

/* Failures that calm does not end. Not of the die, as above.  */
static void choose_lasting (void)
{
    const uint64_t salt = wm_table_mix (sim.seed + 815);
    if (sim.kind == ONLY_CUTS || salt % 8)
        return;
    for (uint32_t i = 0; i < INPUTS * EVENTS * BATCHES; i++)
        sim.input[i / EVENTS / BATCHES].event[i / BATCHES % EVENTS].unit[i % BATCHES].lasting =
            wm_table_mix (salt + i) % 8 == 0;
    sim.peer[0].broken = salt / 8 % 3 == 0;
}

/* Worlds in which a second machine scores batches again; one of three machines or more may lie. Not
   of the die, as above.  */
static void choose_checks (void)
{
    const uint64_t salt = wm_table_mix (sim.seed + 2203);
    if (sim.kind == ONLY_CUTS || sim.faults.wrong || salt % 3)
        return;
    sim.check_share = salt / 3 % 4 ? 1 : 0.3;
    if (sim.kind != CLIENTS && sim.n_worker >= 3 && salt / 12 % 4 && !sim.peer[0].broken)
        sim.peer[sim.n_worker - 1].lies = 50 + (uint32_t) (salt / 48 % 900);
}

/* Not of the die, as above. With few events a number would soon stand for the same one again, and
   what is late for the one could not be told from the other.  */
static void choose_numbers (void)
{
    uint32_t n_event = 0;
    for (uint32_t i = 0; i < sim.n_input; i++)
        n_event += sim.input[i].n_event;
    sim.reuses = sim.kind == CLIENTS && wm_table_mix (sim.seed + 311) % 2 && n_event > REQUESTS;
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
    log_event ("network", "cuts %s off", link->peer->label);
    sim.count.cuts++;
    link_cut (link);
}

static void freeze (peer_t *peer, int64_t ms)
{
    if (!peer->alive)
        return;
    log_event (peer->label, "is stopped for %lld ms", (long long) ms);
    if (peer->frozen_ms < sim.now_ms)
        peer->stopped_ms = sim.now_ms;
    peer->frozen_ms = sim.now_ms + ms;
    worker_misfortune (peer, NULL);
}

/* It sends heartbeats and announces, and loses what it is asked for.  */
static void mute (peer_t *peer, int64_t ms)
{
    if (!peer->alive)
        return;
    log_event (peer->label, "is mute for %lld ms", (long long) ms);
    peer->mute_ms = sim.now_ms + ms;
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
    if (due (f->producer_mute))
        mute (any (WM_ROLE_PRODUCER), 2000 + roll (chance (300) ? 60000 : 8000));
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
        static const char *const words[] = { "pause", "resume", "resume", "drain", "kick" };
        const char *word = words[roll (5)];
        char text[24] = "";
        if (strcmp (word, "kick") == 0)
            snprintf (text, sizeof text, "/data/%u", roll (sim.n_input));
        else if (strcmp (word, "drain") == 0 && chance (500))
            snprintf (text, sizeof text, "worker %u", roll (sim.n_worker));
        broker_control (word, text);
    }
    if (due (f->broker_stops))
        broker_stall (500 + roll (chance (300) ? 90000 : 5000));
    if (due (f->disk_full) || (sim_disk_is_full () && roll (50) == 0)) {
        sim_disk_full (!sim_disk_is_full ());
        log_event ("disk", sim_disk_is_full () ? "is full" : "has room");
    }
    if (due (f->output_lost)) {
        truth_input_t *input = &sim.input[roll (sim.n_input)];
        if (input->there)
            log_event ("disk", "output %u is deleted", (unsigned) (input - sim.input));
        input->there = false;
    }
    if (due (f->rots) && sim_disk_rot ())
        sim.rotten = true;
    if (due (f->fsync_fails))
        sim_disk_fail_sync ();
    if (f->ledger_spoils && roll (100) == 0)
        sim_disk_keep_ledger ();
}

/* ---- the world ------------------------------------------------------------------------------- */

static void peer_new (uint32_t slot, wm_role_t role, uint32_t number, const char *word)
{
    peer_t *peer = &sim.peer[slot];
    *peer = (peer_t){ .role = role, .index = slot, .wake_ms = sim.now_ms + roll (2000) };
    snprintf (peer->label, sizeof peer->label, "%s %u", word, number);
}

static void world_new (uint64_t seed, bug_t bug, kind_t kind, bool story)
{
    memset (&sim, 0, sizeof sim);
    sim.seed = seed;
    sim.random = seed * 0x9e3779b97f4a7c15u + 1;
    sim.bug = bug;
    sim.kind = kind;
    sim.story = story;
    sim.now_ms = 1000000;
    sim_disk_new (seed, kind == ONLY_CUTS && seed % 2);
    served_clear ();
    sim.n_input = 1 + roll (INPUTS);
    sim.n_worker = 1 + roll (WORKERS);
    sim.n_producer = 1 + roll (PRODUCERS);
    truth_new ();
    faults_choose ();
    sim.faults_end_ms = sim.now_ms + 20000 + roll (100000);
    for (uint32_t i = 0; i < sim.n_worker; i++)
        peer_new (i, WM_ROLE_WORKER, i, "worker");
    for (uint32_t i = 0; i < sim.n_producer; i++)
        peer_new (WORKERS + i, WM_ROLE_PRODUCER, i, kind == CLIENTS ? "client" : "producer");
    if (sim.faults.hostile) {
        peer_new (WORKERS + PRODUCERS, WM_ROLE_WORKER, 0, "hostile");
        sim.peer[WORKERS + PRODUCERS].hostile = true;
    }
    choose_lasting ();
    choose_checks ();
    choose_numbers ();
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
        (sim.kind == CLIENTS ? client_begin : producer_begin) (peer);
    if (peer->role == WM_ROLE_WORKER)
        worker_step (peer);
    else
        (sim.kind == CLIENTS ? client_step : producer_step) (peer);
}

/* Where workers fail more often than they score the campaign pauses until an operator resumes
   it.  */
static void resume_in_calm (void)
{
    if (!broker_is_up () || !broker_core ()->paused || sim.now_ms < sim.resumed_ms + 10000)
        return;
    sim.resumed_ms = sim.now_ms;
    broker_control ("resume", "");
}

/* Faults are over: what hangs goes on, and the same command runs once more.  */
static void calm_begin (void)
{
    log_event ("world", "faults are over");
    sim.calm = true;
    sim.faults = (faults_t){ .late_ms = 300 };
    broker_control ("resume", "");
    sim.paused_promised = false; /* where no broker was there, resume_in_calm asks the next */
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
        if (peer->hostile || (peer->role == WM_ROLE_PRODUCER && sim.kind != CLIENTS))
            peer_die (peer, peer->hostile ? NEVER / 2 : 1000 + roll (2000));
    }
}

static bool all_over (void)
{
    for (uint32_t i = 0; i < PEERS; i++) {
        const peer_t *peer = &sim.peer[i];
        if (!*peer->label || peer->hostile)
            continue;
        if (peer->role == WM_ROLE_WORKER ? !worker_is_clear (peer)
            : sim.kind == CLIENTS        ? !client_is_done (peer)
                                         : !producer_is_done (peer))
            return false;
    }
    return sim.kind != CLIENTS || served_is_quiet (broker_core ());
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
    if (sim.calm)
        resume_in_calm ();
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
        if (sim.kind == CLIENTS && peer->role == WM_ROLE_PRODUCER && *peer->label &&
            !client_is_done (peer))
            fail ("%s has %u requests that are not answered, %u more to make", peer->label,
                  peer->n_open, peer->n_call);
        for (uint32_t j = 0;
             sim.kind != CLIENTS && peer->role == WM_ROLE_PRODUCER && j < sim.n_input; j++)
            if (*peer->label && peer->in[j].is != IN_WRITTEN && peer->in[j].is != IN_HELD)
                fail ("%s is not done with input %u (state %d, %u of %u events done)", peer->label,
                      j, (int) peer->in[j].is, peer->in[j].n_done, sim.input[j].n_event);
    }
    if (sim.kind == CLIENTS && broker_core () && !served_is_quiet (broker_core ()))
        fail ("all is answered, and %llu bytes of the budget are in use",
              (unsigned long long) broker_core ()->budget.used);
}

bool sim_run (uint64_t seed, bug_t bug, kind_t kind, bool story)
{
    world_new (seed, bug, kind, story);
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
