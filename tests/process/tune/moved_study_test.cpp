// A study whose folder was moved or copied, and trials whose checkpoints are not there.
#include <filesystem>
#include <string>
#include <variant>

#include <gmock/gmock.h>

#include "tests/process/tune/shell_study.h"

namespace muster::testing_process {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MovedStudy : public ShellStudy {
 protected:
  /// Two checkpoints, then the study is stopped; a further attempt says in "seen" what it goes on
  /// from, and ends.
  std::string stopped_study() {
    return study(concat("if [ \"$MUSTER_TRIAL_ATTEMPT\" = 1 ]; then for t in 1 2; do\n",
                        "echo state-$t > \"$MUSTER_CHECKPOINT_DIR/$t\"\n",
                        report_,
                        "loss=1 step=$t --checkpoint \"$MUSTER_CHECKPOINT_DIR/$t\" || exit; done\n",
                        program_,
                        "study stop study.db; sleep 100\nfi\n",
                        "echo \"from ${MUSTER_RESUME_FROM:-nothing}\" > seen\n",
                        "[ -z \"$MUSTER_RESUME_FROM\" ] || cat \"$MUSTER_RESUME_FROM\" >> seen\n",
                        report_,
                        "loss=0.5 step=3"),
                 1);
  }
  fs::path checkpoint(const fs::path& folder, int step) const {
    return folder / "study-trials/study/trial-0/checkpoints" / std::to_string(step);
  }
  fs::path copied() const {
    fs::remove_all(copy_.path());
    fs::copy(folder_.path(), copy_.path(), fs::copy_options::recursive);
    return copy_.path();
  }

  const std::string report_ = program_ + "report ";
  test::Folder copy_;
};

TEST_F(MovedStudy, GoesOnFromTheCheckpointsBesideItAndNotFromTheOldPlace) {
  EXPECT_EQ(say({"tune", stopped_study()}).code, 130);
  const fs::path there = copied();
  write_file_atomic(checkpoint(folder_.path(), 2), "of another study\n");
  const Said said = say({"tune", (there / "study.toml").string()});
  EXPECT_EQ(said.code, 0) << said.err;
  const std::string path = checkpoint(there, 2).string();
  EXPECT_EQ(read_file(there / "seen"), concat("from ", path, "\nstate-2\n"));
  EXPECT_THAT(said.err, AllOf(HasSubstr("from " + path), Not(HasSubstr("not there any more"))));
}

TEST_F(MovedStudy, WhoAsksGoesOnFromTheCheckpointsBesideItAndNamesThePlaceOnce) {
  EXPECT_EQ(say({"tune", stopped_study()}).code, 130);
  const fs::path there = copied();
  const std::string moved = (there / "study.toml").string();
  const Said asked = say({"study", "ask", moved});
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(asked.out, HasSubstr(checkpoint(there, 2).string()));
  EXPECT_EQ(say({"study", "tell", moved, "0", "loss=0.5", "--step", "3", "--end"}).code, 0);
  int64_t named = 0;
  for (const tune::Event& event : tune::read_events(there / "study.db", "study")) {
    const auto* note = std::get_if<tune::TunerNote>(&event.what);
    if (note != nullptr && !note->folder.empty()) ++named;
  }
  EXPECT_EQ(named, 2) << "by the tuner, and by the first who asked";
}

// No tuner has ever said where the files are.
TEST_F(MovedStudy, ThatOnlyAskAndTellUsedGoesOnFromTheCheckpointsBesideIt) {
  for (const bool by_tuner : {false, true}) {
    fs::remove(storage());
    const std::string file = study(
        concat("echo \"from ${MUSTER_RESUME_FROM:-nothing}\" > seen\n", report_, "loss=0.5 step=3"),
        1,
        "ask_lease = \"1ms\"");
    EXPECT_EQ(say({"study", "ask", file}).code, 0);
    fs::create_directories(checkpoint(folder_.path(), 1).parent_path());
    write_file_atomic(checkpoint(folder_.path(), 1), "");
    // Its lease is over, but nobody has asked since.
    const std::string saved = checkpoint(folder_.path(), 1).string();
    const Said told =
        say({"study", "tell", file, "0", "loss=1", "--step", "1", "--checkpoint", saved});
    EXPECT_EQ(told.code, 0) << told.err;
    const fs::path there = copied();
    fs::remove(checkpoint(folder_.path(), 1));
    const std::string moved = (there / "study.toml").string();
    const Said next = by_tuner ? say({"tune", moved}) : say({"study", "ask", moved});
    EXPECT_EQ(next.code, 0) << next.err;
    EXPECT_THAT(by_tuner ? read_file(there / "seen") : next.out,
                HasSubstr(checkpoint(there, 1).string()))
        << next.err;
    EXPECT_THAT(next.err, Not(HasSubstr("not there any more")));
  }
}

TEST_F(MovedStudy, WhoAsksFirstNamesThePlaceAndNobodyAgain) {
  const std::string file = study(kReport, 3);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(say({"study", "ask", file}).code, 0);
  EXPECT_EQ(say({"study", "tell", file, "0", "loss=1", "--end"}).code, 0);
  EXPECT_EQ(say({"tune", file}).code, 0);
  std::vector<std::string> named;
  for (const tune::Event& event : tune::read_events(storage(), "study")) {
    const auto* note = std::get_if<tune::TunerNote>(&event.what);
    if (note != nullptr && !note->folder.empty()) named.push_back(note->folder);
  }
  EXPECT_THAT(named, ::testing::ElementsAre((folder_.path() / "study-trials/study").string()));
}

TEST_F(MovedStudy, GoesOnFromAnOlderCheckpointWhereTheNewestIsNotThere) {
  EXPECT_EQ(say({"tune", stopped_study()}).code, 130);
  fs::remove(checkpoint(folder_.path(), 2));
  const Said said = say({"tune", file().string()});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(read_file(folder_.path() / "seen"), HasSubstr("/1\nstate-1\n"));
  EXPECT_THAT(
      said.err,
      HasSubstr(concat(
          "its checkpoint ", checkpoint(folder_.path(), 2).string(), " is not there any more")));
  EXPECT_EQ(replayed().trials()[0].state, tune::TrialState::kComplete);
}

TEST_F(MovedStudy, BeginsAnewWhereNoCheckpointIsThere) {
  EXPECT_EQ(say({"tune", stopped_study()}).code, 130);
  fs::remove_all(checkpoint(folder_.path(), 2).parent_path());
  const Said said = say({"tune", file().string()});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(read_file(folder_.path() / "seen"), "from nothing\n");
  EXPECT_THAT(said.err, HasSubstr("is not there any more: it begins anew"));
  EXPECT_EQ(replayed().trials()[0].state, tune::TrialState::kComplete);
}

TEST_F(MovedStudy, PruneKeepsTheCheckpointOfTheBestTrial) {
  const std::string save = "echo > \"$MUSTER_CHECKPOINT_DIR/1\"\n";
  const std::string tell =
      concat(report_, "loss=$MUSTER_TRIAL_ID --checkpoint \"$MUSTER_CHECKPOINT_DIR/1\"");
  EXPECT_EQ(say({"tune", study(save + tell, 2)}).code, 0);
  const fs::path there = copied();
  EXPECT_EQ(say({"study", "prune", (there / "study.db").string()}).code, 0);
  EXPECT_TRUE(fs::exists(checkpoint(there, 1)));
  EXPECT_FALSE(fs::exists(there / "study-trials/study/trial-1/checkpoints/1"));
}

TEST_F(MovedStudy, ACheckpointThatIsNotThereIsRefusedWhoeverReportsIt) {
  write_file_atomic(folder_.path() / "train.py",
                    "from muster_report import report\n"
                    "try:\n  report(loss=1, checkpoint='/nonexistent/x')\n"
                    "except ValueError as error:\n  print('refused', error)\n"
                    "report(loss=1)\n");
  const std::string python =
      concat("PYTHONPATH='", test::source_path("share/muster"), "' python3 train.py");
  const Said two_way = say({"tune", study(python, 1)});
  EXPECT_EQ(two_way.code, 0) << two_way.err;
  EXPECT_THAT(two_way.err,
              HasSubstr("a report of trial 0: the checkpoint that it names is there (got "
                        "/nonexistent/x)"));
  EXPECT_THAT(read_file(folder_.path() / "study-trials/study/trial-0/stdout.log"),
              HasSubstr("a report of trial 0: the checkpoint that it names is there"));
  EXPECT_EQ(replayed().trials()[0].checkpoint, "");
}

TEST_F(MovedStudy, AOneWayReportCountsWithoutTheCheckpointThatIsNotThere) {
  const Said said =
      say({"tune",
           study("echo '[tune-metric]: {\"loss\":1,\"step\":1,\"checkpoint\":\"/nonexistent/x\"}'",
                 1)});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(said.err,
              HasSubstr("trial 0: the checkpoint that it reported is not there: /nonexistent/x"));
  EXPECT_EQ(replayed().trials()[0].checkpoint, "");
}

}  // namespace
}  // namespace muster::testing_process
