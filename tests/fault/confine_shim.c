/* confine_shim.c - a library that a hostile file has taken over (LD_PRELOAD): the first call that
   reads a file's content also does what no reader should.

   WM_SHIM_DO=ACT   exec, fork: /bin/sh makes WM_SHIM_MARK; socket, listen, ptrace, kill (the
                    parent, with signal 0), write (WM_SHIM_MARK), steal (reads HOME/.ssh/key),
                    environ (reads that of the parent), link (WM_SHIM_MARK becomes one), spoil
                    (opens what is in the campaign's folder WM_SHIM_MARK, to read and to write,
                    lists it and makes a file there); plant: an import leaves a link to WM_SHIM_MARK
                    as its model.wmm; old: nothing, but the kernel has neither seccomp nor Landlock
   Prints "shim: ACT: done" or why not.  */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int shell (const char *mark)
{
    char command[4200];
    snprintf (command, sizeof command, ": >'%s'", mark);
    return execl ("/bin/sh", "sh", "-c", command, (char *) NULL);
}

static int forked (const char *mark)
{
    int status;
    const pid_t pid = fork ();
    if (pid == 0)
        _exit (shell (mark));
    return pid < 0 || waitpid (pid, &status, 0) < 0 ? -1 : 0;
}

static int read_some (const char *path)
{
    char byte;
    const int fd = open (path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        errno = EACCES; /* of an environment that may not be read the kernel gives nothing */
    return fd < 0 || read (fd, &byte, 1) != 1 ? -1 : 0;
}

/* 0: something of it is open to this process; -1 and errno: all that is there is refused.  */
static int spoil (const char *folder)
{
    static const struct {
        const char *name;
        int flags;
    } way[] = { { ".", O_RDONLY | O_DIRECTORY },
                { "new", O_WRONLY | O_CREAT },
                { "ledger.db", O_RDONLY },
                { "ledger.db", O_RDWR },
                { "journal", O_RDONLY | O_DIRECTORY },
                { "journal/new", O_WRONLY | O_CREAT },
                { "lock", O_RDONLY },
                { "lock", O_WRONLY },
                { "endpoint.json", O_RDONLY },
                { "endpoint.json", O_WRONLY },
                { "keys", O_RDONLY },
                { "keys", O_WRONLY },
                { "server-key", O_RDONLY },
                { "join-producer", O_RDONLY },
                { "join-operator", O_RDONLY },
                { "join-worker", O_WRONLY } };
    int n_open = 0, failed = ENOENT;
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        char path[4200];
        snprintf (path, sizeof path, "%s/%s", folder, way[i].name);
        const int fd = open (path, way[i].flags | O_CLOEXEC, 0600);
        failed = fd < 0 && errno != ENOENT ? errno : failed;
        n_open += fd >= 0;
        if (fd >= 0)
            fprintf (stderr, "shim: opens %s\n", path);
    }
    errno = failed;
    return n_open ? 0 : -1;
}

static int act (const char *what, const char *mark)
{
    char path[4200];
    struct sockaddr_in any = { .sin_family = AF_INET };
    const int one = strcmp (what, "listen") ? -1 : socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!strcmp (what, "exec"))
        return shell (mark);
    if (!strcmp (what, "fork"))
        return forked (mark);
    if (!strcmp (what, "socket"))
        return socket (AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (!strcmp (what, "listen"))
        return one < 0 || bind (one, (struct sockaddr *) &any, sizeof any) ? -1 : listen (one, 1);
    if (!strcmp (what, "ptrace"))
        return (int) ptrace (PTRACE_ATTACH, getppid (), NULL, NULL);
    if (!strcmp (what, "kill"))
        return kill (getppid (), 0);
    if (!strcmp (what, "write"))
        return open (mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (!strcmp (what, "link"))
        return symlink ("/etc/passwd", mark);
    if (!strcmp (what, "spoil"))
        return spoil (mark);
    if (!strcmp (what, "steal"))
        snprintf (path, sizeof path, "%s/.ssh/key", getenv ("HOME"));
    else
        snprintf (path, sizeof path, "/proc/%d/environ", (int) getppid ());
    return read_some (path);
}

static void misbehave (const char *program)
{
    static int once;
    const char *what = getenv ("WM_SHIM_DO"), *mark = getenv ("WM_SHIM_MARK");
    if (once++ || !what || !mark || !strcmp (what, "old") || !strcmp (what, "plant") ||
        strcmp (program_invocation_short_name, program) != 0)
        return;
    const int rc = act (what, mark);
    fprintf (stderr, "shim: %s: %s\n", what, rc < 0 ? strerror (errno) : "done");
}

long syscall (long number, ...)
{
    long (*real) (long, ...) = (long (*) (long, ...)) (uintptr_t) dlsym (RTLD_NEXT, "syscall");
    const char *what = getenv ("WM_SHIM_DO");
    long a[6];
    va_list arguments;
    va_start (arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg (arguments, long);
    va_end (arguments);
    if (what && !strcmp (what, "old") &&
        (number == SYS_seccomp || (number >= 444 && number <= 446))) {
        errno = ENOSYS;
        return -1;
    }
    return real (number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* An import ends, after its answer.  */
void _exit (int code)
{
    const char *what = getenv ("WM_SHIM_DO"), *folder = getenv ("TMPDIR");
    char path[4200];
    if (what && !strcmp (what, "plant") && folder && strstr (folder, ".wmm.import-")) {
        snprintf (path, sizeof path, "%s/model.wmm", folder);
        unlink (path);
        if (symlink (getenv ("WM_SHIM_MARK"), path) == 0)
            fprintf (stderr, "shim: plant: done\n");
    }
    syscall (SYS_exit_group, code);
    __builtin_unreachable ();
}

/* The producer opens an event file.  */
int64_t H5Fopen (const char *name, unsigned flags, int64_t access)
{
    int64_t (*real) (const char *, unsigned, int64_t) =
        (int64_t (*) (const char *, unsigned, int64_t)) (uintptr_t) dlsym (RTLD_NEXT, "H5Fopen");
    misbehave ("wiremill-producer");
    return real (name, flags, access);
}

/* An import parses a model.  */
void *protobuf_c_message_unpack (const void *descriptor, void *allocator, size_t bytes,
                                 const uint8_t *data)
{
    void *(*real) (const void *, void *, size_t, const uint8_t *) =
        (void *(*) (const void *, void *, size_t, const uint8_t *) ) (uintptr_t) dlsym (
            RTLD_NEXT, "protobuf_c_message_unpack");
    misbehave ("wiremill");
    return real (descriptor, allocator, bytes, data);
}
