/* compare.c - `wiremill-producer compare`: two files of scores, hit by hit (comparison.h). Nothing
   is known of who is right.  */
#include "producer/verbs.h"

#include "producer/pictures/compare_images.h"
#include "producer/pictures/wm_render_process.h"
#include "producer/results/compare_folders.h"
#include "producer/results/compare_page.h"
#include "producer/results/compare_truth.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_log.h"
#include "schema/wm_batch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    .summary = "compare the scores of two outputs or campaigns, hit by hit",
    .text = "  wiremill compare out/events.scores.h5 other/events.scores.h5\n"
            "  wiremill compare out/ other/\n"
            "  wiremill compare out/*.scores.h5 larsoft.h5 --table emtrkmichel_table\n"
            "  wiremill compare out/events.scores.h5 larsoft.h5 --page larsoft.html\n\n"
            "Joins rows by run, subrun, event and hit_id. The last file is compared with those\n"
            "before it together; it may be a table in numl's form that others wrote, a column for\n"
            "each label (`wiremill help outputs`). Images (result: image) of two outputs are\n"
            "compared pixel by pixel. Of two folders, outputs of the same input are a pair, or of\n"
            "the same name. Exit 0: the same outputs, hits, labels and statuses, all scores\n"
            "within the tolerance; 1: not so; 5: a file is damaged or of another kind.\n",
    .options = options, .run = compare_main };
/* clang-format on */

/* ---- printing -------------------------------------------------------------------------------- */

static void print_only (const wm_comparison_t *self, int which)
{
    const uint64_t n = self->n_only[which];
    if (!n)
        return;
    printf ("%" PRIu64 " hit%s only in %c:", n, n == 1 ? "" : "s", "AB"[which]);
    for (uint64_t i = 0; i < n && i < WM_COMPARISON_NAMED; i++) {
        const int64_t *id = self->only[which][i].id;
        printf (" %" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64, id[0], id[1], id[2], id[3]);
    }
    puts (n > WM_COMPARISON_NAMED ? " ..." : "");
}

static void print_people (const wm_comparison_t *self, const char *a, uint32_t n_a, const char *b)
{
    printf ("A %s", a);
    if (n_a > 1)
        printf (" and %u more", n_a - 1);
    printf (": %u hits\nB %s: %u hits\n%" PRIu64 " hits in both, %" PRIu64 " scored in both\n",
            self->a.n_row, b, self->b.n_row, self->n_joined, self->n_scored);
    print_only (self, 0);
    print_only (self, 1);
    wm_comparison_print_statuses (self->n_status_pair);
    int width = 5;
    for (uint32_t k = 0; k < self->a.n_label; k++)
        width = (int) strlen (self->a.label[k]) > width ? (int) strlen (self->a.label[k]) : width;
    printf ("%-*s  %9s  %9s  %9s  %9s  %9s  %s\n", width, "score", "largest", "99.9 %", "99 %",
            "median", "mean", "above tolerance");
    for (uint32_t k = 0; k < self->a.n_label; k++) {
        const wm_comparison_label_t *l = &self->label[k];
        if (!self->n_scored) {
            printf ("%-*s  %9s  %9s  %9s  %9s  %9s  -\n", width, self->a.label[k], "-", "-", "-",
                    "-", "-");
            continue;
        }
        printf ("%-*s  %9.3g  %9.3g  %9.3g  %9.3g  %9.3g  %" PRIu64 "\n", width, self->a.label[k],
                l->largest, l->quantile[3], l->quantile[2], l->quantile[0], l->mean, l->n_over);
    }
    for (uint32_t k = 0; k < self->n_gone; k++)
        printf ("%-*s  not compared: only one has it\n", width, self->gone[k]);
    for (uint32_t k = 0; k < self->a.n_label; k++) {
        const wm_comparison_label_t *l = &self->label[k];
        const int64_t *id = l->worst.id;
        if (l->n_over)
            printf ("%s differs most in %" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64
                    ": %.*g in A, %.*g in B\n",
                    self->a.label[k], id[0], id[1], id[2], id[3], wm_comparison_digits (l->score_a),
                    l->score_a, wm_comparison_digits (l->score_b), l->score_b);
    }
    if (!self->b.is_ours && self->a.n_same_cell)
        printf ("%" PRIu64 " hits of A lie in the drift bin of the hit before them: LArSoft scores "
                "such a hit on an empty patch\n",
                self->a.n_same_cell);
    printf ("%s within %g (hits are named run:subrun:event:hit_id)\n",
            wm_comparison_is_same (self) ? "the same" : "not the same", self->tolerance);
}

static void print_json (const wm_comparison_t *self)
{
    printf ("{\"schema\": \"wiremill-compare-1\", \"same\": %s, \"tolerance\": %.9g, "
            "\"hits_a\": %u, \"hits_b\": %u, \"joined\": %" PRIu64 ", \"scored\": %" PRIu64
            ", \"only_a\": %" PRIu64 ", \"only_b\": %" PRIu64 ", \"status_differs\": %" PRIu64
            ", \"statuses\": [",
            wm_comparison_is_same (self) ? "true" : "false", self->tolerance, self->a.n_row,
            self->b.n_row, self->n_joined, self->n_scored, self->n_only[0], self->n_only[1],
            self->n_status);
    const char *comma = "";
    for (uint8_t s = 0; s < WM_HIT_STATUSES; s++)
        for (uint8_t t = 0; t < WM_HIT_STATUSES; t++)
            if (s != t && self->n_status_pair[s][t]) {
                printf ("%s{\"a\": \"%s\", \"b\": \"%s\", \"hits\": %" PRIu64 "}", comma,
                        wm_comparison_status (s), wm_comparison_status (t),
                        self->n_status_pair[s][t]);
                comma = ", ";
            }
    fputs ("], \"labels\": [", stdout);
    for (uint32_t k = 0; k < self->a.n_label; k++) {
        const wm_comparison_label_t *l = &self->label[k];
        const int64_t *id = l->worst.id;
        if (!self->n_scored) {
            printf ("%s{\"name\": \"%s\", \"above\": null, \"largest\": null, \"mean\": null, "
                    "\"q50\": null, \"q90\": null, \"q99\": null, \"q999\": null, "
                    "\"worst\": null, \"a\": null, \"b\": null}",
                    k ? ", " : "", self->a.label[k]);
            continue;
        }
        printf ("%s{\"name\": \"%s\", \"above\": %" PRIu64, k ? ", " : "", self->a.label[k],
                l->n_over);
        wm_comparison_print_number ("largest", l->largest, 9);
        wm_comparison_print_number ("mean", l->mean, 9);
        wm_comparison_print_number ("q50", l->quantile[0], 9);
        wm_comparison_print_number ("q90", l->quantile[1], 9);
        wm_comparison_print_number ("q99", l->quantile[2], 9);
        wm_comparison_print_number ("q999", l->quantile[3], 9);
        printf (", \"worst\": [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", id[0], id[1],
                id[2], id[3]);
        wm_comparison_print_number ("a", l->score_a, wm_comparison_digits (l->score_a));
        wm_comparison_print_number ("b", l->score_b, wm_comparison_digits (l->score_b));
        putchar ('}');
    }
    fputs ("], \"not_compared\": [", stdout);
    for (uint32_t k = 0; k < self->n_gone; k++)
        printf ("%s\"%s\"", k ? ", " : "", self->gone[k]);
    puts ("]}");
}

static bool is_folder (const char *path)
{
    struct stat st;
    return path && !stat (path, &st) && S_ISDIR (st.st_mode);
}

/* The page's section on truth, before this process is confined; the caller's. NULL: the page
   has no such section.  */
static char *make_truth (const wm_args_t *args)
{
    const char *path[2] = { wm_args_rest (args, 0), wm_args_rest (args, 1) };
    char *text = NULL;
    size_t bytes;
    FILE *memory = wm_args_rest (args, 2) ? NULL : open_memstream (&text, &bytes);
    if (memory) {
        wm_compare_truth_files (path, wm_args_text (args, "table"), memory);
        fclose (memory);
    }
    return text;
}

/* `page`: where the page goes, or NULL. Returns the exit code.  */
static int compare_run (void *arg, FILE *page)
{
    static wm_comparison_t compare;
    const wm_args_t *args = arg;
    size_t n;
    char place[PATH_MAX];
    wm_error_t error;
    if ((is_folder (wm_args_rest (args, 0)) || is_folder (wm_args_rest (args, 1))) &&
        !wm_args_rest (args, 2))
        return wm_compare_folders (args, page);
    compare.tolerance = wm_args_real (args, "tolerance");
    char *truth = page ? make_truth (args) : NULL;
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
        fault =
            wm_comparison_make (&compare, path, (uint32_t) n, wm_args_text (args, "table"), &error);
    if (!fault && !images)
        same = wm_comparison_is_same (&compare);
    if (!fault && page)
        fault = wm_compare_page_write (&(wm_compare_page_t){ path, n, &compare,
                                                             wm_args_text (args, "note"), truth,
                                                             wm_args_place (args, "page", place) },
                                       page, &error);
    if (fault) {
        wm_log_sanitize (error.text);
        fprintf (stderr, "wiremill compare: %s\n", error.text);
    } else if (!images && wm_args_given (args, "json"))
        print_json (&compare);
    else if (!images)
        print_people (&compare, path[0], (uint32_t) n - 1, path[n - 1]);
    const int code = fault ? wm_exit_of (fault) : same ? WM_EXIT_OK : 1;
    wm_comparison_clear (&compare);
    free (truth);
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
