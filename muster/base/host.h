// This machine.
#pragma once

#include <string>

namespace muster {

/// Its name, as gethostname gives it; "localhost" if it has none.
std::string host_name();

}  // namespace muster
