// Sockets and lines under the trial protocol. Private to the room.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/file.h"
#include "muster/tune/trial/protocol.h"

namespace muster::tune {

/// A blocking connection, or none and why not ("Connection refused (ECONNREFUSED)").
struct Connected {
  UniqueFd fd;
  std::string trouble;
};
Connected connect_to(const Address& address);

/// A Unix socket that listens and does not block. Throws an environment error.
UniqueFd listen_on(const std::string& path);

/// Puts bytes of any size together to lines of at most kMaxLineBytes. One thread.
class LineBuffer {
 public:
  /// Gets a line without its end; the view is valid during the call. A line that is too long comes
  /// cut to kMaxLineBytes + 1 bytes, which every parser of ours refuses; the rest of it is dropped.
  using Emit = std::function<void(std::string_view line)>;
  void feed(std::string_view bytes, const Emit& emit);

  /// Hands out what has no line end.
  void flush(const Emit& emit);

 private:
  void add(std::string_view part);

  std::string line_;
};

}  // namespace muster::tune
