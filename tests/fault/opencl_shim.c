/* opencl_shim.c - an OpenCL driver that is pocl, but lies and fails where it is told to.

   The loader (OCL_ICD_VENDORS) opens it in pocl's place; it opens pocl, and puts its own functions
   into pocl's table.

     WM_OPENCL_FAIL=FILE    while FILE is there, the call that it names returns the error behind it:
                            "clEnqueueReadBuffer -36"; "wrong 1": buffers are read with the lowest
                            bit of the first word turned
     WM_OPENCL_SAYS=WORDS   what the device claims: gpu (it is one), small (64 kB of memory), nofma,
                            nodenormals, nodouble; first (it is the first device alone that
                            lacks something); late (a buffer of more than 4 MB has no memory
                            when it is first written); crash (whoever asks it dies)

   Without Khronos's headers (make deps-opencl) it is empty.  */
#if __has_include (<CL/cl_icd.h>)
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static cl_icd_dispatch real; /* pocl's own functions */

static bool says (const char *word)
{
    const char *said = getenv ("WM_OPENCL_SAYS");
    return said && strstr (said, word);
}

/* The error that a call shall return; 0: none.  */
static int failure (const char *call)
{
    char name[64];
    int code = 0;
    const char *path = getenv ("WM_OPENCL_FAIL");
    FILE *file = path ? fopen (path, "r") : NULL;
    if (file && (fscanf (file, "%63s %d", name, &code) != 2 || strcmp (name, call)))
        code = 0;
    if (file)
        fclose (file);
    return code;
}

static cl_int device_info (cl_device_id id, cl_device_info what, size_t bytes, void *to, size_t *n)
{
    static cl_device_id first;
    const cl_int code = real.clGetDeviceInfo (id, what, bytes, to, n);
    if (says ("crash"))
        __builtin_trap ();
    if (code || !to)
        return code;
    first = first ? first : id;
    if (what == CL_DEVICE_TYPE && says ("gpu"))
        *(cl_device_type *) to = CL_DEVICE_TYPE_GPU;
    if ((what == CL_DEVICE_GLOBAL_MEM_SIZE || what == CL_DEVICE_MAX_MEM_ALLOC_SIZE) &&
        says ("small"))
        *(cl_ulong *) to = 64 << 10;
    if (what == CL_DEVICE_SINGLE_FP_CONFIG && says ("nofma") && (id == first || !says ("first")))
        *(cl_device_fp_config *) to &= ~(cl_device_fp_config) CL_FP_FMA;
    if (what == CL_DEVICE_SINGLE_FP_CONFIG && says ("nodenormals"))
        *(cl_device_fp_config *) to &= ~(cl_device_fp_config) CL_FP_DENORM;
    if (what == CL_DEVICE_DOUBLE_FP_CONFIG && says ("nodouble"))
        *(cl_device_fp_config *) to = 0;
    return CL_SUCCESS;
}

static cl_int build (cl_program program, cl_uint n, const cl_device_id *id, const char *options,
                     void (*call) (cl_program, void *), void *data)
{
    const cl_int code = real.clBuildProgram (program, n, id, options, call, data),
                 fails = failure ("clBuildProgram");
    return fails ? fails : code;
}

static cl_mem buffer_new (cl_context context, cl_mem_flags flags, size_t bytes, void *from,
                          cl_int *code)
{
    const int fails = failure ("clCreateBuffer");
    if (!fails)
        return real.clCreateBuffer (context, flags, bytes, from, code);
    *code = fails;
    return NULL;
}

static cl_int launch (cl_command_queue queue, cl_kernel kernel, cl_uint n, const size_t *offset,
                      const size_t *global, const size_t *local, cl_uint n_event,
                      const cl_event *events, cl_event *event)
{
    const int fails = failure ("clEnqueueNDRangeKernel");
    return fails ? fails
                 : real.clEnqueueNDRangeKernel (queue, kernel, n, offset, global, local, n_event,
                                                events, event);
}

static cl_int read (cl_command_queue queue, cl_mem buffer, cl_bool waits, size_t offset,
                    size_t bytes, void *to, cl_uint n, const cl_event *events, cl_event *event)
{
    const cl_int code =
                     real.clEnqueueReadBuffer (queue, buffer, waits, offset, bytes, to, n, events,
                                               event),
                 fails = failure ("clEnqueueReadBuffer");
    if (failure ("wrong"))
        *(uint32_t *) to ^= 1;
    return fails ? fails : code;
}

static bool is_late (cl_mem buffer)
{
    size_t bytes = 0;
    real.clGetMemObjectInfo (buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    return says ("late") && bytes > 4 << 20;
}

static cl_int write (cl_command_queue queue, cl_mem buffer, cl_bool waits, size_t offset,
                     size_t bytes, const void *from, cl_uint n, const cl_event *events,
                     cl_event *event)
{
    return is_late (buffer) ? CL_MEM_OBJECT_ALLOCATION_FAILURE
                            : real.clEnqueueWriteBuffer (queue, buffer, waits, offset, bytes, from,
                                                         n, events, event);
}

static cl_int write_rows (cl_command_queue queue, cl_mem buffer, cl_bool waits,
                          const size_t *to_origin, const size_t *origin, const size_t *region,
                          size_t to_pitch, size_t to_slice, size_t pitch, size_t slice,
                          const void *from, cl_uint n, const cl_event *events, cl_event *event)
{
    return is_late (buffer)
               ? CL_MEM_OBJECT_ALLOCATION_FAILURE
               : real.clEnqueueWriteBufferRect (queue, buffer, waits, to_origin, origin, region,
                                                to_pitch, to_slice, pitch, slice, from, n, events,
                                                event);
}

typedef cl_int platforms_fn (cl_uint, cl_platform_id *, cl_uint *);
typedef void *address_fn (const char *);

static void *pocl (const char *name)
{
    static void *library;
    char path[256] = "";
    FILE *file = library ? NULL : fopen ("/etc/OpenCL/vendors/pocl.icd", "r");
    if (file && fscanf (file, "%255s", path) == 1)
        library = dlopen (path, RTLD_NOW);
    if (file)
        fclose (file);
    return library ? dlsym (library, name) : NULL;
}

cl_int clIcdGetPlatformIDsKHR (cl_uint n, cl_platform_id *platform, cl_uint *count)
{
    address_fn *address;
    platforms_fn *platforms = NULL;
    *(void **) &address = pocl ("clGetExtensionFunctionAddress");
    if (address)
        *(void **) &platforms = address ("clIcdGetPlatformIDsKHR");
    const cl_int code = platforms ? platforms (n, platform, count) : -1001;
    if (code || !platform || real.clBuildProgram)
        return code;
    cl_icd_dispatch *table = **(cl_icd_dispatch ***) platform;
    const uintptr_t page = (uintptr_t) table & ~(uintptr_t) 4095;
    real = *table;
    if (mprotect ((void *) page, (uintptr_t) (table + 1) - page, PROT_READ | PROT_WRITE))
        abort ();
    table->clGetDeviceInfo = device_info;
    table->clBuildProgram = build;
    table->clCreateBuffer = buffer_new;
    table->clEnqueueNDRangeKernel = launch;
    table->clEnqueueReadBuffer = read;
    table->clEnqueueWriteBuffer = write;
    table->clEnqueueWriteBufferRect = write_rows;
    return code;
}

cl_int clGetPlatformInfo (cl_platform_id platform, cl_platform_info what, size_t bytes, void *to,
                          size_t *n)
{
    return real.clGetPlatformInfo (platform, what, bytes, to, n);
}

void *clGetExtensionFunctionAddress (const char *name)
{
    address_fn *address;
    *(void **) &address = pocl ("clGetExtensionFunctionAddress");
    return strcmp (name, "clIcdGetPlatformIDsKHR") == 0 ? (void *) clIcdGetPlatformIDsKHR
           : address                                    ? address (name)
                                                        : NULL;
}
#else
typedef int wm_no_headers_t;
#endif
