/* test_ops_held_reader.c - what `wiremill serve` reads of held hits and pages of events: each
   campaign has its list, whoever asks for others, and one that cannot be read again stays.  */
#include "ops/campaign/wm_processes.h"
#include "ops/serve/wm_held_reader.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGES 5
#define LIMIT_MS 20000

static wm_served_t served[WM_SERVED_MAX];
static wm_held_reader_t *reader;

static int set_up (void **state)
{
    memset (served, 0, sizeof served);
    for (int i = 0; i < WM_SERVED_MAX; i++)
        snprintf (served[i].endpoint, sizeof served[i].endpoint, "ipc:///proc/nowhere/%d", i);
    reader = wm_held_reader_new ();
    return !reader;
}

static int tear_down (void **state)
{
    wm_held_reader_end (reader, LIMIT_MS);
    return 0;
}

/* A status whose list of what is held has one batch of this path, and which has so many hits held,
   about which a broker must be asked.  */
static json_t *status_of (const char *path, int n_held)
{
    return json_pack ("{s:{s:i}, s:[{s:s, s:s}]}", "hits", "held", n_held, "held", "state", "batch",
                      "path", path);
}

/* Asks for a list with this status. Returns the path in it; "": it is not read yet.  */
static const char *ask (const wm_served_t *one, const json_t *status)
{
    static char path[64];
    double age_s;
    const json_t *list = wm_held_reader_lend (reader, one, WM_HELD_ROWS, status, &age_s),
                 *first = json_array_get (json_object_get (list, "held"), 0);
    snprintf (path, sizeof path, "%s",
              list ? json_string_value (json_object_get (first, "path")) : "");
    wm_held_reader_take_back (reader);
    return path;
}

/* Asks until the list has this path; before that it may have one other, or none.  */
static void wait_for (const wm_served_t *one, const json_t *status, const char *path,
                      const char *before)
{
    const int64_t end = wm_now_ms () + LIMIT_MS;
    for (const char *now; strcmp (now = ask (one, status), path) != 0; wm_processes_nap (5)) {
        assert_string_equal (now, before);
        assert_true (wm_now_ms () < end);
    }
}

static void each_has_its_own (void **state)
{
    char path[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < WM_SERVED_MAX; i++) {
            snprintf (path, sizeof path, "/in/%d.h5", i);
            json_t *status = status_of (path, 0);
            if (round)
                assert_string_equal (ask (&served[i], status), path); /* at once */
            else
                wait_for (&served[i], status, path, "");
            json_decref (status);
        }
}

/* A place that was another campaign's has nothing of it.  */
static void one_after_another (void **state)
{
    json_t *first = status_of ("/in/first.h5", 0), *second = status_of ("/in/second.h5", 0);
    wait_for (&served[0], first, "/in/first.h5", "");
    strcpy (served[0].endpoint, "ipc:///proc/nowhere/else");
    wait_for (&served[0], second, "/in/second.h5", "");
    json_decref (first);
    json_decref (second);
}

/* No broker answers at the address when the list is read the second time.  */
static void one_that_cannot_be_read_again (void **state)
{
    wm_served_t *one = &served[0];
    json_t *first = status_of ("/in/first.h5", 0), *failed = status_of ("/in/failed.h5", 3),
           *last = status_of ("/in/last.h5", 0);
    strcpy (one->endpoint, "ipc:///proc/nowhere/b");
    wait_for (one, first, "/in/first.h5", "");
    const int64_t end =
        wm_now_ms () + wm_times ()->silence_ms; /* twice the time that one is kept */
    for (; wm_now_ms () < end; wm_processes_nap (5))
        assert_string_equal (ask (one, failed), "/in/first.h5");
    wait_for (one, last, "/in/last.h5", "/in/first.h5"); /* one after the other: that was read */
    json_decref (first);
    json_decref (failed);
    json_decref (last);
}

/* There is room for fewer pages of events than are asked for, all again before one is read.  */
static void five_pages (void **state)
{
    char dir[] = "/tmp/wm-held-XXXXXX", path[64], name[16];
    bool is_there[PAGES] = { false };
    const int64_t end = wm_now_ms () + LIMIT_MS;
    assert_non_null (mkdtemp (dir));
    for (int i = 0; i < PAGES; i++)
        for (int k = 0; k < 2; k++) {
            snprintf (path, sizeof path, "%s/%d%s", dir, i, k ? ".html" : ".scores.h5");
            FILE *out = fopen (path, "w");
            assert_non_null (out);
            fprintf (out, "page %d", i);
            fclose (out);
        }
    for (int n = 0, i = 0; n < PAGES; i = (i + 1) % PAGES) {
        const char *text;
        size_t bytes;
        snprintf (name, sizeof name, "%d.html", i);
        const unsigned code = wm_held_reader_page (reader, dir, name, &text, &bytes);
        assert_true (code == 200 || code == 202);
        if (code == 200) {
            assert_true (bytes == 6 && text[5] == '0' + i);
            n += !is_there[i];
            is_there[i] = true;
        }
        wm_held_reader_take_back (reader);
        if (i == PAGES - 1)
            wm_processes_nap (5);
        assert_true (wm_now_ms () < end);
    }
    for (int i = 0; i < PAGES; i++)
        for (int k = 0; k < 2; k++) {
            snprintf (path, sizeof path, "%s/%d%s", dir, i, k ? ".html" : ".scores.h5");
            unlink (path);
        }
    rmdir (dir);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown (each_has_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown (one_after_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown (one_that_cannot_be_read_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown (five_pages, set_up, tear_down),
    };
    setenv ("WM_TIME_SCALE", "40", 1);
    return cmocka_run_group_tests (tests, NULL, NULL);
}
