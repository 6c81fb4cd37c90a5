#include "muster/launch/process/peer_links.h"

#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/file.h"

namespace muster::launch {
namespace {

/// A listener of this process on a port of the kernel's choice.
struct Door {
  explicit Door(int family = AF_INET) {
    address.ss_family = static_cast<sa_family_t>(family);
    size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    fd.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd.get(), 8), 0);
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  UniqueFd accept() const { return UniqueFd(::accept(fd.get(), nullptr, nullptr)); }

  sockaddr_storage address{};
  socklen_t size = 0;
  UniqueFd fd;
  int64_t port = 0;
};

UniqueFd connected_to(const Door& door, int family, const sockaddr* address, socklen_t size) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), address, size), 0) << door.port;
  return fd;
}

UniqueFd connected_to(const Door& door) {
  return connected_to(
      door, door.address.ss_family, reinterpret_cast<const sockaddr*>(&door.address), door.size);
}

/// A process that connects to `door`, and is stopped then until it is killed.
class StoppedPeer {
 public:
  explicit StoppedPeer(const Door& door) {
    pid_ = ::fork();
    if (pid_ == 0) {
      const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
      if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&door.address), door.size) != 0)
        ::_exit(1);
      ::raise(SIGSTOP);
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  ~StoppedPeer() { end(); }
  pid_t pid() const { return pid_; }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

/// The links of the process at that port, once they are `awaited`: the kernel's word of an end may come
/// later than the call that it is the end of.
PeerLinks links_after(pid_t pid, int64_t port, const PeerLinks& awaited) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  PeerLinks found = peer_links(pid, port);
  while (found != awaited && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    found = peer_links(pid, port);
  }
  return found;
}

TEST(PeerLinks, ShowTheEndOfTheOtherSideToAProcessThatIsStopped) {
  const Door door;
  const StoppedPeer peer(door);
  UniqueFd accepted = door.accept();
  EXPECT_EQ(peer_links(peer.pid(), door.port), (PeerLinks{.open = 1, .closed = 0}));
  accepted.reset();
  const PeerLinks ended{.open = 0, .closed = 1};
  EXPECT_EQ(links_after(peer.pid(), door.port, ended), ended);
}

// The kernel forgets a connection that was reset; the process still holds its socket.
TEST(PeerLinks, AreNeitherOpenNorClosedAfterAReset) {
  const Door door;
  const StoppedPeer peer(door);
  UniqueFd accepted = door.accept();
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(accepted.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  accepted.reset();
  const PeerLinks none{.open = 0, .closed = 0};
  EXPECT_EQ(links_after(peer.pid(), door.port, none), none);
}

TEST(PeerLinks, OfTheSideThatListensAreThoseThatCame) {
  const Door door;
  StoppedPeer peer(door);
  const UniqueFd accepted = door.accept();
  EXPECT_EQ(peer_links(::getpid(), door.port), (PeerLinks{.open = 1, .closed = 0}));
  peer.end();
  const PeerLinks ended{.open = 0, .closed = 1};
  EXPECT_EQ(links_after(::getpid(), door.port, ended), ended);
}

// Rank 0 is a client of the store that it serves, also by an IPv6 socket where the server has IPv4.
TEST(PeerLinks, LeaveOutThoseOfAProcessWithItself) {
  const Door door;
  const UniqueFd out = connected_to(door), in = door.accept();
  sockaddr_in6 mapped{};
  mapped.sin6_family = AF_INET6;
  mapped.sin6_port = htons(static_cast<uint16_t>(door.port));
  mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
  mapped.sin6_addr.s6_addr[12] = 127;
  mapped.sin6_addr.s6_addr[15] = 1;
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_port = mapped.sin6_port;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const UniqueFd also_out =
      connected_to(door, AF_INET6, reinterpret_cast<const sockaddr*>(&mapped), sizeof mapped);
  const UniqueFd also_in = door.accept();
  const UniqueFd third_out =
      connected_to(door, AF_INET, reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback);
  const UniqueFd third_in = door.accept();
  EXPECT_EQ(peer_links(::getpid(), door.port), (PeerLinks{.open = 0, .closed = 0}));
}

TEST(PeerLinks, AreThoseByThatPortAlone) {
  const Door door, other;
  const StoppedPeer peer(door);
  const UniqueFd accepted = door.accept();
  EXPECT_EQ(peer_links(peer.pid(), other.port), (PeerLinks{.open = 0, .closed = 0}));
}

TEST(PeerLinks, OfAProcessThatIsGoneAreNone) {
  const Door door;
  StoppedPeer peer(door);
  const pid_t pid = peer.pid();
  peer.end();
  EXPECT_EQ(peer_links(pid, door.port), (PeerLinks{.open = 0, .closed = 0}));
}

}  // namespace
}  // namespace muster::launch
