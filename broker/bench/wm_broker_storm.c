/* wm_broker_storm.c - see wm_broker_storm.h. Each handshake is a socket of its own, which is closed
   when the broker has refused it; so many are under way at most, that a broker which is slow to
   answer gets fewer.  */
#include "broker/bench/wm_broker_storm.h"
#include "schema/base/wm_process.h"
#include "schema/session/wm_endpoint.h"
#include "schema/session/wm_keys.h"
#include "schema/wm_limits.h"

#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define UNDER_WAY 256
#define GIVE_UP_MS 5000

typedef struct {
    void *socket, *monitor;
    int64_t since_ms;
} attempt_t;

typedef struct {
    void *context;
    char address[WM_ENDPOINT_PLACES_MAX][WM_ADDRESS_BYTES];
    uint8_t server[32], public_key[32], private_key[32];
    attempt_t attempt[UNDER_WAY];
    unsigned long n_begun;
} storm_t;

static void attempt_begin (storm_t *self, attempt_t *attempt)
{
    const int zero = 0, never = 1000000000;
    char name[48];
    snprintf (name, sizeof name, "inproc://%lu", self->n_begun++);
    attempt->since_ms = wm_now_ms ();
    attempt->socket = zmq_socket (self->context, ZMQ_DEALER);
    attempt->monitor = zmq_socket (self->context, ZMQ_PAIR);
    if (!attempt->socket || !attempt->monitor)
        return;
    zmq_setsockopt (attempt->socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt (attempt->monitor, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt (attempt->socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    zmq_setsockopt (attempt->socket, ZMQ_CURVE_SERVERKEY, self->server, 32);
    zmq_setsockopt (attempt->socket, ZMQ_CURVE_PUBLICKEY, self->public_key, 32);
    zmq_setsockopt (attempt->socket, ZMQ_CURVE_SECRETKEY, self->private_key, 32);
    zmq_socket_monitor (attempt->socket, name, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
    zmq_connect (attempt->monitor, name);
    zmq_connect (attempt->socket, self->address[0]);
}

static void attempt_end (attempt_t *attempt)
{
    if (attempt->socket) {
        zmq_socket_monitor (attempt->socket, NULL, 0);
        zmq_close (attempt->socket);
    }
    if (attempt->monitor)
        zmq_close (attempt->monitor);
    *attempt = (attempt_t){ 0 };
}

/* Returns how many attempts are under way.  */
static int look (storm_t *self, uint64_t *n_refused)
{
    uint8_t event[256];
    int n = 0;
    for (int i = 0; i < UNDER_WAY; i++) {
        attempt_t *attempt = &self->attempt[i];
        if (!attempt->socket)
            continue;
        const bool is_refused = zmq_recv (attempt->monitor, event, sizeof event, ZMQ_DONTWAIT) == 6;
        __atomic_fetch_add (n_refused, is_refused, __ATOMIC_RELAXED);
        if (is_refused || wm_now_ms () - attempt->since_ms > GIVE_UP_MS)
            attempt_end (attempt);
        else
            n++;
    }
    return n;
}

static void storm (const char *endpoint, const char *campaign, unsigned handshakes_a_s,
                   uint64_t *n_refused)
{
    static storm_t self;
    wm_error_t error;
    while (wm_keys_server (campaign, self.server, NULL, &error) ||
           !wm_endpoint_resolve (endpoint, 0, self.address, &error))
        usleep (10000);
    crypto_box_keypair (self.public_key, self.private_key);
    self.context = zmq_ctx_new ();
    zmq_ctx_set (self.context, ZMQ_MAX_SOCKETS, 8192);
    for (const int64_t start = wm_now_ms ();;) {
        const int64_t due = (wm_now_ms () - start) * handshakes_a_s / 1000;
        int n = look (&self, n_refused);
        for (int i = 0; i < UNDER_WAY && n < UNDER_WAY && (int64_t) self.n_begun < due; i++)
            if (!self.attempt[i].socket) {
                attempt_begin (&self, &self.attempt[i]);
                n++;
            }
        usleep (1000);
    }
}

wm_storm_t wm_storm_start (const char *endpoint, const char *campaign, unsigned handshakes_a_s)
{
    wm_storm_t self = { .pid = -1 };
    const pid_t parent = getpid ();
    self.n_refused = mmap (NULL, sizeof *self.n_refused, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (self.n_refused != MAP_FAILED)
        self.pid = fork ();
    if (self.pid)
        return self;
    wm_process_name ("wm-storm");
    if (!wm_process_follow (parent, SIGKILL))
        _exit (WM_EXIT_AGAIN);
    setpriority (PRIO_PROCESS, 0, 19);
    storm (endpoint, campaign, handshakes_a_s, self.n_refused);
    _exit (WM_EXIT_FAILURE);
}

uint64_t wm_storm_refused (const wm_storm_t *self)
{
    return __atomic_load_n (self->n_refused, __ATOMIC_RELAXED);
}

void wm_storm_end (wm_storm_t *self)
{
    kill (self->pid, SIGKILL);
    waitpid (self->pid, NULL, 0);
    munmap (self->n_refused, sizeof *self->n_refused);
}
