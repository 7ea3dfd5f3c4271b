/* wm_campaign.c - takes the lock, refuses folders a ledger cannot live in, opens what is there.  */
#include "broker/wm_campaign.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 4096

/* Locks and fsync of these are promises of somebody else (statfs(2), linux/magic.h).  */
static const struct {
    uint32_t magic;
    const char *name;
} network[] = {
    { 0x6969, "NFS" },       { 0xff534d42, "CIFS" },  { 0xfe534d42, "SMB2" },
    { 0x517b, "SMB" },       { 0x65735546, "FUSE" },  { 0x0bd00bd0, "Lustre" },
    { 0x47504653, "GPFS" },  { 0x5346414f, "AFS" },   { 0x6b414653, "kAFS" },
    { 0x00c36400, "Ceph" },  { 0x01021997, "9p" },    { 0x19830326, "BeeGFS" },
    { 0x7461636f, "OCFS2" }, { 0x01161970, "GFS2" },  { 0x564c, "NCP" },
    { 0x73757245, "Coda" },  { 0xaad7aaea, "PanFS" }, { 0x6e66736f, "NFS" },
    { 0x013111a8, "IBRIX" },
};

static wm_fault_t check_place (const char *dir, wm_error_t *error)
{
    struct statfs info;
    if (statfs (dir, &info))
        return wm_fault (error, WM_EHOST, "%s: %s", dir, strerror (errno));
    for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        if ((uint32_t) info.f_type == network[i].magic)
            return wm_fault (
                error, WM_EHOST,
                "%s is on a network file system (%s), where a ledger is not safe: give "
                "a local folder with --campaign",
                dir, network[i].name);
    return WM_OK;
}

static wm_fault_t make_folder (const char *dir, wm_error_t *error)
{
    char path[PATH_BYTES];
    if ((size_t) snprintf (path, sizeof path, "%s", dir) >= sizeof path)
        return wm_fault (error, WM_EHOST, "--campaign: a path of more than %d bytes", PATH_BYTES);
    for (char *at = path + 1;; at++) {
        char here = *at;
        if (here && here != '/')
            continue;
        *at = 0;
        if (mkdir (path, 0777) && errno != EEXIST)
            return wm_fault (error, errno == ENOSPC ? WM_EAGAIN : WM_EHOST, "cannot make %s: %s",
                             path, strerror (errno));
        if (!here)
            return WM_OK;
        *at = here;
    }
}

/* Who holds the lock, as it wrote itself.  */
static long holder (int fd)
{
    char text[32] = "";
    ssize_t bytes = pread (fd, text, sizeof text - 1, 0);
    return bytes > 0 ? strtol (text, NULL, 10) : 0;
}

wm_fault_t wm_campaign_lock (wm_campaign_t *self, const char *dir, int make, int64_t wait_ms,
                             wm_error_t *error)
{
    *self = (wm_campaign_t){ .dir = dir, .lock_fd = -1 };
    char path[PATH_BYTES];
    if (make && make_folder (dir, error))
        return error->fault;
    if (check_place (dir, error))
        return error->fault;
    if ((size_t) snprintf (path, sizeof path, "%s/lock", dir) >= sizeof path)
        return wm_fault (error, WM_EHOST, "--campaign: a path of more than %d bytes", PATH_BYTES);
    int fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return wm_fault (error, errno == ENOSPC ? WM_EAGAIN : WM_EHOST, "cannot open %s: %s", path,
                         strerror (errno));
    int64_t until_ms = wm_now_ms () + wait_ms;
    int told = wait_ms == 0;
    while (flock (fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            wm_fault (error, WM_EHOST, "cannot lock %s: %s", path, strerror (errno));
            close (fd);
            return error->fault;
        }
        if (wm_now_ms () >= until_ms) {
            wm_fault (error, WM_EAGAIN, "process %ld is the broker of %s: end it or ask it",
                      holder (fd), dir);
            close (fd);
            return error->fault;
        }
        if (!told)
            fprintf (stderr,
                     "wiremill-broker: process %ld is the broker of %s: waiting up to %lld ms\n",
                     holder (fd), dir, (long long) wait_ms);
        told = 1;
        nanosleep (&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    }
    char text[32];
    int bytes = snprintf (text, sizeof text, "%ld\n", (long) getpid ());
    /* The pid is for people: a full disk must not keep a broker from starting. */
    if (ftruncate (fd, 0) || pwrite (fd, text, (size_t) bytes, 0) != bytes)
        fprintf (stderr, "wiremill-broker: cannot note its pid in %s\n", path);
    self->lock_fd = fd;
    return WM_OK;
}

/* ---- journal and ledger ------------------------------------------------------------------------
 */
typedef struct {
    wm_campaign_t *campaign;
    wm_fault_t fault;
    wm_error_t error;
} load_t;

static void load_campaign (void *argument, const wm_ledger_campaign_t *row)
{
    load_t *load = argument;
    memcpy (load->campaign->id, row->id, 16);
    load->campaign->created_ns = row->created_ns;
    load->fault = wm_pins_parse (&load->campaign->pins, row->pins, row->pins_bytes, &load->error);
}

wm_fault_t wm_campaign_open (wm_campaign_t *self, const wm_storage_ops_t *ops, wm_error_t *error)
{
    self->journal = wm_journal_open (self->dir, ops, error);
    if (self->journal)
        self->ledger = wm_ledger_open (self->dir, NULL, error);
    if (!self->ledger)
        return error->fault;
    wm_journal_found_t found;
    if (wm_ledger_catch_up (self->ledger, self->journal, &found, error))
        return error->fault;
    if (found.n_lost)
        fprintf (stderr,
                 "wiremill-broker: the journal of %s is damaged, %llu records are lost (%s): their "
                 "batches are scored again\n",
                 self->dir, (unsigned long long) found.n_lost, found.text);
    load_t load = { .campaign = self };
    if (wm_ledger_load (self->ledger, NULL, &(wm_ledger_load_t){ .campaign = load_campaign }, &load,
                        NULL, error))
        return error->fault;
    if (load.fault)
        return wm_fault (error, WM_EHOST, "the pins in %s cannot be read: %s", self->dir,
                         load.error.text);
    return WM_OK;
}

static wm_fault_t pin (wm_campaign_t *self, const wm_pins_t *given, wm_error_t *error)
{
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    char text[WM_PINS_BYTES_MAX];
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_CAMPAIGN);
    randombytes_buf (self->id, sizeof self->id);
    self->pins = *given;
    memcpy (record.digest, self->id, 16);
    record.mtime_ns = now.tv_sec * 1000000000ll + now.tv_nsec;
    record.text = text;
    record.text_bytes = (uint32_t) wm_pins_print (given, text);
    wm_place_t place;
    if (wm_journal_append (self->journal, &record, &place, error))
        return error->fault;
    wm_journal_sync (self->journal);
    self->created_ns = record.mtime_ns;
    wm_ledger_apply (self->ledger, &record, &place);
    wm_fault_t fault = wm_ledger_commit (self->ledger, error);
    return fault == WM_EAGAIN ? WM_OK : fault; /* full: it goes with the next commit */
}

wm_fault_t wm_campaign_start (wm_campaign_t *self, const wm_pins_t *given, uint64_t *epoch,
                              wm_error_t *error)
{
    if (self->created_ns && wm_pins_compare (&self->pins, given, error)) {
        size_t length = strlen (error->text);
        snprintf (error->text + length, sizeof error->text - length,
                  "; for another choice give another --output (or --campaign) folder");
        return error->fault;
    }
    uint64_t sequence;
    wm_ledger_position (self->ledger, epoch, &sequence);
    if (wm_journal_epoch (self->journal) > *epoch)
        *epoch = wm_journal_epoch (self->journal);
    ++*epoch;
    if (wm_journal_start (self->journal, *epoch, error))
        return error->fault;
    return self->created_ns ? WM_OK : pin (self, given, error);
}

/* ---- endpoint.json -----------------------------------------------------------------------------
 */
wm_fault_t wm_campaign_announce (const wm_campaign_t *self, const char *endpoint, wm_error_t *error)
{
    char path[PATH_BYTES], temporary[PATH_BYTES], id[33];
    for (int i = 0; i < 16; i++)
        snprintf (id + 2 * i, 3, "%02x", self->id[i]);
    snprintf (path, sizeof path, "%s/endpoint.json", self->dir);
    snprintf (temporary, sizeof temporary, "%s/endpoint.json.%ld", self->dir, (long) getpid ());
    json_t *json = json_pack ("{s:s, s:i, s:s, s:s}", "endpoint", endpoint, "pid", (int) getpid (),
                              "campaign", id, "version", WM_VERSION);
    int failed = !json || json_dump_file (json, temporary, JSON_INDENT (1));
    json_decref (json);
    if (!failed && rename (temporary, path) == 0)
        return WM_OK;
    wm_fault (error, errno == ENOSPC ? WM_EAGAIN : WM_EHOST, "cannot write %s: %s", path,
              strerror (errno));
    unlink (temporary);
    return error->fault;
}

void wm_campaign_unannounce (const wm_campaign_t *self)
{
    char path[PATH_BYTES];
    snprintf (path, sizeof path, "%s/endpoint.json", self->dir);
    unlink (path);
}

void wm_campaign_close (wm_campaign_t *self)
{
    wm_ledger_destroy (&self->ledger);
    wm_journal_destroy (&self->journal);
    if (self->lock_fd >= 0)
        close (self->lock_fd);
    self->lock_fd = -1;
}
