/* wm_clients.h - what commands say of a broker that serves clients: programs that send patches.  */
#ifndef WM_CLIENTS_H
#define WM_CLIENTS_H

#include "ops/campaign/wm_processes.h"
#include "schema/option/wm_option.h"
#include "schema/wm_defaults.h"

#include <jansson.h>

/* The campaign of `wiremill run --clients`, in the current folder, where Client () of Python looks.
 */
#define WM_CLIENTS_FOLDER "clients.wiremill"

/* With --clients; and brokers that its workers serve too, for wm_clients_bulk.  */
/* clang-format off */
#define BULK_OPTIONS \
    {.name = "exact-types", \
     .help = "with --clients, for wiremill gateway: integers of 32 and 64 bits and FP64 stay as " \
             "they are, and are not float32"}, \
    {.name = "bulk", .value = "ENDPOINT", \
     .help = "with --clients: while no client waits the workers score for this broker of a bulk " \
             "campaign too, whenever it is there; may be repeated"}, \
    {.name = "bulk-share", .value = "PERCENT", .least = 0, .most = 99, \
     .help = "of the time, for --bulk while clients always wait (default: " \
             WM_DEFAULT_BULK_PERCENT "; 0: none)"}, \
    {.name = "bulk-when", .value = "/dev/fd/N", .path = WM_PATH_OPEN, \
     .help = "clients elsewhere wait, too, while this inherited descriptor cannot be read (of " \
             "wiremill gateway)"}
/* clang-format on */

/* Takes them: the crew's workers get what was typed, which `args` keeps.  */
void wm_clients_bulk (const wm_args_t *args, wm_processes_t *crew);

/* Without --clients: refuses, and prints, what is only for it.  */
bool wm_clients_missed (const wm_args_t *args);

/* With --clients: refuses, and prints, what has no meaning where no file is read or written.  */
bool wm_clients_refused (const wm_args_t *args);

/* Prints how programs of this machine reach the broker of `wiremill run`.  */
void wm_clients_print (const char *endpoint, const char *campaign);

/* Prints how many patches were scored; nothing where no broker told (NULL).  */
void wm_clients_summary (const json_t *status, double seconds);

#endif
