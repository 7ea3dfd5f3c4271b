/* wm_engine_process.h - the engine process: scores batches that its worker puts into shared memory.

   It runs the worker's own program in another mode, started by gpuworker/engine/wm_scorer.c. It
   opens the model and the engine, runs the self-test, and then scores slot after slot until the
   worker closes the line. It may crash at any time: the worker keeps the connection and the
   batches, starts another process and finds the hit that killed this one. After a fault of the
   machine while it scores (a CUDA error) it exits, because such errors persist in a process.  */
#ifndef WM_ENGINE_PROCESS_H
#define WM_ENGINE_PROCESS_H

#define WM_ENGINE_MODE "--engine-process" /* the first argument; the second goes to the function */

/* `files`: "N,M", descriptors of the shared memory and of the line. Returns the exit code: 0 the
   line was closed; WM_EXIT_ENGINE, WM_EXIT_INPUT: this engine, this model, can never start here;
   WM_EXIT_FAILURE: anything else. The control block has the text.  */
int wm_engine_process_main (const char *files);

#endif
