// A launcher on each machine, as the guides have it: they need nothing to agree on but what is
// typed, and what they do not agree on both say. The machines are this one.
#include <filesystem>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "muster/base/text.h"

#include "tests/support/folder.h"
#include "tests/support/held_port.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::testing_process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

// The ranks would wait for each other for a minute (monitored_rank.cpp).
constexpr std::chrono::seconds kMachinesLimit(40);

/// Bound, on the loopback address, to a port of the kernel's choice.
struct Port {
  Port() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    number = ntohs(address.sin_port);
  }
  UniqueFd fd;
  int number = 0;
};

struct Machine {
  Words flags = {};
  Words environment = {};
  std::string program = test::program_path("muster_monitored_rank");
  std::string timeout_ms = "20000";
};

Words line_of(int node, int64_t port, const Machine& machine) {
  Words words{"run",
              "--nnodes",
              "2",
              "--node-rank",
              std::to_string(node),
              "--rdzv-endpoint",
              concat("127.0.0.1:", port)};
  words.insert(words.end(), machine.flags.begin(), machine.flags.end());
  words.insert(words.end(), {"--", machine.program, "gloo", machine.timeout_ms});
  return words;
}

struct Outcome {
  int code;
  std::string err;
};

std::vector<Outcome> run_machines(const Machine& first, const Machine& second) {
  const test::HeldPort port;
  Launched zero(line_of(0, port.number, first), {.environment = first.environment});
  Launched one(line_of(1, port.number, second), {.environment = second.environment});
  std::vector<Outcome> outcomes;
  for (Launched* job : {&zero, &one}) {
    const int code = job->wait(kMachinesLimit).code;
    outcomes.push_back({code, job->err()});
  }
  return outcomes;
}

void expect_both_say(const Machine& first, const Machine& second, const Words& texts) {
  for (const Outcome& outcome : run_machines(first, second)) {
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("ranks of different jobs met"));
    for (const std::string& text : texts) EXPECT_THAT(outcome.err, HasSubstr(text));
  }
}

TEST(SeveralMachines, MeetByTheFlagsOfTheGuides) {
  for (const Outcome& outcome :
       run_machines({.flags = {"--nproc-per-node", "2"}}, {.flags = {"--nproc-per-node", "2"}}))
    EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(SeveralMachines, MeetWithOneNameAndOneKey) {
  const Machine machine{.flags = {"--rdzv-id", "a1"},
                        .environment = {"MUSTER_JOB_KEY=00112233445566778899aabbccddeeff"}};
  for (const Outcome& outcome : run_machines(machine, machine))
    EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(SeveralMachines, SayThatTheirRunIdsDiffer) {
  expect_both_say({.flags = {"--rdzv-id", "a1"}},
                  {.flags = {"--rdzv-id", "b2"}},
                  {"the run id is ", "a1 for rank 0 (process ", "b2 for rank 1 (process "});
}

TEST(SeveralMachines, SayThatTheyStartDifferentNumbersOfRanks) {
  expect_both_say(
      {.flags = {"--nproc-per-node", "2"}},
      {.flags = {"--nproc-per-node", "1"}},
      {"the world size is ", "4 for rank ", "2 for rank ", "one of 2 there", "one of 1 there"});
}

TEST(SeveralMachines, SayThatTheirProgramsDiffer) {
  const test::Folder folder;
  const auto other = folder.path() / "another_program";
  std::filesystem::create_symlink(test::program_path("muster_monitored_rank"), other);
  expect_both_say(
      {},
      {.program = other.string()},
      {"the program is ", "muster_monitored_rank for rank 0", "another_program for rank 1"});
  const Words same{"MUSTER_PROGRAM=both"};
  for (const Outcome& outcome :
       run_machines({.environment = same}, {.environment = same, .program = other.string()}))
    EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(SeveralMachines, SayThatTheirKeysDifferAndDoNotShowThem) {
  const std::string key = "00112233445566778899aabbccddeeff";
  for (const Outcome& outcome : run_machines({.environment = {"MUSTER_JOB_KEY=" + key}}, {})) {
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("MUSTER_JOB_KEY is "),
                      HasSubstr("not set for rank 1"),
                      ::testing::Not(HasSubstr(key))));
  }
}

// As an HTTP server does, which waits for its client's request.
TEST(SeveralMachines, SayThatWhatAcceptsAtTheirAddressIsNoStore) {
  const Port silent;
  ASSERT_EQ(::listen(silent.fd.get(), 8), 0);
  Launched job(line_of(1, silent.number, {}));
  EXPECT_EQ(job.wait(kMachinesLimit).code, 1);
  EXPECT_THAT(job.err(),
              HasSubstr(concat("127.0.0.1:",
                               silent.number,
                               " accepts connections but does not answer as a job's store does")));
}

TEST(SeveralMachines, EndAtOnceAtCtrlCBeforeASilentPort) {
  const Port silent;
  ASSERT_EQ(::listen(silent.fd.get(), 8), 0);
  Launched job(line_of(1, silent.number, {}));
  const UniqueFd asked(
      ::accept(silent.fd.get(), nullptr, nullptr));  // the rank waits for an answer
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().code, 130);
  EXPECT_TRUE(job.nothing_left());
  EXPECT_THAT(job.err(), ::testing::Not(HasSubstr("accepts connections")));
}

// Its own launcher hears of the end from nobody; see Note [Stopped ranks].
TEST(SeveralMachines, EndThoughARankIsStopped) {
  const Words stops{"MUSTER_FAULTS=stop@rank=1,op=all_reduce,at=3"};
  const auto outcomes = run_machines({.environment = stops, .timeout_ms = "5000"},
                                     {.environment = stops, .timeout_ms = "5000"});
  EXPECT_EQ(outcomes[0].code, 1);
  EXPECT_THAT(outcomes[0].err, HasSubstr("rank 1 "));
  EXPECT_EQ(outcomes[1].code, 1);
  EXPECT_THAT(outcomes[1].err,
              HasSubstr("rank 1 is stopped, and the ranks that it is connected with have ended"));
}

}  // namespace
}  // namespace muster::testing_process
