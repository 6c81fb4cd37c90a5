// `muster tune` as its users see it: what goes wrong is one clear line.
#include <filesystem>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "tests/process/tune/shell_study.h"

namespace muster::testing_process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TuneProgram : public ShellStudy {
 protected:
  const std::string report_ = program_ + "report ";
};

int count(std::string_view text, std::string_view part) {
  int times = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST_F(TuneProgram, AMisspeltMetricIsSaidOncePerTrialHoweverOftenItIsReported) {
  Launched tuner(
      {"tune", study(concat("for t in 1 2 3 4; do ", report_, "los=1 step=$t; done"), 2)});
  EXPECT_EQ(tuner.wait().code, 1);
  const std::string refusal =
      "muster: the first report of trial 0: it has the study's metric \"loss\"";
  EXPECT_EQ(count(tuner.err(), refusal), 1) << tuner.err();
  EXPECT_THAT(tuner.err(),
              AllOf(HasSubstr("(got los)\nhint: let the trial report \"loss\""),
                    HasSubstr("trial 0 failed (crash): the first report of trial 0: it has the "
                              "study's metric \"loss\" (got los); hint: let the trial report"),
                    HasSubstr("no trial ended with a result")));
}

TEST_F(TuneProgram, AMetricThatIsNotFiniteFailsItsTrialIfTheStudySaysSo) {
  Launched tuner(
      {"tune",
       study(concat(report_, "loss=0.5; ", report_, "loss=nan; ", report_, "loss=1; sleep 100"),
             2,
             "nan_is_failure = true")});
  EXPECT_EQ(tuner.wait().code, 1);
  EXPECT_THAT(tuner.err(), HasSubstr("trial 0 failed (nan): loss is nan at step 2"));
  EXPECT_TRUE(tuner.nothing_left());
}

TEST_F(TuneProgram, OfEachTrialTheNewestCheckpointsStay) {
  const std::string script =
      concat("for t in 1 2 3; do echo > \"$MUSTER_CHECKPOINT_DIR/$t\"; ",
             report_,
             "loss=1 step=$t --checkpoint \"$MUSTER_CHECKPOINT_DIR/$t\"; done");
  const std::string file = study(script, 1, "keep_checkpoints = 1");
  Launched tuner({"tune", file, "--keep-checkpoints", "2"});  // flags win
  EXPECT_EQ(tuner.wait().code, 0) << tuner.err();
  const auto folder = folder_.path() / "study-trials" / "study" / "trial-0" / "checkpoints";
  EXPECT_FALSE(std::filesystem::exists(folder / "1"));
  EXPECT_TRUE(std::filesystem::exists(folder / "2"));
  EXPECT_TRUE(std::filesystem::exists(folder / "3"));
  const Said refused = say({"tune", file, "--keep-checkpoints", "-1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("keep_checkpoints"), Not(HasSubstr("study.toml:"))));
}

TEST_F(TuneProgram, ASecondTunerOfAStudyIsRefusedAndNamesTheFirst) {
  const std::string file = study(concat(report_, "loss=1; sleep 100"), 2);
  Launched first({"tune", file});
  ASSERT_TRUE(first.wait_for("trial 0 started"));
  Launched second({"tune", file});
  EXPECT_EQ(second.wait().code, 2);
  EXPECT_THAT(
      second.err(),
      HasSubstr(concat("study \"study\" is being run already: one tuner runs a study (got process ",
                       first.pid(),
                       ")")));
  first.signal(SIGINT);
  EXPECT_EQ(first.wait().code, 130);
  EXPECT_THAT(first.err(), Not(HasSubstr("error")));
}

TEST_F(TuneProgram, AStudyThatHasEndedSaysThatNothingWasRun) {
  const std::string file = study(kReport, 2);
  EXPECT_THAT(say({"tune", file}).err, Not(HasSubstr("nothing was run")));
  const Said again = say({"tune", file});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("best loss"));
  EXPECT_THAT(
      again.err,
      HasSubstr("nothing was run: study study had ended before, with 2 trials; --num-samples"));
  EXPECT_THAT(say({"study", "best", file}).err, HasSubstr("name its storage"));
  const Said asked = say({"study", "ask", storage()});
  EXPECT_EQ(asked.code, 2);
  EXPECT_THAT(asked.err, HasSubstr("name the file that describes the study"));
}

TEST_F(TuneProgram, AutoSaysAtTheStartWhatItPickedAndStaysThatWhenTheStudyGoesOn) {
  const std::string more = "searcher = \"auto\"";
  const std::string file = study(kReport, 2, more);
  const std::string picked = "1 parameter, all numbers; 2 trials, 1 at a time";
  const Said before = say({"tune", file, "--explain"});
  EXPECT_EQ(before.code, 0);
  EXPECT_THAT(before.out, AllOf(HasSubstr("searcher auto: "), HasSubstr(picked)));
  EXPECT_FALSE(std::filesystem::exists(storage()));
  const Said first = say({"tune", file});
  EXPECT_EQ(count(first.err, "auto picked "), 1) << first.err;
  EXPECT_THAT(first.err, HasSubstr(picked));
  const std::string name = first.err.substr(first.err.find("auto picked ") + 12, 2);

  const std::string longer = study(kReport, -1, more);
  const std::string goes_on = concat("auto goes on with ", name);
  EXPECT_THAT(say({"tune", longer, "--explain"}).out, HasSubstr(goes_on));
  EXPECT_THAT(say({"tune", longer, "--num-samples", "9000", "--time-budget", "10ms"}).err,
              HasSubstr(goes_on));
}

}  // namespace
}  // namespace muster::testing_process
