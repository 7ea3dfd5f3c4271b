/* wm_served.h - the campaigns that `wiremill serve` shows: which, under which names, and what is
   known of each.

   Folders with campaigns are looked into again every few seconds, by a thread of its own: a disk
   that hangs stops only it. Thread: the main one, but `campaign` is the server's. Others may read
   the first n.  */
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
    char endpoint[256], folder[PATH_MAX]; /* one of them is "" */
    wm_top_poll_t *poll;
    wm_top_campaign_t campaign; /* of the server's thread */
    wm_top_campaign_t known;    /* of the main thread, */
    char before[480];           /* which has printed this of it */
} wm_served_t;

typedef struct {
    bool is_list;          /* "/" lists them; else it is the page of the only one */
    atomic_int n;          /* it only grows */
    atomic_int n_left_out; /* of those in folders */
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

/* The campaign of this name, of which the first n characters count; NULL: no campaign has it.  */
wm_served_t *wm_served_named (wm_served_list_t *self, const char *name, size_t n);

#endif
