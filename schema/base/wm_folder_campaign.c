/* wm_folder_campaign.c - where the campaign of an output folder lies: beside it, OUTPUT.wiremill.

   Not in it: producers write in the output folder, and what reads files of others there must not
   reach the campaign's keys, journal and ledger (schema/CONFINEMENT.md). Earlier versions had
   OUTPUT/.wiremill; a campaign that is there goes on there, unless there is one beside the output
   too: who takes over a producer could make the one inside.
   A campaign is on a local disk. That of an output folder on a server, root://HOST//DIR/NAME, lies
   where the command was typed, NAME.wiremill.  */
#include "schema/base/wm_folder.h"
#include "schema/base/wm_url.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".wiremill"

/* Prints a path of two parts; false: it is too long.  */
static bool join (char to[PATH_MAX], const char *folder, const char *rest)
{
    return snprintf (to, PATH_MAX, "%s%s", folder, rest) < PATH_MAX;
}

/* The real path of a folder; of one that is not there, that of the folder it was in, and its name.
   A folder elsewhere stands for one of its name here.  */
static bool real_path (const char *folder, char real[PATH_MAX])
{
    char parent[PATH_MAX], above[PATH_MAX], name[PATH_MAX];
    if (wm_url_of (folder)) {
        size_t end = strlen (folder);
        while (end && folder[end - 1] == '/')
            end--;
        size_t first = end;
        while (first && folder[first - 1] != '/')
            first--;
        return first < end && getcwd (above, sizeof above) &&
               snprintf (real, PATH_MAX, "%s%s%.*s", above, strcmp (above, "/") ? "/" : "",
                         (int) (end - first), folder + first) < PATH_MAX;
    }
    if (realpath (folder, real))
        return true;
    if (!join (parent, folder, ""))
        return false;
    size_t end = strlen (parent);
    while (end > 1 && parent[end - 1] == '/')
        parent[--end] = 0;
    char *slash = strrchr (parent, '/');
    snprintf (name, sizeof name, "%s", slash ? slash + 1 : parent);
    if (slash)
        slash[slash == parent] = 0;
    if (!*name || !strcmp (name, ".") || !strcmp (name, "..") ||
        !realpath (slash ? parent : ".", above))
        return false;
    return join (real, above, strcmp (above, "/") ? "/" : "") && join (parent, real, name) &&
           join (real, parent, "");
}

bool wm_folder_has_campaign (const char *folder)
{
    char path[PATH_MAX];
    if (join (path, folder, "/journal") && access (path, F_OK) == 0)
        return true;
    return join (path, folder, "/ledger.db") && access (path, F_OK) == 0;
}

bool wm_folder_find (const char *folder, char campaign[PATH_MAX])
{
    static const char *const form[] = { SUFFIX, "/" SUFFIX, "" };
    char real[PATH_MAX];
    if (!real_path (folder, real))
        strcpy (real, "");
    for (size_t i = 0; *real && i < sizeof form / sizeof *form; i++)
        if (join (campaign, real, form[i]) && wm_folder_has_campaign (campaign))
            return true;
    campaign[0] = 0;
    return false;
}

wm_fault_t wm_folder_readable (const char *campaign, wm_error_t *error)
{
    if (!access (campaign, R_OK | X_OK) || errno != EACCES)
        return WM_OK;
    return wm_fault (error, WM_EBATCH,
                     "this user may not read the campaign %.300s: %s; ask its owner: `wiremill "
                     "run --group NAME` lets a group read it",
                     campaign, strerror (EACCES));
}

/* Whether a program has opened it: a journal alone may be a person's.  */
static bool was_opened (const char *campaign)
{
    char lock[PATH_MAX];
    return wm_folder_has_campaign (campaign) && join (lock, campaign, "/lock") &&
           access (lock, F_OK) == 0;
}

bool wm_folder_is_of_campaign (const char *file, char campaign[PATH_MAX])
{
    static const char *const folders[] = { "", "/journal", "/keys", "/log", "/models" };
    static const char scores[] = ".scores.h5";
    char folder[PATH_MAX];
    if (!realpath (file, folder))
        return false;
    char *name = strrchr (folder, '/');
    const size_t length = strlen (name);
    const bool is_output =
        length > sizeof scores && !strcmp (name + length + 1 - sizeof scores, scores);
    *name = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const size_t n = strlen (folder), tail = strlen (folders[i]);
        if (n <= tail || strcmp (folder + n - tail, folders[i]) != 0)
            continue;
        snprintf (campaign, PATH_MAX, "%.*s", (int) (n - tail), folder);
        if (was_opened (campaign))
            return true;
    }
    return is_output && wm_folder_find (folder, campaign) && was_opened (campaign);
}

/* Whether a folder is where a file system is mounted: what lies beside it is on another.  */
static bool is_mounted (const char *folder)
{
    struct statx status;
    return statx (AT_FDCWD, folder, 0, STATX_BASIC_STATS, &status) == 0 &&
           (status.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

wm_fault_t wm_folder_campaign (const char *output, char campaign[PATH_MAX], wm_error_t *error)
{
    char real[PATH_MAX], inside[PATH_MAX];
    if (!real_path (output, real) || !join (campaign, real, SUFFIX) ||
        !join (inside, real, "/" SUFFIX))
        return wm_fault (error, WM_EHOST, "the output folder %.200s... has no usable name: %s",
                         output, strerror (errno ? errno : ENAMETOOLONG));
    if (wm_folder_has_campaign (campaign))
        return WM_OK;
    if (wm_folder_has_campaign (inside)) {
        strcpy (campaign, inside);
        return WM_OK;
    }
    if (is_mounted (real))
        return wm_fault (error, WM_EUSAGE,
                         "%.200s is the top of a file system (a disk, or a volume of a container), "
                         "and the campaign's folder would be beside it, on another; give a folder "
                         "in it, --output %s%sscores, or a place for the campaign, --campaign DIR",
                         real, strlen (real) < 100 ? real : "DIR", strcmp (real, "/") ? "/" : "");
    return WM_OK;
}

void wm_folder_output (const char *campaign, char output[PATH_MAX])
{
    const size_t suffix = strlen (SUFFIX);
    size_t n = strlen (campaign);
    if (n > suffix && n < PATH_MAX && !strcmp (campaign + n - suffix, SUFFIX)) {
        n -= suffix;
        n -= n > 1 && campaign[n - 1] == '/';
    }
    snprintf (output, PATH_MAX, "%.*s", (int) n, campaign);
}

bool wm_folder_is_in (const char *inner, const char *outer)
{
    const size_t n = strcmp (outer, "/") ? strlen (outer) : 0;
    return strncmp (inner, outer, n) == 0 && (!inner[n] || inner[n] == '/');
}
