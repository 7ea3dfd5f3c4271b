/* test_kernels_cuda_module.c - the CUDA engine through wm_device.h, on any machine.

   Without wm_cuda.so, without a driver or a GPU: one line reports it, and the CPU scores. With a
   GPU: known answers in both precisions, and the bits of one engine in another's grouping.  */
#include "kernels/import/wm_import.h"
#include "kernels/judge/wm_canary.h"
#include "kernels/model/wm_seed.h"
#include "kernels/patch/wm_image.h"
#include "tests/proof.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLANE_HITS 400u

static wm_model_t *model;

static int set_up (void **state)
{
    char folder[] = "/tmp/wm_cuda_XXXXXX", onnx[64], wmm[64], why[480];
    wm_error_t error = { 0 };
    if (!mkdtemp (folder))
        return -1;
    snprintf (onnx, sizeof onnx, "%s/m.onnx", folder);
    snprintf (wmm, sizeof wmm, "%s/m.wmm", folder);
    if (wm_model_new_emtrkmichel (1, 12, 10, onnx, &error) ||
        wm_import (onnx, NULL, wmm, why, &error) || !(model = wm_model_open (wmm, &error)))
        print_message ("%s\n", error.text);
    unlink (onnx);
    unlink (wmm);
    rmdir (folder);
    return model ? 0 : -1;
}

static int tear_down (void **state)
{
    wm_model_destroy (&model);
    return 0;
}

static wm_device_t *device_of (const char *engine, const char *precision, wm_error_t *error)
{
    const wm_device_config_t config = { .engine = engine, .precision = precision, .threads = 1 };
    return wm_device_new (model, NULL, &config, error);
}

static void a_machine_without_it_says_so_in_a_line (void **state)
{
    wm_error_t error = { 0 };
    setenv ("WM_CUDA_SO", "/proc/nowhere/wm_cuda.so", 1);
    assert_null (device_of ("cuda", "fast", &error));
    unsetenv ("WM_CUDA_SO");
    assert_int_equal (error.fault, WM_EHOST);
    assert_non_null (strstr (error.text, "/proc/nowhere/wm_cuda.so"));
    wm_device_t *device = device_of ("cuda", "fast", &error);
    if (!device) {
        print_message ("here: %s\n", error.text);
        assert_int_equal (error.fault, WM_EHOST);
        assert_null (strchr (error.text, '\n'));
        assert_non_null (strstr (error.text, "the cuda engine cannot"));
        assert_null (getenv ("WM_REQUIRE_GPU"));
    }
    wm_device_destroy (&device);
    device = device_of ("cudnn", "fast", &error); /* from the same object */
    assert_true (device ? strstr (wm_device_signature (device), "/any") != NULL
                        : strstr (error.text, "engine cannot") != NULL);
    wm_device_destroy (&device);
}

static void the_cpu_scores_where_there_is_no_gpu (void **state)
{
    wm_error_t error = { 0 };
    wm_device_t *device = device_of ("auto", "fp32", &error);
    assert_non_null (device);
    assert_int_equal (wm_device_self_test (device, &error), WM_OK);
    wm_device_destroy (&device);
}

static void a_gpu_knows_the_answers (void **state)
{
    static const char *const precision[] = { "fp32", "fast" };
    for (int p = 0; p < 2; p++) {
        wm_error_t error = { 0 };
        wm_device_t *device = device_of ("cuda", precision[p], &error);
        if (!device)
            skip ();
        print_message ("%s\n", wm_device_signature (device));
        const char *begin = p ? "cuda/" : WM_SIGNATURE_FP32;
        assert_int_equal (strncmp (wm_device_signature (device), begin, 5), 0);
        if (wm_device_self_test (device, &error))
            fail_msg ("%s", error.text);
        wm_device_destroy (&device);
    }
}

/* ---- canaries -------------------------------------------------------------------------------- */

/* A plane with hits everywhere, their scores by the CPU, and the same hits as patches.  */
typedef struct {
    wm_spec_t spec;
    wm_batch_t batch, ready;
    float patch[PLANE_HITS][12 * 10];
    uint32_t run_wire[40], run_first[40], run_length[40], hit_wire[PLANE_HITS];
    int32_t hit_col[PLANE_HITS];
    float value[40 * 60], scores[PLANE_HITS * 4];
    uint8_t status[PLANE_HITS];
} plane_t;

static void make_plane (plane_t *self)
{
    const char text[] = "patch: [12, 10]";
    uint64_t seed = 1;
    assert_int_equal (wm_spec_parse (&self->spec, text, strlen (text), "spec", NULL), WM_OK);
    self->batch = (wm_batch_t){ .kind = WM_BATCH_BINS,
                                .n_hit = PLANE_HITS,
                                .n_wire = 40,
                                .n_col = 60,
                                .n_run = 40,
                                .n_value = 40 * 60,
                                .run_wire = self->run_wire,
                                .run_first = self->run_first,
                                .run_length = self->run_length,
                                .value = self->value,
                                .hit_wire = self->hit_wire,
                                .hit_col = self->hit_col };
    for (uint32_t w = 0; w < 40; w++)
        self->run_wire[w] = w, self->run_length[w] = 60;
    for (uint32_t i = 0; i < 40 * 60; i++)
        self->value[i] = (float) (wm_seed_next (&seed) % 4000) / 200 - 5;
    for (uint32_t i = 0; i < PLANE_HITS; i++) {
        self->hit_wire[i] = (uint32_t) (wm_seed_next (&seed) % 40);
        self->hit_col[i] = (int32_t) (wm_seed_next (&seed) % 60);
    }
    const wm_device_config_t config = { .engine = "sparse", .precision = "fp32", .threads = 1 };
    wm_device_t *device = wm_device_new (model, &self->spec, &config, NULL);
    assert_non_null (device);
    assert_int_equal (wm_device_score (device, &self->batch, self->status, self->scores, NULL),
                      WM_OK);
    wm_device_destroy (&device);
    self->ready = (wm_batch_t){ .kind = WM_BATCH_PATCHES,
                                .n_hit = PLANE_HITS,
                                .patch_values = 12 * 10,
                                .patch = self->patch[0] };
    for (uint32_t i = 0; i < PLANE_HITS; i++)
        wm_image_patch_reference (&self->spec, &self->batch, i, self->patch[i]);
}

/* Batches until scores of which one of a hundred is off by twice the tolerance are noticed.  */
static uint32_t batches_until (wm_canary_t *canary, const plane_t *plane, double tolerance,
                               uint64_t *seed, wm_error_t *error)
{
    static float scores[PLANE_HITS * 4];
    for (uint32_t n = 1; n <= 1000; n++) {
        memcpy (scores, plane->scores, sizeof scores);
        for (uint32_t i = 0; i < PLANE_HITS; i++)
            if (wm_seed_next (seed) % 100 == 0)
                scores[i * 4 + wm_seed_next (seed) % 4] += (float) (2 * tolerance);
        if (wm_canary_check (canary, &plane->batch, scores, error))
            return n;
    }
    return 1001;
}

static void canaries_find_one_wrong_hit_of_a_hundred (void **state)
{
    static plane_t plane;
    static const double tolerance[] = { 1e-5, 2e-2 };
    const unsigned long campaigns = proof_size (10, 1000, 10000);
    const double start = proof_clock ();
    unsigned long found = 0;
    uint32_t most = 0;
    uint64_t seed = 1;
    make_plane (&plane);
    for (int t = 0; t < 2; t++) {
        wm_canary_t *canary = wm_canary_new (model, &plane.spec, tolerance[t], 1, NULL);
        assert_non_null (canary);
        for (unsigned long campaign = 0; campaign < campaigns / 2; campaign++) {
            wm_error_t error = { 0 };
            uint32_t n = batches_until (canary, &plane, tolerance[t], &seed, &error);
            assert_int_equal (error.fault, WM_EHOST);
            assert_non_null (strstr (error.text, "a canary died: output"));
            found += n <= 150;
            most = n > most ? n : most;
        }
        wm_canary_destroy (&canary);
        assert_null (canary);
    }
    print_message ("found within %u batches at most\n", most);
    proof_line ("P10", campaigns, found, start);
    assert_int_equal (found, campaigns);
    assert_in_range (most, 2, 150); /* 2: it does not cry at once */
}

static void canaries_never_cry_without_cause (void **state)
{
    static plane_t plane;
    static float noisy[PLANE_HITS * 4];
    const unsigned long batches = proof_size (20000, 1000000, 10000000) / WM_CANARIES;
    const double start = proof_clock ();
    uint64_t seed = 1;
    make_plane (&plane);
    wm_canary_t *canary = wm_canary_new (model, &plane.spec, 2e-2, 1, NULL);
    wm_batch_t part[2] = { plane.batch, plane.ready };
    assert_non_null (canary);
    for (uint32_t i = 0; i < PLANE_HITS * 4; i++) /* ten times what half precision does */
        noisy[i] = plane.scores[i] + (float) (wm_seed_next (&seed) % 1000) * 1e-5f - 5e-3f;
    noisy[7 * 4] = NAN; /* held by others */
    for (unsigned long n = 0; n < batches; n++) {
        part[n % 2].n_hit = (uint32_t) (n / 2 % PLANE_HITS); /* also 0, and fewer than canaries */
        assert_int_equal (wm_canary_check (canary, &part[n % 2], noisy, NULL), WM_OK);
    }
    proof_line ("P10", batches, batches, start);
    wm_canary_destroy (&canary);
}

/* With a twentieth of the time most batches pass unchecked: a wrong score is found later.  */
static void canaries_take_no_more_than_their_share (void **state)
{
    static plane_t plane;
    wm_error_t error = { 0 };
    make_plane (&plane);
    wm_canary_t *canary = wm_canary_new (model, &plane.spec, 1e-5, 1e-9, NULL);
    assert_non_null (canary);
    assert_int_equal (wm_canary_check (canary, &plane.batch, plane.scores, &error), WM_OK);
    for (uint32_t i = 0; i < PLANE_HITS * 4; i++)
        plane.scores[i] += 1;
    assert_int_equal (wm_canary_check (canary, &plane.batch, plane.scores, &error), WM_OK);
    wm_canary_destroy (&canary);
}

/* A device with an engine in wm_cuda.so's place that is sometimes wrong; or NULL with *error.  */
static wm_device_t *try_fake (const plane_t *plane, const char *precision, wm_error_t *error)
{
    char path[] = "/tmp/wm_cuda_XXXXXX", line[400];
    const wm_device_config_t config = { .engine = "cuda", .precision = precision, .threads = 1 };
    close (mkstemp (path));
    snprintf (line, sizeof line,
              "${CC:-gcc} -shared -fPIC -I. -D_GNU_SOURCE -x c tests/unit/fake_cuda.h -o %s", path);
    assert_int_equal (system (line), 0);
    setenv ("WM_CUDA_SO", path, 1);
    wm_device_t *device = wm_device_new (model, &plane->spec, &config, error);
    unsetenv ("WM_CUDA_SO");
    unlink (path);
    return device;
}

static wm_device_t *fake_device (const plane_t *plane)
{
    wm_error_t error = { 0 };
    wm_device_t *device = try_fake (plane, "fast", &error);
    if (!device)
        fail_msg ("%s", error.text);
    return device;
}

/* A last bit is enough: at the start the device is refused, and while it works it is found.  */
static void a_gpu_that_signs_as_the_cpu_has_its_bits (void **state)
{
    static plane_t plane;
    wm_error_t error = { 0 };
    make_plane (&plane);
    setenv ("WM_FAKE_STRICT", "1", 1);
    setenv ("WM_FAKE_CUDA", "1", 1);
    assert_null (try_fake (&plane, "fp32", &error));
    assert_int_equal (error.fault, WM_EHOST);
    assert_non_null (strstr (error.text, "the device of the engine cuda computes 0x"));
    unsetenv ("WM_FAKE_CUDA");
    wm_device_t *device = try_fake (&plane, "fp32", &error);
    if (!device)
        fail_msg ("%s", error.text);
    assert_string_equal (wm_device_by (device)->name, "cuda");
    assert_string_equal (wm_device_signature (device), WM_SIGNATURE_FP32);
    assert_true (wm_device_by_gpu ("cuda", WM_SIGNATURE_FP32));
    assert_false (wm_device_by_gpu ("auto", WM_SIGNATURE_FP32));
    wm_fault_t fault = wm_device_score (device, &plane.batch, plane.status, plane.scores, &error);
    assert_int_equal (fault, WM_OK);
    setenv ("WM_FAKE_CUDA", "1", 1);
    for (int i = 0; i < 100000 && !fault; i++) /* until it checks again */
        fault = wm_device_score (device, &plane.batch, plane.status, plane.scores, &error);
    unsetenv ("WM_FAKE_CUDA"), unsetenv ("WM_FAKE_STRICT");
    assert_int_equal (fault, WM_EHOST);
    assert_non_null (strstr (error.text, "a canary died"));
    wm_device_destroy (&device);
}

static void the_door_keeps_canaries_for_a_gpu (void **state)
{
    static plane_t plane;
    wm_error_t error = { 0 };
    make_plane (&plane);
    wm_device_t *device = fake_device (&plane);
    assert_int_equal (wm_device_self_test (device, &error), WM_OK);
    assert_int_equal (wm_device_score (device, &plane.batch, plane.status, plane.scores, &error),
                      WM_OK);
    setenv ("WM_FAKE_CUDA", "1", 1);
    wm_fault_t fault = WM_OK;
    for (int i = 0; i < 100000 && !fault; i++) /* until it checks again */
        fault = wm_device_score (device, &plane.batch, plane.status, plane.scores, &error);
    unsetenv ("WM_FAKE_CUDA");
    assert_int_equal (fault, WM_EHOST);
    assert_non_null (strstr (error.text, "a canary died"));
    wm_device_destroy (&device);
}

/* Jobs: each comes back once, held back only while it is checked; refused and empty ones too. A
   wrong score ends the device: no job is given out after it, and every later call fails alike.  */
static void jobs_are_checked_on_their_way (void **state)
{
    enum { JOBS = 40 };
    static plane_t plane;
    static uint8_t status[JOBS][PLANE_HITS];
    static float scores[JOBS][PLANE_HITS * 4];
    wm_error_t error = { 0 };
    make_plane (&plane);
    const wm_batch_t none = { .kind = WM_BATCH_PATCHES, .patch_values = 120 },
                     wrong = { .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = 7 };
    wm_device_t *device = fake_device (&plane);
    assert_int_equal (wm_device_hands (device), 0);
    for (int round = 0; round < 2; round++) {
        wm_job_t job[JOBS], *job_p[JOBS], *done;
        uint32_t n = 0, seen = 0;
        for (uint32_t i = 0; i < JOBS; i++) {
            job[i] = (wm_job_t){ .batch = i == 3   ? &none
                                          : i == 5 ? &wrong
                                                   : &plane.batch,
                                 .status = status[i],
                                 .scores = scores[i] };
            job_p[i] = &job[i];
        }
        if (round)
            setenv ("WM_FAKE_CUDA", "1", 1); /* all scores are wrong */
        assert_int_equal (wm_device_submit (device, JOBS, job_p, &error), WM_OK);
        wm_fault_t fault = WM_OK;
        while (!(fault = wm_device_collect (device, &done, &error)) && done) {
            const uint32_t i = (uint32_t) (done - job);
            assert_int_equal (done->error.fault, i == 5 ? WM_EBATCH : WM_OK);
            assert_true (i != 5 || strstr (done->error.text, "7 values, the model takes ("));
            assert_ptr_equal (done->batch, i == 3 ? &none : i == 5 ? &wrong : &plane.batch);
            done->batch = NULL; /* once */
            n++, seen += i;
        }
        if (round == 0) {
            assert_int_equal (fault, WM_OK);
            assert_int_equal (n, JOBS);
            assert_int_equal (seen, JOBS * (JOBS - 1) / 2);
            for (uint32_t i = 1; i < JOBS; i++)
                if (i != 3 && i != 5)
                    assert_memory_equal (scores[i], scores[0], sizeof scores[0]);
        }
        for (int i = 0; i < 100000 && round && !fault; i++) /* until it checks again */
            fault = wm_device_score (device, &plane.batch, plane.status, plane.scores, &error);
        if (round) {
            unsetenv ("WM_FAKE_CUDA");
            assert_int_equal (fault, WM_EHOST);
            assert_non_null (strstr (error.text, "a canary died"));
            assert_int_equal (wm_device_collect (device, &done, &error), WM_EHOST);
            assert_int_equal (wm_device_submit (device, 1, job_p, &error), WM_EHOST);
            assert_non_null (strstr (error.text, "a canary died"));
        }
    }
    wm_device_destroy (&device);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (a_machine_without_it_says_so_in_a_line),
        cmocka_unit_test (the_cpu_scores_where_there_is_no_gpu),
        cmocka_unit_test (a_gpu_knows_the_answers),
        cmocka_unit_test (canaries_find_one_wrong_hit_of_a_hundred),
        cmocka_unit_test (canaries_never_cry_without_cause),
        cmocka_unit_test (canaries_take_no_more_than_their_share),
        cmocka_unit_test (a_gpu_that_signs_as_the_cpu_has_its_bits),
        cmocka_unit_test (the_door_keeps_canaries_for_a_gpu),
        cmocka_unit_test (jobs_are_checked_on_their_way),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, set_up, tear_down);
}
