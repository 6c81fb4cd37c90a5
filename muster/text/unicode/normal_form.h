// The parts of Unicode's normal forms, code point by code point: what a form does to a text is in
// subword/aligned_text.h, where offsets follow it.
#pragma once

#include <array>
#include <cstddef>

namespace muster::text {

/// U+FDFA has the longest: 18.
using Decomposition = std::array<char32_t, 24>;

/// The full decomposition of `c`, canonical or by compatibility: how many code points it has, of
/// which the first of `out` are. `c` itself if it has none. Not yet in canonical order with its
/// neighbours. Source: UAX 15.
size_t decompose(char32_t c, bool by_compatibility, Decomposition& out);

/// Canonical_Combining_Class.
int combining_class(char32_t c);

/// The primary composite of the two, or 0.
char32_t compose(char32_t first, char32_t second);

}  // namespace muster::text
