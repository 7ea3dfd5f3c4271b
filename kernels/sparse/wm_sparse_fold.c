/* wm_sparse_fold.c - what of a root does not depend on the patch: packed weights, base, inactive.

   Weights are packed as the kernel wants them; for one that wants floats, rows that are no multiple
   of 16 are padded, others stay the model's own. Packed ones are as large as the model's own, so
   one copy serves all workers of a machine but the first: a file beside the model in their cache,
   mapped by all. It is not trusted: every process packs all weights once, a panel at a time, and
   uses the file only if each panel is the same. The first process keeps its own copy and leaves an
   empty file, since it may be the only one; the next writes it; others that open meanwhile wait for
   it, because each would otherwise keep a copy of its own.  */
#include "schema/base/wm_file.h"
#include "kernels/sparse/wm_sparse.h"

#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    const wm_sparse_t *self;
    wm_sparse_root_t *root;
    double *all, *here;  /* (n_pad): b + W^T c, and one position's share of base */
    float *exact;        /* (c_out, n_pad): one position's weights, filters in stored order */
    float *rounded;      /* (c_out, n_pad): ... as the kernel packs them */
    uint32_t *panel;     /* (panel_words) */
    size_t words, bytes; /* of a panel, of all */
    uint32_t *to;        /* all panels of this process, or NULL: root->packed is the file */
    char path[PATH_MAX]; /* of the file; "" if there is no cache */
} fold_t;

/* The model's own weights of position p, as kernels want them.  */
static const float *take_position (const fold_t *fold, uint32_t p)
{
    const wm_sparse_root_t *root = fold->root;
    const uint32_t c_out = fold->self->conv[fold->self->net.n_conv - 1].c_out;
    const float *from = root->weight + (size_t) p * c_out * root->n_out;
    if (!fold->words)
        return from;
    for (uint32_t f = 0; f < c_out; f++)
        memcpy (fold->exact + (size_t) f * root->n_pad,
                from + (size_t) fold->self->filter[f] * root->n_out, root->n_out * sizeof *from);
    return fold->exact;
}

/* The shares of position p in base and inactive.  */
static void add_position (const fold_t *fold, const float *weight, size_t place)
{
    const wm_sparse_t *self = fold->self;
    const wm_sparse_root_t *root = fold->root;
    const wm_sparse_conv_t *conv = &self->conv[self->net.n_conv - 1];
    const uint32_t n = root->n_pad;
    memset (fold->here, 0, n * sizeof *fold->here);
    for (uint32_t f = 0; f < conv->c_out; f++) {
        const float *exact = weight + (size_t) f * n;
        const float *used = self->kernel->pack ? fold->rounded + (size_t) f * n : exact;
        const double c = (double) conv->constant[f], d = (double) conv->reference[f] - c;
        for (uint32_t i = 0; c != 0 && i < n; i++) {
            fold->all[i] += c * (double) exact[i];
            fold->here[i] += d * (double) used[i]; /* in units of root->scale, as sums are */
        }
    }
    for (uint32_t i = 0; root->base && i < n; i++)
        root->base[place * n + i] = (float) fold->here[i];
}

/* One panel. false if the file's is another.  */
static bool fold_panel (const fold_t *fold, uint32_t row, uint32_t column)
{
    const wm_sparse_t *self = fold->self;
    const wm_sparse_kernel_t *kernel = self->kernel;
    const size_t panel = (size_t) row * self->panel_cols + column;
    if (kernel->pack)
        memset (fold->panel, 0, fold->words * sizeof *fold->panel);
    for (uint32_t f = 0; f < kernel->fuse && column * kernel->fuse + f < self->pos_cols; f++) {
        const uint32_t p = row * self->pos_cols + column * kernel->fuse + f;
        const float *weight = take_position (fold, p);
        if (kernel->pack)
            kernel->pack (fold->root, weight, self->conv[self->net.n_conv - 1].c_out, f,
                          fold->rounded, fold->panel);
        add_position (fold, weight, panel * kernel->fuse + f);
    }
    if (!fold->words)
        return true;
    const void *packed = kernel->pack ? (const void *) fold->panel : fold->exact;
    const size_t bytes = fold->words * sizeof *fold->panel;
    if (!fold->to)
        return memcmp (fold->root->packed + panel * fold->words, packed, bytes) == 0;
    memcpy (fold->to + panel * fold->words, packed, bytes);
    return true;
}

static bool fold_panels (const fold_t *fold)
{
    const wm_sparse_t *self = fold->self;
    const wm_sparse_root_t *root = fold->root;
    memset (fold->all, 0, root->n_pad * sizeof *fold->all);
    for (uint32_t i = 0; i < root->n_out; i++)
        fold->all[i] = (double) self->net.dense[root->dense].bias[i];
    for (uint32_t row = 0; row < self->pos_rows; row++)
        for (uint32_t column = 0; column < self->panel_cols; column++)
            if (!fold_panel (fold, row, column))
                return false;
    for (uint32_t i = 0; i < root->n_pad; i++)
        root->inactive[i] = (float) fold->all[i];
    return true;
}

/* Maps the file if it has the right size.  */
static bool map_panels (fold_t *fold)
{
    const uint8_t *map;
    size_t size;
    if (!*fold->path || wm_file_map (fold->path, fold->bytes, &map, &size, NULL))
        return false;
    if (size != fold->bytes) {
        munmap ((void *) (uintptr_t) map, size);
        return false;
    }
    fold->root->packed = (const uint32_t *) (const void *) map;
    fold->root->mapped_bytes = size;
    return true;
}

static void drop_panels (wm_sparse_root_t *root)
{
    if (root->mapped_bytes)
        munmap ((void *) (uintptr_t) root->packed, root->mapped_bytes);
    else
        free ((void *) (uintptr_t) root->packed);
    root->packed = NULL, root->mapped_bytes = 0;
}

/* A descriptor to close: the lock of the model, unless it is held for a second.  */
static int lock_model (const char *path)
{
    int fd = open (path, O_RDONLY | O_CLOEXEC);
    const struct timespec while_ = { .tv_nsec = 10000000 };
    for (int tries = 0; fd >= 0 && tries < 100 && flock (fd, LOCK_EX | LOCK_NB); tries++)
        nanosleep (&while_, NULL);
    return fd;
}

/* Leaves an empty file if the file is missing. false: it exists, or cannot be made.  */
static bool is_first (const fold_t *fold)
{
    const int fd = *fold->path ? open (fold->path, O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    if (fd >= 0)
        close (fd);
    return fd >= 0;
}

/* Folds with the file's panels, or with its own, which it then makes the file's. A file that cannot
   be written only costs memory.  */
static bool fold_all (fold_t *fold)
{
    if (map_panels (fold)) {
        wm_file_sweep (fold->path); /* of one that was killed while another wrote it */
        if (fold_panels (fold))
            return true;
        drop_panels (fold->root);
    }
    const bool alone = is_first (fold);
    fold->to = wm_sparse_room (fold->bytes);
    if (!fold->to)
        return false;
    fold_panels (fold);
    const wm_part_t part = { fold->to, fold->bytes };
    if (*fold->path && !alone && !wm_file_write (fold->path, &part, 1, NULL) && map_panels (fold)) {
        if (memcmp (fold->root->packed, fold->to, fold->bytes) == 0) {
            free (fold->to);
            return true;
        }
        drop_panels (fold->root);
    }
    fold->root->packed = fold->to;
    return true;
}

/* What limits the scale of some outputs; 0 before the first position.  */
typedef struct {
    float largest[256], sum[256]; /* of a weight, of a position's */
} need_t;

static void need_position (need_t *need, const float *weight, uint32_t c_out, size_t stride,
                           uint32_t n, bool positive)
{
    float sum[256] = { 0 }, total[256] = { 0 };
    for (uint32_t k = 0; k < c_out; k++, weight += stride)
        for (uint32_t i = 0; i < n; i++) {
            float w = weight[i], size = fabsf (w);
            sum[i] += w, total[i] += size;
            need->largest[i] = size > need->largest[i] ? size : need->largest[i];
        }
    for (uint32_t i = 0; i < n; i++) { /* the larger of those above and those below 0, or all */
        float here = positive ? (total[i] + fabsf (sum[i])) / 2 : total[i];
        need->sum[i] = here > need->sum[i] ? here : need->sum[i];
    }
}

/* As many units of the sum as there are filters are kept free: for the rounding of each weight by a
   half, and for these sums in float.  */
void wm_sparse_scale (const wm_sparse_root_t *root, const wm_sparse_kernel_t *kernel,
                      uint32_t n_position, uint32_t c_out, bool positive, float *scale)
{
    const float room = (float) (kernel->sum_max - c_out);
    for (uint32_t i = root->n_out; i < root->n_pad; i++)
        scale[i] = 1;
    for (uint32_t first = 0; first < root->n_out; first += 256) {
        const uint32_t left = root->n_out - first, n = left < 256 ? left : 256;
        need_t need = { 0 };
        for (uint32_t p = 0; p < n_position; p++)
            need_position (&need, root->weight + (size_t) p * c_out * root->n_out + first, c_out,
                           root->n_out, n, positive);
        for (uint32_t i = 0; i < n; i++) {
            float a = need.largest[i] / (INT16_MAX - 1), b = need.sum[i] / room;
            float most = a > b ? a : b;
            scale[first + i] = most > FLT_MIN ? most : 1;
        }
    }
}

static bool fold_shared (fold_t *fold)
{
    if (!fold->words)
        return fold_panels (fold);
    int lock = *fold->path ? lock_model (fold->self->cache) : -1;
    bool done = fold_all (fold);
    if (lock >= 0)
        close (lock);
    return done;
}

bool wm_sparse_kernel_holds (const wm_sparse_kernel_t *kernel, const wm_net_t *net)
{
    return !kernel->sum_max || net->conv[net->n_conv - 1].c_out <= kernel->sum_max / 2;
}

wm_fault_t wm_sparse_fold (wm_sparse_t *self, wm_sparse_root_t *root, wm_error_t *error)
{
    const wm_sparse_conv_t *conv = &self->conv[self->net.n_conv - 1];
    const wm_sparse_kernel_t *kernel = self->kernel;
    const size_t n_panel = (size_t) self->pos_rows * self->panel_cols, n = root->n_pad;
    bool differs = false;
    for (uint32_t f = 0; f < conv->c_out; f++)
        differs |= conv->constant[f] != conv->reference[f];
    fold_t fold = { .self = self, .root = root };
    if (!wm_sparse_kernel_holds (kernel, &self->net))
        return wm_fault (error, WM_EBATCH, "%u filters are too many for 16-bit integers: use fp32",
                         conv->c_out);
    root->scale = kernel->sum_max ? wm_sparse_floats (n) : NULL;
    if (root->scale)
        wm_sparse_scale (root, kernel, self->pos_rows * self->pos_cols, conv->c_out,
                         conv->act == WM_ACT_RELU && kernel->skips, root->scale);
    if (kernel->pack)
        fold.words = kernel->panel_words (conv->c_out, root->n_pad);
    else if (root->n_out != root->n_pad || (uintptr_t) root->weight % 64)
        fold.words = conv->c_out * n;
    fold.bytes = n_panel * fold.words * sizeof *fold.panel;
    if (self->cache && snprintf (fold.path, sizeof fold.path, "%s.%s-%s-%u", self->cache,
                                 kernel->pack ? kernel->isa : "all", kernel->precision,
                                 root->dense) >= (int) sizeof fold.path)
        *fold.path = 0;
    fold.all = calloc (2 * n, sizeof (double)), fold.here = fold.all ? fold.all + n : NULL;
    fold.exact = wm_sparse_floats (2 * conv->c_out * n);
    fold.rounded = fold.exact ? fold.exact + conv->c_out * n : NULL;
    fold.panel = (uint32_t *) (void *) wm_sparse_floats (fold.words + 1);
    root->inactive = wm_sparse_floats (n);
    root->base = differs ? wm_sparse_floats (n_panel * kernel->fuse * n) : NULL;
    bool have = fold.all && fold.exact && fold.panel && root->inactive &&
                (root->scale || !kernel->sum_max) && (root->base || !differs) &&
                fold_shared (&fold);
    free (fold.all), free (fold.exact), free (fold.panel);
    return have ? WM_OK : wm_fault (error, WM_EHOST, "no memory for dense layer %u", root->dense);
}

void wm_sparse_unfold (wm_sparse_root_t *root)
{
    drop_panels (root);
    free (root->base);
    free (root->inactive);
    free (root->scale);
}
