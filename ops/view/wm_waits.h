/* wm_waits.h - what a campaign waits for, as all that people and programs look at report it.

   The broker lists its waits in the status ("waits"), by the table schema/wm_wait.h; of a broker of
   an earlier release they are made from "waiting_for" and what its producers report. Every surface
   takes them from here. Thread: one.  */
#ifndef WM_WAITS_H
#define WM_WAITS_H

#include "schema/wm_wait.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#define WM_WAITS_TEXT_BYTES 1400

/* All waits, the campaign's own first, then by severity, each an object; `wiremill help waits`
   explains them. The caller's; empty if nothing waits.  */
json_t *wm_waits_of (const json_t *status);

/* One line about a wait: its sentence, the peer, since when, what is known of it, and what to do,
   e.g. "the disk of the outputs is full: producer host:12 for 3.1 s: /out: disk full: ...".
   Returns text. with_advice: else without what to do.  */
const char *wm_waits_text (const json_t *wait, bool with_advice, char text[WM_WAITS_TEXT_BYTES]);

/* What people read of this wait, and what to do; lent. The advice is "" where the text of the wait
   has it.  */
const char *wm_waits_sentence (const json_t *wait);
const char *wm_waits_advice (const json_t *wait);

/* Whether something waits for this: by the name in the table, or by that of a family of them
   ("disk full" is also true of "disk full (output)").  */
bool wm_waits_has (const json_t *status, const char *reason);

/* The same by its own name only.  */
bool wm_waits_has_just (const json_t *status, const char *reason);

/* What the campaign waits for as a whole; WM_WAIT_NONE also for what this release does not know. */
wm_wait_t wm_waits_campaign (const json_t *status);

/* The severity of a wait by its name, also by that which a later release reports.  */
wm_wait_severity_t wm_waits_severity (const json_t *wait);

/* Prints a line for each wait that "waiting for:" does not cover: of a peer, or with a text.  */
void wm_waits_print (FILE *out, const json_t *status);

/* Prints a line of `wiremill run` on stderr for each wait that has lasted 5 s and passes only if a
   person looks at it: one for each reason, of which *told has the bits. Calls `before` first.  */
void wm_waits_print_changes (const json_t *status, uint64_t *told, void (*before) (void));

/* What the campaign waits for, in a few words for a narrow place: the text of the worst wait, else
   the name of the campaign's; lent by `status`, "" where nothing waits.  */
const char *wm_waits_short (const json_t *status);

#endif
