/* wm_url.h - names of remote files: which kind of URL, and how one is printed without secrets.

   Thread: any.  */
#ifndef WM_URL_H
#define WM_URL_H

#include <limits.h>
#include <stdbool.h>

typedef enum {
    WM_URL_NONE,   /* a path */
    WM_URL_XROOTD, /* root, roots, xroot, xroots: copied by xrdcp */
    WM_URL_HTTP,   /* http, https: copied by curl */
    WM_URL_OTHER,  /* a URL that nothing here copies */
} wm_url_t;

wm_url_t wm_url_of (const char *name);

/* Returns whether the URL is that of a file of this machine, and fills in its path: "/a b.h5" of
   file:///a%20b.h5 and of file://localhost/a%20b.h5.  */
bool wm_url_local (const char *url, char path[PATH_MAX]);

/* Removes from every URL in `text`, in place, what opens it for whoever reads it: the parameters
   authz and access_token, those that sign a URL (token, sig, signature, X-Amz-..., X-Goog-...), and
   user:password@, of http also user@. Other text stays as it is.  */
void wm_url_redact (char *text);

/* This user's folder for copies of inputs where the user named none.  */
void wm_url_scratch (char path[PATH_MAX]);

#endif
