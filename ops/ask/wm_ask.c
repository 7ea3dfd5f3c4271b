/* wm_ask.c - see wm_ask.h. */

#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_spawn.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_path.h"
#include "schema/session/wm_endpoint.h"
#include "schema/session/wm_join.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pwd.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define TRIES 20
#define TRY_MS 50

/* A broker holds its campaign's lock as long as it runs. Where the lock is free, endpoint.json was
   left behind by a broker that was killed, or came with a copy of the folder and names the
   original's. On another machine that shares the folder the lock proves nothing.  */
static bool is_unserved (const char *campaign, long *pid)
{
    char path[4200], text[24] = "";
    snprintf (path, sizeof path, "%s/lock", campaign);
    const int fd = open (path, O_RDONLY | O_CLOEXEC);
    const bool is_free = fd >= 0 ? flock (fd, LOCK_SH | LOCK_NB) == 0 : errno == ENOENT;
    *pid = fd >= 0 && read (fd, text, sizeof text - 1) > 0 ? strtol (text, NULL, 10) : 0;
    if (fd >= 0)
        close (fd);
    return is_free;
}

/* false: the file is not there or damaged; *file is zero then.  */
static bool read_endpoint (const char *campaign, wm_endpoint_t *file)
{
    char path[4200];
    snprintf (path, sizeof path, "%.4100s/endpoint.json", campaign);
    return wm_endpoint_read (file, path, NULL) == WM_OK;
}

bool wm_ask_has_folder (const json_t *status)
{
    wm_endpoint_t file;
    return read_endpoint (wm_ask_text (status, "dir"), &file) && *file.campaign &&
           strcmp (file.campaign, wm_ask_text (status, "campaign.id")) == 0;
}

int wm_ask_no_broker (const char *campaign, char text[480])
{
    long pid;
    char path[4200], last[WM_ADDRESS_BYTES + 200] = "", all[WM_ENDPOINT_BYTES];
    wm_endpoint_t file;
    wm_error_t error;
    snprintf (path, sizeof path, "%s/lock", campaign);
    if (access (path, R_OK) && (errno == EACCES || errno == EPERM)) {
        snprintf (text, 480, "%.400s cannot be read: %s; ask its owner to allow it", path,
                  strerror (errno));
        return WM_EXIT_INPUT;
    }
    if (read_endpoint (campaign, &file) && !wm_endpoint_is_here (&file) &&
        wm_endpoint_choose (&file, all, sizeof all, &error)) {
        snprintf (text, 480, "%s", error.text);
        return WM_EXIT_UNREACHABLE;
    }
    if (*file.endpoint)
        wm_endpoint_last (&file, last);
    for (int i = 0; i < TRIES;
         i++, zclock_sleep (TRY_MS)) { /* a reader holds the lock for moments only */
        if (!is_unserved (campaign, &pid))
            continue;
        snprintf (text, 480, "no broker answers at %.180s: none is running%s%.240s", campaign,
                  *last ? "; " : "", last);
        return WM_EXIT_UNREACHABLE;
    }
    snprintf (
        text, 480,
        "process %ld has the campaign %.200s, but endpoint.json there does not name its "
        "endpoint: it is just starting (its log explains what it waits for), or the "
        "file was removed and is written again in seconds; try again, or give --broker ENDPOINT",
        pid, campaign);
    return WM_EXIT_AGAIN;
}

/* The form of an endpoint that finds a broker also after it has moved, if it is short enough: the
   file that names it.  */
static bool name_file (const char *campaign, char endpoint[256])
{
    const int n = snprintf (endpoint, 256, "file://%s/endpoint.json", campaign);
    return n < 256;
}

bool wm_ask_endpoint (const char *campaign, char endpoint[256], long *pid)
{
    long holder;
    wm_endpoint_t file;
    wm_error_t error;
    if (!read_endpoint (campaign, &file) ||
        (wm_endpoint_is_here (&file) && is_unserved (campaign, &holder)))
        return false;
    char text[WM_ENDPOINT_BYTES];
    if (wm_endpoint_choose (&file, text, sizeof text, &error))
        return false;
    if (pid)
        *pid = file.pid;
    if (strchr (text, ',') && name_file (campaign, endpoint))
        return true;
    return !wm_endpoint_choose (&file, endpoint, 256, &error);
}

/* An attempt that failed at once is a refusal, by a machine where no broker listens. One that took
   long may have lost packets.  */
static wm_fault_t open_again (wm_client_t *client, wm_error_t *error)
{
    const wm_times_t *times = wm_times ();
    const int64_t end = wm_now_ms () + times->answer_ms;
    for (;;) {
        const int64_t start = wm_now_ms ();
        const wm_fault_t fault =
            wm_client_open (client, NULL, 0, end > start ? end - start : 1, error);
        const int64_t now = wm_now_ms ();
        if (fault != WM_EAGAIN || now >= end || now - start < times->handshake_ms / 2)
            return fault;
    }
}

static bool is_monitor;

void wm_ask_monitor (void)
{
    is_monitor = true;
}

wm_role_t wm_ask_role (void)
{
    return is_monitor ? WM_ROLE_MONITOR : WM_ROLE_OPERATOR;
}

/* Lets this process use the campaign's own join files, those that it may read, where the broker
   that serves it wants keys and none was given. Returns whether that broker may want some.  */
static bool use_keys (const char *campaign)
{
    static const wm_role_t order[] = { WM_ROLE_OPERATOR, WM_ROLE_MONITOR, WM_ROLE_PRODUCER,
                                       WM_ROLE_WORKER };
    char path[4200];
    wm_endpoint_t file;
    if (read_endpoint (campaign, &file) && !file.has_keys)
        return false; /* no broker yet: the client will ask it, and goes nowhere without a key */
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (is_monitor && order[i] != WM_ROLE_MONITOR)
            continue;
        snprintf (path, sizeof path, "%.4000s/join-%s", campaign, wm_role_name (order[i]));
        wm_join_offer (path);
    }
    return true;
}

/* endpoint.json outlives a broker that was killed, and its port may be another campaign's by
   now.  */
wm_fault_t wm_ask_open (wm_client_t *client, const char *campaign, wm_error_t *error)
{
    char id[33], last[WM_ADDRESS_BYTES + 200];
    wm_endpoint_t file;
    /* Each time: the next broker may want keys, or none. An address has no folder's.  */
    wm_client_keys_of (client, *campaign && use_keys (campaign) ? campaign : "");
    const wm_fault_t fault = open_again (client, error);
    if (!*campaign || !read_endpoint (campaign, &file))
        return fault;
    const size_t length = strlen (error->text);
    if (fault == WM_EAGAIN && !strstr (error->text, "it was last at")) {
        wm_endpoint_last (&file, last);
        snprintf (error->text + length, sizeof error->text - length, "; %s", last);
    }
    if (fault)
        return fault;
    sodium_bin2hex (id, sizeof id, wm_client_campaign (client), 16);
    if (!*file.campaign || strcmp (file.campaign, id) == 0)
        return WM_OK;
    wm_client_close (client, WM_REASON_DONE, "");
    return wm_fault (error, WM_EAGAIN,
                     "%s/endpoint.json is out of date, or damaged: the broker that answers there "
                     "has another campaign",
                     campaign);
}

/* ---- which broker ---------------------------------------------------------------------------- */

static wm_fault_t check_env (const char *text, wm_error_t *error)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t why;
    if (strlen (text) < 256 && wm_address_parse (list, text, WM_ADDRESS_CONNECT, &why))
        return WM_OK;
    return wm_fault (error, WM_EUSAGE, "WM_BROKER: %s",
                     strlen (text) < 256 ? why.text : "it has more than 255 characters");
}

/* What a name that leads to no campaign is: no folder, or one without.  */
static wm_fault_t no_campaign (const char *folder, wm_error_t *error)
{
    char beside[PATH_MAX];
    wm_error_t why;
    if (wm_file_expect (folder, true, false, &why))
        return wm_fault (error, WM_EUSAGE,
                         "%.300s; name a campaign's folder, its output folder, or --broker "
                         "ENDPOINT",
                         why.text);
    if (wm_folder_readable (folder, error))
        return error->fault;
    if (wm_folder_campaign (folder, beside, &why)) /* nothing lies beside it */
        return wm_fault (error, WM_EBATCH,
                         "%.200s holds no campaign; name its folder, the output folder, or "
                         "--broker ENDPOINT",
                         folder);
    if (wm_folder_readable (beside, error))
        return error->fault;
    return wm_fault (error, WM_EBATCH,
                     "%.150s holds no campaign, nor is there %.150s beside it (the campaign of an "
                     "output folder that was renamed keeps its name: rename it too); name its "
                     "folder, the output folder, or --broker ENDPOINT",
                     folder, beside);
}

wm_fault_t wm_ask_find (const wm_args_t *args, const char *folder, char endpoint[256],
                        char campaign[4096], wm_error_t *error)
{
    const char *broker = args ? wm_args_text (args, "broker") : NULL;
    const char *env = args && !broker && !folder ? getenv ("WM_BROKER") : NULL;
    endpoint[0] = campaign[0] = 0;
    if ((args && wm_join_take (args, error)) || (env && *env && check_env (env, error)))
        return error->fault;
    if (broker || (env && *env)) {
        snprintf (endpoint, 256, "%s", broker ? broker : env);
        return WM_OK;
    }
    char here[PATH_MAX] = ".";
    if (!folder && !realpath (".", here))
        strcpy (here, ".");
    folder = folder ? folder : here;
    if (wm_folder_find (folder, campaign))
        return WM_OK;
    return no_campaign (folder, error);
}

wm_fault_t wm_ask_at (const wm_args_t *args, const char *folder, char endpoint[256],
                      char campaign[4096], wm_error_t *error)
{
    if (wm_ask_find (args, folder, endpoint, campaign, error))
        return error->fault;
    if (*campaign && wm_ask_endpoint (campaign, endpoint, NULL))
        use_keys (campaign);
    wm_command_at (campaign, endpoint);
    return WM_OK;
}

wm_fault_t wm_ask_where (const wm_args_t *args, char endpoint[256], char campaign[4096],
                         wm_error_t *error)
{
    const char *folder = wm_args_text (args, "campaign");
    return wm_ask_at (args, folder ? folder : wm_args_rest (args, 0), endpoint, campaign, error);
}

wm_fault_t wm_ask_lasting (const wm_args_t *args, const char *folder, char endpoint[256],
                           wm_error_t *error)
{
    char campaign[4096];
    const wm_fault_t fault = wm_ask_find (args, folder, endpoint, campaign, error);
    if (fault == WM_EBATCH && !folder) {
        strcpy (endpoint, WM_ASK_DEFAULT);
        return WM_OK;
    }
    if (fault == WM_OK && *campaign)
        use_keys (campaign);
    if (fault || !*campaign || name_file (campaign, endpoint) ||
        wm_ask_endpoint (campaign, endpoint, NULL))
        return fault;
    return wm_fault (error, WM_EBATCH,
                     "the path of %.300s is too long to follow its broker; give --broker ENDPOINT",
                     campaign);
}

/* Sends STATUS on an open operator session. WM_EAGAIN: the session ended.  */
static wm_fault_t send_status (wm_client_t *client)
{
    wm_msg_t ask;
    wm_msg_init (&ask, WM_MSG_STATUS);
    return wm_client_send (client, &ask, NULL, 0);
}

json_t *wm_ask_reply (const wm_client_t *client)
{
    size_t bytes = 0;
    if (wm_client_msg (client)->type != WM_MSG_STATUS_REPLY)
        return NULL;
    const uint8_t *payload = wm_client_payload (client, &bytes);
    return payload ? json_loadb ((const char *) payload, bytes, 0, NULL) : NULL;
}

json_t *wm_ask_status (wm_client_t *client, int64_t timeout_ms, unsigned *owed)
{
    const int64_t end = wm_now_ms () + timeout_ms;
    unsigned once = 0;
    json_t *latest = NULL;
    owed = owed ? owed : &once;
    if (send_status (client))
        return NULL;
    ++*owed;
    for (int64_t left = timeout_ms; left > 0 && *owed > 0; left = end - wm_now_ms ()) {
        const wm_client_event_t event = wm_client_wait (client, left);
        if (event == WM_CLIENT_CLOSED) {
            *owed = 0;
            break;
        }
        json_t *reply = event == WM_CLIENT_MESSAGE ? wm_ask_reply (client) : NULL;
        if (!reply)
            continue;
        json_decref (latest);
        latest = reply;
        --*owed;
    }
    return latest;
}

wm_fault_t wm_ask_order (wm_client_t *client, const char *order, const char *text,
                         wm_error_t *error)
{
    const int64_t end = wm_now_ms () + wm_times ()->answer_ms;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    snprintf (msg.name, sizeof msg.name, "%s", order);
    snprintf (msg.text, sizeof msg.text, "%s", text);
    wm_client_event_t event = WM_CLIENT_CLOSED;
    if (wm_client_send (client, &msg, NULL, 0) == WM_OK)
        do {
            const int64_t left = end - wm_now_ms ();
            event = wm_client_wait (client, left > 1 ? left : 1);
            if (event == WM_CLIENT_MESSAGE && wm_client_msg (client)->type == WM_MSG_ACK)
                return WM_OK;
        } while (event != WM_CLIENT_CLOSED && !zsys_interrupted && wm_now_ms () < end);
    return wm_fault (error, WM_EPEER, "%s",
                     event == WM_CLIENT_CLOSED ? wm_client_error (client)->text
                                               : "the broker did not answer");
}

static const json_t *lookup (const json_t *node, const char *path)
{
    char name[32];
    while (node && *path) {
        const size_t n = strcspn (path, ".");
        snprintf (name, sizeof name, "%.*s", (int) n, path);
        node = json_object_get (node, name);
        path += n + (path[n] == '.');
    }
    return node;
}

int64_t wm_ask_int (const json_t *status, const char *path)
{
    const json_t *node = lookup (status, path);
    const int64_t most = 1ll << 53; /* sums of a few stay within 64 bits, whatever a peer sends */
    const double real = json_is_real (node) ? json_real_value (node) : 0;
    const int64_t number = !json_is_real (node)          ? json_integer_value (node)
                           : fabs (real) < (double) most ? (int64_t) real
                           : real < 0                    ? -most
                                                         : most;
    return number > most ? most : number < -most ? -most : number;
}

double wm_ask_real (const json_t *status, const char *path)
{
    return json_number_value (lookup (status, path));
}

const char *wm_ask_text (const json_t *status, const char *path)
{
    const char *text = json_string_value (lookup (status, path));
    return text ? text : "";
}

bool wm_ask_takes_work (const json_t *status)
{
    const wm_wait_row_t *row = &wm_waits[wm_wait_find (wm_ask_text (status, "waiting_for"))];
    return !row->is_pause || row->by != WM_WAIT_BY_BROKER;
}

int64_t wm_ask_demand (const json_t *status)
{
    return wm_ask_int (status, "batches.queued") + wm_ask_int (status, "batches.asked") +
           wm_ask_int (status, "batches.running");
}

bool wm_ask_serves_clients (const json_t *status)
{
    return strcmp (wm_ask_text (status, "campaign.serves"), "clients") == 0;
}

const char *wm_ask_rows (const json_t *status)
{
    const char *rows = wm_ask_text (status, "campaign.rows");
    return *rows ? rows : "hits"; /* of a broker that does not say */
}

const char *wm_ask_rows_s (const json_t *status, int width, char text[32])
{
    const int length = snprintf (text, 32, "%.24s/s", wm_ask_rows (status));
    return length > width ? strcpy (text, "per s") : text;
}

int64_t wm_ask_settled (const json_t *status)
{
    return wm_ask_int (status, "hits.done") + wm_ask_int (status, "hits.held");
}

const char *wm_ask_held_reason (const json_t *held)
{
    const char *reason = wm_path_behind (wm_ask_text (held, "reason"), wm_ask_text (held, "path"));
    return *reason ? reason : "no reason given";
}

void wm_ask_held (FILE *out, const json_t *held)
{
    const char *state = wm_ask_text (held, "state"), *path = wm_ask_text (held, "path");
    char event[80] = "", batch[32] = "";
    if (json_is_integer (json_object_get (held, "event")))
        snprintf (event, sizeof event, " event %lld:%lld:%lld",
                  (long long) wm_ask_int (held, "run"), (long long) wm_ask_int (held, "subrun"),
                  (long long) wm_ask_int (held, "event"));
    if (json_is_integer (json_object_get (held, "batch")))
        snprintf (batch, sizeof batch, " batch %lld", (long long) wm_ask_int (held, "batch"));
    wm_words_print (out, "%s: %s%s%s: %s", strcmp (state, "changed") == 0 ? "changed" : "held",
                    path, event, batch, wm_ask_held_reason (held));
}

void wm_ask_late (FILE *out, const json_t *producer)
{
    char late[32];
    if (!json_is_number (json_object_get (producer, "late_s")))
        return;
    fprintf (
        out,
        "producer %s does not answer: for %s it has sent none of the batches that the broker "
        "asked for; others are asked first. If it is stopped, continue it (kill -CONT); if you "
        "end it, another producer takes its inputs\n",
        wm_ask_text (producer, "label"), wm_show_time (wm_ask_real (producer, "late_s"), late));
}

/* Whether all that is open has changed: then only a command with --retry-held continues.  */
static bool has_all_changed (const json_t *s)
{
    const json_t *open, *held;
    size_t i, k, n_changed = 0;
    json_array_foreach (json_object_get (s, "open"), i, open)
        json_array_foreach (json_object_get (s, "held"), k, held) n_changed +=
        strcmp (wm_ask_text (held, "state"), "changed") == 0 &&
        wm_ask_int (held, "input") == wm_ask_int (open, "input");
    return (int64_t) n_changed == wm_ask_int (s, "inputs.open");
}

void wm_ask_advise (FILE *out, const json_t *status, const char *campaign)
{
    if (has_all_changed (status))
        fprintf (out,
                 "what is open has changed: restore it, or type the same %s command with "
                 "--retry-held to score it as it is now\n",
                 wm_command_sender (campaign));
    else
        wm_command_advise (out, campaign, "to continue");
}

/* ---- with a broker or without ---------------------------------------------------------------- */

wm_fault_t wm_ask_may_connect (const char *endpoint, wm_error_t *error)
{
    char path[4200];
    if (strncmp (endpoint, "ipc://", 6) != 0)
        return WM_OK;
    snprintf (path, sizeof path, "%.4096s.o", endpoint + 6);
    if (access (path, W_OK) == 0 || (errno != EACCES && errno != EPERM))
        return WM_OK;
    return wm_fault (error, WM_EBATCH,
                     "a broker runs, but you may not connect to its socket %s; ask its owner to "
                     "allow it (chmod g+w on the socket, or start the broker with --listen "
                     "tcp://127.0.0.1:PORT), or try again when the broker has ended",
                     path);
}

json_t *wm_ask_now (wm_client_t *client, const char *campaign, wm_error_t *error)
{
    json_t *status = NULL;
    error->fault = WM_OK;
    if (wm_ask_open (client, campaign, error) == WM_OK &&
        !(status = wm_ask_status (client, wm_times ()->answer_ms, NULL)))
        wm_fault (error, WM_EAGAIN, "the broker did not answer its status within %d s",
                  (int) (wm_times ()->answer_ms / 1000));
    if (wm_client_is_open (client))
        wm_client_close (client, WM_REASON_DONE, "");
    return status;
}

const char *wm_ask_operator (const char *verb, char label[64])
{
    char host[64] = "", room[4096];
    struct passwd entry, *user = NULL;
    getpwuid_r (getuid (), &entry, room, sizeof room, &user); /* top asks from several threads */
    gethostname (host, sizeof host - 1);
    host[strcspn (host, ".")] = 0;
    snprintf (label, 64, "%.20s@%.20s (wiremill %.8s)", user ? user->pw_name : "?", host, verb);
    return label;
}

static json_t *ask_broker (const char *endpoint, const char *campaign, wm_error_t *error)
{
    wm_client_t *client = wm_client_new (endpoint, WM_ROLE_MONITOR, "wiremill", NULL, NULL);
    json_t *status = wm_ask_now (client, campaign, error);
    wm_client_destroy (&client);
    return status;
}

/* Reads the answer, and before it how far the program is: {"read": BYTES, "of": BYTES}, now and
   then. NULL: no answer came, or only a part of one.  */
static json_t *read_answer (int fd)
{
    wm_progress_t progress;
    json_t *answer = NULL, *next;
    FILE *from = fdopen (fd, "r");
    wm_progress_init (&progress, false);
    progress.quiet = !progress.terminal; /* a log needs no progress */
    while (from && (next = json_loadf (from, JSON_DISABLE_EOF_CHECK, NULL))) {
        char line[128], n_read[32], n_all[32];
        if (!json_object_get (next, "read")) {
            answer = next;
            break;
        }
        snprintf (line, sizeof line, "reading the outputs: %s of %s",
                  wm_show_bytes (wm_ask_real (next, "read"), n_read),
                  wm_show_bytes (wm_ask_real (next, "of"), n_all));
        wm_progress_show (&progress, line, wm_now_ms ());
        json_decref (next);
    }
    wm_progress_clear (&progress);
    if (from)
        fclose (from);
    else
        close (fd);
    return answer;
}

json_t *wm_ask_ledger (const char *verb, const char *mode, const char *campaign, const char *output,
                       int *code)
{
    int fd;
    const char *const argv[] = { "wiremill-broker",          mode,   "--campaign", campaign,
                                 output ? "--output" : NULL, output, NULL };
    *code = WM_EXIT_FAILURE;
    const pid_t pid = wm_spawn_reader (verb, argv, &fd);
    if (pid < 0)
        return NULL;
    json_t *reply = read_answer (fd);
    *code = wm_spawn_code (verb, argv[0], pid);
    return reply;
}

json_t *wm_ask_anyhow (const char *verb, const char *endpoint, const char *campaign, int *code)
{
    wm_error_t error;
    const bool may_not = *endpoint && wm_ask_may_connect (endpoint, &error);
    error.fault = WM_OK;
    json_t *status = *endpoint && !may_not ? ask_broker (endpoint, campaign, &error) : NULL;
    *code = !*endpoint               ? wm_ask_no_broker (campaign, error.text)
            : may_not                ? WM_EXIT_INPUT
            : error.fault == WM_EKEY ? WM_EXIT_REFUSED
                                     : WM_EXIT_UNREACHABLE;
    wm_endpoint_t file;
    const bool is_away =
        !*endpoint && read_endpoint (campaign, &file) && !wm_endpoint_is_here (&file);
    if (!status && (*endpoint || is_away || *code != WM_EXIT_UNREACHABLE))
        fprintf (stderr, "wiremill %s: %s\n", verb, error.text);
    if (!status && *campaign && !is_away && *code == WM_EXIT_UNREACHABLE)
        status = wm_ask_ledger (verb, "--status", campaign, NULL, code);
    if (!status && *code == WM_EXIT_OK)
        *code = WM_EXIT_FAILURE;
    return status;
}
