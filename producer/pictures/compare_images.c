/* compare_images.c - see compare_images.h.

   Frames are joined by the names of their groups, events' numbers; planes, wires and drift bins
   must be the same ones. A pixel's difference is that of a score (wm_scores_difference). NaN is
   where a tile is held. Rows are read in pieces, so that memory does not follow the size of a
   frame.  */
#include "producer/pictures/compare_images.h"

#include "kernels/patch/wm_spec.h"
#include "producer/files/wm_event.h"
#include "producer/files/wm_h5.h"
#include "producer/files/wm_scores.h"
#include "schema/wm_pins.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 48u
#define PIECE_VALUES (1u << 20)
#define NAMED_MAX 3 /* frames that only one file has, or of another shape, that are named */

typedef struct {
    const char *path;
    wm_h5_t *file;
    wm_spec_t spec;
    char (*frame)[NAME_BYTES]; /* (n) groups, in order */
    uint32_t n;
    size_t max;
    wm_column_t value, wire; /* of the frame at hand */
    float *piece;
    size_t piece_max;
    int32_t (*place)[4]; /* (rows) cryostat, tpc, plane, wire */
    size_t place_max;
    wm_error_t *error;
} side_t;

typedef struct {
    uint32_t n;
    char name[NAMED_MAX][NAME_BYTES];
} named_t;

typedef struct {
    side_t side[2];
    double tolerance;
    named_t only[2], other;              /* other: of another shape, or with other wires */
    uint32_t n_frame;                    /* compared */
    uint64_t n_pixel, n_over, n_held[2]; /* n_held: in one file only */
    double sum, largest;                 /* of pixels that both have */
    char worst[NAME_BYTES];              /* the frame of the largest; */
    int32_t place[4];
    uint32_t bin;
    float value[2];
} images_t;

/* ---- files ----------------------------------------------------------------------------------- */

static bool spec_take (wm_h5_t *file, wm_spec_t *spec)
{
    char text[WM_PINS_BYTES_MAX];
    wm_error_t error;
    return wm_h5_lines (file, "specification", text, sizeof text) &&
           !wm_spec_parse (spec, text, strlen (text), wm_h5_path (file), &error) &&
           spec->result == WM_RESULT_IMAGE;
}

bool wm_compare_images_are (const char *path)
{
    wm_error_t error;
    wm_spec_t spec;
    wm_h5_t *file = wm_h5_open (path, &error);
    const bool are = file && spec_take (file, &spec);
    wm_h5_close (&file);
    return are;
}

static bool frame_add (void *arg, const char *name)
{
    side_t *self = arg;
    char path[NAME_BYTES + 80];
    if (strlen (name) >= NAME_BYTES || name[strspn (name, "-0123456789_")])
        return true; /* no event's number */
    snprintf (path, sizeof path, "%s/frame_%s", name, self->spec.table);
    if (!wm_h5_has (self->file, path))
        return true;
    if (wm_event_reserve (&self->frame, &self->max, self->n + 1ull, NAME_BYTES, self->error))
        return false;
    strcpy (self->frame[self->n++], name);
    return true;
}

static int name_compare (const void *a, const void *b)
{
    return strcmp (a, b);
}

static wm_fault_t side_open (side_t *self, const char *path, wm_error_t *error)
{
    self->path = path;
    self->error = error;
    error->fault = WM_OK;
    if (!(self->file = wm_h5_open (path, error)))
        return error->fault;
    if (!spec_take (self->file, &self->spec))
        return wm_fault (error, WM_EBATCH,
                         "%.300s has no images (result: image): images are compared with images",
                         path);
    wm_h5_names (self->file, "/", frame_add, self);
    if (self->n > 1)
        qsort (self->frame, self->n, NAME_BYTES, name_compare);
    return error->fault;
}

static void side_close (side_t *self)
{
    wm_h5_column_close (&self->value);
    wm_h5_column_close (&self->wire);
    wm_h5_close (&self->file);
    free (self->frame);
    free (self->piece);
    free (self->place);
}

/* ---- a frame --------------------------------------------------------------------------------- */

/* Opens a frame and reads its wires.  */
static wm_fault_t frame_open (side_t *self, const char *frame, wm_error_t *error)
{
    char name[NAME_BYTES + 80];
    wm_fault_t fault;
    wm_h5_column_close (&self->value);
    wm_h5_column_close (&self->wire);
    snprintf (name, sizeof name, "%s/frame_%s", frame, self->spec.table);
    if ((fault = wm_h5_column (self->file, name, WM_H5_FLOAT, 0, &self->value, error)))
        return fault;
    snprintf (name, sizeof name, "%s/wires_%s", frame, self->spec.table);
    if ((fault = wm_h5_column (self->file, name, WM_H5_INTEGER, 0, &self->wire, error)))
        return fault;
    const wm_column_t *value = &self->value;
    if (value->n_dim != 2 || value->width > WM_EVENT_TICKS_MAX || value->n_row > UINT32_MAX ||
        self->wire.n_dim != 2 || self->wire.width != 4 || self->wire.n_row != value->n_row)
        return wm_fault (error, WM_EBATCH,
                         "%.300s: %s is not a frame of (wires, drift bins) with four numbers of "
                         "each wire",
                         self->path, frame);
    if ((fault = wm_event_reserve (&self->place, &self->place_max, value->n_row + 1,
                                   sizeof *self->place, error)))
        return fault;
    return wm_h5_read (&self->wire, 0, value->n_row, WM_H5_I32, self->place, error);
}

static void pixel_compare (images_t *self, const char *frame, uint64_t row, uint32_t bin, float a,
                           float b)
{
    if (isnan (a) || isnan (b)) {
        if (!isnan (a) || !isnan (b))
            self->n_held[isnan (a) ? 0 : 1]++;
        return;
    }
    const double d = wm_scores_difference ((double) a, (double) b);
    self->n_pixel++;
    self->sum += d;
    self->n_over += d > self->tolerance;
    if (self->n_pixel > 1 && d <= self->largest)
        return;
    self->largest = d;
    strcpy (self->worst, frame);
    memcpy (self->place, self->side[0].place[row], sizeof self->place);
    self->bin = bin;
    self->value[0] = a, self->value[1] = b;
}

static void named_add (named_t *self, const char *name)
{
    if (self->n < NAMED_MAX)
        strcpy (self->name[self->n], name);
    self->n++;
}

static wm_fault_t frame_compare (images_t *self, const char *frame, wm_error_t *error)
{
    side_t *a = &self->side[0], *b = &self->side[1];
    wm_fault_t fault = frame_open (a, frame, error);
    if (!fault)
        fault = frame_open (b, frame, error);
    if (fault)
        return fault;
    const uint64_t n_row = a->value.n_row;
    const uint32_t width = a->value.width;
    if (n_row != b->value.n_row || width != b->value.width ||
        memcmp (a->place, b->place, n_row * sizeof *a->place) != 0) {
        named_add (&self->other, frame);
        return WM_OK;
    }
    self->n_frame++;
    const uint64_t most = width && PIECE_VALUES / width ? PIECE_VALUES / width : 1;
    for (uint64_t row = 0; row < n_row && !fault; row += most) {
        const uint64_t n = n_row - row < most ? n_row - row : most;
        for (int k = 0; k < 2 && !fault; k++) {
            side_t *side = &self->side[k];
            fault = wm_event_reserve (&side->piece, &side->piece_max, n * width + 1,
                                      sizeof *side->piece, error);
            if (!fault)
                fault = wm_h5_read (&side->value, row, n, WM_H5_F32, side->piece, error);
        }
        for (uint64_t i = 0; i < n * width && !fault; i++)
            pixel_compare (self, frame, row + i / width, (uint32_t) (i % width), a->piece[i],
                           b->piece[i]);
    }
    return fault;
}

/* ---- printing -------------------------------------------------------------------------------- */

static bool same (const images_t *self)
{
    return !self->only[0].n && !self->only[1].n && !self->other.n && !self->n_held[0] &&
           !self->n_held[1] && !self->n_over;
}

static void print_named (const named_t *self, const char *what)
{
    if (!self->n)
        return;
    printf ("%u frame%s %s:", self->n, self->n == 1 ? "" : "s", what);
    for (uint32_t i = 0; i < self->n && i < NAMED_MAX; i++)
        printf (" %s", self->name[i]);
    puts (self->n > NAMED_MAX ? " ..." : "");
}

static void print_people (const images_t *self)
{
    for (int k = 0; k < 2; k++)
        printf ("%c %s: %u frames\n", "AB"[k], self -> side[k].path, self->side[k].n);
    printf ("%u frames of the same wires in both, %" PRIu64 " pixels with a value in both\n",
            self->n_frame, self->n_pixel);
    print_named (&self->only[0], "only in A");
    print_named (&self->only[1], "only in B");
    print_named (&self->other, "of other wires or drift bins in B, not compared");
    for (int k = 0; k < 2; k++)
        if (self->n_held[k])
            printf ("%" PRIu64 " pixels of tiles that are held in %c only\n", self->n_held[k],
                    "AB"[k]);
    if (self->n_pixel)
        printf ("largest difference %.3g, mean %.3g, %" PRIu64 " pixels above the tolerance\n",
                self->largest, self->sum / (double) self->n_pixel, self->n_over);
    if (self->n_pixel && self->largest > 0)
        printf ("the largest is in event %s, cryostat %d, TPC %d, plane %d, wire %d, drift bin %u: "
                "%.9g in A, %.9g in B\n",
                self->worst, self->place[0], self->place[1], self->place[2], self->place[3],
                self->bin, (double) self->value[0], (double) self->value[1]);
    printf ("%s within %g\n", same (self) ? "the same" : "not the same", self->tolerance);
}

/* JSON has no infinity.  */
static void print_number (const char *name, double value)
{
    if (isfinite (value))
        printf (", \"%s\": %.9g", name, value);
    else
        printf (", \"%s\": null", name);
}

static void print_json (const images_t *self)
{
    const int32_t *at = self->place;
    printf ("{\"schema\": \"wiremill-compare-images-1\", \"same\": %s, \"tolerance\": %.9g, "
            "\"frames_a\": %u, \"frames_b\": %u, \"joined\": %u, \"only_a\": %u, \"only_b\": %u, "
            "\"other_wires\": %u, \"pixels\": %" PRIu64 ", \"held_a\": %" PRIu64
            ", \"held_b\": %" PRIu64 ", \"above\": %" PRIu64,
            same (self) ? "true" : "false", self->tolerance, self->side[0].n, self->side[1].n,
            self->n_frame, self->only[0].n, self->only[1].n, self->other.n, self->n_pixel,
            self->n_held[0], self->n_held[1], self->n_over);
    print_number ("largest", self->n_pixel ? self->largest : (double) NAN);
    print_number ("mean", self->n_pixel ? self->sum / (double) self->n_pixel : (double) NAN);
    if (self->n_pixel)
        printf (", \"worst\": {\"frame\": \"%s\", \"cryostat\": %d, \"tpc\": %d, \"plane\": %d, "
                "\"wire\": %d, \"bin\": %u",
                self->worst, at[0], at[1], at[2], at[3], self->bin);
    if (self->n_pixel) {
        print_number ("a", (double) self->value[0]);
        print_number ("b", (double) self->value[1]);
        putchar ('}');
    } else
        fputs (", \"worst\": null", stdout);
    puts ("}");
}

/* ---- together -------------------------------------------------------------------------------- */

wm_fault_t wm_compare_images (const char *a, const char *b, double tolerance, bool json,
                              bool *is_same, wm_error_t *error)
{
    static images_t self;
    side_t *side = self.side;
    self.tolerance = tolerance;
    wm_fault_t fault = side_open (&side[0], a, error);
    if (!fault)
        fault = side_open (&side[1], b, error);
    for (uint32_t i = 0, j = 0; !fault && (i < side[0].n || j < side[1].n);) {
        const int order = i == side[0].n   ? 1
                          : j == side[1].n ? -1
                                           : strcmp (side[0].frame[i], side[1].frame[j]);
        if (order < 0)
            named_add (&self.only[0], side[0].frame[i++]);
        else if (order > 0)
            named_add (&self.only[1], side[1].frame[j++]);
        else {
            fault = frame_compare (&self, side[0].frame[i++], error);
            j++;
        }
    }
    if (!fault && json)
        print_json (&self);
    else if (!fault)
        print_people (&self);
    *is_same = !fault && same (&self);
    side_close (&side[0]);
    side_close (&side[1]);
    return fault;
}
