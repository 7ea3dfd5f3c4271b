/* test_schema_sample.c - a sample of batches as one payload: round trip, what does not fit,
   damage.  */
#include "schema/wm_sample.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static wm_batch_t patches (uint32_t n_hit, uint32_t values, int noise)
{
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = n_hit, .patch_values = values };
    wm_error_t error;
    if (wm_batch_reserve (&batch, &error))
        fail_msg ("%s", error.text);
    uint64_t state = 1;
    for (size_t i = 0; i < (size_t) n_hit * values; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        batch.patch[i] = noise ? (float) (state >> 40) : (float) (i % 7);
    }
    return batch;
}

static void samples_survive (void **state)
{
    uint8_t *payload = malloc (WM_RAW_BYTES_MAX);
    wm_coder_t *coder = wm_coder_new ();
    wm_batch_t in[3], *out = calloc (WM_SAMPLE_BATCHES_MAX, sizeof *out);
    size_t bytes = wm_sample_begin (payload);
    uint32_t n;
    wm_error_t error;
    assert_int_equal (wm_sample_decode (payload, bytes, coder, out, &n, &error), WM_OK);
    assert_int_equal (n, 0);
    for (uint32_t i = 0; i < 3; i++) {
        in[i] = patches (i + 1, 100, 0);
        bytes = wm_sample_add (payload, bytes, &in[i], coder);
        assert_int_not_equal (bytes, 0);
    }
    assert_int_equal (wm_sample_decode (payload, bytes, coder, out, &n, &error), WM_OK);
    assert_int_equal (n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal (out[i].n_hit, i + 1);
        assert_memory_equal (out[i].patch, in[i].patch, (i + 1) * 100 * sizeof (float));
    }
    for (size_t cut = 0; cut < bytes; cut++) /* cut off anywhere */
        assert_int_equal (wm_sample_decode (payload, cut, coder, out, &n, &error), WM_EPEER);
    assert_int_equal (wm_sample_decode (payload, bytes + 1, coder, out, &n, &error), WM_EPEER);
    payload[0] = 200; /* more batches than there may be */
    assert_int_equal (wm_sample_decode (payload, bytes, coder, out, &n, &error), WM_EPEER);
    for (uint32_t i = 0; i < 3; i++)
        wm_batch_clear (&in[i]);
    for (uint32_t i = 0; i < WM_SAMPLE_BATCHES_MAX; i++)
        wm_batch_clear (&out[i]);
    free (out), free (payload);
    wm_coder_destroy (&coder);
}

static void what_does_not_fit_is_left_out (void **state)
{
    uint8_t *payload = malloc (WM_RAW_BYTES_MAX);
    wm_coder_t *coder = wm_coder_new ();
    wm_batch_t large = patches (400, 2304, 1), small = patches (1, 10, 0);
    size_t bytes = wm_sample_begin (payload), more = wm_sample_add (payload, bytes, &large, coder);
    if (more) /* noise: once at most */
        assert_int_equal (wm_sample_add (payload, more, &large, coder), 0);
    bytes = more ? more : bytes;
    uint32_t n = more != 0;
    while ((more = wm_sample_add (payload, bytes, &small, coder)) != 0)
        bytes = more, n++;
    assert_int_equal (n, WM_SAMPLE_BATCHES_MAX);
    wm_batch_clear (&large), wm_batch_clear (&small);
    free (payload);
    wm_coder_destroy (&coder);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (samples_survive),
        cmocka_unit_test (what_does_not_fit_is_left_out),
    };
    return cmocka_run_group_tests_name ("schema/sample", tests, NULL, NULL);
}
