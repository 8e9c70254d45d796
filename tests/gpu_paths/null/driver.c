/* A libcuda.so.1 and libnvrtc.so.13 for the null device: modules load, their kernels do nothing. */
#include <stddef.h>
#include <string.h>

extern void null_count(const char *what, long times);

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGet(int *device, int number) { return *device = number, 0; }
int cuGetErrorString(int error, const char **text) { return *text = "error of the null device", 0; }
int cuGetErrorName(int error, const char **text) { return *text = "NULL_DEVICE", 0; }
int cuCtxGetCurrent(void **context) { return *context = (void *)16, 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { return *flags = 0, *active = 1, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (void *)16, 0; }
int cuModuleLoadData(void **module, const void *image) { return *module = (void *)16, 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { return *function = (void *)16, 0; }
int cuFuncSetAttribute(void *function, int what, int value) { return 0; }
int cuFuncGetAttribute(int *value, int what, void *function) { return *value = what ? 0 : 1024, 0; } /* 0: threads of a block */
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t bytes) { return *blocks = 2, 0; }
int cuLaunchKernelEx(const void *how, void *function, void **arguments, void **extra) { return null_count("kernel of Triton", 1), 0; }
int cuDeviceGetAttribute(int *value, int what, int device) { return *value = what == 75 ? 9 : what == 76 ? 0 : 232448, 0; }
int cuFuncSetCacheConfig(void *function, int how) { return 0; }
int cuCtxSetLimit(int what, size_t value) { return 0; }
int cuCtxGetLimit(size_t *value, int what) { return *value = 1024, 0; }
int cuModuleUnload(void *module) { return 0; }
int cuPointerGetAttribute(void *value, int what, unsigned long long at) { return *(unsigned long long *)value = at, 0; }
int cuLaunchKernel(void *function) { return null_count("kernel compiled at run time", 1), 0; }

int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }
int nvrtcCreateProgram(void **made) { return *made = (void *)16, 0; }
int nvrtcDestroyProgram(void **made) { return 0; }
int nvrtcAddNameExpression(void *program, const char *name) { return 0; }
int nvrtcCompileProgram(void *program, int count, const char *const *options) { return 0; }
int nvrtcGetPTXSize(void *program, size_t *size) { return *size = 16, 0; }
int nvrtcGetPTX(void *program, char *text) { return memset(text, 0, 16), 0; }
int nvrtcGetCUBINSize(void *program, size_t *size) { return *size = 16, 0; }
int nvrtcGetCUBIN(void *program, char *image) { return memset(image, 0, 16), 0; }
int nvrtcGetProgramLogSize(void *program, size_t *size) { return *size = 1, 0; }
int nvrtcGetProgramLog(void *program, char *text) { return *text = 0, 0; }
int nvrtcGetLoweredName(void *program, const char *expression, const char **name) { return *name = "k", 0; }
const char *nvrtcGetErrorString(int error) { return "error of the null device"; }
