/* wm_resident.h - keeps the broker's memory within its budget, beside what malloc keeps.

   Payloads are allocated by libzmq's thread and freed by the broker's. malloc keeps freed memory
   for the next ones, which may not fit the gaps that small allocations left: so more stays resident
   than is in use, and how much more depends on the order of events. Returning each payload's pages
   at once (M_MMAP_THRESHOLD) would bound it, and doubles the broker's CPU time for payloads of
   4 MiB. Here malloc returns what it keeps only where that and the payloads that are here or may
   come are more than the budget and WM_RESIDENT_SLACK, and only where it has kept 4 MiB since it
   last could return no more.
   Thread: one; one for the process.  */
#ifndef WM_RESIDENT_H
#define WM_RESIDENT_H

#include "broker/core/wm_core.h"

#include <stdbool.h>
#include <stdint.h>

/* Memory beyond payloads and what is in use, before anything is returned.  */
#define WM_RESIDENT_SLACK (8u << 20)

/* Takes the memory of now as what the broker has without payloads.  */
void wm_resident_begin (uint64_t budget_bytes);

/* Called with each NEED. Looks each 4 MiB that are asked for. Returns whether malloc was asked to
   return what it keeps.  */
bool wm_resident_check (const wm_core_t *core);

#endif
