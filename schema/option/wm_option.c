/* wm_option.c - parses a command line by its tables and runs the verb that it names.  */
#include "schema/option/wm_option_private.h"

#include "schema/base/wm_address.h"
#include "schema/base/wm_environment.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_init.h"
#include "schema/base/wm_kind.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_text.h"
#include "schema/base/wm_url.h"
#include "schema/option/wm_duration.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_CHARS 32 /* longer names are near to nothing */
#define LINE_BYTES_MAX 8192u /* of a list */

typedef struct {
    const wm_option_t *option; /* NULL: an argument that is no option */
    const char *value;
} given_t;

struct wm_args_t {
    const wm_verb_t *verb;
    int argc;
    char **argv;
    int n_given;
    given_t given[]; /* at most argc */
};

/* ---- files that a command line names --------------------------------------------------------- */

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
    const wm_verb_t *verb = self->args->verb;
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

static wm_fault_t check_path (const wm_option_t *option, const char *value, wm_error_t *error)
{
    const bool may_lack = option->path == WM_PATH_FOLDER || option->may_lack;
    const bool is_folder = option->path == WM_PATH_FOLDER || option->path == WM_PATH_PRESENT;
    const char *name = value, *equals = strchr (value, '=');
    char path[PATH_MAX];
    wm_error_t why;
    if (!is_folder && option->path != WM_PATH_READ && option->path != WM_PATH_LIST)
        return WM_OK;
    if (strncmp (option->value, "NAME=", 5) == 0) /* one without =: the verb has the message */
        name = equals ? equals + 1 : "";
    if (wm_url_local (name, path))
        return wm_fault (error, WM_EUSAGE, "%.*s%.200s is local: give %.200s", (int) (name - value),
                         value, name, path);
    if (!*name || strcmp (name, "-") == 0 || wm_kind_is_url (name) || strchr (name, '{') ||
        (option->one_of && !strpbrk (name, "./")))
        return WM_OK;
    const char *is = option->text ? wm_kind_name (wm_kind_of (name)) : NULL;
    if (is)
        return wm_fault (error, WM_EUSAGE, "%.300s is %s; %s is needed", name, is, option->text);
    if (!wm_file_expect (name, is_folder, may_lack, &why))
        return WM_OK;
    if (option->path == WM_PATH_PRESENT && access (name, F_OK) && errno == ENOENT)
        return wm_fault (error, WM_EUSAGE,
                         "%.300s does not exist; a folder that is there is needed", name);
    return wm_fault (error, WM_EUSAGE, "%.*s%.400s", (int) (name - value), value, why.text);
}

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

static wm_fault_t check_paths (const wm_args_t *args, wm_error_t *error)
{
    const wm_verb_t *verb = args->verb;
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
    for (const wm_option_t *o = self->verb->options; o->name && !fault; o++) {
        const target_t target = { self, o, target_of (self, o), error };
        fault = target.path ? spare (&target, path, what) : WM_OK;
    }
    return fault;
}

/* ---- dump ------------------------------------------------------------------------------------ */

/* Prints a line for each option with a value, tabs between: program, verb, option, value, what it
   names, the kind of file that is written, flags (force or -, streams, appends, text). Tests read
   it.  */
static void print_paths (const wm_program_t *program)
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
                        o->writes && o->writes->appends ? " appends" : o->text ? " text" : "");
    }
}

/* ---- nearest name ---------------------------------------------------------------------------- */

/* Edit distance of two short words (Levenshtein, one row).  */
static size_t distance (const char *a, const char *b)
{
    size_t row[NAME_MAX_CHARS + 1];
    const size_t n = strlen (b);
    if (n > NAME_MAX_CHARS || strlen (a) > NAME_MAX_CHARS)
        return NAME_MAX_CHARS;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
            const size_t least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = replace < least ? replace : least;
        }
    }
    return row[n];
}

/* Keeps the nearer of *best and `candidate`; near means at most half the word is wrong, or the one
   begins with the other.  */
static void nearer (const char *name, const char *candidate, const char **best, size_t *least)
{
    size_t d = distance (name, candidate);
    const size_t n = strlen (name);
    if (n >= 2 && strncmp (name, candidate, n) == 0)
        d = 1;
    if (d < *least && d <= (n + 1) / 2) {
        *least = d;
        *best = candidate;
    }
}

const char *wm_verb_nearest (const wm_verb_t *const *verbs, const char *name)
{
    const char *best = NULL;
    size_t least = NAME_MAX_CHARS;
    for (; *verbs; verbs++)
        nearer (name, (*verbs)->name, &best, &least);
    return best;
}

const char *wm_option_nearest (const wm_option_t *options, const char *name)
{
    static const char *const all[] = { "help", "version" };
    const char *best = NULL;
    size_t least = NAME_MAX_CHARS;
    for (; options && options->name; options++)
        nearer (name, options->name, &best, &least);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        nearer (name, all[i], &best, &least);
    return best;
}

/* ---- parsing --------------------------------------------------------------------------------- */

static const wm_option_t *find (const wm_verb_t *verb, const char *name, size_t n)
{
    for (const wm_option_t *o = verb->options; o->name; o++)
        if (strlen (o->name) == n && memcmp (o->name, name, n) == 0)
            return o;
    return NULL;
}

static const wm_option_t *find_letter (const wm_verb_t *verb, char letter)
{
    for (const wm_option_t *o = verb->options; o->name; o++)
        if (o->letter && o->letter == letter)
            return o;
    return NULL;
}

/* Prints "wiremill run: TEXT; see wiremill run --help".  */
static void refuse_all (const wm_verb_t *verb, const char *format, va_list arguments)
{
    char title[64];
    wm_verb_title (verb, title);
    fprintf (stderr, "%s: ", title);
    vfprintf (stderr, format, arguments);
    fprintf (stderr, "; see %s --help\n", title);
}

static bool refuse (const wm_verb_t *verb, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
static bool refuse (const wm_verb_t *verb, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    refuse_all (verb, format, arguments);
    va_end (arguments);
    return false;
}

int wm_args_refuse (const wm_args_t *self, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    refuse_all (self->verb, format, arguments);
    va_end (arguments);
    return WM_EXIT_USAGE;
}

static bool is_one_of (const char *list, const char *value)
{
    const size_t n = strlen (value);
    for (const char *word = list; word; word = strchr (word, '|') ? strchr (word, '|') + 1 : NULL)
        if (strcspn (word, "|") == n && memcmp (word, value, n) == 0)
            return true;
    return false;
}

static bool refuse_unknown (const wm_verb_t *verb, const char *word)
{
    char name[NAME_MAX_CHARS + 1];
    snprintf (name, sizeof name, "%s", word + strspn (word, "-"));
    name[strcspn (name, "=")] = 0;
    const char letter[] = { word[1], 0 };
    for (const wm_option_t *o = verb->options; o->name; o++)
        if (o->was && is_one_of (o->was, word[1] == '-' ? name : letter))
            return refuse (verb, "'%.*s' is called --%s now", (int) strcspn (word, "="), word,
                           o->name);
    const char *near = wm_option_nearest (verb->options, name);
    return refuse (verb, "there is no option '%s'%s%s%s", word, near ? " (did you mean --" : "",
                   near ? near : "", near ? "?)" : "");
}

static bool check_real (const wm_verb_t *verb, const wm_option_t *option, const char *value)
{
    char *end;
    const double number = strtod (value, &end);
    if (end != value && !*end && isfinite (number) && number <= option->real_most &&
        (option->is_above ? number > option->real_least : number >= option->real_least))
        return true;
    if (isinf (option->real_most))
        return refuse (verb, "--%s takes a number %s %g, not '%s'", option->name,
                       option->is_above ? "above" : "from", option->real_least, value);
    return refuse (verb, "--%s takes a number %s %g %s %g, not '%s'", option->name,
                   option->is_above ? "above" : "from", option->real_least,
                   option->is_above ? "and up to" : "to", option->real_most, value);
}

static bool check_time (const wm_verb_t *verb, const wm_option_t *option, const char *value)
{
    const double seconds = wm_duration_s (value);
    if (isnan (seconds))
        return refuse (verb, "--%s takes a time such as " WM_DURATION_EXAMPLES ", not '%s'",
                       option->name, value);
    if (option->is_above ? seconds > option->real_least : seconds >= option->real_least)
        return true;
    return refuse (verb, "--%s takes a time %s %g s, not '%s'", option->name,
                   option->is_above ? "above" : "from", option->real_least, value);
}

#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* Refuses an argument that is not a name: an empty one, mostly an unset variable of a shell script,
   and a leading '~' or variable that the shell did not replace.  */
static bool check_name (const wm_verb_t *verb, const char *what, const char *value, bool is_path)
{
    if (!*value)
        return refuse (verb, "%s is empty, perhaps by an unset variable of the shell", what);
    if (is_path && value[0] == '~' && (!value[1] || value[1] == '/'))
        return refuse (verb,
                       "%s '%s': the shell does not replace a ~ in quotes or behind =; type "
                       "\"$HOME%s\", or ./%s for a folder of that name",
                       what, value, value + 1, value);
    const size_t name = value[0] == '$' ? strspn (value + 1, NAME_BYTES) : 0;
    if (is_path && name && access (value, F_OK))
        return refuse (verb,
                       "%s '%s': the shell replaces no variable in single quotes; type "
                       "\"%.*s\"%s",
                       what, value, (int) name + 1, value, value + name + 1);
    return true;
}

/* `wiremill work` takes an address with its share, "=3": what has it, checks it. The gateway takes
   NAME=ENDPOINT, and checks the name.  */
static bool check_endpoint (const wm_verb_t *verb, const wm_option_t *option, const char *value)
{
    if (strncmp (option->value, "NAME=", 5) == 0)
        value = strchr (value, '=') ? strchr (value, '=') + 1 : "";
    if (!*value)
        return true;
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t error;
    const bool listens = strcmp (option->name, "listen") == 0;
    char text[1024];
    const char *scheme = strstr (value, "://"), *rest = scheme ? scheme + 3 : value;
    if (strncmp (value, "tcp://", 6) != 0 && strncmp (value, "ipc://", 6) != 0 &&
        (listens || strncmp (value, "file://", 7) != 0)) {
        const char *near = *rest == '/' ? "ipc://" : strchr (rest, ':') ? "tcp://" : NULL;
        return refuse (verb, "--%s takes tcp://HOST:PORT or ipc:///PATH, not '%s'%s%s%s",
                       option->name, value, near ? "; did you mean " : "", near ? near : "",
                       near ? rest : "");
    }
    snprintf (text, sizeof text, "%s", value);
    char *share = strrchr (text, '=');
    if (!listens && share && share[1] && !share[1 + strspn (share + 1, "0123456789")])
        *share = 0;
    if (wm_address_parse (list, text, listens ? WM_ADDRESS_LISTEN : WM_ADDRESS_CONNECT, &error))
        return true;
    return refuse (verb, "--%s %s", option->name, error.text);
}

static bool takes_bytes (const wm_option_t *option)
{
    return strcmp (option->value, "BYTES") == 0;
}

/* Reads a whole number; of BYTES also with a unit: 64M. false: not a number, or too large.  */
static bool read_whole (const wm_option_t *option, const char *text, long *number)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    *number = strtol (text, &end, 10);
    const char *unit = takes_bytes (option) && *end ? strchr (units, *end) : NULL;
    if (errno || end == text || end[unit != NULL])
        return false;
    for (const char *one = units; unit && one <= unit; one++)
        if (__builtin_mul_overflow (*number, 1024L, number))
            return false;
    return true;
}

static bool check_value (const wm_verb_t *verb, const wm_option_t *option, const char *value)
{
    char what[NAME_MAX_CHARS + 3];
    snprintf (what, sizeof what, "--%s", option->name);
    if (option->may_be_empty && !*value)
        return true;
    if (!check_name (verb, what, value, option->path != WM_PATH_NONE))
        return false;
    wm_error_t error;
    if (check_path (option, value, &error))
        return refuse (verb, "--%s %s", option->name, error.text);
    const bool is_file = option->path && strpbrk (value, "./");
    if (option->one_of && !is_file && !is_one_of (option->value, value))
        return refuse (verb, "--%s takes %s, not '%s'", option->name, option->value, value);
    if (strstr (option->value, "ENDPOINT"))
        return check_endpoint (verb, option, value);
    if (wm_option_is_time (option))
        return check_time (verb, option, value);
    if (option->real_most > 0)
        return check_real (verb, option, value);
    if (!option->most)
        return true;
    long number;
    if (read_whole (option, value, &number) && number >= option->least && number <= option->most)
        return true;
    char most[32] = "";
    if (option->most < LONG_MAX)
        snprintf (most, sizeof most, " to %ld", option->most);
    return refuse (
        verb, "--%s takes a whole number from %ld%s%s, not '%s'", option->name, option->least, most,
        takes_bytes (option) ? ", also with K, M or G for KiB, MiB or GiB (64M)" : "", value);
}

/* Refuses a second file for what takes one: only a person knows which is meant.  */
static bool check_twice (const wm_args_t *self, const wm_option_t *option, const char *value)
{
    const bool once = option->once || option->path == WM_PATH_WRITTEN;
    const char *first = once ? wm_args_each (self, option->name, 0) : NULL;
    return !first || strcmp (first, value) == 0 ||
           refuse (self->verb, "--%s takes one file, and is given %.200s and %.200s", option->name,
                   first, value);
}

/* Reads the option at argv[*i] and moves *i past its value. false: refused, and printed.  */
static bool parse_option (wm_args_t *self, int argc, char **argv, int *i)
{
    const wm_verb_t *verb = self->verb;
    const char *word = argv[*i], *value = NULL;
    const wm_option_t *option;
    if (word[1] == '-') {
        const size_t n = strcspn (word + 2, "=");
        option = find (verb, word + 2, n);
        if (word[2 + n] == '=')
            value = word + 2 + n + 1;
    } else {
        option = find_letter (verb, word[1]);
        if (option && word[2])
            value = word + 2;
    }
    if (!option)
        return refuse_unknown (verb, word);
    if (option->value && value && word[1] != '-' && *value == '=')
        return refuse (verb, "-%c takes its value without =; type -%c %s or --%s=%s",
                       option->letter, option->letter, value + 1, option->name, value + 1);
    if (!option->value && value)
        return refuse (verb, "--%s takes no value", option->name);
    if (option->value && !value) {
        if (*i + 1 >= argc)
            return refuse (verb, "--%s needs %s", option->name, option->value);
        value = argv[++*i];
    }
    if (value && (!check_value (verb, option, value) || !check_twice (self, option, value)))
        return false;
    self->given[self->n_given++] = (given_t){ option, value ? value : "" };
    return true;
}

static bool is_help (const char *word)
{
    return strcmp (word, "--help") == 0 || strcmp (word, "-h") == 0;
}

/* Returns how many arguments a verb takes: one for each word of `rest`, any number of files.  */
static int rest_most (const char *rest)
{
    int n = rest && *rest;
    if (rest && (strstr (rest, "...") || strstr (rest, "FILES")))
        return INT_MAX;
    for (; rest && *rest; rest++)
        n += *rest == ' ';
    return n;
}

/* Reads the whole line. -1: it is as in the table, else the exit code (help or an error is
   printed). */
static int parse_all (wm_args_t *self, int argc, char **argv)
{
    const wm_verb_t *verb = self->verb;
    bool only_rest = false;
    int n_rest = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        const bool all = strcmp (word, "--help-all") == 0;
        if (!only_rest && (all || is_help (word))) {
            wm_verb_help (verb, all);
            return WM_EXIT_OK;
        }
        if (!only_rest && strcmp (word, "--") == 0)
            only_rest = true;
        else if (!only_rest && word[0] == '-' && word[1]) {
            if (!parse_option (self, argc, argv, &i))
                return WM_EXIT_USAGE;
        } else if (++n_rest > rest_most (verb->rest)) {
            refuse (verb, "'%s' is one argument too many", word);
            return WM_EXIT_USAGE;
        } else if (!check_name (verb, "an argument", word, true)) {
            return WM_EXIT_USAGE;
        } else
            self->given[self->n_given++] = (given_t){ NULL, word };
    }
    for (const wm_option_t *o = verb->options; o->name; o++)
        if (o->is_needed && !wm_args_given (self, o->name)) {
            refuse (verb, "--%s %s is missing", o->name, o->value);
            return WM_EXIT_USAGE;
        }
    return -1;
}

wm_args_t *wm_args_new (const wm_verb_t *verb, int argc, char **argv, int *exit_code)
{
    wm_error_t error;
    wm_args_t *self = calloc (1, sizeof *self + (size_t) (argc + 1) * sizeof (given_t));
    assert (self);
    self->verb = verb;
    self->argc = argc;
    self->argv = argv;
    int code = parse_all (self, argc, argv);
    if (code < 0 && check_paths (self, &error))
        code = wm_args_refuse (self, "%s", error.text);
    *exit_code = code < 0 ? WM_EXIT_OK : code;
    if (code >= 0)
        wm_args_destroy (&self);
    return self;
}

void wm_args_destroy (wm_args_t **self_p)
{
    if (*self_p) {
        free (*self_p);
        *self_p = NULL;
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

const char *wm_args_each (const wm_args_t *self, const char *name, int i)
{
    for (int k = 0; k < self->n_given; k++)
        if (self->given[k].option && strcmp (self->given[k].option->name, name) == 0 && i-- == 0)
            return self->given[k].value;
    return NULL;
}

bool wm_args_given (const wm_args_t *self, const char *name)
{
    return wm_args_each (self, name, 0) != NULL;
}

/* A verb reads only what its table has.  */
static const wm_option_t *known (const wm_args_t *self, const char *name)
{
    const wm_option_t *option = find (self->verb, name, strlen (name));
    assert (option);
    return option;
}

const char *wm_args_text (const wm_args_t *self, const char *name)
{
    const wm_option_t *option = known (self, name);
    for (int k = self->n_given; k-- > 0;)
        if (self->given[k].option == option)
            return self->given[k].value;
    return option->fallback;
}

long wm_args_number (const wm_args_t *self, const char *name)
{
    const char *text = wm_args_text (self, name);
    long number = 0;
    assert (!wm_option_is_time (known (self, name)));
    if (!text ||
        (takes_bytes (known (self, name)) && read_whole (known (self, name), text, &number)))
        return number;
    return strtol (text, NULL, 10);
}

double wm_args_real (const wm_args_t *self, const char *name)
{
    const char *text = wm_args_text (self, name);
    assert (!wm_option_is_time (known (self, name)));
    return text ? strtod (text, NULL) : 0;
}

double wm_args_seconds (const wm_args_t *self, const char *name)
{
    const char *text = wm_args_text (self, name);
    assert (wm_option_is_time (known (self, name)));
    return text ? wm_duration_s (text) : 0;
}

const char *wm_args_rest (const wm_args_t *self, int i)
{
    for (int k = 0; k < self->n_given; k++)
        if (!self->given[k].option && i-- == 0)
            return self->given[k].value;
    return NULL;
}

const char *wm_args_word (const wm_args_t *self, int i)
{
    return i < self->argc ? self->argv[i] : NULL;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* The verb of this name; of a program without verbs its only one, whatever the name.  */
static const wm_verb_t *find_verb (const wm_program_t *program, const char *name)
{
    for (const wm_verb_t *const *v = program->verbs; *v; v++)
        if (!wm_program_has_verbs (program) || strcmp ((*v)->name, name) == 0)
            return *v;
    return NULL;
}

int wm_verb_main (const wm_verb_t *verb, int argc, char **argv)
{
    int code;
    wm_args_t *args = wm_args_new (verb, argc, argv, &code);
    if (args)
        code = verb->run (args);
    wm_args_destroy (&args);
    return code;
}

static int refuse_verb (const wm_program_t *program, const char *name)
{
    if (name[0] == '-') { /* no verb has been named whose options could be meant */
        const char *option = wm_option_nearest (NULL, name + strspn (name, "-"));
        fprintf (stderr, "%s: there is no option '%s' before a verb%s%s%s; see %s --help\n",
                 program->name, name, option ? " (did you mean --" : "", option ? option : "",
                 option ? "?)" : "", program->name);
        return WM_EXIT_USAGE;
    }
    const char *near = wm_verb_nearest (program->verbs, name);
    fprintf (stderr, "%s: there is no verb '%s'%s%s%s; see %s --help\n", program->name, name,
             near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", program->name);
    return WM_EXIT_USAGE;
}

/* What `make doc` asks for. -1: it is something else, else the exit code.  */
static int print_for_build (const wm_program_t *program, int argc, char **argv)
{
    const char *verb_name = argc > 2 ? argv[2] : "";
    if (strcmp (argv[1], "--print-pages") == 0)
        wm_option_print_pages (program);
    else if (strcmp (argv[1], "--print-paths") == 0)
        print_paths (program);
    else if (strcmp (argv[1], "--print-completion") == 0)
        wm_option_print_completion (program);
    else if (strcmp (argv[1], "--print-man") == 0 || strcmp (argv[1], "--print-markdown") == 0) {
        const wm_verb_t *verb = find_verb (program, verb_name);
        if (!verb && *verb_name)
            return refuse_verb (program, verb_name);
        if (strcmp (argv[1], "--print-man") == 0)
            wm_option_print_man (program, verb);
        else
            wm_option_print_markdown (program, verb);
    } else
        return -1;
    return WM_EXIT_OK;
}

static bool is_version (const char *word)
{
    return strcmp (word, "--version") == 0 || strcmp (word, "-V") == 0;
}

/* Runs the verb that argv[0] names; of a program without verbs argv[0] is the program.  */
static int run_verb (const wm_program_t *program, int argc, char **argv)
{
    const wm_verb_t *verb = find_verb (program, argv[0]);
    if (!verb)
        return refuse_verb (program, argv[0]);
    if (argc > 1 && is_version (argv[1])) {
        printf ("%s %s\n", program->name, program->version);
        return WM_EXIT_OK;
    }
    return verb->pass ? verb->pass (argc, argv) : wm_verb_main (verb, argc, argv);
}

static int run_program (const wm_program_t *program, int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const int printed = argc > 1 ? print_for_build (program, argc, argv) : -1;
    if (printed >= 0)
        return printed;
    if (!wm_program_has_verbs (program))
        return run_verb (program, argc, argv);
    if (is_version (name)) {
        printf ("%s %s\n", program->name, program->version);
        return WM_EXIT_OK;
    }
    if (strcmp (name, "help") == 0 && argc > 2 && !is_help (argv[2])) {
        if (program->page && !find_verb (program, argv[2])) {
            const int page = program->page (argv[2]);
            if (page < 0)
                fprintf (stderr, "%s: there is no verb and no page '%s'; see %s --help and %s help "
                                 "manual\n",
                         program->name, argv[2], program->name, program->name);
            return page < 0 ? WM_EXIT_USAGE : page;
        }
        char *words[] = { argv[2], (char *) (uintptr_t) "--help", NULL }; /* never written to */
        return run_verb (program, 2, words);
    }
    if (!*name || is_help (name) || strcmp (name, "help") == 0) {
        wm_program_help (program);
        return *name ? WM_EXIT_OK : WM_EXIT_USAGE;
    }
    return run_verb (program, argc - 1, argv + 1);
}

/* With 0, 1 or 2 closed the next file would take its place, and messages would go into it. A closed
   stdout becomes one that refuses each write: what was to be printed is not lost silently.  */
static void open_standard_files (void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl (fd, F_GETFD) < 0)
            (void) open ("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

/* What a full disk or a closed pipe did not take of stdout is noticed here, for every program.  */
int wm_program_run (const wm_program_t *program, int argc, char **argv)
{
    open_standard_files ();
    if (!wm_environment_clean (program->name, argv))
        return WM_EXIT_FAILURE;
    wm_init_begin ();
    signal (SIGXFSZ, SIG_IGN); /* a file beyond `ulimit -f` is an error of write, not a death */
    const int code = run_program (program, argc, argv);
    errno = 0;
    const int flushed = fflush (stdout);
    if (!flushed && !ferror (stdout))
        return code;
    if (!errno) /* an earlier flush failed: why it does, if it is closed */
        (void) !write (STDOUT_FILENO, "", 0);
    fprintf (stderr, "%s: stdout cannot be written%s%s; what was printed there is incomplete\n",
             program->name, errno ? ": " : "", errno ? strerror (errno) : "");
    return code == WM_EXIT_OK || code == WM_EXIT_HELD ? WM_EXIT_FAILURE : code;
}
