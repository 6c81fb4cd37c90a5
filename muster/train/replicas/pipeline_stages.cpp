#include "muster/train/replicas/pipeline_stages.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "muster/base/text.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/pipeline/simulate/simulator.h"

namespace muster::train::detail {
namespace {

using pipeline::ActionKind;

std::string account_text(const StageAccount& stage) {
  std::vector<std::string> parts;
  if (stage.has_times()) {
    parts.push_back(concat("forward ", fixed(1e3 * stage.forward_s, 2), " ms"));
    parts.push_back(concat("backward ", fixed(1e3 * stage.backward_s, 2), " ms"));
    parts.push_back(concat("idle ", fixed(100 * stage.idle, 1), " %"));
  }
  if (stage.bytes > 0)
    parts.push_back(concat("at most ", human_bytes(static_cast<uint64_t>(stage.bytes))));
  return join(parts, ", ");
}

/// Each rank has as many stages, and each of them its rank's share.
double bubble_of(const std::vector<StageAccount>& stages) {
  double idle = 0;
  for (const StageAccount& stage : stages) idle += stage.idle;
  return idle / static_cast<double>(stages.size());
}

}  // namespace

std::vector<StageAccount> predicted_stages(const pipeline::PipelinePlan& plan) {
  const auto lists = pipeline::make_schedule(plan.schedule, plan.sizes).lists;
  const pipeline::Timeline step = pipeline::Simulator(lists).run(plan.stages);
  std::vector<StageAccount> stages;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const int64_t rank = lists.placement.rank_of(static_cast<int64_t>(s));
    stages.push_back({.forward_s = plan.stages[s].forward_s,
                      .backward_s = plan.stages[s].backward_s,
                      .idle = step.step_s() > 0 ? 1 - step.busy_s(rank) / step.step_s() : 0,
                      .bytes = plan.partition.rank_bytes.at(static_cast<size_t>(rank))});
  }
  return stages;
}

Json to_json(const std::vector<StageAccount>& stages) {
  Json json = Json::array();
  for (const StageAccount& stage : stages)
    json.push_back({stage.forward_s, stage.backward_s, stage.idle, stage.bytes});
  return json;
}

std::vector<StageAccount> stages_from(const Json& json) {
  std::vector<StageAccount> stages;
  if (!json.is_array()) return stages;
  for (const Json& stage : json) {
    const bool is_one = stage.is_array() && stage.size() == 4 &&
                        std::all_of(stage.begin(), stage.end(), [](const Json& number) {
                          return number.is_number();
                        });
    if (!is_one) return {};
    stages.push_back({stage[0].get<double>(),
                      stage[1].get<double>(),
                      stage[2].get<double>(),
                      stage[3].get<double>()});
  }
  return stages;
}

void take_measured(std::vector<StageAccount> now, std::vector<StageAccount>& known) {
  if (now.empty()) return;
  for (size_t s = 0; s < std::min(now.size(), known.size()); ++s) {
    const StageAccount& before = known[s];
    const double bytes = now[s].bytes > 0 ? now[s].bytes : before.bytes;
    if (!now[s].has_times()) now[s] = before;
    now[s].bytes = bytes;
  }
  known = std::move(now);
}

std::vector<std::string> stage_lines(const std::vector<StageAccount>& predicted,
                                     const std::vector<StageAccount>& measured) {
  std::vector<std::string> lines;
  for (size_t s = 0; s < std::max(predicted.size(), measured.size()); ++s) {
    std::vector<std::string> parts;
    if (s < predicted.size()) parts.push_back(concat("predicted ", account_text(predicted[s])));
    if (s < measured.size()) parts.push_back(concat("measured ", account_text(measured[s])));
    lines.push_back(concat("stage ", s, ": ", join(parts, "; ")));
  }
  std::vector<std::string> bubbles;
  const auto add = [&](std::string_view how, const std::vector<StageAccount>& stages) {
    if (!stages.empty() && std::ranges::all_of(stages, &StageAccount::has_times))
      bubbles.push_back(concat(how, fixed(100 * bubble_of(stages), 1), " %"));
  };
  add("predicted ", predicted);
  add("measured ", measured);
  if (!bubbles.empty()) lines.push_back(concat("bubble: ", join(bubbles, "; ")));
  return lines;
}

void StageClock::add(std::span<const pipeline::Span> spans, double step_s) {
  if (++steps_ == 1) return;
  all_s_ += step_s;
  for (const pipeline::Span& span : spans) {
    if (!is_compute(span.action.kind)) continue;
    StageSums& sums = sums_of(span.action.stage);
    const double took = span.end_s - span.start_s;
    busy_s_ += took;
    if (span.action.kind == ActionKind::kForward) {
      sums.forward_s += took;
      ++sums.forwards;
    } else {
      sums.backward_s += took;
    }
  }
}

void StageClock::hold(std::span<const int64_t> stages, double bytes) {
  if (!(bytes > 0)) return;
  for (const int64_t stage : stages) sums_of(stage).bytes = bytes;
}

StageClock::StageSums& StageClock::sums_of(int64_t stage) {
  const auto place = static_cast<size_t>(stage);
  if (place >= stages_.size()) stages_.resize(place + 1);
  return stages_[place];
}

Json StageClock::told() const {
  Json told = Json::array();
  const double idle = all_s_ > 0 ? std::clamp(1 - busy_s_ / all_s_, 0.0, 1.0) : 0;
  for (size_t s = 0; s < stages_.size(); ++s) {
    const StageSums& sums = stages_[s];
    if (sums.forwards == 0 && sums.bytes == 0) continue;
    const auto count = static_cast<double>(std::max<int64_t>(1, sums.forwards));
    told.push_back({s, sums.forward_s / count, sums.backward_s / count, idle, sums.bytes});
  }
  return told.empty() ? Json() : told;
}

std::vector<StageAccount> StageClock::merged(const std::vector<std::string>& of_ranks,
                                             size_t stages) {
  std::vector<StageAccount> sums(stages);
  std::vector<double> told_by(stages), timed_by(stages);
  for (const std::string& text : of_ranks) {
    const Json told = parse_json(text, "a rank's stages");
    if (!told.is_array()) continue;
    for (const Json& one : told) {
      const auto stage = one.at(0).get<size_t>();
      if (stage >= stages) continue;
      const StageAccount its{.forward_s = one.at(1).get<double>(),
                             .backward_s = one.at(2).get<double>(),
                             .idle = one.at(3).get<double>(),
                             .bytes = one.at(4).get<double>()};
      ++told_by[stage];
      sums[stage].bytes = std::max(sums[stage].bytes, its.bytes);
      if (!its.has_times()) continue;
      ++timed_by[stage];
      sums[stage].forward_s += its.forward_s;
      sums[stage].backward_s += its.backward_s;
      sums[stage].idle += its.idle;
    }
  }
  for (size_t s = 0; s < stages; ++s) {
    if (told_by[s] == 0) return {};
    const double ranks = std::max(1.0, timed_by[s]);  // of the replicas
    sums[s].forward_s /= ranks;
    sums[s].backward_s /= ranks;
    sums[s].idle /= ranks;
  }
  return sums;
}

}  // namespace muster::train::detail
