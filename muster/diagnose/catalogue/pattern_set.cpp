#include "muster/diagnose/catalogue/pattern_set.h"

#include <algorithm>

#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

/// Whether `text`, found at `at`, cuts no number of the line.
bool is_whole(std::string_view line, size_t at, std::string_view text) {
  const size_t end = at + text.size(), size = text.size();
  const bool begins = size > 1 && is_digit(text[0]) && is_digit(text[1]);
  const bool ends = size > 1 && is_digit(text[size - 1]) && is_digit(text[size - 2]);
  return !(begins && at > 0 && is_digit(line[at - 1])) &&
         !(ends && end < line.size() && is_digit(line[end]));
}

}  // namespace

size_t PatternSet::add(std::string_view pattern) {
  Parts parts;
  for (std::string& text : split(small_letters(pattern), '*')) {
    const uint32_t fragment = finder_.add(text);
    if (with_fragment_.size() <= fragment) with_fragment_.resize(fragment + 1);
    if (std::ranges::find(parts.fragments, fragment) == parts.fragments.end()) {
      parts.fragments.push_back(fragment);
      with_fragment_[fragment].push_back(patterns_.size());
    }
    parts.has_number =
        parts.has_number || (!text.empty() && (is_digit(text.front()) || is_digit(text.back())));
    parts.texts.push_back(std::move(text));
  }
  patterns_.push_back(std::move(parts));
  return patterns_.size() - 1;
}

bool PatternSet::in_order(const Parts& pattern, std::string_view small) const {
  size_t from = 0;
  for (const std::string& text : pattern.texts) {
    size_t found = small.find(text, from);
    while (found != std::string_view::npos && !is_whole(small, found, text))
      found = small.find(text, found + 1);
    if (found == std::string_view::npos) return false;
    from = found + text.size();
  }
  return true;
}

const std::vector<size_t>& PatternSet::fitting(std::string_view line) {
  fitting_.clear();
  const std::vector<uint32_t>& found = finder_.find(line);
  if (found.empty()) return fitting_;
  begun_.clear();
  for (const uint32_t fragment : found) {
    for (const size_t pattern : with_fragment_[fragment]) {
      if (patterns_[pattern].seen++ == 0) begun_.push_back(pattern);
    }
  }
  std::string small;
  for (const size_t pattern : begun_) {
    const bool all = patterns_[pattern].seen == patterns_[pattern].fragments.size();
    patterns_[pattern].seen = 0;
    if (!all) continue;
    if (patterns_[pattern].texts.size() > 1 || patterns_[pattern].has_number) {
      if (small.empty()) small = small_letters(line);
      if (!in_order(patterns_[pattern], small)) continue;
    }
    fitting_.push_back(pattern);
  }
  std::ranges::sort(fitting_);
  return fitting_;
}

}  // namespace muster::diagnose
