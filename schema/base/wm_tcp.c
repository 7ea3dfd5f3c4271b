/* wm_tcp.c - see wm_tcp.h.  */
#include "schema/base/wm_tcp.h"

#include <errno.h>
#include <linux/tcp.h> /* netinet/tcp.h has an older struct tcp_info */
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int wm_tcp_port (const char *text, const char *end)
{
    int port = 0;
    if (text == end || end - text > 5)
        return -1;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        port = 10 * port + *text - '0';
    }
    return port <= WM_TCP_PORT_MAX ? port : -1;
}

void wm_tcp_print (const struct sockaddr *of, socklen_t bytes, char text[WM_TCP_ADDRESS_BYTES])
{
    char host[46] = "?", port[6] = "?";
    getnameinfo (of, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf (text, WM_TCP_ADDRESS_BYTES, strchr (host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

void wm_tcp_own (int fd, char text[WM_TCP_ADDRESS_BYTES])
{
    struct sockaddr_storage own = { 0 };
    socklen_t bytes = sizeof own;
    getsockname (fd, (struct sockaddr *) &own, &bytes);
    wm_tcp_print ((struct sockaddr *) &own, bytes, text);
}

/* -1: errno.  */
static int bind_at (const struct addrinfo *at, bool is_shared)
{
    const int yes = 1, no = 0;
    const int fd = socket (at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (is_shared)
        setsockopt (fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
    if (at->ai_family == AF_INET6)
        setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind (fd, at->ai_addr, at->ai_addrlen) == 0)
        return fd;
    const int reason = errno;
    close (fd);
    errno = reason;
    return -1;
}

int wm_tcp_listen (const char *where, bool is_shared, char address[WM_TCP_ADDRESS_BYTES],
                   wm_error_t *error)
{
    char host[256] = "";
    const char *colon = strrchr (where, ':'), *name = host;
    const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                    .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    const bool is_port = colon && wm_tcp_port (colon + 1, colon + strlen (colon)) >= 0;
    if (!is_port || (size_t) (colon - where) >= sizeof host) {
        wm_fault (error, WM_EUSAGE,
                  "%.100s is no address: %sgive ADDRESS:PORT, such as 127.0.0.1:8001", where,
                  colon && !is_port ? WM_TCP_PORT_IS "; " : "");
        return -1;
    }
    const size_t n = (size_t) (colon - where);
    memcpy (host, where, n);
    if (n > 1 && host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = 0;
        name++;
    }
    name = !*name || strcmp (name, "*") == 0 ? "0.0.0.0"
           : strcmp (name, "localhost") == 0 ? "127.0.0.1" /* and not one of IPv6 alone */
                                             : name;
    const int rc = getaddrinfo (name, colon + 1, &hints, &found);
    if (rc) {
        wm_fault (error, WM_EUSAGE,
                  "%.100s is no address: %s; give ADDRESS:PORT, such as 127.0.0.1:8001", where,
                  gai_strerror (rc));
        return -1;
    }
    const int fd = bind_at (found, is_shared);
    freeaddrinfo (found);
    if (fd < 0)
        wm_fault (error, WM_EHOST, "cannot listen on %.100s: %s%s", where, strerror (errno),
                  errno == EADDRINUSE ? "; give another port" : "");
    else
        wm_tcp_own (fd, address);
    return fd;
}

/* False: unknown.  */
static bool received_bytes (int fd, uint64_t *bytes)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (fd < 0 || getsockopt (fd, IPPROTO_TCP, TCP_INFO, &info, &size) ||
        size < offsetof (struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
        return false; /* or a kernel before Linux 4.1 */
    *bytes = info.tcpi_bytes_received;
    return true;
}

bool wm_tcp_taken (int fd, uint64_t *bytes)
{
    int waiting;
    if (!received_bytes (fd, bytes) || ioctl (fd, FIONREAD, &waiting))
        return false;
    *bytes -= (uint64_t) waiting < *bytes ? (uint64_t) waiting : *bytes;
    return true;
}

int64_t wm_tcp_moved_ms (wm_tcp_flow_t *self, int fd, int64_t now_ms, int64_t interval_ms)
{
    const int64_t passed_ms = now_ms - self->sampled_ms;
    uint64_t bytes;
    if (passed_ms < interval_ms)
        return self->moved_ms;
    if (!received_bytes (fd, &bytes))
        return self->moved_ms = INT64_MIN;
    if (!self->sampled_ms)
        self->moved_ms = now_ms;
    else if (bytes >= self->bytes + WM_TCP_PART_BYTES * (uint64_t) (passed_ms / interval_ms))
        self->moved_ms = now_ms;
    self->bytes = bytes;
    self->sampled_ms = now_ms;
    return self->moved_ms;
}
