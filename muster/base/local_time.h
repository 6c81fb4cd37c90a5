// Times as people read them.
#pragma once

#include <string>

namespace muster {

/// `unix_s` (seconds since 1970) in the local time zone, as strftime writes `format`:
/// local_time(0, "%Y-%m-%d %H:%M:%S"). At most 127 bytes; empty for a time beyond what a date can
/// name.
std::string local_time(double unix_s, const char* format);

/// The time now, by the system's clock.
std::string local_time_now(const char* format);

}  // namespace muster
