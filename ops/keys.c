/* keys.c - `wiremill keys list|add|revoke|rotate`: who may join a campaign's broker.

   It changes the table of keys under its lock, with or without a broker running; a broker reads the
   table again within a second.  */
#include "ops/ask/wm_ask.h"
#include "ops/process/wm_complain.h"
#include "ops/verbs.h"
#include "schema/session/wm_keys.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "campaign", .letter = 'c', .value = "DIR",
     .path = WM_PATH_FOLDER, .task = "which campaign",
     .help = "its folder, or the folder of its output (default: here)"},
    {.name = "role", .value = "worker|producer|operator|monitor", .one_of = true,
     .task = "which keys", .help = "add, rotate: of this role (rotate: default all)"},
    {.name = "id", .value = "ID", .help = "revoke: this key, as list prints it; may be repeated"},
    {.name = "expires", .value = "TIME", .real_least = 1, .task = "how",
     .help = "add, rotate: the new key ends after it (default: never)"},
    {.name = "grace", .value = "TIME", .fallback = "1d",
     .help = "rotate: how long the old keys stay good"},
    {.name = "note", .value = "TEXT", .help = "add, rotate: what the key is for"},
    {.name = "output", .letter = 'o', .value = "FILE",
     .path = WM_PATH_WRITTEN, .writes = &wm_made_join,
     .help = "add: write the join file there (default: the campaign's join-ROLE-ID)"},
    {.name = NULL},
};

static const char text[] =
    "  wiremill keys list out/\n"
    "  wiremill keys add out/ --role worker --expires 30d --note 'B' --output join-b\n"
    "  wiremill keys revoke out/ --id 1a2b3c4d\n"
    "  wiremill keys rotate out/ --role worker --grace 2d\n\n"
    "A key is a join file: one line, which lets a process join the campaign's broker in its "
    "role. Workers score, producers send files and get their scores, operators control, monitors "
    "only read. Several keys of a role are good at a time. A running broker takes a change within "
    "a second: sessions of a key that is revoked or expires are ended. rotate makes a new key and "
    "writes it to the campaign's join-ROLE; the keys of that role before it expire after --grace. "
    "Nobody can read a join file's secret from the table.\n";

static int keys_main (const wm_args_t *args);
const wm_verb_t wm_verb_keys = {
    .name = "keys", .task = SPREAD_TASK, .rest = "list|add|revoke|rotate [DIR]",
    .summary = "list, add, revoke and rotate the keys of a campaign's broker", .text = text,
    .options = options, .run = keys_main };
/* clang-format on */

typedef struct {
    const wm_args_t *args;
    char campaign[4096];
    wm_keys_t table;
    int64_t now_s;
} keys_t;

/* ---- list ------------------------------------------------------------------------------------ */

static const char *print_time (int64_t seconds, char out[24])
{
    const time_t when = (time_t) seconds;
    struct tm tm;
    if (!seconds || !gmtime_r (&when, &tm) || !strftime (out, 24, "%Y-%m-%d %H:%MZ", &tm))
        strcpy (out, "-");
    return out;
}

static int list (keys_t *self)
{
    char made[24], until[24];
    printf ("%-8s  %-8s  %-17s  %-17s  %-8s  %s\n", "ROLE", "ID", "MADE", "EXPIRES", "STATE",
            "NOTE");
    for (size_t i = 0; i < self->table.n; i++) {
        const wm_keys_row_t *row = &self->table.row[i];
        const char *why = wm_keys_why_not (row, self->now_s);
        printf ("%-8s  %-8s  %-17s  %-17s  %-8s  %s\n", wm_role_name (row->role), row->id,
                print_time (row->made_s, made), print_time (row->expires_s, until),
                !why             ? "good"
                : row->revoked_s ? "revoked"
                                 : "expired",
                row->note);
    }
    return WM_EXIT_OK;
}

/* ---- add ------------------------------------------------------------------------------------- */

/* Makes a key and its file, the table first: a join file of a rotated role is always good. Its note
   is `otherwise` if none was given.  */
static wm_fault_t make (keys_t *self, wm_role_t role, const char *path, const char *otherwise,
                        char made[4200], wm_error_t *error)
{
    const int64_t expires = (int64_t) wm_args_seconds (self->args, "expires");
    wm_join_t join;
    const char *note = wm_args_text (self->args, "note");
    if (wm_keys_add (&self->table, self->campaign, role, expires ? self->now_s + expires : 0,
                     note ? note : otherwise, &join, error))
        return error->fault;
    if (path)
        snprintf (made, 4200, "%s", path);
    else
        snprintf (made, 4200, "%s/join-%s-%s", self->campaign, wm_role_name (role), join.id);
    wm_fault_t fault = wm_keys_write (&self->table, self->campaign, error);
    wm_error_t unused;
    if (!fault && (fault = wm_keys_write_join (made, &join, error))) {
        self->table.n--;
        wm_keys_write (&self->table, self->campaign, &unused); /* best effort */
    }
    wm_join_wipe (&join);
    return fault;
}

static int add (keys_t *self)
{
    wm_error_t error;
    char made[4200], place[PATH_MAX];
    const char *role = wm_args_text (self->args, "role");
    if (!role)
        return wm_args_refuse (self->args,
                               "add needs --role worker, producer, operator or monitor");
    const char *path = wm_args_place (self->args, "output", place);
    if (make (self, wm_role_of (role), path, "", made, &error))
        return wm_complain ("keys", &error);
    printf ("key %s: give %s to %s (scp keeps it secret; mode 600)\n",
            self->table.row[self->table.n - 1].id, made,
            strcmp (role, "operator") == 0 ? "an operator" : role);
    return WM_EXIT_OK;
}

/* ---- revoke, rotate -------------------------------------------------------------------------- */

static int revoke_keys (keys_t *self)
{
    wm_error_t error;
    const char *id;
    if (!wm_args_given (self->args, "id"))
        return wm_args_refuse (self->args,
                               "revoke needs --id ID, as `wiremill keys list` prints it");
    for (int i = 0; (id = wm_args_each (self->args, "id", i)); i++) {
        wm_keys_row_t *row = wm_keys_of_id (&self->table, id);
        if (!row)
            return wm_args_refuse (self->args,
                                   "no key has the id '%s'; `wiremill keys list` "
                                   "prints them; nothing was revoked",
                                   id);
        if (!row->revoked_s)
            row->revoked_s = self->now_s;
    }
    if (wm_keys_write (&self->table, self->campaign, &error))
        return wm_complain ("keys", &error);
    for (int i = 0; (id = wm_args_each (self->args, "id", i)); i++)
        printf ("revoked %s %s: a running broker ends its sessions within seconds\n",
                wm_role_name (wm_keys_of_id (&self->table, id)->role), id);
    return WM_EXIT_OK;
}

/* The new key is in the table before the old ones get their end, so that no crash leaves a role
   without one.  */
static wm_fault_t rotate_role (keys_t *self, wm_role_t role, int64_t grace_s, wm_error_t *error)
{
    char path[4200], made[4200], until[24];
    snprintf (path, sizeof path, "%s/join-%s", self->campaign, wm_role_name (role));
    if (make (self, role, path, "made by rotate", made, error))
        return error->fault;
    const size_t last = self->table.n - 1;
    unsigned n = 0;
    for (size_t i = 0; i < last; i++) {
        wm_keys_row_t *row = &self->table.row[i];
        if (row->role != role || wm_keys_why_not (row, self->now_s) ||
            (row->expires_s && row->expires_s <= self->now_s + grace_s))
            continue;
        row->expires_s = self->now_s + grace_s;
        n++;
    }
    if (wm_keys_write (&self->table, self->campaign, error))
        return error->fault;
    printf ("%s: key %s is in %s; %u older key%s good until %s\n", wm_role_name (role),
            self->table.row[last].id, made, n, n == 1 ? " is" : "s are",
            print_time (self->now_s + grace_s, until));
    return WM_OK;
}

static int rotate (keys_t *self)
{
    wm_error_t error;
    const int64_t grace = (int64_t) wm_args_seconds (self->args, "grace");
    const char *role = wm_args_text (self->args, "role");
    if (wm_args_given (self->args, "output"))
        return wm_args_refuse (self->args, "rotate writes the campaign's join-ROLE: leave --output "
                                           "out");
    for (wm_role_t r = WM_ROLE_WORKER; r <= WM_ROLE_MONITOR; r++)
        if ((!role || wm_role_of (role) == r) && rotate_role (self, r, grace, &error))
            return wm_complain ("keys", &error);
    return WM_EXIT_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool has_table (const keys_t *self)
{
    char path[4200];
    snprintf (path, sizeof path, "%s/keys", self->campaign);
    return access (path, F_OK) == 0;
}

/* Refuses root where the keys are a user's: that user's broker could not read what root writes.  */
static bool is_of_another (const keys_t *self)
{
    char path[4200];
    struct stat st;
    snprintf (path, sizeof path, "%s%s", self->campaign, has_table (self) ? "/keys" : "");
    if (geteuid () != 0 || stat (path, &st) || st.st_uid == 0)
        return false;
    wm_args_refuse (self->args,
                    "%s is of the user with the id %u, whose broker could not read what root "
                    "writes there; as root type: sudo -u '#%u' wiremill keys ...",
                    path, (unsigned) st.st_uid, (unsigned) st.st_uid);
    return true;
}

static int keys_main (const wm_args_t *args)
{
    static const struct {
        const char *name;
        int (*run) (keys_t *self);
    } action[] = {
        { "list", list }, { "add", add }, { "revoke", revoke_keys }, { "rotate", rotate }
    };
    keys_t self = { .args = args, .now_s = time (NULL) };
    char endpoint[256];
    wm_error_t error;
    size_t i = 0;
    const char *what = wm_args_rest (args, 0), *folder = wm_args_text (args, "campaign");
    const char *note = wm_args_text (args, "note");
    while (i < 4 && (!what || strcmp (action[i].name, what) != 0))
        i++;
    if (i == 4)
        return wm_args_refuse (args, "type wiremill keys list, add, revoke or rotate");
    if (note && (strpbrk (note, "\t\n\r") || strlen (note) >= WM_KEYS_NOTE_BYTES))
        return wm_args_refuse (args, "--note takes up to %d characters on one line",
                               WM_KEYS_NOTE_BYTES - 1);
    if (sodium_init () < 0 ||
        wm_ask_at (NULL, folder ? folder : wm_args_rest (args, 1), endpoint, self.campaign, &error))
        return wm_complain ("keys", &error);
    int lock = -1;
    if (action[i].run == list) {
        if (!has_table (&self)) {
            printf ("%s has no keys yet: `wiremill keys add` makes them, and so does a broker "
                    "that needs them\n",
                    self.campaign);
            return WM_EXIT_OK;
        }
    } else if (is_of_another (&self))
        return WM_EXIT_USAGE;
    else if (wm_keys_begin (self.campaign, &error) ||
             (lock = wm_keys_lock (self.campaign, &error)) < 0)
        return wm_complain ("keys", &error);
    const int code = wm_keys_read (&self.table, self.campaign, &error)
                         ? wm_complain ("keys", &error)
                         : action[i].run (&self);
    wm_keys_free (&self.table);
    if (lock >= 0)
        close (lock);
    return code;
}
