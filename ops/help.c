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
#define SEEN_MAX 6 /* pages of a search */

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
    FILE *pager = isatty (STDOUT_FILENO) /* -R: less takes colours, whatever else a user sets */
                      ? popen ("LESS=\"-R ${LESS:--F}\" ${PAGER:-less}", "w")
                      : NULL;
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

/* Where the page of this name lies, in small letters. A name with a folder is found in "" only, so
   each page has both names.  */
static bool page_path (char path[PATH_MAX], const char *lower)
{
    char name[256];
    for (size_t i = 0; i < FOLDERS && !strchr (lower, '.'); i++) {
        snprintf (name, sizeof name, PAGES "/%s%s.txt", folders[i], lower);
        if (wm_program_beside (path, name) && !access (path, R_OK))
            return true;
    }
    return false;
}

/* How well a page fits: 0 unless each of the words, which have blanks between, is in it; a title
   counts for more than lines.  */
static int page_fit (const char *page, const char *title, const char *words)
{
    char path[PATH_MAX], line[LINE_BYTES], word[100];
    int fit = 0;
    for (int n; sscanf (words, "%99s%n", word, &n) == 1; words += n) {
        FILE *file = page_path (path, page) ? fopen (path, "r") : NULL;
        int found = 0;
        while (file && fgets (line, sizeof line, file))
            found += strcasestr (line, word) != NULL;
        if (file)
            fclose (file);
        if (!found)
            return 0;
        fit += found + (strcasestr (title, word) || strstr (page, word) ? 100 : 0);
    }
    return fit;
}

/* Prints those pages that have the words, best first; false: there is no such page.  */
static bool pages_with (const char *word, const char *words)
{
    char path[PATH_MAX], line[LINE_BYTES], page[100], lines[SEEN_MAX + 1][160];
    int fits[SEEN_MAX + 1] = { 0 }, at = 0; /* the last place is that of the page at hand */
    FILE *file = wm_program_beside (path, PAGES "/manual.txt") ? fopen (path, "r") : NULL;
    while (file && fgets (line, sizeof line, file)) {
        if (*line != ' ' || sscanf (line, "  %99s %n", page, &at) != 1)
            continue;
        const int fit = page_fit (page, line + at, words);
        int i = SEEN_MAX;
        for (; i && fit > fits[i - 1]; i--) {
            fits[i] = fits[i - 1];
            memcpy (lines[i], lines[i - 1], sizeof *lines);
        }
        fits[i] = fit;
        snprintf (lines[i], sizeof *lines, "%.150s", line);
    }
    if (file)
        fclose (file);
    if (!fits[0])
        return false;
    fprintf (stderr, "wiremill: there is no verb and no page '%s'; these pages have it:\n", word);
    for (int i = 0; i < SEEN_MAX && fits[i]; i++)
        fprintf (stderr, "%s", lines[i]);
    return true;
}

int wm_help_page (const char *word)
{
    char path[PATH_MAX], lower[100];
    if (strcmp (word, "--browser") == 0)
        return open_site ();
    size_t n = 0;
    for (; word[n] && n < sizeof lower - 1; n++)
        lower[n] = (char) tolower ((unsigned char) word[n]);
    lower[n] = 0;
    const int code = page_path (path, lower) ? show_page (path) : -1;
    if (code >= 0)
        return code;
    if (strcmp (lower, "manual") != 0)
        return pages_with (word, lower) ? WM_EXIT_USAGE : -1;
    fprintf (stderr, "wiremill help: the manual does not lie beside this program, in "
                     "share/wiremill/manual; make install puts it there\n");
    return WM_EXIT_FAILURE;
}
