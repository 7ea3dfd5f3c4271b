/* wm_defaults.h - what programs of several modules take where the user chose nothing, each once.

   WM_DEFAULT_TEXT (NAME) is the value of NAME as it is printed in --help.  */
#ifndef WM_DEFAULTS_H
#define WM_DEFAULTS_H

#include <stdint.h>

#define WM_DEFAULT_TEXT_(x) #x
#define WM_DEFAULT_TEXT(name) WM_DEFAULT_TEXT_ (name)

/* Allowed error of a score, relative above 1: of strict fp32 by its arithmetic, of the others by
   measurement on the campaign's hits.  */
#define WM_DEFAULT_ERROR_FP32 1e-5
#define WM_DEFAULT_ERROR_SPLIT 1e-5
#define WM_DEFAULT_ERROR_FAST 5e-3
#define WM_DEFAULT_ERROR_GENERAL 1e-4 /* of networks outside the family: in fp32, */
#define WM_DEFAULT_ERROR_ROUNDED 2e-2 /* in 16 bits */

#define WM_DEFAULT_SPEC "protodune-2021" /* the preset that gives what a file leaves out */
#define WM_DEFAULT_CHECK_SHARE "0.1%"
#define WM_DEFAULT_BULK_PERCENT "5"
#define WM_DEFAULT_BENCH_SECONDS "2"
#define WM_DEFAULT_JUDGED "1000"
#define WM_DEFAULT_WORKER_GIVE_UP "10m"
#define WM_DEFAULT_PRODUCER_GIVE_UP "60s"
#define WM_DEFAULT_STAGE_AHEAD 4 /* files */
#define WM_DEFAULT_STAGE_GIB 20 /* of copies of inputs from elsewhere */
#define WM_DEFAULT_STAGE_BYTES ((uint64_t) WM_DEFAULT_STAGE_GIB << 30)

/* Hits of a batch: of networks that the sparse engine runs, and of others. Threads of the sparse
   engine wait for each other a few times a batch, which favours whole planes; an engine that
   computes each patch alone takes long for them, and holds up a worker that is to leave. 4096 was
   the default of both in campaigns without the pin `cut`.  */
#define WM_DEFAULT_BATCH_HITS 16384
#define WM_DEFAULT_BATCH_GENERAL 4096

/* Allowed error of a score at this precision: "fp32", "split" or "fast".  */
double wm_default_error (const char *precision);

#endif
