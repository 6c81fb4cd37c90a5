// Lines that tell of a trouble which this run has not: histories, help, prose, what was expected, and what went well in the
// end. Private to the room.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace muster::diagnose {

// Note [Narrated troubles]
// A log holds more than a program's own words: the history of the code (git log, a commit), the help of its options, a page of a
// README, names of tests. There a trouble is told or quoted. What makes it so stands on the line, before or around the words
// of the trouble, or is the kind of the lines before; the trouble's own words are the same as those of a failure. Such a line
// is no sign of a failure, however the log ends, and a failure beside it is found as ever. A line that says that
// something is tried again, and a warning of CMake, are another thing: a failure, unless what follows says that all went well.

/// The kind of lines that a log is in, by the lines so far: a commit of `git log`, a diff, the help of options, a warning of CMake.
class Narration {
 public:
  /// Takes the next line, without its rank's prefix. Whether it tells of other times or of options.
  bool tells(std::string_view line);

  /// Whether the last line is part of a warning of CMake.
  bool is_in_warning() const { return block_ == Block::kCMakeWarning; }

 private:
  enum class Block { kNone, kCommitHead, kCommit, kDiff, kHistory, kHelp, kCMakeWarning };

  Block next_block(std::string_view line) const;

  Block block_ = Block::kNone;
  size_t help_column_ = 0;  // where the help of the last option begins
};

/// Where the parts of a pattern stand in a line, from the first to behind the last; nothing if they do not.
std::optional<std::pair<size_t, size_t>> span_of_pattern(std::string_view line,
                                                         std::string_view pattern);

/// Whether the line itself says that what stands at [begin, end) is told and has not happened: "caught expected exception: …",
/// "… (simulated)", "if you see …, take …", words in backticks amid prose, "fix: …", a commit that begins with it.
bool is_narrated(std::string_view line, size_t begin, size_t end);

/// Whether the line says that something is tried again: "Retrying (…) after connection broken by …".
bool is_tried_again(std::string_view line);

/// Whether the line says that what was done went well: "Successfully installed …", "[100%] Built target x".
bool tells_success(std::string_view line);

}  // namespace muster::diagnose
