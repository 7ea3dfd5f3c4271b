/* wm_layer_view.c - reshapes and transposes without moving data.  */
#include "kernels/family/wm_layer_view.h"

#include <assert.h>
#include <string.h>

static uint32_t factors (const wm_layer_view_t *self, uint32_t before_dim)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < before_dim; d++)
        n += self->n_factor[d];
    return n;
}

/* Appends a factor to the last dimension; one that continues the factor before it is merged.  */
static bool append (wm_layer_view_t *self, uint32_t *n, wm_factor_t f)
{
    uint32_t *in_dim = &self->n_factor[self->n_dim - 1];
    wm_factor_t *last = *n ? &self->factor[*n - 1] : NULL;
    if (*in_dim && last->stride == (uint64_t) f.size * f.stride) {
        *last = (wm_factor_t){ last->size * f.size, f.stride };
        return true;
    }
    if (*n == WM_VIEW_FACTORS_MAX)
        return false;
    self->factor[(*n)++] = f;
    ++*in_dim;
    return true;
}

wm_layer_view_t wm_view_plain (const uint32_t *dim, uint32_t n_dim)
{
    assert (n_dim <= WM_VIEW_DIMS_MAX);
    wm_layer_view_t self = { .n_dim = 0 };
    uint64_t stride = 1;
    for (uint32_t d = 0; d < n_dim; d++)
        stride *= dim[d];
    uint32_t n = 0;
    for (uint32_t d = 0; d < n_dim; d++) {
        stride /= dim[d];
        self.n_dim++;
        if (dim[d] > 1)
            append (&self, &n, (wm_factor_t){ dim[d], (uint32_t) stride });
    }
    return self;
}

uint32_t wm_view_size (const wm_layer_view_t *self, uint32_t dim)
{
    uint32_t size = 1;
    for (uint32_t i = factors (self, dim); i < factors (self, dim + 1); i++)
        size *= self->factor[i].size;
    return size;
}

uint64_t wm_view_values (const wm_layer_view_t *self)
{
    uint64_t values = 1;
    for (uint32_t i = 0; i < factors (self, self->n_dim); i++)
        values *= self->factor[i].size;
    return values;
}

bool wm_view_is (const wm_layer_view_t *self, uint32_t dim, uint32_t size, uint64_t stride)
{
    if (size == 1)
        return self->n_factor[dim] == 0;
    wm_factor_t f = self->factor[factors (self, dim)];
    return self->n_factor[dim] == 1 && f.size == size && f.stride == stride;
}

bool wm_view_same (const wm_layer_view_t *a, const wm_layer_view_t *b)
{
    const uint32_t n = factors (a, a->n_dim);
    return a->n_dim == b->n_dim &&
           !memcmp (a->n_factor, b->n_factor, a->n_dim * sizeof *a->n_factor) &&
           !memcmp (a->factor, b->factor, n * sizeof *a->factor);
}

bool wm_view_reshape (wm_layer_view_t *self, const uint32_t *dim, uint32_t n_dim)
{
    wm_layer_view_t old = *self;
    uint32_t n = 0, from = 0, end = factors (&old, old.n_dim);
    if (n_dim > WM_VIEW_DIMS_MAX)
        return false;
    *self = (wm_layer_view_t){ .n_dim = 0 };
    for (uint32_t d = 0; d < n_dim; d++) {
        self->n_dim++;
        for (uint32_t left = dim[d]; left > 1;) {
            if (from == end)
                return false;
            wm_factor_t *f = &old.factor[from];
            wm_factor_t take = *f;
            if (left % f->size == 0)
                from++;
            else if (f->size % left == 0) {
                f->size /= left;
                take = (wm_factor_t){ left, f->stride * f->size };
            } else
                return false;
            if (!append (self, &n, take))
                return false;
            left /= take.size;
        }
    }
    return from == end;
}

void wm_view_transpose (wm_layer_view_t *self, const uint32_t *from)
{
    wm_layer_view_t old = *self;
    uint32_t n = 0;
    for (uint32_t d = 0; d < self->n_dim; d++) {
        self->n_factor[d] = old.n_factor[from[d]];
        memcpy (&self->factor[n], &old.factor[factors (&old, from[d])],
                self->n_factor[d] * sizeof *self->factor);
        n += self->n_factor[d];
    }
}

uint64_t wm_view_offset (const wm_layer_view_t *self, uint64_t k)
{
    uint64_t offset = 0;
    for (uint32_t i = factors (self, self->n_dim); i-- > 0;) {
        offset += k % self->factor[i].size * self->factor[i].stride;
        k /= self->factor[i].size;
    }
    return offset;
}
