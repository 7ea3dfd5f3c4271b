/* wm_web.h - the HTTP side of `wiremill serve`: pages of a table.

   Bounded whatever connects: WM_HTTP_CONNECTIONS_MAX connections, each with one request, and with
   WM_HTTP_LIFE_MS from its beginning to its end and a millisecond more for each WM_HTTP_BYTES_MS
   that it has taken of its answer. While every place is taken it has WM_HTTP_CROWDED_MS and so on,
   so that silent ones soon make room. All answers together have at most 64 MiB. One that waits for
   a place waits in the kernel's queue. Only GET and HEAD are answered; a body is dropped. Of a
   request its path and query are looked at, its host, and the header Authorization.

   On another address than loopback it wants a password for every page that is not open, unless the
   owner says that anybody may read; guesses are throttled (wm_throttle.h). On loopback without a
   password a request must name this machine by its number or as localhost: a page of another site
   that a browser on this machine shows cannot read ours under its own name (DNS rebinding).  */
#ifndef WM_WEB_H
#define WM_WEB_H

#include "ops/serve/wm_password.h"
#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>

#define WM_HTTP_CONNECTIONS_MAX 64
#define WM_HTTP_LIFE_MS 10000
#define WM_HTTP_BYTES_MS 8      /* 8 KB/s */
#define WM_HTTP_CROWDED_MS 1000 /* an answer takes milliseconds */
#define WM_HTTP_CROWDED_BYTES_MS 64

typedef struct wm_webserver_t wm_webserver_t;

/* What a page is asked for: the path, decoded, and the query as it was sent.  */
typedef struct {
    const char *path, *query;
} wm_http_request_t;

/* What a page answers.  */
typedef struct {
    char *text; /* freed by the server; NULL: no memory */
    size_t bytes;
    unsigned code;      /* 200, unless `make` sets another */
    const char *type;   /* that of the page's row, unless `make` sets another */
    const char *policy; /* Content-Security-Policy, lent; NULL: nothing may run or be loaded */
} wm_http_answer_t;

/* A page, or with a path that ends in "*" all that begin so. `make` is called by the server's
   thread.  */
typedef struct {
    const char *path, *type; /* path NULL ends the table */
    bool is_open;            /* needs no password */
    void (*make) (void *context, const wm_http_request_t *request, wm_http_answer_t *answer);
} wm_http_page_t;

typedef struct {
    const char *listen;            /* "HOST:PORT", an address of IPv4 or [IPv6]; port 0: any */
    const wm_password_t *password; /* lent; NULL: none */
    bool is_insecure;              /* anybody who reaches another address than loopback may read */
} wm_http_how_t;

/* Listens and serves from a thread of its own. The table is lent. NULL: *error; WM_EUSAGE: that is
   no address, or it needs a password.  */
wm_webserver_t *wm_http_new (const wm_http_how_t *how, const wm_http_page_t *pages, void *context,
                             wm_error_t *error);
void wm_http_destroy (wm_webserver_t **self_p);

/* The address it listens at, "127.0.0.1:9555"; lent.  */
const char *wm_http_address (const wm_webserver_t *self);

#endif
