#include "cli/screen/said_once.h"

#include <algorithm>

#include "muster/base/text.h"

namespace muster::cli {
namespace {

/// An error is no longer than this; and no more of them are compared.
constexpr size_t kMostErrorLines = 64, kMostErrors = 64;

bool begins_error(std::string_view line) {
  return line.starts_with("error: ") || line.starts_with("{\"error\":") ||
         line.find(": error: ") != std::string_view::npos;
}

}  // namespace

bool SaidOnce::is_new(int64_t rank, std::string_view line) {
  if (const auto found = places_.find(rank); found != places_.end()) {
    Place& place = found->second;
    Said& said = all_[place.said];
    const bool is_end = place.line == said.lines.size();
    if (!is_end && said.lines[place.line] == line) return ++place.line, false;
    if (is_end && said.by == rank && !begins_error(line) && place.line < kMostErrorLines) {
      said.lines.emplace_back(line);
      return ++place.line, true;
    }
    places_.erase(found);
  }
  if (!begins_error(line)) return true;
  const auto same = std::ranges::find_if(
      all_, [&](const Said& said) { return said.by != rank && said.lines[0] == line; });
  if (same == all_.end() && all_.size() == kMostErrors) return true;
  places_[rank] = {.said = static_cast<size_t>(same - all_.begin()), .line = 1};
  if (same != all_.end()) return repeaters_.insert(rank), false;
  all_.push_back({.lines = {std::string(line)}, .by = rank});
  return true;
}

std::string SaidOnce::end_attempt() {
  std::vector<std::string> ranks;
  for (const int64_t rank : repeaters_) ranks.push_back(std::to_string(rank));
  *this = {};
  if (ranks.empty()) return "";
  return concat(ranks.size() == 1 ? "rank " : "ranks ", join(ranks, ", "), " said the same");
}

}  // namespace muster::cli
