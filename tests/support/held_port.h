// A port for the store of a job that a test starts.
#pragma once

#include <cstdint>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "muster/base/file.h"

namespace muster::test {

/// Of the kernel's choice, on all addresses of this machine. While it lives, the kernel gives the port
/// to nobody who asks for any, nor to an outgoing connection; who asks for this one, with SO_REUSEADDR
/// as LibTorch's store does, listens there. See Note [Lost port].
struct HeldPort {
  HeldPort() { EXPECT_TRUE(bind(AF_INET6) || bind(AF_INET)) << "no free port"; }

  int64_t number = 0;

 private:
  bool bind(int family) {
    fd_.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1, off = 0;
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (family == AF_INET6)  // of IPv4, too
      ::setsockopt(fd_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (!fd_ || ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      return false;
    // The port sits at the same place in both address types.
    number = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
    return true;
  }

  UniqueFd fd_;
};

}  // namespace muster::test
