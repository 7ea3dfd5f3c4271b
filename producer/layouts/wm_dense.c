/* wm_dense.c - ready-made patches: a .npy file or an HDF5 dataset, (N, the model's input shape).

   An HDF5 file may hold, beside the dataset and in the same group, event_id (N, 3): then its events
   are events. Without, rows in order are cut into events of at most WM_READER_PATCH_BYTES. An event
   of more bytes is cut likewise, so that an input of any size passes through little memory.
   hit_id is the row.  */
#include "producer/files/wm_npy.h"
#include "producer/layouts/wm_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One event of ours: a stretch of the spans of an event of the file.  */
typedef struct {
    uint32_t ordinal;      /* of the file's event; 0 where there are no ids */
    uint32_t first, count; /* of its rows, in the order of its spans */
} part_t;

typedef struct {
    wm_reader_t reader;
    uint32_t n_value;
    part_t *part; /* (n_event) */
    size_t part_max;

    wm_column_t patches, event_id; /* of HDF5, or */
    wm_rows_t rows;

    int fd; /* .npy */
    char *path;
    wm_npy_t npy;
} dense_t;

static void dense_clear (wm_reader_t *reader)
{
    dense_t *self = (dense_t *) reader;
    wm_h5_column_close (&self->patches);
    wm_h5_column_close (&self->event_id);
    wm_rows_clear (&self->rows);
    if (self->fd >= 0)
        close (self->fd);
    free (self->path);
    free (self->part);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static wm_fault_t npy_read (const dense_t *self, uint64_t first, uint32_t count, float *to,
                            wm_error_t *error)
{
    size_t values = (size_t) count * self->n_value;
    size_t bytes = values * self->npy.value_bytes;
    /* float16 is read into the upper half and converted upwards */
    uint8_t *at = (uint8_t *) to + (values * 4 - bytes);
    uint64_t offset = self->npy.head_bytes + first * self->n_value * self->npy.value_bytes;
    for (size_t done = 0; done < bytes;) {
        const ssize_t n =
            TEMP_FAILURE_RETRY (pread (self->fd, at + done, bytes - done, (off_t) (offset + done)));
        if (n <= 0)
            return wm_fault (error, WM_EBATCH, "%s: cannot read patch %llu: %s", self->path,
                             (unsigned long long) first, n ? strerror (errno) : "truncated");
        done += (size_t) n;
    }
    if (self->npy.value_bytes == 2)
        wm_half_to_float ((const uint16_t *) (const void *) at, values, to);
    return WM_OK;
}

static wm_fault_t patches_read (dense_t *self, uint64_t first, uint32_t count, float *to,
                                wm_error_t *error)
{
    return self->reader.file ? wm_h5_read (&self->patches, first, count, WM_H5_F32, to, error)
                             : npy_read (self, first, count, to, error);
}

/* The spans that hold rows skip .. skip+count-1 of the event's rows, one after another.  */
static wm_fault_t part_read (dense_t *self, const wm_h5_range_t *span, uint32_t skip,
                             uint32_t count, wm_event_t *event, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (uint32_t n, done = 0; done < count && !fault; span++) {
        if (skip >= span->count) {
            skip -= span->count;
            continue;
        }
        n = span->count - skip < count - done ? span->count - skip : count - done;
        for (uint32_t i = 0; i < n; i++)
            event->hit[done + i] = (wm_hit_t){ -1, -1, -1, -1, 0, span->first + skip + i };
        fault = patches_read (self, span->first + (uint64_t) skip, n,
                              event->patch + (size_t) done * self->n_value, error);
        done += n;
        skip = 0;
    }
    return fault;
}

static wm_fault_t dense_event (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                               wm_error_t *error)
{
    dense_t *self = (dense_t *) reader;
    const part_t *part = &self->part[ordinal];
    event->run = event->subrun = event->event = 0;
    event->n_hit = part->count;
    event->patch_values = self->n_value;
    wm_fault_t fault;
    if ((fault = wm_event_reserve (&event->hit, &event->hit_max, part->count, sizeof *event->hit,
                                   error)) ||
        (fault = wm_event_reserve (&event->patch, &event->patch_max,
                                   (uint64_t) part->count * self->n_value, 4, error)))
        return fault;
    const wm_h5_range_t all = { 0, UINT32_MAX }, *span = &all;
    if (self->event_id.data) {
        const int64_t *id = self->reader.index.event[part->ordinal].id;
        uint64_t n_span, n_row;
        event->run = id[0], event->subrun = id[1], event->event = id[2];
        span = wm_rows_of (&self->rows, part->ordinal, &n_span, &n_row);
    }
    return part_read (self, span, part->first, part->count, event, error);
}

static wm_fault_t dense_rows (wm_reader_t *reader, uint64_t first, uint32_t count,
                              const wm_reader_rows_t *rows, wm_error_t *error)
{
    dense_t *self = (dense_t *) reader;
    for (uint32_t i = 0; i < count; i++) {
        rows->run[i] = rows->subrun[i] = rows->event[i] = 0;
        rows->hit_id[i] = (int64_t) (first + i);
        rows->cryostat[i] = rows->tpc[i] = rows->plane[i] = -1;
    }
    wm_event_id_t id[256];
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0, n; i < count && self->event_id.data && !fault; i += n) {
        n = count - i < 256 ? count - i : 256;
        fault = wm_h5_read (&self->event_id, first + i, n, WM_H5_I64, id, error);
        for (uint32_t k = 0; k < n && !fault; k++) {
            rows->run[i + k] = id[k].id[0];
            rows->subrun[i + k] = id[k].id[1];
            rows->event[i + k] = id[k].id[2];
        }
    }
    return fault;
}

static const wm_layout_t layout = {
    .name = "dense patches", .event = dense_event, .rows = dense_rows, .clear = dense_clear
};

/* ---- opening --------------------------------------------------------------------------------- */

static wm_fault_t part_add (dense_t *self, uint32_t ordinal, uint64_t n_row, wm_error_t *error)
{
    uint32_t most = WM_READER_PATCH_BYTES / 4 / self->n_value;
    most = most ? most : 1;
    for (uint64_t row = 0; row < n_row; row += most) {
        uint32_t n_event = self->reader.n_event;
        wm_fault_t fault = wm_event_reserve (&self->part, &self->part_max, n_event + 1ull,
                                             sizeof *self->part, error);
        if (fault)
            return fault;
        uint32_t count = n_row - row < most ? (uint32_t) (n_row - row) : most;
        self->part[self->reader.n_event++] = (part_t){ ordinal, (uint32_t) row, count };
    }
    return WM_OK;
}

static wm_fault_t shape_take (dense_t *self, const uint64_t *dim, uint32_t n_dim, const char *where,
                              wm_error_t *error)
{
    uint64_t values = 1;
    for (uint32_t i = 1; i < n_dim; i++)
        if (__builtin_mul_overflow (values, dim[i], &values) || values > UINT32_MAX / 4)
            values = 0;
    if (n_dim < 2 || !values || dim[0] >= UINT32_MAX) {
        char shape[200];
        return wm_fault (error, WM_EBATCH,
                         "%.300s: its shape is %s: not an array of patches (N, ...)", where,
                         wm_h5_shape (shape, "", dim, n_dim));
    }
    self->n_value = (uint32_t) values;
    self->reader.n_row = dim[0];
    self->reader.n_dim = n_dim;
    memcpy (self->reader.dim, dim, n_dim * sizeof *dim);
    return WM_OK;
}

static dense_t *dense_new (wm_h5_t **file, wm_error_t *error)
{
    dense_t *self = wm_layout_new (sizeof *self, &layout, NULL, file, NULL, error);
    if (self)
        self->fd = -1;
    return self;
}

/* Finds event_id beside the dataset and makes an event of each.  */
static wm_fault_t ids_open (dense_t *self, const char *dataset, wm_error_t *error)
{
    char name[128];
    const char *slash = strrchr (dataset, '/');
    snprintf (name, sizeof name, "%.*sevent_id", slash ? (int) (slash + 1 - dataset) : 0, dataset);
    if (!wm_h5_has (self->reader.file, name))
        return part_add (self, 0, self->reader.n_row, error);
    wm_fault_t fault = wm_layout_column (self->reader.file, name, WM_H5_INTEGER, 3, &self->patches,
                                         &self->event_id, error);
    if (fault || (fault = wm_index_read (&self->reader.index, &self->event_id, true, error)) ||
        (fault =
             wm_rows_scan (&self->rows, &self->reader.index, &self->event_id, NULL, false, error)))
        return fault;
    for (uint32_t e = 0; e < self->reader.index.n_event && !fault; e++) {
        uint64_t n_span, n_row;
        wm_rows_of (&self->rows, e, &n_span, &n_row);
        fault = part_add (self, e, n_row, error);
    }
    return fault;
}

wm_reader_t *wm_dense_open (wm_h5_t **file, const char *dataset, wm_error_t *error)
{
    dense_t *self = dense_new (file, error);
    if (!self)
        return NULL;
    wm_reader_t *reader = &self->reader;
    dataset += *dataset == '/'; /* names are from the root */
    if (wm_h5_column (reader->file, dataset, WM_H5_FLOAT, 0, &self->patches, error) ||
        shape_take (self, self->patches.dim, self->patches.n_dim, wm_h5_path (reader->file),
                    error) ||
        ids_open (self, dataset, error))
        wm_reader_destroy (&reader);
    return reader;
}

static wm_fault_t npy_open (dense_t *self, const char *path, wm_error_t *error)
{
    uint8_t head[WM_NPY_HEAD_MAX];
    struct stat status;
    ssize_t bytes = -1;
    self->path = strdup (path);
    self->fd = open (path, O_RDONLY | O_CLOEXEC);
    if (self->fd >= 0 && !fstat (self->fd, &status))
        bytes = pread (self->fd, head, sizeof head, 0);
    if (!self->path || bytes < 0)
        return wm_fault (error, WM_EBATCH, "%s: cannot read: %s", path, strerror (errno));
    wm_npy_t *npy = &self->npy;
    wm_fault_t fault;
    if ((fault = wm_npy_parse (npy, head, (size_t) bytes, path, error)) ||
        (fault = shape_take (self, npy->dim, npy->n_dim, path, error)))
        return fault;
    uint64_t want; /* below 2^32 rows of below 2^30 values of 4 bytes: just about too much */
    if (__builtin_mul_overflow (npy->dim[0], (uint64_t) self->n_value * npy->value_bytes, &want) ||
        __builtin_add_overflow (want, npy->head_bytes, &want))
        want = UINT64_MAX;
    if ((uint64_t) status.st_size != want)
        return wm_fault (error, WM_EBATCH, "%s: %llu bytes, but its header announces %llu", path,
                         (unsigned long long) status.st_size, (unsigned long long) want);
    return part_add (self, 0, self->reader.n_row, error);
}

wm_reader_t *wm_npy_open (const char *path, wm_error_t *error)
{
    dense_t *self = dense_new (NULL, error);
    if (!self)
        return NULL;
    wm_reader_t *reader = &self->reader;
    if (npy_open (self, path, error))
        wm_reader_destroy (&reader);
    return reader;
}
