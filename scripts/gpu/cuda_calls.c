// How often a program calls CUDA's runtime, and how long the calls keep it: where no profiler runs.
//   cc -O2 -shared -fPIC -o cuda_calls.so scripts/gpu/cuda_calls.c -ldl
//   CUDA_CALLS=/tmp/calls.txt LD_PRELOAD=./cuda_calls.so build/bin/muster train --device cuda …
// Written at the end, by time: call, how many, milliseconds, microseconds each. Handles are passed on as words, so that no
// header of CUDA's is needed; no call here has more than six. Kernels that a compiler of CUDA 13 launches are not seen.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uintptr_t word;
typedef struct {
  const char* name;
  void* real;
  atomic_long calls, ns;
} call;

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

#define CALLS                                                                                              \
  ONE(cudaMemcpyAsync) ONE(cudaMemcpy) ONE(cudaMemsetAsync) ONE(cudaEventRecord) ONE(cudaEventRecordWithFlags) \
  ONE(cudaEventQuery) ONE(cudaEventSynchronize) ONE(cudaEventCreateWithFlags) ONE(cudaEventDestroy)         \
  ONE(cudaStreamWaitEvent) ONE(cudaStreamSynchronize) ONE(cudaStreamQuery) ONE(cudaDeviceSynchronize)       \
  ONE(cudaMalloc) ONE(cudaFree) ONE(cudaHostAlloc) ONE(cudaFreeHost) ONE(cudaStreamIsCapturing)             \
  ONE(cudaPointerGetAttributes) ONE(cudaGetDevice) ONE(cudaSetDevice) ONE(cudaLaunchKernelExC)              \
  ONE(cudaMemGetInfo) ONE(cudaEventElapsedTime) ONE(cudaHostRegister) ONE(cudaStreamGetPriority)

#define ONE(NAME) static call of_##NAME = {#NAME, NULL, 0, 0};
CALLS
ONE(cudaLaunchKernel)
#undef ONE

#define BODY(NAME, TYPE, ...)                                   \
  if (!of_##NAME.real) of_##NAME.real = dlsym(RTLD_NEXT, #NAME); \
  const long began = now();                                     \
  const word result = ((TYPE)of_##NAME.real)(__VA_ARGS__);      \
  atomic_fetch_add(&of_##NAME.ns, now() - began);               \
  atomic_fetch_add(&of_##NAME.calls, 1);                        \
  return result;

typedef word (*six)(word, word, word, word, word, word);
#define ONE(NAME) \
  word NAME(word a, word b, word c, word d, word e, word f) { BODY(NAME, six, a, b, c, d, e, f) }
CALLS
#undef ONE

typedef struct {
  unsigned x, y, z;
} dim3;
typedef word (*launch)(word, dim3, dim3, word, word, word);
word cudaLaunchKernel(word f, dim3 grid, dim3 block, word arguments, word bytes, word stream) {
  BODY(cudaLaunchKernel, launch, f, grid, block, arguments, bytes, stream)
}

static call* const all[] = {
#define ONE(NAME) &of_##NAME,
    CALLS ONE(cudaLaunchKernel)
#undef ONE
};

static int by_time(const void* a, const void* b) {
  const long x = (*(call* const*)a)->ns, y = (*(call* const*)b)->ns;
  return (x < y) - (x > y);
}

__attribute__((destructor)) static void tell(void) {
  const char* path = getenv("CUDA_CALLS");
  call* sorted[sizeof all / sizeof *all];
  memcpy(sorted, all, sizeof all);
  qsort(sorted, sizeof all / sizeof *all, sizeof *all, by_time);
  long seen = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) seen += sorted[i]->calls;
  if (seen == 0) return;
  FILE* out = path ? fopen(path, "w") : stderr;
  if (!out) return;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    const long calls = sorted[i]->calls, ns = sorted[i]->ns;
    if (calls) fprintf(out, "%-28s %9ld %10.1f ms %8.2f us\n", sorted[i]->name, calls, ns / 1e6, ns / 1e3 / calls);
  }
  if (path) fclose(out);
}
