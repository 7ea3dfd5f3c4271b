/* wm_lane_prepare.c - what comes before work: pins, model, an engine that passes its self-test.  */
#include "gpuworker/wm_cache.h"
#include "gpuworker/wm_lane_private.h"

#include "schema/base/wm_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

enum {
    TICK_MS = 50,
    TRIAL_MS = 5, /* between requests for the trial: an eighth of what was waited, at least this, */
    TRIAL_MS_MAX = 200 /* and at most this */
};

typedef enum { STEP_GO_ON = -1, STEP_RETRY = -2 } step_t; /* besides exit codes */

void wm_lane_log (const char *format, ...)
{
    char text[4096 + 600]; /* one write a line: lanes and processes share the file */
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    fprintf (stderr, "wiremill-worker: %s\n", text);
}

bool wm_lane_same_campaign (wm_lane_t *self, wm_client_t *client)
{
    if (!self->knows_pins) {
        self->pins = *wm_client_pins (client);
        memcpy (self->pins_digest, wm_client_pins_digest (client), 16);
        memcpy (self->campaign, wm_client_campaign (client), 16);
        self->knows_pins = true;
        if (self->stride && *self->pins.serves)
            wm_stride_serves_clients (self->stride, self->number);
    }
    if (!memcmp (self->pins_digest, wm_client_pins_digest (client), 16) &&
        !memcmp (self->campaign, wm_client_campaign (client), 16))
        return true;
    wm_lane_log ("the broker at %s now serves another campaign; start a new worker for it",
                 self->endpoint);
    wm_client_close (client, WM_REASON_DONE, "another campaign");
    return false;
}

int64_t wm_lane_time_left (wm_lane_t *self, int64_t now, bool is_busy, const char **why)
{
    const wm_worker_config_t *config = self->config;
    if (is_busy)
        *self->busy_ms = now;
    const int64_t wall = (int64_t) (config->wall_s * 1000) - (now - self->start_ms);
    const int64_t idle = (int64_t) (config->idle_s * 1000) - (now - *self->busy_ms);
    if (self->n_main && !*self->n_main) {
        *why = "the brokers beside which it is served have ended";
        return 0;
    }
    const bool by_wall = config->wall_s > 0 && (config->idle_s <= 0 || wall < idle);
    *why = by_wall ? "its wall time is over" : "no work for its idle time";
    return by_wall ? wall : config->idle_s > 0 ? idle : INT64_MAX;
}

const char *wm_lane_starts (const wm_lane_t *self)
{
    static _Thread_local char text[100];
    snprintf (text, sizeof text, "the engine %.60s starts", self->config->engine);
    return text;
}

void wm_lane_is_short (wm_lane_t *self, const char *how)
{
    self->short_ms = wm_now_ms ();
    snprintf (self->short_of, sizeof self->short_of, "%.159s", how);
    for (char *at = self->short_of; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char) *at < ' ')
            *at = '\'';
}

/* Opens the first session. Returns an exit code, or STEP_GO_ON.  */
static int reach_broker (wm_lane_t *self, wm_client_t *client)
{
    wm_error_t error = { 0 };
    bool is_logged = false;
    const int64_t end = wm_now_ms () + (int64_t) (self->config->give_up_s * 1000);
    for (;;) {
        const char *why;
        const int64_t now = wm_now_ms (), all = end - now, some = wm_times ()->reconnect_ms;
        const int64_t time = wm_lane_time_left (self, now, !self->stride, &why);
        const int64_t patience = (is_logged && !self->n_main) || all < some ? all : some;
        if (time <= 0) {
            wm_lane_log ("leaves %s without having reached a broker: %s", self->endpoint, why);
            return WM_EXIT_OK;
        }
        const wm_fault_t fault =
            wm_client_open_patiently (client, NULL, 0, time < patience ? time : patience, &error);
        if (!fault)
            return STEP_GO_ON;
        const int64_t left = end - wm_now_ms ();
        if (fault == WM_EAGAIN && !zsys_interrupted && left > 0) {
            if (!is_logged)
                wm_lane_log ("%s; goes on trying for %lld s", error.text, (long long) left / 1000);
            is_logged = true;
            continue;
        }
        if (fault == WM_EAGAIN && !zsys_interrupted)
            wm_lane_log (WM_LANE_GIVES_UP, error.text, self->config->give_up_s);
        else
            wm_lane_log ("%s", error.text);
        return fault == WM_EKEY     ? WM_EXIT_REFUSED
               : fault != WM_EAGAIN ? WM_EXIT_FAILURE
               : zsys_interrupted   ? WM_EXIT_AGAIN
                                    : WM_EXIT_UNREACHABLE;
    }
}

/* Starts the first engine process. In split and fast it opens what it needs while the trial is
   awaited.  */
static wm_fault_t start_engine (wm_lane_t *self, const char *path, wm_error_t *error)
{
    if (strcmp (self->pins.precision, "fp32") != 0)
        snprintf (self->trial, sizeof self->trial, "%.4000s/trial-%d-%p", self->cache,
                  (int) getpid (), (void *) self);
    const wm_scorer_config_t config = { .engine = self->config->engine,
                                        .threads = self->config->threads,
                                        .pin = self->config->pin,
                                        .pins = &self->pins,
                                        .model_path = path,
                                        .trial = *self->trial ? self->trial : NULL };
    self->scorer = wm_scorer_new (&config, error);
    return self->scorer ? WM_OK : error->fault;
}

/* Returns whether the engine process has ended: before the trial is there it sends nothing.  */
static bool engine_ended (const wm_lane_t *self)
{
    struct pollfd item = { .fd = wm_scorer_fd (self->scorer), .events = POLLIN };
    return poll (&item, 1, 0) > 0;
}

/* Waits for the answer to a request. WM_EAGAIN: the session ended.  */
static wm_fault_t await_answer (wm_client_t *client, wm_error_t *error)
{
    wm_client_event_t event = WM_CLIENT_TIMEOUT;
    for (int64_t end = wm_now_ms () + wm_times ()->silence_ms;
         event == WM_CLIENT_TIMEOUT && !zsys_interrupted &&
         (wm_now_ms () < end || wm_client_is_receiving (client));)
        event = wm_client_wait (client, TICK_MS);
    if (event == WM_CLIENT_CLOSED)
        return wm_fault (error, WM_EAGAIN, "%s", wm_client_error (client)->text);
    if (event == WM_CLIENT_TIMEOUT)
        return wm_fault (error, WM_EAGAIN, "the broker does not send the trial");
    return WM_OK;
}

static wm_fault_t write_trial (const wm_lane_t *self, const wm_client_t *client, wm_error_t *error)
{
    size_t bytes;
    const uint8_t *payload = wm_client_payload (client, &bytes);
    const int fd = open (self->trial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const bool failed = fd < 0 || wm_file_append (fd, payload, bytes);
    if (failed)
        wm_fault (error, WM_EHOST, "cannot write %.300s: %s; give --cache DIR", self->trial,
                  strerror (errno));
    if (fd >= 0)
        close (fd);
    return failed ? WM_EHOST : WM_OK;
}

/* Requests the trial, which split and fast measure on, until the broker has it, and hands it to the
   engine process; if that has ended, wait_for_engine reports why. WM_EAGAIN: the session ended, or
   the worker is to stop.  */
static wm_fault_t fetch_trial (wm_lane_t *self, wm_client_t *client, wm_error_t *error)
{
    const char *why;
    bool is_logged = false;
    wm_msg_t get;
    wm_msg_init (&get, WM_MSG_TRIAL_GET);
    const int64_t start = wm_now_ms ();
    while (!engine_ended (self)) {
        wm_client_send (client, &get, NULL, 0); /* a failure shows in wait */
        if (await_answer (client, error))
            return WM_EAGAIN;
        if (wm_client_msg (client)->type != WM_MSG_TRIAL)
            continue;
        if (wm_client_msg (client)->code == WM_TRIAL_READY) {
            const wm_fault_t fault = write_trial (self, client, error);
            if (!fault)
                wm_scorer_has_trial (self->scorer);
            return fault;
        }
        if (!is_logged)
            wm_lane_log ("waits for a producer: precision %s measures on the campaign's first hits",
                         self->pins.precision);
        wm_client_waits (client, WM_WAIT_SAMPLE, "");
        is_logged = true;
        if (zsys_interrupted || wm_lane_time_left (self, wm_now_ms (), false, &why) <= 0)
            return wm_fault (error, WM_EAGAIN, "no producer has sent hits to measure on");
        const int64_t eighth = (wm_now_ms () - start) / 8;
        const int64_t pause = eighth < TRIAL_MS ? TRIAL_MS : eighth;
        if (wm_client_wait (client, pause < TRIAL_MS_MAX ? pause : TRIAL_MS_MAX) ==
            WM_CLIENT_CLOSED)
            return wm_fault (error, WM_EAGAIN, "%s", wm_client_error (client)->text);
    }
    return WM_OK;
}

/* Learns the pins, fetches the model, starts the engine and, in split and fast, hands it the trial,
   in one session. Returns an exit code or a step_t.  */
static int fetch_once (wm_lane_t *self, wm_client_t *client, char path[WM_CACHE_PATH_MAX])
{
    wm_error_t error = { 0 };
    const int code = reach_broker (self, client);
    if (code >= 0)
        return code;
    if (!wm_lane_same_campaign (self, client))
        return WM_EXIT_FAILURE;
    wm_fault_t fault = wm_cache_model (self->cache, self->pins.wmm, client, path, &error);
    if (!fault && !self->scorer) /* else the session ended while the trial was awaited */
        fault = start_engine (self, path, &error);
    if (!fault && *self->trial)
        fault = fetch_trial (self, client, &error);
    if (!fault)
        return STEP_GO_ON;
    wm_lane_log ("%s", error.text);
    if (zsys_interrupted)
        return WM_EXIT_AGAIN;
    if (wm_client_reason (client) == WM_REASON_DONE)
        return WM_EXIT_OK;
    const char *why;
    if (wm_lane_time_left (self, wm_now_ms (), false, &why) <= 0)
        return WM_EXIT_OK;
    if (fault != WM_EAGAIN)
        return fault == WM_EKEY ? WM_EXIT_REFUSED : WM_EXIT_FAILURE;
    zclock_sleep ((int) wm_times ()->backoff_ms);
    return STEP_RETRY;
}

/* The session stays open.  */
static int fetch_model (wm_lane_t *self, wm_client_t *client, char path[WM_CACHE_PATH_MAX])
{
    wm_error_t error = { 0 };
    if (self->config->cache)
        snprintf (self->cache, sizeof self->cache, "%s", self->config->cache);
    else if (wm_cache_default (self->cache, &error)) {
        wm_lane_log ("%s", error.text);
        return WM_EXIT_FAILURE;
    }
    int code;
    while ((code = fetch_once (self, client, path)) == STEP_RETRY)
        ;
    return code;
}

static void log_engine (const wm_lane_t *self)
{
    uint32_t n_hit;
    const char *refused;
    const double measured = wm_scorer_measured (self->scorer, &n_hit, &refused);
    wm_lane_log ("engine %s, %d thread%s, model %.12s: the self-test is passed",
                 wm_scorer_signature (self->scorer), self->config->threads,
                 self->config->threads == 1 ? "" : "s", self->pins.model);
    if (n_hit)
        wm_lane_log (
            "precision %s: largest error %.1e on %u of the campaign's hits, %s allowed%s%s",
            self->pins.precision, measured, n_hit, self->pins.max_error,
            *refused ? "; not precise enough: " : "", refused);
}

/* Keeps the session in which the model was fetched, so that people see what the worker does; one
   that ends meanwhile is opened again, now and then.  */
static void keep_session (wm_lane_t *self, wm_client_t *client, int64_t *next_ms)
{
    wm_error_t error = { 0 };
    if (wm_client_is_open (client)) {
        while (wm_client_wait (client, 0) == WM_CLIENT_MESSAGE)
            ;
        *next_ms = wm_now_ms () + wm_times ()->reconnect_ms;
    } else if (wm_now_ms () >= *next_ms) {
        (void) wm_client_open (client, NULL, 0, wm_times ()->handshake_ms, &error);
        *next_ms = wm_now_ms () + wm_times ()->reconnect_ms;
    }
    if (wm_client_is_open (client))
        wm_client_waits (client, WM_WAIT_WORKER_STARTS, wm_lane_starts (self));
}

/* Waits until the first engine process has passed its self-test.  */
static int wait_for_engine (wm_lane_t *self, wm_client_t *client)
{
    wm_error_t error = { 0 };
    uint64_t slot;
    int64_t next_ms = 0;
    const char *why;
    while (!zsys_interrupted) {
        keep_session (self, client, &next_ms);
        if (wm_lane_time_left (self, wm_now_ms (), true, &why) <= 0) {
            wm_lane_log ("leaves before its engine is ready: %s", why);
            return WM_EXIT_OK;
        }
        struct pollfd item = { .fd = wm_scorer_fd (self->scorer), .events = POLLIN };
        poll (&item, 1, TICK_MS);
        switch (wm_scorer_poll (self->scorer, &slot, &error)) {
        case WM_SCORER_READY:
            log_engine (self);
            return STEP_GO_ON;
        case WM_SCORER_HOPELESS:
            wm_lane_log ("the engine %s cannot run here: %s", self->config->engine, error.text);
            return error.fault == WM_EBATCH ? WM_EXIT_INPUT : WM_EXIT_ENGINE;
        case WM_SCORER_ENDED_MANY:
        case WM_SCORER_ENDED:
            wm_lane_log ("the engine %s did not pass its self-test: %s", self->config->engine,
                         error.text);
            return WM_EXIT_FAILURE;
        default:
            break;
        }
    }
    return WM_EXIT_AGAIN;
}

int wm_lane_prepare (wm_lane_t *self)
{
    char path[WM_CACHE_PATH_MAX];
    wm_client_t *client =
        wm_client_new (self->endpoint, WM_ROLE_WORKER, self->label, "fetching", NULL);
    int code = fetch_model (self, client, path);
    if (code < 0)
        code = wait_for_engine (self, client);
    wm_client_close (client, WM_REASON_DONE, "has the model");
    wm_client_destroy (&client);
    if (*self->trial) /* the control block has its outcome now */
        unlink (self->trial);
    return code;
}
