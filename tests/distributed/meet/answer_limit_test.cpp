// What connect_store knows of the inside of c10d's client still holds in this LibTorch.
#include "muster/distributed/meet/answer_limit.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "muster/base/file.h"

#include "tests/distributed/listener.h"
#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using std::chrono::milliseconds;

/// A store that answers the client's greeting, and nothing behind it.
class SilentStore {
 public:
  SilentStore() {
    std::thread greeting([this] {
      client_ = UniqueFd(::accept(listening_.fd.get(), nullptr, nullptr));
      char greeting[10];  // whose last 4 bytes are a number, which comes back
      if (::recv(client_.get(), greeting, sizeof greeting, MSG_WAITALL) == sizeof greeting)
        ::send(client_.get(), greeting + 6, 4, MSG_NOSIGNAL);
    });
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(listening_.port);
    options.waitWorkers = false;
    store_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    greeting.join();
  }

  c10d::TCPStore& client() { return *store_; }

 private:
  test::Listener listening_;
  UniqueFd client_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

// Without the limit the call below would wait for ever: so first whether the socket was found.
TEST(AnswerLimit, EndsTheWaitForASilentStore) {
  SilentStore silent;
  ASSERT_TRUE(limit_answers(silent.client(), milliseconds(10)))
      << "TCPStore::repr() of this LibTorch names the client's socket in other words than \"fd=7, "
         "\": "
      << silent.client().repr() << "; see Note [The socket of c10d's client]";
  EXPECT_NE(test::error_of([&] { silent.client().check({"name"}); }), test::kNoError);
}

TEST(AnswerLimit, IsTakenBack) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto served = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  options.isServer = false;
  options.port = served->getPort();
  const auto client = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  ASSERT_TRUE(limit_answers(*client, milliseconds(10))) << client->repr();
  ASSERT_TRUE(limit_answers(*client, milliseconds(0)));
  c10d::Store& store = *client;
  store.set("name", "value");
  EXPECT_EQ(store.get_to_str("name"), "value");
}

TEST(AnswerLimit, IsOfAClientOfTCPStoreAlone) {
  EXPECT_FALSE(limit_answers(*c10::make_intrusive<c10d::HashStore>(), milliseconds(10)));
}

}  // namespace
}  // namespace muster::distributed
