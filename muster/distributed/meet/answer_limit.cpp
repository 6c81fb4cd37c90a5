#include "muster/distributed/meet/answer_limit.h"

#include <optional>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "muster/base/text.h"

namespace muster::distributed {
namespace {

/// "… fd=7, …": nothing where that is not there.
std::optional<int> socket_in(const std::string& text) {
  constexpr std::string_view kKey = "fd=";
  const size_t at = text.find(kKey);
  if (at == std::string::npos) return std::nullopt;
  const size_t from = at + kKey.size(), end = text.find_first_not_of("0123456789", from);
  const auto fd = to_int(std::string_view(text).substr(from, end - from));
  return fd ? std::optional(static_cast<int>(*fd)) : std::nullopt;
}

bool is_connected_to(int fd, uint16_t port) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return false;
  // The port sits at the same place in both address types.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&peer)->sin_port) == port;
}

}  // namespace

bool limit_answers(const c10d::Store& store, std::chrono::milliseconds limit) {
  const auto* client = dynamic_cast<const c10d::TCPStore*>(&store);
  if (client == nullptr) return false;
  const std::optional<int> fd = socket_in(client->repr());
  if (!fd || !is_connected_to(*fd, client->getPort())) return false;
  const timeval time{.tv_sec = limit.count() / 1000, .tv_usec = limit.count() % 1000 * 1000};
  return ::setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0;
}

}  // namespace muster::distributed
