/* compare.c - `wiremill-producer compare`: two files of scores, hit by hit.

   Rows are joined by run, subrun, event and hit_id; where several rows of a file have one key, the
   first is that of the other file's first, and so on. A score's difference is |a - b|, relative
   above 1, as `verify` has it. Nothing is known of who is right.  */
#include "producer/verbs.h"

#include "producer/pictures/compare_images.h"
#include "producer/files/wm_scores.h"
#include "producer/pictures/wm_render_process.h"
#include "producer/results/compare_page.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_log.h"
#include "schema/wm_batch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "tolerance", .value = "X", .fallback = "1e-5", .real_most = INFINITY,
     .task = "how", .help = "scores may differ by so much, relative above 1; 0: not at all"},
    {.name = "table", .value = "GROUP",
     .help = "the scores in a file that is no output of wiremill (default: emtrkmichel_table)"},
    {.name = "json", .help = "the result as JSON, schema wiremill-compare-1"},
    {.name = "page", .value = "FILE", .path = WM_PATH_WRITTEN, .writes = &wm_made_comparison,
     .help = "also write one HTML page with tables and pictures, to look at, print and sign"},
    {.name = "note", .value = "TEXT", .help = "a sentence to put on that page"},
    WM_OPTION_FORCE,
    {.name = NULL},
};

static int compare_main (const wm_args_t *args);
const wm_verb_t wm_verb_compare = {
    .name = "compare", .task = "files", .rest = "A... B",
    .summary = "compare the scores of two outputs, hit by hit",
    .text = "  wiremill compare out/events.scores.h5 other/events.scores.h5\n"
            "  wiremill compare out/*.scores.h5 larsoft.h5 --table emtrkmichel_table\n"
            "  wiremill compare out/events.scores.h5 larsoft.h5 --page larsoft.html\n\n"
            "Joins rows by run, subrun, event and hit_id. The last file is compared with those\n"
            "before it together; it may be a table in numl's form that others wrote, a column for\n"
            "each label (`wiremill help outputs`). Images (result: image) of two outputs are\n"
            "compared pixel by pixel. Exit 0: the same hits, labels and statuses, all scores\n"
            "within the tolerance; 1: not so; 5: a file is damaged or of another kind.\n",
    .options = options, .run = compare_main };
/* clang-format on */

#define STATUSES (WM_HIT_STATUSES)
#define NAMED_MAX 3 /* hits of one file only that are named */

static const double quantile[] = { 0.5, 0.9, 0.99, 0.999 };
enum { QUANTILES = sizeof quantile / sizeof *quantile };

typedef struct {
    double mean, largest, at[QUANTILES];
    uint64_t n_over;         /* hits that differ by more than the tolerance */
    wm_scores_key_t worst_a; /* the hit of the largest; */
    double score_a, score_b;
} label_t;

typedef struct {
    wm_scores_t a, b;
    double tolerance;
    uint64_t n_joined, n_scored; /* n_scored: in both */
    uint64_t n_only[2];
    wm_scores_key_t only[2][NAMED_MAX];
    uint64_t n_status, n_status_pair[STATUSES][STATUSES];
    uint32_t *pair[2]; /* (n_scored) places of hits that both scored */
    label_t label[WM_SCORES_LABELS_MAX];
    uint32_t n_gone; /* labels that only one file has */
    char gone[2 * WM_SCORES_LABELS_MAX][48];
} compare_t;

/* ---- joining --------------------------------------------------------------------------------- */

static void only_in (compare_t *self, int which, const wm_scores_key_t *key)
{
    if (self->n_only[which] < NAMED_MAX)
        self->only[which][self->n_only[which]] = *key;
    self->n_only[which]++;
}

static wm_fault_t join (compare_t *self, wm_error_t *error)
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

static void label_compare (compare_t *self, uint32_t k, uint32_t *bits, uint32_t *space)
{
    label_t *label = &self->label[k];
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
            label->worst_a = *key;
            label->score_a = a[key->at];
            label->score_b = b[self->pair[1][i]];
        }
    }
    if (!self->n_scored)
        return;
    label->mean = sum / (double) self->n_scored;
    sort (bits, space, self->n_scored);
    for (int q = 0; q < QUANTILES; q++) {
        const uint64_t rank = (uint64_t) ceil (quantile[q] * (double) self->n_scored);
        label->at[q] = (double) as_float (bits[rank ? rank - 1 : 0]);
    }
}

static wm_fault_t labels_compare (compare_t *self, wm_error_t *error)
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

static bool is_same (const compare_t *self)
{
    uint64_t n_over = 0;
    for (uint32_t k = 0; k < self->a.n_label; k++)
        n_over += self->label[k].n_over;
    return !n_over && !self->n_gone && !self->n_only[0] && !self->n_only[1] && !self->n_status;
}

/* ---- the files ------------------------------------------------------------------------------- */

static void missing (void *arg, const char *path, const char *label)
{
    compare_t *self = arg;
    snprintf (self->gone[self->n_gone++], sizeof *self->gone, "%s", label);
    fprintf (stderr, "wiremill compare: %s has no score '%s': not compared\n", path, label);
}

/* Both get the labels that both have; which only one has is reported.  */
static wm_fault_t labels_choose (compare_t *self, const char *a, const char *b, const char *table,
                                 wm_error_t *error)
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
                         "neither %.200s nor %.200s is an output of wiremill, which tells what the "
                         "scores are called",
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

static wm_fault_t compare_all (compare_t *self, const char *const *path, uint32_t n,
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

/* ---- printing -------------------------------------------------------------------------------- */

static const char *status_text (uint8_t status)
{
    return status == WM_HIT_NONFINITE ? "not finite" : wm_hit_status_text (status);
}

static void print_only (const compare_t *self, int which)
{
    const uint64_t n = self->n_only[which];
    if (!n)
        return;
    printf ("%" PRIu64 " hit%s only in %c:", n, n == 1 ? "" : "s", "AB"[which]);
    for (uint64_t i = 0; i < n && i < NAMED_MAX; i++) {
        const int64_t *id = self->only[which][i].id;
        printf (" %" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64, id[0], id[1], id[2], id[3]);
    }
    puts (n > NAMED_MAX ? " ..." : "");
}

/* As many as the score has as it is stored: of float32 or float64.  */
static int digits (double score)
{
    return (double) (float) score == score ? 9 : 17;
}

static void print_people (const compare_t *self, const char *a, uint32_t n_a, const char *b)
{
    printf ("A %s", a);
    if (n_a > 1)
        printf (" and %u more", n_a - 1);
    printf (": %u hits\nB %s: %u hits\n%" PRIu64 " hits in both, %" PRIu64 " scored in both\n",
            self->a.n_row, b, self->b.n_row, self->n_joined, self->n_scored);
    print_only (self, 0);
    print_only (self, 1);
    for (uint8_t s = 0; s < STATUSES; s++)
        for (uint8_t t = 0; t < STATUSES; t++)
            if (s != t && self->n_status_pair[s][t])
                printf ("%" PRIu64 " with another status: %s in A, %s in B\n",
                        self->n_status_pair[s][t], status_text (s), status_text (t));
    int width = 5;
    for (uint32_t k = 0; k < self->a.n_label; k++)
        width = (int) strlen (self->a.label[k]) > width ? (int) strlen (self->a.label[k]) : width;
    printf ("%-*s  %9s  %9s  %9s  %9s  %9s  %s\n", width, "score", "largest", "99.9 %", "99 %",
            "median", "mean", "above tolerance");
    for (uint32_t k = 0; k < self->a.n_label; k++) {
        const label_t *l = &self->label[k];
        if (!self->n_scored) {
            printf ("%-*s  %9s  %9s  %9s  %9s  %9s  -\n", width, self->a.label[k], "-", "-", "-",
                    "-", "-");
            continue;
        }
        printf ("%-*s  %9.3g  %9.3g  %9.3g  %9.3g  %9.3g  %" PRIu64 "\n", width, self->a.label[k],
                l->largest, l->at[3], l->at[2], l->at[0], l->mean, l->n_over);
    }
    for (uint32_t k = 0; k < self->n_gone; k++)
        printf ("%-*s  not compared: only one has it\n", width, self->gone[k]);
    for (uint32_t k = 0; k < self->a.n_label; k++) {
        const label_t *l = &self->label[k];
        const int64_t *id = l->worst_a.id;
        if (l->n_over)
            printf ("%s differs most in %" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64
                    ": %.*g in A, %.*g in B\n",
                    self->a.label[k], id[0], id[1], id[2], id[3], digits (l->score_a), l->score_a,
                    digits (l->score_b), l->score_b);
    }
    if (!self->b.is_ours && self->a.n_same_cell)
        printf ("%" PRIu64 " hits of A lie in the drift bin of the hit before them: LArSoft scores "
                "such a hit on an empty patch\n",
                self->a.n_same_cell);
    printf ("%s within %g (hits are named run:subrun:event:hit_id)\n",
            is_same (self) ? "the same" : "not the same", self->tolerance);
}

/* JSON has no infinity.  */
static void print_number (const char *name, double value, int precision)
{
    if (isfinite (value))
        printf (", \"%s\": %.*g", name, precision, value);
    else
        printf (", \"%s\": null", name);
}

static void print_json (const compare_t *self)
{
    printf ("{\"schema\": \"wiremill-compare-1\", \"same\": %s, \"tolerance\": %.9g, "
            "\"hits_a\": %u, \"hits_b\": %u, \"joined\": %" PRIu64 ", \"scored\": %" PRIu64
            ", \"only_a\": %" PRIu64 ", \"only_b\": %" PRIu64 ", \"status_differs\": %" PRIu64
            ", \"statuses\": [",
            is_same (self) ? "true" : "false", self->tolerance, self->a.n_row, self->b.n_row,
            self->n_joined, self->n_scored, self->n_only[0], self->n_only[1], self->n_status);
    const char *comma = "";
    for (uint8_t s = 0; s < STATUSES; s++)
        for (uint8_t t = 0; t < STATUSES; t++)
            if (s != t && self->n_status_pair[s][t]) {
                printf ("%s{\"a\": \"%s\", \"b\": \"%s\", \"hits\": %" PRIu64 "}", comma,
                        status_text (s), status_text (t), self->n_status_pair[s][t]);
                comma = ", ";
            }
    fputs ("], \"labels\": [", stdout);
    for (uint32_t k = 0; k < self->a.n_label; k++) {
        const label_t *l = &self->label[k];
        const int64_t *id = l->worst_a.id;
        if (!self->n_scored) {
            printf ("%s{\"name\": \"%s\", \"above\": null, \"largest\": null, \"mean\": null, "
                    "\"q50\": null, \"q90\": null, \"q99\": null, \"q999\": null, "
                    "\"worst\": null, \"a\": null, \"b\": null}",
                    k ? ", " : "", self->a.label[k]);
            continue;
        }
        printf ("%s{\"name\": \"%s\", \"above\": %" PRIu64, k ? ", " : "", self->a.label[k],
                l->n_over);
        print_number ("largest", l->largest, 9);
        print_number ("mean", l->mean, 9);
        print_number ("q50", l->at[0], 9);
        print_number ("q90", l->at[1], 9);
        print_number ("q99", l->at[2], 9);
        print_number ("q999", l->at[3], 9);
        printf (", \"worst\": [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", id[0], id[1],
                id[2], id[3]);
        print_number ("a", l->score_a, digits (l->score_a));
        print_number ("b", l->score_b, digits (l->score_b));
        putchar ('}');
    }
    fputs ("], \"not_compared\": [", stdout);
    for (uint32_t k = 0; k < self->n_gone; k++)
        printf ("%s\"%s\"", k ? ", " : "", self->gone[k]);
    puts ("]}");
}

/* What was found, for the page.  */
static wm_fault_t page_write (compare_t *self, const char *const *path, size_t n, const char *note,
                              FILE *out, wm_error_t *error)
{
    wm_compare_page_t page = { .path = path,
                               .n_path = n,
                               .a = &self->a,
                               .b = &self->b,
                               .pair = { self->pair[0], self->pair[1] },
                               .tolerance = self->tolerance,
                               .is_same = is_same (self),
                               .n_joined = self->n_joined,
                               .n_scored = self->n_scored,
                               .n_only = { self->n_only[0], self->n_only[1] },
                               .only = { self->only[0], self->only[1] },
                               .n_status = self->n_status_pair,
                               .gone = self->gone,
                               .n_gone = self->n_gone,
                               .note = note };
    for (uint32_t k = 0; k < self->a.n_label; k++) {
        const label_t *l = &self->label[k];
        page.label[k] = (wm_compare_label_t){ .largest = l->largest,
                                              .n_over = l->n_over,
                                              .worst = &l->worst_a,
                                              .score_a = l->score_a,
                                              .score_b = l->score_b };
        for (int q = 0; q < QUANTILES; q++)
            page.label[k].quantile[q] = l->at[q];
    }
    return wm_compare_page_write (&page, out, error);
}

/* `page`: where the page goes, or NULL. Returns the exit code.  */
static int compare_run (void *arg, FILE *page)
{
    static compare_t compare;
    const wm_args_t *args = arg;
    size_t n;
    wm_error_t error;
    compare.tolerance = wm_args_real (args, "tolerance");
    const char **path = wm_produce_confine_rest (args, &n);
    if (!path)
        return WM_EXIT_FAILURE;
    for (size_t i = 0; i + 1 < n; i++)
        if (!strcmp (path[i], path[n - 1])) {
            fprintf (stderr, "wiremill compare: %s is given on both sides\n", path[i]);
            break;
        }
    wm_fault_t fault = wm_file_exist (path, n, &error);
    bool same = false;
    const bool images =
        !fault && (wm_compare_images_are (path[0]) || wm_compare_images_are (path[n - 1]));
    if (images && (n > 2 || page))
        fault = wm_fault (&error, WM_EBATCH, "%.300s has images (result: image): %s",
                          wm_compare_images_are (path[0]) ? path[0] : path[n - 1],
                          page ? "there is no page of them" : "give two files, A and B");
    else if (images)
        fault = wm_compare_images (path[0], path[n - 1], compare.tolerance,
                                   wm_args_given (args, "json"), &same, &error);
    else if (!fault)
        fault = compare_all (&compare, path, (uint32_t) n, wm_args_text (args, "table"), &error);
    if (!fault && !images)
        same = is_same (&compare);
    if (!fault && page)
        fault = page_write (&compare, path, n, wm_args_text (args, "note"), page, &error);
    if (fault) {
        wm_log_sanitize (error.text);
        fprintf (stderr, "wiremill compare: %s\n", error.text);
    } else if (!images && wm_args_given (args, "json"))
        print_json (&compare);
    else if (!images)
        print_people (&compare, path[0], (uint32_t) n - 1, path[n - 1]);
    const int code = fault ? wm_exit_of (fault) : same ? WM_EXIT_OK : 1;
    wm_scores_clear (&compare.a);
    wm_scores_clear (&compare.b);
    free (compare.pair[0]);
    free (compare.pair[1]);
    free (path);
    return code;
}

static int compare_main (const wm_args_t *args)
{
    char place[PATH_MAX];
    const char *page = wm_args_place (args, "page", place);
    if (!wm_args_rest (args, 1))
        return wm_args_refuse (args, "name two files of scores: A.scores.h5 B.scores.h5");
    if (!page && (wm_args_text (args, "note") || wm_args_given (args, "force")))
        return wm_args_refuse (args, "--%s is for the page of --page",
                               wm_args_text (args, "note") ? "note" : "force");
    return wm_render_process_run ("compare", page, compare_run, (void *) (uintptr_t) args);
}
