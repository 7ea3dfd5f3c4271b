/* wm_limits.c - the table of times and the clock.  */
#include "schema/wm_limits.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static wm_times_t times = {
    .heartbeat_ms = 2000,
    .silence_ms = 30000,
    .reconnect_ms = 3000,
    .lease_ms = 30000,
    .handshake_ms = 5000,
    .answer_ms = 15000,
    .need_ms = 5000,
    .gap_ms = 2000,
    .group_commit_ms = 10,
    .backoff_ms = 100,
    .backoff_max_ms = 2000,
    .lock_ms = 10000,
    .disk_full_ms = 1000,
    .engine_ms = 20000,
    .engine_start_ms = 300000,
    .failures_ms = 600000,
    .import_ms = 7200000,
    .stage_stall_ms = 60000,
    .stage_wait_ms = 2000,
    .stage_wall_ms = 14400000,
};

static void times_scale (void)
{
    const char *text = getenv ("WM_TIME_SCALE");
    long scale = text ? strtol (text, NULL, 10) : 1;
    if (scale < 1 || scale > 1000)
        return;
    int64_t *entry[] = { &times.heartbeat_ms,    &times.silence_ms,    &times.reconnect_ms,
                         &times.lease_ms,        &times.handshake_ms,  &times.gap_ms,
                         &times.group_commit_ms, &times.backoff_ms,    &times.backoff_max_ms,
                         &times.lock_ms,         &times.disk_full_ms,  &times.engine_ms,
                         &times.engine_start_ms, &times.failures_ms,   &times.need_ms,
                         &times.stage_stall_ms,  &times.stage_wait_ms, &times.stage_wall_ms,
                         &times.import_ms };
    for (size_t i = 0; i < sizeof entry / sizeof *entry; i++)
        *entry[i] = *entry[i] / scale > 0 ? *entry[i] / scale : 1;
}

const wm_times_t *wm_times (void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once (&once, times_scale);
    return &times;
}

int64_t wm_now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

double wm_now_s (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}
