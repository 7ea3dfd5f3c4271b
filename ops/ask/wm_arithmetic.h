/* wm_arithmetic.h - what people read about precision: what was taken, how exact it is, what was
   scored by what. Thread: one.  */
#ifndef WM_ARITHMETIC_H
#define WM_ARITHMETIC_H

#include <jansson.h>
#include <stdio.h>

/* A line for each signature that made rows of the campaign: "scored by  sparse/amx/bf16/v1  1,234
   hits (largest error 1.9e-03 on 2,000 of them)". `head` begins the first, the others are
   aligned.  */
void wm_arithmetic_rows (FILE *out, const json_t *status, const char *head);

/* A line for each class of machines of `wiremill status`.  */
void wm_arithmetic_classes (FILE *out, const json_t *status);

/* Whether `precision` is one that is measured, with what it promises for people ("fast, off by at
   most 5e-03") into text.  */
void wm_arithmetic_promise (const char *precision, const char *max_error, char text[80]);

/* A line on what this CPU would gain or cannot give in this precision; nothing where there is
   nothing to say. For a campaign that this machine scores by the sparse engine.  */
void wm_arithmetic_advise (FILE *out, const char *precision);

#endif
