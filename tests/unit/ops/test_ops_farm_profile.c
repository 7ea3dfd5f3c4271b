/* test_ops_farm_profile.c - profiles of batch systems: words, lines left out or repeated.  */
#include "ops/farm/wm_farm.h"
#include "tests/unit/unit.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/wm-profile-XXXXXX";

/* A farm with a profile of this text.  */
static wm_farm_t farm_of (const char *text)
{
    wm_error_t error;
    wm_farm_t farm = { .name = "wm-1-a", .farm = "a", .folder = "/f", .lock = -1, .cpus = 1 };
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (text, file);
    assert_int_equal (fclose (file), 0);
    if (wm_farm_open (&farm, path, &error))
        fail_msg ("%s", error.text);
    return farm;
}

/* What --dry-run prints of a profile with this submission, without the script.  */
static void submits (const char *submit, unsigned cpus, const char *const options[], const char *as)
{
    char text[1024], *printed = NULL;
    size_t bytes;
    wm_error_t error;
    snprintf (text, sizeof text, "done = x\nsubmit = %s\n", submit);
    wm_farm_t farm = farm_of (text);
    farm.cpus = cpus;
    for (int i = 0; options && options[i]; i++)
        farm.submit_option[i] = options[i];
    FILE *out = open_memstream (&printed, &bytes);
    assert_int_equal (wm_farm_submit (&farm, 2, true, out, &error), WM_OK);
    fclose (out);
    assert_string_equal (printed, as);
    free (printed);
    wm_farm_profile_clear (&farm.profile);
}

static void test_words (void **state)
{
    static const char *const two[] = { "--a b", "-c", NULL };
    submits ("a  'b c' \"d'e\" x{name}y ''", 1, NULL, "# a 'b c' 'd'\\''e' xwm-1-ay ''\n");
    submits ("a\n    -n {n}\n    -i {idle-s}\n    -m {memory}", 1, NULL, "# a -n 2\n");
    submits ("a\n    {submit-option}\n    z", 1, two, "# a '--a b' -c z\n");
    submits ("a\n    {submit-option}\n    z", 1, NULL, "# a z\n");
    submits ("a\n    {?memory} b\n    {!memory} c\n    {?name} d\n    {!name} e", 1, NULL,
             "# a c d\n");
    submits ("a {folder/f/ff/g/x} {name/-/_/1/}", 1, NULL, "# a /ff wm__a\n");
    submits ("a\n    -pe smp {many-cpus}", 1, NULL, "# a\n");
    submits ("a\n    -pe smp {many-cpus}", 3, NULL, "# a -pe smp 3\n");
    submits ("a '{ print $1 } ${b:-c} {}\n    {x = 1}'", 1, NULL,
             "# a '{ print $1 } ${b:-c} {}\n    {x = 1}'\n");
    submits ("a {memory}\n    b\nsubmit = c", 1, NULL, "# c\n");
}

static void test_file (void **state)
{
    submits ("a {file}\n[own.sub]\n# kept\n\n  cpus = {cpus}\nmemory = {memory}\n  '{name}'\n#", 1,
             NULL,
             "# Workers of wiremill's farm a, campaign .\n"
             "# kept\n\n  cpus = 1\n  'wm-1-a'\n#\n\n# a /f/own.sub\n");
}

/* States by the order over, failed, pending; what a second list makes of the first one's lines.  */
static void test_list (void **state)
{
    wm_error_t error;
    wm_farm_jobs_t jobs = { 0 };
    wm_farm_t farm = farm_of (
        "submit = x\ndrain = x\nkill = x\njob = x\n"
        "list = printf '1 R n1\\n2 Q n2\\n3 E n3 a|b\\n4 C n4\\n\\n5 hqw n5\\n'\n"
        "list = sed 's/ /|/g'\n"
        "over = C\nfailed = E* *x\npending = Q *qw\nreason = {id} on {node}: {state} {text}\n");
    assert_int_equal (wm_farm_list (&farm, &jobs, &error), WM_OK);
    assert_int_equal (jobs.n, 4);
    assert_true (jobs.job[0].is_running);
    assert_string_equal (jobs.job[0].node, "n1");
    assert_false (jobs.job[1].is_running || jobs.job[1].has_failed);
    assert_string_equal (jobs.job[1].node, "");
    assert_true (jobs.job[2].has_failed);
    assert_string_equal (jobs.job[2].reason, "3 on n3: E a|b");
    assert_string_equal (jobs.job[3].id, "5");
    assert_false (jobs.job[3].is_running);
    wm_farm_jobs_free (&jobs);
    wm_farm_profile_clear (&farm.profile);
    static const char *const odd[] = { "1", "|R", "../1|R",
                                       "1234567890123456789012345678901234567890|R" };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char text[200];
        snprintf (text, sizeof text, "submit = x\ndrain = x\nkill = x\njob = x\nlist = echo '%s'\n",
                  odd[i]);
        farm = farm_of (text);
        assert_int_equal (wm_farm_list (&farm, &jobs, &error), WM_EHOST);
        assert_non_null (strstr (error.text, "which is no ID|STATE|NODE|TEXT"));
        wm_farm_jobs_free (&jobs);
        wm_farm_profile_clear (&farm.profile);
    }
}

/* All jobs that end get the command, a hundred at a time; a harmless message is no failure.  */
static void test_end (void **state)
{
    enum { N = 250 };
    char text[400], id[16], line[64] = "";
    wm_error_t error;
    wm_farm_jobs_t jobs = { 0 };
    snprintf (text, sizeof text,
              "submit = x\nlist = x\ndrain = bash -c 'echo $# >>%s.n' -\n    {id}\n"
              "kill = bash -c 'echo gone {ids} >&2; exit 3'\nharmless = *gone*\njob = x\n",
              path);
    wm_farm_t farm = farm_of (text);
    for (int i = 0; i < N; i++) {
        snprintf (id, sizeof id, "%d_1", i);
        wm_farm_jobs_add (&jobs, id);
    }
    assert_int_equal (wm_farm_end (&farm, &jobs, WM_FARM_WITHDRAW, &error), WM_OK);
    assert_int_equal (wm_farm_end (&farm, &jobs, WM_FARM_DRAIN, &error), WM_OK);
    assert_int_equal (wm_farm_end (&farm, &jobs, WM_FARM_KILL, &error), WM_OK);
    snprintf (text, sizeof text, "%s.n", path);
    FILE *file = fopen (text, "r");
    assert_non_null (file);
    assert_int_equal (fread (line, 1, sizeof line - 1, file), 11);
    assert_string_equal (line, "100\n100\n50\n");
    fclose (file);
    unlink (text);
    wm_farm_profile_clear (&farm.profile);
    farm = farm_of ("submit = x\nlist = x\ndrain = x\nkill = false\nharmless = *gone*\njob = x\n");
    assert_int_equal (wm_farm_end (&farm, &jobs, WM_FARM_KILL, &error), WM_EHOST);
    wm_farm_jobs_free (&jobs);
    wm_farm_profile_clear (&farm.profile);
}

/* Each profile that is shipped is sound, and finds its jobs by the name of them.  */
static void test_shipped (void **state)
{
    glob_t found;
    wm_error_t error;
    assert_int_equal (glob ("ops/farm/*.profile", 0, NULL, &found), 0);
    assert_true (found.gl_pathc >= 6);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        wm_farm_t farm = { .farm = "a", .lock = -1 };
        if (wm_farm_open (&farm, found.gl_pathv[i], &error))
            fail_msg ("%s", error.text);
        assert_true (wm_farm_profile_uses (&farm.profile, "name"));
        wm_farm_profile_clear (&farm.profile);
    }
    globfree (&found);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_words),   cmocka_unit_test (test_file),
        cmocka_unit_test (test_list),    cmocka_unit_test (test_end),
        cmocka_unit_test (test_shipped),
    };
    const int fd = mkstemp (path);
    if (fd < 0 || close (fd))
        return 1;
    const int code = cmocka_run_group_tests (tests, NULL, NULL);
    unlink (path);
    return code;
}
