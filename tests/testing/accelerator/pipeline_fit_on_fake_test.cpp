// --strategy pipeline on fake devices: the CPU's bits, what a budget of activations leaves, and a model
// that one device does not hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/tensor/unit_call.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/resolve.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::train {
namespace {

using muster::testing::FakeAccelerator;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kRowWidth = 192, kRowLayers = 8, kRowTanhs = 6;
constexpr int64_t kRowLayerBytes = 4 * kRowWidth * kRowWidth;

struct RowLayerImpl : torch::nn::Module {
  RowLayerImpl()
      : linear(register_module(
            "linear",
            torch::nn::Linear(torch::nn::LinearOptions(kRowWidth, kRowWidth).bias(false)))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = linear->forward(x);
    for (int i = 0; i < kRowTanhs; ++i) y = y.tanh();  // activations
    return y;
  }
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(RowLayer);

struct RowNetImpl : torch::nn::Module, tensor::HasUnits {
  RowNetImpl() {
    for (int64_t i = 0; i < kRowLayers; ++i)
      layers.push_back(register_module(concat("layer", i), RowLayer()));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (size_t i = 0; i < layers.size(); ++i)
      x = tensor::call_unit(concat("layer", i), layers[i], x);
    return x;
  }
  std::vector<tensor::ChainedUnit> chain() override {
    std::vector<tensor::ChainedUnit> chain;
    for (size_t i = 0; i < layers.size(); ++i)
      chain.push_back(tensor::chained_unit(concat("layer", i), layers[i]));
    return chain;
  }
  std::vector<RowLayer> layers;
};
TORCH_MODULE(RowNet);

class RowTask final : public Task {
 public:
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    return {torch::mse_loss(net_->forward(batch["x"]), batch["x"])};
  }

 private:
  RowNet net_;
};

FitData rows_for_fake(int64_t samples) {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  const auto rows = std::make_shared<data::TensorDataset>(
      tensor::NamedTensorList{{"x", torch::rand({samples, kRowWidth}, generator)}});
  return {.train = rows, .test = rows};
}

struct RowRun {
  std::string strategy = "pipeline:split=0/4";
  std::string again = "off";
  int world = 2;
  bool on_cpu = false;
  int64_t samples = 64;                       // one batch
  std::vector<std::string>* notes = nullptr;  // rank 0's
  bool shares_device = false;
};

/// The last checkpoint of three steps with Adam.
Checkpoint trained(const RowRun& run) {
  const test::Folder folder;
  FitResult result;
  testing::run_ranks(run.world, [&](const distributed::ProcessGroup& group) {
    FitOptions options;
    options.epochs = 3;
    options.batch_size = run.samples;
    options.workers = 0;
    options.optimizer = "adam";
    options.tensorboard = "off";
    options.strategy = run.strategy;
    options.activation_checkpointing = run.again;
    const FitData data = rows_for_fake(run.samples);
    FitPlan plan;
    static_cast<FitNumbers&>(plan) =
        resolve_fit(options,
                    {.world_size = run.world, .local_world_size = run.world, .cores = 2},
                    data.facts(),
                    {});
    plan.options = options;
    plan.threads = run.world;  // a device for each
    plan.devices.clear();
    for (int rank = 0; rank < run.world; ++rank)
      plan.devices.push_back(run.on_cpu ? c10::Device(c10::kCPU)
                                        : FakeAccelerator::device(run.shares_device ? 0 : rank));
    plan.record = to_json(options, plan);
    FitRequest request{.task = [] { return std::make_unique<RowTask>(); },
                       .data = data,
                       .plan = plan,
                       .output = folder.path()};
    if (run.notes != nullptr && group.rank() == 0)
      request.callbacks.note = [&](const std::string& line) { run.notes->push_back(line); };
    FitResult own = fit(request, group);
    if (group.rank() == 0) result = std::move(own);
  });
  return read_checkpoint(result.checkpoint);
}

void expect_same_bits(const Checkpoint& a, const Checkpoint& b) {
  ASSERT_EQ(a.model.size(), b.model.size());
  for (size_t i = 0; i < a.model.size(); ++i)
    EXPECT_TRUE(test::same_bits(a.model[i].second, b.model[i].second)) << a.model[i].first;
}

TEST(PipelineFitOnFake, HasTheNumbersOfTheCpuWithoutARace) {
  const FakeAccelerator fake({.devices = 2, .poison = true});
  for (const char* strategy : {"pipeline:split=0/4", "pipeline:split=0/4,schedule=zb1p"}) {
    const Checkpoint expected = trained({.strategy = strategy, .on_cpu = true});
    expect_same_bits(trained({.strategy = strategy}), expected);
    expect_same_bits(trained({.strategy = strategy, .again = "blocks"}), expected);
  }
  expect_same_bits(trained({.strategy = "pipeline:split=0,ranks=1"}),
                   trained({.strategy = "pipeline:split=0,ranks=1", .on_cpu = true}));
}

// Weights, gradients and Adam's state are 16 bytes per parameter: too many for one device, and half
// of them are not.
TEST(PipelineFitOnFake, TrainsAModelOnTwoDevicesThatOneDoesNotHold) {
  const int64_t all = 4 * kRowLayers * kRowLayerBytes;
  const FakeAccelerator fake({.devices = 2, .bytes_per_device = all * 8 / 10});
  EXPECT_THAT(test::error_of([] { trained({.strategy = "ddp"}); }), HasSubstr("out of memory"));
  EXPECT_NO_THROW(trained({}));
  EXPECT_NO_THROW(trained({.strategy = "pipeline"}));  // units are measured one by one
}

// With all that units keep no cut fits, nor does the one that wants least; with units that run again
// there is room, and that is what is predicted, also where a budget follows from the cut.
TEST(PipelineFitOnFake, PlansUnitsThatRunAgainAsTheyRun) {
  constexpr int64_t kSamples = 1024, kBytes = int64_t{9} << 20;
  const auto seen = [&](const char* rule, std::vector<std::string>& notes) {
    const FakeAccelerator fake({.devices = 2, .bytes_per_device = kBytes});
    return trained({.strategy = "pipeline", .again = rule, .samples = kSamples, .notes = &notes});
  };
  std::vector<std::string> notes;
  EXPECT_THAT(test::error_of([&] { seen("off", notes); }), HasSubstr("out of memory"));
  EXPECT_THAT(notes,
              Contains(AllOf(HasSubstr("no cut fits into the memory that is free"),
                             HasSubstr("--activation-checkpointing blocks may keep less"))));
  for (const char* rule : {"blocks", "budget:3584KiB,offload=off"}) {
    SCOPED_TRACE(rule);
    notes.clear();
    const Checkpoint end = seen(rule, notes);
    EXPECT_THAT(notes, Contains(HasSubstr("units run again")));
    EXPECT_THAT(notes, Not(Contains(HasSubstr("the memory that is free"))));
    for (const Json& stage : end.loop.at("strategy").at("predicted"))
      EXPECT_LE(stage.at(3).get<double>(), 0.95 * static_cast<double>(kBytes));
  }
}

// Beside what the plan says a rank holds stands what its allocator has counted: within a tenth, and
// the gradients that wait at their sender until the other rank takes them, which is the clock's affair.
TEST(PipelineFitOnFake, MeasuresTheBytesThatArePlanned) {
  constexpr int64_t kSamples = 1024;
  constexpr double kLetters = 2. * 4 * kRowWidth * (kSamples / 4);
  for (const char* rule : {"off", "blocks"}) {
    const FakeAccelerator fake({.devices = 2});
    const Checkpoint end = trained({.strategy = "pipeline", .again = rule, .samples = kSamples});
    const Json& record = end.loop.at("strategy");
    ASSERT_EQ(record.at("measured").size(), 2U) << rule;
    for (size_t stage = 0; stage < 2; ++stage) {
      const Json& measured = record.at("measured").at(stage);
      const double planned = record.at("predicted").at(stage).at(3).get<double>();
      EXPECT_NEAR(measured.at(3).get<double>(), planned, 0.1 * planned + kLetters)
          << rule << ", stage " << stage;
      EXPECT_EQ(measured.at(0).get<double>(), 0) << "without a drawing nobody waits for the device";
    }
  }
}

// Of ranks that share a device nobody knows whose the bytes are.
TEST(PipelineFitOnFake, MeasuresNoBytesOfASharedDevice) {
  const FakeAccelerator fake({.devices = 1});
  const Checkpoint end = trained({.strategy = "pipeline", .shares_device = true});
  EXPECT_FALSE(end.loop.at("strategy").contains("measured"));
}

// A rank's budget is of all micro-batches that it has under way: two of four on the first rank.
TEST(PipelineFitOnFake, KeepsActivationsWithinABudget) {
  constexpr int64_t kSamples = 1024;
  const auto peak = [](const std::string& rule) {
    FakeAccelerator fake({.devices = 2});
    trained({.again = rule, .samples = kSamples});
    return static_cast<double>(fake.memory(0).peak);
  };
  const double tensor = 4 * kRowWidth * (kSamples / 4);  // of a micro-batch
  // What a layer keeps is its input, and what each tanh made.
  const double kept = 2 * tensor * (kRowTanhs + 1) * (kRowLayers / 2);
  // Weights, gradients, Adam's state; the batch; and what operations take while they run.
  const double beside = (4 * kRowLayers / 2 * kRowLayerBytes) + (4 * tensor) + (5 * tensor);
  const double off = peak("off"), all = peak("blocks");
  EXPECT_LT(all, off - (kept / 2));
  for (const double share : {0.5, 0.75}) {
    // Which way is faster would be the clock's.
    const double within =
        peak(concat("budget:", static_cast<int64_t>(share * kept), ",offload=off"));
    EXPECT_LE(within, beside + (share * kept)) << share;
    EXPECT_GT(within, all) << share;
  }
}

// By a rate that is given: a way to the host that costs nothing is taken before any forward runs again,
// on each stage that does not fit otherwise, and one that costs all is not.
TEST(PipelineFitOnFake, LetsActivationsWaitOnTheHostWhereThatIsCheaper) {
  constexpr int64_t kSamples = 1024;
  const double tensor = 4 * kRowWidth * (kSamples / 4);
  const auto kept = static_cast<int64_t>(2 * tensor * (kRowTanhs + 1) * (kRowLayers / 2));
  struct Seen {
    double first, last;  // peaks of the ranks
    Checkpoint end;
  };
  const auto run = [&](const std::string& rule) {
    FakeAccelerator fake({.devices = 2});
    Checkpoint end = trained({.again = rule, .samples = kSamples});
    return Seen{static_cast<double>(fake.memory(0).peak),
                static_cast<double>(fake.memory(1).peak),
                std::move(end)};
  };
  const Seen off = run("off");
  const Seen both = run(concat("budget:", kept * 7 / 10, ",offload=1000000GiB"));
  const Seen dear = run(concat("budget:", kept * 7 / 10, ",offload=1"));
  const Seen one = run(concat("budget:", kept * 7 / 10, '/', 4 * kept, ",offload=1000000GiB"));
  expect_same_bits(both.end, off.end);
  expect_same_bits(dear.end, off.end);
  expect_same_bits(one.end, off.end);
  EXPECT_LT(both.first, off.first - (0.2 * static_cast<double>(kept)));
  EXPECT_LT(dear.first, off.first - (0.1 * static_cast<double>(kept)));
  EXPECT_LT(one.first, off.first - (0.2 * static_cast<double>(kept)));
  EXPECT_NEAR(one.last / off.last, 1, 0.05);  // it has room
  EXPECT_THAT(test::error_of([&] { run("budget:1GiB/1GiB/1GiB"); }),
              HasSubstr("one budget for each stage, of which there are 2 (got 3 budgets)"));
}

int64_t number_behind(const std::string& text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == std::string::npos) return 0;
  const std::string_view behind = std::string_view(text).substr(at + words.size());
  return to_int(behind.substr(0, behind.find_first_not_of("0123456789"))).value_or(0);
}

// Of many micro-batches under way a rank that lets them wait on the host needs less than one that runs
// all of its units again.
TEST(PipelineFitOnFake, ARefusedBudgetNamesTheLeastThatTrains) {
  const auto error = [](const std::string& rule) {
    const FakeAccelerator fake({.devices = 2});
    return test::error_of([&] {
      trained({.strategy = "pipeline:split=0/4,schedule=gpipe,micro_batches=16",
               .again = rule,
               .samples = 1024});
    });
  };
  const auto least_with = [&](const std::string& offload, const std::string& budgets) {
    return number_behind(error(concat("budget:", budgets, ",offload=", offload)), "take budget:");
  };
  const int64_t off = least_with("off", "1KiB"), on = least_with("1000000GiB", "1KiB");
  EXPECT_GT(on, 1024);
  EXPECT_LT(on, off);
  EXPECT_THAT(error("budget:1KiB,offload=off"),
              HasSubstr(concat("take budget:",
                               off,
                               ",offload=off or more, budget:",
                               on,
                               " with activations on the host, or a smaller batch")));
  for (const auto& [least, offload] : {std::pair(off, "off"), std::pair(on, "1000000GiB")}) {
    EXPECT_EQ(error(concat("budget:", least, ",offload=", offload)), test::kNoError);
    EXPECT_THAT(error(concat("budget:", least - 1, ",offload=", offload)),
                HasSubstr(concat("they need ", least, " bytes at least")));
  }
  // Of each stage: one that is large enough stays.
  const std::string each = error(concat("budget:1KiB/", 2 * on, ",offload=1000000GiB"));
  EXPECT_THAT(each, HasSubstr("activations of stage 0 on rank 0: "));
  EXPECT_THAT(
      each,
      ::testing::ContainsRegex(concat(
          "take budget:[0-9]+/", 2 * on, ",offload=1000000GiB or more, or a smaller batch")));
}

}  // namespace
}  // namespace muster::train
