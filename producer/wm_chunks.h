/* wm_chunks.h - finds chunks of an HDF5 dataset that hold less than a chunk.

   When a chunk has passed its filters, the HDF5 library does not look how long it is: where it is
   short, the library takes what lies behind it in memory for values. So chunks are inflated once
   before the library reads them. That covers shuffle, fletcher32 and one deflate in the order in
   which libraries write them. What other filters make of a chunk is left to the library, and so are
   chunks without filters, because it tells only the size that they should have.
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

#endif
