#include "muster/tune/schedule/hyperband/bracket_run.h"

#include <algorithm>

#include "muster/base/text.h"
#include "muster/tune/schedule/score_text.h"

namespace muster::tune {
namespace {

std::optional<BracketRun::Order> pop_order(std::deque<BracketRun::Order>& orders) {
  if (orders.empty()) return std::nullopt;
  BracketRun::Order order = std::move(orders.front());
  orders.pop_front();
  return order;
}

void drop_order(std::deque<BracketRun::Order>& orders, int64_t number) {
  std::erase_if(orders, [&](const auto& order) { return order.number == number; });
}

}  // namespace

BracketRun::BracketRun(HyperbandBracket plan, int64_t eta, Mode mode)
    : plan_(std::move(plan)), eta_(eta), mode_(mode) {}

void BracketRun::join(int64_t number) {
  members_.try_emplace(number);
  ++started_;
  if (started_ == plan_.trials) close();
}

void BracketRun::close() {
  closed_ = true;
  halve_if_due();
}

void BracketRun::pausing(int64_t number, int64_t t, double score) {
  members_.at(number) = {.t = t, .score = score};
}

void BracketRun::waits(int64_t number) {
  const auto member = members_.find(number);
  if (member == members_.end() || member->second.waits) return;
  member->second.waits = true;
  ++waiting_;
  halve_if_due();
}

void BracketRun::leave(int64_t number) {
  const auto member = members_.find(number);
  if (member == members_.end()) return drop_order(ends_, number);
  if (member->second.waits) --waiting_;
  members_.erase(member);
  drop_order(ups_, number);
  halve_if_due();
}

/// More than once where trials have passed the next rung already.
void BracketRun::halve_if_due() {
  while (closed_ && !members_.empty() && waiting_ == members_.size() && !is_last_rung()) halve();
}

void BracketRun::halve() {
  std::vector<Ranked> ranked;
  for (const auto& [number, member] : members_) ranked.push_back({number, member});
  std::ranges::sort(ranked, [](const Ranked& a, const Ranked& b) {
    return a.member.score != b.member.score ? a.member.score > b.member.score : a.number < b.number;
  });
  const std::string here = rung_text();
  const auto up =
      std::min(static_cast<size_t>(survivors(started_, eta_, static_cast<int64_t>(rung_) + 1)),
               ranked.size());
  for (size_t i = up; i < ranked.size(); ++i) {
    members_.erase(ranked[i].number);
    ends_.push_back(
        {.number = ranked[i].number,
         .reason =
             concat("stopped at ", here, ": ", end_text(ranked[i], ranked[up - 1], ranked.size())),
         .end = true});
  }
  ++rung_;
  waiting_ = 0;
  const std::string to = is_last_rung() ? concat("max_t ", rung()) : concat("rung ", rung());
  for (size_t i = 0; i < up; ++i) {
    Member& member = members_.at(ranked[i].number);
    member.waits = !is_last_rung() && member.t >= rung();  // it is there already
    if (member.waits) {
      ++waiting_;
      continue;
    }
    ups_.push_back(
        {.number = ranked[i].number,
         .reason = concat(
             "promoted to ", to, ": in the best ", up, " of ", ranked.size(), " at ", here)});
  }
}

std::string BracketRun::rung_text() const {
  return concat("rung ", rung(), " of bracket ", plan_.s);
}

std::string BracketRun::end_text(const Ranked& member, const Ranked& last_up, size_t n) const {
  const double score = member.member.score, cutoff = last_up.member.score;
  const std::string why =
      score < cutoff
          ? worse_than_text(score, cutoff, mode_)
          : concat(metric_text(score, mode_), ", as trial ", last_up.number, ", which came first");
  return concat(why, " (n=", n, ")");
}

std::optional<BracketRun::Order> BracketRun::take_end() { return pop_order(ends_); }
std::optional<BracketRun::Order> BracketRun::take_up() { return pop_order(ups_); }

std::string BracketRun::text() const {
  std::string text = concat("bracket ", plan_.s, ": ");
  if (!closed_) {
    text += concat(started_, " of ", plan_.trials, " started");
    if (waiting_ > 0) text += concat(", ", waiting_, " at rung ", rung());
    return text;
  }
  if (is_last_rung()) return text + concat(members_.size(), " on the way to max_t ", rung());
  return text + concat(waiting_, " of ", members_.size(), " at rung ", rung());
}

}  // namespace muster::tune
