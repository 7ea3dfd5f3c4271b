/* wm_h1.c - see wm_h1.h.

   The head, the size of each chunk and the trailers are lines, which `add` collects byte for byte;
   the bytes of the body are counted.  */
#include "schema/base/wm_h1.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define CHUNK_LINE_BYTES 256 /* a chunk's size with its extensions */
#define EMPTY_LINES_MAX 2    /* before a request; RFC 9112 2.2 */

enum { REQUEST_LINE, FIELDS, DATA, CHUNK_SIZE, CHUNK_END, TRAILERS };

static void refuse (wm_h1_t *self, unsigned code, const char *why)
{
    self->state = WM_H1_REFUSED;
    self->code = code;
    self->why = why;
    self->keeps = false;
}

/* A byte of a token, of which methods and names of headers are made.  */
static bool is_token (char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr ("!#$%&'*+-.^_`|~", c));
}

static size_t token (const char *text)
{
    size_t n = 0;
    while (is_token (text[n]))
        n++;
    return n;
}

/* Whether a list, "a, b", has this word.  */
static bool lists (const char *list, const char *word)
{
    const size_t n = strlen (word);
    for (const char *at = list; *at; at += strcspn (at, ",")) {
        at += strspn (at, ", \t");
        if (strcspn (at, ", \t") == n && strncasecmp (at, word, n) == 0)
            return true;
    }
    return false;
}

/* ---- the request line ------------------------------------------------------------------------ */

static int hex (char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes "%41" in place, and ends the path where the query begins. False: it has a NUL. What is no
   code stays as it is.  */
static bool decode (char *path, const char **query)
{
    char *to = path, *end = path + strcspn (path, "?#");
    *query = *end == '?' ? end + 1 : "";
    *end = 0;
    for (const char *at = path; *at; at++) {
        const int high = *at == '%' ? hex (at[1]) : -1, low = high >= 0 ? hex (at[2]) : -1;
        if (high == 0 && low == 0)
            return false;
        *to++ = low >= 0 ? (char) (16 * high + low) : *at;
        at += low >= 0 ? 2 : 0;
    }
    *to = 0;
    return true;
}

/* "/path?query", "*" or "http://host/path". False: any other form.  */
static bool take_target (wm_h1_t *self, char *target)
{
    const size_t scheme = strncasecmp (target, "http://", 7) == 0    ? 7
                          : strncasecmp (target, "https://", 8) == 0 ? 8
                                                                     : 0;
    if (scheme) {
        char *host = target + scheme;
        const size_t n = strcspn (host, "/?#");
        memmove (target, host, n); /* makes room for its end */
        host = target;
        target += scheme + n;
        host[n] = 0;
        self->host = host;
        if (*target != '/')
            *--target = '/';
    }
    self->path = target;
    return (*target == '/' || strcmp (target, "*") == 0) && decode (target, &self->query);
}

/* Whether it is a method of RFC 9110 or PATCH. A server that does not know one must not take it for
   another.  */
static bool is_method (const char *method)
{
    static const char *const known[] = { "GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                         "CONNECT", "OPTIONS", "TRACE", "PATCH" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp (known[i], method) == 0)
            return true;
    return false;
}

/* "METHOD TARGET HTTP/1.1", with one blank between.  */
static void take_request (wm_h1_t *self, char *line)
{
    const size_t method = token (line);
    char *target = line + method + 1;
    const size_t n = method && line[method] == ' ' ? strcspn (target, " \t") : 0;
    const char *version = n && target[n] == ' ' ? target + n + 1 : "";
    if (strncmp (version, "HTTP/", 5) != 0 || version[5] < '0' || version[5] > '9' ||
        version[6] != '.' || version[7] < '0' || version[7] > '9' || version[8]) {
        refuse (self, 400, "the request line is not METHOD PATH HTTP/1.1");
        return;
    }
    self->is_1_0 = version[7] == '0';
    self->keeps = !self->is_1_0;
    line[method] = target[n] = 0;
    self->method = line;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char) target[i] > 126) {
            refuse (self, 400, "the path has a byte that is not ASCII; write it as %XX");
            return;
        }
    if (version[5] != '1')
        refuse (self, 505, "this server speaks HTTP/1.1");
    else if (!is_method (line))
        refuse (self, 501, "HTTP has no such method");
    else if (!take_target (self, target))
        refuse (self, 400, "the request's target is no path");
}

/* ---- headers --------------------------------------------------------------------------------- */

static void take_length (wm_h1_t *self, const char *value)
{
    uint64_t length = 0;
    const char *at = value;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow (length, 10u, &length) ||
            __builtin_add_overflow (length, (uint64_t) (*at - '0'), &length)) {
            refuse (self, 400, "Content-Length is too large");
            return;
        }
    if (self->has_length)
        refuse (self, 400, "Content-Length is there twice");
    else if (*at || at == value)
        refuse (self, 400, "Content-Length is no number");
    self->has_length = true;
    self->length = length;
}

static void take_coding (wm_h1_t *self, const char *value)
{
    if (self->has_coding || !*value)
        refuse (self, 400, "Transfer-Encoding is there twice, or empty");
    else if (strcasecmp (value, "chunked") != 0)
        refuse (self, 501, "no Transfer-Encoding but chunked is known");
    self->has_coding = self->is_chunked = true;
}

static void take_host (wm_h1_t *self, const char *value)
{
    if (self->has_host)
        refuse (self, 400, "Host is there twice");
    for (const char *at = value; *at; at++)
        if ((unsigned char) *at <= ' ' || (unsigned char) *at > 126 ||
            strchr ("\"#,/<>?@\\^`{|}", *at))
            refuse (self, 400, "Host is no name or address");
    self->has_host = true;
    if (!self->host)
        self->host = value;
}

/* What the server itself must know of a header. Names and values of the others are only kept.  */
static void take_field (wm_h1_t *self, const char *name, const char *value)
{
    if (strcasecmp (name, "Content-Length") == 0)
        take_length (self, value);
    else if (strcasecmp (name, "Transfer-Encoding") == 0)
        take_coding (self, value);
    else if (strcasecmp (name, "Host") == 0)
        take_host (self, value);
    else if (strcasecmp (name, "Connection") == 0) {
        self->closes |= lists (value, "close");
        self->keeps |= lists (value, "keep-alive");
    } else if (strcasecmp (name, "Expect") == 0 && strcasecmp (value, "100-continue") != 0)
        refuse (self, 417, "nothing may be expected but 100-continue");
    else if (strcasecmp (name, "Expect") == 0)
        self->wants_continue = !self->is_1_0;
}

/* "Name: value" becomes its two words, each with a NUL, from the line's beginning.  */
static void split_field (wm_h1_t *self, char *line)
{
    const size_t name = token (line);
    if (*line == ' ' || *line == '\t')
        refuse (self, 400, "a header goes on in the next line");
    else if (!name || line[name] != ':')
        refuse (self, 400, "a header is not Name: value, without a blank before the colon");
    if (self->state == WM_H1_REFUSED)
        return;
    char *from = line + name + 1, *value = from;
    from += strspn (from, " \t");
    size_t n = strlen (from);
    while (n && (from[n - 1] == ' ' || from[n - 1] == '\t'))
        n--;
    line[name] = 0;
    memmove (value, from, n);
    value[n] = 0;
    if (self->step == FIELDS) {
        self->n = (size_t) (value - self->head) + n + 1;
        take_field (self, line, value);
    }
}

/* The head is there.  */
static void end_head (wm_h1_t *self)
{
    self->end = self->line;
    if (self->is_chunked && (self->has_length || self->is_1_0))
        refuse (self, 400,
                self->is_1_0 ? "HTTP/1.0 has no Transfer-Encoding"
                             : "Content-Length and Transfer-Encoding exclude each other");
    else if (!self->has_host && !self->is_1_0)
        refuse (self, 400, "Host is missing");
    if (self->state == WM_H1_REFUSED)
        return;
    self->keeps &= !self->closes;
    self->left = self->length;
    self->step = self->is_chunked ? CHUNK_SIZE : DATA;
    self->state = self->is_chunked || self->length ? WM_H1_BODY : WM_H1_END;
    self->wants_continue &= self->state == WM_H1_BODY;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* "1a2b;extension".  */
static void take_chunk_size (wm_h1_t *self, const char *line)
{
    uint64_t size = 0;
    int n = 0;
    for (; hex (line[n]) >= 0; n++) {
        if (size >> 59) {
            refuse (self, 400, "a chunk's size is too large");
            return;
        }
        size = 16 * size + (uint64_t) hex (line[n]);
    }
    const char *rest = line + n + strspn (line + n, " \t");
    if (!n || (*rest && *rest != ';') || (rest > line + n && !*rest)) {
        refuse (self, 400, "a chunk's size is no hexadecimal number");
        return;
    }
    self->left = size;
    self->step = size ? DATA : TRAILERS;
}

static void take_line (wm_h1_t *self, char *line)
{
    if (self->step == CHUNK_SIZE)
        take_chunk_size (self, line);
    else if (self->step == CHUNK_END && *line)
        refuse (self, 400, "a chunk is longer than its size");
    else if (self->step == CHUNK_END)
        self->step = CHUNK_SIZE;
    else if (self->step == REQUEST_LINE && !*line) {
        if (++self->left > EMPTY_LINES_MAX)
            refuse (self, 400, "the request line is missing");
    } else if (self->step == REQUEST_LINE) {
        take_request (self, line);
        self->fields = ++self->n; /* behind its NUL */
        self->step = FIELDS;
    } else if (*line)
        split_field (self, line);
    else if (self->step == FIELDS)
        end_head (self);
    else
        self->state = WM_H1_END;
}

/* Adds a byte to the line. Returns whether the line is whole.  */
static bool add (wm_h1_t *self, uint8_t byte)
{
    const size_t n = self->n - self->line;
    if (self->has_cr) {
        self->has_cr = false;
        if (byte == '\n')
            return true;
        refuse (self, 400, "CR is not followed by LF");
    } else if (byte == '\r')
        self->has_cr = true;
    else if ((byte < ' ' && byte != '\t') || byte == 127)
        refuse (self, 400,
                byte == '\n' ? "a line ends with LF, without CR" : "a control byte is in the head");
    else if (self->step == CHUNK_END)
        refuse (self, 400, "a chunk is longer than its size");
    else if (self->step == CHUNK_SIZE && n >= CHUNK_LINE_BYTES)
        refuse (self, 400, "a chunk's extensions are too long");
    else if (self->step == TRAILERS && ++self->trailers > WM_H1_HEAD_BYTES)
        refuse (self, 431, "the trailers are longer than 16 KiB");
    else if (self->n + 2 >= WM_H1_HEAD_BYTES)
        refuse (self, self->step == REQUEST_LINE ? 414 : 431,
                "the request line and headers are longer than 16 KiB");
    else
        self->head[self->n++] = (char) byte;
    return false;
}

/* ---- reading --------------------------------------------------------------------------------- */

void wm_h1_begin (wm_h1_t *self)
{
    memset (self, 0, offsetof (wm_h1_t, head));
}

bool wm_h1_has_begun (const wm_h1_t *self)
{
    return self->n || self->has_cr || self->state != WM_H1_HEAD;
}

void wm_h1_took (wm_h1_t *self, uint64_t bytes)
{
    assert (bytes <= self->left);
    self->left -= bytes;
    if (self->left)
        return;
    if (self->is_chunked)
        self->step = CHUNK_END;
    else
        self->state = WM_H1_END;
}

size_t wm_h1_read (wm_h1_t *self, const uint8_t *data, size_t n, size_t *body)
{
    const wm_h1_state_t before = self->state;
    *body = 0;
    for (size_t at = 0; at < n;) {
        if (self->state != before || self->state > WM_H1_BODY)
            return at;
        if (self->step == DATA) {
            *body = n - at < self->left ? n - at : (size_t) self->left;
            wm_h1_took (self, *body);
            return at + *body;
        }
        if (!add (self, data[at++]))
            continue;
        self->head[self->n] = 0;
        const size_t is_kept = self->step == REQUEST_LINE || self->step == FIELDS;
        take_line (self, self->head + self->line);
        if (is_kept)
            self->line = self->n;
        else
            self->n = self->line;
    }
    return n;
}

const char *wm_h1_field (const wm_h1_t *self, const char *name)
{
    for (size_t at = self->fields; at < self->end;) {
        const char *value = self->head + at + strlen (self->head + at) + 1;
        if (strcasecmp (self->head + at, name) == 0)
            return value;
        at = (size_t) (value - self->head) + strlen (value) + 1;
    }
    return NULL;
}

/* ---- answers --------------------------------------------------------------------------------- */

static const char *phrase (unsigned code)
{
    static const struct {
        unsigned code;
        const char *phrase;
    } rows[] = {
        { 200, "OK" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 408, "Request Timeout" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 417, "Expectation Failed" },
        { 421, "Misdirected Request" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 499, "Client Closed Request" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 503, "Service Unavailable" },
        { 504, "Gateway Timeout" },
        { 505, "HTTP Version Not Supported" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code)
            return rows[i].phrase;
    return "";
}

size_t wm_h1_answer (const wm_h1_t *self, char to[WM_H1_ANSWER_BYTES], unsigned code,
                     uint64_t bytes, bool keeps, const char *fields)
{
    const time_t now = time (NULL);
    struct tm utc;
    char date[40];
    gmtime_r (&now, &utc);
    strftime (date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    const int n = snprintf (to, WM_H1_ANSWER_BYTES,
                            "HTTP/1.1 %u %s\r\nDate: %s\r\nContent-Length: %llu\r\n%s%s\r\n", code,
                            phrase (code), date, (unsigned long long) bytes,
                            !keeps         ? "Connection: close\r\n"
                            : self->is_1_0 ? "Connection: keep-alive\r\n"
                                           : "",
                            fields);
    assert (n > 0 && n < WM_H1_ANSWER_BYTES);
    return (size_t) n;
}
