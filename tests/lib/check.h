/* check.h - what the programs that try libwiremill share: CHECK, and what a folder has.  */
#ifndef CHECK_H
#define CHECK_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <wiremill.h>

/* Ends the program with the line that is not so, and the library's last error.  */
#define CHECK(what) ((what) ? (void) 0 : complain (__FILE__, __LINE__, #what))

static wiremill_error_t last;

static void complain (const char *file, int line, const char *what)
{
    fprintf (stderr, "%s:%d: not so: %s (last error: %s)\n", file, line, what, last.text);
    exit (1);
}

/* Returns how many entries a folder has, `.` and `..` included.  */
static int entries (const char *folder)
{
    int n = 0;
    DIR *list = opendir (folder);
    CHECK (list);
    while (readdir (list))
        n++;
    closedir (list);
    return n;
}

#endif
