// Text from outside, made fit for formats that hold UTF-8 only.
#pragma once

#include <string>
#include <string_view>

namespace muster::track {

/// `text` with every byte that belongs to no code point of valid UTF-8 (RFC 3629: no surrogates,
/// no overlong form, nothing above U+10FFFF) replaced by U+FFFD. Pure; any thread.
std::string to_utf8(std::string_view text);

/// `text` as XML or HTML text or attribute value: to_utf8, & < > " ' as references, and control
/// characters, which XML 1.0 cannot hold, as U+FFFD; tab and line ends stay. Pure; any thread.
std::string escape_xml(std::string_view text);

}  // namespace muster::track
