/* gpu_property.h - three GPUs that need not be here, in cuDNN's description.

   The JSON's keys are not documented; the values are those of data sheets, not of a real
   device.  */
#ifndef GPU_PROPERTY_H
#define GPU_PROPERTY_H

#include <stdio.h>

typedef struct {
    const char *name;
    int version, n_sm, shared, shared_optin, threads, ctas, sm_khz, memory_khz, l2;
    double memory;
} gpu_t;

static const gpu_t gpus[] = {
    { "NVIDIA H200", 900, 132, 233472, 232448, 2048, 32, 1980000, 3201000, 62914560, 150e9 },
    { "NVIDIA A100-SXM4-80GB", 800, 108, 167936, 166912, 2048, 32, 1410000, 1593000, 41943040,
      85e9 },
    { "Tesla T4", 750, 40, 65536, 65536, 1024, 16, 1590000, 5001000, 4194304, 15.8e9 },
};
#define GPUS (sizeof gpus / sizeof *gpus)

/* The description as cuDNN reads it; valid until the next call.  */
static inline char *gpu_property (const gpu_t *gpu)
{
    static char text[2048];
    snprintf (text, sizeof text,
              "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
              "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
              "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
              "\"reservedSharedMemoryPerBlock\":%d,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%d,"
              "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,\"pciDeviceId\":0,"
              "\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":%d,"
              "\"memClockRateKHz\":%d,\"l2CacheSize\":%d,\"deviceName\":\"%s\",\"cudaDeviceId\":0,"
              "\"deviceVer\":%d,\"driverVer\":13000,\"totalGlobalMem\":%.0f,"
              "\"cudnnVersion\":91900,\"schemaVersion\":1}",
              gpu->n_sm, gpu->shared_optin, gpu->shared - gpu->shared_optin, gpu->ctas,
              gpu->threads, gpu->sm_khz, gpu->memory_khz, gpu->l2, gpu->name, gpu->version,
              gpu->memory);
    return text;
}

#endif
