/* fuzz_wmm.c - imported models (.wmm), as a worker gets them from a broker. The digest is put right
   before the model is opened, so that the checks of the content are tried too.  */
#include "kernels/import/wm_import.h"
#include "kernels/model/wm_model.h"
#include "tests/unit/family_graph.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const size_t fuzz_bytes_max = 1u << 20;

static float sum; /* so that reads are not left out */

static void read_all (const float *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum += value[i];
}

/* Known answers that are ragged rows.  */
static void use_rows (const wm_port_t *port, uint32_t n_port, const float *row, uint32_t n)
{
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t length = wm_ragged_length (row, WM_RAGGED_VALUES_MAX);
        FUZZ_CHECK (!wm_model_row (port, n_port, row, length, tensor));
        for (uint32_t p = 0; p < n_port; p++)
            FUZZ_CHECK (tensor[p].at + tensor[p].n_value <= length);
        read_all (row, length);
        row += length;
    }
}

static void use (const wm_model_t *model)
{
    const float *inputs, *scores;
    const uint32_t n = wm_model_known (model, &inputs, &scores);
    if (wm_model_is_ragged (model, NULL)) {
        use_rows (wm_model_input (model, 0), wm_model_n_input (model), inputs, n);
        use_rows (wm_model_output (model, 0), wm_model_n_output_port (model), scores, n);
    } else {
        read_all (inputs, (size_t) n * wm_model_n_value (model));
        read_all (scores, (size_t) n * wm_model_n_output (model));
    }
    size_t bytes;
    const uint8_t *original = wm_model_original (model, &bytes);
    for (size_t i = 0; i < bytes; i++)
        sum += original[i];
    FUZZ_CHECK (strlen (wm_model_why (model)) < 480);
    wm_model_madds (model);
    const wm_net_t *net = wm_model_net (model);
    if (!net)
        return;
    for (uint32_t i = 0; i < net->n_conv; i++) {
        const wm_conv_t *conv = &net->conv[i];
        read_all (conv->weight, (size_t) conv->kh * conv->kw * conv->c_in * conv->c_out);
        read_all (conv->bias, conv->c_out);
    }
    for (uint32_t i = 0; i < net->n_dense; i++) {
        const wm_dense_t *dense = &net->dense[i];
        FUZZ_CHECK (dense->parent < (int32_t) i);
        read_all (dense->weight, (size_t) dense->n_in * dense->n_out);
        read_all (dense->bias, dense->n_out);
    }
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static uint8_t bytes[FUZZ_INPUT_BYTES_MAX];
    wm_error_t error;
    if (size < WM_MODEL_HEAD_BYTES || size > sizeof bytes)
        return 0;
    memcpy (bytes, data, size);
    const uint64_t whole = size;
    XXH128_canonical_t digest;
    memcpy (bytes + 16, &whole, sizeof whole);
    XXH128_canonicalFromHash (
        &digest, XXH3_128bits (bytes + WM_MODEL_HEAD_BYTES, size - WM_MODEL_HEAD_BYTES));
    memcpy (bytes + 24, digest.digest, 16);
    wm_model_t *model = wm_model_open (fuzz_file (bytes, size), &error);
    if (model)
        use (model);
    wm_model_destroy (&model);
    return 0;
}

/* A model with free dimensions, and known rows of two lengths.  */
static void seed_ragged (void)
{
    const wm_port_t input[2] = { { .name = "x", .n_dim = 2, .dim = { 0, 3 } },
                                 { .name = "i", .n_dim = 1, .type = 7, .dim = { 0 } } };
    const wm_port_t output = { .name = "y", .n_dim = 1, .dim = { 0 } };
    float inputs[64] = { 0 }, scores[64] = { 0 };
    size_t size;
    wm_error_t error;
    wm_model_parts_t parts = { .kind = WM_MODEL_GENERAL,
                               .why = "general engine: an input has a free dimension",
                               .n_input = 2,
                               .n_output = 1,
                               .input = input,
                               .output = &output,
                               .original = "a graph",
                               .original_bytes = 7,
                               .n_known = 2,
                               .known_inputs = inputs,
                               .known_scores = scores };
    for (uint32_t i = 0; i < 2; i++) {
        wm_ragged_t in[2] = { { .n_dim = 2, .dim = { 1 + i, 3 } }, { .n_dim = 1, .dim = { 4 } } },
                    out = { .n_dim = 1, .dim = { 2 * i } };
        parts.known_values[0] += wm_ragged_begin (inputs + parts.known_values[0], 32, 2, in);
        parts.known_values[1] += wm_ragged_begin (scores + parts.known_values[1], 32, 1, &out);
    }
    FUZZ_CHECK (!wm_model_write (wmm_path, &parts, &error));
    uint8_t *bytes = fuzz_read (wmm_path, &size);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    FUZZ_CHECK (model && wm_model_is_ragged (model, NULL));
    wm_model_destroy (&model);
    fuzz_seed (bytes, size);
    free (bytes);
}

void fuzz_seeds (void)
{
    static const unsigned ways[] = { 0, 3, 64 };
    make_folder (NULL);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        graph_t g = family (ways[i]);
        char why[480];
        wm_error_t error;
        size_t size;
        save_graph (&g);
        FUZZ_CHECK (!wm_import (model_path, NULL, wmm_path, why, &error));
        uint8_t *bytes = fuzz_read (wmm_path, &size);
        fuzz_seed (bytes, size);
        free (bytes);
    }
    seed_ragged ();
    remove_folder (NULL);
}
