#include "muster/tune/files/sweep_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/space/command_template.h"

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StudySpec sweep(const std::string& text) { return parse_sweep(text, "runs/s.yaml"); }
std::string sweep_refusal(const std::string& text) {
  return test::refusal_of([&] { sweep(text); });
}

constexpr const char* kHead = "program: train.py\nmethod: random\n";

/// The domain of a random sweep's parameter.
std::string domain(const std::string& parameter) {
  const StudySpec spec = sweep(concat(kHead, "parameters:\n  x: {", parameter, "}\n"));
  return spec.space.parameters()[0].domain.text();
}

// The first example of W&B's documentation (Define a sweep configuration), with what it leaves out.
TEST(Sweep, TheDocumentationsExampleIsRead) {
  const StudySpec spec = sweep(R"(
program: train.py
name: sweepdemo
project: first-steps
method: random
metric:
  goal: minimize
  name: validation_loss
parameters:
  learning_rate:
    min: 0.0001
    max: 0.1
  batch_size:
    values: [16, 32, 64]
  epochs:
    values: [5, 10, 15]
  optimizer:
    values: ["adam", "sgd"]
run_cap: 30
early_terminate:
  type: hyperband
  min_iter: 3
)");
  EXPECT_EQ(spec.name, "sweepdemo");
  EXPECT_EQ(spec.storage, "runs/sweepdemo.db");
  EXPECT_EQ(spec.metric, "validation_loss");
  EXPECT_EQ(spec.mode, Mode::kMin);
  EXPECT_EQ(spec.searcher, "random");
  EXPECT_EQ(spec.num_samples, 30);
  EXPECT_EQ(spec.scheduler,
            "asha:max_t=1000000000,grace_period=3,reduction_factor=3,stop_last_trials=false");
  EXPECT_EQ(json_text(spec.space.description()),
            R"json([{"name":"learning_rate","domain":"uniform(1e-04, 0.1)"},)json"
            R"json({"name":"batch_size","domain":"choice(16, 32, 64)"},)json"
            R"json({"name":"epochs","domain":"choice(5, 10, 15)"},)json"
            R"json({"name":"optimizer","domain":"choice('adam', 'sgd')"}])json");
  EXPECT_THAT(expand_command(spec.command, spec.space, spec.space.resolve({0.01, 0, 1, 0})),
              ElementsAre("/usr/bin/env",
                          "python3",
                          "train.py",
                          "--learning_rate=0.01",
                          "--batch_size=16",
                          "--epochs=10",
                          "--optimizer=adam"));
}

TEST(Sweep, DistributionsBecomeDomains) {
  EXPECT_EQ(domain("value: 3"), "3");
  EXPECT_EQ(domain("values: [true, 'yes', yes, 1e-3, 2.0]"),
            "choice(true, 'yes', true, 0.001, 2.0)");
  EXPECT_EQ(domain("min: 1, max: 5"), "randint(1, 6)");
  EXPECT_EQ(domain("min: 1, max: 5.0"), "uniform(1, 5)");
  EXPECT_EQ(domain("distribution: int_uniform, min: 4.0, max: 10.0"), "randint(4, 11)");
  EXPECT_EQ(domain("distribution: q_uniform, min: 0, max: 1, q: 0.1"),
            "sample_from(round(uniform(0, 1) / 0.1) * 0.1)");
  EXPECT_EQ(domain("distribution: log_uniform_values, min: 1.0e-4, max: 0.1"),
            "loguniform(1e-04, 0.1)");
  EXPECT_EQ(domain("distribution: log_uniform, min: 0, max: 1"),
            "loguniform(1, 2.718281828459045)");
  EXPECT_EQ(domain("distribution: inv_log_uniform, min: -1, max: 0"),
            "loguniform(1, 2.718281828459045)");
  EXPECT_EQ(domain("distribution: inv_log_uniform_values, min: 1, max: 9"), "loguniform(1, 9)");
  EXPECT_EQ(domain("distribution: q_log_uniform_values, min: 32, max: 256, q: 8"),
            "sample_from(round(loguniform(32, 256) / 8) * 8)");
  EXPECT_EQ(domain("distribution: q_log_uniform, min: 0, max: 1"),
            "sample_from(round(loguniform(1, 2.718281828459045)))");
  EXPECT_EQ(domain("distribution: normal, mu: 1, sigma: 2"), "randn(1, 2)");
  EXPECT_EQ(domain("distribution: normal"), "randn(0, 1)");
  EXPECT_EQ(domain("distribution: q_normal, q: 2"), "sample_from(round(randn(0, 1) / 2) * 2)");
  EXPECT_EQ(domain("distribution: log_normal"), "sample_from(2.718281828459045 ** randn(0, 1))");
  EXPECT_EQ(domain("values: [1, 2], probabilities: [0.5, 0.5]"), "choice(1, 2)");
  const StudySpec nested = sweep(concat(kHead, "parameters: {o: {parameters: {lr: {value: 1}}}}"));
  EXPECT_EQ(nested.space.parameters()[0].name, "o.lr");
}

TEST(Sweep, MethodBayesIsAGaussianProcess) {
  const StudySpec spec = sweep("program: a\nmethod: bayes\nparameters: {a: {min: 0.0, max: 1.0}}");
  EXPECT_EQ(spec.searcher, "gp");
}

TEST(Sweep, MethodGridTriesAllValues) {
  const StudySpec spec = sweep(R"yaml(
program: a
method: grid
parameters:
  a: {values: [1, 2]}
  b: {min: 0, max: 2}
  c: {distribution: q_uniform, min: 0, max: 1, q: 0.5}
  d: {value: x}
)yaml");
  EXPECT_EQ(
      json_text(spec.space.description()),
      R"json([{"name":"a","domain":"grid_search(1, 2)"},)json"
      R"json({"name":"b","domain":"grid_search(0, 1, 2)"},)json"
      R"json({"name":"c","domain":"grid_search(0.0, 0.5, 1.0)"},{"name":"d","domain":"x"}])json");
  EXPECT_EQ(spec.num_samples, 1);
  const std::string head = "program: a\nmethod: grid\nparameters: ";
  EXPECT_THAT(sweep_refusal(head + "{a: {min: 0.5, max: 2}}"),
              HasSubstr("cannot try all values of uniform"));
  EXPECT_THAT(sweep_refusal(head + "{a: {values: [1, 2, 3]}}\nrun_cap: 2"),
              HasSubstr("a grid of 3"));
  EXPECT_THAT(sweep_refusal(head + "{a: {min: 0, max: 100000}}"), HasSubstr("at most 10000"));
}

TEST(Sweep, EarlyTerminateHasWandbsBrackets) {
  const auto scheduler = [](const std::string& early) {
    return sweep(concat(kHead,
                        "parameters: {a: {value: 1}}\nearly_terminate: {type: hyperband, ",
                        early,
                        "}"))
        .scheduler;
  };
  // 27 / 3 and 27 / 9, as the documentation has it; 27 itself is no bracket.
  EXPECT_EQ(scheduler("max_iter: 27, s: 2"),
            "asha:max_t=26,grace_period=3,reduction_factor=3,stop_last_trials=false");
  EXPECT_EQ(scheduler("min_iter: 2, eta: 2"),
            "asha:max_t=1000000000,grace_period=2,reduction_factor=2,stop_last_trials=false");
  const auto refused = [](const std::string& early) {
    return sweep_refusal(
        concat(kHead, "parameters: {a: {value: 1}}\nearly_terminate: {", early, "}"));
  };
  EXPECT_THAT(refused("type: envelope"), HasSubstr("it is hyperband (got envelope)"));
  EXPECT_THAT(refused("type: hyperband"), HasSubstr("min_iter, or max_iter and s"));
  EXPECT_THAT(refused("type: hyperband, max_iter: 27, s: 4"), HasSubstr("a whole number from 1"));
  EXPECT_THAT(refused("type: hyperband, min_iter: 3, strict: true"),
              HasSubstr("no strict pruning"));
  EXPECT_THAT(refused("type: hyperband, min_iter: 3, eta: 1"), HasSubstr("above 1"));
}

TEST(Sweep, MacrosOfTheCommandBecomePlaceholders) {
  ::setenv("MUSTER_SWEEP_TEST", "v{}", 1);
  const auto words = [](const std::string& command) {
    const StudySpec spec =
        sweep(concat(kHead, "command: ", command, "\nparameters: {a: {value: 1}, b: {value: x}}"));
    return expand_command(spec.command, spec.space, spec.space.resolve({}));
  };
  EXPECT_THAT(words("['${interpreter}', '-m', 'x.${program}', '${args_no_hyphens}', '{b}']"),
              ElementsAre("python3", "-m", "x.train.py", "a=1", "b=x", "{b}"));
  EXPECT_THAT(words("[run, '${args_json}', '--v=${envvar:MUSTER_SWEEP_TEST}', 3]"),
              ElementsAre("run", R"({"a":1,"b":"x"})", "--v=v{}", "3"));
  EXPECT_THAT(words("[run, '${args_no_boolean_flags}']"), ElementsAre("run", "--a=1", "--b=x"));
  const auto refused = [](const std::string& command) {
    return sweep_refusal(
        concat(kHead, "command: ", command, "\nparameters: {a: {values: [true, false]}}"));
  };
  EXPECT_THAT(refused("[x, '${args_no_boolean_flags}']"), HasSubstr("cannot be mapped"));
  EXPECT_THAT(refused("[x, '${args_json_file}']"), HasSubstr("MUSTER_PARAMS_FILE"));
  EXPECT_THAT(refused("[x, '${argz}']"), HasSubstr("did you mean \"args\"?"));
  EXPECT_THAT(refused("[x, '${envvar:MUSTER_NO_SUCH}']"), HasSubstr("has the variable"));
  EXPECT_THAT(refused("[x, '${arg']"), HasSubstr("a macro has an end"));
}

TEST(Sweep, WithoutAMetricIsRefusedByItsFile) {
  const StudySpec spec = sweep(concat(kHead, "parameters: {a: {value: 1}}"));
  EXPECT_THAT(test::refusal_of([&] { check_study(spec); }),
              HasSubstr("runs/s.yaml:1:1: study without a metric: "));
}

TEST(Sweep, WhatCannotBeMappedIsRefusedAtItsPlace) {
  const std::string head = kHead;
  EXPECT_THAT(
      sweep_refusal(head + "parameter: {}"),
      HasSubstr("runs/s.yaml:3:1: unknown key \"parameter\"\nhint: did you mean \"parameters\"?"));
  EXPECT_THAT(sweep_refusal(head), HasSubstr("a sweep has parameters"));
  EXPECT_THAT(sweep_refusal("method: random\nparameters: {a: {value: 1}}"),
              HasSubstr("a program or a command"));
  EXPECT_THAT(sweep_refusal("method: hyperopt"), HasSubstr("random, grid or bayes (got hyperopt)"));
  EXPECT_THAT(sweep_refusal(head + "metric: {name: a, target: 3}"),
              HasSubstr("stop = [\"a <= …\"]"));
  EXPECT_THAT(sweep_refusal(head + "metric: {name: a, goal: min}"),
              HasSubstr("minimize or maximize"));
  const auto of = [&](const std::string& p) {
    return sweep_refusal(head + "parameters:\n  x: {" + p + "}");
  };
  EXPECT_THAT(of("distribution: beta, a: 1"),
              HasSubstr("runs/s.yaml:4:7: key \"parameters.x.distribution\": it has no counterpart "
                        "here (got beta)"));
  EXPECT_THAT(of("distribution: unifrom, min: 0, max: 1"), HasSubstr("did you mean \"uniform\"?"));
  EXPECT_THAT(of("min: 0"), HasSubstr("value, values, or min and max"));
  EXPECT_THAT(of("min: 0.5, max: 0.1"), HasSubstr("the lower bound comes first"));
  EXPECT_THAT(of("min: 0, max: 1, mu: 3"), HasSubstr("unknown key \"parameters.x.mu\""));
  EXPECT_THAT(of("values: [1, 2], probabilities: [0.9, 0.1]"), HasSubstr("as likely"));
  EXPECT_THAT(of("values: []"), HasSubstr("a list with an item"));
  EXPECT_THAT(of("values: [null, [1]]"), HasSubstr("a text, a number, true or false"));
  EXPECT_THAT(of("value: 010"), HasSubstr("a number is written plainly"));
  EXPECT_THAT(of("distribution: q_uniform, min: 0, max: 1, q: 0"), HasSubstr("above 0"));
  EXPECT_THAT(of("value: 1, value: 2"), HasSubstr("it is given once"));
  EXPECT_THAT(sweep_refusal("a: [b"), HasSubstr("runs/s.yaml:1:"));
  EXPECT_THAT(sweep_refusal("- a"), HasSubstr("the sweep: it is a map"));
  EXPECT_THAT(sweep_refusal(""), HasSubstr("it is a map"));
}

}  // namespace
}  // namespace muster::tune
