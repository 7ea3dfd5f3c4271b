/* wm_words.h - lines for people: on a terminal they break between words, not at its edge.

   Thread: any.  */
#ifndef WM_WORDS_H
#define WM_WORDS_H

#include <stdio.h>

#define WM_WORDS_WIDTH_MAX 240

/* Returns the columns of the terminal at `fd` as it is now; where that does not know, or `fd` is no
   terminal, COLUMNS or 80.  */
int wm_words_width (int fd);

/* Prints a line. If `out` is a terminal, what does not fit into it goes on in the next line, two
   columns farther in. A command in backquotes stays in one line, for people who copy it.  */
void wm_words_print (FILE *out, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

/* Prints it so for a terminal of `width` columns.  */
void wm_words_wrap (FILE *out, const char *text, int width);

#endif
