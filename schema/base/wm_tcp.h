/* wm_tcp.h - what the kernel knows of a TCP connection and libzmq does not tell.  */
#ifndef WM_TCP_H
#define WM_TCP_H

#include <stdint.h>

/* Returns the milliseconds since bytes last arrived over the connection of this descriptor, also of
   a message that is not whole yet: a frame of 4 MiB takes a slow link longer than a silence, and
   heartbeats cannot pass it. INT64_MAX: it is no TCP connection. Thread: any.  */
int64_t wm_tcp_quiet_ms (int fd);

#endif
