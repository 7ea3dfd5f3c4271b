/* wm_live.c - see wm_live.h. Sections are always there, empty ones hidden: so the script finds each
   at its place. What changes with each answer is not in the live region (#state), or readers of
   screens would hear it every few seconds.  */
#include "ops/serve/wm_live_private.h"
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/view/wm_waits.h"
#include "schema/page/wm_page.h"

#include <assert.h>
#include <math.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PARTS WM_TOP_BUCKETS /* of a graph */

static const char style[] = "\n"
#include "page.css.inc"
    ;
static const char script[] = "\n"
#include "page.js.inc"
    ;

/* ---- policy ---------------------------------------------------------------------------------- */

static void print_hash (FILE *out, const char *text)
{
    uint8_t hash[crypto_hash_sha256_BYTES];
    char base64[64];
    crypto_hash_sha256 (hash, (const uint8_t *) text, strlen (text));
    sodium_bin2base64 (base64, sizeof base64, hash, sizeof hash, sodium_base64_VARIANT_ORIGINAL);
    fprintf (out, "'sha256-%s'", base64);
}

const char *wm_live_policy (bool has_form)
{
    static char policies[2][400], *policy;
    policy = policies[has_form];
    if (*policy)
        return policy;
    FILE *out = fmemopen (policy, sizeof policies[0], "w");
    assert (out);
    fprintf (out,
             "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
             "form-action %s; frame-ancestors 'none'; style-src ",
             has_form ? "'self'" : "'none'");
    print_hash (out, style);
    if (!has_form) {
        fputs ("; script-src ", out);
        print_hash (out, script);
    }
    fclose (out);
    return policy;
}

static void put_fact (FILE *out, const char *name, const char *class, const char *value,
                      const char *more)
{
    fprintf (out, "<div><dt>%s</dt><dd><b class=\"%s\">", name, class);
    wm_page_print (out, "%s", value);
    fputs ("</b> ", out);
    wm_page_print (out, "%s", more);
    fputs ("</dd></div>\n", out);
}

/* ---- state and progress ---------------------------------------------------------------------- */

/* The worst wait that needs a person; NULL: there is no such wait.  */
static const json_t *wait_of (const json_t *list)
{
    const json_t *worst = NULL;
    for (size_t i = 0; i < json_array_size (list); i++) {
        const json_t *one = json_array_get (list, i);
        if (wm_waits_severity (one) > (worst ? wm_waits_severity (worst) : WM_WAIT_INFO))
            worst = one;
    }
    return worst;
}

static void put_waits (FILE *out, const json_t *list)
{
    char text[WM_WAITS_TEXT_BYTES];
    wm_live_begin (out, "waits", "Waits", json_array_size (list) > 0);
    for (size_t i = 0; i < json_array_size (list); i++) {
        const json_t *one = json_array_get (list, i);
        wm_page_put (out, wm_waits_severity (one) == WM_WAIT_INFO ? "p" : "p class=\"bad-text\"",
                     "%s: %s", wm_ask_text (one, "reason"), wm_waits_text (one, true, text));
    }
    wm_live_end (out);
}

/* "2 hits and 1 input or batch are held".  */
static void put_rest (FILE *out, const json_t *s)
{
    char text[32], held[64];
    const int64_t hits = wm_ask_int (s, "hits.held"), rows = wm_ask_int (s, "held_total");
    if (hits)
        wm_page_print (out, "%s%s", wm_show_rows (hits, wm_ask_rows (s), held),
                       rows ? " and " : "");
    if (rows)
        wm_page_print (out, "%s %s", wm_show_count (rows, text), wm_live_held_rows (rows));
    fputs (hits + rows == 1 ? " is held" : " are held", out);
}

static void put_state (FILE *out, const wm_top_campaign_t *campaign, const char *state)
{
    char text[32];
    const json_t *s = campaign->status;
    const char *paused = wm_ask_text (s, "paused");
    const bool is_here = s && *wm_ask_text (s, "endpoint"),
               is_away = strcmp (state, "no answer") == 0;
    json_t *list = is_here ? wm_waits_of (s) : json_array ();
    const json_t *wait = wait_of (list);
    const bool is_rest = strcmp (state, "finished") == 0 && !wm_account_is_clean (s);
    const char *class = is_rest ? "warn" : wm_live_class (state);
    fprintf (out, "<div id=\"state\" class=\"state %s\" role=\"status\"><strong>",
             wait && strcmp (class, "good") == 0 ? "warn" : class);
    wm_page_print (out, "%s", state);
    fputs ("</strong> ", out);
    if (is_away)
        fputs (s ? "the broker does not answer; what follows is old" : "no broker has answered yet",
               out);
    else if (*paused && is_here)
        wm_page_print (out, "%s", paused);
    else if (wait)
        wm_page_print (out, "%s%s%s%s%s", wm_waits_sentence (wait),
                       *wm_ask_text (wait, "text") ? ": " : "", wm_ask_text (wait, "text"),
                       *wm_waits_advice (wait) ? "; " : "", wm_waits_advice (wait));
    else if (is_rest)
        put_rest (out, s);
    else if (s && !is_here)
        fputs ("no broker runs; what follows is what the campaign has on disk", out);
    fputs ("</div>\n<p class=\"faint\">", out);
    if (*campaign->note)
        wm_page_print (out, "%s. ", campaign->note);
    if (s)
        wm_page_print (out, is_here ? "The broker answered %s ago." : "Read %s ago.",
                       wm_show_time (campaign->age_s, text));
    fputs ("</p>\n", out);
    put_waits (out, list);
    json_decref (list);
}

static void put_progress (FILE *out, const json_t *s)
{
    char text[32];
    const double share = wm_account_share (s);
    if (share < 0)
        fputs ("<p>How much there is to score is not known yet.</p>\n", out);
    else {
        fputs ("<p><label for=\"bar\">", out);
        wm_page_print (out, "%.1f %% of the %s are scored or held", wm_account_percent (s),
                       wm_ask_rows (s));
        fprintf (out, "</label><progress id=\"bar\" max=\"1\" value=\"%.4f\"></progress></p>\n",
                 share);
    }
    const double eta_s = wm_ask_real (s, "eta_s");
    fprintf (out, "<p>Time left: <b>%s</b></p>\n",
             eta_s > 0 && *wm_ask_text (s, "endpoint") ? wm_show_time (eta_s, text)
             : wm_ask_int (s, "inputs.open")           ? "not known"
             : wm_ask_int (s, "inputs.total")          ? "nothing is left"
                                                       : "no inputs yet");
}

/* What only a broker knows.  */
static void put_live_facts (FILE *out, const json_t *s)
{
    char a[32], b[32], c[72], more[160];
    snprintf (more, sizeof more, "%s events/s",
              wm_show_short (wm_ask_real (s, "rate.events_s"), a));
    snprintf (c, sizeof c, "%s %s", wm_show_short (wm_ask_real (s, "rate.hits_s"), b),
              wm_ask_rows_s (s, 30, a));
    put_fact (out, "Rate", "", c, more);
    snprintf (more, sizeof more, "%s busy, %s idle",
              wm_show_count (wm_ask_int (s, "workers_by_state.busy"), a),
              wm_show_count (wm_ask_int (s, "workers_by_state.idle"), b));
    put_fact (out, "Workers", "", wm_show_count (wm_ask_int (s, "workers_total"), c), more);
    snprintf (more, sizeof more, "run; %s queued, %s asked of producers",
              wm_show_count (wm_ask_int (s, "batches.queued"), a),
              wm_show_count (wm_ask_int (s, "batches.asked"), b));
    put_fact (out, "Batches", "", wm_show_count (wm_ask_int (s, "batches.running"), c), more);
    snprintf (more, sizeof more, "of %s done",
              wm_show_count (wm_ask_int (s, "events.announced"), a));
    put_fact (out, "Events", "", wm_show_count (wm_ask_int (s, "events.done"), b), more);
}

static void put_facts (FILE *out, const json_t *s)
{
    char a[32], b[32], c[32], d[32], text[64], more[160];
    const int64_t held = wm_ask_int (s, "hits.held"), alarms = wm_ask_int (s, "counters.alarm"),
                  rows = wm_ask_int (s, "held_total");
    fputs ("<dl>\n", out);
    if (*wm_ask_text (s, "endpoint"))
        put_live_facts (out, s);
    snprintf (more, sizeof more, "of %s announced",
              wm_show_count (wm_ask_int (s, "hits.announced"), a));
    put_fact (out, "Scored", "", wm_show_rows (wm_ask_int (s, "hits.done"), wm_ask_rows (s), text),
              more);
    snprintf (more, sizeof more, "and %s %s", wm_show_count (rows, a), wm_live_held_rows (rows));
    put_fact (out, "Held", held || rows ? "bad-text" : "",
              wm_show_rows (held, wm_ask_rows (s), text), more);
    if (wm_ask_serves_clients (s))
        put_fact (out, "Clients", "", wm_show_count (wm_ask_int (s, "inputs.open"), a),
                  "connected");
    else {
        snprintf (more, sizeof more, "of %s written, %s held, %s changed",
                  wm_show_count (wm_ask_int (s, "inputs.total"), a),
                  wm_show_count (wm_ask_int (s, "inputs.held"), b),
                  wm_show_count (wm_ask_int (s, "inputs.changed"), c));
        put_fact (out, "Inputs", "", wm_show_count (wm_ask_int (s, "inputs.written"), d), more);
    }
    put_fact (out, "Alarms", alarms ? "bad-text" : "", wm_show_count (alarms, a), "");
    fputs ("</dl>\n", out);
}

/* Machines whose scores were wrong, and checks; as `wiremill status` prints them.  */
static void put_checks (FILE *out, const json_t *s)
{
    char *text = NULL, *rest = NULL;
    size_t bytes;
    FILE *lines = open_memstream (&text, &bytes);
    assert (lines);
    wm_account_checks (lines, s, "checked: ");
    fclose (lines);
    wm_live_begin (out, "checks", "Checks by a second machine", *text);
    for (const char *line = strtok_r (text, "\n", &rest); line; line = strtok_r (NULL, "\n", &rest))
        wm_page_put (out,
                     strncmp (line, "WRONG", 5) && strncmp (line, "SCORES", 6)
                         ? "p"
                         : "p class=\"bad-text\"",
                     "%s", line);
    wm_live_end (out);
    free (text);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void put_graphs (FILE *out, const wm_top_campaign_t *campaign,
                        const wm_history_query_t *past)
{
    char per_s[32], before[64];
    float rate[PARTS];
    wm_history_query_part_t part[PARTS];
    wm_history_query_t whole = *past;
    whole.made_s = wm_ask_real (campaign->status, "campaign.submitted");
    const double now_s = (double) time (NULL), begin_s = wm_history_query_begin (&whole);
    const wm_history_query_work_t *did = &campaign->did;
    wm_ask_rows_s (campaign->status, 30, per_s);
    wm_live_begin (out, "rate", "Rate", true);
    fputs ("<div class=\"graphs\">\n", out);
    const double end_s = did->from_s > 0 ? did->to_s : now_s;
    const wm_live_graph_t minutes = { "minutes",      "Rate, last 15 minutes",
                                      per_s,          end_s - WM_TOP_BUCKETS * WM_TOP_BUCKET_S,
                                      end_s,          campaign->rate,
                                      WM_TOP_BUCKETS, past };
    wm_live_graph (out, &minutes);
    if (begin_s > 0) {
        const double last_s = fmax (end_s, begin_s + 1);
        wm_history_query_spread (&whole, begin_s, (last_s - begin_s) / PARTS, part, PARTS);
        for (int i = 0; i < PARTS; i++)
            rate[i] = (float) wm_history_query_rate (&part[i]);
        const wm_live_graph_t hours = {
            "hours", "Rate, since the campaign began", per_s, begin_s, last_s, rate, PARTS, past
        };
        wm_live_graph (out, &hours);
    }
    fputs ("</div>\n", out);
    if (past->hits_before > 0)
        wm_page_put (
            out, "p class=\"faint\"",
            "Not in these graphs, since it is not known when they were scored: %s.",
            wm_show_rows ((int64_t) past->hits_before, wm_ask_rows (campaign->status), before));
    wm_live_end (out);
}

static void put_about (FILE *out, const json_t *s)
{
    char up[32], a[32], b[32];
    wm_live_begin (out, "about", "Campaign", true);
    wm_page_put (out, "p", "Folder %s, output %s, id %s.", wm_ask_text (s, "dir"),
                 wm_ask_text (s, "campaign.output"), wm_ask_text (s, "campaign.id"));
    wm_page_put (out, "p", "Model %s, precision %s.", wm_ask_text (s, "campaign.model"),
                 wm_ask_text (s, "campaign.precision"));
    if (*wm_ask_text (s, "campaign.judged_by"))
        wm_page_put (out, "p", "Model judged by: %s.", wm_ask_text (s, "campaign.judged_by"));
    if (*wm_ask_text (s, "endpoint"))
        wm_page_put (out, "p", "Broker %s, version %s, up %s.", wm_ask_text (s, "endpoint"),
                     wm_ask_text (s, "version"), wm_show_time (wm_ask_real (s, "up_s"), up));
    if (*wm_ask_text (s, "endpoint"))
        wm_page_put (out, "p", "Received %s of hits, sent %s to workers; journal %s.",
                     wm_show_bytes (wm_ask_real (s, "bytes.payload_in"), a),
                     wm_show_bytes (wm_ask_real (s, "bytes.task_out"), b),
                     wm_show_bytes (wm_ask_real (s, "bytes.journal"), up));
    wm_live_end (out);
}

/* ---- all ------------------------------------------------------------------------------------- */

void wm_live_head (FILE *out, const char *title, const char *heading, double every_s,
                   bool has_script)
{
    fputs ("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
           out);
    wm_page_print (out, "%s", title);
    fputs ("</title>\n<link rel=\"icon\" href=\"data:,\">\n", out);
    if (every_s > 0)
        fprintf (out, "%s<meta http-equiv=\"refresh\" content=\"%.0f\">%s\n",
                 has_script ? "<noscript>" : "", ceil (every_s), has_script ? "</noscript>" : "");
    fprintf (out,
             "<style>%s</style>\n</head>\n<body data-every=\"%g\">\n"
             "<a class=\"skip\" href=\"#main\">Skip to the state</a>\n<header>\n",
             style, every_s);
    wm_page_put (out, "h1", "%s", heading);
    fputs ("<p id=\"contact\" role=\"status\"></p>\n", out);
}

void wm_live_foot (FILE *out)
{
    fprintf (out, "<script>%s</script>\n</body>\n</html>\n", script);
}

static void put_head (FILE *out, const char *name, const wm_top_campaign_t *campaign,
                      const char *base, double every_s)
{
    char title[200], percent[16] = "";
    const json_t *s = campaign->status;
    const double share = wm_account_share (s);
    if (s && share >= 0)
        snprintf (percent, sizeof percent, ", %d %%", (int) (100 * share));
    snprintf (title, sizeof title, "%s: %s%s%s", name, wm_top_state (campaign),
              s && !wm_account_is_clean (s) ? ", something held" : "", percent);
    wm_live_head (out, title, name, every_s, true);
    fprintf (out,
             "<nav aria-label=\"Sections\">%s<a href=\"#rate-h\">rate</a> "
             "<a href=\"#workers-h\">workers</a> <a href=\"#faults-h\">faults</a> "
             "<a href=\"#about-h\">campaign</a> <a href=\"%s/held\">held</a> "
             "<a href=\"%s/worst\">worst hits</a></nav>\n</header>\n"
             "<main id=\"main\" tabindex=\"-1\">\n",
             *base ? "<a href=\"/\">all campaigns</a> " : "", base, base);
}

char *wm_live_page (const wm_top_campaign_t *campaign, const wm_history_query_t *past,
                    const char *base, double every_s, size_t *bytes)
{
    char name[64], *text = NULL;
    const json_t *s = campaign->status;
    FILE *out = open_memstream (&text, bytes);
    assert (out);
    if (s)
        wm_account_name (s, name);
    else
        snprintf (name, sizeof name, "wiremill");
    put_head (out, name, campaign, base, every_s);
    put_state (out, campaign, wm_top_state (campaign));
    if (s) {
        put_progress (out, s);
        put_facts (out, s);
        put_checks (out, s);
        put_graphs (out, campaign, past);
        wm_live_held (out, s, base);
        wm_live_workers (out, s);
        wm_live_said (out, s);
        wm_live_inputs (out, s);
        wm_live_latencies (out, past);
        wm_live_faults (out, s, past);
        put_about (out, s);
    }
    fprintf (out,
             "</main>\n<footer><p><a href=\"%s/status.json\">status.json</a> "
             "<a href=\"%s/metrics\">metrics</a>. The page only reads; wiremill top changes.</p>"
             "</footer>\n",
             base, base);
    wm_live_foot (out);
    fclose (out);
    assert (text);
    return text;
}
