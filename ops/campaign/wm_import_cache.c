/* wm_import_cache.c - see wm_import_cache.h.  */
#include "ops/campaign/wm_import_cache.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_order.h"
#include "schema/base/wm_path.h"
#include "schema/wm_limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 320
#define SETTLED_NS 2000000000ll
#define HASHES 256u /* files whose hash is remembered: at most so many */

/* ---- the folder ------------------------------------------------------------------------------ */

/* Ours alone to write: not a link, and no other user's.  */
static bool is_ours (const struct stat *status, mode_t kind)
{
    return (status->st_mode & S_IFMT) == kind && status->st_uid == geteuid () &&
           !(status->st_mode & 0022);
}

void wm_import_cache_init (wm_import_cache_t *self)
{
    struct stat status;
    wm_error_t error;
    const char *chosen = getenv ("WM_MODEL_CACHE"), *cache = getenv ("XDG_CACHE_HOME");
    const char *home = getenv ("HOME");
    int n = -1;
    if (!chosen || strcmp (chosen, "off") != 0) {
        if (cache && cache[0] == '/')
            n = snprintf (self->folder, PATH_MAX, "%s/wiremill/models", cache);
        else if (home && home[0] == '/')
            n = snprintf (self->folder, PATH_MAX, "%s/.cache/wiremill/models", home);
    }
    if (n < 0 || n > PATH_MAX - 100 ||
        (lstat (self->folder, &status) &&
         (wm_folder_make (self->folder, 0700, &error) || lstat (self->folder, &status)))) {
        self->folder[0] = 0;
        return;
    }
    if (is_ours (&status, S_IFDIR))
        return;
    fprintf (stderr,
             "wiremill: the folder of imported models %s is not used: it is not yours alone; type "
             "chmod go-w, remove it, or set WM_MODEL_CACHE=off\n",
             self->folder);
    self->folder[0] = 0;
}

static void name (const wm_import_cache_t *self, char path[PATH_MAX], const char *stem,
                  const char *suffix)
{
    snprintf (path, PATH_MAX, "%.3900s/%.100s%s", self->folder, stem, suffix);
}

/* Writes a line under a temporary name and renames it; what fails is left out.  */
static void write_line (const wm_import_cache_t *self, const char *path, const char *line)
{
    char temporary[PATH_MAX], stem[32];
    snprintf (stem, sizeof stem, "%ld", (long) getpid ());
    name (self, temporary, stem, ".new");
    const int fd = open (temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    const int failed = wm_file_append (fd, line, strlen (line));
    if (close (fd) || failed || rename (temporary, path))
        unlink (temporary);
}

/* Reads how a file of ours begins. Returns its bytes; 0: it is not there, or not ours.  */
static size_t read_head (const char *path, void *head, size_t bytes, bool *foreign)
{
    struct stat status;
    const int fd = open (path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *foreign = fd < 0 ? errno != ENOENT : fstat (fd, &status) || !is_ours (&status, S_IFREG);
    const ssize_t n = fd < 0 || *foreign ? 0 : read (fd, head, bytes);
    if (fd >= 0)
        close (fd);
    return n < 0 ? 0 : (size_t) n;
}

static bool read_line (const char *path, char line[LINE_BYTES])
{
    bool foreign;
    const size_t n = read_head (path, line, LINE_BYTES - 1, &foreign);
    line[n] = 0;
    return n && line[n - 1] == '\n';
}

static bool is_hash (const char *text)
{
    return strlen (text) == 64 && strspn (text, "0123456789abcdef") == 64;
}

/* ---- hashes of files ------------------------------------------------------------------------- */

bool wm_import_cache_is_settled (const char *path, struct stat *status)
{
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    return !stat (path, status) && !wm_folder_network (path) &&
           wm_path_ns (now) - wm_path_ns (status->st_mtim) > SETTLED_NS &&
           wm_path_ns (now) - wm_path_ns (status->st_ctim) > SETTLED_NS;
}

/* The line of a file, up to its hash, and the name of its place.  */
static void describe (const wm_import_cache_t *self, const struct stat *status, char path[PATH_MAX],
                      char line[LINE_BYTES])
{
    char stem[16];
    snprintf (stem, sizeof stem, "file-%02x", (unsigned) (status->st_ino % HASHES));
    name (self, path, stem, ".hash");
    snprintf (line, LINE_BYTES, "wiremill-file-1 %jx %jx %jd %" PRId64 " %" PRId64 " ",
              (uintmax_t) status->st_dev, (uintmax_t) status->st_ino, (intmax_t) status->st_size,
              wm_path_ns (status->st_mtim), wm_path_ns (status->st_ctim));
}

bool wm_import_cache_recall (const wm_import_cache_t *self, const char *path, char hex[65])
{
    struct stat status;
    char place[PATH_MAX], wanted[LINE_BYTES], line[LINE_BYTES];
    if (!self->folder[0] || !wm_import_cache_is_settled (path, &status))
        return false;
    describe (self, &status, place, wanted);
    const size_t n = strlen (wanted);
    if (!read_line (place, line) || strncmp (line, wanted, n) != 0)
        return false;
    snprintf (hex, 65, "%.64s", line + n);
    return is_hash (hex) && strcmp (line + n + 64, "\n") == 0;
}

void wm_import_cache_remember (const wm_import_cache_t *self, const char *path,
                               const struct stat *before, const char *hex)
{
    struct stat status;
    char place[PATH_MAX], line[LINE_BYTES], after[LINE_BYTES];
    if (!self->folder[0] || !wm_import_cache_is_settled (path, &status))
        return;
    describe (self, before, place, line);
    describe (self, &status, place, after);
    if (strcmp (line, after) != 0)
        return; /* it changed while it was read */
    snprintf (line + strlen (line), LINE_BYTES - strlen (line), "%.64s\n", hex);
    write_line (self, place, line);
}

/* ---- models ---------------------------------------------------------------------------------- */

/* The line of a .wmm that begins with `head`, up to its hash. Another build of wiremill may import
   in another way: what it made is not used.  */
static bool label (const uint8_t head[WM_MODEL_HEAD_BYTES], char line[LINE_BYTES])
{
    struct stat self;
    if (stat ("/proc/self/exe", &self))
        return false;
    int n = snprintf (line, LINE_BYTES, "wiremill-model-2 " WM_VERSION " %jd %" PRId64 " ",
                      (intmax_t) self.st_size, wm_path_ns (self.st_mtim));
    for (size_t i = 0; i < WM_MODEL_HEAD_BYTES; i++)
        n += snprintf (line + n, LINE_BYTES - (size_t) n, "%02x", head[i]);
    snprintf (line + n, LINE_BYTES - (size_t) n, " ");
    return true;
}

/* The hash that MODEL.known states of a .wmm that begins with `head`.  */
static bool look_up (const wm_import_cache_t *self, const char *model,
                     const uint8_t head[WM_MODEL_HEAD_BYTES], char hex[65])
{
    char place[PATH_MAX], wanted[LINE_BYTES], line[LINE_BYTES];
    name (self, place, model, ".known");
    if (!label (head, wanted) || !read_line (place, line))
        return false;
    const size_t n = strlen (wanted);
    if (strncmp (line, wanted, n) != 0)
        return false;
    snprintf (hex, 65, "%.64s", line + n);
    return is_hash (hex) && strcmp (line + n + 64, "\n") == 0;
}

bool wm_import_cache_find (const wm_import_cache_t *self, const char *model, char path[PATH_MAX])
{
    char known[PATH_MAX], hex[65];
    uint8_t head[WM_MODEL_HEAD_BYTES];
    bool foreign;
    if (!self->folder[0])
        return false;
    name (self, path, model, ".wmm");
    const size_t n = read_head (path, head, sizeof head, &foreign);
    if (foreign) {
        fprintf (stderr,
                 "wiremill: the imported model %s is not used: it is not a file of yours alone; "
                 "the model is imported again\n",
                 path);
        return false;
    }
    if (n != sizeof head || !look_up (self, model, head, hex))
        return false;
    name (self, known, model, ".known");
    utimensat (AT_FDCWD, known, NULL, 0); /* when it was used last */
    return true;
}

bool wm_import_cache_sha256 (const wm_import_cache_t *self, const wm_model_t *model, char hex[65])
{
    char path[PATH_MAX];
    uint8_t head[WM_MODEL_HEAD_BYTES];
    bool foreign;
    if (!self->folder[0])
        return false;
    name (self, path, wm_model_sha256 (model), ".wmm");
    return read_head (path, head, sizeof head, &foreign) == sizeof head &&
           memcmp (head, wm_model_head (model), sizeof head) == 0 &&
           look_up (self, wm_model_sha256 (model), head, hex);
}

void wm_import_cache_remove (const wm_import_cache_t *self, const char *model)
{
    char path[PATH_MAX];
    name (self, path, model, ".known");
    unlink (path);
    name (self, path, model, ".wmm");
    unlink (path);
    fprintf (stderr, "wiremill: the imported model %s is damaged; the model is imported again\n",
             path);
}

static wm_fault_t copy_file (const char *from, const char *to, wm_error_t *error)
{
    const uint8_t *bytes;
    size_t size;
    wm_fault_t fault = wm_file_map (from, WM_MODEL_BYTES_MAX, &bytes, &size, error);
    if (fault)
        return fault;
    fault = wm_file_write (to, &(wm_part_t){ bytes, size }, 1, error);
    munmap ((void *) (uintptr_t) bytes, size);
    return fault;
}

wm_fault_t wm_import_cache_put (const char *from, const char *to, bool copy, wm_error_t *error)
{
    char temporary[PATH_MAX];
    if (!copy &&
        snprintf (temporary, sizeof temporary, "%s.%ld.tmp", to, (long) getpid ()) < PATH_MAX) {
        wm_file_sweep (to); /* what killed commands left; one that runs makes a copy instead */
        unlink (temporary);
        const bool linked = link (from, temporary) == 0;
        const bool done = linked && rename (temporary, to) == 0;
        if (linked)
            unlink (temporary); /* still there if both were names of one file before */
        if (done)
            return WM_OK;
    }
    return copy_file (from, to, error);
}

/* ---- how much is kept ------------------------------------------------------------------------ */

typedef struct {
    char model[65];
    int64_t used_ns;
    uint64_t bytes;
} entry_t;

WM_ORDER_BY (by_use, entry_t, used_ns)

/* Lists the models that are kept; the caller frees them.  */
static entry_t *list_models (const wm_import_cache_t *self, size_t *n)
{
    entry_t *list = NULL;
    DIR *folder = opendir (self->folder);
    *n = 0;
    for (struct dirent *entry; folder && (entry = readdir (folder));) {
        struct stat wmm, known;
        char model[65], path[PATH_MAX];
        snprintf (model, sizeof model, "%.64s", entry->d_name);
        if (!is_hash (model) || strcmp (entry->d_name + 64, ".wmm") != 0)
            continue;
        name (self, path, model, ".wmm");
        entry_t *more = lstat (path, &wmm) ? NULL : realloc (list, (*n + 1) * sizeof *list);
        if (!more)
            continue;
        list = more;
        name (self, path, model, ".known");
        list[*n] = (entry_t){ .used_ns = stat (path, &known) ? 0 : wm_path_ns (known.st_mtim),
                              .bytes = (uint64_t) wmm.st_size };
        strcpy (list[(*n)++].model, model);
    }
    if (folder)
        closedir (folder);
    return list;
}

/* Removes models, unused longest first, until `bytes` more fit.  */
static void make_room (const wm_import_cache_t *self, uint64_t bytes)
{
    size_t n;
    uint64_t sum = bytes;
    char path[PATH_MAX];
    entry_t *list = list_models (self, &n);
    for (size_t i = 0; i < n; i++)
        sum += list[i].bytes;
    if (n)
        qsort (list, n, sizeof *list, by_use);
    for (size_t i = 0; i < n && sum > WM_IMPORT_CACHE_BYTES_MAX; i++) {
        name (self, path, list[i].model, ".known");
        unlink (path);
        name (self, path, list[i].model, ".wmm");
        sum -= unlink (path) ? 0 : list[i].bytes;
    }
    free (list);
}

void wm_import_cache_add (const wm_import_cache_t *self, const char *path, const wm_model_t *model,
                          const char *hex)
{
    struct stat status;
    wm_error_t error;
    char place[PATH_MAX], line[LINE_BYTES];
    const float *inputs, *scores;
    /* Without known answers it was imported without engines, which may come.  */
    if (!self->folder[0] || !wm_model_known (model, &inputs, &scores) || lstat (path, &status) ||
        !S_ISREG (status.st_mode) || status.st_uid != geteuid () ||
        (uint64_t) status.st_size > WM_IMPORT_CACHE_BYTES_MAX ||
        !label (wm_model_head (model), line))
        return;
    make_room (self, (uint64_t) status.st_size);
    name (self, place, wm_model_sha256 (model), ".wmm");
    if (wm_import_cache_put (path, place, false, &error) || chmod (place, status.st_mode & 07755))
        return;
    snprintf (line + strlen (line), LINE_BYTES - strlen (line), "%.64s\n", hex);
    name (self, place, wm_model_sha256 (model), ".known");
    write_line (self, place, line);
}
