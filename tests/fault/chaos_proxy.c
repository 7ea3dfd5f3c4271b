/* chaos_proxy.c - a TCP link that misbehaves, between a broker's three ports and its peers.

   usage: chaos_proxy LISTEN_PORT BROKER_PORT SEED PERIOD_MS PERIODS [KB_S]

   Listens on LISTEN_PORT, +1, +2 of loopback and passes bytes to BROKER_PORT, +1, +2. Time is cut
   into periods of PERIOD_MS. Every second one is calm; in the others one thing is wrong with
   all links: delayed, in segments of one byte, reset, black (bytes are kept back, as in a partition
   that heals), throttled, or with bits that flip. Two kinds of flips are rare by chance and have
   periods of their own: that of a frame's COMMAND bit, by which libzmq drops the frame unseen, and
   one in the length of a long frame, for which a reader then waits. After PERIODS bad ones it stays
   calm. With KB_S each direction of a link passes at most so many kilobytes a second, all the time.
   WM_WEATHER=n lets each bad period be of kind n (1: delayed). Prints a line a period, so that a
   test knows what it has been through. Ends with its parent.  */
#include "tests/fault/bad_weather.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINKS_MAX 256
#define ROOM (256 << 10)

typedef enum {
    CALM,
    DELAY,
    BYTES,
    RESET,
    BLACK,
    THROTTLE,
    FLIP,
    LOSE,
    LENGTHEN,
    WEATHERS
} weather_t;
static const char *const weather_name[] = { "calm",         "delay",       "one-byte segments",
                                            "reset",        "black",       "throttle",
                                            "flipped bits", "lost frames", "long frames" };

/* Where a direction is in ZMTP 3: a greeting of 64 bytes, then frames of a byte of flags, a length
   of 1 or 8 bytes (bit LONG) and so many more.  */
enum { GREETING = 64, LONG = 2, COMMAND = 4 };
typedef struct {
    uint64_t left;   /* bytes of the greeting or of a frame's body to come */
    uint64_t length; /* of the frame, as far as it is read */
    int length_left; /* bytes of it to come */
    bool is_long, begun;
} zmtp_t;

/* One direction: bytes that were read and not yet written.  */
typedef struct {
    uint8_t *data;
    size_t bytes;
    int64_t since_ms; /* when the oldest of them came */
    int64_t paid_ms;  /* until when what it may pass is used up, with KB_S */
    bool ended;       /* the reading side has ended */
    zmtp_t at;
} flow_t;

typedef struct {
    int fd[2];      /* peer, broker; -1: free */
    flow_t flow[2]; /* flow[i]: from fd[i] to the other */
} wire_t;

static wire_t link_of[LINKS_MAX];
static weather_t weather;
static int64_t kb_s; /* 0: as fast as it goes */

static struct sockaddr_in address (int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons ((uint16_t) port),
                                 .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
}

static int listen_on (int port)
{
    const struct sockaddr_in here = address (port);
    const int fd = socket (AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd < 0 || bind (fd, (const struct sockaddr *) &here, sizeof here) || listen (fd, 64)) {
        fprintf (stderr, "chaos_proxy: port %d: %s\n", port, strerror (errno));
        exit (1);
    }
    return fd;
}

static void close_link (wire_t *self, bool reset)
{
    const struct linger at_once = { .l_onoff = 1 };
    for (int i = 0; i < 2; i++) {
        if (reset)
            setsockopt (self->fd[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close (self->fd[i]);
        self->fd[i] = -1;
        free (self->flow[i].data);
        self->flow[i] = (flow_t){ 0 };
    }
}

static void accept_one (int listener, int broker_port)
{
    const struct sockaddr_in there = address (broker_port);
    const int peer = accept4 (listener, NULL, NULL, SOCK_NONBLOCK), yes = 1;
    if (peer < 0)
        return;
    wire_t *self = link_of;
    while (self < link_of + LINKS_MAX && self->fd[0] >= 0)
        self++;
    const int broker = socket (AF_INET, SOCK_STREAM, 0);
    if (self == link_of + LINKS_MAX || weather == RESET ||
        connect (broker, (const struct sockaddr *) &there, sizeof there)) {
        close (peer); /* no broker now, or no link */
        close (broker);
        return;
    }
    fcntl (broker, F_SETFL, O_NONBLOCK);
    setsockopt (peer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt (broker, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    *self = (wire_t){ .fd = { peer, broker } };
    for (int i = 0; i < 2; i++)
        self->flow[i].data = malloc (ROOM);
}

/* Follows the frames in the next bytes, and spoils some of their heads.  */
static void frames_read (zmtp_t *at, uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (!at->begun) {
            at->begun = true;
            at->left = GREETING;
        }
        if (at->left) {
            const uint64_t step = at->left < bytes - i ? at->left : bytes - i;
            at->left -= step;
            i += step - 1;
        } else if (at->length_left) {
            at->length = at->length << 8 | data[i];
            if (--at->length_left == 0)
                at->left = at->length;
            if (weather == LENGTHEN && at->length_left == 2 && at->is_long && roll (4) == 0)
                data[i] ^= 1u << 4; /* 1 MiB more, or less */
        } else {
            at->is_long = data[i] & LONG;
            at->length_left = at->is_long ? 8 : 1;
            at->length = 0;
            if (weather == LOSE && roll (8) == 0)
                data[i] |= COMMAND;
        }
    }
}

static void flow_read (wire_t *self, int i)
{
    flow_t *flow = &self->flow[i];
    const ssize_t n = read (self->fd[i], flow->data + flow->bytes, ROOM - flow->bytes);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        flow->ended = true;
    if (n <= 0)
        return;
    if (!flow->bytes)
        flow->since_ms = now_ms ();
    frames_read (&flow->at, flow->data + flow->bytes, (size_t) n);
    if (weather == FLIP && roll (8) == 0)
        flow->data[flow->bytes + roll ((uint32_t) n)] ^= (uint8_t) (1u << roll (8));
    flow->bytes += (size_t) n;
}

/* How many of the bytes may go now.  */
static size_t may_go (flow_t *flow)
{
    if (kb_s) {
        const int64_t now = now_ms ();
        if (now - flow->paid_ms > 100) /* what a machine under load sleeps over */
            flow->paid_ms = now - 100;
        const size_t most = (size_t) ((now - flow->paid_ms) * kb_s);
        flow->paid_ms = now;
        return flow->bytes < most ? flow->bytes : most;
    }
    switch (weather) {
    case BLACK:
        return 0;
    case DELAY:
        return now_ms () - flow->since_ms >= 40 ? flow->bytes : 0;
    case BYTES:
        return flow->bytes != 0;
    case THROTTLE:
        return flow->bytes < 2000 ? flow->bytes : 2000;
    default:
        return flow->bytes;
    }
}

static void flow_write (wire_t *self, int i)
{
    flow_t *flow = &self->flow[i];
    /* One byte a segment, some hundreds a round, or nothing would ever arrive.  */
    for (int round = weather == BYTES ? 300 : 1; round-- && flow->bytes;) {
        const size_t count = may_go (flow);
        const ssize_t n = count ? send (self->fd[!i], flow->data, count, MSG_NOSIGNAL) : 0;
        if (n < 0 && errno != EAGAIN)
            flow->ended = true;
        if (n <= 0)
            return;
        flow->bytes -= (size_t) n;
        flow->since_ms = now_ms ();
        memmove (flow->data, flow->data + n, flow->bytes);
    }
}

static void links_turn (void)
{
    for (wire_t *self = link_of; self < link_of + LINKS_MAX; self++) {
        if (self->fd[0] < 0)
            continue;
        if (weather == RESET && roll (20) == 0) {
            close_link (self, true);
            continue;
        }
        for (int i = 0; i < 2; i++) {
            if (self->flow[i].bytes < ROOM && !self->flow[i].ended)
                flow_read (self, i);
            flow_write (self, i);
        }
        for (int i = 0; i < 2; i++)
            if (self->fd[0] >= 0 && self->flow[i].ended && !self->flow[i].bytes)
                close_link (self, false);
    }
}

int main (int argc, char **argv)
{
    if (argc != 6 && argc != 7) {
        fprintf (stderr,
                 "usage: chaos_proxy LISTEN_PORT BROKER_PORT SEED PERIOD_MS PERIODS [KB_S]\n");
        return 2;
    }
    kb_s = argc == 7 ? atol (argv[6]) : 0;
    const int port = atoi (argv[1]), broker_port = atoi (argv[2]), period_ms = atoi (argv[4]);
    long left = atol (argv[5]);
    random_state = strtoull (argv[3], NULL, 10);
    const int always = getenv ("WM_WEATHER") ? atoi (getenv ("WM_WEATHER")) : 0;
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    int listener[3];
    for (int i = 0; i < 3; i++)
        listener[i] = listen_on (port + i);
    for (int i = 0; i < LINKS_MAX; i++)
        link_of[i].fd[0] = link_of[i].fd[1] = -1;
    setvbuf (stdout, NULL, _IOLBF, 0);
    for (int64_t next_ms = now_ms () + period_ms;;) {
        struct pollfd ready[3];
        for (int i = 0; i < 3; i++)
            ready[i] = (struct pollfd){ .fd = listener[i], .events = POLLIN };
        poll (ready, 3, 1); /* rounds of 1 ms are fine enough for a link */
        for (int i = 0; i < 3; i++)
            if (ready[i].revents)
                accept_one (listener[i], broker_port + i);
        links_turn ();
        if (now_ms () < next_ms)
            continue;
        next_ms += period_ms;
        weather = weather || !left
                      ? CALM
                      : (weather_t) (always ? always : (int) (1 + roll (WEATHERS - 1)));
        left -= weather != CALM;
        puts (weather_name[weather]);
    }
}
