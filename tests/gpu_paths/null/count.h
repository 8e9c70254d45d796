#pragma once
#define API extern "C" __attribute__((visibility("default")))
API void null_count(const char *what, long times);
API void null_known(void *at, size_t size);
API void *null_handle();
