/* wm_core_messages.c - the table of messages: which role may send what, when, and its handler.

   Each file of handlers ends with its rows; a new message is a row there, its handler, its fields
   in schema/session/wm_msg.c, its type in wm_msg.h, and its rule in wire.abnf. Here they are one
   table: wm_core_message (wm_core.c) checks a message against its row and calls the handler;
   wm_core_messages_print prints it.  */
#include "broker/core/wm_core_private.h"

#include <stdarg.h>
#include <stdio.h>

static const wm_core_row_t *const groups[] = {
    wm_core_session_rows, wm_core_control_rows, wm_core_input_rows,
    wm_core_event_rows,   wm_core_worker_rows,  wm_core_arithmetic_rows,
};
#define GROUPS (sizeof groups / sizeof *groups)

const char *wm_core_role_name (wm_role_t role)
{
    static const char *const names[] = { "peer", "worker", "producer", "operator", "monitor" };
    return names[role];
}

const wm_core_row_t *wm_core_row_of (wm_msg_type_t type, wm_role_t role)
{
    for (size_t i = 0; i < GROUPS; i++)
        for (const wm_core_row_t *row = groups[i]; row->handler; row++)
            if (row->type == type && row->roles & 1u << role)
                return row;
    return NULL;
}

static void add (char *text, size_t bytes, size_t *n, const char *format, ...)
    __attribute__ ((format (printf, 4, 5)));
static void add (char *text, size_t bytes, size_t *n, const char *format, ...)
{
    va_list args;
    va_start (args, format);
    const int more = vsnprintf (text + *n, bytes - *n, format, args);
    va_end (args);
    *n = more < 0 || (size_t) more >= bytes - *n ? bytes - 1 : *n + (size_t) more;
}

void wm_core_messages_print (char *text, size_t bytes)
{
    size_t n = 0;
    for (unsigned type = 0; type < WM_MSG_TYPE_END; type++)
        for (wm_role_t role = WM_ROLE_WORKER; role <= WM_ROLE_MONITOR; role++) {
            const wm_core_row_t *row = wm_core_row_of ((wm_msg_type_t) type, role);
            if (!row)
                continue;
            add (text, bytes, &n, "%-12s %-8s %-4s", wm_msg_name (row->type),
                 wm_core_role_name (role), row->states & WHILE_NEW ? "new" : "live");
            if (row->payload_bytes_max)
                add (text, bytes, &n, " payload up to %zu bytes", row->payload_bytes_max);
            add (text, bytes, &n, "\n");
        }
}
