#include "muster/tune/schedule/scheduler.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {

bool SchedulerEntry::has_of() const {
  return std::ranges::any_of(params, [](const Param& param) { return param.name == kOf; });
}

std::unique_ptr<Scheduler> make_scheduler(const std::string& spec,
                                          const SchedulerContext& context) {
  const auto [name, params] = parse_spec(spec);
  return schedulers().at(name).make(context, params);
}

void require_rising(int64_t number, int64_t last_t, int64_t t) {
  if (t > last_t) return;
  throw usage_error({.refused = concat("a report of trial ", number),
                     .rule = concat("its time is above the one before, ", last_t),
                     .value = concat("t=", t)});
}

}  // namespace muster::tune
