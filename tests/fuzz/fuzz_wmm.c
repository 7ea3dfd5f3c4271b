/* fuzz_wmm.c - imported models (.wmm), as a worker gets them from a broker. The digest is put right
   before the model is opened, so that the checks of the content are tried too.  */
#include "kernels/wm_import.h"
#include "kernels/wm_model.h"
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

static void use (const wm_model_t *model)
{
    const float *inputs, *scores;
    const uint32_t n = wm_model_known (model, &inputs, &scores);
    read_all (inputs, (size_t) n * wm_model_n_value (model));
    read_all (scores, (size_t) n * wm_model_n_output (model));
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
    remove_folder (NULL);
}
