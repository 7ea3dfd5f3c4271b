/* test_gpuworker_engine.c - which device an engine process opens: what auto makes of a GPU, and how
   split and fast take the arithmetic of their class, or wait for the trial.  */
#include "gpuworker/engine/wm_engine_device.h"
#include "kernels/import/wm_import.h"
#include "kernels/model/wm_model.h"
#include "kernels/patch/wm_spec.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/wm-engine-XXXXXX", onnx[64], wmm[64], trial[64];
static wm_model_t *model;
static wm_spec_t spec;
static wm_control_t control;
static wm_device_t *device, *judge;
static wm_error_t error;

static int set_up (void **state)
{
    static const char text[] = "patch: [12, 10]";
    char why[480];
    snprintf (onnx, sizeof onnx, "%s/m.onnx", folder);
    snprintf (wmm, sizeof wmm, "%s/m.wmm", folder);
    snprintf (trial, sizeof trial, "%s/trial", folder);
    assert_int_equal (wm_model_new_emtrkmichel (7, 12, 10, onnx, NULL), WM_OK);
    assert_int_equal (wm_import (onnx, NULL, wmm, why, NULL), WM_OK);
    assert_int_equal (wm_spec_parse (&spec, text, strlen (text), "test", NULL), WM_OK);
    model = wm_model_open (wmm, NULL);
    wm_spec_label (&spec, model);
    return 0;
}

static int tear_down (void **state)
{
    char command[80];
    wm_model_destroy (&model);
    snprintf (command, sizeof command, "rm -r %s", folder); /* and the packed weights beside */
    return system (command);
}

/* A process that starts, as its worker has written the block.  */
static void begin (const char *engine, const char *precision)
{
    memset (&control, 0, sizeof control);
    strcpy (control.engine, engine), strcpy (control.precision, precision);
    control.threads = 1, control.pin = -1, control.max_error = 1e-2;
    strcpy (control.trial, trial);
    control.has_trial = 1;
    error = (wm_error_t){ 0 };
}

static wm_fault_t opened (void)
{
    return wm_engine_device_open (&control, -1, model, &spec, &device, &judge, &error);
}

static void end (void)
{
    wm_device_destroy (&device);
    wm_device_destroy (&judge);
}

static void put_trial (const char *bytes, size_t n)
{
    FILE *file = fopen (trial, "w");
    assert_true (file && fwrite (bytes, 1, n, file) == n && !fclose (file));
}

/* A GPU that was taken is taken again, or the process fails: its place is not taken by the CPU,
   whose scores are others. One that was tried in vain is not tried again.  */
static void auto_keeps_to_what_it_took (void **state)
{
    begin ("auto", "fp32");
    control.gpu = WM_GPU_TAKEN_CUDA;
    if (opened ())
        assert_true (!device && *error.text && !*control.signature);
    else
        assert_memory_equal (control.signature, "cuda", 4);
    assert_int_equal (control.gpu, WM_GPU_TAKEN_CUDA);
    end ();
    static const uint32_t given_up[] = { WM_GPU_TRIED_CUDA, WM_GPU_TRIED_OPENCL, WM_GPU_DECLINED };
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t gpu = given_up[i];
        begin ("auto", "fp32");
        control.gpu = gpu;
        assert_int_equal (opened (), WM_OK);
        assert_memory_equal (control.signature, "sparse/", 7);
        assert_int_equal (control.gpu, gpu);
        assert_null (judge); /* strict fp32 is what it would check with */
        end ();
    }
}

/* Nothing is left of a GPU that is not taken: what it was, and what was measured of it.  */
static void a_declined_gpu_leaves_nothing (void **state)
{
    begin ("auto", "fp32");
    strcpy (control.taken_isa, "of the GPU"), strcpy (control.refused, "of the GPU");
    strcpy (control.strict, "of the GPU");
    control.measured = 0.5, control.n_measured = 7;
    assert_int_equal (opened (), WM_OK);
    if (control.gpu == WM_GPU_TAKEN_CUDA) { /* this machine has one */
        end ();
        skip ();
    }
    assert_int_equal (control.gpu, WM_GPU_DECLINED);
    assert_memory_equal (control.signature, "sparse/", 7);
    assert_string_equal (control.class, "x86-64");
    assert_true (!*control.taken_precision && !*control.taken_isa && !*control.refused);
    assert_true (!*control.strict && control.measured == 0 && !control.n_measured);
    assert_true (!error.fault && !*error.text);
    end ();
}

/* The signature of its class stands in the table, between those of others, one of which begins with
   its name: that arithmetic is opened, of all that this machine has, and nothing is measured. A
   process that starts again keeps it, and reads no table.  */
static void the_table_names_its_arithmetic (void **state)
{
    wm_candidate_t candidate;
    wm_device_config_t config = { .engine = "sparse", .precision = "fast", .pin = -1 };
    char table[600], class[64], signature[64];
    uint32_t i = 0;
    for (; wm_device_candidate (model, &config, i, &candidate, &error); i++) {
        const wm_device_config_t its = { .engine = "sparse",
                                         .precision = candidate.precision,
                                         .isa = candidate.isa,
                                         .threads = 1,
                                         .pin = -1 };
        device = wm_device_new (model, &spec, &its, &error);
        assert_non_null (device);
        strcpy (signature, wm_device_signature (device));
        wm_device_class (model, &config, signature, class);
        end ();
        const int n = snprintf (table, sizeof table, "%s-also\tno/such\t1e-6\t9\n%s\t%s\t0\t9\n%s",
                                class, class, signature, "z\tno/such\t0\t9\n");
        put_trial (table, (size_t) n + 1);
        begin ("sparse", "fast");
        for (int again = 0; again < 2; again++) {
            assert_int_equal (opened (), WM_OK);
            assert_string_equal (control.class, class);
            assert_string_equal (control.signature, signature);
            assert_string_equal (wm_device_signature (device), signature);
            assert_string_equal (control.taken_precision, candidate.precision);
            assert_true (control.n_measured == 0 && control.measured == 0);
            assert_true (strcmp (signature, WM_SIGNATURE_FP32) ? judge != NULL : !judge);
            end ();
            put_trial ("", 0);
        }
    }
    assert_true (i >= 2); /* strict fp32 is one */
}

static void a_trial_that_cannot_be_read (void **state)
{
    begin ("sparse", "fast");
    put_trial ("no end", 6);
    assert_int_equal (opened (), WM_EHOST);
    assert_non_null (strstr (error.text, "it is cut off"));
    assert_null (device);
    end ();
    begin ("sparse", "fast");
    unlink (trial);
    assert_int_equal (opened (), WM_EHOST);
    assert_non_null (strstr (error.text, "No such file or directory"));
    end ();
}

/* It waits for the trial until the worker has it, or leaves.  */
static void a_worker_that_leaves_ends_the_wait (void **state)
{
    int line[2];
    assert_int_equal (pipe (line), 0);
    assert_int_equal (write (line[1], "a byte", 6), 6); /* which is no trial */
    close (line[1]);
    begin ("sparse", "fast");
    control.has_trial = 0;
    assert_int_equal (
        wm_engine_device_open (&control, line[0], model, &spec, &device, &judge, &error),
        WM_EAGAIN);
    assert_string_equal (error.text, "the worker left before it had hits to measure on");
    end ();
    close (line[0]);
}

int main (void)
{
    if (!mkdtemp (folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (auto_keeps_to_what_it_took),
        cmocka_unit_test (a_declined_gpu_leaves_nothing),
        cmocka_unit_test (the_table_names_its_arithmetic),
        cmocka_unit_test (a_trial_that_cannot_be_read),
        cmocka_unit_test (a_worker_that_leaves_ends_the_wait),
    };
    return cmocka_run_group_tests_name ("gpuworker/engine", tests, set_up, tear_down);
}
