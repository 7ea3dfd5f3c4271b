/* test_ops_file_source.c - inputs of a run under a workflow system: by several names, and very
   many.  */
#include "ops/process/wm_memory.h"
#include "ops/workflow/wm_workflow.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MANY 100000u
#define CPU_S_MAX 10 /* it takes 0.2 s, and takes minutes where each input is compared with all */

static const wm_option_t options[] = {
    { .name = "files-from-command", .value = "COMMAND", .help = "h" },
    { .name = "command-timeout", .value = "TIME", .fallback = "1m", .help = "h" },
    { .name = "processed-pfns", .value = "FILE", .help = "h" },
    { .name = "processed-dids", .value = "FILE", .help = "h" },
    { .name = "sidecars", .help = "h" },
    { .name = "sidecar-metadata", .value = "FILE", .help = "h" },
    { .name = NULL },
};
static int run (const wm_args_t *args)
{
    return 0;
}
static const wm_verb_t verb = { .name = "run", .summary = "s", .options = options, .run = run };

static wm_workflow_t of_test[3], *workflow; /* as in `run`, none is freed before the end */
static wm_processes_t crew;
static char list[] = "/tmp/wm-feed-XXXXXX";

static int set_up (void **state)
{
    workflow = workflow ? workflow + 1 : of_test;
    memset (&crew, 0, sizeof crew);
    strcpy (list + sizeof list - 7, "XXXXXX");
    return close (mkstemp (list));
}
static int tear_down (void **state)
{
    return unlink (list);
}

/* Opens a workflow of these inputs, and one list of processed files.  */
static void begin (const char *names)
{
    wm_error_t error;
    wm_inputs_t inputs = { .n_file = 0 };
    int code;
    char *argv[] = { "run", "--processed-pfns", list };
    const wm_args_t *args = wm_args_new (&verb, 3, argv, &code);
    assert_non_null (args);
    assert_int_equal (
        wm_memory_file ("inputs", names, strlen (names), &inputs.fd, inputs.path, &error), WM_OK);
    assert_int_equal (wm_workflow_open (workflow, args, "run", "", &inputs, &error), WM_OK);
    close (inputs.fd);
    wm_workflow_join (workflow, &crew);
}

static void written (uint32_t input)
{
    crew.told (crew.told_argument, input, WM_FILE_SOURCE_WRITTEN, "output");
}

static void write_list (const char *text)
{
    FILE *out = fopen (list, "w");
    assert_non_null (out);
    fputs (text, out);
    assert_int_equal (fclose (out), 0);
}

static void assert_list (const char *want)
{
    char text[400] = "";
    FILE *in = fopen (list, "r");
    assert_non_null (in);
    text[fread (text, 1, sizeof text - 1, in)] = 0;
    fclose (in);
    assert_string_equal (text, want);
}

/* The feed reports a file that a list has several times once, by the number of the first.  */
static void test_names (void **state)
{
    begin ("/no/x\n/no/y\n/no/x\n/no/z\n/no/../no/y\n/no/x\n");
    written (0);
    assert_int_equal (wm_file_source_count (&workflow->feed, WM_FILE_SOURCE_WRITTEN), 3);
    assert_int_equal (workflow->feed.file[5].is, WM_FILE_SOURCE_WRITTEN);
    assert_int_equal (workflow->feed.file[2].is, WM_FILE_SOURCE_WRITTEN);
    assert_list ("/no/x\n");
    crew.told (crew.told_argument, 3, WM_FILE_SOURCE_HELD, NULL);
    assert_int_equal (workflow->feed.file[3].is, WM_FILE_SOURCE_HELD);
    written (1);
    assert_int_equal (wm_file_source_count (&workflow->feed, WM_FILE_SOURCE_WRITTEN), 4);
    assert_list ("/no/x\n/no/y\n");
}

/* What stands in the list stays, and is not added; a part of a line is no line.  */
static void test_lines (void **state)
{
    write_list ("\n\n/no/xx\nmy/no/x\n/no/y\n/no/y\nmine");
    begin ("/no/x\n/no/y\n/no/z\n");
    for (uint32_t i = 0; i < 3; i++) {
        written (i);
        written (i);
    }
    assert_list ("\n\n/no/xx\nmy/no/x\n/no/y\n/no/y\nmine\n/no/x\n/no/z\n");
}

static double cpu_s (void)
{
    struct rusage used;
    getrusage (RUSAGE_SELF, &used);
    return (double) (used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double) (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void test_many (void **state)
{
    const double start = cpu_s ();
    char *names = malloc (MANY * 32), *end = names;
    assert_non_null (names);
    for (uint32_t i = 0; i < MANY; i++)
        end += sprintf (end, "/no/input-%u\n", i);
    write_list (names);
    begin (names);
    assert_true (cpu_s () - start < CPU_S_MAX);
    for (uint32_t i = 0; i < MANY; i++) {
        written (i);
        if (i % 1000 == 0)
            assert_true (cpu_s () - start < CPU_S_MAX);
    }
    assert_int_equal (wm_file_source_count (&workflow->feed, WM_FILE_SOURCE_WRITTEN), MANY);
    FILE *in = fopen (list, "r");
    assert_non_null (in);
    fseek (in, 0, SEEK_END);
    assert_int_equal (ftell (in), end - names);
    fclose (in);
    free (names);
    print_message ("%u inputs: %.2f CPU-seconds\n", MANY, cpu_s () - start);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown (test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown (test_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown (test_many, set_up, tear_down),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
