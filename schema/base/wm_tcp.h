/* wm_tcp.h - addresses and ports as people type them, sockets that listen there, and what the
   kernel knows of a TCP connection and libzmq does not report.  */
#ifndef WM_TCP_H
#define WM_TCP_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define WM_TCP_ADDRESS_BYTES 64 /* of ADDRESS:PORT */
#define WM_TCP_PORT_MAX 65535
#define WM_TCP_PORT_IS "a port is a number from 0 (any that is free) to 65535" /* for refusals */

/* Reads a port to listen on: decimal digits, of which `end` points behind the last; 0 to
   WM_TCP_PORT_MAX. -1: it is no port. getaddrinfo takes 99999 for 34463. Thread: any.  */
int wm_tcp_port (const char *text, const char *end);

/* Binds a socket that does not block to "ADDRESS:PORT" ("*:PORT" is every address, port 0 chosen by
   the kernel). is_shared: other processes may have the same (SO_REUSEPORT). Returns its descriptor,
   the caller's, and fills `address` with what it became; clients can connect after listen. -1:
   *error is WM_EUSAGE (no such address) or WM_EHOST. May ask the resolver. Thread: any.  */
int wm_tcp_listen (const char *where, bool is_shared, char address[WM_TCP_ADDRESS_BYTES],
                   wm_error_t *error);

/* Print an address as "ADDRESS:PORT", IPv6 in brackets; wm_tcp_own that of a bound socket.  */
void wm_tcp_print (const struct sockaddr *of, socklen_t bytes, char text[WM_TCP_ADDRESS_BYTES]);
void wm_tcp_own (int fd, char text[WM_TCP_ADDRESS_BYTES]);

/* Received bytes of a connection, sampled; zeroed at first. Thread: its owner's.  */
typedef struct {
    uint64_t bytes;
    int64_t sampled_ms, moved_ms;
} wm_tcp_flow_t;

/* Returns when the connection of this descriptor last received a part of a message that is not
   whole yet: a frame of 4 MiB takes a slow link longer than a silence, and heartbeats cannot pass
   it. Call it often; each interval_ms it counts the bytes that arrived. Less than WM_TCP_PART_BYTES
   an interval do not count: they are the peer's heartbeats, which fall into a frame whose length
   was damaged in transit, and would keep such a connection up. now_ms: of the monotonic clock.
   INT64_MIN: unknown, or no TCP connection.  */
#define WM_TCP_PART_BYTES                                                                          \
    4096 /* more than heartbeats of an interval; 2 KiB/s is the slowest link */
int64_t wm_tcp_moved_ms (wm_tcp_flow_t *self, int fd, int64_t now_ms, int64_t interval_ms);

/* Counts the bytes that this process has read from a TCP connection. False: unknown, or of another
   kind of socket. Thread: any.  */
bool wm_tcp_taken (int fd, uint64_t *bytes);

#endif
