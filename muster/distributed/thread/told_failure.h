// What a rank that is a thread throws because another told it of its failure.
#pragma once

#include <string>

namespace muster::distributed {

/// The last such failure of the calling thread's rank, in the words that it throws; none: empty. Among
/// processes error files say the same (diagnose::note_failure_of_peers).
inline std::string& told_failure_of_thread() {
  thread_local std::string words;
  return words;
}

}  // namespace muster::distributed
