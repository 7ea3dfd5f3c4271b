/* wm_produce_write.c - outputs: each is written in steps, many are committed together.

   An output that is complete under its partial name is ready. Ready outputs wait for others, at
   most until half of the inputs that are worked on are ready, or COMMIT_MAX of them, or until the
   oldest has waited half a heartbeat. Then all are synced, all renamed, and their folder is synced
   once. No FILE_WRITTEN leaves before that. The syncs go in steps, so that the session stays alive
   on a slow disk. A crash before the renames leaves partial files, after them outputs that are made
   again: the broker has no FILE_WRITTEN of either.

   Files changed by a user are never deleted: a changed output stays or is kept under another
   name, and a file that is not this campaign's ends the process.

   An input is judged once, before its output is written, by all of its events together: one odd
   event is not enough. wm_match.h has the test and the bound on its false alarms.  */
#include "producer/session/wm_produce_private.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_path.h"
#include "schema/wm_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#define COMMIT_MAX 64u
#define SYNC_MS 50               /* of syncs in a step */
#define OUTPUT_MADE_AGAIN_MAX 2u /* by one producer: something removes them faster than we write */
#define REASON_BYTES 320
#define ALL_THE_SAME " If all is right, write hit_check: none into --spec"

/* ---- outputs that are there already: as written, changed, or of others ----------------------- */

/* The output, where people find it.  */
static void output_path (const wm_produce_t *self, const wm_input_t *input, char path[1400])
{
    snprintf (path, 1400, "%s/%s", self->options->store ? self->options->store : self->pins.output,
              input->name);
}

bool wm_produce_in_the_way (wm_produce_t *self, const wm_input_t *input)
{
    char path[1400], text[480];
    output_path (self, input, path);
    if (self->options->store /* looked at when it is claimed */ ||
        faccessat (AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) || /* a link to nothing is there */
        wm_writer_is_ours (path, self->campaign, NULL))
        return false;
    snprintf (text, sizeof text,
              "%.300s is in the way: it was not written by this campaign; move it, or choose "
              "another output folder",
              path);
    wm_produce_fatal (self, WM_EXIT_INPUT, text);
    return true;
}

/* Keeps what lies where an output of ours was written under another name, "<output>.<how>-1": `how`
   is "changed" by a person, or "damaged", not to be read as an output of this campaign.  */
static bool put_aside (wm_produce_t *self, const char *path, const char *how)
{
    char aside[1450];
    for (unsigned n = 1; n < 1000; n++) {
        snprintf (aside, sizeof aside, "%.1400s.%s-%u", path, how, n);
        if (!access (aside, F_OK))
            continue;
        if (rename (path, aside))
            break;
        if (!strcmp (how, "changed"))
            wm_produce_warn (self,
                             "output %s was changed since it was written: it is kept as %s, and "
                             "made again",
                             path, aside);
        else
            wm_produce_warn (self,
                             "output %s is not as it was written: it is kept as %s, and made again",
                             path, aside);
        return true;
    }
    return false;
}

/* Sends FILE_WRITTEN as input->result has it.  */
static void written_send (wm_produce_t *self, const wm_input_t *input)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = wm_produce_key (input, 0,
                              input->n_empty < UINT32_MAX ? (uint32_t) input->n_empty : UINT32_MAX);
    msg.size = input->result.size;
    msg.mtime_ns = input->result.mtime_ns;
    memcpy (msg.digest, input->result.digest, 16);
    wm_produce_send (self, &msg, NULL, 0);
}

bool wm_produce_as_written (wm_produce_t *self, wm_input_t *input, bool *there)
{
    char path[1400];
    uint64_t size;
    int64_t mtime_ns;
    uint8_t digest[16];
    output_path (self, input, path);
    if (self->options->store) { /* of its own, this process knows that they are as it stored them */
        *there = wm_produce_store_has (self, input, &size);
        return *there && (input->is_there || size == input->result.size);
    }
    *there = wm_path_stat (path, &size, &mtime_ns) == 0;
    if (!*there || size != input->result.size || mtime_ns == input->result.mtime_ns)
        return *there && size == input->result.size;
    if (wm_file_digest (path, digest, NULL, NULL) || memcmp (digest, input->result.digest, 16) != 0)
        return false;
    input->result.mtime_ns = mtime_ns;
    if (!input->touched) /* a broker of an older release refuses it; once is enough then */
        written_send (self, input);
    input->touched = true;
    return true;
}

/* The output was changed, for example a dataset was added to it. It stays, and is reported: what
   was added is nowhere else. alone: its input is as it was.  */
static void changed_stays (wm_produce_t *self, wm_input_t *input, const char *path, bool alone)
{
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    if (self->options->store)
        wm_produce_store_has (self, input, &size);
    else
        wm_path_stat (path, &size, &mtime_ns);
    wm_produce_warn (self,
                     "output %s was changed since it was written: it stays as it is; --retry-held "
                     "keeps it as %s.changed-1 and writes it again",
                     path, path);
    input->result.size = size; /* from now on it is compared with this state */
    input->result.mtime_ns = mtime_ns;
    wm_writer_is_ours (path, self->campaign, &input->n_held);
    input->changed = true;
    input->edited = alone;
    wm_produce_end (self, input, WM_INPUT_IS_WRITTEN);
}

void wm_produce_warn_of (wm_produce_t *self, const wm_input_t *input, const char *head,
                         const char *text)
{
    char last[PATH_MAX];
    const bool names =
        strstr (text, "changed since") && wm_pair_last (&self->pins, input->path, last);
    const size_t n = strlen (input->path); /* reasons of held inputs begin with the path */
    const bool begins = strncmp (text, input->path, n) == 0 && text[n] == ':';
    wm_produce_warn (self, "%s%s%s%s%s%s", head, begins ? "" : input->path, begins ? "" : ": ",
                     text, names ? "; modified last: " : "", names ? last : "");
}

void wm_produce_written_check (wm_produce_t *self, wm_input_t *input, const wm_msg_t *msg)
{
    char path[1400];
    bool there;
    output_path (self, input, path);
    input->result.size = msg->size;
    input->result.mtime_ns = msg->mtime_ns;
    memcpy (input->result.digest, msg->digest, 16);
    if (wm_produce_as_written (self, input, &there)) {
        if (wm_produce_store_sidecar (self, input))
            return;
        wm_writer_is_ours (path, self->campaign, &input->n_held);
        input->changed = msg->text[0] != 0;
        if (input->changed)
            wm_produce_warn_of (self, input, "", msg->text);
        wm_produce_end (self, input, WM_INPUT_IS_WRITTEN);
        return;
    }
    if (input->checking) { /* since another session */
        wm_produce_set_is (self, input, WM_INPUT_IS_LOST);
        return;
    }
    if (wm_produce_store_look (self, input))
        return;
    const bool is_changed =
        there && (self->options->store || wm_writer_is_ours (path, self->campaign, NULL));
    if (is_changed && !self->options->retry_held) {
        changed_stays (self, input, path, !*msg->text);
        return;
    }
    if (input->n_lost++ == OUTPUT_MADE_AGAIN_MAX) {
        char text[480];
        snprintf (text, sizeof text,
                  "output %.300s was written %u times and is %s again: end what removes or changes "
                  "it; then the same command makes it again",
                  path, OUTPUT_MADE_AGAIN_MAX, there ? "not as it was written" : "gone");
        wm_produce_fatal (self, WM_EXIT_FAILURE, text);
        return;
    }
    if (there && self->options->store) {
        wm_produce_store_move (self, input);
        return;
    }
    if (there && !put_aside (self, path, is_changed ? "changed" : "damaged")) {
        char text[480];
        snprintf (text, sizeof text,
                  "%.300s is not as it was written, and cannot be renamed: %s; move it away", path,
                  strerror (errno));
        wm_produce_fatal (self, WM_EXIT_FAILURE, text);
        return;
    }
    if (!there) /* what is there was named when it was put aside */
        wm_produce_warn (self, "output %s is gone: made again", path);
    wm_produce_lost (self, input, there ? "changed" : "missing");
}

bool wm_produce_outputs_missed (wm_produce_t *self)
{
    bool there, missed = false;
    for (uint32_t i = 0; i < self->n_input; i++)
        if (self->input[i].is == WM_INPUT_IS_WRITTEN &&
            !wm_produce_as_written (self, &self->input[i], &there)) {
            wm_produce_set_is (self, &self->input[i], WM_INPUT_IS_NEW);
            missed = true;
        }
    return missed;
}

/* ---- what is odd about an input -------------------------------------------------------------- */

/* Pixels beyond `adc`.  */
static void warn_clamped (wm_produce_t *self, const wm_input_t *input)
{
    const wm_cut_odd_t *odd = &input->odd;
    if (odd->n_clamped > odd->n_pixel / 2)
        wm_produce_warn (self,
                         "%s: %.0f %% of its pixels with charge lie beyond adc: [%g, %g] of the "
                         "specification and are set to that. Check that samples are in ADC; "
                         "amplitude in --spec scales them",
                         input->path, 100. * (double) odd->n_clamped / (double) odd->n_pixel,
                         self->spec.adc_min, self->spec.adc_max);
}

/* A lifetime far below the drift time: mostly one in another unit.  */
static void warn_lifetime (wm_produce_t *self, const wm_input_t *input)
{
    const wm_cut_odd_t *odd = &input->odd;
    const double us = odd->growth * odd->tau_us;
    if (!(odd->growth > 1))
        return;
    if (isfinite ((float) exp (odd->growth)))
        wm_produce_warn (self,
                         "%s: tau_us %g is shorter than the readout behind the trigger, %g us: its "
                         "end is multiplied by %.3g. tau_us and tick_us are in microseconds",
                         input->path, odd->tau_us, us, exp (odd->growth));
    else
        wm_produce_warn (self,
                         "%s: the lifetime correction overflows: tau_us %g for a readout of %g us "
                         "behind the trigger? tau_us and tick_us are in microseconds. Hits near "
                         "pixels that overflow are held as bad pixels",
                         input->path, odd->tau_us, us);
}

static void warn_outside (wm_produce_t *self, const wm_input_t *input)
{
    const wm_cut_odd_t *odd = &input->odd;
    const struct {
        uint64_t n;
        double tick;
        const char *where;
    } side[] = { { odd->n_early, odd->early, "before" }, { odd->n_late, odd->late, "behind" } };
    for (int i = 0; i < 2; i++)
        if (side[i].n)
            wm_produce_warn (self,
                             "%s: %" PRIu64 " hit%s held, time %s the readout: for example tick "
                             "%.6g, of a readout of %u ticks (%s)",
                             input->path, side[i].n, side[i].n == 1 ? " is" : "s are",
                             side[i].where, side[i].tick, odd->n_tick,
                             wm_reader_joined (input->reader));
}

/* Writes why hits and planes do not seem to belong together. Returns a bound on the probability of
   such counts if they do.  */
static double mismatch (const wm_input_t *input, char text[REASON_BYTES])
{
    const wm_match_t *match = &input->match;
    const uint64_t n_hit = input->scratch.n_row;
    const double empty = wm_match_empty_chance (n_hit, input->n_empty),
                 missed = wm_match_chance (match);
    char found[140];
    if (missed > empty)
        snprintf (found, sizeof found,
                  "%" PRIu64 " of %" PRIu64 " have nothing but zeros in their patch",
                  input->n_empty, n_hit);
    else
        snprintf (found, sizeof found,
                  "%" PRIu64 " of %" PRIu64 " find more charge at their time than elsewhere on "
                  "their wire, %" PRIu64 " less",
                  match->n_more, match->n, match->n_less);
    snprintf (text, REASON_BYTES, "its hits miss the signal: %s (%.60s). %s", found,
              wm_reader_joined (input->reader),
              wm_match_is_other (match) ? "In us most find more: write the times in ticks."
              : wm_reader_is_joined (input->reader)
                  ? "Are the planes of another run, or do the times begin at another tick "
                    "(--hit-offset)?"
                  : "Are the times in ticks, and the wires those of this file?");
    return fmin (missed, empty);
}

/* Warns of what is odd about an input whose events are all scored. WM_EBATCH: its hits and planes
   do not belong together.  */
static wm_fault_t doubt (wm_produce_t *self, const wm_input_t *input)
{
    char text[REASON_BYTES];
    const bool has_planes = wm_reader_has_planes (input->reader);
    if (self->spec.points == WM_POINTS_WINDOWS) /* most have no charge */
        return WM_OK;
    if (has_planes) {
        warn_outside (self, input);
        warn_lifetime (self, input);
        warn_clamped (self, input);
        const double chance = mismatch (input, text);
        if (chance < WM_MATCH_SURE && self->spec.hit_check == WM_HIT_CHECK_CHARGE) {
            const size_t more = strlen (text) + strlen (ALL_THE_SAME) + sizeof ": ";
            return wm_fault (&self->error, WM_EBATCH, "%.*s: %s" ALL_THE_SAME,
                             (int) (sizeof self->error.text - more), input->path, text);
        }
        if (chance < WM_MATCH_WARN) {
            wm_produce_warn (self, "%s: %s", input->path, text);
            return WM_OK;
        }
    }
    if (input->n_empty)
        wm_produce_warn (self, "%s: %" PRIu64 " hit%s nothing but zeros in %s patch; %s scored%s",
                         input->path, input->n_empty, input->n_empty == 1 ? " has" : "s have",
                         input->n_empty == 1 ? "its" : "their",
                         input->n_empty == 1 ? "it is" : "they are",
                         has_planes ? ". Check that times are in ticks, and that hits and planes "
                                      "belong together"
                                    : "");
    return WM_OK;
}

/* Whether the broker has all of this input, and this producer all of its results.  */
static bool may_write (const wm_input_t *input)
{
    return input->is == WM_INPUT_IS_OURS && input->event && input->end_acked &&
           input->n_complete == input->n_event && input->n_done == input->n_event &&
           !input->written_sent;
}

static bool is_ready (const wm_input_t *input)
{
    return input->writer && may_write (input) && wm_writer_is_ready (input->writer);
}

/* ---- one output ------------------------------------------------------------------------------ */

static wm_fault_t file_written_send (wm_produce_t *self, wm_input_t *input)
{
    const wm_fault_t fault = input->stored ? WM_OK : wm_produce_is_changed (self, input);
    if (fault) {
        unlink (input->output);
        return fault;
    }
    input->written_sent = true;
    WM_FAILPOINT ("producer-file-written-send");
    written_send (self, input);
    WM_FAILPOINT ("producer-file-written-sent");
    return WM_OK;
}

/* false: a foreign file is in the way of the output, or *fault.  */
static bool writer_make (wm_produce_t *self, wm_input_t *input, wm_fault_t *fault)
{
    if (wm_produce_in_the_way (self, input) || (*fault = doubt (self, input)))
        return false;
    const char *unmatched = wm_reader_unmatched (input->reader);
    if (*unmatched)
        wm_produce_warn (self, "%s: %s", input->path, unmatched);
    if (!input->scratch.n_row)
        wm_produce_warn (self, "%s: no %s: nothing is scored, its output has no rows", input->path,
                         wm_pins_rows (self->pins.spec));
    const wm_writer_job_t job = { input->output,
                                  &self->spec,
                                  &self->pins,
                                  self->campaign,
                                  &input->scratch,
                                  input->reader,
                                  (const char *const *) self->engine,
                                  self->engine_error,
                                  self->n_engine,
                                  input->n_same_cell,
                                  input->n_empty,
                                  input->n_bad_channel,
                                  { input->given, input->path, input->size, input->mtime_ns,
                                    self->options->folder, self->options->command } };
    input->writer = wm_writer_new (&job);
    return true;
}

/* Whether another output was begun before this one. The library keeps megabytes for each file that
   it writes, so that one is written after the other.  */
static bool waits_for_another (const wm_produce_t *self, const wm_input_t *input)
{
    for (uint32_t i = 0; i < self->n_active && !input->writer; i++) {
        const wm_input_t *other = self->active[i];
        if (other->writer && !other->placed && may_write (other) && !is_ready (other))
            return true;
    }
    return false;
}

/* Decides all that an output waits for.  */
static bool has_step (const wm_produce_t *self, const wm_input_t *input)
{
    return may_write (input) && !wm_produce_is_full (self) &&
           (input->placed || (!is_ready (input) && !waits_for_another (self, input)));
}

static wm_fault_t writer_step (wm_produce_t *self, wm_input_t *input)
{
    bool done;
    wm_produce_set_reading (input->path);
    const wm_fault_t fault =
        wm_writer_step (input->writer, &done, &input->result, &self->error);
    wm_produce_set_reading ("");
    if (!fault && (done || wm_writer_is_ready (input->writer)))
        wm_produce_has_room (self, input);
    if (!fault && done) {
        wm_writer_destroy (&input->writer);
        input->placed = true;
    }
    return fault;
}

bool wm_produce_write (wm_produce_t *self, wm_input_t *input, wm_fault_t *fault)
{
    if (!has_step (self, input))
        return false;
    if (!input->placed) {
        if (input->writer || writer_make (self, input, fault))
            *fault = writer_step (self, input);
        if (*fault || !input->placed || self->options->store)
            return true;
    } else if (self->options->store && !wm_produce_store (self, input, fault))
        return false;
    *fault = file_written_send (self, input);
    return true;
}

/* ---- many ------------------------------------------------------------------------------------ */

/* Chooses the outputs to commit; false: it is better to wait for more.  */
static bool commit_begin (wm_produce_t *self, int64_t *wait_ms)
{
    uint32_t n_ready = 0, n_ours = 0;
    for (uint32_t i = 0; i < self->n_active; i++) {
        n_ours += self->active[i]->is == WM_INPUT_IS_OURS;
        n_ready += is_ready (self->active[i]);
    }
    if (!n_ready) {
        self->ready_ms = 0;
        return false;
    }
    const int64_t now = wm_now_ms ();
    if (!self->ready_ms)
        self->ready_ms = now;
    const int64_t left = self->ready_ms + wm_times ()->heartbeat_ms / 2 - now;
    if (n_ready < COMMIT_MAX && 2 * n_ready < n_ours + self->n_claiming && left > 0) {
        *wait_ms = left < *wait_ms ? left : *wait_ms;
        return false;
    }
    self->ready_ms = 0;
    for (uint32_t i = 0, n = 0; i < self->n_active && n < COMMIT_MAX; i++)
        if (is_ready (self->active[i])) {
            self->active[i]->committing = true;
            n++;
        }
    return true;
}

bool wm_produce_commit (wm_produce_t *self, int64_t *wait_ms)
{
    const int64_t end = wm_now_ms () + SYNC_MS;
    wm_writer_t *writer[COMMIT_MAX];
    uint32_t n = 0, n_left = 0;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < self->n_active; i++)
        n_left += self->active[i]->committing;
    if (!n_left && !commit_begin (self, wait_ms))
        return false;
    for (uint32_t i = 0; i < self->n_active && !fault; i++)
        if (self->active[i]->committing && is_ready (self->active[i])) {
            if (wm_now_ms () >= end)
                return true;
            fault = wm_writer_sync (self->active[i]->writer, &self->error);
            writer[n++] = self->active[i]->writer;
        }
    if (!fault)
        fault = wm_writer_place (writer, n, &self->error);
    for (uint32_t i = 0; i < self->n_active; i++)
        self->active[i]->committing = false;
    if (fault)
        wm_produce_fatal (self, WM_EXIT_FAILURE, self->error.text);
    return true;
}
