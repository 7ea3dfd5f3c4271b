/* test_schema_endpoint.c - endpoint.json: what is written is read, what is damaged is refused, and
   which addresses are tried from which machine.  */
#include "schema/session/wm_client.h"
#include "schema/session/wm_endpoint.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[128], url[160];

static void put (const char *text)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

static wm_endpoint_t example (const char *host)
{
    wm_endpoint_t self = { .endpoint = "tcp://127.0.0.1:5555",
                           .listen = "tcp://*:5555",
                           .advertise = "tcp://head:5555,tcp://[fd00::2]:7000/7100/7200",
                           .campaign = "0123456789abcdef0123456789abcdef",
                           .version = WM_VERSION,
                           .pid = 4711,
                           .started_s = 1795341600 };
    if (host)
        snprintf (self.host, sizeof self.host, "%s", host);
    else
        gethostname (self.host, sizeof self.host - 1);
    return self;
}

static void test_file (void **state)
{
    wm_error_t error = { 0 };
    wm_endpoint_t read, wrote = example ("head");
    assert_int_equal (wm_endpoint_write (&wrote, dir, &error), WM_OK);
    assert_int_equal (wm_endpoint_read (&read, path, &error), WM_OK);
    assert_memory_equal (&read, &wrote, sizeof read);
    char last[WM_ADDRESS_BYTES + 200];
    wm_endpoint_last (&read, last);
    assert_string_equal (last,
                         "it was last at tcp://head:5555 on head, started 2026-11-22 10:00 UTC");

    /* A newer broker's fields are ignored, an older one's file is enough.  */
    put ("{\"endpoint\": \"tcp://127.0.0.1:7\", \"pid\": 1, \"keys\": {\"a\": [1]}}");
    assert_int_equal (wm_endpoint_read (&read, path, &error), WM_OK);
    assert_true (wm_endpoint_is_here (&read));
    put ("{\"endpoint\": \"ipc:///b\", \"host\": \"a\\u001b[31mb c\"}");
    assert_int_equal (wm_endpoint_read (&read, path, &error), WM_OK);
    assert_string_equal (read.host, "a?[31mb?c");
    assert_int_equal (wm_endpoint_write (&wrote, "/proc/no/such/folder", &error), WM_EHOST);
}

static void test_damaged (void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"endpoint\": 7}",
        "{\"endpoint\": \"http://x\"}",
        "{\"endpoint\": \"tcp://a:1,tcp://b:1\"}",
        "{\"endpoint\": \"file:///etc/passwd\"}",
        "{\"endpoint\": \"tcp://a:1\", \"listen\": [7]}",
        "{\"endpoint\": \"tcp://a:1\", \"advertise\": [\"tcp://*:1\"]}",
        "{\"endpoint\": \"tcp://a:1\", \"endpoint\": \"tcp://b:1\"}",
        "{\"endpoint\": \"tcp://a:1\", \"listen\": [\"ipc:///1\", \"ipc:///2\", \"ipc:///3\", "
        "\"ipc:///4\", \"ipc:///5\", \"ipc:///6\", \"ipc:///7\", \"ipc:///8\", \"ipc:///9\"]}",
    };
    wm_endpoint_t self;
    wm_error_t error;
    char list[WM_ENDPOINT_PLACES_MAX][WM_ADDRESS_BYTES];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put (bad[i]);
        if (wm_endpoint_read (&self, path, &error) != WM_EAGAIN)
            fail_msg ("%s was read", bad[i]);
        assert_non_null (strstr (error.text, "is damaged"));
        assert_int_equal (wm_endpoint_resolve (url, 0, list, &error), 0);
        assert_int_equal (error.fault, WM_EAGAIN); /* a broker may write it again */
    }
    unlink (path);
    assert_int_equal (wm_endpoint_read (&self, path, &error), WM_EAGAIN);
    assert_non_null (strstr (error.text, "no broker serves this campaign now"));
    assert_int_equal (mkfifo (path, 0600), 0); /* a pipe blocks nobody */
    assert_int_equal (wm_endpoint_read (&self, path, &error), WM_EAGAIN);
    unlink (path);
    assert_int_equal (mkdir (path, 0700), 0);
    assert_int_equal (wm_endpoint_read (&self, path, &error), WM_EAGAIN);
    rmdir (path);
}

static void test_choice (void **state)
{
    char text[WM_ENDPOINT_BYTES];
    wm_error_t error;
    wm_endpoint_t here = example (NULL), there = example ("some-other-machine");
    assert_int_equal (wm_endpoint_choose (&here, text, sizeof text, &error), WM_OK);
    assert_string_equal (text,
                         "tcp://127.0.0.1:5555,tcp://head:5555,tcp://[fd00::2]:7000/7100/7200");
    assert_int_equal (wm_endpoint_choose (&there, text, sizeof text, &error), WM_OK);
    assert_string_equal (text, "tcp://head:5555,tcp://[fd00::2]:7000/7100/7200");
    assert_int_equal (wm_endpoint_choose (&there, text, 20, &error), WM_OK);
    assert_string_equal (text, "tcp://head:5555"); /* whole addresses only */
    strcpy (there.endpoint, "tcp://10.0.0.1:5555");
    strcpy (there.advertise, "tcp://head:5555");
    assert_int_equal (wm_endpoint_choose (&there, text, sizeof text, &error), WM_OK);
    assert_string_equal (text, "tcp://head:5555,tcp://10.0.0.1:5555");
    strcpy (there.advertise,
            "tcp://a:1,tcp://b:1,tcp://c:1,tcp://d:1,tcp://e:1,tcp://f:1,tcp://g:1,"
            "tcp://h:1"); /* as many interfaces as are advertised at most */
    assert_int_equal (wm_endpoint_choose (&there, text, sizeof text, &error), WM_OK);
    assert_string_equal (text, there.advertise); /* nine would not be read again */
    strcpy (there.endpoint, "ipc:///b");
    strcpy (there.advertise, "");
    assert_int_equal (wm_endpoint_choose (&there, text, sizeof text, &error), WM_EAGAIN);
    strcpy (there.endpoint, "tcp://[::1]:5555");
    assert_int_equal (wm_endpoint_choose (&there, text, sizeof text, &error), WM_EAGAIN);
    assert_non_null (
        strstr (error.text, "runs on some-other-machine and can be reached only there"));
}

static void test_resolved (void **state)
{
    wm_error_t error;
    char list[WM_ENDPOINT_PLACES_MAX][WM_ADDRESS_BYTES];
    assert_int_equal (
        wm_endpoint_resolve ("tcp://127.0.0.1:5,ipc:///b,tcp://[::1]:7/9/8", 2, list, &error), 3);
    assert_string_equal (list[0], "tcp://127.0.0.1:7");
    assert_string_equal (list[1], "ipc:///b.o");
    assert_string_equal (list[2], "tcp://[::1]:8");
    /* A name that nobody knows does not hide the other addresses; alone it may be known later.  */
    assert_int_equal (
        wm_endpoint_resolve ("tcp://no.such.invalid:5,tcp://127.0.0.1:5", 0, list, &error), 1);
    assert_int_equal (wm_endpoint_resolve ("tcp://no.such.invalid:5", 0, list, &error), 0);
    assert_int_equal (error.fault, WM_EAGAIN);
    assert_int_equal (wm_endpoint_resolve ("tcp://head", 0, list, &error), 0);
    assert_int_equal (error.fault, WM_EPEER);
    assert_int_equal (wm_endpoint_resolve ("tcp://127.0.0.1:5,file:///b", 0, list, &error), 1);
}

/* A client reads the file again at each attempt, and names where the broker was.  */
static void test_client (void **state)
{
    wm_error_t error;
    wm_client_t *client = wm_client_new (url, WM_ROLE_WORKER, "test:1", NULL, NULL);
    assert_int_equal (wm_client_open (client, NULL, 0, 1000, &error), WM_EAGAIN);
    assert_non_null (strstr (error.text, "no broker serves this campaign now"));
    wm_endpoint_t dead = example (NULL);
    strcpy (dead.endpoint, "tcp://127.0.0.1:9");
    strcpy (dead.advertise, "tcp://127.0.0.1:9");
    assert_int_equal (wm_endpoint_write (&dead, dir, &error), WM_OK);
    assert_int_equal (wm_client_open (client, NULL, 0, 10000, &error), WM_EAGAIN);
    assert_non_null (strstr (error.text, "no broker answers at file://"));
    assert_non_null (strstr (error.text, "; it was last at tcp://127.0.0.1:9 on "));
    wm_client_destroy (&client);
}

int main (void)
{
    strcpy (dir, "/tmp/wm-endpoint-XXXXXX");
    if (!mkdtemp (dir))
        return 1;
    snprintf (path, sizeof path, "%s/endpoint.json", dir);
    snprintf (url, sizeof url, "file://%s", path);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_file),   cmocka_unit_test (test_damaged),
        cmocka_unit_test (test_choice), cmocka_unit_test (test_resolved),
        cmocka_unit_test (test_client),
    };
    const int failed = cmocka_run_group_tests (tests, NULL, NULL);
    unlink (path);
    rmdir (dir);
    return failed;
}
