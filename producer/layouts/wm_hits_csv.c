/* wm_hits_csv.c - see wm_hits_csv.h.  */
#include "producer/layouts/wm_hits_csv.h"

#include "producer/files/wm_event.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_kind.h"
#include "schema/base/wm_text.h"

#include <errno.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS_MAX (1u << 24) /* 1.4 GB in memory; more hits belong into HDF5 */
#define LINE_BYTES_MAX (64u << 10)
#define CELLS_MAX 256u

typedef enum { I64, I32, F64 } type_t;
static const struct {
    const char *name;
    type_t type;
    bool optional;
} columns[] = { { "run", I64, false },     { "subrun", I64, false }, { "event", I64, false },
                { "cryostat", I32, true }, { "tpc", I32, false },    { "plane", I32, false },
                { "wire", F64, false },    { "time", F64, false },   { "hit_id", I64, false } };
#define COLUMNS (sizeof columns / sizeof *columns)

typedef struct {
    const char *path;
    uint32_t line;
    int place[COLUMNS]; /* among the cells; -1: none */
    uint32_t n_cell;    /* of the first line */
    union {
        void *any;
        int64_t *i64;
        int32_t *i32;
        double *f64;
    } value[COLUMNS];
    size_t value_max[COLUMNS];
    uint32_t n_row;
} table_t;

/* Only the first line decides: what is wrong behind it is reported by line.  */
bool wm_hits_csv_is (const char *path)
{
    char head[512];
    wm_error_t error;
    const int fd = wm_file_open (path, NULL, &error); /* of a pipe it does not wait for a writer */
    const ssize_t n = fd < 0 ? 0 : pread (fd, head, sizeof head, 0);
    if (fd >= 0)
        close (fd);
    const wm_kind_t kind = wm_kind_of (path);
    if (n <= 0 || kind == WM_KIND_HDF5 || kind == WM_KIND_NPY || kind == WM_KIND_MODEL)
        return false; /* the beginning of a .wmm is a text */
    if (wm_text_encoding (head, (size_t) n))
        return true; /* refused by name when it is read */
    for (ssize_t i = 0; i < n && (!i || (head[i] != '\n' && head[i] != '\r')); i++)
        if (head[i] == 127 ||
            ((unsigned char) head[i] < ' ' && !(head[i] && strchr ("\t\f\v\r\n", head[i]))))
            return false;
    return true;
}

/* Splits a line in place. Returns how many cells there are, of which at most CELLS_MAX are kept;
   0: a quote does not end.  */
static uint32_t cells_split (char *line, char separator, char *cell[CELLS_MAX])
{
    uint32_t n = 0;
    for (char *at = line; at; n++) {
        char *one = wm_text_cell (&at, separator);
        if (!one)
            return 0;
        if (n < CELLS_MAX)
            cell[n] = one;
    }
    return n;
}

static wm_fault_t head_take (table_t *self, char *const cell[CELLS_MAX], uint32_t n,
                             wm_error_t *error)
{
    for (size_t c = 0; c < COLUMNS; c++) {
        self->place[c] = -1;
        for (uint32_t i = 0; i < n && i < CELLS_MAX; i++) {
            if (strcmp (cell[i], columns[c].name) != 0)
                continue;
            if (self->place[c] >= 0)
                return wm_fault (error, WM_EBATCH, "%.300s:%u: column '%s' is there twice",
                                 self->path, self->line, cell[i]);
            self->place[c] = (int) i;
        }
        if (self->place[c] < 0 && !columns[c].optional)
            return wm_fault (error, WM_EBATCH,
                             "%.300s:%u: no column '%s'; a file of hits begins with the line "
                             "run,subrun,event,tpc,plane,wire,time,hit_id%s",
                             self->path, self->line, columns[c].name,
                             wm_text_unseparated (cell[0], n));
    }
    self->n_cell = n;
    return WM_OK;
}

static wm_fault_t cell_take (table_t *self, size_t c, const char *cell, wm_error_t *error)
{
    char *end;
    bool fine = true;
    errno = 0;
    if (columns[c].type == F64) {
        self->value[c].f64[self->n_row] = strtod (cell, &end);
    } else {
        const long long number = strtoll (cell, &end, 10);
        fine = !errno && (columns[c].type == I64 || (number >= INT32_MIN && number <= INT32_MAX));
        if (columns[c].type == I64)
            self->value[c].i64[self->n_row] = number;
        else
            self->value[c].i32[self->n_row] = (int32_t) number;
    }
    if (fine && end != cell && !*end)
        return WM_OK;
    return wm_fault (error, WM_EBATCH, "%.300s:%u: column '%s' is '%.40s', not a %s", self->path,
                     self->line, columns[c].name, cell,
                     columns[c].type == F64   ? "number"
                     : columns[c].type == I64 ? "whole number"
                                              : "whole number of 32 bits");
}

static wm_fault_t line_take (table_t *self, char *const cell[CELLS_MAX], uint32_t n,
                             wm_error_t *error)
{
    while (n > self->n_cell && n <= CELLS_MAX && !*cell[n - 1]) /* separators behind the last */
        n--;
    if (n != self->n_cell)
        return wm_fault (error, WM_EBATCH, "%.300s:%u: %u cells, the first line has %u", self->path,
                         self->line, n, self->n_cell);
    if (self->n_row == ROWS_MAX)
        return wm_fault (error, WM_EBATCH,
                         "%.300s: more than %u hits: split the file, or write them as numl's "
                         "hit_table into HDF5",
                         self->path, ROWS_MAX);
    for (size_t c = 0; c < COLUMNS; c++) {
        const size_t bytes = columns[c].type == I32 ? 4 : 8;
        if (self->place[c] >= 0 && (wm_event_reserve (&self->value[c].any, &self->value_max[c],
                                                      self->n_row + 1ull, bytes, error) ||
                                    cell_take (self, c, cell[self->place[c]], error)))
            return error->fault;
    }
    self->n_row++;
    return WM_OK;
}

static wm_fault_t lines_take (table_t *self, wm_lines_t *lines, wm_error_t *error)
{
    static char *cell[CELLS_MAX];
    char *line, separator = ',';
    wm_fault_t fault;
    while (!(fault = wm_lines_next (lines, &line, error)) && line) {
        self->line = lines->line;
        if (wm_text_is_comment (line))
            continue;
        if (!self->n_cell)
            separator = wm_text_separator (line);
        const uint32_t n = cells_split (line, separator, cell);
        if (!n)
            fault = wm_fault (error, WM_EBATCH, "%.300s:%u: a quote (\") does not end on its line",
                              self->path, self->line);
        else
            fault =
                self->n_cell ? line_take (self, cell, n, error) : head_take (self, cell, n, error);
        if (fault)
            return fault;
    }
    if (!fault && !self->n_cell)
        fault =
            wm_fault (error, WM_EBATCH, "%.300s: no line with the names of columns", self->path);
    return fault;
}

/* Puts the columns into an HDF5 file in memory. Frees each behind it.  */
static wm_h5_t *table_store (table_t *self, wm_error_t *error)
{
    static unsigned count; /* the library compares such files by name */
    char name[64];
    snprintf (name, sizeof name, "wiremill-csv-%u", count++);
    wm_h5_init ();
    const hsize_t n_row = self->n_row;
    hid_t access = H5Pcreate (H5P_FILE_ACCESS);
    H5Pset_fapl_core (access, 1u << 20, false);
    hid_t file = H5Fcreate (name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hid_t group = H5Gcreate2 (file, "csv", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple (1, &n_row, NULL);
    bool fine = group >= 0;
    uint64_t bytes = 4096;
    for (size_t c = 0; c < COLUMNS; c++) {
        if (self->place[c] < 0)
            continue;
        hid_t type = columns[c].type == F64   ? H5T_NATIVE_DOUBLE
                     : columns[c].type == I64 ? H5T_NATIVE_INT64
                                              : H5T_NATIVE_INT32;
        hid_t data =
            H5Dcreate2 (group, columns[c].name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        fine = fine && data >= 0 &&
               (!n_row ||
                H5Dwrite (data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, self->value[c].any) >= 0);
        if (data >= 0)
            H5Dclose (data);
        free (self->value[c].any);
        self->value[c].any = NULL;
        bytes += n_row * (columns[c].type == I32 ? 4 : 8);
    }
    H5Sclose (space);
    if (group >= 0)
        H5Gclose (group);
    H5Pclose (access);
    if (fine)
        return wm_h5_take (file, self->path, bytes, error);
    if (file >= 0)
        H5Fclose (file);
    wm_fault (error, WM_EHOST, "%.300s: out of memory", self->path);
    return NULL;
}

wm_h5_t *wm_hits_csv_open (const char *path, wm_error_t *error)
{
    table_t self = { .path = path };
    wm_lines_t lines = { .space = NULL };
    wm_h5_t *table = NULL;
    const int fd = wm_file_open (path, NULL, error);
    if (fd >= 0 && !wm_lines_start (&lines, fd, path, LINE_BYTES_MAX, error) &&
        !lines_take (&self, &lines, error))
        table = table_store (&self, error);
    wm_lines_clear (&lines);
    if (fd >= 0)
        close (fd);
    for (size_t c = 0; c < COLUMNS; c++)
        free (self.value[c].any);
    return table;
}
