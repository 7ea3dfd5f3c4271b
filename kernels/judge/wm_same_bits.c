/* wm_same_bits.c - see wm_same_bits.h.  */
#include "kernels/judge/wm_same_bits.h"
#include "kernels/model/wm_seed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PATCHES 6u /* known ones of the model, and drawn ones */
#define KNOWN_MAX 2u
#define SHOW_LEAST 4u /* of them must show that they round */

/* Values in [-s, s), s 1, 1/16, 16 in turn.  */
static void draw (float *patch, size_t n, uint32_t turn)
{
    const float most[] = { 1, 1.F / 16, 16 };
    uint64_t seed = turn + 1;
    for (size_t i = 0; i < n; i++)
        patch[i] = wm_seed_unit (&seed) * most[turn % 3];
}

/* Whether a score has a fraction, and is another than that of the patch before.  */
static bool shows (const float *scores, const float *before, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (isfinite (scores[k]) && scores[k] != rintf (scores[k]) && scores[k] != before[k])
            return true;
    return false;
}

bool wm_same_bits (const wm_model_t *model, wm_same_bits_fn *pinned, wm_same_bits_fn *other,
                   void *engine)
{
    const float *inputs, *answers;
    const size_t n_value = wm_model_n_value (model), n_output = wm_model_n_output (model);
    uint32_t known = wm_model_known (model, &inputs, &answers), n_shown = 0;
    float *patch = malloc (n_value * sizeof *patch), *row = calloc (3 * n_output, sizeof *row);
    bool same = patch && row;
    known = known < KNOWN_MAX ? known : KNOWN_MAX;
    for (uint32_t i = 0; i < PATCHES && same; i++) {
        float *want = row + (i % 2) * n_output, *before = row + (1 - i % 2) * n_output,
              *got = row + 2 * n_output;
        uint8_t status = WM_HIT_SCORED, again = WM_HIT_SCORED;
        const wm_batch_t batch = {
            .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = (uint32_t) n_value, .patch = patch
        };
        if (i < known)
            memcpy (patch, inputs + i * n_value, n_value * sizeof *patch);
        else
            draw (patch, n_value, i);
        same = !pinned (engine, &batch, &status, want, NULL);
        for (int turn = 0; turn < 2 && same; turn++)
            same = !other (engine, &batch, &again, got, NULL) && again == status &&
                   (status != WM_HIT_SCORED || memcmp (got, want, n_output * sizeof *got) == 0);
        n_shown += same && status == WM_HIT_SCORED && shows (want, before, n_output);
    }
    free (patch);
    free (row);
    return same && n_shown >= SHOW_LEAST;
}
