/* wm_opencl.cl - the kernels, OpenCL C 1.2, of strict fp32 as kernels/README.md states it.

   wm_opencl_device.c puts kernels/model/wm_act.h in front, and switches the contraction of products
   and sums off. A device without float64 has WM_NO_DOUBLE: the host computes what needs it. With
   WM_HALF (fast) the values of the last convolution and the weights that meet them lie in memory as
   half, rounded to nearest, and half the bytes are read; sums are those of float.

   A POSITION of a layer is one of its outputs for all filters; a live one has a SLOT, in which its
   values lie, and stands in the layer's list; NONE: it is not live. Which slot a position gets
   changes from run to run, and decides no bit.

   No sum is shared by work-items: one adds it, in the order of the contract.  */
#define NONE 0xffffffffu
#define POSITIONS 4 /* that a work-item convolves together: they share the weights it reads */
#define TILE 4      /* hits of a group, likewise; WM_OPENCL_TILE of the host */
#define STAGE 64    /* values of a hit that a group keeps at a time */

#ifdef WM_HALF
typedef half stored_t;
#define STORED(p, i) vload_half (i, p)
#else
typedef float stored_t;
#define STORED(p, i) (p)[i]
#endif

/* ---- step 6: activations --------------------------------------------------------------------- */

/* Of those without float64, bend * x is rounded once in either way.  */
static float activated (uint act, float bend, float x)
{
#ifdef WM_NO_DOUBLE
    return act == WM_ACT_RELU    ? (x < 0 ? 0 : x)
           : act == WM_ACT_LEAKY ? (x < 0 ? bend * x : x)
           : act == WM_ACT_CLIP  ? (x < 0      ? 0
                                    : x > bend ? bend
                                               : x)
                                 : x;
#else
    return (float) wm_sparse_activated ((wm_act_t) act, bend, (double) x);
#endif
}

/* ---- step 2: live positions ------------------------------------------------------------------ */

/* Gives the live positions of a group slots beside each other.  */
static void take_slots (bool live, uint p, uint n, local uint *shared, global uint *slot,
                        global uint *list, global uint *count)
{
    if (get_local_id (0) == 0)
        shared[0] = 0;
    barrier (CLK_LOCAL_MEM_FENCE);
    const uint mine = live ? atomic_inc (&shared[0]) : 0;
    barrier (CLK_LOCAL_MEM_FENCE);
    if (get_local_id (0) == 0)
        shared[1] = shared[0] ? atomic_add (count, shared[0]) : 0;
    barrier (CLK_LOCAL_MEM_FENCE);
    if (live)
        list[shared[1] + mine] = p;
    if (p < n)
        slot[p] = live ? shared[1] + mine : NONE;
}

/* Of the first layer: a pixel of the window differs from Z, whose bits are `zero`. Rows of positions
   have `cols`, of the image in_cols.  */
kernel void wm_see (global const float *image, uint zero, uint in_cols, uint channel, uint kh,
                    uint kw, uint cols, uint n, global uint *slot, global uint *list,
                    global uint *count)
{
    local uint shared[2];
    const uint p = get_global_id (0);
    bool live = false;
    for (uint dy = 0; p < n && dy < kh; dy++) {
        global const float *row = image + ((size_t) (p / cols + dy) * in_cols + p % cols) * channel;
        for (uint k = 0; k < kw * channel; k++)
            live |= as_uint (row[k]) != zero;
    }
    take_slots (live, p, n, shared, slot, list, count);
}

/* Of a later layer, from the slots of the one below; `layer` counts it.  */
kernel void wm_see_above (global const uint *below, uint in_cols, uint kh, uint kw, uint cols,
                          uint n, global uint *slot, global uint *list, global uint *count,
                          uint layer)
{
    local uint shared[2];
    const uint p = get_global_id (0);
    bool live = false;
    for (uint i = 0; p < n && i < kh * kw; i++)
        live |= below[(size_t) (p / cols + i / kw) * in_cols + p % cols + i % kw] != NONE;
    take_slots (live, p, n, shared, slot, list, count + layer);
}

/* ---- step 3: a convolution ------------------------------------------------------------------- */

/* The values of the list's positions, minus r. in: the image, or (has_below) the values below, whose
   slots are `below`. is_last: the roots read them. A work-item has one filter.  */
kernel void wm_convolve (global const float *in, uint has_below, global const uint *below,
                         global const float *constant_below, uint in_cols, uint c_in, uint kh,
                         uint kw, uint cols, uint c_out, global const float *weight,
                         global const float *bias, global const float *reference, uint act,
                         float bend, global const uint *list, global const uint *count, uint layer,
                         global float *value, uint is_last)
{
    const uint f = get_global_id (0), n = count[layer];
    if (f >= c_out)
        return;
    for (uint i = get_group_id (1) * POSITIONS; i < n; i += get_num_groups (1) * POSITIONS) {
        size_t corner[POSITIONS];
        float s[POSITIONS];
        for (uint k = 0; k < POSITIONS; k++) {
            const uint p = list[min (i + k, n - 1)];
            corner[k] = (size_t) (p / cols) * in_cols + p % cols;
            s[k] = bias[f];
        }
        for (uint tap = 0; tap < kh * kw; tap++) {
            global const float *at[POSITIONS];
            for (uint k = 0; k < POSITIONS; k++) {
                const size_t p = corner[k] + (size_t) (tap / kw) * in_cols + tap % kw;
                const uint from = has_below ? below[p] : 0;
                at[k] = !has_below     ? in + p * c_in
                        : from == NONE ? constant_below
                                       : in + (size_t) from * c_in;
            }
            for (uint j = 0; j < c_in; j++) {
                const float w = weight[((size_t) tap * c_in + j) * c_out + f];
                for (uint k = 0; k < POSITIONS; k++)
                    s[k] = fma (at[k][j], w, s[k]);
            }
        }
        for (uint k = 0; k < POSITIONS && i + k < n; k++) {
            const size_t to = (size_t) (i + k) * c_out + f;
            const float v = activated (act, bend, s[k]) - reference[f];
#ifdef WM_HALF
            if (is_last)
                vstore_half_rte (v, to, (global half *) value);
            else
#endif
                value[to] = v;
        }
    }
}

/* ---- step 4: a dense layer on the last convolution ------------------------------------------- */

/* The sums of one row of positions. hit: the position at which a patch begins. A work-item has one
   output, a group TILE hits.  */
kernel void wm_band (global const uint *slot, uint map_cols, global const stored_t *value,
                     uint c_out, global const uint *hit, uint n_hit, uint cols, uint n_out,
                     global const stored_t *weight, global const float *base, uint has_base,
                     global float *sum)
{
    local float staged[TILE * STAGE];
    const uint o = get_global_id (0), row = get_group_id (1), first = get_group_id (2) * TILE;
    size_t corner[TILE];
    float s[TILE];
    for (uint t = 0; t < TILE; t++) {
        corner[t] = hit[min (first + t, n_hit - 1)] + (size_t) row * map_cols;
        s[t] = 0;
    }
    for (uint x = 0; x < cols; x++) {
        const size_t p = (size_t) row * cols + x;
        uint here[TILE];
        bool any = false;
        for (uint t = 0; t < TILE; t++) {
            here[t] = slot[corner[t] + x];
            any |= here[t] != NONE;
            if (has_base && here[t] != NONE && o < n_out)
                s[t] = s[t] + base[p * n_out + o];
        }
        for (uint f = 0; any && f < c_out; f += STAGE) {
            const uint m = min (c_out - f, (uint) STAGE);
            barrier (CLK_LOCAL_MEM_FENCE); /* the staged values before have been read */
            for (uint t = 0; t < TILE; t++)
                for (uint k = get_local_id (0); k < m; k += get_local_size (0))
                    staged[t * STAGE + k] =
                        here[t] == NONE ? 0 : STORED (value, (size_t) here[t] * c_out + f + k);
            barrier (CLK_LOCAL_MEM_FENCE);
            for (uint k = 0; o < n_out && k < m; k++) {
                const float w = STORED (weight, (p * c_out + f + k) * n_out + o);
                for (uint t = 0; t < TILE; t++) {
                    const float v = staged[t * STAGE + k];
                    s[t] = v != 0 ? fma (v, w, s[t]) : s[t];
                }
            }
        }
    }
    for (uint t = 0; t < TILE && o < n_out && first + t < n_hit; t++)
        sum[((size_t) (first + t) * get_num_groups (1) + row) * n_out + o] = s[t];
}

/* ---- steps 4 to 6: what follows -------------------------------------------------------------- */

/* Where a layer's outputs go: `floats` of a hit's layers from `offset` on, and, if `output` is a
   column, its scores.  */
static void store (float value, uint hit, uint o, global float *layers, uint floats, uint offset,
                   global float *scores, uint n_output, uint output)
{
    layers[(size_t) hit * floats + offset + o] = value;
    if (output != NONE)
        scores[(size_t) hit * n_output + output + o] = value;
}

/* Adds the bands in order.  */
kernel void wm_root (global const float *sum, uint rows, uint n_out, global const float *inactive,
                     uint act, float bend, global float *layers, uint floats, uint offset,
                     global float *scores, uint n_output, uint output)
{
    const uint o = get_global_id (0), hit = get_group_id (1);
    if (o >= n_out)
        return;
    float t = 0;
    for (uint row = 0; row < rows; row++)
        t = t + sum[((size_t) hit * rows + row) * n_out + o];
    const float y = inactive[o] + t;
    store (activated (act, bend, y), hit, o, layers, floats, offset, scores, n_output, output);
}

/* Another dense layer, whose inputs lie at `from`.  */
kernel void wm_layer (uint from, uint n_in, uint n_out, global const float *weight,
                      global const float *bias, uint act, float bend, global float *layers,
                      uint floats, uint offset, global float *scores, uint n_output, uint output)
{
    const uint o = get_global_id (0), hit = get_group_id (1);
    if (o >= n_out)
        return;
    global const float *x = layers + (size_t) hit * floats + from;
    float s = bias[o];
    for (uint k = 0; k < n_in; k++)
        s = fma (x[k], weight[(size_t) k * n_out + o], s);
    store (activated (act, bend, s), hit, o, layers, floats, offset, scores, n_output, output);
}

/* Over the outputs of a layer; a work-item has one hit.  */
kernel void wm_softmax (uint n, uint n_hit, global float *layers, uint floats, uint offset,
                        global float *scores, uint n_output, uint output)
{
    const uint hit = get_global_id (0);
    if (hit >= n_hit)
        return;
#ifndef WM_NO_DOUBLE
    global const float *x = layers + (size_t) hit * floats + offset;
    float most = x[0];
    double sum = 0;
    for (uint i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (uint i = 0; i < n; i++)
        sum = sum + wm_sparse_exp ((double) x[i] - (double) most);
    for (uint i = 0; i < n; i++)
        store ((float) (wm_sparse_exp ((double) x[i] - (double) most) / sum), hit, i, layers,
               floats, offset, scores, n_output, output);
#endif
}
