/* wm_peak.h - measures the peak rate of one core: multiply-adds in registers.

   Clocks and neighbours change it, so it is measured together with what is compared with it. Takes
   a tenth of a second.  */
#ifndef WM_PEAK_H
#define WM_PEAK_H

typedef enum {
    WM_PEAK_FP32,  /* the widest fused multiply-adds of AVX-512 or AVX2 */
    WM_PEAK_16BIT, /* dot products of AVX512_BF16 or AVX512_VNNI, whichever are faster */
    WM_PEAK_AMX,   /* products of tiles in bf16 */
} wm_peak_t;

/* Returns GFLOP/s of one thread; 0: this CPU lacks the instructions.  */
double wm_peak_gflops (wm_peak_t what);

#endif
