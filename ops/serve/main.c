/* main.c - wiremill-serve: live pages of campaigns, and their numbers for Prometheus, over HTTP.

   A thread of each campaign (wm_top_poll) asks its broker every --interval and keeps the last
   answer; the server's thread makes pages of it for whoever asks. So no request reaches a broker,
   and however many come it is asked no more often. It is a program of its own: what listens to a
   network has no other verb. Pages are rows of one table: a new one is a row and the function that
   makes its text.  */
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_processes.h"
#include "ops/process/wm_complain.h"
#include "ops/serve/wm_held_reader.h"
#include "ops/serve/wm_live.h"
#include "ops/serve/wm_metrics.h"
#include "ops/serve/wm_password.h"
#include "ops/serve/wm_served.h"
#include "ops/serve/wm_web.h"
#include "ops/verbs.h"
#include "ops/view/wm_waits.h"
#include "schema/base/wm_log.h"
#include "schema/wm_limits.h"

#include <stdatomic.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAP_MS 100
#define EVENT "event/" /* before the name of a page of events */
#define STALE_ROUNDS 3 /* an answer that is older is no longer the state of now */
#define HUNG_MS 30000  /* of the main thread, whose rounds take NAP_MS */
#define LINE_BYTES 1024 /* of what is printed about a campaign */
#define LEAVE_MS 1000  /* for the thread that asks; one that waits for a broker ends with us */

/* A script loads it again: a refresh of an address with #HIT would not leave the page.  */
#define BEING_READ                                                                                 \
    "<!doctype html>\n<html lang=\"en\"><title>being read</title>\n<noscript><meta "               \
    "http-equiv=\"refresh\" content=\"1\"></noscript>\n<script>setTimeout(() => "                  \
    "location.reload(), 1000)</script>\n<p>The page is being read; it loads itself again.</p>"     \
    "</html>\n"

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
    .name = "serve", .task = WATCH_TASK, .rest = "[DIR|ADDRESS]...",
    .summary = "live pages of campaigns and numbers for Prometheus, by HTTP",
    .text =
    "  wiremill serve out/\n"
    "  wiremill serve out-1/ out-2/\n"
    "  wiremill serve campaigns/\n"
    "  wiremill serve --broker tcp://head:5555 --join-file join-monitor \\\n"
    "      --listen 0.0.0.0:9555 --password-file password\n\n"
    "Open http://ADDRESS:PORT/ in a browser: progress, rates, workers, what is held, what the "
    "broker logged, latencies and faults; it keeps itself up to date and only reads. /held has "
    "what is held, and /worst single hits with the lowest scores, to search and filter. "
    "/status.json is the broker's status, /metrics has the counts in Prometheus' text format, "
    "without names of files; while no broker answers only wiremill_up is there, as 0. "
    "/health/live and /health/ready answer 200, or 503 and why, without a password. Of several "
    "campaigns, or all in a folder, / is a list with finished ones, and each has these under "
    "/c/NAME/; a campaign that is made in the folder later is listed, too, and one that is removed "
    "no longer. It asks the broker as a "
    "monitor, who only reads: in the campaign's folder by its join-monitor. It goes on when a "
    "broker ends and another starts. The password is sent unencrypted: from elsewhere use ssh -L "
    "9555:localhost:9555 and loopback, or a proxy with TLS. Ctrl-C or SIGTERM ends it.\n",
    .options = options, .run = serve_main };
/* clang-format on */

typedef struct {
    wm_served_list_t served;
    wm_held_reader_t *held;
    double interval_s;
    bool has_password;
    atomic_llong round_ms; /* when the main thread did something last */
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

static void refuse (wm_http_answer_t *answer, unsigned code, const char *text)
{
    take_text (answer, strdup (text));
    answer->type = "text/plain; charset=utf-8";
    answer->code = code;
}

/* What is known now. An old answer has a note.  */
static const wm_top_campaign_t *look (const state_t *self, wm_served_t *one)
{
    wm_top_campaign_t *known = &one->campaign;
    wm_top_poll_copy (one->poll, known);
    if (!*known->note && *wm_ask_text (known->status, "endpoint") &&
        !is_fresh (known, self->interval_s))
        strcpy (known->note, "the broker has not answered for a while");
    return known;
}

/* What the paths of a campaign's files begin with.  */
static void base_of (const state_t *self, const wm_served_t *one, char base[80])
{
    snprintf (base, 80, "%s%s", self->served.is_list ? "/c/" : "",
              self->served.is_list ? one->name : "");
}

static void make_page (const state_t *self, wm_served_t *one, const char *query,
                       wm_http_answer_t *answer)
{
    (void) query;
    char base[80];
    const wm_top_campaign_t *known = look (self, one);
    const wm_history_query_t *past = wm_top_poll_lend (one->poll);
    base_of (self, one, base);
    answer->text = wm_live_page (known, past, base, self->interval_s, &answer->bytes);
    wm_top_poll_take_back (one->poll);
    answer->policy = wm_live_policy (false);
}

static void make_metrics (const state_t *self, wm_served_t *one, const char *query,
                          wm_http_answer_t *answer)
{
    (void) query;
    const wm_top_campaign_t *known = look (self, one);
    take_text (answer, wm_metrics_text (is_fresh (known, self->interval_s) ? known->status : NULL,
                                        wm_ask_text (known->status, "campaign.id"), known->age_s));
}

static void make_status (const state_t *self, wm_served_t *one, const char *query,
                         wm_http_answer_t *answer)
{
    (void) query;
    const wm_top_campaign_t *known = look (self, one);
    if (known->status)
        take_text (answer, json_dumps (known->status, JSON_COMPACT | JSON_REAL_PRECISION (9)));
    else {
        take_text (answer, strdup ("{\"error\": \"no broker has answered yet\"}\n"));
        answer->code = 503;
    }
}

static void make_held (const state_t *self, wm_served_t *one, const char *query,
                       wm_http_answer_t *answer)
{
    char base[80];
    double age_s = 0;
    const json_t *list = NULL, *now = look (self, one)->status;
    const bool is_read = now && !wm_account_is_clean (now);
    base_of (self, one, base);
    if (is_read)
        list = wm_held_reader_lend (self->held, one, WM_HELD_ROWS, now, &age_s);
    answer->text = wm_live_held_page (now, list, age_s, base, query, &answer->bytes);
    if (is_read)
        wm_held_reader_take_back (self->held);
    answer->policy = wm_live_policy (true);
}

static void make_worst (const state_t *self, wm_served_t *one, const char *query,
                        wm_http_answer_t *answer)
{
    char base[80];
    double age_s = 0;
    const json_t *list = NULL, *now = look (self, one)->status;
    const bool is_read = now && wm_ask_int (now, "inputs.written");
    base_of (self, one, base);
    if (is_read)
        list = wm_held_reader_lend (self->held, one, WM_HELD_WORST, now, &age_s);
    answer->text = wm_live_worst_page (now, list, age_s, base, query, &answer->bytes);
    if (is_read)
        wm_held_reader_take_back (self->held);
    answer->policy = wm_live_policy (true);
}

/* A page of events that lies beside an output. It runs as a site of its own, which reads nothing of
   ours.  */
static void make_event (const state_t *self, wm_served_t *one, const char *name,
                        wm_http_answer_t *answer)
{
    const char *text;
    const json_t *now = look (self, one)->status;
    answer->type = "text/html; charset=utf-8";
    answer->code =
        wm_held_reader_page (self->held, *one->folder ? wm_ask_text (now, "campaign.output") : "",
                             name, &text, &answer->bytes);
    if (answer->code == 200 && (answer->text = malloc (answer->bytes + 1)))
        memcpy (answer->text, text, answer->bytes);
    wm_held_reader_take_back (self->held);
    answer->policy = "sandbox allow-scripts allow-downloads; default-src 'none'; script-src "
                     "'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
                     "form-action 'none'; frame-ancestors 'none'";
    if (answer->code == 202) {
        answer->code = 200;
        take_text (answer, strdup (BEING_READ));
    } else if (answer->code == 413)
        refuse (answer, 413, "the page has more than 8 MiB: open its file\n");
    else if (answer->code == 404)
        refuse (answer, 404, "not found; the page is /\n");
}

/* The pages of a campaign, behind "/" or "/c/NAME/".  */
static const struct {
    const char *name, *type;
    void (*make) (const state_t *self, wm_served_t *one, const char *query,
                  wm_http_answer_t *answer);
} pages_of_one[] = {
    { "", "text/html; charset=utf-8", make_page },
    { "held", "text/html; charset=utf-8", make_held },
    { "worst", "text/html; charset=utf-8", make_worst },
    { "status.json", "application/json", make_status },
    { "metrics", "text/plain; version=0.0.4; charset=utf-8", make_metrics },
};

static void make_of (const state_t *self, wm_served_t *one, const char *name, const char *query,
                     wm_http_answer_t *answer)
{
    for (size_t i = 0; one && i < sizeof pages_of_one / sizeof *pages_of_one; i++)
        if (strcmp (pages_of_one[i].name, name) == 0) {
            answer->type = pages_of_one[i].type;
            pages_of_one[i].make (self, one, query, answer);
            return;
        }
    if (one && strncmp (name, EVENT, strlen (EVENT)) == 0)
        make_event (self, one, name + strlen (EVENT), answer);
    else
        refuse (answer, 404, "not found; the page is /\n");
}

/* The list, ready to be shown; the history of each is lent for a moment.  */
static void make_list (state_t *self, wm_http_answer_t *answer)
{
    static wm_live_row_t row[WM_SERVED_MAX];
    int n = 0;
    for (int i = 0; i < self->served.n; i++) {
        wm_served_t *one = &self->served.one[i];
        if (!wm_served_is_here (one))
            continue;
        row[n] = (wm_live_row_t){ .name = one->name, .campaign = look (self, one) };
        wm_history_query_work (wm_top_poll_lend (one->poll), &row[n++].work);
        wm_top_poll_take_back (one->poll);
    }
    answer->type = "text/html; charset=utf-8";
    answer->text = wm_live_list (row, n, self->served.n_left_out, self->interval_s, &answer->bytes);
    answer->policy = wm_live_policy (false);
}

/* "/", and the files beside it: of the only campaign. Of several each has its own.  */
static void make_top (void *context, const wm_http_request_t *request, wm_http_answer_t *answer)
{
    state_t *self = context;
    wm_served_lock (&self->served);
    if (!self->served.is_list)
        make_of (self, &self->served.one[0], request->path + 1, request->query, answer);
    else if (!request->path[1])
        make_list (self, answer);
    else
        refuse (answer, 404,
                "each campaign has its own, beside its page, such as /c/NAME/metrics; the "
                "list is /\n");
    wm_served_unlock (&self->served);
}

/* "/c/NAME/" and the files beside it.  */
static void make_one (void *context, const wm_http_request_t *request, wm_http_answer_t *answer)
{
    state_t *self = context;
    const char *name = request->path + strlen ("/c/");
    const size_t n = strcspn (name, "/");
    wm_served_lock (&self->served);
    wm_served_t *one = self->served.is_list ? wm_served_named (&self->served, name, n) : NULL;
    make_of (self, one, name + n + (name[n] == '/'), request->query, answer);
    wm_served_unlock (&self->served);
}

static void make_live (void *context, const wm_http_request_t *request, wm_http_answer_t *answer)
{
    state_t *self = context;
    const bool is_hung = wm_now_ms () - atomic_load (&self->round_ms) > HUNG_MS;
    (void) request;
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

/* Prints whether a campaign is ready, and returns it. One of several that is finished needs no
   broker.  */
static bool print_ready (const state_t *self, wm_served_t *one, FILE *out)
{
    const wm_top_campaign_t *known = look (self, one);
    const bool is_list = self->served.is_list;
    if (is_list)
        fprintf (out, "%s: ", self->has_password ? "a campaign" : one->name);
    if (is_fresh (known, self->interval_s))
        return !print_waits (known->status, !self->has_password, out);
    if (is_list && strcmp (wm_top_state (known), "finished") == 0) {
        fputs ("it is finished\n", out);
        return true;
    }
    fputs (!known->status ? "no broker has answered yet\n"
           : *known->note ? "the broker does not answer, and what the page has is old\n"
                          : "no broker runs; the page has what is on disk\n",
           out);
    return false;
}

/* Needs no password: where the other pages do, it names nothing.  */
static void make_ready (void *context, const wm_http_request_t *request, wm_http_answer_t *answer)
{
    state_t *self = context;
    FILE *out = open_memstream (&answer->text, &answer->bytes);
    assert (out);
    (void) request;
    wm_served_lock (&self->served);
    for (int i = 0; i < self->served.n; i++)
        if (wm_served_is_here (&self->served.one[i]) &&
            !print_ready (self, &self->served.one[i], out))
            answer->code = 503;
    wm_served_unlock (&self->served);
    fclose (out);
}

static const wm_http_page_t pages[] = {
    { "/", NULL, false, make_top },
    { "/held", NULL, false, make_top },
    { "/worst", NULL, false, make_top },
    { "/" EVENT "*", NULL, false, make_top },
    { "/status.json", NULL, false, make_top },
    { "/metrics", NULL, false, make_top },
    { "/c/*", NULL, false, make_one },
    { "/health/live", "text/plain; charset=utf-8", true, make_live },
    { "/health/ready", "text/plain; charset=utf-8", true, make_ready },
    { NULL, NULL, false, NULL },
};

/* ---- the main thread ------------------------------------------------------------------------- */

/* Writes what changed for who reads the log, of several campaigns by its name; or "".  */
static void report (wm_served_t *one, bool is_list, char line[LINE_BYTES])
{
    const wm_top_campaign_t *known = &one->known;
    const bool has_broker = *wm_ask_text (known->status, "endpoint");
    const char *now = *known->note     ? known->note
                      : !known->status ? ""
                      : has_broker     ? "the broker answers"
                                       : "no broker runs; what the campaign has on disk is shown";
    const bool is_new = !*one->before ||
                        (*known->note != 0) != (strncmp (one->before, "! ", 2) == 0) ||
                        (!*known->note && strcmp (now, one->before) != 0);
    *line = 0;
    if (*now && is_new) {
        snprintf (line, LINE_BYTES, "wiremill serve: %s%s%s\n", is_list ? one->name : "",
                  is_list ? ": " : "", now);
        snprintf (one->before, sizeof one->before, "%s%.470s", *known->note ? "! " : "", now);
    }
}

/* Until a signal, or the broker of the only campaign refuses the key that it was given: it will do
   so again. One that took it before, and refuses it now, is asked again: keys are rotated. Returns
   the exit code.  */
static int serve_on (state_t *self)
{
    wm_served_list_t *served = &self->served;
    wm_fault_t refusal = WM_OK;
    for (; !stops && !refusal; wm_processes_nap (NAP_MS)) {
        const wm_top_campaign_t *only = served->is_list ? NULL : &served->one[0].known;
        for (int i = 0; i < WM_SERVED_MAX; i++) {
            char line[LINE_BYTES] = "";
            wm_served_lock (served);
            if (i < served->n && wm_served_is_here (&served->one[i])) {
                wm_top_poll_copy (served->one[i].poll, &served->one[i].known);
                report (&served->one[i], served->is_list, line);
            }
            wm_served_unlock (served);
            fputs (line, stderr); /* pages do not wait for who reads it */
        }
        refusal = only && !only->status ? only->refusal : WM_OK;
        atomic_store (&self->round_ms, wm_now_ms ());
    }
    return refusal == WM_EKEY ? WM_EXIT_REFUSED : refusal ? WM_EXIT_FAILURE : WM_EXIT_OK;
}

/* Ends the threads that ask, where that does not take long.  */
static void leave (state_t *self)
{
    wm_served_end (&self->served, LEAVE_MS);
    wm_held_reader_end (self->held, LEAVE_MS);
}

static int serve_main (const wm_args_t *args)
{
    static state_t state;
    wm_error_t error;
    wm_password_t password;
    const char *password_file = wm_args_text (args, "password-file");
    const wm_http_how_t how = { .listen = wm_args_text (args, "listen"),
                                .password = password_file ? &password : NULL,
                                .is_insecure = wm_args_given (args, "insecure") };
    if (how.password && how.is_insecure)
        return wm_args_refuse (args, "--password-file and --insecure exclude each other");
    wm_ask_monitor ();
    if (password_file && wm_password_read (&password, password_file, &error))
        return wm_complain ("serve", &error);
    int code = wm_served_find (&state.served, args);
    if (code)
        return code;
    zsys_handler_set (NULL); /* signals are ours */
    zsys_init ();            /* here: threads that came first together would end the process */
    wm_log_start ();
    wm_processes_signals (&stops); /* before there is another thread, which shall not get them */
    state.interval_s = wm_args_seconds (args, "interval");
    state.has_password = how.password != NULL;
    state.round_ms = wm_now_ms ();
    state.held = wm_held_reader_new ();
    const bool has_started =
        state.held && wm_served_start (&state.served, (int64_t) (1000 * state.interval_s));
    wm_webserver_t *http = has_started ? wm_http_new (&how, pages, &state, &error) : NULL;
    if (!has_started)
        wm_fault (&error, WM_EHOST, "no thread can be started");
    if (!http) {
        leave (&state);
        return wm_complain ("serve", &error);
    }
    wm_served_lock (&state.served);
    const int n = wm_served_count (&state.served);
    wm_served_unlock (&state.served);
    if (state.served.is_list)
        fprintf (stderr, "wiremill serve: http://%s/ lists %d campaign%s\n", wm_http_address (http),
                 n, n == 1 ? "" : "s");
    else
        fprintf (stderr,
                 "wiremill serve: http://%s/ is the page, http://%s/metrics for Prometheus\n",
                 wm_http_address (http), wm_http_address (http));
    code = serve_on (&state);
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
