/* wm_tcp.c - see wm_tcp.h.  */
#include "schema/base/wm_tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>

int64_t wm_tcp_quiet_ms (int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    if (fd < 0 || getsockopt (fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) ||
        bytes < offsetof (struct tcp_info, tcpi_last_data_recv) + sizeof info.tcpi_last_data_recv)
        return INT64_MAX;
    return info.tcpi_last_data_recv;
}
