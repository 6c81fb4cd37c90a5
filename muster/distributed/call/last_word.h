// Why a rank has left, said by way of its backend.
#pragma once

#include <optional>
#include <string>

namespace muster::distributed {

/// A backend whose peers read why a rank has ended where nobody else can tell them: the store may be
/// out of reach by then, since the rank that serves it was stopped or is gone. Any thread.
class LastWord {
 public:
  virtual ~LastWord() = default;
  /// This rank will end for an exception of its own, which said `why`; empty: unknown. Peers hear of
  /// it when it has ended. The last one holds.
  virtual void will_end_with(const std::string& why) = 0;
  /// What rank `rank` ended with; nothing while it goes on, and where it ended in peace or because
  /// the group had failed.
  virtual std::optional<std::string> last_word(int rank) const = 0;
};

}  // namespace muster::distributed
