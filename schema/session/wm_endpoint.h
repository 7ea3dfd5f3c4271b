/* wm_endpoint.h - where a broker is: its endpoint.json, and the addresses that a client tries.

   CAMPAIGN/endpoint.json is there while a broker serves the campaign, so that whoever has the
   folder, also on another machine that shares it, finds the broker without an address:

     endpoint    base address that programs on the broker's machine use
     listen      base addresses that it is bound to
     advertise   base addresses for other machines; none where only its own reaches it
     keys        whether peers need a key (wm_join.h)
     host, pid, started (Unix time), campaign (its id), version

   A broker that was killed leaves the file behind. Readers ignore fields that they do not know.
   Thread: any.  */
#ifndef WM_ENDPOINT_H
#define WM_ENDPOINT_H

#include "schema/base/wm_address.h"
#include "schema/base/wm_fault.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_ENDPOINT_BYTES 1024 /* several addresses, joined by commas */
#define WM_ENDPOINT_PLACES_MAX 16

typedef struct {
    char endpoint[WM_ADDRESS_BYTES];
    char listen[WM_ENDPOINT_BYTES], advertise[WM_ENDPOINT_BYTES]; /* joined by commas */
    char host[128], campaign[33], version[32];
    long pid;
    int64_t started_s;
    bool has_keys;
} wm_endpoint_t;

/* Writes DIR/endpoint.json (a temporary file, synced and renamed). WM_EAGAIN: the disk is full.  */
wm_fault_t wm_endpoint_write (const wm_endpoint_t *self, const char *dir, wm_error_t *error);

/* Returns the addresses of a text as an array of strings, the caller's.  */
json_t *wm_endpoint_list (const char *text);

/* Reads such a file. WM_EAGAIN: it does not exist, or is damaged; *error explains.  */
wm_fault_t wm_endpoint_read (wm_endpoint_t *self, const char *path, wm_error_t *error);

/* Returns whether the file was written on this machine, as far as the host name shows.  */
bool wm_endpoint_is_here (const wm_endpoint_t *self);

/* Joins the addresses to try from here: at most WM_ADDRESSES_MAX that fit `bytes`. WM_EAGAIN: none
   of them can be reached from another machine.  */
wm_fault_t wm_endpoint_choose (const wm_endpoint_t *self, char *text, size_t bytes,
                               wm_error_t *error);

/* Prints "it was last at tcp://head:5555 on head, started 2026-11-22 10:00 UTC".  */
void wm_endpoint_last (const wm_endpoint_t *self, char text[WM_ADDRESS_BYTES + 200]);

/* Adds to the error where the broker was last that `endpoint`, file://..., names; of any other
   endpoint nothing.  */
void wm_endpoint_explain (const char *endpoint, wm_error_t *error);

/* Fills `list` with the numeric addresses of one role's port (0 workers, 1 producers, 2 operators)
   that `endpoint` stands for. Returns how many; 0: *error explains, WM_EPEER what trying again
   cannot help.  */
int wm_endpoint_resolve (const char *endpoint, unsigned role,
                         char list[WM_ENDPOINT_PLACES_MAX][WM_ADDRESS_BYTES], wm_error_t *error);

#endif
