/* wm_advertise.h - what a broker writes about where it is: endpoint.json and the start lines.  */
#ifndef WM_ADVERTISE_H
#define WM_ADVERTISE_H

#include "schema/session/wm_endpoint.h"

/* Fills *self: this process, this machine, its endpoint and what it listens on. `given`
   (--advertise; NULL: none) is what other machines use, for example the outer side of a port
   forward. Without it that is what the broker listens on; * stands for the machine's name, and,
   for networks that do not know the name, the addresses of its interfaces.  */
void wm_advertise (wm_endpoint_t *self, const char *endpoint, const char *listens,
                   const char *given);

/* Prints to stderr where the broker serves `campaign` and what to type there; `command` starts
   `wiremill`. for_clients: it takes patches of programs, not of files.  */
void wm_advertise_print (const wm_endpoint_t *self, const char *campaign, const char *command,
                         bool for_clients);

#endif
