/* test_schema_msg.c - messages: what is encoded is decoded, and nothing else is.  */
#include "schema/session/wm_msg.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* A message of a type with every member that could travel set to something.  */
static wm_msg_t full (wm_msg_type_t type)
{
    wm_msg_t msg;
    wm_msg_init (&msg, type);
    msg.key = (wm_key_t){ 1, 0x7fffffff, 300, UINT32_MAX };
    memset (msg.digest, 0xab, 16);
    memset (msg.instance, 0xcd, 16);
    msg.protocol = WM_PROTOCOL;
    msg.role = WM_ROLE_WORKER;
    msg.code = 70000;
    msg.n_batch = 5;
    msg.n_hit = 127;
    msg.n_held = 128;
    msg.attempt = 255;
    msg.epoch = UINT64_MAX;
    msg.count = 1ull << 40;
    msg.offset = 256;
    msg.size = 65536;
    msg.mtime_ns = INT64_MIN;
    msg.run = -1;
    msg.subrun = -40000;
    msg.event = INT64_MAX;
    memset (msg.text, 't', WM_TEXT_BYTES_MAX);
    memset (msg.name, 'n', sizeof msg.name - 1);
    memset (msg.path, 'p', WM_PATH_BYTES_MAX);
    memset (msg.class, 'c', WM_CLASS_BYTES_MAX);
    return msg;
}

/* Each flipped bit of header or payload breaks the seal, and so do each cut and another number.  */
static void seals (void **state)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_RESULT);
    uint8_t frame[WM_HEADER_BYTES_MAX], payload[] = "a score, and another";
    const uint64_t check = wm_msg_check (payload, sizeof payload);
    const size_t header = wm_msg_encode (&msg, frame),
                 bytes = wm_msg_seal (frame, header, check, 3);
    assert_int_equal (wm_msg_unseal (frame, bytes, check, 3), header);
    assert_int_equal (wm_msg_unseal (frame, bytes, 0, 3), 0);
    for (uint64_t number = 0; number < 10; number++)
        assert_int_equal (wm_msg_unseal (frame, bytes, check, number), number == 3 ? header : 0);
    assert_int_equal (wm_msg_check (NULL, 0), 0);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        frame[bit / 8] ^= (uint8_t) (1 << bit % 8);
        assert_int_equal (wm_msg_unseal (frame, bytes, check, 3), 0);
        frame[bit / 8] ^= (uint8_t) (1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof payload; bit++) {
        payload[bit / 8] ^= (uint8_t) (1 << bit % 8);
        assert_int_equal (wm_msg_unseal (frame, bytes, wm_msg_check (payload, sizeof payload), 3),
                          0);
        payload[bit / 8] ^= (uint8_t) (1 << bit % 8);
    }
    for (size_t cut = 0; cut < bytes; cut++)
        assert_int_equal (wm_msg_unseal (frame, cut, check, 3), 0);
    assert_int_equal (wm_msg_unseal (frame, WM_HEADER_BYTES_MAX + 1, check, 3), 0);
}

static void every_type_survives_the_wire (void **state)
{
    for (int type = WM_MSG_HELLO; type < WM_MSG_TYPE_END; type++) {
        wm_msg_t msg = full ((wm_msg_type_t) type), back, again;
        uint8_t frame[WM_HEADER_BYTES_MAX], second[WM_HEADER_BYTES_MAX];
        wm_error_t error;
        size_t bytes = wm_msg_encode (&msg, frame);
        assert_int_equal (wm_msg_decode (&back, frame, bytes, &error), WM_OK);
        assert_int_equal (back.type, type);
        /* encoding what was decoded gives the same bytes: no field of the type was lost */
        assert_int_equal (wm_msg_encode (&back, second), bytes);
        assert_memory_equal (frame, second, bytes);
        assert_int_equal (wm_msg_decode (&again, second, bytes, &error), WM_OK);
        assert_memory_equal (&back, &again, sizeof back);
        assert_string_not_equal (wm_msg_name ((wm_msg_type_t) type), "?");
    }
}

static void fields_arrive (void **state)
{
    wm_msg_t msg = full (WM_MSG_INPUT), back;
    uint8_t frame[WM_HEADER_BYTES_MAX];
    size_t bytes = wm_msg_encode (&msg, frame);
    assert_int_equal (wm_msg_decode (&back, frame, bytes, NULL), WM_OK);
    assert_int_equal (back.code, 70000);
    assert_true (back.size == 65536 && back.mtime_ns == INT64_MIN);
    assert_string_equal (back.path, msg.path);
    assert_string_equal (back.name, msg.name);
    assert_int_equal (back.key.input, 0); /* not a field of INPUT */
}

static void every_cut_is_refused (void **state)
{
    for (int type = WM_MSG_HELLO; type < WM_MSG_TYPE_END; type++) {
        wm_msg_t msg = full ((wm_msg_type_t) type), back;
        uint8_t frame[WM_HEADER_BYTES_MAX + 1];
        size_t bytes = wm_msg_encode (&msg, frame);
        for (size_t cut = 0; cut < bytes; cut++)
            assert_int_equal (wm_msg_decode (&back, frame, cut, NULL), WM_EPEER);
        frame[bytes] = 0;
        assert_int_equal (wm_msg_decode (&back, frame, bytes + 1, NULL), WM_EPEER);
    }
}

/* Makes the string of all `letter` in a header one byte longer. 0: the header has none.  */
static size_t lengthened (uint8_t *frame, size_t bytes, char letter, size_t length)
{
    uint8_t head[3], text[WM_PATH_BYTES_MAX + 8];
    memset (text, letter, length);
    const uint8_t *at = memmem (frame, bytes, text, length);
    if (!at)
        return 0;
    const size_t end = (size_t) (at - frame) + length, before = length < 256 ? 2 : 3;
    const size_t start = (size_t) (at - frame) - before;
    memmove (frame + start + 3 + length + 1, frame + end, bytes - end);
    head[0] = 0xda; /* a string of up to 65535 bytes */
    head[1] = (uint8_t) ((length + 1) >> 8);
    head[2] = (uint8_t) (length + 1);
    memcpy (frame + start, head, 3);
    memset (frame + start + 3, letter, length + 1);
    return start + 3 + length + 1 + bytes - end;
}

/* The longest string leaves its field room for the NUL; one byte more, which would fill the field,
   is refused.  */
static void strings_leave_room_for_their_end (void **state)
{
    static const struct {
        char letter;
        size_t length;
    } field[] = { { 't', WM_TEXT_BYTES_MAX },
                  { 'n', sizeof ((wm_msg_t *) 0)->name - 1 },
                  { 'p', WM_PATH_BYTES_MAX },
                  { 'c', WM_CLASS_BYTES_MAX } };
    int n_seen[4] = { 0 };
    for (int type = WM_MSG_HELLO; type < WM_MSG_TYPE_END; type++)
        for (int i = 0; i < 4; i++) {
            wm_msg_t msg = full ((wm_msg_type_t) type), back;
            wm_error_t error;
            uint8_t frame[2 * WM_HEADER_BYTES_MAX];
            size_t bytes = wm_msg_encode (&msg, frame);
            assert_int_equal (wm_msg_decode (&back, frame, bytes, &error), WM_OK);
            bytes = lengthened (frame, bytes, field[i].letter, field[i].length);
            n_seen[i] += bytes != 0;
            if (bytes && wm_msg_decode (&back, frame, bytes, &error) != WM_EPEER)
                fail_msg ("%s with a string of %zu bytes '%c' is taken",
                          wm_msg_name ((wm_msg_type_t) type), field[i].length + 1, field[i].letter);
        }
    for (int i = 0; i < 4; i++)
        assert_true (n_seen[i] > 0);
}

static void hostile_headers_are_refused (void **state)
{
    static const struct {
        const char *what, *bytes;
        size_t count;
    } hostile[] = {
        { "no array", "\x01", 1 },
        { "array of 2^32-1", "\xdd\xff\xff\xff\xff", 5 },
        { "nested arrays", "\x92\x92\x92\x92", 4 },
        { "type 0", "\x91\x00", 2 },
        { "type out of range", "\x91\xcc\xc8", 3 },
        { "negative type", "\x91\xff", 2 },
        { "string as type", "\x91\xa1x", 3 },
        { "too few fields", "\x92\x01\x01", 3 },
        { "REJECT, binary as text", "\x93\x03\x01\xc4\x01x", 6 },
        { "REJECT, string longer than the frame", "\x93\x03\x01\xdb\xff\xff\xff\xff", 8 },
        { "REJECT, NUL in text", "\x93\x03\x01\xa2x\0", 6 },
        { "REJECT, code above 32 bits", "\x93\x03\xcf\0\0\0\1\0\0\0\0\xa0", 12 },
        { "REJECT, code negative", "\x93\x03\xd0\xff\xa0", 5 },
    };
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        wm_msg_t back;
        wm_error_t error = { WM_OK, "" };
        wm_fault_t fault =
            wm_msg_decode (&back, (const uint8_t *) hostile[i].bytes, hostile[i].count, &error);
        if (fault != WM_EPEER || !*error.text)
            fail_msg ("%s was not refused", hostile[i].what);
    }
    static uint8_t large[WM_HEADER_BYTES_MAX + 1];
    wm_msg_t back;
    assert_int_equal (wm_msg_decode (&back, large, sizeof large, NULL), WM_EPEER);
}

static void random_bytes_never_harm (void **state)
{
    srandom (7);
    for (int round = 0; round < 200000; round++) {
        uint8_t frame[64];
        wm_msg_t back;
        size_t bytes = (size_t) random () % sizeof frame;
        for (size_t i = 0; i < bytes; i++)
            frame[i] = (uint8_t) random ();
        if (bytes && round % 2)
            frame[0] = (uint8_t) (0x90 | random () % 16);
        if (wm_msg_decode (&back, frame, bytes, NULL) == WM_OK)
            assert_true (back.type >= WM_MSG_HELLO && back.type < WM_MSG_TYPE_END);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (seals),
        cmocka_unit_test (every_type_survives_the_wire),
        cmocka_unit_test (fields_arrive),
        cmocka_unit_test (every_cut_is_refused),
        cmocka_unit_test (strings_leave_room_for_their_end),
        cmocka_unit_test (hostile_headers_are_refused),
        cmocka_unit_test (random_bytes_never_harm),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
