/* test_kernels_gpu_real.c - the real table of a GPU (wm_gpu_real.c) on a driver of the tests
   (fake_driver.h), and the images of our kernels that it loads.  */
#include "kernels/gpu/wm_gpu_driver.h"
#include "tests/unit/unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const wm_gpu_api_t *const api = &wm_gpu_real;
static int (*live) (void); /* things that the driver has not freed */

extern const wm_cu_image_t __start_wm_gpu_images[] __attribute__ ((visibility ("hidden")));
extern const wm_cu_image_t __stop_wm_gpu_images[] __attribute__ ((visibility ("hidden")));

static int set_up (void **state)
{
    char folder[] = "/tmp/wm_real_XXXXXX", line[300];
    if (!mkdtemp (folder))
        return -1;
    snprintf (line, sizeof line,
              "${CC:-gcc} -shared -fPIC -D_GNU_SOURCE -w -Wl,-soname,libcuda.so.1 -x c "
              "tests/unit/fake_driver.h -o %s/libcuda.so.1",
              folder);
    if (system (line))
        return -1;
    snprintf (line, sizeof line, "%s/libcuda.so.1", folder);
    void *library = dlopen (line, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym (library, "fake_driver_live") : NULL;
    memcpy (&live, &symbol, sizeof live);
    snprintf (line, sizeof line, "rm -r %s", folder);
    return system (line) || !live;
}

/* ---- images ---------------------------------------------------------------------------------- */

static void each_image_has_each_kernel (void **state)
{
    uint32_t n = 0;
    for (const wm_cu_image_t *image = __start_wm_gpu_images; image < __stop_wm_gpu_images;
         image++, n++)
        for (int k = 0; k < WM_GPU_KERNELS; k++) {
            char name[80];
            snprintf (name, sizeof name,
                      image->is_ptx ? ".entry wm_gpu_%s_kernel(" : ".text.wm_gpu_%s_kernel",
                      wm_cu_kernel_name ((wm_gpu_kernel_t) k));
            const size_t bytes = (size_t) ((const char *) image->end - (const char *) image->begin);
            if (!memmem (image->begin, bytes, name, strlen (name) + !image->is_ptx))
                fail_msg ("the image for sm_%d has no %s", (int) image->architecture, name);
        }
    assert_true (n > 1);
}

static void the_newest_image_that_runs_is_taken (void **state)
{
    static const wm_cu_image_t image[] = {
        { NULL, NULL, 75, 12090, 0, 0 },  { NULL, NULL, 80, 12090, 0, 0 },
        { NULL, NULL, 86, 12090, 0, 0 },  { NULL, NULL, 120, 13000, 0, 0 },
        { NULL, NULL, 120, 12090, 1, 0 }, { NULL, NULL, 100, 13000, 0, 1 },
        { NULL, NULL, 50, 12090, 0, 0 },  { NULL, NULL, 50, 12090, 0, 1 },
    };
    static const struct {
        int version, capability, taken, least; /* taken -1: none */
    } row[] = {
        { 12000, 75, 0, 0 },       { 12000, 80, 1, 0 },      { 12000, 86, 2, 0 },
        { 13010, 89, 2, 0 },       { 12000, 87, 2, 0 },      { 11080, 80, -1, 12000 },
        { 13000, 120, 3, 0 },      { 12090, 120, 4, 13000 }, { 12080, 120, -1, 12090 },
        { 12080, 121, -1, 12090 }, { 13000, 121, 3, 0 },     { 13000, 130, 4, 0 },
        { 13000, 70, -1, 0 },      { 13000, 90, -1, 0 },     { 13000, 100, 5, 0 },
        { 13000, 103, -1, 0 },     { 13000, 50, 7, 0 },      { 13000, 52, 6, 0 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int least;
        const wm_cu_image_t *taken =
            wm_cu_choose (image, 8, row[i].version, row[i].capability, &least);
        if ((taken ? (int) (taken - image) : -1) != row[i].taken || least != row[i].least)
            fail_msg ("driver %d, capability %d: image %d, least %d", row[i].version,
                      row[i].capability, taken ? (int) (taken - image) : -1, least);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

/* All calls once. Returns the text of the first that fails; NULL: none does.  */
static wm_gpu_text_t call_all (void *gpu)
{
    static const char args[4096];
    static char memory[64] = "from the host";
    wm_gpu_info_t info = { 0 };
    wm_gpu_text_t text;
    void *d = NULL, *h = NULL, *stream = NULL, *event = NULL, *graph = NULL;
    float ms = 0;
    const wm_gpu_launch_t launch = { WM_GPU_SCAN, 1, 256, 0, args };
    if ((text = api->open (gpu, &info)) || (text = api->device_new (gpu, &d, 64)) ||
        (text = api->pinned_new (gpu, &h, 64)) || (text = api->pin (gpu, memory, 64)) ||
        (text = api->stream_new (gpu, &stream, true)) ||
        (text = api->event_new (gpu, &event, true)) ||
        (text = api->copy_in (gpu, d, memory, 64, stream)) ||
        (text = api->copy_out (gpu, h, d, 64, stream)) ||
        (text = api->event_record (gpu, event, stream)) || (text = api->event_sync (gpu, event)) ||
        (text = api->stream_wait (gpu, stream, event)) || (text = api->stream_sync (gpu, stream)) ||
        (text = api->event_ms (gpu, event, event, &ms)) ||
        (text = api->graph_begin (gpu, stream)) || (text = api->launch (gpu, &launch, stream)) ||
        (text = api->graph_end (gpu, stream, &graph)) ||
        (text = api->graph_run (gpu, graph, stream)))
        return text;
    assert_string_equal (h, "from the host");
    assert_string_equal (info.device, "NVIDIA Fake 0");
    assert_int_equal (info.major * 10 + info.minor, 90);
    bool wide = false; /* what is compiled for sm_90a is recognised, if anything is */
    for (const wm_cu_image_t *i = __start_wm_gpu_images; i < __stop_wm_gpu_images; i++)
        wide |= i->architecture == 90 && i->arch_specific;
    assert_int_equal (info.wide, wide);
    assert_int_equal (info.n_sm, 132);
    assert_true (info.shared_bytes == 232448 && info.free_bytes == 1 << 30 && ms == 2);
    assert_true (strlen (info.libraries) >= 4); /* "12.9": no library of NVIDIA's is open */
    assert_null (strchr (info.libraries, '-'));
    return NULL;
}

static void expect (const char *text)
{
    void *gpu = api->make ();
    assert_non_null (gpu);
    wm_gpu_text_t got = call_all (gpu);
    if (!got || !strstr (got, text))
        fail_msg ("wanted '%s', got '%s'", text, got ? got : "no error");
    api->destroy (gpu);
    assert_int_equal (live (), 0);
}

static void a_driver_that_cannot_be_used_says_why (void **state)
{
    setenv ("WM_FAKE_DRIVER", "11080,1,0", 1);
    expect ("the NVIDIA driver is too old: it is for CUDA 11.8, needed is CUDA 1");
    setenv ("WM_FAKE_DRIVER", "13000,0,100", 1);
    expect ("the NVIDIA driver shows no GPU");
    unsetenv ("WM_FAKE_DRIVER");
}

/* Before the kernels are loaded, which is done once a process.  */
static void each_call_that_fails_while_kernels_load_is_named (void **state)
{
    static const char *const row[][2] = {
        { "cuModuleLoadData", "loading our kernels for sm_90" },
        { "cuModuleGetFunction", "loading kernel fill" },
        { "cuModuleGetFunction:3", "loading kernel window" },
        { "cuFuncGetAttribute", "loading kernel fill" },
        { "cuFuncSetAttribute:2", "loading kernel scatter" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        setenv ("WM_FAKE_DRIVER_FAILS", row[i][0], 1);
        expect (row[i][1]);
    }
    unsetenv ("WM_FAKE_DRIVER_FAILS");
}

static void all_calls_work (void **state)
{
    for (int round = 0; round < 2; round++) {
        void *gpu = api->make ();
        const wm_gpu_text_t text = call_all (gpu);
        if (text)
            fail_msg ("%s", text);
        assert_true (live () > 0);
        api->destroy (gpu);
        assert_int_equal (live (), 0);
    }
}

static void each_call_that_fails_is_named (void **state)
{
    static const char *const row[][2] = {
        { "cuDeviceGet", "cuDeviceGet: CUDA_ERROR_LAUNCH_FAILED (as a test asked)" },
        { "cuDeviceGetName", "the GPU's properties" },
        { "cuDeviceGetAttribute", "the GPU's properties" },
        { "cuDeviceGetAttribute:3", "the GPU's properties" },
        { "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain: CUDA_ERROR" },
        { "cuMemGetInfo", "cuMemGetInfo: CUDA_ERROR" },
        { "cuMemAlloc", "cuMemAlloc: CUDA_ERROR" },
        { "cuMemHostAlloc", "cuMemHostAlloc: CUDA_ERROR" },
        { "cuMemHostRegister", "cuMemHostRegister: CUDA_ERROR" },
        { "cuStreamCreate", "cuStreamCreate: CUDA_ERROR" },
        { "cuEventCreate", "cuEventCreate: CUDA_ERROR" },
        { "cuMemcpyHtoDAsync", "copy to the device: CUDA_ERROR" },
        { "cuMemcpyDtoHAsync", "copy to the host: CUDA_ERROR" },
        { "cuEventRecord", "cuEventRecord: CUDA_ERROR" },
        { "cuEventSynchronize", "cuEventSynchronize: CUDA_ERROR" },
        { "cuStreamWaitEvent", "cuStreamWaitEvent: CUDA_ERROR" },
        { "cuStreamSynchronize", "cuStreamSynchronize: CUDA_ERROR" },
        { "cuEventElapsedTime", "cuEventElapsedTime: CUDA_ERROR" },
        { "cuStreamBeginCapture", "cuStreamBeginCapture: CUDA_ERROR" },
        { "cuLaunchKernel", "launch of kernel scan: CUDA_ERROR" },
        { "cuStreamEndCapture", "cuStreamEndCapture: CUDA_ERROR" },
        { "cuGraphInstantiate", "cuGraphInstantiate: CUDA_ERROR" },
        { "cuGraphLaunch", "cuGraphLaunch: CUDA_ERROR" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        setenv ("WM_FAKE_DRIVER_FAILS", row[i][0], 1);
        expect (row[i][1]);
    }
    unsetenv ("WM_FAKE_DRIVER_FAILS");
}

/* On a driver that is none, cuDNN cannot begin.  */
static void cudnn_opens_when_it_is_asked_for (void **state)
{
    wm_gpu_info_t info = { 0 };
    void *gpu = api->make ();
    assert_null (api->open (gpu, &info));
    const wm_gpu_text_t dnn = api->open_cudnn (gpu, &info);
    assert_non_null (dnn);
    print_message ("%s\n", dnn);
    assert_true (strstr (dnn, "libcudnn.so.9 is ") || strstr (dnn, "cuDNN create: "));
    api->destroy (gpu);
}

static void more_things_than_it_holds_are_refused (void **state)
{
    wm_gpu_info_t info = { 0 };
    void *gpu = api->make (), *d;
    wm_gpu_text_t text = api->open (gpu, &info);
    uint32_t n = 0;
    while (!text && n < 1000)
        text = api->device_new (gpu, &d, 1), n += !text;
    assert_int_equal (n, 256);
    assert_non_null (strstr (text, "more than 256 things"));
    api->destroy (gpu);
    assert_int_equal (live (), 0);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (each_image_has_each_kernel),
        cmocka_unit_test (the_newest_image_that_runs_is_taken),
        cmocka_unit_test (a_driver_that_cannot_be_used_says_why),
        cmocka_unit_test (each_call_that_fails_while_kernels_load_is_named),
        cmocka_unit_test (all_calls_work),
        cmocka_unit_test (each_call_that_fails_is_named),
        cmocka_unit_test (cudnn_opens_when_it_is_asked_for),
        cmocka_unit_test (more_things_than_it_holds_are_refused),
    };
    return cmocka_run_group_tests (tests, set_up, NULL);
}
