/* bad_link.c - a network between hosts (network namespaces) that delays, loses and cuts packets.

   usage: bad_link SEED NAME=ADDRESS...

   Makes a TUN device NAME for each host; the test moves it into a namespace and gives it ADDRESS
   (IPv4). Packets go to the host that has their destination. stdin has a command a line:

     delay MS          every packet arrives so much later (one way)
     loss PERCENT      so many packets are lost
     cut N, join N     host N (from 0) loses everything; no longer
     move N ADDRESS    host N has another address
     end

   The kernel's netem is a module that many machines do not have; this needs /dev/net/tun only.
   Prints "ready", then at the end how many packets went and were lost. Ends with its parent, too.
 */
#include "tests/fault/bad_weather.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#define HOSTS_MAX 8
#define PACKETS_MAX 4096 /* under way; more are lost, as in a router */
#define PACKET_BYTES_MAX 2048

typedef struct {
    int64_t due_ms;
    int to;
    size_t bytes;
    uint8_t data[PACKET_BYTES_MAX];
} packet_t;

static struct {
    int fd;
    uint32_t address;
    bool is_cut;
} host[HOSTS_MAX];
static int n_host, delay_ms, loss;
static packet_t packet[PACKETS_MAX]; /* a ring, in the order of their arrival */
static size_t first, count;
static long n_sent, n_lost;

static void add_host (const char *text)
{
    struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
    const char *equals = strchr (text, '=');
    if (!equals || equals - text >= IFNAMSIZ || n_host == HOSTS_MAX)
        exit (2);
    memcpy (request.ifr_name, text, (size_t) (equals - text));
    host[n_host].fd = open ("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    host[n_host].address = inet_addr (equals + 1);
    if (host[n_host].fd < 0 || ioctl (host[n_host].fd, TUNSETIFF, &request)) {
        fprintf (stderr, "bad_link: %s: %s\n", text, strerror (errno));
        exit (1);
    }
    n_host++;
}

/* false: it ends.  */
static bool obey (const char *line)
{
    int n = 0;
    char address[64] = "";
    if (sscanf (line, "delay %d", &n) == 1)
        delay_ms = n;
    else if (sscanf (line, "loss %d", &n) == 1)
        loss = n;
    else if (sscanf (line, "cut %d", &n) == 1 && n >= 0 && n < n_host)
        host[n].is_cut = true;
    else if (sscanf (line, "join %d", &n) == 1 && n >= 0 && n < n_host)
        host[n].is_cut = false;
    else if (sscanf (line, "move %d %63s", &n, address) == 2 && n >= 0 && n < n_host)
        host[n].address = inet_addr (address);
    else if (strcmp (line, "end") != 0)
        fprintf (stderr, "bad_link: unknown command: %s\n", line);
    return strcmp (line, "end") != 0;
}

/* false: the test has ended.  */
static bool read_commands (void)
{
    static char text[1024];
    static size_t used;
    const ssize_t n = read (STDIN_FILENO, text + used, sizeof text - 1 - used);
    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    used += (size_t) n;
    text[used] = 0;
    for (char *end; (end = strchr (text, '\n'));) {
        *end = 0;
        if (!obey (text))
            return false;
        used -= (size_t) (end + 1 - text);
        memmove (text, end + 1, used + 1);
    }
    return true;
}

/* Takes the packets that host `from` sends.  */
static void take (int from)
{
    uint8_t data[PACKET_BYTES_MAX];
    ssize_t bytes;
    while ((bytes = read (host[from].fd, data, sizeof data)) > 0) {
        uint32_t destination = 0;
        int to = n_host;
        if (bytes >= 20 && data[0] >> 4 == 4) {
            memcpy (&destination, data + 16, 4);
            for (to = 0; to < n_host && host[to].address != destination; to++)
                ;
        }
        n_sent++;
        if (to == n_host || host[from].is_cut || host[to].is_cut || count == PACKETS_MAX ||
            (int) roll (100) < loss) {
            n_lost++;
            continue;
        }
        packet_t *slot = &packet[(first + count++) % PACKETS_MAX];
        slot->due_ms = now_ms () + delay_ms;
        slot->to = to;
        slot->bytes = (size_t) bytes;
        memcpy (slot->data, data, (size_t) bytes);
    }
}

int main (int argc, char **argv)
{
    if (argc < 3) {
        fprintf (stderr, "usage: bad_link SEED NAME=ADDRESS...\n");
        return 2;
    }
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    random_state = strtoull (argv[1], NULL, 10);
    for (int i = 2; i < argc; i++)
        add_host (argv[i]);
    fcntl (STDIN_FILENO, F_SETFL, O_NONBLOCK);
    puts ("ready");
    fflush (stdout);
    for (bool goes_on = true; goes_on;) {
        struct pollfd item[HOSTS_MAX + 1] = { { .fd = STDIN_FILENO, .events = POLLIN } };
        for (int i = 0; i < n_host; i++)
            item[i + 1] = (struct pollfd){ .fd = host[i].fd, .events = POLLIN };
        const int64_t wait_ms = count ? packet[first].due_ms - now_ms () : 1000;
        poll (item, (nfds_t) n_host + 1, wait_ms > 0 ? (int) wait_ms : 0);
        if (item[0].revents)
            goes_on = read_commands ();
        for (int i = 0; i < n_host; i++)
            take (i);
        for (; count && packet[first].due_ms <= now_ms (); first = (first + 1) % PACKETS_MAX) {
            count--; /* a host that is down, or has left, loses it */
            if (!host[packet[first].to].is_cut &&
                write (host[packet[first].to].fd, packet[first].data, packet[first].bytes) < 0)
                n_lost++;
        }
    }
    printf ("%ld packets, %ld lost\n", n_sent, n_lost);
    return 0;
}
