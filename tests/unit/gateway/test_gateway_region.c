/* test_gateway_region.c - memory that two processes share: pieces never overlap, and are used
   again.  */
#include "producer/serving/wm_region.h"
#include "schema/session/wm_library.h"
#include "tests/unit/unit.h"

#include <czmq.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 1 << 16, LINE = 64 };

static uint64_t place_of (const wm_region_t *region, const void *piece)
{
    uint64_t place = 0;
    assert_true (wm_region_place (region, piece, &place));
    return place;
}

static void pieces_fit (void **state)
{
    wm_region_t *region = wm_region_new (BYTES);
    char *first = wm_region_take (region, 100), *second = wm_region_take (region, 1);
    assert_int_equal (place_of (region, first), 0);
    assert_int_equal (place_of (region, second), 2 * LINE);
    char *rest = wm_region_take (region, BYTES - 3 * LINE);
    assert_non_null (rest);
    assert_null (wm_region_take (region, 1));
    assert_true (wm_region_give (region, first));
    assert_null (wm_region_take (region, 2 * LINE + 1));
    assert_ptr_equal (wm_region_take (region, 2 * LINE), first);
    assert_true (wm_region_give (region, rest));
    assert_true (wm_region_give (region, first));
    assert_true (wm_region_give (region, second));
    assert_ptr_equal (wm_region_take (region, BYTES), first);
    wm_region_destroy (&region);
    assert_null (region);
    wm_region_destroy (&region);
}

/* Hundreds of pieces of all sizes come and go; what was written in each stays.  */
static void pieces_do_not_overlap (void **state)
{
    enum { PIECES = 200 };
    struct {
        unsigned char *at;
        size_t bytes;
        int value;
    } piece[PIECES] = { 0 };
    wm_region_t *region = wm_region_new (BYTES);
    unsigned random = 7;
    size_t n_none = 0;
    for (int turn = 0; turn < 20000; turn++) {
        random = random * 1103515245u + 12345u;
        const size_t i = (random >> 16) % PIECES, bytes = 1 + (random >> 8) % 700;
        if (piece[i].at) {
            for (size_t b = 0; b < piece[i].bytes; b++)
                assert_int_equal (piece[i].at[b], piece[i].value);
            assert_true (wm_region_give (region, piece[i].at));
        }
        piece[i].at = wm_region_take (region, bytes);
        piece[i].bytes = bytes;
        piece[i].value = turn & 255;
        n_none += !piece[i].at;
        if (piece[i].at)
            memset (piece[i].at, piece[i].value, bytes);
    }
    assert_in_range (n_none, 1, 19000);
    wm_region_destroy (&region);
}

static void of_another (void **state)
{
    wm_region_t *region = wm_region_new (BYTES);
    uint64_t place;
    char own[8];
    assert_false (wm_region_give (region, own));
    assert_false (wm_region_place (region, own, &place));
    char *all = wm_region_take (region, BYTES);
    assert_true (wm_region_place (region, all + BYTES - 1, &place));
    assert_false (wm_region_place (region, all + BYTES, &place)); /* just behind it */
    assert_true (wm_region_give (region, all));
    assert_null (wm_region_take (region, BYTES + 1));
    assert_null (wm_region_take (region, SIZE_MAX));
    assert_null (wm_region_take (region, 0));
    assert_null (wm_region_take (NULL, 1));
    assert_false (wm_region_give (NULL, own));
    wm_region_destroy (&region);
}

/* Who opens the file sees what is in the pieces.  */
static void both_see_it (void **state)
{
    char path[32];
    struct stat status;
    wm_region_t *region = wm_region_new (BYTES);
    assert_true (wm_region_fd (region) > WM_LIBRARY_FD);
    snprintf (path, sizeof path, "/proc/self/fd/%d", wm_region_fd (region));
    assert_int_equal (stat (path, &status), 0);
    assert_int_equal (status.st_size, BYTES);
    wm_region_take (region, LINE);
    char *piece = wm_region_take (region, LINE), seen[8];
    strcpy (piece, "patches");
    assert_int_equal (pread (wm_region_fd (region), seen, 8, LINE), 8);
    assert_string_equal (seen, "patches");
    wm_region_destroy (&region);
}

static void the_kernel_gives_none (void **state)
{
    struct rlimit before, none;
    assert_null (wm_region_new (SIZE_MAX / 2)); /* no such file, no such address space */
    getrlimit (RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 3;
    setrlimit (RLIMIT_NOFILE, &none);
    assert_null (wm_region_new (BYTES));
    setrlimit (RLIMIT_NOFILE, &before);
}

/* The file's first descriptor is given back, whichever it was.  */
static void descriptors_are_given_back (void **state)
{
    const int input = dup (0);
    close (0);
    wm_region_t *region = wm_region_new (BYTES);
    assert_int_equal (fcntl (0, F_GETFD), -1);
    wm_region_destroy (&region);
    dup2 (input, 0);
    close (input);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (pieces_fit),
        cmocka_unit_test (pieces_do_not_overlap),
        cmocka_unit_test (of_another),
        cmocka_unit_test (both_see_it),
        cmocka_unit_test (the_kernel_gives_none),
        cmocka_unit_test (descriptors_are_given_back),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
