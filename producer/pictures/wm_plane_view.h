/* wm_plane_view.h - the picture of a wire plane: charge in grey, hits as coloured dots on it.

   Across lie wires, upwards ticks. Each pixel of the background is the largest |ADC| below it, so
   that a thin track does not fade when a plane is made small. Thread: one at a time.  */
#ifndef WM_PLANE_VIEW_H
#define WM_PLANE_VIEW_H

#include "producer/files/wm_event.h"
#include "schema/page/wm_svg.h"

#define WM_VIEW_CLASSES_MAX 66 /* the scores a specification may have, held hits, and one more */

/* Hits of one colour.  */
typedef struct {
    char name[48];
    const char *colour; /* lent */
    uint32_t n;
    size_t x_max, y_max;
    float *x, *y; /* wire, tick */
} wm_view_class_t;

typedef struct {
    char title[200], about[200];
    double width, height; /* px */
    wm_svg_axis_t x, y;
    double x_cm, y_cm; /* cm of a wire, of a tick: scales outside the frame; 0: not known */
    double y_zero;     /* the tick of 0 cm */
    const char *unit;  /* of `most`; NULL: none */
    uint8_t *pixel;    /* (n_y, n_x) from the top: 0 none, 255 most */
    uint32_t n_x, n_y;
    bool is_signed;  /* 128 none; a patch */
    bool is_painted; /* with its hits, which are no dots then */
    char id[24];     /* of the background on its page; "": it needs none */
    bool is_again;   /* the background is that of this id, which is on the page already */
    double most;     /* the value of the darkest */
    uint32_t n_class;
    wm_view_class_t class[WM_VIEW_CLASSES_MAX]; /* drawn in their order */
    const char *scale;                          /* what the first n_scale classes are equal */
    uint32_t n_scale;                           /* bands of, from 0 to 1; 0: none is */
    bool has_mark;                              /* a ring */
    double mark_x, mark_y;
    bool has_box; /* an outline */
    wm_svg_axis_t box_x, box_y;
} wm_plane_view_t;

/* Frees what is in it. Idempotent.  */
void wm_view_clear (wm_plane_view_t *self);

/* Adds a hit to a class. WM_EHOST: no memory.  */
wm_fault_t wm_view_add (wm_plane_view_t *self, uint32_t k, double wire, double tick,
                        wm_error_t *error);

/* Makes the background of a plane of the event, for the view's axes. WM_EHOST: no memory.  */
wm_fault_t wm_view_charge (wm_plane_view_t *self, const wm_event_t *event, uint32_t plane,
                           wm_error_t *error);

/* Copies the background of a view with the same axes.  */
wm_fault_t wm_view_copy (wm_plane_view_t *self, const wm_plane_view_t *from, wm_error_t *error);

/* Makes it of a patch (n_wire, n_bin) as the network sees it: values below 0 red, above blue.  */
wm_fault_t wm_view_patch (wm_plane_view_t *self, const float *patch, uint32_t n_wire,
                          uint32_t n_bin, wm_error_t *error);

/* Paints the hits over the background of a plane in place of dots, whose bytes grow with their
   number.  */
void wm_view_paint (wm_plane_view_t *self);

/* Writes it as SVG, at this height of a sheet.  */
wm_fault_t wm_view_svg (const wm_plane_view_t *self, FILE *out, double at_y, wm_error_t *error);

#endif
