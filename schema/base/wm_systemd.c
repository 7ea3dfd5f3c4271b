/* wm_systemd.c - see wm_systemd.h. The protocol is that of sd_notify(3): lines of NAME=VALUE; a
   path of the socket that begins with @ is a name in the abstract namespace.  */
#include "schema/base/wm_systemd.h"
#include "schema/base/wm_log.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define EVERY_MS 2000
#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

static struct sockaddr_un address;
static socklen_t address_bytes;
static int fd = -1;
static int64_t every_ms, next_ms;

static void open_socket (const char *path)
{
    const size_t n = strlen (path);
    if ((*path != '/' && *path != '@') || n < 2 || n >= sizeof address.sun_path)
        return;
    address.sun_family = AF_UNIX;
    memcpy (address.sun_path, path, n);
    if (*path == '@')
        address.sun_path[0] = 0;
    address_bytes = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + n);
    fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

void wm_systemd_start (void)
{
    const char *path = getenv ("NOTIFY_SOCKET"), *usec = getenv ("WATCHDOG_USEC");
    const char *pid = getenv ("WATCHDOG_PID");
    const int64_t watchdog_ms =
        usec && (!pid || strtol (pid, NULL, 10) == getpid ()) ? strtoll (usec, NULL, 10) / 1000 : 0;
    every_ms = watchdog_ms > 0 && watchdog_ms / 2 < EVERY_MS ? watchdog_ms / 2 : EVERY_MS;
    if (path)
        open_socket (path);
    unsetenv ("NOTIFY_SOCKET");
    unsetenv ("WATCHDOG_USEC");
    unsetenv ("WATCHDOG_PID");
}

static void send_lines (const char *lines)
{
    if (fd >= 0)
        (void) !sendto (fd, lines, strlen (lines), MSG_NOSIGNAL | MSG_DONTWAIT,
                        (const struct sockaddr *) &address, address_bytes);
}

/* The status is one line, whatever is in it.  */
static void send_status (const char *before, const char *status)
{
    char text[WM_SYSTEMD_STATUS_BYTES], lines[WM_SYSTEMD_STATUS_BYTES + 64];
    snprintf (text, sizeof text, "%s", status);
    wm_log_sanitize (text);
    snprintf (lines, sizeof lines, "%sSTATUS=%s\n", before, text);
    send_lines (lines);
}

bool wm_systemd_is_due (int64_t now_ms)
{
    if (fd < 0 || now_ms < next_ms)
        return false;
    next_ms = now_ms + every_ms;
    return true;
}

/* READY with each of them: one that was lost is made up for, and systemd passes over the others.
   WATCHDOG, too, is passed over if the unit has no watchdog.  */
void wm_systemd_serves (const char *status)
{
    send_status ("READY=1\nWATCHDOG=1\n", status);
}

void wm_systemd_status (const char *status)
{
    send_status ("", status);
}

void wm_systemd_stops (void)
{
    send_lines ("STOPPING=1\nSTATUS=stops\n");
}

/* LISTEN_PID is the process that they are for, LISTEN_FDNAMES their names: "grpc:http".  */
int wm_systemd_descriptor (const char *name)
{
    const char *process = getenv ("LISTEN_PID"), *number = getenv ("LISTEN_FDS");
    const char *names = getenv ("LISTEN_FDNAMES");
    if (!process || !number || !names || strtol (process, NULL, 10) != getpid ())
        return -1;
    const long n = strtol (number, NULL, 10);
    const char *at = names;
    for (int one = FIRST_FD; one < FIRST_FD + n; one++) {
        const size_t bytes = strcspn (at, ":");
        if (bytes == strlen (name) && memcmp (at, name, bytes) == 0)
            return fcntl (one, F_SETFD, FD_CLOEXEC) == 0 ? one : -1;
        at += bytes + (at[bytes] == ':');
    }
    return -1;
}
