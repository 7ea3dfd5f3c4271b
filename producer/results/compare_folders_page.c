/* compare_folders_page.c - see compare_folders_page.h.

   First the verdict, then what was compared, the sums, the outputs, those that differ first, truth,
   and the hits that are called otherwise. The page has no date of its own: the same
   files give the same bytes.  */
#include "producer/results/compare_folders_page.h"

#include "producer/results/compare_files.h"
#include "producer/results/compare_truth.h"
#include "schema/page/wm_page.h"
#include "schema/page/wm_page_event.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LISTED 500 /* rows of a table */

/* Rows of outputs: the first ones.  */
typedef struct {
    FILE *rows;
    char *text;
    size_t bytes, n;
} list_t;

struct wm_folders_page {
    wm_page_events_t events;
    wm_compare_sides_t *sides;
    list_t list[2]; /* that differ; that are the same */
    char *truth;    /* a section, or nothing */
    size_t truth_bytes;
    bool is_linked;
};

/* What a row and a cell of a hit need.  */
typedef struct {
    wm_folders_page_t *self;
    const wm_folders_t *folders;
} rows_t;

wm_folders_page_t *wm_folders_page_new (const char *place, wm_folder_pairs_t *pairs)
{
    wm_folders_page_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    wm_page_events_begin (&self->events, place);
    self->sides = wm_compare_sides_new ();
    for (int k = 0; k < 2; k++)
        self->list[k].rows = open_memstream (&self->list[k].text, &self->list[k].bytes);
    FILE *truth = open_memstream (&self->truth, &self->truth_bytes);
    if (truth) {
        wm_compare_truth_folders (pairs, truth);
        fclose (truth);
    }
    if (truth && self->sides && self->list[0].rows && self->list[1].rows)
        return self;
    wm_folders_page_free (self);
    return NULL;
}

void wm_folders_page_free (wm_folders_page_t *self)
{
    if (!self)
        return;
    for (int k = 0; k < 2; k++) {
        if (self->list[k].rows)
            fclose (self->list[k].rows);
        free (self->list[k].text);
    }
    wm_compare_sides_free (self->sides);
    free (self->truth);
    free (self);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_difference (FILE *out, double value)
{
    wm_page_put (out, "td class=\"n\"",
                 isnan (value)      ? "-"
                 : isfinite (value) ? "%.3g"
                                    : "not finite",
                 value);
}

/* The pages of a pair's events, A's and B's; behind # a hit of them, or NULL.  */
static void put_links (rows_t *rows, size_t i, const wm_scores_key_t *hit, FILE *out)
{
    char path[2][PATH_MAX];
    for (int side = 0; side < 2; side++)
        wm_folder_pairs_path (&rows->folders->pairs, i, side, path[side]);
    rows->self->is_linked |=
        wm_called_links (&rows->self->events, (const char *[]){ path[0], path[1] }, hit, out);
}

static void put_row (rows_t *rows, size_t i, const wm_folders_row_t *row, FILE *out)
{
    const wm_comparison_t *found = &rows->folders->found;
    const wm_folder_output_t *const *of = rows->folders->pairs.pair[i].of;
    char name[WM_FOLDER_NAME_BYTES];
    wm_page_row (out, "%s", wm_folder_pairs_name (&rows->folders->pairs, i, name));
    if (!row || row->why)
        wm_page_put (out, "td colspan=\"9\"", "%s%s",
                     row      ? "not compared: "
                     : !of[1] ? "only in A"
                              : "only in B",
                     row ? row->why : "");
    else {
        wm_page_count_cell (out, found->a.n_row);
        wm_page_count_cell (out, found->b.n_row);
        wm_page_count_cell (out, found->n_joined);
        wm_page_count_cell (out, found->n_only[0]);
        wm_page_count_cell (out, found->n_only[1]);
        wm_page_count_cell (out, found->n_status);
        wm_page_count_cell (out, row->n_over);
        if (row->is_called)
            wm_page_count_cell (out, row->n_other);
        else
            fputs ("<td class=\"n\">not compared</td>", out);
        put_difference (out, row->largest);
    }
    fputs ("<td>", out);
    put_links (rows, i, NULL, out);
    fputs ("</td></tr>\n", out);
}

void wm_folders_page_add (wm_folders_page_t *self, const wm_folders_t *folders, size_t i,
                          const wm_folders_row_t *row)
{
    char path[PATH_MAX];
    wm_error_t error;
    list_t *list = &self->list[row && row->is_same];
    if (list->n++ < LISTED)
        put_row (&(rows_t){ self, folders }, i, row, list->rows);
    for (int side = 0; side < 2; side++) {
        wm_folder_pairs_path (&folders->pairs, i, side, path);
        if (*path)
            wm_compare_sides_add (self->sides, side, path, &error); /* its row has the reason */
    }
}

static void write_list (list_t *list, const char *what, FILE *out)
{
    char listed[32], all[32], caption[120];
    if (!list->n)
        return;
    fflush (list->rows);
    if (list->n > LISTED)
        snprintf (caption, sizeof caption, "The first %s of %s outputs that %s",
                  wm_page_count (LISTED, listed), wm_page_count ((int64_t) list->n, all), what);
    else
        snprintf (caption, sizeof caption, "%s output%s that %s",
                  wm_page_count ((int64_t) list->n, all), list->n == 1 ? "" : "s", what);
    wm_page_table (out, caption);
    wm_page_heads (out, "Output|#Hits of A|#Hits of B|#In both|#Only in A|#Only in B|#Other "
                        "status|#Above tolerance|#Called otherwise|#Largest difference|Pages");
    fwrite (list->text, 1, list->bytes, out);
    wm_page_table_end (out);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void write_verdict (const wm_folders_t *folders, FILE *out)
{
    char n[32], same[32];
    const bool is_same = folders->n_same == folders->pairs.n;
    wm_page_count ((int64_t) folders->n_same, same);
    wm_page_count ((int64_t) folders->pairs.n, n);
    fprintf (out, "<p class=\"verdict %s\"><strong>The scores are%s the same within %g.</strong> ",
             is_same ? "good" : "bad", is_same ? "" : " not", folders->found.tolerance);
    if (is_same)
        fprintf (out, "All %s outputs are in A and in B, with the same hits and statuses.", n);
    else
        fprintf (out,
                 "The same: %s of %s outputs; only in A: %zu; only in B: %zu; not compared: %zu.",
                 same, n, folders->n_alone[0], folders->n_alone[1], folders->n_failed);
    fputs ("</p>\n", out);
}

static void count_row (FILE *out, const char *name, uint64_t a, uint64_t b)
{
    wm_page_row (out, "%s", name);
    wm_page_count_cell (out, a);
    wm_page_count_cell (out, b);
    fputs ("</tr>\n", out);
}

static void write_hits (const wm_folders_t *folders, FILE *out)
{
    char text[32];
    fputs ("<section><h2>Hits</h2>\n", out);
    wm_page_table (out, "Joined by run, subrun, event and hit_id, in each pair of outputs");
    wm_page_heads (out, "What|#A|#B");
    count_row (out, "Outputs", folders->pairs.side[0].n, folders->pairs.side[1].n);
    count_row (out, "Hits of pairs", folders->n_row[0], folders->n_row[1]);
    count_row (out, "Only on this side", folders->n_only[0], folders->n_only[1]);
    count_row (out, "In both", folders->n_joined, folders->n_joined);
    count_row (out, "Scored in both", folders->n_scored, folders->n_scored);
    wm_page_table_end (out);
    for (uint8_t s = 0; s < WM_HIT_STATUSES; s++)
        for (uint8_t t = 0; t < WM_HIT_STATUSES; t++)
            if (s != t && folders->n_status_pair[s][t])
                wm_page_put (out, "p", "Another status: %s in A, %s in B: %s",
                             wm_comparison_status (s), wm_comparison_status (t),
                             wm_page_count ((int64_t) folders->n_status_pair[s][t], text));
    fputs ("</section>\n", out);
}

static void write_labels (rows_t *rows, FILE *out)
{
    char name[WM_FOLDER_NAME_BYTES];
    fputs ("<section><h2>Differences</h2>\n", out);
    wm_page_table (out, "|A - B|, divided by |A| where that is above 1; of hits that both scored");
    wm_page_heads (out, "Score|#Above tolerance|#Mean|#Largest|#A there|#B there|Hit of the "
                        "largest|Its output");
    for (uint32_t k = 0; k < rows->folders->n_label; k++) {
        const wm_folders_label_t *l = &rows->folders->label[k];
        wm_page_row (out, "%s", l->name);
        if (!l->n_scored) {
            fputs ("<td colspan=\"7\">no hit was scored on both sides</td></tr>\n", out);
            continue;
        }
        wm_page_count_cell (out, l->n_over);
        put_difference (out, l->sum / (double) l->n_scored);
        put_difference (out, l->largest);
        if (l->largest > 0) {
            fprintf (out, "<td class=\"n\">%.*g</td><td class=\"n\">%.*g</td><td class=\"w\">",
                     wm_comparison_digits (l->score_a), l->score_a,
                     wm_comparison_digits (l->score_b), l->score_b);
            wm_called_hit (out, &l->worst);
            fputs ("</td><td>", out);
            wm_page_print (out, "%s",
                           wm_folder_pairs_name (&rows->folders->pairs, l->worst_pair, name));
            fputs (" ", out);
            put_links (rows, l->worst_pair, &l->worst, out);
            fputs ("</td></tr>\n", out);
        } else
            fputs ("<td class=\"n\">-</td><td class=\"n\">-</td><td>-</td><td>-</td></tr>\n", out);
    }
    wm_page_table_end (out);
    fputs ("</section>\n", out);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void hit_cell (void *arg, const wm_called_hit_t *hit, FILE *out)
{
    rows_t *rows = arg;
    char name[WM_FOLDER_NAME_BYTES];
    fputs ("<td>", out);
    wm_page_print (out, "%s ", wm_folder_pairs_name (&rows->folders->pairs, hit->file, name));
    put_links (rows, hit->file, &hit->key, out);
    fputs ("</td>", out);
}

void wm_folders_page_write (wm_folders_page_t *self, const wm_folders_t *folders, const char *note,
                            FILE *out)
{
    rows_t rows = { self, folders };
    wm_page_begin (out, "Comparison of scores");
    write_verdict (folders, out);
    if (note && *note)
        wm_page_put (out, "p", "%s", note);
    fputs ("<section><h2>What was compared</h2>\n", out);
    wm_page_put (out, "p",
                 "A: %s; B: %s. Outputs of the same input are a pair, or of the same name.",
                 folders->pairs.side[0].folder, folders->pairs.side[1].folder);
    wm_compare_sides_write (self->sides, out);
    fputs ("</section>\n", out);
    write_labels (&rows, out);
    fputs ("<div class=\"two\">\n", out);
    write_hits (folders, out);
    wm_called_write (&folders->called, out);
    fputs ("</div>\n<section><h2>Outputs</h2>\n", out);
    write_list (&self->list[0], "differ", out);
    write_list (&self->list[1], "are the same", out);
    fputs ("</section>\n", out);
    fwrite (self->truth, 1, self->truth_bytes, out);
    wm_called_write_hits (&folders->called, hit_cell, &rows, out);
    if (!self->is_linked)
        wm_page_put (out, "p",
                     "No page of an event lies beside an output; wiremill show OUTPUT.scores.h5 "
                     "--output OUTPUT.html writes one, which is linked then.");
    fputs ("<div class=\"sign\"><p>Name</p><p>Date</p><p>Signature</p></div>\n"
           "<footer><p>Written by wiremill compare; which of the two is right, a comparison does "
           "not tell. The tolerance is absolute below 1 and relative above.</p></footer>\n",
           out);
    wm_page_end (out);
}
