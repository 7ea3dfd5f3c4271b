/* wm_openvino_pin.h - keeps OpenVINO's threads on CPUs.  */
#ifndef WM_OPENVINO_PIN_H
#define WM_OPENVINO_PIN_H

#include <stdbool.h>
#include <stdint.h>

#define WM_OPENVINO_TASKS_MAX 1024u

/* Before OpenVINO is started first in this process: its threads will stay where they are put.  */
void wm_openvino_pin_ready (void);

/* A thread of this process, and for how long it has run.  */
typedef struct {
    int thread;
    uint64_t ran_ns;
} wm_openvino_task_t;

/* All of this process but the caller. Returns how many.  */
uint32_t wm_openvino_tasks (wm_openvino_task_t task[WM_OPENVINO_TASKS_MAX]);

/* Puts the n threads that ran most since they were looked at in `before` on the CPUs that the
   caller may use, one on each, round and round. false: some of them ran so little that others may
   be meant, and nothing was done.  */
bool wm_openvino_pin (const wm_openvino_task_t *before, uint32_t n_before, uint32_t n);

#endif
