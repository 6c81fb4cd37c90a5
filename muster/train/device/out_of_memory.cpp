#include "muster/train/device/out_of_memory.h"

#include <exception>
#include <string>

#include "muster/memory/guard/oom.h"

namespace muster::train {
namespace {

/// "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which
/// 1.20 GiB is free. …": what follows is for readers of allocators.
std::string bytes_in(const std::string& words) {
  const size_t tried = words.find("Tried to allocate");
  const size_t free = words.find(" is free", tried == std::string::npos ? 0 : tried);
  if (tried == std::string::npos || free == std::string::npos) return words;
  return words.substr(tried, free + std::string_view(" is free").size() - tried);
}

}  // namespace

void rethrow_in_memory_words(c10::Device device, std::string_view when, std::string_view hint) {
  const auto found = memory::out_of_memory_in(std::current_exception());
  if (!found) throw;
  // A part that has a device of its own is named in its place; LibTorch's words number that device.
  const std::string who = found->where.empty() ? concat(device, " is out of memory ", when)
                                               : concat("out of memory ", when, ", ", found->where);
  throw environment_error(
      {.refused = who, .rule = bytes_in(found->words), .hint = std::string(hint)});
}

}  // namespace muster::train
