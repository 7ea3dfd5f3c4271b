/* wm_library.h - what libwiremill and its helper process send each other, on a pair of sockets.

   libzmq and czmq have threads, signal handlers and assertions of their own, which a program that
   links libwiremill must not get. So the library starts `wiremill-producer client`, which has the
   session with the broker; both are of one release, on one machine, and trust each other. A frame
   is this header and `bytes` bytes. The end of the stream ends the helper, and fails what the
   library waits for.

     library  BATCH   number, n; float32 (n, n_value), all numbers; of a ragged campaign one
                      ragged row (schema/wm_ragged.h)
              SHARED  number, n; uint64: where in the shared memory they are, until they are
                      answered; not of a ragged campaign. Only where the helper was given such
                      memory (--memory)
     helper   READY   first, and once: wm_library_facts_t, then n_output labels of
                      WM_LIBRARY_LABEL_BYTES each, none of more than WM_OUTPUTS_MAX outputs.
                      A ragged campaign is for the gateway: libwiremill refuses it
              RESULT  number, n; n statuses, then float32 (n, n_output); or a ragged row, or
                      none where the status is not 0
              HELD    number; the reason: the broker gave these patches up
              WAITS   text: what the helper waits for; "": for nothing, also after each lost session
              FAILED  n: wm_fault_t; text. The helper ends  */
#ifndef WM_LIBRARY_H
#define WM_LIBRARY_H

#include <stdint.h>

#define WM_LIBRARY_FD 3 /* the helper's end of the pair */
#define WM_LIBRARY_LABEL_BYTES 32
#define WM_LIBRARY_DIMS_MAX 6

typedef enum {
    WM_LIBRARY_BATCH = 1,
    WM_LIBRARY_READY,
    WM_LIBRARY_RESULT,
    WM_LIBRARY_HELD,
    WM_LIBRARY_WAITS,
    WM_LIBRARY_FAILED,
    WM_LIBRARY_SHARED,
} wm_library_type_t;

typedef struct {
    uint32_t type, n;
    uint64_t number; /* of the batch, chosen by the library */
    uint64_t bytes;  /* behind the header */
} wm_library_frame_t;

typedef struct {
    uint32_t n_value, n_output, n_dim, dim[WM_LIBRARY_DIMS_MAX];
    uint32_t is_ragged; /* n_value and n_output are the most that a row may have */
    uint32_t is_exact;  /* several float32s are a value of some inputs or outputs (wm_exact.h) */
    char model[65];     /* SHA-256 of the model's file, hex */
} wm_library_facts_t;

#endif
