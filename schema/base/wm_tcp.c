/* wm_tcp.c - see wm_tcp.h.  */
#include "schema/base/wm_tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
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

int64_t wm_tcp_quiet_ms (int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    if (fd < 0 || getsockopt (fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) ||
        bytes < offsetof (struct tcp_info, tcpi_last_data_recv) + sizeof info.tcpi_last_data_recv)
        return INT64_MAX;
    return info.tcpi_last_data_recv;
}
