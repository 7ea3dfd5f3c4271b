/* wm_page_event.c - see wm_page_event.h.  */
#include "schema/page/wm_page_event.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wm_page_events_begin (wm_page_events_t *self, const char *page)
{
    char folder[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr (page, '/');
    snprintf (folder, sizeof folder, "%.*s", slash ? (int) (slash - page) + 1 : 1,
              slash ? page : ".");
    *self->folder = 0;
    if (realpath (folder, real))
        snprintf (self->folder, sizeof self->folder, "%.4000s%s", real,
                  strcmp (real, "/") ? "/" : "");
}

const char *wm_page_events_link (const wm_page_events_t *self, const char *output,
                                 char url[WM_PAGE_EVENT_URL_BYTES])
{
    static const char end[] = ".scores.h5";
    char page[PATH_MAX], real[PATH_MAX];
    const size_t n = strlen (output), bare = n > sizeof end - 1 ? n - (sizeof end - 1) : 0;
    if (!bare || strcmp (output + bare, end) != 0 || !*self->folder ||
        snprintf (page, sizeof page, "%.*s.html", (int) bare, output) >= PATH_MAX ||
        !realpath (page, real))
        return NULL;
    const size_t same = strlen (self->folder);
    const char *from = strncmp (real, self->folder, same) ? real : real + same;
    char *to = url;
    for (; *from; from++)
        if (strchr ("/-_.~", *from) || isalnum ((unsigned char) *from))
            *to++ = *from;
        else
            to += sprintf (to, "%%%02X", (unsigned char) *from);
    *to = 0;
    return url;
}
