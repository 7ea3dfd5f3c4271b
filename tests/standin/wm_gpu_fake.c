/* wm_gpu_fake.c - the stand-in: a GPU made of host memory (see wm_gpu_fake.h).

   A stream is a list of operations and how many of them were carried out. Waiting for an event
   carries out the operations of its stream that came before it was recorded; an operation that
   waits for another stream's event carries out that stream's first. Nothing else ever runs, but
   where a test asks for it (`restless`): then some operations of some stream, at random times. What
   no event orders is an error (wm_gpu_fake_order.h).  */
#include "tests/standin/wm_gpu_fake.h"
#include "kernels/gpu/wm_gpu_active.cuh"
#include "kernels/gpu/wm_gpu_any.cuh"
#include "kernels/gpu/wm_gpu_kernels.cuh"
#include "kernels/gpu/wm_gpu_library.h"
#include "kernels/gpu/wm_gpu_own.cuh"
#include "kernels/gpu/wm_gpu_wide.cuh"
#include "kernels/model/wm_seed.h"
#include "tests/standin/wm_gpu_fake_block.h"
#include "tests/standin/wm_gpu_fake_count.h"
#include "tests/standin/wm_gpu_fake_memory.h"
#include "tests/standin/wm_gpu_fake_order.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STREAMS_MAX FAKE_STREAMS_MAX
#define EVENTS_MAX 128
#define GRAPHS_MAX 64
#define FREE_BYTES ((size_t) 2 << 30) /* all that is asked for is written: poisoned */

wm_gpu_fake_t wm_gpu_fake;

typedef enum { COPY_IN, COPY_OUT, LAUNCH, CONV, WAIT } kind_t;

typedef struct {
    uint32_t stream, mark; /* operations of the stream that it stands behind */
    bool recorded;
    fake_clock_t clock;
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
        wm_gpu_window_t window;
        wm_gpu_tail_t tail;
        wm_gpu_phases_t phases;
        wm_gpu_cut_t cut;
        wm_gpu_copy_t copy;
        wm_gpu_spread_t spread;
        wm_gpu_pool_t pool;
        wm_gpu_join_t join;
        wm_gpu_scan_t scan;
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

struct wm_conv_plan_t {
    wm_gpu_anyconv_t conv;
    bool bad;
};

typedef struct {
    const char *sticky;
    bool has_cudnn; /* it is open */
    fake_memory_t memory;
    uint32_t n_stream, n_event;
    uint32_t n_graph, kept_from; /* operations of `keeping` from this one on are its graph's */
    stream_t stream[STREAMS_MAX], *keeping;
    bool spoilt; /* a call that a graph cannot keep was made */
    event_t event[EVENTS_MAX];
    graph_t graph[GRAPHS_MAX];
    fake_order_t order;
    uint64_t seed;
} fake_t;

/* ---- errors ---------------------------------------------------------------------------------- */

static void stir (fake_t *self);

/* Every call begins here.  */
static wm_gpu_text_t begin (fake_t *self, const char *name)
{
    if (wm_gpu_fake.restless)
        stir (self);
    if (!self->sticky && ++wm_gpu_fake.calls == wm_gpu_fake.fail_at && !wm_gpu_fake.late)
        self->sticky = "cudaErrorLaunchFailure (planned by a test)";
    return self->sticky ? wm_gpu_text ("%s: %s", name, self->sticky) : NULL;
}

#define BEGIN(name)                                                                                \
    fake_t *self = gpu;                                                                            \
    wm_gpu_text_t words_ = begin (self, name);                                                     \
    if (words_)                                                                                    \
    return words_

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
HOST_KERNEL (wm_gpu_window)
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
HOST_THREAD (wm_gpu_active)

#define HOST_DENSE(name, body, how)                                                                \
    static void name##_thread (const void *args, float *shared, wm_gpu_at_t at)                    \
    {                                                                                              \
        body (args, shared, at, how);                                                              \
    }
HOST_DENSE (wm_gpu_dense, wm_gpu_dense, WM_GPU_BY_HALF)
HOST_DENSE (wm_gpu_densesplit, wm_gpu_dense, WM_GPU_BY_SPLIT)
HOST_DENSE (wm_gpu_densefma, wm_gpu_dense, WM_GPU_BY_FMA)
HOST_DENSE (wm_gpu_densewide, wm_gpu_wide, 1)
HOST_DENSE (wm_gpu_densewidesplit, wm_gpu_wide, 2)

/* A kernel has phases, or threads that call barriers themselves.  */
static const struct {
    phases_of_t *phases;
    run_t *run;
    size_t args_bytes;
    wm_gpu_thread_fn *thread;
} kernels[] = {
    { wm_gpu_fill_count, wm_gpu_fill_run, sizeof (wm_gpu_fill_t), NULL },
    { wm_gpu_scatter_count, wm_gpu_scatter_run, sizeof (wm_gpu_scatter_t), NULL },
    { wm_gpu_window_count, wm_gpu_window_run, sizeof (wm_gpu_window_t), NULL },
    { wm_gpu_tail_count, wm_gpu_tail_run, sizeof (wm_gpu_tail_t), NULL },
    { wm_gpu_phases_count, wm_gpu_phases_run, sizeof (wm_gpu_phases_t), NULL },
    { wm_gpu_cut_count, wm_gpu_cut_run, sizeof (wm_gpu_cut_t), NULL },
    { wm_gpu_copy_count, wm_gpu_copy_run, sizeof (wm_gpu_copy_t), NULL },
    { wm_gpu_spread_count, wm_gpu_spread_run, sizeof (wm_gpu_spread_t), NULL },
    { wm_gpu_pool_count, wm_gpu_pool_run, sizeof (wm_gpu_pool_t), NULL },
    { wm_gpu_join_count, wm_gpu_join_run, sizeof (wm_gpu_join_t), NULL },
    { wm_gpu_scan_count, wm_gpu_scan_run, sizeof (wm_gpu_scan_t), NULL },
    { NULL, NULL, sizeof (wm_gpu_active_t), wm_gpu_active_thread },
    { NULL, NULL, sizeof (wm_gpu_dense_t), wm_gpu_dense_thread },
    { NULL, NULL, sizeof (wm_gpu_dense_t), wm_gpu_densesplit_thread },
    { NULL, NULL, sizeof (wm_gpu_dense_t), wm_gpu_densefma_thread },
    { NULL, NULL, sizeof (wm_gpu_dense_t), wm_gpu_densewide_thread },
    { NULL, NULL, sizeof (wm_gpu_dense_t), wm_gpu_densewidesplit_thread },
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
    float *shared =
        aligned_alloc (FAKE_ALIGN, (op->launch.shared_bytes / FAKE_ALIGN + 2) * FAKE_ALIGN);
    assert (shared);
    uint32_t from = (uint32_t) (wm_seed_next (&self->seed) % n);
    memset (shared, 0xff, op->launch.shared_bytes + FAKE_ALIGN);
    wm_gpu_fake_count_for (op->launch.kernel);
    for (uint32_t i = 0; i < n; i++)
        run_block (self, op, (i + from) % n, shared);
    if (wm_gpu_fake.misaligned)
        self->sticky = "cudaErrorMisalignedAddress";
    const char *behind = (const char *) shared + op->launch.shared_bytes;
    for (uint32_t i = 0; i < FAKE_ALIGN; i++)
        wm_gpu_fake.broken_guards += behind[i] != (char) 0xff;
    free (shared);
    wm_gpu_fake.launches++;
    if (op->launch.kernel >= WM_GPU_DENSE &&
        ++wm_gpu_fake.dense_launches == wm_gpu_fake.flip_launch)
        ((uint32_t *) op->args.dense.sum)[5] ^= 1u << 27;
}

/* Counts what a launch does; Dense-1, which would take hours, gives zeros.  */
static void run_counted (fake_t *self, const operation_t *op)
{
    const wm_gpu_kernel_t kernel = op->launch.kernel;
    const uint32_t before = kernel == WM_GPU_ACTIVE ? *op->args.active.used : 0;
    if (kernel >= WM_GPU_DENSE) {
        const wm_gpu_dense_t *args = &op->args.dense;
        memset (args->sum, 0,
                (size_t) op->launch.blocks / args->bands * wm_gpu_fake_bands (args, kernel) *
                    args->tile * WM_GPU_SUMS * sizeof (float));
    } else
        run_kernel (self, op);
    wm_gpu_fake_count (&op->launch, &op->args, before);
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
        wm_gpu_fake.copied_in += (double) op->bytes;
        memcpy (op->to, op->from[0], op->bytes);
        break;
    case COPY_OUT:
        memcpy (op->to, op->from[0], op->bytes);
        break;
    case LAUNCH:
        if (wm_gpu_fake.counts)
            run_counted (self, op);
        else
            run_kernel (self, op);
        break;
    case CONV: {
        const struct wm_conv_plan_t *plan = op->plan;
        wm_gpu_fake_conv (&plan->conv, plan->bad, op->from[0], op->from[1], op->from[2], op->to);
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
    fake_memory_open (&self->memory, true);
    carry_out (self, stream, mark);
    fake_memory_open (&self->memory, false);
    return self->sticky ? wm_gpu_text ("%s: %s", name, self->sticky) : NULL;
}

/* Carries out some operations of a random stream, as a GPU does while the host does something
   else.  */
static void stir (fake_t *self)
{
    const uint64_t z = wm_seed_next (&wm_gpu_fake.restless);
    const uint32_t stream = (uint32_t) (z % STREAMS_MAX);
    const stream_t *s = &self->stream[stream];
    const uint32_t left = s->base + s->n - s->done;
    if (stream < self->n_stream && left > 0 && s != self->keeping && !self->sticky)
        wait_for (self, stream, s->done + (uint32_t) (z >> 32) % (left + 1), "meanwhile");
}

/* Where the operation touches memory: what of it another stream uses must be ordered.  */
static void use (fake_t *self, uint32_t stream, const void *p, bool writes)
{
    fake_region_t *r = fake_memory_find (&self->memory, p);
    if (r && !fake_order_use (&self->order, stream, &r->use, writes) && !self->sticky)
        self->sticky = writes ? "a write that nothing orders behind another stream's work"
                              : "a read that nothing orders behind another stream's write";
}

/* Orders the operation, which is complete; one that is kept for a graph is ordered when it
   runs.  */
static wm_gpu_text_t ordered (fake_t *self, stream_t *s, const operation_t *op)
{
    const uint32_t stream = (uint32_t) (s - self->stream);
    if (self->keeping == s)
        return NULL;
    fake_order_begin (&self->order, stream);
    for (int i = 0; i < 3; i++)
        if (op->from[i])
            use (self, stream, op->from[i], false);
    if (op->to)
        use (self, stream, op->to, true);
    for (size_t at = 0; op->kind == LAUNCH && at < kernels[op->launch.kernel].args_bytes;
         at += sizeof (void *)) {
        const void *p;
        memcpy (&p, (const char *) &op->args + at, sizeof p);
        use (self, stream, p, fake_order_writes (op->launch.kernel, at));
    }
    return self->sticky ? wm_gpu_text ("order: %s", self->sticky) : NULL;
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
    wm_gpu_fake.broken_guards += fake_memory_clear (&self->memory);
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
                         .wide = !wm_gpu_fake.turing,
                         .major = wm_gpu_fake.turing ? 7 : 9,
                         .minor = wm_gpu_fake.turing ? 5 : 0,
                         .n_sm = 1,
                         .free_bytes = wm_gpu_fake.free_bytes ? wm_gpu_fake.free_bytes : FREE_BYTES,
                         .shared_bytes = shared_max (),
                         .libraries = "0.0" };
    return NULL;
}

static wm_gpu_text_t fake_open_cudnn (void *gpu, wm_gpu_info_t *info)
{
    BEGIN ("open_cudnn");
    if (wm_gpu_fake.no_libraries)
        return "open_cudnn: libcudnn.so.9 is not here";
    if (self->has_cudnn)
        return "cuDNN is opened twice";
    self->has_cudnn = true;
    strcat (info->libraries, "-0.0.0");
    return NULL;
}

static wm_gpu_text_t fake_device_new (void *gpu, void **d_p, size_t bytes)
{
    BEGIN ("device_new");
    *d_p = fake_memory_new (&self->memory, bytes, true);
    return NULL;
}

static wm_gpu_text_t fake_pinned_new (void *gpu, void **h_p, size_t bytes)
{
    BEGIN ("pinned_new");
    *h_p = fake_memory_new (&self->memory, bytes, false);
    return NULL;
}

static wm_gpu_text_t fake_pin (void *gpu, const void *h, size_t bytes)
{
    BEGIN ("pin");
    if (wm_gpu_fake.pins_nothing)
        return "pin: cudaErrorNotSupported (planned by a test)";
    self->memory.lent = h, self->memory.lent_bytes = bytes;
    return NULL;
}

static wm_gpu_text_t fake_stream_new (void *gpu, void **stream, bool first)
{
    BEGIN ("stream_new");
    assert (self->n_stream < STREAMS_MAX);
    (void) first;
    *stream = &self->stream[self->n_stream++];
    return NULL;
}

static wm_gpu_text_t fake_stream_wait (void *gpu, void *stream, void *event)
{
    BEGIN ("stream_wait");
    const event_t *e = event;
    queue (self, stream, WAIT)->event = *e;
    fake_order_join (&self->order.stream[(stream_t *) stream - self->stream], &e->clock);
    return NULL;
}

static wm_gpu_text_t fake_stream_sync (void *gpu, void *stream)
{
    BEGIN ("stream_sync");
    stream_t *s = stream;
    fake_order_join (&self->order.host, &self->order.stream[s - self->stream]);
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
    const uint32_t at = (uint32_t) (s - self->stream);
    *(event_t *) event = (event_t){ at, s->base + s->n, true, self->order.stream[at] };
    return NULL;
}

static wm_gpu_text_t fake_event_sync (void *gpu, void *event)
{
    BEGIN ("event_sync");
    const event_t *e = event;
    fake_order_join (&self->order.host, &e->clock);
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
    const bool lent = fake_memory_is_lent (&self->memory, h_from, bytes);
    if (!fake_memory_holds (&self->memory, d_to, bytes, true) ||
        !(lent || fake_memory_holds (&self->memory, h_from, bytes, false)))
        return "copy_in: cudaErrorInvalidValue";
    wm_gpu_fake.lent_bytes += lent ? bytes : 0;
    operation_t *op = queue (self, stream, COPY_IN);
    op->to = d_to, op->from[0] = h_from, op->bytes = bytes;
    return ordered (self, stream, op);
}

static wm_gpu_text_t fake_copy_out (void *gpu, void *h_to, const void *d_from, size_t bytes,
                                    void *stream)
{
    BEGIN ("copy_out");
    if (!fake_memory_holds (&self->memory, h_to, bytes, false) ||
        !fake_memory_holds (&self->memory, d_from, bytes, true))
        return "copy_out: cudaErrorInvalidValue";
    memset (h_to, 0xff, bytes);
    operation_t *op = queue (self, stream, COPY_OUT);
    op->to = h_to, op->from[0] = d_from, op->bytes = bytes;
    return ordered (self, stream, op);
}

static wm_gpu_text_t fake_launch (void *gpu, const wm_gpu_launch_t *launch, void *stream)
{
    BEGIN ("launch");
    if (launch->blocks == 0 || launch->threads == 0 || launch->threads > 1024 ||
        (!kernels[launch->kernel].thread && (launch->threads & (launch->threads - 1))) ||
        launch->shared_bytes > (launch->kernel < WM_GPU_DENSE ? 48 << 10 : shared_max ()))
        return "launch: cudaErrorInvalidConfiguration";
    operation_t *op = queue (self, stream, LAUNCH);
    op->launch = *launch;
    memcpy (&op->args, launch->args, kernels[launch->kernel].args_bytes);
    return ordered (self, stream, op);
}

static wm_gpu_text_t fake_graph_begin (void *gpu, void *stream)
{
    BEGIN ("graph_begin");
    stream_t *s = stream;
    if (self->keeping || s->done != s->base + s->n)
        return "graph_begin: cudaErrorStreamCaptureUnsupported";
    s->base += s->n, s->n = 0; /* as queue would, which must not move what is kept */
    self->keeping = s, self->kept_from = s->n;
    return NULL;
}

static wm_gpu_text_t fake_graph_end (void *gpu, void *stream, void **graph)
{
    BEGIN ("graph_end");
    stream_t *s = stream;
    if (self->keeping != s)
        return "graph_end: cudaErrorIllegalState";
    if (self->spoilt) { /* nothing of it is kept or carried out */
        s->n = self->kept_from;
        self->keeping = NULL, self->spoilt = false;
        return "graph_end: cudaErrorStreamCaptureInvalidated";
    }
    assert (self->n_graph < GRAPHS_MAX);
    graph_t *g = &self->graph[self->n_graph++];
    *g = (graph_t){ .n = wm_gpu_fake.forgets ? 0 : s->n - self->kept_from };
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
        ordered (self, stream, op);
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

static wm_gpu_text_t fake_anyconv_new (void *gpu, const wm_gpu_anyconv_t *conv, uint32_t candidate,
                                       wm_conv_plan_t **plan, wm_gpu_choice_t *choice)
{
    BEGIN ("anyconv_new");
    if (!self->has_cudnn)
        return "anyconv_new: cuDNN is not open";
    const bool none = wm_gpu_fake.no_halves && conv->precision == WM_GPU_F16;
    *plan = is_there (candidate, choice) && !none ? calloc (1, sizeof **plan) : NULL;
    if (candidate < wm_gpu_fake.greedy)
        choice->workspace_bytes = 1u << 30;
    if (*plan)
        **plan = (wm_conv_plan_t){ *conv, candidate < wm_gpu_fake.bad_convs };
    return NULL;
}

/* Checks the alignment that cuDNN needs, and that no graph is being recorded.  */
static const char *refuse_pointers (fake_t *self, const void *const pointer[4],
                                    const void *d_workspace)
{
    for (int i = 0; i < 4; i++)
        if ((uintptr_t) pointer[i] % 16)
            return "memory that is not aligned to 16 bytes";
    const bool keeps = self->keeping && !wm_gpu_fake.captures;
    self->spoilt = self->spoilt || keeps;
    return keeps                                                        ? "within a graph"
           : fake_memory_holds (&self->memory, d_workspace, 1000, true) ? NULL
                                                                        : "no workspace";
}

static wm_gpu_text_t fake_conv_run (void *gpu, wm_conv_plan_t *plan, const void *d_x,
                                    const void *d_weight, const void *d_bias, void *d_y,
                                    void *d_workspace, void *stream)
{
    BEGIN ("conv_run");
    const char *why =
        refuse_pointers (self, (const void *[]){ d_x, d_weight, d_bias, d_y }, d_workspace);
    if (why)
        return wm_gpu_text ("conv_run: %s", why);
    operation_t *op = queue (self, stream, CONV);
    op->plan = plan;
    op->from[0] = d_x, op->from[1] = d_weight, op->from[2] = d_bias, op->to = d_y;
    return ordered (self, stream, op);
}

static void fake_conv_destroy (void *gpu, wm_conv_plan_t **plan_p)
{
    (void) gpu;
    free (*plan_p);
    *plan_p = NULL;
}

const wm_gpu_api_t wm_gpu_stand_in = {
    .make = fake_make,
    .destroy = fake_destroy,
    .open = fake_open,
    .open_cudnn = fake_open_cudnn,
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
    .conv_run = fake_conv_run,
    .conv_destroy = fake_conv_destroy,
    .anyconv_new = fake_anyconv_new,
};
