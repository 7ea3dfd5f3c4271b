/* test_schema_log.c - lines with their time, however they are printed.  */
#include "schema/base/wm_log.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_BYTES 20000 /* more than the buffer holds */

static void say_things (void)
{
    wm_log_start ();
    errno = ENOSPC;
    fprintf (stderr, "one\ntwo ");
    if (errno != ENOSPC)
        exit (1);
    fputs ("and", stderr);
    fprintf (stderr, " %s\n", "more");
    for (int i = 0; i < LONG_BYTES; i++)
        fputc ('x', stderr);
    fputs ("\nno end", stderr);
    exit (0);
}

/* Reads a line of `in` and returns it without its time, which it must have.  */
static const char *next (FILE *in, char line[LONG_BYTES + 100])
{
    assert_non_null (fgets (line, LONG_BYTES + 100, in));
    const char *rest = wm_log_line (line);
    assert_int_equal (rest - line, WM_LOG_TIME_BYTES - 1);
    assert_memory_equal (line, "20", 2);
    return rest;
}

static void each_line_has_its_time (void **state)
{
    static char line[LONG_BYTES + 100];
    int ends[2], status;
    assert_int_equal (pipe (ends), 0);
    const pid_t pid = fork ();
    if (pid == 0) {
        dup2 (ends[1], STDERR_FILENO);
        close (ends[0]);
        close (ends[1]);
        say_things ();
    }
    close (ends[1]);
    FILE *in = fdopen (ends[0], "r");
    assert_non_null (in);
    assert_string_equal (next (in, line), "one\n");
    assert_string_equal (next (in, line), "two and more\n");
    assert_int_equal (strspn (next (in, line), "x"), LONG_BYTES);
    assert_string_equal (next (in, line), "no end");
    assert_null (fgets (line, sizeof line, in));
    fclose (in);
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (status, 0);
}

/* A pipe that JOURNAL_STREAM names stands for the journal's socket.  */
static void in_the_journal_it_has_its_level (void **state)
{
    char text[256], stream[64];
    int ends[2], status;
    struct stat st;
    assert_int_equal (pipe (ends), 0);
    assert_int_equal (fstat (ends[1], &st), 0);
    for (int is_journal = 1; is_journal >= 0; is_journal--) {
        const pid_t pid = fork ();
        if (pid == 0) {
            snprintf (stream, sizeof stream, "%llu:%llu", (unsigned long long) st.st_dev,
                      (unsigned long long) st.st_ino + !is_journal);
            setenv ("JOURNAL_STREAM", stream, 1);
            dup2 (ends[1], STDERR_FILENO);
            wm_log_start ();
            wm_log_level (WM_LOG_ERROR);
            fprintf (stderr, "%sone\ntwo\n", wm_log_time (text));
            _exit (0);
        }
        assert_int_equal (waitpid (pid, &status, 0), pid);
        assert_int_equal (status, 0);
        const ssize_t n = read (ends[0], text, sizeof text - 1);
        text[n > 0 ? n : 0] = 0;
        if (is_journal)
            assert_string_equal (text, "<3>one\n<6>two\n");
        else
            assert_memory_equal (text, "20", 2);
    }
    close (ends[0]);
    close (ends[1]);
}

static void a_line_without_a_time_is_all_line (void **state)
{
    assert_string_equal (wm_log_line ("2026-11-21T10:30:00Z said"), "said");
    assert_string_equal (wm_log_line ("2026-11-21 said"), "2026-11-21 said");
    assert_string_equal (wm_log_line (""), "");
}

static void words_of_others_are_one_line (void **state)
{
    char text[] = "a\nheld: b\x1b[2J\x7f\xc3\xa9";
    wm_log_sanitize (text);
    assert_string_equal (text, "a?held: b?[2J?\xc3\xa9");
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (each_line_has_its_time),
        cmocka_unit_test (in_the_journal_it_has_its_level),
        cmocka_unit_test (a_line_without_a_time_is_all_line),
        cmocka_unit_test (words_of_others_are_one_line),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
