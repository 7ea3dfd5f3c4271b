/* slow_shim.c - fdatasync takes WM_SLOW_MS longer while the file WM_SLOW exists (LD_PRELOAD).  */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync (int fd)
{
    const char *file = getenv ("WM_SLOW"), *ms = getenv ("WM_SLOW_MS");
    if (file && ms && access (file, F_OK) == 0)
        usleep (1000 * (unsigned) atoi (ms));
    return (int) syscall (SYS_fdatasync, fd);
}
