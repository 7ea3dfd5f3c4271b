/* wm_writer_form.c - closes the file of a writer, or keeps it in memory as a form for the next.

   Making the objects of a small output costs more than all the rest, so the library's file in
   memory stays open as a form for the next output with as many rows: every value is written over,
   and nothing can move, because nothing has another size. An output is the same bytes whether its
   form is a new one or not.  */
#include "producer/writing/wm_writer_private.h"

#include <string.h>

static form_t form[FORMS_MAX]; /* of the one thread of all writers */
static uint64_t form_clock;

form_t *wm_writer_form_of (hid_t file)
{
    for (uint32_t i = 0; i < FORMS_MAX && file > 0; i++)
        if (form[i].file == file)
            return &form[i];
    return NULL;
}

void wm_writer_form_keep (form_t *kept, wm_writer_t *self)
{
    kept->table = self->table;
    memcpy (kept->column, self->column, sizeof kept->column);
    memcpy (kept->label, self->label, self->n_label * sizeof *kept->label);
    kept->held_row = self->held_row;
    kept->held_id = self->held_id;
    kept->held_status = self->held_status;
    kept->held_reason = self->held_reason;
    kept->is_busy = kept->again = false;
    memset (self->label, 0, self->n_label * sizeof *kept->label);
    memset (self->column, 0, sizeof self->column);
    self->held_row = self->held_id = self->held_status = self->held_reason = 0;
    self->file = self->table = 0;
}

static bool list_close (hid_t *list, size_t n)
{
    bool fine = true;
    for (size_t i = 0; i < n; i++)
        fine = (list[i] <= 0 || H5Dclose (list[i]) >= 0) && fine, list[i] = 0;
    return fine;
}

static bool form_close (form_t *kept)
{
    hid_t rest[] = { kept->held_row,    kept->held_id,   kept->held_status,
                     kept->held_reason, kept->signature, kept->error };
    bool fine = list_close (rest, sizeof rest / sizeof *rest);
    fine = list_close (kept->label, FORM_LABELS_MAX) && fine;
    fine = list_close (kept->column, COLUMNS) && fine;
    for (uint32_t i = 0; i < kept->n_attribute; i++)
        fine = H5Aclose (kept->attribute[i].id) >= 0 && fine;
    fine = (kept->table <= 0 || H5Gclose (kept->table) >= 0) && fine;
    fine = H5Fclose (kept->file) >= 0 && fine;
    memset (kept, 0, sizeof *kept);
    return fine;
}

bool wm_writer_close (wm_writer_t *self)
{
    bool fine = true;
    if (self->numl)
        wm_writer_numl_reset (self);
    if (self->frames)
        fine = wm_writer_frames_reset (self->frames);
    form_t *kept = wm_writer_form_of (self->file);
    if (kept) {
        wm_writer_form_keep (kept, self);
        return form_close (kept);
    }
    hid_t *list[] = { &self->held_row, &self->held_id, &self->held_status, &self->held_reason };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        fine = list_close (list[i], 1) && fine;
    fine = list_close (self->label, self->n_label) && fine;
    fine = list_close (self->column, COLUMNS) && fine;
    fine = (self->table <= 0 || H5Gclose (self->table) >= 0) && fine;
    fine = (self->file <= 0 || H5Fclose (self->file) >= 0) && fine;
    self->table = self->file = 0;
    return fine;
}

/* What the objects of an output are, but for the number of rows.  */
static uint64_t layout_hash (const wm_writer_job_t *job)
{
    const uint32_t more[2] = { job->scratch->n_output, (uint32_t) (*job->pins->max_error != 0) +
                                                           2 * wm_writer_has (job->spec, WIRE) };
    uint64_t hash = XXH3_64bits_withSeed (job->spec->table, strlen (job->spec->table), more[0]);
    for (uint32_t i = 0; i < job->spec->n_label; i++)
        hash = XXH3_64bits_withSeed (job->spec->label[i], strlen (job->spec->label[i]), hash);
    return XXH3_64bits_withSeed (more, sizeof more, hash);
}

bool wm_writer_has_form (const wm_writer_t *self)
{
    return self->is_small && !self->numl && self->job.scratch->n_row * 8 <= COMPACT_BYTES &&
           self->n_held * REASON_BYTES <= COMPACT_BYTES &&
           self->job.scratch->n_output <= FORM_LABELS_MAX;
}

bool wm_writer_form_take (wm_writer_t *self)
{
    const uint64_t hash = layout_hash (&self->job);
    form_t *f = NULL;
    for (uint32_t i = 0; i < FORMS_MAX && !f && wm_writer_has_form (self); i++)
        if (form[i].file > 0 && !form[i].is_busy && form[i].n_row == self->job.scratch->n_row &&
            form[i].n_held == self->n_held && form[i].layout_hash == hash)
            f = &form[i];
    if (!f)
        return false;
    self->file = f->file;
    self->table = f->table;
    memcpy (self->column, f->column, sizeof f->column);
    memcpy (self->label, f->label, self->n_label * sizeof *f->label);
    self->held_row = f->held_row;
    self->held_id = f->held_id;
    self->held_status = f->held_status;
    self->held_reason = f->held_reason;
    f->used = ++form_clock;
    f->is_busy = f->again = true;
    f->at = 0;
    if (wm_writer_facts (self) && f->at == f->n_attribute && wm_writer_engines (self))
        return true;
    wm_writer_close (self);
    return false;
}

void wm_writer_form_begin (const wm_writer_t *self)
{
    form_t *f = NULL;
    for (uint32_t i = 0; i < FORMS_MAX; i++)
        if (!form[i].is_busy && (!f || form[i].used < f->used))
            f = &form[i];
    if (!f)
        return;
    if (f->file > 0)
        form_close (f);
    f->file = self->file;
    f->n_row = self->job.scratch->n_row;
    f->n_held = self->n_held;
    f->layout_hash = layout_hash (&self->job);
    f->used = ++form_clock;
    f->is_busy = f->fits = true;
}
