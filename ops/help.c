/* help.c - see help.h. The pages are the manual's Markdown, which lies beside the programs; what a
   terminal does not need of it is left out.  */
#include "ops/help.h"
#include "ops/verbs.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_program.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGES WM_PROGRAM_DATA "/manual"
#define SITE "../share/doc/wiremill/index.html"
#define SITE_OF_BUILD "../manual/html/index.html"
#define LINE_BYTES 4096

static const char *const folders[] = { "start", "howto", "explain", "reference" };
static const char *const headings[] = { "to begin with", "one task each", "how it works",
                                        "complete tables" };
#define FOLDERS (sizeof folders / sizeof *folders)

/* Prints a line of text without the targets of its links, backquotes, asterisks of bold type and
   the backslashes that protect marks.  */
static void print_line (const char *line)
{
    for (const char *at = line; *at; at++) {
        const char *target = *at == ']' && at[1] == '(' ? strchr (at, ')') : NULL;
        if (target)
            at = target;
        else if (*at == '\\' && at[1] && strchr ("*_<>[]|\\#$", at[1]))
            putchar (*++at);
        else if (strncmp (at, "**", 2) == 0)
            at++;
        else if (!strchr ("`[", *at))
            putchar (*at);
    }
}

/* Blocks of Sphinx's own ("```{toctree}"), remarks and pictures are left out.  */
static void print_page (FILE *file)
{
    char line[LINE_BYTES];
    bool is_block = false, is_hidden = false;
    while (fgets (line, sizeof line, file)) {
        if (strncmp (line, "```", 3) == 0) {
            is_block = !is_block;
            is_hidden = is_block && line[3] == '{';
        } else if (is_block && !is_hidden)
            printf ("    %s", line);
        else if (!is_block && *line != '%' && strncmp (line, "![", 2) != 0)
            print_line (line);
    }
}

/* A pager stands between only where a person reads; without one the terminal scrolls.  */
static int show_page (const char *path)
{
    FILE *file = fopen (path, "r");
    if (!file)
        return -1;
    fflush (stdout);
    FILE *pager = isatty (STDOUT_FILENO) ? popen ("${PAGER:-less -F}", "w") : NULL;
    const int terminal = pager ? dup (STDOUT_FILENO) : -1;
    if (terminal >= 0)
        dup2 (fileno (pager), STDOUT_FILENO);
    print_page (file);
    fclose (file);
    if (terminal >= 0) {
        fflush (stdout);
        dup2 (terminal, STDOUT_FILENO);
        close (terminal);
    }
    if (pager)
        pclose (pager);
    return WM_EXIT_OK;
}

static int is_page (const struct dirent *entry)
{
    const char *end = strrchr (entry->d_name, '.');
    return end && strcmp (end, ".md") == 0;
}

/* A page that is called like a verb is named with its folder: `wiremill help keys` is the verb.  */
static bool is_verb (const char *name, size_t n)
{
#define NAME(name) #name,
    static const char *const verbs[] = { WM_VERBS (NAME) };
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strlen (verbs[i]) == n && strncmp (verbs[i], name, n) == 0)
            return true;
    return false;
}

static int list_pages (void)
{
    char folder[PATH_MAX], name[64];
    int n_all = 0;
    for (size_t i = 0; i < FOLDERS; i++) {
        struct dirent **entry;
        snprintf (name, sizeof name, PAGES "/%s", folders[i]);
        const int n =
            wm_program_beside (folder, name) ? scandir (folder, &entry, is_page, alphasort) : 0;
        if (n > 0)
            printf ("%s%s\n", n_all ? "\n" : "", headings[i]);
        for (int k = 0; k < n; k++) {
            const size_t length = strlen (entry[k]->d_name) - 3;
            const bool shared = is_verb (entry[k]->d_name, length);
            printf ("  %s%s%.*s\n", shared ? folders[i] : "", shared ? "/" : "", (int) length,
                    entry[k]->d_name);
            free (entry[k]);
        }
        if (n >= 0)
            free (entry);
        n_all += n > 0 ? n : 0;
    }
    if (!n_all) {
        fprintf (stderr, "wiremill help: the manual does not lie beside this program, in "
                         "share/wiremill/manual; make install puts it there\n");
        return WM_EXIT_FAILURE;
    }
    puts ("\nwiremill help PAGE prints one; wiremill help --browser opens the manual as a site");
    return WM_EXIT_OK;
}

static int open_site (void)
{
    char site[PATH_MAX], command[PATH_MAX + 64];
    if ((!wm_program_beside (site, SITE) || access (site, R_OK)) &&
        (!wm_program_beside (site, SITE_OF_BUILD) || access (site, R_OK))) {
        fprintf (stderr, "wiremill help: the manual's site is not installed; make manual builds "
                         "it, and wiremill help manual lists its pages\n");
        return WM_EXIT_FAILURE;
    }
    char *real = realpath (site, NULL);
    printf ("file://%s\n", real ? real : site);
    free (real);
    fflush (stdout);
    snprintf (command, sizeof command, "xdg-open '%.4000s' >/dev/null 2>&1 &", site);
    const bool has_screen = getenv ("DISPLAY") || getenv ("WAYLAND_DISPLAY");
    return has_screen && !strchr (site, '\'') && system (command) ? WM_EXIT_FAILURE : WM_EXIT_OK;
}

int wm_help_page (const char *word)
{
    char path[PATH_MAX], name[256];
    if (strcmp (word, "manual") == 0)
        return list_pages ();
    if (strcmp (word, "--browser") == 0)
        return open_site ();
    const char *slash = strchr (word, '/');
    for (size_t i = 0; i < FOLDERS && (!slash || !strchr (slash + 1, '/')); i++) {
        const size_t n = strlen (folders[i]);
        if (slash && ((size_t) (slash - word) != n || strncmp (word, folders[i], n) != 0))
            continue;
        snprintf (name, sizeof name, PAGES "/%s/%.100s.md", folders[i], slash ? slash + 1 : word);
        const int code = wm_program_beside (path, name) ? show_page (path) : -1;
        if (code >= 0)
            return code;
    }
    return -1;
}
