/* wm_web.c - see wm_web.h.

   One thread polls the listener, while a place is free, and all connections. A connection has one
   request: its head and body are read (schema/base/wm_h1.h refuses what is wrong with them), the
   body is dropped, the answer is sent. Then it is read until the client closes it, or has sent
   LINGER_BYTES_MAX: the kernel would reset a connection that is closed with bytes unread, and the
   client would lose the answer.  */
#include "ops/serve/wm_web.h"
#include "ops/serve/wm_throttle.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_h1.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_tcp.h"
#include "schema/wm_limits.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAITING_MAX 512            /* connections, in the kernel */
#define BODY_BYTES_MAX (64u << 10) /* of a request that is answered otherwise */
#define LINGER_BYTES_MAX (1u << 20)
#define SWEEP_MS 100
#define REST_MS 100 /* where no connection can be accepted */
#define IN_BYTES (16u << 10)
#define OUT_BYTES_MAX (64u << 20) /* of all answers that are under way */

typedef struct {
    int fd; /* -1: free */
    int64_t since_ms;
    struct sockaddr_storage from;
    size_t body; /* bytes of the request's that have come */
    bool lingers;
    size_t dropped;         /* ... of bytes that come behind the answer */
    size_t sent, out_bytes; /* of `out`; 0: there is no answer yet */
    char *out;
    wm_h1_t *h1;
} place_t;

struct wm_webserver_t {
    int listener, wakeup;
    pthread_t thread;
    bool is_started;
    const wm_http_page_t *pages;
    const wm_password_t *password; /* NULL: none */
    bool is_here;                  /* it listens on loopback, without a password */
    void *context;
    char address[WM_TCP_ADDRESS_BYTES];
    /* Of the thread.  */
    int64_t rests_until_ms; /* nothing is accepted before */
    wm_throttle_t throttle;
    place_t place[WM_HTTP_CONNECTIONS_MAX];
};

/* ---- answers --------------------------------------------------------------------------------- */

/* Takes the answer's text; without memory for it the connection ends.  */
static void answer (place_t *self, wm_http_answer_t *what)
{
    static const char strict[] = "default-src 'none'; frame-ancestors 'none'";
    char fields[1024], head[WM_H1_ANSWER_BYTES];
    const bool is_head = self->h1->method && strcmp (self->h1->method, "HEAD") == 0;
    const int n = snprintf (
        fields, sizeof fields,
        "Content-Type: %s\r\nCache-Control: no-store\r\nContent-Security-Policy: %s\r\n"
        "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n%s",
        what->type, what->policy ? what->policy : strict,
        what->code == 405   ? "Allow: GET, HEAD\r\n"
        : what->code == 429 ? "Retry-After: 1\r\n" /* WM_THROTTLE_MS */
        : what->code == 401 ? "WWW-Authenticate: Basic realm=\"wiremill\", charset=\"UTF-8\"\r\n"
                            : "");
    assert (n > 0 && (size_t) n < sizeof fields);
    const size_t top = wm_h1_answer (self->h1, head, what->code, what->bytes, false, fields),
                 bytes = is_head ? 0 : what->bytes;
    self->out = what->text ? malloc (top + bytes) : NULL;
    self->out_bytes = top + bytes;
    if (self->out) {
        memcpy (self->out, head, top);
        memcpy (self->out + top, what->text, bytes);
    }
    free (what->text);
}

static void refuse (place_t *self, unsigned code, const char *text)
{
    wm_http_answer_t what = { .text = strdup (text),
                              .bytes = strlen (text),
                              .code = code,
                              .type = "text/plain; charset=utf-8" };
    answer (self, &what);
}

/* Whether the request's host is this machine by number or is localhost; NULL: none is given.  */
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
static unsigned check_password (wm_webserver_t *self, const place_t *place)
{
    const char *key = wm_h1_field (place->h1, "Authorization");
    const struct sockaddr *from = (const void *) &place->from;
    if (!key)
        return 401;
    if (!wm_throttle_allows (&self->throttle, from, wm_now_ms ()))
        return 429;
    if (wm_password_is_in (self->password, key))
        return 0;
    wm_throttle_wrong (&self->throttle, from, wm_now_ms ());
    return 401;
}

static void give (wm_webserver_t *self, place_t *place, const wm_http_page_t *page)
{
    wm_http_answer_t what = { .code = 200, .type = page->type };
    const wm_http_request_t request = { place->h1->path, place->h1->query };
    if (self->is_here && !names_us (place->h1->host)) {
        refuse (place, 421,
                "this page has no other name than its address or localhost; under a name of its "
                "own wiremill serve wants --password-file\n");
        return;
    }
    const unsigned code = self->password && !page->is_open ? check_password (self, place) : 0;
    if (code) {
        refuse (place, code,
                code == 429
                    ? "too many wrong passwords came from this address: try again in a second\n"
                    : "a password is needed, of any user name: ask who started wiremill serve\n");
        return;
    }
    page->make (self->context, &request, &what);
    size_t all = what.bytes;
    for (const place_t *at = self->place; at < &self->place[WM_HTTP_CONNECTIONS_MAX]; at++)
        all += at->out_bytes;
    if (all > OUT_BYTES_MAX) {
        free (what.text);
        refuse (place, 503, "too many long answers are under way: try again\n");
    } else
        answer (place, &what);
}

static bool is_at (const char *of_page, const char *path)
{
    const size_t n = strcspn (of_page, "*");
    return of_page[n] ? strncmp (of_page, path, n) == 0 : strcmp (of_page, path) == 0;
}

static void route (wm_webserver_t *self, place_t *place)
{
    for (const wm_http_page_t *page = self->pages; page->path; page++)
        if (is_at (page->path, place->h1->path)) {
            give (self, place, page);
            return;
        }
    refuse (place, 404, "not found; the page is /\n");
}

/* ---- connections ----------------------------------------------------------------------------- */

static void look (wm_webserver_t *self, place_t *place)
{
    const wm_h1_t *h1 = place->h1;
    const bool is_read = h1->state == WM_H1_BODY || h1->state == WM_H1_END;
    if (h1->state == WM_H1_REFUSED) {
        char why[160];
        snprintf (why, sizeof why, "%s\n", h1->why);
        refuse (place, h1->code, why);
    } else if (is_read && strcmp (h1->method, "GET") != 0 && strcmp (h1->method, "HEAD") != 0)
        refuse (place, 405, "only GET and HEAD\n");
    else if (is_read && (place->body > BODY_BYTES_MAX || h1->length > BODY_BYTES_MAX))
        refuse (place, 413, "a request needs no body here\n");
    else if (h1->state == WM_H1_END)
        route (self, place);
}

/* False: the connection has ended.  */
static bool receive (wm_webserver_t *self, place_t *place)
{
    uint8_t data[IN_BYTES];
    const ssize_t n = recv (place->fd, data, sizeof data, MSG_DONTWAIT);
    size_t body;
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    if (place->lingers)
        return (place->dropped += (size_t) n) <= LINGER_BYTES_MAX;
    for (size_t at = 0; at < (size_t) n && !place->out_bytes; place->body += body) {
        at += wm_h1_read (place->h1, data + at, (size_t) n - at, &body);
        look (self, place);
    }
    return !place->out_bytes || place->out;
}

/* False: the connection has ended.  */
static bool give_out (place_t *self)
{
    const ssize_t n = send (self->fd, self->out + self->sent, self->out_bytes - self->sent,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    self->sent += (size_t) n;
    if (self->sent < self->out_bytes)
        return true;
    self->lingers = true;
    return shutdown (self->fd, SHUT_WR) == 0;
}

static void leave (place_t *self)
{
    close (self->fd);
    free (self->out);
    free (self->h1);
    *self = (place_t){ .fd = -1 };
}

static void enter (wm_webserver_t *self, place_t *place)
{
    socklen_t size = sizeof place->from;
    place->fd = accept4 (self->listener, (struct sockaddr *) (void *) &place->from, &size,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (place->fd < 0) {
        const bool is_gone = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
        self->rests_until_ms = is_gone ? 0 : wm_now_ms () + REST_MS; /* no descriptor is free */
        return;
    }
    place->since_ms = wm_now_ms ();
    place->h1 = calloc (1, sizeof *place->h1);
    if (!place->h1)
        leave (place);
}

/* Ends connections that have used up their time. What a client has taken gives it more.  */
static void sweep (wm_webserver_t *self, bool is_crowded)
{
    const int64_t now_ms = wm_now_ms (),
                  life_ms = is_crowded ? WM_HTTP_CROWDED_MS : WM_HTTP_LIFE_MS;
    for (place_t *place = self->place; place < &self->place[WM_HTTP_CONNECTIONS_MAX]; place++) {
        const int64_t more_ms =
            (int64_t) place->sent / (is_crowded ? WM_HTTP_CROWDED_BYTES_MS : WM_HTTP_BYTES_MS);
        if (place->fd >= 0 && now_ms - place->since_ms > life_ms + more_ms)
            leave (place);
    }
}

static void *run (void *argument)
{
    wm_webserver_t *self = argument;
    for (;;) {
        struct pollfd ready[WM_HTTP_CONNECTIONS_MAX + 2] = { { self->wakeup, POLLIN, 0 } };
        place_t *of[WM_HTTP_CONNECTIONS_MAX], *free_place = NULL;
        nfds_t n = 2;
        for (place_t *place = self->place; place < &self->place[WM_HTTP_CONNECTIONS_MAX]; place++) {
            if (place->fd < 0) {
                free_place = place;
                continue;
            }
            of[n - 2] = place;
            const short events = place->out_bytes && !place->lingers ? POLLOUT : POLLIN;
            ready[n++] = (struct pollfd){ place->fd, events, 0 };
        }
        const bool rests = wm_now_ms () < self->rests_until_ms;
        ready[1] = (struct pollfd){ free_place && !rests ? self->listener : -1, POLLIN, 0 };
        poll (ready, n, n > 2 || rests ? SWEEP_MS : -1);
        if (ready[0].revents)
            return NULL;
        for (nfds_t i = 2; i < n; i++)
            if (ready[i].revents &&
                !(ready[i].events == POLLOUT ? give_out (of[i - 2]) : receive (self, of[i - 2])))
                leave (of[i - 2]);
        if (ready[1].revents)
            enter (self, free_place);
        sweep (self, n == WM_HTTP_CONNECTIONS_MAX + 2);
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Whether only this machine reaches an ADDRESS:PORT.  */
static bool is_near (const char *address)
{
    char host[WM_TCP_ADDRESS_BYTES];
    snprintf (host, sizeof host, "%.*s", (int) (strrchr (address, ':') - address), address);
    return wm_address_is_loopback (host);
}

/* Starts the thread. False: errno.  */
static bool start (wm_webserver_t *self)
{
    errno = wm_process_thread (&self->thread, run, self);
    self->is_started = !errno;
    return self->is_started;
}

wm_webserver_t *wm_http_new (const wm_http_how_t *how, const wm_http_page_t *pages, void *context,
                             wm_error_t *error)
{
    char address[WM_TCP_ADDRESS_BYTES];
    wm_error_t why;
    const int listener = wm_tcp_listen (how->listen, false, address, &why);
    if (listener < 0) {
        wm_fault (error, why.fault, "--listen: %s", why.text);
        return NULL;
    }
    const bool near = is_near (address);
    if (!near && !how->password && !how->is_insecure) {
        wm_fault (error, WM_EUSAGE,
                  "--listen %.60s: whoever reaches this address could read the campaign's names "
                  "and numbers; give --password-file FILE, for which you type (umask 077; head -c "
                  "18 /dev/urandom | base64 >FILE), or --insecure if all of them may",
                  how->listen);
        close (listener);
        return NULL;
    }
    wm_webserver_t *self = calloc (1, sizeof *self);
    assert (self);
    self->pages = pages;
    self->password = how->password;
    self->is_here = near && !how->password;
    self->context = context;
    self->listener = listener;
    strcpy (self->address, address);
    for (size_t i = 0; i < WM_HTTP_CONNECTIONS_MAX; i++)
        self->place[i].fd = -1;
    self->wakeup = listen (listener, WAITING_MAX) ? -1 : eventfd (0, EFD_CLOEXEC);
    if (self->wakeup >= 0 && start (self))
        return self;
    wm_fault (error, WM_EHOST, "cannot listen on %.60s: %s; give another --listen", how->listen,
              strerror (errno));
    wm_http_destroy (&self);
    return NULL;
}

void wm_http_destroy (wm_webserver_t **self_p)
{
    wm_webserver_t *self = *self_p;
    const uint64_t one = 1;
    if (!self)
        return;
    if (self->is_started && write (self->wakeup, &one, sizeof one) == sizeof one)
        pthread_join (self->thread, NULL);
    for (place_t *place = self->place; place < &self->place[WM_HTTP_CONNECTIONS_MAX]; place++)
        if (place->fd >= 0)
            leave (place);
    if (self->listener >= 0)
        close (self->listener);
    if (self->wakeup >= 0)
        close (self->wakeup);
    free (self);
    *self_p = NULL;
}

const char *wm_http_address (const wm_webserver_t *self)
{
    return self->address;
}
