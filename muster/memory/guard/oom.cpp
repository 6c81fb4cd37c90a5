#include "muster/memory/guard/oom.h"

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include <c10/util/Exception.h>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/out_of_memory_text.h"
#include "muster/distributed/peer_failure.h"

namespace muster::memory {
namespace {

/// cudaErrorMemoryAllocation, and hipErrorOutOfMemory.
constexpr int32_t kMemoryAllocation = 2;

/// Of texts of errors that have no type of their own.
constexpr std::array<std::string_view, 10> kMemorySentences{
    "out of memory. Tried to allocate",            // CUDA, HIP, XPU, PrivateUse1
    "CUDA error: out of memory",                   // of a call of the driver's
    "CUDA driver error: out of memory",            // expandable segments
    "HIP error: out of memory",                    //
    "backend out of memory",                       // MPS
    "DefaultCPUAllocator: can't allocate memory",  //
    "DefaultCPUAllocator: not enough memory",      // Windows
    "CUBLAS_STATUS_ALLOC_FAILED",                  //
    "CUDNN_STATUS_ALLOC_FAILED",                   //
    "std::bad_alloc",                              // where a library has made a text of it
};

OutOfMemory told_by(std::string_view text) {
  OutOfMemory found{.words = first_line(text)};
  const diagnose::OutOfMemoryText bytes = diagnose::out_of_memory_text(found.words);
  found.asked = bytes.asked;
  found.free = bytes.free;
  found.idle = bytes.idle;
  if (bytes.allowed) {  // what the device has free beyond that is not for this process
    const double left =
        std::max(0.0, *bytes.allowed - bytes.allocated.value_or(0) - bytes.idle.value_or(0));
    found.free = std::min(found.free.value_or(left), left);
  }
  return found;
}

bool says_memory(std::string_view text) {
  return std::ranges::any_of(kMemorySentences, [&](std::string_view sentence) {
    return text.find(sentence) != std::string_view::npos;
  });
}

std::string_view text_without_backtrace(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
}

/// What is nested in the error. Who threw the one around has put his own words in front.
std::optional<OutOfMemory> nested_in(const std::exception& around) {
  std::optional<OutOfMemory> found;
  try {
    std::rethrow_if_nested(around);
  } catch (...) {
    found = out_of_memory_in(std::current_exception());
  }
  if (!found) return std::nullopt;
  const std::string_view text = text_without_backtrace(around);
  const size_t begins = text.find(found->words);
  const size_t ends = begins == std::string_view::npos ? begins : text.rfind(": ", begins);
  if (ends != std::string_view::npos) found->where = std::string(text.substr(0, ends));
  return found;
}

}  // namespace

std::optional<OutOfMemory> out_of_memory_in(const std::exception& error) {
  if (dynamic_cast<const distributed::PeerFailure*>(&error) != nullptr) return std::nullopt;
  const std::string_view text = text_without_backtrace(error);
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return told_by(text);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return told_by(text);
  const auto* of_device = dynamic_cast<const c10::AcceleratorError*>(&error);
  if (of_device != nullptr && of_device->get_error_code() == kMemoryAllocation)
    return told_by(text);
  if (std::optional<OutOfMemory> nested = nested_in(error)) return nested;
  // A device's error of another code may quote an older one: its code counts.
  if (of_device == nullptr && says_memory(text)) return told_by(text);
  return std::nullopt;
}

std::optional<OutOfMemory> out_of_memory_in(const std::exception_ptr& error) {
  if (!error) return std::nullopt;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return out_of_memory_in(caught);
  } catch (...) {
    return std::nullopt;
  }
}

bool is_oom_of_peer(const std::exception_ptr& error) {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const distributed::PeerFailure& told) {
    return says_memory(told.what());
  } catch (...) {
    return false;
  }
}

}  // namespace muster::memory
