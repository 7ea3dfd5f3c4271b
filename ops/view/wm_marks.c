/* wm_marks.c - see wm_marks.h.  */
#include "ops/view/wm_marks.h"

#include "schema/page/wm_page.h"

#include <math.h>
#include <string.h>

#define ROWS 8         /* of letters below each other, where marks are close */
#define CLOSE 0.025    /* of the picture's width: two letters */
#define SAME 0.001     /* of it: one line */
#define LISTED 60      /* in a table */
#define LETTER_PX 11.0 /* high */

static bool is_within (const wm_history_query_mark_t *mark, double from_s, double to_s)
{
    return mark->from_s >= from_s && mark->from_s <= to_s;
}

size_t wm_marks_count (const wm_history_query_t *past, double from_s, double to_s)
{
    size_t n = 0;
    for (size_t i = 0; i < past->n_mark; i++)
        n += is_within (&past->mark[i], from_s, to_s);
    return n;
}

static void draw_one (FILE *out, const wm_history_query_mark_t *mark, const wm_marks_frame_t *frame,
                      double share, size_t row)
{
    const double x = frame->left + share * (frame->right - frame->left);
    const char *anchor = share < 0.01 ? "start" : share > 0.99 ? "end" : "middle";
    fputs ("<g class=\"mark\"><title>", out);
    wm_page_print (out, "%s%s%s", mark->what->what, *mark->text ? ": " : "", mark->text);
    fprintf (out,
             "</title><line x1=\"%.2f\" x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#6a3d9a\" "
             "stroke-opacity=\"0.7\"/>",
             x, x, frame->top, frame->bottom);
    if (row < ROWS)
        fprintf (out,
                 "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"11\" "
                 "font-weight=\"bold\" fill=\"#6a3d9a\">%s</text>",
                 x, frame->top + LETTER_PX * (double) (row + 1), anchor, mark->what->letter);
    fputs ("</g>\n", out);
}

void wm_marks_draw (FILE *out, const wm_history_query_t *past, const wm_marks_frame_t *frame)
{
    double last[ROWS]; /* share of the last letter of a row */
    const wm_history_query_mark_t *before = NULL;
    double share_before = -1;
    for (size_t i = 0; i < ROWS; i++)
        last[i] = -1;
    for (size_t i = 0; i < past->n_mark; i++) {
        const wm_history_query_mark_t *mark = &past->mark[i];
        const double span_s = frame->to_s - frame->from_s,
                     share = span_s > 0 ? (mark->from_s - frame->from_s) / span_s : 0;
        size_t row = 0;
        if (!is_within (mark, frame->from_s, frame->to_s) ||
            (before && before->what == mark->what && share >= share_before &&
             share - share_before < SAME))
            continue;
        while (row < ROWS && last[row] >= 0 && fabs (share - last[row]) < CLOSE)
            row++;
        if (row < ROWS)
            last[row] = share;
        draw_one (out, mark, frame, share, row);
        before = mark;
        share_before = share;
    }
}

void wm_marks_table (FILE *out, const wm_history_query_t *past, double from_s, double to_s,
                     const char *(*date) (double unix_s, char text[32]))
{
    const size_t n = wm_marks_count (past, from_s, to_s), left_out = n > LISTED ? n - LISTED : 0;
    char text[32];
    size_t k = 0;
    if (!n)
        return;
    fputs ("<div class=\"table\" tabindex=\"0\"><table class=\"marks\"><caption>", out);
    if (left_out)
        wm_page_print (out, "Marks of the time line: the latest %d of %zu", LISTED, n);
    else
        fputs ("Marks of the time line", out);
    fputs ("</caption>\n<thead><tr><th scope=\"col\">Mark</th><th scope=\"col\">When</th>"
           "<th scope=\"col\">What</th><th scope=\"col\" class=\"n\">Times</th>"
           "<th scope=\"col\">Who, why</th></tr></thead>\n<tbody>\n",
           out);
    for (size_t i = 0; i < past->n_mark; i++) {
        const wm_history_query_mark_t *mark = &past->mark[i];
        if (!is_within (mark, from_s, to_s) || k++ < left_out)
            continue;
        wm_page_row (out, "%s", mark->what->letter);
        wm_page_put (out, "td", "%s", date (mark->from_s, text));
        wm_page_put (out, "td", "%s", mark->what->what);
        wm_page_put (out, "td class=\"n\"", "%.0f", mark->n);
        wm_page_put (out, "td", "%s", mark->text);
        fputs ("</tr>\n", out);
    }
    fputs ("</tbody></table></div>\n", out);
}

void wm_marks_row (const wm_history_query_t *past, double from_s, double to_s, char *letter,
                   size_t n)
{
    memset (letter, ' ', n);
    for (size_t i = 0; i < past->n_mark; i++) {
        const double at = (past->mark[i].from_s - from_s) / (to_s - from_s) * (double) n;
        if (at >= 0 && at < (double) n)
            letter[(size_t) at] = *past->mark[i].what->letter;
    }
}
