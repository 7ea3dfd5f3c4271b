/* made_loop.h - a loop of the gateway, turned by a test; an order of calls that it notes.  */
#ifndef MADE_LOOP_H
#define MADE_LOOP_H

#include "producer/net/wm_loop.h"

#include <string.h>

static char order[64]; /* what note was called with, one behind the other */

static void note (void *argument)
{
    strcat (order, argument);
}

static void stop (void *argument)
{
    wm_loop_stop (argument);
}

/* Runs the loop until all that is ready now has been done.  */
static void turn (wm_loop_t **loop_p)
{
    wm_loop_timer (*loop_p, 0, stop, *loop_p);
    assert_int_equal (wm_loop_run (*loop_p), 0);
}

#endif
