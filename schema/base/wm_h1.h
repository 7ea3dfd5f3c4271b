/* wm_h1.h - a request of HTTP/1.1, read from bytes as RFC 9112 has them, and the head of an answer.

   Every HTTP server of the project reads its requests by this one, so that all refuse the same.
   Where two readers could see a request's end in different places, or a header in different ways,
   it is refused, and nothing behind it is read: Content-Length with Transfer-Encoding or given
   twice, a blank before a colon, folded headers, lines that end without CR LF, control bytes, any
   coding but chunked. A method that HTTP does not have is refused, too (501); which of the others a
   path takes is the caller's to decide. It allocates nothing and knows no socket; time and sizes of
   bodies are the caller's to limit. Thread: the caller's.  */
#ifndef WM_H1_H
#define WM_H1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_H1_HEAD_BYTES 16384  /* of the request line and all headers; of all trailers */
#define WM_H1_ANSWER_BYTES 2048 /* of the head of an answer */

typedef enum {
    WM_H1_HEAD,    /* the request line and the headers come */
    WM_H1_BODY,    /* the head is there, the body comes */
    WM_H1_END,     /* all is there */
    WM_H1_REFUSED, /* answer `code`, which `why` explains, then close the connection */
} wm_h1_state_t;

typedef struct {
    wm_h1_state_t state;
    unsigned code;   /* REFUSED: the status, 400 to 505 */
    const char *why; /* a literal */
    /* Of the head, in `head`; NULL until they are there. The path is percent-decoded and has no
       query, which is as it was sent, "": none; the host is that of the target, else that of the
       header, NULL: none.  */
    const char *method, *path, *query, *host;
    bool is_chunked;     /* else the body has `length` bytes */
    bool keeps;          /* the client would send another request on this connection */
    bool wants_continue; /* ... waits for 100 Continue before it sends the body */
    uint64_t length;
    /* Its own.  */
    bool is_1_0, has_cr, has_host, has_length, has_coding, closes;
    unsigned step;
    uint64_t left;      /* bytes of the body, or of its chunk */
    size_t trailers;    /* bytes of them that have come */
    size_t line, n;     /* in `head`: where the line begins, and its end */
    size_t fields, end; /* ... and where name, value, name, value ... are, each with a NUL */
    char head[WM_H1_HEAD_BYTES];
} wm_h1_t;

/* Begins a request: of a connection's first one, or behind one that is at its END.  */
void wm_h1_begin (wm_h1_t *self);

/* Whether something of the request has come.  */
bool wm_h1_has_begun (const wm_h1_t *self);

/* Reads some of n bytes and returns how many; the last *body of them are the body's. It stops where
   the head ends, behind a piece of the body, at the END and where it refuses: call again for the
   rest.  */
size_t wm_h1_read (wm_h1_t *self, const uint8_t *data, size_t n, size_t *body);

/* The caller has received so many bytes of the body by itself: of one that is not chunked, and not
   more than are still to come.  */
void wm_h1_took (wm_h1_t *self, uint64_t bytes);

/* The value of the first header of this name; NULL: the request has no such header.  */
const char *wm_h1_field (const wm_h1_t *self, const char *name);

/* Prints the head of an answer of so many bytes to this request. fields: further ones, each with
   its CR LF. Returns its bytes.  */
size_t wm_h1_answer (const wm_h1_t *self, char to[WM_H1_ANSWER_BYTES], unsigned code,
                     uint64_t bytes, bool keeps, const char *fields);

#endif
