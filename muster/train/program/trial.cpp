#include "muster/train/program/trial.h"

#include <algorithm>
#include <utility>

#include "muster/base/rank_env.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

namespace fs = std::filesystem;

/// Those of the training under names of their own, also where there is no validation: `loss` is never
/// now the one and now the other.
tune::Metrics metrics_of(const EpochEnd& end) {
  tune::Metrics metrics = end.validation.items();
  for (const auto& [name, value] : end.train) metrics.emplace_back(concat("train_", name), value);
  return metrics;
}

/// Part by part: "a/exp" is not within "a/ex".
bool is_within(const fs::path& path, const fs::path& folder) {
  const fs::path inner = fs::weakly_canonical(path), outer = fs::weakly_canonical(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

void resolve_trial(fs::path& output, fs::path& resume) {
  const auto folder = tune::checkpoint_dir();
  if (!folder) return;
  const auto from = tune::resume_from();
  if (from && resume.empty()) resume = *from;
  if (!output.empty() || (!resume.empty() && is_within(resume, *folder))) return;
  const std::string attempt = process_environment(tune::kAttemptEnv).value_or("1");
  output = fs::path(*folder) / concat("attempt-", attempt);
}

TrainAsTrial::TrainAsTrial(std::function<void(const std::string&)> note) : note_(std::move(note)) {}

void TrainAsTrial::attach(FitCallbacks& callbacks) {
  if (!tune::checkpoint_dir()) return;
  link_.emplace(tune::LinkOptions{.stop_requested = callbacks.stop_requested});
  callbacks.epoch_ended = [this](const EpochEnd& end) { return report(end); };
  callbacks.ended_inside_epoch = [this](const EpochEnd& end) { report(end); };
  callbacks.not_finite = [](const Error& error) {
    tune::say_failure(tune::Failure::kNan, error.text().refused);
  };
}

bool TrainAsTrial::report(const EpochEnd& end) {
  if (end.is_validated_later) return false;  // the study's metric may be the validation's
  const tune::Decision decision = link_->report(
      metrics_of(end), {.step = end.epoch, .checkpoint = fs::absolute(end.checkpoint).string()});
  if (decision.action == tune::Action::kContinue) return false;
  note_(concat("the tuner says ",
               name_of(decision.action),
               decision.reason.empty() ? "" : ": ",
               decision.reason));
  return true;
}

}  // namespace muster::train
