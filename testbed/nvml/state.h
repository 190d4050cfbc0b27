/* The state file, what every call does first, and the shapes that most functions have. */
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
enum { MOST_GPUS = 64, MOST_LINES = 256 };

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
    if (section > sections + gpus && section <= sections + MOST_GPUS)
        return GPU_IS_LOST; /* gone since its handle was given out */
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

/* The shapes */

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
