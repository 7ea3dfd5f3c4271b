/* export.c - `wiremill-producer export`: the rows of outputs as CSV, NumPy arrays or Parquet.

   Rows go to the text or array in pieces, so that memory does not follow their number.
   A file gets its name when it is whole. Parquet is written by the Python package.  */
#include "producer/verbs.h"

#include "producer/files/wm_h5.h"
#include "producer/files/wm_npy.h"
#include "producer/files/wm_scores.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_table.h"

#include <errno.h>
#include <hdf5.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS_MAX 128u
#define PIECE_ROWS 16384u
#define HEAD_BYTES 16384u

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "to", .value = "csv|npy|parquet", .one_of = true, .is_needed = true,
     .task = "what is written",
     .help = "csv: a text with the names of columns in its first line; npy: an array of rows with "
             "named columns, for numpy.load; parquet: a table, by the Python package wiremill "
             "with its extra arrow"},
    {.name = "scores", .help = "with --to npy: the scores alone, float32 (rows, labels)"},
    {.name = "output", .letter = 'o', .value = "DIR", .path = WM_PATH_PRESENT, .task = "where",
     .help = "an existing folder (default: beside each file)"},
    WM_OPTION_FORCE,
    {.name = NULL},
};

static int export_main (const wm_args_t *args);
const wm_verb_t wm_verb_export = {
    .name = "export", .task = "files", .rest = "FILE...",
    .summary = "write the rows of outputs as CSV, NumPy arrays or Parquet",
    .text = "  wiremill export out/*.scores.h5 --to csv\n"
            "  wiremill export out/events.scores.h5 --to npy --scores -o arrays\n\n"
            "Writes events.scores.csv, .npy or .parquet of events.scores.h5, in either layout of\n"
            "outputs: a line or row for each hit, in the order of the input. Scores have all\n"
            "their digits; those of held hits are nan. Parquet has status and engine as names,\n"
            "and needs python3 (or WIREMILL_PYTHON) with pyarrow, and memory for a whole file.\n",
    .options = options, .run = export_main };
/* clang-format on */

typedef struct {
    char name[48];
    const char *type; /* as NumPy names it */
    wm_h5_type_t as;
    wm_column_t from;
    uint32_t bytes; /* a value */
    uint32_t part;  /* of a column of three */
    void *value;    /* (PIECE_ROWS x width) */
} column_t;

typedef struct {
    const char *format; /* csv, npy or parquet */
    bool to_npy, scores_only, force;
    const char *folder; /* NULL: beside each file */
    const char *path;
    char to[PATH_MAX];
    wm_table_t inputs; /* by inode */
    wm_scores_t labels;
    char table[80];
    wm_h5_t *file;
    column_t column[COLUMNS_MAX];
    uint32_t n_column;
    uint64_t n_row;
    FILE *out;
} export_t;

/* ---- columns --------------------------------------------------------------------------------- */

static bool has (const export_t *self, const char *name)
{
    char path[160];
    snprintf (path, sizeof path, "%s/%s", self->table, name);
    return wm_h5_has (self->file, path);
}

/* Chooses how a column is read and written, by how it is stored.  */
static wm_fault_t type_choose (column_t *column, wm_error_t *error)
{
    int64_t id;
    const wm_fault_t fault = wm_h5_dataset (&column->from, &id, error);
    if (fault)
        return fault;
    hid_t type = H5Dget_type (id);
    const size_t bytes = H5Tget_size (type);
    const bool is_float = H5Tget_class (type) == H5T_FLOAT;
    const bool is_long =
        bytes > 4 || (bytes == 4 && !is_float && H5Tget_sign (type) == H5T_SGN_NONE);
    H5Tclose (type);
    column->bytes = is_long ? 8 : 4;
    column->type = is_float ? (is_long ? "<f8" : "<f4") : is_long ? "<i8" : "<i4";
    column->as = is_float ? (is_long ? WM_H5_F64 : WM_H5_F32) : is_long ? WM_H5_I64 : WM_H5_I32;
    return WM_OK;
}

/* Adds one column, or the three that `name` has.  */
static wm_fault_t column_add (export_t *self, const char *name, uint32_t width,
                              const char *const part[3], wm_error_t *error)
{
    char path[160];
    if (self->n_column + width > COLUMNS_MAX)
        return wm_fault (error, WM_EBATCH, "%.300s: %s has more than %u columns", self->path,
                         self->table, COLUMNS_MAX);
    column_t *column = &self->column[self->n_column];
    snprintf (path, sizeof path, "%s/%s", self->table, name);
    wm_fault_t fault = wm_h5_column (self->file, path, WM_H5_FLOAT, width, &column->from, error);
    self->n_column += !fault;
    if (fault || (fault = type_choose (column, error)))
        return fault;
    if (self->n_row != UINT64_MAX && column->from.n_row != self->n_row)
        return wm_fault (error, WM_EBATCH, "%.300s: %s has %" PRIu64 " rows, the table %" PRIu64,
                         self->path, path, column->from.n_row, self->n_row);
    self->n_row = column->from.n_row;
    if (!(column->value = malloc ((size_t) PIECE_ROWS * width * column->bytes)))
        return wm_fault (error, WM_EHOST, "out of memory");
    snprintf (column->name, sizeof column->name, "%s", part ? part[0] : name);
    for (uint32_t k = 1; k < width; k++) {
        column_t *other = &self->column[self->n_column++];
        *other = (column_t){ .type = column->type,
                             .as = column->as,
                             .bytes = column->bytes,
                             .part = k,
                             .value = column->value };
        snprintf (other->name, sizeof other->name, "%s", part[k]);
    }
    return WM_OK;
}

/* Adds a column of the table that has none yet.  */
typedef struct {
    export_t *self;
    wm_fault_t fault;
    wm_error_t *error;
} more_t;

static bool more_add (void *arg, const char *name)
{
    more_t *more = arg;
    export_t *self = more->self;
    if (!strncmp (name, "event_id", 8) || strlen (name) >= sizeof self->column->name ||
        name[strspn (name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")])
        return true;
    for (uint32_t i = 0; i < self->n_column; i++)
        if (!strcmp (self->column[i].name, name))
            return true;
    more->fault = column_add (self, name, 1, NULL, more->error);
    return !more->fault;
}

static wm_fault_t columns_open (export_t *self, wm_error_t *error)
{
    static const char *const ids[] = { "run", "subrun", "event" };
    static const char *const first[] = { "run", "subrun", "event", "hit_id", "cryostat",
                                         "tpc", "plane",  "wire",  "time" };
    wm_fault_t fault = WM_OK;
    if (!self->scores_only && has (self, "event_id"))
        fault = column_add (self, "event_id", 3, ids, error);
    for (size_t i = 0; i < sizeof first / sizeof *first && !fault && !self->scores_only; i++)
        if (has (self, first[i]))
            fault = column_add (self, first[i], 1, NULL, error);
    for (uint32_t i = 0; i < self->labels.n_label && !fault; i++)
        fault = column_add (self, self->labels.label[i], 1, NULL, error);
    more_t more = { self, fault, error };
    if (!fault && !self->scores_only)
        wm_h5_names (self->file, self->table, more_add, &more);
    return more.fault;
}

static void columns_close (export_t *self)
{
    for (uint32_t i = 0; i < self->n_column; i++)
        if (!self->column[i].part) {
            wm_h5_column_close (&self->column[i].from);
            free (self->column[i].value);
        }
    memset (self->column, 0, sizeof self->column);
    self->n_column = 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* An array's header; the rows' columns have names unless all are scores.  */
static void npy_head (const export_t *self)
{
    static char head[HEAD_BYTES];
    const uint64_t dim[] = { self->n_row, self->n_column };
    if (self->scores_only) {
        fwrite (head, 1, wm_npy_print (dim, 2, 0, head), self->out);
        return;
    }
    size_t n = 10;
    n += (size_t) snprintf (head + n, sizeof head - n, "{'descr': [");
    for (uint32_t i = 0; i < self->n_column; i++)
        n += (size_t) snprintf (head + n, sizeof head - n, "('%s', '%s'), ", self->column[i].name,
                                self->column[i].type);
    n += (size_t) snprintf (head + n, sizeof head - n,
                            "], 'fortran_order': False, 'shape': (%" PRIu64 ",), }", self->n_row);
    const size_t bytes = (n + 1 + 63) / 64 * 64;
    memset (head + n, ' ', bytes - n);
    head[bytes - 1] = '\n';
    memcpy (head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char) ((bytes - 10) & 255);
    head[9] = (char) ((bytes - 10) >> 8);
    fwrite (head, 1, bytes, self->out);
}

static void csv_head (const export_t *self)
{
    for (uint32_t i = 0; i < self->n_column; i++)
        fprintf (self->out, "%s%s", i ? "," : "", self->column[i].name);
    putc_unlocked ('\n', self->out);
}

/* A number with all its digits; NaN without a sign.  */
static void csv_value (const column_t *column, const void *at, FILE *out)
{
    int64_t whole;
    int32_t small;
    double real;
    float single;
    if (column->as == WM_H5_I64) {
        memcpy (&whole, at, 8);
        fprintf (out, "%" PRId64, whole);
    } else if (column->as == WM_H5_I32) {
        memcpy (&small, at, 4);
        fprintf (out, "%" PRId32, small);
    } else {
        memcpy (&single, at, 4);
        if (column->as == WM_H5_F64)
            memcpy (&real, at, 8);
        else
            real = (double) single;
        if (real != real)
            fputs ("nan", out);
        else
            fprintf (out, column->as == WM_H5_F64 ? "%.17g" : "%.9g", real);
    }
}

static wm_fault_t rows_write (export_t *self, wm_error_t *error)
{
    for (uint64_t row = 0; row < self->n_row; row += PIECE_ROWS) {
        const uint64_t left = self->n_row - row, n = left < PIECE_ROWS ? left : PIECE_ROWS;
        for (uint32_t c = 0; c < self->n_column; c++) {
            const column_t *column = &self->column[c];
            if (!column->part &&
                wm_h5_read (&column->from, row, n, column->as, column->value, error))
                return error->fault;
        }
        for (uint64_t i = 0; i < n; i++) {
            for (uint32_t c = 0; c < self->n_column; c++) {
                const column_t *column = &self->column[c];
                const uint32_t width = self->column[c - column->part].from.width;
                const char *at =
                    (char *) column->value + (i * width + column->part) * column->bytes;
                if (self->to_npy) {
                    fwrite (at, 1, column->bytes, self->out);
                    continue;
                }
                if (c)
                    putc_unlocked (',', self->out);
                csv_value (column, at, self->out);
            }
            if (!self->to_npy)
                putc_unlocked ('\n', self->out);
        }
        if (ferror (self->out))
            break;
    }
    return WM_OK;
}

/* Writes the file without a name; it gets its name when it is whole.  */
static wm_fault_t file_write (export_t *self, wm_error_t *error)
{
    char place[PATH_MAX];
    wm_file_new_t file;
    wm_fault_t fault = wm_file_begin (&file, wm_target_place (self->to, place), false, error);
    if (fault)
        return fault;
    const int fd = dup (file.fd);
    if (!(self->out = fd < 0 ? NULL : fdopen (fd, "w"))) {
        fault = wm_file_unwritten (self->to, errno, error);
        wm_file_abort (&file);
        return fault;
    }
    setvbuf (self->out, NULL, _IOFBF, 1u << 20);
    if (self->to_npy)
        npy_head (self);
    else
        csv_head (self);
    fault = rows_write (self, error);
    const bool fine = fflush (self->out) == 0 && !ferror (self->out);
    const int number = errno;
    fclose (self->out);
    if (!fault && !fine)
        fault = wm_file_unwritten (self->to, number, error);
    if (!fault)
        return wm_file_commit (&file, error);
    wm_file_abort (&file);
    return fault;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Where the rows of a file go: its name with another suffix.  */
static bool to_name (const export_t *self, const char *path, char to[PATH_MAX])
{
    const char *slash = strrchr (path, '/'), *base = slash ? slash + 1 : path;
    const size_t length = strlen (base);
    const int stem = (int) (length > 3 && !strcmp (base + length - 3, ".h5") ? length - 3 : length);
    const int n = self->folder ? snprintf (to, PATH_MAX, "%s/", self->folder)
                               : snprintf (to, PATH_MAX, "%.*s", (int) (base - path), path);
    return n < PATH_MAX && snprintf (to + n, (size_t) (PATH_MAX - n), "%.*s.%s", stem, base,
                                     self->format) < PATH_MAX - n;
}

static wm_fault_t export_file (export_t *self, const char *path, wm_error_t *error)
{
    self->path = path;
    self->n_row = UINT64_MAX;
    to_name (self, path, self->to);
    wm_fault_t fault = wm_scores_labels (&self->labels, path, error);
    if (!fault && !(self->file = wm_h5_open (path, error)))
        fault = error->fault;
    if (!fault && (!self->labels.n_label || !wm_scores_table (self->file, NULL, self->table)))
        fault = wm_fault (error, WM_EBATCH,
                          "%.300s: no table of scores: it is no output of wiremill", path);
    if (!fault)
        fault = columns_open (self, error);
    if (!fault)
        fault = file_write (self, error);
    if (!fault)
        printf ("%s: %" PRIu64 " rows\n", self->to, self->n_row);
    columns_close (self);
    wm_h5_close (&self->file);
    return fault;
}

static uint64_t inode_hash (const struct stat *st)
{
    return ((uint64_t) st->st_ino + 1) * 0x9e3779b97f4a7c15u ^ st->st_dev;
}

/* Keeps which files are read.  */
static wm_fault_t inputs_take (export_t *self, const char **path, size_t n, wm_error_t *error)
{
    struct stat st;
    for (size_t i = 0; i < n; i++) {
        if (stat (path[i], &st))
            continue;
        if (wm_table_reserve (&self->inputs))
            return wm_fault (error, WM_EHOST, "out of memory");
        wm_table_put (&self->inputs, inode_hash (&st), (void *) (uintptr_t) path[i]);
    }
    return WM_OK;
}

/* Applies the rule for targets (wm_target.h) to where the rows of a file go.  */
static wm_fault_t target_check (const export_t *self, const char *to, wm_error_t *error)
{
    struct stat st;
    size_t at;
    const char *input = NULL;
    if (stat (to, &st) == 0)
        input = wm_table_first (&self->inputs, inode_hash (&st), &at);
    while (input && !wm_target_same (to, input))
        input = wm_table_next (&self->inputs, inode_hash (&st), &at);
    return input ? wm_fault (error, WM_EUSAGE,
                             "%.200s is the same file as the input %.200s: give another folder", to,
                             input)
                 : wm_target_check (to, &wm_made_rows, self->force, error);
}

/* Checks where the rows of all files go, before one is written: two of one name would be one in the
   folder.  */
static wm_fault_t names_check (const export_t *self, const char **path, size_t n, wm_error_t *error)
{
    char to[PATH_MAX], other[PATH_MAX];
    wm_table_t names = { 0 };
    wm_fault_t fault = WM_OK;
    for (size_t i = 0; i < n && !fault; i++) {
        if (!to_name (self, path[i], to)) {
            fault = wm_fault (error, WM_EUSAGE, "%.300s: the name is too long", path[i]);
            break;
        }
        const uint64_t hash = wm_table_text (to);
        size_t at;
        const char *same = self->folder ? wm_table_first (&names, hash, &at) : NULL;
        while (same && to_name (self, same, other) && strcmp (to, other) != 0)
            same = wm_table_next (&names, hash, &at);
        if (same)
            fault = wm_fault (error, WM_EUSAGE, "%.300s: another file of this name goes to %.100s",
                              path[i], self->folder);
        else if (wm_table_reserve (&names))
            fault = wm_fault (error, WM_EHOST, "out of memory");
        else {
            wm_table_put (&names, hash, (void *) (uintptr_t) path[i]);
            fault = target_check (self, to, error);
        }
    }
    free (names.slot);
    return fault;
}

/* ---- Parquet --------------------------------------------------------------------------------- */

static const char python_script[] =
    "import sys\n"
    "sys.path = [path for path in sys.path if path]\n" /* no module of the folder we are in */
    "try:\n"
    "    from wiremill import _export\n"
    "    import h5py, pyarrow.parquet\n"
    "except ImportError as why:\n"
    "    sys.exit(f'wiremill export: --to parquet: {why}, in {sys.executable}; install '\n"
    "             'the Python package wiremill there with its extra arrow, or name another by '\n"
    "             'WIREMILL_PYTHON')\n"
    "sys.exit(_export.main(sys.argv[1:]))\n";

/* Becomes Python, which writes all files; returns only the exit code of a failure.  */
static int python_exec (const export_t *self, const char **path, size_t n)
{
    const char *python = getenv ("WIREMILL_PYTHON");
    const char **argv = calloc (2 * n + 4, sizeof *argv);
    char to[PATH_MAX];
    if (!python || !*python)
        python = "python3";
    size_t k = 0;
    const char *first[] = { python, "-c", python_script };
    for (; argv && k < 3; k++)
        argv[k] = first[k];
    for (size_t i = 0; argv && i < n; i++) {
        to_name (self, path[i], to);
        argv[k++] = path[i];
        if (!(argv[k++] = strdup (to)))
            return WM_EXIT_FAILURE;
    }
    if (argv)
        execvp (python, (char *const *) (uintptr_t) argv);
    fprintf (stderr,
             "wiremill export: --to parquet needs Python: %s: %s; install python3, or name "
             "another by WIREMILL_PYTHON\n",
             python, strerror (errno));
    return WM_EXIT_FAILURE;
}

static int export_main (const wm_args_t *args)
{
    static export_t export;
    size_t n;
    wm_error_t error;
    export.format = wm_args_text (args, "to");
    export.to_npy = !strcmp (export.format, "npy");
    const bool by_python = !strcmp (export.format, "parquet");
    export.scores_only = wm_args_given (args, "scores");
    export.force = wm_args_given (args, "force");
    export.folder = wm_args_text (args, "output");
    if (!wm_args_rest (args, 0))
        return wm_args_refuse (args, "name outputs: wiremill export out/*.scores.h5 --to csv");
    if (export.scores_only && !export.to_npy)
        return wm_args_refuse (args, "--scores goes with --to npy");
    if (export.folder && access (export.folder, W_OK | X_OK))
        return wm_args_refuse (args, "--output %.300s: %s", export.folder, strerror (errno));
    const char **path = by_python ? wm_produce_rest (args, &n)
                                  : wm_produce_confine_writer (args, export.folder, &n);
    if (!path)
        return WM_EXIT_FAILURE;
    wm_fault_t fault = inputs_take (&export, path, n, &error);
    if (!fault)
        fault = names_check (&export, path, n, &error);
    if (!fault)
        fault = wm_file_exist (path, n, &error);
    if (by_python && !fault)
        return python_exec (&export, path, n);
    for (size_t i = 0; i < n && !fault; i++)
        fault = export_file (&export, path[i], &error);
    if (fault) {
        wm_log_sanitize (error.text);
        fprintf (stderr, "wiremill export: %s\n", error.text);
    }
    wm_scores_clear (&export.labels);
    free (export.inputs.slot);
    free (path);
    return wm_exit_of (fault);
}
