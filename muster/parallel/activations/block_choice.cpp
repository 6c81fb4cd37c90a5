#include "muster/parallel/activations/block_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

/// What a way through the first blocks has come to.
struct Way {
  int64_t kept = 0;  ///< bytes that these blocks keep, but for
  int64_t last = 0;  ///< the last one's output, which may be the next one's input
  int64_t peak = 0;  ///< and have while backward is at one of them
  double cost = 0;
  std::vector<bool> again;

  bool last_is_plain() const { return !again.empty() && !again.back(); }
};

bool keeps_input(std::span<const BlockBytes> blocks, size_t i, bool again, bool after_plain) {
  return again || blocks[i].saves_input || (after_plain && blocks[i - 1].saves_output);
}

/// One block more.
Way longer(const Way& way, std::span<const BlockBytes> blocks, bool again) {
  const size_t i = way.again.size();
  const BlockBytes& block = blocks[i];
  Way next = way;
  if (keeps_input(blocks, i, again, way.last_is_plain())) next.kept += block.input;
  next.peak = std::max(way.peak, next.kept + block.inner + (block.saves_output ? block.output : 0));
  if (!again) next.kept += block.inner;
  if (again) next.cost += block.cost;
  next.last = !again && block.saves_output ? block.output : 0;
  next.again.push_back(again);
  return next;
}

/// What there is of all micro-batches.
int64_t bytes_of(const Way& way, int64_t in_flight) {
  return way.peak + (in_flight - 1) * (way.kept + way.last);
}

bool is_better(const Way& a, const Way& b) {
  return std::tuple(a.cost, a.kept, a.peak) < std::tuple(b.cost, b.kept, b.peak);
}

/// Leaves out ways that another one with the same last block beats in cost and in bytes. With one
/// micro-batch a peak within the budget is as good as a lower one; with several it is not.
void keep_the_best(std::vector<Way>& ways, int64_t in_flight) {
  std::sort(ways.begin(), ways.end(), is_better);
  std::vector<Way> kept;
  std::array<std::map<int64_t, int64_t>, 2> seen;  // peaks by bytes kept: less with more of these
  for (Way& way : ways) {
    std::map<int64_t, int64_t>& fronts = seen[way.last_is_plain() ? 1 : 0];
    const int64_t peak = in_flight > 1 ? way.peak : 0;
    auto behind = fronts.upper_bound(way.kept);
    if (behind != fronts.begin() && std::prev(behind)->second <= peak) continue;
    while (behind != fronts.end() && behind->second >= peak) behind = fronts.erase(behind);
    fronts[way.kept] = peak;
    kept.push_back(std::move(way));
  }
  ways = std::move(kept);
}

// Above so many ways, bytes are rounded up to this share of the budget: what is chosen fits, but a
// way that fits by less may be overlooked. Blocks of a few kinds have far fewer.
constexpr size_t kMostWays = 20'000;

void round_up(std::vector<Way>& ways, int64_t budget_bytes, int64_t in_flight) {
  const int64_t unit = std::max<int64_t>(1, budget_bytes / 4096 / in_flight);
  const auto up = [unit](int64_t& bytes) { bytes = (bytes + unit - 1) / unit * unit; };
  for (Way& way : ways) {
    up(way.kept);
    if (in_flight > 1) up(way.peak);
  }
  keep_the_best(ways, in_flight);
}

[[noreturn]] void refuse_rule(std::string_view text, std::string_view flag) {
  std::string rule = "off, blocks, every:K or budget:BYTES, K and BYTES at least 1";
  if (text.find("offload") != std::string_view::npos)
    rule += "; behind a pipeline's budget offload=off or offload=BYTES, at least 1";
  throw usage_error({.refused = std::string(flag),
                     .rule = rule,
                     .value = std::string(text),
                     .hint = text.find("::") != std::string_view::npos
                                 ? "one colon: budget:512MiB, for one"
                                 : "budget:512MiB, for one; KiB, MiB and GiB may stand behind a "
                                   "number"});
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

/// BYTES, BYTES/BYTES/…, and ",offload=…" behind them.
std::optional<BlockRule> budget_of(std::string_view text) {
  constexpr std::string_view kOffload = ",offload=";
  BlockRule rule{.kind = BlockRule::Kind::kBudget};
  if (const size_t comma = text.find(kOffload); comma != std::string_view::npos) {
    const std::string_view rate = text.substr(comma + kOffload.size());
    rule.offload_bytes_per_s = rate == "off" ? std::optional<int64_t>(0) : bytes_of(rate);
    if (!rule.offload_bytes_per_s) return std::nullopt;
    text = text.substr(0, comma);
  }
  for (const std::string& part : split(text, '/')) {
    const auto bytes = bytes_of(part);
    if (!bytes) return std::nullopt;
    rule.stage_budgets.push_back(*bytes);
    rule.budget_bytes += *bytes;
  }
  if (rule.stage_budgets.size() == 1) rule.stage_budgets.clear();
  return rule;
}

}  // namespace

int64_t peak_bytes(std::span<const BlockBytes> blocks,
                   const std::vector<bool>& again,
                   int64_t in_flight) {
  Way way;
  for (size_t i = 0; i < blocks.size(); ++i) way = longer(way, blocks, again[i]);
  return bytes_of(way, in_flight);
}

std::optional<std::vector<bool>> cheapest_choice(std::span<const BlockBytes> blocks,
                                                 int64_t budget_bytes,
                                                 int64_t in_flight) {
  std::vector<Way> ways(1);
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::vector<Way> next;
    for (const Way& way : ways) {
      for (const bool again : {false, true}) {
        Way more = longer(way, blocks, again);
        if (bytes_of(more, in_flight) <= budget_bytes) next.push_back(std::move(more));
      }
    }
    keep_the_best(next, in_flight);
    if (next.size() > kMostWays) round_up(next, budget_bytes, in_flight);
    ways = std::move(next);
  }
  if (ways.empty()) return std::nullopt;
  return std::min_element(ways.begin(), ways.end(), is_better)->again;
}

int64_t least_budget(int64_t enough, const std::function<bool(int64_t bytes)>& is_within) {
  int64_t too_small = -1;
  while (enough - too_small > 1) {
    const int64_t between = too_small + (enough - too_small) / 2;
    (is_within(between) ? enough : too_small) = between;
  }
  return enough;
}

int64_t least_budget(std::span<const BlockBytes> blocks, int64_t in_flight) {
  return least_budget(
      peak_bytes(blocks, std::vector<bool>(blocks.size(), true), in_flight),
      [&](int64_t bytes) { return cheapest_choice(blocks, bytes, in_flight).has_value(); });
}

BlockRule parse_block_rule(std::string_view text, std::string_view flag) {
  if (text == "off") return {};
  if (text == "blocks") return {.kind = BlockRule::Kind::kEvery};
  if (text.starts_with("every:")) {
    const auto every = to_int(text.substr(6));
    if (every && *every >= 1) return {.kind = BlockRule::Kind::kEvery, .every = *every};
  }
  if (text.starts_with("budget:")) {
    if (auto rule = budget_of(text.substr(7))) return *rule;
  }
  refuse_rule(text, flag);
}

std::vector<bool> blocks_by_rule(const BlockRule& rule,
                                 std::span<const BlockBytes> blocks,
                                 int64_t in_flight,
                                 int64_t beside_bytes) {
  std::vector<bool> again(blocks.size());
  if (rule.kind == BlockRule::Kind::kEvery) {
    for (size_t i = 0; i < again.size(); ++i)
      again[i] = (static_cast<int64_t>(i) + 1) % rule.every == 0;
  }
  if (rule.kind != BlockRule::Kind::kBudget) return again;
  const int64_t left = std::max<int64_t>(0, rule.budget_bytes - beside_bytes);
  if (auto choice = cheapest_choice(blocks, left, in_flight)) return *choice;
  const int64_t least = least_budget(blocks, in_flight);
  const auto choice = cheapest_choice(blocks, least, in_flight);
  const auto run_again = choice ? std::ranges::count(*choice, true) : std::ssize(blocks);
  throw usage_error(
      {.refused = concat("activations of ", blocks.size(), " blocks within a budget"),
       .rule = concat("they need ",
                      least + beside_bytes,
                      " bytes at least, with ",
                      run_again,
                      " of ",
                      blocks.size(),
                      " blocks run again"),
       .value = human_bytes(static_cast<uint64_t>(rule.budget_bytes)),
       .hint = concat("take budget:", least + beside_bytes, " or more, or a smaller batch")});
}

}  // namespace muster::parallel
