/* test_gpuworker_label.c - what a worker calls itself.  */
#include "gpuworker/wm_lane.h"
#include "tests/unit/unit.h"

#include <string.h>

static const char *label (const char *host, int pid, const char *job)
{
    static char text[4][64];
    static unsigned n;
    wm_lane_label (text[n++ % 4], host, pid, job);
    return text[(n - 1) % 4];
}

/* The machine that the broker sees.  */
static size_t host_bytes (const char *text)
{
    return (size_t) (strrchr (text, ':') - text);
}

static void test_short (void **state)
{
    assert_string_equal (label ("node7", 4711, NULL), "node7:4711");
    assert_string_equal (label ("node7", 4711, "123_4"), "node7:4711/123_4");
    assert_string_equal (label ("n234567890123456789.site", 1, NULL), "n234567890123456789.site:1");
}

/* Nodes whose names differ behind the cut are two machines, and workers of one node are of one,
   whether a farm started them or not.  */
static void test_long (void **state)
{
    const char *a = label ("compute-rack0017-node0001.cluster.example", 1, "123");
    const char *b = label ("compute-rack0017-node0002.cluster.example", 1, "123");
    const char *c = label ("compute-rack0017-node0001.cluster.example", 22, NULL);
    assert_int_equal (strncmp (a, "compute-rack001~", 16), 0);
    assert_int_equal (host_bytes (a), 24);
    assert_int_equal (host_bytes (b), 24);
    assert_memory_not_equal (a, b, 24);
    assert_memory_equal (a, c, 25);
    assert_string_equal (a + 24, ":1/123");
}

/* All of it fits: a cut label would lose its job, or be a host without a process.  */
static void test_longest (void **state)
{
    char host[256] = "";
    memset (host, 'h', 255);
    const char *text = label (host, 4194304, "123456789012345678901234567");
    assert_string_equal (text + 24, ":4194304/123456789012345678901234");
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_short),
        cmocka_unit_test (test_long),
        cmocka_unit_test (test_longest),
    };
    return cmocka_run_group_tests_name ("gpuworker_label", tests, NULL, NULL);
}
