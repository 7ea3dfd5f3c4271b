/* wm_confine.c - seccomp: which system calls stay. The filter is a list of what no reader of files
   needs, not of what it needs: libraries and their later versions call what they like, and a list
   of those would be incomplete on some machine. Calls that are newer than this file are refused as
   unknown (ENOSYS), and libraries do without them.  */
#include "schema/confine/wm_confine.h"
#include "schema/confine/wm_confine_private.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define CALL_LAST 462u /* mseal, Linux 6.10 */

#if defined __has_feature /* clang's way to ask */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1 /* sanitizers trace themselves by a process of their own, and map terabytes */
#else
#define SANITIZED 0
#endif

/* ---- what is lacking ------------------------------------------------------------------------- */

static char lacks[200];

void wm_confine_lack (const char *what, int number)
{
    const size_t n = strlen (lacks);
    snprintf (lacks + n, sizeof lacks - n, "%s%s: %s", n ? "; " : "", what, strerror (number));
}

const char *wm_confine_lacks (void)
{
    return lacks;
}

bool wm_confine_is_off (void)
{
    const char *text = getenv ("WM_CONFINE");
    return text && !strcmp (text, "0");
}

/* ---- the filter ------------------------------------------------------------------------------ */

/* What SECCOMP_RET_DATA of a trapped call states.  */
enum { REFUSED = 0, FATAL = 1 };

static const struct {
    uint16_t call, how;
    const char *name;
} refused[] = {
#define ROW(name, how)                                                                             \
    {                                                                                              \
        SYS_##name, how, #name                                                                     \
    }
    ROW (execve, FATAL),
    ROW (execveat, FATAL),
    ROW (ptrace, FATAL),
    ROW (process_vm_readv, FATAL),
    ROW (process_vm_writev, FATAL),
#ifdef SYS_fork
    ROW (fork, FATAL),
    ROW (vfork, FATAL),
#endif
    ROW (bind, REFUSED),
    ROW (listen, REFUSED),
    ROW (accept, REFUSED),
    ROW (accept4, REFUSED),
    ROW (tkill, REFUSED),
    ROW (rt_sigqueueinfo, REFUSED),
    ROW (rt_tgsigqueueinfo, REFUSED),
    ROW (pidfd_send_signal, REFUSED),
    ROW (pidfd_getfd, REFUSED),
    ROW (kcmp, REFUSED),
    ROW (mount, REFUSED),
    ROW (umount2, REFUSED),
    ROW (pivot_root, REFUSED),
    ROW (chroot, REFUSED),
    ROW (setns, REFUSED),
    ROW (unshare, REFUSED),
    ROW (open_tree, REFUSED),
    ROW (move_mount, REFUSED),
    ROW (fsopen, REFUSED),
    ROW (fsmount, REFUSED),
    ROW (open_by_handle_at, REFUSED),
#ifdef SYS_chmod
    ROW (chmod, REFUSED),
    ROW (chown, REFUSED),
    ROW (lchown, REFUSED),
#endif
    ROW (fchmod, REFUSED),
    ROW (fchmodat, REFUSED),
    ROW (fchown, REFUSED),
    ROW (fchownat, REFUSED),
    ROW (setxattr, REFUSED),
    ROW (lsetxattr, REFUSED),
    ROW (fsetxattr, REFUSED),
    ROW (removexattr, REFUSED),
    ROW (lremovexattr, REFUSED),
    ROW (fremovexattr, REFUSED),
    ROW (bpf, REFUSED),
    ROW (perf_event_open, REFUSED),
    ROW (userfaultfd, REFUSED),
    ROW (io_uring_setup, REFUSED), /* its requests pass by this filter */
    ROW (io_uring_enter, REFUSED),
    ROW (io_uring_register, REFUSED),
    ROW (add_key, REFUSED),
    ROW (request_key, REFUSED),
    ROW (keyctl, REFUSED),
    ROW (kexec_load, REFUSED),
    ROW (init_module, REFUSED),
    ROW (finit_module, REFUSED),
    ROW (delete_module, REFUSED),
    ROW (reboot, REFUSED),
    ROW (swapon, REFUSED),
    ROW (swapoff, REFUSED),
    ROW (acct, REFUSED),
    ROW (quotactl, REFUSED),
    ROW (syslog, REFUSED),
    ROW (vhangup, REFUSED),
    ROW (sethostname, REFUSED),
    ROW (setdomainname, REFUSED),
    ROW (settimeofday, REFUSED),
    ROW (clock_settime, REFUSED),
    ROW (adjtimex, REFUSED),
    ROW (clock_adjtime, REFUSED),
#undef ROW
};
#define REFUSED_COUNT (sizeof refused / sizeof *refused)

typedef struct {
    struct sock_filter code[2 * REFUSED_COUNT + 80];
    unsigned short n;
} filter_t;

static void add (filter_t *self, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    self->code[self->n++] = (struct sock_filter){ code, yes, no, k };
}
static void answer (filter_t *self, uint32_t with)
{
    add (self, BPF_RET | BPF_K, with, 0, 0);
}
static void load (filter_t *self, size_t offset)
{
    add (self, BPF_LD | BPF_W | BPF_ABS, (uint32_t) offset, 0, 0);
}
/* Of the next `n` instructions none is for any other value than this.  */
static void if_equal (filter_t *self, uint32_t value, uint8_t n)
{
    add (self, BPF_JMP | BPF_JEQ | BPF_K, value, 0, n);
}
#define ARGUMENT(i) (offsetof (struct seccomp_data, args) + 8 * (i)) /* its lower half */
#define SAY(how) (SECCOMP_RET_TRAP | (how))

/* A signal to anybody but this process; *pid is the call's first argument.  */
static void add_signal (filter_t *self, uint32_t call)
{
    if_equal (self, call, 4);
    load (self, ARGUMENT (0));
    add (self, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) getpid (), 0, 1);
    answer (self, SECCOMP_RET_ALLOW);
    answer (self, SAY (REFUSED));
}

static void add_sockets (filter_t *self, unsigned sockets)
{
    static const struct {
        unsigned needs;
        uint32_t family;
    } allowed[] = { { WM_CONFINE_TCP, AF_INET },
                    { WM_CONFINE_TCP, AF_INET6 },
                    { WM_CONFINE_IPC, AF_UNIX } };
    filter_t part = { .n = 0 };
    load (&part, ARGUMENT (0));
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (sockets & allowed[i].needs) {
            if_equal (&part, allowed[i].family, 1);
            answer (&part, SECCOMP_RET_ALLOW);
        }
    if (sockets & WM_CONFINE_TCP) /* name resolution tries these two, and does without */
        for (int i = 0; i < 2; i++) {
            if_equal (&part, i ? AF_NETLINK : AF_UNIX, 1);
            answer (&part, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
        }
    answer (&part, SAY (REFUSED));
    if_equal (self, SYS_socket, (uint8_t) part.n);
    memcpy (self->code + self->n, part.code, part.n * sizeof *part.code);
    self->n = (unsigned short) (self->n + part.n);
}

/* Threads, and no processes. clone3 hides its flags behind a pointer; glibc tries clone then.  */
static void add_clone (filter_t *self)
{
#ifdef SYS_clone3
    if_equal (self, SYS_clone3, 1);
    answer (self, SECCOMP_RET_ERRNO | ENOSYS);
#endif
    if_equal (self, SYS_clone, 4);
    load (self, ARGUMENT (0));
    add (self, BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1);
    answer (self, SECCOMP_RET_ALLOW);
    answer (self, SAY (FATAL));
}

/* Typing into the terminal that a log goes to.  */
static void add_ioctl (filter_t *self)
{
    if_equal (self, SYS_ioctl, 6);
    load (self, ARGUMENT (1));
    if_equal (self, TIOCSTI, 1);
    answer (self, SAY (REFUSED));
    if_equal (self, TIOCLINUX, 1);
    answer (self, SAY (REFUSED));
    answer (self, SECCOMP_RET_ALLOW);
}

static void build (filter_t *self, unsigned sockets)
{
    load (self, offsetof (struct seccomp_data, arch));
    if_equal (self, ARCH, 1);
    add (self, BPF_JMP | BPF_JA, 1, 0, 0);
    answer (self, SECCOMP_RET_KILL_PROCESS); /* 32-bit calls have other numbers */
    load (self, offsetof (struct seccomp_data, nr));
    add (self, BPF_JMP | BPF_JGT | BPF_K, CALL_LAST, 0, 1);
    answer (self, SECCOMP_RET_ERRNO | ENOSYS);
    for (size_t i = 0; i < REFUSED_COUNT; i++) {
        if (SANITIZED && refused[i].call == SYS_ptrace)
            continue;
        if_equal (self, refused[i].call, 1);
        answer (self, SAY (refused[i].how));
    }
    if (!SANITIZED)
        add_clone (self);
    add_sockets (self, sockets);
    add_signal (self, SYS_kill);
    add_signal (self, SYS_tgkill);
    add_ioctl (self);
    answer (self, SECCOMP_RET_ALLOW);
}

/* ---- what happens on a call that is not allowed ---------------------------------------------- */

static const char *program = "";
static struct sigaction before; /* of SIGSYS */

static size_t append (char *line, size_t n, size_t most, const char *text)
{
    while (*text && n < most)
        line[n++] = *text++;
    return n;
}

static const char *call_name (long call, char number[24])
{
    for (size_t i = 0; i < REFUSED_COUNT; i++)
        if (refused[i].call == call)
            return refused[i].name;
    static const struct {
        long call;
        const char *name;
    } more[] = { { SYS_socket, "socket" },
                 { SYS_clone, "clone" },
                 { SYS_kill, "kill" },
                 { SYS_tgkill, "tgkill" },
                 { SYS_ioctl, "ioctl" } };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (more[i].call == call)
            return more[i].name;
    char *at = number + 23;
    *at = 0;
    do
        *--at = (char) ('0' + call % 10);
    while ((call /= 10) > 0 && at > number);
    return at;
}

/* One line each; only async-signal-safe calls.  */
static void trapped (int signal_number, siginfo_t *info, void *context)
{
    static atomic_uchar logged[CALL_LAST + 1];
    const long call = info->si_syscall;
    const bool is_fatal = info->si_errno == FATAL;
    if (call >= 0 && call <= (long) CALL_LAST && !atomic_exchange (&logged[call], 1)) {
        char line[240], number[24];
        size_t n = append (line, 0, sizeof line - 1, "error: ");
        n = append (line, n, sizeof line - 1, program);
        n = append (line, n, sizeof line - 1, " refused the system call ");
        n = append (line, n, sizeof line - 1, call_name (call, number));
        n = append (line, n, sizeof line - 1,
                    ": a reader of files does not need it; "
                    "see `wiremill help confinement`");
        line[n++] = '\n';
        if (write (STDERR_FILENO, line, n) < 0)
            n = 0;
    }
    if (is_fatal) {
        sigaction (signal_number, &before, NULL);
        raise (signal_number); /* comes when this handler has returned, if it is blocked now */
    }
    ucontext_t *state = context;
#if defined __x86_64__
    state->uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined __aarch64__
    state->uc_mcontext.regs[0] = (unsigned long long) -EPERM;
#endif
}

/* ---- together -------------------------------------------------------------------------------- */

static void limit (int what, rlim_t most)
{
    struct rlimit now;
    if (getrlimit (what, &now) || now.rlim_cur <= most)
        return;
    now.rlim_cur = most;
    if (now.rlim_max > most)
        now.rlim_max = most;
    setrlimit (what, &now);
}

/* Of root's powers those stay that open files of others, which a campaign run by root may have.  */
static void powers_drop (void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    const uint32_t keep = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_FOWNER;
    if (syscall (SYS_capget, &head, data))
        return;
    data[0].effective &= keep, data[0].permitted &= keep, data[0].inheritable = 0;
    data[1].effective = data[1].permitted = data[1].inheritable = 0;
    if (syscall (SYS_capset, &head, data))
        wm_confine_lack ("capset", errno);
}

bool wm_confine_seccomp (void)
{
    const uint32_t action = SECCOMP_RET_TRAP;
    return syscall (SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

void wm_confine_calls (const char *who, unsigned sockets)
{
    program = who;
    if (wm_confine_is_off ())
        return;
    /* A limit of 1 byte, and not 0, also stops cores that go to a program: core(5).  */
    limit (RLIMIT_CORE, 1);
    const long pages = sysconf (_SC_PHYS_PAGES), page = sysconf (_SC_PAGESIZE);
    if (!SANITIZED && pages > 0 && page > 0)
        limit (RLIMIT_DATA, (rlim_t) pages * (rlim_t) page);
    powers_drop ();
#ifdef ARCH
    static filter_t filter;
    struct sigaction action = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    struct sock_fprog code = { .filter = filter.code };
    filter.n = 0;
    build (&filter, sockets);
    code.len = filter.n;
    if (program[0] && before.sa_handler == SIG_DFL && !before.sa_flags)
        sigaction (SIGSYS, &action, &before);
    if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        (syscall (SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &code) &&
         syscall (SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &code)))
        wm_confine_lack ("seccomp", errno);
#else
    (void) sockets, (void) build, (void) trapped;
    wm_confine_lack ("seccomp", ENOTSUP);
#endif
}
