/* test_ops_plan_paper.c - the published model of inference as a service: values by hand, rows made
   from it, fits.  */
#include "ops/wm_plan_paper.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const wm_paper_t published = { 330, 0.65, 7, 2.5, 4.65, 4 };

static void within (double value, double want, double most)
{
    if (!(fabs (value - want) <= most))
        fail_msg ("%.12g, wanted %.12g", value, want);
}

static void near (double value, double want)
{
    within (value, want, 1e-9 * want);
}

static void test_model (void **state)
{
    (void) state;
    /* (1 - p) t_cpu = 115.5; t_ideal = 115.5 + 2.5 + 4.65 = 122.65, 49.06 clients a GPU */
    near (wm_paper_ratio (&published), 49.06);
    near (wm_paper_event_s (&published, 1), 129.65);
    near (wm_paper_event_s (&published, 4 * 49.06), 129.65);
    near (wm_paper_module_s (&published, 1), 14.15);
    /* 400 jobs: 100 a GPU, 50.94 beyond those that it serves: 127.35 s of waiting */
    near (wm_paper_event_s (&published, 400), 257);
    near (wm_paper_module_s (&published, 400), 141.5);
    wm_paper_t big = published; /* larger batches: 1.77 s; the published "68 CPU threads a GPU" */
    big.t_gpu = 1.77;
    within (wm_paper_ratio (&big), 68.88, 0.01);
}

/* Reads a text as a file.  */
static wm_paper_row_t *rows (const char *text, size_t *n, wm_error_t *error)
{
    char path[] = "/tmp/wiremill-test-XXXXXX";
    const int fd = mkstemp (path);
    assert_true (fd >= 0 && write (fd, text, strlen (text)) == (ssize_t) strlen (text));
    close (fd);
    wm_paper_row_t *row = wm_paper_read (path, n, error);
    unlink (path);
    return row;
}

static void test_rows (void **state)
{
    (void) state;
    size_t n;
    wm_error_t error;
    wm_paper_row_t *row = rows ("# jobs, event\n\n"
                                "4.0 1.297e+02 3.38 1.38e+01 5.7e-01\n"
                                "  16,134.5,0,15.6\n",
                                &n, &error);
    assert_non_null (row);
    assert_int_equal (n, 2);
    near (row[0].event_s, 129.7);
    near (row[0].module_s, 13.8);
    near (row[1].jobs, 16);
    near (row[1].module_s, 15.6);
    free (row);
}

static void refused (const char *text, const char *why)
{
    size_t n;
    wm_error_t error;
    assert_null (rows (text, &n, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    if (!strstr (error.text, why))
        fail_msg ("%s", error.text);
}

static void test_bad_rows (void **state)
{
    (void) state;
    size_t n;
    wm_error_t error;
    assert_null (wm_paper_read ("/none", &n, &error));
    assert_int_equal (error.fault, WM_EUSAGE);
    refused ("", "no rows");
    refused ("# nothing\n", "no rows");
    refused ("4 130 3 14\n4 130 3\n", ":2: column 4 is no number");
    refused ("4 130 3 fast\n", ":1: column 4 is no number");
    refused ("4 130x 3 14\n", ":1: column 2 is no number");
    refused ("0 130 3 14\n", "column 1: 0 is out of range");
    refused ("4 -130 3 14\n", "column 2: -130 is out of range");
    refused ("4 nan 3 14\n", "column 2: nan is out of range");
    refused ("4 1e12 3 14\n", "out of range");
    char *many = malloc (16 * (WM_PAPER_ROWS_MAX + 1));
    *many = 0;
    for (size_t i = 0, at = 0; i <= WM_PAPER_ROWS_MAX; i++)
        at += (size_t) sprintf (many + at, "1 2 3 4\n");
    refused (many, "more than 10000 rows");
    free (many);
}

/* Rows made from the model give its t_gpu back, and held-out rows are met.  */
static void test_fit (void **state)
{
    (void) state;
    wm_error_t error;
    static const double jobs[] = { 4, 100, 189, 300, 486 };
    for (double t_gpu = 0.5; t_gpu < 8; t_gpu *= 1.7) {
        wm_paper_row_t row[5];
        wm_paper_t truth = published, fitted = published;
        truth.t_gpu = t_gpu;
        for (int i = 0; i < 5; i++)
            row[i] = (wm_paper_row_t){ jobs[i], wm_paper_event_s (&truth, jobs[i]), 1 };
        if (486. / 4 <= wm_paper_ratio (&truth)) { /* so fast that no client waits */
            assert_int_equal (wm_paper_fit (&fitted, row, 5, &error), WM_EBATCH);
            continue;
        }
        assert_int_equal (wm_paper_fit (&fitted, row, 5, &error), WM_OK);
        within (fitted.t_gpu, t_gpu, 2e-3 * t_gpu);
        within (wm_paper_event_s (&fitted, 700), wm_paper_event_s (&truth, 700), 2);
    }
}

static void test_no_fit (void **state)
{
    (void) state;
    wm_error_t error;
    wm_paper_t paper = published;
    const wm_paper_row_t few[] = { { 4, 130, 14 }, { 16, 131, 14 } };
    assert_int_equal (wm_paper_fit (&paper, few, 2, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "16 jobs at most"));
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_model),    cmocka_unit_test (test_rows),
        cmocka_unit_test (test_bad_rows), cmocka_unit_test (test_fit),
        cmocka_unit_test (test_no_fit),
    };
    return cmocka_run_group_tests_name ("ops/plan_paper", tests, NULL, NULL);
}
