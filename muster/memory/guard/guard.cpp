#include "muster/memory/guard/guard.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/guard/oom.h"
#include "muster/memory/guard/step_state.h"

namespace muster::memory {
namespace {

constexpr std::string_view kGuardHint =
    "take a smaller batch, activation checkpointing, a 16-bit precision, or a device with more "
    "memory";
constexpr std::string_view kNoBatchHint =
    "no batch size helps; take activation checkpointing, a 16-bit precision, a smaller model, or a "
    "device with more memory";

std::string rows_text(int64_t rows) { return concat(rows, rows == 1 ? " sample" : " samples"); }

int64_t rows_of_largest(const std::vector<MicroBatch>& pieces) {
  int64_t most = 0;
  for (const MicroBatch& piece : pieces) most = std::max(most, piece.rows());
  return most;
}

}  // namespace

/// What came of an attempt on this rank.
struct Guard::Own {
  std::exception_ptr error;  // of memory; null: it has passed
  OutOfMemory found;
  bool is_of_peer = false;  // another rank's memory ran out, which has told this one
};

/// The same of all ranks, alike on each.
struct Guard::Verdict {
  bool failed = false;
  bool may_pass_again = false;  // on each rank that has failed
  bool is_split = false;        // on some rank
  int64_t largest = 0;          // rows of a micro-batch
  int rank = 0;                 // the first that has failed
};

struct Guard::Parts {
  StepState step;
  at::Tensor
      told;  // [kFields] float64, where the group's messages are; kept: nothing is taken when
             // there may be no room
};

namespace {
// Fields of what ranks tell each other; the greatest of each counts.
enum Field : int64_t { kFailed, kFull, kSplit, kLargest, kFirst, kFields };
}  // namespace

Guard::Guard(torch::nn::Module& module, GuardOptions options)
    : module_(module),
      options_(std::move(options)),
      parts_(new Parts{.step = StepState(module, options_.generators), .told = {}}) {
  const auto check = [](int64_t number, int64_t least, const char* name) {
    if (number >= least) return;
    throw usage_error({.refused = concat("GuardOptions::", name),
                       .rule = concat("at least ", least),
                       .value = std::to_string(number)});
  };
  check(options_.micro_batch, 0, "micro_batch");
  check(options_.smallest, 1, "smallest");
  check(options_.try_larger_after, 0, "try_larger_after");
  state_.micro_batch = options_.micro_batch;
  state_.wait_steps = options_.try_larger_after;
  if (options_.group && options_.group->world_size() > 1) {
    parts_->told =
        at::zeros({kFields}, at::device(options_.group->host_device()).dtype(at::kDouble));
    options_.group->all_reduce(parts_->told, c10d::ReduceOp::MAX);  // what it takes, it takes now
  }
}

Guard::~Guard() = default;

void Guard::load_state(const GuardState& state) {
  const int64_t least =
      std::min({state.micro_batch, state.clean_steps, state.wait_steps, state.failures});
  if (least < 0) {
    throw usage_error({.refused = "the state of a memory::Guard",
                       .rule = "its numbers are at least 0",
                       .value = std::to_string(least)});
  }
  state_ = state;
  is_trial_ = false;
}

GuardedStep Guard::step(int64_t rows, const MicroStep& run, c10::ArrayRef<double> weights) {
  return step(c10::ArrayRef<int64_t>(rows), run, weights);
}

GuardedStep Guard::step(c10::ArrayRef<int64_t> rows,
                        const MicroStep& run,
                        c10::ArrayRef<double> weights) {
  micro_batches(rows, 0, weights);  // refuses what it refuses before anything is tried
  is_trial_ = state_.micro_batch > 0 && state_.wait_steps > 0 &&
              state_.clean_steps >= state_.wait_steps &&
              state_.micro_batch <= std::numeric_limits<int64_t>::max() / 2;
  before_trial_ = state_.micro_batch;
  if (is_trial_) state_.micro_batch *= 2;
  bool same_again = false;
  GuardedStep made{.attempts = 0};
  while (true) {
    ++made.attempts;
    const std::vector<MicroBatch> pieces = micro_batches(rows, state_.micro_batch, weights);
    const Own own = attempt(pieces, run);
    const Verdict verdict = agree(own, pieces);
    if (!verdict.failed) {
      made.micro_batches = static_cast<int64_t>(pieces.size());
      made.is_split = pieces.size() > rows.size();
      if (verdict.is_split) check_split();
      after_pass(verdict);
      return made;
    }
    ++state_.failures;
    parts_->step.put_back();
    give_back_idle();
    if (verdict.may_pass_again && !fails_at_once_ && options_.retry_same_size && !same_again) {
      same_again = true;
      tell_failure(GuardEvent::Kind::kSameAgain, verdict, own);
      continue;
    }
    same_again = false;
    shrink(verdict, own);
  }
}

/// The error is caught, and all that the attempt held is gone, when this returns.
Guard::Own Guard::attempt(const std::vector<MicroBatch>& pieces, const MicroStep& run) {
  Own own;
  try {
    parts_->step.capture();
    for (const MicroBatch& piece : pieces) run(piece);
  } catch (...) {
    own.error = std::current_exception();
    own.is_of_peer = is_oom_of_peer(own.error);
    if (own.is_of_peer) return own;
    std::optional<OutOfMemory> found = out_of_memory_in(own.error);
    if (!found) throw;
    own.found = *std::move(found);
  }
  return own;
}

Guard::Verdict Guard::agree(const Own& own, const std::vector<MicroBatch>& pieces) {
  const bool split =
      std::ranges::any_of(pieces, [](const MicroBatch& piece) { return !piece.is_whole; });
  Verdict verdict{.failed = own.error != nullptr,
                  .may_pass_again = own.error != nullptr && own.found.may_pass_again(),
                  .is_split = split,
                  .largest = rows_of_largest(pieces),
                  .rank = 0};
  if (!parts_->told.defined()) return verdict;
  const distributed::ProcessGroup& group = *options_.group;
  double fields[kFields] = {};
  fields[kFailed] = verdict.failed ? 1 : 0;
  const bool is_cause = verdict.failed && !own.is_of_peer;
  fields[kFull] = is_cause && !verdict.may_pass_again ? 1 : 0;
  fields[kSplit] = split ? 1 : 0;
  fields[kLargest] = static_cast<double>(verdict.largest);
  fields[kFirst] = is_cause ? static_cast<double>(group.world_size() - group.rank()) : 0;
  parts_->told.copy_(at::from_blob(fields, {kFields}, at::kDouble));
  group.all_reduce(parts_->told, c10d::ReduceOp::MAX);
  const at::Tensor all = parts_->told.cpu();
  const double* of_all = all.const_data_ptr<double>();
  verdict.failed = of_all[kFailed] > 0;
  verdict.may_pass_again = verdict.failed && of_all[kFull] == 0;
  verdict.is_split = of_all[kSplit] > 0;
  verdict.largest = static_cast<int64_t>(of_all[kLargest]);
  verdict.rank = group.world_size() - static_cast<int>(of_all[kFirst]);
  return verdict;
}

void Guard::give_back_idle() const {
  std::vector<c10::DeviceType> kinds;
  for (const c10::Device device : parts_->step.devices()) {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    if (std::ranges::find(kinds, device.type()) == kinds.end()) kinds.push_back(device.type());
  }
  for (const c10::DeviceType kind : kinds) c10::getDeviceAllocator(kind)->emptyCache();
}

/// Fewer rows from now on, or the end.
void Guard::shrink(const Verdict& verdict, const Own& own) {
  if (is_trial_) {
    is_trial_ = false;
    state_.micro_batch = before_trial_;
    state_.clean_steps = 0;
    if (state_.wait_steps <= std::numeric_limits<int64_t>::max() / 2) state_.wait_steps *= 2;
  } else {
    failed_at_smallest_ = verdict.largest <= options_.smallest;
    if (failed_at_smallest_ || fails_at_once_) give_up(verdict, own, "");
    if (!options_.may_differ) {
      if (const std::string layer = batch_layer(module_); !layer.empty())
        give_up(verdict,
                own,
                concat(layer, " normalises over the whole batch, which smaller ones would change"));
    }
    state_.micro_batch = std::max(options_.smallest, (verdict.largest + 1) / 2);
    state_.clean_steps = 0;
  }
  tell_failure(GuardEvent::Kind::kSplit, verdict, own);
}

void Guard::give_up(const Verdict& verdict, const Own& own, const std::string& why) const {
  const std::string what = concat("a step with ", rows_text(verdict.largest), " at a time");
  const std::string hint(failed_at_smallest_ ? kNoBatchHint : kGuardHint);
  const std::string rule =
      why.empty() ? "" : concat("; it is not made again in smaller ones: ", why);
  if (own.error && !own.is_of_peer) {
    try {
      std::rethrow_exception(own.error);
    } catch (...) {
      std::throw_with_nested(
          environment_error({.refused = what, .rule = own.found.words + rule, .hint = hint}));
    }
  }
  const Error error =
      environment_error({.refused = what,
                         .rule = concat("rank ", verdict.rank, " is out of memory", rule),
                         .hint = hint});
  if (!fails_at_once_) options_.group->note_told_failure(verdict.rank, error.what());
  throw error;
}

/// Whether a step that was split is what the whole one would have been.
void Guard::check_split() {
  if (!told_draws_ && parts_->step.has_drawn()) {
    told_draws_ = true;
    tell({.kind = GuardEvent::Kind::kDraws, .micro_batch = state_.micro_batch});
  }
  if (checked_) return;  // it waits for the device, and a module does the same in each step
  checked_ = true;
  const std::string buffer = parts_->step.changed_buffer();
  if (!buffer.empty() && !options_.may_differ) {
    parts_->step.put_back();
    throw usage_error(
        {.refused = "a step in micro-batches",
         .rule = "buffers, which each forward changes, would be those of micro-batches",
         .value = buffer,
         .hint = "take a smaller batch, or say GuardOptions::may_differ"});
  }
  if (!buffer.empty()) {
    tell({.kind = GuardEvent::Kind::kDiffers, .micro_batch = state_.micro_batch, .words = buffer});
  }
}

void Guard::after_pass(const Verdict& verdict) {
  if (is_trial_ && verdict.largest <= before_trial_) {
    state_.micro_batch = before_trial_;  // it had too few rows to tell; the next step tries
  } else if (is_trial_) {
    state_.clean_steps = 0;
    state_.wait_steps = options_.try_larger_after;
    tell({.kind = GuardEvent::Kind::kLarger, .micro_batch = state_.micro_batch});
  } else if (verdict.is_split) {
    ++state_.clean_steps;
  }
  is_trial_ = false;
}

/// Collective: the words are those of the first rank that failed, on every rank.
void Guard::tell_failure(GuardEvent::Kind kind, const Verdict& verdict, const Own& own) const {
  GuardEvent event{.kind = kind,
                   .tried = verdict.largest,
                   .micro_batch = state_.micro_batch,
                   .rank = verdict.rank,
                   .words = own.found.text()};
  if (parts_->told.defined() && verdict.rank == options_.group->world_size())
    event.words = "told by a rank of another group";
  else if (parts_->told.defined())
    event.words = concat(
        "rank ", verdict.rank, ": ", options_.group->broadcast_text(event.words, verdict.rank));
  tell(std::move(event));
}

void Guard::tell(GuardEvent event) const {
  if (options_.heard) options_.heard(event);
}

std::string Guard::batch_layer(const torch::nn::Module& module) {
  // By the class, "torch::nn::BatchNorm2dImpl": those of users say what they are, too.
  const auto is_one = [](const torch::nn::Module& layer) {
    return layer.is_training() && layer.name().find("BatchNorm") != std::string::npos;
  };
  if (is_one(module)) return module.name();
  for (const auto& item : module.named_modules("", /*include_self=*/false))
    if (is_one(*item.value())) return item.key();
  return "";
}

std::string text_of(const GuardEvent& event) {
  const std::string at_a_time =
      event.micro_batch == 0 ? "the whole batch" : concat(event.micro_batch, " at a time");
  switch (event.kind) {
    case GuardEvent::Kind::kSplit:
      return concat("out of memory with ",
                    rows_text(event.tried),
                    " at a time (",
                    event.words,
                    "): the step is made again, ",
                    at_a_time);
    case GuardEvent::Kind::kSameAgain:
      return concat("out of memory though there was room (",
                    event.words,
                    "): the step is made again as it was");
    case GuardEvent::Kind::kLarger:
      return concat("there is room again: ", at_a_time);
    case GuardEvent::Kind::kDraws:
      return concat(
          "random numbers are drawn for ", at_a_time, ": others than a whole batch would draw");
    case GuardEvent::Kind::kDiffers:
      return concat("batch statistics (", event.words, ") are of ", at_a_time);
  }
  return "";
}

}  // namespace muster::memory
