/* test_broker_campaign.c - one master at a time, whoever comes, however the last one ended.

   In a race several processes want one campaign at the same moment. Each that gets it begins an
   epoch, journals a few records and ends well or is killed. WM_SEED is the die.  */
#include "broker/campaign/wm_campaign.h"
#include "broker/campaign/wm_rebuild.h"
#include "broker/campaign/wm_restore.h"
#include "tests/proof.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNNERS 4

/* Shared with the runners.  */
static struct {
    atomic_int ready, go, masters, most; /* most: masters at one time */
    atomic_uint n_input;                 /* acknowledged */
} * race;

static char dir[64];
static wm_error_t error;
static wm_pins_t pins = { .precision = "fp32",
                          .n_output = 4,
                          .n_value = 1,
                          .batch_hits = 5,
                          .batch_bytes = 4096,
                          .output = "/out",
                          .spec = "none: 0\n" };

static int set_up (void **state)
{
    memset (pins.model, 'a', 64);
    memset (pins.wmm, 'b', 64);
    race = mmap (NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    strcpy (dir, "/tmp/wm-campaign-XXXXXX");
    return race == MAP_FAILED || !mkdtemp (dir) ? -1 : 0;
}

static int tear_down (void **state)
{
    char command[128];
    munmap (race, sizeof *race);
    snprintf (command, sizeof command, "rm -rf %s", dir);
    return system (command);
}

/* 0: was master, and ended well; 75: another was; 1: a fault.  */
static int runner (int is_killed)
{
    static wm_campaign_t campaign;
    atomic_fetch_add (&race->ready, 1);
    while (!atomic_load (&race->go))
        usleep (50);
    wm_fault_t fault = wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error);
    if (fault == WM_EAGAIN)
        return WM_EXIT_AGAIN;
    const int masters = atomic_fetch_add (&race->masters, 1) + 1;
    if (masters > atomic_load (&race->most))
        atomic_store (&race->most, masters);
    if (fault || wm_campaign_open (&campaign, NULL, NULL, &error) ||
        wm_campaign_start (&campaign, &pins, &error)) {
        fprintf (stderr, "%s\n", error.text);
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        char path[64];
        wm_record_t record;
        wm_record_init (&record, WM_RECORD_INPUT);
        record.key.input = atomic_load (&race->n_input) + 1;
        snprintf (path, sizeof path, "/in/%u.h5", record.key.input);
        wm_record_text (&record, path);
        record.name = "x.scores.h5";
        record.name_bytes = 11;
        if (wm_campaign_record (&campaign, &record, &error))
            return 1;
        atomic_fetch_add (&race->n_input, 1);
    }
    usleep (3000); /* the others come while it is here */
    atomic_fetch_sub (&race->masters, 1);
    if (is_killed)
        raise (SIGKILL);
    if (wm_ledger_commit (campaign.ledger, &error))
        return 1;
    wm_campaign_close (&campaign);
    return 0;
}

static void count_input (void *argument, const wm_ledger_input_t *input)
{
    char path[64];
    unsigned *n = argument;
    snprintf (path, sizeof path, "/in/%u.h5", ++*n);
    assert_int_equal (input->id, *n);
    assert_string_equal (input->path, path);
}

static void races (void **state)
{
    const char *seed = getenv ("WM_SEED");
    const unsigned long n = proof_size (20, 200, 2000);
    const double start = proof_clock ();
    unsigned long survived = 0;
    srandom (seed ? (unsigned) strtoul (seed, NULL, 10) : 1);
    for (unsigned long i = 0; i < n; i++) {
        int n_master = 0, n_other = 0, status;
        atomic_store (&race->ready, 0);
        atomic_store (&race->go, 0);
        atomic_store (&race->masters, 0);
        fflush (NULL);
        for (int r = 0; r < RUNNERS; r++) {
            const int is_killed = random () % 2 != 0;
            if (fork () == 0)
                _exit (runner (is_killed));
        }
        while (atomic_load (&race->ready) < RUNNERS)
            usleep (50);
        atomic_store (&race->go, 1);
        while (wait (&status) > 0) {
            const int again = WIFEXITED (status) && WEXITSTATUS (status) == WM_EXIT_AGAIN;
            const int ended = (WIFEXITED (status) && WEXITSTATUS (status) == 0) ||
                              (WIFSIGNALED (status) && WTERMSIG (status) == SIGKILL);
            n_other += again;
            n_master += ended;
        }
        survived +=
            n_master >= 1 && n_master + n_other == RUNNERS && atomic_load (&race->most) == 1;
    }
    static wm_campaign_t campaign;
    unsigned n_input = 0;
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), WM_OK);
    assert_int_equal (campaign.found.n_lost, 0);
    assert_int_equal (wm_ledger_load (campaign.ledger, NULL,
                                      &(wm_ledger_load_t){ .input = count_input }, &n_input, NULL,
                                      &error),
                      WM_OK);
    wm_campaign_close (&campaign);
    assert_int_equal (n_input, atomic_load (&race->n_input)); /* none lost, none twice */
    proof_line ("P17", n, survived, start);
    assert_int_equal (survived, n);
}

/* ---- what is done takes a row ---------------------------------------------------------------- */

static size_t heap_bytes (void)
{
    const struct mallinfo2 info = mallinfo2 ();
    return info.uordblks + info.hblkhd;
}

static void add (wm_campaign_t *campaign, wm_record_type_t type, uint32_t id, uint32_t batch)
{
    static uint8_t scores[1024];
    char path[64];
    wm_record_t record;
    wm_place_t place;
    snprintf (path, sizeof path, "/data/in/events-%06u.h5", id);
    wm_record_init (&record, type);
    record.key = (wm_key_t){ id, batch == WM_ALL ? WM_ALL : 0, batch, 0 };
    record.n_batch = 8;
    record.n_event = 1;
    wm_record_text (&record, type == WM_RECORD_INPUT ? path : "bench/null/v1");
    if (type == WM_RECORD_INPUT) {
        record.name = path + 9;
        record.name_bytes = (uint32_t) strlen (path + 9);
    }
    if (type == WM_RECORD_RESULT) {
        record.payload = scores;
        record.payload_bytes = sizeof scores;
    }
    assert_int_equal (wm_journal_append (campaign->journal, &record, &place, &error), WM_OK);
    wm_ledger_apply (campaign->ledger, &record, &place);
}

/* Runs the inputs after the first n: scored and written, one of ten held.  */
static void run_inputs (wm_campaign_t *campaign, uint32_t n, uint32_t more)
{
    for (uint32_t id = n + 1; id <= n + more; id++) {
        add (campaign, WM_RECORD_INPUT, id, 0);
        for (uint32_t batch = 0; batch < 8; batch++)
            add (campaign, WM_RECORD_RESULT, id, batch);
        if (id % 10 == 0)
            add (campaign, WM_RECORD_HELD, id, WM_ALL);
        else {
            add (campaign, WM_RECORD_INPUT_END, id, 0);
            add (campaign, WM_RECORD_FILE_WRITTEN, id, 0);
        }
        if (id % 50)
            continue;
        wm_journal_sync (campaign->journal);
        assert_int_equal (wm_ledger_commit (campaign->ledger, &error), WM_OK);
        wm_journal_sweep (campaign->journal);
    }
}

/* Ten times the work leaves its rows, and nothing else: on disk and in memory.  */
static void finished_work (void **state)
{
    static wm_campaign_t campaign;
    const uint32_t n = (uint32_t) proof_size (200, 5000, 100000);
    uint64_t journal[2], ledger[2];
    size_t heap[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
        assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), WM_OK);
        assert_int_equal (wm_campaign_start (&campaign, &pins, &error), WM_OK);
        run_inputs (&campaign, i ? n : 0, i ? 9 * n : n);
        wm_campaign_close (&campaign);
        /* As the next broker has it.  */
        const size_t before = heap_bytes ();
        assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
        assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), WM_OK);
        assert_int_equal (wm_campaign_start (&campaign, &pins, &error), WM_OK);
        const wm_core_sink_t sink = { .context = NULL };
        wm_core_t *core =
            wm_core_new (&(wm_core_config_t){ .pins = "", .times = *wm_times () }, &sink);
        assert_int_equal (wm_restore (core, campaign.ledger, campaign.journal, NULL, &error),
                          WM_OK);
        wm_journal_sweep (campaign.journal);
        heap[i] = heap_bytes () - before;
        journal[i] = wm_journal_bytes (campaign.journal);
        ledger[i] = wm_ledger_bytes (campaign.ledger);
        wm_core_destroy (&core);
        wm_campaign_close (&campaign);
    }
    const double inputs = 9.0 * n;
    printf (
        "finished work: %u inputs more take %.0f bytes each of journal (they had %u of results), "
        "%.0f of ledger, %.0f of memory\n",
        9 * n, (double) (journal[1] - journal[0]) / inputs, 8 * 1024,
        (double) (ledger[1] - ledger[0]) / inputs, (double) (heap[1] - heap[0]) / inputs);
    assert_true (journal[1] - journal[0] < 9 * n * 1200ull + (1 << 20));
    assert_true (ledger[1] - ledger[0] < 9 * n * 600ull);
    assert_true (heap[1] - heap[0] < 9 * n * 1000ull);
}

/* ---- a campaign that begins again ------------------------------------------------------------ */

static wm_storage_ops_t storage;
static bool is_spoilt; /* records of the journal are */
static long n_left;    /* operations on the journal until the process is killed */
static long n_room;    /* allocations and writes until its disk is full; -1: it has room */

static void step (void)
{
    if (--n_left == 0)
        raise (SIGKILL);
}

static bool is_full (void)
{
    const bool full = n_room == 0;
    n_room -= n_room > 0;
    errno = ENOSPC;
    return full;
}

static int step_create (void *context, const char *path)
{
    step ();
    return wm_storage_posix.create (context, path);
}

static int step_allocate (void *context, int fd, int64_t offset, int64_t bytes)
{
    step ();
    return is_full () ? -1 : wm_storage_posix.allocate (context, fd, offset, bytes);
}

static ssize_t step_write (void *context, int fd, const void *buffer, size_t bytes, int64_t offset)
{
    step ();
    return is_full () ? -1 : wm_storage_posix.write (context, fd, buffer, bytes, offset);
}

static int step_sync (void *context, int fd)
{
    step ();
    return wm_storage_posix.sync (context, fd);
}

/* What a campaign on disk is.  */
typedef struct {
    char planes[sizeof pins.planes];
    uint8_t id[16];
    unsigned n_input, n_batch, n_lost, n_counter; /* n_counter: but those of the history */
    char standing[1000];
} now_t;

static void see_counter (void *argument, const char *name, uint64_t value)
{
    ((now_t *) argument)->n_counter += value && strcmp (name, "workers-dropped") != 0;
}

static void see_input (void *argument, const wm_ledger_input_t *input)
{
    now_t *now = argument;
    assert_int_equal (input->id, ++now->n_input);
}

static void see_batch (void *argument, const wm_ledger_batch_t *batch)
{
    ((now_t *) argument)->n_batch++;
}

static void unlink_ledger (void)
{
    char path[128];
    static const char *const names[] = { "ledger.db", "ledger.db-wal" };
    for (int i = 0; i < 2; i++) {
        snprintf (path, sizeof path, "%s/%s", dir, names[i]);
        unlink (path);
    }
}

static wm_journal_t *seen_journal;

/* As the ledger has it, and the first byte of its payload, as the journal
   does.  */
static void see_standing (void *argument, const wm_record_t *r, const wm_place_t *place)
{
    now_t *now = argument;
    wm_record_t whole;
    const size_t n = strlen (now->standing);
    char name[64], text_[64];
    assert_int_equal (wm_journal_read (seen_journal, place, &whole, &error), WM_OK);
    assert_true (r->name_bytes < sizeof name && r->text_bytes < sizeof text_);
    for (size_t i = 0; i <= r->name_bytes; i++)
        name[i] = i == r->name_bytes ? 0 : r->name[i] ? r->name[i] : '|';
    for (size_t i = 0; i <= r->text_bytes; i++)
        text_[i] = i == r->text_bytes ? 0 : r->text[i] ? r->text[i] : '|';
    const unsigned byte = whole.payload_bytes ? whole.payload[0] : 0;
    snprintf (now->standing + n, sizeof now->standing - n,
              "%s '%s' '%s' %u %llu %llu %llu %lld %x\n", wm_record_name (r->type), name, text_,
              r->code, (unsigned long long) r->n_hit, (unsigned long long) r->n_event,
              (unsigned long long) r->n_held, (long long) r->size, byte);
}

/* Looks at it as a reader does; without_ledger: as its journal alone has it.  */
static now_t look (bool without_ledger)
{
    static wm_campaign_t campaign;
    now_t now = { .n_input = 0 };
    const wm_ledger_load_t to = {
        .input = see_input, .batch = see_batch, .counter = see_counter, .standing = see_standing
    };
    if (without_ledger)
        unlink_ledger ();
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_READ, 0, &error), WM_OK);
    assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), WM_OK);
    assert_string_equal (wm_ledger_set_aside (campaign.ledger), "");
    seen_journal = campaign.journal;
    assert_int_equal (wm_ledger_load (campaign.ledger, NULL, &to, &now, NULL, &error), WM_OK);
    strcpy (now.planes, campaign.pins.planes);
    memcpy (now.id, campaign.id, 16);
    now.n_lost = (unsigned) campaign.found.n_lost;
    wm_campaign_close (&campaign);
    assert_true (!now.n_lost || is_spoilt);
    return now;
}

/* A broker with these planes: `run` does its work between a start and an end. Returns the fault of
   the start, which a killed process has as well.  */
static wm_fault_t broker (const char *planes, void (*run) (wm_campaign_t *))
{
    static wm_campaign_t campaign;
    wm_pins_t given = pins;
    strcpy (given.planes, planes);
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    assert_int_equal (wm_campaign_open (&campaign, NULL, &storage, &error), WM_OK);
    const wm_fault_t fault = wm_campaign_start (&campaign, &given, &error);
    if (!fault && run)
        run (&campaign);
    wm_journal_sync (campaign.journal);
    wm_error_t why;
    assert_int_equal (wm_ledger_commit (campaign.ledger, &why), WM_OK);
    wm_campaign_close (&campaign);
    return fault;
}

/* The same in a process of its own, killed at this step of the journal. Returns whether it was.  */
static bool killed_broker (const char *planes, long at)
{
    int status;
    fflush (NULL);
    const pid_t pid = fork ();
    if (!pid) {
        n_left = at;
        _exit (broker (planes, NULL) ? 1 : 0);
    }
    assert_true (waitpid (pid, &status, 0) == pid);
    assert_true (WIFSIGNALED (status) || WEXITSTATUS (status) == 0);
    return WIFSIGNALED (status);
}

static void add_held (wm_campaign_t *campaign)
{
    for (uint32_t id = 1; id <= 2; id++)
        add (campaign, WM_RECORD_INPUT, id, 0);
    add (campaign, WM_RECORD_HELD, 1, 0);
    add (campaign, WM_RECORD_HELD, 2, WM_ALL);
    wm_ledger_counter (campaign->ledger, "n_fail", 3);
    wm_ledger_counter (campaign->ledger, "workers-dropped", 5);
}

static void add_result (wm_campaign_t *campaign)
{
    add (campaign, WM_RECORD_INPUT, 1, 0);
    add (campaign, WM_RECORD_RESULT, 1, 0);
}

static void hold_it (wm_campaign_t *campaign)
{
    add (campaign, WM_RECORD_HELD, 1, WM_ALL);
}

static void write_and_lose (wm_campaign_t *campaign)
{
    add (campaign, WM_RECORD_FILE_WRITTEN, 1, 0);
    add (campaign, WM_RECORD_FILE_LOST, 1, 0);
}

static void steps (void)
{
    storage = wm_storage_posix;
    storage.create = step_create, storage.allocate = step_allocate, storage.write = step_write;
    storage.sync = step_sync;
    n_left = 0, n_room = -1;
}

/* ---- what earlier releases kept beside the journal ------------------------------------------- */

static const char *const note_names[] = { "paused", "arithmetic", "sample", "distrusted", "told" };
#define NOTES (sizeof note_names / sizeof *note_names)
static const char *const notes[NOTES] = {
    "by me: lunch\n",
    "wiremill-arithmetic-1\nx86-64\tsparse/v1\t0\t0\nH200\tcuda/v1\t0.5\t2000\n",
    "four",
    "wiremill-distrusted-1\nalpha\tkey\talpha:2\tsparse\twrong\t0\t1\t1,4-5\n"
    "-\t-\tbeta:3\tsparse\twrong\t1\t0\t2\n",
    "done 1 3 2\nheld 4\npause 5\n",
};
#define NOT_MEASURED                                                                               \
    "DISTRUST 'alpha|key|' 'alpha:2|sparse|wrong|' 5 0 0 0 0 32\n"                                 \
    "DISTRUST '||' 'beta:3|sparse|wrong|' 0 0 0 0 0 4\n"                                           \
    "TOLD '' '' 1 3 2 4 10 0\n"
static const char not_measured[] = "PAUSE '' 'by me: lunch' 1 0 0 0 0 0\n" NOT_MEASURED;
static const char all_standing[] =
    "PAUSE '' 'by me: lunch' 1 0 0 0 0 0\nARITHMETIC 'x86-64' 'sparse/v1' 0 0 0 0 0 0\n"
    "ARITHMETIC 'H200' 'cuda/v1' 0 2000 4602678819172646912 0 0 0\n"
    "SAMPLE '' '' 0 0 0 0 0 66\n" NOT_MEASURED;

static void put_notes (const char *const *text)
{
    char path[128];
    for (size_t i = 0; i < NOTES; i++) {
        snprintf (path, sizeof path, "%s/%s", dir, note_names[i]);
        FILE *file = fopen (path, "w");
        assert_non_null (file);
        fputs (text[i], file);
        fclose (file);
    }
}

static bool has_notes (void)
{
    char path[128];
    bool any = false;
    for (size_t i = 0; i < NOTES; i++) {
        snprintf (path, sizeof path, "%s/%s", dir, note_names[i]);
        any |= access (path, F_OK) == 0;
    }
    return any;
}

/* They are records after the first start, also one that was killed, and nothing at the next: a
   record is newer than a note.  */
static void old_notes (void **state)
{
    static const char *const others[NOTES] = { "by you", "wiremill-arithmetic-1\nH200\tx\t0\t0\n",
                                               "others",
                                               "wiremill-distrusted-1\nalpha\tkey\ta\tb\tc\t0\n",
                                               "done 0 0 0\nheld 0\npause 0\n" };
    bool was_killed = true;
    unsigned n_before = 0, n_after = 0;
    for (long at = 1; was_killed; at++) {
        assert_int_equal (tear_down (state) | set_up (state), 0);
        steps ();
        assert_int_equal (broker ("", add_held), WM_OK);
        put_notes (notes);
        was_killed = killed_broker ("", at);
        n_before += was_killed && !*look (at % 2).standing;
        n_after += was_killed && *look (false).standing;
        n_room = at % 3 ? -1 : 0;
        assert_int_equal (broker ("", NULL), at % 3 ? WM_OK : WM_EAGAIN);
        n_room = -1;
        assert_int_equal (broker ("", NULL), WM_OK);
        assert_false (has_notes ());
        assert_string_equal (look (false).standing, all_standing);
        put_notes (others);
        assert_int_equal (broker ("", NULL), WM_OK);
        assert_false (has_notes ());
        assert_string_equal (look (at % 2).standing, all_standing);
    }
    printf ("old notes: killed at %u steps before the first was taken over, at %u after\n",
            n_before, n_after);
    assert_true (n_before > 3 && n_after > 10);
}

/* What cannot be read of a note is left out.  */
static void damaged_notes (void **state)
{
    static const char *const rows[][NOTES] = {
        { "", "", "", "", "" },
        { "", "wiremill-arithmetic-2\na\tb\t0\t3\n", "", "wiremill-distrusted-2\n", "done 1\n" },
        { "", "wiremill-arithmetic-1\na\tb\t-1\t3\na\tb\tnan\t3\na\tb\tinf\t3\nx\n", "",
          "wiremill-distrusted-1\nalpha\n\n\t\t\t\t\n", "held 1\n" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal (tear_down (state) | set_up (state), 0);
        steps ();
        put_notes (rows[i]);
        assert_int_equal (broker ("", NULL), WM_OK);
        assert_string_equal (look (false).standing,
                             "PAUSE '' '' 1 0 0 0 0 0\nSAMPLE '' '' 0 0 0 0 0 0\n");
    }
}

/* ---- it begins again ------------------------------------------------------------------------- */

/* Held inputs and batches pin no settings; a result that counts does, and so does an output that
   was written once. What binds stays as it was when others are refused.  */
static void begins_again (void **state)
{
    steps ();
    assert_int_equal (broker ("", add_held), WM_OK);
    const now_t first = look (false);
    assert_true (first.n_input == 2 && first.n_batch == 1 && first.n_counter == 1);
    put_notes (notes);
    assert_int_equal (broker ("", NULL), WM_OK); /* nothing differs: nothing changes */
    assert_string_equal (look (false).standing, all_standing);
    assert_memory_equal (look (false).id, first.id, 16);
    put_notes (notes);
    assert_int_equal (broker ("/b.h5", NULL), WM_OK);
    for (int without = 0; without < 2; without++) {
        const now_t now = look (without);
        assert_string_equal (now.planes, "/b.h5");
        assert_true (now.n_input == 0 && now.n_batch == 0 && now.n_counter == 0);
        assert_memory_not_equal (now.id, first.id, 16);
    }
    assert_false (has_notes ());
    assert_string_equal (look (false).standing, not_measured);
    assert_int_equal (broker ("/b.h5", add_result), WM_OK);
    for (int i = 0; i < 2; i++) { /* trying again changes nothing */
        assert_int_equal (broker ("/c.h5", NULL), WM_EBATCH);
        assert_non_null (strstr (error.text, "planes '/b.h5', not '/c.h5'"));
        assert_non_null (strstr (error.text, "give another --output and --campaign, or"));
        const now_t now = look (i);
        assert_string_equal (now.planes, "/b.h5");
        assert_true (now.n_input == 1 && now.n_batch == 1);
    }
    assert_int_equal (broker ("/b.h5", hold_it), WM_OK); /* its result does not count any more */
    assert_int_equal (broker ("/c.h5", add_result), WM_OK);
    assert_int_equal (broker ("/c.h5", write_and_lose), WM_OK);
    assert_int_equal (broker ("/d.h5", NULL), WM_EBATCH); /* it was on the user's disk */
    assert_string_equal (look (true).planes, "/c.h5");
}

/* The records that began it again are damaged, and nothing follows them: the ledger, which has
   them, is not taken for another campaign's.  */
static void begun_again_and_damaged (void **state)
{
    static wm_campaign_t campaign;
    char path[128];
    uint8_t page[4096];
    steps ();
    assert_int_equal (broker ("", add_held), WM_OK);
    assert_int_equal (broker ("/b.h5", NULL), WM_OK);
    snprintf (path, sizeof path, "%s/journal/%010u-000001.keep", dir, 2u);
    FILE *file = fopen (path, "r+");
    assert_non_null (file);
    assert_int_equal (fread (page, 1, sizeof page, file), sizeof page);
    const size_t begin = wm_record_peek (page, 2ull << 24 | 1, 0);
    assert_true (begin > 0 && begin < 1024);
    for (size_t i = begin; i < sizeof page; i++)
        page[i] ^= 0x5a;
    rewind (file);
    assert_int_equal (fwrite (page, 1, sizeof page, file), sizeof page);
    fclose (file);
    for (int i = 0; i < 2; i++) { /* again: the ledger is still there */
        assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_READ, 0, &error), WM_OK);
        assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), WM_EBATCH);
        assert_non_null (strstr (error.text, "is damaged, or its ledger.db is another campaign's"));
        wm_campaign_close (&campaign);
    }
    assert_string_equal (look (true).planes, ""); /* without it nothing proves that they were */
}

/* Killed at each step of the journal it is the one campaign or the other, whole, with and without
   its ledger; the same command goes on. Also where the disk was full meanwhile.  */
static void begins_again_or_not (void **state)
{
    unsigned n_old = 0, n_new = 0;
    bool was_killed = true;
    for (long at = 1; was_killed; at++) {
        assert_int_equal (tear_down (state) | set_up (state), 0);
        steps ();
        assert_int_equal (broker ("", add_held), WM_OK);
        const now_t before = look (false);
        was_killed = killed_broker ("/b.h5", at);
        const now_t now = look (at % 2);
        const bool is_old = memcmp (now.id, before.id, 16) == 0;
        assert_string_equal (now.planes, is_old ? "" : "/b.h5");
        assert_true (is_old ? now.n_input == 2 && now.n_batch == 1
                            : now.n_input == 0 && now.n_batch == 0);
        n_old += is_old, n_new += !is_old;
        n_room = at % 3 ? -1 : 0;
        assert_int_equal (broker ("/b.h5", NULL), at % 3 ? WM_OK : WM_EAGAIN);
        n_room = -1;
        assert_int_equal (broker ("/b.h5", NULL), WM_OK);
        assert_int_equal (look (false).n_input, 0);
    }
    printf ("killed at %u steps before it began again and %u after\n", n_old, n_new - 1);
    assert_true (n_old > 3 && n_new > 2);
}

/* The disk is full at any step from the epoch to the record's copies: the same broker tries
   again.  */
static void waits_to_begin_again (void **state)
{
    static wm_campaign_t campaign;
    wm_pins_t given = pins;
    wm_fault_t fault = WM_EAGAIN;
    unsigned n_begun = 0; /* epochs whose first records found no room */
    strcpy (given.planes, "/b.h5");
    for (long room = 0; fault == WM_EAGAIN; room++) {
        assert_int_equal (tear_down (state) | set_up (state), 0);
        steps ();
        assert_int_equal (broker ("", add_held), WM_OK);
        const now_t before = look (false);
        assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
        assert_int_equal (wm_campaign_open (&campaign, NULL, &storage, &error), WM_OK);
        n_room = room;
        for (int i = 0; i < 3; i++)
            fault = wm_campaign_start (&campaign, &given, &error);
        n_begun += fault && campaign.epoch;
        n_room = -1;
        assert_int_equal (wm_campaign_start (&campaign, &given, &error), WM_OK);
        wm_campaign_close (&campaign);
        const now_t now = look (room % 2);
        assert_string_equal (now.planes, "/b.h5");
        assert_int_equal (now.n_input, 0);
        assert_memory_not_equal (now.id, before.id, 16);
    }
    assert_true (n_begun > 0);
}

/* ---- ... while SQLite's disk is full --------------------------------------------------------- */

static sqlite3_vfs vfs, *vfs_posix;
static sqlite3_io_methods io;
static const sqlite3_io_methods *io_posix;
static long n_sql_room; /* writes until its disk is full; -1: it has room */

static int sql_write (sqlite3_file *file, const void *bytes, int n, sqlite3_int64 offset)
{
    const bool is_full = n_sql_room == 0;
    n_sql_room -= n_sql_room > 0;
    return is_full ? SQLITE_FULL : io_posix->xWrite (file, bytes, n, offset);
}

static int sql_open (sqlite3_vfs *self, sqlite3_filename name, sqlite3_file *file, int flags,
                     int *out)
{
    const int code = vfs_posix->xOpen (vfs_posix, name, file, flags, out);
    if (code == SQLITE_OK && flags & SQLITE_OPEN_WAL) { /* a commit is in the log first */
        io_posix = file->pMethods;
        io = *io_posix;
        io.xWrite = sql_write;
        file->pMethods = &io;
    }
    return code;
}

static void sql_disk_new (void)
{
    vfs_posix = sqlite3_vfs_find (NULL);
    vfs = *vfs_posix;
    vfs.zName = "full";
    vfs.xOpen = sql_open;
    n_sql_room = -1;
    assert_int_equal (sqlite3_vfs_register (&vfs, 1), SQLITE_OK);
}

/* The journal has the new campaign, and the ledger the rows of the one before: so long it does not
   begin. Then there is room, or the next process brings the ledger up.  */
static void waits_for_sqlite (void **state)
{
    static wm_campaign_t campaign;
    wm_pins_t given = pins;
    wm_fault_t fault = WM_EAGAIN;
    unsigned n_waited = 0;
    strcpy (given.planes, "/b.h5");
    sql_disk_new ();
    for (long room = 0; fault == WM_EAGAIN; room++) {
        assert_int_equal (tear_down (state) | set_up (state), 0);
        steps ();
        assert_int_equal (broker ("", add_held), WM_OK);
        const now_t before = look (false);
        assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
        assert_int_equal (wm_campaign_open (&campaign, NULL, &storage, &error), WM_OK);
        n_sql_room = room;
        fault = wm_campaign_start (&campaign, &given, &error);
        for (int i = 0; fault && i < 3; i++) {
            n_sql_room = 0;
            assert_int_equal (wm_campaign_start (&campaign, &given, &error), WM_EAGAIN);
        }
        n_waited += fault != WM_OK;
        n_sql_room = -1;
        if (room % 2)
            assert_int_equal (wm_campaign_start (&campaign, &given, &error), WM_OK);
        wm_campaign_close (&campaign); /* else as if it was killed */
        const now_t now = look (room % 4 > 1);
        assert_string_equal (now.planes, "/b.h5");
        assert_true (now.n_input == 0 && now.n_batch == 0 && now.n_counter == 0);
        assert_memory_not_equal (now.id, before.id, 16);
    }
    assert_int_equal (sqlite3_vfs_unregister (&vfs), SQLITE_OK);
    assert_true (n_waited > 0);
}

static wm_fault_t count_standing (void *argument, const wm_record_t *record,
                                  const wm_place_t *place, wm_error_t *why)
{
    *(unsigned *) argument += wm_record_stands (record->type);
    return WM_OK;
}

/* Notes of an earlier release are in the journal once, however often the broker tries to commit
   them.  */
static void notes_once (void **state)
{
    static wm_campaign_t campaign;
    wm_journal_found_t found;
    wm_fault_t fault = WM_EAGAIN;
    unsigned n_waited = 0;
    sql_disk_new ();
    for (long room = 0; fault == WM_EAGAIN; room++) {
        unsigned n_record = 0;
        assert_int_equal (tear_down (state) | set_up (state), 0);
        steps ();
        assert_int_equal (broker ("", NULL), WM_OK);
        put_notes (notes);
        assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
        assert_int_equal (wm_campaign_open (&campaign, NULL, &storage, &error), WM_OK);
        n_sql_room = room;
        for (int i = 0; i < 4; i++)
            fault = wm_campaign_start (&campaign, &pins, &error);
        n_waited += fault && campaign.owes_notes;
        assert_true (fault == (has_notes () ? WM_EAGAIN : WM_OK));
        n_sql_room = -1;
        assert_int_equal (wm_campaign_start (&campaign, &pins, &error), WM_OK);
        wm_campaign_close (&campaign);
        assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
        assert_int_equal (wm_campaign_open (&campaign, NULL, &storage, &error), WM_OK);
        assert_int_equal (
            wm_journal_replay (campaign.journal, 0, 0, count_standing, &n_record, &found, &error),
            WM_OK);
        assert_int_equal (n_record, 7);
        wm_campaign_close (&campaign);
        assert_string_equal (look (room % 2).standing, all_standing);
    }
    assert_int_equal (sqlite3_vfs_unregister (&vfs), SQLITE_OK);
    assert_true (n_waited > 0);
}

/* A note that cannot be removed would be read again by the campaign that begins again: it does not
   begin.  */
static void note_stays (void **state)
{
    char path[128];
    steps ();
    assert_int_equal (broker ("", add_held), WM_OK);
    const now_t before = look (false);
    snprintf (path, sizeof path, "%s/arithmetic", dir);
    assert_int_equal (mkdir (path, 0700), 0);
    assert_int_equal (broker ("/b.h5", NULL), WM_EHOST);
    assert_non_null (strstr (error.text, path));
    assert_memory_equal (look (false).id, before.id, 16);
    assert_int_equal (rmdir (path), 0);
    assert_int_equal (broker ("/b.h5", NULL), WM_OK);
    assert_int_equal (look (false).n_input, 0);
}

/* ---- ... and loses its records --------------------------------------------------------------- */

#define CAMPAIGN_RECORDS 6

typedef struct {
    wm_place_t at[CAMPAIGN_RECORDS];
    bool is_new[CAMPAIGN_RECORDS];
    unsigned n;
    uint8_t first[16];
} records_t;

static wm_fault_t find_record (void *argument, const wm_record_t *record, const wm_place_t *place,
                               wm_error_t *why)
{
    records_t *found = argument;
    if (record->type != WM_RECORD_CAMPAIGN)
        return WM_OK;
    if (!found->n)
        memcpy (found->first, record->digest, 16);
    found->is_new[found->n] = memcmp (found->first, record->digest, 16) != 0;
    found->at[found->n++] = *place;
    return WM_OK;
}

/* Flips a bit in a record of the journal.  */
static void spoil (const wm_place_t *place)
{
    char path[128];
    snprintf (path, sizeof path, "%s/journal/%010u-%06u.keep", dir,
              (unsigned) (place->segment >> 24), (unsigned) (place->segment & 0xffffff));
    FILE *file = fopen (path, "r+");
    assert_non_null (file);
    fseek (file, (long) place->offset + 60, SEEK_SET);
    const int byte = getc (file);
    fseek (file, (long) place->offset + 60, SEEK_SET);
    putc (byte ^ 4, file);
    fclose (file);
}

/* Whichever of the CAMPAIGN records are lost, a sound ledger knows which campaign it is: it goes on
   with its own settings, and others are refused for what is so.  */
static void loses_records (void **state)
{
    static wm_campaign_t campaign;
    for (unsigned lost = 1; lost < 1u << CAMPAIGN_RECORDS; lost += lost < 12 ? 1 : 12) {
        records_t found = { .n = 0 };
        wm_journal_found_t journal;
        assert_int_equal (tear_down (state) | set_up (state), 0);
        steps ();
        assert_int_equal (broker ("", add_held), WM_OK);
        assert_int_equal (broker ("/b.h5", NULL), WM_OK);
        assert_int_equal (broker ("/b.h5", NULL), WM_OK);
        const now_t before = look (false);
        campaign.journal = wm_journal_open (dir, NULL, &error);
        assert_int_equal (
            wm_journal_replay (campaign.journal, 0, 0, find_record, &found, &journal, &error), 0);
        wm_journal_destroy (&campaign.journal);
        assert_int_equal (found.n, CAMPAIGN_RECORDS);
        is_spoilt = true;
        for (unsigned i = 0; i < CAMPAIGN_RECORDS; i++)
            if (lost >> i & 1)
                spoil (&found.at[i]);
        const now_t now = look (false);
        assert_string_equal (now.planes, "/b.h5");
        assert_memory_equal (now.id, before.id, 16);
        assert_int_equal (broker ("/c.h5", NULL), WM_EBATCH);
        assert_non_null (strstr (error.text, "; its journal is damaged and may have had scores: "
                                             "give another --output"));
        assert_int_equal (broker ("/b.h5", add_result), WM_OK);
        assert_int_equal (broker ("/c.h5", NULL), WM_EBATCH);
        assert_non_null (strstr (error.text, "; it has scores already: give another --output"));
        is_spoilt = false;
    }
}

/* ---- ... and what stands, and is rebuilt ----------------------------------------------------- */

#define STANDING_RECORDS 12

static wm_place_t standing_at[STANDING_RECORDS];
static unsigned n_standing_at;

static void give (wm_campaign_t *campaign, wm_record_type_t type, wm_key_t key, uint32_t code,
                  const char *name, const char *more)
{
    wm_record_t record;
    wm_record_init (&record, type);
    record.key = key;
    record.code = code;
    record.name = name;
    record.name_bytes = (uint32_t) strlen (name);
    wm_record_text (&record, type == WM_RECORD_INPUT ? name : more);
    if (type == WM_RECORD_DISTRUST && code) {
        record.payload = (const uint8_t *) "\x0e\x00\x10"; /* inputs 1 to 3, and 20 */
        record.payload_bytes = 3;
    }
    assert_int_equal (wm_journal_append (campaign->journal, &record,
                                         &standing_at[n_standing_at++], &error), WM_OK);
    wm_journal_sync (campaign->journal);
    wm_ledger_apply (campaign->ledger, &record, &standing_at[n_standing_at - 1]);
}

static void add_standing (wm_campaign_t *campaign)
{
    const wm_key_t none = { 0 };
    n_standing_at = 0;
    for (uint32_t i = 1; i <= 4; i++) { /* ids have holes where a rebuild lost an input before */
        const uint32_t id = i < 4 ? i : 20;
        char name[16];
        snprintf (name, sizeof name, "/%u", id);
        give (campaign, WM_RECORD_INPUT, (wm_key_t){ id, 0, 0, 1 }, 0, name, "");
    }
    give (campaign, WM_RECORD_PAUSE, none, 1, "", "lunch");
    give (campaign, WM_RECORD_ARITHMETIC, none, 0, "x86-64", "sparse/v1");
    give (campaign, WM_RECORD_DISTRUST, none, 1, "alpha", "wrong");
    give (campaign, WM_RECORD_PAUSE, none, 0, "", "");
    give (campaign, WM_RECORD_KICK, (wm_key_t){ 1, WM_ALL, WM_ALL, 2 }, 0, "", "");
    give (campaign, WM_RECORD_HELD, (wm_key_t){ 3, WM_ALL, WM_ALL, 1 }, 0, "", "no");
    give (campaign, WM_RECORD_DISTRUST, none, 0, "alpha", "");
    give (campaign, WM_RECORD_TOLD, none, 1, "", "");
    assert_int_equal (n_standing_at, STANDING_RECORDS);
}

static void see_suspect (void *argument, const wm_ledger_input_t *input)
{
    char *line = argument;
    snprintf (line + strlen (line), 40, "%u:%d%s ", input->id, (int) input->state,
              input->is_suspect ? "?" : "");
}

static void see_name (void *argument, const wm_record_t *r, const wm_place_t *place)
{
    char *line = argument + 100 + 50 * (size_t) (r->type - WM_RECORD_PAUSE);
    if (r->type != WM_RECORD_DISTRUST || r->name[0])
        snprintf (line, 50, "%u %.*s %.*s", r->code, (int) r->name_bytes, r->name,
                  (int) r->text_bytes, r->text);
}

/* What the journal alone has is what the ledger had, whichever records were lost.  */
static void loses_standing (void **state)
{
    static wm_campaign_t campaign;
    const wm_ledger_load_t to = { .input = see_suspect, .standing = see_name };
    const int reports = dup (1), quiet = open ("/dev/null", O_WRONLY);
    for (unsigned i = 0; i < 2 * STANDING_RECORDS; i++) { /* one of them, then several */
        const unsigned lost = i < STANDING_RECORDS ? 1u << i : i * 2654435761u >> 20;
        char before[400] = "", after[400] = "";
        bool is_whole;
        assert_int_equal (tear_down (state) | set_up (state), 0);
        steps ();
        assert_int_equal (broker ("", add_standing), WM_OK);
        assert_int_equal (broker ("", NULL), WM_OK); /* it proves that the last was there */
        for (int step = 0; step < 2; step++) {
            assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_READ, 0, &error), 0);
            assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), WM_OK);
            assert_int_equal (wm_ledger_load (campaign.ledger, NULL, &to, step ? after : before,
                                              NULL, &error), WM_OK);
            wm_campaign_close (&campaign);
            if (step)
                break;
            assert_string_equal (before, "1:1 2:1? 3:3 20:1? ");
            for (unsigned k = 0; k < STANDING_RECORDS; k++)
                if (lost >> k & 1)
                    spoil (&standing_at[k]);
            fflush (stdout);
            dup2 (quiet, 1);
            const wm_fault_t fault =
                wm_rebuild (&(wm_rebuild_options_t){ .dir = dir }, &is_whole, &error);
            fflush (stdout);
            dup2 (reports, 1);
            assert_int_equal (fault, WM_OK);
            unlink_ledger ();
        }
        assert_memory_equal (after, before, sizeof before);
    }
    close (reports);
    close (quiet);
}

/* What the lock says decides who may open a folder.  */
static void copies (void **state)
{
    static wm_campaign_t campaign, copy;
    char command[300], to[80];
    snprintf (to, sizeof to, "%s/c", dir);
    strcat (dir, "/o");
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), WM_OK);
    assert_int_equal (wm_campaign_start (&campaign, &pins, &error), WM_OK);
    snprintf (command, sizeof command, "rm -rf %s && cp -r %s %s", to, dir, to);
    assert_int_equal (system (command), 0);
    for (wm_campaign_for_t what = WM_CAMPAIGN_SERVE; what <= WM_CAMPAIGN_READ; what++)
        for (int again = 0; again < 2; again++) { /* trying does not make it right */
            assert_int_equal (wm_campaign_lock (&copy, to, what, 0, &error), WM_EBATCH);
            assert_non_null (strstr (error.text, "wiremill rebuild"));
            wm_campaign_close (&copy);
        }
    assert_int_equal (wm_campaign_lock (&copy, to, WM_CAMPAIGN_REBUILD, 0, &error), WM_OK);
    assert_true (copy.is_copy);
    wm_campaign_close (&copy); /* not rebuilt: still a copy */
    assert_int_equal (wm_campaign_lock (&copy, to, WM_CAMPAIGN_SERVE, 0, &error), WM_EBATCH);
    wm_campaign_close (&copy);
    close (campaign.lock_fd); /* killed: itself may go on */
    campaign.lock_fd = -1;
    wm_campaign_close (&campaign);
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_READ, 0, &error), WM_OK);
    wm_campaign_close (&campaign); /* and looking does not make it stopped */
    snprintf (command, sizeof command, "rm -rf %s && cp -r %s %s", to, dir, to);
    assert_int_equal (system (command), 0);
    assert_int_equal (wm_campaign_lock (&copy, to, WM_CAMPAIGN_SERVE, 0, &error), WM_EBATCH);
    wm_campaign_close (&copy);
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    wm_campaign_close (&campaign); /* stopped: each copy is one of its own */
    assert_int_equal (system (command), 0);
    assert_int_equal (wm_campaign_lock (&copy, to, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    wm_campaign_close (&copy);
    *strrchr (dir, '/') = 0;
}

/* What lies where the lock should is a refusal that no trying again changes.  */
static void no_lock (void **state)
{
    wm_campaign_t campaign;
    char path[300];
    snprintf (path, sizeof path, "%s/lock", dir);
    assert_int_equal (mkdir (path, 0777), 0);
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, path));
    assert_non_null (strstr (error.text, "--campaign"));
    wm_campaign_close (&campaign);
    rmdir (path);
}

#define TEST(f) cmocka_unit_test_setup_teardown (f, set_up, tear_down)

int main (void)
{
    const struct CMUnitTest tests[] = { TEST (races),
                                        TEST (copies),
                                        TEST (no_lock),
                                        TEST (old_notes),
                                        TEST (damaged_notes),
                                        TEST (begins_again),
                                        TEST (begun_again_and_damaged),
                                        TEST (begins_again_or_not),
                                        TEST (waits_to_begin_again),
                                        TEST (waits_for_sqlite),
                                        TEST (notes_once),
                                        TEST (note_stays),
                                        TEST (loses_records),
                                        TEST (loses_standing),
                                        TEST (finished_work) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
