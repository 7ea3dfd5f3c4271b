/* called.c - see called.h.  */
#include "producer/results/called.h"

#include "schema/page/wm_page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Keeps the hit if its scores are among those that differ most; of equals the first.  */
static void note (wm_called_t *self, const wm_called_hit_t *hit)
{
    uint32_t at = self->n_listed;
    while (at && hit->apart > self->hit[at - 1].apart)
        at--;
    if (at == WM_CALLED_LISTED)
        return;
    self->n_listed += self->n_listed < WM_CALLED_LISTED;
    memmove (&self->hit[at + 1], &self->hit[at], (self->n_listed - 1 - at) * sizeof *self->hit);
    self->hit[at] = *hit;
}

static void add_hit (wm_called_t *self, const wm_comparison_t *found, uint64_t i, uint32_t file)
{
    double a[WM_CALLED_LABELS_MAX], b[WM_CALLED_LABELS_MAX];
    wm_called_hit_t hit = { .key = found->a.key[found->pair[0][i]], .file = file };
    for (uint32_t k = 0; k < self->n_label; k++) {
        a[k] = wm_comparison_score_a (found, k, i);
        b[k] = wm_comparison_score_b (found, k, i);
        hit.apart = fmax (hit.apart, fabs (a[k] - b[k]));
    }
    hit.a = wm_call_by (&self->rule, a, 1);
    hit.b = wm_call_by (&self->rule, b, 1);
    self->n[hit.a][hit.b]++;
    self->n_hit++;
    if (hit.a == hit.b)
        return;
    self->n_other++;
    hit.score_a = a[hit.a];
    hit.score_b = b[hit.b];
    note (self, &hit);
}

static bool same_labels (const wm_called_t *self, const char (*label)[48])
{
    for (uint32_t k = 0; k < self->n_label; k++)
        if (strcmp (self->label[k], label[k]) != 0)
            return false;
    return true;
}

bool wm_called_add (wm_called_t *self, const wm_comparison_t *found, uint32_t file,
                    uint64_t *n_other)
{
    const uint32_t n = found->a.n_label;
    const uint64_t before = self->n_other;
    *n_other = 0;
    if (n < 2 || n > WM_CALLED_LABELS_MAX)
        return false;
    if (!self->n_label && found->n_scored) {
        self->n_label = n;
        memcpy (self->label, found->a.label, n * sizeof *self->label);
        self->rule = wm_call_rule_new (self->label, n, WM_CALL_LEAST);
    }
    if (self->n_label && (self->n_label != n || !same_labels (self, found->a.label)))
        return false;
    for (uint64_t i = 0; i < found->n_scored; i++)
        add_hit (self, found, i, file);
    *n_other = self->n_other - before;
    return true;
}

void wm_called_hit (FILE *out, const wm_scores_key_t *key)
{
    fprintf (out, "%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64, key->id[0], key->id[1],
             key->id[2], key->id[3]);
}

bool wm_called_links (const wm_page_events_t *events, const char *const path[2],
                      const wm_scores_key_t *hit, FILE *out)
{
    char url[WM_PAGE_EVENT_URL_BYTES];
    bool is_linked = false;
    for (int side = 0; side < 2; side++) {
        const char *link = wm_page_events_link (events, path[side], url);
        if (!link)
            continue;
        fprintf (out, "%s<a href=\"", is_linked ? " " : "");
        wm_page_print (out, "%s%s", link, hit ? "#" : "");
        if (hit)
            wm_called_hit (out, hit);
        fprintf (out, "\">%c</a>", "AB"[side]);
        is_linked = true;
    }
    return is_linked;
}

void wm_called_write_hits (const wm_called_t *self, wm_called_cell *cell, void *arg, FILE *out)
{
    char n[32], all[32], caption[160];
    if (!self->n_other)
        return;
    fputs ("<section><h2>Hits that are called otherwise</h2>\n", out);
    snprintf (caption, sizeof caption, "%s of %s, those whose scores differ most first",
              wm_page_count (self->n_listed, n), wm_page_count ((int64_t) self->n_other, all));
    wm_page_table (out, caption);
    wm_page_heads_of (out, "Hit (run:subrun:event:hit_id)|In A|In B|#Largest difference", NULL, 0,
                      cell ? "Pages" : "");
    for (uint32_t k = 0; k < self->n_listed; k++) {
        const wm_called_hit_t *hit = &self->hit[k];
        fputs ("<tr><th scope=\"row\" class=\"w\">", out);
        wm_called_hit (out, &hit->key);
        fputs ("</th>", out);
        wm_page_put (out, "td class=\"w\"", "%s %.4f", self->label[hit->a], hit->score_a);
        wm_page_put (out, "td class=\"w\"", "%s %.4f", self->label[hit->b], hit->score_b);
        wm_page_put (out, "td class=\"n\"", "%.4f", hit->apart);
        if (cell)
            cell (arg, hit, out);
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
    fputs ("</section>\n", out);
}

void wm_called_write (const wm_called_t *self, FILE *out)
{
    char text[32], all[32], rule[WM_CALL_TEXT_BYTES];
    const uint64_t n_same = self->n_hit - self->n_other;
    if (!self->n_label)
        return;
    fputs ("<section><h2>What hits are called</h2>\n", out);
    wm_page_table (out, "Hits by what they are called, rows A, columns B");
    wm_page_heads_of (out, "A \\ B", self->label, self->n_label, "");
    for (uint32_t r = 0; r < self->n_label; r++) {
        wm_page_row (out, "%s", self->label[r]);
        for (uint32_t c = 0; c < self->n_label; c++)
            fprintf (out,
                     r == c ? "<td class=\"n\"><strong>%s</strong></td>"
                            : "<td class=\"n\">%s</td>",
                     wm_page_count ((int64_t) self->n[r][c], text));
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
    wm_page_put (out, "p", "The same label in %s of %s hits (%.2f %%).",
                 wm_page_count ((int64_t) n_same, text), wm_page_count ((int64_t) self->n_hit, all),
                 self->n_other ? fmin (99.99, 100.0 * (double) n_same / (double) self->n_hit)
                               : 100.0);
    wm_page_put (out, "p", "Called %s.", wm_call_rule_text (&self->rule, rule));
    fputs ("</section>\n", out);
}
