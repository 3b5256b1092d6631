/*===- tests/machine/fake_nvml.c - a fake NVML with answers from a file ---------------------===*
 *
 * FAKE_NVML names the file. A line consists of a key, a blank and a value. The line `device` begins
 * the next device, and lines before the first device describe the system. A value without a line is
 * not supported. Written from NVML's documentation, independently of the declarations under test.
 *
 *   driver 580.95.05
 *   device
 *   name NVIDIA H100
 *   link3.up 1
 *   peer1.read 5
 *
 * If the system has the line `hang 1`, initialization never ends. If FAKE_OLD is defined, entry
 * points that old drivers lack are missing.
 *
 *===---------------------------------------------------------------------------------------===*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kOk = 0, kBadArgument = 2, kNotSupported = 3, kSystem = -1, kMostLines = 2048 };

typedef struct {
  int device;
  char key[64], value[128];
} Line;

static Line lines[kMostLines];
static int lineCount, deviceCount;

static int readLines(void) {
  const char *name = getenv("FAKE_NVML");
  FILE *file = name ? fopen(name, "r") : NULL;
  char text[256];
  if (!file)
    return 0;
  lineCount = deviceCount = 0;
  while (lineCount < kMostLines && fgets(text, sizeof(text), file)) {
    Line *line = &lines[lineCount];
    const int fields = sscanf(text, "%63s %127[^\n]", line->key, line->value);
    line->device = deviceCount - 1;
    if (fields == 1 && strcmp(line->key, "device") == 0)
      ++deviceCount;
    else if (fields == 2)
      ++lineCount;
  }
  fclose(file);
  return 1;
}

static const char *find(int device, const char *key) {
  for (int i = 0; i < lineCount; ++i)
    if (lines[i].device == device && strcmp(lines[i].key, key) == 0)
      return lines[i].value;
  return NULL;
}

static int indexOf(void *handle) { return (int)(size_t)handle - 1; }

static int number(int device, const char *key, unsigned long long *value) {
  const char *text = find(device, key);
  if (!text)
    return kNotSupported;
  *value = strtoull(text, NULL, 0);
  return kOk;
}

static int number32(int device, const char *key, unsigned *value) {
  unsigned long long wide = 0;
  const int code = number(device, key, &wide);
  if (code == kOk)
    *value = (unsigned)wide;
  return code;
}

static int text(int device, const char *key, char *buffer, unsigned size) {
  const char *value = find(device, key);
  if (!value || size == 0)
    return kNotSupported;
  snprintf(buffer, size, "%s", value);
  return kOk;
}

int nvmlInit_v2(void) {
  unsigned code = 0;
  if (!readLines())
    return 9; /* the driver is not loaded */
  while (find(kSystem, "hang"))
    sleep(1);
  return number32(kSystem, "init", &code) == kOk ? (int)code : kOk;
}
int nvmlShutdown(void) { return kOk; }

int nvmlSystemGetDriverVersion(char *buffer, unsigned size) {
  return text(kSystem, "driver", buffer, size);
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) {
  return number32(kSystem, "cuda", (unsigned *)version);
}
int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = (unsigned)deviceCount;
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  if ((int)index >= deviceCount)
    return kBadArgument;
  *device = (void *)(size_t)(index + 1);
  return kOk;
}
int nvmlDeviceGetName(void *device, char *buffer, unsigned size) {
  return text(indexOf(device), "name", buffer, size);
}
int nvmlDeviceGetUUID(void *device, char *buffer, unsigned size) {
  return text(indexOf(device), "uuid", buffer, size);
}

typedef struct {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
} PciInfo;

int nvmlDeviceGetPciInfo_v3(void *device, PciInfo *info) {
  return text(indexOf(device), "pci", info->busId, sizeof(info->busId));
}

typedef struct {
  unsigned long long total, free, used;
} Memory;

int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
  memory->free = memory->used = 0;
  return number(indexOf(device), "memory", &memory->total);
}

#define NUMBER(Function, Key)                                                                      \
  int Function(void *device, unsigned *value) { return number32(indexOf(device), Key, value); }
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "enforced_power_limit")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "default_power_limit")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "most_pcie_generation")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "most_pcie_width")

#define TWO(Function, Key)                                                                         \
  int Function(void *device, unsigned *current, unsigned *pending) {                               \
    *pending = 0;                                                                                  \
    return number32(indexOf(device), Key, current);                                                \
  }
TWO(nvmlDeviceGetEccMode, "ecc")

static const char *const kClocks[] = {"graphics", "sm", "memory", "video"};

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *value) {
  char key[64];
  snprintf(key, sizeof(key), "%s_clock", kClocks[clock & 3]);
  return number32(indexOf(device), key, value);
}
int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *value) {
  char key[64];
  snprintf(key, sizeof(key), "most_%s_clock", kClocks[clock & 3]);
  return number32(indexOf(device), key, value);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
  return number(indexOf(device), "clock_reasons", reasons);
}
int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *count) {
  char key[64];
  snprintf(key, sizeof(key), "%s_%s", type == 1 ? "uncorrected" : "corrected",
           counter == 0 ? "volatile" : "aggregate");
  return number(indexOf(device), key, count);
}

#ifndef FAKE_OLD
TWO(nvmlDeviceGetMigMode, "mig")

static int ofLink(void *device, unsigned link, const char *what, unsigned long long *value) {
  char key[64];
  snprintf(key, sizeof(key), "link%u.%s", link, what);
  return number(indexOf(device), key, value);
}
static int ofLink32(void *device, unsigned link, const char *what, unsigned *value) {
  unsigned long long wide = 0;
  const int code = ofLink(device, link, what, &wide);
  if (code == kOk)
    *value = (unsigned)wide;
  return code;
}
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *state) {
  return ofLink32(device, link, "up", state);
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type) {
  return ofLink32(device, link, "remote_type", type);
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, PciInfo *info) {
  char key[64];
  snprintf(key, sizeof(key), "link%u.remote", link);
  return text(indexOf(device), key, info->busId, sizeof(info->busId));
}
int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int counter,
                                    unsigned long long *value) {
  static const char *const kCounters[] = {"replay", "recovery", "crc_flit", "crc_data"};
  return ofLink(device, link, kCounters[counter & 3], value);
}

typedef struct {
  unsigned fieldId, scopeId;
  long long timestamp, latencyUsec;
  unsigned valueType;
  int nvmlReturn;
  union {
    double dVal;
    unsigned uiVal;
    unsigned long long ullVal;
  } value;
} FieldValue;

int nvmlDeviceGetFieldValues(void *device, int count, FieldValue *values) {
  for (int i = 0; i < count; ++i)
    values[i].nvmlReturn = values[i].fieldId == 90
                               ? number32(indexOf(device), "link_mbps", &values[i].value.uiVal)
                               : kNotSupported;
  return kOk;
}

int nvmlDeviceGetP2PStatus(void *from, void *to, int capability, unsigned *status) {
  static const char *const kCapabilities[] = {"read", "write", "nvlink", "atomics"};
  char key[64];
  snprintf(key, sizeof(key), "peer%d.%s", indexOf(to), kCapabilities[capability & 3]);
  return number32(indexOf(from), key, status);
}
int nvmlDeviceGetTopologyCommonAncestor(void *from, void *to, unsigned *level) {
  char key[64];
  snprintf(key, sizeof(key), "peer%d.ancestor", indexOf(to));
  return number32(indexOf(from), key, level);
}
#endif
