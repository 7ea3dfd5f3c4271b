/* test_schema_address.c - addresses of brokers: what is taken, and how each mistake is named.  */
#include "schema/base/wm_address.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static void taken (const char *text, wm_address_use_t use, const char *printed, int port, int last)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t error = { 0 };
    char again[WM_ADDRESS_BYTES];
    if (wm_address_parse (list, text, use, &error) != 1)
        fail_msg ("%s: %s", text, error.text);
    wm_address_print (&list[0], NULL, again);
    assert_string_equal (again, printed);
    assert_int_equal (list[0].port[0], port);
    assert_int_equal (list[0].last, last);
}

static void test_taken (void **state)
{
    const wm_address_use_t both[] = { WM_ADDRESS_CONNECT, WM_ADDRESS_LISTEN };
    for (int i = 0; i < 2; i++) {
        taken ("tcp://head:5555", both[i], "tcp://head:5555", 5555, 0);
        taken ("tcp://10.0.0.1:65533", both[i], "tcp://10.0.0.1:65533", 65533, 0);
        taken ("tcp://[::1]:5555", both[i], "tcp://[::1]:5555", 5555, 0);
        taken ("tcp://[fe80::1%eth0]:5555", both[i], "tcp://[fe80::1%eth0]:5555", 5555, 0);
        taken ("tcp://gate:7000/7100/65535", both[i], "tcp://gate:7000/7100/65535", 7000, 0);
        taken ("tcp://gate:7000/7001/7002", both[i], "tcp://gate:7000", 7000, 0);
        taken ("ipc:///run/a,b", both[i], "ipc:///run/a,b", 0, 0);
    }
    taken ("file:///out/.wiremill/endpoint.json", WM_ADDRESS_CONNECT,
           "file:///out/.wiremill/endpoint.json", 0, 0);
    taken ("tcp://*:5555", WM_ADDRESS_LISTEN, "tcp://*:5555", 5555, 0);
    taken ("tcp://eth0:*", WM_ADDRESS_LISTEN, "tcp://eth0:0", 0, 0);
    taken ("tcp://[::]:0", WM_ADDRESS_LISTEN, "tcp://[::]:0", 0, 0);
    taken ("tcp://*:5500-5600", WM_ADDRESS_LISTEN, "tcp://*:5500-5600", 5500, 5600);
    taken ("tcp://*:65533-65535", WM_ADDRESS_LISTEN, "tcp://*:65533-65535", 65533, 65535);

    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t error;
    assert_int_equal (wm_address_parse (list, "tcp://a:1,ipc:///x,y,tcp://[::1]:7/8/9",
                                        WM_ADDRESS_CONNECT, &error),
                      3);
    assert_string_equal (list[1].host, "/x,y");
    assert_int_equal (list[2].port[2], 9);
    assert_int_equal (list[0].port[2], 3);
}

/* What is typed, where, and what the message must contain: the mistake, and what to type.  */
static void test_mistakes (void **state)
{
    static const struct {
        const char *text;
        wm_address_use_t use;
        const char *why;
    } bad[] = {
        { "", WM_ADDRESS_CONNECT, "neither tcp://HOST:PORT nor" },
        { "http://head:5555", WM_ADDRESS_CONNECT, "neither tcp://HOST:PORT nor" },
        { "/d/out.wiremill", WM_ADDRESS_CONNECT, "nor file:///DIR/endpoint.json of its campaign" },
        { "head:5555", WM_ADDRESS_LISTEN, "neither tcp://HOST:PORT nor" },
        { "file:///a", WM_ADDRESS_LISTEN, "neither tcp://HOST:PORT nor" },
        { "file://a", WM_ADDRESS_CONNECT, "absolute path" },
        { "tcp://head", WM_ADDRESS_CONNECT, "the port is missing; type tcp://head:5555" },
        { "tcp://head:", WM_ADDRESS_CONNECT, "the port is missing; type tcp://head:5555" },
        { "tcp://[::1]", WM_ADDRESS_CONNECT, "the port is missing; type tcp://[::1]:5555" },
        { "tcp://[::1]5555", WM_ADDRESS_CONNECT, "the port is missing" },
        { "tcp://:5555", WM_ADDRESS_CONNECT, "the host is missing; type tcp://HOST:5555" },
        { "tcp://head:65534", WM_ADDRESS_LISTEN, "above 65533; producers and operators" },
        { "tcp://head:99999", WM_ADDRESS_CONNECT, "a number from 1 to 65533" },
        { "tcp://head:123456", WM_ADDRESS_CONNECT, "a number from 1 to 65533" },
        { "tcp://head:x", WM_ADDRESS_CONNECT, "a number from 1 to 65533" },
        { "tcp://head:-1", WM_ADDRESS_LISTEN, "a range is FIRST-LAST" },
        { "tcp://head:0", WM_ADDRESS_CONNECT, "only --listen takes port 0 or *" },
        { "tcp://head:5500-5600", WM_ADDRESS_CONNECT, "only --listen takes a range" },
        { "tcp://*:5555", WM_ADDRESS_CONNECT, "* is an address to listen on" },
        { "tcp://*:5500-5501", WM_ADDRESS_LISTEN, "too small, .*; type 5500-5502" },
        { "tcp://*:5600-5500", WM_ADDRESS_LISTEN, "the range is reversed; type 5500-5600" },
        { "tcp://*:5500-70000", WM_ADDRESS_LISTEN, "ports from 1 to 65535" },
        { "tcp://*:5500-", WM_ADDRESS_LISTEN, "a range is FIRST-LAST" },
        { "tcp://fd00::2:5555", WM_ADDRESS_CONNECT, "in brackets; type tcp://[fd00::2]:5555" },
        { "tcp://::1:5555", WM_ADDRESS_LISTEN, "in brackets; type tcp://[::1]:5555" },
        { "tcp://[::1:5555", WM_ADDRESS_CONNECT, "are not closed" },
        { "tcp://[::1]x:5555", WM_ADDRESS_CONNECT, "are not closed" },
        { "tcp://[head]:5555", WM_ADDRESS_CONNECT, "'head' is none; type tcp://head:5555" },
        { "tcp://head:5555/", WM_ADDRESS_CONNECT, "leave out .*('/'); type tcp://head:5555" },
        { "tcp://head:5555/x", WM_ADDRESS_LISTEN, "leave out .*('/x'); type tcp://head:5555" },
        { "tcp://head:0/1/2", WM_ADDRESS_LISTEN, "leave out" },
        { "tcp://head:7000/7100/70000", WM_ADDRESS_CONNECT, "from 1 to 65535" },
        { "tcp://head:7000/7000/7001", WM_ADDRESS_CONNECT, "ports of their own" },
        { "tcp://he ad:5555", WM_ADDRESS_CONNECT, "a space or control character" },
        { "tcp://head:5555\n", WM_ADDRESS_CONNECT, "a space or control character" },
        { "ipc://", WM_ADDRESS_CONNECT, "allowed are 1 to 105" },
        { "ipc://@name", WM_ADDRESS_LISTEN, "every user of this machine could join" },
        { "tcp://a:1,tcp://b", WM_ADDRESS_CONNECT, "tcp://b: the port is missing" },
        { "tcp://a:1,tcp://b:1,tcp://b:1,tcp://b:1,tcp://b:1,tcp://b:1,tcp://b:1,tcp://b:1,"
          "tcp://c:1",
          WM_ADDRESS_CONNECT, "at most 8 addresses" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wm_address_t list[WM_ADDRESSES_MAX];
        wm_error_t error = { 0 };
        if (wm_address_parse (list, bad[i].text, bad[i].use, &error))
            fail_msg ("'%s' was taken", bad[i].text);
        assert_int_equal (error.fault, WM_EUSAGE);
        const char *gap = strstr (bad[i].why, ".*"); /* two parts, in their order */
        char first[200];
        snprintf (first, sizeof first, "%.*s", gap ? (int) (gap - bad[i].why) : 199, bad[i].why);
        const char *found = strstr (error.text, first);
        if (!found || (gap && !strstr (found, gap + 2)))
            fail_msg ("'%s' gave: %s; wanted: %s", bad[i].text, error.text, bad[i].why);
    }
    char path[200] = "ipc:///", host[400] = "tcp://";
    memset (path + 7, 'p', 105);
    memset (host + 6, 'h', 255);
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t error;
    assert_int_equal (wm_address_parse (list, path, WM_ADDRESS_LISTEN, &error), 0);
    path[111] = 0; /* a slash and 104 */
    assert_int_equal (wm_address_parse (list, path, WM_ADDRESS_LISTEN, &error), 1);
    strcpy (host + 261, ":1");
    assert_int_equal (wm_address_parse (list, host, WM_ADDRESS_CONNECT, &error), 1);
    strcpy (host + 261, "h:1");
    assert_int_equal (wm_address_parse (list, host, WM_ADDRESS_CONNECT, &error), 0);
    memset (host + 6, 'h', 390);
    assert_int_equal (wm_address_parse (list, host, WM_ADDRESS_CONNECT, &error), 0);
}

static int resolved (const char *text, wm_address_use_t use, char host[WM_HOSTS_MAX][WM_HOST_BYTES],
                     wm_error_t *error)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    assert_int_equal (wm_address_parse (list, text, use, error), 1);
    return wm_address_resolve (&list[0], use, host, error);
}

static void test_hosts (void **state)
{
    char host[WM_HOSTS_MAX][WM_HOST_BYTES];
    wm_error_t error = { 0 };
    assert_int_equal (resolved ("tcp://127.0.0.1:5", WM_ADDRESS_CONNECT, host, &error), 1);
    assert_string_equal (host[0], "127.0.0.1");
    assert_int_equal (resolved ("tcp://[0:0::1]:5", WM_ADDRESS_LISTEN, host, &error), 1);
    assert_string_equal (host[0], "[::1]");
    assert_int_equal (resolved ("tcp://*:5", WM_ADDRESS_LISTEN, host, &error), 1);
    assert_string_equal (host[0], "*");
    const int n = resolved ("tcp://localhost:5", WM_ADDRESS_CONNECT, host, &error);
    assert_in_range (n, 1, 8);
    for (int i = 0; i < n; i++)
        assert_true (wm_address_is_loopback (host[i]));
    assert_in_range (resolved ("tcp://lo:5", WM_ADDRESS_LISTEN, host, &error), 1, 8);
    assert_true (wm_address_is_loopback (host[0]));
    assert_int_equal (resolved ("tcp://no.such.host.invalid:5", WM_ADDRESS_LISTEN, host, &error),
                      0);
    assert_int_equal (error.fault, WM_EAGAIN);
    assert_non_null (strstr (error.text, "no host or interface is called 'no.such.host.invalid'"));
    assert_int_equal (
        resolved ("tcp://lo:5", WM_ADDRESS_CONNECT, host, &error) && !strstr (host[0], "127"), 0);
    assert_false (wm_address_is_loopback ("10.0.0.1"));
    assert_false (wm_address_is_loopback ("*"));
    assert_false (wm_address_is_loopback ("[::]"));
    assert_true (wm_address_is_loopback ("[::ffff:127.0.0.1]"));
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_taken),
        cmocka_unit_test (test_mistakes),
        cmocka_unit_test (test_hosts),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
