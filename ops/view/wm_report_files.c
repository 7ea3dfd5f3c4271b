/* wm_report_files.c - see wm_report_files.h.  */
#include "ops/view/wm_report_files.h"

#include "ops/ask/wm_ask.h"
#include "schema/page/wm_page.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SQUARES_MAX 2000 /* more inputs share squares */
#define LISTED 500       /* rows of the table */
#define TITLE_BYTES 400

/* From good to bad: a square shows the worst of its inputs.  */
enum { WRITTEN, OPEN, PARTLY, HELD, CHANGED, STATES };
static const struct {
    const char *name, *what;
    char letter;
} state_of[STATES] = { [WRITTEN] = { "written", "written", 'W' },
                       [OPEN] = { "open", "open", 'O' },
                       [PARTLY] = { "partly", "written, some held", 'S' },
                       [HELD] = { "held", "held", 'H' },
                       [CHANGED] = { "changed", "changed since", 'C' } };

typedef struct {
    size_t n[STATES];
    int worst;
    char *title; /* of the first input in the worst state */
} square_t;

struct wm_report_files {
    size_t n, n_square, each; /* inputs; squares; inputs of a square, but of the last one */
    size_t n_state[STATES];
    bool is_linked;
    square_t square[SQUARES_MAX];
    FILE *rows; /* of the table: the first LISTED inputs */
    char *text;
    size_t bytes;
};

wm_report_files_t *wm_report_files_new (void)
{
    wm_report_files_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->each = 1;
    self->rows = open_memstream (&self->text, &self->bytes);
    if (!self->rows) {
        free (self);
        return NULL;
    }
    return self;
}

void wm_report_files_free (wm_report_files_t *self)
{
    if (!self)
        return;
    fclose (self->rows);
    for (size_t i = 0; i < self->n_square; i++)
        free (self->square[i].title);
    free (self->text);
    free (self);
}

static int state_of_file (const json_t *file)
{
    const char *state = wm_ask_text (file, "state");
    for (int s = STATES - 1; s > WRITTEN; s--)
        if (!strcmp (state, state_of[s].name))
            return s;
    return !strcmp (state, "written") ? wm_ask_int (file, "held") > 0 ? PARTLY : WRITTEN : OPEN;
}

static void add_to_square (square_t *to, const square_t *from)
{
    size_t n = 0;
    for (int s = 0; s < STATES; s++)
        n += to->n[s];
    if (!n || from->worst > to->worst) {
        free (to->title);
        to->title = from->title;
        to->worst = from->worst;
    } else
        free (from->title);
    for (int s = 0; s < STATES; s++)
        to->n[s] += from->n[s];
}

/* Two squares become one.  */
static void halve (wm_report_files_t *self)
{
    for (size_t i = 0; i < self->n_square; i++) {
        const square_t from = self->square[i];
        if (i % 2)
            add_to_square (&self->square[i / 2], &from);
        else
            self->square[i / 2] = from;
    }
    self->n_square = (self->n_square + 1) / 2;
    memset (self->square + self->n_square, 0,
            (SQUARES_MAX - self->n_square) * sizeof *self->square);
    self->each *= 2;
}

static void put_count (FILE *out, const json_t *file, const char *name)
{
    wm_page_count_cell (out, (uint64_t) wm_ask_int (file, name));
}

static void add_row (wm_report_files_t *self, const json_t *file, int state, const char *link)
{
    FILE *out = self->rows;
    char text[32];
    wm_page_row (out, "%s", wm_ask_text (file, "path"));
    wm_page_put (out, "td class=\"w\"", "%s", state_of[state].what);
    if (state == OPEN) /* its rows are not known yet */
        fputs ("<td class=\"n\">-</td>\n", out);
    else
        put_count (out, file, "hits");
    put_count (out, file, "scored");
    put_count (out, file, "held");
    const int64_t hits = wm_ask_int (file, "hits");
    if (state == OPEN || hits <= 0)
        snprintf (text, sizeof text, "-");
    else
        snprintf (text, sizeof text, "%.2f%%",
                  100 * (double) wm_ask_int (file, "held") / (double) hits);
    wm_page_put (out, "td class=\"n\"", "%s", text);
    wm_page_put (out, "td", "%s", wm_ask_text (file, "why"));
    if (link) {
        fputs ("<td class=\"w\"><a href=\"", out);
        wm_page_print (out, "%s", link);
        fputs ("\">event</a></td>", out);
        self->is_linked = true;
    } else
        fputs ("<td></td>", out);
    fputs ("</tr>\n", out);
}

void wm_report_files_add (wm_report_files_t *self, const json_t *file, const char *link)
{
    char title[TITLE_BYTES];
    const int state = state_of_file (file);
    const char *why = wm_ask_text (file, "why");
    snprintf (title, sizeof title, "%.200s: %s%s%.150s", wm_ask_text (file, "path"),
              state_of[state].what, *why ? ": " : "", why);
    if (self->n_square == SQUARES_MAX && self->n % self->each == 0)
        halve (self);
    if (self->n % self->each == 0)
        self->n_square++;
    square_t one = { .worst = state, .title = strdup (title) };
    one.n[state] = 1;
    add_to_square (&self->square[self->n_square - 1], &one);
    if (self->n++ < LISTED)
        add_row (self, file, state, link);
    self->n_state[state]++;
}

static void write_square (const wm_report_files_t *self, size_t k, FILE *out)
{
    const square_t *square = &self->square[k];
    size_t n = 0;
    for (int s = 0; s < STATES; s++)
        n += square->n[s];
    fprintf (out, "<span class=\"%s\" title=\"", state_of[square->worst].name);
    if (n > 1) {
        fprintf (out, "inputs %zu to %zu:", k * self->each + 1, k * self->each + n);
        for (int s = 0; s < STATES; s++)
            if (square->n[s])
                fprintf (out, " %zu %s;", square->n[s], state_of[s].what);
        fputs (" such as ", out);
    }
    wm_page_print (out, "%s", square->title ? square->title : "?");
    fprintf (out, "\">%c</span>", state_of[square->worst].letter);
}

static void write_grid (const wm_report_files_t *self, FILE *out)
{
    char n[32], each[32];
    if (self->each > 1)
        wm_page_put (out, "p",
                     "A square stands for %s inputs in their order, and shows the worst of them.",
                     wm_page_count ((int64_t) self->each, each));
    else
        wm_page_put (out, "p", "A square stands for an input, in their order.");
    fputs ("<p class=\"grid\">", out);
    for (int s = 0; s < STATES; s++)
        if (self->n_state[s]) {
            fprintf (out, "<span class=\"%s\">%c</span><small>", state_of[s].name,
                     state_of[s].letter);
            wm_page_print (out, "%s: %s", state_of[s].what,
                           wm_page_count ((int64_t) self->n_state[s], n));
            fputs ("</small>", out);
        }
    fputs ("</p>\n<div class=\"grid\" role=\"img\" aria-label=\"inputs by state; the table below "
           "has names\">\n",
           out);
    for (size_t k = 0; k < self->n_square; k++)
        write_square (self, k, out);
    fputs ("</div>\n", out);
}

void wm_report_files_write (const wm_report_files_t *self, const char *rows, FILE *out)
{
    char listed[32], all[32], its[1][48];
    if (!self || !self->n)
        return;
    fflush (self->rows);
    fputs ("<section><h2>Inputs</h2>\n", out);
    write_grid (self, out);
    if (self->n > LISTED)
        wm_page_put (out, "p", "The first %s of %s inputs; wiremill status --files lists all.",
                     wm_page_count (LISTED, listed), wm_page_count ((int64_t) self->n, all));
    wm_page_table (out, "Inputs, in their order");
    snprintf (*its, sizeof *its, "Its %.40s", rows);
    wm_page_heads_of (out, "Input|State", its, 1, "#Scored|#Held|#Share held|Reason|Page");
    fwrite (self->text, 1, self->bytes, out);
    wm_page_table_end (out);
    if (!self->is_linked)
        wm_page_put (out, "p",
                     "No page of an event lies beside an output; wiremill show "
                     "OUTPUT.scores.h5 --output OUTPUT.html writes one, which is linked then.");
    fputs ("</section>\n", out);
}
