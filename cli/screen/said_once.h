// What several ranks say alike is shown once.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

/// The errors that ranks print on stderr, from "NAME: error: …" (or {"error": …}) to the lines behind
/// it. Of one that another rank has printed already, word for word, nothing is shown; a rank whose
/// lines differ from some line on is heard again from there. One thread.
class SaidOnce {
 public:
  /// Whether this line of a rank's stderr is to be shown.
  bool is_new(int64_t rank, std::string_view line);

  /// "ranks 1, 2 said the same", or nothing. What was said is forgotten: a new attempt begins.
  std::string end_attempt();

 private:
  struct Said {
    std::vector<std::string> lines;
    int64_t by = 0;
  };
  struct Place {
    size_t said = 0, line = 0;
  };

  std::vector<Said> all_;
  std::map<int64_t, Place> places_;  // of ranks that are in an error
  std::set<int64_t> repeaters_;
};

}  // namespace muster::cli
