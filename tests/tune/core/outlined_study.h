// Studies to which much happens, for tests of outlines.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {

inline StudySpec outlined_spec(const std::string& searcher, const std::string& scheduler = "fifo") {
  StudySpec spec = spec_with(-1, scheduler);
  spec.space = Space(
      std::vector<Parameter>{{.name = "lr", .domain = quniform(0.1, 1, 0.1)},
                             {.name = "kind", .domain = choice({"a", "b"})},
                             {.name = "beta", .domain = randint(1, 9), .when = "kind == 'a'"}});
  spec.searcher = searcher;
  if (searcher == "grid") spec.num_samples = 20;
  spec.stop = {{.metric = "loss", .comparison = StopCriterion::Comparison::kLess, .bound = 0.02}};
  spec.give_up_after = 12;
  spec.ask_lease_s = 40;
  for (FailurePolicy& policy : spec.failures) policy = {.retries = 1, .backoff_s = 3};
  return spec;
}

inline std::vector<std::string> texts_of(const std::vector<Event>& events) {
  std::vector<std::string> texts;
  for (const Event& event : events)
    texts.push_back(concat(event.id,
                           ' ',
                           shortest(event.time_s),
                           ' ',
                           event.trial,
                           ' ',
                           kind_of(event),
                           ' ',
                           payload_text(event)));
  return texts;
}

/// What somebody does to a study; one draw of each number, so that two cores get the same.
struct Deed {
  int what;
  int64_t trial;
  double now_s;
  unsigned draw;
};

inline void start_next(StudyCore& core, const Deed& deed, std::string& said) {
  const auto next = core.next(deed.now_s, /*asked=*/deed.draw % 2 == 0);
  said = concat("next ", static_cast<int>(next.kind), ' ', next.trial, ' ', next.wait_until_s);
}

inline void report(StudyCore& core, const Deed& deed, std::string& said) {
  const double losses[] = {0.5, 0.25, 0.01, 0.75, kNan};
  Report report = loss(losses[deed.draw % 5]);
  // Half of the trials say their step; the others are counted, and repeat what an attempt before said.
  const bool has_step = deed.trial >= 0 && deed.trial % 2 == 0;
  if (has_step) report.step = core.trials()[static_cast<size_t>(deed.trial)].last_t + deed.draw % 4;
  if (deed.draw % 4 != 1) report.checkpoint = concat("/there/", deed.trial, '/', deed.draw % 7);
  if (deed.draw % 6 == 0) report.sequence = deed.draw % 5;
  const Decision decision = core.report(deed.trial, report, deed.now_s);
  said = concat(name_of(decision.action), ' ', decision.reason);
}

inline void end(StudyCore& core, const Deed& deed) {
  const Failure failures[] = {Failure::kNone,
                              Failure::kNone,
                              Failure::kCrash,
                              Failure::kOutOfMemory,
                              Failure::kInterrupted};
  core.ended(deed.trial, failures[deed.draw % 5], "so it was", deed.now_s);
}

inline void learn(StudyCore& core, const Deed& deed) {
  OutsideTrial trial{.number = static_cast<int64_t>(deed.draw % 20),
                     .state = TrialState::kComplete,
                     .metric = 0.125};
  trial.point = core.spec().space.draw({}, 3, static_cast<int64_t>(deed.draw % 20));
  trial.point = core.spec().space.with_conditions(trial.point);
  core.learn(trial, deed.now_s);
}

/// What the core says of it, refusals included.
inline std::string done(StudyCore& core, const Deed& deed) {
  std::string said;
  core.offer({});  // as before each call of a Study
  const std::string refused = test::error_of([&] {
    switch (deed.what) {
      case 0:
      case 1:
      case 2:
      case 3:
        return start_next(core, deed, said);
      case 4:
      case 5:
      case 6:
      case 7:
        return report(core, deed, said);
      case 8:
      case 9:
        return end(core, deed);
      case 10:
        return core.pause_trial(deed.trial, "a user", deed.now_s);
      case 11:
        return core.continue_trial(deed.trial, "a user", deed.now_s);
      case 12:
        return core.stop_trial(deed.trial, "a user", deed.now_s);
      case 13:
        return learn(core, deed);
      case 14:
        core.note("a tuner", deed.now_s, /*session=*/true);
        return core.recover(deed.now_s);
      case 15:
        return core.forgive("once more", deed.now_s);
      case 16:
        return core.note_in_vain(static_cast<int64_t>(deed.draw % 9), "why", deed.now_s);
      default:
        core.offer({{.partial = Point(3, kNan), .reason = "given", .adopted = deed.draw % 40}});
        return start_next(core, deed, said);
    }
  });
  return concat(said, " | ", refused);
}

/// All that a core shows of itself as a whole.
inline std::string whole(const StudyCore& core) {
  return concat(core.best() == nullptr ? -1 : core.best()->number,
                ' ',
                core.best() == nullptr ? 0 : core.result(*core.best()),
                ' ',
                core.trials().size(),
                ' ',
                core.planned_trials(),
                ' ',
                core.stop_reason(),
                ' ',
                core.has_given_up(),
                ' ',
                shortest(core.used_s()),
                ' ',
                core.identity(),
                ' ',
                core.has_lost_attempts());
}

/// A trial that is not over, or none.
inline int64_t some_trial(const StudyCore& core, std::mt19937& draw) {
  std::vector<int64_t> open;
  for (const Trial& trial : core.trials())
    if (!is_over(trial.state)) open.push_back(trial.number);
  return open.empty() ? -1 : open[draw() % open.size()];
}

/// A core that is fed these events from the first, and keeps all calls.
inline StudyCore fed(const StudySpec& spec, const std::vector<Event>& events) {
  StudyCore core(spec);
  core.keep_calls();
  for (const Event& event : events) core.replay(event);
  return core;
}

inline std::string calls_of(const StudyCore& core) {
  const auto piece = core.calls_behind({});
  return piece ? piece->calls : "";
}

inline std::string joined(const std::vector<CallPiece>& pieces) {
  std::string calls;
  for (const CallPiece& piece : pieces) calls += piece.calls;
  return calls;
}

/// Some deed, at a moment after `now_s`, which becomes it.
inline Deed drawn_deed(const StudyCore& core, std::mt19937& draw, double& now_s) {
  now_s += static_cast<double>(draw() % 8);
  Deed deed{.what = static_cast<int>(draw() % 18), .trial = -1, .now_s = now_s, .draw = 0};
  deed.trial = some_trial(core, draw);
  deed.draw = static_cast<unsigned>(draw() % 1000);
  return deed;
}

/// Trials that are all over, and one that runs.
inline void play(StudyCore& core, int64_t trials) {
  for (int64_t i = 0; i < trials; ++i) {
    start(core, 1);
    core.report(i, loss(1.0 / static_cast<double>(i + 1)), 2);
    core.ended(i, Failure::kNone, "", 3);
  }
  start(core, 4);
  core.discard_events();
}

/// A study whose pieces and outline are stored now and then, as Study does.
struct Stored {
  std::vector<CallPiece> pieces;
  std::string outline;
  int64_t event = 0;

  bool take(const StudyCore& core) {
    if (!core.has_outline() || core.last_event() == event) return false;
    const auto piece = core.calls_behind(pieces.empty() ? CallPiece{} : pieces.back());
    EXPECT_EQ(piece.has_value(), !core.call_rules().empty());
    if (piece) pieces.push_back(*piece);
    outline = core.outline(pieces.empty() ? "" : pieces.back().chain).value();
    event = core.last_event();
    return true;
  }
};

}  // namespace muster::tune
