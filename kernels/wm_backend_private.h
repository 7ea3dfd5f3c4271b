/* wm_backend_private.h - the functions behind an engine: each engine's file defines one table.

   What is known of an engine before it is opened stands in kernels/wm_engines.c (wm_engine_t).  */
#ifndef WM_BACKEND_PRIVATE_H
#define WM_BACKEND_PRIVATE_H

#include "kernels/wm_device.h"

#include <math.h>
#include <string.h>

/* A tensor that goes into a probe, or comes out of it.  */
#define WM_PROBE_DIMS_MAX 16
typedef struct {
    uint32_t n_dim;
    int64_t dim[WM_PROBE_DIMS_MAX]; /* with the batch dimension */
    uint64_t n_value;
    float *value;  /* (n_value) in: lent; out: for free () */
    bool is_whole; /* out: of a type of integers, or bool */
    bool is_exact; /* out: float32 holds each number of it */
} wm_probe_tensor_t;

typedef struct {
    /* NULL with *error. signature: as of wm_device_signature.  */
    void *(*open) (const wm_model_t *model, const wm_spec_t *spec, const wm_device_config_t *config,
                   char signature[64], wm_error_t *error);
    void (*close) (void *engine);
    /* WM_EPEER: a plug-in broke its contract, and none of its answers can be trusted.  */
    wm_fault_t (*score) (void *engine, const wm_batch_t *batch, uint8_t *status, float *scores,
                         _Atomic uint64_t *progress, wm_error_t *error);
    /* Of an engine that gathers batches, else NULL: the hits that fill it, and the call.  */
    uint32_t (*fill) (const void *engine);
    wm_fault_t (*score_many) (void *engine, uint32_t n, const wm_batch_t *const *batch,
                              float *const *scores, _Atomic uint64_t *progress, wm_error_t *error);
    /* Of a GPU that works on several jobs, in place of score and score_many; NULL: each job is
       scored when it is submitted. As wm_device_submit and wm_device_collect; n_left is n_hit, at
       least 1.  */
    wm_fault_t (*submit) (void *engine, uint32_t n, wm_job_t *const *job, wm_error_t *error);
    wm_fault_t (*collect) (void *engine, wm_job_t **job, wm_error_t *error);
    /* As wm_device_launches; NULL: not known.  */
    uint64_t (*launches) (const void *engine);
    /* isa of wm_device_candidate, "" for strict fp32, which comes last. NULL: it has one arithmetic
       for fast and one for fp32.  */
    bool (*candidate) (const wm_model_t *model, const wm_device_config_t *config, uint32_t i,
                       char isa[32], wm_error_t *error);
    /* As wm_device_madds; NULL: always 0.  */
    uint64_t (*madds) (void *engine, bool count);
    /* As wm_device_is_worn; NULL: never.  */
    bool (*is_worn) (const void *engine, wm_error_t *error);
    /* As wm_device_hands, of a CPU engine; NULL: 1. As wm_device_busy; NULL: not known.  */
    uint32_t (*hands) (const void *engine);
    wm_device_busy_t (*busy) (void *engine);
    /* As wm_device_lend; NULL: the engine has no use for it.  */
    wm_fault_t (*lend) (void *engine, const void *memory, size_t bytes, wm_error_t *error);
    /* Of openvino only, for the importer. Fills in the shapes of a model's outputs, whose names are
       given, at most WM_SHAPES_MAX. inner: they are tensors inside the model, whose first dimension
       counts, for one patch.  */
    wm_fault_t (*shape) (const void *original, size_t bytes, const wm_port_t *input,
                         uint32_t n_input, wm_port_t *output, uint32_t n_output, int inner,
                         wm_error_t *error);
    /* Of openvino and onnxruntime, for the importer: computes the tensors of an ONNX file that are
       named, its outputs or others that the file makes outputs (at most WM_SHAPES_MAX), from inputs
       of any shapes that the model takes: one tensor for each input port. All is lent for the
       probe's life. NULL with *error: WM_EBATCH, the engine does not take the file. probe_run:
       WM_EBATCH, it does not take these inputs; then *out holds nothing. One thread.  */
    void *(*probe_open) (const void *file, size_t bytes, const wm_port_t *input, uint32_t n_input,
                         const char *const *name, uint32_t n_name, wm_error_t *error);
    wm_fault_t (*probe_run) (void *probe, const wm_probe_tensor_t *in, wm_probe_tensor_t *out,
                             wm_error_t *error);
    void (*probe_close) (void *probe); /* NULL-safe */
} wm_backend_t;

extern const wm_backend_t wm_backend_reference, wm_backend_sparse, wm_backend_opencl,
    wm_backend_plugin;
/* Each in a shared object of its own, which exports them: wm_openvino.so, wm_onnxruntime.so,
   wm_cuda.so.  */
extern const wm_backend_t wm_backend_openvino, wm_backend_onnxruntime, wm_backend_cuda,
    wm_backend_cudnn;

/* Returns the functions of an engine, opening its shared object if it has one. NULL with WM_EHOST
   and how to get it.  */
const wm_backend_t *wm_backend_find (const wm_engine_t *engine, wm_error_t *error);

#endif
