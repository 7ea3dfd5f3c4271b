/* test_broker_campaign.c - one master at a time, whoever comes, however the last one ended.

   In a race several processes want one campaign at the same moment. Each that gets it begins an
   epoch, journals a few records and ends well or is killed. WM_SEED is the die.  */
#include "broker/wm_campaign.h"
#include "tests/proof.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

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
    (void) state;
    memset (pins.model, 'a', 64);
    memset (pins.wmm, 'b', 64);
    race = mmap (NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    strcpy (dir, "/tmp/wm-campaign-XXXXXX");
    return race == MAP_FAILED || !mkdtemp (dir) ? -1 : 0;
}

static int tear_down (void **state)
{
    (void) state;
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
    (void) state;
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

/* What the lock says decides who may open a folder.  */
static void copies (void **state)
{
    (void) state;
    static wm_campaign_t campaign, copy;
    char command[300], to[80];
    snprintf (to, sizeof to, "%s/c", dir);
    strcat (dir, "/o");
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), WM_OK);
    assert_int_equal (wm_campaign_start (&campaign, &pins, &error), WM_OK);
    snprintf (command, sizeof command, "rm -rf %s && cp -r %s %s", to, dir, to);
    assert_int_equal (system (command), 0);
    for (wm_campaign_for_t what = WM_CAMPAIGN_SERVE; what <= WM_CAMPAIGN_LOOK; what++)
        for (int again = 0; again < 2; again++) { /* trying does not make it right */
            assert_int_equal (wm_campaign_lock (&copy, to, what, 0, &error), WM_EHOST);
            assert_non_null (strstr (error.text, "wiremill rebuild"));
            wm_campaign_close (&copy);
        }
    assert_int_equal (wm_campaign_lock (&copy, to, WM_CAMPAIGN_REBUILD, 0, &error), WM_OK);
    assert_true (copy.is_copy);
    wm_campaign_close (&copy); /* not rebuilt: still a copy */
    assert_int_equal (wm_campaign_lock (&copy, to, WM_CAMPAIGN_SERVE, 0, &error), WM_EHOST);
    wm_campaign_close (&copy);
    close (campaign.lock_fd); /* killed: itself may go on */
    campaign.lock_fd = -1;
    wm_campaign_close (&campaign);
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_LOOK, 0, &error), WM_OK);
    wm_campaign_close (&campaign); /* and looking does not make it stopped */
    snprintf (command, sizeof command, "rm -rf %s && cp -r %s %s", to, dir, to);
    assert_int_equal (system (command), 0);
    assert_int_equal (wm_campaign_lock (&copy, to, WM_CAMPAIGN_SERVE, 0, &error), WM_EHOST);
    wm_campaign_close (&copy);
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    wm_campaign_close (&campaign); /* stopped: each copy is one of its own */
    assert_int_equal (system (command), 0);
    assert_int_equal (wm_campaign_lock (&copy, to, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    wm_campaign_close (&copy);
    *strrchr (dir, '/') = 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown (f, set_up, tear_down)

int main (void)
{
    const struct CMUnitTest tests[] = { TEST (races), TEST (copies) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
