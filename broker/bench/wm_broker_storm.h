/* wm_broker_storm.h - for `wiremill-broker --bench`: a process that asks a broker with keys for one
   handshake after another, by a key that it does not know. Thread: one, before others start.  */
#ifndef WM_BROKER_STORM_H
#define WM_BROKER_STORM_H

#include <stdint.h>
#include <sys/types.h>

typedef struct {
    pid_t pid;
    uint64_t *n_refused; /* shared: handshakes that the broker has refused so far */
} wm_storm_t;

/* Starts the process at the lowest priority; it begins when the broker of `endpoint` (as a client
   has it) serves, whose keys are in the folder `campaign`. pid -1: it cannot be started.  */
wm_storm_t wm_storm_start (const char *endpoint, const char *campaign, unsigned handshakes_a_s);
uint64_t wm_storm_refused (const wm_storm_t *self);
void wm_storm_end (wm_storm_t *self);

#endif
