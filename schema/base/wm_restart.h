/* wm_restart.h - when something that failed is started, or tried, again, or given up.

   One rule for processes, copies and connections: pauses double while failures follow each other.
   Pure; times are in one unit of the caller's choice.  */
#ifndef WM_RESTART_H
#define WM_RESTART_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int64_t first, most; /* the pause after the first failure in a row doubles up to `most` */
    int64_t quick;       /* a failure so soon after a start continues the row; 0: none does */
    int give_up;         /* at so many in a row; 0: never */
} wm_restart_rule_t;

typedef struct {
    int64_t started;
    int64_t at; /* start it again then; 0: it does not wait for that */
    int in_row; /* failures that followed each other */
} wm_restart_t;

/* It starts now: nothing waits any more.  */
void wm_restart_started (wm_restart_t *self, int64_t now);

/* It failed: sets `at`. A failure begins a new row if it had worked since its start, and not
   failed quickly. false: the rule gives it up; the caller decides.  */
bool wm_restart_failed (wm_restart_t *self, const wm_restart_rule_t *rule, int64_t now,
                        bool has_worked);

/* Whether its pause is over.  */
bool wm_restart_is_due (const wm_restart_t *self, int64_t now);

#endif
