/* wm_page.h - a page for people: one HTML file that names nothing outside itself and has no script,
   to be read on a screen, light or dark, on a telephone and on paper.

   A page is written as text to a FILE, whoever opened it checks it for errors. What comes from
   elsewhere (names of files, labels) goes through wm_page_print, or wm_svg_text. Pictures are
   wm_svg.h's. Thread: one at a time for each FILE.  */
#ifndef WM_PAGE_H
#define WM_PAGE_H

#include <stdint.h>
#include <stdio.h>

/* Writes a number with commas ("96,540") into `text` and returns it.  */
const char *wm_page_count (int64_t n, char text[32]);

/* Writes the page's begin: style, title, and the title as its heading.  */
void wm_page_begin (FILE *out, const char *title);
void wm_page_end (FILE *out);

/* The same of a page with a script, which its policy admits by its hash, and a style behind that of
   pages: without the tag <main>, which the caller writes.  */
void wm_page_begin_script (FILE *out, const char *title, const char *style, const char *script);

/* Writes text, formatted as printf does, escaped.  */
void wm_page_print (FILE *out, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

/* Writes an element that has only such text in it: "p", "h2", "td". `element` may have attributes:
   "td class=\"n\"".  */
void wm_page_put (FILE *out, const char *element, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

/* Writes a number of wm_page_count as a cell of a table.  */
void wm_page_count_cell (FILE *out, uint64_t n);

/* A table that a narrow screen scrolls: its caption, its heads, then rows. Readers of screens have
   its name and that of each cell from these; paper repeats the heads on each page.  */
void wm_page_table (FILE *out, const char *caption);
void wm_page_table_end (FILE *out);

/* Writes the row of a table's heads, "Name|#Hits|#Share": # marks a column of numbers.  */
void wm_page_heads (FILE *out, const char *heads);

/* The same with columns of numbers between them that have these names (n).  */
void wm_page_heads_of (FILE *out, const char *before, const char (*name)[48], uint32_t n,
                       const char *behind);

/* Begins a row by its head, formatted as printf does, escaped. The caller writes its cells and
   "</tr>".  */
void wm_page_row (FILE *out, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

/* A row of pictures, which go below each other where there is no room.  */
void wm_page_pictures (FILE *out);
void wm_page_pictures_end (FILE *out);

#endif
