/* test_gateway_shared.c - files that clients of the gateway register as shared memory: what is
   opened, what is copied, and a file that its client cuts short.  */
#include "producer/serving/wm_infer.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static int file; /* "a", of 64 bytes: 0, 1, 2 ... */

static const char *path (const char *name)
{
    static char text[128];
    snprintf (text, sizeof text, "%s/%s", folder, name);
    return text;
}

static int setup (void **state)
{
    uint8_t byte[64];
    strcpy (folder, "/tmp/wm-shared-XXXXXX");
    assert_non_null (mkdtemp (folder));
    assert_true ((file = open (path ("a"), O_RDWR | O_CREAT, 0600)) >= 0);
    for (int i = 0; i < 64; i++)
        byte[i] = (uint8_t) i;
    assert_int_equal (write (file, byte, sizeof byte), sizeof byte);
    assert_int_equal (mkdir (path ("sub"), 0700), 0);
    assert_int_equal (symlink ("a", path ("link")), 0);
    assert_int_equal (mkfifo (path ("fifo"), 0600), 0);
    return 0;
}

static int teardown (void **state)
{
    close (file);
    unlink (path ("a"));
    unlink (path ("link"));
    unlink (path ("fifo"));
    rmdir (path ("sub"));
    return rmdir (folder);
}

static void registers (wm_shared_t *self, const char *name, const char *key, json_int_t offset,
                       json_int_t bytes, wm_ks_code_t code, const char *text)
{
    wm_ks_error_t error = { 0 };
    json_t *request =
        json_pack ("{s:s, s:I, s:I}", "key", key, "offset", offset, "byte_size", bytes);
    const wm_ks_code_t got = wm_shared_register (self, name, request, &error);
    json_decref (request);
    if (got != code || !strstr (error.text, text))
        fail_msg ("%s: code %d, \"%s\"; wanted %d, \"%s\"", key, got, error.text, code, text);
}

static void takes (wm_shared_t *self, const char *region, int64_t offset, int64_t bytes,
                   wm_shared_part_t *part, const char *text)
{
    wm_ks_error_t error = { 0 };
    const wm_shared_wish_t wish = { region, offset, bytes };
    const wm_ks_code_t got = wm_shared_take (self, &wish, "x", part, &error);
    if (got != (*text ? WM_KS_INVALID : WM_KS_OK) || !strstr (error.text, text))
        fail_msg ("%lld, %lld: code %d, \"%s\"", (long long) offset, (long long) bytes, got,
                  error.text);
}

/* Only a regular file of the folder itself is opened, and only what it has.  */
static void test_register (void **state)
{
    wm_shared_t *self = wm_shared_new (folder);
    char up[160];
    snprintf (up, sizeof up, "../%s/a", strrchr (folder, '/') + 1);
    const char *const keys[] = { "", "/", ".", "..", "/..", "//a", "sub/../a", up, "a/" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        registers (self, "r", keys[i], 0, 4, WM_KS_INVALID, "must be a file's name");
    registers (self, "r", "link", 0, 4, WM_KS_INTERNAL, "it is a symbolic link");
    registers (self, "r", "fifo", 0, 4, WM_KS_INTERNAL, "is no regular file");
    registers (self, "r", "sub", 0, 4, WM_KS_INTERNAL, "directory");
    registers (self, "r", "none", 0, 4, WM_KS_INTERNAL, "No such file");
    registers (self, "r", "none", 0, 0, WM_KS_INTERNAL, "No such file");
    registers (self, "", "a", 0, 4, WM_KS_INVALID, "needs a name");
    registers (self, "\xff", "a", 0, 4, WM_KS_INVALID, "needs a name");
    registers (self, "r", "a", 0, 0, WM_KS_INVALID, "above 0");
    registers (self, "r", "a", -1, 4, WM_KS_INVALID, "above 0");
    registers (self, "r", "a", 0, 65, WM_KS_INVALID, "which has 64");
    registers (self, "r", "a", 61, 4, WM_KS_INVALID, "which has 64");
    registers (self, "r", "a", INT64_MAX, INT64_MAX, WM_KS_INVALID, "which has 64");
    registers (NULL, "r", "a", 0, 4, WM_KS_UNIMPLEMENTED, "--shared-memory");
    registers (self, "r", "/a", 60, 4, WM_KS_OK, "");
    registers (self, "r", "/a", 60, 4, WM_KS_INVALID, "already in manager");
    for (int i = 1; i < WM_SHARED_REGIONS_MAX; i++) {
        char name[16];
        snprintf (name, sizeof name, "%d", i);
        registers (self, name, "a", 0, 64, WM_KS_OK, "");
    }
    registers (self, "last", "a", 0, 64, WM_KS_EXHAUSTED, "1024 shared memory regions");
    wm_ks_error_t error;
    assert_int_equal (wm_shared_unregister (self, "7", &error), WM_KS_OK);
    registers (self, "last", "a", 0, 64, WM_KS_OK, "");
    assert_null (wm_shared_status (self, "7", &error));
    json_t *status = wm_shared_status (self, "", &error);
    assert_int_equal (json_object_size (status), WM_SHARED_REGIONS_MAX);
    json_decref (status);
    wm_shared_destroy (&self);
}

/* A file of another user is not opened, whatever it permits.  */
static void test_owner (void **state)
{
    wm_shared_t *self = wm_shared_new (folder);
    if (geteuid ())
        skip ();
    assert_int_equal (fchown (file, 12345, 12345) | fchmod (file, 0666), 0);
    registers (self, "r", "a", 0, 4, WM_KS_INTERNAL, "belongs to user 12345");
    assert_int_equal (fchown (file, 0, 0), 0);
    wm_shared_destroy (&self);
}

/* Bytes go to and from their places; nothing beside them is touched. A part outlives its region's
   name.  */
static void test_copies (void **state)
{
    wm_shared_t *self = wm_shared_new (folder);
    wm_shared_part_t part = { 0 }, none = { 0 };
    wm_ks_error_t error = { 0 };
    uint8_t got[8];
    registers (self, "r", "a", 8, 32, WM_KS_OK, "");
    takes (self, "s", 0, 4, &none, "Unable to find");
    static const int64_t bad[][2] = { { 0, 33 }, { 32, 1 },         { -1, 4 },
                                      { 0, -1 }, { INT64_MAX, 4 },  { 4, INT64_MAX },
                                      { 33, 0 }, { INT64_MIN, 32 }, { INT64_MAX, INT64_MAX } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        takes (self, "r", bad[i][0], bad[i][1], &none, "Invalid offset + byte size");
    assert_null (none.region);
    takes (self, "r", 32, 0, &none, "");
    wm_shared_drop (&none);
    takes (self, "r", 4, 8, &part, "");
    assert_int_equal (wm_shared_unregister (self, "", &error), WM_KS_OK);
    assert_int_equal (wm_shared_read (&part, 2, got, 3, &error), WM_KS_OK);
    assert_memory_equal (got, "\16\17\20", 3); /* 8 + 4 + 2 */
    assert_int_equal (wm_shared_write (&part, 6, "xy", 2, &error), WM_KS_OK);
    assert_int_equal (pread (file, got, 4, 17), 4);
    assert_memory_equal (got, "\21xy\24", 4);
    wm_shared_drop (&part);
    wm_shared_destroy (&self);
}

/* What the client has cut short is neither read nor made longer again.  */
static void test_cut (void **state)
{
    wm_shared_t *self = wm_shared_new (folder);
    wm_shared_part_t part = { 0 };
    wm_ks_error_t error = { 0 };
    uint8_t got[64];
    registers (self, "r", "a", 0, 64, WM_KS_OK, "");
    takes (self, "r", 0, 64, &part, "");
    assert_int_equal (ftruncate (file, 63), 0);
    assert_int_equal (wm_shared_read (&part, 0, got, 64, &error), WM_KS_INVALID);
    assert_non_null (strstr (error.text, "is shorter than"));
    assert_int_equal (wm_shared_write (&part, 0, got, 64, &error), WM_KS_INVALID);
    assert_int_equal (wm_shared_read (&part, 0, got, 63, &error), WM_KS_OK);
    assert_int_equal (wm_shared_write (&part, 0, got, 63, &error), WM_KS_OK);
    assert_int_equal (lseek (file, 0, SEEK_END), 63);
    wm_shared_drop (&part);
    wm_shared_destroy (&self);
}

/* A request whose input and one of whose outputs are in regions: the input is copied by slices, its
   bytes count, and the output is written to its place alone.  */
static void test_request (void **state)
{
    static const char json[] =
        "{\"inputs\": [{\"name\": \"x\", \"shape\": [2, 4], \"datatype\": \"FP32\", \"parameters\":"
        " {\"shared_memory_region\": \"r\", \"shared_memory_offset\": 4, "
        "\"shared_memory_byte_size\": 32}}], \"outputs\": [{\"name\": \"y\"}, {\"name\": \"z\", "
        "\"parameters\": {\"shared_memory_region\": \"r\", \"shared_memory_byte_size\": 8}}]}";
    wm_front_t front = { .shared = wm_shared_new (folder), .message_max = 1 << 20 };
    wm_infer_t infer = { .front = &front, .request.model = "m" };
    wm_ks_error_t error = { 0 };
    registers (front.shared, "r", "a", 8, 56, WM_KS_OK, "");
    assert_int_equal (wm_infer_decode_http (&infer, json, sizeof json - 1, sizeof json - 1, &error),
                      WM_KS_OK);
    assert_int_equal (infer.values_bytes, 32);
    int n_slice = 1;
    for (size_t left = 5; wm_infer_values (&infer, &left, &error); left = 5, n_slice++)
        assert_int_equal (left, 0);
    assert_int_equal (n_slice, 7);
    assert_int_equal (error.code, WM_KS_OK);
    for (int i = 0; i < 32; i++)
        assert_int_equal (infer.request.input[0].data[i], 12 + i);

    const wm_kserve_tensor_t output[2] = {
        { "y", WM_TYPE_UINT8, 1, { 2 }, (const uint8_t *) "no", 2 },
        { "z", WM_TYPE_UINT8, 1, { 8 }, (const uint8_t *) "abcdefgh", 8 }
    };
    infer.request.transport = &infer;
    uint8_t got[10];
    n_slice = 1;
    wm_placed_t placed = { 0 };
    for (size_t left = 3; wm_infer_calls.place (&infer.request, output, 2, &placed, &left, &error);
         left = 3, n_slice++)
        assert_int_equal (left, 0);
    assert_int_equal (n_slice, 3);
    assert_int_equal (error.code, WM_KS_OK);
    assert_int_equal (pread (file, got, 10, 7), 10);
    assert_memory_equal (got, "\7abcdefgh\20", 10);
    wm_kserve_tensor_t longer[2] = { output[0], output[1] };
    longer[1].bytes = 9;
    size_t left = SIZE_MAX;
    placed = (wm_placed_t){ 0 };
    assert_false (wm_infer_calls.place (&infer.request, longer, 2, &placed, &left, &error));
    assert_int_equal (error.code, WM_KS_INVALID);
    assert_non_null (strstr (error.text, "should be at least 9 bytes"));
    wm_infer_free (&infer);

    front.message_max = 31; /* what is copied counts as if it had come in the message */
    infer = (wm_infer_t){ .front = &front, .request.model = "m" };
    assert_int_equal (wm_infer_decode_http (&infer, json, sizeof json - 1, sizeof json - 1, &error),
                      WM_KS_EXHAUSTED);
    assert_non_null (strstr (error.text, "larger than a request may be, 31 bytes"));
    wm_infer_free (&infer);
    char name[1025] = "";
    memset (name, 'n', sizeof name - 1);
    registers (front.shared, name, "a", 8, 56, WM_KS_INVALID, "has at most 1023 bytes");
    wm_shared_destroy (&front.shared);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown (test_register, setup, teardown),
        cmocka_unit_test_setup_teardown (test_owner, setup, teardown),
        cmocka_unit_test_setup_teardown (test_copies, setup, teardown),
        cmocka_unit_test_setup_teardown (test_cut, setup, teardown),
        cmocka_unit_test_setup_teardown (test_request, setup, teardown),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
