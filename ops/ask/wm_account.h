/* wm_account.h - the one account of a campaign's hits: scored, of those with an empty patch, held;
   and which file has those that are held, for which reasons. `run`, `status`, `held` and `why`
   print it.

   The counts are the broker's (hits.done, hits.empty, hits.held of the status). What is held of a
   file is added to the status as

     "held_files": [{"input", "path", "output", "state", "why", "hits", "scored", "empty", "held",
                     "reasons": {"bad pixel": 2, ...} or null where the output is unreadable,
                     "events_missing": how many events only hits name}, ...],
     "held_files_left_out": how many more have held hits
   Thread: one.  */
#ifndef WM_ACCOUNT_H
#define WM_ACCOUNT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Adds held_files to the status of a campaign as wm_ask_where found it, if a hit is held. is_whole:
   all of them, and every input in its "held", which in a status are the first and, of batches, the
   latest. Returns an exit code; an error was printed as `verb`'s, and the lists are not whole.  */
int wm_account_add (json_t *status, const char *verb, const char *endpoint, const char *campaign,
                    bool is_whole);

/* The same as is_whole, but at most so many inputs in "held" and so many files.  */
int wm_account_add_up_to (json_t *status, const char *verb, const char *endpoint,
                          const char *campaign, size_t rows_max);

/* Adds "worst_files" to a status: at most 64 outputs that are written, evenly spaced, as
   wm_ask_files has them, each with what `wiremill-producer worst` prints of it ("reasons": null
   where it could not be read); "worst_changed", how many are left out since they have changed; and
   "worst_is_here", false where the outputs are elsewhere, so that none is read. Returns an exit
   code; an error was printed as `verb`'s.  */
int wm_account_add_worst (json_t *status, const char *verb, const char *endpoint,
                          const char *campaign);

/* Names a campaign for people: its folder, or the output folder when it is the default one.  */
void wm_account_name (const json_t *status, char name[64]);

/* Returns the share of hits that need nothing more; below 0: the total is not known yet.  */
double wm_account_share (const json_t *status);

/* How many hits there are: "1,234"; "about 1,234" while inputs are read, "at least 1,234" if their
   rest is not known. Returns text.  */
const char *wm_account_all (const json_t *status, char text[48]);

/* The same in percent, to show with one digit: 100.0 only when nothing is left.  */
double wm_account_percent (const json_t *status);

/* Prints "98 scored (3 of them with an empty patch), 2 held", without an end of line.  */
void wm_account_hits (FILE *out, const json_t *status);

/* Prints a line for each file with held hits, `lines_max` at most, and one that counts others.  */
void wm_account_held (FILE *out, const json_t *status, size_t lines_max);

/* Returns whether hits are held because their event is missing.  */
bool wm_account_misses (const json_t *status);

/* Reads the reasons of one file, a row of wm_ask_files, and prints its line; nothing where none of
   its hits are held.  */
void wm_account_file (FILE *out, const json_t *status, json_t *file, const char *verb);

/* Prints a line on the batches that a second machine scored, if any was sampled; and one for each
   machine whose scores were wrong, with what to do. `head` begins the first.  */
void wm_account_checks (FILE *out, const json_t *status, const char *head);

/* Returns whether nothing is held or changed, neither inputs nor batches nor hits.  */
bool wm_account_is_clean (const json_t *status);

#endif
