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
#include "state.h"

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

/* Which GPU it is */

STRING(nvmlDeviceGetUUID, "uuid")
STRING(nvmlDeviceGetName, "name")
STRING(nvmlDeviceGetSerial, "serial")
STRING(nvmlDeviceGetVbiosVersion, "vbios")
WORD(nvmlDeviceGetMinorNumber, "minor", 0)

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

#include "links.h"
#include "memory.h"
#include "running.h"
