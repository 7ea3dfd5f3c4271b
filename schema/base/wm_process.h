/* wm_process.h - a program that is started as a child process: what it inherits, and how it is
   ended.

   A child has its own session, so that a Ctrl-C on the terminal reaches only its parent and the
   child can be ended with all that it has started. It begins with default handling of every signal
   and none blocked, and with no descriptor but its three streams and those that are meant for it.

   Not here, but for wm_process_apart: processes that go on with the code and the memory of their
   parent (wm_file_opener, the reader of inputs, the import of a model), and the worker's engines
   (wm_scorer). Thread: any; the
   death signal is sent when the thread that started the child ends.  */
#ifndef WM_PROCESS_H
#define WM_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define WM_PROCESS_NULL (-1) /* in place of a stream: /dev/null */

typedef struct {
    const char *program;     /* a path, or the name of a program in PATH */
    const char *const *argv; /* ends with NULL; wm_process_hand_over */
    int in, out, err;        /* its streams; 0: as those of this process */
    int keep;                /* one more descriptor that stays open; 0, -1: none */
    int death_signal;        /* is sent to it when this process ends; 0: it lives on */
    bool drops_credentials;  /* it has none of wm_process_drop_credentials */
    /* Called in the child before exec, with the streams in place, or NULL: async-signal-safe calls
       only where this process has threads.  */
    void (*prepare) (const void *argument);
    const void *argument;
} wm_process_t;

/* Starts a program. A failpoint of its name, and one of its verb, is passed in the child before it
   becomes that program. Returns its process, or -1 and errno. A program that cannot be executed
   exits with 127, after a line on its standard error that explains why.  */
pid_t wm_process_start (const wm_process_t *self);

/* Calls `run` in a forked process of this name (wm_process_name), because what it calls, a driver,
   may crash, hang, exit or keep memory: it is ended after so many seconds, and with this process.
   run's result is its exit code. Returns its status, as waitpid's; -1 and errno: there is no
   process.  */
int wm_process_apart (const char *name, unsigned seconds, int (*run) (const void *argument),
                      const void *argument);

/* Names this process in /proc/PID/comm, by its row in the table of processes of tests/README.md (at
   most 15 bytes), and passes a failpoint of that name. Each process that is forked without becoming
   another program has a name of its own. Async-signal-safe.  */
void wm_process_name (const char *name);

/* Keeps up to 128 MiB of freed memory for the next messages, batches and events, which have some
   MiB each: the kernel clears each page that it hands out. Call before threads start.  */
void wm_process_keep_memory (void);

/* Ends this process by `signal` when the thread of its parent that started it ends. `parent`: the
   pid of the process that forked this one; 0, in a program that was executed: the parent that it
   has now (wm_process_start has covered the time before). false: the parent has ended already, this
   process should too. Which number a parent has means nothing: in a container it may be process 1,
   and an orphan may be given to another process than that. Async-signal-safe.  */
bool wm_process_follow (pid_t parent, int signal);

/* Kills a child with all that it has started in its session's first process group, and waits for
   the child's end. *pid is 0 then; nothing happens where it is 0 or -1.  */
void wm_process_kill (pid_t *pid);

/* Starts a thread that receives no signals: those of the process are left to its other threads.
   Returns 0, or the error of pthread_create.  */
int wm_process_thread (pthread_t *thread, void *(*run) (void *), void *argument);

/* Reads all that a child has written to a memory file; terminated, the caller's. NULL: it is more
   than bytes_max, or there is no memory.  */
char *wm_process_output (int fd, size_t bytes_max);

/* Returns N of /proc/self/fd/N or /dev/fd/N; -1: the path is another. Async-signal-safe.  */
int wm_process_descriptor (const char *path);

/* In a process that is about to become another program: lets it inherit the descriptors that its
   arguments and its environment name: /proc/self/fd/N, /dev/fd/N, --option=/dev/fd/N, and
   NAME=/dev/fd/N. Async-signal-safe.  */
void wm_process_hand_over (const char *const argv[]);

/* Removes from the environment of this process, and from its memory there, what opens files
   elsewhere: X509_USER_PROXY, BEARER_TOKEN and BEARER_TOKEN_FILE. Async-signal-safe.  */
void wm_process_drop_credentials (void);

#endif
