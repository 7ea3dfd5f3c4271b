/* wm_path.h - the name of an input: a file, or a dataset in one ("a.h5:/patches"). The file may be
   a URL ("root://host//a.h5:/patches").  */
#ifndef WM_PATH_H
#define WM_PATH_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the name that are its file's path: all of them where such a file exists, else those
   before ":/".  */
size_t wm_path_length (const char *name);

/* Size and modification time of that file. -1 and errno where it cannot be read; of a URL always,
   EREMOTE.  */
int wm_path_stat (const char *name, uint64_t *size, int64_t *mtime_ns);

#endif
