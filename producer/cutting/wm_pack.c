/* wm_pack.c - cuts, digests and encodes one event.  */
#include "producer/cutting/wm_pack.h"

#include "schema/wm_limits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct wm_packer_t {
    wm_cut_t *cut;
    wm_coder_t *coder;
    wm_batch_t batch;
    uint8_t pins_digest[16];
    /* capacities of the pack being made */
    size_t batch_max, hit_start_max, frame_start_max, frames_max;
};

void wm_pack_destroy (wm_pack_t **self_p)
{
    wm_pack_t *self = *self_p;
    if (!self)
        return;
    free (self->batch);
    free (self->hit_start);
    free (self->row);
    free (self->held_row);
    free (self->frame_start);
    free (self->frames);
    free (self);
    *self_p = NULL;
}

wm_packer_t *wm_packer_new (const wm_spec_t *spec, wm_cut_limits_t limits,
                            const uint8_t pins_digest[16])
{
    wm_packer_t *self = calloc (1, sizeof *self);
    assert (self);
    self->cut = wm_cut_new (spec, limits);
    self->coder = wm_coder_new ();
    memcpy (self->pins_digest, pins_digest, sizeof self->pins_digest);
    return self;
}

void wm_packer_destroy (wm_packer_t **self_p)
{
    if (!*self_p)
        return;
    wm_cut_destroy (&(*self_p)->cut);
    wm_coder_destroy (&(*self_p)->coder);
    wm_batch_clear (&(*self_p)->batch);
    free (*self_p);
    *self_p = NULL;
}

/* Adds the batch that was cut last.  */
static wm_fault_t batch_add (wm_packer_t *self, wm_pack_t *pack, const wm_event_t *event,
                             const uint32_t *hit, const char *where, wm_error_t *error)
{
    const wm_batch_t *batch = &self->batch;
    uint32_t n = pack->n_batch;
    size_t start = n ? pack->frame_start[n] : 0, bound = wm_batch_encode_bound (batch), bytes;
    if (n == WM_EVENT_BATCHES_MAX)
        return wm_fault (error, WM_EBATCH, "%s: more than %u batches", where, WM_EVENT_BATCHES_MAX);
    wm_fault_t fault;
    if ((fault = wm_event_reserve (&pack->batch, &self->batch_max, n + 1ull, sizeof *pack->batch,
                                   error)) ||
        (fault = wm_event_reserve (&pack->hit_start, &self->hit_start_max, n + 2ull, 4, error)) ||
        (fault = wm_event_reserve (&pack->frame_start, &self->frame_start_max, n + 2ull,
                                   sizeof (size_t), error)) ||
        (fault = wm_event_reserve (&pack->frames, &self->frames_max, start + bound, 1, error)) ||
        (fault = wm_batch_encode (batch, self->coder, pack->frames + start, bound, &bytes, error)))
        return fault;
    wm_manifest_batch_t *line = &pack->batch[n];
    wm_batch_digest (batch, self->pins_digest, line->digest);
    line->n_hit = batch->n_hit;
    line->raw_bytes = (uint32_t) wm_batch_raw_bytes (batch);
    if (!n)
        pack->hit_start[0] = 0, pack->frame_start[0] = 0;
    pack->hit_start[n + 1] = pack->hit_start[n] + batch->n_hit;
    pack->frame_start[n + 1] = start + bytes;
    for (uint32_t i = 0; i < batch->n_hit; i++)
        pack->row[pack->hit_start[n] + i] = event->hit[hit[i]].row;
    pack->n_batch++;
    return WM_OK;
}

/* Puts the held hits behind the batches, and trims the frames, which are kept for long.  */
static wm_fault_t manifest_end (wm_packer_t *self, wm_pack_t *pack, const wm_event_t *event,
                                const char *where, wm_error_t *error)
{
    uint32_t n_held;
    const wm_manifest_held_t *held = wm_cut_held (self->cut, &n_held);
    size_t batches = pack->n_batch * sizeof *pack->batch, bytes = batches + n_held * sizeof *held;
    if (bytes > WM_RAW_BYTES_MAX + WM_FRAME_OVERHEAD)
        return wm_fault (error, WM_EBATCH, "%s: %u of its %u hits are bad, too many to list", where,
                         n_held, event->n_hit);
    wm_manifest_batch_t *manifest = realloc (pack->batch, bytes ? bytes : 1);
    pack->held_row = malloc (4ul * n_held + 1);
    if (!manifest || !pack->held_row) {
        pack->batch = manifest ? manifest : pack->batch;
        return wm_fault (error, WM_EHOST, "out of memory");
    }
    pack->batch = manifest;
    if (n_held)
        memcpy ((char *) manifest + batches, held, n_held * sizeof *held);
    for (uint32_t i = 0; i < n_held; i++)
        pack->held_row[i] = event->hit[held[i].row].row;
    pack->n_held = n_held;
    pack->manifest_bytes = bytes;
    uint8_t *frames =
        pack->n_batch ? realloc (pack->frames, pack->frame_start[pack->n_batch]) : NULL;
    pack->frames = frames ? frames : pack->frames;
    return WM_OK;
}

static wm_fault_t event_pack (wm_packer_t *self, const wm_event_t *event, const char *where,
                              wm_pack_t *pack, wm_error_t *error)
{
    wm_fault_t fault = wm_cut_start (self->cut, event, where, error);
    pack->row = malloc (4ul * event->n_hit + 1);
    if (!fault && !pack->row)
        fault = wm_fault (error, WM_EHOST, "out of memory");
    for (const uint32_t *hit; !fault;) {
        fault = wm_cut_next (self->cut, &self->batch, &hit, error);
        if (fault || !self->batch.n_hit)
            break;
        fault = batch_add (self, pack, event, hit, where, error);
    }
    return fault ? fault : manifest_end (self, pack, event, where, error);
}

wm_fault_t wm_packer_pack (wm_packer_t *self, const wm_event_t *event, const char *where,
                           wm_pack_t **pack_p, const uint8_t **in_fiducial, wm_error_t *error)
{
    wm_pack_t *pack = calloc (1, sizeof *pack);
    if (!pack)
        return wm_fault (error, WM_EHOST, "out of memory");
    pack->run = event->run;
    pack->subrun = event->subrun;
    pack->event = event->event;
    pack->n_hit = event->n_hit;
    pack->n_bad_channel_hit = event->n_bad_channel_hit;
    self->batch_max = self->hit_start_max = self->frame_start_max = self->frames_max = 0;
    wm_fault_t fault = event_pack (self, event, where, pack, error);
    if (fault) {
        wm_pack_destroy (&pack);
        return fault;
    }
    pack->n_same_cell = wm_cut_n_same_cell (self->cut);
    pack->n_empty = wm_cut_n_empty (self->cut);
    pack->odd = *wm_cut_odd (self->cut);
    *in_fiducial = wm_cut_in_fiducial (self->cut);
    *pack_p = pack;
    return WM_OK;
}
