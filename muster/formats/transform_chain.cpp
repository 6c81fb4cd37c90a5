#include "muster/formats/transform_chain.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::formats {
namespace {

/// Of the ) that belongs to the ( at `open`, or npos.
size_t closing(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')' && --depth == 0) return at;
  }
  return std::string_view::npos;
}

class ChainReader {
 public:
  explicit ChainReader(std::string_view whole) : whole_(whole) {}

  /// `depth`: parentheses around this text.
  std::vector<ChainStep> steps(std::string_view text, int depth) const {
    if (depth > kMaxChainDepth)
      refuse(concat("steps stand at most ", kMaxChainDepth, " deep in each other"));
    std::vector<ChainStep> steps;
    for (const std::string_view part : parts(text)) steps.push_back(step(trim(part), depth));
    return steps;
  }

 private:
  [[noreturn]] void refuse(std::string rule) const {
    throw usage_error({.refused = "chain of transforms",
                       .rule = std::move(rule),
                       .value = concat('"', whole_, '"')});
  }

  /// At bars outside parentheses.
  std::vector<std::string_view> parts(std::string_view text) const {
    std::vector<std::string_view> parts;
    int open = 0;
    size_t from = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '(') ++open;
      if (text[at] == ')' && --open < 0) break;
      if (text[at] != '|' || open > 0) continue;
      parts.push_back(text.substr(from, at - from));
      from = at + 1;
    }
    if (open != 0) refuse("each ( has its ), and each ) its (");
    parts.push_back(text.substr(from));
    return parts;
  }

  ChainStep step(std::string_view text, int depth) const {
    const size_t open = text.find('(');
    ChainStep step;
    std::string rest(text);
    if (open < text.find(':')) {
      const size_t close = closing(text, open);
      const std::string_view behind = trim(text.substr(close + 1));
      if (!behind.empty() && behind.front() != ':')
        refuse("behind steps in parentheses stands :key=value,… or |");
      step.inside = steps(text.substr(open + 1, close - open - 1), depth + 1);
      rest = concat(text.substr(0, open), behind);
    }
    if (rest.find_first_of("()") != std::string::npos)
      refuse("parentheses hold steps, right behind a name");
    Spec spec = parse_spec(rest);
    step.name = trim(spec.name);
    step.params = std::move(spec.params);
    if (step.name.empty())
      refuse("each step is name:key=value,… or name(step|step):key=value,…, with | between two");
    return step;
  }

  std::string_view whole_;
};

}  // namespace

std::vector<ChainStep> parse_transform_chain(std::string_view text) {
  if (trim(text).empty()) return {};
  return ChainReader(text).steps(text, 0);
}

}  // namespace muster::formats
