/* help.c - see help.h. The pages lie beside the programs as text, made of the manual's Markdown by
   ops/manual/terminal.py: a line that begins in the first column is a heading.  */
#include "ops/help.h"
#include "ops/ask/wm_show.h"
#include "ops/verbs.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_program.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGES WM_PROGRAM_DATA "/manual"
#define SITE "../share/doc/wiremill/index.html"
#define SITE_OF_BUILD "../manual/html/index.html"
#define LINE_BYTES 4096

static const char *const folders[] = { "", "start/", "howto/", "explain/", "reference/" };
#define FOLDERS (sizeof folders / sizeof *folders)

static void print_page (FILE *file, FILE *out, bool is_bold)
{
    char line[LINE_BYTES];
    while (fgets (line, sizeof line, file)) {
        if (is_bold && *line != ' ' && *line != '\n')
            fprintf (out, "\033[1m%.*s\033[m\n", (int) strcspn (line, "\n"), line);
        else
            fputs (line, out);
    }
}

/* A pager stands between only if a person reads; without one the terminal scrolls.  */
static int show_page (const char *path)
{
    FILE *file = fopen (path, "r");
    if (!file)
        return -1;
    fflush (stdout);
    const bool is_bold = wm_show_has_colors (STDOUT_FILENO);
    FILE *pager = isatty (STDOUT_FILENO) ? popen ("LESS=${LESS:--FR} ${PAGER:-less}", "w") : NULL;
    print_page (file, pager ? pager : stdout, is_bold);
    fclose (file);
    if (pager)
        pclose (pager);
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

/* A name with a folder is found in "" only, so each page has both names.  */
int wm_help_page (const char *word)
{
    char path[PATH_MAX], name[256], lower[100];
    if (strcmp (word, "--browser") == 0)
        return open_site ();
    size_t n = 0;
    for (; word[n] && n < sizeof lower - 1; n++)
        lower[n] = (char) tolower ((unsigned char) word[n]);
    lower[n] = 0;
    for (size_t i = 0; i < FOLDERS && !strchr (lower, '.'); i++) {
        snprintf (name, sizeof name, PAGES "/%s%s.txt", folders[i], lower);
        const int code = wm_program_beside (path, name) ? show_page (path) : -1;
        if (code >= 0)
            return code;
    }
    if (strcmp (lower, "manual") != 0)
        return -1;
    fprintf (stderr, "wiremill help: the manual does not lie beside this program, in "
                     "share/wiremill/manual; make install puts it there\n");
    return WM_EXIT_FAILURE;
}
