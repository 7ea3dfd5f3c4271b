/* test_kernels_judged.c - what a .wmm states of who judged its model, and which engine it refuses.
 */
#include "kernels/wm_device.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text, the scorer and how openvino refuses it, of each judgement; a refusal that is
   NULL: of the file only, which is no model.  */
static void judgements (void **state)
{
    static const struct {
        uint8_t judgement, lacked;
        const char *why, *judged_by, *scorer, *refusal;
    } rows[] = {
        { WM_JUDGED_BY_NONE, 1, "", "none", "openvino", NULL },
        { WM_JUDGED_EQUAL, 0, "", "judge-1", "openvino", NULL },
        { WM_JUDGED_TAKEN, 0, "a; OpenVINO computes node 'up' (Conv) otherwise",
          "judge-1, but not followed: OpenVINO computes node 'up' (Conv) otherwise", "openvino",
          NULL },
        { WM_JUDGED_OTHER, 0, "it: OpenVINO computes node 'a\n-\x7f' (Conv) otherwise; more",
          "judge-1 scores it: OpenVINO computes node 'a?-?' (Conv) otherwise", "onnxruntime",
          "OpenVINO computes node 'a?-?' (Conv) of this model otherwise than ONNX defines: leave" },
        { WM_JUDGED_OTHER, 0, "cut: OpenVINO computes node",
          "judge-1 scores it: OpenVINO computes its scores otherwise", "onnxruntime",
          "OpenVINO computes its scores of this model otherwise than ONNX defines: leave out" },
        { WM_JUDGED_ALONE, 0, "", "none", "onnxruntime", NULL },
        { WM_JUDGEMENTS, 0, "", NULL, NULL, NULL },
        { WM_JUDGED_EQUAL, 2, "", NULL, NULL, NULL },
    };
    const wm_port_t x = { .name = "x", .n_dim = 1, .dim = { 6 }, .n_value = 6 },
                    y = { .name = "y", .n_dim = 1, .dim = { 2 }, .n_value = 2 };
    char path[] = "/tmp/wm-judged-XXXXXX";
    const int fd = mkstemp (path);
    assert_true (fd >= 0);
    close (fd);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wm_error_t error = { 0 };
        wm_model_parts_t parts = { .kind = WM_MODEL_GENERAL,
                                   .why = rows[i].why,
                                   .n_input = 1,
                                   .n_output = 1,
                                   .input = &x,
                                   .output = &y,
                                   .original = "not read here",
                                   .original_bytes = 13,
                                   .judged = { .judgement = rows[i].judgement,
                                               .lacked = rows[i].lacked,
                                               .judge = "judge-1" } };
        char text[WM_MODEL_JUDGED_BYTES];
        const wm_fault_t fault = wm_model_write (path, &parts, &error);
        if (!rows[i].judged_by) {
            assert_int_not_equal (fault, WM_OK);
            assert_non_null (strstr (error.text, "its judgement"));
            continue;
        }
        wm_model_t *judged = wm_model_open (path, &error);
        assert_non_null (judged);
        wm_model_judged_by (judged, text);
        assert_string_equal (text, rows[i].judged_by);
        assert_string_equal (wm_model_scorer (judged), rows[i].scorer);
        const wm_device_config_t config = { .engine = "openvino",
                                            .precision = "fp32",
                                            .threads = 1 };
        assert_null (wm_device_new (judged, NULL, &config, &error));
        if (rows[i].refusal) {
            assert_int_equal (error.fault, WM_EBATCH);
            assert_non_null (strstr (error.text, rows[i].refusal));
        } else
            assert_null (strstr (error.text, "--accept-differences"));
        wm_model_destroy (&judged);
    }
    unlink (path);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (judgements) };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
