/* test_producer_stage.c - remote inputs: which copies are tried again, and which are taken.

   The server is a folder: this program is also the curl that the stager starts. What curl does
   depends on the name of the file. The reader is a process of its own, as in the product.  */
#include "producer/staging/wm_stage_private.h"
#include "schema/base/wm_adler.h"
#include "tests/unit/unit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB 1000000u

static char root[64]; /* server, scratch, calls */

static void path_of (const char *name, char path[PATH_MAX])
{
    snprintf (path, PATH_MAX, "%s/%s", root, name);
}

/* ---- curl ------------------------------------------------------------------------------------ */

/* The value of a line of curl's configuration; "": there is none.  */
static void value_of (const char *config, const char *name, char value[PATH_MAX])
{
    char begin[40];
    snprintf (begin, sizeof begin, "\n%s = \"", name);
    const char *at = strstr (config, begin);
    *value = 0;
    if (at)
        sscanf (at + strlen (begin), "%4000[^\"]", value);
}

/* Gives the file: `slow` 1.25 MB a call, `crawl` 0.1, `short` without its last byte, `wrong` with
   another checksum.  */
static int be_curl (void)
{
    static char config[20000] = "\n", all[16 * MB];
    char url[PATH_MAX], output[PATH_MAX], head[PATH_MAX], from[PATH_MAX], calls[PATH_MAX];
    struct stat st;
    uint32_t adler;
    snprintf (root, sizeof root, "%s", getenv ("WM_TEST_ROOT"));
    config[1 + fread (config + 1, 1, sizeof config - 2, stdin)] = 0;
    value_of (config, "url", url);
    value_of (config, "output", output);
    value_of (config, "dump-header", head);
    const char *name = strrchr (url, '/') + 1;
    snprintf (from, sizeof from, "%s/server/%s", root, name);
    snprintf (calls, sizeof calls, "%s/calls", root);
    FILE *file = fopen (from, "r"), *to = fopen (output, "a"), *said = fopen (head, "w"),
         *list = fopen (calls, "a");
    if (!file || !to || !said || !list || wm_adler_file (from, &adler, &st))
        return 2;
    fprintf (list, "%s\n", name);
    fflush (list);
    const size_t n = fread (all, 1, sizeof all, file), had = (size_t) ftell (to);
    const bool slow = strncmp (name, "slow", 4) == 0, crawls = strncmp (name, "crawl", 5) == 0;
    const size_t most = slow ? MB + MB / 4 : crawls ? MB / 10 : n;
    size_t more = n - had < most ? n - had : most;
    const bool ends = had + more == n;
    more -= strncmp (name, "short", 5) == 0;
    adler += strncmp (name, "wrong", 5) == 0;
    fprintf (said, "HTTP/1.1 %s\r\nETag: \"1\"\r\nDigest: adler32=%08x\r\n",
             had ? "206 Part" : "200 OK", adler);
    if (had)
        fprintf (said, "Content-Range: bytes %zu-%zu/%zu\r\n\r\n", had, n - 1, n);
    else
        fprintf (said, "Content-Length: %zu\r\n\r\n", n);
    if (fwrite (all + had, 1, more, to) != more)
        return 2;
    printf ("wiremill-http-code %d\n", had ? 206 : 200);
    return fclose (to) || fclose (said) || fclose (list) || fclose (file) ? 2 : ends ? 0 : 18;
}

/* ---- the reader ------------------------------------------------------------------------------ */

#define NEED(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf (stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                    \
            exit (1);                                                                              \
        }                                                                                          \
    } while (0)

static void want (const wm_stage_reader_t *reader, uint32_t line)
{
    const wm_stage_msg_t msg = { .kind = WM_STAGE_WANT, .line = line };
    NEED (send (reader->fd, &msg, sizeof msg, 0) == sizeof msg);
}

/* The next line that is staged, or cannot be.  */
static wm_stage_msg_t hear (const wm_stage_reader_t *reader)
{
    wm_stage_msg_t msg = { .kind = WM_STAGE_WAITS };
    struct pollfd item = { .fd = reader->fd, .events = POLLIN };
    while (msg.kind == WM_STAGE_WAITS) {
        NEED (poll (&item, 1, 60000) == 1);
        NEED (recv (reader->fd, &msg, sizeof msg, 0) == sizeof msg);
    }
    return msg;
}

static uint32_t calls_of (const char *name)
{
    char path[PATH_MAX], line[100];
    uint32_t n = 0;
    path_of ("calls", path);
    FILE *file = fopen (path, "r");
    while (file && fgets (line, sizeof line, file))
        n += strncmp (line, name, strlen (name)) == 0;
    if (file)
        fclose (file);
    return n;
}

typedef void read_t (const wm_stage_reader_t *reader);

/* A stager whose reader calls `read`.  */
static void stage (char **line, uint32_t n_line, uint64_t bytes_max, read_t *read)
{
    char scratch[PATH_MAX];
    int status;
    path_of ("scratch", scratch);
    fflush (NULL);
    const pid_t stager = fork ();
    if (stager == 0) {
        wm_stage_options_t options = {
            .scratch = scratch, .bytes_max = bytes_max, .line = line, .n_line = n_line
        };
        wm_stage_reader_t reader;
        const int code = wm_stage_split (&options, &reader);
        if (code < 0)
            read (&reader);
        _exit (code < 0 ? 0 : code);
    }
    assert_int_equal (waitpid (stager, &status, 0), stager);
    assert_int_equal (status, 0);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint32_t calls;   /* of curl */
    const char *text; /* NULL: it is staged */
} copies[] = {
    { "good.h5", 1, NULL },
    { "slow.h5", 12, NULL }, /* more tries than the stager makes without progress */
    { "crawl.h5", 8, "tried 8 times" },
    { "short.h5", 8, "2999999 bytes came, the server has 3000000" },
    { "wrong.h5", 8, "adler32 of the copy is " },
};
enum { COPIES = sizeof copies / sizeof *copies };

static void read_copies (const wm_stage_reader_t *reader)
{
    char path[PATH_MAX], name[100];
    for (uint32_t i = 0; i < COPIES; i++) {
        want (reader, i);
        const wm_stage_msg_t msg = hear (reader);
        NEED (msg.line == i);
        if (copies[i].text)
            NEED (msg.kind == WM_STAGE_FAILED && strstr (msg.text, copies[i].text) &&
                  strstr (msg.text, "tried 8 times"));
        if (calls_of (copies[i].name) != copies[i].calls)
            fprintf (stderr, "%s: %u calls\n", copies[i].name, calls_of (copies[i].name));
        NEED (calls_of (copies[i].name) == copies[i].calls);
        if (copies[i].text)
            continue;
        struct stat st;
        uint32_t adler;
        NEED (msg.kind == WM_STAGE_READY);
        snprintf (name, sizeof name, "server/%s", copies[i].name);
        path_of (name, path);
        NEED (!wm_adler_file (path, &adler, &st));
        NEED (adler == msg.adler && (uint64_t) st.st_size == msg.size);
        NEED (!wm_adler_file (msg.text, &adler, &st));
        NEED (adler == msg.adler && (uint64_t) st.st_size == msg.size);
    }
}

/* A copy is tried again for as long as more of it comes, and 8 times where nothing more does, or
   where it is not what the server says.  */
static void copies_are_tried_again (void **state)
{
    char text[COPIES][100], *line[COPIES];
    for (uint32_t i = 0; i < COPIES; i++) {
        snprintf (text[i], sizeof text[i], "http://host/data/%s", copies[i].name);
        line[i] = text[i];
    }
    stage (line, COPIES, 100 * MB, read_copies);
}

static void read_datasets (const wm_stage_reader_t *reader)
{
    wm_stage_msg_t first, second;
    want (reader, 0);
    want (reader, 1);
    first = hear (reader);
    second = hear (reader);
    NEED (first.kind == WM_STAGE_READY && second.kind == WM_STAGE_READY);
    NEED (first.line + second.line == 1);
    NEED (strstr (first.text, first.line ? "good.h5:/b" : "good.h5:/a"));
    NEED (strstr (second.text, second.line ? "good.h5:/b" : "good.h5:/a"));
    NEED (calls_of ("good.h5") == 1);
    want (reader, 2); /* two files are 6 MB; three would not fit */
    NEED (hear (reader).kind == WM_STAGE_READY);
}

/* Datasets of one file have one copy, which counts once.  */
static void datasets_share_a_copy (void **state)
{
    char text[3][100] = { "http://host/data/good.h5:/a", "http://host/data/good.h5:/b",
                          "http://host/data/other.h5" },
         *line[3] = { text[0], text[1], text[2] };
    stage (line, 3, 7 * MB, read_datasets);
}

static int begin (void **state)
{
    static const char *const name[] = { "good", "slow", "crawl", "short", "wrong", "other" };
    char command[200];
    snprintf (command, sizeof command, "cd '%s' && rm -rf server scratch calls && mkdir server",
              root);
    if (system (command))
        return 1;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char path[PATH_MAX];
        snprintf (path, sizeof path, "%s/server/%s.h5", root, name[i]);
        FILE *file = fopen (path, "w");
        const uint32_t n = i == 1 ? 14 * MB + 1 : 3 * MB;
        for (uint32_t k = 0; file && k < n; k++)
            putc ((int) (k * 2654435761u >> 24), file);
        if (!file || fclose (file))
            return 1;
    }
    return 0;
}

int main (int argc, char **argv)
{
    char self[PATH_MAX] = "", path[PATH_MAX + 100], command[100];
    const char *name = strrchr (argv[0], '/') ? strrchr (argv[0], '/') + 1 : argv[0];
    if (strcmp (name, "curl") == 0)
        return be_curl ();
    setenv ("WM_TIME_SCALE", "50", 1); /* a copy stands still after 1.2 s */
    strcpy (root, "/tmp/wm-stage-XXXXXX");
    if (!mkdtemp (root) || readlink ("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    path_of ("curl", path);
    if (symlink (self, path))
        return 1;
    snprintf (path, sizeof path, "%s:%s", root, getenv ("PATH"));
    setenv ("PATH", path, 1);
    setenv ("WM_TEST_ROOT", root, 1);
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup (copies_are_tried_again, begin),
        cmocka_unit_test_setup (datasets_share_a_copy, begin),
    };
    const int failed = cmocka_run_group_tests (tests, NULL, NULL);
    snprintf (command, sizeof command, "rm -rf '%s'", root);
    return system (command) ? 1 : failed;
}
