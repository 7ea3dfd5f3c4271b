/* test_ops_metrics.c - metrics for Prometheus: what is known, under its own and Triton's names;
   what is not known is absent; counters that do not fall; hostile names of workers.  */
#include "ops/serve/wm_metrics.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text;

/* What is served of this status (JSON), and must be freed by `done`.  */
static void serve (const char *status)
{
    json_error_t error;
    json_t *json = json_loads (status, 0, &error);
    if (!json)
        fail_msg ("%s at %d: %s", error.text, error.position, status);
    free (text);
    text = wm_metrics_text (json, "abc", 1.5);
    json_decref (json);
}

/* A sample without its campaign: name, labels, value. How often it is there.  */
static int count (const char *line)
{
    int n = 0;
    const size_t length = strlen (line);
    for (const char *at = text; (at = strstr (at, line)); at += length)
        n += (at == text || at[-1] == '\n') && at[length] == '\n';
    return n;
}

static void has (const char *line)
{
    if (count (line) != 1)
        fail_msg ("%d times, not once: %s; but:\n%s", count (line), line, text);
}

/* No sample begins so.  */
static void has_no (const char *begin)
{
    char line[128];
    snprintf (line, sizeof line, "\n%s", begin);
    if (strstr (text, line))
        fail_msg ("there is %s:\n%s", begin, text);
}

#define FAILURES(n) "wiremill_batch_failures_total{campaign=\"abc\"} " n
#define BYTES(n) "wiremill_payload_received_bytes_total{campaign=\"abc\"} " n

static void counted (const char *fail, const char *bytes)
{
    char status[200];
    snprintf (status, sizeof status,
              "{\"counters\": {\"n_fail\": %s}, \"bytes\": {\"payload_in\": %s}}", fail, bytes);
    serve (status);
}

/* A killed broker has not written its last counts to its ledger.  */
static void counters_do_not_fall (void **state)
{
    counted ("100", "5000");
    has (FAILURES ("100"));
    counted ("97", "4000"); /* started again after a kill */
    has (FAILURES ("100"));
    has (BYTES ("4000")); /* no ledger keeps these: Prometheus sees the reset */
    counted ("103", "4001");
    has (FAILURES ("103"));
    counted ("2", "4002"); /* the ledger was made again */
    has (FAILURES ("2"));
}

static void durations_are_a_histogram (void **state)
{
    serve (
        "{\"campaign\": {\"model\": \"m\"}, \"latency\": {"
        "\"queue\": {\"n\": 7, \"sum_s\": 20.5, \"buckets\": [1,2,0,0,0,0,0,0,0,0,0,0,0,0,3,1]},"
        "\"compute\": {\"n\": 6, \"sum_s\": 3.25, \"buckets\": [6,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]},"
        "\"commit\": {\"n\": 5, \"sum_s\": 0.25, \"buckets\": [5,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}"
        "}}");
#define QUEUE(part, more, value)                                                                   \
    "wiremill_batch_duration_seconds" part "{campaign=\"abc\",stage=\"queue\"" more "} " value
    has (QUEUE ("_bucket", ",le=\"0.001\"", "1"));
    has (QUEUE ("_bucket", ",le=\"0.002\"", "3"));
    has (QUEUE ("_bucket", ",le=\"16.384\"", "6"));
    has (QUEUE ("_bucket", ",le=\"+Inf\"", "7"));
    has (QUEUE ("_sum", "", "20.5"));
    has (QUEUE ("_count", "", "7"));
    has_no ("wiremill_batch_duration_seconds_count{campaign=\"abc\",stage=\"stage\"");
    has ("nv_inference_request_success{campaign=\"abc\",model=\"m\"} 5");
    has ("nv_inference_exec_count{campaign=\"abc\",model=\"m\"} 6");
    has ("nv_inference_request_duration_us{campaign=\"abc\",model=\"m\"} 24000000");
    has ("nv_inference_queue_duration_us{campaign=\"abc\",model=\"m\"} 20500000");
    has ("nv_inference_compute_infer_duration_us{campaign=\"abc\",model=\"m\"} 3250000");
}

static void scores_have_their_labels (void **state)
{
    serve ("{\"campaign\": {\"specification\": \"labels: [em, track]\\n\"}, \"scores\": ["
           "{\"hits\": 40, \"sum\": 10.5}, {\"hits\": 40, \"sum\": -3.25}]}");
    has ("wiremill_score_sum{campaign=\"abc\",score=\"em\"} 10.5");
    has ("wiremill_score_count{campaign=\"abc\",score=\"em\"} 40");
    has ("wiremill_score_sum{campaign=\"abc\",score=\"track\"} -3.25");
    serve ("{\"campaign\": {\"specification\": \"\"}, \"scores\": [{\"hits\": 4, \"sum\": 1}]}");
    has ("wiremill_score_sum{campaign=\"abc\",score=\"out_0\"} 1");
}

static void what_is_not_known_is_absent (void **state)
{
    serve ("{\"eta_s\": null, \"hits\": {\"expected\": null, \"done\": 3},"
           " \"workers\": [{\"label\": \"a:1\", \"gpu\": null, \"why\": null, \"hits_s\": 2.5}]}");
    has ("wiremill_up{campaign=\"abc\"} 1");
    has ("wiremill_hits_scored{campaign=\"abc\"} 3");
    has ("wiremill_worker_hits_per_second{campaign=\"abc\",worker=\"a:1\"} 2.5");
    has_no ("wiremill_remaining_seconds{");
    has_no ("wiremill_hits_expected{");
    has_no ("wiremill_gpu_");
    has_no ("nv_");
    free (text);
    text = wm_metrics_text (NULL, "", 0);
    assert_string_equal (text, "# HELP wiremill_up Whether the broker answers.\n"
                               "# TYPE wiremill_up gauge\nwiremill_up{campaign=\"\"} 0\n");
}

#define H200(machine, temperature)                                                                 \
    "{\"label\": \"" machine "\", \"why\": null, \"running\": 1, \"gpu\": {\"gpu\": \"H200\","     \
    " \"uuid\": \"GPU-1\", \"temperature_c\": " temperature ", \"load\": 71,"                      \
    " \"memory_mb\": 2, \"ecc_corrected\": 4, \"ecc_uncorrected\": 0, \"throttled\": \"heat\"}}"

static void a_gpu_is_told_of_once (void **state)
{
    serve ("{\"workers\": [" H200 ("a:1", "61") "," H200 (
        "a:2",
        "62") ","
              "{\"label\": \"b:1/7\", \"why\": \"it failed\", \"gpu\": {\"temperature_c\": 80}},"
              "{\"label\": \"b:1/7\", \"why\": null, \"gpu\": {\"temperature_c\": 81}}]}");
#define GPU "campaign=\"abc\",machine=\"a\",gpu=\"H200\",uuid=\"GPU-1\""
    has ("wiremill_gpu_temperature_celsius{" GPU "} 61");
    has ("wiremill_gpu_load_ratio{" GPU "} 0.71");
    has ("wiremill_gpu_memory_bytes{" GPU "} 2097152");
    has ("wiremill_gpu_ecc_errors_total{" GPU ",kind=\"corrected\"} 4");
    has ("wiremill_gpu_throttled{" GPU "} 1");
    has ("nv_gpu_utilization{campaign=\"abc\",gpu_uuid=\"GPU-1\"} 0.71");
    has_no ("wiremill_gpu_temperature_celsius{" GPU "} 62");
    has ("wiremill_worker_batches_running{campaign=\"abc\",worker=\"a:2\"} 1");
    /* A GPU without a UUID is its worker's; of two workers with one name the first counts.  */
    has (
        "wiremill_gpu_temperature_celsius{campaign=\"abc\",machine=\"b\",worker=\"b:1/7\",gpu=\"\","
        "uuid=\"\"} 80");
    has ("wiremill_worker_dismissed{campaign=\"abc\",worker=\"b:1/7\"} 1");
    has_no ("wiremill_gpu_throttled{campaign=\"abc\",machine=\"b\"");
    has_no ("nv_gpu_utilization{campaign=\"abc\",gpu_uuid=\"\"");
}

/* A peer names itself, and a signature is what it says.  */
static void names_are_escaped (void **state)
{
    serve ("{\"workers\": [{\"label\": \"a\\\"} 1\\nwiremill_up 7\\\\\", \"running\": 1}],"
           " \"rows\": {\"cuda/\\\"\": 9}}");
    has ("wiremill_worker_batches_running{campaign=\"abc\","
         "worker=\"a\\\"} 1\\nwiremill_up 7\\\\\"} 1");
    has ("wiremill_rows_scored_total{campaign=\"abc\",signature=\"cuda/\\\"\"} 9");
    has_no ("wiremill_up 7");
    has ("nv_inference_count{campaign=\"abc\",model=\"\"} 9");
    char status[4000];
    snprintf (status, sizeof status, "{\"workers\": [{\"label\": \"%.*d\", \"running\": 5}]}", 3000,
              1);
    serve (status); /* a label that is too long is left out whole */
    has ("wiremill_worker_batches_running{campaign=\"abc\"} 5");
}

static void one_state_of_each (void **state)
{
    serve ("{\"campaign\": {\"state\": \"paused\"}, \"waiting_for\": \"disk full\","
           " \"batches\": {\"queued\": 3, \"asked\": 1, \"running\": 2},"
           " \"producers\": [{\"late_s\": null}, {\"late_s\": 70.0}]}");
    has ("wiremill_campaign_state{campaign=\"abc\",state=\"paused\"} 1");
    has ("wiremill_campaign_state{campaign=\"abc\",state=\"running\"} 0");
    has ("wiremill_waiting{campaign=\"abc\",reason=\"disk full\"} 1");
    has ("wiremill_waiting{campaign=\"abc\",reason=\"no worker\"} 0");
    has ("wiremill_paused{campaign=\"abc\"} 1");
    has ("wiremill_demand_batches{campaign=\"abc\"} 0");
    has ("wiremill_producers{campaign=\"abc\"} 2");
    has ("wiremill_producers_late{campaign=\"abc\"} 1");
    serve ("{\"waiting_for\": null, \"batches\": {\"queued\": 3, \"asked\": 1, \"running\": 2}}");
    has ("wiremill_paused{campaign=\"abc\"} 0");
    has ("wiremill_demand_batches{campaign=\"abc\"} 6");
    free (text);
    text = NULL;
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (counters_do_not_fall),
        cmocka_unit_test (durations_are_a_histogram),
        cmocka_unit_test (scores_have_their_labels),
        cmocka_unit_test (what_is_not_known_is_absent),
        cmocka_unit_test (a_gpu_is_told_of_once),
        cmocka_unit_test (names_are_escaped),
        cmocka_unit_test (one_state_of_each),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
