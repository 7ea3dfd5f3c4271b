/* test_broker_notify.c - commands of the operator: which event runs one and how often, what a
   restart knows, what the command inherits, and how each failure ends.  */
#include "broker/wm_notify.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGAIN_MS 1000
#define TRIES 60000 /* of a millisecond: more than any machine needs */
#define TELL                                                                                       \
    "printf '%s %s\\n' \"$WIREMILL_EVENT\" \"$WIREMILL_HELD_NEW\" >>\"$WIREMILL_CAMPAIGN/said\""

static char dir[64];
static wm_notify_t *notify;
static wm_record_t told; /* the last TOLD; type 0: none */
static bool cannot_keep;
static const volatile sig_atomic_t one_signal = 1, two_signals = 2;

static int set_up (void **state)
{
    strcpy (dir, "/tmp/test-notify-XXXXXX");
    told = (wm_record_t){ 0 };
    return mkdtemp (dir) ? 0 : -1;
}

static int tear_down (void **state)
{
    char command[128];
    wm_notify_destroy (&notify);
    snprintf (command, sizeof command, "rm -rf '%s'", dir);
    return system (command);
}

static bool keep (const wm_record_t *record)
{
    if (!cannot_keep)
        told = *record;
    return !cannot_keep;
}

/* The broker starts (again), with the same command for all events.  */
static void start (const char *command, int64_t limit_ms)
{
    wm_notify_destroy (&notify);
    notify = wm_notify_new (&(wm_notify_config_t){ .dir = dir,
                                                   .output = "/out",
                                                   .command = { command, command, command },
                                                   .keep = keep,
                                                   .limit_ms = limit_ms,
                                                   .again_ms = AGAIN_MS });
    assert_non_null (notify);
    if (told.type)
        wm_notify_restore (notify, &told);
}

static bool said_is (const char *text)
{
    char path[96], found[1 << 12] = "";
    snprintf (path, sizeof path, "%s/said", dir);
    FILE *file = fopen (path, "r");
    if (file) {
        found[fread (found, 1, sizeof found - 1, file)] = 0;
        fclose (file);
    }
    return strcmp (found, text) == 0;
}

/* Whether TOLD, as it was kept last, is this; "": nothing was kept that differs from nothing.  */
static bool told_is (const char *text)
{
    char found[200] = "";
    if (told.type == WM_RECORD_TOLD)
        snprintf (found, sizeof found, "done %u %llu %llu\nheld %llu\npause %llu\n", told.code,
                  (unsigned long long) told.n_hit, (unsigned long long) told.n_event,
                  (unsigned long long) told.n_held, (unsigned long long) told.size >> 1);
    return strcmp (found, text) == 0 ||
           (!told.type && strcmp (text, "done 0 0 0\nheld 0\npause 0\n") == 0);
}

static bool has (const char *name, const char *text)
{
    return strcmp (name, "told") == 0 ? told_is (text) : said_is (text);
}

/* Turns at this time until the note is `note`, then once more; `said` is what commands wrote.  */
#define STOPPED(why) .stop = { { WM_WAIT_PAUSED, why } }, .n_stop = 1

static void turn (const wm_brief_t *brief, int64_t now_ms, const char *note, const char *said)
{
    for (int i = 0; i < TRIES; i++) {
        wm_notify_turn (notify, brief, now_ms);
        if (has ("told", note))
            break;
        usleep (1000);
    }
    wm_notify_turn (notify, brief, now_ms);
    assert_true (has ("told", note));
    assert_true (has ("said", said));
}

static const wm_brief_t open_one = { .inputs = 2, .inputs_written = 1, .n_producer = 1 };
static const wm_brief_t not_yet = { .inputs = 2, .inputs_written = 2, .n_producer = 1 };
static const wm_brief_t all = { .inputs = 2, .inputs_written = 2 };

static void done_is_told_once (void **state)
{
    start (TELL, 60000);
    turn (&open_one, 1, "done 0 0 0\nheld 0\npause 0\n", "");
    turn (&not_yet, 2, "done 0 0 0\nheld 0\npause 0\n", "");
    turn (&all, 3, "done 1 2 2\nheld 0\npause 0\n", "done 0\n");
    turn (&all, 3 + 2 * AGAIN_MS, "done 1 2 2\nheld 0\npause 0\n", "done 0\n");
    start (TELL, 60000); /* nothing is left to do */
    turn (&all, 10, "done 1 2 2\nheld 0\npause 0\n", "done 0\n");
    wm_notify_stop (notify, &all, &one_signal);
    assert_true (has ("said", "done 0\n"));
    /* an input was open, and with more of them */
    turn (&open_one, 11, "done 0 2 2\nheld 0\npause 0\n", "done 0\n");
    turn (&all, 12, "done 1 2 2\nheld 0\npause 0\n", "done 0\ndone 0\n");
    const wm_brief_t more = { .inputs = 3, .inputs_written = 2, .inputs_held = 1 };
    turn (&more, 13, "done 0 2 2\nheld 1\npause 0\n", "done 0\ndone 0\nheld 1\n");
    turn (&more, 12 + AGAIN_MS, "done 1 3 2\nheld 1\npause 0\n",
          "done 0\ndone 0\nheld 1\ndone 0\n");
    /* one of them was open, and was held again, between two looks at it */
    const wm_brief_t retried = {
        .inputs = 3, .inputs_written = 2, .inputs_held = 1, .n_closed = 1
    };
    wm_notify_stop (notify, &retried, &one_signal);
    assert_true (has ("said", "done 0\ndone 0\nheld 1\ndone 0\ndone 0\n"));
}

static void held_is_told_with_what_is_new (void **state)
{
    wm_brief_t brief = { .inputs = 9, .hits_held = 3 };
    start (TELL, 60000);
    turn (&brief, 0, "done 0 0 0\nheld 3\npause 0\n", "held 3\n");
    brief.hits_held = 5;
    brief.inputs_held = 1;
    turn (&brief, AGAIN_MS - 1, "done 0 0 0\nheld 3\npause 0\n", "held 3\n");
    turn (&brief, AGAIN_MS, "done 0 0 0\nheld 6\npause 0\n", "held 3\nheld 3\n");
    brief.hits_held = brief.inputs_held = 0; /* kicked: what is held then is new */
    turn (&brief, AGAIN_MS, "done 0 0 0\nheld 0\npause 0\n", "held 3\nheld 3\n");
    brief.hits_held = 1;
    turn (&brief, 2 * AGAIN_MS, "done 0 0 0\nheld 1\npause 0\n", "held 3\nheld 3\nheld 1\n");
}

static void a_pause_is_told_until_it_ends (void **state)
{
    const wm_brief_t paused = { .inputs = 9, STOPPED ("by x: lunch") }, goes_on = { .inputs = 9 };
    start (TELL, 60000);
    turn (&paused, 0, "done 0 0 0\nheld 0\npause 1\n", "pause 0\n");
    start (TELL, 60000);
    turn (&paused, 0, "done 0 0 0\nheld 0\npause 1\n", "pause 0\n");
    turn (&goes_on, 0, "done 0 0 0\nheld 0\npause 0\n", "pause 0\n");
    turn (&paused, 0, "done 0 0 0\nheld 0\npause 1\n", "pause 0\npause 0\n");
}

static void the_end_tells_all_that_is_due (void **state)
{
    const wm_brief_t last = { .inputs = 1, .inputs_written = 1, .hits_held = 2, .n_producer = 1 };
    start (TELL, 60000);
    wm_notify_stop (notify, NULL, &one_signal); /* the broker failed */
    assert_true (has ("said", ""));
    wm_notify_stop (notify, &last, &two_signals);
    assert_true (has ("said", ""));
    wm_notify_stop (notify, &last, &one_signal);
    assert_true (has ("said", "held 2\ndone 0\n"));
    start ("exec sleep 1000", 60000); /* killed by the second signal: not told */
    wm_notify_turn (notify, &(wm_brief_t){ STOPPED ("x") }, wm_now_ms ());
    wm_notify_stop (notify, NULL, &two_signals);
    assert_true (has ("told", "done 0 1 1\nheld 0\npause 0\n"));
    wm_notify_t *nobody = NULL;
    wm_notify_turn (nobody, &last, 0);
    wm_notify_stop (nobody, &last, &one_signal);
}

static void what_fails_is_told (void **state)
{
    const char *const commands[] = { "exit 3", "kill -9 $$", "no-such-program-here",
                                     "sleep 1000 & sleep 1000" };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        start (commands[i], i == 3 ? 0 : 60000);
        wm_notify_turn (notify, &all, 0);
        turn (&all, 1, "done 1 2 2\nheld 0\npause 0\n", "");
        turn (&open_one, 2, "done 0 2 2\nheld 0\npause 0\n", "");
    }
}

/* In a process of its own: no further process for its user, who must not be root.  */
static void what_cannot_be_started_is_tried_again (void **state)
{
    int status;
    assert_int_equal (chmod (dir, 0777), 0);
    const pid_t pid = fork ();
    if (pid == 0) {
        struct rlimit before, none;
        getrlimit (RLIMIT_NPROC, &before);
        none = (struct rlimit){ 0, before.rlim_max };
        if (setuid (getuid () ? getuid () : 65534))
            _exit (2);
        start (TELL, 60000);
        setrlimit (RLIMIT_NPROC, &none);
        const int64_t now_ms = wm_now_ms ();
        wm_notify_turn (notify, &all, now_ms);
        setrlimit (RLIMIT_NPROC, &before);
        wm_notify_turn (notify, &all, now_ms + AGAIN_MS - 1);
        wm_notify_turn (notify, &all, now_ms + AGAIN_MS);
        wm_notify_stop (notify, NULL, &one_signal);
        _exit (has ("said", "done 0\n") && has ("told", "done 1 2 2\nheld 0\npause 0\n") ? 0 : 1);
    }
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (status, 0);
}

/* Before the journal is open: it is kept later, and what was told before is known then, too.  */
static void what_cannot_be_kept_yet (void **state)
{
    const wm_brief_t full = { .stop = { { WM_WAIT_DISK, "disk full" } }, .n_stop = 1 };
    const wm_brief_t still = {
        .inputs = 2, .inputs_written = 2, .stop = { { WM_WAIT_DISK, "disk full" } }, .n_stop = 1
    };
    start (TELL, 60000);
    turn (&all, 0, "done 1 2 2\nheld 0\npause 0\n", "done 0\n");
    const wm_record_t before = told;
    told = (wm_record_t){ 0 };
    start (TELL, 60000);
    cannot_keep = true;
    for (int i = 0; i < TRIES && !has ("said", "done 0\npause 0\n"); i++) {
        wm_notify_turn (notify, &full, 0);
        usleep (1000);
    }
    wm_notify_stop (notify, NULL, &one_signal);
    assert_int_equal (told.type, 0);
    cannot_keep = false;
    wm_notify_restore (notify, &before);
    char text[80];
    snprintf (text, sizeof text, "done 1 2 2\nheld 0\npause %llu\n", 1ull << WM_WAIT_DISK >> 1);
    turn (&still, 2 * AGAIN_MS, text, "done 0\npause 0\n"); /* neither is told again */
}

static void what_a_command_inherits (void **state)
{
    const int open_fd = open ("/dev/null", O_RDONLY); /* without O_CLOEXEC, as of a library */
    wm_brief_t brief = { .inputs = 2, STOPPED ("by x: a\nWIREMILL_EVENT=b\x1b[2J $(touch y)") };
    setenv ("BEARER_TOKEN", "secret", 1);
    setenv ("WIREMILL_OLD", "x", 1);
    start ("cd \"$WIREMILL_CAMPAIGN\"; { env | grep -E '^(WIREMILL_(T|E|O|I)|BEARER)' | sort; "
           "ls /proc/self/fd | xargs; readlink /proc/self/fd/0; } >text; mv text said",
           60000);
    turn (&brief, 0, "done 0 0 0\nheld 0\npause 1\n", ({
        static char wanted[512];
        snprintf (wanted, sizeof wanted,
                  "WIREMILL_EVENT=pause\nWIREMILL_INPUTS=2\nWIREMILL_INPUTS_HELD=0\n"
                  "WIREMILL_INPUTS_WRITTEN=0\nWIREMILL_OUTPUT=/out\n"
                  "WIREMILL_TEXT=campaign %s hands out nothing: by x: a?WIREMILL_EVENT=b?[2J "
                  "$(touch y); `wiremill why %s` explains it\n0 1 2 3\n/dev/null\n",
                  dir, dir);
        wanted;
    }));
    unsetenv ("BEARER_TOKEN");
    unsetenv ("WIREMILL_OLD");
    close (open_fd);
}

/* It prints for ever: the log gets a part, and the broker goes on.  */
static void what_it_prints_is_bounded (void **state)
{
    char path[96], log[WM_NOTIFY_OUTPUT_BYTES + 4096];
    struct stat st;
    snprintf (path, sizeof path, "%s/log", dir);
    const int kept = dup (STDERR_FILENO), fd = open (path, O_RDWR | O_CREAT | O_APPEND, 0600);
    assert_int_equal (dup2 (fd, STDERR_FILENO), STDERR_FILENO);
    start ("yes 1234567 | head -c 3000000; printf end >\"$WIREMILL_CAMPAIGN/said\"", 60000);
    turn (&all, 0, "done 1 2 2\nheld 0\npause 0\n", "end");
    start ("yes", 1);
    turn (&(wm_brief_t){ STOPPED ("x") }, 0, "done 0 2 2\nheld 0\npause 0\n", "end");
    turn (&(wm_brief_t){ STOPPED ("x") }, 1, "done 0 2 2\nheld 0\npause 1\n", "end");
    fflush (stderr);
    assert_int_equal (dup2 (kept, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal (fstat (fd, &st), 0);
    assert_in_range (st.st_size, WM_NOTIFY_OUTPUT_BYTES, 2 * WM_NOTIFY_OUTPUT_BYTES + 4096);
    const ssize_t n = pread (fd, log, sizeof log - 1, 0);
    assert_true (n > 0);
    log[n] = 0;
    assert_non_null (strstr (log, "1234567\nwiremill-broker: --on-done: what its command prints "
                                  "from here on is dropped\n"));
    close (fd);
    close (kept);
}

static void without_a_command_nobody_is_told (void **state)
{
    assert_null (wm_notify_new (&(wm_notify_config_t){ .dir = dir, .command = { "", NULL, "" } }));
    notify = wm_notify_new (&(wm_notify_config_t){
        .dir = dir, .output = "", .command = { "", NULL, "true" }, .keep = keep });
    wm_notify_stop (notify, &(wm_brief_t){ .hits_held = 1, STOPPED ("x") }, &one_signal);
    assert_true (has ("told", ""));
}

int main (void)
{
#define TEST(function) cmocka_unit_test_setup_teardown (function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST (done_is_told_once),
        TEST (held_is_told_with_what_is_new),
        TEST (a_pause_is_told_until_it_ends),
        TEST (the_end_tells_all_that_is_due),
        TEST (what_fails_is_told),
        TEST (what_cannot_be_started_is_tried_again),
        TEST (what_cannot_be_kept_yet),
        TEST (what_a_command_inherits),
        TEST (what_it_prints_is_bounded),
        TEST (without_a_command_nobody_is_told),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
