#include "muster/tune/files/study_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/tune/core/study_core.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::tune {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

StudySpec study(const std::string& text) { return parse_study(text, "runs/a.toml"); }

std::string study_refusal(const std::string& text) {
  return test::refusal_of([&] { study(text); });
}

constexpr const char* kFashion = R"toml(
name = "fashion"            # study; storage defaults to ./fashion.db
metric = "accuracy"
mode = "max"
num_samples = 20
max_concurrent = 2
stop = ["accuracy >= 0.95"]
command = ["./train.sh", "--lr", "{lr}", "--l1", "{l1}", "--batch-size", "{batch_size}"]

[space]
lr = "loguniform(1e-4, 1e-1)"
l1 = "sample_from(2 ** randint(2, 9))"
batch_size = "choice(2, 4, 8, 16)"

[searcher]
type = "random"
seed = 1

[scheduler]
type = "asha"
max_t = 10
grace_period = 1
reduction_factor = 2

[resources_per_trial]
cpu = 1
gpu = 0
)toml";

constexpr const char* kEverything = R"toml(
storage = "/data/all.db"
metric = "loss"
mode = "min"
scope = "best"
num_samples = -1
time_budget = "1h30m"
trial_timeout_s = 90
keep_checkpoints = 2
report_timeout = "10m"
stop_grace = "2s"
kill_grace_s = 0.5
ask_lease = "1h"
stop = "loss <= 0.1"
seed = 7
searcher = "random_then_grid:top=2"
executor = "some:where=here"
constant_grid_search = true
nan_is_failure = true
ray_files = true
tensorboard = true
durable = true
working_folder = "../w"
trial_folder = "trials"
points_to_evaluate = [{lr = 0.5, net = {l1 = 8}}, {lr = 0.25}]

[space]
lr = "uniform(0, 1)"
epochs = 10
flag = true
rate = 0.5
optimizer = "choice('sgd', 'adam')"
momentum = {dist = "uniform(0.8, 0.99)", when = "optimizer == 'sgd'"}
steps = {value = 3, when = "flag"}

[space.net]
l1 = "sample_from(2 ** randint(2, 9))"
name = "mlp"

[scheduler]
type = "some"
list = [1, 2.5]
on = true
text = "abc"

[resources_per_trial]
cpu = 2
gpu = 0.5
memory = "1.5 GiB"
custom = {fpga = 2}
[machine]
custom = {fpga = 2}

[failures]
max_failures = 2
fail_fast = true
give_up_after = 3
backoff = "5s"
[failures.oom]
retries = -1
backoff_factor = 3
from_checkpoint = false

[plateau]
patience = 3
min_delta = 0.01
grace_period = 2

[environment]
OMP_NUM_THREADS = 1
MODE = "fast"
)toml";

TEST(StudyFile, TheClassicExampleIsRead) {
  const StudySpec spec = study(kFashion);
  EXPECT_EQ(spec.name, "fashion");
  EXPECT_EQ(spec.storage, "runs/fashion.db");
  EXPECT_EQ(spec.metric, "accuracy");
  EXPECT_EQ(spec.mode, Mode::kMax);
  EXPECT_EQ(spec.num_samples, 20);
  EXPECT_EQ(spec.max_concurrent, 2);
  EXPECT_THAT(
      spec.stop,
      ElementsAre(StopCriterion{"accuracy", StopCriterion::Comparison::kGreaterEqual, 0.95}));
  EXPECT_EQ(spec.searcher, "random");
  EXPECT_EQ(spec.seed, 1U);
  EXPECT_EQ(spec.scheduler, "asha:max_t=10,grace_period=1,reduction_factor=2");
  EXPECT_EQ(spec.command.size(), 7U);
  EXPECT_THAT(spec.working_folder.string(), StartsWith("runs"));
  const Space expected{{"lr", loguniform(1e-4, 1e-1)},
                       {"l1", sample_from("2 ** randint(2, 9)")},
                       {"batch_size", choice({2, 4, 8, 16})}};
  EXPECT_EQ(spec.space.description(), expected.description());
  const test::Folder folder;
  write_file_atomic(folder.path() / "x.toml", "metric = \"loss\"\nmode = \"min\"\n");
  EXPECT_EQ(read_study_file(folder.path() / "x.toml").storage, folder.path() / "x.db");
}

TEST(StudyFile, EveryKeyIsRead) {
  const StudySpec spec = study(kEverything);
  EXPECT_EQ(spec.name, "a");
  EXPECT_EQ(spec.storage, "/data/all.db");
  EXPECT_EQ(spec.scope, StudySpec::Scope::kBest);
  EXPECT_EQ(spec.num_samples, -1);
  EXPECT_EQ(spec.time_budget_s, 5400);
  EXPECT_EQ(spec.trial_timeout_s, 90);
  EXPECT_EQ(spec.keep_checkpoints, 2);
  EXPECT_EQ(spec.report_timeout_s, 600);
  EXPECT_EQ(spec.stop_grace_s, 2);
  EXPECT_EQ(spec.kill_grace_s, 0.5);
  EXPECT_EQ(spec.ask_lease_s, 3600);
  EXPECT_TRUE(spec.fail_fast);
  EXPECT_EQ(spec.give_up_after, 3);
  EXPECT_EQ(spec.machine_custom.at("fpga"), 2);
  EXPECT_EQ(spec.stop.size(), 1U);
  EXPECT_EQ(spec.seed, 7U);
  EXPECT_EQ(spec.searcher, "random_then_grid:top=2");
  EXPECT_EQ(spec.executor, "some:where=here");
  EXPECT_EQ(spec.scheduler, "some:list=1+2.5,on=true,text=abc");
  EXPECT_TRUE(spec.constant_grid_search && spec.nan_is_failure && spec.ray_files &&
              spec.tensorboard && spec.durable);
  EXPECT_EQ(spec.working_folder, "w");
  EXPECT_EQ(spec.trial_folder, "runs/trials");
  EXPECT_EQ(spec.resources_per_trial,
            (Resources{.cpu = 2, .gpu = 0.5, .memory_bytes = 3ULL << 29, .custom = {{"fpga", 2}}}));
  const FailurePolicy common{.retries = 2, .backoff_s = 5};
  EXPECT_EQ(spec.failures[size_t(Failure::kCrash)], common);
  EXPECT_EQ(spec.failures[size_t(Failure::kLost)], common);
  EXPECT_EQ(spec.failures[size_t(Failure::kOutOfMemory)],
            (FailurePolicy{
                .retries = -1, .backoff_s = 5, .backoff_factor = 3, .from_checkpoint = false}));
  EXPECT_EQ(spec.plateau, (Plateau{.patience = 3, .min_delta = 0.01, .grace_period = 2}));
  EXPECT_THAT(spec.environment, ElementsAre(Pair("MODE", "fast"), Pair("OMP_NUM_THREADS", "1")));
  EXPECT_THAT(
      spec.points_to_evaluate,
      ElementsAre(ElementsAre(Pair("lr", 0.5), Pair("net.l1", 8)), ElementsAre(Pair("lr", 0.25))));
  EXPECT_EQ(spec.space.parameters()[5].when, "optimizer == 'sgd'");
  EXPECT_EQ(spec.space.parameters()[7].name, "net.l1");
  EXPECT_EQ(spec.space.parameters()[3].domain.constant(), Value(0.5));
}

TEST(StudyFile, FaultsNameFileLineAndColumn) {
  EXPECT_THAT(study_refusal("metrc = \"a\""),
              HasSubstr("runs/a.toml:1:1: unknown key \"metrc\"\nhint: did you mean \"metric\"?"));
  EXPECT_THAT(study_refusal("a = = 1"), HasSubstr("runs/a.toml:1:5: not valid TOML"));
  EXPECT_THAT(study_refusal("\nmetric = 3"),
              HasSubstr("runs/a.toml:2:1: key \"metric\": it is a text"));
  EXPECT_THAT(study_refusal("metric = \"a\""),
              AllOf(StartsWith("runs/a.toml:1:1: "), HasSubstr("mode = \"min\" or \"max\"")));
  EXPECT_THAT(study_refusal("mode = \"mx\""),
              HasSubstr(":1:1: key \"mode\": \"min\" or \"max\" is needed"));
  EXPECT_THAT(study_refusal("scope = \"first\""), HasSubstr("it is last or best (got first)"));
  EXPECT_THAT(study_refusal("name = \"a/b\""), HasSubstr("no slash"));
  EXPECT_THAT(study_refusal("num_samples = 0"), HasSubstr("at least 1, or -1"));
  EXPECT_THAT(study_refusal("num_samples = 2.5"), HasSubstr("it is a whole number"));
  EXPECT_THAT(study_refusal("max_concurrent = -1"), HasSubstr("at least 0 (got -1)"));
  EXPECT_THAT(study_refusal("time_budget = \"90\""), HasSubstr("a duration in quotes"));
  EXPECT_THAT(study_refusal("time_budget = \"1m\"\ntime_budget_s = 3"), HasSubstr("are the same"));
  EXPECT_THAT(study_refusal("time_budget_s = -3"), HasSubstr("at least 0"));
  EXPECT_THAT(study_refusal("durable = 1"), HasSubstr("true or false"));
  EXPECT_THAT(study_refusal("stop = [\"loss: 1\"]"), StartsWith("runs/a.toml:1:1: stop"));
  EXPECT_THAT(study_refusal("stop = [1]"), HasSubstr("a list of texts"));
  EXPECT_THAT(study_refusal("[space]\nlr = \"unifrm(0, 1)\""),
              HasSubstr("runs/a.toml:2:1: parameter \"lr\": unknown function \"unifrm\""));
  EXPECT_THAT(study_refusal("[space]\nx = 1\nlr = {dist = \"uniform(0, 1)\", when = \"y == 1\"}"),
              HasSubstr("runs/a.toml:3:1: parameter \"lr\": its condition names \"y\""));
  EXPECT_THAT(
      study_refusal("[space]\nm = {domain = \"uniform(0, 1)\", when = \"opt == 'sdg'\"}"),
      HasSubstr("runs/a.toml:2:1: key \"space.m\": a parameter with `when` says its domain by"));
  EXPECT_THAT(study_refusal("[space]\nlr = {dist = \"a\", wehn = \"1\"}"),
              HasSubstr("unknown key \"space.lr.wehn\"\nhint: did you mean \"when\"?"));
  EXPECT_THAT(study_refusal("[space]\nlr = [1, 2]"),
              HasSubstr("\"choice(2, 4, 8)\" draws one of them"));
  EXPECT_THAT(study_refusal("[space]\nlr = 2020-01-01"), HasSubstr("a text, a finite number"));
  EXPECT_THAT(study_refusal("[space]\nlr = inf"), HasSubstr("a finite number"));
  EXPECT_THAT(study_refusal("[space.a]\nb = {}\n\"c d\" = 1"),
              HasSubstr(":3:1: parameter \"a.c d\""));
  EXPECT_THAT(
      study_refusal("points_to_evaluate = [{lr = 2}]\n[space]\nlr = \"uniform(0, 1)\""),
      HasSubstr(":1:1: key \"points_to_evaluate\": parameter \"lr\": the value is none of"));
  EXPECT_THAT(study_refusal("[failures]\nom = {}"), HasSubstr("did you mean \"oom\"?"));
  EXPECT_THAT(study_refusal("[failures.oom]\nretry = 1"),
              HasSubstr("unknown key \"failures.oom.retry\""));
  EXPECT_THAT(study_refusal("[resources_per_trial]\ngpus = 1"), HasSubstr("did you mean \"gpu\"?"));
  EXPECT_THAT(study_refusal("[resources_per_trial]\nmemory = \"much\""),
              HasSubstr("an amount like"));
  EXPECT_THAT(study_refusal("scheduler = 3"), HasSubstr("it is a table"));
  EXPECT_THAT(study_refusal("[scheduler]\nmax_t = 3"), HasSubstr("says which scheduler it is"));
  EXPECT_THAT(study_refusal("[scheduler]\ntype = \"a\"\nx = \"1,y=2\""),
              HasSubstr("no comma in it"));
  EXPECT_THAT(study_refusal("seed = 1\n[searcher]\nseed = 1"), HasSubstr("the seed is given once"));
}

TEST(StudyFile, AnUnknownKeyIsNamedBeforeWhatFollowsFromIt) {
  EXPECT_THAT(study_refusal("metric = \"loss\"\nmode = \"min\"\ncommand = [\"true\", \"{x}\"]\n"
                            "[spce]\nx = \"uniform(0, 1)\""),
              AllOf(HasSubstr("a.toml:4:2: unknown key \"spce\""), HasSubstr("\"space\"")));
  EXPECT_THAT(study_refusal("metric = \"loss\"\nmod = \"min\"\n"),
              AllOf(HasSubstr("a.toml:2:1: unknown key \"mod\""), HasSubstr("\"mode\"")));
}

TEST(StudyFile, APlateauWithoutPatienceIsRefused) {
  StudySpec spec = study(
      "metric = \"loss\"\nmode = \"min\"\nplateau = {min_delta = 10}\n"
      "[space]\nx = \"uniform(0, 1)\"");
  EXPECT_THAT(test::refusal_of([&] { check_study(spec); }),
              AllOf(HasSubstr("a.toml:3:1: plateau: patience says after how many reports"),
                    HasSubstr("min_delta=10")));
}

TEST(StudyFile, ACommandIsCheckedAgainstTheSpace) {
  EXPECT_THAT(study_refusal("command = [\"./a\", \"{lrr}\"]\n[space]\nlr = 1"),
              HasSubstr("runs/a.toml:1:1: key \"command\": the command of the study: {lrr} is no "
                        "parameter of the space (got \"{lrr}\")\nhint: did you mean \"lr\"?"));
  EXPECT_THAT(study_refusal("command = \"./a --lr {lr}\""), HasSubstr("it is a list of words"));
  EXPECT_THAT(study_refusal("command = []"), HasSubstr("its first word is a program"));
  EXPECT_THAT(study("").command, IsEmpty());
}

TEST(StudyFile, ParametersOfFlagsJoinThoseOfTheFile) {
  const std::vector<Parameter> more = {parse_param_flag("lr=0.5"), parse_param_flag("x=choice(1)")};
  const StudySpec spec =
      parse_study("command = [\"a\", \"{x}\"]\n[space]\nlr = 1\nb = 2", "runs/a.toml", more);
  EXPECT_EQ(json_text(spec.space.description()),
            R"json([{"name":"lr","domain":0.5},{"name":"b","domain":2},)json"
            R"json({"name":"x","domain":"choice(1)"}])json");
}

TEST(ParamFlag, IsADomainOrAConstant) {
  EXPECT_EQ(parse_param_flag("lr=loguniform(1e-4,1e-1)").domain.text(), "loguniform(1e-04, 0.1)");
  EXPECT_EQ(parse_param_flag("epochs = 10").domain.constant(), Value(10));
  EXPECT_EQ(parse_param_flag("rate=1e-3").domain.constant(), Value(1e-3));
  EXPECT_EQ(parse_param_flag("flag=true").domain.constant(), Value(true));
  EXPECT_EQ(parse_param_flag("name=mlp:hidden=8").domain.constant(), Value("mlp:hidden=8"));
  EXPECT_EQ(parse_param_flag("name='10'").domain.constant(), Value("10"));
  const Parameter conditional = parse_param_flag("m=uniform(0,1) when optimizer == 'a when b'");
  EXPECT_EQ(conditional.domain.text(), "uniform(0, 1)");
  EXPECT_EQ(conditional.when, "optimizer == 'a when b'");
  EXPECT_EQ(parse_param_flag("x=choice(' when ', 'b')").when, "");
  EXPECT_THAT(test::refusal_of([] { parse_param_flag("lr"); }),
              HasSubstr("--param lr: NAME=DOMAIN"));
  EXPECT_THAT(test::refusal_of([] { parse_param_flag("lr=unifrm(1,2)"); }),
              HasSubstr("--param lr: unknown function"));
}

/// What the core says of a study, which knows no files.
std::string core_refusal(const std::string& text) {
  return test::refusal_of([&] {
    const StudySpec spec = study(text);
    check_study(spec);
    const StudyCore core(spec);
  });
}

TEST(StudyFile, WhatTheCoreRefusesNamesThePlace) {
  const std::string head = "metric = \"loss\"\nmode = \"min\"\n";
  const std::string space = "[space]\nlr = \"uniform(0, 1)\"\n";
  EXPECT_THAT(core_refusal(head + "searcher = \"randon\"\n" + space),
              AllOf(StartsWith("runs/a.toml:3:1: "), HasSubstr("did you mean \"random\"?")));
  EXPECT_THAT(core_refusal(head + "\n[scheduler]\ntype = \"asha\"\nmax_t = 0\n" + space),
              StartsWith("runs/a.toml:4:2: scheduler asha"));
  EXPECT_THAT(core_refusal(head + "searcher = \"grid\"\nconstant_grid_search = true\n" + space),
              StartsWith("runs/a.toml:"));
  EXPECT_EQ(core_refusal(head + "searcher = \"grid\"\n" + space),
            "runs/a.toml:5:1: a grid over parameter \"lr\": it has at most 1000000 values (got "
            "uniform(0, 1))\nhint: give a step (quniform, qloguniform, qrandint), name the values "
            "(choice, grid_search), or search with random_then_grid");
  EXPECT_THAT(core_refusal(space), StartsWith("runs/a.toml:1:1: study without a metric: "));
  EXPECT_THAT(core_refusal(head + "ask_lease_s = 0\n" + space),
              StartsWith("runs/a.toml:3:1: ask_lease: "));
  EXPECT_THAT(core_refusal(head + "num_samples = 9223372036854775807\n[space]\nl = "
                                  "\"grid_search(1, 2)\"\n"),
              StartsWith("runs/a.toml:3:1: num_samples"));
}

TEST(StudyFile, NamesSeveralObjectivesAndConstraints) {
  const StudySpec spec = study(
      "objectives = [\"max accuracy\", \"min step_s\"]\n"
      "constraints = [\"peak_mib <= 900\", \"accuracy >= 0.5\"]\n");
  EXPECT_EQ(spec.metric, "accuracy");
  EXPECT_EQ(spec.mode, Mode::kMax);
  EXPECT_THAT(spec.goals.objectives,
              ElementsAre(Objective{"accuracy", Mode::kMax}, Objective{"step_s", Mode::kMin}));
  EXPECT_THAT(spec.goals.constraints,
              ElementsAre(Constraint{"peak_mib", true, 900}, Constraint{"accuracy", false, 0.5}));
  const StudySpec one = study("objectives = [\"min loss\"]\n");
  EXPECT_EQ(one.metric, "loss");
  EXPECT_EQ(one.mode, Mode::kMin);
  EXPECT_THAT(one.goals.objectives, IsEmpty()) << "a study of one metric";
  EXPECT_THAT(study_refusal("metric = \"loss\"\nmode = \"min\"\nobjectives = [\"min loss\"]\n"),
              AllOf(StartsWith("runs/a.toml:3:1"), HasSubstr("objectives, or metric and mode")));
  EXPECT_THAT(study_refusal("objectives = []\n"), HasSubstr("one at least"));
  EXPECT_THAT(study_refusal("objectives = [\"accuracy\"]\n"), StartsWith("runs/a.toml:1:1"));
  EXPECT_THAT(study_refusal("constraints = [\"peak_mib < 900\"]\n"), HasSubstr("<= or >="));
}

}  // namespace
}  // namespace muster::tune
