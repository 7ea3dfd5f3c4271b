/* wm_writer_names.c - names of an output's columns, and which it has.  */
#include "producer/writing/wm_writer_private.h"

#include "schema/wm_limits.h"

#include <stdio.h>
#include <string.h>

const char *const wm_writer_column[COLUMNS] = { "run",  "subrun",      "event",  "cryostat",
                                                "tpc",  "plane",       "hit_id", "wire",
                                                "time", "in_fiducial", "status", "engine" };

bool wm_writer_has (const wm_spec_t *spec, int column)
{
    return (column != WIRE && column != TIME) || spec->points == WM_POINTS_WINDOWS;
}

void wm_writer_label (const wm_spec_t *spec, uint32_t n_output, uint32_t i, char name[48])
{
    if (spec->n_label == n_output)
        snprintf (name, 48, "%s", spec->label[i]);
    else
        snprintf (name, 48, "out_%u", i);
}

uint8_t wm_writer_status (const wm_scratch_t *scratch, uint64_t row)
{
    return scratch->state[row] ? (uint8_t) (scratch->state[row] - 1) : WM_HIT_NO_EVENT;
}

bool wm_writer_has_own (const wm_writer_t *self)
{
    return strcmp (self->job.pins->layout, "numl") != 0;
}

/* What an output of images needs.  */
static wm_fault_t image_check (const wm_spec_t *spec, uint32_t n_output, bool has_numl,
                               wm_error_t *error)
{
    if ((uint64_t) spec->patch_wire * spec->patch_bin != n_output)
        return wm_fault (error, WM_EBATCH,
                         "result: image needs a value for each cell of a patch, %u x %u; the model "
                         "gives %u",
                         spec->patch_wire, spec->patch_bin, n_output);
    if (has_numl)
        return wm_fault (error, WM_EBATCH,
                         "result: image is written as frames, not as numl's tables; leave --layout "
                         "out");
    if (!spec->table[strspn (spec->table, "0123456789_-")])
        return wm_fault (error, WM_EBATCH,
                         "table: '%s' could be an event's number, which names its frames; choose "
                         "another name",
                         spec->table);
    return WM_OK;
}

wm_fault_t wm_writer_check (const wm_spec_t *spec, uint32_t n_output, const char *layout,
                            wm_error_t *error)
{
    const bool has_numl = *layout && strcmp (layout, "wiremill");
    if (spec->result == WM_RESULT_IMAGE)
        return image_check (spec, n_output, has_numl, error);
    if (n_output > WM_OUTPUTS_MAX)
        return wm_fault (error, WM_EBATCH,
                         "the model gives %u values a patch, and a table of scores has at most %u "
                         "columns; write result: image into --spec if they are an image",
                         n_output, WM_OUTPUTS_MAX);
    if (!strcmp (spec->table, "held") || !strcmp (spec->table, "engine") ||
        (has_numl && (!strcmp (spec->table, "event") || !strcmp (spec->table, "event_table"))))
        return wm_fault (error, WM_EBATCH, "table: '%s' is the name of another group of the output",
                         spec->table);
    for (uint32_t i = 0; i < n_output; i++) {
        char name[48];
        bool is_taken = false;
        wm_writer_label (spec, n_output, i, name);
        for (int c = 0; c < COLUMNS; c++)
            is_taken |= wm_writer_has (spec, c) && !strcmp (name, wm_writer_column[c]);
        if (is_taken || (has_numl && !strcmp (name, "event_id")))
            return wm_fault (error, WM_EBATCH,
                             "labels: '%s' is the name of another column of the output", name);
    }
    return WM_OK;
}
