// The last lines of a log, for what its end is most like. Private to the room.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/diagnose/log/log_diagnosis.h"
#include "muster/diagnose/log/seen_row.h"

namespace muster::diagnose {

/// A fixed number of lines, each cut to a length. What a line costs is a copy of it.
class LogTail {
 public:
  void add(std::string_view source,
           int64_t line,
           std::optional<int64_t> rank,
           std::string_view text);

  /// The row whose messages these lines are most like, if it is clearly ahead and not that nothing failed; see Note [Likeness].
  struct Guess {
    std::string row;
    Sighting line;  ///< the likest of them
  };
  std::optional<Guess> guess() const;

 private:
  struct Line {
    std::string source, text;
    int64_t number = 0;
    std::optional<int64_t> rank;
  };
  static constexpr size_t kLines = 40, kMostBytes = 1000;
  std::array<Line, kLines> lines_;
  size_t count_ = 0;
};

/// What was seen, and the row that the end of the log is most like.
std::vector<SeenRow> with_guess(std::vector<SeenRow> seen, const LogTail::Guess& guess);

}  // namespace muster::diagnose
