/* test_producer_stitch.c - tiles become the plane that their definition says, and frames the form
   that Wire-Cell reads.  */
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include "producer/files/wm_h5.h"
#include "producer/writing/wm_stitch.h"
#include "producer/writing/wm_writer.h"
#include "schema/wm_limits.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/unit/h5_fails.h"

/* ---- stitching ------------------------------------------------------------------------------- */

#define TILES_MAX 64u
#define CELLS_MAX 4096u

/* First cells of tiles, `step` apart; the last is moved back so that it ends with the plane. A
   plane that is smaller has one around it.  */
static uint32_t starts (uint32_t n, uint32_t size, uint32_t step, int64_t *start)
{
    uint32_t count = 0;
    if (n < size) {
        start[0] = -(int64_t) ((size - n) / 2);
        return 1;
    }
    for (int64_t at = 0; at + size < n; at += step)
        start[count++] = at;
    start[count++] = n - size;
    return count;
}

/* The cell by the definition: of the tiles that have it the one whose centre is nearest.  */
static float cell (const wm_stitch_t *s, const wm_tile_t *tile, uint32_t n, uint32_t w, uint32_t b)
{
    const wm_tile_t *best = NULL;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const wm_tile_t *t = &tile[i];
        const int64_t dw = 2 * (w - t->wire) - s->tile_wire + 1,
                      db = 2 * (b - t->bin) - s->tile_bin + 1;
        const int64_t far = dw * dw + db * db;
        if (w < t->wire || w >= t->wire + s->tile_wire || b < t->bin || b >= t->bin + s->tile_bin ||
            far > least)
            continue;
        if (far == least && (best->wire < t->wire || (best->wire == t->wire && best->bin < t->bin)))
            continue; /* the earlier one */
        least = far;
        best = t;
    }
    return best && best->image ? best->image[(w - (uint64_t) best->wire) * s->tile_wire +
                                             (b - (uint64_t) best->bin)]
                               : NAN;
}

static void a_cell_is_that_of_the_nearest_tile (void **state)
{
    static const struct {
        uint32_t tile_wire, tile_bin, step_wire, step_bin, n_wire, n_bin;
    } list[] = { { 8, 8, 8, 8, 16, 24 },  { 8, 8, 8, 8, 19, 27 }, { 8, 8, 5, 3, 19, 27 },
                 { 7, 7, 4, 6, 30, 20 },  { 7, 7, 7, 7, 7, 7 },   { 6, 6, 2, 4, 31, 9 },
                 { 9, 9, 8, 1, 9, 21 },   { 8, 8, 8, 8, 3, 5 },   { 8, 8, 4, 4, 30, 3 },
                 { 8, 8, 10, 11, 28, 40 } };
    static float pixel[TILES_MAX * 81], image[CELLS_MAX];
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        const wm_stitch_t size = { list[k].tile_wire, list[k].tile_bin, list[k].n_wire,
                                   list[k].n_bin };
        int64_t wire[TILES_MAX], bin[TILES_MAX];
        const uint32_t n_w = starts (size.n_wire, size.tile_wire, list[k].step_wire, wire),
                       n_b = starts (size.n_bin, size.tile_bin, list[k].step_bin, bin),
                       n = n_w * n_b;
        wm_tile_t tile[TILES_MAX];
        wm_error_t error;
        assert_true (n <= TILES_MAX);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t cells = size.tile_wire * size.tile_bin, turned = (i * 7) % n;
            for (uint32_t c = 0; c < cells; c++)
                pixel[i * cells + c] = (float) (i * cells + c);
            /* in any order where 7 and n have no common divisor; one tile is held */
            const uint32_t at = n % 7 ? turned : i;
            tile[i] = (wm_tile_t){ wire[at / n_b], bin[at % n_b],
                                   i == 3 ? NULL : pixel + (size_t) i * cells };
        }
        assert_int_equal (wm_stitch (&size, tile, n, image, &error), WM_OK);
        for (uint32_t w = 0; w < size.n_wire; w++)
            for (uint32_t b = 0; b < size.n_bin; b++) {
                const float should = cell (&size, tile, n, w, b), is = image[w * size.n_bin + b];
                if (isnan (should) ? !isnan (is) : is != should)
                    fail_msg ("case %zu, cell %u, %u: %g, not %g", k, w, b, (double) is,
                              (double) should);
            }
    }
}

static void a_plane_without_tiles_has_no_values (void **state)
{
    const wm_stitch_t size = { 4, 4, 3, 5 };
    float image[15] = { 0 };
    assert_int_equal (wm_stitch (&size, NULL, 0, image, NULL), WM_OK);
    for (int i = 0; i < 15; i++)
        assert_true (isnan (image[i]));
}

/* Memory for the axes is refused, for the second or both. (A sanitizer would end the process.)  */
static void a_plane_without_memory_is_refused (void **state)
{
#ifdef __SANITIZE_ADDRESS__
    skip ();
#endif
    const uint32_t n = 1u << 27; /* a GiB for each axis: more than any writer has */
    const wm_stitch_t size = { 4, 4, 3, 5 };
    struct rlimit usual, tight;
    unsigned long pages = 0;
    wm_error_t error;
    float image[15];
    FILE *statm = fopen ("/proc/self/statm", "r");
    assert_int_equal (fscanf (statm, "%lu", &pages), 1);
    fclose (statm);
    getrlimit (RLIMIT_AS, &usual);
    for (int halves = 1; halves <= 3; halves += 2) {
        tight = usual;
        tight.rlim_cur = pages * (rlim_t) sysconf (_SC_PAGESIZE) + (rlim_t) halves * n * 4;
        assert_int_equal (setrlimit (RLIMIT_AS, &tight), 0);
        const wm_fault_t fault = wm_stitch (&size, NULL, n, image, &error);
        setrlimit (RLIMIT_AS, &usual);
        assert_int_equal (fault, WM_EHOST);
        assert_string_equal (error.text, "no memory for a plane of 134217728 tiles");
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

enum { SIDE_WIRE = 4, SIDE_BIN = 8, VALUES = SIDE_WIRE * SIDE_BIN, W = 4, BINS = 25 };

typedef struct {
    wm_spec_t spec;
    wm_pins_t pins;
    wm_reader_t *reader;
    wm_scratch_t scratch;
} source_t;

/* Two events of two planes (exchange_make); a tile's image holds the number of its row.  */
static void source_make (source_t *self, const char *name)
{
    wm_error_t error;
    memset (self, 0, sizeof *self);
    wm_h5_init ();
    H5Fclose (exchange_make (test_path (name)));
    if (wm_spec_preset (&self->spec, "protodune-2021", &error))
        fail_msg ("%s", error.text);
    strcpy (self->spec.table, "dnnroi");
    self->spec.patch_wire = SIDE_WIRE, self->spec.patch_bin = SIDE_BIN;
    self->spec.drift_window = W;
    self->spec.n_label = 0;
    self->spec.result = WM_RESULT_IMAGE;
    self->spec.points = WM_POINTS_WINDOWS;
    self->spec.step_wire = 2, self->spec.step_bin = 5;
    strcpy (self->pins.precision, "fp32");
    self->reader = wm_reader_open (test_path (name), &self->spec, &error);
    const uint32_t n = self->reader ? (uint32_t) wm_reader_n_row (self->reader) : 0;
    if (!self->reader || wm_scratch_open (&self->scratch, test_folder, n, VALUES, &error))
        fail_msg ("%s", error.text);
    for (uint32_t i = 0; i < n; i++) {
        self->scratch.state[i] = 1;
        self->scratch.engine[i] = 1;
        for (uint32_t k = 0; k < VALUES; k++)
            self->scratch.score[i * VALUES + k] = (float) i;
    }
    wm_scratch_hold (&self->scratch, 1, WM_HIT_POISON); /* of event 5: wires 0.., bins 5.. */
}

static void source_clear (source_t *self)
{
    wm_reader_destroy (&self->reader);
    wm_scratch_close (&self->scratch);
}

static wm_writer_job_t job_of (const source_t *self, const char *path)
{
    static const char *const engine[] = { "openvino" };
    static const uint8_t campaign[16] = { 1 };
    return (wm_writer_job_t){ .path = path,
                              .spec = &self->spec,
                              .pins = &self->pins,
                              .campaign = campaign,
                              .scratch = &self->scratch,
                              .reader = self->reader,
                              .engine = engine,
                              .n_engine = 1 };
}

static wm_writer_result_t written (const source_t *source, const char *path)
{
    const wm_writer_job_t job = job_of (source, path);
    const test_ids_t ids = test_ids_begin ();
    wm_writer_t *writer = wm_writer_new (&job);
    wm_writer_result_t result;
    wm_error_t error;
    for (bool done = false; !done;)
        if (wm_writer_step (writer, &done, &result, &error))
            fail_msg ("%s", error.text);
    wm_writer_destroy (&writer);
    assert_int_equal (test_ids_end (&ids), 0);
    return result;
}

/* Reads a dataset of `count` values.  */
static void get (hid_t file, const char *name, hid_t type, hssize_t count, void *to)
{
    hid_t data = H5Dopen2 (file, name, H5P_DEFAULT), space = H5Dget_space (data);
    if (data < 0 || H5Sget_simple_extent_npoints (space) != count ||
        H5Dread (data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, to) < 0)
        fail_msg ("%s: no dataset of %lld values", name, (long long) count);
    H5Sclose (space);
    H5Dclose (data);
}

static void number_is (hid_t file, const char *group, const char *name, int64_t want)
{
    int64_t number = ~want;
    hid_t attribute = H5Aopen_by_name (file, group, name, H5P_DEFAULT, H5P_DEFAULT);
    assert_true (attribute >= 0 && H5Aread (attribute, H5T_NATIVE_INT64, &number) >= 0);
    assert_int_equal (number, want);
    H5Aclose (attribute);
}

/* A frame is packed, in chunks of as many rows at most; what lies beside it is not.  */
static void layout_is (hid_t file, const char *name, H5D_layout_t want, hsize_t rows)
{
    hsize_t chunk[2] = { 0 };
    hid_t data = H5Dopen2 (file, name, H5P_DEFAULT), list = H5Dget_create_plist (data);
    assert_int_equal (H5Pget_layout (list), want);
    assert_int_equal (H5Pget_nfilters (list), want == H5D_CHUNKED ? 2 : 0);
    if (want == H5D_CHUNKED)
        assert_true (H5Pget_chunk (list, 2, chunk) == 2 && chunk[0] == rows && chunk[1] == BINS);
    H5Pclose (list);
    H5Dclose (data);
}

static void frames_have_the_form_of_wire_cell (void **state)
{
    source_t source;
    source_make (&source, "windows.h5");
    const wm_writer_result_t result = written (&source, test_path ("windows.scores.h5"));
    assert_int_equal (result.n_held, 1);
    hid_t file = H5Fopen (test_path ("windows.scores.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    float frame[14 * BINS];
    int channel[14], wire[14][4], n_row;
    uint64_t held[1];
    double tick[3];
    for (int event = 5; event <= 6; event++) {
        const char *group = event == 5 ? "5" : "6";
        number_is (file, group, "run", 1);
        number_is (file, group, "subrun", 0);
        number_is (file, group, "event", event);
    }
    layout_is (file, "5/frame_dnnroi", H5D_CHUNKED, 14);
    layout_is (file, "5/wires_dnnroi", H5D_CONTIGUOUS, 0);
    layout_is (file, "5/channels_dnnroi", H5D_CONTIGUOUS, 0);
    get (file, "5/channels_dnnroi", H5T_NATIVE_INT, 14, channel);
    get (file, "5/wires_dnnroi", H5T_NATIVE_INT, 56, wire);
    get (file, "5/tickinfo_dnnroi", H5T_NATIVE_DOUBLE, 3, tick);
    assert_true (tick[0] == 0 && tick[1] == 2000 && tick[2] == 0); /* four ticks of 500 ns */
    for (n_row = 0; n_row < 14; n_row++) {
        assert_int_equal (channel[n_row], n_row);
        assert_int_equal (wire[n_row][0], 0);
        assert_int_equal (wire[n_row][1], 0);
        assert_int_equal (wire[n_row][2], n_row < 8 ? 0 : 2);
        assert_int_equal (wire[n_row][3], n_row < 8 ? n_row : n_row - 8);
    }
    /* Wires 0-3, 2-5, 4-7: centres 1.5, 3.5, 5.5; bins from 0, 5, 10, 15, 17: rows 0, 1, 2 ...  */
    get (file, "5/frame_dnnroi", H5T_NATIVE_FLOAT, 14 * BINS, frame);
    assert_true (frame[0] == 0 && frame[2 * BINS + 6] == 0 && frame[3 * BINS] == 5);
    assert_true (isnan (frame[7]) && isnan (frame[2 * BINS + 11]) && frame[12] == 2);
    assert_true (frame[7 * BINS + 24] == 14 && frame[8 * BINS] == 15); /* plane 2 begins */
    get (file, "6/frame_dnnroi", H5T_NATIVE_FLOAT, 14 * BINS, frame);
    assert_true (frame[0] == 25 && frame[7] == 26 && frame[14 * BINS - 1] == 49);
    get (file, "held/row", H5T_NATIVE_UINT64, 1, held);
    assert_int_equal (held[0], 1);
    assert_true (H5Lexists (file, "dnnroi/status", H5P_DEFAULT) > 0);
    assert_true (H5Lexists (file, "dnnroi/out_0", H5P_DEFAULT) == 0);
    H5Fclose (file);
    source_clear (&source);
}

static void a_channel_map_names_the_channels (void **state)
{
    source_t source;
    source_make (&source, "mapped.h5");
    FILE *map = fopen (test_path ("map.csv"), "w");
    fprintf (map, "channel,cryostat,tpc,plane,wire\n");
    for (int w = 0; w < 7; w++)
        fprintf (map, "%d,0,0,0,%d\n", 100 + w, w);
    fprintf (map, "103,0,0,2,5\n"); /* wrapped */
    fclose (map);
    snprintf (source.pins.channels, sizeof source.pins.channels, "%s", test_path ("map.csv"));
    written (&source, test_path ("mapped.scores.h5"));
    hid_t file = H5Fopen (test_path ("mapped.scores.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    int channel[14];
    get (file, "6/channels_dnnroi", H5T_NATIVE_INT, 14, channel);
    assert_true (channel[0] == 100 && channel[3] == 103 && channel[7] == -1 && channel[13] == 103);
    H5Fclose (file);
    source_clear (&source);
    source_make (&source, "unmapped.h5");
    strcpy (source.pins.channels, "/proc/no/such/map.csv");
    const wm_writer_job_t job = job_of (&source, test_path ("unmapped.scores.h5"));
    wm_writer_t *writer = wm_writer_new (&job);
    wm_writer_result_t result;
    wm_error_t error;
    wm_fault_t fault = WM_OK;
    for (bool done = false; !done && !fault;)
        fault = wm_writer_step (writer, &done, &result, &error);
    assert_int_equal (fault, WM_EBATCH);
    assert_non_null (strstr (error.text, "/proc/no/such/map.csv"));
    wm_writer_destroy (&writer);
    assert_int_not_equal (access (test_path ("unmapped.scores.h5.part"), F_OK), 0);
    source_clear (&source);
}

static void equal_content_is_equal_bytes (void **state)
{
    source_t source;
    source_make (&source, "once.h5");
    const wm_writer_result_t once = written (&source, test_path ("once.scores.h5"));
    /* another writer that is left in every phase between spoils nothing */
    for (int steps = 0; steps < 12; steps++) {
        const wm_writer_job_t job = job_of (&source, test_path ("left.scores.h5"));
        wm_writer_t *writer = wm_writer_new (&job);
        wm_writer_result_t result;
        bool done = false;
        for (int i = 0; i < steps && !done; i++)
            assert_int_equal (wm_writer_step (writer, &done, &result, NULL), WM_OK);
        wm_writer_destroy (&writer);
        assert_int_not_equal (access (test_path ("left.scores.h5.part"), F_OK), 0);
    }
    const wm_writer_result_t again = written (&source, test_path ("again.scores.h5"));
    assert_memory_equal (once.digest, again.digest, 16);
    source_clear (&source);
}

/* Two events with one number: both have a frame.  */
static void events_of_one_number_have_two_names (void **state)
{
    source_t source;
    source_make (&source, "twice.h5");
    source_clear (&source);
    hid_t file = H5Fopen (test_path ("twice.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    int event[] = { 1, 0, 5, 2, 0, 5 };
    replace (file, "event_table/event_id", H5T_NATIVE_INT, 2, 3, event);
    H5Fclose (file);
    source_t other = source;
    wm_error_t error;
    other.reader = wm_reader_open (test_path ("twice.h5"), &other.spec, &error);
    assert_non_null (other.reader);
    assert_int_equal (wm_scratch_open (&other.scratch, test_folder, wm_reader_n_row (other.reader),
                                       VALUES, &error),
                      WM_OK);
    written (&other, test_path ("twice.scores.h5"));
    file = H5Fopen (test_path ("twice.scores.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true (H5Lexists (file, "5/frame_dnnroi", H5P_DEFAULT) > 0);
    assert_true (H5Lexists (file, "5_1/frame_dnnroi", H5P_DEFAULT) > 0);
    H5Fclose (file);
    source_clear (&other);
}

/* An event that is shorter than one bin has rows, and no column.  */
static void a_short_event_has_an_empty_frame (void **state)
{
    source_t source;
    source_make (&source, "short.h5");
    source_clear (&source);
    hid_t file = H5Fopen (test_path ("short.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    const int n_tick[] = { W - 1, 100 }, roi_n[] = { 2, 3, 1, 2 }, roi_tick[] = { 20, 0, 0, 0 };
    replace (file, "event_table/n_tick", H5T_NATIVE_INT, 2, 0, n_tick);
    replace (file, "roi_table/tick", H5T_NATIVE_INT, 4, 0, roi_tick);
    replace (file, "roi_table/n", H5T_NATIVE_INT, 4, 0, roi_n);
    replace (file, "roi_value/adc", H5T_NATIVE_FLOAT, 8, 0, (float[8]){ 1 });
    H5Fclose (file);
    wm_error_t error;
    source.reader = wm_reader_open (test_path ("short.h5"), &source.spec, &error);
    if (!source.reader)
        fail_msg ("%s", error.text);
    assert_int_equal (wm_scratch_open (&source.scratch, test_folder,
                                       wm_reader_n_row (source.reader), VALUES, &error),
                      WM_OK);
    written (&source, test_path ("short.scores.h5"));
    float frame[14 * BINS];
    int channel[14];
    hsize_t dim[2] = { 0 };
    file = H5Fopen (test_path ("short.scores.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    get (file, "5/channels_dnnroi", H5T_NATIVE_INT, 14, channel);
    hid_t data = H5Dopen2 (file, "5/frame_dnnroi", H5P_DEFAULT), space = H5Dget_space (data);
    assert_int_equal (H5Sget_simple_extent_ndims (space), 2);
    H5Sget_simple_extent_dims (space, dim, NULL);
    assert_true (dim[0] == 14 && dim[1] == 0);
    H5Sclose (space);
    H5Dclose (data);
    get (file, "6/frame_dnnroi", H5T_NATIVE_FLOAT, 14 * BINS, frame);
    H5Fclose (file);
    source_clear (&source);
}

/* The disk fills up while the file is written: the writer returns WM_EAGAIN, removes what it wrote,
   and writes the same file when there is room. A limit on the size of files replaces the disk.  */
static void frames_wait_for_a_full_disk (void **state)
{
    source_t source;
    source_make (&source, "full.h5");
    const wm_writer_result_t whole = written (&source, test_path ("full.scores.h5"));
    const wm_writer_job_t job = job_of (&source, test_path ("full.scores.h5"));
    struct rlimit before, limit;
    signal (SIGXFSZ, SIG_IGN);
    getrlimit (RLIMIT_FSIZE, &before);
    assert_true (whole.size > 1000);
    for (uint64_t room = 0; room < whole.size; room += whole.size / 7) {
        wm_writer_t *writer = wm_writer_new (&job);
        wm_writer_result_t result;
        wm_error_t error;
        wm_fault_t fault = WM_OK;
        bool done = false;
        unlink (job.path);
        limit = before;
        limit.rlim_cur = room;
        setrlimit (RLIMIT_FSIZE, &limit);
        while (!done && !fault)
            fault = wm_writer_step (writer, &done, &result, &error);
        setrlimit (RLIMIT_FSIZE, &before);
        assert_int_equal (fault, WM_EAGAIN);
        assert_int_not_equal (access (test_path ("full.scores.h5.part"), F_OK), 0);
        for (int i = 0; i < 200 && !done; i++) {
            fault = wm_writer_step (writer, &done, &result, &error);
            assert_true (fault == WM_OK || fault == WM_EAGAIN);
        }
        assert_true (done);
        assert_memory_equal (result.digest, whole.digest, 16);
        wm_writer_destroy (&writer);
    }
    source_clear (&source);
}

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* they have their own malloc */
static size_t refused; /* bytes that malloc does not give */

void *__libc_malloc (size_t bytes);
void *malloc (size_t bytes)
{
    return bytes == refused ? NULL : __libc_malloc (bytes);
}

/* A plane of 8 x 25 cells and 15 tiles, each list with one more. Nothing is written of it.  */
static void a_plane_needs_memory (void **state)
{
    const struct {
        size_t bytes;
        const char *text;
    } list[] = { { 16 * sizeof (wm_tile_t), "no memory for 15 tiles" },
                 { 201 * sizeof (float), "no memory for a plane of 8 x 25" } };
    source_t source;
    source_make (&source, "memory.h5");
    const wm_writer_job_t job = job_of (&source, test_path ("memory.scores.h5"));
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_writer_t *writer = wm_writer_new (&job);
        wm_writer_result_t result;
        wm_error_t error = { .fault = WM_OK };
        wm_fault_t fault = WM_OK;
        for (bool done = false; !done && !fault;) {
            refused = list[i].bytes;
            fault = wm_writer_step (writer, &done, &result, &error);
            refused = 0;
        }
        assert_int_equal (fault, WM_EHOST);
        assert_string_equal (error.text, list[i].text);
        wm_writer_destroy (&writer);
        assert_int_not_equal (access (test_path ("memory.scores.h5.part"), F_OK), 0);
    }
    source_clear (&source);
}
#endif

/* HDF5 1.10 keeps the memory of a file that it could not close, as on a full disk.  */
const char *__lsan_default_suppressions (void);
const char *__lsan_default_suppressions (void)
{
    return "leak:libhdf5";
}

/* Also that which makes a column of no rows, into which nothing is written later.  */
static void a_call_that_fails_is_an_error (void **state)
{
    source_t source;
    source_make (&source, "fails.h5");
    const wm_writer_job_t job = job_of (&source, test_path ("fails.scores.h5"));
    assert_true (h5_each_call_fails (&job) > 50);
    source.scratch.state[1] = 1; /* nothing is held */
    h5_each_call_fails (&job);
    source_clear (&source);
}

/* Ready-made patches lie nowhere.  */
static void patches_are_refused (void **state)
{
    wm_error_t error;
    wm_spec_t spec;
    const float value[VALUES] = { 0 };
    assert_int_equal (wm_spec_preset (&spec, "protodune-2021", &error), WM_OK);
    spec.patch_wire = SIDE_WIRE, spec.patch_bin = SIDE_BIN;
    spec.result = WM_RESULT_IMAGE;
    spec.points = WM_POINTS_WINDOWS;
    hid_t file = H5Fcreate (test_path ("patches.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_f32 (file, "patches", 1, VALUES, value);
    H5Fclose (file);
    assert_null (wm_reader_open (test_path ("patches.h5"), &spec, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    assert_non_null (strstr (error.text, "ready-made, without their places in a plane"));
}

static void what_is_no_image_is_refused (void **state)
{
    wm_error_t error;
    wm_spec_t spec;
    assert_int_equal (wm_spec_preset (&spec, "protodune-2021", &error), WM_OK);
    assert_int_equal (wm_writer_check (&spec, WM_OUTPUTS_MAX + 1, "", &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "result: image"));
    spec.result = WM_RESULT_IMAGE;
    assert_int_equal (wm_writer_check (&spec, 48 * 48, "", &error), WM_OK);
    assert_int_equal (wm_writer_check (&spec, 4, "", &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "48 x 48; the model gives 4"));
    assert_int_equal (wm_writer_check (&spec, 48 * 48, "numl", &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "--layout"));
    strcpy (spec.table, "17");
    assert_int_equal (wm_writer_check (&spec, 48 * 48, "", &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "'17'"));
}

static int teardown (void **state)
{
    test_folder_remove ();
    return 0;
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (a_cell_is_that_of_the_nearest_tile),
        cmocka_unit_test (a_plane_without_tiles_has_no_values),
        cmocka_unit_test (a_plane_without_memory_is_refused),
        cmocka_unit_test (frames_have_the_form_of_wire_cell),
        cmocka_unit_test (a_channel_map_names_the_channels),
        cmocka_unit_test (equal_content_is_equal_bytes),
        cmocka_unit_test (a_short_event_has_an_empty_frame),
        cmocka_unit_test (events_of_one_number_have_two_names),
        cmocka_unit_test (frames_wait_for_a_full_disk),
        cmocka_unit_test (a_call_that_fails_is_an_error),
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
        cmocka_unit_test (a_plane_needs_memory),
#endif
        cmocka_unit_test (patches_are_refused),
        cmocka_unit_test (what_is_no_image_is_refused),
    };
    return cmocka_run_group_tests (tests, NULL, teardown);
}
