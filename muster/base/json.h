// JSON by nlohmann; keys keep the order in which they were written.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "muster/base/json_fwd.h"

namespace muster {

/// Values nested deeper are refused by `parse_json`: nlohmann copies, compares and writes by
/// recursion, so that a file of many brackets could end the stack.
constexpr int kMaxJsonDepth = 64;

/// False if a bracket of `text` is deeper than kMaxJsonDepth or a byte of it is zero (which
/// nlohmann takes for the end, passing over what follows). For parsers that call nlohmann
/// themselves. `text` need not be JSON.
bool is_safe_json(std::string_view text);

/// Throws a usage error that names `where` (a file, "--flag") and the place of the fault: not JSON,
/// nested too deeply, or a key given twice in one object (of which nlohmann would keep the last).
Json parse_json(std::string_view text, std::string_view where);

/// One line, or indented by `indent` blanks. Bytes that are not UTF-8 (a path may hold any) become
/// U+FFFD instead of an exception.
std::string json_text(const Json& json, int indent = -1);

}  // namespace muster
