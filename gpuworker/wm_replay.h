/* wm_replay.h - scores one hit again from a file that reproduces a crash of the engine.

   The file holds all that the crash may depend on, except the model, which it names by its hash:
   engine, threads, pins (with the patch specification), and the batch with this hit alone. It lies
   in the folder "replay" of the cache that has the model.  */
#ifndef WM_REPLAY_H
#define WM_REPLAY_H

/* Scores the hit again in an engine process of its own and prints what happens. cache: the folder
   of the model, NULL: the one above the file's. Returns the exit code: 0 it is scored, 3 the engine
   dies of it again, 5 not a replay file, 6 the engine cannot run here, 1 anything else.  */
int wm_replay_run (const char *file, const char *cache);

#endif
