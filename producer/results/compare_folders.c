/* compare_folders.c - see compare_folders.h.  */
#include "producer/results/compare_folders.h"

#include "producer/pictures/compare_images.h"
#include "producer/results/compare_folders_page.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define NAMED_MAX 3  /* outputs of one side that are named */
#define WIDTH_MAX 32 /* of names in the table */

static bool is_same (const wm_folders_t *self)
{
    return self->n_same == self->pairs.n;
}

/* ---- counting -------------------------------------------------------------------------------- */

static wm_folders_label_t *label_of (wm_folders_t *self, const char *name)
{
    for (uint32_t k = 0; k < self->n_label; k++)
        if (!strcmp (self->label[k].name, name))
            return &self->label[k];
    if (self->n_label == WM_SCORES_LABELS_MAX)
        return NULL;
    wm_folders_label_t *label = &self->label[self->n_label++];
    memcpy (label->name, name, sizeof label->name);
    return label;
}

static void add_label (wm_folders_t *self, size_t i, uint32_t k)
{
    const wm_comparison_label_t *from = &self->found.label[k];
    wm_folders_label_t *to = label_of (self, self->found.a.label[k]);
    if (!to || !self->found.n_scored)
        return;
    if (!to->n_scored || from->largest > to->largest) {
        to->largest = from->largest;
        to->worst = from->worst;
        to->worst_pair = i;
        to->score_a = from->score_a;
        to->score_b = from->score_b;
    }
    to->n_scored += self->found.n_scored;
    to->n_over += from->n_over;
    to->sum += from->mean * (double) self->found.n_scored;
}

/* Hits with a score that differs by more than the tolerance.  */
static uint64_t count_over (const wm_comparison_t *found)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < found->n_scored; i++) {
        bool is_over = false;
        for (uint32_t k = 0; k < found->a.n_label && !is_over; k++)
            is_over = wm_scores_difference (wm_comparison_score_a (found, k, i),
                                            wm_comparison_score_b (found, k, i)) > found->tolerance;
        n += is_over;
    }
    return n;
}

static void add_pair (wm_folders_t *self, size_t i, wm_folders_row_t *row)
{
    const wm_comparison_t *found = &self->found;
    row->is_same = wm_comparison_is_same (found);
    row->n_over = count_over (found);
    row->is_called = wm_called_add (&self->called, found, (uint32_t) i, &row->n_other);
    row->largest = found->n_scored ? 0 : NAN;
    for (uint32_t k = 0; k < found->a.n_label; k++) {
        if (found->n_scored)
            row->largest = fmax (row->largest, found->label[k].largest);
        add_label (self, i, k);
    }
    self->n_compared++;
    self->n_called += row->is_called;
    self->n_same += row->is_same;
    self->n_row[0] += found->a.n_row;
    self->n_row[1] += found->b.n_row;
    self->n_joined += found->n_joined;
    self->n_scored += found->n_scored;
    self->n_over += row->n_over;
    self->n_status += found->n_status;
    for (int s = 0; s < 2; s++)
        self->n_only[s] += found->n_only[s];
    for (uint32_t s = 0; s < WM_HIT_STATUSES; s++)
        for (uint32_t t = 0; t < WM_HIT_STATUSES; t++)
            self->n_status_pair[s][t] += found->n_status_pair[s][t];
}

static wm_fault_t compare_pair (wm_folders_t *self, size_t i, const char *table, wm_error_t *error)
{
    char a[PATH_MAX], b[PATH_MAX];
    wm_folder_pairs_path (&self->pairs, i, 0, a);
    wm_folder_pairs_path (&self->pairs, i, 1, b);
    if (wm_compare_images_are (a) || wm_compare_images_are (b))
        return wm_fault (error, WM_EBATCH,
                         "it has images (result: image): compare the two files alone");
    return wm_comparison_make (&self->found, (const char *[]){ a, b }, 2, table, error);
}

/* ---- text ------------------------------------------------------------------------------------ */

static int width_of (const wm_folders_t *self)
{
    char name[WM_FOLDER_NAME_BYTES];
    size_t width = strlen ("output");
    for (size_t i = 0; i < self->pairs.n; i++)
        width =
            strlen (wm_folder_pairs_name (&self->pairs, i, name)) > width ? strlen (name) : width;
    return width < WIDTH_MAX ? (int) width : WIDTH_MAX;
}

static void print_head (const wm_folders_t *self)
{
    for (int s = 0; s < 2; s++)
        printf ("%c %s: %zu output%s\n", "AB"[s], self -> pairs.side[s].folder,
                self->pairs.side[s].n, self->pairs.side[s].n == 1 ? "" : "s");
    printf ("%-*s  %10s  %7s  %7s  %7s  %7s  %9s  %7s\n", width_of (self), "output", "in both",
            "only A", "only B", "status", "above", "otherwise", "largest");
}

/* The last two columns: hits called otherwise, or -, and the largest difference, NaN: none.  */
static void print_end (bool is_called, uint64_t n_other, double largest)
{
    char number[32] = "-";
    if (is_called)
        snprintf (number, sizeof number, "%" PRIu64, n_other);
    printf ("  %9s", number);
    snprintf (number, sizeof number, isnan (largest) ? "-" : "%.2g", largest);
    printf ("  %7s\n", number);
}

static void print_row (const wm_folders_t *self, size_t i, const wm_folders_row_t *row)
{
    const wm_comparison_t *found = &self->found;
    char name[WM_FOLDER_NAME_BYTES];
    printf ("%-*s  ", width_of (self), wm_folder_pairs_name (&self->pairs, i, name));
    if (row->why) {
        printf ("not compared: %s\n", row->why);
        return;
    }
    printf ("%10" PRIu64 "  %7" PRIu64 "  %7" PRIu64 "  %7" PRIu64 "  %7" PRIu64, found->n_joined,
            found->n_only[0], found->n_only[1], found->n_status, row->n_over);
    print_end (row->is_called, row->n_other, row->largest);
}

static void print_alone (const wm_folders_t *self, int side)
{
    size_t n = 0;
    for (size_t i = 0; i < self->pairs.n && self->n_alone[side]; i++)
        if (!self->pairs.pair[i].of[!side] && !self->pairs.pair[i].of[side]->why &&
            n++ < NAMED_MAX) {
            printf (n == 1 ? "outputs only in %c: " : ", ", "AB"[side]);
            fputs (self->pairs.pair[i].of[side]->name, stdout);
        }
    if (n > NAMED_MAX)
        printf (" and %zu more", n - NAMED_MAX);
    if (n)
        putchar ('\n');
}

static void print_labels (const wm_folders_t *self)
{
    char name[WM_FOLDER_NAME_BYTES];
    int width = 5;
    for (uint32_t k = 0; k < self->n_label; k++)
        width =
            (int) strlen (self->label[k].name) > width ? (int) strlen (self->label[k].name) : width;
    printf ("%-*s  %9s  %9s  %s\n", width, "score", "largest", "mean", "above tolerance");
    for (uint32_t k = 0; k < self->n_label; k++) {
        const wm_folders_label_t *l = &self->label[k];
        if (l->n_scored)
            printf ("%-*s  %9.3g  %9.3g  %" PRIu64 "\n", width, l->name, l->largest,
                    l->sum / (double) l->n_scored, l->n_over);
        else
            printf ("%-*s  %9s  %9s  -\n", width, l->name, "-", "-");
    }
    for (uint32_t k = 0; k < self->n_label; k++) {
        const wm_folders_label_t *l = &self->label[k];
        const int64_t *id = l->worst.id;
        if (l->n_over)
            printf ("%s differs most in %s, %" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64
                    ": %.*g in A, %.*g in B\n",
                    l->name, wm_folder_pairs_name (&self->pairs, l->worst_pair, name), id[0], id[1],
                    id[2], id[3], wm_comparison_digits (l->score_a), l->score_a,
                    wm_comparison_digits (l->score_b), l->score_b);
    }
}

static void print_totals (const wm_folders_t *self)
{
    double largest = self->n_scored ? 0 : NAN;
    for (uint32_t k = 0; k < self->n_label && self->n_scored; k++)
        largest = fmax (largest, self->label[k].largest);
    printf ("%-*s  %10" PRIu64 "  %7" PRIu64 "  %7" PRIu64 "  %7" PRIu64 "  %7" PRIu64,
            width_of (self), "all", self->n_joined, self->n_only[0], self->n_only[1],
            self->n_status, self->n_over);
    print_end (self->n_called, self->called.n_other, largest);
    if (self->n_called < self->n_compared)
        printf ("what hits are called was compared in %zu of %zu pairs; the others have - there\n",
                self->n_called, self->n_compared);
    print_alone (self, 0);
    print_alone (self, 1);
    wm_comparison_print_statuses (self->n_status_pair);
    for (uint32_t a = 0; a < self->called.n_label; a++)
        for (uint32_t b = 0; b < self->called.n_label; b++)
            if (a != b && self->called.n[a][b])
                printf ("%" PRIu64 " called otherwise: %s in A, %s in B\n", self->called.n[a][b],
                        self->called.label[a], self->called.label[b]);
    print_labels (self);
    printf ("%s within %g: %zu of %zu outputs (hits are named run:subrun:event:hit_id)\n",
            is_same (self) ? "the same" : "not the same", self->found.tolerance, self->n_same,
            self->pairs.n);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_output (const char *name, const wm_folder_output_t *output)
{
    printf ("\"%s\": ", name);
    if (output)
        wm_text_json (stdout, output->name);
    else
        fputs ("null", stdout);
}

static void json_otherwise (bool is_called, uint64_t n)
{
    if (is_called)
        printf (", \"otherwise\": %" PRIu64, n);
    else
        fputs (", \"otherwise\": null", stdout);
}

static void json_row (const wm_folders_t *self, size_t i, const wm_folders_row_t *row)
{
    const wm_comparison_t *found = &self->found;
    fputs (i ? ",\n {" : "\n {", stdout);
    json_output ("a", self->pairs.pair[i].of[0]);
    fputs (", ", stdout);
    json_output ("b", self->pairs.pair[i].of[1]);
    if (row && row->why) {
        fputs (", \"why\": ", stdout);
        wm_text_json (stdout, row->why);
    } else if (row) {
        printf (", \"same\": %s, \"hits_a\": %u, \"hits_b\": %u, \"joined\": %" PRIu64
                ", \"scored\": %" PRIu64 ", \"only_a\": %" PRIu64 ", \"only_b\": %" PRIu64
                ", \"status_differs\": %" PRIu64 ", \"above\": %" PRIu64,
                row->is_same ? "true" : "false", found->a.n_row, found->b.n_row, found->n_joined,
                found->n_scored, found->n_only[0], found->n_only[1], found->n_status, row->n_over);
        json_otherwise (row->is_called, row->n_other);
        wm_comparison_print_number ("largest", row->largest, 9);
        fputs (", \"not_compared\": [", stdout);
        for (uint32_t k = 0; k < found->n_gone; k++) {
            fputs (k ? ", " : "", stdout);
            wm_text_json (stdout, found->gone[k]);
        }
        putchar (']');
    }
    putchar ('}');
}

static void json_label (const wm_folders_t *self, const wm_folders_label_t *l)
{
    char name[WM_FOLDER_NAME_BYTES];
    const int64_t *id = l->worst.id;
    fputs ("{\"name\": ", stdout);
    wm_text_json (stdout, l->name);
    if (!l->n_scored) {
        fputs (", \"above\": null, \"largest\": null, \"mean\": null, \"output\": null, "
               "\"worst\": null, \"a\": null, \"b\": null}",
               stdout);
        return;
    }
    printf (", \"above\": %" PRIu64, l->n_over);
    wm_comparison_print_number ("largest", l->largest, 9);
    wm_comparison_print_number ("mean", l->sum / (double) l->n_scored, 9);
    fputs (", \"output\": ", stdout);
    wm_text_json (stdout, wm_folder_pairs_name (&self->pairs, l->worst_pair, name));
    printf (", \"worst\": [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", id[0], id[1],
            id[2], id[3]);
    wm_comparison_print_number ("a", l->score_a, wm_comparison_digits (l->score_a));
    wm_comparison_print_number ("b", l->score_b, wm_comparison_digits (l->score_b));
    putchar ('}');
}

static void json_totals (const wm_folders_t *self)
{
    const char *comma = "";
    printf (
        "],\n\"same\": %s, \"tolerance\": %.9g, \"compared\": %zu, \"outputs_same\": %zu, "
        "\"failed\": %zu, \"outputs_only_a\": %zu, \"outputs_only_b\": %zu, \"hits_a\": %" PRIu64
        ", \"hits_b\": %" PRIu64 ", \"joined\": %" PRIu64 ", \"scored\": %" PRIu64
        ", \"only_a\": %" PRIu64 ", \"only_b\": %" PRIu64 ", \"status_differs\": %" PRIu64
        ", \"above\": %" PRIu64,
        is_same (self) ? "true" : "false", self->found.tolerance, self->n_compared, self->n_same,
        self->n_failed, self->n_alone[0], self->n_alone[1], self->n_row[0], self->n_row[1],
        self->n_joined, self->n_scored, self->n_only[0], self->n_only[1], self->n_status,
        self->n_over);
    json_otherwise (self->n_called, self->called.n_other);
    fputs (",\n\"called\": [", stdout);
    for (uint32_t a = 0; a < self->called.n_label; a++)
        for (uint32_t b = 0; b < self->called.n_label; b++)
            if (self->called.n[a][b]) {
                printf ("%s{\"a\": ", comma);
                wm_text_json (stdout, self->called.label[a]);
                fputs (", \"b\": ", stdout);
                wm_text_json (stdout, self->called.label[b]);
                printf (", \"hits\": %" PRIu64 "}", self->called.n[a][b]);
                comma = ", ";
            }
    fputs ("],\n\"labels\": [", stdout);
    for (uint32_t k = 0; k < self->n_label; k++) {
        fputs (k ? ", " : "", stdout);
        json_label (self, &self->label[k]);
    }
    puts ("]}");
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Returns the fault of the first pair that could not be compared.  */
static wm_fault_t compare_all (wm_folders_t *self, const char *table, bool is_json,
                               wm_folders_page_t *page)
{
    wm_fault_t first = WM_OK;
    wm_error_t error;
    for (size_t i = 0; i < self->pairs.n; i++) {
        wm_folders_row_t row = { 0 };
        const wm_folder_output_t *const *of = self->pairs.pair[i].of;
        const bool is_pair = of[0] && of[1];
        wm_fault_t fault = WM_OK;
        if (!is_pair && of[!of[0]]->why)
            fault = wm_fault (&error, WM_EBATCH, "%s", of[!of[0]]->why);
        else if (is_pair)
            fault = compare_pair (self, i, table, &error);
        if (fault) {
            wm_log_sanitize (error.text);
            row.why = error.text;
            first = first ? first : fault;
            self->n_failed++;
        } else if (is_pair)
            add_pair (self, i, &row);
        else
            self->n_alone[!of[0]]++;
        const wm_folders_row_t *found = is_pair || fault ? &row : NULL;
        if (is_json)
            json_row (self, i, found);
        else if (found)
            print_row (self, i, found);
        if (page)
            wm_folders_page_add (page, self, i, found);
        wm_comparison_clear (&self->found);
    }
    return first;
}

static int complain (const wm_error_t *error)
{
    fprintf (stderr, "wiremill compare: %s\n", error->text);
    return wm_exit_of (error->fault);
}

int wm_compare_folders (const wm_args_t *args, FILE *out)
{
    char place[PATH_MAX];
    static wm_folders_t self;
    wm_error_t error;
    const bool is_json = wm_args_given (args, "json");
    self.found.tolerance = wm_args_real (args, "tolerance");
    wm_fault_t fault = wm_folder_pairs_list (
        &self.pairs, (const char *[]){ wm_args_rest (args, 0), wm_args_rest (args, 1) }, &error);
    if (!fault && !strcmp (self.pairs.side[0].folder, self.pairs.side[1].folder))
        fprintf (stderr, "wiremill compare: %s is given on both sides\n",
                 self.pairs.side[0].folder);
    wm_folders_page_t *page = NULL;
    if (!fault && out &&
        !(page = wm_folders_page_new (wm_args_place (args, "page", place), &self.pairs)))
        fault = wm_fault (&error, WM_EHOST, "out of memory for the page");
    if (!fault)
        fault = wm_folder_pairs_confine (&self.pairs, &error);
    if (!fault)
        fault = wm_folder_pairs_match (&self.pairs, &error);
    int code = fault ? complain (&error) : WM_EXIT_OK;
    if (!fault) {
        if (is_json)
            fputs ("{\"schema\": \"wiremill-compare-folders-1\", \"outputs\": [", stdout);
        else
            print_head (&self);
        fault = compare_all (&self, wm_args_text (args, "table"), is_json, page);
        if (page)
            wm_folders_page_write (page, &self, wm_args_text (args, "note"), out);
        (is_json ? json_totals : print_totals) (&self);
        code = fault ? wm_exit_of (fault) : is_same (&self) ? WM_EXIT_OK : 1;
    }
    wm_folders_page_free (page);
    wm_folder_pairs_clear (&self.pairs);
    return code;
}
