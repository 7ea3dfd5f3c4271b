/* test_producer_client.c - the helper of libwiremill with a broker that fake_broker.h plays: one
   that refuses it for now, and one that falls silent.  */
#include "fake_broker.h"
#include "schema/base/wm_option.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_program.h"
#include "schema/wm_library.h"
#include "schema/wm_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern const wm_verb_t wm_verb_client;
static const wm_verb_t *const verbs[] = { &wm_verb_client, NULL };
static const wm_program_t program = {
    .name = "wiremill-producer", .version = "0", .summary = "", .verbs = verbs
};

static char folder[] = "/tmp/wm-helper-XXXXXX";

/* Welcomes a session; and refuses what it sends first, or says nothing more.  */
static void play (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    (void) payload;
    (void) bytes;
    if (msg && msg->type == WM_MSG_HELLO)
        fake_welcome (self);
    else if (msg && msg->type == WM_MSG_INPUT && self->argument)
        fake_code (self, WM_MSG_REJECT, WM_REASON_BUSY, "no memory now");
}

static void take_end (const void *argument)
{
    dup2 (*(const int *) argument, WM_LIBRARY_FD);
}

/* Starts a helper that has this patience. Returns the library's end.  */
static int start (fake_t *broker, const char *patience)
{
    int pair[2], status;
    char of[16];
    snprintf (of, sizeof of, "%d", (int) getpid ());
    strcpy (broker->pins.serves, "clients");
    fake_start (broker);
    assert_int_equal (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const char *const argv[] = { "wiremill-producer", "client", "--broker",
                                 broker->endpoint,    "--of",   of,
                                 "--give-up",         patience, NULL };
    const wm_process_t process = { .program = "/proc/self/exe",
                                   .argv = argv,
                                   .keep = WM_LIBRARY_FD,
                                   .prepare = take_end,
                                   .argument = &pair[1] };
    const pid_t pid = wm_process_start (&process);
    close (pair[1]);
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (status, 0);
    return pair[0];
}

/* Reads the next frame of this type, and the text behind it.  */
static void heard (int fd, wm_library_type_t type, char text[512])
{
    wm_library_frame_t frame;
    do {
        assert_int_equal (recv (fd, &frame, sizeof frame, MSG_WAITALL), sizeof frame);
        assert_true (frame.bytes < 512);
        assert_int_equal (recv (fd, text, frame.bytes, MSG_WAITALL), frame.bytes);
        text[frame.bytes] = 0;
    } while (frame.type != type);
}

static void refused_for_now_it_rests (void **state)
{
    (void) state;
    char text[512];
    fake_t *broker = fake_new (folder, play, folder);
    const int fd = start (broker, "60s");
    heard (fd, WM_LIBRARY_READY, text);
    const int64_t began = wm_now_ms ();
    heard (fd, WM_LIBRARY_WAITS, text);
    assert_non_null (strstr (text, "no memory now"));
    for (int i = 0; i < 12000 && broker->seen[WM_MSG_INPUT] < 4; i++)
        zclock_sleep (5);
    assert_true (broker->seen[WM_MSG_INPUT] >= 4);
    assert_true (wm_now_ms () - began >= 3 * wm_times ()->backoff_max_ms / 2);
    close (fd);
    fake_destroy (&broker);
}

static void silence_is_a_part_of_its_patience (void **state)
{
    (void) state;
    char text[512];
    fake_t *broker = fake_new (folder, play, NULL);
    const int fd = start (broker, "2.5s"); /* silence_ms is 3 s here */
    heard (fd, WM_LIBRARY_FAILED, text);
    assert_non_null (strstr (text, "was silent for "));
    assert_int_equal (broker->seen[WM_MSG_HELLO], 1);
    close (fd);
    fake_destroy (&broker);
}

int main (int argc, char **argv)
{
    setenv ("WM_TIME_SCALE", "10", 1);
    if (argc > 1) /* the helper */
        return wm_program_run (&program, argc, argv);
    if (!mkdtemp (folder))
        return 1;
    alarm (300); /* it would wait for ever */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (refused_for_now_it_rests),
        cmocka_unit_test (silence_is_a_part_of_its_patience),
    };
    const int rc = cmocka_run_group_tests (tests, NULL, NULL);
    zdir_t *dir = zdir_new (folder, NULL);
    zdir_remove (dir, true);
    zdir_destroy (&dir);
    return rc;
}
