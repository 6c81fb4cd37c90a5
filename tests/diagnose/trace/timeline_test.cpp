// Known times give the known shares, and a trace that fits the Trace Event Format.
#include "muster/diagnose/trace/timeline.h"

#include <ctime>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/diagnose/trace/interval_set.h"

#include "tests/support/error_of.h"

namespace muster::diagnose {
namespace {

using ::testing::HasSubstr;

TEST(IntervalSet, KnowsUnionIntersectionAndDifference) {
  const IntervalSet a({{5, 7}, {0, 3}, {2, 4}, {9, 9}, {8, 6}}), b({{3, 6}});
  EXPECT_EQ(a.intervals(), (std::vector<Interval>{{0, 4}, {5, 7}}));
  EXPECT_EQ((a & b).intervals(), (std::vector<Interval>{{3, 4}, {5, 6}}));
  EXPECT_EQ((a - b).intervals(), (std::vector<Interval>{{0, 3}, {6, 7}}));
  EXPECT_EQ((a | b).intervals(), (std::vector<Interval>{{0, 7}}));
  EXPECT_EQ((a | b).length(), 7);
  EXPECT_EQ((a - IntervalSet()).length(), a.length());
  EXPECT_EQ((IntervalSet() & a).length(), 0);
}

constexpr int64_t kMs = 1'000'000;

/// A rank whose clock the test sets, in milliseconds.
class Script {
 public:
  explicit Script(TimelineOptions options = {})
      : recorder(std::make_shared<FlightRecorder>(64, [this] { return now_; })),
        timeline(with_script(std::move(options))) {}

  void at(int64_t ms) { now_ = ms * kMs; }
  uint64_t call(int64_t ms) {
    at(ms);
    return recorder->post({.kind = OpKind::kAllreduce}).id;
  }
  void done(int64_t ms, uint64_t id) {
    at(ms);
    recorder->complete(id);
  }
  /// Steps of 10 ms, one after the other.
  void steps(int64_t count) {
    for (int64_t step = 0; step < count; ++step) {
      timeline.begin_step(step);
      at(10 * (step + 1));
      timeline.end_step();
    }
  }

 private:
  TimelineOptions with_script(TimelineOptions options) {
    options.recorder = recorder;
    options.clock = [this] { return now_; };
    return options;
  }

  int64_t now_ = 1;

 public:
  std::shared_ptr<FlightRecorder> recorder;
  Timeline timeline;
};

/// Phases of a step without communication.
TEST(Timeline, WithoutCommunicationTheLargerOfDataAndComputeBinds) {
  const auto bound = [](int64_t data_ms, int64_t compute_ms) {
    Script script;
    script.timeline.begin_step(0);
    script.timeline.begin(Phase::kDataWait);
    script.at(data_ms);
    script.timeline.begin(Phase::kForward);
    script.at(data_ms + compute_ms);
    script.timeline.end_step();
    EXPECT_NEAR(script.timeline.summary().data_s, data_ms * 1e-3, 2e-9);
    EXPECT_NEAR(script.timeline.summary().compute_s, compute_ms * 1e-3, 1e-9);
    EXPECT_EQ(script.timeline.summary().overlap(), 0);
    return std::string(script.timeline.summary().bound());
  };
  EXPECT_EQ(bound(10, 30), "compute");
  EXPECT_EQ(bound(30, 10), "loader");
}

// A backend of known times: buckets at 20, 40 and 60 ms of a backward from 10 to 90 ms. The first
// two take 10 ms each, hidden; the last takes 30 ms, for which backward stands still.
TEST(Timeline, OverlapIsTheShareOfCommunicationDuringWhichBackwardComputes) {
  Script script;
  script.timeline.begin_step(0);
  script.timeline.begin(Phase::kForward);
  script.at(10);
  script.timeline.begin(Phase::kBackward);
  script.done(30, script.call(20));
  script.done(50, script.call(40));
  script.done(90, script.call(60));
  script.timeline.begin(Phase::kOptimizer);
  script.at(100);
  script.timeline.end_step();
  const TimelineSummary& summary = script.timeline.summary();
  EXPECT_DOUBLE_EQ(summary.communication_s, 0.050);
  EXPECT_DOUBLE_EQ(summary.exposed_s, 0.030);
  EXPECT_DOUBLE_EQ(summary.overlap(), 0.4);
  EXPECT_NEAR(summary.compute_s, 0.070, 2e-9);
  EXPECT_EQ(summary.bound(), "compute");
}

// One that starts while the one before it is under way counts once; one that is waited for in
// forward (buffers) is exposed from the wait on.
TEST(Timeline, CommunicationIsTheTimeInWhichAnyIsUnderWay) {
  Script script;
  script.timeline.begin_step(0);
  script.timeline.begin(Phase::kForward);
  const uint64_t buffers = script.call(10);
  script.at(15);
  script.recorder->begin_wait(buffers);
  script.done(20, buffers);
  script.recorder->end_wait(buffers);
  script.at(30);
  script.timeline.begin(Phase::kBackward);
  const uint64_t first = script.call(40), second = script.call(50);
  script.done(60, first);
  script.done(80, second);
  script.timeline.end_step();
  const TimelineSummary& summary = script.timeline.summary();
  EXPECT_DOUBLE_EQ(summary.communication_s, 0.050);  // 10 to 20, 40 to 80
  EXPECT_DOUBLE_EQ(summary.exposed_s, 0.035);        // 15 to 20, 50 to 80
  EXPECT_DOUBLE_EQ(summary.overlap(), 10.0 / 50.0);  // 40 to 50; forward is not backward
}

TEST(Timeline, OperationsOutsideOfStepsAreNotCounted) {
  Script script;
  script.done(5, script.call(1));
  script.timeline.begin_step(0);
  script.done(8, script.call(7));
  script.timeline.end_step();
  script.done(20, script.call(9));
  script.timeline.begin_step(1);
  script.timeline.end_step();
  EXPECT_DOUBLE_EQ(script.timeline.summary().communication_s, 0.001);
  EXPECT_EQ(script.timeline.summary().lost_records, 0);
}

TEST(Timeline, SaysWhenTheRecorderWasTooSmall) {
  Script script;
  script.timeline.begin_step(0);
  for (int i = 0; i < 100; ++i) script.done(i + 1, script.call(i + 1));
  script.timeline.end_step();
  EXPECT_EQ(script.timeline.summary().lost_records, 36);
  EXPECT_THAT(script.timeline.summary().to_text(), HasSubstr("36 operations were not recorded"));
}

TEST(Timeline, TextHasTheVerdictTheOverlapAndTheSizes) {
  const TimelineSummary summary{.ranks = 2,
                                .steps = 20,
                                .total_s = 0.2,
                                .data_s = 0.02,
                                .compute_s = 0.1,
                                .exposed_s = 0.05,
                                .communication_s = 0.1,
                                .overlap_s = 0.05,
                                .bytes = 20 << 20};
  EXPECT_EQ(summary.to_text(),
            "compute-bound, 50 % overlap: data 10 %, compute 50 %, exposed communication 25 % of "
            "10.00 ms a step; 1.0 MiB in 5.00 ms of communication a step; 10 steps, 2 ranks");
  EXPECT_EQ((TimelineSummary{.data_s = 1, .compute_s = 2, .exposed_s = 3}.bound()), "comm");
}

TEST(Timeline, StopsAfterTheWantedSteps) {
  Script script({.steps = 2});
  script.steps(5);
  EXPECT_EQ(script.timeline.summary().steps, 2);
  EXPECT_FALSE(script.timeline.is_recording());
  EXPECT_NEAR(script.timeline.summary().total_s, 0.02, 2e-9);
}

/// The numbers of the steps in a part.
std::vector<int64_t> steps_of(const Timeline& timeline) {
  std::vector<int64_t> numbers;
  const Json part = parse_json(timeline.part(), "part");
  for (const Json& step : part.at("steps")) numbers.push_back(step.at(0));
  return numbers;
}

TEST(Timeline, LeavesTheWarmUpOutWhereTheRunIsLonger) {
  using Numbers = std::vector<int64_t>;
  const auto recorded = [](int64_t count) {
    Script script({.steps = 4, .warm_up = 3});
    script.steps(count);
    EXPECT_EQ(script.timeline.is_recording(), count < 7) << count;
    const Numbers numbers = steps_of(script.timeline);
    EXPECT_EQ(script.timeline.summary().steps, static_cast<int64_t>(numbers.size()));
    return numbers;
  };
  EXPECT_EQ(recorded(2), (Numbers{0, 1}));
  EXPECT_EQ(recorded(3), (Numbers{0, 1, 2}));
  EXPECT_EQ(recorded(4), (Numbers{3}));
  EXPECT_EQ(recorded(20), (Numbers{3, 4, 5, 6}));
  Script few({.steps = 2, .warm_up = 30});
  few.steps(20);
  EXPECT_EQ(steps_of(few.timeline), (Numbers{0, 1})) << "never more than the wanted steps";
}

// However long a step is: many batches per step have many phases.
TEST(Timeline, HoldsNoMoreThanSoManyRecords) {
  Timeline timeline({.steps = 2000});
  const auto records = static_cast<int64_t>(Timeline::kMaxRecords);
  for (int64_t step = 0; step < 2000; ++step) {
    timeline.begin_step(step);
    for (int64_t phase = 0; phase < records / 1000; ++phase) timeline.begin(Phase::kForward);
    timeline.end_step();
  }
  EXPECT_EQ(timeline.summary().steps, 1000);
  EXPECT_FALSE(timeline.is_recording()) << "the wanted steps are over";
}

TEST(Timeline, WhereEndsAreUnknownCommunicationIs) {
  Script script({.knows_ends = false});
  script.timeline.begin_step(0);
  script.timeline.begin(Phase::kForward);
  const uint64_t id = script.call(10);
  script.recorder->begin_wait(id);
  script.done(20, id);
  script.timeline.end_step();
  const TimelineSummary& summary = script.timeline.summary();
  EXPECT_EQ(summary.communication_s, 0);
  EXPECT_EQ(summary.exposed_s, 0);
  EXPECT_THAT(summary.to_text(), HasSubstr("compute-bound, overlap unknown: data 0 %"));
  EXPECT_THAT(summary.to_text(), HasSubstr("a step, in a time that only the device knows; 1 step"));
  const TimelineSummary known;
  EXPECT_FALSE(sum_of(std::vector{known, summary}).knows_communication);
  EXPECT_FALSE(summary_of_part(script.timeline.head()).knows_communication);
  const std::vector<std::string> parts{script.timeline.part()};
  const Json trace = parse_json(chrome_trace(parts), "trace");
  int found = 0;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("name") != "all_reduce") continue;
    ++found;
    EXPECT_EQ(event.at("dur"), 0);
    EXPECT_EQ(event.at("args").at("duration"), "unknown");
    EXPECT_FALSE(event.at("args").contains("GB/s"));
  }
  EXPECT_EQ(found, 1);
}

/// Two ranks; rank 1 has two collectives under way at once.
std::string trace_of_two_ranks() {
  std::vector<std::string> parts;
  for (int rank = 0; rank < 2; ++rank) {
    const auto recorder = std::make_shared<FlightRecorder>();
    Timeline timeline({.rank = rank, .recorder = recorder});
    for (int64_t step = 0; step < 3; ++step) {
      timeline.begin_step(step);
      { const Timeline::Scope scope(&timeline, Phase::kForward); }
      const Timeline::Scope scope(&timeline, Phase::kBackward);
      OpRecord op{.kind = OpKind::kAllreduce};
      add_tensor(op, {.dtype = "float32", .dims = 1, .elements = 250, .sizes = {250}}, 4);
      const auto a = recorder->post(op).id;
      if (rank == 0) recorder->complete(a);
      const auto b = recorder->post(op).id;
      if (rank == 1) recorder->complete(a);
      recorder->complete(b);
      timeline.end_step();
    }
    EXPECT_EQ(timeline.summary().bytes, 6000);
    EXPECT_EQ(summary_of_part(timeline.part()).steps, 3);
    parts.push_back(timeline.part());
  }
  return chrome_trace(parts);
}

// The fields that "Trace Event Format" asks of complete and metadata events.
TEST(ChromeTrace, HoldsCompleteAndMetadataEventsWithTheirFields) {
  const Json trace = parse_json(trace_of_two_ranks(), "trace");
  std::map<std::string, int> phases;
  std::set<std::string> names;
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> rows;
  for (const Json& event : trace.at("traceEvents")) {
    ASSERT_TRUE(event.at("pid").is_number_integer() && event.at("tid").is_number_integer());
    ASSERT_TRUE(event.at("name").is_string() && event.at("args").is_object());
    const std::string phase = event.at("ph");
    ++phases[phase];
    if (phase == "M") {
      EXPECT_THAT(event.at("name").get<std::string>(),
                  ::testing::AnyOf("process_name", "thread_name", "thread_sort_index"));
      continue;
    }
    ASSERT_EQ(phase, "X");
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    EXPECT_TRUE(event.at("cat").is_string());
    names.insert(event.at("name"));
    rows[{event.at("pid"), event.at("tid")}].emplace_back(
        event.at("ts").get<double>(), event.at("ts").get<double>() + event.at("dur").get<double>());
    if (event.at("name") == "all_reduce") {
      EXPECT_EQ(event.at("args").at("bytes"), 1000);
      EXPECT_EQ(event.at("args").at("call"), "all_reduce sum float32[250]");
    }
  }
  EXPECT_EQ(phases["X"], 2 * (3 + 6 + 6));
  EXPECT_THAT(names,
              ::testing::IsSupersetOf({"step 0", "step 2", "forward", "backward", "all_reduce"}));
  // Spans of one row do not cross.
  for (auto& [row, spans] : rows) {
    std::sort(spans.begin(), spans.end());
    for (size_t i = 1; i < spans.size(); ++i)
      EXPECT_GE(spans[i].first, spans[i - 1].second - 1e-3) << row.first << "/" << row.second;
  }
  EXPECT_EQ(rows.count({0, 3}), 0U);  // one row of collectives
  EXPECT_EQ(rows.count({1, 3}), 1U);  // two: they overlap
}

TEST(ChromeTrace, EachStreamOfADeviceHasARowBehindTheCollectives) {
  Script script;
  script.at(0);
  script.call(2);
  script.timeline.begin_step(7);
  script.done(4, script.call(3));
  script.at(30);
  script.timeline.end_step();
  script.timeline.add_device_spans({{"compute", "before", 1 * kMs, 5 * kMs},
                                    {"compute", "step 7", 6 * kMs, 20 * kMs},
                                    {"copies", "batch 8", 7 * kMs, 9 * kMs},
                                    {"compute", "forward", 8 * kMs, 12 * kMs}});
  const std::vector<std::string> parts{script.timeline.part()};
  const Json trace = parse_json(chrome_trace(parts), "trace");
  std::map<std::string, int> titles;
  std::map<std::string, Json> spans;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name")
      titles[event.at("args").at("name").get<std::string>()] = event.at("tid");
    if (event.at("ph") == "X" && event.at("cat") == "device") spans[event.at("name")] = event;
  }
  EXPECT_EQ(spans.size(), 3U) << "what began before the first step is left out";
  EXPECT_GT(titles.at("compute"), titles.at("collectives"));
  EXPECT_GT(titles.at("copies"), titles.at("compute"));
  EXPECT_EQ(spans.at("batch 8").at("tid"), titles.at("copies"));
  EXPECT_EQ(spans.at("forward").at("tid"), titles.at("compute"));
  EXPECT_EQ(spans.at("batch 8").at("dur"), 2000);
  const double later =
      spans.at("batch 8").at("ts").get<double>() - spans.at("step 7").at("ts").get<double>();
  EXPECT_NEAR(later, 1000, 1);
}

TEST(ChromeTrace, HasALinePerEvent) {
  const std::string text = trace_of_two_ranks();
  const auto events = parse_json(text, "trace").at("traceEvents").size();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<std::ptrdiff_t>(events) + 2);
}

/// Seconds of this thread's own for a part and the trace of so many steps; the least of three.
double seconds_for(int64_t steps) {
  Timeline timeline({});
  for (int64_t step = 0; step < steps; ++step) {
    timeline.begin_step(step);
    timeline.begin(Phase::kForward);
    timeline.begin(Phase::kBackward);
    timeline.end_step();
  }
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = now();
    const std::vector<std::string> parts{timeline.part()};
    EXPECT_GT(chrome_trace(parts).size(), static_cast<size_t>(steps) * 200);
    least = std::min(least, now() - start);
  }
  return least;
}

// 16 times the events: 16 times the time; 256 times, if each event moved those behind it.
TEST(ChromeTrace, TakesTimeInProportionToItsEvents) {
  double ratio = 1e9;  // of two that are measured side by side: a core may be slower at times
  for (int i = 0; i < 5 && ratio >= 48; ++i)
    ratio = std::min(ratio, seconds_for(9'600) / seconds_for(600));
  EXPECT_LT(ratio, 48);
}

TEST(ChromeTrace, RefusesWhatIsNoPart) {
  for (const std::string bad : {"{}", "[1]", "{\"format\":\"muster-timeline/1\"}"})
    EXPECT_THAT(test::refusal_of([&] { chrome_trace(std::vector<std::string>{bad}); }),
                HasSubstr("timeline"));
}

}  // namespace
}  // namespace muster::diagnose
