#include "muster/memory/allocator/process_bytes.h"

#include <memory>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace muster::memory {
namespace {

TEST(ProcessBytes, CodeOfFilesAndOfTheKernelIsNotMadeAtRunTime) {
  EXPECT_EQ(
      made_code_bytes_of(
          "5582960a0000-5582960a1000 r-xp 00009000 fe:00 10952775                   /bin/a b\n"
          "7f9654000000-7f9654003000 rwxp 00000000 00:00 0 \n"
          "7f9655000000-7f9655001000 r-xp 00000000 00:00 0    [anon:kernels]\n"
          "7f9656000000-7f9656001000 r-xs 00000000 00:01 77   /memfd:xbyak (deleted)\n"
          "7f9657000000-7f9658000000 rw-p 00000000 00:00 0 \n"
          "7ffc71000000-7ffc71002000 r-xp 00000000 00:00 0    [vdso]\n"
          "no line of a kernel\n"
          "7f-"),
      0x5000);
  EXPECT_EQ(made_code_bytes_of(""), 0);
}

TEST(ProcessBytes, AMappingIsCountedAndIsNotTheHeaps) {
  constexpr int64_t kBytes = int64_t{16} << 20;
  const ProcessBytes before = process_bytes();
  const int64_t code = made_code_bytes();
  const HeapBytes heap = heap_bytes();
  void* const data = ::mmap(
      nullptr, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_EQ(process_bytes().mapped, before.mapped + kBytes);
  EXPECT_EQ(made_code_bytes(), code + kBytes);
  EXPECT_LT(heap_bytes().from_system, heap.from_system + kBytes / 2);
  ::munmap(data, kBytes);
  EXPECT_EQ(made_code_bytes(), code);
}

TEST(ProcessBytes, WhatTheHeapHasInUseIsCounted) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  const int64_t before = heap_bytes().in_use;
  const auto block = std::make_unique<char[]>(kBytes);
  const int64_t now = heap_bytes().in_use;
  if (now == 0) return;  // a heap that does not tell, as a sanitizer's
  EXPECT_GE(now, before + kBytes);
}

}  // namespace
}  // namespace muster::memory
