/* wm_tcp.c - see wm_tcp.h.  */
#include "schema/base/wm_tcp.h"

#include <linux/tcp.h> /* netinet/tcp.h has an older struct tcp_info */
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

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
