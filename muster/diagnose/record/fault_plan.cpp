#include "muster/diagnose/record/fault_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

constexpr std::pair<std::string_view, FaultAction> kActions[] = {{"kill", FaultAction::kKill},
                                                                 {"stop", FaultAction::kStop},
                                                                 {"throw", FaultAction::kThrow},
                                                                 {"delay", FaultAction::kDelay},
                                                                 {"skip", FaultAction::kSkip},
                                                                 {"reorder", FaultAction::kReorder},
                                                                 {"nan", FaultAction::kNan}};
constexpr auto kLongestDelay = std::chrono::hours(24);

/// One rule's text, for errors.
class RuleParser {
 public:
  explicit RuleParser(std::string_view text) : text_(trim(text)) {}

  FaultRule parse() {
    const size_t at = text_.find('@');
    action(trim(text_.substr(0, at)));
    if (at == std::string_view::npos) return rule_;
    for (const std::string& condition_text : split(text_.substr(at + 1), ','))
      condition(trim(condition_text));
    require_input();
    return rule_;
  }

 private:
  [[noreturn]] void refuse_fault(std::string what, std::string rule, std::string hint = "") const {
    throw usage_error({.refused = concat("fault \"", text_, "\": ", what),
                       .rule = std::move(rule),
                       .hint = std::move(hint)});
  }

  /// A rule that could never strike is a mistake.
  void require_input() const {
    if (rule_.action != FaultAction::kNan || !rule_.op) return;
    for (const OpKind kind : {OpKind::kRecv, OpKind::kRecvAny, OpKind::kBarrier})
      if (*rule_.op == kind)
        refuse_fault(concat("nan with op=", op_name(kind)),
                     "it stands in the inputs of a call, and this one has none",
                     kind == OpKind::kBarrier ? "" : "take op=send, on the rank that sends");
  }

  void action(std::string_view word) {
    const size_t equals = word.find('=');
    const std::string_view name = trim(word.substr(0, equals));
    const auto row = std::find_if(std::begin(kActions), std::end(kActions), [&](const auto& known) {
      return known.first == name;
    });
    if (row == std::end(kActions)) {
      std::vector<std::string> names;
      for (const auto& known : kActions) names.emplace_back(known.first);
      refuse_fault(concat("unknown action \"", name, "\""), "", suggestion(name, names));
    }
    rule_.action = row->second;
    const bool has_value = equals != std::string_view::npos;
    if (has_value != (rule_.action == FaultAction::kDelay))
      refuse_fault(concat(name, has_value ? " with a value" : " without a value"),
                   "delay alone has a value, its duration: delay=200ms");
    if (has_value) rule_.delay = duration(trim(word.substr(equals + 1)));
  }

  std::chrono::milliseconds duration(std::string_view word) const {
    constexpr std::pair<std::string_view, double> kUnits[] = {{"ms", 1}, {"s", 1e3}, {"m", 6e4}};
    for (const auto& [unit, milliseconds] : kUnits) {
      if (!word.ends_with(unit)) continue;
      const auto value = to_double(word.substr(0, word.size() - unit.size()));
      const double limit = static_cast<double>(std::chrono::milliseconds(kLongestDelay).count());
      if (value && *value >= 0 && *value * milliseconds <= limit)
        return std::chrono::milliseconds(std::llround(*value * milliseconds));
      break;
    }
    refuse_fault(concat("duration \"", word, "\""),
                 "a number and ms, s or m, up to a day: 200ms, 1.5s");
  }

  void condition(std::string_view word) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos)
      refuse_fault(concat("condition \"", word, "\""), "conditions read key=value, between commas");
    const std::string_view key = trim(word.substr(0, equals)),
                           value = trim(word.substr(equals + 1));
    if (key == "op") return op(value);
    constexpr std::pair<std::string_view, int64_t> kLeast[] = {{"rank", 0}, {"at", 1}, {"step", 0}};
    std::optional<int64_t>* const places[] = {&rule_.rank, &rule_.at, &rule_.step};
    for (size_t i = 0; i < std::size(kLeast); ++i) {
      if (kLeast[i].first != key) continue;
      const auto number = to_int(value);
      if (!number || *number < kLeast[i].second)
        refuse_fault(concat(key, "=", value), concat(key, " is a number from ", kLeast[i].second));
      if (*places[i]) refuse_fault(concat(key, " is given twice"), "");
      *places[i] = number;
      return;
    }
    refuse_fault(concat("unknown condition \"", key, "\""),
                 "",
                 suggestion(key, std::array<std::string, 4>{"rank", "op", "at", "step"}));
  }

  void op(std::string_view value) {
    if (rule_.op) refuse_fault("op is given twice", "");
    rule_.op = op_kind(value);
    if (rule_.op) return;
    std::vector<std::string> names;
    for (size_t i = 0; i < kOpKinds; ++i) names.emplace_back(op_name(static_cast<OpKind>(i)));
    refuse_fault(concat("unknown operation \"", value, "\""), "", suggestion(value, names));
  }

  std::string_view text_;
  FaultRule rule_;
};

}  // namespace

FaultPlan parse_fault_plan(std::string_view text) {
  FaultPlan plan;
  while (true) {
    const size_t end = text.find_first_of(";\n");
    const std::string_view rule = trim(text.substr(0, end));
    if (!rule.empty()) plan.push_back(RuleParser(rule).parse());
    if (end == std::string_view::npos) return plan;
    text.remove_prefix(end + 1);
  }
}

std::string fault_plan_text(const FaultPlan& plan) {
  std::vector<std::string> rules;
  for (const FaultRule& rule : plan) {
    std::string text;
    for (const auto& [name, action] : kActions) {
      if (action == rule.action) text = name;
    }
    if (rule.action == FaultAction::kDelay) text += concat("=", rule.delay.count(), "ms");
    std::vector<std::string> conditions;
    if (rule.rank) conditions.push_back(concat("rank=", *rule.rank));
    if (rule.op) conditions.push_back(concat("op=", op_name(*rule.op)));
    if (rule.at) conditions.push_back(concat("at=", *rule.at));
    if (rule.step) conditions.push_back(concat("step=", *rule.step));
    if (!conditions.empty()) text += "@" + join(conditions, ",");
    rules.push_back(text);
  }
  return join(rules, "; ");
}

}  // namespace muster::diagnose
