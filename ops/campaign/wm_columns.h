/* wm_columns.h - which names the columns of the scores have, and where these come from.

   A wrong name is worse than a number: scores of another network under track, em, none, michel look
   like scores. So the columns have the names of the model's outputs, unless a specification file
   names labels (its user knows), or the heads are those that the labels of a preset were made
   for.  */
#ifndef WM_COLUMNS_H
#define WM_COLUMNS_H

#include "kernels/model/wm_model.h"
#include "kernels/patch/wm_spec.h"

#include <stdbool.h>

#define WM_COLUMNS_BYTES_MAX 640

typedef struct {
    const char *preset; /* the labels in the specification are its, unless the file has some */
    const char *file;   /* --spec is this file; NULL: a preset, or left out */
    int labelled;       /* the file has the key `labels` */
    bool chosen;        /* --spec is given: the patch is meant, so the model must take it */
} wm_columns_from_t;

/* Keeps the labels in `spec` or puts the names of the model's outputs there (none where these
   cannot be columns: out_0, ...), and puts a line about it into `text`: "columns track em none
   michel: labels of the preset protodune-2021". WM_EBATCH: the file's labels are not as many as the
   model's scores.  */
wm_fault_t wm_columns_choose (wm_spec_t *spec, const wm_columns_from_t *from,
                              const wm_model_t *model, char text[WM_COLUMNS_BYTES_MAX],
                              wm_error_t *error);

#endif
