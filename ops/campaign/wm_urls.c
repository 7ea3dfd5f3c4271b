/* wm_urls.c - see wm_urls.h.  */
#include "ops/campaign/wm_urls.h"
#include "schema/base/wm_url.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether PATH has a program of this name.  */
static bool is_installed (const char *name)
{
    char path[PATH_MAX];
    const char *folder = getenv ("PATH");
    for (size_t n; folder && *folder; folder += n + (folder[n] == ':')) {
        n = strcspn (folder, ":");
        snprintf (path, sizeof path, "%.*s/%s", (int) n, folder, name);
        if (access (path, X_OK) == 0)
            return true;
    }
    return false;
}

wm_fault_t wm_urls_check (const char *given, wm_error_t *error)
{
    static const struct {
        const char *program, *package;
    } needs[] = {
        [WM_URL_XROOTD] = { "xrdcp", "xrootd-client" }, [WM_URL_HTTP] = { "curl", "curl" }
    };
    char url[300];
    snprintf (url, sizeof url, "%s", given);
    wm_url_redact (url);
    const wm_url_t kind = wm_url_of (given);
    const char *host = strstr (given, "://") + strlen ("://");
    char path[PATH_MAX];
    if (wm_url_local (given, path))
        return wm_fault (error, WM_EUSAGE, "the input %s is local: give %.300s", url, path);
    if (kind == WM_URL_OTHER)
        return wm_fault (
            error, WM_EUSAGE,
            "the input %s: wiremill copies root://, https:// and http:// only; fetch it "
            "first",
            url);
    if (strlen (given) != strcspn (given, " \t\r") || *host == '/' || !host[strcspn (host, "/")] ||
        !host[strcspn (host, "/") + 1])
        return wm_fault (error, WM_EUSAGE, "the input %s is no URL of a file, SCHEME://HOST/PATH",
                         url);
    if (strchr (given, '*'))
        return wm_fault (error, WM_EUSAGE,
                         "the input %s: a URL is one file, no pattern; list them (xrdfs HOST ls "
                         "FOLDER) in a file for --input-list",
                         url);
    if (is_installed (needs[kind].program))
        return WM_OK;
    return wm_fault (error, WM_EHOST,
                     "the input %s needs %s, which is not in PATH here: install the package %s",
                     url, needs[kind].program, needs[kind].package);
}

wm_fault_t wm_urls_output (const char *given, char url[PATH_MAX], wm_error_t *error)
{
    const char *host = strstr (given, "://") + strlen ("://");
    snprintf (url, PATH_MAX, "%s", given);
    wm_url_redact (url);
    if (wm_url_of (given) != WM_URL_XROOTD)
        return wm_fault (error, WM_EUSAGE,
                         "--output %.300s: outputs are copied to root:// folders only; give one, "
                         "or a folder of this machine",
                         url);
    if (strcmp (url, given) != 0 || strchr (given, '?'))
        return wm_fault (error, WM_EUSAGE,
                         "--output %.300s: a token in the URL would be in every log; give it by "
                         "BEARER_TOKEN_FILE, and the URL without it",
                         url);
    for (size_t n = strlen (url); n && url[n - 1] == '/';)
        url[--n] = 0;
    const char *path = strchr (url + (host - given), '/');
    if (strlen (url) > 1000 || strpbrk (url, " \t\r\n*") || *host == '/' || !path ||
        strlen (strrchr (path, '/')) < 2)
        return wm_fault (error, WM_EUSAGE,
                         "--output %.300s is no URL of a folder, root://HOST//PATH/NAME", given);
    if (is_installed ("xrdcp") && is_installed ("xrdfs"))
        return WM_OK;
    return wm_fault (error, WM_EHOST,
                     "--output %.300s needs xrdcp and xrdfs, which are not in PATH here: install "
                     "the package xrootd-client",
                     url);
}

void wm_urls_scratch (const wm_args_t *args, const char *campaign, char path[PATH_MAX])
{
    const char *given = wm_args_text (args, "scratch");
    char here[PATH_MAX] = "";
    if (given && given[0] != '/' && !getcwd (here, sizeof here))
        here[0] = 0;
    if (given)
        snprintf (path, PATH_MAX, "%.2000s%s%.2000s", here, *here ? "/" : "", given);
    else if (*campaign)
        snprintf (path, PATH_MAX, "%.4000s/staged", campaign);
    else
        wm_url_scratch (path);
}
