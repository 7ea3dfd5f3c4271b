/* test_gateway_idle.c - which of many connections without work makes place for a new one: steps are
   counted, of which there are as few among 10,000 as among ten.  */
#include "producer/net/wm_idle_list.h"
#include "tests/unit/unit.h"

enum { MANY = 10000 };

typedef struct {
    wm_idle_t idle;
    bool is_busy;
} conn_t;

static conn_t conn[MANY];
static wm_idle_list_t list;
static unsigned n_step;

static bool is_spare (const void *owner)
{
    n_step++;
    return !((const conn_t *) owner)->is_busy;
}

/* The place of the one that is found; -1: none is.  */
static int oldest (unsigned steps)
{
    n_step = 0;
    const conn_t *found = wm_idle_oldest (&list, is_spare);
    assert_int_equal (n_step, steps);
    return found ? (int) (found - conn) : -1;
}

static void begin (void)
{
    list = (wm_idle_list_t){ NULL, NULL };
    for (int i = 0; i < MANY; i++) {
        conn[i] = (conn_t){ .is_busy = false };
        wm_idle_enter (&list, &conn[i].idle, &conn[i]);
    }
}

static void test_oldest (void **state)
{
    begin ();
    assert_int_equal (oldest (1), 0);
    assert_int_equal (oldest (1), 0); /* it was only looked at */
    for (int i = 0; i < MANY - 1; i++) {
        assert_int_equal (oldest (1), i);
        if (i % 2)
            wm_idle_leave (&conn[i].idle);
        else
            wm_idle_enter (&list, &conn[i].idle, &conn[i]); /* it was used */
    }
    wm_idle_leave (&conn[1].idle); /* it is in no list any more */
    assert_int_equal (oldest (1), MANY - 1);
    wm_idle_leave (&conn[MANY - 1].idle);
    for (int i = 0; i < MANY; i += 2) {
        assert_int_equal (oldest (1), i);
        wm_idle_leave (&conn[i].idle);
    }
    assert_int_equal (oldest (0), -1);
}

/* Those that have begun to work go behind all others, and so many of them cost no more than a few
   steps.  */
static void test_busy (void **state)
{
    begin ();
    for (int i = 0; i < MANY; i++)
        conn[i].is_busy = i != 20;
    assert_int_equal (oldest (WM_IDLE_LOOKS), -1);
    assert_int_equal (oldest (20 - WM_IDLE_LOOKS + 1), 20);
    conn[20].is_busy = true;
    conn[0].is_busy = false;
    for (int i = 20; i + WM_IDLE_LOOKS <= MANY; i += WM_IDLE_LOOKS)
        assert_int_equal (oldest (WM_IDLE_LOOKS), -1);
    assert_int_equal (oldest ((MANY - 20) % WM_IDLE_LOOKS + 1), 0);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (test_oldest),
                                        cmocka_unit_test (test_busy) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
