// Whatever a rank does wrong, every rank's error names it. Over all backends that thread ranks can
// use.
#include "muster/distributed/monitor/monitor.h"

#include <barrier>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/distributed/meet/backend.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using distributed::MonitorOptions;
using distributed::ProcessGroup;
using test::error_of;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// Of a group whose operations are not to run out of time: however busy the machine is.
constexpr std::chrono::milliseconds kLong = 60s;

std::vector<std::string> errors_of_ranks(int world_size,
                                         const std::string& backend,
                                         const std::function<void(ProcessGroup)>& rank_main,
                                         MonitorOptions monitor = {}) {
  return testing::rank_errors(
      world_size, rank_main, {.timeout = kLong, .backend = backend, .monitor = std::move(monitor)});
}

void all_reduce(const ProcessGroup& group, int64_t size, at::ScalarType dtype = torch::kFloat) {
  group.all_reduce(torch::ones({size}, dtype));
}

/// Three steps of a program: all_reduce #0, broadcast #1, all_reduce #2.
void program(const ProcessGroup& group) {
  all_reduce(group, 1000);
  group.broadcast(torch::ones({4}, torch::kLong));
  all_reduce(group, 7);
}

/// Until the heartbeats show what was called before, if they do within some seconds.
void go_on(const ProcessGroup& group) {
  for (int i = 0; i < 1000; ++i) std::this_thread::sleep_for(5ms), group.barrier();
}

std::vector<std::string> backends_without_a_device() {
  std::vector<std::string> names;
  for (const char* name : {"thread", "shm", "gloo"}) {
    const auto* entry = distributed::backends().find(name);
    if (entry != nullptr && entry->available().empty()) names.emplace_back(name);
  }
  return names;
}

/// The verdict of three ranks of which one called `odd` and two called `usual`: by the heartbeats
/// that are there when two differ, so one of the two may be missing. One rank is named before two.
::testing::Matcher<std::string> says_camps(int rank,
                                           const std::string& odd,
                                           const std::string& usual) {
  const auto is_at = [](int who, const std::string& what) {
    return "rank " + std::to_string(who) + " is at " + what;
  };
  const int a = rank == 0 ? 1 : 0, b = rank == 2 ? 1 : 2;
  const std::string both =
      "ranks " + std::to_string(a) + " and " + std::to_string(b) + " are at " + usual;
  const auto pair = [&](int other) {
    return HasSubstr(other < rank ? is_at(other, usual) + " while " + is_at(rank, odd)
                                  : is_at(rank, odd) + " while " + is_at(other, usual));
  };
  return AnyOf(HasSubstr(is_at(rank, odd) + " while " + both), pair(a), pair(b));
}

/// backend
class MonitoredGroup : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<std::string> errors(int world_size,
                                  const std::function<void(ProcessGroup)>& rank_main,
                                  const std::string& faults = "") {
    return errors_of_ranks(world_size, GetParam(), rank_main, {.faults = faults});
  }
  /// Ours compare the ranks' calls themselves, in their own words.
  bool checks_calls() const { return GetParam() != "gloo"; }
};

TEST_P(MonitoredGroup, WithoutAFaultNothingIsReported) {
  for (const int world_size : {2, 4})
    EXPECT_THAT(errors(world_size, program), Each(::testing::IsEmpty()));
}

TEST_P(MonitoredGroup, ARankThatSkippedACollectiveIsNamedWithWhatItCalledInstead) {
  const auto seen = errors(3, program, "skip@rank=2,op=all_reduce,at=1");
  for (const std::string& error : seen) {
    if (checks_calls()) {
      EXPECT_THAT(error,
                  AllOf(HasSubstr("broadcast root 0 int64[4]"),
                        HasSubstr("ranks disagree"),
                        Not(HasSubstr("did not come"))));
    } else {
      EXPECT_THAT(error,
                  says_camps(2, "broadcast root 0 int64[4] #0", "all_reduce sum float32[1000] #0"));
      EXPECT_THAT(error, HasSubstr("of group default (" + GetParam() + ", rank "));
    }
  }
}

TEST_P(MonitoredGroup, ARankThatReorderedCollectivesIsNamed) {
  std::barrier<> all(3);
  const auto two_at_once = [&](ProcessGroup group) {
    // Else a rank that has not yet waited might learn that another has ended, not why.
    const testing::LeaveTogether last{all};
    all_reduce(group, 3);
    std::vector<at::Tensor> a{torch::ones({1000})}, b{torch::ones({4})};
    const auto first = group.c10d()->allreduce(a);
    const auto second = group.c10d()->broadcast(b);
    second->wait();
    first->wait();
  };
  const auto seen = errors(3, two_at_once, "reorder@rank=1,op=all_reduce,at=2");
  for (const std::string& error : seen) {
    if (checks_calls())
      EXPECT_THAT(error, HasSubstr("ranks disagree"));
    else
      EXPECT_THAT(
          error,
          AllOf(says_camps(1, "broadcast root 0 float32[4] #1", "all_reduce sum float32[1000] #1"),
                HasSubstr("the last operation that all ranks called alike is #0 all_reduce "
                          "sum float32[3]")));
  }
}

TEST_P(MonitoredGroup, AnotherSizeIsFoundEvenWhereTheBackendDoesNotLook) {
  const auto seen = errors(3, [](ProcessGroup group) {
    all_reduce(group, 8);
    all_reduce(group, group.rank() == 1 ? 12 : 16);
    // A backend that did not notice lets the ranks go on; the heartbeats compare behind them.
    for (int i = 0; i < 1000; ++i) {
      std::this_thread::sleep_for(5ms);
      all_reduce(group, 8);
    }
  });
  for (const std::string& error : seen) {
    if (checks_calls())
      EXPECT_THAT(error, HasSubstr("rank 1: all_reduce sum float32[12]"));
    else
      EXPECT_THAT(error,
                  says_camps(1, "all_reduce sum float32[12] #1", "all_reduce sum float32[16] #1"));
  }
}

// gloo sums and takes maxima of the same bytes: it ends well on every rank, with nonsense.
TEST_P(MonitoredGroup, KnownOperationsInAnotherOrderAreFoundThoughTheBackendComputesOn) {
  const auto seen = errors(3, [](ProcessGroup group) {
    const auto reduce = [&](c10d::ReduceOp::RedOpType op) {
      group.all_reduce(torch::ones({8}), op);
    };
    for (int i = 0; i < 10; ++i) {
      reduce(c10d::ReduceOp::SUM);
      reduce(c10d::ReduceOp::MAX);
    }
    reduce(group.rank() == 1 ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM);
    go_on(group);
  });
  for (const std::string& error : seen) {
    if (checks_calls())
      EXPECT_THAT(error, HasSubstr("rank 1: all_reduce max float32[8]"));
    else
      EXPECT_THAT(error,
                  says_camps(1, "all_reduce max float32[8] #20", "all_reduce sum float32[8] #20"));
  }
}

TEST_P(MonitoredGroup, AnotherDtypeIsFound) {
  const auto seen = errors(2, [](ProcessGroup group) {
    all_reduce(group, 8, group.rank() == 0 ? torch::kFloat : torch::kInt);
    go_on(group);
  });
  for (const std::string& error : seen) {
    if (checks_calls())
      EXPECT_THAT(error, HasSubstr("all_reduce sum int32[8]"));
    else
      EXPECT_THAT(
          error,
          HasSubstr("rank 0 is at all_reduce sum float32[8] #0 while rank 1 is at all_reduce "
                    "sum int32[8] #0"));
  }
}

/// What three ranks say at the timeout of an operation to which rank 1 does not come.
std::vector<std::string> said_without_rank_1(const std::string& backend) {
  std::promise<void> others_failed;
  const auto released = others_failed.get_future().share();
  std::atomic<int> failed{0};
  return errors_of_ranks(3, backend, [&](ProcessGroup group) {
    mark_step(group, 12);
    all_reduce(group, 6);
    group.c10d()->getBackend(at::kCPU)->setTimeout(1s);
    if (group.rank() == 1) return released.wait();  // busy with something else
    const auto start = std::chrono::steady_clock::now();
    const std::string error = error_of([&] { all_reduce(group, 5); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, kLong);
    if (++failed == 2) others_failed.set_value();
    released.wait();  // who leaves sooner than the other fails may be named
    throw std::runtime_error(error);
  });
}

TEST_P(MonitoredGroup, ARankThatDoesNotComeIsNamedAtTheTimeoutWithWhatItLastDid) {
  const std::string last_call = "its last call was all_reduce sum float32[6] #0, in step 12";
  const auto say_it = ::testing::Contains(HasSubstr(last_call));
  std::vector<std::string> seen = said_without_rank_1(GetParam());
  // Who fails first asks for that, and goes without if the answer is late.
  for (int i = 0; i < 10 && !::testing::Value(seen, say_it); ++i)
    seen = said_without_rank_1(GetParam());
  EXPECT_THAT(seen, say_it);
  EXPECT_EQ(seen[1], "");
  for (const int rank : {0, 2})  // either may itself be late by so much
    EXPECT_THAT(seen[rank],
                AllOf(ContainsRegex("rank (0, )?1(, 2)? did not come"),
                      ContainsRegex("the last operation that all ranks (called|are known to have "
                                    "called) alike is #0 all_reduce sum float32.6.")));
}

TEST_P(MonitoredGroup, ADelayShorterThanTheTimeoutIsNoFailure) {
  EXPECT_THAT(errors(2, program, "delay=600ms@rank=1,op=broadcast"), Each(::testing::IsEmpty()));
}

TEST_P(MonitoredGroup, ANanReachesEveryRank) {
  const auto seen = errors(
      2,
      [](ProcessGroup group) {
        torch::Tensor tensor = torch::ones({3});
        group.all_reduce(tensor);
        EXPECT_TRUE(tensor[0].isnan().item<bool>());
        EXPECT_EQ(tensor[1].item<float>(), 2);
        group.all_reduce(tensor.zero_());
        EXPECT_EQ(tensor[0].item<float>(), 0);
      },
      "nan@rank=1,at=1");
  EXPECT_THAT(seen, Each(::testing::IsEmpty()));
}

TEST_P(MonitoredGroup, FaultsStrikeInTheirStep) {
  const auto seen = errors(
      2,
      [](ProcessGroup group) {
        for (int step = 0; step < 3; ++step) {
          mark_step(group, step);
          torch::Tensor tensor = torch::ones({1});
          group.all_reduce(tensor);
          EXPECT_EQ(tensor.isnan().item<bool>(), step == 1);
        }
      },
      "nan@step=1");
  EXPECT_THAT(seen, Each(::testing::IsEmpty()));
}

TEST_P(MonitoredGroup, AfterCallsThatDoNotFitTheGroupHasFailedUnlessItsBackendComparesThemItself) {
  const auto seen = errors(2, [compared = checks_calls()](ProcessGroup group) {
    if (compared) {
      EXPECT_NE(error_of([&] { all_reduce(group, group.rank() + 1); }), test::kNoError);
      return program(group);
    }
    error_of([&] {
      all_reduce(group, group.rank() + 1);
      group.barrier();
      group.barrier();
    });
    for (;;) {  // what fails first may still be the barrier itself
      const std::string error = error_of([&] { group.barrier(); });
      if (error.find("has failed before") != std::string::npos) throw std::runtime_error(error);
    }
  });
  using Text = ::testing::Matcher<const std::string&>;
  const Text failed = HasSubstr(
      "barrier of group default: the group has failed before: rank 0 is at all_reduce "
      "sum float32[1] #0 while rank 1 is at");
  EXPECT_THAT(seen, Each(checks_calls() ? Text(::testing::IsEmpty()) : failed));
}

void refused_broadcast(const ProcessGroup& group) {
  std::vector<at::Tensor> tensors{torch::ones({3})};
  c10d::BroadcastOptions options;
  options.rootRank = 99;
  EXPECT_ANY_THROW(group.c10d()->broadcast(tensors, options));
}

TEST_P(MonitoredGroup, ACallThatTheBackendRefusesDoesNotSpoilTheNext) {
  const auto seen = errors(3, [](ProcessGroup group) {
    refused_broadcast(group);
    program(group);
    refused_broadcast(group);
    refused_broadcast(group);
    program(group);
    if (group.rank() == 1) refused_broadcast(group);  // nobody else has called #6 yet
    std::this_thread::sleep_for(300ms);
    group.barrier();
  });
  EXPECT_THAT(seen, Each(::testing::IsEmpty()));
}

TEST_P(MonitoredGroup, HandlesThatNobodyKeptDoNotKeepTheMonitor) {
  std::vector<std::weak_ptr<const diagnose::FlightRecorder>> recorders(2);
  const auto seen = errors(2, [&](ProcessGroup group) {
    recorders[group.rank()] = flight_recorder(group);
    for (int i = 0; i < 3; ++i) {
      std::vector<at::Tensor> tensors{torch::ones({3})};
      group.c10d()->allreduce(tensors);
    }
    group.barrier();
  });
  EXPECT_THAT(seen, Each(::testing::IsEmpty()));
  const auto until = std::chrono::steady_clock::now() + 60s;  // threads that end by themselves
  for (const auto& recorder : recorders) {
    while (!recorder.expired() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(5ms);
    EXPECT_TRUE(recorder.expired());
  }
}

TEST_P(MonitoredGroup, TheFlightRecordIsWrittenOnFailure) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() /
      ("muster-flight-" + GetParam() + "-" + std::to_string(::getpid()));
  const auto seen = errors_of_ranks(2,
                                    GetParam(),
                                    [](ProcessGroup group) {
                                      all_reduce(group, 4);
                                      all_reduce(group, group.rank() + 1);
                                      go_on(group);
                                    },
                                    {.group = "pair", .flight_dir = folder.string()});
  for (int rank = 0; rank < 2; ++rank) {
    const auto file = folder / ("pair-rank-" + std::to_string(rank) + ".json");
    EXPECT_THAT(seen[rank], HasSubstr("flight record: " + file.string()));
    const Json record = parse_json(read_file(file), "record");
    EXPECT_EQ(record.at("rank"), rank);
    EXPECT_EQ(record.at("operations").at(0).at("text"), "all_reduce sum float32[4]");
    EXPECT_EQ(record.at("operations").at(0).at("state"), "completed");
    EXPECT_EQ(record.at("operations").at(1).at("bytes"), 4 * (rank + 1));
  }
  std::filesystem::remove_all(folder);
}

TEST_P(MonitoredGroup, PointToPointWorksAndIsRecorded) {
  const auto seen = errors(2, [](ProcessGroup group) {
    std::vector<at::Tensor> word{torch::full({3}, group.rank())};
    if (group.rank() == 0)
      group.c10d()->send(word, 1, 5)->wait();
    else
      group.c10d()->recv(word, 0, 5)->wait();
    EXPECT_EQ(word[0][0].item<int64_t>(), 0);
    const auto records = flight_recorder(group)->since(0);
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(describe(records[0]),
              group.rank() == 0 ? "send to 1 tag 5 int64[3]" : "recv from 0 tag 5 int64[3]");
    EXPECT_EQ(records[0].state, diagnose::OpState::kCompleted);
  });
  EXPECT_THAT(seen, Each(::testing::IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         MonitoredGroup,
                         ::testing::ValuesIn(backends_without_a_device()),
                         [](const auto& info) { return info.param; });

TEST(FaultPlanInThreads, AThrownFaultNamesItself) {
  const auto seen = errors_of_ranks(2, "thread", program, {.faults = "throw@rank=0,op=broadcast"});
  EXPECT_THAT(seen[0], HasSubstr("rank 0, broadcast: fault plan \"throw@rank=0,op=broadcast\""));
}

TEST(MonitorOff, GivesThePlainBackend) {
  testing::run_ranks(2,
                     [](ProcessGroup group) {
                       EXPECT_EQ(flight_recorder(group), nullptr);
                       group.barrier();
                     },
                     {.monitor = {.on = false}});
}

}  // namespace
}  // namespace muster
