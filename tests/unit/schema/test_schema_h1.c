/* test_schema_h1.c - requests of HTTP/1.1, read whole and byte for byte. What is refused is in
   tests/e2e/framing.py, which tries every listener; here is what a listener does not show.  */
#include "schema/base/wm_h1.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START "POST /a HTTP/1.1\r\nHost: h\r\n"

static wm_h1_t h1;
static char body[256];

/* Reads a request that lies in pieces of so many bytes; returns how many of them it took.  */
static size_t reads (const char *text, size_t n, size_t at_once)
{
    size_t at = 0, n_body = 0, piece;
    wm_h1_begin (&h1);
    while (at < n && h1.state < WM_H1_END) {
        uint8_t *data = malloc (at_once); /* a byte too far is seen by the sanitizers */
        const size_t some = n - at < at_once ? n - at : at_once;
        assert_non_null (data);
        memcpy (data, text + at, some);
        const size_t taken = wm_h1_read (&h1, data, some, &piece);
        assert_true (taken && taken <= some && piece <= taken && n_body + piece < sizeof body);
        memcpy (body + n_body, data + taken - piece, piece);
        free (data);
        n_body += piece;
        at += taken;
    }
    body[n_body] = 0;
    return at;
}

static void test_framing (void **state)
{
    static const struct {
        const char *text, *body; /* NULL: it is refused */
        unsigned code;
    } rows[] = {
        { START "\r\n", "", 0 },
        { START "Content-Length: 3\r\n\r\nabc", "abc", 0 },
        { START "Content-Length: 18446744073709551615\r\n\r\nab", "ab", 0 },
        { START
          "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n0a\r\n0123456789\r\n0\r\nT: u\r\n\r\n",
          "ab0123456789", 0 },
        { START "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\nab", "ab", 0 },
        { START "Content-Length: 18446744073709551616\r\n\r\n", NULL, 400 },
        { START "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", NULL, 400 },
        { START "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", NULL, 400 },
        { START "Content-Length : 3\r\n\r\nabc", NULL, 400 },
        { START "X: y\nContent-Length: 3\r\n\r\nabc", NULL, 400 },
        { START "X: y\r\n Content-Length: 3\r\n\r\nabc", NULL, 400 },
        { START "Transfer-Encoding: gzip\r\n\r\n", NULL, 501 },
        { START "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nab", NULL, 400 },
        { START "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", NULL, 400 },
        { START "Expect: 200-ok\r\n\r\n", NULL, 417 },
        { "GET /a HTTP/2.0\r\n\r\n", NULL, 505 },
        { "GET /a%00b HTTP/1.1\r\nHost: h\r\n\r\n", NULL, 400 },
        { "GET a HTTP/1.1\r\nHost: h\r\n\r\n", NULL, 400 },
        { "PATCH /a HTTP/1.1\r\nHost: h\r\n\r\n", "", 0 },
        { "BREW /a HTTP/1.1\r\nHost: h\r\n\r\n", NULL, 501 },
        { "get /a HTTP/1.1\r\nHost: h\r\n\r\n", NULL, 501 },
        { "\r\n\r\n\r\n", NULL, 400 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t at_once = 1; at_once < 200; at_once += at_once < 9 ? 1 : 60) {
            const size_t n = strlen (rows[i].text), taken = reads (rows[i].text, n, at_once);
            if ((h1.state == WM_H1_REFUSED) != !rows[i].body)
                fail_msg ("%s: state %d, %s", rows[i].text, h1.state, h1.why);
            if (!rows[i].body) {
                assert_int_equal (h1.code, rows[i].code);
                assert_false (h1.keeps);
                continue;
            }
            assert_int_equal (taken, n);
            assert_string_equal (body, rows[i].body);
        }
}

static void test_head (void **state)
{
    static const char text[] =
        "GET http://h:1?q HTTP/1.0\r\nHost: other\r\nX:  a \t b\t \r\nx: second\r\nEmpty:\r\n"
        "Connection: Keep-Alive\r\nExpect: 100-continue\r\n\r\nGET";
    assert_int_equal (reads (text, sizeof text - 1, sizeof text), sizeof text - 4);
    assert_int_equal (h1.state, WM_H1_END);
    assert_string_equal (h1.method, "GET");
    assert_string_equal (h1.path, "/");
    assert_string_equal (h1.query, "q");
    assert_string_equal (h1.host, "h:1"); /* the target's, RFC 9112 3.2.2 */
    assert_string_equal (wm_h1_field (&h1, "X"), "a \t b");
    assert_string_equal (wm_h1_field (&h1, "empty"), "");
    assert_null (wm_h1_field (&h1, "a \t b"));
    assert_true (h1.keeps);
    assert_false (h1.wants_continue); /* HTTP/1.0 has none */
    static const char other[] = "HEAD /a%2Fb%zz%?x=%41 HTTP/1.1\r\nConnection: x, close\r\n"
                                "Connection: keep-alive\r\nHost:\r\n\r\n";
    reads (other, sizeof other - 1, 5);
    assert_string_equal (h1.path, "/a/b%zz%");
    assert_string_equal (h1.query, "x=%41");
    assert_string_equal (h1.host, "");
    assert_false (h1.keeps);
    wm_h1_begin (&h1);
    assert_false (wm_h1_has_begun (&h1));
    static const char waits[] = START "Expect: 100-Continue\r\nContent-Length: 4\r\n\r\n";
    reads (waits, sizeof waits - 1, 99);
    assert_true (h1.keeps && h1.wants_continue && h1.state == WM_H1_BODY);
    wm_h1_took (&h1, 3);
    assert_int_equal (h1.state, WM_H1_BODY);
    wm_h1_took (&h1, 1);
    assert_int_equal (h1.state, WM_H1_END);
}

/* A head of exactly as much as there is room for is read, one more byte is refused; so is a chunk's
   extension. Nothing is written behind the head in either case.  */
static void test_limits (void **state)
{
    static char text[WM_H1_HEAD_BYTES + 99];
    for (size_t n = WM_H1_HEAD_BYTES - 9; n < WM_H1_HEAD_BYTES + 9; n++) {
        const size_t top = (size_t) sprintf (text, START "X:");
        memset (text + top, 'x', n - top);
        strcpy (text + n, "\r\n\r\n");
        reads (text, n + 4, 4096);
        const bool fits = n <= WM_H1_HEAD_BYTES + 1; /* of what is kept less than it */
        assert_int_equal (h1.state, fits ? WM_H1_END : WM_H1_REFUSED);
        assert_int_equal (h1.code, fits ? 0 : 431);
    }
    sprintf (text, "GET /%*d", WM_H1_HEAD_BYTES, 0);
    memset (text + 5, 'x', WM_H1_HEAD_BYTES);
    reads (text, WM_H1_HEAD_BYTES + 5, 4096);
    assert_int_equal (h1.code, 414);
    for (int n = 255; n < 258; n++) {
        const int top = sprintf (text, START "Transfer-Encoding: chunked\r\n\r\n");
        snprintf (text + top, sizeof text - (size_t) top, "1;%0*d\r\na\r\n0\r\n\r\n", n - 2, 0);
        reads (text, strlen (text), 4096);
        assert_int_equal (h1.state, n <= 256 ? WM_H1_END : WM_H1_REFUSED);
    }
}

/* Many short trailers are bounded as one long one is; 2 bytes of each are no part of its line.  */
static void test_trailers (void **state)
{
    static char text[3 * WM_H1_HEAD_BYTES];
    for (size_t each = 4; each <= 1024; each *= 4)
        for (size_t n = WM_H1_HEAD_BYTES / each - 1; n < WM_H1_HEAD_BYTES / each + 2; n++) {
            size_t top = (size_t) sprintf (text, START "Transfer-Encoding: chunked\r\n\r\n0\r\n");
            for (size_t i = 0; i < n; i++)
                top += (size_t) sprintf (text + top, "X:%0*d\r\n", (int) each - 2, 0);
            strcpy (text + top, "\r\n");
            reads (text, top + 2, 4096);
            const bool fits = n * each <= WM_H1_HEAD_BYTES;
            assert_int_equal (h1.state, fits ? WM_H1_END : WM_H1_REFUSED);
            assert_int_equal (h1.code, fits ? 0 : 431);
        }
}

static void test_answer (void **state)
{
    char to[WM_H1_ANSWER_BYTES];
    reads (START "\r\n", sizeof START + 1, 99);
    const size_t n = wm_h1_answer (&h1, to, 404, 5, true, "X: y\r\n");
    assert_int_equal (n, strlen (to));
    assert_int_equal (strncmp (to, "HTTP/1.1 404 Not Found\r\nDate: ", 30), 0);
    assert_non_null (strstr (to, " GMT\r\nContent-Length: 5\r\nX: y\r\n\r\n"));
    wm_h1_answer (&h1, to, 200, 5, false, "");
    assert_non_null (strstr (to, "\r\nConnection: close\r\n\r\n"));
    reads ("GET / HTTP/1.0\r\n\r\n", 18, 99);
    assert_false (h1.keeps);
    wm_h1_answer (&h1, to, 200, 5, true, "");
    assert_non_null (strstr (to, "\r\nConnection: keep-alive\r\n\r\n"));
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_framing), cmocka_unit_test (test_head),
        cmocka_unit_test (test_limits),  cmocka_unit_test (test_trailers),
        cmocka_unit_test (test_answer),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
