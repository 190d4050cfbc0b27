/* What joins one GPU to the rest: PCIe, NVLink, the fabric, and its MIG devices. */

WORD(nvmlDeviceGetCurrPcieLinkWidth, "pcie", 0)
WORD(nvmlDeviceGetCurrPcieLinkGeneration, "pcie", 1)
WORD(nvmlDeviceGetMaxPcieLinkWidth, "pcie", 2)
WORD(nvmlDeviceGetMaxPcieLinkGeneration, "pcie", 3)
WORD(nvmlDeviceGetPcieReplayCounter, "pcie_replays", 0)
PAIR(nvmlDeviceGetMigMode, "mig_mode")

int nvmlDeviceGetNvLinkState(Device gpu, unsigned link, unsigned *out) {
    ENTER(gpu);
    if (!find(gpu, "nvlinks")) return NOT_SUPPORTED;
    return word_at(gpu, "nvlinks", link, out) ? INVALID_ARGUMENT : SUCCESS;
}

struct fabric { unsigned char cluster[16]; int status; unsigned clique, state; };
int nvmlDeviceGetGpuFabricInfo(Device gpu, struct fabric *out) {
    ENTER(gpu);
    memset(out, 0, sizeof *out);
    int code = word_at(gpu, "fabric", 0, &out->state);
    return code ? code : word_at(gpu, "fabric", 1, (unsigned *)&out->status);
}
struct fabric_v { unsigned version; struct fabric info; unsigned health; };
int nvmlDeviceGetGpuFabricInfoV(Device gpu, struct fabric_v *out) {
    ENTER(gpu);
    int code = word_at(gpu, "fabric", 0, &out->info.state);
    if (!code) code = word_at(gpu, "fabric", 1, (unsigned *)&out->info.status);
    return code ? code : word_at(gpu, "fabric", 2, &out->health);
}

/* A MIG device has a handle of its own, of which only the UUID is asked here. */
enum { MOST_MIG = 8 };
int nvmlDeviceGetMaxMigDeviceCount(Device gpu, unsigned *out) {
    ENTER(gpu);
    *out = find(gpu, "mig_mode") ? 7 : 0;
    return SUCCESS;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device gpu, unsigned index, Device *out) {
    static struct section devices[MOST_GPUS * MOST_MIG];
    static char uuids[MOST_GPUS * MOST_MIG][96];
    const char *value;
    int offset = 0, length = 0;
    ENTER(gpu);
    if (index >= MOST_MIG || !(value = find(gpu, "mig_devices"))) return NOT_FOUND;
    unsigned place = (unsigned)(gpu - sections - 1) * MOST_MIG + index;
    for (unsigned i = 0; i <= index; i++, offset += length)
        if (sscanf(value + offset, "%95s%n", uuids[place], &length) != 1) return NOT_FOUND;
    devices[place].lines[0] = (struct line){"uuid", uuids[place]};
    devices[place].count = 1;
    *out = &devices[place];
    return SUCCESS;
}
