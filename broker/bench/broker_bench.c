/* broker_bench.c - how many batches a second the broker commits, with workers that do no work.

   Starts a real broker on a fresh campaign, one producer and some workers as threads of this
   process; every batch is asked for, sent, handed out, returned, journalled with fdatasync and
   acknowledged. With --resume the broker is then killed with SIGKILL and started again on what it
   had returned.

   usage: broker_bench BROKER FOLDER [--batches N] [--task BYTES] [--hits N] [--workers N]
   [--resume] Prints batches/s, MB/s in and out, and with --resume the seconds until the broker
   serves again.  */
#include "broker/wm_client.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENT_BATCHES 64
#define WORKERS_MAX 16
#define OUTPUTS 4
#define CREDIT 32
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

typedef struct {
    const char *broker, *folder;
    char endpoint[256];
    uint64_t batches;
    size_t task_bytes;
    uint32_t hits;
    int workers, resume;
} options_t;

static options_t options = { .batches = 20000, .task_bytes = 100 << 10, .hits = 960, .workers = 2 };
static atomic_uint_fast64_t acknowledged;
static atomic_int stopping;

static void die (const char *what, const char *why)
{
    fprintf (stderr, "broker_bench: %s: %s\n", what, why);
    exit (1);
}

static double seconds (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static wm_client_t *session (wm_role_t role, const char *label, const char *signature)
{
    wm_client_t *client = wm_client_new (options.endpoint, role, label, signature, NULL);
    wm_error_t error;
    if (wm_client_open_patiently (client, NULL, 0, 20000, &error))
        die (label, error.text);
    return client;
}

/* Answers every TASK with the same result at once.  */
static void *worker_run (void *argument)
{
    char label[32];
    snprintf (label, sizeof label, "bench:%d", (int) (intptr_t) argument);
    wm_client_t *client = session (WM_ROLE_WORKER, label, "bench/null/v1");
    size_t bytes = wm_result_bytes (options.hits, OUTPUTS);
    uint8_t *result = calloc (1, bytes);
    assert (result);
    wm_msg_t msg;
    uint64_t received = 0;
    for (int64_t granted = 0; !atomic_load (&stopping);) {
        if ((int64_t) received + CREDIT / 2 >= granted) {
            wm_msg_init (&msg, WM_MSG_CREDIT);
            msg.count = received + CREDIT;
            granted = (int64_t) msg.count;
            wm_client_send (client, &msg, NULL, 0);
        }
        wm_client_event_t event = wm_client_wait (client, 100);
        if (event == WM_CLIENT_CLOSED)
            break;
        if (event != WM_CLIENT_MESSAGE)
            continue;
        const wm_msg_t *got = wm_client_msg (client);
        if (got->type == WM_MSG_RESULT_ACK)
            atomic_fetch_add (&acknowledged, 1);
        if (got->type != WM_MSG_TASK)
            continue;
        received++;
        msg = *got;
        msg.type = WM_MSG_RESULT;
        if (wm_client_send (client, &msg, result, bytes))
            break;
    }
    wm_client_close (client, WM_REASON_DONE, "measured");
    wm_client_destroy (&client);
    free (result);
    return NULL;
}

static void event_submit (wm_client_t *client, wm_key_t input, uint32_t ordinal)
{
    wm_manifest_batch_t manifest[EVENT_BATCHES];
    memset (manifest, 0, sizeof manifest);
    for (uint32_t b = 0; b < EVENT_BATCHES; b++) {
        memcpy (manifest[b].digest, &ordinal, 4);
        manifest[b].digest[4] = (uint8_t) b;
        manifest[b].n_hit = options.hits;
        manifest[b].raw_bytes = (uint32_t) options.task_bytes;
    }
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = input;
    msg.key.ordinal = ordinal;
    msg.event = ordinal;
    msg.n_batch = EVENT_BATCHES;
    msg.n_hit = EVENT_BATCHES * options.hits;
    wm_client_send (client, &msg, manifest, sizeof manifest);
}

/* Claims one input that does not exist on disk (the broker does not look), and feeds it.  */
static void produce (wm_client_t *client)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    msg.size = 1;
    strcpy (msg.name, "bench.scores.h5");
    strcpy (msg.path, "/bench.h5");
    wm_client_send (client, &msg, NULL, 0);
    uint8_t *payload = malloc (options.task_bytes);
    assert (payload);
    for (size_t i = 0; i < options.task_bytes; i++)
        payload[i] = (uint8_t) random ();
    uint32_t events = (uint32_t) (options.batches / EVENT_BATCHES), sent = 0, done = 0;
    wm_key_t input = { 0 };
    while (done < events) {
        while (input.input && sent < events && sent - done < 16)
            event_submit (client, input, sent++);
        wm_client_event_t event = wm_client_wait (client, 1000);
        if (event == WM_CLIENT_CLOSED)
            die ("producer", wm_client_error (client)->text);
        if (event != WM_CLIENT_MESSAGE)
            continue;
        const wm_msg_t *got = wm_client_msg (client);
        if (got->type == WM_MSG_INPUT_ACK) {
            if (got->code != WM_INPUT_CLAIMED)
                die ("claim", got->text);
            input = got->key;
        } else if (got->type == WM_MSG_NEED) {
            msg = *got;
            msg.type = WM_MSG_BATCH;
            wm_client_send (client, &msg, payload, options.task_bytes);
        } else if (got->type == WM_MSG_EVENT_DONE)
            done++;
    }
    free (payload);
}

static pid_t broker_start (void)
{
    char pins[512], wmm[512];
    snprintf (pins, sizeof pins, "%s/pins", options.folder);
    snprintf (wmm, sizeof wmm, "%s/none.wmm", options.folder);
    pid_t pid = fork ();
    if (pid == 0) {
        execl (options.broker, "wiremill-broker", "--campaign", options.folder, "--listen",
               options.endpoint, "--pins", pins, "--wmm", wmm, (char *) NULL);
        _exit (127);
    }
    return pid;
}

static void campaign_make (void)
{
    char path[512], text[WM_PINS_BYTES_MAX];
    wm_pins_t pins = { .precision = "fp32",
                       .n_output = OUTPUTS,
                       .n_value = 1,
                       .batch_hits = 4096,
                       .batch_bytes = WM_RAW_BYTES_MAX,
                       .output = "/bench",
                       .spec = "none: 0\n" };
    memset (pins.model, '0', 64);
    strcpy (pins.wmm, EMPTY_SHA256);
    mkdir (options.folder, 0700);
    size_t bytes = wm_pins_print (&pins, text);
    snprintf (path, sizeof path, "%s/pins", options.folder);
    FILE *file = fopen (path, "w");
    if (!file || fwrite (text, 1, bytes, file) != bytes || fclose (file))
        die (path, strerror (errno));
    snprintf (path, sizeof path, "%s/none.wmm", options.folder);
    file = fopen (path, "w");
    if (!file || fclose (file))
        die (path, strerror (errno));
    snprintf (options.endpoint, sizeof options.endpoint, "ipc://%s/b", options.folder);
}

static void parse (int argc, char **argv)
{
    if (argc < 3)
        die ("usage", "broker_bench BROKER FOLDER [options]");
    options.broker = argv[1];
    options.folder = argv[2];
    for (int i = 3; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "0";
        if (!strcmp (argv[i], "--resume")) {
            options.resume = 1;
            continue;
        }
        if (!strcmp (argv[i], "--batches"))
            options.batches = strtoull (next, NULL, 10);
        else if (!strcmp (argv[i], "--task"))
            options.task_bytes = strtoull (next, NULL, 10);
        else if (!strcmp (argv[i], "--hits"))
            options.hits = (uint32_t) strtoul (next, NULL, 10);
        else if (!strcmp (argv[i], "--workers"))
            options.workers = atoi (next);
        else
            die (argv[i], "unknown option");
        i++;
    }
    if (options.workers < 1 || options.workers > WORKERS_MAX || !options.task_bytes ||
        !options.hits)
        die ("options", "out of range");
}

int main (int argc, char **argv)
{
    zsys_handler_set (NULL);
    parse (argc, argv);
    campaign_make ();
    pid_t broker = broker_start ();
    wm_client_t *producer = session (WM_ROLE_PRODUCER, "bench:producer", NULL);
    pthread_t worker[WORKERS_MAX];
    double start = seconds ();
    for (int i = 0; i < options.workers; i++)
        pthread_create (&worker[i], NULL, worker_run, (void *) (intptr_t) i);
    produce (producer);
    double took = seconds () - start;
    uint64_t batches = options.batches / EVENT_BATCHES * EVENT_BATCHES;
    double result = (double) wm_result_bytes (options.hits, OUTPUTS);
    printf ("%llu batches in %.2f s: %.0f batches/s committed and acknowledged, "
            "tasks %.0f MB/s, results %.0f MB/s\n",
            (unsigned long long) batches, took, (double) batches / took,
            (double) batches * (double) options.task_bytes / took / 1e6,
            (double) batches * result / took / 1e6);
    atomic_store (&stopping, 1);
    for (int i = 0; i < options.workers; i++)
        pthread_join (worker[i], NULL);
    wm_client_destroy (&producer);
    if (options.resume) {
        kill (broker, SIGKILL);
        waitpid (broker, NULL, 0);
        start = seconds ();
        broker = broker_start ();
        wm_client_t *visitor = session (WM_ROLE_OPERATOR, "bench:operator", NULL);
        printf ("killed and started again: serves after %.2f s with %llu returned batches\n",
                seconds () - start, (unsigned long long) batches);
        wm_client_destroy (&visitor);
    }
    kill (broker, SIGTERM);
    waitpid (broker, NULL, 0);
    return 0;
}
