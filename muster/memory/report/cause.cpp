#include "muster/memory/report/cause.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "muster/base/text.h"

namespace muster::memory {
namespace {

using Verdict = std::optional<OomCause>;

constexpr int64_t kAbsurdBytes = int64_t{1} << 42;  // no device has 4 TiB
constexpr int64_t kQuarter = 4, kCrumbs = 50;
constexpr size_t kFewestIterations = 6;
constexpr double kMostlyRises = 0.8;

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<uint64_t>(std::max<int64_t>(0, bytes)));
}
std::string bytes_text(const std::optional<int64_t>& bytes) {
  return bytes_text(bytes.value_or(0));
}

int64_t of_owner(const OomFacts& facts, Owner owner) {
  return facts.owners[static_cast<size_t>(owner)];
}

bool is_cpu(const OomFacts& facts) { return facts.device == "cpu"; }

std::string holder_text(const Holder& holder) {
  std::string text = owner_text(holder.owner) + "s";
  if (holder.owner == Owner::kOther) text = "tensors";
  if (holder.owner == Owner::kOptimizerState) text = "optimizer state";
  if (!holder.op.empty()) text += concat(" of ", holder.op);
  if (!holder.layer.empty()) text += concat(" (layer ", holder.layer, ")");
  if (!holder.scope.empty()) text += concat(" in scope \"", holder.scope, "\"");
  return text;
}

Verdict too_large(const OomFacts& facts) {
  const int64_t asked = *facts.asked;
  const bool beyond_device = facts.total && asked > *facts.total;
  if (!beyond_device && asked <= kAbsurdBytes) {
    if (!facts.cap || asked <= *facts.cap) return std::nullopt;
    if (facts.cap_kind != CapKind::kDevice && facts.total) return std::nullopt;  // over_cap's
  }
  const std::string whole =
      facts.total ? concat("the ", bytes_text(facts.total), " that ", facts.device, " has")
      : facts.cap ? concat("the ", bytes_text(facts.cap), " that there may be")
                  : "what any device has";
  return OomCause{
      .kind = OomClass::kTooLarge,
      .because = concat("one tensor of ", bytes_text(asked), " is more than ", whole),
      .action = OomAction::kCheckShape,
      .todo = asked > kAbsurdBytes
                  ? "look at the shape: a size has overflowed, or two dimensions were multiplied"
                  : "ask for less at once: a smaller batch, a sum in chunks, or check the shape"};
}

/// The cap is smaller than the request, so that even an empty process could not have it.
Verdict over_cap(const OomFacts& facts) {
  if (!facts.cap || *facts.asked <= *facts.cap) return std::nullopt;
  const bool ours = facts.cap_kind == CapKind::kFraction || facts.cap_kind == CapKind::kCapacity;
  return OomCause{.kind = ours ? OomClass::kCap : OomClass::kHostLimit,
                  .because = concat("one tensor of ",
                                    bytes_text(facts.asked),
                                    " is more than the ",
                                    bytes_text(facts.cap),
                                    " of ",
                                    cap_text(facts.cap_kind)),
                  .action = ours ? OomAction::kRaiseCap : OomAction::kRaiseLimit,
                  .todo = concat("raise ", cap_text(facts.cap_kind))};
}

Verdict spurious(const OomFacts& facts) {
  const int64_t asked = *facts.asked;
  const bool block = facts.largest_idle && asked <= *facts.largest_idle;
  const bool free = facts.free && asked <= *facts.free;
  if (!block && !free) return std::nullopt;
  std::string because = block ? concat("an idle block of ", bytes_text(facts.largest_idle))
                              : concat(bytes_text(facts.free), " free");
  because += concat(block ? " fits the " : " are enough for the ", bytes_text(asked), " asked for");
  if (facts.was_to_fail) because += ", and a test had this allocation fail";
  return OomCause{.kind = OomClass::kSpurious,
                  .because = because,
                  .action = OomAction::kRetry,
                  .todo = "make the step again: memory::Guard does so once by itself"};
}

Verdict waits_for_stream(const OomFacts& facts) {
  const auto missing = facts.missing();
  if (!missing || facts.pending.value_or(0) < *missing) return std::nullopt;
  return OomCause{.kind = OomClass::kStream,
                  .because = concat(bytes_text(facts.pending),
                                    " are freed and wait for another stream; ",
                                    bytes_text(*missing),
                                    " were missing"),
                  .action = OomAction::kSynchronize,
                  .todo =
                      "wait for the device and make the step again (memory::Guard does); "
                      "fewer copies ahead keep it from coming back"};
}

Verdict in_pools(const OomFacts& facts) {
  const auto missing = facts.missing();
  if (!missing || facts.in_pools.value_or(0) < *missing) return std::nullopt;
  return OomCause{.kind = OomClass::kPools,
                  .because = concat(bytes_text(facts.in_pools),
                                    " are idle in private pools, which serve their graphs alone; ",
                                    bytes_text(*missing),
                                    " were missing"),
                  .action = OomAction::kFreePools,
                  .todo = "let graphs share one pool, or capture fewer of them"};
}

Verdict fragments(const OomFacts& facts) {
  const auto missing = facts.missing();
  const int64_t idle =
      facts.idle.value_or(0) - facts.pending.value_or(0) - facts.in_pools.value_or(0);
  const int64_t held = facts.live.value_or(0) + facts.idle.value_or(0);
  if (!missing || idle < *missing || idle < held / kCrumbs) return std::nullopt;
  std::string because = concat(bytes_text(idle), " are idle in pieces");
  if (facts.largest_idle) because += concat(", the largest of ", bytes_text(facts.largest_idle));
  because += concat("; ", bytes_text(*missing), " were missing");
  return OomCause{
      .kind = OomClass::kFragments,
      .because = because,
      .action = OomAction::kJoinIdle,
      .todo = facts.device.starts_with("cuda")
                  ? "set PYTORCH_ALLOC_CONF=expandable_segments:True before the program starts"
                  : "give idle memory back (emptyCache) once tensors between the pieces are gone, "
                    "and take large buffers first"};
}

/// Bytes that the iterations have added, if they go on growing.
int64_t growth_of(const std::vector<IterationEnd>& all) {
  if (all.size() < kFewestIterations) return 0;
  std::vector<int64_t> steps;
  for (size_t i = 1; i < all.size(); ++i) steps.push_back(all[i].end_bytes - all[i - 1].end_bytes);
  // The first of them takes what stays: state of an optimizer, workspaces.
  if (steps.size() > kFewestIterations) steps.erase(steps.begin());
  const auto rises = std::ranges::count_if(steps, [](int64_t step) { return step > 0; });
  if (static_cast<double>(rises) < kMostlyRises * static_cast<double>(steps.size())) return 0;
  int64_t grown = 0;
  for (const int64_t step : steps) grown += step;
  std::ranges::nth_element(steps, steps.begin() + static_cast<int64_t>(steps.size() / 2));
  const int64_t median = steps[steps.size() / 2];
  // A sawtooth rises in most steps and falls back in one; one jump is no growth.
  const auto steady = median * static_cast<int64_t>(steps.size());
  if (2 * grown < steady || 2 * steady < grown) return 0;
  // Of those before that are no longer remembered, as much.
  return std::max(grown, std::min(median * all.back().iteration, all.back().end_bytes));
}

Verdict has_grown(const OomFacts& facts) {
  const auto missing = facts.missing();
  const int64_t grown = growth_of(facts.iterations);
  if (!missing || grown <= 0 || grown < *missing) return std::nullopt;
  return OomCause{.kind = OomClass::kGrowth,
                  .because = concat("tensors hold some ",
                                    bytes_text(grown),
                                    " more than at the start, of ",
                                    bytes_text(facts.iterations.back().end_bytes),
                                    ", and nearly each of the last ",
                                    facts.iterations.size(),
                                    " iterations has added to it; ",
                                    bytes_text(*missing),
                                    " were missing"),
                  .action = OomAction::kFindLeak,
                  .todo = "find what keeps them: memory::LeakFinder names it (docs/memory.md)"};
}

Verdict kept_back(const OomFacts& facts) {
  const auto missing = facts.missing();
  const bool is_limit = facts.cap_kind == CapKind::kFraction ||
                        facts.cap_kind == CapKind::kCapacity || facts.cap_kind == CapKind::kGroup ||
                        facts.cap_kind == CapKind::kAddresses;
  if (!missing || !is_limit || facts.beyond.value_or(0) < *missing) return std::nullopt;
  const bool ours = facts.cap_kind == CapKind::kFraction || facts.cap_kind == CapKind::kCapacity;
  return OomCause{
      .kind = ours ? OomClass::kCap : OomClass::kHostLimit,
      .because = concat(is_cpu(facts) ? "the machine" : facts.device,
                        " has ",
                        bytes_text(facts.beyond),
                        " free that ",
                        cap_text(facts.cap_kind),
                        facts.cap ? concat(" (", bytes_text(facts.cap), ")") : "",
                        " keeps back; ",
                        bytes_text(*missing),
                        " were missing"),
      .action = ours ? OomAction::kRaiseCap : OomAction::kRaiseLimit,
      .todo = facts.cap_kind == CapKind::kFraction
                  ? "raise per_process_memory_fraction, or ask for less"
              : facts.cap_kind == CapKind::kCapacity
                  ? "raise the capacity that the program set, or ask for less"
              : facts.cap_kind == CapKind::kGroup
                  ? "start the container or the job with more memory, or run fewer workers in it"
                  : "raise `ulimit -v`, or ask for less"};
}

Verdict others_have_it(const OomFacts& facts) {
  const auto missing = facts.missing();
  if (!missing || !facts.others || *facts.others < *missing) return std::nullopt;
  if (!facts.total || *facts.others < *facts.total / kQuarter) return std::nullopt;
  std::string who;
  if (!facts.processes.empty()) {
    const OtherProcess& first = facts.processes.front();
    who = concat(", process ",
                 first.pid,
                 first.command.empty() ? "" : concat(" (", first.command.substr(0, 40), ")"),
                 " ",
                 bytes_text(first.bytes),
                 " of them");
  }
  return OomCause{.kind = OomClass::kOthers,
                  .because = concat("other processes hold ",
                                    bytes_text(facts.others),
                                    " of the ",
                                    bytes_text(facts.total),
                                    who,
                                    "; ",
                                    bytes_text(*missing),
                                    " were missing"),
                  .action = OomAction::kMoveAway,
                  .todo = is_cpu(facts)
                              ? "end the other process, or move to another machine"
                              : "take another device, or end the other process (`muster gpu` shows "
                                "whose it is)"};
}

Verdict outside_tensors(const OomFacts& facts) {
  const auto missing = facts.missing();
  if (!missing || !facts.outside || *facts.outside < *missing) return std::nullopt;
  if (*facts.outside <= facts.live.value_or(0)) return std::nullopt;
  return OomCause{
      .kind = OomClass::kOutside,
      .because = concat("this process holds ",
                        bytes_text(facts.outside),
                        " outside of tensors, which hold ",
                        bytes_text(facts.live),
                        "; ",
                        bytes_text(*missing),
                        " were missing"),
      .action = OomAction::kFreeOutside,
      .todo = is_cpu(facts)
                  ? "shrink what is no tensor: loader workers, caches of the dataset, queues"
                  : "shrink what is no tensor: contexts, communication buffers, workspaces of "
                    "cuDNN and cuBLAS"};
}

std::string share_text(int64_t part, int64_t of) {
  const double share = of > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(of) : 0;
  return fixed(share, 0) + " %";
}

OomCause live_tensors(const OomFacts& facts) {
  OomCause cause{.kind = OomClass::kLiveTensors};
  const int64_t live = facts.live.value_or(0);
  cause.because = concat("tensors hold ", bytes_text(live));
  if (facts.cap) cause.because += concat(" of the ", bytes_text(facts.cap));
  if (facts.missing()) cause.because += concat("; ", bytes_text(facts.missing()), " were missing");
  const int64_t of_model = of_owner(facts, Owner::kParameter) + of_owner(facts, Owner::kBuffer) +
                           of_owner(facts, Owner::kOptimizerState) +
                           of_owner(facts, Owner::kGradient) - facts.of_backward;
  int64_t of_batch =
      of_owner(facts, Owner::kActivation) + of_owner(facts, Owner::kInput) + facts.of_backward;
  if (facts.rest_is_mixed) of_batch = live - of_model;
  const int64_t rest = live - of_model - of_batch;
  const auto first = std::ranges::find(facts.holders, Owner::kOther, &Holder::owner);
  const Holder* const top = first == facts.holders.end() ? nullptr : &*first;
  const int64_t missing = facts.missing().value_or(live);
  const bool half_would_do = of_batch / 2 >= missing;
  if (!facts.by_owner || (of_batch >= rest && (of_batch >= of_model || half_would_do))) {
    cause.action = OomAction::kSmallerBatch;
    if (facts.by_owner)
      cause.because +=
          concat(facts.rest_is_mixed ? "; what is no parameter, gradient or state is "
                                     : "; activations, their gradients and inputs are ",
                 share_text(of_batch, live),
                 " of it");
    cause.todo =
        "take a smaller batch, or the same one in micro-batches (memory::Guard, "
        "`muster train --on-oom split`)";
  } else if (of_model >= rest) {
    cause.action = OomAction::kShard;
    cause.because += concat(
        "; parameters, gradients and optimizer state are ", share_text(of_model, live), " of it");
    cause.todo =
        "spread parameters, gradients and state over ranks (`--strategy zero2` or "
        "`fsdp`), or take a smaller model";
  } else {
    cause.action = OomAction::kRelease;
    if (top != nullptr)
      cause.because +=
          concat("; ", holder_text(*top), " are ", share_text(top->bytes, live), " of it");
    cause.todo = top == nullptr ? "release tensors that are no longer needed (memory::release)"
                                : concat("release what is no longer needed of the ",
                                         holder_text(*top),
                                         " (memory::release says who else holds it)");
  }
  return cause;
}

}  // namespace

std::optional<int64_t> OomFacts::missing() const {
  if (!asked || !free) return std::nullopt;
  return std::max<int64_t>(0, *asked - *free);
}

std::optional<double> OomFacts::fragmentation() const {
  if (!idle || !largest_idle || *idle <= 0) return std::nullopt;
  return 1.0 - static_cast<double>(*largest_idle) / static_cast<double>(*idle);
}

OomCause classify(const OomFacts& facts) {
  if (!facts.asked) {
    OomCause cause = live_tensors(facts);
    if (facts.live.value_or(0) > 0 && facts.by_owner) return cause;
    return {.kind = OomClass::kUnknown,
            .because = "the error does not say how much was asked for",
            .action = OomAction::kReadLog,
            .todo = "`muster doctor` on the whole log looks for what came before"};
  }
  constexpr std::array kRules{&too_large,
                              &over_cap,
                              &spurious,
                              &waits_for_stream,
                              &in_pools,
                              &fragments,
                              &has_grown,
                              &kept_back,
                              &others_have_it,
                              &outside_tensors};
  for (const auto rule : kRules) {
    if (Verdict cause = rule(facts)) return *std::move(cause);
  }
  return live_tensors(facts);
}

}  // namespace muster::memory
