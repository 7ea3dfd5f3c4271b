/* without_engines.h - takes the general engines away from a test, and gives them back.  */
#ifndef WITHOUT_ENGINES_H
#define WITHOUT_ENGINES_H

#include <stdlib.h>

static inline void hide_engines (void)
{
    setenv ("WM_OPENVINO_SO", "/proc/nowhere/wm_openvino.so", 1);
    setenv ("WM_ONNXRUNTIME_SO", "/proc/nowhere/wm_onnxruntime.so", 1);
}

static inline void show_engines (void)
{
    unsetenv ("WM_OPENVINO_SO");
    unsetenv ("WM_ONNXRUNTIME_SO");
}

#endif
