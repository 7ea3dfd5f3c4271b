/* wm_password.c - see wm_password.h.  */
#include "ops/serve/wm_password.h"

#include "schema/base/wm_file.h"
#include "schema/base/wm_text.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 512

static void hash (const wm_password_t *self, const char *text, size_t n, uint8_t out[32])
{
    crypto_generichash (out, 32, (const uint8_t *) text, n, self->key, sizeof self->key);
}

/* What is read, 0 at its end; -1: errno.  */
static ssize_t read_line (const char *path, char line[LINE_BYTES + 1], mode_t *mode)
{
    struct stat st;
    const int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n = fd < 0 || fstat (fd, &st) ? -1 : 0, more = 1;
    while (n >= 0 && more > 0 && n < LINE_BYTES) {
        more = read (fd, line + n, (size_t) (LINE_BYTES - n));
        n = more < 0 ? -1 : n + more;
    }
    const int failed = errno;
    if (n >= 0) {
        line[n] = 0;
        *mode = S_ISREG (st.st_mode) ? st.st_mode : 0;
    }
    if (fd >= 0)
        close (fd);
    errno = failed;
    return n;
}

wm_fault_t wm_password_read (wm_password_t *self, const char *path, wm_error_t *error)
{
    char line[LINE_BYTES + 1];
    mode_t mode;
    if (sodium_init () < 0)
        return wm_fault (error, WM_EHOST, "libsodium cannot start");
    wm_error_t why;
    const ssize_t got = read_line (path, line, &mode);
    if (got < 0)
        return wm_fault (error, WM_EUSAGE, "--password-file %.300s: %s", path, strerror (errno));
    size_t bytes = (size_t) got, printable = 0;
    if (wm_text_plain (line, &bytes, path, &why)) {
        sodium_memzero (line, sizeof line);
        return wm_fault (error, WM_EUSAGE, "--password-file %s", why.text);
    }
    char *text = line;
    for (size_t blank; (blank = wm_text_blank (text)) || *text == '\n';)
        text += blank ? blank : 1;
    text[strcspn (text, "\n")] = 0;
    const size_t n = strlen (text = wm_text_trim (text));
    while (printable < n && text[printable] > ' ' && text[printable] < 127)
        printable++;
    const bool fits = n >= WM_PASSWORD_CHARACTERS_MIN && n < LINE_BYTES / 2 && printable == n;
    randombytes_buf (self->key, sizeof self->key);
    hash (self, text, n, self->hash);
    sodium_memzero (line, sizeof line);
    if (!fits)
        return wm_fault (error, WM_EUSAGE,
                         "--password-file %.300s: its first line must be a password of %d to %d "
                         "letters, digits and signs, without blanks; for a new one type: "
                         "(umask 077; head -c 18 /dev/urandom | base64 >FILE)",
                         path, WM_PASSWORD_CHARACTERS_MIN, LINE_BYTES / 2 - 1);
    wm_file_warn_open ("the password file", path, mode, NULL);
    return WM_OK;
}

bool wm_password_is_in (const wm_password_t *self, const char *header)
{
    char pair[LINE_BYTES];
    uint8_t other[32];
    size_t n = 0;
    if (header && strncasecmp (header, "Bearer ", 7) == 0) {
        header += 7 + strspn (header + 7, " ");
        hash (self, header, strlen (header), other);
        return sodium_memcmp (other, self->hash, sizeof other) == 0;
    }
    if (!header || strncasecmp (header, "Basic ", 6) != 0)
        return false;
    header += 6 + strspn (header + 6, " ");
    if (sodium_base642bin ((uint8_t *) pair, sizeof pair, header, strlen (header), " ", &n, NULL,
                           sodium_base64_VARIANT_ORIGINAL))
        return false;
    const char *colon = memchr (pair, ':', n);
    if (!colon)
        return false;
    hash (self, colon + 1, (size_t) (pair + n - colon - 1), other);
    return sodium_memcmp (other, self->hash, sizeof other) == 0;
}
