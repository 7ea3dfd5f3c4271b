/* wm_option_paths.c - compares the files that a command line has written with those that it has
   read, by its table.  */
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_kind.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_text.h"
#include "schema/base/wm_url.h"
#include "schema/option/wm_option_private.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES_MAX 8192u /* of a list */

/* A file to write, and where it must not lie.  */
typedef struct {
    const wm_args_t *args;
    const wm_option_t *option;
    const char *path;
    wm_error_t *error;
} target_t;

/* Returns the target of an option; NULL: it names none, or stdout, a pipe or a device.  */
static const char *target_of (const wm_args_t *args, const wm_option_t *option)
{
    const char *path = option->path == WM_PATH_WRITTEN ? wm_args_text (args, option->name) : NULL;
    return path && !(option->writes->streams && wm_target_is_stream (path)) ? path : NULL;
}

/* Refuses the target if it is this file; `what` is how the command line names it.  */
static wm_fault_t spare (const target_t *self, const char *file, const char *what)
{
    if (!wm_target_same (self->path, file))
        return WM_OK;
    const char *name = self->option->name;
    if (strcmp (self->path, file) == 0)
        return wm_fault (self->error, WM_EUSAGE, "--%s %.300s is also %s: give another file", name,
                         self->path, what);
    return wm_fault (self->error, WM_EUSAGE,
                     "--%s %.180s is the same file as %s %.180s: give another file", name,
                     self->path, what, file);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A file, a dataset in one, or NAME=FILE.  */
static wm_fault_t spare_file (const target_t *self, const char *name, const char *what)
{
    char file[PATH_MAX];
    const char *behind = strchr (name, '=');
    snprintf (file, sizeof file, "%.*s", (int) wm_path_length (name), name);
    const wm_fault_t fault = spare (self, file, what);
    return fault || !behind ? fault : spare_file (self, behind + 1, what);
}

/* What cannot be read here is refused by the verb that reads it.  */
static wm_fault_t spare_lines (const target_t *self, const char *list, const char *what)
{
    char *line = NULL;
    struct stat st;
    wm_error_t unread;
    wm_lines_t lines = { .space = NULL };
    wm_fault_t fault = spare (self, list, what);
    const int fd = !fault && stat (list, &st) == 0 && S_ISREG (st.st_mode)
                       ? open (list, O_RDONLY | O_CLOEXEC)
                       : -1;
    const bool is_read = fd >= 0 && !wm_lines_start (&lines, fd, list, LINE_BYTES_MAX, &unread);
    while (is_read && !fault && !wm_lines_next (&lines, &line, &unread) && line) {
        fault = spare_file (self, line, "in the list of inputs");
        if (!fault)
            fault = spare_file (self, wm_text_trim (line), "in the list of inputs");
    }
    wm_lines_clear (&lines);
    if (fd >= 0)
        close (fd);
    return fault;
}

static wm_fault_t spare_glob (const target_t *self, const char *pattern, const char *what)
{
    glob_t found = { 0 };
    wm_fault_t fault = spare_file (self, pattern, what);
    if (!fault && glob (pattern, GLOB_NOSORT, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !fault; i++)
            fault = spare (self, found.gl_pathv[i], what);
    globfree (&found);
    return fault;
}

/* No file of a campaign is replaced; of other folders that is for the verb to check.  */
static wm_fault_t spare_campaign (const target_t *self, const char *folder, const char *what)
{
    char campaign[PATH_MAX], outer[PATH_MAX], inner[PATH_MAX];
    if (!wm_folder_find (folder, campaign) || !realpath (campaign, outer) ||
        !realpath (self->path, inner) || !wm_folder_is_in (inner, outer))
        return WM_OK;
    return wm_fault (self->error, WM_EUSAGE,
                     "--%s %.200s is a file of the campaign of %s: give another file",
                     self->option->name, self->path, what);
}

static wm_fault_t spare_value (const target_t *self, wm_path_use_t use, const char *value,
                               const char *what)
{
    switch (use) {
    case WM_PATH_READ:
        return spare_file (self, value, what);
    case WM_PATH_LIST:
        return spare_lines (self, value, what);
    case WM_PATH_GLOB:
        return spare_glob (self, value, what);
    case WM_PATH_FOLDER:
    case WM_PATH_PRESENT:
        return spare_campaign (self, value, what);
    default:
        return WM_OK;
    }
}

/* All that the command reads.  */
static wm_fault_t spare_inputs (const target_t *self)
{
    const wm_verb_t *verb = wm_args_verb (self->args);
    char what[80];
    const char *value;
    wm_fault_t fault = WM_OK;
    for (const wm_option_t *o = verb->options; o->name && !fault; o++) {
        snprintf (what, sizeof what, "--%s", o->name);
        for (int i = 0; !fault && (value = wm_args_each (self->args, o->name, i)); i++)
            fault = spare_value (self, o->path, value, what);
    }
    for (int i = 0; !fault && (value = wm_args_rest (self->args, i)); i++)
        if (!(fault = spare_glob (self, value, "an input of this command")))
            fault = spare_campaign (self, value, value);
    return fault;
}

/* ---- what is named --------------------------------------------------------------------------- */

wm_fault_t wm_option_check_path (const wm_option_t *option, const char *value, wm_error_t *error)
{
    const bool may_lack = option->path == WM_PATH_FOLDER || option->may_lack;
    const bool is_folder = option->path == WM_PATH_FOLDER || option->path == WM_PATH_PRESENT;
    const char *name = value, *equals = strchr (value, '=');
    if (!is_folder && option->path != WM_PATH_READ && option->path != WM_PATH_LIST)
        return WM_OK;
    if (strncmp (option->value, "NAME=", 5) == 0) /* one without =: the verb has the message */
        name = equals ? equals + 1 : "";
    char path[PATH_MAX];
    if (wm_url_local (name, path))
        return wm_fault (error, WM_EUSAGE, "%.*s%.200s is local: give %.200s", (int) (name - value),
                         value, name, path);
    if (!*name || strcmp (name, "-") == 0 || wm_kind_is_url (name) || strchr (name, '{'))
        return WM_OK;
    wm_error_t why;
    if (!wm_file_expect (name, is_folder, may_lack, &why))
        return WM_OK;
    return wm_fault (error, WM_EUSAGE, "%.*s%.400s", (int) (name - value), value, why.text);
}

/* ---- a command line -------------------------------------------------------------------------- */

static wm_fault_t check_target (const target_t *self, int force)
{
    char what[80];
    struct stat st;
    wm_fault_t fault = stat (self->path, &st) == 0 ? spare_inputs (self) : WM_OK;
    for (const wm_option_t *o = self->option + 1; o->name && !fault; o++) {
        const char *other = target_of (self->args, o);
        snprintf (what, sizeof what, "--%s", o->name);
        fault = other ? spare (self, other, what) : WM_OK;
    }
    wm_error_t why;
    if (!fault && wm_target_check (self->path, self->option->writes, force, &why))
        fault = wm_fault (self->error, WM_EUSAGE, "--%s %.440s", self->option->name, why.text);
    return fault;
}

wm_fault_t wm_option_check_paths (const wm_args_t *args, wm_error_t *error)
{
    const wm_verb_t *verb = wm_args_verb (args);
    int force = -1;
    wm_fault_t fault = WM_OK;
    for (const wm_option_t *o = verb->options; o->name; o++)
        if (strcmp (o->name, "force") == 0)
            force = wm_args_given (args, "force");
    for (const wm_option_t *o = verb->options; o->name && !fault; o++) {
        const target_t target = { args, o, target_of (args, o), error };
        fault = target.path ? check_target (&target, force) : WM_OK;
    }
    return fault;
}

const char *wm_args_place (const wm_args_t *self, const char *name, char place[PATH_MAX])
{
    const char *path = wm_args_text (self, name);
    return path ? wm_target_place (path, place) : NULL;
}

wm_fault_t wm_args_spare (const wm_args_t *self, const char *path, const char *what,
                          wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (const wm_option_t *o = wm_args_verb (self)->options; o->name && !fault; o++) {
        const target_t target = { self, o, target_of (self, o), error };
        fault = target.path ? spare (&target, path, what) : WM_OK;
    }
    return fault;
}

/* ---- dump ------------------------------------------------------------------------------------ */

void wm_option_print_paths (const wm_program_t *program)
{
    static const char *const use[] = {
        "-", "read", "list", "glob", "folder", "present", "elsewhere", "open", "written",
    };
    for (const wm_verb_t *const *v = program->verbs; *v; v++) {
        bool has_force = false;
        for (const wm_option_t *o = (*v)->pass ? NULL : (*v)->options; o && o->name; o++)
            has_force |= strcmp (o->name, "force") == 0;
        for (const wm_option_t *o = (*v)->pass ? NULL : (*v)->options; o && o->name; o++)
            if (o->value)
                printf ("%s\t%s\t%s\t%s\t%s\t%s\t%s%s%s\n", program->name,
                        *(*v)->name ? (*v)->name : "-", o->name, o->value, use[o->path],
                        o->writes ? o->writes->name : "-", has_force ? "force" : "-",
                        o->writes && o->writes->streams ? " streams" : "",
                        o->writes && o->writes->appends ? " appends" : "");
    }
}
