/* wm_lane_prepare.c - what comes before work: pins, model, an engine that has proved itself.  */
#include "gpuworker/wm_cache.h"
#include "gpuworker/wm_lane_inside.h"

#include <poll.h>

enum { TICK_MS = 50 };

/* The first session. An exit code, -1: it is open.  */
static int reach_broker (wm_lane_t *self, wm_client_t *client)
{
    wm_error_t error = { 0 };
    int said = 0;
    const int64_t end = wm_now_ms () + (int64_t) (self->config->give_up_s * 1000);
    for (;;) {
        const char *why;
        const int64_t time = lane_time_left (self, !self->turn, &why);
        const int64_t all = end - wm_now_ms (), some = wm_times ()->reconnect_ms;
        const int64_t patience = said || all < some ? all : some;
        if (time <= 0) {
            lane_say ("leaves %s, where no broker is: %s", self->endpoint, why);
            return WM_EXIT_OK;
        }
        const wm_fault_t fault =
            wm_client_open_patiently (client, NULL, 0, time < patience ? time : patience, &error);
        if (!fault)
            return -1;
        const int64_t left = end - wm_now_ms ();
        if (fault == WM_EAGAIN && !zsys_interrupted && left > 0) {
            if (!said++)
                lane_say ("%s; goes on trying for %lld s", error.text, (long long) left / 1000);
            continue;
        }
        lane_say ("%s", error.text);
        return fault != WM_EAGAIN ? WM_EXIT_FAILURE
               : zsys_interrupted ? WM_EXIT_AGAIN
                                  : WM_EXIT_UNREACHABLE;
    }
}

/* One session to learn the pins and fetch the model. An exit code, -1: go on, -2: try again.  */
static int fetch_once (wm_lane_t *self, wm_client_t *client, char path[WM_CACHE_PATH_MAX])
{
    wm_error_t error = { 0 };
    const int code = reach_broker (self, client);
    if (code >= 0)
        return code;
    if (!lane_same_campaign (self, client))
        return WM_EXIT_FAILURE;
    const wm_fault_t fault = wm_cache_model (self->cache, self->pins.wmm, client, path, &error);
    if (!fault)
        return -1;
    lane_say ("%s", error.text);
    if (zsys_interrupted)
        return WM_EXIT_AGAIN;
    if (wm_client_reason (client) == WM_REASON_DONE)
        return WM_EXIT_OK;
    if (fault != WM_EAGAIN)
        return WM_EXIT_FAILURE;
    zclock_sleep ((int) wm_times ()->backoff_ms);
    return -2;
}

static int fetch_model (wm_lane_t *self, char path[WM_CACHE_PATH_MAX])
{
    wm_error_t error = { 0 };
    if (self->config->cache)
        snprintf (self->cache, sizeof self->cache, "%s", self->config->cache);
    else if (wm_cache_default (self->cache, &error)) {
        lane_say ("%s", error.text);
        return WM_EXIT_FAILURE;
    }
    wm_client_t *client =
        wm_client_new (self->endpoint, WM_ROLE_WORKER, self->label, "fetching", NULL);
    int code;
    while ((code = fetch_once (self, client, path)) == -2)
        ;
    wm_client_close (client, WM_REASON_DONE, "has the model");
    wm_client_destroy (&client);
    return code;
}

/* Waits until the first engine process has proved itself.  */
static int wait_for_engine (wm_lane_t *self)
{
    wm_error_t error = { 0 };
    unsigned slot;
    const char *why;
    while (!zsys_interrupted) {
        if (lane_time_left (self, 1, &why) <= 0) {
            lane_say ("leaves before its engine has begun: %s", why);
            return WM_EXIT_OK;
        }
        struct pollfd item = { .fd = wm_scorer_fd (self->scorer), .events = POLLIN };
        poll (&item, 1, TICK_MS);
        switch (wm_scorer_look (self->scorer, &slot, &error)) {
        case WM_SCORER_READY:
            lane_say ("engine %s, %d threads, model %.12s: the self-test is passed",
                      wm_scorer_signature (self->scorer), self->config->threads, self->pins.model);
            return -1;
        case WM_SCORER_HOPELESS:
            lane_say ("the engine %s cannot run here: %s", self->config->engine, error.text);
            return error.fault == WM_EBATCH ? WM_EXIT_INPUT : WM_EXIT_ENGINE;
        case WM_SCORER_SPLIT:
        case WM_SCORER_ENDED:
            lane_say ("the engine %s did not prove itself: %s", self->config->engine, error.text);
            return WM_EXIT_FAILURE;
        default:
            break;
        }
    }
    return WM_EXIT_AGAIN;
}

int lane_prepare (wm_lane_t *self)
{
    char path[WM_CACHE_PATH_MAX];
    wm_error_t error = { 0 };
    const int code = fetch_model (self, path);
    if (code >= 0)
        return code;
    const wm_scorer_config_t config = { .engine = self->config->engine,
                                        .threads = self->config->threads,
                                        .pin = self->config->pin,
                                        .pins = &self->pins,
                                        .model_path = path };
    self->scorer = wm_scorer_new (&config, &error);
    if (!self->scorer) {
        lane_say ("%s", error.text);
        return WM_EXIT_FAILURE;
    }
    return wait_for_engine (self);
}
