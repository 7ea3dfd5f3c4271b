/* show_event.h - the pictures of `wiremill show --output`: what is asked for, what was read.  */
#ifndef SHOW_EVENT_H
#define SHOW_EVENT_H

#include "kernels/patch/wm_spec.h"
#include "producer/files/wm_call_rule.h"
#include "producer/files/wm_event.h"
#include "producer/files/wm_h5.h"
#include "producer/files/wm_scores.h"
#include "producer/layouts/wm_reader.h"
#include "schema/option/wm_option.h"
#include "schema/wm_pins.h"

#include <limits.h>
#include <stdio.h>

typedef enum { WM_SHOW_SVG, WM_SHOW_HTML } wm_show_kind_t;

typedef struct {
    /* what is asked for */
    const char *path, *output;     /* scores, and the picture */
    char input[WM_PINS_BYTES_MAX]; /* "": of images, which need none */
    wm_reader_pair_t pair;
    char planes[PATH_MAX], channels[PATH_MAX], hit_time[8], hit_offset[24],
        pedestal[24]; /* of it */
    wm_show_kind_t kind;
    bool has_event, has_hit, is_worst, has_zoom, has_pages;
    uint32_t page_from, page_to;  /* events of the file, from 1 on */
    int64_t id[4];                /* run, subrun, event, hit_id */
    int64_t cryostat, tpc, plane; /* -1: any */
    double zoom[4];               /* wires from, to; ticks from, to */
    const char *against;          /* another output, NULL: none, and the worst is that of truth */
    const char *score;            /* colour by this score alone; NULL: by what hits are called */

    /* what was read */
    wm_spec_t spec;
    char model[80];
    wm_scores_t scores;
    wm_call_rule_t call;
    int32_t *truth; /* (scores.n_row), or NULL; a label's place, -1: none of them */
    wm_reader_t *reader;
    wm_event_t event;
    wm_event_t charge;            /* of images, what the network saw; no planes: not there */
    char without[PATH_MAX + 200]; /* why */
    uint32_t n_page, page_at;     /* events on the page, and this one of them */
    uint32_t *page_row;           /* (n_page) the first row of each */
    uint32_t n_point;             /* space points of the event, whose hits are those on planes */
    wm_scores_t other;            /* rows of `against` */
    uint32_t *match; /* (scores.n_row) rows of `other` of the same hits, UINT32_MAX: none */
    uint32_t hit;    /* of the event; UINT32_MAX: none asked for */
} wm_show_t;

/* The picture of an output; the exit code.  */
int wm_show_picture (const wm_args_t *args, const char *path);

/* Reads a frame of an output with images as the event. WM_EBATCH: the output has no frame, or it is
   damaged; WM_EUSAGE: it has no such event, or no hits, which were asked for.  */
wm_fault_t wm_show_image (wm_show_t *show, wm_h5_t *file, wm_error_t *error);

/* Reads the charge of that event, for pages of images; else self->without has the reason.  */
void wm_show_charge (wm_show_t *self);

/* Gives up what reading needs not, and reads scores, input, truth and the event. In a process that
   ends then: nothing is freed. WM_EBATCH: a file cannot be read, or has nothing to draw.  */
wm_fault_t wm_show_read (wm_show_t *self, wm_error_t *error);

/* Puts the hits of the event's space points in their place. WM_EHOST: no memory.  */
wm_fault_t wm_show_project (wm_show_t *self, wm_error_t *error);

/* Returns what rows are: "hits", "windows", "space points".  */
const char *wm_show_rows (const wm_show_t *self);

/* Draws the event's plane with most hits as a part of a page, by scores alone. Faults as below.  */
wm_fault_t wm_show_figure (const wm_show_t *self, FILE *out, wm_error_t *error);

/* Reads the next event of a page of several.  */
wm_fault_t wm_show_turn (wm_show_t *self, wm_error_t *error);

/* Puts a name of a plane on the page, as "charge-0", of a later event "charge-0-3".  */
const char *wm_show_name (const wm_show_t *self, const char *what, uint32_t plane, char text[24]);

/* Draws what was read; WM_EUSAGE: there is no such plane, or the page would be too large.  */
wm_fault_t wm_show_draw (wm_show_t *self, FILE *out, wm_error_t *error);

/* Writes the page's begin with the script, and what it draws: the event's hits and planes, whose
   charge it takes from pictures on the page (their id: charge- and the plane's place). WM_EHOST: no
   memory.  */
void wm_show_live_begin (const char *title, FILE *out);
wm_fault_t wm_show_live (const wm_show_t *self, FILE *out, wm_error_t *error);

/* Returns what charge drifts in a tick, cm; 0: the input does not state it.  */
double wm_show_tick_cm (const wm_show_t *self);

/* Returns the tick of the trigger, where the drift begins; 0: the input does not state it.  */
double wm_show_trigger (const wm_show_t *self);

/* Returns what a row's hit is called (wm_call_rule.h); n_label: it is held.  */
uint32_t wm_show_label (const wm_show_t *self, uint32_t row);
double wm_show_score (const wm_show_t *self, uint32_t k, uint32_t row);

/* Returns the score of the same hit in the other output; NaN: it lacks the hit.  */
double wm_show_other (const wm_show_t *self, uint32_t k, uint32_t row);

#endif
