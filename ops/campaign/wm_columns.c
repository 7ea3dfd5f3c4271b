/* wm_columns.c - see wm_columns.h.  */
#include "ops/campaign/wm_columns.h"
#include "kernels/import/wm_head.h"
#include "schema/wm_limits.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 8 /* columns that the line names one by one */

/* "track em none michel", "y_0 y_1 ... y_59", "out_0 out_1".  */
static void list_columns (const wm_spec_t *spec, uint32_t n, char list[400])
{
    size_t at = 0;
    list[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *gap = i ? " " : "";
        if (n > SHOWN_MAX && i == 2) {
            gap = " ... ";
            i = n - 1;
        }
        if (spec->n_label)
            at += (size_t) snprintf (list + at, 400 - at, "%s%s", gap, spec->label[i]);
        else
            at += (size_t) snprintf (list + at, 400 - at, "%sout_%u", gap, i);
    }
}

/* Whether the preset's labels are not for this model, and why, in `why`.  */
static int misfits (const wm_spec_t *spec, const wm_columns_from_t *from, const wm_model_t *model,
                    char why[100])
{
    if (!spec->n_label)
        return snprintf (why, 100, "the preset has no labels");
    if (spec->n_label != wm_model_n_output (model) || spec->n_label != 4 ||
        !wm_head_is (model, 0, 3, WM_ACT_SOFTMAX) || !wm_head_is (model, 3, 1, WM_ACT_SIGMOID))
        return snprintf (why, 100,
                         "the preset's labels are for a softmax of three and a sigmoid of one");
    if (!from->chosen && spec->patch_wire * spec->patch_bin != wm_model_n_value (model))
        return snprintf (why, 100, "the preset's labels are for patches of %u x %u",
                         spec->patch_wire, spec->patch_bin);
    return 0;
}

/* Frames of images in place of columns. The image must lie as the patch does: another order of its
   sides would give frames that look right.  */
static wm_fault_t choose_image (wm_spec_t *spec, const wm_columns_from_t *from,
                                const wm_model_t *model, char text[WM_COLUMNS_BYTES_MAX],
                                wm_error_t *error)
{
    const wm_port_t *in = wm_model_input (model, 0), *out = wm_model_output (model, 0);
    uint32_t side[WM_MODEL_DIMS_MAX], n_in = 0, n_out = 0, first;
    for (uint32_t d = 0; d < in->n_dim; d++)
        if (in->dim[d] > 1)
            side[n_in++] = in->dim[d];
    first = spec->n_channel > 1 && n_in > 2 && side[0] == spec->n_channel; /* or they are last */
    bool fits = wm_model_n_output_port (model) == 1;
    for (uint32_t d = 0; d < out->n_dim && fits; d++)
        if (out->dim[d] > 1) {
            fits = first + n_out < n_in && out->dim[d] == side[first + n_out];
            n_out++;
        }
    if (!fits || n_out != (n_in < 2 ? n_in : 2))
        return wm_fault (error, WM_EBATCH,
                         "%s: result: image needs a model of one output of the patch's shape, "
                         "wires x drift bins; wiremill import prints the shapes of this one",
                         from->file ? from->file : from->preset);
    spec->n_label = 0;
    memset (spec->label, 0, sizeof spec->label);
    snprintf (text, WM_COLUMNS_BYTES_MAX, "frames frame_%s: an image of each plane, by tiles",
              spec->table);
    return WM_OK;
}

wm_fault_t wm_columns_choose (wm_spec_t *spec, const wm_columns_from_t *from,
                              const wm_model_t *model, char text[WM_COLUMNS_BYTES_MAX],
                              wm_error_t *error)
{
    char list[400], whose[300], why[100] = "labels: [] asks for them";
    const uint32_t n_output = wm_model_n_output (model);
    const bool own = from->file && from->labelled;
    if (spec->result == WM_RESULT_IMAGE)
        return choose_image (spec, from, model, text, error);
    if (n_output > WM_OUTPUTS_MAX)
        return wm_fault (error, WM_EBATCH,
                         "the model gives %u values a patch, a table of scores has at most %u "
                         "columns; if they are an image of the patch, write result: image into "
                         "the file of --spec",
                         n_output, WM_OUTPUTS_MAX);
    if (own && spec->n_label && spec->n_label != n_output)
        return wm_fault (error, WM_EBATCH,
                         "%s names %u labels, the model gives %u scores per hit; change its labels",
                         from->file, spec->n_label, n_output);
    if (own && spec->n_label)
        snprintf (whose, sizeof whose, "labels of %.200s", from->file);
    else if (!own && !misfits (spec, from, model, why))
        snprintf (whose, sizeof whose, "labels of the preset %.32s%s%.200s%s", from->preset,
                  from->file ? " (" : "", from->file ? from->file : "",
                  from->file ? " names none)" : "");
    else {
        wm_spec_label (spec, model);
        snprintf (whose, sizeof whose, "%s (%s)",
                  spec->n_label ? "names of the model's outputs"
                                : "numbers, as the names of the model's outputs cannot be columns",
                  why);
    }
    list_columns (spec, n_output, list);
    snprintf (text, WM_COLUMNS_BYTES_MAX, "columns %s: %s", list, whose);
    return WM_OK;
}
