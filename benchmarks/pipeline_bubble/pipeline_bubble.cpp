// Pipelines whose stages sleep instead of computing: is a step as long as its schedule says?
//
//     pipeline_bubble SCHEDULE RANKS MICRO_BATCHES MILLISECONDS STEPS
//
// Each stage's forward sleeps so many milliseconds, and its backward as many for each of its halves; the
// first stage has no gradient of its input to compute, and sleeps for it only where backward is not
// split. One line of JSON, of the shortest step: {"step": seconds, "bubble": its share, and what the
// simulator says for such times: "simulated_step", "simulated_bubble"}.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/custom_function.h>

#include "muster/base/json.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/pipeline/simulate/simulator.h"

namespace mp = muster::parallel;
namespace schedules = muster::pipeline;

namespace {

std::chrono::microseconds unit{0};
bool is_split = false;

void sleep_units(int count) { std::this_thread::sleep_for(count * unit); }

/// Sleeps in forward, and in backward for each of the two gradients.
struct Sleep : torch::autograd::Function<Sleep> {
  static at::Tensor forward(torch::autograd::AutogradContext*,
                            const at::Tensor& x,
                            const at::Tensor& w) {
    sleep_units(1);
    return x * w;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    torch::autograd::variable_list found(2);
    for (size_t i = 0; i < 2; ++i) {
      const bool wanted = context->needs_input_grad(i);
      if (wanted || !is_split) sleep_units(1);
      if (wanted) found[i] = gradients[0];
    }
    return found;
  }
};

struct SleeperImpl : torch::nn::Module {
  SleeperImpl() : weight(register_parameter("weight", at::ones({1}))) {}
  at::Tensor forward(const at::Tensor& x) { return Sleep::apply(x, weight); }
  at::Tensor weight;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const auto number = [&](int i) { return std::stoll(argv[i]); };
  const std::string schedule = argv[1];
  const int64_t ranks = number(2), micro_batches = number(3);
  is_split = schedule.starts_with("zb");
  unit = std::chrono::microseconds(1000 * number(4));
  const int64_t per_rank = schedules::schedules().at(schedule).stages_per_rank;
  std::vector<mp::Block> blocks;
  for (int64_t i = 0; i < per_rank * ranks; ++i)
    blocks.push_back(mp::block(std::to_string(i), std::make_shared<SleeperImpl>()));
  mp::Pipeline pipeline(std::move(blocks),
                        std::vector<c10::Device>(static_cast<size_t>(ranks), c10::kCPU),
                        [](const mp::Tensors& out, const mp::Tensors&) { return out[0].sum(); },
                        {.schedule = schedule,
                         .micro_batches = micro_batches,
                         .reduction = mp::LossReduction::kSum,
                         .threads_per_rank = 1});
  const at::Tensor x = at::ones({micro_batches, 1});
  schedules::Timeline best;
  for (int64_t i = 0; i < number(5); ++i) {
    const schedules::Timeline timeline = pipeline.step({x}, {}).timeline;
    if (i == 0 || timeline.step_s() < best.step_s()) best = timeline;
  }
  const double unit_s = std::chrono::duration<double>(unit).count();
  const schedules::Schedule made = schedules::make_schedule(
      schedule, {.stages = per_rank * ranks, .ranks = ranks, .micro_batches = micro_batches});
  schedules::StageTimes times{
      .forward_s = unit_s, .backward_s = 2 * unit_s, .input_s = unit_s, .weight_s = unit_s};
  std::vector<schedules::StageTimes> stages(static_cast<size_t>(per_rank * ranks), times);
  stages[0].input_s = 0;
  const schedules::Timeline simulated = schedules::Simulator(made.lists).run(stages);
  std::cout << muster::Json{{"step", best.step_s()},
                            {"bubble", best.bubble()},
                            {"simulated_step", simulated.step_s()},
                            {"simulated_bubble", simulated.bubble()}}
            << '\n';
}
