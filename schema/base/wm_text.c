/* wm_text.c - see wm_text.h.  */
#include "schema/base/wm_text.h"

#include "schema/base/wm_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "\xef\xbb\xbf" /* of UTF-8 */

/* ---- texts that are refused ------------------------------------------------------------------ */

static const char *mark_of (const char *text, size_t bytes)
{
    if (bytes >= 4 && (!memcmp (text, "\xff\xfe\0\0", 4) || !memcmp (text, "\0\0\xfe\xff", 4)))
        return "UTF-32";
    return bytes >= 2 && (!memcmp (text, "\xff\xfe", 2) || !memcmp (text, "\xfe\xff", 2)) ? "UTF-16"
                                                                                          : NULL;
}

/* Without a mark: by the bytes that are 0 in letters of Latin.  */
static const char *guess_of (const char *text, size_t bytes)
{
    char zeros[5] = "";
    for (size_t i = 0; i < 4 && bytes >= 4; i++)
        zeros[i] = text[i] ? 'x' : '0';
    return !strcmp (zeros, "x000")   ? "UTF-32LE"
           : !strcmp (zeros, "000x") ? "UTF-32BE"
           : !strcmp (zeros, "x0x0") ? "UTF-16LE"
           : !strcmp (zeros, "0x0x") ? "UTF-16BE"
                                     : NULL;
}

const char *wm_text_encoding (const char *text, size_t bytes)
{
    const char *mark = mark_of (text, bytes);
    return mark ? mark : guess_of (text, bytes);
}

static wm_fault_t encoding_check (const char *text, size_t bytes, const char *name,
                                  wm_error_t *error)
{
    const char *encoding = wm_text_encoding (text, bytes);
    return encoding ? wm_fault (error, WM_EBATCH,
                                "%.300s: a text in %.6s, not in UTF-8; type: iconv -f %s -t UTF-8 "
                                "FILE >NEW",
                                name, encoding, encoding)
                    : WM_OK;
}

static wm_fault_t nul (const char *name, uint32_t line, wm_error_t *error)
{
    return wm_fault (error, WM_EBATCH, "%.300s:%u: a NUL byte: it is no text, or was damaged", name,
                     line);
}

/* ---- lines of a file ------------------------------------------------------------------------- */

wm_fault_t wm_lines_start (wm_lines_t *self, int fd, const char *name, size_t bytes_max,
                           wm_error_t *error)
{
    *self = (wm_lines_t){ .fd = fd, .name = name, .room = bytes_max + 2 };
    self->space = malloc (self->room + 1);
    return self->space ? WM_OK : wm_fault (error, WM_EHOST, "out of memory");
}

void wm_lines_clear (wm_lines_t *self)
{
    free (self->space);
    self->space = NULL;
}

/* Reads on behind what is there, which moves to the beginning.  */
static wm_fault_t fill (wm_lines_t *self, wm_error_t *error)
{
    memmove (self->space, self->space + self->at, self->end - self->at);
    self->end -= self->at;
    self->at = 0;
    ssize_t n = -1;
    while (n < 0 && (n = read (self->fd, self->space + self->end, self->room - self->end)) < 0)
        if (errno != EINTR)
            return wm_fault (error, WM_EBATCH, "%.300s cannot be read: %s", self->name,
                             wm_file_why (errno));
    self->end += (size_t) n;
    self->is_over = n == 0;
    return WM_OK;
}

/* Looks at how the file begins.  */
static wm_fault_t begin (wm_lines_t *self, wm_error_t *error)
{
    while (self->end < 4 && !self->is_over)
        if (fill (self, error))
            return error->fault;
    if (encoding_check (self->space, self->end, self->name, error))
        return error->fault;
    if (self->end >= 3 && !memcmp (self->space, MARK, 3))
        self->at = 3;
    return WM_OK;
}

wm_fault_t wm_lines_next (wm_lines_t *self, char **line, wm_error_t *error)
{
    size_t n = 0;
    *line = NULL;
    if (!self->line && begin (self, error))
        return error->fault;
    for (;;) {
        if (self->drops_lf && self->at < self->end) { /* of CR LF */
            self->at += self->space[self->at] == '\n';
            self->drops_lf = 0;
        }
        const char *text = self->space + self->at;
        const size_t there = self->end - self->at;
        while (n < there && text[n] != '\n' && text[n] != '\r' && text[n])
            n++;
        if (n < there || self->is_over)
            break;
        if (n > self->room - 2)
            break;
        if (fill (self, error))
            return error->fault;
    }
    char *text = self->space + self->at;
    const size_t there = self->end - self->at;
    if (!there)
        return WM_OK;
    self->line++;
    if (n > self->room - 2)
        return wm_fault (error, WM_EBATCH, "%.300s:%u: a line of more than %zu bytes", self->name,
                         self->line, self->room - 2);
    if (n < there && !text[n])
        return nul (self->name, self->line, error);
    self->drops_lf = n < there && text[n] == '\r';
    text[n] = 0; /* behind the last byte there is room */
    self->at += n < there ? n + 1 : n;
    *line = text;
    return WM_OK;
}

/* ---- texts in memory ------------------------------------------------------------------------- */

wm_fault_t wm_text_plain (char *text, size_t *bytes, const char *name, wm_error_t *error)
{
    const size_t n = *bytes;
    size_t from = n >= 3 && !memcmp (text, MARK, 3) ? 3 : 0, to = 0;
    uint32_t line = 1;
    if (encoding_check (text, n, name, error))
        return error->fault;
    for (; from < n; from++) {
        if (!text[from])
            return nul (name, line, error);
        const int is_end = text[from] == '\n' || text[from] == '\r';
        from += text[from] == '\r' && from + 1 < n && text[from + 1] == '\n';
        line += (uint32_t) is_end;
        text[to++] = is_end ? '\n' : text[from];
    }
    text[to] = 0;
    *bytes = to;
    return WM_OK;
}

wm_fault_t wm_text_read (const char *path, size_t bytes_max, char **text, size_t *bytes,
                         wm_error_t *error)
{
    const int fd = open (path, O_RDONLY | O_CLOEXEC);
    ssize_t more = fd < 0 ? -1 : 1;
    wm_fault_t fault = WM_OK;
    *bytes = 0;
    *text = malloc (bytes_max + 2);
    while (fd >= 0 && *text && *bytes <= bytes_max && more) {
        more = read (fd, *text + *bytes, bytes_max + 1 - *bytes);
        if (more < 0 && errno != EINTR)
            break;
        *bytes += more > 0 ? (size_t) more : 0;
    }
    if (!*text)
        fault = wm_fault (error, WM_EHOST, "out of memory");
    else if (more < 0)
        fault = wm_file_missing (path, error);
    else if (*bytes > bytes_max)
        fault = wm_fault (error, WM_EBATCH, "%.300s has more than %zu bytes", path, bytes_max);
    else {
        (*text)[*bytes] = 0;
        fault = wm_text_plain (*text, bytes, path, error);
    }
    if (fd >= 0)
        close (fd);
    if (fault) {
        if (*text)
            explicit_bzero (*text, *bytes); /* it may have been a secret */
        free (*text);
        *text = NULL;
    }
    return fault;
}

size_t wm_text_character (const char *text, size_t bytes, uint32_t *code)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *t = (const unsigned char *) text;
    const size_t n = !bytes || *t >= 0xf5 ? 0
                     : *t < 0x80          ? 1
                     : *t < 0xc2          ? 0
                     : *t < 0xe0          ? 2
                     : *t < 0xf0          ? 3
                                          : 4;
    if (!n || n > bytes)
        return 0;
    *code = n == 1 ? *t : *t & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((t[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (t[i] & 0x3f);
    }
    return *code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}

bool wm_text_ends (const char *text, const char *end)
{
    const size_t n = strlen (text), m = strlen (end);
    return n >= m && strcmp (text + n - m, end) == 0;
}

bool wm_text_is_utf8 (const void *text, size_t bytes)
{
    const char *at = text; /* may be NULL of no bytes */
    uint32_t code = 0;
    for (size_t n; bytes; at += n, bytes -= n)
        if (!(n = wm_text_character (at, bytes, &code)) || !code)
            return false;
    return true;
}

size_t wm_text_blank (const char *text)
{
    /* no-break and narrow spaces, those of no width, the ideographic one, a mark in the middle */
    static const char *const wide[] = {
        "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x87", "\xe2\x80\x8b", "\xe2\x81\xa0", "\xe3\x80\x80",
        MARK
    };
    if (*text == ' ' || *text == '\t' || *text == '\f' || *text == '\v')
        return 1;
    if ((unsigned char) *text < 0xc2)
        return 0;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (!strncmp (text, wide[i], strlen (wide[i])))
            return strlen (wide[i]);
    return 0;
}

char *wm_text_trim (char *text)
{
    size_t n;
    while ((n = wm_text_blank (text)) || *text == '\n' || *text == '\r')
        text += n ? n : 1;
    char *end = text;
    for (char *at = text; *at;) { /* forwards: the last byte of a blank may be one of a letter */
        n = wm_text_blank (at);
        at += n ? n : 1;
        end = n || at[-1] == '\n' || at[-1] == '\r' ? end : at;
    }
    *end = 0;
    return text;
}

bool wm_text_is_comment (const char *line)
{
    for (size_t n; (n = wm_text_blank (line));)
        line += n;
    return !*line || *line == '#';
}

/* ---- cells of a line ------------------------------------------------------------------------- */

char wm_text_separator (const char *line)
{
    return strchr (line, ',') ? ',' : strchr (line, ';') ? ';' : strchr (line, '\t') ? '\t' : ',';
}

const char *wm_text_unseparated (const char *cell, uint32_t n)
{
    return n == 1 && strchr (cell, ' ')
               ? "; columns are separated by blanks here: put commas between them"
               : "";
}

static char *blanks_skip (char *at, char separator)
{
    for (size_t n; *at != separator && (n = wm_text_blank (at));)
        at += n;
    return at;
}

char *wm_text_cell (char **at, char separator)
{
    char *from = blanks_skip (*at, separator), *end = from;
    if (*from != '"') {
        end = strchr (from, separator);
        *at = end ? end + 1 : NULL;
        if (end)
            *end = 0;
        return wm_text_trim (from);
    }
    char *to = from;
    for (end++; *end != '"' || end[1] == '"'; *to++ = *end++) {
        if (!*end)
            return NULL;
        end += *end == '"';
    }
    end = blanks_skip (end + 1, separator);
    if (*end && *end != separator)
        return NULL;
    *at = *end ? end + 1 : NULL;
    *to = 0;
    return wm_text_trim (from);
}

char *wm_text_word (char *to, size_t bytes, const char *word)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%";
    if (*word && !word[strspn (word, plain)]) {
        snprintf (to, bytes, "%s", word);
        return to;
    }
    size_t n = (size_t) snprintf (to, bytes, "'");
    for (; *word && n < bytes; word++)
        n += (size_t) snprintf (to + n, bytes - n, *word == '\'' ? "'\\''" : "%c", *word);
    if (n < bytes)
        snprintf (to + n, bytes - n, "'");
    return to;
}

void wm_text_json (FILE *out, const char *text)
{
    uint32_t code;
    fputc ('"', out);
    for (size_t n = strlen (text), bytes; n; text += bytes, n -= bytes) {
        bytes = wm_text_character (text, n, &code);
        if (!bytes) {
            fputc ('?', out);
            bytes = 1;
        } else if (code < 32 || code == '"' || code == '\\')
            fprintf (out, "\\u%04x", code);
        else
            fwrite (text, 1, bytes, out);
    }
    fputc ('"', out);
}
