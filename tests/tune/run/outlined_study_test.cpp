// Who asks for a trial of a long study reads an outline and what came after it, not the whole log.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/storage/sqlite.h"

#include "tests/support/error_of.h"
#include "tests/tune/run/study_with_file.h"

namespace muster::tune {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

double at_ten_thousand() { return 10'000; }

class OutlinedStudy : public StudyWithFile {
 protected:
  fs::path file() const { return folder_.path() / "test.db"; }

  StudySpec long_spec(const std::string& searcher = "random") {
    StudySpec spec = this->spec(100'000, searcher);
    spec.give_up_after = 0;
    return spec;
  }

  static StudyOptions asker(bool outlines = true) {
    return {.tuner = false, .suggests = true, .outlines = outlines};
  }

  /// A trial that is asked for, with one report and its end.
  static void run_one(Study& study, Failure failure = Failure::kNone) {
    study.apply([&](StudyCore& core, double now_s) {
      const int64_t number = core.next(now_s, /*asked=*/true).trial;
      core.report(number, loss(1.0 / static_cast<double>(number + 1)), now_s);
      core.ended(number, failure, "", now_s);
    });
  }

  /// So many trials, asked for by one process; the first has failed.
  void write(int64_t trials, const std::string& searcher = "random") {
    write(long_spec(searcher), trials);
  }
  void write(const StudySpec& spec, int64_t trials) {
    Study study(spec, &at_ten_thousand, {}, asker());
    run_one(study, Failure::kCrash);
    for (int64_t i = 1; i < trials; ++i) run_one(study);
  }

  /// Nobody who reads the log from its beginning gets beyond this.
  void damage_the_beginning() {
    Database(file(), Database::Access::kWrite)
        .run("UPDATE muster_events SET payload = 'x' WHERE event_key & 1099511627775 < 20");
  }

  std::string count(const std::string& table) {
    Database database(file(), Database::Access::kRead);
    Statement rows = database.prepare("SELECT count(*) FROM " + table);
    return rows.step() ? std::string(rows.text(0)) : "";
  }

  /// What the next call appends, without its id.
  std::vector<std::string> asked_of(const StudySpec& spec, bool outlines) {
    std::vector<std::string> texts;
    Study study(spec, &at_ten_thousand, {}, asker(outlines));
    study.apply([&](StudyCore& core, double now_s) { core.next(now_s, /*asked=*/true); });
    const std::vector<Event> all = read_events(spec.storage, "test");
    for (size_t i = all.size() - 2; i < all.size(); ++i)
      texts.push_back(concat(all[i].id, ' ', all[i].trial, ' ', payload_text(all[i])));
    return texts;
  }
};

TEST_F(OutlinedStudy, AnAskerDoesNotReadWhatIsOver) {
  write(300);
  EXPECT_EQ(count("muster_outlines"), "1");
  const Event last = stored().back();
  damage_the_beginning();
  EXPECT_THAT(test::error_of([&] { Study(long_spec(), &at_ten_thousand, {}, asker(false)); }),
              HasSubstr("of the study's log cannot be read"));
  Study study(long_spec(), &at_ten_thousand, {}, asker());
  EXPECT_EQ(study.resumed_events(), last.id);
  study.look([](const StudyCore& core) {
    EXPECT_EQ(core.trials().size(), 300U);
    EXPECT_FALSE(core.knows(5));
    ASSERT_NE(core.best(), nullptr);
    EXPECT_EQ(core.best()->number, 299) << "the least loss";
  });
  run_one(study);
  study.look([](const StudyCore& core) {
    EXPECT_EQ(core.trials().size(), 301U);
    EXPECT_EQ(core.best()->number, 300);
  });
}

TEST_F(OutlinedStudy, AnAskerStartsWhatItWouldStartByTheWholeLog) {
  for (const std::string searcher : {"random", "sobol", "tpe"}) {
    fs::remove(file());
    write(120, searcher);
    const fs::path copy = folder_.path() / "copy.db";
    fs::copy_file(file(), copy, fs::copy_options::overwrite_existing);
    StudySpec by_copy = long_spec(searcher);
    by_copy.storage = copy;
    EXPECT_EQ(asked_of(long_spec(searcher), true), asked_of(by_copy, false)) << searcher;
  }
}

constexpr int64_t kMostEvents = 256 + 4;  // from one outline to the next, and the trial behind it

// What a call reads does not grow with the log, whatever learns.
TEST_F(OutlinedStudy, AnAskerReadsFewEventsWhateverTheSearcherAndTheScheduler) {
  for (const std::string searcher : {"tpe", "bohb", "cma_es", "gp:samples=16"}) {
    for (const std::string scheduler : {"fifo", "asha:variant=promotion,grace_period=2,max_t=8"}) {
      fs::remove(file());
      StudySpec spec = long_spec(searcher);
      spec.scheduler = scheduler;
      spec.plateau = {.patience = 50};
      spec.keep_checkpoints = 1;
      write(spec, 180);
      const auto all = static_cast<int64_t>(stored().size());
      ASSERT_GT(all, 2 * kMostEvents);
      const fs::path copy = folder_.path() / "copy.db";
      fs::copy_file(file(), copy, fs::copy_options::overwrite_existing);
      StudySpec by_copy = spec;
      by_copy.storage = copy;
      EXPECT_EQ(asked_of(spec, true), asked_of(by_copy, false)) << searcher << ", " << scheduler;
      Study study(spec, &at_ten_thousand, {}, asker());
      EXPECT_EQ(study.resumed_events(), all + 2);
      EXPECT_LE(study.events_read(), kMostEvents) << searcher << ", " << scheduler;
      EXPECT_EQ(Study(by_copy, &at_ten_thousand, {}, asker(false)).events_read(), all + 2);
    }
  }
}

// At a new place the log is read once, and whoever did leaves an outline of that place.
TEST_F(OutlinedStudy, OfAMovedStudyTheSecondCallReadsFewEvents) {
  for (const std::string searcher : {"random", "tpe"}) {
    fs::remove(file());
    StudySpec spec = long_spec(searcher);
    spec.trial_folder = folder_.path() / "there";
    Study(spec, &at_ten_thousand).look([](const StudyCore& core) {
      EXPECT_EQ(core.last_event(), 1) << "it names its trials' folder";
    });
    write(spec, 180);
    spec.trial_folder = folder_.path() / "here";
    Study first(spec, &at_ten_thousand, {}, asker());
    EXPECT_EQ(first.events_read(), first.resumed_events());
    EXPECT_EQ(std::get<TunerNote>(stored().back().what).folder, spec.trial_folder.string());
    run_one(first);
    const auto all = static_cast<int64_t>(stored().size());
    Study second(spec, &at_ten_thousand, {}, asker());
    EXPECT_LE(second.events_read(), kMostEvents) << searcher;
    EXPECT_EQ(second.resumed_events(), all);
    EXPECT_EQ(static_cast<int64_t>(stored().size()), all) << "the place is named once";
  }
}

// Several processes go on with one study, each with its own view of what is stored.
TEST_F(OutlinedStudy, CallsOfSeveralProcessesFollowEachOther) {
  const StudySpec spec = long_spec("tpe");
  {
    Study one(spec, &at_ten_thousand, {}, asker());
    Study two(spec, &at_ten_thousand, {}, asker());
    for (int i = 0; i < 150; ++i) run_one(i % 3 == 0 ? one : two);
    Study tuner(spec);
    for (int i = 0; i < 80; ++i) run_one(i % 2 == 0 ? one : tuner);
  }
  EXPECT_GT(std::stoi(count("muster_calls")), 2);
  Study study(spec, &at_ten_thousand, {}, asker());
  EXPECT_LE(study.events_read(), kMostEvents);
}

TEST_F(OutlinedStudy, DamagedCallsArePassedOverAndWrittenAnew) {
  for (const char* damage : {"UPDATE muster_calls SET calls = replace(calls, '1', '2')",
                             "UPDATE muster_calls SET chain = 'x'",
                             "UPDATE muster_calls SET rules = 'x'",
                             "DELETE FROM muster_calls WHERE behind = 0",
                             "DELETE FROM muster_calls"}) {
    fs::remove(file());
    write(200, "tpe");
    Database(file(), Database::Access::kWrite).run(damage);
    {
      Study study(long_spec("tpe"), &at_ten_thousand, {}, asker());
      EXPECT_EQ(study.events_read(), study.resumed_events()) << damage;
      run_one(study);
    }
    Study study(long_spec("tpe"), &at_ten_thousand, {}, asker());
    EXPECT_LE(study.events_read(), kMostEvents) << damage;
  }
}

TEST_F(OutlinedStudy, WhoTellsReadsAnOutlineWhateverTheSearcher) {
  write(120, "tpe");
  int64_t number = -1;
  {
    Study study(long_spec("tpe"), &at_ten_thousand, {}, asker());
    number = study.apply(
        [&](StudyCore& core, double now_s) { return core.next(now_s, /*asked=*/true).trial; });
  }
  damage_the_beginning();
  StudyOptions options = asker();
  options.suggests = false;
  Study study(long_spec("tpe"), &at_ten_thousand, {}, options);
  study.apply([&](StudyCore& core, double now_s) {
    EXPECT_TRUE(core.is_asked(number));
    core.report(number, loss(0.5), now_s);
    core.ended(number, Failure::kNone, "", now_s);
    EXPECT_EQ(trial(core, number).state, TrialState::kComplete);
  });
}

TEST_F(OutlinedStudy, ATrialOnceMoreThatWasOverBeforeIsRunWithItsOwnPoint) {
  write(200);
  const Point point = std::get<TrialAdded>(stored()[0].what).point;
  EXPECT_THAT(restart_failed_trials(file(), "test", {}), ::testing::ElementsAre(0));
  damage_the_beginning();
  Study study(long_spec(), &at_ten_thousand, {}, asker());
  study.apply([&](StudyCore& core, double now_s) {
    const int64_t number = core.next(now_s, /*asked=*/true).trial;
    EXPECT_EQ(trial(core, number).point, point);
    EXPECT_FALSE(core.knows(0)) << "nobody read the log for it";
  });
}

TEST_F(OutlinedStudy, ATrialOnceMoreWithoutItsPointIsRunWithTheOneInTheLog) {
  for (const char* change : {"DELETE FROM trial_system_attributes WHERE \"key\" = 'muster:failed'",
                             "UPDATE trial_system_attributes SET value_json = json_set(value_json, "
                             "'$.point', json('[1e300, \"x\"]')) "
                             "WHERE \"key\" = 'muster:failed'",
                             "UPDATE trial_system_attributes SET value_json = json_set(value_json, "
                             "'$.point', json('[1e300]')) "
                             "WHERE \"key\" = 'muster:failed'"}) {
    fs::remove(file());
    write(200);
    const Point point = std::get<TrialAdded>(stored()[0].what).point;
    restart_failed_trials(file(), "test", {});
    Database(file(), Database::Access::kWrite).run(change);
    Study study(long_spec(), &at_ten_thousand, {}, asker());
    study.apply([&](StudyCore& core, double now_s) {
      const int64_t number = core.next(now_s, /*asked=*/true).trial;
      EXPECT_EQ(trial(core, number).point, point) << change;
      EXPECT_TRUE(core.knows(0)) << change;
    });
  }
}

// Optuna's copy_study copies a trial's attributes into another study, whose numbers are others.
TEST_F(OutlinedStudy, ATrialOnceMoreOfAnotherStudyIsOneOfItsOwn) {
  write(20);
  EXPECT_THAT(restart_failed_trials(file(), "test", {}), ::testing::ElementsAre(0));
  EXPECT_THAT(restart_failed_trials(file(), "test", {}), ::testing::IsEmpty());
  Database(file(), Database::Access::kWrite)
      .run(
          "UPDATE trial_system_attributes SET value_json = json_set(value_json, '$.began', 5) "
          "WHERE \"key\" = 'muster:failed'");
  {
    const std::vector<ForeignTrial> copied = read_foreign_trials(file(), "test");
    ASSERT_EQ(copied.size(), 1U);
    EXPECT_EQ(copied[0].again, std::nullopt);
    Study study(long_spec(), &at_ten_thousand, {}, asker());
    run_one(study);
    const std::vector<Event> all = stored();
    const auto added = std::ranges::find(all, int64_t{20}, &Event::trial);
    ASSERT_NE(added, all.end());
    EXPECT_EQ(std::get<TrialAdded>(added->what).reason, "enqueued by Optuna");
    EXPECT_EQ(std::get<TrialAdded>(added->what).point, std::get<TrialAdded>(all[0].what).point);
  }
  EXPECT_THAT(restart_failed_trials(file(), "test", {}), ::testing::ElementsAre(0));
}

TEST_F(OutlinedStudy, OneThatEndedWellWithoutANumberHasNotFailed) {
  Study study(long_spec(), &at_ten_thousand, {}, asker());
  study.apply([](StudyCore& core, double now_s) {
    const int64_t number = core.next(now_s, /*asked=*/true).trial;
    core.report(number, loss(std::nan("")), now_s);
    core.ended(number, Failure::kNone, "", now_s);
    EXPECT_EQ(trial(core, number).state, TrialState::kComplete);
  });
  run_one(study, Failure::kCrash);
  EXPECT_EQ(read_end_of_trial(file(), "test", 0), TrialState::kComplete);
  EXPECT_THAT(restart_failed_trials(file(), "test", {}), ::testing::ElementsAre(1));
  EXPECT_THAT(
      test::error_of([&] { restart_failed_trials(file(), "test", std::vector<int64_t>{0}); }),
      HasSubstr("failed: 1"));
}

TEST_F(OutlinedStudy, HowATrialEndedIsReadWithoutItsEvents) {
  write(200);
  Database(file(), Database::Access::kWrite)
      .run("UPDATE muster_events SET payload = 'x' WHERE trial > 0 AND trial < 100");
  EXPECT_EQ(read_end_of_trial(file(), "test", 0), TrialState::kFailed);
  EXPECT_EQ(read_end_of_trial(file(), "test", 5), TrialState::kComplete);
  EXPECT_EQ(read_end_of_trial(file(), "test", 200), std::nullopt);
  EXPECT_EQ(read_end_of_trial(file(), "test", -1), std::nullopt);
}

TEST_F(OutlinedStudy, ATunerReadsTheWholeLogAndLeavesAnOutlineForOthers) {
  write(200);
  Study tuner(long_spec());
  tuner.look([](const StudyCore& core) { EXPECT_TRUE(core.knows(5)); });
  const Event last = stored().back();
  Database database(file(), Database::Access::kRead);
  Statement row = database.prepare("SELECT event FROM muster_outlines");
  ASSERT_TRUE(row.step());
  EXPECT_EQ(row.integer(0), last.id) << "of the moment at which it began";
}

TEST_F(OutlinedStudy, AnOutlineOfAnotherLogOrADamagedOneIsPassedOver) {
  write(200);
  for (const char* damage :
       {"UPDATE muster_outlines SET event = event - 1",
        "UPDATE muster_outlines SET event = event + 1, outline = outline || ' '",
        "UPDATE muster_outlines SET outline = 'x'",
        "UPDATE muster_outlines SET time = time + 1",
        "DELETE FROM muster_outlines"}) {
    Database(file(), Database::Access::kWrite).run(damage);
    Study study(long_spec(), &at_ten_thousand, {}, asker());
    study.look([&](const StudyCore& core) {
      EXPECT_TRUE(core.knows(5)) << damage;
      EXPECT_EQ(core.trials().size(), 200U) << damage;
    });
  }
}

TEST_F(OutlinedStudy, DeletingAStudyDeletesItsOutline) {
  write(200);
  EXPECT_EQ(count("muster_outlines"), "1");
  delete_study(file(), "test");
  EXPECT_EQ(count("muster_outlines"), "0");
}

TEST_F(OutlinedStudy, DeletingAStudyDeletesItsCalls) {
  write(120, "tpe");
  EXPECT_NE(count("muster_calls"), "0");
  delete_study(file(), "test");
  EXPECT_EQ(count("muster_calls"), "0");
}

}  // namespace
}  // namespace muster::tune
