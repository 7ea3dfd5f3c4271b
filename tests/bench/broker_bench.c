/* broker_bench.c - how many batches a second a broker commits; run by tests/bench/bench.py.

   Starts a real broker on a fresh campaign; one producer and some workers, who compute nothing, run
   as threads of this process. Every batch is asked for, sent, handed out, returned, journalled with
   fdatasync and acknowledged. The time of an acknowledgement is from a worker's RESULT to its
   RESULT_ACK. The cost of idle connections is measured as the broker's CPU time a batch, because
   the clients in this process take the same cores. Any fault ends the process: nothing is measured
   then.  */
#include "broker/campaign/wm_campaign.h"
#include "schema/base/wm_init.h"
#include "schema/base/wm_process.h"
#include "schema/option/wm_option.h"
#include "schema/session/wm_client.h"
#include "schema/session/wm_endpoint.h"
#include "schema/session/wm_keys.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define EVENT_BATCHES 64
#define WORKERS_MAX 16
#define OUTPUTS 4
#define EVENTS_A_FILE 1000
#define CREDIT 32
#define CLAIMS_A_PRODUCER 250 /* WM_OPEN_EVENTS_MAX events of one may be open */
#define STATUS_TIMES 21
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define UNDER_WAY 256
#define GIVE_UP_MS 5000

/* ---- a storm of handshakes ------------------------------------------------------------------- */

/* A process that asks a broker with keys for one handshake after another, by a key that it does not
   know. Each handshake is a socket of its own, which is closed when the broker has refused it; so
   many are under way at most, that a broker which is slow to answer gets fewer.  */
typedef struct {
    pid_t pid;
    uint64_t *n_refused; /* shared: handshakes that the broker has refused so far */
} wm_storm_t;

typedef struct {
    void *socket, *monitor;
    int64_t since_ms;
} attempt_t;

typedef struct {
    void *context;
    char address[WM_ENDPOINT_PLACES_MAX][WM_ADDRESS_BYTES];
    uint8_t server[32], public_key[32], private_key[32];
    attempt_t attempt[UNDER_WAY];
    unsigned long n_begun;
} storm_t;

static void attempt_begin (storm_t *self, attempt_t *attempt)
{
    const int zero = 0, never = 1000000000;
    char name[48];
    snprintf (name, sizeof name, "inproc://%lu", self->n_begun++);
    attempt->since_ms = wm_now_ms ();
    attempt->socket = zmq_socket (self->context, ZMQ_DEALER);
    attempt->monitor = zmq_socket (self->context, ZMQ_PAIR);
    if (!attempt->socket || !attempt->monitor)
        return;
    zmq_setsockopt (attempt->socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt (attempt->monitor, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt (attempt->socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    zmq_setsockopt (attempt->socket, ZMQ_CURVE_SERVERKEY, self->server, 32);
    zmq_setsockopt (attempt->socket, ZMQ_CURVE_PUBLICKEY, self->public_key, 32);
    zmq_setsockopt (attempt->socket, ZMQ_CURVE_SECRETKEY, self->private_key, 32);
    zmq_socket_monitor (attempt->socket, name, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
    zmq_connect (attempt->monitor, name);
    zmq_connect (attempt->socket, self->address[0]);
}

static void attempt_end (attempt_t *attempt)
{
    if (attempt->socket) {
        zmq_socket_monitor (attempt->socket, NULL, 0);
        zmq_close (attempt->socket);
    }
    if (attempt->monitor)
        zmq_close (attempt->monitor);
    *attempt = (attempt_t){ 0 };
}

/* Returns how many attempts are under way.  */
static int look (storm_t *self, uint64_t *n_refused)
{
    uint8_t event[256];
    int n = 0;
    for (int i = 0; i < UNDER_WAY; i++) {
        attempt_t *attempt = &self->attempt[i];
        if (!attempt->socket)
            continue;
        const bool is_refused = zmq_recv (attempt->monitor, event, sizeof event, ZMQ_DONTWAIT) == 6;
        __atomic_fetch_add (n_refused, is_refused, __ATOMIC_RELAXED);
        if (is_refused || wm_now_ms () - attempt->since_ms > GIVE_UP_MS)
            attempt_end (attempt);
        else
            n++;
    }
    return n;
}

static void storm (const char *endpoint, const char *campaign, unsigned handshakes_a_s,
                   uint64_t *n_refused)
{
    static storm_t self;
    wm_error_t error;
    while (wm_keys_server (campaign, self.server, NULL, &error) ||
           !wm_endpoint_resolve (endpoint, 0, self.address, &error))
        usleep (10000);
    crypto_box_keypair (self.public_key, self.private_key);
    self.context = zmq_ctx_new ();
    zmq_ctx_set (self.context, ZMQ_MAX_SOCKETS, 8192);
    for (const int64_t start = wm_now_ms ();;) {
        const int64_t due = (wm_now_ms () - start) * handshakes_a_s / 1000;
        int n = look (&self, n_refused);
        for (int i = 0; i < UNDER_WAY && n < UNDER_WAY && (int64_t) self.n_begun < due; i++)
            if (!self.attempt[i].socket) {
                attempt_begin (&self, &self.attempt[i]);
                n++;
            }
        usleep (1000);
    }
}

/* Starts the process at the lowest priority; it begins when the broker of `endpoint` (as a client
   has it) serves, whose keys are in the folder `campaign`. pid -1: it cannot be started.  */
static wm_storm_t wm_storm_start (const char *endpoint, const char *campaign,
                                  unsigned handshakes_a_s)
{
    wm_storm_t self = { .pid = -1 };
    const pid_t parent = getpid ();
    self.n_refused = mmap (NULL, sizeof *self.n_refused, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (self.n_refused != MAP_FAILED)
        self.pid = fork ();
    if (self.pid)
        return self;
    wm_process_name ("wm-storm");
    if (!wm_process_follow (parent, SIGKILL))
        _exit (WM_EXIT_AGAIN);
    setpriority (PRIO_PROCESS, 0, 19);
    storm (endpoint, campaign, handshakes_a_s, self.n_refused);
    _exit (WM_EXIT_FAILURE);
}

static uint64_t wm_storm_refused (const wm_storm_t *self)
{
    return __atomic_load_n (self->n_refused, __ATOMIC_RELAXED);
}

static void wm_storm_end (wm_storm_t *self)
{
    kill (self->pid, SIGKILL);
    waitpid (self->pid, NULL, 0);
    munmap (self->n_refused, sizeof *self->n_refused);
}

/* ---- what is measured ------------------------------------------------------------------------ */

typedef struct {
    const char *folder;
    char endpoint[PATH_MAX + 32], listen[PATH_MAX + 8];
    bool tcp, keys;
    unsigned storm; /* handshakes a second */
    uint64_t batches;
    size_t task_bytes;
    uint32_t hits;
    int workers, idle;
    bool resume, json;
    FILE *log;      /* of the broker: printed where something fails */
    double seconds; /* announces no more after it; 0: all batches */
    uint32_t finished, returned, announced;
} setup_t;

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "batches", .value = "N", .fallback = "20000", .least = EVENT_BATCHES, .most = 1L << 40,
     .task = "batches a second", .help = "most batches"},
    {.name = "seconds", .value = "S", .fallback = "0", .real_most = 86400,
     .help = "announce batches for so many seconds only; 0: until all are announced"},
    {.name = "task", .value = "BYTES", .fallback = "102400", .least = 1, .most = 1L << 32,
     .help = "size of a task"},
    {.name = "hits", .value = "N", .fallback = "960", .least = 1, .most = UINT32_MAX,
     .help = "hits of a batch: 17 bytes of result each"},
    {.name = "workers", .value = "N", .fallback = "2", .least = 1, .most = WORKERS_MAX,
     .help = "workers that answer at once"},
    {.name = "idle", .value = "N", .fallback = "0", .least = 0, .most = 8000,
     .help = "more workers that are connected, send heartbeats and take no task"},
    {.name = "tcp", .help = "over TCP on loopback, in place of sockets of files"},
    {.name = "keys", .help = "over TCP, with keys and encryption (CURVE)"},
    {.name = "storm", .value = "N", .fallback = "0", .least = 0, .most = 100000,
     .help = "with --keys: so many handshakes a second by an unknown key, by a process of the "
             "lowest priority"},
    {.name = "resume", .help = "then kill the broker, and start it again on the returned batches"},
    {.name = "finished", .value = "N", .fallback = "0", .least = 0, .most = 100000000,
     .task = "instead: seconds of a start, with and without the ledger",
     .help = "written inputs of 1,000 events in the campaign"},
    {.name = "returned", .value = "N", .fallback = "0", .least = 0, .most = 1000000000,
     .help = "returned batches in inputs that are open"},
    {.name = "announced", .value = "N", .fallback = "0", .least = 0, .most = 200000,
     .task = "instead: a large campaign before anything is scored",
     .help = "inputs of one event and one batch, claimed and announced by N / 250 producers"},
    {.name = "json", .task = "output",
     .help = "one JSON object on one line, as tests/bench/bench.py reads it"},
    {.name = NULL},
};
static const wm_verb_t verb = {
    .program = "broker_bench", .name = "", .rest = "FOLDER", .options = options,
    .summary = "measure a broker, on a campaign that is made in FOLDER",
};
/* clang-format on */

static setup_t setup;
static atomic_int stopping;
static double *sent_s; /* (batches) when its RESULT was sent */
static float *waited;  /* (batches) seconds until it was acknowledged; 0: not */
static wm_pins_t pins;

static void die (const char *what, const char *why)
{
    char line[512];
    if (setup.log && fseek (setup.log, 0, SEEK_SET) == 0)
        while (fgets (line, sizeof line, setup.log))
            fputs (line, stderr);
    fprintf (stderr, "broker_bench: %s: %s\n", what, why);
    exit (1);
}

static double seconds (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* CPU time that a process has used so far.  */
static double cpu_seconds (pid_t pid)
{
    clockid_t clock;
    struct timespec used = { 0 };
    if (clock_getcpuclockid (pid, &clock) || clock_gettime (clock, &used))
        die ("the broker's CPU time", "not known: it may have ended");
    return (double) used.tv_sec + 1e-9 * (double) used.tv_nsec;
}

static wm_client_t *session (wm_role_t role, const char *label, const char *signature)
{
    wm_client_t *client = wm_client_new (setup.endpoint, role, label, signature, NULL);
    wm_client_class (client, "bench", 0, 0);
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
    size_t bytes = wm_result_bytes (setup.hits, OUTPUTS);
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
        const uint64_t at = (uint64_t) got->key.ordinal * EVENT_BATCHES + got->key.batch;
        if (got->type == WM_MSG_RESULT_ACK && at < setup.batches)
            waited[at] = (float) (seconds () - sent_s[at]);
        if (got->type != WM_MSG_TASK)
            continue;
        received++;
        msg = *got;
        msg.type = WM_MSG_RESULT;
        if (at < setup.batches)
            sent_s[at] = seconds ();
        if (wm_client_send (client, &msg, result, bytes))
            break;
    }
    wm_client_close (client, WM_REASON_DONE, "measured");
    wm_client_destroy (&client);
    free (result);
    return NULL;
}

/* Sessions that only send heartbeats, each served once a second.  */
static void *idle_run (void *argument)
{
    (void) argument;
    wm_client_t **client = calloc ((size_t) setup.idle, sizeof *client);
    assert (client);
    for (int i = 0; i < setup.idle; i++)
        client[i] = session (WM_ROLE_WORKER, "bench:idle", "bench/null/v1");
    atomic_fetch_add (&stopping, -1);
    while (!atomic_load (&stopping)) {
        for (int i = 0; i < setup.idle; i++)
            if (wm_client_wait (client[i], 0) == WM_CLIENT_CLOSED)
                die ("an idle session", wm_client_error (client[i])->text);
        usleep (1000000);
    }
    for (int i = 0; i < setup.idle; i++)
        wm_client_destroy (&client[i]);
    free (client);
    return NULL;
}

static void event_submit (wm_client_t *client, wm_key_t input, uint32_t ordinal)
{
    wm_manifest_batch_t manifest[EVENT_BATCHES];
    memset (manifest, 0, sizeof manifest);
    for (uint32_t b = 0; b < EVENT_BATCHES; b++) {
        memcpy (manifest[b].digest, &ordinal, 4);
        manifest[b].digest[4] = (uint8_t) b;
        manifest[b].n_hit = setup.hits;
        manifest[b].raw_bytes = (uint32_t) setup.task_bytes;
    }
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = input;
    msg.key.ordinal = ordinal;
    msg.event = ordinal;
    msg.n_batch = EVENT_BATCHES;
    msg.n_hit = EVENT_BATCHES * setup.hits;
    wm_client_send (client, &msg, manifest, sizeof manifest);
}

/* Claims one input that does not exist on disk (the broker does not check), and feeds it. Returns
   how many batches were done.  */
static uint64_t produce (wm_client_t *client)
{
    const double until = setup.seconds > 0 ? seconds () + setup.seconds : 1e300;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    msg.size = 1;
    strcpy (msg.name, "bench.scores.h5");
    strcpy (msg.path, "/bench.h5");
    wm_client_send (client, &msg, NULL, 0);
    uint8_t *payload = malloc (setup.task_bytes);
    assert (payload);
    for (size_t i = 0; i < setup.task_bytes; i++)
        payload[i] = (uint8_t) random ();
    uint32_t events = (uint32_t) (setup.batches / EVENT_BATCHES), sent = 0, done = 0;
    wm_key_t input = { 0 };
    while (done < events) {
        if (seconds () >= until && sent)
            events = sent;
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
            wm_client_send (client, &msg, payload, setup.task_bytes);
        } else if (got->type == WM_MSG_EVENT_DONE)
            done++;
    }
    free (payload);
    return (uint64_t) done * EVENT_BATCHES;
}

/* The broker of the build that this program is part of.  */
static const char *broker_program (char path[PATH_MAX])
{
    static const char name[] = "/bin/wiremill-broker";
    const ssize_t n = readlink ("/proc/self/exe", path, PATH_MAX - sizeof name);
    path[n > 0 ? n : 0] = 0;
    for (int i = 0; i < 2; i++) { /* BUILD/bench/broker_bench */
        char *slash = strrchr (path, '/');
        if (!slash)
            die ("/proc/self/exe", "not known");
        *slash = 0;
    }
    return strcat (path, name);
}

static pid_t broker_start (void)
{
    char pins_path[512], wmm[512];
    snprintf (pins_path, sizeof pins_path, "%s/pins", setup.folder);
    snprintf (wmm, sizeof wmm, "%s/none.wmm", setup.folder);
    char path[PATH_MAX];
    const char *const argv[] = { "wiremill-broker",
                                 "--campaign",
                                 setup.folder,
                                 "--listen",
                                 setup.listen,
                                 "--pins",
                                 pins_path,
                                 "--wmm",
                                 wmm,
                                 setup.keys ? "--keys" : NULL,
                                 NULL };
    const wm_process_t process = {
        .program = broker_program (path),
        .argv = argv,
        .err = setup.log ? fileno (setup.log) : 0,
        /* Not by --parent: this process may end before the broker reads that, and its stdout would
           stay open. */
        .death_signal = SIGTERM,
    };
    return wm_process_start (&process);
}

/* Where the broker listens, and by what clients find it.  */
static void place_make (void)
{
    static const char *const role[] = { "worker", "producer", "operator" };
    char folder[PATH_MAX], path[PATH_MAX + 16];
    wm_error_t error;
    if (!realpath (setup.folder, folder))
        die (setup.folder, strerror (errno));
    snprintf (setup.listen, sizeof setup.listen, "ipc://%s/b", setup.folder);
    snprintf (setup.endpoint, sizeof setup.endpoint, "%s", setup.listen);
    if (!setup.tcp && !setup.keys)
        return;
    strcpy (setup.listen, "tcp://127.0.0.1:0");
    snprintf (setup.endpoint, sizeof setup.endpoint, "file://%s/endpoint.json", folder);
    if (setup.keys && wm_keys_begin (folder, &error))
        die ("keys", error.text);
    for (size_t i = 0; setup.keys && i < sizeof role / sizeof *role; i++) {
        snprintf (path, sizeof path, "%s/join-%s", folder, role[i]);
        wm_join_offer (path);
    }
}

static void campaign_make (void)
{
    char path[512], text[WM_PINS_BYTES_MAX];
    pins = (wm_pins_t){ .precision = "fp32",
                        .n_output = OUTPUTS,
                        .n_value = 1,
                        .batch_hits = 4096,
                        .batch_bytes = WM_RAW_BYTES_MAX,
                        .output = "/bench",
                        .spec = "none: 0\n" };
    memset (pins.model, '0', 64);
    strcpy (pins.wmm, EMPTY_SHA256);
    mkdir (setup.folder, 0700);
    size_t bytes = wm_pins_print (&pins, text);
    snprintf (path, sizeof path, "%s/pins", setup.folder);
    FILE *file = fopen (path, "w");
    if (!file || fwrite (text, 1, bytes, file) != bytes || fclose (file))
        die (path, strerror (errno));
    snprintf (path, sizeof path, "%s/none.wmm", setup.folder);
    file = fopen (path, "w");
    if (!file || fclose (file))
        die (path, strerror (errno));
    place_make ();
}

/* Fills `setup`. Returns 0, or ends with *exit_code set.  */
static int parse (int argc, char **argv, int *exit_code)
{
    wm_args_t *args = wm_args_new (&verb, argc, argv, exit_code);
    if (!args)
        return -1;
    setup.folder = wm_args_rest (args, 0);
    setup.batches = (uint64_t) wm_args_number (args, "batches");
    setup.task_bytes = (size_t) wm_args_number (args, "task");
    setup.hits = (uint32_t) wm_args_number (args, "hits");
    setup.workers = (int) wm_args_number (args, "workers");
    setup.idle = (int) wm_args_number (args, "idle");
    setup.finished = (uint32_t) wm_args_number (args, "finished");
    setup.returned = (uint32_t) wm_args_number (args, "returned");
    setup.announced = (uint32_t) wm_args_number (args, "announced");
    setup.tcp = wm_args_given (args, "tcp");
    setup.keys = wm_args_given (args, "keys");
    setup.storm = (unsigned) wm_args_number (args, "storm");
    setup.resume = wm_args_given (args, "resume");
    setup.json = wm_args_given (args, "json");
    setup.seconds = wm_args_real (args, "seconds");
    const char *wrong = !setup.folder                ? "FOLDER is missing"
                        : setup.storm && !setup.keys ? "--storm needs --keys"
                                                     : NULL;
    if (wrong)
        *exit_code = wm_args_refuse (args, "%s", wrong);
    wm_args_destroy (&args);
    return wrong ? -1 : 0;
}

/* ---- a start on much that is done ------------------------------------------------------------ */

#define COMMIT_RECORDS 8192

static double commit_s, commit_most_s; /* of all commits of so many records; of the longest */
static unsigned n_commit;

/* What was added since the last call becomes durable.  */
static void commit (wm_campaign_t *campaign)
{
    wm_error_t error;
    wm_journal_sync (campaign->journal);
    const bool is_full = wm_ledger_pending (campaign->ledger) == COMMIT_RECORDS;
    const double start = seconds ();
    if (wm_ledger_commit (campaign->ledger, &error))
        die ("ledger", error.text);
    const double took = seconds () - start;
    if (!is_full)
        return;
    n_commit++;
    commit_s += took;
    commit_most_s = took > commit_most_s ? took : commit_most_s;
}

static void record_add (wm_campaign_t *campaign, wm_record_t *record)
{
    wm_place_t place;
    wm_error_t error;
    if (wm_journal_append (campaign->journal, record, &place, &error))
        die ("journal", error.text);
    wm_ledger_apply (campaign->ledger, record, &place);
    if (wm_ledger_pending (campaign->ledger) == COMMIT_RECORDS)
        commit (campaign);
}

static void input_add (wm_campaign_t *campaign, uint32_t id)
{
    char path[64], name[64];
    wm_record_t record;
    snprintf (path, sizeof path, "/data/production/run-%06u/events.h5", id);
    snprintf (name, sizeof name, "run-%06u.scores.h5", id);
    wm_record_init (&record, WM_RECORD_INPUT);
    record.key.input = id;
    record.size = 1;
    wm_record_text (&record, path);
    record.name = name;
    record.name_bytes = (uint32_t) strlen (name);
    record_add (campaign, &record);
    wm_record_init (&record, WM_RECORD_INPUT_END);
    record.key.input = id;
    record.n_event = EVENTS_A_FILE;
    record_add (campaign, &record);
    if (id > setup.finished)
        return;
    wm_record_init (&record, WM_RECORD_FILE_WRITTEN);
    record.key.input = id;
    record.n_event = EVENTS_A_FILE;
    record.n_hit = EVENTS_A_FILE * (uint64_t) setup.hits;
    record_add (campaign, &record);
}

static void result_add (wm_campaign_t *campaign, uint32_t i)
{
    static uint8_t payload[WM_RAW_BYTES_MAX];
    const uint32_t event = i / EVENT_BATCHES;
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_RESULT);
    record.key = (wm_key_t){ setup.finished + 1 + event / EVENTS_A_FILE, event % EVENTS_A_FILE,
                             i % EVENT_BATCHES, 0 };
    memcpy (record.digest, &i, sizeof i);
    record.n_batch = EVENT_BATCHES;
    record.n_hit = setup.hits;
    record.attempt = 1;
    wm_record_text (&record, "bench/null/v1");
    record.payload = payload;
    record.payload_bytes = (uint32_t) wm_result_bytes (setup.hits, OUTPUTS);
    record_add (campaign, &record);
}

static void campaign_fill (void)
{
    static wm_campaign_t campaign;
    wm_error_t error;
    const uint32_t open = setup.returned / EVENT_BATCHES / EVENTS_A_FILE + 1;
    if (wm_campaign_lock (&campaign, setup.folder, WM_CAMPAIGN_SERVE, 0, &error) ||
        wm_campaign_open (&campaign, NULL, NULL, &error) ||
        wm_campaign_start (&campaign, &pins, &error))
        die ("campaign", error.text);
    for (uint32_t id = 1; id <= setup.finished + open; id++)
        input_add (&campaign, id);
    const double start = seconds ();
    for (uint32_t i = 0; i < setup.returned; i++)
        result_add (&campaign, i);
    commit (&campaign);
    const double returned_s = seconds () - start,
                 commit_ms = n_commit ? 1e3 * commit_s / n_commit : 0;
    const double journal_mb = 1e-6 * (double) wm_journal_bytes (campaign.journal),
                 ledger_mb = 1e-6 * (double) wm_ledger_bytes (campaign.ledger);
    if (setup.json)
        printf ("{\"finished\": %u, \"returned\": %u, \"journal_mb\": %.1f, \"ledger_mb\": %.1f, "
                "\"returned_s\": %.4f, \"commits\": %u, \"commit_records\": %u, "
                "\"commit_ms\": %.2f, \"commit_most_ms\": %.2f",
                setup.finished, setup.returned, journal_mb, ledger_mb, returned_s, n_commit,
                COMMIT_RECORDS, commit_ms, 1e3 * commit_most_s);
    else
        printf ("%u inputs of %u events written, %u batches returned in %u open ones within %.2f "
                "s: journal %.0f MB, ledger %.0f MB\n"
                "%u commits of %u records: %.1f ms each, %.1f at most\n",
                setup.finished, EVENTS_A_FILE, setup.returned, open, returned_s, journal_mb,
                ledger_mb, n_commit, COMMIT_RECORDS, commit_ms, 1e3 * commit_most_s);
    wm_campaign_close (&campaign);
}

/* Starts a broker. Returns the seconds until it serves.  */
static double start_time (pid_t *broker)
{
    const double start = seconds ();
    *broker = broker_start ();
    wm_client_t *visitor = session (WM_ROLE_OPERATOR, "bench:operator", NULL);
    const double took = seconds () - start;
    wm_client_destroy (&visitor);
    return took;
}

static void broker_kill (pid_t broker)
{
    kill (broker, SIGKILL);
    waitpid (broker, NULL, 0);
}

static void measure_starts (void)
{
    char path[512];
    pid_t broker;
    campaign_fill ();
    const double serves = start_time (&broker);
    broker_kill (broker);
    snprintf (path, sizeof path, "%s/ledger.db-wal", setup.folder);
    unlink (path);
    *strrchr (path, '-') = 0;
    unlink (path);
    printf (setup.json ? ", \"serves_s\": %.4f, \"rebuilt_serves_s\": %.4f}\n"
                       : "a start serves after %.2f s; one that makes the ledger again from the "
                         "journal after %.2f s\n",
            serves, start_time (&broker));
    kill (broker, SIGTERM);
    waitpid (broker, NULL, 0);
}

static int by_size (const void *a, const void *b)
{
    return (*(const float *) a > *(const float *) b) - (*(const float *) a < *(const float *) b);
}

/* ---- a large campaign ------------------------------------------------------------------------ */

/* Memory that a process has resident, in MB, by its line in /proc ("VmRSS", "VmHWM").  */
static double memory_mb (pid_t pid, const char *what)
{
    char path[64], line[128];
    double kb = 0;
    snprintf (path, sizeof path, "/proc/%d/status", (int) pid);
    FILE *file = fopen (path, "re");
    while (file && fgets (line, sizeof line, file))
        if (strncmp (line, what, strlen (what)) == 0)
            kb = strtod (line + strlen (what) + 1, NULL);
    if (file)
        fclose (file);
    return kb * 1024e-6;
}

/* Asks for the status again and again; prints what it takes an operator, and the broker's CPU.  */
static void measure_status (pid_t broker, const char *when)
{
    wm_client_t *visitor = session (WM_ROLE_OPERATOR, "bench:operator", NULL);
    float took[STATUS_TIMES];
    const double used = cpu_seconds (broker);
    for (int i = 0; i < STATUS_TIMES; i++) {
        const double start = seconds ();
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_STATUS);
        wm_client_send (visitor, &msg, NULL, 0);
        wm_client_event_t event;
        while ((event = wm_client_wait (visitor, 1000)) != WM_CLIENT_MESSAGE ||
               wm_client_msg (visitor)->type != WM_MSG_STATUS_REPLY)
            if (event == WM_CLIENT_CLOSED)
                die ("status", wm_client_error (visitor)->text);
        took[i] = (float) (seconds () - start);
    }
    const double cpu_s = (cpu_seconds (broker) - used) / STATUS_TIMES;
    qsort (took, STATUS_TIMES, sizeof *took, by_size);
    const double median_ms = 1e3 * (double) took[STATUS_TIMES / 2];
    const double most_ms = 1e3 * (double) took[STATUS_TIMES - 1];
    const double mb = memory_mb (broker, "VmRSS");
    if (setup.json)
        printf (
            ", \"%s_status_ms\": %.3f, \"%s_status_most_ms\": %.3f, \"%s_status_cpu_ms\": %.3f, "
            "\"%s_memory_mb\": %.1f",
            when, median_ms, when, most_ms, when, 1e3 * cpu_s, when, mb);
    else
        printf (
            "%s: status after %.2f ms (median; at most %.2f), %.2f ms of the broker's CPU; it has "
            "%.1f MB\n",
            when, median_ms, most_ms, 1e3 * cpu_s, mb);
    wm_client_destroy (&visitor);
}

/* Sends INPUT of the inputs first to last and, to each answer, its only event.  */
static void announce (wm_client_t *client, uint32_t first, uint32_t last)
{
    wm_msg_t msg;
    for (uint32_t i = first; i < last; i++) {
        wm_msg_init (&msg, WM_MSG_INPUT);
        msg.code = 1;
        msg.size = 1000000;
        snprintf (msg.name, sizeof msg.name, "run-%06u.scores.h5", i);
        snprintf (msg.path, sizeof msg.path, "/data/production/run-%06u/events.h5", i);
        wm_client_send (client, &msg, NULL, 0);
    }
    for (uint32_t n = first; n < last;) {
        wm_client_event_t event = wm_client_wait (client, 1000);
        if (event == WM_CLIENT_CLOSED)
            die ("announcing", wm_client_error (client)->text);
        if (event != WM_CLIENT_MESSAGE || wm_client_msg (client)->type != WM_MSG_INPUT_ACK)
            continue;
        wm_manifest_batch_t batch = { .n_hit = setup.hits,
                                      .raw_bytes = (uint32_t) setup.task_bytes };
        memcpy (batch.digest, &n, sizeof n);
        wm_key_t key = wm_client_msg (client)->key;
        wm_msg_init (&msg, WM_MSG_SUBMIT);
        msg.key = key;
        msg.n_batch = 1;
        msg.n_hit = setup.hits;
        wm_client_send (client, &msg, &batch, sizeof batch);
        wm_msg_init (&msg, WM_MSG_INPUT_END);
        msg.key = key;
        msg.count = 1;
        wm_client_send (client, &msg, NULL, 0);
        n++;
    }
}

static void measure_announced (void)
{
    pid_t broker = broker_start ();
    const uint32_t n = (setup.announced + CLAIMS_A_PRODUCER - 1) / CLAIMS_A_PRODUCER;
    wm_client_t **client = calloc (n, sizeof *client);
    assert (client);
    const double start = seconds ();
    for (uint32_t p = 0; p < n; p++) {
        const uint32_t first = p * CLAIMS_A_PRODUCER, end = first + CLAIMS_A_PRODUCER;
        client[p] = session (WM_ROLE_PRODUCER, "bench:producer", NULL);
        announce (client[p], first, end < setup.announced ? end : setup.announced);
        for (uint32_t k = 0; k < p; k++) /* heartbeats */
            if (wm_client_wait (client[k], 0) == WM_CLIENT_CLOSED)
                die ("an idle producer", wm_client_error (client[k])->text);
    }
    const double took = seconds () - start;
    printf (setup.json ? "{\"announced\": %u, \"hits\": %.0f, \"announce_s\": %.3f"
                       : "%u inputs, %.3g hits announced in %.1f s\n",
            setup.announced, (double) setup.announced * setup.hits, took);
    measure_status (broker, "announced");
    broker_kill (broker);
    for (uint32_t p = 0; p < n; p++)
        wm_client_destroy (&client[p]);
    free (client);
    const double serves = start_time (&broker);
    printf (setup.json ? ", \"serves_s\": %.3f" : "killed: a start serves after %.2f s\n", serves);
    measure_status (broker, "started");
    if (setup.json)
        printf ("}\n");
    kill (broker, SIGTERM);
    waitpid (broker, NULL, 0);
}

/* ---- batches a second ------------------------------------------------------------------------ */

static void print_rates (uint64_t batches, double took, double cpu_s, double clients_s)
{
    const double result = (double) wm_result_bytes (setup.hits, OUTPUTS);
    uint64_t n = 0;
    double sum = 0;
    for (uint64_t i = 0; i < batches; i++)
        if (waited[i] > 0) {
            sum += (double) waited[i];
            waited[n++] = waited[i];
        }
    qsort (waited, n, sizeof *waited, by_size);
    if (setup.json) {
        printf ("{\"batches_s\": %.3f, \"hits\": %llu, \"seconds\": %.6f, \"hits_s\": %.1f, "
                "\"task_bytes\": %zu, \"cpu_broker_s\": %.6f, \"cpu_clients_s\": %.6f",
                (double) batches / took, (unsigned long long) (batches * setup.hits), took,
                (double) batches * setup.hits / took, setup.task_bytes, cpu_s, clients_s);
        if (n)
            printf (", \"p50_ms\": %.4f, \"p90_ms\": %.4f, \"p99_ms\": %.4f, \"commit_ms\": %.4f",
                    1e3 * (double) waited[n / 2], 1e3 * (double) waited[n * 9 / 10],
                    1e3 * (double) waited[n * 99 / 100], 1e3 * sum / (double) n);
        return; /* measure_rate ends the object */
    }
    printf (
        "%llu batches in %.2f s: %.0f batches/s committed and acknowledged, "
        "tasks %.0f MB/s, results %.0f MB/s; a batch takes %.2f us of the broker's CPU, %.2f of "
        "its peers'\n",
        (unsigned long long) batches, took, (double) batches / took,
        (double) batches * (double) setup.task_bytes / took / 1e6,
        (double) batches * result / took / 1e6, cpu_s / (double) batches * 1e6,
        clients_s / (double) batches * 1e6);
    if (n)
        printf ("a result is acknowledged after %.1f ms (median), %.1f ms (99 of 100), %.1f ms "
                "(longest)%s\n",
                (double) waited[n / 2] * 1e3, (double) waited[n * 99 / 100] * 1e3,
                (double) waited[n - 1] * 1e3, setup.idle ? ", with idle connections" : "");
}

/* Reconnects by itself as workers do, and stores the time of it in *argument.  */
static void *return_run (void *argument)
{
    wm_error_t error;
    wm_client_t *client = session (WM_ROLE_WORKER, "bench:returns", "bench/null/v1");
    atomic_store (&stopping, 2); /* it is connected */
    while (wm_client_wait (client, 10) != WM_CLIENT_CLOSED)
        ;
    if (wm_client_open_patiently (client, NULL, 0, 20000, &error))
        die ("worker", error.text);
    *(double *) argument = seconds ();
    wm_client_destroy (&client);
    return NULL;
}

/* Kills the broker with a worker connected, and starts it again.  */
static pid_t measure_resume (pid_t broker)
{
    pthread_t worker;
    double returned = 0;
    pthread_create (&worker, NULL, return_run, &returned);
    while (atomic_load (&stopping) != 2)
        usleep (1000);
    broker_kill (broker);
    const double start = seconds (), serves = start_time (&broker);
    pthread_join (worker, NULL);
    if (setup.json)
        printf (", \"serves_s\": %.4f, \"worker_back_s\": %.4f", serves, returned - start);
    else
        printf ("killed and started again with %llu returned batches: serves after %.2f s, its "
                "worker is back after %.2f s\n",
                (unsigned long long) setup.batches, serves, returned - start);
    return broker;
}

static void measure_rate (void)
{
    pid_t broker = broker_start ();
    wm_storm_t storm = { .pid = -1 };
    if (setup.storm)
        storm = wm_storm_start (setup.endpoint, setup.folder, setup.storm);
    wm_client_t *producer = session (WM_ROLE_PRODUCER, "bench:producer", NULL);
    pthread_t worker[WORKERS_MAX], idle;
    sent_s = calloc (setup.batches, sizeof *sent_s);
    waited = calloc (setup.batches, sizeof *waited);
    assert (sent_s && waited);
    if (setup.idle) {
        atomic_store (&stopping, 1); /* idle_run resets it when all are connected */
        pthread_create (&idle, NULL, idle_run, NULL);
        while (atomic_load (&stopping))
            wm_client_wait (producer, 10);
    }
    const double start = seconds (), used = cpu_seconds (broker), own = cpu_seconds (getpid ());
    const uint64_t refused = storm.pid > 0 ? wm_storm_refused (&storm) : 0;
    for (int i = 0; i < setup.workers; i++)
        pthread_create (&worker[i], NULL, worker_run, (void *) (intptr_t) i);
    const uint64_t batches = produce (producer);
    const double took = seconds () - start, cpu_s = cpu_seconds (broker) - used,
                 clients_s = cpu_seconds (getpid ()) - own;
    atomic_store (&stopping, 1);
    for (int i = 0; i < setup.workers; i++)
        pthread_join (worker[i], NULL);
    print_rates (batches, took, cpu_s, clients_s);
    if (storm.pid > 0) {
        const double n = (double) (wm_storm_refused (&storm) - refused) / took;
        printf (setup.json ? ", \"handshakes_s\": %.1f" : "beside %.0f refused handshakes/s\n", n);
        wm_storm_end (&storm);
    }
    if (setup.idle)
        pthread_join (idle, NULL);
    wm_client_destroy (&producer);
    if (setup.resume)
        broker = measure_resume (broker);
    if (setup.json)
        printf ("}\n");
    kill (broker, SIGTERM);
    waitpid (broker, NULL, 0);
    free (sent_s);
    free (waited);
}

int main (int argc, char **argv)
{
    int code;
    struct rlimit files = { 0 };
    wm_init_begin ();
    zsys_handler_set (NULL);
    zsys_set_max_sockets (8192);
    if (getrlimit (RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
        setrlimit (RLIMIT_NOFILE, &files);
    }
    if (parse (argc, argv, &code))
        return code;
    campaign_make ();
    setup.log = tmpfile ();
    if (setup.announced)
        measure_announced ();
    else if (setup.finished || setup.returned)
        measure_starts ();
    else
        measure_rate ();
    return 0;
}
