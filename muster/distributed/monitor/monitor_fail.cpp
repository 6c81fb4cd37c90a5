// How a group fails: the verdict is agreed, told, written down, and ends what is under way.
#include <algorithm>
#include <utility>

#include "muster/base/text.h"
#include "muster/distributed/monitor/monitor_core.h"
#include "muster/distributed/monitor/monitored_work.h"
#include "muster/tensor/what_of.h"

namespace muster::distributed {

/// What no tick expects, no memory, say, ends the group and not the process.
Monitor::Clock::time_point Monitor::tick_or_fail() {
  try {
    return tick();
  } catch (const std::exception&) {
    const std::string why = tensor::what_of(std::current_exception());
    if (!has_failed()) {
      fail_group(verdict_text(
          {.text = concat(
               "rank ", request_.rank, " cannot watch the group any more: ", first_line(why))}));
    }
    return Clock::now() + heartbeats_.heartbeat();
  }
}

void Monitor::conclude(const diagnose::Diagnosis& diagnosis, const std::string& cause) {
  std::string text = diagnosis.who;
  using Kind = diagnose::Diagnosis::Kind;
  const bool says_all = diagnosis.kind == Kind::kMismatch || diagnosis.culprits.size() == 1;
  if (!cause.empty() && (!says_all || diagnosis.kind == Kind::kMissing))
    text += concat(text.empty() ? "" : "; ", cause);
  if (!diagnosis.common.empty()) text += "; " + diagnosis.common;
  if (const std::string words = world_words(diagnosis.culprits); !words.empty())
    text += "; " + words;
  const std::string verdict = verdict_text({.text = text,
                                            .hint = diagnosis.hint,
                                            .kind = diagnosis.kind,
                                            .culprits = diagnosis.culprits});
  if (!heartbeats_.store().lost) {
    heartbeats_.propose(verdict);
    const auto answered = Clock::now() + 3 * heartbeats_.fast_heartbeat();
    while (!heartbeats_.verdict() && !heartbeats_.store().lost && Clock::now() < answered)
      heartbeats_.wait_until(heartbeats_.version(),
                             Clock::now() + heartbeats_.fast_heartbeat() / 4);
  }
  fail_group(heartbeats_.verdict().value_or(verdict));
}

void Monitor::fail_group(const std::string& verdict) {
  // Nobody goes on, and is ended by its launcher or ends the store, before all know why.
  const auto until =
      Clock::now() + std::min<Clock::duration>(2 * heartbeats_.heartbeat(), timeout() / 5);
  while (heartbeats_.verdict() && !heartbeats_.all_told() && !heartbeats_.store().lost &&
         Clock::now() < until && !stopping())
    heartbeats_.wait_until(heartbeats_.version(), Clock::now() + heartbeats_.fast_heartbeat() / 2);
  Verdict told = verdict_from(verdict);
  tell_launcher(told, /*saw_an_end=*/false);
  const std::string record = write_record(told.text);
  if (!record.empty()) told.hint += concat(told.hint.empty() ? "" : "; ", record);
  {
    const std::lock_guard lock(mutex_);
    verdict_ = verdict_text(told);
  }
  failed_.store(true, std::memory_order_release);
  fail_works();
  std::function<void()> abort;
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) abort = abort_;  // else a callback of ours dropped the backend
  }
  try {
    if (abort) abort();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the works have failed already
  }
}

Error Monitor::failure_of(const diagnose::OpRecord& op) const {
  const std::lock_guard lock(mutex_);
  const Verdict verdict = verdict_from(verdict_);
  return environment_error(
      {.refused = concat(title(op), " failed after ", fixed(age_s(op), 1), " s"),
       .rule = verdict.text,
       .hint = verdict.hint});
}

void Monitor::fail_works() {
  std::vector<MonitoredWorkPtr> works = open_works();
  std::vector<Failure> failures;
  {
    const std::lock_guard lock(mutex_);
    failures.swap(failures_);
  }
  for (const Failure& failure : failures) works.push_back(failure.work);
  for (const MonitoredWorkPtr& work : works) {
    work->complete(std::make_exception_ptr(failure_of(work->record())));
    work->abort_inner();
  }
}

}  // namespace muster::distributed
