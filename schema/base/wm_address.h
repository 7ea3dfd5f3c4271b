/* wm_address.h - addresses of brokers: their text, and the hosts that a name stands for.

     tcp://HOST:PORT      workers' port; producers use PORT + 1, operators PORT + 2
     tcp://HOST:W/P/O     the three ports by number, where a port forward cannot keep them together
     ipc://PATH           sockets PATH.w, PATH.p and PATH.o
     file://PATH          the endpoint.json of a campaign, which names the addresses

   HOST is a name, an IPv4 address or an IPv6 address in brackets. To listen on, it may also be the
   name of an interface, or *, which is all interfaces in both families; and a PORT may be * or 0
   (any three free ports) or a range FIRST-LAST (its first three free ports in a row). Several
   addresses are joined by commas. To connect to, they are alternatives for one broker, tried in
   their order. Thread: any.  */
#ifndef WM_ADDRESS_H
#define WM_ADDRESS_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>

#define WM_ADDRESSES_MAX 8        /* in one text */
#define WM_HOSTS_MAX 8            /* of one name or interface */
#define WM_HOST_BYTES 72          /* an IPv6 address with its interface, in brackets */
#define WM_ADDRESS_BYTES 320      /* one address as text */
#define WM_PORT_BASE_MAX 65533    /* two more follow it */
#define WM_IPC_PATH_BYTES_MAX 105 /* with ".w" it fills a Unix socket's address */

typedef enum { WM_ADDRESS_CONNECT, WM_ADDRESS_LISTEN } wm_address_use_t;
typedef enum { WM_ADDRESS_TCP, WM_ADDRESS_IPC, WM_ADDRESS_FILE } wm_address_scheme_t;

typedef struct {
    wm_address_scheme_t scheme;
    char host[256]; /* without brackets; or the path */
    int port[3];    /* of workers, producers, operators; 0: any (listening) */
    int last;       /* of a range that begins with port[0]; else 0 */
} wm_address_t;

/* Parses a text of one or several addresses. Returns how many; 0: *error (WM_EUSAGE) names the
   mistake and what to type.  */
int wm_address_parse (wm_address_t list[WM_ADDRESSES_MAX], const char *text, wm_address_use_t use,
                      wm_error_t *error);

/* Fills `host` with the numeric hosts of a TCP address, as libzmq takes them (IPv6 in brackets; *
   stays). Asks the resolver, which may take as long as its own time limits. Returns how many; 0:
   *error (WM_EAGAIN) explains.  */
int wm_address_resolve (const wm_address_t *self, wm_address_use_t use,
                        char host[WM_HOSTS_MAX][WM_HOST_BYTES], wm_error_t *error);

/* Returns whether only this machine reaches this numeric host.  */
bool wm_address_is_loopback (const char *host);

/* Returns whether only the broker's own machine has it: a socket file, or loopback.  */
bool wm_address_is_near (const wm_address_t *self);

/* Prints the address with another host in place of its own (NULL: its own).  */
void wm_address_print (const wm_address_t *self, const char *host, char text[WM_ADDRESS_BYTES]);

#endif
