/* test_broker_messages.c - the table of messages: all of its rows, and as schema/wire.abnf has
   it.  */
#include "broker/core/wm_core_private.h"
#include "tests/unit/unit.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const wm_role_t roles[] = { WM_ROLE_WORKER, WM_ROLE_PRODUCER, WM_ROLE_OPERATOR,
                                   WM_ROLE_MONITOR };

static void all_rows (void **state)
{
    static const char expected[] = "HELLO        worker   new  payload up to 4259840 bytes\n"
                                   "HELLO        producer new  payload up to 4259840 bytes\n"
                                   "HELLO        operator new  payload up to 4259840 bytes\n"
                                   "HELLO        monitor  new  payload up to 4259840 bytes\n"
                                   "BYE          worker   live\n"
                                   "BYE          producer live\n"
                                   "BYE          operator live\n"
                                   "BYE          monitor  live\n"
                                   "HEARTBEAT    worker   live\n"
                                   "HEARTBEAT    producer live\n"
                                   "HEARTBEAT    operator live\n"
                                   "HEARTBEAT    monitor  live\n"
                                   "INPUT        producer live\n"
                                   "SUBMIT       producer live payload up to 4259840 bytes\n"
                                   "BATCH        producer live payload up to 268500992 bytes\n"
                                   "INPUT_END    producer live\n"
                                   "FETCH        producer live\n"
                                   "FILE_WRITTEN producer live\n"
                                   "FILE_LOST    producer live\n"
                                   "INPUT_HELD   producer live\n"
                                   "MODEL_GET    worker   live\n"
                                   "CREDIT       worker   live\n"
                                   "RESULT       worker   live payload up to 268435456 bytes\n"
                                   "NACK         worker   live\n"
                                   "DRAIN        worker   live\n"
                                   "STATUS       operator live\n"
                                   "STATUS       monitor  live\n"
                                   "CONTROL      operator live\n"
                                   "CONTROL      monitor  live\n"
                                   "SAMPLE       producer live payload up to 4194304 bytes\n"
                                   "TRIAL_GET    worker   live\n";
    char text[4096] = "";
    FILE *out = fmemopen (text, sizeof text, "w");
    for (unsigned type = 0; type < WM_MSG_TYPE_END; type++)
        for (wm_role_t role = WM_ROLE_WORKER; role <= WM_ROLE_MONITOR; role++) {
            const wm_core_row_t *row = wm_core_row_of ((wm_msg_type_t) type, role);
            if (!row)
                continue;
            fprintf (out, "%-12s %-8s %-4s", wm_msg_name (row->type), wm_core_role_name (role),
                     row->states & WHILE_NEW ? "new" : "live");
            if (row->payload_bytes_max)
                fprintf (out, " payload up to %zu bytes", row->payload_bytes_max);
            fputc ('\n', out);
        }
    fclose (out);
    assert_string_equal (text, expected);
}

static void payloads_are_those_of_the_schema (void **state)
{
    for (unsigned type = 0; type < WM_MSG_TYPE_END; type++)
        for (size_t i = 0; i < 3; i++) {
            const wm_core_row_t *row = wm_core_row_of ((wm_msg_type_t) type, roles[i]);
            if (row)
                assert_int_equal (row->payload_bytes_max != 0,
                                  wm_msg_has_payload ((wm_msg_type_t) type));
        }
}

/* The right side of this rule, up to the next rule; into `text`, which is searched by words.  */
static void rule_of (const char *abnf, const char *name, char text[2000])
{
    char start[64];
    snprintf (start, sizeof start, "\n%s", name);
    const char *at = strstr (abnf, start);
    while (at && at[strlen (start)] != ' ')
        at = strstr (at + 1, start);
    assert_non_null (at);
    at = strchr (at, '=') + 1;
    size_t n = 0;
    while (*at && !(at[0] == '\n' && at[1] != ' ') && n + 1 < 2000)
        text[n++] = *at++;
    text[n] = 0;
}

static bool has_word (const char *text, const char *word)
{
    for (const char *at = strstr (text, word); at; at = strstr (at + 1, word)) {
        const char before = at == text ? ' ' : at[-1], after = at[strlen (word)];
        if (!isalnum ((unsigned char) before) && before != '-' &&
            !isalnum ((unsigned char) after) && after != '-')
            return true;
    }
    return false;
}

/* The rule of a role's session names what that role may send and what the broker sends it, no
   more.  */
static void roles_are_those_of_the_grammar (void **state)
{
    static char abnf[65536];
    FILE *file = fopen ("schema/wire.abnf", "r");
    assert_non_null (file);
    abnf[fread (abnf, 1, sizeof abnf - 1, file)] = 0;
    fclose (file);
    static const char *const rules[][2] = { { "worker-session", "work" },
                                            { "producer-session", "produce" },
                                            { "operator-session", "operator-session" } };
    for (size_t i = 0; i < 3; i++) {
        char session[2000], more[2000];
        rule_of (abnf, rules[i][0], session);
        rule_of (abnf, rules[i][1], more);
        for (unsigned type = WM_MSG_HELLO; type < WM_MSG_TYPE_END; type++) {
            char name[32];
            snprintf (name, sizeof name, "%s", wm_msg_name ((wm_msg_type_t) type));
            for (char *c = name; *c; c++)
                *c = *c == '_' ? '-' : (char) tolower ((unsigned char) *c);
            const bool in_rule = has_word (session, name) || has_word (more, name);
            const bool in_tables = wm_core_row_of ((wm_msg_type_t) type, roles[i]) ||
                                   wm_msg_is_for ((wm_msg_type_t) type, roles[i]);
            if (in_rule != in_tables)
                fail_msg ("%s: %s is in the %s only", rules[i][0], name,
                          in_rule ? "grammar" : "tables");
        }
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (all_rows),
        cmocka_unit_test (payloads_are_those_of_the_schema),
        cmocka_unit_test (roles_are_those_of_the_grammar),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
