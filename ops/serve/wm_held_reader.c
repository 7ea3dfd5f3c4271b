/* wm_held_reader.c - see wm_held_reader.h. */
#include "ops/serve/wm_held_reader.h"
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_processes.h"
#include "schema/base/wm_process.h"
#include "schema/wm_limits.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELD_EVERY_MS (wm_times ()->silence_ms / 2) /* 15 s */
#define LISTS (WM_HELD_KINDS * WM_SERVED_MAX)
#define PAGES 4
#define KEPT_MS (HELD_EVERY_MS / 5) /* a page that was asked for so lately keeps its place */

typedef struct {
    char endpoint[256], folder[PATH_MAX]; /* of the campaign; both "": free */
    wm_held_kind_t kind;
    json_t *list; /* NULL: not read yet */
    json_t *from; /* a status to read it for, NULL: none is due */
    int64_t read_ms, asked_ms;
} slot_t;

/* A page of an event.  */
typedef struct {
    char path[PATH_MAX]; /* "": free */
    char *text;
    size_t bytes;
    unsigned code;
    bool is_due;
    int64_t asked_ms;
} page_t;

struct wm_held_reader {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t due;
    bool stops; /* under the mutex, as the slots */
    slot_t slot[LISTS];
    page_t page[PAGES];
    atomic_bool done;
};

/* ---- pages of events ------------------------------------------------------------------------- */

/* Names the output that a page lies beside; false: no output has such a page.  */
static bool output_of (const char *page, char output[PATH_MAX])
{
    static const char end[] = ".html";
    const size_t n = strlen (page), bare = n > sizeof end - 1 ? n - (sizeof end - 1) : 0;
    return bare && strcmp (page + bare, end) == 0 &&
           snprintf (output, PATH_MAX, "%.*s.scores.h5", (int) bare, page) < PATH_MAX;
}

/* Notes which files have a page.  */
static void add_pages (const json_t *status, json_t *files)
{
    static const char end[] = ".scores.h5";
    const char *folder = wm_ask_text (status, "campaign.output");
    json_t *file;
    size_t i;
    json_array_foreach (files, i, file)
    {
        char path[PATH_MAX];
        const char *output = wm_ask_text (file, "output");
        const size_t n = strlen (output), bare = n > sizeof end - 1 ? n - (sizeof end - 1) : 0;
        if (bare && strcmp (output + bare, end) == 0 && !strchr (output, '/') &&
            snprintf (path, sizeof path, "%s/%.*s.html", folder, (int) bare, output) < PATH_MAX &&
            access (path, R_OK) == 0)
            json_object_set_new (file, "page", json_string (path + strlen (folder) + 1));
    }
}

/* Reads a file that is no link, no device and not too long. NULL: *code explains.  */
static char *read_page (const char *path, size_t *bytes, unsigned *code)
{
    char output[PATH_MAX], *text = NULL;
    struct stat st;
    size_t n = 0;
    const int fd = output_of (path, output) && access (output, F_OK) == 0
                       ? open (path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                       : -1;
    *code = fd < 0 || fstat (fd, &st) || !S_ISREG (st.st_mode) ? 404
            : (uint64_t) st.st_size > WM_EVENT_PAGE_BYTES_MAX  ? 413
                                                               : 200;
    if (*code == 200 && !(text = malloc ((size_t) st.st_size + 1)))
        *code = 404;
    for (ssize_t more = 1; text && more > 0 && n < (size_t) st.st_size; n += (size_t) more)
        if ((more = read (fd, text + n, (size_t) st.st_size - n)) <= 0)
            break;
    if (fd >= 0)
        close (fd);
    *bytes = n;
    return text;
}

/* With the lock, which is free meanwhile.  */
static void read_due (wm_held_reader_t *self, page_t *page)
{
    char path[PATH_MAX];
    size_t bytes;
    unsigned code;
    strcpy (path, page->path);
    page->is_due = false;
    pthread_mutex_unlock (&self->mutex);
    char *text = read_page (path, &bytes, &code);
    pthread_mutex_lock (&self->mutex);
    if (strcmp (page->path, path) == 0) {
        free (page->text);
        page->text = text;
        page->bytes = bytes;
        page->code = code;
    } else /* another page has its place */
        free (text);
}

unsigned wm_held_reader_page (wm_held_reader_t *self, const char *folder, const char *name,
                              const char **text, size_t *bytes)
{
    char path[PATH_MAX], output[PATH_MAX];
    page_t *page = NULL;
    *text = NULL;
    *bytes = 0;
    pthread_mutex_lock (&self->mutex);
    if (!*folder || *name == '.' || strchr (name, '/') || !output_of (name, output) ||
        snprintf (path, sizeof path, "%s/%s", folder, name) >= PATH_MAX)
        return 404;
    const int64_t now_ms = wm_now_ms ();
    for (page_t *at = self->page; at < &self->page[PAGES]; at++) {
        const bool is_it = strcmp (at->path, path) == 0,
                   is_wanted = at->is_due || (at->asked_ms && now_ms - at->asked_ms < KEPT_MS);
        if (is_it || (!is_wanted && (!page || at->asked_ms < page->asked_ms)))
            page = at;
        if (is_it)
            break;
    }
    if (!page) /* its reader asks again; those who asked before get theirs first */
        return 202;
    if (strcmp (page->path, path) != 0) {
        free (page->text);
        *page = (page_t){ .code = 202 };
        strcpy (page->path, path);
    }
    if (!page->asked_ms || now_ms - page->asked_ms > HELD_EVERY_MS) {
        page->asked_ms = now_ms;
        page->is_due = true;
        pthread_cond_signal (&self->due);
    }
    *text = page->text;
    *bytes = page->bytes;
    return page->code;
}

/* ---- what is held ---------------------------------------------------------------------------- */

static bool is_of (const slot_t *slot, const char *endpoint, const char *folder,
                   wm_held_kind_t kind)
{
    return slot->kind == kind && strcmp (slot->endpoint, endpoint) == 0 &&
           strcmp (slot->folder, folder) == 0;
}

/* Asks and reads; the status is the thread's own.  */
static bool read_one (const char *given, const char *folder, wm_held_kind_t kind, json_t *status)
{
    char endpoint[256] = "";
    const bool is_worst = kind == WM_HELD_WORST;
    if (*folder)
        wm_ask_endpoint (folder, endpoint, NULL);
    else
        strcpy (endpoint, given);
    const int code =
        is_worst ? wm_account_add_worst (status, "serve", endpoint, folder)
                 : wm_account_add_up_to (status, "serve", endpoint, folder, WM_HELD_ROWS_MAX);
    if (*folder) /* else its outputs are on another machine */
        add_pages (status, json_object_get (status, is_worst ? "worst_files" : "held_files"));
    return code == WM_EXIT_OK;
}

static slot_t *next_due (wm_held_reader_t *self)
{
    for (slot_t *slot = self->slot; slot < &self->slot[LISTS]; slot++)
        if (slot->from)
            return slot;
    return NULL;
}

static void *run (void *argument)
{
    wm_held_reader_t *self = argument;
    char endpoint[256], folder[PATH_MAX];
    slot_t *slot;
    pthread_mutex_lock (&self->mutex);
    while (!self->stops) {
        page_t *page = self->page;
        while (page < &self->page[PAGES] && !page->is_due)
            page++;
        if (page < &self->page[PAGES]) {
            read_due (self, page);
            continue;
        }
        if (!(slot = next_due (self))) {
            pthread_cond_wait (&self->due, &self->mutex);
            continue;
        }
        const wm_held_kind_t kind = slot->kind;
        strcpy (endpoint, slot->endpoint);
        strcpy (folder, slot->folder);
        json_t *status = slot->from;
        slot->from = NULL;
        pthread_mutex_unlock (&self->mutex);
        const bool is_read = read_one (endpoint, folder, kind, status);
        pthread_mutex_lock (&self->mutex);
        if (is_of (slot, endpoint, folder, kind) && (is_read || !slot->list)) {
            json_decref (slot->list);
            slot->list = status;
            slot->read_ms = wm_now_ms ();
        } else /* another campaign has its place, or what was read before is better */
            json_decref (status);
    }
    pthread_mutex_unlock (&self->mutex);
    atomic_store (&self->done, true);
    return NULL;
}

wm_held_reader_t *wm_held_reader_new (void)
{
    wm_held_reader_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    pthread_mutex_init (&self->mutex, NULL);
    pthread_cond_init (&self->due, NULL);
    if (wm_process_thread (&self->thread, run, self) == 0)
        return self;
    free (self);
    return NULL;
}

/* The place of a campaign, or that of the one whose list is the oldest.  */
static slot_t *place_of (wm_held_reader_t *self, const wm_served_t *one, wm_held_kind_t kind)
{
    slot_t *oldest = self->slot;
    for (slot_t *slot = self->slot; slot < &self->slot[LISTS]; slot++) {
        if (is_of (slot, one->endpoint, one->folder, kind))
            return slot;
        if (slot->asked_ms < oldest->asked_ms)
            oldest = slot;
    }
    json_decref (oldest->list);
    json_decref (oldest->from);
    *oldest = (slot_t){ .kind = kind };
    strcpy (oldest->endpoint, one->endpoint);
    strcpy (oldest->folder, one->folder);
    return oldest;
}

const json_t *wm_held_reader_lend (wm_held_reader_t *self, const wm_served_t *one,
                                   wm_held_kind_t kind, const json_t *status, double *age_s)
{
    pthread_mutex_lock (&self->mutex);
    const int64_t now_ms = wm_now_ms ();
    slot_t *slot = place_of (self, one, kind);
    const bool is_asked = slot->asked_ms && now_ms - slot->asked_ms < HELD_EVERY_MS;
    if (!is_asked && !slot->from) {
        slot->from = json_deep_copy (status);
        slot->asked_ms = now_ms;
        pthread_cond_signal (&self->due);
    }
    *age_s = (double) (now_ms - slot->read_ms) / 1e3;
    return slot->list;
}

void wm_held_reader_take_back (wm_held_reader_t *self)
{
    pthread_mutex_unlock (&self->mutex);
}

void wm_held_reader_end (wm_held_reader_t *self, int64_t ms)
{
    if (!self)
        return;
    pthread_mutex_lock (&self->mutex);
    self->stops = true;
    pthread_cond_signal (&self->due);
    pthread_mutex_unlock (&self->mutex);
    for (const int64_t end = wm_now_ms () + ms; !atomic_load (&self->done) && wm_now_ms () < end;)
        wm_processes_nap (5);
    if (!atomic_load (&self->done))
        return;
    pthread_join (self->thread, NULL);
    for (slot_t *slot = self->slot; slot < &self->slot[LISTS]; slot++) {
        json_decref (slot->list);
        json_decref (slot->from);
    }
    for (page_t *page = self->page; page < &self->page[PAGES]; page++)
        free (page->text);
    pthread_cond_destroy (&self->due);
    pthread_mutex_destroy (&self->mutex);
    free (self);
}
