/* wm_classify.h - Triton's classification extension: the highest scores of an output, with labels.

   Of an output that a request wants so, the answer has texts "SCORE:INDEX" or "SCORE:INDEX:LABEL"
   in place of scores: the k highest of each row, or of all values where the model's configuration
   has max_batch_size 0; the highest first, equal ones by their index, NaN last. A score is printed
   as Triton does: integers exactly, others with six digits behind the point. Labels are the lines
   of the output's label_filename; a class without a line, or with an empty one, has no label.
   Thread: any.  */
#ifndef WM_CLASSIFY_H
#define WM_CLASSIFY_H

#include "producer/net/wm_proto.h"
#include "producer/serving/wm_kserve.h"
#include "schema/base/wm_fault.h"

typedef struct wm_labels_t {
    uint32_t n;
    size_t longest; /* bytes */
    char **line;    /* n, "" where a class has none */
    char *text;     /* which they lie in */
} wm_labels_t;

/* Reads a file of labels, UTF-8, one a line; the caller's. NULL with WM_EBATCH.  */
wm_labels_t *wm_labels_read (const char *path, wm_error_t *error);
void wm_labels_destroy (wm_labels_t **self_p);

/* Returns whether values of this type can be ranked; so Triton's can.  */
bool wm_classify_has (wm_type_t type);

/* Returns the bytes that a ranking of n_list lists of n_value values takes at most, k of each, with
   what it needs while it is made. labels: NULL where there are none.  */
size_t wm_classify_bytes (wm_type_t type, size_t n_list, size_t n_value, uint32_t k,
                          const wm_labels_t *labels);

/* A ranking that may take long, between two slices of it. Zeroed at first.  */
typedef struct {
    size_t *index, list, at;
    int phase;
    wm_buffer_t text;
    uint32_t n_ranked; /* tensors, for the caller */
} wm_ranking_t;
void wm_ranking_clear (wm_ranking_t *self);

/* Puts the ranking in the place of a tensor whose data is allocated, and of a type that can be
   ranked. by_row: of each row, the tensor's first dimension. Takes from *left what it has worked
   (wm_slice.h). True: there is more, and the tensor is as it was.  */
bool wm_classify (wm_ranking_t *self, wm_kserve_tensor_t *tensor, bool by_row, uint32_t k,
                  const wm_labels_t *labels, size_t *left);

#endif
