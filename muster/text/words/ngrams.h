// Runs of neighbouring words as words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::text {

/// The words, then all runs of two of them joined by a blank, then of three, up to `most`: what
/// torchtext.data.utils.ngrams_iterator gives. Throws a usage error if `most` is less than 1.
std::vector<std::string> ngrams(std::span<const std::string> words, int64_t most);
std::vector<std::string> ngrams(std::span<const std::string_view> words, int64_t most);

}  // namespace muster::text
