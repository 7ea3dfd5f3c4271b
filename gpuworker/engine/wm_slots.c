/* wm_slots.c - see wm_slots.h.  */
#include "gpuworker/engine/wm_slots.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096 };

static const size_t control_bytes = (sizeof (wm_control_t) + PAGE - 1) / PAGE * PAGE;

static_assert (WM_RAW_BYTES_MAX / 5 <= WM_SLOT_SCORES, "a status byte and one score or more a hit");
static_assert (WM_SLOT_BYTES % PAGE == 0, "slots begin on pages");
static_assert (WM_SLOTS <= 64, "a bit each");

static size_t area_bytes (const wm_slots_t *self)
{
    return self->n * self->bytes;
}

static wm_fault_t map (wm_slots_t *self, int batch_access, wm_error_t *error)
{
    const size_t shared = control_bytes + area_bytes (self);
    void *control = mmap (NULL, shared, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
    void *batch =
        mmap (NULL, area_bytes (self), batch_access, MAP_SHARED, self->fd, (off_t) shared);
    self->control = control == MAP_FAILED ? NULL : control;
    self->batch = batch == MAP_FAILED ? NULL : batch;
    if (!self->control || !self->batch)
        return wm_fault (error, WM_EHOST, "no memory to share with the engine: %s",
                         strerror (errno));
    self->result = (uint8_t *) control + control_bytes;
    return WM_OK;
}

size_t wm_slots_bytes (uint64_t n_value, uint64_t n_output)
{
    const size_t most = wm_frame_bytes_max (n_value, n_output);
    return ((most > WM_RAW_BYTES_MAX + WM_FRAME_OVERHEAD ? most : WM_RAW_BYTES_MAX) +
            WM_SLOT_SCORES + PAGE - 1) /
           PAGE * PAGE;
}

wm_fault_t wm_slots_make (wm_slots_t *self, unsigned n, size_t bytes, wm_error_t *error)
{
    *self =
        (wm_slots_t){ .fd = memfd_create ("wiremill-slots", MFD_CLOEXEC), .n = n, .bytes = bytes };
    if (self->fd < 0 || ftruncate (self->fd, (off_t) (control_bytes + 2 * area_bytes (self))))
        return wm_fault (error, WM_EHOST, "no memory to share with the engine: %s",
                         strerror (errno));
    const wm_fault_t fault = map (self, PROT_READ | PROT_WRITE, error);
    if (!fault) {
        self->control->n_slot = n;
        self->control->slot_bytes = bytes;
    }
    return fault;
}

wm_fault_t wm_slots_map (wm_slots_t *self, int fd, wm_error_t *error)
{
    struct stat st;
    *self = (wm_slots_t){ .fd = fd };
    wm_control_t *control = MAP_FAILED;
    if (fstat (fd, &st) == 0 && st.st_size > (off_t) control_bytes)
        control = mmap (NULL, control_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (control != MAP_FAILED) {
        self->n = control->n_slot;
        self->bytes = control->slot_bytes;
        munmap (control, control_bytes);
    }
    if (!self->n || self->n > WM_SLOTS || self->bytes % PAGE || self->bytes < WM_SLOT_BYTES ||
        st.st_size != (off_t) (control_bytes + 2 * area_bytes (self)))
        return wm_fault (error, WM_EHOST, "file %d is not the memory of a worker", fd);
    return map (self, PROT_READ, error);
}

void wm_slots_clear (wm_slots_t *self)
{
    if (self->control)
        munmap (self->control, control_bytes + area_bytes (self));
    if (self->batch)
        munmap (self->batch, area_bytes (self));
    if (self->fd > 0)
        close (self->fd);
    *self = (wm_slots_t){ 0 };
}

void wm_slots_forget_engine (wm_control_t *control)
{
    *control->taken_precision = *control->taken_isa = *control->refused = '\0';
    *control->class = *control->signature = *control->strict = '\0';
    control->measured = 0, control->n_measured = 0;
}

void wm_slots_lend (const wm_slots_t *self, unsigned slot, wm_batch_t *batch)
{
    *batch = (wm_batch_t){ .memory = self->batch + slot * self->bytes,
                           .memory_bytes = self->bytes - WM_SLOT_SCORES,
                           .is_lent = true };
}

void wm_slots_note (const wm_slots_t *self, unsigned slot, const wm_batch_t *batch)
{
    wm_slot_t *at = &self->control->slot[slot];
    at->kind = batch->kind;
    at->n_hit = batch->n_hit;
    at->plane = batch->plane;
    at->n_wire = batch->n_wire;
    at->n_col = batch->n_col;
    at->n_run = batch->n_run;
    at->n_value = batch->n_value;
    at->patch_values = batch->patch_values;
}

void wm_slots_part (const wm_slots_t *self, unsigned slot, wm_batch_t *batch)
{
    const wm_slot_t *at = &self->control->slot[slot];
    wm_slots_lend (self, slot, batch);
    batch->kind = at->kind;
    batch->n_hit = at->n_hit;
    batch->plane = at->plane;
    batch->n_wire = at->n_wire;
    batch->n_col = at->n_col;
    batch->n_run = at->n_run;
    batch->n_value = at->n_value;
    batch->patch_values = at->patch_values;
    wm_fault_t fault = wm_batch_reserve (batch, NULL);
    assert (!fault); /* it was decoded into this memory */
    if (batch->kind == WM_BATCH_PATCHES)
        batch->patch += (size_t) at->first * batch->patch_values;
    else {
        batch->hit_wire += (size_t) at->first * wm_batch_cells (batch);
        batch->hit_col += (size_t) at->first * wm_batch_cells (batch);
    }
    batch->n_hit = at->count;
}
