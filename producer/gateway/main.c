/* main.c - wiremill-gateway: answers clients of Triton by wiremill's workers.

   One thread, one loop (net/wm_loop.h). What waits for a client, for memory or for scores is a
   callback; what computes for long does so a slice in each round (net/wm_slice.h).

   The way of an inference request:
   1. wm_acceptor.c accepts a connection; wm_grpc.c (nghttp2) or wm_http.c (wm_h1.h) reads it.
   2. A message takes its bytes of the budget (net/wm_budget.h) before it may come: wm_grpc_call.c,
      wm_http.c. A request that does not fit waits, and its client has no window until then.
   3. wm_grpc_method.c and wm_http_routes.c name the function of each method and path. Those of
      inference decode the request (wm_infer_proto.c, wm_infer_http.c) to one form, wm_infer_t,
      and take the memory of its answer.
   4. serving/wm_models.c finds a version that is ready, and serving/wm_gather.c puts the rows into
      a batch, which goes to that version's broker through a helper process (serving/wm_link.h).
   5. Scores come back the same way. The models call `reply` of the request's transport, which
      encodes the answer: gRPC sends values from where they lie, HTTP writes a page in slices.

   The first SIGTERM or Ctrl-C drains: no connection begins any more, those that wait to be accepted
   are, what was accepted is answered, and the process ends. The second one ends it now. SIGUSR1
   opens the access log again.  */
#include "producer/gateway/wm_grpc.h"
#include "producer/gateway/wm_http.h"
#include "producer/serving/wm_front.h"
#include "producer/serving/wm_models.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_systemd.h"
#include "schema/wm_limits.h"
#include "schema/wm_made.h"

#include <czmq.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#define DRAIN_LOOK_US 5000
#define BEGIN_LOOK_US 20000
#define SYSTEMD_US 500000
#define FLUSH_US 1000000

/* clang-format off */
static const wm_option_t options[] = {
    WM_MODELS_OPTIONS,
    {.name = "grpc", .value = "ADDRESS:PORT", .fallback = "127.0.0.1:8001", .task = "where",
     .help = "where it answers gRPC; *:8001: on every address; port 0: any that is free"},
    {.name = "http", .value = "ADDRESS:PORT", .fallback = "127.0.0.1:8000",
     .help = "where it answers HTTP/1.1, and shows its numbers at /metrics; none: not at all"},
    {.name = "reuse-port",
     .help = "another gateway may have the same ports: this one answers there once its models are "
             "loaded; then end the other one"},
    {.name = "tls-certificate", .value = "FILE", .path = WM_PATH_READ,
     .text = "a certificate in PEM",
     .help = "the server's certificate and those that vouch for it (PEM): both ports speak TLS"},
    {.name = "tls-key", .value = "FILE",
     .path = WM_PATH_READ, .text = "a key in PEM", .help = "the certificate's key (PEM)"},
    {.name = "tls-clients", .value = "FILE", .path = WM_PATH_READ, .text = "a certificate in PEM",
     .help = "admit only clients whose certificates these authorities (PEM) have signed"},
    {.name = "memory", .value = "BYTES", .least = 1 << 20, .most = 1L << 44, .task = "limits",
     .help = "requests and answers together hold at most so much; clients whose requests do not "
             "fit wait (default: an eighth of the memory, at most 4 GiB). Files of models that "
             "come with loads may have as much again, in the folder of --state"},
    {.name = "max-message", .value = "BYTES", .least = 1 << 10, .most = 1L << 40,
     .help = "largest request, and largest answer (default: a quarter of --memory)"},
    {.name = "max-connections", .value = "N", .least = 1, .most = 1 << 20, .fallback = "4096",
     .help = "of gRPC, and of HTTP; further clients wait"},
    {.name = "address-connections", .value = "N", .least = 1, .most = 1 << 20,
     .help = "of gRPC and HTTP together from one client address (of IPv6: network of 64 bits); "
             "further ones are closed (default: a quarter of --max-connections)"},
    {.name = "address-memory", .value = "PERCENT", .least = 1, .most = 100, .fallback = "50",
     .help = "of --memory, for requests and answers of one client address; of several less, so "
             "that some is left for others; 100: no limit, where a proxy sends all"},
    {.name = "shared-memory",
     .help = "clients on this machine may register files of /dev/shm that belong to the gateway's "
             "user, and have their tensors there; so may everybody who reaches a port"},
    {.name = "access-log", .value = "FILE",
     .path = WM_PATH_WRITTEN, .writes = &wm_made_access_log, .task = "what is noted",
     .help = "one line a request is appended to it; - is standard output; SIGUSR1 opens it again"},
    {.name = NULL},
};

static int gateway_main (const wm_args_t *args);
static const wm_verb_t verb_gateway = {
    .name = "gateway", .task = "serving",
    .summary = "answer clients of Triton, over gRPC and HTTP",
    .text =
    "  wiremill gateway --model emtrkmichel=ops/train/emtrkmichel.onnx\n"
    "  wiremill gateway --model-repository models/ --grpc '*:8001' --http '*:8000'\n\n"
    "It starts a broker and workers for each model and answers KServe's protocol, version 2, "
    "as Triton does. A worker or broker that dies is started again and what it had is "
    "computed again: clients only see that it took longer. It asks for no password: on "
    "another address than loopback each client that reaches it can use it, unless "
    "--tls-clients names authorities. Ctrl-C or SIGTERM answers what was accepted and ends "
    "it; a second one ends it at once.\n",
    .common = "model model-repository model-control-mode load-model broker join-file workers "
              "engine bulk grpc http tls-certificate tls-key memory access-log",
    .options = options, .run = gateway_main };
/* clang-format on */

typedef struct {
    wm_front_t front;
    wm_tls_t *tls[2]; /* of gRPC, of HTTP */
    wm_grpc_t *grpc;
    wm_http_t *http;
    int signals;
    bool is_draining;
    bool is_shared; /* it answers once its models are loaded: another gateway does until then */
    bool has_begun, has_loaded;
    bool ends_empty, is_empty; /* --exit-on-error; no model could be loaded, so that it ends */
} gateway_t;

/* ---- the end --------------------------------------------------------------------------------- */

static void look_drained (void *argument)
{
    gateway_t *self = argument;
    wm_loop_t *loop = self->front.loop;
    if (wm_grpc_open (self->grpc) || (self->http && wm_http_open (self->http)))
        wm_loop_timer (loop, wm_loop_now_us (loop) + DRAIN_LOOK_US, look_drained, self);
    else
        wm_loop_stop (loop);
}

static void on_signal (void *argument, uint32_t events)
{
    (void) events;
    gateway_t *self = argument;
    struct signalfd_siginfo info;
    if (read (self->signals, &info, sizeof info) != sizeof info)
        return;
    wm_error_t error;
    if (info.ssi_signo == SIGUSR1) {
        if (wm_front_open_access (&self->front, &error))
            fprintf (stderr, "wiremill gateway: %s; it goes on in the old file\n", error.text);
        return;
    }
    if (self->is_draining) {
        fprintf (stderr, "wiremill gateway: ends now; what is not answered is cancelled\n");
        wm_loop_stop (self->front.loop);
        return;
    }
    self->is_draining = true;
    fprintf (stderr, "wiremill gateway: answers what it has accepted, then ends; a second signal "
                     "ends it at once\n");
    wm_systemd_stops ();
    wm_grpc_drain (self->grpc);
    if (self->http)
        wm_http_drain (self->http);
    look_drained (self);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static wm_fault_t take_limits (wm_front_t *front, const wm_args_t *args, wm_error_t *error)
{
    size_t memory = wm_allowance_part (wm_allowance (), 8, UINT64_C (4) << 30);
    if (wm_args_given (args, "memory"))
        memory = (size_t) wm_args_number (args, "memory");
    front->message_max = memory / 4;
    if (wm_args_given (args, "max-message"))
        front->message_max = (size_t) wm_args_number (args, "max-message");
    if (front->message_max > memory / 2)
        return wm_fault (error, WM_EUSAGE,
                         "--max-message %zu is more than half of the memory, %zu "
                         "bytes: raise --memory",
                         front->message_max, memory);
    front->connections_max = (size_t) wm_args_number (args, "max-connections");
    const size_t connections = wm_args_given (args, "address-connections")
                                   ? (size_t) wm_args_number (args, "address-connections")
                                   : (front->connections_max + 3) / 4;
    front->addresses = wm_addresses_new (connections);
    const unsigned percent = (unsigned) wm_args_number (args, "address-memory");
    front->budget = wm_budget_new (front->loop, memory, memory / 400 * percent, percent);
    front->slices = wm_slices_new (front->loop);
    front->shared = wm_args_given (args, "shared-memory") ? wm_shared_new ("/dev/shm") : NULL;
    front->access_path = wm_args_text (args, "access-log");
    return wm_front_open_access (front, error);
}

/* As many descriptors as connections may need.  */
static void raise_descriptors (void)
{
    struct rlimit limit;
    if (getrlimit (RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit (RLIMIT_NOFILE, &limit);
    }
}

/* Takes a port: that which systemd has for it, or that of the command line. -1: *error.  */
static int listen_on (gateway_t *self, wm_front_kind_t kind, const wm_args_t *args,
                      char address[WM_TCP_ADDRESS_BYTES], wm_error_t *error)
{
    const char *name = kind == WM_FRONT_GRPC ? "grpc" : "http";
    const int inherited = wm_systemd_descriptor (name);
    const bool reuses = wm_args_given (args, "reuse-port");
    self->front.is_inherited[kind] = inherited >= 0;
    self->is_shared |= inherited >= 0 || reuses;
    return inherited >= 0 ? wm_io_inherit (inherited, address, error)
                          : wm_tcp_listen (wm_args_text (args, name), reuses, address, error);
}

/* Lets clients connect, where another gateway answers them once the models are loaded, or have
   failed. False: it cannot.  */
static bool begin (gateway_t *self)
{
    if (self->has_begun || self->is_draining ||
        (self->is_shared && wm_models_any_loading (self->front.models)))
        return true;
    self->has_begun = true;
    if (self->is_shared)
        fprintf (stderr, "wiremill gateway: answers clients from now on\n");
    return wm_grpc_begin (self->grpc) && (!self->http || wm_http_begin (self->http));
}

static void look_loaded (void *argument)
{
    gateway_t *self = argument;
    wm_loop_t *loop = self->front.loop;
    const wm_models_start_t is =
        self->ends_empty ? wm_models_started (self->front.models) : WM_MODELS_STARTED;
    self->has_loaded |= !wm_models_any_loading (self->front.models);
    if (is == WM_MODELS_FAILED && !self->is_draining) {
        fputs ("wiremill gateway: none of its models can be loaded, for the reasons above, so it "
               "ends; with --exit-on-error false it stays up without one\n",
               stderr);
        self->is_empty = true;
        wm_loop_stop (loop);
    } else if (!begin (self)) {
        fprintf (stderr, "wiremill gateway: cannot listen: %s\n", strerror (errno));
        wm_loop_stop (loop);
    } else if (!self->has_loaded || is == WM_MODELS_STARTING)
        wm_loop_timer (loop, wm_loop_now_us (loop) + BEGIN_LOOK_US, look_loaded, self);
}

/* systemd calls it started once it has loaded its models.  */
static void tell_systemd (void *argument)
{
    gateway_t *self = argument;
    wm_loop_t *loop = self->front.loop;
    const int64_t now_us = wm_loop_now_us (loop);
    wm_ks_error_t error = { .code = WM_KS_OK };
    const bool is_ready = wm_models_ready (self->front.models, &error);
    if (!self->is_draining && wm_systemd_is_due (now_us / 1000)) {
        if (self->has_loaded)
            wm_systemd_serves (is_ready ? "every model is ready" : error.text);
        else
            wm_systemd_status ("loads its models");
    }
    wm_loop_timer (loop, now_us + SYSTEMD_US, tell_systemd, self);
}

/* Opens both ports. `certificate` and `key` are both there or both NULL.  */
static wm_fault_t serve (gateway_t *self, const wm_args_t *args, wm_error_t *error)
{
    const char *certificate = wm_args_text (args, "tls-certificate");
    const char *key = wm_args_text (args, "tls-key"), *clients = wm_args_text (args, "tls-clients");
    const bool has_http = strcmp (wm_args_text (args, "http"), "none") != 0;
    char grpc[WM_TCP_ADDRESS_BYTES], http[WM_TCP_ADDRESS_BYTES] = "";
    if (!certificate != !key || (clients && !key))
        return wm_fault (error, WM_EUSAGE,
                         "give --tls-certificate and --tls-key together, or neither");
    for (wm_front_kind_t kind = WM_FRONT_GRPC; key && kind <= WM_FRONT_HTTP; kind++)
        if (!(self->tls[kind] =
                  wm_tls_new (certificate, key, clients, kind == WM_FRONT_GRPC, error)))
            return error->fault;
    const int at_grpc = listen_on (self, WM_FRONT_GRPC, args, grpc, error);
    if (at_grpc < 0)
        return error->fault;
    self->grpc = wm_grpc_new (&self->front, at_grpc, self->tls[WM_FRONT_GRPC], &wm_grpc_methods);
    if (has_http && clients)
        return wm_fault (error, WM_EUSAGE,
                         "--tls-clients: only gRPC checks certificates of "
                         "clients; give --http none too");
    if (has_http) {
        const int at_http = listen_on (self, WM_FRONT_HTTP, args, http, error);
        if (at_http < 0)
            return error->fault;
        self->http = wm_http_new (&self->front, at_http, self->tls[WM_FRONT_HTTP], &wm_http_routes);
    }
    if (!self->is_shared && !begin (self))
        return wm_fault (error, WM_EHOST, "cannot listen: %s", strerror (errno));
    fprintf (stderr, "wiremill gateway: gRPC on %s%s%s%s%s\n", grpc, has_http ? ", HTTP on " : "",
             http,
             !key       ? ""
             : has_http ? ", both by TLS"
                        : ", by TLS",
             self->is_shared ? ", once its models are loaded" : "");
    return WM_OK;
}

/* Lines of the access log are on disk within a second.  */
static void flush_access (void *argument)
{
    wm_front_t *front = argument;
    fflush (front->access);
    wm_loop_timer (front->loop, wm_loop_now_us (front->loop) + FLUSH_US, flush_access, front);
}

static void summarise_model (void *argument, const char *model, const char *version,
                             const wm_gather_counts_t *counts, uint32_t n_waiting, bool is_ready)
{
    (void) argument, (void) n_waiting, (void) is_ready;
    fprintf (stderr,
             "wiremill gateway: model '%s' version %s: requests: %llu scored (%llu patches, %llu "
             "of them NaN), %llu failed, %llu cancelled\n",
             model, version, (unsigned long long) counts->n_success,
             (unsigned long long) counts->n_row, (unsigned long long) counts->n_held,
             (unsigned long long) (counts->n_late + counts->n_fault + counts->n_other),
             (unsigned long long) counts->n_cancel);
}

/* What it did, when it has ended.  */
static void summarise (const wm_front_t *front, int64_t begun_us)
{
    uint64_t all = 0, good = 0;
    for (int kind = 0; kind < 2; kind++)
        for (wm_ks_code_t code = 0; code < WM_KS_CODES; code++) {
            all += front->requests[kind][code];
            good += code == WM_KS_OK ? front->requests[kind][code] : 0;
        }
    wm_models_counts (front->models, summarise_model, NULL);
    fprintf (stderr,
             "wiremill gateway: ended after %.1f s: %llu calls, %llu answered by an error; %.1f MB "
             "received, %.1f MB sent\n",
             (double) (wm_loop_now_us (front->loop) - begun_us) / 1e6, (unsigned long long) all,
             (unsigned long long) (all - good), (double) front->bytes_in / 1e6,
             (double) front->bytes_out / 1e6);
}

static int run (gateway_t *self)
{
    if (self->front.access)
        flush_access (&self->front);
    wm_loop_watch_t *watch =
        wm_loop_watch (self->front.loop, self->signals, EPOLLIN, on_signal, self);
    const int64_t begun_us = wm_loop_now_us (self->front.loop);
    const int rc = watch ? wm_loop_run (self->front.loop) : -1;
    summarise (&self->front, begun_us);
    if (rc)
        fprintf (stderr, "wiremill gateway: cannot wait for clients: %s\n", strerror (errno));
    wm_loop_unwatch (&watch);
    return rc ? WM_EXIT_FAILURE : self->is_empty ? WM_EXIT_INPUT : WM_EXIT_OK;
}

static int gateway_main (const wm_args_t *args)
{
    gateway_t self = { .signals = -1 };
    wm_error_t error = { 0 };
    sigset_t signals;
    zsys_handler_set (NULL); /* signals are ours */
    signal (SIGPIPE, SIG_IGN);
    sigemptyset (&signals);
    sigaddset (&signals, SIGTERM);
    sigaddset (&signals, SIGINT);
    sigaddset (&signals, SIGHUP); /* of a terminal that is closed */
    sigaddset (&signals, SIGUSR1);
    sigprocmask (SIG_BLOCK, &signals, NULL);
    wm_log_start ();
    wm_systemd_start ();
    raise_descriptors ();
    int code = WM_EXIT_FAILURE;
    self.signals = signalfd (-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    self.front.loop = wm_loop_new ();
    if (self.signals < 0 || !self.front.loop)
        wm_fault (&error, WM_EHOST, "the kernel gives no descriptors: %s", strerror (errno));
    else if (!take_limits (&self.front, args, &error) &&
             (self.front.models =
                  wm_models_new (self.front.loop, args, wm_budget_max (self.front.budget),
                                 self.front.message_max, &error)) &&
             wm_models_lacks_gpu (self.front.models))
        code = WM_EXIT_ENGINE;
    else if (self.front.models && !serve (&self, args, &error)) {
        wm_models_start (self.front.models);
        wm_poll_start (self.front.models);
        self.ends_empty = strcmp (wm_args_text (args, "exit-on-error"), "true") == 0;
        look_loaded (&self);
        tell_systemd (&self);
        code = run (&self);
    }
    if (error.fault) {
        fprintf (stderr, "wiremill gateway: %s\n", error.text);
        code = error.fault == WM_EUSAGE   ? WM_EXIT_USAGE
               : error.fault == WM_EBATCH ? WM_EXIT_INPUT
                                          : WM_EXIT_FAILURE;
    }
    wm_grpc_destroy (&self.grpc);
    wm_http_destroy (&self.http);
    wm_models_destroy (&self.front.models);
    wm_tls_destroy (&self.tls[WM_FRONT_GRPC]);
    wm_tls_destroy (&self.tls[WM_FRONT_HTTP]);
    wm_loop_destroy (&self.front.loop);
    wm_budget_destroy (&self.front.budget);
    wm_addresses_destroy (&self.front.addresses);
    wm_slices_destroy (&self.front.slices);
    wm_shared_destroy (&self.front.shared);
    if (self.front.access)
        fclose (self.front.access);
    if (self.signals >= 0)
        close (self.signals);
    return code;
}

static const wm_verb_t *const verbs[] = { &verb_gateway, NULL };

static const wm_program_t program = {
    .name = "wiremill-gateway",
    .version = WM_VERSION,
    .summary = "answers clients of Triton's inference protocol; wiremill starts it",
    .verbs = verbs,
};

int main (int argc, char **argv)
{
    return wm_program_run (&program, argc, argv);
}
