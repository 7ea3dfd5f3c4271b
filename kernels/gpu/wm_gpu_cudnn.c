/* wm_gpu_cudnn.c - all of cuDNN: a convolution with bias and ReLU as a graph of its backend.

   The backend speaks in descriptors with attributes: tensors, operations on them, a graph of the
   operations, then a heuristic names configurations of engines for the graph, best first, and a
   plan is made of one. The first result of a configuration that becomes a plan is candidate 0.

   What it took to reach tensor cores with one input channel and no workspace:
     - NHWC strides, and the bias of the data's own type (a float bias of half data leaves only
       engines compiled at run time);
     - what lies between the operations is virtual and float32, so that bias and ReLU are applied
       before the one rounding to half.

   Pools, sums and other activations are kernels of ours (wm_gpu_any.cuh): cuDNN's engines for them
   are compiled at run time, which needs a driver, so that they cannot be tested without a GPU; and
   memory bounds them anyway.

   Configurations that are not deterministic, that lower the inputs or go by Winograd or FFT are
   never taken; strict float32 takes none with tensor cores either.  */
#include "kernels/gpu/wm_gpu_cudnn.h"
#include "kernels/gpu/wm_gpu_library.h"

#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGS_MAX 64
#define DESCRIPTORS_MAX 24
#define NOTES_MAX 16

/* cuDNN's functions: the name here, their own.  */
#define CUDNN_CALLS(CALL)                                                                          \
    CALL (create, cudnnCreate)                                                                     \
    CALL (destroy, cudnnDestroy)                                                                   \
    CALL (set_stream, cudnnSetStream)                                                              \
    CALL (version, cudnnGetVersion)                                                                \
    CALL (toolkit, cudnnGetCudartVersion)                                                          \
    CALL (status_text, cudnnGetErrorString)                                                        \
    CALL (last_error, cudnnGetLastErrorString)                                                     \
    CALL (descriptor_new, cudnnBackendCreateDescriptor)                                            \
    CALL (descriptor_destroy, cudnnBackendDestroyDescriptor)                                       \
    CALL (set, cudnnBackendSetAttribute)                                                           \
    CALL (get, cudnnBackendGetAttribute)                                                           \
    CALL (finalize, cudnnBackendFinalize)                                                          \
    CALL (execute, cudnnBackendExecute)

typedef struct {
#define FIELD(name, function) __typeof__ (function) *name;
    CUDNN_CALLS (FIELD)
} calls_t;

#define NAME(name, function) #function " "
static const char names[] = CUDNN_CALLS (NAME);

typedef cudnnBackendDescriptor_t descriptor_t;

struct wm_cudnn_t {
    calls_t call;
    cudnnHandle_t handle;  /* NULL without a device */
    descriptor_t property; /* of a device that is not here, else NULL */
};

/* The descriptors a plan keeps, and while it is made the first status that was not good.  */
struct wm_conv_plan_t {
    wm_cudnn_t *cudnn;
    cudnnStatus_t status;
    const char *what;
    descriptor_t held[DESCRIPTORS_MAX];
    uint32_t n_held;
    descriptor_t plan;
};

enum { UID_X = 1, UID_WEIGHT, UID_BIAS, UID_Y, UID_SUM, UID_BIASED };

/* ---- the library ----------------------------------------------------------------------------- */

static wm_gpu_text_t failed (const wm_cudnn_t *self, const char *what, cudnnStatus_t status)
{
    char last[200] = "";
    self->call.last_error (last, sizeof last);
    return wm_gpu_text ("cuDNN %s: %s %s", what, self->call.status_text (status), last);
}

static wm_gpu_text_t describe_device (wm_cudnn_t *self, const char *json)
{
    cudnnStatus_t status =
        self->call.descriptor_new (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &self->property);
    if (!status)
        status = self->call.set (self->property, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, (int64_t) strlen (json), json);
    if (!status)
        status = self->call.finalize (self->property);
    return status ? failed (self, "device properties", status) : NULL;
}

static wm_gpu_text_t load (wm_cudnn_t *self, int driver)
{
    static const char *const companions[] = { "cublasLt", "nvrtc" };
    char soname[32];
    void *library = wm_gpu_library_open ("libcudnn.so.9");
    if (!library)
        return wm_gpu_text ("libcudnn.so.9 is not here: install cuDNN 9, `pip install "
                            "nvidia-cudnn-cu%d`, or name its folder in WM_CUDA_LIBS",
                            driver && driver < 13000 ? 12 : 13);
    void *symbol[sizeof (calls_t) / sizeof (void *)];
    const char *missing = wm_gpu_library_symbols (library, names, symbol);
    if (missing)
        return wm_gpu_text ("libcudnn.so.9 has no %s: it is too old", missing);
    memcpy (&self->call, symbol, sizeof self->call);
    const int major = (int) (self->call.toolkit () / 1000);
    if (driver && driver / 1000 < major)
        return wm_gpu_text ("libcudnn.so.9 is for CUDA %d, the NVIDIA driver for CUDA %d.%d: `pip "
                            "install nvidia-cudnn-cu%d`, and name its folder in WM_CUDA_LIBS",
                            major, driver / 1000, driver / 10 % 100, driver / 1000);
    /* cuDNN opens both itself, by soname: found here, they are there already. */
    for (size_t i = 0; i < sizeof companions / sizeof *companions; i++) {
        snprintf (soname, sizeof soname, "lib%s.so.%d", companions[i], major);
        wm_gpu_library_open (soname);
    }
    return NULL;
}

wm_cudnn_t *wm_cudnn_new (const char *json, int driver, wm_gpu_text_t *text)
{
    wm_cudnn_t *self = calloc (1, sizeof *self);
    *text = self ? load (self, driver) : "no memory";
    if (!*text && json)
        *text = describe_device (self, json);
    else if (!*text) {
        cudnnStatus_t status = self->call.create (&self->handle);
        *text = status ? failed (self, "create", status) : NULL;
    }
    if (*text && self)
        wm_cudnn_destroy (&self);
    return self;
}

void wm_cudnn_destroy (wm_cudnn_t **self_p)
{
    wm_cudnn_t *self = *self_p;
    if (self) {
        if (self->property)
            self->call.descriptor_destroy (self->property);
        if (self->handle)
            self->call.destroy (self->handle);
        free (self);
        *self_p = NULL;
    }
}

int wm_cudnn_version (const wm_cudnn_t *self)
{
    return (int) self->call.version ();
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* Each does nothing once something went wrong; the first wrong step is kept.  */

/* A new descriptor; messages name those steps that follow by `what`.  */
static descriptor_t make (wm_conv_plan_t *self, cudnnBackendDescriptorType_t type, const char *what)
{
    descriptor_t descriptor = NULL;
    if (self->status)
        return NULL;
    self->what = what;
    self->status = self->n_held == DESCRIPTORS_MAX
                       ? CUDNN_STATUS_ALLOC_FAILED
                       : self->cudnn->call.descriptor_new (type, &descriptor);
    if (descriptor)
        self->held[self->n_held++] = descriptor;
    return descriptor;
}

static void set (wm_conv_plan_t *self, descriptor_t descriptor, cudnnBackendAttributeName_t name,
                 cudnnBackendAttributeType_t type, int64_t count, const void *value)
{
    if (!self->status)
        self->status = self->cudnn->call.set (descriptor, name, type, count, value);
}

static void set_descriptor (wm_conv_plan_t *self, descriptor_t descriptor,
                            cudnnBackendAttributeName_t name, descriptor_t value)
{
    set (self, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize (wm_conv_plan_t *self, descriptor_t descriptor)
{
    if (!self->status)
        self->status = self->cudnn->call.finalize (descriptor);
}

/* dim: (n, c, h, w), in memory (n, h, w, c).  */
static descriptor_t tensor (wm_conv_plan_t *self, int64_t uid, cudnnDataType_t type,
                            const int64_t dim[4], bool is_virtual)
{
    const int64_t stride[4] = { dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1] },
                  alignment = 16;
    descriptor_t t = make (self, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
    set (self, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set (self, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set (self, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    set (self, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set (self, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set (self, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    finalize (self, t);
    return t;
}

static descriptor_t convolution (wm_conv_plan_t *self, const wm_gpu_anyconv_t *o, descriptor_t x,
                                 descriptor_t weight, descriptor_t y)
{
    const int64_t dims = 2, before[2] = { o->before[0], o->before[1] },
                  after[2] = { o->after[0], o->after[1] },
                  dilation[2] = { o->dilation[0], o->dilation[1] },
                  stride[2] = { o->stride[0], o->stride[1] };
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const float alpha = 1, beta = 0;
    const char *what = "convolution";
    descriptor_t c = make (self, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, what);
    set (self, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    set (self, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set (self, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set (self, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before);
    set (self, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after);
    set (self, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    set (self, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    finalize (self, c);
    descriptor_t op = make (self, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, what);
    set_descriptor (self, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, c);
    set_descriptor (self, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    set_descriptor (self, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, weight);
    set_descriptor (self, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    set (self, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &alpha);
    set (self, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &beta);
    finalize (self, op);
    return op;
}

/* y = x + b, or y = mode (x) where b is NULL.  */
static descriptor_t pointwise (wm_conv_plan_t *self, cudnnPointwiseMode_t mode, descriptor_t x,
                               descriptor_t b, descriptor_t y)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const char *what = b ? "bias" : "ReLU";
    descriptor_t p = make (self, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
    set (self, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set (self, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finalize (self, p);
    descriptor_t op = make (self, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
    set_descriptor (self, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    set_descriptor (self, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        set_descriptor (self, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_descriptor (self, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    finalize (self, op);
    return op;
}

static descriptor_t graph_of (wm_conv_plan_t *self, const wm_gpu_anyconv_t *o)
{
    const cudnnDataType_t type = o->precision == WM_GPU_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    const int64_t x_dim[4] = { o->rows, o->c_in, o->in[0], o->in[1] },
                  w_dim[4] = { o->c_out, o->c_in / o->groups, o->kernel[0], o->kernel[1] },
                  b_dim[4] = { 1, o->c_out, 1, 1 },
                  y_dim[4] = { o->rows, o->c_out, o->out[0], o->out[1] };
    descriptor_t x = tensor (self, UID_X, type, x_dim, false),
                 weight = tensor (self, UID_WEIGHT, type, w_dim, false),
                 bias = tensor (self, UID_BIAS, type, b_dim, false),
                 sum = tensor (self, UID_SUM, CUDNN_DATA_FLOAT, y_dim, true),
                 y = tensor (self, UID_Y, type, y_dim, false),
                 biased = o->relu ? tensor (self, UID_BIASED, CUDNN_DATA_FLOAT, y_dim, true) : y;
    descriptor_t op[3] = { convolution (self, o, x, weight, sum),
                           pointwise (self, CUDNN_POINTWISE_ADD, sum, bias, biased) };
    if (o->relu)
        op[2] = pointwise (self, CUDNN_POINTWISE_RELU_FWD, biased, NULL, y);
    const int64_t n = o->relu ? 3 : 2;
    descriptor_t graph = make (self, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "graph");
    set (self, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, op);
    if (self->cudnn->handle)
        set (self, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
             &self->cudnn->handle);
    finalize (self, graph);
    return graph;
}

/* ---- choosing a plan ------------------------------------------------------------------------- */

/* Whether this configuration may be used at all; *tensor_core and its name beside.  */
static bool acceptable (wm_conv_plan_t *self, descriptor_t config, wm_gpu_precision_t precision,
                        wm_gpu_choice_t *choice)
{
    const calls_t *call = &self->cudnn->call;
    cudnnBackendNumericalNote_t note[NOTES_MAX];
    descriptor_t engine = NULL;
    int64_t n = 0, index = -1;
    bool fine =
        !call->descriptor_new (CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) &&
        !call->get (config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                    &engine) &&
        !call->get (engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &index) &&
        !call->get (engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES_MAX,
                    &n, note);
    choice->tensor_core = false;
    for (int64_t i = 0; fine && i < n; i++) {
        choice->tensor_core |= note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        fine = note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
               note[i] == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
    }
    snprintf (choice->name, sizeof choice->name, "cuDNN engine %lld%s", (long long) index,
              choice->tensor_core ? ", tensor cores" : "");
    if (engine)
        call->descriptor_destroy (engine);
    return fine && (precision != WM_GPU_F32 || !choice->tensor_core);
}

/* Turns a configuration into self->plan. What cuDNN cannot do is no error, only no candidate.  */
static bool try_config (wm_conv_plan_t *self, descriptor_t config, wm_gpu_choice_t *choice)
{
    const calls_t *call = &self->cudnn->call;
    int64_t n, workspace = 0;
    if (call->descriptor_new (CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &self->plan))
        return false;
    bool fine = !call->set (self->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (fine && self->cudnn->handle)
        fine = !call->set (self->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                           &self->cudnn->handle);
    else if (fine)
        fine = !call->set (self->plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &self->cudnn->property);
    fine = fine && !call->finalize (self->plan) &&
           !call->get (self->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                       &n, &workspace);
    choice->workspace_bytes = (size_t) workspace;
    if (!fine) {
        call->descriptor_destroy (self->plan);
        self->plan = NULL;
    }
    return fine;
}

/* Tries the candidates of one heuristic; *left counts down to the one that is wanted. Returns the
   heuristic's own status: one that fails does not hinder the next.  */
static cudnnStatus_t try_mode (wm_conv_plan_t *self, descriptor_t graph,
                               cudnnBackendHeurMode_t mode, wm_gpu_precision_t precision,
                               uint32_t *left, wm_gpu_choice_t *choice)
{
    const calls_t *call = &self->cudnn->call;
    descriptor_t config[CONFIGS_MAX], heuristic;
    int64_t n_made = 0, n = 0;
    heuristic = make (self, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristic");
    set_descriptor (self, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set (self, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (self->cudnn->property)
        set_descriptor (self, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, self->cudnn->property);
    finalize (self, heuristic);
    while (!self->status && n_made < CONFIGS_MAX &&
           !call->descriptor_new (CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[n_made]))
        n_made++;
    if (!self->status)
        self->status = call->get (heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, n_made, &n, config);
    for (int64_t i = 0; !self->status && i < n && i < n_made && !self->plan; i++)
        if (acceptable (self, config[i], precision, choice) &&
            try_config (self, config[i], choice) && (*left)-- > 0) {
            call->descriptor_destroy (self->plan);
            self->plan = NULL;
        }
    while (n_made > 0)
        call->descriptor_destroy (config[--n_made]);
    const cudnnStatus_t status = self->status;
    self->status = CUDNN_STATUS_SUCCESS;
    return status;
}

wm_gpu_text_t wm_cudnn_anyconv_new (wm_cudnn_t *cudnn, const wm_gpu_anyconv_t *conv,
                                    uint32_t candidate, wm_conv_plan_t **plan,
                                    wm_gpu_choice_t *choice)
{
    wm_gpu_text_t text = NULL;
    wm_conv_plan_t *self = *plan = calloc (1, sizeof *self);
    if (!self)
        return "no memory for a plan";
    self->cudnn = cudnn;
    descriptor_t graph = graph_of (self, conv);
    cudnnStatus_t status = self->status;
    if (!status) {
        status = try_mode (self, graph, CUDNN_HEUR_MODE_A, conv->precision, &candidate, choice);
        if (!self->plan) /* of a failed one and an empty one, neither is an error */
            status = try_mode (self, graph, CUDNN_HEUR_MODE_FALLBACK, conv->precision, &candidate,
                               choice)
                         ? status
                         : CUDNN_STATUS_SUCCESS;
    }
    if (status && !self->plan)
        text = failed (cudnn, self->what, status);
    if (text || !self->plan)
        wm_cudnn_conv_destroy (cudnn, plan);
    return text;
}

void wm_cudnn_conv_destroy (wm_cudnn_t *cudnn, wm_conv_plan_t **plan_p)
{
    wm_conv_plan_t *self = *plan_p;
    if (self) {
        if (self->plan)
            cudnn->call.descriptor_destroy (self->plan);
        while (self->n_held > 0)
            cudnn->call.descriptor_destroy (self->held[--self->n_held]);
        free (self);
        *plan_p = NULL;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

wm_gpu_text_t wm_cudnn_conv_run (wm_cudnn_t *cudnn, wm_conv_plan_t *self, const void *d_x,
                                 const void *d_weight, const void *d_bias, void *d_y,
                                 void *d_workspace, void *stream)
{
    const int64_t uid[4] = { UID_X, UID_WEIGHT, UID_BIAS, UID_Y };
    const void *const pointer[4] = { d_x, d_weight, d_bias, d_y };
    wm_conv_plan_t run = { .cudnn = cudnn };
    run.status = cudnn->call.set_stream (cudnn->handle, stream);
    descriptor_t pack = make (&run, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "execute");
    set (&run, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 4, uid);
    set (&run, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 4, pointer);
    set (&run, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &d_workspace);
    finalize (&run, pack);
    if (!run.status)
        run.status = cudnn->call.execute (cudnn->handle, self->plan, pack);
    wm_gpu_text_t text = run.status ? failed (cudnn, "execute", run.status) : NULL;
    if (pack)
        cudnn->call.descriptor_destroy (pack);
    return text;
}
