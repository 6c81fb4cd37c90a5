// The contract of messages between two ranks: Note [Messages], over each backend.
#include <functional>
#include <latch>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"

#include "tests/distributed/backends/collectives.h"

namespace muster {
namespace {

using distributed::kAnyRank;
using distributed::ProcessGroup;
using distributed::Work;
using test::Ability;
using test::error_of;
using test::kNoError;
using test::refusal_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr int64_t kLong = 3'000'001;  // 12 MB: more than any buffer of a backend

class Messages : public test::OverBackends {};

TEST_P(Messages, LeaveTheirTensorFreeAndWaitForNobody) {
  run([](ProcessGroup group) {
    const int world = group.world_size(), next = (group.rank() + 1) % world,
              last = (group.rank() + world - 1) % world;
    for (const int64_t size : {int64_t{1}, int64_t{1000}, kLong}) {
      torch::Tensor out = torch::full({size}, group.rank() + 1.0F), in = torch::zeros({size});
      group.send(out, next);
      out.fill_(-1);
      group.barrier();  // nobody has received anything
      EXPECT_EQ(group.recv(in, last), last);
      EXPECT_TRUE(torch::equal(in, torch::full({size}, last + 1.0F))) << size;
    }
  });
}

TEST_P(Messages, OfOneTagComeInTheirOrderAndTagsDoNotWaitForEachOther) {
  run([](ProcessGroup group) {
    const int world = group.world_size();
    if (world == 1) return;
    constexpr int kEach = 5, kTags = 3;
    if (group.rank() == 0) {
      for (int i = 0; i < kEach; ++i) {
        for (int tag = 0; tag < kTags; ++tag)
          group.send(torch::full({i % 2 == 0 ? 3 : 100'000}, 10 * tag + i), 1, {.tag = tag});
      }
    } else if (group.rank() == 1) {
      for (const int tag : {2, 0, 1}) {
        for (int i = 0; i < kEach; ++i) {
          torch::Tensor in = torch::zeros({i % 2 == 0 ? 3 : 100'000}, torch::kLong);
          group.recv(in, 0, {.tag = tag});
          EXPECT_TRUE(torch::equal(in, torch::full_like(in, 10 * tag + i))) << tag << " " << i;
        }
      }
    }
    group.barrier();
  });
}

TEST_P(Messages, ThatWereAskedForFirstComeInTheOrderOfTheQuestions) {
  run([](ProcessGroup group) {
    if (group.world_size() == 1) return;
    if (group.rank() == 1) {
      std::vector<torch::Tensor> in;
      std::vector<Work> works;
      for (int i = 0; i < 6; ++i) {
        in.push_back(torch::zeros({4}));
        works.push_back(group.recv_async(in.back(), 0, {.tag = i % 2}));
      }
      group.barrier();
      for (int i = 5; i >= 0; --i) {
        EXPECT_TRUE(works[i].wait().is_same(in[i]));
        EXPECT_TRUE(torch::equal(in[i], torch::full({4}, float(i))));
        EXPECT_EQ(works[i].source(), 0);
      }
    } else {
      group.barrier();
      if (group.rank() == 0)
        for (const int i : {1, 0, 3, 2, 4, 5})
          group.send(torch::full({4}, float(i)), 1, {.tag = i % 2});
    }
    group.barrier();
  });
}

TEST_P(Messages, MayHaveAnyLayoutShapeAndDtype) {
  run([](ProcessGroup group) {
    const int rank = group.rank();
    const torch::Tensor base = torch::arange(24.0).view({4, 6});
    group.send(base.t(), rank);  // to itself
    torch::Tensor holes = torch::zeros({12, 4}).slice(0, 0, 12, 2);
    group.recv(holes, rank);
    EXPECT_TRUE(torch::equal(holes, base.t()));
    const torch::Tensor numbers =
        torch::complex(torch::full({3}, 2.0), torch::full({3}, 1.0)).conj();
    torch::Tensor complex = torch::zeros({3}, numbers.options());
    group.send(numbers, rank);
    group.recv(complex, rank);
    EXPECT_TRUE(torch::equal(complex, numbers.resolve_conj()));
    torch::Tensor flat = torch::zeros({24}), nothing = torch::zeros({0, 5}),
                  one = torch::zeros({}, torch::kBool);
    group.send(base, rank);
    group.send(torch::ones({5, 0}), rank);
    group.send(torch::ones({}, torch::kBool), rank);
    group.recv(flat, rank);  // the shape is the receiver's
    group.recv(nothing, rank);
    group.recv(one, rank);
    EXPECT_TRUE(torch::equal(flat, base.view(-1)));
    EXPECT_TRUE(one.item<bool>());
  });
}

TEST_P(Messages, ForAnotherTensorAreRefusedAndTheNextOnesCome) {
  run([](ProcessGroup group) {
    if (group.world_size() == 1) return;
    for (const bool asked_first : {false, true}) {
      const std::vector<torch::Tensor> in{torch::zeros({5}), torch::zeros({6}), torch::zeros({4})};
      std::vector<Work> works;
      const auto ask = [&] {
        for (const torch::Tensor& each : in)
          if (group.rank() == 1) works.push_back(group.recv_async(each, 0));
      };
      if (asked_first) ask();
      if (asked_first) group.barrier();
      if (group.rank() == 0) {
        group.send(torch::ones({4}), 1);
        group.send(torch::ones({2, 3}, torch::kLong), 1);
        group.send(torch::full({4}, 2.0F), 1);
      }
      if (!asked_first) group.barrier();
      if (!asked_first) ask();
      if (group.rank() == 1) {
        EXPECT_THAT(refusal_of([&] { works[0].wait(); }),
                    HasSubstr("rank 0 sent float32[4] for float32[5]"));
        EXPECT_THAT(refusal_of([&] { works[1].wait(); }),
                    HasSubstr("rank 0 sent int64[2, 3] for float32[6]"));
        works[2].wait();
        EXPECT_TRUE(torch::equal(in[2], torch::full({4}, 2.0F)));
      }
      group.barrier();
    }
  });
}

TEST_P(Messages, AReceiveWhoseTimeIsOverTakesNothing) {
  run([](ProcessGroup group) {
    if (group.world_size() == 1) return;
    torch::Tensor word = torch::zeros({3});
    if (group.rank() == 1) {
      EXPECT_THAT(error_of([&] { group.recv(word, 0, {.tag = 4, .timeout = 30ms}); }),
                  AllOf(HasSubstr("timed out after 30 ms"), HasSubstr("tag 4")));
      const Work late = group.recv_async(word, 0, {.tag = 5, .timeout = 30ms});
      EXPECT_THAT(error_of([&] { late.wait(); }), HasSubstr("timed out after 30 ms"));
      EXPECT_TRUE(late.is_completed());
    }
    group.barrier();
    if (group.rank() == 0) {
      group.send(torch::full({3}, 4.0F), 1, {.tag = 4});
      group.send(torch::full({3}, 5.0F), 1, {.tag = 5});
    } else if (group.rank() == 1) {
      for (const int tag : {5, 4}) {
        group.recv(word, 0, {.tag = tag});
        EXPECT_TRUE(torch::equal(word, torch::full({3}, float(tag))));
      }
    }
    group.barrier();
  });
}

// What of it had left goes on its way: a backend may be through with it, or at it, or not begun.
TEST_P(Messages, WhatWasSentArrivesThoughItsTimeIsOver) {
  run([](ProcessGroup group) {
    if (group.world_size() == 1) return;
    if (group.rank() == 0) {
      std::vector<Work> sent;
      for (const float value : {1.0F, 2.0F, 3.0F})
        sent.push_back(group.send_async(torch::full({kLong}, value), 1, {.timeout = 30ms}));
      for (const Work& work : sent) error_of([&] { work.wait(); });
    }
    group.barrier();
    for (const float value : {1.0F, 2.0F, 3.0F}) {
      if (group.rank() != 1) break;
      torch::Tensor in = torch::zeros({kLong});
      group.recv(in, 0);
      EXPECT_TRUE(torch::equal(in, torch::full({kLong}, value))) << value;
    }
    group.barrier();  // who ends waits for what is in time alone
  });
}

TEST_P(Messages, ASendWhoseTimeIsOverEndsNothingButItself) {
  run([](ProcessGroup group) {
    if (group.world_size() == 1) return;
    if (group.rank() == 0) {
      const Work first = group.send_async(torch::ones({kLong}), 1, {.tag = 1, .timeout = 30ms}),
                 second = group.send_async(torch::ones({kLong}), 1, {.tag = 2, .timeout = 30ms});
      for (const Work& work : {first, second}) {
        const std::string error = error_of([&] { work.wait(); });
        if (error != kNoError) {
          EXPECT_THAT(error, HasSubstr("timed out after 30 ms"));
        }
      }
      group.barrier();
      group.send(torch::full({kLong}, 3.0F), 1, {.tag = 3});
    } else {
      group.barrier();
      if (group.rank() == 1) {
        torch::Tensor in = torch::zeros({kLong});
        group.recv(in, 0, {.tag = 3});
        EXPECT_TRUE(torch::equal(in, torch::full({kLong}, 3.0F)));
      }
    }
    group.barrier();
    torch::Tensor sum = torch::ones({2});
    group.all_reduce(sum);
    EXPECT_EQ(sum[0].item<float>(), float(group.world_size()));
  });
}

TEST_P(Messages, OfARankThatHasEndedAreReceivedAndNoMoreAreAwaited) {
  if (world_size() < 2) return;
  std::latch sent(1);
  run([&](ProcessGroup group) {
    group.barrier();  // all are in
    if (group.rank() == 0) {
      group.send(torch::full({kLong}, 1.0F), 1, {.tag = 1});
      group.send(torch::full({2}, 2.0F), 1, {.tag = 2});
      sent.count_down();
      return;
    }
    sent.wait();
    if (group.rank() != 1) return;
    torch::Tensor few = torch::zeros({2}), many = torch::zeros({kLong});
    group.recv(few, 0, {.tag = 2});
    group.recv(many, 0, {.tag = 1});
    EXPECT_TRUE(torch::equal(few, torch::full({2}, 2.0F)));
    EXPECT_TRUE(torch::equal(many, torch::full({kLong}, 1.0F)));
    EXPECT_THAT(error_of([&] { group.recv(few, 0); }), HasSubstr("rank 0 has ended"));
    EXPECT_THAT(error_of([&] { group.recv(few, 0); }), HasSubstr("rank 0 has ended"));
  });
}

TEST_P(Messages, ARankThatHasEndedHarmsNobodyWhoDoesNotNeedIt) {
  if (world_size() < 3) return;
  run([&](ProcessGroup group) {
    const int first = 1, last = group.world_size() - 1;
    group.barrier();  // all are in
    torch::Tensor word = torch::zeros({2});
    if (group.rank() == first) {
      EXPECT_NE(error_of([&] { group.recv(word, 0); }), kNoError);  // it has ended by then
      group.send(torch::full({2}, 7.0F), last);
      group.recv(word, last);
    } else if (group.rank() == last) {
      group.recv(word, first);
      group.send(word, first);
    }
    if (group.rank() == first || group.rank() == last) {
      EXPECT_TRUE(torch::equal(word, torch::full({2}, 7.0F)));
    }
  });
}

TEST_P(Messages, OfAnyRankSayWhoSentThem) {
  run([&](ProcessGroup group) {
    const int world = group.world_size();
    torch::Tensor word = torch::zeros({1}, torch::kLong);
    if (!can(Ability::kAnySource)) {
      EXPECT_THAT(refusal_of([&] { group.recv(word, kAnyRank); }), HasSubstr("name the source"));
      return;
    }
    if (group.rank() != 0) {
      group.send(torch::full({1}, group.rank()), 0);
    } else {
      std::set<int> sources;
      for (int i = 1; i < world; ++i) {
        const int source = group.recv(word, kAnyRank);
        EXPECT_EQ(word.item<int64_t>(), source);
        sources.insert(source);
      }
      EXPECT_EQ(sources.size(), static_cast<size_t>(world - 1));
    }
    group.barrier();
  });
}

TEST_P(Messages, ThatMakeNoSenseAreRefusedBeforeAnybodyWaits) {
  run([](ProcessGroup group) {
    const int world = group.world_size();
    const torch::Tensor word = torch::zeros({2});
    for (const int odd : {world, -2, 99}) {
      const auto words = HasSubstr("a rank of the group (got rank " + std::to_string(odd) + " of");
      EXPECT_THAT(refusal_of([&] { group.send(word, odd); }), words);
      EXPECT_THAT(refusal_of([&] { group.recv(word, odd); }), words);
    }
    EXPECT_THAT(refusal_of([&] { group.send(word, kAnyRank); }), HasSubstr("a rank of the group"));
    EXPECT_THAT(refusal_of([&] { group.send(word, 0, {.tag = -1}); }), HasSubstr("0 or more"));
    EXPECT_THAT(refusal_of([&] { group.recv(word, 0, {.tag = -1}); }), HasSubstr("0 or more"));
    EXPECT_THAT(refusal_of([&] { group.send({}, 0); }), HasSubstr("undefined"));
    EXPECT_THAT(refusal_of([&] { group.recv(torch::zeros({1}).expand({3}), 0); }),
                HasSubstr("a place of its own"));
    group.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, Messages, ::testing::ValuesIn(test::over_all()), test::name_of);

}  // namespace
}  // namespace muster
