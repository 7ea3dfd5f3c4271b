/* test_producer_columns.c - columns of scores keep the model's order wherever outputs are read:
   out_2 stands before out_10, and labels stand as they were given, not as text is sorted.  */
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include "producer/files/wm_h5.h"
#include "producer/files/wm_scores.h"
#include "producer/verbs.h"
#include "producer/writing/wm_writer.h"

#include <math.h>
#include <sys/wait.h>

enum { ROWS = 300, OUTPUTS = 23 };

static wm_spec_t spec;
static wm_pins_t pins;

/* Score k of row i.  */
static float score_of (uint32_t i, uint32_t k)
{
    return (float) i + (float) k / 64;
}

static int setup (void **state)
{
    wm_h5_init ();
    strcpy (pins.model, "0123");
    strcpy (pins.precision, "fp32");
    return 0;
}

static int teardown (void **state)
{
    test_folder_remove ();
    return 0;
}

/* Writes an output of ROWS hits as `layout` has it; labels: "": none.  */
static const char *output_make (const char *labels, const char *layout)
{
    static const uint8_t campaign[16] = { 1 };
    static const char *const engine[] = { "made/1" };
    static float value[ROWS * 2];
    static char path[160];
    wm_error_t error;
    wm_scratch_t scratch;
    char in[160];
    snprintf (pins.spec, sizeof pins.spec, "table: scores\nlabels: [%s]\n", labels);
    snprintf (pins.layout, sizeof pins.layout, "%s", layout);
    assert_int_equal (wm_spec_parse (&spec, pins.spec, strlen (pins.spec), "test", &error), WM_OK);
    snprintf (in, sizeof in, "%s", test_path ("in.h5"));
    snprintf (path, sizeof path, "%s", test_path ("in.scores.h5"));
    hid_t file = H5Fcreate (in, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_f32 (file, "patches", ROWS, 2, value);
    H5Fclose (file);
    wm_reader_t *reader = wm_reader_open (in, &spec, &error);
    if (!reader || wm_scratch_open (&scratch, test_folder, ROWS, OUTPUTS, &error))
        fail_msg ("%s", error.text);
    for (uint32_t i = 0; i < ROWS; i++) {
        scratch.state[i] = 1;
        scratch.engine[i] = 1;
        for (uint32_t k = 0; k < OUTPUTS; k++)
            scratch.score[OUTPUTS * i + k] = score_of (i, k);
    }
    const wm_writer_job_t job = { .path = path,
                                  .spec = &spec,
                                  .pins = &pins,
                                  .campaign = campaign,
                                  .scratch = &scratch,
                                  .reader = reader,
                                  .engine = engine,
                                  .n_engine = 1 };
    wm_writer_t *writer = wm_writer_new (&job);
    wm_writer_result_t result;
    for (bool done = false; !done;)
        if (wm_writer_step (writer, &done, &result, &error))
            fail_msg ("%s", error.text);
    wm_writer_destroy (&writer);
    wm_reader_destroy (&reader);
    wm_scratch_close (&scratch);
    return path;
}

/* Runs a verb in a process of its own, its standard output in the file `to`.  */
static void run (const wm_verb_t *verb, const char *to, int argc, char **argv)
{
    int status;
    fflush (NULL);
    const pid_t pid = fork ();
    if (pid == 0) {
        const bool is_open = freopen (test_path (to), "w", stdout) != NULL;
        const int code = is_open ? wm_verb_main (verb, argc, argv) : 1;
        fflush (NULL);
        _exit (code);
    }
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (status, 0);
}

static char *text_of (const char *name)
{
    static char text[1 << 20];
    FILE *file = fopen (test_path (name), "r");
    assert_non_null (file);
    text[fread (text, 1, sizeof text - 1, file)] = 0;
    fclose (file);
    return text;
}

/* The columns of a table in HDF5: each has the scores of its name.  */
static void check_columns (const char *path, char (*name)[48])
{
    float score[ROWS];
    wm_error_t error;
    wm_h5_t *file = wm_h5_open (path, &error);
    assert_non_null (file);
    for (uint32_t k = 0; k < OUTPUTS; k++) {
        char column[80];
        wm_column_t of;
        snprintf (column, sizeof column, "scores/%s", name[k]);
        if (wm_h5_column (file, column, WM_H5_FLOAT, 1, &of, &error) ||
            wm_h5_read (&of, 0, ROWS, WM_H5_F32, score, &error))
            fail_msg ("%s", error.text);
        wm_h5_column_close (&of);
        for (uint32_t i = 0; i < ROWS; i++)
            assert_float_equal (score[i], score_of (i, k), 0);
    }
    wm_h5_close (&file);
}

/* Names in a line, in their order, with nothing else between them but `gap`.  */
static void check_names (const char *text, char (*name)[48], const char *gap)
{
    char list[2000] = "";
    for (uint32_t k = 0; k < OUTPUTS; k++)
        snprintf (list + strlen (list), sizeof list - strlen (list), "%s%s", k ? gap : "", name[k]);
    if (!strstr (text, list))
        fail_msg ("no '%s' in: %.1500s", list, text);
}

/* Scores of a row of CSV, by the place of the first label in the first line.  */
static void check_csv (char *text, char (*name)[48])
{
    char *line, *rest, head[2000];
    uint32_t first = 0, n = 0;
    line = strtok_r (text, "\n", &rest);
    snprintf (head, sizeof head, ",%s,", line);
    check_names (line, name, ",");
    char begin[60];
    snprintf (begin, sizeof begin, ",%s,", name[0]);
    for (const char *at = head; at < strstr (head, begin); at++)
        first += *at == ',';
    for (; (line = strtok_r (NULL, "\n", &rest)); n++) {
        char *at = line;
        for (uint32_t c = 0; c < first; c++)
            at = strchr (at, ',') + 1;
        for (uint32_t k = 0; k < OUTPUTS; k++, at++)
            assert_float_equal (strtof (at, &at), score_of (n, k), 0);
    }
    assert_int_equal (n, ROWS);
}

/* Scores of the array of `export --to npy --scores`.  */
static void check_npy (void)
{
    static char bytes[ROWS * OUTPUTS * 4 + 4096];
    FILE *file = fopen (test_path ("in.scores.npy"), "r");
    const size_t n = fread (bytes, 1, sizeof bytes, file);
    fclose (file);
    assert_true (n > ROWS * OUTPUTS * 4);
    for (uint32_t i = 0; i < ROWS; i++)
        for (uint32_t k = 0; k < OUTPUTS; k++) {
            float score;
            memcpy (&score, bytes + n - 4 * (size_t) (ROWS * OUTPUTS - i * OUTPUTS - k), 4);
            assert_float_equal (score, score_of (i, k), 0);
        }
}

static void columns_keep_the_models_order (void **state)
{
    char labels[400] = "", name[2][OUTPUTS][48];
    for (uint32_t k = 0; k < OUTPUTS; k++) {
        snprintf (name[0][k], 48, "out_%u", k);
        snprintf (name[1][k], 48, "%c%u", 'z' - (int) k % 3, OUTPUTS - k);
        snprintf (labels + strlen (labels), sizeof labels - strlen (labels), "%s%s", k ? ", " : "",
                  name[1][k]);
    }
    for (int i = 0; i < 4; i++) { /* numbers, labels; both layouts */
        char (*is)[48] = name[i % 2];
        char path[160];
        wm_error_t error;
        wm_scores_t scores = { 0 };
        snprintf (path, sizeof path, "%s",
                  output_make (i % 2 ? labels : "", i < 2 ? "wiremill" : "both"));
        check_columns (path, is);
        assert_int_equal (wm_scores_labels (&scores, path, &error), WM_OK);
        assert_int_equal (scores.n_label, OUTPUTS);
        for (uint32_t k = 0; k < OUTPUTS; k++)
            assert_string_equal (scores.label[k], is[k]);
        wm_scores_clear (&scores);
        char *csv[] = { "export", "--force", "--to", "csv", path },
             *npy[] = { "export", "--force", "--to", "npy", path },
             *array[] = { "export", "--force", "--to", "npy", "--scores", path };
        run (&wm_verb_export, "said", 5, csv);
        check_csv (text_of ("in.scores.csv"), is);
        run (&wm_verb_export, "said", 5, npy);
        char *head = text_of ("in.scores.npy") + 10;
        check_names (head, is, "', '<f4'), ('");
        run (&wm_verb_export, "said", 6, array);
        check_npy ();
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (columns_keep_the_models_order) };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, setup, teardown);
}
