/* fake_nvml.h - a library like libnvidia-ml.so.1, compiled by the tests, for machines without a
   GPU.

   16 GPUs. The letters of WM_FAKE_NVML are what fails: i init, n name, t temperature, p power, q
   its limit, l load, m memory, e ECC, x throttling, u UUID, j energy; h: it hangs. BARE: a library
   that has next to nothing. WM_FAKE_NVML_ECC names a file: so many uncorrectable errors there are
   more. WM_FAKE_NVML_HEAT names one with the temperature, and the bits of what lowers its
   clocks.  */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails (char letter)
{
    const char *faults = getenv ("WM_FAKE_NVML");
    return faults && strchr (faults, letter) ? 9 : 0;
}

int nvmlInit_v2 (void)
{
    return fails ('i');
}

int nvmlShutdown (void)
{
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2 (unsigned int index, void **device)
{
    *device = (void *) (size_t) (index + 1);
    return index < 16 ? 0 : 2;
}

#ifndef BARE
int nvmlDeviceGetHandleByUUID (const char *uuid, void **device)
{
    *device = (void *) (size_t) (atoi (uuid + 4) + 1);
    return strncmp (uuid, "GPU-", 4) ? 2 : 0;
}

int nvmlDeviceGetName (void *device, char *name, unsigned int length)
{
    while (fails ('h'))
        sleep (1);
    snprintf (name, length, "NVIDIA H200 \"%zu\"", (size_t) device - 1);
    return fails ('n');
}

static void read_heat (unsigned int *celsius, unsigned long long *bits)
{
    const char *path = getenv ("WM_FAKE_NVML_HEAT");
    FILE *file = path ? fopen (path, "r") : NULL;
    *celsius = 61;
    *bits = 0x1 | 0x4 | 0x20; /* idle is no reason to worry */
    if (!file)
        return;
    if (fscanf (file, "%u %llx", celsius, bits) != 2)
        *bits = 0;
    fclose (file);
}

int nvmlDeviceGetTemperature (void *device, int sensor, unsigned int *celsius)
{
    unsigned long long bits;
    (void) device;
    read_heat (celsius, &bits);
    return fails ('t') + sensor;
}

int nvmlDeviceGetPowerUsage (void *device, unsigned int *milliwatts)
{
    (void) device;
    *milliwatts = 512345;
    return fails ('p');
}

int nvmlDeviceGetEnforcedPowerLimit (void *device, unsigned int *milliwatts)
{
    (void) device;
    *milliwatts = 700000;
    return fails ('q');
}

int nvmlDeviceGetUtilizationRates (void *device, unsigned int *rates)
{
    (void) device;
    rates[0] = 98, rates[1] = 40;
    return fails ('l');
}

int nvmlDeviceGetMemoryInfo (void *device, unsigned long long *memory)
{
    (void) device;
    memory[0] = 143771ull << 20, memory[1] = 126259ull << 20, memory[2] = 17512ull << 20;
    return fails ('m');
}

int nvmlDeviceGetTotalEccErrors (void *device, int type, int counter, unsigned long long *count)
{
    (void) device;
    const char *path = getenv ("WM_FAKE_NVML_ECC");
    FILE *file = type && path ? fopen (path, "r") : NULL;
    unsigned long long more = 0;
    if (file && fscanf (file, "%llu", &more) != 1)
        more = 0;
    if (file)
        fclose (file);
    *count = type ? 1 + more : 3;
    return fails ('e') + counter;
}

int nvmlDeviceGetCurrentClocksThrottleReasons (void *device, unsigned long long *bits)
{
    unsigned int celsius;
    (void) device;
    read_heat (&celsius, bits);
    return fails ('x');
}

int nvmlDeviceGetUUID (void *device, char *uuid, unsigned int length)
{
    snprintf (uuid, length, "GPU-%zu", (size_t) device - 1);
    return fails ('u');
}

int nvmlDeviceGetTotalEnergyConsumption (void *device, unsigned long long *millijoules)
{
    (void) device;
    *millijoules = 81234567;
    return fails ('j');
}
#endif
