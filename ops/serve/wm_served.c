/* wm_served.c - see wm_served.h. */
#include "ops/serve/wm_served.h"
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_processes.h"
#include "ops/process/wm_complain.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_process.h"
#include "schema/session/wm_join.h"
#include "schema/wm_limits.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAP_MS 100
#define LOOK_MS (wm_times ()->silence_ms / 6) /* 5 s */

/* ---- names ----------------------------------------------------------------------------------- */

void wm_served_lock (wm_served_list_t *self)
{
    pthread_mutex_lock (&self->mutex);
}

void wm_served_unlock (wm_served_list_t *self)
{
    pthread_mutex_unlock (&self->mutex);
}

int wm_served_count (const wm_served_list_t *self)
{
    int n = 0;
    for (int i = 0; i < self->n; i++)
        n += wm_served_is_here (&self->one[i]);
    return n;
}

wm_served_t *wm_served_named (wm_served_list_t *self, const char *name, size_t n)
{
    for (int i = 0; i < self->n; i++)
        if (wm_served_is_here (&self->one[i]) && strlen (self->one[i].name) == n &&
            strncmp (self->one[i].name, name, n) == 0)
            return &self->one[i];
    return NULL;
}

/* Names one by its output folder or address; of two that have one name the second is NAME-2.  */
static void give_name (wm_served_list_t *self, wm_served_t *one)
{
    char output[PATH_MAX], name[48], numbered[64];
    if (*one->folder)
        wm_folder_output (one->folder, output);
    else
        snprintf (output, sizeof output, "%s", one->endpoint);
    const char *slash = strrchr (output, '/'), *from = slash ? slash + 1 : output;
    size_t n = 0;
    for (; *from && n < sizeof name - 1; from++) {
        const bool is_plain = (*from >= 'a' && *from <= 'z') || (*from >= 'A' && *from <= 'Z') ||
                              (*from >= '0' && *from <= '9') || *from == '_' ||
                              (*from == '.' && n); /* "." and ".." are folders to a browser */
        name[n++] = is_plain ? *from : '-';
    }
    name[n] = 0;
    snprintf (numbered, sizeof numbered, "%s", n ? name : "campaign");
    for (int i = 2; wm_served_named (self, numbered, strlen (numbered)); i++)
        snprintf (numbered, sizeof numbered, "%s-%d", n ? name : "campaign", i);
    strcpy (one->name, numbered);
}

/* ---- which ----------------------------------------------------------------------------------- */

/* The folder of an endpoint "file://FOLDER/endpoint.json"; "": it is another.  */
static void folder_of (const char *endpoint, char folder[PATH_MAX])
{
    static const char head[] = "file://", tail[] = "/endpoint.json";
    const size_t n = strlen (endpoint);
    *folder = 0;
    if (strncmp (endpoint, head, sizeof head - 1) == 0)
        snprintf (folder, PATH_MAX, "%.*s", (int) (n - (sizeof head - 1) - (sizeof tail - 1)),
                  endpoint + sizeof head - 1);
}

static wm_fault_t check_address (const char *given, char endpoint[256], wm_error_t *error)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    if (strlen (given) >= 256)
        return wm_fault (error, WM_EUSAGE, "%.60s...: an address has at most 255 characters",
                         given);
    strcpy (endpoint, given);
    return wm_address_parse (list, given, WM_ADDRESS_CONNECT, error) ? WM_OK : error->fault;
}

static bool is_known (const wm_served_list_t *self, const char *endpoint, const char *folder)
{
    for (int i = 0; i < self->n; i++)
        if (strcmp (self->one[i].endpoint, endpoint) == 0 &&
            strcmp (self->one[i].folder, folder) == 0)
            return true;
    return false;
}

static bool start (wm_served_t *one, int64_t interval_ms)
{
    strcpy (one->before, "the broker answers");
    one->poll = wm_top_poll_new ("serve", *one->folder ? one->folder : one->endpoint, one->endpoint,
                                 one->folder, interval_ms, -1, 0);
    return one->poll != NULL;
}

/* A place that is free; NULL: all are taken.  */
static wm_served_t *free_place (wm_served_list_t *self)
{
    wm_served_t *one = self->one;
    while (one < &self->one[self->n] && (wm_served_is_here (one) || one->poll))
        one++;
    return one < &self->one[WM_SERVED_MAX] ? one : NULL;
}

/* Adds the campaign of a folder or an address; one that is there already is left. args: also what
   options and the environment name; NULL: `given` alone counts. WM_EAGAIN: there is no place.  */
static wm_fault_t add (wm_served_list_t *self, const wm_args_t *args, const char *given,
                       bool is_found, wm_error_t *error)
{
    char endpoint[256] = "", folder[PATH_MAX] = "";
    wm_fault_t fault = given && strstr (given, "://")
                           ? check_address (given, endpoint, error)
                           : wm_ask_find (args, given, endpoint, folder, error);
    if (fault == WM_EBATCH && !given) { /* as other commands that run long */
        strcpy (endpoint, WM_ASK_DEFAULT);
        fault = WM_OK;
    }
    if (fault)
        return fault;
    if (!*folder)
        folder_of (endpoint, folder);
    if (*folder)
        *endpoint = 0;
    if (is_known (self, endpoint, folder))
        return WM_OK;
    wm_served_lock (self);
    wm_served_t *one = free_place (self);
    if (!one)
        fault = wm_fault (error, WM_EAGAIN, "all %d places are taken", WM_SERVED_MAX);
    else {
        *one = (wm_served_t){ .is_found = is_found };
        strcpy (one->endpoint, endpoint);
        strcpy (one->folder, folder);
        give_name (self, one);
        if (self->interval_ms && !start (one, self->interval_ms)) {
            *one = (wm_served_t){ 0 };
            fault = wm_fault (error, WM_EHOST, "no thread can be started");
        } else
            self->n += one == &self->one[self->n];
    }
    if (one)
        snprintf (folder, sizeof folder, "%s", one->name);
    wm_served_unlock (self);
    if (!fault && self->interval_ms)
        fprintf (stderr, "wiremill serve: %s: listed now\n", folder);
    return fault;
}

/* Frees the places of campaigns whose folders are gone, as soon as their threads have ended.  */
static void leave_gone (wm_served_list_t *self)
{
    struct stat st;
    for (wm_served_t *one = self->one; one < &self->one[self->n]; one++) {
        const bool is_gone =
            one->is_found && *one->folder && stat (one->folder, &st) && errno == ENOENT;
        char name[sizeof one->name] = "";
        wm_served_lock (self);
        if (is_gone) {
            memcpy (name, one->name, sizeof name);
            wm_top_poll_stop (one->poll);
            *one->folder = 0;
        }
        if (!wm_served_is_here (one) && wm_top_poll_destroy (&one->poll)) {
            json_decref (one->campaign.status);
            json_decref (one->known.status);
            *one = (wm_served_t){ 0 };
        }
        wm_served_unlock (self);
        if (is_gone)
            fprintf (stderr, "wiremill serve: %s: its folder is gone; no longer listed\n", name);
    }
}

typedef struct {
    char path[PATH_MAX];
    time_t when;
} entry_t;

static int by_age (const void *a, const void *b)
{
    const entry_t *one = a, *other = b;
    return one->when != other->when ? (one->when < other->when) - (one->when > other->when)
                                    : strcmp (one->path, other->path);
}

/* The campaigns in a folder, the latest first; the caller's, NULL: the folder has no campaign.  */
static entry_t *look_in (const char *folder, size_t *n)
{
    DIR *dir = opendir (folder);
    entry_t *list = NULL;
    struct stat st;
    *n = 0;
    for (struct dirent *entry; dir && (entry = readdir (dir));) {
        char path[PATH_MAX], campaign[PATH_MAX];
        bool is_known = false;
        if (*entry->d_name == '.' ||
            snprintf (path, sizeof path, "%s/%s", folder, entry->d_name) >= PATH_MAX ||
            stat (path, &st) || !S_ISDIR (st.st_mode) || !wm_folder_find (path, campaign) ||
            stat (campaign, &st))
            continue; /* an output folder and its campaign's are one */
        for (size_t i = 0; i < *n; i++)
            is_known |= strcmp (list[i].path, campaign) == 0;
        entry_t *more = is_known ? NULL : realloc (list, (*n + 1) * sizeof *list);
        if (!more)
            continue;
        list = more;
        list[*n].when = st.st_mtime;
        strcpy (list[(*n)++].path, campaign);
    }
    if (dir)
        closedir (dir);
    if (*n)
        qsort (list, *n, sizeof *list, by_age);
    return list;
}

/* Adds all campaigns of a folder that there is room for, and counts the others. Returns how many it
   has.  */
static size_t add_all (wm_served_list_t *self, const char *folder, int *n_left_out)
{
    size_t n;
    wm_error_t error;
    entry_t *list = look_in (folder, &n);
    for (size_t i = 0; i < n; i++)
        *n_left_out +=
            add (self, NULL, list[i].path, true, &error) == WM_EAGAIN; /* or it has gone */
    free (list);
    return n;
}

/* Adds the campaign of an argument, or all that are in this folder.  */
static wm_fault_t add_given (wm_served_list_t *self, const char *given, wm_error_t *error)
{
    char campaign[PATH_MAX];
    int n_left_out = self->n_left_out;
    if (strstr (given, "://") || wm_folder_find (given, campaign) ||
        !add_all (self, given, &n_left_out))
        return add (self, NULL, given, false, error);
    self->n_left_out = n_left_out;
    self->is_list = true;
    self->parent[self->n_parent++] = given;
    return WM_OK;
}

int wm_served_find (wm_served_list_t *self, const wm_args_t *args)
{
    wm_error_t error;
    char campaign[PATH_MAX];
    struct stat st;
    pthread_mutex_init (&self->mutex, NULL);
    const bool is_named = wm_args_given (args, "campaign") || wm_args_given (args, "broker");
    const char *given = wm_args_rest (args, 0), *second = given ? wm_args_rest (args, 1) : NULL,
               *folder = wm_args_text (args, "campaign");
    self->is_list = second != NULL;
    if (second && is_named)
        return wm_args_refuse (args,
                               "%.100s: give all campaigns as arguments, or one by --campaign or "
                               "--broker",
                               second);
    if (is_named || !given ||
        (!second && !strstr (given, "://") &&
         (wm_folder_find (given, campaign) || stat (given, &st))))
        return add (self, args, folder ? folder : given, false, &error)
                   ? wm_complain ("serve", &error)
                   : WM_EXIT_OK;
    if (wm_join_take (args, &error))
        return wm_complain ("serve", &error);
    for (int i = 0; given; given = wm_args_rest (args, ++i)) {
        if (self->n == WM_SERVED_MAX || self->n_parent == WM_SERVED_MAX)
            return wm_args_refuse (args, "give at most %d campaigns", WM_SERVED_MAX);
        if (add_given (self, given, &error))
            return wm_complain ("serve", &error);
    }
    return WM_EXIT_OK;
}

/* ---- asking them ----------------------------------------------------------------------------- */

static void *look (void *argument)
{
    wm_served_list_t *self = argument;
    int64_t last_ms = wm_now_ms ();
    for (; !atomic_load (&self->stops); wm_processes_nap (NAP_MS)) {
        if (wm_now_ms () - last_ms < LOOK_MS)
            continue;
        int n_left_out = 0;
        leave_gone (self);
        for (int i = 0; i < self->n_parent; i++)
            add_all (self, self->parent[i], &n_left_out);
        self->n_left_out = n_left_out;
        last_ms = wm_now_ms ();
    }
    atomic_store (&self->has_looked, true);
    return NULL;
}

bool wm_served_start (wm_served_list_t *self, int64_t interval_ms)
{
    self->interval_ms = interval_ms;
    for (int i = 0; i < self->n; i++)
        if (!start (&self->one[i], interval_ms))
            return false;
    self->is_looking = self->n_parent && wm_process_thread (&self->looks, look, self) == 0;
    return self->is_looking || !self->n_parent;
}

bool wm_served_end (wm_served_list_t *self, int64_t ms)
{
    bool is_over = false;
    const int64_t end = wm_now_ms () + ms;
    atomic_store (&self->stops, true);
    while (self->is_looking && !atomic_load (&self->has_looked) && wm_now_ms () < end)
        wm_processes_nap (5);
    if (self->is_looking && !atomic_load (&self->has_looked))
        return false;
    if (self->is_looking)
        pthread_join (self->looks, NULL);
    for (int i = 0; i < self->n; i++)
        if (self->one[i].poll)
            wm_top_poll_stop (self->one[i].poll);
    for (; !is_over && wm_now_ms () < end; wm_processes_nap (5)) {
        is_over = true;
        for (int i = 0; i < self->n; i++)
            is_over &= wm_top_poll_destroy (&self->one[i].poll);
    }
    for (int i = 0; is_over && i < self->n; i++) {
        json_decref (self->one[i].campaign.status);
        json_decref (self->one[i].known.status);
    }
    return is_over;
}
