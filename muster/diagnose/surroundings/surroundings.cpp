#include "muster/diagnose/surroundings/surroundings.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/kernel_file.h"
#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

namespace fs = std::filesystem;

std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    ::inet_ntop(
        AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  if (address->sa_family == AF_INET6)
    ::inet_ntop(
        AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  return text;
}

void add_once(std::vector<std::string>& list, std::string text) {
  if (!text.empty() && std::ranges::find(list, text) == list.end()) list.push_back(std::move(text));
}

}  // namespace

std::optional<Space> space_of(const fs::path& path) {
  struct statvfs space {};
  if (::statvfs(path.c_str(), &space) != 0) return std::nullopt;
  return Space{.total_bytes = space.f_blocks * space.f_frsize,
               .free_bytes = space.f_bavail * space.f_frsize,
               .free_files = space.f_favail};
}

std::optional<double> seconds_to_sync(const fs::path& folder, std::string& why) {
  const std::string bytes(64 << 10, 'm');
  const fs::path file = folder / concat(".muster-doctor-", ::getpid());
  const auto begin = std::chrono::steady_clock::now();
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    why = errno_text(errno);
    return std::nullopt;
  }
  const bool is_written =
      ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
      ::fsync(fd.get()) == 0;
  const int error = errno;
  const auto end = std::chrono::steady_clock::now();
  ::unlink(file.c_str());
  if (is_written) return std::chrono::duration<double>(end - begin).count();
  why = errno_text(error);
  return std::nullopt;
}

std::vector<std::string> addresses_of(const std::string& host) {
  std::vector<std::string> found;
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wish, &list) != 0) return found;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next)
    add_once(found, address_text(at->ai_addr));
  ::freeaddrinfo(list);
  return found;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr != nullptr && (at->ifa_flags & IFF_UP) != 0)
      add_once(found, address_text(at->ifa_addr));
  }
  ::freeifaddrs(list);
  return found;
}

std::optional<std::string> why_no_loopback() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_text(errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_bound =
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(fd.get(), 1) == 0;
  return is_bound ? std::nullopt : std::optional(errno_text(errno));
}

fs::path Surroundings::path(std::string_view absolute) const {
  return root / fs::path(absolute).relative_path();
}

std::optional<std::string> Surroundings::file(std::string_view absolute) const {
  return read_kernel_file(path(absolute));
}

bool Surroundings::has(std::string_view absolute) const {
  std::error_code none;
  return fs::exists(path(absolute), none);
}

std::vector<std::string> Surroundings::names_in(std::string_view absolute) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path(absolute), error), end; !error && at != end;
       at.increment(error))
    names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace muster::diagnose
