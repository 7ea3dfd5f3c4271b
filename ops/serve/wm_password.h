/* wm_password.h - the password of `wiremill serve`: a file with one line.

   A request has it as a browser sends it (Basic, any user name) or as a program does (Bearer). What
   is kept is a keyed hash, and hashes are compared in constant time; the file is read once. The
   password crosses the network in the clear: HTTP is not encrypted.  */
#ifndef WM_PASSWORD_H
#define WM_PASSWORD_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stdint.h>

#define WM_PASSWORD_CHARACTERS_MIN 12

typedef struct {
    uint8_t key[32], hash[32];
} wm_password_t;

/* Reads the file's first line, without blanks around it. WM_EUSAGE: it cannot be read, is too short
   or too long, or not of printable ASCII. Warns on stderr of a file that others may read.  */
wm_fault_t wm_password_read (wm_password_t *self, const char *path, wm_error_t *error);

/* Returns whether the value of a header Authorization has the password; NULL: there was none.  */
bool wm_password_is_in (const wm_password_t *self, const char *header);

#endif
