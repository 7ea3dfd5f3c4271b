/* h5_fails.h - one call of the HDF5 library that makes, writes or closes something fails: that with
   the number h5_fails, from 0. A close that fails has closed; that of a group writes nothing.  */
#ifndef H5_FAILS_H
#define H5_FAILS_H

#include "producer/writing/wm_writer.h"

#include <dlfcn.h>
#include <errno.h>
#include <hdf5.h>

static int h5_fails = -1, h5_calls;
static const char *h5_failed; /* its name */

static bool h5_fail (const char *name)
{
    const bool fails = h5_calls++ == h5_fails;
    h5_failed = fails ? name : h5_failed;
    return fails;
}

#define H5_CALL(type_, name_, parameters_, arguments_, closes_)                                    \
    type_ name_ parameters_                                                                        \
    {                                                                                              \
        static type_ (*real) parameters_;                                                          \
        if (!real)                                                                                 \
            *(void **) &real = dlsym (RTLD_NEXT, #name_);                                          \
        const bool fails = h5_fail (#name_);                                                       \
        if (fails && !(closes_))                                                                   \
            return -1;                                                                             \
        const type_ result = real arguments_;                                                      \
        return fails ? -1 : result;                                                                \
    }

H5_CALL (hid_t, H5Fcreate, (const char *name, unsigned flags, hid_t list, hid_t access),
         (name, flags, list, access), false)
H5_CALL (hid_t, H5Gcreate2, (hid_t at, const char *name, hid_t links, hid_t list, hid_t access),
         (at, name, links, list, access), false)
H5_CALL (hid_t, H5Dcreate2,
         (hid_t at, const char *name, hid_t type, hid_t space, hid_t links, hid_t list,
          hid_t access),
         (at, name, type, space, links, list, access), false)
H5_CALL (hid_t, H5Acreate2,
         (hid_t at, const char *name, hid_t type, hid_t space, hid_t list, hid_t access),
         (at, name, type, space, list, access), false)
H5_CALL (herr_t, H5Awrite, (hid_t at, hid_t type, const void *from), (at, type, from), false)
H5_CALL (herr_t, H5Dwrite,
         (hid_t at, hid_t type, hid_t memory, hid_t file, hid_t list, const void *from),
         (at, type, memory, file, list, from), false)
H5_CALL (herr_t, H5Dwrite_chunk,
         (hid_t at, hid_t list, uint32_t filters, const hsize_t *offset, size_t bytes,
          const void *from),
         (at, list, filters, offset, bytes, from), false)
H5_CALL (herr_t, H5Fflush, (hid_t at, H5F_scope_t scope), (at, scope), false)
H5_CALL (ssize_t, H5Fget_file_image, (hid_t at, void *to, size_t bytes), (at, to, bytes), false)
H5_CALL (herr_t, H5Dclose, (hid_t at), (at), true)
H5_CALL (herr_t, H5Fclose, (hid_t at), (at), true)

/* Each call of the writer fails once: that is an error, there is no output and nothing is left
   open, neither a file nor an object. Returns the number of calls.  */
static int h5_each_call_fails (const wm_writer_job_t *job)
{
    wm_writer_result_t result;
    wm_error_t error;
    char part[200];
    snprintf (part, sizeof part, "%s.part", job->path);
    for (int n = 0;; n++) {
        const test_ids_t ids = test_ids_begin ();
        wm_writer_t *writer = wm_writer_new (job);
        wm_fault_t fault = WM_OK;
        h5_fails = n, h5_calls = 0;
        for (bool done = false; !done && !fault;) {
            errno = ENOSPC; /* of another call, long ago */
            fault = wm_writer_step (writer, &done, &result, &error);
        }
        wm_writer_destroy (&writer);
        h5_fails = -1;
        if (h5_calls <= n) {
            assert_int_equal (fault, WM_OK);
            unlink (job->path);
            return n;
        }
        if (fault != WM_EHOST)
            fail_msg ("call %d (%s) failed, and the writer returned %d", n, h5_failed, fault);
        assert_non_null (strstr (error.text, "cannot write: "));
        if (access (part, F_OK) == 0 || access (job->path, F_OK) == 0)
            fail_msg ("call %d (%s) failed, and a file remained", n, h5_failed);
        if (test_ids_end (&ids))
            fail_msg ("call %d (%s) failed, and objects remained open", n, h5_failed);
    }
}

#endif
