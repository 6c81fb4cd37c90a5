// How a process finds its group: environment, store, backends.
#include "muster/distributed/process_group.h"

#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/meet/choose_backend.h"
#include "muster/distributed/meet/store.h"
#include "muster/distributed/two_level/two_level.h"

#include "tests/distributed/listener.h"
#include "tests/support/error_of.h"
#include "tests/support/held_port.h"
#include "tests/support/variables.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;
using test::HeldPort;
using test::Listener;
using test::muster_error_of;

TEST(ProcessGroup, WithoutALauncherIsAGroupOfOne) {
  const auto group = distributed::init_process_group({}, std::nullopt);
  EXPECT_EQ(group.world_size(), 1);
  torch::Tensor tensor = torch::ones({3});
  group.all_reduce(tensor);
  group.barrier();
  EXPECT_TRUE(torch::equal(tensor, torch::ones({3})));
}

TEST(ProcessGroup, RanksOfALauncherMeetOverGloo) {
  const HeldPort held_port;
  const int64_t port = held_port.number;
  std::vector<std::thread> ranks;
  std::vector<double> sums(3);
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      RankEnv env{.rank = rank, .world_size = 3, .master_port = port};
      const auto group = distributed::init_process_group({.backend = "gloo", .timeout = 20s}, env);
      torch::Tensor tensor = torch::full({2}, rank + 1.0);
      group.all_reduce(tensor);
      sums[rank] = tensor[1].item<double>();
      group.barrier();  // rank 0 serves the store until all are here
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_THAT(sums, ::testing::Each(6.0));
}

TEST(ProcessGroup, AutoTakesSharedMemoryOnOneHostAndSaysWhy) {
  const HeldPort held_port;
  const int64_t port = held_port.number;
  std::thread other([&] {
    distributed::init_process_group({.timeout = 20s},
                                    RankEnv{.rank = 1, .world_size = 2, .master_port = port})
        .barrier();
  });
  const auto group = distributed::init_process_group(
      {.timeout = 20s}, RankEnv{.rank = 0, .world_size = 2, .master_port = port});
  group.barrier();
  other.join();
  const bool device = distributed::backends().at("nccl").available().empty();
  EXPECT_EQ(group.backend(), device ? "nccl" : "shm");
  EXPECT_THAT(group.backend_reason(), ::testing::StartsWith(device ? "auto" : "auto; not nccl: "));
}

std::string refusal(const char* backend, const std::vector<distributed::RankOffer>& ranks) {
  return distributed::why_not(distributed::backends().at(backend), ranks);
}

TEST(AutoBackend, TakesWhatSuitsAllRanks) {
  std::vector<std::string_view> names;
  for (const auto* entry : distributed::by_preference()) names.push_back(entry->name);
  EXPECT_THAT(names, ::testing::ElementsAre("nccl", "shm", "shm+gloo", "gloo"));

  const std::vector<distributed::RankOffer> one_host{{"a", {}}, {"a", {}}},
      mixed{{"a", {}}, {"a", {}}, {"b", {}}}, apart{{"a", {}}, {"b", {}}};
  EXPECT_EQ(refusal("shm", one_host), "");
  EXPECT_EQ(refusal("shm", mixed), "ranks 0 and 2 are on different hosts");
  EXPECT_EQ(refusal("shm+gloo", mixed), "");
  EXPECT_EQ(refusal("shm+gloo", one_host), "all ranks are on one host");
  EXPECT_EQ(refusal("shm+gloo", apart), "every rank has a host of its own");
  EXPECT_EQ(refusal("gloo", apart), "");
}

TEST(AutoBackend, IsTheSameForAllIfOneRankCannot) {
  const std::vector<distributed::RankOffer> ranks{{"a", {}}, {"a", {{"shm", "no shared memory"}}}};
  EXPECT_EQ(refusal("shm", ranks), "rank 1: no shared memory");
}

TEST(AutoBackend, IsOneForEachKindOfDevice) {
  const std::vector<const distributed::BackendEntry*> entries = distributed::by_preference();
  const std::vector<distributed::RankOffer> with_devices{{"a", {}}, {"a", {}}},
      without{{"a", {{"nccl", "no device"}}}, {"a", {{"nccl", "no device"}}}};
  const auto chosen = [&](at::DeviceType kind, const auto& ranks, std::string& reason) {
    const auto* entry = distributed::choose(entries, kind, ranks, {}, reason);
    return entry == nullptr ? "none" : std::string(entry->name);
  };
  std::string reason;
  EXPECT_EQ(chosen(at::kCPU, with_devices, reason), "shm");
  EXPECT_EQ(chosen(at::kCUDA, with_devices, reason), "nccl");
  EXPECT_EQ(reason, "");
  EXPECT_EQ(chosen(at::kCUDA, without, reason), "none");
  EXPECT_EQ(reason, "; not nccl: no device");
  const auto* shm = &distributed::backends().at("shm");
  EXPECT_EQ(distributed::choose(entries, at::kCPU, without, {{shm, "too small"}}, reason)->name,
            "gloo");
  EXPECT_THAT(reason, HasSubstr("; not shm: too small; not shm+gloo: all ranks are on one host"));
}

TEST(NamedBackends, AreOneForAllKindsOrOneForEach) {
  using distributed::named_members;
  EXPECT_EQ(named_members("thread").size(), 3u);  // with the fake devices of this program
  EXPECT_EQ(named_members("gloo").size(), 1u);
  const auto members = named_members("cuda:nccl,cpu:gloo");
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].entry->name, "nccl");
  EXPECT_EQ(members[1].kind, at::kCPU);
  const auto refusal_of = [](const char* text) {
    return test::refusal_of([&] { named_members(text); });
  };
  EXPECT_THAT(refusal_of("cuda:gloo"), HasSubstr("gloo does not move cuda tensors"));
  EXPECT_THAT(refusal_of("cpu:gloo,cpu:shm"), HasSubstr("cpu is named once"));
  EXPECT_THAT(refusal_of("cpu:gloo,nccl"), HasSubstr("each part is cpu:NAME or cuda:NAME"));
  EXPECT_THAT(refusal_of("tpu:gloo"), HasSubstr("each part is cpu:NAME or cuda:NAME"));
  EXPECT_THAT(refusal_of("cpu:glo"), HasSubstr("did you mean \"gloo\"?"));
  EXPECT_THAT(refusal_of("cpu:auto,cuda:nccl"), HasSubstr("auto is for all kinds that are named"));
  ASSERT_EQ(named_members("cpu:auto").size(), 1u);
  EXPECT_EQ(named_members("cpu:auto")[0].entry, nullptr);
}

TEST(Backends, NcclIsNotForRanksThatShareADevice) {
  const distributed::BackendEntry& nccl = distributed::backends().at("nccl");
  using Ranks = std::vector<distributed::RankOffer>;
  const auto on = [](const char* host, const char* device) {
    return distributed::RankOffer{.host_identity = host, .refusals = {}, .device = device};
  };
  EXPECT_EQ(nccl.unsuitable(Ranks{on("a", "cuda:0"), on("a", "cuda:1"), on("b", "cuda:0")}), "");
  EXPECT_EQ(nccl.unsuitable(Ranks{on("a", "cuda:0"), on("b", "cuda:1"), on("a", "cuda:0")}),
            "ranks 0 and 2 share cuda:0");
  EXPECT_EQ(nccl.unsuitable(Ranks{on("a", ""), on("a", "")}), "");
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  EXPECT_EQ(nccl.unsuitable(Ranks{on("a", "cuda:0"), on("a", "cuda:0")}), "");
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

TEST(ProcessGroup, KnowsWhatItsBackendCanDo) {
  for (const std::string backend : {"thread", "shm"}) {
    distributed::ThreadWorld(2, 60s, backend).run([&](const distributed::ProcessGroup& group) {
      EXPECT_EQ(&group.backend_entry(), &distributed::backends().at(backend));
      const auto part = group.split(0, group.rank());
      EXPECT_EQ(&part->backend_entry(), &group.backend_entry());
    });
  }
}

TEST(Backends, SayHowTensorsOfADeviceWillTravel) {
  using distributed::backend_outlook;
  EXPECT_EQ(backend_outlook("auto", at::kCPU), "auto");
  EXPECT_EQ(backend_outlook("gloo", at::kCUDA), "gloo; tensors of cuda go by host memory");
  EXPECT_EQ(backend_outlook("cpu:gloo,cuda:nccl", at::kCUDA), "cpu:gloo,cuda:nccl");
}

TEST(ShmBackend, RefusesRanksOfOtherHostsOnAllRanks) {
  // Without a board: they meet in the store, as processes do.
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> errors(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      errors[rank] = test::error_of([&] {
        distributed::backends().at("shm").make({.store = store,
                                                .rank = rank,
                                                .world_size = 2,
                                                .timeout = 20s,
                                                .host_identity = rank == 0 ? "a" : "b"});
      });
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_THAT(errors, ::testing::Each("rank 1: it is not on rank 0's host"));
}

TEST(Hosts, AreFoundInTheOrderOfTheirFirstRank) {
  EXPECT_THAT(
      distributed::hosts_of({"b", "a", "b", "c", "a"}),
      ::testing::ElementsAre(
          ::testing::ElementsAre(0, 2), ::testing::ElementsAre(1, 4), ::testing::ElementsAre(3)));
}

TEST(ProcessGroup, APortInUseIsNamed) {
  const Listener other_job;
  const Error error = muster_error_of([&] {
    distributed::init_process_group(
        {.backend = "gloo", .timeout = 5s},
        RankEnv{.rank = 0, .world_size = 2, .master_port = other_job.port});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("port " + std::to_string(other_job.port) + " is in use"));
  EXPECT_THAT(error.what(), HasSubstr("--master-port"));
}

TEST(ProcessGroup, SumsAndSendsConjugateAndNegativeViewsForWhatTheyShow) {
  for (const char* backend : {"thread", "shm"}) {
    distributed::ThreadWorld(2, 60s, backend).run([](const distributed::ProcessGroup& group) {
      const c10::complex<double> value(1, 2.0 + group.rank());
      torch::Tensor held = torch::full({2}, value, torch::kComplexDouble), shown = held.conj();
      group.all_reduce(shown);
      EXPECT_TRUE(
          torch::equal(shown.resolve_conj(),
                       torch::full({2}, c10::complex<double>(2, -5), torch::kComplexDouble)));
      held = torch::full({2}, value, torch::kComplexDouble);
      const torch::Tensor all = group.all_gather(at::imag(held.conj()));
      EXPECT_TRUE(torch::equal(all, torch::tensor({{-2.0, -2.0}, {-3.0, -3.0}}, torch::kDouble)));
    });
  }
}

TEST(ProcessGroup, RankZeroThatNeverComesIsNamedAfterTheTimeout) {
  const HeldPort held_port;
  const int64_t port = held_port.number;
  const Error error = muster_error_of([&] {
    distributed::connect_store({.rank = 1, .world_size = 2, .master_port = port}, 100ms);
  });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(),
              HasSubstr("no answer from rank 0 at 127.0.0.1:" + std::to_string(port)));
}

TEST(ProcessGroup, AHostThatDoesNotAnswerIsNamedAfterTheTimeout) {
  // A listener whose queue is full answers no more than a host that is down.
  const Listener busy;
  std::vector<UniqueFd> waiting;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(busy.port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 8; ++i) {
    waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ::connect(waiting.back().get(), reinterpret_cast<sockaddr*>(&to), sizeof to);
  }
  const Error error = muster_error_of([&] {
    distributed::connect_store({.rank = 1, .world_size = 2, .master_port = busy.port}, 200ms);
  });
  EXPECT_THAT(error.what(), HasSubstr("no answer from rank 0 at 127.0.0.1"));
}

TEST(ProcessGroup, UnknownBackendGetsASuggestion) {
  const Error error = muster_error_of([] {
    distributed::init_process_group({.backend = "glo"}, RankEnv{.rank = 0, .world_size = 2});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.what(), HasSubstr("did you mean \"gloo\"?"));
}

TEST(ProcessGroup, ThreadRanksCannotComeFromALauncher) {
  const Error error = muster_error_of([] {
    distributed::init_process_group(
        {.backend = "thread", .timeout = 5s},
        RankEnv{.rank = 0, .world_size = 2, .master_port = HeldPort().number});
  });
  EXPECT_THAT(error.what(), HasSubstr("its ranks are threads of one process"));
}

TEST(ProcessGroup, WorldSizeZeroIsRefused) {
  EXPECT_EQ(muster_error_of([] { distributed::ThreadWorld(0); }).exit_code(), 2);
  const Error error = muster_error_of([] {
    rank_env_from(test::lookup_in({{"RANK", "0"}, {"WORLD_SIZE", "0"}}));
  });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), HasSubstr("WORLD_SIZE=0"));
}

TEST(Backends, SayWhyTheyCannotBeUsed) {
  for (const distributed::BackendEntry* entry : distributed::backends()) {
    EXPECT_FALSE(entry->help.empty());
    EXPECT_TRUE(entry->moves_cpu || entry->moves_cuda) << entry->name;
    const std::string why = entry->available();
    const bool has_device = entry->moves_cpu || at::hasCUDA();
    if (entry->moves_cpu || !has_device) {
      EXPECT_EQ(why.empty(), has_device) << entry->name << ": " << why;
    }
  }
  EXPECT_THAT(distributed::backends().names(), ::testing::IsSupersetOf({"gloo", "nccl", "thread"}));
}

// Added to a clock's time it would be past, and everything late at once.
TEST(Timeout, MayBeTheLongestThatThereIsAndNotNone) {
  constexpr auto kMax = std::chrono::milliseconds::max();
  const distributed::ThreadWorld world(2, kMax);
  world.run([&](const distributed::ProcessGroup& group) {
    const at::Tensor tensor = torch::ones({2});
    group.all_reduce(tensor);
    if (group.rank() == 0) group.send(tensor, 1, {.timeout = kMax});
    if (group.rank() == 1) group.recv(tensor, 0, {.timeout = kMax});
    EXPECT_EQ(tensor.sum().item<float>(), 4);
    const auto part = group.split(0, group.rank(), {.timeout = kMax});
    part->all_reduce_async(tensor).wait();
    EXPECT_EQ(tensor.sum().item<float>(), 8);
  });
  EXPECT_THAT(test::refusal_of([] { distributed::ThreadWorld(2, std::chrono::milliseconds(0)); }),
              HasSubstr("1 ms at least (got 0 ms)"));
  EXPECT_THAT(test::refusal_of([&] { distributed::init_process_group({.timeout = -kMax}, {}); }),
              HasSubstr("GroupOptions::timeout: 1 ms at least"));
}

// The other one comes when it has been missed, which would be in an hour otherwise.
TEST(Timeout, OfAGroupCanBeSaidLaterAndLeavesGroupsThatAreThere) {
  for (const char* backend : {"thread", "shm", "gloo"}) {
    const distributed::ThreadWorld world(2, std::chrono::hours(1), backend);
    std::latch missed(1);
    const std::string error = test::error_of([&] {
      world.run([&](const distributed::ProcessGroup& group) {
        group.barrier();
        const auto before = group.split(0, group.rank());
        group.set_timeout(std::chrono::milliseconds(200));
        EXPECT_EQ(group.timeout(), std::chrono::milliseconds(200));
        EXPECT_EQ(before->timeout(), std::chrono::hours(1));
        const auto part = before->split(0, group.rank());
        EXPECT_EQ(part->timeout(), std::chrono::hours(1));
        if (group.rank() == 1) return missed.wait();
        EXPECT_THAT(test::error_of([&] { group.recv(torch::ones({2}), 1); }), HasSubstr("200 ms"));
        EXPECT_THAT(test::error_of([&] { group.barrier(); }), HasSubstr("rank 1 did not come"));
        missed.count_down();
      });
    });
    EXPECT_EQ(error, test::kNoError) << backend;
  }
  const distributed::ThreadWorld alone(1);
  EXPECT_THAT(test::refusal_of([&] { alone.group(0).set_timeout(std::chrono::milliseconds(0)); }),
              HasSubstr("the timeout of a group: 1 ms at least (got 0 ms)"));
}

}  // namespace
}  // namespace muster
