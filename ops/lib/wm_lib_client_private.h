/* wm_lib_client_private.h - the client of a broker, for the two files that make it: wm_lib_client.c
   has its helper and its thread, wm_lib_submit.c what programs submit and wait for.

   A submission becomes a ticket, which has the room for its scores, and batches of its finite
   patches. One thread of a client, io, is the only one that touches the socket: it writes batches,
   whose values it then frees, and puts results into their tickets. Everything else is under `lock`;
   `changed` is signalled after each change that a thread may wait for.

   `life` counts helpers. When one ends, all that is under way fails, and the next submission starts
   another. A ticket is freed when it was waited for or forgotten, and its last batch is answered.
   All functions but the first want the lock.  */
#ifndef WM_LIB_CLIENT_PRIVATE_H
#define WM_LIB_CLIENT_PRIVATE_H

#include "ops/lib/wm_lib_private.h"
#include "schema/base/wm_table.h"
#include "schema/wm_limits.h"

#include <pthread.h>
#include <sys/types.h>

typedef struct {
    uint64_t number;
    size_t n, n_left;  /* patches; not answered */
    size_t n_batch;    /* not answered */
    bool is_forgotten; /* no longer wanted */
    float *scores;     /* (n, n_output) */
    uint8_t *status;   /* (n) */
    wm_error_t error;
} ticket_t;

typedef struct batch_t {
    struct batch_t *next; /* of those to be written */
    ticket_t *ticket;
    float *values; /* NULL: written */
    wm_library_frame_t frame;
    size_t written; /* bytes, of the frame and the values */
    size_t row[];   /* (frame.n): of the ticket */
} batch_t;

struct wiremill_client_t {
    pid_t owner;
    char *broker, *join_file, *helper; /* the last two: NULL, none was named */
    uint32_t patience_ms;
    size_t memory;
    wm_library_facts_t facts;
    char (*labels)[WM_LIBRARY_LABEL_BYTES];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t life; /* of the helper */
    bool is_alive, is_starting, is_closing;
    size_t bytes; /* of patches under way, in this life */
    uint64_t last_number;
    wm_table_t tickets, batches; /* by number */
    batch_t *first, *last;       /* to be written */
    char waits[WM_TEXT_BYTES_MAX + 1];
    wm_error_t why; /* the helper ended */

    pthread_t io; /* while `has_io` */
    bool has_io;
    int fd, wake;

    /* io alone */
    wm_library_frame_t frame; /* that is read */
    uint8_t *body;
    size_t got; /* bytes, of the frame and its body */
};

/* Frees a ticket that no batch refers to; NULL-safe.  */
void wm_lib_ticket_free (ticket_t *ticket);

/* Returns the ticket of this number; NULL: no ticket has it.  */
ticket_t *wm_lib_ticket_of (const wiremill_client_t *self, uint64_t number);

/* Its caller is done with it.  */
void wm_lib_ticket_end (wiremill_client_t *self, ticket_t *ticket);

/* Wakes io: there is something to write, or the client closes.  */
void wm_lib_wake (const wiremill_client_t *self);

/* Starts a helper if none runs; gives the lock back meanwhile.  */
wm_fault_t wm_lib_make_alive (wiremill_client_t *self, wm_error_t *error);

#endif
