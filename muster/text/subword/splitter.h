// Words as GPT-2 splits them, by hand: a pattern's matcher would take most of the time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/text/subword/aligned_text.h"

namespace muster::text {

/// Parts `piece` of `text`, without gaps, at the matches of
/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
void split_as_gpt2(std::string_view text, const Piece& piece, std::vector<Piece>& out);

}  // namespace muster::text
