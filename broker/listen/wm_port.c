/* wm_port.c - finds the listening socket in /proc/net, then the process that has it open.  */
#include "broker/listen/wm_port.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATE_LISTEN 0x0a

/* The inode of the socket that listens on the port; 0: none.  */
static unsigned long socket_of (const char *table, int port)
{
    char line[512];
    unsigned long found = 0;
    FILE *file = fopen (table, "re");
    while (file && !found && fgets (line, sizeof line, file)) {
        unsigned at, state;
        unsigned long inode;
        if (sscanf (line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu",
                    &at, &state, &inode) == 3 &&
            (int) at == port && state == STATE_LISTEN)
            found = inode;
    }
    if (file)
        fclose (file);
    return found;
}

static bool has_open (const char *pid, const char *wanted)
{
    char folder[64], path[PATH_MAX], link[64];
    snprintf (folder, sizeof folder, "/proc/%.20s/fd", pid);
    DIR *dir = opendir (folder);
    const struct dirent *entry;
    bool found = false;
    while (dir && !found && (entry = readdir (dir))) {
        snprintf (path, sizeof path, "%s/%s", folder, entry->d_name);
        const ssize_t n = readlink (path, link, sizeof link - 1);
        link[n < 0 ? 0 : n] = 0;
        found = strcmp (link, wanted) == 0;
    }
    if (dir)
        closedir (dir);
    return found;
}

void wm_port_holder (int port, char text[WM_PORT_HOLDER_BYTES])
{
    char wanted[48], path[64], name[32] = "";
    unsigned long inode = socket_of ("/proc/net/tcp", port);
    if (!inode)
        inode = socket_of ("/proc/net/tcp6", port);
    snprintf (text, WM_PORT_HOLDER_BYTES, "another program");
    snprintf (wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *dir = inode ? opendir ("/proc") : NULL;
    const struct dirent *entry;
    while (dir && (entry = readdir (dir))) {
        if (!isdigit ((unsigned char) entry->d_name[0]) || !has_open (entry->d_name, wanted))
            continue;
        snprintf (path, sizeof path, "/proc/%.20s/comm", entry->d_name);
        FILE *comm = fopen (path, "re");
        if (comm && fgets (name, sizeof name, comm))
            name[strcspn (name, "\n")] = 0;
        if (comm)
            fclose (comm);
        snprintf (text, WM_PORT_HOLDER_BYTES, "process %.20s (%s)", entry->d_name, name);
        break;
    }
    if (dir)
        closedir (dir);
}
