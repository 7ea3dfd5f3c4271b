/* wm_kind.c - see wm_kind.h.  */
#include "schema/base/wm_kind.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int ends_with (const char *text, const char *end)
{
    const size_t n = strlen (text), m = strlen (end);
    return n > m && strcmp (text + n - m, end) == 0;
}

wm_kind_t wm_kind_of (const char *path)
{
    static const struct {
        const char *bytes;
        size_t n;
        wm_kind_t kind;
    } marks[] = { { "\x89HDF\r\n\x1a\n", 8, WM_KIND_HDF5 }, { "\x93NUMPY", 6, WM_KIND_NPY },
                  { "\x1f\x8b", 2, WM_KIND_GZIP },          { "PK\3\4", 4, WM_KIND_ZIP },
                  { "\x89WMM\r\n\x1a", 7, WM_KIND_MODEL },  { "root\0", 5, WM_KIND_ROOT } };
    struct stat status;
    char head[8] = { 0 };
    if (stat (path, &status))
        return lstat (path, &status) == 0 ? WM_KIND_BROKEN : WM_KIND_OTHER;
    if (!S_ISREG (status.st_mode))
        return WM_KIND_OTHER;
    const int fd = open (path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read (fd, head, sizeof head);
    if (fd >= 0)
        close (fd);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (n >= (ssize_t) marks[i].n && !memcmp (head, marks[i].bytes, marks[i].n))
            return marks[i].kind;
    if (n >= 2 && (unsigned char) head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
        return WM_KIND_PICKLE;
    return n == 0                                                 ? WM_KIND_EMPTY
           : ends_with (path, ".onnx") || ends_with (path, ".pb") ? WM_KIND_MODEL
                                                                  : WM_KIND_OTHER;
}

const char *wm_kind_name (wm_kind_t kind)
{
    static const char *const names[] = {
        [WM_KIND_HDF5] = "an HDF5 file",
        [WM_KIND_NPY] = "a .npy array",
        [WM_KIND_GZIP] = "compressed by gzip",
        [WM_KIND_ZIP] = "an archive (.zip, .npz, .pt or .keras)",
        [WM_KIND_PICKLE] = "a pickle of Python",
        [WM_KIND_ROOT] = "a ROOT file",
        [WM_KIND_MODEL] = "a model",
    };
    return kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

int wm_kind_is_url (const char *name)
{
    size_t n = 0;
    while (isalnum ((unsigned char) name[n]) || name[n] == '+')
        n++;
    return n >= 2 && strncmp (name + n, "://", 3) == 0;
}
