/* wm_plan.h - the arithmetic of `wiremill plan`: what a campaign needs, how long it takes, and what
   limits it.

   Nothing here measures, reads or prints. A number that is not known is NAN: what follows from it
   is NAN too, or, in wm_plan_time, is left out.

   The wall time of a campaign with N workers is

       start + first event + max (workers, producers, broker, disk)

   workers    the slowest worker: batches come whole, so it has ceil (batches / N) of them
   producers  events x CPU seconds an event + files x seconds a file, by the producers' number
   broker     batches by the batches a second, bytes by the bytes a second that one broker carries
   disk       what is written by what the disk takes a second  */
#ifndef WM_PLAN_H
#define WM_PLAN_H

#include <stdbool.h>

/* What one broker was measured to carry (tests/bench/RESULTS.md, 2 cores of an AMD EPYC). Without
   keys: 91,049 tasks of no size a second, and 6,509 tasks of 102,400 bytes with results of 16,320,
   which are 773 MB that come in and go out a second. With keys, by the CPU time that a broker took,
   as if it had one core: 27.8 us a task of no size, 471 us one of that size, which are 252 MB/s.
   Its peers are limited to WM_PEERS_MAX.  */
#define WM_PLAN_BROKER_BATCHES_S 91049.
#define WM_PLAN_BROKER_BYTES_S 773e6
#define WM_PLAN_BROKER_KEYS_BATCHES_S 36000.
#define WM_PLAN_BROKER_KEYS_BYTES_S 252e6
#define WM_PLAN_BROKER_WARNS 0.5 /* share of these, from which on plan warns */

#define WM_PLAN_WORKERS_MAX 1000000

typedef struct {
    bool has_keys; /* the broker asks for keys, and all is encrypted */
    double files, events, hits_event;
    double batch_hits, n_output;
    double batches_event;           /* at least: a batch has hits of one plane */
    double bytes_event;             /* payloads sent to workers */
    double output_bytes_hit;        /* of a file of scores */
    double core_hits_s, gpu_hits_s; /* of a worker on one core; of a GPU */
    double event_s, file_s;         /* a producer's CPU: of an event; what a file adds */
    double start_s;                 /* until work begins, and from its end to the last exit */
    double client_s; /* CPU of an event outside wiremill, where scores are waited for */
    double disk_bytes_s;
    double producers;
} wm_plan_t;

typedef struct {
    double hits, batches;
    double task_bytes, result_bytes; /* each comes to the broker once and leaves it once */
    double output_bytes;
    double core_s, gpu_s; /* of engines: with cores alone, with GPUs alone */
    double producer_s;
    double producers_gpu; /* producers of one core that keep a GPU busy */
    double clients_gpu;   /* clients that a GPU serves before they wait for it */
} wm_plan_needs_t;

typedef enum {
    WM_PLAN_BY_WORKERS,
    WM_PLAN_BY_PRODUCERS,
    WM_PLAN_BY_BROKER,
    WM_PLAN_BY_DISK,
} wm_plan_limit_t;

typedef struct {
    double wall_s;
    double cpu_s; /* of engines and producers; the others' is not known */
    wm_plan_limit_t limit;
    double busy;               /* share of the workers' time that they score */
    double batches_s, bytes_s; /* through the broker, while there is work; bytes_s: or NAN */
    double broker;             /* share of what one broker carries, of what it has least of; with
                                  bytes_s NAN at least */
    double peers;              /* share of a broker's peers */
} wm_plan_time_t;

void wm_plan_needs (const wm_plan_t *self, wm_plan_needs_t *needs);

/* With so many workers of one core each, or of one GPU each.  */
void wm_plan_time (const wm_plan_t *self, double workers, wm_plan_time_t *time);
void wm_plan_time_gpu (const wm_plan_t *self, double gpus, wm_plan_time_t *time);

/* Returns the least number of workers that ends within the deadline; 0: no number does, and *least
   is what WM_PLAN_WORKERS_MAX would take.  */
double wm_plan_workers (const wm_plan_t *self, double deadline_s, wm_plan_time_t *least);

/* `wiremill run`, where workers, producer and broker share the cores: `workers` score `hits_s`
   together, and the producer's CPU time is taken from theirs.  */
void wm_plan_here (const wm_plan_t *self, double workers, double hits_s, double cores,
                   wm_plan_time_t *time);

const char *wm_plan_limit_name (wm_plan_limit_t limit);

#endif
