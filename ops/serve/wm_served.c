/* wm_served.c - see wm_served.h. */
#include "ops/serve/wm_served.h"
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_processes.h"
#include "ops/campaign/wm_setup.h"
#include "ops/process/wm_complain.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_folder.h"
#include "schema/session/wm_join.h"
#include "schema/wm_limits.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- names ----------------------------------------------------------------------------------- */

wm_served_t *wm_served_named (wm_served_list_t *self, const char *name, size_t n)
{
    for (int i = 0; i < self->n; i++)
        if (strlen (self->one[i].name) == n && strncmp (self->one[i].name, name, n) == 0)
            return &self->one[i];
    return NULL;
}

/* Names the last one by its output folder or address; of two that have one name the second is
   NAME-2.  */
static void give_name (wm_served_list_t *self, const char *given)
{
    char output[PATH_MAX], name[48], numbered[64];
    wm_served_t *one = &self->one[self->n];
    if (*one->folder)
        wm_folder_output (one->folder, output);
    else
        snprintf (output, sizeof output, "%s",
                  strstr (given, "://") ? strstr (given, "://") : given);
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

/* Keeps the last one, under a name, unless it is there already.  */
static void put (wm_served_list_t *self, const char *given)
{
    const wm_served_t *one = &self->one[self->n];
    for (int i = 0; i < self->n; i++)
        if (strcmp (self->one[i].endpoint, one->endpoint) == 0 &&
            strcmp (self->one[i].folder, one->folder) == 0)
            return;
    give_name (self, given);
    self->n++;
}

/* Adds the campaign of a folder or an address; one that is there already is left. args: also what
   options and the environment name; NULL: `given` alone counts.  */
static wm_fault_t add (wm_served_list_t *self, const wm_args_t *args, const char *given,
                       wm_error_t *error)
{
    wm_served_t *one = &self->one[self->n];
    *one = (wm_served_t){ 0 };
    const wm_fault_t fault = given && strstr (given, "://")
                                 ? check_address (given, one->endpoint, error)
                                 : wm_ask_lasting (args, given, one->endpoint, error);
    if (fault)
        return fault;
    folder_of (one->endpoint, one->folder);
    put (self, one->endpoint);
    return WM_OK;
}

/* Adds the campaign of a folder with others, or why it cannot be asked.  */
static void add_of_folder (wm_served_list_t *self, const char *campaign)
{
    wm_error_t error;
    wm_served_t *one = &self->one[self->n];
    if (self->n == WM_SERVED_MAX)
        self->n_left_out++;
    else if (add (self, NULL, campaign, &error)) {
        *one = (wm_served_t){ 0 };
        snprintf (one->folder, sizeof one->folder, "%s", campaign);
        snprintf (one->why_not, sizeof one->why_not, "%.470s", error.text);
        put (self, campaign);
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

/* Adds the campaign of an argument, or all that are in this folder.  */
static wm_fault_t add_given (wm_served_list_t *self, const char *given, wm_error_t *error)
{
    size_t n = 0;
    char campaign[PATH_MAX];
    entry_t *list = NULL;
    if (!strstr (given, "://") && !wm_folder_find (given, campaign))
        list = look_in (given, &n);
    const wm_fault_t fault = n ? WM_OK : add (self, NULL, given, error);
    for (size_t i = 0; i < n; i++)
        add_of_folder (self, list[i].path);
    self->is_list |= n > 0;
    free (list);
    return fault;
}

int wm_served_find (wm_served_list_t *self, const wm_args_t *args)
{
    wm_error_t error;
    char campaign[PATH_MAX];
    struct stat st;
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
        return add (self, args, folder ? folder : given, &error) ? wm_complain ("serve", &error)
                                                                 : WM_EXIT_OK;
    if (wm_join_take (args, &error))
        return wm_complain ("serve", &error);
    for (int i = 0; given; given = wm_args_rest (args, ++i)) {
        if (self->n == WM_SERVED_MAX)
            return wm_args_refuse (args, "give at most %d campaigns", WM_SERVED_MAX);
        if (add_given (self, given, &error))
            return wm_complain ("serve", &error);
    }
    return WM_EXIT_OK;
}

/* ---- asking them ----------------------------------------------------------------------------- */

bool wm_served_start (wm_served_list_t *self, int64_t interval_ms)
{
    for (int i = 0; i < self->n; i++) {
        wm_served_t *one = &self->one[i];
        strcpy (one->before, "the broker answers");
        one->poll = wm_top_poll_new ("serve", *one->endpoint ? one->endpoint : one->folder,
                                     *one->endpoint ? one->endpoint : WM_ASK_DEFAULT, one->folder,
                                     interval_ms, -1, 0, *one->why_not ? one->why_not : NULL);
        if (!one->poll)
            return false;
    }
    return true;
}

bool wm_served_end (wm_served_list_t *self, int64_t ms)
{
    bool is_over = false;
    for (int i = 0; i < self->n; i++)
        if (self->one[i].poll)
            wm_top_poll_stop (self->one[i].poll);
    for (const int64_t end = wm_now_ms () + ms; !is_over && wm_now_ms () < end;
         wm_processes_nap (5)) {
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
