#include "muster/distributed/meet/address.h"

#include <algorithm>
#include <memory>
#include <thread>

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "muster/base/error.h"

namespace muster::distributed {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// For one address of several; it is tried again.
constexpr auto kConnect = std::chrono::seconds(5);

AddressList resolve(const std::string& host, const std::string& port, int socket_type) {
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

/// Without waiting longer than until `deadline`: of a host that is down the kernel hears nothing for
/// minutes.
bool answers(const addrinfo& address, std::chrono::steady_clock::time_point deadline) {
  const UniqueFd fd(::socket(
      address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  if (!fd) return false;
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS) return false;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd connected{fd.get(), POLLOUT, 0};
  if (::poll(&connected, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) <= 0)
    return false;
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

bool is_loopback(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address.ai_addr);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address.ai_addr);
  return address.ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
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

bool wait_for_listener(const std::string& host,
                       int64_t port,
                       std::chrono::steady_clock::time_point deadline,
                       const std::function<bool()>& is_over) {
  const AddressList addresses = resolve(host, std::to_string(port), SOCK_STREAM);
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
      if (answers(*address, std::min(deadline, std::chrono::steady_clock::now() + kConnect)))
        return true;
    }
    if (std::chrono::steady_clock::now() >= deadline || is_over()) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
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
