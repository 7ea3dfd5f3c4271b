/* wm_json.h - the numbers of tensors in a request's JSON, read without a tree of them.

   jansson takes some 40 bytes for a number of two, so it gets only what is left of the text when
   the arrays "data" of the inputs are cut out (wm_json_skeleton), which is little. These arrays are
   read straight into their tensors (wm_json_read), as strictly as jansson would: RFC 8259. Only
   what JSON lacks may have words: NaN is null or NaN, an infinity Infinity, -Infinity or a number
   beyond FP64. Thread: any; plain values.  */
#ifndef WM_JSON_H
#define WM_JSON_H

#include "producer/serving/wm_kserve.h"

#define WM_JSON_DEPTH_MAX 100   /* of nested arrays of values; Triton's */
#define WM_JSON_NUMBER_MAX 1100 /* characters: FP64 written out has up to 1,080 */

/* The array "data" of an input, from '[' to its ']'. text is NULL if the input has none.  */
typedef struct {
    const char *text;
    size_t bytes;
} wm_json_data_t;

/* Copies the text but for these arrays, each of which becomes `true`, to a malloc'd block, the
   caller's. Fills data[i] of the i-th object of "inputs", for i < data_max. Returns NULL where the
   copy would have more than bytes_max bytes.  */
char *wm_json_skeleton (const char *text, size_t n, size_t bytes_max, wm_json_data_t *data,
                        size_t data_max, size_t *bytes);

/* Copies the text but for texts in the object "parameters" whose names begin so: each becomes
   `true`, and data[i], for i < data_max, is what is between its quotes, as it is there. Returns as
   wm_json_skeleton does.  */
char *wm_json_cut_texts (const char *text, size_t n, size_t bytes_max, const char *prefix,
                         wm_json_data_t *data, size_t data_max, size_t *n_data, size_t *bytes);

typedef struct {
    const char *at, *end;
    uint8_t *to; /* where the next value goes */
    size_t left; /* values that are still wanted */
    int depth;
    bool is_open;  /* behind '[': a value or ']' comes */
    bool is_value; /* behind ',': a value comes */
} wm_json_reader_t;

typedef enum {
    WM_JSON_MORE, /* call it again */
    WM_JSON_DONE, /* all of the array is read; `left` may not be 0 */
    WM_JSON_BAD,  /* at `at`: no JSON, or no value of the type */
    WM_JSON_MANY, /* more values than wanted */
} wm_json_state_t;

/* Begins to read `data` as n values to `to`.  */
wm_json_reader_t wm_json_reader (wm_json_data_t data, uint8_t *to, size_t n);
/* Reads on, and takes the text it has read from *bytes until that is 0. `type`: numbers and BOOL
   but for FP16 and BF16, which JSON has not.  */
wm_json_state_t wm_json_read (wm_json_reader_t *self, wm_type_t type, size_t *bytes);

#endif
