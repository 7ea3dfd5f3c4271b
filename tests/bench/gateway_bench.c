/* gateway_bench.c - how many requests a second a gateway answers: a client of gRPC that costs
   little, so that the gateway is what is measured.

   usage: gateway_bench ADDRESS:PORT MODEL INPUT ROWS DIM,DIM,... PATCHES.f4 IN_FLIGHT SECONDS

   One thread and one connection keep IN_FLIGHT requests of ROWS patches under way, each of the
   next patches of the file. The model's first answer is waited for. What is answered before half a
   second, at most a quarter of SECONDS, is not counted; twice IN_FLIGHT answers are, however long
   they take. Each answer must have gRPC's status 0 and the size of the first. Prints one point in
   the format of `wiremill bench --json`: requests and hits a second, latencies in milliseconds,
   this client's CPU time a request in microseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { IN_FLIGHT_MAX = 1024, IO_BYTES = 1 << 18, TIMES_MAX = 4000000, PATIENCE_S = 60 };
#define WINDOW (1 << 30)

/* A request under way.  */
typedef struct {
    const uint8_t *rows;
    size_t sent, got;
    int64_t begun_us;
    bool is_ok; /* its status is 0 */
} call_t;

static nghttp2_session *session;
static uint8_t head[1024]; /* of each request: all but the rows */
static size_t n_head, rows_bytes, n_chunk, next_chunk;
static uint8_t *patches;
static char model[256], status[16];
static size_t n_call, answer_bytes;
static uint32_t *times;
static size_t n_time;
static size_t least; /* answers to count */
static int64_t counts_from_us, ends_us, last_us;
static bool is_counted, is_over;

static void __attribute__ ((noreturn)) die (const char *text)
{
    fprintf (stderr, "gateway_bench: %s\n", text);
    exit (1);
}

static int64_t now_us (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static double cpu_us (void)
{
    struct rusage used;
    getrusage (RUSAGE_SELF, &used);
    return 1e6 * (double) (used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double) (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* ---- the message ----------------------------------------------------------------------------- */

static void put_varint (size_t number)
{
    for (; number > 127; number >>= 7)
        head[n_head++] = (uint8_t) (number | 128);
    head[n_head++] = (uint8_t) number;
}

static void put_bytes (unsigned tag, const void *data, size_t bytes)
{
    put_varint (tag << 3 | 2);
    put_varint (bytes);
    memcpy (head + n_head, data, bytes);
    n_head += bytes;
}

/* A ModelInferRequest up to the bytes of its only raw input, behind gRPC's five bytes.  */
static size_t write_head (const char *input, size_t rows, const char *dims)
{
    size_t n_value = 1;
    n_head = 0; /* the input: name, type, shape */
    put_bytes (1, input, strlen (input));
    put_bytes (2, "FP32", 4);
    put_varint (3 << 3), put_varint (rows);
    for (char *end; *dims; dims = *end ? end + 1 : end) {
        const unsigned long dim = strtoul (dims, &end, 10);
        if (end == dims || !dim)
            die ("DIM,DIM,... are positive numbers");
        put_varint (3 << 3), put_varint (dim);
        n_value *= dim;
    }
    uint8_t tensor[600];
    const size_t n_tensor = n_head;
    memcpy (tensor, head, n_tensor);
    n_head = 5;
    put_bytes (1, model, strlen (model));
    put_bytes (5, tensor, n_tensor);
    rows_bytes = rows * n_value * sizeof (float);
    put_varint (7 << 3 | 2);
    put_varint (rows_bytes);
    const size_t bytes = n_head - 5 + rows_bytes;
    const uint8_t prefix[5] = { 0, (uint8_t) (bytes >> 24), (uint8_t) (bytes >> 16),
                                (uint8_t) (bytes >> 8), (uint8_t) bytes };
    memcpy (head, prefix, sizeof prefix);
    return rows_bytes;
}

static void read_patches (const char *path)
{
    FILE *file = fopen (path, "rb");
    if (!file || fseek (file, 0, SEEK_END))
        die (path);
    n_chunk = (size_t) ftell (file) / rows_bytes;
    rewind (file);
    patches = malloc (n_chunk * rows_bytes + 1);
    if (!n_chunk || !patches || fread (patches, rows_bytes, n_chunk, file) != n_chunk)
        die ("the file has not the patches of one request");
    fclose (file);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static ssize_t read_request (nghttp2_session *s, int32_t stream, uint8_t *to, size_t max,
                             uint32_t *flags, nghttp2_data_source *source, void *argument)
{
    (void) s, (void) stream, (void) argument;
    call_t *call = source->ptr;
    size_t n = 0;
    if (call->sent < n_head) {
        n = n_head - call->sent < max ? n_head - call->sent : max;
        memcpy (to, head + call->sent, n);
        call->sent += n;
    }
    const size_t left = n_head + rows_bytes - call->sent, more = left < max - n ? left : max - n;
    if (call->sent >= n_head && more) {
        memcpy (to + n, call->rows + call->sent - n_head, more);
        call->sent += more;
        n += more;
    }
    if (call->sent == n_head + rows_bytes)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t) n;
}

static ssize_t frame_bytes (nghttp2_session *s, uint8_t type, int32_t stream, int32_t conn_window,
                            int32_t window, uint32_t frame_max, void *argument)
{
    (void) s, (void) type, (void) stream, (void) argument;
    int32_t n = conn_window < window ? conn_window : window;
    return n < (int32_t) frame_max ? n : (ssize_t) frame_max;
}

#define NV(name, value)                                                                            \
    {                                                                                              \
        (uint8_t *) (uintptr_t) (name), (uint8_t *) (uintptr_t) (value), strlen (name),            \
            strlen (value), NGHTTP2_NV_FLAG_NONE                                                   \
    }

static void begin_call (call_t *call)
{
    const nghttp2_nv headers[] = {
        NV (":method", "POST"),
        NV (":scheme", "http"),
        NV (":path", "/inference.GRPCInferenceService/ModelInfer"),
        NV (":authority", "gateway"),
        NV ("te", "trailers"),
        NV ("content-type", "application/grpc"),
    };
    *call =
        (call_t){ .rows = patches + (next_chunk++ % n_chunk) * rows_bytes, .begun_us = now_us () };
    const nghttp2_data_provider provider = { .source.ptr = call, .read_callback = read_request };
    if (nghttp2_submit_request (session, NULL, headers, sizeof headers / sizeof *headers, &provider,
                                call) < 0)
        die ("no further request can be made on this connection");
    n_call++;
}

static int on_header (nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                      size_t n_name, const uint8_t *value, size_t n_value, uint8_t flags,
                      void *argument)
{
    (void) flags, (void) argument;
    call_t *call = nghttp2_session_get_stream_user_data (s, frame->hd.stream_id);
    if (call && n_name == 11 && memcmp (name, "grpc-status", 11) == 0) {
        snprintf (status, sizeof status, "%.*s", (int) n_value, (const char *) value);
        call->is_ok = strcmp (status, "0") == 0;
    }
    return 0;
}

static int on_data (nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data,
                    size_t bytes, void *argument)
{
    (void) flags, (void) data, (void) argument;
    call_t *call = nghttp2_session_get_stream_user_data (s, stream);
    if (call)
        call->got += bytes;
    return 0;
}

static int on_close (nghttp2_session *s, int32_t stream, uint32_t code, void *argument)
{
    (void) code, (void) argument;
    call_t *call = nghttp2_session_get_stream_user_data (s, stream);
    const int64_t now = now_us ();
    if (!call)
        return 0;
    n_call--;
    if (is_counted && !call->is_ok)
        die (*status ? status : "an answer has no status");
    if (is_counted && call->got != answer_bytes)
        die ("an answer has another size than the first");
    if (!is_counted) { /* the first one, by which the model is ready */
        answer_bytes = call->is_ok ? call->got : 0;
        return 0;
    }
    if (now >= counts_from_us && !is_over && n_time < TIMES_MAX) {
        times[n_time++] = (uint32_t) (now - call->begun_us);
        last_us = now;
    }
    is_over |= now >= ends_us && n_time >= least;
    if (!is_over)
        begin_call (call);
    return 0;
}

/* ---- the connection -------------------------------------------------------------------------- */

static int connect_to (const char *address)
{
    char host[64];
    const char *colon = strrchr (address, ':');
    struct sockaddr_in to = { .sin_family = AF_INET };
    const int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (!colon || fd < 0)
        die ("ADDRESS:PORT is an IPv4 address and a port");
    snprintf (host, sizeof host, "%.*s", (int) (colon - address), address);
    to.sin_port = htons ((uint16_t) atoi (colon + 1));
    if (inet_pton (AF_INET, host, &to.sin_addr) != 1 ||
        connect (fd, (struct sockaddr *) &to, sizeof to))
        die ("nothing answers at this address");
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

static void open_session (void)
{
    nghttp2_session_callbacks *callbacks;
    const nghttp2_settings_entry settings = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW };
    if (nghttp2_session_callbacks_new (&callbacks))
        die ("no memory");
    nghttp2_session_callbacks_set_on_header_callback (callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback (callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback (callbacks, on_close);
    nghttp2_session_callbacks_set_data_source_read_length_callback (callbacks, frame_bytes);
    if (nghttp2_session_client_new (&session, callbacks, NULL))
        die ("no memory");
    nghttp2_session_callbacks_del (callbacks);
    nghttp2_submit_settings (session, NGHTTP2_FLAG_NONE, &settings, 1);
    nghttp2_session_set_local_window_size (session, NGHTTP2_FLAG_NONE, 0, WINDOW);
}

/* Reads and writes until no call is under way.  */
static void run_calls (int fd)
{
    static uint8_t in[IO_BYTES];
    static const uint8_t *out;
    static ssize_t n_out;
    while (n_call) {
        bool is_blocked = false;
        for (;;) {
            if (!n_out && (n_out = nghttp2_session_mem_send (session, &out)) < 0)
                die ("the session cannot send");
            if (!n_out)
                break;
            const ssize_t n = send (fd, out, (size_t) n_out, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN)
                die ("the connection has ended");
            if ((is_blocked = n < 0))
                break;
            out += n, n_out -= n;
        }
        struct pollfd one = { .fd = fd, .events = (short) (POLLIN | (is_blocked ? POLLOUT : 0)) };
        if (poll (&one, 1, PATIENCE_S * 1000) <= 0)
            die ("no answer has come for a minute");
        if (!(one.revents & ~POLLOUT))
            continue;
        const ssize_t n = recv (fd, in, sizeof in, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN) ||
            (n > 0 && nghttp2_session_mem_recv (session, in, (size_t) n) < 0))
            die ("the connection has ended");
    }
}

static int compare (const void *one, const void *other)
{
    const uint32_t a = *(const uint32_t *) one, b = *(const uint32_t *) other;
    return (a > b) - (a < b);
}

int main (int argc, char **argv)
{
    static call_t calls[IN_FLIGHT_MAX];
    if (argc != 9)
        die ("usage: gateway_bench ADDRESS:PORT MODEL INPUT ROWS DIM,DIM,... PATCHES.f4 IN_FLIGHT "
             "SECONDS");
    const long rows = atol (argv[4]), in_flight = atol (argv[7]);
    const double seconds = atof (argv[8]);
    if (rows < 1 || rows > 1 << 20 || in_flight < 1 || in_flight > IN_FLIGHT_MAX || seconds <= 0 ||
        strlen (argv[2]) >= sizeof model || strlen (argv[3]) > 255)
        die ("ROWS, IN_FLIGHT (up to 1024) and SECONDS are positive");
    snprintf (model, sizeof model, "%s", argv[2]);
    write_head (argv[3], (size_t) rows, argv[5]);
    read_patches (argv[6]);
    times = malloc (TIMES_MAX * sizeof *times);
    if (!times)
        die ("no memory");
    const int fd = connect_to (argv[1]);
    open_session ();
    for (int tries = 0; !answer_bytes; tries++) {
        if (tries)
            usleep (100000);
        if (tries == PATIENCE_S * 10)
            die ("the model does not become ready");
        begin_call (calls);
        run_calls (fd);
    }
    is_counted = true;
    const double cpu_before = cpu_us (), warm_s = seconds < 2 ? seconds / 4 : 0.5;
    const int64_t begun_us = now_us ();
    const size_t before = next_chunk;
    counts_from_us = begun_us + (int64_t) (1e6 * warm_s);
    ends_us = begun_us + (int64_t) (1e6 * seconds);
    least = 2 * (size_t) in_flight;
    for (long i = 0; i < in_flight; i++)
        begin_call (&calls[i]);
    run_calls (fd);
    qsort (times, n_time, sizeof *times, compare);
    const double counted_s = 1e-6 * (double) (last_us - counts_from_us);
    printf (
        "{\"schema\": \"wiremill-bench-1\", \"points\": [{\"bench\": \"gateway\", \"rows\": %ld, "
        "\"in_flight\": %ld, \"requests\": %zu, \"requests_s\": %.1f, "
        "\"hits_s\": %.1f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"cpu_client_us\": %.1f}]}\n",
        rows, in_flight, next_chunk - before, (double) n_time / counted_s,
        (double) (n_time * (size_t) rows) / counted_s, times[n_time / 2] / 1e3,
        times[n_time - 1 - n_time / 100] / 1e3,
        (cpu_us () - cpu_before) / (double) (next_chunk - before));
    nghttp2_session_del (session);
    close (fd);
    free (patches);
    free (times);
    return 0;
}
