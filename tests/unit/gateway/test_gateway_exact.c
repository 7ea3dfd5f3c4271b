/* test_gateway_exact.c - tensors of types that float32 does not hold, as rows and back.  */
#include "producer/serving/wm_signature.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 2u
#define LENGTH 3u

/* Types with the numbers that ONNX has for them, and a value of each that no float32 is.  */
static const struct {
    wm_type_t type;
    int number;
    uint64_t bits; /* of a value; the others are this and 1, 2, ... */
} kind[] = { { WM_TYPE_INT32, 6, 0x80000001 },
             { WM_TYPE_UINT32, 12, 0xfffffff0 },
             { WM_TYPE_INT64, 7, 0x8000000000000001 },
             { WM_TYPE_UINT64, 13, 0xfffffffffffffff0 },
             { WM_TYPE_FP64, 11, 0x0000000000000001 } };
#define KINDS (sizeof kind / sizeof *kind)

static wm_ks_request_t request;
static wm_kserve_tensor_t input[KINDS + 1];
static uint8_t data[KINDS + 1][ROWS * LENGTH * 8];

/* A model that hands on an input of each kind and one of FP32, which comes first; `size` 0: of any
   length. The request's inputs are in another order.  */
static wm_signature_t make (uint32_t size)
{
    static char name[KINDS + 1][2];
    wm_signature_t self = { .takes_infinite = true };
    request = (wm_ks_request_t){ .model = (char *) (uintptr_t) "m",
                                 .input = input,
                                 .n_input = KINDS + 1 };
    for (uint32_t i = 0; i <= KINDS; i++) {
        const wm_type_t type = i ? kind[i - 1].type : WM_TYPE_FP32;
        const size_t bytes = wm_type_bytes (type);
        name[i][0] = (char) ('a' + i);
        for (int is_output = 0; is_output < 2; is_output++) {
            wm_signature_add (&self, is_output, name[i], type, 1, &size);
            if (i)
                wm_signature_carry (&self, is_output, kind[i - 1].number);
        }
        for (uint64_t k = 0; k < ROWS * LENGTH; k++) {
            const float number = (float) k / 8;
            const uint64_t bits = i ? kind[i - 1].bits + k : 0;
            memcpy (data[i] + k * bytes, i ? (const void *) &bits : &number, bytes);
        }
        input[KINDS - i] = (wm_kserve_tensor_t){ .name = name[i],
                                                 .type = type,
                                                 .n_dim = 2,
                                                 .dim = { ROWS, LENGTH },
                                                 .data = data[i],
                                                 .bytes = ROWS * LENGTH * bytes };
    }
    if (self.is_ragged)
        self.n_value = self.n_score = WM_RAGGED_VALUES;
    return self;
}

static void same (const wm_tensor_plan_t *plan, wm_kserve_tensor_t *output)
{
    for (uint32_t i = 0; i <= KINDS; i++) {
        assert_int_equal (output[i].type, input[KINDS - i].type);
        assert_int_equal (output[i].bytes, input[KINDS - i].bytes);
        assert_memory_equal (output[i].data, data[i], output[i].bytes);
    }
    wm_signature_clear (plan, output);
}

static void rows_come_back (void **state)
{
    const wm_signature_t self = make (LENGTH);
    wm_tensor_plan_t plan;
    wm_ks_error_t error;
    wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX];
    assert_int_equal (self.n_value, LENGTH * (1 + 2 + 2 + 3 + 3 + 4));
    assert_int_equal (self.n_score, self.n_value);
    assert_int_equal (wm_signature_plan (&self, &request, &plan, &error), WM_KS_OK);
    assert_int_equal (wm_signature_exact (&self, &request, &plan, &error), WM_KS_OK);
    float *row = malloc (ROWS * self.n_value * sizeof *row);
    for (uint32_t r = 0; r < ROWS; r++)
        assert_true (wm_signature_row (&self, &request, &plan, r, row + r * self.n_value));
    assert_int_equal (wm_signature_answer_bytes (&self, &plan),
                      ROWS * LENGTH * (4 + 4 + 4 + 8 + 8 + 8));
    assert_true (wm_signature_begin (&self, &plan, output));
    for (uint32_t r = 0; r < ROWS; r++)
        assert_int_equal (
            wm_signature_put (&self, &plan, "m", r, row + r * self.n_value, output, &error),
            WM_KS_OK);
    same (&plan, output);
    assert_true (wm_signature_begin (&self, &plan, output));
    for (uint32_t r = 0; r < ROWS; r++) /* held: 0, and NaN of FP64 */
        wm_signature_put (&self, &plan, "m", r, NULL, output, &error);
    for (uint32_t k = 0; k < ROWS * LENGTH; k++) {
        assert_int_equal (((const int64_t *) (const void *) output[3].data)[k], 0);
        assert_true (isnan (((const double *) (const void *) output[5].data)[k]));
    }
    wm_signature_clear (&plan, output);
    free (row);
}

static void ragged_rows_come_back (void **state)
{
    const wm_signature_t self = make (0);
    wm_tensor_plan_t plan;
    wm_ks_error_t error;
    wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX];
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    float *row[ROWS];
    size_t n_value;
    uint32_t n;
    assert_int_equal (wm_signature_plan (&self, &request, &plan, &error), WM_KS_OK);
    assert_int_equal (wm_signature_ragged_check (&self, &request, &plan, &n_value, &error),
                      WM_KS_OK);
    assert_int_equal (wm_signature_exact (&self, &request, &plan, &error), WM_KS_OK);
    assert_int_equal (n_value, 2 + 2 * (KINDS + 1) + LENGTH * (1 + 2 + 2 + 3 + 3 + 4));
    for (uint32_t r = 0; r < ROWS; r++) {
        row[r] = malloc (n_value * sizeof **row);
        wm_signature_ragged_row (&self, &request, &plan, r, row[r], n_value);
        assert_null (wm_ragged_read (row[r], n_value, &n, tensor));
        for (uint32_t i = 1; i <= KINDS; i++)
            assert_int_equal (tensor[i].type, kind[i - 1].number);
    }
    assert_int_equal (wm_signature_ragged_answer (&self, &plan, "m", row, output, &error),
                      WM_KS_OK);
    same (&plan, output);
    row[1][2 + 2] = 16 * 13 + 1; /* INT32 comes as UINT64: 3 float32s a value, and too many */
    assert_int_equal (wm_signature_ragged_answer (&self, &plan, "m", row, output, &error),
                      WM_KS_INTERNAL);
    row[1][2 + 2] = 16 * 12 + 1; /* as UINT32 */
    assert_int_equal (wm_signature_ragged_answer (&self, &plan, "m", row, output, &error),
                      WM_KS_INTERNAL);
    for (uint32_t r = 0; r < ROWS; r++)
        free (row[r]);
}

/* A NaN of FP64 holds its row; an infinity is a value.  */
static void not_finite (void **state)
{
    const wm_signature_t self = make (LENGTH);
    wm_tensor_plan_t plan;
    wm_ks_error_t error;
    float *row = malloc (self.n_value * sizeof *row);
    const double value[2] = { -INFINITY, NAN };
    assert_int_equal (wm_signature_plan (&self, &request, &plan, &error), WM_KS_OK);
    for (int i = 0; i < 2; i++) {
        memcpy (data[KINDS] + LENGTH * 8, &value[i], 8); /* of row 1 */
        assert_true (wm_signature_row (&self, &request, &plan, 0, row));
        assert_int_equal (wm_signature_row (&self, &request, &plan, 1, row), i == 0);
    }
    free (row);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (rows_come_back),
                                        cmocka_unit_test (ragged_rows_come_back),
                                        cmocka_unit_test (not_finite) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
