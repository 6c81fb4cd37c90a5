// Calls that end with their time, on machines of any speed.
#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace muster::test {

/// What `call` (of a timeout, to a text) says in the shortest time in which it gets as far as to say `words`:
/// a slow machine may need more than `timeout`, which doubles, up to a minute.
template <typename Call>
std::string said_in_time(Call&& call,
                         const std::string& words,
                         std::chrono::milliseconds timeout = std::chrono::milliseconds(500)) {
  for (;; timeout *= 2) {
    std::string said = call(timeout);
    if (said.find(words) != std::string::npos || timeout > std::chrono::minutes(1)) return said;
  }
}

}  // namespace muster::test
