/* engine_onnx.c - a plug-in: any ONNX model of float32 tensors, over ONNX Runtime's C library. C99.

   So is a vendor's runtime made an engine: the session is opened from the bytes of --model, its
   tensors are described as the runtime states them, and each row is computed as a batch of one,
   because kernels of a larger batch may add in another order. wiremill's own engine onnxruntime
   does more (types, free dimensions, models that an import refuses).

     cc -O2 -fPIC -shared -o onnx.so engine_onnx.c $(pkg-config --cflags wiremill) -lonnxruntime
     wiremill run --engine ./onnx.so --model net.onnx --input patches.npy --output out/  */
#include <onnxruntime_c_api.h>
#include <wiremill_engine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const OrtApi *api;
    OrtEnv *env;
    OrtSession *session;
    OrtMemoryInfo *memory;
    wiremill_engine_description_t about;
} engine_t;

/* Whether a call failed; *error then has its text.  */
static int failed (const engine_t *self, OrtStatus *status, char *error)
{
    if (status) {
        snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "%s", self->api->GetErrorMessage (status));
        self->api->ReleaseStatus (status);
    }
    return status != NULL;
}

static size_t values (const wiremill_engine_tensor_t *tensor)
{
    size_t n = 1;
    for (uint32_t d = 0; d < tensor->n_dim; d++)
        n *= tensor->dim[d];
    return n;
}

/* Describes one input or output. Its first dimension is the batch, the others must be fixed.  */
static int describe_tensor (engine_t *self, int is_input, size_t i, char *error)
{
    const OrtApi *api = self->api;
    wiremill_engine_tensor_t *tensor = is_input ? &self->about.input[i] : &self->about.output[i];
    OrtTypeInfo *info = NULL;
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    OrtAllocator *allocator;
    char *name = NULL;
    int64_t dim[1 + WIREMILL_ENGINE_DIMS_MAX];
    size_t n_dim = 0;
    int bad = failed (self, api->GetAllocatorWithDefaultOptions (&allocator), error) ||
              failed (self,
                      (is_input ? api->SessionGetInputName
                                : api->SessionGetOutputName) (self->session, i, allocator, &name),
                      error) ||
              failed (self,
                      (is_input ? api->SessionGetInputTypeInfo
                                : api->SessionGetOutputTypeInfo) (self->session, i, &info),
                      error) ||
              failed (self, api->CastTypeInfoToTensorInfo (info, &shape), error) ||
              failed (self, api->GetDimensionsCount (shape, &n_dim), error);
    if (!bad &&
        (n_dim < 1 || n_dim > 1 + WIREMILL_ENGINE_DIMS_MAX || strlen (name) >= sizeof tensor->name))
        bad = snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "'%.64s' has %zu dimensions", name,
                        n_dim);
    bad = bad || failed (self, api->GetDimensions (shape, dim, n_dim), error);
    for (size_t d = 1; d < n_dim && !bad; d++) {
        if (dim[d] < 1 || dim[d] > INT32_MAX)
            bad =
                snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "'%.64s' has a free dimension", name);
        tensor->dim[d - 1] = (uint32_t) dim[d];
    }
    if (!bad) {
        strcpy (tensor->name, name);
        tensor->n_dim = (uint32_t) n_dim - 1;
    }
    if (name && failed (self, api->AllocatorFree (allocator, name), error))
        bad = 1;
    if (info)
        api->ReleaseTypeInfo (info);
    return bad;
}

static void close_engine (void *engine)
{
    engine_t *self = engine;
    if (self->memory)
        self->api->ReleaseMemoryInfo (self->memory);
    if (self->session)
        self->api->ReleaseSession (self->session);
    if (self->env)
        self->api->ReleaseEnv (self->env);
    free (self);
}

static int start (engine_t *self, const wiremill_engine_config_t *config, char *error)
{
    const OrtApi *api = self->api = OrtGetApiBase ()->GetApi (17);
    OrtSessionOptions *options = NULL;
    size_t n_input = 0, n_output = 0;
    if (!api || !config->model)
        return snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "%s",
                         api ? "give an ONNX file by --model" : "ONNX Runtime is too old");
    int bad =
        failed (self, api->CreateEnv (ORT_LOGGING_LEVEL_FATAL, "plug-in", &self->env), error) ||
        failed (self, api->CreateSessionOptions (&options), error) ||
        failed (self, api->SetIntraOpNumThreads (options, 1), error) ||
        failed (self,
                api->CreateSessionFromArray (self->env, config->model, config->model_bytes, options,
                                             &self->session),
                error) ||
        failed (self,
                api->CreateCpuMemoryInfo (OrtArenaAllocator, OrtMemTypeDefault, &self->memory),
                error) ||
        failed (self, api->SessionGetInputCount (self->session, &n_input), error) ||
        failed (self, api->SessionGetOutputCount (self->session, &n_output), error);
    if (options)
        api->ReleaseSessionOptions (options);
    if (!bad && (n_input > WIREMILL_ENGINE_TENSORS_MAX || n_output > WIREMILL_ENGINE_TENSORS_MAX))
        bad = snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "too many inputs or outputs");
    strcpy (self->about.name, "onnx");
    snprintf (self->about.version, sizeof self->about.version, "%s",
              OrtGetApiBase ()->GetVersionString ());
    self->about.flags = WIREMILL_ENGINE_CONCURRENT;
    self->about.n_input = (uint32_t) n_input;
    self->about.n_output = (uint32_t) n_output;
    for (size_t i = 0; i < n_input + n_output && !bad; i++)
        bad = describe_tensor (self, i < n_input, i < n_input ? i : i - n_input, error);
    return bad;
}

static void *open_engine (const wiremill_engine_config_t *config, char *error)
{
    engine_t *self = calloc (1, sizeof *self);
    if (self && start (self, config, error)) {
        close_engine (self);
        self = NULL;
    }
    return self;
}

static int describe (const wiremill_engine_config_t *config,
                     wiremill_engine_description_t *description, char *error)
{
    engine_t *self = open_engine (config, error);
    if (!self)
        return 1;
    *description = self->about;
    close_engine (self);
    return 0;
}

/* Scores one row. in and out move behind it.  */
static int score_row (const engine_t *self, const float **in, float **out, char *error)
{
    enum { MOST = WIREMILL_ENGINE_TENSORS_MAX };
    const OrtApi *api = self->api;
    const wiremill_engine_description_t *about = &self->about;
    OrtValue *value[2 * MOST] = { NULL };
    const char *input[MOST], *output[MOST];
    int bad = 0;
    for (uint32_t i = 0; i < about->n_input + about->n_output && !bad; i++) {
        const int is_input = i < about->n_input;
        const wiremill_engine_tensor_t *tensor =
            is_input ? &about->input[i] : &about->output[i - about->n_input];
        float *data = is_input ? (float *) (uintptr_t) *in : *out;
        int64_t dim[1 + WIREMILL_ENGINE_DIMS_MAX] = { 1 };
        for (uint32_t d = 0; d < tensor->n_dim; d++)
            dim[d + 1] = tensor->dim[d];
        bad = failed (self,
                      api->CreateTensorWithDataAsOrtValue (
                          self->memory, data, values (tensor) * sizeof *data, dim,
                          tensor->n_dim + 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value[i]),
                      error);
        if (is_input)
            input[i] = tensor->name, *in += values (tensor);
        else
            output[i - about->n_input] = tensor->name, *out += values (tensor);
    }
    bad = bad || failed (self,
                         api->Run (self->session, NULL, input, (const OrtValue *const *) value,
                                   about->n_input, output, about->n_output, value + about->n_input),
                         error);
    for (size_t i = 0; i < 2 * MOST; i++)
        if (value[i])
            api->ReleaseValue (value[i]);
    return bad;
}

static int score (void *engine, uint32_t n, const float *in, float *out, char *error)
{
    int bad = 0;
    for (uint32_t i = 0; i < n && !bad; i++)
        bad = score_row (engine, &in, &out, error);
    return bad;
}

const wiremill_engine_t wiremill_engine = { WIREMILL_ENGINE_VERSION, describe, open_engine, score,
                                            close_engine };
