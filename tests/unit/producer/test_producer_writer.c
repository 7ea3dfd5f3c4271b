/* test_producer_writer.c - the output holds every row in input order, equal content is equal bytes,
   and a full disk loses nothing.  */
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include "producer/files/wm_h5.h"
#include "producer/session/wm_input.h"
#include "producer/writing/wm_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <xxhash.h>
#include <zlib.h>

/* A file of the library whose writes failed cannot be closed, and stays in its memory.  */
const char *__lsan_default_suppressions (void);
const char *__lsan_default_suppressions (void)
{
    return "leak:libhdf5";
}

static wm_spec_t spec;
static wm_pins_t pins;
static const uint8_t campaign[16] = { 0xab, 1 }, stranger[16] = { 0xab, 2 };

/* A patch file of n rows, its reader and its scratch file with scores of (row, output).  */
typedef struct {
    wm_reader_t *reader;
    wm_scratch_t scratch;
} source_t;

static void source_make (source_t *self, const char *name, uint32_t n)
{
    wm_error_t error;
    const char *path = test_path (name);
    float *value = calloc (n + 1ul, 8);
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_f32 (file, "patches", n, 2, value);
    H5Fclose (file);
    free (value);
    self->reader = wm_reader_open (path, &spec, &error);
    if (!self->reader || wm_scratch_open (&self->scratch, test_folder, n, 4, &error))
        fail_msg ("%s", error.text);
    for (uint32_t i = 0; i < n; i++) {
        self->scratch.state[i] = 1;
        self->scratch.in_fiducial[i] = i % 3 == 0;
        self->scratch.engine[i] = (uint16_t) (1 + i % 2);
        for (uint32_t k = 0; k < 4; k++)
            self->scratch.score[4 * i + k] = (float) i + (float) k / 8;
    }
}

static void source_clear (source_t *self)
{
    wm_reader_destroy (&self->reader);
    wm_scratch_close (&self->scratch);
}

static int setup (void **state)
{
    wm_h5_init ();
    strcpy (pins.model, "0123");
    strcpy (pins.precision, "fp32");
    strcpy (pins.spec, "table: emtrkmichel\n");
    return wm_spec_preset (&spec, "protodune-2021", NULL) != WM_OK;
}

static int teardown (void **state)
{
    test_folder_remove ();
    return 0;
}

static const char *const engines[] = { "sparse/avx512", "openvino", "unused" };
static const char *const turned[] = { "openvino", "sparse/avx512", "unused" };

static wm_writer_job_t job_of (source_t *source, const char *path, const char *const *engine)
{
    return (wm_writer_job_t){
        path, &spec, &pins, campaign, &source->scratch, source->reader, engine, NULL, 3,
        5,    7,     6,     { 0 }
    };
}

static wm_writer_result_t written (const wm_writer_job_t *job)
{
    wm_writer_t *writer = wm_writer_new (job);
    wm_writer_result_t result;
    wm_error_t error;
    for (bool done = false; !done;)
        if (wm_writer_step (writer, &done, &result, &error))
            fail_msg ("%s", error.text);
    wm_writer_destroy (&writer);
    assert_int_not_equal (access (job->path, F_OK), -1);
    char part[200];
    snprintf (part, sizeof part, "%s.part", job->path);
    assert_int_equal (access (part, F_OK), -1);
    return result;
}

static size_t file_read (const char *path, char *bytes, size_t bytes_max)
{
    FILE *file = fopen (path, "rb");
    assert_non_null (file);
    size_t n = fread (bytes, 1, bytes_max, file);
    fclose (file);
    assert_true (n < bytes_max);
    return n;
}

/* Every fsync of this program: what was synced, and how many outputs had their names then.  */
static char watched[9][200]; /* outputs */
static uint32_t n_watched, n_folder_sync, n_file_sync, n_named_early, n_partial_late;

static mode_t unsyncable; /* the kind of files whose fsync fails */

int fsync (int fd)
{
    struct stat status;
    assert_int_equal (fstat (fd, &status), 0);
    if ((status.st_mode & S_IFMT) == unsyncable) {
        errno = EIO;
        return -1;
    }
    n_folder_sync += S_ISDIR (status.st_mode);
    n_file_sync += S_ISREG (status.st_mode);
    for (uint32_t i = 0; i < n_watched; i++)
        if (S_ISREG (status.st_mode))
            n_named_early += access (watched[i], F_OK) == 0;
        else
            n_partial_late += access (watched[i], F_OK) != 0;
    return 0;
}

/* While `is_full`, the disk takes nothing and has `room_kept` bytes; errno is `full_errno`: 0, the
   calls that the HDF5 library makes behind a failed write have cleared it.  */
static bool is_full;
static int full_errno;
static uint64_t room_kept;
static uint32_t n_refused;

ssize_t pwrite (int fd, const void *from, size_t bytes, off_t at)
{
    if (is_full) {
        n_refused++;
        errno = full_errno;
        return -1;
    }
    return syscall (SYS_pwrite64, fd, from, bytes, at);
}

/* What is made in memory is written by this; while `interrupted`, every second call is, and the
   others take a few bytes.  */
static bool interrupted;

ssize_t write (int fd, const void *from, size_t bytes)
{
    static uint32_t n_call;
    if (is_full)
        return pwrite (fd, from, bytes, 0);
    if (interrupted && ++n_call % 2) {
        errno = EINTR;
        return -1;
    }
    return syscall (SYS_write, fd, from, interrupted && bytes > 1000 ? 1000 : bytes);
}

int statvfs (const char *path, struct statvfs *status)
{
    struct statfs disk;
    assert_int_equal (statfs (path, &disk), 0);
    *status = (struct statvfs){ .f_frsize = 1, .f_bavail = is_full ? room_kept : 1ull << 40 };
    return 0;
}

static void many_are_committed_together (void **state)
{
    enum { N = 9 };
    wm_writer_t *writer[N];
    source_t source[N];
    wm_writer_result_t result;
    wm_error_t error;
    assert_int_equal (mkdir (test_path ("beside"), 0700), 0);
    for (uint32_t i = 0; i < N; i++) {
        char name[20];
        bool done = false;
        snprintf (name, sizeof name, "many-%u.h5", i);
        source_make (&source[i], name, i == 4 ? 30000 : 1 + i); /* a large one among small ones */
        snprintf (watched[i], sizeof watched[i], "%s%s", test_path (i < 6 ? "" : "beside/"), name);
        strcpy (strrchr (watched[i], '.'), ".scores.h5");
        wm_writer_job_t job = job_of (&source[i], watched[i], engines);
        writer[i] = wm_writer_new (&job);
        while (!wm_writer_is_ready (writer[i]))
            assert_int_equal (wm_writer_step (writer[i], &done, &result, &error), WM_OK);
    }
    n_watched = N;
    n_folder_sync = n_file_sync = n_named_early = n_partial_late = 0;
    for (uint32_t i = 0; i < N; i++)
        for (int twice = 0; twice < 2; twice++) /* the second time there is nothing to do */
            assert_int_equal (wm_writer_sync (writer[i], &error), WM_OK);
    assert_int_equal (n_file_sync, N);
    assert_int_equal (wm_writer_place (writer, N, &error), WM_OK);
    assert_int_equal (n_folder_sync, 2);  /* one of each folder, for all of them, */
    assert_int_equal (n_partial_late, 0); /* when all had their names */
    assert_int_equal (n_named_early, 0);  /* and none had before its content was durable */
    n_watched = 0;
    for (uint32_t i = 0; i < N; i++) {
        static char content[1 << 21];
        XXH128_canonical_t canonical;
        bool done = false;
        for (int n = 0; n < 100 && !done; n++)
            assert_int_equal (wm_writer_step (writer[i], &done, &result, &error), WM_OK);
        assert_true (done);
        wm_writer_destroy (&writer[i]);
        const size_t bytes = file_read (watched[i], content, sizeof content);
        assert_int_equal (bytes, result.size);
        XXH128_canonicalFromHash (&canonical, XXH3_128bits (content, bytes));
        assert_memory_equal (result.digest, canonical.digest, 16);
        unlink (watched[i]);
        source_clear (&source[i]);
    }
}

static void column_read (wm_h5_t *file, const char *name, wm_h5_type_t type, uint32_t n, void *to)
{
    wm_column_t column;
    wm_error_t error;
    if (wm_h5_column (file, name, WM_H5_FLOAT, 1, &column, &error) ||
        wm_h5_read (&column, 0, n, type, to, &error))
        fail_msg ("%s", error.text);
    assert_int_equal (column.n_row, n);
    wm_h5_column_close (&column);
}

static void rows_come_back (void **state)
{
    enum { N = 70001, HELD = 2 + 9000 + 4000 }; /* more than one piece, as are those held */
    source_t source;
    source_make (&source, "in.h5", N);
    wm_scratch_hold (&source.scratch, 2, WM_HIT_BAD_PIXEL);
    for (uint32_t i = 1000; i < 10000; i++)
        wm_scratch_hold (&source.scratch, i, WM_HIT_BAD_WIRE);
    for (uint32_t i = 66000; i < 70000; i++)
        wm_scratch_hold (&source.scratch, i, WM_HIT_BAD_TIME);
    source.scratch.state[70000] = 0; /* of no event */
    char path[160];
    snprintf (path, sizeof path, "%s", test_path ("out.scores.h5"));
    wm_writer_job_t job = job_of (&source, path, engines);
    wm_writer_result_t result = written (&job);
    assert_int_equal (result.n_held, HELD);
    struct stat status;
    assert_int_equal (stat (path, &status), 0);
    assert_int_equal (status.st_size, result.size);

    wm_h5_t *file = wm_h5_open (path, NULL);
    assert_non_null (file);
    static float score[N];
    static int64_t id[N];
    static int32_t cell[N];
    column_read (file, "emtrkmichel/hit_id", WM_H5_I64, N, id);
    column_read (file, "emtrkmichel/michel", WM_H5_F32, N, score);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal (id[i], i);
        if (source.scratch.state[i] != 1)
            assert_true (isnan (score[i]));
        else
            assert_true (score[i] == (float) i + 3.0f / 8);
    }
    column_read (file, "emtrkmichel/status", WM_H5_I32, N, cell);
    assert_int_equal (cell[1], 0);
    assert_int_equal (cell[2], WM_HIT_BAD_PIXEL);
    assert_int_equal (cell[70000], WM_HIT_NO_EVENT);
    column_read (file, "emtrkmichel/engine", WM_H5_I32, N, cell);
    assert_int_equal (cell[0], 1); /* alphabetical: openvino is 0 */
    assert_int_equal (cell[1], 0);
    assert_int_equal (cell[2], 65535);
    column_read (file, "emtrkmichel/in_fiducial", WM_H5_I32, N, cell);
    assert_int_equal (cell[3], 1);
    assert_int_equal (cell[4], 0);
    column_read (file, "held/row", WM_H5_I64, HELD, id);
    for (uint32_t i = 0, k = 0; i < N; i++)
        if (source.scratch.state[i] != 1)
            assert_int_equal (id[k++], i);
    char text[64];
    assert_true (wm_h5_text (file, "model_sha256", text, sizeof text));
    assert_string_equal (text, "0123");
    int64_t number;
    assert_true (wm_h5_number (file, "hits_same_cell", &number) && number == 5);
    assert_true (wm_h5_number (file, "hits_empty", &number) && number == 7);
    wm_h5_close (&file);

    uint64_t n_held = 0;
    assert_true (wm_writer_is_ours (path, campaign, &n_held));
    assert_int_equal (n_held, HELD);
    uint64_t kept = 99;
    assert_false (wm_writer_is_ours (path, stranger, &kept));
    assert_int_equal (kept, 99);
    assert_false (wm_writer_is_ours (path, stranger, NULL));
    assert_true (wm_writer_is_ours (path, campaign, NULL));
    assert_false (wm_writer_is_ours (test_path ("in.h5"), campaign, NULL));
    assert_false (wm_writer_is_ours (test_folder, campaign, NULL));
    source_clear (&source);
}

/* Behind the rows of a column's last chunk there are zeros, as the library writes them.  */
static void a_last_chunk_ends_with_zeros (void **state)
{
    enum { CHUNK = 65536, N = CHUNK + 100, BYTES = 4 * CHUNK };
    static uint8_t packed[BYTES], shuffled[BYTES];
    const hsize_t at = CHUNK;
    hsize_t bytes;
    uLongf unpacked = BYTES;
    uint32_t filters = 0;
    source_t source;
    source_make (&source, "in5.h5", N);
    wm_writer_job_t job = job_of (&source, test_path ("chunk.scores.h5"), engines);
    written (&job);
    hid_t file = H5Fopen (job.path, H5F_ACC_RDONLY, H5P_DEFAULT),
          data = H5Dopen2 (file, "emtrkmichel/track", H5P_DEFAULT);
    assert_true (H5Dget_chunk_storage_size (data, &at, &bytes) >= 0 && bytes <= BYTES);
    assert_true (H5Dread_chunk (data, H5P_DEFAULT, &at, &filters, packed) >= 0);
    assert_int_equal (uncompress (shuffled, &unpacked, packed, bytes), Z_OK);
    assert_int_equal (unpacked, BYTES);
    for (size_t byte = 0; byte < 4; byte++)
        for (size_t i = N - CHUNK; i < CHUNK; i++)
            assert_int_equal (shuffled[byte * CHUNK + i], 0);
    H5Dclose (data);
    H5Fclose (file);
    source_clear (&source);
}

/* The order in which engines answered must not show, nor when it was written.  */
static void equal_content_is_equal_bytes (void **state)
{
    static char a[1 << 20], b[1 << 20];
    char path[2][160];
    source_t source;
    source_make (&source, "in2.h5", 1000);
    wm_scratch_hold (&source.scratch, 7, WM_HIT_HELD);
    source.scratch.score[28] = 1234; /* of a held hit: must not show */
    snprintf (path[0], sizeof path[0], "%s", test_path ("a.scores.h5"));
    snprintf (path[1], sizeof path[1], "%s", test_path ("b.scores.h5"));
    wm_writer_job_t job = job_of (&source, path[0], engines);
    wm_writer_result_t first = written (&job);
    sleep (1); /* times in the file would differ now */
    for (uint32_t i = 0; i < 1000; i++)
        if (source.scratch.engine[i])
            source.scratch.engine[i] = (uint16_t) (3 - source.scratch.engine[i]);
    source.scratch.score[28] = 4321;
    job = job_of (&source, path[1], turned);
    wm_writer_result_t second = written (&job);
    size_t n = file_read (path[0], a, sizeof a);
    assert_int_equal (n, file_read (path[1], b, sizeof b));
    assert_memory_equal (a, b, n);
    assert_memory_equal (first.digest, second.digest, 16);
    source.scratch.score[0] += 1; /* and other content is not */
    second = written (&job);
    assert_memory_not_equal (first.digest, second.digest, 16);
    source_clear (&source);
}

static void no_rows (void **state)
{
    source_t source;
    source_make (&source, "in3.h5", 0);
    char path[160];
    snprintf (path, sizeof path, "%s", test_path ("none.scores.h5"));
    wm_writer_job_t job = job_of (&source, path, engines);
    assert_int_equal (written (&job).n_held, 0);
    wm_h5_t *file = wm_h5_open (path, NULL);
    column_read (file, "emtrkmichel/track", WM_H5_F32, 0, NULL);
    wm_h5_close (&file);
    source_clear (&source);
}

/* No form is kept of an output with several engines.  */
static void one_engine (source_t *self, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        self->scratch.engine[i] = 1;
}

/* A small output is written over the form of another one: its bytes are those of a file that was
   made for it, and nothing of the other one is left.  */
static void forms_leave_no_trace (void **state)
{
    enum { N = 7 };
    static char want[3][1 << 16], got[1 << 16];
    size_t bytes[3];
    source_t source;
    source_make (&source, "form.h5", N);
    one_engine (&source, N);
    char path[160];
    snprintf (path, sizeof path, "%s", test_path ("form.scores.h5"));
    wm_writer_job_t job = job_of (&source, path, engines);
    for (int round = 0; round < 3; round++)
        for (int kind = 0; kind < 3; kind++) { /* as it is; a held hit; another model's name */
            const uint64_t held = kind == 1;
            strcpy (pins.model, kind == 2 ? "0123456" : "0123");
            source.scratch.state[3] = held ? WM_HIT_BAD_PIXEL + 1 : 1;
            if (round == 1) { /* another content passes through the form */
                source.scratch.score[0] = 77;
                source.scratch.state[3] = held ? WM_HIT_BAD_WIRE + 1 : 1;
                job.n_empty = 5;
                written (&job);
                source.scratch.score[0] = 0;
                source.scratch.state[3] = held ? WM_HIT_BAD_PIXEL + 1 : 1;
                job.n_empty = 7;
            }
            const wm_writer_result_t result = written (&job);
            const size_t n = file_read (path, got, sizeof got);
            assert_int_equal (result.n_held, held);
            if (!round)
                memcpy (want[kind], got, bytes[kind] = n);
            assert_int_equal (n, bytes[kind]);
            assert_memory_equal (got, want[kind], n);
        }
    wm_h5_t *file = wm_h5_open (path, NULL);
    float score[N];
    int64_t number = 0;
    char text[64];
    column_read (file, "emtrkmichel/michel", WM_H5_F32, N, score);
    for (uint32_t i = 0; i < N; i++)
        assert_true (score[i] == (float) i + 3.0f / 8);
    assert_true (wm_h5_number (file, "hits_empty", &number) && number == 7);
    assert_true (wm_h5_text (file, "model_sha256", text, sizeof text));
    assert_string_equal (text, "0123456");
    wm_h5_close (&file);
    strcpy (pins.model, "0123");
    for (uint32_t n = 1; n < 40; n++) { /* more than there are forms */
        source_t other;
        char name[20];
        snprintf (name, sizeof name, "form-%u.h5", n);
        source_make (&other, name, n);
        one_engine (&other, n);
        wm_writer_job_t more = job_of (&other, path, n % 2 ? engines : turned);
        for (int round = 0; round < 2; round++)
            written (&more);
        source_clear (&other);
    }
    assert_int_equal (H5Fget_obj_count (H5F_OBJ_ALL, H5F_OBJ_GROUP), 16); /* one of each form */
    source.scratch.state[3] = 1;
    written (&job);
    assert_int_equal (file_read (path, got, sizeof got), bytes[0]);
    assert_memory_equal (got, want[0], bytes[0]);
    unlink (path);
    source_clear (&source);
}

static const uint32_t many = 20000, few = 5; /* rows; a file of few is made in memory */

/* A disk without room is full also where no errno says so; where there is room, the library failed.
   The writer tries again when there is more room, and now and then, as a quota does not show.  */
static void full_disk_without_errno (void **state)
{
    source_t source;
    source_make (&source, "in6.h5", *(const uint32_t *) *state);
    wm_writer_job_t job = job_of (&source, test_path ("full.scores.h5"), engines);
    wm_writer_result_t result;
    wm_error_t error;
    bool done = false;
    for (int way = 0; way < 3; way++) { /* some room, none, and enough */
        const bool has_room = way == 2;
        wm_writer_t *writer = wm_writer_new (&job);
        wm_fault_t fault = WM_OK;
        is_full = true;
        room_kept = has_room ? 1ull << 40 : way ? 0 : 1000;
        while (!fault && !done)
            fault = wm_writer_step (writer, &done, &result, &error);
        assert_int_equal (fault, has_room ? WM_EHOST : WM_EAGAIN);
        assert_non_null (
            strstr (error.text, has_room ? "cannot write: the HDF5 library failed" : "disk full"));
        assert_int_not_equal (access (test_path ("full.scores.h5.part"), F_OK), 0);
        uint32_t n_step = 0, n_try = 0, step_of[3];
        for (n_refused = 0; !has_room && n_try < 3; n_step++) { /* the same room: few tries */
            assert_true (n_step < 1000);
            fault = wm_writer_step (writer, &done, &result, &error);
            assert_true (fault == WM_OK || fault == WM_EAGAIN);
            if (n_refused)
                step_of[n_try++] = n_step;
            n_refused = 0;
        }
        if (!has_room) {
            assert_true (step_of[0] > 20);
            assert_true (step_of[1] - step_of[0] > 20 && step_of[2] - step_of[1] > 20);
        }
        is_full = false;
        while (!has_room && !done) {
            fault = wm_writer_step (writer, &done, &result, &error);
            assert_true (fault == WM_OK || fault == WM_EAGAIN);
        }
        wm_writer_destroy (&writer);
        unlink (job.path);
        done = false;
    }
    source_clear (&source);
}

/* The disk fills up at any point of the file: the writer returns WM_EAGAIN, leaves nothing behind
   and starts over, and the file is the same in the end. A limit on the size of files replaces the
   disk.  */
static void full_disk_is_waited_for (void **state)
{
    static char want[1 << 20], got[1 << 20];
    source_t source;
    source_make (&source, "in4.h5", *(const uint32_t *) *state);
    char path[160], part[200];
    snprintf (path, sizeof path, "%s", test_path ("full.scores.h5"));
    snprintf (part, sizeof part, "%s.part", path);
    wm_writer_job_t job = job_of (&source, path, engines);
    written (&job);
    size_t n = file_read (path, want, sizeof want);
    unlink (path);
    signal (SIGXFSZ, SIG_IGN);
    struct rlimit before, limit;
    getrlimit (RLIMIT_FSIZE, &before);
    for (size_t room = 0; room < n; room += n / 7) {
        wm_writer_t *writer = wm_writer_new (&job);
        wm_writer_result_t result;
        wm_error_t error;
        bool done = false;
        wm_fault_t fault = WM_OK;
        limit = before;
        limit.rlim_cur = room;
        setrlimit (RLIMIT_FSIZE, &limit);
        for (int i = 0; i < 20 && !done && !fault; i++)
            fault = wm_writer_step (writer, &done, &result, &error);
        bool is_there = access (path, F_OK) == 0 || access (part, F_OK) == 0;
        setrlimit (RLIMIT_FSIZE, &before);
        assert_int_equal (fault, WM_EAGAIN);
        assert_non_null (strstr (error.text, "disk full"));
        assert_false (is_there);
        for (int i = 0; i < 200 && !done; i++) {
            fault = wm_writer_step (writer, &done, &result, &error);
            assert_true (fault == WM_OK || fault == WM_EAGAIN);
        }
        assert_true (done);
        wm_writer_destroy (&writer);
        assert_int_equal (file_read (path, got, sizeof got), n);
        assert_memory_equal (got, want, n);
        unlink (path);
    }
    source_clear (&source);
}

/* After a full disk the writer begins numl's tables anew, too.  */
static void full_disk_is_waited_for_by_tables (void **state)
{
    strcpy (pins.layout, "both");
    full_disk_is_waited_for (state);
    *pins.layout = 0;
}

/* Which failures are a full disk's, by errno and by the room that is left.  */
static void what_counts_as_a_full_disk (void **state)
{
    const uint32_t n_row = *(const uint32_t *) *state;
    static const struct {
        int error;
        uint64_t room;
        const char *text;
    } list[] = { { ENOSPC, 1ull << 40, "disk full" },
                 { EDQUOT, 1ull << 40, "disk full" },
                 { EFBIG, 1ull << 40, "disk full" },
                 { EIO, 1ull << 40, "cannot write: Input/output error" },
                 { EIO, 1 << 20, "cannot write: Input/output error" },
                 { EIO, (1 << 20) - 1, "and 1.0 MB are free" },
                 { 0, 700000, "and 0.7 MB are free" } };
    source_t source;
    source_make (&source, "in7.h5", n_row);
    wm_writer_job_t job = job_of (&source, test_path ("kind.scores.h5"), engines);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_writer_t *writer = wm_writer_new (&job);
        wm_writer_result_t result;
        wm_error_t error;
        wm_fault_t fault = WM_OK;
        is_full = true, full_errno = list[i].error, room_kept = list[i].room;
        for (bool done = false; !fault && !done;)
            fault = wm_writer_step (writer, &done, &result, &error);
        const bool waits = !strstr (list[i].text, "cannot");
        assert_int_equal (fault, waits ? WM_EAGAIN : WM_EHOST);
        const char *needs = n_row > 1000 ? ": disk full: kind.scores.h5 needs up to 2.6 MB "
                                         : ": disk full: kind.scores.h5 needs up to 1.0 MB ";
        if (!strstr (error.text, list[i].text) || (waits && !strstr (error.text, needs)))
            fail_msg ("row %zu: %s", i, error.text);
        is_full = false, full_errno = 0;
        wm_writer_destroy (&writer);
    }
    source_clear (&source);
}

/* It tries again when there is a megabyte more than then, else at every sixtieth step.  */
static void when_a_full_disk_is_tried (void **state)
{
    enum { TRIES = 60 };
    const uint64_t full = 500000, more = 1 << 20;
    source_t source;
    source_make (&source, "in8.h5", few);
    wm_writer_job_t job = job_of (&source, test_path ("tried.scores.h5"), engines);
    wm_writer_t *writer = wm_writer_new (&job);
    wm_writer_result_t result;
    wm_error_t error;
    bool done;
    is_full = true, room_kept = full;
    assert_int_equal (wm_writer_step (writer, &done, &result, &error), WM_EAGAIN);
    for (uint32_t i = 1; i <= 2 * TRIES; i++) {
        n_refused = 0;
        room_kept = full + more - 1;
        if (i % TRIES == 0) /* as full as before */
            room_kept = full;
        assert_int_equal (wm_writer_step (writer, &done, &result, &error), WM_EAGAIN);
        assert_false (done);
        if (n_refused != (i % TRIES == 0))
            fail_msg ("step %u: %u writes", i, n_refused);
    }
    n_refused = 0;
    room_kept = full + more;
    assert_int_equal (wm_writer_step (writer, &done, &result, &error), WM_EHOST);
    assert_int_equal (n_refused, 1); /* with so much room it is no full disk's failure */
    is_full = false;
    wm_writer_destroy (&writer);
    source_clear (&source);
}

/* A small output that cannot be written is closed once: its file's number is another's then.  */
static void full_disk_closes_once (void **state)
{
    source_t source;
    source_make (&source, "in11.h5", few);
    wm_writer_job_t job = job_of (&source, test_path ("once.scores.h5"), engines);
    wm_writer_t *writer = wm_writer_new (&job);
    wm_writer_result_t result;
    wm_error_t error;
    bool done;
    is_full = true;
    room_kept = 0;
    assert_int_equal (wm_writer_step (writer, &done, &result, &error), WM_EAGAIN);
    is_full = false;
    const int next = dup (STDOUT_FILENO);
    wm_writer_destroy (&writer);
    assert_int_equal (close (next), 0);
    source_clear (&source);
}

/* A small output that is written in many calls is the same.  */
static void interrupted_writes_go_on (void **state)
{
    source_t source;
    source_make (&source, "in9.h5", few);
    wm_writer_job_t job = job_of (&source, test_path ("calls.scores.h5"), engines);
    const wm_writer_result_t whole = written (&job);
    interrupted = true;
    const wm_writer_result_t parts = written (&job);
    interrupted = false;
    assert_true (whole.size > 3000 && whole.size == parts.size);
    assert_memory_equal (whole.digest, parts.digest, 16);
    static char content[1 << 20];
    XXH128_canonical_t canonical;
    const size_t bytes = file_read (job.path, content, sizeof content);
    XXH128_canonicalFromHash (&canonical, XXH3_128bits (content, bytes));
    assert_memory_equal (parts.digest, canonical.digest, 16);
    unlink (job.path);
    source_clear (&source);
}

/* What cannot be made durable, or cannot get its name, is an error, and is not done.  */
static void outputs_that_cannot_be_placed (void **state)
{
    static const char *const text[] = { "placed.scores.h5.part: fsync failed: Input/output error",
                                        ": fsync failed: Input/output error",
                                        "placed.scores.h5: cannot rename " };
    source_t source;
    source_make (&source, "in10.h5", few);
    for (int what = 0; what < 3; what++) {
        wm_writer_job_t job = job_of (&source, test_path ("placed.scores.h5"), engines);
        wm_writer_t *writer = wm_writer_new (&job);
        wm_writer_result_t result;
        wm_error_t error;
        bool done = false;
        assert_false (wm_writer_is_ready (writer));
        assert_int_equal (wm_writer_step (writer, &done, &result, &error), WM_OK);
        assert_true (wm_writer_is_ready (writer));
        unsyncable = what == 0 ? S_IFREG : what == 1 ? S_IFDIR : 0;
        if (what == 2)
            assert_int_equal (mkdir (job.path, 0700), 0);
        wm_fault_t fault = wm_writer_sync (writer, &error);
        assert_int_equal (fault, what ? WM_OK : WM_EHOST);
        assert_true (wm_writer_is_ready (writer));
        if (what)
            fault = wm_writer_place (&writer, 1, &error);
        unsyncable = 0;
        assert_int_equal (fault, WM_EHOST);
        assert_non_null (strstr (error.text, text[what]));
        if (what == 0)
            assert_int_not_equal (access (job.path, F_OK), 0);
        wm_writer_destroy (&writer);
        assert_int_not_equal (access (test_path ("placed.scores.h5.part"), F_OK), 0);
        if (what == 2)
            rmdir (job.path);
        else
            unlink (job.path);
    }
    source_clear (&source);
}

static void abandoned_files_are_removed (void **state)
{
    source_t source;
    source_make (&source, "in5.h5", 10);
    char path[160], part[200];
    snprintf (path, sizeof path, "%s", test_path ("left.scores.h5"));
    snprintf (part, sizeof part, "%s.part", path);
    wm_writer_job_t job = job_of (&source, path, engines);
    wm_writer_t *writer = wm_writer_new (&job);
    bool done;
    wm_writer_result_t result;
    assert_int_equal (wm_writer_step (writer, &done, &result, NULL), WM_OK);
    assert_int_equal (access (part, F_OK), 0);
    wm_writer_destroy (&writer);
    assert_int_equal (access (part, F_OK), -1);
    assert_int_equal (access (path, F_OK), -1);
    source_clear (&source);
}

static void names_that_collide_are_refused (void **state)
{
    wm_error_t error;
    wm_spec_t other = spec;
    assert_int_equal (wm_writer_check (&other, 4, "", &error), WM_OK);
    strcpy (other.label[2], "plane");
    assert_int_equal (wm_writer_check (&other, 4, "", &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "'plane'"));
    assert_int_equal (wm_writer_check (&other, 5, "", &error), WM_OK); /* then they are out_0 ... */
    strcpy (other.label[2], "event_id"); /* a column of numl's tables */
    assert_int_equal (wm_writer_check (&other, 4, "", &error), WM_OK);
    assert_int_equal (wm_writer_check (&other, 4, "both", &error), WM_EBATCH);
    strcpy (other.table, "event");
    assert_int_equal (wm_writer_check (&other, 5, "", &error), WM_OK);
    assert_int_equal (wm_writer_check (&other, 5, "numl", &error), WM_EBATCH);
    strcpy (other.table, "held");
    assert_int_equal (wm_writer_check (&other, 5, "", &error), WM_EBATCH);
}

/* ---- names and identity of inputs ------------------------------------------------------------ */

static void outputs_are_named_after_inputs (void **state)
{
    static const struct {
        const char *path, *name;
    } list[] = { { "/proc/no/such/a.h5", "a.scores.h5" },
                 { "/proc/no/such/a.b.hdf5", "a.b.scores.h5" },
                 { "/proc/no/such/plain", "plain.scores.h5" },
                 { "/proc/no/such/.hidden.h5", "hidden.scores.h5" },
                 { "/proc/no/such/...", "input.scores.h5" },
                 { "/proc/no/such/a.h5:/x/y", "a.scores.h5" },
                 { "/proc/no/such/a\nb.npy", "a_b.scores.h5" } };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_input_t input;
        char name[256];
        assert_int_equal (wm_input_init (&input, list[i].path, NULL), WM_OK);
        wm_input_propose (&input, name);
        assert_string_equal (name, list[i].name);
        wm_input_clear (&input);
    }
    wm_input_t input;
    char path[4000];
    wm_error_t error;
    memset (path, 'a', sizeof path - 1);
    path[0] = '/', path[sizeof path - 1] = 0;
    assert_int_equal (wm_input_init (&input, path, &error), WM_EBATCH);
}

static void changes_of_a_file_are_seen (void **state)
{
    char path[160], link[160];
    snprintf (path, sizeof path, "%s", test_path ("changing"));
    snprintf (link, sizeof link, "%s", test_path ("link"));
    FILE *file = fopen (path, "w");
    fputs ("x", file);
    fclose (file);
    assert_int_equal (symlink (path, link), 0);
    wm_input_t input;
    assert_int_equal (wm_input_init (&input, link, NULL), WM_OK);
    assert_string_equal (input.path, path); /* the real one */
    assert_int_equal (input.size, 1);
    assert_false (wm_input_changed (&input));
    file = fopen (path, "a");
    fputs ("y", file);
    fclose (file);
    assert_true (wm_input_changed (&input));
    wm_input_clear (&input);
}

/* A text has its own length, without an end; an empty one has a byte.  */
static void text_is (const char *path, const char *name, size_t bytes)
{
    hid_t file = H5Fopen (path, H5F_ACC_RDONLY, H5P_DEFAULT),
          attribute = H5Aopen (file, name, H5P_DEFAULT), type = H5Aget_type (attribute);
    assert_int_equal (H5Tget_size (type), bytes);
    assert_int_equal (H5Tget_strpad (type), H5T_STR_NULLPAD);
    H5Tclose (type);
    H5Aclose (attribute);
    H5Fclose (file);
}

static void texts_have_their_length (void **state)
{
    source_t source;
    char path[160];
    uint64_t n_held = 99;
    source_make (&source, "texts.h5", 10);
    snprintf (path, sizeof path, "%s", test_path ("texts.scores.h5"));
    *pins.model = 0;
    const wm_writer_job_t job = job_of (&source, path, engines);
    written (&job);
    strcpy (pins.model, "0123");
    text_is (path, "precision", 4);
    text_is (path, "model_sha256", 1);
    hid_t file = H5Fopen (path, H5F_ACC_RDWR, H5P_DEFAULT);
    assert_true (H5Adelete (file, "hits_held") >= 0);
    H5Fclose (file);
    assert_true (wm_writer_is_ours (path, campaign, &n_held));
    assert_int_equal (n_held, 0);
    source_clear (&source);
}

/* Where an output comes from, in texts whose size does not move the rest of the file; an input's
   time is in UTC whatever the zone here.  */
static void outputs_name_their_origin (void **state)
{
    source_t source;
    char path[2][160], given[300], text[4096];
    wm_writer_result_t result[2];
    setenv ("TZ", "Asia/Kathmandu", 1);
    source_make (&source, "in3.h5", 10);
    memset (given, 'g', sizeof given);
    given[299] = 0;
    for (int i = 0; i < 2; i++) {
        snprintf (path[i], sizeof path[i], "%s", test_path (i ? "o1.scores.h5" : "o0.scores.h5"));
        wm_writer_job_t job = job_of (&source, path[i], engines);
        if (i == 0)
            job.origin = (wm_writer_origin_t){ given,
                                               "/data/in 3 \xc3\xbc.h5",
                                               4711,
                                               1763795045999999999,
                                               "/out/.wiremill",
                                               "cd / && wiremill run" };
        result[i] = written (&job);
    }
    assert_int_equal (result[0].size, result[1].size);
    static const char *const want[][3] = { { "input", "/data/in 3 \xc3\xbc.h5", "" },
                                           { "input_mtime", "2025-11-22T07:04:05Z", "" },
                                           { "campaign_folder", "/out/.wiremill", "" },
                                           { "command", "cd / && wiremill run", "" } };
    for (int i = 0; i < 2; i++) {
        int64_t number;
        wm_h5_t *file = wm_h5_open (path[i], NULL);
        assert_non_null (file);
        for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
            assert_true (wm_h5_text (file, want[k][0], text, sizeof text));
            assert_string_equal (text, want[k][1 + i]);
        }
        assert_true (wm_h5_text (file, "input_given", text, sizeof text));
        assert_string_equal (text, i ? "" : given);
        assert_true (wm_h5_number (file, "input_bytes", &number) && number == (i ? 0 : 4711));
        wm_h5_close (&file);
    }
    source_clear (&source);
}

/* Scores lie in a file that never has a name: a kill at any moment leaves nothing. Where the file
   system has no such files, one is made, and has no name afterwards.  */
static void scratch_has_no_name (void **state)
{
    wm_scratch_t scratch;
    wm_error_t error;
    char events[4096];
    test_path (""); /* makes the folder */
    const int nameless = open (test_folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    const int watch = inotify_init1 (IN_NONBLOCK | IN_CLOEXEC);
    assert_true (watch >= 0 && inotify_add_watch (watch, test_folder, IN_CREATE) >= 0);
    assert_int_equal (wm_scratch_open (&scratch, test_folder, 100000, 4, &error), WM_OK);
    const ssize_t n = read (watch, events, sizeof events);
    if (nameless >= 0 && n >= 0)
        fail_msg ("a file had a name in %s", test_folder);
    scratch.score[399999] = 1;
    wm_scratch_close (&scratch);
    assert_int_equal (wm_scratch_open (&scratch, test_path ("none"), 100000, 4, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "none: no scratch file: No such file"));
    close (watch);
    if (nameless >= 0)
        close (nameless);
}

/* A file of scratch that cannot be made or filled: codes of these calls; 0: they work.  */
static int no_tmpfile, no_name, no_blocks;

int open (const char *path, int flags, ...)
{
    va_list more;
    va_start (more, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg (more, mode_t) : 0;
    va_end (more);
    if (no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = no_tmpfile;
        return -1;
    }
    return (int) syscall (SYS_openat, AT_FDCWD, path, flags, mode);
}

int mkostemp (char *name, int flags)
{
    if (no_name) {
        errno = no_name;
        return -1;
    }
    memcpy (name + strlen (name) - 6, "abcdef", 6);
    return open (name, flags | O_RDWR | O_CREAT | O_EXCL, 0600);
}

int posix_fallocate (int fd, off_t at, off_t bytes)
{
    errno = 0;
    return no_blocks ? no_blocks : ftruncate (fd, at + bytes);
}

static const void *unmapped; /* the last */

int munmap (void *at, size_t bytes)
{
    unmapped = at;
    return (int) syscall (SYS_munmap, at, bytes);
}

/* Scratch of 32 KiB lies in the heap, and more in a file: each goes back to where it is from.  */
static void scratch_is_given_back (void **state)
{
    wm_scratch_t scratch;
    wm_error_t error;
    for (uint32_t more = 0; more < 2; more++) {
        assert_int_equal (wm_scratch_open (&scratch, test_folder, 2048 + more, 3, &error), WM_OK);
        const void *const at = scratch.map;
        wm_scratch_close (&scratch);
        assert_int_equal (unmapped == at, more);
    }
}

/* A disk without room for scratch is waited for, whichever call finds that; another fault is none
   to wait for. Where all files have names, this one loses its name at once.  */
static void scratch_waits_for_room (void **state)
{
    static const struct {
        int tmpfile, name, blocks;
        wm_fault_t fault;
        const char *text;
    } list[] = { { 0, 0, ENOSPC, WM_EAGAIN, "disk full: it has no room for 2000000 bytes of scor" },
                 { 0, 0, EDQUOT, WM_EAGAIN, "disk full: it has no room for 2000000 bytes of scor" },
                 { 0, 0, EIO, WM_EHOST, "no scratch file of 2000000 bytes: Input/output error" },
                 { EOPNOTSUPP, ENOSPC, 0, WM_EAGAIN, "no scratch file: No space left on device" },
                 { EOPNOTSUPP, EACCES, 0, WM_EHOST, "no scratch file: Permission denied" },
                 { EOPNOTSUPP, 0, 0, WM_OK, NULL } };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_scratch_t scratch;
        wm_error_t error;
        no_tmpfile = list[i].tmpfile, no_name = list[i].name, no_blocks = list[i].blocks;
        const wm_fault_t fault = wm_scratch_open (&scratch, test_folder, 100000, 4, &error);
        no_tmpfile = no_name = no_blocks = 0;
        assert_int_equal (fault, list[i].fault);
        if (fault)
            assert_non_null (strstr (error.text, list[i].text));
        assert_int_not_equal (access (test_path (".wiremill-scratch-abcdef"), F_OK), 0);
        if (!fault)
            scratch.score[399999] = 1;
        wm_scratch_close (&scratch);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (rows_come_back),
        cmocka_unit_test (scratch_has_no_name),
        cmocka_unit_test (scratch_waits_for_room),
        cmocka_unit_test (scratch_is_given_back),
        cmocka_unit_test (equal_content_is_equal_bytes),
        cmocka_unit_test (texts_have_their_length),
        cmocka_unit_test (outputs_name_their_origin),
        cmocka_unit_test (no_rows),
        cmocka_unit_test (many_are_committed_together),
        cmocka_unit_test (forms_leave_no_trace),
        cmocka_unit_test (a_last_chunk_ends_with_zeros),
        cmocka_unit_test_prestate (full_disk_without_errno, (void *) &many),
        cmocka_unit_test_prestate (full_disk_is_waited_for, (void *) &many),
        cmocka_unit_test_prestate (full_disk_is_waited_for, (void *) &few),
        cmocka_unit_test_prestate (full_disk_is_waited_for_by_tables, (void *) &many),
        cmocka_unit_test_prestate (full_disk_is_waited_for_by_tables, (void *) &few),
        cmocka_unit_test_prestate (what_counts_as_a_full_disk, (void *) &many),
        cmocka_unit_test_prestate (what_counts_as_a_full_disk, (void *) &few),
        cmocka_unit_test (when_a_full_disk_is_tried),
        cmocka_unit_test (full_disk_closes_once),
        cmocka_unit_test (interrupted_writes_go_on),
        cmocka_unit_test (outputs_that_cannot_be_placed),
        cmocka_unit_test (abandoned_files_are_removed),
        cmocka_unit_test (names_that_collide_are_refused),
        cmocka_unit_test (outputs_are_named_after_inputs),
        cmocka_unit_test (changes_of_a_file_are_seen),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("producer writer", tests, setup, teardown);
}
