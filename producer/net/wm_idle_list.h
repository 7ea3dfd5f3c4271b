/* wm_idle_list.h - connections without work, in the order in which they were used last: the one
   that makes place for a new client is found at once, however many there are.

   Thread: the loop's.  */
#ifndef WM_IDLE_LIST_H
#define WM_IDLE_LIST_H

#include <stdbool.h>

#define WM_IDLE_LOOKS 16 /* of wm_idle_oldest, at most */

/* Zeroed at first; its place must not move while it is in a list.  */
typedef struct wm_idle_t {
    void *owner;
    struct wm_idle_list_t *list; /* NULL: it is in none */
    struct wm_idle_t *next, *before;
} wm_idle_t;

typedef struct wm_idle_list_t {
    wm_idle_t *first, *last;
} wm_idle_list_t;

/* Puts the item at the end of the list: its owner was used now, and has no work.  */
void wm_idle_enter (wm_idle_list_t *self, wm_idle_t *item, void *owner);
/* Takes it out, if it is in a list: it has work, or ends.  */
void wm_idle_leave (wm_idle_t *item);

/* Returns the owner that was used longest ago and is spare; NULL: none was found. Owners that are
   not (a request has just begun to come) go to the end.  */
typedef bool wm_idle_spare_t (const void *owner);
void *wm_idle_oldest (wm_idle_list_t *self, wm_idle_spare_t *is_spare);

#endif
