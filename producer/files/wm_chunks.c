/* wm_chunks.c - see wm_chunks.h.  */
#include "producer/files/wm_chunks.h"
#include "producer/files/wm_space.h"

#include <libdeflate.h>
#include <stdlib.h>

#define KEPT_BYTES (1u << 20) /* larger work spaces are freed after each call */
#define SUM_BYTES 4u          /* that fletcher32 adds */

typedef struct {
    int n_filter, n_dim;
    H5Z_filter_t filter[32];
    hsize_t dim[8], chunk[8];
    uint64_t chunk_bytes;
} form_t;

/* Of the one thread of all files.  */
static struct {
    void *stored, *raw;
    size_t stored_max, raw_max;
    struct libdeflate_decompressor *inflate;
} space;

static void shrink (void **memory, size_t *bytes_max)
{
    if (*bytes_max <= KEPT_BYTES)
        return;
    free (*memory);
    *memory = NULL, *bytes_max = 0;
}

/* false: there are no filters (H5Dread_chunk reads as many bytes as a hostile file states then), or
   some whose output only the library knows.  */
static bool form_read (hid_t id, form_t *form)
{
    hid_t type = H5Dget_type (id), data = H5Dget_space (id), list = H5Dget_create_plist (id);
    form->n_dim = H5Sget_simple_extent_ndims (data);
    form->n_filter = H5Pget_nfilters (list);
    bool deflates = false;
    bool fine = form->n_dim >= 1 && form->n_dim <= 8 && form->n_filter >= 1 &&
                form->n_filter <= 32 &&
                H5Sget_simple_extent_dims (data, form->dim, NULL) == form->n_dim &&
                H5Pget_chunk (list, 8, form->chunk) == form->n_dim;
    form->chunk_bytes = H5Tget_size (type);
    for (int i = 0; fine && i < form->n_dim; i++)
        fine = form->chunk[i] > 0 &&
               !__builtin_mul_overflow (form->chunk_bytes, form->chunk[i], &form->chunk_bytes);
    for (int i = 0; fine && i < form->n_filter; i++) {
        unsigned flags;
        size_t n_value = 0;
        const H5Z_filter_t filter =
            H5Pget_filter2 (list, (unsigned) i, &flags, &n_value, NULL, 0, NULL, NULL);
        fine = filter == H5Z_FILTER_FLETCHER32 ||
               (!deflates && (filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_DEFLATE));
        deflates |= filter == H5Z_FILTER_DEFLATE;
        form->filter[i] = filter;
    }
    H5Pclose (list);
    H5Sclose (data);
    H5Tclose (type);
    return fine;
}

/* Returns whether the chunk in space.stored, which did not take the filters in `skipped`, is short
   of `want` bytes. What no stream at all is, the library refuses.  */
static bool is_less (const form_t *form, size_t bytes, uint32_t skipped, uint64_t want)
{
    bool deflates = false;
    for (int i = form->n_filter; i-- > 0;) {
        const bool sum = form->filter[i] == H5Z_FILTER_FLETCHER32;
        if (skipped >> i & 1)
            continue;
        if (sum && deflates)
            want += SUM_BYTES;
        else if (sum && bytes < SUM_BYTES)
            return true;
        else if (sum)
            bytes -= SUM_BYTES;
        deflates |= form->filter[i] == H5Z_FILTER_DEFLATE;
    }
    if (!deflates)
        return bytes < want;
    return libdeflate_zlib_decompress (space.inflate, space.stored, bytes, space.raw, want, NULL) ==
           LIBDEFLATE_SHORT_OUTPUT;
}

wm_chunk_t wm_chunks_fetch (hid_t id, const hsize_t *at, uint64_t chunk_bytes, void **to,
                            size_t *to_max, size_t *bytes, uint32_t *skipped)
{
    hsize_t stored;
    if (H5Dget_chunk_storage_size (id, at, &stored) < 0)
        return WM_CHUNK_FAILED;
    if (!stored)
        return WM_CHUNK_UNWRITTEN;
    if (stored > chunk_bytes + chunk_bytes / 8 + 4096)
        return WM_CHUNK_LONG;
    if (!wm_space_grow (to, to_max, stored + stored / 8))
        return WM_CHUNK_NO_MEMORY;
    *bytes = stored;
    return H5Dread_chunk (id, H5P_DEFAULT, at, skipped, *to) >= 0 ? WM_CHUNK_FETCHED
                                                                  : WM_CHUNK_FAILED;
}

static wm_fault_t chunk_check (hid_t id, const form_t *form, const hsize_t at[8], bool *is_short,
                               wm_error_t *error)
{
    size_t bytes;
    uint32_t skipped;
    const wm_chunk_t is = wm_chunks_fetch (id, at, form->chunk_bytes, &space.stored,
                                           &space.stored_max, &bytes, &skipped);
    *is_short = is == WM_CHUNK_LONG;
    if (is != WM_CHUNK_FETCHED && is != WM_CHUNK_NO_MEMORY)
        return WM_OK;
    if (!space.inflate)
        space.inflate = libdeflate_alloc_decompressor ();
    if (is == WM_CHUNK_NO_MEMORY || !space.inflate ||
        !wm_space_grow (&space.raw, &space.raw_max, form->chunk_bytes + 32 * SUM_BYTES))
        return wm_fault (error, WM_EHOST, "out of memory");
    *is_short = is_less (form, bytes, skipped, form->chunk_bytes);
    return WM_OK;
}

/* Moves to the next chunk beside this one. false: this was the last.  */
static bool next (const form_t *form, hsize_t at[8])
{
    for (int i = form->n_dim; i-- > 1;) {
        at[i] += form->chunk[i];
        if (at[i] < form->dim[i])
            return true;
        at[i] = 0;
    }
    return false;
}

wm_fault_t wm_chunks_check (hid_t id, uint64_t first, uint64_t count, bool *is_short,
                            wm_error_t *error)
{
    form_t form;
    wm_fault_t fault = WM_OK;
    *is_short = false;
    if (!form_read (id, &form))
        return WM_OK;
    hsize_t at[8] = { first - first % form.chunk[0] };
    for (; at[0] < first + count && !*is_short && !fault; at[0] += form.chunk[0])
        do
            fault = chunk_check (id, &form, at, is_short, error);
        while (!*is_short && !fault && next (&form, at));
    shrink (&space.stored, &space.stored_max);
    shrink (&space.raw, &space.raw_max);
    return fault;
}
