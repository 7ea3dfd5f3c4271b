/* wm_ask.h - asks a broker for its status.

   Readers never open a live ledger: they ask the broker, or, with none running, wiremill-broker
   reads under the campaign's lock. Thread: one.  */
#ifndef WM_ASK_H
#define WM_ASK_H

#include "schema/option/wm_option.h"
#include "schema/session/wm_client.h"

#include <jansson.h>

/* Which broker a command means, in this order: --broker; the campaign's folder that is named, by
   --campaign or as an argument; the environment variable WM_BROKER; the campaign in the current
   folder. (`work` and `produce` then try WM_ASK_DEFAULT.) Each takes --join-file, else the
   campaign's own join files.  */
#define WM_ASK_DEFAULT "tcp://127.0.0.1:5555"

/* Finds the broker that `args` names, with --campaign or the first argument as the folder.
   endpoint[0] is 0 if no broker has written its endpoint there; campaign is "" without a folder.
   WM_EBATCH: no campaign; WM_EUSAGE: WM_BROKER is no endpoint, or a join file is refused.  */
wm_fault_t wm_ask_where (const wm_args_t *args, char endpoint[256], char campaign[4096],
                         wm_error_t *error);

/* The same without a look for a running broker: endpoint[0] is 0 where a folder was named. `folder`
   as below.  */
wm_fault_t wm_ask_find (const wm_args_t *args, const char *folder, char endpoint[256],
                        char campaign[4096], wm_error_t *error);

/* The same where arguments mean something else: `folder` is what they name, NULL for none. Without
   `args` only a folder counts.  */
wm_fault_t wm_ask_at (const wm_args_t *args, const char *folder, char endpoint[256],
                      char campaign[4096], wm_error_t *error);

/* The same for a program that runs long: a folder gives its endpoint.json, "file://...", so that a
   broker is found that starts later, or again at another address.  */
wm_fault_t wm_ask_lasting (const wm_args_t *args, const char *folder, char endpoint[256],
                           wm_error_t *error);

/* Explains in `text` why wm_ask_where found no endpoint: no process has the campaign, or the one
   that has it has not written where it listens, or its lock may not be read. Returns the exit
   code.  */
int wm_ask_no_broker (const char *campaign, char text[480]);

/* Reads CAMPAIGN/endpoint.json; *pid may be NULL. false if it does not exist, is not sound, nothing
   in it can be reached from here, or it is of this machine and no broker holds the campaign's
   lock.  */
bool wm_ask_endpoint (const char *campaign, char endpoint[256], long *pid);

/* Whether the campaign that a status is of has its folder here: endpoint.json there names it. A
   broker of another machine has paths that mean nothing here, or something else.  */
bool wm_ask_has_folder (const json_t *status);

/* Writes what a broker names an operator by: "USER@HOST (wiremill VERB)".  */
const char *wm_ask_operator (const char *verb, char label[64]);

/* Opens a session within answer_ms, of the campaign in this folder ("": of any; lent to the
   client), with that folder's keys where its broker wants some. WM_EAGAIN also where another
   campaign's broker answers.  */
wm_fault_t wm_ask_open (wm_client_t *client, const char *campaign, wm_error_t *error);

/* The reply in the client's last message, NULL if it is no reply; the caller's.  */
json_t *wm_ask_reply (const wm_client_t *client);

/* Both, waiting at most timeout_ms. *owed (NULL if the session asks once) counts the answers that
   have not come yet: one that comes late is not taken for the answer to a later question, unless
   time is up and nothing newer has come. NULL: no answer.  */
json_t *wm_ask_status (wm_client_t *client, int64_t timeout_ms, unsigned *owed);

/* Sends an order ("pause", "resume", "drain", "trust") with its text and waits until the broker
   has done it, or reports why not. A reply to an earlier question is dropped.  */
wm_fault_t wm_ask_order (wm_client_t *client, const char *order, const char *text,
                         wm_error_t *error);

/* The status of a campaign that wm_ask_where found: of its broker, else of its ledger. NULL: an
   error was printed as `verb`'s, *code is the exit code.  */
json_t *wm_ask_anyhow (const char *verb, const char *endpoint, const char *campaign, int *code);

/* What wiremill-broker prints of a campaign that no broker serves, by its mode "--status" or
   "--outputs", whose reading is shown on a terminal; output: the folder with copies of the outputs,
   or NULL. NULL: an error was printed, by it or as `verb`'s; *code is the exit code.  */
json_t *wm_ask_ledger (const char *verb, const char *mode, const char *campaign, const char *output,
                       int *code);

/* Calls `take` with each input of a campaign that wm_ask_where found, a row of "wiremill-files-1",
   until it returns false: those that `name` names (its path, the last parts of it, or its output),
   "" all, NULL those with something held or changed. Page by page: neither side holds all of them.
   Returns an exit code; an error was printed as `verb`'s.  */
typedef bool wm_ask_take_t (void *argument, const json_t *file);
int wm_ask_files (const char *verb, const char *endpoint, const char *campaign, const char *name,
                  wm_ask_take_t *take, void *argument);

/* The same of all inputs, on an open operator session.  */
wm_fault_t wm_ask_files_of (wm_client_t *client, wm_ask_take_t *take, void *argument,
                            wm_error_t *error);

/* The history of a campaign that wm_ask_where found, all pages in one object (schema/FORMATS.md,
   "History"); the caller's. NULL: an error was printed as `verb`'s, *code is the exit code.  */
json_t *wm_ask_history (const char *verb, const char *endpoint, const char *campaign, int *code);

/* Has the broker of a campaign that wm_ask_where found copy its ledger, if one serves it; *of_copy:
   CAMPAIGN/ledger-copy.db is there. Returns an exit code; an error was printed as `verb`'s.  */
int wm_ask_copy (const char *verb, const char *endpoint, const char *campaign, bool *of_copy);

/* Returns where the page behind this one begins; 0: it is the last, or a broker sent one that does
   not go on.  */
uint64_t wm_ask_next (const json_t *page, uint64_t from);

/* The same of a page of the history: wm_history_second is when it begins.  */
uint64_t wm_ask_history_next (const json_t *page, uint64_t from);

/* The page of the history, or of its workers (is_of_workers), that begins at `from`, on an open
   operator session. NULL: *error explains.  */
json_t *wm_ask_history_page (wm_client_t *client, bool is_of_workers, uint64_t from,
                             wm_error_t *error);

/* Only users who may write a socket can connect to it; for others the broker would seem not to
   answer. WM_EBATCH: *error explains what to do.  */
wm_fault_t wm_ask_may_connect (const char *endpoint, wm_error_t *error);

/* Opens a session, asks once and closes it: NULL: *error explains, else its fault is WM_OK.  */
json_t *wm_ask_now (wm_client_t *client, const char *campaign, wm_error_t *error);

/* Of a campaign's own keys this process is to use the monitor's alone. Before wm_ask_lasting.  */
void wm_ask_monitor (void);

/* The role of a session that may send orders: a monitor in that process.  */
wm_role_t wm_ask_role (void);

/* Returns whether the broker hands out work: it is neither paused nor draining nor without disk;
   and how many batches wait, are asked for or run.  */
bool wm_ask_takes_work (const json_t *status);
int64_t wm_ask_demand (const json_t *status);

/* A value by its path ("hits.done"); 0, 0.0 or "" if it is not there.  */
int64_t wm_ask_int (const json_t *status, const char *path);
double wm_ask_real (const json_t *status, const char *path);
const char *wm_ask_text (const json_t *status, const char *path);

/* Returns whether the campaign serves clients, and so keeps nothing.  */
bool wm_ask_serves_clients (const json_t *status);

/* What a campaign's rows are: "hits", "windows", ... (wm_pins_rows), or "patches" of clients.  */
const char *wm_ask_rows (const json_t *status);

/* The heading of their rate, "windows/s"; "per s" where that is longer than `width`.  */
const char *wm_ask_rows_s (const json_t *status, int width, char text[32]);

/* Hits that need nothing more: scored or held.  */
int64_t wm_ask_settled (const json_t *status);

/* Prints how to continue a campaign that no broker serves; ends a sentence and its line.  */
void wm_ask_advise (FILE *out, const json_t *status, const char *campaign);

/* The reason of one entry of "held", for who names its file; lent.  */
const char *wm_ask_held_reason (const json_t *held);

/* One line about one entry of "held": file, event, batch, reason.  */
void wm_ask_held (FILE *out, const json_t *held);

/* One line about one entry of "producers" that does not send what it is asked; else nothing.  */
void wm_ask_late (FILE *out, const json_t *producer);

#endif
