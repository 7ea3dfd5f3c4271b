/* test_ops_option.c - the command line table: values, defaults, ranges, the nearest name. */

#include "schema/base/wm_option.h"
#include "schema/base/wm_fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const wm_option_t options[] = {
    { .name = "model", .letter = 'm', .value = "FILE" },
    { .name = "workers", .letter = 'w', .value = "N", .least = 1, .most = 8, .fallback = "2" },
    { .name = "input", .value = "GLOB" },
    { .name = "quiet", .letter = 'q' },
    { .name = NULL },
};
static const wm_verb_t verb = { .name = "run", .rest = "[FILES]", .options = options };
static const wm_verb_t narrow = { .name = "narrow", .options = options };

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
    (void) state;
    int code;
    wm_args_t *args =
        PARSE ("-m", "a.onnx", "--input=x", "one", "--input", "y", "-q", "--", "--two");
    assert_non_null (args);
    assert_string_equal (wm_args_text (args, "model"), "a.onnx");
    assert_int_equal (wm_args_number (args, "workers"), 2);
    assert_int_equal (wm_args_given (args, "workers"), 0);
    assert_int_equal (wm_args_given (args, "input"), 2);
    assert_string_equal (wm_args_each (args, "input", 0), "x");
    assert_string_equal (wm_args_text (args, "input"), "y");
    assert_null (wm_args_each (args, "input", 2));
    assert_int_equal (wm_args_given (args, "quiet"), 1);
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
    (void) state;
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
    assert_null (parse (&narrow, (const char *const[]){ "narrow", "word", NULL }, &code));
    assert_int_equal (code, WM_EXIT_USAGE);
    assert_null (PARSE ("--help"));
    assert_int_equal (code, WM_EXIT_OK);
}

static void test_nearest (void **state)
{
    (void) state;
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
        cmocka_unit_test (test_values),
        cmocka_unit_test (test_refusals),
        cmocka_unit_test (test_nearest),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
