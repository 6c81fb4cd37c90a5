// Parameters that are trained otherwise than the rest: --freeze, --no-decay, Task::parameter_groups.
#include "muster/train/loop/parameter_groups.h"

#include <functional>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/loop/task_parts.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/loop/noted_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::expect_same_state;
using test::model_bytes;
using test::Ran;
using test::refusal_of;
using test::run;
using test::run_noted;
using test::small_run;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Tensors = std::map<std::string, torch::Tensor>;

train::TrainOptions small_cnn() {
  train::TrainOptions options = small_run();
  options.epochs = 1;
  return options;
}

Tensors tensors_of(const tensor::NamedTensorList& list) { return {list.begin(), list.end()}; }

/// The same tensors under the same names, in whatever order.
void expect_equal(const tensor::NamedTensorList& have,
                  const tensor::NamedTensorList& want,
                  const std::string& of) {
  const Tensors a = tensors_of(have), b = tensors_of(want);
  EXPECT_EQ(a.size(), b.size()) << of;
  for (const auto& [name, tensor] : b)
    EXPECT_TRUE(a.contains(name) && torch::equal(a.at(name), tensor)) << name << " of " << of;
}

/// The weights that a run with these options begins with.
Tensors start_of(const train::TrainOptions& options) {
  const train::TrainData data = train::open_data(options.data, {});
  const train::TrainPlan plan = train::resolve(options, {.cores = 2}, *data.train, *data.test);
  const auto task = train::make_seeded(train::classifier_maker(plan, false), options.seed);
  Tensors start;
  for (const auto& [name, tensor] : train::model_state(*task->module()))
    start[name] = tensor.detach().clone();
  return start;
}

TEST(MatchesName, IsAPartOfItOrAShellsPatternOfTheWhole) {
  EXPECT_TRUE(train::matches_name("bias", "fc1.bias"));
  EXPECT_TRUE(train::matches_name("fc1", "fc1.bias"));
  EXPECT_FALSE(train::matches_name("fc2", "fc1.bias"));
  EXPECT_TRUE(train::matches_name("layer?.*", "layer1.0.weight"));
  EXPECT_FALSE(train::matches_name("0.*", "layer1.0.weight"));
  EXPECT_TRUE(train::matches_name("layer[12].*", "layer2.0.weight"));
}

// One step of plain SGD: a decay of w moves a weight by lr * w * decay.
TEST(NoDecay, LeavesThatMuchOfTheStepOutOfWhatItNames) {
  train::TrainOptions options = small_cnn();
  options.optimizer = "sgd:momentum=0,weight_decay=0.25";
  options.lr = 0.1;
  options.max_steps = 1;
  const test::Folder with_folder, without_folder;
  const Tensors start = start_of(options);
  const Tensors with = tensors_of(run(options, 1, with_folder.path()).last.model);
  options.no_decay = "norm, bias";
  const Tensors without = tensors_of(run(options, 1, without_folder.path()).last.model);
  int64_t spared = 0;
  for (const auto& [name, first] : start) {
    if (!first.is_floating_point() || name.find("running") != name.npos) continue;
    // The zoo calls its normalisations bn1 and bn2: they are found by what they are.
    const bool is_spared = name.starts_with("bn") || name.ends_with("bias");
    spared += is_spared ? 1 : 0;
    const torch::Tensor more = without.at(name) - with.at(name);
    EXPECT_TRUE(torch::allclose(
        more, is_spared ? first * 0.25 * 0.1 : torch::zeros_like(first), 0, is_spared ? 1e-7 : 0))
        << name;
  }
  EXPECT_EQ(spared, 6);
}

TEST(Freeze, LeavesWeightsStatisticsAndOptimizerStateAloneUnderEveryStrategy) {
  train::TrainOptions options = small_cnn();
  options.freeze = "conv*,bn1";
  options.optimizer = "adamw";
  const Tensors start = start_of(options);
  for (const std::string strategy : {"single", "ddp", "zero1", "zero2", "fsdp", "pipeline"}) {
    options.strategy = strategy;
    const test::Folder folder;
    const Ran ran = run(options, strategy == "single" ? 1 : 2, folder.path());
    const Tensors end = tensors_of(ran.last.model);
    for (const auto& [name, first] : start) {
      const bool is_frozen = name.starts_with("conv") || name.starts_with("bn1");
      EXPECT_EQ(torch::equal(first, end.at(name)), is_frozen) << name << " with " << strategy;
    }
    EXPECT_FALSE(ran.last.optimizer.empty());
    for (const auto& [name, state] : ran.last.optimizer) {
      EXPECT_EQ(name.find("conv"), name.npos) << name;
      EXPECT_EQ(name.find("bn1"), name.npos) << name;
    }
  }
}

TEST(ParameterGroups, AreAlikeUnderEveryStrategy) {
  train::TrainOptions options = small_cnn();
  options.freeze = "conv1";
  options.no_decay = "norm,bias";
  options.batch_size = 12;
  options.lr = 0.003;
  options.gradient_clip_val = 0.0;
  options.lr_schedule = "one_cycle";
  for (const char* optimizer : {"sgd:weight_decay=0.1", "adamw:weight_decay=0.1"}) {
    options.optimizer = optimizer;
    for (const int ranks : {2, 3}) {
      options.strategy = "ddp";
      const test::Folder ddp_folder;
      const Ran ddp = run(options, ranks, ddp_folder.path());
      for (const char* strategy : {"zero1", "zero2"}) {
        options.strategy = strategy;
        const test::Folder folder;
        const Ran zero = run(options, ranks, folder.path());
        expect_equal(zero.last.model, ddp.last.model, strategy);
        expect_equal(zero.last.optimizer, ddp.last.optimizer, strategy);
      }
    }
  }
}

TEST(ParameterGroups, GoOnBitForBitAlsoBehindAValidationInsideTheEpoch) {
  train::TrainOptions options = small_cnn();
  options.freeze = "bn1";
  options.no_decay = "bias";
  options.optimizer = "adamw";
  const test::Folder plain, whole_folder, folder;
  run(options, 2, plain.path());
  options.val_check_interval = 3;
  const Ran whole = run(options, 2, whole_folder.path());
  EXPECT_EQ(model_bytes(whole_folder.path()), model_bytes(plain.path()));
  run(options, 2, folder.path(), {}, 7);
  const Ran resumed = run(options, 2, folder.path(), train::find_checkpoint(folder.path()));
  expect_same_state(resumed.last, whole.last);
}

TEST(ParameterGroups, OfAnotherRunAreRefusedOnResume) {
  train::TrainOptions options = small_cnn();
  options.no_decay = "norm";
  const test::Folder folder;
  run(options, 1, folder.path(), {}, 3);
  options.no_decay = "norm,bias";
  EXPECT_THAT(refusal_of([&] { run_noted(options, folder.path(), folder.path()); }),
              AllOf(HasSubstr("--resume: a run goes on with the parameter groups"),
                    HasSubstr("6 with rules of their own; before 0 parameters frozen, 4 with")));
  train::TrainOptions none = small_cnn();
  EXPECT_THAT(refusal_of([&] { run_noted(none, folder.path(), folder.path()); }),
              HasSubstr("all parameters trained alike; before"));
  EXPECT_THAT(refusal_of([&] {
                train::take_over(train::load_checkpoint(folder.path()).plan, {"no_decay"}, options);
              }),
              HasSubstr("no_decay was norm, now norm,bias"));
}

TEST(ParameterGroups, AreSaidAndRefusedWhereTheyMeanNothing) {
  train::TrainOptions options = small_cnn();
  options.max_steps = 1;
  options.freeze = "bn1";
  options.no_decay = "bias";
  options.optimizer = "adamw";
  const test::Folder folder, other;
  EXPECT_THAT(
      run_noted(options, folder.path()).notes,
      Contains("of 10 parameter tensors 2 frozen, 5 trained, 3 trained with weight decay 0; "
               "1 frozen normalisation keeps its statistics"));
  options.freeze = "bn3";
  EXPECT_THAT(refusal_of([&] { run_noted(options, other.path()); }),
              AllOf(HasSubstr("--freeze: each pattern is like a parameter of the module (got bn3)"),
                    HasSubstr("conv1.weight")));
  options.freeze = "*";
  EXPECT_THAT(refusal_of([&] { run_noted(options, other.path()); }),
              HasSubstr("--freeze: some parameters are left to train"));
  EXPECT_TRUE(fs::is_empty(other.path()));
}

/// Two layers; the first one is a group of its own.
class Layers final : public train::Task {
 public:
  using Groups = std::function<std::vector<train::ParameterGroup>(torch::nn::Sequential& net)>;

  explicit Layers(Groups groups)
      : groups_(std::move(groups)),
        net_(torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 1)) {}

  std::string name() const override { return "layers"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<train::ParameterGroup> parameter_groups() override { return groups_(net_); }
  train::StepResult train_step(const data::Batch& batch, const train::StepContext&) override {
    return {.loss = torch::mse_loss(net_->forward(batch["data"]), batch["target"]), .values = {}};
  }

 private:
  Groups groups_;
  torch::nn::Sequential net_;
};

std::pair<torch::Tensor, torch::Tensor> line_data() {
  torch::manual_seed(3);
  const torch::Tensor x = torch::rand({24, 3});
  return {x, x.sum(1, /*keepdim=*/true).sin()};
}

train::FitPlan plan_for_layers(const train::FitOptions& options,
                               const train::FitData& data,
                               int64_t ranks) {
  train::FitPlan plan;
  plan.options = options;
  static_cast<train::FitNumbers&>(plan) = train::resolve_fit(
      plan.options, {.world_size = ranks, .cores = 2, .intraop_threads = 1}, data.facts(), {});
  plan.record = train::to_json(plan.options, plan);
  return plan;
}

// All samples are in one batch, so that the order of samples does not matter.
TEST(ParameterGroups, OfATaskTrainAsTorchsOptimizerWithGroups) {
  const auto [x, y] = line_data();
  const train::FitData data{.train = std::make_shared<data::TensorDataset>(x, y)};
  const auto groups = [](torch::nn::Sequential& net) {
    return std::vector<train::ParameterGroup>{{.name = "first",
                                               .parameters = net->ptr(0)->parameters(),
                                               .lr_factor = 0.1,
                                               .weight_decay = 0.5}};
  };
  const train::TaskMaker make = [&] { return std::make_unique<Layers>(groups); };
  train::FitOptions options;
  options.optimizer = "sgd:momentum=0.9,weight_decay=0.01";
  options.lr = 0.2;
  options.epochs = 20;
  options.batch_size = 24;
  options.workers = 0;

  const auto twin = train::make_seeded(make, options.seed);
  const auto net = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(twin->module());
  ASSERT_NE(net, nullptr);
  const auto sgd = [](double lr, double decay) {
    return std::make_unique<torch::optim::SGDOptions>(
        torch::optim::SGDOptions(lr).momentum(0.9).weight_decay(decay));
  };
  torch::optim::SGD optimizer(
      {torch::optim::OptimizerParamGroup(net->ptr(0)->parameters(), sgd(0.02, 0.5)),
       torch::optim::OptimizerParamGroup(net->ptr(2)->parameters(), sgd(0.2, 0.01))},
      torch::optim::SGDOptions(0.2));
  for (int64_t step = 0; step < options.epochs; ++step) {
    optimizer.zero_grad();
    torch::mse_loss(net->forward(x), y).backward();
    optimizer.step();
  }
  for (const std::string strategy : {"ddp", "zero1", "zero2"}) {
    options.strategy = strategy;
    const test::Folder folder;
    testing::run_ranks(2, [&](distributed::ProcessGroup group) {
      const train::FitPlan plan = plan_for_layers(options, data, 2);
      train::fit({.task = make, .data = data, .plan = plan, .output = folder.path()}, group);
    });
    const Tensors end = tensors_of(train::load_checkpoint(folder.path()).model);
    for (const auto& item : net->named_parameters())
      EXPECT_TRUE(torch::allclose(end.at(item.key()), item.value(), 1e-5, 1e-6))
          << item.key() << " with " << strategy;
  }
}

TEST(ParameterGroups, OfATaskThatMakeNoSenseAreRefusedOnAllRanks) {
  const auto [x, y] = line_data();
  const train::FitData data{.train = std::make_shared<data::TensorDataset>(x, y)};
  train::FitOptions options;
  options.batch_size = 24;
  options.workers = 0;
  const auto refused = [&](const std::function<std::vector<train::ParameterGroup>(
                               torch::nn::Sequential&, int rank)>& groups) {
    const test::Folder folder;
    std::vector<std::string> errors(2);
    testing::run_ranks(2, [&](distributed::ProcessGroup group) {
      const train::FitPlan plan = plan_for_layers(options, data, 2);
      const int rank = group.rank();
      errors[rank] = refusal_of([&] {
        const auto make = [&] {
          return std::make_unique<Layers>(
              [&](torch::nn::Sequential& net) { return groups(net, rank); });
        };
        train::fit({.task = make, .data = data, .plan = plan, .output = folder.path()}, group);
      });
    });
    EXPECT_EQ(errors[0], errors[1]);
    return errors[0];
  };
  using Groups = std::vector<train::ParameterGroup>;
  EXPECT_THAT(refused([](torch::nn::Sequential& net, int) {
                const auto all = net->parameters();
                return Groups{{.name = "a", .parameters = all}, {.name = "b", .parameters = all}};
              }),
              HasSubstr("parameter group \"b\": a parameter is in one group"));
  EXPECT_THAT(refused([](torch::nn::Sequential&, int) {
                return Groups{{.name = "a", .parameters = {torch::ones({3})}}};
              }),
              HasSubstr("parameter group \"a\": its parameters are the module's"));
  EXPECT_THAT(refused([](torch::nn::Sequential& net, int) {
                return Groups{{.name = "a", .parameters = net->parameters(), .lr_factor = -1}};
              }),
              HasSubstr("its lr_factor is not negative"));
  EXPECT_THAT(refused([](torch::nn::Sequential& net, int rank) {
                return Groups{{.name = "a",
                               .parameters = net->ptr(0)->parameters(),
                               .lr_factor = rank == 0 ? 1.0 : 0.5}};
              }),
              HasSubstr("all ranks train the same parameters alike"));
  EXPECT_THAT(refused([](torch::nn::Sequential& net, int) {
                return Groups{{.name = "a", .parameters = net->parameters(), .frozen = true}};
              }),
              HasSubstr("some parameters are left to train"));
}

}  // namespace
}  // namespace muster
