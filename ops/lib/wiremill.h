/* wiremill.h - libwiremill: scores patches by a CNN, in the process that calls or by the workers of
   a broker. C99 and C++.

   wiremill_open takes a model: an ONNX file, a TensorFlow frozen graph (.pb), or a .wmm of
   `wiremill import`. wiremill_score turns n patches into n rows of scores, with the bits that
   `wiremill run` writes (precision fp32: on every x86-64 the same).

   What the library never does: end the process, print, install signal handlers, change the locale,
   the environment or the floating-point mode (calls compute in the default mode, whatever the
   caller's is, and give it back). It has no state but its handles. Errors are return
   values, with a text for a person in memory of the caller's. If it meets a mistake of its own
   (an assertion) or the compiler's runtime does, the process ends like any other.

   Threads: any number of threads may call wiremill_score with one handle at once. With `threads` 0
   or 1 and a model of the EmTrkMichelId family each call computes in the thread that calls, takes
   no lock, and starts no thread: eight threads that call score eight times as much. Any other
   engine, and `threads` above 1, has threads of its own, and calls of one handle take turns.
   wiremill_open and wiremill_close: from any thread; none may use a handle that is being closed.

   fork: a handle whose calls compute in the calling thread works in the child, too. Another handle
   returns WIREMILL_USAGE there ("opened before fork"); open the model again in the child. Closing
   is allowed in the child for every handle.

   Memory: a handle keeps the model mapped (47 MB for EmTrkMichelId, shared between processes that
   open one .wmm). Each call at once has memory of its own, which the handle keeps for later calls:
   60 MB for 256 patches of 48 x 48 with tracks, at most 150 MB where no pixel is zero. A .wmm must
   not be changed in place while it is open (replace it by a rename).

   Hostile files: `wiremill import` reads a model in a process that can do nothing else. The
   library reads .onnx and .pb in your process, with the same checks of every size; it does not
   fork, because your program may have threads. Import a file that you do not trust by the command,
   and open the .wmm, of which everything is checked. That is also faster: EmTrkMichelId opens in
   0.02 s as .wmm, in 0.25 s as .onnx.

   Environment: WM_ISA, WM_OPENVINO_SO, WM_ONNXRUNTIME_SO and WM_CUDA_SO as for the programs.
   Engines that are shared objects (OpenVINO, ONNX Runtime, CUDA) are looked for beside
   libwiremill.  */
#ifndef WIREMILL_H
#define WIREMILL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The interface: raised when something is added. What is here stays: symbols have the version that
   they came with (WIREMILL_1, WIREMILL_2), and the library is libwiremill.so.1 as long as that is
   true. WIREMILL_API 2: the client of a broker.  */
#define WIREMILL_API 2

/* Who must act.  */
typedef enum {
    WIREMILL_OK = 0,
    WIREMILL_AGAIN = 1, /* no one: no memory now, a full disk; try later */
    WIREMILL_INPUT = 3, /* the model's file or the patches are bad; the same again never works */
    WIREMILL_HOST = 4,  /* this machine: an engine is missing, a file cannot be read, no memory */
    WIREMILL_USAGE = 5  /* the caller: a wrong argument; no such file */
} wiremill_fault_t;

/* What happened, where, why, and what to do. Functions fill it in only where they fail; every
   `error` may be NULL.  */
typedef struct {
    int32_t fault;  /* wiremill_fault_t */
    char text[508]; /* ends with NUL, one line, without a newline */
} wiremill_error_t;

/* What became of a patch. The numbers are those of the column `status` in outputs.  */
enum {
    WIREMILL_SCORED = 0,
    WIREMILL_BAD_PIXEL = 3, /* the patch holds a NaN or an infinity: its scores are NaN */
    WIREMILL_POISON = 4,    /* of a broker: the patch kills the engine; its scores are NaN */
    WIREMILL_HELD = 5, /* the call failed, or the broker gave the patch up: its scores are NaN */
    WIREMILL_NONFINITE = 6 /* the model gave a NaN: all its scores are NaN */
};

/* How to open a model. Zero everything, set `size`, then what you want to choose; NULL for all of
   it means the defaults.  */
typedef struct {
    size_t size;           /* sizeof (wiremill_options_t): a later library knows what you have */
    const char *engine;    /* "auto" (NULL), "sparse", "openvino", "onnxruntime", "cuda", "cudnn",
                              "opencl", "reference" */
    const char *precision; /* "fp32" (NULL), "split", "fast": arithmetic that was measured on the
                              model's known answers, not on your patches, else fp32 */
    const char *outputs;   /* of .onnx and .pb: names of outputs, with commas; NULL: all */
    uint32_t threads;      /* 0 and 1: one a call; above, at most 256: threads of the handle */
    uint32_t reserved;     /* 0 */
} wiremill_options_t;

/* A model, open. Opaque.  */
typedef struct wiremill_t wiremill_t;

#define WIREMILL_DIMS_MAX 6

/* Returns the version of the library, such as "0.2.0". Static text.  */
const char *wiremill_version (void);

/* Opens the model at `path`, and proves the engine by the model's known answers. The import
   of an .onnx or .pb is kept in a file of $TMPDIR that is unlinked at once (its size: the
   model's). Returns NULL with *error: WIREMILL_USAGE, no
   such file or a wrong option; WIREMILL_INPUT, the file is damaged or no engine runs this model;
   WIREMILL_HOST, an engine that is not here, or computes wrongly here. Close what you opened.  */
wiremill_t *wiremill_open (const char *path, const wiremill_options_t *options,
                           wiremill_error_t *error);

/* Closes and sets *self_p to NULL. NULL-safe.  */
void wiremill_close (wiremill_t **self_p);

/* Returns the number of float32 values of a patch, all inputs of the model together.  */
size_t wiremill_n_value (const wiremill_t *self);

/* Fills in the shape of a patch as the model takes it, without dimensions of size 1: (wires, drift
   bins) for one channel; else in the model's own order, (3, 48, 48) or (48, 48, 3). Returns how
   many dimensions. A model of several inputs has one: their values one after another.  */
uint32_t wiremill_shape (const wiremill_t *self, uint32_t dim[WIREMILL_DIMS_MAX]);

/* Returns the number of scores of a patch.  */
size_t wiremill_n_output (const wiremill_t *self);

/* Returns the name of score i, "michel", as `wiremill run` names its columns; NULL behind the last,
   and of each of more than 1,024 scores, which are an image. Lent until the handle is closed.  */
const char *wiremill_label (const wiremill_t *self, size_t i);

/* Returns ENGINE/INSTRUCTION SET/ARITHMETIC/VERSION: scores of one signature are equal bit for bit,
   whatever the number of threads, the order and the grouping of patches. Lent.  */
const char *wiremill_signature (const wiremill_t *self);

/* Returns the SHA-256 of the model's file, hex, as outputs of `wiremill run` have it. Lent.  */
const char *wiremill_sha256 (const wiremill_t *self);

/* Scores n patches. patches: (n, n_value) float32, C order, pixels as the network was trained (the
   scale of `wiremill cut`); n_value is checked: it must be the model's. scores: room for (n,
   n_output). status: room for n, or NULL. n 0 is allowed and does nothing. Any n: 64 and more are
   fast. patches is only read. Blocks until all are scored.

   Returns WIREMILL_OK also where patches are BAD_PIXEL or NONFINITE: only status and NaN tell. Else
   nothing was scored: WIREMILL_USAGE, an argument is wrong, nothing is written; WIREMILL_AGAIN, no
   memory; WIREMILL_HOST, the engine failed; after the last two all scores are NaN, all status
   HELD.  */
wiremill_fault_t wiremill_score (wiremill_t *self, const float *patches, size_t n, size_t n_value,
                                 float *scores, uint8_t *status, wiremill_error_t *error);

/* Returns what a status means, "scored", "bad pixel", ... Static text, never NULL.  */
const char *wiremill_status_text (uint8_t status);

/* The client of a broker.

   `wiremill broker --clients --model FILE --campaign DIR` and any number of `wiremill work` score
   patches that programs send. The broker keeps nothing of them: patches that a killed worker had go
   to another; those of a client that closes or is killed are forgotten; those that a killed broker
   had are sent again to the one that is started after it, because the client has them until they
   are answered. Scores have the bits of wiremill_score where the workers have its signature.

   wiremill_connect starts a helper process, `wiremill-producer client`, which has the connection:
   the program named by WM_CLIENT_PROGRAM, else one beside the library, in ../bin or ../../bin from
   it, or in PATH. It is not a child of your process, and ends with the client or with your process.
   If the helper is killed, calls that wait return WIREMILL_HOST, and the next wiremill_submit
   starts another one. The client has one thread of its own, which gets no signals.

   Threads: any number of threads may use one client, or several; none may use one that is being
   closed. fork: in a child calls return WIREMILL_USAGE: connect again there. Closing is allowed. */
typedef struct wiremill_client_t wiremill_client_t;

/* How to connect. Zero everything, set `size`, then what you want to choose; NULL: the defaults. */
typedef struct {
    size_t size;           /* sizeof (wiremill_connect_options_t) */
    const char *join_file; /* the producer's key; NULL: the file that WM_JOIN_FILE names, or none */
    uint32_t patience_ms;  /* so long without a broker, and calls fail; 0: 60,000. One that is
                              connected and silent is waited for 6,000 at least */
    uint32_t reserved;     /* 0 */
    size_t memory;         /* bytes of patches under way at most; 0: 128 MiB */
    const char *helper;    /* path of `wiremill-producer`; NULL: looked for, as above */
} wiremill_connect_options_t;

/* Connects to the broker at `broker`: tcp://HOST:PORT, ipc:///PATH, or
   file:///DIR/endpoint.json of its campaign. Waits until the broker answers. Returns NULL with
   *error: WIREMILL_USAGE, a wrong argument or key file, or a broker that serves files;
   WIREMILL_HOST, no broker answers, it refuses the key, or the helper cannot be started.  */
wiremill_client_t *wiremill_connect (const char *broker, const wiremill_connect_options_t *options,
                                     wiremill_error_t *error);

/* Forgets what is under way, ends the helper and sets *self_p to NULL. NULL-safe.  */
void wiremill_client_close (wiremill_client_t **self_p);

/* The model's facts, as of a model that is open.  */
size_t wiremill_client_n_value (const wiremill_client_t *self);
uint32_t wiremill_client_shape (const wiremill_client_t *self, uint32_t dim[WIREMILL_DIMS_MAX]);
size_t wiremill_client_n_output (const wiremill_client_t *self);
const char *wiremill_client_label (const wiremill_client_t *self, size_t i);
const char *wiremill_client_sha256 (const wiremill_client_t *self);

/* Copies n patches, (n, n_value) float32, and has them scored; does not wait for that. *ticket
   names them. It stays valid, and the client keeps room for the scores, until wiremill_wait returns
   them or wiremill_forget is called. Waits until these patches and what is under way fit into
   `memory` (patches that alone do not fit wait until nothing is under way); timeout_ms below 0: as
   long as that takes. WIREMILL_AGAIN: not within timeout_ms, or no memory; nothing is sent.
   WIREMILL_HOST: the helper or the broker is gone, as the text explains. Where the helper has ended
   it starts another first, which takes as long as wiremill_connect, whatever timeout_ms is.  */
wiremill_fault_t wiremill_submit (wiremill_client_t *self, const float *patches, size_t n,
                                  size_t n_value, int timeout_ms, uint64_t *ticket,
                                  wiremill_error_t *error);

/* Returns at once: WIREMILL_OK, wiremill_wait will not wait (it may return an error);
   WIREMILL_AGAIN, patches are under way; WIREMILL_USAGE, there is no such ticket. *n_done, which
   may be NULL: patches that are answered.  */
wiremill_fault_t wiremill_poll (wiremill_client_t *self, uint64_t ticket, size_t *n_done,
                                wiremill_error_t *error);

/* Waits until the patches of a ticket are answered, at most timeout_ms (below 0: without a limit),
   copies scores (n, n_output) and status (n, or NULL), and ends the ticket. One thread may wait for
   a ticket. WIREMILL_OK: status states what became of each patch. WIREMILL_AGAIN: not within
   timeout_ms; nothing is written, the ticket stays, the text names what the client waits for.
   WIREMILL_HOST: they were not all scored, the text explains; all scores are NaN, all status HELD,
   and the ticket is over.  */
wiremill_fault_t wiremill_wait (wiremill_client_t *self, uint64_t ticket, int timeout_ms,
                                float *scores, uint8_t *status, wiremill_error_t *error);

/* Ends a ticket whose scores are no longer wanted. Unknown ones are passed over.  */
void wiremill_forget (wiremill_client_t *self, uint64_t ticket);

/* Scores n patches as wiremill_score does, by the broker: submits, and waits. Any n.  */
wiremill_fault_t wiremill_client_score (wiremill_client_t *self, const float *patches, size_t n,
                                        size_t n_value, float *scores, uint8_t *status,
                                        wiremill_error_t *error);

#ifdef __cplusplus
}
#endif
#endif
