/* wm_stage_store.c - see wm_stage_store.h.

   An output NAME lies in the folder `out` here, and goes there in steps, each a program:

     SEND  xrdcp as NAME.HASH.part (HASH: of this machine and folder, so that two producers whose
           claims overlap never write one file), adler32 confirmed by the server
     CLEAR what has the name is removed, where the reader asked for it
     NAME  xrdfs mv

   After a step that failed it is unknown what the server did of it. So before the next try CHECK
   compares what has the name there, and then the partial file, by size and adler32: what is there
   and whole is not copied again. The same of partial files that the listing had, of a producer
   that was killed.
   With sidecars the process that started this producer writes NAME.json beside NAME here, of what
   is copied; when the output has its name there, the sidecar goes the same way (SIDE waits for it),
   and only then is the output reported as stored. Of an output that was stored without a sidecar
   one is made from a copy (FETCH).
   A server that refuses a step for good (wm_tool_is_refused) is asked REFUSED_TRIES times, since
   credentials may be renewed meanwhile; then the stager sends the reader an end.
   A file that was changed is renamed NAME.changed-N (ASIDE) before its output is made again.
   A file with the name that is another one is fetched (LOOK), for the reader to see whether this
   campaign wrote it; the reader asks for it too before it writes an output whose name is in the
   listing. This process never reads an output but for its checksum.  */
#include "producer/staging/wm_stage_store.h"

#include "producer/staging/wm_stage_private.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_order.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COPIES_MAX 4
#define JOBS_MAX 256u
#define TROUBLE_TRIES 2 /* failures in a row before the stager reports them */
#define TROUBLE_WAITS                                                                              \
    30                  /* times stage_wait_ms: it reports them again after a minute, and waits \
                            for a sidecar as long before it reports that */
#define REFUSED_TRIES 5 /* in a row: half a minute */
#define SIDE_MS 50      /* between looks for a sidecar */
#define NAME_BYTES 300
#define ENDING ".scores.h5"
#define SIDECAR ".json"

typedef enum {
    FREE,
    BEGIN,
    LOOK,
    SIZE,
    CHECK,
    CHECK_PART,
    SEND,
    ASIDE,
    CLEAR,
    NAME,
    FETCH,
    SIDE,
    TOLD
} step_t;

typedef struct {
    step_t step;
    uint32_t line, how; /* how: wm_stage_how_t */
    uint32_t adler, seen_adler;
    uint64_t size, seen_size; /* seen: of what the reader was shown */
    uint64_t has;             /* size there, while its checksum is asked for; UINT64_MAX: not yet */
    bool is_side;             /* the sidecar is on its way: adler and size are its own, these are */
    uint32_t output_adler;    /* the output's */
    uint64_t output_size;
    wm_restart_t tries; /* in ms */
    int refused;
    int64_t refused_ms; /* when the server refused it first */
    unsigned aside;
    int64_t side_ms, side_told_ms; /* when it began to wait for the sidecar, and said so last */
    wm_tool_t tool;
    char name[NAME_BYTES];
} job_t;

struct wm_store_t {
    const char *url;
    char folder[PATH_MAX]; /* of outputs here */
    uint32_t hash;
    int fd;
    wm_stage_there_t *there;
    uint32_t n_there;
    size_t there_max;
    bool sidecars;
    int64_t told_ms; /* when trouble was reported last; 0: none was */
    wm_dead_t dead;
    job_t job[JOBS_MAX];
};

/* ---- names ----------------------------------------------------------------------------------- */

/* The reader may have been taken over: nothing but an output's name is used.  */
static bool is_name (const char *name)
{
    const size_t n = strlen (name), ending = strlen (ENDING);
    if (n <= ending || n >= NAME_BYTES || strcmp (name + n - ending, ENDING) != 0)
        return false;
    for (; *name; name++)
        if (*name == '/' || (unsigned char) *name < ' ')
            return false;
    return true;
}

/* What the name of an output becomes while its sidecar is on its way.  */
static const char *sidecar (const job_t *job)
{
    return job->is_side ? SIDECAR : "";
}

static void url_of (const wm_store_t *self, const job_t *job, bool part, char url[PATH_MAX])
{
    char ending[24] = "";
    if (part)
        snprintf (ending, sizeof ending, ".%08x.part", self->hash);
    snprintf (url, PATH_MAX, "%.1100s/%.*s%s%s", self->url, NAME_BYTES, job->name, sidecar (job),
              ending);
}

/* The path there of an output or what it becomes, for xrdfs mv.  */
static void path_of (const wm_store_t *self, const job_t *job, const char *ending,
                     char path[PATH_MAX])
{
    char folder[PATH_MAX];
    wm_tool_path (self->url, folder);
    snprintf (path, PATH_MAX, "%.3000s/%.*s%s%s", folder, NAME_BYTES, job->name, sidecar (job),
              ending);
}

static void file_of (const wm_store_t *self, const job_t *job, const char *ending,
                     char path[PATH_MAX])
{
    snprintf (path, PATH_MAX, "%.3000s/%.*s%s%s", self->folder, NAME_BYTES, job->name,
              sidecar (job), ending);
}

WM_ORDER_BY_TEXT (by_name, wm_stage_there_t, name)

/* Size of a file that the server listed; UINT64_MAX: it was not there.  */
static uint64_t listed (const wm_store_t *self, const char *name)
{
    const wm_stage_there_t key = { .name = name };
    const wm_stage_there_t *found =
        self->n_there ? bsearch (&key, self->there, self->n_there, sizeof key, by_name) : NULL;
    return found ? found->size : UINT64_MAX;
}

/* ---- the reader ------------------------------------------------------------------------------ */

static void tell (wm_store_t *self, wm_stage_kind_t kind, const job_t *job, const char *text)
{
    wm_stage_msg_t msg = { .kind = kind };
    if (job) {
        const bool seen = kind == WM_STAGE_THERE;
        msg.line = job->line;
        msg.adler = seen ? job->seen_adler : job->is_side ? job->output_adler : job->adler;
        msg.size = seen ? job->seen_size : job->is_side ? job->output_size : job->size;
    }
    snprintf (msg.text, sizeof msg.text, "%.1000s", text);
    TEMP_FAILURE_RETRY (send (self->fd, &msg, sizeof msg, MSG_NOSIGNAL));
}

static void forget (wm_store_t *self, job_t *job)
{
    char path[PATH_MAX];
    wm_tool_kill (&job->tool);
    file_of (self, job, ".there", path);
    unlink (path);
    memset (job, 0, sizeof *job);
}

static void works (wm_store_t *self, job_t *job)
{
    job->tries.in_row = job->refused = 0;
    if (self->told_ms)
        tell (self, WM_STAGE_TROUBLE, NULL, "");
    self->told_ms = 0;
}

/* Counts refusals that follow each other. true: the reader was told that there were enough.  */
static bool is_denied (wm_store_t *self, job_t *job, const char *why)
{
    char text[900];
    const int64_t now = wm_now_ms ();
    if (!wm_tool_is_refused (why)) {
        job->refused = 0;
        return false;
    }
    if (!job->refused++)
        job->refused_ms = now;
    if (job->refused < REFUSED_TRIES)
        return false;
    snprintf (text, sizeof text, "%.200s%s: %.400s (tried %d times in %lld s)", job->name,
              sidecar (job), why, job->refused, (long long) (now - job->refused_ms) / 1000);
    tell (self, WM_STAGE_DENIED, job, text);
    forget (self, job);
    return true;
}

/* A step has failed: plans the next try, which begins with what is there. An output that is no
   longer here has to be written again.  */
static void again (wm_store_t *self, job_t *job, const char *why)
{
    char path[PATH_MAX];
    const int64_t wait_ms = wm_times ()->stage_wait_ms;
    const wm_restart_rule_t rule = { .first = wait_ms, .most = 60 * wait_ms };
    file_of (self, job, "", path);
    const bool copies = job->step == CHECK || job->step == CHECK_PART || job->step == SEND ||
                        job->step == CLEAR || job->step == NAME;
    if ((copies || job->step == BEGIN) && access (path, F_OK) && errno == ENOENT) {
        tell (self, WM_STAGE_GONE, job, "");
        forget (self, job);
        return;
    }
    if (is_denied (self, job, why))
        return;
    if (copies)
        job->step = CHECK;
    job->has = UINT64_MAX;
    const int64_t now = wm_now_ms ();
    wm_restart_failed (&job->tries, &rule, now, false);
    if (job->tries.in_row >= TROUBLE_TRIES &&
        (!self->told_ms || now >= self->told_ms + TROUBLE_WAITS * wait_ms)) {
        tell (self, WM_STAGE_TROUBLE, NULL, why);
        self->told_ms = now;
    }
}

static void stored (wm_store_t *self, job_t *job)
{
    char path[PATH_MAX];
    works (self, job);
    if (self->sidecars && !job->is_side) {
        job->step = SIDE;
        return;
    }
    file_of (self, job, "", path);
    unlink (path);
    if (job->is_side) {
        path[strlen (path) - strlen (SIDECAR)] = 0;
        unlink (path);
    }
    WM_FAILPOINT ("stager-stored");
    tell (self, WM_STAGE_STORED, job, "");
    forget (self, job);
}

/* Another file has the name. Where it may go, it goes when the partial file is found whole. A
   sidecar may: it is of an earlier output of that name.  */
static void conflict (job_t *job)
{
    if (job->is_side)
        job->how = WM_STAGE_REPLACE;
    job->step = job->how == WM_STAGE_PLAIN ? LOOK : CHECK_PART;
}

/* Reads what is to be stored.  */
static void begin (wm_store_t *self, job_t *job)
{
    char path[PATH_MAX], part[NAME_BYTES + 24];
    file_of (self, job, "", path);
    if (!wm_stage_adler (path, &job->adler, &job->size)) {
        again (self, job, strerror (errno));
        return;
    }
    snprintf (part, sizeof part, "%.*s.%08x.part", NAME_BYTES, job->name, self->hash);
    if (job->how == WM_STAGE_REPLACE && job->seen_size == job->size &&
        job->seen_adler == job->adler)
        stored (self, job);
    else if (job->how == WM_STAGE_REPLACE && !job->seen_size) /* stored here, and kicked since */
        job->step = CHECK;
    else
        job->step =
            job->how != WM_STAGE_PLAIN || listed (self, part) == job->size ? CHECK_PART : SEND;
}

/* Whether the file is a sidecar of an output with this checksum; one of an earlier output may have
   been left.  */
static bool is_sidecar_of (const char *path, uint32_t adler)
{
    char text[4096] = "", sum[40];
    const int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    const ssize_t n = read (fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    close (fd);
    snprintf (sum, sizeof sum, "\"adler32\": \"%08x\"", adler);
    return strstr (text, sum);
}

/* Another process of this machine makes the sidecar; people hear that it does not.  */
static void side_wait (wm_store_t *self, job_t *job)
{
    char text[600];
    const int64_t now = wm_now_ms (), patience_ms = TROUBLE_WAITS * wm_times ()->stage_wait_ms;
    job->tries.at = now + SIDE_MS;
    if (!job->side_ms)
        job->side_ms = job->side_told_ms = now;
    if (now - job->side_told_ms < patience_ms)
        return;
    job->side_told_ms = self->told_ms = now;
    snprintf (text, sizeof text,
              "the wiremill that writes sidecars made none of %.*s in %lld s (is it stopped?)",
              NAME_BYTES, job->name, (long long) (now - job->side_ms) / 1000);
    tell (self, WM_STAGE_TROUBLE, NULL, text);
}

/* The output is there; its sidecar goes there when it is made.  */
static void side_begin (wm_store_t *self, job_t *job)
{
    char path[PATH_MAX], name[NAME_BYTES + 8];
    uint32_t adler;
    uint64_t size;
    file_of (self, job, SIDECAR, path);
    if (!is_sidecar_of (path, job->adler) || !wm_stage_adler (path, &adler, &size)) {
        side_wait (self, job);
        return;
    }
    if (job->side_told_ms != job->side_ms)
        works (self, job);
    job->is_side = true;
    job->output_adler = job->adler;
    job->output_size = job->size;
    job->adler = adler;
    job->size = size;
    snprintf (name, sizeof name, "%.*s" SIDECAR, NAME_BYTES, job->name);
    const bool any = listed (self, name) != UINT64_MAX;
    job->how = any ? WM_STAGE_REPLACE : WM_STAGE_PLAIN;
    job->step = any ? CHECK : SEND;
}

static step_t first_step (const wm_stage_msg_t *msg)
{
    switch (msg->kind) {
    case WM_STAGE_LOOK:
        return msg->how == WM_STAGE_PLAIN ? LOOK : SIZE;
    case WM_STAGE_MOVE:
        return ASIDE;
    case WM_STAGE_SIDECAR:
        return FETCH;
    default:
        return BEGIN;
    }
}

void wm_store_handle (wm_store_t *self, int fd, const wm_stage_msg_t *msg)
{
    job_t *job = NULL;
    self->fd = fd;
    for (uint32_t i = 0; i < JOBS_MAX && !job; i++)
        if (self->job[i].step != FREE && self->job[i].line == msg->line)
            job = &self->job[i];
    if (job)
        forget (self, job);
    if (msg->kind == WM_STAGE_FORGET || !memchr (msg->text, 0, sizeof msg->text) ||
        !is_name (msg->text))
        return;
    for (uint32_t i = 0; i < JOBS_MAX && !job; i++)
        if (self->job[i].step == FREE)
            job = &self->job[i];
    if (!job) /* the reader works on fewer at a time */
        return;
    *job = (job_t){ .step = first_step (msg),
                    .line = msg->line,
                    .how = msg->how,
                    .seen_adler = msg->adler,
                    .seen_size = msg->size,
                    .has = UINT64_MAX };
    snprintf (job->name, sizeof job->name, "%s", msg->text);
    if (strchr (job->name, '?')) {
        tell (self, WM_STAGE_REFUSED, job,
              "its output's name has a '?', which no root:// URL can have: rename the input");
        forget (self, job);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int step_start (wm_store_t *self, job_t *job)
{
    char url[PATH_MAX], path[PATH_MAX], ending[32];
    const bool part = job->step == CHECK_PART || job->step == SEND || job->step == NAME;
    url_of (self, job, part, url);
    WM_FAILPOINT ("stager-store");
    switch (job->step) {
    case LOOK:
        file_of (self, job, ".there", job->tool.part);
        return wm_tool_copy (&job->tool, url);
    case FETCH:
        file_of (self, job, "", job->tool.part);
        return wm_tool_copy (&job->tool, url);
    case SIZE:
        return wm_tool_fs (&job->tool, url, "stat", NULL, NULL);
    case CHECK:
    case CHECK_PART:
        return job->has == UINT64_MAX ? wm_tool_fs (&job->tool, url, "stat", NULL, NULL)
                                      : wm_tool_fs (&job->tool, url, "query", "checksum", NULL);
    case SEND:
        file_of (self, job, "", path);
        return wm_tool_send (&job->tool, path, job->adler, url);
    case ASIDE:
        do
            snprintf (ending, sizeof ending, ".changed-%u", ++job->aside);
        while (path_of (self, job, ending, path),
               listed (self, strrchr (path, '/') + 1) != UINT64_MAX);
        return wm_tool_fs (&job->tool, url, "mv", NULL, path);
    case CLEAR:
        return wm_tool_fs (&job->tool, url, "rm", NULL, NULL);
    default: /* NAME */
        path_of (self, job, "", path);
        return wm_tool_fs (&job->tool, url, "mv", NULL, path);
    }
}

/* A file was fetched: the reader opens it.  */
static void looked (wm_store_t *self, job_t *job, const char *path)
{
    if (*path && !wm_stage_adler (path, &job->seen_adler, &job->seen_size)) {
        again (self, job, strerror (errno));
        return;
    }
    works (self, job);
    job->step = TOLD; /* until the reader has seen it */
    tell (self, WM_STAGE_THERE, job, path);
}

/* An output was fetched whose sidecar is to be made, or is gone.  */
static void fetched (wm_store_t *self, job_t *job, bool is_there)
{
    if (is_there && !wm_stage_adler (job->tool.part, &job->adler, &job->size)) {
        again (self, job, strerror (errno));
        return;
    }
    works (self, job);
    tell (self, is_there ? WM_STAGE_FETCHED : WM_STAGE_GONE, job, "");
    if (is_there)
        job->step = SIDE;
    else
        forget (self, job);
}

/* The changed file has another name, or is gone.  */
static void moved (wm_store_t *self, job_t *job, bool is_kept)
{
    char name[NAME_BYTES + 24] = "";
    if (is_kept)
        snprintf (name, sizeof name, "%.*s.changed-%u", NAME_BYTES, job->name, job->aside);
    works (self, job);
    tell (self, WM_STAGE_MOVED, job, name);
    forget (self, job);
}

/* Size, then checksum, of what has the name or of the partial file.  */
static void checked (wm_store_t *self, job_t *job, wm_tool_end_t end, uint64_t size, int64_t adler,
                     const char *text)
{
    const bool named = job->step == CHECK;
    if (end != WM_TOOL_DONE && !wm_tool_is_missing (text)) {
        again (self, job, text);
        return;
    }
    const bool asks_sum = job->has != UINT64_MAX;
    const bool same =
        end == WM_TOOL_DONE && (asks_sum ? adler == (int64_t) job->adler : size == job->size);
    job->has = UINT64_MAX;
    if (same && !asks_sum)
        job->has = size; /* the checksum is the next question */
    else if (same && named)
        stored (self, job);
    else if (same)
        job->step = job->how == WM_STAGE_REPLACE ? CLEAR : NAME;
    else if (!named)
        job->step = SEND;
    else if (end == WM_TOOL_DONE)
        conflict (job);
    else
        job->step = CHECK_PART;
}

static void step_ended (wm_store_t *self, job_t *job, int status)
{
    char text[400] = "";
    uint64_t size = UINT64_MAX;
    int64_t adler = -1;
    wm_tool_end_t end;
    switch (job->step) {
    case LOOK:
    case FETCH:
        end = wm_tool_copy_result (&job->tool, self->url, status, &size, &adler, text);
        if (end != WM_TOOL_DONE && !wm_tool_is_missing (text))
            again (self, job, text);
        else if (job->step == FETCH)
            fetched (self, job, end == WM_TOOL_DONE);
        else
            looked (self, job, end == WM_TOOL_DONE ? job->tool.part : "");
        return;
    case SIZE:
        end = wm_tool_stat_result (&job->tool, status, &job->seen_size, text);
        if (end == WM_TOOL_DONE || wm_tool_is_missing (text)) {
            works (self, job);
            job->step = TOLD;
            tell (self, WM_STAGE_THERE, job, end == WM_TOOL_DONE ? job->name : "");
        } else
            again (self, job, text);
        return;
    case CHECK:
    case CHECK_PART:
        end = job->has == UINT64_MAX ? wm_tool_stat_result (&job->tool, status, &size, text)
                                     : wm_tool_sum_result (&job->tool, status, &adler, text);
        checked (self, job, end, size, adler, text);
        return;
    case SEND:
        end = wm_tool_send_result (&job->tool, status, text);
        WM_FAILPOINT ("stager-sent");
        if (end == WM_TOOL_DONE)
            job->step = job->how == WM_STAGE_REPLACE ? CLEAR : NAME;
        break;
    case ASIDE:
        end = wm_tool_fs_result (&job->tool, status, text);
        if (end == WM_TOOL_DONE || wm_tool_is_missing (text)) {
            moved (self, job, end == WM_TOOL_DONE);
            return;
        }
        break;
    case CLEAR:
        end = wm_tool_fs_result (&job->tool, status, text);
        WM_FAILPOINT ("stager-cleared");
        if (end == WM_TOOL_DONE || wm_tool_is_missing (text)) {
            end = WM_TOOL_DONE;
            job->how = WM_STAGE_PLAIN;
            job->step = NAME;
        }
        break;
    default: /* NAME */
        end = wm_tool_fs_result (&job->tool, status, text);
        WM_FAILPOINT ("stager-named");
        if (end == WM_TOOL_DONE) {
            stored (self, job);
            return;
        }
    }
    if (end != WM_TOOL_DONE)
        again (self, job, text);
}

bool wm_store_step (wm_store_t *self)
{
    int status, n_running = 0;
    bool any = false;
    const int64_t now = wm_now_ms ();
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        job_t *job = &self->job[i];
        if (job->tool.pid && wm_tool_ended (&job->tool, job->size, &status))
            step_ended (self, job, status);
        n_running += job->tool.pid != 0;
        any |= job->step != FREE && job->step != TOLD;
    }
    for (uint32_t i = 0; i < JOBS_MAX && n_running < COPIES_MAX; i++) {
        job_t *job = &self->job[i];
        if (job->step == FREE || job->step == TOLD || job->tool.pid || job->tries.at > now)
            continue;
        if (job->step == BEGIN)
            begin (self, job);
        else if (job->step == SIDE)
            side_begin (self, job);
        else if (step_start (self, job))
            again (self, job, strerror (errno));
        n_running += job->tool.pid != 0;
    }
    return wm_dead_remove_some (&self->dead, self->url) || any;
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* Runs one command of xrdfs to its end. *all: what it printed, the caller's.  */
static wm_tool_end_t run (const wm_store_t *self, const char *command, const char *option,
                          char **all, char text[400])
{
    wm_tool_t tool = { 0 };
    int status;
    if (wm_tool_fs (&tool, self->url, command, option, NULL)) {
        snprintf (text, 400, "xrdfs: %s", strerror (errno));
        return WM_TOOL_AGAIN;
    }
    while (!wm_tool_ended (&tool, UINT64_MAX, &status))
        nanosleep (&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    if (all && WIFEXITED (status) && WEXITSTATUS (status) == 0) {
        *all = wm_tool_said (&tool);
        return *all ? WM_TOOL_DONE : WM_TOOL_AGAIN;
    }
    return wm_tool_fs_result (&tool, status, text);
}

/* One line of `xrdfs ls -l`: rights, owner, size, date, time, path; older ones have no owner, and
   the size behind the time. So the size is the last of the words that is a number alone.  */
static void take_line (wm_store_t *self, char *line, const char *folder)
{
    const size_t n = strlen (folder);
    char *path = strstr (line, folder), *rest = line, *end;
    uint64_t size = UINT64_MAX;
    struct tm changed = { .tm_mday = 0 };
    int n1, n2, n3;
    if (!path || path == line || path[-1] != ' ' || path[n] != '/' || *line == 'd')
        return;
    path[-1] = 0;
    for (char *word; (word = strsep (&rest, " "));) {
        const uint64_t number = strtoull (word, &end, 10);
        if (*word && !*end)
            size = number;
        if (sscanf (word, "%4d-%2d-%2d", &n1, &n2, &n3) == 3)
            changed = (struct tm){ .tm_year = n1 - 1900, .tm_mon = n2 - 1, .tm_mday = n3 };
        if (sscanf (word, "%2d:%2d:%2d", &n1, &n2, &n3) == 3)
            changed.tm_hour = n1;
    }
    wm_dead_listed (&self->dead, path + n + 1, changed.tm_mday ? timegm (&changed) : -1);
    wm_must_grow (&self->there, &self->there_max, self->n_there + 1, sizeof *self->there);
    char *name = strdup (path + n + 1);
    assert (name);
    self->there[self->n_there++] = (wm_stage_there_t){ .name = name, .size = size };
}

static void take_list (wm_store_t *self, char *all)
{
    char folder[PATH_MAX];
    if (!wm_tool_path (self->url, folder))
        return;
    for (char *line; (line = strsep (&all, "\r\n"));)
        take_line (self, line, folder);
    if (self->n_there > 1)
        qsort (self->there, self->n_there, sizeof *self->there, by_name);
}

/* Removes what a killed stager left: the reader makes it again.  */
static void empty (const wm_store_t *self)
{
    char path[PATH_MAX + 256];
    DIR *folder = opendir (self->folder);
    for (const struct dirent *entry; folder && (entry = readdir (folder));) {
        snprintf (path, sizeof path, "%s/%s", self->folder, entry->d_name);
        unlink (path);
    }
    if (folder)
        closedir (folder);
}

wm_fault_t wm_store_open (wm_store_t *self, wm_error_t *error)
{
    char text[400] = "";
    char *all = NULL;
    wm_tool_end_t end = WM_TOOL_AGAIN;
    const int64_t began_ms = wm_now_ms (), wait_ms = wm_times ()->stage_wait_ms;
    const wm_restart_rule_t rule = { wait_ms, 60 * wait_ms, .give_up = 6 };
    wm_restart_t tries = { 0 };
    wm_fault_t fault = wm_folder_make (self->folder, 0700, error);
    if (fault)
        return fault;
    empty (self);
    for (bool goes_on = true; end == WM_TOOL_AGAIN && goes_on;) {
        end = run (self, "mkdir", "-p", NULL, text);
        if (end == WM_TOOL_DONE || strstr (text, "[3018]")) /* it is there already */
            end = run (self, "ls", "-l", &all, text);
        goes_on = wm_restart_failed (&tries, &rule, 0, false);
        if (end == WM_TOOL_AGAIN && goes_on) {
            if (tries.in_row == 1)
                fprintf (stderr,
                         "warning: the outputs' folder %s does not answer: %s; trying "
                         "again\n",
                         self->url, text);
            nanosleep (&(struct timespec){ tries.at / 1000, tries.at % 1000 * 1000000 }, NULL);
        }
    }
    if (end == WM_TOOL_DONE)
        take_list (self, all);
    free (all);
    return end == WM_TOOL_DONE
               ? WM_OK
               : wm_fault (error, end == WM_TOOL_AGAIN ? WM_EAGAIN : WM_EHOST,
                           "the outputs' folder %.200s cannot be used: %.200s (after %lld s)",
                           self->url, text, (long long) (wm_now_ms () - began_ms) / 1000);
}

const wm_stage_there_t *wm_store_there (const wm_store_t *self, uint32_t *n)
{
    *n = self->n_there;
    return self->there;
}

wm_store_t *wm_store_new (const wm_stage_options_t *options, const char *folder,
                          const wm_dead_t *dead)
{
    wm_store_t *self = calloc (1, sizeof *self);
    assert (self);
    self->url = options->store;
    self->sidecars = options->sidecars;
    self->fd = -1;
    self->dead = *dead;
    snprintf (self->folder, sizeof self->folder, "%.4000s/" WM_STAGE_OUT, folder);
    self->hash = wm_dead_hash (folder);
    return self;
}

void wm_store_destroy (wm_store_t **self_p)
{
    wm_store_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        wm_tool_kill (&self->job[i].tool);
    wm_tool_kill (&self->dead.tool);
    empty (self);
    rmdir (self->folder);
    for (uint32_t i = 0; i < self->n_there; i++)
        free ((char *) (uintptr_t) self->there[i].name);
    free (self->there);
    free (self);
    *self_p = NULL;
}
