/* wm_command.c - see wm_command.h.  */
#include "ops/process/wm_command.h"
#include "ops/process/wm_memory.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_kind.h"
#include "schema/base/wm_text.h"
#include "schema/base/wm_url.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES_MAX 16384

/* ---- writing --------------------------------------------------------------------------------- */

/* A URL goes without what opens it: commands are kept in files and logs.  */
void wm_command_word (FILE *out, const char *word)
{
    const size_t bytes = 4 * strlen (word) + 3; /* of quotes alone */
    char *copy = strdup (word), *typed = malloc (bytes);
    if (copy && strstr (copy, "://"))
        wm_url_redact (copy);
    if (copy && typed)
        fputs (wm_text_word (typed, bytes, copy), out);
    free (copy);
    free (typed);
}

/* Prints a word of a command that is to be typed again. A packed input (FILE.gz, --input=FILE.gz, a
   pattern) is one that has been unpacked by then; only archives are read packed.  */
static void print_again (FILE *out, const char *word)
{
    const size_t n = strlen (word);
    const char *value = *word == '-' && strchr (word, '=') ? strchr (word, '=') + 1 : word;
    char copy[PATH_MAX];
    if (n <= 3 || n >= sizeof copy || strcmp (word + n - 3, ".gz") != 0 ||
        (n > 7 && !strcmp (word + n - 7, ".tar.gz")) ||
        (wm_kind_of (value) != WM_KIND_GZIP &&
         (!strpbrk (value, "*?[{") || strchr ("*?]}", word[n - 4])))) {
        wm_command_word (out, word);
        return;
    }
    snprintf (copy, sizeof copy, "%.*s", (int) n - 3, word);
    wm_command_word (out, copy);
}

/* Returns how long the option's name is that `word` begins with, if its value may hold credentials
   (a workflow system's, a web hook's): outputs and logs keep what is printed. 0: no such
   option.  */
static size_t secret_option (const char *word)
{
    static const char *const options[] = { "--files-from-command", "--on-done", "--on-held",
                                           "--on-pause" };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const size_t n = strlen (options[i]);
        if (strncmp (word, options[i], n) == 0 && (!word[n] || word[n] == '='))
            return n;
    }
    return 0;
}

static void print_public (FILE *out, const char *word, bool *is_secret)
{
    const size_t n = *is_secret ? 0 : secret_option (word);
    if (*is_secret)
        fputs ("...", out);
    else if (n && word[n])
        fprintf (out, "%.*s=...", (int) n, word);
    else
        wm_command_word (out, word);
    *is_secret = n && !word[n];
}

/* As it is kept: without --retry-held, which was meant for that run only, and without secrets.  */
static void print (FILE *out, const wm_args_t *args, const char *option, bool is_kept)
{
    wm_command_word (out, program_invocation_name);
    const char *word;
    bool is_secret = false;
    for (int i = 0; (word = wm_args_word (args, i)); i++) {
        if (is_kept && strcmp (word, "--retry-held") == 0)
            continue;
        if (i == 1 && option)
            fprintf (out, " %s", option);
        fputc (' ', out);
        if (is_kept)
            print_public (out, word, &is_secret);
        else
            print_again (out, word);
    }
    fputc ('\n', out);
}

void wm_command_print (FILE *out, const wm_args_t *args, const char *option)
{
    print (out, args, option, false);
}

/* ---- other verbs ----------------------------------------------------------------------------- */

static char where[PATH_MAX];
static bool is_folder;

void wm_command_at (const char *campaign, const char *endpoint)
{
    is_folder = *campaign != 0;
    if (!is_folder || !realpath (campaign, where))
        snprintf (where, sizeof where, "%s", is_folder ? campaign : endpoint);
}

void wm_command_verb (FILE *out, const char *verb, const char *rest, const char *after)
{
    fprintf (out, "`wiremill %s %s", verb, is_folder ? "" : "--broker ");
    wm_command_word (out, where);
    if (*rest) {
        fputc (' ', out);
        wm_command_word (out, rest);
    }
    fprintf (out, "`%s\n", after);
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* Where it was typed: relative paths of programs and files start there.  */
static void print_place (FILE *out)
{
    char here[PATH_MAX];
    if (!getcwd (here, sizeof here))
        return;
    fputs ("cd ", out);
    wm_command_word (out, here);
    fputs (" && ", out);
}

/* An address that cannot be typed elsewhere (*, a range, a port that the broker chooses, several)
   is replaced by the campaign's folder.  */
static void print_with (FILE *out, const char *verb, const char *endpoint, const char *campaign,
                        const char *rest)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t error;
    const bool is_typed = wm_address_parse (list, endpoint, WM_ADDRESS_CONNECT, &error) == 1 &&
                          strcmp (list[0].host, "0.0.0.0") != 0;
    fputs ("  ", out);
    print_place (out);
    wm_command_word (out, program_invocation_name);
    fprintf (out, " %s --%s ", verb, is_typed ? "broker" : "campaign");
    wm_command_word (out, is_typed ? endpoint : campaign);
    fprintf (out, " %s\n", rest);
}

wm_fault_t wm_command_keep (const wm_args_t *args, const char *campaign, const char *endpoint,
                            char path[32], wm_error_t *error)
{
    char *text = NULL;
    size_t bytes = 0;
    int fd;
    FILE *out = open_memstream (&text, &bytes);
    if (!out)
        return wm_fault (error, WM_EHOST, "no memory for the command");
    fprintf (out, "%s\n", campaign);
    print_place (out);
    print (out, args, NULL, true);
    if (endpoint) {
        print_with (out, "produce", endpoint, campaign, "--input ... # its inputs, as before");
        print_with (out, "work", endpoint, campaign, "# as many as you like");
    }
    fclose (out);
    const wm_fault_t fault = wm_memory_file ("command", text, bytes, &fd, path, error);
    free (text);
    return fault;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Its lines from the second on, each with its end. 0: they are not known.  */
static size_t read_command (const char *campaign, char command[BYTES_MAX])
{
    char path[PATH_MAX + 16], line[PATH_MAX + 2], real[PATH_MAX];
    snprintf (path, sizeof path, "%.4090s/command", campaign);
    FILE *file = *campaign ? fopen (path, "re") : NULL;
    const bool ours = file && realpath (campaign, real) && fgets (line, sizeof line, file) &&
                      strncmp (line, real, strlen (real)) == 0 &&
                      strcmp (line + strlen (real), "\n") == 0;
    const size_t n = ours ? fread (command, 1, BYTES_MAX, file) : 0;
    if (file)
        fclose (file);
    return n > 1 && command[n - 1] == '\n' ? n : 0; /* as long as it was written */
}

void wm_command_advise (FILE *out, const char *campaign, const char *purpose)
{
    char command[BYTES_MAX];
    const size_t n = read_command (campaign, command);
    if (n)
        fprintf (out, "type this %s:\n  %.*s", purpose, (int) n, command);
    else
        fprintf (out, "type the same wiremill run or wiremill broker command %s\n", purpose);
}

void wm_command_retry (FILE *out, const char *campaign)
{
    char command[BYTES_MAX];
    const size_t n = read_command (campaign, command);
    if (n && !memchr (command, '\n', n - 1)) /* of `wiremill run`, without its inputs of others */
        fprintf (out, "type this:\n  %.*s --retry-held\n", (int) n - 1, command);
    else
        fprintf (out, "type the same %s command with --retry-held\n", wm_command_sender (campaign));
}

bool wm_command_show (FILE *out, const char *campaign)
{
    char command[BYTES_MAX];
    const size_t n = read_command (campaign, command);
    fprintf (out, "%.*s", (int) n, command);
    return n > 0;
}

const char *wm_command_sender (const char *campaign)
{
    char command[BYTES_MAX];
    const size_t n = read_command (campaign, command);
    return !n                              ? "wiremill run or wiremill produce"
           : memchr (command, '\n', n - 1) ? "wiremill produce"
                                           : "wiremill run";
}
