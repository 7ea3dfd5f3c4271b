/* wm_cache.c - check, lock, check again, fetch, verify, rename.

   Nothing is synced: a file that a power cut damaged fails its hash at the next use, and the worker
   fetches it again.  */
#include "gpuworker/wm_cache.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_POLL_MS = 100 };

wm_fault_t wm_cache_default (char folder[WM_CACHE_PATH_MAX], wm_error_t *error)
{
    const char *cache = getenv ("XDG_CACHE_HOME"), *home = getenv ("HOME");
    int length = -1;
    if (cache && cache[0] == '/')
        length = snprintf (folder, WM_CACHE_PATH_MAX, "%s/wiremill", cache);
    else if (home && home[0] == '/')
        length = snprintf (folder, WM_CACHE_PATH_MAX, "%s/.cache/wiremill", home);
    if (length < 0 || length >= WM_CACHE_PATH_MAX)
        return wm_fault (
            error, WM_EHOST,
            "no folder for models: neither XDG_CACHE_HOME nor HOME is set; give --cache DIR");
    return WM_OK;
}

static struct {
    char path[WM_CACHE_PATH_MAX];
    struct stat status;
} checked; /* a file that had the hash that its name states */

static bool is_checked (const char *path)
{
    struct stat now;
    const struct stat *then = &checked.status;
    return strcmp (path, checked.path) == 0 && stat (path, &now) == 0 &&
           now.st_dev == then->st_dev && now.st_ino == then->st_ino &&
           now.st_size == then->st_size && now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == then->st_mtim.tv_nsec;
}

/* Returns whether the file has the hash; *damaged: it exists with another one.  */
static bool is_good (const char *path, const char *sha256, bool *damaged)
{
    char hex[65];
    *damaged = false;
    if (access (path, F_OK))
        return false;
    if (is_checked (path))
        return true;
    *damaged = wm_file_sha256 (path, hex, NULL) != WM_OK || strcmp (hex, sha256) != 0;
    return !*damaged;
}

void wm_cache_check (const char *folder, const char *sha256, const char *was)
{
    bool damaged;
    char path[WM_CACHE_PATH_MAX], stamp[WM_FILE_STAMP_BYTES];
    struct stat status;
    if (snprintf (path, sizeof path, "%s/%s.wmm", folder, sha256) >= (int) sizeof path ||
        stat (path, &status))
        return;
    const bool same = was && wm_file_stamp (path, stamp) && strcmp (was, stamp) == 0;
    if (!same && !is_good (path, sha256, &damaged))
        return;
    checked.status = status;
    strcpy (checked.path, path);
}

/* Takes the lock of one model; the caller closes *fd. Keeps the session alive while another worker
   has the lock.  */
static wm_fault_t take_lock (const char *path, wm_client_t *client, int *fd, wm_error_t *error)
{
    *fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0)
        return wm_fault (error, WM_EHOST, "cannot open %s: %s", path, strerror (errno));
    while (flock (*fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return wm_fault (error, WM_EHOST, "cannot lock %s: %s", path, strerror (errno));
        if (zsys_interrupted)
            return wm_fault (error, WM_EAGAIN,
                             "interrupted while another worker fetches the model");
        if (wm_client_wait (client, LOCK_POLL_MS) == WM_CLIENT_CLOSED)
            return wm_fault (error, WM_EAGAIN, "%s", wm_client_error (client)->text);
    }
    return WM_OK;
}

/* Requests the bytes from `offset` and waits for them.  */
static wm_fault_t request (wm_client_t *client, uint64_t offset, wm_error_t *error)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_MODEL_GET);
    msg.offset = offset;
    wm_client_send (client, &msg, NULL, 0); /* a failure shows in wait */
    int64_t deadline = wm_now_ms () + wm_times ()->silence_ms;
    for (;;) {
        const int64_t left = deadline - wm_now_ms ();
        wm_client_event_t event =
            wm_client_wait (client, left > 0 ? left : wm_times ()->heartbeat_ms);
        if (event == WM_CLIENT_CLOSED)
            return wm_fault (error, WM_EAGAIN, "%s", wm_client_error (client)->text);
        if (event == WM_CLIENT_MESSAGE && wm_client_msg (client)->type == WM_MSG_MODEL)
            return WM_OK;
        if (zsys_interrupted || (wm_now_ms () >= deadline && !wm_client_is_receiving (client)))
            return wm_fault (error, WM_EAGAIN,
                             zsys_interrupted ? "interrupted while fetching the model"
                                              : "the broker does not send the model");
    }
}

static wm_fault_t fetch (wm_client_t *client, int fd, const char *path, wm_error_t *error)
{
    uint64_t offset = 0, size = 0;
    do {
        wm_fault_t fault = request (client, offset, error);
        if (fault)
            return fault;
        const wm_msg_t *msg = wm_client_msg (client);
        size_t bytes;
        const uint8_t *payload = wm_client_payload (client, &bytes);
        if (msg->offset != offset || !bytes || msg->size > WM_MODEL_BYTES_MAX ||
            bytes > msg->size - offset || offset >= msg->size || (size && msg->size != size))
            return wm_fault (error, WM_EPEER,
                             "the broker sent %zu bytes at %" PRIu64 " of a model of %" PRIu64
                             " bytes instead of those at %" PRIu64,
                             bytes, msg->offset, msg->size, offset);
        size = msg->size;
        if (wm_file_append (fd, payload, bytes))
            return wm_fault (error, WM_EHOST, "cannot write the model to %s: %s; give --cache DIR",
                             path, strerror (errno));
        offset += bytes;
    } while (offset < size);
    return WM_OK;
}

static wm_fault_t fetch_to (const char *path, const char *sha256, wm_client_t *client,
                            wm_error_t *error)
{
    char part[WM_CACHE_PATH_MAX + 8];
    snprintf (part, sizeof part, "%s.part", path);
    int fd = open (part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return wm_fault (error, WM_EHOST, "cannot write %s: %s; give --cache DIR", part,
                         strerror (errno));
    wm_fault_t fault = fetch (client, fd, part, error);
    if (close (fd) && !fault)
        fault = wm_fault (error, WM_EHOST, "cannot write %s: %s", part, strerror (errno));
    bool damaged;
    if (!fault && !is_good (part, sha256, &damaged))
        fault = wm_fault (error, WM_EPEER,
                          "the model that the broker sent is not %.12s, which it is pinned to, or "
                          "cannot be read back (memory, disk)",
                          sha256);
    WM_FAILPOINT ("worker-model-rename");
    if (!fault && rename (part, path))
        fault = wm_fault (error, WM_EHOST, "cannot rename %s: %s", part, strerror (errno));
    if (fault)
        unlink (part);
    return fault;
}

wm_fault_t wm_cache_model (const char *folder, const char *sha256, wm_client_t *client,
                           char path[WM_CACHE_PATH_MAX], wm_error_t *error)
{
    /* The hash becomes a file name.  */
    if (strlen (sha256) != 64 || strspn (sha256, "0123456789abcdef") != 64)
        return wm_fault (error, WM_EPEER,
                         "the broker names a model by something other than a SHA-256");
    if (strlen (folder) + 80 > WM_CACHE_PATH_MAX)
        return wm_fault (error, WM_EHOST, "the path of the folder for models is too long");
    wm_error_t why;
    wm_fault_t fault = wm_folder_make (folder, 0700, &why);
    if (fault)
        return wm_fault (error, WM_EHOST, "no folder for models: %.300s; give --cache DIR",
                         why.text);
    char lock[WM_CACHE_PATH_MAX + 8];
    snprintf (path, WM_CACHE_PATH_MAX, "%s/%s.wmm", folder, sha256);
    snprintf (lock, sizeof lock, "%s.lock", path);
    bool damaged;
    int fd = -1;
    if (is_good (path, sha256, &damaged))
        return WM_OK;
    fault = take_lock (lock, client, &fd, error);
    if (!fault && !is_good (path, sha256, &damaged)) {
        if (damaged)
            fprintf (stderr, "wiremill-worker: %s is damaged; fetching it again\n", path);
        fault = fetch_to (path, sha256, client, error);
    }
    if (fd >= 0)
        close (fd);
    return fault;
}
