#include "muster/launch/job/free_port.h"

#include <algorithm>

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "muster/base/error.h"
#include "muster/base/file.h"

namespace muster::launch {
namespace {

/// Binds port 0 of the family's any-address: the port that the kernel picked, or -errno.
FreePort picked_port(int family) {
  FreePort picked{.number = 0, .hold = UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  const int fd = picked.hold.get(), on = 1;
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    picked.number = -errno;
    return picked;
  }
  // The port sits at the same place in both address types.
  picked.number = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return picked;
}

}  // namespace

FreePort free_port() {
  // An IPv6 any-address covers IPv4 too; machines without IPv6 fall back.
  FreePort port = picked_port(AF_INET6);
  if (port.number <= 0) port = picked_port(AF_INET);
  if (port.number > 0) return port;
  throw environment_error({.refused = "no free TCP port",
                           .rule = errno_text(static_cast<int>(-port.number)),
                           .hint = "name one with --master-port"});
}

bool says_port_is_taken(std::span<const std::string> lines, int64_t port) {
  const std::string number = std::to_string(port);
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(number) != std::string::npos &&
           (line.find("EADDRINUSE") != std::string::npos ||
            line.find("is in use") != std::string::npos);
  });
}

}  // namespace muster::launch
