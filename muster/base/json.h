// JSON by nlohmann; keys keep the order in which they were written.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace muster {

using Json = nlohmann::ordered_json;

/// Throws a usage error that names `where` (a file, "--flag") and the place of the fault.
Json parse_json(std::string_view text, std::string_view where);

}  // namespace muster
