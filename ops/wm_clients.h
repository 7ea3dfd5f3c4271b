/* wm_clients.h - what commands say of a broker that serves clients: programs that send patches.  */
#ifndef WM_CLIENTS_H
#define WM_CLIENTS_H

#include "schema/base/wm_option.h"

#include <jansson.h>

/* The campaign of `wiremill run --clients`, in the current folder, where Client () of Python looks.
 */
#define WM_CLIENTS_FOLDER "clients.wiremill"

/* With --clients: refuses, and prints, what has no meaning where no file is read or written.  */
bool wm_clients_refused (const wm_args_t *args);

/* Prints how programs of this machine reach the broker of `wiremill run`.  */
void wm_clients_print (const char *endpoint, const char *campaign);

/* Prints how many patches were scored; nothing where no broker told (NULL).  */
void wm_clients_summary (const json_t *status, double seconds);

#endif
