#include "cli/watch/trial_columns.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::cli {
namespace {

std::string five_digits(double value) {
  if (std::isnan(value)) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

std::string cell_of(const tune::Value& value) {
  return value.is_double() ? five_digits(value.as_double()) : tune::value_text(value);
}

/// Only ASCII: names of columns and states.
std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string reason_of(const tune::TrialHistory& trial) {
  if (trial.pausing) return "to be paused at its next report";
  return tune::reason_text(trial);
}

const TrialColumn& column_named(const std::vector<TrialColumn>& columns, const std::string& name) {
  std::vector<std::string> names;
  for (const TrialColumn& column : columns) {
    if (lower(column.name) == lower(name)) return column;
    names.push_back(column.name);
  }
  throw usage_error(
      {.refused = concat("no column \"", name, '"'), .hint = suggestion(name, names)});
}

}  // namespace

std::vector<TrialColumn> trial_columns(const WatchedStudy& study) {
  using Kind = TrialColumn::Kind;
  std::vector<TrialColumn> columns = {{Kind::kNumber, "trial"}, {Kind::kState, "state"}};
  const std::vector<tune::Objective> objectives = objectives_of(study.facts());
  for (size_t i = 0; i < objectives.size(); ++i)
    columns.push_back({Kind::kResult, objectives[i].metric, i});
  columns.push_back({Kind::kStep, "step"});
  columns.push_back({Kind::kTime, "time"});
  for (size_t i = 0; i < study.facts().parameters.size(); ++i)
    columns.push_back({Kind::kParameter, study.facts().parameters[i].name, i});
  columns.push_back({Kind::kAttempts, "attempts"});
  columns.push_back({Kind::kBest, "best"});
  columns.push_back({Kind::kReason, "reason"});
  return columns;
}

std::string cell_text(const WatchedStudy& study,
                      size_t index,
                      const TrialColumn& column,
                      double now_s) {
  const tune::TrialHistory& trial = study.history(index);
  switch (column.kind) {
    case TrialColumn::kNumber:
      return trial_label(trial);
    case TrialColumn::kState:
      return std::string(state_word(trial));
    case TrialColumn::kResult:
      return five_digits(study.result(index, column.place));
    case TrialColumn::kBest:
      return five_digits(trial.best);
    case TrialColumn::kStep:
      return study.trial(index).reports == 0 ? "" : std::to_string(study.trial(index).t);
    case TrialColumn::kTime: {
      const double run_s = study.run_s(index, now_s);
      return run_s > 0 ? human_duration(run_s) : "";
    }
    case TrialColumn::kAttempts:
      return std::to_string(trial.attempts);
    case TrialColumn::kParameter:
      return column.place < trial.values.size() ? cell_of(trial.values[column.place]) : "";
    case TrialColumn::kReason:
      return reason_of(trial);
  }
  return "";
}

std::optional<double> cell_number(const WatchedStudy& study,
                                  size_t index,
                                  const TrialColumn& column,
                                  double now_s) {
  const tune::TrialHistory& trial = study.history(index);
  const auto finite = [](double value) -> std::optional<double> {
    return std::isnan(value) ? std::nullopt : std::optional(value);
  };
  switch (column.kind) {
    case TrialColumn::kNumber:
      return static_cast<double>(trial.number);
    case TrialColumn::kResult:
      return finite(study.result(index, column.place));
    case TrialColumn::kBest:
      return finite(trial.best);
    case TrialColumn::kStep:
      if (study.trial(index).reports == 0) return std::nullopt;
      return static_cast<double>(study.trial(index).t);
    case TrialColumn::kTime:
      return study.run_s(index, now_s);
    case TrialColumn::kAttempts:
      return trial.attempts;
    case TrialColumn::kParameter:
      if (column.place < trial.values.size() && trial.values[column.place].is_number())
        return finite(trial.values[column.place].as_double());
      return std::nullopt;
    case TrialColumn::kState:
    case TrialColumn::kReason:
      return std::nullopt;
  }
  return std::nullopt;
}

void sort_trials(const WatchedStudy& study,
                 const TrialColumn& column,
                 bool reversed,
                 double now_s,
                 std::vector<size_t>& indices) {
  struct Key {
    std::optional<double> number;
    std::string text;  // where there is no number
    size_t index;
  };
  std::vector<Key> keys;
  keys.reserve(indices.size());
  for (const size_t index : indices) {
    Key key{cell_number(study, index, column, now_s), "", index};
    if (!key.number) key.text = cell_text(study, index, column, now_s);
    keys.push_back(std::move(key));
  }
  // Numbers, then texts, then nothing; only the first two turn round.
  const auto rank = [](const Key& key) { return key.number ? 0 : key.text.empty() ? 2 : 1; };
  std::ranges::sort(keys, [&](const Key& a, const Key& b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    const Key& first = reversed ? b : a;
    const Key& second = reversed ? a : b;
    if (a.number && *a.number != *b.number) return *first.number < *second.number;
    if (!a.number && a.text != b.text) return first.text < second.text;
    return a.index < b.index;
  });
  for (size_t i = 0; i < keys.size(); ++i) indices[i] = keys[i].index;
}

// ---- Filters ----

TrialFilter::TrialFilter(const WatchedStudy& study, std::string_view text)
    : columns_(trial_columns(study)) {
  for (const std::string& word : split(text, ' ')) {
    if (!word.empty()) words_.push_back(word_of(columns_, word));
  }
}

TrialFilter::Word TrialFilter::word_of(const std::vector<TrialColumn>& columns,
                                       const std::string& text) {
  constexpr std::pair<std::string_view, Word::Kind> kOperators[] = {{"<=", Word::kLessEqual},
                                                                    {">=", Word::kGreaterEqual},
                                                                    {"<", Word::kLess},
                                                                    {">", Word::kGreater},
                                                                    {"=", Word::kEqual},
                                                                    {":", Word::kWithin}};
  const size_t at = text.find_first_of("<>=:");
  if (at == std::string::npos || at == 0) return {.kind = Word::kAnywhere, .text = lower(text)};
  for (const auto& [sign, kind] : kOperators) {
    if (text.compare(at, sign.size(), sign) != 0) continue;
    Word word{.kind = kind, .column = column_named(columns, text.substr(0, at))};
    word.text = lower(std::string_view(text).substr(at + sign.size()));
    const auto number = to_double(word.text);
    word.is_number = number.has_value();
    word.number = number.value_or(0);
    if (!number && kind != Word::kEqual && kind != Word::kWithin) {
      throw usage_error({.refused = concat("\"", text, '"'),
                         .rule = concat("a number stands behind ", sign),
                         .hint = "lr<0.01 state:running"});
    }
    return word;
  }
  return {.kind = Word::kAnywhere, .text = lower(text)};
}

bool TrialFilter::holds(const WatchedStudy& study, size_t index, double now_s) const {
  return std::ranges::all_of(words_,
                             [&](const Word& word) { return holds(study, index, word, now_s); });
}

bool TrialFilter::holds(const WatchedStudy& study,
                        size_t index,
                        const Word& word,
                        double now_s) const {
  const auto within = [&](const TrialColumn& column) {
    const std::string text = lower(cell_text(study, index, column, now_s));
    // "run" is within "pruned".
    if (column.kind == TrialColumn::kState) return text.starts_with(word.text);
    return text.find(word.text) != std::string::npos;
  };
  if (word.kind == Word::kAnywhere) {
    return std::ranges::any_of(columns_, [&](const TrialColumn& column) {
      return (column.kind == TrialColumn::kState || column.kind == TrialColumn::kParameter ||
              column.kind == TrialColumn::kReason) &&
             within(column);
    });
  }
  if (word.kind == Word::kWithin) return within(word.column);
  const auto number = cell_number(study, index, word.column, now_s);
  if (word.kind == Word::kEqual) {
    if (number && word.is_number) return *number == word.number;
    return lower(cell_text(study, index, word.column, now_s)) == word.text;
  }
  if (!number) return false;
  switch (word.kind) {
    case Word::kLess:
      return *number < word.number;
    case Word::kLessEqual:
      return *number <= word.number;
    case Word::kGreater:
      return *number > word.number;
    default:
      return *number >= word.number;
  }
}

}  // namespace muster::cli
