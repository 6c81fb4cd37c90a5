// What trials and strangers cannot do to a tuner by what they send: its memory and its connections are
// bounded.
#include "muster/tune/execute/report_server.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "muster/base/text.h"

#include "tests/support/folder.h"

namespace muster::tune {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// Takes every report: with a ticket, or with an answer at once.
class Tuner final : public ReportServer::Handler {
 public:
  Taken on_report(int64_t /*trial*/, Report /*report*/) override {
    ++reports;
    if (at_once) return {.ticket = 0, .now = Answer{.reason = reason}};
    tickets.push_back(next_ticket_);
    return {.ticket = next_ticket_++, .now = std::nullopt};
  }
  Taken on_order(const UserOrder& /*order*/) override { return {.ticket = 0, .now = Answer{}}; }
  void on_note(int64_t /*trial*/, const std::string& text) override { notes.push_back(text); }

  bool at_once = false;
  std::string reason;
  int64_t reports = 0;
  std::vector<uint64_t> tickets;  // not answered
  std::vector<std::string> notes;

 private:
  uint64_t next_ticket_ = 1;
};

/// A process that connects to the tuner. Nothing that it does blocks.
class Client {
 public:
  explicit Client(const std::string& path) : connected_(connect_to({.path = path})) {
    EXPECT_TRUE(connected_.fd) << connected_.trouble;
  }

  void say(std::string_view text) { out_ += text; }
  bool has_said_all() const { return out_.empty(); }

  /// Writes what the socket takes; whether it took something.
  bool push() {
    if (out_.empty()) return false;
    const ssize_t put =
        ::send(connected_.fd.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) out_.erase(0, static_cast<size_t>(put));
    return put > 0;
  }

  /// What has come since the last call.
  std::string hear() {
    std::string heard;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::recv(connected_.fd.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
      heard.append(buffer, static_cast<size_t>(got));
    hung_up_ = hung_up_ || got == 0;
    return heard;
  }
  bool was_hung_up_on() {
    hear();
    return hung_up_;
  }

 private:
  Connected connected_;
  std::string out_;
  bool hung_up_ = false;
};

class ReportServerTest : public ::testing::Test {
 protected:
  ReportServerTest() { server_.admit(3, 1, "token"); }

  static std::string hello(const std::string& client = "one") {
    return to_line(Hello{.token = "token", .trial = 3, .attempt = 1, .client = client});
  }
  static std::string report(int64_t sequence) {
    return to_line(Report{.sequence = sequence, .step = sequence, .metrics = {{"loss", 0.5}}});
  }
  /// One that is longer than what the server reads in one turn.
  static std::string long_report(int64_t sequence) {
    Report report{.sequence = sequence, .step = sequence};
    for (int i = 0; i < 80; ++i) report.metrics.emplace_back(concat(std::string(240, 'm'), i), 0.5);
    return to_line(report);
  }

  /// Until neither side can do anything without the other's next step.
  void settle(Client& client) {
    while (true) {
      const bool wrote = client.push();
      const bool served = loop_.wait(0);
      if (!wrote && !served) return;
    }
  }

  std::string path() const { return (folder_.path() / "socket").string(); }

  test::Folder folder_;
  launch::EventLoop loop_;
  Tuner tuner_;
  ReportServer server_{loop_, path(), "stop token", tuner_};
};

TEST_F(ReportServerTest, ReadsNoFurtherWhileSoManyReportsWaitForTheirAnswers) {
  constexpr int64_t kReports = 150;
  Client client(path());
  client.say(hello());
  for (int64_t i = 1; i <= kReports; ++i) client.say(long_report(i));
  settle(client);
  EXPECT_EQ(tuner_.reports, static_cast<int64_t>(ReportServer::kMostOpen));
  EXPECT_FALSE(client.has_said_all()) << "what is not read is held by who says it";
  std::string heard;
  while (!tuner_.tickets.empty()) {
    for (const uint64_t ticket : std::exchange(tuner_.tickets, {})) server_.answer(ticket, {});
    settle(client);
    heard += client.hear();
    EXPECT_LE(tuner_.tickets.size(), ReportServer::kMostOpen);
  }
  EXPECT_TRUE(client.has_said_all());
  EXPECT_EQ(tuner_.reports, kReports) << "nothing is lost";
  EXPECT_EQ(std::ranges::count(heard, '\n'), kReports);
}

TEST_F(ReportServerTest, ReadsNoFurtherWhileAnswersAreNotHeard) {
  constexpr int64_t kFlood = 50'000;
  tuner_.at_once = true;
  tuner_.reason = std::string(4000, 'r');
  Client client(path());
  client.say(hello());
  settle(client);
  int64_t said = 0;
  while (client.has_said_all() && said < kFlood) {
    client.say(report(++said));
    settle(client);
  }
  EXPECT_LT(said, kFlood) << "200 MB of answers would lie in the tuner's memory";
  EXPECT_LT(tuner_.reports, said);
  std::string heard = client.hear();
  settle(client);
  for (std::string more; !(more = client.hear()).empty(); settle(client)) heard += more;
  EXPECT_TRUE(client.has_said_all());
  EXPECT_EQ(tuner_.reports, said) << "nothing is lost";
  EXPECT_EQ(std::ranges::count(heard, '\n'), said);
}

TEST_F(ReportServerTest, RemembersSoManyAnswersOfAnAttemptAndForgetsTheOldest) {
  constexpr auto kRemembered = static_cast<int64_t>(ReportServer::kRemembered);
  tuner_.at_once = true;
  Client client(path());
  client.say(hello());
  const auto repeat = [&](int64_t sequence) {
    client.say(report(sequence));
    settle(client);
    EXPECT_THAT(client.hear(), HasSubstr(concat("\"sequence\":", sequence))) << "it is answered";
  };
  for (int64_t i = 1; i <= kRemembered + 10; ++i) repeat(i);
  EXPECT_EQ(tuner_.reports, kRemembered + 10);
  repeat(kRemembered + 10), repeat(11);
  EXPECT_EQ(tuner_.reports, kRemembered + 10) << "these are answered from memory";
  repeat(10);
  EXPECT_EQ(tuner_.reports, kRemembered + 11)
      << "of the oldest nothing is known: it is asked again";
}

TEST_F(ReportServerTest, ForgetsNoReportThatWaitsForItsAnswer) {
  Client client(path());
  client.say(hello() + report(1));
  settle(client);
  tuner_.at_once = true;
  for (int64_t i = 2; i < 2 * static_cast<int64_t>(ReportServer::kRemembered); ++i) {
    client.say(report(i));
    settle(client);
    client.hear();
  }
  const int64_t before = tuner_.reports;
  client.say(report(1));
  settle(client);
  EXPECT_EQ(tuner_.reports, before);
  EXPECT_EQ(client.hear(), "");
  ASSERT_EQ(tuner_.tickets.size(), 1U);
  server_.answer(tuner_.tickets[0], {});
  EXPECT_THAT(client.hear(), HasSubstr("\"sequence\":1"));
}

/// While it lives this process can open no file.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit fewer = before_;
    fewer.rlim_cur = std::min<rlim_t>(fewer.rlim_cur, 256);
    ::setrlimit(RLIMIT_NOFILE, &fewer);
    int fd = -1;
    while ((fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) held_.emplace_back(fd);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<UniqueFd> held_;
};

TEST_F(ReportServerTest, OfTooManyConnectionsClosesTheOneThatHasBeenIdleLongest) {
  Client waits(path()), first(path()), second(path());
  for (Client* client : {&waits, &first, &second}) {
    client->say(hello());
    settle(*client);
  }
  waits.say(report(1));
  settle(waits);  // it waits for an answer, so it is not idle, though it has said nothing since
  second.say(hello("two"));
  settle(second);
  first.say(hello("one"));  // the older one of the two was used last
  settle(first);
  Client late(path());
  {
    const NoDescriptors now;
    settle(late);
  }
  EXPECT_THAT(tuner_.notes, Contains(HasSubstr("too many connections to the tuner")));
  EXPECT_TRUE(second.was_hung_up_on());
  for (Client* client : {&waits, &first, &late}) EXPECT_FALSE(client->was_hung_up_on());
  server_.answer(tuner_.tickets.at(0), {});
  EXPECT_THAT(waits.hear(), HasSubstr("\"sequence\":1"));
  late.say(hello("late") + report(1));
  settle(late);
  EXPECT_EQ(tuner_.reports, 2) << "who came last is heard";
}

}  // namespace
}  // namespace muster::tune
