/* wm_health.c - reads a few functions of NVML, opened with dlopen, by their ABI.

   It builds without any NVIDIA software. The prototypes are those of NVML, of functions that have
   not changed since 2012 (versions "_v2" since 2014, the energy since 2018). Any of them may be
   missing in a library or unsupported by a GPU; then its values are left out.  */
#include "gpuworker/engine/wm_health.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void *device_t; /* nvmlDevice_t */
typedef struct {
    unsigned int gpu, memory; /* percent of the last second */
} load_t;
typedef struct {
    unsigned long long total, free, used;
} memory_t;

/* In the order of `names`. All return 0 for success.  */
typedef struct {
    int (*init) (void);
    int (*shutdown) (void);
    int (*by_index) (unsigned int index, device_t *device);
    int (*by_uuid) (const char *uuid, device_t *device);
    int (*name) (device_t device, char *name, unsigned int length);
    int (*temperature) (device_t device, int sensor, unsigned int *celsius);
    int (*power) (device_t device, unsigned int *milliwatts);
    int (*power_limit) (device_t device, unsigned int *milliwatts);
    int (*load) (device_t device, load_t *load);
    int (*memory) (device_t device, memory_t *memory);
    int (*ecc) (device_t device, int type, int counter, unsigned long long *count);
    int (*throttle) (device_t device, unsigned long long *reasons);
    int (*uuid) (device_t device, char *uuid, unsigned int length);
    int (*energy) (device_t device, unsigned long long *millijoules);
} calls_t;

#define CALLS (sizeof (calls_t) / sizeof (void *))
#define CALLS_NEEDED 3 /* the others are optional */
static const char *const names[CALLS] = {
    "nvmlInit_v2",
    "nvmlShutdown",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetTotalEnergyConsumption",
};

/* Reasons for low clocks that concern the machine, not idle and not settings.  */
static const struct {
    unsigned long long bit;
    const char *text;
} reasons[] = { { 0x4, "power" },
                { 0x8, "hardware" },
                { 0x20, "heat" },
                { 0x40, "hardware heat" },
                { 0x80, "power brake" } };

struct wm_health_t {
    calls_t call;
    device_t device;
    int64_t period_ms;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stop;
    bool stopped;
    char text[WM_HEALTH_BYTES];
    bool knows_ecc;
    unsigned long long ecc_first, ecc; /* uncorrectable errors, at the first reading and the last */
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Appends `"key": value`; leaves it out if it does not fit.  */
static void __attribute__ ((format (printf, 2, 3)))
add (char text[WM_HEALTH_BYTES], const char *format, ...)
{
    char item[128];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (item, sizeof item, format, arguments);
    va_end (arguments);
    size_t n = strlen (text);
    if (n + strlen (item) + sizeof ", }" <= WM_HEALTH_BYTES)
        snprintf (text + n, WM_HEALTH_BYTES - n, "%s%s", n > 1 ? ", " : "", item);
}

static void add_throttle (char text[WM_HEALTH_BYTES], unsigned long long bits)
{
    char list[96] = "";
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (bits & reasons[i].bit)
            snprintf (list + strlen (list), sizeof list - strlen (list), "%s%s", *list ? ", " : "",
                      reasons[i].text);
    add (text, "\"throttled\": \"%s\"", list);
}

static void add_word (char text[WM_HEALTH_BYTES], device_t device, const char *key,
                      int (*call) (device_t device, char *word, unsigned int length))
{
    char word[96];
    if (!call || call (device, word, sizeof word))
        return;
    for (char *c = word; *c; c++)
        if (*c == '"' || *c == '\\' || *c < ' ')
            *c = '?';
    add (text, "\"%s\": \"%.63s\"", key, word);
}

/* *ecc: uncorrectable errors, unchanged if unknown.  */
static void read_all (wm_health_t *self, char text[WM_HEALTH_BYTES], unsigned long long *ecc)
{
    const calls_t *call = &self->call;
    unsigned int n;
    unsigned long long count;
    load_t load;
    memory_t memory;
    strcpy (text, "{");
    add_word (text, self->device, "gpu", call->name);
    add_word (text, self->device, "uuid", call->uuid);
    if (call->temperature && !call->temperature (self->device, 0, &n))
        add (text, "\"temperature_c\": %u", n);
    if (call->power && !call->power (self->device, &n))
        add (text, "\"power_w\": %.1f", n / 1e3);
    if (call->power_limit && !call->power_limit (self->device, &n))
        add (text, "\"power_limit_w\": %.1f", n / 1e3);
    if (call->energy && !call->energy (self->device, &count))
        add (text, "\"energy_j\": %llu", count / 1000);
    if (call->load && !call->load (self->device, &load))
        add (text, "\"load\": %u", load.gpu);
    if (call->memory && !call->memory (self->device, &memory))
        add (text, "\"memory_used_mb\": %llu, \"memory_mb\": %llu", memory.used >> 20,
             memory.total >> 20);
    if (call->ecc && !call->ecc (self->device, 0, 0, &count))
        add (text, "\"ecc_corrected\": %llu", count);
    if (call->ecc && !call->ecc (self->device, 1, 0, &count)) {
        add (text, "\"ecc_uncorrected\": %llu", count);
        *ecc = count;
    }
    if (call->throttle && !call->throttle (self->device, &count))
        add_throttle (text, count);
    strcat (text, "}");
}

static void *watch (void *argument)
{
    wm_health_t *self = argument;
    pthread_mutex_lock (&self->lock);
    while (!self->stopped) {
        char text[WM_HEALTH_BYTES];
        pthread_mutex_unlock (&self->lock);
        unsigned long long ecc = ULLONG_MAX;
        read_all (self, text, &ecc);
        pthread_mutex_lock (&self->lock);
        memcpy (self->text, text, sizeof text);
        if (ecc != ULLONG_MAX) {
            self->ecc_first = self->knows_ecc ? self->ecc_first : ecc;
            self->ecc = ecc, self->knows_ecc = true;
        }
        struct timespec until;
        clock_gettime (CLOCK_REALTIME, &until);
        until.tv_sec += self->period_ms / 1000;
        until.tv_nsec += self->period_ms % 1000 * 1000000;
        if (until.tv_nsec >= 1000000000)
            until.tv_sec++, until.tv_nsec -= 1000000000;
        if (!self->stopped)
            pthread_cond_timedwait (&self->stop, &self->lock, &until);
    }
    pthread_mutex_unlock (&self->lock);
    return NULL;
}

void wm_health_text (wm_health_t *self, char text[WM_HEALTH_BYTES])
{
    pthread_mutex_lock (&self->lock);
    memcpy (text, self->text, sizeof self->text);
    pthread_mutex_unlock (&self->lock);
}

unsigned long long wm_health_ecc (wm_health_t *self)
{
    pthread_mutex_lock (&self->lock);
    const unsigned long long n = self->ecc > self->ecc_first ? self->ecc - self->ecc_first : 0;
    pthread_mutex_unlock (&self->lock);
    return n;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Opens the GPU that CUDA_VISIBLE_DEVICES begins with. Returns NVML's code.  */
static int find_device (wm_health_t *self)
{
    const char *visible = getenv ("CUDA_VISIBLE_DEVICES");
    char first[96] = "0", *end;
    if (visible && *visible)
        snprintf (first, sizeof first, "%.*s", (int) strcspn (visible, ","), visible);
    unsigned long index = strtoul (first, &end, 10);
    if (*end == 0)
        return self->call.by_index ((unsigned int) index, &self->device);
    return self->call.by_uuid ? self->call.by_uuid (first, &self->device) : -1;
}

/* The library is never closed: its threads may outlive the worker's.  */
static bool open_library (wm_health_t *self, char why[160])
{
    const char *named = getenv ("WM_NVML_SO");
    const char *path = named && *named ? named : "libnvidia-ml.so.1";
    void *library = dlopen (path, RTLD_NOW | RTLD_LOCAL), *symbol[CALLS];
    if (!library) {
        snprintf (why, 160, "%.100s cannot be opened", path);
        return false;
    }
    for (size_t i = 0; i < CALLS; i++) {
        symbol[i] = dlsym (library, names[i]);
        if (!symbol[i] && i < CALLS_NEEDED) {
            snprintf (why, 160, "%.80s has no %s", path, names[i]);
            return false;
        }
    }
    memcpy (&self->call, symbol, sizeof symbol);
    return true;
}

wm_health_t *wm_health_new (int64_t period_ms, char why[160])
{
    wm_health_t *self = calloc (1, sizeof *self);
    int code;
    assert (self);
    if (!open_library (self, why)) {
        free (self);
        return NULL;
    }
    self->period_ms = period_ms;
    if ((code = self->call.init ()) != 0) {
        snprintf (why, 160, "nvmlInit answers %d", code);
        free (self);
        return NULL;
    }
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->stop, NULL);
    if ((code = find_device (self)) != 0)
        snprintf (why, 160, "NVML does not know the GPU (%d)", code);
    else if ((code = pthread_create (&self->thread, NULL, watch, self)) != 0)
        snprintf (why, 160, "no thread: %s", strerror (code));
    if (code) {
        self->call.shutdown ();
        free (self);
        return NULL;
    }
    *why = 0;
    return self;
}

void wm_health_destroy (wm_health_t **self_p)
{
    wm_health_t *self = *self_p;
    if (!self)
        return;
    struct timespec until;
    pthread_mutex_lock (&self->lock);
    self->stopped = true;
    pthread_cond_signal (&self->stop);
    pthread_mutex_unlock (&self->lock);
    clock_gettime (CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_timedjoin_np (self->thread, NULL, &until) == 0) {
        self->call.shutdown ();
        pthread_mutex_destroy (&self->lock);
        pthread_cond_destroy (&self->stop);
        free (self);
    } else
        pthread_detach (self->thread);
    *self_p = NULL;
}
