/* wm_processes.h - the broker, the producers and the workers of one `wiremill run`.

   Starts them, keeps them alive and stops them in order. Who is restarted, and why:

     broker     whenever it dies, at once, at most 5 times in a row within 12 s of its start, or
                before it serves; not after exit codes 2, 5 and 75, nor after 1 before one ever
                served: trying again cannot help
     worker     always, with a pause that doubles from 0.2 s to 10 s while it keeps dying within
                10 s, or before its engine can score; not one that the broker sent away (drain, or
                its failures: exit code 0), nor one that fails by itself or crashes 5 times in a
                row; exit codes 2, 5 and 6 (no such engine here) end the run: other workers would
                fail identically
     producer   after a crash that a bad file can cause (SEGV, ABRT, BUS, FPE, ILL, SYS): a second
                crash on one input holds that input as bad; after any other signal but TERM, at
                once, at most 3 times without progress of the campaign; after an end because the
                outputs' server does not answer, with a pause that doubles to two minutes, for as
                long as the run lasts (but the first producer of a run ends it with 75 then: the URL
                may be wrong)

   One producer has all inputs that are known at the start. Those that become known later, from
   --files-from-command, get producers of their own, at most WM_PROCESSES_SENDERS_MAX at a time: a
   producer may open the folders of its inputs only, which it gives up all others for before it
   reads the first of them.

   Workers are started together with the broker: they load and check the model, and wait until it
   serves (gate) before they reach it, since until then another broker may have the campaign.

   Stopping: SIGTERM to workers and producer, which finish what they execute; then to the broker.
   Signals: wm_processes_signals holds them back except while napping, so that neither a library's
   poll nor a decision is ever interrupted, and none is missed. Thread: one.  */
#ifndef WM_PROCESSES_H
#define WM_PROCESSES_H

#include "ops/campaign/wm_file_source.h"
#include "ops/campaign/wm_setup.h"
#include "ops/process/wm_child.h"

#define WM_PROCESSES_WORKERS_MAX 256
/* Memory below which no campaign begins: of `wiremill run`, broker and producer, and of a worker
   with its engine process. Measured: 258 MiB together, what they share counted twice.  */
#define WM_PROCESSES_BYTES (160ull << 20)
#define WM_PROCESSES_WORKER_BYTES (128ull << 20)
#define WM_PROCESSES_GENERAL_BYTES (192ull << 20) /* more where OpenVINO scores: measured 174 MiB */
#define WM_PROCESSES_SENDER_BYTES (64ull << 20)   /* another producer beside the first */
#define WM_PROCESSES_WORKING (-1)
#define WM_PROCESSES_SENDERS_MAX 4
#define WM_PROCESSES_BULK_MAX 15 /* one less than a worker serves brokers */

/* A producer, and what it reports (producer/session/wm_produce_input.c).  */
typedef struct {
    wm_child_t child;
    wm_inputs_t inputs;
    uint32_t first;         /* number of its first input */
    int64_t log_ms;         /* when its log is read again */
    int64_t progress;       /* the campaign's when it was started again last */
    wm_restart_t killed;    /* by signals; in_row: without progress since */
    wm_restart_t away;      /* the outputs' server does not answer; in ms */
    bool retry_held;        /* it scores again what is held; also when it is started again, */
    int n_retry;            /* but that often only: each time all that is held is scored */
    char crashed[PATH_MAX]; /* the input that it last crashed on */
    int tell[2];            /* pipe: it writes, we read; 0: none */
    char tell_name[32];
    char line[4096]; /* what came of the next line */
    size_t n_line;
    bool low;       /* little is left of its inputs */
    bool is_away;   /* it ends, as the outputs' server does not answer */
    bool has_ended; /* as a process; what it told last is still read */
} wm_sender_t;

typedef struct {
    const char *verb;        /* in whose name messages are */
    const wm_setup_t *setup; /* NULL: the broker is elsewhere (--broker) */
    const char *engine, *device, *threads;
    const char
        *bulk[WM_PROCESSES_BULK_MAX + 1]; /* brokers that the workers serve too; NULL ends them */
    const char *bulk_share;               /* as it was typed; NULL: the worker's default */
    const char *bulk_when;                /* likewise; NULL: none */
    bool pin, mixed;
    bool retry_held;                          /* for the first producer that is started */
    const char *check_share;                  /* of the broker */
    const char *on_done, *on_held, *on_pause; /* commands that it runs; NULL: none */
    const char *stage_ahead, *stage_bytes; /* as they were typed; NULL: the producer's defaults */
    char scratch[PATH_MAX]; /* for copies, where inputs or outputs are remote; "": none are */
    const char *store;      /* root:// folder of the outputs; NULL: they lie here */
    const char *give_up;    /* seconds that the producer waits for a broker; NULL: its default */
    int n_worker;
    int gate[2]; /* pipe: workers wait until its writing end is closed */
    char endpoint[256];
    char command[32];    /* memory file with the command that continues the campaign */
    char temporary[128]; /* made for sockets whose path would be too long, else "" */
    char log_folder[PATH_MAX];
    wm_child_t broker, worker[WM_PROCESSES_WORKERS_MAX];
    wm_sender_t sender[WM_PROCESSES_SENDERS_MAX];
    int n_sender;      /* of those, in use or used before */
    bool more;         /* more inputs may come, though all producers have ended */
    uint32_t ended[3]; /* producers by their exit code: 0, 3, 5 */
    bool asks;         /* a command gives inputs one by one */
    /* Called with what a producer reports of an input. output: NULL unless WM_FILE_SOURCE_WRITTEN.
       */
    void (*told) (void *argument, uint32_t input, wm_file_source_is_t is, const char *output);
    bool sidecars; /* with a store: a producer waits for the sidecar of each output in `folder` */
    void (*placed) (void *argument, uint32_t input, const char *folder, const char *output);
    void *told_argument;
    char output[PATH_MAX]; /* the folder, as the first producer told it before it read anything */
    bool has_served;       /* a broker of ours has */
    bool is_awaited;       /* the one that was started last does not serve yet */
    int64_t progress;      /* a number that the caller changes whenever the campaign gets further */
    void (*before_message) (void); /* called before anything is printed; may be NULL */
} wm_processes_t;

/* INT, TERM and HUP are counted in *stop, CHLD ends a nap; all are blocked outside
   wm_processes_nap.  */
void wm_processes_signals (volatile int *stop);
void wm_processes_nap (int64_t ms);

/* Prepares the crew: its folders, endpoint and command lines. The verb, the setup (may be NULL,
   then `broker` is the endpoint) are lent as long as the crew exists; of the inputs, which may be
   none, only the descriptor.  */
wm_fault_t wm_processes_init (wm_processes_t *self, const char *verb, const wm_setup_t *setup,
                              const wm_inputs_t *inputs, const char *broker, wm_error_t *error);

/* Starts the workers and the broker and waits until it serves (or the lock's holder has been
   named). Returns WM_PROCESSES_WORKING or the exit code; *stop becoming non-zero ends the wait with
   75.  */
int wm_processes_start_broker (wm_processes_t *self, const volatile int *stop);

/* Starts the producer, if there are inputs, and lets the workers begin.  */
int wm_processes_start_rest (wm_processes_t *self);

/* Returns whether another producer can be started and, with `when_low`, all those that run have
   little left to do.  */
bool wm_processes_has_room (const wm_processes_t *self, bool when_low);

/* Starts a producer for these inputs, the first of which has the number `first`. Its descriptor
   becomes the crew's. Returns WM_PROCESSES_WORKING or an exit code.  */
int wm_processes_add (wm_processes_t *self, const wm_inputs_t *inputs, uint32_t first);

/* Restarts what has ended, and calls `told`. Returns WM_PROCESSES_WORKING, or the exit code once
   all producers have ended for good and no more inputs may come, or nothing can continue.  */
int wm_processes_step (wm_processes_t *self);

/* Drains and ends everybody; kills instead when *stop reaches `kill_at` (a second Ctrl-C) or after
   a minute.  */
void wm_processes_stop (wm_processes_t *self, const volatile int *stop, int kill_at);

#endif
