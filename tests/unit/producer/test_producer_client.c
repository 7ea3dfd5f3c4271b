/* test_producer_client.c - the helper of libwiremill with a broker that fake_broker.h plays: one
   that refuses it for now, one that falls silent, and one that takes patches which the library
   shares.  */
#include "tests/unit/fake_broker.h"
#include "schema/base/wm_process.h"
#include "schema/option/wm_option.h"
#include "schema/session/wm_library.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern const wm_verb_t wm_verb_client;
static const wm_verb_t *const verbs[] = { &wm_verb_client, NULL };
static const wm_program_t program = {
    .name = "wiremill-producer", .version = "0", .summary = "", .verbs = verbs
};

static char folder[] = "/tmp/wm-helper-XXXXXX";

/* Welcomes a session; and refuses what it sends first, or says nothing more.  */
static void play (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    if (msg && msg->type == WM_MSG_HELLO)
        fake_welcome (self);
    else if (msg && msg->type == WM_MSG_INPUT && self->argument)
        fake_code (self, WM_MSG_REJECT, WM_REASON_BUSY, "no memory now");
}

static void take_end (const void *argument)
{
    dup2 (*(const int *) argument, WM_LIBRARY_FD);
}

/* Takes a batch, and answers the first value of each of its patches as all four scores.  */
static void play_worker (fake_t *self, const wm_msg_t *msg, const uint8_t *payload, size_t bytes)
{
    static wm_coder_t *coder;
    wm_batch_t batch = { 0 };
    wm_error_t error;
    wm_msg_t answer;
    if (!msg)
        return;
    if (msg->type == WM_MSG_HELLO) {
        fake_welcome (self);
        return;
    }
    wm_msg_init (&answer, msg->type == WM_MSG_INPUT    ? WM_MSG_INPUT_ACK
                          : msg->type == WM_MSG_SUBMIT ? WM_MSG_NEED
                                                       : WM_MSG_RESULTS);
    answer.key = msg->key;
    if (msg->type == WM_MSG_INPUT)
        answer.code = WM_INPUT_CLAIMED;
    if (msg->type != WM_MSG_BATCH) {
        if (msg->type == WM_MSG_INPUT || msg->type == WM_MSG_SUBMIT)
            fake_send (self, &answer, NULL, 0);
        return;
    }
    coder = coder ? coder : wm_coder_new ();
    uint8_t result[2 * 17] = { 0 };
    if (wm_batch_decode (&batch, coder, payload, bytes, &error) || batch.n_hit != 2)
        return; /* and the test waits in vain */
    for (int i = 0; i < 8; i++)
        memcpy (result + 2 + 4 * i, &batch.patch[i / 4 * 9], 4);
    memcpy (answer.digest, msg->digest, sizeof answer.digest);
    fake_send (self, &answer, result, sizeof result);
    wm_batch_clear (&batch);
}

/* Starts a helper that has this patience, and shares this file (NULL: nothing) with it. Returns the
   library's end.  */
static int start_sharing (fake_t *broker, const char *patience, const char *memory)
{
    int pair[2], status;
    char of[16];
    snprintf (of, sizeof of, "%d", (int) getpid ());
    strcpy (broker->pins.serves, "clients");
    fake_start (broker);
    assert_int_equal (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const char *const argv[] = { "wiremill-producer",
                                 "client",
                                 "--broker",
                                 broker->endpoint,
                                 "--of",
                                 of,
                                 "--give-up",
                                 patience,
                                 memory ? "--memory" : NULL,
                                 memory,
                                 NULL };
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

static int start (fake_t *broker, const char *patience)
{
    return start_sharing (broker, patience, NULL);
}

/* Reads the next frame of this type, and the text behind it.  */
static void heard (int fd, wm_library_type_t type, char text[512])
{
    wm_library_frame_t frame;
    do {
        assert_int_equal (recv (fd, &frame, sizeof frame, MSG_WAITALL), sizeof frame);
        assert_true (frame.bytes < 512);
        assert_false (frame.type == WM_LIBRARY_RESULT && type == WM_LIBRARY_FAILED);
        assert_int_equal (recv (fd, text, frame.bytes, MSG_WAITALL), frame.bytes);
        text[frame.bytes] = 0;
    } while (frame.type != type);
}

static void refused_for_now_it_rests (void **state)
{
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
    char text[512];
    fake_t *broker = fake_new (folder, play, NULL);
    const int fd = start (broker, "2.5s"); /* silence_ms is 3 s here */
    heard (fd, WM_LIBRARY_FAILED, text);
    assert_non_null (strstr (text, "was silent for "));
    assert_int_equal (broker->seen[WM_MSG_HELLO], 1);
    close (fd);
    fake_destroy (&broker);
}

/* The broker was away too shortly for the helper to have waited for it.  */
static void a_session_after_a_lost_one_is_told (void **state)
{
    char text[512];
    fake_t *broker = fake_new (folder, play, NULL);
    const int fd = start (broker, "60s");
    heard (fd, WM_LIBRARY_READY, text);
    heard (fd, WM_LIBRARY_WAITS, text);
    assert_string_equal (text, "");
    assert_true (broker->seen[WM_MSG_HELLO] >= 2);
    close (fd);
    fake_destroy (&broker);
}

static void share (int fd, uint32_t n, uint64_t place)
{
    const wm_library_frame_t frame = { WM_LIBRARY_SHARED, n, 42, sizeof place };
    uint8_t all[sizeof frame + sizeof place]; /* at once: a helper that refuses the frame ends */
    memcpy (all, &frame, sizeof frame);
    memcpy (all + sizeof frame, &place, sizeof place);
    assert_int_equal (send (fd, all, sizeof all, MSG_NOSIGNAL), sizeof all);
}

/* Reads the scores of two patches whose first values are these.  */
static void scored (int fd, float first, float second)
{
    char text[512];
    float score[8];
    heard (fd, WM_LIBRARY_RESULT, text);
    memcpy (score, text + 2, sizeof score);
    for (int i = 0; i < 8; i++)
        assert_true (score[i] == (i < 4 ? first : second));
}

/* Three patches of nine values lie at the end of a page; the middle one is in two batches.  */
static void patches_that_are_shared (void **state)
{
    enum { PAGE = 4096, PATCH = 9 * 4, PLACE = PAGE - 2 * PATCH };
    static const uint64_t outside[] = { PLACE + 4, PLACE + 2, UINT64_MAX };
    char text[512], path[32];
    const int memory = memfd_create ("test", 0);
    assert_int_equal (ftruncate (memory, PAGE), 0);
    snprintf (path, sizeof path, "/dev/fd/%d", memory);
    assert_true (memory > WM_LIBRARY_FD);
    for (int i = 0; i < 27; i++)
        assert_int_equal (pwrite (memory, &(float){ (float) i }, 4, PLACE - PATCH + 4 * i), 4);
    fake_t *broker = fake_new (folder, play_worker, NULL);
    int fd = start_sharing (broker, "60s", path);
    heard (fd, WM_LIBRARY_READY, text);
    share (fd, 2, PLACE); /* encoded before the broker asks for it, and the next when it does */
    share (fd, 2, PLACE - PATCH);
    scored (fd, 9, 18);
    scored (fd, 0, 9);
    close (fd);
    for (int i = 0; i < 4; i++) { /* the last helper shares nothing */
        fake_stop (broker);
        fd = start_sharing (broker, "60s", i < 3 ? path : NULL);
        heard (fd, WM_LIBRARY_READY, text);
        share (fd, 2, i < 3 ? outside[i] : PLACE);
        heard (fd, WM_LIBRARY_FAILED, text);
        assert_non_null (strstr (text, i < 3 ? "outside its memory" : "an invalid frame"));
        close (fd);
    }
    close (memory);
    fake_destroy (&broker);
}

static void memory_that_is_not_there (void **state)
{
    const char *const argv[] = { "wiremill-producer",
                                 "client",
                                 "--broker",
                                 "ipc:///proc/nowhere",
                                 "--of",
                                 "1",
                                 "--memory",
                                 "/proc/nowhere/at/all",
                                 NULL };
    int pair[2], status;
    assert_int_equal (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const wm_process_t process = { .program = "/proc/self/exe",
                                   .argv = argv,
                                   .keep = WM_LIBRARY_FD,
                                   .prepare = take_end,
                                   .argument = &pair[1] };
    const pid_t pid = wm_process_start (&process);
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (WEXITSTATUS (status), WM_EXIT_USAGE);
    close (pair[0]), close (pair[1]);
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
        cmocka_unit_test (a_session_after_a_lost_one_is_told),
        cmocka_unit_test (patches_that_are_shared),
        cmocka_unit_test (memory_that_is_not_there),
    };
    const int rc = cmocka_run_group_tests (tests, NULL, NULL);
    zdir_t *dir = zdir_new (folder, NULL);
    zdir_remove (dir, true);
    zdir_destroy (&dir);
    return rc;
}
