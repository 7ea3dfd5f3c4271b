/* wm_top_poll.h - asks one broker again and again from a thread of its own, for `wiremill top` and
   `wiremill serve`.

   One session stays open, so a question costs the broker one short message. While no broker answers
   the thread tries again at each interval, less often while one refuses it; for a campaign's folder
   it finds one that starts later or elsewhere, and reads the ledger once when the broker has ended.
   Thread: the owner's, beside the thread inside.  */
#ifndef WM_TOP_POLL_H
#define WM_TOP_POLL_H

#include "ops/ask/wm_history_query.h"
#include "ops/view/wm_top.h"
#include "schema/base/wm_fault.h"

typedef struct wm_top_poll_t wm_top_poll_t;

/* `folder` of the campaign, whose broker is found there, or "" and the `endpoint` of a broker.
   `notify` becomes readable whenever something has changed (an eventfd). The verb is for messages.
   past_s: how much of the campaign's history is asked for, 0: all. NULL: no thread.  */
wm_top_poll_t *wm_top_poll_new (const char *verb, const char *given, const char *endpoint,
                                const char *folder, int64_t interval_ms, int notify, double past_s);

/* Copies what is known to *campaign; its status and files are the caller's.  */
void wm_top_poll_copy (wm_top_poll_t *self, wm_top_campaign_t *campaign);

/* Has the list of inputs read as well, now and again every few seconds.  */
void wm_top_poll_files (wm_top_poll_t *self, bool is_wanted);

/* Lends the history; the thread learns nothing new until it is taken back.  */
const wm_history_query_t *wm_top_poll_lend (wm_top_poll_t *self);
void wm_top_poll_take_back (wm_top_poll_t *self);

/* Has an order sent, as wm_ask_order does; false: one is still under way.  */
bool wm_top_poll_order (wm_top_poll_t *self, const char *order, const char *text);

/* Takes what became of the last order. false: nothing new.  */
bool wm_top_poll_answer (wm_top_poll_t *self, char text[512]);

/* Asks the thread to end, which takes as long as what it waits for.  */
void wm_top_poll_stop (wm_top_poll_t *self);

/* Ends a thread that has been told to, if it is done; false: it still waits for a broker.  */
bool wm_top_poll_destroy (wm_top_poll_t **self_p);

#endif
