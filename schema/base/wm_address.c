/* wm_address.c - parses addresses of brokers, and resolves names.

   libzmq gets numeric addresses only: it would resolve a name in its I/O thread, take the first
   address, and report no failure.  */
#include "schema/base/wm_address.h"
#include "schema/base/wm_tcp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const char *const schemes[] = { "tcp://", "ipc://", "file://" };

/* ---- text ------------------------------------------------------------------------------------ */

static int scheme_of (const char *text)
{
    for (int i = 0; i < 3; i++)
        if (strncmp (text, schemes[i], strlen (schemes[i])) == 0)
            return i;
    return -1;
}

/* A comma may be part of a path: only one before a scheme separates.  */
static size_t length_of_first (const char *text)
{
    for (const char *comma = strchr (text, ','); comma; comma = strchr (comma + 1, ','))
        if (scheme_of (comma + 1) >= 0)
            return (size_t) (comma - text);
    return strlen (text);
}

static wm_fault_t parse_path (wm_address_t *self, const char *text, const char *path,
                              wm_error_t *error)
{
    if (self->scheme == WM_ADDRESS_FILE && *path != '/')
        return wm_fault (error, WM_EUSAGE,
                         "%s: behind file:// stands an absolute path: file:///DIR/endpoint.json",
                         text);
    if (*path == '@')
        return wm_fault (error, WM_EUSAGE,
                         "%s: a socket whose name begins with @ is no file, so that every user of "
                         "this machine could join; type ipc:///DIR/NAME",
                         text);
    const size_t most = self->scheme == WM_ADDRESS_IPC ? WM_IPC_PATH_BYTES_MAX : 255;
    if (!*path || strlen (path) > most)
        return wm_fault (error, WM_EUSAGE, "%s: its path has %zu characters, allowed are 1 to %zu",
                         text, strlen (path), most);
    strcpy (self->host, path);
    return WM_OK;
}

/* A range FIRST-LAST.  */
static wm_fault_t parse_range (wm_address_t *self, const char *text, const char *at,
                               const char *dash, const char *end, wm_error_t *error)
{
    const int first = wm_tcp_port (at, dash), last = wm_tcp_port (dash + 1, end);
    if (first < 1 || last < 1 || last > WM_TCP_PORT_MAX)
        return wm_fault (error, WM_EUSAGE, "%s: a range is FIRST-LAST, ports from 1 to 65535",
                         text);
    if (last < first)
        return wm_fault (error, WM_EUSAGE, "%s: the range is reversed; type %d-%d", text, last,
                         first);
    if (last < first + 2)
        return wm_fault (error, WM_EUSAGE,
                         "%s: the range is too small, a broker takes three ports in a row; type "
                         "%d-%d or more",
                         text, first, first + 2 > 65535 ? 65535 : first + 2);
    self->port[0] = first;
    self->last = last;
    return WM_OK;
}

/* The port at `at`, up to `end`; with `tail` the two others, "/P/O".  */
static wm_fault_t parse_ports (wm_address_t *self, const char *text, const char *at,
                               const char *end, const char *tail, wm_address_use_t use,
                               wm_error_t *error)
{
    const bool is_any = end == at + 1 && (*at == '*' || *at == '0');
    const char *dash = memchr (at, '-', (size_t) (end - at));
    const char *second = *tail ? strchr (tail + 1, '/') : NULL;
    if (use == WM_ADDRESS_CONNECT && (is_any || dash))
        return wm_fault (error, WM_EUSAGE,
                         "%s: only --listen takes %s; type the port that the broker printed", text,
                         dash ? "a range" : "port 0 or *");
    if (*tail && (!second || is_any || dash))
        return wm_fault (error, WM_EUSAGE, "%s: leave out what follows the port ('%s'); type %.*s",
                         text, tail, (int) (tail - text), text);
    if (is_any)
        return WM_OK;
    if (dash)
        return parse_range (self, text, at, dash, end, error);
    self->port[0] = wm_tcp_port (at, end);
    self->port[1] = second ? wm_tcp_port (tail + 1, second) : self->port[0] + 1;
    self->port[2] = second ? wm_tcp_port (second + 1, second + strlen (second)) : self->port[0] + 2;
    if (!second && self->port[0] > WM_PORT_BASE_MAX)
        return wm_fault (error, WM_EUSAGE,
                         "%s: the port is above %d; producers and operators use the two above it",
                         text, WM_PORT_BASE_MAX);
    for (int i = 0; i < 3; i++)
        if (self->port[i] < 1 || self->port[i] > 65535)
            return wm_fault (error, WM_EUSAGE, "%s: a port is a number from 1 to %d", text,
                             second ? 65535 : WM_PORT_BASE_MAX);
    if (self->port[0] == self->port[1] || self->port[0] == self->port[2] ||
        self->port[1] == self->port[2])
        return wm_fault (error, WM_EUSAGE,
                         "%s: workers, producers and operators need ports of their own", text);
    return WM_OK;
}

static wm_fault_t parse_tcp (wm_address_t *self, const char *text, wm_address_use_t use,
                             wm_error_t *error)
{
    const char *at = text + strlen ("tcp://"), *tail = at + strcspn (at, "/");
    const char *colon = memrchr (at, ':', (size_t) (tail - at)), *close = NULL;
    size_t length = colon ? (size_t) (colon - at) : (size_t) (tail - at);
    if (*at == '[') {
        close = memchr (at, ']', (size_t) (tail - at));
        if (!close || (colon && colon > close && colon != close + 1))
            return wm_fault (error, WM_EUSAGE,
                             "%s: the brackets of an IPv6 address are not closed; "
                             "type tcp://[ADDRESS]:PORT",
                             text);
        if (colon && colon < close)
            colon = NULL;
        at++;
        length = (size_t) (close - at);
    } else if (colon && memchr (at, ':', length))
        return wm_fault (error, WM_EUSAGE,
                         "%s: an IPv6 address stands in brackets; type tcp://[%.*s]%s", text,
                         (int) length, at, colon);
    if (!colon || colon + 1 == tail)
        return wm_fault (error, WM_EUSAGE, "%s: the port is missing; type %.*s:5555", text,
                         (int) ((colon ? colon : tail) - text), text);
    if (!length || length >= sizeof self->host)
        return wm_fault (error, WM_EUSAGE, "%s: the host %s; type tcp://HOST%s", text,
                         length ? "is too long" : "is missing", colon);
    memcpy (self->host, at, length);
    struct in6_addr v6;
    char number[256];
    snprintf (number, sizeof number, "%.*s", (int) strcspn (self->host, "%"), self->host);
    if (close && inet_pton (AF_INET6, number, &v6) != 1)
        return wm_fault (error, WM_EUSAGE,
                         "%s: brackets are for IPv6 addresses, and '%s' is none; type tcp://%s%s",
                         text, self->host, self->host, colon);
    if (use == WM_ADDRESS_CONNECT && strcmp (self->host, "*") == 0)
        return wm_fault (error, WM_EUSAGE,
                         "%s: * is an address to listen on; type the name of the broker's machine: "
                         "tcp://HOST%s",
                         text, colon);
    return parse_ports (self, text, colon + 1, tail, tail, use, error);
}

static wm_fault_t parse_one (wm_address_t *self, const char *text, wm_address_use_t use,
                             wm_error_t *error)
{
    const int scheme = scheme_of (text);
    memset (self, 0, sizeof *self);
    if (scheme < 0 || (scheme == WM_ADDRESS_FILE && use == WM_ADDRESS_LISTEN))
        return wm_fault (
            error, WM_EUSAGE, "%s is neither tcp://HOST:PORT nor ipc:///PATH%s", text,
            use == WM_ADDRESS_CONNECT ? " nor file:///DIR/endpoint.json of its campaign" : "");
    self->scheme = (wm_address_scheme_t) scheme;
    for (const char *c = text; *c; c++)
        if ((unsigned char) *c < ' ' || *c == 127 || (scheme == WM_ADDRESS_TCP && *c == ' '))
            return wm_fault (error, WM_EUSAGE,
                             "%.*s...: a space or control character follows; "
                             "leave it out",
                             (int) (c - text), text);
    return scheme == WM_ADDRESS_TCP
               ? parse_tcp (self, text, use, error)
               : parse_path (self, text, text + strlen (schemes[scheme]), error);
}

int wm_address_parse (wm_address_t list[WM_ADDRESSES_MAX], const char *text, wm_address_use_t use,
                      wm_error_t *error)
{
    int n = 0;
    for (;;) {
        char one[WM_ADDRESS_BYTES];
        const size_t length = length_of_first (text);
        if (length >= sizeof one) {
            wm_fault (error, WM_EUSAGE, "%.60s...: an address has at most %d characters", text,
                      WM_ADDRESS_BYTES - 1);
            return 0;
        }
        if (n == WM_ADDRESSES_MAX) {
            wm_fault (error, WM_EUSAGE, "at most %d addresses; leave out %s", WM_ADDRESSES_MAX,
                      text);
            return 0;
        }
        memcpy (one, text, length);
        one[length] = 0;
        if (parse_one (&list[n++], one, use, error))
            return 0;
        if (!text[length])
            return n;
        text += length + 1;
    }
}

void wm_address_print (const wm_address_t *self, const char *host, char text[WM_ADDRESS_BYTES])
{
    char own[258];
    if (self->scheme != WM_ADDRESS_TCP) {
        snprintf (text, WM_ADDRESS_BYTES, "%s%s", schemes[self->scheme], self->host);
        return;
    }
    snprintf (own, sizeof own, strchr (self->host, ':') ? "[%s]" : "%s", self->host);
    const int n =
        snprintf (text, WM_ADDRESS_BYTES, "tcp://%.257s:%d", host ? host : own, self->port[0]);
    if (self->last)
        snprintf (text + n, (size_t) (WM_ADDRESS_BYTES - n), "-%d", self->last);
    else if (self->port[0] &&
             (self->port[1] != self->port[0] + 1 || self->port[2] != self->port[0] + 2))
        snprintf (text + n, (size_t) (WM_ADDRESS_BYTES - n), "/%d/%d", self->port[1],
                  self->port[2]);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

bool wm_address_is_loopback (const char *host)
{
    return strncmp (host, "127.", 4) == 0 || strcmp (host, "[::1]") == 0 ||
           strncmp (host, "[::ffff:127.", 12) == 0;
}

bool wm_address_is_near (const wm_address_t *self)
{
    char host[260];
    snprintf (host, sizeof host, strchr (self->host, ':') ? "[%s]" : "%s", self->host);
    return self->scheme == WM_ADDRESS_IPC || wm_address_is_loopback (host) ||
           strcmp (host, "localhost") == 0;
}

/* Appends a numeric host that is not there yet.  */
static int add_host (char host[WM_HOSTS_MAX][WM_HOST_BYTES], int n, const struct sockaddr *at,
                     socklen_t bytes)
{
    char number[WM_HOST_BYTES - 2];
    if (n == WM_HOSTS_MAX ||
        getnameinfo (at, bytes, number, sizeof number, NULL, 0, NI_NUMERICHOST))
        return n;
    snprintf (host[n], WM_HOST_BYTES, at->sa_family == AF_INET6 ? "[%s]" : "%s", number);
    for (int i = 0; i < n; i++)
        if (strcmp (host[i], host[n]) == 0)
            return n;
    return n + 1;
}

/* The addresses of an interface, but the link-local ones of IPv6, which work with it only.  */
static int resolve_interface (const char *name, char host[WM_HOSTS_MAX][WM_HOST_BYTES])
{
    struct ifaddrs *all;
    int n = 0;
    if (!if_nametoindex (name) || getifaddrs (&all))
        return 0;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        if (!a->ifa_addr || strcmp (a->ifa_name, name) != 0)
            continue;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) (const void *) a->ifa_addr;
        if (a->ifa_addr->sa_family == AF_INET)
            n = add_host (host, n, a->ifa_addr, sizeof (struct sockaddr_in));
        else if (a->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL (&v6->sin6_addr))
            n = add_host (host, n, a->ifa_addr, sizeof *v6);
    }
    freeifaddrs (all);
    return n;
}

int wm_address_resolve (const wm_address_t *self, wm_address_use_t use,
                        char host[WM_HOSTS_MAX][WM_HOST_BYTES], wm_error_t *error)
{
    int n = 0;
    if (use == WM_ADDRESS_LISTEN && strcmp (self->host, "*") == 0) {
        strcpy (host[0], "*");
        return 1;
    }
    if (use == WM_ADDRESS_LISTEN && (n = resolve_interface (self->host, host)) > 0)
        return n;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    const int rc = getaddrinfo (self->host, NULL, &hints, &found);
    if (rc) {
        wm_fault (error, WM_EAGAIN,
                  use == WM_ADDRESS_LISTEN
                      ? "no host or interface is called '%s' here (%s): check the spelling, or "
                        "type its numeric address"
                      : "no machine called '%s' is found now (%s): check the spelling, or type its "
                        "numeric address",
                  self->host, gai_strerror (rc));
        return 0;
    }
    for (const struct addrinfo *a = found; a; a = a->ai_next)
        n = add_host (host, n, a->ai_addr, a->ai_addrlen);
    freeaddrinfo (found);
    if (!n)
        wm_fault (error, WM_EAGAIN, "'%s' has no address", self->host);
    return n;
}
