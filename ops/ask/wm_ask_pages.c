/* wm_ask_pages.c - asks for what is longer than one answer, page by page: a campaign's inputs, its
   history. With no broker running wiremill-broker prints the same pages, one a line.  */
#include "ops/ask/wm_ask.h"
#include "ops/process/wm_spawn.h"
#include "schema/wm_history.h"

#include <stdio.h>
#include <unistd.h>

/* Takes a page; false: no more are wanted.  */
typedef bool take_page_t (void *argument, const json_t *page);

/* Asks an open session for the pages it wants. WM_EAGAIN: no answer.  */
typedef wm_fault_t ask_t (void *argument, wm_client_t *client, wm_error_t *error);

/* What CONTROL gives within this time; NULL: *error explains.  */
static json_t *ask_page_within (wm_client_t *client, const char *what, const char *text,
                                int64_t limit_ms, wm_error_t *error)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    snprintf (msg.name, sizeof msg.name, "%s", what);
    snprintf (msg.text, sizeof msg.text, "%s", text);
    wm_client_event_t event = WM_CLIENT_CLOSED;
    if (!wm_client_send (client, &msg, NULL, 0))
        event = wm_client_wait (client, limit_ms);
    json_t *page = event == WM_CLIENT_MESSAGE ? wm_ask_reply (client) : NULL;
    if (!page)
        wm_fault (error, WM_EAGAIN, "%s",
                  event == WM_CLIENT_CLOSED ? wm_client_error (client)->text
                                            : "the broker did not answer");
    return page;
}

static json_t *ask_page (wm_client_t *client, const char *what, const char *text, wm_error_t *error)
{
    return ask_page_within (client, what, text, wm_times ()->answer_ms, error);
}

static wm_fault_t ask_copy (void *argument, wm_client_t *client, wm_error_t *error);

static wm_fault_t ask_broker (const char *endpoint, const char *campaign, ask_t *ask,
                              void *argument, wm_error_t *error)
{
    if (wm_ask_may_connect (endpoint, error))
        return error->fault;
    const wm_role_t role = ask == ask_copy ? WM_ROLE_OPERATOR : WM_ROLE_MONITOR;
    wm_client_t *client = wm_client_new (endpoint, role, "wiremill", NULL, NULL);
    wm_fault_t fault = wm_ask_open (client, campaign, error);
    if (!fault)
        fault = ask (argument, client, error);
    if (wm_client_is_open (client))
        wm_client_close (client, WM_REASON_DONE, "");
    wm_client_destroy (&client);
    return fault;
}

static int read_pages (const char *verb, const char *const argv[], take_page_t *take,
                       void *argument)
{
    int fd;
    const pid_t pid = wm_spawn_reader (verb, argv, &fd);
    if (pid < 0)
        return WM_EXIT_FAILURE;
    FILE *from = fdopen (fd, "r");
    json_t *page;
    bool more = true;
    while (from && (page = json_loadf (from, JSON_DISABLE_EOF_CHECK, NULL))) {
        more = more && take (argument, page);
        json_decref (page);
    }
    if (from)
        fclose (from);
    else
        close (fd);
    return wm_spawn_code (verb, argv[0], pid);
}

/* Asks the broker, or, if none serves the campaign, reads what `argv` prints (NULL: nothing).  */
static int ask_or_read (const char *verb, const char *endpoint, const char *campaign, ask_t *ask,
                        const char *const argv[], take_page_t *take, void *argument)
{
    wm_error_t error;
    int code = WM_EXIT_UNREACHABLE;
    const wm_fault_t fault =
        *endpoint ? ask_broker (endpoint, campaign, ask, argument, &error) : WM_OK;
    if (*endpoint && !fault)
        return WM_EXIT_OK;
    if (fault == WM_EBATCH)
        code = WM_EXIT_INPUT;
    if (fault == WM_EKEY)
        code = WM_EXIT_REFUSED;
    if (!*endpoint)
        code = wm_ask_no_broker (campaign, error.text);
    if (!*endpoint && code == WM_EXIT_UNREACHABLE)
        return argv ? read_pages (verb, argv, take, argument) : WM_EXIT_OK;
    fprintf (stderr, "wiremill %s: %s\n", verb, error.text);
    return code;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    wm_ask_take_t *take;
    void *argument;
} files_t;

/* Gives the rows of a page to `take`.  */
static bool take_files (void *argument, const json_t *page)
{
    const files_t *self = argument;
    const json_t *row;
    size_t i;
    json_array_foreach (json_object_get (page, "files"), i, row)
    {
        if (!self->take (self->argument, row))
            return false;
    }
    return true;
}

uint64_t wm_ask_next (const json_t *page, uint64_t from)
{
    const int64_t next = wm_ask_int (page, "next");
    return next > 0 && (uint64_t) next > from ? (uint64_t) next : 0;
}

uint64_t wm_ask_history_next (const json_t *page, uint64_t from)
{
    const int64_t next = wm_ask_int (page, "next");
    return next > 0 && wm_history_goes_on (from, (uint64_t) next) ? (uint64_t) next : 0;
}

static wm_fault_t ask_files (void *argument, wm_client_t *client, wm_error_t *error)
{
    const files_t *self = argument;
    char text[WM_TEXT_BYTES_MAX + 1];
    for (uint64_t from = 1; from;) {
        const int n = snprintf (text, sizeof text, "%llu%s%s", (unsigned long long) from,
                                self->name && *self->name ? " " : "", self->name ? self->name : "");
        if (n >= (int) sizeof text)
            return wm_fault (error, WM_EBATCH,
                             "%.100s...: too long a name; give the input's number", self->name);
        json_t *page = ask_page (client, self->name ? "files" : "held-files", text, error);
        if (!page)
            return error->fault;
        from = take_files (argument, page) ? wm_ask_next (page, from) : 0;
        json_decref (page);
    }
    return WM_OK;
}

wm_fault_t wm_ask_files_of (wm_client_t *client, wm_ask_take_t *take, void *argument,
                            wm_error_t *error)
{
    files_t self = { "", take, argument };
    return ask_files (&self, client, error);
}

int wm_ask_files (const char *verb, const char *endpoint, const char *campaign, const char *name,
                  wm_ask_take_t *take, void *argument)
{
    files_t self = { name, take, argument };
    const char *which = !name ? "--held" : *name ? "--name" : NULL;
    const char *const argv[] = {
        "wiremill-broker",           "--files", "--campaign", campaign, which,
        name && *name ? name : NULL, NULL
    };
    return ask_or_read (verb, endpoint, campaign, ask_files, argv, take_files, &self);
}

/* ---- the history ----------------------------------------------------------------------------- */

/* Joins a page to the object that is given.  */
static bool take_history (void *argument, const json_t *page)
{
    json_t *all = argument, *columns = json_object_get (page, "columns");
    const bool is_of_workers = !columns;
    if (columns)
        json_object_set (all, "columns", columns);
    else
        json_object_set (all, "workers_dropped", json_object_get (page, "dropped"));
    const char *key = is_of_workers ? "workers" : "rows";
    json_array_extend (json_object_get (all, key), json_object_get (page, key));
    json_array_extend (json_object_get (all, "marks"), json_object_get (page, "marks"));
    return true;
}

json_t *wm_ask_history_page (wm_client_t *client, bool is_of_workers, uint64_t from,
                             wm_error_t *error)
{
    char text[24];
    snprintf (text, sizeof text, "%llu", (unsigned long long) from);
    return ask_page (client, is_of_workers ? "workers" : "history", text, error);
}

static wm_fault_t ask_history (void *argument, wm_client_t *client, wm_error_t *error)
{
    for (int i = 0; i < 2; i++)
        for (uint64_t from = 0, next = 1; next; from = next) {
            json_t *page = wm_ask_history_page (client, i, from, error);
            if (!page)
                return error->fault;
            take_history (argument, page);
            next = i ? wm_ask_next (page, from) : wm_ask_history_next (page, from);
            json_decref (page);
        }
    return WM_OK;
}

json_t *wm_ask_history (const char *verb, const char *endpoint, const char *campaign, int *code)
{
    const char *const argv[] = { "wiremill-broker", "--history", "--campaign", campaign, NULL };
    json_t *all = json_pack ("{s:s, s:[], s:[], s:[], s:[], s:i}", "schema", "wiremill-history-1",
                             "columns", "rows", "marks", "workers", "workers_dropped", 0);
    *code = ask_or_read (verb, endpoint, campaign, ask_history, argv, take_history, all);
    if (*code == WM_EXIT_OK)
        return all;
    json_decref (all);
    return NULL;
}

/* ---- a copy of the ledger -------------------------------------------------------------------- */

#define COPY_TIMES 40 /* a copy of gigabytes takes longer than other answers */

static wm_fault_t ask_copy (void *argument, wm_client_t *client, wm_error_t *error)
{
    json_t *page =
        ask_page_within (client, "ledger", "", COPY_TIMES * wm_times ()->answer_ms, error);
    const char *why = wm_ask_text (page, "error");
    const wm_fault_t fault = !page  ? error->fault
                             : *why ? wm_fault (error, WM_EAGAIN, "%.400s", why)
                                    : WM_OK;
    *(bool *) argument = !fault;
    json_decref (page);
    return fault;
}

int wm_ask_copy (const char *verb, const char *endpoint, const char *campaign, bool *of_copy)
{
    *of_copy = false;
    return ask_or_read (verb, endpoint, campaign, ask_copy, NULL, NULL, of_copy);
}
