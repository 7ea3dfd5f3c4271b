/* wm_rebuild.c - checks and repairs a campaign. Opens it as a broker does, which repairs most of
   it; compares the ledger with a second one made of the whole journal in memory; then checks the
   files.

   Where the two ledgers differ and the journal has lost nothing, the journal is right. Where the
   journal has lost records, the ledger is right: it had applied them.  */
#include "broker/campaign/wm_rebuild.h"
#include "broker/campaign/wm_campaign.h"
#include "broker/campaign/wm_outputs.h"
#include "schema/base/wm_bisect.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_text.h"
#include "schema/base/wm_url.h"
#include "schema/wm_pair.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4300
#define NAMED_MAX 20 /* files named of each kind; the others are counted */

/* An input as the ledger has it; its strings are copies.  */
typedef struct {
    wm_ledger_input_t row;
    bool is_in_journal; /* the journal alone gives the same */
    wm_output_state_t output;
} entry_t;

/* A record that stands, as the ledger has it.  */
typedef struct {
    wm_record_t record; /* its strings are a copy, in one piece */
    bool is_in_journal;
} standing_t;

typedef struct {
    const wm_rebuild_options_t *options;
    wm_campaign_t campaign;
    wm_journal_found_t found; /* of the whole journal */
    char ledger_dir[PATH_BYTES];
    bool had_ledger, is_moved; /* is_moved: the outputs are looked for in another folder */
    entry_t *entry;
    size_t n_entry, entry_max;
    standing_t *standing;
    size_t n_standing, standing_max;
    uint64_t n_unlike, n_unlike_standing, n_result, n_unreadable;
    uint64_t n_output[WM_OUTPUT_STATES];
    uint64_t n_wrong; /* found, and repaired */
    uint64_t n_left;  /* found, and left to the user or the next run */
    wm_fault_t fault;
} rebuild_t;

static void __attribute__ ((format (printf, 2, 3)))
report (const char *what, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    printf ("%-9s ", what);
    vprintf (format, arguments);
    putchar ('\n');
    va_end (arguments);
}

/* ---- the ledger's rows, and the journal's ---------------------------------------------------- */

static void ledger_free (rebuild_t *self)
{
    for (size_t i = 0; i < self->n_entry; i++) {
        free ((char *) (uintptr_t) self->entry[i].row.path);
        free ((char *) (uintptr_t) self->entry[i].row.name);
        free ((char *) (uintptr_t) self->entry[i].row.text);
    }
    for (size_t i = 0; i < self->n_standing; i++)
        free ((char *) (uintptr_t) self->standing[i].record.text);
    self->n_entry = self->n_standing = 0;
}

static void take_input (void *argument, const wm_ledger_input_t *row)
{
    rebuild_t *self = argument;
    if (!wm_grow (&self->entry, &self->entry_max, self->n_entry + 1, sizeof *self->entry)) {
        self->fault = WM_EHOST;
        return;
    }
    entry_t *entry = &self->entry[self->n_entry++];
    *entry = (entry_t){ .row = *row };
    entry->row.path = strdup (row->path);
    entry->row.name = strdup (row->name);
    entry->row.text = strdup (row->text);
    if (!entry->row.path || !entry->row.name || !entry->row.text)
        self->fault = WM_EHOST;
}

static bool is_same (const wm_ledger_input_t *a, const wm_ledger_input_t *b)
{
    return a->generation == b->generation && a->state == b->state && a->size == b->size &&
           a->mtime_ns == b->mtime_ns && a->n_event == b->n_event && a->out_size == b->out_size &&
           a->out_mtime_ns == b->out_mtime_ns && memcmp (a->out_digest, b->out_digest, 16) == 0 &&
           a->n_hit == b->n_hit && a->n_held == b->n_held && a->n_batch_held == b->n_batch_held &&
           a->code == b->code && a->is_suspect == b->is_suspect && strcmp (a->path, b->path) == 0 &&
           strcmp (a->name, b->name) == 0 && strcmp (a->text, b->text) == 0;
}

static void take_standing (void *argument, const wm_record_t *record, const wm_place_t *place)
{
    rebuild_t *self = argument;
    (void) place;
    char *copy = malloc (record->text_bytes + record->name_bytes + 1);
    if (!copy || !wm_grow (&self->standing, &self->standing_max, self->n_standing + 1,
                           sizeof *self->standing)) {
        free (copy);
        self->fault = WM_EHOST;
        return;
    }
    wm_record_t *to = &self->standing[self->n_standing++].record;
    *to = *record;
    to->text = memcpy (copy, record->text_bytes ? record->text : "", record->text_bytes);
    to->name = memcpy (copy + record->text_bytes, record->name_bytes ? record->name : "",
                       record->name_bytes);
    self->standing[self->n_standing - 1].is_in_journal = record->type == WM_RECORD_SAMPLE;
}

static bool is_same_standing (const wm_record_t *a, const wm_record_t *b)
{
    return a->type == b->type && a->code == b->code && a->n_event == b->n_event &&
           a->n_hit == b->n_hit && a->n_held == b->n_held && a->size == b->size &&
           a->name_bytes == b->name_bytes && a->text_bytes == b->text_bytes &&
           (!a->name_bytes || memcmp (a->name, b->name, a->name_bytes) == 0) &&
           (!a->text_bytes || memcmp (a->text, b->text, a->text_bytes) == 0);
}

/* A record that stands, by the journal alone. A sample lies in the journal only.  */
static void compare_standing (void *argument, const wm_record_t *record, const wm_place_t *place)
{
    rebuild_t *self = argument;
    (void) place;
    for (size_t i = 0; i < self->n_standing; i++)
        self->standing[i].is_in_journal |= is_same_standing (&self->standing[i].record, record);
}

/* An input as the journal alone has it.  */
static void compare_input (void *argument, const wm_ledger_input_t *row)
{
    rebuild_t *self = argument;
    const size_t at = WM_BISECT (0, self->n_entry, i, self->entry[i].row.id < row->id);
    if (at < self->n_entry && self->entry[at].row.id == row->id)
        self->entry[at].is_in_journal = is_same (&self->entry[at].row, row);
    else
        self->n_unlike++; /* the ledger does not know it */
}

static wm_fault_t load_ledger (rebuild_t *self, wm_error_t *error)
{
    ledger_free (self);
    const wm_ledger_load_t to = { .input = take_input, .standing = take_standing };
    wm_fault_t fault = wm_ledger_load (self->campaign.ledger, NULL, &to, self, NULL, error);
    return self->fault ? wm_fault (error, WM_EHOST, "out of memory") : fault;
}

/* The whole journal into a ledger in memory, beside the one on disk.  */
static wm_fault_t compare (rebuild_t *self, wm_error_t *error)
{
    const wm_ledger_load_t to = { .input = compare_input, .standing = compare_standing };
    wm_ledger_t *truth = wm_ledger_open (NULL, NULL, error);
    if (!truth)
        return error->fault;
    wm_fault_t fault = wm_ledger_catch_up (truth, self->campaign.journal, &self->found, error);
    if (fault == WM_OK)
        fault = load_ledger (self, error);
    if (fault == WM_OK)
        fault = wm_ledger_load (truth, NULL, &to, self, NULL, error);
    wm_ledger_destroy (&truth);
    for (size_t i = 0; i < self->n_entry; i++)
        self->n_unlike += !self->entry[i].is_in_journal;
    for (size_t i = 0; i < self->n_standing; i++)
        self->n_unlike_standing += !self->standing[i].is_in_journal;
    return fault;
}

static wm_fault_t check_ledger (rebuild_t *self, wm_error_t *error)
{
    wm_campaign_t *campaign = &self->campaign;
    wm_journal_found_t caught_up;
    if (compare (self, error))
        return error->fault;
    report ("journal", "%llu epochs, %llu records; %llu lost%s%s, %llu torn off by a crash",
            (unsigned long long) wm_journal_epoch (campaign->journal),
            (unsigned long long) self->found.n_record, (unsigned long long) self->found.n_lost,
            self->found.n_lost ? ": " : "", self->found.text,
            (unsigned long long) self->found.n_torn);
    const uint64_t n_unlike = self->n_unlike + self->n_unlike_standing;
    if (n_unlike && !self->found.n_lost) {
        wm_fault_t fault =
            wm_ledger_begin_again (campaign->ledger, "it does not agree with the journal", error);
        if (fault == WM_OK)
            fault = wm_ledger_catch_up (campaign->ledger, campaign->journal, &caught_up, error);
        if (fault == WM_OK)
            fault = load_ledger (self, error);
        for (size_t i = 0; i < self->n_entry; i++)
            self->entry[i].is_in_journal = true;
        for (size_t i = 0; i < self->n_standing; i++)
            self->standing[i].is_in_journal = true;
        if (fault)
            return fault;
    }
    const char *aside = wm_ledger_set_aside (campaign->ledger);
    const bool made_again = *aside || !self->had_ledger;
    self->n_wrong += n_unlike + (uint64_t) made_again; /* what the journal lost stays lost */
    if (made_again)
        report ("ledger",
                "%s; made again from the journal: counters of failures and lost workers "
                "begin at 0",
                *aside ? aside : "it was missing");
    else
        report ("ledger", "sound%s", campaign->found.n_record ? "; it was behind the journal" : "");
    if (self->n_unlike && self->found.n_lost)
        report ("", "it still has %llu inputs that the journal lost: they are written there again",
                (unsigned long long) self->n_unlike);
    if (self->n_unlike_standing && self->found.n_lost)
        report ("",
                "it still has %llu pauses, signatures of engines or machines that are not "
                "trusted, which the journal lost: they are written there again",
                (unsigned long long) self->n_unlike_standing);
    return WM_OK;
}

/* ---- results, outputs, inputs ---------------------------------------------------------------- */

static void check_result (void *argument, const wm_ledger_batch_t *batch)
{
    rebuild_t *self = argument;
    wm_record_t record;
    if (batch->state != WM_LEDGER_RETURNED)
        return;
    self->n_result++;
    self->n_unreadable +=
        wm_journal_read (self->campaign.journal, &batch->place, &record, NULL) != WM_OK ||
        record.type != WM_RECORD_RESULT || memcmp (&record.key, &batch->key, sizeof record.key);
}

static void output_path (const rebuild_t *self, const entry_t *entry, char path[PATH_BYTES])
{
    snprintf (path, PATH_BYTES, "%s/%s", self->campaign.pins.output, entry->row.name);
}

static void check_output (rebuild_t *self, entry_t *entry)
{
    static const char *const words[] = {
        [WM_OUTPUT_DAMAGED] = "is not as it was written", [WM_OUTPUT_MISSING] = "is gone"
    };
    char path[PATH_BYTES];
    output_path (self, entry, path);
    const wm_output_now_t now = wm_output_compare (path, &entry->row, NULL, NULL);
    entry->output = now.state;
    if (now.state == WM_OUTPUT_TOUCHED)
        entry->row.out_mtime_ns = now.mtime_ns;
    if (words[entry->output] && self->n_output[entry->output] < NAMED_MAX)
        report ("output", "%s %s: its input is open again", path, words[entry->output]);
    self->n_output[entry->output]++;
}

/* A campaign of one output folder that has its outputs in another: a copy.  */
static void report_if_elsewhere (const rebuild_t *self)
{
    char output[PATH_MAX];
    struct stat here, there;
    wm_folder_output (self->options->dir, output);
    if (strcmp (output, self->options->dir) != 0 && stat (output, &here) == 0 &&
        (stat (self->campaign.pins.output, &there) || here.st_ino != there.st_ino ||
         here.st_dev != there.st_dev))
        report ("", "which is not where this campaign is; --output %s searches for them there",
                output);
}

static wm_fault_t check_outputs (rebuild_t *self, wm_error_t *error)
{
    const wm_pins_t *pins = &self->campaign.pins;
    uint64_t n = 0;
    for (size_t i = 0; i < self->n_entry; i++)
        n += self->entry[i].row.state == WM_LEDGER_WRITTEN;
    if (wm_url_of (pins->output)) { /* the next run lists that folder */
        report ("outputs", "%llu written, which are not read: they lie in %s",
                (unsigned long long) n, pins->output);
        return WM_OK;
    }
    if (n && access (pins->output, R_OK | X_OK))
        return wm_fault (
            error, WM_EHOST,
            "the folder of the %llu outputs, %s, cannot be read: %s; mount it, or give "
            "its present place with --output",
            (unsigned long long) n, pins->output, strerror (errno));
    for (size_t i = 0; i < self->n_entry; i++)
        if (self->entry[i].row.state == WM_LEDGER_WRITTEN)
            check_output (self, &self->entry[i]);
    report (
        "outputs",
        "%llu written: %llu with every byte as it was written, %llu not, %llu gone; in %s",
        (unsigned long long) n,
        (unsigned long long) (self->n_output[WM_OUTPUT_FINE] + self->n_output[WM_OUTPUT_TOUCHED]),
        (unsigned long long) self->n_output[WM_OUTPUT_DAMAGED],
        (unsigned long long) self->n_output[WM_OUTPUT_MISSING], pins->output);
    self->n_wrong += self->n_output[WM_OUTPUT_DAMAGED] + self->n_output[WM_OUTPUT_MISSING];
    report_if_elsewhere (self);
    if (self->is_moved && self->n_output[WM_OUTPUT_DAMAGED] && !self->n_output[WM_OUTPUT_FINE] &&
        !self->n_output[WM_OUTPUT_TOUCHED])
        return wm_fault (error, WM_EBATCH,
                         "no file in %.200s matches what the campaign %.200s wrote; is it the "
                         "folder of another campaign? No file was renamed; if they are damaged "
                         "copies, remove them first",
                         pins->output, self->options->dir);
    return WM_OK;
}

static void check_inputs (rebuild_t *self)
{
    char last[PATH_MAX];
    uint64_t n_gone = 0, n_changed = 0, n_open = 0;
    for (size_t i = 0; i < self->n_entry; i++) {
        const wm_ledger_input_t *row = &self->entry[i].row;
        const int open = row->state == WM_LEDGER_OPEN || self->entry[i].output >= WM_OUTPUT_DAMAGED;
        uint64_t size;
        int64_t time_ns;
        n_open += (uint64_t) open;
        if (row->state == WM_LEDGER_HELD)
            continue;
        const int there = wm_pair_stat (&self->campaign.pins, row->path, &size, &time_ns) == 0;
        /* a written output does not need its input any more; a remote one is not looked for */
        const int gone = open && !there && !wm_url_of (row->path);
        const int changed =
            there && row->size >= 0 && ((int64_t) size != row->size || time_ns != row->mtime_ns);
        const int names = changed && wm_pair_last (&self->campaign.pins, row->path, last) &&
                          time_ns > row->mtime_ns; /* one of several files */
        if ((gone || changed) && n_gone + n_changed < NAMED_MAX)
            report ("input", "%s%s%s %s", row->path, names ? ": " : "", names ? last : "",
                    gone   ? "is gone: put it back, it is still needed"
                    : open ? "changed since it was added: put it back, or run with --retry-held"
                           : "changed since its output was written: put it back, or run with "
                             "--retry-held");
        n_gone += (uint64_t) gone;
        n_changed += (uint64_t) changed;
    }
    self->n_left += n_gone + n_changed;
    report ("inputs", "%llu, of which %llu are open: %llu of those gone; %llu changed",
            (unsigned long long) self->n_entry, (unsigned long long) n_open,
            (unsigned long long) n_gone, (unsigned long long) n_changed);
}

static wm_fault_t check_all (rebuild_t *self, wm_error_t *error)
{
    if (!self->campaign.created_ns)
        return wm_fault (error, WM_EBATCH, "there is no campaign in %s: nothing was ever begun",
                         self->options->dir);
    self->is_moved =
        self->options->output && strcmp (self->options->output, self->campaign.pins.output) != 0;
    if (self->options->output)
        snprintf (self->campaign.pins.output, sizeof self->campaign.pins.output, "%s",
                  self->options->output);
    wm_fault_t fault = check_ledger (self, error);
    const wm_ledger_load_t to = { .batch = check_result };
    if (fault == WM_OK)
        fault = wm_ledger_load (self->campaign.ledger, NULL, &to, self, NULL, error);
    if (fault != WM_OK)
        return fault;
    report ("results", "%llu of open inputs: %llu cannot be read and are scored again",
            (unsigned long long) self->n_result, (unsigned long long) self->n_unreadable);
    self->n_left += self->n_unreadable;
    fault = check_outputs (self, error);
    if (fault == WM_OK)
        check_inputs (self);
    return fault;
}

/* ---- repair ---------------------------------------------------------------------------------- */

static wm_fault_t record_input (rebuild_t *self, const wm_ledger_input_t *row, wm_error_t *error)
{
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_INPUT);
    record.key = (wm_key_t){ row->id, 0, 0, row->generation };
    record.size = row->size;
    record.mtime_ns = row->mtime_ns;
    wm_record_text (&record, row->path);
    record.name = row->name;
    record.name_bytes = (uint32_t) strlen (row->name);
    if (wm_campaign_record (&self->campaign, &record, error))
        return error->fault;
    if (row->n_event >= 0) {
        wm_record_init (&record, WM_RECORD_INPUT_END);
        record.key = (wm_key_t){ row->id, 0, 0, row->generation };
        record.n_event = (uint64_t) row->n_event;
        if (wm_campaign_record (&self->campaign, &record, error))
            return error->fault;
    }
    if (row->state != WM_LEDGER_HELD)
        return WM_OK;
    wm_record_init (&record, WM_RECORD_HELD);
    record.key = (wm_key_t){ row->id, WM_ALL, WM_ALL, row->generation };
    record.code = row->code;
    wm_record_text (&record, row->text);
    return wm_campaign_record (&self->campaign, &record, error);
}

static wm_fault_t record_written (rebuild_t *self, const wm_ledger_input_t *row, wm_error_t *error)
{
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_FILE_WRITTEN);
    record.key = (wm_key_t){ row->id, 0, 0, row->generation };
    record.size = row->out_size;
    record.mtime_ns = row->out_mtime_ns;
    memcpy (record.digest, row->out_digest, 16);
    record.n_event = (uint64_t) row->n_event;
    record.n_hit = row->n_hit;
    record.n_held = row->n_held;
    record.n_batch = row->n_batch_held;
    wm_record_text (&record, row->text);
    return wm_campaign_record (&self->campaign, &record, error);
}

/* Renames what is there first: a producer does not overwrite a file that it does not know.  */
static wm_fault_t record_lost (rebuild_t *self, const entry_t *entry, wm_error_t *error)
{
    char path[PATH_BYTES], aside[PATH_BYTES + 24];
    struct stat status;
    output_path (self, entry, path);
    for (unsigned n = 1; entry->output == WM_OUTPUT_DAMAGED; n++) {
        snprintf (aside, sizeof aside, "%s.damaged-%u", path, n);
        if (lstat (aside, &status) == 0)
            continue;
        if (rename (path, aside))
            return wm_fault (error, WM_EHOST, "cannot rename %.300s: %s", path, strerror (errno));
        break;
    }
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_FILE_LOST);
    record.key = (wm_key_t){ entry->row.id, 0, 0, entry->row.generation };
    wm_record_text (&record, entry->output == WM_OUTPUT_DAMAGED ? "damaged" : "missing");
    return wm_campaign_record (&self->campaign, &record, error);
}

/* What stands, and which inputs are suspect: an INPUT that is written again is not.  */
static wm_fault_t record_standing (rebuild_t *self, wm_error_t *error)
{
    wm_record_t record;
    wm_fault_t fault = WM_OK;
    for (size_t i = 0; i < self->n_standing && !fault; i++) {
        record = self->standing[i].record;
        record.payload_bytes = 0; /* DISTRUST: the inputs that it names come below */
        if (!self->standing[i].is_in_journal)
            fault = wm_campaign_record (&self->campaign, &record, error);
    }
    /* Entries are ordered by id, and ids may have holes.  */
    const uint32_t last = self->n_entry ? self->entry[self->n_entry - 1].row.id : 0;
    uint8_t *suspects = calloc (last / 8 + 1, 1);
    if (!suspects)
        return wm_fault (error, WM_EHOST, "out of memory");
    wm_record_init (&record, WM_RECORD_DISTRUST); /* of no machine */
    record.name = record.text = "\0\0";
    record.name_bytes = 2;
    record.text_bytes = 3;
    record.payload = suspects;
    for (size_t i = 0; i < self->n_entry; i++) {
        const wm_ledger_input_t *row = &self->entry[i].row;
        if (self->entry[i].is_in_journal || !row->is_suspect)
            continue;
        suspects[row->id / 8] |= (uint8_t) (1u << row->id % 8);
        record.payload_bytes = row->id / 8 + 1;
    }
    if (record.payload_bytes && !fault)
        fault = wm_campaign_record (&self->campaign, &record, error);
    free (suspects);
    return fault;
}

static wm_fault_t repair (rebuild_t *self, wm_error_t *error)
{
    wm_campaign_t *campaign = &self->campaign;
    wm_fault_t fault = wm_campaign_start (campaign, &campaign->pins, error);
    for (size_t i = 0; i < self->n_entry && fault == WM_OK; i++) {
        const entry_t *entry = &self->entry[i];
        const int is_written = entry->row.state == WM_LEDGER_WRITTEN;
        if (!entry->is_in_journal)
            fault = record_input (self, &entry->row, error);
        if (fault == WM_OK && is_written &&
            (!entry->is_in_journal || entry->output == WM_OUTPUT_TOUCHED))
            fault = record_written (self, &entry->row, error);
        if (fault == WM_OK && is_written && entry->output >= WM_OUTPUT_DAMAGED)
            fault = record_lost (self, entry, error);
    }
    if (fault == WM_OK)
        fault = record_standing (self, error);
    if (fault == WM_OK)
        fault = wm_ledger_commit (campaign->ledger, error);
    campaign->ends_stopped = fault == WM_OK;
    return fault;
}

/* ---- together -------------------------------------------------------------------------------- */

static wm_fault_t copy_file (rebuild_t *self, const char *name, wm_error_t *error)
{
    char path[PATH_BYTES], to[PATH_BYTES + 32];
    snprintf (path, sizeof path, "%.4000s/%s", self->options->dir, name);
    snprintf (to, sizeof to, "%s/%s", self->ledger_dir, name);
    if (access (path, F_OK) && errno == ENOENT)
        return WM_OK;
    const int failed = wm_file_copy (path, to);
    return failed ? wm_fault (error, wm_file_is_full (failed) ? WM_EAGAIN : WM_EHOST,
                              "cannot copy %.300s to check it: %s", path, strerror (failed))
                  : WM_OK;
}

/* With all its files.  */
static void ledger_aside_remove (const rebuild_t *self)
{
    char path[PATH_BYTES + 300];
    DIR *folder = opendir (self->ledger_dir);
    for (struct dirent *entry; folder && (entry = readdir (folder));) {
        snprintf (path, sizeof path, "%s/%s", self->ledger_dir, entry->d_name);
        unlink (path); /* fails for "." and "..", as it should */
    }
    if (folder)
        closedir (folder);
    rmdir (self->ledger_dir);
}

/* A dry run opens a copy of the ledger, so that nothing is repaired.  */
static wm_fault_t ledger_aside (rebuild_t *self, wm_error_t *error)
{
    snprintf (self->ledger_dir, sizeof self->ledger_dir, "%.4000s/rebuild.new", self->options->dir);
    ledger_aside_remove (self); /* left by a run that was killed */
    if (mkdir (self->ledger_dir, 0777))
        return wm_fault (error, WM_EHOST, "cannot make %.300s: %s", self->ledger_dir,
                         strerror (errno));
    const wm_fault_t fault = copy_file (self, "ledger.db", error);
    return fault ? fault : copy_file (self, "ledger.db-wal", error);
}

/* Prints the command that goes on: without --campaign it finds the campaign beside its outputs.  */
static void say_what_next (const rebuild_t *self)
{
    char beside[PATH_MAX], words[2][PATH_MAX];
    struct stat here, there;
    wm_error_t error;
    const char *output = self->campaign.pins.output;
    const bool has_default = wm_folder_campaign (output, beside, &error) == WM_OK;
    if (self->options->dry_run)
        puts (self->n_wrong ? "a dry run: nothing was changed; wiremill rebuild would"
                            : "a dry run: nothing was changed");
    else if (has_default && stat (self->options->dir, &here) == 0 && stat (beside, &there) == 0 &&
             here.st_ino == there.st_ino && here.st_dev == there.st_dev)
        puts ("the same `wiremill run` goes on from here");
    else
        printf ("the same `wiremill run` with --campaign %s --output %s goes on from here\n",
                wm_text_word (words[0], PATH_MAX, self->options->dir),
                wm_text_word (words[1], PATH_MAX, output));
}

static wm_fault_t run (rebuild_t *self, wm_error_t *error)
{
    const char *dir = self->options->dir;
    char path[PATH_BYTES];
    struct stat status;
    if (!wm_folder_has_campaign (dir))
        return wm_fault (error, WM_EBATCH, "there is no campaign in %s", dir);
    snprintf (path, sizeof path, "%.4000s/ledger.db", dir);
    self->had_ledger = stat (path, &status) == 0 && status.st_size;
    wm_fault_t fault = wm_campaign_lock (&self->campaign, dir, WM_CAMPAIGN_REBUILD, 0, error);
    if (fault == WM_OK && self->options->dry_run)
        fault = ledger_aside (self, error);
    if (fault == WM_OK)
        fault = wm_campaign_open (&self->campaign, *self->ledger_dir ? self->ledger_dir : NULL,
                                  NULL, error);
    self->n_wrong += self->campaign.is_copy != 0;
    if (fault == WM_OK && self->campaign.is_copy)
        report ("lock", "this is a copy of a campaign that was running, or was killed: from now on "
                        "it is a campaign of its own");
    if (fault == WM_OK)
        fault = check_all (self, error);
    if (fault == WM_OK && !self->options->dry_run)
        fault = repair (self, error);
    if (fault == WM_OK)
        say_what_next (self);
    return fault;
}

wm_fault_t wm_rebuild (const wm_rebuild_options_t *options, bool *is_whole, wm_error_t *error)
{
    rebuild_t self = { .options = options, .campaign.lock_fd = -1 };
    const wm_fault_t fault = run (&self, error);
    *is_whole = !options->dry_run || (!self.n_wrong && !self.n_left);
    wm_ledger_destroy (&self.campaign.ledger);
    if (*self.ledger_dir) /* under the lock: later the name may be another dry run's */
        ledger_aside_remove (&self);
    wm_campaign_close (&self.campaign);
    ledger_free (&self);
    free (self.entry);
    free (self.standing);
    return fault;
}
