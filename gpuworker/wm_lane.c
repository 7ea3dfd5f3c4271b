/* wm_lane.c - see wm_lane.h: sessions, time, drain, and the loop around them.  */
#include "gpuworker/wm_lane_private.h"
#include "kernels/wm_device.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"

#include <assert.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    TICK_MS = 50, /* the lane notices a signal that another thread took within this time */
    WELCOME_MS_MIN = 500,
};

void wm_lane_label (char label[64], const char *host, int pid, const char *job)
{
    enum { WHOLE = 24, PREFIX = 15 };
    const size_t n = strlen (host);
    char hash[10] = "";
    if (n > WHOLE)
        snprintf (hash, sizeof hash, "~%08x", (uint32_t) XXH3_64bits (host, n));
    snprintf (label, 64, "%.*s%s:%d%s%.24s", n > WHOLE ? PREFIX : WHOLE, host, hash, pid,
              job ? "/" : "", job ? job : "");
}

wm_lane_t *wm_lane_new (const wm_worker_config_t *config, const char *endpoint, wm_stride_t *stride,
                        unsigned number, _Atomic int64_t *busy_ms)
{
    wm_lane_t *self = calloc (1, sizeof *self);
    assert (self);
    self->config = config;
    self->endpoint = endpoint;
    self->stride = stride;
    self->number = number;
    self->busy_ms = busy_ms;
    self->start_ms = wm_now_ms ();
    char host[256] = "?";
    gethostname (host, sizeof host - 1);
    wm_lane_label (self->label, host, (int) getpid (), getenv ("WM_JOB"));
    wm_credit_init (&self->credit);
    return self;
}

void wm_lane_beside (wm_lane_t *self, const _Atomic unsigned *n_main)
{
    self->n_main = n_main;
}

void wm_lane_destroy (wm_lane_t **self_p)
{
    wm_lane_t *self = *self_p;
    if (!self)
        return;
    if (self->stride)
        wm_stride_release (self->stride, self->number, 0, false);
    wm_decode_destroy (&self->decode); /* its jobs are in slots and tasks */
    wm_client_destroy (&self->client);
    wm_health_destroy (&self->health);
    wm_scorer_destroy (&self->scorer);
    wm_tasks_destroy (&self->tasks);
    for (unsigned i = 0; i < WM_SLOTS; i++)
        wm_poison_destroy (&self->slot[i].poison);
    free (self);
    *self_p = NULL;
}

static wm_wait_t wait_of (const wm_lane_t *self, const char **text)
{
    *text = "";
    if (self->short_ms && wm_now_ms () - self->short_ms < wm_times ()->silence_ms) {
        *text = self->short_of;
        return WM_WAIT_NO_MEMORY;
    }
    if (wm_scorer_is_ready (self->scorer))
        return WM_WAIT_NONE;
    *text = wm_lane_starts (self);
    return WM_WAIT_WORKER_STARTS;
}

/* What the GPU reports, as a JSON object, the CPU seconds of this lane and its engine, and what it
   waits for.  */
static void report (wm_lane_t *self, const char *waits, char text[WM_TEXT_BYTES_MAX + 1])
{
    struct timespec used = { 0 };
    char health[WM_HEALTH_BYTES] = "";
    clock_gettime (CLOCK_THREAD_CPUTIME_ID, &used);
    if (self->health)
        wm_health_text (self->health, health);
    const double cpu_s =
        wm_scorer_cpu_s (self->scorer) + (double) used.tv_sec + (double) used.tv_nsec / 1e9;
    if (*waits) {
        snprintf (text, WM_TEXT_BYTES_MAX + 1, "{\"cpu_s\": %.1f, \"waits\": \"%.159s\"}", cpu_s,
                  waits);
        return;
    }
    const bool is_more = strlen (health) > strlen ("{}");
    snprintf (text, WM_TEXT_BYTES_MAX + 1, "{\"cpu_s\": %.1f%s%s", cpu_s, is_more ? ", " : "}",
              is_more ? health + 1 : "");
}

static void heartbeat (wm_lane_t *self, int64_t now)
{
    const wm_task_t *task = wm_lane_executes (self);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    const char *waits = "";
    if (task &&
        wm_scorer_is_ready (self->scorer)) /* else nothing executes: another engine starts */
        msg.key = task->key;
    else
        msg.key.ordinal = (uint32_t) wait_of (self, &waits);
    report (self, waits, msg.text);
    msg.count = wm_scorer_progress (self->scorer) + self->n_end;
    msg.received = self->credit.received;
    wm_client_send (self->client, &msg, NULL, 0);
    self->beat_ms = now;
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* Reports to the process's starter that it has connected: the farm judges the ends of its jobs by
   that. The first lane that connects reports it, once.  */
static void tell_state (const wm_lane_t *self)
{
    static atomic_flag is_told = ATOMIC_FLAG_INIT;
    char text[160];
    wm_error_t error;
    if (!self->config->state || atomic_flag_test_and_set (&is_told))
        return;
    const int n = snprintf (text, sizeof text,
                            "{\"schema\": \"wiremill-worker-1\", \"connected\": true, "
                            "\"label\": \"%s\"}\n",
                            self->label);
    if (wm_file_write (self->config->state, &(wm_part_t){ text, (size_t) n }, 1, &error))
        wm_lane_log ("--state-file: %s", error.text);
}

static void session_open (wm_lane_t *self, int64_t now, uint32_t n_task)
{
    self->done = !wm_lane_same_campaign (self, self->client);
    if (self->done) {
        self->code = WM_EXIT_FAILURE;
        return;
    }
    wm_lane_log ("session with %s, epoch %llu, %u batches in hand", self->endpoint,
                 (unsigned long long) wm_client_epoch (self->client), n_task);
    tell_state (self);
    WM_FAILPOINT ("worker-session");
    self->in_session = true;
    self->retry.in_row = 0;
    if (!self->stride)
        *self->busy_ms = now; /* an attempt takes a while */
    wm_credit_bound (&self->credit, wm_row_bytes_max (self->pins.n_value, self->pins.n_output));
    wm_credit_session (&self->credit, *self->pins.serves != 0);
    wm_tasks_each (self->tasks, WM_TASK_RETURNED, wm_lane_send_result, self);
    heartbeat (self, now);
}

/* One attempt to open a session.  */
static void connect_again (wm_lane_t *self)
{
    const wm_times_t *times = wm_times ();
    wm_hello_held_t held[WM_CREDIT_MAX];
    wm_error_t error = { 0 };
    uint32_t count = wm_tasks_hello (self->tasks, held);
    int64_t patience = 2 * times->handshake_ms; /* connecting takes as long */
    patience = patience > WELCOME_MS_MIN ? patience : WELCOME_MS_MIN;
    wm_fault_t fault = wm_client_open (self->client, held, count * sizeof *held, patience, &error);
    int64_t now = wm_now_ms ();
    if (fault == WM_OK) {
        session_open (self, now, count);
        return;
    }
    int64_t patience_ms = (int64_t) (self->config->give_up_s * 1000);
    if (self->draining && times->silence_ms < patience_ms)
        patience_ms = times->silence_ms;
    if (fault != WM_EAGAIN || now - self->lost_ms >= patience_ms) {
        if (fault == WM_EAGAIN && !self->draining)
            wm_lane_log (WM_LANE_GIVES_UP, error.text, self->config->give_up_s);
        else
            wm_lane_log ("%s", error.text);
        self->done = true;
        if (!self->draining)
            self->code = fault == WM_EAGAIN ? WM_EXIT_UNREACHABLE
                         : fault == WM_EKEY ? WM_EXIT_REFUSED
                                            : WM_EXIT_FAILURE;
        return;
    }
    const wm_restart_rule_t rule = { .first = times->backoff_ms, .most = times->backoff_max_ms };
    wm_restart_failed (&self->retry, &rule, now, false);
    self->retry.at = now + wm_client_pause_ms (self->retry.at - now);
}

static void session_lost (wm_lane_t *self)
{
    const bool is_over = wm_client_reason (self->client) == WM_REASON_DONE ||
                         wm_client_error (self->client)->fault == WM_EPEER ||
                         wm_client_error (self->client)->fault == WM_EKEY;
    wm_lane_log ("%s%s", wm_client_error (self->client)->text,
                 is_over || self->draining ? "" : "; tries to connect again");
    self->in_session = false;
    if (wm_client_reason (self->client) == WM_REASON_DONE) {
        self->done = true; /* the campaign is done: no batch is wanted any more */
        if (!self->draining)
            self->code = WM_EXIT_OK;
        return;
    }
    if (wm_client_error (self->client)->fault == WM_EKEY) {
        self->done = true;
        self->code = WM_EXIT_REFUSED;
        return;
    }
    if (wm_client_error (self->client)->fault == WM_EPEER) {
        self->done = true;
        self->code = WM_EXIT_FAILURE;
        return;
    }
    self->lost_ms = wm_now_ms ();
    self->retry = (wm_restart_t){ .at = self->lost_ms };
    if (wm_client_reason (self->client) == WM_REASON_BUSY) /* its disk is full: "try later" */
        self->retry.at = self->lost_ms + wm_client_pause_ms (wm_times ()->backoff_max_ms);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void grant (wm_lane_t *self)
{
    const uint64_t count = wm_credit_grant (&self->credit, wm_tasks_unscored (self->tasks),
                                            wm_tasks_all (self->tasks));
    if (!count)
        return;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CREDIT);
    msg.count = count;
    wm_client_send (self->client, &msg, NULL, 0);
}

/* Stops the engine of a GPU that reports uncorrectable memory errors: its scores cannot be
   trusted. */
static void check_gpu_memory (wm_lane_t *self)
{
    char why[160];
    const unsigned long long n = self->health ? wm_health_ecc (self->health) : 0;
    if (!n || self->draining)
        return;
    snprintf (why, sizeof why,
              "%llu uncorrectable ECC errors in the GPU's memory since it began: reset the GPU "
              "(nvidia-smi --gpu-reset), or replace it",
              n);
    wm_scorer_stop (self->scorer);
    wm_lane_drain (self, WM_EXIT_FAILURE, why);
}

/* Handles signals and timers. Returns how long the loop may sleep, in ms.  */
static int64_t timers (wm_lane_t *self)
{
    int64_t now = wm_now_ms ();
    const bool is_open = self->in_session;
    check_gpu_memory (self);
    const char *why;
    if (!self->draining && zsys_interrupted)
        wm_lane_drain (self, WM_EXIT_AGAIN, "stopped by a signal");
    const bool is_busy = is_open        ? wm_tasks_all (self->tasks) > 0
                         : self->stride ? wm_tasks_unscored (self->tasks) > 0
                                        : true;
    if (wm_lane_time_left (self, now, is_busy, &why) <= 0 && !self->draining)
        wm_lane_drain (self, WM_EXIT_OK, why);

    /* A little before the client would send an empty one by itself.  */
    int64_t beat = wm_times ()->heartbeat_ms - wm_times ()->heartbeat_ms / 8;
    if (is_open && now - self->beat_ms >= beat)
        heartbeat (self, now);
    if (is_open && !self->draining)
        grant (self);
    int64_t next = is_open ? self->beat_ms + beat : self->retry.at;
    int64_t sleep = next > now ? next - now : 0;
    return sleep < TICK_MS ? sleep : TICK_MS;
}

/* Ends a drained lane once nothing executes and all results are acknowledged, or it has waited
   silence_ms for that.  */
static void leave_if_drained (wm_lane_t *self)
{
    if (wm_lane_executes (self) || self->done)
        return;
    int64_t now = wm_now_ms ();
    if (!self->drained_ms)
        self->drained_ms = now;
    if (wm_tasks_count (self->tasks, WM_TASK_RETURNED)) {
        if (now - self->drained_ms < wm_times ()->silence_ms)
            return;
        wm_lane_log ("%u results were not acknowledged; they will be computed again",
                     wm_tasks_count (self->tasks, WM_TASK_RETURNED));
    }
    self->done = true;
}

/* One pass of the loop: whatever comes first of a message, the engine, or the next timer.  */
static void pass (wm_lane_t *self)
{
    int64_t sleep = timers (self);
    if (self->draining)
        leave_if_drained (self);
    if (self->done)
        return;
    if (self->in_session) {
        switch (wm_client_wait (self->client, sleep)) {
        case WM_CLIENT_MESSAGE:
            wm_lane_take_message (self);
            break;
        case WM_CLIENT_CLOSED:
            session_lost (self);
            break;
        case WM_CLIENT_EXTRA:
        case WM_CLIENT_TIMEOUT:
            break;
        }
    } else if (sleep == 0) {
        connect_again (self);
    } else {
        struct pollfd item = { .fd = wm_scorer_fd (self->scorer), .events = POLLIN };
        poll (&item, 1, (int) sleep);
    }
    wm_lane_check_engine (self);
    wm_lane_feed (self);
}

/* Threads that decode: where a GPU scores, other CPUs have little to do.  */
static uint32_t decode_threads (const wm_lane_t *self)
{
    const uint32_t cpus = (uint32_t) wm_allowance ()->cpus;
    if (!wm_device_engine (wm_scorer_by (self->scorer))->is_gpu)
        return 0;
    return cpus > WM_DECODE_THREADS_MAX ? WM_DECODE_THREADS_MAX : cpus - 1;
}

/* Watches the health of NVIDIA's GPUs; of any other engine only if WM_NVML_SO names an NVML.  */
static void watch_health (wm_lane_t *self)
{
    char why[160];
    const wm_engine_t *engine = wm_device_engine (wm_scorer_by (self->scorer));
    if (!(engine->is_gpu && engine->object) && !getenv ("WM_NVML_SO"))
        return;
    self->health = wm_health_new (wm_times ()->heartbeat_ms, why);
    if (!self->health)
        wm_lane_log ("temperature and power of the GPU are not known: %s", why);
}

static int serve (wm_lane_t *self)
{
    watch_health (self);
    self->decode = wm_decode_new (decode_threads (self), self->pins_digest);
    const int fd = wm_scorer_fd (self->scorer); /* an epoll set, which takes more */
    struct epoll_event event = { .events = EPOLLIN };
    int rc = epoll_ctl (fd, EPOLL_CTL_ADD, wm_decode_fd (self->decode), &event);
    if (self->stride && !rc)
        rc = epoll_ctl (fd, EPOLL_CTL_ADD, wm_stride_fd (self->stride, self->number), &event);
    assert (rc == 0);
    self->tasks = wm_tasks_new (self->pins.n_output);
    self->client = wm_client_new (self->endpoint, WM_ROLE_WORKER, self->label,
                                  wm_scorer_signature (self->scorer), &fd);
    uint32_t n_hit;
    const char *refused;
    const double measured = wm_scorer_measured (self->scorer, &n_hit, &refused);
    wm_client_class (self->client, wm_scorer_class (self->scorer), measured, n_hit);
    self->lost_ms = self->retry.at = *self->busy_ms = wm_now_ms ();
    while (!self->done)
        pass (self);
    heartbeat (self, wm_now_ms ()); /* with all that it used; nothing where the session has ended */
    wm_client_close (self->client,
                     self->code == WM_EXIT_FAILURE ? WM_REASON_FAILED : WM_REASON_DRAINED,
                     self->why);
    double seconds = (double) (wm_now_ms () - self->start_ms) * 1e-3;
    char idle[64] = "";
    if (wm_scorer_idle (self->scorer) >= 0)
        snprintf (idle, sizeof idle, ", its threads idle for %.1f %% of that",
                  100 * wm_scorer_idle (self->scorer));
    wm_lane_log (
        "leaves %s after %.1f s: %llu batches, %llu %s (%llu held), %.1f s in the engine%s, "
        "%llu engine calls",
        self->endpoint, seconds, (unsigned long long) self->n_batch,
        (unsigned long long) self->n_hit,
        *self->pins.serves ? "patches" : wm_pins_rows (self->pins.spec),
        (unsigned long long) self->n_poison, self->engine_s, idle,
        (unsigned long long) wm_scorer_calls (self->scorer));
    if (self->stride) {
        const wm_stride_counts_t counts = wm_stride_counts (self->stride, self->number);
        wm_lane_log ("%s: %llu rounds; %llu of other brokers began while it waited", self->endpoint,
                     (unsigned long long) counts.n_round, (unsigned long long) counts.n_behind);
    }
    char watched[200];
    wm_scorer_watched (self->scorer, watched);
    if (*watched)
        wm_lane_log ("%s: %.2f %% of the engine's time", watched,
                     self->engine_s > 0 ? 100 * wm_scorer_watch_s (self->scorer) / self->engine_s
                                        : 0);
    return self->code;
}

int wm_lane_run (wm_lane_t *self)
{
    const int code = wm_lane_prepare (self);
    return code < 0 ? serve (self) : code;
}
