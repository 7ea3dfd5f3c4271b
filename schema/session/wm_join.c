/* wm_join.c - see wm_join.h.

   The 80 bytes of a line: role (1), id (4), expiry (4, seconds of 1970, 0: never), secret (32),
   server's public key (32), checksum (7: BLAKE2b of what is before it). Five bits a digit, most
   significant first, by Crockford's alphabet: no letter looks like a digit.  */
#include "schema/session/wm_join.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_text.h"
#include "schema/confine/wm_file_opener.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "wm1-"
#define PLAIN_BYTES 73
#define CHECK_BYTES 7
#define LINE_ROOM 256 /* a line, and something behind it */
#define BYTES (PLAIN_BYTES + CHECK_BYTES)
#define DIGITS (BYTES * 8 / 5)
static_assert (WM_JOIN_LINE_BYTES == sizeof PREFIX + DIGITS, "as the header states");

static const char digit[] = "0123456789abcdefghjkmnpqrstvwxyz";
static const char *const role_name[] = { NULL, "worker", "producer", "operator", "monitor" };
#define ROLES (sizeof role_name / sizeof *role_name)

const char *wm_role_name (wm_role_t role)
{
    return role > 0 && role < ROLES ? role_name[role] : "peer";
}

wm_role_t wm_role_of (const char *name)
{
    for (size_t i = 1; i < ROLES; i++)
        if (strcmp (role_name[i], name) == 0)
            return (wm_role_t) i;
    return 0;
}

bool wm_role_fits (wm_role_t key, wm_role_t session)
{
    return key == session || (key == WM_ROLE_MONITOR && session == WM_ROLE_OPERATOR);
}

/* ---- the line -------------------------------------------------------------------------------- */

static int value_of (char c)
{
    c = (char) (c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
    const char *at = c == 'o'               ? digit
                     : c == 'i' || c == 'l' ? digit + 1
                     : c                    ? strchr (digit, c)
                                            : NULL;
    return at ? (int) (at - digit) : -1;
}

static void put32 (uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t) (value >> (24 - 8 * i));
}

static uint32_t get32 (const uint8_t *from)
{
    return (uint32_t) from[0] << 24 | (uint32_t) from[1] << 16 | (uint32_t) from[2] << 8 | from[3];
}

void wm_join_print (const wm_join_t *self, char line[WM_JOIN_LINE_BYTES])
{
    uint8_t bytes[BYTES];
    bytes[0] = (uint8_t) self->role;
    put32 (bytes + 1, (uint32_t) strtoul (self->id, NULL, 16));
    put32 (bytes + 5, (uint32_t) self->expires_s);
    memcpy (bytes + 9, self->secret, 32);
    memcpy (bytes + 41, self->server, 32);
    uint8_t check[32];
    crypto_generichash (check, sizeof check, bytes, PLAIN_BYTES, NULL, 0);
    memcpy (bytes + PLAIN_BYTES, check, CHECK_BYTES);
    char *to = line + sprintf (line, PREFIX);
    unsigned bits = 0;
    int n = 0;
    for (size_t i = 0; i < BYTES; i++) {
        bits = (bits << 8 | bytes[i]) & 0xfff;
        for (n += 8; n >= 5; n -= 5)
            *to++ = digit[bits >> (n - 5) & 31];
    }
    *to = 0;
    sodium_memzero (bytes, sizeof bytes);
}

/* The bytes of the digits; -1: another character, or another number of them.  */
static int decode (const char *text, size_t length, uint8_t bytes[BYTES])
{
    unsigned bits = 0;
    int n = 0;
    if (length != DIGITS)
        return -1;
    for (size_t i = 0, done = 0; i < DIGITS; i++) {
        const int value = value_of (text[i]);
        if (value < 0)
            return -1;
        bits = (bits << 5 | (unsigned) value) & 0xfff;
        n += 5;
        if (n >= 8) {
            n -= 8;
            bytes[done++] = (uint8_t) (bits >> n);
        }
    }
    return 0;
}

/* Returns how many bytes of blanks and ends of lines there are.  */
static size_t blanks (const char *text)
{
    size_t n = 0, one;
    while ((one = wm_text_blank (text + n)) || text[n] == '\n' || text[n] == '\r')
        n += one ? one : 1;
    return n;
}

wm_fault_t wm_join_parse (wm_join_t *self, const char *line, wm_error_t *error)
{
    uint8_t bytes[BYTES], check[32];
    memset (self, 0, sizeof *self);
    const char *encoding = wm_text_encoding (line, strnlen (line, 2));
    if (encoding)
        return wm_fault (error, WM_EUSAGE,
                         "it is a text in %s, not in UTF-8; type: iconv -f %s -t UTF-8 FILE >NEW",
                         encoding, encoding);
    line += blanks (line);
    size_t length = 0;
    while (line[length] && !blanks (line + length))
        length++;
    if (length < 4 || strncasecmp (line, PREFIX, 4) != 0)
        return wm_fault (error, WM_EUSAGE, "it is no join file (one line, " PREFIX "...)");
    if (line[length + blanks (line + length)])
        return wm_fault (error, WM_EUSAGE, "it has more than one line or word");
    if (length - 4 != DIGITS)
        return wm_fault (error, WM_EUSAGE,
                         "its line has %zu characters behind " PREFIX
                         ", not %d: a part of it is missing, or too much",
                         length - 4, DIGITS);
    const int bad = decode (line + 4, length - 4, bytes);
    crypto_generichash (check, sizeof check, bytes, PLAIN_BYTES, NULL, 0);
    if (bad || sodium_memcmp (check, bytes + PLAIN_BYTES, CHECK_BYTES) != 0) {
        sodium_memzero (bytes, sizeof bytes);
        return wm_fault (error, WM_EUSAGE,
                         "its checksum is wrong: a character was mistyped; copy the line again");
    }
    if (bytes[0] < 1 || bytes[0] >= ROLES) {
        sodium_memzero (bytes, sizeof bytes);
        return wm_fault (error, WM_EUSAGE, "it is of a role that this version does not know");
    }
    self->role = (wm_role_t) bytes[0];
    snprintf (self->id, sizeof self->id, "%08x", get32 (bytes + 1));
    self->expires_s = get32 (bytes + 5);
    memcpy (self->secret, bytes + 9, 32);
    memcpy (self->server, bytes + 41, 32);
    sodium_memzero (bytes, sizeof bytes);
    return WM_OK;
}

void wm_join_pair (const wm_join_t *self, uint8_t public_key[32], uint8_t private_key[32])
{
    const char *role = wm_role_name (self->role);
    crypto_generichash (private_key, 32, (const uint8_t *) role, strlen (role), self->secret,
                        sizeof self->secret);
    crypto_scalarmult_base (public_key, private_key);
}

void wm_join_wipe (wm_join_t *self)
{
    sodium_memzero (self, sizeof *self);
}

/* A limit of 1 byte, and no other, 0 neither, also keeps a program that takes core files over a
   pipe from getting one (core(5)).  */
void wm_join_protect (void)
{
    struct rlimit core;
    if (getrlimit (RLIMIT_CORE, &core) == 0 && core.rlim_cur != 1 && core.rlim_max >= 1) {
        core.rlim_cur = 1;
        setrlimit (RLIMIT_CORE, &core);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct {
    char *path;
    char *line; /* of what cannot be read twice, locked in memory; NULL: it is read each time */
    bool is_offered;
} source_t;

static source_t source[WM_JOIN_FILES_MAX];
static atomic_size_t n_source; /* those before do not change while there are threads */
static pthread_mutex_t offering = PTHREAD_MUTEX_INITIALIZER;
static bool is_taken; /* by an option or the environment */

static char *kept_line (const char *path)
{
    for (size_t i = 0; i < n_source; i++)
        if (source[i].line && strcmp (source[i].path, path) == 0)
            return source[i].line;
    return NULL;
}

/* Reads the beginning of a file, enough for a line. 0, or errno.  */
static int read_line (const char *path, char text[LINE_ROOM])
{
    const bool is_input = strcmp (path, "-") == 0;
    const int fd =
        is_input ? STDIN_FILENO : wm_file_opener_open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int failed = fd < 0 ? errno : 0;
    size_t n = 0;
    for (bool is_over = false; !is_over && !failed && n < LINE_ROOM - 1;) {
        const ssize_t more = read (fd, text + n, LINE_ROOM - 1 - n);
        failed = more < 0 && errno != EINTR ? errno : 0;
        is_over = more == 0;
        n += more > 0 ? (size_t) more : 0;
    }
    text[n] = 0;
    if (fd >= 0 && !is_input)
        close (fd);
    return failed;
}

wm_fault_t wm_join_read (wm_join_t *self, const char *path, wm_error_t *error)
{
    char text[LINE_ROOM];
    const char *kept = kept_line (path);
    wm_error_t why = { .fault = WM_OK };
    wm_join_protect ();
    sodium_mlock (text, sizeof text);
    const int failed = kept ? 0 : read_line (path, text);
    if (failed == ENOENT)
        wm_fault (&why, WM_EUSAGE, "it does not exist");
    else if (failed)
        wm_fault (&why, WM_EUSAGE, "it cannot be read: %s", strerror (failed));
    else
        wm_join_parse (self, kept ? kept : text, &why);
    sodium_munlock (text, sizeof text); /* wipes it */
    return why.fault ? wm_fault (error, why.fault, "the join file %.200s: %s", path, why.text)
                     : WM_OK;
}

/* ---- the join files of this process ---------------------------------------------------------- */

const char *wm_join_path (size_t i)
{
    return i < n_source ? source[i].path : NULL;
}

static void add (const char *path, bool is_offered)
{
    char *copy = n_source < WM_JOIN_FILES_MAX ? strdup (path) : NULL;
    if (!copy)
        return;
    source[n_source] = (source_t){ .path = copy, .is_offered = is_offered };
    n_source++;
}

/* What a path of a descriptor of this process becomes in programs that are started from here.  */
static void set_inherited (const char *path, bool is_inherited)
{
    int fd, end = 0;
    if (sscanf (path, "/proc/self/fd/%d%n", &fd, &end) == 1 && !path[end] && fd > STDERR_FILENO)
        fcntl (fd, F_SETFD, is_inherited ? 0 : FD_CLOEXEC);
}

const char *wm_join_give (size_t i)
{
    const char *path = wm_join_path (i);
    if (path)
        set_inherited (path, true);
    return path;
}

bool wm_join_fits (size_t i, wm_role_t session)
{
    wm_join_t join;
    wm_error_t error;
    sodium_mlock (&join, sizeof join);
    const bool fits = i < n_source && !wm_join_read (&join, source[i].path, &error) &&
                      wm_role_fits (join.role, session);
    sodium_munlock (&join, sizeof join); /* wipes it */
    return fits;
}

bool wm_join_suffices (wm_role_t session)
{
    bool fits = n_source == 0;
    for (size_t i = 0; i < n_source && !fits; i++)
        fits = wm_join_fits (i, session);
    return fits;
}

bool wm_join_is_of (size_t i, const char *campaign)
{
    const char *path = wm_join_path (i), *slash = path ? strrchr (path, '/') : NULL;
    const size_t n = campaign ? strlen (campaign) : 0;
    return path && (!campaign || !source[i].is_offered ||
                    (slash == path + n && strncmp (path, campaign, n) == 0));
}

bool wm_join_any (const char *campaign)
{
    for (size_t i = 0; i < n_source; i++)
        if (wm_join_is_of (i, campaign))
            return true;
    return false;
}

void wm_join_offer (const char *path)
{
    size_t i = 0;
    pthread_mutex_lock (&offering);
    while (i < n_source && strcmp (source[i].path, path) != 0)
        i++;
    if (i == n_source && !is_taken && access (path, R_OK) == 0)
        add (path, true);
    pthread_mutex_unlock (&offering);
}

/* Keeps the line of standard input and of a pipe.  */
static wm_fault_t keep (source_t *self, wm_error_t *error)
{
    struct stat st;
    if (strcmp (self->path, "-") != 0 && (stat (self->path, &st) || S_ISREG (st.st_mode)))
        return WM_OK;
    char *line = sodium_malloc (LINE_ROOM);
    if (!line)
        return wm_fault (error, WM_EHOST, "no memory for the join file %s", self->path);
    const int failed = read_line (self->path, line);
    if (failed)
        return wm_fault (error, WM_EUSAGE, "the join file %s cannot be read: %s", self->path,
                         strerror (failed));
    self->line = line;
    return WM_OK;
}

wm_fault_t wm_join_hand_on (wm_error_t *error)
{
    for (size_t i = 0; i < n_source; i++) {
        source_t *self = &source[i];
        char path[32];
        if (!self->line)
            continue;
        const int fd = memfd_create ("join-file", MFD_CLOEXEC); /* until wm_join_give */
        const size_t bytes = strlen (self->line);
        if (fd < 0 || write (fd, self->line, bytes) != (ssize_t) bytes)
            return wm_fault (error, WM_EHOST, "no memory for the join file %s: %s", self->path,
                             strerror (errno));
        snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
        sodium_free (self->line);
        free (self->path);
        *self = (source_t){ .path = strdup (path) };
        if (!self->path)
            return wm_fault (error, WM_EHOST, "no memory for the join file");
    }
    return WM_OK;
}

static void warn (const char *path)
{
    struct stat st;
    if (strcmp (path, "-") && strncmp (path, "/proc/self/fd/", 14) && !stat (path, &st))
        wm_file_warn_open ("the join file", path, st.st_mode, "they can join in your place");
}

wm_fault_t wm_join_take (const wm_args_t *args, wm_error_t *error)
{
    wm_join_t join;
    const char *given;
    if (sodium_init () < 0)
        return wm_fault (error, WM_EHOST, "libsodium cannot start");
    if (wm_args_each (args, "join-file", WM_JOIN_GIVEN_MAX))
        return wm_fault (error, WM_EUSAGE, "--join-file may be given at most %d times",
                         WM_JOIN_GIVEN_MAX);
    for (int i = 0; (given = wm_args_each (args, "join-file", i)); i++)
        add (given, false);
    is_taken = n_source > 0;
    given =
        getenv ("WM_JOIN_FILE"); /* it may be of another role: a campaign's own come behind it */
    if (!n_source && given && *given)
        add (given, false);
    for (size_t i = 0; i < n_source; i++) {
        const char *path = source[i].path;
        if (strncasecmp (path + strspn (path, " \t\r\n"), PREFIX, 4) == 0 && strlen (path) > 40)
            return wm_fault (error, WM_EUSAGE,
                             "a join file's line is a secret, and everybody on this machine can "
                             "read a command: put it in a file of mode 600, give that file's "
                             "name, and ask for another key");
        if (keep (&source[i], error) || wm_join_read (&join, path, error))
            return error->fault;
        wm_join_wipe (&join);
        set_inherited (path, false);
        warn (path);
    }
    return WM_OK;
}
