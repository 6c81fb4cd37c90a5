// Which errors are of memory. The texts are LibTorch's own, from public reports of its users.
#include "muster/memory/guard/oom.h"

#include <new>
#include <stdexcept>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::memory {
namespace {

std::exception_ptr plain(const std::string& text) {
  return std::make_exception_ptr(std::runtime_error(text));
}

std::exception_ptr of_type(const std::string& text) {
  return std::make_exception_ptr(c10::OutOfMemoryError({__func__, __FILE__, 1}, text));
}

TEST(OutOfMemory, IsKnownByItsTypeWhateverItSays) {
  EXPECT_TRUE(is_oom(of_type("no room")));
  EXPECT_TRUE(is_oom(std::make_exception_ptr(std::bad_alloc())));
  EXPECT_EQ(out_of_memory_in(of_type("no room\nframe #0: here"))->words, "no room");
}

TEST(OutOfMemory, IsKnownByTheDevicesCode) {
  const auto device_error = [](int32_t code, const std::string& text) {
    return std::make_exception_ptr(c10::AcceleratorError({__func__, __FILE__, 1}, code, text));
  };
  EXPECT_TRUE(is_oom(device_error(2, "CUDA error")));
  // A sticky error of another kind may quote whatever came before.
  EXPECT_FALSE(
      is_oom(device_error(700, "an illegal memory access; before: CUDA error: out of memory")));
}

TEST(OutOfMemory, IsKnownByTheSentencesThatHaveNoType) {
  for (const char* text :
       {"[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 40000000000 bytes. Error code 12 (Cannot allocate memory)",
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "MPS backend out of memory (MPS allocated: 9.05 GB, other allocations: 384.00 KB, max "
        "allowed: 9.07 GB). Tried to allocate 32.00 MB on private pool."})
    EXPECT_TRUE(is_oom(plain(text))) << text;
}

TEST(OutOfMemory, IsNoneOfWhatMayMeanSomethingElse) {
  EXPECT_FALSE(is_oom(std::exception_ptr()));
  EXPECT_FALSE(is_oom(std::make_exception_ptr(7)));
  for (const char* text :
       {"CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "CUDA error: device-side assert triggered",
        "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)",
        ""})
    EXPECT_FALSE(is_oom(plain(text))) << text;
}

TEST(OutOfMemory, IsFoundWithinWhatOthersWrapAroundIt) {
  std::exception_ptr wrapped;
  try {
    try {
      std::rethrow_exception(of_type("CUDA out of memory. Tried to allocate 2.00 GiB."));
    } catch (...) {
      std::throw_with_nested(environment_error({.refused = "stage 0", .rule = "it failed"}));
    }
  } catch (...) {
    wrapped = std::current_exception();
  }
  ASSERT_TRUE(is_oom(wrapped));
  EXPECT_EQ(out_of_memory_in(wrapped)->text(), "CUDA out of memory. Tried to allocate 2.00 GiB.");
}

TEST(OutOfMemory, IsFoundWhereTheOnesAroundQuoteIt) {
  const std::string words = "CUDA out of memory. Tried to allocate 2.00 GiB.";
  std::exception_ptr wrapped = of_type(words);
  for (const std::string& around : {"stage 1: " + words, "backward of stage 1: " + words}) {
    try {
      try {
        std::rethrow_exception(wrapped);
      } catch (...) {
        std::throw_with_nested(std::runtime_error(around));
      }
    } catch (...) {
      wrapped = std::current_exception();
    }
  }
  const OutOfMemory found = *out_of_memory_in(wrapped);
  EXPECT_EQ(found.words, words);
  EXPECT_EQ(found.where, "backward of stage 1");
  EXPECT_EQ(found.text(), "backward of stage 1: " + words);
}

// A share of the device was set, and the rest of it is free: text of an H100.
TEST(OutOfMemory, HasNoRoomBeyondItsShare) {
  const OutOfMemory found = *out_of_memory_in(of_type(
      "CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity of "
      "79.18 GiB of which 75.34 GiB is free. Including non-PyTorch memory, this process has "
      "3.83 GiB memory in use. 3.17 GiB allowed; Of the allocated memory 3.10 GiB is "
      "allocated by PyTorch, and 1.44 MiB is reserved by PyTorch but unallocated."));
  EXPECT_FALSE(found.may_pass_again());
  EXPECT_LT(*found.free, 0.1 * 1024 * 1024 * 1024);
}

TEST(OutOfMemory, MayPassAgainWhereThereWasRoom) {
  const auto told = [](const std::string& asked, const std::string& free, const std::string& idle) {
    return *out_of_memory_in(of_type(
        "CUDA out of memory. Tried to allocate " + asked +
        ". GPU 0 has a total capacity of 8.00 GiB of which " + free +
        " is free. Process 1 has 7.00 GiB memory in use. Of the allocated memory 5.00 GiB is "
        "allocated by PyTorch, and " +
        idle + " is reserved by PyTorch but unallocated."));
  };
  EXPECT_FALSE(told("2.00 GiB", "1.00 GiB", "512.00 MiB").may_pass_again());
  EXPECT_TRUE(told("1.00 GiB", "1.00 GiB", "0 bytes").may_pass_again());
  EXPECT_TRUE(told("2.00 GiB", "512.00 MiB", "1.50 GiB").may_pass_again()) << "fragments";
  EXPECT_EQ(told("2.00 GiB", "512.00 MiB", "1.50 GiB").asked, 2.0 * 1024 * 1024 * 1024);
  EXPECT_FALSE(out_of_memory_in(of_type("no numbers"))->may_pass_again());
}

}  // namespace
}  // namespace muster::memory
