#include "muster/text/words/ngrams.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::text {
namespace {

template <class Word>
std::vector<std::string> runs_of(std::span<const Word> words, int64_t most) {
  if (most < 1) {
    throw usage_error({.refused = "n-grams of a text",
                       .rule = "the longest run has at least 1 word",
                       .value = std::to_string(most)});
  }
  std::vector<std::string> out(words.begin(), words.end());
  const size_t longest = std::min(static_cast<size_t>(most), words.size());
  for (size_t length = 2; length <= longest; ++length) {
    for (size_t first = 0; first + length <= words.size(); ++first) {
      std::string run(words[first]);
      for (size_t i = first + 1; i < first + length; ++i) (run += ' ') += words[i];
      out.push_back(std::move(run));
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> ngrams(std::span<const std::string> words, int64_t most) {
  return runs_of(words, most);
}

std::vector<std::string> ngrams(std::span<const std::string_view> words, int64_t most) {
  return runs_of(words, most);
}

}  // namespace muster::text
