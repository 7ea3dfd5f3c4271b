/* wm_signature_private.h - values of tensors' types, for wm_signature*.c alone.  */
#ifndef WM_SIGNATURE_PRIVATE_H
#define WM_SIGNATURE_PRIVATE_H

#include "producer/serving/wm_signature.h"

/* Returns the i-th value. An integer above 2^53 may be another here, but never one that float32
   holds.  */
double wm_signature_value (wm_type_t type, const uint8_t *from, size_t i);

/* Stores a score as the i-th value. One that the type cannot hold becomes its nearest one, NaN of
   an integer 0 (such a row is counted as held).  */
void wm_signature_put_value (wm_type_t type, uint8_t *to, size_t i, float score);

/* Write n values of a tensor as the float32s of a row, and back.  */
void wm_signature_load (const wm_signature_port_t *port, const uint8_t *from, size_t n, float *to);
void wm_signature_store (const wm_signature_port_t *port, const float *score, size_t n,
                         uint8_t *to);

/* Returns whether the model takes n values: all are finite, or numbers.  */
bool wm_signature_takes (const wm_signature_t *self, const float *value, size_t n);

/* Returns whether float32 may have rounded one of n scores of this type: an integer of 32 bits and
   more, from 2^24 on. Never of NaN (a held row), nor of a type that is carried exactly.  */
bool wm_signature_is_unsure (wm_type_t type, const float *score, size_t n);

/* The text of that.  */
wm_ks_code_t wm_signature_unsure (const wm_signature_port_t *port, const char *model, size_t row,
                                  wm_ks_error_t *error);

/* Returns the values of one row of a tensor that fits the port.  */
size_t wm_signature_row_values (const wm_signature_t *self, const wm_signature_port_t *port,
                                const wm_kserve_tensor_t *tensor);

#endif
