// Whether a store is there, asked as c10d's own client asks.
#include "muster/distributed/meet/address.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/store.h"

#include "tests/distributed/given_time.h"
#include "tests/distributed/listener.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using distributed::FoundStore;
using distributed::StoreSearch;
using test::Listener;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kQuestionBytes = 10;

StoreSearch patient(std::chrono::milliseconds silence = 60s) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  return {.until = end, .deadline = end, .silence = silence};
}

/// What the first to come says, which is sent back the number that a store sends.
std::string question_of_first(const Listener& listener) {
  const UniqueFd fd(::accept(listener.fd.get(), nullptr, nullptr));
  std::string question(kQuestionBytes, '\0');
  EXPECT_EQ(::recv(fd.get(), question.data(), question.size(), MSG_WAITALL),
            static_cast<ssize_t>(question.size()));
  EXPECT_EQ(::send(fd.get(), question.data() + kQuestionBytes - 4, 4, MSG_NOSIGNAL), 4);
  char more;
  EXPECT_EQ(::recv(fd.get(), &more, 1, 0), 0);  // it has gone without another word
  return question;
}

/// What rank 1 of two says that looks for its rank 0 there, of the time that it has.
auto connecting_to(const Listener& listener) {
  return [&listener](std::chrono::milliseconds timeout) {
    const RankEnv one{.rank = 1, .world_size = 2, .master_port = listener.port};
    return test::refusal_of([&] { distributed::connect_store(one, timeout); },
                            ErrorKind::kEnvironment);
  };
}

c10d::TCPStoreOptions options_at(int64_t port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = 60s;
  return options;
}

// The last four bytes are any number, and c10d's first number is the command.
TEST(StoreSearch, AsksWhatTheClientOfThisLibTorchAsks) {
  const Listener listener;
  std::thread client([&] { c10d::TCPStore("127.0.0.1", options_at(listener.port)); });
  const std::string theirs = question_of_first(listener);
  client.join();
  FoundStore found = FoundStore::kNobody;
  std::thread asks([&] { found = wait_for_store("127.0.0.1", listener.port, patient()); });
  const std::string ours = question_of_first(listener);
  asks.join();
  EXPECT_EQ(found, FoundStore::kYes);
  EXPECT_EQ(ours.substr(0, kQuestionBytes - 4), theirs.substr(0, kQuestionBytes - 4));
}

TEST(StoreSearch, FindsTheStoresOfBothServersAndLeavesThemAsTheyAre) {
  for (const bool by_libuv : {true, false}) {
    c10d::TCPStoreOptions options = options_at(0);
    options.isServer = true;
    options.useLibUV = by_libuv;
    c10d::TCPStore store("127.0.0.1", options);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(wait_for_store("127.0.0.1", store.getPort(), patient()), FoundStore::kYes);
    c10d::Store& used = store;
    used.set("key", std::string("value"));
    EXPECT_EQ(used.get_to_str("key"), "value");
    EXPECT_EQ(used.getNumKeys(), 1);
  }
}

TEST(StoreSearch, RefusesWhoAcceptsAndSaysNothing) {
  const Listener silent;
  EXPECT_THAT(
      test::refusal_of([&] { wait_for_store("127.0.0.1", silent.port, patient(100ms)); },
                       ErrorKind::kEnvironment),
      AllOf(HasSubstr(concat("127.0.0.1:",
                             silent.port,
                             " accepts connections but does not answer as a job's store does: "
                             "nothing came from there for 0.1 s")),
            HasSubstr(concat("port ", silent.port, " is in use by another program")),
            HasSubstr(concat("ss -ltnp 'sport = :", silent.port, "'"))));
}

TEST(StoreSearch, RefusesWhoSaysSomethingElse) {
  const Listener other;
  std::thread server([&] {
    const UniqueFd fd(::accept(other.fd.get(), nullptr, nullptr));
    const std::string words = "HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n";
    EXPECT_EQ(::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(words.size()));
    char asked[kQuestionBytes];
    ::recv(fd.get(), asked, sizeof asked, MSG_WAITALL);
  });
  EXPECT_THAT(test::refusal_of([&] { wait_for_store("127.0.0.1", other.port, patient()); },
                               ErrorKind::kEnvironment),
              HasSubstr("does not answer as a job's store does: it says \"HTTP/1.1 400 Bad "
                        "Request\""));
  server.join();
}

// A tunnel to a rank 0 that does not listen yet.
TEST(StoreSearch, AsksWhoClosesConnectionsAgainUntilItsTimeIsOver) {
  const Listener tunnel;
  std::thread server([&] {
    while (UniqueFd(::accept(tunnel.fd.get(), nullptr, nullptr))) {
    }
  });
  const auto found_within = [&](std::chrono::milliseconds time) {
    StoreSearch search = patient();
    search.until = std::chrono::steady_clock::now() + time;
    return wait_for_store("127.0.0.1", tunnel.port, search);
  };
  std::chrono::milliseconds time =
      50ms;  // in which a busy machine may not come to the first question
  FoundStore found = found_within(time);
  while (found == FoundStore::kNobody && time < 60s) found = found_within(time *= 2);
  EXPECT_EQ(found, FoundStore::kClosed);
  ::shutdown(tunnel.fd.get(), SHUT_RDWR);
  server.join();
}

TEST(StoreSearch, EndsWhereNobodyWillAnswerAnyMore) {
  const Listener silent;
  StoreSearch search = patient();
  search.is_over = [] { return true; };
  EXPECT_EQ(wait_for_store("127.0.0.1", silent.port, search), FoundStore::kNobody);
}

TEST(StoreSearch, OfARankEndsWithItsTimeoutBeforeASilentPort) {
  const Listener silent;
  const std::string no_store = "accepts connections but does not answer as a job's store does";
  EXPECT_THAT(test::said_in_time(connecting_to(silent), no_store), HasSubstr(no_store));
}

// Rank 0 is stopped between its rank's coming and their meeting.
TEST(StoreSearch, OfARankEndsWithItsTimeoutAlsoIfTheStoreFallsSilentThen) {
  const Listener store;
  std::thread server([&] {  // ours is content with the answer; c10d's goes on to ask
    std::vector<UniqueFd> stay;
    while (true) {
      UniqueFd fd(::accept(store.fd.get(), nullptr, nullptr));
      if (!fd) return;
      std::string question(kQuestionBytes, '\0');
      ::recv(fd.get(), question.data(), question.size(), MSG_WAITALL);
      ::send(fd.get(), question.data() + kQuestionBytes - 4, 4, MSG_NOSIGNAL);
      stay.push_back(std::move(fd));
    }
  });
  const std::string silent = concat("cannot reach the store at 127.0.0.1:", store.port);
  EXPECT_THAT(test::said_in_time(connecting_to(store), silent), HasSubstr(silent));
  ::shutdown(store.fd.get(), SHUT_RDWR);
  server.join();
}

TEST(StoreSearch, OfRankZeroFindsThatAnotherProgramHasItsPort) {
  const Listener silent;
  EXPECT_THAT(test::refusal_of(
                  [&] {
                    distributed::connect_store(
                        {.rank = 0, .world_size = 2, .master_port = silent.port}, 60s);
                  },
                  ErrorKind::kEnvironment),
              HasSubstr(concat("port ", silent.port, " is in use")));
}

}  // namespace
}  // namespace muster
