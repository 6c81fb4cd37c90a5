// A consumer of the torch rooms: a dataset and a model by name, two thread ranks with
// DistributedDataParallel, a checkpoint of the result. The two ranks must end where one rank ends
// on the whole batches.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "muster/base.h"
#include "muster/data.h"
#include "muster/models.h"
#include "muster/parallel.h"
#include "muster/testing.h"
#include "muster/train.h"

namespace {

constexpr int64_t kSteps = 4;
constexpr int64_t kBatch = 8;

using ModelPtr = std::shared_ptr<muster::models::Classifier>;

void expect(bool holds, const std::string& what) {
  if (!holds)
    throw muster::internal_error({.refused = what, .rule = "a consumer's program expects it"});
}

std::shared_ptr<const muster::data::Dataset> open_data() {
  return muster::data::datasets()
      .at("synthetic")
      .open({.params = {{"samples", "32"}, {"size", "8"}}});
}

ModelPtr make_model(const muster::data::DataSpec& spec) {
  torch::manual_seed(7);
  return muster::models::make_model("mlp",
                                    {.channels = spec.channels(),
                                     .height = spec.height(),
                                     .width = spec.width(),
                                     .classes = spec.classes},
                                    {{"hidden", "16"}});
}

/// Trains `model` on each rank's share of the batches: rows rank, rank + world, … of each.
void train(const muster::distributed::ProcessGroup& group, const ModelPtr& model) {
  const auto data = open_data();
  muster::parallel::DistributedDataParallel ddp(model, group);
  torch::optim::SGD optimizer(ddp.parameters(), 0.1);
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<int64_t> rows;
    for (int64_t row = group.rank(); row < kBatch; row += group.world_size())
      rows.push_back(step * kBatch + row);
    const muster::data::Batch batch = data->get(rows);
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(ddp->forward(batch["data"]), batch["target"]).backward();
    optimizer.step();
  }
}

ModelPtr trained_on(int ranks) {
  const auto data = open_data();
  std::vector<ModelPtr> models;
  for (int rank = 0; rank < ranks; ++rank) models.push_back(make_model(data->spec()));
  muster::testing::run_ranks(
      ranks, [&](muster::distributed::ProcessGroup group) { train(group, models[group.rank()]); });
  return models.back();
}

void run(const std::string& folder) {
  const ModelPtr two = trained_on(2);
  const ModelPtr one = trained_on(1);
  muster::train::Checkpoint checkpoint{
      .position = {.step = kSteps}, .world_size = 2, .global_batch = kBatch};
  for (const auto& item : two->named_parameters()) {
    const at::Tensor expected = one->named_parameters()[item.key()];
    expect(at::allclose(item.value(), expected, 1e-5, 1e-6), item.key() + " as on one rank");
    checkpoint.model.emplace_back(item.key(), item.value().detach());
  }

  const auto written = muster::train::write_checkpoint(folder, checkpoint);
  const auto read = muster::train::read_checkpoint(muster::train::find_checkpoint(folder));
  expect(written.filename() == "step-4" && read.position.step == kSteps, "the checkpoint's step");
  expect(read.model.size() == checkpoint.model.size(), "the checkpoint's tensors");
  for (size_t i = 0; i < read.model.size(); ++i)
    expect(at::equal(read.model[i].second, checkpoint.model[i].second), read.model[i].first);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    run(argv[1]);
    std::puts("two ranks: ok");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
