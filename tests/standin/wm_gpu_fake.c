/* wm_gpu_fake.c - the stand-in: a GPU made of host memory (see wm_gpu_fake.h).

   A stream is a list of operations and how many of them were carried out. Waiting for an event
   carries out the operations of its stream that came before it was recorded; an operation that
   waits for another stream's event carries out that stream's first. Nothing else ever runs.  */
#include "tests/standin/wm_gpu_fake.h"
#include "kernels/cuda/wm_gpu_kernels.cuh"
#include "kernels/cuda/wm_gpu_library.h"
#include "kernels/cuda/wm_gpu_any.cuh"
#include "kernels/cuda/wm_gpu_dense.cuh"
#include "tests/standin/wm_gpu_fake_block.h"
#include "kernels/cuda/wm_gpu_own.cuh"
#include "kernels/wm_seed.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGIONS_MAX 64
#define STREAMS_MAX 8
#define EVENTS_MAX 64
#define GRAPHS_MAX 32
#define ALIGN 256u

wm_gpu_fake_t wm_gpu_fake;

typedef enum { COPY_IN, COPY_OUT, LAUNCH, CONV, GEMM, WAIT } kind_t;

typedef struct {
    uint32_t stream, mark; /* operations of the stream that it stands behind */
    bool recorded;
} event_t;

typedef struct {
    kind_t kind;
    bool fails;
    void *to;
    const void *from[3];
    size_t bytes;
    wm_gpu_launch_t launch;
    union {
        wm_gpu_fill_t fill;
        wm_gpu_scatter_t scatter;
        wm_gpu_gather_t gather;
        wm_gpu_tail_t tail;
        wm_gpu_phases_t phases;
        wm_gpu_cut_t cut;
        wm_gpu_copy_t copy;
        wm_gpu_spread_t spread;
        wm_gpu_pool_t pool;
        wm_gpu_join_t join;
        wm_gpu_scan_t scan;
        wm_gpu_strip_t strip;
        wm_gpu_active_t active;
        wm_gpu_dense_t dense;
    } args;
    const void *plan;
    event_t event; /* as it was when it was waited for */
} operation_t;

/* Operations are counted from the stream's first one ever; those before `base` are forgotten.  */
typedef struct {
    operation_t *operation;
    uint32_t base, n, n_max, done;
} stream_t;

/* Operations that are kept.  */
typedef struct {
    operation_t *operation;
    uint32_t n;
} graph_t;

typedef struct {
    char *page, *data;    /* data ends where the page behind begins, or up to ALIGN - 1 before */
    size_t bytes, inside; /* asked for; all that is not guard */
    bool device;
} region_t;

struct wm_conv_plan_t {
    wm_gpu_conv_t conv;
    bool bad, any; /* any: `anyconv` instead of `conv` */
    wm_gpu_anyconv_t anyconv;
};

struct wm_gemm_plan_t {
    wm_gpu_gemm_t gemm;
    bool bad;
};

typedef struct {
    const char *sticky;
    region_t region[REGIONS_MAX];
    const char *lent; /* memory of others that is pinned */
    size_t lent_bytes;
    uint32_t n_region, n_stream, n_event;
    uint32_t n_graph, kept_from; /* operations of `keeping` from this one on are its graph's */
    stream_t stream[STREAMS_MAX], *keeping;
    event_t event[EVENTS_MAX];
    graph_t graph[GRAPHS_MAX];
    uint64_t seed;
} fake_t;

/* ---- errors ---------------------------------------------------------------------------------- */

/* Every call begins here.  */
static wm_gpu_text_t begin (fake_t *self, const char *name)
{
    if (!self->sticky && ++wm_gpu_fake.calls == wm_gpu_fake.fail_at && !wm_gpu_fake.late)
        self->sticky = "cudaErrorLaunchFailure (planned by a test)";
    return self->sticky ? wm_gpu_text ("%s: %s", name, self->sticky) : NULL;
}

#define BEGIN(name)                                                                                \
    fake_t *self = gpu;                                                                            \
    wm_gpu_text_t words_ = begin (self, name);                                                     \
    if (words_)                                                                                    \
    return words_

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t page_bytes (void)
{
    return (size_t) sysconf (_SC_PAGESIZE);
}

static wm_gpu_text_t make_region (fake_t *self, void **p, size_t bytes, bool device)
{
    const size_t page = page_bytes (), rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    const size_t inside = (rounded + page - 1) / page * page;
    assert (self->n_region < REGIONS_MAX && bytes > 0);
    char *base = mmap (NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert (base != MAP_FAILED);
    assert (mprotect (base + page, inside, PROT_READ | PROT_WRITE) == 0);
    memset (base + page, 0xff, inside); /* NaN, in half and in float32 */
    region_t *region = &self->region[self->n_region++];
    *region = (region_t){ base, base + page + inside - rounded, bytes, inside, device };
    if (device)
        assert (mprotect (base + page, inside, PROT_NONE) == 0);
    *p = region->data;
    return NULL;
}

static void open_device (fake_t *self, bool open)
{
    for (uint32_t i = 0; i < self->n_region; i++)
        if (self->region[i].device)
            assert (mprotect (self->region[i].page + page_bytes (), self->region[i].inside,
                              open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
}

/* Whether the guard bytes around the data, inside its pages, are unchanged.  */
static bool guards_hold (const region_t *region)
{
    const char *first = region->page + page_bytes (), *last = first + region->inside;
    for (const char *c = first; c < last; c++)
        if ((c < region->data || c >= region->data + region->bytes) && *c != (char) 0xff)
            return false;
    return true;
}

/* The region of the device, or the pinned one, that holds these bytes.  */
static bool is_inside (const fake_t *self, const void *p, size_t bytes, bool device)
{
    const char *c = p;
    for (uint32_t i = 0; i < self->n_region; i++) {
        const region_t *r = &self->region[i];
        if (r->device == device && c >= r->data && c + bytes <= r->data + r->bytes)
            return true;
    }
    return false;
}

static bool is_lent (const fake_t *self, const void *p, size_t bytes)
{
    const char *c = p;
    return self->lent && c >= self->lent && c + bytes <= self->lent + self->lent_bytes;
}

/* ---- kernels --------------------------------------------------------------------------------- */

typedef uint32_t phases_of_t (const void *args);
typedef void run_t (const void *args, float *shared, wm_gpu_at_t at, uint32_t phase);

#define HOST_KERNEL(name)                                                                          \
    static uint32_t name##_count (const void *args)                                                \
    {                                                                                              \
        return name##_phases (args);                                                               \
    }                                                                                              \
    static void name##_run (const void *args, float *shared, wm_gpu_at_t at, uint32_t phase)       \
    {                                                                                              \
        name (args, shared, at, phase);                                                            \
    }
HOST_KERNEL (wm_gpu_fill)
HOST_KERNEL (wm_gpu_scatter)
HOST_KERNEL (wm_gpu_gather)
HOST_KERNEL (wm_gpu_tail)
HOST_KERNEL (wm_gpu_phases)
HOST_KERNEL (wm_gpu_cut)
HOST_KERNEL (wm_gpu_copy)
HOST_KERNEL (wm_gpu_spread)
HOST_KERNEL (wm_gpu_pool)
HOST_KERNEL (wm_gpu_join)
HOST_KERNEL (wm_gpu_scan)

#define HOST_THREAD(name)                                                                          \
    static void name##_thread (const void *args, float *shared, wm_gpu_at_t at)                    \
    {                                                                                              \
        name (args, shared, at);                                                                   \
    }
HOST_THREAD (wm_gpu_strip)
HOST_THREAD (wm_gpu_active)

static void wm_gpu_dense_thread (const void *args, float *shared, wm_gpu_at_t at)
{
    wm_gpu_dense (args, shared, at, false);
}

static void wm_gpu_densetf_thread (const void *args, float *shared, wm_gpu_at_t at)
{
    wm_gpu_dense (args, shared, at, true);
}

/* A kernel has phases, or threads that call barriers themselves.  */
static const struct {
    phases_of_t *phases;
    run_t *run;
    size_t args_bytes;
    wm_gpu_thread_fn *thread;
} kernels[] = {
    { wm_gpu_fill_count, wm_gpu_fill_run, sizeof (wm_gpu_fill_t), NULL },
    { wm_gpu_scatter_count, wm_gpu_scatter_run, sizeof (wm_gpu_scatter_t), NULL },
    { wm_gpu_gather_count, wm_gpu_gather_run, sizeof (wm_gpu_gather_t), NULL },
    { wm_gpu_tail_count, wm_gpu_tail_run, sizeof (wm_gpu_tail_t), NULL },
    { wm_gpu_phases_count, wm_gpu_phases_run, sizeof (wm_gpu_phases_t), NULL },
    { wm_gpu_cut_count, wm_gpu_cut_run, sizeof (wm_gpu_cut_t), NULL },
    { wm_gpu_copy_count, wm_gpu_copy_run, sizeof (wm_gpu_copy_t), NULL },
    { wm_gpu_spread_count, wm_gpu_spread_run, sizeof (wm_gpu_spread_t), NULL },
    { wm_gpu_pool_count, wm_gpu_pool_run, sizeof (wm_gpu_pool_t), NULL },
    { wm_gpu_join_count, wm_gpu_join_run, sizeof (wm_gpu_join_t), NULL },
    { wm_gpu_scan_count, wm_gpu_scan_run, sizeof (wm_gpu_scan_t), NULL },
    { NULL, NULL, sizeof (wm_gpu_strip_t), wm_gpu_strip_thread },
    { NULL, NULL, sizeof (wm_gpu_active_t), wm_gpu_active_thread },
    { NULL, NULL, sizeof (wm_gpu_dense_t), wm_gpu_dense_thread },
    { NULL, NULL, sizeof (wm_gpu_dense_t), wm_gpu_densetf_thread },
};

static void run_block (fake_t *self, const operation_t *op, uint32_t block, float *shared)
{
    const wm_gpu_launch_t *launch = &op->launch;
    memset (shared, 0xff, launch->shared_bytes);
    if (kernels[launch->kernel].thread) {
        const char *broken = wm_gpu_fake_block (
            kernels[launch->kernel].thread, &op->args, shared, launch->shared_bytes,
            (wm_gpu_at_t){ block, launch->blocks, 0, launch->threads }, &self->seed);
        self->sticky = broken ? broken : self->sticky;
        return;
    }
    const uint32_t phases = kernels[launch->kernel].phases (&op->args), n = launch->threads;
    for (uint32_t phase = 0; phase < phases; phase++) {
        uint64_t z = wm_seed_next (&self->seed);
        uint32_t step = (uint32_t) z | 1, from = (uint32_t) (z >> 32); /* n is a power of two */
        for (uint32_t i = 0; i < n; i++)
            kernels[launch->kernel].run (
                &op->args, shared,
                (wm_gpu_at_t){ block, launch->blocks, (i * step + from) & (n - 1), n }, phase);
    }
}

static void run_kernel (fake_t *self, const operation_t *op)
{
    const uint32_t n = op->launch.blocks;
    float *shared = aligned_alloc (ALIGN, (op->launch.shared_bytes / ALIGN + 2) * ALIGN);
    assert (shared);
    uint32_t from = (uint32_t) (wm_seed_next (&self->seed) % n);
    memset (shared, 0xff, op->launch.shared_bytes + ALIGN);
    for (uint32_t i = 0; i < n; i++)
        run_block (self, op, (i + from) % n, shared);
    const char *behind = (const char *) shared + op->launch.shared_bytes;
    for (uint32_t i = 0; i < ALIGN; i++)
        wm_gpu_fake.broken_guards += behind[i] != (char) 0xff;
    free (shared);
    wm_gpu_fake.launches++;
    if ((op->launch.kernel == WM_GPU_DENSE || op->launch.kernel == WM_GPU_DENSE_TF32) &&
        ++wm_gpu_fake.dense_launches == wm_gpu_fake.flip_launch)
        ((uint32_t *) op->args.dense.partial)[5] ^= 1u << 27;
}

/* ---- streams --------------------------------------------------------------------------------- */

static void carry_out (fake_t *self, uint32_t stream, uint32_t mark);

static void run (fake_t *self, const operation_t *op)
{
    if (op->fails)
        self->sticky = "cudaErrorLaunchFailure (planned by a test, late)";
    if (self->sticky)
        return;
    switch (op->kind) {
    case COPY_IN:
    case COPY_OUT:
        memcpy (op->to, op->from[0], op->bytes);
        break;
    case LAUNCH:
        run_kernel (self, op);
        break;
    case CONV: {
        const struct wm_conv_plan_t *plan = op->plan;
        if (plan->any)
            wm_gpu_fake_anyconv (&plan->anyconv, plan->bad, op->from[0], op->from[1], op->from[2],
                                 op->to);
        else
            wm_gpu_fake_conv (&plan->conv, plan->bad, op->from[0], op->from[1], op->from[2],
                              op->to);
        break;
    }
    case GEMM: {
        const struct wm_gemm_plan_t *plan = op->plan;
        wm_gpu_fake_gemm (&plan->gemm, plan->bad, op->from[0], op->from[1], op->to);
        break;
    }
    case WAIT:
        if (op->event.recorded)
            carry_out (self, op->event.stream, op->event.mark);
    }
}

/* Carries out a stream's operations up to a mark; after an error nothing is carried out.  */
static void carry_out (fake_t *self, uint32_t stream, uint32_t mark)
{
    stream_t *s = &self->stream[stream];
    while (s->done < mark) {
        s->done++;
        run (self, &s->operation[s->done - 1 - s->base]);
    }
}

static wm_gpu_text_t wait_for (fake_t *self, uint32_t stream, uint32_t mark, const char *name)
{
    open_device (self, true);
    carry_out (self, stream, mark);
    open_device (self, false);
    return self->sticky ? wm_gpu_text ("%s: %s", name, self->sticky) : NULL;
}

static operation_t *queue (fake_t *self, void *stream, kind_t kind)
{
    stream_t *s = stream;
    if (s->done == s->base + s->n)
        s->base += s->n, s->n = 0;
    if (s->n == s->n_max) {
        s->n_max = s->n_max ? 2 * s->n_max : 64;
        s->operation = realloc (s->operation, s->n_max * sizeof *s->operation);
        assert (s->operation);
    }
    operation_t *op = &s->operation[s->n++];
    memset (op, 0, sizeof *op);
    op->kind = kind;
    op->fails = wm_gpu_fake.late && wm_gpu_fake.calls == wm_gpu_fake.fail_at;
    (void) self;
    return op;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* A test names a file; its number, once the file is there, makes the n-th run of a graph fail from
   then on. The process that reads the file removes it, so that the next one does not fail.  */
static void take_orders (void)
{
    const char *path = getenv ("WM_STANDIN_FAIL");
    FILE *file = path ? fopen (path, "r") : NULL;
    if (!file)
        return;
    if (fscanf (file, "%u", &wm_gpu_fake.fail_run) != 1)
        wm_gpu_fake.fail_run = 0;
    wm_gpu_fake.fail_run += wm_gpu_fake.fail_run ? wm_gpu_fake.graph_runs : 0;
    fclose (file);
    unlink (path);
}

static void *fake_make (void)
{
    take_orders ();
    return calloc (1, sizeof (fake_t));
}

static void fake_destroy (void *gpu)
{
    fake_t *self = gpu;
    open_device (self, true);
    for (uint32_t i = 0; i < self->n_region; i++) {
        region_t *r = &self->region[i];
        wm_gpu_fake.broken_guards += !guards_hold (r);
        munmap (r->page, r->inside + 2 * page_bytes ());
    }
    for (uint32_t i = 0; i < self->n_stream; i++)
        free (self->stream[i].operation);
    for (uint32_t i = 0; i < self->n_graph; i++)
        free (self->graph[i].operation);
    free (self);
}

static size_t shared_max (void)
{
    return wm_gpu_fake.shared_bytes ? wm_gpu_fake.shared_bytes : 227 << 10;
}

static wm_gpu_text_t fake_open (void *gpu, wm_gpu_info_t *info)
{
    BEGIN ("open");
    if (wm_gpu_fake.absent)
        return "no NVIDIA GPU";
    *info =
        (wm_gpu_info_t){ .device = "NVIDIA Stand-In 1 GB",
                         .major = wm_gpu_fake.turing ? 7 : 9,
                         .minor = wm_gpu_fake.turing ? 5 : 0,
                         .n_sm = 1,
                         .free_bytes = wm_gpu_fake.free_bytes ? wm_gpu_fake.free_bytes : SIZE_MAX,
                         .shared_bytes = shared_max (),
                         .libraries = "0.0.0-0.0.0" };
    return NULL;
}

static wm_gpu_text_t fake_device_new (void *gpu, void **d_p, size_t bytes)
{
    BEGIN ("device_new");
    return make_region (self, d_p, bytes, true);
}

static wm_gpu_text_t fake_pinned_new (void *gpu, void **h_p, size_t bytes)
{
    BEGIN ("pinned_new");
    return make_region (self, h_p, bytes, false);
}

static wm_gpu_text_t fake_pin (void *gpu, const void *h, size_t bytes)
{
    BEGIN ("pin");
    if (wm_gpu_fake.pins_nothing)
        return "pin: cudaErrorNotSupported (planned by a test)";
    self->lent = h, self->lent_bytes = bytes;
    return NULL;
}

static wm_gpu_text_t fake_stream_new (void *gpu, void **stream)
{
    BEGIN ("stream_new");
    assert (self->n_stream < STREAMS_MAX);
    *stream = &self->stream[self->n_stream++];
    return NULL;
}

static wm_gpu_text_t fake_stream_wait (void *gpu, void *stream, void *event)
{
    BEGIN ("stream_wait");
    queue (self, stream, WAIT)->event = *(event_t *) event;
    return NULL;
}

static wm_gpu_text_t fake_stream_sync (void *gpu, void *stream)
{
    BEGIN ("stream_sync");
    stream_t *s = stream;
    return wait_for (self, (uint32_t) (s - self->stream), s->base + s->n, "stream_sync");
}

static wm_gpu_text_t fake_event_new (void *gpu, void **event, bool timed)
{
    BEGIN ("event_new");
    (void) timed;
    assert (self->n_event < EVENTS_MAX);
    *event = &self->event[self->n_event++];
    return NULL;
}

static wm_gpu_text_t fake_event_record (void *gpu, void *event, void *stream)
{
    BEGIN ("event_record");
    stream_t *s = stream;
    *(event_t *) event = (event_t){ (uint32_t) (s - self->stream), s->base + s->n, true };
    return NULL;
}

static wm_gpu_text_t fake_event_sync (void *gpu, void *event)
{
    BEGIN ("event_sync");
    const event_t *e = event;
    return e->recorded ? wait_for (self, e->stream, e->mark, "event_sync") : NULL;
}

static wm_gpu_text_t fake_event_ms (void *gpu, void *from, void *to, float *ms)
{
    BEGIN ("event_ms");
    (void) from, (void) to;
    *ms = 1;
    return NULL;
}

static wm_gpu_text_t fake_copy_in (void *gpu, void *d_to, const void *h_from, size_t bytes,
                                   void *stream)
{
    BEGIN ("copy_in");
    const bool lent = is_lent (self, h_from, bytes);
    if (!is_inside (self, d_to, bytes, true) || !(lent || is_inside (self, h_from, bytes, false)))
        return "copy_in: cudaErrorInvalidValue";
    wm_gpu_fake.lent_bytes += lent ? bytes : 0;
    operation_t *op = queue (self, stream, COPY_IN);
    op->to = d_to, op->from[0] = h_from, op->bytes = bytes;
    return NULL;
}

static wm_gpu_text_t fake_copy_out (void *gpu, void *h_to, const void *d_from, size_t bytes,
                                    void *stream)
{
    BEGIN ("copy_out");
    if (!is_inside (self, h_to, bytes, false) || !is_inside (self, d_from, bytes, true))
        return "copy_out: cudaErrorInvalidValue";
    memset (h_to, 0xff, bytes);
    operation_t *op = queue (self, stream, COPY_OUT);
    op->to = h_to, op->from[0] = d_from, op->bytes = bytes;
    return NULL;
}

static wm_gpu_text_t fake_launch (void *gpu, const wm_gpu_launch_t *launch, void *stream)
{
    BEGIN ("launch");
    if (launch->blocks == 0 || launch->threads == 0 || launch->threads > 1024 ||
        (launch->threads & (launch->threads - 1)) ||
        launch->shared_bytes > (launch->kernel < WM_GPU_DENSE ? 48 << 10 : shared_max ()))
        return "launch: cudaErrorInvalidConfiguration";
    operation_t *op = queue (self, stream, LAUNCH);
    op->launch = *launch;
    memcpy (&op->args, launch->args, kernels[launch->kernel].args_bytes);
    return NULL;
}

static wm_gpu_text_t fake_graph_begin (void *gpu, void *stream)
{
    BEGIN ("graph_begin");
    stream_t *s = stream;
    if (self->keeping || s->done != s->base + s->n)
        return "graph_begin: cudaErrorStreamCaptureUnsupported";
    self->keeping = s, self->kept_from = s->n;
    return NULL;
}

static wm_gpu_text_t fake_graph_end (void *gpu, void *stream, void **graph)
{
    BEGIN ("graph_end");
    stream_t *s = stream;
    if (self->keeping != s)
        return "graph_end: cudaErrorIllegalState";
    assert (self->n_graph < GRAPHS_MAX);
    graph_t *g = &self->graph[self->n_graph++];
    *g = (graph_t){ .n = s->n - self->kept_from };
    g->operation = calloc (g->n + 1, sizeof *g->operation);
    assert (g->operation);
    memcpy (g->operation, s->operation + self->kept_from, g->n * sizeof *g->operation);
    s->n = self->kept_from;
    self->keeping = NULL;
    *graph = g;
    return NULL;
}

static wm_gpu_text_t fake_graph_run (void *gpu, void *graph, void *stream)
{
    BEGIN ("graph_run");
    const graph_t *g = graph;
    for (uint32_t i = 0; i < g->n; i++) {
        operation_t *op = queue (self, stream, LAUNCH);
        const bool fails = op->fails;
        *op = g->operation[i];
        op->fails = fails || op->fails; /* a call that failed when it was kept fails in each run */
        if (op->kind == COPY_OUT)
            memset (op->to, 0xff, op->bytes);
    }
    if (!wm_gpu_fake.fail_run)
        take_orders ();
    if (++wm_gpu_fake.graph_runs == wm_gpu_fake.fail_run)
        self->sticky = "cudaErrorLaunchFailure (planned by a test)";
    return self->sticky ? wm_gpu_text ("graph_run: %s", self->sticky) : NULL;
}

static void fake_range_begin (void *gpu, const char *name)
{
    (void) gpu, (void) name;
    wm_gpu_fake.ranges++, wm_gpu_fake.ranges_begun++;
}

static void fake_range_end (void *gpu)
{
    (void) gpu;
    wm_gpu_fake.ranges--;
}

static bool is_there (uint32_t candidate, wm_gpu_choice_t *choice)
{
    uint32_t n = wm_gpu_fake.candidates ? wm_gpu_fake.candidates : 1;
    *choice = (wm_gpu_choice_t){ .workspace_bytes = 1000, .name = "stand-in" };
    return candidate < n;
}

static wm_gpu_text_t fake_conv_new (void *gpu, const wm_gpu_conv_t *conv, uint32_t candidate,
                                    wm_conv_plan_t **plan, wm_gpu_choice_t *choice)
{
    BEGIN ("conv_new");
    *plan = is_there (candidate, choice) ? calloc (1, sizeof **plan) : NULL;
    if (candidate < wm_gpu_fake.greedy)
        choice->workspace_bytes = 1u << 30;
    if (*plan)
        **plan = (wm_conv_plan_t){ .conv = *conv, .bad = candidate < wm_gpu_fake.bad_convs };
    return NULL;
}

static wm_gpu_text_t fake_anyconv_new (void *gpu, const wm_gpu_anyconv_t *conv, uint32_t candidate,
                                       wm_conv_plan_t **plan, wm_gpu_choice_t *choice)
{
    BEGIN ("anyconv_new");
    const bool none = wm_gpu_fake.no_halves && conv->precision == WM_GPU_F16;
    *plan = is_there (candidate, choice) && !none ? calloc (1, sizeof **plan) : NULL;
    if (*plan)
        **plan = (wm_conv_plan_t){ .anyconv = *conv,
                                   .any = true,
                                   .bad = candidate < wm_gpu_fake.bad_convs };
    return NULL;
}

/* Checks the alignment that both libraries need, and that no graph is being recorded.  */
static const char *refuse_library (const fake_t *self, const void *const pointer[4],
                                   const void *d_workspace)
{
    for (int i = 0; i < 4; i++)
        if ((uintptr_t) pointer[i] % 16)
            return "memory that is not aligned to 16 bytes";
    return self->keeping                               ? "within a graph"
           : is_inside (self, d_workspace, 1000, true) ? NULL
                                                       : "no workspace";
}

static wm_gpu_text_t fake_conv_run (void *gpu, wm_conv_plan_t *plan, const void *d_x,
                                    const void *d_weight, const void *d_bias, void *d_y,
                                    void *d_workspace, void *stream)
{
    BEGIN ("conv_run");
    const char *why =
        refuse_library (self, (const void *[]){ d_x, d_weight, d_bias, d_y }, d_workspace);
    if (why)
        return wm_gpu_text ("conv_run: %s", why);
    operation_t *op = queue (self, stream, CONV);
    op->plan = plan;
    op->from[0] = d_x, op->from[1] = d_weight, op->from[2] = d_bias, op->to = d_y;
    return NULL;
}

static void fake_conv_destroy (void *gpu, wm_conv_plan_t **plan_p)
{
    (void) gpu;
    free (*plan_p);
    *plan_p = NULL;
}

static wm_gpu_text_t fake_gemm_new (void *gpu, const wm_gpu_gemm_t *gemm, uint32_t candidate,
                                    wm_gemm_plan_t **plan, wm_gpu_choice_t *choice)
{
    BEGIN ("gemm_new");
    *plan = is_there (candidate, choice) ? calloc (1, sizeof **plan) : NULL;
    if (*plan)
        **plan = (wm_gemm_plan_t){ *gemm, candidate < wm_gpu_fake.bad_gemms };
    return NULL;
}

static wm_gpu_text_t fake_gemm_run (void *gpu, wm_gemm_plan_t *plan, const void *d_a,
                                    const void *d_b, void *d_c, void *d_workspace, void *stream)
{
    BEGIN ("gemm_run");
    const char *why = refuse_library (self, (const void *[]){ d_a, d_b, d_c, d_c }, d_workspace);
    if (why)
        return wm_gpu_text ("gemm_run: %s", why);
    operation_t *op = queue (self, stream, GEMM);
    op->plan = plan;
    op->from[0] = d_a, op->from[1] = d_b, op->to = d_c;
    return NULL;
}

static void fake_gemm_destroy (void *gpu, wm_gemm_plan_t **plan_p)
{
    (void) gpu;
    free (*plan_p);
    *plan_p = NULL;
}

const wm_gpu_api_t wm_gpu_stand_in = {
    .name = "stand-in",
    .make = fake_make,
    .destroy = fake_destroy,
    .open = fake_open,
    .device_new = fake_device_new,
    .pinned_new = fake_pinned_new,
    .pin = fake_pin,
    .stream_new = fake_stream_new,
    .stream_wait = fake_stream_wait,
    .stream_sync = fake_stream_sync,
    .event_new = fake_event_new,
    .event_record = fake_event_record,
    .event_sync = fake_event_sync,
    .event_ms = fake_event_ms,
    .copy_in = fake_copy_in,
    .copy_out = fake_copy_out,
    .launch = fake_launch,
    .graph_begin = fake_graph_begin,
    .graph_end = fake_graph_end,
    .graph_run = fake_graph_run,
    .range_begin = fake_range_begin,
    .range_end = fake_range_end,
    .conv_new = fake_conv_new,
    .conv_run = fake_conv_run,
    .conv_destroy = fake_conv_destroy,
    .anyconv_new = fake_anyconv_new,
    .gemm_new = fake_gemm_new,
    .gemm_run = fake_gemm_run,
    .gemm_destroy = fake_gemm_destroy,
};
