/* test_producer_powercut.c - an output that the broker was told of survives a power cut.

   The real producer works on a real file, with a broker that fake_broker.h plays. Its system calls
   on the folder `world` are done, and recorded: what a power cut may undo is a file's bytes that no
   fsync of the file followed, and a name (made, or renamed) that no fsync of its folder followed.
   A state of the disk is legal after a cut if it lacks any part of these. So all legal states hold
   an output, whole and in place, if and only if nothing of the file, of its name and of the names
   of the folders above it can be undone; that is what is checked

   - when a file is renamed to its final name: its bytes (else a cut leaves a damaged file in the
     way, which the next producer refuses as a foreign one);
   - when FILE_WRITTEN arrives: all of it, and its bytes against the digest in the message.

   Then every fsync, rename and mkdir fails once: no FILE_WRITTEN may follow; nor where the broker
   sends data other than those announced.  */
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include "tests/unit/fake_broker.h"
#include "producer/session/wm_produce.h"
#include "schema/base/wm_folder.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <xxhash.h>

#define N_HIT 3000u

/* ---- what a power cut may undo --------------------------------------------------------------- */

typedef struct {
    char path[200];
    bool unsynced; /* its bytes */
    bool unnamed;  /* its name in its folder */
} entry_t;

static struct {
    char path[100]; /* "": nothing is recorded */
    entry_t entry[64];
    int n_entry;
    int steps, failing; /* fsync, rename, mkdir so far; the one that fails, from 1, or 0 */
    char broken[400];   /* the first promise that was broken */
    int n_told, n_write;
} world;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__ ((format (printf, 1, 2))) static void broke (const char *format, ...)
{
    va_list list;
    va_start (list, format);
    if (!world.broken[0])
        vsnprintf (world.broken, sizeof world.broken, format, list);
    va_end (list);
}

/* NULL: not in the world, or unknown there and `made` is false.  */
static entry_t *entry_of (const char *path, bool made)
{
    const size_t n = strlen (world.path);
    if (!n || strncmp (path, world.path, n) || path[n] != '/')
        return NULL;
    for (int i = 0; i < world.n_entry; i++)
        if (!strcmp (world.entry[i].path, path))
            return &world.entry[i];
    if (!made || world.n_entry == 64)
        return NULL;
    entry_t *entry = &world.entry[world.n_entry++];
    snprintf (entry->path, sizeof entry->path, "%s", path);
    entry->unsynced = entry->unnamed = true;
    return entry;
}

static void path_of (int fd, char path[200])
{
    char link[40];
    snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink (link, path, 199);
    path[n < 0 ? 0 : n] = 0;
}

/* One more of the calls that can fail; true: this one does.  */
static bool fails (const char *path)
{
    const size_t n = strlen (world.path);
    if (!n || strncmp (path, world.path, n) || ++world.steps != world.failing)
        return false;
    errno = EIO;
    return true;
}

static void bytes_changed (int fd)
{
    const int kept = errno;
    char path[200];
    pthread_mutex_lock (&lock);
    if (world.path[0]) {
        path_of (fd, path);
        entry_t *entry = entry_of (path, false);
        if (entry) {
            entry->unsynced = true;
            world.n_write++;
        }
    }
    pthread_mutex_unlock (&lock);
    errno = kept;
}

/* The real call is not needed, and slow on a busy disk.  */
static int synced (int fd)
{
    char path[200];
    pthread_mutex_lock (&lock);
    path_of (fd, path);
    const bool failed = fails (path);
    for (int i = 0; i < world.n_entry && !failed; i++) {
        entry_t *entry = &world.entry[i];
        const size_t n = strlen (path);
        if (!strcmp (entry->path, path))
            entry->unsynced = false;
        if (!strncmp (entry->path, path, n) && entry->path[n] == '/' &&
            !strchr (entry->path + n + 1, '/'))
            entry->unnamed = false;
    }
    pthread_mutex_unlock (&lock);
    return failed ? -1 : 0;
}

/* Bytes and name of the file and the names of the folders above it.  */
static void must_stay (const char *path)
{
    char at[200];
    snprintf (at, sizeof at, "%s", path);
    const entry_t *entry = entry_of (path, false);
    if (!entry || entry->unsynced)
        broke ("FILE_WRITTEN of %s, whose bytes a power cut may undo", path);
    for (; entry; entry = entry_of (at, false)) {
        if (entry->unnamed)
            broke ("FILE_WRITTEN of %s, and a power cut may undo the name %s", path, at);
        *strrchr (at, '/') = 0;
    }
}

/* ---- in the place of the C library's --------------------------------------------------------- */

static int opened (const char *path, int flags, mode_t mode)
{
    const bool is_new = flags & O_CREAT && access (path, F_OK);
    const int fd = (int) syscall (SYS_openat, AT_FDCWD, path, flags, mode);
    const int kept = errno;
    pthread_mutex_lock (&lock);
    entry_t *entry = fd >= 0 && is_new ? entry_of (path, true) : NULL;
    if (entry)
        entry->unnamed = entry->unsynced = true;
    pthread_mutex_unlock (&lock);
    if (fd >= 0 && flags & O_TRUNC)
        bytes_changed (fd);
    errno = kept;
    return fd;
}

#define OPEN(name)                                                                                 \
    int name (const char *path, int flags, ...)                                                    \
    {                                                                                              \
        va_list list;                                                                              \
        va_start (list, flags);                                                                    \
        const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg (list, mode_t) : 0;             \
        va_end (list);                                                                             \
        return opened (path, flags, mode);                                                         \
    }
#define WRITE(name)                                                                                \
    ssize_t name (int fd, const void *from, size_t bytes, off_t at)                                \
    {                                                                                              \
        bytes_changed (fd);                                                                        \
        return syscall (SYS_pwrite64, fd, from, bytes, at);                                        \
    }
#define SIZE(name)                                                                                 \
    int name (int fd, off_t size)                                                                  \
    {                                                                                              \
        bytes_changed (fd);                                                                        \
        return (int) syscall (SYS_ftruncate, fd, size);                                            \
    }
/* clang-format off */
OPEN (open)
OPEN (open64)
WRITE (pwrite)
WRITE (pwrite64)
SIZE (ftruncate)
SIZE (ftruncate64)
/* clang-format on */

ssize_t write (int fd, const void *from, size_t bytes)
{
    bytes_changed (fd);
    return syscall (SYS_write, fd, from, bytes);
}

int fsync (int fd)
{
    return synced (fd);
}

int fdatasync (int fd)
{
    return synced (fd);
}

int mkdir (const char *path, mode_t mode)
{
    pthread_mutex_lock (&lock);
    const bool failed = fails (path);
    const int result = failed ? -1 : (int) syscall (SYS_mkdirat, AT_FDCWD, path, mode);
    const int kept = errno;
    if (!result)
        entry_of (path, true);
    pthread_mutex_unlock (&lock);
    errno = kept;
    return result;
}

int rename (const char *from, const char *to)
{
    pthread_mutex_lock (&lock);
    const bool failed = fails (from);
    const int result = failed ? -1 : (int) syscall (SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    const int kept = errno;
    entry_t *moved = result ? NULL : entry_of (from, false), *old = entry_of (to, false);
    if (moved) {
        if (moved->unsynced)
            broke ("%s gets its name while a power cut may undo its bytes", to);
        if (old)
            old->path[0] = 0;
        snprintf (moved->path, sizeof moved->path, "%s", to);
        moved->unnamed = true;
    }
    pthread_mutex_unlock (&lock);
    errno = kept;
    return result;
}

/* ---- the broker ------------------------------------------------------------------------------ */

static struct {
    char name[256];
    wm_manifest_batch_t batch[64];
    uint32_t n_batch;
    bool wrong_results, wrong_need; /* what the broker sends has another digest */
    int n_held;
} input;

static void digest_check (const wm_msg_t *msg, const char *path)
{
    static uint8_t bytes[4 << 20];
    XXH128_canonical_t digest = { { 0 } };
    FILE *file = fopen (path, "rb");
    const size_t n = file ? fread (bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose (file);
    XXH128_canonicalFromHash (&digest, XXH3_128bits (bytes, n));
    if (!n || n != msg->size || memcmp (digest.digest, msg->digest, 16))
        broke ("FILE_WRITTEN of %s, which does not have these bytes", path);
}

static void play (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    wm_msg_t answer;
    char path[200];
    if (!msg)
        return;
    switch (msg->type) {
    case WM_MSG_HELLO:
        fake_welcome (self);
        return;
    case WM_MSG_INPUT:
        if (world.n_told) {
            broke ("%s is not what the broker was told of", input.name);
            fake_code (self, WM_MSG_DRAIN, 0, "");
            return;
        }
        wm_msg_init (&answer, WM_MSG_INPUT_ACK);
        answer.key = (wm_key_t){ .input = 1, .generation = 1 };
        answer.code = msg->code ? WM_INPUT_CLAIMED : WM_INPUT_OPEN;
        snprintf (input.name, sizeof input.name, "%s", msg->name);
        snprintf (answer.name, sizeof answer.name, "%s", msg->name);
        snprintf (answer.path, sizeof answer.path, "%s", msg->path);
        fake_send (self, &answer, NULL, 0);
        return;
    case WM_MSG_SUBMIT: /* all of it is known already */
        assert (msg->n_batch <= 64 && bytes >= msg->n_batch * sizeof *input.batch);
        memcpy (input.batch, payload, msg->n_batch * sizeof *input.batch);
        input.n_batch = msg->n_batch;
        wm_msg_init (&answer, input.wrong_need ? WM_MSG_NEED : WM_MSG_EVENT_DONE);
        answer.key = msg->key;
        fake_send (self, &answer, NULL, 0);
        if (!input.wrong_need)
            fake_send (self, &answer, NULL, 0); /* twice counts once */
        return;
    case WM_MSG_BATCH: /* of the wrong NEED */
        fake_code (self, WM_MSG_DRAIN, 0, "");
        return;
    case WM_MSG_INPUT_HELD:
        input.n_held++;
        fake_code (self, WM_MSG_DRAIN, 0, "");
        return;
    case WM_MSG_FETCH:
        for (uint32_t b = msg->key.batch; b < input.n_batch; b++) {
            static const uint8_t scores[1 << 16];
            wm_msg_init (&answer, WM_MSG_RESULTS);
            answer.key = msg->key;
            answer.key.batch = b;
            answer.n_hit = input.batch[b].n_hit;
            memcpy (answer.digest, input.batch[b].digest, 16);
            answer.digest[15] ^= input.wrong_results;
            strcpy (answer.text, "sparse/avx2");
            fake_send (self, &answer, scores, wm_result_bytes (answer.n_hit, self->pins.n_output));
        }
        return;
    case WM_MSG_FILE_WRITTEN:
        snprintf (path, sizeof path, "%.120s/%.60s", self->pins.output, input.name);
        pthread_mutex_lock (&lock);
        world.n_told++;
        must_stay (path);
        pthread_mutex_unlock (&lock);
        digest_check (msg, path);
        /* fall through */
    case WM_MSG_INPUT_END:
        wm_msg_init (&answer, WM_MSG_ACK);
        answer.key = (wm_key_t){ .input = 1, .generation = 1 };
        answer.code = msg->type;
        fake_send (self, &answer, NULL, 0);
        return;
    default:
        return;
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void world_begin (const char *path, int failing)
{
    pthread_mutex_lock (&lock);
    memset (&world, 0, sizeof world);
    snprintf (world.path, sizeof world.path, "%s", path);
    world.failing = failing;
    pthread_mutex_unlock (&lock);
}

static void world_end (void)
{
    char command[140];
    snprintf (command, sizeof command, "rm -rf '%s'", world.path);
    world.path[0] = 0;
    assert_int_equal (system (command), 0);
}

/* A campaign of one input, in the folder world/out; returns the exit code of its producer.  */
static int produce (int failing, bool folder_is_there)
{
    const char *path = test_path ("hits.h5");
    fake_t *broker = fake_new (test_folder, play, NULL);
    char root[100];
    snprintf (root, sizeof root, "%s/world", test_folder);
    assert_int_equal (mkdir (root, 0777), 0);
    world_begin (root, failing);
    snprintf (broker->pins.output, sizeof broker->pins.output, "%s/out", root);
    broker->pins.n_value = 2;
    if (folder_is_there) /* whoever made it was killed, perhaps before it was synced */
        assert_int_equal (mkdir (broker->pins.output, 0777), 0);
    world.steps = 0;
    fake_start (broker);
    const int code = wm_produce (&(wm_produce_options_t){ .broker = broker->endpoint,
                                                          .give_up_ms = 10000,
                                                          .quiet = true,
                                                          .input = &path,
                                                          .n_input = 1 });
    fake_destroy (&broker);
    if (world.broken[0])
        fail_msg ("step %d failing: %s", failing, world.broken);
    return code;
}

static int setup (void **state)
{
    float *value = calloc (N_HIT, 8);
    for (uint32_t i = 0; i < 2 * N_HIT; i++)
        value[i] = (float) (i % 250 + 1);
    hid_t file = H5Fcreate (test_path ("hits.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_f32 (file, "patches", N_HIT, 2, value);
    H5Fclose (file);
    free (value);
    return 0;
}

static int teardown (void **state)
{
    test_folder_remove ();
    return 0;
}

static void what_the_broker_was_told_stays (void **state)
{
    for (int there = 0; there < 2; there++) {
        assert_int_equal (produce (0, there), 0);
        assert_int_equal (world.n_told, 1);
        assert_true (world.n_write > 0); /* the library's writes are seen */
        world_end ();
    }
}

static void no_word_after_a_failure (void **state)
{
    int failing = 1;
    for (; produce (failing, false); failing++) {
        assert_int_equal (world.n_told, 0);
        assert_int_equal (world.steps, failing); /* nothing is tried again after it */
        world_end ();
    }
    world_end ();
    assert_true (failing > 5); /* mkdir, its parent's fsync; fsync, rename, fsync */
}

/* Results or NEEDs of other data than this producer announced.  */
static void other_data_is_not_written (void **state)
{
    input.wrong_results = true;
    assert_int_equal (produce (0, false), 1);
    assert_int_equal (world.n_told, 0);
    world_end ();
    input.wrong_results = false;
    input.wrong_need = true;
    assert_int_not_equal (produce (0, false), 0);
    assert_int_equal (world.n_told, 0);
    assert_int_equal (input.n_held, 1);
    world_end ();
    input.wrong_need = false;
}

static void a_folder_is_named_for_ever (void **state)
{
    char root[100], path[200];
    wm_error_t error;
    snprintf (root, sizeof root, "%s/folders", test_folder);
    assert_int_equal (mkdir (root, 0777), 0);
    world_begin (root, 0);
    snprintf (path, sizeof path, "%s/a/b/c", root);
    assert_int_equal (wm_folder_make (path, 0777, &error), WM_OK);
    assert_int_equal (world.n_entry, 3);
    for (int i = 0; i < 3; i++)
        if (world.entry[i].unnamed)
            fail_msg ("a power cut may undo the name %s", world.entry[i].path);
    world_end ();
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (what_the_broker_was_told_stays),
        cmocka_unit_test (no_word_after_a_failure),
        cmocka_unit_test (other_data_is_not_written),
        cmocka_unit_test (a_folder_is_named_for_ever),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("producer power cut", tests, setup, teardown);
}
