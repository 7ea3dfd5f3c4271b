/* wm_report_files.h - the inputs of a campaign on the page of `wiremill report`: a grid of squares
   by state, and a table.

   Rows are added as a broker lists them, any number: memory and page stay bounded. Thread: one.  */
#ifndef WM_REPORT_FILES_H
#define WM_REPORT_FILES_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

typedef struct wm_report_files wm_report_files_t;

/* NULL: no memory.  */
wm_report_files_t *wm_report_files_new (void);
void wm_report_files_free (wm_report_files_t *self);

/* Adds a row of "wiremill-files-1". link: where its event's page is, from the report's, as a URL;
   NULL: its event has no page.  */
void wm_report_files_add (wm_report_files_t *self, const json_t *file, const char *link);

/* Writes the section; nothing if there are no inputs. rows: what a row of an output is.  */
void wm_report_files_write (const wm_report_files_t *self, const char *rows, FILE *out);

#endif
