/* test_schema_text.c - lines, blanks and cells of texts, by buffers of every size; joins.  */
#include "schema/base/wm_grow.h"
#include "schema/base/wm_text.h"
#include "schema/session/wm_join.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int file_of (const char *text, size_t bytes)
{
    const int fd = memfd_create ("text", 0);
    assert_int_equal (write (fd, text, bytes), bytes);
    lseek (fd, 0, SEEK_SET);
    return fd;
}

/* The lines of a text between bars, and the fault behind them.  */
static void lines_are (const char *text, size_t bytes, size_t bytes_max, const char *want)
{
    char got[900] = "", *line;
    wm_error_t error = { .fault = WM_OK };
    wm_lines_t lines;
    const int fd = file_of (text, bytes);
    assert_int_equal (wm_lines_start (&lines, fd, "t", bytes_max, &error), WM_OK);
    uint32_t n = 0;
    while (!wm_lines_next (&lines, &line, &error) && line) {
        assert_int_equal (lines.line, ++n);
        snprintf (got + strlen (got), sizeof got - strlen (got), "%s|", line);
    }
    if (error.fault)
        snprintf (got + strlen (got), sizeof got - strlen (got), "%s", error.text);
    assert_string_equal (got, want);
    wm_lines_clear (&lines);
    close (fd);
}

static void lines_end_in_three_ways (void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "", "" },
        { "a", "a|" },
        { "a\nb\n", "a|b|" },
        { "a\r\nb\r\n", "a|b|" },
        { "a\rb\r", "a|b|" },
        { "a\rb", "a|b|" },
        { "\r\n\r\na", "||a|" },
        { "\n\r\r\na", "|||a|" },
        { "\xef\xbb\xbf", "" },
        { "\xef\xbb\xbf"
          "a\r\nb",
          "a|b|" },
        { "\xef\xbb", "\xef\xbb|" },
        { "aaaaaaaa\rbbbbbbbb\r\ncccccccc\n", "aaaaaaaa|bbbbbbbb|cccccccc|" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t most = 8; most < 40; most++) /* the buffer ends everywhere */
            lines_are (cases[i].text, strlen (cases[i].text), most, cases[i].want);
    lines_are ("a\n123456789\n", 12, 8, "a|t:2: a line of more than 8 bytes");
    lines_are ("a\n123456789", 11, 9, "a|123456789|");
    lines_are ("a\nb\0c\n", 6, 9, "a|t:2: a NUL byte: it is no text, or was damaged");
    lines_are ("\0", 1, 9, "t:1: a NUL byte: it is no text, or was damaged");
    lines_are ("\xff\xfe"
               "a\0\n\0",
               6, 9, "t: a text in UTF-16, not in UTF-8; type: iconv -f UTF-16 -t UTF-8 FILE >NEW");
    lines_are ("a\0\r\0\n\0", 6, 9,
               "t: a text in UTF-16, not in UTF-8; type: iconv -f UTF-16LE -t UTF-8 FILE >NEW");
    lines_are ("\0\0\xfe\xff\0\0\0a", 8, 9,
               "t: a text in UTF-32, not in UTF-8; type: iconv -f UTF-32 -t UTF-8 FILE >NEW");
}

static void a_text_becomes_plain (void **state)
{
    char text[40] = "\xef\xbb\xbf"
                    "a\rb\r\nc\n\rd";
    size_t bytes = strlen (text);
    assert_int_equal (wm_text_plain (text, &bytes, "t", NULL), WM_OK);
    assert_string_equal (text, "a\nb\nc\n\nd");
    assert_int_equal (bytes, strlen (text));
    char nul[] = "a\r\nb\0c";
    bytes = sizeof nul - 1;
    wm_error_t error;
    assert_int_equal (wm_text_plain (nul, &bytes, "t", &error), WM_EBATCH);
    assert_string_equal (error.text, "t:2: a NUL byte: it is no text, or was damaged");
}

static void blanks_are_cut (void **state)
{
    static const char *const cases[][2] = {
        { "", "" },
        { " \t\f\v\r\n", "" },
        { " a b ", "a b" },
        { "\xc2\xa0\xef\xbb\xbf"
          "a\xe2\x80\x8b\xe3\x80\x80",
          "a" },
        { "\xc3\xa0", "\xc3\xa0" }, /* a letter whose last byte is that of a blank */
        { "a\xc2", "a\xc2" },
    };
    char text[40];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy (text, cases[i][0]);
        assert_string_equal (wm_text_trim (text), cases[i][1]);
    }
}

static void cells_are (const char *line, const char *want)
{
    char text[80], got[200] = "", *at = text;
    strcpy (text, line);
    const char separator = wm_text_separator (text);
    while (at) {
        const char *cell = wm_text_cell (&at, separator);
        snprintf (got + strlen (got), sizeof got - strlen (got), "%s|", cell ? cell : "(wrong)");
        if (!cell)
            break;
    }
    assert_string_equal (got, want);
}

static void cells_have_quotes (void **state)
{
    cells_are ("", "|");
    cells_are ("a, b ,", "a|b||");
    cells_are ("a;b;c", "a|b|c|");
    cells_are ("a\t\tc\xc2\xa0", "a||c|");
    cells_are ("\"a\",\"b, c\" , \"d \"\"e\"\"\"", "a|b, c|d \"e\"|");
    cells_are ("\"\",5\"", "|5\"|");
    cells_are ("\"a,b", "(wrong)|");
    cells_are ("\"a\"b,c", "(wrong)|");
}

static void join_lines_are_taken (void **state)
{
    static const char *const forms[] = { "%s",         "%s\n",   "%s\r",           "%s\r\n",
                                         " %s ",       "\t%s\f", "\xef\xbb\xbf%s", "%s\xc2\xa0\n",
                                         "\r\n\r\n%s", "\r%s\r" };
    wm_join_t join = { .role = wm_role_of ("worker"), .id = "0123abcd" }, got;
    char line[WM_JOIN_LINE_BYTES + 1], text[2 * WM_JOIN_LINE_BYTES + 40];
    wm_error_t error;
    memset (join.secret, 7, sizeof join.secret);
    wm_join_print (&join, line);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf (text, sizeof text, forms[i], line);
        assert_int_equal (wm_join_parse (&got, text, &error), WM_OK);
        assert_memory_equal (got.secret, join.secret, sizeof join.secret);
    }
    assert_int_equal (wm_join_parse (&got, "\xff\xfew", &error), WM_EUSAGE);
    assert_non_null (strstr (error.text, "a text in UTF-16, not in UTF-8; type: iconv -f UTF-16"));
    snprintf (text, sizeof text, "%s\r%s", line, line);
    assert_int_equal (wm_join_parse (&got, text, &error), WM_EUSAGE);
}

static void words_of_a_shell (void **state)
{
    static const char *const list[][2] = { { "/a-b_c.h5", "/a-b_c.h5" }, { "", "''" },
                                           { "a b", "'a b'" },           { "it's", "'it'\\''s'" },
                                           { "$x;*", "'$x;*'" },         { "'", "''\\'''" } };
    char text[32], small[6];
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        assert_string_equal (wm_text_word (text, sizeof text, list[i][0]), list[i][1]);
    assert_string_equal (wm_text_word (small, sizeof small, "a b c d e"), "'a b ");
    assert_string_equal (wm_text_word (small, sizeof small, "''''"), "''\\''");
}

/* Also where the text ends within a character; a NUL is no text. test_schema_svg.c has more.  */
static void texts_are_utf8 (void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
        bool is;
    } list[] = { { "", 0, true },
                 { "K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80", 14, true },
                 { "\xf0\x9f\x98\x80", 3, false },
                 { "\xc3\xb6", 1, false },
                 { "a\0b", 3, false },
                 { "a\xed\xa0\x80", 4, false },
                 { "\xe0\x80\xaf", 3, false } };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        assert_int_equal (wm_text_is_utf8 (list[i].text, list[i].bytes), list[i].is);
}

/* Room for what is asked and half as much more; what is there stays, also where it cannot grow.  */
static void arrays_grow (void **state)
{
    uint32_t *list = NULL;
    size_t max = 0, n_grown = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        const size_t before = max;
        assert_true (wm_grow (&list, &max, i + 1, sizeof *list) && max > i);
        n_grown += max != before;
        list[i] = i;
    }
    assert_true (n_grown < 30);
    assert_false (wm_grow (&list, &max, SIZE_MAX / 4, sizeof *list));
    assert_false (wm_grow (&list, &max, 0xaaaaaaaaaaaaaaac, 1)); /* half as much more: 2 */
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal (list[i], i);
    free (list);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (texts_are_utf8),       cmocka_unit_test (arrays_grow),
        cmocka_unit_test (words_of_a_shell),     cmocka_unit_test (lines_end_in_three_ways),
        cmocka_unit_test (a_text_becomes_plain), cmocka_unit_test (blanks_are_cut),
        cmocka_unit_test (cells_have_quotes),    cmocka_unit_test (join_lines_are_taken),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
