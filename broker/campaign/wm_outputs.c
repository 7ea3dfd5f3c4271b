/* wm_outputs.c - compares what a campaign wrote, and its inputs, with what they are now.  */
#include "broker/campaign/wm_outputs.h"

#include "schema/base/wm_file.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_text.h"
#include "schema/base/wm_url.h"
#include "schema/wm_limits.h"
#include "schema/wm_pair.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRESS_EVERY_MS 250

wm_output_now_t wm_output_compare (const char *path, const wm_ledger_input_t *row,
                                   wm_output_progress_t *progress, void *argument)
{
    uint8_t digest[16];
    struct stat status;
    if (stat (path, &status))
        return (wm_output_now_t){ .state = WM_OUTPUT_MISSING, .error = errno };
    wm_output_now_t now = { .size = status.st_size, .mtime_ns = wm_path_ns (status.st_mtim) };
    if (now.size == row->out_size)
        now.error = wm_file_digest (path, digest, progress, argument);
    if (now.size != row->out_size || now.error || memcmp (digest, row->out_digest, 16) != 0)
        now.state = WM_OUTPUT_DAMAGED;
    else if (now.mtime_ns != row->out_mtime_ns)
        now.state = WM_OUTPUT_TOUCHED;
    return now;
}

/* ---- all that a campaign wrote --------------------------------------------------------------- */

typedef struct {
    wm_ledger_input_t row; /* with copies of its path and name, without its text */
    wm_output_now_t now;
    bool is_compared;
} output_t;

typedef struct {
    output_t *output;
    size_t n_output, output_max;
    uint64_t n_read, n_all; /* bytes */
    int64_t reported_ms;
    wm_outputs_progress_t *progress;
    bool has_no_memory;
} list_t;

static void list_free (list_t *self)
{
    for (size_t i = 0; i < self->n_output; i++) {
        free ((char *) (uintptr_t) self->output[i].row.path);
        free ((char *) (uintptr_t) self->output[i].row.name);
    }
    free (self->output);
}

static void add (void *argument, const wm_ledger_input_t *row)
{
    list_t *self = argument;
    if (row->state != WM_LEDGER_WRITTEN || self->has_no_memory)
        return;
    self->has_no_memory =
        !wm_grow (&self->output, &self->output_max, self->n_output + 1, sizeof *self->output);
    if (self->has_no_memory)
        return;
    output_t *output = &self->output[self->n_output++];
    *output = (output_t){ .row = *row };
    output->row.text = NULL;
    output->row.path = strdup (row->path);
    output->row.name = strdup (row->name);
    self->has_no_memory = !output->row.path || !output->row.name;
}

static void report_progress (void *argument, size_t bytes)
{
    list_t *self = argument;
    const int64_t now_ms = wm_now_ms ();
    self->n_read += bytes;
    if (!self->progress || now_ms - self->reported_ms < PROGRESS_EVERY_MS)
        return;
    self->reported_ms = now_ms;
    self->progress (self->n_read, self->n_all);
}

/* Compares those not compared yet. Returns how many have changed or are missing.  */
static size_t compare (list_t *self, const char *folder)
{
    char path[WM_PATH_BYTES_MAX + 4096];
    size_t n_other = 0;
    self->n_read = self->n_all = 0;
    self->reported_ms = wm_now_ms ();
    for (size_t i = 0; i < self->n_output; i++)
        self->n_all += self->output[i].is_compared ? 0 : (uint64_t) self->output[i].row.out_size;
    for (size_t i = 0; i < self->n_output; i++) {
        output_t *output = &self->output[i];
        snprintf (path, sizeof path, "%s/%s", folder, output->row.name);
        if (!output->is_compared)
            output->now = wm_output_compare (path, &output->row, report_progress, self);
        output->is_compared = true;
        n_other += output->now.state >= WM_OUTPUT_DAMAGED;
    }
    return n_other;
}

/* Outputs that were found fine before are not read again, if the ledger still has the same digest;
   both lists are in the order of ids.  */
static void take_over (list_t *self, const list_t *before)
{
    size_t k = 0;
    for (size_t i = 0; i < self->n_output; i++) {
        output_t *output = &self->output[i];
        while (k < before->n_output && before->output[k].row.id < output->row.id)
            k++;
        if (k == before->n_output || before->output[k].row.id != output->row.id ||
            before->output[k].now.state >= WM_OUTPUT_DAMAGED ||
            memcmp (before->output[k].row.out_digest, output->row.out_digest, 16) != 0)
            continue;
        output->now = before->output[k].now;
        output->is_compared = true;
    }
}

static wm_fault_t load (list_t *self, const wm_campaign_t *campaign, wm_error_t *error)
{
    const wm_ledger_load_t to = { .input = add };
    wm_fault_t fault = wm_ledger_load (campaign->ledger, NULL, &to, self, NULL, error);
    return self->has_no_memory ? wm_fault (error, WM_EHOST, "no memory for a list of outputs")
                               : fault;
}

/* An output that has changed may have been written again by a run meanwhile: it is compared once
   more with the ledger as it is then, under the lock.  */
static wm_fault_t compare_again (list_t *self, wm_campaign_t *campaign, const char *folder,
                                 wm_error_t *error)
{
    list_t again = { .progress = self->progress };
    wm_fault_t fault = wm_campaign_lock (campaign, campaign->dir, WM_CAMPAIGN_READ,
                                         wm_times ()->lock_ms / 5, error);
    if (!fault)
        fault = wm_campaign_open (campaign, NULL, NULL, error);
    if (!fault)
        fault = load (&again, campaign, error);
    if (!fault) {
        take_over (&again, self);
        compare (&again, folder ? folder : campaign->pins.output);
    }
    wm_campaign_close (campaign);
    list_free (self);
    *self = again;
    return fault;
}

static json_t *print_why (const output_t *output)
{
    const wm_output_now_t *now = &output->now;
    return now->state < WM_OUTPUT_DAMAGED ? json_string ("")
           : now->error == ENOENT         ? json_string ("is gone")
           : now->error
               ? json_sprintf ("cannot be read: %s; allow reading it, or, where the disk lost "
                               "it, wiremill rebuild opens its input again",
                               strerror (now->error))
           : now->size != output->row.out_size
               ? json_sprintf ("has %lld bytes, it was written with %lld", (long long) now->size,
                               (long long) output->row.out_size)
               : json_string ("has another digest than when it was written");
}

static json_t *print_output (const output_t *output, const char *folder, const wm_pins_t *pins)
{
    static const char *const words[] = { [WM_OUTPUT_FINE] = "fine",
                                         [WM_OUTPUT_TOUCHED] = "touched",
                                         [WM_OUTPUT_DAMAGED] = "damaged",
                                         [WM_OUTPUT_MISSING] = "missing" };
    const int error = output->now.error;
    const wm_ledger_input_t *row = &output->row;
    uint64_t size;
    int64_t mtime_ns;
    const bool changed = wm_pair_stat (pins, row->path, &size, &mtime_ns) == 0 && row->size >= 0 &&
                         ((int64_t) size != row->size || mtime_ns != row->mtime_ns);
    return json_pack ("{s:s, s:o, s:I, s:s, s:o, s:b}", "input", row->path, "output",
                      json_sprintf ("%s/%s", folder, row->name), "bytes",
                      (json_int_t) row->out_size, "state",
                      error && error != ENOENT ? "unreadable" : words[output->now.state], "why",
                      print_why (output), "input_changed", changed);
}

char *wm_outputs_json (wm_campaign_t *campaign, const char *copies, wm_outputs_progress_t *progress,
                       wm_error_t *error)
{
    const char *folder = copies ? copies : campaign->pins.output;
    static char pins[WM_PINS_BYTES_MAX];
    wm_pins_print (&campaign->pins, pins);
    list_t list = { .progress = progress };
    wm_fault_t fault = load (&list, campaign, error);
    wm_campaign_close (campaign); /* so that a file system that hangs delays no run */
    if (!fault && compare (&list, folder))
        fault = compare_again (&list, campaign, copies, error);
    json_t *written = json_array ();
    json_int_t n_left_out = 0;
    for (size_t i = 0; i < list.n_output && !fault; i++)
        n_left_out += json_array_append_new (
                          written, print_output (&list.output[i], folder, &campaign->pins)) != 0;
    list_free (&list);
    json_t *root = json_pack ("{s:s, s:s, s:I, s:o}", "schema", "wiremill-outputs-1", "pins", pins,
                              "left_out", n_left_out, "written", written);
    char *text = root && !fault ? json_dumps (root, JSON_COMPACT) : NULL;
    if (!text && !fault)
        wm_fault (error, WM_EHOST, "no memory");
    json_decref (root);
    return text;
}

/* ---- as they seem to be now
 --------------------------------------------------------------------  */
static void check_output (wm_core_t *core, uint32_t id, const wm_core_known_t *input,
                          const char *folder)
{
    char path[WM_PATH_BYTES_MAX + 256], text[WM_PATH_BYTES_MAX + 512];
    uint64_t size;
    int64_t mtime_ns;
    uint8_t digest[16];
    snprintf (path, sizeof path, "%s/%s", folder, input->name);
    if (wm_path_stat (path, &size, &mtime_ns)) {
        if (errno == ENOENT)
            wm_core_compare_output (core, id, "its output is gone");
        return;
    }
    if (size == input->out_size && mtime_ns == input->out_mtime_ns)
        return;
    if (size == input->out_size && wm_file_digest (path, digest, NULL, NULL) == 0 &&
        memcmp (digest, input->out_digest, 16) == 0)
        return; /* touched or copied: the next run notes its time */
    snprintf (text, sizeof text,
              "its output %s was changed since it was written; --retry-held keeps it as "
              "%s.changed-1 and writes it again",
              path, input->name);
    wm_core_output_changed (core, id, text);
}

void wm_outputs_compare (wm_core_t *core, const wm_pins_t *pins, const char *dir)
{
    char word[PATH_MAX];
    const char *folder = pins->output;
    char last[PATH_MAX];
    wm_core_known_t input;
    uint64_t size, n_unchecked = 0;
    int64_t mtime_ns;
    const bool elsewhere = wm_url_of (folder) != WM_URL_NONE; /* producers see these */
    const int unseen = access (folder, R_OK | X_OK) ? errno : 0;
    for (uint32_t id = 1; wm_core_known (core, id, &input); id++) {
        n_unchecked += unseen && !elsewhere && input.is_written;
        if (wm_pair_stat (pins, input.path, &size, &mtime_ns) == 0)
            wm_core_compare_input (core, id, size, mtime_ns,
                                   wm_pair_last (pins, input.path, last) ? last : "");
        if (!unseen && input.is_written)
            check_output (core, id, &input, folder);
    }
    if (n_unchecked && dir)
        fprintf (stderr,
                 "wiremill-broker: the folder of the %llu output%s, %s, cannot be read: %s; mount "
                 "it, or give its new place with `wiremill rebuild %s --output DIR`\n",
                 (unsigned long long) n_unchecked, n_unchecked == 1 ? "" : "s", folder,
                 strerror (unseen), wm_text_word (word, sizeof word, dir));
}
