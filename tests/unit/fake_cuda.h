/* fake_cuda.h - an engine like wm_cuda.so's, compiled by the tests: the sparse one, now and then
   wrong.

   One hit of WM_FAKE_CUDA is off by 0.1; 0 or unset: all are right. With WM_FAKE_STRICT it signs as
   strict fp32 of the CPU, and is off by the last bit. A model that is not of the
   family is replaced by sums of the patch.  */
#include "kernels/wm_backend_private.h"

#include <stdlib.h>
#include <string.h>

static uint32_t width; /* of a row of scores */
static int sums;       /* an engine that adds up */

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    width = wm_model_n_output (model);
    strcpy (signature, "cuda/sums");
    if (wm_model_kind (model) != WM_MODEL_FAMILY)
        return &sums;
    void *engine = wm_backend_sparse.open (model, spec, config, signature, error);
    strcpy (signature, getenv ("WM_FAKE_STRICT") ? WM_SIGNATURE_FP32 : "cuda/fake/fp16/v0");
    return engine;
}

static void engine_close (void *engine)
{
    if (engine != &sums)
        wm_backend_sparse.close (engine);
}

static wm_fault_t add_up (const wm_batch_t *batch, float *scores)
{
    for (uint32_t i = 0; i < batch->n_hit * width; i++) {
        scores[i] = 0;
        for (uint32_t k = i % width; k < batch->patch_values; k += width)
            scores[i] += batch->patch[(size_t) (i / width) * batch->patch_values + k];
    }
    return WM_OK;
}

static wm_fault_t engine_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    static uint64_t seed = 1;
    const char *set = getenv ("WM_FAKE_CUDA");
    const uint32_t one_of = set ? (uint32_t) atoi (set) : 0;
    wm_fault_t fault =
        engine == &sums ? add_up (batch, scores)
                        : wm_backend_sparse.score (engine, batch, status, scores, progress, error);
    for (uint32_t i = 0; !fault && one_of && i < batch->n_hit; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if ((seed >> 33) % one_of == 0)
            scores[i * width] = getenv ("WM_FAKE_STRICT") ? nextafterf (scores[i * width], 1)
                                : scores[i * width] > 0.5f ? scores[i * width] - 0.1f
                                                           : scores[i * width] + 0.1f;
    }
    return fault;
}

const wm_backend_t wm_backend_cuda = { engine_open, engine_close, engine_score };
