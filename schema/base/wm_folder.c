/* wm_folder.c - makes folders, and knows which do not lie on this machine.  */
#include "schema/base/wm_folder.h"

#include "schema/base/wm_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* What a person can do where a folder cannot be made.  */
static const char *advice (int failed, const char *other)
{
    return wm_file_is_full (failed) ? "; free some space there" : other;
}

wm_fault_t wm_folder_make (const char *path, mode_t mode, wm_error_t *error)
{
    char part[PATH_MAX];
    if (snprintf (part, sizeof part, "%s", path) >= (int) sizeof part)
        return wm_fault (error, WM_EHOST, "the folder's name is too long: %.200s...", path);
    for (char *at = part + 1;; at++) {
        const char here = *at;
        if (here && here != '/')
            continue;
        *at = 0;
        const bool made = mkdir (part, mode) == 0;
        if (!made && errno != EEXIST)
            return wm_fault (error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST,
                             "the folder %s cannot be made: %s%s", part, strerror (errno),
                             advice (errno, errno == EACCES || errno == EPERM || errno == EROFS
                                                ? "; choose one where this user may write"
                                                : ""));
        if ((made || !here) && wm_folder_sync_parent (part))
            return wm_fault (
                error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST,
                "the folder %s is not surely on disk: fsync of the folder it is in: %s", part,
                strerror (errno));
        if (!here)
            break;
        *at = here;
    }
    struct stat status;
    if (stat (path, &status) || !S_ISDIR (status.st_mode))
        return wm_fault (error, WM_EHOST, "%s is not a folder", path);
    return WM_OK;
}

int wm_folder_sync (const char *path)
{
    const int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    const int result = fsync (fd), failed = errno;
    close (fd);
    errno = failed;
    return result;
}

int wm_folder_sync_parent (const char *path)
{
    char parent[PATH_MAX];
    if (snprintf (parent, sizeof parent, "%s", path) >= (int) sizeof parent) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (wm_folder_sync (dirname (parent)) == 0)
        return 0;
    return errno == EIO || errno == ENOSPC || errno == EDQUOT ? -1 : 0;
}

const char *wm_folder_network (const char *path)
{
    /* statfs(2), linux/magic.h */
    static const struct {
        uint32_t magic;
        const char *name;
    } network[] = {
        { 0x6969, "NFS" },       { 0xff534d42, "CIFS" },  { 0xfe534d42, "SMB2" },
        { 0x517b, "SMB" },       { 0x65735546, "FUSE" },  { 0x0bd00bd0, "Lustre" },
        { 0x47504653, "GPFS" },  { 0x5346414f, "AFS" },   { 0x6b414653, "kAFS" },
        { 0x00c36400, "Ceph" },  { 0x01021997, "9p" },    { 0x19830326, "BeeGFS" },
        { 0x7461636f, "OCFS2" }, { 0x01161970, "GFS2" },  { 0x564c, "NCP" },
        { 0x73757245, "Coda" },  { 0xaad7aaea, "PanFS" }, { 0x6e66736f, "NFS" },
        { 0x013111a8, "IBRIX" },
    };
    struct statfs info;
    if (statfs (path, &info))
        return NULL;
    for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        if ((uint32_t) info.f_type == network[i].magic)
            return network[i].name;
    return NULL;
}

wm_fault_t wm_folder_temporary (char folder[PATH_MAX], const char *place, const char *name,
                                wm_error_t *error)
{
    const char *usual = getenv ("TMPDIR"),
               *in = place ? place : usual && *usual ? usual : "/tmp";
    snprintf (folder, PATH_MAX, "%.4000s/%s-XXXXXX", in, name);
    if (mkdtemp (folder))
        return WM_OK;
    *folder = 0;
    return wm_fault (error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST,
                     "no folder can be made in %.300s: %s%s", in, strerror (errno),
                     advice (errno, place ? "; choose a folder where this user may write"
                                          : "; set TMPDIR to a folder where this user may write"));
}
