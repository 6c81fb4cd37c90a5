#include "muster/distributed/monitor/verdict.h"

#include <cstdint>
#include <optional>

#include "muster/base/text.h"

namespace muster::distributed {
namespace {

using Kind = diagnose::Diagnosis::Kind;

/// "2 0 3": the kind, then culprits.
bool read_numbers(const std::string& line, Verdict& verdict) {
  const std::vector<std::string> words = split(line, ' ');
  const auto kind = to_int(words.at(0));
  if (!kind || *kind < 0 || *kind > static_cast<int>(Kind::kUnknown)) return false;
  verdict.kind = static_cast<Kind>(*kind);
  for (size_t i = 1; i < words.size(); ++i) {
    const auto rank = to_int(words[i]);
    if (!rank || *rank < 0 || *rank > INT32_MAX) return false;
    verdict.culprits.push_back(static_cast<int>(*rank));
  }
  return true;
}

}  // namespace

std::string verdict_text(const Verdict& verdict) {
  std::string text = concat(verdict.text, '\n', verdict.hint, '\n', static_cast<int>(verdict.kind));
  for (const int rank : verdict.culprits) text += concat(' ', rank);
  return text;
}

Verdict verdict_from(const std::string& text) {
  const Verdict words{.text = text, .hint = {}, .culprits = {}};
  const size_t last = text.rfind('\n');
  if (last == std::string::npos || last == 0) return words;
  const size_t hint = text.rfind('\n', last - 1);
  Verdict verdict;
  if (hint == std::string::npos || !read_numbers(text.substr(last + 1), verdict)) return words;
  verdict.text = text.substr(0, hint);
  verdict.hint = text.substr(hint + 1, last - hint - 1);
  return verdict;
}

}  // namespace muster::distributed
