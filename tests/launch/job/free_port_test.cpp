// Ports that are chosen for a job, and held until it has its own server.
#include "muster/launch/job/free_port.h"

#include <cerrno>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "muster/base/file.h"

namespace muster::launch {
namespace {

/// 0, or the errno with which a server cannot listen at a port of 127.0.0.1.
int listen_at(int64_t port, bool reuses) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (reuses) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool ok = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                  ::listen(fd.get(), 1) == 0;
  return ok ? 0 : errno;
}

TEST(FreePort, IsHeldForWhoKnowsItsNumber) {
  std::set<int64_t> numbers;
  std::vector<FreePort> ports;
  for (int i = 0; i < 200; ++i) {
    const FreePort& port = ports.emplace_back(free_port());
    EXPECT_GE(port.number, 1024);
    EXPECT_LE(port.number, 65535);
    EXPECT_TRUE(numbers.insert(port.number).second) << "given twice: " << port.number;
  }
  for (const FreePort& port : ports) {
    EXPECT_EQ(listen_at(port.number, /*reuses=*/true), 0);
    EXPECT_EQ(listen_at(port.number, /*reuses=*/false), EADDRINUSE);
  }
}

}  // namespace
}  // namespace muster::launch
