/* wm_front.h - what gRPC and HTTP share: the loop, the models, limits, the access log, counts.

   Thread: the loop's.  */
#ifndef WM_FRONT_H
#define WM_FRONT_H

#include "producer/net/wm_budget.h"
#include "producer/net/wm_loop.h"
#include "producer/net/wm_slice.h"
#include "producer/serving/wm_kserve.h"
#include "producer/serving/wm_shared.h"
#include "schema/base/wm_fault.h"

#include <stdio.h>

/* A client that neither sends nor takes a byte of what is under way for so long is dropped.  */
#define WM_FRONT_STALL_US (30 * INT64_C (1000000))
/* One that does send or take something must be this fast, after that time.  */
#define WM_FRONT_SLOW_BYTES_S (64 << 10)
/* What a request costs beside its bytes.  */
#define WM_FRONT_REQUEST_BYTES 4096
/* Window of a stream before memory for its message is there: RFC 9113's default.  */
#define WM_FRONT_WINDOW_BYTES 65535
#define WM_FRONT_NO_MEMORY "this machine has no memory for the request: try again later"

typedef struct {
    wm_loop_t *loop;
    wm_models_t *models;
    wm_budget_t *budget;
    wm_addresses_t *addresses;
    wm_slices_t *slices;
    wm_shared_t *shared;               /* NULL: switched off */
    size_t message_max;                /* bytes of a request, also inflated */
    size_t connections_max;            /* of each transport */
    const char *access_path;           /* of the access log, "-": standard output */
    FILE *access;                      /* NULL: none */
    uint64_t clients;                  /* numbers connections, from 1 */
    uint64_t requests[2][WM_KS_CODES]; /* answered by gRPC, by HTTP */
    uint64_t bytes_in, bytes_out;
    size_t connections[2];
    bool is_inherited[2]; /* another process listens on the same socket */
} wm_front_t;

typedef enum { WM_FRONT_GRPC, WM_FRONT_HTTP } wm_front_kind_t;

/* Count a connection, and the memory that it takes beside its requests.  */
void wm_front_enter (wm_front_t *self, wm_front_kind_t kind, wm_share_t *share, const char *peer,
                     size_t bytes);
void wm_front_leave (wm_front_t *self, wm_front_kind_t kind, wm_share_t *share, size_t bytes);
/* Whether there is a place for one more.  */
bool wm_front_has_place (const wm_front_t *self, wm_front_kind_t kind, size_t bytes);

/* One request, for the counts and the access log.  */
typedef struct {
    wm_front_kind_t kind;
    const char *peer, *method, *model; /* method: "ModelInfer", "POST /v2/..." */
    wm_ks_code_t code;
    size_t bytes_in, bytes_out;
    int64_t begun_us;
} wm_front_line_t;
void wm_front_answered (wm_front_t *self, const wm_front_line_t *line);

/* Opens the access log of access_path, again where it is open: its file may have been renamed.
   Where that fails, it goes on in the file that it had.  */
wm_fault_t wm_front_open_access (wm_front_t *self, wm_error_t *error);

/* Whether a client has moved so few bytes in this time that others should have its memory.  */
static inline bool wm_front_is_slow (int64_t us, size_t bytes)
{
    return us - WM_FRONT_STALL_US > (int64_t) (bytes / WM_FRONT_SLOW_BYTES_S) * 1000000;
}

/* Names a code in the log ("ok", "not found").  */
const char *wm_ks_code_name (wm_ks_code_t code);

#endif
