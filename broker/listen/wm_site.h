/* wm_site.h - the addresses that --listen names, and binding three ports there.

   Thread: the caller's.  */
#ifndef WM_SITE_H
#define WM_SITE_H

#include "schema/base/wm_address.h"

#include <stdbool.h>
#include <stddef.h>

#define WM_PORTS 3 /* of workers, producers and operators */

/* One address to listen on, with the numeric hosts that its name stands for.  */
typedef struct {
    wm_address_t at;
    int n_host;
    char host[WM_HOSTS_MAX][WM_HOST_BYTES];
} wm_site_t;

/* Returns the number of sites that `endpoint` names, 0 where *error (WM_EHOST) explains.  */
int wm_sites_parse (wm_site_t site[WM_ADDRESSES_MAX], const char *endpoint, wm_error_t *error);

bool wm_site_is_ipc (const wm_site_t *site);

/* Only processes of this machine can connect.  */
bool wm_site_is_local (const wm_site_t *site);

/* Prints the address of port i on a host of the site.  */
void wm_site_print (const wm_site_t *site, int host, size_t i, char text[400]);

/* Binds a site's ports on each of its hosts; all or none. The ports are those given, the first
   three in a row that are free in its range, or any. A host that this machine has not (of a name
   with several) is left out where another is bound. Afterwards *site is what was bound. WM_EHOST:
   *error explains.  */
wm_fault_t wm_site_bind (wm_site_t *site, void *const socket[WM_PORTS], wm_error_t *error);

/* Puts loopback in place of a first host that stands for all of this machine's, which is no address
   to connect to.  */
void wm_site_near (wm_site_t *site);

#endif
