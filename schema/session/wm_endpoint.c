/* wm_endpoint.c - writes and reads endpoint.json, and turns an endpoint into numeric addresses.  */
#include "schema/session/wm_endpoint.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/confine/wm_file_opener.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 4200
#define FILE_BYTES_MAX (64 << 10)

/* ---- the file -------------------------------------------------------------------------------- */

json_t *wm_endpoint_list (const char *text)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t error;
    json_t *array = json_array ();
    const int n = wm_address_parse (list, text, WM_ADDRESS_LISTEN, &error);
    for (int i = 0; i < n; i++) {
        char one[WM_ADDRESS_BYTES];
        wm_address_print (&list[i], NULL, one);
        json_array_append_new (array, json_string (one));
    }
    return array;
}

wm_fault_t wm_endpoint_write (const wm_endpoint_t *self, const char *dir, wm_error_t *error)
{
    char path[PATH_BYTES], temporary[PATH_BYTES];
    snprintf (path, sizeof path, "%.4100s/endpoint.json", dir);
    snprintf (temporary, sizeof temporary, "%.4100s/endpoint.json.new", dir);
    json_t *json =
        json_pack ("{s:s, s:I, s:s, s:s, s:s, s:I, s:o, s:o, s:b}", "endpoint", self->endpoint,
                   "pid", (json_int_t) self->pid, "campaign", self->campaign, "version",
                   self->version, "host", self->host, "started", (json_int_t) self->started_s,
                   "listen", wm_endpoint_list (self->listen), "advertise",
                   wm_endpoint_list (self->advertise), "keys", (int) self->has_keys);
    FILE *out = json ? fopen (temporary, "we") : NULL; /* its mode is the umask's, see --group */
    bool is_written =
        out && !json_dumpf (json, out, JSON_INDENT (1)) && !fflush (out) && !fsync (fileno (out));
    int failed = is_written ? 0 : errno;
    if (out && fclose (out) && is_written)
        is_written = false, failed = errno;
    json_decref (json);
    WM_FAILPOINT ("broker-endpoint-rename");
    if (is_written && rename (temporary, path) == 0 && !wm_folder_sync_parent (path)) {
        WM_FAILPOINT ("broker-endpoint-renamed");
        return WM_OK;
    }
    errno = is_written ? errno : failed;
    wm_fault (error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST, "cannot write %s: %s", path,
              strerror (errno));
    unlink (temporary);
    return error->fault;
}

/* Copies a text of the file; what a terminal would obey is replaced.  */
static void take_text (const json_t *json, const char *name, char *to, size_t bytes)
{
    const char *text = json_string_value (json_object_get (json, name));
    snprintf (to, bytes, "%s", text ? text : "");
    for (; *to; to++)
        if ((unsigned char) *to <= ' ' || *to == 127)
            *to = '?';
}

/* Joins an array of addresses; false: something in it is no address.  */
static bool take_list (const json_t *array, wm_address_use_t use, char text[WM_ENDPOINT_BYTES])
{
    const json_t *one;
    size_t i, n = 0;
    json_array_foreach (array, i, one)
    {
        wm_address_t list[WM_ADDRESSES_MAX];
        wm_error_t error;
        const char *address = json_string_value (one);
        if (!address || i == WM_ADDRESSES_MAX || wm_address_parse (list, address, use, &error) != 1)
            return false;
        if (n + strlen (address) + 2 < WM_ENDPOINT_BYTES)
            n += (size_t) sprintf (text + n, "%s%s", n ? "," : "", address);
    }
    return true;
}

/* What the file holds now. NULL: it cannot be read, or is no JSON. (json_loadfd would read it byte
   by byte.)  */
static json_t *parse (int fd, size_t bytes)
{
    char text[FILE_BYTES_MAX];
    size_t n = 0;
    for (ssize_t got = 1; n < bytes && got > 0; n += got > 0 ? (size_t) got : 0)
        got = TEMP_FAILURE_RETRY (read (fd, text + n, bytes - n));
    return n == bytes ? json_loadb (text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

/* Opens a regular file of a sensible size only: a pipe would block, and the folder is shared.  */
static json_t *load (const char *path, wm_error_t *error)
{
    struct stat info;
    json_t *json = NULL;
    const int fd = wm_file_opener_open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        wm_fault (error, WM_EAGAIN, "no broker serves this campaign now: there is no %s", path);
    else if (fd < 0)
        wm_fault (error, WM_EAGAIN, "%s cannot be read: %s", path, strerror (errno));
    else if (fstat (fd, &info) || !S_ISREG (info.st_mode) || info.st_size > FILE_BYTES_MAX ||
             !(json = parse (fd, (size_t) info.st_size)))
        wm_fault (error, WM_EAGAIN, "%s is damaged; a running broker writes it again after `rm`",
                  path);
    if (fd >= 0)
        close (fd);
    return json;
}

wm_fault_t wm_endpoint_read (wm_endpoint_t *self, const char *path, wm_error_t *error)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t why;
    *self = (wm_endpoint_t){ 0 };
    json_t *json = load (path, error);
    if (!json)
        return WM_EAGAIN;
    const char *endpoint = json_string_value (json_object_get (json, "endpoint"));
    const bool is_sound =
        endpoint && strlen (endpoint) < sizeof self->endpoint &&
        wm_address_parse (list, endpoint, WM_ADDRESS_CONNECT, &why) == 1 &&
        list[0].scheme != WM_ADDRESS_FILE &&
        take_list (json_object_get (json, "listen"), WM_ADDRESS_LISTEN, self->listen) &&
        take_list (json_object_get (json, "advertise"), WM_ADDRESS_CONNECT, self->advertise);
    if (is_sound) {
        strcpy (self->endpoint, endpoint);
        take_text (json, "host", self->host, sizeof self->host);
        take_text (json, "campaign", self->campaign, sizeof self->campaign);
        take_text (json, "version", self->version, sizeof self->version);
        self->pid = (long) json_integer_value (json_object_get (json, "pid"));
        self->started_s = json_integer_value (json_object_get (json, "started"));
        self->has_keys = json_is_true (json_object_get (json, "keys"));
    }
    json_decref (json);
    return is_sound ? WM_OK
                    : wm_fault (error, WM_EAGAIN,
                                "%s is damaged; a running broker writes it again after `rm`", path);
}

/* ---- choosing -------------------------------------------------------------------------------- */

bool wm_endpoint_is_here (const wm_endpoint_t *self)
{
    char host[128] = "";
    gethostname (host, sizeof host - 1);
    return !*self->host || strcmp (host, self->host) == 0; /* older brokers wrote no host */
}

wm_fault_t wm_endpoint_choose (const wm_endpoint_t *self, char *text, size_t bytes,
                               wm_error_t *error)
{
    char all[WM_ADDRESS_BYTES + WM_ENDPOINT_BYTES + 2], one[WM_ADDRESS_BYTES];
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t why;
    const bool is_here = wm_endpoint_is_here (self);
    size_t n = 0, n_address = 0;
    text[0] = 0;
    for (int part = 0; part < 2; part++) { /* here its own address is first, elsewhere last */
        const bool is_own = (part == 0) == is_here;
        snprintf (all, sizeof all, "%s", is_own ? self->endpoint : self->advertise);
        const int n_list = *all ? wm_address_parse (list, all, WM_ADDRESS_CONNECT, &why) : 0;
        for (int i = 0; i < n_list; i++) {
            wm_address_print (&list[i], NULL, one);
            const char *had = strstr (text, one);
            const char *end = had ? had + strlen (one) : NULL;
            if ((is_own && !is_here && wm_address_is_near (&list[i])) ||
                n_address == WM_ADDRESSES_MAX || n + strlen (one) + 2 > bytes ||
                (had && (!*end || *end == ',')))
                continue;
            n += (size_t) sprintf (text + n, "%s%s", n ? "," : "", one);
            n_address++;
        }
    }
    if (n)
        return WM_OK;
    return wm_fault (error, WM_EAGAIN,
                     "the broker runs on %s and can be reached only there, at %s; start it with "
                     "--listen tcp://*:5555 for other machines",
                     self->host, self->endpoint);
}

void wm_endpoint_last (const wm_endpoint_t *self, char text[WM_ADDRESS_BYTES + 200])
{
    char since[40] = "";
    struct tm utc;
    const time_t started = (time_t) self->started_s;
    const char *first = *self->advertise ? self->advertise : self->endpoint;
    if (self->started_s && gmtime_r (&started, &utc))
        strftime (since, sizeof since, ", started %Y-%m-%d %H:%M UTC", &utc);
    snprintf (text, WM_ADDRESS_BYTES + 200, "it was last at %.*s%s%s%s", (int) strcspn (first, ","),
              first, *self->host ? " on " : "", self->host, since);
}

void wm_endpoint_explain (const char *endpoint, wm_error_t *error)
{
    wm_endpoint_t file;
    char last[WM_ADDRESS_BYTES + 200];
    const size_t length = strlen (error->text);
    if (strncmp (endpoint, "file://", 7) != 0 || wm_endpoint_read (&file, endpoint + 7, NULL))
        return;
    wm_endpoint_last (&file, last);
    snprintf (error->text + length, sizeof error->text - length, "; %s", last);
}

/* ---- resolving ------------------------------------------------------------------------------- */

static int add_ipc (const wm_address_t *address, unsigned role, char text[WM_ADDRESS_BYTES],
                    wm_error_t *error)
{
    snprintf (text, WM_ADDRESS_BYTES, "ipc://%s.%c", address->host, "wpo"[role]);
    if (!faccessat (AT_FDCWD, text + strlen ("ipc://"), W_OK, AT_EACCESS) || errno != EACCES)
        return 1;
    wm_fault (error, WM_EPEER,
              "this user may not connect to ipc://%s: allow writing to its socket, or run as the "
              "broker's user",
              address->host);
    return 0;
}

static int resolve_all (const char *text, unsigned role,
                        char list[WM_ENDPOINT_PLACES_MAX][WM_ADDRESS_BYTES], wm_error_t *error)
{
    wm_address_t address[WM_ADDRESSES_MAX];
    int n = 0;
    const int n_address = wm_address_parse (address, text, WM_ADDRESS_CONNECT, error);
    if (!n_address)
        error->fault = WM_EPEER;
    for (int i = 0; i < n_address; i++) {
        char host[WM_HOSTS_MAX][WM_HOST_BYTES];
        if (address[i].scheme == WM_ADDRESS_FILE)
            wm_fault (error, WM_EPEER, "%s: file:// stands alone", text);
        if (address[i].scheme == WM_ADDRESS_IPC && n < WM_ENDPOINT_PLACES_MAX)
            n += add_ipc (&address[i], role, list[n], error);
        const int n_host = address[i].scheme == WM_ADDRESS_TCP
                               ? wm_address_resolve (&address[i], WM_ADDRESS_CONNECT, host, error)
                               : 0;
        for (int h = 0; h < n_host && n < WM_ENDPOINT_PLACES_MAX; h++)
            snprintf (list[n++], WM_ADDRESS_BYTES, "tcp://%.71s:%d", host[h],
                      address[i].port[role]);
    }
    return n;
}

int wm_endpoint_resolve (const char *endpoint, unsigned role,
                         char list[WM_ENDPOINT_PLACES_MAX][WM_ADDRESS_BYTES], wm_error_t *error)
{
    wm_endpoint_t file;
    char text[WM_ENDPOINT_BYTES];
    if (strncmp (endpoint, "file://", 7) != 0)
        return resolve_all (endpoint, role, list, error);
    if (wm_endpoint_read (&file, endpoint + 7, error) ||
        wm_endpoint_choose (&file, text, sizeof text, error))
        return 0;
    return resolve_all (text, role, list, error);
}
