// The last lines of a rank, kept for the report of its failure.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launch {

/// A ring of the newest lines. Long lines are cut, so memory is bounded by kLines * kLineBytes. One
/// thread.
class Tail {
 public:
  static constexpr size_t kLines = 20;
  static constexpr size_t kLineBytes = 1000;

  void add(std::string_view line);
  /// Oldest first.
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
};

}  // namespace muster::launch
