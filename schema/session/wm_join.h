/* wm_join.h - join files: the one line that lets a process join a campaign by a key of its role.

   The line is "wm1-" and 128 letters and digits (no i, l, o, u; case does not matter): the key's
   role, id and expiry, a secret of 32 bytes, the campaign's public key and a checksum, so that a
   program distinguishes a mistyped line from a key that the broker does not admit. The broker does
   not have the secret: it keeps the public key that is derived from it (wm_keys.h).

   A secret is never in an argument, an environment, a log or a core file: files are read when a
   session is opened (so that a rotated key is found without a restart), what was read is locked in
   memory and wiped, and a process that has read one writes no core file.

   Thread: wm_join_take before there is another thread; the rest any.  */
#ifndef WM_JOIN_H
#define WM_JOIN_H

#include "schema/base/wm_fault.h"
#include "schema/option/wm_option.h"
#include "schema/session/wm_msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_JOIN_ID_BYTES 9     /* 8 hex digits and NUL */
#define WM_JOIN_LINE_BYTES 133 /* "wm1-", 128 digits and NUL */
#define WM_JOIN_GIVEN_MAX 16   /* by --join-file */
#define WM_JOIN_FILES_MAX 256  /* in all: also four of each of 64 campaigns, as top shows */

typedef struct {
    wm_role_t role;
    char id[WM_JOIN_ID_BYTES];
    int64_t expires_s; /* seconds of 1970; 0: never. Only the broker's table decides */
    uint8_t secret[32];
    uint8_t server[32]; /* the campaign's public key */
} wm_join_t;

/* The option of every program that opens sessions; for wm_join_take.  */
/* clang-format off */
#define WM_JOIN_OPTION \
    {.name = "join-file", .value = "FILE", .path = WM_PATH_READ, \
     .text = "a join file", .may_lack = true, \
     .help = "its line is the key for the broker, - reads it from standard input; may be given " \
             "once for each role or broker (default: $WM_JOIN_FILE)"}
/* clang-format on */

/* Return a role's name ("worker"), and the role of a name; 0: no role has this name.  */
const char *wm_role_name (wm_role_t role);
wm_role_t wm_role_of (const char *name);

/* Returns whether a key of this role opens sessions of that role: its own; an operator's sessions
   also by a monitor's.  */
bool wm_role_fits (wm_role_t key, wm_role_t session);

/* Reads a line (spaces around it are passed over). WM_EUSAGE: it is no such line, or mistyped; the
   text repeats nothing of it.  */
wm_fault_t wm_join_parse (wm_join_t *self, const char *line, wm_error_t *error);
void wm_join_print (const wm_join_t *self, char line[WM_JOIN_LINE_BYTES]);

/* Reads a join file; one of this process that cannot be read twice was kept by wm_join_take.
   WM_EUSAGE: it cannot be read, or wm_join_parse refuses it.  */
wm_fault_t wm_join_read (wm_join_t *self, const char *path, wm_error_t *error);

/* Derives the key pair of CURVE: the private key is BLAKE2b of the role, keyed with the secret.  */
void wm_join_pair (const wm_join_t *self, uint8_t public_key[32], uint8_t private_key[32]);

/* Overwrites what is secret in it.  */
void wm_join_wipe (wm_join_t *self);

/* Keeps this process from writing a core file: libzmq has copies of its keys.  */
void wm_join_protect (void);

/* ---- the join files of this process ---------------------------------------------------------- */

/* Takes each --join-file of `args`, else WM_JOIN_FILE, checks it, and warns on stderr where others
   may read it. WM_EUSAGE: it was refused.  */
wm_fault_t wm_join_take (const wm_args_t *args, wm_error_t *error);

/* Returns whether there is no key, or one for sessions of this role; and whether the i-th file is
   one.  */
bool wm_join_suffices (wm_role_t session);
bool wm_join_fits (size_t i, wm_role_t session);

/* Adds a file, as a campaign's folder has it, where none was taken and it can be read. Thread:
   any.  */
void wm_join_offer (const char *path);

/* Returns whether the i-th file was taken, or offered from this campaign's folder (NULL: of any);
   and whether one was.  */
bool wm_join_is_of (size_t i, const char *campaign);
bool wm_join_any (const char *campaign);

/* Copies what cannot be read twice (standard input, a pipe) to a file in memory, whose path
   wm_join_path returns then.  */
wm_fault_t wm_join_hand_on (wm_error_t *error);

/* Returns the i-th path; NULL past the last.  */
const char *wm_join_path (size_t i);

/* The same for a program that is started from here: it inherits the descriptor that the path names.
   Others, and what that program starts, do not.  */
const char *wm_join_give (size_t i);

#endif
