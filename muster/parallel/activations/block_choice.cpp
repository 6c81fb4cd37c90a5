#include "muster/parallel/activations/block_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

/// What a way through the first blocks has come to.
struct Way {
  int64_t kept = 0;  ///< bytes that these blocks keep
  double cost = 0;
  std::vector<bool> again;

  bool last_is_plain() const { return !again.empty() && !again.back(); }
};

bool keeps_input(std::span<const BlockBytes> blocks, size_t i, bool again, bool after_plain) {
  return again || blocks[i].saves_input || (after_plain && blocks[i - 1].saves_output);
}

/// One block more. Sets `peak` to what there is while backward is at it.
Way longer(const Way& way, std::span<const BlockBytes> blocks, bool again, int64_t& peak) {
  const size_t i = way.again.size();
  const BlockBytes& block = blocks[i];
  Way next = way;
  if (keeps_input(blocks, i, again, way.last_is_plain())) next.kept += block.input;
  peak = next.kept + block.inner + (block.saves_output ? block.output : 0);
  if (!again) next.kept += block.inner;
  if (again) next.cost += block.cost;
  next.again.push_back(again);
  return next;
}

bool is_better(const Way& a, const Way& b) {
  return std::pair(a.cost, a.kept) < std::pair(b.cost, b.kept);
}

/// Leaves out ways that another one with the same last block beats in cost and in bytes.
void keep_the_best(std::vector<Way>& ways) {
  std::sort(ways.begin(), ways.end(), is_better);
  std::vector<Way> kept;
  std::array<std::optional<int64_t>, 2> least;
  for (Way& way : ways) {
    std::optional<int64_t>& seen = least[way.last_is_plain() ? 1 : 0];
    if (seen && *seen <= way.kept) continue;
    seen = way.kept;
    kept.push_back(std::move(way));
  }
  ways = std::move(kept);
}

// Above so many ways, bytes are rounded up to this share of the budget: what is chosen fits, but a
// way that fits by less may be overlooked. Blocks of a few kinds have far fewer.
constexpr size_t kMostWays = 20'000;

void round_up(std::vector<Way>& ways, int64_t budget_bytes) {
  const int64_t unit = std::max<int64_t>(1, budget_bytes / 4096);
  for (Way& way : ways) way.kept = (way.kept + unit - 1) / unit * unit;
  keep_the_best(ways);
}

[[noreturn]] void refuse_rule(std::string_view text, std::string_view flag) {
  throw usage_error({.refused = std::string(flag),
                     .rule = "off, blocks, every:K or budget:BYTES, K and BYTES at least 1",
                     .value = std::string(text),
                     .hint = "budget:512MiB, for one; KiB, MiB and GiB may stand behind a number"});
}

std::optional<int64_t> bytes_of(std::string_view text) {
  int64_t unit = 1;
  for (const auto& [name, factor] :
       {std::pair<std::string_view, int64_t>{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}) {
    if (!text.ends_with(name)) continue;
    text.remove_suffix(name.size());
    unit = factor;
    break;
  }
  const auto number = to_double(text);
  if (!number || !(*number > 0)) return std::nullopt;
  const double bytes = std::floor(*number * static_cast<double>(unit));
  if (bytes < 1 || bytes > 9e18) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace

int64_t peak_bytes(std::span<const BlockBytes> blocks, const std::vector<bool>& again) {
  int64_t most = 0;
  Way way;
  for (size_t i = 0; i < blocks.size(); ++i) {
    int64_t peak = 0;
    way = longer(way, blocks, again[i], peak);
    most = std::max(most, peak);
  }
  return most;
}

std::optional<std::vector<bool>> cheapest_choice(std::span<const BlockBytes> blocks,
                                                 int64_t budget_bytes) {
  std::vector<Way> ways(1);
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::vector<Way> next;
    for (const Way& way : ways) {
      for (const bool again : {false, true}) {
        int64_t peak = 0;
        Way more = longer(way, blocks, again, peak);
        if (peak <= budget_bytes) next.push_back(std::move(more));
      }
    }
    keep_the_best(next);
    if (next.size() > kMostWays) round_up(next, budget_bytes);
    ways = std::move(next);
  }
  if (ways.empty()) return std::nullopt;
  return std::min_element(ways.begin(), ways.end(), is_better)->again;
}

BlockRule parse_block_rule(std::string_view text, std::string_view flag) {
  if (text == "off") return {};
  if (text == "blocks") return {.kind = BlockRule::Kind::kEvery};
  if (text.starts_with("every:")) {
    const auto every = to_int(text.substr(6));
    if (every && *every >= 1) return {.kind = BlockRule::Kind::kEvery, .every = *every};
  }
  if (text.starts_with("budget:")) {
    const auto bytes = bytes_of(text.substr(7));
    if (bytes) return {.kind = BlockRule::Kind::kBudget, .budget_bytes = *bytes};
  }
  refuse_rule(text, flag);
}

std::vector<bool> blocks_by_rule(const BlockRule& rule, std::span<const BlockBytes> blocks) {
  std::vector<bool> again(blocks.size());
  if (rule.kind == BlockRule::Kind::kEvery) {
    for (size_t i = 0; i < again.size(); ++i)
      again[i] = (static_cast<int64_t>(i) + 1) % rule.every == 0;
  }
  if (rule.kind != BlockRule::Kind::kBudget) return again;
  if (auto choice = cheapest_choice(blocks, rule.budget_bytes)) return *choice;
  const std::vector<bool> all(blocks.size(), true);
  throw usage_error({.refused = concat("activations of ", blocks.size(), " blocks within a budget"),
                     .rule = concat("with every block checkpointed they need ",
                                    human_bytes(static_cast<uint64_t>(peak_bytes(blocks, all)))),
                     .value = human_bytes(static_cast<uint64_t>(rule.budget_bytes)),
                     .hint = "a larger budget, or a smaller batch"});
}

}  // namespace muster::parallel
