/* wm_url.c - see wm_url.h.  */
#include "schema/base/wm_url.h"
#include "schema/base/wm_kind.h"

#include <ctype.h>
#include <stdbool.h>
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

bool wm_url_local (const char *url, char path[PATH_MAX])
{
    const char *from = url + strlen ("file://");
    if (strncmp (url, "file://", strlen ("file://")) != 0)
        return false;
    if (strncmp (from, "localhost/", strlen ("localhost/")) == 0)
        from += strlen ("localhost");
    size_t n = 0;
    for (; *from && n + 1 < PATH_MAX; n++) {
        unsigned byte;
        const bool is_escaped = *from == '%' && isxdigit ((unsigned char) from[1]) &&
                                isxdigit ((unsigned char) from[2]) &&
                                sscanf (from + 1, "%2x", &byte) == 1 && byte;
        path[n] = is_escaped ? (char) byte : *from;
        from += is_escaped ? 3 : 1;
    }
    path[n] = 0;
    return path[0] == '/';
}

static void cut (char *from, const char *to)
{
    memmove (from, to, strlen (to) + 1);
}

/* Finds a key; unless `anywhere`, only as a parameter of a URL: behind ? or &.  */
static char *find (char *text, const char *key, bool anywhere)
{
    char *at = text;
    while ((at = strcasestr (at, key)) && !anywhere && (at == text || !strchr ("?&", at[-1])))
        at += strlen (key);
    return at;
}

/* A parameter goes with the sign before it, or, where it is the first of several, with the one
   behind it. Elsewhere only its value goes.  */
static void remove_parameter (char *text, const char *key, bool anywhere)
{
    for (char *at = text; (at = find (at, key, anywhere));) {
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
        const bool is_http =
            host - text >= 7 && (!memcmp (host - 7, "http://", 7) ||
                                 (host - text >= 8 && !memcmp (host - 8, "https://", 8)));
        if (sign && (is_http || memchr (host, ':', (size_t) (sign - host))))
            cut (host, sign + 1);
    }
}

void wm_url_redact (char *text)
{
    static const char *const signs[] = { "token=",
                                         "sig=",
                                         "signature=",
                                         "x-amz-signature=",
                                         "x-amz-security-token=",
                                         "x-amz-credential=",
                                         "x-goog-signature=",
                                         "x-goog-credential=" };
    remove_parameter (text, "authz=", true);
    remove_parameter (text, "access_token=", true);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        remove_parameter (text, signs[i], false);
    remove_password (text);
}

void wm_url_scratch (char path[PATH_MAX])
{
    const char *folder = getenv ("TMPDIR");
    snprintf (path, PATH_MAX, "%.4000s/wiremill-staged-%u", folder && *folder ? folder : "/tmp",
              (unsigned) geteuid ());
}
