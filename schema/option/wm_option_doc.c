/* wm_option_doc.c - what people read about a command line: --help, man pages, pages of the manual,
   bash completion.

   All of them come from the tables that the parser uses, so none can be out of date.  */
#include "schema/option/wm_duration.h"
#include "schema/option/wm_option_private.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LEFT_WIDTH 28 /* columns of an option in --help; its text stands to the right, or below */
#define WIDTH 80      /* where lines of --help end */

/* ---- --help ---------------------------------------------------------------------------------- */

/* Prints `text` filled between columns `indent` and WIDTH; the cursor is in column `at`. Returns
   the column after it.  */
static int fill (const char *text, size_t length, int indent, int at)
{
    while (length) {
        const char *space = memchr (text, ' ', length);
        const size_t n = space ? (size_t) (space - text) : length;
        if (at > indent && at + 1 + (int) n > WIDTH) {
            printf ("\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            putchar (' ');
            at++;
        }
        printf ("%.*s", (int) n, text);
        at += (int) n;
        text += n + (space != NULL);
        length -= n + (space != NULL);
    }
    return at;
}

static void print_paragraphs (const char *text)
{
    int at = 0;
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = strchr (text, '\n') ? strchr (text, '\n') : text + strlen (text);
        const bool is_verbatim = *text == ' ' || end == text;
        if (at && is_verbatim)
            putchar ('\n');
        if (is_verbatim)
            printf ("%.*s\n", (int) (end - text), text);
        at = is_verbatim ? 0 : fill (text, (size_t) (end - text), 0, at);
    }
    if (at)
        putchar ('\n');
}

/* What stands below the options where one takes a TIME.  */
static const char times[] = "A TIME is " WM_DURATION_EXAMPLES "; a number alone is seconds.";

static bool takes_time (const wm_verb_t *verb)
{
    for (const wm_option_t *o = verb->options; o->name; o++)
        if (wm_option_is_time (o))
            return true;
    return false;
}

/* Whether a heading stands before this verb.  */
static bool begins_group (const wm_program_t *program, const wm_verb_t *const *verb)
{
    return (*verb)->task && (verb == program->verbs || !verb[-1]->task ||
                             strcmp ((*verb)->task, verb[-1]->task) != 0);
}

void wm_program_help (const wm_program_t *program)
{
    printf ("%s - %s\n\n", program->name, program->summary);
    if (program->first)
        printf ("%s\n", program->first);
    printf ("usage: %s VERB [OPTIONS]\n       %s help VERB     explains a verb and its options\n",
            program->name, program->name);
    if (program->page)
        printf ("       %s help manual   lists the pages of the manual\n", program->name);
    printf ("       %s --version\n", program->name);
    for (const wm_verb_t *const *v = program->verbs; *v; v++) {
        if (begins_group (program, v))
            printf ("\n%s\n", (*v)->task);
        printf ("  %-9s %s\n", (*v)->name, (*v)->summary);
    }
    if (program->text) {
        putchar ('\n');
        print_paragraphs (program->text);
    }
}

static void print_option (const wm_option_t *option)
{
    char left[96];
    snprintf (left, sizeof left, "%s%c%s--%s%s%s", option->letter ? "-" : " ",
              option->letter ? option->letter : ' ', option->letter ? ", " : "  ", option->name,
              option->value ? " " : "", option->value ? option->value : "");
    size_t cut = strlen (left);
    if (cut > WIDTH - 2) /* the names of values go on in the next line */
        for (cut = WIDTH - 2; cut > 0 && left[cut - 1] != '|';)
            cut--;
    if (left[cut])
        printf ("  %.*s\n      %s\n%*s", (int) cut, left, left + cut, LEFT_WIDTH + 3, "");
    else if (cut > LEFT_WIDTH)
        printf ("  %s\n%*s", left, LEFT_WIDTH + 3, "");
    else
        printf ("  %-*s ", LEFT_WIDTH, left);
    const int at = fill (option->help, strlen (option->help), LEFT_WIDTH + 3, LEFT_WIDTH + 3);
    if (option->fallback) {
        char text[128];
        snprintf (text, sizeof text, "(default: %s)", option->fallback);
        fill (text, strlen (text), LEFT_WIDTH + 3, at);
    }
    putchar ('\n');
}

/* Whether `name` is one of `names`, which have blanks between.  */
static bool is_among (const char *names, const char *name)
{
    const size_t n = strlen (name);
    for (const char *at = names; (at = strstr (at, name)) != NULL; at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

/* The length of the lines that a verb's text begins with: its examples.  */
static size_t examples (const char *text)
{
    const char *end = text;
    while (end && *end == ' ')
        end = strchr (end, '\n') ? strchr (end, '\n') + 1 : end + strlen (end);
    return (size_t) (end - text);
}

void wm_verb_help (const wm_verb_t *verb, bool all)
{
    char title[64];
    const char *heading = NULL, *text = verb->text ? verb->text : "";
    int n_more = 0, n_shown = 0, n_common = 1;
    wm_verb_title (verb, title);
    printf ("%s - %s\n\nusage: %s [OPTIONS]%s%s\n\n%.*s", title, verb->summary, title,
            verb->rest ? " " : "", verb->rest ? verb->rest : "", (int) examples (text), text);
    for (const wm_option_t *o = verb->options; o->name; o++) {
        heading = o->task ? o->task : heading;
        if (!all && verb->common && !is_among (verb->common, o->name)) {
            n_more++;
            continue;
        }
        if (heading)
            printf ("\n%s\n", heading);
        heading = NULL;
        print_option (o);
        n_shown++;
    }
    for (const char *at = verb->common; at && *at; at++)
        n_common += *at == ' ';
    assert (all || !verb->common || n_shown == n_common); /* each name is an option's */
    if (n_more)
        printf ("\n%s --help-all lists %d options more.\n", title, n_more);
    if (takes_time (verb))
        printf ("\n%s\n", times);
    text += examples (text);
    if (*text && *text != '\n')
        putchar ('\n');
    print_paragraphs (text);
}

/* ---- man pages ------------------------------------------------------------------------------- */

/* A line that begins with '.' or '\'' is a request; '-' alone is no hyphen for a shell.  */
static void roff (const char *text, size_t length)
{
    if (length && (*text == '.' || *text == '\''))
        fputs ("\\&", stdout);
    for (; length; text++, length--)
        switch (*text) {
        case '\\':
            fputs ("\\e", stdout);
            break;
        case '-':
            fputs ("\\-", stdout);
            break;
        case '\'':
            fputs ("\\(aq", stdout);
            break;
        case '`':
            fputs ("\\(ga", stdout);
            break;
        case '^':
            fputs ("\\(ha", stdout);
            break;
        case '~':
            fputs ("\\(ti", stdout);
            break;
        default:
            putchar (*text);
        }
}

static void roff_text (const char *text)
{
    roff (text, strlen (text));
}

static void roff_paragraphs (const char *text, size_t length)
{
    bool is_example = false;
    for (const char *last = text + length, *end; text < last; text = end + 1) {
        end = memchr (text, '\n', (size_t) (last - text));
        end = end ? end : last;
        if ((*text == ' ') != is_example) {
            is_example = !is_example;
            puts (is_example ? ".PP\n.nf" : ".fi");
        }
        if (end == text)
            fputs (".PP", stdout);
        roff (text, (size_t) (end - text));
        putchar ('\n');
    }
    if (is_example)
        puts (".fi");
}

static void roff_heading (const char *text)
{
    fputs (".SS \"", stdout);
    roff_text (text);
    puts ("\"");
}

static void roff_option (const wm_option_t *option)
{
    if (option->task)
        roff_heading (option->task);
    puts (".TP");
    if (option->letter)
        printf ("\\fB\\-%c\\fR, ", option->letter);
    fputs ("\\fB\\-\\-", stdout);
    roff_text (option->name);
    fputs ("\\fR", stdout);
    if (option->value) {
        fputs (" \\fI", stdout);
        roff_text (option->value);
        fputs ("\\fR", stdout);
    }
    putchar ('\n');
    roff_text (option->help);
    if (option->fallback) {
        fputs (" (default: ", stdout);
        roff_text (option->fallback);
        putchar (')');
    }
    putchar ('\n');
}

/* The name of a page: the title with a dash for the space.  */
static const char *page_name (const wm_program_t *program, const wm_verb_t *verb, char name[64])
{
    if (verb && *verb->name)
        snprintf (name, 64, "%s-%s", verb->program ? verb->program : "wiremill", verb->name);
    else
        snprintf (name, 64, "%s", program->name);
    return name;
}

static void roff_head (const wm_program_t *program, const wm_verb_t *verb)
{
    char name[64], title[64];
    page_name (program, verb, name);
    fputs (".TH \"", stdout);
    for (const char *at = name; *at; at++)
        putchar (toupper ((unsigned char) *at));
    printf ("\" \"1\" \"\" \"wiremill %s\" \"wiremill\"\n.SH NAME\n", program->version);
    roff_text (name);
    fputs (" \\- ", stdout);
    roff_text (verb ? verb->summary : program->summary);
    fputs ("\n.SH SYNOPSIS\n\\fB", stdout);
    roff_text (verb ? wm_verb_title (verb, title) : program->name);
    fputs (verb ? "\\fR [\\fIOPTIONS\\fR]" : "\\fR \\fIVERB\\fR [\\fIOPTIONS\\fR]", stdout);
    if (verb && verb->rest) {
        fputs (" \\fI", stdout);
        roff_text (verb->rest);
        fputs ("\\fR", stdout);
    }
    putchar ('\n');
}

/* What every page ends with; the manual lists all files and variables.  */
static void roff_foot (const wm_verb_t *verb)
{
    static const char *const files[][2] = {
        { "OUTPUT/STEM.scores.h5", "the scores of the input STEM.h5" },
        { "OUTPUT.wiremill", "the campaign: journal, ledger, keys, logs" },
        { "~/.cache/wiremill/models", "imported models, for the next campaign" },
    };
    static const char *const environment[][2] = {
        { "WM_BROKER", "the broker to use if neither an option nor a folder names one" },
        { "WM_JOIN_FILE", "the file with this process's key, as --join-file" },
        { "WM_MODEL_CACHE", "off: imported models are not kept" },
    };
    puts (".SH FILES");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        fputs (".TP\n\\fI", stdout);
        roff_text (files[i][0]);
        printf ("\\fR\n%s\n", files[i][1]);
    }
    puts (".SH ENVIRONMENT");
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
        printf (".TP\n.BR %s\n", environment[i][0]);
        roff_text (environment[i][1]);
        putchar ('\n');
    }
    puts (".SH \"EXIT STATUS\"");
    for (int code = 0; code <= WM_EXIT_AGAIN; code++)
        if (wm_exit_meaning (code)) {
            printf (".TP\n.BR %d\n", code);
            roff_text (wm_exit_meaning (code));
            putchar ('\n');
        }
    puts (verb && *verb->name ? ".SH \"SEE ALSO\"\n.BR wiremill (1)"
                              : ".SH \"SEE ALSO\"\n.BR wiremill\\-tutorial (7)");
}

void wm_option_print_man (const wm_program_t *program, const wm_verb_t *verb)
{
    const char *text = verb && verb->text ? verb->text : "";
    const size_t n = examples (text);
    roff_head (program, verb);
    if (text[n]) {
        puts (".SH DESCRIPTION");
        roff_paragraphs (text + n + (text[n] == '\n'), strlen (text + n) - (text[n] == '\n'));
    }
    if (verb)
        puts (".SH OPTIONS");
    for (const wm_option_t *o = verb ? verb->options : NULL; o && o->name; o++)
        roff_option (o);
    if (verb)
        puts (".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR, \\fB\\-\\-help\\-all\\fR\n"
              "print the options that are used most, or all");
    else
        puts (".SH VERBS");
    if (verb && takes_time (verb))
        printf (".PP\n%s\n", times);
    for (const wm_verb_t *const *v = program->verbs; !verb && *v; v++) {
        if (begins_group (program, v))
            roff_heading ((*v)->task);
        printf (".TP\n\\fB%s\\fR\n", (*v)->name);
        roff_text ((*v)->summary);
        putchar ('\n');
    }
    if (n || (!verb && program->first))
        puts (".SH EXAMPLES");
    roff_paragraphs (text, n);
    if (!verb && program->first)
        roff_paragraphs (program->first, strlen (program->first));
    roff_foot (verb);
}

void wm_option_print_pages (const wm_program_t *program)
{
    char name[64];
    if (wm_program_has_verbs (program))
        printf ("%s %s\n", program->name, program->name);
    for (const wm_verb_t *const *v = program->verbs; *v; v++)
        if (!(*v)->pass || (*v)->pass_to)
            printf ("%s %s %s\n", page_name (program, *v, name),
                    (*v)->pass_to ? (*v)->pass_to : program->name, (*v)->name);
}

/* ---- pages of the manual --------------------------------------------------------------------- */

/* Outside code, Markdown would read these as marks; between backquotes all stays as it is.  */
static void markdown (const char *text)
{
    for (bool is_code = false; *text; text++) {
        is_code ^= *text == '`';
        if (!is_code && strchr ("*_<>[]|\\#$", *text))
            putchar ('\\');
        putchar (*text);
    }
}

static void markdown_paragraphs (const char *text)
{
    bool is_example = false;
    for (const char *end; *text; text = *end ? end + 1 : end) {
        char line[1024];
        end = strchr (text, '\n') ? strchr (text, '\n') : text + strlen (text);
        snprintf (line, sizeof line, "%.*s", (int) (end - text), text);
        if ((*line == ' ') != is_example) {
            is_example = !is_example;
            puts (is_example ? "\n```text" : "```\n");
        }
        if (is_example)
            fputs (line + strspn (line, " "), stdout);
        else
            markdown (line);
        putchar ('\n');
    }
    if (is_example)
        puts ("```");
}

static void markdown_option (const wm_option_t *option)
{
    if (option->task)
        printf ("\n## %c%s\n", toupper ((unsigned char) *option->task), option->task + 1);
    putchar ('\n');
    if (option->letter)
        printf ("`-%c`, ", option->letter);
    printf ("`--%s%s%s`\n: ", option->name, option->value ? " " : "",
            option->value ? option->value : "");
    markdown (option->help);
    if (option->fallback)
        printf (" (default: `%s`)", option->fallback);
    putchar ('\n');
}

void wm_option_print_markdown (const wm_program_t *program, const wm_verb_t *verb)
{
    char title[64];
    printf ("# %s\n\n", verb ? wm_verb_title (verb, title) : program->name);
    markdown (verb ? verb->summary : program->summary);
    printf ("\n\n```text\n%s%s [OPTIONS]%s%s\n```\n\n",
            verb ? wm_verb_title (verb, title) : program->name, verb ? "" : " VERB",
            verb && verb->rest ? " " : "", verb && verb->rest ? verb->rest : "");
    if (verb && verb->text)
        markdown_paragraphs (verb->text);
    for (const wm_option_t *o = verb ? verb->options : NULL; o && o->name; o++)
        markdown_option (o);
    if (verb && takes_time (verb))
        printf ("\n%s\n", times);
    for (const wm_verb_t *const *v = program->verbs; !verb && *v; v++) {
        if (begins_group (program, v))
            printf ("\n## %c%s\n", toupper ((unsigned char) *(*v)->task), (*v)->task + 1);
        printf ("\n[`%s`](%s-%s.md)\n: ", (*v)->name, program->name, (*v)->name);
        markdown ((*v)->summary);
        putchar ('\n');
    }
}

/* ---- bash completion ------------------------------------------------------------------------- */

static void print_function_name (const char *program)
{
    putchar ('_');
    for (; *program; program++)
        putchar (*program == '-' ? '_' : *program);
}

/* "run:--engine | run:-e": the verb and the word before the one that is completed.  */
static void print_case (const wm_verb_t *verb, const wm_option_t *option)
{
    printf ("    %s:--%s", verb->name, option->name);
    if (option->letter)
        printf (" | %s:-%c", verb->name, option->letter);
    fputs (") ", stdout);
}

static void print_values (const wm_verb_t *verb, const wm_option_t *option)
{
    print_case (verb, option);
    if (option->one_of) {
        fputs ("mapfile -t COMPREPLY < <(compgen -W '", stdout);
        for (const char *at = option->value; *at; at++)
            putchar (*at == '|' ? ' ' : *at);
        fputs ("' -- \"$cur\"); ", stdout);
    } else if (strstr (option->value, "DIR"))
        fputs ("mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); ", stdout);
    else if (strstr (option->value, "FILE") || strstr (option->value, "GLOB"))
        fputs ("mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); ", stdout);
    puts ("return ;;");
}

static void print_options (const wm_verb_t *verb)
{
    printf ("    %s:-*) mapfile -t COMPREPLY < <(compgen -W '", verb->name);
    for (const wm_option_t *o = verb->options; o->name; o++)
        printf ("--%s ", o->name);
    puts ("--help' -- \"$cur\") ;;");
}

static void print_verbs (const wm_program_t *program)
{
    puts ("    if [ \"$COMP_CWORD\" = 1 ]; then");
    fputs ("        mapfile -t COMPREPLY < <(compgen -W '", stdout);
    for (const wm_verb_t *const *v = program->verbs; *v; v++)
        printf ("%s ", (*v)->name);
    puts ("--help --version' -- \"$cur\")\n        return\n    fi");
    for (const wm_verb_t *const *v = program->verbs; *v; v++)
        if ((*v)->pass_to) {
            printf ("    [ \"$verb\" != %s ] || { ", (*v)->name);
            print_function_name ((*v)->pass_to);
            puts ("; return; }");
        }
}

void wm_option_print_completion (const wm_program_t *program)
{
    print_function_name (program->name);
    printf (" ()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}"
            " verb=%s\n    COMPREPLY=()\n",
            wm_program_has_verbs (program) ? "${COMP_WORDS[1]}" : "");
    if (wm_program_has_verbs (program))
        print_verbs (program);
    puts ("    case $verb:$prev in");
    for (const wm_verb_t *const *v = program->verbs; *v; v++)
        for (const wm_option_t *o = (*v)->pass ? NULL : (*v)->options; o && o->name; o++)
            if (o->value)
                print_values (*v, o);
    puts ("    esac\n    case $verb:$cur in");
    for (const wm_verb_t *const *v = program->verbs; *v; v++)
        if (!(*v)->pass)
            print_options (*v);
    puts ("    *) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n    esac\n}");
    fputs ("complete -o filenames -F ", stdout);
    print_function_name (program->name);
    printf (" %s\n", program->name);
}
