/* wm_chunks.h - chunks of an HDF5 dataset as they lie on disk: what one has, which hold too little.

   When a chunk has passed its filters, the HDF5 library does not look how long it is: where it is
   short, the library takes what lies behind it in memory for values. So chunks are inflated once
   before the library reads them. That covers shuffle, fletcher32 and one deflate in the order in
   which libraries write them. What other filters make of a chunk is left to the library, and so are
   chunks without filters, because it reports only the size that they should have.
   Thread: that of the file.  */
#ifndef WM_CHUNKS_H
#define WM_CHUNKS_H

#include "schema/base/wm_fault.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* Sets *is_short to whether a chunk with any of the rows first .. first+count-1 is short, or longer
   than what any library packs a chunk to. `id` is a dataset in chunks, with filters, of at most 8
   dimensions. WM_EHOST: out of memory.  */
wm_fault_t wm_chunks_check (hid_t id, uint64_t first, uint64_t count, bool *is_short,
                            wm_error_t *error);

typedef enum {
    WM_CHUNK_FETCHED,
    WM_CHUNK_UNWRITTEN, /* it never was */
    WM_CHUNK_LONG,      /* longer than what any library packs chunk_bytes to: a hostile file's */
    WM_CHUNK_FAILED,    /* the library cannot read it */
    WM_CHUNK_NO_MEMORY
} wm_chunk_t;

/* Reads the chunk that begins at `at`, of a dataset with filters, as it lies on disk into the
   caller's *to, which grows: `bytes` of it, but for the filters in *skipped, which it did not take.
   chunk_bytes: of a chunk without filters.  */
wm_chunk_t wm_chunks_fetch (hid_t id, const hsize_t *at, uint64_t chunk_bytes, void **to,
                            size_t *to_max, size_t *bytes, uint32_t *skipped);

#endif
