/* wm_page_event.h - where the page of an event lies beside an output (out/a.html beside
   out/a.scores.h5), as other pages link it. Thread: any.  */
#ifndef WM_PAGE_EVENT_H
#define WM_PAGE_EVENT_H

#include <limits.h>

enum { WM_PAGE_EVENT_URL_BYTES = 3 * PATH_MAX + 1 };

/* The folder of the page that has the links, and a slash.  */
typedef struct {
    char folder[PATH_MAX];
} wm_page_events_t;

/* Takes where that page will lie.  */
void wm_page_events_begin (wm_page_events_t *self, const char *page);

/* Returns where the page of this output's event lies, as a URL in `url`; NULL: there is no such
   page.  */
const char *wm_page_events_link (const wm_page_events_t *self, const char *output,
                                 char url[WM_PAGE_EVENT_URL_BYTES]);

#endif
