/* wm_adler.h - the checksum by which grid storage knows files.

   Thread: any.  */
#ifndef WM_ADLER_H
#define WM_ADLER_H

#include <stdint.h>
#include <sys/stat.h>

/* adler32 of a regular file, and its status; the last part of its path is no symbolic link. Returns
   0, or errno.  */
int wm_adler_file (const char *path, uint32_t *adler, struct stat *status);

#endif
