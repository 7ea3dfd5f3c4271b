/* fuzz_h1.c - what a client sends on a connection of HTTP/1.1, request behind request.

   However the bytes come in pieces, the parser reads the same requests of them. Of a head that it
   accepts, each line ends with CR LF alone, none is folded, and no two readers could see another
   end of the body: it has one Content-Length, or chunked, or neither. Printed again, it is read as
   the same. Chunks have the bytes that their sizes state.

   Input: a byte, of which the pieces' sizes are drawn; then what comes.  */
#include "schema/base/wm_h1.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const size_t fuzz_bytes_max = 1u << 20;

/* FNV-1a, 64 bits.  */
static void mix (uint64_t *hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *hash = (*hash ^ ((const uint8_t *) data)[i]) * UINT64_C (0x100000001b3);
}

static void mix_text (uint64_t *hash, const char *text)
{
    mix (hash, text ? text : "", text ? strlen (text) + 1 : 0);
}

/* Sums up what a caller sees of a head.  */
static void mix_head (uint64_t *hash, const wm_h1_t *h1)
{
    const uint8_t flags[] = { h1->is_chunked, h1->keeps, h1->wants_continue, h1->is_1_0 };
    mix_text (hash, h1->method);
    mix_text (hash, h1->path);
    mix_text (hash, h1->host);
    mix (hash, flags, sizeof flags);
    mix (hash, &h1->length, sizeof h1->length);
    mix (hash, h1->head + h1->fields, h1->end - h1->fields);
}

/* ---- a head that was accepted ---------------------------------------------------------------- */

static bool begins (const uint8_t *at, size_t n, const char *name)
{
    return n >= strlen (name) && strncasecmp ((const char *) at, name, strlen (name)) == 0;
}

/* Looks at the bytes themselves.  */
static void check_bytes (const wm_h1_t *h1, const uint8_t *head, size_t n)
{
    size_t n_length = 0, n_coding = 0;
    for (; n > 4 && memcmp (head, "\r\n", 2) == 0; n -= 2) /* before the request */
        head += 2;
    FUZZ_CHECK (n >= 4 && memcmp (head + n - 4, "\r\n\r\n", 4) == 0);
    for (size_t i = 0; i < n; i++) {
        const bool is_end = head[i] == '\n';
        FUZZ_CHECK (head[i] >= ' ' || head[i] == '\t' || head[i] == '\r' || is_end);
        FUZZ_CHECK (!is_end || (i && head[i - 1] == '\r'));
        FUZZ_CHECK (head[i] != '\r' || (i + 1 < n && head[i + 1] == '\n'));
        if (!is_end || i + 1 == n)
            continue;
        const size_t name = strcspn ((const char *) head + i + 1, ": \t\r");
        FUZZ_CHECK (head[i + 1 + name] == ':' || (!name && head[i + 1] == '\r'));
        n_length += begins (head + i + 1, n - i - 1, "content-length:");
        n_coding += begins (head + i + 1, n - i - 1, "transfer-encoding:");
    }
    FUZZ_CHECK (n_length + n_coding <= 1);
    FUZZ_CHECK (h1->is_chunked == (n_coding == 1) && (n_length || !h1->length));
}

/* Reads the chunks of a request that ends behind n bytes, as they are meant to be.  */
static void check_chunks (const uint8_t *at, size_t n, uint64_t n_body)
{
    const uint8_t *end = at + n;
    for (uint64_t left = n_body, size = 1; size; left -= size) {
        char *behind;
        size = strtoull ((const char *) at, &behind, 16);
        FUZZ_CHECK (size <= left);
        at = (const uint8_t *) strstr (behind, "\r\n") + 2 + size;
        FUZZ_CHECK (at < end && (!size || memcmp (at, "\r\n", 2) == 0));
        at += size ? 2 : 0;
        FUZZ_CHECK (size || !left);
    }
}

/* Prints it in the plainest way, and reads that.  */
static void check_again (const wm_h1_t *h1)
{
    static char text[4 * WM_H1_HEAD_BYTES];
    static wm_h1_t again;
    size_t body, n = (size_t) sprintf (text, "%s /", h1->method);
    for (const char *at = h1->path; *at; at++)
        n += (size_t) sprintf (text + n, "%%%02x", (unsigned) (uint8_t) *at);
    n += (size_t) sprintf (text + n, " HTTP/1.%d\r\n", !h1->is_1_0);
    for (size_t at = h1->fields; at < h1->end;) {
        const char *name = h1->head + at, *value = name + strlen (name) + 1;
        FUZZ_CHECK (wm_h1_field (h1, name));
        n += (size_t) sprintf (text + n, "%s:%s\r\n", name, value);
        at = (size_t) (value - h1->head) + strlen (value) + 1;
    }
    n += (size_t) sprintf (text + n, "\r\n");
    wm_h1_begin (&again);
    FUZZ_CHECK (wm_h1_read (&again, (const uint8_t *) text, n, &body) == n);
    if (again.code == 431 || again.code == 414) /* a path is three times as long so */
        return;
    FUZZ_CHECK (again.state == h1->state && again.length == h1->length);
    FUZZ_CHECK (again.is_chunked == h1->is_chunked && again.keeps == h1->keeps);
    FUZZ_CHECK (strcmp (again.method, h1->method) == 0 && strcmp (again.path + 1, h1->path) == 0);
    FUZZ_CHECK (again.end - again.fields == h1->end - h1->fields);
    FUZZ_CHECK (!memcmp (again.head + again.fields, h1->head + h1->fields, h1->end - h1->fields));
}

/* ---- a connection ---------------------------------------------------------------------------- */

/* Reads until the end or a refusal, in pieces of draw (seed) bytes; seed 0: all at once. Returns
   the sum of all that a caller sees.  */
static uint64_t reads (const uint8_t *data, size_t size, uint32_t seed, bool checks)
{
    static wm_h1_t h1;
    uint64_t hash = UINT64_C (0xcbf29ce484222325), n_body = 0;
    size_t at = 0, head = 0, top = 0;
    wm_h1_begin (&h1);
    while (at < size && h1.state != WM_H1_REFUSED) {
        seed = seed ? seed * 1103515245 + 12345 : 0;
        const size_t most = seed ? 1 + (seed >> 16) % (seed & 1 << 15 ? 3 : 700) : size;
        const size_t n = size - at < most ? size - at : most;
        uint8_t *piece = malloc (n); /* exact, for the sanitizers */
        memcpy (piece, data + at, n);
        const wm_h1_state_t before = h1.state;
        size_t body;
        const size_t taken = wm_h1_read (&h1, piece, n, &body);
        FUZZ_CHECK (taken && taken <= n && body <= taken);
        FUZZ_CHECK (taken == n || body || h1.state != before);
        mix (&hash, piece + taken - body, body);
        free (piece);
        at += taken;
        n_body += body;
        if (before == WM_H1_HEAD && (h1.state == WM_H1_BODY || h1.state == WM_H1_END)) {
            mix_head (&hash, &h1);
            top = at;
            if (checks) {
                check_bytes (&h1, data + head, at - head);
                check_again (&h1);
            }
        }
        FUZZ_CHECK (h1.is_chunked || n_body <= h1.length);
        if (h1.state != WM_H1_END)
            continue;
        FUZZ_CHECK (h1.is_chunked || n_body == h1.length);
        if (h1.is_chunked && checks)
            check_chunks (data + top, at - top, n_body);
        mix (&hash, &at, sizeof at);
        wm_h1_begin (&h1);
        n_body = 0;
        head = at;
    }
    const unsigned last[] = { h1.state, h1.code, wm_h1_has_begun (&h1) };
    FUZZ_CHECK (h1.state != WM_H1_REFUSED || (h1.code >= 400 && h1.why && !h1.keeps));
    mix (&hash, last, sizeof last);
    mix (&hash, &at, sizeof at);
    return hash;
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    uint8_t *copy = malloc (size); /* with a NUL behind it */
    memcpy (copy, data + 1, size - 1);
    copy[size - 1] = 0;
    const uint64_t whole = reads (copy, size - 1, 0, true);
    FUZZ_CHECK (reads (copy, size - 1, 1u + data[0], false) == whole);
    free (copy);
    return 0;
}

/* Inserts what framing is made of; else mutates as usual.  */
size_t LLVMFuzzerCustomMutator (uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
    static const char *const words[] = { " ",
                                         "\t",
                                         ":",
                                         "\n",
                                         "\r",
                                         "\r\n",
                                         "\r\n\r\n",
                                         "0\r\n\r\n",
                                         "\r\n ",
                                         "10000000000000002\r\n",
                                         "-",
                                         "Content-Length: 2\r\n",
                                         "Transfer-Encoding: chunked\r\n",
                                         "X: y\r\n",
                                         "Expect: 100-continue\r\n",
                                         "Host: h\r\n" };
    const char *word = words[seed / 2 % (sizeof words / sizeof *words)];
    const size_t n = strlen (word), at = size ? 1 + seed / 64 % size : 0;
    if (seed & 1 || size + n > size_max || at > size)
        return fuzz_mutate (data, size, size_max);
    memmove (data + at + n, data + at, size - at);
    memcpy (data + at, word, n);
    return size + n;
}

void fuzz_seeds (void)
{
    static const char *const seeds[] = {
        "1GET /v2/health/live?a=b HTTP/1.1\r\nHost: h:80\r\nConnection: keep-alive\r\n\r\n"
        "HEAD http://h/%41%2f HTTP/1.0\r\n\r\n",
        "2POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nabcd"
        "POST /b HTTP/1.1\r\nHost:\r\ncontent-length:0\r\nX: y\t z \r\n\r\n",
        "3POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2;x=\"y\"\r\nab\r\n0A\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nGET * HTTP/1.1\r\n",
        "5POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "10000000000000002\r\nab\r\n0\r\n\r\n",
        "4\r\nOPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: x, close\r\nUpgrade: h2c\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        fuzz_seed (seeds[i], strlen (seeds[i]));
}
