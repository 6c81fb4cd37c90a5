// What a Guard puts back, what it refuses and flags, and what it remembers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/peer_failure.h"
#include "muster/memory/guard/oom.h"
#include "muster/testing/run_ranks.h"

#include "tests/memory/guard/guarded_job.h"
#include "tests/support/error_of.h"

namespace muster::memory {
namespace {

using test::GuardedRun;
using test::JobMlp;
using test::kFake0;
using test::refusal_of;
using test::same_bits;
using test::same_weights;
using test::weights_after;
using ::testing::ElementsAre;
using testing::FakeAccelerator;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Backward in the calling thread, so that what it held is gone when it has thrown.
struct OwnThread {
  OwnThread() { c10::AutogradState::get_tls_state().set_multithreading_enabled(false); }
};

struct Small : OwnThread {
  FakeAccelerator fake{{.poison = true}};
  std::shared_ptr<test::JobMlp> net = std::make_shared<test::JobMlp>();
  at::Tensor x, y;
  std::vector<GuardEvent> events;

  Small() {
    net->to(kFake0, torch::kDouble);
    x = torch::randn({8, 5}, torch::kDouble).to(kFake0);
    y = torch::randn({8, 3}, torch::kDouble).to(kFake0);
  }
  GuardOptions options() {
    return {.retry_same_size = false,
            .heard = [this](const GuardEvent& event) { events.push_back(event); }};
  }
  void pass(const MicroBatch& part) const {
    (torch::mse_loss(net->forward(part.of(x)), part.of(y)) * part.weight).backward();
  }
};

TEST(Guard, GivesUpWithEverythingAsItWasWhenNotEvenOneRowFits) {
  Small small;
  small.pass({.end = 8});  // gradients of an earlier pass, which are kept
  small.net->out->bias.mutable_grad() = at::Tensor();
  std::vector<at::Tensor> before;
  for (const at::Tensor& parameter : small.net->parameters())
    before.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  Guard guard(*small.net, small.options());
  guard.step(8, [](const MicroBatch&) {});
  const int64_t live = small.fake.memory(0).live;
  small.fake.fail_allocation(0, 9, /*all_after=*/true);
  const Error error = test::muster_error_of(
      [&] { guard.step(8, [&](const MicroBatch& part) { small.pass(part); }); });
  small.fake.fail_allocation(0, 0);
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_TRUE(is_oom(error));
  EXPECT_THAT(error.what(), HasSubstr("a step with 1 sample at a time: fake out of memory"));
  EXPECT_EQ(small.fake.memory(0).live, live);
  const auto parameters = small.net->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_EQ(parameters[i].grad().defined(), before[i].defined()) << i;
    if (before[i].defined()) {
      EXPECT_TRUE(same_bits(parameters[i].grad(), before[i])) << i;
    }
  }
  std::vector<int64_t> sizes;
  for (const GuardEvent& event : small.events) sizes.push_back(event.micro_batch);
  EXPECT_THAT(sizes, ElementsAre(4, 2, 1));
}

TEST(Guard, PassesOnWhatIsNoFailureOfMemory) {
  Small small;
  Guard guard(*small.net, small.options());
  int calls = 0;
  EXPECT_THAT(test::error_of([&] {
                guard.step(8, [&](const MicroBatch&) {
                  ++calls;
                  throw std::runtime_error("the task's own");
                });
              }),
              HasSubstr("the task's own"));
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(small.events, IsEmpty());
}

/// Adds to gradients that are there, as a step of several closures does.
TEST(Guard, AddsToGradientsThatWereThereBefore) {
  Small small;
  const auto run = [&](bool fails) {
    small.net->zero_grad();
    small.pass({.end = 8});
    Guard guard(*small.net, small.options());
    guard.load_state({.micro_batch = fails ? 0 : 4});
    if (fails) small.fake.fail_allocation(0, 12);
    guard.step(8, [&](const MicroBatch& part) { small.pass(part); });
    small.fake.fail_allocation(0, 0);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : small.net->parameters())
      gradients.push_back(parameter.grad().cpu());
    return gradients;
  };
  const auto told = run(false);
  EXPECT_TRUE(same_weights(run(true), told));
  ASSERT_EQ(small.events.size(), 1U);
  EXPECT_EQ(small.events[0].tried, 8);
  EXPECT_THAT(
      text_of(small.events[0]),
      HasSubstr("out of memory with 8 samples at a time (fake out of memory. Tried to allocate "));
}

/// A bias that is drawn, a count of forwards.
struct DrawingImpl : test::JobMlp {
  at::Tensor forward(const at::Tensor& x) {
    return torch::dropout(test::JobMlp::forward(x), 0.5, is_training());
  }
};

TEST(Guard, DrawsTheSameNumbersAgainAndSaysThatTheyAreOthersThanTheWholeBatchs) {
  FakeAccelerator fake({.poison = true});
  const test::GuardedJob job = test::job_of<DrawingImpl>("drawing", {5});
  GuardedRun told{.rows = 8};
  told.options.micro_batch = 4;
  std::vector<std::string> said;
  GuardedRun fails{.rows = 8};
  fails.options.retry_same_size = false;
  fails.options.heard = [&](const GuardEvent& event) { said.push_back(text_of(event)); };
  fails.before = [&](int64_t step, Guard&) { fake.fail_allocation(0, step == 0 ? 20 : 0); };
  // The seeds of both runs are torch::manual_seed's.
  EXPECT_TRUE(same_weights(weights_after(job, fails, kFake0), weights_after(job, told, kFake0)));
  ASSERT_EQ(said.size(), 2U) << "once";
  EXPECT_EQ(said[1],
            "random numbers are drawn for 4 at a time: others than a whole batch would draw");
}

struct NormedImpl : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(5, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 3));
  at::Tensor forward(const at::Tensor& x) { return out(norm(in(x))); }
};

TEST(Guard, RefusesBatchNormsUnlessTheirStatisticsMayDiffer) {
  FakeAccelerator fake({.poison = true});
  const test::GuardedJob job = test::job_of<NormedImpl>("normed", {5});
  GuardedRun fails{.rows = 8};
  fails.options.retry_same_size = false;
  fails.before = [&](int64_t step, Guard&) { fake.fail_allocation(0, step == 1 ? 15 : 0); };
  const auto attempt = [&] { return weights_after(job, fails, kFake0); };
  EXPECT_THAT(
      refusal_of(attempt, ErrorKind::kEnvironment),
      HasSubstr("it is not made again in smaller ones: norm normalises over the whole batch"));
  fails.options.may_differ = true;
  GuardedRun told = fails;
  told.before = [&](int64_t step, Guard& guard) {
    if (step == 1) guard.load_state({.micro_batch = 4});
  };
  std::vector<GuardEvent::Kind> kinds;
  fails.options.heard = [&](const GuardEvent& event) { kinds.push_back(event.kind); };
  EXPECT_TRUE(same_weights(attempt(), weights_after(job, told, kFake0)))
      << "running statistics, too, are put back";
  EXPECT_THAT(kinds, ElementsAre(GuardEvent::Kind::kSplit, GuardEvent::Kind::kDiffers));
}

struct CountingImpl : test::JobMlp {
  at::Tensor count = register_buffer("count", torch::zeros({}));
  at::Tensor forward(const at::Tensor& x) {
    count.add_(1);
    return test::JobMlp::forward(x);
  }
};

TEST(Guard, FindsBuffersThatEachForwardChanges) {
  FakeAccelerator fake({.poison = true});
  const test::GuardedJob job = test::job_of<CountingImpl>("counting", {5});
  GuardedRun run{.rows = 8};
  run.options.micro_batch = 4;
  EXPECT_THAT(refusal_of([&] { weights_after(job, run, kFake0); }),
              HasSubstr("would be those of micro-batches (got count)"));
  run.options.may_differ = true;
  weights_after(job, run, kFake0);
}

TEST(Guard, TriesTwiceTheRowsAfterAWhileAndWaitsTwiceAsLongWhenThatFails) {
  Small small;
  GuardOptions options = small.options();
  options.micro_batch = 2;
  options.try_larger_after = 3;
  Guard guard(*small.net, options);
  bool has_room = false;
  std::vector<int64_t> sizes;
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i) {
      guard.step(8, [&](const MicroBatch& part) {
        if (part.rows() > 2 && !has_room) small.fake.fail_allocation(0, 1);
        small.pass(part);
      });
      sizes.push_back(guard.micro_batch());
    }
  };
  steps(4);  // three, and one that fails with 4 rows and is made with 2
  EXPECT_THAT(sizes, ElementsAre(2, 2, 2, 2));
  ASSERT_EQ(small.events.size(), 1U);
  EXPECT_EQ(small.events[0].kind, GuardEvent::Kind::kSplit);
  EXPECT_EQ(guard.state().wait_steps, 6);
  has_room = true;
  const GuardState saved = guard.state();
  sizes.clear();
  steps(7);
  EXPECT_THAT(sizes, ElementsAre(2, 2, 2, 2, 2, 4, 4)) << "the step with 2 counts as one of six";
  EXPECT_EQ(small.events.back().kind, GuardEvent::Kind::kLarger);
  Guard resumed(*small.net, options);
  resumed.load_state(saved);
  EXPECT_EQ(resumed.micro_batch(), 2);
  EXPECT_EQ(resumed.state().wait_steps, 6);
  EXPECT_THAT(refusal_of([&] { resumed.load_state({.micro_batch = -1}); }), HasSubstr("(got -1)"));
}

TEST(Guard, DoesNotTakeABatchThatIsTooShortToTellForATrial) {
  Small small;
  GuardOptions options = small.options();
  options.micro_batch = 2;
  options.try_larger_after = 1;
  Guard guard(*small.net, options);
  const auto step = [&](int64_t rows) {
    guard.step(rows, [&](const MicroBatch& part) {
      if (part.rows() > 2) small.fake.fail_allocation(0, 1);
      small.pass(part);
    });
    return guard.micro_batch();
  };
  EXPECT_EQ(step(8), 2);  // split, and passed: the next one tries
  EXPECT_EQ(step(2), 2) << "two rows pass, and say nothing of four";
  EXPECT_TRUE(small.events.empty());
  EXPECT_EQ(step(8), 2) << "it tries four";
  EXPECT_EQ(small.events.size(), 1U);
  EXPECT_EQ(guard.state().wait_steps, 2);
}

TEST(Guard, WeighsRowsAsItIsTold) {
  Small small;
  const std::vector<double> tokens{1, 7, 2, 0, 5, 3, 3, 4};
  const at::Tensor of_rows = torch::tensor(tokens, torch::kDouble).to(kFake0);
  const auto gradients = [&](int64_t micro_batch) {
    small.net->zero_grad();
    GuardOptions options = small.options();
    options.micro_batch = micro_batch;
    Guard guard(*small.net, options);
    guard.step(
        8,
        [&](const MicroBatch& part) {
          const at::Tensor weight = part.of(of_rows);
          const at::Tensor error =
              (small.net->forward(part.of(small.x)) - part.of(small.y)).pow(2).sum(1);
          ((error * weight).sum() / weight.sum().clamp_min(1e-9) * part.weight).backward();
        },
        tokens);
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : small.net->parameters())
      all.push_back(parameter.grad().cpu());
    return all;
  };
  for (const int64_t rows : {1, 3, 5})
    EXPECT_LT(test::apart(gradients(rows), gradients(0)), 1e-12) << rows;
}

// A rank that is given up takes the others with it, with its name.
TEST(Guard, AllRanksEndWhenOneCannotGoOn) {
  FakeAccelerator fake({.devices = 2, .poison = true});
  const std::vector<std::string> errors =
      testing::rank_errors(2, [&](const distributed::ProcessGroup& group) {
        GuardedRun run{.rows = 4};
        run.options.group = group;
        run.options.retry_same_size = false;
        run.before = [&](int64_t step, Guard&) {
          if (step == 1 && group.rank() == 1) fake.fail_allocation(1, 1, /*all_after=*/true);
        };
        weights_after(test::mlp_job(), run, FakeAccelerator::device(group.rank()));
      });
  EXPECT_THAT(errors[0], HasSubstr("a step with 1 sample at a time: rank 1 is out of memory"));
  EXPECT_THAT(errors[1], HasSubstr("a step with 1 sample at a time: fake out of memory"));
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("hint: no batch size helps"));
}

// Of a collective step that fails on all ranks together, as a pipeline's.
TEST(Guard, NamesTheRankWhoseMemoryRanOutAndNotOneThatHeardOfIt) {
  std::vector<GuardEvent> events(2);
  testing::run_ranks(2, [&](const distributed::ProcessGroup& group) {
    const int rank = group.rank();
    JobMlp net;
    Guard guard(net, {.group = group, .heard = [&events, rank](const GuardEvent& event) {
                        events[static_cast<size_t>(rank)] = event;
                      }});
    int calls = 0;
    const GuardedStep step = guard.step(8, [&](const MicroBatch&) {
      if (++calls > 1) return;
      const std::string words = "fake out of memory. Tried to allocate 4.00 KiB";
      if (rank == 1) {
        try {
          TORCH_CHECK_WITH(OutOfMemoryError, false, words);
        } catch (const std::exception&) {
          std::throw_with_nested(std::runtime_error("backward of stage 1: " + words));
        }
      }
      throw distributed::PeerFailure(environment_error(
          {.refused = "the step was given up", .rule = concat("rank 1 failed: ", words)}));
    });
    EXPECT_EQ(step.attempts, 2);
    EXPECT_EQ(step.micro_batches, 2);
  });
  for (const GuardEvent& event : events) {
    EXPECT_EQ(event.kind, GuardEvent::Kind::kSplit);
    EXPECT_EQ(event.rank, 1);
    EXPECT_EQ(event.micro_batch, 4);
    EXPECT_EQ(event.words,
              "rank 1: backward of stage 1: fake out of memory. Tried to allocate 4.00 KiB");
  }
}

TEST(Guard, RefusesOptionsOutOfRange) {
  const auto net = std::make_shared<test::JobMlp>();
  EXPECT_THAT(refusal_of([&] { Guard guard(*net, {.micro_batch = -1}); }),
              HasSubstr("micro_batch"));
  EXPECT_THAT(refusal_of([&] { Guard guard(*net, {.smallest = 0}); }), HasSubstr("smallest"));
  EXPECT_THAT(refusal_of([&] { Guard guard(*net, {.try_larger_after = -1}); }),
              HasSubstr("try_larger_after"));
}

}  // namespace
}  // namespace muster::memory
