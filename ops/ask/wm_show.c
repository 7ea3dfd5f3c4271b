/* wm_show.c - see wm_show.h. */

#include "ops/ask/wm_show.h"
#include "schema/base/wm_log.h"
#include "schema/page/wm_page.h"
#include "schema/wm_limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAIN_EVERY_MS 30000
#define PLAIN_FIRST_MS 5000
#define DRAW_EVERY_MS 250
#define PARTS_MAX 16

const char *wm_show_count (int64_t n, char text[32])
{
    return wm_page_count (n, text);
}

const char *wm_show_rows (int64_t n, const char *rows, char text[64])
{
    char number[32];
    const size_t all = strlen (rows);
    const bool is_es = all > 4 && strcmp (rows + all - 4, "ches") == 0; /* patches, batches */
    const int length = (int) all - (n != 1 ? 0 : is_es ? 2 : 1);
    snprintf (text, 64, "%s %.*s", wm_show_count (n, number), length < 24 ? length : 24, rows);
    return text;
}

const char *wm_show_short (double n, char text[32])
{
    if (n > 0 && n < 1)
        snprintf (text, 32, "%.1g", n);
    else if (n < 10000) /* a half is rounded as where it is a count, not to even */
        snprintf (text, 32, "%.0f", round (n));
    else if (n < 1e6)
        snprintf (text, 32, "%.1fk", n / 1e3);
    else
        snprintf (text, 32, "%.1fM", n / 1e6);
    return text;
}

const char *wm_show_bytes (double bytes, char text[32])
{
    if (bytes < 1e4)
        snprintf (text, 32, "%.0f B", bytes);
    else if (bytes < 1e5)
        snprintf (text, 32, "%.1f kB", bytes / 1e3);
    else if (bytes < 1e9)
        snprintf (text, 32, "%.2f MB", bytes / 1e6);
    else
        snprintf (text, 32, "%.2f GB", bytes / 1e9);
    return text;
}

const char *wm_show_time (double seconds, char text[32])
{
    const long s = seconds < 59.95 ? 0 : (long) (seconds < 1e15 ? seconds + 0.5 : 1e15);
    if (seconds < 59.95)
        snprintf (text, 32, "%.1f s", seconds);
    else if (s < 3600)
        snprintf (text, 32, "%ld min %ld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf (text, 32, "%ld h %ld min", s / 3600, s / 60 % 60);
    else
        snprintf (text, 32, "%ld d %ld h", s / 86400, s / 3600 % 24);
    return text;
}

const char *wm_show_bar (double share, int width, char text[64])
{
    if (width > 60)
        width = 60;
    const int full = share >= 1 ? width : share <= 0 ? 0 : (int) (share * width);
    text[0] = '[';
    memset (text + 1, '#', (size_t) full);
    memset (text + 1 + full, '-', (size_t) (width - full));
    text[width + 1] = ']';
    text[width + 2] = 0;
    return text;
}

static bool is_terminal (int fd)
{
    const char *term = getenv ("TERM");
    return isatty (fd) && term && strcmp (term, "dumb") != 0;
}

bool wm_show_has_colors (int fd)
{
    const char *no_color = getenv ("NO_COLOR");
    return is_terminal (fd) && (!no_color || !*no_color);
}

int wm_show_fit (const wm_show_part_t *part, size_t n_part, int width,
                 char line[WM_WORDS_WIDTH_MAX + 1])
{
    size_t kept[PARTS_MAX], n_kept = 0, length = 0;
    for (size_t i = 0; i < n_part && i < PARTS_MAX; i++)
        if (*part[i].text) {
            length += strlen (part[i].text) + (n_kept ? 2 : 0);
            kept[n_kept++] = i;
        }
    while (length > (size_t) width && n_kept > 1) {
        size_t worst = 0;
        for (size_t k = 1; k < n_kept; k++)
            if (part[kept[k]].rank > part[kept[worst]].rank)
                worst = k;
        length -= strlen (part[kept[worst]].text) + 2;
        memmove (kept + worst, kept + worst + 1, (n_kept - worst - 1) * sizeof *kept);
        n_kept--;
    }
    int at = 0;
    line[0] = 0;
    for (size_t k = 0; k < n_kept && at < width; k++)
        at += snprintf (line + at, (size_t) (width - at) + 1, "%s%s", k ? "  " : "",
                        part[kept[k]].text);
    return at < width ? at : width;
}

void wm_progress_init (wm_progress_t *self, bool quiet)
{
    *self = (wm_progress_t){ .quiet = quiet };
    self->terminal = is_terminal (STDERR_FILENO);
    self->has_colors = wm_show_has_colors (STDERR_FILENO);
    self->last_ms =
        wm_now_ms () - (self->terminal ? DRAW_EVERY_MS : PLAIN_EVERY_MS - PLAIN_FIRST_MS);
}

/* The last column stays free: some terminals go to the next line once it is filled.  */
int wm_progress_width (const wm_progress_t *self)
{
    const int width = wm_words_width (STDERR_FILENO);
    return self->terminal ? width - 1 : WM_WORDS_WIDTH_MAX;
}

void wm_progress_show (wm_progress_t *self, const char *line, int64_t now_ms)
{
    if (self->quiet || now_ms - self->last_ms < (self->terminal ? DRAW_EVERY_MS : PLAIN_EVERY_MS))
        return;
    self->last_ms = now_ms;
    char time[WM_LOG_TIME_BYTES];
    if (self->terminal) {
        const int width = wm_progress_width (self);
        const int bar = (int) strcspn (line, "["), end = bar + (int) strcspn (line + bar, "]");
        if (self->has_colors && line[end] && end + 1 < width)
            fprintf (stderr, "\r\033[K%.*s\033[36m%.*s\033[0m%.*s", bar, line, end + 1 - bar,
                     line + bar, width - end - 1, line + end + 1);
        else
            fprintf (stderr, "\r\033[K%.*s", width, line);
        self->drawn = true;
    } else
        fprintf (stderr, "%s%s\n", wm_log_time (time), line);
    fflush (stderr);
}

void wm_progress_clear (wm_progress_t *self)
{
    if (self->drawn)
        fputs ("\r\033[K", stderr);
    self->drawn = false;
}
