/* test_gateway_address.c - connections and memory of client addresses.  */
#include "producer/gateway/wm_budget.h"

#include <czmq.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/made_loop.h"

/* Slow clients at one address, then at two, leave memory for one at another.  */
static void test_budget_addresses (void **state)
{
    (void) state;
    wm_loop_t *loop = wm_loop_new ();
    wm_budget_t *budget = wm_budget_new (loop, 120, 120, 50);
    wm_address_t a = { 0 }, b = { 0 }, c = { 0 };
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
    (void) state;
    wm_loop_t *loop = wm_loop_new ();
    wm_budget_t *budget = wm_budget_new (loop, 100, 100, 50);
    wm_address_t a = { 0 };
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

static void test_addresses (void **state)
{
    (void) state;
    wm_addresses_t *known = wm_addresses_new (2);
    wm_address_t *a = wm_addresses_enter (known, "127.0.0.2:1"), *same, *b, *c;
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
    /* what cannot be read is one address */
    assert_ptr_equal (wm_addresses_enter (known, "?:?"), wm_addresses_enter (known, "]"));
    wm_addresses_destroy (&known);
    wm_addresses_destroy (&known);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_budget_addresses),
        cmocka_unit_test (test_budget_no_more),
        cmocka_unit_test (test_addresses),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
