// Limits of time, as users give them.
#pragma once

#include <chrono>
#include <string>

namespace muster::distributed {

/// Nobody waits longer. What is said to take more (milliseconds::max(), for one) means for ever, and a
/// clock's time with that added to it would lie in the past.
inline constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365 * 10);

/// `timeout`, at most kLongestWait. Throws a usage error for less than 1 ms: `what` names it.
std::chrono::milliseconds bounded_timeout(std::chrono::milliseconds timeout,
                                          const std::string& what);

/// The same where 0 means another's timeout, and stays.
std::chrono::milliseconds own_timeout(std::chrono::milliseconds timeout, const std::string& what);

}  // namespace muster::distributed
