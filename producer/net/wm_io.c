/* wm_io.c - sockets, and OpenSSL over them.  */
#include "producer/net/wm_io.h"
#include "schema/base/wm_tcp.h"
#include "schema/base/wm_text.h"

#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024
#define TCP_SYN 2                /* a flag of RFC 9293 */
#define TLS_BYTES_MAX (1u << 20) /* of a file of certificates or keys */

struct wm_tls_t {
    SSL_CTX *context;
    bool is_h2;
};

/* ---- sockets --------------------------------------------------------------------------------- */

/* Whether a client could connect to it.  */
static bool listens (int fd)
{
    int on = 0;
    socklen_t bytes = sizeof on;
    return getsockopt (fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &bytes) == 0 && on;
}

int wm_io_inherit (int listener, char address[WM_TCP_ADDRESS_BYTES], wm_error_t *error)
{
    const int flags = fcntl (listener, F_GETFL);
    if (!listens (listener) || fcntl (listener, F_SETFL, flags | O_NONBLOCK)) {
        wm_fault (error, WM_EUSAGE,
                  "descriptor %d, which LISTEN_FDS passes, is no listening socket: give "
                  "ListenStream= in the .socket unit",
                  listener);
        close (listener);
        return -1;
    }
    wm_tcp_own (listener, address);
    return listener;
}

bool wm_io_begin (int listener)
{
    return listens (listener) || listen (listener, BACKLOG) == 0;
}

void wm_io_drain (int listener)
{
    struct sock_filter code[] = {
        BPF_STMT (BPF_LD | BPF_B | BPF_ABS, 13), /* TCP's flags */
        BPF_JUMP (BPF_JMP | BPF_JSET | BPF_K, TCP_SYN, 0, 1),
        BPF_STMT (BPF_RET | BPF_K, 0),
        BPF_STMT (BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog program = { sizeof code / sizeof *code, code };
    setsockopt (listener, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

int wm_io_accept (int listener, char peer[WM_TCP_ADDRESS_BYTES])
{
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    const int yes = 1;
    const int fd =
        accept4 (listener, (struct sockaddr *) &from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return -1;
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt (fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    wm_tcp_print ((struct sockaddr *) &from, bytes, peer);
    return fd;
}

/* ---- TLS ------------------------------------------------------------------------------------- */

/* A gRPC client speaks HTTP/2 or nothing; of HTTP/1.1's some offer other protocols only, and speak
   it all the same.  */
static int choose (SSL *ssl, const unsigned char **out, unsigned char *n, const unsigned char *in,
                   unsigned n_in, void *context)
{
    (void) ssl;
    static const unsigned char h2[] = { 2, 'h', '2' }, h1[] = "\x08http/1.1";
    const wm_tls_t *self = context;
    unsigned char *chosen;
    const int rc = SSL_select_next_proto (&chosen, n, self->is_h2 ? h2 : h1,
                                          self->is_h2 ? sizeof h2 : sizeof h1 - 1, in, n_in);
    *out = chosen;
    return rc == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK
           : self->is_h2                ? SSL_TLSEXT_ERR_ALERT_FATAL
                                        : SSL_TLSEXT_ERR_NOACK;
}

static const char *reason (void)
{
    const unsigned long first = ERR_peek_error (); /* OpenSSL names a failed open "system lib" */
    const char *text = ERR_SYSTEM_ERROR (first) ? strerror (ERR_GET_REASON (first))
                                                : ERR_reason_error_string (ERR_peek_last_error ());
    ERR_clear_error ();
    return text ? text : "no reason is known";
}

/* Returns what a file that was refused holds instead, "; it holds ...", or "".  */
static const char *held_instead (const char *path, bool is_key)
{
    char *text = NULL;
    size_t bytes;
    wm_error_t unread;
    if (wm_text_read (path, TLS_BYTES_MAX, &text, &bytes, &unread))
        return "";
    const bool has_key = strstr (text, "PRIVATE KEY-----") != NULL;
    const bool has_certificate = strstr (text, "-----BEGIN CERTIFICATE-----") != NULL;
    explicit_bzero (text, bytes);
    free (text);
    if (is_key)
        return has_certificate && !has_key
                   ? "; it holds a certificate: swapped with --tls-certificate?"
                   : "";
    return has_key && !has_certificate ? "; it holds a private key: swapped with --tls-key?" : "";
}

wm_tls_t *wm_tls_new (const char *certificate, const char *key, const char *clients, bool is_h2,
                      wm_error_t *error)
{
    wm_tls_t *self = zmalloc (sizeof *self);
    SSL_CTX *context = self->context = SSL_CTX_new (TLS_server_method ());
    assert (context);
    self->is_h2 = is_h2;
    SSL_CTX_set_min_proto_version (context, TLS1_2_VERSION);
    SSL_CTX_set_options (context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode (context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                   SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb (context, choose, self);
    if (clients) {
        SSL_CTX_set_verify (context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        SSL_CTX_set_session_id_context (context, (const unsigned char *) "wiremill", 8);
    }
    if (SSL_CTX_use_certificate_chain_file (context, certificate) != 1)
        wm_fault (error, WM_EUSAGE, "%.200s: no certificate can be read there: %s%s", certificate,
                  reason (), held_instead (certificate, false));
    else if (SSL_CTX_use_PrivateKey_file (context, key, SSL_FILETYPE_PEM) != 1)
        wm_fault (error, WM_EUSAGE, "%.200s: no key of this certificate can be read there: %s%s",
                  key, reason (), held_instead (key, true));
    else if (clients && SSL_CTX_load_verify_locations (context, clients, NULL) != 1)
        wm_fault (error, WM_EUSAGE, "%.200s: no certificates can be read there: %s%s", clients,
                  reason (), held_instead (clients, false));
    else
        return self;
    wm_tls_destroy (&self);
    return NULL;
}

void wm_tls_destroy (wm_tls_t **self_p)
{
    if (*self_p)
        SSL_CTX_free ((*self_p)->context);
    free (*self_p);
    *self_p = NULL;
}

/* ---- connections ----------------------------------------------------------------------------- */

bool wm_io_open (wm_io_t *self, int fd, wm_tls_t *tls)
{
    *self = (wm_io_t){ .fd = fd };
    if (!tls)
        return true;
    self->ssl = SSL_new (tls->context);
    if (self->ssl && SSL_set_fd (self->ssl, fd) == 1) {
        SSL_set_accept_state (self->ssl);
        return true;
    }
    wm_io_close (self);
    return false;
}

void wm_io_close (wm_io_t *self)
{
    if (self->ssl) {
        SSL_shutdown (self->ssl);
        ERR_clear_error ();
    }
    SSL_free (self->ssl);
    close (self->fd);
    *self = (wm_io_t){ .fd = -1 };
}

bool wm_io_end (wm_io_t *self)
{
    if (self->ssl) {
        SSL_shutdown (self->ssl);
        ERR_clear_error ();
    }
    return shutdown (self->fd, SHUT_WR) == 0;
}

/* What a call of OpenSSL returned, as the kernel would say it. A write that failed after the peer's
   close_notify has ZERO_RETURN in OpenSSL 3.0, too.  */
static ssize_t result (wm_io_t *self, int rc, bool reads)
{
    const int why = rc > 0 ? SSL_ERROR_NONE : SSL_get_error (self->ssl, rc);
    ERR_clear_error ();
    if (reads)
        self->wants_write = why == SSL_ERROR_WANT_WRITE;
    else
        self->wants_read = why == SSL_ERROR_WANT_READ;
    if (rc > 0)
        return rc;
    if (reads && why == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

/* Whether the first byte is that of a method; TLS begins with others.  */
static bool is_plain (wm_io_t *self)
{
    char first;
    self->is_known = recv (self->fd, &first, 1, MSG_PEEK) == 1;
    return self->is_known && first >= 'A' && first <= 'Z';
}

void wm_io_unseal (wm_io_t *self)
{
    SSL_free (self->ssl);
    *self = (wm_io_t){ .fd = self->fd, .is_known = true };
}

bool wm_io_is_quiet (const wm_io_t *self)
{
    char first;
    return !wm_io_has_more (self) && recv (self->fd, &first, 1, MSG_PEEK) <= 0;
}

ssize_t wm_io_read (wm_io_t *self, void *to, size_t bytes)
{
    if (!self->ssl)
        return recv (self->fd, to, bytes, 0);
    if (!self->is_known && is_plain (self)) {
        errno = EPROTO;
        return -1;
    }
    ERR_clear_error ();
    return result (self, SSL_read (self->ssl, to, bytes > INT_MAX ? INT_MAX : (int) bytes), true);
}

ssize_t wm_io_write (wm_io_t *self, const void *from, size_t bytes)
{
    if (!self->ssl)
        return send (self->fd, from, bytes, MSG_NOSIGNAL);
    if (!self->is_known) { /* the client begins */
        self->wants_read = true;
        errno = EAGAIN;
        return -1;
    }
    ERR_clear_error ();
    return result (self, SSL_write (self->ssl, from, bytes > INT_MAX ? INT_MAX : (int) bytes),
                   false);
}

bool wm_io_has_more (const wm_io_t *self)
{
    return self->ssl && SSL_pending (self->ssl) > 0;
}
