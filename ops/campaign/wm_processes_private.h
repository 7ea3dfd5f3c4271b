/* wm_processes_private.h - what wm_processes.c (broker, workers, the end) and
   wm_processes_producers.c share.  */
#ifndef WM_PROCESSES_PRIVATE_H
#define WM_PROCESSES_PRIVATE_H

#include "ops/campaign/wm_processes.h"

/* ---- wm_processes.c
   ------------------------------------------------------------------------------- */

/* Prints a line in the verb's name.  */
void wm_processes_report (const wm_processes_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Reports how a child ended, and what follows from that.  */
void wm_processes_report_end (const wm_processes_t *self, const wm_child_t *child,
                              const char *format, ...) __attribute__ ((format (printf, 3, 4)));

/* Shows what a child has logged since the last time.  */
void wm_processes_show_log (const wm_processes_t *self, wm_child_t *child);

/* Prints the error and returns its exit code.  */
int wm_processes_failed (const wm_processes_t *self, const wm_error_t *error);

/* Returns the exit code of a child that has ended, WM_EXIT_AGAIN for a signal.  */
int wm_processes_code_of (const wm_child_t *child);

/* ---- wm_processes_producers.c
   --------------------------------------------------------------------- */

/* Fills in the next producer, which is not started yet. There is a free place.  */
wm_fault_t wm_processes_sender_init (wm_processes_t *self, const wm_inputs_t *inputs,
                                     uint32_t first, wm_error_t *error);
wm_fault_t wm_processes_start_producer (wm_processes_t *self, wm_sender_t *sender,
                                        wm_error_t *error);

/* Returns WM_PROCESSES_WORKING, or an exit code that ends the campaign.  */
int wm_processes_step_producers (wm_processes_t *self);

/* Shows the last lines of producers that have ended, and acts on what they told.  */
void wm_processes_read_reports (wm_processes_t *self);

#endif
