// Which bytes are text. Torch-free.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::formats {

/// How many bytes from the start are below 0x80.
size_t ascii_prefix(std::string_view text);

/// How many bytes from the start are valid: text.size() if all are. Surrogates, overlong forms and
/// what is above U+10FFFF are not. Source: Unicode 15.0, table 3-7.
size_t valid_utf8_prefix(std::string_view text);

/// "not UTF-8 after its 3 first bytes"; empty for UTF-8.
std::string utf8_fault(std::string_view text);

/// "the class is not UTF-8 after its 3 first bytes"; empty for UTF-8. A run keeps its classes as JSON,
/// which holds nothing else.
std::string class_fault(std::string_view name);

/// What stands behind a byte order mark, where there is one.
std::string_view without_utf8_mark(std::string_view text);

}  // namespace muster::formats
