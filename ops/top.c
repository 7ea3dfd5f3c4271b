/* top.c - `wiremill top`: campaigns and their workers on a live screen.  */

#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/process/wm_complain.h"
#include "ops/verbs.h"
#include "ops/view/wm_terminal.h"
#include "ops/view/wm_top.h"
#include "ops/view/wm_top_poll.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_log.h"
#include "schema/wm_limits.h"

#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define CAMPAIGNS_MAX 64
#define DRAW_MS 1000     /* ages and the clock go on while nothing is answered */
#define DRAW_LEAST_MS 50 /* answers of many brokers come one by one */
#define END_MS 500
#define LATE_MS 5000 /* behind the time for the next answer */
#define ROWS_ONCE 1024
#define WHEEL_ROWS 3

/* clang-format off */
static const wm_option_t options[] = {
    WHERE_OPTIONS,
    {.name = "interval", .value = "TIME", .fallback = "2s", .is_above = true, .task = "how",
     .help = "time between two questions to a broker"},
    {.name = "once", .help = "print one screen without escape codes, all lists in full, and end"},
    {.name = NULL},
};

static int top_main (const wm_args_t *args);
const wm_verb_t wm_verb_top = {
    .name = "top", .task = WATCH_TASK, .rest = "[DIR|ADDRESS]...",
    .summary = "campaigns and their workers on a live screen",
    .text =
    "  wiremill top out/\n"
    "  wiremill top tcp://head:5555 tcp://head:5565 --join-file join-operator\n"
    "  wiremill top --once out/\n\n"
    "Shows progress, the rate over the last minutes, workers, what is held and what the broker "
    "logged last; of several campaigns one line each, which Enter opens. Keys: p pauses, r "
    "resumes, d drains the chosen worker, D all; each asks first. s sorts, Enter inspects a "
    "worker, / filters, f lists files, ? lists all keys, q quits. A broker that goes away is "
    "asked again until it answers. "
    "Where stdin or stdout is no terminal it prints one screen, as with --once, in COLUMNS or 80 "
    "columns, and its exit code is that of `wiremill status`. NO_COLOR is respected.\n",
    .options = options, .run = top_main };
/* clang-format on */

typedef struct {
    char given[256], endpoint[256], folder[PATH_MAX];
} target_t;

typedef struct {
    int n;
    target_t target[CAMPAIGNS_MAX];
    wm_top_poll_t *poll[CAMPAIGNS_MAX];
    wm_top_campaign_t campaign[CAMPAIGNS_MAX];
    wm_top_view_t view;
    wm_top_screen_t before; /* help */
    bool is_mouse_left;     /* to the terminal */
    wm_screen_t canvas;
    char order[16], worker[128]; /* what is asked about; "": nothing */
    wm_screen_t shown;           /* what stands on the terminal */
} top_t;

/* ---- which campaigns ------------------------------------------------------------------------- */

static wm_fault_t find_address (target_t *target, const char *given, wm_error_t *error)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    if (strlen (given) >= sizeof target->endpoint)
        return wm_fault (error, WM_EUSAGE, "%.60s...: an address has at most 255 characters",
                         given);
    if (!wm_address_parse (list, given, WM_ADDRESS_CONNECT, error))
        return error->fault = WM_EUSAGE;
    strcpy (target->endpoint, given);
    return WM_OK;
}

/* `given` NULL: what the options or the environment name, or this folder.  */
static wm_fault_t find_target (target_t *target, const wm_args_t *args, const char *given,
                               wm_error_t *error)
{
    const char *option = wm_args_text (args, "campaign");
    if (given && strstr (given, "://"))
        snprintf (target->given, sizeof target->given, "%s", given);
    if (given && strstr (given, "://"))
        return find_address (target, given, error);
    const wm_fault_t fault = wm_ask_at (given ? NULL : args, given ? given : option,
                                        target->endpoint, target->folder, error);
    snprintf (target->given, sizeof target->given, "%s",
              *target->folder ? target->folder : target->endpoint);
    return fault;
}

static int find_targets (top_t *self, const wm_args_t *args)
{
    wm_error_t error;
    const char *given = wm_args_rest (args, 0);
    if (given && (wm_args_given (args, "campaign") || wm_args_given (args, "broker")))
        return wm_args_refuse (args,
                               "%.100s: give all campaigns as arguments, or one by "
                               "--campaign or --broker",
                               given);
    if (given && wm_join_take (args, &error))
        return wm_complain ("top", &error);
    for (int i = 0; i == 0 || given; i++, given = wm_args_rest (args, i)) {
        if (i == CAMPAIGNS_MAX)
            return wm_args_refuse (args, "give at most %d campaigns", CAMPAIGNS_MAX);
        if (find_target (&self->target[i], args, given, &error))
            return wm_complain ("top", &error);
        self->n = i + 1;
    }
    return WM_EXIT_OK;
}

/* ---- one screen for scripts ------------------------------------------------------------------ */

static void take_pages (wm_client_t *client, wm_history_query_t *past, uint64_t from)
{
    wm_error_t error;
    while (from) {
        json_t *page = wm_ask_history_page (client, false, from, &error);
        if (page)
            wm_history_query_take (past, page, (double) wm_history_second (from));
        from = page ? wm_ask_history_next (page, from) : 0;
        json_decref (page);
    }
}

/* What the broker that has just answered knows of the last minutes; without one, what the campaign
   did.  */
static void add_history (wm_top_campaign_t *campaign, const target_t *target)
{
    int code;
    wm_error_t error;
    json_t *history = NULL;
    wm_history_query_t past = { 0 };
    const double now_s = (double) time (NULL);
    const bool has_broker = *wm_ask_text (campaign->status, "endpoint");
    if (has_broker) {
        wm_client_t *client =
            wm_client_new (target->endpoint, WM_ROLE_MONITOR, "wiremill top", NULL, NULL);
        if (!wm_ask_open (client, target->folder, &error))
            take_pages (client, &past, (uint64_t) (now_s - WM_TOP_BUCKETS * WM_TOP_BUCKET_S));
        if (wm_client_is_open (client))
            wm_client_close (client, WM_REASON_DONE, "");
        wm_client_destroy (&client);
    } else {
        history = wm_ask_history ("top", "", target->folder, &code);
        wm_history_query_take (&past, history, 0);
    }
    wm_top_history (campaign, &past, has_broker ? now_s : 0);
    wm_history_query_clear (&past);
    json_decref (history);
}

static int print_once (top_t *self)
{
    int code = WM_EXIT_OK;
    for (int i = 0; i < self->n; i++) {
        int one;
        const target_t *target = &self->target[i];
        wm_top_campaign_t *campaign = &self->campaign[i];
        memcpy (campaign->given, target->given, sizeof campaign->given);
        for (int k = 0; k < WM_TOP_BUCKETS; k++)
            campaign->rate[k] = -1;
        campaign->status = wm_ask_anyhow ("top", target->endpoint, target->folder, &one);
        if (campaign->status)
            add_history (campaign, target);
        if (campaign->status)
            continue;
        campaign->refusal = one == WM_EXIT_REFUSED ? WM_EKEY : WM_OK;
        strcpy (campaign->note, "the reason is on stderr");
        code = code ? code : one;
    }
    if (self->n == 1 && code)
        return code;
    self->view.screen = self->n > 1 ? WM_TOP_LIST : WM_TOP_CAMPAIGN;
    if (!wm_canvas_reset (&self->canvas, ROWS_ONCE, wm_words_width (STDOUT_FILENO)))
        return WM_EXIT_FAILURE;
    wm_top_draw (&self->canvas, &self->view, self->campaign, self->n);
    for (int i = 0; i < self->canvas.n; i++)
        puts (self->canvas.line[i]);
    return code;
}

/* ---- the live screen ------------------------------------------------------------------------- */

/* Writes the lines that have changed; all of them after `is_new`.  */
static bool show (top_t *self, bool is_new)
{
    int rows, columns;
    bool is_written = true;
    wm_terminal_size (&rows, &columns);
    is_new = is_new || !self->shown.line || self->shown.rows != rows ||
             self->shown.columns != self->canvas.columns;
    /* the last column stays free: some terminals go to the next line once it is filled */
    if (!wm_canvas_reset (&self->canvas, rows, columns - 1))
        return false;
    wm_top_draw (&self->canvas, &self->view, self->campaign, self->n);
    is_new = is_new || self->shown.columns != self->canvas.columns;
    if (is_new && (!wm_canvas_reset (&self->shown, rows, columns - 1) ||
                   !wm_terminal_write ("\033[H\033[2J", 7)))
        return false;
    for (int i = 0; i < rows && is_written; i++) {
        char text[WM_CANVAS_LINE_BYTES + 32];
        if (i >= self->canvas.n)
            self->canvas.line[i][0] = 0;
        if (is_new)
            self->shown.line[i][0] = 0;
        if (strcmp (self->shown.line[i], self->canvas.line[i]) == 0)
            continue;
        const int n =
            snprintf (text, sizeof text, "\033[%d;1H%s\033[K", i + 1, self->canvas.line[i]);
        is_written = wm_terminal_write (text, (size_t) n);
        memcpy (self->shown.line[i], self->canvas.line[i], sizeof *self->shown.line);
    }
    return is_written;
}

static void question (top_t *self, const char *order)
{
    char name[64] = "";
    const wm_top_campaign_t *campaign = &self->campaign[self->view.chosen];
    const json_t *s = campaign->status;
    if (!s || !*wm_ask_text (s, "endpoint") || *campaign->note) {
        snprintf (self->view.message, sizeof self->view.message,
                  "%s: no broker answers for this campaign", order);
        return;
    }
    wm_account_name (s, name);
    snprintf (self->order, sizeof self->order, "%s", order);
    self->view.is_question = true;
    if (strcmp (order, "drain") != 0)
        snprintf (self->view.message, sizeof self->view.message, "%s campaign %s? y/n", order,
                  name);
    else if (*self->worker)
        snprintf (self->view.message, sizeof self->view.message,
                  "drain worker %s of %s? It finishes its batch and leaves. y/n", self->worker,
                  name);
    else
        snprintf (self->view.message, sizeof self->view.message,
                  "drain ALL %lld workers of %s, and send new ones away? y/n",
                  (long long) wm_ask_int (s, "workers_total"), name);
}

static void answered (top_t *self, int key)
{
    self->view.is_question = false;
    if (key != 'y' && key != 'Y')
        strcpy (self->view.message, "nothing is changed");
    else if (wm_top_poll_order (self->poll[self->view.chosen], self->order,
                                strcmp (self->order, "pause") == 0 ? "" : self->worker))
        snprintf (self->view.message, sizeof self->view.message, "%s: asking the broker",
                  self->order);
    else
        strcpy (self->view.message, "the broker has not answered the last order yet");
    *self->order = 0;
}

/* Esc removes the filter first.  */
static void back (top_t *self)
{
    wm_top_view_t *view = &self->view;
    const bool has_filter =
        *view->filter && (view->screen == WM_TOP_CAMPAIGN || view->screen == WM_TOP_FILES);
    if (has_filter || view->screen == WM_TOP_FILES)
        *view->filter = 0;
    if (has_filter)
        ;
    else if (view->screen == WM_TOP_WORKER || view->screen == WM_TOP_FILES ||
             view->screen == WM_TOP_WHY) {
        wm_top_poll_files (self->poll[view->chosen], false);
        view->screen = WM_TOP_CAMPAIGN;
    } else if (view->screen == WM_TOP_CAMPAIGN && self->n > 1) {
        view->screen = WM_TOP_LIST;
        *view->worker = 0;
    }
    view->first = 0;
}

static void move (top_t *self, int key)
{
    wm_top_view_t *view = &self->view;
    const int by = key == WM_KEY_UP || key == 'k'     ? -1
                   : key == WM_KEY_DOWN || key == 'j' ? 1
                   : key == WM_KEY_WHEEL_UP           ? -WHEEL_ROWS
                   : key == WM_KEY_WHEEL_DOWN         ? WHEEL_ROWS
                   : key == WM_KEY_PAGE_UP            ? -view->page
                   : key == WM_KEY_PAGE_DOWN          ? view->page
                   : key == WM_KEY_HOME               ? -100000
                                                      : 100000;
    wm_top_move (view, self->campaign, self->n, by);
}

static void open_chosen (top_t *self)
{
    wm_top_view_t *view = &self->view;
    view->is_typing = false;
    if (view->screen == WM_TOP_LIST) {
        view->screen = WM_TOP_CAMPAIGN;
        *view->worker = 0;
    } else if (view->screen == WM_TOP_CAMPAIGN) {
        wm_top_move (view, self->campaign, self->n, 0);
        if (*view->worker)
            view->screen = WM_TOP_WORKER;
        else
            strcpy (view->message,
                    *view->filter ? "no worker passes the filter" : "no worker is connected");
        return;
    }
    view->first = 0;
}

static void sort (wm_top_view_t *view)
{
    if (view->screen == WM_TOP_CAMPAIGN)
        snprintf (view->message, sizeof view->message, "workers are sorted by %s",
                  wm_top_sort_next (view));
}

static void click (top_t *self)
{
    wm_top_view_t *view = &self->view;
    const int line = wm_terminal_pointer ();
    if (view->n && line == view->line - 1)
        sort (view);
    else if (wm_top_click (view, self->campaign, self->n, line) && view->screen != WM_TOP_FILES)
        open_chosen (self);
}

static void toggle_mouse (top_t *self)
{
    self->is_mouse_left = !self->is_mouse_left;
    wm_terminal_mouse (!self->is_mouse_left);
    strcpy (self->view.message, self->is_mouse_left
                                    ? "the mouse selects text; m has it choose again"
                                    : "the mouse chooses");
}

/* Of the chosen campaign.  */
static void open_screen (top_t *self, wm_top_screen_t screen)
{
    wm_top_view_t *view = &self->view;
    if (view->screen != WM_TOP_CAMPAIGN || !self->campaign[view->chosen].status)
        return;
    view->screen = screen;
    view->first = view->at = 0;
    *view->filter = 0;
    wm_top_poll_files (self->poll[view->chosen], screen == WM_TOP_FILES);
}

/* A key of the filter's text; false: it is another.  */
static bool on_text (wm_top_view_t *view, int key)
{
    size_t length = strlen (view->filter);
    if (key == '\r' || key == '\n' || key == WM_KEY_ESCAPE)
        view->is_typing = false;
    if (key == WM_KEY_ESCAPE)
        *view->filter = 0;
    else if (key == 0x7f || key == '\b') {
        while (length && ((unsigned char) view->filter[--length] & 0xc0) == 0x80)
            ;
        view->filter[length] = 0;
    } else if (key >= ' ' && key < 256 && length < sizeof view->filter - 1)
        view->filter[length] = (char) key, view->filter[length + 1] = 0;
    else if (key >= 256)
        return false;
    view->first = 0;
    return true;
}

static void drain_one (top_t *self)
{
    if (self->view.screen == WM_TOP_LIST) {
        strcpy (self->view.message, "drain: Enter opens the campaign; choose a worker there, or "
                                    "type D for all");
        return;
    }
    if (self->view.screen == WM_TOP_FILES || self->view.screen == WM_TOP_WHY) {
        strcpy (self->view.message, "drain: Esc goes back to the workers; choose one there");
        return;
    }
    wm_top_move (&self->view, self->campaign, self->n, 0);
    snprintf (self->worker, sizeof self->worker, "%s", self->view.worker);
    if (*self->worker)
        question (self, "drain");
    else
        strcpy (self->view.message, *self->view.filter ? "drain: no worker passes the filter"
                                                       : "drain: no worker is connected");
}

/* Keys that change what is shown.  */
static void on_view (top_t *self, int key)
{
    wm_top_view_t *view = &self->view;
    if (key == 's')
        sort (view);
    else if (key == 'm')
        toggle_mouse (self);
    else if (key == 'f')
        open_screen (self, WM_TOP_FILES);
    else if (key == 'w')
        open_screen (self, WM_TOP_WHY);
    else if (key == '/')
        view->is_typing = view->screen == WM_TOP_CAMPAIGN || view->screen == WM_TOP_FILES;
    else if (key == WM_KEY_CLICK)
        click (self);
    else if (key == 'j' || key == 'k' || (key >= WM_KEY_UP && key != WM_KEY_ESCAPE))
        move (self, key);
}

/* false: quit.  */
static bool on_key (top_t *self, int key)
{
    wm_top_view_t *view = &self->view;
    const bool was_question = view->is_question;
    if (was_question && key >= WM_KEY_CLICK)
        return true;
    *view->message = 0;
    if (view->is_typing && on_text (view, key))
        return true;
    if (was_question) {
        answered (self, key);
        return true;
    }
    if (view->screen == WM_TOP_HELP && key != 'q') {
        view->screen = self->before;
        return true;
    }
    *self->worker = 0;
    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case '?':
    case 'h':
        self->before = view->screen;
        view->screen = WM_TOP_HELP;
        break;
    case 'p':
        question (self, "pause");
        break;
    case 'r':
        question (self, "resume");
        break;
    case 'd':
        drain_one (self);
        break;
    case 'D':
        question (self, "drain");
        break;
    case '\r':
    case '\n':
        open_chosen (self);
        break;
    case WM_KEY_ESCAPE:
    case 0x7f:
    case '\b':
        back (self);
        break;
    default:
        on_view (self, key);
        break;
    }
    return true;
}

/* Takes what the threads have learnt, and what a library printed.  */
static void refresh (top_t *self)
{
    for (int i = 0; i < self->n; i++) {
        wm_top_poll_copy (self->poll[i], &self->campaign[i]);
        if (!self->view.is_question)
            wm_top_poll_answer (self->poll[i], self->view.message);
    }
    const char *said = wm_terminal_said ();
    if (*said && !self->view.is_question)
        snprintf (self->view.message, sizeof self->view.message, "%s", said);
}

static void watch (top_t *self, int notify)
{
    int64_t drawn_ms = 0;
    bool is_new = true, goes_on = true;
    while (goes_on) {
        eventfd_t rung;
        const int64_t since_ms = wm_now_ms () - drawn_ms;
        if (since_ms < DRAW_LEAST_MS)
            usleep ((unsigned) (DRAW_LEAST_MS - since_ms) * 1000);
        if (eventfd_read (notify, &rung))
            rung = 0;
        refresh (self);
        if (!show (self, is_new))
            return;
        drawn_ms = wm_now_ms ();
        int key = wm_terminal_wait (DRAW_MS, notify);
        is_new = key == WM_KEY_REDRAW || key == '\f';
        for (; key && goes_on; key = wm_terminal_wait (0, -1)) {
            goes_on = key != WM_KEY_END && (key == WM_KEY_REDRAW || on_key (self, key));
            is_new = is_new || key == WM_KEY_REDRAW;
        }
    }
}

/* Threads that wait for a broker that does not answer end with the process.  */
static bool end_threads (top_t *self)
{
    bool all = false;
    for (int i = 0; i < self->n; i++)
        if (self->poll[i])
            wm_top_poll_stop (self->poll[i]);
    for (const int64_t end = wm_now_ms () + END_MS; !all && wm_now_ms () < end; usleep (5000)) {
        all = true;
        for (int i = 0; i < self->n; i++)
            all = wm_top_poll_destroy (&self->poll[i]) && all;
    }
    return all;
}

static int run_live (top_t *self, int64_t interval_ms)
{
    wm_error_t error;
    const int notify = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
    self->canvas.has_styles = true;
    self->canvas.has_colors = wm_show_has_colors (STDOUT_FILENO);
    self->view.has_keys = true;
    self->view.late_s = (double) (interval_ms + LATE_MS) / 1e3;
    self->view.screen = self->n > 1 ? WM_TOP_LIST : WM_TOP_CAMPAIGN;
    zsys_handler_set (NULL); /* signals are ours */
    zsys_init ();            /* here: threads that came first together would end the process */
    wm_log_start ();
    /* first: what threads and their children print to stderr is kept from then on */
    if (wm_terminal_enter (&error))
        return wm_complain ("top", &error);
    for (int i = 0; i < self->n; i++) {
        const target_t *target = &self->target[i];
        self->poll[i] = wm_top_poll_new ("top", target->given, target->endpoint, target->folder,
                                         interval_ms, notify, WM_TOP_BUCKETS * WM_TOP_BUCKET_S);
        if (!self->poll[i]) {
            wm_terminal_leave ();
            fprintf (stderr, "wiremill top: no thread for %.200s\n", target->given);
            _exit (WM_EXIT_FAILURE);
        }
    }
    watch (self, notify);
    wm_terminal_leave ();
    fflush (NULL);
    if (!end_threads (self))
        _exit (WM_EXIT_OK);
    close (notify);
    return WM_EXIT_OK;
}

static int top_main (const wm_args_t *args)
{
    static top_t self;
    int code = find_targets (&self, args);
    if (code)
        return code;
    setlocale (LC_CTYPE, "");
    self.canvas.has_utf8 = strcmp (nl_langinfo (CODESET), "UTF-8") == 0;
    if (wm_args_given (args, "once") || !wm_terminal_is_usable ())
        code = print_once (&self);
    else
        code = run_live (&self, (int64_t) (1000 * wm_args_seconds (args, "interval")));
    for (int i = 0; i < self.n; i++) {
        json_decref (self.campaign[i].status);
        json_decref (self.campaign[i].files);
    }
    wm_canvas_free (&self.canvas);
    wm_canvas_free (&self.shown);
    return code;
}
