#include "muster/tune/run/patience.h"

#include "muster/base/text.h"
#include "muster/tune/storage/storage.h"

namespace muster::tune {
namespace {

constexpr double kStorageRetryS = 1;

bool is_wish_to_end(const ExecutorEvent& event) {
  return event.kind == ExecutorEvent::kInterrupt || event.kind == ExecutorEvent::kStopStudy;
}

}  // namespace

/// While `error` is handled.
void Patience::give_up(const Error& error) const {
  if (const auto* locked = dynamic_cast<const StorageLocked*>(&error))
    throw locked->after(limit_s_);
  throw;
}

void Patience::tell(const std::string& trouble, bool is_new) {
  if (!is_new && trouble == trouble_) return;
  trouble_ = trouble;
  callbacks_.note(
      is_new ? concat(trouble, "\nhint: trials wait; trying again for ", human_duration(limit_s_))
             : trouble);
}

void Patience::wait() {
  for (ExecutorEvent& event : executor_.wait(kStorageRetryS)) {
    if (is_wish_to_end(event)) obey(event);
    events_.push_back(std::move(event));
  }
  if (wishes_ == 0) return;
  std::set<int64_t> left = callbacks_.running();
  for (const ExecutorEvent& event : events_) {
    if (event.kind == ExecutorEvent::kEnded) left.erase(event.trial);
  }
  if (left.empty()) throw Lost{why_};
}

void Patience::obey(const ExecutorEvent& event) {
  const bool kill = wishes_++ > 0;
  why_ = event.message;
  callbacks_.note(kill ? "killing what runs" : concat(why_, ": stopping; once more kills"));
  callbacks_.stop(why_, kill);
}

}  // namespace muster::tune
