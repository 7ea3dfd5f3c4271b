/* fail_shim.c - calls of the C library that fail, and a clock that jumps (LD_PRELOAD).

   WM_SHIM_FAIL=CALL:K[+]:ERROR   the K-th call of CALL by this process fails with ERROR (a name:
                                  ENOSPC, EIO, ENOMEM), with a + every one from then on. CALL:
                                  write pwrite fsync fdatasync open rename ftruncate fallocate mmap
                                  read malloc stat (of outputs only). malloc counts
                                  what the program itself and its own shared objects ask for, not
                                  the libraries it uses (they abort).
   WM_SHIM_PROGRAM=NAME           only in programs of this name
   WM_SHIM_CLOCK_S=N              CLOCK_REALTIME jumps by N seconds and back, ten times a second
   WM_SHIM_HIT=FILE               a byte is added to FILE when a call is made to fail

   Standard files, sockets and what libzmq signals itself with (eventfd) never fail: they are no
   disk.  */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef enum {
    NOTHING,
    WRITE,
    PWRITE,
    FSYNC,
    FDATASYNC,
    OPEN,
    RENAME,
    FTRUNCATE,
    FALLOCATE,
    MMAP,
    READ,
    MALLOC,
    STAT,
    CALLS
} call_t;
static const char *const name_of[] = { "",     "write",  "pwrite",    "fsync",     "fdatasync",
                                       "open", "rename", "ftruncate", "fallocate", "mmap",
                                       "read", "malloc", "stat" };

static call_t failing;
static int error_number = EIO;
static bool for_ever;
static atomic_long left;
static long jump_s;
static int hit = -1; /* opened at the start: a confined process could not later */
static uintptr_t own_start, own_end;

static void note (void)
{
    if (hit >= 0)
        (void) !syscall (SYS_write, hit, ".", 1);
}

/* Whether this call is the one.  */
static bool due (call_t call)
{
    if (call != failing)
        return false;
    const long n = --left;
    if (n > 0 || (n < 0 && !for_ever))
        return false;
    if (n == 0)
        note ();
    errno = error_number;
    return true;
}

/* Only regular files and folders.  */
static bool on_disk (int fd)
{
    struct stat status;
    const int saved = errno;
    const bool is = fd > 2 && fstat (fd, &status) == 0 &&
                    (S_ISREG (status.st_mode) || S_ISDIR (status.st_mode));
    errno = saved;
    return is;
}

static int first_object (struct dl_phdr_info *info, size_t size, void *argument)
{
    (void) size;
    (void) argument;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            own_start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            own_end = own_start + info->dlpi_phdr[i].p_memsz;
        }
    return 1; /* the program itself comes first */
}

static void __attribute__ ((constructor)) arm (void)
{
    const char *text = getenv ("WM_SHIM_FAIL"), *program = getenv ("WM_SHIM_PROGRAM"),
               *clock = getenv ("WM_SHIM_CLOCK_S");
    if (program && strcmp (program, program_invocation_short_name))
        return;
    const char *path = getenv ("WM_SHIM_HIT");
    if (path)
        hit = (int) syscall (SYS_open, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    jump_s = clock ? atol (clock) : 0;
    const char *colon = text ? strchr (text, ':') : NULL;
    if (!colon)
        return;
    dl_iterate_phdr (first_object, NULL);
    char *end;
    left = strtol (colon + 1, &end, 10);
    for_ever = *end == '+';
    const char *error = strrchr (text, ':') + 1;
    error_number = !strcmp (error, "ENOSPC") ? ENOSPC : !strcmp (error, "ENOMEM") ? ENOMEM : EIO;
    for (int i = 1; i < CALLS; i++)
        if (strlen (name_of[i]) == (size_t) (colon - text) &&
            !strncmp (text, name_of[i], (size_t) (colon - text)))
            failing = (call_t) i;
}

#define REAL(function) ((__typeof__ (&function)) dlsym (RTLD_NEXT, #function))

ssize_t write (int fd, const void *bytes, size_t count)
{
    if (failing == WRITE && on_disk (fd) && due (WRITE))
        return -1;
    return syscall (SYS_write, fd, bytes, count);
}
ssize_t read (int fd, void *bytes, size_t count)
{
    if (failing == READ && on_disk (fd) && due (READ))
        return -1;
    return syscall (SYS_read, fd, bytes, count);
}
ssize_t pwrite (int fd, const void *bytes, size_t count, off_t offset)
{
    if (failing == PWRITE && on_disk (fd) && due (PWRITE))
        return -1;
    return syscall (SYS_pwrite64, fd, bytes, count, offset);
}
ssize_t pwrite64 (int fd, const void *bytes, size_t count, off64_t offset)
{
    return pwrite (fd, bytes, count, offset);
}
ssize_t pread (int fd, void *bytes, size_t count, off_t offset)
{
    if (failing == READ && on_disk (fd) && due (READ))
        return -1;
    return syscall (SYS_pread64, fd, bytes, count, offset);
}
ssize_t pread64 (int fd, void *bytes, size_t count, off64_t offset)
{
    return pread (fd, bytes, count, offset);
}
int fsync (int fd)
{
    return due (FSYNC) ? -1 : (int) syscall (SYS_fsync, fd);
}
int fdatasync (int fd)
{
    return due (FDATASYNC) ? -1 : (int) syscall (SYS_fdatasync, fd);
}
int rename (const char *from, const char *to)
{
    return due (RENAME) ? -1 : (int) syscall (SYS_rename, from, to);
}
int stat (const char *path, struct stat *status)
{
    return strstr (path, ".scores.h5") && due (STAT) ? -1 : (int) syscall (SYS_stat, path, status);
}
int ftruncate (int fd, off_t bytes)
{
    return on_disk (fd) && due (FTRUNCATE) ? -1 : (int) syscall (SYS_ftruncate, fd, bytes);
}
int ftruncate64 (int fd, off64_t bytes)
{
    return ftruncate (fd, bytes);
}
int posix_fallocate (int fd, off_t offset, off_t bytes)
{
    return due (FALLOCATE) ? error_number : REAL (posix_fallocate) (fd, offset, bytes);
}
int posix_fallocate64 (int fd, off64_t offset, off64_t bytes)
{
    return posix_fallocate (fd, offset, bytes);
}

static int open_as (const char *path, int flags, mode_t mode)
{
    if (failing == OPEN && (flags & (O_CREAT | O_RDWR | O_WRONLY)) && strncmp (path, "/dev", 4) &&
        strncmp (path, "/proc", 5) && due (OPEN))
        return -1;
    return (int) syscall (SYS_openat, AT_FDCWD, path, flags, mode);
}
int open (const char *path, int flags, ...)
{
    va_list more;
    va_start (more, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg (more, mode_t) : 0;
    va_end (more);
    return open_as (path, flags, mode);
}
int open64 (const char *path, int flags, ...)
{
    va_list more;
    va_start (more, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg (more, mode_t) : 0;
    va_end (more);
    return open_as (path, flags, mode);
}

/* ---- memory: what the program's own text asks for -------------------------------------------- */

extern void *__libc_malloc (size_t), *__libc_calloc (size_t, size_t),
    *__libc_realloc (void *, size_t);

static bool is_own (const void *caller)
{
    return failing == MALLOC && (uintptr_t) caller >= own_start && (uintptr_t) caller < own_end;
}
void *malloc (size_t bytes)
{
    return is_own (__builtin_return_address (0)) && due (MALLOC) ? NULL : __libc_malloc (bytes);
}
void *calloc (size_t count, size_t bytes)
{
    return is_own (__builtin_return_address (0)) && due (MALLOC) ? NULL
                                                                 : __libc_calloc (count, bytes);
}
void *realloc (void *old, size_t bytes)
{
    return is_own (__builtin_return_address (0)) && due (MALLOC) ? NULL
                                                                 : __libc_realloc (old, bytes);
}
void *mmap (void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (failing == MMAP && fd >= 0 && on_disk (fd) && due (MMAP))
        return MAP_FAILED;
    return (void *) syscall (SYS_mmap, at, bytes, protection, flags, fd, offset);
}
void *mmap64 (void *at, size_t bytes, int protection, int flags, int fd, off64_t offset)
{
    return mmap (at, bytes, protection, flags, fd, offset);
}

/* ---- the clock ------------------------------------------------------------------------------- */

int clock_gettime (clockid_t clock, struct timespec *now)
{
    const int rc = (int) syscall (SYS_clock_gettime, clock, now);
    if (rc == 0 && clock == CLOCK_REALTIME && now->tv_nsec / 100000000 % 2)
        now->tv_sec += jump_s;
    return rc;
}
time_t time (time_t *to)
{
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday (struct timeval *to, void *zone)
{
    (void) zone;
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    to->tv_sec = now.tv_sec;
    to->tv_usec = now.tv_nsec / 1000;
    return 0;
}
