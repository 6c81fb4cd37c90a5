#include "tests/tune/simulated_study.h"

#include <cmath>
#include <limits>
#include <queue>

#include "muster/base/philox.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

enum Chance : uint32_t { kSlow, kCrash };

class Simulation {
 public:
  Simulation(StudyCore& core, const SimulatedTraining& training, const SimulationOptions& options)
      : core_(core), training_(training), options_(options) {}

  SimulationResult run() {
    while (out_.steps < options_.most_steps) {
      const StudyCore::Next next = fill();
      keep_log();
      if (!steps_.empty()) {
        if (steps_.top().at_s > options_.until_s) break;
        take_step();
      } else if (next.kind == StudyCore::Next::kWait && next.wait_until_s > now_) {
        now_ = next.wait_until_s;  // a retry is due then
      } else {
        out_.finished = next.kind == StudyCore::Next::kFinished;
        break;
      }
    }
    keep_log();
    out_.wall_s = now_;
    return std::move(out_);
  }

 private:
  struct Step {
    double at_s;
    int64_t trial;
    bool operator>(const Step& other) const {
      return at_s != other.at_s ? at_s > other.at_s : trial > other.trial;
    }
  };
  struct Running {
    SimulatedTraining::State state;
    int64_t t = 0;
    double speed = 1;
  };

  const Trial& trial(int64_t number) const { return core_.trials()[static_cast<size_t>(number)]; }

  StudyCore::Next fill() {
    StudyCore::Next next;
    while (running_.size() < options_.workers) {
      next = core_.next(now_);
      if (next.kind != StudyCore::Next::kStart) {
        if (out_.first_idle_s < 0) out_.first_idle_s = now_;
        break;
      }
      start(trial(next.trial));
    }
    return next;
  }

  void start(const Trial& trial) {
    Running running;
    if (trial.checkpoint.empty()) {
      running.state = training_.begin(trial);
    } else {
      running.state = checkpoints_.at(trial.checkpoint);
      running.t = trial.checkpoint_t;
    }
    const int64_t attempt = trial.attempt;
    if (simulated_chance(options_.seed, trial.number, attempt, kSlow) < options_.straggler)
      running.speed = options_.slow_factor;
    running_[trial.number] = std::move(running);
    plan(trial, options_.start_s);
  }

  void plan(const Trial& trial, double more_s) {
    const double takes = more_s + training_.step_s(trial) * running_.at(trial.number).speed;
    out_.busy_s += takes;
    steps_.push({now_ + takes, trial.number});
  }

  void take_step() {
    const Step step = steps_.top();
    steps_.pop();
    now_ = step.at_s;
    const Trial& trial = this->trial(step.trial);
    Running& running = running_.at(step.trial);
    ++running.t;
    ++out_.steps;
    if (running.t <= trial.last_t) ++out_.repeated;
    training_.step(trial, running.t, running.state);
    const int64_t place = trial.attempt * 100'000 + running.t;
    if (simulated_chance(options_.seed, step.trial, place, kCrash) < options_.failure)
      return end(step.trial, Failure::kCrash);
    const double metric = training_.metric(trial, running.t, running.state);
    const std::string checkpoint = concat(step.trial, '/', trial.attempt, '/', running.t);
    checkpoints_[checkpoint] = running.state;
    const Decision decision = core_.report(
        step.trial,
        {.step = running.t, .metrics = {{core_.spec().metric, metric}}, .checkpoint = checkpoint},
        now_);
    note_best(metric);
    if (decision.action != Action::kContinue || running.t >= training_.steps)
      return end(step.trial, Failure::kNone);
    plan(trial, 0);
  }

  void end(int64_t number, Failure failure) {
    running_.erase(number);
    core_.ended(number, failure, failure == Failure::kNone ? "" : "simulated", now_);
  }

  void note_best(double metric) {
    const Mode mode = core_.spec().mode;
    if (!std::isfinite(metric)) return;
    if (out_.best.empty() || score_of(metric, mode) > score_of(out_.best.back().second, mode))
      out_.best.emplace_back(now_, metric);
  }

  void keep_log() {
    for (Event& event : core_.take_events()) out_.log.push_back(std::move(event));
  }

  StudyCore& core_;
  const SimulatedTraining& training_;
  SimulationOptions options_;
  SimulationResult out_;
  double now_ = 0;
  std::map<int64_t, Running> running_;
  std::priority_queue<Step, std::vector<Step>, std::greater<>> steps_;
  std::map<std::string, SimulatedTraining::State> checkpoints_;
};

}  // namespace

double simulated_chance(uint64_t seed, int64_t trial, int64_t t, uint32_t what) {
  const auto bits = philox4x32_10({static_cast<uint32_t>(trial),
                                   static_cast<uint32_t>(t),
                                   static_cast<uint32_t>(t >> 32),
                                   what},
                                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<double>((uint64_t{bits[1]} << 32 | bits[0]) >> 11) * 0x1p-53;
}

double SimulationResult::best_at(double seconds) const {
  double metric = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [at_s, value] : best) {
    if (at_s > seconds) break;
    metric = value;
  }
  return metric;
}

SimulationResult simulate(StudyCore& core,
                          const SimulatedTraining& training,
                          const SimulationOptions& options) {
  return Simulation(core, training, options).run();
}

}  // namespace muster::tune
