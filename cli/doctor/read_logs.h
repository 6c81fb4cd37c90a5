// The logs that `muster doctor` is given.
#pragma once

#include <string>
#include <vector>

#include "muster/diagnose/log/log_reader.h"

namespace muster::cli {

/// Reads files, folders (all files named *.log, *.err, *.out or *.txt below them, as `muster run`,
/// torchrun and Slurm keep them; a folder named by a number is a rank's) and "-" for stdin, in this
/// order. Throws a usage error for what is not there and for what is no text (a program, an archive; in
/// a folder such files are passed over), an environment error for what cannot be read.
void read_logs(const std::vector<std::string>& names, diagnose::LogReader& reader);

}  // namespace muster::cli
