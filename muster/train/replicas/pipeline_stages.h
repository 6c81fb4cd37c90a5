// What the stages of a pipeline take: as it was predicted when they were cut, and as they ran.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/pipeline/partition/plan.h"

namespace muster::train::detail {

/// Of one stage. Of a measured one times or bytes may lack.
struct StageAccount {
  double forward_s = 0;   ///< of a micro-batch; 0, and so is backward_s: times are not known
  double backward_s = 0;  ///< of a micro-batch, both halves where it comes in two
  double idle = 0;        ///< the share of a step in which its rank does not compute
  double bytes = 0;       ///< the most that its rank holds; 0: not known
  bool has_times() const { return forward_s > 0 || backward_s > 0; }
  bool operator==(const StageAccount&) const = default;
};

/// By stage, as the plan's simulated step has it.
std::vector<StageAccount> predicted_stages(const pipeline::PipelinePlan& plan);

/// By stage, for Strategy::record(); and back. What is no such list is an empty one.
Json to_json(const std::vector<StageAccount>& stages);
std::vector<StageAccount> stages_from(const Json& json);

/// `now` becomes `known`, but that what it lacks stays as it was.
void take_measured(std::vector<StageAccount> now, std::vector<StageAccount>& known);

/// A line for each stage, "stage 0: predicted forward 1.2 ms, …; measured forward 1.3 ms, …"; without
/// one of the two the other alone; and one of the bubble, the share of the ranks' time in which they do not
/// compute. None without both.
std::vector<std::string> stage_lines(const std::vector<StageAccount>& predicted,
                                     const std::vector<StageAccount>& measured);

/// Adds up what a rank did in its steps. The first step of a process makes what later ones reuse, and
/// does not count.
class StageClock {
 public:
  /// `spans` of this rank in a step that took `step_s`.
  void add(std::span<const pipeline::Span> spans, double step_s);
  /// The most bytes that this rank has held in its steps, which has these stages; 0: not known.
  void hold(std::span<const int64_t> stages, double bytes);
  /// Of this rank's stages, for merged(); null where neither bytes are known nor times, which are
  /// behind two steps.
  Json told() const;

  /// By stage, the means of what all ranks told, and the most bytes of one; empty if a stage is
  /// missing. `of_ranks`: to_text of told().
  static std::vector<StageAccount> merged(const std::vector<std::string>& of_ranks, size_t stages);

 private:
  struct StageSums {
    double forward_s = 0, backward_s = 0;
    int64_t forwards = 0;
    double bytes = 0;
  };
  StageSums& sums_of(int64_t stage);

  std::vector<StageSums> stages_;  // by number; those of other ranks are empty
  int64_t steps_ = 0;
  double busy_s_ = 0, all_s_ = 0;
};

}  // namespace muster::train::detail
