/* wm_top.c - see wm_top.h. */

#include "ops/view/wm_top.h"
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/view/wm_waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GRAPH_LEAST 10   /* columns */
#define CLOCK_COLUMNS 11 /* at the end of the first line */
#define TEXT_LINES_MAX 8 /* of one text where the screen is printed once */

/* ---- one campaign ---------------------------------------------------------------------------- */

const char *wm_top_state (const wm_top_campaign_t *campaign)
{
    const json_t *s = campaign->status;
    if (campaign->refusal)
        return "refused";
    if (!s)
        return *campaign->note ? "no answer" : "asking";
    const char *state = wm_ask_text (s, "campaign.state");
    if (!*wm_ask_text (s, "endpoint"))
        return strcmp (state, "idle") == 0 ? "stopped" : state;
    if (*campaign->note)
        return "no answer";
    if (wm_wait_stops (wm_waits_campaign (s)))
        return wm_waits[WM_WAIT_DISK].name; /* which disk is in the list of waits */
    return state;
}

static wm_style_t style_of (const char *state)
{
    static const struct {
        const char *state;
        wm_style_t style;
    } styles[] = { { "running", WM_GOOD }, { "busy", WM_GOOD },     { "finished", WM_GOOD },
                   { "stopped", WM_WARN }, { "no answer", WM_BAD }, { "refused", WM_BAD },
                   { "waiting", WM_BAD },  { "lost", WM_BAD } };
    static const wm_style_t of_severity[] = { WM_PLAIN, WM_WARN, WM_BAD };
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp (state, styles[i].state) == 0)
            return styles[i].style;
    return of_severity[wm_waits[wm_wait_find (state)].severity];
}

wm_style_t wm_top_style (const wm_top_campaign_t *campaign)
{
    const char *state = wm_top_state (campaign);
    return strcmp (state, "finished") == 0 && !wm_account_is_clean (campaign->status)
               ? WM_WARN
               : style_of (state);
}

/* The last n buckets as shares of the largest, which is returned.  */
static float scale (const wm_top_campaign_t *campaign, int n, float share[WM_TOP_BUCKETS])
{
    float most = 0;
    for (int i = 0; i < n; i++) {
        share[i] = campaign->rate[WM_TOP_BUCKETS - n + i];
        most = share[i] > most ? share[i] : most;
    }
    for (int i = 0; i < n; i++)
        share[i] = share[i] < 0 ? -1 : most > 0 ? share[i] / most : 0;
    return most;
}

static void name_of (const wm_top_campaign_t *campaign, char name[64])
{
    const char *given = campaign->given, *slash = strrchr (given, '/');
    const bool is_tcp = strncmp (given, "tcp://", 6) == 0, is_address = strstr (given, "://");
    if (campaign->status)
        wm_account_name (campaign->status, name);
    else
        snprintf (name, 64, "%.63s",
                  is_tcp                             ? given + 6
                  : slash && slash[1] && !is_address ? slash + 1
                                                     : given);
}

static int name_columns (const wm_screen_t *canvas)
{
    return canvas->columns >= 110 ? 32 : 16;
}

/* Of a name that is too long its end: there are the number of a run and the port of an address.  */
static void put_name (wm_screen_t *canvas, wm_style_t style, int width, const char *name)
{
    char text[80];
    const int n = (int) strlen (name);
    snprintf (text, sizeof text, "%s%s", n > width ? ".." : "",
              name + (n > width ? n - width + 2 : 0));
    wm_canvas_cell (canvas, style, width, text);
}

static const char *done_of (const json_t *s, char text[32])
{
    const double percent = wm_account_percent (s);
    if (percent < 0)
        return "-";
    snprintf (text, 32, "%.1f%%", percent);
    return text;
}

static const char *eta_of (const json_t *s, char text[32])
{
    const double eta_s = wm_ask_real (s, "eta_s");
    return eta_s > 0 && *wm_ask_text (s, "endpoint") ? wm_show_time (eta_s, text) : "-";
}

static const char *short_of (const json_t *s, const char *path, char text[32])
{
    return wm_show_short (wm_ask_real (s, path), text);
}

/* ---- several campaigns ----------------------------------------------------------------------- */

static void put_title (wm_screen_t *canvas, const char *text)
{
    char now[32] = "";
    struct tm local;
    const time_t time_s = time (NULL);
    if (localtime_r (&time_s, &local))
        strftime (now, sizeof now, "%H:%M:%S", &local);
    wm_canvas_put (canvas, WM_REVERSE, "%.*s", canvas->columns - CLOCK_COLUMNS, text);
    if (canvas->has_styles)
        wm_canvas_pad (canvas, WM_REVERSE, canvas->columns - CLOCK_COLUMNS);
    wm_canvas_put (canvas, WM_REVERSE, "  %s ", now);
    wm_canvas_next (canvas);
}

/* Rows; or, if a file is held, files.  */
static const char *held_of (const json_t *s, char text[32])
{
    const int64_t n_file = wm_ask_int (s, "inputs.held");
    if (!n_file)
        return short_of (s, "hits.held", text);
    snprintf (text, 32, "%lld file%s", (long long) n_file, n_file == 1 ? "" : "s");
    return text;
}

static void put_campaign_row (wm_screen_t *canvas, const wm_top_campaign_t *campaign, bool chosen)
{
    char name[64], text[32];
    float share[WM_TOP_BUCKETS];
    const json_t *s = campaign->status;
    const char *state = wm_top_state (campaign);
    const bool is_here = s && !*campaign->note;
    name_of (campaign, name);
    wm_canvas_put (canvas, WM_BOLD, "%s", chosen ? "> " : "  ");
    put_name (canvas, chosen ? WM_BOLD : WM_PLAIN, name_columns (canvas), name);
    wm_canvas_put (canvas, WM_PLAIN, " ");
    wm_canvas_cell (canvas, wm_top_style (campaign), 9, state);
    if (!s) {
        wm_canvas_put (canvas, WM_PLAIN, "  %s", campaign->note);
        wm_canvas_next (canvas);
        return;
    }
    wm_canvas_cell (canvas, WM_PLAIN, -7, done_of (s, text));
    wm_canvas_cell (canvas, WM_PLAIN, -9, is_here ? short_of (s, "rate.hits_s", text) : "-");
    wm_canvas_cell (canvas, WM_PLAIN, -11, is_here ? eta_of (s, text) : "-");
    wm_canvas_cell (canvas, WM_PLAIN, -8, is_here ? short_of (s, "workers_total", text) : "-");
    const int64_t n_held = wm_ask_int (s, "hits.held"), n_file = wm_ask_int (s, "inputs.held"),
                  n_alarm = wm_ask_int (s, "counters.alarm");
    wm_canvas_cell (canvas, n_held || n_file ? WM_BAD : WM_PLAIN, -9, held_of (s, text));
    wm_canvas_cell (canvas, n_alarm ? WM_BAD : WM_PLAIN, -7, short_of (s, "counters.alarm", text));
    wm_canvas_put (canvas, WM_PLAIN, "  ");
    int room = canvas->columns - canvas->used;
    if (*campaign->note && *wm_ask_text (s, "endpoint"))
        wm_canvas_put (canvas, WM_BAD, "%s", campaign->note);
    else if (room >= GRAPH_LEAST - 2) {
        room = room < 60 ? room : 60;
        scale (campaign, room, share);
        wm_canvas_graph (canvas, WM_COOL, share, room, 0, 1);
    }
    wm_canvas_next (canvas);
}

static void fill (wm_screen_t *canvas, const wm_top_view_t *view, int rows)
{
    while (view->has_keys && canvas->n < rows)
        wm_canvas_next (canvas);
}

/* The list scrolls so that the chosen row is on the screen.  */
static void scroll (const wm_screen_t *canvas, wm_top_view_t *view, int chosen, int n, int page)
{
    view->line = canvas->n;
    view->at = chosen;
    view->n = n;
    view->page = page = page < 1 ? 1 : page;
    if (view->first > n - page)
        view->first = n - page;
    if (view->first < 0)
        view->first = 0;
    if (chosen < view->first)
        view->first = chosen;
    if (chosen >= view->first + page)
        view->first = chosen - page + 1;
}

static void draw_list (wm_screen_t *canvas, wm_top_view_t *view, const wm_top_campaign_t *campaign,
                       int n)
{
    char title[64], per_s[32], other[32];
    wm_ask_rows_s (campaign[0].status, 8, per_s);
    for (int i = 1; i < n; i++)
        if (strcmp (per_s, wm_ask_rows_s (campaign[i].status, 8, other)) != 0)
            strcpy (per_s, "per s");
    snprintf (title, sizeof title, " wiremill top: %d campaigns", n);
    put_title (canvas, title);
    wm_canvas_put (canvas, WM_BOLD, "  %-*s %-9s%7s%9s%11s%8s%9s%7s", name_columns (canvas),
                   "CAMPAIGN", "STATE", "DONE", per_s, "ETA", "WORKERS", "HELD", "ALARMS");
    if (canvas->columns >= canvas->used + GRAPH_LEAST)
        wm_canvas_put (canvas, WM_BOLD, "  RATE");
    wm_canvas_next (canvas);
    scroll (canvas, view, view->chosen, n, view->has_keys ? canvas->rows - 4 : n);
    for (int i = view->first; i < n && i < view->first + view->page; i++)
        put_campaign_row (canvas, &campaign[i], view->has_keys && i == view->chosen);
    fill (canvas, view, canvas->rows - 2);
}

/* ---- workers --------------------------------------------------------------------------------- */

static const char *const sorts[] = { "name", "rate", "state", "temperature", "batches" };
#define SORTS ((int) (sizeof sorts / sizeof *sorts))

const char *wm_top_sort_next (wm_top_view_t *view)
{
    view->sort = (view->sort + 1) % SORTS;
    return sorts[view->sort];
}

typedef struct {
    const json_t *row;
    int by;
} sorted_t;

static int compare (const void *a, const void *b)
{
    static const char *const path[] = { "", "hits_s", "", "gpu.temperature_c", "batches" };
    const sorted_t *one = a, *other = b;
    double order = 0;
    if (*path[one->by])
        order = wm_ask_real (other->row, path[one->by]) - wm_ask_real (one->row, path[one->by]);
    else if (one->by)
        order = strcmp (wm_ask_text (one->row, "state"), wm_ask_text (other->row, "state"));
    if (order < 0 || order > 0)
        return order < 0 ? -1 : 1;
    return strcmp (wm_ask_text (one->row, "label"), wm_ask_text (other->row, "label"));
}

/* Whether one of these texts of a row, the last of which is NULL, has the filter.  */
static bool passes (const wm_top_view_t *view, const json_t *row, const char *const text[])
{
    bool is_in = !*view->filter;
    for (int i = 0; text[i] && !is_in; i++)
        is_in = strcasestr (wm_ask_text (row, text[i]), view->filter);
    return is_in;
}

static const char *const worker_texts[] = { "label", "gpu.gpu", "signature", "state", "why", NULL };

/* The workers that the view lists, in its order; *chosen is the place of the chosen one. Freed by
   the caller.  */
static sorted_t *sort_workers (const wm_top_view_t *view, const json_t *s, int *n, int *chosen)
{
    const json_t *list = json_object_get (s, "workers"), *one;
    size_t i;
    *n = *chosen = 0;
    sorted_t *sorted = calloc (json_array_size (list) + 1, sizeof *sorted);
    if (!sorted)
        return NULL;
    json_array_foreach (list, i, one)
    {
        if (view->screen != WM_TOP_CAMPAIGN || passes (view, one, worker_texts))
            sorted[(*n)++] = (sorted_t){ one, view->sort };
    }
    qsort (sorted, (size_t) *n, sizeof *sorted, compare);
    for (int k = 0; k < *n; k++)
        if (strcmp (wm_ask_text (sorted[k].row, "label"), view->worker) == 0)
            *chosen = k;
    return sorted;
}

void wm_top_device (const json_t *worker, char text[160])
{
    const char *gpu = wm_ask_text (worker, "gpu.gpu");
    if (strncmp (gpu, "NVIDIA ", 7) == 0)
        gpu += 7;
    snprintf (text, 160, "%.60s%s%.90s", gpu, *gpu ? ": " : "", wm_ask_text (worker, "signature"));
}

static const char *gpu_value (const json_t *worker, const char *name, const char *unit,
                              char text[32])
{
    const json_t *value = json_object_get (json_object_get (worker, "gpu"), name);
    if (!json_is_number (value))
        return "-";
    snprintf (text, 32, "%.0f%s", json_number_value (value), unit);
    return text;
}

/* Widths of the columns of a line of so many. Columns of a GPU are left out if no worker has one.
 */
typedef struct {
    int label, device;
    bool has_gpu, is_wide; /* wide: load and power of a GPU, hits */
} widths_t;

static widths_t widths_of (int columns, const json_t *s)
{
    widths_t w = { .label = columns >= 110 ? 32
                            : columns < 64 ? 16 /* the state has its place all the same */
                                           : 20,
                   .is_wide = columns >= 110 };
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get (s, "workers"), i, one) w.has_gpu =
        w.has_gpu || json_is_object (json_object_get (one, "gpu"));
    w.device = columns - 2 - w.label - 1 - 37 - (w.is_wide ? 7 : 0) - (w.has_gpu ? 6 : 0) -
               (w.has_gpu && w.is_wide ? 13 : 0);
    w.device = w.device < 8 ? 8 : w.device > 60 ? 60 : w.device;
    return w;
}

/* Puts a text of which the beginning matters; ".." marks one that is cut.  */
static void put_beginning (wm_screen_t *canvas, int width, const char *text)
{
    char cut[160];
    snprintf (cut, sizeof cut, "%.*s..", width - 2, text);
    wm_canvas_cell (canvas, WM_PLAIN, width, (int) strlen (text) > width ? cut : text);
}

/* Returns for how many seconds the broker has not heard of a worker; 0: it hears of it.  */
static double silent_s (const json_t *s, const char *label)
{
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get (s, "waits"), i,
                        one) if (wm_wait_find (wm_ask_text (one, "reason")) ==
                                     WM_WAIT_WORKER_SILENT &&
                                 strcmp (wm_ask_text (one, "peer"), label) ==
                                     0) return wm_ask_real (one, "since_s");
    return 0;
}

static void put_state (wm_screen_t *canvas, const json_t *s, const json_t *worker)
{
    char since[32];
    const char *state = wm_ask_text (worker, "state");
    const double since_s = silent_s (s, wm_ask_text (worker, "label"));
    if (since_s > 0)
        wm_canvas_put (canvas, WM_WARN, "silent %s", wm_show_time (since_s, since));
    else
        wm_canvas_put (canvas, style_of (state), "%s", state);
}

static void put_worker_heading (wm_screen_t *canvas, const wm_top_view_t *view, const json_t *s)
{
    char per_s[32];
    const widths_t w = widths_of (canvas->columns, s);
    wm_canvas_put (canvas, WM_BOLD, "  %-*s %-*.*s%8s", w.label, "WORKER", w.device, w.device,
                   w.has_gpu ? "DEVICE, ENGINE" : "ENGINE", wm_ask_rows_s (s, 7, per_s));
    if (w.has_gpu)
        wm_canvas_put (canvas, WM_BOLD, "%6s", "TEMP");
    if (w.has_gpu && w.is_wide)
        wm_canvas_put (canvas, WM_BOLD, "%6s%7s", "LOAD", "POWER");
    if (w.is_wide)
        wm_canvas_put (canvas, WM_BOLD, "%7s", "SCORED");
    wm_canvas_put (canvas, WM_BOLD, "%6s%9s  STATE", "RUNS", "BATCHES");
    if (view->has_keys && w.is_wide)
        wm_canvas_put (canvas, WM_PLAIN, "      by %s", sorts[view->sort]);
    wm_canvas_next (canvas);
}

static void put_worker (wm_screen_t *canvas, const wm_top_view_t *view, const json_t *s,
                        const json_t *worker, bool chosen)
{
    char device[160], text[32];
    const bool is_marked = view->has_keys && chosen;
    const widths_t w = widths_of (canvas->columns, s);
    const char *why = wm_ask_text (worker, "why");
    wm_top_device (worker, device);
    wm_canvas_put (canvas, WM_BOLD, "%s", is_marked ? "> " : "  ");
    wm_canvas_cell (canvas, is_marked ? WM_BOLD : WM_PLAIN, w.label, wm_ask_text (worker, "label"));
    wm_canvas_put (canvas, WM_PLAIN, " ");
    put_beginning (canvas, w.device, device);
    wm_canvas_cell (canvas, WM_PLAIN, -8, short_of (worker, "hits_s", text));
    if (w.has_gpu)
        wm_canvas_cell (canvas, WM_PLAIN, -6, gpu_value (worker, "temperature_c", " C", text));
    if (w.has_gpu && w.is_wide) {
        wm_canvas_cell (canvas, WM_PLAIN, -6, gpu_value (worker, "load", " %", text));
        wm_canvas_cell (canvas, WM_PLAIN, -7, gpu_value (worker, "power_w", " W", text));
    }
    if (w.is_wide)
        wm_canvas_cell (canvas, WM_PLAIN, -7, short_of (worker, "hits", text));
    wm_canvas_cell (canvas, WM_PLAIN, -6, short_of (worker, "running", text));
    wm_canvas_cell (canvas, WM_PLAIN, -9, short_of (worker, "batches", text));
    wm_canvas_put (canvas, WM_PLAIN, "  ");
    put_state (canvas, s, worker);
    if (*why && view->has_keys) /* Enter shows all of it */
        wm_canvas_put (canvas, WM_BAD, "%s%s", canvas->columns < 100 ? "!" : "  ",
                       canvas->columns < 100 ? "" : why);
    wm_canvas_next (canvas);
    if (*why && !view->has_keys)
        wm_canvas_wrap (canvas, WM_BAD, "    ", why, TEXT_LINES_MAX);
}

static const char *no_worker (const wm_top_view_t *view)
{
    return *view->filter ? "no worker passes the filter" : "no worker is connected";
}

/* Draws at most `room` lines: the heading, workers, and how many are not on the screen.  */
static void put_workers (wm_screen_t *canvas, wm_top_view_t *view, const json_t *s, int room)
{
    int n, chosen;
    const int64_t total = wm_ask_int (s, "workers_total");
    const int listed = (int) json_array_size (json_object_get (s, "workers"));
    sorted_t *sorted = sort_workers (view, s, &n, &chosen);
    const bool is_cut = total > n || (view->has_keys && n > room - 1);
    put_worker_heading (canvas, view, s);
    if (!n)
        wm_canvas_put (canvas, WM_PLAIN, "  %s", no_worker (view));
    scroll (canvas, view, chosen, n, view->has_keys ? room - 1 - is_cut : n);
    for (int i = view->first; i < n && i < view->first + view->page; i++)
        put_worker (canvas, view, s, sorted[i].row, i == chosen);
    if (!n)
        wm_canvas_next (canvas);
    if (is_cut && n) {
        const int last = view->first + view->page < n ? view->first + view->page : n;
        wm_canvas_put (canvas, WM_PLAIN, "  %d to %d of %lld workers", view->first + 1, last,
                       (long long) (total > n ? total : n));
        if (n < listed)
            wm_canvas_put (canvas, WM_PLAIN, "; %d pass the filter", n);
        if (total > listed)
            wm_canvas_put (canvas, WM_PLAIN, "; the broker lists %d", listed);
        wm_canvas_next (canvas);
    }
    free (sorted);
}

/* ---- one campaign's screen ------------------------------------------------------------------- */

static void put_counts (wm_screen_t *canvas, const json_t *s)
{
    char a[32], b[48], bar[64], rows[64];
    const double share = wm_account_share (s);
    const int width = canvas->columns - 40 > 50 ? 50 : canvas->columns - 40;
    wm_canvas_put (canvas, WM_BOLD, "%-9s%7s ", "progress", done_of (s, a));
    wm_canvas_put (canvas, WM_COOL, "%s",
                   wm_show_bar (share > 0 ? share : 0, width < 5 ? 5 : width, bar));
    wm_canvas_put (canvas, WM_PLAIN, "  ETA %s", eta_of (s, a));
    wm_canvas_next (canvas);
    wm_canvas_put (canvas, WM_PLAIN, "%-8s %s scored of %s, ", wm_ask_rows (s),
                   wm_show_count (wm_ask_int (s, "hits.done"), a), wm_account_all (s, b));
    wm_canvas_put (canvas, wm_ask_int (s, "hits.held") ? WM_BAD : WM_PLAIN, "%s held",
                   wm_show_count (wm_ask_int (s, "hits.held"), a));
    wm_canvas_put (canvas, WM_PLAIN, "; %s done",
                   wm_show_rows (wm_ask_int (s, "events.done"), "events", rows));
    wm_canvas_next (canvas);
    if (wm_ask_serves_clients (s))
        wm_canvas_put (canvas, WM_PLAIN, "clients  %lld connected",
                       (long long) wm_ask_int (s, "inputs.open"));
    else {
        wm_canvas_put (canvas, WM_PLAIN, "files    %lld of %lld written, %lld open, ",
                       (long long) wm_ask_int (s, "inputs.written"),
                       (long long) wm_ask_int (s, "inputs.total"),
                       (long long) wm_ask_int (s, "inputs.open"));
        wm_canvas_put (canvas, wm_ask_int (s, "inputs.held") ? WM_BAD : WM_PLAIN, "%lld held",
                       (long long) wm_ask_int (s, "inputs.held"));
    }
    wm_canvas_next (canvas);
    const double queued = wm_ask_real (s, "batches.queued") + wm_ask_real (s, "batches.asked");
    wm_canvas_put (canvas, WM_PLAIN, "batches  %s running, %s queued; failed %s",
                   short_of (s, "batches.running", a), wm_show_short (queued, b),
                   short_of (s, "counters.n_fail", (char[32]){ 0 }));
    wm_canvas_put (canvas, WM_PLAIN, ", lost %s, ", short_of (s, "counters.n_lost", a));
    wm_canvas_put (canvas, wm_ask_int (s, "counters.alarm") ? WM_BAD : WM_PLAIN, "alarms %s",
                   short_of (s, "counters.alarm", a));
    wm_canvas_next (canvas);
}

/* "23 Nov 06:40"; without a day: "06:40".  */
static const char *clock_of (int64_t time_s, bool with_day, char text[32])
{
    struct tm local;
    const time_t at = (time_t) time_s;
    *text = 0;
    if (localtime_r (&at, &local))
        strftime (text, 32, with_day ? "%d %b %H:%M" : "%H:%M", &local);
    return text;
}

const char *wm_top_did (const json_t *s, const wm_history_query_work_t *did, char text[256])
{
    char from[32], to[32], rate[32], up[32], per_s[32];
    *text = 0;
    if (did->from_s > 0)
        snprintf (text, 256, "%s to %s, mean %s %s in %s, at most %.0f worker%s",
                  clock_of ((int64_t) did->from_s, true, from),
                  clock_of ((int64_t) did->to_s, did->to_s - did->from_s > 86400, to),
                  wm_show_short (did->hits_s, rate), wm_ask_rows_s (s, 30, per_s),
                  wm_show_time (did->worked_s, up), did->workers_max,
                  did->workers_max > 1 ? "s" : "");
    return text;
}

/* Minutes before the end of the graph, each under its column: "-10" ends there.  */
static void put_minutes_ago (wm_screen_t *canvas, int n)
{
    enum { OF_MARK = 5 * 60 / WM_TOP_BUCKET_S };
    char text[16];
    for (int ago = n / OF_MARK * OF_MARK; ago >= 0; ago -= OF_MARK) {
        const int length = snprintf (text, sizeof text, "%d", -ago * WM_TOP_BUCKET_S / 60);
        const int column = 9 + n - ago - length;
        if (column < 9)
            continue;
        wm_canvas_pad (canvas, WM_PLAIN, column);
        wm_canvas_put (canvas, WM_PLAIN, "%s", text);
    }
    wm_canvas_put (canvas, WM_PLAIN, " min");
    wm_canvas_next (canvas);
}

/* Letters under the columns of the graph, if there are any.  */
static void put_marks (wm_screen_t *canvas, const wm_top_campaign_t *campaign, int n)
{
    bool is_any = false;
    for (int i = 0; i < n; i++) {
        const char letter = campaign->mark[WM_TOP_BUCKETS - n + i];
        if (letter <= ' ')
            continue;
        if (!is_any)
            wm_canvas_cell (canvas, WM_PLAIN, 9, "marks");
        is_any = true;
        wm_canvas_pad (canvas, WM_PLAIN, 9 + i);
        wm_canvas_put (canvas, WM_WARN, "%c", letter);
    }
    if (is_any)
        wm_canvas_next (canvas);
}

static void put_rate (wm_screen_t *canvas, const wm_top_campaign_t *campaign, int rows)
{
    float share[WM_TOP_BUCKETS];
    char now[32], most_text[32], per_s[32], head[64] = "";
    int n = canvas->columns - 9 - 22;
    n = n < 1 ? 1 : n > WM_TOP_BUCKETS ? WM_TOP_BUCKETS : n;
    const float most = scale (campaign, n, share);
    wm_ask_rows_s (campaign->status, 8, per_s);
    for (int row = rows - 1; row >= 0; row--) {
        wm_canvas_cell (canvas, WM_PLAIN, 9, row == rows - 1 ? per_s : "");
        wm_canvas_graph (canvas, WM_COOL, share, n, row, rows);
        wm_canvas_pad (canvas, WM_PLAIN, 9 + n + 1);
        if (row == 0)
            snprintf (head, sizeof head, "%s %s, %d min", campaign->did.from_s > 0 ? "to" : "now",
                      campaign->did.from_s > 0 ? clock_of ((int64_t) campaign->did.to_s, false, now)
                      : *campaign->note        ? "-"
                                               : short_of (campaign->status, "rate.hits_s", now),
                      (n * WM_TOP_BUCKET_S + 30) / 60);
        if (row == rows - 1 && rows > 1)
            snprintf (head, sizeof head, "most %s", wm_show_short (most, most_text));
        wm_canvas_put (canvas, WM_PLAIN, "%s", head);
        *head = 0;
        wm_canvas_next (canvas);
    }
    if (rows > 2) {
        put_marks (canvas, campaign, n);
        put_minutes_ago (canvas, n);
    }
}

/* For scripts: the graph as means of minutes, the latest last; "-" is not known.  */
static void put_minutes (wm_screen_t *canvas, const wm_top_campaign_t *campaign)
{
    enum { OF_MINUTE = 60 / WM_TOP_BUCKET_S };
    char text[32], per_s[32], all[32 * (WM_TOP_BUCKETS / OF_MINUTE + 2)];
    int first = 0, length = 0;
    while (first < WM_TOP_BUCKETS && campaign->rate[first] < 0)
        first++;
    if (first == WM_TOP_BUCKETS)
        return;
    for (int i = first - first % OF_MINUTE; i < WM_TOP_BUCKETS; i += OF_MINUTE) {
        double sum = 0;
        int n = 0;
        for (int k = i; k < i + OF_MINUTE; k++)
            if (campaign->rate[k] >= 0) {
                sum += (double) campaign->rate[k];
                n++;
            }
        length += sprintf (all + length, "%s ", n ? wm_show_short (sum / n, text) : "-");
    }
    sprintf (all + length, "%s", wm_ask_rows_s (campaign->status, 30, per_s));
    wm_canvas_wrap (canvas, WM_PLAIN, "minutes  ", all, TEXT_LINES_MAX);
}

/* What is held and what the broker logged last; `rows` texts at most, each in at most `lines`
   lines; 0: draws nothing. Returns how many texts.  */
static int put_events (wm_screen_t *canvas, const json_t *s, int rows, int lines)
{
    char ago[32], head[48], *text = NULL;
    size_t i, size;
    int n = 0;
    const json_t *one, *held = json_object_get (s, "held"), *said = json_object_get (s, "said");
    const int n_said = (int) json_array_size (said), n_held = (int) json_array_size (held);
    const int of_held = n_held + n_said > rows && n_said ? rows / 2 : rows;
    json_array_foreach (held, i, one)
    {
        FILE *out = n < of_held && lines ? open_memstream (&text, &size) : NULL;
        if (n >= of_held)
            break;
        n++;
        if (!out)
            continue;
        wm_ask_held (out, one);
        fclose (out);
        text[strcspn (text, "\n")] = 0;
        wm_canvas_wrap (canvas, WM_WARN, "", text, lines);
        free (text);
    }
    json_array_foreach (said, i, one)
    {
        if (n >= rows)
            break;
        n++;
        snprintf (head, sizeof head, "%s ago: ", wm_show_time (wm_ask_real (one, "ago_s"), ago));
        wm_canvas_wrap (canvas, WM_PLAIN, head, wm_ask_text (one, "text"), lines);
    }
    return n;
}

#define WAITS_MAX 3 /* of them on a campaign's screen; w shows all */

static void put_waits (wm_screen_t *canvas, const wm_top_view_t *view, const json_t *s)
{
    char text[WM_WAITS_TEXT_BYTES], head[64];
    json_t *list = wm_waits_of (s);
    const bool is_whole = !view->has_keys || view->screen == WM_TOP_WHY;
    const size_t n = json_array_size (list), most = is_whole ? n : WAITS_MAX;
    const char *waiting = wm_ask_text (s, "waiting_for");
    for (size_t i = 0, shown = 0; i < n && shown < most; i++) {
        const json_t *one = json_array_get (list, i);
        const char *reason = wm_ask_text (one, "reason");
        if (!*wm_ask_text (one, "peer") && strcmp (reason, waiting) == 0)
            continue;
        shown++;
        snprintf (head, sizeof head, "%.40s: ", reason);
        wm_canvas_wrap (canvas, wm_waits_severity (one) == WM_WAIT_CRITICAL ? WM_BAD : WM_WARN,
                        head, wm_waits_text (one, true, text), is_whole ? TEXT_LINES_MAX : 2);
    }
    json_decref (list);
}

static void put_note (wm_screen_t *canvas, const wm_top_view_t *view,
                      const wm_top_campaign_t *campaign)
{
    char age[32];
    const json_t *s = campaign->status;
    const char *waiting = wm_ask_text (s, "waiting_for"), *paused = wm_ask_text (s, "paused");
    if (*campaign->note) {
        wm_canvas_wrap (canvas, WM_BAD, "", campaign->note, 3);
        if (s && *wm_ask_text (s, "endpoint")) {
            wm_canvas_put (canvas, WM_WARN, "what follows is %s old",
                           wm_show_time (campaign->age_s, age));
            wm_canvas_next (canvas);
        }
    } else if (*wm_ask_text (s, "endpoint") && view->late_s > 0 && campaign->age_s > view->late_s) {
        wm_canvas_put (canvas, WM_WARN, "the broker has not answered for %s",
                       wm_show_time (campaign->age_s, age));
        wm_canvas_next (canvas);
    }
    if (*paused)
        wm_canvas_wrap (canvas, WM_WARN, "paused: ", paused, 3);
    else if (*waiting)
        wm_canvas_wrap (canvas, WM_WARN, "waiting for: ", waiting, 3);
    if (*wm_ask_text (s, "endpoint"))
        put_waits (canvas, view, s);
}

/* On a narrow screen the end of the address: there are a broker's port and a campaign's name.  */
static void put_campaign_title (wm_screen_t *canvas, const wm_top_campaign_t *campaign)
{
    char title[512], name[64], up[32], head[128], tail[64];
    const json_t *s = campaign->status;
    const char *endpoint = wm_ask_text (s, "endpoint");
    name_of (campaign, name);
    snprintf (head, sizeof head, " %s: %s", name, wm_top_state (campaign));
    snprintf (tail, sizeof tail, "  up %s",
              wm_show_time (wm_ask_real (s, "up_s") + campaign->age_s, up));
    const int room = canvas->columns - CLOCK_COLUMNS - (int) (strlen (head) + strlen (tail)) - 10;
    const int over = (int) strlen (endpoint) - (room > 8 ? room : 8);
    if (!*endpoint)
        snprintf (title, sizeof title, "%s%s", head, s ? "   no broker runs" : "");
    else
        snprintf (title, sizeof title, "%s   broker %s%.200s%s", head, over > 0 ? ".." : "",
                  endpoint + (over > 0 ? over + 2 : 0), tail);
    put_title (canvas, title);
}

static void draw_campaign (wm_screen_t *canvas, wm_top_view_t *view,
                           const wm_top_campaign_t *campaign)
{
    char did[256];
    const json_t *s = campaign->status;
    put_campaign_title (canvas, campaign);
    put_note (canvas, view, campaign);
    if (!s) {
        if (!*campaign->note)
            wm_canvas_put (canvas, WM_PLAIN, "asking %s", campaign->given);
        wm_canvas_next (canvas);
        fill (canvas, view, canvas->rows - 2);
        return;
    }
    put_counts (canvas, s);
    if (*wm_top_did (s, &campaign->did, did))
        wm_canvas_wrap (canvas, WM_PLAIN, "worked   ", did, 2);
    if (view->has_keys)
        put_rate (canvas, campaign,
                  canvas->rows >= 30   ? canvas->rows / 5
                  : canvas->rows >= 22 ? 2
                                       : 1);
    else {
        char rate[32], per_s[32];
        wm_canvas_put (canvas, WM_PLAIN, "%-8s %s", wm_ask_rows_s (s, 30, per_s),
                       short_of (s, "rate.hits_s", rate));
        wm_canvas_next (canvas);
        put_minutes (canvas, campaign);
    }
    wm_canvas_next (canvas);
    const int left = canvas->rows - 2 - canvas->n;
    const int n_event = put_events (canvas, s, view->has_keys ? left / 3 : 20, 0);
    const int room = left - n_event - (n_event > 0);
    if (room >= 2 || !view->has_keys)
        put_workers (canvas, view, s, room);
    fill (canvas, view, canvas->rows - 2 - n_event);
    put_events (canvas, s, n_event, view->has_keys ? 1 : TEXT_LINES_MAX);
    fill (canvas, view, canvas->rows - 2);
}

/* ---- why, files ------------------------------------------------------------------------------ */

static void draw_why (wm_screen_t *canvas, wm_top_view_t *view, const wm_top_campaign_t *campaign)
{
    put_campaign_title (canvas, campaign);
    const int before = canvas->n;
    put_note (canvas, view, campaign);
    put_events (canvas, campaign->status, canvas->rows, TEXT_LINES_MAX);
    if (canvas->n == before) {
        wm_canvas_put (canvas, WM_PLAIN, "nothing holds the campaign back, and nothing is held");
        wm_canvas_next (canvas);
    }
    fill (canvas, view, canvas->rows - 2);
}

static const json_t **list_files (const wm_top_view_t *view, const json_t *files, int *n)
{
    static const char *const text[] = { "path", "output", "state", "why", NULL };
    const json_t **list = calloc (json_array_size (files) + 1, sizeof *list), *one;
    size_t i;
    *n = 0;
    if (list)
        json_array_foreach (files, i, one)
        {
            if (passes (view, one, text))
                list[(*n)++] = one;
        }
    return list;
}

#define COUNTS_COLUMNS 29 /* STATE, ROWS and HELD ROWS, each behind a space */

static void put_file (wm_screen_t *canvas, const json_t *file, bool chosen, int input, int output)
{
    char text[32];
    const char *state = wm_ask_text (file, "state");
    const bool is_held = strcmp (state, "held") == 0, is_open = strcmp (state, "open") == 0;
    wm_canvas_put (canvas, WM_BOLD, "%s", chosen ? "> " : "  ");
    put_name (canvas, chosen ? WM_BOLD : WM_PLAIN, input, wm_ask_text (file, "path"));
    if (output) {
        wm_canvas_put (canvas, WM_PLAIN, " ");
        put_name (canvas, WM_PLAIN, output, wm_ask_text (file, "output"));
    }
    wm_canvas_put (canvas, WM_PLAIN, " ");
    wm_canvas_cell (canvas, is_held ? WM_BAD : is_open ? WM_COOL : WM_PLAIN, 8, state);
    wm_canvas_cell (canvas, WM_PLAIN, -10,
                    is_held || is_open ? "-" : short_of (file, "hits", text));
    wm_canvas_cell (canvas, WM_PLAIN, -10, is_held ? "-" : short_of (file, "held", text));
    wm_canvas_next (canvas);
}

static void put_files (wm_screen_t *canvas, wm_top_view_t *view, const json_t *files)
{
    enum { WHY_LINES = 3 };
    int n;
    const json_t **list = list_files (view, files, &n);
    const int columns = canvas->columns - 2 - COUNTS_COLUMNS, output = columns >= 70 ? 28 : 0;
    const int input =
        columns - (output ? output + 1 : 0) < 8 ? 8 : columns - (output ? output + 1 : 0);
    wm_canvas_put (canvas, WM_BOLD, "  %-*s ", input, "INPUT");
    if (output)
        wm_canvas_put (canvas, WM_BOLD, "%-*s ", output, "OUTPUT");
    wm_canvas_put (canvas, WM_BOLD, "%-8s%10s%10s", "STATE", "ROWS", "HELD ROWS");
    wm_canvas_next (canvas);
    const int room = canvas->rows - 2 - canvas->n - 1 - WHY_LINES;
    scroll (canvas, view, view->at < n ? view->at : n ? n - 1 : 0, n, room);
    if (!n)
        wm_canvas_put (canvas, WM_PLAIN, "  %s",
                       !files                    ? "asking for the files"
                       : json_array_size (files) ? "no file passes the filter"
                                                 : "no inputs yet");
    for (int i = view->first; i < n && i < view->first + view->page; i++)
        put_file (canvas, list[i], i == view->at, input, output);
    if (n)
        wm_canvas_put (canvas, WM_PLAIN, "  %d to %d of %d files", view->first + 1,
                       view->first + view->page < n ? view->first + view->page : n, n);
    if (json_array_size (files) == WM_TOP_FILES_MAX)
        wm_canvas_put (canvas, WM_PLAIN, ", of the first %d; wiremill status --files lists all",
                       WM_TOP_FILES_MAX);
    wm_canvas_next (canvas);
    fill (canvas, view, canvas->rows - 2 - WHY_LINES);
    if (n && *wm_ask_text (list[view->at], "why"))
        wm_canvas_wrap (canvas, WM_WARN, "", wm_ask_text (list[view->at], "why"), WHY_LINES);
    free (list);
}

static void draw_files (wm_screen_t *canvas, wm_top_view_t *view, const wm_top_campaign_t *campaign)
{
    put_campaign_title (canvas, campaign);
    put_note (canvas, view, campaign);
    put_counts (canvas, campaign->status);
    wm_canvas_next (canvas);
    put_files (canvas, view, campaign->files);
    fill (canvas, view, canvas->rows - 2);
}

/* ---- one worker, help ------------------------------------------------------------------------ */

static void put_value (wm_screen_t *canvas, const char *name, const char *text)
{
    char head[32];
    snprintf (head, sizeof head, "  %-18.18s ", name);
    wm_canvas_wrap (canvas, WM_PLAIN, head, text, 4);
}

/* The characters of a label before its process: the host.  */
static size_t host_of (const char *label)
{
    return strcspn (label, ":");
}

/* "vm, with 3 others, together 12.3k hits/s".  */
static void put_host (wm_screen_t *canvas, const json_t *s, const char *label)
{
    char text[200], rate[32], per_s[32];
    const size_t n = host_of (label);
    const json_t *one;
    size_t i;
    int n_other = -1;
    double hits_s = 0;
    json_array_foreach (json_object_get (s, "workers"), i, one)
    {
        const char *of_one = wm_ask_text (one, "label");
        if (host_of (of_one) != n || strncmp (of_one, label, n) != 0)
            continue;
        n_other++;
        hits_s += wm_ask_real (one, "hits_s");
    }
    if (n_other > 0)
        snprintf (text, sizeof text, "%.*s, with %d other%s, together %s %s", (int) n, label,
                  n_other, n_other == 1 ? "" : "s", wm_show_short (hits_s, rate),
                  wm_ask_rows_s (s, 30, per_s));
    else
        snprintf (text, sizeof text, "%.*s", (int) n, label);
    put_value (canvas, "host", text);
}

/* What the broker has logged of it, the latest first.  */
static void put_logged (wm_screen_t *canvas, const json_t *s, const char *label)
{
    char ago[32], head[48];
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get (s, "said"), i, one)
    {
        const char *text = wm_ask_text (one, "text"), *at = strstr (text, label);
        if (!at || (at[strlen (label)] >= '0' && at[strlen (label)] <= '9'))
            continue; /* of another process */
        snprintf (head, sizeof head, "  %s ago: ", wm_show_time (wm_ask_real (one, "ago_s"), ago));
        wm_canvas_wrap (canvas, WM_PLAIN, head, text, TEXT_LINES_MAX);
    }
}

static void draw_worker (wm_screen_t *canvas, wm_top_view_t *view,
                         const wm_top_campaign_t *campaign)
{
    int n, chosen;
    char text[160], number[64], batches[64], per_s[32];
    const json_t *s = campaign->status;
    sorted_t *sorted = sort_workers (view, s, &n, &chosen);
    const json_t *worker = n ? sorted[chosen].row : NULL, *value;
    const char *key;
    put_campaign_title (canvas, campaign);
    put_note (canvas, view, campaign);
    wm_canvas_next (canvas);
    if (!worker || strcmp (wm_ask_text (worker, "label"), view->worker) != 0) {
        wm_canvas_put (canvas, WM_WARN, "%s is not connected any more", view->worker);
        wm_canvas_next (canvas);
    } else {
        put_value (canvas, "worker", view->worker);
        put_value (canvas, "state", wm_ask_text (worker, "state"));
        if (silent_s (s, view->worker) > 0)
            put_value (canvas, "silent for", wm_show_time (silent_s (s, view->worker), number));
        put_host (canvas, s, view->worker);
        if (*wm_ask_text (worker, "why"))
            put_value (canvas, "why", wm_ask_text (worker, "why"));
        put_value (canvas, "engine", wm_ask_text (worker, "signature"));
        snprintf (text, sizeof text, "%s in hand, room for %lld more",
                  wm_show_rows (wm_ask_int (worker, "running"), "batches", number),
                  (long long) wm_ask_int (worker, "credit"));
        put_value (canvas, "executes", text);
        snprintf (text, sizeof text, "%s %s", short_of (worker, "hits_s", number),
                  wm_ask_rows_s (s, 30, per_s));
        put_value (canvas, "rate", text);
        snprintf (text, sizeof text, "%s, %s",
                  wm_show_rows (wm_ask_int (worker, "batches"), "batches", batches),
                  wm_show_rows (wm_ask_int (worker, "hits"), wm_ask_rows (s), number));
        put_value (canvas, "has scored", text);
        if (json_is_number (json_object_get (worker, "cpu_s")))
            put_value (canvas, "CPU time", wm_show_time (wm_ask_real (worker, "cpu_s"), number));
        json_object_foreach (json_object_get (worker, "gpu"), key, value)
        {
            snprintf (number, sizeof number, "%.10g", json_number_value (value));
            put_value (canvas, key, json_is_string (value) ? json_string_value (value) : number);
        }
        wm_canvas_next (canvas);
        put_logged (canvas, s, view->worker);
    }
    free (sorted);
    fill (canvas, view, canvas->rows - 2);
}

static void draw_help (wm_screen_t *canvas, wm_top_view_t *view)
{
    static const char *const lines[] = {
        "up down j k      choose a campaign or a worker; Page Up, Page Down, Home, End",
        "Enter            open the chosen campaign, inspect the chosen worker",
        "Esc, Backspace   back",
        "s                sort workers by name, rate, state, temperature, batches",
        "/                list only workers, or files, that contain a text; Esc: all",
        "f                the campaign's files",
        "w                why: all that it waits for, and what is held",
        "p                pause the campaign: workers finish what they have",
        "r                resume it, after a pause or a drain",
        "d                drain the chosen worker: it finishes its batch and leaves",
        "D                drain all workers; new ones are sent away until r",
        "mouse            a click chooses, another opens; on the heading it sorts",
        "m                leave the mouse to the terminal, to select text, or take it",
        "Ctrl-L           draw the screen again",
        "q, Ctrl-C        quit; the campaign goes on",
        "",
        "p, r, d and D ask before they do something. DONE counts what is scored or",
        "held; RUNS is how many batches a worker has in hand. A column of the graph",
        "is 5 seconds. TEMP is the GPU's; a CPU worker reports none.",
    };
    put_title (canvas, " wiremill top: help");
    wm_canvas_next (canvas);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        wm_canvas_put (canvas, WM_PLAIN, "  %s", lines[i]);
        wm_canvas_next (canvas);
    }
    fill (canvas, view, canvas->rows - 2);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The first that fits the terminal; on a narrow one keys without words, which `?` explains.  */
static const char *keys_of (const wm_top_view_t *view, int n_campaign, int columns)
{
    static const char *const keys[][4] = {
        [WM_TOP_LIST] = { "q quit  Enter open  p pause  r resume  D drain  ? help",
                          "q quit  Enter p r D  ? help" },
        [WM_TOP_CAMPAIGN] = { "q quit  p pause  r resume  d drain  s sort  / filter  f files  "
                              "w why  ? help",
                              "q quit  p r d s / f w  ? help" },
        [WM_TOP_WORKER] = { "q quit  Esc back  d drain this worker  ? help",
                            "q quit  Esc back  d drain  ? help" },
        [WM_TOP_FILES] = { "q quit  Esc back  / filter  p pause  r resume  ? help",
                           "q quit  Esc back  /  ? help" },
        [WM_TOP_WHY] = { "q quit  Esc back  p pause  r resume  ? help",
                         "q quit  Esc back  ? help" },
        [WM_TOP_HELP] = { "any key: back" },
    };
    static const char *const one_of[] = {
        "q quit  Esc back  p pause  r resume  d drain  / filter  f files  w why  ? help",
        "q quit  Esc  p r d s / f w  ? help",
    };
    const char *const *text =
        view->screen == WM_TOP_CAMPAIGN && n_campaign > 1 ? one_of : keys[view->screen];
    return (int) strlen (text[0]) > columns && view->screen != WM_TOP_HELP ? text[1] : text[0];
}

static void put_message (wm_screen_t *canvas, const wm_top_view_t *view)
{
    const bool has_filter = view->screen == WM_TOP_CAMPAIGN || view->screen == WM_TOP_FILES;
    if (view->is_typing)
        wm_canvas_put (canvas, WM_REVERSE, "filter: %s_  (Enter keeps it, Esc removes it)",
                       view->filter);
    else if (*view->message || !*view->filter || !has_filter)
        wm_canvas_put (canvas, view->is_question ? WM_REVERSE : WM_WARN, "%s", view->message);
    else
        wm_canvas_put (canvas, WM_WARN, "filter: %s  (Esc removes it)", view->filter);
    wm_canvas_next (canvas);
}

void wm_top_draw (wm_screen_t *canvas, wm_top_view_t *view, const wm_top_campaign_t *campaign,
                  int n_campaign)
{
    const wm_top_campaign_t *chosen = &campaign[view->chosen];
    const int rows = canvas->rows;
    view->n = 0;
    switch (view->screen) {
    case WM_TOP_LIST:
        draw_list (canvas, view, campaign, n_campaign);
        break;
    case WM_TOP_CAMPAIGN:
        draw_campaign (canvas, view, chosen);
        break;
    case WM_TOP_WORKER:
        draw_worker (canvas, view, chosen);
        break;
    case WM_TOP_FILES:
        draw_files (canvas, view, chosen);
        break;
    case WM_TOP_WHY:
        draw_why (canvas, view, chosen);
        break;
    case WM_TOP_HELP:
        draw_help (canvas, view);
        break;
    }
    if (!view->has_keys)
        return;
    if (canvas->n > rows - 2) /* a small terminal: the last two lines are needed most */
        canvas->n = rows > 2 ? rows - 2 : 0;
    canvas->used = 0;
    canvas->bytes = 0;
    put_message (canvas, view);
    wm_canvas_put (canvas, WM_BOLD, "%s", keys_of (view, n_campaign, canvas->columns));
    wm_canvas_next (canvas);
}

void wm_top_move (wm_top_view_t *view, const wm_top_campaign_t *campaign, int n_campaign, int rows)
{
    int n, chosen;
    if (view->screen == WM_TOP_LIST) {
        const int to = rows < -n_campaign ? 0 : view->chosen + rows;
        view->chosen = to < 0 ? 0 : to >= n_campaign ? n_campaign - 1 : to;
        return;
    }
    if (view->screen == WM_TOP_FILES) { /* drawing brings it back into the list */
        view->at = rows < -view->at ? 0 : view->at + rows;
        return;
    }
    sorted_t *sorted = sort_workers (view, campaign[view->chosen].status, &n, &chosen);
    const int to = chosen + rows < 0 ? 0 : chosen + rows >= n ? n - 1 : chosen + rows;
    snprintf (view->worker, sizeof view->worker, "%s",
              n ? wm_ask_text (sorted[to].row, "label") : "");
    free (sorted);
}

bool wm_top_click (wm_top_view_t *view, const wm_top_campaign_t *campaign, int n_campaign, int line)
{
    const int row = view->first + line - view->line, before = view->at;
    if (line < view->line || line >= view->line + view->page || row >= view->n)
        return false;
    wm_top_move (view, campaign, n_campaign, row - before);
    return row == before;
}
