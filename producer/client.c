/* client.c - `wiremill-producer client`: the session that libwiremill has with a broker for
   clients. The library starts it (schema/session/wm_library.h), and it ends with the library's
   program.

   It keeps each batch until the broker has answered, so that a broker that was killed and started
   again gets what was not answered once more. Sessions follow each other: what the last one
   announced and did not answer is announced again in the next, in its old order.
   Frames are read and written whole: the library always reads, and a library that was stopped costs
   this process its session, no more.  */
#include "kernels/patch/wm_spec.h"
#include "producer/verbs.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_restart.h"
#include "schema/base/wm_table.h"
#include "schema/session/wm_client.h"
#include "schema/session/wm_join.h"
#include "schema/session/wm_library.h"
#include "schema/wm_defaults.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* clang-format off */
static const wm_option_t option_table[] = {
    {.name = "broker", .value = "ENDPOINT", .is_needed = true, .task = "what is sent where",
     .help = "the broker's base address: tcp://host:port or ipc:///path, or file://endpoint.json"},
    WM_JOIN_OPTION,
    {.name = "memory", .value = "FILE",
     .path = WM_PATH_READ, .help = "where the library shares patches"},
    {.name = "of", .value = "PID", .least = 1, .most = 1L << 30, .is_needed = true,
     .task = "when to end", .help = "the process that has the library"},
    {.name = "give-up", .value = "TIME", .fallback = WM_DEFAULT_PRODUCER_GIVE_UP, .real_least = 0.1,
     .help = "after so long without a broker"},
    {.name = NULL},
};

static int client_main (const wm_args_t *args);
const wm_verb_t wm_verb_client = {
    .program = "wiremill-producer", .name = "client",
    .summary = "a session of libwiremill, which starts it (wiremill_connect)",
    .text = "Reads patches from descriptor 3 and writes their scores there. Not for people.\n",
    .options = option_table, .run = client_main };
/* clang-format on */

#define NAP_MS 500
#define KEPT_BYTES (64 << 20) /* of memory that is free for now */

typedef struct batch_t {
    struct batch_t *prev, *next;
    uint64_t number;  /* the library's */
    uint32_t ordinal; /* the broker's */
    bool announced;   /* in this session */
    uint8_t digest[16];
    wm_batch_t batch; /* its own memory */
} batch_t;

typedef struct {
    const char *endpoint;
    int64_t give_up_ms;
    wm_client_t *client;
    wm_spec_t spec;
    uint8_t campaign[16], pins_digest[16];
    bool is_ready;                /* READY was sent */
    bool has_input;               /* the broker has answered INPUT in this session */
    wm_key_t input;               /* as it did */
    int owner;                    /* pidfd; -1: the kernel has none */
    bool is_over;                 /* the library is gone, or FAILED was sent */
    batch_t *first, *last, *next; /* not answered; the first not announced */
    size_t n_announced;
    uint32_t last_ordinal;
    wm_table_t by_ordinal;
    const uint8_t *memory; /* that the library shares; NULL: none */
    size_t memory_bytes;
    wm_coder_t *coder;
    uint8_t *frame; /* the last batch that was encoded, and which that is; NULL: answered */
    size_t frame_max, frame_bytes;
    const batch_t *encoded;
    bool waits;
} helper_t;

/* ---- frames ---------------------------------------------------------------------------------- */

static bool read_all (helper_t *self, void *to, size_t bytes)
{
    for (uint8_t *at = to; bytes && !self->is_over;) {
        const ssize_t n = read (WM_LIBRARY_FD, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            self->is_over = true;
        else
            at += n, bytes -= (size_t) n;
    }
    return !self->is_over;
}

static void tell (helper_t *self, wm_library_type_t type, uint64_t number, uint32_t n,
                  const void *data, size_t bytes)
{
    const wm_library_frame_t frame = { type, n, number, bytes };
    struct iovec part[2] = { { (void *) (uintptr_t) &frame, sizeof frame },
                             { (void *) (uintptr_t) data, bytes } };
    const struct msghdr message = { .msg_iov = part, .msg_iovlen = 2 };
    while (part[0].iov_len + part[1].iov_len && !self->is_over) {
        const ssize_t sent = sendmsg (WM_LIBRARY_FD, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            self->is_over = true;
        for (size_t i = 0, left = sent > 0 ? (size_t) sent : 0; i < 2; i++) {
            const size_t of_it = left < part[i].iov_len ? left : part[i].iov_len;
            part[i].iov_base = (uint8_t *) part[i].iov_base + of_it;
            part[i].iov_len -= of_it;
            left -= of_it;
        }
    }
}

static void give_up (helper_t *self, wm_fault_t fault, const char *text)
{
    if (!self->is_over)
        tell (self, WM_LIBRARY_FAILED, 0, fault, text, strlen (text));
    self->is_over = true;
}

/* ---- batches --------------------------------------------------------------------------------- */

static batch_t *batch_of (const helper_t *self, uint32_t ordinal)
{
    size_t at;
    return wm_table_first (&self->by_ordinal, wm_table_mix (ordinal), &at);
}

/* Whether a BATCH or SHARED of the library has the size of its rows, `bytes` where all are alike.
 */
static bool frame_fits (const helper_t *self, const wm_library_frame_t *frame, uint64_t bytes)
{
    const bool is_ragged = wm_pins_is_ragged (wm_client_pins (self->client));
    if (!frame->n)
        return false;
    if (frame->type == WM_LIBRARY_SHARED)
        return !is_ragged && frame->bytes == sizeof (uint64_t) && bytes <= self->memory_bytes;
    return frame->type == WM_LIBRARY_BATCH &&
           (is_ragged ? frame->n == 1 && frame->bytes >= sizeof (float) && frame->bytes <= bytes &&
                            frame->bytes % sizeof (float) == 0
                      : frame->bytes == bytes);
}

/* Where patches of so many bytes are that the library shares. NULL: the library is gone.  */
static float *shared_patches (helper_t *self, uint64_t bytes)
{
    uint64_t place;
    if (!read_all (self, &place, sizeof place))
        return NULL;
    if (place <= self->memory_bytes - bytes && place % sizeof (float) == 0)
        return (float *) (uintptr_t) (self->memory + place);
    give_up (self, WM_EHOST, "libwiremill shares patches outside its memory");
    return NULL;
}

/* Whether a result of n patches has the size of theirs.  */
static bool result_fits (const helper_t *self, uint32_t n, size_t bytes)
{
    const wm_pins_t *pins = wm_client_pins (self->client);
    const size_t most = wm_result_bytes (n, pins->n_output);
    return wm_pins_is_ragged (pins) ? bytes <= most && bytes % sizeof (float) == 1 : bytes == most;
}

/* Takes a BATCH or SHARED of the library.  */
static void take_batch (helper_t *self)
{
    wm_library_frame_t frame;
    wm_error_t error;
    if (!read_all (self, &frame, sizeof frame))
        return;
    const uint64_t bytes =
        (uint64_t) frame.n * wm_client_pins (self->client)->n_value * sizeof (float);
    const bool is_shared = frame.type == WM_LIBRARY_SHARED;
    batch_t *batch = wm_table_reserve (&self->by_ordinal) ? NULL : calloc (1, sizeof *batch);
    if (!batch || !frame_fits (self, &frame, bytes)) {
        free (batch);
        give_up (self, WM_EHOST,
                 batch ? "libwiremill sent an invalid frame to its helper"
                       : "no memory in the helper of libwiremill");
        return;
    }
    batch->number = frame.number;
    batch->batch.kind = WM_BATCH_PATCHES;
    batch->batch.n_hit = frame.n;
    batch->batch.patch_values =
        (uint32_t) ((is_shared ? bytes : frame.bytes) / frame.n / sizeof (float));
    if (is_shared)
        batch->batch.patch = shared_patches (self, bytes);
    else if (wm_batch_reserve (&batch->batch, &error)) {
        free (batch);
        give_up (self, error.fault, error.text);
        return;
    }
    if (is_shared ? !batch->batch.patch : !read_all (self, batch->batch.patch, frame.bytes)) {
        wm_batch_clear (&batch->batch);
        free (batch);
        return;
    }
    wm_batch_digest (&batch->batch, self->pins_digest, batch->digest);
    do
        batch->ordinal = self->last_ordinal++;
    while (batch->ordinal == UINT32_MAX || batch_of (self, batch->ordinal));
    wm_table_put (&self->by_ordinal, wm_table_mix (batch->ordinal), batch);
    batch->prev = self->last;
    *(self->last ? &self->last->next : &self->first) = batch;
    self->last = batch;
    if (!self->next)
        self->next = batch;
}

/* It is answered.  */
static void drop (helper_t *self, batch_t *batch)
{
    wm_table_remove (&self->by_ordinal, wm_table_mix (batch->ordinal), batch);
    self->n_announced -= batch->announced;
    if (self->next == batch)
        self->next = batch->next;
    if (self->encoded == batch)
        self->encoded = NULL;
    *(batch->prev ? &batch->prev->next : &self->first) = batch->next;
    *(batch->next ? &batch->next->prev : &self->last) = batch->prev;
    wm_batch_clear (&batch->batch);
    free (batch);
}

static wm_key_t key_of (const helper_t *self, const batch_t *batch)
{
    wm_key_t key = self->input;
    key.ordinal = batch->ordinal;
    return key;
}

static void encode (helper_t *self, const batch_t *batch)
{
    wm_error_t error;
    const size_t most = wm_batch_encode_bound (&batch->batch);
    self->encoded = NULL;
    if (most > self->frame_max) {
        free (self->frame);
        self->frame = malloc (most);
        self->frame_max = self->frame ? most : 0;
    }
    if (!self->frame)
        give_up (self, WM_EHOST, "no memory in the helper of libwiremill");
    else if (wm_batch_encode (&batch->batch, self->coder, self->frame, self->frame_max,
                              &self->frame_bytes, &error))
        give_up (self, error.fault, error.text);
    else
        self->encoded = batch;
}

/* Announces what the broker allows. A batch that has the broker to itself is encoded meanwhile.  */
static void announce (helper_t *self)
{
    while (self->has_input && self->next && self->n_announced < WM_OPEN_EVENTS_MAX) {
        batch_t *batch = self->next;
        wm_msg_t msg;
        wm_manifest_batch_t line = { .n_hit = batch->batch.n_hit,
                                     .raw_bytes = (uint32_t) wm_batch_raw_bytes (&batch->batch) };
        memcpy (line.digest, batch->digest, sizeof line.digest);
        wm_msg_init (&msg, WM_MSG_SUBMIT);
        msg.key = key_of (self, batch);
        msg.event = batch->ordinal;
        msg.n_batch = 1;
        msg.n_hit = batch->batch.n_hit;
        if (wm_client_send (self->client, &msg, &line, sizeof line))
            return; /* the session has ended */
        batch->announced = true;
        self->next = batch->next;
        if (++self->n_announced == 1)
            encode (self, batch);
    }
}

/* ---- messages of the broker ------------------------------------------------------------------ */

static void on_need (helper_t *self, const wm_msg_t *msg)
{
    const batch_t *batch = batch_of (self, msg->key.ordinal);
    wm_msg_t answer;
    if (!batch || !batch->announced)
        return;
    if (self->encoded != batch)
        encode (self, batch);
    if (!self->encoded)
        return;
    wm_msg_init (&answer, WM_MSG_BATCH);
    answer.key = key_of (self, batch);
    memcpy (answer.digest, batch->digest, sizeof answer.digest);
    wm_client_send (self->client, &answer, self->frame, self->frame_bytes);
}

static void on_results (helper_t *self, const wm_msg_t *msg)
{
    size_t bytes;
    const uint8_t *data = wm_client_payload (self->client, &bytes);
    batch_t *batch = batch_of (self, msg->key.ordinal);
    if (!batch || !batch->announced || memcmp (batch->digest, msg->digest, sizeof msg->digest))
        return;
    const uint32_t n = batch->batch.n_hit;
    if (msg->code)
        tell (self, WM_LIBRARY_HELD, batch->number, n, msg->text, strlen (msg->text));
    else if (result_fits (self, n, bytes))
        tell (self, WM_LIBRARY_RESULT, batch->number, n, data, bytes);
    else {
        give_up (self, WM_EHOST, "the broker sent a result of another size than was asked for");
        return;
    }
    drop (self, batch);
}

static void on_message (helper_t *self)
{
    const wm_msg_t *msg = wm_client_msg (self->client);
    switch (msg->type) {
    case WM_MSG_INPUT_ACK:
        if (msg->code != WM_INPUT_CLAIMED) {
            give_up (self, WM_EHOST, "the broker does not take patches of clients");
            return;
        }
        self->input = (wm_key_t){ .input = msg->key.input, .generation = msg->key.generation };
        self->has_input = true;
        return;
    case WM_MSG_NEED:
        on_need (self, msg);
        return;
    case WM_MSG_RESULTS:
        on_results (self, msg);
        return;
    default: /* SUBMIT_ACK, DRAIN */
        return;
    }
}

/* ---- sessions -------------------------------------------------------------------------------- */

static bool owner_is_gone (const helper_t *self)
{
    struct pollfd item = { .fd = self->owner, .events = POLLIN };
    return self->owner >= 0 && poll (&item, 1, 0) > 0;
}

/* Waits; ends at once where the library is gone.  */
static void nap (helper_t *self, int64_t ms)
{
    struct pollfd items[2] = { { .fd = WM_LIBRARY_FD, .events = POLLRDHUP },
                               { .fd = self->owner, .events = POLLIN } };
    if (poll (items, 2, (int) ms) > 0)
        self->is_over = true;
}

/* What the library reports to its program about the model.  */
static void send_ready (helper_t *self)
{
    const wm_pins_t *pins = wm_client_pins (self->client);
    wm_library_facts_t facts = { .n_value = pins->n_value,
                                 .n_output = pins->n_output,
                                 .is_ragged = wm_pins_is_ragged (pins),
                                 .is_exact = *pins->types != 0 };
    const uint32_t n_label = pins->n_output <= WM_OUTPUTS_MAX ? pins->n_output : 0;
    const size_t bytes = sizeof facts + (size_t) n_label * WM_LIBRARY_LABEL_BYTES;
    uint8_t *body = calloc (1, bytes);
    if (!body) {
        give_up (self, WM_EHOST, "no memory in the helper of libwiremill");
        return;
    }
    memcpy (facts.model, pins->model, sizeof facts.model);
    for (const char *at = wm_client_shape (self->client); *at;) {
        char *end;
        const unsigned long dim = strtoul (at, &end, 10);
        if (end == at || facts.n_dim == WM_LIBRARY_DIMS_MAX)
            break;
        if (dim > 1)
            facts.dim[facts.n_dim++] = (uint32_t) dim;
        at = *end ? end + 1 : end;
    }
    if (!facts.n_dim)
        facts.dim[facts.n_dim++] = facts.n_value;
    memcpy (body, &facts, sizeof facts);
    for (uint32_t i = 0; i < n_label; i++) {
        char *label = (char *) body + sizeof facts + (size_t) i * WM_LIBRARY_LABEL_BYTES;
        if (i < self->spec.n_label)
            snprintf (label, WM_LIBRARY_LABEL_BYTES, "%s", self->spec.label[i]);
        else
            snprintf (label, WM_LIBRARY_LABEL_BYTES, "out_%u", i);
    }
    tell (self, WM_LIBRARY_READY, 0, 0, body, bytes);
    free (body);
    self->is_ready = true;
}

/* A session is open: the campaign is the one it was, and what was not answered is sent again.  */
static void session_begin (helper_t *self)
{
    const wm_pins_t *pins = wm_client_pins (self->client);
    wm_error_t error;
    if (strcmp (pins->serves, "clients") != 0) {
        give_up (self, WM_EUSAGE,
                 "the broker serves files, not clients: start one with wiremill broker --clients "
                 "--model FILE --campaign DIR");
        return;
    }
    if (!self->is_ready) {
        memcpy (self->pins_digest, wm_client_pins_digest (self->client), 16);
        if (wm_spec_parse (&self->spec, pins->spec, strlen (pins->spec), "the broker", &error)) {
            give_up (self, WM_EHOST, error.text);
            return;
        }
        send_ready (self);
    } else if (memcmp (self->pins_digest, wm_client_pins_digest (self->client), 16)) {
        give_up (self, WM_EHOST,
                 "another model is now at this broker's address: connect again to use it");
        return;
    }
    for (batch_t *batch = self->first; batch; batch = batch->next)
        batch->announced = false;
    self->next = self->first;
    self->n_announced = 0;
    self->has_input = false;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    snprintf (msg.name, sizeof msg.name, "client");
    snprintf (msg.path, sizeof msg.path, "client");
    wm_client_send (self->client, &msg, NULL, 0);
}

static void say_waits (helper_t *self, const char *text)
{
    if (self->is_ready && (*text || self->waits))
        tell (self, WM_LIBRARY_WAITS, 0, 0, text, strlen (text));
    self->waits = *text != 0;
}

/* Tries until a session is open, or give_up_ms have passed without a broker.  */
static void session_open (helper_t *self)
{
    const wm_times_t *times = wm_times ();
    const int64_t left_ms = self->give_up_ms - wm_client_silent_ms (self->client);
    const int64_t until_ms = wm_now_ms () + left_ms;
    const wm_restart_rule_t rule = { .first = times->backoff_ms, .most = times->backoff_max_ms };
    wm_restart_t tries = { .in_row = 0 };
    wm_error_t error = { .text = "" };
    if (left_ms <= 0) {
        give_up (self, WM_EHOST, wm_client_error (self->client)->text);
        return;
    }
    if (wm_client_reason (self->client) == WM_REASON_BUSY) { /* "try later" */
        say_waits (self, wm_client_error (self->client)->text);
        nap (self, wm_client_pause_ms (times->backoff_max_ms));
    }
    while (!self->is_over && !zsys_interrupted) {
        const int64_t rest_ms = until_ms - wm_now_ms ();
        const int64_t patience_ms = rest_ms < times->handshake_ms ? rest_ms : times->handshake_ms;
        const wm_fault_t fault =
            wm_client_open (self->client, NULL, 0, patience_ms > 1 ? patience_ms : 1, &error);
        if (fault == WM_OK) {
            self->waits = true; /* for the session that it lost, also where it has not told so */
            say_waits (self, "");
            session_begin (self);
            return;
        }
        wm_restart_failed (&tries, &rule, 0, false);
        if (fault != WM_EAGAIN || wm_now_ms () + tries.at >= until_ms) {
            give_up (self, fault == WM_EAGAIN ? WM_EHOST : fault, error.text);
            return;
        }
        say_waits (self, error.text);
        nap (self, wm_client_pause_ms (tries.at));
    }
}

/* The broker's reasons for which the same again would fail again.  */
static bool is_final (wm_reason_t reason)
{
    return reason == WM_REASON_PROTOCOL || reason == WM_REASON_ROLE || reason == WM_REASON_PINS ||
           reason == WM_REASON_DIGEST;
}

static void run (helper_t *self)
{
    while (!self->is_over && !zsys_interrupted) {
        if (!wm_client_is_open (self->client)) {
            if (is_final (wm_client_reason (self->client))) {
                give_up (self, WM_EHOST, wm_client_error (self->client)->text);
                return;
            }
            session_open (self);
            continue;
        }
        announce (self);
        switch (wm_client_wait (self->client, NAP_MS)) {
        case WM_CLIENT_MESSAGE:
            on_message (self);
            break;
        case WM_CLIENT_EXTRA:
            take_batch (self);
            break;
        default:
            break;
        }
        self->is_over |= owner_is_gone (self);
    }
}

/* ---- the process ----------------------------------------------------------------------------- */

static int client_main (const wm_args_t *args)
{
    static helper_t self;
    static const int fd = WM_LIBRARY_FD;
    wm_error_t error;
    char label[64], host[48] = "?";
    const pid_t of = (pid_t) wm_args_number (args, "of");
    const char *memory = wm_args_text (args, "memory");
    if (memory && wm_file_map (memory, SIZE_MAX, &self.memory, &self.memory_bytes, &error))
        return wm_args_refuse (args, "--memory %s", error.text);
    mallopt (M_MMAP_THRESHOLD, KEPT_BYTES / 2); /* messages of MBs come and go: their pages stay */
    mallopt (M_TRIM_THRESHOLD, KEPT_BYTES);
    close_range (fd + 1, ~0u, 0); /* what the program left open for others */
    int type;
    socklen_t type_bytes = sizeof type;
    if (getsockopt (fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) || type != SOCK_STREAM)
        return wm_args_refuse (args, "libwiremill starts this, with a socket as descriptor 3");
    self.owner = (int) syscall (SYS_pidfd_open, of, 0);
    if (self.owner < 0 && errno == ESRCH)
        return WM_EXIT_AGAIN;
    wm_process_name ("wm-client-start");
    const pid_t child = fork (); /* not the program's child: it need not wait for this process */
    if (child)
        return child > 0 ? WM_EXIT_OK : WM_EXIT_FAILURE;
    wm_process_name ("wm-client");
    self.give_up_ms = (int64_t) (wm_args_seconds (args, "give-up") * 1e3);
    self.endpoint = wm_args_text (args, "broker");
    if (wm_join_take (args, &error)) {
        give_up (&self, error.fault, error.text);
        return WM_EXIT_USAGE;
    }
    gethostname (host, sizeof host - 1);
    snprintf (label, sizeof label, "%.40s:%ld", host, (long) of);
    self.coder = wm_coder_new ();
    if (strncmp (self.endpoint, "ipc:", 4) == 0)
        wm_coder_stays_here (self.coder);
    self.client = wm_client_new (self.endpoint, WM_ROLE_PRODUCER, label, WM_VERSION, &fd);
    wm_client_silence (self.client, self.give_up_ms);
    run (&self);
    wm_client_close (self.client, WM_REASON_DONE, "the client has closed");
    wm_client_destroy (&self.client);
    while (self.first)
        drop (&self, self.first);
    wm_coder_destroy (&self.coder);
    free (self.by_ordinal.slot);
    free (self.frame);
    return WM_EXIT_OK;
}
