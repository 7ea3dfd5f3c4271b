/* wm_path.h - the name of an input: a file, or a dataset in one ("a.h5:/patches"). The file may be
   a URL ("root://host//a.h5:/patches"). And what a path is a link to.  */
#ifndef WM_PATH_H
#define WM_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Bytes of the name that are its file's path: all of them where such a file exists, else those
   before ":/".  */
size_t wm_path_length (const char *name);

/* Returns a message about the input `name` without the "NAME: " with which it may begin, also that
   of the file alone: for a line that has the name already. Lent by `text`.  */
const char *wm_path_behind (const char *text, const char *name);

/* Nanoseconds of a file's time since 1970.  */
static inline int64_t wm_path_ns (struct timespec time)
{
    return (int64_t) time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Size and modification time of that file. -1 and errno where it cannot be read; of a URL always,
   EREMOTE.  */
int wm_path_stat (const char *name, uint64_t *size, int64_t *mtime_ns);

/* Moves a path to what it is a symbolic link to, one link further: caches of models keep links to
   links, and each may have its files beside it. At most WM_PATH_LINKS_MAX times, as the kernel
   does. false: it is no link.  */
#define WM_PATH_LINKS_MAX 40
bool wm_path_follow (char path[PATH_MAX]);

#endif
