/* wm_render_process.h - makes a page or picture from files of others in a process of its own, and
   stores it.

   A file of events or scores may take over the library that reads it. A child reads such files,
   confined as every verb that reads them (wm_produce_confine.h), and writes to a file without a
   name, or to memory. This process, which opens none of them, gives what the child made the name
   asked for (wm_file.h): whole, or not at all, so that a failure leaves an older file as it is.
   Thread: one, before others.  */
#ifndef WM_RENDER_PROCESS_H
#define WM_RENDER_PROCESS_H

#include "schema/base/wm_fault.h"

#include <stddef.h>
#include <stdio.h>

/* Runs `make` in a child and returns the exit code that it returned; what it wrote to `out`, a file
   that it may also map, is stored as `path`, and nothing where it wrote nothing. WM_EXIT_FAILURE
   (printed as of this verb): it cannot be stored, or the child was ended by a signal. path NULL:
   calls `make` here, with out NULL.  */
int wm_render_process_run (const char *verb, const char *path, int (*make) (void *arg, FILE *out),
                           void *arg);

/* Runs `make` in a child likewise and takes what it wrote as a text, cut to fit. Returns its exit
   code.  */
int wm_render_process_text (const char *verb, int (*make) (void *arg, FILE *out), void *arg,
                            char *text, size_t bytes_max);

/* Runs `make` in a child likewise; what it wrote is copied to `out`, if its exit code is
   WM_EXIT_OK. Returns that code.  */
int wm_render_process_copy (const char *verb, int (*make) (void *arg, FILE *out), void *arg,
                            FILE *out);

#endif
