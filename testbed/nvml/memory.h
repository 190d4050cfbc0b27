/* One GPU's memory, and who uses it: ECC, remapped rows, retired pages, processes. */

PAIR(nvmlDeviceGetEccMode, "ecc_mode")
int nvmlDeviceValidateInforom(Device gpu) { ENTER(gpu); return SUCCESS; }
WORD(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending", 0)

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

struct sram_status { unsigned version; Count counts[11]; unsigned exceeded; };
int nvmlDeviceGetSramEccErrorStatus(Device gpu, struct sram_status *out) {
    ENTER(gpu);
    memset(out->counts, 0, sizeof out->counts);
    return word_at(gpu, "sram_exceeded", 0, &out->exceeded);
}

struct histogram { unsigned max, high, partial, low, none; };
int nvmlDeviceGetRowRemapperHistogram(Device gpu, struct histogram *out) {
    unsigned *values[] = {&out->max, &out->high, &out->partial, &out->low, &out->none};
    ENTER(gpu);
    for (unsigned i = 0; i < 5; i++) {
        int code = word_at(gpu, "remap_banks", i, values[i]);
        if (code) return code;
    }
    return SUCCESS;
}

static int retired(Device gpu, unsigned cause, unsigned *count, Count *addresses) {
    unsigned have, room = *count;
    int code = word_at(gpu, "retired_pages", cause, &have);
    if (code) return code;
    *count = have;
    if (room < have) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < have; i++) addresses[i] = 0x1000ULL * (i + 1);
    return SUCCESS;
}
int nvmlDeviceGetRetiredPages(Device gpu, unsigned cause, unsigned *count, Count *addresses) {
    ENTER(gpu);
    return retired(gpu, cause, count, addresses);
}
int nvmlDeviceGetRetiredPages_v2(Device gpu, unsigned cause, unsigned *count,
                                 Count *addresses, Count *times) {
    ENTER(gpu);
    int code = retired(gpu, cause, count, addresses);
    for (unsigned i = 0; !code && i < *count; i++) times[i] = 0;
    return code;
}

struct process { unsigned pid; Count bytes; unsigned gpu_instance, compute_instance; };
static int processes(Device gpu, const char *name, unsigned *count, struct process *out) {
    unsigned have = 0, room = *count;
    for (unsigned i = 0; i < gpu->count; i++) {
        if (strcmp(gpu->lines[i].name, name)) continue;
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
#define PROCESSES(function, name) \
    int function(Device gpu, unsigned *count, struct process *out) { \
        ENTER(gpu); return processes(gpu, name, count, out); }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "process")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "process")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics_process")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics_process")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps_process")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps_process")
