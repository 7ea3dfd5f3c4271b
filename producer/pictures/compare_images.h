/* compare_images.h - the frames of two outputs with images (result: image), pixel by pixel.  */
#ifndef COMPARE_IMAGES_H
#define COMPARE_IMAGES_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>

/* Whether a file is an output of wiremill with images.  */
bool wm_compare_images_are (const char *path);

/* Compares the frames of both and prints what was found, for people or as JSON. *is_same: the same
   frames, wires and held tiles, and no pixel differs by more than the tolerance. WM_EBATCH: one
   cannot be read, or has no images; WM_EHOST: no memory.  */
wm_fault_t wm_compare_images (const char *a, const char *b, double tolerance, bool json,
                              bool *is_same, wm_error_t *error);

#endif
