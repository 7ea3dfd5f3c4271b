/* wm_top.h - the screens of `wiremill top`: several campaigns, one campaign, one worker, help.

   They are drawn on a canvas from what is known of each campaign; nothing here asks or waits.
   Thread: one.  */
#ifndef WM_TOP_H
#define WM_TOP_H

#include "ops/ask/wm_history_query.h"
#include "ops/view/wm_screen.h"
#include "schema/base/wm_fault.h"

#include <jansson.h>
#include <stdint.h>

#define WM_TOP_BUCKETS 180 /* of the graph: the last quarter of an hour */
#define WM_TOP_BUCKET_S 5

/* What is known of one campaign; strings are "" where there is nothing.  */
typedef struct {
    char given[256];             /* the folder or address that was typed */
    json_t *files;               /* rows of "wiremill-files-1"; NULL: nothing was asked */
    json_t *status;              /* "wiremill-status-1", the last answer; NULL: none yet */
    char note[480];              /* why nothing answers now */
    wm_fault_t refusal;          /* not WM_OK: the broker refuses who asks; the note explains */
    double age_s;                /* of the last answer */
    float rate[WM_TOP_BUCKETS];  /* hits/s, the latest last; below 0: not known */
    char mark[WM_TOP_BUCKETS];   /* letters (wm_marks.h), ' ' or 0: no mark */
    wm_history_query_work_t did; /* where no broker serves it; from_s 0: nothing is known */
} wm_top_campaign_t;

typedef enum {
    WM_TOP_LIST,
    WM_TOP_CAMPAIGN,
    WM_TOP_WORKER,
    WM_TOP_FILES,
    WM_TOP_WHY,
    WM_TOP_HELP
} wm_top_screen_t;

#define WM_TOP_FILES_MAX 10000 /* that are listed */

typedef struct {
    wm_top_screen_t screen;
    bool has_keys;    /* false: one screen for scripts, all lists in full */
    double late_s;    /* an answer that is older is late; 0: none is */
    int chosen;       /* campaign */
    int sort;         /* what workers are sorted by */
    char worker[128]; /* label of the chosen one; "": the first */
    int first;        /* row at the top of the list */
    /* set by drawing: rows of the list that are shown, their first line, the chosen, all rows */
    int page, line, at, n;
    char filter[64];   /* workers and files that do not contain it are not listed */
    bool is_typing;    /* the filter */
    char message[512]; /* last line but one */
    bool is_question;
} wm_top_view_t;

void wm_top_draw (wm_screen_t *canvas, wm_top_view_t *view, const wm_top_campaign_t *campaign,
                  int n_campaign);

/* Moves the choice by so many rows.  */
void wm_top_move (wm_top_view_t *view, const wm_top_campaign_t *campaign, int n_campaign, int rows);

/* Chooses the row of the list on this line. Returns whether it was chosen before.  */
bool wm_top_click (wm_top_view_t *view, const wm_top_campaign_t *campaign, int n_campaign,
                   int line);

/* The next order of workers; its name.  */
const char *wm_top_sort_next (wm_top_view_t *view);

/* Returns one word for the state, such as "running", "paused", "finished", "no answer".  */
const char *wm_top_state (const wm_top_campaign_t *campaign);

/* How it is to be shown: "finished" is good only where nothing is held.  */
wm_style_t wm_top_style (const wm_top_campaign_t *campaign);

/* Writes the worker's GPU, by its name without its maker's, and its engine.  */
void wm_top_device (const json_t *worker, char text[160]);

/* Writes when a campaign was worked on, its rate and most workers; "": nothing is known. Returns
   text.  */
const char *wm_top_did (const json_t *status, const wm_history_query_work_t *did, char text[256]);

/* Makes the graph of the history. It ends at now_s (Unix time); 0: no broker serves the campaign,
   so that it ends where it was worked on last, and `did` is set.  */
void wm_top_history (wm_top_campaign_t *campaign, const wm_history_query_t *past, double now_s);

#endif
