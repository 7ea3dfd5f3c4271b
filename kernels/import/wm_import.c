/* wm_import.c - makes a .wmm from a model's file.

   If the graph is of the EmTrkMichelId family, its network is stored with known answers in double
   precision; else the file is stored as it is, with OpenVINO's own fp32 scores as answers. Of these
   only the steady ones are kept: where a score changes when the input changes by a rounding
   (softmax over huge numbers), another machine's rounding would look like a fault.  */
#include "kernels/family/wm_family.h"
#include "kernels/family/wm_range.h"
#include "kernels/import/wm_import_private.h"
#include "kernels/import/wm_madds.h"
#include "kernels/judge/wm_draw.h"
#include "kernels/judge/wm_judge.h"
#include "kernels/judge/wm_reference.h"
#include "kernels/model/wm_test_patches.h"
#include "kernels/model/wm_seed.h"
#include "kernels/wm_device.h"
#include "schema/base/wm_grow.h"
#include "schema/wm_limits.h"

#include <ctype.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KNOWN WM_DRAW_SIZES
#define ROUNDING 0x1p-20f /* relative change of an input, a few roundings, ... */
#define STEADY 2e-5f      /* ... that changes a steady score by this; the self-test allows 1e-4 */

#define NOT_A_NUMBER "a score that is not a number"

#define NO_RULE "No conversion rule found for operations" /* OpenVINO's text before their list */

static double draw_below (uint64_t *state, double limit)
{
    return (double) (wm_seed_next (state) >> 11) * 0x1p-53 * limit;
}

/* Values that a patch is drawn of, within what its readers allow (kernels/judge/wm_draw.h): the
   first of which it has scores. Reals may then be replaced by others.  */
static const struct {
    wm_draw_t kind;
    double from, range; /* 0: they stay */
} draws[] = { { WM_DRAW_SIGNED, 0, 0 }, { WM_DRAW_POSITIVE, 0, 0 },     { WM_DRAW_SIGNED, 0, 2 },
              { WM_DRAW_SIGNED, 1, 3 }, { WM_DRAW_SIGNED, 0, 0x1p-10 }, { WM_DRAW_SIGNED, 64, 192 },
              { WM_DRAW_LARGE, 0, 0 },  { WM_DRAW_INTEGERS, 0, 0 },     { WM_DRAW_ZEROS, 0, 0 } };
#define DRAWS (sizeof draws / sizeof *draws)
#define DRAWN "of values from -1024 to 1024, whole ones and zeros"

/* Replaces the n values of a port.  */
static void draw_reals (uint64_t *state, size_t draw, const wm_port_t *port, float *value, size_t n)
{
    for (size_t k = 0; k < n && draws[draw].range > 0 && wm_type_is_real (port->type); k++)
        value[k] = (float) (draws[draw].from + draw_below (state, draws[draw].range));
}

/* Allocates the known answers of a model.  */
static wm_fault_t known_new (wm_model_parts_t *parts, uint32_t n, wm_arena_t *arena, float **inputs,
                             float **scores, wm_error_t *error)
{
    uint64_t n_value = 0, n_output = 0;
    for (uint32_t i = 0; i < parts->n_input; i++)
        n_value += (uint64_t) parts->input[i].n_value * wm_port_each (&parts->input[i]);
    for (uint32_t i = 0; i < parts->n_output; i++)
        n_output += (uint64_t) parts->output[i].n_value * wm_port_each (&parts->output[i]);
    parts->known_inputs = *inputs = wm_arena_take (arena, n * n_value, sizeof **inputs);
    parts->known_scores = *scores = wm_arena_take (arena, n * n_output, sizeof **scores);
    return *inputs && *scores ? WM_OK : wm_fault (error, WM_EHOST, "no memory for known answers");
}

static wm_fault_t write_family (const char *model, const char *path, wm_model_parts_t *parts,
                                wm_arena_t *arena, wm_error_t *error)
{
    float *inputs, *scores;
    wm_reference_t *judge = wm_reference_new (parts->net);
    wm_fault_t fault = known_new (parts, KNOWN, arena, &inputs, &scores, error);
    if (!fault && !judge)
        fault = wm_fault (error, WM_EHOST, "%s: no memory for its known answers", path);
    uint64_t state = 1;
    uint32_t n_output = 0;
    for (uint32_t i = 0; i < parts->n_output; i++)
        n_output += parts->output[i].n_value;
    for (uint32_t i = 0; i < KNOWN && !fault; i++)
        wm_test_patches_draw (&state, parts->net, 0, 1,
                              inputs + (size_t) i * parts->input[0].n_value);
    if (!fault)
        wm_reference_run (judge, inputs, KNOWN, scores, n_output);
    if (!fault && wm_reference_peak (judge) > FLT_MAX)
        fault = wm_fault (error, WM_EBATCH,
                          "%s: its values reach %.2g on test patches, more than float32 holds "
                          "(3.4e+38): its weights are damaged, or its training failed",
                          model, wm_reference_peak (judge));
    wm_reference_destroy (&judge);
    parts->n_known = KNOWN;
    return fault ? fault : wm_model_write (path, parts, error);
}

/* ---- the general engine ---------------------------------------------------------------------- */

/* Puts n values that were drawn for a port where they are carried. Returns what is behind them.  */
static float *carry (const wm_port_t *port, const float *drawn, size_t n, float *to)
{
    const uint32_t each = wm_port_each (port);
    uint64_t value;
    if (!port->is_exact && n)
        memcpy (to, drawn, n * sizeof *to);
    for (size_t k = 0; k < n && port->is_exact; k++) {
        wm_exact_of_floats (port->type, drawn + k, 1, &value);
        wm_exact_put (port->type, &value, 1, to + k * each);
    }
    return to + n * each;
}

/* Seeds n patches, each of the values of its own draw.  */
static wm_fault_t seed_patches (const wm_onnx_t *onnx, const wm_model_t *model, uint32_t n,
                                const size_t draw[KNOWN], float *inputs, wm_error_t *error)
{
    const uint32_t n_port = wm_model_n_input (model);
    wm_fault_t fault = WM_OK;
    float *to = inputs, *row = malloc (wm_model_n_value (model) * sizeof *row);
    if (!row)
        return wm_fault (error, WM_EHOST, "no memory for known answers");
    for (uint32_t i = 0; i < n && !fault; i++) {
        uint64_t state = 1 + i;
        float *drawn = row;
        fault = wm_draw_row (onnx, wm_model_input (model, 0), n_port, draws[draw[i]].kind, 1 + i,
                             row, error);
        for (uint32_t p = 0; p < n_port && !fault; p++) {
            const wm_port_t *port = wm_model_input (model, p);
            draw_reals (&state, draw[i], port, drawn, port->n_value);
            to = carry (port, drawn, port->n_value, to);
            drawn += port->n_value;
        }
    }
    free (row);
    return fault;
}

/* Moves the values that are no whole numbers by a rounding.  */
static void move_row (float *row, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (row[k] != nearbyintf (row[k]))
            row[k] *= 1 + (k % 2 ? ROUNDING : -ROUNDING);
}

/* Scores seeded patches, and the same patches a rounding away. One that gets a NaN is drawn of
   other values, as long as there are any.  */
static wm_fault_t score_seeded (wm_device_t *device, const wm_onnx_t *onnx, const wm_model_t *model,
                                uint32_t n, float *inputs, float *scores, float *moved,
                                uint8_t *status, wm_error_t *error)
{
    const size_t n_value = wm_model_n_value (model);
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = n, .patch_values = (uint32_t) n_value, .patch = inputs
    };
    size_t draw[KNOWN] = { 0 };
    wm_fault_t fault = WM_OK;
    for (bool again = true; again && !fault;) {
        fault = seed_patches (onnx, model, n, draw, inputs, error);
        if (!fault)
            fault = wm_device_score (device, &batch, status, scores, error);
        again = false;
        for (uint32_t i = 0; i < n && !fault; i++)
            if (status[i] == WM_HIT_NONFINITE && draw[i] + 1 < DRAWS)
                draw[i]++, again = true;
    }
    uint8_t ignored[KNOWN];
    if (!fault) {
        move_row (inputs, n * n_value);
        fault = wm_device_score (device, &batch, ignored, moved, error);
    }
    return fault ? fault : seed_patches (onnx, model, n, draw, inputs, error);
}

/* Whether all scores of a row are numbers and steady.  */
static bool is_steady (const wm_model_t *model, const float *scores, const float *moved, size_t n)
{
    size_t where;
    for (size_t i = 0; i < n; i++)
        if (isnan (scores[i]))
            return false;
    return wm_device_row_off (model, moved, scores, n, 1, &where) <= (double) STEADY;
}

/* Refuses a model that gives a NaN on every test patch, and names its constant with a NaN, or the
   first node that may make one.  */
static wm_fault_t refuse_nan (wm_onnx_t *onnx, wm_error_t *error)
{
    static const char *const partial[] = { "Log",  "Sqrt", "Pow",   "Div",   "Reciprocal",
                                           "Acos", "Asin", "Acosh", "Atanh", "Mod" };
    const Onnx__NodeProto *node = NULL;
    char weight[160];
    for (size_t i = 0; i < onnx->n_node && !node; i++)
        for (size_t k = 0; k < sizeof partial / sizeof *partial && !node; k++)
            node = strcmp (wm_onnx_op (onnx->node[i]), partial[k]) == 0 ? onnx->node[i] : NULL;
    if (wm_onnx_find_nan (onnx, weight, sizeof weight))
        return wm_fault (error, WM_EBATCH,
                         "no test patch has a finite score (" DRAWN
                         "): %s; the file is damaged, or "
                         "the model's training failed",
                         weight);
    if (!node)
        return wm_fault (error, WM_EBATCH,
                         "no test patch has a finite score (" DRAWN "): its weights are damaged, "
                         "or its training failed");
    return wm_fault (error, WM_EBATCH,
                     "no test patch has a finite score (" DRAWN "): does node '%.80s' (%s) get "
                     "values for which it has none (Log of values <= 0?)",
                     wm_onnx_node_name (node), wm_onnx_op (node));
}

/* Refuses a graph whose scores of a patch depend on the other patches of its batch.  */
static wm_fault_t check_alone (wm_device_t *device, const wm_model_t *model, const float *inputs,
                               const float *scores, float *alone, wm_error_t *error)
{
    size_t n_value = wm_model_n_value (model), n_output = wm_model_n_output (model);
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                         .n_hit = 1,
                         .patch_values = (uint32_t) n_value,
                         .patch = (float *) (uintptr_t) inputs };
    uint8_t status;
    wm_fault_t fault = wm_device_score (device, &batch, &status, alone, error);
    if (!fault && !is_steady (model, scores, alone, n_output))
        return wm_fault (
            error, WM_EBATCH,
            "the model's scores of a patch depend on the other patches of its batch: it "
            "must treat each by itself (a Softmax, a mean or a normalisation over the "
            "batch dimension?); import it with --whole if that is no batch dimension");
    return fault;
}

/* ---- known answers of a ragged model --------------------------------------------------------- */

#define KNOWN_VALUES_MAX (1u << 20) /* of a row */

/* Seeds row i (wm_draw_ragged). *n: its float32s; 0: it is too large.  */
static wm_fault_t seed_row (const wm_onnx_t *onnx, const wm_model_t *model, uint32_t i, size_t draw,
                            float *row, uint32_t *n, wm_error_t *error)
{
    const uint32_t n_port = wm_model_n_input (model);
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX], carried[WM_RAGGED_TENSORS_MAX];
    uint32_t n_tensor;
    uint64_t state = 1 + i;
    float *drawn = malloc (KNOWN_VALUES_MAX * sizeof *drawn);
    wm_fault_t fault =
        drawn ? wm_draw_ragged (onnx, wm_model_input (model, 0), n_port, draws[draw].kind, 1 + i, i,
                                drawn, KNOWN_VALUES_MAX, n, error)
              : wm_fault (error, WM_EHOST, "no memory for known answers");
    if (!fault && *n && !wm_ragged_read (drawn, *n, &n_tensor, tensor)) {
        memcpy (carried, tensor, sizeof carried);
        for (uint32_t p = 0; p < n_port; p++) {
            const wm_port_t *port = wm_model_input (model, p);
            carried[p].type = port->is_exact ? port->type : 0;
            draw_reals (&state, draw, port, drawn + tensor[p].at, tensor[p].n_value);
        }
        *n = wm_ragged_begin (row, wm_model_n_value (model), n_tensor, carried);
        for (uint32_t p = 0; p < n_port && *n; p++)
            carry (wm_model_input (model, p), drawn + tensor[p].at, tensor[p].n_value,
                   row + carried[p].at);
    }
    free (drawn);
    return fault;
}

/* Scores a row. Returns the values of its scores, 0 where it is held or refused; *status, *text:
   why.  */
static uint32_t score_row (wm_device_t *device, const wm_model_t *model, float *row, uint32_t n,
                           float *scores, uint8_t *status, char text[160], wm_error_t *error)
{
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = n, .patch = row
    };
    *error = (wm_error_t){ .fault = WM_OK };
    if (wm_device_score (device, &batch, status, scores, error))
        return 0;
    const uint32_t n_score = wm_ragged_length (scores, wm_model_n_output (model));
    if (*status == WM_HIT_HELD)
        wm_ragged_refusal (scores, n_score, text, 160);
    else if (*status)
        snprintf (text, 160, "%s", NOT_A_NUMBER);
    return *status ? 0 : n_score;
}

typedef struct {
    float *row, *scores, *other; /* of one row: the most that the model has */
    float *inputs, *answers;     /* of all that are kept */
    size_t n_value[2];           /* of those */
} rows_t;

/* Keeps a row and its scores. false: no memory.  */
static bool keep_row (rows_t *self, uint32_t n_value, uint32_t n_score)
{
    if (!wm_regrow (&self->inputs, self->n_value[0] + n_value, sizeof *self->inputs) ||
        !wm_regrow (&self->answers, self->n_value[1] + n_score, sizeof *self->answers))
        return false;
    memcpy (self->inputs + self->n_value[0], self->row, n_value * sizeof *self->inputs);
    memcpy (self->answers + self->n_value[1], self->scores, n_score * sizeof *self->answers);
    self->n_value[0] += n_value;
    self->n_value[1] += n_score;
    return true;
}

/* Scores rows of several sizes, keeps the steady ones in `parts`, and refuses a model whose bits
   depend on what was computed before: each row is scored again behind the others.  */
static wm_fault_t answer_rows (wm_device_t *device, const wm_onnx_t *onnx, const wm_model_t *model,
                               wm_model_parts_t *parts, rows_t *self, char text[160],
                               wm_error_t *error)
{
    uint32_t n_score;
    uint8_t status;
    for (uint32_t i = 0; i < KNOWN; i++) {
        uint32_t n;
        size_t draw = 0;
        do {
            if (seed_row (onnx, model, i, draw, self->row, &n, error))
                return error->fault;
            n_score =
                n ? score_row (device, model, self->row, n, self->scores, &status, text, error) : 0;
            if (n && error->fault)
                return error->fault;
        } while (n && !n_score && status == WM_HIT_NONFINITE && ++draw < DRAWS);
        if (!n_score)
            continue;
        move_row (self->row, n);
        const uint32_t n_other =
            score_row (device, model, self->row, n, self->other, &status, text, error);
        if (error->fault || seed_row (onnx, model, i, draw, self->row, &n, error))
            return error->fault;
        if (n_other != n_score || !is_steady (model, self->scores, self->other, n_score))
            continue;
        if (!keep_row (self, n, n_score))
            return wm_fault (error, WM_EHOST, "no memory for known answers");
        parts->n_known++;
    }
    float *row = self->inputs;
    const float *answer = self->answers;
    for (uint32_t i = 0; i < parts->n_known; i++) {
        const uint32_t n = wm_ragged_length (row, SIZE_MAX),
                       n_answer = wm_ragged_length (answer, SIZE_MAX);
        n_score = score_row (device, model, row, n, self->scores, &status, text, error);
        if (error->fault)
            return error->fault;
        if (n_score != n_answer || memcmp (self->scores, answer, n_score * sizeof *answer) != 0)
            return wm_fault (error, WM_EBATCH,
                             "the model's scores of a patch depend on the patches before it");
        row += n;
        answer += n_answer;
    }
    return WM_OK;
}

/* The same, with memory. `why` gets why there are no known answers.  */
static wm_fault_t answer_ragged (wm_device_t *device, const wm_model_t *model, wm_onnx_t *onnx,
                                 wm_model_parts_t *parts, wm_arena_t *arena, char why[480],
                                 wm_error_t *error)
{
    char text[160] = "every row of the test is too large";
    const size_t most = wm_model_n_value (model) * sizeof (float);
    rows_t rows = { .row = malloc (most), .scores = malloc (most), .other = malloc (most) };
    wm_fault_t fault = rows.row && rows.scores && rows.other
                           ? answer_rows (device, onnx, model, parts, &rows, text, error)
                           : wm_fault (error, WM_EHOST, "no memory for known answers");
    float *inputs = wm_arena_take (arena, rows.n_value[0] + 1, sizeof *inputs),
          *answers = wm_arena_take (arena, rows.n_value[1] + 1, sizeof *answers);
    if (!fault && (!inputs || !answers))
        fault = wm_fault (error, WM_EHOST, "no memory for known answers");
    if (!fault && parts->n_known) {
        memcpy (inputs, rows.inputs, rows.n_value[0] * sizeof *inputs);
        memcpy (answers, rows.answers, rows.n_value[1] * sizeof *answers);
        parts->known_inputs = inputs, parts->known_scores = answers;
        memcpy (parts->known_values, rows.n_value, sizeof rows.n_value);
    } else if (!fault && strcmp (text, NOT_A_NUMBER) == 0) {
        fault = refuse_nan (onnx, error);
    } else if (!fault) {
        const size_t n = strlen (why);
        snprintf (why + n, 480 - n, "; no known answers: %s", text);
    }
    free (rows.row);
    free (rows.scores);
    free (rows.other);
    free (rows.inputs);
    free (rows.answers);
    return fault;
}

/* ---- known answers of patches of one size ---------------------------------------------------- */

static wm_fault_t answer_patches (wm_device_t *device, const wm_model_t *model, wm_onnx_t *onnx,
                                  wm_model_parts_t *parts, wm_arena_t *arena, wm_error_t *error)
{
    const size_t n_value = wm_model_n_value (model), n_output = wm_model_n_output (model);
    float *inputs, *scores;
    uint8_t status[KNOWN];
    uint32_t n = KNOWN;
    bool any_number = false; /* or held for another reason than a NaN */
    while (n > 1 && n * n_value > WM_RAW_BYTES_MAX / 4)
        n /= 2;
    float *moved = wm_arena_take (arena, n * n_output, sizeof *moved);
    wm_fault_t fault = known_new (parts, n, arena, &inputs, &scores, error);
    if (!fault && !moved)
        fault = wm_fault (error, WM_EHOST, "no memory for known answers");
    if (!fault)
        fault = score_seeded (device, onnx, model, n, inputs, scores, moved, status, error);
    if (!fault && is_steady (model, scores, moved, n_output))
        fault = check_alone (device, model, inputs, scores, moved, error);
    for (uint32_t i = 0; i < n && !fault; i++) {
        any_number |= status[i] != WM_HIT_NONFINITE;
        if (!is_steady (model, scores + i * n_output, moved + i * n_output, n_output))
            continue;
        const uint32_t k = parts->n_known++;
        memmove (inputs + k * n_value, inputs + i * n_value, n_value * sizeof *inputs);
        memmove (scores + k * n_output, scores + i * n_output, n_output * sizeof *scores);
    }
    return fault || any_number ? fault : refuse_nan (onnx, error);
}

/* Scores the model that was written to `path` and keeps the steady answers in `parts`.  */
static wm_fault_t answer (const char *path, wm_onnx_t *onnx, wm_model_parts_t *parts,
                          wm_arena_t *arena, char why[480], wm_error_t *error)
{
    const wm_device_config_t config = {
        .engine = "auto", .precision = "fp32", .threads = 1, .keeps_infinite = true
    };
    wm_model_t *model = wm_model_open (path, error);
    wm_device_t *device = model ? wm_device_new (model, NULL, &config, error) : NULL;
    wm_fault_t fault = device ? WM_OK : error->fault;
    if (device && wm_model_is_ragged (model, NULL))
        fault = answer_ragged (device, model, onnx, parts, arena, why, error);
    else if (device)
        fault = answer_patches (device, model, onnx, parts, arena, error);
    wm_device_destroy (&device);
    wm_model_destroy (&model);
    return fault;
}

/* Whether OpenVINO's message names this node.  */
static bool is_named (const Onnx__NodeProto *node, const char *unknown, const char *message)
{
    const char *op = wm_onnx_op (node);
    char text[256];
    snprintf (text, sizeof text, "<Node(%.80s): %.120s>", op, node->name ? node->name : "");
    if (!unknown)
        return strstr (message, text) != NULL;
    const size_t n = strlen (op);
    for (const char *at = unknown; n && (at = strstr (at, op)); at += n)
        if ((at[-1] == ' ' || at[-1] == '.') && !isalnum ((unsigned char) at[n]) && at[n] != '_')
            return true;
    return false;
}

/* Puts before OpenVINO's message which node it cannot run and what to do.  */
static wm_fault_t explain (const wm_onnx_t *onnx, wm_error_t *error)
{
    const char *message = error->text, *unknown = strstr (message, NO_RULE);
    const Onnx__NodeProto *node = NULL;
    unknown = unknown ? unknown + strlen (NO_RULE) : NULL;
    for (size_t i = 0; i < onnx->n_node && !node; i++)
        node = is_named (onnx->node[i], unknown, message) ? onnx->node[i] : NULL;
    const wm_error_t theirs = *error;
    if (!node)
        return wm_fault (error, theirs.fault, "%s: %.300s%s", onnx->path, theirs.text,
                         strncmp (theirs.text, "OpenVINO", 8)
                             ? ""
                             : "; if it runs elsewhere (onnxruntime), export it with another "
                               "operator set");
    const int own = node->domain && *node->domain && !onnx->tensorflow;
    return wm_fault (
        error, theirs.fault, "%s: node '%.60s' (%.60s%s%.60s) %s. %.180s", onnx->path,
        wm_onnx_node_name (node), wm_onnx_op (node), own ? " of domain " : "",
        own ? node->domain : "",
        !unknown ? "cannot be computed on its inputs: inspect its attributes and their shapes"
        : own ? "is not known to the general engine: export the model without operators of other "
                "domains than ONNX's"
              : "is not known to the general engine: export the model with other operators, or "
                "another operator set",
        theirs.text);
}

static bool is_ragged (const wm_model_parts_t *parts)
{
    bool is_free = false;
    for (uint32_t i = 0; i < parts->n_input + parts->n_output; i++) {
        const wm_port_t *port =
            i < parts->n_input ? &parts->input[i] : &parts->output[i - parts->n_input];
        for (uint32_t d = 0; d < port->n_dim; d++)
            is_free |= !port->dim[d];
    }
    return is_free;
}

/* Refuses a largest row that was asked for where all rows have one size.  */
static wm_fault_t check_row (const wm_onnx_t *onnx, const wm_import_choices_t *choices,
                             const wm_model_parts_t *parts, wm_error_t *error)
{
    if (!choices->row_values || is_ragged (parts))
        return WM_OK;
    return wm_fault (error, WM_EBATCH,
                     "%s: no dimension of this model is free, so its rows have one size: leave out "
                     "--row-bytes (of a gateway's model: row_bytes in config.pbtxt)",
                     onnx->path);
}

/* Counts a model's multiply-adds; `why` gets their number, or why it is not known.  */
static void count_madds (wm_onnx_t *onnx, const wm_backend_t *openvino, wm_model_parts_t *parts,
                         char why[480])
{
    char broken[160];
    const size_t n = strlen (why);
    if (is_ragged (parts)) {
        snprintf (why + n, 480 - n, "; " WM_IMPORT_UNCOUNTED "they change with the dimensions");
        return;
    }
    parts->madds = wm_madds_count (onnx, openvino, parts->input, parts->n_input, broken);
    if (*broken)
        snprintf (why + n, 480 - n, "; " WM_IMPORT_UNCOUNTED "%s", broken);
    else
        snprintf (why + n, 480 - n, "; %llu multiply-adds a patch",
                  (unsigned long long) parts->madds);
}

/* Whether shapes contradict each other: a size that one knows and that the other has otherwise.  */
static bool shapes_differ (const wm_port_t *known, const wm_port_t *right, uint32_t n)
{
    bool differ = false;
    for (uint32_t i = 0; i < n; i++) {
        differ |= known[i].n_dim != right[i].n_dim;
        for (uint32_t d = 0; d < known[i].n_dim; d++)
            differ |= known[i].dim[d] && known[i].dim[d] != right[i].dim[d];
    }
    return differ;
}

/* Fills in the shapes of the outputs: OpenVINO's, but ONNX Runtime's where OpenVINO does not take
   the model, or has others and none were accepted; those that the file states without either.  */
static wm_fault_t find_shapes (wm_onnx_t *onnx, wm_onnx_ports_t *how, const wm_backend_t *openvino,
                               wm_model_parts_t *parts, wm_port_t *output, wm_judge_how_t *judging,
                               wm_error_t *error)
{
    wm_error_t lack;
    wm_port_t right[WM_MODEL_PORTS_MAX];
    const bool here = !onnx->graphdef && wm_device_is_here ("onnxruntime", &lack);
    if (!openvino && !here)
        return wm_onnx_output_shapes (onnx, how, output, error);
    memcpy (right, output, sizeof right);
    const wm_fault_t mine =
        openvino ? openvino->shape (parts->original, parts->original_bytes, parts->input,
                                    parts->n_input, output, parts->n_output, 0, error)
                 : WM_EHOST;
    const wm_fault_t theirs =
        here ? wm_judge_shapes (onnx, how->whole, mine != WM_OK, parts, right, &lack) : WM_EHOST;
    if (!theirs) {
        judging->other_shapes = !mine && shapes_differ (output, right, parts->n_output);
        if (mine || (judging->other_shapes && !judging->accept))
            memcpy (output, right, parts->n_output * sizeof *right);
        return WM_OK;
    }
    if (!mine)
        return WM_OK;
    if (openvino)
        explain (onnx, error);
    else
        *error = lack;
    if (openvino && here && !strstr (error->text, "node '")) { /* what is clearer comes first */
        const wm_error_t theirs_too = *error;
        return wm_fault (error, theirs_too.fault, "%.200s: %.200s; %.200s", onnx->path, lack.text,
                         theirs_too.text + strlen (onnx->path) + 2);
    }
    const size_t n = strlen (error->text);
    if (openvino && here)
        snprintf (error->text + n, sizeof error->text - n, "; %s", lack.text);
    return error->fault;
}

/* Lets both engines judge the draft; `why` gets the sentence.  */
static wm_fault_t judge (wm_onnx_t *onnx, const wm_judge_how_t *how, const char *draft,
                         wm_model_parts_t *parts, char why[480], wm_error_t *error)
{
    char text[WM_JUDGE_TEXT] = "judged by no other engine: ONNX Runtime reads no frozen graphs";
    const size_t n = strlen (why);
    const wm_fault_t fault =
        onnx->graphdef ? WM_OK : wm_judge (onnx, how, draft, parts, &parts->judged, text, error);
    snprintf (why + n, 480 - n, "; %s", text);
    return fault;
}

/* Whether inputs or outputs of a parsed model may have a value that float32 does not hold.  */
static bool has_exact (const wm_onnx_t *onnx)
{
    const Onnx__GraphProto *g = onnx->model ? onnx->model->graph : NULL;
    bool any = false;
    for (size_t i = 0; g && i < g->n_input + g->n_output; i++) {
        const Onnx__TypeProto *type =
            (i < g->n_input ? g->input[i] : g->output[i - g->n_input])->type;
        any |= type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
               wm_exact_each (type->tensor_type->elem_type) > 1;
    }
    return any;
}

/* Has the ports carried exactly, where ONNX Runtime scores the model. Returns whether one is.  */
static bool carry_exactly (const wm_model_parts_t *parts, wm_port_t *input, wm_port_t *output)
{
    bool any = false;
    if (parts->judged.judgement != WM_JUDGED_OTHER && parts->judged.judgement != WM_JUDGED_ALONE)
        return false;
    for (uint32_t i = 0; i < parts->n_input; i++)
        any |= (input[i].is_exact = wm_exact_each (input[i].type) > 1);
    for (uint32_t i = 0; i < parts->n_output; i++)
        any |= (output[i].is_exact = wm_exact_each (output[i].type) > 1);
    return any;
}

static wm_fault_t write_general (wm_onnx_t *onnx, wm_onnx_ports_t *how,
                                 const wm_import_choices_t *choices, const char *path,
                                 wm_model_parts_t *parts, wm_port_t *input, wm_port_t *output,
                                 wm_arena_t *arena, char why[480], wm_error_t *error)
{
    wm_error_t lack;
    char draft[PATH_MAX];
    const wm_backend_t *openvino = wm_backend_find (wm_device_engine ("openvino"), &lack);
    const bool exact = choices->exact && has_exact (onnx);
    wm_judge_how_t judging = { .whole = how->whole, .accept = choices->accept, .exact = exact };
    const bool any = openvino || wm_device_is_here ("onnxruntime", error);
    if (!openvino && onnx->graphdef)
        return wm_fault (error, WM_EHOST,
                         "%s: a frozen graph outside the family (%.120s) needs OpenVINO: %s",
                         onnx->path, why + strlen ("general engine: "), lack.text);
    wm_fault_t fault = onnx->graphdef ? WM_OK : wm_onnx_refuse_known (onnx, error);
    if (!fault)
        fault = wm_onnx_pack (onnx, NULL, 0, &parts->original, &parts->original_bytes, error);
    if (!fault)
        fault = wm_onnx_outputs (onnx, output, &parts->n_output, error);
    if (!fault)
        fault = find_shapes (onnx, how, openvino, parts, output, &judging, error);
    if (!fault)
        fault = check_row (onnx, choices, parts, error);
    if (fault)
        return fault;
    if (!any) {
        const size_t n = strlen (why);
        snprintf (why + n, 480 - n, "; no known answers: that engine was not there");
        return wm_model_write (path, parts, error);
    }
    if (openvino)
        count_madds (onnx, openvino, parts, why);
    if (snprintf (draft, sizeof draft, "%s.%ld.draft", path, (long) getpid ()) >= PATH_MAX)
        return wm_fault (error, WM_EHOST, "%s: the name is too long", path);
    fault = wm_model_write (draft, parts, error);
    if (!fault)
        fault = judge (onnx, &judging, draft, parts, why, error);
    if (!fault && exact && carry_exactly (parts, input, output))
        snprintf (why + strlen (why), 480 - strlen (why), "; types are carried exactly");
    if (!fault)
        fault = wm_model_write (draft, parts, error);
    if (!fault && answer (draft, onnx, parts, arena, why, error))
        fault = explain (onnx, error);
    unlink (draft);
    return fault ? fault : wm_model_write (path, parts, error);
}

/* Appends to `why` whether half precision, the GPU's fast one, can hold the network.  */
static void add_half (const wm_net_t *net, char why[480])
{
    wm_error_t error = { 0 };
    double limit;
    size_t n = strlen (why);
    if (wm_range_half (net, 0, &limit, &error))
        snprintf (why + n, 480 - n, "; not on a GPU at --precision fast: %s", error.text);
    else
        snprintf (why + n, 480 - n, "; half precision holds it for pixels within +-%g", limit);
}

/* ---- together -------------------------------------------------------------------------------- */

static wm_fault_t write_model (wm_onnx_t *onnx, const wm_import_choices_t *choices,
                               const uint8_t sha256[32], const char *path, char why[480],
                               wm_error_t *error)
{
    wm_port_t input[WM_MODEL_PORTS_MAX], output[WM_MODEL_PORTS_MAX];
    wm_net_t net;
    wm_arena_t arena = { 0 };
    wm_onnx_ports_t how = { .whole = choices->whole };
    wm_model_parts_t parts = {
        .why = why, .input = input, .output = output, .row_values = choices->row_values
    };
    memcpy (parts.sha256, sha256, sizeof parts.sha256);
    bool family = false;
    wm_fault_t fault = wm_onnx_inputs (onnx, &how, input, &parts.n_input, error);
    if (fault)
        return fault;
    if (choices->general || how.whole || how.free || how.other_type || parts.n_input > 1)
        snprintf (why, 480, "general engine: %s",
                  choices->general ? "as it was told to"
                  : how.whole      ? "it has no batch dimension"
                  : how.free       ? "an input has a free dimension"
                  : how.other_type ? "an input is not float32"
                                   : "several inputs; the EmTrkMichelId family has one");
    else
        fault = wm_family_find (onnx, &arena, input, how.fixed_batch, &net, output, &parts.n_output,
                                &family, why, error);
    if (family && !fault)
        fault = check_row (onnx, choices, &parts, error);
    if (family && !fault)
        add_half (&net, why);
    parts.kind = family ? WM_MODEL_FAMILY : WM_MODEL_GENERAL;
    parts.net = family ? &net : NULL;
    if (!fault)
        fault = family ? write_family (onnx->path, path, &parts, &arena, error)
                       : write_general (onnx, &how, choices, path, &parts, input, output, &arena,
                                        why, error);
    wm_arena_clear (&arena);
    return fault;
}

/* The file's digest; with choices, the digest of it and them. Parses it if that is needed.  */
static wm_fault_t identify (wm_onnx_t *onnx, const wm_import_choices_t *choices, uint8_t sha256[32],
                            wm_error_t *error)
{
    if (choices->exact && wm_onnx_parse (onnx, error))
        return error->fault;
    const bool exact = choices->exact && has_exact (onnx);
    memcpy (sha256, onnx->sha256, 32);
    if (!choices->outputs && !choices->whole && !choices->general && !choices->accept && !exact &&
        !choices->row_values)
        return WM_OK;
    char text[96];
    int n =
        snprintf (text, sizeof text, "whole %d general %d %s%s", choices->whole, choices->general,
                  choices->accept ? "accept 1 " : "", exact ? "exact 1 " : "");
    if (choices->row_values)
        snprintf (text + n, sizeof text - (size_t) n, "row %u ", choices->row_values);
    const char *outputs = choices->outputs ? choices->outputs : "";
    wm_digest_t *digest = wm_digest_new ();
    wm_digest_add (digest, onnx->sha256, 32);
    wm_digest_add (digest, text, strlen (text));
    wm_digest_add (digest, outputs, strlen (outputs));
    return wm_digest_finish (&digest, sha256, error);
}

wm_fault_t wm_import_original_open (wm_import_original_t *self, const char *path,
                                    const wm_import_choices_t *choices, const char *wmm_path,
                                    wm_error_t *error)
{
    self->choices = choices ? *choices : (wm_import_choices_t){ 0 };
    const wm_fault_t fault = wm_onnx_open (&self->onnx, path, wmm_path, error);
    self->alone = !self->onnx.model; /* only data in other files makes opening parse it */
    return fault ? fault : identify (&self->onnx, &self->choices, self->sha256, error);
}

wm_fault_t wm_import_original_write (wm_import_original_t *self, const char *wmm_path,
                                     char why[480], wm_error_t *error)
{
    wm_fault_t fault = wm_onnx_read (&self->onnx, self->choices.outputs, error);
    if (!fault)
        fault = wm_onnx_refuse (&self->onnx, error);
    return fault ? fault
                 : write_model (&self->onnx, &self->choices, self->sha256, wmm_path, why, error);
}

wm_fault_t wm_import_here (const char *path, const wm_import_choices_t *choices,
                           const char *wmm_path, char why[480], wm_error_t *error)
{
    wm_import_original_t original;
    why[0] = 0;
    wm_fault_t fault = wm_import_original_open (&original, path, choices, wmm_path, error);
    if (!fault)
        fault = wm_import_original_write (&original, wmm_path, why, error);
    wm_onnx_clear (&original.onnx);
    return fault;
}
