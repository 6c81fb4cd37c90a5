// The groups of a job whose ranks are threads of this process, each with the environment of a rank.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <thread>

#include <arpa/inet.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/job_key.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/meet/store.h"
#include "muster/distributed/process_group.h"

#include "tests/distributed/given_time.h"
#include "tests/distributed/listener.h"
#include "tests/support/error_of.h"
#include "tests/support/held_port.h"
#include "tests/support/thread_count.h"

namespace muster {
namespace {

using test::HeldPort;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// The ranks of a job that one launcher started, as threads. Their errors, by rank.
std::vector<std::string> errors_of_job(int64_t ranks,
                                       const std::function<void(const RankEnv& env)>& rank_main) {
  const HeldPort held_port;
  const int64_t port = held_port.number;
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      errors[static_cast<size_t>(rank)] = test::error_of([&] {
        rank_main({.rank = rank,
                   .world_size = ranks,
                   .local_rank = rank,
                   .local_world_size = ranks,
                   .master_port = port});
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(JobGroup, MayBeMadeSeveralTimesAtOnceAndOneAfterTheOther) {
  for (const char* backend : {"shm", "gloo"}) {
    EXPECT_THAT(errors_of_job(3,
                              [&](const RankEnv& env) {
                                const distributed::GroupOptions options{.backend = backend,
                                                                        .timeout = 60s};
                                for (int round = 0; round < 2; ++round) {
                                  const auto one = distributed::init_process_group(options, env);
                                  const auto two = distributed::init_process_group(options, env);
                                  torch::Tensor tensor = torch::ones({1});
                                  two.all_reduce(tensor);
                                  one.all_reduce(tensor);
                                  EXPECT_EQ(tensor.item<float>(), 9);
                                }
                              }),
                ::testing::Each(test::kNoError))
        << backend;
  }
}

TEST(JobGroup, MayNameItsBackendByTheKindOfDevice) {
  EXPECT_THAT(errors_of_job(2,
                            [&](const RankEnv& env) {
                              const auto group = distributed::init_process_group(
                                  {.backend = "cpu:shm", .timeout = 60s}, env);
                              EXPECT_EQ(group.backend(), "shm");
                              group.barrier();
                            }),
              ::testing::Each(test::kNoError));
}

// As trials of a study are, side by side: none serves a store at the port that launchers use.
TEST(JobGroup, OfAProgramThatWasStartedAloneNeedsNoPort) {
  for (const std::string backend : {"auto", "cpu:auto", "thread", "gloo", "cpu:gloo", "shm"}) {
    const auto start = [&] {
      return distributed::init_process_group({.backend = backend, .timeout = 60s}, std::nullopt);
    };
    const distributed::ProcessGroup one = start(), two = start();
    torch::Tensor tensor = torch::ones({1});
    one.all_reduce(tensor);
    two.all_reduce(tensor);
    EXPECT_EQ(tensor.item<float>(), 1) << backend;
    EXPECT_EQ(one.all_gather_text("a"), std::vector<std::string>{"a"});
  }
}

// For a model on the CPU, whatever devices there are: nccl is not even asked.
TEST(JobGroup, MayLeaveItsBackendToAutoForOneKindOfDevice) {
  const auto errors = errors_of_job(2, [&](const RankEnv& env) {
    const auto group =
        distributed::init_process_group({.backend = "cpu:auto", .timeout = 60s}, env);
    EXPECT_EQ(group.backend(), "shm");
    EXPECT_EQ(group.backend_reason(), "auto");
    EXPECT_EQ(group.device(), at::Device(at::kCPU));
    group.barrier();
  });
  EXPECT_THAT(errors, ::testing::Each(test::kNoError));
}

/// As many as can have one each, or none; nccl's are there when it was asked for.
int64_t cuda_devices() {
  distributed::backends().at("nccl").available();
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount();
}

// On any machine, with devices or without: there is always a rank that has none.
TEST(JobGroup, SaysOnAllRanksWhyAutoFindsNoneForADevice) {
  EXPECT_THAT(errors_of_job(std::max<int64_t>(2, cuda_devices() + 1),
                            [](const RankEnv& env) {
                              distributed::init_process_group(
                                  {.backend = "cuda:auto", .timeout = 60s}, env);
                            }),
              ::testing::Each(AllOf(HasSubstr("no process-group backend for cuda tensors"),
                                    HasSubstr("not nccl: "))));
}

TEST(JobGroup, ThatWasDroppedLeavesNoThreadBehind) {
  const auto make_groups = [](int count) {
    return errors_of_job(2, [&](const RankEnv& env) {
      for (int i = 0; i < count; ++i) {
        const auto group =
            distributed::init_process_group({.backend = "gloo", .timeout = 60s}, env);
        group.barrier();
      }
    });
  };
  EXPECT_THAT(make_groups(1), ::testing::Each(test::kNoError));
  const int64_t before = test::thread_count();
  EXPECT_THAT(make_groups(8), ::testing::Each(test::kNoError));
  // But the one that serves the second job's store; heartbeats may still say goodbye.
  for (int round = 0; test::thread_count() > before + 1 && round < 2000; ++round)
    std::this_thread::sleep_for(10ms);
  EXPECT_LE(test::thread_count(), before + 1);
}

TEST(JobGroup, OfAJobWithAKeyTrainsInASealedStore) {
  const std::string key = JobKey::make().text();
  EXPECT_THAT(errors_of_job(2,
                            [&](const RankEnv& env) {
                              const auto store = distributed::connect_store(env, 60s, {.key = key});
                              store->set(std::to_string(env.rank), std::string("here"));
                              EXPECT_EQ(store->get_to_str(std::to_string(1 - env.rank)), "here");
                            }),
              ::testing::Each(test::kNoError));
}

/// What ranks of a gloo job with this key (empty: none) end with, into whose store somebody else
/// writes that they have failed; "no error" if they were not moved by that for a second.
std::vector<std::string> errors_of_job_with_a_stranger(const std::string& key) {
  using Clock = std::chrono::steady_clock;
  std::string job = "muster/none/0/";
  if (!key.empty()) {
    ::setenv("MUSTER_JOB_KEY", key.c_str(), 1);
    std::ostringstream print;
    print << std::hex << (JobKey::parse(key).tag("job") >> 32);
    job += print.str();  // whoever lists the keys sees it
  }
  auto errors = errors_of_job(2, [&](const RankEnv& env) {
    const auto group = distributed::init_process_group(
        {.backend = "gloo", .timeout = 60s, .monitor = {.heartbeat = 50ms}}, env);
    if (env.rank == 0) {
      c10d::TCPStoreOptions options;
      options.port = static_cast<uint16_t>(env.master_port);
      options.waitWorkers = false;
      const c10::intrusive_ptr<c10d::Store> stranger =
          c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
      stranger->set(job + "/0/monitor/verdict", std::string("rank 7 is gone"));
    }
    // Without a key it is ended by that, whenever the monitor comes to read it.
    const auto until = Clock::now() + (key.empty() ? 600s : 1s);
    torch::Tensor go_on = torch::ones({1});
    while (go_on.item<float>() > 0) {
      go_on.fill_(env.rank == 0 && Clock::now() > until ? 0 : 1);
      group.broadcast(go_on);
    }
  });
  ::unsetenv("MUSTER_JOB_KEY");
  return errors;
}

TEST(JobGroup, OfAJobWithAKeyIsNotEndedByAStranger) {
  // Who fails first closes the others' connections, which may be what they see first.
  EXPECT_THAT(errors_of_job_with_a_stranger(""),
              ::testing::AllOf(::testing::Contains(HasSubstr("rank 7 is gone")),
                               ::testing::Not(::testing::Contains(test::kNoError))));
  EXPECT_THAT(errors_of_job_with_a_stranger(JobKey::make().text()),
              ::testing::Each(test::kNoError));
}

/// A rank of two of a job that one launcher started.
RankEnv rank_of_two(int64_t rank, int64_t port, const std::string& run_id) {
  return {.rank = rank,
          .world_size = 2,
          .local_rank = rank,
          .local_world_size = 2,
          .master_port = port,
          .run_id = run_id};
}

// Two launchers had picked one free port: this one's rank 0 was faster.
TEST(JobGroup, OfOneLauncherIsNotDisturbedByARankOfAnotherAtItsPort) {
  const HeldPort held_port;
  const int64_t port = held_port.number;
  const std::string key = JobKey::make().text();
  const auto error_of_rank = [&](int64_t rank) {
    return test::error_of(
        [&] { distributed::connect_store(rank_of_two(rank, port, "mine"), 60s, {.key = key}); });
  };
  std::string error_of_first;
  std::thread first([&] { error_of_first = error_of_rank(0); });
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  const auto served =
      c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);  // waits for rank 0
  const std::string not_met = "rank 0 did not come to the meeting of ranks";
  const auto said_to_another = [&](std::chrono::milliseconds timeout) {
    return test::error_of([&] {
      distributed::connect_store(
          rank_of_two(1, port, "theirs"), timeout, {.key = JobKey::make().text()});
    });
  };
  EXPECT_THAT(test::said_in_time(said_to_another, not_met), HasSubstr(not_met));
  EXPECT_EQ(error_of_rank(1), test::kNoError);
  first.join();
  EXPECT_EQ(error_of_first, test::kNoError);
}

TEST(JobGroup, MayBeOfAnotherJobAtTheSameAddressWhenThoseOfTheFirstAreGone) {
  const HeldPort held_port;
  const int64_t port = held_port.number;
  const auto connect = [&](const std::string& run_id, auto use) {
    std::vector<std::string> errors(2);
    std::vector<std::thread> ranks;
    for (int64_t rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        errors[static_cast<size_t>(rank)] = test::error_of([&] {
          const auto store = distributed::connect_store(rank_of_two(rank, port, run_id), 60s);
          store->set(std::to_string(rank), run_id);
          EXPECT_EQ(store->get_to_str(std::to_string(1 - rank)), run_id);
          if (rank == 0) use();  // who serves the store, and still holds it
        });
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return errors;
  };
  const auto meanwhile = [&] {
    EXPECT_THAT(
        test::error_of([&] { distributed::connect_store(rank_of_two(0, port, "second"), 60s); }),
        AllOf(HasSubstr(concat("port ", port, " is in use")),
              HasSubstr("this process serves the store of another job there")));
  };
  EXPECT_THAT(connect("first", meanwhile), ::testing::Each(test::kNoError));
  EXPECT_THAT(connect("second", [] {}), ::testing::Each(test::kNoError));
  EXPECT_THAT(connect("second", [] {}), ::testing::Each(test::kNoError));  // its second group
}

// Rank 0 ends a job's server to serve the next one at its address, in the instant in which rank 1 asks.
TEST(JobGroup, IsMetAlsoByARankWhoseServerGoesWhileItIsAsked) {
  test::Listener server;
  ASSERT_EQ(::listen(server.fd.get(), 16), 0);  // a full queue would keep a connection for seconds
  const int64_t port = server.port;
  std::string error;
  std::thread one([&] {
    error = test::error_of([&] { distributed::connect_store(rank_of_two(1, port, "next"), 60s); });
  });
  for (int i = 0; i < 4; ++i) UniqueFd(::accept(server.fd.get(), nullptr, nullptr));
  server.fd.reset();
  EXPECT_EQ(test::error_of([&] { distributed::connect_store(rank_of_two(0, port, "next"), 60s); }),
            test::kNoError);
  one.join();
  EXPECT_EQ(error, test::kNoError);
}

// Rank 1 goes on to the next job while rank 0 still holds the first one.
TEST(JobGroup, OfTheNextJobAtTheSameAddressDoesNotMeetTheFirstOnesServer) {
  const HeldPort held_port;
  const int64_t port = held_port.number;
  const auto connect =
      [&](int64_t rank, const std::string& run_id, std::chrono::milliseconds timeout) {
        return distributed::connect_store(rank_of_two(rank, port, run_id), timeout);
      };
  const auto said_meanwhile = [&](std::chrono::milliseconds timeout) {
    return test::refusal_of([&] { connect(1, "second", timeout); }, ErrorKind::kEnvironment);
  };
  const std::string not_met = "rank 0 did not come to the meeting of ranks";
  c10::intrusive_ptr<c10d::Store> held;
  std::thread zero([&] { held = connect(0, "first", 60s); });
  connect(1, "first", 60s);
  zero.join();
  EXPECT_THAT(
      test::said_in_time(said_meanwhile, not_met),
      AllOf(HasSubstr(not_met), HasSubstr("it still serves the job first at this address")));
  std::string error;
  std::thread one([&] { error = test::error_of([&] { connect(1, "second", 60s); }); });
  held.reset();
  EXPECT_EQ(test::error_of([&] { held = connect(0, "second", 60s); }), test::kNoError);
  one.join();
  EXPECT_EQ(error, test::kNoError);
}

// One machine explains its plan where another one trains.
TEST(JobGroup, IsNotWaitedForByRanksThatAreToldThatOneMakesNone) {
  const HeldPort held_port;
  const int64_t port = held_port.number;
  std::string of_explaining;
  std::thread one([&] {
    of_explaining = test::refusal_of(
        [&] { distributed::attend_as(rank_of_two(1, port, "a"), "train --explain", 60s); },
        ErrorKind::kUsage);
  });
  const std::string of_training = test::refusal_of(
      [&] {
        distributed::connect_store(rank_of_two(0, port, "a"), 60s, {.key = "", .program = "train"});
      },
      ErrorKind::kUsage);
  one.join();
  for (const std::string& text : {of_explaining, of_training})
    EXPECT_THAT(text,
                AllOf(HasSubstr("train for rank 0"), HasSubstr("train --explain for rank 1")));
  distributed::attend_as(
      rank_of_two(1, HeldPort().number, "b"), "train --explain", 50ms);  // nobody
  distributed::attend_as(rank_of_two(0, HeldPort().number, "c"), "train --explain", 50ms);
}

TEST(JobGroup, OfOneMachineHasAStoreThatOthersDoNotReach) {
  const auto reaches = [](const char* address, int64_t port) {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, address, &to.sin_addr);
    return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  };
  EXPECT_THAT(errors_of_job(1,
                            [&](const RankEnv& env) {
                              const auto store = distributed::connect_store(env, 60s);
                              EXPECT_TRUE(reaches("127.0.0.1", env.master_port));
                              // Every address of 127/8 is this machine's, as another interface's.
                              EXPECT_FALSE(reaches("127.0.0.2", env.master_port));
                            }),
              ::testing::Each(test::kNoError));
}

TEST(JobGroup, ABackendThatOneRankCannotUseIsRefusedByAll) {
  // Local rank 1000 has no device of its own anywhere; where there are no devices, nobody has.
  const auto errors = errors_of_job(2, [](const RankEnv& env) {
    RankEnv place = env;
    if (env.rank == 1) place.local_rank = 1000;
    distributed::init_process_group({.backend = "nccl", .timeout = 60s}, place);
  });
  EXPECT_THAT(errors, ::testing::Each(HasSubstr("backend nccl cannot be used here")));
  EXPECT_EQ(errors[0], errors[1]);
}

}  // namespace
}  // namespace muster
