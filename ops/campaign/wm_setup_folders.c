/* wm_setup_folders.c - makes the folders of outputs and campaign; see wm_setup.h.  */

#include "ops/campaign/wm_setup.h"
#include "ops/campaign/wm_setup_private.h"
#include "ops/campaign/wm_urls.h"
#include "ops/process/wm_command.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_text.h"
#include "schema/base/wm_url.h"
#include "schema/confine/wm_confine.h"
#include "schema/session/wm_keys.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Absolute form of a path that need not exist yet.  */
static wm_fault_t absolute (char out[PATH_MAX], const char *path, wm_error_t *error)
{
    char here[PATH_MAX] = "";
    if (path[0] != '/' && !getcwd (here, sizeof here))
        return wm_fault (error, WM_EHOST, "the current folder has no name: %s", strerror (errno));
    const int n = path[0] == '/' ? snprintf (out, PATH_MAX, "%s", path)
                                 : snprintf (out, PATH_MAX, "%s/%s", here, path);
    if (n >= PATH_MAX)
        return wm_fault (error, WM_EHOST, "the path is too long: %.200s...", path);
    size_t end = (size_t) n;
    while (end > 1 && out[end - 1] == '/')
        out[--end] = 0;
    return WM_OK;
}

/* The folder, made, and its real name.  */
static wm_fault_t make_folder (char out[PATH_MAX], const char *path, const char *option,
                               const char *example, wm_error_t *error)
{
    struct stat status;
    char wanted[PATH_MAX];
    wm_fault_t fault = absolute (wanted, path, error);
    if (!fault && strchr (wanted, '\n')) /* pins are lines */
    {
        fault =
            wm_fault (error, WM_EUSAGE, "a folder's name contains a line break: %.200s", wanted);
        wm_log_sanitize (error->text);
    }
    if (!fault && lstat (wanted, &status) == 0 &&
        (stat (wanted, &status) || !S_ISDIR (status.st_mode)))
        fault = wm_fault (error, WM_EUSAGE, "%s %.300s is not a folder; give a folder, such as %s",
                          option, path, example);
    if (!fault)
        fault = wm_folder_make (wanted, 0777, error);
    if (!fault && !realpath (wanted, out))
        fault = wm_fault (error, WM_EHOST, "%s: %s", wanted, strerror (errno));
    return fault;
}

static gid_t wanted_group;

/* Gives one existing file or folder to the group; a file of another user stays as it is, and keys
   stay their user's alone.  */
static int give_one (const char *path, const struct stat *st, int type, struct FTW *where)
{
    const mode_t more = type == FTW_D ? 02050 : 0040;
    const bool given =
        (type == FTW_D || type == FTW_F) && !wm_keys_is_secret (path + where->base) &&
        !lchown (path, (uid_t) -1, wanted_group) && !chmod (path, (st->st_mode | more) & 07777);
    (void) given;
    return 0;
}

/* Gives the campaign to a group: its folders hand the group on to what is made in them, and the
   programs started from here let it be read.  */
static wm_fault_t give_to_group (const wm_setup_t *self, const char *name, wm_error_t *error)
{
    struct stat st;
    const struct group *group = getgrnam (name);
    if (!group)
        return wm_fault (error, WM_EUSAGE, "--group %.100s: this machine has no such group", name);
    wanted_group = group->gr_gid;
    if (!wm_url_of (self->output) &&
        (chown (self->output, (uid_t) -1, wanted_group) || stat (self->output, &st) ||
         chmod (self->output, (st.st_mode | 02050) & 07777)))
        return wm_fault (error, WM_EBATCH,
                         "--group %.100s: %s cannot be given to the group: %s; you must own the "
                         "folder and be a member of the group",
                         name, self->output, strerror (errno));
    nftw (self->campaign, give_one, 16, FTW_PHYS);
    umask (umask (0) & ~(mode_t) 0050);
    return WM_OK;
}

bool wm_setup_is_output (const char *path)
{
    const size_t n = strlen (path), suffix = strlen (".scores.h5");
    return n > suffix && strcmp (path + n - suffix, ".scores.h5") == 0;
}

/* A new campaign where there are outputs: perhaps their folder was renamed, and their campaign was
   not.  */
static void warn_of_others (const wm_setup_t *self)
{
    bool any = false;
    DIR *list = opendir (self->output);
    for (const struct dirent *entry; list && !any && (entry = readdir (list));)
        any = wm_setup_is_output (entry->d_name);
    if (list)
        closedir (list);
    if (any)
        fprintf (stderr,
                 "warning: %s has outputs, but not their campaign beside it, so that a new one "
                 "begins: where the folder was renamed, stop this, remove %s, and rename the "
                 "campaign like the folder\n",
                 self->output, self->campaign);
}

/* A new campaign needs a folder of its own, where nothing has the name of one of its files: an
   empty one, or one in which an earlier command began it.  */
static wm_fault_t check_strange (const char *folder, wm_error_t *error)
{
    static const char *const ours[] = { "lock", "log", "models", "keys", "server-key" };
    char path[PATH_MAX + 16], strange[256] = "";
    DIR *list = wm_folder_has_campaign (folder) ? NULL : opendir (folder);
    for (const struct dirent *entry; list && !*strange && (entry = readdir (list));)
        if (strcmp (entry->d_name, ".") != 0 && strcmp (entry->d_name, "..") != 0)
            snprintf (strange, sizeof strange, "%s", entry->d_name);
    if (list)
        closedir (list);
    for (size_t i = 0; *strange && i < sizeof ours / sizeof *ours; i++) {
        snprintf (path, sizeof path, "%s/%s", folder, ours[i]);
        if (access (path, F_OK) == 0)
            return WM_OK;
    }
    if (!*strange)
        return WM_OK;
    wm_fault (error, WM_EUSAGE,
              "the folder %.200s has files, such as %.100s, but no campaign: give an empty folder, "
              "or a new name",
              folder, strange);
    wm_log_sanitize (error->text);
    return error->fault;
}

/* Whether this user may go on with the campaign that is there.  */
static wm_fault_t check_rights (const char *folder, wm_error_t *error)
{
    char log[PATH_MAX + 8], word[PATH_MAX];
    snprintf (log, sizeof log, "%s/log", folder);
    if (wm_folder_readable (folder, error))
        return error->fault;
    if (!access (folder, W_OK) && (!access (log, W_OK) || errno == ENOENT))
        return WM_OK;
    return wm_fault (error, WM_EBATCH,
                     "this user may not write in the campaign %s: %s; inspect it with "
                     "`wiremill status %s`, or choose another --output",
                     folder, strerror (errno), wm_text_word (word, sizeof word, folder));
}

/* The folder of the campaign, beside the output folder unless it was given.  */
static wm_fault_t make_campaign (wm_setup_t *self, const char *given, wm_error_t *error)
{
    char wanted[PATH_MAX];
    struct stat status;
    wm_fault_t fault =
        given ? absolute (wanted, given, error) : wm_folder_campaign (self->output, wanted, error);
    if (fault)
        return fault;
    self->had_campaign = stat (wanted, &status) == 0 && S_ISDIR (status.st_mode);
    if (self->had_campaign && check_rights (wanted, error))
        return error->fault;
    fault = make_folder (self->campaign, wanted, given ? "--campaign" : "the campaign's folder",
                         "campaign/", error);
    if (!fault && self->had_campaign)
        fault = check_strange (self->campaign, error);
    if (!fault && !given && !self->had_campaign)
        warn_of_others (self);
    if (!fault || given || self->had_campaign)
        return fault;
    const size_t length = strlen (error->text);
    snprintf (error->text + length, sizeof error->text - length,
              "; a campaign lies beside its output folder: give another place for it, --campaign "
              "DIR, or another --output");
    return fault;
}

/* Landlock cannot leave out a folder below one that it opens.  */
void wm_setup_warn (const wm_setup_t *self)
{
    char outside[PATH_MAX], beside[PATH_MAX + 16];
    if (!*self->output || !wm_folder_is_in (self->campaign, self->output))
        return;
    wm_folder_output (self->campaign, outside);
    snprintf (beside, sizeof beside, "%s.wiremill", self->output);
    fprintf (stderr,
             "warning: the campaign %s lies in the output folder: a hostile event file can read "
             "its keys and spoil its journal there (`wiremill help confinement`)",
             self->campaign);
    if (strcmp (outside, self->output) == 0) {
        fputs ("; when no broker runs, `mv ", stderr);
        wm_command_word (stderr, self->campaign);
        fputc (' ', stderr);
        wm_command_word (stderr, beside);
        fputs ("` ends that", stderr);
    }
    fputc ('\n', stderr);
}

wm_fault_t wm_setup_folders (wm_setup_t *self, const wm_choices_t *choices, wm_error_t *error)
{
    const bool elsewhere = !choices->for_clients && wm_url_of (choices->output) != WM_URL_NONE;
    self->had_output = choices->for_clients || elsewhere || access (choices->output, F_OK) == 0;
    self->had_campaign = true;
    wm_fault_t fault = choices->for_clients ? WM_OK
                       : elsewhere
                           ? wm_urls_output (choices->output, self->output, error)
                           : make_folder (self->output, choices->output, "--output", "out/", error);
    if (!fault)
        fault = make_campaign (self, choices->campaign, error);
    if (fault)
        return fault;
    wm_confine_spare (self->campaign); /* from the import of the model */
    if (choices->group && give_to_group (self, choices->group, error))
        return error->fault;
    if (strlen (self->output) >= sizeof self->pins.output)
        return wm_fault (error, WM_EHOST,
                         "the output folder's path is longer than 1,024 characters");
    const char *network = wm_folder_network (self->campaign);
    if (network)
        return wm_fault (error, WM_EHOST,
                         "%s lies on a network file system (%s), where neither locks nor fsync can "
                         "be trusted; put the campaign on a local disk with --campaign DIR (the "
                         "output may stay where it is)",
                         self->campaign, network);
    snprintf (self->pins.output, sizeof self->pins.output, "%s", self->output);
    return WM_OK;
}

/* After a refusal: removes what this command made, if there is nothing else in it.  */
void wm_setup_take_back (const wm_setup_t *self)
{
    char path[PATH_MAX + 80];
    if (self->had_campaign)
        return;
    if (*self->campaign) {
        unlink (self->wmm);
        snprintf (path, sizeof path, "%s/models/%s.wmm", self->campaign, self->pins.wmm);
        unlink (path);
        snprintf (path, sizeof path, "%s/models", self->campaign);
        rmdir (path);
        rmdir (self->campaign);
    }
    if (!self->had_output && *self->output)
        rmdir (self->output);
}
