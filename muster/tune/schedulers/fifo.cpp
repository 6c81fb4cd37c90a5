// Every trial runs to its end.
#include <unordered_map>

#include "muster/tune/schedule/scheduler.h"

namespace muster::tune {
namespace {

class Fifo final : public Scheduler {
 public:
  Decision on_report(int64_t number, int64_t t, double /*score*/) override {
    const auto [trial, is_new] = last_t_.try_emplace(number, t);
    if (!is_new) require_rising(number, trial->second, t);
    trial->second = t;
    return {};
  }

  void on_end(int64_t number, TrialState /*state*/) override { last_t_.erase(number); }

  bool has_history() const override { return false; }

  std::string status() const override { return "fifo: no early stopping"; }

 private:
  std::unordered_map<int64_t, int64_t> last_t_;
};

std::unique_ptr<Scheduler> make_fifo(const SchedulerContext& /*context*/,
                                     const ParamValues& params) {
  check_param_names({}, params, "scheduler fifo");
  return std::make_unique<Fifo>();
}

}  // namespace

extern constinit const SchedulerEntry fifo_entry{
    "fifo", "every trial runs to its end", {}, &make_fifo, true};

}  // namespace muster::tune
