// fit() on a device: batches come ahead, losses are read late, and the numbers are the CPU's.
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/testing/run_ranks.h"
#include "muster/track/metrics_reader.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/resolve.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::train {
namespace {

namespace fs = std::filesystem;
using test::kFake0;
using test::same_bits;
using ::testing::AllOf;
using testing::FakeAccelerator;
using ::testing::HasSubstr;

constexpr int64_t kRows = 53, kBatchOfRows = 8;
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

/// Sentences of unequal length as rows with a mask; row `broken` holds a NaN.
std::shared_ptr<const data::Dataset> masked_rows(int64_t broken = -1) {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  at::Tensor x = torch::rand({kRows, 6}, generator);
  const at::Tensor mask = torch::arange(6) <= torch::arange(kRows).remainder(6).unsqueeze(1);
  const at::Tensor y = (x * mask).sum(1).sin();
  if (broken >= 0) x[broken].fill_(kNotANumber);
  return std::make_shared<data::TensorDataset>(
      tensor::NamedTensorList{{"x", x}, {"y", y}, {"mask", mask}});
}

/// A mean over words, with a metric of each kind.
class Masked final : public Task {
 public:
  Masked() : net_(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1)) {}
  std::string name() const override { return "masked"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<Metric> metrics() const override {
    return {{.name = "error", .wants_less = true}, {.name = "worst", .reduce = Reduce::kMax}};
  }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    const at::Tensor off = net_->forward(batch["x"] * batch["mask"]).squeeze(1) - batch["y"];
    return {.loss = off.pow(2).mean(),
            .values = {{"error", off.detach().abs().sum(), {}},
                       {"worst", off.detach().abs().max(), {}}}};
  }
  double weight(const data::Batch& batch) const override {
    EXPECT_TRUE(batch["mask"].is_cpu());
    return batch["mask"].sum().item<double>();
  }
  bool has_own_weights() const override { return true; }

 private:
  torch::nn::Sequential net_;
};

FitOptions options_of_test() {
  FitOptions options;
  options.epochs = 2;
  options.batch_size = kBatchOfRows;
  options.workers = 0;
  options.lr = 0.05;
  options.optimizer = "adam";
  options.tensorboard = "off";
  options.log_every = 2;
  options.monitor = "validate_error";
  options.gradient_clip_val = 0.5;
  return options;
}

struct FakeRan {
  FitResult result;
  Checkpoint last;
  std::vector<std::string> rows;   // of metrics.csv, without times
  std::vector<std::string> hooks;  // rank 0's
  std::vector<std::string> notes;
};

struct FakeRun {
  FitOptions options = options_of_test();
  c10::Device device = kFake0;
  int world = 1;
  FitData data = {.train = masked_rows(), .validation = masked_rows(), .test = masked_rows()};
  std::optional<fs::path> resume;
  TraceOptions trace;
  int64_t stop_after = 0;
};

std::string text_of_step(const StepEnd& end) {
  return concat(end.at.step,
                ' ',
                end.at.epoch,
                ' ',
                text_of(end.metrics),
                ' ',
                shortest(end.metrics["loss"]),
                ' ',
                shortest(end.lr),
                ' ',
                shortest(end.gradient_norm.value_or(-1)));
}

std::vector<std::string> rows_of(const fs::path& folder) {
  std::vector<std::string> rows;
  std::istringstream file(read_file(folder / "metrics.csv"));
  std::string line;
  std::getline(file, line);
  std::vector<std::string> names = split(line, ',');
  while (std::getline(file, line)) {
    std::string row;
    const std::vector<std::string> fields = split(line, ',');
    for (size_t i = 0; i < fields.size(); ++i)
      if (!names[i].ends_with("_s")) row += fields[i] + ',';
    rows.push_back(row);
  }
  return rows;
}

FakeRan ran(const FakeRun& run, const fs::path& output) {
  FakeRan all;
  testing::run_ranks(run.world, [&](const distributed::ProcessGroup& group) {
    FitPlan plan;
    FitOptions options = run.options;
    static_cast<FitNumbers&>(plan) =
        resolve_fit(options,
                    {.world_size = run.world, .local_world_size = run.world, .cores = 2},
                    run.data.facts(),
                    Masked().metrics());
    plan.options = options;
    plan.threads = run.world;  // a device for each
    plan.devices.clear();
    for (int rank = 0; rank < run.world; ++rank)
      plan.devices.push_back(run.device.is_cpu() ? run.device : FakeAccelerator::device(rank));
    plan.record = to_json(options, plan);
    std::optional<Checkpoint> checkpoint;
    if (run.resume) checkpoint = read_checkpoint(*run.resume);
    int64_t asked = 0;
    FitCallbacks callbacks{.trace = run.trace};
    callbacks.stop_requested = [&] { return run.stop_after > 0 && ++asked >= run.stop_after; };
    if (group.rank() == 0) {
      callbacks.step_ended = [&](const StepEnd& end) { all.hooks.push_back(text_of_step(end)); };
      callbacks.note = [&](const std::string& line) { all.notes.push_back(line); };
    }
    FitResult result = fit({.task = [] { return std::make_unique<Masked>(); },
                            .data = run.data,
                            .plan = plan,
                            .output = output,
                            .resume = checkpoint,
                            .callbacks = callbacks},
                           group);
    if (group.rank() == 0) all.result = std::move(result);
  });
  all.last = read_checkpoint(all.result.checkpoint);
  all.rows = rows_of(output);
  return all;
}

void expect_same_weights(const FakeRan& a, const FakeRan& b) {
  ASSERT_EQ(a.last.model.size(), b.last.model.size());
  EXPECT_EQ(a.last.position, b.last.position);
  for (size_t i = 0; i < a.last.model.size(); ++i)
    EXPECT_TRUE(same_bits(a.last.model[i].second, b.last.model[i].second)) << a.last.model[i].first;
}

// Each row and hook names its own step, though it is known a step later. Memory is NaN where nothing
// was written, and a missing wait between streams throws.
TEST(FitOnFake, HasTheCpusNumbersRowsAndHooksBitForBit) {
  const FakeAccelerator fake({.devices = 2, .poison = true});
  for (const int world : {1, 2}) {
    for (const int64_t accumulate : {1, 2}) {
      FakeRun run;
      run.world = world;
      run.options.accumulate_grad_batches = accumulate;
      const test::Folder folder;
      FakeRun on_cpu = run;
      on_cpu.device = c10::kCPU;
      const FakeRan expected = ran(on_cpu, folder.path() / "cpu");
      const FakeRan seen = ran(run, folder.path() / "fake");
      expect_same_weights(seen, expected);
      EXPECT_EQ(seen.rows, expected.rows) << world << " ranks";
      EXPECT_EQ(seen.hooks, expected.hooks) << world << " ranks";
      EXPECT_EQ(seen.result.test.metrics, expected.result.test.metrics);
      EXPECT_EQ(seen.hooks.size(), static_cast<size_t>(expected.result.steps));
    }
  }
}

TEST(FitOnFake, NoStepReadsANumberOfTheDevice) {
  FakeAccelerator fake;
  std::atomic<int> reads = 0;
  fake.on_operator(
      [&](std::string_view op, c10::Device) { reads += op == "aten::_local_scalar_dense"; });
  int before = 0;
  for (const int64_t steps : {2, 6}) {  // within one epoch: the ends are the same
    FakeRun run;
    run.options.max_steps = steps;
    run.options.log_every = 1;
    run.options.optimizer = "sgd:momentum=0.9";
    const test::Folder folder;
    reads = 0;
    ran(run, folder.path());
    if (before > 0) {
      EXPECT_EQ(reads, before) << "of " << steps << " steps";
    }
    before = reads;
  }
  EXPECT_GT(before, 0) << "or the hook counts nothing";
  fake.on_operator({});
}

TEST(FitOnFake, ALossThatIsNotFiniteIsNamedWithItsStepAndNotSaved) {
  const FakeAccelerator fake;
  std::vector<std::string> errors;
  for (const c10::Device device : {c10::Device(c10::kCPU), kFake0}) {
    FakeRun run;
    run.device = device;
    run.data.train = masked_rows(/*broken=*/20);
    run.options.gradient_clip_val = 0;
    run.options.checkpoint_every = 1;
    const test::Folder folder;
    errors.push_back(
        test::refusal_of([&] { ran(run, folder.path() / "run"); }, ErrorKind::kEnvironment));
    const auto latest = find_checkpoint(folder.path() / "run");
    if (latest.empty()) continue;
    for (const auto& [name, tensor] : read_checkpoint(latest).model)
      EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
  }
  EXPECT_THAT(errors[0], HasSubstr("the loss"));
  EXPECT_EQ(errors[1], errors[0]);
}

TEST(FitOnFake, AWishToStopIsHeardAStepLateAndResumesInsideTheEpoch) {
  const FakeAccelerator fake({.poison = true});
  const test::Folder folder;
  const FakeRan whole = ran({}, folder.path() / "whole");
  FakeRun first;
  first.stop_after = 3;
  const FakeRan stopped = ran(first, folder.path() / "parts");
  EXPECT_TRUE(stopped.result.interrupted);
  EXPECT_EQ(stopped.result.steps, 4);
  EXPECT_EQ(stopped.last.position.samples, 4 * kBatchOfRows)
      << "what was on its way is not counted";
  EXPECT_EQ(stopped.hooks.size(), 4U);
  FakeRun second;
  second.resume = stopped.result.checkpoint;
  const FakeRan resumed = ran(second, folder.path() / "parts");
  expect_same_weights(resumed, whole);
  EXPECT_EQ(resumed.rows, whole.rows);
}

// Of each step but the last: the next one's copies begin when it has begun to compute and are queued
// before it is done.
TEST(FitOnFake, TheTraceShowsTheNextBatchesCopiesBesideEachStep) {
  const FakeAccelerator fake;
  const test::Folder folder;
  FakeRun run;
  run.options.epochs = 1;
  run.trace = {.file = folder.path() / "trace.json", .steps = 100, .warm_up = 0};
  const FakeRan seen = ran(run, folder.path() / "run");
  const Json trace = parse_json(read_file(run.trace.file), "trace");
  struct Span {
    double begin, end;
    std::string row;
  };
  std::map<int, std::string> rows;
  std::map<std::string, Span> spans;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") rows[event.at("tid")] = event.at("args").at("name");
    if (event.at("ph") != "X" || event.at("cat") != "device") continue;
    const double begin = event.at("ts").get<double>();
    spans[event.at("name")] = {
        begin, begin + event.at("dur").get<double>(), rows.at(event.at("tid"))};
  }
  const int64_t steps = seen.result.steps;
  ASSERT_EQ(steps, 7);
  for (int64_t step = 0; step + 1 < steps; ++step) {
    const Span compute = spans.at(concat("step ", step)),
               copy = spans.at(concat("batch ", step + 1));
    EXPECT_THAT(compute.row, HasSubstr("compute, stream 0 of fake:0"));
    EXPECT_THAT(copy.row, AllOf(HasSubstr("copies, stream "), HasSubstr(" of fake:0")));
    EXPECT_LE(compute.begin, copy.begin) << step;
    EXPECT_LE(copy.end, compute.end) << step;
  }
  EXPECT_THAT(seen.notes, ::testing::Contains(HasSubstr("the device's own is on its rows")));
}

}  // namespace
}  // namespace muster::train
