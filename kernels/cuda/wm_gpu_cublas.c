/* wm_gpu_cublas.c - all of cuBLASLt: the split product of the first dense layer.

   The splits are a strided batch: split s multiplies columns s k .. of a by rows s k .. of b into a
   result of its own. So how a sum is cut is ours and never depends on the number of rows, there is
   work for every multiprocessor without cuBLASLt's own splitting of K (algorithms that split are
   passed over), and the partial sums are short, which keeps strict float32 strict.

   cuBLASLt stores by columns: our row-major c (rows, n) is its c' (n, rows) = b' a', nothing is
   transposed. No RELU epilogue: the sums before bias and activation are what a checksum of this
   product compares.  */
#include "kernels/cuda/wm_gpu_cublas.h"
#include "kernels/cuda/wm_gpu_library.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALGORITHMS_MAX 64
#define WORKSPACE_BYTES_MAX (32u << 20)

/* cuBLASLt's functions by their own names, in the order of `names`.  */
typedef struct {
    __typeof__ (cublasLtCreate) *create;
    __typeof__ (cublasLtDestroy) *destroy;
    __typeof__ (cublasLtGetVersion) *version;
    __typeof__ (cublasLtGetStatusName) *status_name;
    __typeof__ (cublasLtMatmulDescCreate) *desc_new;
    __typeof__ (cublasLtMatmulDescDestroy) *desc_destroy;
    __typeof__ (cublasLtMatrixLayoutCreate) *layout_new;
    __typeof__ (cublasLtMatrixLayoutDestroy) *layout_destroy;
    __typeof__ (cublasLtMatrixLayoutSetAttribute) *layout_set;
    __typeof__ (cublasLtMatmulPreferenceCreate) *preference_new;
    __typeof__ (cublasLtMatmulPreferenceDestroy) *preference_destroy;
    __typeof__ (cublasLtMatmulPreferenceSetAttribute) *preference_set;
    __typeof__ (cublasLtMatmulAlgoGetHeuristic) *heuristic;
    __typeof__ (cublasLtMatmulAlgoConfigGetAttribute) *config;
    __typeof__ (cublasLtMatmulAlgoCapGetAttribute) *capability;
    __typeof__ (cublasLtMatmul) *matmul;
} calls_t;

static const char names[] =
    "cublasLtCreate cublasLtDestroy cublasLtGetVersion cublasLtGetStatusName "
    "cublasLtMatmulDescCreate cublasLtMatmulDescDestroy cublasLtMatrixLayoutCreate "
    "cublasLtMatrixLayoutDestroy cublasLtMatrixLayoutSetAttribute cublasLtMatmulPreferenceCreate "
    "cublasLtMatmulPreferenceDestroy cublasLtMatmulPreferenceSetAttribute "
    "cublasLtMatmulAlgoGetHeuristic cublasLtMatmulAlgoConfigGetAttribute "
    "cublasLtMatmulAlgoCapGetAttribute cublasLtMatmul";

struct wm_cublas_t {
    calls_t call;
    cublasLtHandle_t handle;
};

struct wm_gemm_plan_t {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
};

static wm_gpu_text_t failed (const wm_cublas_t *self, const char *what, cublasStatus_t status)
{
    return wm_gpu_text ("cuBLASLt %s: %s", what, self->call.status_name (status));
}

wm_cublas_t *wm_cublas_new (wm_gpu_text_t *text)
{
    void *symbol[sizeof (calls_t) / sizeof (void *)];
    wm_cublas_t *self = calloc (1, sizeof *self);
    void *library = wm_gpu_library_open ("libcublasLt.so.13");
    if (!library) /* a Python's torch may bring this one: what is called here is the same in both */
        library = wm_gpu_library_open ("libcublasLt.so.12");
    const char *missing = library ? wm_gpu_library_symbols (library, names, symbol) : NULL;
    if (!self)
        *text = "no memory";
    else if (!library)
        *text = "libcublasLt.so.13 is not here: install CUDA 13's cuBLAS, `pip install "
                "nvidia-cublas`, or name its folder in WM_CUDA_LIBS";
    else if (missing)
        *text = wm_gpu_text ("libcublasLt.so.13 has no %s", missing);
    else {
        memcpy (&self->call, symbol, sizeof self->call);
        cublasStatus_t status = self->call.create (&self->handle);
        *text = status ? failed (self, "create", status) : NULL;
    }
    if (*text)
        wm_cublas_destroy (&self);
    return self;
}

void wm_cublas_destroy (wm_cublas_t **self_p)
{
    wm_cublas_t *self = *self_p;
    if (self) {
        if (self->handle)
            self->call.destroy (self->handle);
        free (self);
        *self_p = NULL;
    }
}

int wm_cublas_version (const wm_cublas_t *self)
{
    return (int) self->call.version ();
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* A matrix (rows, columns) of cuBLASLt's, one of a batch.  */
static cublasStatus_t make_layout (const calls_t *call, cublasLtMatrixLayout_t *layout,
                                   cudaDataType_t type, uint64_t rows, uint64_t columns, int64_t ld,
                                   int32_t batch, int64_t stride)
{
    cublasStatus_t status = call->layout_new (layout, type, rows, columns, ld);
    if (!status)
        status =
            call->layout_set (*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    if (!status)
        status = call->layout_set (*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                   sizeof stride);
    return status;
}

static cublasStatus_t describe (const calls_t *call, const wm_gpu_gemm_t *gemm,
                                wm_gemm_plan_t *plan)
{
    const cudaDataType_t type = gemm->precision == WM_GPU_F16 ? CUDA_R_16F : CUDA_R_32F;
    const cublasComputeType_t compute =
        gemm->precision == WM_GPU_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const int64_t rows = gemm->rows, n = gemm->n, k = gemm->k;
    const int32_t splits = (int32_t) gemm->splits;
    cublasStatus_t status = call->desc_new (&plan->desc, compute, CUDA_R_32F);
    if (!status)
        status = make_layout (call, &plan->b, type, gemm->n, gemm->k, n, splits, k * n);
    if (!status)
        status = make_layout (call, &plan->a, type, gemm->k, gemm->rows, k * splits, splits, k);
    if (!status)
        status = make_layout (call, &plan->c, CUDA_R_32F, gemm->n, gemm->rows, n, splits, rows * n);
    return status;
}

/* Whether an algorithm may be used: sums that are not split further, no tensor cores in strict
   float32.  */
static bool acceptable (const calls_t *call, const cublasLtMatmulAlgo_t *algorithm,
                        wm_gpu_precision_t precision, wm_gpu_choice_t *choice)
{
    int32_t id = -1, split = 0;
    uint32_t tile = 0;
    uint64_t numerics = 0; /* a property that cannot be queried stays 0 */
    size_t n;
    call->config (algorithm, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &n);
    call->config (algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile, &n);
    call->config (algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split, sizeof split, &n);
    call->capability (algorithm, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &numerics, sizeof numerics,
                      &n);
    choice->tensor_core = (numerics & CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK) != 0;
    snprintf (choice->name, sizeof choice->name, "cuBLASLt algorithm %d tile %u%s", (int) id,
              (unsigned) tile, choice->tensor_core ? ", tensor cores" : "");
    return split <= 1 && (precision != WM_GPU_F32 || !choice->tensor_core);
}

static cublasStatus_t choose (wm_cublas_t *self, wm_gpu_precision_t precision, uint32_t candidate,
                              wm_gemm_plan_t *plan, wm_gpu_choice_t *choice, bool *found)
{
    const calls_t *call = &self->call;
    const uint64_t workspace = WORKSPACE_BYTES_MAX;
    cublasLtMatmulHeuristicResult_t result[ALGORITHMS_MAX];
    cublasLtMatmulPreference_t preference = NULL;
    int n = 0;
    cublasStatus_t status = call->preference_new (&preference);
    if (!status)
        status = call->preference_set (preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace, sizeof workspace);
    if (!status)
        status = call->heuristic (self->handle, plan->desc, plan->b, plan->a, plan->c, plan->c,
                                  preference, ALGORITHMS_MAX, result, &n);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
        n = 0, status = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; !status && i < n && !*found; i++)
        if (!result[i].state && acceptable (call, &result[i].algo, precision, choice) &&
            candidate-- == 0) {
            plan->algorithm = result[i].algo;
            plan->workspace_bytes = choice->workspace_bytes = result[i].workspaceSize;
            *found = true;
        }
    if (preference)
        call->preference_destroy (preference);
    return status;
}

wm_gpu_text_t wm_cublas_gemm_new (wm_cublas_t *self, const wm_gpu_gemm_t *gemm, uint32_t candidate,
                                  wm_gemm_plan_t **plan, wm_gpu_choice_t *choice)
{
    bool found = false;
    *plan = calloc (1, sizeof **plan);
    if (!*plan)
        return "no memory for a plan";
    cublasStatus_t status = describe (&self->call, gemm, *plan);
    if (!status)
        status = choose (self, gemm->precision, candidate, *plan, choice, &found);
    if (!found)
        wm_cublas_gemm_destroy (self, plan);
    return status ? failed (self, "plan", status) : NULL;
}

void wm_cublas_gemm_destroy (wm_cublas_t *self, wm_gemm_plan_t **plan_p)
{
    wm_gemm_plan_t *plan = *plan_p;
    if (plan) {
        if (plan->desc)
            self->call.desc_destroy (plan->desc);
        if (plan->a)
            self->call.layout_destroy (plan->a);
        if (plan->b)
            self->call.layout_destroy (plan->b);
        if (plan->c)
            self->call.layout_destroy (plan->c);
        free (plan);
        *plan_p = NULL;
    }
}

wm_gpu_text_t wm_cublas_gemm_run (wm_cublas_t *self, wm_gemm_plan_t *plan, const void *d_a,
                                  const void *d_b, void *d_c, void *d_workspace, void *stream)
{
    const float one = 1, zero = 0;
    cublasStatus_t status = self->call.matmul (
        self->handle, plan->desc, &one, d_b, plan->b, d_a, plan->a, &zero, d_c, plan->c, d_c,
        plan->c, &plan->algorithm, d_workspace, plan->workspace_bytes, stream);
    return status ? failed (self, "matmul", status) : NULL;
}
