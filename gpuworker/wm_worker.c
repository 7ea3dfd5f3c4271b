/* wm_worker.c - a lane for each broker: the caller's thread for one, a thread each for several.  */
#include "gpuworker/wm_worker.h"
#include "gpuworker/wm_lane.h"
#include "schema/base/wm_fault.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

typedef struct {
    wm_lane_t *lane;
    pthread_t thread;
    int code;
} run_t;

static void *run_lane (void *argument)
{
    run_t *run = argument;
    run->code = wm_lane_run (run->lane);
    wm_lane_destroy (&run->lane); /* its engine process dies with this thread */
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
    _Atomic int64_t busy_ms = wm_now_ms ();
    for (unsigned i = 0; i < n; i++)
        weight[i] = config->broker[i].weight;
    wm_stride_t *stride = n > 1 ? wm_stride_new (n, weight) : NULL;
    for (unsigned i = 0; i < n; i++)
        run[i].lane = wm_lane_new (config, config->broker[i].endpoint, stride, i, &busy_ms);
    for (unsigned i = 1; i < n; i++) {
        int rc = pthread_create (&run[i].thread, NULL, run_lane, &run[i]);
        assert (rc == 0);
    }
    run_lane (&run[0]);
    for (unsigned i = 1; i < n; i++)
        pthread_join (run[i].thread, NULL);
    wm_stride_destroy (&stride);
    return gravest (run, n);
}
