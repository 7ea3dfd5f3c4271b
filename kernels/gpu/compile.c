/* compile.c - compiles our kernels for one GPU architecture, when wiremill is built, by NVRTC.

     compile SOURCE ARCH OUT.s LIBRARY INCLUDE [LIBRARY INCLUDE]...

   ARCH is sm_80 (machine code), sm_90a (with what only this architecture has) or compute_120 (PTX,
   which a driver compiles for GPUs that are newer than all of the list). The first LIBRARY
   (libnvrtc.so.12 or .13, or the pattern of its path) that opens and knows ARCH is taken; INCLUDE
   is the folder of its cuda_fp16.h. OUT.s is assembler: the image and its row of the section
   `wm_gpu_images` (wm_gpu_driver.h); OUT.s.log is what the compiler printed, of which the
   assembler's part counts registers. NVRTC has no C library: what our headers want of it is in
   `headers`. Products and sums round one by one, as on the host; what is to be fused is an fmaf.
 */
#include <dlfcn.h>
#include <glob.h>
#include <nvrtc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

static const char *const header_names[] = { "stdint.h", "stddef.h", "stdbool.h", "math.h",
                                            "string.h" };
static const char *const headers[] = {
    "typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;"
    "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned uint32_t;"
    "typedef unsigned long uint64_t; typedef unsigned long uintptr_t;\n"
    "#define UINT64_C(x) x##ul\n#define INT64_C(x) x##l\n"
    "#define UINT8_MAX 255\n#define UINT16_MAX 65535\n#define UINT32_MAX 0xffffffffu\n"
    "#define UINT64_MAX 0xfffffffffffffffful\n#define INT32_MAX 0x7fffffff\n"
    "#define INT32_MIN (-INT32_MAX - 1)\n#define INT64_MAX 0x7fffffffffffffffl\n",
    "#ifndef NULL\n#define NULL 0\n#endif\n",
    "",
    "#define INFINITY __int_as_float (0x7f800000)\n#define NAN __int_as_float (0x7fffffff)\n",
    "",
};

/* NVRTC's functions: the name here, their own.  */
#define NVRTC_CALLS(CALL)                                                                          \
    CALL (version, nvrtcVersion)                                                                   \
    CALL (create, nvrtcCreateProgram)                                                              \
    CALL (compile, nvrtcCompileProgram)                                                            \
    CALL (log_size, nvrtcGetProgramLogSize)                                                        \
    CALL (log, nvrtcGetProgramLog)                                                                 \
    CALL (cubin_size, nvrtcGetCUBINSize)                                                           \
    CALL (cubin, nvrtcGetCUBIN)                                                                    \
    CALL (ptx_size, nvrtcGetPTXSize)                                                               \
    CALL (ptx, nvrtcGetPTX)                                                                        \
    CALL (text, nvrtcGetErrorString)                                                               \
    CALL (n_arch, nvrtcGetNumSupportedArchs)                                                       \
    CALL (archs, nvrtcGetSupportedArchs)

typedef struct {
#define FIELD(name, function) __typeof__ (function) *name;
    NVRTC_CALLS (FIELD)
} calls_t;

#define NAME(name, function) #function,
static const char *const names[] = { NVRTC_CALLS (NAME) };

/* Opens the library if it knows the architecture; else prints why not.  */
static bool take (calls_t *call, const char *pattern, int arch)
{
    int known[64], n = 0;
    glob_t found = { 0 };
    void *symbol[sizeof names / sizeof *names];
    const bool matches = glob (pattern, 0, NULL, &found) == 0;
    void *library = matches ? dlopen (found.gl_pathv[0], RTLD_NOW) : NULL;
    if (matches && !library)
        fprintf (stderr, "compile: %s\n", dlerror ());
    globfree (&found);
    for (size_t i = 0; library && i < sizeof names / sizeof *names; i++)
        if (!(symbol[i] = dlsym (library, names[i]))) {
            fprintf (stderr, "compile: %s has no %s\n", pattern, names[i]);
            return false;
        }
    if (!library)
        return false;
    memcpy (call, symbol, sizeof *call);
    if (call->n_arch (&n) || n > 64 || call->archs (known))
        return false;
    while (n-- > 0)
        if (known[n] == arch)
            return true;
    fprintf (stderr, "compile: %s does not know sm_%d\n", pattern, arch);
    return false;
}

static bool write_file (const char *name, const char *ending, const char *data, size_t bytes)
{
    char path[PATH_BYTES];
    snprintf (path, sizeof path, "%s%s", name, ending);
    FILE *file = fopen (path, "we");
    const bool fine = file && fwrite (data, 1, bytes, file) == bytes;
    if ((file && fclose (file)) || !fine) {
        fprintf (stderr, "compile: %s cannot be written\n", path);
        return false;
    }
    return true;
}

static bool write_row (const char *out, const char *arch, int toolkit, bool is_ptx)
{
    char text[3 * PATH_BYTES];
    const int n =
        snprintf (text, sizeof text,
                  ".section .rodata.wm_gpu_image, \"a\"\n.balign 64\n1: .incbin \"%s.image\"\n2:\n"
                  ".section wm_gpu_images, \"aw\"\n.balign 8\n.quad 1b, 2b\n.long %d, %d, %d, %d\n"
                  ".section .note.GNU-stack, \"\", @progbits\n",
                  out, atoi (strchr (arch, '_') + 1), toolkit, is_ptx, strchr (arch, 'a') != NULL);
    return write_file (out, "", text, (size_t) n);
}

/* Compiles; the texts stay allocated until the program ends, which is soon. Returns its exit
   code.  */
static int compile (const calls_t *call, const char *source, const char *arch, const char *out,
                    const char *include)
{
    char of_arch[64], of_include[PATH_BYTES], text[PATH_BYTES];
    const bool is_ptx = *arch == 'c';
    const char *const options[] = {
        of_arch,     of_include,           "-I.",          "-std=c++17", "-default-device",
        "-lineinfo", "--ptxas-options=-v", "--fmad=false",
    };
    nvrtcProgram program;
    int major = 0, minor = 0;
    size_t bytes = 0, log_bytes = 0;
    char *log, *image;
    snprintf (of_arch, sizeof of_arch, "--gpu-architecture=%s", arch);
    snprintf (of_include, sizeof of_include, "-I%s", include);
    snprintf (text, sizeof text, "#include \"%s\"\n", source);
    if (call->version (&major, &minor) ||
        call->create (&program, text, NULL, sizeof headers / sizeof *headers, headers,
                      header_names)) {
        fputs ("compile: NVRTC does not begin\n", stderr);
        return 1;
    }
    const nvrtcResult result = call->compile (program, sizeof options / sizeof *options, options);
    call->log_size (program, &log_bytes);
    log = calloc (log_bytes + 1, 1);
    if (log)
        call->log (program, log);
    if (result || !log || strstr (log, "warning")) {
        fprintf (stderr, "compile: %s for %s by NVRTC %d.%d: %s\n%s\n", source, arch, major, minor,
                 call->text (result), log ? log : "no memory");
        return 1;
    }
    if (is_ptx ? call->ptx_size (program, &bytes) : call->cubin_size (program, &bytes))
        return 1;
    image = calloc (bytes + 1, 1);
    if (!image || (is_ptx ? call->ptx (program, image) : call->cubin (program, image)))
        return 1;
    return write_file (out, ".image", image, bytes) &&
                   write_file (out, ".log", log, strlen (log)) &&
                   write_row (out, arch, 1000 * major + 10 * minor, is_ptx)
               ? 0
               : 1;
}

int main (int argc, char **argv)
{
    calls_t call;
    if (argc < 6 || !strchr (argv[2], '_')) {
        fputs ("usage: compile SOURCE ARCH OUT.s LIBRARY INCLUDE [LIBRARY INCLUDE]...\n", stderr);
        return 2;
    }
    for (int i = 4; i + 1 < argc; i += 2)
        if (take (&call, argv[i], atoi (strchr (argv[2], '_') + 1)))
            return compile (&call, argv[1], argv[2], argv[3], argv[i + 1]);
    fprintf (stderr, "compile: no NVRTC for %s is here\n", argv[2]);
    return 1;
}
