/* wm_held_reader.h - reads what is held of the campaigns whose lists are asked for, as `wiremill
   held` does, and their worst hits, from a thread of its own: it asks the broker, and reads
   outputs.

   However many requests come, a list is read once in HELD_EVERY_MS. That of what is held has at
   most WM_HELD_ROWS_MAX inputs and as many files; one that cannot be read again stays. Pages of
   events that lie beside outputs (`wiremill show`) are read by the same thread: a disk that hangs
   stops only it. Thread: the server's, beside the thread inside.  */
#ifndef WM_HELD_READER_H
#define WM_HELD_READER_H

#include "ops/serve/wm_served.h"

#include <jansson.h>

#define WM_HELD_ROWS_MAX 1000
#define WM_EVENT_PAGE_BYTES_MAX (8u << 20)

typedef struct wm_held_reader wm_held_reader_t;

/* NULL: no thread.  */
wm_held_reader_t *wm_held_reader_new (void);

typedef enum { WM_HELD_ROWS, WM_HELD_WORST, WM_HELD_KINDS } wm_held_kind_t;

/* Lends the status of a campaign with all that is held in its "held" and "held_files"
   (WM_HELD_ROWS), or with "worst_files" (WM_HELD_WORST, wm_account_add_worst); files have "page"
   where a page lies beside the output, NAME.html beside NAME.scores.h5. NULL: it is being read. One
   that is too old is read again, with what `status` has. *age_s: since it was read. The thread
   learns nothing new until it is taken back.  */
const json_t *wm_held_reader_lend (wm_held_reader_t *self, const wm_served_t *one,
                                   wm_held_kind_t kind, const json_t *status, double *age_s);

/* Lends such a page. Returns 200; 202: it is being read; 404: no output has this page; 413: it is
   too long. Taken back as the list is.  */
unsigned wm_held_reader_page (wm_held_reader_t *self, const char *folder, const char *name,
                              const char **text, size_t *bytes);

void wm_held_reader_take_back (wm_held_reader_t *self);

/* Ends the thread, for which it waits at most ms. One that is still busy keeps what it has.  */
void wm_held_reader_end (wm_held_reader_t *self, int64_t ms);

#endif
