/* wm_campaign.c - takes the lock, refuses folders a ledger cannot live in, opens what is there.  */
#include "broker/campaign/wm_campaign.h"
#include "broker/campaign/wm_old_notes.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define PATH_BYTES 4096
#define CAMPAIGN_COPIES 2 /* of the CAMPAIGN record an epoch: one flipped bit does not cost it */

/* ---- the lock -------------------------------------------------------------------------------- */

typedef struct {
    long pid;
    char state[128]; /* second line, sound; "" */
} lock_text_t;

/* The second line: a word, which file the lock is, a checksum of both.  */
static void state_print (int fd, const char *word, char state[128])
{
    struct statx info = { 0 };
    char text[96];
    state[0] = 0;
    if (statx (fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &info))
        return;
    snprintf (text, sizeof text, "%s %" PRIu64 " %lld.%09u", word, (uint64_t) info.stx_ino,
              (long long) info.stx_btime.tv_sec, info.stx_btime.tv_nsec);
    snprintf (state, 128, "%s %016" PRIx64, text, (uint64_t) XXH3_64bits (text, strlen (text)));
}

static void lock_read (int fd, lock_text_t *lock)
{
    char text[256] = "";
    *lock = (lock_text_t){ 0 };
    const ssize_t bytes = pread (fd, text, sizeof text - 1, 0);
    char *line = bytes > 0 ? strchr (text, '\n') : NULL;
    char *check = line ? strrchr (++line, ' ') : NULL;
    lock->pid = strtol (text, NULL, 10);
    if (!check || check - line > 95)
        return;
    *check = 0;
    const uint64_t sum = XXH3_64bits (line, strlen (line));
    if (strtoull (check + 1, NULL, 16) == sum)
        snprintf (lock->state, sizeof lock->state, "%s %016" PRIx64, line, sum);
    else
        fprintf (stderr,
                 "wiremill-broker: the lock's second line is damaged: it is written again\n");
}

/* Best effort: the text is for people and for copies, and a full disk must not prevent a start.  */
static void lock_write (const wm_campaign_t *self)
{
    char text[256];
    const int bytes = snprintf (text, sizeof text, "%ld\n%s%s", (long) getpid (), self->state,
                                *self->state ? "\n" : "");
    if (ftruncate (self->lock_fd, 0) || pwrite (self->lock_fd, text, (size_t) bytes, 0) != bytes)
        fprintf (stderr, "wiremill-broker: cannot note its pid in %s/lock\n", self->dir);
}

static wm_fault_t lock_take (int fd, const char *dir, const char *path, int64_t wait_ms,
                             wm_error_t *error)
{
    const int64_t until_ms = wm_now_ms () + wait_ms;
    bool is_logged = wait_ms < wm_times ()->lock_ms; /* too short to be worth a line */
    lock_text_t lock;
    char word[PATH_MAX];
    while (flock (fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return wm_fault (error, WM_EHOST, "cannot lock %s: %s", path, strerror (errno));
        lock_read (fd, &lock);
        if (wm_now_ms () >= until_ms)
            return wm_fault (error, WM_EAGAIN,
                             "process %ld is the broker of %s: end it, or ask it (`wiremill "
                             "status %s`)",
                             lock.pid, dir, wm_text_word (word, sizeof word, dir));
        if (!is_logged)
            fprintf (stderr,
                     "wiremill-broker: process %ld is the broker of %s: waiting up to %.1f s\n",
                     lock.pid, dir, (double) wait_ms / 1e3);
        is_logged = true;
        nanosleep (&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    }
    return WM_OK;
}

/* Reads how the broker before this one ended, and whether the folder is a copy.  */
static wm_fault_t check_previous (wm_campaign_t *self, wm_campaign_for_t what, wm_error_t *error)
{
    lock_text_t lock;
    char running[128], word[PATH_MAX];
    lock_read (self->lock_fd, &lock);
    state_print (self->lock_fd, "running", running);
    memcpy (self->state, lock.state, sizeof self->state);
    self->is_copy = strncmp (lock.state, "running ", 8) == 0 && strcmp (lock.state, running) != 0;
    if (self->is_copy && what != WM_CAMPAIGN_REBUILD)
        return wm_fault (
            error, WM_EBATCH,
            "%s is a copy of a campaign that was running, or was killed: its files may be of "
            "different moments; `wiremill rebuild %s` repairs it (with --output DIR where its "
            "outputs were copied too)",
            self->dir, wm_text_word (word, sizeof word, self->dir));
    if (what == WM_CAMPAIGN_SERVE)
        memcpy (self->state, running, sizeof self->state);
    self->ends_stopped = what == WM_CAMPAIGN_SERVE;
    lock_write (self);
    return WM_OK;
}

wm_fault_t wm_campaign_lock (wm_campaign_t *self, const char *dir, wm_campaign_for_t what,
                             int64_t wait_ms, wm_error_t *error)
{
    *self = (wm_campaign_t){ .dir = dir, .lock_fd = -1 };
    char path[PATH_BYTES];
    struct stat status;
    if (what == WM_CAMPAIGN_SERVE && wm_folder_make (dir, 0777, error))
        return error->fault;
    if (stat (dir, &status))
        return wm_fault (error, WM_EHOST, "%s: %s", dir, strerror (errno));
    const char *network = wm_folder_network (dir);
    if (network)
        return wm_fault (error, WM_EBATCH,
                         "%s is on a network file system (%s), where a ledger is not safe: give a "
                         "local folder with --campaign",
                         dir, network);
    if ((size_t) snprintf (path, sizeof path, "%s/lock", dir) >= sizeof path)
        return wm_fault (error, WM_EHOST, "--campaign: a path of more than %d bytes", PATH_BYTES);
    const int fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) /* of a folder that may not be written */
        return wm_fault (error,
                         errno == ENOSPC || errno == EDQUOT                      ? WM_EAGAIN
                         : errno == EMFILE || errno == ENFILE || errno == ENOMEM ? WM_EHOST
                                                                                 : WM_EBATCH,
                         "cannot open %s: %s; %s", path, strerror (errno),
                         what == WM_CAMPAIGN_SERVE
                             ? "let it be read and written, or give another folder with --campaign"
                         : errno == EACCES || errno == EPERM
                             ? "only the campaign's owner, or root, may do this"
                             : "nothing was changed");
    if (lock_take (fd, dir, path, wait_ms, error)) {
        close (fd);
        return error->fault;
    }
    self->lock_fd = fd;
    WM_FAILPOINT ("broker-locked");
    return check_previous (self, what, error);
}

/* ---- journal and ledger ---------------------------------------------------------------------- */

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

static wm_fault_t load_pins (wm_campaign_t *self, wm_error_t *error)
{
    load_t load = { .campaign = self };
    if (wm_ledger_load (self->ledger, NULL, &(wm_ledger_load_t){ .campaign = load_campaign }, &load,
                        NULL, error))
        return error->fault;
    if (load.fault)
        return wm_fault (error, WM_EHOST, "the pins in %s cannot be read: %s", self->dir,
                         load.error.text);
    return WM_OK;
}

typedef struct {
    const uint8_t *id; /* of the ledger */
    bool is_known, is_same;
    uint64_t epoch, sequence; /* of the last record */
} owner_t;

/* Stops at the first CAMPAIGN record of the ledger's campaign, which may have begun again.  */
static wm_fault_t find_owner (void *argument, const wm_record_t *record, const wm_place_t *place,
                              wm_error_t *error)
{
    owner_t *self = argument;
    (void) place;
    self->epoch = record->epoch, self->sequence = record->sequence;
    if (record->type != WM_RECORD_CAMPAIGN)
        return WM_OK;
    self->is_known = true;
    self->is_same = memcmp (self->id, record->digest, 16) == 0;
    return self->is_same ? wm_fault (error, WM_EAGAIN, "found") : WM_OK;
}

/* Replaces a ledger of another campaign than the journal's: it would answer for that campaign. One
   that has more than the journal may be of the campaign that the journal's lost records began.  */
static wm_fault_t check_same (wm_campaign_t *self, wm_error_t *error)
{
    owner_t owner = { .id = self->id };
    wm_journal_found_t found;
    if (!self->created_ns)
        return WM_OK;
    const wm_fault_t fault =
        wm_journal_replay (self->journal, 0, 0, find_owner, &owner, &found, error);
    /* Where the journal lost records, the ledger's campaign may have been in one of them.  */
    if (owner.is_same || !owner.is_known || found.n_lost || fault)
        return owner.is_same ? WM_OK : fault;
    uint64_t epoch, sequence;
    wm_ledger_position (self->ledger, &epoch, &sequence);
    if (epoch > owner.epoch || (epoch == owner.epoch && sequence > owner.sequence))
        return wm_fault (error, WM_EBATCH,
                         "the journal of %.150s is damaged, or its ledger.db is another campaign's:"
                         " the ledger knows of records behind the journal's last one. Put the "
                         "journal back from a copy; if the ledger was copied here, remove it: the "
                         "journal makes a new one",
                         self->dir);
    self->created_ns = 0;
    return wm_ledger_begin_again (self->ledger, "it is of another campaign than the journal",
                                  error);
}

wm_fault_t wm_campaign_open (wm_campaign_t *self, const char *ledger_dir,
                             const wm_storage_ops_t *ops, wm_error_t *error)
{
    self->journal = wm_journal_open (self->dir, ops, error);
    if (self->journal)
        self->ledger = wm_ledger_open (ledger_dir ? ledger_dir : self->dir, NULL, error);
    if (!self->ledger || load_pins (self, error) || check_same (self, error))
        return error->fault;
    if (*wm_ledger_set_aside (self->ledger))
        fprintf (stderr, "wiremill-broker: %s; a new one is made from the journal\n",
                 wm_ledger_set_aside (self->ledger));
    if (wm_ledger_catch_up (self->ledger, self->journal, &self->found, error) ||
        load_pins (self, error))
        return error->fault;
    if (self->found.n_lost)
        fprintf (stderr,
                 "wiremill-broker: the journal of %s is damaged, %llu records are lost (%s): their "
                 "batches are scored again\n",
                 self->dir, (unsigned long long) self->found.n_lost, self->found.text);
    if (!self->created_ns && (self->found.n_record || self->found.n_lost))
        return wm_fault (error, WM_EBATCH,
                         "the journal of %s has %llu records, but the one with the campaign's "
                         "pins is lost, and there is no ledger: put ledger.db "
                         "back from a copy, or give another --campaign folder",
                         self->dir, (unsigned long long) self->found.n_record);
    return WM_OK;
}

wm_fault_t wm_campaign_record (wm_campaign_t *self, wm_record_t *record, wm_error_t *error)
{
    wm_place_t place;
    if (wm_journal_append (self->journal, record, &place, error))
        return error->fault;
    wm_journal_sync (self->journal);
    wm_ledger_apply (self->ledger, record, &place);
    return WM_OK;
}

/* The CAMPAIGN record: in every epoch, so that no damage to one segment costs it. The first of a
   campaign that begins again decides: until it is on disk the campaign before goes on.  */
static wm_fault_t pin (wm_campaign_t *self, wm_error_t *error)
{
    char text[WM_PINS_BYTES_MAX];
    wm_record_t record;
    for (int i = 0; i < CAMPAIGN_COPIES; i++) {
        wm_record_init (&record, WM_RECORD_CAMPAIGN);
        memcpy (record.digest, self->id, 16);
        record.code = self->begins_again;
        record.mtime_ns = self->created_ns;
        record.text = text;
        record.text_bytes = (uint32_t) wm_pins_print (&self->pins, text);
        if (wm_campaign_record (self, &record, error))
            return error->fault;
        if (self->begins_again)
            WM_FAILPOINT ("broker-campaign-again");
    }
    const wm_fault_t fault = wm_ledger_commit (self->ledger, error);
    if (self->begins_again && fault) /* its rows are those of the campaign before: call again */
        return fault;
    self->begins_again = false;
    return fault == WM_EAGAIN ? WM_OK : fault; /* full disk: part of the next commit */
}

/* ---- a campaign with other settings ---------------------------------------------------------- */

static void find_written (void *argument, const wm_ledger_input_t *input)
{
    *(bool *) argument |= input->state == WM_LEDGER_WRITTEN;
}

static void find_returned (void *argument, const wm_ledger_batch_t *batch)
{
    *(bool *) argument |= batch->state == WM_LEDGER_RETURNED;
}

/* Whether an output was ever written since the campaign began.  */
static wm_fault_t find_output (void *argument, const wm_record_t *record, const wm_place_t *place,
                               wm_error_t *error)
{
    bool *found = argument;
    (void) place, (void) error;
    if (record->type == WM_RECORD_CAMPAIGN && record->code)
        *found = false;
    *found |= record->type == WM_RECORD_FILE_WRITTEN;
    return WM_OK;
}

/* Finds why the settings are bound, in words; NULL: nothing is committed. A result that counts is,
   and an output, also one that is lost or was kicked; a journal that lost records cannot tell.  */
static wm_fault_t find_committed (wm_campaign_t *self, const char **why, wm_error_t *error)
{
    bool found = false;
    wm_journal_found_t journal = { 0 };
    const wm_ledger_load_t to = { .input = find_written, .batch = find_returned };
    wm_fault_t fault = wm_ledger_load (self->ledger, NULL, &to, &found, NULL, error);
    if (!fault && !found)
        fault = wm_journal_replay (self->journal, 0, 0, find_output, &found, &journal, error);
    *why = found                                  ? "it has scores already"
           : journal.n_lost || self->found.n_lost ? "its journal is damaged and may have had scores"
                                                  : NULL;
    return fault;
}

/* Completes a text that names a setting which differs from that of what is committed (`reason`).
   Paths that do not fit are left out: a part of one would name another folder.  */
static wm_fault_t refuse (const wm_campaign_t *self, const wm_pins_t *given, const char *reason,
                          wm_error_t *error)
{
    char beside[PATH_MAX], dir[PATH_MAX], was[PATH_MAX], output[PATH_MAX], more[3 * PATH_MAX];
    wm_error_t why;
    uint8_t pinned[16], wanted[16]; /* of all but the output folder */
    const bool is_beside =
        !wm_folder_campaign (self->pins.output, beside, &why) && strcmp (beside, self->dir) == 0;
    const char *other = is_beside ? "--output" : "--output and --campaign";
    wm_text_word (dir, sizeof dir, self->dir);
    wm_text_word (was, sizeof was, self->pins.output);
    wm_text_word (output, sizeof output, given->output);
    wm_pins_digest (&self->pins, pinned);
    wm_pins_digest (given, wanted);
    if (strcmp (self->pins.output, given->output) && !memcmp (pinned, wanted, 16))
        snprintf (more, sizeof more,
                  "; where its outputs were moved or copied there, `wiremill rebuild %s --output "
                  "%s` takes them as they are",
                  dir, output);
    else
        snprintf (more, sizeof more, "; %s: give another %s, or, to begin again, remove %s and %s",
                  reason, other, was, dir);
    const size_t length = strlen (error->text), room = sizeof error->text - length;
    if ((size_t) snprintf (error->text + length, room, "%s", more) >= room)
        snprintf (error->text + length, room, "; %s: give another %s", reason, other);
    return error->fault;
}

/* Makes it another campaign, in memory, if nothing of it is committed. What was measured for its
   classes of machines goes first: it is measured again, whichever campaign goes on.  */
static wm_fault_t begin_again (wm_campaign_t *self, const wm_pins_t *given, wm_error_t *error)
{
    char changes[1024];
    const char *reason;
    wm_error_t why;
    if (find_committed (self, &reason, &why)) {
        *error = why;
        return error->fault;
    }
    if (reason)
        return refuse (self, given, reason, error);
    wm_pins_changes (&self->pins, given, changes, sizeof changes);
    fprintf (stderr,
             "wiremill-broker: nothing of this campaign was scored yet: it begins again with other "
             "settings: %s\n",
             changes);
    if (wm_old_notes_remove (self->dir, true, error))
        return error->fault;
    WM_FAILPOINT ("broker-campaign-before");
    self->begins_again = true;
    self->created_ns = 0;
    return WM_OK;
}

static wm_fault_t record_note (void *argument, wm_record_t *record, wm_error_t *error)
{
    wm_campaign_t *self = argument;
    self->owes_notes = true;
    return wm_campaign_record (self, record, error);
}

/* Takes over what an earlier release kept beside the journal, once.  */
static wm_fault_t take_old_notes (wm_campaign_t *self, wm_error_t *error)
{
    if (wm_old_notes_read (self->dir, self->ledger, record_note, self, error) ||
        (self->owes_notes && wm_ledger_commit (self->ledger, error))) /* the core reads that */
        return error->fault;
    self->owes_notes = false;
    return wm_old_notes_remove (self->dir, false, error);
}

wm_fault_t wm_campaign_start (wm_campaign_t *self, const wm_pins_t *given, wm_error_t *error)
{
    if (self->created_ns && wm_pins_compare (&self->pins, given, error) &&
        begin_again (self, given, error))
        return error->fault;
    if (!self->epoch) {
        uint64_t epoch, sequence;
        wm_ledger_position (self->ledger, &epoch, &sequence);
        if (wm_journal_epoch (self->journal) > epoch)
            epoch = wm_journal_epoch (self->journal);
        if (wm_journal_start (self->journal, epoch + 1, error))
            return error->fault;
        self->epoch = epoch + 1;
    }
    if (!self->created_ns) {
        struct timespec now;
        clock_gettime (CLOCK_REALTIME, &now);
        randombytes_buf (self->id, sizeof self->id);
        self->pins = *given;
        self->created_ns = now.tv_sec * 1000000000ll + now.tv_nsec;
    }
    return pin (self, error) ? error->fault : take_old_notes (self, error);
}

/* ---- endpoint.json --------------------------------------------------------------------------- */

wm_fault_t wm_campaign_announce (wm_campaign_t *self, wm_error_t *error)
{
    sodium_bin2hex (self->where.campaign, sizeof self->where.campaign, self->id, sizeof self->id);
    return wm_endpoint_write (&self->where, self->dir, error);
}

void wm_campaign_unannounce (const wm_campaign_t *self)
{
    char path[PATH_BYTES];
    snprintf (path, sizeof path, "%s/endpoint.json", self->dir);
    unlink (path);
}

wm_fault_t wm_campaign_check (wm_campaign_t *self, wm_error_t *error)
{
    char path[PATH_BYTES];
    struct stat ours, there;
    snprintf (path, sizeof path, "%s/lock", self->dir);
    const int is_there = stat (path, &there) == 0;
    if (fstat (self->lock_fd, &ours) == 0 && (is_there || errno == ENOENT || errno == ENOTDIR) &&
        (!is_there || ours.st_ino != there.st_ino || ours.st_dev != there.st_dev))
        return wm_fault (error, WM_EBATCH,
                         "%.300s was moved, removed or replaced while its broker ran, which ends: "
                         "put it back where it was",
                         self->dir);
    snprintf (path, sizeof path, "%s/endpoint.json", self->dir);
    if (access (path, F_OK) && errno == ENOENT)
        wm_campaign_announce (self, error); /* on a full disk: at the next check */
    return WM_OK;
}

void wm_campaign_close (wm_campaign_t *self)
{
    wm_ledger_destroy (&self->ledger);
    wm_journal_destroy (&self->journal);
    if (self->lock_fd >= 0 && self->ends_stopped) {
        state_print (self->lock_fd, "stopped", self->state);
        lock_write (self);
    }
    if (self->lock_fd >= 0)
        close (self->lock_fd);
    self->lock_fd = -1;
}
