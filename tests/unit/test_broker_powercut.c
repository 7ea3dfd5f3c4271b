/* test_broker_powercut.c - the journal on a disk that loses its power.

   A disk in memory that keeps what was synced and, of what was not, any part: each 512-byte sector
   of a write, the size of a file, a name made or removed, by the throw of a die. One life of a
   broker is a child process that replays, starts an epoch, appends and syncs until its power goes,
   in the middle of any operation. The next life must see every record that was synced or that a
   life before it has seen, no record that was never appended, and must not speak of damage.
   WM_POWERCUTS sets the number of lives, WM_SEED the die.  */
#include "broker/wm_journal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FILES 96
#define DATA_BYTES                                                                                 \
    (128u << 10) /* of a file that are kept; a write behind them meets a full disk                 \
                  */
#define SECTOR 512u
#define TAGS 8192
#define LIVES_A_WORLD 12 /* then a new, empty disk */

typedef struct {
    char name[32];
    int there, there_durably;
    int64_t size, size_durable;
    uint8_t dirty[DATA_BYTES / SECTOR];
    uint8_t data[DATA_BYTES], durable[DATA_BYTES];
} file_t;

/* Shared with the child of this life.  */
static struct {
    file_t file[FILES];
    uint64_t operations_left; /* until the power goes */
    uint64_t random;
    uint8_t appended[TAGS],
        certain[TAGS]; /* by tag: its append was begun; must be seen from now on */
    uint32_t n_tag;
    uint64_t n_seen, n_torn, n_swept;
} * world;

static uint32_t roll (uint32_t sides)
{
    world->random = world->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (world->random >> 33) % sides;
}

/* ---- the disk -------------------------------------------------------------------------------- */

enum { POWER_GONE = 9 };

static void tick (void)
{
    if (world->operations_left-- == 0)
        _exit (POWER_GONE);
}

static file_t *find (const char *path)
{
    const char *name = strrchr (path, '/') + 1;
    for (size_t i = 0; i < FILES; i++)
        if (world->file[i].there && strcmp (world->file[i].name, name) == 0)
            return &world->file[i];
    return NULL;
}

static int make_folder (void *context, const char *path)
{
    (void) context, (void) path;
    return 0;
}

static int list (void *context, const char *path, void (*each) (void *, const char *),
                 void *argument)
{
    (void) context, (void) path;
    for (size_t i = 0; i < FILES; i++)
        if (world->file[i].there)
            each (argument, world->file[i].name);
    return 0;
}

static int open_old (void *context, const char *path)
{
    (void) context;
    const file_t *file = find (path);
    errno = ENOENT;
    return file ? (int) (file - world->file) : -1;
}

static int create (void *context, const char *path)
{
    (void) context;
    tick ();
    errno = EEXIST;
    if (find (path))
        return -1;
    for (size_t i = 0; i < FILES; i++) {
        file_t *file = &world->file[i];
        if (file->there || file->there_durably)
            continue;
        memset (file, 0, sizeof *file);
        snprintf (file->name, sizeof file->name, "%s", strrchr (path, '/') + 1);
        file->there = 1;
        return (int) i;
    }
    errno = ENOSPC;
    return -1;
}

static int close_file (void *context, int fd)
{
    (void) context, (void) fd;
    return 0;
}

static int64_t size_of (void *context, int fd)
{
    (void) context;
    return world->file[fd].size;
}

static int allocate (void *context, int fd, int64_t offset, int64_t bytes)
{
    (void) context;
    tick ();
    if (roll (8) == 0) {
        errno = ENOSPC;
        return -1;
    }
    /* A smaller world than the journal's steps of 16 MiB, so that a life takes milliseconds.  */
    const int64_t size = offset + bytes;
    world->file[fd].size = size < 2 * DATA_BYTES ? size : 2 * DATA_BYTES;
    return 0;
}

static ssize_t read_at (void *context, int fd, void *buffer, size_t bytes, int64_t offset)
{
    (void) context;
    const file_t *file = &world->file[fd];
    if (offset >= file->size)
        return 0;
    if ((int64_t) bytes > file->size - offset)
        bytes = (size_t) (file->size - offset);
    memset (buffer, 0, bytes);
    if (offset < DATA_BYTES)
        memcpy (buffer, file->data + offset,
                bytes < DATA_BYTES - (size_t) offset ? bytes : DATA_BYTES - (size_t) offset);
    return (ssize_t) bytes;
}

static ssize_t write_at (void *context, int fd, const void *buffer, size_t bytes, int64_t offset)
{
    (void) context;
    tick ();
    file_t *file = &world->file[fd];
    errno = ENOSPC;
    if ((uint64_t) offset + bytes > DATA_BYTES)
        return -1;
    if (bytes > 1 && roll (20) == 0)
        bytes /= 2;
    memcpy (file->data + offset, buffer, bytes);
    for (uint64_t at = (uint64_t) offset / SECTOR; at <= ((uint64_t) offset + bytes - 1) / SECTOR;
         at++)
        file->dirty[at] = 1;
    if (offset + (int64_t) bytes > file->size)
        file->size = offset + (int64_t) bytes;
    return (ssize_t) bytes;
}

static int sync_file (void *context, int fd)
{
    (void) context;
    tick ();
    file_t *file = &world->file[fd];
    for (size_t i = 0; i < sizeof file->dirty; i++)
        if (file->dirty[i])
            memcpy (file->durable + i * SECTOR, file->data + i * SECTOR, SECTOR);
    memset (file->dirty, 0, sizeof file->dirty);
    file->size_durable = file->size;
    return 0;
}

static int forget (void *context, int fd)
{
    (void) context, (void) fd;
    return 0;
}

static int sync_folder (void *context, const char *path)
{
    (void) context, (void) path;
    tick ();
    for (size_t i = 0; i < FILES; i++)
        world->file[i].there_durably = world->file[i].there;
    return 0;
}

static int remove_file (void *context, const char *path)
{
    (void) context;
    tick ();
    find (path)->there = 0;
    return 0;
}

static const wm_storage_ops_t ops = {
    .make_folder = make_folder,
    .list = list,
    .create = create,
    .open = open_old,
    .close = close_file,
    .size = size_of,
    .allocate = allocate,
    .read = read_at,
    .write = write_at,
    .sync = sync_file,
    .forget = forget,
    .sync_folder = sync_folder,
    .remove = remove_file,
};

/* The power comes back: what was not synced is there or not. The same after a kill, where all of
   it is there, but still not durable.  */
static void come_back (int is_power_cut)
{
    for (size_t i = 0; i < FILES && is_power_cut; i++) {
        file_t *file = &world->file[i];
        if (file->there != file->there_durably && roll (2))
            file->there = file->there_durably;
        file->there_durably = file->there;
        if (roll (2))
            file->size = file->size_durable;
        file->size_durable = file->size;
        for (size_t at = 0; at < sizeof file->dirty; at++)
            if (file->dirty[at]) {
                uint8_t *data = file->data + at * SECTOR, *durable = file->durable + at * SECTOR;
                if (roll (2))
                    memcpy (data, durable, SECTOR);
                else
                    memcpy (durable, data, SECTOR);
                file->dirty[at] = 0;
            }
    }
}

/* ---- one life -------------------------------------------------------------------------------- */

static uint8_t seen[TAGS];

#define MUST(condition)                                                                            \
    do                                                                                             \
        if (!(condition)) {                                                                        \
            fprintf (stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                       \
            _exit (1);                                                                             \
        }                                                                                          \
    while (0)

static wm_fault_t see (void *argument, const wm_record_t *record, const wm_place_t *place,
                       wm_error_t *error)
{
    (void) argument, (void) place, (void) error;
    MUST (record->attempt < TAGS && world->appended[record->attempt]);
    seen[record->attempt] = 1;
    world->n_seen++;
    return WM_OK;
}

static uint8_t payload[8192];

static uint32_t append (wm_journal_t *journal, uint32_t input, wm_record_type_t type)
{
    wm_record_t record;
    wm_record_init (&record, type);
    record.key.input = input;
    record.attempt = world->n_tag++;
    MUST (world->n_tag <= TAGS);
    record.payload = payload;
    record.payload_bytes = type == WM_RECORD_RESULT ? roll (sizeof payload) : 0;
    world->appended[record.attempt] = 1;
    const wm_fault_t fault = wm_journal_append (journal, &record, NULL, NULL);
    MUST (fault == WM_OK || fault == WM_EAGAIN);
    return fault == WM_OK ? record.attempt : 0;
}

static void live (void)
{
    wm_journal_found_t found;
    wm_journal_t *journal = wm_journal_open ("/x", &ops, NULL);
    MUST (journal);
    MUST (wm_journal_replay (journal, 0, 0, see, NULL, &found, NULL) == WM_OK);
    if (found.n_lost)
        fprintf (stderr, "%s\n", found.text);
    MUST (found.n_lost == 0);
    world->n_torn += found.n_torn;
    for (uint32_t tag = 1; tag < world->n_tag; tag++) {
        MUST (seen[tag] || !world->certain[tag]);
        world->certain[tag] |= seen[tag] && world->certain[tag] == 0;
    }
    if (wm_journal_start (journal, wm_journal_epoch (journal) + 1, NULL) != WM_OK)
        _exit (0);
    uint32_t waiting[64], n_waiting = 0;
    for (uint32_t i = 0, n = roll (60); i < n; i++) {
        const uint32_t tag =
            append (journal, 1 + roll (3), roll (4) ? WM_RECORD_RESULT : WM_RECORD_INPUT);
        if (tag)
            waiting[n_waiting++] = tag;
        if (roll (6))
            continue;
        wm_journal_sync (journal);
        while (n_waiting)
            world->certain[waiting[--n_waiting]] = 1;
    }
    _exit (0);
}

/* As live, but the results of its past are of no use to anybody: segments are swept.  */
static void live_and_sweep (void)
{
    wm_journal_found_t found;
    wm_journal_t *journal = wm_journal_open ("/x", &ops, NULL);
    MUST (journal);
    MUST (wm_journal_replay (journal, 0, 0, see, NULL, &found, NULL) == WM_OK);
    MUST (found.n_lost == 0);
    if (wm_journal_start (journal, wm_journal_epoch (journal) + 1, NULL) != WM_OK)
        _exit (0);
    memset (world->certain, 0, sizeof world->certain);
    for (uint32_t i = 0; i < 10; i++)
        append (journal, 2, roll (2) ? WM_RECORD_RESULT : WM_RECORD_INPUT);
    world->n_swept += wm_journal_sweep (journal);
    append (journal, 2, WM_RECORD_INPUT);
    wm_journal_sync (journal);
    _exit (0);
}

static uint64_t number_from (const char *name, uint64_t otherwise)
{
    const char *text = getenv (name);
    return text ? strtoull (text, NULL, 10) : otherwise;
}

static void power_cuts (void **state)
{
    (void) state;
    const uint64_t n_lives = number_from ("WM_POWERCUTS", 600), seed = number_from ("WM_SEED", 1);
    memset (payload, 0x5a, sizeof payload);
    uint64_t n_cut = 0, n_seen = 0, n_torn = 0, n_swept = 0;
    for (uint64_t life = 0; life < n_lives; life++) {
        if (life % LIVES_A_WORLD == 0) {
            if (world)
                munmap (world, sizeof *world);
            world = mmap (NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                          -1, 0);
            assert_true (world != MAP_FAILED);
            world->random = seed * 1000003 + life;
            world->n_tag = 1;
        }
        world->n_seen = world->n_torn = world->n_swept = 0;
        world->operations_left = roll (4) ? roll (120) : 1000;
        fflush (NULL);
        const pid_t child = fork ();
        if (child == 0) {
            if (roll (5) == 0)
                live_and_sweep ();
            live ();
        }
        int status;
        assert_int_equal (waitpid (child, &status, 0), child);
        if (!WIFEXITED (status) || WEXITSTATUS (status) == 1)
            fail_msg ("WM_SEED=%llu, life %llu", (unsigned long long) seed,
                      (unsigned long long) life);
        n_cut += WEXITSTATUS (status) == POWER_GONE;
        n_seen += world->n_seen;
        n_torn += world->n_torn;
        n_swept += world->n_swept;
        come_back (roll (4) != 0);
    }
    printf ("journal: %llu lives, %llu cut inside an operation: %llu records seen again, %llu torn "
            "off, %llu segments swept, none lost\n",
            (unsigned long long) n_lives, (unsigned long long) n_cut, (unsigned long long) n_seen,
            (unsigned long long) n_torn, (unsigned long long) n_swept);
    assert_true (n_lives < 100 || (n_cut > n_lives / 5 && n_torn > 0 && n_swept > 0));
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (power_cuts) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
