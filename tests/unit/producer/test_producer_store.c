/* test_producer_store.c - outputs, their sidecars and what killed producers left, on a server.

   The server is a folder: this program is also the xrdfs and xrdcp that the stager starts.  */
#include "producer/session/wm_produce_private.h"
#include "producer/staging/wm_stage_store.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define URL "root://host//data"
#define A "a.scores.h5"

static char root[64]; /* server/data, scratch/N, mode */
static int fd[2];
static wm_stage_options_t options = { .store = URL };

/* ---- files ----------------------------------------------------------------------------------- */

static const char *at (const char *format, ...) __attribute__ ((format (printf, 1, 2)));
static const char *at (const char *format, ...)
{
    static char path[8][PATH_MAX];
    static int turn;
    char *to = path[turn++ % 8];
    const int n = snprintf (to, PATH_MAX, "%s/", root);
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (to + n, PATH_MAX - (size_t) n, format, arguments);
    va_end (arguments);
    return to;
}

static void put (const char *path, const char *text)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

static const char *get (const char *path)
{
    static char text[1000];
    FILE *file = fopen (path, "r");
    text[file ? fread (text, 1, sizeof text - 1, file) : 0] = 0;
    if (file)
        fclose (file);
    return file ? text : NULL;
}

static bool is_there (const char *path)
{
    return access (path, F_OK) == 0;
}

static void age (const char *path, long hours)
{
    const struct timespec then[2] = { { .tv_sec = time (NULL) - hours * 3600 },
                                      { .tv_sec = time (NULL) - hours * 3600 } };
    assert_int_equal (utimensat (AT_FDCWD, path, then, 0), 0);
}

static int begin (void **state)
{
    char command[PATH_MAX];
    options.sidecars = false;
    snprintf (command, sizeof command,
              "cd '%s' && rm -rf server scratch mode && mkdir -p server/data scratch/1/out", root);
    return system (command) || socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd);
}

static int end (void **state)
{
    close (fd[0]);
    close (fd[1]);
    return 0;
}

/* ---- the stager's programs ------------------------------------------------------------------- */

static int refuse (const char *text)
{
    fprintf (stderr, "[ERROR] Server responded with an error: %s\n", text);
    return 54;
}

/* A line of `mode` is COMMAND ANSWER; "-" before it: for one call. *mode: the answer, if the first
   line is of this command.  */
static bool mode_take (const char *command, char mode[1000])
{
    const char *said = get (at ("mode"));
    snprintf (mode, 1000, "%s", said ? said : "");
    char *rest = mode + strcspn (mode, "\n");
    const bool once = *mode == '-';
    rest += *rest == '\n';
    if (strncmp (mode + once, command, strlen (command)) != 0)
        return false;
    if (once)
        put (at ("mode"), rest);
    rest[-(rest[-1] == '\n')] = 0;
    memmove (mode, mode + once + strlen (command) + 1, strlen (mode));
    return true;
}

static int be_tool (const char *name, int argc, char **argv)
{
    char mode[1000], path[PATH_MAX], to[PATH_MAX], date[40];
    struct stat st;
    uint32_t adler;
    uint64_t size;
    snprintf (root, sizeof root, "%s", getenv ("WM_TEST_ROOT"));
    const bool ls = strcmp (argv[2], "ls") == 0, is_fs = strcmp (name, "xrdfs") == 0;
    const char *command = is_fs ? argv[2] : "copy";
    if (mode_take (command, mode))
        return refuse (mode);
    if (!is_fs) { /* --nopbar --force --cksum SUM FROM TO */
        snprintf (path, sizeof path, "%s", argv[argc - 2]);
        snprintf (to, sizeof to, "%s", argv[argc - 1]);
        if (strncmp (path, "root:", 5) == 0)
            snprintf (path, sizeof path, "%s",
                      at ("server/%s", argv[argc - 2] + strlen ("root://host//")));
        else
            snprintf (to, sizeof to, "%s",
                      at ("server/%s", argv[argc - 1] + strlen ("root://host//")));
        const char *text = get (path);
        if (!text)
            return refuse ("[3011] No such file or directory");
        put (to, text);
        return 0;
    }
    snprintf (path, sizeof path, "%s",
              at ("server%s", argv[argc - (strcmp (command, "mv") == 0) - 1]));
    if (ls) {
        DIR *folder = opendir (path);
        for (struct dirent *entry; (entry = readdir (folder));)
            if (entry->d_name[0] != '.' && fstatat (dirfd (folder), entry->d_name, &st, 0) == 0) {
                strftime (date, sizeof date, "%Y-%m-%d %H:%M:%S", gmtime (&st.st_mtime));
                printf ("-rw-r--r-- u g %12lld %s /data/%s\n", (long long) st.st_size, date,
                        entry->d_name);
            }
        closedir (folder);
        return 0;
    }
    if (strcmp (command, "mkdir") == 0)
        return 0;
    if (!wm_stage_adler (path, &adler, &size))
        return refuse ("[3011] No such file or directory");
    if (strcmp (command, "stat") == 0)
        printf ("Path: x\nSize:   %llu\n", (unsigned long long) size);
    if (strcmp (command, "query") == 0)
        printf ("adler32 %08x\n", adler);
    if (strcmp (command, "rm") == 0)
        unlink (path);
    if (strcmp (command, "mv") == 0 && is_there (at ("server%s", argv[argc - 1])))
        return refuse ("[3018] file exists");
    if (strcmp (command, "mv") == 0)
        rename (path, at ("server%s", argv[argc - 1]));
    return 0;
}

/* ---- the reader's part ----------------------------------------------------------------------- */

static wm_store_t *open_store (void)
{
    static wm_dead_t dead;
    wm_error_t error;
    wm_dead_slots (&dead, at ("scratch"), at ("scratch/1"));
    wm_store_t *store = wm_store_new (&options, at ("scratch/1"), &dead);
    assert_int_equal (wm_store_open (store, &error), WM_OK);
    return store;
}

static void say (wm_store_t *store, wm_stage_kind_t kind, wm_stage_how_t how)
{
    wm_stage_msg_t msg = { .kind = kind, .how = how };
    strcpy (msg.text, A);
    wm_store_handle (store, fd[0], &msg);
}

/* Goes on until the stager tells something, trouble only where that is wanted: it comes as often as
   the machine is slow. kind 0: until nothing is left to do.  */
static wm_stage_msg_t hear (wm_store_t *store, wm_stage_kind_t kind)
{
    wm_stage_msg_t msg = { .kind = 0 };
    for (int i = 0; i < 100000; i++, usleep (1000)) {
        const bool any = wm_store_step (store);
        const bool told = recv (fd[1], &msg, sizeof msg, MSG_DONTWAIT) == sizeof msg;
        if (told && msg.kind == WM_STAGE_TROUBLE && kind != WM_STAGE_TROUBLE)
            msg.kind = 0;
        else if (told || (!kind && !any))
            break;
    }
    if (msg.kind != kind)
        print_error ("it tells %u, wanted %u: %s\n", msg.kind, kind, msg.text);
    assert_int_equal (msg.kind, kind);
    return msg;
}

/* The trouble is over.  */
static void hear_end (wm_store_t *store)
{
    while (*hear (store, WM_STAGE_TROUBLE).text)
        ;
}

/* Some steps that come to nothing; on a slow machine the stager reports that.  */
static void tend (wm_store_t *store)
{
    wm_stage_msg_t msg;
    for (int i = 0; i < 300; i++, usleep (1000))
        wm_store_step (store);
    while (recv (fd[1], &msg, sizeof msg, MSG_DONTWAIT) >= 0)
        assert_int_equal (msg.kind, WM_STAGE_TROUBLE);
}

static void put_sidecar (const char *adler)
{
    char text[100];
    snprintf (text, sizeof text, "{\"checksums\": {\"adler32\": \"%s\"}}", adler);
    put (at ("scratch/1/out/" A ".json.new"), text);
    rename (at ("scratch/1/out/" A ".json.new"), at ("scratch/1/out/" A ".json"));
}

#define SUM "024d0127" /* of "abc" */
#define HERE "scratch/1/out/" A
#define THERE "server/data/" A

/* ---- sidecars -------------------------------------------------------------------------------- */

static void test_sidecar (void **state)
{
    options.sidecars = true;
    wm_store_t *store = open_store ();
    put (at (HERE), "abc");
    put_sidecar ("00000001"); /* of an earlier output */
    say (store, WM_STAGE_STORE, WM_STAGE_PLAIN);
    while (!is_there (at (THERE)))
        wm_store_step (store);
    tend (store); /* it waits, and keeps what the sidecar is made from */
    assert_true (is_there (at (HERE)));
    assert_false (is_there (at (THERE ".json")));
    put_sidecar (SUM);
    const wm_stage_msg_t msg = hear (store, WM_STAGE_STORED);
    assert_int_equal (msg.adler, 0x024d0127);
    assert_int_equal (msg.size, 3);
    assert_non_null (strstr (get (at (THERE ".json")), SUM));
    assert_string_equal (get (at (THERE)), "abc");
    assert_false (is_there (at (HERE)) || is_there (at (HERE ".json")));
    wm_store_destroy (&store);
}

/* A sidecar that is there is of an earlier output, or this one's: a kill came before the report.
   It may also have come after the list was made.  */
static void test_sidecar_there (void **state)
{
    options.sidecars = true;
    for (int i = 0; i < 4; i++) {
        wm_store_t *store = NULL;
        if (i % 2)
            store = open_store ();
        put (at (THERE ".json"), i < 2 ? "old" : "{\"checksums\": {\"adler32\": \"" SUM "\"}}");
        if (!store)
            store = open_store ();
        put (at (HERE), "abc");
        put_sidecar (SUM);
        say (store, WM_STAGE_STORE, WM_STAGE_PLAIN);
        hear (store, WM_STAGE_STORED);
        assert_non_null (strstr (get (at (THERE ".json")), SUM));
        assert_false (is_there (at (HERE)) || is_there (at (HERE ".json")));
        wm_store_destroy (&store);
        unlink (at (THERE ".json"));
        unlink (at (THERE));
    }
}

/* One that does not come is reported, and waited for.  */
static void test_sidecar_late (void **state)
{
    options.sidecars = true;
    wm_store_t *store = open_store ();
    put (at (HERE), "abc");
    say (store, WM_STAGE_STORE, WM_STAGE_PLAIN);
    for (int i = 0; i < 2; i++)
        assert_non_null (strstr (hear (store, WM_STAGE_TROUBLE).text, "made none of " A " in "));
    put_sidecar (SUM);
    hear_end (store);
    hear (store, WM_STAGE_STORED);
    wm_store_destroy (&store);
}

static void test_sidecar_later (void **state)
{
    options.sidecars = true;
    put (at (THERE), "abc");
    wm_store_t *store = open_store ();
    say (store, WM_STAGE_SIDECAR, WM_STAGE_PLAIN);
    hear (store, WM_STAGE_FETCHED);
    assert_string_equal (get (at (HERE)), "abc");
    put_sidecar (SUM);
    hear (store, WM_STAGE_STORED);
    assert_non_null (strstr (get (at (THERE ".json")), SUM));
    assert_false (is_there (at (HERE)) || is_there (at (HERE ".json")));
    unlink (at (THERE));
    say (store, WM_STAGE_SIDECAR, WM_STAGE_PLAIN);
    hear (store, WM_STAGE_GONE);
    wm_store_destroy (&store);
}

/* ---- what the server says -------------------------------------------------------------------- */

static void test_denied (void **state)
{
    static const char *const step[] = { "copy", "mv", "stat" };
    for (int i = 0; i < 3; i++) {
        wm_store_t *store = open_store ();
        char mode[100], wanted[100];
        snprintf (mode, sizeof mode, "%s [3010] Unable to do it; permission denied", step[i]);
        put (at ("mode"), mode);
        put (at (HERE), "abc");
        say (store, WM_STAGE_STORE, i < 2 ? WM_STAGE_PLAIN : WM_STAGE_REPLACE);
        hear (store, WM_STAGE_TROUBLE);
        const wm_stage_msg_t msg = hear (store, WM_STAGE_DENIED);
        snprintf (wanted, sizeof wanted, A ": %s: [ERROR] Server", i ? "xrdfs" : "xrdcp");
        assert_memory_equal (msg.text, wanted, strlen (wanted));
        assert_non_null (strstr (msg.text, "permission denied (tried 5 times in "));
        assert_true (is_there (at (HERE)));
        hear (store, 0);
        unlink (at ("mode"));
        say (store, WM_STAGE_STORE, WM_STAGE_PLAIN);
        hear_end (store);
        hear (store, WM_STAGE_STORED);
        wm_store_destroy (&store);
        unlink (at (THERE));
    }
}

/* A full disk and a quota pass; the reader hears of them again and again.  */
static void test_full (void **state)
{
    wm_store_t *store = open_store ();
    put (at ("mode"), "copy [3021] disk quota exceeded");
    put (at (HERE), "abc");
    say (store, WM_STAGE_STORE, WM_STAGE_PLAIN);
    for (int i = 0; i < 2; i++)
        assert_non_null (strstr (hear (store, WM_STAGE_TROUBLE).text, "quota exceeded"));
    put (at ("mode"), "copy [3010] permission denied"); /* for a moment: credentials are renewed */
    for (int i = 0; i < 400; i++, usleep (1000))
        wm_store_step (store);
    unlink (at ("mode"));
    hear_end (store);
    hear (store, WM_STAGE_STORED);
    wm_store_destroy (&store);
}

/* Refusals count where they follow each other.  */
static void test_refused_between (void **state)
{
    wm_store_t *store = open_store ();
    put (at ("mode"), "-copy [3010] denied\n-copy [3010] denied\n-copy [3010] denied\n"
                      "-copy [3009] no space left\n-copy [3010] denied\n-copy [3010] denied\n");
    put (at (HERE), "abc");
    say (store, WM_STAGE_STORE, WM_STAGE_PLAIN);
    hear_end (store);
    hear (store, WM_STAGE_STORED);
    assert_string_equal (get (at ("mode")), "");
    put (at ("mode"), "-copy [3010] denied\n-copy [3010] denied\n-copy [3010] denied\n");
    say (store, WM_STAGE_LOOK, WM_STAGE_PLAIN);
    hear (store, WM_STAGE_THERE); /* what worked ends the count of its job */
    put (at ("mode"), "-copy [3010] denied\n-copy [3010] denied\n-copy [3010] denied\n");
    put (at (HERE), "abcd");
    say (store, WM_STAGE_STORE, WM_STAGE_REPLACE);
    hear (store, WM_STAGE_STORED);
    assert_string_equal (get (at ("mode")), "");
    wm_store_destroy (&store);
}

/* Tries in vain come less and less often: after each the stager waits twice as long, however slow
   the machine is.  */
static void test_pauses (void **state)
{
    enum { TRIES = 5 };
    const int64_t wait_ms = wm_times ()->stage_wait_ms;
    int64_t before_ms[TRIES]; /* a moment at which the try had not begun to fail */
    wm_store_t *store = open_store ();
    put (at (HERE), "abc");
    say (store, WM_STAGE_STORE, WM_STAGE_PLAIN);
    for (int n = 0; n < TRIES; n++) {
        put (at ("mode"), "-copy [3009] busy\n");
        int64_t now_ms;
        do {
            before_ms[n] = now_ms = wm_now_ms ();
            wm_store_step (store);
            usleep (1000);
        } while (*get (at ("mode")));
        now_ms = wm_now_ms ();
        if (n && now_ms - before_ms[n - 1] < wait_ms << (n - 1))
            fail_msg ("try %d came %d ms after the one before", n,
                      (int) (now_ms - before_ms[n - 1]));
    }
    hear_end (store);
    hear (store, WM_STAGE_STORED);
    wm_store_destroy (&store);
}

static void test_words (void **state)
{
#define SAID "xrdcp: Run: [ERROR] Server responded with an error: "
    assert_true (wm_tool_is_refused (SAID "[3010] Unable to create it; permission denied"));
    assert_true (wm_tool_is_refused (SAID "[3013] checksum not supported"));
    assert_true (wm_tool_is_refused (SAID "[3016] it is a directory"));
    assert_true (wm_tool_is_refused (SAID "[3028] TLS is needed"));
    assert_true (wm_tool_is_refused (SAID "[3030] Authentication failed; token expired"));
    assert_true (wm_tool_is_refused ("xrdfs: [FATAL] Auth failed: No protocols left to try"));
    assert_false (wm_tool_is_refused (SAID "[3009] no space left on device"));
    assert_false (wm_tool_is_refused (SAID "[3011] No such file or directory"));
    assert_false (wm_tool_is_refused (SAID "[3021] quota exceeded"));
    assert_false (wm_tool_is_refused (SAID "[3025] file system is read-only"));
    assert_false (wm_tool_is_refused ("xrdcp: [FATAL] Invalid address"));
    assert_false (wm_tool_is_refused ("xrdcp: Permission denied"));
    assert_true (wm_tool_is_missing (SAID "[3011] No such file or directory"));
    assert_false (wm_tool_is_missing ("xrdcp: No such file or directory")); /* the program */
#undef SAID
}

/* Codes and words in a file's name are none of the server's.  */
static void test_names (void **state)
{
#define SAID "Run: [ERROR] Server responded with an error: "
    static const struct {
        const char *said;
        int exit_code;
        wm_tool_end_t copy, stat;
    } of[] = {
        { SAID "[3011] Unable to open /d/x; no such file (source)", 54, WM_TOOL_FINAL,
          WM_TOOL_FINAL },
        { SAID "[3011] Unable to open /d/checksum; no such file (source)", 54, WM_TOOL_FINAL,
          WM_TOOL_FINAL },
        { SAID "[3013] checksum not supported", 54, WM_TOOL_RESTART, WM_TOOL_FINAL },
        { "noise\nRun: [FATAL] Auth failed: No protocols left", 52, WM_TOOL_FINAL, WM_TOOL_FINAL },
        { "[ERROR] Error response: permission denied", 54, WM_TOOL_FINAL, WM_TOOL_FINAL },
        { SAID "[3007] I/O error on /d/x[3010].h5", 54, WM_TOOL_RESTART, WM_TOOL_AGAIN },
        { SAID "[3007] I/O error on /d/x: [3010] .h5", 54, WM_TOOL_RESTART, WM_TOOL_AGAIN },
        { SAID "[3007] I/O error on /d/No such file.h5", 54, WM_TOOL_RESTART, WM_TOOL_AGAIN },
        { "Run: [FATAL] Connection error: /d/Permission denied", 51, WM_TOOL_RESTART,
          WM_TOOL_AGAIN },
        { "[ERROR] Operation expired: /d/Auth failed: [3011] .h5", 51, WM_TOOL_RESTART,
          WM_TOOL_AGAIN },
    };
    char text[400];
    uint64_t size;
    int64_t adler;
    for (size_t i = 0; i < 2 * sizeof of / sizeof *of; i++) {
        wm_tool_t tool = { .said = memfd_create ("said", MFD_CLOEXEC) };
        const int status = of[i / 2].exit_code << 8;
        dprintf (tool.said, "%s\n", of[i / 2].said);
        const wm_tool_end_t end =
            i % 2 ? wm_tool_stat_result (&tool, status, &size, text)
                  : wm_tool_copy_result (&tool, URL, status, &size, &adler, text);
        if (end != (i % 2 ? of[i / 2].stat : of[i / 2].copy))
            fail_msg ("%s of '%s' is %d", i % 2 ? "stat" : "copy", of[i / 2].said, end);
        if (end == WM_TOOL_AGAIN)
            assert_false (wm_tool_is_refused (text) || wm_tool_is_missing (text));
    }
#undef SAID
    wm_tool_t tool = { .said = memfd_create ("said", MFD_CLOEXEC) };
    dprintf (tool.said, "\nPath:   /d/Size: 3.h5\nSize:   77\n");
    assert_int_equal (wm_tool_stat_result (&tool, 0, &size, text), WM_TOOL_DONE);
    assert_int_equal (size, 77);
}

/* A program that the stager ended: whether the file did not grow, or took too long.  */
static void test_limits (void **state)
{
    char text[400];
    for (int i = 0; i < 2; i++) {
        const int64_t now = wm_now_ms ();
        wm_tool_t tool = { .said = memfd_create ("said", MFD_CLOEXEC),
                           .stalled = true,
                           .grew_ms = now - 7000,
                           .began_ms = i ? now - wm_times ()->stage_wall_ms - 1000 : now - 9000 };
        assert_int_equal (wm_tool_send_result (&tool, SIGKILL, text), WM_TOOL_AGAIN);
        assert_non_null (strstr (text, i ? "took longer than" : "did not grow for 7 s"));
    }
}

/* An output that cannot be read for a while is read again.  */
static void test_unreadable (void **state)
{
    wm_store_t *store = open_store ();
    assert_int_equal (mkdir (at (HERE), 0700), 0);
    say (store, WM_STAGE_STORE, WM_STAGE_PLAIN);
    hear (store, WM_STAGE_TROUBLE);
    assert_int_equal (rmdir (at (HERE)), 0);
    put (at (HERE), "abc");
    hear_end (store);
    hear (store, WM_STAGE_STORED);
    assert_string_equal (get (at (THERE)), "abc");
    wm_store_destroy (&store);
}

/* What somebody changed is kept under a name that is free, also one that the list does not have; or
   it is gone.  */
static void test_aside (void **state)
{
    put (at (THERE ".changed-1"), "first");
    wm_store_t *store = open_store ();
    put (at (THERE), "second");
    say (store, WM_STAGE_MOVE, WM_STAGE_PLAIN);
    assert_string_equal (hear (store, WM_STAGE_MOVED).text, A ".changed-2");
    put (at (THERE), "third"); /* the list has no .changed-2 */
    say (store, WM_STAGE_MOVE, WM_STAGE_PLAIN);
    assert_string_equal (hear (store, WM_STAGE_MOVED).text, A ".changed-3");
    say (store, WM_STAGE_MOVE, WM_STAGE_PLAIN);
    assert_string_equal (hear (store, WM_STAGE_MOVED).text, "");
    assert_string_equal (get (at (THERE ".changed-1")), "first");
    assert_string_equal (get (at (THERE ".changed-2")), "second");
    assert_string_equal (get (at (THERE ".changed-3")), "third");
    wm_store_destroy (&store);
}

/* ---- the reader ------------------------------------------------------------------------------ */

/* The stager has a table of questions: the 65th waits, as an input that another producer has.  */
static void test_questions (void **state)
{
    static wm_produce_options_t reader = { .store = URL };
    static wm_input_t input[66];
    static wm_produce_t produce = { .options = &reader, .input = input, .n_input = 66 };
    wm_stage_msg_t msg;
    uint32_t n_look = 0;
    reader.stager = fd[0];
    for (uint32_t i = 0; i < 66; i++) {
        input[i] = (wm_input_t){ .line = i, .name = A };
        assert_true (wm_produce_store_look (&produce, &input[i]));
        assert_int_equal (input[i].is, i < 64 ? WM_INPUT_IS_LOST : WM_INPUT_IS_BUSY);
        assert_int_equal (input[i].checking, i < 64);
        while (recv (fd[1], &msg, sizeof msg, MSG_DONTWAIT) == sizeof msg)
            n_look += msg.kind == WM_STAGE_LOOK;
    }
    assert_int_equal (n_look, 64);
    msg = (wm_stage_msg_t){ .kind = WM_STAGE_THERE, .line = 3 };
    wm_produce_store_told (&produce, &msg); /* it is gone: the broker is asked again, and told */
    assert_int_equal (input[3].is, WM_INPUT_IS_NEW);
    assert_false (wm_produce_store_look (&produce, &input[3]));
    assert_true (wm_produce_store_look (&produce, &input[65]));
    assert_int_equal (input[65].is, WM_INPUT_IS_LOST);
}

/* The stager forgets each output that has ended, also one whose question it has answered.  */
static void test_forgotten (void **state)
{
    static wm_produce_options_t reader = { .store = URL };
    static wm_produce_t produce = { .options = &reader };
    static wm_input_t input = { .line = 7, .name = A };
    wm_stage_msg_t msg;
    reader.stager = fd[0];
    wm_produce_store_drop (&produce, &input);
    assert_int_equal (recv (fd[1], &msg, sizeof msg, MSG_DONTWAIT), sizeof msg);
    assert_int_equal (msg.kind, WM_STAGE_FORGET);
    assert_int_equal (msg.line, 7);
    wm_store_t *store = open_store ();
    for (uint32_t i = 0; i < 300; i++) { /* more than its table has */
        say (store, WM_STAGE_LOOK, WM_STAGE_REPLACE);
        if (i % 100 == 0)
            hear (store, WM_STAGE_THERE);
        say (store, WM_STAGE_FORGET, WM_STAGE_PLAIN);
    }
    say (store, WM_STAGE_LOOK, WM_STAGE_REPLACE);
    hear (store, WM_STAGE_THERE);
    wm_store_destroy (&store);
}

/* ---- what killed producers left -------------------------------------------------------------- */

#define COPY "0123456789abcdef-00000001-3-x.h5"

static void test_slots (void **state)
{
    char command[PATH_MAX];
    snprintf (command, sizeof command,
              "cd '%s/scratch' && mkdir -p 2/out 3/out 4 mine && for d in 1 2 3 4 mine; do "
              "echo x >$d/" COPY "; echo x >$d/0123456789abcdef.part; echo x >$d/notes; done && "
              "touch 1/out/a.scores.h5 2/out/a.scores.h5 3/out/a.scores.h5 && rm 4/notes",
              root);
    assert_int_equal (system (command), 0);
    static const char *const old[] = { "1", "2", "3", "4", "mine" };
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        age (at ("scratch/%s/" COPY, old[i]), 25);
        age (at ("scratch/%s/0123456789abcdef.part", old[i]), i == 1 ? 23 : 25);
    }
    age (at ("scratch/2/notes"), 1000);
    const int lock = open (at ("scratch/3"), O_RDONLY | O_DIRECTORY);
    assert_int_equal (flock (lock, LOCK_EX), 0);
    put (at (THERE ".%08x.part", wm_dead_hash (at ("scratch/1"))), "mine");
    put (at (THERE ".%08x.part", wm_dead_hash (at ("scratch/2"))), "dead");
    put (at (THERE ".json.%08x.part", wm_dead_hash (at ("scratch/2"))), "dead");
    put (at (THERE ".%08x.part", wm_dead_hash (at ("scratch/3"))), "alive");
    put (at (THERE ".00000001.part"), "elsewhere");
    put (at (THERE ".00000002.part"), "elsewhere");
    age (at (THERE ".00000001.part"), 71);
    age (at (THERE ".00000002.part"), 73);
    put (at ("server/data/notes.00000002.part"), "not ours");
    age (at ("server/data/notes.00000002.part"), 73);
    wm_store_t *store = open_store ();
    hear (store, 0);
    assert_true (is_there (at ("scratch/1/" COPY))); /* its own is swept elsewhere */
    assert_false (is_there (at ("scratch/2/" COPY)));
    assert_false (is_there (at ("scratch/2/out")));
    assert_true (is_there (at ("scratch/2/0123456789abcdef.part")));
    assert_true (is_there (at ("scratch/2/notes")));
    assert_true (is_there (at ("scratch/3/" COPY)));
    assert_true (is_there (at ("scratch/3/out/a.scores.h5")));
    assert_false (is_there (at ("scratch/4")));
    assert_true (is_there (at ("scratch/mine/" COPY)));
    assert_true (is_there (at (THERE ".%08x.part", wm_dead_hash (at ("scratch/1")))));
    assert_false (is_there (at (THERE ".%08x.part", wm_dead_hash (at ("scratch/2")))));
    assert_false (is_there (at (THERE ".json.%08x.part", wm_dead_hash (at ("scratch/2")))));
    assert_true (is_there (at (THERE ".%08x.part", wm_dead_hash (at ("scratch/3")))));
    assert_true (is_there (at (THERE ".00000001.part")));
    assert_false (is_there (at (THERE ".00000002.part")));
    assert_true (is_there (at ("server/data/notes.00000002.part")));
    close (lock);
    wm_store_destroy (&store);
}

int main (int argc, char **argv)
{
    char self[PATH_MAX] = "", path[PATH_MAX + 100], command[100];
    const char *name = strrchr (argv[0], '/') ? strrchr (argv[0], '/') + 1 : argv[0];
    if (strncmp (name, "xrd", 3) == 0)
        return be_tool (name, argc, argv);
    setenv ("WM_TIME_SCALE", "30", 1);
    strcpy (root, "/tmp/wm-store-XXXXXX");
    if (!mkdtemp (root) || readlink ("/proc/self/exe", self, sizeof self - 1) < 0 ||
        symlink (self, at ("xrdfs")) || symlink (self, at ("xrdcp")))
        return 1;
    snprintf (path, sizeof path, "%s:%s", root, getenv ("PATH"));
    setenv ("PATH", path, 1);
    setenv ("WM_TEST_ROOT", root, 1);
#define TEST(name) cmocka_unit_test_setup_teardown (name, begin, end)
    const struct CMUnitTest tests[] = { TEST (test_sidecar),         TEST (test_sidecar_there),
                                        TEST (test_sidecar_late),    TEST (test_sidecar_later),
                                        TEST (test_denied),          TEST (test_full),
                                        TEST (test_words),           TEST (test_names),
                                        TEST (test_limits),          TEST (test_unreadable),
                                        TEST (test_refused_between), TEST (test_aside),
                                        TEST (test_questions),       TEST (test_pauses),
                                        TEST (test_forgotten),       TEST (test_slots) };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    const int failed = cmocka_run_group_tests (tests, NULL, NULL);
    snprintf (command, sizeof command, "rm -rf '%s'", root);
    return system (command) ? 1 : failed;
}
