/* hostile.c - hostile peers beside a campaign: silent ones, garbage, malformed frames, sessions
   without end, and floods of messages whose answers nobody reads.

   usage: hostile ipc://PATH [SECONDS [WAY...]]   (10 seconds, all ways at once, a process each)
   Each way goes on with a new connection when its own is ended. SIGTERM ends it early. Prints what
   each got through.  */
#include "schema/wm_client.h"

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
    char address[128];
    while (goes_on ()) {
        zsock_t *socket = zsock_new (ZMQ_DEALER);
        n_connection++;
        snprintf (address, sizeof address, "%s.%c", endpoint, "wp"[n_connection % 2]);
        zsock_set_linger (socket, 0);
        zsock_set_sndtimeo (socket, 100);
        zsock_connect (socket, "%s", address);
        for (int i = 0; i < 8; i++)
            n_sent += zmq_send (zsock_resolve (socket), bytes, sizeof bytes, 0) > 0;
        usleep (BREATH_US);
        zsock_destroy (&socket);
    }
}

/* ---- in a session ---------------------------------------------------------------------------- */

/* Says it until the session ends, and reads nothing.  */
static void flood (wm_role_t role, wm_msg_t *msg, int with_payload)
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
                with_payload ? wm_result_bytes (RESULT_HITS, wm_client_pins (client)->n_output) : 0;
            result = with_payload ? calloc (1, bytes) : NULL;
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
    flood (WM_ROLE_OPERATOR, &msg, 0);
}

static void beats (void)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    msg.key.input = 1;
    flood (WM_ROLE_WORKER, &msg, 0);
}

/* Of an input that nobody gave: acknowledged, since nobody wants them.  */
static void results (void)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_RESULT);
    msg.key.input = 4711;
    msg.n_batch = 1;
    msg.n_hit = RESULT_HITS;
    flood (WM_ROLE_WORKER, &msg, 1);
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
    { "sessions", sessions },
};

static int is_asked_for (const char *name, char **asked)
{
    if (!*asked)
        return 1;
    while (*asked && strcmp (*asked, name) != 0)
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
        if (!is_asked_for (ways[i].name, argv + (argc < 3 ? argc : 3)) || (child[i] = fork ()))
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
