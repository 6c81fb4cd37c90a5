#include "muster/distributed/meet/address.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/peer_names.h"
#include "muster/distributed/meet/waited_time.h"

namespace muster::distributed {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

/// For one address of several; it is tried again.
constexpr auto kConnect = std::chrono::seconds(5);
/// For one that should be this machine's.
constexpr auto kConnectHere = Milliseconds(200);
/// So often somebody who waits for an answer looks whether it is over.
constexpr auto kAnswerLook = Milliseconds(100);

// torch/csrc/distributed/c10d/TCPStoreBackend.hpp; numbers as they lie in memory.
constexpr uint8_t kValidate = 0, kPing = 13;
constexpr uint32_t kMagic = 0x3C85F7CE;
constexpr uint32_t kPingNumber = 0x7473756d;

AddressList resolve(const std::string& host, const std::string& port, int socket_type) {
  keep_peer_names();
  addrinfo wanted{};
  wanted.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); error != 0) {
    throw environment_error({.refused = "host name " + host,
                             .rule = ::gai_strerror(error),
                             .hint = "check MASTER_ADDR"});
  }
  return {found, &::freeaddrinfo};
}

/// In the order in which c10d's client tries them: it stays with the first that accepts.
std::vector<const addrinfo*> in_clients_order(const AddressList& addresses) {
  std::vector<const addrinfo*> ordered;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) ordered.push_back(at);
  std::stable_partition(ordered.begin(), ordered.end(), [](const addrinfo* address) {
    return address->ai_family == AF_INET6;
  });
  return ordered;
}

/// Whether the descriptor is ready for that, or broken, before `until`.
bool is_ready(const UniqueFd& fd, short what, Clock::time_point until) {
  while (true) {
    const auto left = std::chrono::ceil<Milliseconds>(until - Clock::now());
    pollfd waits{fd.get(), what, 0};
    const int count =
        ::poll(&waits, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000)));
    if (count > 0) return true;
    if ((count < 0 && errno != EINTR) || Clock::now() >= until) return false;
  }
}

/// Where nobody listens on a port that the kernel gives to those who connect, it may be given to this
/// very connection, which then is one with itself.
bool is_with_itself(const UniqueFd& fd) {
  std::array<sockaddr_storage, 2> ends{};
  socklen_t length = sizeof ends[0], peer_length = sizeof ends[1];
  return ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&ends[0]), &length) == 0 &&
         ::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&ends[1]), &peer_length) == 0 &&
         length == peer_length && std::memcmp(&ends[0], &ends[1], length) == 0;
}

/// A connection, or none. Without waiting longer than until `deadline`: of a host that is down the
/// kernel hears nothing for minutes.
UniqueFd connection_to(const addrinfo& address, Clock::time_point deadline) {
  UniqueFd fd(::socket(
      address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  if (!fd) return {};
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS || !is_ready(fd, POLLOUT, deadline)) return {};
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) return {};
  }
  return is_with_itself(fd) ? UniqueFd() : std::move(fd);
}

/// With the first of the addresses that accepts one.
UniqueFd connection_to_any(const AddressList& addresses, Clock::time_point deadline) {
  for (const addrinfo* address : in_clients_order(addresses))
    if (UniqueFd fd = connection_to(*address, deadline)) return fd;
  return {};
}

std::array<char, 10> store_question() {
  std::array<char, 10> bytes{};
  bytes[0] = static_cast<char>(kValidate);
  std::memcpy(&bytes[1], &kMagic, sizeof kMagic);
  bytes[5] = static_cast<char>(kPing);
  std::memcpy(&bytes[6], &kPingNumber, sizeof kPingNumber);
  return bytes;
}

[[noreturn]] void refuse_stranger(const std::string& host, int64_t port, const std::string& rule) {
  throw environment_error(
      {.refused = concat(
           host, ':', port, " accepts connections but does not answer as a job's store does"),
       .rule = rule,
       .hint = concat("rank 0 serves the store there; it may be stopped, or port ",
                      port,
                      " is in use by another program: `ss -ltnp 'sport = :",
                      port,
                      "'` on that machine names it; check MASTER_ADDR, or choose another "
                      "MASTER_PORT (--master-port, --rdzv-endpoint)")});
}

/// What may be printed of what a stranger says: its first line, cut short.
std::string printable(const char* bytes, size_t size) {
  std::string text;
  for (size_t i = 0; i < size && bytes[i] != '\r' && bytes[i] != '\n'; ++i)
    text += std::isprint(static_cast<unsigned char>(bytes[i])) != 0 ? bytes[i] : '?';
  return text;
}

/// By a new connection. Throws for one who answers something else, or nothing for too long.
FoundStore ask_for_store(const UniqueFd& fd,
                         const std::string& host,
                         int64_t port,
                         const StoreSearch& search) {
  const std::array<char, 10> question = store_question();
  if (::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(question.size()))
    return FoundStore::kClosed;
  std::array<char, 64> answer{};
  size_t size = 0;
  WaitedTime waited(2 * kAnswerLook);
  while (size < sizeof kPingNumber) {
    const auto now = Clock::now();
    if (!is_ready(fd, POLLIN, now + kAnswerLook)) {
      if (search.is_over()) return FoundStore::kNobody;
      const auto silent = waited.look();
      if (silent < search.silence && Clock::now() < search.deadline) continue;
      refuse_stranger(
          host,
          port,
          concat(
              "nothing came from there for ",
              fixed(std::chrono::duration<double>(std::min<Clock::duration>(silent, search.silence))
                        .count(),
                    1),
              " s"));
    }
    const ssize_t got = ::recv(fd.get(), answer.data() + size, answer.size() - size, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0 && size == 0) return FoundStore::kClosed;
    if (got > 0) size += static_cast<size_t>(got);
    if (got <= 0 ||
        std::memcmp(answer.data(), &kPingNumber, std::min(size, sizeof kPingNumber)) != 0)
      refuse_stranger(host, port, concat("it says \"", printable(answer.data(), size), '"'));
  }
  return FoundStore::kYes;
}

bool is_loopback(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address.ai_addr);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address.ai_addr);
  return address.ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/// Whether the other end is on this machine: who connects to one of its addresses does so from there.
bool is_to_this_machine(const UniqueFd& fd) {
  std::array<sockaddr_storage, 2> ends{};
  socklen_t length = sizeof ends[0], peer_length = sizeof ends[1];
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&ends[0]), &length) != 0 ||
      ::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&ends[1]), &peer_length) != 0)
    return false;
  const addrinfo peer{.ai_family = ends[1].ss_family,
                      .ai_addr = reinterpret_cast<sockaddr*>(&ends[1])};
  if (is_loopback(peer)) return true;
  if (ends[0].ss_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(ends[0]).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(ends[1]).sin_addr.s_addr;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(ends[0]).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(ends[1]).sin6_addr,
                     sizeof(in6_addr)) == 0;
}

}  // namespace

UniqueFd loopback_socket(const RankEnv& env) {
  // The host's own name may be a loopback address here (127.0.1.1) and another one elsewhere.
  if (env.group_world_size != 1 || env.local_world_size != env.world_size) return {};
  const AddressList addresses =
      resolve(env.master_addr, std::to_string(env.master_port), SOCK_STREAM);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next)
    if (!is_loopback(*at)) return {};
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    UniqueFd fd(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    const int on = 1;  // as LibTorch has it: a restarted rank 0 need not wait for old connections
    if (fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        ::bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0)
      return fd;
  }
  return {};
}

FoundStore wait_for_store(const std::string& host, int64_t port, const StoreSearch& search) {
  const AddressList addresses = resolve(host, std::to_string(port), SOCK_STREAM);
  auto pause = Milliseconds(1);
  FoundStore found = FoundStore::kNobody;
  while (true) {
    const UniqueFd fd =
        connection_to_any(addresses, std::min(search.until, Clock::now() + kConnect));
    const bool in_time = Clock::now() < search.until;
    if (fd)
      found = ask_for_store(fd, host, port, search);
    else if (in_time)  // an attempt that its time cut short does not say that nobody is there
      found = FoundStore::kNobody;
    if (found == FoundStore::kYes || Clock::now() >= search.until || search.is_over()) return found;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, Milliseconds(50));
  }
}

bool may_serve_at(const std::string& host, int64_t port, const StoreSearch& search) {
  const AddressList addresses = resolve(host, std::to_string(port), SOCK_STREAM);
  const UniqueFd fd = connection_to_any(addresses, Clock::now() + kConnectHere);
  if (!fd) return true;
  if (is_to_this_machine(fd)) return false;
  ask_for_store(fd, host, port, search);
  return true;
}

std::string address_towards(const std::string& remote) {
  const AddressList addresses = resolve(remote, "9", SOCK_DGRAM);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    const UniqueFd fd(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    if (!fd || ::connect(fd.get(), address->ai_addr, address->ai_addrlen) != 0) continue;
    if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &length) != 0) continue;
    char text[NI_MAXHOST];
    if (::getnameinfo(reinterpret_cast<sockaddr*>(&local),
                      length,
                      text,
                      sizeof text,
                      nullptr,
                      0,
                      NI_NUMERICHOST) == 0)
      return text;
  }
  throw environment_error({.refused = "no network interface leads to " + remote,
                           .hint = "check MASTER_ADDR and the network"});
}

}  // namespace muster::distributed
