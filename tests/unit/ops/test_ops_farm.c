/* test_ops_farm.c - what a farm decides: how many jobs, when it stops, which nodes it avoids.  */
#include "ops/farm/wm_farm.h"
#include "ops/farm/wm_farm_watch.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const wm_farm_limits_t limits = {
    .min = 0, .max = 30, .batches_each = 4, .failures_max = 3, .node_max = 2, .worth_s = 60
};

/* Decides for a known queue of `batches` that needs eta_s.  */
static wm_farm_decision_t decide (int64_t batches, double eta_s, wm_farm_count_t count)
{
    const wm_farm_queue_t queue = { true, true, batches, eta_s };
    const wm_farm_failures_t none = { 0 };
    return wm_farm_decide (&queue, &count, &none, &limits);
}

static void test_scale (void **state)
{
    wm_farm_decision_t it = decide (0, -1, (wm_farm_count_t){ 0 });
    assert_int_equal (it.submit + it.submit_kept + it.retire, 0);
    it = decide (1, -1, (wm_farm_count_t){ 0 });
    assert_int_equal (it.submit, 1);
    it = decide (9, -1, (wm_farm_count_t){ .pending = 1 });
    assert_int_equal (it.submit, 2);
    it = decide (1000000, -1, (wm_farm_count_t){ .pending = 2, .running = 5 });
    assert_int_equal (it.submit, 23);
    it = decide (1000000, 9e9, (wm_farm_count_t){ .pending = 2, .running = 28, .connected = 28 });
    assert_int_equal (it.submit, 0);
    assert_int_equal (it.retire, 0);
    assert_int_equal (decide (INT64_MAX, -1, (wm_farm_count_t){ 0 }).submit, 30);
}

static void test_end (void **state)
{
    /* Only pending jobs are removed: running ones leave when they are idle.  */
    wm_farm_decision_t it = decide (0, 0, (wm_farm_count_t){ .pending = 3, .running = 5 });
    assert_int_equal (it.wanted, 0);
    assert_int_equal (it.retire, 3);
    it = decide (8, -1, (wm_farm_count_t){ .pending = 3, .running = 1 });
    assert_int_equal (it.retire, 2);
    it = decide (40, 59, (wm_farm_count_t){ .running = 1, .connected = 1 });
    assert_int_equal (it.submit, 0); /* done before a new job would have begun */
    it = decide (40, 61, (wm_farm_count_t){ .running = 1, .connected = 1 });
    assert_int_equal (it.submit, 9);
    it = decide (40, 59, (wm_farm_count_t){ .running = 1 });
    assert_int_equal (it.submit, 9); /* nobody of ours works on it */
}

static void test_least (void **state)
{
    wm_farm_limits_t least = limits;
    least.min = 2;
    const wm_farm_failures_t none = { 0 };
    wm_farm_queue_t queue = { true, true, 0, 0 };
    wm_farm_count_t count = { 0 };
    wm_farm_decision_t it = wm_farm_decide (&queue, &count, &none, &least);
    assert_int_equal (it.submit_kept, 2);
    assert_int_equal (it.submit, 0);
    queue.batches = 20;
    count.running = 1;
    it = wm_farm_decide (&queue, &count, &none, &least);
    assert_int_equal (it.submit_kept, 1);
    assert_int_equal (it.submit, 3);
    queue.batches = 0;
    count = (wm_farm_count_t){ .pending = 4 };
    assert_int_equal (wm_farm_decide (&queue, &count, &none, &least).retire, 2);
    queue.takes_work = false; /* a paused campaign would send them away */
    count = (wm_farm_count_t){ 0 };
    it = wm_farm_decide (&queue, &count, &none, &least);
    assert_int_equal (it.submit + it.submit_kept, 0);
}

static void test_unknown (void **state)
{
    const wm_farm_failures_t none = { 0 };
    const wm_farm_queue_t queue = { .is_known = false, .takes_work = true, .batches = 100 };
    const wm_farm_count_t count = { .pending = 2, .running = 1 };
    const wm_farm_decision_t it = wm_farm_decide (&queue, &count, &none, &limits);
    assert_int_equal (it.submit + it.submit_kept + it.retire, 0);
    assert_int_equal (it.wanted, 3);
}

/* Whether the farm stops now.  */
static bool stops (const wm_farm_failures_t *failures)
{
    const wm_farm_queue_t queue = { true, true, 100, -1 };
    const wm_farm_count_t count = { 0 };
    const wm_farm_decision_t it = wm_farm_decide (&queue, &count, failures, &limits);
    assert_true (!it.stop || it.submit + it.submit_kept + it.retire == 0);
    return it.stop;
}

static void test_failures (void **state)
{
    wm_farm_failures_t *self = calloc (1, sizeof *self);
    assert_non_null (self);
    for (int code = 0; code < 130; code++)
        assert_int_equal (wm_exit_is_final (code), code == 2 || code == 5 || code == 7);
    /* a refused key is every job's failure, and no node's */
    for (int i = 0; i < 3; i++) {
        assert_false (stops (self));
        assert_false (wm_farm_failed (self, &limits, "n1", WM_EXIT_REFUSED));
    }
    assert_true (stops (self));
    wm_farm_connected (self);
    assert_false (stops (self));
    assert_int_equal (self->n_node, 0);
    /* one bad node is avoided and stops nothing, another one's failure does */
    assert_false (wm_farm_failed (self, &limits, "n1", 1));
    assert_true (wm_farm_failed (self, &limits, "n1", 1));
    for (int i = 0; i < 5; i++)
        assert_false (wm_farm_failed (self, &limits, "n1", 1));
    assert_false (stops (self));
    assert_false (wm_farm_failed (self, &limits, "n2", WM_EXIT_UNREACHABLE));
    assert_true (stops (self));
    wm_farm_connected (self);
    static const char *const odd[] = { "n1,n3", "n\"3", "n3|*", "n 3" };
    for (int i = 0; i < 8; i++) /* no names of nodes: they would spoil each submission */
        assert_false (wm_farm_blamed (self, &limits, odd[i / 2]));
    assert_true (wm_farm_blamed (self, &limits, "n2"));
    assert_false (stops (self)); /* it had connected */
    char text[64];
    const wm_farm_t farm = { .failures = self };
    assert_int_equal (wm_farm_bad_nodes (&farm, text, sizeof text), 2);
    assert_string_equal (text, "n1,n2");
    free (self);
}

static void test_no_nodes (void **state)
{
    wm_farm_limits_t here = limits;
    here.node_max = 0;
    wm_farm_failures_t *self = calloc (1, sizeof *self);
    assert_non_null (self);
    for (int i = 0; i < 3; i++)
        assert_false (wm_farm_failed (self, &here, "host", 1));
    assert_true (stops (self));
    memset (self, 0, sizeof *self);
    for (int i = 0; i < 3; i++)
        assert_false (wm_farm_failed (self, &limits, "", -1)); /* nobody knows where it was */
    assert_true (stops (self));
    char name[16];
    for (int i = 0; i < 2 * WM_FARM_NODES_MAX; i++) {
        snprintf (name, sizeof name, "m%d", i);
        wm_farm_failed (self, &limits, name, 1);
    }
    assert_int_equal (self->n_node, WM_FARM_NODES_MAX);
    free (self);
}

/* The broker lists 100 workers at most; "jobs" names all that are connected.  */
static void test_many_connected (void **state)
{
    enum { N = 250 };
    const wm_farm_t farm = { .folder = "/proc/nowhere" };
    wm_farm_watch_t self;
    wm_farm_jobs_t now = { 0 };
    char id[16];
    json_t *status = json_pack ("{s:[], s:[]}", "workers", "jobs");
    wm_farm_watch_init (&self, &farm, &limits);
    for (int i = 0; i < N; i++) {
        snprintf (id, sizeof id, "7_%d", i);
        wm_farm_jobs_add (&now, id)->is_running = i != 3;
        if (i % 50)
            json_array_append_new (json_object_get (status, "jobs"), json_string (id));
    }
    json_array_append_new (json_object_get (status, "jobs"), json_string ("8_1")); /* not ours */
    json_array_append_new (json_object_get (status, "jobs"), json_integer (3));
    wm_farm_watch_jobs (&self, &now);
    self.failures.in_a_row = 2;
    wm_farm_watch_workers (&self, status);
    const wm_farm_count_t count = wm_farm_watch_count (&self);
    assert_int_equal (count.running, N - 1);
    assert_int_equal (count.pending, 1);
    assert_int_equal (count.connected, N - N / 50 - 1);
    assert_int_equal (self.failures.in_a_row, 0);
    json_decref (status);
    wm_farm_watch_free (&self);
}

static void put (const char *folder, const char *name, const char *text)
{
    char path[300];
    snprintf (path, sizeof path, "%.200s/%.60s", folder, name);
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (text, file);
    assert_int_equal (fclose (file), 0);
}

/* A job's --state-file tells whether it had connected, and no text of its log does.  */
static void test_ends (void **state)
{
    static const char *const names[] = {
        "log/7_2.log", "log/7_3.json", "log/7_4.json", "log/7_5.json", "bad-nodes", "log", "end", ""
    };
    static wm_farm_t farm;
    static wm_farm_watch_t self;
    char path[300], *folder = farm.folder;
    wm_farm_jobs_t none = { 0 };
    strcpy (folder, "/tmp/test_ops_farm_XXXXXX");
    assert_non_null (mkdtemp (folder));
    for (int i = 5; i < 7; i++) {
        snprintf (path, sizeof path, "%.200s/%.60s", folder, names[i]);
        assert_int_equal (mkdir (path, 0700), 0);
    }
    wm_farm_watch_init (&self, &farm, &limits);
    put (folder, "log/7_2.log", "wiremill-worker: session with tcp://h:1, epoch 1\n");
    put (folder, "log/7_4.json", "{\"connected\": tr");
    put (folder, "log/7_5.json", "{\"connected\": \"true\"}");
    for (int i = 2; i < 6; i++) {
        if (i == 3)
            continue;
        snprintf (path, sizeof path, "end/7_%d", i);
        put (folder, path, "6 n2\n");
        wm_farm_watch_jobs (&self, &none);
        assert_int_equal (self.failed, i == 2 ? 1 : i - 2);
    }
    assert_int_equal (self.code, 6);
    assert_int_equal (self.failures.in_a_row, 2); /* one node's do not count further */
    put (folder, "log/7_3.json", "{\"schema\": \"wiremill-worker-1\", \"connected\": true}");
    put (folder, "end/7_3", "6 n3\n");
    wm_farm_watch_jobs (&self, &none);
    assert_int_equal (self.failed, 3);
    assert_int_equal (self.failures.in_a_row, 0);
    assert_int_equal (self.failures.n_node, 2); /* it failed after that */
    wm_farm_watch_free (&self);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf (path, sizeof path, "%.200s/%.60s", folder, names[i]);
        assert_int_equal (remove (path), 0);
    }
}

/* A worker that the broker sends away for its failures is its node's; whatever else the reason is,
   nobody is to blame.  */
static void test_sent_away (void **state)
{
    static const wm_farm_t farm = { .folder = "/proc/nowhere" };
    static wm_farm_watch_t self;
    static const char *const why[] = { "drained by host:9", "the campaign is draining",
                                       "6 of its last 10 batches failed" };
    wm_farm_jobs_t now = { 0 };
    json_t *status = json_pack ("{s:[]}", "workers");
    char id[8], label[16];
    wm_farm_watch_init (&self, &farm, &limits);
    for (int i = 0; i < 3; i++) {
        snprintf (id, sizeof id, "7_%d", i);
        snprintf (label, sizeof label, "n:1/7_%d", i);
        wm_farm_job_t *job = wm_farm_jobs_add (&now, id);
        job->is_running = true;
        strcpy (job->node, "n");
        json_array_append_new (json_object_get (status, "workers"),
                               json_pack ("{s:s, s:s, s:s, s:b}", "label", label, "state",
                                          "draining", "why", why[i], "failed", i == 2));
    }
    wm_farm_watch_jobs (&self, &now);
    for (int twice = 0; twice < 2; twice++)
        wm_farm_watch_workers (&self, status);
    assert_int_equal (self.failures.n_node, 1);
    assert_int_equal (self.failures.node[0].n, 1);
    assert_int_equal (wm_farm_watch_count (&self).connected, 3);
    json_decref (status);
    wm_farm_watch_free (&self);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_scale),          cmocka_unit_test (test_end),
        cmocka_unit_test (test_least),          cmocka_unit_test (test_unknown),
        cmocka_unit_test (test_failures),       cmocka_unit_test (test_no_nodes),
        cmocka_unit_test (test_many_connected), cmocka_unit_test (test_ends),
        cmocka_unit_test (test_sent_away),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
