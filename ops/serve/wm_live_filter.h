/* wm_live_filter.h - a page of a campaign that is a table of any rows, which a form of plain HTML
   filters by words and by class. It has no script: nothing changes while a person reads it.  */
#ifndef WM_LIVE_FILTER_H
#define WM_LIVE_FILTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define WM_LIVE_CLASS_BYTES 101

/* Texts are lent; "": nothing is there.  */
typedef struct {
    const char *path;   /* of its input */
    const char *output; /* for the note */
    const char *page;   /* of its events, beside the output */
    const char *reason; /* NULL: its class */
    char what[96], place[64]; /* place: of a hit on its plane */
    bool is_hit; /* `what` names one, to which that page can go */
    char number[32];
    double value; /* of the number, for sorting */
    char class[WM_LIVE_CLASS_BYTES];
} wm_live_filter_row_t;

typedef struct {
    const char *name; /* of the page, in its path */
    const char *heading, *heads, *choice, *note;
} wm_live_filter_t;

/* Writes a page's begin, to behind <main>: "CAMPAIGN: title". is_read: what it shows is being read,
   and the browser asks again. now: its status, NULL: not known.  */
void wm_live_filter_begin (FILE *out, const json_t *now, const char *title, const char *base,
                           bool is_read);
void wm_live_filter_end (FILE *out);

/* Writes the form and the rows (n) that the query asks for.  */
void wm_live_filter (FILE *out, const wm_live_filter_t *self, const wm_live_filter_row_t *row,
                     size_t n, const char *base, const char *query);

/* Takes a reason's first words, "truncated" of "truncated: it has 100 bytes of 200".  */
void wm_live_filter_class (const char *reason, char class[WM_LIVE_CLASS_BYTES]);

#endif
