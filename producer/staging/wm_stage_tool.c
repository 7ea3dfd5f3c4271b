/* wm_stage_tool.c - xrdfs, xrdcp and curl as child processes: what they are given, how long they
   may take, and what their last words mean.

   Credentials reach these programs and no others: X509_USER_PROXY, BEARER_TOKEN and
   BEARER_TOKEN_FILE are in the environment that xrdcp inherits; curl reads them from its standard
   input (arguments are in `ps`), over https only. A URL's own authz= is in xrdcp's arguments: there
   is no other way. Control characters in what the programs print are replaced.

   xrdcp waits up to 30 minutes for a server that is away, and without limit for one that hangs, so
   its times are set here, where the environment does not have them. Beyond them the file must
   grow.  */
#include "producer/staging/wm_stage_private.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_text.h"
#include "schema/wm_limits.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAID_BYTES 4096u
#define LISTING_BYTES_MAX (256u << 20)
#define TOKEN_BYTES 16384u
#define MARK "wiremill-http-code "

/* ---- starting -------------------------------------------------------------------------------- */

static void set_default (const char *name, int64_t ms)
{
    char text[24];
    snprintf (text, sizeof text, "%" PRId64, ms / 1000 > 0 ? ms / 1000 : 1);
    setenv (name, text, 0);
}

/* The times of xrdcp and xrdfs, where the environment of this process does not have them.  */
static void set_times (void)
{
    const int64_t stall_ms = wm_times ()->stage_stall_ms;
    set_default ("XRD_CONNECTIONRETRY", 2000);
    set_default ("XRD_CONNECTIONWINDOW", stall_ms / 4);
    set_default ("XRD_REQUESTTIMEOUT", stall_ms);
    set_default ("XRD_STREAMTIMEOUT", stall_ms / 2);
    set_default ("XRD_STREAMERRORWINDOW", stall_ms / 4);
    set_default ("XRD_TIMEOUTRESOLUTION", 1000);
    setenv ("XRD_CPCHUNKSIZE", "1048576", 0); /* the file grows in these: 8 MiB on a slow link take
                                                 longer than it may stand still */
}

/* `input`: what it reads, a memory file, closed here; -1: nothing.  */
static int start (wm_tool_t *self, const char *const argv[], int input)
{
    set_times ();
    self->said = memfd_create ("said", MFD_CLOEXEC);
    const wm_process_t process = { .program = argv[0],
                                   .argv = argv,
                                   .in = input >= 0 ? input : WM_PROCESS_NULL,
                                   .out = self->said,
                                   .err = self->said,
                                   .death_signal = SIGKILL };
    self->pid = self->said < 0 ? -1 : wm_process_start (&process);
    const int failed = errno;
    if (input >= 0)
        close (input);
    self->began_ms = self->grew_ms = wm_now_ms ();
    self->seen = 0;
    self->stalled = self->sends = false;
    if (self->pid > 0)
        return 0;
    if (self->said >= 0)
        close (self->said);
    self->pid = 0;
    errno = failed;
    return -1;
}

/* The URL without a dataset's name.  */
static char *file_url (const char *url)
{
    return strndup (url, wm_path_length (url));
}

bool wm_tool_path (const char *url, char path[PATH_MAX])
{
    const char *at = strchr (strstr (url, "://") + 3, '/');
    return at && snprintf (path, PATH_MAX, "%.*s", (int) wm_path_length (at + (at[1] == '/')),
                           at + (at[1] == '/')) < PATH_MAX;
}

int wm_tool_fs (wm_tool_t *self, const char *url, const char *command, const char *option,
                const char *to)
{
    char path[PATH_MAX];
    char *host = wm_tool_path (url, path) ? file_url (url) : NULL;
    int n = 0, failed = -1;
    errno = EINVAL;
    if (host) {
        *strchr (strstr (host, "://") + 3, '/') = 0;
        const char *argv[7] = { "xrdfs", host, command };
        n = 3;
        if (option)
            argv[n++] = option;
        argv[n++] = path;
        argv[n++] = to;
        failed = start (self, argv, -1);
    }
    free (host);
    return failed;
}

/* ---- curl ------------------------------------------------------------------------------------ */

/* A value in curl's configuration: in quotes.  */
static void put (FILE *out, const char *name, const char *value)
{
    fprintf (out, "%s = \"", name);
    for (; *value; value++)
        if ((unsigned char) *value >= ' ')
            fprintf (out, strchr ("\"\\", *value) ? "\\%c" : "%c", *value);
    fputs ("\"\n", out);
}

/* The bearer token, as WLCG's tools find it. false: none.  */
static bool token_read (char text[TOKEN_BYTES])
{
    const char *given = getenv ("BEARER_TOKEN"), *name = getenv ("BEARER_TOKEN_FILE");
    text[0] = 0;
    if (given && *given)
        snprintf (text, TOKEN_BYTES, "%s", given);
    else if (name && *name) {
        char *whole;
        size_t bytes;
        wm_error_t error;
        if (!wm_text_read (name, TOKEN_BYTES - 1, &whole, &bytes, &error)) {
            snprintf (text, TOKEN_BYTES, "%s", wm_text_trim (whole));
            explicit_bzero (whole, bytes);
        }
        free (whole);
    }
    text[strcspn (text, " \r\n")] = 0;
    return *text;
}

static void put_credentials (FILE *out)
{
    char token[TOKEN_BYTES];
    const char *proxy = getenv ("X509_USER_PROXY"), *folder = getenv ("X509_CERT_DIR");
    if (token_read (token))
        put (out, "oauth2-bearer", token);
    explicit_bzero (token, sizeof token);
    if (proxy && *proxy) {
        put (out, "cert", proxy);
        put (out, "key", proxy);
    }
    if (folder && *folder)
        put (out, "capath", folder);
}

/* Reads a field of the last answer in a file of headers; false: it is not there. *status: of that
   answer.  */
static bool header_read (const char *path, const char *name, char value[256], int *status)
{
    char line[2048];
    bool found = false;
    const size_t n = strlen (name);
    FILE *file = fopen (path, "re");
    *status = 0;
    while (file && fgets (line, sizeof line, file)) {
        if (sscanf (line, "HTTP/%*s %d", status) == 1)
            found = false; /* of a redirection */
        if (strncasecmp (line, name, n) != 0 || line[n] != ':')
            continue;
        const char *text = line + n + 1 + strspn (line + n + 1, " \t");
        snprintf (value, 256, "%.*s", (int) strcspn (text, "\r\n"), text);
        found = true;
    }
    if (file)
        fclose (file);
    return found;
}

/* The value by which the server checks that the rest is of the same file. false: it sent none.  */
static bool version_read (const char *head, char value[256])
{
    int status;
    if (header_read (head, "ETag", value, &status) && strncmp (value, "W/", 2) != 0)
        return true;
    return header_read (head, "Last-Modified", value, &status);
}

/* Starts curl; asks: about the file only.  */
static int curl_start (wm_tool_t *self, const char *url, bool asks)
{
    char text[24], version[256], field[280];
    struct stat st;
    const int fd = memfd_create ("curl", MFD_CLOEXEC);
    const int copy = fd < 0 ? -1 : dup (fd);
    FILE *out = copy < 0 ? NULL : fdopen (copy, "w");
    if (!out)
        return -1;
    const bool secret = strncmp (url, "https:", 6) == 0;
    self->resumes =
        !asks && stat (self->part, &st) == 0 && st.st_size && version_read (self->head, version);
    if (!self->resumes) {
        unlink (self->part);
        unlink (self->head);
    }
    put (out, "url", url);
    put (out, "output", asks ? "/dev/null" : self->part);
    if (asks)
        fputs ("head\n", out);
    put (out, "dump-header", self->resumes ? self->fresh : self->head);
    put (out, "write-out", MARK "%{http_code}\\n");
    put (out, "user-agent", "wiremill/" WM_VERSION);
    put (out, "header", "Want-Digest: adler32");
    put (out, "proto", secret ? "=https" : "=http,https");
    snprintf (text, sizeof text, "%.3f", (double) wm_times ()->stage_stall_ms / 4000.);
    put (out, "connect-timeout", text);
    if (self->resumes) {
        snprintf (field, sizeof field, "If-Range: %s", version);
        put (out, "header", field);
        put (out, "continue-at", "-");
    }
    fputs ("silent\nshow-error\nfail\nlocation\ngloboff\nmax-redirs = 5\n", out);
    if (secret)
        put_credentials (out);
    fclose (out);
    lseek (fd, 0, SEEK_SET);
    const char *const argv[] = { "curl", "-q", "--config", "-", NULL };
    return start (self, argv, fd);
}

int wm_tool_copy (wm_tool_t *self, const char *url)
{
    char *file = file_url (url);
    int failed = -1;
    if (file && wm_url_of (url) == WM_URL_HTTP)
        failed = curl_start (self, file, false);
    else if (file) {
        const char *const argv[] = { "xrdcp",   "--nopbar", "--force",  "--cksum",
                                     "adler32", file,       self->part, NULL };
        failed = start (self, argv, -1);
    }
    free (file);
    return failed;
}

int wm_tool_head (wm_tool_t *self, const char *url)
{
    char *file = file_url (url);
    const int failed = file ? curl_start (self, file, true) : -1;
    free (file);
    return failed;
}

int wm_tool_send (wm_tool_t *self, const char *file, uint32_t adler, const char *url)
{
    char sum[32];
    snprintf (sum, sizeof sum, "adler32:%08x", adler);
    const char *const argv[] = { "xrdcp", "--nopbar", "--force", "--cksum", sum, file, url, NULL };
    const int failed = start (self, argv, -1);
    self->sends = true;
    return failed;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Bytes of the file that have come here, or were read to be sent.  */
static uint64_t bytes_so_far (const wm_tool_t *self)
{
    char path[64], line[80];
    struct stat st;
    uint64_t bytes = self->seen;
    if (!self->sends)
        return stat (self->part, &st) ? self->seen : (uint64_t) st.st_size;
    snprintf (path, sizeof path, "/proc/%d/io", (int) self->pid);
    FILE *file = fopen (path, "re");
    if (!file || !fgets (line, sizeof line, file) || sscanf (line, "rchar: %" SCNu64, &bytes) != 1)
        bytes = self->seen;
    if (file)
        fclose (file);
    return bytes;
}

void wm_tool_kill (wm_tool_t *self)
{
    if (self->pid)
        close (self->said);
    wm_process_kill (&self->pid);
}

bool wm_tool_ended (wm_tool_t *self, uint64_t size, int *status)
{
    if (waitpid (self->pid, status, WNOHANG) == self->pid) {
        self->pid = 0;
        return true;
    }
    const int64_t now = wm_now_ms (), stall_ms = wm_times ()->stage_stall_ms;
    const uint64_t bytes = bytes_so_far (self);
    if (bytes != self->seen) {
        self->seen = bytes;
        self->grew_ms = now;
    }
    /* at its end the server computes the checksum of all of it */
    const int64_t most_ms = self->seen && self->seen >= size ? 10 * stall_ms : stall_ms;
    if (now - self->grew_ms > most_ms || now - self->began_ms > wm_times ()->stage_wall_ms) {
        self->stalled = true;
        kill (self->pid, SIGKILL);
    }
    return false;
}

/* ---- results --------------------------------------------------------------------------------- */

/* All that it said, terminated; the memory file is closed.  */
static void said_read (wm_tool_t *self, char all[SAID_BYTES + 1])
{
    struct stat st;
    const off_t end = fstat (self->said, &st) ? 0 : st.st_size;
    const off_t from = end > (off_t) SAID_BYTES ? end - (off_t) SAID_BYTES : 0;
    const ssize_t n = pread (self->said, all, SAID_BYTES, from);
    all[n > 0 ? n : 0] = 0;
    close (self->said);
    wm_url_redact (all);
}

/* The first line that names an error, else the last that is not empty, for people.  */
static void what_it_said (char *all, const char *program, char text[400])
{
    char *found = NULL, *rest = all;
    bool is_error = false;
    for (char *line; !is_error && (line = strsep (&rest, "\r\n"));) {
        is_error =
            strstr (line, "[ERROR]") || strstr (line, "[FATAL]") || !strncmp (line, "curl: (", 7);
        if (is_error || (*line && strncmp (line, MARK, strlen (MARK)) != 0))
            found = line;
    }
    if (found && strncmp (found, program, strlen (program)) == 0)
        snprintf (text, 400, "%.260s", found);
    else
        snprintf (text, 400, "%s: %.250s", program, found ? found : "it printed nothing");
    wm_log_sanitize (text);
}

static const char *next_line (const char *line)
{
    line += strcspn (line, "\r\n");
    return line + strspn (line, "\r\n");
}

/* What a line says behind "[ERROR] " or "[FATAL] " and "Server responded with an error: "; NULL: no
   error. Only the beginning of a line counts: file names come later in it.  */
static const char *error_in (const char *line)
{
    static const char *const before[] = { "xrdcp: ", "xrdfs: ", "Run: " };
    static const char server[] = "Server responded with an error: ";
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (strncmp (line, before[i], strlen (before[i])) == 0)
            line += strlen (before[i]);
    if (strncmp (line, "[ERROR] ", 8) != 0 && strncmp (line, "[FATAL] ", 8) != 0)
        return NULL;
    line += 8;
    return line + (strncmp (line, server, strlen (server)) == 0 ? strlen (server) : 0);
}

/* Whether an error that xrdcp or xrdfs printed begins with one of these words.  */
static bool says (const char *all, const char *const *words)
{
    for (const char *line = all; *line; line = next_line (line)) {
        const char *text = error_in (line);
        for (const char *const *word = words; text && *word; word++)
            if (strncasecmp (text, *word, strlen (*word)) == 0)
                return true;
    }
    return false;
}

/* Whether one of the errors is about a checksum: the word stands before the path.  */
static bool is_of_checksum (const char *all)
{
    for (const char *line = all; *line; line = next_line (line)) {
        const char *text = error_in (line), *word = text ? strcasestr (text, "checksum") : NULL;
        if (word && word < text + strcspn (text, "/\r\n"))
            return true;
    }
    return false;
}

/* Nothing that comes later makes it work: what the server says of the file or of us.  */
static bool xrootd_says_no (const char *all)
{
    static const char *const words[] = { "[3010]",
                                         "[3011]",
                                         "[3013]",
                                         "[3016]",
                                         "[3030]",
                                         "Auth failed",
                                         "Error response: No such file",
                                         "Error response: Permission denied",
                                         "Invalid address",
                                         NULL };
    return says (all, words);
}

/* Reads what it said. true: it did not come to an end of its own; *text has why.  */
static bool was_ended (wm_tool_t *self, int status, const char *program, char all[SAID_BYTES + 1],
                       char text[400])
{
    said_read (self, all);
    if (!WIFSIGNALED (status))
        return false;
    const int64_t now = wm_now_ms ();
    if (self->stalled && now - self->began_ms > wm_times ()->stage_wall_ms)
        snprintf (text, 400, "%s: the copy took longer than %lld s", program,
                  (long long) wm_times ()->stage_wall_ms / 1000);
    else if (self->stalled)
        snprintf (text, 400, "%s: the file did not grow for %lld s", program,
                  (long long) (now - self->grew_ms) / 1000);
    else
        snprintf (text, 400, "%s: ended by signal %d", program, WTERMSIG (status));
    return true;
}

static bool is_missing (int status)
{
    return WIFEXITED (status) && WEXITSTATUS (status) == 127;
}

static wm_tool_end_t fs_end (bool is_done, int status, char *all, char text[400])
{
    const bool is_final = is_missing (status) || xrootd_says_no (all);
    what_it_said (all, "xrdfs", text);
    return is_done ? WM_TOOL_DONE : is_final ? WM_TOOL_FINAL : WM_TOOL_AGAIN;
}

wm_tool_end_t wm_tool_stat_result (wm_tool_t *self, int status, uint64_t *size, char text[400])
{
    char all[SAID_BYTES + 1];
    if (was_ended (self, status, "xrdfs", all, text))
        return WM_TOOL_AGAIN;
    const char *line = strstr (all, "\nSize:"); /* its path is in the line before */
    return fs_end (status == 0 && line && sscanf (line + 6, "%" SCNu64, size) == 1, status, all,
                   text);
}

bool wm_tool_is_missing (const char *text)
{
    static const char *const words[] = { "[3011]", NULL };
    return says (text, words);
}

bool wm_tool_is_refused (const char *text)
{
    static const char *const words[] = { "[3010]", "[3013]",      "[3016]", "[3028]",
                                         "[3030]", "Auth failed", NULL };
    return says (text, words);
}

wm_tool_end_t wm_tool_fs_result (wm_tool_t *self, int status, char text[400])
{
    char all[SAID_BYTES + 1];
    if (was_ended (self, status, "xrdfs", all, text))
        return WM_TOOL_AGAIN;
    return fs_end (status == 0, status, all, text);
}

wm_tool_end_t wm_tool_sum_result (wm_tool_t *self, int status, int64_t *adler, char text[400])
{
    /* not supported; of another kind only */
    static const char *const none[] = { "[3013]", "[3019]", NULL };
    char all[SAID_BYTES + 1];
    *adler = -1;
    if (was_ended (self, status, "xrdfs", all, text))
        return WM_TOOL_AGAIN;
    const char *sum = strstr (all, "adler32 ");
    if (status == 0 && sum)
        *adler = (int64_t) strtoul (sum + strlen ("adler32 "), NULL, 16);
    return fs_end (status == 0 || says (all, none), status, all, text);
}

wm_tool_end_t wm_tool_send_result (wm_tool_t *self, int status, char text[400])
{
    char all[SAID_BYTES + 1];
    if (was_ended (self, status, "xrdcp", all, text))
        return WM_TOOL_AGAIN;
    what_it_said (all, "xrdcp", text);
    return status == 0 ? WM_TOOL_DONE : is_missing (status) ? WM_TOOL_FINAL : WM_TOOL_AGAIN;
}

char *wm_tool_said (wm_tool_t *self)
{
    char *all = wm_process_output (self->said, LISTING_BYTES_MAX);
    close (self->said);
    return all;
}

static wm_tool_end_t http_result (wm_tool_t *self, const char *all, int status, uint64_t *size,
                                  int64_t *adler)
{
    char value[256];
    int code = 0, of_head;
    const char *mark = strstr (all, MARK), *total;
    const int exit_code = WEXITSTATUS (status);
    if (mark)
        code = atoi (mark + strlen (MARK));
    /* 33: the server sent another file than the one begun, or has no ranges; 36: cannot resume */
    if (exit_code == 33 || exit_code == 36 || code == 416)
        return WM_TOOL_RESTART;
    if (exit_code == 127 || exit_code == 1 || exit_code == 3 || exit_code == 58 ||
        exit_code == 60 || exit_code == 77 ||
        (code >= 400 && code < 500 && code != 408 && code != 429))
        return WM_TOOL_FINAL;
    if (status)
        return WM_TOOL_AGAIN;
    const char *head = self->resumes ? self->fresh : self->head;
    char begun[256];
    if (self->resumes && (!version_read (self->head, begun) || !version_read (self->fresh, value) ||
                          strcmp (begun, value) != 0))
        return WM_TOOL_RESTART; /* the rest of another version, by a server without If-Range */
    if (header_read (head, "Content-Range", value, &of_head) && (total = strchr (value, '/')))
        *size = isdigit ((unsigned char) total[1]) ? strtoull (total + 1, NULL, 10) : *size;
    else if (header_read (head, "Content-Length", value, &of_head))
        *size = strtoull (value, NULL, 10);
    const char *sum =
        header_read (head, "Digest", value, &of_head) ? strcasestr (value, "adler32=") : NULL;
    if (sum)
        *adler = (int64_t) strtoul (sum + strlen ("adler32="), NULL, 16);
    return WM_TOOL_DONE;
}

wm_tool_end_t wm_tool_copy_result (wm_tool_t *self, const char *url, int status, uint64_t *size,
                                   int64_t *adler, char text[400])
{
    const bool http = wm_url_of (url) == WM_URL_HTTP;
    const char *program = http ? "curl" : "xrdcp";
    char all[SAID_BYTES + 1];
    wm_tool_end_t end = WM_TOOL_DONE;
    *adler = -1;
    if (was_ended (self, status, program, all, text))
        return http ? WM_TOOL_AGAIN : WM_TOOL_RESTART;
    if (http)
        end = http_result (self, all, status, size, adler);
    else if (status)
        end = is_missing (status) || (xrootd_says_no (all) && !is_of_checksum (all))
                  ? WM_TOOL_FINAL
                  : WM_TOOL_RESTART;
    what_it_said (all, program, text);
    return end;
}

wm_tool_end_t wm_tool_head_result (wm_tool_t *self, int status, uint64_t *size, int64_t *adler,
                                   char text[400])
{
    char all[SAID_BYTES + 1];
    *size = UINT64_MAX;
    *adler = -1;
    if (was_ended (self, status, "curl", all, text))
        return WM_TOOL_AGAIN;
    wm_tool_end_t end = http_result (self, all, status, size, adler);
    /* 22: an answer that is an error. Where it is not one of a server in trouble, it may be about
       the question, not about the file: addresses that are signed are signed for one of both.  */
    if (end == WM_TOOL_FINAL && WEXITSTATUS (status) == 22)
        end = WM_TOOL_RESTART;
    if (end == WM_TOOL_AGAIN && (strstr (all, MARK "501") || strstr (all, MARK "405")))
        end = WM_TOOL_RESTART;
    what_it_said (all, "curl", text);
    return end;
}
