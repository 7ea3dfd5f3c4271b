/* wm_systemd.h - reports a service's state to systemd (sd_notify), where systemd started it:
   datagrams to the socket that NOTIFY_SOCKET names; and takes the sockets that systemd listens on
   for it (sd_listen_fds). Elsewhere nothing happens.

   Nothing here waits: what systemd does not take at once is sent again later, but for what is said
   at the end. Thread: one.  */
#ifndef WM_SYSTEMD_H
#define WM_SYSTEMD_H

#include <stdbool.h>
#include <stdint.h>

#define WM_SYSTEMD_STATUS_BYTES 512

/* Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, so that no program
   that is started from here speaks in this one's name. Once, while there is one thread.  */
void wm_systemd_start (void);

/* Whether wm_systemd_serves has something to say: each 2 s, and as often as the watchdog
   (WatchdogSec=) needs it.  */
bool wm_systemd_is_due (int64_t now_ms);

/* The service serves, and feeds the watchdog; `status` is one line for people.  */
void wm_systemd_serves (const char *status);

/* What it does before it serves.  */
void wm_systemd_status (const char *status);

/* It stops: what it still does is its end.  */
void wm_systemd_stops (void);

/* Takes the descriptor that is passed under this name (FileDescriptorName=); it is closed when
   another program is executed. -1: no descriptor has this name. Before other descriptors of this
   process have their numbers.  */
int wm_systemd_descriptor (const char *name);

#endif
