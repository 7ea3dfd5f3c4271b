/* wm_onnxruntime_api.h - the part of ONNX Runtime's C API that the engine calls.

   The wheel carries the library without its header. The API is a table of functions that only
   grows: a function keeps its place in every release, so that the places are stated here, by the
   names of onnxruntime_c_api.h. A function that returns a status returns NULL if it succeeds.
   Ownership: what a function returns through its last parameter is the caller's, and is released
   by the function of its kind. Thread: sessions may run in several threads at once.  */
#ifndef WM_ONNXRUNTIME_API_H
#define WM_ONNXRUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#define WM_ONNXRUNTIME_API 17u /* the version of the table that is asked for */

typedef struct OrtStatus ort_status_t;
typedef struct OrtEnv ort_env_t;
typedef struct OrtSession ort_session_t;
typedef struct OrtSessionOptions ort_options_t;
typedef struct OrtValue ort_value_t;
typedef struct OrtMemoryInfo ort_memory_t;
typedef struct OrtTypeInfo ort_type_t;
typedef struct OrtTensorTypeAndShapeInfo ort_shape_t;
typedef void (*ort_unused_t) (void);

enum { ORT_LEVEL_FATAL = 4 };               /* of messages on stderr */
enum { ORT_OPTIMIZE_ALL = 99 };             /* of the graph: the default of all bindings */
enum { ORT_ARENA = 1, ORT_MEMORY_CPU = 0 }; /* kind of allocator, and of memory */
enum { ORT_IS_TENSOR = 1 };                 /* kind of a value */

typedef struct {
    ort_unused_t from_0[2];
    const char *(*GetErrorMessage) (const ort_status_t *); /* 2 */
    ort_status_t *(*CreateEnv) (int level, const char *name, ort_env_t **);
    ort_unused_t from_4[4];
    ort_status_t *(*CreateSessionFromArray) (const ort_env_t *, const void *model, size_t bytes,
                                             const ort_options_t *, ort_session_t **); /* 8 */
    ort_status_t *(*Run) (ort_session_t *, const void *run_options, const char *const *input_names,
                          const ort_value_t *const *input, size_t n_input,
                          const char *const *output_names, size_t n_output, ort_value_t **output);
    ort_status_t *(*CreateSessionOptions) (ort_options_t **); /* 10 */
    ort_unused_t from_11[8];
    ort_status_t *(*DisableCpuMemArena) (ort_options_t *); /* 19 */
    ort_unused_t from_20[3];
    ort_status_t *(*SetSessionGraphOptimizationLevel) (ort_options_t *, int level); /* 23 */
    ort_status_t *(*SetIntraOpNumThreads) (ort_options_t *, int);
    ort_status_t *(*SetInterOpNumThreads) (ort_options_t *, int); /* 25 */
    ort_unused_t from_26[4];
    ort_status_t *(*SessionGetInputCount) (const ort_session_t *, size_t *); /* 30 */
    ort_status_t *(*SessionGetOutputCount) (const ort_session_t *, size_t *);
    ort_unused_t from_32;
    ort_status_t *(*SessionGetInputTypeInfo) (const ort_session_t *, size_t,
                                              ort_type_t **); /* 33 */
    ort_status_t *(*SessionGetOutputTypeInfo) (const ort_session_t *, size_t, ort_type_t **);
    ort_unused_t from_35;
    ort_status_t *(*SessionGetInputName) (const ort_session_t *, size_t, void *allocator,
                                          char **); /* 36 */
    ort_status_t *(*SessionGetOutputName) (const ort_session_t *, size_t, void *allocator, char **);
    ort_unused_t from_38[11];
    ort_status_t *(*CreateTensorWithDataAsOrtValue) (const ort_memory_t *, void *data, size_t bytes,
                                                     const int64_t *dim, size_t n_dim, int type,
                                                     ort_value_t **); /* 49 */
    ort_unused_t from_50;
    ort_status_t *(*GetTensorMutableData) (ort_value_t *, void **); /* 51 */
    ort_unused_t from_52[3];
    ort_status_t *(*CastTypeInfoToTensorInfo) (const ort_type_t *, const ort_shape_t **); /* 55 */
    ort_unused_t from_56[4];
    ort_status_t *(*GetTensorElementType) (const ort_shape_t *, int *); /* 60 */
    ort_status_t *(*GetDimensionsCount) (const ort_shape_t *, size_t *);
    ort_status_t *(*GetDimensions) (const ort_shape_t *, int64_t *dim, size_t n_dim); /* 62 */
    ort_unused_t from_63[2];
    ort_status_t *(*GetTensorTypeAndShape) (const ort_value_t *, ort_shape_t **); /* 65 */
    ort_unused_t from_66;
    ort_status_t *(*GetValueType) (const ort_value_t *, int *); /* 67 */
    ort_unused_t from_68;
    ort_status_t *(*CreateCpuMemoryInfo) (int allocator, int kind, ort_memory_t **); /* 69 */
    ort_unused_t from_70[6];
    ort_status_t *(*AllocatorFree) (void *allocator, void *); /* 76 */
    ort_unused_t from_77;
    ort_status_t *(*GetAllocatorWithDefaultOptions) (void **allocator); /* 78 */
    ort_unused_t from_79[13];
    void (*ReleaseEnv) (ort_env_t *); /* 92 */
    void (*ReleaseStatus) (ort_status_t *);
    void (*ReleaseMemoryInfo) (ort_memory_t *);
    void (*ReleaseSession) (ort_session_t *);
    void (*ReleaseValue) (ort_value_t *);
    ort_unused_t from_97;
    void (*ReleaseTypeInfo) (ort_type_t *);
    void (*ReleaseTensorTypeAndShapeInfo) (ort_shape_t *);
    void (*ReleaseSessionOptions) (ort_options_t *); /* 100 */
} ort_api_t;

typedef struct {
    const ort_api_t *(*GetApi) (uint32_t version); /* NULL: the library is older */
    const char *(*GetVersionString) (void);
} ort_base_t;

/* The library's only function.  */
const ort_base_t *OrtGetApiBase (void);

#endif
