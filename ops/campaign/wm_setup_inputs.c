/* wm_setup_inputs.c - the files that a command line names, and what the shell allows.  */
#include "ops/campaign/wm_setup_private.h"
#include "ops/campaign/wm_urls.h"
#include "ops/process/wm_memory.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_text.h"
#include "schema/base/wm_url.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- limits of the shell --------------------------------------------------------------------- */

#define FILES_LEAST 64u              /* a broker with one producer and one worker needs about 40 */
#define LINE_BYTES_MAX 8192u         /* of a list: a path and its dataset */
#define FILE_BYTES_LEAST (64u << 20) /* models of this size are usual; the outputs come on top */

/* Refuses limits that no campaign fits in, before its processes fail one after the other.  */
wm_fault_t wm_setup_limits (wm_error_t *error)
{
    struct rlimit files, bytes;
    if (getrlimit (RLIMIT_NOFILE, &files) == 0 && files.rlim_max < FILES_LEAST)
        return wm_fault (error, WM_EHOST,
                         "this shell allows %llu open files, a campaign needs %u or more; type "
                         "ulimit -n 1024, or start a new shell",
                         (unsigned long long) files.rlim_max, FILES_LEAST);
    if (getrlimit (RLIMIT_FSIZE, &bytes) == 0 && bytes.rlim_cur < FILE_BYTES_LEAST)
        return wm_fault (error, WM_EHOST,
                         "this shell allows files of %llu KiB, a campaign needs %u or more; type "
                         "ulimit -f unlimited, or start a new shell",
                         (unsigned long long) bytes.rlim_cur >> 10, FILE_BYTES_LEAST >> 10);
    return WM_OK;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

typedef struct {
    FILE *out;
    wm_inputs_t *inputs;
    void *seen; /* tree of the names that is_repeated compares; owns them */
} list_t;

static int compare_names (const void *a, const void *b)
{
    return strcmp (a, b);
}

/* Returns whether a file of this name was given before, by whatever path to its folder. A link to a
   file is another name of it: lists of inputs that are done have both.  */
static bool is_repeated (list_t *list, const char *path)
{
    const char *slash = memrchr (path, '/', wm_path_length (path));
    const char *base = slash ? slash + 1 : path;
    char folder[PATH_MAX], real[PATH_MAX], full[2 * PATH_MAX];
    snprintf (folder, sizeof folder, "%.*s", slash ? (int) (base - path) : 1, slash ? path : ".");
    if (wm_url_of (path) == WM_URL_NONE && realpath (folder, real))
        snprintf (full, sizeof full, "%s/%.4000s", real, base);
    else
        snprintf (full, sizeof full, "%s", path);
    char *name = strdup (full);
    char *const *at = name ? tsearch (name, &list->seen, compare_names) : NULL;
    const bool is = at && *at != name;
    if (is || !at)
        free (name);
    return is;
}

static wm_fault_t add_file (list_t *list, const char *path, wm_error_t *error)
{
    const bool is_url = wm_url_of (path) != WM_URL_NONE;
    if (is_url && !strchr (path, '\n') && wm_urls_check (path, error))
        return error->fault;
    if (strchr (path, '\n')) { /* lists have one a line */
        wm_fault (error, WM_EUSAGE, "an input's name contains a line break, rename it: %.200s",
                  path);
        wm_log_sanitize (error->text);
        return WM_EUSAGE;
    }
    if (is_repeated (list, path)) {
        list->inputs->n_repeated++;
        return WM_OK;
    }
    list->inputs->n_url += is_url;
    if (list->inputs->n_file++ == 0) {
        snprintf (list->inputs->first, sizeof list->inputs->first, "%s", path);
        wm_url_redact (list->inputs->first);
    }
    fprintf (list->out, "%s\n", path);
    return WM_OK;
}

/* A name that the shell or the user took for a pattern, and that nothing matches.  */
static wm_fault_t no_match (const char *pattern, wm_error_t *error)
{
    struct stat status;
    const int failed = stat (pattern, &status) ? errno : EAGAIN; /* it has come just now */
    const char *colon = strrchr (pattern, ':');
    char file[PATH_MAX];
    snprintf (file, sizeof file, "%.*s", colon ? (int) (colon - pattern) : 0, pattern);
    if (colon && access (file, F_OK) == 0)
        return wm_fault (error, WM_EUSAGE,
                         "the input %.300s cannot be read; a dataset is named %.100s:/DATASET",
                         pattern, basename (file));
    char *comma = strchr (pattern, ',');
    if (comma && !strpbrk (pattern, "*?[{")) {
        snprintf (file, sizeof file, "%.*s", (int) (comma - pattern), pattern);
        if (access (file, F_OK) == 0)
            return wm_fault (error, WM_EUSAGE,
                             "the input %.300s cannot be read; files are separated by blanks, or "
                             "each has an --input of its own",
                             pattern);
    }
    if (strpbrk (pattern, "*?[{"))
        return wm_fault (error, WM_EUSAGE, "no file matches '%.300s'", pattern);
    wm_error_t why;
    errno = failed;
    wm_file_missing (pattern, &why);
    return wm_fault (error, WM_EUSAGE, "the input %.440s", why.text);
}

/* The folder that glob was refused, and why. (One thread reads the command line.)  */
static struct {
    char path[PATH_MAX];
    int failed;
} unread;

/* Ends glob: no file may be left out unnoticed. 0: it is no folder, or is gone, or is that of the
   file system's own.  */
static int end_at (const char *path, int failed)
{
    snprintf (unread.path, sizeof unread.path, "%s", path);
    unread.failed = failed;
    const char *name = strrchr (path, '/');
    return failed != ENOENT && failed != ELOOP && strcmp (name ? name + 1 : path, "lost+found");
}

/* FILE.h5:/dataset names a dataset of patches: the file part may be a pattern, the rest is kept. */
static wm_fault_t add_pattern (list_t *list, const char *given, wm_error_t *error)
{
    struct stat st;
    char pattern[PATH_MAX], path[PATH_MAX];
    const char *dataset = strstr (given, ":/");
    const size_t n = dataset ? (size_t) (dataset - given) : strlen (given);
    if (wm_url_of (given) != WM_URL_NONE)
        return add_file (list, given, error);
    if (n >= sizeof pattern)
        return wm_fault (error, WM_EBATCH, "the path is too long: %.200s...", given);
    snprintf (pattern, sizeof pattern, "%.*s", (int) n, given);
    if (stat (pattern, &st) == 0) {
        if (S_ISDIR (st.st_mode))
            return wm_fault (error, WM_EUSAGE, "%.300s is a folder; name its files: '%.300s%s*.h5'",
                             pattern, pattern, pattern[n - 1] == '/' ? "" : "/");
        if (!S_ISREG (st.st_mode))
            return wm_fault (error, WM_EUSAGE, "%s is not a regular file: it cannot be read twice",
                             pattern);
        return add_file (list, given, error);
    }
    glob_t found;
    wm_fault_t fault = WM_OK;
    const int failed = lstat (pattern, &st) == 0
                           ? GLOB_NOMATCH
                           : glob (pattern, GLOB_BRACE | GLOB_TILDE, end_at, &found);
    if (failed == GLOB_ABORTED)
        return wm_fault (error, WM_EUSAGE, "the folder %.200s of '%.200s' cannot be read: %s",
                         unread.path, pattern, strerror (unread.failed));
    if (failed)
        return no_match (pattern, error);
    for (size_t i = 0; i < found.gl_pathc && !fault; i++) {
        /* A link to nothing goes on: its input is held by name.  */
        if (wm_setup_is_output (found.gl_pathv[i]) || /* outputs may lie beside their inputs */
            (stat (found.gl_pathv[i], &st) == 0 && !S_ISREG (st.st_mode))) {
            list->inputs->n_left_out++;
            continue;
        }
        const int length = snprintf (path, sizeof path, "%s%s", found.gl_pathv[i], given + n);
        fault = length < PATH_MAX
                    ? add_file (list, path, error)
                    : wm_fault (error, WM_EBATCH, "the path is too long: %.200s...", path);
    }
    globfree (&found);
    return fault;
}

static bool is_there (const char *name)
{
    uint64_t size;
    int64_t mtime_ns;
    return wm_path_stat (name, &size, &mtime_ns) == 0;
}

/* Adds a line of a list. Blanks around a path are none of it, but where it is the name of a file
   with them, and of no file without.  */
static wm_fault_t add_line (list_t *list, char *line, wm_error_t *error)
{
    char given[LINE_BYTES_MAX + 1];
    snprintf (given, sizeof given, "%s", line);
    const char *path = wm_text_trim (line);
    if (strcmp (path, given) != 0 && !is_there (path) && is_there (given))
        path = given;
    if (!*path || (*path == '#' && !is_there (path))) /* a name may begin with # */
        return WM_OK;
    return add_file (list, path, error);
}

static wm_fault_t add_list (list_t *list, const char *path, wm_error_t *error)
{
    const bool is_stdin = strcmp (path, "-") == 0;
    const int fd = is_stdin ? STDIN_FILENO : open (path, O_RDONLY | O_CLOEXEC);
    wm_error_t why;
    if (fd < 0 && wm_file_missing (path, &why))
        return wm_fault (error, WM_EUSAGE, "the list of inputs %.440s", why.text);
    char *line, name[320] = "the list of inputs";
    wm_lines_t lines = { .space = NULL };
    if (!is_stdin)
        snprintf (name, sizeof name, "the list of inputs %.280s", path);
    wm_fault_t fault = wm_lines_start (&lines, fd, name, LINE_BYTES_MAX, error);
    while (!fault && !(fault = wm_lines_next (&lines, &line, error)) && line)
        fault = add_line (list, line, error);
    wm_lines_clear (&lines);
    if (!is_stdin)
        close (fd);
    return fault == WM_EBATCH ? error->fault = WM_EUSAGE : fault; /* no input is bad, the list is */
}

wm_fault_t wm_setup_inputs (wm_inputs_t *self, const wm_args_t *args, int first, wm_error_t *error)
{
    memset (self, 0, sizeof *self);
    char *text = NULL;
    size_t bytes = 0;
    list_t list = { open_memstream (&text, &bytes), self, NULL };
    if (!list.out)
        return wm_fault (error, WM_EHOST, "no memory for the list of inputs");
    wm_fault_t fault = wm_setup_limits (error);
    const char *name;
    for (int i = 0; !fault && (name = wm_args_each (args, "input", i)); i++)
        fault = add_pattern (&list, name, error);
    for (int i = first; !fault && (name = wm_args_rest (args, i)); i++)
        fault = add_pattern (&list, name, error);
    for (int i = 0; !fault && (name = wm_args_each (args, "input-list", i)); i++)
        fault = add_list (&list, name, error);
    fclose (list.out);
    tdestroy (list.seen, free);
    if (!fault && !self->n_file)
        fault = wm_fault (error, WM_EUSAGE,
                          self->n_left_out
                              ? "the patterns match nothing but outputs (*.scores.h5) and folders"
                              : "no input is given; use --input 'GLOB' or --input-list");
    if (!fault)
        fault = wm_memory_file ("inputs", text, bytes, &self->fd, self->path, error);
    free (text);
    return fault;
}
