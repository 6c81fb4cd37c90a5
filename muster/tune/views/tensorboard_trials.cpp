#include "muster/tune/views/tensorboard_trials.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/domain.h"

namespace muster::tune {
namespace {

using track::HParamDomain;
using track::TensorBoardWriter;
using Type = HParamDomain::Type;

constexpr size_t kBufferBytes = 1 << 16;

Type type_of(const Value& value) {
  if (value.is_bool()) return Type::kBool;
  return value.is_number() ? Type::kNumber : Type::kText;
}

track::HParamValue to_hparam(const Value& value, Type type) {
  if (type == Type::kBool && value.is_bool()) return value.as_bool();
  if (type == Type::kNumber && value.is_number()) return value.as_double();
  return value_text(value);
}

/// The type of a list: texts if they are of several.
Type type_of(std::span<const Value> values) {
  std::optional<Type> type;
  for (const Value& value : values) {
    if (value.is_none()) continue;
    if (type && *type != type_of(value)) return Type::kText;
    type = type_of(value);
  }
  return type.value_or(Type::kText);
}

void add_distribution(const Distribution& distribution, HParamDomain& out) {
  if (const auto* floats = std::get_if<FloatDistribution>(&distribution))
    out.interval = {floats->low, floats->high};
  if (const auto* ints = std::get_if<IntDistribution>(&distribution))
    out.interval = {static_cast<double>(ints->low), static_cast<double>(ints->high)};
  const auto* categorical = std::get_if<CategoricalDistribution>(&distribution);
  if (categorical == nullptr) return;
  out.type = type_of(categorical->choices);
  for (const Value& value : categorical->choices)
    if (!value.is_none()) out.values.push_back(to_hparam(value, out.type));
}

/// What the domain's text says; where it says nothing (a C++ function, a study of Optuna's), the
/// values that trials have.
HParamDomain domain_of(const StudyFacts::Parameter& parameter, std::span<const Value> seen) {
  HParamDomain out{.type = type_of(seen), .name = parameter.name};
  if (parameter.domain.empty()) return out;
  try {
    const Domain domain = Domain::parse(parameter.domain, parameter.name);
    if (domain.kind() == Domain::Kind::kDistribution || domain.kind() == Domain::Kind::kGrid)
      add_distribution(domain.distribution(), out);
  } catch (const Error&) {
    // "sample_from(<function>)"
  }
  return out;
}

std::vector<HParamDomain> domains_of(std::span<const TrialHistory> trials,
                                     const StudyFacts& facts) {
  std::vector<HParamDomain> domains;
  for (size_t i = 0; i < facts.parameters.size(); ++i) {
    std::vector<Value> seen;
    for (const TrialHistory& trial : trials) seen.push_back(trial.values[i]);
    domains.push_back(domain_of(facts.parameters[i], seen));
  }
  return domains;
}

track::HParams hparams_of(const TrialHistory& trial,
                          const StudyFacts& facts,
                          std::span<const HParamDomain> domains) {
  track::HParams hparams;
  for (size_t i = 0; i < facts.parameters.size(); ++i) {
    if (!trial.values[i].is_none())
      hparams.emplace_back(facts.parameters[i].name, to_hparam(trial.values[i], domains[i].type));
  }
  return hparams;
}

std::filesystem::path run_folder(const std::filesystem::path& folder, const TrialHistory& trial) {
  constexpr int64_t kPadding = 100000;
  const std::string number = trial.number < kPadding
                                 ? std::to_string(kPadding + trial.number).substr(1)
                                 : std::to_string(trial.number);
  return folder / concat(trial.foreign ? "optuna-" : "trial-", number);
}

/// A writer whose events supersede those of the folder. Also in a new one: TensorBoard takes the
/// first purge that it sees for the start of the run, and drops nothing for it.
TensorBoardWriter writer_in(const std::filesystem::path& folder, size_t buffer_bytes) {
  return TensorBoardWriter(folder, {.purge_step = 0, .buffer_bytes = buffer_bytes});
}

void add_row(TensorBoardWriter& writer, const TrialHistory::Row& row) {
  const std::optional<double> time = row.time_s > 0 ? std::optional(row.time_s) : std::nullopt;
  for (const auto& [name, value] : row.metrics)
    if (!name.empty()) writer.add_scalar(name, value, row.t, time);
}

void end(TensorBoardWriter& writer, const TrialHistory& trial) {
  const bool failed = trial.state == TrialState::kFailed;
  writer.end_hparams(failed ? track::RunStatus::kFailure : track::RunStatus::kSuccess,
                     trial.ended_s);
}

}  // namespace

void write_tensorboard(const std::filesystem::path& folder,
                       std::span<const TrialHistory> trials,
                       const StudyFacts& facts) {
  const auto domains = domains_of(trials, facts);
  TensorBoardWriter root = writer_in(folder, kBufferBytes);
  root.add_experiment(domains, metric_names(trials, facts));
  root.flush();
  for (const TrialHistory& trial : trials) {
    TensorBoardWriter writer = writer_in(run_folder(folder, trial), kBufferBytes);
    writer.start_session(hparams_of(trial, facts, domains), trial.started_s);
    for (const TrialHistory::Row& row : trial.rows) add_row(writer, row);
    if (is_over(trial.state)) end(writer, trial);
    writer.flush();
  }
}

TensorBoardTrials::TensorBoardTrials(std::filesystem::path folder, StudyFacts facts)
    : folder_(std::move(folder)), builder_(std::move(facts)) {}

void TensorBoardTrials::on_events(std::span<const Event> events, bool past) {
  for (const Event& event : events) {
    builder_.add(event);
    if (event.trial < 0) continue;
    if (past) {
      on_past_event(event);
    } else {
      on_new_event(event);
      builder_.forget_rows(event.trial);
    }
  }
}

/// Keeps the reports of trials that are not over: go_on() needs them.
void TensorBoardTrials::on_past_event(const Event& event) {
  const TrialHistory& trial = builder_.trials()[static_cast<size_t>(event.trial)];
  if (!is_over(trial.state)) return;
  const bool ends = std::holds_alternative<AttemptEnded>(event.what);
  if (ends && !track::holds_whole_session(run_folder(folder_, trial))) write_whole(trial);
  builder_.forget_rows(event.trial);
}

void TensorBoardTrials::write_whole(const TrialHistory& trial) {
  for (const TrialHistory::Row& row : trial.rows) write_experiment(row);
  TensorBoardWriter& writer = writer_of(trial);
  for (const TrialHistory::Row& row : trial.rows) add_row(writer, row);
  end(writer, trial);
  writers_.erase(trial.number);
}

void TensorBoardTrials::go_on() {
  for (const TrialHistory& trial : builder_.trials()) {
    if (trial.rows.empty()) continue;
    for (const TrialHistory::Row& row : trial.rows) write_experiment(row);
    for (const TrialHistory::Row& row : trial.rows) add_row(writer_of(trial), row);
    if (trial.state != TrialState::kRunning) writers_.erase(trial.number);
    builder_.forget_rows(trial.number);
  }
}

void TensorBoardTrials::on_new_event(const Event& event) {
  const TrialHistory& trial = builder_.trials()[static_cast<size_t>(event.trial)];
  if (std::holds_alternative<Reported>(event.what)) {
    write_experiment(trial.rows.back());
    add_row(writer_of(trial), trial.rows.back());
  }
  if (!std::holds_alternative<AttemptEnded>(event.what)) return;
  if (is_over(trial.state)) end(writer_of(trial), trial);
  writers_.erase(trial.number);  // also of a paused one: there may be thousands
}

/// Writes the experiment again if the report has metrics that it lacks.
void TensorBoardTrials::write_experiment(const TrialHistory::Row& row) {
  const size_t before = metrics_.size();
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(metrics_, name) == metrics_.end()) metrics_.push_back(name);
  };
  add(builder_.facts().metric);
  for (const auto& [name, value] : row.metrics) add(name);
  if (metrics_.size() == before) return;
  writer_in(folder_, 0).add_experiment(domains_of(builder_.trials(), builder_.facts()), metrics_);
}

TensorBoardWriter& TensorBoardTrials::writer_of(const TrialHistory& trial) {
  const auto found = writers_.find(trial.number);
  if (found != writers_.end()) return found->second;
  const auto folder = run_folder(folder_, trial);
  if (!begun_.insert(trial.number).second)  // it goes on where it was paused
    return writers_.emplace(trial.number, TensorBoardWriter(folder, {.buffer_bytes = 0}))
        .first->second;
  TensorBoardWriter& writer = writers_.emplace(trial.number, writer_in(folder, 0)).first->second;
  const auto domains = domains_of(std::span(&trial, 1), builder_.facts());
  writer.start_session(hparams_of(trial, builder_.facts(), domains), trial.started_s);
  return writer;
}

}  // namespace muster::tune
