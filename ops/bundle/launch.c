/* launch.c - bin/NAME of a bundle: starts libexec/NAME with the bundle's own loader and libraries.

   The path of a program's loader is absolute and compiled in, so that a tree that runs from any
   folder, with no library of the host, needs this step. It is linked statically. The loader lies in
   bin/, too: while a program runs, /proc/self/exe names the loader, and programs look beside that
   for each other and in ../lib for engines (schema/base/wm_program.h).  */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined __aarch64__
#define LOADER "ld-linux-aarch64.so.1"
#else
#define LOADER "ld-linux-x86-64.so.2"
#endif
#define BEFORE 7 /* words before those that were typed */

static int fail (const char *what)
{
    fprintf (stderr, "wiremill: %s: %s; is the bundle complete?\n", what, strerror (errno));
    return 127;
}

int main (int argc, char **argv)
{
    char self[PATH_MAX], loader[PATH_MAX + 64], libraries[PATH_MAX + 64], program[PATH_MAX + 64];
    const ssize_t n = readlink ("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return fail ("/proc/self/exe");
    self[n] = '\0';
    char *name = strrchr (self, '/');
    *name++ = '\0'; /* self: .../bin */
    snprintf (loader, sizeof loader, "%s/" LOADER, self);
    *strrchr (self, '/') = '\0'; /* the bundle */
    snprintf (libraries, sizeof libraries, "%s/lib", self);
    snprintf (program, sizeof program, "%s/libexec/%s", self, name);
    char **words = calloc ((size_t) argc + BEFORE + 1, sizeof *words);
    if (!words)
        return fail (program);
    char *const before[BEFORE] = {
        loader,    (char[]){ "--inhibit-cache" }, (char[]){ "--library-path" },
        libraries, (char[]){ "--argv0" },         argc ? argv[0] : program,
        program
    };
    memcpy (words, before, sizeof before);
    if (argc > 1)
        memcpy (words + BEFORE, argv + 1, (size_t) (argc - 1) * sizeof *words);
    execv (loader, words);
    return fail (loader);
}
