/* hostile.c - hostile peers beside a campaign: silent ones, garbage, malformed frames, sessions
   without end, floods of messages whose answers nobody reads, and small messages that claim much.

   usage: hostile ipc://PATH [SECONDS [WAY...]]   (10 seconds; all ways but the last four at once,
   a process each)
   Each way goes on with a new connection when its own is ended. SIGTERM ends the program early.
   Prints what each way got through.  */
#include "schema/session/wm_client.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define SILENT 64
#define GREEDY 400 /* sessions of `models` */
#define GARBAGE_BYTES (64u << 10)
#define STRANGE_BYTES (256u << 10)
#define RESULT_HITS 512
#define BREATH_US 200 /* a flood may have the processor, not a campaign that shares it with many */

static const char *endpoint;
static int64_t end_ms;
static volatile sig_atomic_t is_over;
static unsigned long n_sent, n_connection;

static void on_term (int number)
{
    (void) number;
    is_over = 1;
}

static int goes_on (void)
{
    return !is_over && wm_now_ms () < end_ms;
}

/* ---- without the protocol -------------------------------------------------------------------- */

static int plug (char listener)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf (address.sun_path, sizeof address.sun_path, "%.90s.%c", endpoint + strlen ("ipc://"),
              listener);
    const int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect (fd, (struct sockaddr *) &address, sizeof address) == 0) {
        n_connection++;
        return fd;
    }
    close (fd);
    return -1;
}

static void silent (void)
{
    int fd[SILENT];
    char byte;
    memset (fd, -1, sizeof fd);
    for (; goes_on (); usleep (50000))
        for (int i = 0; i < SILENT; i++) {
            if (fd[i] >= 0 && recv (fd[i], &byte, 1, MSG_DONTWAIT) == 0) {
                close (fd[i]);
                fd[i] = -1;
            }
            if (fd[i] < 0)
                fd[i] = plug ("wpo"[i % 3]);
        }
}

static void garbage (void)
{
    static uint8_t bytes[GARBAGE_BYTES];
    while (goes_on ()) {
        const int fd = plug ("wpo"[n_connection % 3]);
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t) random ();
        if (n_connection % 2) /* of the right greeting, to be read on */
            memcpy (bytes, "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);
        while (fd >= 0 && send (fd, bytes, sizeof bytes, MSG_NOSIGNAL) > 0)
            n_sent++;
        close (fd);
        usleep (BREATH_US);
    }
}

/* Frames of libzmq that are no message of ours.  */
static void strange (void)
{
    static uint8_t bytes[STRANGE_BYTES];
    static const int linger_ms = 0, send_ms = 100;
    char address[128];
    void *context = zmq_ctx_new ();
    for (; goes_on (); usleep (BREATH_US)) {
        void *socket = zmq_socket (context, ZMQ_DEALER);
        if (!socket) /* those that were closed before are not gone yet */
            continue;
        n_connection++;
        snprintf (address, sizeof address, "%s.%c", endpoint, "wp"[n_connection % 2]);
        zmq_setsockopt (socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_setsockopt (socket, ZMQ_SNDTIMEO, &send_ms, sizeof send_ms);
        zmq_connect (socket, address);
        for (int i = 0; i < 8; i++)
            n_sent += zmq_send (socket, bytes, sizeof bytes, 0) > 0;
        usleep (BREATH_US);
        zmq_close (socket);
    }
    zmq_ctx_term (context);
}

/* ---- in a session, below libzmq -------------------------------------------------------------- */

/* Appends a frame of ZMTP 3 (of less than 4 KiB).  */
static size_t frame (uint8_t *to, size_t at, uint8_t flags, const void *bytes, size_t size)
{
    to[at++] = flags | 2; /* 8 bytes of length */
    for (int shift = 56; shift >= 0; shift -= 8)
        to[at++] = (uint8_t) (size >> shift);
    memcpy (to + at, bytes, size);
    return at + size;
}

static size_t message (uint8_t *to, size_t at, const wm_msg_t *msg, uint64_t number)
{
    uint8_t header[WM_HEADER_BYTES_MAX];
    const int more = wm_msg_has_payload (msg->type); /* an empty one */
    size_t size = wm_msg_encode (msg, header);
    size = wm_msg_seal (header, size, more ? wm_msg_check ("", 0) : 0, number);
    at = frame (to, at, (uint8_t) more, header, size);
    return more ? frame (to, at, 0, "", 0) : at;
}

/* Sends HELLO and this message, and reads nothing: what the broker answers stays in its memory.
   Returns the connection, or -1.  */
static int ask_and_leave_unread (wm_role_t role, const wm_msg_t *msg)
{
    static const uint8_t ready[] = "\5READY\13Socket-Type\0\0\0\6DEALER";
    static const uint8_t greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL";
    uint8_t bytes[4 * WM_HEADER_BYTES_MAX], its[64 + 43]; /* its greeting, and its READY */
    const struct timeval patience = { .tv_sec = 1 };
    wm_msg_t hello;
    wm_msg_init (&hello, WM_MSG_HELLO);
    hello.protocol = WM_PROTOCOL;
    hello.role = role;
    for (size_t i = 0; i < sizeof hello.instance; i++)
        hello.instance[i] = (uint8_t) random ();
    snprintf (hello.name, sizeof hello.name, "hostile");
    const int fd = plug ("?wpo"[role]);
    if (fd < 0)
        return -1;
    setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    send (fd, greeting, sizeof greeting, MSG_NOSIGNAL);
    send (fd, bytes, frame (bytes, 0, 4, ready, sizeof ready - 1), MSG_NOSIGNAL);
    recv (fd, its, sizeof its, MSG_WAITALL);
    const size_t n = message (bytes, message (bytes, 0, &hello, 0), msg, 1);
    n_sent += send (fd, bytes, n, MSG_NOSIGNAL) == (ssize_t) n;
    return fd;
}

/* Many sessions that ask once, and then go on asking something.  */
static void greedy (wm_role_t role, wm_msg_type_t once, wm_msg_type_t again)
{
    int fd[GREEDY];
    uint8_t bytes[WM_HEADER_BYTES_MAX + 16];
    wm_msg_t get, more;
    wm_msg_init (&get, once);
    wm_msg_init (&more, again);
    uint64_t number[GREEDY];
    memset (fd, -1, sizeof fd);
    for (; goes_on (); usleep (50000))
        for (int i = 0; i < GREEDY && goes_on (); i++) {
            const size_t n = message (bytes, 0, &more, number[i]++);
            if (fd[i] >= 0 && send (fd[i], bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t) n) {
                close (fd[i]);
                fd[i] = -1;
            }
            if (fd[i] < 0) {
                fd[i] = ask_and_leave_unread (role, &get);
                number[i] = 2;
            }
        }
}

/* Every session asks for the first 4 MiB of the model.  */
static void models (void)
{
    greedy (WM_ROLE_WORKER, WM_MSG_MODEL_GET, WM_MSG_HEARTBEAT);
}

static void unread (void)
{
    greedy (WM_ROLE_OPERATOR, WM_MSG_STATUS, WM_MSG_STATUS);
}

/* ---- in a session ---------------------------------------------------------------------------- */

/* Says it until the session ends, and reads nothing.  */
static void flood (wm_role_t role, wm_msg_t *msg)
{
    wm_error_t error;
    while (goes_on ()) {
        wm_client_t *client = wm_client_new (endpoint, role, "hostile", "hostile/v1", NULL);
        wm_client_class (client, "hostile", 0, 0);
        uint8_t *result = NULL;
        size_t bytes = 0;
        if (wm_client_open (client, NULL, 0, 1000, &error) == WM_OK) {
            n_connection++;
            bytes =
                msg->n_hit ? wm_result_bytes (msg->n_hit, wm_client_pins (client)->n_output) : 0;
            result = msg->n_hit ? calloc (1, bytes) : NULL;
            while (goes_on () && wm_client_send (client, msg, result, bytes) == WM_OK) {
                msg->key.ordinal++;
                n_sent++;
                usleep (BREATH_US);
            }
        }
        free (result);
        wm_client_destroy (&client);
        usleep (BREATH_US);
    }
}

static void statuses (void)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_STATUS);
    flood (WM_ROLE_OPERATOR, &msg);
}

static void beats (void)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    msg.key.input = 1;
    flood (WM_ROLE_WORKER, &msg);
}

/* Of an input that nobody gave: acknowledged, since nobody wants them.  */
static void results (void)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_RESULT);
    msg.key.input = 4711;
    msg.n_batch = 1;
    msg.n_hit = RESULT_HITS;
    flood (WM_ROLE_WORKER, &msg);
}

/* A producer that has the claim of an input without a file; NULL: it does not get it.  */
static wm_client_t *claimant (wm_key_t *key)
{
    wm_error_t error;
    wm_msg_t msg;
    wm_client_t *client = wm_client_new (endpoint, WM_ROLE_PRODUCER, "hostile", NULL, NULL);
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    snprintf (msg.path, sizeof msg.path, "/hostile/bomb.h5");
    snprintf (msg.name, sizeof msg.name, "bomb.scores.h5");
    if (wm_client_open (client, NULL, 0, 1000, &error) == WM_OK &&
        wm_client_send (client, &msg, NULL, 0) == WM_OK)
        while (wm_client_wait (client, 1000) == WM_CLIENT_MESSAGE)
            if (wm_client_msg (client)->type == WM_MSG_INPUT_ACK &&
                wm_client_msg (client)->code == WM_INPUT_CLAIMED) {
                *key = wm_client_msg (client)->key;
                return client;
            }
    wm_client_destroy (&client);
    return NULL;
}

/* Results of events that nobody announces, each with as many batches as an event may have. At the
   end the input is held, so that the campaign can end.  */
static void bomb (void)
{
    wm_client_t *client = NULL;
    wm_msg_t msg, held;
    wm_msg_init (&msg, WM_MSG_RESULT);
    wm_msg_init (&held, WM_MSG_INPUT_HELD);
    for (; goes_on () && !client; usleep (50000))
        client = claimant (&msg.key);
    wm_client_destroy (&client);
    if (goes_on () && !msg.key.input)
        return;
    msg.n_batch = WM_EVENT_BATCHES_MAX;
    msg.n_hit = 1;
    flood (WM_ROLE_WORKER, &msg);
    for (int i = 0; msg.key.input && i < 600 && !client; i++, usleep (50000))
        client = claimant (&held.key);
    if (client && wm_client_send (client, &held, NULL, 0) == WM_OK)
        while (wm_client_wait (client, 1000) == WM_CLIENT_MESSAGE &&
               wm_client_msg (client)->type != WM_MSG_ACK)
            continue;
    wm_client_destroy (&client);
}

/* What follows an answer about an input without events: its end, then its output; false: nothing
   does. */
static int input_goes_on (const wm_msg_t *answer, wm_msg_t *next)
{
    const int is_claimed = answer->type == WM_MSG_INPUT_ACK && answer->code == WM_INPUT_CLAIMED;
    wm_msg_init (next, is_claimed ? WM_MSG_INPUT_END : WM_MSG_FILE_WRITTEN);
    next->key = answer->key;
    next->size = next->key.input;
    return is_claimed || (answer->type == WM_MSG_ACK && answer->code == WM_MSG_INPUT_END);
}

/* Inputs without events, one after another, to their end; a hundred at a time.  */
static void inputs (void)
{
    wm_error_t error;
    wm_msg_t msg;
    wm_client_t *client = wm_client_new (endpoint, WM_ROLE_PRODUCER, "hostile", NULL, NULL);
    if (wm_client_open_patiently (client, NULL, 0, 60000, &error) == WM_OK)
        n_connection++;
    for (unsigned long n_done = 0; goes_on () && wm_client_is_open (client);) {
        for (; n_sent < n_done + 100; n_sent++) {
            wm_msg_init (&msg, WM_MSG_INPUT);
            msg.code = 1;
            msg.size = n_sent;
            snprintf (msg.path, sizeof msg.path, "/data/campaign/run-%06lu/events-%06lu.h5",
                      n_sent / 100, n_sent);
            snprintf (msg.name, sizeof msg.name, "events-%06lu.scores.h5", n_sent);
            wm_client_send (client, &msg, NULL, 0);
        }
        if (wm_client_wait (client, 1000) != WM_CLIENT_MESSAGE)
            continue;
        if (input_goes_on (wm_client_msg (client), &msg))
            wm_client_send (client, &msg, NULL, 0);
        else
            n_done += wm_client_msg (client)->type == WM_MSG_ACK;
    }
    wm_client_destroy (&client);
}

static void sessions (void)
{
    wm_error_t error;
    while (goes_on ()) {
        wm_client_t *client =
            wm_client_new (endpoint, WM_ROLE_PRODUCER + n_connection % 2, "hostile", NULL, NULL);
        n_connection += wm_client_open (client, NULL, 0, 1000, &error) == WM_OK;
        wm_client_destroy (&client);
        usleep (BREATH_US);
    }
}

static const struct {
    const char *name;
    void (*run) (void);
} ways[] = {
    { "silent", silent },     { "garbage", garbage }, { "strange", strange },
    { "statuses", statuses }, { "beats", beats },     { "results", results },
    { "sessions", sessions }, { "models", models },   { "bomb", bomb },
    { "inputs", inputs },     { "unread", unread },
};
#define BY_NAME_ONLY 4 /* the last ones: bomb.t and inputs.t try them */

static int is_asked_for (size_t way, char **asked)
{
    if (!*asked)
        return way < sizeof ways / sizeof *ways - BY_NAME_ONLY;
    while (*asked && strcmp (*asked, ways[way].name) != 0)
        asked++;
    return *asked != NULL;
}

/* Until all have ended; a SIGTERM is passed on.  */
static void look_after (const pid_t *child, size_t n)
{
    while (waitpid (-1, NULL, WNOHANG) >= 0) {
        for (size_t i = 0; is_over && i < n; i++)
            if (child[i] > 0)
                kill (child[i], SIGTERM);
        usleep (20000);
    }
}

int main (int argc, char **argv)
{
    pid_t child[sizeof ways / sizeof *ways] = { 0 };
    if (argc < 2 || strncmp (argv[1], "ipc://", 6) != 0) {
        fprintf (stderr, "usage: hostile ipc://PATH [SECONDS [WAY...]]\n");
        return 2;
    }
    zsys_handler_set (NULL);
    signal (SIGTERM, on_term);
    endpoint = argv[1];
    end_ms = wm_now_ms () + (argc > 2 ? atoi (argv[2]) : 10) * 1000;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!is_asked_for (i, argv + (argc < 3 ? argc : 3)) || (child[i] = fork ()))
            continue;
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        ways[i].run ();
        printf ("hostile: %-8s %lu connections, %lu messages\n", ways[i].name, n_connection,
                n_sent);
        fflush (stdout);
        _exit (0);
    }
    look_after (child, sizeof ways / sizeof *ways);
    return 0;
}
