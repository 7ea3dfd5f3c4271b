/* test_gpuworker_verify.c - what a sample's scores are compared with, and samples that are damaged;
   by an engine made up (made_worker.h).  */
#include "gpuworker/modes/wm_verify.h"
#include "tests/unit/made_worker.h"

#include <sys/wait.h>

enum { OUT_BYTES = 1 << 18 };

static char out[OUT_BYTES], wrong[4096]; /* of stdout and stderr */

double wm_device_limit (const wm_model_t *model, const char *signature)
{
    return !strcmp (signature, "rough/1") ? 0.4 : 0.1;
}

/* ---- a sample -------------------------------------------------------------------------------- */

static void head_put (FILE *to, const char *kind)
{
    static char text[WM_PINS_BYTES_MAX];
    wm_error_t error;
    wm_spec_t spec;
    wm_pins_t pins = { .precision = "fp32",
                       .n_output = N_OUTPUT,
                       .n_value = 9,
                       .batch_hits = 100,
                       .batch_bytes = WM_RAW_BYTES_MAX,
                       .output = "/proc/nowhere" };
    memset (pins.model, 'a', 64);
    memcpy (pins.wmm, model_hash, 64);
    assert_int_equal (wm_spec_preset (&spec, "protodune-2021", &error), WM_OK);
    wm_spec_print (&spec, pins.spec, sizeof pins.spec);
    const size_t bytes = wm_pins_print (&pins, text);
    fprintf (to, "wiremill-%s 1\npins %zu\n", kind, bytes);
    fwrite (text, 1, bytes, to);
    fprintf (to, "total 100 3\n");
}

/* A batch as it was scored, whose header claims `n_hit`; the score `off` of hit 3, output 2 is
   larger, and that of hit 1 is larger by a sixteenth.  */
static void batch_put (FILE *to, uint32_t number, uint32_t n_hit, float off, uint32_t by)
{
    static uint8_t frame[1 << 16];
    wm_error_t error;
    size_t bytes = 0;
    wm_batch_t batch = { 0 };
    wm_coder_t *coder = wm_coder_new ();
    fill_batch (&batch, number);
    CHECK (wm_batch_encode (&batch, coder, frame, sizeof frame, &bytes, &error) == WM_OK);
    wm_batch_clear (&batch);
    wm_coder_destroy (&coder);
    fprintf (to, "batch %u %zu 2 1 0 %u\n", n_hit, bytes, number);
    for (uint64_t i = 0; i < n_hit; i++)
        fwrite (&(uint64_t){ 200 + i }, 8, 1, to);
    for (uint32_t i = 0; i < n_hit; i++)
        fwrite (&by, 4, 1, to);
    for (uint32_t i = 0; i < n_hit; i++)
        for (uint32_t j = 0; j < N_OUTPUT; j++) {
            float score = (float) (1000 * (number + 100) + i) + (float) j / 8;
            score += i == 3 && j == 2 ? off : i == 1 ? 0.0625f : 0;
            fwrite (&score, 4, 1, to);
        }
    fwrite (frame, 1, bytes, to);
}

static const char *engine = "made-up"; /* that is asked for */

/* Returns the exit code for what `from` holds up to `bytes`.  */
static int verify (FILE *from, size_t bytes, double tolerance)
{
    FILE *print[2] = { tmpfile (), tmpfile () }, *in = tmpfile ();
    char *text[2] = { out, wrong };
    int status;
    rewind (from);
    for (int c; bytes-- && (c = getc (from)) != EOF;)
        putc (c, in);
    fflush (in);
    rewind (in);
    fflush (NULL);
    const pid_t child = fork ();
    if (!child) {
        static _Atomic uint64_t progress;
        wm_device_count_here (&progress);
        signal (SIGSEGV, SIG_DFL), signal (SIGABRT, SIG_DFL); /* not those of cmocka */
        dup2 (fileno (in), 0);
        dup2 (fileno (print[0]), 1);
        dup2 (fileno (print[1]), 2);
        const int code = wm_verify_run (engine, 1, folder, tolerance);
        fflush (NULL);
        _exit (code);
    }
    assert_int_equal (waitpid (child, &status, 0), child);
    for (int i = 0; i < 2; i++) {
        const size_t most = i ? sizeof wrong : sizeof out;
        const ssize_t n = pread (fileno (print[i]), text[i], most - 1, 0);
        text[i][n < 0 ? 0 : n] = 0;
        fclose (print[i]);
    }
    fclose (in);
    assert_true (WIFEXITED (status));
    return WEXITSTATUS (status);
}

static int setup (void **state)
{
    char path[sizeof folder + 80];
    snprintf (path, sizeof path, "%s/%s.wmm", folder, model_hash);
    FILE *file = fopen (path, "we");
    CHECK (file && fwrite (model_bytes, 1, MODEL_BYTES, file) == MODEL_BYTES);
    fclose (file);
    memset (told, 0, sizeof *told);
    memset (told->identity, 'a', 64);
    return 0;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void what_differs_by_more_than_is_allowed (void **state)
{
    static const struct {
        const char *by; /* engines of the sample, and the bound of its files */
        double tolerance;
        int is_bad;
        const char *end;
    } list[] = {
        { "by made-up/1\n", 0, 1, "scored made-up/1\ntolerance 0.1 engines\nby 1 0\n" },
        { "by made-up/1\nby rough/1\n", 0, 0,
          "scored made-up/1\nscored rough/1\ntolerance 0.4 engines\nby 2 0\n" },
        { "by rough/1\nby cuda\n", 0, 0,
          "scored rough/1\nscored cuda\ntolerance 0.4 engines\nby 1 1\n" },
        { "by made-up/1\nbound 0.3\n", 0, 0, "scored made-up/1\ntolerance 0.3 files\nby 1 0\n" },
        { "by made-up/1\nbound 0.1\n", 0, 1, "scored made-up/1\ntolerance 0.1 files\nby 1 0\n" },
        { "by rough/1\nbound 0.05\n", 0, 1, "scored rough/1\ntolerance 0.1 fp32\nby 1 0\n" },
        { "by rough/1\nbound 0.5\n", 0.2, 1, "scored rough/1\ntolerance 0.2 asked\nby 1 0\n" },
        { "by rough/1\n", 0.25, 0, "scored rough/1\ntolerance 0.25 asked\nby 1 0\n" },
        { "", 0, 1, "tolerance 0.1 engines\nby 0 0\n" },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char want[500], by[20] = "?";
        FILE *sample = tmpfile ();
        head_put (sample, "sample");
        fputs (list[i].by, sample);
        batch_put (sample, 1, N_HIT, 0, 0);
        batch_put (sample, 2, N_HIT, 0.25f, 0);
        fputs ("end\n", sample);
        assert_int_equal (verify (sample, SIZE_MAX, list[i].tolerance), WM_EXIT_OK);
        sscanf (list[i].by, "by %19s", by);
        int n = snprintf (want, sizeof want, "engine made-up/1\n");
        if (list[i].is_bad)
            n += snprintf (want + n, sizeof want - (size_t) n,
                           "bad 2 1 0 2 203 2 102003.5 102003.25 %s\n", by);
        snprintf (want + n, sizeof want - (size_t) n, "%sdone 14 %d 0.25 100 3\n", list[i].end,
                  list[i].is_bad);
        assert_string_equal (out, want);
        assert_string_equal (wrong, "");
        fclose (sample);
    }
}

/* Of many bad ones a thousand are shown, and all are counted.  */
static void many_are_counted (void **state)
{
    enum { MANY = WM_VERIFY_BAD_MAX + 1 };
    unsigned n = 0;
    FILE *sample = tmpfile ();
    head_put (sample, "sample");
    for (uint32_t i = 0; i < MANY; i++)
        batch_put (sample, 1 + i % N_BATCH, N_HIT, 0.5f, 0);
    fputs ("end\n", sample);
    assert_int_equal (verify (sample, SIZE_MAX, 0), WM_EXIT_OK);
    for (const char *at = out; (at = strstr (at, "\nbad ")); at++)
        n++;
    assert_int_equal (n, WM_VERIFY_BAD_MAX);
    assert_non_null (strstr (out, "\ndone 7007 1001 0.5 100 3\n"));
    fclose (sample);
}

static void samples_that_are_damaged (void **state)
{
    FILE *sample = tmpfile ();
    head_put (sample, "sample");
    fputs ("by made-up/1\nbound 0.3\n", sample);
    batch_put (sample, 1, N_HIT, 0, 0);
    fputs ("end\n", sample);
    const size_t bytes = (size_t) ftell (sample);
    assert_int_equal (verify (sample, 0, 0), WM_EXIT_INPUT);
    assert_non_null (strstr (wrong, "nothing came on standard input"));
    for (size_t n = 1; n + 1 < bytes; n += n < 30 || n + 8 > bytes ? 1 : 13) {
        assert_int_equal (verify (sample, n, 0), WM_EXIT_INPUT);
        if (!strstr (wrong, "standard input ends too early"))
            fail_msg ("%zu bytes: %s", n, wrong);
        assert_null (strstr (out, "done"));
    }
    assert_int_equal (verify (sample, bytes - 1, 0), WM_EXIT_OK);
    fclose (sample);
    for (int damage = 0; damage < 4; damage++) {
        sample = tmpfile ();
        head_put (sample, damage == 0 ? "bench" : "sample");
        fputs (damage == 1 ? "buy made-up/1\n" : "by made-up/1\n", sample);
        batch_put (sample, 1, damage == 2 ? N_HIT - 1 : N_HIT, 0, 0);
        fputs (damage == 3 ? "batch 7 99999999 2 1 0 1\n" : "end\n", sample);
        assert_int_equal (verify (sample, SIZE_MAX, 0), WM_EXIT_INPUT);
        assert_non_null (strstr (wrong, "is not from wiremill-producer"));
        fclose (sample);
    }
}

static void engines_that_cannot (void **state)
{
    FILE *sample = tmpfile ();
    head_put (sample, "sample");
    batch_put (sample, 1, N_HIT, 0, 0);
    fputs ("end\n", sample);
    told->refuses = WM_EHOST;
    assert_int_equal (verify (sample, SIZE_MAX, 0), WM_EXIT_ENGINE);
    assert_string_equal (wrong, "wiremill-worker: there is no driver\n");
    told->refuses = 0;
    told->test_failing = 1;
    assert_int_equal (verify (sample, SIZE_MAX, 0), WM_EXIT_ENGINE);
    told->failing = 1;
    assert_int_equal (verify (sample, SIZE_MAX, 0), WM_EXIT_FAILURE);
    assert_string_equal (wrong, "wiremill-worker: the engine says no to batch 1\n");
    fclose (sample);
}

/* auto compares with what shares no code with the engine that mostly scores such a model: of the
   family the reference, and nothing where that cannot; else ONNX Runtime or OpenVINO.  */
static void auto_shares_no_code (void **state)
{
    static const struct {
        const char *asked, *only, *opens;
        wm_model_kind_t kind;
        int code;
    } list[] = {
        { "auto", "", "reference ", WM_MODEL_FAMILY, WM_EXIT_OK },
        { "cpu", "", "reference ", WM_MODEL_FAMILY, WM_EXIT_OK },
        { "auto", "onnxruntime", "reference ", WM_MODEL_FAMILY, WM_EXIT_ENGINE },
        { "auto", "", "onnxruntime ", WM_MODEL_GENERAL, WM_EXIT_OK },
        { "auto", "openvino", "onnxruntime openvino ", WM_MODEL_GENERAL, WM_EXIT_OK },
        { "auto", "none", "onnxruntime openvino ", WM_MODEL_GENERAL, WM_EXIT_ENGINE },
        { "openvino", "onnxruntime", "openvino ", WM_MODEL_GENERAL, WM_EXIT_ENGINE },
        { "sparse", "", "sparse ", WM_MODEL_FAMILY, WM_EXIT_OK },
    };
    FILE *sample = tmpfile ();
    head_put (sample, "sample");
    batch_put (sample, 1, N_HIT, 0, 0);
    fputs ("end\n", sample);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        setup (state);
        engine = list[i].asked;
        strcpy (told->only, list[i].only);
        told->kind = (int) list[i].kind;
        assert_int_equal (verify (sample, SIZE_MAX, 0), list[i].code);
        assert_string_equal (told->asked, list[i].opens);
        assert_int_equal (*wrong == '\0', list[i].code == WM_EXIT_OK);
    }
    engine = "made-up";
    fclose (sample);
}

int main (int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup (what_differs_by_more_than_is_allowed, setup),
        cmocka_unit_test_setup (many_are_counted, setup),
        cmocka_unit_test_setup (samples_that_are_damaged, setup),
        cmocka_unit_test_setup (engines_that_cannot, setup),
        cmocka_unit_test_setup (auto_shares_no_code, setup),
    };
    return made_worker_main (argc, argv, tests);
}
