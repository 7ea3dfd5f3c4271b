/* test_producer_memory.c - a producer's memory is bounded, however many inputs and events it has.

   Each campaign is a process of its own, which plays the broker in a thread and prints the most
   memory that was resident at once. The broker asks for no payload, because messages on their way
   depend on the load, and reports events as done only when as many are announced as there may be
   inputs open, or LAG. The inputs of a campaign are copies of one file: the library knows one
   file under two names.  */
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include "tests/unit/fake_broker.h"
#include "producer/files/wm_h5.h"
#include "producer/layouts/wm_reader.h"
#include "producer/session/wm_produce.h"
#include "tests/proof.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define INPUTS_MAX 200u
#define EVENTS_MAX 4096u
#define LAG 200u
#define SILENT_TICKS 100 /* of 5 ms: the producer waits for events of this broker */
#define MIB 1024l        /* in KiB */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define BOUNDS 0 /* sanitizers keep freed memory */
#else
#define BOUNDS 1
#endif

/* ---- the broker ------------------------------------------------------------------------------ */

typedef struct {
    wm_key_t key;
    wm_manifest_batch_t *batch;
} event_t;

static struct {
    char path[INPUTS_MAX][160];
    uint32_t n_input, n_done_of[INPUTS_MAX + 1], n_event_of[INPUTS_MAX + 1];
    bool acked[INPUTS_MAX + 1];
    event_t event[EVENTS_MAX];
    uint32_t n_event, n_done, n_written;
    uint32_t open_max; /* inputs that are worked on at a time */
    int ticks, beats;
} broker;

static void answer (fake_t *self, wm_msg_type_t type, wm_key_t key, uint32_t code)
{
    wm_msg_t msg;
    wm_msg_init (&msg, type);
    msg.key = key;
    msg.code = code;
    fake_send (self, &msg, NULL, 0);
}

static void input_ends (fake_t *self, uint32_t i)
{
    if (broker.acked[i] || !broker.n_event_of[i] || broker.n_done_of[i] < broker.n_event_of[i])
        return;
    broker.acked[i] = true;
    answer (self, WM_MSG_ACK, (wm_key_t){ .input = i, .generation = 1 }, WM_MSG_INPUT_END);
}

static void all_done (fake_t *self)
{
    while (broker.n_done < broker.n_event) {
        const wm_key_t key = broker.event[broker.n_done++].key;
        broker.n_done_of[key.input]++;
        answer (self, WM_MSG_EVENT_DONE, key, 0);
        input_ends (self, key.input);
    }
}

/* Inputs are worked on 16 at a time, small ones one more with each that was written.  */
static uint32_t open_now (void)
{
    const uint32_t n = broker.n_input == 1 ? LAG : 16 + broker.n_written;
    return n < broker.open_max ? n : broker.open_max;
}

static void on_input (fake_t *self, const wm_msg_t *msg)
{
    uint32_t i = 0;
    while (i < broker.n_input && strcmp (broker.path[i], msg->path) != 0)
        i++;
    if (i == broker.n_input)
        snprintf (broker.path[broker.n_input++], sizeof broker.path[0], "%.159s", msg->path);
    wm_msg_t ack;
    wm_msg_init (&ack, WM_MSG_INPUT_ACK);
    ack.key = (wm_key_t){ .input = i + 1, .generation = 1 };
    ack.code = msg->code ? WM_INPUT_CLAIMED : WM_INPUT_OPEN;
    snprintf (ack.name, sizeof ack.name, "%u.h5", i);
    snprintf (ack.path, sizeof ack.path, "%s", msg->path);
    fake_send (self, &ack, NULL, 0);
}

static void on_fetch (fake_t *self, const wm_msg_t *msg)
{
    static const uint8_t scores[1 << 20];
    const event_t *event = broker.event;
    while (event->key.input != msg->key.input || event->key.ordinal != msg->key.ordinal)
        event++;
    const wm_manifest_batch_t *batch = &event->batch[msg->key.batch];
    wm_msg_t results;
    wm_msg_init (&results, WM_MSG_RESULTS);
    results.key = msg->key;
    results.n_hit = batch->n_hit;
    memcpy (results.digest, batch->digest, 16);
    strcpy (results.text, "sparse/avx2");
    assert (wm_result_bytes (results.n_hit, self->pins.n_output) <= sizeof scores);
    fake_send (self, &results, scores, wm_result_bytes (results.n_hit, self->pins.n_output));
}

static void tick (fake_t *self)
{
    if (++broker.beats % 20 == 0)
        answer (self, WM_MSG_HEARTBEAT, (wm_key_t){ 0 }, 0);
    if (++broker.ticks % SILENT_TICKS == 0)
        all_done (self);
}

static void play (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    event_t *event = &broker.event[broker.n_event];
    if (!msg) {
        tick (self);
        return;
    }
    if (msg->type != WM_MSG_HEARTBEAT)
        broker.ticks = 0;
    switch (msg->type) {
    case WM_MSG_HELLO: /* a session that ended under load: in a new epoch all is announced again */
        self->epoch++;
        broker.n_event = broker.n_done = 0;
        memset (broker.n_done_of, 0, sizeof broker.n_done_of);
        memset (broker.n_event_of, 0, sizeof broker.n_event_of);
        memset (broker.acked, 0, sizeof broker.acked);
        fake_welcome (self);
        return;
    case WM_MSG_INPUT:
        on_input (self, msg);
        return;
    case WM_MSG_SUBMIT:
        assert (broker.n_event < EVENTS_MAX);
        event->key = msg->key;
        event->batch = malloc (bytes + 1);
        assert (event->batch);
        memcpy (event->batch, payload, bytes);
        if (++broker.n_event - broker.n_done == open_now ())
            all_done (self);
        return;
    case WM_MSG_INPUT_END:
        broker.n_event_of[msg->key.input] = (uint32_t) msg->count;
        input_ends (self, msg->key.input);
        return;
    case WM_MSG_FETCH:
        on_fetch (self, msg);
        return;
    case WM_MSG_FILE_WRITTEN:
        broker.n_written++;
        answer (self, WM_MSG_ACK, msg->key, WM_MSG_FILE_WRITTEN);
        return;
    default:
        return;
    }
}

/* ---- campaigns ------------------------------------------------------------------------------- */

static long most_kib (void)
{
    char line[200];
    long kib = 0;
    FILE *file = fopen ("/proc/self/status", "re");
    while (file && fgets (line, sizeof line, file))
        if (!strncmp (line, "VmHWM:", 6))
            kib = atol (line + 6);
    fclose (file);
    return kib;
}

static void copy (const char *file, const char *to)
{
    char piece[1 << 16];
    FILE *from = fopen (file, "re"), *copy = fopen (to, "we");
    assert_true (from && copy);
    for (size_t n; (n = fread (piece, 1, sizeof piece, from));)
        assert_int_equal (fwrite (piece, 1, n, copy), n);
    fclose (from);
    assert_int_equal (fclose (copy), 0);
}

/* Runs a campaign of `count` copies of the file, of which `open_max` are worked on at a time, and
   returns the most memory in KiB.  */
static long campaign (const char *file, uint32_t count, uint32_t open_max, uint32_t n_value)
{
    static char name[INPUTS_MAX][160];
    const char *input[INPUTS_MAX];
    int pipes[2];
    long kib = 0;
    for (uint32_t i = 0; i < count; i++) {
        snprintf (name[i], sizeof name[i], "%s-%u%s", file, i, strrchr (file, '.'));
        copy (file, name[i]);
        input[i] = name[i];
    }
    assert_int_equal (pipe (pipes), 0);
    pid_t pid = fork ();
    if (!pid) {
        alarm (300); /* a campaign that waits for ever fails */
        fake_t *fake = fake_new (test_folder, play, NULL);
        snprintf (fake->pins.output, sizeof fake->pins.output, "%s/out-%u-%u", test_folder, count,
                  n_value);
        strcpy (fake->pins.spec, "lifetime: none\n");
        fake->pins.n_value = n_value;
        fake->pins.batch_hits = 4096;
        broker.open_max = open_max;
        fake_start (fake);
        const int code = wm_produce (&(wm_produce_options_t){ .broker = fake->endpoint,
                                                              .give_up_ms = 30000,
                                                              .quiet = true,
                                                              .input = input,
                                                              .n_input = count });
        kib = code ? -code : most_kib ();
        _exit (write (pipes[1], &kib, sizeof kib) != sizeof kib);
    }
    int status;
    close (pipes[1]);
    assert_int_equal (read (pipes[0], &kib, sizeof kib), sizeof kib);
    close (pipes[0]);
    waitpid (pid, &status, 0);
    for (uint32_t i = 0; i < count; i++)
        unlink (name[i]);
    print_message ("  %u of %s: %ld MiB\n", count, strrchr (file, '/') + 1, kib / MIB);
    assert_true (kib > 0);
    return kib;
}

static void bounded (long kib, long than, long more_mib)
{
    if (BOUNDS && kib > than + more_mib * MIB)
        fail_msg ("%ld KiB, more than %ld MiB above %ld KiB", kib, more_mib, than);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Writes a dataset in chunks, packed.  */
static void put_chunks (hid_t file, const char *name, hid_t type, hsize_t n, hsize_t width,
                        hsize_t rows, const void *from)
{
    const int n_dim = width > 1 ? 2 : 1;
    hid_t links = H5Pcreate (H5P_LINK_CREATE), list = H5Pcreate (H5P_DATASET_CREATE);
    H5Pset_create_intermediate_group (links, 1);
    const hsize_t dim[2] = { n, width }, chunk[2] = { rows, width },
                  most[2] = { H5S_UNLIMITED, H5S_UNLIMITED };
    hid_t space = H5Screate_simple (n_dim, dim, most);
    H5Pset_chunk (list, n_dim, chunk);
    H5Pset_shuffle (list);
    H5Pset_deflate (list, 1);
    hid_t data = H5Dcreate2 (file, name, type, space, links, list, H5P_DEFAULT);
    assert_true (data >= 0 && H5Dwrite (data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, from) >= 0);
    H5Dclose (data);
    H5Sclose (space);
    H5Pclose (list);
    H5Pclose (links);
}

enum { WIRES = 128, TICKS = 6000, HITS = 500, ROIS = 20000, ROI = 10, CHUNK = 65536 };

static void put_column (hid_t file, const char *name, uint32_t n, uint32_t every, uint32_t modulo)
{
    int32_t *value = malloc (n * sizeof *value);
    assert_non_null (value);
    for (uint32_t i = 0; i < n; i++)
        value[i] = (int32_t) (i / every % modulo);
    put_chunks (file, name, H5T_NATIVE_INT, n, 1, CHUNK, value);
    free (value);
}

/* n rows of each of n_event events, (1, 1, event).  */
static void put_ids (hid_t file, const char *name, uint32_t n_event, uint32_t n)
{
    int32_t *id = malloc (3ul * n_event * n * sizeof *id);
    assert_non_null (id);
    for (uint32_t i = 0; i < n_event * n; i++)
        id[3 * i] = id[3 * i + 1] = 1, id[3 * i + 2] = (int32_t) (i / n);
    put_chunks (file, name, H5T_NATIVE_INT, n_event * n, 3, CHUNK, id);
    free (id);
}

static float *noise (uint32_t n)
{
    uint32_t state = 1;
    float *value = malloc (n * sizeof *value);
    assert_non_null (value);
    for (uint32_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        value[i] = (float) (state >> 8) / (1 << 22);
    }
    return value;
}

/* Waveforms in chunks of 3 MB, in a file that is not small.  */
static void opensamples_make (const char *path)
{
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    float *adc = noise (WIRES * TICKS);
    put_ids (file, "event_table/event_id", 1, 1);
    put_ids (file, "wire_table/event_id", 1, WIRES);
    put_column (file, "wire_table/local_plane", WIRES, 1, 1);
    put_column (file, "wire_table/local_wire", WIRES, 1, WIRES);
    put_column (file, "wire_table/tpc", WIRES, 1, 1);
    put_chunks (file, "wire_table/adc", H5T_IEEE_F32LE, WIRES, TICKS, WIRES, adc);
    put_ids (file, "hit_table/event_id", 1, HITS);
    put_column (file, "hit_table/tpc", HITS, 1, 1);
    put_column (file, "hit_table/local_plane", HITS, 1, 1);
    put_column (file, "hit_table/local_wire", HITS, 1, WIRES);
    put_column (file, "hit_table/local_time", HITS, 1, TICKS);
    put_column (file, "hit_table/hit_id", HITS, 1, HITS);
    H5Fclose (file);
    free (adc);
}

/* Few regions in chunks for many: a small file whose chunks take 9 MB in memory. Of many events a
   file whose columns take 100.  */
static void exchange_make_events (const char *path, uint32_t n_event, uint32_t n_roi)
{
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const uint32_t n = n_event * n_roi;
    put_layout (file, "wiremill-exchange-1");
    put_ids (file, "event_table/event_id", n_event, 1);
    int32_t *ticks = malloc (n_event * sizeof *ticks), *tens = malloc (n * sizeof *tens);
    assert_true (ticks && tens);
    for (uint32_t i = 0; i < n_event; i++)
        ticks[i] = TICKS;
    for (uint32_t i = 0; i < n; i++)
        tens[i] = ROI;
    put_chunks (file, "event_table/n_tick", H5T_NATIVE_INT, n_event, 1, CHUNK, ticks);
    put_chunks (file, "roi_table/n", H5T_NATIVE_INT, n, 1, CHUNK, tens);
    put_ids (file, "plane_table/event_id", n_event, 1);
    put_column (file, "plane_table/cryostat", n_event, 1, 1);
    put_column (file, "plane_table/tpc", n_event, 1, 1);
    put_column (file, "plane_table/plane", n_event, 1, 1);
    for (uint32_t i = 0; i < n_event; i++)
        ticks[i] = WIRES;
    put_chunks (file, "plane_table/n_wire", H5T_NATIVE_INT, n_event, 1, CHUNK, ticks);
    put_column (file, "wire_table/channel", WIRES, 1, WIRES);
    put_column (file, "wire_table/cryostat", WIRES, 1, 1);
    put_column (file, "wire_table/tpc", WIRES, 1, 1);
    put_column (file, "wire_table/plane", WIRES, 1, 1);
    put_column (file, "wire_table/wire", WIRES, 1, WIRES);
    put_ids (file, "roi_table/event_id", n_event, n_roi);
    for (uint32_t i = 0; i < n; i++)
        tens[i] = (int32_t) (i % n_roi / WIRES * 2 * ROI);
    put_column (file, "roi_table/channel", n, 1, WIRES);
    put_chunks (file, "roi_table/tick", H5T_NATIVE_INT, n, 1, CHUNK, tens);
    float *adc = malloc (n * ROI * sizeof *adc);
    assert_non_null (adc);
    for (uint32_t i = 0; i < n * ROI; i++)
        adc[i] = (float) (i % 7 + 1);
    put_chunks (file, "roi_value/adc", H5T_NATIVE_FLOAT, n * ROI, 1, CHUNK, adc);
    put_ids (file, "hit_table/event_id", n_event, HITS);
    put_column (file, "hit_table/cryostat", n_event * HITS, 1, 1);
    put_column (file, "hit_table/tpc", n_event * HITS, 1, 1);
    put_column (file, "hit_table/plane", n_event * HITS, 1, 1);
    put_column (file, "hit_table/wire", n_event * HITS, 1, WIRES);
    put_column (file, "hit_table/time", n_event * HITS, 1, TICKS / 2);
    put_column (file, "hit_table/key", n_event * HITS, 1, HITS);
    H5Fclose (file);
    free (adc);
    free (ticks);
    free (tens);
}

static void small_make (const char *path)
{
    exchange_make_events (path, 1, 2000);
}

static void long_make (const char *path)
{
    exchange_make_events (path, 100, ROIS);
}

/* Makes a file in a process of its own, whose memory no campaign inherits.  */
static const char *apart (const char *name, void (*make) (const char *path))
{
    const char *path = test_path (name);
    int status;
    const pid_t pid = fork ();
    if (!pid) {
        make (path);
        _exit (0);
    }
    waitpid (pid, &status, 0);
    assert_int_equal (status, 0);
    return path;
}

enum { VALUES = 1 << 14, ROWS = 6400 };

/* Patches that cannot be packed, of 400 MiB.  */
static void patches_make (const char *path)
{
    char head[128];
    memset (head, ' ', sizeof head);
    memcpy (head, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int n =
        snprintf (head + 10, sizeof head - 10,
                  "{'descr': '<f4', 'fortran_order': False, 'shape': (%u, %u), }", ROWS, VALUES);
    head[10 + n] = ' ';
    head[127] = '\n';
    FILE *file = fopen (path, "we");
    float *value = noise (VALUES * 50);
    assert_non_null (file);
    fwrite (head, 1, sizeof head, file);
    for (int i = 0; i < ROWS / 50; i++)
        fwrite (value, sizeof *value, VALUES * 50, file);
    free (value);
    assert_int_equal (fclose (file), 0);
}

/* ---- a large file ---------------------------------------------------------------------------- */

enum { LARGE_WIRES = 2048 }; /* an event: 47 MiB of waveforms */

/* Waveforms that take no disk: nothing is written where they lie. */
static void large_make (const char *path)
{
    const uint32_t n_event = (uint32_t) (proof_size (2, 20, 20) * 1024 / 47),
                   n = n_event * LARGE_WIRES;
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_ids (file, "event_table/event_id", n_event, 1);
    put_ids (file, "wire_table/event_id", n_event, LARGE_WIRES);
    put_column (file, "wire_table/local_plane", n, 1, 1);
    put_column (file, "wire_table/local_wire", n, 1, LARGE_WIRES);
    put_column (file, "wire_table/tpc", n, 1, 1);
    put_ids (file, "hit_table/event_id", n_event, HITS);
    put_column (file, "hit_table/tpc", n_event * HITS, 1, 1);
    put_column (file, "hit_table/local_plane", n_event * HITS, 1, 1);
    put_column (file, "hit_table/local_wire", n_event * HITS, 1, WIRES);
    put_column (file, "hit_table/local_time", n_event * HITS, 1, TICKS);
    put_column (file, "hit_table/hit_id", n_event * HITS, 1, HITS);
    const hsize_t dim[2] = { n, TICKS };
    hid_t list = H5Pcreate (H5P_DATASET_CREATE), space = H5Screate_simple (2, dim, NULL);
    H5Pset_alloc_time (list, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time (list, H5D_FILL_TIME_NEVER);
    hid_t data =
        H5Dcreate2 (file, "wire_table/adc", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    float one = 1;
    const hsize_t last[2] = { n - 1, TICKS - 1 }, single[2] = { 1, 1 };
    hid_t memory = H5Screate_simple (2, single, NULL);
    H5Sselect_hyperslab (space, H5S_SELECT_SET, last, NULL, single, NULL);
    assert (data >= 0 && H5Dwrite (data, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, &one) >= 0);
    H5Sclose (memory);
    H5Dclose (data);
    H5Sclose (space);
    H5Pclose (list);
    H5Fclose (file);
}

static long read_bytes (void)
{
    long bytes = 0;
    char line[100];
    FILE *file = fopen ("/proc/self/io", "re");
    while (file && fgets (line, sizeof line, file))
        if (!strncmp (line, "rchar:", 6))
            bytes = atol (line + 6);
    fclose (file);
    return bytes;
}

/* Reads three events by the index, in a process of its own. Exit code 0: as they are, with little
   memory, and of the file little else than they.  */
static int few_events_read (const char *path)
{
    wm_spec_t spec;
    wm_event_t event = { 0 };
    wm_error_t error = { 0 };
    assert (!wm_spec_preset (&spec, "protodune-2021", NULL));
    wm_reader_t *reader = wm_reader_open (path, &spec, &error);
    if (!reader)
        return fprintf (stderr, "%s\n", error.text), 1;
    const uint32_t last = wm_reader_n_event (reader) - 1, list[3] = { last, 0, last / 2 };
    const long before = read_bytes ();
    for (int i = 0; i < 3; i++) {
        if (wm_reader_event (reader, list[i], &event, &error))
            return fprintf (stderr, "%s\n", error.text), 1;
        if (event.n_hit != HITS || event.event != (int64_t) list[i] ||
            event.n_sample != (list[i] == last))
            return 2;
    }
    const long bytes = read_bytes () - before;
    wm_reader_destroy (&reader);
    wm_event_clear (&event);
    print_message ("  3 of %u events: %ld MiB read, %ld MiB of memory\n", last + 1, bytes >> 20,
                   most_kib () / MIB);
    if (bytes > (3 * 47 + 32) << 20)
        return 3;
    return BOUNDS && most_kib () > 96 * MIB ? 4 : 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void many_files_of_waveforms (void **state)
{
    const char *path = apart ("opensamples.h5", opensamples_make);
    const long one = campaign (path, 1, 16, 48 * 48), some = campaign (path, 16, 16, 48 * 48),
               many = campaign (path, 60, 16, 48 * 48);
    bounded (one, 0, 56);
    bounded (some, one, 60); /* 16 open files, and their payloads of 2 MB */
    bounded (many, some, 16);
}

static void many_small_files (void **state)
{
    const char *path = apart ("exchange.h5", small_make);
    const long one = campaign (path, 1, 16, 48 * 48),
               many = campaign (path, INPUTS_MAX, 128, 48 * 48);
    bounded (one, 0, 56);
    bounded (many, one, 128); /* 128 open files, and 32 MiB of caches */
}

static void a_long_file (void **state)
{
    const char *path = apart ("long.h5", long_make);
    bounded (campaign (path, 1, LAG, 48 * 48), 0, 68); /* caches of 32 */
}

static void payloads_that_wait (void **state)
{
    /* Of 400 MiB it keeps 96 and reads one event more; 56 has any producer.  */
    bounded (campaign (apart ("patches.npy", patches_make), 1, LAG, VALUES), 0, 256);
}

static void events_of_a_large_file (void **state)
{
    const char *path = apart ("large.h5", large_make);
    int status;
    const pid_t pid = fork ();
    if (!pid)
        _exit (few_events_read (path));
    waitpid (pid, &status, 0);
    assert_int_equal (status, 0);
}

static int teardown (void **state)
{
    test_folder_remove ();
    return 0;
}

#if BOUNDS
/* What this process may have of address space: what it has, and so much.  */
static void allow (rlim_t more)
{
    struct rlimit limit;
    unsigned long pages = 0;
    FILE *statm = fopen ("/proc/self/statm", "re");
    assert_int_equal (fscanf (statm, "%lu", &pages), 1);
    fclose (statm);
    assert_int_equal (getrlimit (RLIMIT_AS, &limit), 0);
    limit.rlim_cur = pages * (rlim_t) sysconf (_SC_PAGESIZE) + more;
    assert_int_equal (setrlimit (RLIMIT_AS, &limit), 0);
}

/* Where next to no address space is left, no file is to blame for what cannot be read.  */
static void no_memory_is_no_damage (void **state)
{
    char path[] = "/tmp/wm-memory-XXXXXX";
    wm_spec_t spec;
    struct rlimit before;
    const int fd = mkstemp (path);
    assert_int_equal (write (fd, "no events", 9), 9);
    close (fd);
    assert_int_equal (wm_spec_preset (&spec, "protodune-2021", NULL), WM_OK);
    assert_int_equal (getrlimit (RLIMIT_AS, &before), 0);
    wm_error_t error = { 0 };
    for (int is_tight = 0; is_tight < 2; is_tight++) {
        if (is_tight)
            allow (16u << 20);
        assert_null (wm_reader_open (path, &spec, &error));
        assert_int_equal (error.fault, is_tight ? WM_EHOST : WM_EBATCH);
    }
    assert_int_equal (setrlimit (RLIMIT_AS, &before), 0);
    assert_non_null (strstr (error.text, "too little memory to tell"));
    unlink (path);
}

/* With a little more address space each time: HDF5 has enough, or is not called.  */
static void little_memory (void **state)
{
    const char *path = apart ("long.h5", long_make);
    struct rlimit before;
    bool is_open = false;
    assert_int_equal (getrlimit (RLIMIT_AS, &before), 0);
    for (unsigned more = 0; more < 32 && !is_open; more++) {
        wm_error_t error = { 0 };
        allow ((rlim_t) more << 19);
        wm_h5_t *file = wm_h5_open (path, &error);
        is_open = file != NULL;
        assert_int_equal (error.fault, is_open ? WM_OK : WM_EHOST);
        wm_h5_close (&file);
    }
    assert_int_equal (setrlimit (RLIMIT_AS, &before), 0);
    assert_true (is_open);
}
#endif

int main (void)
{
    setenv ("WM_TIME_SCALE", "3", 1);
    wm_h5_init ();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (many_files_of_waveforms),
        cmocka_unit_test (many_small_files),
        cmocka_unit_test (a_long_file),
        cmocka_unit_test (payloads_that_wait),
        cmocka_unit_test (events_of_a_large_file),
#if BOUNDS
        cmocka_unit_test (no_memory_is_no_damage),
        cmocka_unit_test (little_memory),
#endif
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("producer memory", tests, NULL, teardown);
}
