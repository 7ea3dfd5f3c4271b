/* wm_file_source.c - see wm_file_source.h.  */
#include "ops/campaign/wm_file_source.h"
#include "ops/campaign/wm_urls.h"
#include "ops/process/wm_child.h"
#include "ops/process/wm_memory.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_text.h"
#include "schema/base/wm_url.h"
#include "schema/wm_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FEED_TRIES_MAX 3
#define REPEATS_MAX 10u /* and as many as there are files: a workflow system may offer all again */
#define ANSWER_BYTES_MAX 4096
#define NAME_BYTES_MAX 1000u

static void report (const wm_file_source_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
static void report (const wm_file_source_t *self, const char *format, ...)
{
    va_list args;
    char time[WM_LOG_TIME_BYTES], text[2 * NAME_BYTES_MAX + 400];
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    wm_url_redact (text);
    wm_log_sanitize (text);
    if (self->before_message)
        self->before_message ();
    fprintf (stderr, "%swiremill %s: %s\n", wm_log_time (time), self->verb, text);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The key of a file: the real path, or the URL without its tokens, which may differ from one
   offer to the next. NULL: no memory.  */
static char *identity (const char *pfn)
{
    char real[PATH_MAX];
    char *copy = strdup (wm_url_of (pfn) == WM_URL_NONE && realpath (pfn, real) ? real : pfn);
    if (copy)
        wm_url_redact (copy);
    return copy;
}

/* The file that has this name in a table, of its paths or of its DIDs; NULL: none.  */
static wm_file_source_file_t *known_as (const wm_file_source_t *self, const wm_table_t *table,
                                        const char *name)
{
    const uint64_t hash = wm_table_text (name);
    size_t at;
    for (void *item = wm_table_first (table, hash, &at); item;
         item = wm_table_next (table, hash, &at)) {
        const uintptr_t i = (uintptr_t) item - 1;
        if (i < self->n_file && /* or it was taken back */
            strcmp (table == &self->by_did ? self->file[i].did : self->file[i].path, name) == 0)
            return &self->file[i];
    }
    return NULL;
}

/* Adds a file, and enters it in the tables where it is the first of its names.  */
static wm_fault_t add (wm_file_source_t *self, const char *did, const char *pfn, wm_error_t *error)
{
    wm_error_t why;
    if (!wm_grow (&self->file, &self->room, self->n_file + 1, sizeof *self->file))
        return wm_fault (error, WM_EHOST, "no memory for the list of files");
    const bool is_url = wm_url_of (pfn) != WM_URL_NONE;
    wm_file_source_file_t *file = &self->file[self->n_file];
    *file = (wm_file_source_file_t){
        .did = strdup (did),
        .pfn = strdup (pfn),
        .path = identity (pfn),
        .is_bad = self->command && is_url && wm_urls_check (pfn, &why),
    };
    if (!file->did || !file->pfn || !file->path || wm_table_reserve (&self->by_path) ||
        wm_table_reserve (&self->by_did))
        return wm_fault (error, WM_EHOST, "no memory for the list of files");
    if (file->is_bad) {
        file->is = WM_FILE_SOURCE_HELD;
        report (self, "held: %s", why.text);
    }
    wm_file_source_file_t *first = known_as (self, &self->by_path, file->path);
    const bool is_new_did = *did && !known_as (self, &self->by_did, did);
    void *item = (void *) (uintptr_t) (self->n_file + 1);
    if (first) {
        file->next_same = first->next_same;
        first->next_same = self->n_file;
    } else
        wm_table_put (&self->by_path, wm_table_text (file->path), item);
    if (is_new_did)
        wm_table_put (&self->by_did, wm_table_text (did), item);
    self->n_file++;
    self->n_is[file->is]++;
    return WM_OK;
}

/* The file that has this DID or this path; NULL: none.  */
static const wm_file_source_file_t *find (const wm_file_source_t *self, const char *did,
                                          const char *pfn)
{
    char *path = identity (pfn);
    const wm_file_source_file_t *found = path ? known_as (self, &self->by_path, path) : NULL;
    if (!found && *did)
        found = known_as (self, &self->by_did, did);
    free (path);
    return found;
}

wm_fault_t wm_file_source_take (wm_file_source_t *self, const wm_inputs_t *inputs,
                                wm_error_t *error)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    wm_fault_t fault = WM_OK;
    FILE *list = fopen (inputs->path, "re");
    if (!list)
        return wm_fault (error, WM_EHOST, "the list of inputs: %s", strerror (errno));
    while (!fault && (n = getline (&line, &room, list)) > 0) {
        line[n - (line[n - 1] == '\n')] = 0;
        fault = add (self, "", line, error);
    }
    free (line);
    fclose (list);
    return fault;
}

wm_fault_t wm_file_source_list (const wm_file_source_t *self, uint32_t first, uint32_t n,
                                wm_inputs_t *inputs, wm_error_t *error)
{
    char *text = NULL;
    size_t bytes = 0;
    *inputs = (wm_inputs_t){ .n_file = 0 };
    FILE *list = open_memstream (&text, &bytes);
    if (!list)
        return wm_fault (error, WM_EHOST, "no memory for the list of inputs");
    for (uint32_t i = first; i < first + n; i++) {
        fprintf (list, "%s\n", self->file[i].pfn);
        inputs->n_file++;
        inputs->n_url += wm_url_of (self->file[i].pfn) != WM_URL_NONE;
        if (i == first)
            snprintf (inputs->first, sizeof inputs->first, "%.4000s", self->file[i].pfn);
    }
    wm_url_redact (inputs->first);
    fclose (list);
    const wm_fault_t fault =
        wm_memory_file ("inputs", text, bytes, &inputs->fd, inputs->path, error);
    free (text);
    return fault;
}

void wm_file_source_mark (wm_file_source_t *self, wm_file_source_file_t *file,
                          wm_file_source_is_t is)
{
    self->n_is[file->is]--;
    self->n_is[is]++;
    file->is = is;
}

uint32_t wm_file_source_count (const wm_file_source_t *self, wm_file_source_is_t is)
{
    return self->n_is[is];
}

/* ---- the record ------------------------------------------------------------------------------ */

/* Takes "DID PFN RSE" or a PFN apart, in place. NULL, or what is wrong with it.  */
static const char *parse (char *line, char **did, char **pfn)
{
    char *field[4] = { NULL }, *rest = line;
    int n = 0;
    for (const char *c = line; *c; c++)
        if (((unsigned char) *c < ' ' && *c != '\t') || *c == 0x7f)
            return "it has control characters";
    for (char *word; n < 4 && (word = strsep (&rest, " \t"));)
        if (*word)
            field[n++] = word;
    *did = n > 1 ? field[0] : line + strlen (line);
    *pfn = n > 1 ? field[1] : field[0];
    if (n < 1 || n > 3)
        return "it has more than three words";
    if (strlen (*did) > NAME_BYTES_MAX || strlen (*pfn) > NAME_BYTES_MAX)
        return "a name has more than 1,000 bytes";
    if (!strchr (*pfn, '/') && access (*pfn, F_OK))
        return "no word of it is a path or a URL";
    return NULL;
}

#define LINE_BYTES (2 * NAME_BYTES_MAX + 16)

/* The record's line of a file.  */
static void line_of (const char *did, const char *pfn, char line[LINE_BYTES])
{
    snprintf (line, LINE_BYTES, "%s%s%s%s\n", did, *did ? " " : "", pfn, *did ? " -" : "");
    wm_url_redact (line); /* after a kill a file is copied without the token that its URL had */
}

/* Notes a file for good: after that a kill cannot lose it.  */
static wm_fault_t record_add (wm_file_source_t *self, const char *did, const char *pfn,
                              wm_error_t *error)
{
    char line[LINE_BYTES];
    line_of (did, pfn, line);
    WM_FAILPOINT ("feed-answered");
    const off_t end = lseek (self->record, 0, SEEK_END);
    if (end < 0 || wm_file_append (self->record, line, strlen (line)) || fdatasync (self->record)) {
        wm_fault (error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST, "%s cannot be written: %s",
                  self->record_path, strerror (errno));
        if (end >= 0 && ftruncate (self->record, end))
            return error->fault; /* the next start drops the line's part */
        return error->fault;
    }
    WM_FAILPOINT ("feed-recorded");
    return ftruncate (self->answer, 0)
               ? wm_fault (error, WM_EHOST, "%s: %s", self->answer_path, strerror (errno))
               : WM_OK;
}

/* Whether a last line without an end is a part of the line that a kill left: the answer that it was
   of is there still, unless the machine lost it, too.  */
static bool is_torn (const wm_file_source_t *self, const char *part)
{
    char text[ANSWER_BYTES_MAX + 1], line[LINE_BYTES], *did, *pfn;
    const ssize_t n = pread (self->answer, text, ANSWER_BYTES_MAX, 0);
    text[n > 0 ? n : 0] = 0;
    char *answer = text + strspn (text, " \t\r\n");
    answer[strcspn (answer, "\r\n")] = 0;
    if (!*answer || parse (answer, &did, &pfn))
        return false;
    line_of (did, pfn, line);
    return strncmp (line, part, strlen (part)) == 0;
}

static wm_fault_t foreign (const wm_file_source_t *self, const char *why, wm_error_t *error)
{
    return wm_fault (error, WM_EBATCH,
                     "%s is no record of files that were asked for%s; give another --asked-files, "
                     "or remove %s",
                     self->record_path, why, *why ? "that line" : "it");
}

/* Reads what an earlier process asked for, and drops the part of a line that a kill left of it. In
   a file that a person named, whatever else has no end is not ours.  */
static wm_fault_t record_read (wm_file_source_t *self, bool is_named, wm_error_t *error)
{
    char line[LINE_BYTES], *did, *pfn;
    off_t whole = 0;
    bool has_part = false;
    wm_fault_t fault = WM_OK;
    FILE *record = fopen (self->record_path, "re");
    while (record && !fault && fgets (line, sizeof line, record)) {
        const size_t n = strlen (line);
        const bool is_whole = n && line[n - 1] == '\n';
        has_part = !is_whole && feof (record);
        if (has_part && is_named && !is_torn (self, line))
            fault = foreign (self, ": its last line has no end", error);
        if (has_part)
            break;
        if (is_whole)
            line[n - 1] = 0;
        whole += (off_t) n;
        if (!is_whole || parse (line, &did, &pfn)) /* too long, or with a NUL */
            fault = foreign (self, "", error);
        else if (!find (self, did, pfn))
            fault = add (self, did, pfn, error);
        if (!fault && self->n_file && self->file[self->n_file - 1].is_bad)
            fault = wm_fault (error, WM_EHOST, "%s cannot be copied here", pfn);
    }
    if (record)
        fclose (record);
    if (!fault && has_part && ftruncate (self->record, whole))
        fault = wm_fault (error, WM_EHOST, "%s: %s", self->record_path, strerror (errno));
    return fault;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void give_up (wm_file_source_t *self, int code)
{
    self->has_ended = true;
    self->code = code;
}

/* A call that brought nothing of use. Whole lines that it printed beside are not taken: the
   workflow system offers again what is not listed as processed.  */
static void failed (wm_file_source_t *self, const char *how, bool is_final)
{
    const int64_t wait_ms = wm_times ()->stage_wait_ms, now = wm_now_ms ();
    const wm_restart_rule_t rule = { .first = wait_ms,
                                     .most = wait_ms << FEED_TRIES_MAX,
                                     .give_up = FEED_TRIES_MAX };
    if (wm_restart_failed (&self->tries, &rule, now, false) && !is_final) {
        report (self, "--files-from-command %s; it is run again in %.1f s", how,
                (double) (self->tries.at - now) / 1e3);
        self->next_ms = self->tries.at;
        return;
    }
    report (self,
            "--files-from-command %s%s: no more files are asked for, those in hand are finished",
            how, is_final ? "" : ", three times");
    give_up (self, is_final ? WM_EXIT_FAILURE : WM_EXIT_AGAIN);
}

/* A file that it gave before is processed once.  */
static void repeated (wm_file_source_t *self, const wm_file_source_file_t *file)
{
    report (self, "the command offered a file again that %s: %s",
            file->is == WM_FILE_SOURCE_WRITTEN ? "is written already"
            : file->is != WM_FILE_SOURCE_WAITS ? "is held or changed (--retry-held tries it again)"
                                               : "is in hand",
            file->pfn);
    if (++self->n_repeat > REPEATS_MAX + self->n_file)
        failed (self, "offers nothing but files that it gave before", true);
    self->next_ms = wm_now_ms () + (self->n_repeat > 1 ? wm_times ()->stage_wait_ms / 4 : 0);
}

/* Reads what it printed. Returns whether there is a new file.  */
static bool take_answer (wm_file_source_t *self, bool is_left)
{
    char text[ANSWER_BYTES_MAX + 1], shown[80], how[240], *did = NULL, *pfn = NULL;
    wm_error_t error;
    const ssize_t n = pread (self->answer, text, sizeof text, 0);
    if (n < 0 || n > ANSWER_BYTES_MAX) {
        failed (self, n < 0 ? "left no answer" : "printed more than 4,096 bytes", true);
        return false;
    }
    size_t bytes = (size_t) n;
    text[n] = 0;
    if (wm_text_plain (text, &bytes, "its answer", &error)) {
        snprintf (how, sizeof how, "printed no name of a file: %.190s", error.text);
        failed (self, how, true);
        return false;
    }
    const bool is_whole = bytes && text[bytes - 1] == '\n';
    char *line = wm_text_trim (text);
    if (!*line || (is_left && !is_whole)) {
        self->has_ended |= !is_left;
        return false;
    }
    snprintf (shown, sizeof shown, "%s", line);
    shown[strcspn (shown, "\n")] = 0;
    const char *wrong = strchr (line, '\n') ? "it printed several lines" : parse (line, &did, &pfn);
    if (wrong && is_left) /* it was reported then */
        return false;
    if (wrong) {
        snprintf (how, sizeof how, "printed no file (%s): %s", wrong, shown);
        failed (self, how, true);
        return false;
    }
    self->tries.in_row = 0;
    const wm_file_source_file_t *known = find (self, did, pfn);
    if (known) {
        if (!is_left)
            repeated (self, known);
        return false;
    }
    self->n_repeat = 0;
    wm_fault_t fault = add (self, did, pfn, &error);
    if (!fault && self->file[self->n_file - 1].is_bad)
        return false;
    if (!fault && record_add (self, did, pfn, &error)) {
        fault = error.fault;
        self->n_file--;
        self->n_is[WM_FILE_SOURCE_WAITS]--;
    }
    if (fault) {
        report (self, "%s", error.text);
        give_up (self, fault == WM_EAGAIN ? WM_EXIT_AGAIN : WM_EXIT_FAILURE);
    }
    return !fault;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* A file that no earlier call has open: what such a call left running may write still.  */
static bool answer_anew (wm_file_source_t *self)
{
    if (self->answer >= 0)
        close (self->answer);
    unlink (self->answer_path);
    self->answer = open (self->answer_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return self->answer < 0;
}

static void start (wm_file_source_t *self)
{
    if (answer_anew (self)) {
        failed (self, "cannot be run", false);
        return;
    }
    const char *const argv[] = { "sh", "-c", self->command, NULL };
    const wm_process_t process = { .program = "/bin/sh",
                                   .argv = argv,
                                   .in = WM_PROCESS_NULL,
                                   .out = self->answer,
                                   .death_signal = SIGKILL };
    WM_FAILPOINT ("feed-start");
    self->began_ms = wm_now_ms ();
    self->pid = wm_process_start (&process);
    if (self->pid < 0) {
        self->pid = 0;
        failed (self, "cannot be run: no process can be made", false);
    }
}

void wm_file_source_stop (wm_file_source_t *self)
{
    wm_process_kill (&self->pid);
}

/* Returns whether it has ended well.  */
static bool has_answered (wm_file_source_t *self)
{
    char how[WM_CHILD_HOW_BYTES], text[WM_CHILD_HOW_BYTES + 32];
    int status;
    const pid_t ended = waitpid (self->pid, &status, WNOHANG);
    if (!ended && wm_now_ms () - self->began_ms > self->limit_ms) {
        wm_file_source_stop (self);
        snprintf (text, sizeof text, "did not end within %lld s (--command-timeout)",
                  (long long) self->limit_ms / 1000);
        failed (self, text, false);
        return false;
    }
    if (ended <= 0)
        return false;
    self->pid = 0;
    if (WIFEXITED (status) && !WEXITSTATUS (status))
        return true;
    const int code = WIFEXITED (status) ? WEXITSTATUS (status) : 0;
    if (code) /* whose meaning is not that of ours */
        snprintf (text, sizeof text, "ended with exit code %d", code);
    else
        snprintf (text, sizeof text, "ended by %s", wm_child_how_ended (status, how));
    failed (self,
            code == 127 || code == 126 ? "cannot be run: the shell finds no such program" : text,
            code == 127 || code == 126);
    return false;
}

bool wm_file_source_step (wm_file_source_t *self, bool wanted)
{
    if (!self->command || (self->has_ended && !self->pid))
        return false;
    if (self->pid)
        return has_answered (self) && take_answer (self, false);
    if (wanted && wm_now_ms () >= self->next_ms)
        start (self);
    return false;
}

/* ---- the start ------------------------------------------------------------------------------- */

static wm_fault_t open_files (wm_file_source_t *self, const char *given, const char *campaign,
                              wm_error_t *error)
{
    struct stat st;
    if (given)
        snprintf (self->record_path, sizeof self->record_path, "%.4000s", given);
    else
        snprintf (self->record_path, sizeof self->record_path, "%.4000s%s", campaign,
                  *campaign ? "/files-asked" : ".wiremill-files-asked");
    snprintf (self->answer_path, sizeof self->answer_path, "%s.next", self->record_path);
    if (access (self->record_path, F_OK) && stat (self->answer_path, &st) == 0 && st.st_size)
        return wm_fault (error, WM_EBATCH,
                         "%s is there, but not %s, whose last answer it would be; remove it, or "
                         "give another --asked-files",
                         self->answer_path, self->record_path);
    self->record = open (self->record_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    self->answer = open (self->answer_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (self->record < 0 || self->answer < 0)
        return wm_fault (error, WM_EUSAGE, "the record of files that were asked for, %s: %s",
                         self->record < 0 ? self->record_path : self->answer_path,
                         strerror (errno));
    if (flock (self->record, LOCK_EX | LOCK_NB))
        return wm_fault (error, WM_EAGAIN,
                         "another process asks for files with the record %s; wait for its end, or "
                         "give each its own --asked-files",
                         self->record_path);
    if (wm_folder_sync_parent (self->record_path)) /* its name, too */
        return wm_fault (error, WM_EHOST, "the folder of %s: %s", self->record_path,
                         strerror (errno));
    return WM_OK;
}

wm_fault_t wm_file_source_open (wm_file_source_t *self, const wm_args_t *args, const char *verb,
                                const char *campaign, wm_error_t *error)
{
    self->verb = verb;
    self->command = wm_args_text (args, "files-from-command");
    self->limit_ms = (int64_t) (1000 * wm_args_seconds (args, "command-timeout"));
    if (!self->command) {
        self->has_ended = true;
        return WM_OK;
    }
    const char *named = wm_args_text (args, "asked-files");
    wm_fault_t fault = open_files (self, named, campaign, error);
    if (!fault)
        fault = record_read (self, named != NULL, error);
    if (!fault)
        take_answer (self, true); /* that an earlier process was killed with */
    return fault;
}
