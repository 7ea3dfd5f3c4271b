/* wm_core_messages.c - the table of messages: which role may send what, when, and its handler.

   Each file of handlers ends with its rows; a new message is a row there, its handler, its fields
   in schema/session/wm_msg.c, its type in wm_msg.h, and its rule in wire.abnf. Here they are one
   table: wm_core_message (wm_core.c) checks a message against its row and calls the handler.  */
#include "broker/core/wm_core_private.h"

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
