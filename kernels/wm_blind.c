/* wm_blind.c - see wm_blind.h.

   A library's entry of getenv in its table of foreign functions (the ELF relocation) is
   overwritten. The host keeps its environment: it may be reading it in another thread, its children
   inherit it, and its own calls of getenv pass through its own tables.  */
#include "kernels/wm_blind.h"
#include "schema/base/wm_environment.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined __x86_64__
#define IS_FUNCTION(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined __aarch64__
#define IS_FUNCTION(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#endif

typedef struct {
    const char *prefix;
    int failed; /* an errno, or 0 */
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

/* Puts wm_environment_visible into an entry, whose page the loader may have made read-only. Returns
   an errno.  */
static int overwrite (ElfW (Addr) address)
{
    void **entry = (void **) address, *function;
    const uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE);
    char *first = (char *) (address & ~(page - 1));
    char *(*const ours) (const char *) = wm_environment_visible;
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
        strncmp (real, self->prefix, strlen (self->prefix)) != 0)
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

bool wm_blind_file (const void *address, char path[PATH_MAX])
{
    Dl_info here;
    return dladdr (address, &here) && realpath (here.dli_fname, path);
}

int wm_blind (const char *prefix)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    search_t search = { .prefix = prefix };
    pthread_mutex_lock (&lock);
    dl_iterate_phdr (change, &search);
    pthread_mutex_unlock (&lock);
    return search.failed;
}
