/* wm_gpu_fake_block.c - a block of threads on the host, a fiber each.

   A warp is taken at random and its lanes run, one after another from a random one on, to the next
   instruction that a warp or a block does together. When all 32 are there it is carried out, and
   the warp goes on for a random number of such steps before another is taken: so warps are as far
   apart as the block's barriers allow. A copy of 16 bytes poisons what it will overwrite at once,
   and is carried out as late as it may: when its thread waits for it. Without a wait it never
   lands.

   A tensor core adds 16 products to a sum without rounding, then cuts off. Products of a warpgroup
   are carried out for each of its warps, when the warp waits for them. A GPU may read operands at
   any time from the instruction on: what lies there when the warp waits must be what lay there at
   the instruction, or the block is broken. It is broken, too, where a thread did not order its sums
   before the products (wm_gpu_wide_begin, behind each wait), or did not make shared memory visible
   to them (wm_gpu_wide_show, behind each barrier).

   Fibers are switched by one or two dozen instructions: a tile of hits takes tens of millions of
   switches. The last one is a jump, whose target CPUs predict better than that of a return which
   has no call. They share the thread's floating-point state and never leave it changed.  */
#include "tests/standin/wm_gpu_fake_block.h"
#include "kernels/gpu/wm_gpu_wide.cuh"
#include "kernels/model/wm_seed.h"
#include "tests/standin/wm_gpu_fake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 512u
#define WARPS_MAX (THREADS_MAX / 32)
#define STACK_BYTES (64u << 10)
#define COPIES_MAX 128u /* of a thread that have not landed */
#define PRODUCTS_MAX 32u
#define STEPS_MAX 64u /* of a warp before another one is taken */

typedef enum { NOTHING, MEET, BALLOT, FIRST, MATRIX, MMA, WIDE_MMA, WIDE_WAIT, END } do_t;

typedef struct {
    char *to;
    const char *from; /* NULL: zeros */
    uint32_t group;
} copy_t;

/* What a warp reads for its part of a warpgroup's product, 16 outputs of 128 hits: two planes of
   8 halves each.  */
typedef struct {
    uint16_t weights[2][16][8], values[2][128][8];
} operands_t;

typedef struct {
    wm_gpu_near_t weights, values;
    uint32_t plane, adds;
} product_t;

/* A warp's products that are not done, in a ring.  */
typedef struct {
    struct {
        product_t product;
        operands_t operands; /* as they lay at the instruction */
        float *sum[32];      /* of each lane */
        uint32_t step;
    } pending[PRODUCTS_MAX];
    uint32_t first, last;
} warp_t;

typedef struct {
    void *stack, *sp;
    do_t next;
    wm_gpu_at_t at;
    bool begun, shown; /* what a warpgroup's product relies on */
    uint32_t step;     /* of such products */
    /* Operands of `next`.  */
    product_t product;
    bool yes;
    uint32_t word;
    const void *row;
    uint32_t n_matrix, *out;
    float *c;
    const uint32_t *a, *b;
    /* Copies on their way, in a ring.  */
    copy_t copy[COPIES_MAX];
    uint32_t first, last, group;
} fiber_t;

static fiber_t fibers[THREADS_MAX], *self_fiber;
static warp_t block_warps[WARPS_MAX];
static void *scheduler_sp;
static const char *broken; /* what they did that no GPU allows */
static struct {
    wm_gpu_thread_fn *kernel;
    const void *args;
    float *shared;
    size_t shared_bytes;
} block;

/* ---- switching ------------------------------------------------------------------------------- */

void wm_gpu_fiber_switch (void **from_sp, void *to_sp);
#if defined __x86_64__
enum { FRAME = 8, RETURN = 6 }; /* words that it takes off a new stack; that of the address */
__asm__(".text\n.globl wm_gpu_fiber_switch\n.type wm_gpu_fiber_switch, @function\n"
        "wm_gpu_fiber_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n"
        "    pushq %r15\n    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n    popq %r15\n"
        "    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n    popq %rcx\n"
        "    jmpq *%rcx\n"
        ".size wm_gpu_fiber_switch, . - wm_gpu_fiber_switch\n");
#elif defined __aarch64__
enum { FRAME = 20, RETURN = 1 };
__asm__(".text\n.globl wm_gpu_fiber_switch\n.type wm_gpu_fiber_switch, %function\n"
        "wm_gpu_fiber_switch:\n"
        "    stp x29, x30, [sp, -160]!\n    stp x19, x20, [sp, 16]\n    stp x21, x22, [sp, 32]\n"
        "    stp x23, x24, [sp, 48]\n    stp x25, x26, [sp, 64]\n    stp x27, x28, [sp, 80]\n"
        "    stp d8, d9, [sp, 96]\n    stp d10, d11, [sp, 112]\n    stp d12, d13, [sp, 128]\n"
        "    stp d14, d15, [sp, 144]\n    mov x2, sp\n    str x2, [x0]\n    mov sp, x1\n"
        "    ldp x19, x20, [sp, 16]\n    ldp x21, x22, [sp, 32]\n    ldp x23, x24, [sp, 48]\n"
        "    ldp x25, x26, [sp, 64]\n    ldp x27, x28, [sp, 80]\n    ldp d8, d9, [sp, 96]\n"
        "    ldp d10, d11, [sp, 112]\n    ldp d12, d13, [sp, 128]\n    ldp d14, d15, [sp, 144]\n"
        "    ldp x29, x30, [sp], 160\n    br x30\n"
        ".size wm_gpu_fiber_switch, . - wm_gpu_fiber_switch\n");
#endif

static void yield (do_t next)
{
    self_fiber->next = next;
    wm_gpu_fiber_switch (&self_fiber->sp, scheduler_sp);
}

static void begin (void)
{
    block.kernel (block.args, block.shared, self_fiber->at);
    yield (END);
    abort ();
}

static void make_fiber (fiber_t *fiber, wm_gpu_at_t at)
{
    if (!fiber->stack) { /* kept for good: the next block needs it again */
        fiber->stack = aligned_alloc (64, STACK_BYTES);
        assert (fiber->stack);
    }
    void **top = (void **) (void *) ((char *) fiber->stack + STACK_BYTES) - FRAME;
    memset (top, 0, FRAME * sizeof *top); /* where a caller would be is 0, too */
    top[RETURN] = (void *) begin;
    fiber->sp = top;
    fiber->at = at;
    fiber->next = NOTHING;
    fiber->first = fiber->last = fiber->group = 0;
    fiber->begun = fiber->shown = false;
    fiber->step = 0;
}

/* ---- instructions of the GPU ----------------------------------------------------------------- */

void wm_gpu_meet (void)
{
    yield (MEET);
    self_fiber->shown = false; /* what others copied before */
}

uint32_t wm_gpu_ballot (bool yes)
{
    uint32_t bits;
    self_fiber->yes = yes, self_fiber->out = &bits;
    yield (BALLOT);
    return bits;
}

uint32_t wm_gpu_first (uint32_t value)
{
    uint32_t first;
    self_fiber->word = value, self_fiber->out = &first;
    yield (FIRST);
    return first;
}

uint32_t wm_gpu_add (uint32_t *counter, uint32_t n)
{
    *counter += n;
    return *counter - n;
}

/* Whether `bytes` of shared memory begin there, aligned to `align`.  */
static bool is_shared (const void *p, size_t align, size_t bytes)
{
    const char *c = p, *from = (const char *) block.shared;
    return (size_t) (c - from) % align == 0 && c >= from && c + bytes <= from + block.shared_bytes;
}

void wm_gpu_copy16 (wm_gpu_near_t to, const void *from, bool there)
{
    fiber_t *f = self_fiber;
    if (!is_shared (to, 16, 16) || (uintptr_t) from % 16 || f->last - f->first == COPIES_MAX)
        broken = "a copy of 16 bytes that is not aligned, outside shared memory, or one too many";
    else {
        memset (to, 0xff, 16);
        f->copy[f->last++ % COPIES_MAX] = (copy_t){ to, there ? from : NULL, f->group };
        wm_gpu_fake.copied_bytes += there ? 16 : 0;
    }
}

void wm_gpu_copy_commit (void)
{
    self_fiber->group++;
}

void wm_gpu_copy_wait (uint32_t pending)
{
    fiber_t *f = self_fiber;
    for (; f->first < f->last; f->first++) {
        const copy_t *copy = &f->copy[f->first % COPIES_MAX];
        if (copy->group + pending >= f->group)
            return;
        if (copy->from)
            memcpy (copy->to, copy->from, 16);
        else
            memset (copy->to, 0, 16);
    }
}

static void load (uint32_t *r, wm_gpu_near_t from, size_t bytes)
{
    if (!is_shared (from, bytes, bytes))
        broken = "a load of 8 or 16 bytes that is not aligned, or outside shared memory";
    else
        memcpy (r, from, bytes);
}

void wm_gpu_load16 (uint32_t r[4], wm_gpu_near_t from)
{
    load (r, from, 16);
}

void wm_gpu_load8 (uint32_t r[2], wm_gpu_near_t from)
{
    load (r, from, 8);
}

void wm_gpu_matrix4 (uint32_t r[4], wm_gpu_near_t row)
{
    self_fiber->row = row, self_fiber->out = r, self_fiber->n_matrix = 4;
    yield (MATRIX);
}

void wm_gpu_matrix2 (uint32_t r[2], wm_gpu_near_t row)
{
    self_fiber->row = row, self_fiber->out = r, self_fiber->n_matrix = 2;
    yield (MATRIX);
}

void wm_gpu_mma (float c[4], const uint32_t a[4], const uint32_t b[2])
{
    self_fiber->c = c, self_fiber->a = a, self_fiber->b = b;
    yield (MMA);
}

void wm_gpu_wide_begin (void)
{
    self_fiber->begun = true;
}

void wm_gpu_wide_mma (float d[64], wm_gpu_near_t weights, wm_gpu_near_t values, uint32_t plane,
                      bool adds)
{
    self_fiber->c = d, self_fiber->product = (product_t){ weights, values, plane, adds };
    yield (WIDE_MMA);
}

void wm_gpu_wide_commit (void)
{
    self_fiber->step++;
}

void wm_gpu_wide_wait (uint32_t pending)
{
    self_fiber->word = pending;
    yield (WIDE_WAIT);
    self_fiber->begun = false; /* the thread may use its sums now */
}

void wm_gpu_wide_show (void)
{
    self_fiber->shown = true;
}

/* ---- what a warp does together --------------------------------------------------------------- */

static void do_ballot (fiber_t *lane)
{
    uint32_t bits = 0;
    for (uint32_t l = 0; l < 32; l++)
        bits |= (uint32_t) lane[l].yes << l;
    for (uint32_t l = 0; l < 32; l++)
        *lane[l].out = bits;
}

static void do_first (fiber_t *lane)
{
    for (uint32_t l = 0; l < 32; l++)
        *lane[l].out = lane[0].word;
}

/* Eight rows are read at once if they lie in eight different groups of four banks.  */
static void do_matrix (fiber_t *lane)
{
    for (uint32_t m = 0; m < lane->n_matrix; m++) {
        uint32_t groups = 0;
        for (uint32_t i = 0; i < 8; i++) {
            const char *row = lane[8 * m + i].row;
            if (!is_shared (row, 16, 16)) {
                broken = "a matrix whose row is not aligned, or outside shared memory";
                return;
            }
            groups |= 1u << ((row - (const char *) block.shared) / 16 % 8);
            for (uint32_t word = 0; word < 4; word++)
                memcpy (&lane[4 * i + word].out[m], row + 4 * word, 4);
        }
        wm_gpu_fake.bank_conflicts += groups != 0xff;
    }
}

static float half_table[65536];
typedef double eight_t __attribute__ ((vector_size (8 * sizeof (double))));

/* Half 0 or 1 of a word.  */
static double half_of (uint32_t word, uint32_t i)
{
    return (double) half_table[word >> 16 * i & 0xffff];
}

/* Towards 0, as NVIDIA's tensor cores do with what they add (H. Ootomo, R. Yokota, Recovering
   single precision accuracy from Tensor Cores, 2022).  */
static float cut_off (double sum)
{
    const float value = (float) sum;
    return fabs ((double) value) > fabs (sum) ? nextafterf (value, 0) : value;
}

/* c (16, 8) += a (16, 16) b (16, 8); c as wm_gpu_mma has it, from c[lane][at] on.  */
static void multiply (double a[16][16], const eight_t b[16], float *const c[32], uint32_t at,
                      bool adds)
{
    for (uint32_t m = 0; m < 16; m++) {
        eight_t sum = { 0 };
        for (uint32_t k = 0; k < 16; k++)
            sum += a[m][k] * b[k];
        for (uint32_t n = 0; n < 8; n++) {
            float *to = &c[m % 8 * 4 + n / 2][at + m / 8 * 2 + n % 2];
            *to = cut_off ((adds ? (double) *to : 0) + sum[n]);
        }
    }
}

static void do_mma (fiber_t *lane)
{
    double a[16][16];
    eight_t b[16];
    float *c[32];
    uint32_t any = 0;
    wm_gpu_fake.mmas++;
    for (uint32_t l = 0; l < 32; l++)
        any |= lane[l].b[0] | lane[l].b[1];
    if (!any)
        return; /* nothing is added */
    for (uint32_t l = 0; l < 32; l++) {
        const uint32_t g = l / 4, t = l % 4;
        for (uint32_t i = 0; i < 8; i++) /* halves */
            a[g + i / 2 % 2 * 8][(t + i / 4 * 4) * 2 + i % 2] = half_of (lane[l].a[i / 2], i % 2);
        for (uint32_t i = 0; i < 4; i++)
            b[(t + i / 2 * 4) * 2 + i % 2][g] = half_of (lane[l].b[i / 2], i % 2);
        c[l] = lane[l].c;
    }
    multiply (a, b, c, 0, true);
}

/* ---- what a warpgroup does, warp by warp ----------------------------------------------------- */

/* Plane k of the weights that a warp reads.  */
static const char *weights_of (const product_t *product, uint32_t warp, uint32_t k)
{
    return product->weights + k * WM_GPU_WIDE_WEIGHTS + warp % 4 * 256;
}

/* Keeps a product and what it would read now.  */
static void do_wide_mma (fiber_t *lane, uint32_t warp)
{
    warp_t *self = &block_warps[warp];
    const product_t *product = &lane->product;
    for (uint32_t l = 0; l < 32; l++) {
        if (!lane[l].begun)
            broken = "a product of a warpgroup, and no wm_gpu_wide_begin behind the last wait";
        if (!lane[l].shown)
            broken = "a product of a warpgroup, and no wm_gpu_wide_show behind the last barrier";
        if (memcmp (&lane[l].product, product, sizeof *product) != 0)
            broken = "a product of a warpgroup whose threads name different operands";
    }
    if (!is_shared (product->weights, 16, WM_GPU_WIDE_WEIGHTS + 64 * 16) ||
        !is_shared (product->values, 16, product->plane + 128 * 16) ||
        self->last - self->first == PRODUCTS_MAX)
        broken = "an operand that is not aligned, outside shared memory, or one too many";
    if (broken)
        return;
    const uint32_t i = self->last++ % PRODUCTS_MAX;
    self->pending[i].product = *product, self->pending[i].step = lane->step;
    for (uint32_t k = 0; k < 2; k++) {
        memcpy (self->pending[i].operands.weights[k], weights_of (product, warp, k), 256);
        memcpy (self->pending[i].operands.values[k], product->values + k * product->plane, 2048);
    }
    for (uint32_t l = 0; l < 32; l++)
        self->pending[i].sum[l] = lane[l].c;
}

/* Adds a product to the sums, eight hits at a time: most have nothing at most positions.  */
static void carry_out (const operands_t *operands, float *const sum[32], bool adds)
{
    static const uint16_t zeros[8][8];
    double a[16][16];
    eight_t b[16];
    for (uint32_t m = 0; m < 16; m++)
        for (uint32_t k = 0; k < 16; k++)
            a[m][k] = (double) half_table[operands->weights[k / 8][m][k % 8]];
    for (uint32_t j = 0; j < 16; j++) {
        if (adds && memcmp (operands->values[0][8 * j], zeros, sizeof zeros) == 0 &&
            memcmp (operands->values[1][8 * j], zeros, sizeof zeros) == 0)
            continue; /* nothing is added */
        for (uint32_t k = 0; k < 16; k++)
            for (uint32_t n = 0; n < 8; n++)
                b[k][n] = (double) half_table[operands->values[k / 8][8 * j + n][k % 8]];
        multiply (a, b, sum, 4 * j, adds);
    }
}

/* Carries out the products of all but the last steps.  */
static void do_wide_wait (fiber_t *lane, uint32_t warp)
{
    warp_t *self = &block_warps[warp];
    for (; self->first < self->last; self->first++) {
        const uint32_t i = self->first % PRODUCTS_MAX;
        const product_t *product = &self->pending[i].product;
        const operands_t *operands = &self->pending[i].operands;
        if (self->pending[i].step + lane->word >= lane->step)
            return;
        for (uint32_t k = 0; k < 2; k++)
            if (memcmp (operands->weights[k], weights_of (product, warp, k), 256) != 0 ||
                memcmp (operands->values[k], product->values + k * product->plane, 2048) != 0)
                broken = "a product of a warpgroup whose operands change before it is waited for";
        carry_out (operands, self->pending[i].sum, product->adds);
    }
}

/* ---- the block ------------------------------------------------------------------------------- */

/* Runs the lanes of a warp to their next instruction and carries it out, unless the block does.  */
static do_t step (fiber_t *lane, uint32_t from)
{
    for (uint32_t i = 0; i < 32; i++) {
        self_fiber = &lane[(from + i) % 32];
        wm_gpu_fiber_switch (&scheduler_sp, self_fiber->sp);
    }
    for (uint32_t i = 1; i < 32; i++)
        if (lane[i].next != lane->next || lane[i].n_matrix != lane->n_matrix)
            broken = "lanes of a warp that come to different instructions";
    if (broken)
        return END;
    switch (lane->next) {
    case BALLOT:
        do_ballot (lane);
        break;
    case FIRST:
        do_first (lane);
        break;
    case MATRIX:
        do_matrix (lane);
        break;
    case MMA:
        do_mma (lane);
        break;
    case WIDE_MMA:
        do_wide_mma (lane, (uint32_t) (lane - fibers) / 32);
        break;
    case WIDE_WAIT:
        do_wide_wait (lane, (uint32_t) (lane - fibers) / 32);
        break;
    default:
        break;
    }
    return lane->next;
}

/* Runs warps in random order until all wait to meet, or have ended. Returns how many ended.  */
static uint32_t run_warps (uint32_t warps, uint64_t *seed)
{
    uint32_t list[WARPS_MAX], n = 0, ended = 0;
    for (uint32_t w = 0; w < warps; w++)
        list[n++] = w;
    while (n > 0 && !broken) {
        const uint64_t z = wm_seed_next (seed);
        const uint32_t i = (uint32_t) (z % n), steps = (uint32_t) (z >> 32) % STEPS_MAX + 1;
        do_t last = NOTHING;
        for (uint32_t s = 0; s < steps && last != MEET && last != END; s++)
            last = step (&fibers[32 * list[i]], (uint32_t) (z >> 16) + s);
        ended += last == END;
        if (last == MEET || last == END)
            list[i] = list[--n];
    }
    return ended;
}

const char *wm_gpu_fake_block (wm_gpu_thread_fn *kernel, const void *args, float *shared,
                               size_t shared_bytes, wm_gpu_at_t at, uint64_t *seed)
{
    const uint32_t warps = at.threads / 32;
    assert (at.threads % 32 == 0 && at.threads <= THREADS_MAX);
    if (half_table[1] == 0)
        for (uint32_t i = 0; i < 65536; i++)
            half_table[i] = wm_half_value ((uint16_t) i);
    block.kernel = kernel, block.args = args, block.shared = shared;
    block.shared_bytes = shared_bytes;
    broken = NULL;
    for (uint32_t t = 0; t < at.threads; t++) {
        at.thread = t;
        make_fiber (&fibers[t], at);
        fibers[t].n_matrix = 0;
    }
    for (uint32_t w = 0; w < warps; w++)
        block_warps[w].first = block_warps[w].last = 0;
    uint32_t ended = 0;
    while (!broken && ended == 0)
        ended = run_warps (warps, seed);
    if (!broken && ended < warps)
        broken = "threads that end while others of the block wait to meet them";
    return broken;
}
