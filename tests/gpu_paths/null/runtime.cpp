// A CUDA runtime without a device, put before PyTorch by LD_PRELOAD: memory is the host's, copies are made, kernels do nothing,
// streams and events are numbers. Every launch, wait, copy and collective is counted. What the host reads is 0, since kernels
// would have made it, but for up to 4 KiB that the host or an all-gather brought there and nobody has read yet.
#include <cuda_runtime_api.h>

#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cards.h"
#include "count.h"

struct Range {
  size_t size;
  bool on_device;
  int device;
};

static std::recursive_mutex &lock() {
  static auto *one = new std::recursive_mutex;  // never destroyed: threads of PyTorch outlive static objects
  return *one;
}
#define LOCKED std::lock_guard<std::recursive_mutex> guard(lock())

static std::map<std::string, long> &counts() {
  static auto *one = new std::map<std::string, long>;
  return *one;
}
static std::map<char *, Range> &ranges() {
  static auto *one = new std::map<char *, Range>;
  return *one;
}
static std::map<const void *, std::string> &kernels() {
  static auto *one = new std::map<const void *, std::string>;
  return *one;
}
static std::set<char *> &registered_frameworks() {
  static auto *one = new std::set<char *>;
  return *one;
}
static const size_t DRIVER_BYTES = 600ull << 20;  // what a context takes of a card's memory
static size_t used[64], peak[64];
static thread_local int current = 0;
static thread_local cudaError_t last = cudaSuccess;

static cudaError_t failed(cudaError_t error) { return last = error; }

// The number among all cards of one inside CUDA_VISIBLE_DEVICES (numbers alone).
static std::vector<int> visible() {
  std::vector<int> found;
  const char *words = getenv("CUDA_VISIBLE_DEVICES");
  if (!words)
    for (int n = 0; n < card_count(); n++) found.push_back(n);
  while (words && *words) {
    if (atoi(words) < card_count()) found.push_back(atoi(words));
    words += strcspn(words, ",");
    words += *words == ',';
  }
  return found;
}
static const Card &card(int device) { return *card_of(visible().at(device)); }
static bool there(int device) { return device >= 0 && device < (int)visible().size(); }
static size_t capacity(int device) { return (card(device).memory_mib << 20) - DRIVER_BYTES; }

static const Range *range_of(const void *at) {
  auto after = ranges().upper_bound((char *)at);
  if (after == ranges().begin()) return nullptr;
  auto found = std::prev(after);
  return (char *)at < found->first + found->second.size ? &found->second : nullptr;
}

// -- graphs: what is launched during a capture is counted in the graph, and again each time that it is launched

using Graph = std::map<std::string, long>;
static Graph *capturing = nullptr;
static thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

// -- what tests ask

API void null_count(const char *what, long times) {
  LOCKED;
  (capturing ? *capturing : counts())[what] += times;
}
API void null_reset() {
  LOCKED;
  counts().clear();
  memcpy(peak, used, sizeof used);
}
API void null_write(const char *path) {  // "number TAB what" of each
  LOCKED;
  FILE *file = fopen(path, "w");
  for (auto &[what, number] : counts()) fprintf(file, "%ld\t%s\n", number, what.c_str());
  fprintf(file, "%zu\tpeak bytes\n", peak[current]);
  fclose(file);
}

// -- kernels

API void **__cudaRegisterFatBinary(void *) {
  static void *handle;
  return &handle;
}
API void __cudaRegisterFatBinaryEnd(void **) {}
API void __cudaUnregisterFatBinary(void **) {}
API void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}
API char __cudaInitModule(void **) { return 1; }
API void __cudaRegisterFunction(void **, const char *host, char *, const char *device, int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
  LOCKED;
  kernels()[host] = device;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void *stream;
};
static thread_local std::vector<Configuration> configurations;

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  auto one = configurations.back();
  configurations.pop_back();
  *grid = one.grid, *block = one.block, *shared = one.shared, *(void **)stream = one.stream;
  return cudaSuccess;
}
API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = (cudaKernel_t)function;
  return cudaSuccess;
}

static cudaError_t launch(const void *function, dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  if (!there(current)) return failed(cudaErrorNoDevice);
  if (capturing && !stream) return failed(cudaErrorStreamCaptureImplicit);
  bool fits = grid.x && grid.y && grid.z && block.x && block.y && block.z && block.x * block.y * block.z <= 1024 &&
              grid.x <= 2147483647u && grid.y <= 65535 && grid.z <= 65535 && shared <= card(current).shared_bytes;
  if (!fits) return failed(cudaErrorInvalidConfiguration);
  LOCKED;
  null_count(("kernel " + kernels()[function]).c_str(), 1);
  return cudaSuccess;
}
API cudaError_t __cudaLaunchKernel(cudaKernel_t function, dim3 grid, dim3 block, void **, size_t shared, cudaStream_t stream) {
  return launch((const void *)function, grid, block, shared, stream);
}
API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **, size_t shared, cudaStream_t stream) {
  return launch(function, grid, block, shared, stream);
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *function, void **) {
  return launch(function, how->gridDim, how->blockDim, how->dynamicSmemBytes, how->stream);
}
API cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void *data) {
  function(data);
  return cudaSuccess;
}
API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *of, const void *) {
  memset(of, 0, sizeof *of);
  of->binaryVersion = of->ptxVersion = card(current).major * 10 + card(current).minor;
  of->maxThreadsPerBlock = 1024, of->numRegs = 32, of->maxDynamicSharedSizeBytes = card(current).shared_bytes;
  return cudaSuccess;
}
API cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int value) {
  return value > (int)card(current).shared_bytes ? failed(cudaErrorInvalidValue) : cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int, size_t) {
  *blocks = 2;
  return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *, int, size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

// -- devices

API cudaError_t cudaGetDeviceCount(int *count) {
  *count = visible().size();
  return *count ? cudaSuccess : failed(cudaErrorNoDevice);
}
API cudaError_t cudaGetDevice(int *device) {
  *device = current;
  return cudaSuccess;
}
API cudaError_t cudaSetDevice(int device) {
  if (!there(device)) return failed(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}
API cudaError_t cudaGetDeviceProperties(cudaDeviceProp *of, int device) {
  auto &one = card(device);
  memset(of, 0, sizeof *of);
  strcpy(of->name, one.name);
  of->totalGlobalMem = one.memory_mib << 20, of->major = one.major, of->minor = one.minor;
  of->multiProcessorCount = one.processors, of->warpSize = 32, of->l2CacheSize = 50 << 20;
  of->sharedMemPerBlock = 49152, of->sharedMemPerBlockOptin = one.shared_bytes;
  of->sharedMemPerMultiprocessor = one.shared_bytes + 1024;
  of->regsPerBlock = of->regsPerMultiprocessor = 65536;
  of->maxThreadsPerBlock = 1024, of->maxThreadsPerMultiProcessor = 2048, of->maxBlocksPerMultiProcessor = 32;
  of->maxThreadsDim[0] = of->maxThreadsDim[1] = 1024, of->maxThreadsDim[2] = 64;
  of->maxGridSize[0] = 2147483647, of->maxGridSize[1] = of->maxGridSize[2] = 65535;
  of->unifiedAddressing = of->managedMemory = of->concurrentKernels = of->canMapHostMemory = of->cooperativeLaunch = 1;
  of->asyncEngineCount = 3, of->textureAlignment = 512, of->memPitch = 2147483647;
  of->pciBusID = 0x10 + visible().at(device);
  memset(of->uuid.bytes, visible().at(device) + 1, 16);
  return cudaSuccess;
}
API cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int device) {
  cudaDeviceProp of;
  cudaGetDeviceProperties(&of, device);
  const std::map<int, int> known = {
      {cudaDevAttrMaxThreadsPerBlock, 1024},
      {cudaDevAttrMultiProcessorCount, of.multiProcessorCount},
      {cudaDevAttrComputeCapabilityMajor, of.major},
      {cudaDevAttrComputeCapabilityMinor, of.minor},
      {cudaDevAttrMaxSharedMemoryPerBlock, 49152},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)of.sharedMemPerBlockOptin},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, (int)of.sharedMemPerMultiprocessor},
      {cudaDevAttrMaxGridDimX, of.maxGridSize[0]},
      {cudaDevAttrMaxGridDimY, 65535},
      {cudaDevAttrMaxGridDimZ, 65535},
      {cudaDevAttrMaxBlockDimX, 1024},
      {cudaDevAttrMaxBlockDimY, 1024},
      {cudaDevAttrMaxBlockDimZ, 64},
      {cudaDevAttrWarpSize, 32},
      {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
      {cudaDevAttrL2CacheSize, of.l2CacheSize},
      {cudaDevAttrClockRate, card(device).clock_mhz * 1000},
      {cudaDevAttrCooperativeLaunch, 1},
      {cudaDevAttrUnifiedAddressing, 1},
      {cudaDevAttrPciBusId, of.pciBusID},
  };
  auto found = known.find(what);
  *value = found == known.end() ? 0 : found->second;
  return cudaSuccess;
}
API cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device) {
  snprintf(text, size, "0000:%02x:00.0", 0x10 + visible().at(device));
  return cudaSuccess;
}
API cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
  *can = 1;
  return cudaSuccess;
}
API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
API cudaError_t cudaDriverGetVersion(int *version) {
  *version = 13000;
  return cudaSuccess;
}
API cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }
API const char *cudaGetErrorName(cudaError_t error) { return error ? "cudaErrorOfTheNullDevice" : "cudaSuccess"; }
API const char *cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) return "out of memory";
  if (error == cudaErrorNoDevice) return "no CUDA-capable device is detected";
  return error ? "error of the null device" : "no error";
}
API cudaError_t cudaPeekAtLastError() { return last; }
API cudaError_t cudaGetLastError() {
  auto error = last;
  last = cudaSuccess;
  return error;
}

// -- memory

API cudaError_t cudaMalloc(void **at, size_t size) {
  LOCKED;
  if (capturing && capture_mode != cudaStreamCaptureModeRelaxed) return failed(cudaErrorStreamCaptureUnsupported);
  size = (size + 2097151) & ~2097151ull;
  if (used[current] + size > capacity(current)) return failed(cudaErrorMemoryAllocation);
  void *made = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return failed(cudaErrorMemoryAllocation);
  ranges()[(char *)made] = {size, true, current};
  used[current] += size;
  if (used[current] > peak[current]) peak[current] = used[current];
  counts()["allocation"]++;
  *at = made;
  return cudaSuccess;
}
API cudaError_t cudaFree(void *at) {
  LOCKED;
  auto found = ranges().find((char *)at);
  if (!at) return cudaSuccess;
  if (found == ranges().end()) return failed(cudaErrorInvalidValue);
  munmap(at, found->second.size);
  used[found->second.device] -= found->second.size;
  ranges().erase(found);
  return cudaSuccess;
}
API cudaError_t cudaMallocAsync(void **at, size_t size, cudaStream_t) { return cudaMalloc(at, size); }
API cudaError_t cudaFreeAsync(void *at, cudaStream_t) { return cudaFree(at); }
API cudaError_t cudaHostAlloc(void **at, size_t size, unsigned) {
  LOCKED;
  *at = aligned_alloc(4096, (size + 4095) & ~4095ull);
  ranges()[(char *)*at] = {size, false, 0};
  counts()["pinned allocation"]++;
  return cudaSuccess;
}
API cudaError_t cudaFreeHost(void *at) {
  LOCKED;
  ranges().erase((char *)at);
  free(at);
  return cudaSuccess;
}
API cudaError_t cudaHostRegister(void *at, size_t size, unsigned) {
  LOCKED;
  ranges()[(char *)at] = {size, false, 0};
  return cudaSuccess;
}
API cudaError_t cudaHostUnregister(void *at) {
  LOCKED;
  ranges().erase((char *)at);
  return cudaSuccess;
}
API cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  *total = card(current).memory_mib << 20;
  *free = capacity(current) - used[current];
  return cudaSuccess;
}
API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *of, const void *at) {
  LOCKED;
  memset(of, 0, sizeof *of);
  auto range = range_of(at);
  of->type = !range ? cudaMemoryTypeUnregistered : range->on_device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  of->device = range ? range->device : -2;
  of->devicePointer = (void *)at;
  of->hostPointer = range && !range->on_device ? (void *)at : nullptr;
  return cudaSuccess;
}

API void null_known(void *at, size_t size) {
  LOCKED;
  for (size_t byte = 0; byte < size; byte += 4) registered_frameworks().insert((char *)at + byte);
}
static cudaError_t copy(void *to, const void *from, size_t size) {
  LOCKED;
  auto target = range_of(to), source = range_of(from);
  bool to_device = target && target->on_device, from_device = source && source->on_device;
  std::string way = std::string(from_device ? "device" : "host") + " to " + (to_device ? "device" : "host");
  if (to_device != from_device) way += (to_device ? source : target) ? ", pinned" : ", pageable";
  if (capturing && to_device != from_device) return failed(cudaErrorStreamCaptureUnsupported);  // of memory that is used again
  null_count(("copy " + way).c_str(), 1);
  null_count(("bytes " + way).c_str(), size);
  if (to_device && size <= 4096 && (!from_device || registered_frameworks().count((char *)from))) null_known(to, size);
  if (from_device && !to_device && !registered_frameworks().erase((char *)from))
    memset(to, 0, size);
  else if (!(to_device && from_device) || size <= 1 << 20)
    memcpy(to, from, size);
  return cudaSuccess;
}
static cudaError_t waited() {
  if (capturing) return failed(cudaErrorStreamCaptureUnsupported);
  null_count("wait", 1);
  return cudaSuccess;
}
API cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind) {
  if (auto error = waited()) return error;
  return copy(to, from, size);
}
API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind, cudaStream_t) {
  return copy(to, from, size);
}
API cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t size, cudaStream_t) {
  return copy(to, from, size);
}
API cudaError_t cudaMemset(void *, int, size_t) {
  null_count("memset", 1);
  return cudaSuccess;
}
API cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t) { return cudaMemset(nullptr, 0, 0); }
API cudaError_t cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, cudaMemcpyKind) { return cudaSuccess; }
API cudaError_t cudaGetSymbolAddress(void **at, const void *) {
  static char somewhere[1 << 20];
  *at = somewhere;
  return cudaSuccess;
}

// -- streams and events

API void *null_handle() {
  static std::atomic<long> number{16};
  return (void *)(number += 16);
}
API cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  *stream = (cudaStream_t)null_handle();
  return cudaSuccess;
}
API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int) { return cudaStreamCreate(stream); }
API cudaError_t cudaStreamGetPriority(cudaStream_t, int *priority) {
  *priority = 0;
  return cudaSuccess;
}
API cudaError_t cudaStreamSynchronize(cudaStream_t) { return waited(); }
API cudaError_t cudaDeviceSynchronize() { return cudaStreamSynchronize(nullptr); }
API cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaStreamSynchronize(nullptr); }
API cudaError_t cudaEventCreate(cudaEvent_t *event) {
  *event = (cudaEvent_t)null_handle();
  return cudaSuccess;
}
API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }
API cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}
API cudaError_t cudaEventElapsedTime_v2(float *milliseconds, cudaEvent_t a, cudaEvent_t b) {
  return cudaEventElapsedTime(milliseconds, a, b);
}
API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
  *status = capturing && stream ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id,
                                         cudaGraph_t *graph, const cudaGraphNode_t **, const cudaGraphEdgeData **, size_t *count) {
  if (id) *id = (unsigned long long)capturing;
  if (graph) *graph = (cudaGraph_t)capturing;
  if (count) *count = 0;
  return cudaStreamIsCapturing(stream, status);
}
API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  LOCKED;
  if (capturing || !stream) return failed(cudaErrorStreamCaptureUnsupported);
  capturing = new Graph;
  return cudaSuccess;
}
API cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
  LOCKED;
  *graph = (cudaGraph_t)capturing;
  capturing = nullptr;
  return cudaSuccess;
}
API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *count) {
  *count = ((Graph *)graph)->size();
  return cudaSuccess;
}
API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long) {
  *made = (cudaGraphExec_t) new Graph(*(Graph *)graph);
  return cudaSuccess;
}
API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(made, graph, flags);
}
API cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  LOCKED;
  counts()["kernel graph"]++;
  for (auto &[what, number] : *(Graph *)graph) counts()["in graph " + what] += number;
  return cudaSuccess;
}
API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete (Graph *)graph;
  return cudaSuccess;
}
API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy((cudaGraph_t)graph); }
static int nothing() { return 0; }
API cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **function, unsigned, unsigned long long,
                                                 cudaDriverEntryPointQueryResult *result) {
  *function = (void *)nothing;
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
