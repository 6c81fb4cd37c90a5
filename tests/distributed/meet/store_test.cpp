// What a rank says whose store goes while it comes to it.
#include "muster/distributed/meet/store.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "muster/base/ended_ranks.h"
#include "muster/base/file.h"
#include "muster/base/rank_env.h"

#include "tests/distributed/listener.h"
#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::distributed {
namespace {

using ::testing::HasSubstr;

/// Answers the first who asks as a store does: with the last 4 bytes of his question, a number.
void answer_once(const UniqueFd& listening) {
  const UniqueFd fd(::accept(listening.get(), nullptr, nullptr));
  char question[10];
  ASSERT_EQ(::recv(fd.get(), question, sizeof question, MSG_WAITALL), ssize_t{sizeof question});
  ASSERT_EQ(::send(fd.get(), question + 6, 4, MSG_NOSIGNAL), 4);
}

// c10d's client would try to connect until the timeout, whoever has ended.
TEST(Store, ThatGoesBetweenItsAnswerAndTheConnectionIsSaidToHaveEnded) {
  const test::Folder folder;
  ::setenv(std::string(kEndedRanksEnv).c_str(), folder.path().c_str(), 1);
  auto rank_zero = std::make_unique<test::Listener>();
  const int64_t port = rank_zero->port;
  std::thread serving([&] {
    answer_once(rank_zero->fd);
    rank_zero.reset();
    write_file_atomic(ended_mark(folder.path(), port, 0), "");
  });
  const std::string error = test::error_of([&] {
    connect_store(
        {.rank = 1, .world_size = 2, .local_rank = 1, .local_world_size = 2, .master_port = port},
        std::chrono::minutes(2));
  });
  serving.join();
  ::unsetenv(std::string(kEndedRanksEnv).c_str());
  EXPECT_THAT(error, HasSubstr("it has ended before this rank met it"));
}

}  // namespace
}  // namespace muster::distributed
