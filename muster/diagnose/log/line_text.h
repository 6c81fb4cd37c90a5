// Lines of logs as programs leave them: colours, the ranks that speak, warnings. Pure. Private to the
// room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::diagnose {

/// Without escape sequences of terminals (ECMA-48: CSI, OSC and two-byte ones); an unfinished one is
/// left out to the end. All other bytes stay.
std::string without_escapes(std::string_view line);

/// The first bytes of a line as a Sighting has them: printable, at most kMostTextBytes, cut between letters.
std::string shown_text(std::string_view line);

/// Typographic quotation marks of UTF-8, as compilers write them, as those of ASCII.
std::string with_plain_quotes(std::string_view line);

/// Who says a line, by what launchers put in front of it, several of them if need be: "[rank1]:",
/// "[default1]:" and "[Rank 1]" (torchrun, c10d), "[ 1] " (muster run), "[1,3]<stdout>:" (mpirun),
/// "3: " (srun -l). Nothing if nobody is named. `length`: of all prefixes, blanks behind them
/// included.
struct LinePrefix {
  size_t length = 0;
  std::optional<int64_t> rank;
};
LinePrefix line_prefix(std::string_view line);

/// The line without those prefixes.
std::string_view without_prefix(std::string_view line);

/// Whether the line says of itself that it is a warning, or that what it tells of is mended:
/// "[W socket.cpp:401]", "W0514 …", "I0514 …", "WARNING:", "UserWarning:", "[WARNING]".
bool is_warning_line(std::string_view line);

/// Whether the line says that a test begins or went well, in the words of GoogleTest, pytest or CTest, or that a file is
/// being built, in those of ninja and make: what it is called may be any trouble.
bool tells_what_goes_well(std::string_view line);

/// Whether the line speaks of a failure at all: "error", "exception", "what():", "fatal"; a measured
/// or counted thing ("error: 0.12", "0 failed") and a test that passed are none.
bool speaks_of_failure(std::string_view line);

/// Whether the line is a row of measures: two fractions or more, a number at its end, and no word of a failure or of a command
/// ("segmentation fault  0.91  0.88", "precision 0.8 recall 0.7"). What it measures may be called anything.
bool is_row_of_measures(std::string_view line);

/// What stands before the first NaN of a line that is the value of a measure, from its name on: "loss=", "val_loss: ". Empty if
/// there is none.
std::string_view measure_that_is_nan(std::string_view line);

/// Whether the line gives that measure a finite number.
bool is_finite_again(std::string_view line, std::string_view measure);

/// When a line was said, by the clock in its prefix ("E0325 20:57:27.62", "[rank2]:[E626 05:06:30.93": glog's,
/// which has no year), in microseconds from the beginning of a year; nothing if there is none.
std::optional<int64_t> glog_time(std::string_view line);

/// Whether the line ends where an error's words would begin: "  what():  ", "RuntimeError:".
bool announces_error(std::string_view line);

}  // namespace muster::diagnose
