/* wm_text.h - texts that people write: lines, cells and blanks, whatever editor they come from.

   A line ends with LF, CR LF or CR (Excel for Mac); the last one needs no end. A byte order mark of
   UTF-8 is no part of the text. UTF-16, UTF-32 and NUL bytes are refused by name, with the cure.
   Form feeds, no-break spaces and the like are blanks, too. All texts that a user gives are read by
   this file, so that they agree.
   Thread: an object's owner's.  */
#ifndef WM_TEXT_H
#define WM_TEXT_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- lines of a file ------------------------------------------------------------------------- */

/* Zeroed before wm_lines_start; what is not named is private.  */
typedef struct {
    uint32_t line; /* number of the line that wm_lines_next gave last, from 1 */
    int fd;
    const char *name;
    char *space;
    size_t room, at, end;
    int is_over, drops_lf;
} wm_lines_t;

/* Begins to read `fd`, lent, from where it is; `name`, lent, is for messages. A line may have up to
   bytes_max bytes. WM_EHOST: out of memory.  */
wm_fault_t wm_lines_start (wm_lines_t *self, int fd, const char *name, size_t bytes_max,
                           wm_error_t *error);

/* *line: the next line without its end, NUL-terminated, which may be written to until the next
   call; NULL behind the last. WM_EBATCH: it cannot be read, is too long, or is no such text.  */
wm_fault_t wm_lines_next (wm_lines_t *self, char **line, wm_error_t *error);
void wm_lines_clear (wm_lines_t *self);

/* ---- texts in memory ------------------------------------------------------------------------- */

/* Returns what iconv calls the encoding of a text that begins as UTF-16 or UTF-32, with a mark or
   without; else NULL.  */
const char *wm_text_encoding (const char *text, size_t bytes);

/* Drops a byte order mark and makes every end of a line LF, in place; *bytes becomes less. Writes a
   NUL behind them, so that `text` has room for one more. WM_EBATCH: it is no such text.  */
wm_fault_t wm_text_plain (char *text, size_t *bytes, const char *name, wm_error_t *error);

/* Reads a file whole, as wm_text_plain leaves it; the caller frees *text. WM_EUSAGE: it cannot be
   read; WM_EBATCH: it has more than bytes_max bytes, or is no such text.  */
wm_fault_t wm_text_read (const char *path, size_t bytes_max, char **text, size_t *bytes,
                         wm_error_t *error);

/* Returns how many bytes the character at `text` has, of which `bytes` are there, and *code, its
   number; 0: it is not UTF-8 (RFC 3629).  */
size_t wm_text_character (const char *text, size_t bytes, uint32_t *code);

/* Returns whether all of it is UTF-8 without NUL.  */
bool wm_text_is_utf8 (const void *text, size_t bytes);

/* Returns how many bytes the blank at `text` has; 0: no blank, such as the end of a line.  */
size_t wm_text_blank (const char *text);

bool wm_text_ends (const char *text, const char *end);

/* Cuts blanks and ends of lines off both ends, in place; returns where the rest begins.  */
char *wm_text_trim (char *text);

/* Returns whether a line of a table is blank or a comment, which # begins. Lines of tables are not
   cut by wm_text_trim: tabs separate cells, and the first cell may be empty.  */
bool wm_text_is_comment (const char *line);

/* Prints `word` so that a shell reads it as this word, cut at `bytes`; returns `to`.  */
char *wm_text_word (char *to, size_t bytes, const char *word);

/* Prints a text as a string of JSON; bytes that are no UTF-8 become question marks.  */
void wm_text_json (FILE *out, const char *text);

/* ---- cells of a line ------------------------------------------------------------------------- */

/* Returns what separates the cells of a line with names: a comma, a semicolon or a tab.  */
char wm_text_separator (const char *line);

/* Returns what is wrong with a first line that is a single cell with blanks inside, as the end of
   a message; "" of others. cell: the first of n.  */
const char *wm_text_unseparated (const char *cell, uint32_t n);

/* Takes the cell that begins at *at, without blanks around it and without quotes ("a ""b"""), and
   ends it in place; *at moves to the next one, NULL behind the last. NULL: a quote does not end, or
   more follows it.  */
char *wm_text_cell (char **at, char separator);

#endif
