/* wm_report.h - the page of `wiremill report`: a campaign on one page, for a screen and for paper.

   Written from what was asked before; nothing here asks or waits. Thread: one.  */
#ifndef WM_REPORT_H
#define WM_REPORT_H

#include "ops/ask/wm_history_query.h"
#include "ops/view/wm_report_files.h"

#include <jansson.h>
#include <stdio.h>
#include <time.h>

typedef struct {
    const json_t *status; /* "wiremill-status-1" with held_files (wm_account.h) */
    wm_history_query_t history;
    const char *folder;      /* the campaign's, or "" */
    const char *where;       /* what commands name it by: a folder, or --broker ENDPOINT */
    const char *note;        /* of who asked for the page; NULL: none */
    size_t n_output, n_read; /* outputs that are written; that were read for `scores` */
    const char *scores;      /* a part of a page about them, from a producer; "": none */
    size_t scores_bytes;
    const wm_report_files_t *files; /* NULL: they were not asked for */
    const char *no_scores;          /* why `scores` is empty */
    time_t now_s;
} wm_report_t;

void wm_report_write (const wm_report_t *self, FILE *out);

#endif
