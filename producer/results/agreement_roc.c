/* agreement_roc.c - see agreement_roc.h.  */
#include "producer/results/agreement_roc.h"

#include "schema/page/wm_page.h"

#define GREY "#8a8a8a"
#define INK "#222"

void wm_agreement_figure (wm_svg_t *plot, FILE *out, const char *title, const char *about,
                          const char *x, const char *y)
{
    *plot = (wm_svg_t){
        .out = out, .title = title, .about = about, .x = { 0, 1, false, x }, .y = { 0, 1, false, y }
    };
    fputs ("<figure>", out);
    wm_svg_begin (plot);
}

void wm_agreement_figure_end (wm_svg_t *plot, const wm_svg_entry_t *entry, size_t n)
{
    wm_svg_legend (plot, entry, n);
    wm_svg_end (plot);
    wm_page_put (plot->out, "figcaption", "%s: %s.", plot->title, plot->about);
    fputs ("</figure>\n", plot->out);
}

const char *wm_agreement_colour (int label)
{
    return wm_svg_colour (wm_agreement_name[label], (uint32_t) label);
}

static void draw_label (wm_svg_t *plot, const wm_agreement_label_t *label, const char *colour,
                        bool is_dashed)
{
    double x[WM_AGREEMENT_ROC_MAX], y[WM_AGREEMENT_ROC_MAX];
    for (uint32_t i = 0; i < label->n_roc; i++) {
        x[i] = label->roc[i].rest;
        y[i] = label->roc[i].signal;
    }
    if (label->n_roc)
        wm_svg_curve (plot, x, y, label->n_roc, colour, is_dashed);
}

/* Begins the figure of curves.  */
static void begin (wm_svg_t *plot, const char *title, const char *about, FILE *out)
{
    wm_agreement_figure (plot, out, title, about, "share of the rest that is taken",
                         "share of the label found");
    wm_svg_line (plot, 0, 0, 1, 1, GREY, true);
}

void wm_agreement_roc (const wm_agreement_t *self, const char *title, FILE *out)
{
    wm_svg_entry_t entry[WM_TRUTH_END];
    wm_svg_t plot;
    size_t n = 0;
    begin (&plot, title, "each label against the rest; the dashes: no separation", out);
    for (int k = 0; k < WM_TRUTH_END; k++) {
        const char *colour = wm_agreement_colour (k);
        draw_label (&plot, &self->label[k], colour, false);
        if (self->label[k].n_roc)
            entry[n++] = (wm_svg_entry_t){ .text = wm_agreement_name[k], .colour = colour };
    }
    wm_agreement_figure_end (&plot, entry, n);
}

void wm_agreement_roc_both (const wm_agreement_t *a, const wm_agreement_t *b, int label, FILE *out)
{
    char title[64];
    wm_svg_t plot;
    if (!a->label[label].n_roc && !b->label[label].n_roc)
        return;
    snprintf (title, sizeof title, "ROC of %s in A and B", wm_agreement_name[label]);
    begin (&plot, title, "against the rest; the straight dashes: no separation", out);
    draw_label (&plot, &a->label[label], wm_agreement_colour (label), false);
    draw_label (&plot, &b->label[label], INK, true);
    wm_agreement_figure_end (
        &plot,
        (const wm_svg_entry_t[]){ { .text = "A", .colour = wm_agreement_colour (label) },
                                  { .text = "B", .colour = INK, .is_dashed = true } },
        2);
}
