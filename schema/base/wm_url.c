/* wm_url.c - see wm_url.h.  */
#include "schema/base/wm_url.h"
#include "schema/base/wm_kind.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENDS "& \t\r\n'\"<>)]" /* of a parameter's value */

wm_url_t wm_url_of (const char *name)
{
    static const struct {
        const char *begin;
        wm_url_t is;
    } known[] = { { "root://", WM_URL_XROOTD },  { "roots://", WM_URL_XROOTD },
                  { "xroot://", WM_URL_XROOTD }, { "xroots://", WM_URL_XROOTD },
                  { "https://", WM_URL_HTTP },   { "http://", WM_URL_HTTP } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp (name, known[i].begin, strlen (known[i].begin)) == 0)
            return known[i].is;
    return wm_kind_is_url (name) ? WM_URL_OTHER : WM_URL_NONE;
}

static void cut (char *from, const char *to)
{
    memmove (from, to, strlen (to) + 1);
}

/* A parameter goes with the sign before it, or, where it is the first of several, with the one
   behind it. Elsewhere only its value goes.  */
static void remove_parameter (char *text, const char *key)
{
    for (char *at = text; (at = strstr (at, key));) {
        char *end = at + strcspn (at, ENDS);
        if (at > text && at[-1] == '?' && *end == '&')
            cut (at, end + 1);
        else if (at > text && strchr ("?&", at[-1]))
            cut (--at, end);
        else
            cut (at += strlen (key), end);
    }
}

static void remove_password (char *text)
{
    for (char *at = text; (at = strstr (at, "://"));) {
        char *sign = NULL, *host = at += strlen ("://");
        const size_t n = strcspn (host, "/? \t\r\n'\"<>");
        for (size_t i = 0; i < n; i++)
            sign = host[i] == '@' ? host + i : sign;
        if (sign && memchr (host, ':', (size_t) (sign - host)))
            cut (host, sign + 1);
    }
}

void wm_url_tame (char *text)
{
    remove_parameter (text, "authz=");
    remove_parameter (text, "access_token=");
    remove_password (text);
}

void wm_url_scratch (char path[PATH_MAX])
{
    const char *folder = getenv ("TMPDIR");
    snprintf (path, PATH_MAX, "%.4000s/wiremill-staged-%u", folder && *folder ? folder : "/tmp",
              (unsigned) geteuid ());
}
