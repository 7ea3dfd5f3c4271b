/* wm_tcp.h - ports as people type them, and what the kernel knows of a TCP connection and libzmq
   does not report.  */
#ifndef WM_TCP_H
#define WM_TCP_H

#include <stdint.h>

#define WM_TCP_PORT_MAX 65535
#define WM_TCP_PORT_IS "a port is a number from 0 (any that is free) to 65535" /* for refusals */

/* Reads a port to listen on: decimal digits, of which `end` points behind the last; 0 to
   WM_TCP_PORT_MAX. -1: it is no port. getaddrinfo takes 99999 for 34463. Thread: any.  */
int wm_tcp_port (const char *text, const char *end);

/* Returns the milliseconds since bytes last arrived over the connection of this descriptor, also of
   a message that is not whole yet: a frame of 4 MiB takes a slow link longer than a silence, and
   heartbeats cannot pass it. INT64_MAX: it is no TCP connection. Thread: any.  */
int64_t wm_tcp_quiet_ms (int fd);

#endif
