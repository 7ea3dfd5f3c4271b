/* test_schema_record.c - a record comes back as it was, or not at all.  */
#include "schema/wm_record.h"
#include "tests/unit/unit.h"

#include <string.h>

static uint8_t payload[1000];

static wm_record_t example (void)
{
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_RESULT);
    record.epoch = 3;
    record.sequence = 77;
    record.durable = 70;
    record.key = (wm_key_t){ 1, 2, 3, 4 };
    memset (record.digest, 0xab, sizeof record.digest);
    record.n_batch = 9;
    record.n_hit = 200;
    record.n_held = 1;
    record.attempt = 2;
    wm_record_text (&record, "reference fp32");
    record.name = "x.scores.h5";
    record.name_bytes = 11;
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t) (i * 7);
    record.payload = payload;
    record.payload_bytes = sizeof payload;
    return record;
}

static void round_trip (void **state)
{
    wm_record_t record = example (), back;
    static uint8_t buffer[4096];
    size_t bytes;
    assert_int_equal (wm_record_size (&record, &bytes, NULL), WM_OK);
    memset (buffer, 0xee, sizeof buffer);
    assert_int_equal (wm_record_encode (&record, 5, 4096, buffer), bytes);
    assert_int_equal (bytes % 8, 0);
    assert_int_equal (buffer[bytes], 0xee);
    assert_int_equal (wm_record_peek (buffer, 5, 4096), bytes);
    assert_int_equal (wm_record_check (&back, buffer, bytes, 5, 4096), bytes);
    assert_memory_equal (&back, &record, WM_RECORD_HEAD_BYTES);
    assert_memory_equal (back.text, "reference fp32", 14);
    assert_memory_equal (back.name, "x.scores.h5", 11);
    assert_memory_equal (back.payload, payload, sizeof payload);

    wm_record_init (&record, WM_RECORD_INPUT_END);
    assert_int_equal (wm_record_encode (&record, 1, 0, buffer), WM_RECORD_HEAD_BYTES);
    assert_int_equal (wm_record_check (&back, buffer, WM_RECORD_HEAD_BYTES, 1, 0),
                      WM_RECORD_HEAD_BYTES);
    assert_null (back.text);
    assert_null (back.payload);
}

static void another_place (void **state)
{
    wm_record_t record = example (), back;
    static uint8_t buffer[4096];
    const size_t bytes = wm_record_encode (&record, 5, 4096, buffer);
    assert_int_equal (wm_record_check (&back, buffer, bytes, 6, 4096), 0);
    assert_int_equal (wm_record_check (&back, buffer, bytes, 5, 4104), 0);
    assert_int_equal (wm_record_peek (buffer, 5, 0), 0);
}

static void every_bit (void **state)
{
    wm_record_t record = example (), back;
    static uint8_t buffer[4096];
    const size_t bytes = wm_record_encode (&record, 5, 4096, buffer);
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        buffer[bit / 8] ^= (uint8_t) (1u << bit % 8);
        assert_int_equal (wm_record_check (&back, buffer, bytes, 5, 4096), 0);
        if (bit / 8 < offsetof (wm_record_t, checksum))
            assert_int_equal (wm_record_peek (buffer, 5, 4096), 0);
        buffer[bit / 8] ^= (uint8_t) (1u << bit % 8);
    }
    for (size_t cut = 0; cut < bytes; cut++)
        assert_int_equal (wm_record_check (&back, buffer, cut, 5, 4096), 0);
    assert_int_equal (wm_record_check (&back, buffer, bytes, 5, 4096), bytes);
}

static void limits (void **state)
{
    wm_error_t error;
    size_t bytes;
    wm_record_t record = example ();
    record.payload_bytes = WM_PATCH_BYTES_MAX;
    assert_int_equal (wm_record_size (&record, &bytes, &error), WM_OK);
    assert_true (bytes <= WM_RECORD_BYTES_MAX);
    record.payload_bytes = WM_PATCH_BYTES_MAX + 1;
    assert_int_equal (wm_record_size (&record, &bytes, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "RESULT"));
    record = example ();
    record.text_bytes = WM_RECORD_TEXT_BYTES_MAX + 1;
    assert_int_equal (wm_record_size (&record, &bytes, &error), WM_EHOST);
    record = example ();
    record.name_bytes = 256;
    assert_int_equal (wm_record_size (&record, &bytes, &error), WM_EHOST);
}

static void names (void **state)
{
    for (uint32_t type = 1; type < WM_RECORD_TYPE_END; type++)
        assert_string_not_equal (wm_record_name (type), "?");
    assert_string_equal (wm_record_name (0), "?");
    assert_string_equal (wm_record_name (WM_RECORD_TYPE_END), "?");
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (round_trip), cmocka_unit_test (another_place),
        cmocka_unit_test (every_bit),  cmocka_unit_test (limits),
        cmocka_unit_test (names),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
