#include "muster/diagnose/log/log_tail.h"

#include <algorithm>
#include <set>

#include "muster/diagnose/log/likeness.h"
#include "muster/diagnose/log/line_text.h"
#include "muster/diagnose/log/message_words.h"

namespace muster::diagnose {

void LogTail::add(std::string_view source,
                  int64_t line,
                  std::optional<int64_t> rank,
                  std::string_view text) {
  Line& kept = lines_[count_++ % kLines];
  kept.source = source;
  kept.text = text.substr(0, kMostBytes);
  kept.number = line;
  kept.rank = rank;
}

std::optional<LogTail::Guess> LogTail::guess() const {
  constexpr double kLeastProbability = 0.25;  // among eighty rows
  constexpr int kFewestWords = 5;             // what few words say is chance
  const size_t used = std::min(count_, kLines);
  std::set<std::string> words;
  for (size_t at = 0; at < used; ++at) add_message_words(lines_[at].text, words);
  const Likeness likest = likeliest_row(words);
  if (likest.row == "none" || likest.known_words < kFewestWords ||
      likest.probability < kLeastProbability)
    return std::nullopt;
  const auto likeness = [&](const Line& line) { return likeness_of_line(line.text, likest.row); };
  const Line& best = *std::ranges::max_element(
      lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(used), {}, likeness);
  const auto said_by = line_prefix(best.text).rank;
  return Guess{.row = std::string(likest.row),
               .line = {.source = best.source,
                        .line = best.number,
                        .rank = said_by ? said_by : best.rank,
                        .text = shown_text(best.text)}};
}

std::vector<SeenRow> with_guess(std::vector<SeenRow> seen, const LogTail::Guess& guess) {
  const ErrorRow* row = find_error_row(guess.row);
  // What was seen of it has been judged: it is a warning, or has passed.
  if (row == nullptr || std::ranges::find(seen, row, &SeenRow::row) != seen.end()) return seen;
  seen.push_back({.row = row,
                  .count = 1,
                  .depth = std::max(Depth::kGuess, row->depth),
                  .only_warnings = false,
                  .by_likeness = true,
                  .without_rank = true,
                  .evidence = {guess.line},
                  .cause_holds = std::vector<bool>(row->causes.size())});
  return seen;
}

}  // namespace muster::diagnose
