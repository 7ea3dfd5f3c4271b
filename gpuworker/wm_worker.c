/* wm_worker.c - the worker's life: prepare, serve, drain.

   prepare   session 1: pins, model into the cache; then model, device, known-answer test
   serve     sessions with the signature: HELLO (what is held), results not acknowledged again,
             CREDIT, TASK -> decode -> score -> RESULT -> RESULT_ACK
   drain     queued batches go back (NACK EAGAIN), what executes is finished, results wait for
             their acknowledgement, BYE with the reason

   A batch that cannot be decoded is refused by name and never ends the worker. After any failure
   the credit falls to one batch and the engine must pass its known-answer test again; a test
   failed, or three failures of this machine in a row, and the worker drains and leaves with 1.

   Left out: a supervisor that survives an engine's crash and isolates the hit it dies of; several
   brokers.  */
#include "gpuworker/wm_worker.h"
#include "broker/wm_client.h"
#include "gpuworker/wm_book.h"
#include "gpuworker/wm_cache.h"
#include "gpuworker/wm_credit.h"
#include "gpuworker/wm_health.h"
#include "gpuworker/wm_scorer.h"

#include <assert.h>
#include <sodium.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum {
    SLOTS = 2,        /* decoded batches: one in the engine, one staged */
    FAILURES_MAX = 3, /* of this machine in a row */
    TICK_MS = 50,     /* a signal taken by another thread is seen so much later at most */
    WELCOME_MS_MIN = 500,
};

typedef struct {
    wm_batch_t batch;
    wm_task_t *task; /* NULL: free */
} slot_t;

struct wm_worker_t {
    const wm_worker_config_t *config;
    char label[128];
    int64_t start_ms;

    wm_pins_t pins; /* what the first broker said; another one is refused */
    uint8_t pins_digest[16], campaign[16];
    int knows_pins;

    wm_model_t *model;
    wm_device_t *device;
    wm_scorer_t *scorer;
    wm_client_t *client;
    wm_book_t *book;
    wm_credit_t credit;
    slot_t slot[SLOTS];
    slot_t *executing;
    wm_coder_t *coder; /* the decoder's work space */
    wm_job_t job;
    int test_due;        /* the engine must prove itself before the next batch */
    int n_failed;        /* failures of this machine in a row */
    wm_health_t *health; /* of the GPU; NULL: not known */

    int in_session; /* until wait has said CLOSED: acknowledgements may come after the last send */
    int64_t lost_ms, retry_ms, delay_ms; /* without a session: since when, next attempt, back-off */
    int64_t beat_ms, busy_ms;            /* last heartbeat; last time there was work */

    int done, draining, code;
    int64_t drained_ms; /* since when only acknowledgements are waited for; 0: not yet */
    char why[WM_TEXT_BYTES_MAX + 1]; /* of the drain */
    uint64_t n_batch, n_hit;
    double engine_s; /* it computed */
};

static void say (const char *format, ...) __attribute__ ((format (printf, 1, 2)));
static void say (const char *format, ...)
{
    va_list args;
    va_start (args, format);
    fputs ("wiremill-worker: ", stderr);
    vfprintf (stderr, format, args);
    fputc ('\n', stderr);
    va_end (args);
}

wm_worker_t *wm_worker_new (const wm_worker_config_t *config)
{
    wm_worker_t *self = calloc (1, sizeof *self);
    assert (self);
    self->config = config;
    self->start_ms = wm_now_ms ();
    char host[64] = "?";
    gethostname (host, sizeof host - 1);
    snprintf (self->label, sizeof self->label, "%s:%d", host, (int) getpid ());
    self->coder = wm_coder_new ();
    wm_credit_init (&self->credit);
    return self;
}

void wm_worker_destroy (wm_worker_t **self_p)
{
    wm_worker_t *self = *self_p;
    if (!self)
        return;
    wm_client_destroy (&self->client);
    wm_health_destroy (&self->health);
    wm_scorer_destroy (&self->scorer);
    wm_device_destroy (&self->device);
    wm_model_destroy (&self->model);
    wm_book_destroy (&self->book);
    for (int i = 0; i < SLOTS; i++)
        wm_batch_clear (&self->slot[i].batch);
    wm_coder_destroy (&self->coder);
    free (self);
    *self_p = NULL;
}

int wm_worker_is_busy (const wm_worker_t *self)
{
    return self->scorer && wm_scorer_is_busy (self->scorer);
}

/* ---- prepare ----------------------------------------------------------------------------------*/

/* Whether the broker of the open session is the one this worker was prepared for.  */
static int same_campaign (wm_worker_t *self, wm_client_t *client)
{
    if (!self->knows_pins) {
        self->pins = *wm_client_pins (client);
        memcpy (self->pins_digest, wm_client_pins_digest (client), 16);
        memcpy (self->campaign, wm_client_campaign (client), 16);
        self->knows_pins = 1;
    }
    if (!memcmp (self->pins_digest, wm_client_pins_digest (client), 16) &&
        !memcmp (self->campaign, wm_client_campaign (client), 16))
        return 1;
    say ("the broker at %s now serves another campaign; start a new worker for it",
         self->config->endpoint);
    wm_client_close (client, WM_REASON_DONE, "another campaign");
    return 0;
}

/* Opens a session to learn the pins and fetches the model. An exit code, or -1: go on.  */
static int fetch_model (wm_worker_t *self, char path[WM_CACHE_PATH_MAX])
{
    char folder[WM_CACHE_PATH_MAX];
    wm_error_t error = { 0 };
    if (self->config->cache)
        snprintf (folder, sizeof folder, "%s", self->config->cache);
    else if (wm_cache_default (folder, &error)) {
        say ("%s", error.text);
        return WM_EXIT_FAILURE;
    }
    wm_client_t *client =
        wm_client_new (self->config->endpoint, WM_ROLE_WORKER, self->label, "fetching", NULL);
    int code = WM_EXIT_FAILURE;
    int64_t give_up = (int64_t) (self->config->give_up_s * 1000);
    for (;;) {
        wm_fault_t fault = wm_client_open_patiently (client, NULL, 0, give_up, &error);
        if (fault == WM_EAGAIN)
            code = zsys_interrupted ? WM_EXIT_AGAIN : WM_EXIT_UNREACHABLE;
        if (fault)
            break;
        if (!same_campaign (self, client)) {
            wm_client_destroy (&client);
            return WM_EXIT_FAILURE;
        }
        fault = wm_cache_model (folder, self->pins.wmm, client, path, &error);
        if (fault == WM_OK)
            code = -1;
        else if (zsys_interrupted)
            code = WM_EXIT_AGAIN;
        else if (wm_client_reason (client) == WM_REASON_DONE)
            code = WM_EXIT_OK;
        else if (fault == WM_EAGAIN) {
            say ("%s", error.text);
            zclock_sleep ((int) wm_times ()->backoff_ms);
            continue;
        } else
            code = WM_EXIT_FAILURE;
        break;
    }
    if (code >= 0)
        say ("%s", error.text);
    wm_client_close (client, WM_REASON_DONE, "has the model");
    wm_client_destroy (&client);
    return code;
}

static int open_engine (wm_worker_t *self, const char *path)
{
    const wm_pins_t *pins = &self->pins;
    wm_error_t error = { 0 };
    wm_spec_t spec;
    int has_spec = pins->spec[0] != '\0';
    self->model = wm_model_open (path, &error);
    if (!self->model) {
        say ("%s", error.text);
        return error.fault == WM_EBATCH ? WM_EXIT_INPUT : WM_EXIT_FAILURE;
    }
    if (strcmp (wm_model_sha256 (self->model), pins->model) ||
        wm_model_n_output (self->model) != pins->n_output ||
        wm_model_n_value (self->model) != pins->n_value) {
        say ("the model %.12s is not the one the campaign is pinned to (%.12s, %u values in, %u "
             "out)",
             wm_model_sha256 (self->model), pins->model, pins->n_value, pins->n_output);
        return WM_EXIT_INPUT;
    }
    if (has_spec &&
        wm_spec_parse (&spec, pins->spec, strlen (pins->spec), "the broker's pins", &error)) {
        say ("%s", error.text);
        return WM_EXIT_INPUT;
    }
    wm_device_config_t config = { .engine = self->config->engine,
                                  .precision = pins->precision,
                                  .threads = self->config->threads };
    self->device = wm_device_new (self->model, has_spec ? &spec : NULL, &config, &error);
    if (!self->device) {
        say ("%s", error.text);
        return error.fault == WM_EBATCH ? WM_EXIT_INPUT : WM_EXIT_FAILURE;
    }
    if (wm_device_self_test (self->device, &error)) {
        say ("%s", error.text);
        return WM_EXIT_FAILURE;
    }
    say ("engine %s, %d threads, model %.12s: known answers are right",
         wm_device_signature (self->device), self->config->threads, pins->model);
    return -1;
}

/* ---- messages out -----------------------------------------------------------------------------*/

/* A failed send is the end of the session, which wait reports; so nobody looks at it here.  */
static void nack (wm_worker_t *self, const wm_key_t *key, uint32_t attempt, wm_fault_t code,
                  const char *text)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_NACK);
    msg.key = *key;
    msg.attempt = attempt;
    msg.code = code;
    snprintf (msg.text, sizeof msg.text, "%s", text);
    wm_client_send (self->client, &msg, NULL, 0);
}

static void send_result (wm_task_t *task, void *argument)
{
    wm_worker_t *self = argument;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_RESULT);
    msg.key = task->key;
    memcpy (msg.digest, task->digest, sizeof msg.digest);
    msg.n_batch = task->n_batch;
    msg.n_hit = task->n_hit;
    msg.attempt = task->attempt;
    wm_client_send (self->client, &msg, task->status, task->result_bytes);
}

static void heartbeat (wm_worker_t *self, int64_t now)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    if (self->executing)
        msg.key = self->executing->task->key;
    if (self->health)
        wm_health_text (self->health, msg.text);
    msg.count = wm_device_progress (self->device);
    wm_client_send (self->client, &msg, NULL, 0);
    self->beat_ms = now;
}

static void forget (wm_worker_t *self, wm_task_t *task)
{
    for (int i = 0; i < SLOTS; i++)
        if (self->slot[i].task == task)
            self->slot[i].task = NULL;
    wm_book_forget (self->book, task);
}

/* ---- drain and failures -----------------------------------------------------------------------*/

static void give_back (wm_task_t *task, void *argument)
{
    wm_worker_t *self = argument;
    nack (self, &task->key, task->attempt, WM_EAGAIN, self->why);
    forget (self, task);
}

static void drain (wm_worker_t *self, int code, const char *why)
{
    if (self->draining) {
        if (code == WM_EXIT_FAILURE)
            self->code = code;
        return;
    }
    self->draining = 1;
    self->code = code;
    snprintf (self->why, sizeof self->why, "%s", why);
    say ("draining: %s", why);
    wm_book_each (self->book, WM_TASK_QUEUED, give_back, self);
    wm_book_each (self->book, WM_TASK_STAGED, give_back, self);
}

/* A batch failed: whose fault it was is told, and the engine has to prove itself again.  */
static void fail (wm_worker_t *self, wm_task_t *task, const wm_error_t *error)
{
    wm_fault_t code = error->fault == WM_EPEER || error->fault == WM_EBATCH ? WM_EBATCH : WM_EHOST;
    say ("batch %u:%u:%u failed: %s", task->key.input, task->key.ordinal, task->key.batch,
         error->text);
    nack (self, &task->key, task->attempt, code, error->text);
    forget (self, task);
    wm_credit_failure (&self->credit);
    self->test_due = 1;
    self->n_failed += code == WM_EHOST;
    if (self->n_failed >= FAILURES_MAX)
        drain (self, WM_EXIT_FAILURE, "three failures of this machine in a row");
}

/* ---- the engine's side ------------------------------------------------------------------------*/

/* Decodes the oldest queued batch into a free slot, if there are both.  */
static void stage (wm_worker_t *self)
{
    slot_t *slot = !self->slot[0].task   ? &self->slot[0]
                   : !self->slot[1].task ? &self->slot[1]
                                         : NULL;
    wm_task_t *task = slot ? wm_book_oldest (self->book, WM_TASK_QUEUED) : NULL;
    if (!task)
        return;
    wm_error_t error = { 0 };
    uint8_t digest[16];
    wm_fault_t fault =
        wm_batch_decode (&slot->batch, self->coder, task->payload, task->payload_bytes, &error);
    if (!fault && slot->batch.n_hit != task->n_hit)
        fault = wm_fault (&error, WM_EBATCH, "the payload holds %u hits, its task says %u",
                          slot->batch.n_hit, task->n_hit);
    if (!fault) {
        wm_batch_digest (&slot->batch, self->pins_digest, digest);
        if (memcmp (digest, task->digest, sizeof digest))
            fault = wm_fault (&error, WM_EBATCH, "the payload does not match its digest");
    }
    if (fault) {
        fail (self, task, &error);
        return;
    }
    task->state = WM_TASK_STAGED;
    slot->task = task;
}

/* Gives the idle engine its self-test if that is due, else the staged batch that came first.  */
static void start (wm_worker_t *self)
{
    if (wm_scorer_is_busy (self->scorer))
        return;
    self->job = (wm_job_t){ 0 };
    if (self->test_due) {
        wm_scorer_start (self->scorer, &self->job);
        return;
    }
    wm_task_t *task = wm_book_oldest (self->book, WM_TASK_STAGED);
    if (!task)
        return;
    task->state = WM_TASK_EXECUTING;
    self->executing = self->slot[0].task == task ? &self->slot[0] : &self->slot[1];
    self->job.batch = &self->executing->batch;
    self->job.status = task->status;
    self->job.scores = task->scores;
    wm_scorer_start (self->scorer, &self->job);
}

/* Keeps the engine busy first, then prepares what comes next.  */
static void feed (wm_worker_t *self)
{
    if (self->draining)
        return;
    start (self);
    stage (self);
    start (self);
    stage (self);
}

static void take_job (wm_worker_t *self)
{
    wm_job_t job = *wm_scorer_take (self->scorer);
    if (!job.batch) {
        self->test_due = 0;
        if (job.fault) {
            say ("%s", job.error.text);
            drain (self, WM_EXIT_FAILURE, "the known-answer test failed");
        }
        feed (self);
        return;
    }
    wm_task_t *task = self->executing->task;
    self->executing->task = NULL;
    self->executing = NULL;
    if (job.fault) {
        job.error.fault = job.fault;
        fail (self, task, &job.error);
        feed (self);
        return;
    }
    task->state = WM_TASK_RETURNED;
    feed (self); /* the engine goes on before the network is looked at */
    send_result (task, self);
    self->n_failed = 0;
    self->n_batch++;
    self->n_hit += task->n_hit;
    self->engine_s += job.seconds;
    wm_credit_success (&self->credit, job.seconds);
}

/* ---- messages in ------------------------------------------------------------------------------*/

static void take_task (wm_worker_t *self, const wm_msg_t *msg)
{
    size_t bytes;
    const uint8_t *payload = wm_client_payload (self->client, &bytes);
    wm_error_t error = { 0 };
    self->credit.received++;
    if (self->draining) {
        nack (self, &msg->key, msg->attempt, WM_EAGAIN, self->why);
        return;
    }
    wm_task_t *held = wm_book_find (self->book, &msg->key);
    if (held && !memcmp (held->digest, msg->digest, sizeof held->digest)) {
        held->attempt = msg->attempt; /* sent again what is held: one answer is enough */
        if (held->state == WM_TASK_RETURNED)
            send_result (held, self);
        return;
    }
    wm_fault_t fault = wm_book_add (self->book, msg, payload, bytes, &error);
    if (fault) {
        say ("batch %u:%u:%u refused: %s", msg->key.input, msg->key.ordinal, msg->key.batch,
             error.text);
        nack (self, &msg->key, msg->attempt, fault, error.text);
    }
}

static void take_message (wm_worker_t *self)
{
    const wm_msg_t *msg = wm_client_msg (self->client);
    wm_task_t *task = wm_book_find (self->book, &msg->key);
    switch (msg->type) {
    case WM_MSG_TASK:
        take_task (self, msg);
        break;
    case WM_MSG_RESULT_ACK:
        if (task && task->state == WM_TASK_RETURNED)
            forget (self, task);
        break;
    case WM_MSG_REVOKE:
        if (task && (task->state == WM_TASK_QUEUED || task->state == WM_TASK_STAGED))
            forget (self, task);
        break;
    case WM_MSG_DRAIN:
        drain (self, WM_EXIT_OK, msg->text[0] ? msg->text : "the broker asks for it");
        break;
    default: /* a late MODEL: nothing asked for it */
        break;
    }
}

/* ---- sessions ---------------------------------------------------------------------------------*/

/* One attempt to open a session, and what begins one.  */
static void connect_again (wm_worker_t *self)
{
    const wm_times_t *times = wm_times ();
    wm_hello_held_t held[WM_CREDIT_MAX];
    wm_error_t error = { 0 };
    uint32_t count = wm_book_hello (self->book, held);
    int64_t patience = times->handshake_ms > WELCOME_MS_MIN ? times->handshake_ms : WELCOME_MS_MIN;
    wm_fault_t fault = wm_client_open (self->client, held, count * sizeof *held, patience, &error);
    int64_t now = wm_now_ms ();
    if (fault == WM_OK) {
        self->done = !same_campaign (self, self->client);
        if (self->done) {
            self->code = WM_EXIT_FAILURE;
            return;
        }
        say ("session with %s, epoch %llu, %u batches held", self->config->endpoint,
             (unsigned long long) wm_client_epoch (self->client), count);
        self->in_session = 1;
        self->delay_ms = times->backoff_ms;
        self->busy_ms = now;
        wm_credit_session (&self->credit);
        wm_book_each (self->book, WM_TASK_RETURNED, send_result, self);
        heartbeat (self, now);
        return;
    }
    int64_t patience_ms = (int64_t) (self->config->give_up_s * 1000);
    if (self->draining && times->silence_ms < patience_ms)
        patience_ms = times->silence_ms;
    if (fault != WM_EAGAIN || now - self->lost_ms >= patience_ms) {
        say ("%s", error.text);
        self->done = 1;
        if (!self->draining)
            self->code = fault == WM_EAGAIN ? WM_EXIT_UNREACHABLE : WM_EXIT_FAILURE;
        return;
    }
    self->retry_ms =
        now + self->delay_ms / 2 + randombytes_uniform ((uint32_t) self->delay_ms / 2 + 1);
    self->delay_ms =
        self->delay_ms * 2 < times->backoff_max_ms ? self->delay_ms * 2 : times->backoff_max_ms;
}

static void session_lost (wm_worker_t *self)
{
    say ("%s", wm_client_error (self->client)->text);
    self->in_session = 0;
    if (wm_client_reason (self->client) == WM_REASON_DONE) {
        self->done = 1; /* the campaign is done: nothing held is wanted any more */
        if (!self->draining)
            self->code = WM_EXIT_OK;
        return;
    }
    if (wm_client_error (self->client)->fault == WM_EPEER) {
        self->done = 1;
        self->code = WM_EXIT_FAILURE;
        return;
    }
    self->lost_ms = wm_now_ms ();
    self->retry_ms = self->lost_ms;
    self->delay_ms = wm_times ()->backoff_ms;
}

/* ---- the loop ---------------------------------------------------------------------------------*/

/* What time and signals ask for. Returns how long the loop may sleep.  */
static int64_t timers (wm_worker_t *self)
{
    int64_t now = wm_now_ms ();
    const wm_worker_config_t *config = self->config;
    int is_open = self->in_session;
    if (zsys_interrupted)
        drain (self, WM_EXIT_AGAIN, "stopped by a signal");
    if (config->wall_s > 0 && now - self->start_ms >= (int64_t) (config->wall_s * 1000))
        drain (self, WM_EXIT_OK, "its wall time is over");
    if (wm_book_held (self->book) || !is_open)
        self->busy_ms = now;
    else if (config->idle_s > 0 && now - self->busy_ms >= (int64_t) (config->idle_s * 1000))
        drain (self, WM_EXIT_OK, "no work for its idle time");

    /* A little before the client would say an empty one by itself.  */
    int64_t beat = wm_times ()->heartbeat_ms - wm_times ()->heartbeat_ms / 8;
    if (is_open && now - self->beat_ms >= beat)
        heartbeat (self, now);
    uint64_t grant = !self->draining && is_open
                         ? wm_credit_grant (&self->credit, wm_book_in_hand (self->book),
                                            wm_book_held (self->book))
                         : 0;
    if (grant) {
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_CREDIT);
        msg.count = grant;
        wm_client_send (self->client, &msg, NULL, 0);
    }
    int64_t next = is_open ? self->beat_ms + beat : self->retry_ms;
    int64_t sleep = next > now ? next - now : 0;
    return sleep < TICK_MS ? sleep : TICK_MS;
}

/* A drained worker leaves when nothing executes and nothing waits for its acknowledgement, or has
   waited long enough.  */
static void leave_if_drained (wm_worker_t *self)
{
    if (self->executing || self->done)
        return;
    int64_t now = wm_now_ms ();
    if (!self->drained_ms)
        self->drained_ms = now;
    if (wm_book_count (self->book, WM_TASK_RETURNED)) {
        if (now - self->drained_ms < wm_times ()->silence_ms)
            return;
        say ("%u results were not acknowledged; they will be computed again",
             wm_book_count (self->book, WM_TASK_RETURNED));
    }
    self->done = 1;
}

/* A GPU's health is watched; that of any other engine only where NVML is named.  */
static void watch_health (wm_worker_t *self)
{
    char why[160];
    if (strncmp (wm_device_signature (self->device), "cuda/", 5) != 0 && !getenv ("WM_NVML_SO"))
        return;
    self->health = wm_health_new (wm_times ()->heartbeat_ms, why);
    if (!self->health)
        say ("temperature and power of the GPU are not known: %s", why);
}

static int serve (wm_worker_t *self)
{
    watch_health (self);
    self->scorer = wm_scorer_new (self->device);
    self->book = wm_book_new (self->pins.n_output);
    self->client =
        wm_client_new (self->config->endpoint, WM_ROLE_WORKER, self->label,
                       wm_device_signature (self->device), wm_scorer_sock (self->scorer));
    self->lost_ms = self->retry_ms = self->busy_ms = wm_now_ms ();
    self->delay_ms = wm_times ()->backoff_ms;
    while (!self->done) {
        int64_t sleep = timers (self);
        if (self->in_session) {
            switch (wm_client_wait (self->client, sleep)) {
            case WM_CLIENT_MESSAGE:
                take_message (self);
                break;
            case WM_CLIENT_EXTRA:
                take_job (self);
                break;
            case WM_CLIENT_CLOSED:
                session_lost (self);
                break;
            case WM_CLIENT_TIMEOUT:
                break;
            }
        } else if (sleep == 0) {
            connect_again (self);
        } else {
            zmq_pollitem_t item = { .socket = zsock_resolve (wm_scorer_sock (self->scorer)),
                                    .events = ZMQ_POLLIN };
            if (zmq_poll (&item, 1, sleep) > 0)
                take_job (self);
        }
        feed (self);
        if (self->draining)
            leave_if_drained (self);
    }
    wm_client_close (self->client,
                     self->code == WM_EXIT_FAILURE ? WM_REASON_FAILED : WM_REASON_DRAINED,
                     self->why);
    double seconds = (double) (wm_now_ms () - self->start_ms) * 1e-3;
    say ("leaves after %.1f s: %llu batches, %llu hits, %.1f s in the engine", seconds,
         (unsigned long long) self->n_batch, (unsigned long long) self->n_hit, self->engine_s);
    return self->code;
}

int wm_worker_run (wm_worker_t *self)
{
    char path[WM_CACHE_PATH_MAX];
    int code = fetch_model (self, path);
    if (code < 0)
        code = open_engine (self, path);
    return code < 0 ? serve (self) : code;
}
