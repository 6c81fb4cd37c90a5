// What the programs that replay studies under schedulers have in common.
#pragma once

#include <string>
#include <vector>

namespace muster::benchmarks {

/// Those of the tables, for trials of 27 epochs.
inline std::vector<std::string> replayed_schedulers() {
  return {"fifo",
          "asha:max_t=27,reduction_factor=3",
          "asha:max_t=27,reduction_factor=3,variant=promotion",
          "hyperband:max_t=27",
          "median"};
}

inline std::vector<std::string> replayed_searchers() { return {"random", "tpe", "bohb"}; }

/// A cell of CSV.
inline std::string quoted(const std::string& text) {
  return text.find(',') == std::string::npos ? text : '"' + text + '"';
}

}  // namespace muster::benchmarks
