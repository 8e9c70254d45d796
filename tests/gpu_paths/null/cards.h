/* The cards that the null device can be: NULL_GPU names one, or several with commas, in the order of their numbers;
   NULL_GPU_COUNT says how many there are. The last name stands for all that follow. */
#pragma once
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *key, *name;
  int major, minor, processors;
  unsigned long long memory_mib, shared_bytes;
  int clock_mhz, memory_clock_mhz, watts, nvlinks;
} Card;

static const Card cards[] = {
    {"h200", "NVIDIA H200", 9, 0, 132, 143771, 232448, 1980, 3201, 700, 18},
    {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 81559, 232448, 1980, 2619, 700, 18},
    {"a100", "NVIDIA A100-SXM4-40GB", 8, 0, 108, 40960, 166912, 1410, 1215, 400, 12},
    {"v100", "Tesla V100-SXM2-16GB", 7, 0, 80, 16384, 98304, 1530, 877, 300, 6},
    {"small", "Null GPU 1GB", 9, 0, 8, 1024, 232448, 1000, 1000, 100, 0},
};

static int card_count(void) { return getenv("NULL_GPU_COUNT") ? atoi(getenv("NULL_GPU_COUNT")) : 1; }

static const Card *card_of(int device) {
  const char *names = getenv("NULL_GPU") ? getenv("NULL_GPU") : "h100";
  for (const char *next; device > 0 && (next = strchr(names, ',')); device--) names = next + 1;
  size_t length = strcspn(names, ",");
  for (size_t n = 0; n < sizeof cards / sizeof *cards; n++)
    if (strlen(cards[n].key) == length && !strncmp(cards[n].key, names, length)) return &cards[n];
  abort();
}
