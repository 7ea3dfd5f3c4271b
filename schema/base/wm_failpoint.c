/* wm_failpoint.c - reads WM_FAILPOINT before main and counts the passes.  */
#include "schema/base/wm_failpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *wm_failpoint_armed;
static size_t name_bytes;
static atomic_long passes_left;
static const char *once; /* a file that the first process there creates; NULL: none */
static int how = SIGKILL;

static void __attribute__ ((constructor)) arm (void)
{
    const char *text = getenv ("WM_FAILPOINT"), *colon = text ? strchr (text, ':') : NULL;
    if (!colon)
        return;
    wm_failpoint_armed = text;
    name_bytes = (size_t) (colon - text);
    char *end;
    passes_left = strtol (colon + 1, &end, 10);
    once = *end == ':' ? end + 1 : NULL;
    const size_t n = strlen (text);
    if (once && n > 5 && strcmp (text + n - 5, ".stop") == 0)
        how = SIGSTOP;
}

void wm_failpoint_pass (const char *name)
{
    if (strlen (name) == name_bytes && strncmp (name, wm_failpoint_armed, name_bytes) == 0 &&
        --passes_left == 0 &&
        (!once || open (once, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0))
        raise (how);
}
