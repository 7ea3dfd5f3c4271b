/* test_gpuworker_memory.c - memory of batches: nothing is allocated for one after the first ones,
   and there are as many slots as the engine fills.

   The real road of a batch: decoded by the worker into shared memory, scored by an engine process,
   answered. malloc and its like, and mmap, are this program's own and count, here and in the engine
   process, which is this program again; so libraries' calls count too. OpenVINO allocates for every
   inference: that is measured and reported.  */
#include "gpuworker/engine/wm_engine_process.h"
#include "gpuworker/engine/wm_scorer.h"
#include "gpuworker/engine/wm_slots.h"
#include "kernels/import/wm_import.h"
#include "kernels/model/wm_model.h"
#include "kernels/patch/wm_spec.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the counter ----------------------------------------------------------------------------- */

static _Atomic uint64_t own_count, *counter = &own_count;

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
enum { COUNTS = 1 };
void *__libc_malloc (size_t), *__libc_calloc (size_t, size_t), *__libc_realloc (void *, size_t),
    *__libc_memalign (size_t, size_t);

static size_t counted (size_t bytes)
{
    atomic_fetch_add (counter, 1);
    return bytes;
}

void *malloc (size_t bytes)
{
    return __libc_malloc (counted (bytes));
}

void *calloc (size_t count, size_t each)
{
    return __libc_calloc (counted (count), each);
}

void *realloc (void *old, size_t bytes)
{
    return __libc_realloc (old, counted (bytes));
}

void *aligned_alloc (size_t align, size_t bytes)
{
    return __libc_memalign (align, counted (bytes));
}

void *memalign (size_t align, size_t bytes)
{
    return __libc_memalign (align, counted (bytes));
}

int posix_memalign (void **to, size_t align, size_t bytes)
{
    void *p = __libc_memalign (align, counted (bytes));
    if (p)
        *to = p;
    return p ? 0 : ENOMEM;
}

void *mmap (void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return (void *) syscall (SYS_mmap, at, counted (bytes), prot, flags, fd, offset);
}
#else
enum { COUNTS = 0 }; /* the sanitizer has these functions itself */
#endif

/* ---- a model and batches --------------------------------------------------------------------- */

enum { WIRES = 12, BINS = 10, HITS = 300, PLANE_WIRES = 40, WARM = 3, ROUNDS = 10 };
enum { PLANE, TICKS, PATCHES, KINDS };

static char folder[] = "/tmp/wm-memory-XXXXXX", onnx[64], wmm[64], count_path[64];
static wm_pins_t pins[KINDS];
static uint8_t *frame[KINDS];
static size_t frame_bytes[KINDS];
static _Atomic uint64_t *engine_count;

static _Atomic uint64_t *map_count (const char *path)
{
    int fd = open (path, O_RDWR | O_CREAT, 0600);
    void *p = fd < 0 || ftruncate (fd, 4096)
                  ? MAP_FAILED
                  : mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close (fd);
    return p == MAP_FAILED ? NULL : p;
}

static wm_batch_t batch_of (int kind)
{
    const uint32_t n_col = kind == TICKS ? 600 : 100, length = kind == TICKS ? 30 : 6;
    wm_batch_t batch = { .kind = kind == TICKS     ? WM_BATCH_TICKS
                                 : kind == PATCHES ? WM_BATCH_PATCHES
                                                   : WM_BATCH_BINS,
                         .n_hit = HITS };
    if (kind == PATCHES)
        batch.patch_values = WIRES * BINS;
    else
        batch.n_wire = batch.n_run = PLANE_WIRES, batch.n_col = n_col,
        batch.n_value = PLANE_WIRES * length;
    assert_int_equal (wm_batch_reserve (&batch, NULL), WM_OK);
    for (uint32_t r = 0; r < batch.n_run; r++)
        batch.run_wire[r] = r, batch.run_first[r] = r * 2, batch.run_length[r] = length;
    for (uint32_t i = 0; i < batch.n_value; i++)
        batch.value[i] = (float) (i % 7) - 2;
    for (uint32_t i = 0; i < HITS * batch.patch_values; i++)
        batch.patch[i] = i % 3 ? 0 : (float) (i % 5);
    for (uint32_t i = 0; i < HITS && kind != PATCHES; i++) {
        batch.hit_wire[i] = i * PLANE_WIRES / HITS;
        batch.hit_col[i] = (int32_t) (i % 8 * n_col / 8);
    }
    return batch;
}

static int set_up (void **state)
{
    char why[480], text[64];
    snprintf (onnx, sizeof onnx, "%s/m.onnx", folder);
    snprintf (wmm, sizeof wmm, "%s/m.wmm", folder);
    assert_int_equal (wm_model_new_emtrkmichel (7, WIRES, BINS, onnx, NULL), WM_OK);
    assert_int_equal (wm_import (onnx, NULL, wmm, why, NULL), WM_OK);
    wm_model_t *model = wm_model_open (wmm, NULL);
    wm_coder_t *coder = wm_coder_new ();
    for (int kind = 0; kind < KINDS; kind++) {
        wm_spec_t spec;
        wm_pins_t *p = &pins[kind];
        snprintf (text, sizeof text, "patch: [%d, %d]\nview: %s", WIRES, BINS,
                  kind == TICKS ? "own" : "full");
        assert_int_equal (wm_spec_parse (&spec, text, strlen (text), "test", NULL), WM_OK);
        wm_spec_label (&spec, model);
        wm_spec_print (&spec, p->spec, sizeof p->spec);
        snprintf (p->model, sizeof p->model, "%s", wm_model_sha256 (model));
        p->n_output = wm_model_n_output (model), p->n_value = wm_model_n_value (model);
        wm_batch_t batch = batch_of (kind);
        const size_t most = wm_batch_encode_bound (&batch);
        frame[kind] = malloc (most);
        assert_int_equal (
            wm_batch_encode (&batch, coder, frame[kind], most, &frame_bytes[kind], NULL), WM_OK);
        wm_batch_clear (&batch);
    }
    wm_coder_destroy (&coder);
    wm_model_destroy (&model);
    return 0;
}

static int tear_down (void **state)
{
    char command[80];
    for (int kind = 0; kind < KINDS; kind++)
        free (frame[kind]);
    snprintf (command, sizeof command, "rm -r %s", folder); /* and the packed weights beside */
    return system (command);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static wm_scorer_event_t wait_for (wm_scorer_t *scorer, wm_scorer_event_t wanted, uint64_t *slot)
{
    wm_error_t error = { 0 };
    for (int i = 0; i < 6000; i++) {
        wm_scorer_event_t event = wm_scorer_poll (scorer, slot, &error);
        if (event == wanted)
            return event;
        if (event != WM_SCORER_NOTHING)
            fail_msg ("event %d: %s", (int) event, error.text);
        poll (&(struct pollfd){ .fd = wm_scorer_fd (scorer), .events = POLLIN }, 1, 10);
    }
    fail_msg ("nothing in 60 s");
    return WM_SCORER_HOPELESS;
}

/* Allocations a batch, on average, by worker and engine process.  */
static void measure (const char *engine, const char *precision, int kind, double *worker,
                     double *process)
{
    wm_error_t error = { 0 };
    wm_coder_t *coder = wm_coder_new ();
    snprintf (pins[kind].precision, sizeof pins[kind].precision, "%s", precision);
    const wm_scorer_config_t config = {
        .engine = engine, .threads = 2, .pins = &pins[kind], .model_path = wmm
    };
    static uint8_t status[HITS];
    static float scores[HITS * 4];
    uint64_t slot;
    uint64_t own = 0, theirs = 0;
    wm_scorer_t *scorer = wm_scorer_new (&config, &error);
    assert_non_null (scorer);
    wait_for (scorer, WM_SCORER_READY, &slot);
    for (unsigned round = 0; round < WARM + ROUNDS; round++) {
        double seconds;
        if (round == WARM)
            own = atomic_load (counter), theirs = atomic_load (engine_count);
        slot = round % wm_scorer_slots (scorer);
        wm_batch_t *batch = wm_scorer_batch (scorer, (unsigned) slot);
        assert_int_equal (wm_batch_decode (batch, coder, frame[kind], frame_bytes[kind], &error),
                          WM_OK);
        wm_scorer_submit (scorer, (unsigned) slot, 0, HITS, 1);
        wait_for (scorer, WM_SCORER_SCORED, &slot);
        bool again;
        assert_int_equal (
            wm_scorer_answer (scorer, (unsigned) slot, status, scores, &seconds, &again, &error),
            WM_OK);
    }
    *worker = (double) (atomic_load (counter) - own) / ROUNDS;
    *process = (double) (atomic_load (engine_count) - theirs) / ROUNDS;
    wm_scorer_destroy (&scorer);
    wm_coder_destroy (&coder);
}

static void no_batch_allocates (void **state)
{
    static const struct {
        const char *engine, *precision;
        double most; /* a batch, of the engine process */
    } engines[] = { { "sparse", "fp32", 0 },
                    { "sparse", "fast", 0 },
                    { "reference", "fp32", 0 },
                    { "openvino", "fp32", 1e9 },
                    { "openvino", "fast", 1e9 } };
    static const char *const names[] = { "a plane in bins", "a plane in ticks", "patches" };
    if (!COUNTS)
        skip ();
    for (size_t e = 0; e < sizeof engines / sizeof *engines; e++)
        for (int kind = 0; kind < KINDS; kind++) {
            double worker, process;
            measure (engines[e].engine, engines[e].precision, kind, &worker, &process);
            print_message ("%s/%s, %s: %.1f allocations a batch, %.1f by the worker\n",
                           engines[e].engine, engines[e].precision, names[kind], process, worker);
            assert_true (process <= engines[e].most);
            assert_true (worker == 0);
        }
}

/* "auto" becomes an engine that gathers batches here, and needs as many slots as that engine asked
   for by its name.  */
static void auto_has_the_slots_of_its_engine (void **state)
{
    static const char *const names[] = { "auto", "sparse", "reference" };
    unsigned slots[3];
    uint64_t slot;
    for (int i = 0; i < 3; i++) {
        wm_error_t error = { 0 };
        const wm_scorer_config_t config = {
            .engine = names[i], .threads = 1, .pins = &pins[0], .model_path = wmm
        };
        snprintf (pins[0].precision, sizeof pins[0].precision, "fp32");
        wm_scorer_t *scorer = wm_scorer_new (&config, &error);
        assert_non_null (scorer);
        wait_for (scorer, WM_SCORER_READY, &slot);
        slots[i] = wm_scorer_slots (scorer);
        wm_scorer_destroy (&scorer);
    }
    assert_int_equal (slots[1], WM_SLOTS_GATHER);
    assert_int_equal (slots[0], slots[1]);
    assert_int_equal (slots[2], WM_SLOTS_ONE);
}

/* That the counters count: here, and in the engine process while it opens.  */
static void allocations_are_counted (void **state)
{
    if (!COUNTS)
        skip ();
    const uint64_t before = atomic_load (counter);
    void *volatile made[] = { malloc (1), calloc (1, 1), realloc (NULL, 1),
                              aligned_alloc (64, 64) };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free (made[i]);
    assert_true (atomic_load (counter) >= before + 4);
    assert_true (atomic_load (engine_count) > 10);
}

int main (int argc, char **argv)
{
    if (argc > 2 && !strcmp (argv[1], WM_ENGINE_MODE)) {
        const char *path = getenv ("WM_TEST_COUNT");
        _Atomic uint64_t *shared = path ? map_count (path) : NULL;
        if (!shared)
            return 1;
        counter = shared;
        return wm_engine_process_main (argv[2]);
    }
    if (!mkdtemp (folder))
        return 1;
    snprintf (count_path, sizeof count_path, "%s/count", folder);
    setenv ("WM_TEST_COUNT", count_path, 1);
    engine_count = map_count (count_path);
    if (!engine_count)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (no_batch_allocates),
        cmocka_unit_test (auto_has_the_slots_of_its_engine),
        cmocka_unit_test (allocations_are_counted),
    };
    return cmocka_run_group_tests_name ("gpuworker/memory", tests, set_up, tear_down);
}
