/* core_bench.c - how many batches a second wm_core alone decides, and whether a message costs the
   same whatever is in flight.

   No sockets, no disk: every message of producers and workers is given to the core, what it says
   is answered at once, records become durable in groups of 256, and its clock moves on by a
   millisecond every 200 results, so that ticks and heartbeats fire as they would at 200,000
   batches/s. All events are announced before the first worker comes. A batch is NEED, BATCH, TASK,
   RESULT, RESULT_ACK and CREDIT.

   usage: core_bench [--events N] [--batches N] [WORKERS...]   (100000 events of 4 batches; 10, 100,
   1000 and 10000 workers)
   Prints, for each number of workers, batches/s, the mean of a message, and what announcing and
   a restart on the returned batches take in time and memory.  */
#include "broker/wm_core.h"

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

/* What the core said, as far as it is answered.  */
typedef struct {
    uint32_t session;
    wm_msg_type_t type;
    wm_key_t key;
    uint8_t digest[16];
    uint32_t n_batch, attempt;
} said_t;

typedef struct {
    wm_core_t *core;
    uint32_t n_event, n_batch; /* batches an event */
    int64_t now_ms, ticked_ms;
    said_t *said; /* a ring */
    size_t said_head, said_count, said_max;
    said_t *task; /* those at workers, a ring */
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

static void push (said_t **ring, size_t head, size_t *count, size_t *max, const said_t *said)
{
    if (*count == *max) {
        said_t *grown = checked (calloc (*max ? 2 * *max : 1024, sizeof *grown));
        for (size_t i = 0; i < *count; i++)
            grown[(head + i) % (*max ? 2 * *max : 1024)] = (*ring)[(head + i) % *max];
        free (*ring);
        *ring = grown;
        *max = *max ? 2 * *max : 1024;
    }
    (*ring)[(head + (*count)++) % *max] = *said;
}

/* ---- the core's sink ---------------------------------------------------------------------------
 */
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
    said_t said = { .session = session,
                    .type = msg->type,
                    .key = msg->key,
                    .n_batch = msg->n_batch,
                    .attempt = msg->attempt };
    memcpy (said.digest, msg->digest, 16);
    if (msg->type == WM_MSG_NEED)
        push (&mill->said, mill->said_head, &mill->said_count, &mill->said_max, &said);
    if (msg->type == WM_MSG_TASK)
        push (&mill->task, mill->task_head, &mill->task_count, &mill->task_max, &said);
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

/* ---- its peers ---------------------------------------------------------------------------------
 */
static void tell (mill_t *mill, uint32_t session, const wm_msg_t *msg, const void *data,
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
    tell (mill, session, &msg, "", 0);
    return session;
}

static void credit (mill_t *mill, uint32_t worker, uint32_t more)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CREDIT);
    msg.count = mill->granted[worker] += more;
    tell (mill, worker, &msg, NULL, 0);
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
    tell (mill, session, &msg, NULL, 0);
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
        tell (mill, session, &msg, lines, mill->n_batch * sizeof *lines);
    }
    free (lines);
    return session;
}

static void answer_need (mill_t *mill)
{
    const said_t need = mill->said[mill->said_head];
    mill->said_head = (mill->said_head + 1) % mill->said_max;
    mill->said_count--;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_BATCH);
    msg.key = need.key;
    memcpy (msg.digest, need.digest, 16);
    tell (mill, need.session, &msg, &a_payload, sizeof a_payload);
}

static void answer_task (mill_t *mill)
{
    const said_t task = mill->task[mill->task_head];
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
    tell (mill, task.session, &msg, result, sizeof result);
    credit (mill, task.session, 1);
    if (mill->n_appended >= GROUP)
        durable (mill);
    if (++mill->n_returned % RESULTS_A_MS == 0 && ++mill->now_ms - mill->ticked_ms >= TICK_MS) {
        mill->ticked_ms = mill->now_ms;
        wm_core_tick (mill->core, mill->now_ms);
    }
}

/* ---- one row -----------------------------------------------------------------------------------
 */
static size_t memory (void)
{
    const struct mallinfo2 info = mallinfo2 ();
    return info.uordblks + info.hblkhd;
}

/* A new core is given what a ledger has when all batches are returned and no file is written.  */
static void restart (mill_t *mill, uint32_t n_input)
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
    printf (", restart %.2f s\n", seconds () - start);
    wm_core_destroy (&core);
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
        while (mill.said_count)
            answer_need (&mill);
        if (mill.task_count)
            answer_task (&mill);
        else
            durable (&mill);
    }
    const double took = seconds () - start;
    printf ("%6u workers: %8.0f batches/s, a message %4.0f ns; %u events announced "
            "in %.2f s, %zu MB",
            n_worker, (double) n_event * n_batch / took, 1e9 * took / (double) mill.n_message,
            n_event, announced, bytes >> 20);
    wm_core_destroy (&mill.core);
    restart (&mill, n_input);
    free (mill.granted);
    free (mill.said);
    free (mill.task);
}

int main (int argc, char **argv)
{
    uint32_t n_event = 100000, n_batch = 4, n_worker[16] = { 10, 100, 1000, 10000 }, n = 0;
    for (int i = 1; i < argc; i++)
        if (strcmp (argv[i], "--events") == 0 && i + 1 < argc)
            n_event = (uint32_t) strtoul (argv[++i], NULL, 10);
        else if (strcmp (argv[i], "--batches") == 0 && i + 1 < argc)
            n_batch = (uint32_t) strtoul (argv[++i], NULL, 10);
        else if (strtoul (argv[i], NULL, 10) && n < 16)
            n_worker[n++] = (uint32_t) strtoul (argv[i], NULL, 10);
        else {
            fprintf (stderr, "usage: core_bench [--events N] [--batches N] [WORKERS...]\n");
            return 2;
        }
    for (uint32_t i = 0; i < (n ? n : 4); i++)
        run (n_event, n_batch, n_worker[i]);
    return 0;
}
