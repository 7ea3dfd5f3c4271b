/* wm_front.c - counts of requests, and the access log: one line a request,

     TIME PEER grpc|http METHOD MODEL CODE BYTES_IN BYTES_OUT MILLISECONDS

   Names are a client's: what is not printable ASCII becomes '?'.  */
#include "producer/serving/wm_front.h"

#include <errno.h>
#include <string.h>
#include <time.h>

const char *wm_ks_code_name (wm_ks_code_t code)
{
    static const char *const name[WM_KS_CODES] = {
        [WM_KS_OK] = "ok",
        [WM_KS_INVALID] = "invalid",
        [WM_KS_NOT_FOUND] = "not-found",
        [WM_KS_UNAVAILABLE] = "unavailable",
        [WM_KS_LOADING] = "loading",
        [WM_KS_DEADLINE] = "deadline",
        [WM_KS_CANCELLED] = "cancelled",
        [WM_KS_EXHAUSTED] = "exhausted",
        [WM_KS_UNIMPLEMENTED] = "unimplemented",
        [WM_KS_INTERNAL] = "internal",
    };
    return code < WM_KS_CODES ? name[code] : "?";
}

void wm_front_enter (wm_front_t *self, wm_front_kind_t kind, wm_share_t *share, const char *peer,
                     size_t bytes)
{
    share->address = wm_addresses_enter (self->addresses, peer);
    self->connections[kind]++;
    wm_budget_set_aside (self->budget, bytes);
}

void wm_front_leave (wm_front_t *self, wm_front_kind_t kind, wm_share_t *share, size_t bytes)
{
    wm_addresses_leave (self->addresses, &share->address);
    self->connections[kind]--;
    wm_budget_set_aside (self->budget, -bytes);
}

bool wm_front_has_place (const wm_front_t *self, wm_front_kind_t kind, size_t bytes)
{
    const size_t n = self->connections[kind];
    return !n || (n < self->connections_max && wm_budget_may_set_aside (self->budget, bytes));
}

/* Prints a name as one word; the blank of "GET /v2" becomes ':'.  */
static void print_word (FILE *to, const char *text)
{
    if (!text || !*text)
        text = "-";
    for (int i = 0; text[i] && i < 200; i++)
        putc (text[i] == ' ' ? ':' : text[i] > ' ' && text[i] < 127 ? text[i] : '?', to);
    putc (' ', to);
}

wm_fault_t wm_front_open_access (wm_front_t *self, wm_error_t *error)
{
    if (!self->access_path)
        return WM_OK;
    const bool is_output = strcmp (self->access_path, "-") == 0;
    FILE *to = is_output ? stdout : fopen (self->access_path, "ae");
    if (!to)
        return wm_fault (error, WM_EUSAGE, "--access-log %.200s cannot be opened: %s",
                         self->access_path, strerror (errno));
    if (self->access && !is_output)
        fclose (self->access);
    self->access = to;
    return WM_OK;
}

void wm_front_answered (wm_front_t *self, const wm_front_line_t *line)
{
    self->requests[line->kind][line->code]++;
    self->bytes_in += line->bytes_in;
    self->bytes_out += line->bytes_out;
    if (!self->access)
        return;
    struct timespec now;
    struct tm utc;
    char at[24];
    clock_gettime (CLOCK_REALTIME, &now);
    gmtime_r (&now.tv_sec, &utc);
    strftime (at, sizeof at, "%Y-%m-%dT%H:%M:%S", &utc);
    fprintf (self->access, "%s.%03ldZ %s %s ", at, now.tv_nsec / 1000000, line->peer,
             line->kind == WM_FRONT_GRPC ? "grpc" : "http");
    print_word (self->access, line->method);
    print_word (self->access, line->model);
    fprintf (self->access, "%s %zu %zu %.3f\n", wm_ks_code_name (line->code), line->bytes_in,
             line->bytes_out, (double) (wm_loop_now_us (self->loop) - line->begun_us) / 1e3);
}
