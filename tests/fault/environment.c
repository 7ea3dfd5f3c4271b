/* environment.c - the table of variables, for a shell.

   usage: environment         reads names from stdin and prints those that libraries still see  */
#include "schema/base/wm_environment.h"

#include <stdio.h>
#include <string.h>

int main (void)
{
    char name[4096];
    while (fgets (name, sizeof name, stdin)) {
        name[strcspn (name, "\n")] = 0;
        if (!wm_environment_hides (name))
            puts (name);
    }
    return 0;
}
