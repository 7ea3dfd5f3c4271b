/* core_bench.c - how many batches a second wm_core alone decides, and whether a message costs the
   same whatever is in flight.

   No sockets, no disk: every message of producers and workers is given to the core, the messages
   that the core sends are answered at once, records become durable in groups of 256, and the core's
   clock advances by a millisecond every 200 results, so that ticks and heartbeats fire as they
   would at 200,000 batches/s. All events are announced before the first worker connects. A batch is
   NEED, BATCH, TASK, RESULT, RESULT_ACK and CREDIT.

   Prints a point for each number of workers in the format of `wiremill bench --json`: batches/s,
   the mean time of a message, and the time and memory that announcing and a restart on the returned
   batches take.  */
#include "broker/core/wm_core.h"
#include "schema/option/wm_option.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW 4 /* batches a worker has in hand */
#define GROUP 256
#define RESULTS_A_MS 200
#define TICK_MS 250
#define PEERS 16384

/* A message that the core sent, as far as its answer needs it.  */
typedef struct {
    uint32_t session;
    wm_msg_type_t type;
    wm_key_t key;
    uint8_t digest[16];
    uint32_t n_batch, attempt;
} sent_t;

typedef struct {
    wm_core_t *core;
    uint32_t n_event, n_batch; /* batches an event */
    int64_t now_ms, ticked_ms;
    sent_t *need; /* NEEDs not yet answered, a ring */
    size_t need_head, need_count, need_max;
    sent_t *task; /* TASKs at workers, a ring */
    size_t task_head, task_count, task_max;
    uint64_t *granted; /* by session */
    size_t n_appended;
    uint32_t offset;
    uint64_t n_done, n_message, n_returned;
} mill_t;

static int a_payload; /* every batch's */

/* Of this process: nothing here waits.  */
static double seconds (void)
{
    struct timespec now;
    clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static void *checked (void *memory)
{
    if (!memory) {
        fprintf (stderr, "core_bench: no memory\n");
        exit (1);
    }
    return memory;
}

static void push (sent_t **ring, size_t head, size_t *count, size_t *max, const sent_t *sent)
{
    if (*count == *max) {
        sent_t *grown = checked (calloc (*max ? 2 * *max : 1024, sizeof *grown));
        for (size_t i = 0; i < *count; i++)
            grown[(head + i) % (*max ? 2 * *max : 1024)] = (*ring)[(head + i) % *max];
        free (*ring);
        *ring = grown;
        *max = *max ? 2 * *max : 1024;
    }
    (*ring)[(head + (*count)++) % *max] = *sent;
}

/* ---- the core's sink ------------------------------------------------------------------------- */

static void on_send (void *context, uint32_t session, const wm_msg_t *msg,
                     const wm_payload_t *payload)
{
    (void) payload;
    mill_t *mill = context;
    if (msg->type == WM_MSG_EVENT_DONE)
        mill->n_done++;
    if (msg->type == WM_MSG_REJECT) {
        fprintf (stderr, "core_bench: refused: %s\n", msg->text);
        exit (1);
    }
    sent_t sent = { .session = session,
                    .type = msg->type,
                    .key = msg->key,
                    .n_batch = msg->n_batch,
                    .attempt = msg->attempt };
    memcpy (sent.digest, msg->digest, 16);
    if (msg->type == WM_MSG_NEED)
        push (&mill->need, mill->need_head, &mill->need_count, &mill->need_max, &sent);
    if (msg->type == WM_MSG_TASK)
        push (&mill->task, mill->task_head, &mill->task_count, &mill->task_max, &sent);
}

static void on_append (void *context, const wm_record_t *record, const wm_payload_t *body)
{
    (void) record, (void) body;
    ((mill_t *) context)->n_appended++;
}

static void on_drop (void *context, uint32_t session)
{
    (void) context, (void) session;
}

static void on_handle (void *context, void *handle)
{
    (void) context, (void) handle;
}

static void on_log (void *context, const char *text)
{
    (void) context;
    fprintf (stderr, "core_bench: %s\n", text);
}

static wm_core_t *core_new (mill_t *mill, uint64_t epoch)
{
    const wm_core_config_t config = { .pins = "pins",
                                      .pins_bytes = 4,
                                      .n_output = 1,
                                      .epoch = epoch,
                                      .budget_bytes = 16ull << 30,
                                      .peers_max = PEERS,
                                      .times = *wm_times (),
                                      .now_ms = mill->now_ms };
    const wm_core_sink_t sink = { .context = mill,
                                  .send = on_send,
                                  .append = on_append,
                                  .drop = on_drop,
                                  .hold = on_handle,
                                  .release = on_handle,
                                  .log = on_log };
    return checked (wm_core_new (&config, &sink));
}

/* ---- its peers ------------------------------------------------------------------------------- */

static void give (mill_t *mill, uint32_t session, const wm_msg_t *msg, const void *data,
                  size_t bytes)
{
    const wm_payload_t payload = { &a_payload, data, bytes };
    wm_core_message (mill->core, session, msg, data ? &payload : NULL, mill->now_ms);
    mill->n_message++;
}

static void durable (mill_t *mill)
{
    while (mill->n_appended) {
        const wm_place_t place = { 1 << 24, mill->offset += 8, 100 };
        mill->n_appended--;
        wm_core_durable (mill->core, &place, mill->now_ms);
    }
}

static uint32_t hello (mill_t *mill, wm_role_t role)
{
    static uint64_t n;
    const uint32_t session = wm_core_open (mill->core, role, mill->now_ms);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = role;
    n++;
    memcpy (msg.instance, &n, sizeof n);
    snprintf (msg.name, sizeof msg.name, "host:%llu", (unsigned long long) n);
    snprintf (msg.text, sizeof msg.text, "%s", role == WM_ROLE_WORKER ? "engine/fp32" : "");
    snprintf (msg.class, sizeof msg.class, "%s", role == WM_ROLE_WORKER ? "x86-64" : "");
    give (mill, session, &msg, "", 0);
    return session;
}

static void credit (mill_t *mill, uint32_t worker, uint32_t more)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CREDIT);
    msg.count = mill->granted[worker] += more;
    give (mill, worker, &msg, NULL, 0);
}

static void digest_of (uint32_t input, uint32_t ordinal, uint32_t batch, uint8_t digest[16])
{
    const uint32_t words[4] = { input, ordinal, batch, 1 };
    memcpy (digest, words, 16);
}

/* One producer's input: as many events as it may have open.  */
static uint32_t announce (mill_t *mill, uint32_t input, uint32_t n_event)
{
    const uint32_t session = hello (mill, WM_ROLE_PRODUCER);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    msg.size = 1000;
    snprintf (msg.path, sizeof msg.path, "/data/%u.h5", input);
    snprintf (msg.name, sizeof msg.name, "%u.scores.h5", input);
    give (mill, session, &msg, NULL, 0);
    durable (mill);
    wm_manifest_batch_t *lines = checked (calloc (mill->n_batch, sizeof *lines));
    for (uint32_t e = 0; e < n_event; e++) {
        for (uint32_t b = 0; b < mill->n_batch; b++) {
            digest_of (input, e, b, lines[b].digest);
            lines[b].n_hit = 1;
            lines[b].raw_bytes = 1000;
        }
        wm_msg_init (&msg, WM_MSG_SUBMIT);
        msg.key = (wm_key_t){ input, e, 0, 0 };
        msg.n_batch = msg.n_hit = mill->n_batch;
        give (mill, session, &msg, lines, mill->n_batch * sizeof *lines);
    }
    free (lines);
    return session;
}

static void answer_need (mill_t *mill)
{
    const sent_t need = mill->need[mill->need_head];
    mill->need_head = (mill->need_head + 1) % mill->need_max;
    mill->need_count--;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_BATCH);
    msg.key = need.key;
    memcpy (msg.digest, need.digest, 16);
    give (mill, need.session, &msg, &a_payload, sizeof a_payload);
}

static void answer_task (mill_t *mill)
{
    const sent_t task = mill->task[mill->task_head];
    mill->task_head = (mill->task_head + 1) % mill->task_max;
    mill->task_count--;
    static const uint8_t result[5];
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_RESULT);
    msg.key = task.key;
    memcpy (msg.digest, task.digest, 16);
    msg.n_batch = task.n_batch;
    msg.n_hit = 1;
    msg.attempt = task.attempt;
    give (mill, task.session, &msg, result, sizeof result);
    credit (mill, task.session, 1);
    if (mill->n_appended >= GROUP)
        durable (mill);
    if (++mill->n_returned % RESULTS_A_MS == 0 && ++mill->now_ms - mill->ticked_ms >= TICK_MS) {
        mill->ticked_ms = mill->now_ms;
        wm_core_tick (mill->core, mill->now_ms);
    }
}

/* ---- one point ------------------------------------------------------------------------------- */

static size_t memory (void)
{
    const struct mallinfo2 info = mallinfo2 ();
    return info.uordblks + info.hblkhd;
}

/* Restores a new core from the ledger of a campaign whose batches are all returned and whose files
   are not written. Returns the seconds that it takes.  */
static double restart (mill_t *mill, uint32_t n_input)
{
    const double start = seconds ();
    wm_core_t *core = core_new (mill, 2);
    for (uint32_t i = 1; i <= n_input; i++) {
        char path[32], name[32];
        snprintf (path, sizeof path, "/data/%u.h5", i);
        snprintf (name, sizeof name, "%u.scores.h5", i);
        const wm_ledger_input_t input = {
            .id = i, .state = WM_LEDGER_OPEN, .path = path, .name = name, .n_event = -1, .text = ""
        };
        wm_core_restore_input (core, &input);
        for (uint32_t e = 0; e < WM_OPEN_EVENTS_MAX; e++)
            for (uint32_t b = 0; b < mill->n_batch; b++) {
                wm_ledger_batch_t batch = { .key = { i, e, b, 0 },
                                            .state = WM_LEDGER_RETURNED,
                                            .n_batch = mill->n_batch,
                                            .n_hit = 1,
                                            .text = "" };
                digest_of (i, e, b, batch.digest);
                wm_core_restore_batch (core, &batch, "engine/fp32");
            }
    }
    const double took = seconds () - start;
    wm_core_destroy (&core);
    return took;
}

static void run (uint32_t n_event, uint32_t n_batch, uint32_t n_worker)
{
    mill_t mill = { .n_event = n_event, .n_batch = n_batch, .now_ms = 1000 };
    const size_t before = memory ();
    mill.core = core_new (&mill, 1);
    const uint32_t n_input = (n_event + WM_OPEN_EVENTS_MAX - 1) / WM_OPEN_EVENTS_MAX;
    const size_t peers = n_input + n_worker + 1;
    mill.granted = checked (calloc (peers, sizeof *mill.granted));
    double start = seconds ();
    for (uint32_t i = 0; i < n_input; i++) {
        const uint32_t left = n_event - i * WM_OPEN_EVENTS_MAX;
        announce (&mill, i + 1, left < WM_OPEN_EVENTS_MAX ? left : WM_OPEN_EVENTS_MAX);
    }
    const double announced = seconds () - start;
    const size_t bytes = memory () - before;

    mill.n_message = 0;
    start = seconds ();
    for (uint32_t i = 0; i < n_worker; i++)
        credit (&mill, hello (&mill, WM_ROLE_WORKER), WINDOW);
    while (mill.n_done < n_event) {
        while (mill.need_count)
            answer_need (&mill);
        if (mill.task_count)
            answer_task (&mill);
        else
            durable (&mill);
    }
    const double took = seconds () - start;
    wm_core_destroy (&mill.core);
    printf ("{\"bench\": \"core\", \"workers\": %u, \"events\": %u, \"batches_s\": %.0f, "
            "\"message_ns\": %.1f, \"announce_s\": %.4f, \"memory_mb\": %.1f, "
            "\"restart_s\": %.4f}",
            n_worker, n_event, (double) n_event * n_batch / took,
            1e9 * took / (double) mill.n_message, announced, 1e-6 * (double) bytes,
            restart (&mill, n_input));
    free (mill.granted);
    free (mill.need);
    free (mill.task);
}

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "events", .value = "N", .fallback = "100000", .least = 1, .most = 100000000,
     .help = "events announced"},
    {.name = "batches", .value = "N", .fallback = "4", .least = 1, .most = 1024,
     .help = "batches of an event"},
    {.name = NULL},
};
static const wm_verb_t verb = {
    .program = "core_bench", .name = "", .rest = "[WORKERS...]", .options = options,
    .summary = "batches a second that wm_core decides (with 10, 100, 1000 and 10000 workers)",
};
/* clang-format on */

int main (int argc, char **argv)
{
    int code;
    wm_args_t *args = wm_args_new (&verb, argc, argv, &code);
    if (!args)
        return code;
    const uint32_t n_event = (uint32_t) wm_args_number (args, "events"),
                   n_batch = (uint32_t) wm_args_number (args, "batches");
    uint32_t n_worker[16] = { 10, 100, 1000, 10000 }, n = 4;
    const char *text;
    for (uint32_t i = 0; (text = wm_args_rest (args, (int) i)) != NULL; n = ++i) {
        n_worker[i % 16] = (uint32_t) strtoul (text, NULL, 10);
        if (i == 16 || n_worker[i % 16] < 1 || n_worker[i % 16] > PEERS - 1) {
            fprintf (stderr, "core_bench: at most 16 numbers from 1 to %d, not '%s'\n", PEERS - 1,
                     text);
            return WM_EXIT_USAGE;
        }
    }
    printf ("{\"schema\": \"wiremill-bench-1\", \"points\": [");
    for (uint32_t i = 0; i < n; i++) {
        printf (i ? ",\n" : "\n");
        run (n_event, n_batch, n_worker[i]);
        fflush (stdout);
    }
    printf ("\n]}\n");
    wm_args_destroy (&args);
    return 0;
}
