// A program that is run to see how it ends.
#pragma once

#include <string>
#include <vector>

#include "muster/diagnose/log/log_reader.h"

namespace muster::cli {

/// Runs `argv`, passes its stdout and stderr on as they come and to `reader`, and waits for its end;
/// stdin is ours. Interrupts of the terminal are the program's; TERM and HUP are passed on. What it has
/// started and left running is not waited for. Throws a usage error for a program that is not there. One
/// thread, and one such call at a time.
diagnose::ProgramEnd watch_program(const std::vector<std::string>& argv,
                                   diagnose::LogReader& reader);

/// The exit code that a shell would give.
int shell_code(const diagnose::ProgramEnd& end);

}  // namespace muster::cli
