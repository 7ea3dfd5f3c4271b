/* wm_gpu_fake_memory.h - the memory of the stand-in for a GPU.

   Each allocation lies between pages that can never be touched, ends where the page behind begins
   (but for its alignment), and begins as NaN. The host can touch the device's only while it is
   open. What lies in its pages beside the data is a guard.  */
#ifndef WM_GPU_FAKE_MEMORY_H
#define WM_GPU_FAKE_MEMORY_H

#include "tests/standin/wm_gpu_fake_order.h"

#define FAKE_ALIGN 256u
#define FAKE_REGIONS_MAX 128

typedef struct {
    char *page, *data;    /* data ends where the page behind begins, or up to 255 bytes before */
    size_t bytes, inside; /* asked for; all that is not guard */
    bool device;
    fake_use_t use;
} fake_region_t;

typedef struct {
    fake_region_t region[FAKE_REGIONS_MAX];
    uint32_t n;
    const char *lent; /* memory of others that is pinned */
    size_t lent_bytes;
} fake_memory_t;

/* Asserts on memory. The device's is not open.  */
void *fake_memory_new (fake_memory_t *self, size_t bytes, bool device);

/* Frees everything; returns how many allocations have a guard that is not as it was.  */
uint32_t fake_memory_clear (fake_memory_t *self);

/* Lets the host touch the device's memory, or no longer.  */
void fake_memory_open (const fake_memory_t *self, bool open);

/* Returns the allocation that p lies in, NULL for none.  */
fake_region_t *fake_memory_find (fake_memory_t *self, const void *p);

/* Whether an allocation of the device, or a pinned one, holds these bytes.  */
bool fake_memory_holds (const fake_memory_t *self, const void *p, size_t bytes, bool device);

/* Whether they are memory of others that is pinned.  */
bool fake_memory_is_lent (const fake_memory_t *self, const void *p, size_t bytes);

#endif
