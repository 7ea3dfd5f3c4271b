/* wm_import.c - makes a .wmm from a model's file.

   Either the graph is of the EmTrkMichelId family, and its network is stored with known answers in
   double precision; or the file is stored as it is for the general engine, without known answers:
   those would be the general engine's own, and no engine runs here.  */
#include "kernels/wm_import.h"
#include "kernels/wm_family.h"
#include "kernels/wm_range.h"
#include "kernels/wm_reference.h"
#include "kernels/wm_seed.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN 8u

static double draw_below (uint64_t *state, double limit)
{
    return (double) (wm_seed_next (state) >> 11) * 0x1p-53 * limit;
}

/* A straight track: along the rows at a slope, two or three bins wide, up to 15 high.  */
static void draw_track (uint64_t *state, const wm_net_t *net, float *patch)
{
    double column = draw_below (state, net->width), slope = draw_below (state, 3) - 1.5;
    uint32_t first = (uint32_t) draw_below (state, net->height),
             length = (uint32_t) draw_below (state, net->height) + 1;
    for (uint32_t row = first; row < net->height && row < first + length; row++) {
        double at = column + slope * (row - first);
        for (int side = -1; side <= 1; side++) {
            double x = at + side, height = draw_below (state, side ? 6 : 15);
            if (x < 0 || x >= net->width)
                continue;
            float *cell = patch + ((size_t) row * net->width + (uint32_t) x) * net->channel;
            for (uint32_t c = 0; c < net->channel; c++)
                cell[c] = (float) height;
        }
    }
}

/* Patches like those of a detector: mostly zero, a few tracks, little noise.  */
static void draw_patch (uint64_t *state, const wm_net_t *net, float *patch)
{
    size_t n = (size_t) net->height * net->width * net->channel;
    for (uint64_t tracks = 1 + wm_seed_next (state) % 4; tracks > 0; tracks--)
        draw_track (state, net, patch);
    for (size_t i = 0; i < n / 50; i++)
        patch[wm_seed_next (state) % n] = (float) (draw_below (state, 2) - 1);
}

static wm_fault_t write_family (const char *path, wm_model_parts_t *parts, wm_arena_t *arena,
                                wm_error_t *error)
{
    const wm_net_t *net = parts->net;
    uint32_t n_output = 0;
    for (uint32_t i = 0; i < parts->n_output; i++)
        n_output += parts->output[i].n_value;
    uint32_t n_value = parts->input[0].n_value;
    float *inputs = wm_arena_take (arena, (uint64_t) KNOWN * n_value, sizeof *inputs);
    float *scores = wm_arena_take (arena, (uint64_t) KNOWN * n_output, sizeof *scores);
    wm_reference_t *judge = wm_reference_new (net);
    if (!inputs || !scores || !judge) {
        wm_reference_destroy (&judge);
        return wm_fault (error, WM_EHOST, "%s: no memory for its known answers", path);
    }
    uint64_t state = 1;
    for (uint32_t i = 0; i < KNOWN; i++)
        draw_patch (&state, net, inputs + (size_t) i * n_value);
    wm_reference_run (judge, inputs, KNOWN, scores, n_output);
    wm_reference_destroy (&judge);
    parts->n_known = KNOWN;
    parts->known_inputs = inputs;
    parts->known_scores = scores;
    return wm_model_write (path, parts, error);
}

/* One file where there were several.  */
static wm_fault_t gather (const wm_onnx_t *onnx, wm_arena_t *arena, wm_model_parts_t *parts,
                          wm_error_t *error)
{
    parts->original_bytes = onnx__model_proto__get_packed_size (onnx->model);
    uint8_t *bytes = wm_arena_take (arena, parts->original_bytes, 1);
    if (!bytes)
        return wm_fault (error, WM_EHOST, "%s: no memory to put it in one file", onnx->path);
    onnx__model_proto__pack (onnx->model, bytes);
    parts->original = bytes;
    return WM_OK;
}

/* What half precision, the GPU's fast one, is good for.  */
static void say_half (const wm_net_t *net, char why[480])
{
    wm_error_t error = { 0 };
    double limit;
    size_t n = strlen (why);
    if (wm_range_half (net, 0, &limit, &error))
        snprintf (why + n, 480 - n, "; not on a GPU at --precision fast: %s", error.text);
    else
        snprintf (why + n, 480 - n, "; half precision holds it for pixels within +-%g", limit);
}

static wm_fault_t write_model (const wm_onnx_t *onnx, wm_arena_t *arena, const char *path,
                               char why[480], wm_error_t *error)
{
    wm_port_t input[WM_MODEL_PORTS_MAX], output[WM_MODEL_PORTS_MAX];
    wm_net_t net;
    wm_model_parts_t parts = { .why = why, .input = input, .output = output };
    memcpy (parts.sha256, onnx->sha256, sizeof parts.sha256);
    int fixed_batch, family = 0;
    wm_fault_t fault = wm_onnx_inputs (onnx, input, &parts.n_input, &fixed_batch, error);
    if (fault)
        return fault;
    if (parts.n_input == 1)
        fault = wm_family_find (onnx, arena, input, fixed_batch, &net, output, &parts.n_output,
                                &family, why, error);
    else
        snprintf (why, 480, "general engine: %u inputs; the EmTrkMichelId family has one",
                  parts.n_input);
    if (fault)
        return fault;
    if (family) {
        say_half (&net, why);
        parts.kind = WM_MODEL_FAMILY;
        parts.net = &net;
        return write_family (path, &parts, arena, error);
    }
    parts.kind = WM_MODEL_GENERAL;
    parts.original = onnx->bytes;
    parts.original_bytes = onnx->size;
    fault = wm_onnx_outputs (onnx, output, &parts.n_output, error);
    if (!fault && onnx->gathered)
        fault = gather (onnx, arena, &parts, error);
    return fault ? fault : wm_model_write (path, &parts, error);
}

wm_fault_t wm_import_sha256 (const char *path, char hex[65], wm_error_t *error)
{
    wm_onnx_t onnx;
    wm_fault_t fault = wm_onnx_read (&onnx, path, error);
    if (!fault)
        sodium_bin2hex (hex, 65, onnx.sha256, sizeof onnx.sha256);
    wm_onnx_clear (&onnx);
    return fault;
}

wm_fault_t wm_import (const char *path, const char *wmm_path, char why[480], wm_error_t *error)
{
    wm_onnx_t onnx;
    wm_arena_t arena = { 0 };
    why[0] = 0;
    wm_fault_t fault = wm_onnx_read (&onnx, path, error);
    if (!fault)
        fault = write_model (&onnx, &arena, wmm_path, why, error);
    wm_arena_clear (&arena);
    wm_onnx_clear (&onnx);
    return fault;
}
