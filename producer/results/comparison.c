/* comparison.c - see comparison.h.  */
#include "producer/results/comparison.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double quantile[WM_COMPARISON_QUANTILES] = { 0.5, 0.9, 0.99, 0.999 };

/* ---- joining --------------------------------------------------------------------------------- */

static void only_in (wm_comparison_t *self, int which, const wm_scores_key_t *key)
{
    if (self->n_only[which] < WM_COMPARISON_NAMED)
        self->only[which][self->n_only[which]] = *key;
    self->n_only[which]++;
}

static wm_fault_t join (wm_comparison_t *self, wm_error_t *error)
{
    wm_scores_t *a = &self->a, *b = &self->b;
    const uint32_t most = a->n_row < b->n_row ? a->n_row : b->n_row;
    wm_scores_sort (a);
    wm_scores_sort (b);
    for (int k = 0; k < 2; k++)
        if (!(self->pair[k] = malloc ((most + 1ul) * sizeof *self->pair[k])))
            return wm_fault (error, WM_EHOST, "out of memory for %u rows", most);
    for (uint32_t i = 0, j = 0; i < a->n_row || j < b->n_row;) {
        const int order = i == a->n_row   ? 1
                          : j == b->n_row ? -1
                                          : wm_scores_order (&a->key[i], &b->key[j]);
        if (order) {
            only_in (self, order > 0, order < 0 ? &a->key[i] : &b->key[j]);
            *(order < 0 ? &i : &j) += 1;
            continue;
        }
        const uint32_t at_a = a->key[i++].at, at_b = b->key[j++].at;
        const uint8_t of_a = a->status[at_a], of_b = b->status[at_b];
        self->n_joined++;
        self->n_status += of_a != of_b;
        self->n_status_pair[of_a][of_b]++;
        if (of_a == WM_HIT_SCORED && of_b == WM_HIT_SCORED) {
            self->pair[0][self->n_scored] = i - 1; /* by key, which names the worst */
            self->pair[1][self->n_scored++] = at_b;
        }
    }
    return WM_OK;
}

/* ---- differences ----------------------------------------------------------------------------- */

/* Sorts floats that are not negative, as whole numbers: their bits are in the same order.  */
static void sort (uint32_t *value, uint32_t *space, uint64_t n)
{
    static uint64_t count[1u << 11];
    for (uint32_t shift = 0; shift < 32; shift += 11) {
        memset (count, 0, sizeof count);
        for (uint64_t i = 0; i < n; i++)
            count[value[i] >> shift & 2047]++;
        uint64_t at = 0;
        for (uint32_t k = 0; k < 2048; k++) {
            const uint64_t here = count[k];
            count[k] = at;
            at += here;
        }
        for (uint64_t i = 0; i < n; i++)
            space[count[value[i] >> shift & 2047]++] = value[i];
        uint32_t *other = value;
        value = space, space = other;
    }
    memcpy (space, value, n * sizeof *value); /* three passes end in the other one */
}

static float as_float (uint32_t bits)
{
    float value;
    memcpy (&value, &bits, sizeof value);
    return value;
}

static void label_compare (wm_comparison_t *self, uint32_t k, uint32_t *bits, uint32_t *space)
{
    wm_comparison_label_t *label = &self->label[k];
    const double *a = self->a.score + (size_t) k * self->a.n_row_max,
                 *b = self->b.score + (size_t) k * self->b.n_row_max;
    double sum = 0;
    for (uint64_t i = 0; i < self->n_scored; i++) {
        const wm_scores_key_t *key = &self->a.key[self->pair[0][i]];
        const double d = wm_scores_difference (a[key->at], b[self->pair[1][i]]);
        const float rounded = (float) d; /* quantiles are printed with three digits, or nine */
        memcpy (&bits[i], &rounded, sizeof rounded);
        sum += d;
        label->n_over += d > self->tolerance;
        if (!i || d > label->largest) {
            label->largest = d;
            label->worst = *key;
            label->score_a = a[key->at];
            label->score_b = b[self->pair[1][i]];
        }
    }
    if (!self->n_scored)
        return;
    label->mean = sum / (double) self->n_scored;
    sort (bits, space, self->n_scored);
    for (int q = 0; q < WM_COMPARISON_QUANTILES; q++) {
        const uint64_t rank = (uint64_t) ceil (quantile[q] * (double) self->n_scored);
        label->quantile[q] = (double) as_float (bits[rank ? rank - 1 : 0]);
    }
}

static wm_fault_t labels_compare (wm_comparison_t *self, wm_error_t *error)
{
    uint32_t *bits = malloc ((self->n_scored + 1) * sizeof *bits),
             *space = malloc ((self->n_scored + 1) * sizeof *space);
    wm_fault_t fault = WM_OK;
    if (!bits || !space)
        fault = wm_fault (error, WM_EHOST, "out of memory for %" PRIu64 " rows", self->n_scored);
    for (uint32_t k = 0; k < self->a.n_label && !fault; k++)
        label_compare (self, k, bits, space);
    free (bits);
    free (space);
    return fault;
}

bool wm_comparison_is_same (const wm_comparison_t *self)
{
    uint64_t n_over = 0;
    for (uint32_t k = 0; k < self->a.n_label; k++)
        n_over += self->label[k].n_over;
    return !n_over && !self->n_gone && !self->n_only[0] && !self->n_only[1] && !self->n_status;
}

/* ---- the files ------------------------------------------------------------------------------- */

static void missing (void *arg, const char *path, const char *label)
{
    wm_comparison_t *self = arg;
    snprintf (self->gone[self->n_gone++], sizeof *self->gone, "%s", label);
    fprintf (stderr, "wiremill compare: %s has no score '%s': not compared\n", path, label);
}

/* Both get the labels that both have; which only one has is reported.  */
static wm_fault_t labels_choose (wm_comparison_t *self, const char *a, const char *b,
                                 const char *table, wm_error_t *error)
{
    wm_scores_t *from = &self->a, *other = &self->b;
    const char *path = b;
    wm_fault_t fault = wm_scores_labels (from, a, error);
    if (!fault && !from->n_label) {
        fault = wm_scores_labels (from, b, error);
        path = a;
    }
    if (fault)
        return fault;
    if (!from->n_label)
        return wm_fault (error, WM_EBATCH,
                         "neither %.200s nor %.200s is an output of wiremill, which would name its "
                         "scores",
                         a, b);
    if (path == b && (fault = wm_scores_labels (other, b, error)))
        return fault;
    wm_scores_t both = *from;
    if ((fault = wm_scores_keep (&both, path, table, missing, self, error)) ||
        (other->n_label && (fault = wm_scores_keep (other, a, table, missing, self, error))))
        return fault;
    *from = both;
    other->n_label = from->n_label;
    memcpy (other->label, from->label, sizeof other->label);
    return WM_OK;
}

wm_fault_t wm_comparison_make (wm_comparison_t *self, const char *const *path, uint32_t n,
                               const char *table, wm_error_t *error)
{
    wm_fault_t fault = labels_choose (self, path[0], path[n - 1], table, error);
    if (!fault)
        fault = wm_scores_read (&self->a, path, n - 1, table, error);
    if (!fault)
        fault = wm_scores_read (&self->b, path + n - 1, 1, table, error);
    if (!fault)
        fault = join (self, error);
    return fault ? fault : labels_compare (self, error);
}

void wm_comparison_clear (wm_comparison_t *self)
{
    const double tolerance = self->tolerance;
    wm_scores_clear (&self->a);
    wm_scores_clear (&self->b);
    free (self->pair[0]);
    free (self->pair[1]);
    memset (self, 0, sizeof *self);
    self->tolerance = tolerance;
}

double wm_comparison_score_a (const wm_comparison_t *self, uint32_t k, uint64_t i)
{
    return self->a.score[(size_t) k * self->a.n_row_max + self->a.key[self->pair[0][i]].at];
}

double wm_comparison_score_b (const wm_comparison_t *self, uint32_t k, uint64_t i)
{
    return self->b.score[(size_t) k * self->b.n_row_max + self->pair[1][i]];
}

const char *wm_comparison_status (uint8_t status)
{
    return status == WM_HIT_NONFINITE ? "not finite" : wm_hit_status_text (status);
}

void wm_comparison_print_statuses (const uint64_t pair[WM_HIT_STATUSES][WM_HIT_STATUSES])
{
    for (uint8_t a = 0; a < WM_HIT_STATUSES; a++)
        for (uint8_t b = 0; b < WM_HIT_STATUSES; b++)
            if (a != b && pair[a][b])
                printf ("%" PRIu64 " with another status: %s in A, %s in B\n", pair[a][b],
                        wm_comparison_status (a), wm_comparison_status (b));
}

void wm_comparison_print_number (const char *name, double value, int precision)
{
    if (isfinite (value))
        printf (", \"%s\": %.*g", name, precision, value);
    else
        printf (", \"%s\": null", name);
}

int wm_comparison_digits (double score)
{
    return (double) (float) score == score ? 9 : 17;
}
