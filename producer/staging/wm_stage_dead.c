/* wm_stage_dead.c - see wm_stage_dead.h.  */
#include "producer/staging/wm_stage_dead.h"


#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define COPY_SECONDS 86400
#define PART_SECONDS (3 * 86400)

uint32_t wm_dead_hash (const char *folder)
{
    char text[PATH_MAX + 80] = "";
    gethostname (text, 64);
    strcat (text, ":");
    strncat (text, folder, PATH_MAX - 1);
    return (uint32_t) XXH3_64bits (text, strlen (text));
}

/* ---- here ------------------------------------------------------------------------------------ */

static bool is_number (const char *name)
{
    return *name && name[strspn (name, "0123456789")] == 0;
}

/* Removes the files in a folder: those of the stagers' names that are old enough, or all.  */
static void empty (int at, const char *name, bool all)
{
    struct stat st;
    const int fd = openat (at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd < 0 ? NULL : fdopendir (fd);
    for (const struct dirent *entry; folder && (entry = readdir (folder));) {
        const size_t n = strspn (entry->d_name, "0123456789abcdef");
        const bool ours = n == 16 && (entry->d_name[n] == '.' || entry->d_name[n] == '-');
        if (fstatat (fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR (st.st_mode))
            continue;
        if (all || (ours && time (NULL) - st.st_mtime > COPY_SECONDS))
            unlinkat (fd, entry->d_name, 0);
    }
    if (folder)
        closedir (folder);
    else if (fd >= 0)
        close (fd);
}

/* A folder of a stager that has ended: goes when nothing is left in it.  */
static void slot_clean (wm_dead_t *self, const char *slot)
{
    struct stat st;
    const int fd = open (slot, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (fstat (fd, &st) == 0 && st.st_uid == geteuid () && flock (fd, LOCK_EX | LOCK_NB) == 0) {
        if (self->n_hash < WM_DEAD_HASHES_MAX)
            self->hash[self->n_hash++] = wm_dead_hash (slot);
        empty (fd, WM_STAGE_OUT, true);
        unlinkat (fd, WM_STAGE_OUT, AT_REMOVEDIR);
        empty (fd, ".", false);
        rmdir (slot);
    }
    close (fd);
}

void wm_dead_slots (wm_dead_t *self, const char *scratch, const char *own)
{
    char path[PATH_MAX];
    DIR *folder = opendir (scratch);
    memset (self, 0, sizeof *self);
    for (const struct dirent *entry; folder && (entry = readdir (folder));) {
        /* as a stager writes it: its hash is of these bytes */
        snprintf (path, sizeof path, "%.3000s/%.255s", scratch, entry->d_name);
        if (is_number (entry->d_name) && strcmp (path, own) != 0)
            slot_clean (self, path);
    }
    if (folder)
        closedir (folder);
}

/* ---- on the server --------------------------------------------------------------------------- */

/* Whether a partial file of an output or a sidecar has this name; *hash: of its stager.  */
static bool is_part (const char *name, uint32_t *hash)
{
    static const char *const of[] = { ".scores.h5", ".scores.h5.json" };
    const size_t n = strlen (name), ending = strlen (".01234567.part");
    if (n <= ending || n >= sizeof ((wm_dead_t *) 0)->name[0] ||
        strcmp (name + n - strlen (".part"), ".part") != 0 || name[n - ending] != '.' ||
        strspn (name + n - ending + 1, "0123456789abcdef") != 8)
        return false;
    *hash = (uint32_t) strtoul (name + n - ending + 1, NULL, 16);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const size_t k = strlen (of[i]);
        if (n - ending > k && memcmp (name + n - ending - k, of[i], k) == 0)
            return true;
    }
    return false;
}

void wm_dead_listed (wm_dead_t *self, const char *name, int64_t changed_s)
{
    uint32_t hash;
    if (!is_part (name, &hash) || self->n_name == WM_DEAD_NAMES_MAX || strchr (name, '/') ||
        strchr (name, '?'))
        return;
    bool dead = changed_s >= 0 && time (NULL) - changed_s > PART_SECONDS;
    for (uint32_t i = 0; i < self->n_hash; i++)
        dead |= self->hash[i] == hash;
    if (dead)
        snprintf (self->name[self->n_name++], sizeof self->name[0], "%s", name);
}

bool wm_dead_remove_some (wm_dead_t *self, const char *url)
{
    char path[PATH_MAX], text[400];
    int status;
    if (self->tool.pid && wm_tool_ended (&self->tool, UINT64_MAX, &status))
        wm_tool_fs_result (&self->tool, status, text);
    if (self->tool.pid || !self->n_name)
        return self->tool.pid;
    snprintf (path, sizeof path, "%.1100s/%s", url, self->name[--self->n_name]);
    wm_tool_fs (&self->tool, path, "rm", NULL, NULL);
    return true;
}
