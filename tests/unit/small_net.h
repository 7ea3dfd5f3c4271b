/* small_net.h - one small network of the family, by definition, and the files a test imports.

   8 x 10 patch, 3x3 convolution with 2 filters and ReLU, a dense layer with tanh, a head of three
   with softmax and one of one with sigmoid. All weights are multiples of 1/64, exact in every
   number format used.  */
#ifndef SMALL_NET_H
#define SMALL_NET_H

#include "kernels/import/wm_import.h"
#include "kernels/model/wm_model.h"
#include "tests/unit/unit.h"
#include "tests/unit/without_engines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { H = 8, W = 10, K = 3, F = 2, R = H - K + 1, C = W - K + 1, FLAT = R * C * F, D = 5 };

/* A weight: a multiple of 1/64 in (-1, 1), by layer and index; one is so small that it is a
   subnormal half.  */
static double weight (unsigned layer, unsigned index)
{
    if (layer == 5 && index == 0)
        return 0x1p-18;
    uint64_t z = (layer * 1000003u + index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9u;
    return ((double) (z >> 40 & 127) - 64) / 64 + (z & 1 ? 0 : 1.0 / 64);
}

static double conv_weight (unsigned f, unsigned y, unsigned x)
{
    return weight (0, (f * K + y) * K + x) / 4;
}

/* k: index of the flattened convolution in (row, column, filter) order.  */
static double dense_weight (unsigned k, unsigned o)
{
    return weight (2, k * D + o) / 4;
}

/* The dense layers as files have them, (in, out); `filters_first`: the first reads the flattened
   convolution in (filter, row, column) order.  */
typedef struct {
    float fc[FLAT * D], fc_bias[D], cls[D * 3], cls_bias[3], mic[D], mic_bias[1];
} denses_t;

static inline denses_t denses (int filters_first)
{
    denses_t d = { .mic_bias = { (float) weight (7, 0) } };
    for (unsigned k = 0; k < FLAT; k++) {
        const unsigned f = k % F, place = k / F;
        for (unsigned o = 0; o < D; o++)
            d.fc[(filters_first ? f * R * C + place : k) * D + o] = (float) dense_weight (k, o);
    }
    for (unsigned k = 0; k < D; k++) {
        d.fc_bias[k] = (float) weight (3, k);
        d.mic[k] = (float) weight (6, k);
        for (unsigned o = 0; o < 3; o++)
            d.cls[k * 3 + o] = (float) weight (4, k * 3 + o);
    }
    for (unsigned o = 0; o < 3; o++)
        d.cls_bias[o] = (float) weight (5, o);
    return d;
}

/* What is computed of an element of a layer, in channel c (of the dense layer, output c).  */
typedef double bend_t (double x, unsigned c);

static inline double as_relu (double x, unsigned c)
{
    (void) c;
    return fmax (x, 0);
}
static inline double as_tanh (double x, unsigned c)
{
    (void) c;
    return tanh (x);
}

/* The scores with other activations of the convolution and of the dense layer.  */
static inline void expected_with (const float *patch, bend_t *of_conv, bend_t *of_dense,
                                  double score[4])
{
    double conv[FLAT], dense[D];
    for (unsigned r = 0; r < R; r++)
        for (unsigned c = 0; c < C; c++)
            for (unsigned f = 0; f < F; f++) {
                double sum = weight (1, f);
                for (unsigned y = 0; y < K; y++)
                    for (unsigned x = 0; x < K; x++)
                        sum += conv_weight (f, y, x) * (double) patch[(r + y) * W + c + x];
                conv[(r * C + c) * F + f] = of_conv (sum, f);
            }
    for (unsigned o = 0; o < D; o++) {
        dense[o] = weight (3, o);
        for (unsigned k = 0; k < FLAT; k++)
            dense[o] += conv[k] * dense_weight (k, o);
        dense[o] = of_dense (dense[o], o);
    }
    double sum = 0;
    for (unsigned o = 0; o < 4; o++) {
        score[o] = o < 3 ? weight (5, o) : weight (7, 0);
        for (unsigned k = 0; k < D; k++)
            score[o] += dense[k] * (o < 3 ? weight (4, k * 3 + o) : weight (6, k));
        score[o] = o < 3 ? exp (score[o]) : 1 / (1 + exp (-score[o]));
        sum += o < 3 ? score[o] : 0;
    }
    for (unsigned o = 0; o < 3; o++)
        score[o] /= sum;
}

static inline void expected (const float *patch, double score[4])
{
    expected_with (patch, as_relu, as_tanh, score);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char folder[] = "/tmp/wm-import-XXXXXX", model_path[64], wmm_path[64];

static inline void save (const uint8_t *bytes, size_t size)
{
    FILE *file = fopen (model_path, "wb");
    assert_non_null (file);
    assert_int_equal (fwrite (bytes, 1, size, file), size);
    fclose (file);
}

/* The general engine is not there, unless a test asks for it: most look at the importer alone.  */
static int make_folder (void **state)
{
    hide_engines ();
    if (!mkdtemp (folder))
        return -1;
    snprintf (model_path, sizeof model_path, "%s/model", folder);
    snprintf (wmm_path, sizeof wmm_path, "%s/m.wmm", folder);
    return 0;
}

static int remove_folder (void **state)
{
    unlink (model_path);
    unlink (wmm_path);
    return rmdir (folder);
}

/* Scores by definition of every known answer of a model of four scores, which it must hold.  */
static inline void check_known (const wm_model_t *model, double tolerance, const char *label)
{
    const float *patch, *score;
    uint32_t n = wm_model_known (model, &patch, &score);
    assert_true (n >= 4);
    for (uint32_t i = 0; i < n * 4; i++) {
        double want[4];
        expected (patch + i / 4 * H * W, want);
        if (!(fabs (want[i % 4] - (double) score[i]) < tolerance))
            fail_msg ("%s: score %u is %.9g, not %.9g", label, i, (double) score[i], want[i % 4]);
    }
}

/* What lies at model_path imports as the family, with the scores that `expected` computes.  */
static inline void check_is_family (const char *label, int n_port)
{
    char why[480];
    wm_error_t error = { 0 };
    if (wm_import (model_path, NULL, wmm_path, why, &error))
        fail_msg ("%s: %s", label, error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    if (!model || !wm_model_net (model))
        fail_msg ("%s: %s", label, model ? why : error.text);
    assert_int_equal (wm_model_n_value (model), H * W);
    assert_int_equal (wm_model_n_output (model), 4);
    assert_int_equal (wm_model_n_output_port (model), n_port);
    check_known (model, 1e-7, label);
    wm_model_destroy (&model);
}

/* What lies at model_path is refused, in words that hold `word`; nothing is written.  */
static inline void check_refused (const char *word)
{
    char why[480];
    wm_error_t error = { 0 };
    unlink (wmm_path);
    wm_fault_t fault = wm_import (model_path, NULL, wmm_path, why, &error);
    if (fault != WM_EBATCH || !strstr (error.text, word) || !strstr (error.text, model_path))
        fail_msg ("fault %d, no '%s' in: %s", fault, word, error.text);
    assert_int_not_equal (access (wmm_path, F_OK), 0);
}

#endif
