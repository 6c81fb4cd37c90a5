// The end of a program that has nothing left to do.
#pragma once

namespace muster::program {

/// Whether this build looks for leaks, or for threads, at exit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
#else
inline constexpr bool kIsSanitized = false;
#endif

/// Ends the process with this exit code once what was said on stdout and stderr is written: nothing is
/// destroyed and no atexit() function called. A file that is still open loses what its buffer holds.
/// Of a process that has loaded LibTorch that is a third of its shortest run: its tables of operators
/// take 0.1 to 0.25 s to be torn down (docs/benchmarks.md). For main(), when all that has a destructor
/// worth calling is gone.
///
/// By std::exit, with all of that, where something waits for it: a preloaded library (LD_PRELOAD: a
/// profiler, valgrind), one that CUDA was told to load (CUDA_INJECTION64_PATH: Nsight Systems), a
/// sanitizer. From one thread; others are ended where they stand.
[[noreturn]] void end_process(int exit_code);

}  // namespace muster::program
