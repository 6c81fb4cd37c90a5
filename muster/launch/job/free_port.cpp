#include "muster/launch/job/free_port.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "muster/base/error.h"
#include "muster/base/file.h"

namespace muster::launch {
namespace {

/// Binds port 0 of the family's any-address; the port that the kernel picked, or -errno.
int64_t picked_port(int family) {
  const UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return -errno;
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return -errno;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return -errno;
  // The port sits at the same place in both address types.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

int64_t free_port() {
  // An IPv6 any-address covers IPv4 too; machines without IPv6 fall back.
  int64_t port = picked_port(AF_INET6);
  if (port <= 0) port = picked_port(AF_INET);
  if (port > 0) return port;
  throw environment_error({.refused = "no free TCP port",
                           .rule = errno_text(static_cast<int>(-port)),
                           .hint = "name one with --master-port"});
}

}  // namespace muster::launch
