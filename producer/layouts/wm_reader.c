/* wm_reader.c - the events and rows of an input, whatever its layout is.  */
#include "producer/layouts/wm_reader.h"

#include "producer/layouts/wm_layout.h"
#include "producer/layouts/wm_match.h"
#include "schema/base/wm_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPARE_BYTES (64u << 20) /* more than reading a chunk takes */

wm_fault_t wm_layout_blame (wm_fault_t fault, wm_error_t *error)
{
    if (fault != WM_EBATCH || wm_h5_has_room (SPARE_BYTES))
        return fault;
    const wm_error_t found = *error;
    return wm_fault (error, WM_EHOST, "too little memory to tell whether a file is damaged: %.300s",
                     found.text);
}

void wm_reader_destroy (wm_reader_t **self_p)
{
    wm_reader_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    self->layout->clear (self);
    wm_reader_destroy (&self->inner);
    wm_hits_clear (&self->hits);
    wm_index_clear (&self->index);
    wm_h5_close (&self->file);
    free (self);
}

void *wm_layout_new (size_t bytes, const wm_layout_t *layout, const wm_spec_t *spec, wm_h5_t **file,
                     wm_reader_t **inner, wm_error_t *error)
{
    wm_reader_t *self = calloc (1, bytes);
    if (self) {
        *self = (wm_reader_t){ .layout = layout, .spec = spec };
        self->file = file ? *file : NULL;
        self->inner = inner ? *inner : NULL;
    } else {
        wm_fault (error, WM_EHOST, "out of memory");
        if (file)
            wm_h5_close (file);
        if (inner)
            wm_reader_destroy (inner);
    }
    if (file)
        *file = NULL;
    if (inner)
        *inner = NULL;
    return self;
}

wm_reader_t *wm_layout_done (wm_reader_t *self, wm_fault_t fault)
{
    if (fault) {
        wm_reader_destroy (&self);
        return NULL;
    }
    self->n_event = self->index.n_event;
    self->n_missing = self->index.n_event - self->n_present;
    self->n_row = self->hits.event_id->n_row;
    return self;
}

bool wm_layout_begin (const wm_reader_t *self, uint32_t i, wm_event_t *event)
{
    const int64_t *id = self->index.event[i].id;
    event->run = id[0], event->subrun = id[1], event->event = id[2];
    event->is_missing = i >= self->n_present;
    return event->is_missing;
}

const char *wm_reader_joined (wm_reader_t *self)
{
    static char text[96];
    if (self->inner)
        return wm_reader_joined (self->inner);
    if (self->layout->joined || !self->layout->has_hits)
        return self->layout->joined ? self->layout->joined (self) : "";
    snprintf (text, sizeof text, "%.70s read in ticks", self->hits.time.name);
    return text;
}

const char *wm_reader_unmatched (wm_reader_t *self)
{
    if (self->layout->unmatched)
        return self->layout->unmatched (self);
    return self->inner ? wm_reader_unmatched (self->inner) : "";
}

bool wm_reader_has_planes (const wm_reader_t *self)
{
    return strcmp (self->layout->name, "dense patches") != 0;
}

bool wm_reader_is_joined (const wm_reader_t *self)
{
    return !strcmp (self->layout->name, "joined");
}

void wm_reader_match (const wm_reader_t *self, const wm_event_t *event, wm_match_t *match)
{
    if (!self->layout->has_hits || self->spec->points != WM_POINTS_HITS)
        return;
    const double tick_us = self->spec->tick_us > 0 ? self->spec->tick_us : event->tick_us;
    wm_match_add (match, event,
                  wm_reader_is_joined (self) ? 0 : tick_us); /* it has compared them */
}

uint32_t wm_reader_n_event (const wm_reader_t *self)
{
    return self->n_event;
}

uint32_t wm_reader_n_missing (const wm_reader_t *self)
{
    return self->n_missing;
}

uint64_t wm_reader_n_row (const wm_reader_t *self)
{
    return self->n_row;
}

uint32_t wm_reader_of_row (wm_reader_t *self, uint64_t row)
{
    uint64_t n_span, n_row;
    const wm_rows_t *rows = &self->hits.rows;
    for (uint32_t o = 0; rows->start && o < self->n_event; o++) {
        const wm_h5_range_t *span = wm_rows_of (rows, o, &n_span, &n_row);
        for (uint64_t i = 0; i < n_span; i++)
            if (row >= span[i].first && row - span[i].first < span[i].count)
                return o;
    }
    return UINT32_MAX;
}

/* ---- whether the model takes what an input gives --------------------------------------------- */

/* A shape without the number of its patches: that of an array, or of what a model takes.  */
typedef struct {
    uint32_t n, n_size; /* dimensions; those that are not 1, in `size` */
    uint64_t dim[8], size[8], n_value;
} shape_t;

static void shape_add (shape_t *self, uint64_t dim)
{
    self->dim[self->n++] = dim;
    if (dim != 1)
        self->size[self->n_size++] = dim;
    if (__builtin_mul_overflow (self->n_value, dim, &self->n_value))
        self->n_value = UINT64_MAX;
}

static shape_t shape_parse (const char *text)
{
    shape_t self = { .n_value = 1 };
    for (char *end; self.n < 8 && *text; text = end + (*end == 'x')) {
        const uint64_t dim = strtoull (text, &end, 10);
        if (end == text)
            break;
        shape_add (&self, dim);
    }
    return self;
}

static bool is_same (const shape_t *a, const shape_t *b)
{
    return a->n_size == b->n_size && !memcmp (a->size, b->size, a->n_size * sizeof *a->size);
}

WM_ORDER_NUMBERS (compare, uint64_t)

static shape_t sorted (shape_t self)
{
    qsort (self.size, self.n_size, sizeof *self.size, compare);
    return self;
}

/* What in NumPy makes (N, `wanted`) of an array of this shape; "": nothing that is known here.  */
static void cure_find (const uint64_t *dim, uint32_t n_dim, const shape_t *wanted, char text[120])
{
    shape_t whole = { .n_value = 1 }, one = whole;
    *text = 0;
    for (uint32_t d = 0; d < n_dim; d++)
        shape_add (&whole, dim[d]);
    for (uint32_t d = 1; d < n_dim; d++)
        shape_add (&one, dim[d]);
    if (is_same (&whole, wanted)) {
        snprintf (text, 120, "one patch alone is a[None] in NumPy");
        return;
    }
    for (uint32_t axis = n_dim - 1; axis > 0; axis--) {
        shape_t left = { .n_value = 1 };
        for (uint32_t d = 0; d < n_dim; d++)
            if (d != axis)
                shape_add (&left, dim[d]);
        if (dim[axis] != 1 && is_same (&left, wanted)) {
            snprintf (text, 120, "numpy.moveaxis (a, %d, 0)?", axis == n_dim - 1 ? -1 : (int) axis);
            return;
        }
    }
    const shape_t a = sorted (one), b = sorted (*wanted);
    if (one.n_value == wanted->n_value)
        snprintf (text, 120, "%sgive them flat, (N, %llu), in the model's order",
                  is_same (&a, &b) ? "turn them (numpy.transpose), or " : "",
                  (unsigned long long) wanted->n_value);
}

static wm_fault_t patches_fit (const wm_reader_t *self, const char *name, const shape_t *wanted,
                               wm_error_t *error)
{
    char given_text[200], wanted_text[200], cure[120];
    shape_t given = { .n_value = 1 };
    for (uint32_t d = 1; d < self->n_dim; d++)
        shape_add (&given, self->dim[d]);
    if (given.n_value == wanted->n_value &&
        (given.n <= 1 || wanted->n_size <= 1 || is_same (&given, wanted)))
        return WM_OK;
    cure_find (self->dim, self->n_dim, wanted, cure);
    return wm_fault (error, WM_EBATCH, "%.300s: its shape is %s, the model takes %s%s%s", name,
                     wm_h5_shape (given_text, "", self->dim, self->n_dim),
                     wm_h5_shape (wanted_text, "N", wanted->dim, wanted->n), *cure ? ": " : "",
                     cure);
}

/* Patches that are cut from planes, of another size than the model's.  */
static wm_fault_t cut_misfits (const wm_reader_t *self, const char *name, const shape_t *wanted,
                               uint32_t n_input, wm_error_t *error)
{
    const wm_spec_t *spec = self->spec;
    char cut[80] = "", takes[200], ready[200], cure[360];
    if (spec->n_channel > 1)
        snprintf (cut, sizeof cut, "%u, ", spec->n_channel);
    wm_h5_shape (takes, "", wanted->dim, wanted->n);
    wm_h5_shape (ready, "N", wanted->dim, wanted->n);
    if (n_input > 1)
        return wm_fault (error, WM_EBATCH,
                         "%.300s: the model has %u inputs of %llu values together, which no plane "
                         "gives: it takes ready patches alone, %s",
                         name, n_input, (unsigned long long) wanted->n_value, ready);
    if (wanted->n_size == 2)
        snprintf (cure, sizeof cure, "write patch: [%llu, %llu] into --spec",
                  (unsigned long long) wanted->size[0], (unsigned long long) wanted->size[1]);
    else if (wanted->n_size == 3)
        snprintf (cure, sizeof cure,
                  "channels need points: spacepoints or windows with channels: %llu in --spec; or "
                  "give ready patches, %s",
                  (unsigned long long) (wanted->size[0] < wanted->size[2] ? wanted->size[0]
                                                                          : wanted->size[2]),
                  ready);
    else
        snprintf (cure, sizeof cure, "give ready patches, %s", ready);
    return wm_fault (error, WM_EBATCH,
                     "%.300s: its planes are cut to patches of (%s%u, %u), the model takes %s: %s",
                     name, cut, spec->patch_wire, spec->patch_bin, takes, cure);
}

wm_fault_t wm_reader_fits (const wm_reader_t *self, const char *name, uint32_t n_value,
                           const char *shape, wm_error_t *error)
{
    uint32_t n_input = 1;
    for (const char *c = shape; *c; c++)
        n_input += *c == '+';
    shape_t wanted = shape_parse (*shape && n_input == 1 ? shape : "");
    if (!n_value)
        return WM_OK;
    if (!wanted.n)
        shape_add (&wanted, n_value);
    if (self->n_dim)
        return patches_fit (self, name, &wanted, error);
    return wm_spec_values (self->spec) == n_value
               ? WM_OK
               : cut_misfits (self, name, &wanted, n_input, error);
}

wm_fault_t wm_reader_event (wm_reader_t *self, uint32_t ordinal, wm_event_t *event,
                            wm_error_t *error)
{
    wm_event_reset (event);
    return wm_layout_blame (self->layout->event (self, ordinal, event, error), error);
}

wm_fault_t wm_reader_planes (wm_reader_t *self, uint32_t ordinal, wm_event_t *event,
                             wm_error_t *error)
{
    if (!self->layout->planes)
        return wm_reader_event (self, ordinal, event, error);
    wm_event_reset (event);
    return wm_layout_blame (self->layout->planes (self, ordinal, event, error), error);
}

wm_fault_t wm_reader_rows (wm_reader_t *self, uint64_t first, uint32_t count,
                           const wm_reader_rows_t *rows, wm_error_t *error)
{
    for (uint32_t i = 0; i < count && rows->wire; i++)
        rows->wire[i] = -1, rows->time[i] = -1;
    return wm_layout_blame (self->layout->rows
                                ? self->layout->rows (self, first, count, rows, error)
                                : wm_hits_rows (&self->hits, first, count, rows, error),
                            error);
}

void wm_layout_where (char *text, size_t bytes_max, const wm_h5_t *file, const wm_event_t *event)
{
    char name[128];
    snprintf (text, bytes_max, "%s: %s", wm_h5_path (file), wm_event_format (event, name));
}
