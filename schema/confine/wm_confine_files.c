/* wm_confine_files.c - Landlock: which files and ports stay. By the kernel's own numbers, since the
   C library has no calls for it and its header may be older than the kernel.  */
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_folder.h"
#include "schema/confine/wm_confine.h"
#include "schema/confine/wm_confine_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

#define RULE_PATH_BENEATH 1
#define VERSION_FLAG 1u
#define FILES_MAX 4096 /* of a home, by name; and where links are looked for */
#define LINKS_DEPTH 2  /* folders below that of a model */

/* Rights to files, and the version of Landlock that knows them.  */
enum {
    EXECUTE = 1u << 0,
    WRITE_FILE = 1u << 1,
    READ_FILE = 1u << 2,
    READ_DIR = 1u << 3,
    REMOVE_DIR = 1u << 4,
    REMOVE_FILE = 1u << 5,
    MAKE_DIR = 1u << 7,
    MAKE_REG = 1u << 8,
    MAKE_SYM = 1u << 12,
    TRUNCATE = 1u << 14,
    OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE, /* the others are of folders */
    ALL_1 = (1u << 13) - 1,
    ALL_2 = (1u << 14) - 1, /* and REFER */
    ALL_3 = (1u << 15) - 1, /* and TRUNCATE */
    ALL_5 = (1u << 16) - 1, /* and IOCTL_DEV */
    READS = READ_FILE | READ_DIR,
    WRITES = READS | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | TRUNCATE,
};
#define BIND_TCP 1u            /* from version 4 */
#define SCOPE_ABSTRACT_UNIX 1u /* from version 6 */

typedef struct {
    uint64_t fs, net, scoped;
} ruleset_t; /* older kernels accept more, as long as it is 0 */

typedef struct {
    uint64_t allowed;
    int32_t fd;
} __attribute__ ((packed)) beneath_t;

struct wm_confine_files_t {
    int fd;
    uint64_t handled;
    char last[PATH_MAX]; /* the last folder given to wm_confine_files_beside */
    bool last_is_whole;
};

int wm_confine_landlock (void)
{
    const long version = syscall (SYS_landlock_create_ruleset, NULL, (size_t) 0, VERSION_FLAG);
    return version > 0 ? (int) version : 0;
}

static void allow (wm_confine_files_t *self, const char *path, uint64_t rights)
{
    struct stat status;
    const int fd = self ? open (path, O_PATH | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (fstat (fd, &status) == 0 && !S_ISDIR (status.st_mode))
        rights &= OF_FILES;
    beneath_t rule = { .allowed = rights & self->handled, .fd = fd };
    syscall (SYS_landlock_add_rule, self->fd, RULE_PATH_BENEATH, &rule, 0u);
    close (fd);
}

void wm_confine_files_read (wm_confine_files_t *self, const char *path)
{
    allow (self, path, READS);
}

void wm_confine_files_write (wm_confine_files_t *self, const char *folder)
{
    allow (self, folder, WRITES);
}

void wm_confine_files_scratch (wm_confine_files_t *self, const char *folder)
{
    allow (self, folder, WRITES | MAKE_SYM);
}

wm_confine_files_t *wm_confine_files_new (void)
{
    static const char *const always[] = { "/usr",         "/lib",
                                          "/lib64",       "/etc",
                                          "/proc",        "/sys",
                                          "/dev/urandom", "/run/systemd/resolve",
                                          "/dev/null" };
    const int version = wm_confine_is_off () ? 0 : wm_confine_landlock ();
    if (version <= 0) {
        if (!wm_confine_is_off () && !strstr (wm_confine_lacks (), "Landlock"))
            wm_confine_lack ("Landlock", errno ? errno : ENOSYS);
        return NULL;
    }
    wm_confine_files_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->handled = version >= 5 ? ALL_5 : version >= 3 ? ALL_3 : version >= 2 ? ALL_2 : ALL_1;
    const ruleset_t rules = { .fs = self->handled,
                              .net = version >= 4 ? BIND_TCP : 0,
                              .scoped = version >= 6 ? SCOPE_ABSTRACT_UNIX : 0 };
    const size_t bytes = version >= 6 ? sizeof rules : version >= 4 ? 16 : 8;
    self->fd = (int) syscall (SYS_landlock_create_ruleset, &rules, bytes, 0u);
    if (self->fd < 0) {
        wm_confine_lack ("Landlock", errno);
        free (self);
        return NULL;
    }
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        allow (self, always[i], READS | (strcmp (always[i], "/dev/null") ? 0 : WRITE_FILE));
    const char *colon = wm_failpoint_armed ? strchr (wm_failpoint_armed, ':') : NULL;
    colon = colon ? strchr (colon + 1, ':') : NULL;
    if (colon) { /* a test's: the file that lets a process die once */
        char folder[PATH_MAX];
        snprintf (folder, sizeof folder, "%s", colon + 1);
        char *slash = strrchr (folder, '/');
        if (slash)
            *slash = 0;
        wm_confine_files_write (self, slash ? folder : ".");
    }
    return self;
}

/* Whether the real path `folder` is a home or lies above one.  */
static bool holds_home (const char *folder)
{
    char home[PATH_MAX], keys[PATH_MAX + 8];
    const char *named = getenv ("HOME");
    const size_t n = strlen (folder);
    snprintf (keys, sizeof keys, "%s/.ssh", folder);
    if (n <= 1 || access (keys, F_OK) == 0)
        return true;
    return named && realpath (named, home) && strncmp (home, folder, n) == 0 &&
           (!home[n] || home[n] == '/');
}

static void each_plain (wm_confine_files_t *self, const char *folder)
{
    DIR *list = opendir (folder);
    const struct dirent *entry;
    for (int n = 0; list && n < FILES_MAX && (entry = readdir (list));) {
        char path[PATH_MAX + NAME_MAX + 2];
        if (entry->d_name[0] == '.' || (entry->d_type != DT_REG && entry->d_type != DT_LNK))
            continue;
        snprintf (path, sizeof path, "%s/%s", folder, entry->d_name);
        allow (self, path, READ_FILE);
        n++;
    }
    if (list)
        closedir (list);
}

static char spared[WM_CONFINE_SPARED_MAX][PATH_MAX]; /* real paths; the last ones, in a ring */
static size_t n_spared;

void wm_confine_spare (const char *folder)
{
    char real[PATH_MAX];
    if (!realpath (folder, real))
        return;
    for (size_t i = 0; i < WM_CONFINE_SPARED_MAX; i++)
        if (strcmp (spared[i], real) == 0)
            return;
    strcpy (spared[n_spared++ % WM_CONFINE_SPARED_MAX], real);
}

/* Whether a real path holds a home or a spared folder, or lies in one that is spared.  */
static bool is_kept (const char *real)
{
    bool is = holds_home (real);
    for (size_t i = 0; i < WM_CONFINE_SPARED_MAX && *spared[i]; i++)
        is |= wm_folder_is_in (spared[i], real) || wm_folder_is_in (real, spared[i]);
    return is;
}

/* Opens what a link leads to: a plain file, or a folder with all below it.  */
static void follow (wm_confine_files_t *self, const char *path)
{
    struct stat status;
    char real[PATH_MAX];
    if (stat (path, &status) || !realpath (path, real))
        return;
    if (S_ISREG (status.st_mode))
        allow (self, real, READ_FILE);
    else if (S_ISDIR (status.st_mode) && !is_kept (real))
        allow (self, real, READS);
}

/* The same for each link in a folder and, `depth` deep, below; *left: so many entries are read.  */
static void each_link (wm_confine_files_t *self, const char *folder, int depth, int *left)
{
    DIR *list = opendir (folder);
    const struct dirent *entry;
    while (list && *left > 0 && (entry = readdir (list))) {
        char path[PATH_MAX];
        struct stat status;
        --*left;
        if (entry->d_name[0] == '.' ||
            snprintf (path, sizeof path, "%s/%s", folder, entry->d_name) >= (int) sizeof path ||
            lstat (path, &status))
            continue;
        if (S_ISLNK (status.st_mode))
            follow (self, path);
        else if (S_ISDIR (status.st_mode) && depth > 0)
            each_link (self, path, depth - 1, left);
    }
    if (list)
        closedir (list);
}

void wm_confine_files_links (wm_confine_files_t *self, const char *path)
{
    char folder[PATH_MAX], real[PATH_MAX];
    int left = FILES_MAX;
    if (!self || snprintf (folder, sizeof folder, "%s", path) >= (int) sizeof folder)
        return;
    const char *slash = strrchr (folder, '/');
    folder[slash ? slash - folder : 0] = 0;
    if (realpath (slash == folder ? "/" : *folder ? folder : ".", real))
        each_link (self, real, is_kept (real) ? 0 : LINKS_DEPTH, &left);
}

void wm_confine_files_beside (wm_confine_files_t *self, const char *path)
{
    char folder[PATH_MAX], real[PATH_MAX];
    if (!self || snprintf (folder, sizeof folder, "%s", path) >= (int) sizeof folder)
        return;
    char *slash = strrchr (folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    else
        strcpy (folder, ".");
    const bool is_new = strcmp (folder, self->last) != 0; /* inputs come folder after folder */
    if (is_new && !realpath (folder, real))
        return;
    if (is_new) {
        bool is_above = holds_home (real), is_in = false;
        for (size_t i = 0; i < WM_CONFINE_SPARED_MAX && *spared[i]; i++) {
            is_above |= wm_folder_is_in (spared[i], real);
            is_in |= wm_folder_is_in (real, spared[i]);
        }
        strcpy (self->last, folder);
        self->last_is_whole = !is_above && !is_in;
        if (self->last_is_whole)
            allow (self, real, READS);
        else if (!is_in)
            each_plain (self, real);
    }
    if (!self->last_is_whole)
        allow (self, path, READ_FILE);
}

void wm_confine_files_apply (wm_confine_files_t **self_p)
{
    wm_confine_files_t *self = *self_p;
    if (!self)
        return;
    if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall (SYS_landlock_restrict_self, self->fd, 0u))
        wm_confine_lack ("Landlock", errno);
    close (self->fd);
    free (self);
    *self_p = NULL;
}
