// Reads logs of any size, in pieces, and recognises the errors of the catalogue.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/diagnose/log/log_diagnosis.h"

namespace muster::diagnose {

/// How a program ended that was watched.
struct ProgramEnd {
  int exit_code = 0;
  int signal = 0;                    ///< that ended it, or 0
  std::optional<int64_t> oom_kills;  ///< of its control group while it ran; nothing if not counted
  int64_t most_resident_bytes = 0;   ///< of its largest process; 0 if not known
};

/// Takes bytes as they come: any encoding (of UTF-16 the letters of ASCII), colours, progress bars (a carriage return ends a line for
/// this purpose), several ranks in one stream, lines of any length. Memory does not grow with the
/// log. One thread.
class LogReader {
 public:
  LogReader();
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  /// What follows comes from here, from its first line on; of a rank's own log with the rank, for lines
  /// that do not name one.
  void begin(std::string source, std::optional<int64_t> rank = std::nullopt);
  void read(std::string_view bytes);
  /// The last line may have no end.
  void end();

  /// Evidence that no line has.
  void program_ended(const ProgramEnd& end);

  LogDiagnosis diagnosis() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::diagnose
