/* test_ops_show.c - lines for people: what is left out where a terminal is narrow.  */
#include "ops/ask/wm_arithmetic.h"
#include "ops/ask/wm_show.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void durations (void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } rows[] = { { 0, "0.0 s" },         { 12.34, "12.3 s" },      { 59.94, "59.9 s" },
                 { 59.96, "1 min 0 s" }, { 63, "1 min 3 s" },      { 3599, "59 min 59 s" },
                 { 8088, "2 h 14 min" }, { 86399, "23 h 59 min" }, { 86400, "1 d 0 h" },
                 { 243360, "2 d 19 h" } };
    char text[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal (wm_show_time (rows[i].seconds, text), rows[i].text);
    assert_string_equal (wm_show_short (0.28, text), "0.3");
    assert_string_equal (wm_show_short (368.5, text), "369"); /* as the report prints it */
    assert_string_equal (wm_show_short (0, text), "0");
}

static void fits (int width, const char *want)
{
    char line[WM_WORDS_WIDTH_MAX + 1];
    const wm_show_part_t part[] = {
        { "12.5 %", 0 }, { "files 1/2", 3 }, { "", 1 }, { "ETA 04:12", 2 }
    };
    assert_int_equal (wm_show_fit (part, 4, width, line), strlen (want));
    assert_string_equal (line, want);
}

static void test_fit (void **state)
{
    fits (WM_WORDS_WIDTH_MAX, "12.5 %  files 1/2  ETA 04:12");
    fits (28, "12.5 %  files 1/2  ETA 04:12");
    fits (27, "12.5 %  ETA 04:12");
    fits (17, "12.5 %  ETA 04:12");
    fits (16, "12.5 %");
    fits (4, "12.5");
}

static void test_rows (void **state)
{
    char text[64];
    assert_string_equal (wm_show_rows (1, "hits", text), "1 hit");
    assert_string_equal (wm_show_rows (1, "patches", text), "1 patch");
    assert_string_equal (wm_show_rows (1, "batches", text), "1 batch");
    assert_string_equal (wm_show_rows (0, "space points", text), "0 space points");
    assert_string_equal (wm_show_rows (2345, "windows", text), "2,345 windows");
}

static void test_width (void **state)
{
    const int terminal = posix_openpt (O_RDWR | O_NOCTTY);
    assert_true (terminal >= 0 && grantpt (terminal) == 0 && unlockpt (terminal) == 0);
    const int fd = open (ptsname (terminal), O_RDWR | O_NOCTTY);
    assert_true (fd >= 0);
    struct winsize size = { .ws_col = 61 };
    assert_int_equal (ioctl (fd, TIOCSWINSZ, &size), 0);
    assert_int_equal (wm_words_width (fd), 61);
    size.ws_col = 120; /* resized */
    assert_int_equal (ioctl (fd, TIOCSWINSZ, &size), 0);
    assert_int_equal (wm_words_width (fd), 120);
    size.ws_col = 0; /* it does not know */
    assert_int_equal (ioctl (fd, TIOCSWINSZ, &size), 0);
    setenv ("COLUMNS", "70", 1);
    assert_int_equal (wm_words_width (fd), 70);
    unsetenv ("COLUMNS");
    assert_int_equal (wm_words_width (fd), 80);
    close (fd);
    close (terminal);
    const int file = open ("/dev/null", O_RDWR); /* no terminal */
    assert_int_equal (wm_words_width (file), 80);
    setenv ("COLUMNS", "100", 1);
    assert_int_equal (wm_words_width (file), 100);
    setenv ("COLUMNS", "1000000", 1);
    assert_int_equal (wm_words_width (file), WM_WORDS_WIDTH_MAX);
    unsetenv ("COLUMNS");
    close (file);
}

static void wraps (const char *text, int width, const char *wanted)
{
    char *got = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream (&got, &bytes);
    assert_non_null (out);
    wm_words_wrap (out, text, width);
    fclose (out);
    assert_string_equal (got, wanted);
    free (got);
}

static void test_wrap (void **state)
{
    wraps ("", 20, "\n");
    wraps ("as wide as that", 15, "as wide as that\n");
    wraps ("as wide as that", 14, "as wide as\n  that\n");
    wraps ("  one two  three four", 11, "  one two\n    three\n    four\n");
    wraps ("held: /a/very/long/path/of.h5: no", 12, "held:\n  /a/very/long/path/of.h5:\n  no\n");
    wraps ("then run `wiremill resume out/` again", 20,
           "then run\n  `wiremill resume out/`\n  again\n");
    wraps ("\303\244\303\266 \303\274", 4, "\303\244\303\266 \303\274\n"); /* as columns */
    wraps ("open ` and no end of it", 10, "open\n  ` and no end of it\n");
}

/* Nothing behind the end of a line is shown; only a bar has a colour.  */
static void test_progress (void **state)
{
    static const struct {
        const char line[24], *shown;
    } rows[] = { { "reading: 1 MB\0secret", "\r\033[Kreading: 1 MB" },
                 { "a [b\0secret", "\r\033[Ka [b" },
                 { "[#-] 50 %\0secret", "\r\033[K\033[36m[#-]\033[0m 50 %" } };
    const int before = dup (STDERR_FILENO);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char got[64] = "";
        int fd[2];
        assert_int_equal (pipe (fd), 0);
        dup2 (fd[1], STDERR_FILENO);
        wm_progress_t progress = { .terminal = true, .has_colors = true };
        wm_progress_show (&progress, rows[i].line, 1 << 20);
        dup2 (before, STDERR_FILENO);
        close (fd[1]);
        assert_true (read (fd[0], got, sizeof got - 1) > 0);
        close (fd[0]);
        assert_string_equal (got, rows[i].shown);
    }
    close (before);
}

/* A signature that lacks its end is another one.  */
static void test_classes (void **state)
{
    char *text = NULL;
    size_t bytes;
    json_t *status = json_pack ("{s:[{s:s, s:s, s:f, s:i}]}", "arithmetic", "class",
                                "avx512-vnni/int16,avx512/bf16", "signature",
                                "sparse/avx512-vnni/int16/v1", "error", 1.4e-4, "hits", 2000);
    FILE *out = open_memstream (&text, &bytes);
    wm_arithmetic_classes (out, status);
    fclose (out);
    assert_non_null (strstr (text, "\navx512-vnni/int16,avx512/bf16 sparse/avx512-vnni/int16/v1 "
                                   "1.4e-04 on 2,000 hits\n"));
    free (text);
    json_decref (status);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (durations),   cmocka_unit_test (test_fit),
        cmocka_unit_test (test_rows),   cmocka_unit_test (test_width),
        cmocka_unit_test (test_wrap),   cmocka_unit_test (test_progress),
        cmocka_unit_test (test_classes)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
