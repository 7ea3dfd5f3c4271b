/* wm_worker.c - a lane for each broker: the caller's thread for one, a thread each for several.  */
#include "gpuworker/wm_worker.h"
#include "gpuworker/wm_lane.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_process.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <czmq.h>
#include <pthread.h>
#include <stdatomic.h>

#define NAP_MS 50

typedef struct {
    const wm_worker_config_t *config;
    wm_stride_t *stride;
    _Atomic int64_t busy_ms;
    _Atomic unsigned n_main; /* lanes that run, but for those beside others */
} worker_t;

typedef struct {
    worker_t *worker;
    unsigned number;
    pthread_t thread;
    int code;
} run_t;

static int run_once (run_t *run)
{
    worker_t *worker = run->worker;
    wm_lane_t *lane = wm_lane_new (worker->config, worker->config->broker[run->number].endpoint,
                                   worker->stride, run->number, &worker->busy_ms);
    if (worker->config->broker[run->number].is_beside)
        wm_lane_beside (lane, &worker->n_main);
    const int code = wm_lane_run (lane);
    wm_lane_destroy (&lane); /* its engine process dies with this thread */
    return code;
}

/* A pause before a broker beside others is tried again. false: there are no others any more.  */
static bool pause_beside (const worker_t *worker)
{
    const int64_t until_ms = wm_now_ms () + wm_times ()->silence_ms;
    while (worker->n_main && !zsys_interrupted && wm_now_ms () < until_ms)
        zclock_sleep (NAP_MS);
    return worker->n_main && !zsys_interrupted;
}

static void *run_lane (void *argument)
{
    run_t *run = argument;
    if (!run->worker->config->broker[run->number].is_beside) {
        run->code = run_once (run);
        run->worker->n_main--;
        return NULL;
    }
    do
        run_once (run); /* one campaign after the other */
    while (pause_beside (run->worker));
    return NULL;
}

static int gravest (const run_t *run, unsigned n)
{
    static const int order[] = { WM_EXIT_FAILURE, WM_EXIT_ENGINE,      WM_EXIT_INPUT,
                                 WM_EXIT_REFUSED, WM_EXIT_UNREACHABLE, WM_EXIT_AGAIN };
    for (unsigned o = 0; o < sizeof order / sizeof *order; o++)
        for (unsigned i = 0; i < n; i++)
            if (run[i].code == order[o])
                return order[o];
    return WM_EXIT_OK;
}

int wm_worker_run (const wm_worker_config_t *config)
{
    const unsigned n = config->n_broker;
    unsigned weight[WM_WORKER_BROKERS_MAX];
    run_t run[WM_WORKER_BROKERS_MAX] = { 0 };
    worker_t worker = { .config = config, .busy_ms = wm_now_ms () };
    wm_process_keep_memory ();
    for (unsigned i = 0; i < n; i++) {
        weight[i] = config->broker[i].weight;
        worker.n_main += !config->broker[i].is_beside;
        run[i] = (run_t){ .worker = &worker, .number = i, .code = WM_EXIT_OK };
    }
    worker.stride = n > 1 ? wm_stride_new (n, weight, config->bulk_percent) : NULL;
    if (worker.stride && config->quiet >= 0)
        wm_stride_await (worker.stride, config->quiet);
    for (unsigned i = 1; i < n; i++) {
        int rc = pthread_create (&run[i].thread, NULL, run_lane, &run[i]);
        assert (rc == 0);
    }
    run_lane (&run[0]);
    for (unsigned i = 1; i < n; i++)
        pthread_join (run[i].thread, NULL);
    wm_stride_destroy (&worker.stride);
    return gravest (run, n);
}
