#include "muster/train/device/out_of_memory.h"

#include <exception>
#include <optional>
#include <string>

#include "muster/distributed/peer_failure.h"
#include "muster/memory/guard/oom.h"

namespace muster::train {
namespace {

struct Found {
  std::string where;  // "backward of stage 0"; empty: nobody says
  std::string bytes;
  std::string begins;  // its first line
};

/// "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which
/// 1.20 GiB is free. …": what follows is for readers of allocators.
std::string bytes_of(const c10::OutOfMemoryError& error) {
  const std::string text = error.what_without_backtrace();
  const size_t tried = text.find("Tried to allocate");
  const size_t free = text.find(" is free", tried == std::string::npos ? 0 : tried);
  if (tried == std::string::npos || free == std::string::npos) return text;
  return text.substr(tried, free + std::string_view(" is free").size() - tried);
}

/// The error in hand, or what is nested in it.
std::optional<Found> find_out_of_memory() {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    const std::string text = error.what_without_backtrace();
    return Found{.bytes = bytes_of(error), .begins = text.substr(0, text.find('\n'))};
  } catch (const distributed::PeerFailure&) {
    return std::nullopt;  // it is told as it is
  } catch (const std::exception& around) {
    try {
      std::rethrow_if_nested(around);
      // One of the sentences that mean the same: of cuBLAS, the CPU's allocator, the standard library.
      const auto known = memory::out_of_memory_in(around);
      if (!known) return std::nullopt;
      return Found{.where = "", .bytes = known->words, .begins = known->words};
    } catch (...) {
      std::optional<Found> found = find_out_of_memory();
      // Whoever threw the one around put his words in front.
      const std::string all = around.what();
      const size_t at = found ? all.find(found->begins) : std::string::npos;
      if (at != std::string::npos && at > 0) found->where = all.substr(0, all.rfind(": ", at));
      return found;
    }
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace

void rethrow_in_memory_words(c10::Device device, std::string_view when, std::string_view hint) {
  const std::optional<Found> found = find_out_of_memory();
  if (!found) throw;
  // A part that has a device of its own is named in its place; LibTorch's words number that device.
  const std::string who = found->where.empty() ? concat(device, " is out of memory ", when)
                                               : concat("out of memory ", when, ", ", found->where);
  throw environment_error({.refused = who, .rule = found->bytes, .hint = std::string(hint)});
}

}  // namespace muster::train
