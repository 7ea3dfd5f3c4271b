/* wm_words.c - see wm_words.h. */
#include "ops/process/wm_words.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_DEFAULT 80
#define WIDTH_LEAST 10 /* a smaller number is a mistake of the terminal's */

int wm_words_width (int fd)
{
    struct winsize size;
    const char *columns = getenv ("COLUMNS");
    /* A file or a pipe has no size: ioctl fails.  */
    const bool known = ioctl (fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= WIDTH_LEAST;
    const long width = known ? size.ws_col : columns ? strtol (columns, NULL, 10) : 0;
    return width < WIDTH_LEAST          ? WIDTH_DEFAULT
           : width > WM_WORDS_WIDTH_MAX ? WM_WORDS_WIDTH_MAX
                                        : (int) width;
}

/* The bytes of a word and of the spaces before it; *columns: without them.  */
static size_t word (const char *text, int *columns)
{
    const size_t spaces = strspn (text, " ");
    bool is_command = false;
    size_t n = spaces;
    for (*columns = 0; text[n] && (text[n] != ' ' || is_command); n++) {
        is_command ^= text[n] == '`';
        *columns += ((unsigned char) text[n] & 0xc0) != 0x80;
    }
    return n;
}

void wm_words_wrap (FILE *out, const char *text, int width)
{
    const int indent = (int) strspn (text, " ") + 2;
    int at = 0, columns;
    for (size_t n; *text; text += n) {
        n = word (text, &columns);
        const int spaces = (int) strspn (text, " ");
        if (at && at + spaces + columns > width) {
            fprintf (out, "\n%*s%.*s", indent, "", (int) n - spaces, text + spaces);
            at = indent + columns;
        } else {
            fwrite (text, 1, n, out);
            at += spaces + columns;
        }
    }
    fputc ('\n', out);
}

void wm_words_print (FILE *out, const char *format, ...)
{
    char *text = NULL, *lines = NULL;
    size_t bytes = 0;
    const int fd = fileno (out);
    FILE *memory = open_memstream (&lines, &bytes);
    va_list args;
    va_start (args, format);
    const int n = memory ? vasprintf (&text, format, args) : -1;
    va_end (args);
    if (n >= 0) {
        wm_words_wrap (memory, text, fd >= 0 && isatty (fd) ? wm_words_width (fd) : n + 1);
        free (text);
    } else { /* no memory: as it is */
        va_start (args, format);
        vfprintf (out, format, args);
        va_end (args);
        fputc ('\n', out);
    }
    if (memory)
        fclose (memory);
    fwrite (lines, 1, bytes, out); /* at once: others write to a terminal, too */
    free (lines);
}
