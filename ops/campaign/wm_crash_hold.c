/* wm_crash_hold.c - see wm_crash_hold.h. */

#include "ops/campaign/wm_crash_hold.h"
#include "schema/base/wm_url.h"
#include "schema/session/wm_client.h"
#include "schema/wm_pair.h"

#include <errno.h>
#include <string.h>

#define MARK "crashed on input: "
#define PATIENCE_MS 15000
#define TAIL_BYTES 65536L

const char *wm_crash_hold_input (const wm_child_t *producer)
{
    static char input[PATH_MAX];
    char line[PATH_MAX + 256];
    input[0] = 0;
    FILE *log = fopen (producer->log, "re");
    if (!log)
        return input;
    if (fseek (log, -TAIL_BYTES, SEEK_END) || ftell (log) < producer->began)
        fseek (log, producer->began, SEEK_SET); /* earlier crashes had other reasons */
    while (fgets (line, sizeof line, log)) {
        const char *mark = strstr (line, MARK);
        if (mark) {
            line[strcspn (line, "\n")] = 0;
            snprintf (input, sizeof input, "%s", mark + strlen (MARK));
        }
    }
    fclose (log);
    return input;
}

/* Waits for a message of this type. */
static wm_fault_t expect (wm_client_t *client, wm_msg_type_t type, wm_error_t *error)
{
    const int64_t end = wm_now_ms () + PATIENCE_MS;
    for (int64_t left = PATIENCE_MS; left > 0; left = end - wm_now_ms ()) {
        const wm_client_event_t event = wm_client_wait (client, left);
        if (event == WM_CLIENT_CLOSED) {
            *error = *wm_client_error (client);
            return error->fault;
        }
        if (event == WM_CLIENT_MESSAGE && wm_client_msg (client)->type == type)
            return WM_OK;
    }
    return wm_fault (error, WM_EAGAIN, "the broker did not answer within %d s", PATIENCE_MS / 1000);
}

static wm_fault_t hold (wm_client_t *client, const char *input, const char *how, wm_error_t *error)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    if (wm_url_of (input)) /* its copy is gone with its reader */
        msg.size = WM_SIZE_UNKNOWN;
    else if (wm_pair_stat (wm_client_pins (client), input, &msg.size, &msg.mtime_ns))
        return wm_fault (error, WM_EBATCH, "%s: %s", input, strerror (errno));
    const char *slash = strrchr (input, '/');
    snprintf (msg.name, sizeof msg.name, "%.200s.scores.h5", slash ? slash + 1 : input);
    if (snprintf (msg.path, sizeof msg.path, "%s", input) >= (int) sizeof msg.path)
        return wm_fault (error, WM_EBATCH, "the path is too long: %.200s...", input);
    wm_fault_t fault = wm_client_send (client, &msg, NULL, 0);
    if (!fault)
        fault = expect (client, WM_MSG_INPUT_ACK, error);
    if (fault || wm_client_msg (client)->code != WM_INPUT_CLAIMED)
        return fault; /* held or written meanwhile: nothing to do */
    const wm_key_t key = wm_client_msg (client)->key;
    wm_msg_init (&msg, WM_MSG_INPUT_HELD);
    msg.key = key;
    snprintf (msg.text, sizeof msg.text, "its reader crashed twice, the last time by %s", how);
    fault = wm_client_send (client, &msg, NULL, 0);
    return fault ? fault : expect (client, WM_MSG_ACK, error);
}

wm_fault_t wm_crash_hold_hold (const char *endpoint, const char *input, const char *how,
                               wm_error_t *error)
{
    wm_client_t *client = wm_client_new (endpoint, WM_ROLE_PRODUCER, "wiremill-run", NULL, NULL);
    wm_fault_t fault = wm_client_open_patiently (client, NULL, 0, PATIENCE_MS, error);
    if (!fault) {
        fault = hold (client, input, how, error);
        wm_client_close (client, WM_REASON_DONE, "");
    }
    wm_client_destroy (&client);
    return fault;
}
