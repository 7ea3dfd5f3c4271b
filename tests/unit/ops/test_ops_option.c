/* test_ops_option.c - the command line table: values, defaults, ranges, the nearest name. */

#include "schema/base/wm_fault.h"
#include "schema/option/wm_option.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const wm_option_t options[] = {
    { .name = "model",
      .letter = 'm',
      .value = "FILE",
      .path = WM_PATH_READ,
      .may_lack = true,
      .help = "a file" },
    { .name = "planes", .value = "FILE", .path = WM_PATH_READ, .help = "a file" },
    { .name = "serve", .value = "NAME=FILE", .path = WM_PATH_READ, .help = "a file" },
    { .name = "list", .value = "FILE", .path = WM_PATH_LIST, .help = "names of files" },
    { .name = "scratch", .value = "DIR", .path = WM_PATH_FOLDER, .help = "a folder" },
    { .name = "copies", .value = "DIR", .path = WM_PATH_PRESENT, .help = "a folder" },
    { .name = "program", .value = "FILE", .path = WM_PATH_ELSEWHERE, .help = "of a node" },
    { .name = "broker", .value = "NAME=ENDPOINT", .help = "where" },
    { .name = "workers",
      .letter = 'w',
      .value = "N",
      .least = 1,
      .most = 8,
      .fallback = "2",
      .help = "so many" },
    { .name = "input", .value = "GLOB", .help = "files" },
    { .name = "seconds", .value = "S", .real_most = 10, .fallback = "1.5", .help = "so long" },
    { .name = "above", .value = "X", .real_most = INFINITY, .is_above = true, .help = "so much" },
    { .name = "wait", .was = "delay|d", .value = "TIME", .real_least = 1, .help = "so long" },
    { .name = "grace", .value = "TIME", .is_above = true, .fallback = "2m", .help = "so long" },
    { .name = "kind", .value = "fp32|fast", .one_of = true, .help = "which" },
    { .name = "room",
      .value = "BYTES",
      .least = 1,
      .most = 1L << 40,
      .fallback = "64K",
      .help = "so much" },
    { .name = "quiet", .letter = 'q', .help = "no messages" },
    { .name = NULL },
};
static const wm_option_t needs[] = {
    { .name = "to", .value = "FILE", .is_needed = true, .help = "a file" },
    { .name = NULL },
};

static int run (const wm_args_t *args)
{
    return wm_args_given (args, "quiet") ? wm_args_refuse (args, "not that") : 40;
}
static int pass (int argc, char **argv)
{
    return argc + (strcmp (argv[0], "pass") == 0);
}

static const wm_verb_t verb = {
    .name = "run", .summary = "s", .rest = "[FILES]", .options = options, .run = run
};
static const wm_verb_t narrow = { .name = "narrow", .summary = "s", .options = options };
static const wm_verb_t needy = { .name = "needy", .summary = "s", .options = needs };
static const wm_verb_t passed = { .name = "pass", .summary = "s", .pass = pass };
static const wm_verb_t alone = { .program = "p", .name = "", .options = options, .run = run };
static const wm_verb_t *const verbs[] = { &verb, &passed, NULL };
static const wm_verb_t *const only[] = { &alone, NULL };
static const wm_program_t program = {
    .name = "wiremill", .version = "1", .summary = "s", .verbs = verbs
};
static const wm_program_t single = { .name = "p", .version = "1", .summary = "s", .verbs = only };

static wm_args_t *parse (const wm_verb_t *of, const char *const *words, int *code)
{
    int n = 0;
    while (words[n])
        n++;
    return wm_args_new (of, n, (char **) (uintptr_t) words, code);
}
#define PARSE(...) parse (&verb, (const char *const[]){ "run", __VA_ARGS__, NULL }, &code)

static void test_values (void **state)
{
    int code;
    wm_args_t *args =
        PARSE ("-m", "a.onnx", "--input=x", "one", "--input", "y", "-q", "--", "--two");
    assert_non_null (args);
    assert_string_equal (wm_args_text (args, "model"), "a.onnx");
    assert_int_equal (wm_args_number (args, "workers"), 2);
    assert_false (wm_args_given (args, "workers"));
    assert_true (wm_args_given (args, "input"));
    assert_string_equal (wm_args_each (args, "input", 0), "x");
    assert_string_equal (wm_args_text (args, "input"), "y");
    assert_null (wm_args_each (args, "input", 2));
    assert_true (wm_args_given (args, "quiet"));
    assert_string_equal (wm_args_rest (args, 0), "one");
    assert_string_equal (wm_args_rest (args, 1), "--two");
    assert_null (wm_args_rest (args, 2));
    assert_string_equal (wm_args_word (args, 1), "-m");
    wm_args_destroy (&args);
    assert_null (args);
    wm_args_destroy (&args);
}

static void test_refusals (void **state)
{
    int code = 0;
    assert_null (PARSE ("--modle", "x"));
    assert_int_equal (code, WM_EXIT_USAGE);
    assert_null (PARSE ("-x"));
    assert_null (PARSE ("--model"));
    assert_null (PARSE ("--quiet=yes"));
    assert_null (PARSE ("--workers", "0"));
    assert_null (PARSE ("--workers", "9"));
    assert_null (PARSE ("--workers", "two"));
    assert_null (PARSE ("--workers", "2x"));
    assert_null (PARSE ("--workers="));
    assert_null (PARSE ("--model", ""));
    assert_null (PARSE ("--model="));
    assert_null (PARSE (""));
    assert_null (PARSE ("-m=x"));
    assert_null (PARSE ("-m", "~/x"));
    assert_null (PARSE ("--model=~"));
    assert_null (PARSE ("--", "~/x"));
    assert_int_equal (code, WM_EXIT_USAGE);
    assert_null (parse (&narrow, (const char *const[]){ "narrow", "word", NULL }, &code));
    assert_int_equal (code, WM_EXIT_USAGE);
    assert_null (PARSE ("--help"));
    assert_int_equal (code, WM_EXIT_OK);
}

static void test_numbers (void **state)
{
    int code;
    wm_args_t *args = PARSE ("--seconds", "0", "--above=0.25");
    assert_non_null (args);
    assert_true (wm_args_real (args, "seconds") == 0 && wm_args_real (args, "above") == 0.25);
    assert_true (wm_args_number (args, "input") == 0 && wm_args_real (args, "input") == 0);
    wm_args_destroy (&args);
    args = PARSE ("--kind", "fast");
    assert_true (wm_args_real (args, "seconds") == 1.5);
    assert_true (wm_args_seconds (args, "wait") == 0 && wm_args_seconds (args, "grace") == 120);
    assert_string_equal (wm_args_text (args, "kind"), "fast");
    wm_args_destroy (&args);
    args = PARSE ("--wait", "1:00:01", "--grace=0.5");
    assert_true (wm_args_seconds (args, "wait") == 3601 && wm_args_seconds (args, "grace") == 0.5);
    wm_args_destroy (&args);
    args = PARSE ("--room", "3G");
    assert_true (wm_args_number (args, "room") == 3L << 30);
    wm_args_destroy (&args);
    args = PARSE ("--room=7");
    assert_true (wm_args_number (args, "room") == 7);
    wm_args_destroy (&args);
    args = PARSE ("--kind", "fast");
    assert_true (wm_args_number (args, "room") == 64L << 10);
    wm_args_destroy (&args);
    static const char *const wrong[][2] = {
        { "--room", "K" },         { "--room", "2T" },
        { "--room", "0K" },        { "--room", "9000000000000000000G" },
        { "--workers", "1K" },     { "--wait", "soon" },
        { "--wait", "0.9s" },      { "--grace", "0" },
        { "--delay", "1s" },       { "-d", "1s" },
        { "--seconds", "10.5" },   { "--seconds", "-1" },
        { "--seconds", "nan" },    { "--seconds", "1s" },
        { "--above", "0" },        { "--above", "inf" },
        { "--above", "" },         { "--kind", "slow" },
        { "--kind", "fp32|fast" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null (PARSE (wrong[i][0], wrong[i][1]));
        assert_int_equal (code, WM_EXIT_USAGE);
    }
}

static void test_paths (void **state)
{
    char folder[] = "/tmp/wm-option-XXXXXX", file[64], none[64];
    assert_non_null (mkdtemp (folder));
    snprintf (file, sizeof file, "m=%s/file", folder);
    snprintf (none, sizeof none, "m=%s/none", folder);
    close (creat (file + 2, 0600));
    const struct {
        const char *option, *value;
        int code;
    } row[] = {
        { "--planes", file + 2, 0 },     { "--planes", none + 2, 2 },
        { "--planes", folder, 2 },       { "--planes", "{stem}.h5", 0 },
        { "--planes", "root://a/b", 0 }, { "--planes", "file:///a", 2 },
        { "--model", none + 2, 0 },      { "--model", folder, 2 },
        { "--serve", file, 0 },          { "--serve", none, 2 },
        { "--serve", "m", 0 },           { "--list", "-", 0 },
        { "--list", none + 2, 2 },       { "--list", folder, 2 },
        { "--scratch", none + 2, 0 },    { "--scratch", folder, 0 },
        { "--scratch", file + 2, 2 },    { "--copies", folder, 0 },
        { "--copies", none + 2, 2 },     { "--copies", file + 2, 2 },
        { "--program", folder, 0 },      { "--broker", "m=tcp://a:99999", 2 },
        { "--broker", "m", 0 },          { "--broker", "m=tcp://127.0.0.1:99", 0 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int code;
        wm_args_t *args = PARSE (row[i].option, row[i].value);
        wm_args_destroy (&args);
        if (code != row[i].code)
            fail_msg ("%s %s: %d", row[i].option, row[i].value, code);
    }
    unlink (file + 2);
    rmdir (folder);
}

static int run_program (const wm_program_t *of, const char *const *words)
{
    int n = 0;
    while (words[n])
        n++;
    return wm_program_run (of, n, (char **) (uintptr_t) words);
}
#define PROGRAM(...) run_program (&program, (const char *const[]){ "wiremill", __VA_ARGS__, NULL })
#define SINGLE(...) run_program (&single, (const char *const[]){ "p", __VA_ARGS__, NULL })

static void test_programs (void **state)
{
    int code;
    assert_null (parse (&needy, (const char *const[]){ "needy", NULL }, &code));
    assert_int_equal (code, WM_EXIT_USAGE);
    assert_int_equal (PROGRAM ("run"), 40);
    assert_int_equal (PROGRAM ("run", "-q"), WM_EXIT_USAGE);
    assert_int_equal (PROGRAM ("pass", "--anything"), 3);
    assert_int_equal (PROGRAM ("rnu"), WM_EXIT_USAGE);
    assert_int_equal (PROGRAM (NULL), WM_EXIT_USAGE);
    assert_int_equal (PROGRAM ("--help"), WM_EXIT_OK);
    assert_int_equal (PROGRAM ("run", "--help"), WM_EXIT_OK);
    assert_int_equal (PROGRAM ("--version"), WM_EXIT_OK);
    assert_int_equal (PROGRAM ("-V"), WM_EXIT_OK);
    assert_int_equal (PROGRAM ("run", "-V"), WM_EXIT_OK);
    assert_int_equal (PROGRAM ("run", "--version"), WM_EXIT_OK);
    assert_int_equal (PROGRAM ("help"), WM_EXIT_OK);
    assert_int_equal (PROGRAM ("help", "run"), WM_EXIT_OK);
    assert_int_equal (PROGRAM ("help", "pass"), 3); /* "pass --help", counted by it */
    assert_int_equal (PROGRAM ("help", "rnu"), WM_EXIT_USAGE);
    assert_int_equal (PROGRAM ("run", "--help-all"), WM_EXIT_OK);
    assert_int_equal (SINGLE ("-V"), WM_EXIT_OK);
    assert_int_equal (PROGRAM ("--print-man", "rnu"), WM_EXIT_USAGE);
    assert_int_equal (SINGLE (NULL), 40);
    assert_int_equal (SINGLE ("--quiet"), WM_EXIT_USAGE);
    assert_int_equal (SINGLE ("run"), WM_EXIT_USAGE);
    assert_int_equal (SINGLE ("--help"), WM_EXIT_OK);
}

static void test_nearest (void **state)
{
    assert_string_equal (wm_option_nearest (options, "modle"), "model");
    assert_string_equal (wm_option_nearest (options, "wokers"), "workers");
    assert_string_equal (wm_option_nearest (options, "in"), "input");
    assert_null (wm_option_nearest (options, "zzzzzz"));
    assert_null (wm_option_nearest (options, ""));
    assert_null (wm_option_nearest (
        options, "a-name-that-is-much-longer-than-any-name-of-an-option-could-ever-be"));
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_values),  cmocka_unit_test (test_refusals),
        cmocka_unit_test (test_numbers), cmocka_unit_test (test_programs),
        cmocka_unit_test (test_nearest), cmocka_unit_test (test_paths),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
