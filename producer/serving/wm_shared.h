/* wm_shared.h - system shared memory: files of /dev/shm that clients have registered as regions.

   A client may cut such a file short, or end, at any moment. So nothing of it is mapped: bytes are
   copied by pread and pwrite, which fail where a mapping would raise SIGBUS, and what is computed
   is computed of the copy. A key is the name of a file that lies in /dev/shm itself and belongs to
   the gateway's user; nothing else is opened. A region stays open until it is unregistered and the
   last request that has a part of it is answered. Thread: the loop's.  */
#ifndef WM_SHARED_H
#define WM_SHARED_H

#include "producer/serving/wm_kserve.h"

#define WM_SHARED_REGIONS_MAX 1024

typedef struct wm_shared_t wm_shared_t;
typedef struct wm_shared_region_t wm_shared_region_t;

/* folder: where keys are files, lent; "/dev/shm" but in tests.  */
wm_shared_t *wm_shared_new (const char *folder);
void wm_shared_destroy (wm_shared_t **self_p);

/* ---- what clients ask for; `self` may be NULL: UNIMPLEMENTED --------------------------------- */

/* Registers a region. request: "key", "offset" (may be missing: 0), "byte_size".  */
wm_ks_code_t wm_shared_register (wm_shared_t *self, const char *name, const json_t *request,
                                 wm_ks_error_t *error);
/* Forgets a region, where there is one of this name; "": all.  */
wm_ks_code_t wm_shared_unregister (wm_shared_t *self, const char *name, wm_ks_error_t *error);
/* Returns a region ("": all) as an object: names to name, key, offset, byte_size. The caller's;
   NULL with *error.  */
json_t *wm_shared_status (const wm_shared_t *self, const char *name, wm_ks_error_t *error);

/* Refuses CUDA's shared memory, which there is not. What it means for no regions (their list; to
   unregister all, as perf_analyzer does at its end) is refused only where `self` is NULL.  */
wm_ks_code_t wm_shared_cuda (const wm_shared_t *self, bool of_none, wm_ks_error_t *error);

/* Refuses a region of it. request: "byte_size".  */
wm_ks_code_t wm_shared_cuda_register (const wm_shared_t *self, const char *name,
                                      const json_t *request, wm_ks_error_t *error);

/* ---- tensors --------------------------------------------------------------------------------- */

/* Where a client wants a tensor to be. region NULL: in the message.  */
typedef struct {
    const char *region;
    int64_t offset, bytes;
} wm_shared_wish_t;

/* The bytes of a region that a tensor has. Zeroed: none.  */
typedef struct {
    wm_shared_region_t *region;
    uint64_t offset; /* in the region */
    size_t bytes;
} wm_shared_part_t;

/* Takes a part, which wm_shared_drop gives back. tensor: its name, for the error.  */
wm_ks_code_t wm_shared_take (wm_shared_t *self, const wm_shared_wish_t *wish, const char *tensor,
                             wm_shared_part_t *part, wm_ks_error_t *error);
void wm_shared_drop (wm_shared_part_t *part);

/* Copy so many bytes between the part, from `at` on, and memory. INVALID: the file is too short by
   now; EXHAUSTED: it has no memory for them.  */
wm_ks_code_t wm_shared_read (const wm_shared_part_t *part, size_t at, void *to, size_t bytes,
                             wm_ks_error_t *error);
wm_ks_code_t wm_shared_write (const wm_shared_part_t *part, size_t at, const void *from,
                              size_t bytes, wm_ks_error_t *error);

#endif
