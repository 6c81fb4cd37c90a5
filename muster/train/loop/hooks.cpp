#include "muster/train/loop/hooks.h"

#include <algorithm>
#include <utility>

#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

ErrorKind kind_of_thrown(const std::exception& thrown) {
  const auto* own = dynamic_cast<const Error*>(&thrown);
  return own != nullptr ? own->kind() : ErrorKind::kEnvironment;
}

}  // namespace

Hooks::Hooks(const FitCallbacks& callbacks,
             distributed::ProcessGroup group,
             const formats::TrainPosition& position)
    : callbacks_(callbacks), group_(std::move(group)), position_(position) {
  guard("progress", callbacks.progress, callbacks_.progress);
  guard("note", callbacks.note, callbacks_.note);
  guard("stop_requested", callbacks.stop_requested, callbacks_.stop_requested);
  guard("epoch_ended", callbacks.epoch_ended, callbacks_.epoch_ended);
  guard("ended_inside_epoch", callbacks.ended_inside_epoch, callbacks_.ended_inside_epoch);
  guard("epoch_began", callbacks.epoch_began, callbacks_.epoch_began);
  guard("step_ended", callbacks.step_ended, callbacks_.step_ended);
  guard("evaluated", callbacks.evaluated, callbacks_.evaluated);
  guard("saved", callbacks.saved, callbacks_.saved);
}

template <class Result, class... Arguments>
void Hooks::guard(std::string_view name,
                  const std::function<Result(Arguments...)>& own,
                  std::function<Result(Arguments...)>& guarded) {
  if (!own) return;
  guarded = [this, name, &own](Arguments... arguments) -> Result {
    try {
      if (!failed()) return own(std::forward<Arguments>(arguments)...);
    } catch (...) {
      keep(name);
    }
    return Result();
  };
}

/// Within a catch block.
void Hooks::keep(std::string_view name) {
  ErrorKind kind = ErrorKind::kEnvironment;
  ErrorText text;
  try {
    throw;
  } catch (const std::exception& thrown) {
    kind = kind_of_thrown(thrown);
    text.rule = thrown.what();
  } catch (...) {
    text.rule = "it threw something that is no std::exception";
  }
  text.refused =
      concat("hook ", name, " (rank ", group_.rank(), ", after step ", position_.step, ')');
  failure_.emplace(kind, std::move(text));
}

HookPlace Hooks::here() const {
  const int64_t begun = position_.samples > 0 ? 1 : 0;
  return {.rank = group_.rank(),
          .step = position_.step,
          .epoch = std::max<int64_t>(1, position_.epoch + begun)};
}

std::optional<Error> Hooks::first_failure() const {
  if (group_.world_size() == 1) return failure_;
  Json own = nullptr;
  if (failure_)
    own = {static_cast<int>(failure_->kind()), failure_->text().refused, failure_->text().rule};
  const std::vector<std::string> texts = group_.all_gather_text(json_text(own));
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    const Json told = parse_json(texts[static_cast<size_t>(rank)], "what a rank says of its hooks");
    if (told.is_null()) continue;
    Error error(static_cast<ErrorKind>(told[0].get<int>()),
                {.refused = told[1].get<std::string>(), .rule = told[2].get<std::string>()});
    if (!failure_) group_.note_told_failure(rank, error.what());
    return error;
  }
  return std::nullopt;
}

}  // namespace muster::train
