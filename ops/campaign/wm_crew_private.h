/* wm_crew_private.h - what wm_crew.c (broker, workers, the end) and wm_crew_producers.c share.  */
#ifndef WM_CREW_PRIVATE_H
#define WM_CREW_PRIVATE_H

#include "ops/campaign/wm_crew.h"

/* ---- wm_crew.c ------------------------------------------------------------------------------- */

/* Prints a line in the verb's name.  */
void wm_crew_report (const wm_crew_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Reports how a child ended, and what follows from that.  */
void wm_crew_report_end (const wm_crew_t *self, const wm_child_t *child, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

/* Shows what a child has logged since the last time.  */
void wm_crew_show_log (const wm_crew_t *self, wm_child_t *child);

/* Prints the error and returns its exit code.  */
int wm_crew_failed (const wm_crew_t *self, const wm_error_t *error);

/* Returns the exit code of a child that has ended, WM_EXIT_AGAIN for a signal.  */
int wm_crew_code_of (const wm_child_t *child);

/* ---- wm_crew_producers.c --------------------------------------------------------------------- */

/* Fills in the next producer, which is not started yet. There is a free place.  */
wm_fault_t wm_crew_sender_init (wm_crew_t *self, const wm_inputs_t *inputs, uint32_t first,
                                wm_error_t *error);
wm_fault_t wm_crew_start_producer (wm_crew_t *self, wm_sender_t *sender, wm_error_t *error);

/* Returns WM_CREW_WORKING, or an exit code that ends the campaign.  */
int wm_crew_tend_producers (wm_crew_t *self);

/* Shows the last lines of producers that have ended, and acts on what they told.  */
void wm_crew_hear (wm_crew_t *self);

#endif
