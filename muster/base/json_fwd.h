// The name of JSON values, for headers whose functions take or give them: json.h costs a second more.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace muster {

/// Keys keep the order in which they were written.
using Json = nlohmann::ordered_json;

}  // namespace muster
