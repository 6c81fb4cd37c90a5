// What a trial's report says of its checkpoint.
#pragma once

#include <string>

namespace muster::cli {

/// The absolute path of a checkpoint that a trial reports. Throws a usage error if nothing is there:
/// the trial would not find it when it goes on.
std::string reported_checkpoint(const std::string& path);

}  // namespace muster::cli
