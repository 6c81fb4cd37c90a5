// Whether a backend that is asked for can be used, found out before ranks meet.
#pragma once

#include <cstdint>
#include <string>

namespace muster::distributed {

/// Throws what a group that is made of `asked` (auto, or names) would, as far as this process alone can
/// tell: a usage error for a name that is unknown, an environment error for one of no use here.
/// `processes`: so many are its ranks.
void check_backend(const std::string& asked, int64_t processes);

/// One process alone has no need of another backend than `thread`.
bool is_thread_alone(const std::string& asked, int64_t processes);

}  // namespace muster::distributed
