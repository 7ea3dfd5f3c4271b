/* test_broker_shown.c - wm_core: what people are shown: waits, estimates, workers, inputs, counts.
 */
#include "tests/unit/core_harness.h"

#include <math.h>

static void near (double is, double expected)
{
    assert_true (fabs (is - expected) < 1e-9);
}

/* ---- waits ----------------------------------------------------------------------------------- */

/* All that is said of waits, in one line: the state, what the campaign waits for, the rows in their
   order with label, text and age, and behind | what notifications and systemd are told.  */
static const char *shown (const harness_t *t)
{
    static char text[2000];
    const wm_summary_t s = look (t);
    wm_brief_t brief;
    uint32_t n_by_wait[WM_WAIT_END] = { 0 };
    int n = snprintf (text, sizeof text, "%s, %s:", s.state, s.waiting_for ? s.waiting_for : "-");
    for (uint32_t i = 0; i < s.n_wait; i++) {
        const wm_summary_wait_t *row = &s.wait[i];
        n_by_wait[row->wait]++;
        n +=
            snprintf (text + n, sizeof text - (size_t) n, " %s@%s(%s)%g;", wm_waits[row->wait].name,
                      row->label ? row->label : "", row->text, row->since_s);
    }
    assert_memory_equal (n_by_wait, s.n_by_wait, sizeof n_by_wait);
    wm_core_brief (t->core, &brief);
    assert_int_equal (brief.inputs, t->for_clients ? 0 : s.inputs);
    assert_int_equal (brief.hits_announced, s.hits_announced);
    for (uint32_t i = 0; i < brief.n_stop; i++)
        n += snprintf (text + n, sizeof text - (size_t) n, " | %s", brief.stop[i].text);
    return text;
}

/* A HEARTBEAT; wait: what the peer reports to wait for, where it executes nothing.  */
static void beat (harness_t *t, uint32_t session, const wm_key_t *executing, uint32_t wait,
                  const char *text)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    if (executing)
        msg.key = *executing;
    else
        msg.key.ordinal = wait;
    msg.count = 1;
    msg.received = received (t, session);
    strcpy (msg.text, text);
    say (t, session, &msg, NULL, 0);
}

static void control (harness_t *t, uint32_t session, const char *name, const char *text)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    strcpy (msg.name, name);
    strcpy (msg.text, text);
    say (t, session, &msg, NULL, 0);
}

/* A worker without a class: it fetches its model still.  */
static uint32_t loading (harness_t *t, uint8_t instance)
{
    const uint32_t session = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = WM_ROLE_WORKER;
    msg.instance[0] = instance;
    snprintf (msg.name, sizeof msg.name, "host:%u", instance);
    say (t, session, &msg, "", 0);
    must (t, session, WM_MSG_WELCOME);
    return session;
}

static void test_waits_of_workers (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    assert_string_equal (shown (t), "idle, -:");
    const uint32_t p = producer (t, 1);
    const wm_key_t input = claim (t, p);
    assert_string_equal (shown (t), "running, no worker: no worker@()0;");
    const uint32_t w = loading (t, 2), alive[] = { p, w, 0 };
    assert_string_equal (shown (t), "running, producer: producer@()0; model@host:2()0;");
    submit (t, p, input, 0, 3);
    assert_string_equal (shown (t), "running, producer: producer@()0; model@host:2()0;");
    pass (t, 1000, alive);
    assert_string_equal (shown (t), "running, producer: producer@()0.5; model@host:2()1;");
    answer_needs (t, p);
    assert_string_equal (shown (t), "running, model: model@host:2()1;");
    const uint32_t v = worker (t, 3, 1);
    const wm_msg_t task = must (t, v, WM_MSG_TASK)->msg;
    answer_needs (t, p);
    assert_string_equal (shown (t), "running, -: model@host:2()1;");

    pass (t, 8000, alive); /* four heartbeats are no silence yet */
    assert_string_equal (shown (t), "running, -: model@host:2()9;");
    wm_core_tick (t->core, ++t->now_ms);
    assert_string_equal (
        shown (t), "running, worker silent: worker silent@host:3()8.001; model@host:2()9.001;");
    t->quiet_ms = 8000; /* parts of a message arrived */
    assert_string_equal (shown (t), "running, -: model@host:2()9.001;");
    t->quiet_ms = 0;

    /* Its engine executes a batch and finishes nothing of it.  */
    beat (t, v, &task.key, 0, "");
    for (int i = 0; i < 20; i++) {
        pass (t, 500, alive);
        beat (t, v, &task.key, 0, "");
    }
    assert_string_equal (shown (t), "running, -: model@host:2()19.001;");
    wm_core_tick (t->core, ++t->now_ms);
    assert_string_equal (shown (t),
                         "running, engine hung: engine hung@host:3()10.001; model@host:2()19.002;");
    beat (t, v, NULL, 0, ""); /* it executes nothing */
    assert_string_equal (shown (t), "running, -: model@host:2()19.002;");

    /* What it reports itself: its own kinds of wait, by number alone.  */
    static const struct {
        uint32_t wait;
        const char *text, *shown;
    } rows[] = {
        { WM_WAIT_NO_MEMORY, "{}",
          "running, no memory: no memory@host:3({})0; model@host:2()19.002;" },
        { WM_WAIT_OUTPUT_DISK, "disk full", "running, -: model@host:2()19.002;" },
        { WM_WAIT_SAMPLE, "", "running, sample: model@host:2()19.002; sample@host:3()0;" },
        { WM_WAIT_END, "", "running, -: model@host:2()19.002;" },
        { WM_WAIT_PAUSED, "", "running, -: model@host:2()19.002;" },
        { 0, "disk full", "running, -: model@host:2()19.002;" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        beat (t, v, NULL, rows[i].wait, rows[i].text);
        assert_string_equal (shown (t), rows[i].shown);
    }

    /* The same wait again is not a new one; a lost worker waits for nothing.  */
    beat (t, v, NULL, WM_WAIT_NO_MEMORY, "");
    pass (t, 1000, alive);
    beat (t, v, NULL, WM_WAIT_NO_MEMORY, "");
    assert_string_equal (shown (t),
                         "running, no memory: no memory@host:3()1; model@host:2()20.002;");
    wm_core_closed (t->core, v, t->now_ms);
    assert_string_equal (shown (t), "running, -: model@host:2()20.002;");
    harness_end (t);
}

static void test_waits_of_producers (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), q = producer (t, 2), w = worker (t, 3, 1);
    const uint32_t alive[] = { w, q, 0 };
    const wm_key_t input = claim (t, p);
    pass (t, 8000, alive);
    assert_string_equal (shown (t), "running, producer: producer@()7.5;");
    pass (t, 500, alive);
    assert_string_equal (shown (t),
                         "running, producer: producer@()8; producer silent@host:1()8.5;");
    static const struct {
        uint32_t wait;
        const char *text, *shown;
    } rows[] = {
        { WM_WAIT_COPIES, "a.h5", "running, copies: copies@host:1(a.h5)0;" },
        { WM_WAIT_AWAY, "", "running, server away: server away@host:1()0;" },
        { WM_WAIT_SCRATCH_DISK, "/s",
          "waiting, disk full (scratch): disk full (scratch)@host:1(/s)0; | /s" },
        { WM_WAIT_OUTPUT_DISK, "",
          "waiting, disk full (output): disk full (output)@host:1()0; | the disk of the outputs is "
          "full" },
        { WM_WAIT_SAMPLE, "", "running, producer: producer@()8;" },
        { 0, "a reader", "running, producer waits: producer waits@host:1(a reader)0;" },
        { 0, "", "running, producer: producer@()8;" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        beat (t, p, NULL, rows[i].wait, rows[i].text);
        assert_string_equal (shown (t), rows[i].shown);
    }
    /* One that has no input waits for nobody.  */
    beat (t, q, NULL, WM_WAIT_OUTPUT_DISK, "/q");
    assert_string_equal (shown (t),
                         "running, producer: producer@()8; disk full (output)@host:2(/q)0; | /q");
    beat (t, q, NULL, 0, "");

    /* It is asked and does not answer: late, a word of the list alone.  */
    submit (t, p, input, 0, 1);
    const uint32_t all[] = { p, q, w, 0 };
    pass (t, 5500, all);
    assert_string_equal (shown (t),
                         "running, producer: producer@()13.5; producer late@host:1()5.5;");
    wm_core_closed (t->core, p, t->now_ms);
    assert_string_equal (shown (t), "running, producer: producer@()13.5;");
    wm_core_closed (t->core, q, t->now_ms);
    assert_string_equal (shown (t), "running, no producer: no producer@()0;");
    wm_core_closed (t->core, w, t->now_ms);
    assert_string_equal (shown (t), "running, no producer: no producer@()0;");
    harness_end (t);
}

/* What the broker and its operator wait for goes before what peers wait for.  */
static void test_waits_of_the_broker (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), w = worker (t, 3, 1),
                   o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    const uint32_t alive[] = { p, w, o, 0 };
    claim (t, p);
    wm_core_waits (t->core, WM_WAIT_DISK_SLOW, true);
    wm_core_waits (t->core, WM_WAIT_LEDGER_DISK, true);
    pass (t, 20000, alive);
    assert_string_equal (shown (t),
                         "running, producer: producer@()19.5; disk full (ledger)@()19.999; "
                         "disk slow@()19.999; | the campaign's ledger has no room on its "
                         "disk");
    wm_core_waits (t->core, WM_WAIT_DISK_SLOW, true); /* for a minute from now */
    wm_core_waits (t->core, WM_WAIT_LEDGER_DISK, true);
    control (t, o, "pause", "lunch");
    wm_core_waits (t->core, WM_WAIT_LEDGER_DISK, false);
    pass (t, 60000, alive);
    assert_string_equal (shown (t), "paused, paused: paused@(by host:9: lunch)59.5; "
                                    "disk slow@()59.999; | by host:9: lunch");
    wm_core_tick (t->core, ++t->now_ms);
    assert_string_equal (shown (t),
                         "paused, paused: paused@(by host:9: lunch)59.501; | by host:9: lunch");
    control (t, o, "drain", "");
    assert_string_equal (shown (t), "draining, draining: draining@()0; | by host:9: lunch | its "
                                    "workers are drained");
    wm_core_disk_full (t->core, true, t->now_ms);
    assert_string_equal (shown (t),
                         "draining, disk full: disk full@()0; | the campaign's disk is full "
                         "| by host:9: lunch | its workers are drained");
    wm_core_disk_full (t->core, false, t->now_ms);
    control (t, o, "resume", "");
    assert_string_equal (shown (t), "running, producer: producer@()0;");
    harness_end (t);
}

/* Two that are wanted and do not work: the smaller number is the campaign's; one that works is
   enough.  */
static void test_the_wait_of_all (void **state)
{
    static const struct {
        uint32_t one, other;
        int for_clients;
        const char *waiting;
    } rows[] = { { WM_WAIT_SAMPLE, WM_WAIT_NO_MEMORY, 0, "sample" },
                 { WM_WAIT_NO_MEMORY, WM_WAIT_SAMPLE, 0, "sample" },
                 { WM_WAIT_SAMPLE, WM_WAIT_SAMPLE, 1, "sample" },
                 { WM_WAIT_SAMPLE, 0, 0, "-" },
                 { 0, WM_WAIT_SAMPLE, 1, "-" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (64 * MIB);
        t->for_clients = rows[i].for_clients;
        wm_core_destroy (&t->core);
        t->core = core_make (t, 1, 64 * MIB);
        const uint32_t p = producer (t, 1);
        const wm_key_t input = claim (t, p);
        assert_string_equal (shown (t),
                             t->for_clients ? "running, -:" : "running, no worker: no worker@()0;");
        submit (t, p, input, 0, 2);
        assert_string_equal (shown (t), "running, no worker: no worker@()0;");
        const uint32_t w = worker (t, 2, 1), v = worker (t, 3, 1), idle = worker (t, 4, 0);
        beat (t, idle, NULL, WM_WAIT_WORKER_STARTS, ""); /* it has no batch */
        answer_needs (t, p);
        beat (t, w, NULL, rows[i].one, "");
        beat (t, v, NULL, rows[i].other, "");
        const char *waiting = look (t).waiting_for;
        assert_string_equal (waiting ? waiting : "-", rows[i].waiting);
        harness_end (t);
    }
}

/* ---- estimates ------------------------------------------------------------------------------- */

enum { OPEN = 1, HELD };

/* What is left to score is what is announced, and what inputs that are not announced to their end
   should hold, by the hits in a byte of those that are.  */
static void test_what_is_left (void **state)
{
    static const struct {
        struct {
            int state, ended, unpinned; /* ended: 2: an event of it is not announced yet */
            uint64_t size, n_hit, done, held;
        } input[3];
        double expected, left; /* -1: unknown */
    } rows[] = {
        { { { OPEN, 1, 0, 1000, 100, 0, 0 } }, 100, 100 },
        { { { OPEN, 1, 0, 1000, 100, 40, 10 } }, 100, 50 },
        { { { OPEN, 1, 0, 1000, 100, 90, 10 } }, 100, 0 },
        { { { OPEN, 1, 0, 1000, 10, 90, 10 } }, 100, 0 }, /* its events come again */
        { { { OPEN, 0, 0, 1000, 100, 0, 0 } }, -1, -1 },
        { { { OPEN, 2, 0, 1000, 100, 0, 0 } }, -1, -1 },
        { { { OPEN, 1, 0, 1000, 100, 0, 0 }, { OPEN, 0, 0, 500, 10, 0, 0 } }, 150, 150 },
        { { { OPEN, 1, 0, 1000, 100, 0, 0 }, { OPEN, 2, 0, 500, 10, 5, 0 } }, 150, 145 },
        { { { OPEN, 1, 0, 1000, 100, 0, 0 }, { OPEN, 0, 0, 2000, 300, 0, 0 } }, 400, 400 },
        { { { OPEN, 1, 0, 1000, 100, 0, 0 }, { HELD, 0, 0, 2000, 0, 0, 0 } }, 100, 100 },
        { { { OPEN, 1, 0, 1000, 100, 0, 0 },
            { OPEN, 1, 0, 3000, 500, 0, 0 },
            { OPEN, 0, 0, 1000, 0, 0, 0 } },
          750,
          750 },
        { { { OPEN, 1, 0, 1000, 100, 0, 0 },
            { OPEN, 1, 0, 1000, 300, 0, 0 },
            { OPEN, 0, 1, 0, 0, 0, 0 } },
          600,
          600 },
        { { { OPEN, 0, 1, 0, 0, 0, 0 } }, -1, -1 },
        { { { OPEN, 1, 0, 0, 0, 0, 0 }, { OPEN, 0, 0, 10, 0, 0, 0 } }, -1, -1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (64 * MIB);
        t->pretends = 1;
        for (uint32_t k = 0; k < 3 && rows[i].input[k].state; k++) {
            char path[8];
            snprintf (path, sizeof path, "%u", k);
            assert_int_equal (
                wm_core_restore_input (t->core, &(wm_ledger_input_t){ .id = k + 1,
                                                                      .state = WM_LEDGER_OPEN,
                                                                      .path = path,
                                                                      .name = path,
                                                                      .n_event = -1,
                                                                      .text = "" }),
                0);
            input_t *input = t->core->inputs.at[k];
            input->state = rows[i].input[k].state == HELD ? WM_LEDGER_HELD : WM_LEDGER_OPEN;
            input->ended = rows[i].input[k].ended;
            input->end_count = (uint64_t) rows[i].input[k].ended;
            input->n_event = 1;
            input->unpinned = rows[i].input[k].unpinned;
            input->size = rows[i].input[k].size;
            input->n_hit = rows[i].input[k].n_hit;
            t->core->totals.hits_done += input->n_hit_done = rows[i].input[k].done;
            t->core->totals.hits_held += input->n_hit_held = rows[i].input[k].held;
        }
        near (look (t).hits_expected, rows[i].expected);
        near (look (t).eta_s, rows[i].left > 0 ? -1 : rows[i].left);
        const uint32_t alive[] = { producer (t, 1), worker (t, 2, 0), 0 };
        wm_rate_add (&t->core->totals.hit_rate, t->now_ms, 20);
        near (look (t).hits_s, 20);
        near (look (t).eta_s, rows[i].left > 0 ? rows[i].left / 20 : rows[i].left);
        pass (t, 9500, alive);
        wm_rate_add (&t->core->totals.hit_rate, t->now_ms, 180);
        near (look (t).hits_s, 200 / 9.5);
        near (look (t).eta_s, rows[i].left > 0 ? rows[i].left * 9.5 / 200 : rows[i].left);
        t->core->paused = true; /* and batches still run */
        near (look (t).eta_s, rows[i].left > 0 ? -1 : rows[i].left);
        t->core->paused = false;
        pass (t, 1000, alive); /* it waits for its producers: who knows how long */
        near (look (t).eta_s, rows[i].left > 0 ? -1 : rows[i].left);
        harness_end (t);
    }
}

/* ---- workers --------------------------------------------------------------------------------- */

/* Each in its state; those that were sent away are listed first, and jobs are named where an engine
   runs.  */
static void test_workers_are_listed (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    submit (t, p, claim (t, p), 0, 4);
    const uint32_t idle = worker (t, 2, 0), busy = worker (t, 3, 3), lost = worker (t, 4, 1),
                   away = worker (t, 5, 0), done = worker (t, 6, 0);
    wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms); /* its HELLO has not come: none */
    answer_needs (t, p);
    wm_msg_t first = must (t, busy, WM_MSG_TASK)->msg;
    result_of (t, busy, &first, 1);
    durable (t);
    must (t, lost, WM_MSG_TASK);
    wm_core_closed (t->core, lost, t->now_ms);
    control (t, o, "drain", "host:5");
    credit (t, done, 2);
    answer_needs (t, p);
    static const struct {
        const char *label, *state;
        unsigned running, credit, batches, hits;
    } rows[] = { { "host:5", "draining", 0, 0, 0, 0 },
                 { "host:2", "starting", 0, 0, 0, 0 },
                 { "host:3", "busy", 2, 0, 1, 10 },
                 { "host:4", "lost", 1, 0, 0, 0 },
                 { "host:6", "idle", 0, 2, 0, 0 } };
    const wm_summary_t s = look (t);
    (void) idle, (void) away;
    assert_int_equal (s.n_worker, 5);
    assert_int_equal (s.n_worker_listed, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal (s.worker[i].label, rows[i].label);
        assert_string_equal (s.worker[i].state, rows[i].state);
        assert_string_equal (s.worker[i].signature, "engine/fp32");
        assert_int_equal (s.worker[i].running, rows[i].running);
        assert_int_equal (s.worker[i].credit, rows[i].credit);
        assert_int_equal (s.worker[i].batches, rows[i].batches);
        assert_int_equal (s.worker[i].hits, rows[i].hits);
        near (s.worker[i].hits_s, rows[i].hits);
    }
    for (int i = 0; i < WM_SUMMARY_STATES; i++)
        assert_int_equal (s.n_state[i], 1);
    harness_end (t);
}

/* More workers than are listed: all are counted.  */
static void test_more_workers_than_rows (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    for (uint32_t i = 0; i < WM_SUMMARY_PEERS_MAX + 2; i++) {
        worker (t, (uint8_t) (1 + i), 1);
        producer (t, (uint8_t) (1 + i));
        const wm_summary_t s = look (t);
        const uint32_t listed = i < WM_SUMMARY_PEERS_MAX ? i + 1 : WM_SUMMARY_PEERS_MAX;
        assert_int_equal (s.n_worker, i + 1);
        assert_int_equal (s.n_worker_listed, listed);
        assert_int_equal (s.n_producer_listed, listed);
    }
    harness_end (t);
}

/* A batch system's job is what stands behind the "/" of a label, if it looks like one.  */
static void test_jobs (void **state)
{
    static const struct {
        const char *label, *job;
    } rows[] = { { "host:1/slurm.42", "slurm.42" },
                 { "a/b/c-3_X", "c-3_X" },
                 { "host:1/", NULL },
                 { "host:1", NULL },
                 { "host:1/a b", NULL },
                 { "host:1/123456789012345678901234", "123456789012345678901234" },
                 { "host:1/1234567890123456789012345", NULL } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (unsigned credit_ = 0; credit_ < 2; credit_++) {
            harness_t *t = harness_new (64 * MIB);
            worker (t, 2, credit_);
            strcpy (t->core->sessions.first->label, rows[i].label);
            const wm_summary_t s = look (t);
            assert_int_equal (s.n_job, credit_ && rows[i].job); /* one that starts has no engine */
            if (s.n_job)
                assert_string_equal (s.job[0], rows[i].job);
            harness_end (t);
        }
}

/* How long a producer is late, and what it was asked.  */
static void test_a_late_producer (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), alive[] = { p, 0 };
    const wm_key_t input = claim (t, p);
    near (look (t).producer[0].late_s, -1);
    submit (t, p, input, 0, 2);
    assert_int_equal (look (t).producer[0].asked, 2);
    pass (t, 5000, alive);
    near (look (t).producer[0].late_s, -1);
    wm_core_tick (t->core, ++t->now_ms);
    near (look (t).producer[0].late_s, 5.001);
    assert_int_equal (look (t).producer[0].asked, 0);
    assert_int_equal (look (t).logged[0].ago_s, 0);
    pass (t, 1000, alive);
    near (look (t).logged[0].ago_s, 1);
    assert_non_null (strstr (look (t).logged[0].text, "has not sent the 2 batches"));
    harness_end (t);
}

/* ---- lines of the log ------------------------------------------------------------------------ */

static void test_the_latest_lines_are_listed (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    for (uint32_t n = 0; n <= WM_SUMMARY_LOGGED_MAX + 1; n++) {
        const wm_summary_t s = look (t);
        assert_int_equal (s.n_logged, n < WM_SUMMARY_LOGGED_MAX ? n : WM_SUMMARY_LOGGED_MAX);
        for (uint32_t i = 0; i < s.n_logged; i++) {
            char text[20];
            snprintf (text, sizeof text, "line %u", n - 1 - i);
            assert_string_equal (s.logged[i].text, text);
        }
        wm_core_log (t->core, "line %u", n);
    }
    char text[400];
    memset (text, 'a', sizeof text);
    text[WM_SUMMARY_LOGGED_BYTES] = 0;
    wm_core_log (t->core, "%s", text);
    assert_int_equal (strlen (look (t).logged[0].text), WM_SUMMARY_LOGGED_BYTES - 1);
    assert_int_equal (strlen (t->log), WM_SUMMARY_LOGGED_BYTES);
    harness_end (t);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void test_what_is_known_of_inputs (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    static const struct {
        wm_ledger_input_state_t state;
        const char *text, *changed, *lost; /* lost: its output is gone */
        const char *shown, *why;
    } rows[] = { { WM_LEDGER_WRITTEN, "4", NULL, NULL, "written", "" },
                 { WM_LEDGER_WRITTEN, "", "touched", NULL, "changed", "touched" },
                 { WM_LEDGER_HELD, "torn", NULL, NULL, "held", "torn" },
                 { WM_LEDGER_OPEN, "", NULL, NULL, "open", "" },
                 { WM_LEDGER_WRITTEN, "9", NULL, "it is gone", "open", "it is gone" } };
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[20], name[20];
        snprintf (path, sizeof path, "/d/%u.h5", i);
        snprintf (name, sizeof name, "%u.out", i);
        wm_ledger_input_t row = { .id = i + 1,
                                  .state = rows[i].state,
                                  .path = path,
                                  .name = name,
                                  .size = 1000,
                                  .n_event = rows[i].state == WM_LEDGER_WRITTEN ? 2 : -1,
                                  .n_hit = 50,
                                  .n_held = 3,
                                  .n_batch_held = 2,
                                  .out_size = 77,
                                  .out_mtime_ns = 78,
                                  .out_digest = { 79 },
                                  .text = rows[i].text };
        assert_int_equal (wm_core_restore_input (t->core, &row), 0);
        if (rows[i].changed)
            wm_core_output_changed (t->core, i + 1, rows[i].changed);
        if (rows[i].lost)
            wm_core_compare_output (t->core, i + 1, rows[i].lost);
        wm_core_known_t known;
        assert_true (wm_core_known (t->core, i + 1, &known));
        const bool is_written = rows[i].state == WM_LEDGER_WRITTEN && !rows[i].lost;
        assert_string_equal (known.path, path);
        assert_string_equal (known.name, name);
        assert_string_equal (known.state, rows[i].shown);
        assert_string_equal (known.why, rows[i].why);
        assert_int_equal (known.is_written, is_written);
        assert_int_equal (known.n_event, is_written ? 2 : 0);
        assert_int_equal (known.n_hit, is_written ? 50 : 0);
        assert_int_equal (known.n_scored, is_written ? 47 : 0);
        assert_int_equal (known.n_held, is_written ? 3 : 0);
        assert_int_equal (known.n_empty, i == 0 ? 4 : 0);
        if (is_written) {
            assert_int_equal (known.out_size, 77);
            assert_int_equal (known.out_mtime_ns, 78);
            assert_int_equal (known.out_digest[0], 79);
        }
        assert_false (wm_core_known (t->core, i + 2, &known));
    }
    const wm_summary_t s = look (t);
    assert_int_equal (s.inputs, 5);
    assert_int_equal (s.inputs_written, 2);
    assert_int_equal (s.inputs_held, 1);
    assert_int_equal (s.inputs_open, 2);
    assert_int_equal (s.inputs_changed, 1);
    assert_int_equal (s.held_total, 6); /* the changed one, the held one, two batches each */
    assert_int_equal (s.events_written, 4);
    assert_int_equal (s.hits_empty, 4);
    assert_int_equal (s.n_open, 2);
    assert_string_equal (s.open[0].path, "/d/3.h5");
    assert_null (s.open[0].why);
    assert_string_equal (s.open[1].name, "4.out");
    assert_string_equal (s.open[1].why, "it is gone");
    static const uint32_t held[][2] = { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 0 } };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal (wm_core_held_from (t->core, held[i][0]), held[i][1]);
    harness_end (t);
}

/* Batches of the ledger: which are taken over, and as what. One of before is there already: batch 0
   of event 0, of two. */
static void test_what_is_restored (void **state)
{
    const wm_ledger_batch_state_t DONE = WM_LEDGER_RETURNED, TORN = WM_LEDGER_BATCH_HELD;
    const struct {
        wm_key_t key;
        uint32_t n_batch, n_hit, n_held;
        wm_ledger_batch_state_t state;
        unsigned returned, held; /* batches, that one included */
        uint64_t hits_done, hits_held;
        const char *reason; /* of the status' first row; NULL: it has none */
    } rows[] = {
        { { 1, 0, 1, 3 }, 2, 10, 0, DONE, 2, 0, 15, 0, NULL },
        { { 1, 1, 0, 3 }, 1, 10, 0, DONE, 2, 0, 15, 0, NULL },
        { { 1, 1, 0, 3 },
          1,
          10,
          4,
          DONE,
          2,
          0,
          11,
          4,
          "4 of its hits have no scores: their statuses give the reason" },
        { { 1, 1, 0, 3 }, 1, 10, 10, DONE, 2, 0, 5, 10, "10 of its hits have no scores: " },
        { { 1, 1, 0, 3 }, 1, 10, 11, DONE, 2, 0, 5, 10, "10 of its hits have no scores: " },
        { { 1, 1, 0, 3 }, 1, 10, 0, TORN, 1, 1, 5, 10, "why" },
        { { 1, 0, 0, 3 }, 2, 10, 0, DONE, 1, 0, 5, 0, NULL }, /* it is there */
        { { 1, 0, 1, 3 }, 3, 10, 0, DONE, 1, 0, 5, 0, NULL }, /* of another event */
        { { 1, 0, 2, 3 }, 2, 10, 0, DONE, 1, 0, 5, 0, NULL },
        { { 1, 1, 1, 3 }, 1, 10, 0, DONE, 1, 0, 5, 0, NULL },
        { { 1, 1, 0, 2 }, 1, 10, 0, DONE, 1, 0, 5, 0, NULL }, /* of a generation before */
        { { 1, 1, 0, 3 }, WM_EVENT_BATCHES_MAX, 10, 0, DONE, 2, 0, 15, 0, NULL },
        { { 1, 1, 0, 3 }, WM_EVENT_BATCHES_MAX + 1, 10, 0, DONE, 1, 0, 5, 0, NULL },
        { { 2, 1, 0, 0 }, 1, 10, 0, DONE, 1, 0, 5, 0, NULL }, /* of an input that is held */
        { { 3, 1, 0, 0 }, 1, 10, 0, DONE, 1, 0, 5, 0, NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (64 * MIB);
        const wm_ledger_input_t inputs[] = { { .id = 1,
                                               .generation = 3,
                                               .state = WM_LEDGER_OPEN,
                                               .path = "/a",
                                               .name = "a",
                                               .size = 5,
                                               .n_event = -1,
                                               .text = "" },
                                             { .id = 2,
                                               .state = WM_LEDGER_HELD,
                                               .path = "/b",
                                               .name = "b",
                                               .size = 5,
                                               .n_event = -1,
                                               .text = "torn" } };
        for (int k = 0; k < 2; k++)
            assert_int_equal (wm_core_restore_input (t->core, &inputs[k]), 0);
        wm_ledger_batch_t batch = {
            .key = { 1, 0, 0, 3 }, .state = DONE, .n_batch = 2, .n_hit = 5, .text = ""
        };
        assert_int_equal (wm_core_restore_batch (t->core, &batch, "engine/fp32"), 0);
        batch = (wm_ledger_batch_t){ .key = rows[i].key,
                                     .state = rows[i].state,
                                     .n_batch = rows[i].n_batch,
                                     .n_hit = rows[i].n_hit,
                                     .n_held = rows[i].n_held,
                                     .text = "why" };
        assert_int_equal (wm_core_restore_batch (t->core, &batch, "engine/fp32"), 0);
        const wm_summary_t s = look (t);
        assert_int_equal (s.batches_returned, rows[i].returned);
        assert_int_equal (s.batches_held, rows[i].held);
        assert_int_equal (s.hits_done, rows[i].hits_done);
        assert_int_equal (s.hits_held, rows[i].hits_held);
        assert_int_equal (s.n_held,
                          1 + (rows[i].reason != NULL)); /* the held input, then batches */
        if (rows[i].reason)
            assert_memory_equal (s.held[1].reason, rows[i].reason, strlen (rows[i].reason));
        harness_end (t);
    }
}

/* A row of the ledger that is missing keeps its number.  */
static void test_a_row_is_missing (void **state)
{
    for (uint32_t id = 1; id <= 3; id++) {
        harness_t *t = harness_new (64 * MIB);
        const wm_ledger_input_t row = { .id = id,
                                        .state = WM_LEDGER_OPEN,
                                        .path = "/a",
                                        .name = "a",
                                        .size = id == 3 ? -1 : 5,
                                        .mtime_ns = 6,
                                        .n_event = 7,
                                        .text = "" };
        assert_int_equal (wm_core_restore_input (t->core, &row), 0);
        const wm_summary_t s = look (t);
        assert_int_equal (s.inputs, id);
        assert_int_equal (s.inputs_held, id - 1);
        assert_int_equal (s.open[0].input, id);
        assert_int_equal (strlen (t->log) > 0, id > 1);
        if (id > 1) {
            assert_string_equal (s.held[0].path, "?1");
            assert_string_equal (s.held[0].reason, "its record is missing");
        }
        const input_t *input = t->core->inputs.at[id - 1];
        assert_int_equal (input->unpinned, id == 3);
        assert_int_equal (input->size, id == 3 ? 0 : 5);
        assert_int_equal (input->mtime_ns, 6);
        assert_true (input->ended);
        assert_int_equal (input->end_count, 7);
        assert_int_equal (input->n_event, 0);
        harness_end (t);
    }
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* Each counter has a name of its own, and a campaign's next broker counts on.  */
static void test_counters (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    t->pretends = 1;
    static const char *const names[] = { "fail",       "lost",         "preempt",  "duplicate",
                                         "late",       "alarm",        "again",    "sampled",
                                         "check-good", "check-differ", "dismissed" };
    enum { N = sizeof names / sizeof *names };
    uint64_t value;
    for (uint64_t i = 0; i < N; i++)
        wm_core_restore_counter (t->core, names[i], 10 + i);
    for (uint64_t i = 0; i < N; i++) {
        assert_string_equal (wm_core_counter (t->core, i, &value), names[i]);
        assert_int_equal (value, 10 + i);
    }
    assert_null (wm_core_counter (t->core, N, &value));
    t->core->totals.n_copy = 30;
    const wm_summary_t s = look (t);
    const uint64_t summary[] = { s.n_fail,       s.n_lost,         s.n_preempt,  s.n_duplicate,
                                 s.n_late,       s.n_alarm,        s.n_again,    s.n_sampled,
                                 s.n_check_good, s.n_check_differ, s.n_dismissed };
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal (summary[i], 10 + i);
    assert_int_equal (s.n_copy, 30);
    wm_tally_t tally;
    uint32_t n_worker;
    worker (t, 2, 1);
    wm_core_tally (t->core, &tally, &n_worker);
    assert_int_equal (n_worker, 1);
    static const int count_[] = { WM_COUNT_FAIL,      WM_COUNT_LOST, WM_COUNT_PREEMPT,
                                  WM_COUNT_DUPLICATE, WM_COUNT_LATE, WM_COUNT_ALARM,
                                  WM_COUNT_AGAIN };
    for (uint64_t i = 0; i < 7; i++)
        assert_int_equal (tally.count[count_[i]], 10 + i);
    assert_int_equal (tally.count[WM_COUNT_COPIES], 30);
    harness_end (t);
}

/* Bytes, times and steps of three batches, one of which is held, of which nothing is counted twice
   and no gap of the broker's.  */
static void test_tally (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), alive[] = { p, 0 };
    const wm_key_t input = claim (t, p);
    pass (t, 1000, alive);
    submit (t, p, input, 0, 2);
    pass (t, 700, alive);
    answer_needs (t, p);
    pass (t, 900, alive);
    const uint32_t w = worker (t, 2, 1);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    pass (t, 1500, alive);
    result_of (t, w, &task, 1);
    pass (t, 20, alive);
    durable (t);
    pass (t, 500, alive);
    credit (t, w, 2);
    task = must (t, w, WM_MSG_TASK)->msg;
    t->now_ms += 100000; /* the broker was stopped */
    uint8_t payload[10 * (1 + 4 * N_OUTPUT)] = { [2] = WM_HIT_POISON };
    task.type = WM_MSG_RESULT;
    say (t, w, &task, payload, sizeof payload);
    durable (t);
    wm_tally_t tally;
    uint32_t n_worker;
    wm_core_tally (t->core, &tally, &n_worker);
    static const struct {
        int count;
        uint64_t is;
    } rows[] = { { WM_COUNT_UP_MS, 4620 },     { WM_COUNT_HITS, 20 },
                 { WM_COUNT_BATCHES, 2 },      { WM_COUNT_HELD, 0 },
                 { WM_COUNT_EVENTS, 1 },       { WM_COUNT_PAYLOAD_IN, 2000 },
                 { WM_COUNT_TASK_OUT, 2000 },  { WM_COUNT_RESULT_IN, 2 * sizeof payload },
                 { WM_COUNT_WORKER_MS, 2020 }, { WM_COUNT_BUSY_MS, 1500 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal (tally.count[rows[i].count], rows[i].is);
    static const uint64_t steps[WM_STEPS][2] = {
        { 2, 1400 }, { 2, 900 + 2920 }, { 2, 1500 }, { 2, 20 }
    };
    for (int i = 0; i < WM_STEPS; i++) {
        assert_int_equal (tally.step[i].n, steps[i][0]);
        assert_int_equal (tally.step[i].sum_ms, steps[i][1]);
    }
    const wm_summary_t s = look (t);
    assert_memory_equal (s.step, tally.step, sizeof s.step);
    assert_int_equal (s.payload_in_bytes, 2000);
    assert_int_equal (s.task_out_bytes, 2000);
    assert_int_equal (s.result_in_bytes, 2 * sizeof payload);
    assert_int_equal (s.hits_done, 19);
    assert_int_equal (s.hits_held, 2); /* and the bad one of its event */
    assert_int_equal (s.hits_announced, 21);
    assert_int_equal (s.n_rows, 1);
    assert_string_equal (s.rows[0].signature, "engine/fp32");
    assert_int_equal (s.rows[0].n, 20);
    harness_end (t);
}

/* The time at a worker begins with the TASK, also where the worker's connection was cut.  */
static void test_a_cut_ends_no_step (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), alive[] = { p, 0 };
    submit (t, p, claim (t, p), 0, 1);
    uint32_t w = worker (t, 2, 1);
    answer_needs (t, p);
    const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    pass (t, 1000, alive);
    wm_core_closed (t->core, w, t->now_ms);
    pass (t, 500, alive);
    wm_hello_held_t held = { task.key, { 0 }, 10, 0 };
    memcpy (held.digest, task.digest, 16);
    w = hello (t, WM_ROLE_WORKER, 2, &held, sizeof held);
    pass (t, 250, alive);
    result_of (t, w, &task, 1);
    const wm_summary_t s = look (t);
    assert_int_equal (s.step[WM_STEP_COMPUTE].n, 1);
    assert_int_equal (s.step[WM_STEP_COMPUTE].sum_ms, 1750);
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_waits_of_workers),
        cmocka_unit_test (test_waits_of_producers),
        cmocka_unit_test (test_waits_of_the_broker),
        cmocka_unit_test (test_the_wait_of_all),
        cmocka_unit_test (test_what_is_left),
        cmocka_unit_test (test_workers_are_listed),
        cmocka_unit_test (test_more_workers_than_rows),
        cmocka_unit_test (test_jobs),
        cmocka_unit_test (test_a_late_producer),
        cmocka_unit_test (test_the_latest_lines_are_listed),
        cmocka_unit_test (test_what_is_known_of_inputs),
        cmocka_unit_test (test_what_is_restored),
        cmocka_unit_test (test_a_row_is_missing),
        cmocka_unit_test (test_counters),
        cmocka_unit_test (test_tally),
        cmocka_unit_test (test_a_cut_ends_no_step),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("broker_shown", tests, NULL, NULL);
}
