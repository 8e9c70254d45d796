/* An NVML for the null device. NULL_GPU_DRIVER: the newest CUDA version that the driver knows (13000). NULL_GPU_LOST: the
   number of a card that has fallen off the bus, once the file of that name exists (`3:/path`), or always (`3`). */
#include <stdio.h>
#include <unistd.h>

#include "cards.h"

typedef unsigned long long u64;
typedef struct { int number; } Device;
static Device devices[64];

static int lost(const Device *device) {
  const char *word = getenv("NULL_GPU_LOST"), *path = word ? strchr(word, ':') : NULL;
  return word && atoi(word) == device->number && (!path || !access(path + 1, F_OK));
}
#define GONE 15
#define NEEDS(device) \
  if (lost(device)) return GONE
static const Card *card(const Device *device) { return card_of(device->number); }

int nvmlInit_v2(void) { return card_count() ? 0 : 9; }
int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int error) {
  return error == 2 ? "Invalid Argument" : error == 3 ? "Not Supported" : error == 9 ? "Driver Not Loaded" : "GPU is lost";
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) { return snprintf(text, size, "580.0") < 0; }
int nvmlSystemGetCudaDriverVersion(int *version) {
  *version = getenv("NULL_GPU_DRIVER") ? atoi(getenv("NULL_GPU_DRIVER")) : 13000;
  return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = card_count(), 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned number, Device **device) {
  if ((int)number >= card_count()) return 2;
  devices[number].number = number;
  *device = &devices[number];
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *text, Device **device) {
  return nvmlDeviceGetHandleByIndex_v2(strtol(strchr(text, ':') + 1, NULL, 16) - 0x10, device);
}
int nvmlDeviceGetUUID(Device *device, char *text, unsigned size) {
  return snprintf(text, size, "GPU-%08x-0000-0000-0000-000000000000", 0xa0000000u + device->number) < 0;
}
int nvmlDeviceGetName(Device *device, char *text, unsigned size) { return snprintf(text, size, "%s (null device)", card(device)->name) < 0; }
int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
  NEEDS(device);
  *major = card(device)->major, *minor = card(device)->minor;
  return 0;
}
int nvmlDeviceGetMemoryInfo(Device *device, u64 *memory) { /* total, free, used */
  NEEDS(device);
  memory[0] = card(device)->memory_mib << 20, memory[2] = 500ull << 20, memory[1] = memory[0] - memory[2];
  return 0;
}
int nvmlDeviceGetMigMode(Device *device, unsigned *now, unsigned *then) { return 3; }
int nvmlDeviceGetPciInfo_v3(Device *device, char *info) {
  memset(info, 0, 68);
  return snprintf(info + 36, 32, "00000000:%02X:00.0", 0x10 + device->number) < 0;
}
int nvmlDeviceGetUtilizationRates(Device *device, unsigned *rates) {
  NEEDS(device);
  rates[0] = 97, rates[1] = 40;
  return 0;
}
int nvmlDeviceGetPowerUsage(Device *device, unsigned *milliwatts) {
  NEEDS(device);
  return *milliwatts = card(device)->watts * 900, 0;
}
int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *milliwatts) { return *milliwatts = card(device)->watts * 1000, 0; }
int nvmlDeviceGetClockInfo(Device *device, int kind, unsigned *mhz) {
  NEEDS(device);
  return *mhz = kind == 2 ? card(device)->memory_clock_mhz : card(device)->clock_mhz, 0;
}
int nvmlDeviceGetMaxClockInfo(Device *device, int kind, unsigned *mhz) { return nvmlDeviceGetClockInfo(device, kind, mhz); }
int nvmlDeviceGetTemperature(Device *device, int kind, unsigned *degrees) {
  NEEDS(device);
  return *degrees = 55, 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, u64 *reasons) { return *reasons = 0, 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, void *processes) { return *count = 0, 0; }
int nvmlDeviceGetComputeRunningProcesses(Device *device, unsigned *count, void *processes) { return *count = 0, 0; }
int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *state) {
  return (int)link >= card(device)->nvlinks ? 2 : (*state = 1, 0);
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Device *device, unsigned link, int *type) { return *type = 0, 0; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *device, unsigned link, void *info) { return memset(info, 0, 68), 0; }
int nvmlDeviceGetGpuFabricInfoV(Device *device, void *info) { return 3; }
int nvmlDeviceGetTopologyCommonAncestor(Device *a, Device *b, int *level) {
  return *level = a->number / 4 == b->number / 4 ? 40 : 50, 0;
}
int nvmlDeviceGetP2PStatus(Device *a, Device *b, int kind, int *status) { return *status = card(a)->nvlinks ? 0 : 1, 0; }
