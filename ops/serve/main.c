/* main.c - wiremill-serve: a campaign's numbers over HTTP, for Prometheus.

   The main thread asks the broker every --interval and keeps its last answer; the server's thread
   prints it for whoever asks. So no request reaches the broker, and however many come it is asked
   no more often. It is a program of its own since no other needs libmicrohttpd. Pages are rows of
   one table: a new one is a row and the function that makes its text from the status.  */
#include "ops/serve/wm_http.h"
#include "ops/serve/wm_metrics.h"
#include "ops/verbs.h"
#include "ops/wm_ask.h"
#include "ops/wm_crew.h"
#include "ops/wm_setup.h"
#include "schema/base/wm_log.h"
#include "schema/wm_limits.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAP_MS 100
#define STALE_ROUNDS 3 /* an answer that is older is no longer shown */

/* clang-format off */
static const wm_option_t options[] = {
    WHERE_OPTIONS,
    {.name = "listen", .letter = 'l', .value = "ADDRESS:PORT", .fallback = "127.0.0.1:9555",
     .task = "how",
     .help = "where it serves; on another address than loopback everybody who reaches it can read"},
    {.name = "interval", .value = "TIME", .fallback = "5s", .is_above = true,
     .help = "time between two questions to the broker"},
    {.name = NULL},
};

static int serve_main (const wm_args_t *args);
static const wm_verb_t verb_serve = {
    .name = "serve", .task = INSPECT_TASK, .rest = "[DIR]",
    .summary = "the campaign's numbers for Prometheus, over HTTP",
    .text =
    "  wiremill serve out/\n"
    "  wiremill serve --broker tcp://head:5555 --join-file join-monitor --listen 0.0.0.0:9555\n\n"
    "http://ADDRESS:PORT/metrics has the campaign's counts in Prometheus' text format, without "
    "names of files or machines. It asks the broker as a monitor, who only reads: in the "
    "campaign's folder by its join-monitor. While no broker answers only wiremill_up is there, as "
    "0; it goes on when one answers again. Ctrl-C or SIGTERM ends it.\n",
    .options = options, .run = serve_main };
/* clang-format on */

typedef struct {
    pthread_mutex_t mutex;
    json_t *status; /* the broker's last answer; NULL: none, or too old */
    int64_t answered_ms;
    char campaign[33];
} state_t;

static volatile int stops;

/* Called by the server's thread.  */
static char *make_metrics (void *context, size_t *bytes)
{
    state_t *self = context;
    pthread_mutex_lock (&self->mutex);
    char *text = wm_metrics_text (self->status, self->campaign,
                                  (double) (wm_now_ms () - self->answered_ms) / 1e3);
    pthread_mutex_unlock (&self->mutex);
    *bytes = strlen (text);
    return text;
}

static const wm_http_page_t pages[] = {
    { "/metrics", "text/plain; version=0.0.4; charset=utf-8", make_metrics },
    { NULL, NULL, NULL },
};

/* Keeps an answer (the caller's reference is taken), or gives up the last one once it is old.  */
static void keep (state_t *self, json_t *status, int64_t stale_ms)
{
    const int64_t now_ms = wm_now_ms ();
    json_t *old = NULL;
    pthread_mutex_lock (&self->mutex);
    if (status || now_ms - self->answered_ms > stale_ms) {
        old = self->status;
        self->status = status;
    }
    if (status) {
        self->answered_ms = now_ms;
        snprintf (self->campaign, sizeof self->campaign, "%.32s",
                  wm_ask_text (status, "campaign.id"));
    }
    pthread_mutex_unlock (&self->mutex);
    json_decref (old);
}

/* Asks until a signal. Returns the exit code: a broker that refuses the key will do so again.  */
static int ask_on (state_t *self, wm_http_t *http, wm_client_t *client, const char *campaign,
                   int64_t interval_ms)
{
    wm_fault_t before = WM_OK;
    while (!stops) {
        wm_error_t error = { 0 };
        json_t *status = wm_ask_now (client, campaign, &error);
        if (error.fault == WM_EKEY || error.fault == WM_EPEER)
            return wm_setup_complain ("serve", &error);
        keep (self, status, STALE_ROUNDS * interval_ms);
        if (error.fault && error.fault != before)
            fprintf (stderr, "wiremill serve: %s; it asks again\n", error.text);
        else if (!error.fault && before)
            fprintf (stderr, "wiremill serve: the broker answers again\n");
        before = error.fault;
        for (int64_t left_ms = interval_ms; left_ms > 0 && !stops; left_ms -= NAP_MS) {
            wm_http_sweep (http);
            wm_crew_nap (left_ms < NAP_MS ? left_ms : NAP_MS);
        }
    }
    return WM_EXIT_OK;
}

/* The folder of an endpoint "file://FOLDER/endpoint.json"; "": it is another.  */
static void folder_of (const char *endpoint, char folder[4096])
{
    static const char head[] = "file://", tail[] = "/endpoint.json";
    const size_t n = strlen (endpoint);
    *folder = 0;
    if (strncmp (endpoint, head, sizeof head - 1) == 0)
        snprintf (folder, 4096, "%.*s", (int) (n - (sizeof head - 1) - (sizeof tail - 1)),
                  endpoint + sizeof head - 1);
}

static int serve_main (const wm_args_t *args)
{
    static state_t state = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    char endpoint[256], campaign[4096];
    wm_error_t error;
    const char *folder = wm_args_text (args, "campaign");
    wm_ask_monitor ();
    if (wm_ask_lasting (args, folder ? folder : wm_args_rest (args, 0), endpoint, &error))
        return wm_setup_complain ("serve", &error);
    folder_of (endpoint, campaign);
    zsys_handler_set (NULL); /* signals are ours */
    wm_log_start ();
    wm_crew_signals (&stops); /* before there is another thread, which shall not get them */
    wm_http_t *http = wm_http_new (wm_args_text (args, "listen"), pages, &state, &error);
    if (!http)
        return wm_setup_complain ("serve", &error);
    fprintf (stderr, "wiremill serve: http://%s/metrics\n", wm_http_address (http));
    wm_client_t *client = wm_client_new (endpoint, WM_ROLE_OPERATOR, "wiremill serve", NULL, NULL);
    const int code = ask_on (&state, http, client, campaign,
                             (int64_t) (1000 * wm_args_seconds (args, "interval")));
    wm_client_destroy (&client);
    wm_http_destroy (&http);
    json_decref (state.status);
    return code;
}

static const wm_verb_t *const verbs[] = { &verb_serve, NULL };

static const wm_program_t program = {
    .name = "wiremill-serve",
    .version = WM_VERSION,
    .summary = "serves a campaign's numbers over HTTP; wiremill starts it",
    .verbs = verbs,
};

int main (int argc, char **argv)
{
    return wm_program_run (&program, argc, argv);
}
