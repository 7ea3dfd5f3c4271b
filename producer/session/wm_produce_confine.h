/* wm_produce_confine.h - what a producer gives up before it reads a file of events.

   A damaged or hostile file may take over the library that reads it. What the process can do then
   is what is left to it (schema/confine/wm_confine.h): talk to its broker, read the folders of its
   inputs, write in the output folder.  */
#ifndef WM_PRODUCE_CONFINE_H
#define WM_PRODUCE_CONFINE_H

#include "schema/base/wm_fault.h"
#include "schema/option/wm_option.h"

#include <stddef.h>

struct wm_produce_t;

/* At the start, before any thread: starts the courier (wm_file_opener.h) of endpoint.json and join
   files, gives up system calls, and starts libzmq's threads with no file to write. `broker` decides
   which sockets stay. WM_EHOST: no courier.  */
wm_fault_t wm_produce_confine_calls (const char *broker, wm_error_t *error);

/* When the output folder is known, before the first input is read: gives up all files but the
   inputs and that folder. Warns once of what this machine cannot take away.  */
void wm_produce_confine_files (const struct wm_produce_t *self);

/* For a verb without a broker, before it reads the first of these inputs or outputs (n): gives up
   both, system calls with all sockets, and all files but those; what it writes is open by then.  */
void wm_produce_confine_reader (const char *const path[], size_t n);

/* The same with the files that follow a verb's options, and opens the HDF5 library. Returns them,
   *n and a NULL; the array is the caller's, the texts are lent by args. NULL: no memory.  */
const char **wm_produce_confine_rest (const wm_args_t *args, size_t *n);

/* The same files; nothing is confined: for Python, which opens much before it reads them, and for
   verbs whose children read.  */
const char **wm_produce_rest (const wm_args_t *args, size_t *n);

/* The same; the folders of these files, or `folder` if it is not NULL, stay writable.  */
const char **wm_produce_confine_writer (const wm_args_t *args, const char *folder, size_t *n);

#endif
