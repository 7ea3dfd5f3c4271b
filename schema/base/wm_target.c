/* wm_target.c - see wm_target.h.  */
#include "schema/base/wm_target.h"

#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define BEGIN_BYTES 65536 /* of a file, which show what it is */

static bool is_same_file (const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Splits a name into its folder and the rest; false: too long.  */
static bool split (const char *path, char folder[PATH_MAX], char name[PATH_MAX])
{
    char copy[PATH_MAX];
    if (snprintf (folder, PATH_MAX, "%s", path) >= PATH_MAX)
        return false;
    memcpy (copy, folder, sizeof copy);
    snprintf (name, PATH_MAX, "%s", basename (copy));
    const char *parent = dirname (folder);
    memmove (folder, parent, strlen (parent) + 1);
    return true;
}

bool wm_target_same (const char *a, const char *b)
{
    struct stat one, other;
    char folder[2][PATH_MAX], name[2][PATH_MAX];
    const bool is_one = stat (a, &one) == 0, is_other = stat (b, &other) == 0;
    if (is_one && is_other)
        return is_same_file (&one, &other);
    return !is_one && !is_other && split (a, folder[0], name[0]) && split (b, folder[1], name[1]) &&
           !strcmp (name[0], name[1]) && stat (folder[0], &one) == 0 &&
           stat (folder[1], &other) == 0 && is_same_file (&one, &other);
}

const char *wm_target_place (const char *path, char place[PATH_MAX])
{
    struct stat st;
    if (lstat (path, &st) || !S_ISLNK (st.st_mode) || !realpath (path, place))
        snprintf (place, PATH_MAX, "%s", path);
    return place;
}

bool wm_target_is_stream (const char *path)
{
    struct stat st, out;
    if (strcmp (path, "-") == 0)
        return true;
    return stat (path, &st) == 0 && !S_ISDIR (st.st_mode) &&
           (!S_ISREG (st.st_mode) ||
            (fstat (STDOUT_FILENO, &out) == 0 && is_same_file (&st, &out)));
}

/* ---- what may be replaced -------------------------------------------------------------------- */

static bool is_of_kind (const wm_target_kind_t *kind, const char *begin, size_t bytes)
{
    bool is = !kind->begins && kind->is;
    for (const char *const *text = kind->begins; text && *text && !is; text++)
        is = bytes >= strlen (*text) && !memcmp (begin, *text, strlen (*text));
    return is && (!kind->is || kind->is (begin, bytes));
}

/* 1: it is empty or of the kind, 0: it is not; -1 and errno.  */
static int may_be_replaced (const char *path, const wm_target_kind_t *kind)
{
    char *begin = malloc (BEGIN_BYTES);
    const int fd = begin ? open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    size_t n = 0;
    ssize_t got = fd < 0 ? -1 : 0;
    while (fd >= 0 && n < BEGIN_BYTES && (got = read (fd, begin + n, BEGIN_BYTES - n)) > 0)
        n += (size_t) got;
    const int failed = errno;
    const int is = got < 0 ? -1 : !n || is_of_kind (kind, begin, n);
    if (fd >= 0)
        close (fd);
    free (begin);
    errno = failed;
    return is;
}

/* Returns whether the list's words have this ending, in whatever case.  */
static bool has_ending (const char *list, const char *ending)
{
    const size_t n = strlen (ending);
    for (const char *at = list; *at; at += strcspn (at, " "), at += *at == ' ')
        if (strcspn (at, " ") == n && !strncasecmp (at, ending, n))
            return true;
    return false;
}

/* A name that ends in another format: programs, and people, would take it for that.  */
static wm_fault_t check_ending (const char *path, const wm_target_kind_t *kind, wm_error_t *error)
{
    static const char formats[] =
        ".bmp .bz2 .csv .doc .docx .eps .feather .gif .gz .h5 .hdf .hdf5 .htm .html .jpeg .jpg "
        ".json .md .npy .npz .odt .onnx .parquet .pb .pdf .pickle .pkl .png .ps .pt .root .sql "
        ".sqlite .svg .tar .tex .tif .tiff .tsv .txt .webp .wmm .xls .xlsx .xml .xz .yaml .yml "
        ".zip .zst";
    const char *name = strrchr (path, '/'), *ending = strrchr (path, '.');
    name = name ? name + 1 : path;
    if (!kind->ends || !ending || ending <= name || !has_ending (formats, ending) ||
        has_ending (kind->ends, ending))
        return WM_OK;
    const int stem = ending - path < 200 ? (int) (ending - path) : 200;
    return wm_fault (error, WM_EUSAGE,
                     "%.200s ends in %s, but the %s is written as %s; give a name such as %.*s%.*s",
                     path, ending, kind->name, kind->ends, stem, path,
                     (int) strcspn (kind->ends, " "), kind->ends);
}

static wm_fault_t check_folder (const char *path, wm_error_t *error)
{
    char folder[PATH_MAX], name[PATH_MAX];
    struct stat st;
    if (!split (path, folder, name))
        return wm_fault (error, WM_EUSAGE, "%.300s: the name is too long", path);
    if (stat (folder, &st))
        return wm_fault (error, WM_EUSAGE,
                         "%.300s: cannot be written in %.100s: %s; make that folder, or give "
                         "another name",
                         path, folder, strerror (errno));
    if (!S_ISDIR (st.st_mode))
        return wm_fault (error, WM_EUSAGE, "%.300s: %.100s is no folder; give another name", path,
                         folder);
    if (access (folder, W_OK | X_OK))
        return wm_fault (error, WM_EUSAGE,
                         "%.300s: cannot be written in %.100s: %s; give a name "
                         "in another folder",
                         path, folder, strerror (errno));
    return WM_OK;
}

static wm_fault_t check_old (const char *path, const struct stat *st, const wm_target_kind_t *kind,
                             int force, wm_error_t *error)
{
    const char *how =
        force < 0 ? "give another name" : "give another name, or --force to replace it";
    char campaign[PATH_MAX];
    const bool is_own = !kind->has_campaign && st->st_size && (kind->begins || kind->is) &&
                        may_be_replaced (path, kind) > 0;
    if ((force > 0 || !st->st_size || kind->has_campaign) && !is_own &&
        wm_folder_is_of_campaign (path, campaign))
        return wm_fault (error, WM_EUSAGE,
                         "%.300s is a file of the campaign in %.300s: give another name", path,
                         campaign);
    if (force > 0)
        return WM_OK;
    if (!kind->begins && !kind->is && st->st_size)
        return wm_fault (error, WM_EUSAGE, "%.300s is there already; %s", path, how);
    const int is = may_be_replaced (path, kind);
    if (is < 0)
        return wm_fault (error, WM_EUSAGE, "%.300s: cannot be read, to learn what it is: %s; %s",
                         path, strerror (errno), how);
    if (!is)
        return wm_fault (error, WM_EUSAGE, "%.300s is no %s; %s", path, kind->name, how);
    if (!(st->st_mode & 0222))
        return wm_fault (error, WM_EUSAGE, "%.300s is read-only; %s", path, how);
    return WM_OK;
}

static wm_fault_t check_place (const char *path, const wm_target_kind_t *kind, int force,
                               wm_error_t *error)
{
    struct stat st;
    char place[PATH_MAX];
    const size_t n = strlen (path);
    if (strcmp (path, "-") == 0)
        return wm_fault (error, WM_EUSAGE, "-: a %s is not written to stdout; give a file",
                         kind->name);
    if (stat (path, &st)) {
        if (errno == ENOENT && lstat (path, &st) == 0)
            return wm_fault (error, WM_EUSAGE,
                             "%.300s is a symbolic link to nothing; remove it, or give another "
                             "name",
                             path);
        if (n && path[n - 1] == '/')
            return wm_fault (error, WM_EUSAGE, "%.300s is the name of a folder; give a file", path);
        return check_folder (path, error);
    }
    if (!S_ISREG (st.st_mode))
        return wm_fault (error, WM_EUSAGE, "%.300s is %s; give a file%s", path,
                         wm_file_irregular (st.st_mode), S_ISDIR (st.st_mode) ? " in it" : "");
    const wm_fault_t fault = check_old (path, &st, kind, force, error);
    return fault || kind->appends ? fault : check_folder (wm_target_place (path, place), error);
}

wm_fault_t wm_target_check (const char *path, const wm_target_kind_t *kind, int force,
                            wm_error_t *error)
{
    if (kind->streams && wm_target_is_stream (path))
        return WM_OK;
    const wm_fault_t fault = check_place (path, kind, force, error);
    return fault ? fault : check_ending (path, kind, error);
}
