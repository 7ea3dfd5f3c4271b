/* test_producer_output.c - an output as a whole: its groups, columns, types and attributes, of
   every size, and what is refused of names. The library alone reads it here.  */
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include "producer/files/wm_h5.h"
#include "producer/writing/wm_writer.h"

#include <math.h>
#include <sys/stat.h>

#include "tests/unit/h5_fails.h"

static wm_spec_t spec;
static wm_pins_t pins;
static const uint8_t campaign[16] = { 0xab, 1, 0xff, [15] = 0x10 };
static const char *const engines[] = { "zeta", "an engine", "never used" };
static const double errors[] = { 0.25, 0.125, 9 };

static int setup (void **state)
{
    wm_h5_init ();
    strcpy (pins.model, "0123"), strcpy (pins.precision, "fp16");
    strcpy (pins.spec, "table: emtrkmichel\n");
    return wm_spec_preset (&spec, "protodune-2021", NULL) != WM_OK;
}

static int teardown (void **state)
{
    test_folder_remove ();
    return 0;
}

/* Every fifth row is held, every seventh has no event; engines take turns.  */
static uint8_t status_of (uint32_t i)
{
    return i % 7 == 6 ? WM_HIT_NO_EVENT : i % 5 == 4 ? WM_HIT_BAD_TIME : WM_HIT_SCORED;
}

static float score_of (uint32_t i, uint32_t k)
{
    return (float) i + (float) k / 8;
}

static void write_all (const wm_writer_job_t *job, wm_writer_result_t *result)
{
    wm_error_t error;
    wm_writer_t *writer = wm_writer_new (job);
    for (bool done = false; !done;)
        if (wm_writer_step (writer, &done, result, &error))
            fail_msg ("%s: %s", job->path, error.text);
    wm_writer_destroy (&writer);
}

/* Writes n rows of two values a patch; scores of 4 labels.  */
static void write_output (const char *path, uint32_t n, wm_writer_result_t *result)
{
    wm_error_t error;
    wm_scratch_t scratch;
    char input[160];
    snprintf (input, sizeof input, "%s", test_path ("patches.h5"));
    float *value = calloc (n + 1ul, 8);
    hid_t file = H5Fcreate (input, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_f32 (file, "patches", n, 2, value);
    H5Fclose (file);
    free (value);
    wm_reader_t *reader = wm_reader_open (input, &spec, &error);
    assert_non_null (reader);
    assert_int_equal (wm_scratch_open (&scratch, test_folder, n, 4, &error), WM_OK);
    for (uint32_t i = 0; i < n; i++) {
        scratch.state[i] = 1;
        scratch.in_fiducial[i] = i % 3 == 0;
        scratch.engine[i] = (uint16_t) (1 + i % 2);
        for (uint32_t k = 0; k < 4; k++)
            scratch.score[4 * i + k] = score_of (i, k);
        if (status_of (i) == WM_HIT_BAD_TIME)
            wm_scratch_hold (&scratch, i, WM_HIT_BAD_TIME);
        else if (status_of (i) == WM_HIT_NO_EVENT)
            scratch.state[i] = 0, scratch.engine[i] = 0;
    }
    const wm_writer_job_t job = { path,
                                  &spec,
                                  &pins,
                                  campaign,
                                  &scratch,
                                  reader,
                                  engines,
                                  errors,
                                  3,
                                  5,
                                  7,
                                  6,
                                  { "typed", "/real/path", 4711, 0, "/folder", "the command" } };
    const test_ids_t ids = test_ids_begin ();
    write_all (&job, result);
    assert_int_equal (test_ids_end (&ids), 0);
    wm_reader_destroy (&reader);
    wm_scratch_close (&scratch);
}

/* ---- what the library finds ------------------------------------------------------------------ */

/* A column of so many rows, stored as this type; read as it is in memory.  */
static void column (hid_t file, const char *name, hid_t stored, uint32_t n, void *to)
{
    hid_t data = H5Dopen2 (file, name, H5P_DEFAULT);
    if (data < 0)
        fail_msg ("there is no %s", name);
    hid_t type = H5Dget_type (data), space = H5Dget_space (data);
    if (H5Tequal (type, stored) <= 0 || H5Sget_simple_extent_npoints (space) != n)
        fail_msg ("%s has another type or length", name);
    assert_true (!n || H5Dread (data, stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, to) >= 0);
    H5Sclose (space), H5Tclose (type), H5Dclose (data);
}

static void texts (hid_t file, const char *name, uint32_t n, size_t bytes, char *to)
{
    hid_t type = H5Tcopy (H5T_C_S1);
    H5Tset_size (type, bytes);
    H5Tset_strpad (type, H5T_STR_NULLPAD);
    column (file, name, type, n, to);
    H5Tclose (type);
}

/* Returns the number of links in a group, or of attributes where `name` is NULL.  */
static hsize_t count (hid_t file, const char *name)
{
    H5G_info_t group;
    H5O_info_t root;
    if (!name)
        return H5Oget_info (file, &root) < 0 ? 0 : root.num_attrs;
    assert_true (H5Gget_info_by_name (file, name, &group, H5P_DEFAULT) >= 0);
    return group.nlinks;
}

static void text_is (hid_t file, const char *name, const char *want, size_t bytes)
{
    char text[40 << 10] = "";
    hid_t attribute = H5Aopen (file, name, H5P_DEFAULT);
    if (attribute < 0)
        fail_msg ("there is no attribute %s", name);
    hid_t type = H5Aget_type (attribute);
    assert_int_equal (H5Tget_size (type), bytes);
    assert_true (H5Aread (attribute, type, text) >= 0);
    assert_string_equal (text, want);
    H5Tclose (type), H5Aclose (attribute);
}

static void number_is (hid_t file, const char *name, uint64_t want)
{
    uint64_t number = ~want;
    hid_t attribute = H5Aopen (file, name, H5P_DEFAULT);
    if (attribute < 0)
        fail_msg ("there is no attribute %s", name);
    assert_true (H5Aread (attribute, H5T_NATIVE_UINT64, &number) >= 0);
    assert_int_equal (number, want);
    H5Aclose (attribute);
}

static void check_rows (hid_t file, uint32_t n)
{
    static const char *const label[] = { "track", "em", "none", "michel" };
    float *score = malloc (4 * n + 1ul);
    int64_t *wide = malloc (8 * n + 1ul);
    int32_t *cell = malloc (4 * n + 1ul);
    uint16_t *engine = malloc (2 * n + 1ul);
    uint8_t *byte = malloc (n + 1ul);
    for (uint32_t k = 0; k < 4; k++) {
        char name[64];
        snprintf (name, sizeof name, "emtrkmichel/%s", label[k]);
        column (file, name, H5T_IEEE_F32LE, n, score);
        for (uint32_t i = 0; i < n; i++)
            assert_true (status_of (i) ? isnan (score[i]) != 0 : score[i] == score_of (i, k));
    }
    column (file, "emtrkmichel/hit_id", H5T_STD_I64LE, n, wide);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal (wide[i], i);
    column (file, "emtrkmichel/run", H5T_STD_I64LE, n, wide);
    column (file, "emtrkmichel/subrun", H5T_STD_I64LE, n, wide);
    column (file, "emtrkmichel/event", H5T_STD_I64LE, n, wide);
    column (file, "emtrkmichel/cryostat", H5T_STD_I32LE, n, cell);
    column (file, "emtrkmichel/tpc", H5T_STD_I32LE, n, cell);
    column (file, "emtrkmichel/plane", H5T_STD_I32LE, n, cell);
    column (file, "emtrkmichel/in_fiducial", H5T_STD_U8LE, n, byte);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal (byte[i], i % 3 == 0);
    column (file, "emtrkmichel/status", H5T_STD_U8LE, n, byte);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal (byte[i], status_of (i));
    column (file, "emtrkmichel/engine", H5T_STD_U16LE, n, engine);
    for (uint32_t i = 0; i < n; i++) /* in alphabetical order, of those that were used */
        assert_int_equal (engine[i], status_of (i) ? 65535 : n == 1 ? 0 : i % 2 ? 0 : 1);
    free (score), free (wide), free (cell), free (engine), free (byte);
}

/* Returns how many are held.  */
static uint32_t check_held (hid_t file, uint32_t n)
{
    uint32_t n_held = 0, k = 0;
    for (uint32_t i = 0; i < n; i++)
        n_held += status_of (i) != WM_HIT_SCORED;
    uint64_t *row = malloc (8 * n_held + 1ul);
    int64_t *id = malloc (8 * n_held + 1ul);
    uint8_t *status = malloc (n_held + 1ul);
    char *reason = malloc (24 * n_held + 1ul), want[24];
    column (file, "held/row", H5T_STD_U64LE, n_held, row);
    column (file, "held/hit_id", H5T_STD_I64LE, n_held, id);
    column (file, "held/status", H5T_STD_U8LE, n_held, status);
    texts (file, "held/reason", n_held, 24, reason);
    for (uint32_t i = 0; i < n; i++) {
        if (status_of (i) == WM_HIT_SCORED)
            continue;
        assert_true (row[k] == i && id[k] == i && status[k] == status_of (i));
        memset (want, 0, sizeof want);
        memcpy (want, wm_hit_status_text (status[k]), strlen (wm_hit_status_text (status[k])));
        assert_memory_equal (reason + 24 * k, want, 24);
        k++;
    }
    assert_int_equal (count (file, "held"), 4);
    free (row), free (id), free (status), free (reason);
    return n_held;
}

static void check_engines (hid_t file, uint32_t n_engine)
{
    char signature[2][9] = { "" };
    const bool has_error = *pins.max_error;
    texts (file, "engine/signature", n_engine, n_engine == 2 ? 9 : n_engine ? 4 : 1, *signature);
    if (n_engine == 2) {
        assert_memory_equal (signature[0], "an engine", 9);
        assert_memory_equal (signature[1], "zeta\0\0\0\0\0", 9);
    } else if (n_engine)
        assert_memory_equal (signature[0], "zeta", 4);
    assert_int_equal (count (file, "engine"), 1 + has_error);
    if (!has_error)
        return;
    double error[2];
    column (file, "engine/error", H5T_IEEE_F64LE, n_engine, error);
    if (n_engine == 2)
        assert_true (error[0] == 0.125 && error[1] == 0.25);
    else if (n_engine)
        assert_true (error[0] == 0.25);
}

static void check_facts (hid_t file, uint32_t n, uint32_t n_held)
{
    text_is (file, "layout", "wiremill-scores-1", 17);
    text_is (file, "model_sha256", "0123", 4);
    text_is (file, "precision", "fp16", 4);
    text_is (file, "specification", "table: emtrkmichel\n", 19);
    text_is (file, "campaign", "ab01ff00000000000000000000000010", 32);
    number_is (file, "hits", n);
    number_is (file, "hits_held", n_held);
    number_is (file, "hits_same_cell", 5);
    number_is (file, "hits_empty", 7);
    number_is (file, "hits_bad_channel", 6);
    number_is (file, "input_bytes", 4711);
    text_is (file, "input_given", "typed", 1024);
    text_is (file, "input", "/real/path", 1024);
    text_is (file, "input_mtime", "", 1024);
    text_is (file, "campaign_folder", "/folder", 1024);
    text_is (file, "command", "the command", 1024);
    if (*pins.max_error) {
        text_is (file, "max_error", "0.5", 3);
        text_is (file, "judged_by", "onnxruntime", 11);
    }
    /* those, wiremill_version, and no others */
    assert_int_equal (count (file, NULL), 17 + 2 * (*pins.max_error != 0));
}

/* Outputs of sizes that are written in different ways: nothing, in headers, in memory, in several
   pieces. The second of each, over the form of the first, is as the first; one of other attributes
   has the same path as that form.  */
static void outputs_are_complete (void **state)
{
    static const uint32_t sizes[] = { 0, 1, 2, 100, 512, 513, 3000, 3277, 65535, 65536, 65637 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int way = 0; way < 4; way++) {
            char path[160];
            struct stat status;
            wm_writer_result_t result;
            const uint32_t n = sizes[s];
            if (n > 60000 && way % 2)
                continue;
            strcpy (pins.max_error, way / 2 ? "0.5" : "");
            strcpy (pins.judged_by, way / 2 ? "onnxruntime" : "");
            snprintf (path, sizeof path, "%s", test_path ("out.scores.h5"));
            unlink (path);
            write_output (path, n, &result);
            assert_int_equal (stat (path, &status), 0);
            assert_int_equal (status.st_size, result.size);
            assert_int_equal (status.st_mtim.tv_sec * INT64_C (1000000000) + status.st_mtim.tv_nsec,
                              result.mtime_ns);
            hid_t file = H5Fopen (path, H5F_ACC_RDONLY, H5P_DEFAULT);
            assert_true (file >= 0);
            assert_int_equal (count (file, "/"), 3);
            assert_int_equal (count (file, "emtrkmichel"), 10 + 4);
            check_rows (file, n);
            const uint32_t n_held = check_held (file, n);
            assert_int_equal (result.n_held, n_held);
            check_engines (file, n > 1 ? 2 : n);
            check_facts (file, n, n_held);
            assert_int_equal (H5Fclose (file), 0);
            unlink (path);
        }
    *pins.max_error = *pins.judged_by = 0;
}

/* ---- numl's tables --------------------------------------------------------------------------- */

/* A column (n, width) that may grow, of this type; its values as int64.  */
static void numl_column (hid_t file, const char *name, hid_t stored, hsize_t n, hsize_t width,
                         const int64_t *want)
{
    int64_t is[32];
    hsize_t dim[2], most[2], chunk[2];
    hid_t data = H5Dopen2 (file, name, H5P_DEFAULT);
    if (data < 0)
        fail_msg ("there is no %s", name);
    hid_t type = H5Dget_type (data), space = H5Dget_space (data), list = H5Dget_create_plist (data);
    assert_int_equal (H5Sget_simple_extent_dims (space, dim, most), 2);
    if (H5Tequal (type, stored) <= 0 || dim[0] != n || dim[1] != width)
        fail_msg ("%s has another type or shape", name);
    assert_true (most[0] == H5S_UNLIMITED && most[1] == width);
    assert_true (H5Pget_chunk (list, 2, chunk) == 2 && chunk[0] == n && chunk[1] == width);
    assert_int_equal (H5Pget_nfilters (list), 2);
    assert_true (H5Dread (data, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, is) >= 0);
    for (hsize_t i = 0; i < n * width; i++)
        if (is[i] != want[i])
            fail_msg ("%s, value %d: %lld", name, (int) i, (long long) is[i]);
    H5Pclose (list), H5Sclose (space), H5Tclose (type), H5Dclose (data);
}

/* Rows by event, events in the order of their first rows; int64 where a number needs it.  */
static void tables_of_numl (void **state)
{
    enum { N = 6 };
    static const int order[N] = { 0, 2, 1, 3, 5, 4 };
    for (int way = 0; way < 8; way++) {
        const bool is_wide_hit = way & 1, is_wide_event = way & 2, has_own = way & 4;
        const int64_t first = is_wide_hit ? INT64_C (1) << 31 : 100,
                      last = is_wide_event ? INT64_MIN / 2 : 9;
        int64_t event[3 * N] = { 1, 0, 6, 1, 0, 5, 1, 0, 6, 1, 0, 5, last, 9, 9, 1, 0, 5 }, key[N];
        char path[160], out[160];
        wm_error_t error;
        wm_scratch_t scratch;
        wm_writer_result_t result;
        snprintf (path, sizeof path, "%s", test_path ("exchange.h5"));
        snprintf (out, sizeof out, "%s", test_path ("numl.scores.h5"));
        hid_t file = exchange_make (path);
        for (int i = 0; i < N; i++)
            key[i] = first + i;
        replace (file, "hit_table/key", H5T_NATIVE_INT64, N, 0, key);
        replace (file, "hit_table/event_id", H5T_NATIVE_INT64, N, 3, event);
        H5Fclose (file);
        strcpy (pins.layout, has_own ? "both" : "numl");
        wm_reader_t *reader = wm_reader_open (path, &spec, &error);
        if (!reader)
            fail_msg ("%s", error.text);
        assert_int_equal (wm_scratch_open (&scratch, test_folder, N, 4, &error), WM_OK);
        for (uint32_t i = 0; i < N; i++) {
            scratch.state[i] = i != 4;
            scratch.in_fiducial[i] = i % 3 == 0;
            scratch.engine[i] = i != 4;
            for (uint32_t k = 0; k < 4; k++)
                scratch.score[4 * i + k] = score_of (i, k);
        }
        wm_scratch_hold (&scratch, 2, WM_HIT_BAD_PIXEL);
        const wm_writer_job_t job = { .path = out,
                                      .spec = &spec,
                                      .pins = &pins,
                                      .campaign = campaign,
                                      .scratch = &scratch,
                                      .reader = reader,
                                      .engine = engines,
                                      .n_engine = 1 };
        const test_ids_t ids = test_ids_begin ();
        write_all (&job, &result);
        assert_int_equal (test_ids_end (&ids), 0);
        const hid_t hit = is_wide_hit ? H5T_STD_I64LE : H5T_STD_I32LE,
                    id = is_wide_event ? H5T_STD_I64LE : H5T_STD_I32LE;
        const int64_t events[] = { 1, 0, 6, 1, 0, 5, last, 9, 9 }, runs[] = { 0, 2, 1, 3, 2, 1 };
        int64_t event_of[3 * N], hit_of[N], inside[N], status[N];
        for (int i = 0; i < N; i++) {
            memcpy (event_of + 3 * i, event + 3 * order[i], 24);
            hit_of[i] = key[order[i]];
            inside[i] = order[i] % 3 == 0;
            status[i] = order[i] == 2 ? WM_HIT_BAD_PIXEL : order[i] == 4 ? WM_HIT_NO_EVENT : 0;
        }
        file = H5Fopen (out, H5F_ACC_RDONLY, H5P_DEFAULT);
        assert_int_equal (count (file, "/"), 4 + has_own);
        assert_int_equal (count (file, "emtrkmichel_table"), 5 + 4);
        numl_column (file, "event_table/event_id", id, 3, 3, events);
        numl_column (file, "emtrkmichel_table/event_id.seq_cnt", H5T_STD_I64LE, 3, 2, runs);
        numl_column (file, "emtrkmichel_table/event_id", id, N, 3, event_of);
        numl_column (file, "emtrkmichel_table/hit_id", hit, N, 1, hit_of);
        numl_column (file, "emtrkmichel_table/in_fiducial", H5T_STD_I32LE, N, 1, inside);
        numl_column (file, "emtrkmichel_table/status", H5T_STD_I32LE, N, 1, status);
        static const char *const label[] = { "track", "em", "none", "michel" };
        for (uint32_t k = 0; k < 4; k++) {
            char name[64];
            float score[N];
            snprintf (name, sizeof name, "emtrkmichel_table/%s", label[k]);
            column (file, name, H5T_IEEE_F32LE, N, score);
            for (int i = 0; i < N; i++)
                assert_true (status[i] ? isnan (score[i]) != 0
                                       : score[i] == score_of ((uint32_t) order[i], k));
        }
        assert_int_equal (H5Fclose (file), 0);
        wm_reader_destroy (&reader);
        wm_scratch_close (&scratch);
        unlink (out);
    }
    *pins.layout = 0;
}

/* Writes all that a reader has, with scores of score_of; `each_fails`: after each call that the
   writer makes of the library has failed once.  */
static void all_written (wm_reader_t *reader, const wm_spec_t *of, const char *out, bool each_fails)
{
    const uint32_t n = (uint32_t) wm_reader_n_row (reader);
    wm_error_t error;
    wm_scratch_t scratch;
    wm_writer_result_t result;
    assert_int_equal (wm_scratch_open (&scratch, test_folder, n, 4, &error), WM_OK);
    for (uint32_t i = 0; i < n; i++) {
        scratch.state[i] = 1, scratch.engine[i] = 1;
        for (uint32_t k = 0; k < 4; k++)
            scratch.score[4 * i + k] = score_of (i, k);
    }
    const wm_writer_job_t job = { .path = out,
                                  .spec = of,
                                  .pins = &pins,
                                  .campaign = campaign,
                                  .scratch = &scratch,
                                  .reader = reader,
                                  .engine = engines,
                                  .engine_error = errors,
                                  .n_engine = 1 };
    if (each_fails)
        h5_each_call_fails (&job);
    write_all (&job, &result);
    wm_scratch_close (&scratch);
}

/* Where windows are stands in both tables.  */
static void tables_of_windows (void **state)
{
    enum { MOST = 400 };
    static const char *const name[] = { "cryostat", "tpc", "plane", "wire", "time" };
    static int64_t run[MOST], subrun[MOST], event[MOST], hit_id[MOST], time[MOST], own[MOST];
    static int32_t cryostat[MOST], tpc[MOST], plane[MOST], wire[MOST], is[MOST];
    const wm_reader_rows_t rows = { run, subrun, event, hit_id, cryostat, tpc, plane, wire, time };
    wm_spec_t windows = spec;
    wm_error_t error;
    windows.points = WM_POINTS_WINDOWS;
    windows.patch_wire = 4, windows.patch_bin = 8, windows.drift_window = 4;
    H5Fclose (exchange_make (test_path ("windows.h5")));
    strcpy (pins.layout, "both");
    wm_reader_t *reader = wm_reader_open (test_path ("windows.h5"), &windows, &error);
    if (!reader)
        fail_msg ("%s", error.text);
    const uint32_t n = (uint32_t) wm_reader_n_row (reader);
    assert_in_range (n, 20, MOST);
    assert_int_equal (wm_reader_rows (reader, 0, n, &rows, &error), WM_OK);
    assert_true (wire[n - 1] && time[n - 1] && plane[n - 1]); /* else columns could be mixed up */
    all_written (reader, &windows, test_path ("windows.scores.h5"), true);
    hid_t file = H5Fopen (test_path ("windows.scores.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_int_equal (count (file, "emtrkmichel"), 12 + 4);
    assert_int_equal (count (file, "emtrkmichel_table"), 5 + 4 + 5);
    for (int c = 0; c < 5; c++) {
        const int32_t *const narrow[] = { cryostat, tpc, plane, wire };
        char of_numl[64], of_own[64];
        snprintf (of_numl, sizeof of_numl, "emtrkmichel_table/%s", name[c]);
        snprintf (of_own, sizeof of_own, "emtrkmichel/%s", name[c]);
        column (file, of_numl, H5T_STD_I32LE, n, is);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal (is[i], c < 4 ? narrow[c][i] : time[i]);
        if (c < 4)
            column (file, of_own, H5T_STD_I32LE, n, is);
        else
            column (file, of_own, H5T_STD_I64LE, n, own);
        for (uint32_t i = 0; i < n; i++)
            assert_true (c < 4 ? is[i] == narrow[c][i] : own[i] == time[i]);
    }
    column (file, "emtrkmichel/event", H5T_STD_I64LE, n, own);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal (own[i], event[i]);
    column (file, "emtrkmichel/run", H5T_STD_I64LE, n, own);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal (own[i], 1);
    H5Fclose (file);
    wm_reader_destroy (&reader);
    *pins.layout = 0;
}

/* More rows than a piece, of two events in turns of three rows: 5, 5, 5, 6, 6, 6, 5 ...  */
static void tables_of_many_rows (void **state)
{
    enum { N = 65536 + 5003 };
    static int event_of[N][3], plane[N], wire[N], key[N], is[N], was[N], zero[N];
    static float time[N], score[N];
    int64_t runs[4];
    wm_error_t error;
    uint32_t n_five = 0, at[2];
    for (uint32_t i = 0; i < N; i++) {
        event_of[i][0] = 1, event_of[i][2] = i / 3 % 2 ? 6 : 5;
        n_five += event_of[i][2] == 5;
        plane[i] = i % 2 ? 2 : 0, wire[i] = (int) (i % 6), time[i] = (float) (i % 100);
        key[i] = (int) (3 * i);
    }
    hid_t file = exchange_make (test_path ("many.h5"));
    replace (file, "hit_table/event_id", H5T_NATIVE_INT, N, 3, event_of);
    replace (file, "hit_table/cryostat", H5T_NATIVE_INT, N, 0, zero);
    replace (file, "hit_table/tpc", H5T_NATIVE_INT, N, 0, zero);
    replace (file, "hit_table/plane", H5T_NATIVE_INT, N, 0, plane);
    replace (file, "hit_table/wire", H5T_NATIVE_INT, N, 0, wire);
    replace (file, "hit_table/time", H5T_NATIVE_FLOAT, N, 0, time);
    replace (file, "hit_table/key", H5T_NATIVE_INT, N, 0, key);
    H5Fclose (file);
    for (int has_own = 0; has_own < 2; has_own++) {
        strcpy (pins.layout, has_own ? "both" : "numl");
        wm_reader_t *reader = wm_reader_open (test_path ("many.h5"), &spec, &error);
        if (!reader)
            fail_msg ("%s", error.text);
        all_written (reader, &spec, test_path ("many.scores.h5"), false);
        file = H5Fopen (test_path ("many.scores.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
        assert_int_equal (count (file, "/"), 4 + has_own);
        column (file, "emtrkmichel_table/event_id.seq_cnt", H5T_STD_I64LE, 4, runs);
        assert_true (runs[0] == 0 && runs[1] == n_five && runs[2] == 1 && runs[3] == N - n_five);
        column (file, "emtrkmichel_table/hit_id", H5T_STD_I32LE, N, is);
        column (file, "emtrkmichel_table/em", H5T_IEEE_F32LE, N, score);
        at[0] = 0, at[1] = n_five;
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t to = at[event_of[i][2] == 6]++;
            assert_int_equal (is[to], key[i]);
            assert_true (score[to] == score_of (i, 1));
        }
        if (has_own) {
            column (file, "emtrkmichel/plane", H5T_STD_I32LE, N, was);
            for (uint32_t i = 0; i < N; i++)
                assert_int_equal (was[i], plane[i]);
        }
        H5Fclose (file);
        wm_reader_destroy (&reader);
        unlink (test_path ("many.scores.h5"));
    }
    *pins.layout = 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void what_is_refused_of_names (void **state)
{
    static const struct {
        const char *label, *table, *layout;
        uint32_t n_output;
        bool is_windows, is_taken;
    } list[] = {
        { "good", "scores", "", 4, false, true },
        { "good", "held", "", 4, false, false },
        { "good", "engine", "", 4, false, false },
        { "good", "event", "", 4, false, true },
        { "good", "event", "wiremill", 4, false, true },
        { "good", "event", "both", 4, false, false },
        { "good", "event_table", "numl", 4, false, false },
        { "good", "event_table", "", 4, false, true },
        { "run", "scores", "", 4, false, false },
        { "engine", "scores", "", 4, false, false },
        { "status", "scores", "", 4, false, false },
        { "hit_id", "scores", "", 5, false, true }, /* then they are out_0, out_1 ... */
        { "wire", "scores", "", 4, false, true },   /* a column of windows alone */
        { "wire", "scores", "", 4, true, false },
        { "time", "scores", "", 4, true, false },
        { "time", "scores", "", 4, false, true },
        { "event_id", "scores", "wiremill", 4, false, true },
        { "event_id", "scores", "both", 4, false, false },
        { "good", "scores", "", WM_OUTPUTS_MAX, false, true },
        { "good", "scores", "", WM_OUTPUTS_MAX + 1, false, false },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (int place = 0; place < 4; place += 3) { /* the first label, and the last */
            wm_error_t error;
            wm_spec_t other = spec;
            strcpy (other.label[place], list[i].label);
            strcpy (other.table, list[i].table);
            other.points = list[i].is_windows ? WM_POINTS_WINDOWS : spec.points;
            if (wm_writer_check (&other, list[i].n_output, list[i].layout, &error) !=
                (list[i].is_taken ? WM_OK : WM_EBATCH))
                fail_msg ("row %zu", i);
        }
    static const struct {
        const char *table, *layout;
        uint32_t n_output;
        bool is_taken;
    } images[] = { { "frames", "", 12, true },      { "frames", "wiremill", 12, true },
                   { "frames", "numl", 12, false }, { "frames", "", 11, false },
                   { "12_3-4", "", 12, false },     { "12_3x", "", 12, true } };
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        wm_error_t error;
        wm_spec_t other = spec;
        other.result = WM_RESULT_IMAGE;
        other.patch_wire = 3, other.patch_bin = 4;
        strcpy (other.table, images[i].table);
        if (wm_writer_check (&other, images[i].n_output, images[i].layout, &error) !=
            (images[i].is_taken ? WM_OK : WM_EBATCH))
            fail_msg ("image %zu", i);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (outputs_are_complete),
        cmocka_unit_test (tables_of_numl),
        cmocka_unit_test (tables_of_windows),
        cmocka_unit_test (tables_of_many_rows),
        cmocka_unit_test (what_is_refused_of_names),
    };
    return cmocka_run_group_tests (tests, setup, teardown);
}
