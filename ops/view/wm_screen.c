/* wm_screen.c - see wm_screen.h. */

#include "ops/view/wm_screen.h"

#include "schema/base/wm_grow.h"
#include "schema/base/wm_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static const char *const code[] = { "\033[0m",  "\033[1m",    "\033[7m", "\033[32m",
                                    "\033[33m", "\033[1;31m", "\033[36m" };

const char *wm_style_code (wm_style_t style)
{
    return code[style];
}

bool wm_canvas_reset (wm_screen_t *self, int rows, int columns)
{
    self->columns = columns < 1                       ? 1
                    : columns > WM_CANVAS_COLUMNS_MAX ? WM_CANVAS_COLUMNS_MAX
                                                      : columns;
    if (!wm_regrow (&self->line, (uint64_t) (rows < 1 ? 1 : rows), sizeof *self->line))
        return false;
    self->rows = rows < 1 ? 1 : rows;
    self->n = self->used = 0;
    self->bytes = 0;
    self->line[0][0] = 0;
    return true;
}

void wm_canvas_free (wm_screen_t *self)
{
    free (self->line);
    self->line = NULL;
}

/* Adds a character or a code. A code takes no columns and may use the last bytes of the line.  */
static void add (wm_screen_t *self, const char *bytes, size_t size, int columns)
{
    const size_t limit = WM_CANVAS_LINE_BYTES - (columns ? 32 : 1);
    if (self->n >= self->rows || self->bytes + size > limit)
        return;
    memcpy (self->line[self->n] + self->bytes, bytes, size);
    self->bytes += size;
    self->line[self->n][self->bytes] = 0;
    self->used += columns;
}

/* The next character: its bytes, and in *columns its width; what cannot be shown is replaced.  */
static size_t read_character (const wm_screen_t *self, const char *text, char shown[8],
                              int *columns)
{
    uint32_t point = 0;
    const size_t n = wm_text_character (text, strnlen (text, 4), &point);
    const int width = n > 1 && self->has_utf8 ? wcwidth ((wchar_t) point) : n == 1;
    *columns = width < 1 ? 1 : width; /* less: controls, marks that combine, no known width */
    if (width < 1 || point < ' ' || point == 0x7f)
        strcpy (shown, "?");
    else
        snprintf (shown, 8, "%.*s", (int) n, text);
    return n ? n : 1;
}

static void begin (wm_screen_t *self, wm_style_t style)
{
    if (self->has_styles && style && (self->has_colors || style <= WM_REVERSE))
        add (self, code[style], strlen (code[style]), 0);
}

static void end (wm_screen_t *self, wm_style_t style)
{
    if (self->has_styles && style && (self->has_colors || style <= WM_REVERSE))
        add (self, code[WM_PLAIN], strlen (code[WM_PLAIN]), 0);
}

/* Adds as much of the text as fits into so many columns; returns the columns it takes.  */
static int add_text (wm_screen_t *self, const char *text, int columns)
{
    const int from = self->used;
    int width;
    char shown[8];
    while (*text) {
        text += read_character (self, text, shown, &width);
        if (self->used - from + width > columns || self->used + width > self->columns)
            break;
        add (self, shown, strlen (shown), width);
    }
    return self->used - from;
}

static int width_of (const wm_screen_t *self, const char *text)
{
    int all = 0, width;
    char shown[8];
    while (*text) {
        text += read_character (self, text, shown, &width);
        all += width;
    }
    return all;
}

void wm_canvas_put (wm_screen_t *self, wm_style_t style, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start (list, format);
    vsnprintf (text, sizeof text, format, list);
    va_end (list);
    if (self->n >= self->rows || !*text)
        return;
    begin (self, style);
    add_text (self, text, self->columns);
    end (self, style);
}

void wm_canvas_cell (wm_screen_t *self, wm_style_t style, int width, const char *text)
{
    const int columns = width < 0 ? -width : width, from = self->used;
    const int length = width_of (self, text);
    begin (self, style);
    for (int i = length; width < 0 && i < columns && self->used < self->columns; i++)
        add (self, " ", 1, 1);
    add_text (self, text, columns - (self->used - from));
    end (self, style);
    wm_canvas_pad (self, WM_PLAIN, from + columns);
}

void wm_canvas_pad (wm_screen_t *self, wm_style_t style, int column)
{
    begin (self, style);
    while (self->n < self->rows && self->used < column && self->used < self->columns)
        add (self, " ", 1, 1);
    end (self, style);
}

void wm_canvas_next (wm_screen_t *self)
{
    if (self->n >= self->rows)
        return;
    char *line = self->line[self->n];
    while (self->bytes && line[self->bytes - 1] == ' ')
        line[--self->bytes] = 0;
    self->n++;
    self->used = 0;
    self->bytes = 0;
    if (self->n < self->rows)
        self->line[self->n][0] = 0;
}

void wm_canvas_wrap (wm_screen_t *self, wm_style_t style, const char *head, const char *text,
                     int lines_max)
{
    char part[1024];
    const int indent = (int) strlen (head);
    const size_t room = self->columns - indent > 20 ? (size_t) (self->columns - indent) : 20;
    for (int i = 0; i < lines_max && (*text || !i); i++) {
        size_t n = strlen (text), next;
        if (n > room && i < lines_max - 1) {
            for (n = room; n > room / 2 && text[n] != ' '; n--)
                ;
            while (text[n] && ((unsigned char) text[n] & 0xc0) == 0x80)
                n++;
        }
        next = n + (text[n] == ' ');
        snprintf (part, sizeof part, "%.*s", (int) (n < sizeof part ? n : sizeof part - 1), text);
        wm_canvas_put (self, style, "%s", i ? "" : head);
        wm_canvas_pad (self, WM_PLAIN, indent);
        wm_canvas_put (self, style, "%s", part);
        wm_canvas_next (self);
        text += next;
    }
}

void wm_canvas_graph (wm_screen_t *self, wm_style_t style, const float *value, int n, int row,
                      int rows)
{
    static const char *const blocks[] = { " ",
                                          "\xe2\x96\x81",
                                          "\xe2\x96\x82",
                                          "\xe2\x96\x83",
                                          "\xe2\x96\x84",
                                          "\xe2\x96\x85",
                                          "\xe2\x96\x86",
                                          "\xe2\x96\x87",
                                          "\xe2\x96\x88" };
    static const char *const ascii[] = { " ", "_", ".", "-", "=", "+", "*", "#", "#" };
    begin (self, style);
    for (int i = 0; i < n && self->used < self->columns; i++) {
        const float all = value[i] < 0 ? 0 : value[i] > 1 ? 1 : value[i];
        int level = (int) (all * (float) (8 * rows) + 0.5f) - 8 * row;
        if (all > 0 && !row && level < 1)
            level = 1; /* little is not nothing */
        level = level < 0 ? 0 : level > 8 ? 8 : level;
        const char *cell = value[i] < 0 ? " " : self->has_utf8 ? blocks[level] : ascii[level];
        add (self, cell, strlen (cell), 1);
    }
    end (self, style);
}
