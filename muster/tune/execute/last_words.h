// What a program says that it failed of. Private to the room.
#pragma once

#include <string>
#include <string_view>

namespace muster::tune {

/// Takes the lines of a program's stderr as they come and keeps the one that says what failed: the
/// first line of the newest error that has a known form, else the last line that is no mere advice.
/// Known are
///   NAME: error: WHAT        of Muster, argparse, compilers; with hints and a log's name behind it
///   {"error": {"text": …}}   of Muster's --json
///   Traceback (most …):      of Python: the exception behind the frames
///   what(): WHAT             of a C++ exception that nobody caught
/// also where `muster run` has put a rank before it, or "| ". Bounded memory. One thread.
class LastWords {
 public:
  void add(std::string_view line);

  /// Trimmed; of Muster without its name. Empty: nothing was said.
  std::string_view text() const;

 private:
  void begin(std::string_view error, bool advises);

  std::string error_, words_, advice_;
  bool advises_ = false;  ///< hints may follow the error, and what follows those is another's
  bool has_advised_ = false;
  bool awaits_exception_ = false;  ///< behind a traceback's head
};

}  // namespace muster::tune
