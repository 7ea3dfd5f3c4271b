/* wm_keys.c - see wm_keys.h.  */
#include "schema/session/wm_keys.h"
#include "schema/base/wm_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VERSION_LINE "wiremill-keys 1"
#define SERVER_LINE "wiremill-server-key 1"
#define LINE_BYTES 400
#define FIELDS 7
#define LOCK_TRIES 200
#define LOCK_EACH_MS 50
#define KEPT_S (30 * 86400) /* a row is listed for so long after its end */

void wm_keys_free (wm_keys_t *self)
{
    free (self->row);
    *self = (wm_keys_t){ 0 };
}

wm_keys_row_t *wm_keys_of_id (const wm_keys_t *self, const char *id)
{
    for (size_t i = 0; i < self->n; i++)
        if (strcmp (self->row[i].id, id) == 0)
            return &self->row[i];
    return NULL;
}

wm_keys_row_t *wm_keys_of_public (const wm_keys_t *self, const uint8_t public_key[32])
{
    for (size_t i = 0; i < self->n; i++)
        if (memcmp (self->row[i].public_key, public_key, 32) == 0)
            return &self->row[i];
    return NULL;
}

const char *wm_keys_why_not (const wm_keys_row_t *row, int64_t now_s)
{
    if (!row)
        return "it is not in the campaign's table of keys";
    if (row->revoked_s)
        return "it was revoked";
    return row->expires_s && row->expires_s <= now_s ? "it expired" : NULL;
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool take_time (const char *text, int64_t *seconds)
{
    char *end;
    errno = 0;
    *seconds = strtoll (text, &end, 10);
    return !errno && end != text && !*end && *seconds >= 0;
}

/* Takes one line apart.  */
static bool take_row (char *line, wm_keys_row_t *row)
{
    char *field[FIELDS] = { line };
    size_t bytes;
    for (int i = 1; i < FIELDS; i++) {
        if (!(field[i] = strchr (field[i - 1], '\t')))
            return false;
        *field[i]++ = 0;
    }
    *row = (wm_keys_row_t){ .role = wm_role_of (field[0]) };
    if (!row->role || strlen (field[1]) != 8 || strspn (field[1], "0123456789abcdef") != 8 ||
        strlen (field[2]) != 64 || strlen (field[6]) >= sizeof row->note ||
        sodium_hex2bin (row->public_key, 32, field[2], 64, NULL, &bytes, NULL) || bytes != 32)
        return false;
    strcpy (row->id, field[1]);
    strcpy (row->note, field[6]);
    return take_time (field[3], &row->made_s) && take_time (field[4], &row->expires_s) &&
           take_time (field[5], &row->revoked_s);
}

/* Reads all rows and the last line; which line is wrong, 0: none.  */
static size_t take_rows (FILE *file, wm_keys_t *self)
{
    char line[LINE_BYTES], last[32];
    for (size_t number = 1; fgets (line, sizeof line, file); number++) {
        char *end = strchr (line, '\n');
        if (!end)
            return number;
        *end = 0;
        if (number == 1) {
            if (strcmp (line, VERSION_LINE) != 0)
                return number;
            continue;
        }
        snprintf (last, sizeof last, "end %zu", self->n);
        if (strcmp (line, last) == 0)
            return fgetc (file) == EOF ? 0 : number + 1;
        wm_keys_row_t row;
        if (self->n == WM_KEYS_MAX || !take_row (line, &row) || wm_keys_of_id (self, row.id))
            return number;
        self->row[self->n++] = row;
    }
    return self->n + 2; /* its last line is missing */
}

wm_fault_t wm_keys_read (wm_keys_t *self, const char *campaign, wm_error_t *error)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%.4000s/keys", campaign);
    FILE *file = fopen (path, "re");
    if (!file)
        return wm_fault (error, WM_EHOST, "the table of keys %s cannot be read: %s", path,
                         strerror (errno));
    wm_keys_t new = { .row = calloc (WM_KEYS_MAX, sizeof *new.row) };
    const size_t wrong = new.row ? take_rows (file, &new) : 1;
    fclose (file);
    if (wrong) {
        wm_keys_free (&new);
        return wm_fault (error, WM_EBATCH,
                         "the table of keys %s: line %zu is not what `wiremill keys` writes; put "
                         "back a copy, or remove the file: the next start makes new keys",
                         path, wrong);
    }
    wm_keys_free (self);
    *self = new;
    return WM_OK;
}

wm_fault_t wm_keys_write (const wm_keys_t *self, const char *campaign, wm_error_t *error)
{
    char path[PATH_MAX], public_key[65], *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream (&text, &bytes);
    if (!out)
        return wm_fault (error, WM_EHOST, "no memory for the table of keys");
    fprintf (out, VERSION_LINE "\n");
    for (size_t i = 0; i < self->n; i++) {
        const wm_keys_row_t *row = &self->row[i];
        sodium_bin2hex (public_key, sizeof public_key, row->public_key, 32);
        fprintf (out, "%s\t%s\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%s\n",
                 wm_role_name (row->role), row->id, public_key, row->made_s, row->expires_s,
                 row->revoked_s, row->note);
    }
    fprintf (out, "end %zu\n", self->n);
    const int failed = fclose (out);
    snprintf (path, sizeof path, "%.4000s/keys", campaign);
    const wm_fault_t fault = failed ? wm_fault (error, WM_EHOST, "no memory for the table of keys")
                                    : wm_file_write_secret (path, text, bytes, error);
    free (text);
    return fault;
}

int wm_keys_lock (const char *campaign, wm_error_t *error)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%.4000s/keys.lock", campaign);
    const int fd = open (path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        wm_fault (error, WM_EBATCH, "%s: %s", path, strerror (errno));
        return -1;
    }
    int failed = flock (fd, LOCK_EX | LOCK_NB);
    for (int i = 0; failed && (errno == EWOULDBLOCK || errno == EINTR) && i < LOCK_TRIES; i++) {
        nanosleep (&(struct timespec){ .tv_nsec = LOCK_EACH_MS * 1000000l }, NULL);
        failed = flock (fd, LOCK_EX | LOCK_NB);
    }
    if (!failed)
        return fd;
    if (errno == EWOULDBLOCK)
        wm_fault (error, WM_EBATCH,
                  "%s was locked for %d s by another `wiremill keys` or broker: try again; "
                  "`fuser %s` prints who has it",
                  path, LOCK_TRIES * LOCK_EACH_MS / 1000, path);
    else
        wm_fault (error, WM_EHOST, "%s cannot be locked: %s", path, strerror (errno));
    close (fd);
    return -1;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* When a key ended; INT64_MAX: it has not.  */
static int64_t end_of (const wm_keys_row_t *row, int64_t now_s)
{
    const int64_t end = row->expires_s && row->expires_s <= now_s ? row->expires_s : INT64_MAX;
    return row->revoked_s && row->revoked_s < end ? row->revoked_s : end;
}

/* Drops the rows that ended long ago and, from a full table, the one that ended first: a key
   without a row is refused, too.  */
static void drop_ended (wm_keys_t *self, int64_t now_s)
{
    size_t kept = 0, first = 0;
    for (size_t i = 0; i < self->n; i++)
        if (end_of (&self->row[i], now_s) > now_s - KEPT_S)
            self->row[kept++] = self->row[i];
    self->n = kept;
    if (kept < WM_KEYS_MAX)
        return;
    for (size_t i = 1; i < kept; i++)
        if (end_of (&self->row[i], now_s) < end_of (&self->row[first], now_s))
            first = i;
    if (end_of (&self->row[first], now_s) == INT64_MAX)
        return;
    memmove (&self->row[first], &self->row[first + 1], (kept - first - 1) * sizeof *self->row);
    self->n--;
}

wm_fault_t wm_keys_add (wm_keys_t *self, const char *campaign, wm_role_t role, int64_t expires_s,
                        const char *note, wm_join_t *join, wm_error_t *error)
{
    wm_keys_row_t row = { .role = role, .made_s = time (NULL), .expires_s = expires_s };
    uint8_t private_key[32];
    drop_ended (self, row.made_s);
    if (self->n == WM_KEYS_MAX)
        return wm_fault (error, WM_EBATCH,
                         "a campaign has %d keys at most, and all are good: revoke one first",
                         WM_KEYS_MAX);
    if (!self->row && !(self->row = calloc (WM_KEYS_MAX, sizeof *self->row)))
        return wm_fault (error, WM_EHOST, "no memory for the table of keys");
    *join = (wm_join_t){ .role = role, .expires_s = expires_s };
    if (wm_keys_server (campaign, join->server, NULL, error))
        return error->fault;
    wm_join_protect ();
    do
        snprintf (row.id, sizeof row.id, "%08x", randombytes_random ());
    while (wm_keys_of_id (self, row.id));
    strcpy (join->id, row.id);
    randombytes_buf (join->secret, sizeof join->secret);
    wm_join_pair (join, row.public_key, private_key);
    sodium_memzero (private_key, sizeof private_key);
    snprintf (row.note, sizeof row.note, "%s", note ? note : "");
    self->row[self->n++] = row;
    return WM_OK;
}

wm_fault_t wm_keys_write_join (const char *path, const wm_join_t *join, wm_error_t *error)
{
    char line[WM_JOIN_LINE_BYTES + 1];
    wm_join_print (join, line);
    strcat (line, "\n");
    const wm_fault_t fault = wm_file_write_secret (path, line, strlen (line), error);
    sodium_memzero (line, sizeof line);
    return fault;
}

/* ---- the server's ---------------------------------------------------------------------------- */

wm_fault_t wm_keys_server (const char *campaign, uint8_t public_key[32], uint8_t private_key[32],
                           wm_error_t *error)
{
    char path[PATH_MAX], text[160] = "";
    uint8_t secret[32] = { 0 }, check[8], sum[16];
    size_t n = 0, m = 0;
    wm_join_protect ();
    snprintf (path, sizeof path, "%.4000s/server-key", campaign);
    sodium_mlock (text, sizeof text);
    sodium_mlock (secret, sizeof secret);
    const int fd = open (path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd < 0 ? -1 : read (fd, text, sizeof text - 1);
    const int saved = errno;
    struct stat st;
    if (private_key && bytes >= 0 && !fstat (fd, &st))
        wm_file_warn_open ("the broker's key", path, st.st_mode, "they can pass for this broker");
    if (fd >= 0)
        close (fd);
    if (bytes < 0) {
        sodium_munlock (text, sizeof text);
        sodium_munlock (secret, sizeof secret);
        return wm_fault (error, WM_EHOST, "the broker's key %s cannot be read: %s", path,
                         strerror (saved));
    }
    const char *rest = text + sizeof SERVER_LINE;
    const bool sound =
        bytes == sizeof SERVER_LINE + 64 + 1 + 16 + 1 &&
        strncmp (text, SERVER_LINE "\n", sizeof SERVER_LINE) == 0 &&
        !sodium_hex2bin (secret, sizeof secret, rest, 64, NULL, &n, NULL) && n == 32 &&
        !sodium_hex2bin (check, sizeof check, rest + 65, 16, NULL, &m, NULL) && m == 8;
    crypto_generichash (sum, sizeof sum, secret, sizeof secret, NULL, 0);
    sodium_munlock (text, sizeof text); /* wipes it */
    if (!sound || memcmp (sum, check, sizeof check) != 0) {
        sodium_munlock (secret, sizeof secret);
        return wm_fault (error, WM_EBATCH,
                         "the broker's key %s is damaged: put back a copy, or remove it and the "
                         "table `keys` beside it: the next start makes new ones, and every join "
                         "file must be handed out again",
                         path);
    }
    crypto_scalarmult_base (public_key, secret);
    if (private_key)
        memcpy (private_key, secret, sizeof secret);
    sodium_munlock (secret, sizeof secret);
    return WM_OK;
}

static wm_fault_t make_server (const char *path, wm_error_t *error)
{
    uint8_t secret[32], sum[16];
    char hex[65], check[17], text[160];
    randombytes_buf (secret, sizeof secret);
    crypto_generichash (sum, 16, secret, 32, NULL, 0);
    sodium_bin2hex (hex, sizeof hex, secret, 32);
    sodium_bin2hex (check, sizeof check, sum, 8);
    snprintf (text, sizeof text, SERVER_LINE "\n%s\n%s\n", hex, check);
    const wm_fault_t fault = wm_file_write_secret (path, text, strlen (text), error);
    sodium_memzero (secret, sizeof secret);
    sodium_memzero (hex, sizeof hex);
    sodium_memzero (text, sizeof text);
    return fault;
}

bool wm_keys_is_secret (const char *name)
{
    return strcmp (name, "keys") == 0 || strcmp (name, "keys.lock") == 0 ||
           strcmp (name, "server-key") == 0 || strncmp (name, "join-", 5) == 0;
}

/* A key and a join file of each role. The table is written last: where this process ends before,
   the next one begins again.  */
static wm_fault_t make_all (const char *campaign, wm_error_t *error)
{
    wm_keys_t table = { 0 };
    wm_join_t join[WM_ROLE_MONITOR + 1];
    char path[PATH_MAX];
    wm_fault_t fault = WM_OK;
    for (wm_role_t role = WM_ROLE_WORKER; role <= WM_ROLE_MONITOR && !fault; role++)
        fault =
            wm_keys_add (&table, campaign, role, 0, "made with the campaign", &join[role], error);
    for (wm_role_t role = WM_ROLE_WORKER; role <= WM_ROLE_MONITOR && !fault; role++) {
        snprintf (path, sizeof path, "%.4000s/join-%s", campaign, wm_role_name (role));
        fault = wm_keys_write_join (path, &join[role], error);
    }
    if (!fault)
        fault = wm_keys_write (&table, campaign, error);
    sodium_memzero (join, sizeof join);
    wm_keys_free (&table);
    return fault;
}

wm_fault_t wm_keys_begin (const char *campaign, wm_error_t *error)
{
    char path[PATH_MAX], table[PATH_MAX];
    const int lock = wm_keys_lock (campaign, error);
    if (lock < 0)
        return error->fault;
    wm_fault_t fault = WM_OK;
    snprintf (path, sizeof path, "%.4000s/server-key", campaign);
    snprintf (table, sizeof table, "%.4000s/keys", campaign);
    const bool has_table = access (table, F_OK) == 0;
    if (access (path, F_OK))
        fault = has_table ? wm_fault (error, WM_EBATCH,
                                      "the broker's key %s is lost, and with another no join file "
                                      "is good: put it back, or remove `keys` beside it, too, and "
                                      "hand out the new join files",
                                      path)
                          : make_server (path, error);
    if (!fault && !has_table)
        fault = make_all (campaign, error);
    close (lock);
    return fault;
}
