/* wm_site.c - finds what --listen names, and binds three ports there.  */
#include "broker/listen/wm_site.h"
#include "broker/listen/wm_port.h"

#include <czmq.h>

int wm_sites_parse (wm_site_t site[WM_ADDRESSES_MAX], const char *endpoint, wm_error_t *error)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    const int n = wm_address_parse (list, endpoint, WM_ADDRESS_LISTEN, error);
    for (int i = 0; i < n; i++) {
        site[i] = (wm_site_t){ .at = list[i], .n_host = 0 };
        if (wm_site_is_ipc (&site[i]))
            continue;
        site[i].n_host = wm_address_resolve (&list[i], WM_ADDRESS_LISTEN, site[i].host, error);
        if (!site[i].n_host) {
            error->fault = WM_EHOST;
            return 0;
        }
    }
    if (!n)
        error->fault = WM_EHOST;
    return n;
}

bool wm_site_is_ipc (const wm_site_t *site)
{
    return site->at.scheme == WM_ADDRESS_IPC;
}

bool wm_site_is_local (const wm_site_t *site)
{
    for (int i = 0; i < site->n_host; i++)
        if (!wm_address_is_loopback (site->host[i]))
            return false;
    return true;
}

void wm_site_print (const wm_site_t *site, int host, size_t i, char text[400])
{
    if (wm_site_is_ipc (site))
        snprintf (text, 400, "ipc://%s.%c", site->at.host, "wpo"[i]);
    else
        snprintf (text, 400, "tcp://%s:%d", site->host[host], site->at.port[i]);
}

void wm_site_near (wm_site_t *site)
{
    if (strcmp (site->host[0], "*") == 0 || strcmp (site->host[0], "0.0.0.0") == 0)
        strcpy (site->host[0], "127.0.0.1");
    if (strcmp (site->host[0], "[::]") == 0)
        strcpy (site->host[0], "[::1]");
}

/* Binds a site's ports on each of its hosts. Returns -1, with errno and the port, by its number in
   `site`, that could not be bound.  */
static int ports_bind (void *const socket[WM_PORTS], wm_site_t *site, size_t *at)
{
    char text[400];
    const int n_host = wm_site_is_ipc (site) ? 1 : site->n_host;
    int n_bound = 0;
    for (int h = 0; h < n_host; h++) {
        size_t i = 0;
        for (; i < WM_PORTS; i++) {
            wm_site_print (site, h, i, text);
            if (zmq_bind (socket[i], text))
                break;
        }
        if (i == WM_PORTS) {
            memcpy (site->host[n_bound++], site->host[h], WM_HOST_BYTES);
            continue;
        }
        if (i == 0 && errno == EADDRNOTAVAIL && (h + 1 < n_host || n_bound))
            continue;
        const int saved = errno;
        *at = i;
        memcpy (site->host[n_bound], site->host[h], WM_HOST_BYTES);
        for (int b = 0; b <= n_bound; b++)
            for (size_t k = 0; k < (b < n_bound ? WM_PORTS : i); k++) {
                wm_site_print (site, b, k, text);
                zmq_unbind (socket[k], text);
            }
        errno = saved;
        return -1;
    }
    site->n_host = n_bound;
    return 0;
}

static void ports_set (wm_address_t *address, int base)
{
    for (int i = 0; i < WM_PORTS; i++)
        address->port[i] = base + i;
}

/* Binds a site to the ports given, to the first three in a row that are free in its range, or to
   any: first where this process is likely alone. A port that is taken rules out all bases below it,
   so that no port is tried again that was just released (libzmq closes it later).  */
static int bind_somewhere (void *const socket[WM_PORTS], wm_site_t *site, size_t *at)
{
    const wm_site_t given = *site;
    const int last = given.at.last;
    if (wm_site_is_ipc (&given) || (given.at.port[0] && !last))
        return ports_bind (socket, site, at);
    int base = given.at.port[0];
    for (int i = 0; last ? base + 2 <= last : i < 200; i++) {
        if (!last)
            base = 20000 + (int) (((unsigned) getpid () * 7 + (unsigned) i * 131) % 40000);
        *site = given;
        site->at.last = 0;
        ports_set (&site->at, base);
        if (ports_bind (socket, site, at) == 0)
            return 0;
        if (errno != EADDRINUSE && errno != EACCES)
            return -1;
        base += (int) *at + 1;
    }
    return -1;
}

/* Explains a bind that failed; `at` is the port that did.  */
static void explain (const wm_site_t *site, const wm_address_t *given, size_t at, wm_error_t *error)
{
    static const char *const role[] = { "workers", "producers", "operators" };
    const int saved = errno;
    char text[WM_ADDRESS_BYTES], range[WM_ADDRESS_BYTES], who[WM_PORT_HOLDER_BYTES];
    wm_address_t wider = *given;
    wider.port[0] = 5500;
    wider.last = 5600;
    wm_address_print (given, NULL, text);
    wm_address_print (&wider, NULL, range);
    if (wm_site_is_ipc (site)) {
        wm_fault (error, WM_EHOST, "cannot listen on %s (.w, .p and .o): %s%s", text,
                  zmq_strerror (saved), saved == ENOENT ? ": give a folder that is there" : "");
        return;
    }
    wm_port_holder (site->at.port[at], who);
    if (given->last)
        wm_fault (error, WM_EHOST,
                  "cannot listen on %s: no three ports in a row are free there (%s has the last "
                  "that was tried); give a wider range",
                  text, who);
    else if (saved == EADDRINUSE)
        wm_fault (error, WM_EHOST,
                  "cannot listen on %s: port %d (%s) is in use: %s has it; choose others with "
                  "--listen, or a range to take free ones from: --listen %s",
                  text, site->at.port[at], role[at], who, range);
    else
        wm_fault (error, WM_EHOST, "cannot listen on %s (port %d): %s%s", text, site->at.port[at],
                  zmq_strerror (saved),
                  saved == EADDRNOTAVAIL ? ": no interface of this machine has it"
                  : saved == EACCES && site->at.port[at] < 1024
                      ? ": ports below 1024 are root's; choose a larger one"
                      : "");
}

wm_fault_t wm_site_bind (wm_site_t *site, void *const socket[WM_PORTS], wm_error_t *error)
{
    const wm_address_t given = site->at;
    size_t at = 0;
    if (bind_somewhere (socket, site, &at) == 0)
        return WM_OK;
    explain (site, &given, at, error);
    return error->fault;
}
