#include "muster/launch/process/peer_links.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "muster/base/kernel_file.h"
#include "muster/base/text.h"

namespace muster::launch {
namespace {

// include/net/tcp_states.h
constexpr int kEstablished = 1, kCloseWait = 8, kLastAck = 9, kClosing = 11;

/// A socket as /proc/<pid>/net/tcp and tcp6 have it: addresses as they stand there, of an IPv4 address
/// in IPv6's form the IPv4 address.
struct TcpSocket {
  std::string local, remote;  // "0100007F:1F90"
  int state = 0;
};

int hex(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

std::string plain_address(const std::string& address) {
  static const std::string mapped = "0000000000000000FFFF0000";
  return address.compare(0, mapped.size(), mapped) == 0 ? address.substr(mapped.size()) : address;
}

int port_of_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  return colon == std::string::npos ? -1 : hex(address.substr(colon + 1));
}

/// The numbers of the sockets that the process holds.
std::set<std::string> socket_inodes(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code error;
  std::filesystem::directory_iterator at(concat("/proc/", pid, "/fd"), error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(at->path(), gone).string();
    constexpr std::string_view kSocket = "socket:[";
    if (!gone && target.compare(0, kSocket.size(), kSocket) == 0)
      inodes.insert(target.substr(kSocket.size(), target.size() - kSocket.size() - 1));
  }
  return inodes;
}

/// By their numbers: while sockets come and go the kernel lists one twice now and then.
using TcpSockets = std::map<std::string, TcpSocket>;

/// "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 12345 1 …"
void add_sockets(const std::string& table,
                 const std::set<std::string>& inodes,
                 TcpSockets& sockets) {
  std::istringstream lines(read_kernel_file(table).value_or(""));
  std::string line;
  std::getline(lines, line);  // names of the columns
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retries, user, timeout, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >>
        inode;
    if (inodes.contains(inode))
      sockets[inode] = {plain_address(local), plain_address(remote), hex(state)};
  }
}

}  // namespace

PeerLinks peer_links(pid_t pid, int64_t port) {
  const std::set<std::string> inodes = socket_inodes(pid);
  if (inodes.empty()) return {};
  TcpSockets sockets;
  for (const char* table : {"/net/tcp", "/net/tcp6"})
    add_sockets(concat("/proc/", pid, table), inodes, sockets);
  std::set<std::pair<std::string, std::string>> ends;
  for (const auto& [inode, socket] : sockets) ends.emplace(socket.local, socket.remote);
  PeerLinks links;
  for (const auto& [inode, socket] : sockets) {
    if (port_of_address(socket.local) != port && port_of_address(socket.remote) != port) continue;
    if (ends.contains({socket.remote, socket.local})) continue;  // with itself
    if (socket.state == kEstablished) ++links.open;
    if (socket.state == kCloseWait || socket.state == kLastAck || socket.state == kClosing)
      ++links.closed;
  }
  return links;
}

}  // namespace muster::launch
