/* wm_served.h - the campaigns that `wiremill serve` shows: which, under which names, and what is
   known of each.

   Thread: the main one finds and starts; `campaign` is the server's.  */
#ifndef WM_SERVED_H
#define WM_SERVED_H

#include "ops/view/wm_top_poll.h"
#include "schema/option/wm_option.h"

#include <limits.h>
#include <stdbool.h>

#define WM_SERVED_MAX 64

typedef struct {
    char name[64]; /* in URLs: letters, digits, "-", "_" and "."; no two have the same */
    char endpoint[256], folder[PATH_MAX];
    char why_not[480]; /* it cannot be asked; "": it can */
    wm_top_poll_t *poll;
    wm_top_campaign_t campaign; /* of the server's thread */
    wm_top_campaign_t known;    /* of the main thread, */
    char before[480];           /* which has printed this of it */
} wm_served_t;

typedef struct {
    bool is_list; /* "/" lists them; else it is the page of the only one */
    int n, n_left_out;
    wm_served_t one[WM_SERVED_MAX];
} wm_served_list_t;

/* Finds what the arguments name: a campaign by its folder or address, or all in a folder. Before
   there is another thread. Returns an exit code; an error was printed.  */
int wm_served_find (wm_served_list_t *self, const wm_args_t *args);

/* Asks each of them from now on. False: no thread can be started.  */
bool wm_served_start (wm_served_list_t *self, int64_t interval_ms);

/* Ends the threads that ask, and waits for them at most ms. False: one still waits for a broker,
   and uses what it has.  */
bool wm_served_end (wm_served_list_t *self, int64_t ms);

/* The campaign of this name, of which the first n characters count; NULL: no campaign has it.  */
wm_served_t *wm_served_named (wm_served_list_t *self, const char *name, size_t n);

#endif
