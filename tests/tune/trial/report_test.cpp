// The client of C++ trials, against a tuner of a few lines that breaks the link when told to.
#include "muster/tune/trial/report.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/trial/wire.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/variables.h"

namespace muster::tune {
namespace {

using test::lookup_in;
using test::Variables;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// One connection of the fake tuner: reads lines, writes lines.
class Peer {
 public:
  explicit Peer(int listener) : fd_(::accept(listener, nullptr, nullptr)) {}
  TrialMessage read() {
    std::optional<TrialMessage> message;
    while (pending_.empty()) {
      char buffer[1000];
      const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
      if (got <= 0) throw internal_error({.refused = "the client has hung up"});
      lines_.feed({buffer, static_cast<size_t>(got)},
                  [&](std::string_view line) { pending_.emplace_back(line); });
    }
    const std::string line = pending_.front();
    pending_.erase(pending_.begin());
    return parse_trial_message(line);
  }
  Hello hello() { return std::get<Hello>(read()); }
  Report report() { return std::get<Report>(read()); }
  void write(const std::string& text) const {
    ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  void answer(const Answer& answer) const { write(to_line(answer)); }

 private:
  UniqueFd fd_;
  LineBuffer lines_;
  std::vector<std::string> pending_;
};

/// Listens; `serve` runs on a thread of its own until the test ends.
class FakeTuner {
 public:
  explicit FakeTuner(std::function<void(int listener)> serve, const char* kind = "unix") {
    const bool tcp = std::string_view(kind) == "tcp";
    listener_.reset(::socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (tcp) {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof address;
      ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size);
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
      variables["MUSTER_TUNER_ADDR"] = concat("tcp:127.0.0.1:", ::ntohs(address.sin_port));
      ::listen(listener_.get(), 8);
    } else {
      const std::string path = folder_.path() / "s";
      listener_ = listen_on(path);
      ::fcntl(listener_.get(), F_SETFL, 0);
      variables["MUSTER_TUNER_ADDR"] = "unix:" + path;
    }
    variables["MUSTER_TUNER_TOKEN"] = "secret";
    variables["MUSTER_TRIAL_ID"] = "3";
    variables["MUSTER_TRIAL_ATTEMPT"] = "2";
    thread_ =
        std::thread([this, serve] { trouble = test::error_of([&] { serve(listener_.get()); }); });
  }
  ~FakeTuner() {
    thread_.join();
    EXPECT_EQ(trouble, test::kNoError);
  }
  EnvLookup lookup() const { return lookup_in(variables); }

  Variables variables;
  std::string trouble;

 private:
  test::Folder folder_;
  UniqueFd listener_;
  std::thread thread_;
};

TEST(TrialLinkTest, ReportsAndHearsTheAnswer) {
  for (const char* kind : {"unix", "tcp"}) {
    FakeTuner tuner(
        [](int listener) {
          Peer peer(listener);
          const Hello hello = peer.hello();
          EXPECT_EQ(hello.token, "secret");
          EXPECT_EQ(hello.trial, 3);
          EXPECT_EQ(hello.attempt, 2);
          EXPECT_EQ(to_line(peer.report()),
                    "{\"type\":\"report\",\"sequence\":1,\"step\":4,\"metrics\":{\"loss\":0.5},"
                    "\"checkpoint\":\"/c\"}\n");
          peer.answer({.sequence = 1});
          EXPECT_EQ(peer.report().sequence, 2);
          peer.answer({.sequence = 2, .action = Action::kPause, .reason = "rung 1"});
        },
        kind);
    TrialLink link({}, tuner.lookup());
    EXPECT_EQ(link.kind(), TrialLink::Kind::kTwoWay);
    EXPECT_EQ(link.report({{"loss", 0.5}}, {.step = 4, .checkpoint = "/c"}), Decision{});
    EXPECT_EQ(link.report({{"loss", 0.5}}),
              (Decision{.action = Action::kPause, .reason = "rung 1"}));
  }
}

TEST(TrialLinkTest, SendsAgainWhatWasNotAnswered) {
  FakeTuner tuner([](int listener) {
    std::string client;
    {
      Peer peer(listener);
      client = peer.hello().client;
      peer.report();
      peer.answer({.sequence = 1});
      peer.report();
    }  // hangs up before the answer
    Peer again(listener);
    EXPECT_EQ(again.hello().client, client) << "it is the same one";
    EXPECT_EQ(again.report().sequence, 2);
    again.write("{\"type\":\"answer\",\"sequence\":1,\"action\":\"continue\"}\n{\"type\":\"ans");
    again.write("wer\",\"sequence\":2,\"action\":\"stop\"}\n");
  });
  TrialLink link({}, tuner.lookup());
  link.report({{"loss", 1}});
  EXPECT_EQ(link.report({{"loss", 2}}).action, Action::kStop);
}

TEST(TrialLinkTest, ARefusalIsAnErrorAndTheLinkStays) {
  FakeTuner tuner([](int listener) {
    Peer peer(listener);
    peer.hello();
    peer.report();
    peer.answer({.sequence = 1, .error = "metric loss is missing\nhint: did you mean \"los\"?"});
    EXPECT_EQ(peer.report().sequence, 2);
    peer.answer({.sequence = 2});
  });
  TrialLink link({}, tuner.lookup());
  EXPECT_THAT(test::refusal_of([&] { link.report({{"los", 1}}); }), HasSubstr("did you mean"));
  EXPECT_THAT(test::refusal_of([&] { link.report({}); }), HasSubstr("at least one metric"));
  EXPECT_EQ(link.report({{"loss", 1}}).action, Action::kContinue);
}

TEST(TrialLinkTest, AStrangersTokenIsRefusedForGood) {
  FakeTuner tuner([](int listener) {
    Peer peer(listener);
    peer.hello();
    peer.answer({.error = "this token is of no trial of this tuner"});
  });
  TrialLink link({}, tuner.lookup());
  EXPECT_THAT(test::refusal_of([&] {
                link.report({{"loss", 1}});
              }),
              HasSubstr("no trial of this tuner"));
}

TEST(TrialLinkTest, AnswersThatAreNoneAreAnError) {
  FakeTuner tuner([](int listener) {
    Peer peer(listener);
    peer.write("HTTP/1.1 400 Bad Request\r\n");
    peer.read();
  });
  TrialLink link({}, tuner.lookup());
  EXPECT_THAT(test::refusal_of([&] { link.report({{"loss", 1}}); }), HasSubstr("not valid JSON"));
}

// As one that is stopped: nothing but the trial's own signal can end the wait.
TEST(TrialLinkTest, AProcessThatIsToEndWaitsForNoAnswer) {
  std::atomic<bool> is_to_end = false;
  FakeTuner tuner([&](int listener) {
    Peer peer(listener);
    peer.hello();
    peer.report();
    is_to_end = true;
    EXPECT_THAT(test::error_of([&] { peer.read(); }), HasSubstr("has hung up"));
  });
  TrialLink link({.stop_requested = [&] { return is_to_end.load(); }}, tuner.lookup());
  EXPECT_EQ(link.report({{"loss", 1}}).action, Action::kContinue);
}

TEST(TrialLinkTest, ALinkThatStaysLostIsAnErrorAfterTheLease) {
  const EnvLookup lookup = lookup_in({{"MUSTER_TUNER_ADDR", "unix:/nowhere/socket"}});
  TrialLink link({.lease_s = 0.05, .exit_when_lost = false}, lookup);
  const std::string error = test::refusal_of(
      [&] {
        link.report({{"loss", 1}});
      },
      ErrorKind::kEnvironment);
  EXPECT_THAT(error, HasSubstr("the link to the tuner at unix:/nowhere/socket is lost"));
  EXPECT_THAT(error, HasSubstr("ENOENT"));
}

TEST(TrialLinkDeathTest, ALostLinkEndsTheProcess) {
  const EnvLookup lookup = lookup_in({{"MUSTER_TUNER_ADDR", "unix:/nowhere/socket"}});
  EXPECT_EXIT(
      {
        TrialLink link({.lease_s = 0}, lookup);
        link.report({{"loss", 1}});
      },
      ::testing::ExitedWithCode(1),
      "the link to the tuner");
}

TEST(TrialLinkTest, AForkedChildIsAClientOfItsOwn) {
  FakeTuner tuner([](int listener) {
    Peer parent(listener);
    const std::string name = parent.hello().client;
    parent.report();
    parent.answer({.sequence = 1});
    Peer child(listener);
    EXPECT_NE(child.hello().client, name);
    EXPECT_EQ(child.report().sequence, 1);
    child.answer({.sequence = 1, .action = Action::kStop});
    EXPECT_EQ(parent.report().sequence, 2);
    parent.answer({.sequence = 2});
  });
  TrialLink link({}, tuner.lookup());
  link.report({{"loss", 1}});
  const pid_t child = ::fork();
  if (child == 0) ::_exit(link.report({{"loss", 2}}).action == Action::kStop ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(link.report({{"loss", 3}}).action, Action::kContinue);
}

TEST(TrialLinkTest, WithoutAnAddressItWritesToTheReportFile) {
  const test::Folder folder;
  const std::string file = folder.path() / "reports";
  TrialLink link({}, lookup_in({{"MUSTER_REPORT_FILE", file}}));
  EXPECT_EQ(link.kind(), TrialLink::Kind::kOneWay);
  EXPECT_EQ(link.report({{"loss", 0.5}}, {.step = 1}), Decision{});
  link.report({{"loss", 0.25}});
  EXPECT_EQ(read_file(file), "{\"loss\":0.5,\"step\":1}\n{\"loss\":0.25}\n");
}

TEST(TrialLinkTest, OutsideAStudyItEchoes) {
  std::vector<std::string> lines;
  TrialLink link({.echo = [&](std::string_view line) { lines.emplace_back(line); }}, lookup_in({}));
  EXPECT_EQ(link.kind(), TrialLink::Kind::kNone);
  EXPECT_EQ(link.report({{"loss", 0.5}}, {.step = 1}), Decision{});
  EXPECT_THAT(lines, ElementsAre("{\"loss\":0.5,\"step\":1}"));
}

TEST(TrialLinkTest, RefusesAnAddressThatIsNone) {
  EXPECT_THAT(test::refusal_of([] {
                TrialLink({}, lookup_in({{"MUSTER_TUNER_ADDR", "nonsense"}}));
              }),
              HasSubstr("MUSTER_TUNER_ADDR is no address"));
}

TEST(TrialsEnvironment, IsReadByItsNames) {
  const test::Folder folder;
  const std::string file = folder.path() / "params.json";
  std::ofstream(file) << R"({"lr": 0.1, "optimizer": {"name": "sgd"}})";
  const EnvLookup lookup = lookup_in({{"MUSTER_PARAMS_FILE", file},
                                      {"MUSTER_RESUME_FROM", "/c/3"},
                                      {"MUSTER_CHECKPOINT_DIR", "/c"}});
  EXPECT_EQ(params(lookup)["optimizer"]["name"], "sgd");
  EXPECT_EQ(resume_from(lookup), "/c/3");
  EXPECT_EQ(checkpoint_dir(lookup), "/c");
  EXPECT_THAT(params(lookup_in({})), IsEmpty());
  EXPECT_EQ(resume_from(lookup_in({{"MUSTER_RESUME_FROM", ""}})), std::nullopt);
}

}  // namespace
}  // namespace muster::tune
