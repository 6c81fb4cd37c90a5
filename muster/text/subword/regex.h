// A pattern of a tokenizer file, by PCRE2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::text {

struct Match {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool found = true;  ///< false: what lies between two matches
};

/// Compiled once, matched from any thread.
class Regex {
 public:
  /// `where` stands in the environment error that a pattern gets that PCRE2 does not know.
  Regex(const std::string& pattern, const std::string& where);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// Puts the matches within [begin, end) of `text` and what lies between them into `out`, one after
  /// the other without gaps; an empty match is left out. Throws an environment error when a match
  /// would take too long.
  void matches(std::string_view text, uint32_t begin, uint32_t end, std::vector<Match>& out) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

/// The pattern that matches `text` itself.
std::string literal_pattern(std::string_view text);

}  // namespace muster::text
