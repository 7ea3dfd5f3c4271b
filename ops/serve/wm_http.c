/* wm_http.c - see wm_http.h.

   libmicrohttpd's time-out starts again with each byte, so a connection that sends a byte every few
   seconds would stay open: the owner's sweep shuts down what is too old. A descriptor is in the
   table from the start of its connection until libmicrohttpd is about to close it.  */
#include "ops/serve/wm_http.h"
#include "ops/serve/wm_throttle.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_tcp.h"
#include "schema/wm_limits.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define IDLE_S 5 /* without a byte */
#define ADDRESS_BYTES 80
#define WAITING_MAX 512 /* connections, in the kernel */

struct wm_http_t {
    struct MHD_Daemon *daemon;
    const wm_http_page_t *pages;
    const wm_password_t *password; /* NULL: none */
    bool is_here;                  /* it listens on loopback, without a password */
    void *context;
    char address[ADDRESS_BYTES];
    wm_throttle_t throttle; /* of the server's thread */
    pthread_mutex_t mutex;  /* of what follows */
    struct {
        int fd; /* -1: free */
        int64_t since_ms;
    } connection[WM_HTTP_CONNECTIONS_MAX];
};

/* ---- connections ----------------------------------------------------------------------------- */

static void on_connection (void *context, struct MHD_Connection *connection, void **slot,
                           enum MHD_ConnectionNotificationCode code)
{
    wm_http_t *self = context;
    (void) slot;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info (connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const int fd = info ? info->connect_fd : -1,
              wanted = code == MHD_CONNECTION_NOTIFY_STARTED ? -1 : fd;
    pthread_mutex_lock (&self->mutex);
    for (size_t i = 0; i < WM_HTTP_CONNECTIONS_MAX; i++)
        if (self->connection[i].fd == wanted) {
            self->connection[i].fd = wanted == -1 ? fd : -1;
            self->connection[i].since_ms = wm_now_ms ();
            break;
        }
    pthread_mutex_unlock (&self->mutex);
}

void wm_http_sweep (wm_http_t *self)
{
    const int64_t now_ms = wm_now_ms ();
    size_t n = 0;
    pthread_mutex_lock (&self->mutex);
    for (size_t i = 0; i < WM_HTTP_CONNECTIONS_MAX; i++)
        n += self->connection[i].fd >= 0;
    const int64_t life_ms = n < WM_HTTP_CONNECTIONS_MAX ? WM_HTTP_LIFE_MS : WM_HTTP_CROWDED_MS;
    for (size_t i = 0; i < WM_HTTP_CONNECTIONS_MAX; i++)
        if (self->connection[i].fd >= 0 && now_ms - self->connection[i].since_ms > life_ms)
            shutdown (self->connection[i].fd, SHUT_RDWR);
    pthread_mutex_unlock (&self->mutex);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Takes the answer's text.  */
static enum MHD_Result answer (struct MHD_Connection *connection, const wm_http_answer_t *what,
                               const char *type)
{
    static const char strict[] = "default-src 'none'; frame-ancestors 'none'";
    struct MHD_Response *response =
        what->text
            ? MHD_create_response_from_buffer (what->bytes, what->text, MHD_RESPMEM_MUST_FREE)
            : NULL;
    if (!response) {
        free (what->text);
        return MHD_NO;
    }
    MHD_add_response_header (response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header (response, MHD_HTTP_HEADER_CONNECTION, "close");
    MHD_add_response_header (response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header (response, "Content-Security-Policy",
                             what->policy ? what->policy : strict);
    MHD_add_response_header (response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header (response, "Referrer-Policy", "no-referrer");
    if (what->code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header (response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (what->code == MHD_HTTP_TOO_MANY_REQUESTS)
        MHD_add_response_header (response, MHD_HTTP_HEADER_RETRY_AFTER, "1"); /* WM_THROTTLE_MS */
    if (what->code == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header (response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                 "Basic realm=\"wiremill\", charset=\"UTF-8\"");
    const enum MHD_Result result = MHD_queue_response (connection, what->code, response);
    MHD_destroy_response (response);
    return result;
}

static enum MHD_Result refuse (struct MHD_Connection *connection, unsigned code, const char *text)
{
    const wm_http_answer_t what = { .text = strdup (text), .bytes = strlen (text), .code = code };
    return answer (connection, &what, "text/plain; charset=utf-8");
}

/* Whether a header Host names this machine by number or as localhost; NULL: there was none.  */
static bool names_us (const char *host)
{
    char name[INET6_ADDRSTRLEN + 1];
    uint8_t number[sizeof (struct in6_addr)];
    if (!host)
        return true;
    const bool is_v6 = host[0] == '[';
    const size_t n = strcspn (host += is_v6, is_v6 ? "]" : ":");
    if (n >= sizeof name)
        return false;
    memcpy (name, host, n);
    name[n] = 0;
    return strcasecmp (name, "localhost") == 0 ||
           inet_pton (is_v6 ? AF_INET6 : AF_INET, name, number) == 1;
}

/* Checks the password of a request for a page that is not open. Returns 0 where it is right, else
   the code to answer. One without a password is no guess.  */
static unsigned check_password (wm_http_t *self, struct MHD_Connection *connection)
{
    const char *key = MHD_lookup_connection_value (connection, MHD_HEADER_KIND, "Authorization");
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info (connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!key || !info)
        return MHD_HTTP_UNAUTHORIZED;
    if (!wm_throttle_allows (&self->throttle, info->client_addr, wm_now_ms ()))
        return MHD_HTTP_TOO_MANY_REQUESTS;
    if (wm_password_is_in (self->password, key))
        return 0;
    wm_throttle_wrong (&self->throttle, info->client_addr, wm_now_ms ());
    return MHD_HTTP_UNAUTHORIZED;
}

static enum MHD_Result give (wm_http_t *self, struct MHD_Connection *connection,
                             const wm_http_page_t *page)
{
    const char *host = MHD_lookup_connection_value (connection, MHD_HEADER_KIND, "Host");
    wm_http_answer_t what = { .code = MHD_HTTP_OK };
    if (self->is_here && !names_us (host))
        return refuse (connection, MHD_HTTP_MISDIRECTED_REQUEST,
                       "this page has no other name than its address or localhost; under a name of "
                       "its own wiremill serve wants --password-file\n");
    const unsigned code = self->password && !page->is_open ? check_password (self, connection) : 0;
    if (code)
        return refuse (
            connection, code,
            code == MHD_HTTP_TOO_MANY_REQUESTS
                ? "too many wrong passwords came from this address: try again in a second\n"
                : "a password is needed, of any user name: ask who started wiremill serve\n");
    page->make (self->context, &what);
    return answer (connection, &what, page->type);
}

static enum MHD_Result on_request (void *context, struct MHD_Connection *connection,
                                   const char *url, const char *method, const char *version,
                                   const char *upload, size_t *upload_bytes, void **seen)
{
    wm_http_t *self = context;
    (void) version, (void) upload, (void) upload_bytes;
    if (strcmp (method, MHD_HTTP_METHOD_GET) != 0 && strcmp (method, MHD_HTTP_METHOD_HEAD) != 0)
        return refuse (connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    if (!*seen) { /* called for the headers, then again */
        *seen = self;
        return MHD_YES;
    }
    for (const wm_http_page_t *page = self->pages; page->path; page++)
        if (strcmp (page->path, url) == 0)
            return give (self, connection, page);
    return refuse (connection, MHD_HTTP_NOT_FOUND, "not found; the page is /\n");
}

/* ---- the server ------------------------------------------------------------------------------ */

typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address_t;

/* false: it is no "ADDRESS:PORT".  */
static bool parse (const char *text, address_t *address)
{
    char host[ADDRESS_BYTES];
    const char *colon = strrchr (text, ':');
    memset (address, 0, sizeof *address);
    const int port = colon ? wm_tcp_port (colon + 1, colon + strlen (colon)) : -1;
    if (port < 0 || (size_t) (colon - text) >= sizeof host)
        return false;
    snprintf (host, sizeof host, "%.*s", (int) (colon - text), text);
    const size_t n = strlen (host);
    if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = 0;
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons ((uint16_t) port);
        return inet_pton (AF_INET6, host + 1, &address->v6.sin6_addr) == 1;
    }
    address->v4.sin_family = AF_INET;
    address->v4.sin_port = htons ((uint16_t) port);
    return inet_pton (AF_INET, strcmp (host, "localhost") == 0 ? "127.0.0.1" : host,
                      &address->v4.sin_addr) == 1;
}

/* A listening socket, and its address as people write it. -1: errno.  */
static int listen_at (address_t *address, char text[ADDRESS_BYTES])
{
    char host[INET6_ADDRSTRLEN];
    const bool is_v6 = address->any.sa_family == AF_INET6;
    socklen_t size = is_v6 ? sizeof address->v6 : sizeof address->v4;
    const int fd = socket (address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    if (fd < 0)
        return -1;
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind (fd, &address->any, size) || listen (fd, WAITING_MAX) ||
        getsockname (fd, &address->any, &size)) {
        const int failed = errno;
        close (fd);
        errno = failed;
        return -1;
    }
    if (is_v6)
        snprintf (text, ADDRESS_BYTES, "[%s]:%u",
                  inet_ntop (AF_INET6, &address->v6.sin6_addr, host, sizeof host),
                  ntohs (address->v6.sin6_port));
    else
        snprintf (text, ADDRESS_BYTES, "%s:%u",
                  inet_ntop (AF_INET, &address->v4.sin_addr, host, sizeof host),
                  ntohs (address->v4.sin_port));
    return fd;
}

/* Whether only this machine reaches it.  */
static bool is_near (const address_t *address)
{
    char host[INET6_ADDRSTRLEN] = "", text[INET6_ADDRSTRLEN + 2];
    const bool is_v6 = address->any.sa_family == AF_INET6;
    inet_ntop (address->any.sa_family,
               is_v6 ? (const void *) &address->v6.sin6_addr : &address->v4.sin_addr, host,
               sizeof host);
    snprintf (text, sizeof text, is_v6 ? "[%s]" : "%s", host);
    return wm_address_is_loopback (text);
}

wm_http_t *wm_http_new (const wm_http_how_t *how, const wm_http_page_t *pages, void *context,
                        wm_error_t *error)
{
    address_t address;
    const char *listen_text = how->listen;
    if (!parse (listen_text, &address)) {
        wm_fault (error, WM_EUSAGE,
                  "--listen %.60s: give an address and a port, 127.0.0.1:9555; " WM_TCP_PORT_IS,
                  listen_text);
        return NULL;
    }
    if (!is_near (&address) && !how->password && !how->is_insecure) {
        wm_fault (error, WM_EUSAGE,
                  "--listen %.60s: whoever reaches this address could read the campaign's names "
                  "and numbers; give --password-file FILE, for which you type (umask 077; head -c "
                  "18 /dev/urandom | base64 >FILE), or --insecure if all of them may",
                  listen_text);
        return NULL;
    }
    wm_http_t *self = calloc (1, sizeof *self);
    assert (self);
    self->pages = pages;
    self->password = how->password;
    self->is_here = is_near (&address) && !how->password;
    self->context = context;
    pthread_mutex_init (&self->mutex, NULL);
    for (size_t i = 0; i < WM_HTTP_CONNECTIONS_MAX; i++)
        self->connection[i].fd = -1;
    const int fd = listen_at (&address, self->address);
    if (fd >= 0)
        self->daemon = MHD_start_daemon (
            MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, on_request, self,
            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned) WM_HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            (size_t) WM_HTTP_MEMORY_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) IDLE_S,
            MHD_OPTION_NOTIFY_CONNECTION, on_connection, self, MHD_OPTION_END);
    if (self->daemon)
        return self;
    wm_fault (error, WM_EHOST, "cannot listen at %.60s: %s; choose another --listen", listen_text,
              strerror (errno));
    if (fd >= 0)
        close (fd);
    wm_http_destroy (&self);
    return NULL;
}

void wm_http_destroy (wm_http_t **self_p)
{
    wm_http_t *self = *self_p;
    if (!self)
        return;
    if (self->daemon)
        MHD_stop_daemon (self->daemon);
    pthread_mutex_destroy (&self->mutex);
    free (self);
    *self_p = NULL;
}

const char *wm_http_address (const wm_http_t *self)
{
    return self->address;
}
