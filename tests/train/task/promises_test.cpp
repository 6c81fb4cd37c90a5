// What a task and its data promise, and what is said where they do not keep it.
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/dataset.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/task/own_fit.h"

namespace muster::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using train::TaskPart;

/// Two layers, and the parts that a test makes of them.
class Parted final : public Task {
 public:
  using Parts = std::function<std::vector<TaskPart>(torch::nn::Sequential& net)>;
  explicit Parted(Parts parts) : parts_(std::move(parts)) {}
  std::string name() const override { return "parted"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<TaskPart> parts() override { return parts_(net_); }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    return {torch::mse_loss(net_->forward(batch["x"]).squeeze(1), batch["y"])};
  }

 private:
  Parts parts_;
  torch::nn::Sequential net_{torch::nn::Linear(3, 3), torch::nn::Linear(3, 1)};
};

std::string error_of_parts(const Parted::Parts& parts) {
  const Folder folder;
  return error_of([&] {
    run_own(small_own(),
            1,
            {.train = numbers()},
            always([&] { return std::make_unique<Parted>(parts); }),
            folder.path());
  });
}

TEST(TaskParts, ThatShareAParameterOrHaveOthersThanTheModuleAreRefused) {
  const auto first = [](torch::nn::Sequential& net) { return net[0]; };
  EXPECT_EQ(error_of_parts([&](auto& net) {
              return std::vector<TaskPart>{{"x", first(net)}, {"y", net[1]}};
            }),
            kNoError);
  EXPECT_THAT(error_of_parts([&](auto& net) {
                return std::vector<TaskPart>{{"x", first(net)}, {"y", first(net)}};
              }),
              HasSubstr("task parted: part \"y\": a parameter is in one part (got 0.weight is in "
                        "\"x\" too)"));
  EXPECT_THAT(error_of_parts([&](auto& net) {
                return std::vector<TaskPart>{{"all", net.ptr()}, {"y", net[1]}};
              }),
              HasSubstr("part \"y\": a parameter is in one part (got 1.weight is in \"all\" too)"));
  const torch::nn::Linear other(3, 1);
  EXPECT_THAT(error_of_parts([&](auto& net) {
                return std::vector<TaskPart>{{"x", first(net)}, {"other", other.ptr()}};
              }),
              HasSubstr("part \"other\": its parameters are those of the task's module (got its "
                        "own weight)"));
  EXPECT_THAT(error_of_parts([&](auto& net) {
                return std::vector<TaskPart>{{"x", first(net)}, {"none", torch::nn::ReLU().ptr()}};
              }),
              HasSubstr("part \"none\": it has parameters (got none)"));
}

/// A weight under two names.
struct Tied final : torch::nn::Module {
  Tied() {
    weight = register_parameter("weight", torch::ones({3}));
    register_module("again", again);
    again->register_parameter("weight", weight);
  }
  torch::Tensor weight;
  std::shared_ptr<torch::nn::Module> again = std::make_shared<torch::nn::Module>("again");
};

class TiedPart final : public Task {
 public:
  std::shared_ptr<torch::nn::Module> module() override { return net_; }
  std::vector<TaskPart> parts() override { return {{"all", net_}}; }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    return {torch::mse_loss(batch["x"].mv(net_->weight), batch["y"])};
  }

 private:
  std::shared_ptr<Tied> net_ = std::make_shared<Tied>();
};

TEST(TaskParts, MayHaveAParameterUnderTwoNames) {
  const Folder folder;
  EXPECT_EQ(error_of([&] {
              run_own(small_own(), 1, {.train = numbers()}, maker<TiedPart>(), folder.path());
            }),
            kNoError);
}

TEST(TaskParts, WhatIsInNoneIsSaid) {
  const auto notes = [](const Parted::Parts& parts) {
    const Folder folder;
    std::string said;
    testing::run_ranks(1, [&](const distributed::ProcessGroup& group) {
      train::fit({.task = [&] { return std::make_unique<Parted>(parts); },
                  .data = {.train = numbers()},
                  .plan = planned(small_own(), 1, {.train = numbers()}, {}),
                  .output = folder.path(),
                  .callbacks = {.note = [&](const std::string& line) { said += line + '\n'; }}},
                 group);
    });
    return said;
  };
  EXPECT_THAT(notes([](auto& net) {
                return std::vector<TaskPart>{{"x", net[1]}};
              }),
              HasSubstr("in no part, and so not trained: 2 parameter tensors (0.weight, 0.bias)"));
  EXPECT_THAT(notes([](auto&) { return std::vector<TaskPart>(); }),
              ::testing::Not(HasSubstr("in no part")));
}

/// Makes its module anew each time.
class Renewed final : public Line {
 public:
  std::shared_ptr<torch::nn::Module> module() override { return torch::nn::Linear(3, 1).ptr(); }
};

TEST(OwnTask, WhoseModuleIsAnotherOneEachTimeIsRefused) {
  const Folder folder;
  EXPECT_THAT(error_of([&] {
                run_own(small_own(), 1, {.train = numbers()}, maker<Renewed>(), folder.path());
              }),
              HasSubstr("task line: module() gives the same object each time"));
}

/// The samples of another one, with whatever a test does to its batches.
class Spoiled final : public data::Dataset {
 public:
  using Spoil = std::function<void(data::Batch& batch)>;
  explicit Spoiled(Spoil spoil) : spoil_(std::move(spoil)) {}
  int64_t size() const override { return whole_->size(); }
  data::DataSpec spec() const override { return whole_->spec(); }

 private:
  data::Batch load(std::span<const int64_t> indices,
                   const data::SampleContext& context) const override {
    data::Batch batch = whole_->get(indices, context);
    spoil_(batch);
    return batch;
  }

  std::shared_ptr<const data::Dataset> whole_ = numbers();
  Spoil spoil_;
};

// Samples counted as none, and one row as eight: the run went on.
TEST(OwnData, ThatGivesOtherSamplesOrRowsThanAskedForIsRefused) {
  const auto error = [](const Spoiled::Spoil& spoil) {
    const Folder folder;
    return error_of([&] {
      run_own(small_own(),
              1,
              {.train = std::make_shared<Spoiled>(spoil)},
              maker<Line>(),
              folder.path());
    });
  };
  EXPECT_EQ(error([](data::Batch&) {}), kNoError);
  EXPECT_THAT(error([](data::Batch& batch) { batch.indices.clear(); }),
              AllOf(HasSubstr("Batch::indices are those that were asked for (got 0 indices for "),
                    HasSubstr("say .indices = {indices.begin(), indices.end()}")));
  EXPECT_THAT(error([](data::Batch& batch) { batch["x"] = batch["x"].narrow(0, 0, 1); }),
              HasSubstr("tensor \"x\" has a row for each of "));
}

/// A metric that counts in the validations of some epochs.
class Counted final : public Line {
 public:
  explicit Counted(int64_t until) : until_(until) {}
  std::vector<Metric> metrics() const override { return {{.name = "rare", .wants_less = true}}; }
  StepResult train_step(const data::Batch& batch, const StepContext& context) override {
    StepResult result = Line::train_step(batch, context);
    const bool counts = context.phase == train::Phase::kTrain || context.step < until_;
    result.values = {{"rare", batch["x"].sum(), counts ? 1.0 : 0.0}};
    return result;
  }

 private:
  int64_t until_;
};

TEST(OwnTask, AValidationThatCountsNothingOfWhatJudgesTheRunEndsItAndKeepsTheEpoch) {
  for (const int world : {1, 2}) {
    const Folder folder;
    FitOptions options = small_own();
    options.monitor = "validate_rare";
    const FitData data{.train = numbers(), .validation = numbers(7)};
    const std::vector<Metric> metrics = Counted(0).metrics();
    const auto run = [&](int64_t until, const std::optional<std::filesystem::path>& resume) {
      return error_of([&] {
        run_own(options,
                world,
                data,
                always([&] { return std::make_unique<Counted>(until); }),
                folder.path(),
                metrics,
                resume);
      });
    };
    EXPECT_THAT(run(4, {}),
                AllOf(HasSubstr("the validation's metric rare after step 6 (epoch 2): the run is "
                                "judged by it (got nothing was counted"),
                      HasSubstr("hint: ")))
        << world;
    const auto kept = folder.path() / "checkpoints" / "step-6";
    EXPECT_TRUE(std::filesystem::exists(kept)) << world;
    EXPECT_EQ(run(100, kept), kNoError) << "it begins with the validation";
  }
}

// The validation is made for whoever is told of the end; it was an error, and the last steps were lost.
TEST(OwnTask, ARunThatIsCutInsideAnEpochIsNotJudgedByTheValidationThatItTells) {
  const Folder folder;
  FitOptions options = small_own();
  options.monitor = "validate_rare";
  options.max_steps = 5;
  const FitData data{.train = numbers(), .validation = numbers(7)};
  bool is_told = false;
  testing::run_ranks(1, [&](const distributed::ProcessGroup& group) {
    train::fit(
        {.task = [] { return std::make_unique<Counted>(4); },
         .data = data,
         .plan = planned(options, 1, data, Counted(0).metrics()),
         .output = folder.path(),
         .callbacks = {.ended_inside_epoch = [&](const train::EpochEnd&) { is_told = true; }}},
        group);
  });
  EXPECT_TRUE(is_told);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "checkpoints" / "step-5"));
}

double formula_of_first(std::span<const double> of) { return of[0]; }
double formula_that_throws(std::span<const double>) { throw std::runtime_error("odd it is"); }

/// Throws where a test says.
class Throwing final : public Line {
 public:
  explicit Throwing(std::string where) : where_(std::move(where)) {}
  std::vector<Metric> metrics() const override {
    return {{.name = "odd",
             .of = {"even"},
             .formula = where_ == "formula" ? &formula_that_throws : &formula_of_first},
            {.name = "even"}};
  }
  StepResult train_step(const data::Batch& batch, const StepContext& context) override {
    StepResult result = Line::train_step(batch, context);
    result.values = {{"even", batch["x"].sum(), {}}};
    if (where_ == "complex") result.loss = at::complex(result.loss, result.loss);
    return result;
  }
  void end_evaluation(train::Phase, const distributed::ProcessGroup&) override {
    throw_if("end_evaluation");
  }
  train::TaskReport report() override {
    throw_if("report");
    return {};
  }
  Json state() const override {
    throw_if("state");
    return Json::object();
  }

 private:
  void throw_if(const std::string& place) const {
    if (where_ == place) throw std::runtime_error("odd it is");
  }
  std::string where_;
};

TEST(OwnTask, WhatItsOwnCodeThrowsIsSaidWithThePlace) {
  const auto error = [](const std::string& where) {
    const Folder folder;
    return error_of([&] {
      run_own(small_own(),
              1,
              {.train = numbers(), .validation = numbers(7), .test = numbers(7)},
              always([&] { return std::make_unique<Throwing>(where); }),
              folder.path(),
              Throwing("").metrics());
    });
  };
  EXPECT_EQ(error(""), kNoError);
  EXPECT_THAT(error("end_evaluation"),
              HasSubstr("task line, end_evaluation (validation after step 3): odd it is"));
  EXPECT_THAT(error("report"), HasSubstr("task line, report (test after step 6): odd it is"));
  EXPECT_THAT(error("state"), HasSubstr("task line, state (step 4): odd it is"));
  EXPECT_THAT(error("formula"), HasSubstr("formula of metric odd: odd it is"));
  EXPECT_THAT(error("complex"),
              HasSubstr("the loss of a step: a real number (got a tensor of complex64)"));
}

}  // namespace
}  // namespace muster::test
