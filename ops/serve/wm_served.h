/* wm_served.h - the campaigns that `wiremill serve` shows: which, under which names, and what is
   known of each.

   Folders with campaigns are looked into again every few seconds, by a thread of its own: a disk
   that hangs stops only it. A campaign whose folder is gone leaves its place to another. Threads:
   the main one and the server's, each between wm_served_lock and wm_served_unlock; of what is known
   `campaign` is the server's.  */
#ifndef WM_SERVED_H
#define WM_SERVED_H

#include "ops/view/wm_top_poll.h"
#include "schema/option/wm_option.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define WM_SERVED_MAX 64

typedef struct {
    char name[64]; /* in URLs: letters, digits, "-", "_" and "."; no two have the same */
    char endpoint[256], folder[PATH_MAX]; /* one of them is ""; both: nothing is here */
    bool is_found; /* in a folder with campaigns */
    wm_top_poll_t *poll;
    wm_top_campaign_t campaign; /* of the server's thread */
    wm_top_campaign_t known;    /* of the main thread, */
    char before[480];           /* which has printed this of it */
} wm_served_t;

typedef struct {
    bool is_list;          /* "/" lists them; else it is the page of the only one */
    int n;                 /* places, some of them free */
    atomic_int n_left_out; /* of those in folders */
    pthread_mutex_t mutex; /* while a place is filled or freed, or one is looked at */
    wm_served_t one[WM_SERVED_MAX];

    int n_parent;
    const char *parent[WM_SERVED_MAX]; /* folders with campaigns, lent */
    int64_t interval_ms;               /* 0: none is asked yet */
    bool is_looking;                   /* the thread runs */
    pthread_t looks;
    atomic_bool stops, has_looked;
} wm_served_list_t;

/* Finds what the arguments name, which stay lent: a campaign by its folder or address, or all in a
   folder. Before there is another thread. Returns an exit code; an error was printed.  */
int wm_served_find (wm_served_list_t *self, const wm_args_t *args);

/* Asks each of them from now on, and those that come into the folders. False: no thread can be
   started.  */
bool wm_served_start (wm_served_list_t *self, int64_t interval_ms);

/* Ends the threads that ask, and waits for them at most ms. False: one still waits for a broker,
   and uses what it has.  */
bool wm_served_end (wm_served_list_t *self, int64_t ms);

/* Keeps all in their places meanwhile.  */
void wm_served_lock (wm_served_list_t *self);
void wm_served_unlock (wm_served_list_t *self);

/* Whether a campaign is in this place.  */
static inline bool wm_served_is_here (const wm_served_t *one)
{
    return *one->folder || *one->endpoint;
}

/* How many campaigns there are.  */
int wm_served_count (const wm_served_list_t *self);

/* The campaign of this name, of which the first n characters count; NULL: no campaign has it.  */
wm_served_t *wm_served_named (wm_served_list_t *self, const char *name, size_t n);

#endif
