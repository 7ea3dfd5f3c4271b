/* wm_verify.h - scores a sample of a finished campaign again and compares.

   It reads what `wiremill-producer sample` prints, and prints line by line
     engine SIGNATURE
     bad FILE RUN SUBRUN EVENT ROW OUTPUT STORED AGAIN BY
                                    at most WM_VERIFY_BAD_MAX of them; BY: the signature of
                                    the engine that scored the row, or ?
     scored SIGNATURE               an engine that scored them
     tolerance NUMBER asked|files|fp32|engines
                                    and where it is from: --tolerance; the bound that the outputs
                                    state, or strict fp32's if that is larger; or the limit of the
                                    engines that scored them
     by SAME OTHER                  signatures that scored them: of this engine, and of others
     done HITS BAD LARGEST SCORED FILES                    BAD: hits beyond the tolerance  */
#ifndef WM_VERIFY_H
#define WM_VERIFY_H

#define WM_VERIFY_BAD_MAX 1000u

/* Compares by `engine` in fp32 ("auto": the reference in double for the family, else ONNX Runtime,
   or OpenVINO where that cannot). cache: the folder of the model. tolerance 0: what the outputs
   state, or else the limit of their engines. Returns the exit code: 0 all was compared, 5 the
   sample or the model is bad, 6 the engine cannot run here, 1 anything else.  */
int wm_verify_run (const char *engine, int threads, const char *cache, double tolerance);

#endif
