/* wiremill_engine.h - the contract between wiremill and an engine of your own: a plug-in. C99, C++.

   A plug-in is a shared object with one symbol, `wiremill_engine`, that needs none of wiremill's:

     cc -O2 -fPIC -shared -o hits.so hits.c $(pkg-config --cflags wiremill)
     wiremill plugin check ./hits.so
     wiremill run --engine ./hits.so --input waveforms.npy --output out/

   Rows. A row is one patch, waveform or candidate: the values of all inputs one behind the other,
   each in C order (the last dimension is dense), float32. Values have the unit that the file of
   the campaign has: wiremill changes none. The answer to a row is the values of all outputs,
   likewise. n rows lie one behind the other: row i begins at in + i * (values of a row).

   What wiremill relies on, and tests:
   - The answer to a row depends on this row alone: not on the rows beside it, on their order or
     number, on earlier calls, on the thread, on the locale or on time. A row may be scored twice.
   - An answer with a NaN or an infinity holds its row: it is reported, and never written. So a
     plug-in refuses one row with NaN, and none by an error.

   Where it runs: in a process of its own, which is started again after a crash, a hang (no call
   returns for 20 s, or ten times as long as the test at the start took) or an error. The rows of
   the call that ended it are then halved until the bad one is found, and that one is held. Rows a
   call: as many as take about a quarter of a second.

   It must not write to, or close, descriptors that it did not open; standard output goes to
   standard error.
   It must leave alone: the working folder, signal handlers, the environment. wiremill puts the
   locale and the floating-point mode of the calling thread back after each call.

   Which machine: a plug-in is native code. No worker loads one that came over the network: its
   operator names a file, whose SHA-256 must be the campaign's. That stands in every row's
   signature. --model goes to workers as data: a plug-in must not run code out of it.  */
#ifndef WIREMILL_ENGINE_H
#define WIREMILL_ENGINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The contract's version. A version that adds something takes plug-ins of the ones before it.  */
#define WIREMILL_ENGINE_VERSION 1u

#define WIREMILL_ENGINE_TENSORS_MAX 16
#define WIREMILL_ENGINE_DIMS_MAX 6
#define WIREMILL_ENGINE_ERROR_BYTES 256 /* of a text with its NUL, one line of UTF-8 */

/* What open and describe may use; all of it is wiremill's, and lives until close.  */
typedef struct {
    const char *model_path; /* a file with the bytes of --model, to read; "": none was given. Its
                               name is not the one that the operator gave */
    const void *model;      /* the same bytes; NULL: none */
    uint64_t model_bytes;
    uint32_t threads; /* CPUs that score may use in one call, at least 1 */
} wiremill_engine_config_t;

typedef struct {
    char name[64];  /* of an output: "peak" */
    uint32_t n_dim; /* without the rows: (48, 48) has 2; 0: one value */
    uint32_t dim[WIREMILL_ENGINE_DIMS_MAX]; /* each at least 1 */
} wiremill_engine_tensor_t;

/* Several threads may call score at once, each with other rows. Without it one call goes on at a
   time, not always in the same thread.  */
#define WIREMILL_ENGINE_CONCURRENT 1u
/* The same row has the same bits on every machine of one processor architecture. wiremill keeps
   answers of the machine that begins a campaign, and each worker must give the same.  */
#define WIREMILL_ENGINE_SAME_BITS 2u

typedef struct {
    char name[32], version[32]; /* of the plug-in, for people; printable ASCII */
    uint32_t flags;             /* of WIREMILL_ENGINE_CONCURRENT, WIREMILL_ENGINE_SAME_BITS */
    uint32_t n_input, n_output; /* 1 to WIREMILL_ENGINE_TENSORS_MAX */
    wiremill_engine_tensor_t input[WIREMILL_ENGINE_TENSORS_MAX];
    wiremill_engine_tensor_t output[WIREMILL_ENGINE_TENSORS_MAX];
} wiremill_engine_description_t;

/* describe, open and score report a fault by what they return, with a text in error
   (WIREMILL_ENGINE_ERROR_BYTES). They are called by one thread, but for CONCURRENT.  */
typedef struct {
    uint32_t version; /* WIREMILL_ENGINE_VERSION */

    /* Fills in *description, which is zero. 0: done. Must be quick, and give the same each time
       for the same --model.  */
    int (*describe) (const wiremill_engine_config_t *config,
                     wiremill_engine_description_t *description, char *error);

    /* Returns a handle for score and close; NULL: it cannot work on this machine. After describe,
       once in a process.  */
    void *(*open) (const wiremill_engine_config_t *config, char *error);

    /* Scores n rows, at least 1, from in, which it must not change, to out. 0: done, all of out is
       written. Anything else: it cannot go on; the process ends, as after a crash.  */
    int (*score) (void *engine, uint32_t n, const float *in, float *out, char *error);

    /* Frees the handle. May never be called: processes are killed.  */
    void (*close) (void *engine);
} wiremill_engine_t;

/* Export this:

     const wiremill_engine_t wiremill_engine = { WIREMILL_ENGINE_VERSION, describe, open, score,
                                                 close };  */
#if defined __GNUC__
__attribute__ ((visibility ("default")))
#endif
extern const wiremill_engine_t wiremill_engine;

#ifdef __cplusplus
}
#endif

#endif
