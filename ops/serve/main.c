/* main.c - wiremill-serve: a live page of a campaign, and its numbers for Prometheus, over HTTP.

   A thread (wm_top_poll) asks the broker every --interval and keeps its last answer; the server's
   thread makes pages of it for whoever asks. So no request reaches the broker, and however many
   come it is asked no more often. It is a program of its own: what listens to a network has no
   other verb. Pages are rows of one table: a new one is a row and the function that makes its
   text.  */
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_processes.h"
#include "ops/campaign/wm_setup.h"
#include "ops/process/wm_complain.h"
#include "ops/serve/wm_live.h"
#include "ops/serve/wm_metrics.h"
#include "ops/serve/wm_password.h"
#include "ops/serve/wm_web.h"
#include "ops/verbs.h"
#include "ops/view/wm_top_poll.h"
#include "ops/view/wm_waits.h"
#include "schema/base/wm_log.h"
#include "schema/wm_limits.h"

#include <stdatomic.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAP_MS 100
#define STALE_ROUNDS 3 /* an answer that is older is no longer the state of now */
#define HUNG_MS 30000  /* of the main thread, whose rounds take NAP_MS */
#define LEAVE_MS 1000  /* for the thread that asks; one that waits for a broker ends with us */

/* clang-format off */
static const wm_option_t options[] = {
    WHERE_OPTIONS,
    {.name = "listen", .letter = 'l', .value = "ADDRESS:PORT", .fallback = "127.0.0.1:9555",
     .task = "how",
     .help = "where it serves; another address than loopback needs one of the next two"},
    {.name = "password-file", .value = "FILE", .path = WM_PATH_READ, .text = "a password",
     .help = "browsers and Prometheus must send its line as a password, with any user name; an "
             "address that sends wrong ones may try one a second"},
    {.name = "insecure", .help = "whoever reaches the address may read it"},
    {.name = "interval", .value = "TIME", .fallback = "5s", .is_above = true,
     .help = "time between two questions to the broker"},
    {.name = NULL},
};

static int serve_main (const wm_args_t *args);
static const wm_verb_t verb_serve = {
    .name = "serve", .task = WATCH_TASK, .rest = "[DIR]",
    .summary = "a live page of the campaign and numbers for Prometheus, by HTTP",
    .text =
    "  wiremill serve out/\n"
    "  wiremill serve --broker tcp://head:5555 --join-file join-monitor \\\n"
    "      --listen 0.0.0.0:9555 --password-file password\n\n"
    "Open http://ADDRESS:PORT/ in a browser: progress, rates, workers, what is held, what the "
    "broker logged, latencies and faults; it keeps itself up to date and only reads. /status.json "
    "is the broker's status, /metrics has the counts in Prometheus' text format, without names "
    "of files; while no broker answers only wiremill_up is there, as 0. /health/live and "
    "/health/ready answer 200, or 503 and why, without a password. It asks the broker as a "
    "monitor, who only reads: in the campaign's folder by its join-monitor. It goes on when a "
    "broker ends and another starts. The password is sent unencrypted: from elsewhere use ssh -L "
    "9555:localhost:9555 and loopback, or a proxy with TLS. Ctrl-C or SIGTERM ends it.\n",
    .options = options, .run = serve_main };
/* clang-format on */

typedef struct {
    wm_top_poll_t *poll;
    double interval_s;
    bool has_password;
    atomic_llong round_ms;      /* when the main thread did something last */
    wm_top_campaign_t campaign; /* of the server's thread */
    wm_top_campaign_t known;    /* of the main thread */
} state_t;

static volatile int stops;

/* Of an answer that a broker gave lately.  */
static bool is_fresh (const wm_top_campaign_t *campaign, double interval_s)
{
    return campaign->status && *wm_ask_text (campaign->status, "endpoint") &&
           campaign->age_s <= STALE_ROUNDS * interval_s;
}

/* ---- pages, made by the server's thread ------------------------------------------------------ */

static void take_text (wm_http_answer_t *answer, char *text)
{
    answer->text = text;
    answer->bytes = text ? strlen (text) : 0;
}

/* What is known now. An old answer has a note.  */
static const wm_top_campaign_t *look (state_t *self)
{
    wm_top_campaign_t *known = &self->campaign;
    wm_top_poll_copy (self->poll, known);
    if (!*known->note && *wm_ask_text (known->status, "endpoint") &&
        !is_fresh (known, self->interval_s))
        strcpy (known->note, "the broker has not answered for a while");
    return known;
}

static void make_page (void *context, wm_http_answer_t *answer)
{
    state_t *self = context;
    const wm_top_campaign_t *known = look (self);
    const wm_history_query_t *past = wm_top_poll_lend (self->poll);
    answer->text = wm_live_page (known, past, self->interval_s, &answer->bytes);
    wm_top_poll_take_back (self->poll);
    answer->policy = wm_live_policy ();
}

static void make_metrics (void *context, wm_http_answer_t *answer)
{
    state_t *self = context;
    const wm_top_campaign_t *known = look (self);
    take_text (answer, wm_metrics_text (is_fresh (known, self->interval_s) ? known->status : NULL,
                                        wm_ask_text (known->status, "campaign.id"), known->age_s));
}

static void make_status (void *context, wm_http_answer_t *answer)
{
    const wm_top_campaign_t *known = look (context);
    if (known->status)
        take_text (answer, json_dumps (known->status, JSON_COMPACT | JSON_REAL_PRECISION (9)));
    else {
        take_text (answer, strdup ("{\"error\": \"no broker has answered yet\"}\n"));
        answer->code = 503;
    }
}

static void make_live (void *context, wm_http_answer_t *answer)
{
    state_t *self = context;
    const bool is_hung = wm_now_ms () - atomic_load (&self->round_ms) > HUNG_MS;
    take_text (answer, strdup (is_hung ? "wiremill serve hangs: restart it\n" : "it is alive\n"));
    answer->code = is_hung ? 503 : 200;
}

/* The broker answers, and this waits: as every other page has it or, if these need a password, the
   table's sentences alone, which name nothing. Returns whether nothing goes further until a person
   acts.  */
static bool print_waits (const json_t *status, bool with_names, FILE *out)
{
    bool is_stopped = false;
    char text[WM_WAITS_TEXT_BYTES];
    json_t *list = wm_waits_of (status);
    fputs ("the broker answers\n", out);
    for (size_t i = 0; with_names && i < json_array_size (list); i++) {
        const json_t *wait = json_array_get (list, i);
        fprintf (out, "waits: %s: %s\n", wm_ask_text (wait, "reason"),
                 wm_waits_text (wait, true, text));
    }
    json_decref (list);
    for (int i = 1; i < WM_WAIT_END; i++) {
        const wm_wait_row_t *row = &wm_waits[i];
        if (!wm_waits_has_just (status, row->name))
            continue;
        is_stopped |= wm_wait_stops ((wm_wait_t) i);
        if (!with_names)
            fprintf (out, "waits: %s: %s; %s\n", row->name, row->sentence, row->advice);
    }
    return is_stopped;
}

/* Needs no password: where the other pages do, it names nothing.  */
static void make_ready (void *context, wm_http_answer_t *answer)
{
    state_t *self = context;
    const wm_top_campaign_t *known = look (self);
    const bool is_ready = is_fresh (known, self->interval_s);
    if (is_ready) {
        FILE *out = open_memstream (&answer->text, &answer->bytes);
        assert (out);
        answer->code = print_waits (known->status, !self->has_password, out) ? 503 : 200;
        fclose (out);
        return;
    }
    const char *why = !known->status ? "no broker has answered yet\n"
                      : *known->note ? "the broker does not answer, and what the page has is old\n"
                                     : "no broker runs; the page has what is on disk\n";
    take_text (answer, strdup (why));
    answer->code = 503;
}

static const wm_http_page_t pages[] = {
    { "/", "text/html; charset=utf-8", false, make_page },
    { "/status.json", "application/json", false, make_status },
    { "/metrics", "text/plain; version=0.0.4; charset=utf-8", false, make_metrics },
    { "/health/live", "text/plain; charset=utf-8", true, make_live },
    { "/health/ready", "text/plain; charset=utf-8", true, make_ready },
    { NULL, NULL, false, NULL },
};

/* ---- the main thread ------------------------------------------------------------------------- */

/* Prints what changed for who reads the log.  */
static void report (const wm_top_campaign_t *known, char before[480])
{
    const bool has_broker = *wm_ask_text (known->status, "endpoint");
    const char *now = *known->note     ? known->note
                      : !known->status ? ""
                      : has_broker     ? "the broker answers"
                                       : "no broker runs; what the campaign has on disk is shown";
    const bool is_new = !*before || (*known->note != 0) != (strncmp (before, "! ", 2) == 0) ||
                        (!*known->note && strcmp (now, before) != 0);
    if (*now && is_new) {
        fprintf (stderr, "wiremill serve: %s\n", now);
        snprintf (before, 480, "%s%.470s", *known->note ? "! " : "", now);
    }
}

/* Until a signal, or a broker refuses the key: it will do so again. Returns the exit code.  */
static int serve_on (state_t *self)
{
    char before[480] = "the broker answers";
    const wm_top_campaign_t *known = &self->known;
    for (; !stops && !known->refusal; wm_processes_nap (NAP_MS)) {
        wm_top_poll_copy (self->poll, &self->known);
        report (known, before);
        atomic_store (&self->round_ms, wm_now_ms ());
    }
    return known->refusal == WM_EKEY ? WM_EXIT_REFUSED
           : known->refusal          ? WM_EXIT_FAILURE
                                     : WM_EXIT_OK;
}

/* Ends the thread that asks, where that does not take long.  */
static void leave (state_t *self)
{
    wm_top_poll_stop (self->poll);
    for (const int64_t end = wm_now_ms () + LEAVE_MS; wm_now_ms () < end; wm_processes_nap (5))
        if (wm_top_poll_destroy (&self->poll)) {
            json_decref (self->campaign.status);
            json_decref (self->known.status);
            return;
        }
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
    static state_t state;
    char endpoint[256], campaign[4096];
    wm_error_t error;
    wm_password_t password;
    const char *folder = wm_args_text (args, "campaign"),
               *password_file = wm_args_text (args, "password-file");
    const wm_http_how_t how = { .listen = wm_args_text (args, "listen"),
                                .password = password_file ? &password : NULL,
                                .is_insecure = wm_args_given (args, "insecure") };
    if (how.password && how.is_insecure)
        return wm_args_refuse (args, "--password-file and --insecure exclude each other");
    wm_ask_monitor ();
    if ((password_file && wm_password_read (&password, password_file, &error)) ||
        wm_ask_lasting (args, folder ? folder : wm_args_rest (args, 0), endpoint, &error))
        return wm_complain ("serve", &error);
    folder_of (endpoint, campaign);
    zsys_handler_set (NULL); /* signals are ours */
    wm_log_start ();
    wm_processes_signals (&stops); /* before there is another thread, which shall not get them */
    state.interval_s = wm_args_seconds (args, "interval");
    state.has_password = how.password != NULL;
    state.round_ms = wm_now_ms ();
    state.poll = wm_top_poll_new ("serve", endpoint, endpoint, campaign,
                                  (int64_t) (1000 * state.interval_s), -1, 0);
    wm_webserver_t *http = state.poll ? wm_http_new (&how, pages, &state, &error) : NULL;
    if (!state.poll)
        wm_fault (&error, WM_EHOST, "no thread can be started");
    if (!http) {
        if (state.poll)
            leave (&state);
        return wm_complain ("serve", &error);
    }
    fprintf (stderr, "wiremill serve: http://%s/ is the page, http://%s/metrics for Prometheus\n",
             wm_http_address (http), wm_http_address (http));
    const int code = serve_on (&state);
    wm_http_destroy (&http);
    leave (&state);
    return code;
}

static const wm_verb_t *const verbs[] = { &verb_serve, NULL };

static const wm_program_t program = {
    .name = "wiremill-serve",
    .version = WM_VERSION,
    .summary = "serves a campaign's page and numbers over HTTP; wiremill starts it",
    .verbs = verbs,
};

int main (int argc, char **argv)
{
    return wm_program_run (&program, argc, argv);
}
