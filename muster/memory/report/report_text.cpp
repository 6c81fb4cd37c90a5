#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/memory/report/report.h"

namespace muster::memory {
namespace {

constexpr size_t kNameColumns = 16, kBytesColumns = 10, kShareColumns = 6, kMostBars = 40;

std::string size_text(int64_t bytes) {
  return human_bytes(static_cast<uint64_t>(std::max<int64_t>(0, bytes)));
}

std::string left(std::string text, size_t columns) {
  const size_t width = columns_of(text);
  if (width < columns) text.append(columns - width, ' ');
  return text;
}

std::string right(const std::string& text, size_t columns) {
  const size_t width = columns_of(text);
  return (width < columns ? std::string(columns - width, ' ') : std::string()) + text;
}

std::string percent_text(int64_t part, int64_t whole) {
  if (whole <= 0) return "";
  return fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 0) + " %";
}

/// "  tensors           492 KiB  92 %  #####".
std::string bar_line(const std::string& name, int64_t bytes, int64_t whole, size_t width) {
  std::string line = "  " + left(name, kNameColumns) + right(size_text(bytes), kBytesColumns);
  if (whole <= 0) return line + "\n";
  line += right(percent_text(bytes, whole), kShareColumns + 1);
  const size_t used = columns_of(line) + 2;
  const size_t room = std::min(kMostBars, width > used ? width - used : 0);
  const double share =
      std::clamp(static_cast<double>(bytes) / static_cast<double>(whole), 0.0, 1.0);
  const auto bars = static_cast<size_t>(std::lround(share * static_cast<double>(room)));
  if (bars > 0) line += "  " + std::string(bars, '#');
  return line + "\n";
}

/// A word in the margin, and what it says, folded.
std::string entry(std::string_view word, const std::string& says, size_t width) {
  constexpr size_t kMargin = 8;
  const std::string folded = wrap(says, width > kMargin ? width - kMargin : 1);
  std::string text;
  for (const std::string& line : split(folded, '\n')) {
    if (line.empty()) continue;
    text += left(text.empty() ? std::string(word) : "", kMargin) + line + "\n";
  }
  return text;
}

std::string where_text(const OomFacts& facts) {
  return facts.rank < 0 ? facts.device : concat("rank ", facts.rank, ", ", facts.device);
}

std::string device_section(const OomFacts& facts, size_t width) {
  const int64_t whole = facts.cap.value_or(facts.total.value_or(0));
  std::string text = concat("\nmemory of ", facts.device);
  if (whole > 0) {
    text += concat(", ", size_text(whole));
    if (facts.cap && facts.cap_kind != CapKind::kDevice && facts.cap_kind != CapKind::kUnknown)
      text += concat(" (", cap_text(facts.cap_kind), ")");
  }
  text += facts.at_failure ? ", at the failure\n" : ", when the error was caught\n";
  const auto line = [&](const char* name, const std::optional<int64_t>& bytes) {
    if (bytes) text += bar_line(name, *bytes, whole, width);
  };
  line("tensors", facts.live);
  line("idle", facts.idle);
  if (facts.pending.value_or(0) > 0) line("  for a stream", facts.pending);
  if (facts.in_pools.value_or(0) > 0) line("  in pools", facts.in_pools);
  if (facts.idle.value_or(0) > 0) line("  largest block", facts.largest_idle);
  if (facts.cap_kind != CapKind::kFraction) {  // of which these take nothing
    line("outside tensors", facts.outside);
    line("other processes", facts.others);
  }
  line("free", facts.free);
  line("asked for", facts.asked);
  if (const auto share = facts.fragmentation())
    text += concat("  ",
                   left("fragmentation", kNameColumns),
                   right(fixed(*share, 2), kBytesColumns),
                   "  0: one block; 1: crumbs\n");
  return text;
}

std::string owner_section(const OomFacts& facts, size_t width) {
  if (!facts.by_owner) return "";
  std::vector<std::pair<int64_t, std::string>> rows;
  for (size_t i = 0; i < kOwners; ++i) {
    if (facts.owners[i] == 0) continue;
    const auto owner = static_cast<Owner>(i);
    const bool is_mixed = owner == Owner::kOther && facts.rest_is_mixed;
    rows.emplace_back(facts.owners[i], is_mixed ? "activations etc." : owner_text(owner));
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), &std::pair<int64_t, std::string>::first);
  std::string text = "\nwhose the tensors are\n";
  for (const auto& [bytes, name] : rows)
    text += bar_line(name, bytes, facts.live.value_or(0), width);
  return rows.empty() ? "" : text;
}

std::string maker_text(const Holder& holder) {
  std::string text;
  const auto add = [&text](const std::string& word) {
    if (word.empty()) return;
    if (!text.empty()) text += ", ";
    text += word;
  };
  add(holder.scope);
  add(holder.op);
  if (!holder.layer.empty()) add("layer " + holder.layer);
  return text.empty() ? "(outside of scopes)" : text;
}

std::string holder_section(const OomFacts& facts, size_t width, size_t most) {
  const bool says_something = std::ranges::any_of(facts.holders, [](const Holder& holder) {
    return !holder.scope.empty() || !holder.op.empty() || !holder.layer.empty();
  });
  if (!says_something) return "";
  std::string text = "\nwho made them: scope, operator, layer\n";
  constexpr size_t kBlocksColumns = 8;
  const size_t room = 2 + kBytesColumns + kBlocksColumns + 2 + kNameColumns + 1;
  for (size_t i = 0; i < std::min(most, facts.holders.size()); ++i) {
    const Holder& holder = facts.holders[i];
    text += concat("  ",
                   right(size_text(holder.bytes), kBytesColumns),
                   right(concat("x", holder.blocks), kBlocksColumns),
                   "  ",
                   left(owner_text(holder.owner), kNameColumns),
                   keep_tail(printable(maker_text(holder)), width > room ? width - room : 8),
                   "\n");
  }
  if (facts.holders.size() > most) {
    int64_t rest = 0;
    for (size_t i = most; i < facts.holders.size(); ++i) rest += facts.holders[i].bytes;
    text += concat("  ",
                   right(size_text(rest), kBytesColumns),
                   "  of ",
                   facts.holders.size() - most,
                   " more\n");
  }
  return text;
}

/// The program's name is in front.
std::string command_text(const std::string& command, size_t room) {
  std::string text = printable(command.empty() ? "?" : command);
  if (columns_of(text) <= room) return text;
  const std::string lines = fold(text, room - 3, 0);
  return first_line(lines) + "...";
}

std::string process_section(const OomFacts& facts, size_t width) {
  if (facts.processes.empty()) return "";
  std::string text = "\nother processes\n";
  for (const OtherProcess& process : facts.processes) {
    const std::string line = concat("  ",
                                    right(size_text(process.bytes), kBytesColumns),
                                    right(std::to_string(process.pid), 9),
                                    "  ",
                                    left(process.user, 10),
                                    "  ");
    const size_t used = columns_of(line);
    text += line + command_text(process.command, width > used + 8 ? width - used : 8) + "\n";
  }
  return text;
}

std::string iteration_section(const OomFacts& facts) {
  constexpr size_t kMostLines = 8;
  if (facts.iterations.empty()) return "";
  std::string text = "\nlast iterations        end       peak\n";
  const size_t first =
      facts.iterations.size() > kMostLines ? facts.iterations.size() - kMostLines : 0;
  for (size_t i = first; i < facts.iterations.size(); ++i) {
    const IterationEnd& one = facts.iterations[i];
    text += concat("  ",
                   right(std::to_string(one.iteration), 12),
                   right(size_text(one.end_bytes), 12),
                   one.peak_bytes > 0 ? right(size_text(one.peak_bytes), 11) : "",
                   "\n");
  }
  return text;
}

}  // namespace

std::string OomReport::headline() const {
  return concat(class_text(cause.kind), ": ", cause.because);
}

std::string OomReport::text(size_t width, size_t holders) const {
  std::string head = concat("out of memory on ", where_text(facts));
  if (facts.asked) head += concat(": ", size_text(*facts.asked), " asked for");
  if (facts.asked && facts.free) head += concat(", ", size_text(*facts.free), " free");
  std::string text = wrap(head, width) + "\n";
  text += entry("cause", headline(), width);
  text += entry("do", cause.todo, width);
  text += device_section(facts, width);
  text += owner_section(facts, width);
  text += holder_section(facts, width, holders);
  text += process_section(facts, width);
  text += iteration_section(facts);
  return text;
}

}  // namespace muster::memory
