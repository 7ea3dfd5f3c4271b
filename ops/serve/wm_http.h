/* wm_http.h - the HTTP side of `wiremill serve`: pages of a table, by libmicrohttpd.

   Bounded whatever connects: WM_HTTP_CONNECTIONS_MAX connections, each with
   WM_HTTP_MEMORY_BYTES for what it sends, and WM_HTTP_LIFE_MS from its beginning to its end. One
   that waits for a place waits in the kernel's queue. Only GET and HEAD are answered; a body is not
   read. Nothing of a request but its path is looked at.  */
#ifndef WM_HTTP_H
#define WM_HTTP_H

#include "schema/base/wm_fault.h"

#include <stddef.h>

#define WM_HTTP_CONNECTIONS_MAX 64
#define WM_HTTP_MEMORY_BYTES 8192
#define WM_HTTP_LIFE_MS 10000

typedef struct wm_http_t wm_http_t;

/* A page. `make` returns its text, freed by the caller; NULL: no memory. It is called by the
   server's thread.  */
typedef struct {
    const char *path, *type; /* path NULL ends the table */
    char *(*make) (void *context, size_t *bytes);
} wm_http_page_t;

/* Listens at "HOST:PORT" (an address of IPv4 or [IPv6], port 0: any) and serves from a thread of
   its own. The table is lent. NULL: *error; WM_EUSAGE: that is no address.  */
wm_http_t *wm_http_new (const char *listen, const wm_http_page_t *pages, void *context,
                        wm_error_t *error);
void wm_http_destroy (wm_http_t **self_p);

/* The address it listens at, "127.0.0.1:9555"; lent.  */
const char *wm_http_address (const wm_http_t *self);

/* Ends connections that are older than WM_HTTP_LIFE_MS; called now and then by the owner.  */
void wm_http_sweep (wm_http_t *self);

#endif
