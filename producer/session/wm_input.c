/* wm_input.c - one input file: identity, events, scores.  */
#include "producer/session/wm_input.h"

#include "schema/base/wm_path.h"
#include "schema/base/wm_url.h"
#include "schema/session/wm_msg.h"
#include "schema/wm_limits.h"
#include "schema/wm_pair.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

wm_fault_t wm_input_init (wm_input_t *self, const char *name, wm_error_t *error)
{
    char path[PATH_MAX], real[PATH_MAX], full[2 * PATH_MAX];
    size_t length = wm_path_length (name);
    memset (self, 0, sizeof *self);
    snprintf (path, sizeof path, "%.*s", (int) length, name);
    self->remote = wm_url_of (name) != WM_URL_NONE;
    if (self->remote)
        snprintf (full, sizeof full, "%s", name);
    else if (length < sizeof path && realpath (path, real))
        snprintf (full, sizeof full, "%s%s", real, name + length);
    else if (name[0] != '/' && getcwd (real, sizeof real))
        snprintf (full, sizeof full, "%s/%s", real, name);
    else
        snprintf (full, sizeof full, "%s", name);
    if (length >= sizeof path || strlen (full) > WM_PATH_BYTES_MAX)
        return wm_fault (error, WM_EBATCH, "%.100s...: a path of more than %u bytes", name,
                         WM_PATH_BYTES_MAX);
    self->path = strdup (full);
    self->given = strdup (name);
    if (!self->path || !self->given)
        return wm_fault (error, WM_EHOST, "out of memory");
    wm_input_look_again (self);
    return WM_OK;
}

void wm_input_clear (wm_input_t *self)
{
    wm_input_close (self);
    free (self->path);
    free (self->given);
    free (self->staged);
    memset (self, 0, sizeof *self);
}

void wm_input_propose (const wm_input_t *self, char name[256])
{
    size_t length = wm_path_length (self->path), first, end;
    if (self->remote && strcspn (self->path, "?") < length)
        length = strcspn (self->path, "?");
    first = length;
    while (first && self->path[first - 1] != '/')
        first--;
    while (first < length && self->path[first] == '.')
        first++; /* an output is not hidden */
    for (end = length; end > first + 1 && self->path[end - 1] != '.';)
        end--;
    end = end > first + 1 ? end - 1 : length;
    if (end == first)
        snprintf (name, 256, "input.scores.h5");
    else
        snprintf (name, 256, "%.*s.scores.h5", end - first > 200 ? 200 : (int) (end - first),
                  self->path + first);
    for (char *c = name; *c; c++)
        if ((unsigned char) *c < ' ' || *c == 0x7f)
            *c = '_';
}

static void input_stat (const wm_input_t *self, uint64_t *size, int64_t *mtime_ns)
{
    if (self->pins)
        wm_pair_stat (self->pins, self->path, size, mtime_ns);
    else
        wm_path_stat (self->path, size, mtime_ns);
}

void wm_input_look_again (wm_input_t *self)
{
    self->size = self->remote ? WM_SIZE_UNKNOWN : 0;
    self->mtime_ns = 0;
    input_stat (self, &self->size, &self->mtime_ns);
}

const char *wm_input_file (const wm_input_t *self)
{
    return self->remote ? self->staged : self->path;
}

bool wm_input_changed (const wm_input_t *self)
{
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    if (self->remote) /* its copy is ours */
        return false;
    input_stat (self, &size, &mtime_ns);
    return size != self->size || mtime_ns != self->mtime_ns;
}

wm_fault_t wm_input_open (wm_input_t *self, const wm_spec_t *spec, const wm_pins_t *pins,
                          const char *shape, wm_error_t *error)
{
    wm_fault_t fault;
    if (!self->reader) {
        self->reader =
            wm_reader_open_input (wm_input_file (self), self->path, pins, shape, spec, error);
        if (!self->reader)
            return error->fault;
    }
    if (self->event)
        return WM_OK;
    fault = wm_scratch_open (&self->scratch, pins->output, wm_reader_n_row (self->reader),
                             pins->n_output, error);
    if (fault)
        return fault;
    self->n_event = wm_reader_n_event (self->reader);
    self->event = calloc (self->n_event + 1ul, sizeof *self->event);
    self->output = malloc (strlen (pins->output) + sizeof self->name + 2);
    if (!self->event || !self->output)
        return wm_fault (error, WM_EHOST, "out of memory for %u events", self->n_event);
    sprintf (self->output, "%s/%s", pins->output, self->name);
    return WM_OK;
}

void wm_input_close (wm_input_t *self)
{
    wm_writer_destroy (&self->writer);
    wm_reader_destroy (&self->reader);
    wm_scratch_close (&self->scratch);
    for (uint32_t i = 0; self->event && i < self->n_event; i++)
        wm_pack_destroy (&self->event[i].pack);
    free (self->event);
    free (self->output);
    self->event = NULL;
    self->output = NULL;
    self->n_event = self->n_done = self->n_complete = self->next = 0;
    self->n_same_cell = self->n_empty = self->n_bad_channel = 0;
    self->odd = (wm_cut_odd_t){ 0 };
    self->match = (wm_match_t){ 0 };
    self->end_sent = self->end_acked = self->placed = self->written_sent = false;
    self->committing = self->looking = self->storing = self->stored = false;
}

wm_fault_t wm_input_repack (wm_input_t *self, uint32_t ordinal, wm_packer_t *packer,
                            wm_event_t *content, wm_pack_t **pack, wm_error_t *error)
{
    char where[480], name[128];
    const uint8_t *in_fiducial;
    wm_fault_t fault = wm_reader_event (self->reader, ordinal, content, error);
    if (fault)
        return fault;
    snprintf (where, sizeof where, "%.300s: %s", self->path, wm_event_format (content, name));
    fault = wm_packer_pack (packer, content, where, pack, &in_fiducial, error);
    for (uint32_t i = 0; i < content->n_hit && !fault; i++)
        self->scratch.in_fiducial[content->hit[i].row] = in_fiducial[i];
    return fault;
}

wm_fault_t wm_input_pack (wm_input_t *self, uint32_t ordinal, wm_packer_t *packer,
                          wm_event_t *content, wm_error_t *error)
{
    wm_pack_t *pack;
    wm_fault_t fault = wm_input_repack (self, ordinal, packer, content, &pack, error);
    if (fault)
        return fault;
    self->event[ordinal].pack = pack;
    self->n_same_cell += pack->n_same_cell;
    self->n_empty += pack->n_empty;
    self->n_bad_channel += pack->n_bad_channel_hit;
    wm_cut_odd_add (&self->odd, &pack->odd);
    wm_reader_match (self->reader, content, &self->match);
    const uint8_t *lines = (const uint8_t *) (pack->batch + pack->n_batch);
    for (uint32_t i = 0; i < pack->n_held; i++) {
        wm_manifest_held_t held;
        memcpy (&held, lines + i * sizeof held, sizeof held);
        wm_scratch_hold (&self->scratch, pack->held_row[i], (uint8_t) held.status);
    }
    return WM_OK;
}

size_t wm_input_event_bytes (const wm_input_t *self, uint32_t ordinal)
{
    const wm_pack_t *pack = self->event[ordinal].pack;
    return pack && pack->frames ? pack->frame_start[pack->n_batch] + sizeof (uint32_t) * pack->n_hit
                                : 0;
}

void wm_input_place (wm_input_t *self, uint32_t ordinal, uint32_t batch, const uint8_t *result,
                     uint16_t engine)
{
    const wm_pack_t *pack = self->event[ordinal].pack;
    const uint32_t first = pack->hit_start[batch], n = pack->hit_start[batch + 1] - first;
    const size_t bytes = self->scratch.n_output * sizeof (float);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = pack->row[first + i];
        wm_scratch_hold (&self->scratch, row, result[i] < UINT8_MAX ? result[i] : WM_HIT_HELD);
        if (result[i] == WM_HIT_SCORED) {
            memcpy (self->scratch.score + (size_t) row * self->scratch.n_output,
                    result + n + i * bytes, bytes);
            self->scratch.engine[row] = engine;
        }
    }
}

void wm_input_hold_batch (wm_input_t *self, uint32_t ordinal, uint32_t batch, uint8_t status)
{
    const wm_pack_t *pack = self->event[ordinal].pack;
    for (uint32_t i = pack->hit_start[batch]; i < pack->hit_start[batch + 1]; i++)
        wm_scratch_hold (&self->scratch, pack->row[i], status);
}

void wm_input_complete (wm_input_t *self, uint32_t ordinal)
{
    wm_input_event_t *event = &self->event[ordinal];
    wm_pack_t *pack = event->pack;
    void *list[] = { pack->frames, pack->row, pack->held_row, pack->frame_start, pack->hit_start };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        free (list[i]);
    pack->frames = NULL;
    pack->row = pack->held_row = pack->hit_start = NULL;
    pack->frame_start = NULL;
    event->complete = 1;
    self->n_complete++;
}

void wm_input_session_end (wm_input_t *self, bool new_epoch)
{
    for (uint32_t i = 0; i < self->n_event; i++) {
        wm_input_event_t *event = &self->event[i];
        if (event->complete && event->done && !new_epoch)
            continue; /* announced stays: it need not be again */
        self->n_done -= event->done;
        event->announced = event->done = 0;
        if (!event->complete)
            event->n_fetched = event->n_wanted = 0;
    }
    self->next = 0;
    self->asked = self->claiming = self->committing = false;
    self->pinning = self->pinned = false;
    self->wanted &= self->staged != NULL; /* what the stager told meanwhile was not heard */
    self->end_sent = self->end_acked = self->written_sent = false;
    if (self->is == WM_INPUT_IS_OURS || self->is == WM_INPUT_IS_LOST ||
        self->is == WM_INPUT_IS_ENDING)
        self->is = WM_INPUT_IS_OPEN;
}
