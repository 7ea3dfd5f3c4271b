/* wm_draw.c - see wm_draw.h.  */
#include "kernels/judge/wm_draw.h"
#include "kernels/judge/wm_draw_private.h"
#include "kernels/model/wm_seed.h"

#include <math.h>
#include <string.h>

/* Evenly among `steps` values of [0, 1).  */
static double draw (uint64_t *state, uint32_t steps)
{
    return (double) (wm_seed_next (state) >> 32) * steps / 0x1p32;
}

/* A whole number from low to high.  */
static double draw_whole (uint64_t *state, double low, double high)
{
    return low + floor (draw (state, (uint32_t) (high - low) + 1));
}

/* A real from low to high, of 8 bits: a BFLOAT16 holds it.  */
static double draw_real (uint64_t *state, double low, double high)
{
    int exponent;
    const double part = frexp (low + (high - low) * floor (draw (state, 256)) / 256, &exponent),
                 value = ldexp (nearbyint (part * 256), exponent - 8);
    return fmin (fmax (low, value), high);
}

/* ---- one value ------------------------------------------------------------------------------- */

static double whole_of_kind (const wm_draw_domain_t *domain, wm_draw_t kind, uint64_t *state)
{
    const double low = ceil (domain->low), high = floor (domain->high);
    static const double from[] = { -1, 1, 0, -1024, -0x1p24 }, to[] = { 1, 8, 0, 1024, 0x1p24 };
    const double a = fmin (fmax (low, from[kind]), high), b = fmax (fmin (high, to[kind]), a);
    return domain->index ? draw_whole (state, low, fmin (high, low + 0x1p24))
                         : draw_whole (state, a, b);
}

static double real_of_kind (const wm_draw_domain_t *domain, wm_draw_t kind, uint64_t *state)
{
    double value = 0;
    switch (kind) {
    case WM_DRAW_SIGNED:
        value = draw_real (state, -2, 2);
        break;
    case WM_DRAW_POSITIVE:
        value = draw_real (state, 0, 1) + 0x1p-8;
        break;
    case WM_DRAW_LARGE:
        value = draw_real (state, -1024, 1024);
        break;
    case WM_DRAW_INTEGERS:
        value = draw_whole (state, -8, 8);
        break;
    default:
        break;
    }
    value = domain->coarse ? nearbyint (2 * value) / 2 : value;
    if (value >= domain->low && value <= domain->high)
        return value;
    if (kind == WM_DRAW_ZEROS)
        return domain->low > 0 ? domain->low : domain->high;
    if (domain->coarse)
        return domain->low > 0 ? domain->low : draw_whole (state, domain->low, domain->high);
    return draw_real (state, fmax (domain->low, -2),
                      fmin (domain->high, fmax (domain->low, -2) + 2));
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* What a layout is drawn from. dim (n_dim): of the port's row.  */
typedef struct {
    wm_drawer_t *drawer;
    const wm_draw_domain_t *domain;
    const uint32_t *dim;
    uint32_t n_dim, n;
    uint64_t *state;
    float *to;
} layout_t;

static void draw_axes (const layout_t *self)
{
    const bool is_squeeze = !strcmp (wm_onnx_op (self->domain->node), "Squeeze");
    uint32_t axis = 0;
    for (uint32_t k = 0; k < self->n; k++, axis++) {
        while (is_squeeze && wm_draw_size (self->drawer, self->domain->node, 0, axis) > 1)
            axis++;
        self->to[k] = (float) axis;
    }
}

/* Along its axis a line has following numbers.  */
static void draw_cells (const layout_t *self)
{
    int64_t axis = wm_onnx_int (self->domain->node, "axis", 0);
    const double size = floor (self->domain->high) + 1;
    uint32_t behind = 1;
    axis = axis < 0 ? axis + self->n_dim : axis - self->drawer->first;
    for (uint32_t d = self->n_dim; d-- > 0 && d > axis;)
        behind *= self->dim[d];
    const uint32_t along = axis >= 0 && axis < self->n_dim ? self->dim[axis] : 1;
    const double start = draw_whole (self->state, 0, size - 1);
    for (uint32_t k = 0; k < self->n; k++)
        self->to[k] = (float) fmod (start + k / behind % along, size);
}

/* Boxes whose corners lie in different halves of an image.  */
static void draw_corners (const layout_t *self)
{
    const Onnx__NodeProto *node = self->domain->node;
    const uint32_t last = self->n_dim ? self->dim[self->n_dim - 1] : 4, before = last == 5;
    const Onnx__AttributeProto *a = wm_onnx_attribute (node, "spatial_scale");
    const double scale = a && a->f > 0 ? (double) a->f : 1;
    for (uint32_t k = 0; k < self->n; k++) {
        const uint32_t c = last ? k % last : 0, corner = c - before;
        const int64_t known = wm_draw_size (self->drawer, node, 0, corner % 2 ? 2 : 3);
        const double half = (double) (known > 1 ? known : 4) / 2 / scale;
        self->to[k] = c < before ? 0
                                 : (float) draw_real (self->state, corner / 2 * half,
                                                      (corner / 2 + 1) * half);
    }
}

static void draw_col2im (const layout_t *self)
{
    int64_t image[WM_RAGGED_DIMS_MAX], block[WM_RAGGED_DIMS_MAX];
    if (self->n > WM_RAGGED_DIMS_MAX)
        return;
    wm_draw_col2im (self->drawer, self->domain->node, self->n, image, block);
    for (uint32_t k = 0; k < self->n; k++)
        self->to[k] = (float) (self->domain->want == WM_WANT_IMAGE ? image[k] : block[k]);
}

/* Parts of a dimension that are about equal.  */
static void draw_parts (const layout_t *self)
{
    const Onnx__NodeProto *node = self->domain->node;
    const int64_t all = wm_draw_size (self->drawer, node, 0, wm_onnx_int (node, "axis", 0));
    for (uint32_t k = 0; k < self->n; k++)
        self->to[k] = all < 0 ? 1 : (float) (all / self->n + (k < all % self->n));
}

/* Sizes of an image's first two dimensions stay; others grow to at most twice.  */
static void draw_sizes (const layout_t *self)
{
    const Onnx__NodeProto *node = self->domain->node;
    const Onnx__AttributeProto *axes = wm_onnx_attribute (node, "axes");
    const bool is_inverse = !strcmp (wm_onnx_op (node), "MaxUnpool");
    for (uint32_t k = 0; k < self->n; k++) {
        const bool stays = self->n > 2 && k < 2;
        const double times = stays ? 1 : is_inverse ? 2 : draw_whole (self->state, 1, 2);
        const int64_t axis = axes && k < axes->n_ints ? axes->ints[k] : (int64_t) k,
                      size = wm_draw_size (self->drawer, node, 0, axis);
        self->to[k] = (float) (self->domain->want == WM_WANT_SCALES ? times
                               : size > 0                           ? times * (double) size
                                                                    : times);
    }
}

/* Sizes that go with a theta of AffineGrid.  */
static void draw_grid (const layout_t *self)
{
    const int64_t n = wm_draw_size (self->drawer, self->domain->node, 0, 0);
    for (uint32_t k = 0; k < self->n; k++)
        self->to[k] = (float) (k == 0 && n > 0 ? (double) n : draw_whole (self->state, 2, 4));
}

/* Tuples of indices; where they are written to, they follow each other.  */
static void draw_tuples (const layout_t *self)
{
    const Onnx__NodeProto *node = self->domain->node;
    const bool is_written = !strcmp (wm_onnx_op (node), "ScatterND");
    const int64_t first = is_written ? 0 : wm_onnx_int (node, "batch_dims", 0);
    const uint32_t last = self->n_dim ? self->dim[self->n_dim - 1] : 1;
    if (last < 1 || last > WM_RAGGED_DIMS_MAX)
        return; /* no index of a tensor */
    for (uint32_t k = 0; k < self->n; k++) {
        const uint32_t c = k % last;
        uint32_t number = k / last;
        int64_t size = 2;
        for (uint32_t d = last; d-- > c; number = d > c ? number / (uint32_t) size : number) {
            size = wm_draw_size (self->drawer, node, 0, first + d);
            size = size > 0 && size < INT32_MAX ? size : 2;
        }
        self->to[k] = (float) (is_written ? (double) (number % (uint32_t) size)
                                          : draw_whole (self->state, 0, (double) size - 1));
    }
}

/* Draws the n values of port p.  */
static void draw_port (wm_drawer_t *self, uint32_t p, wm_draw_t kind, uint64_t *state, float *to)
{
    wm_draw_domain_t domain;
    wm_draw_domain (self, p, &domain);
    const wm_ragged_t *tensor = &self->tensor[p];
    const layout_t layout = {
        self, &domain, tensor->dim, tensor->n_dim, tensor->n_value, state, to
    };
    for (uint32_t k = 0; k < tensor->n_value; k++)
        to[k] = (float) (domain.whole ? whole_of_kind (&domain, kind, state)
                                      : real_of_kind (&domain, kind, state));
    switch (domain.want) {
    case WM_WANT_RANGE:
        break;
    case WM_WANT_AXES:
        draw_axes (&layout);
        break;
    case WM_WANT_CELLS:
        draw_cells (&layout);
        break;
    case WM_WANT_CORNERS:
        draw_corners (&layout);
        break;
    case WM_WANT_FLAT:
        for (uint32_t k = 0; k < tensor->n_value; k++)
            to[k] = (float) k;
        break;
    case WM_WANT_GRID:
        draw_grid (&layout);
        break;
    case WM_WANT_IMAGE:
    case WM_WANT_BLOCK:
        draw_col2im (&layout);
        break;
    case WM_WANT_PARTS:
        draw_parts (&layout);
        break;
    case WM_WANT_SHAPE: /* all in one dimension */
        for (uint32_t k = 0; k < tensor->n_value; k++)
            to[k] = k ? 1 : -1;
        break;
    case WM_WANT_SCALES:
    case WM_WANT_SIZES:
        draw_sizes (&layout);
        break;
    case WM_WANT_TUPLES:
        draw_tuples (&layout);
        break;
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The graph's own description of a port; NULL: none.  */
static const Onnx__TensorShapeProto *shape_of (const wm_onnx_t *onnx, const char *name)
{
    const Onnx__GraphProto *g = onnx->graph;
    for (size_t i = 0; i < g->n_input; i++)
        if (g->input[i]->name && !strcmp (g->input[i]->name, name))
            return g->input[i]->type &&
                           g->input[i]->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
                       ? g->input[i]->type->tensor_type->shape
                       : NULL;
    return NULL;
}

/* Sizes are set by the caller.  */
static void begin (wm_drawer_t *self, const wm_onnx_t *onnx, const wm_port_t *port, uint32_t n_port)
{
    const Onnx__TensorShapeProto *shape = shape_of (onnx, port[0].name);
    *self = (wm_drawer_t){ .onnx = onnx, .port = port, .n_port = n_port };
    self->first = !shape || shape->n_dim > port[0].n_dim;
    for (uint32_t p = 0; p < n_port; p++) {
        self->tensor[p].n_dim = port[p].n_dim;
        memcpy (self->tensor[p].dim, port[p].dim, port[p].n_dim * sizeof *port[p].dim);
        self->tensor[p].n_value = port[p].n_value;
    }
}

static wm_fault_t end (wm_drawer_t *self, wm_error_t *error)
{
    const bool failed = self->arena.failed;
    wm_arena_clear (&self->arena);
    return failed
               ? wm_fault (error, WM_EHOST, "%s: no memory to draw input values", self->onnx->path)
               : WM_OK;
}

wm_fault_t wm_draw_row (const wm_onnx_t *onnx, const wm_port_t *port, uint32_t n_port,
                        wm_draw_t kind, uint64_t seed, float *row, wm_error_t *error)
{
    wm_drawer_t self;
    begin (&self, onnx, port, n_port);
    for (uint32_t p = 0; p < n_port; row += port[p++].n_value)
        draw_port (&self, p, kind, &seed, row);
    return end (&self, error);
}

/* Sizes of free dimensions: those that networks with strides take, and odd ones.  */
static const uint32_t free_size[WM_DRAW_SIZES + 1] = { 32, 64, 7, 96, 19, 48, 3, 128, 32 };

static const char *name_of (const wm_drawer_t *self, const wm_port_t *port, uint32_t d)
{
    const Onnx__TensorShapeProto *shape = shape_of (self->onnx, port->name);
    d += self->first;
    return shape && d < shape->n_dim &&
                   shape->dim[d]->value_case ==
                       ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
                   shape->dim[d]->dim_param
               ? shape->dim[d]->dim_param
               : "";
}

static void set_sizes (wm_drawer_t *self, uint32_t i)
{
    for (uint32_t p = 0; p < self->n_port; p++) {
        const wm_port_t *port = &self->port[p];
        const char *first = NULL;
        for (uint32_t d = 0; d < port->n_dim; d++) {
            const char *name = port->dim[d] ? "" : name_of (self, port, d);
            if (port->dim[d])
                continue;
            const bool is_other = first && i % 2 && (!*name || strcmp (name, first) != 0);
            first = first ? first : name;
            self->tensor[p].dim[d] = free_size[i + is_other];
        }
    }
}

wm_fault_t wm_draw_ragged (const wm_onnx_t *onnx, const wm_port_t *port, uint32_t n_port,
                           wm_draw_t kind, uint64_t seed, uint32_t i, float *row, size_t most,
                           uint32_t *n, wm_error_t *error)
{
    wm_drawer_t self;
    begin (&self, onnx, port, n_port);
    set_sizes (&self, i % WM_DRAW_SIZES);
    *n = wm_ragged_begin (row, most, n_port, self.tensor);
    for (uint32_t p = 0; p < n_port && *n; p++)
        draw_port (&self, p, kind, &seed, row + self.tensor[p].at);
    return end (&self, error);
}
