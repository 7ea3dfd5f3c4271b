/* wm_engine.h - the engine process: scores what its worker puts into shared memory.

   It is this program's own image in another mode, started by gpuworker/wm_scorer.c. It opens the
   model and the engine, proves it by the known answers, and then scores slot after slot until the
   worker closes the line. It may die of anything: the worker holds connection and batches, starts
   another one and finds the hit it died of. A fault of the machine while scoring (a CUDA error)
   ends it by its own will, because such errors stick.  */
#ifndef WM_ENGINE_H
#define WM_ENGINE_H

#define WM_ENGINE_MODE "--engine-process" /* the first argument; the second goes to the function */

/* `files`: "N,M", the shared memory and the line. The answer is the exit code: 0 the line was
   closed; WM_EXIT_ENGINE, WM_EXIT_INPUT: this engine, this model, cannot start here, trying again is
   useless; WM_EXIT_FAILURE: anything else. The words are in the control block.  */
int wm_engine_main (const char *files);

#endif
