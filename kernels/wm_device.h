/* wm_device.h - the interface of kernels/ to engines: opens a device, which scores batches.

   Engines: "reference" (double precision, plain loops), "sparse" (the exact-sparse CPU engine of
   the EmTrkMichelId family), "openvino" (any model, on dense patches), "onnxruntime" (any ONNX
   model, a patch at a time), "cuda" (an NVIDIA GPU: the family, and CNNs of ordinary operators),
   "cudnn" (the same, but the family by cuDNN alone), "opencl" (the family on a GPU of any maker,
   with the CPU's bits), and "auto": sparse for the family, else the one that the import chose
   (wm_model_scorer). Here auto never takes a GPU; a worker's does
   (gpuworker/engine/wm_engine_device.h), and one that declines it has "cpu", which is auto's other
   name here.

   Rules every engine keeps: row i of the scores is hit i; the bits of a row depend neither on the
   other hits of its batch nor on the number of threads; identical cells get identical rows; a hit
   whose score is not finite gets status WM_HIT_NONFINITE and NaN, but where infinities are kept
   (wm_device_config_t) only one that has a NaN. Thread: one at a time per device,
   but see wm_device_hands; wm_device_progress from any.

   Two ways to score: wm_device_score blocks until the batch is scored. On a GPU it is
   wm_device_submit and wm_device_collect of one job; by themselves they keep a GPU busy, because
   the host lays out the next jobs while the device computes.  */
#ifndef WM_DEVICE_H
#define WM_DEVICE_H

#include "kernels/model/wm_model.h"
#include "kernels/patch/wm_spec.h"
#include "schema/wm_batch.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define WM_SHAPES_MAX 512u /* outputs whose shapes the importer gets in one call */

/* What is known of an engine before it is opened.  */
typedef struct {
    const char *name; /* of --engine; its signatures begin with it, but cudnn's with "cuda", and
                         those of strict fp32 on a GPU with "sparse" (WM_SIGNATURE_FP32); "plugin"
                         of a file */
    bool is_gpu;      /* computes on a GPU, else on the CPU */
    bool gathers;     /* may gain by several batches in one call (wm_device_fill) */
    bool any_model;   /* runs any CNN, else those of the family only */
    bool has_isa;     /* its kernels are chosen by instruction set (isa of wm_device_config_t) */
    bool rounds;      /* has arithmetic of 16 bits for fast */
    bool splits;      /* has one for split, of two 16-bit parts, for networks of the family */
    const char *object, *variable, *advice; /* the shared object that it lies in, the variable that
                                               names another, how to get it; NULL: it is built in */
    struct {
        double fp32, rounded;
    } family, general; /* allowed error of a score, by kind of model (wm_device_limit) */
} wm_engine_t;

/* Returns the engine that --engine names. Never NULL: of another name, also "auto", one without a
   name, of which every bool is false.  */
const wm_engine_t *wm_device_engine (const char *name);

/* Checks --device, and that the engine of --engine heeds it, --precision and --isa (NULL: not
   given). WM_EUSAGE: no device has that name, or the engine would compute as without. "auto" heeds
   what it can.  */
wm_fault_t wm_device_heeds (const char *engine, const char *device, const char *precision,
                            const char *isa, wm_error_t *error);

/* As wm_device_engine, for a signature, e.g. of an old output whose engine is not here. Strict fp32
   of the family is the sparse engine's, also on a GPU that has its bits.  */
const wm_engine_t *wm_device_engine_of_signature (const char *signature);

/* Returns whether a GPU computed what the engine of --engine signed so.  */
bool wm_device_by_gpu (const char *engine, const char *signature);

/* The names of all engines for option tables; a test compares them with the rows.  */
#define WM_ENGINE_NAMES "auto|sparse|openvino|onnxruntime|cuda|cudnn|opencl|reference|torch"

/* Whether --engine names a plug-in (gpuworker/wiremill_engine.h): a file, or TorchScript's.  */
static inline bool wm_device_is_plugin (const char *engine)
{
    return strpbrk (engine, "./") || strcmp (engine, "torch") == 0;
}

/* Returns the plug-in's file, `engine` itself unless it is a name of the table (then in path).  */
const char *wm_device_plugin_file (const char *engine, char path[PATH_MAX]);

/* Writes them as a sentence for messages: "auto, sparse, ... and reference".  */
void wm_device_engine_names (char names[160]);

/* Whether this is "auto", or "cpu".  */
static inline bool wm_device_is_auto (const char *engine)
{
    return strcmp (engine, "auto") == 0 || strcmp (engine, "cpu") == 0;
}

/* Returns whether auto shall try the GPU: the driver of this machine works, is new enough and shows
   one. Else *error is what is worth a line (WM_EHOST: a driver that does not work, or is too old),
   or WM_OK: there is no driver, or no GPU for this process.  */
bool wm_device_gpu_shows (wm_error_t *error);

/* The same of OpenCL: the kernel shows a GPU, and OpenCL one that has what strict fp32 needs; never
   a device that is a CPU. WM_EHOST: OpenCL's GPUs lack something.  */
bool wm_device_opencl_shows (wm_error_t *error);

/* Returns whether this machine looks as if auto took a GPU: its device files are there, and
   wm_cuda.so (CUDA_VISIBLE_DEVICES does not hide all), or a driver of OpenCL other than pocl's.
   Opens nothing, so that nothing can hang.  */
bool wm_device_gpu_likely (void);

/* Returns whether the named engine's shared object can be opened on this machine; else *error
   (WM_EHOST) names how to get it.  */
bool wm_device_is_here (const char *engine, wm_error_t *error);

typedef struct wm_device_t wm_device_t;

typedef struct {
    const char *engine;         /* a name of the table, a plug-in's file, or "auto" */
    const char *precision;      /* "fp32", "split", "fast" */
    const char *isa;            /* instruction set of the sparse engine, "avx2", or one and an
                                   arithmetic, "amx/bf16"; NULL or "": by rule (wm_device_rule) */
    double max_error;           /* of split and fast: allowed error of a score; 0: the default */
    int threads;                /* 1 or more */
    int pin;                    /* keep each thread on a CPU of its own */
    bool keeps_infinite;        /* an infinite score is a value, as clients get it */
    bool on_callers;            /* of the sparse engine only: it has no threads, each call computes
                                   in its own, any number at once; other engines ignore it */
    _Atomic uint64_t *progress; /* counts hits finished, in shared memory; NULL: inside */
} wm_device_config_t;

/* Opens an engine for a model; `spec` is copied (NULL, or one whose patch is not the model's input:
   dense patches only), the model is lent for the device's life. NULL with *error: WM_EHOST names
   what is missing and how to get it, WM_EBATCH a model or specification this engine cannot run.  */
wm_device_t *wm_device_new (const wm_model_t *model, const wm_spec_t *spec,
                            const wm_device_config_t *config, wm_error_t *error);
void wm_device_destroy (wm_device_t **self_p);

/* Returns the signature (lent), ENGINE/INSTRUCTION SET/ARITHMETIC/VERSION: "sparse/amx/bf16/v1".
   Results of one signature are equal bit for bit, whatever the number of threads. Strict fp32 of
   the family is one arithmetic on every CPU and on the GPUs whose engines follow it (README.md), so
   that its signature names neither. A GPU that has it was compared with the CPU when it was opened
   (kernels/judge/wm_prove.h).  */
const char *wm_device_signature (const wm_device_t *self);

/* Returns the engine that it has, of "auto" the one that was chosen.  */
const wm_engine_t *wm_device_by (const wm_device_t *self);
#define WM_SIGNATURE_FP32 "sparse/fma/fp32/v1"

/* Fills in the i-th arithmetic that config's precision may take on this machine, the fastest first;
   the last is strict fp32. false: there are no more (or *error: the engine cannot run). A device of
   this `precision` and `isa` has the arithmetic.  */
typedef struct {
    char precision[8], isa[32];
} wm_candidate_t;
bool wm_device_candidate (const wm_model_t *model, const wm_device_config_t *config, uint32_t i,
                          wm_candidate_t *candidate, wm_error_t *error);

/* Fills in the instruction set of strict fp32 if isa ("": WM_ISA) names it or a rounded kernel of
   it; "": by rule.  */
void wm_device_strict_isa (const char *isa, char strict[32]);

/* Fills in the candidate that has this signature, so that a restarted engine makes the same
   bits.  */
void wm_device_recall (const char *signature, const char *precision, wm_candidate_t *candidate);

/* Returns the architecture that this program was built for, "x86-64" or "aarch64".  */
const char *wm_device_cpu (void);

/* Fills in the class of this machine, as far as scores can differ: a campaign pins one signature to
   each class. wm_device_cpu () for strict fp32 of the family; the instruction sets that split and
   fast may take (of those that --isa leaves); OpenVINO's for general models; a GPU's name.
   signature: of an open device of config's engine; on a CPU of any device that scores the model. */
void wm_device_class (const wm_model_t *model, const wm_device_config_t *config,
                      const char *signature, char name[64]);

/* Fills in row i of the sparse engine's table: which precisions may take it, and whether this CPU
   can run it (`here`). false: there are no more.  */
typedef struct {
    const char *isa, *arithmetic;
    bool here, fp32, split, fast;
} wm_rule_t;
bool wm_device_rule (uint32_t i, wm_rule_t *rule);

/* Scores a batch: status (n_hit), scores (n_hit, n_output). Of a ragged model
   (kernels/model/wm_model.h) a batch is one ragged row, and so are its scores; a row that the model
   does not take gets WM_HIT_HELD and a refusal with the reason. WM_EBATCH: this batch can never be
   scored (wrong patch size); WM_EAGAIN: no memory for it now (fewer of its hits may need less);
   WM_EHOST: this machine failed, or a GPU's scores were not the CPU's (kernels/judge/wm_canary.h),
   or not what they had been (kernels/judge/wm_canary_cache.h). Blocks; not while jobs are
   submitted. Nothing is allocated after the first batches of a size.  */
wm_fault_t wm_device_score (wm_device_t *self, const wm_batch_t *batch, uint8_t *status,
                            float *scores, wm_error_t *error);

/* Announces to the device that batches will lie in this memory until it is destroyed: a GPU pins it
   and copies from there. WM_EHOST: it cannot; then batches need one more copy on the host.  */
wm_fault_t wm_device_lend (wm_device_t *self, const void *memory, size_t bytes, wm_error_t *error);

/* Returns the hits needed to saturate the device in one call, of a GPU in one launch. 0: several
   batches in one call gain nothing.  */
uint32_t wm_device_fill (const wm_device_t *self);

/* Returns how many calls of wm_device_score and wm_device_score_many may run at once, each by a
   thread of its own: 2 of the sparse engine with several threads, which then begins one batch while
   the other ends; UINT32_MAX of one whose calls compute themselves (on_callers); 1 of other CPU
   engines; 0 of a GPU: one thread submits jobs and collects them.  */
uint32_t wm_device_hands (const wm_device_t *self);

/* A batch on its way through a device. The caller fills in the first part. All of the job, its
   batch and its results are lent to the device until wm_device_collect returns the job, or until a
   call of the device fails.  */
typedef struct wm_job_t {
    const wm_batch_t *batch;
    uint8_t *status; /* (n_hit) */
    float *scores;   /* (n_hit, n_output) */
    void *owner;     /* of the caller */

    wm_error_t error; /* when it is collected: fault WM_OK, scored; WM_EBATCH, refused; WM_EAGAIN,
                         no memory for it now */

    struct wm_job_t *next;      /* these three are the device's */
    uint32_t n_left;            /* hits without scores */
    _Atomic uint64_t *progress; /* where hits are counted; NULL: nowhere */
} wm_job_t;

/* Submits n jobs, which share launches of the device with those before and after them; waits only
   where all memory of the device is in use. WM_EHOST discards all jobs that are submitted and not
   collected: none of their scores is valid, nothing touches them any more, and every later call
   fails alike.  */
wm_fault_t wm_device_submit (wm_device_t *self, uint32_t n, wm_job_t *const *job,
                             wm_error_t *error);

/* Waits for a submitted job that has all its scores, or was refused, and returns it in *job: each
   once, in any order. *job is NULL where none is left. WM_EHOST as above.  */
wm_fault_t wm_device_collect (wm_device_t *self, wm_job_t **job, wm_error_t *error);

/* Returns the launches of a GPU since the device was made, each of hits of one job or several; 0:
   not known.  */
uint64_t wm_device_launches (const wm_device_t *self);

/* Returns the seconds of the engine's threads since the device was made, while it had a batch:
   busy_s those in which a thread had something to do, idle_s the others. 0: not known.  */
typedef struct {
    double busy_s, idle_s;
} wm_device_busy_t;
wm_device_busy_t wm_device_busy (wm_device_t *self);

/* Scores n batches in one call, each with the bits that it has alone. After a fault none of the
   scores is valid, and it is unknown which batch was the cause: after WM_EBATCH, score each
   alone.  */
wm_fault_t wm_device_score_many (wm_device_t *self, uint32_t n, const wm_batch_t *const *batch,
                                 uint8_t *const *status, float *const *scores, wm_error_t *error);

/* Returns the hits finished since the device was made; advances while wm_device_score runs.  */
uint64_t wm_device_progress (const wm_device_t *self);

/* Returns whether another process should score the next batch, because this one keeps memory of
   those before; *error has the text. Only a plug-in that has a limit.  */
bool wm_device_is_worn (const wm_device_t *self, wm_error_t *error);

/* Makes calls by this thread, of devices that have a `progress`, count hits here instead.  */
void wm_device_count_here (_Atomic uint64_t *progress);

/* Returns the multiply-adds executed since the device was made while counting was on; `count` turns
   counting, which takes time, on or off. 0: unknown (a GPU), or the engine computes every patch in
   full (wm_model_madds).  */
uint64_t wm_device_madds (wm_device_t *self, bool count);

/* Returns the allowed error of a score by the signature of the engine that made it, if no campaign
   states one: the limits in its row of the table; 0 of a plug-in that promises its bits. What 16
   bits do to a score depends on the model: a campaign measures it (wm_trial.h).  */
double wm_device_limit (const wm_model_t *model, const char *signature);

/* Returns the error of a score: relative above 1, because not all scores are probabilities. 0 of
   equal infinities; infinity of others, and where one of the two is not a number.  */
double wm_device_off (double score, double right);

/* Returns the largest error of a row of n scores, all outputs of the model, each compared as the
   value of its type that it is, in units of `unit`. What should be no number is passed over;
   infinity: a ragged row has another head. *where: the first float32 of the value; as it was if
   none is off.  */
double wm_device_row_off (const wm_model_t *model, const float *scores, const float *right,
                          size_t n, double unit, size_t *where);

/* Returns the i-th instruction set, and its precision, of the sparse engine that this CPU cannot
   run, so that no test here covers it ("amx", "bf16"); NULL: there are no more.  */
const char *wm_device_missing (uint32_t i, const char **precision);

/* Self-test: scores the model's known answers and compares (wm_device_limit; with rounded weights
   the limit is so wide that only a machine that computes wrongly fails, because precision is
   measured elsewhere). For a general model in OpenVINO's fast, whose error has no bound, and for a
   model without known answers: seeded patches, alone and side by side, must give the same bits.
   A NaN is what the model gives on a patch, not a fault: it equals another, and a known answer that
   is one is not compared; an infinity equals itself. WM_EHOST with the largest difference if it
   fails.  */
wm_fault_t wm_device_self_test (wm_device_t *self, wm_error_t *error);

/* Returns the first of n values that has other bits in b, n: none. NaN are all the same.  */
static inline size_t wm_bits_differ (const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp (&a[i], &b[i], sizeof *a) != 0 && !(isnan (a[i]) && isnan (b[i])))
            return i;
    return n;
}

#endif
