/* help.h - the manual's pages in a terminal and in a browser, for `wiremill help WORD`.  */
#ifndef HELP_H
#define HELP_H

/* Prints the page of the manual that `word` names ("durability"), through a pager if stdout is a
   terminal. "manual" lists all pages, "--browser" opens the site. Returns -1 if no page has this
   name, else the exit code. Thread: one.  */
int wm_help_page (const char *word);

#endif
