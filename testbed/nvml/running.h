/* How one GPU runs: heat, power, clocks, load. */

WORD(nvmlDeviceGetPersistenceMode, "persistence", 0)
WORD(nvmlDeviceGetPowerUsage, "power_mw", 0)
WORD(nvmlDeviceGetPowerManagementLimit, "power_limit_mw", 0)
WORD(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw", 0)
WORD(nvmlDeviceGetPowerManagementDefaultLimit, "power_limit_default_mw", 0)
WIDE(nvmlDeviceGetCurrentClocksEventReasons, "clocks_event_reasons")
WIDE(nvmlDeviceGetCurrentClocksThrottleReasons, "clocks_event_reasons")

int nvmlDeviceGetTemperature(Device gpu, unsigned sensor, unsigned *out) {
    ENTER(gpu);
    return sensor ? INVALID_ARGUMENT : word_at(gpu, "temperature", 0, out);
}
int nvmlDeviceGetTemperatureThreshold(Device gpu, unsigned kind, unsigned *out) {
    char name[32];
    ENTER(gpu);
    snprintf(name, sizeof name, "temperature_threshold.%u", kind);
    return word_at(gpu, name, 0, out);
}
struct margin { unsigned version; int celsius; };
int nvmlDeviceGetMarginTemperature(Device gpu, struct margin *out) {
    ENTER(gpu);
    const char *value = find(gpu, "temperature_margin");
    if (value) out->celsius = atoi(value);
    return value ? SUCCESS : NOT_SUPPORTED;
}

/* Kinds: 0 graphics, 1 SM, 2 memory; the state names the SM's only. */
#define CLOCK(function, name, n) \
    int function(Device gpu, unsigned kind, unsigned *out) { \
        ENTER(gpu); return kind > 1 ? NOT_SUPPORTED : word_at(gpu, name, n, out); }

CLOCK(nvmlDeviceGetClockInfo, "clock", 0)
CLOCK(nvmlDeviceGetMaxClockInfo, "clock", 1)
CLOCK(nvmlDeviceGetApplicationsClock, "application_clock", 0)
CLOCK(nvmlDeviceGetDefaultApplicationsClock, "application_clock", 1)

struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(Device gpu, struct utilization *out) {
    ENTER(gpu);
    int code = word_at(gpu, "utilization", 0, &out->gpu);
    return code ? code : word_at(gpu, "utilization", 1, &out->memory);
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
        if (fields[i].code) { /* what is told by link only */
            snprintf(name, sizeof name, "field.%u.%u", fields[i].id, fields[i].scope);
            fields[i].code = number_at(gpu, name, 0, &fields[i].value);
        }
    }
    return SUCCESS;
}
