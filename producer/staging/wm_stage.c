/* wm_stage.c - the stager: which file is copied when, what is checked of it, and its removal.

   Jobs are worked on in the order in which the reader wants them, COPIES_MAX at a time. A copy
   begins when it fits under the cap with all that lies here or is on its way; one file alone may
   pass it. A try that failed is repeated after a pause that doubles, TRIES_MAX times while nothing
   more of the file comes; then the stager reports the failure to the reader, which holds the
   input.

   A whole copy that an earlier stager left is compared with the server's file, by size and, where
   the server has one, checksum; one that is another version goes, and the file is copied.

   Whatever kills this process kills the reader and the programs that copy (parent-death
   signals).  */
#include "producer/staging/wm_stage_private.h"
#include "producer/staging/wm_stage_store.h"
#include "schema/base/wm_adler.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_order.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_process.h"
#include "schema/wm_limits.h"
#include "schema/wm_wait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define COPIES_MAX 4
#define PROGRESS_BYTES (1u << 20) /* so much more of a file makes its tries count from 0 */
#define SPARE_BYTES (16ull << 20) /* stay free on the disk of the scratch folder */
#define SLOTS_MAX 1000
#define JOBS_MAX 256u
#define TICK_MS 20

typedef enum { FREE, WAITING, ASKING, SUMMING, COPYING, READY } state_t;

typedef struct {
    state_t is;
    uint32_t line, order;
    uint64_t hash, size; /* size: UINT64_MAX while it is not known */
    uint64_t had;        /* bytes of the file when tries began to count */
    wm_restart_t tries;  /* in ms; started: the first */
    char why[160];       /* the last one failed */
    wm_tool_t tool;
    char file[PATH_MAX]; /* of a whole one */
    bool is_left;        /* by an earlier stager: the server was not asked about it yet */
    uint32_t left_adler;
    uint64_t left_size;
} job_t;

typedef struct {
    const wm_stage_options_t *options;
    int fd, lock;
    pid_t reader;
    char folder[PATH_MAX];
    job_t job[JOBS_MAX];
    uint32_t n_wanted;
    uint64_t largest; /* file so far: what one of unknown size is taken for */
    bool full_is_logged;
    wm_wait_t told_wait; /* the reader was told */
    char told[480];
    wm_store_t *store; /* NULL: outputs stay here */
} stage_t;

static volatile sig_atomic_t stop;

static void on_stop (int signal_number)
{
    stop = signal_number;
}

static uint64_t hash_of (const char *line)
{
    char *url = strndup (line, wm_path_length (line));
    if (!url)
        return 0;
    wm_url_redact (url);
    const uint64_t hash = XXH3_64bits (url, strlen (url));
    free (url);
    return hash;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The name of a whole file: the URL's last part, without what a path may not have.  */
static void file_name (const stage_t *self, const job_t *job, uint32_t adler, char path[PATH_MAX])
{
    const char *url = self->options->line[job->line];
    const size_t n = strcspn (url, "?"), length = wm_path_length (url);
    size_t end = n < length ? n : length, first = end;
    while (first && url[first - 1] != '/' && end - first < 100)
        first--;
    int at = snprintf (path, PATH_MAX, "%.3000s/%016" PRIx64 "-%08x-%" PRIu64 "-", self->folder,
                       job->hash, adler, job->size);
    for (; first < end && at < PATH_MAX - 1; first++)
        path[at++] = (unsigned char) url[first] > ' ' && url[first] != 0x7f ? url[first] : '_';
    path[at] = 0;
}

/* Calls `act` for each file of the folder that begins with this hash (0: any), with the hash of its
   name.  */
static void each_file (const stage_t *self, uint64_t hash,
                       void (*act) (const stage_t *, uint64_t, const char *, void *),
                       void *argument)
{
    char path[PATH_MAX + 256];
    DIR *folder = opendir (self->folder);
    for (struct dirent *entry; folder && (entry = readdir (folder));) {
        char *end;
        const uint64_t of = strtoull (entry->d_name, &end, 16);
        if (end != entry->d_name + 16 || (hash && of != hash))
            continue;
        snprintf (path, sizeof path, "%s/%s", self->folder, entry->d_name);
        act (self, of, path, argument);
    }
    if (folder)
        closedir (folder);
}

static void remove_one (const stage_t *self, uint64_t hash, const char *path, void *unused)
{
    (void) self, (void) hash, (void) unused;
    unlink (path);
}

typedef struct {
    uint64_t *hash;
    uint32_t n;
} wanted_t;

WM_ORDER_NUMBERS (hash_compare, uint64_t)

static void remove_foreign (const stage_t *self, uint64_t hash, const char *path, void *argument)
{
    const wanted_t *wanted = argument;
    (void) self;
    if (!bsearch (&hash, wanted->hash, wanted->n, sizeof hash, hash_compare))
        unlink (path);
}

/* Removes what an earlier command left that had other inputs.  */
static void sweep (const stage_t *self)
{
    wanted_t wanted = { calloc (self->options->n_line + 1ul, sizeof (uint64_t)), 0 };
    for (uint32_t i = 0; wanted.hash && i < self->options->n_line; i++)
        if (wm_url_of (self->options->line[i]))
            wanted.hash[wanted.n++] = hash_of (self->options->line[i]);
    if (wanted.hash) {
        qsort (wanted.hash, wanted.n, sizeof (uint64_t), hash_compare);
        each_file (self, 0, remove_foreign, &wanted);
    }
    free (wanted.hash);
}

/* A whole file that an earlier stager left: it is kept if it matches its name, else removed.  */
static void take_left (const stage_t *self, uint64_t hash, const char *path, void *argument)
{
    job_t *job = argument;
    uint32_t named, adler;
    uint64_t size, is;
    const char *name = strrchr (path, '/') + 1;
    (void) self, (void) hash;
    if (name[16] != '-')
        return;
    if (!job->is_left && sscanf (name + 17, "%8x-%" SCNu64 "-", &named, &size) == 2 &&
        wm_stage_adler (path, &adler, &is) && adler == named && is == size) {
        snprintf (job->file, sizeof job->file, "%.4000s", path);
        job->is_left = true;
        job->left_adler = adler;
        job->left_size = size;
        return;
    }
    unlink (path);
}

/* What was left is another version than the server's: the file is copied.  */
static void discard_left (job_t *job)
{
    unlink (job->file);
    job->is_left = false;
    job->is = WAITING;
}

/* ---- the reader ------------------------------------------------------------------------------ */

static void tell (const stage_t *self, const job_t *job, wm_stage_kind_t kind, uint32_t adler,
                  const char *text)
{
    wm_stage_msg_t msg = { .kind = kind, .line = job->line, .adler = adler, .size = job->size };
    snprintf (msg.text, sizeof msg.text, "%s", text);
    WM_FAILPOINT ("stager-tell");
    /* a reader that does not take it has ended, or will have: its end is what counts */
    TEMP_FAILURE_RETRY (send (self->fd, &msg, sizeof msg, MSG_NOSIGNAL));
}

static void tell_ready (const stage_t *self, const job_t *job)
{
    uint32_t adler = 0;
    const char *name = strrchr (job->file, '/') + 1;
    sscanf (name + 17, "%8x", &adler);
    const char *url = self->options->line[job->line];
    char text[sizeof ((wm_stage_msg_t *) 0)->text];
    snprintf (text, sizeof text, "%.800s%.200s", job->file, url + wm_path_length (url));
    tell (self, job, WM_STAGE_READY, adler, text);
}

static void drop (job_t *job)
{
    wm_tool_kill (&job->tool);
    memset (job, 0, sizeof *job);
}

static job_t *job_of (stage_t *self, uint32_t line)
{
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        if (self->job[i].is != FREE && self->job[i].line == line)
            return &self->job[i];
    return NULL;
}

/* Another job of the same file: two datasets of one file have their copy in common. NULL: none that
   is at work on it, or has it.  */
static job_t *other_of (stage_t *self, const job_t *job)
{
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        job_t *other = &self->job[i];
        if (other != job && other->hash == job->hash && other->is != FREE &&
            (other->is != WAITING || other->tries.started))
            return other;
    }
    return NULL;
}

/* A job takes the copy that another one of the same file has. false: it has none.  */
static bool take_other (stage_t *self, job_t *job)
{
    const job_t *other = other_of (self, job);
    if (!other || other->is != READY)
        return false;
    snprintf (job->file, sizeof job->file, "%s", other->file);
    job->size = other->size;
    job->is = READY;
    return true;
}

static void want (stage_t *self, uint32_t line)
{
    job_t *job = job_of (self, line);
    for (uint32_t i = 0; !job && i < JOBS_MAX; i++)
        if (self->job[i].is == FREE)
            job = &self->job[i];
    if (!job) /* the reader wants fewer at a time */
        return;
    if (job->is == FREE) {
        *job = (job_t){ .is = WAITING,
                        .line = line,
                        .order = self->n_wanted++,
                        .hash = hash_of (self->options->line[line]),
                        .size = UINT64_MAX };
        const char *const ends[] = { "part", "head", "fresh" };
        char *const path[] = { job->tool.part, job->tool.head, job->tool.fresh };
        for (int i = 0; i < 3; i++)
            snprintf (path[i], PATH_MAX, "%.3000s/%016" PRIx64 ".%s", self->folder, job->hash,
                      ends[i]);
        if (!other_of (self, job))
            each_file (self, job->hash, take_left, job);
        else
            take_other (self, job);
    }
    if (job->is == READY)
        tell_ready (self, job);
}

/* Reads what the reader wants. false: it has closed its end.  */
static bool hear (stage_t *self)
{
    wm_stage_msg_t msg;
    for (;;) {
        const ssize_t n = recv (self->fd, &msg, sizeof msg, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0)
            return false;
        if (n != sizeof msg || msg.line >= self->options->n_line)
            continue;
        if (self->store &&
            (msg.kind == WM_STAGE_LOOK || msg.kind == WM_STAGE_STORE || msg.kind == WM_STAGE_MOVE ||
             msg.kind == WM_STAGE_FORGET || msg.kind == WM_STAGE_SIDECAR))
            wm_store_handle (self->store, self->fd, &msg);
        if (!wm_url_of (self->options->line[msg.line]))
            continue;
        if (msg.kind == WM_STAGE_WANT)
            want (self, msg.line);
        if (msg.kind != WM_STAGE_DROP)
            continue;
        job_t *job = job_of (self, msg.line);
        if (job)
            drop (job);
        const job_t gone = { .hash = hash_of (self->options->line[msg.line]) };
        if (gone.hash && !other_of (self, &gone)) /* the last that wants it; 0: no memory */
            each_file (self, gone.hash, remove_one, NULL);
    }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void fail (stage_t *self, job_t *job, const char *why, bool is_final)
{
    char text[480], times[64] = "", *url = strdup (self->options->line[job->line]);
    if (url)
        wm_url_redact (url);
    if (!is_final)
        snprintf (times, sizeof times, "; tried %d times in %lld s", job->tries.in_row,
                  (long long) (wm_now_ms () - job->tries.started) / 1000);
    snprintf (text, sizeof text, "%.160s cannot be copied to this machine: %.220s%s",
              url ? url : "", why, times);
    free (url);
    tell (self, job, WM_STAGE_FAILED, 0, text);
    drop (job);
}

/* What the copying of inputs waits for, and where. A job that fails is tried again; one that gets
   no byte for long has a server that is away, too.  */
static wm_wait_t wait_now (const stage_t *self, char text[480])
{
    const int64_t now = wm_now_ms (), patience_ms = wm_times ()->stage_stall_ms / 8;
    *text = 0;
    if (self->full_is_logged) {
        snprintf (text, 480,
                  "%.300s: disk full: it has no room for the next input; free space there, or "
                  "choose another --scratch",
                  self->folder);
        return WM_WAIT_SCRATCH_DISK;
    }
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        const job_t *job = &self->job[i];
        const bool hangs = job->tool.pid && now - job->tool.grew_ms > patience_ms &&
                           (!job->tool.seen || job->tool.seen < job->size);
        if (job->is == FREE || job->is == READY || (!job->tries.in_row && !hangs))
            continue;
        char *url = strdup (self->options->line[job->line]);
        if (url)
            wm_url_redact (url);
        snprintf (text, 480, "%.200s cannot be copied: %.160s; it is tried again",
                  url ? url : "an input", job->tries.in_row ? job->why : "no byte comes");
        free (url);
        return WM_WAIT_AWAY;
    }
    return WM_WAIT_NONE;
}

static void tell_wait (stage_t *self)
{
    wm_stage_msg_t msg = { .kind = WM_STAGE_WAITS };
    msg.how = (uint32_t) wait_now (self, msg.text);
    if (msg.how == (uint32_t) self->told_wait && strcmp (msg.text, self->told) == 0)
        return;
    self->told_wait = (wm_wait_t) msg.how;
    snprintf (self->told, sizeof self->told, "%.479s", msg.text);
    TEMP_FAILURE_RETRY (send (self->fd, &msg, sizeof msg, MSG_NOSIGNAL));
}

/* A try has failed: plans the next one.  */
static void again (stage_t *self, job_t *job, const char *why)
{
    const int64_t wait_ms = wm_times ()->stage_wait_ms;
    const wm_restart_rule_t rule = { wait_ms, 60 * wait_ms, .give_up = 8 };
    struct stat st;
    const uint64_t has = stat (job->tool.part, &st) ? 0 : (uint64_t) st.st_size;
    if (has > job->had + PROGRESS_BYTES) {
        job->had = has;
        job->tries.in_row = 0;
    }
    if (!wm_restart_failed (&job->tries, &rule, wm_now_ms (), false)) {
        fail (self, job, why, false);
        return;
    }
    snprintf (job->why, sizeof job->why, "%.159s", why);
    job->is = WAITING;
}

static uint64_t free_bytes (const stage_t *self)
{
    struct statvfs disk;
    return statvfs (self->folder, &disk) ? UINT64_MAX : (uint64_t) disk.f_bavail * disk.f_frsize;
}

/* Waits for room, which counts as no failure.  */
static void wait_for_room (stage_t *self, job_t *job)
{
    if (!self->full_is_logged)
        fprintf (
            stderr,
            "warning: disk full: %s has no room for the next input; waiting; free space there, "
            "or choose another --scratch\n",
            self->folder);
    self->full_is_logged = true;
    job->tries.at = wm_now_ms () + wm_times ()->disk_full_ms;
    job->is = WAITING;
}

/* Other datasets of the same file have its copy too.  */
static void others_take (stage_t *self, const job_t *job)
{
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        job_t *other = &self->job[i];
        if (other->is == WAITING && other->hash == job->hash && take_other (self, other))
            tell_ready (self, other);
    }
}

/* The program that copied says that all went well: its size, its checksum where the server gave
   one; then the file gets its name.  */
static void copied (stage_t *self, job_t *job, uint64_t size, int64_t said)
{
    char text[200];
    uint32_t adler;
    uint64_t is;
    if (!wm_stage_adler (job->tool.part, &adler, &is))
        snprintf (text, sizeof text, "the copy cannot be read: %s", strerror (errno));
    else if (size != UINT64_MAX && is != size)
        snprintf (text, sizeof text, "%" PRIu64 " bytes came, the server has %" PRIu64, is, size);
    else if (said >= 0 && (uint32_t) said != adler)
        snprintf (text, sizeof text, "adler32 of the copy is %08x, the server's %08x", adler,
                  (uint32_t) said);
    else {
        job->size = is;
        file_name (self, job, adler, job->file);
        WM_FAILPOINT ("stager-rename");
        if (rename (job->tool.part, job->file) == 0) {
            WM_FAILPOINT ("stager-renamed");
            unlink (job->tool.head);
            unlink (job->tool.fresh);
            self->largest = is > self->largest ? is : self->largest;
            self->full_is_logged = false;
            job->is = READY;
            tell_ready (self, job);
            others_take (self, job);
            return;
        }
        snprintf (text, sizeof text, "the copy cannot be renamed: %s", strerror (errno));
    }
    unlink (job->tool.part);
    unlink (job->tool.head);
    job->had = 0;
    again (self, job, text);
}

/* A copy that was left is the server's file: it is ready.  */
static void take_it (stage_t *self, job_t *job)
{
    unlink (job->tool.head);
    job->is_left = false;
    job->size = job->left_size;
    job->is = READY;
    tell_ready (self, job);
    others_take (self, job);
}

/* The server was asked about a copy that was left: by xrdfs for its size, then for its checksum; by
   curl for both. Without a size nothing is known of the copy.  */
static void left_ended (stage_t *self, job_t *job, int status)
{
    char text[400] = "";
    uint64_t size = job->size;
    int64_t adler = -1;
    const bool http = wm_url_of (self->options->line[job->line]) == WM_URL_HTTP;
    const bool sums = job->is == SUMMING;
    const wm_tool_end_t end = http   ? wm_tool_head_result (&job->tool, status, &size, &adler, text)
                              : sums ? wm_tool_sum_result (&job->tool, status, &adler, text)
                                     : wm_tool_stat_result (&job->tool, status, &size, text);
    if (end == WM_TOOL_RESTART)
        discard_left (job);
    else if (end == WM_TOOL_FINAL)
        fail (self, job, text, true);
    else if (end != WM_TOOL_DONE)
        again (self, job, text);
    else if (size != job->left_size || (adler >= 0 && (uint32_t) adler != job->left_adler)) {
        discard_left (job);
        job->size = http ? UINT64_MAX : size;
    } else if (http || sums)
        take_it (self, job);
    else {
        job->size = size;
        job->is = WAITING;
    }
}

static void job_ended (stage_t *self, job_t *job, int status)
{
    char text[400] = "";
    uint64_t size = job->size;
    int64_t adler;
    if (job->is_left) {
        left_ended (self, job, status);
        return;
    }
    const char *url = self->options->line[job->line];
    const bool asked = job->is == ASKING;
    const wm_tool_end_t end =
        asked ? wm_tool_stat_result (&job->tool, status, &size, text)
              : wm_tool_copy_result (&job->tool, url, status, &size, &adler, text);
    if (end == WM_TOOL_DONE && asked) {
        job->size = size;
        job->is = WAITING;
    } else if (end == WM_TOOL_DONE)
        copied (self, job, size, adler);
    else if (end == WM_TOOL_FINAL)
        fail (self, job, text, true);
    else if (!asked && free_bytes (self) < SPARE_BYTES / 16)
        wait_for_room (self, job);
    else {
        if (end == WM_TOOL_RESTART) {
            unlink (job->tool.part);
            unlink (job->tool.head);
            job->size = UINT64_MAX; /* it may have changed */
            job->had = 0;
        }
        again (self, job, text);
    }
}

/* Bytes here and on their way, and how many files these are.  */
static uint64_t bytes_here (const stage_t *self, int *n_file, int *n_running)
{
    uint64_t sum = 0;
    *n_file = *n_running = 0;
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        const job_t *job = &self->job[i];
        *n_running += job->tool.pid != 0;
        bool counted = job->is != READY && job->is != COPYING;
        for (uint32_t k = 0; k < i && !counted; k++) /* one copy for several datasets */
            counted = self->job[k].is == READY && self->job[k].hash == job->hash;
        if (counted)
            continue;
        ++*n_file;
        sum += job->size != UINT64_MAX          ? job->size
               : job->tool.seen > self->largest ? job->tool.seen
                                                : self->largest;
    }
    return sum;
}

/* Starts the next step of a job. false: it has to wait for others, and those behind it too.  */
static bool job_start (stage_t *self, job_t *job)
{
    int n_file, n_running;
    const char *url = self->options->line[job->line];
    const uint64_t here = bytes_here (self, &n_file, &n_running);
    const uint64_t bytes = job->size != UINT64_MAX ? job->size : self->largest;
    const bool http = wm_url_of (url) == WM_URL_HTTP;
    const bool asks = job->is_left || (!http && job->size == UINT64_MAX);
    if (n_running >= COPIES_MAX || (!asks && n_file && here + bytes > self->options->bytes_max))
        return false;
    if (!asks && free_bytes (self) < bytes + SPARE_BYTES) {
        wait_for_room (self, job);
        return false;
    }
    if (!job->tries.started)
        job->tries.started = wm_now_ms ();
    job->is = !asks ? COPYING : !http && job->size != UINT64_MAX ? SUMMING : ASKING;
    WM_FAILPOINT ("stager-start");
    wm_tool_t *tool = &job->tool;
    if (job->is == COPYING   ? wm_tool_copy (tool, url)
        : http               ? wm_tool_head (tool, url)
        : job->is == SUMMING ? wm_tool_fs (tool, url, "query", "checksum", NULL)
                             : wm_tool_fs (tool, url, "stat", NULL, NULL))
        again (self, job, strerror (errno));
    return true;
}

/* The first that waits, and may be tried now.  */
static job_t *next_job (stage_t *self, int64_t now)
{
    job_t *best = NULL;
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        job_t *job = &self->job[i];
        if (job->is == WAITING && job->tries.at <= now && (!best || job->order < best->order) &&
            (job->tries.started || !other_of (self, job)))
            best = job;
    }
    return best;
}

/* Returns how long nothing needs to be done but for messages.  */
static int tend (stage_t *self)
{
    int status, n_busy = 0;
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        job_t *job = &self->job[i];
        if (job->tool.pid && wm_tool_ended (&job->tool, job->size, &status))
            job_ended (self, job, status);
    }
    job_t *job;
    while ((job = next_job (self, wm_now_ms ())) && job_start (self, job))
        ;
    tell_wait (self);
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        n_busy += self->job[i].is != FREE && self->job[i].is != READY;
    n_busy += self->store && wm_store_step (self->store);
    return n_busy ? TICK_MS : 500;
}

/* ---- the two processes ----------------------------------------------------------------------- */

/* Locks the first folder in --scratch that no other stager has.  */
static wm_fault_t slot_take (stage_t *self, wm_error_t *error)
{
    const char *scratch = self->options->scratch;
    struct stat st;
    wm_fault_t fault = wm_folder_make (scratch, 0700, error);
    if (fault)
        return fault;
    if (stat (scratch, &st) || !S_ISDIR (st.st_mode) || st.st_uid != geteuid () ||
        st.st_mode & (S_IWGRP | S_IWOTH))
        return wm_fault (
            error, WM_EHOST,
            "%s is no place for copies of inputs: it must be a folder of this user that "
            "nobody else may write in; choose another --scratch",
            scratch);
    for (int n = 1; n <= SLOTS_MAX; n++) {
        struct stat now;
        snprintf (self->folder, sizeof self->folder, "%.3000s/%d", scratch, n);
        if (mkdir (self->folder, 0700) && errno != EEXIST)
            break;
        self->lock = open (self->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (self->lock < 0)
            break;
        /* another one may have removed the folder after it was opened here */
        if (flock (self->lock, LOCK_EX | LOCK_NB) == 0 && fstat (self->lock, &st) == 0 &&
            stat (self->folder, &now) == 0 && now.st_ino == st.st_ino)
            return WM_OK;
        close (self->lock);
    }
    return wm_fault (error, WM_EHOST, "no folder for copies of inputs can be made in %s: %s",
                     scratch, strerror (errno));
}

/* Ends this process as the reader ended.  */
static int follow (int status)
{
    const struct rlimit none = { 0, 0 };
    if (WIFEXITED (status))
        return WEXITSTATUS (status);
    setrlimit (RLIMIT_CORE, &none);
    signal (WTERMSIG (status), SIG_DFL);
    raise (WTERMSIG (status));
    return WM_EXIT_FAILURE;
}

static int run (stage_t *self)
{
    struct sigaction action = { .sa_handler = on_stop };
    static const int list[] = { SIGTERM, SIGINT, SIGHUP };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        sigaction (list[i], &action, NULL);
    sweep (self);
    int status, wait_ms = 0;
    bool listens = true;
    for (;;) {
        struct pollfd item = { .fd = listens ? self->fd : -1, .events = POLLIN };
        poll (&item, 1, wait_ms);
        if (stop)
            kill (self->reader, stop);
        stop = 0;
        listens = listens && hear (self);
        if (waitpid (self->reader, &status, listens ? WNOHANG : 0) == self->reader)
            break;
        wait_ms = tend (self);
    }
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        wm_tool_kill (&self->job[i].tool);
    wm_store_destroy (&self->store);
    rmdir (self->folder); /* stays while copies are in it: the same command takes them */
    rmdir (self->options->scratch);
    return follow (status);
}

/* What opens files elsewhere leaves the memory of the process that reads hostile ones.  */
static void forget_credentials (const wm_stage_options_t *options)
{
    wm_process_drop_credentials ();
    for (uint32_t i = 0; i < options->n_line; i++)
        if (wm_url_of (options->line[i])) {
            char *line = options->line[i];
            const size_t n = strlen (line);
            wm_url_redact (line);
            explicit_bzero (line + strlen (line), n - strlen (line));
        }
}

int wm_stage_split (const wm_stage_options_t *options, wm_stage_reader_t *reader)
{
    static stage_t self;
    static wm_dead_t dead;
    wm_error_t error;
    int pair[2];
    bool any = options->store != NULL;
    *reader = (wm_stage_reader_t){ .fd = -1 };
    for (uint32_t i = 0; i < options->n_line; i++)
        any |= wm_url_of (options->line[i]) != WM_URL_NONE;
    if (!any) {
        forget_credentials (options);
        return -1;
    }
    self.options = options;
    if (slot_take (&self, &error)) {
        fprintf (stderr, "error: %s\n", error.text);
        return WM_EXIT_FAILURE;
    }
    snprintf (reader->folder, sizeof reader->folder, "%s", self.folder);
    wm_dead_slots (&dead, options->scratch, self.folder);
    if (options->store) {
        self.store = wm_store_new (options, self.folder, &dead);
        const wm_fault_t fault = wm_store_open (self.store, &error);
        reader->is_away = fault == WM_EAGAIN;
        if (fault) {
            fprintf (stderr, "error: %s\n", error.text);
            wm_store_destroy (&self.store);
            rmdir (self.folder);
            rmdir (options->scratch);
            return reader->is_away ? WM_EXIT_AGAIN : WM_EXIT_FAILURE;
        }
        reader->there = wm_store_there (self.store, &reader->n_there);
    }
    const pid_t parent = getpid ();
    fflush (NULL);
    if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) ||
        (self.reader = fork ()) < 0) {
        fprintf (stderr, "error: the process that reads inputs cannot be started: %s\n",
                 strerror (errno));
        return WM_EXIT_FAILURE;
    }
    if (self.reader == 0) {
        wm_process_name ("wm-reader");
        close (pair[0]);
        close (self.lock);
        if (!wm_process_follow (parent, SIGKILL))
            return WM_EXIT_AGAIN;
        forget_credentials (options);
        reader->fd = pair[1];
        return -1;
    }
    close (pair[1]);
    self.fd = pair[0];
    return run (&self);
}
