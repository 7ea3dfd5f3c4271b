/* status.c - `wiremill status`: how far a campaign is, and its workers.

   With a broker running it is asked; with none, wiremill-broker reads the ledger under the
   campaign's lock. Either way the answer is the JSON "wiremill-status-1", which --json prints as it
   is.  */

#include "ops/ask/wm_account.h"
#include "ops/ask/wm_arithmetic.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_complain.h"
#include "ops/verbs.h"
#include "ops/view/wm_top.h"
#include "ops/view/wm_waits.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HELD_SHOWN_MAX 10

/* clang-format off */
static const wm_option_t options[] = {
    WHERE_OPTIONS,
    {.name = "files", .task = "what",
     .help = "its inputs instead: output, state, rows, and how many of them are held"},
    {.name = "marks",
     .help = "its time line instead: pauses, lost workers, held inputs, full disks, and why"},
    {.name = "json",
     .task = "how", .help = "as JSON: wiremill-status-1, wiremill-files-1 or wiremill-marks-1"},
    {.name = "watch", .help = "again and again until the campaign is finished or no broker runs"},
    {.name = "interval", .value = "TIME", .fallback = "2s", .is_above = true,
     .help = "with --watch: how often"},
    {.name = NULL},
};

static int status_main (const wm_args_t *args);
const wm_verb_t wm_verb_status = {
    .name = "status", .task = WATCH_TASK, .rest = "[DIR]",
    .summary = "how far a campaign is, and its workers",
    .text = "  wiremill status out/\n"
            "  wiremill status --files out/\n"
            "  wiremill status --marks out/\n"
            "  wiremill status --watch out/\n",
    .options = options, .run = status_main };
/* clang-format on */

/* ---- printing -------------------------------------------------------------------------------- */

#define CELLS 8
#define CELL_BYTES 48
#define RATE_WIDTH 14

/* The code of a style if stdout may have colours.  */
static const char *color (wm_style_t style)
{
    return wm_show_has_colors (STDOUT_FILENO) ? wm_style_code (style) : "";
}

/* One line of the table, in the columns of the terminal: what does not fit is left out. `style` is
   that of the state.  */
static void show_cells (char cell[CELLS][CELL_BYTES], int rate_width, wm_style_t style)
{
    /* the last that people look for is left out first; the bar stands without a heading */
    static const int rank[CELLS] = { 0, 1, 6, 2, 5, 3, 4, 7 };
    const int cell_width[CELLS] = { -14, -9, -12, 7, 9, rate_width, 10, 12 };
    char padded[CELLS][CELL_BYTES], line[WM_WORDS_WIDTH_MAX + 1];
    wm_show_part_t part[CELLS];
    for (int i = 0; i < CELLS; i++) {
        snprintf (padded[i], CELL_BYTES, "%*s", cell_width[i], cell[i]);
        part[i] = (wm_show_part_t){ padded[i], rank[i] };
    }
    int end = wm_show_fit (part, CELLS, wm_words_width (STDOUT_FILENO), line);
    while (end && line[end - 1] == ' ')
        end--;
    line[end] = 0;
    const size_t name = strlen (cell[0]); /* may have the word, too */
    const char *state =
        style == WM_PLAIN || (size_t) end < name ? NULL : strstr (line + name, cell[1]);
    const int before = state ? (int) (state - line) : end;
    printf ("%.*s", before, line);
    if (state)
        printf ("%s%s%s%s", color (style), cell[1], color (WM_PLAIN), state + strlen (cell[1]));
    putchar ('\n');
}

static void show_campaign (const json_t *s)
{
    char head[CELLS][CELL_BYTES] = { "CAMPAIGN", "STATE", "SUBMITTED", "DONE",
                                     "EVENTS",   "",      "ETA",       "" };
    char cell[CELLS][CELL_BYTES] = { "", "", "-", "-", "", "", "-", "" };
    char name[64], text[32], bar[64];
    const double share = wm_account_share (s), eta_s = wm_ask_real (s, "eta_s");
    const time_t submitted_s = (time_t) wm_ask_int (s, "campaign.submitted");
    const int64_t queued = wm_ask_int (s, "batches.queued") + wm_ask_int (s, "batches.asked");
    struct tm local;
    const wm_top_campaign_t campaign = { .status = (json_t *) (uintptr_t) s };
    wm_account_name (s, name);
    snprintf (cell[0], CELL_BYTES, "%.14s", name);
    snprintf (cell[1], CELL_BYTES, "%s", wm_top_state (&campaign));
    if (localtime_r (&submitted_s, &local))
        strftime (cell[2], CELL_BYTES, "%b %d %H:%M", &local);
    if (share >= 0)
        snprintf (cell[3], CELL_BYTES, "%.1f%%", wm_account_percent (s));
    snprintf (cell[4], CELL_BYTES, "%s", wm_show_count (wm_ask_int (s, "events.announced"), text));
    snprintf (cell[5], CELL_BYTES, "%s", wm_show_short (wm_ask_real (s, "rate.hits_s"), text));
    if (eta_s > 0)
        snprintf (cell[6], CELL_BYTES, "%s", wm_show_time (eta_s, text));
    snprintf (cell[7], CELL_BYTES, "%s", wm_show_bar (share > 0 ? share : 0, 10, bar));
    const int rate_width = (int) strlen (wm_ask_rows_s (s, RATE_WIDTH, head[5]));
    show_cells (head, rate_width > 7 ? rate_width : 7, WM_PLAIN);
    show_cells (cell, rate_width > 7 ? rate_width : 7, wm_top_style (&campaign));
    if (wm_ask_serves_clients (s))
        printf ("clients: %lld connected; nothing of their patches is kept",
                (long long) wm_ask_int (s, "inputs.open"));
    else
        printf (
            "files: %lld written, %lld open, %lld held of %lld",
            (long long) wm_ask_int (s, "inputs.written"), (long long) wm_ask_int (s, "inputs.open"),
            (long long) wm_ask_int (s, "inputs.held"), (long long) wm_ask_int (s, "inputs.total"));
    if (wm_ask_int (s, "inputs.changed"))
        printf ("; %lld changed", (long long) wm_ask_int (s, "inputs.changed"));
    printf ("\n%s: ", wm_ask_rows (s));
    wm_account_hits (stdout, s);
    putchar ('\n');
    if (*wm_ask_text (s, "endpoint"))
        printf ("batches: %lld running, %lld queued\n",
                (long long) wm_ask_int (s, "batches.running"), (long long) queued);
}

/* What NVML reports of a worker's GPU; it leaves some values out.  */
static void show_gpu (const json_t *gpu)
{
    const json_t *value;
    if (!json_is_object (gpu))
        return;
    printf ("  %s", json_object_get (gpu, "gpu") ? wm_ask_text (gpu, "gpu") : "GPU");
    if ((value = json_object_get (gpu, "temperature_c")))
        printf ("  %.0f C", json_number_value (value));
    if ((value = json_object_get (gpu, "power_w")))
        printf ("  %.0f W", json_number_value (value));
    if ((value = json_object_get (gpu, "power_limit_w")))
        printf (" of %.0f", json_number_value (value));
    if ((value = json_object_get (gpu, "load")))
        printf ("  load %.0f %%", json_number_value (value));
    if ((value = json_object_get (gpu, "memory_used_mb")))
        printf ("  memory %.1f of %.1f GiB", json_number_value (value) / 1024,
                wm_ask_real (gpu, "memory_mb") / 1024);
    if ((value = json_object_get (gpu, "ecc_uncorrected")))
        printf ("  ECC %.0f corrected, %.0f not", wm_ask_real (gpu, "ecc_corrected"),
                json_number_value (value));
    if (*wm_ask_text (gpu, "throttled"))
        printf ("  slowed by: %s", wm_ask_text (gpu, "throttled"));
    printf ("\n");
}

static void show_workers (const json_t *s)
{
    const json_t *list = json_object_get (s, "workers"), *one;
    size_t i;
    char rate[32], per_s[32];
    if (!json_array_size (list))
        return;
    const int width = wm_words_width (STDOUT_FILENO); /* 85 and more show all of a usual name */
    const int engine = width >= 85 ? 30 : width > 65 ? width - 55 : 10;
    printf ("\n%-24s %-*s %-9s %8s %10s\n", "WORKER", engine, "ENGINE", "STATE", "BATCHES",
            wm_ask_rows_s (s, 10, per_s));
    json_array_foreach (list, i, one)
    {
        printf ("%-24.24s %-*.*s %-9s %8lld %10s\n", wm_ask_text (one, "label"), engine, engine,
                wm_ask_text (one, "signature"), wm_ask_text (one, "state"),
                (long long) wm_ask_int (one, "batches"),
                wm_show_short (wm_ask_real (one, "hits_s"), rate));
        show_gpu (json_object_get (one, "gpu"));
        if (*wm_ask_text (one, "why"))
            printf ("  %s\n", wm_ask_text (one, "why"));
    }
    const int64_t total = wm_ask_int (s, "workers_total");
    if (total > (int64_t) json_array_size (list))
        printf ("... and %lld more\n", (long long) (total - (int64_t) json_array_size (list)));
}

/* A name, in `least` to `most` columns. Its end is kept, which distinguishes it.  */
static void show_name (const char *name, int least, int most, bool is_cut)
{
    const int length = (int) strlen (name);
    if (is_cut && length > most)
        printf ("...%s", name + length - most + 3);
    else
        printf ("%-*s", least, name);
}

static void show_producers (const json_t *s)
{
    const json_t *list = json_object_get (s, "producers"), *one;
    size_t i;
    const int input = wm_words_width (STDOUT_FILENO) - 25;
    if (json_array_size (list))
        printf ("\n%-24s %s\n", "PRODUCER", "INPUT");
    json_array_foreach (list, i, one)
    {
        printf ("%-24.24s ", wm_ask_text (one, "label"));
        show_name (wm_ask_text (one, "input"), 0, input, isatty (STDOUT_FILENO));
        putchar ('\n');
        wm_ask_late (stdout, one);
    }
}

static void show_held (const json_t *s)
{
    const json_t *list = json_object_get (s, "held"), *one;
    size_t i;
    json_array_foreach (list, i, one)
    {
        if (i == HELD_SHOWN_MAX) {
            printf ("held: and %lld more; run ",
                    (long long) wm_ask_int (s, "held_total") - HELD_SHOWN_MAX);
            wm_command_verb (stdout, "held", "", " for the list");
            break;
        }
        wm_ask_held (stdout, one);
    }
    wm_account_held (stdout, s, HELD_SHOWN_MAX);
}

/* No broker runs: what is left to do, and the command that does it.  */
static void show_stopped (const json_t *s, const char *campaign)
{
    char n[64];
    const json_t *list = json_object_get (s, "open"), *one;
    size_t i;
    json_array_foreach (list, i, one)
    {
        const int64_t hits = wm_ask_int (one, "hits");
        const char *why = wm_ask_text (one, "why");
        printf ("to write: %s/%s of %s%s%s", wm_ask_text (s, "campaign.output"),
                wm_ask_text (one, "output"), wm_ask_text (one, "path"), *why ? ": " : "", why);
        if (hits)
            printf (" (%s done)", wm_show_rows (hits, wm_ask_rows (s), n));
        printf ("\n");
    }
    const int64_t open = wm_ask_int (s, "inputs.open");
    if (open > (int64_t) json_array_size (list))
        printf ("to write: and %lld more\n", (long long) (open - (int64_t) json_array_size (list)));
    if (!open)
        return;
    fputs ("stopped: no broker runs, what is done is kept; ", stdout);
    wm_ask_advise (stdout, s, campaign);
}

/* Where other machines find the broker, if that is another address than its own.  */
static void show_advertised (const json_t *s, const char *endpoint)
{
    const json_t *list = json_object_get (s, "advertise");
    const char *first = json_string_value (json_array_get (list, 0));
    if (first && strcmp (first, endpoint) != 0)
        printf ("other machines reach it at %s%s; it runs on %s\n", first,
                json_array_size (list) > 1 ? " and others (--json)" : "", wm_ask_text (s, "host"));
}

/* When it was worked on, as top and the report have it.  */
static void show_work (const json_t *s, const char *campaign)
{
    int code;
    char text[256];
    wm_history_query_t past = { 0 };
    wm_history_query_work_t work;
    json_t *history =
        *wm_ask_text (s, "endpoint") ? NULL : wm_ask_history ("status", "", campaign, &code);
    wm_history_query_take (&past, history, 0);
    wm_history_query_work (&past, &work);
    if (*wm_top_did (s, &work, text))
        printf ("worked: %s\n", text);
    wm_history_query_clear (&past);
    json_decref (history);
}

static void show_status (const json_t *s, const char *campaign)
{
    char up[32], ledger[32], journal[32], files[96];
    const char *endpoint = wm_ask_text (s, "endpoint");
    const char *waiting = wm_ask_text (s, "waiting_for"), *paused = wm_ask_text (s, "paused");
    int used = printf ("broker %s", *endpoint ? endpoint : "not running");
    if (*endpoint)
        used += printf ("  up %s  pid %lld", wm_show_time (wm_ask_real (s, "up_s"), up),
                        (long long) wm_ask_int (s, "pid"));
    used += snprintf (files, sizeof files, "  ledger %s  journal %s",
                      wm_show_bytes (wm_ask_real (s, "bytes.ledger"), ledger),
                      wm_show_bytes (wm_ask_real (s, "bytes.journal"), journal));
    printf ("%s%s\n", used > wm_words_width (STDOUT_FILENO) ? "\n" : "", files);
    show_advertised (s, endpoint);
    show_campaign (s);
    show_work (s, campaign);
    if (*wm_ask_text (s, "campaign.judged_by"))
        printf ("model judged by: %s\n", wm_ask_text (s, "campaign.judged_by"));
    wm_arithmetic_classes (stdout, s);
    wm_account_checks (stdout, s, "checked: ");
    if (!*endpoint)
        show_stopped (s, campaign);
    else if (*waiting)
        printf ("%swaiting for%s: %s\n", color (WM_WARN), color (WM_PLAIN), waiting);
    if (*endpoint)
        wm_waits_print (stdout, s);
    if (*paused) {
        printf ("%spaused%s: %s\nrun ", color (WM_WARN), color (WM_PLAIN), paused);
        wm_command_verb (stdout, "resume", "", " to continue");
    }
    show_workers (s);
    show_producers (s);
    show_held (s);
}

/* ---- files ----------------------------------------------------------------------------------- */

#define COUNTS_WIDTH 31 /* STATE, ROWS and HELD ROWS, with the spaces before them */

typedef struct {
    uint64_t n;
    int input, output; /* columns */
    bool is_cut;       /* names are cut to their columns: stdout is a terminal */
    bool json;
} files_t;

static bool show_file (void *argument, const json_t *file)
{
    char hits[32], held[32];
    files_t *self = argument;
    const char *state = wm_ask_text (file, "state");
    const bool is_held = strcmp (state, "held") == 0; /* as a whole: why, and not how many rows */
    if (self->json) {
        fputs (self->n++ ? ",\n    " : "\n    ", stdout);
        json_dumpf (file, stdout, JSON_COMPACT);
        return true;
    }
    if (!self->n++)
        printf ("%-*s  %-*s  %-7s  %9s  %9s\n", self->input, "INPUT", self->output, "OUTPUT",
                "STATE", "ROWS", "HELD ROWS");
    show_name (wm_ask_text (file, "path"), self->input, self->input, self->is_cut);
    fputs ("  ", stdout);
    show_name (wm_ask_text (file, "output"), self->output, self->output, self->is_cut);
    printf ("  %-7s  %9s  %9s\n", state,
            is_held || strcmp (state, "open") == 0 /* its rows are not known yet */
                ? "-"
                : wm_show_short (wm_ask_real (file, "hits"), hits),
            is_held ? "-" : wm_show_short (wm_ask_real (file, "held"), held));
    return true;
}

static int show_files (const char *endpoint, const char *campaign, bool json)
{
    files_t self = { .json = json, .is_cut = isatty (STDOUT_FILENO) };
    const int width = wm_words_width (STDOUT_FILENO);
    const int names = width - COUNTS_WIDTH > 22 ? width - COUNTS_WIDTH : 22;
    self.output = (names - 2) / 2;
    self.input = names - 2 - self.output;
    if (json)
        fputs ("{\n  \"schema\": \"wiremill-files-1\",\n  \"files\": [", stdout);
    const int code = wm_ask_files ("status", endpoint, campaign, "", show_file, &self);
    if (json)
        puts ("\n  ]\n}");
    else if (!self.n && !code)
        puts ("no inputs yet");
    return code;
}

/* ---- marks ----------------------------------------------------------------------------------- */

static void show_mark (const json_t *mark)
{
    char when[32] = "", n[32], text[400];
    struct tm local;
    const time_t from_s = (time_t) wm_ask_int (mark, "from_s");
    const wm_mark_kind_t kind = wm_mark_of (wm_ask_text (mark, "kind"));
    const char *why = wm_ask_text (mark, "text");
    if (localtime_r (&from_s, &local))
        strftime (when, sizeof when, "%b %d %H:%M:%S", &local);
    snprintf (text, sizeof text, "%s",
              kind < WM_N_MARK ? wm_mark_what[kind].what : wm_ask_text (mark, "kind"));
    printf ("%s  %s%s%s", when, text, *why ? ": " : "", why);
    if (wm_ask_int (mark, "n") > 1)
        printf (" (the first of %s)", wm_show_count (wm_ask_int (mark, "n"), n));
    putchar ('\n');
}

static int show_marks (const char *endpoint, const char *campaign, bool json)
{
    int code;
    size_t i;
    const json_t *one;
    json_t *history = wm_ask_history ("status", endpoint, campaign, &code),
           *marks = json_object_get (history, "marks");
    if (history && json) {
        json_t *all = json_pack ("{s:s, s:O}", "schema", "wiremill-marks-1", "marks", marks);
        json_dumpf (all, stdout, JSON_INDENT (2));
        putchar ('\n');
        json_decref (all);
    } else if (history && !json_array_size (marks))
        puts ("no marks yet");
    else
        json_array_foreach (marks, i, one)
        {
            show_mark (one);
        }
    json_decref (history);
    return code;
}

/* Prints the status once; *goes_on: a broker works on it.  */
static int show (const char *endpoint, const char *campaign, bool json, bool *goes_on)
{
    int code;
    json_t *status = wm_ask_anyhow ("status", endpoint, campaign, &code);
    *goes_on = false;
    if (!status)
        return code;
    wm_account_add (status, "status", endpoint, campaign, false);
    if (json) {
        json_dumpf (status, stdout, JSON_INDENT (2));
        putchar ('\n');
    } else
        show_status (status, campaign);
    *goes_on = *wm_ask_text (status, "endpoint") &&
               strcmp (wm_ask_text (status, "campaign.state"), "finished") != 0;
    json_decref (status);
    return WM_EXIT_OK;
}

static int status_main (const wm_args_t *args)
{
    char endpoint[256], campaign[PATH_MAX];
    wm_error_t error = { 0 };
    const bool watch = wm_args_given (args, "watch"), json = wm_args_given (args, "json");
    const bool files = wm_args_given (args, "files"), marks = wm_args_given (args, "marks");
    if (watch + files + marks > 1)
        return wm_args_refuse (args, "give one of --watch, --files and --marks: --watch shows the "
                                     "campaign, --files its inputs once, --marks its time line");
    if (wm_args_given (args, "interval") && !watch)
        return wm_args_refuse (args, "--interval is of --watch");
    for (bool goes_on = true;;) {
        if (wm_ask_where (args, endpoint, campaign, &error))
            return wm_complain ("status", &error);
        if (files)
            return show_files (endpoint, campaign, json);
        if (marks)
            return show_marks (endpoint, campaign, json);
        if (watch && !json && wm_show_has_colors (STDOUT_FILENO))
            fputs ("\033[H\033[2J", stdout);
        const int code = show (endpoint, campaign, json, &goes_on);
        if (!watch || !goes_on)
            return code;
        if (!json)
            putchar ('\n');
        fflush (stdout);
        const double seconds = wm_args_seconds (args, "interval");
        const time_t whole = (time_t) seconds;
        nanosleep (&(struct timespec){ whole, (long) (1e9 * (seconds - (double) whole)) }, NULL);
    }
}
