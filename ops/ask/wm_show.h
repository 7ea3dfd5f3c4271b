/* wm_show.h - numbers and progress for people.

   Messages and progress go to stderr, results to stdout. On a terminal progress is one line that is
   redrawn and never wider than the terminal, because a line that wraps scrolls with each redraw;
   elsewhere a plain line every 30 s. NO_COLOR and TERM=dumb are respected.  */
#ifndef WM_SHOW_H
#define WM_SHOW_H

#include "ops/process/wm_words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each writes into `text` and returns it. */
const char *wm_show_count (int64_t n, char text[32]);                  /* 96,540 */
const char *wm_show_rows (int64_t n, const char *rows, char text[64]); /* 1 batch, 2,000 hits */
const char *wm_show_short (double n, char text[32]);                   /* 18.1k, 0.3 */
const char *wm_show_bytes (double bytes, char text[32]);               /* 0.25 MB */
const char *wm_show_time (double seconds, char text[32]); /* 12.3 s, 4 min 12 s, 3 h 4 min */
const char *wm_show_bar (double share, int width, char text[64]); /* [####----] */

/* Returns whether text on `fd` may have colours: it is a terminal, and neither NO_COLOR nor
   TERM=dumb is set.  */
bool wm_show_has_colors (int fd);

/* Puts `part` one after the other into `line`, with two spaces between. Of what does not fit into
   `width` columns the part with the highest `rank` is left out first; the last that is left is cut.
   Empty parts are skipped. At most 16 parts. Returns the length.  */
typedef struct {
    const char *text; /* ASCII */
    int rank;
} wm_show_part_t;
int wm_show_fit (const wm_show_part_t *part, size_t n_part, int width,
                 char line[WM_WORDS_WIDTH_MAX + 1]);

typedef struct {
    bool quiet, terminal, has_colors;
    int64_t last_ms; /* when something was shown */
    bool drawn;      /* a line stands on the terminal */
} wm_progress_t;

void wm_progress_init (wm_progress_t *self, bool quiet);
/* Returns how many columns a line may have now.  */
int wm_progress_width (const wm_progress_t *self);
/* Shows `line` if it is time to, cut to wm_progress_width.  */
void wm_progress_show (wm_progress_t *self, const char *line, int64_t now_ms);
/* Clears the drawn line, before anything else is printed.  */
void wm_progress_clear (wm_progress_t *self);

#endif
