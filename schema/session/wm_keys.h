/* wm_keys.h - a campaign's table of keys, its server key and its join files.

   In the campaign's folder, all of mode 600:
     server-key    the broker's private key, made once
     keys          the table: who may join. Public keys only: reading it lets no one join
     join-worker, join-producer, join-operator, join-monitor   the newest key of each role

   The table is text, its fields separated by tabs; times are seconds of 1970, 0: none:
     wiremill-keys 1
     role id public-key made expires revoked note     one line a key
     end N                                            N lines are before it

   `wiremill keys` changes it, under a lock on `keys.lock` (600, too), whether a broker runs or not;
   the broker reads it again when it changed. Thread: any; one at a time for a table.  */
#ifndef WM_KEYS_H
#define WM_KEYS_H

#include "schema/session/wm_join.h"

#define WM_KEYS_MAX 1024
#define WM_KEYS_NOTE_BYTES 81

typedef struct {
    wm_role_t role;
    char id[WM_JOIN_ID_BYTES];
    uint8_t public_key[32];
    int64_t made_s, expires_s, revoked_s; /* 0: never */
    char note[WM_KEYS_NOTE_BYTES];
} wm_keys_row_t;

typedef struct {
    size_t n;
    wm_keys_row_t *row;
} wm_keys_t;

/* Reads CAMPAIGN/keys. WM_EBATCH: it is not a table; WM_EHOST: it cannot be read. *self is as it
   was then.  */
wm_fault_t wm_keys_read (wm_keys_t *self, const char *campaign, wm_error_t *error);
wm_fault_t wm_keys_write (const wm_keys_t *self, const char *campaign, wm_error_t *error);
void wm_keys_free (wm_keys_t *self);

/* Return the row of an id, of a public key; NULL: no row has it.  */
wm_keys_row_t *wm_keys_of_id (const wm_keys_t *self, const char *id);
wm_keys_row_t *wm_keys_of_public (const wm_keys_t *self, const uint8_t public_key[32]);

/* Explains why a key is not admitted now ("it expired"); NULL: it is.  */
const char *wm_keys_why_not (const wm_keys_row_t *row, int64_t now_s);

/* Locks the table of a campaign against other `wiremill keys`, and waits for them, 10 s at
   most. Returns a descriptor to close; -1 and *error.  */
int wm_keys_lock (const char *campaign, wm_error_t *error);

/* Makes a key: a row at the end of the table (not yet written), and its line's content. Rows that
   ended 30 days ago leave the table; from a full one, the row that ended first.  */
wm_fault_t wm_keys_add (wm_keys_t *self, const char *campaign, wm_role_t role, int64_t expires_s,
                        const char *note, wm_join_t *join, wm_error_t *error);

/* Writes the line of a join file, which only this user may read.  */
wm_fault_t wm_keys_write_join (const char *path, const wm_join_t *join, wm_error_t *error);

/* Makes what a campaign needs and has not: server key, table, and with the table a key and a join
   file of each role. WM_EBATCH: a table whose server key is lost.  */
wm_fault_t wm_keys_begin (const char *campaign, wm_error_t *error);

/* Returns whether a file of this name in a campaign's folder is one of those above.  */
bool wm_keys_is_secret (const char *name);

/* Reads the server key. `private_key` may be NULL.  */
wm_fault_t wm_keys_server (const char *campaign, uint8_t public_key[32], uint8_t private_key[32],
                           wm_error_t *error);

#endif
