/* wm_top_poll.c - see wm_top_poll.h. */

#include "ops/view/wm_top_poll.h"
#include "ops/ask/wm_ask.h"
#include "ops/verbs.h"
#include "schema/base/wm_process.h"
#include "schema/wm_limits.h"

#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define AWAY_LEAST_MS 1000                       /* between two attempts to reach a broker */
#define PAST_EVERY_MS 2000                       /* its rows are of a second */
#define FILES_EVERY_MS 5000                      /* while they are on the screen */
#define PAST_ALL_MS 7200000LL                    /* they become minutes after two hours */
#define REFUSED_MS (wm_times ()->silence_ms / 2) /* until a broker that refused is asked again */

struct wm_top_poll_t {
    pthread_t thread;
    char verb[16], endpoint[PATH_MAX + 24], folder[PATH_MAX];
    int64_t interval_ms;
    int notify, wake;
    double past_s; /* how much of the history is asked for; 0: all */
    atomic_bool stops, done, wants_files;
    /* of the thread alone */
    wm_client_t *client;
    unsigned owed;
    int64_t past_ms, past_all_ms; /* when the history was asked for, and all of it; 0: never */
    int64_t files_ms;             /* when the list of inputs was read; 0: not yet */
    bool is_list_of_broker;
    bool is_ledger_due;   /* it is read when no broker runs, once after each that did */
    bool is_past_refused; /* by a broker of an earlier release */
    /* under the mutex */
    pthread_mutex_t mutex;
    wm_top_campaign_t known;
    wm_history_query_t past; /* only the thread writes it */
    int64_t answered_ms;
    char order[16], text[200], answer[512];
    bool has_order, has_answer;
};

static void ring (int fd)
{
    if (eventfd_write (fd, 1))
        return; /* it is readable already */
}

/* With the lock.  */
static void forget (wm_top_poll_t *self)
{
    wm_history_query_clear (&self->past);
    wm_top_history (&self->known, &self->past, 0);
    self->past_ms = 0;
}

/* Keeps an answer (the caller's reference is taken); NULL: the note explains why no answer
   came.  */
static void keep (wm_top_poll_t *self, json_t *status, const char *note, wm_fault_t refusal)
{
    const int64_t now_ms = wm_now_ms ();
    pthread_mutex_lock (&self->mutex);
    json_t *old = status ? self->known.status : NULL;
    if (old && strcmp (wm_ask_text (old, "campaign.id"), wm_ask_text (status, "campaign.id")) != 0)
        forget (self); /* another campaign is there: the graph begins again */
    if (status) {
        self->known.status = status;
        self->answered_ms = now_ms;
    }
    snprintf (self->known.note, sizeof self->known.note, "%s", note);
    self->known.refusal = refusal;
    if (*wm_ask_text (self->known.status, "endpoint"))
        wm_top_history (&self->known, &self->past, (double) time (NULL));
    json_decref (old);
    pthread_mutex_unlock (&self->mutex);
    ring (self->notify);
}

static bool is_over (const wm_top_poll_t *self)
{
    return atomic_load (&self->stops);
}

/* Takes a page of the history, into the graph too; now_s as in wm_top_history.  */
static void take_past (wm_top_poll_t *self, const json_t *page, double from_s, double now_s)
{
    pthread_mutex_lock (&self->mutex);
    wm_history_query_take (&self->past, page, from_s);
    wm_top_history (&self->known, &self->past, now_s);
    pthread_mutex_unlock (&self->mutex);
    ring (self->notify);
}

static void forget_graph (wm_top_poll_t *self)
{
    pthread_mutex_lock (&self->mutex);
    forget (self);
    pthread_mutex_unlock (&self->mutex);
}

/* Asks for the history since the last rows that are known; an answer that comes late is owed. A
   broker of an earlier release ends the session over the question.  */
static void ask_past (wm_top_poll_t *self)
{
    wm_error_t error;
    const int64_t now_ms = wm_now_ms ();
    const double now_s = (double) time (NULL);
    if (self->owed || self->is_past_refused ||
        (self->past_ms && now_ms - self->past_ms < PAST_EVERY_MS))
        return;
    if (!self->past_all_ms || now_ms - self->past_all_ms > PAST_ALL_MS) {
        forget_graph (self);
        self->past_all_ms = now_ms;
    }
    uint64_t from = (uint64_t) fmax (wm_history_query_next (&self->past),
                                     self->past_s > 0 ? now_s - self->past_s : 0);
    self->past_ms = now_ms;
    for (bool goes_on = true; goes_on;) {
        json_t *page = wm_ask_history_page (self->client, false, from, &error);
        if (page)
            take_past (self, page, (double) wm_history_second (from), now_s);
        else if (wm_client_is_open (self->client)) {
            self->owed++;
            self->past_ms = 0; /* asked again as soon as the late answer is there */
        } else
            self->is_past_refused = true;
        from = page ? wm_ask_history_next (page, from) : 0;
        goes_on = from && !is_over (self);
        json_decref (page);
    }
}

/* No broker answers: where the campaign's folder is here, its ledger is read.  */
static void keep_ledger (wm_top_poll_t *self, const char *why)
{
    int code = WM_EXIT_UNREACHABLE;
    char endpoint[256], unread[480];
    json_t *status = NULL;
    if (self->is_ledger_due && *self->folder && !wm_ask_endpoint (self->folder, endpoint, NULL))
        status = wm_ask_anyhow (self->verb, "", self->folder, &code);
    if (status) {
        json_t *history = wm_ask_history (self->verb, "", self->folder, &code);
        self->is_ledger_due = !history;
        keep (self, status, "", WM_OK);
        if (history)
            take_past (self, history, 0, 0);
        json_decref (history);
        return;
    }
    if (code == WM_EXIT_INPUT || code == WM_EXIT_FAILURE) {
        snprintf (unread, sizeof unread,
                  "what the campaign has on disk cannot be read; `wiremill status %.380s` prints "
                  "why",
                  self->folder);
        why = unread;
    }
    pthread_mutex_lock (&self->mutex);
    const bool is_read = self->known.status && !self->known.refusal &&
                         !*wm_ask_text (self->known.status, "endpoint");
    pthread_mutex_unlock (&self->mutex);
    if (!is_read)
        keep (self, NULL, why, WM_OK);
}

static bool take_file (void *argument, const json_t *file)
{
    json_array_append (argument, (json_t *) (uintptr_t) file);
    return json_array_size (argument) < WM_TOP_FILES_MAX;
}

/* Reads the list of inputs if it is wanted and due: of the broker, else, once, of the ledger.  */
static void read_files (wm_top_poll_t *self)
{
    wm_error_t error;
    const int64_t now_ms = wm_now_ms ();
    const bool is_open = wm_client_is_open (self->client);
    if (!atomic_load (&self->wants_files) || is_open != self->is_list_of_broker)
        self->files_ms = 0;
    if (!atomic_load (&self->wants_files) || self->owed || (!is_open && !*self->folder) ||
        (self->files_ms && (!is_open || now_ms - self->files_ms < FILES_EVERY_MS)))
        return;
    self->files_ms = now_ms;
    self->is_list_of_broker = is_open;
    json_t *list = json_array ();
    if (is_open && wm_ask_files_of (self->client, take_file, list, &error)) {
        self->owed += wm_client_is_open (self->client);
        self->files_ms = 0;
        json_decref (list);
        return;
    }
    if (!is_open)
        wm_ask_files (self->verb, "", self->folder, "", take_file, list);
    pthread_mutex_lock (&self->mutex);
    json_t *old = self->known.files;
    self->known.files = list;
    json_decref (old);
    pthread_mutex_unlock (&self->mutex);
    ring (self->notify);
}

static void execute_order (wm_top_poll_t *self)
{
    char order[sizeof self->order], text[sizeof self->text], answer[sizeof self->answer];
    wm_error_t error = { 0 };
    pthread_mutex_lock (&self->mutex);
    const bool has_order = self->has_order;
    memcpy (order, self->order, sizeof order);
    memcpy (text, self->text, sizeof text);
    pthread_mutex_unlock (&self->mutex);
    if (!has_order)
        return;
    if (!wm_client_is_open (self->client))
        wm_fault (&error, WM_EAGAIN, "no broker answers");
    else if (wm_ask_order (self->client, order, text, &error) == WM_OK)
        error.text[0] = 0;
    self->owed = 0;
    snprintf (answer, sizeof answer, "%s%s%s: %s%.400s", order, *text ? " " : "",
              strcmp (order, "drain") == 0 ? text : "", *error.text ? "" : "done", error.text);
    pthread_mutex_lock (&self->mutex);
    memcpy (self->answer, answer, sizeof answer);
    self->has_answer = true;
    self->has_order = false;
    pthread_mutex_unlock (&self->mutex);
    ring (self->notify);
}

/* One question. Returns whether the broker answers.  */
static bool ask (wm_top_poll_t *self)
{
    wm_error_t error = { 0 };
    if (!wm_client_is_open (self->client)) {
        self->owed = 0;
        self->past_ms = self->past_all_ms = 0;
        if (wm_ask_open (self->client, self->folder, &error)) {
            self->is_past_refused = false; /* it was gone: not for the question */
            if (error.fault == WM_EKEY || error.fault == WM_EPEER) {
                keep (self, NULL, error.text, error.fault);
                self->is_ledger_due = true; /* what a broker does there changes it */
            } else
                keep_ledger (self, error.text);
            return false;
        }
    }
    if (!self->is_ledger_due) /* the graph that was shown ended with the campaign's last broker */
        forget_graph (self);
    self->is_ledger_due = true;
    execute_order (self);
    json_t *status = wm_client_is_open (self->client)
                         ? wm_ask_status (self->client, wm_times ()->answer_ms, &self->owed)
                         : NULL;
    if (status) {
        keep (self, status, "", WM_OK);
        ask_past (self);
        return true;
    }
    if (wm_client_is_open (self->client))
        keep (self, NULL, "the broker is connected, but does not answer; it is asked again", WM_OK);
    else {
        char note[480];
        snprintf (note, sizeof note, "the broker went away: %.400s; it is asked again",
                  wm_client_error (self->client)->text);
        keep (self, NULL, note, WM_OK);
    }
    return status;
}

/* Until the next question, an order, or the end. Heartbeats go out meanwhile.  */
static void nap (wm_top_poll_t *self, int64_t ms)
{
    const int64_t end = wm_now_ms () + ms;
    eventfd_t rung;
    for (int64_t left; !is_over (self) && (left = end - wm_now_ms ()) > 0;) {
        wm_client_event_t event = WM_CLIENT_TIMEOUT;
        if (wm_client_is_open (self->client)) {
            event = wm_client_wait (self->client, left);
            if (event == WM_CLIENT_CLOSED)
                return;
        } else {
            struct pollfd on = { .fd = self->wake, .events = POLLIN };
            event = poll (&on, 1, (int) left) > 0 ? WM_CLIENT_EXTRA : WM_CLIENT_TIMEOUT;
        }
        if (event == WM_CLIENT_EXTRA && eventfd_read (self->wake, &rung) == 0)
            return;
    }
}

static void *run (void *argument)
{
    wm_top_poll_t *self = argument;
    char label[64];
    self->client = wm_client_new (self->endpoint, wm_ask_role (),
                                  wm_ask_operator (self->verb, label), NULL, &self->wake);
    self->is_ledger_due = true;
    while (!is_over (self)) {
        const bool answers = ask (self);
        read_files (self);
        execute_order (self);
        const int64_t least_ms = answers               ? 0
                                 : self->known.refusal ? REFUSED_MS /* this thread writes it */
                                                       : AWAY_LEAST_MS;
        nap (self, self->interval_ms > least_ms ? self->interval_ms : least_ms);
    }
    if (wm_client_is_open (self->client))
        wm_client_close (self->client, WM_REASON_DONE, "");
    wm_client_destroy (&self->client);
    atomic_store (&self->done, true);
    return NULL;
}

wm_top_poll_t *wm_top_poll_new (const char *verb, const char *given, const char *endpoint,
                                const char *folder, int64_t interval_ms, int notify, double past_s)
{
    wm_top_poll_t *self = calloc (1, sizeof *self);
    if (!self || (self->wake = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        goto fail;
    snprintf (self->verb, sizeof self->verb, "%s", verb);
    snprintf (self->known.given, sizeof self->known.given, "%s", given);
    snprintf (self->endpoint, sizeof self->endpoint, *folder ? "file://%s/endpoint.json" : "%s",
              *folder ? folder : endpoint);
    snprintf (self->folder, sizeof self->folder, "%s", folder);
    self->interval_ms = interval_ms;
    self->notify = notify;
    self->past_s = past_s;
    pthread_mutex_init (&self->mutex, NULL);
    for (int i = 0; i < WM_TOP_BUCKETS; i++)
        self->known.rate[i] = -1;
    if (wm_process_thread (&self->thread, run, self) == 0)
        return self;
    close (self->wake);
fail:
    free (self);
    return NULL;
}

void wm_top_poll_copy (wm_top_poll_t *self, wm_top_campaign_t *campaign)
{
    json_t *old = campaign->status, *old_files = campaign->files;
    pthread_mutex_lock (&self->mutex);
    const int64_t now_ms = wm_now_ms ();
    *campaign = self->known;
    campaign->age_s = (double) (now_ms - self->answered_ms) / 1e3;
    json_incref (campaign->status);
    json_incref (campaign->files);
    json_decref (old_files);
    json_decref (old); /* its last reference may be the thread's */
    pthread_mutex_unlock (&self->mutex);
}

void wm_top_poll_files (wm_top_poll_t *self, bool is_wanted)
{
    atomic_store (&self->wants_files, is_wanted);
    ring (self->wake);
}

const wm_history_query_t *wm_top_poll_lend (wm_top_poll_t *self)
{
    pthread_mutex_lock (&self->mutex);
    return &self->past;
}

void wm_top_poll_take_back (wm_top_poll_t *self)
{
    pthread_mutex_unlock (&self->mutex);
}

bool wm_top_poll_order (wm_top_poll_t *self, const char *order, const char *text)
{
    pthread_mutex_lock (&self->mutex);
    const bool is_free = !self->has_order;
    if (is_free) {
        snprintf (self->order, sizeof self->order, "%s", order);
        snprintf (self->text, sizeof self->text, "%s", text);
        self->has_order = true;
    }
    pthread_mutex_unlock (&self->mutex);
    ring (self->wake);
    return is_free;
}

bool wm_top_poll_answer (wm_top_poll_t *self, char text[512])
{
    pthread_mutex_lock (&self->mutex);
    const bool is_new = self->has_answer;
    if (is_new)
        memcpy (text, self->answer, sizeof self->answer);
    self->has_answer = false;
    pthread_mutex_unlock (&self->mutex);
    return is_new;
}

void wm_top_poll_stop (wm_top_poll_t *self)
{
    atomic_store (&self->stops, true);
    ring (self->wake);
}

bool wm_top_poll_destroy (wm_top_poll_t **self_p)
{
    wm_top_poll_t *self = *self_p;
    if (!self)
        return true;
    if (!atomic_load (&self->done))
        return false;
    pthread_join (self->thread, NULL);
    pthread_mutex_destroy (&self->mutex);
    json_decref (self->known.status);
    json_decref (self->known.files);
    wm_history_query_clear (&self->past);
    close (self->wake);
    free (self);
    *self_p = NULL;
    return true;
}
