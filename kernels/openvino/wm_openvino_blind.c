/* wm_openvino_blind.c - see wm_openvino_blind.h.

   A program of wiremill has removed these variables before OpenVINO is loaded; here is what is left
   for libwiremill, in a process of others. That process keeps its environment: it may be reading it
   in another thread, and its children inherit it. So each library of OpenVINO gets another getenv:
   its entry in the library's table of foreign functions (the ELF relocation) is overwritten.

   OpenVINO 2026.4 loads its plug-ins late, and reads the variables of arithmetic when it first
   computes. So the plug-ins that we use are loaded first, and then all are changed. What a library
   reads while it is loaded it still sees: Intel's tracing, TBB's memory, OV_TURBOQ_NORM_CORRECTION;
   tests/fault/environment.t finds no effect on scores. The host's own calls of getenv pass through
   its own tables.  */
#include "kernels/openvino/wm_openvino_blind.h"
#include "schema/base/wm_environment.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <openvino/c/openvino.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined __x86_64__
#define IS_FUNCTION(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined __aarch64__
#define IS_FUNCTION(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#endif

#define PLUGIN "libopenvino_intel_cpu_plugin.so"

static char *get_visible (const char *name)
{
    return wm_environment_hides (name) ? NULL : getenv (name);
}

/* ---- one library ----------------------------------------------------------------------------- */

typedef struct {
    const char *folder; /* of OpenVINO's libraries, with its slash */
    int failed;         /* an errno, or 0 */
} search_t;

/* The tables of a library in memory.  */
typedef struct {
    const ElfW (Sym) * symbol;
    const char *name;
    const ElfW (Rela) * list[2]; /* of functions, and of data */
    size_t bytes[2];
} tables_t;

static const void *at (const struct dl_phdr_info *info, ElfW (Addr) address)
{
    return (const void *) (address < info->dlpi_addr ? address + info->dlpi_addr : address);
}

static tables_t tables_of (const struct dl_phdr_info *info)
{
    tables_t self = { 0 };
    const ElfW (Dyn) *entry = NULL;
    for (int i = 0; i < info->dlpi_phnum && !entry; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = at (info, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++)
        switch (entry->d_tag) {
        case DT_SYMTAB:
            self.symbol = at (info, entry->d_un.d_ptr);
            break;
        case DT_STRTAB:
            self.name = at (info, entry->d_un.d_ptr);
            break;
        case DT_JMPREL:
            self.list[0] = at (info, entry->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            self.bytes[0] = entry->d_un.d_val;
            break;
        case DT_RELA:
            self.list[1] = at (info, entry->d_un.d_ptr);
            break;
        case DT_RELASZ:
            self.bytes[1] = entry->d_un.d_val;
            break;
        default:
            break;
        }
    return self;
}

/* Puts get_visible into an entry, whose page the loader may have made read-only. Returns an
   errno.  */
static int overwrite (ElfW (Addr) address)
{
    void **entry = (void **) address, *function;
    const uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE);
    char *first = (char *) (address & ~(page - 1));
    char *(*const ours) (const char *) = get_visible;
    memcpy (&function, &ours, sizeof function);
    if (*entry == function)
        return 0;
    if (mprotect (first, page, PROT_READ | PROT_WRITE))
        return errno;
    __atomic_store_n (entry, function, __ATOMIC_RELEASE);
    return 0;
}

/* Makes read-only again what the loader had made so.  */
static void protect (const struct dl_phdr_info *info)
{
    const uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE);
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
            const uintptr_t first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
                            end = first + info->dlpi_phdr[i].p_memsz;
            mprotect ((void *) (first & ~(page - 1)), (end & ~(page - 1)) - (first & ~(page - 1)),
                      PROT_READ);
        }
}

static int change (struct dl_phdr_info *info, size_t size, void *search)
{
    search_t *self = search;
    const char *slash = strrchr (info->dlpi_name, '/');
    char real[PATH_MAX];
    (void) size;
    if (!slash || !realpath (info->dlpi_name, real) ||
        strncmp (real, self->folder, strlen (self->folder)) != 0)
        return 0;
    const tables_t tables = tables_of (info);
    for (int t = 0; t < 2 && tables.symbol && tables.name; t++)
        for (size_t i = 0; tables.list[t] && i < tables.bytes[t] / sizeof *tables.list[t]; i++) {
            const ElfW (Rela) *one = &tables.list[t][i];
            const char *name = tables.name + tables.symbol[ELF64_R_SYM (one->r_info)].st_name;
            if (IS_FUNCTION (ELF64_R_TYPE (one->r_info)) &&
                (strcmp (name, "getenv") == 0 || strcmp (name, "secure_getenv") == 0)) {
                const int failed = overwrite (info->dlpi_addr + one->r_offset);
                self->failed = failed ? failed : self->failed;
            }
        }
    protect (info);
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The real path, with its slash, of the folder that holds the C interface.  */
static bool find_folder (char folder[PATH_MAX])
{
    Dl_info here;
    ov_status_e (*const known) (ov_core_t **) = ov_core_create;
    void *address;
    memcpy (&address, &known, sizeof address);
    char *slash =
        dladdr (address, &here) && realpath (here.dli_fname, folder) ? strrchr (folder, '/') : NULL;
    if (slash)
        slash[1] = 0;
    return slash != NULL;
}

/* Loads a library of OpenVINO, as OpenVINO will. false: it is not there, or, with RTLD_NOLOAD, not
   loaded yet.  */
static bool load (const char *folder, const char *pattern, int how)
{
    char path[PATH_MAX];
    glob_t found = { 0 };
    const bool is_there =
        snprintf (path, sizeof path, "%s%s", folder, pattern) < (int) sizeof path &&
        glob (path, 0, NULL, &found) == 0 &&
        dlopen (found.gl_pathv[0], RTLD_NOW | RTLD_LOCAL | how); /* never closed, as all of them */
    globfree (&found);
    return is_there;
}

static wm_fault_t blind (bool is_foreign, wm_error_t *error)
{
    static const char *const late[] = { PLUGIN, "libopenvino_onnx_frontend.so*",
                                        "libopenvino_tensorflow_frontend.so*", "libtbbbind*.so*" };
    const char *variable = wm_environment_finds (NULL, 0);
    char folder[PATH_MAX];
    if (!variable)
        return WM_OK;
    const int n = (int) strcspn (variable, "=");
    if (is_foreign)
        return wm_fault (error, WM_EHOST,
                         "%.100s is set, which may change OpenVINO's scores, and this process had "
                         "loaded OpenVINO before wiremill: start it without %.*s",
                         variable, n, variable);
    search_t search = { .folder = folder };
    if (!find_folder (folder))
        search.failed = ENOENT;
    else {
        for (size_t i = 0; i < sizeof late / sizeof *late; i++)
            load (folder, late[i], 0);
        dl_iterate_phdr (change, &search);
    }
    return search.failed
               ? wm_fault (error, WM_EHOST,
                           "%.100s is set, which may change OpenVINO's scores, and OpenVINO cannot "
                           "be kept from reading it: %s; start the process without %.*s",
                           variable, strerror (search.failed), n, variable)
               : WM_OK;
}

wm_fault_t wm_openvino_blind (wm_error_t *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool is_known, is_foreign; /* whether the process had it before our first call */
    char folder[PATH_MAX];
    pthread_mutex_lock (&lock);
    if (!is_known)
        is_foreign = find_folder (folder) && load (folder, PLUGIN, RTLD_NOLOAD);
    is_known = true;
    const wm_fault_t fault = blind (is_foreign, error);
    pthread_mutex_unlock (&lock);
    return fault;
}
