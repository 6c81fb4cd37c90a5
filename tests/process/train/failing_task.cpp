// A task whose own code fails where it is told to, on one rank: `muster_failing_task --at WHAT`, with
// `muster train`'s flags. WHAT:
//     maker, sample, train_step, loss, metric, evaluate_step
//     never      a sample that does not come
//     nan        the metric is NaN instead
//     index      a target that is no class, of which a device says nothing but an assertion
//     gradient   the gradient of a square root is NaN, and the loss is not
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "muster/data.h"
#include "muster/testing.h"
#include "muster/train.h"

namespace md = muster::data;
namespace mt = muster::train;

namespace {

constexpr int64_t kRows = 48, kHeldOut = 16;
constexpr int64_t kBadSample = 29;  // in the second half of the first epoch's order on either rank

/// What fails, on which rank, and in which step.
struct Fault {
  std::string at;
  int64_t on = 1;
  int64_t step = 3;

  bool is(const std::string& what) const {
    const char* rank = std::getenv("RANK");
    return at == what && std::to_string(on) == (rank == nullptr ? "0" : rank);
  }
  void fail(const std::string& what) const {
    if (is(what)) throw std::runtime_error("no more " + what);
  }
};

class Failing final : public mt::Task {
 public:
  Failing(Fault fault, double dropout)
      : fault_(std::move(fault)),
        net_(torch::nn::Linear(3, 8),
             torch::nn::Tanh(),
             torch::nn::Dropout(dropout),
             torch::nn::Linear(8, 1)) {
    fault_.fail("maker");
  }

  std::string name() const override { return "failing"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<mt::Metric> metrics() const override { return {{.name = "error"}}; }
  mt::StepResult train_step(const md::Batch& batch, const mt::StepContext& at) override {
    const bool now = at.phase != mt::Phase::kTrain || at.step + 1 >= fault_.step;
    if (now) fault_.fail(at.phase == mt::Phase::kTrain ? "train_step" : "evaluate_step");
    const torch::Tensor error = net_->forward(batch["data"]).squeeze(1) - batch["target"];
    if (now && fault_.is("index")) {  // two classes, of which the target is the eighth
      const torch::Tensor scores = torch::stack({error, -error}, 1);
      const torch::Tensor target =
          torch::full({error.size(0)}, 7, scores.options().dtype(at::kLong));
      return {.loss = torch::cross_entropy_loss(scores, target)};
    }
    torch::Tensor loss = error.pow(2).mean();
    if (now && fault_.is("gradient")) loss = loss + 0 * (error - error).sqrt().sum();
    const torch::Tensor sum = error.detach().abs().sum();
    return {.loss = now && fault_.is("loss") ? loss.detach() : loss,
            .values = {{now && fault_.is("metric") ? "eror" : "error",
                        now && fault_.is("nan") ? sum * std::nan("") : sum,
                        {}}}};
  }

 private:
  Fault fault_;
  torch::nn::Sequential net_;
};

/// Rows, of which one cannot be read.
class Rows final : public md::Dataset {
 public:
  Rows(Fault fault, int64_t size) : fault_(std::move(fault)), size_(size) {}

  int64_t size() const override { return size_; }
  md::DataSpec spec() const override { return {.sample_shape = {3}}; }
  uint32_t fingerprint() const override { return 0; }  // else all are read before the ranks meet

 private:
  md::Batch load(std::span<const int64_t> indices, const md::SampleContext&) const override {
    const auto rows = static_cast<int64_t>(indices.size());
    torch::Tensor data = torch::empty({rows, 3});
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t index = indices[static_cast<size_t>(row)];
      if (index == kBadSample) fault_.fail("sample");
      while (index == kBadSample && fault_.is("never"))
        std::this_thread::sleep_for(std::chrono::seconds(1));
      for (int64_t column = 0; column < 3; ++column)
        data[row][column] = std::sin(static_cast<double>(3 * index + column));
    }
    return {.tensors = {{"data", data}, {"target", data.sum(1).sin()}},
            .indices = {indices.begin(), indices.end()}};
  }

  Fault fault_;
  int64_t size_;
};

}  // namespace

int main(int argc, char** argv) {
  Fault fault;
  double dropout = 0;
  mt::TaskProgram program("failing", "Fails where it is told to.");
  program.devices.push_back(muster::testing::kFakeDevices);
  program.flag("--at", &fault.at, "what fails");
  program.flag("--on", &fault.on, "on which rank");
  program.flag("--dropout", &dropout, "of LibTorch's Dropout");
  program.options.epochs = 2;
  program.options.batch_size = 12;
  program.options.workers = 0;
  program.options.tensorboard = "off";
  return program.run(argc, argv, [&] {
    return mt::TaskParts{.data = {.train = std::make_shared<Rows>(fault, kRows),
                                  .validation = std::make_shared<Rows>(Fault(), kHeldOut),
                                  .test = std::make_shared<Rows>(Fault(), kHeldOut)},
                         .task = [&] { return std::make_unique<Failing>(fault, dropout); }};
  });
}
