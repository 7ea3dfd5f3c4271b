/* wm_environment.h - variables of the libraries below us, which change no score.

   Sites and clouds set variables of oneDNN, OpenVINO, OpenMP, CUDA, HDF5 and the C library for all
   programs of a machine. Some change the arithmetic (ONEDNN_DEFAULT_FPMATH_MODE=BF16), some the
   instruction set, and so the bits (ONEDNN_MAX_CPU_ISA), some what is read (HDF5_DRIVER). A score's
   engine signature does not contain them. So they are kept from these libraries: a program removes
   them before anything reads them, and where the process belongs to others (libwiremill) OpenVINO
   and ONNX Runtime do not see them (kernels/wm_blind.h).

   Two variables are set. Without ORT_DISABLE_TELEMETRY=1 PyPI's ONNX Runtime sends to its vendor
   what it runs, and where, and keeps an identifier of the machine in the user's home. Without
   ALLOW_RELEASED_ONNX_OPSET_ONLY=0 it refuses operator sets that are newer than it.

   The table is in wm_environment.c; `wiremill help environment` has it for users. Variables of ours
   (WM_*), those of the loader (LD_*), and those that name places or rights are not in it.  */
#ifndef WM_ENVIRONMENT_H
#define WM_ENVIRONMENT_H

#include <stdbool.h>

/* Returns whether the libraries must not see this variable, "NAME" or "NAME=VALUE". Thread: any;
   async-signal-safe.  */
bool wm_environment_hides (const char *variable);

/* Returns the first variable of this process, "NAME=VALUE", that wm_environment_hides and whose
   name begins with one of the `n` prefixes (NULL: of any name), or NULL: none. Thread: as
   getenv.  */
const char *wm_environment_finds (const char *const *prefix, unsigned n);

/* What the libraries get for getenv: NULL for a variable that wm_environment_hides, and those
   two as they are set. Thread: as getenv.  */
char *wm_environment_visible (const char *name);

/* Removes those variables from this process, and sets the one that is set. Where one of them was
   read before main (the C library's), starts the program again without it, in the same process. For
   the begin of main: there must be no other thread and no open file of ours. false: it cannot be
   started again; a line on stderr explains it.  */
bool wm_environment_clean (const char *program, char **argv);

/* The names of what wm_environment_clean removed, "A, B", cut to this many; "": none. Static.  */
#define WM_ENVIRONMENT_NAMES 400
const char *wm_environment_removed (void);

#endif
