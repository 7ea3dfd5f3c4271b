/* test_gateway_address.c - connections and memory of client addresses.  */
#include "producer/net/wm_budget.h"
#include "producer/serving/wm_front.h"
#include "tests/unit/unit.h"

#include <czmq.h>
#include <string.h>

#include "tests/unit/made_loop.h"

/* Slow clients at one address, then at two, leave memory for one at another.  */
static void test_budget_addresses (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_budget_t *budget = wm_budget_new (loop, 120, 120, 50);
    wm_origin_t a = { 0 }, b = { 0 }, c = { 0 };
    wm_share_t share[5] = { { 0, &a }, { 0, &a }, { 0, &b }, { 0, &c }, { 0, &c } };
    wm_hold_t hold[8] = { 0 };
    *order = 0;
    assert_true (wm_hold_take (budget, &hold[0], &share[0], 60, note, "0"));
    assert_false (wm_hold_take (budget, &hold[1], &share[1], 1, note, "1"));
    assert_false (wm_hold_take (budget, &hold[2], &share[1], 100, note, "2"));
    assert_false (wm_hold_take (budget, &hold[3], &share[2], 30, note, "3")); /* behind those ... */
    turn (&loop);
    assert_string_equal (order, "3"); /* ... whom their address holds back: it passes */
    assert_false (wm_hold_take (budget, &hold[4], &share[3], 15, note, "4"));
    turn (&loop);
    assert_string_equal (order, "34");
    assert_int_equal (a.bytes + b.bytes + c.bytes, 105);
    /* what has begun exceeds its address's share, one of an address at a time */
    assert_true (wm_hold_take (budget, &hold[0], &share[0], 65, note, "0"));
    assert_ptr_equal (a.over, &hold[0]);
    assert_true (wm_hold_take (budget, &hold[0], &share[0], 66, note, "0"));
    wm_hold_set (budget, &hold[5], &share[1], 1);
    assert_false (wm_hold_take (budget, &hold[5], &share[1], 2, note, "5"));
    turn (&loop);
    assert_string_equal (order, "34");
    /* a small one of the address does not pass a large one that came before it */
    wm_hold_give (budget, &hold[1]);
    assert_false (wm_hold_take (budget, &hold[6], &share[0], 1, note, "6"));
    wm_hold_give (budget, &hold[3]);
    wm_hold_give (budget, &hold[4]);
    turn (&loop);
    assert_string_equal (order, "34");
    wm_hold_give (budget, &hold[0]);
    turn (&loop);
    assert_null (a.over);
    assert_string_equal (order, "345");
    wm_hold_give (budget, &hold[5]); /* the address's only request gets more than its share */
    turn (&loop);
    assert_string_equal (order, "3452");
    wm_hold_give (budget, &hold[2]);
    turn (&loop);
    assert_string_equal (order, "34526");
    wm_hold_give (budget, &hold[6]);
    assert_int_equal (wm_budget_bytes (budget) + a.bytes + b.bytes + c.bytes, 0);
    wm_loop_destroy (&loop);
    wm_budget_destroy (&budget);
}

/* One that has begun and wants no more (its message inflates to nothing) has it at once, however
   full all is, and leaves nothing behind in the queue.  */
static void test_budget_no_more (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_budget_t *budget = wm_budget_new (loop, 100, 100, 50);
    wm_origin_t a = { 0 };
    wm_share_t share = { 0, &a };
    wm_hold_t over = { 0 }, same = { 0 };
    *order = 0;
    wm_hold_set (budget, &same, &share, 10);
    wm_hold_set (budget, &over, &share, 10);
    assert_true (wm_hold_take (budget, &over, &share, 200, note, "o"));
    assert_true (wm_hold_take (budget, &same, &share, 10, note, "s"));
    wm_hold_give (budget, &same);
    memset (&same, 0xff, sizeof same); /* its place is another's */
    wm_hold_give (budget, &over);
    turn (&loop);
    assert_string_equal (order, "");
    assert_int_equal (wm_budget_bytes (budget) + a.bytes, 0);
    wm_loop_destroy (&loop);
    wm_budget_destroy (&budget);
}

/* What exactly fits is granted and exceeds nothing.  */
static void test_budget_exact (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_budget_t *budget = wm_budget_new (loop, 100, 50, 50);
    wm_share_t a = { 0 }, b = { 0 }, c = { 0 };
    wm_hold_t hold[5] = { 0 };
    *order = 0;
    assert_true (wm_budget_shares (budget, 50, 50));
    assert_false (wm_budget_shares (budget, 51, 50));
    assert_true (wm_hold_take (budget, &hold[0], &a, 20, note, "0"));
    assert_true (wm_hold_take (budget, &hold[1], &a, 30, note, "1")); /* all of its share */
    assert_true (wm_hold_take (budget, &hold[2], &b, 40, note, "2"));
    assert_true (wm_hold_take (budget, &hold[0], &a, 30, note, "0")); /* all of the budget */
    assert_true (wm_hold_take (budget, &hold[2], &b, 60, note, "2")); /* the one that exceeds it */
    assert_false (wm_hold_take (budget, &hold[1], &a, 31, note, "1"));
    wm_hold_give (budget, &hold[2]);
    turn (&loop);
    assert_string_equal (order, "1");
    assert_true (
        wm_hold_take (budget, &hold[3], &c, 39, note, "3")); /* no request waits any more */
    assert_true (wm_hold_take (budget, &hold[1], &a, 90, note, "1")); /* ... nor exceeds */
    assert_int_equal (wm_budget_bytes (budget), 30 + 90 + 39);
    for (int i = 0; i < 4; i++)
        wm_hold_give (budget, &hold[i]);
    assert_int_equal (wm_budget_bytes (budget), 0);
    wm_loop_destroy (&loop);
    wm_budget_destroy (&budget);
}

/* Who waits: the first that came, of whatever address; a connection beyond its share lets others
   pass; a new one does not pass one that has begun and is too large for what is left.  */
static void test_budget_turns (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_budget_t *budget = wm_budget_new (loop, 100, 50, 100);
    wm_origin_t at[3] = { 0 };
    wm_share_t share[3] = { { 0, &at[0] }, { 0, &at[1] }, { 0, &at[2] } }, none = { 0 }, x = { 0 };
    wm_hold_t hold[6] = { 0 };
    *order = 0;
    assert_true (wm_hold_take (budget, &hold[0], &none, 90, note, "0"));
    for (int i = 0; i < 3; i++) {
        static const char *const name[] = { "a", "b", "c" };
        assert_false (
            wm_hold_take (budget, &hold[1 + i], &share[i], 60, note, (void *) (uintptr_t) name[i]));
    }
    turn (&loop);
    assert_string_equal (order, "");
    wm_hold_set (budget, &hold[0], &none, 40); /* less of it makes room, too */
    turn (&loop);
    assert_string_equal (order, "a");
    wm_hold_give (budget, &hold[1]);
    turn (&loop);
    assert_string_equal (order, "ab");
    wm_hold_give (budget, &hold[2]);
    turn (&loop);
    assert_string_equal (order, "abc");
    wm_hold_give (budget, &hold[3]);
    /* hold[0] has 40 of its connection's 50 */
    assert_false (wm_hold_take (budget, &hold[1], &none, 20, note, "d"));
    assert_false (wm_hold_take (budget, &hold[2], &x, 20, note, "e"));
    turn (&loop);
    assert_string_equal (order, "abce");
    wm_hold_give (budget, &hold[0]);
    turn (&loop);
    assert_string_equal (order, "abced");
    /* hold[1] and hold[2] have 20 each */
    assert_true (wm_hold_take (budget, &hold[1], &none, 90, note, "f"));
    assert_false (wm_hold_take (budget, &hold[2], &x, 40, note, "g"));
    assert_false (wm_hold_take (budget, &hold[3], &share[0], 5, note, "h"));
    wm_hold_set (budget, &hold[1], &none, 70); /* 10 are left, and g needs 20 */
    turn (&loop);
    assert_string_equal (order, "abced");
    wm_hold_give (budget, &hold[1]);
    turn (&loop);
    assert_string_equal (order, "abcedgh");
    wm_loop_destroy (&loop);
    wm_budget_destroy (&budget);
}

static void test_addresses (void **state)
{
    wm_addresses_t *known = wm_addresses_new (2);
    wm_origin_t *a = wm_addresses_enter (known, "127.0.0.2:1"), *same, *b, *c;
    assert_true (wm_addresses_admit (known, "[::ffff:127.0.0.2]:2"));
    assert_ptr_equal (a, same = wm_addresses_enter (known, "[::ffff:127.0.0.2]:2"));
    assert_false (wm_addresses_admit (known, "127.0.0.2:3"));
    assert_false (wm_addresses_admit (known, "127.0.0.2:4"));
    assert_int_equal (wm_addresses_n_refused (known), 2);
    assert_true (wm_addresses_admit (known, "127.0.0.3:3"));
    wm_addresses_leave (known, &same);
    assert_true (wm_addresses_admit (known, "127.0.0.2:3"));
    wm_addresses_leave (known, &a);
    assert_null (a);
    wm_addresses_leave (known, &a);
    /* an IPv6 network is one address */
    a = wm_addresses_enter (known, "[2001:db8::1]:1");
    assert_ptr_equal (a, b = wm_addresses_enter (known, "[2001:db8::ffff:1]:1"));
    c = wm_addresses_enter (known, "[2001:db8:0:1::1]:1");
    assert_ptr_not_equal (a, c);
    assert_false (wm_addresses_admit (known, "[2001:db8::2]:9"));
    wm_addresses_leave (known, &c);
    /* a link-local address is known without its interface */
    b = wm_addresses_enter (known, "[fe80::1%eth0]:1");
    assert_ptr_equal (b, wm_addresses_enter (known, "[fe80::2]:1"));
    assert_ptr_not_equal (b, wm_addresses_enter (known, "[fe81::2]:1"));
    /* what cannot be read is one address */
    assert_ptr_equal (wm_addresses_enter (known, "?:?"), wm_addresses_enter (known, "]"));
    wm_addresses_destroy (&known);
    wm_addresses_destroy (&known);
}

/* What connections take, requests have not; half of all is always theirs.  */
static void test_budget_aside (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_budget_t *budget = wm_budget_new (loop, 100, 100, 100);
    wm_share_t share[3] = { 0 };
    wm_hold_t hold[3] = { 0 };
    *order = 0;
    wm_budget_set_aside (budget, 30);
    assert_true (wm_budget_may_set_aside (budget, 20) && !wm_budget_may_set_aside (budget, 21));
    assert_true (wm_hold_take (budget, &hold[0], &share[0], 60, note, "0"));
    assert_true (wm_hold_take (budget, &hold[1], &share[1], 10, note, "1"));
    assert_false (wm_hold_take (budget, &hold[2], &share[2], 1, note, "2"));
    assert_true (wm_budget_has_room (budget));
    wm_budget_set_aside (budget, 1);
    assert_false (wm_budget_has_room (budget));
    turn (&loop);
    assert_string_equal (order, "");
    wm_budget_set_aside (budget, -(size_t) 2); /* a connection ends: who waits is called */
    turn (&loop);
    assert_string_equal (order, "2");
    assert_int_equal (wm_budget_aside (budget), 29);
    for (int i = 0; i < 3; i++)
        wm_hold_give (budget, &hold[i]);
    wm_budget_set_aside (budget, 80);
    assert_true (wm_hold_take (budget, &hold[0], &share[0], 49, note, "0"));
    assert_true (wm_hold_take (budget, &hold[1], &share[1], 1, note, "1"));
    assert_false (wm_hold_take (budget, &hold[2], &share[2], 1, note, "2"));
    for (int i = 0; i < 3; i++)
        wm_hold_give (budget, &hold[i]);
    turn (&loop);
    wm_loop_destroy (&loop);
    wm_budget_destroy (&budget);
}

/* A connection has a place while their number and memory allow it; the first one has always.  */
static void test_places (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_front_t front = { .connections_max = 3,
                         .addresses = wm_addresses_new (9),
                         .budget = wm_budget_new (loop, 1000, 1000, 100) };
    wm_share_t share[4] = { 0 };
    assert_true (wm_front_has_place (&front, WM_FRONT_HTTP, 600));
    wm_front_enter (&front, WM_FRONT_HTTP, &share[0], "127.0.0.1:1", 400);
    assert_true (wm_front_has_place (&front, WM_FRONT_HTTP, 100));
    assert_false (wm_front_has_place (&front, WM_FRONT_HTTP, 101));
    assert_true (wm_front_has_place (&front, WM_FRONT_GRPC, 101)); /* its first one */
    wm_front_enter (&front, WM_FRONT_HTTP, &share[1], "127.0.0.1:2", 10);
    wm_front_enter (&front, WM_FRONT_HTTP, &share[2], "127.0.0.1:3", 10);
    assert_false (wm_front_has_place (&front, WM_FRONT_HTTP, 10));
    wm_front_leave (&front, WM_FRONT_HTTP, &share[0], 400);
    assert_true (wm_front_has_place (&front, WM_FRONT_HTTP, 480));
    assert_false (wm_front_has_place (&front, WM_FRONT_HTTP, 481));
    wm_front_leave (&front, WM_FRONT_HTTP, &share[1], 10);
    wm_front_leave (&front, WM_FRONT_HTTP, &share[2], 10);
    assert_int_equal (wm_budget_aside (front.budget) + front.connections[WM_FRONT_HTTP], 0);
    wm_addresses_destroy (&front.addresses);
    wm_budget_destroy (&front.budget);
    wm_loop_destroy (&loop);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_budget_addresses), cmocka_unit_test (test_budget_no_more),
        cmocka_unit_test (test_budget_exact),     cmocka_unit_test (test_budget_turns),
        cmocka_unit_test (test_addresses),        cmocka_unit_test (test_budget_aside),
        cmocka_unit_test (test_places),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
