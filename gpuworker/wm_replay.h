/* wm_replay.h - a file that shows a hit an engine dies of, and the program's mode that runs it.

   The file holds all that the crash may depend on but the model, which is named by its hash: engine,
   threads, pins (with the patch specification), and the batch with this hit alone. It lies in the
   folder "replay" of the cache the model lies in.  */
#ifndef WM_REPLAY_H
#define WM_REPLAY_H

/* Scores the hit once more in an engine process of its own and says what happens. cache: the folder
   of the model, NULL: the one above the file's. The exit code: 0 it is scored (and printed), 3 the
   engine dies of it again, 5 the file is none, 6 the engine cannot run here, 1 anything else.  */
int wm_replay_run (const char *file, const char *cache);

#endif
