// What it shows: a ResNet cut in two, first as a plain model parallel: while one half works the other
//     one waits. Then as a pipeline, with the batch cut into more and more micro-batches: a step gets
//     shorter until the micro-batches are too small to be worth their calls. Measured times stand
//     beside what the formula of the bubble says. With GPUs, name two as devices.
// How to run: build/bin/examples/resnet_pipeline [MODEL BATCH SIZE [FOLDER]]
//     resnet50 64 128 is the classic study. Times go to stderr; FOLDER gets a plot of them, and
//     drawings of two real steps.
// Expected output:
//     resnet18, 8 images of 64 x 64 pixels: 10 parts in 2 stages, 1 to 8 micro-batches
//     cut in two, a batch that is not has the loss of one device: yes
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <torch/nn/functional/loss.h>

#include "muster/models.h"
#include "muster/parallel.h"
#include "muster/pipeline.h"
#include "muster/track.h"

namespace mp = muster::parallel;
using Clock = std::chrono::steady_clock;

torch::Tensor loss_of(const mp::Tensors& scores, const mp::Tensors& labels) {
  return torch::nn::functional::cross_entropy(scores[0], labels[0]);
}

// The shortest of some steps, in milliseconds: whatever else runs makes them longer.
template <class Step>
double milliseconds(Step&& step) {
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    const auto start = Clock::now();
    step();
    const double took = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (i > 0) best = best == 0 ? took : std::min(best, took);
  }
  return best;
}

int main(int argc, char** argv) {
  const std::string name = argc > 3 ? argv[1] : "resnet18", folder = argc > 4 ? argv[4] : "";
  const int64_t batch = argc > 3 ? std::atoll(argv[2]) : 8,
                size = argc > 3 ? std::atoll(argv[3]) : 64;
  torch::manual_seed(0);
  const auto model = muster::models::make_model(
      name, {.channels = 3, .height = size, .width = size, .classes = 10});
  const torch::Tensor images = torch::randn({batch, 3, size, size});
  const torch::Tensor labels = torch::randint(10, {batch});

  // Cut where the halves take equally long, with micro-batches of the size that they will have: smaller ones
  // cost more per image, and not every part as much more.
  const int64_t rows = std::max<int64_t>(2, batch / 8);
  const std::vector<mp::Block> blocks = mp::blocks_of_chain(*model);
  const auto costs =
      mp::measure_blocks(blocks,
                         {{images.narrow(0, 0, rows)}, {labels.narrow(0, 0, rows)}, double(rows)},
                         &loss_of,
                         at::kCPU,
                         {.warm_up = 1, .repeats = 3});
  const auto halves = muster::pipeline::partition(
      costs, muster::pipeline::make_schedule("gpipe", {.stages = 2, .ranks = 2}).lists);
  const auto first = halves->first_block;
  std::fprintf(stderr, "the second stage begins with %s\n", blocks[size_t(first[1])].name.c_str());

  const auto pipeline_of = [&](int64_t micro_batches, const std::vector<at::Device>& devices) {
    const bool cut = devices.size() > 1;
    return mp::Pipeline(blocks,
                        devices,
                        &loss_of,
                        {.schedule = "gpipe",
                         .micro_batches = micro_batches,
                         .first_block = cut ? first : muster::pipeline::Split{0},
                         .threads_per_rank = 1});
  };
  mp::Pipeline alone = pipeline_of(1, {at::kCPU});
  double loss = 0, loss_of_halves = 0;
  const double one_device =
      milliseconds([&] { loss = alone.step({images}, {labels}).loss.item<double>(); });
  std::fprintf(stderr, "%.0f ms on one device\n", one_device);

  muster::track::Series measured{"measured", {}}, formula{"formula", {}};
  for (int64_t micro_batches = 1; micro_batches <= batch; micro_batches *= 2) {
    mp::Pipeline pipe = pipeline_of(micro_batches, {at::kCPU, at::kCPU});
    mp::PipelineStep step;
    const double m = double(micro_batches);
    measured.points.push_back({m, milliseconds([&] { step = pipe.step({images}, {labels}); })});
    // (M + P - 1) / M times half of the work, if micro-batches cost no more than their share.
    formula.points.push_back({m, one_device / 2 * (m + 1) / m});
    std::fprintf(stderr,
                 "%3.0f micro-batches: %.0f ms, by the formula %.0f\n",
                 m,
                 measured.points.back().y,
                 formula.points.back().y);
    if (micro_batches == 1) loss_of_halves = step.loss.item<double>();
    if (folder.empty() || (micro_batches != 1 && micro_batches != 8)) continue;
    const std::string title = name + ", " + std::to_string(micro_batches) + " micro-batches";
    std::ofstream(folder + "/step_of_" + std::to_string(micro_batches) + ".svg")
        << gantt_svg(step.timeline, {.title = title});
  }
  if (!folder.empty())
    std::ofstream(folder + "/split_sizes.svg") << muster::track::render_curves_svg(
        {.title = name + ": a step over two stages",
         .panels = {
             {.title = "ms a step", .series = {measured, formula}, .x_name = "micro-batches"}}});
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  std::printf(
      "%s, %lld images of %lld x %lld pixels: %zu parts in 2 stages, 1 to %.0f micro-batches\n",
      name.c_str(),
      number(batch),
      number(size),
      number(size),
      blocks.size(),
      measured.points.back().x);
  std::printf("cut in two, a batch that is not has the loss of one device: %s\n",
              std::abs(loss - loss_of_halves) < 1e-5 ? "yes" : "no");
}
