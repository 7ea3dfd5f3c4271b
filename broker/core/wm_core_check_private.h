/* wm_core_check_private.h - spot checks, machines of workers, and those that are not trusted;
   wm_core_check.c and wm_core_machine.c explain them.  */
#ifndef WM_CORE_CHECK_PRIVATE_H
#define WM_CORE_CHECK_PRIVATE_H

#include "broker/core/wm_core_private.h"
#include "broker/core/wm_input_set.h"

#define CHECK_LOST_MAX 2                /* workers that vanish or refuse */
#define CHECKS_MAX 64                   /* open at a time */
#define CHECK_RESULTS_BYTES (64u << 20) /* answers kept for open checks */
#define ANSWERS_MAX 3u                  /* of a check; their bytes are counted when it begins */
#define CHECK_PAYLOADS_SHARE 8          /* their payloads: at most one part in 8 of the budget */
#define INPUT_SETS_BYTES (64u << 20)    /* which inputs machines scored, while some are away */
#define MACHINES_MAX 4096               /* more than can have a session */

/* A worker's machine as the core knows it: the host of its label, and its key.  */
struct machine_t {
    machine_t *next;
    char host[64], key[WM_JOIN_ID_BYTES];
    char label[64], signature[64]; /* of its worker that joined last */
    uint32_t n_session, n_answer;  /* that point to it: sessions; answers of open checks */
    uint64_t left_order;  /* a number that grows, of the end of its last session; 0: none */
    uint32_t n_suspect;   /* open checks in which it is one of two that differ */
    bool distrusted;      /* its scores were wrong: it gets no work */
    bool is_unannounced;  /* ... and what follows from that is not carried out yet */
    bool key_distrusted;  /* no other machine had its key: no worker gets work by it */
    bool host_distrusted; /* no other key had its host: no worker gets work under that */
    char why[240];        /* it is distrusted */
    check_t *proving;     /* once this check is good, only later batches are unproven */
    /* Inputs of which it scored batches:  */
    wm_input_set_t unproven;      /* since its last good check */
    wm_input_set_t since_proving; /* since the batch of `proving` */
    wm_input_set_t scored;        /* since the broker's start; of one that is distrusted: before
                                     its last good check, so that they are not begun again */
};

typedef struct {
    machine_t *machine;
    char label[64];
    uint16_t signature;
    uint8_t *result; /* wm_result_bytes of it */
} check_answer_t;

struct check_t {
    check_t *prev, *next;               /* in the order they began */
    work_t task;                        /* the batch, as it was sent first */
    check_answer_t answer[ANSWERS_MAX]; /* the first was committed */
    uint32_t n_answer, n_lost;
    const machine_t *refused_by[CHECK_LOST_MAX + 1]; /* not asked again; only to compare */
    uint32_t n_refused;
    bool differs;      /* the first two answers do */
    session_t *worker; /* that is asked for the next answer; NULL: it waits for one */
    uint64_t number;   /* of its TASK in that session */
};

/* ---- wm_core_check.c ------------------------------------------------------------------------- */

/* Before a result is committed: notes which input the worker scored, and begins a check of the
   batch if it is sampled.  */
void wm_core_check_result (wm_core_t *self, session_t *worker, const batch_t *batch,
                           const wm_payload_t *payload);
/* Take an answer if the worker was asked for it by a check; else false.  */
bool wm_core_check_answer (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                           const wm_payload_t *payload);
bool wm_core_check_nack (wm_core_t *self, session_t *worker, const wm_msg_t *msg);
/* The worker's connection is over: its check waits for another.  */
void wm_core_check_give_back (wm_core_t *self, session_t *worker);
/* Whether the worker was sent a check before the leases that it has: that is what it executes.  */
bool wm_core_check_is_first (const session_t *worker);
/* A client gives the number of an event that was answered to another: ends checks of the old one,
   whose answers would be taken for those of the new.  */
void wm_core_check_forget_event (wm_core_t *self, const event_t *event);
/* Sends checks that wait to workers that suit.  */
void wm_core_check_dispatch (wm_core_t *self);
/* Ends the check that is missed least: the oldest that waits and does not differ; with `frees` of
   those whose payload leaves the budget with it. false: no such check waits.  */
bool wm_core_check_drop (wm_core_t *self, bool frees);
/* Bytes of the budget that leave it when all of the latter end.  */
uint64_t wm_core_check_lent (const wm_core_t *self);
void wm_core_check_free_all (wm_core_t *self);
/* Whether two machines of this signature give the same bits. OpenVINO's kernels also depend on the
   size of caches and the number of cores, which its signature does not name.  */
bool wm_core_fixes_bits (const wm_core_t *self, uint16_t signature);

/* ---- wm_core_machine.c ----------------------------------------------------------------------- */

/* Its last session has ended: what machines that left longest ago scored is forgotten if the sets
   of all take too much memory.  */
void wm_core_machine_left (wm_core_t *self, machine_t *machine);
/* The machine of a worker, made if it is new; NULL without memory.  */
machine_t *wm_core_machine_of (wm_core_t *self, const char *key, const char *label);
void wm_core_machines_free (wm_core_t *self);

/* ---- wm_core_distrust.c ---------------------------------------------------------------------- */

/* Whether a worker's HELLO may begin a session; false: it was refused. Sets its machine.  */
bool wm_core_distrust_admit (wm_core_t *self, session_t *worker, const wm_msg_t *msg);
/* Ends the sessions of machines that were named, and begins again what they scored.  */
void wm_core_distrust_carry_out (wm_core_t *self);
/* Admits what was named by this host, key or label again; returns how many. `session` is answered
   when that is durable.  */
uint32_t wm_core_distrust_lift (wm_core_t *self, const char *name, const session_t *session);
/* The KICK of this input is durable: no machine's scores are in it any longer.  */
void wm_core_distrust_kicked (wm_core_t *self, uint32_t id);
void wm_core_distrust_restore (wm_core_t *self, const wm_record_t *record);
void wm_core_distrust_summary (const wm_core_t *self, wm_summary_t *summary);

#endif
