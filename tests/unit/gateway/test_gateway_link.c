/* test_gateway_link.c - the gateway's session through helpers that end: what each new one is sent,
   and what its owner learns. This program plays the helper, too.  */
#include "producer/serving/wm_link.h"
#include "tests/unit/unit.h"

#include <czmq.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char seen[64]; /* the calls, one letter each */
static wm_loop_t *loop;
static wm_link_t *session;
static wm_link_batch_t batch;
static uint32_t n_answered;
static char failed[160];

/* ---- the helper ------------------------------------------------------------------------------ */

static int answer (uint64_t number, float value)
{
    const uint8_t status = 0;
    const wm_library_frame_t frame = { WM_LIBRARY_RESULT, 1, number, 1 + sizeof value };
    return write (WM_LIBRARY_FD, &frame, sizeof frame) < 0 ||
           write (WM_LIBRARY_FD, &status, 1) < 0 || write (WM_LIBRARY_FD, &value, sizeof value) < 0;
}

static int refuse (void)
{
    const wm_library_frame_t frame = { WM_LIBRARY_FAILED, WM_EHOST, 0, 3 };
    return write (WM_LIBRARY_FD, &frame, sizeof frame) < 0 || write (WM_LIBRARY_FD, "BYE", 3) < 0;
}

/* Reads bytes that are not looked at.  */
static bool pass_over (uint64_t bytes)
{
    static uint8_t from[1 << 16];
    while (bytes) {
        const ssize_t n =
            read (WM_LIBRARY_FD, from, bytes < sizeof from ? (size_t) bytes : sizeof from);
        if (n <= 0)
            return false;
        bytes -= (uint64_t) n;
    }
    return true;
}

/* Tells that it is ready and that it waits, and ends when a batch comes; one that is given 2.0
   answers, and goes on; one that is given less than 0 reports that its broker refused it. With
   WM_TEST_LINK in its environment it first answers what it was not sent ("early"), is refused
   before it is ready ("never") or has a model of other outputs ("other"). Exits with 1 where it is
   given memory.  */
static int help (int argc, char **argv)
{
    const char *how = getenv ("WM_TEST_LINK") ? getenv ("WM_TEST_LINK") : "";
    const wm_library_facts_t facts = { .n_value = 1,
                                       .n_output = strcmp (how, "other") == 0 ? 2 : 1,
                                       .model = "m" };
    wm_library_frame_t frame = { .type = WM_LIBRARY_READY, .bytes = sizeof facts };
    float value;
    for (int i = 0; i < argc; i++)
        if (strcmp (argv[i], "--memory") == 0)
            return 1;
    if (strcmp (how, "never") == 0)
        return refuse ();
    if (strcmp (how, "early") == 0 && answer (1, 7))
        return 7;
    if (write (WM_LIBRARY_FD, &frame, sizeof frame) < 0 ||
        write (WM_LIBRARY_FD, &facts, sizeof facts) < 0)
        return 2;
    for (;;) {
        if (read (WM_LIBRARY_FD, &frame, sizeof frame) != sizeof frame ||
            read (WM_LIBRARY_FD, &value, sizeof value) != sizeof value)
            return 3;
        const uint64_t number = frame.number, more = frame.bytes - sizeof value;
        if (value < 0)
            return refuse ();
        frame = (wm_library_frame_t){ .type = WM_LIBRARY_WAITS, .bytes = 1 };
        if (write (WM_LIBRARY_FD, &frame, sizeof frame) < 0 || write (WM_LIBRARY_FD, "w", 1) < 0)
            return 4;
        if (value < 2)
            return 0;
        if (!pass_over (more)) /* an answer to what was not sent whole is none */
            return 6;
        if (answer (number, value))
            return 5;
    }
}

/* ---- the owner ------------------------------------------------------------------------------- */

static float rows[1 << 20] = { 1 }; /* more than the sockets hold */
static float *const row = rows;
static size_t n_value = 1;
static bool is_sent; /* what on_ready else sends */

static void on_ready (void *argument, const wm_library_facts_t *facts)
{
    assert_int_equal (facts->n_value, 1);
    strcat (seen, "r");
    if (!is_sent)
        wm_link_send (session, &batch, row, 1, n_value);
}

static void on_answered (void *argument, wm_link_batch_t *one, const uint8_t *status,
                         const uint8_t *score, const char *text)
{
    float value;
    assert_ptr_equal (one, &batch);
    assert_int_equal (*status, 0);
    assert_int_equal ((uintptr_t) score % sizeof value, 0); /* behind one status */
    memcpy (&value, score, sizeof value);
    assert_true (value == 2);
    strcat (seen, "a");
    n_answered++;
    wm_loop_stop (loop);
}

static void on_waits (void *argument, const char *text)
{
    strcat (seen, *text ? text : "-");
    if (*text)
        *row = 2; /* what the next helper is sent is answered */
}

static void on_refused (void *argument, const char *text, unsigned n)
{
    assert_string_equal (text, "BYE");
    strcat (seen, (const char[]){ (char) ('0' + n), 0 });
    *row = n < 4 ? *row : 2;
}

static void on_failed (void *argument, wm_fault_t fault, const char *text)
{
    snprintf (failed, sizeof failed, "%s", text);
    strcat (seen, "f");
    wm_loop_stop (loop);
}

static const wm_link_calls_t calls = { on_ready, on_answered, on_waits, on_refused, on_failed };

/* The first helper waits and ends in the middle of the batch; its owner learns that the second one,
   which gets the batch from its beginning, does not wait any more. The kernel gave no region: rows
   go through the socket.  */
static void test_helper_ends (void **state)
{
    n_value = sizeof rows / sizeof *rows;
    loop = wm_loop_new ();
    session = wm_link_new (loop, "ipc:///proc/nowhere", NULL, NULL, &calls, NULL);
    assert_int_equal (wm_loop_run (loop), 0);
    n_value = 1;
    assert_int_equal (n_answered, 1);
    assert_string_equal (seen, "rw-wa");
    wm_link_destroy (&session);
    assert_int_equal (waitpid (-1, NULL, WNOHANG), -1); /* no helper is left */
    assert_int_equal (errno, ECHILD);
    wm_loop_destroy (&loop);
}

/* The broker refuses what it served before, again and again: each helper is sent the batch that was
   not answered, and the owner learns how often that was. (The first READY of each new one tells
   that nothing is waited for; row is what the helper gets.)  */
static void test_broker_refuses (void **state)
{
    *seen = 0;
    n_answered = 0;
    *row = -1;
    loop = wm_loop_new ();
    session = wm_link_new (loop, "ipc:///proc/nowhere", NULL, NULL, &calls, NULL);
    assert_int_equal (wm_loop_run (loop), 0);
    assert_int_equal (n_answered, 1);
    assert_string_equal (seen, "r1-2-3-4-wa");
    *row =
        -1; /* an answer has forgiven what was refused before it; now a helper has another model */
    setenv ("WM_TEST_LINK", "other", 1);
    wm_link_send (session, &batch, row, 1, n_value);
    assert_int_equal (wm_loop_run (loop), 0);
    assert_string_equal (seen, "r1-2-3-4-wa1f");
    assert_string_equal (failed, "another model is now at this broker's address");
    unsetenv ("WM_TEST_LINK");
    wm_link_destroy (&session);
    wm_loop_destroy (&loop);
}

/* A helper that is refused before it was ever ready fails for good, with the broker's words.  */
static void test_never_ready (void **state)
{
    *seen = 0;
    setenv ("WM_TEST_LINK", "never", 1);
    loop = wm_loop_new ();
    session = wm_link_new (loop, "ipc:///proc/nowhere", NULL, NULL, &calls, NULL);
    assert_int_equal (wm_loop_run (loop), 0);
    assert_string_equal (seen, "f");
    assert_string_equal (failed, "BYE");
    unsetenv ("WM_TEST_LINK");
    wm_link_destroy (&session);
    wm_loop_destroy (&loop);
}

/* An answer to a batch that was not sent is none.  */
static void test_early (void **state)
{
    *seen = 0;
    n_answered = 0;
    *row = 2;
    setenv ("WM_TEST_LINK", "early", 1);
    loop = wm_loop_new ();
    session = wm_link_new (loop, "ipc:///proc/nowhere", NULL, NULL, &calls, NULL);
    wm_link_send (session, &batch, row, 1, n_value); /* it waits for a helper that is ready */
    is_sent = true;
    assert_int_equal (wm_loop_run (loop), 0);
    is_sent = false;
    assert_string_equal (seen, "rwa");
    unsetenv ("WM_TEST_LINK");
    wm_link_destroy (&session);
    wm_loop_destroy (&loop);
}

/* The link starts wiremill-producer beside the program that it is in: goes on as a copy of itself
   that has this name. Exits where it cannot.  */
static void take_name (void)
{
    char self[PATH_MAX] = "", folder[] = "/tmp/wm-link-XXXXXX", copy[64], command[2 * PATH_MAX];
    if (readlink ("/proc/self/exe", self, sizeof self - 1) > 0 && mkdtemp (folder)) {
        snprintf (copy, sizeof copy, "%s/wiremill-producer", folder);
        snprintf (command, sizeof command, "cp '%s' '%s'", self, copy);
        if (system (command) == 0)
            execl (copy, copy, "test", folder, NULL);
    }
    perror ("test_gateway_link");
    exit (1);
}

int main (int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (test_helper_ends),
                                        cmocka_unit_test (test_broker_refuses),
                                        cmocka_unit_test (test_never_ready),
                                        cmocka_unit_test (test_early) };
    if (argc > 1 && strcmp (argv[1], "client") == 0)
        return help (argc, argv);
    if (argc < 3 || strcmp (argv[1], "test") != 0)
        take_name ();
    const int n_failed = cmocka_run_group_tests_name ("gateway/link", tests, NULL, NULL);
    unlink (argv[0]);
    rmdir (argv[2]);
    return n_failed;
}
