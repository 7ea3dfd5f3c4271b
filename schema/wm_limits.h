/* wm_limits.h - a limit on everything, and the one table of times.

   Limits are compile-time maxima: two processes must agree on them, and a message or file that
   passes one is refused before anything is allocated. Times are a table so that tests can run
   all of them faster together (WM_TIME_SCALE=100 divides every entry by 100).  */
#ifndef WM_LIMITS_H
#define WM_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* What a message can make the broker keep, and how much of it there can be:

     a connection    2 x WM_PEERS_MAX; a session: WM_PEERS_MAX, and as many of lost workers
     before it is read  128 messages of a connection (libzmq counts messages, not bytes); 16 new
                     connections before the broker reads on (WM_ADMITTED_MAX)
     HELLO           4 x WM_CREDIT_MAX lines of 40 bytes, of a worker
     INPUT           an input: about 650 bytes with its path and name, at most 3 KiB; as many as
                     come
     SUBMIT          a batch: 96 bytes; WM_EVENT_BATCHES_MAX an event, WM_OPEN_EVENTS_MAX open
                     events of a producer; a line of 24 bytes for each of them was in the message
     BATCH           its payload: --budget (WM_BUDGET_BYTES) for all
     RESULT          of a batch that was announced: nothing more; of another 320 bytes, WM_STRAY_MAX
                     of a session and WM_STRAY_ALL_MAX of all. Its payload until it is on disk:
                     65,536 records are on their way to the disk at most, then a message is answered
                     BUSY
     and of answers that a peer does not read (beyond them it is disconnected):
     MODEL, TRIAL    the bytes are here once, whoever asks, while a message waits; each is sent
                     once in a session
     RESULTS and other answers with a payload of their own  WM_UNREAD_BYTES_MAX of a peer,
                     WM_UNREAD_ALL_BYTES_MAX of all: the one that leaves most unread is disconnected
     TASK            in the budget
     STATUS_REPLY    64 of an operator; its lists have at most WM_SUMMARY_..._MAX rows  */
#define WM_PROTOCOL 8u /* raised with every incompatible change of wire.abnf */
/* The version of all of wiremill: the Makefile reads it here, make lint compares what cannot.  */
#define WM_VERSION "0.2.0"

#define WM_HEADER_BYTES_MAX 4096u       /* first frame of a message */
#define WM_RAW_BYTES_MAX (4u << 20)     /* raw payload or result: 0.25-4 MB messages are fastest */
#define WM_PATCH_BYTES_MAX (256u << 20) /* the same of a batch of one patch: an image, a tile */
#define WM_FRAME_OVERHEAD (64u << 10)   /* its own header, and what zstd adds */
#define WM_FRAME_BYTES_MAX (WM_PATCH_BYTES_MAX + WM_FRAME_OVERHEAD) /* of any campaign */
#define WM_RAGGED_BYTES                                                                            \
    (12u << 20) /* of a ragged row, with its status, unless the model has more */
#define WM_CONTROL_BYTES_MAX (64u << 10) /* any message of an operator, any header-only message */
#define WM_PATH_BYTES_MAX 2048u          /* an input's name must fit a 4 KiB header */
#define WM_TEXT_BYTES_MAX 480u
#define WM_CLASS_BYTES_MAX 63u
#define WM_PINS_BYTES_MAX 8704u
#define WM_PEERS_MAX 1024u
#define WM_OPEN_EVENTS_MAX 256u     /* announced and not done, a producer */
#define WM_EVENT_BATCHES_MAX 65536u /* so that a manifest fits a frame */
#define WM_OUTPUTS_MAX 1024u        /* network outputs a hit: scores, each a column */
#define WM_ANSWER_VALUES_MAX (WM_PATCH_BYTES_MAX / 4 - 1) /* likewise: an image */
#define WM_CREDIT_MAX 256u                                /* batches a worker may hold */
#define WM_CREDIT_BYTES (256u << 20)     /* ... of patches beyond WM_RAGGED_BYTES, at least 3 */
#define WM_STRAY_MAX (4 * WM_CREDIT_MAX) /* results of unannounced events, a session */
#define WM_STRAY_ALL_MAX (256 * WM_STRAY_MAX) /* of all sessions since the start: 80 MB */
#define WM_UNREAD_BYTES_MAX (16u << 20)       /* answers that a peer leaves unread: four of 4 MiB */
#define WM_UNREAD_ALL_BYTES_MAX (128u << 20)  /* all peers */
#define WM_BUDGET_BYTES (1ull << 30)          /* default: payloads asked for and not yet dropped */
#define WM_BUDGET_BYTES_LEAST (4l * (WM_RAW_BYTES_MAX + WM_FRAME_OVERHEAD))
#define WM_ATTEMPTS_MAX 5u
#define WM_FAILURES_MAX 3u /* on at least 2 workers */
#define WM_MODEL_BYTES_MAX (1ull << 30)
#define WM_CLASSES_MAX 32u /* classes of machines in a campaign, with their arithmetics */

/* Returns the most bytes of a batch of n patches, and of its result, in any campaign.  */
static inline uint32_t wm_raw_bytes_max (uint64_t n)
{
    return n == 1 ? WM_PATCH_BYTES_MAX : WM_RAW_BYTES_MAX;
}

/* Returns the most bytes of a batch of one campaign, and of its result: WM_RAW_BYTES_MAX, or what
   one patch that is larger has. Its memory follows from this, not from WM_PATCH_BYTES_MAX.  */
static inline uint32_t wm_row_bytes_max (uint64_t n_value, uint64_t n_output)
{
    uint64_t most = WM_RAW_BYTES_MAX;
    most = 4 * n_value > most ? 4 * n_value : most;
    most = 1 + 4 * n_output > most ? 1 + 4 * n_output : most;
    return (uint32_t) (most < WM_PATCH_BYTES_MAX ? most : WM_PATCH_BYTES_MAX);
}

/* Returns the largest frame of a campaign.  */
static inline uint32_t wm_frame_bytes_max (uint64_t n_value, uint64_t n_output)
{
    return wm_row_bytes_max (n_value, n_output) + WM_FRAME_OVERHEAD;
}

/* Returns wm_row_bytes_max where it changes what processes take, beyond WM_RAGGED_BYTES; else
   0.  */
static inline uint32_t wm_large_bytes (uint64_t n_value, uint64_t n_output)
{
    const uint32_t most = wm_row_bytes_max (n_value, n_output);
    return most > WM_RAGGED_BYTES ? most : 0;
}

/* Returns the least --budget of a campaign: four of its largest messages where patches have more
   than WM_RAGGED_BYTES, so that two workers have one while the next comes.  */
static inline uint64_t wm_budget_least (uint64_t n_value, uint64_t n_output)
{
    const uint64_t large = wm_large_bytes (n_value, n_output);
    return large ? 4 * (large + WM_FRAME_OVERHEAD) : WM_BUDGET_BYTES_LEAST;
}

/* Returns the bytes of answers that a peer may leave unread: four results of one patch or more. */
static inline size_t wm_unread_max (uint64_t n_output)
{
    return 16 * n_output + 4 > WM_UNREAD_BYTES_MAX ? 16 * n_output + 4 : WM_UNREAD_BYTES_MAX;
}

/* Returns the same of all peers: that of two peers or more.  */
static inline size_t wm_unread_all_max (uint64_t n_output)
{
    const size_t two = 2 * wm_unread_max (n_output);
    return two > WM_UNREAD_ALL_BYTES_MAX ? two : WM_UNREAD_ALL_BYTES_MAX;
}

/* All times of the protocol, in milliseconds. They suit a network of 200 ms there and back that
   loses every fifth packet: what a new session exchanges takes about six round trips, and a packet
   that is lost once more costs 0.4 to 1.6 s. Measured there: of 40 sessions begun at once, 15 were
   not open within 3 s; so a handshake has 5 s, and a command that asks tries again until answer_ms
   have passed. An open session waits silence_ms, in which TCP sends again six times or more.  */
typedef struct {
    int64_t heartbeat_ms;    /* 2,000: a peer sends something at least this often */
    int64_t silence_ms;      /* 30,000 without a message: the link is dead */
    int64_t reconnect_ms;    /* 3,000: leases of a closed connection wait for their instance */
    int64_t lease_ms;        /* 30,000: least lease; 10 x p95 above it */
    int64_t handshake_ms;    /* 5,000: from the connection to the session; of each attempt */
    int64_t answer_ms;       /* 15,000: a command's question, its session included; not scaled */
    int64_t need_ms;         /* 5,000: a producer answers a NEED within it, or is asked last */
    int64_t gap_ms;          /* 2,000: a gap of the loop above it moves all deadlines */
    int64_t group_commit_ms; /* 10: one fdatasync for what came in this time (or 256 records) */
    int64_t backoff_ms;      /* 100: first reconnect delay, doubled up to backoff_max_ms */
    int64_t backoff_max_ms;  /* 2,000 */
    int64_t lock_ms;         /* 10,000: how long a second master waits for the lock */
    int64_t disk_full_ms;    /* 1,000: between attempts on a full disk */
    int64_t engine_ms;       /* 20,000 without a hit finished: an engine hangs; below lease_ms */
    int64_t engine_start_ms; /* 300,000: it loads libraries, a model, and proves itself */
    int64_t failures_ms;     /* 600,000: three failures of an engine within it drain its worker */
    int64_t import_ms;       /* 7,200,000: a model's import, in a process of its own, answers */
    int64_t stage_stall_ms;  /* 60,000: a file that is copied grows; ten times that at its end, for
                                the server's checksum */
    int64_t stage_wait_ms;   /* 2,000: between two tries to copy it, doubled up to 60 times that */
    int64_t stage_wall_ms;   /* 14,400,000: one try to copy it, at most */
} wm_times_t;

/* The table, read once from WM_TIME_SCALE (1 to 1000). Never fails. Thread: any.  */
const wm_times_t *wm_times (void);

/* Monotonic clock in ms; the only clock that decides anything.  */
int64_t wm_now_ms (void);

/* The same clock in seconds, for durations that milliseconds are too coarse for.  */
double wm_now_s (void);

#endif
