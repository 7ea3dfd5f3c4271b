/* test_broker_powercut.c - the journal on a disk that loses its power.

   The disk is tests/powercut.h. One life of a broker is a child process that replays, starts an
   epoch, appends and syncs until its power goes, in the middle of any operation. The next life must
   see every record that was synced or that a life before it has seen, no record that was never
   appended, and must not speak of damage. WM_POWERCUTS sets the number of lives, WM_SEED the die.
 */
#include "tests/powercut.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAGS 8192
#define LIVES_A_WORLD 12 /* then a new, empty disk */

/* Shared with the child of this life.  */
static struct {
    disk_t disk;
    uint8_t appended[TAGS],
        certain[TAGS]; /* by tag: its append was begun; must be seen from now on */
    uint32_t n_tag;
    uint64_t n_seen, n_torn, n_swept;
} * world;

enum { POWER_GONE = 9 };

static void disk_power_gone (void)
{
    _exit (POWER_GONE);
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
    record.payload_bytes = type == WM_RECORD_RESULT ? disk_roll (sizeof payload) : 0;
    world->appended[record.attempt] = 1;
    const wm_fault_t fault = wm_journal_append (journal, &record, NULL, NULL);
    MUST (fault == WM_OK || fault == WM_EAGAIN);
    for (size_t i = 0; i < DISK_FILES; i++) /* no segment grows above its limit */
        MUST (disk->file[i].touched * DISK_SECTOR <= disk_ops.segment_bytes_max);
    return fault == WM_OK ? record.attempt : 0;
}

static void live (void)
{
    wm_journal_found_t found;
    wm_journal_t *journal = wm_journal_open ("/x", &disk_ops, NULL);
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
    for (uint32_t i = 0, n = disk_roll (60); i < n; i++) {
        const uint32_t tag =
            append (journal, 1 + disk_roll (3), disk_roll (4) ? WM_RECORD_RESULT : WM_RECORD_INPUT);
        if (tag)
            waiting[n_waiting++] = tag;
        if (disk_roll (6))
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
    wm_journal_t *journal = wm_journal_open ("/x", &disk_ops, NULL);
    MUST (journal);
    MUST (wm_journal_replay (journal, 0, 0, see, NULL, &found, NULL) == WM_OK);
    MUST (found.n_lost == 0);
    if (wm_journal_start (journal, wm_journal_epoch (journal) + 1, NULL) != WM_OK)
        _exit (0);
    memset (world->certain, 0, sizeof world->certain);
    for (uint32_t i = 0; i < 10; i++)
        append (journal, 2, disk_roll (2) ? WM_RECORD_RESULT : WM_RECORD_INPUT);
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
            disk = &world->disk;
            disk->full_one_in = 8;
            disk->short_one_in = 20;
            disk->random = seed * 1000003 + life;
            world->n_tag = 1;
        }
        world->n_seen = world->n_torn = world->n_swept = 0;
        disk->operations_left = disk_roll (4) ? disk_roll (120) : 1000;
        fflush (NULL);
        const pid_t child = fork ();
        if (child == 0) {
            if (disk_roll (5) == 0)
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
        disk_come_back (disk_roll (4) != 0);
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
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
