/* fuzz.h - what each fuzz target brings, and what the driver (fuzz.c) gives it.

   A target is one file, fuzz_NAME.c, for one decoder. It runs with libFuzzer (make fuzz), or with
   the driver's own loop of deterministic mutations (make test, and where clang is missing).
   The driver fails a target that crashes, takes longer than FUZZ_CPU_S, or asks for more than
   fuzz_bytes_max bytes at once. Thread: one.  */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

#define FUZZ_INPUT_BYTES_MAX (64u << 10)
#define FUZZ_CPU_S 20

/* ---- the target ------------------------------------------------------------------------------ */

/* Gives the input to the decoder, and checks what the decoder promises of its answer.  */
int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* Gives each seed to fuzz_seed: valid inputs, made by wiremill's own writers.  */
void fuzz_seeds (void);

/* The largest single allocation that an input of FUZZ_INPUT_BYTES_MAX may cause.  */
extern const size_t fuzz_bytes_max;

/* Optional: mutates data in place and returns its size, as libFuzzer has it.  */
size_t LLVMFuzzerCustomMutator (uint8_t *data, size_t size, size_t size_max, unsigned seed)
    __attribute__ ((weak));

/* ---- the driver ------------------------------------------------------------------------------ */

void fuzz_seed (const void *bytes, size_t size);

/* Mutates as libFuzzer does, or the driver where there is none; for custom mutators.  */
size_t fuzz_mutate (uint8_t *data, size_t size, size_t size_max);

/* Ends the process as a finding unless `fine`.  */
#define FUZZ_CHECK(fine) ((fine) ? (void) 0 : fuzz_fail (#fine, __FILE__, __LINE__))
void fuzz_fail (const char *what, const char *file, int line) __attribute__ ((noreturn));

/* Path of a file in memory that holds these bytes; valid until the next call.  */
const char *fuzz_file (const void *bytes, size_t size);

/* Path of a file that the target may make: libraries that open a file to write want a real one.  */
const char *fuzz_scratch (void);

/* Reads a whole file; the caller's. Ends the process where it cannot.  */
uint8_t *fuzz_read (const char *path, size_t *size);

/* Takes the input apart: each returns zeros where it has ended.  */
typedef struct {
    const uint8_t *at, *end;
} fuzz_take_t;
uint64_t fuzz_take (fuzz_take_t *self, size_t bytes); /* little-endian, at most 8 */
size_t fuzz_take_bytes (fuzz_take_t *self, void *to, size_t bytes);

#endif
