/* wm_exact.h - values that float32 does not hold, in rows of float32.

   Rows of patches and scores are float32 throughout, from clients to engines and back. Of the types
   of ONNX, integers of 32 and 64 bits and FP64 have values that no float32 equals. A model that was
   imported for them (`--exact-types`) carries each value of such a port in several float32s:

     INT32, UINT32   2: the low 16 bits, then the others
     INT64, UINT64   3: the low 22 bits, the next 22, then the others
     FP64            4: a, b, c, k: the value is (a + b + c) 2^k, where a has its first 24 bits, b
                     the next; k is a multiple of 64, and a below 351. An infinity is a; b, c, k: 0

   All are numbers, and no integer's is larger than 2^24, so that what compares, packs and checks
   rows need not know of types. NaN in all of them is a value that is held. Two FP64 that are a
   rounding apart differ by little in each of the four.  Types are ONNX's numbers
   (TensorProto.DataType). Thread: any; plain values.  */
#ifndef WM_EXACT_H
#define WM_EXACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_EXACT_EACH_MAX 4u

/* Returns how many float32s carry a value of this type exactly; 1: a float32 holds each of its
   values, or it is no type of numbers.  */
uint32_t wm_exact_each (int type);

/* Writes n values, which need not be aligned, as n * wm_exact_each float32s. Of a type that
   float32 holds nothing is written.  */
void wm_exact_put (int type, const void *value, size_t n, float *to);

/* Reads n values. Returns whether the float32s, of anybody, are values of the type; those that are
   none, and NaN, become 0, of FP64 NaN.  */
bool wm_exact_take (int type, const float *from, size_t n, void *value);

/* Returns one value as a double, rounded; of a type that float32 holds, *from. NaN: it is held, or
   the float32s are no value of the type.  */
double wm_exact_real (int type, const float *from);

/* Writes n float32s as values of such a type: an integer's nearest one, of NaN 0.  */
void wm_exact_of_floats (int type, const float *from, size_t n, void *value);

#endif
