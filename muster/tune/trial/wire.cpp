#include "muster/tune/trial/wire.h"

#include <cstring>
#include <memory>

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

std::optional<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int connect_retrying(int fd, const sockaddr* address, socklen_t size) {
  while (::connect(fd, address, size) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

Connected connect_unix(const std::string& path) {
  const auto address = unix_address(path);
  if (!address) return {{}, errno_text(ENAMETOOLONG)};
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return {{}, errno_text(errno)};
  const int failure =
      connect_retrying(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address);
  if (failure != 0) return {{}, errno_text(failure)};
  return {std::move(fd), ""};
}

Connected connect_tcp(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0) return {{}, concat(host, ": ", ::gai_strerror(code))};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::string trouble = "no address";
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    UniqueFd fd(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    const int failure = fd ? connect_retrying(fd.get(), at->ai_addr, at->ai_addrlen) : errno;
    if (failure == 0) {
      const int on = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      return {std::move(fd), ""};
    }
    trouble = errno_text(failure);
  }
  return {{}, trouble};
}

}  // namespace

Connected connect_to(const Address& address) {
  return address.path.empty() ? connect_tcp(address.host, address.port)
                              : connect_unix(address.path);
}

UniqueFd listen_on(const std::string& path) {
  const auto failed = [&](int errno_value) {
    return environment_error({.refused = "cannot listen on " + path,
                              .rule = errno_text(errno_value),
                              .hint = "set TMPDIR to a short path that this user may write"});
  };
  const auto address = unix_address(path);
  if (!address) throw failed(ENAMETOOLONG);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0)
    throw failed(errno);
  return fd;
}

void LineBuffer::add(std::string_view part) {
  const size_t room = kMaxLineBytes + 1 - line_.size();
  line_.append(part.substr(0, room));
}

void LineBuffer::feed(std::string_view bytes, const Emit& emit) {
  for (size_t end; (end = bytes.find('\n')) != std::string_view::npos;
       bytes.remove_prefix(end + 1)) {
    const std::string_view part = bytes.substr(0, end);
    if (line_.empty() && part.size() <= kMaxLineBytes) {
      emit(part);
      continue;
    }
    add(part);
    emit(line_);
    line_.clear();
  }
  add(bytes);
}

void LineBuffer::flush(const Emit& emit) {
  if (line_.empty()) return;
  emit(line_);
  line_.clear();
}

}  // namespace muster::tune
