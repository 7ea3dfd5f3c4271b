/* test_gpuworker_cache.c - where models are kept, when a file is read again, and what is taken of a
   broker that sends a model. The session is played here.  */
#include "gpuworker/wm_cache.h"
#include "gpuworker/wm_credit.h"
#include "schema/base/wm_file.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the broker ------------------------------------------------------------------------------ */

enum { SILENT = WM_CLIENT_TIMEOUT, CLOSED = WM_CLIENT_CLOSED, SENDS = WM_CLIENT_MESSAGE };

/* What wm_client_wait finds, one after another.  */
typedef struct {
    int event;
    uint64_t offset, size;
    size_t bytes;
    bool is_receiving; /* a message is on its way */
    wm_msg_type_t type;
} step_t;

static const step_t *step;
static step_t now;
static uint64_t asked[8];
static uint32_t n_asked, n_wait;
static const uint8_t *content; /* of the model */
static wm_msg_t msg;
static const wm_error_t closed = { .text = "the session is over" };

wm_fault_t wm_client_send (wm_client_t *self, const wm_msg_t *sent, const void *payload,
                           size_t bytes)
{
    assert_true (sent->type == WM_MSG_MODEL_GET && !payload && !bytes);
    asked[n_asked++] = sent->offset;
    return WM_OK;
}

wm_client_event_t wm_client_wait (wm_client_t *self, int64_t timeout_ms)
{
    n_wait++;
    assert_true (timeout_ms > 0 && timeout_ms <= wm_times ()->silence_ms + 100);
    now = *step++;
    msg = (wm_msg_t){ .type = now.type, .offset = now.offset, .size = now.size };
    if (now.event == SILENT)
        usleep ((useconds_t) timeout_ms * 1000);
    return (wm_client_event_t) now.event;
}

bool wm_client_is_receiving (const wm_client_t *self)
{
    return now.is_receiving;
}

const wm_error_t *wm_client_error (const wm_client_t *self)
{
    return &closed;
}

const wm_msg_t *wm_client_msg (const wm_client_t *self)
{
    return &msg;
}

const uint8_t *wm_client_payload (const wm_client_t *self, size_t *bytes)
{
    *bytes = now.bytes;
    return content + now.offset;
}

/* ---- files ----------------------------------------------------------------------------------- */

static char folder[] = "/tmp/wm-cache-XXXXXX", model[128], lock[160], part[160], sha256[65];
static const uint8_t good[] = "what the model is", bad[] = "what it is not :(";

static void write_file (const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    assert_int_equal (fwrite (data, 1, bytes, file), bytes);
    assert_int_equal (fclose (file), 0);
}

/* Gives a file this time.  */
static void date (const char *path, const struct timespec *when)
{
    const struct timespec both[2] = { *when, *when };
    assert_int_equal (utimensat (AT_FDCWD, path, both, 0), 0);
}

static int setup (void **state)
{
    char path[128];
    wm_error_t error;
    assert_non_null (mkdtemp (folder));
    snprintf (path, sizeof path, "%s/any", folder);
    write_file (path, good, sizeof good);
    assert_int_equal (wm_file_sha256 (path, sha256, &error), WM_OK);
    unlink (path);
    snprintf (model, sizeof model, "%s/%s.wmm", folder, sha256);
    snprintf (lock, sizeof lock, "%s.lock", model);
    snprintf (part, sizeof part, "%s.part", model);
    content = good;
    return 0;
}

static int teardown (void **state)
{
    unlink (model), unlink (lock);
    return rmdir (folder);
}

static wm_fault_t cached (wm_error_t *error)
{
    char path[WM_CACHE_PATH_MAX];
    n_asked = n_wait = 0;
    const wm_fault_t fault = wm_cache_model (folder, sha256, NULL, path, error);
    assert_string_equal (path, model);
    return fault;
}

/* Whether the model is used without being fetched: its lock is a folder here, which stops those
   that would fetch it.  */
static bool is_used (void)
{
    wm_error_t error;
    unlink (lock); /* of a fetch before */
    assert_int_equal (mkdir (lock, 0700), 0);
    const wm_fault_t fault = cached (&error);
    assert_int_equal (rmdir (lock), 0);
    if (fault)
        assert_non_null (strstr (error.text, "cannot open "));
    assert_true (fault == WM_OK || fault == WM_EHOST);
    return !fault;
}

static void where_models_are_kept (void **state)
{
    static const struct {
        const char *cache, *home, *folder;
    } list[] = { { "/a", "/b", "/a/wiremill" },
                 { NULL, "/b", "/b/.cache/wiremill" },
                 { "a", "/b", "/b/.cache/wiremill" },
                 { "", "/b", "/b/.cache/wiremill" },
                 { "/a", NULL, "/a/wiremill" },
                 { NULL, "b", NULL },
                 { NULL, "", NULL },
                 { NULL, NULL, NULL } };
    char to[WM_CACHE_PATH_MAX], *large = malloc (WM_CACHE_PATH_MAX);
    wm_error_t error;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        unsetenv ("XDG_CACHE_HOME"), unsetenv ("HOME");
        if (list[i].cache)
            setenv ("XDG_CACHE_HOME", list[i].cache, 1);
        if (list[i].home)
            setenv ("HOME", list[i].home, 1);
        assert_int_equal (wm_cache_default (to, &error), list[i].folder ? WM_OK : WM_EHOST);
        if (list[i].folder)
            assert_string_equal (to, list[i].folder);
    }
    for (int more = 0; more < 2; more++) { /* "/wiremill" and the end fit, or do not */
        memset (large, '/', WM_CACHE_PATH_MAX);
        large[WM_CACHE_PATH_MAX - 10 + more] = 0;
        setenv ("XDG_CACHE_HOME", large, 1);
        assert_int_equal (wm_cache_default (to, &error), more ? WM_EHOST : WM_OK);
    }
    unsetenv ("XDG_CACHE_HOME");
    free (large);
}

/* A file is used if it has the hash. One that was checked is not read again while it is the same
   by its inode, its size and its time.  */
static void files_are_read_once (void **state)
{
    char other[160], stamp[WM_FILE_STAMP_BYTES], was[WM_FILE_STAMP_BYTES];
    const struct timespec then = { 1000000000, 5000 }, next_ns = { 1000000000, 5001 },
                          next_s = { 1000000001, 5000 };
    snprintf (other, sizeof other, "%s/other", folder);
    assert_false (is_used ()); /* there is none */
    wm_cache_check (folder, sha256, NULL);
    write_file (model, bad, sizeof bad);
    assert_false (is_used ());
    wm_cache_check (folder, sha256, NULL);
    assert_false (is_used ());
    wm_cache_check (folder, sha256, "another stamp");
    assert_false (is_used ());
    for (int change = 0; change < 6; change++) {
        write_file (model, good, sizeof good);
        date (model, &then);
        assert_true (is_used ());
        wm_cache_check (folder, sha256, NULL);
        write_file (model, bad, sizeof bad - (change == 1)); /* what may have happened meanwhile */
        date (model, change == 2 ? &next_ns : change == 3 ? &next_s : &then);
        if (change == 4) {
            write_file (other, bad, sizeof bad);
            date (other, &then);
            assert_int_equal (rename (other, model), 0);
        }
        if (change == 5) {
            unlink (model);
            assert_false (is_used ());
            continue;
        }
        assert_int_equal (is_used (), change == 0);
    }
    /* one that had the hash when it had this stamp */
    write_file (model, bad, sizeof bad);
    date (model, &then);
    assert_true (wm_file_stamp (model, was));
    wm_cache_check (folder, sha256, was);
    assert_true (is_used ());
    date (model, &next_s);
    assert_true (wm_file_stamp (model, stamp));
    assert_string_not_equal (stamp, was);
    wm_cache_check (folder, sha256, was);
    assert_false (is_used ());
    unlink (model);
}

static void names_are_hashes (void **state)
{
    char path[WM_CACHE_PATH_MAX], large[WM_CACHE_PATH_MAX];
    wm_error_t error;
    static const char *const list[] = {
        "",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeF",
        "g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "../../../../../../../../../../../../../../../../../../../etc/pwd",
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        assert_int_equal (wm_cache_model (folder, list[i], NULL, path, &error), WM_EPEER);
    /* a hash, ".wmm.lock", ".part" and a slash fit behind the folder, or it is refused */
    for (size_t more = 0; more < 2; more++) {
        memset (large, '/', sizeof large);
        memcpy (large, "/dev/null", 9);
        large[WM_CACHE_PATH_MAX - 80 + more] = 0;
        assert_int_equal (wm_cache_model (large, sha256, NULL, path, &error), WM_EHOST);
        assert_true (more == (strstr (error.text, "is too long") != NULL));
    }
    assert_int_equal (wm_cache_model ("/dev/null/no", sha256, NULL, path, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "no folder for models: "));
    assert_non_null (strstr (error.text, "; give --cache DIR"));
}

/* ---- what is fetched ------------------------------------------------------------------------- */

#define PART(at, n)                                                                                \
    {                                                                                              \
        SENDS, at, sizeof good, n, false, WM_MSG_MODEL                                             \
    }

static void models_are_fetched (void **state)
{
    static const uint64_t large = WM_MODEL_BYTES_MAX;
    const size_t all = sizeof good;
    const struct {
        step_t step[6];
        uint64_t asked[4];
        uint32_t n_asked;
        wm_fault_t fault;
        const char *text;
    } list[] = {
        { { PART (0, all) }, { 0 }, 1, WM_OK, "" },
        { { PART (0, 5), { .event = SENDS, .type = WM_MSG_TASK }, PART (5, 1), PART (6, all - 6) },
          { 0, 5, 6 },
          3,
          WM_OK,
          "" },
        { { PART (0, 5), { .event = WM_CLIENT_EXTRA }, PART (5, all - 5) },
          { 0, 5 },
          2,
          WM_OK,
          "" },
        /* silence ends it, but not while something is on its way */
        { { { .event = SILENT, .is_receiving = true },
            { .event = SILENT, .is_receiving = true },
            PART (0, all) },
          { 0 },
          1,
          WM_OK,
          "" },
        { { { .event = SILENT } }, { 0 }, 1, WM_EAGAIN, "the broker does not send the model" },
        { { PART (0, 5), { .event = CLOSED } }, { 0, 5 }, 2, WM_EAGAIN, "the session is over" },
        { { PART (1, 5) }, { 0 }, 1, WM_EPEER, "instead of those at 0" },
        { { PART (0, 5), PART (0, 5) }, { 0, 5 }, 2, WM_EPEER, "instead of those at 5" },
        { { PART (0, 0) }, { 0 }, 1, WM_EPEER, "sent 0 bytes at 0 of a model of 18 bytes" },
        { { PART (0, all + 1) }, { 0 }, 1, WM_EPEER, "sent 19 bytes at 0 of a model of 18 bytes" },
        { { PART (0, 5), PART (5, all - 4) }, { 0, 5 }, 2, WM_EPEER, "sent 14 bytes at 5 of" },
        { { { SENDS, 0, large + 1, 1, false, WM_MSG_MODEL } }, { 0 }, 1, WM_EPEER, "sent 1 bytes" },
        { { { SENDS, 0, large, 1, false, WM_MSG_MODEL }, { .event = CLOSED } },
          { 0, 1 },
          2,
          WM_EAGAIN,
          "the session is over" },
        { { PART (0, 5), { SENDS, 5, sizeof good - 1, 1, false, WM_MSG_MODEL } },
          { 0, 5 },
          2,
          WM_EPEER,
          "sent 1 bytes at 5 of a model of 17 bytes instead of those at 5" },
        { { { SENDS, 0, sizeof good - 1, sizeof good - 1, false, WM_MSG_MODEL } },
          { 0 },
          1,
          WM_EPEER,
          "the model that the broker sent is not " },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_error_t error = { .text = "" };
        unlink (model);
        step = list[i].step;
        const wm_fault_t fault = cached (&error);
        if (fault != list[i].fault || !strstr (error.text, list[i].text))
            fail_msg ("row %zu: %s", i, error.text);
        assert_int_equal (n_asked, list[i].n_asked);
        assert_memory_equal (asked, list[i].asked, n_asked * sizeof *asked);
        assert_int_equal (access (model, F_OK), fault ? -1 : 0);
        assert_int_equal (access (part, F_OK), -1);
        if (!fault)
            assert_true (is_used ());
    }
    /* a damaged one is replaced; what is left of a try before does not count */
    const step_t whole[] = { PART (0, sizeof good) };
    wm_error_t error;
    write_file (model, bad, sizeof bad);
    write_file (part, "much more than the whole model has", 34);
    step = whole;
    assert_int_equal (cached (&error), WM_OK);
    assert_true (is_used ());
    /* it cannot be written */
    unlink (model);
    assert_int_equal (mkdir (part, 0700), 0);
    step = whole;
    assert_int_equal (cached (&error), WM_EHOST);
    assert_non_null (strstr (error.text, ".part: Is a directory; give --cache DIR"));
    assert_int_equal (n_asked, 0);
    rmdir (part);
}

/* While another worker has the lock, this one waits for it and keeps its session.  */
static void one_worker_fetches (void **state)
{
    const step_t closes[] = { { .event = SILENT }, { .event = SILENT }, { .event = CLOSED } };
    wm_error_t error;
    unlink (model);
    const int fd = open (lock, O_RDWR | O_CREAT, 0600);
    assert_int_equal (flock (fd, LOCK_EX), 0);
    step = closes;
    assert_int_equal (cached (&error), WM_EAGAIN);
    assert_string_equal (error.text, "the session is over");
    assert_true (n_wait == 3 && n_asked == 0);
    close (fd);
    const step_t fetches[] = { PART (0, sizeof good) };
    step = fetches;
    assert_int_equal (cached (&error), WM_OK); /* it was not kept */
    assert_int_equal (n_asked, 1);
}

/* ---- how far ahead --------------------------------------------------------------------------- */

/* The window follows the mean of the batches' times, to which the newest gives a fifth: 2 s of
   work, for clients 0.2 s.  */
static void the_window_follows_the_mean (void **state)
{
    static const struct {
        double seconds;
        uint32_t bulk, clients;
    } list[] = { { 0.1, 20, 2 },   /* 0.1 */
                 { 0.65, 9, 2 },   /* 0.1 + 0.2 x 0.55 = 0.21 */
                 { 0.01, 11, 2 },  /* 0.21 - 0.2 x 0.2 = 0.17 */
                 { 3, 2, 2 },      /* 0.736 */
                 { 0.0001, 3, 2 }, /* 0.58882 */
                 { 10, 2, 2 } };
    for (int for_clients = 0; for_clients < 2; for_clients++) {
        wm_credit_t credit;
        wm_credit_init (&credit);
        assert_int_equal (credit.window, 2);
        wm_credit_session (&credit, for_clients);
        for (int k = 0; k < 50; k++)
            wm_credit_success (&credit, list[0].seconds * 1.02);
        for (int k = 0; k < 100; k++)
            wm_credit_success (&credit, list[0].seconds * 0.99);
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            if (i)
                wm_credit_success (&credit, list[i].seconds);
            if (i == 2 || i == 4) /* it grows by one */
                assert_int_equal (credit.window, for_clients ? 2 : list[i - 1].bulk + 1);
            else
                assert_int_equal (credit.window, for_clients ? 2 : list[i].bulk);
        }
        wm_credit_init (&credit);
        wm_credit_session (&credit, for_clients);
        for (int k = 0; k < 300; k++)
            wm_credit_success (&credit, 0.0019);
        assert_int_equal (credit.window, for_clients ? 105 : WM_CREDIT_MAX);
    }
    wm_credit_t first; /* of the first batch all is known at once, also where it takes long */
    wm_credit_init (&first);
    wm_credit_success (&first, 0.5);
    assert_int_equal (first.window, 3);
    wm_credit_success (&first, 0.5);
    wm_credit_success (&first, 0.5);
    assert_int_equal (first.window, 4);
}

int main (void)
{
    setenv ("WM_TIME_SCALE", "1000", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (where_models_are_kept), cmocka_unit_test (files_are_read_once),
        cmocka_unit_test (names_are_hashes),      cmocka_unit_test (models_are_fetched),
        cmocka_unit_test (one_worker_fetches),    cmocka_unit_test (the_window_follows_the_mean),
    };
    return cmocka_run_group_tests (tests, setup, teardown);
}
