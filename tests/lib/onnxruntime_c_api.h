/* onnxruntime_c_api.h - what ops/lib/examples/engine_onnx.c needs of the header of this name, which
   ONNX Runtime's wheel does not carry: its names for what wm_onnxruntime_api.h declares.  */
#ifndef ONNXRUNTIME_C_API_H
#define ONNXRUNTIME_C_API_H

#include "kernels/onnxruntime/wm_onnxruntime_api.h"

typedef ort_api_t OrtApi;
typedef ort_status_t OrtStatus;
typedef ort_env_t OrtEnv;
typedef ort_session_t OrtSession;
typedef ort_options_t OrtSessionOptions;
typedef ort_value_t OrtValue;
typedef ort_memory_t OrtMemoryInfo;
typedef ort_type_t OrtTypeInfo;
typedef ort_shape_t OrtTensorTypeAndShapeInfo;
typedef void OrtAllocator;

enum {
    ORT_LOGGING_LEVEL_FATAL = ORT_LEVEL_FATAL,
    OrtArenaAllocator = ORT_ARENA,
    OrtMemTypeDefault = ORT_MEMORY_CPU,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1
};

#endif
