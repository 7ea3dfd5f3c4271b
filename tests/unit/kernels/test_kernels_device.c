/* test_kernels_device.c - engines through wm_device.h agree, and keep the rules written there.

   A small seeded network stands for the real one. OpenVINO is tested where wm_openvino.so is built
   (`make unit` builds it first); a test that cannot find it fails.  */
#include "kernels/import/wm_import.h"
#include "kernels/patch/wm_image.h"
#include "kernels/wm_device.h"
#include "tests/proof.h"
#include "tests/unit/unit.h"
#include "tests/unit/without_engines.h"

#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WIRES 12u
#define BINS 10u
#define CELLS (WIRES * BINS)
#define HITS 300u
#define OUTPUTS 4u

static const char *const engines[] = { "reference", "sparse", "openvino" };
enum { ENGINES = 3 };

static char folder[] = "/tmp/wm_device_XXXXXX";
static wm_model_t *model, *general;
static wm_spec_t full, own;
static uint64_t seed = 1;

static uint32_t draw (uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (seed >> 33) % below;
}

/* ---- the model ------------------------------------------------------------------------------- */

static char *in_folder (const char *name)
{
    static char path[4][128];
    static int next;
    char *p = path[next++ % 4];
    snprintf (p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* The same network as a general model: the original bytes, no known answers.  */
static void make_general (void)
{
    static char bytes[4 << 20];
    FILE *file = fopen (in_folder ("m.onnx"), "rb");
    assert_non_null (file);
    size_t size = fread (bytes, 1, sizeof bytes, file);
    fclose (file);
    assert_true (size > 0 && size < sizeof bytes);
    wm_port_t outputs[WM_MODEL_PORTS_MAX];
    for (uint32_t i = 0; i < wm_model_n_output_port (model); i++)
        outputs[i] = *wm_model_output (model, i);
    wm_model_parts_t parts = {
        .kind = WM_MODEL_GENERAL,
        .why = "general for this test",
        .n_input = 1,
        .input = wm_model_input (model, 0),
        .n_output = wm_model_n_output_port (model),
        .output = outputs,
        .original = bytes,
        .original_bytes = size,
    };
    assert_int_equal (wm_model_write (in_folder ("g.wmm"), &parts, NULL), WM_OK);
    assert_non_null (general = wm_model_open (in_folder ("g.wmm"), NULL));
}

static int set_up (void **state)
{
    char why[480];
    char text[200];
    assert_non_null (mkdtemp (folder));
    assert_int_equal (wm_model_new_emtrkmichel (7, WIRES, BINS, in_folder ("m.onnx"), NULL), WM_OK);
    assert_int_equal (wm_import (in_folder ("m.onnx"), NULL, in_folder ("m.wmm"), why, NULL),
                      WM_OK);
    assert_non_null (model = wm_model_open (in_folder ("m.wmm"), NULL));
    assert_int_equal (wm_model_n_output (model), OUTPUTS);
    snprintf (text, sizeof text, "patch: [%u, %u]", WIRES, BINS);
    assert_int_equal (wm_spec_parse (&full, text, strlen (text), "full", NULL), WM_OK);
    own = full;
    own.view = WM_OWN_VIEW;
    make_general ();
    return 0;
}

static int tear_down (void **state)
{
    wm_model_destroy (&model);
    wm_model_destroy (&general);
    unlink (in_folder ("m.onnx"));
    unlink (in_folder ("m.wmm"));
    unlink (in_folder ("g.wmm"));
    unlink (in_folder ("lie.wmm"));
    return rmdir (folder);
}

static wm_device_t *open_device (const wm_model_t *m, const wm_spec_t *spec,
                                 const wm_device_config_t *config)
{
    wm_error_t error = { 0 };
    wm_device_t *device = wm_device_new (m, spec, config, &error);
    if (!device)
        fail_msg ("%s: %s", config->engine, error.text);
    return device;
}

static wm_device_t *device_of (const wm_model_t *m, const wm_spec_t *spec, const char *engine,
                               int threads)
{
    const wm_device_config_t config = {
        .engine = engine, .precision = "fp32", .threads = threads, .pin = 0
    };
    return open_device (m, spec, &config);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A plane with a few runs a wire, hits in (wire, column) order, some in the same cell. */
static void make_plane (wm_batch_t *batch, const wm_spec_t *spec)
{
    enum { PLANE_WIRES = 40, RUNS = 3 };
    bool ticks = spec->view == WM_OWN_VIEW;
    uint32_t n_col = ticks ? 600 : 100, length = ticks ? 30 : 6;
    *batch = (wm_batch_t){
        .kind = ticks ? WM_BATCH_TICKS : WM_BATCH_BINS,
        .n_hit = HITS,
        .n_wire = PLANE_WIRES,
        .n_col = n_col,
        .n_run = PLANE_WIRES * RUNS,
        .n_value = PLANE_WIRES * RUNS * length,
    };
    assert_int_equal (wm_batch_reserve (batch, NULL), WM_OK);
    for (uint32_t r = 0; r < batch->n_run; r++) {
        batch->run_wire[r] = r / RUNS;
        batch->run_first[r] = r % RUNS * (n_col / RUNS) + draw (n_col / RUNS - length);
        batch->run_length[r] = length;
    }
    for (uint32_t i = 0; i < batch->n_value; i++)
        batch->value[i] = (float) draw (1000) / 100 - 2;
    for (uint32_t i = 0; i < HITS; i++) {
        batch->hit_wire[i] = i * PLANE_WIRES / HITS;
        bool same = i && batch->hit_wire[i] == batch->hit_wire[i - 1];
        int32_t before = same ? batch->hit_col[i - 1] : -5;
        batch->hit_col[i] = before + (int32_t) draw (ticks ? 100 : 20) * (draw (4) != 0);
    }
}

/* The hits first .. first+count-1 of a plane as a batch of their own.  */
static wm_batch_t slice (const wm_batch_t *batch, uint32_t first, uint32_t count)
{
    wm_batch_t part = *batch;
    part.n_hit = count;
    part.hit_wire += first;
    part.hit_col += first;
    return part;
}

static void score (wm_device_t *device, const wm_batch_t *batch, float *scores)
{
    uint8_t status[HITS];
    wm_error_t error = { 0 };
    memset (status, 99, sizeof status);
    if (wm_device_score (device, batch, status, scores, &error))
        fail_msg ("%s: %s", wm_device_signature (device), error.text);
    for (uint32_t i = 0; i < batch->n_hit; i++)
        assert_int_equal (status[i], WM_HIT_SCORED);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void engines_agree_and_keep_their_bits (void **state)
{
    for (int view = 0; view < 2; view++) {
        const wm_spec_t *spec = view ? &own : &full;
        wm_batch_t plane;
        make_plane (&plane, spec);
        static float judge[HITS * OUTPUTS], scores[HITS * OUTPUTS], again[HITS * OUTPUTS];
        for (int e = 0; e < ENGINES; e++) {
            wm_device_t *device = device_of (model, spec, engines[e], 1);
            score (device, &plane, scores);
            assert_int_equal (wm_device_progress (device), HITS);
            if (e == 0)
                memcpy (judge, scores, sizeof judge);
            for (uint32_t i = 0; i < HITS * OUTPUTS; i++)
                if (!(fabsf (scores[i] - judge[i]) <= 1e-5f))
                    fail_msg ("%s: hit %u output %u: %g is not %g", engines[e], i / 4, i % 4,
                              (double) scores[i], (double) judge[i]);
            for (uint32_t i = 0; i < HITS;) { /* other groups, another order of groups */
                uint32_t n = 1 + draw (60);
                if (n > HITS - i)
                    n = HITS - i;
                wm_batch_t part = slice (&plane, i, n);
                score (device, &part, again + i * OUTPUTS);
                i += n;
            }
            assert_memory_equal (scores, again, sizeof scores);
            for (uint32_t i = 1; i < HITS; i++)
                if (plane.hit_wire[i] == plane.hit_wire[i - 1] &&
                    plane.hit_col[i] == plane.hit_col[i - 1])
                    assert_memory_equal (scores + i * OUTPUTS, scores + (i - 1) * OUTPUTS,
                                         OUTPUTS * sizeof *scores);
            wm_device_destroy (&device);
            device = device_of (model, spec, engines[e], 2); /* threads never change bits */
            score (device, &plane, again);
            assert_memory_equal (scores, again, sizeof scores);
            wm_device_destroy (&device);
        }
        wm_batch_clear (&plane);
    }
}

/* Nothing but its speed would say that OpenVINO computes fast in 32 bits.  */
static void openvino_takes_16_bits_for_fast (void **state)
{
    static float scores[2][HITS * OUTPUTS];
    wm_batch_t plane;
#if defined __x86_64__
    if (!__builtin_cpu_supports ("avx512bf16"))
        skip ();
#else
    skip ();
#endif
    make_plane (&plane, &full);
    for (int fast = 0; fast < 2; fast++) {
        const wm_device_config_t config = {
            .engine = "openvino", .precision = fast ? "fast" : "fp32", .threads = 1, .pin = 0
        };
        wm_device_t *device = open_device (model, &full, &config);
        score (device, &plane, scores[fast]);
        wm_device_destroy (&device);
    }
    float most = 0;
    for (uint32_t i = 0; i < HITS * OUTPUTS; i++)
        most = fmaxf (most, fabsf (scores[1][i] - scores[0][i]));
    assert_true (most > 1e-5f && most < 2e-2f);
    wm_batch_clear (&plane);
}

static void patches_score_like_the_plane_they_are_cut_from (void **state)
{
    static float scores[HITS * OUTPUTS], again[HITS * OUTPUTS];
    wm_batch_t plane, patches = { .kind = WM_BATCH_PATCHES, .n_hit = HITS, .patch_values = CELLS };
    make_plane (&plane, &full);
    assert_int_equal (wm_batch_reserve (&patches, NULL), WM_OK);
    for (uint32_t i = 0; i < HITS; i++)
        wm_image_patch_reference (&full, &plane, i, patches.patch + i * CELLS);
    for (int e = 0; e < ENGINES; e++) {
        wm_device_t *device = device_of (model, &full, engines[e], 2);
        score (device, &plane, scores);
        score (device, &patches, again);
        for (uint32_t i = 0; i < HITS * OUTPUTS; i++)
            assert_true (fabsf (scores[i] - again[i]) <= 1e-5f);
        wm_device_destroy (&device);
    }
    wm_batch_clear (&plane);
    wm_batch_clear (&patches);
}

/* A batch of another's hits, in any order, some of them several times; from: which. Few, or as many
   as are more than one of OpenVINO's blocks.  */
static wm_batch_t some_of (const wm_batch_t *all, uint32_t from[HITS], uint32_t wire[HITS],
                           int32_t col[HITS], float *patch)
{
    static const uint32_t most[] = { 6, 6, 40, HITS };
    wm_batch_t part = *all;
    part.n_hit = 1 + draw (most[draw (4)]);
    part.hit_wire = wire, part.hit_col = col, part.patch = patch;
    for (uint32_t i = 0; i < part.n_hit; i++) {
        from[i] = draw (HITS);
        if (all->kind == WM_BATCH_PATCHES)
            memcpy (patch + i * CELLS, all->patch + from[i] * CELLS, CELLS * sizeof *patch);
        else
            wire[i] = all->hit_wire[from[i]], col[i] = all->hit_col[from[i]];
    }
    return part;
}

/* An engine on one kind of batch: groups at random, by 1 to 4 threads.  */
static uint32_t regroup (const wm_model_t *m, const wm_spec_t *spec, const char *engine,
                         const char *precision, const wm_batch_t *all, uint32_t rounds)
{
    static float scores[HITS * OUTPUTS], part_scores[HITS * OUTPUTS], patch[HITS * CELLS];
    const size_t n = wm_model_n_output (m);
    assert_true (n <= OUTPUTS);
    wm_device_t *device[4];
    /* Which kernel of 16 bits is taken is measured. A sanitizer slows one more than another, and a
       loaded machine takes now this one, now that: bits are those of a signature.  */
    for (int t = 0, tries = 0; t < 4; t++) {
        const wm_device_config_t config = {
            .engine = engine, .precision = precision, .threads = t + 1, .pin = 0
        };
        device[t] = open_device (m, spec, &config);
        if (strcmp (wm_device_signature (device[t]), wm_device_signature (device[0])) == 0)
            continue;
        print_message ("%s, now %s\n", wm_device_signature (device[0]),
                       wm_device_signature (device[t]));
        wm_device_destroy (&device[t--]);
        assert_true (++tries < 100);
    }
    score (device[0], all, scores);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t from[HITS], wire[HITS];
        int32_t col[HITS];
        const wm_batch_t part = some_of (all, from, wire, col, patch);
        score (device[round % 4], &part, part_scores);
        for (uint32_t i = 0; i < part.n_hit; i++)
            if (memcmp (part_scores + i * n, scores + from[i] * n, n * sizeof *scores))
                fail_msg ("%s %s: hit %u has other bits in a group of %u, %u threads", engine,
                          precision, from[i], part.n_hit, round % 4 + 1);
    }
    for (int t = 0; t < 4; t++)
        wm_device_destroy (&device[t]);
    return rounds;
}

/* On every engine in each precision, of planes in both views and of patches, of the family and of
   another model.  */
static void any_grouping_keeps_the_bits (void **state)
{
    const uint32_t rounds = (uint32_t) proof_size (150, 1500, 15000);
    uint32_t done = 0;
    wm_batch_t plane[2],
        patches = { .kind = WM_BATCH_PATCHES, .n_hit = HITS, .patch_values = CELLS };
    make_plane (&plane[0], &full);
    make_plane (&plane[1], &own);
    assert_int_equal (wm_batch_reserve (&patches, NULL), WM_OK);
    for (uint32_t i = 0; i < HITS; i++)
        wm_image_patch_reference (&full, &plane[0], i, patches.patch + i * CELLS);
    for (int fast = 0; fast < 2; fast++) {
        const char *precision = fast ? "fast" : "fp32";
        for (int e = fast; e < ENGINES; e++) { /* the reference has one precision */
            done += regroup (model, &full, engines[e], precision, &plane[0], rounds);
            done += regroup (model, &own, engines[e], precision, &plane[1], rounds);
            done += regroup (model, &full, engines[e], precision, &patches, rounds);
        }
        done += regroup (general, NULL, "openvino", precision, &patches, rounds);
    }
    print_message ("%u groupings\n", done);
    wm_batch_clear (&patches);
    wm_batch_clear (&plane[0]);
    wm_batch_clear (&plane[1]);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct {
    int thread, cpus, cpu; /* how many CPUs it may use, and the last of them */
    double ran_s;
} thread_t;

/* What this process's threads are, from /proc.  */
static size_t look_at_threads (thread_t *thread, size_t max)
{
    size_t n = 0;
    DIR *folder_of = opendir ("/proc/self/task");
    assert_non_null (folder_of);
    for (struct dirent *entry; n < max && (entry = readdir (folder_of));) {
        char path[300];
        cpu_set_t set;
        unsigned long long ran_ns = 0;
        snprintf (path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        FILE *file = *entry->d_name == '.' ? NULL : fopen (path, "r");
        thread_t one = { .thread = atoi (entry->d_name) };
        if (!file || fscanf (file, "%llu", &ran_ns) != 1 ||
            sched_getaffinity (one.thread, sizeof set, &set))
            one.thread = 0; /* it ended meanwhile */
        if (file)
            fclose (file);
        one.ran_s = 1e-9 * (double) ran_ns;
        for (size_t cpu = 0; one.thread && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET (cpu, &set))
                one.cpus++, one.cpu = (int) cpu;
        if (one.thread)
            thread[n++] = one;
    }
    closedir (folder_of);
    return n;
}

/* What a thread had used before.  */
static double ran_before (const thread_t *before, size_t n, int thread)
{
    for (size_t i = 0; i < n; i++)
        if (before[i].thread == thread)
            return before[i].ran_s;
    return 0;
}

/* Scores for a while; every thread that computed much of it may use as many CPUs as is said, and
   where that is one, no other has the same.  */
static void computes_on (const wm_spec_t *spec, const wm_batch_t *plane, int threads, int pin,
                         int cpus)
{
    enum { MAX = 256 };
    static thread_t before[MAX], after[MAX];
    static float scores[HITS * OUTPUTS];
    const wm_device_config_t config = {
        .engine = "openvino", .precision = "fp32", .threads = threads, .pin = pin
    };
    wm_device_t *device = open_device (general, spec, &config);
    const size_t n_before = look_at_threads (before, MAX);
    size_t n_after, computed = 0;
    double all_s = 0;
    int used[CPU_SETSIZE] = { 0 };
    for (int i = 0; i < 200; i++)
        score (device, plane, scores);
    n_after = look_at_threads (after, MAX);
    for (size_t i = 0; i < n_after; i++)
        all_s += after[i].ran_s -= ran_before (before, n_before, after[i].thread);
    for (size_t i = 0; i < n_after; i++) {
        if (after[i].thread == gettid () || after[i].ran_s < 0.25 * all_s / threads)
            continue; /* this thread cuts patches */
        computed++;
        assert_int_equal (after[i].cpus, cpus);
        assert_false (cpus == 1 && used[after[i].cpu]++);
    }
    assert_in_range (computed, 1, (size_t) threads);
    wm_device_destroy (&device);
}

/* OpenVINO's threads: each stays on a CPU of its own when it is told to, within the CPUs that this
   process may use, and no more compute than were asked for. An engine that pins must be the first
   of its process, as it is in a worker's.  */
static void openvino_computes_where_it_is_told (void **state)
{
    cpu_set_t all, one;
    wm_batch_t plane;
    assert_int_equal (sched_getaffinity (0, sizeof all, &all), 0);
    const int cpus = CPU_COUNT (&all) < 2 ? 1 : 2;
    make_plane (&plane, &full);
    computes_on (&full, &plane, cpus, 1, 1);
    computes_on (&full, &plane, 2, 0, CPU_COUNT (&all));
    CPU_ZERO (&one);
    for (size_t cpu = CPU_SETSIZE; cpu-- > 0 && !CPU_COUNT (&one);)
        if (CPU_ISSET (cpu, &all))
            CPU_SET (cpu, &one);
    assert_int_equal (sched_setaffinity (0, sizeof one, &one), 0); /* as under taskset */
    computes_on (&full, &plane, 1, 0, 1);
    computes_on (&full, &plane, 1, 1, 1);
    assert_int_equal (sched_setaffinity (0, sizeof all, &all), 0);
    wm_batch_clear (&plane);
}

/* Answers 3e38 times the sum of a patch. (A patch of huge pixels does not do: an overflow inside
   the real network is NaN, and relu (NaN) is 0.)  */
static wm_model_t *make_overflowing (void)
{
    static float ones[CELLS], zero[1], huge[1] = { 3e38f };
    for (uint32_t i = 0; i < CELLS; i++)
        ones[i] = 1;
    wm_net_t net = {
        .height = WIRES,
        .width = BINS,
        .channel = 1,
        .n_conv = 1,
        .n_dense = 2,
        .conv = { { 1, 1, 1, 1, WM_ACT_RELU, 0, ones, zero } },
        .dense = { { -1, CELLS, 1, WM_ACT_RELU, 0, -1, ones, zero },
                   { 0, 1, 1, WM_ACT_NONE, 0, 0, huge, zero } },
    };
    wm_port_t output = { .name = "sum", .n_dim = 1, .dim = { 1 }, .n_value = 1 };
    wm_model_parts_t parts = {
        .kind = WM_MODEL_FAMILY,
        .why = "overflows",
        .n_input = 1,
        .input = wm_model_input (model, 0),
        .n_output = 1,
        .output = &output,
        .net = &net,
    };
    wm_error_t error = { 0 };
    if (wm_model_write (in_folder ("huge.wmm"), &parts, &error))
        fail_msg ("%s", error.text);
    wm_model_t *self = wm_model_open (in_folder ("huge.wmm"), &error);
    if (!self)
        fail_msg ("%s", error.text);
    unlink (in_folder ("huge.wmm"));
    return self;
}

static void scores_that_are_no_numbers_hold_their_hit_only (void **state)
{
    static float patch[3 * CELLS];
    wm_model_t *overflowing = make_overflowing ();
    wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 3, .patch_values = CELLS, .patch = patch
    };
    for (uint32_t i = 0; i < CELLS; i++)
        patch[CELLS + i] = 1;
    patch[2 * CELLS] = 1;
    for (int e = 0; e < ENGINES; e++) {
        float scores[3];
        uint8_t status[3];
        wm_device_t *device = device_of (overflowing, NULL, engines[e], 1);
        assert_int_equal (wm_device_score (device, &batch, status, scores, NULL), WM_OK);
        assert_int_equal (status[0], WM_HIT_SCORED);
        assert_int_equal (status[1], WM_HIT_NONFINITE);
        assert_int_equal (status[2], WM_HIT_SCORED);
        assert_true (scores[0] == 0 && isnan (scores[1]) && scores[2] > 2.9e38f);
        wm_device_destroy (&device);
    }
    wm_model_destroy (&overflowing);
}

static void the_self_test_passes_and_can_fail (void **state)
{
    wm_error_t error = { 0 };
    for (int e = 0; e < ENGINES; e++) {
        wm_device_t *device = device_of (model, &full, engines[e], 1);
        if (wm_device_self_test (device, &error))
            fail_msg ("%s", error.text);
        wm_device_destroy (&device);
    }
    /* The same network, whose file claims another answer.  */
    const float *inputs, *answers;
    uint32_t known = wm_model_known (model, &inputs, &answers);
    assert_true (known > 0);
    float *lies = malloc (known * OUTPUTS * sizeof *lies);
    memcpy (lies, answers, known * OUTPUTS * sizeof *lies);
    lies[known * OUTPUTS - 1] += 1e-4f;
    wm_port_t outputs[WM_MODEL_PORTS_MAX];
    for (uint32_t i = 0; i < wm_model_n_output_port (model); i++)
        outputs[i] = *wm_model_output (model, i);
    wm_model_parts_t parts = {
        .kind = WM_MODEL_FAMILY,
        .why = "a lie",
        .n_input = 1,
        .input = wm_model_input (model, 0),
        .n_output = wm_model_n_output_port (model),
        .output = outputs,
        .net = wm_model_net (model),
        .n_known = known,
        .known_inputs = inputs,
        .known_scores = lies,
    };
    assert_int_equal (wm_model_write (in_folder ("lie.wmm"), &parts, NULL), WM_OK);
    wm_model_t *lie = wm_model_open (in_folder ("lie.wmm"), NULL);
    assert_non_null (lie);
    for (int e = 0; e < ENGINES; e++) {
        wm_device_t *device = device_of (lie, NULL, engines[e], 1);
        assert_int_equal (wm_device_self_test (device, &error), WM_EHOST);
        assert_non_null (strstr (error.text, "output 3 differs by 0.0001"));
        wm_device_destroy (&device);
    }
    wm_model_destroy (&lie);
    free (lies);
}

static void general_models_get_openvino (void **state)
{
    static float scores[HITS * OUTPUTS], again[HITS * OUTPUTS];
    wm_error_t error = { 0 };
    wm_batch_t plane;
    make_plane (&plane, &full);
    wm_device_t *device = device_of (general, &full, "auto", 2);
    assert_non_null (strstr (wm_device_signature (device), "openvino-"));
    if (wm_device_self_test (device, &error))
        fail_msg ("%s", error.text);
    score (device, &plane, scores);
    wm_device_destroy (&device);
    device = device_of (model, &full, "reference", 1);
    score (device, &plane, again);
    for (uint32_t i = 0; i < HITS * OUTPUTS; i++)
        assert_true (fabsf (scores[i] - again[i]) <= 1e-5f);
    wm_device_destroy (&device);
    wm_batch_clear (&plane);
    device = device_of (model, &full, "auto", 1);
    assert_non_null (strstr (wm_device_signature (device), "sparse/"));
    wm_device_destroy (&device);
}

static void no_device (const wm_model_t *m, const wm_spec_t *spec, const char *engine,
                       const char *precision, wm_fault_t fault, const char *words)
{
    wm_error_t error = { 0 };
    wm_device_config_t config = { .engine = engine, .precision = precision, .threads = 1 };
    assert_null (wm_device_new (m, spec, &config, &error));
    assert_int_equal (error.fault, fault);
    if (!strstr (error.text, words))
        fail_msg ("'%s' lacks '%s'", error.text, words);
}

static void what_cannot_be_run_is_refused_by_name (void **state)
{
    no_device (model, &full, "fpga", "fp32", WM_EBATCH,
               "there are auto, sparse, openvino, onnxruntime");
    no_device (model, &full, "auto", "int8", WM_EBATCH, "fp32, split and fast");
    no_device (general, &full, "sparse", "fp32", WM_EBATCH, "general for this test");
    no_device (general, &full, "reference", "fp32", WM_EBATCH, "use openvino");
    hide_engines ();
    no_device (general, &full, "auto", "fp32", WM_EHOST, "/proc/nowhere/wm_openvino.so");
    show_engines ();
}

/* Any CNN takes dense patches of its own size, whatever the specification cuts.  */
static void a_specification_of_another_size_leaves_dense_patches (void **state)
{
    wm_spec_t large = full;
    large.patch_wire = 48;
    wm_device_t *device = device_of (model, &large, "auto", 1);
    wm_batch_t plane, patches = { .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = CELLS };
    float patch[CELLS] = { 1 }, scores[HITS * OUTPUTS];
    uint8_t status[HITS];
    wm_error_t error = { 0 };
    patches.patch = patch;
    assert_int_equal (wm_device_score (device, &patches, status, scores, &error), WM_OK);
    make_plane (&plane, &full);
    assert_int_equal (wm_device_score (device, &plane, status, scores, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "takes dense patches"));
    wm_batch_clear (&plane);
    wm_device_destroy (&device);
}

static void batches_that_do_not_fit_are_refused (void **state)
{
    uint8_t status[HITS];
    static float scores[HITS * OUTPUTS];
    wm_error_t error = { 0 };
    wm_batch_t ticks, patches = { .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = CELLS + 1 };
    make_plane (&ticks, &own);
    for (int e = 0; e < ENGINES; e++) {
        wm_device_t *device = device_of (model, &full, engines[e], 1);
        assert_int_equal (wm_device_score (device, &ticks, status, scores, &error), WM_EBATCH);
        assert_non_null (strstr (error.text, "view: full"));
        assert_int_equal (wm_device_score (device, &patches, status, scores, &error), WM_EBATCH);
        assert_non_null (strstr (error.text, "121 values"));
        wm_device_destroy (&device);
        device = device_of (model, NULL, engines[e], 1);
        assert_int_equal (wm_device_score (device, &ticks, status, scores, &error), WM_EBATCH);
        assert_int_equal (wm_device_progress (device), 0);
        wm_device_destroy (&device);
        assert_null (device);
    }
    wm_batch_clear (&ticks);
}

/* Option tables list the engines' names, and "auto" before them.  */
static void option_tables_name_every_engine (void **state)
{
    char sentence[160], names[] = WM_ENGINE_NAMES;
    size_t n_name = 0, commas = 0;
    wm_device_engine_names (sentence);
    for (char *rest = NULL, *name = strtok_r (names, "|", &rest); name;
         name = strtok_r (NULL, "|", &rest)) {
        n_name++;
        if (strcmp (name, "auto") != 0)
            assert_string_equal (wm_device_engine (name)->name, name);
        assert_non_null (strstr (sentence, name));
    }
    for (const char *c = sentence; *c; c++)
        commas += *c == ',';
    assert_int_equal (n_name, commas + 2); /* the last one follows "and" */
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (openvino_computes_where_it_is_told), /* first: see its words */
        cmocka_unit_test (option_tables_name_every_engine),
        cmocka_unit_test (engines_agree_and_keep_their_bits),
        cmocka_unit_test (openvino_takes_16_bits_for_fast),
        cmocka_unit_test (patches_score_like_the_plane_they_are_cut_from),
        cmocka_unit_test (any_grouping_keeps_the_bits),
        cmocka_unit_test (scores_that_are_no_numbers_hold_their_hit_only),
        cmocka_unit_test (the_self_test_passes_and_can_fail),
        cmocka_unit_test (general_models_get_openvino),
        cmocka_unit_test (what_cannot_be_run_is_refused_by_name),
        cmocka_unit_test (a_specification_of_another_size_leaves_dense_patches),
        cmocka_unit_test (batches_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests (tests, set_up, tear_down);
}
