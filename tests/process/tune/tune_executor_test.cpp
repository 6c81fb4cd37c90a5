// The local executor with real programs: what they get, and every way to report; floods, garbage.
#include <sstream>

#include "tests/process/tune/local_trials.h"

namespace muster::tune {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST_F(LocalTrials, AProgramThatDoesNothingEndsWell) {
  script("exit 0");
  run();
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_THAT(reports(), IsEmpty());
  EXPECT_THAT(notes(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder_of(0) / "stdout.log")) << "it wrote nothing";
}

TEST_F(LocalTrials, ParametersComeByCommandEnvironmentAndFile) {
  spec_.space = Space({{"lr", Domain(0.01)}, {"optimizer.name", Domain("sgd")}});
  spec_.command = {"/bin/sh",
                   "-c",
                   "echo $0 $1 $MUSTER_TRIAL_ID $MUSTER_TRIAL_ATTEMPT $MUSTER_STUDY "
                   "$CUDA_VISIBLE_DEVICES $OMP_NUM_THREADS; cat $MUSTER_PARAMS_FILE; test -d "
                   "$MUSTER_CHECKPOINT_DIR && echo $MUSTER_RESUME_FROM; pwd",
                   "lr={lr}",
                   "{optimizer.name}"};
  // It is set for a trial unless it is set already, as it may be for these tests.
  const char* threads = std::getenv("OMP_NUM_THREADS");
  const std::string before = threads == nullptr ? "" : threads;
  ::unsetenv("OMP_NUM_THREADS");
  start(7,
        {.attempt = 2,
         .resources = {.cpu = 3},
         .device_ids = {"GPU-a", "GPU-b"},
         .resume_from = "/some/where"});
  drive();
  if (!before.empty()) ::setenv("OMP_NUM_THREADS", before.c_str(), 1);
  EXPECT_EQ(slurp(folder_of(7) / "stdout.log"),
            concat("lr=0.01 sgd 7 2 try GPU-a,GPU-b 3\n"
                   "{\"lr\":0.01,\"optimizer\":{\"name\":\"sgd\"}}\n/some/where\n",
                   folder_.path().string(),
                   "\n"));
}

TEST_F(LocalTrials, VariablesOfAnOuterStudyDoNotReachTheTrial) {
  ::setenv("MUSTER_RESUME_FROM", "/outer", 1);
  script("echo [$MUSTER_RESUME_FROM]");
  run();
  ::unsetenv("MUSTER_RESUME_FROM");
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), "[]\n");
}

TEST_F(LocalTrials, AnAttemptFindsWhatItsTrialHasLeftAndNothingOfAnotherStudy) {
  const auto folder = folder_of(0);
  script("ls \"$MUSTER_CHECKPOINT_DIR\"; echo > \"$MUSTER_CHECKPOINT_DIR/weights\"");
  run();
  const auto found = [&](AttemptPlan plan) {
    std::filesystem::remove(folder / "stdout.log");
    start(0, std::move(plan));
    drive();
    return slurp(folder / "stdout.log");
  };
  EXPECT_EQ(found({.attempt = 2}), "weights\n");
  std::ofstream(folder / ".study") << "try of another time\n";
  EXPECT_EQ(found({.attempt = 3}), "");
  EXPECT_TRUE(std::filesystem::exists(folder.string() + ".old-1/checkpoints/weights"));
  std::ofstream(folder / ".study") << "try of another time\n";
  EXPECT_EQ(found({.attempt = 4, .resume_from = folder / "checkpoints" / "weights"}), "weights\n")
      << "the study's log names a checkpoint in it";
  std::filesystem::remove(folder / ".study");  // as an older version left it
  EXPECT_EQ(found({.attempt = 5}), "weights\n");
}

// ---- Ways to report. ----

// Or it would overwrite, coming to a step for the second time, what others go on from.
TEST_F(LocalTrials, WhoGoesOnFromAnothersCheckpointSavesBesideItsOwn) {
  script("echo \"$MUSTER_CHECKPOINT_DIR\"; ls \"$MUSTER_CHECKPOINT_DIR\"");
  const auto folder = folder_of(0) / "checkpoints";
  start(0, {.attempt = 2, .copies = 1, .resume_from = folder_of(1) / "checkpoints" / "3"});
  drive();
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), (folder / "copy-1").string() + "\n");
}

TEST_F(LocalTrials, WhatAKilledTunerWasWritingIsRemoved) {
  script("true");
  std::filesystem::create_directories(folder_of(0));
  const auto half = folder_of(0) / ".unfinished-params.json-a1b2c3";
  std::ofstream(half) << "{";
  start(0, {.attempt = 2});
  drive();
  EXPECT_FALSE(std::filesystem::exists(half));
}

TEST_F(LocalTrials, TaggedLinesOnStdoutAreReports) {
  script(
      R"(echo hello; echo '[tune-metric]: {"loss": 0.5, "step": 1}'; echo '[0] [tune-metric]: {"loss": NaN}'; printf '[tune-metric]: {"loss": -Infinity}')");
  run();
  EXPECT_THAT(
      reports(),
      ElementsAre("1 {\"loss\":0.5,\"step\":1}", "2 {\"loss\":\"nan\"}", "3 {\"loss\":\"-inf\"}"));
  EXPECT_EQ(end().failure, Failure::kNone);
  EXPECT_THAT(slurp(folder_of(0) / "stdout.log"), StartsWith("hello\n[tune-metric]: "));
}

TEST_F(LocalTrials, LinesInTheReportFileAreReports) {
  script(
      R"(mkdir ckpt; echo > ckpt/1; echo '{"loss": 0.5, "step": 1, "checkpoint": "ckpt/1"}' >> $MUSTER_REPORT_FILE; echo '{"loss": 0.25}' > "$MUSTER_REPORT_FILE")");
  run();
  EXPECT_THAT(reports(),
              ElementsAre(concat("1 {\"loss\":0.5,\"step\":1,\"checkpoint\":\"",
                                 (folder_.path() / "ckpt/1").string(),
                                 "\"}"),
                          "2 {\"loss\":0.25}"));
}

TEST_F(LocalTrials, MusterReportHearsTheAnswer) {
  script(
      "touch c; muster report step=1 loss=0.5 --checkpoint c; echo $?; muster report step=2 "
      "loss=0.4; "
      "echo $?; muster report loss=oops; echo $?; muster report step=3 loss=1 --checkpoint no/c; "
      "echo $?");
  run([](const ExecutorEvent& event) {
    return event.report.step == 2 ? Decision{.action = Action::kPause} : Decision{};
  });
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), "continue\n0\npause\n4\n2\n2\n");
  EXPECT_THAT(slurp(folder_of(0) / "stderr.log"),
              HasSubstr("--checkpoint: nothing is there (got no/c)"));
  EXPECT_THAT(reports(), SizeIs(2));
}

TEST_F(LocalTrials, ARefusedReportIsAnErrorForTheProgramAndTheTrialGoesOn) {
  script("muster report step=1 los=0.5; echo $?");
  start(0);
  const auto events = executor().wait(20);
  ASSERT_THAT(events, SizeIs(1));
  executor().reject(events[0].token, "metric loss is missing\nhint: did you mean \"los\"?");
  drive();
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), "2\n");
  EXPECT_THAT(slurp(folder_of(0) / "stderr.log"), HasSubstr("did you mean \"los\"?"));
}

TEST_F(LocalTrials, APythonProgramReportsAndStopsWhenTold) {
  spec_.space = Space({{"lr", Domain(0.5)}});
  python(R"(
from muster_report import report, params, resume_from, checkpoint_dir, reason
import os
print(params(), resume_from(), os.path.basename(checkpoint_dir()))
for step in range(1, 100):
    if report(loss=params()["lr"] / step, nan=float("nan"), step=step, checkpoint="c") != "continue":
        break
print(step, reason())
)");
  run([](const ExecutorEvent& event) {
    return event.report.step == 3 ? stop_at_once(event) : Decision{};
  });
  EXPECT_EQ(end().failure, Failure::kNone) << end().message;
  EXPECT_THAT(reports(), SizeIs(3));
  EXPECT_THAT(reports().front(), HasSubstr(R"("loss":0.5,"nan":"nan","step":1)"));
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"),
            "{'lr': 0.5} None checkpoints\n3 stopped at rung 1: 0.5 < cutoff 0.7 (n=3)\n");
}

TEST_F(LocalTrials, APythonProgramHearsWhyItsReportIsRefused) {
  python(
      "from muster_report import report\ntry: report(loss='x')\nexcept ValueError as error: "
      "print(error)\n"
      "try: report({'step': 1}, step=1)\nexcept ValueError as error: print(error)\nreport(loss=1)");
  run();
  EXPECT_THAT(reports(), ElementsAre("1 {\"loss\":1.0}"));
  EXPECT_THAT(
      slurp(folder_of(0) / "stdout.log"),
      AllOf(HasSubstr("metric 'loss' is no number: 'x'"), HasSubstr("no metric may be named")));
}

// ---- Floods and garbage. ----

TEST_F(LocalTrials, AFloodOfReportsIsHeldBackAndNothingIsLost) {
  script(
      R"(i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo "[tune-metric]: {\"loss\": 1, \"step\": $i}"; done)");
  int64_t unanswered = 0, most = 0, next = 0;
  start(0);
  while (open_ > 0) {
    const auto events = executor().wait(20);
    ASSERT_FALSE(events.empty());
    unanswered = static_cast<int64_t>(events.size());
    most = std::max(most, unanswered);
    for (const ExecutorEvent& event : events) {
      if (event.kind == ExecutorEvent::kReport) {
        EXPECT_EQ(event.report.step, ++next);
        executor().answer(event.token, {});
      }
      if (event.kind == ExecutorEvent::kEnded) --open_;
    }
  }
  EXPECT_EQ(next, 20000);
  EXPECT_LE(most, 2048);
}

TEST_F(LocalTrials, AFloodThatIsNotAnsweredIsNotReadEither) {
  script(R"(while :; do echo '{"loss": 1}'; done > $MUSTER_REPORT_FILE)");
  start(0);
  size_t reports = 0;
  for (;;) {
    const auto events = executor().wait(reports < 64 ? 20 : 0.1);
    if (events.empty()) break;
    reports += events.size();
  }
  // 64 KiB are read at once, a line has 12 bytes; the pipe holds the rest back.
  EXPECT_GE(reports, 64U);
  EXPECT_LE(reports, 64U + (64U << 10) / 12);
  executor().stop(0, "", true);
  drive();
}

TEST_F(LocalTrials, ManyReportsInFlightOnOneConnectionAreAllAnswered) {
  python(R"(
import json, os, socket
link = socket.socket(socket.AF_UNIX)
link.connect(os.environ["MUSTER_TUNER_ADDR"][5:])
def line(**message): return json.dumps(message).encode() + b"\n"
link.sendall(line(type="hello", token=os.environ["MUSTER_TUNER_TOKEN"], trial=0, attempt=1, client="c"))
link.sendall(b"".join(line(type="report", sequence=i, metrics={"loss": i}) for i in range(1, 3001)))
link.shutdown(socket.SHUT_WR)
answers = link.makefile().read().splitlines()
assert [json.loads(answer)["sequence"] for answer in answers] == list(range(1, 3001)), answers[:3]
)");
  run();
  EXPECT_EQ(end().failure, Failure::kNone) << end().message;
  EXPECT_THAT(reports(), SizeIs(3000));
}

TEST_F(LocalTrials, ARepeatedReportIsAnsweredAgainAndCountedOnce) {
  python(R"(
import json, os, socket
def exchange(client, *sequences):
    link = socket.socket(socket.AF_UNIX)
    link.connect(os.environ["MUSTER_TUNER_ADDR"][5:])
    lines = [dict(type="hello", token=os.environ["MUSTER_TUNER_TOKEN"], trial=0, attempt=1, client=client)]
    lines += [dict(type="report", sequence=i, metrics={"loss": i}) for i in sequences]
    link.sendall("".join(json.dumps(line) + "\n" for line in lines).encode())
    link.shutdown(socket.SHUT_WR)
    return [json.loads(line).get("reason") for line in link.makefile()]
print(exchange("a", 1, 2), exchange("a", 2, 3), exchange("b", 1))
)");
  int count = 0;
  run([&](const ExecutorEvent&) { return Decision{.reason = std::to_string(++count)}; });
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), "['1', '2'] ['2', '3'] ['4']\n");
  EXPECT_THAT(reports(), SizeIs(4));
}

TEST_F(LocalTrials, OfATunerThatIsARankOfAJobAreNoRanks) {
  ::setenv("RANK", "1", 1);
  ::setenv("WORLD_SIZE", "2", 1);
  ::setenv("MASTER_ADDR", "somewhere", 1);
  ::setenv("MUSTER_JOB_KEY", "00112233445566778899aabbccddeeff", 1);
  spec_.environment["MASTER_ADDR"] = "the study says so";
  script("echo \"${RANK-no} ${WORLD_SIZE-no} ${MUSTER_JOB_KEY-no} $MASTER_ADDR\"");
  run();
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MUSTER_JOB_KEY"}) ::unsetenv(name);
  EXPECT_EQ(slurp(folder_of(0) / "stdout.log"), "no no no the study says so\n");
}

TEST_F(LocalTrials, GarbageIsAnsweredByAnErrorAndToldOnce) {
  python(R"(
import os, socket, sys
for text in [b"\0\xff\n", b"{}\n", b"x" * 200000 + b"\n", b'{"type":"report","sequence":1,"metrics":{"loss":1}}\n']:
    link = socket.socket(socket.AF_UNIX)
    link.connect(os.environ["MUSTER_TUNER_ADDR"][5:])
    try: link.sendall(text)
    except OSError: pass
    try: print(link.makefile().readline()[:30])
    except OSError: print("hung up")
sys.stdout.buffer.write(b"\0\xfe[tune-metric]: {oops\n")
sys.stdout.buffer.write(b'[tune-metric]: {"loss": 1, "x' + b"x" * 100000 + b'": 1}\n')
open(os.environ["MUSTER_REPORT_FILE"], "wb").write(b"x" * 100000 + b"\n[]\n")
print("[tune-failure]: what")
)");
  run();
  EXPECT_EQ(end().failure, Failure::kNone) << end().message;
  EXPECT_THAT(reports(), IsEmpty());
  EXPECT_THAT(notes(), ::testing::Contains(HasSubstr("a line on stdout is no report")));
  for (const char* where : {"in the report file", "on stdout"})
    EXPECT_THAT(notes(),
                ::testing::Contains(
                    HasSubstr(concat("a line ", where, " is no report: this line is too long"))));
  EXPECT_THAT(slurp(folder_of(0) / "stdout.log"), StartsWith("{\"type\":\"error\",\"sequence\":0"));
}

TEST_F(LocalTrials, ReportsAfterTheEndAreTurnedAwayWithOneLine) {
  // The token outlives the trial outside of it.
  script("echo $MUSTER_TUNER_ADDR $MUSTER_TUNER_TOKEN");
  run();
  std::istringstream words(slurp(folder_of(0) / "stdout.log"));
  std::string address, old_token;
  words >> address >> old_token;
  script(concat(
      "MUSTER_TRIAL_ID=0 MUSTER_TUNER_TOKEN=",
      old_token,
      " muster report loss=1; echo $?; MUSTER_TUNER_TOKEN=wrong muster report loss=1; echo $?"));
  start(1);
  drive();
  EXPECT_EQ(slurp(folder_of(1) / "stdout.log"), "2\n2\n");
  EXPECT_THAT(slurp(folder_of(1) / "stderr.log"), HasSubstr("attempt 1 of trial 0 is over"));
  EXPECT_THAT(notes(),
              ElementsAre("trial 0: reports after its end: not counted",
                          HasSubstr("has a token of no trial")));
}

}  // namespace
}  // namespace muster::tune
