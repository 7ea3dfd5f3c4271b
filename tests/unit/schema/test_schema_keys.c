/* test_schema_keys.c - join lines and their files, key pairs, the table of keys.  */
#include "schema/session/wm_keys.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Computed by Python's hashlib.blake2b and `openssl pkey` from the secret 00 01 .. 1f.  */
static const struct {
    wm_role_t role;
    const char *private_key, *public_key;
} known[] = {
    { WM_ROLE_WORKER, "39bf6ee528907c23e6d5331e9cd4783c32e817f61fb94f54eb1e058bae8793f5",
      "a2644c3638c261237d313f58618e99a5a0f6c1ec93fa4577db1531caf089fd63" },
    { WM_ROLE_PRODUCER, "6f5ea723af7e327e64a1ec3e96d23eb59464185b6e2d04b5de4f5addd7fe5853",
      "dc5c0b5c493ffafa90b53f84ec7ef35f229632241ad0113f3ffcb6d49a071567" },
    { WM_ROLE_OPERATOR, "1e2e6d193d17c592fd738565aaef95e3380443aeb1de503fde291e5ac51dc8ee",
      "a44f4df5d9e44854df20f24266c4086df00ca97d9916b0c40dfdbbc93709a652" },
    { WM_ROLE_MONITOR, "b23ce750b1968a850cbbb276db383c63d414c4fbc1ba17d93fd4b1151526e39c",
      "622c08f38dd89b51c49d869df6e9e7e7442fce99d81179f98fa090378fb8a337" },
};

/* The same of a worker's line: id 0badcafe, until 1800000000, the server's key 64 65 .. 83.  */
static const char known_line[] =
    "wm1-045tvjqydd4x4000041061050r3gg28a1c60t3gf208h44rm2mb1e60s38dhr78y3xj6ask7d1mpmtvcdnq6yw3h"
    "e9sq8xbpexw7jykvfhyqwzw0g6187fnb7rmvd9mm";

static char folder[64];

static int make_folder (void **state)
{
    strcpy (folder, "/tmp/wm-keys-XXXXXX");
    return sodium_init () < 0 || !mkdtemp (folder);
}

static int remove_folder (void **state)
{
    char command[100];
    snprintf (command, sizeof command, "rm -r %s", folder);
    return system (command);
}

static wm_join_t known_join (wm_role_t role)
{
    wm_join_t join = { .role = role, .id = "0badcafe", .expires_s = 1800000000 };
    for (uint8_t i = 0; i < 32; i++) {
        join.secret[i] = i;
        join.server[i] = (uint8_t) (100 + i);
    }
    return join;
}

static void pairs_are_known (void **state)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const wm_join_t join = known_join (known[i].role);
        uint8_t public_key[32], private_key[32];
        char hex[65];
        wm_join_pair (&join, public_key, private_key);
        assert_string_equal (sodium_bin2hex (hex, 65, private_key, 32), known[i].private_key);
        assert_string_equal (sodium_bin2hex (hex, 65, public_key, 32), known[i].public_key);
    }
}

static void a_line_goes_both_ways (void **state)
{
    const wm_join_t join = known_join (WM_ROLE_WORKER);
    wm_join_t back;
    wm_error_t error;
    char line[WM_JOIN_LINE_BYTES], other[WM_JOIN_LINE_BYTES + 8];
    wm_join_print (&join, line);
    assert_string_equal (line, known_line);
    assert_int_equal (wm_join_parse (&back, line, &error), WM_OK);
    assert_memory_equal (&back, &join, sizeof back);
    /* as people copy it: capitals, letters for digits, spaces around */
    snprintf (other, sizeof other, "  %s\r\n", line);
    for (char *at = other; *at; at++)
        *at = (char) (*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at == '0' ? 'o' : *at);
    assert_int_equal (wm_join_parse (&back, other, &error), WM_OK);
    assert_memory_equal (&back, &join, sizeof back);
    wm_join_wipe (&back);
    assert_true (sodium_is_zero ((uint8_t *) &back, sizeof back));
}

/* Every single wrong character is noticed, and no message repeats a piece of the line.  */
static void a_mistyped_line_is_told (void **state)
{
    wm_join_t join;
    wm_error_t error;
    char line[WM_JOIN_LINE_BYTES + 8];
    for (size_t i = 4; i < WM_JOIN_LINE_BYTES - 1; i++) {
        strcpy (line, known_line);
        line[i] = line[i] == 'x' ? 'y' : 'x';
        assert_int_equal (wm_join_parse (&join, line, &error), WM_EUSAGE);
        assert_non_null (strstr (error.text, "mistyped"));
    }
    static const struct {
        const char *line, *why;
    } bad[] = {
        { "", "is no join file (one line, wm1-" },
        { "hello", "is no join file (one line, wm1-" },
        { "wm1-", "has 0 characters" },
        { "wm1-045tvjqydd4x40000", "has 17 characters" },
        { "wm1-045 tvj", "more than one" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal (wm_join_parse (&join, bad[i].line, &error), WM_EUSAGE);
        assert_non_null (strstr (error.text, bad[i].why));
        assert_null (strstr (error.text, "045tv"));
    }
    wm_join_t later = known_join (9); /* a role of a later version */
    wm_join_print (&later, line);
    assert_int_equal (wm_join_parse (&join, line, &error), WM_EUSAGE);
    assert_non_null (strstr (error.text, "does not know"));
}

static void a_file_is_read (void **state)
{
    char path[100];
    const wm_join_t join = known_join (WM_ROLE_MONITOR);
    wm_join_t back;
    wm_error_t error;
    struct stat st;
    struct rlimit core;
    snprintf (path, sizeof path, "%s/join", folder);
    assert_int_equal (wm_join_read (&back, path, &error), WM_EUSAGE);
    assert_non_null (strstr (error.text, "does not exist"));
    umask (0);
    assert_int_equal (wm_keys_write_join (path, &join, &error), WM_OK);
    assert_int_equal (stat (path, &st), 0);
    assert_int_equal (st.st_mode & 0777, 0600);
    assert_int_equal (wm_join_read (&back, path, &error), WM_OK);
    assert_memory_equal (&back, &join, sizeof back);
    assert_int_equal (getrlimit (RLIMIT_CORE, &core), 0);
    assert_true (core.rlim_cur <= 1); /* who has read a key writes no core file */
    core.rlim_cur = 0;                /* which a program at the end of a pipe gets even so */
    assert_int_equal (setrlimit (RLIMIT_CORE, &core), 0);
    wm_join_protect ();
    assert_int_equal (getrlimit (RLIMIT_CORE, &core), 0);
    assert_true (core.rlim_cur == 1 || core.rlim_max == 0);
    assert_int_equal (wm_join_read (&back, folder, &error), WM_EUSAGE);
}

/* A secret never goes into a temporary file that somebody made before.  */
static void a_secret_has_its_own_file (void **state)
{
    char path[100], other[130], line[WM_JOIN_LINE_BYTES + 1] = "";
    const wm_join_t join = known_join (WM_ROLE_MONITOR);
    wm_error_t error;
    snprintf (path, sizeof path, "%s/join", folder);
    snprintf (other, sizeof other, "%s.%ld.tmp", path, (long) getpid ());
    FILE *theirs = fopen (other, "w+");
    assert_non_null (theirs);
    assert_int_equal (flock (fileno (theirs), LOCK_SH | LOCK_NB), 0); /* so that it stays */
    alarm (20); /* waits for their file for ever where it wants to write there */
    assert_int_equal (wm_keys_write_join (path, &join, &error), WM_OK);
    alarm (0);
    assert_int_equal (fread (line, 1, sizeof line, theirs), 0);
    fclose (theirs);
}

static void roles_fit (void **state)
{
    for (wm_role_t key = WM_ROLE_WORKER; key <= WM_ROLE_MONITOR; key++) {
        assert_int_equal (wm_role_of (wm_role_name (key)), key);
        for (wm_role_t session = WM_ROLE_WORKER; session <= WM_ROLE_OPERATOR; session++)
            assert_int_equal (wm_role_fits (key, session),
                              key == session ||
                                  (key == WM_ROLE_MONITOR && session == WM_ROLE_OPERATOR));
    }
    assert_int_equal (wm_role_of ("janitor"), 0);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void a_campaign_gets_its_keys_once (void **state)
{
    char path[100];
    uint8_t server[32], again[32], public_key[32], private_key[32];
    wm_keys_t table = { 0 };
    wm_error_t error;
    struct stat st;
    assert_int_equal (wm_keys_begin (folder, &error), WM_OK);
    assert_int_equal (wm_keys_server (folder, server, NULL, &error), WM_OK);
    assert_int_equal (wm_keys_begin (folder, &error), WM_OK);
    assert_int_equal (wm_keys_server (folder, again, private_key, &error), WM_OK);
    assert_memory_equal (server, again, 32);
    assert_int_equal (wm_keys_read (&table, folder, &error), WM_OK);
    assert_int_equal (table.n, 4);
    static const char *const files[] = { "keys", "server-key" };
    for (size_t i = 0; i < 2; i++) {
        snprintf (path, sizeof path, "%s/%s", folder, files[i]);
        assert_int_equal (stat (path, &st), 0);
        assert_int_equal (st.st_mode & 0777, 0600);
    }
    for (size_t i = 0; i < table.n; i++) {
        wm_join_t join;
        snprintf (path, sizeof path, "%s/join-%s", folder, wm_role_name (table.row[i].role));
        assert_int_equal (wm_join_read (&join, path, &error), WM_OK);
        assert_int_equal (join.role, table.row[i].role);
        assert_string_equal (join.id, table.row[i].id);
        assert_memory_equal (join.server, server, 32);
        wm_join_pair (&join, public_key, private_key);
        assert_ptr_equal (wm_keys_of_public (&table, public_key), &table.row[i]);
    }
    wm_keys_free (&table);
}

static void a_table_goes_both_ways (void **state)
{
    wm_keys_t table = { 0 }, back = { 0 };
    wm_join_t join;
    wm_error_t error;
    assert_int_equal (wm_keys_begin (folder, &error), WM_OK);
    assert_int_equal (wm_keys_read (&table, folder, &error), WM_OK);
    const int64_t now = time (NULL);
    assert_int_equal (
        wm_keys_add (&table, folder, WM_ROLE_WORKER, now + 100, "night shift", &join, &error),
        WM_OK);
    table.row[0].revoked_s = now;
    assert_int_equal (wm_keys_write (&table, folder, &error), WM_OK);
    assert_int_equal (wm_keys_read (&back, folder, &error), WM_OK);
    assert_int_equal (back.n, 5);
    assert_memory_equal (back.row, table.row, 5 * sizeof *back.row);
    const wm_keys_row_t *row = wm_keys_of_id (&back, join.id);
    assert_null (wm_keys_why_not (row, now));
    assert_null (wm_keys_why_not (row, now + 99));
    assert_string_equal (wm_keys_why_not (row, now + 100), "it expired");
    assert_string_equal (wm_keys_why_not (&back.row[0], now), "it was revoked");
    assert_non_null (wm_keys_why_not (NULL, now));
    wm_keys_free (&table);
    wm_keys_free (&back);
}

static void write_table (const char *text)
{
    char path[100];
    snprintf (path, sizeof path, "%s/keys", folder);
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

#define ROW                                                                                        \
    "worker\t0badcafe\ta2644c3638c261237d313f58618e99a5a0f6c1ec93fa4577db1531caf089fd63\t1\t0\t0\t"

/* Whatever is wrong with it, what was read before stays.  */
static void a_broken_table_is_refused (void **state)
{
    static const struct {
        const char *text;
        int line;
    } bad[] = {
        { "", 2 },
        { "wiremill-keys 2\nend 0\n", 1 },
        { "wiremill-keys 1\n", 2 },
        { "wiremill-keys 1\n" ROW "\n", 3 },
        { "wiremill-keys 1\n" ROW "\nend 2\n", 3 },
        { "wiremill-keys 1\n" ROW "\nend 1", 3 },
        { "wiremill-keys 1\n" ROW "\n" ROW "\nend 2\n", 3 }, /* an id twice */
        { "wiremill-keys 1\nend 0\nmore\n", 3 },
        { "wiremill-keys 1\njanitor\t0badcafe\tab\t1\t0\t0\t\nend 1\n", 2 },
        { "wiremill-keys 1\nworker\t0badcafe\tab\t1\t0\t0\t\nend 1\n", 2 },
        { "wiremill-keys 1\nworker\t0badcafe\nend 1\n", 2 },
        { "wiremill-keys 1\n" ROW
          "a note of more than eighty characters is not one that wiremill keys would ever write\n"
          "end 1\n",
          2 },
    };
    wm_keys_t table = { 0 };
    wm_error_t error;
    char text[40];
    write_table ("wiremill-keys 1\n" ROW "fine\nend 1\n");
    assert_int_equal (wm_keys_read (&table, folder, &error), WM_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_table (bad[i].text);
        assert_int_equal (wm_keys_read (&table, folder, &error), WM_EBATCH);
        snprintf (text, sizeof text, ": line %d is not what", bad[i].line);
        if (!strstr (error.text, text))
            fail_msg ("%s: wanted%s", error.text, text);
        assert_int_equal (table.n, 1);
        assert_string_equal (table.row[0].note, "fine");
    }
    wm_keys_free (&table);
}

static void a_broken_server_key_is_refused (void **state)
{
    char path[100];
    uint8_t key[32];
    wm_error_t error;
    snprintf (path, sizeof path, "%s/server-key", folder);
    assert_int_equal (wm_keys_server (folder, key, NULL, &error), WM_EHOST);
    assert_int_equal (wm_keys_begin (folder, &error), WM_OK);
    for (long at = 0; at < 104; at += 7) {
        FILE *file = fopen (path, "r+");
        assert_non_null (file);
        fseek (file, at, SEEK_SET);
        const int was = fgetc (file);
        fseek (file, at, SEEK_SET);
        fputc (was == '1' ? '2' : '1', file);
        fclose (file);
        assert_int_equal (wm_keys_server (folder, key, NULL, &error), WM_EBATCH);
        assert_non_null (strstr (error.text, "damaged"));
        file = fopen (path, "r+");
        fseek (file, at, SEEK_SET);
        fputc (was, file);
        fclose (file);
        assert_int_equal (wm_keys_server (folder, key, NULL, &error), WM_OK);
    }
}

/* With another server key no join file would be good: none is made behind people's backs.  */
static void a_lost_server_key_is_not_replaced (void **state)
{
    char path[100];
    wm_error_t error;
    assert_int_equal (wm_keys_begin (folder, &error), WM_OK);
    snprintf (path, sizeof path, "%s/server-key", folder);
    assert_int_equal (unlink (path), 0);
    assert_int_equal (wm_keys_begin (folder, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "put it back, or remove `keys`"));
    assert_int_equal (access (path, F_OK), -1);
    snprintf (path, sizeof path, "%s/keys", folder);
    assert_int_equal (unlink (path), 0);
    assert_int_equal (wm_keys_begin (folder, &error), WM_OK);
}

/* Who can only read the folder holds nobody up, and nobody waits for ever.  */
static void a_lock_is_its_users (void **state)
{
    char path[100];
    struct stat st;
    wm_error_t error;
    const int reader = open (folder, O_RDONLY | O_DIRECTORY);
    assert_int_equal (flock (reader, LOCK_EX), 0);
    alarm (60);
    const int lock = wm_keys_lock (folder, &error);
    assert_true (lock >= 0);
    close (reader);
    snprintf (path, sizeof path, "%s/keys.lock", folder);
    assert_int_equal (stat (path, &st), 0);
    assert_int_equal (st.st_mode & 0777, 0600);
    assert_true (wm_keys_is_secret ("keys.lock"));
    assert_int_equal (wm_keys_lock (folder, &error), -1);
    assert_non_null (strstr (error.text, "was locked for 10 s"));
    alarm (0);
    close (lock);
    assert_int_equal (unlink (path), 0);
    assert_int_equal (symlink ("elsewhere", path), 0);
    assert_int_equal (wm_keys_lock (folder, &error), -1);
}

static void ended_rows_leave_the_table (void **state)
{
    wm_keys_t table = { 0 };
    wm_join_t join;
    wm_error_t error;
    const int64_t now = time (NULL), day = 86400;
    assert_int_equal (wm_keys_begin (folder, &error), WM_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal (wm_keys_add (&table, folder, WM_ROLE_WORKER, 0, "", &join, &error),
                          WM_OK);
    char good[WM_JOIN_ID_BYTES];
    strcpy (good, table.row[2].id);
    table.row[0].revoked_s = now - 31 * day;
    table.row[1].expires_s = now - 31 * day;
    table.row[2].expires_s = now + day;
    table.row[3].revoked_s = now - 29 * day;
    table.row[4].expires_s = now - 29 * day;
    assert_int_equal (wm_keys_add (&table, folder, WM_ROLE_WORKER, 0, "", &join, &error), WM_OK);
    assert_int_equal (table.n, 4);
    assert_string_equal (table.row[0].id, good);
    while (table.n < WM_KEYS_MAX)
        assert_int_equal (wm_keys_add (&table, folder, WM_ROLE_WORKER, 0, "", &join, &error),
                          WM_OK);
    table.row[2].expires_s = now - 28 * day; /* later than row 1 ended */
    strcpy (good, table.row[2].id);
    assert_int_equal (wm_keys_add (&table, folder, WM_ROLE_WORKER, 0, "", &join, &error), WM_OK);
    assert_int_equal (table.n, WM_KEYS_MAX);
    assert_string_equal (table.row[1].id, good);
    assert_int_equal (wm_keys_add (&table, folder, WM_ROLE_WORKER, 0, "", &join, &error), WM_OK);
    assert_int_equal (table.n, WM_KEYS_MAX);
    assert_null (wm_keys_of_id (&table, good));
    assert_int_equal (wm_keys_add (&table, folder, WM_ROLE_WORKER, 0, "", &join, &error),
                      WM_EBATCH);
    assert_non_null (strstr (error.text, "revoke one first"));
    wm_keys_free (&table);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (pairs_are_known),
        cmocka_unit_test (a_line_goes_both_ways),
        cmocka_unit_test (a_mistyped_line_is_told),
        cmocka_unit_test_setup_teardown (a_file_is_read, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown (a_secret_has_its_own_file, make_folder, remove_folder),
        cmocka_unit_test (roles_fit),
        cmocka_unit_test_setup_teardown (a_campaign_gets_its_keys_once, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown (a_table_goes_both_ways, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown (a_broken_table_is_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown (a_lost_server_key_is_not_replaced, make_folder,
                                         remove_folder),
        cmocka_unit_test_setup_teardown (a_lock_is_its_users, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown (ended_rows_leave_the_table, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown (a_broken_server_key_is_refused, make_folder,
                                         remove_folder),
    };
    return sodium_init () < 0 || cmocka_run_group_tests (tests, NULL, NULL);
}
