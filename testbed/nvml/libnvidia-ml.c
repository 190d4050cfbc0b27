/*
 * A stand-in for NVIDIA's libnvidia-ml.so.1 that the unpatched pynvml loads.
 *
 * What it answers stands in a text file, /run/testbed/nvml/state or the file that the variable
 * STANDIN_NVML names, which is read again as soon as it changes. One value a line, the name
 * first; lines before the first `gpu` speak of the system, each `gpu` begins the next GPU.
 * What a GPU has no line for is NOT_SUPPORTED, as on a real card. For every function
 *
 *     return.<function> <code>     makes it fail (`return.*`: all of them)
 *     hang.<function> [<path>]     makes it never return; where a path is given it is looked at
 *                                  first, so that a hung mount puts the caller in D state
 *
 * with <function> as in NVML's header without `_v2`, `_v3`. See `write` in __init__.py.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifndef STATE
#define STATE "/run/testbed/nvml/state"
#endif

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, UNKNOWN = 999,
};
enum { MOST_GPUS = 64, MOST_LINES = 128 };

struct line { const char *name, *value; };
struct section { struct line lines[MOST_LINES]; unsigned count; };
typedef struct section *Device;
typedef unsigned long long Count;

static struct section sections[1 + MOST_GPUS]; /* the system, then the GPUs */
static unsigned gpus, initialised, present;
static char text[1 << 18];

/* The state file */

static void parse(void) {
    struct section *section = sections;
    memset(sections, 0, sizeof sections);
    gpus = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *name = strsep(&line, " ");
        if (!*name || *name == '#') continue;
        if (!strcmp(name, "gpu")) {
            if (gpus == MOST_GPUS) return;
            section = &sections[1 + gpus++];
        } else if (section->count < MOST_LINES) {
            section->lines[section->count++] = (struct line){name, line ? line : ""};
        }
    }
}

static void reload(void) {
    static struct stat seen;
    struct stat now;
    const char *path = getenv("STANDIN_NVML");
    if (!path) path = STATE;
    present = !stat(path, &now);
    if (!present || (now.st_ino == seen.st_ino
                     && !memcmp(&now.st_mtim, &seen.st_mtim, sizeof now.st_mtim))) return;
    FILE *file = fopen(path, "r");
    present = file != NULL;
    if (!present) return;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    seen = now;
    parse();
}

static const char *find(Device section, const char *name) {
    for (unsigned i = 0; i < section->count; i++)
        if (!strcmp(section->lines[i].name, name)) return section->lines[i].value;
    return NULL;
}

/* What every call does first */

static void hang(const char *path) {
    sigset_t all;
    struct statvfs unused;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    if (*path) (void)!statvfs(path, &unused);
    for (;;) pause();
}

static int enter(Device section, const char *function) {
    char name[96];
    int length = (int)strlen(function);
    if (length > 3 && !strncmp(function + length - 3, "_v", 2)) length -= 3;
    reload();
    if (!present) return DRIVER_NOT_LOADED;
    if (section > sections + gpus) return GPU_IS_LOST; /* gone since its handle was given out */
    snprintf(name, sizeof name, "hang.%.*s", length, function);
    const char *value = find(section, name);
    if (value) hang(value);
    snprintf(name, sizeof name, "return.%.*s", length, function);
    if (!(value = find(section, name))) value = find(section, "return.*");
    return value ? atoi(value) : SUCCESS;
}

#define ENTER(section) \
    do { int code = enter(section, __func__); if (code) return code; } while (0)
#define ENTER_INITIALISED(section) \
    do { if (!initialised) return UNINITIALIZED; ENTER(section); } while (0)

static int string(Device gpu, const char *name, char *out, unsigned size) {
    const char *value = find(gpu, name);
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

/* The n-th number of a value. */
static int number_at(Device gpu, const char *name, unsigned n, Count *out) {
    const char *value = find(gpu, name);
    char *end = NULL;
    if (!value) return NOT_SUPPORTED;
    for (unsigned i = 0; i <= n; i++, value = end) {
        *out = strtoull(value, &end, 0);
        if (end == value) return NOT_SUPPORTED;
    }
    return SUCCESS;
}

static int word_at(Device gpu, const char *name, unsigned n, unsigned *out) {
    Count wide;
    int code = number_at(gpu, name, n, &wide);
    if (!code) *out = (unsigned)wide;
    return code;
}

/* The system */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ENTER(sections);
    initialised = 1;
    return SUCCESS;
}
int nvmlShutdown(void) { if (!initialised) return UNINITIALIZED; initialised = 0; return SUCCESS; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    ENTER_INITIALISED(sections);
    return string(sections, "driver_version", out, size);
}
int nvmlSystemGetNVMLVersion(char *out, unsigned size) { /* the library's own: needs no init */
    ENTER(sections);
    return string(sections, "nvml_version", out, size);
}
int nvmlDeviceGetCount_v2(unsigned *out) {
    ENTER_INITIALISED(sections);
    *out = gpus;
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    return code == NOT_SUPPORTED ? "Not Supported" : code == GPU_IS_LOST ? "GPU is lost"
           : code == 16 ? "GPU requires reset" : code == 18 ? "Driver/library version mismatch"
           : code == UNKNOWN ? "Unknown Error" : "an error of the stand-in";
}

/* Handles */

static int give(Device gpu, Device *out, const char *function) {
    int code = enter(gpu, function);
    if (!code) *out = gpu;
    return code;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out) {
    ENTER_INITIALISED(sections);
    return index < gpus ? give(&sections[1 + index], out, __func__) : INVALID_ARGUMENT;
}
static int by(const char *name, const char *wanted, Device *out, const char *function) {
    for (unsigned i = 1; i <= gpus; i++) {
        const char *value = find(&sections[i], name);
        if (value && !strcasecmp(value, wanted)) return give(&sections[i], out, function);
    }
    return NOT_FOUND;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device *out) {
    ENTER_INITIALISED(sections);
    return by("uuid", uuid, out, __func__);
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, Device *out) {
    char full[32];
    ENTER_INITIALISED(sections);
    snprintf(full, sizeof full, strlen(pci) == 12 ? "0000%s" : "%s", pci); /* 4-digit domain */
    return by("pci", full, out, __func__);
}
int nvmlDeviceGetIndex(Device gpu, unsigned *out) {
    ENTER(gpu);
    *out = (unsigned)(gpu - sections - 1);
    return SUCCESS;
}

/* One GPU */

#define STRING(function, name) \
    int function(Device gpu, char *to, unsigned n) { ENTER(gpu); return string(gpu, name, to, n); }
#define WORD(function, name, n) \
    int function(Device gpu, unsigned *out) { ENTER(gpu); return word_at(gpu, name, n, out); }
#define WIDE(function, name) \
    int function(Device gpu, Count *out) { ENTER(gpu); return number_at(gpu, name, 0, out); }
#define PAIR(function, name) \
    int function(Device gpu, unsigned *first, unsigned *second) { \
        ENTER(gpu); int code = word_at(gpu, name, 0, first); \
        return code ? code : word_at(gpu, name, 1, second); }

STRING(nvmlDeviceGetUUID, "uuid")
STRING(nvmlDeviceGetName, "name")
STRING(nvmlDeviceGetSerial, "serial")
STRING(nvmlDeviceGetVbiosVersion, "vbios")
WORD(nvmlDeviceGetMinorNumber, "minor", 0)
WORD(nvmlDeviceGetPersistenceMode, "persistence", 0)
WORD(nvmlDeviceGetPowerUsage, "power_mw", 0)
WORD(nvmlDeviceGetPowerManagementLimit, "power_limit_mw", 0)
WORD(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw", 0)
WORD(nvmlDeviceGetCurrPcieLinkWidth, "pcie", 0)
WORD(nvmlDeviceGetCurrPcieLinkGeneration, "pcie", 1)
WORD(nvmlDeviceGetMaxPcieLinkWidth, "pcie", 2)
WORD(nvmlDeviceGetMaxPcieLinkGeneration, "pcie", 3)
WORD(nvmlDeviceGetPcieReplayCounter, "pcie_replays", 0)
WORD(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending", 0)
WIDE(nvmlDeviceGetCurrentClocksEventReasons, "clocks_event_reasons")
WIDE(nvmlDeviceGetCurrentClocksThrottleReasons, "clocks_event_reasons")
PAIR(nvmlDeviceGetEccMode, "ecc_mode")
PAIR(nvmlDeviceGetMigMode, "mig_mode")

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(Device gpu, struct pci *out) {
    ENTER(gpu);
    memset(out, 0, sizeof *out);
    int code = string(gpu, "pci", out->bus_id, sizeof out->bus_id);
    if (!code && sscanf(out->bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3)
        return UNKNOWN;
    return code;
}

int nvmlDeviceGetTemperature(Device gpu, unsigned sensor, unsigned *out) {
    ENTER(gpu);
    return sensor ? INVALID_ARGUMENT : word_at(gpu, "temperature", 0, out);
}
struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(Device gpu, struct utilization *out) {
    ENTER(gpu);
    int code = word_at(gpu, "utilization", 0, &out->gpu);
    return code ? code : word_at(gpu, "utilization", 1, &out->memory);
}
struct memory { Count total, free, used; };
int nvmlDeviceGetMemoryInfo(Device gpu, struct memory *out) {
    ENTER(gpu);
    int code = number_at(gpu, "memory", 0, &out->total);
    if (!code) code = number_at(gpu, "memory", 1, &out->used);
    if (!code) out->free = out->total - out->used;
    return code;
}

int nvmlDeviceGetTotalEccErrors(Device gpu, unsigned kind, unsigned counter, Count *out) {
    char name[32];
    ENTER(gpu);
    snprintf(name, sizeof name, "ecc.%u.%u", kind, counter);
    return number_at(gpu, name, 0, out);
}
int nvmlDeviceGetMemoryErrorCounter(Device gpu, unsigned kind, unsigned counter, unsigned location,
                                    Count *out) {
    char name[48];
    ENTER(gpu);
    snprintf(name, sizeof name, "ecc.%u.%u.%u", kind, counter, location);
    return number_at(gpu, name, 0, out);
}
int nvmlDeviceGetRemappedRows(Device gpu, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed) {
    unsigned *out[] = {corrected, uncorrected, pending, failed};
    ENTER(gpu);
    for (unsigned i = 0; i < 4; i++) {
        int code = word_at(gpu, "remapped_rows", i, out[i]);
        if (code) return code;
    }
    return SUCCESS;
}

int nvmlDeviceGetRetiredPages_v2(Device gpu, unsigned cause, unsigned *count,
                                 Count *addresses, Count *times) {
    unsigned have, room = *count;
    ENTER(gpu);
    int code = word_at(gpu, "retired_pages", cause, &have);
    if (code) return code;
    *count = have;
    if (room < have) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < have; i++) addresses[i] = 0x1000ULL * (i + 1), times[i] = 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(Device gpu, unsigned link, unsigned *out) {
    ENTER(gpu);
    if (!find(gpu, "nvlinks")) return NOT_SUPPORTED;
    return word_at(gpu, "nvlinks", link, out) ? INVALID_ARGUMENT : SUCCESS;
}

struct process { unsigned pid; Count bytes; unsigned gpu_instance, compute_instance; };
int nvmlDeviceGetComputeRunningProcesses_v3(Device gpu, unsigned *count, struct process *out) {
    unsigned have = 0, room = *count;
    ENTER(gpu);
    for (unsigned i = 0; i < gpu->count; i++) {
        if (strcmp(gpu->lines[i].name, "process")) continue;
        if (have < room) {
            unsigned pid = 0;
            Count bytes = 0;
            sscanf(gpu->lines[i].value, "%u %llu", &pid, &bytes);
            out[have] = (struct process){pid, bytes, ~0u, ~0u};
        }
        have++;
    }
    *count = have;
    return have > room ? INSUFFICIENT_SIZE : SUCCESS;
}

struct field {
    unsigned id, scope;
    long long timestamp, latency_us;
    unsigned type;
    int code;
    Count value;
};
int nvmlDeviceGetFieldValues(Device gpu, int count, struct field *fields) {
    ENTER(gpu);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "field.%u", fields[i].id);
        fields[i].type = 1; /* unsigned int; a wider one reads the same here */
        fields[i].code = number_at(gpu, name, 0, &fields[i].value);
    }
    return SUCCESS;
}
