/* compare_truth.c - see compare_truth.h.  */
#include "producer/results/compare_truth.h"

#include "producer/files/wm_h5.h"
#include "producer/pictures/wm_render_process.h"
#include "producer/results/agreement_roc.h"
#include "producer/results/report.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_log.h"
#include "schema/page/wm_page.h"
#include "schema/wm_pins.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PAIRS_MAX 100
#define HITS_MAX 1000000u

/* Two outputs of one input.  */
typedef struct {
    const char *input; /* that has truth */
    char path[2][PATH_MAX];
    uint64_t hits; /* of A */
} pair_t;

/* What is compared: a child's argument.  */
typedef struct {
    pair_t pair[PAIRS_MAX];
    size_t n, n_left_out;
    const char *table; /* of scores that others wrote, or NULL */
} pairs_t;

/* ---- which files ----------------------------------------------------------------------------- */

/* Both sides, one after the other.  */
static wm_report_outputs_t outputs_of (const pairs_t *self, const char *path[2 * PAIRS_MAX])
{
    for (size_t i = 0; i < 2 * self->n; i++)
        path[i] = self->pair[i % self->n].path[i / self->n];
    return (wm_report_outputs_t){ .path = path, .n = 2 * self->n };
}

static bool is_one_file (const char *a, const char *b)
{
    struct stat of[2];
    return !a || !b ||
           (stat (a, &of[0]) == 0 && stat (b, &of[1]) == 0 && of[0].st_dev == of[1].st_dev &&
            of[0].st_ino == of[1].st_ino);
}

/* Keeps those of one input, A's and B's, that is here and has truth, while they fit.  */
static void take_true (pairs_t *self, const char *const input[2 * PAIRS_MAX],
                       const uint64_t hits[2 * PAIRS_MAX])
{
    const char *there[PAIRS_MAX];
    size_t n = 0, n_true = 0;
    uint64_t n_hit = 0;
    for (size_t i = 0; i < self->n; i++) {
        const char *one = input[i] ? input[i] : input[self->n + i];
        if (!one || !is_one_file (input[i], input[self->n + i]))
            continue;
        self->pair[n] = self->pair[i];
        self->pair[n].hits = hits[i];
        self->pair[n].input = there[n] = one;
        n++;
    }
    char *has = n ? wm_report_find_truth ("compare", there, n) : NULL;
    for (size_t i = 0; i < n && has; i++) {
        if (has[i] != '1')
            continue;
        if (n_hit + self->pair[i].hits <= HITS_MAX) {
            n_hit += self->pair[i].hits;
            self->pair[n_true++] = self->pair[i];
        } else
            self->n_left_out++;
    }
    self->n = n_true;
    free (has);
}

/* ---- what is written ------------------------------------------------------------------------- */

static void put_share (FILE *out, uint64_t part, uint64_t of)
{
    char text[16];
    wm_page_put (out, "td class=\"n\"", "%s", wm_agreement_share (part, of, text));
}

static void write_label (const wm_agreement_t both[2], int k, FILE *out)
{
    char text[32];
    wm_page_row (out, "%s", wm_agreement_name[k]);
    wm_page_put (out, "td class=\"n\"", "%s",
                 wm_page_count ((int64_t) wm_agreement_of_truth (&both[0], k), text));
    for (int s = 0; s < 2; s++)
        put_share (out, both[s].n_called[k][k], wm_agreement_of_truth (&both[s], k));
    for (int s = 0; s < 2; s++)
        put_share (out, both[s].n_called[k][k], wm_agreement_of_scores (&both[s], k));
    for (int s = 0; s < 2; s++)
        wm_page_put (out, "td class=\"n\"", "%s", wm_agreement_number (both[s].label[k].auc, text));
    fputs ("</tr>\n", out);
}

static void write_both (const wm_agreement_t both[2], FILE *out)
{
    char a[16], b[16];
    wm_page_put (out, "p", "Called what they are: %s of the hits in A, %s in B.",
                 wm_agreement_share (both[0].n_right, both[0].n, a),
                 wm_agreement_share (both[1].n_right, both[1].n, b));
    wm_page_table (out, "Efficiency: the share of a label that is called so; purity: the share of "
                        "what is called so that is of the label");
    wm_page_heads (out, "Label|#True|#Efficiency in A|#in B|#Purity in A|#in B|#AUC of A|#of B");
    for (int k = 0; k < WM_TRUTH_END; k++)
        write_label (both, k, out);
    wm_page_table_end (out);
    wm_page_pictures (out);
    for (int k = 0; k < WM_TRUTH_END; k++)
        wm_agreement_roc_both (&both[0], &both[1], k, out);
    wm_page_pictures_end (out);
}

/* Each output is joined with its input alone: others may have hits of the same numbers.  */
static wm_fault_t read_side (wm_agreement_t *self, const pairs_t *pairs, int side,
                             wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (size_t i = 0; i < pairs->n && !fault; i++)
        fault = wm_agreement_add (
            self, (const char *[]){ pairs->pair[i].input, pairs->pair[i].path[side] }, 2,
            pairs->table, error);
    return fault ? fault : wm_agreement_count (self, WM_CALL_LEAST, error);
}

/* A child.  */
static int agree (void *arg, FILE *out)
{
    static wm_agreement_t both[2];
    const pairs_t *pairs = arg;
    const char *path[3 * PAIRS_MAX];
    char a[32], b[32];
    wm_error_t error;
    outputs_of (pairs, path);
    for (size_t i = 0; i < pairs->n; i++)
        path[2 * pairs->n + i] = pairs->pair[i].input;
    wm_produce_confine_reader (path, 3 * pairs->n);
    wm_h5_init ();
    if (read_side (&both[0], pairs, 0, &error) || read_side (&both[1], pairs, 1, &error)) {
        wm_log_sanitize (error.text);
        wm_page_put (out, "p", "No comparison with truth: %s", error.text);
    } else {
        wm_page_put (out, "p",
                     "Hits with truth and scores: %s in A, %s in B, of %zu pair%s of outputs whose "
                     "inputs are of wiremill synth.",
                     wm_page_count ((int64_t) both[0].n, a), wm_page_count ((int64_t) both[1].n, b),
                     pairs->n, pairs->n == 1 ? "" : "s");
        write_both (both, out);
    }
    wm_agreement_clear (&both[0]);
    wm_agreement_clear (&both[1]);
    return WM_EXIT_OK;
}

/* Writes the section of those of the pairs that have truth.  */
static void write_section (pairs_t *self, FILE *out)
{
    const char *path[2 * PAIRS_MAX], *input[2 * PAIRS_MAX];
    uint64_t hits[2 * PAIRS_MAX] = { 0 };
    wm_report_outputs_t outputs = outputs_of (self, path);
    char *lines = wm_report_inputs ("compare", &outputs);
    if (!lines)
        return;
    wm_report_take_inputs (&outputs, lines, input, hits);
    take_true (self, input, hits);
    if (self->n) {
        fputs ("<section><h2>Truth</h2>\n", out);
        if (wm_render_process_copy ("compare", agree, self, out))
            wm_page_put (out, "p",
                         "No comparison with truth: the process that read the files failed.");
        if (self->n_left_out)
            wm_page_put (out, "p", "%zu more pairs did not fit into %u hits.", self->n_left_out,
                         HITS_MAX);
        fputs ("</section>\n", out);
    }
    free (lines);
}

void wm_compare_truth_files (const char *const path[2], const char *table, FILE *out)
{
    pairs_t *self = calloc (1, sizeof *self);
    if (!self)
        return;
    self->n = 1;
    self->table = table;
    for (int s = 0; s < 2; s++)
        snprintf (self->pair[0].path[s], PATH_MAX, "%s", path[s]);
    write_section (self, out);
    free (self);
}

/* ---- folders --------------------------------------------------------------------------------- */

/* A child: prints two numbers for each pair: its outputs among those of A and of B.  */
static int print_pairs (void *arg, FILE *out)
{
    wm_folder_pairs_t *pairs = arg;
    wm_error_t error;
    size_t n = 0, at = 0;
    if (wm_folder_pairs_confine (pairs, &error) || wm_folder_pairs_match (pairs, &error))
        return WM_EXIT_FAILURE;
    for (size_t i = 0; i < pairs->n; i++)
        n += pairs->pair[i].of[0] && pairs->pair[i].of[1];
    const size_t step = n / PAIRS_MAX + (n % PAIRS_MAX != 0);
    for (size_t i = 0; i < pairs->n; i++) {
        const wm_folder_output_t *const *of = pairs->pair[i].of;
        if (of[0] && of[1] && at++ % step == 0)
            fprintf (out, "%td %td\n", of[0] - pairs->side[0].output,
                     of[1] - pairs->side[1].output);
    }
    return WM_EXIT_OK;
}

void wm_compare_truth_folders (wm_folder_pairs_t *pairs, FILE *out)
{
    char text[64 * PAIRS_MAX];
    pairs_t *self = calloc (1, sizeof *self);
    if (!self || wm_render_process_text ("compare", print_pairs, pairs, text, sizeof text)) {
        free (self);
        return;
    }
    for (char *at = text, *end; self->n < PAIRS_MAX; at = end + 1) {
        pair_t *pair = &self->pair[self->n];
        bool is_there = true;
        for (int s = 0; s < 2; s++) {
            const wm_folder_side_t *side = &pairs->side[s];
            const size_t k = strtoul (at, &end, 10);
            is_there &= end != at && k < side->n;
            if (is_there)
                snprintf (pair->path[s], PATH_MAX, "%.3800s/%.255s", side->folder,
                          side->output[k].name);
            at = end;
        }
        if (!is_there || *end != '\n')
            break;
        self->n++;
    }
    if (self->n)
        write_section (self, out);
    free (self);
}
