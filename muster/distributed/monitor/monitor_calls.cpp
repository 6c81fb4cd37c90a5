// What the monitor does about a call before the backend sees it.
#include <algorithm>
#include <optional>

#include "muster/distributed/monitor/monitor_core.h"

namespace muster::distributed {
namespace {

/// So many different calls are compared before they are made, those after them only behind.
constexpr size_t kCheckedCalls = 512;
/// The store answers at once, whoever else has come, unless it hangs or a thread gets no core. A call
/// that is made without its answer may end the process. For half of the group's timeout at most.
constexpr int64_t kHeartbeatsForAnswer = 4;

}  // namespace

void Monitor::check_first_call(const diagnose::OpRecord& op) {
  if (traits_.names_culprits || diagnose::is_point_to_point(op.kind)) return;
  HeartbeatStore::Call call{.sequence = op.sequence, .fingerprint = diagnose::fingerprint(op)};
  {
    const std::lock_guard lock(mutex_);
    // A program whose calls are always new is not slowed for ever.
    if (known_calls_.size() >= kCheckedCalls || !known_calls_.insert(call.fingerprint).second)
      return;
    if (refused_.sequence == op.sequence) call.attempt = refused_.attempt;
  }
  const auto beats =
      std::clamp<int64_t>(timeout() / (2 * heartbeats_.heartbeat()), 1, kHeartbeatsForAnswer);
  std::optional<bool> answer;
  for (int64_t beat = 0; beat < beats && !answer && !has_failed() && !stopping(); ++beat)
    answer = heartbeats_.agrees(call, heartbeats_.heartbeat());
  if (answer.value_or(true) && !has_failed()) return;
  ++suspects_;
  recorder_->let_stand(op.id);  // whatever its backend would say: it waits for the others here
  heartbeats_.wake();
  // A question that nobody answers takes a heartbeat.
  WaitedTime waited(heartbeats_.heartbeat() + heartbeats_.fast_heartbeat());
  bool agrees = false;  // the first rank may have withdrawn its call since
  while (!agrees && !has_failed() && waited.look() < 8 * heartbeats_.heartbeat() && !stopping()) {
    heartbeats_.wait_until(heartbeats_.version(), Clock::now() + heartbeats_.fast_heartbeat() / 4);
    agrees = heartbeats_.agrees(call, heartbeats_.heartbeat()).value_or(false);
  }
  --suspects_;
  if (agrees && !has_failed()) return recorder_->let_stand(op.id, false);
  recorder_->complete(op.id, /*failed=*/true);
  if (has_failed()) throw failure_of(op);
  throw environment_error(
      {.refused = title(op), .rule = "another rank called something else under this number"});
}

void Monitor::take_back(const diagnose::OpRecord& op) {
  recorder_->take_back(op.id);
  if (traits_.names_culprits || diagnose::is_point_to_point(op.kind)) return;
  HeartbeatStore::Call call{.sequence = op.sequence, .fingerprint = diagnose::fingerprint(op)};
  {
    const std::lock_guard lock(mutex_);
    if (refused_.sequence == op.sequence) call.attempt = refused_.attempt;
    refused_ = {.sequence = op.sequence, .attempt = call.attempt + 1};
  }
  heartbeats_.withdraw(call);
}

}  // namespace muster::distributed
