// A scheduler whose calls are written down.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "muster/tune/core/heard_calls.h"
#include "muster/tune/schedule/scheduler.h"

namespace muster::tune {

/// The same scheduler for who calls it. `heard` outlives it.
class HeardScheduler final : public Scheduler {
 public:
  HeardScheduler(std::unique_ptr<Scheduler> scheduler, HeardCalls& heard)
      : scheduler_(std::move(scheduler)), heard_(heard) {}

  void on_start(int64_t number, const Point& point) override {
    heard_.on_start(number, point);
    scheduler_->on_start(number, point);
  }
  Decision on_report(int64_t number, int64_t t, double score) override {
    Decision decision = scheduler_->on_report(number, t, score);
    if (heard_.keeps_scheduler())
      heard_.on_report(number, t, score);  // what it refuses makes no event
    return decision;
  }
  void on_checkpoint(int64_t number, int64_t t) override {
    heard_.on_checkpoint(number, t);
    scheduler_->on_checkpoint(number, t);
  }
  void on_end(int64_t number, TrialState state) override {
    heard_.on_end(number, state);
    scheduler_->on_end(number, state);
  }
  void on_pause(int64_t number) override {
    heard_.on_pause(number);
    scheduler_->on_pause(number);
  }
  std::optional<Promotion> promote() override {
    auto order = scheduler_->promote();
    if (order) heard_.promoted();  // one that names nobody changes nothing
    return order;
  }
  void on_resume(int64_t number, const Point& point) override {
    heard_.on_resume(number, point);
    scheduler_->on_resume(number, point);
  }
  void no_more_trials() override {
    heard_.no_more_trials();
    scheduler_->no_more_trials();
  }

  bool pauses() const override { return scheduler_->pauses(); }
  bool has_history() const override { return scheduler_->has_history(); }
  bool donors_may_be_over() const override { return scheduler_->donors_may_be_over(); }
  std::string status() const override { return scheduler_->status(); }

 private:
  std::unique_ptr<Scheduler> scheduler_;
  HeardCalls& heard_;
};

}  // namespace muster::tune
