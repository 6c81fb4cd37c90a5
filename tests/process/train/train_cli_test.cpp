// `muster train` as a user runs it: real processes, alone and under `muster run`. Small made-up
// data unless real files matter.
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing_process::Launched;
using testing_process::LaunchOptions;

const char* const kSmall = "synthetic:samples=220,test_samples=60,size=8,classes=4";

/// "train …" with small data; more flags may follow.
test::Words train_small(const test::Words& more) { return test::train_words(kSmall, "16", more); }

/// The error that a command ends with, and its exit code.
struct Refusal {
  int code;
  std::string text;
};

Refusal refusal(const std::vector<std::string>& words, const LaunchOptions& options = {}) {
  Launched program(words, options);
  const auto ended = program.wait(std::chrono::seconds(60));
  EXPECT_TRUE(program.nothing_left());
  EXPECT_EQ(program.out(), "") << "errors belong on stderr";
  return {ended.code, program.err()};
}

fs::path fashion_mnist() { return "/usr/share/datasets/fashion-mnist"; }

TEST(TrainCommand, EndsWithTheTestAccuracyAlone) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  Launched program(train_small({"--output", output}));
  EXPECT_EQ(program.wait(std::chrono::seconds(60)).code, 0) << program.err();
  EXPECT_THAT(program.out(), MatchesRegex("test accuracy (0\\.[0-9]{4}|1\\.0000)\n"));
  for (const char* name : {"config.json", "metrics.csv", "metrics.jsonl", "latest", "checkpoints"})
    EXPECT_TRUE(fs::exists(output / name)) << name;
}

TEST(TrainCommand, TrainsOnTwoRanksAndLeavesNothingBehind) {
  const test::Folder folder;
  Launched program(test::on_ranks(2, train_small({"--output", folder.path() / "out", "--json"})));
  EXPECT_EQ(program.wait(std::chrono::seconds(60)).code, 0) << program.err();
  EXPECT_THAT(program.out(), HasSubstr("\"test_accuracy\":"));
  EXPECT_THAT(program.err(), HasSubstr("ddp on 2 ranks"));
  EXPECT_TRUE(program.nothing_left());
}

TEST(TrainCommand, CtrlCSavesTheStateAndResumeGoesOn) {
  const test::Folder folder;
  const std::string output = folder.path() / "out";
  Launched program(test::on_ranks(
      2,
      train_small(
          {"--output", output, "--epochs", "100000", "--log-every", "1", "--strategy", "zero1"})));
  ASSERT_TRUE(program.wait_for("epoch 2/")) << program.err();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(std::chrono::seconds(60)).code, 130) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("interrupted after step"));
  EXPECT_THAT(
      program.err(),
      HasSubstr(concat("go on with `muster run --nproc-per-node 2 -- muster train --resume ",
                       output,
                       " --strategy zero1`")));
  EXPECT_TRUE(program.nothing_left());

  Launched resumed({"train", "--resume", output, "--max-steps", test::latest_step(output)});
  EXPECT_EQ(resumed.wait(std::chrono::seconds(60)).code, 0) << resumed.err();
  EXPECT_THAT(resumed.err(), HasSubstr("resuming after step"));
}

TEST(TrainCommand, AKilledRankEndsTheJobAndTheCheckpointIsIntact) {
  const test::Folder folder;
  const std::string output = folder.path() / "out";
  Launched program(test::on_ranks(
      2, train_small({"--output", output, "--epochs", "100000", "--checkpoint-every", "3"})));
  ASSERT_TRUE(program.wait_for("epoch 2/")) << program.err();
  ::kill(program.ranks().at(1), SIGKILL);
  EXPECT_EQ(program.wait(std::chrono::seconds(60)).code, 1) << program.err();
  EXPECT_THAT(program.err(), ::testing::ContainsRegex("rank [01].*SIGKILL"));
  EXPECT_TRUE(program.nothing_left());
  Launched resumed({"train", "--resume", output, "--max-steps", test::latest_step(output)});
  EXPECT_EQ(resumed.wait(std::chrono::seconds(60)).code, 0) << resumed.err();
}

TEST(TrainCommand, DoesNotOverwriteAnEarlierRun) {
  const test::Folder folder;
  const std::string output = folder.path() / "out";
  Launched first(train_small({"--output", output, "--epochs", "1"}));
  ASSERT_EQ(first.wait(std::chrono::seconds(60)).code, 0);
  const Refusal second = refusal(train_small({"--output", output}));
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.text, HasSubstr("does not overwrite"));
  EXPECT_THAT(second.text, HasSubstr("--resume " + output));
}

TEST(TrainCommand, ADamagedCheckpointIsRefusedAndTheOneBeforeOffered) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  Launched first(train_small({"--output", output, "--epochs", "2"}));
  ASSERT_EQ(first.wait(std::chrono::seconds(60)).code, 0);
  std::string newest(trim(read_file(output / "latest")));
  fs::resize_file(output / "checkpoints" / newest / "model.safetensors", 100);
  const Refusal refused = refusal({"train", "--resume", output});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr("model.safetensors has"));
  EXPECT_THAT(refused.text, HasSubstr("the checkpoint before it is whole: --resume"));
}

// Bad input: what was refused, the rule, the value, a hint; exit code 2 for wrong use, 1 for the
// machine around us.

TEST(TrainRefuses, UnknownModel) {
  const Refusal refused = refusal({"train", "--model", "lenett", "--data", kSmall});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr("unknown model \"lenett\""));
  EXPECT_THAT(refused.text, HasSubstr("hint: did you mean \"lenet\"?"));
}

TEST(TrainRefuses, ImpossiblePairOfModelAndData) {
  const Refusal refused =
      refusal({"train", "--model", "resnet18", "--data", concat(kSmall, ",channels=2")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr("model resnet18 cannot take"));
  EXPECT_THAT(refused.text, HasSubstr("(got 2"));
}

TEST(TrainCommand, AConfigFileEqualsTheFlags) {
  const test::Folder folder;
  const fs::path config = folder.path() / "run.toml";
  std::ofstream(config) << "data = \"" << kSmall << "\"\n"
                        << "epochs = 3\nbatch_size = 32\ngradient-clip-val = 0.5\n"
                        << "[model]\nname = \"mlp\"\nhidden = 16\n"
                        << "[lr-schedule]\nname = \"multi_step\"\nmilestones = [1, 2]\n";
  Launched from_file({"train", "--config", config, "--seed", "4", "--explain"});
  Launched from_flags({"train",
                       "--data",
                       kSmall,
                       "--epochs",
                       "3",
                       "--batch-size",
                       "32",
                       "--gradient-clip-val",
                       "0.5",
                       "--model",
                       "mlp:hidden=16",
                       "--lr-schedule",
                       "multi_step:milestones=1+2",
                       "--seed",
                       "4",
                       "--explain"});
  EXPECT_EQ(from_file.wait(std::chrono::seconds(60)).code, 0) << from_file.err();
  EXPECT_EQ(from_flags.wait(std::chrono::seconds(60)).code, 0) << from_flags.err();
  EXPECT_EQ(from_file.out(), from_flags.out());
  EXPECT_THAT(from_file.out(), HasSubstr("seed          4"));
}

TEST(TrainCommand, TheConfigThatARunLeavesMakesTheSameRun) {
  const test::Folder folder;
  const fs::path first = folder.path() / "first", second = folder.path() / "second";
  Launched run(
      train_small({"--output", first, "--epochs", "2", "--optimizer", "adamw:weight_decay=0.1"}));
  ASSERT_EQ(run.wait(std::chrono::seconds(60)).code, 0) << run.err();
  Launched again({"train", "--config", first / "config.toml", "--output", second});
  ASSERT_EQ(again.wait(std::chrono::seconds(60)).code, 0) << again.err();
  const auto weights = [](const fs::path& output) {
    return read_file(output / "checkpoints" / trim(read_file(output / "latest")) /
                     "model.safetensors");
  };
  EXPECT_TRUE(weights(first) == weights(second));
}

TEST(TrainCommand, ResumeAutoStartsOrGoesOn) {
  const test::Folder folder;
  const std::vector<std::string> words =
      train_small({"--output", folder.path() / "out", "--resume", "auto", "--epochs", "1"});
  Launched first(words);
  ASSERT_EQ(first.wait(std::chrono::seconds(60)).code, 0) << first.err();
  EXPECT_THAT(first.err(), Not(HasSubstr("resuming")));
  Launched second(words);
  ASSERT_EQ(second.wait(std::chrono::seconds(60)).code, 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("resuming after step"));
  EXPECT_EQ(second.out(), first.out());
  EXPECT_THAT(refusal({"train", "--resume", "auto"}).text, HasSubstr("--output is named too"));
}

TEST(TrainRefuses, UnknownFlagsWithASuggestion) {
  const Refusal refused = refusal({"train", "--batch-sise", "3"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr("did you mean --batch-size?"));
}

TEST(TrainRefuses, WorldSizeZero) {
  const Refusal refused = refusal(train_small({}), {.environment = {"RANK=0", "WORLD_SIZE=0"}});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr("WORLD_SIZE=0"));
}

TEST(TrainRefuses, ARankThatWasStartedTwice) {
  const test::Folder folder;
  // Three processes, two of which say that they are rank 1.
  const std::string script = "[ $RANK = 2 ] && RANK=1; exec \"$0\" train --data '" +
                             std::string(kSmall) + "' --batch-size 18 --output '" +
                             (folder.path() / "out").string() + "'";
  const Refusal refused = refusal(
      {"run", "--nproc-per-node", "3", "--", "sh", "-c", script, test::program_path("muster")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr("rank 1 was started twice"));
}

TEST(TrainRefuses, APortThatAnotherJobUses) {
  const UniqueFd other_job(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(other_job.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(other_job.get(), 1), 0);
  ASSERT_EQ(::getsockname(other_job.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const Refusal refused = refusal(
      train_small({}),
      {.environment = {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port}});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.text, HasSubstr("port " + port + " is in use"));
  EXPECT_THAT(refused.text, HasSubstr("--master-port"));
}

TEST(TrainRefuses, MissingDataFiles) {
  const test::Folder folder;
  const Refusal refused =
      refusal({"train", "--data", "fashion-mnist", "--data-dir", folder.path()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr(folder.path().string()));
}

/// A folder with copies of the real files that a test may spoil.
void copy_fashion_mnist(const fs::path& to) {
  for (const auto& entry : fs::recursive_directory_iterator(fashion_mnist())) {
    if (entry.path().extension() == ".gz")
      fs::copy_file(entry.path(), to / entry.path().filename());
  }
}

TEST(TrainRefuses, ACutDataFile) {
  const test::Folder folder;
  copy_fashion_mnist(folder.path());
  fs::resize_file(folder.path() / "train-images-idx3-ubyte.gz", 1'000'000);
  const Refusal refused =
      refusal({"train", "--data", "fashion-mnist", "--data-dir", folder.path()});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.text, HasSubstr("train-images-idx3-ubyte.gz"));
}

TEST(TrainRefuses, SwappedDataFiles) {
  const test::Folder folder;
  copy_fashion_mnist(folder.path());
  const fs::path images = folder.path() / "train-images-idx3-ubyte.gz",
                 labels = folder.path() / "train-labels-idx1-ubyte.gz";
  fs::rename(images, folder.path() / "aside");
  fs::rename(labels, images);
  fs::rename(folder.path() / "aside", labels);
  const Refusal refused =
      refusal({"train", "--data", "fashion-mnist", "--data-dir", folder.path()});
  EXPECT_THAT(refused.code, ::testing::AnyOf(1, 2));
  EXPECT_THAT(refused.text, HasSubstr("-ubyte.gz"));
  EXPECT_THAT(refused.text, HasSubstr("were two files swapped"));
}

TEST(TrainRefuses, AnOutputFolderThatCannotBeMade) {
  const test::Folder folder;
  std::ofstream(folder.path() / "file") << "in the way";
  const Refusal refused = refusal(train_small({"--output", folder.path() / "file" / "out"}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.text, HasSubstr("output folder"));
}

TEST(TrainRefuses, ToGoOnWithALossThatIsNotFinite) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  const Refusal refused = refusal(test::on_ranks(
      2, train_small({"--output", output, "--lr", "1e30", "--checkpoint-every", "1"})));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.text, HasSubstr("the loss is not finite in step"));
  EXPECT_THAT(refused.text, HasSubstr("try a smaller --lr"));
}

/// A full disk: no file of the rank may grow beyond 2 KiB. The kernel then answers EFBIG where a
/// full disk answers ENOSPC.
TEST(TrainSurvives, AFullDiskWithEarlierCheckpointsIntact) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  Launched first(train_small({"--output", output, "--epochs", "1"}));
  ASSERT_EQ(first.wait(std::chrono::seconds(60)).code, 0);
  const std::string before(trim(read_file(output / "latest")));
  const std::string limited =
      "ulimit -f 4; exec \"$0\" train --resume '" + output.string() + "' --epochs 2";
  Launched second(
      {"run", "--nproc-per-node", "1", "--", "sh", "-c", limited, test::program_path("muster")});
  EXPECT_EQ(second.wait(std::chrono::seconds(60)).code, 1) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("cannot write"));
  EXPECT_EQ(trim(read_file(output / "latest")), before);
  Launched third({"train", "--resume", output, "--epochs", "2"});
  EXPECT_EQ(third.wait(std::chrono::seconds(60)).code, 0) << third.err();
}

TEST(TrainCommand, ThePageSaysWhereItsNumbersComeFrom) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  Launched program(train_small({"--output", output, "--strategy", "dp", "--devices", "4"}));
  ASSERT_EQ(program.wait(std::chrono::seconds(60)).code, 0) << program.err();
  const std::string page = read_file(output / "index.html");
  EXPECT_THAT(page, HasSubstr("muster train --"));
  for (const char* fact : {"<dt>command</dt>", "<dt>started</dt>", "<dt>host</dt>", ">muster 0."})
    EXPECT_THAT(page, HasSubstr(fact));
}

TEST(TrainCommand, ExplainPrintsThePlanAndTrainsNothing) {
  const test::Folder folder;
  Launched program(train_small({"--explain", "--output", folder.path() / "out"}));
  EXPECT_EQ(program.wait(std::chrono::seconds(60)).code, 0);
  EXPECT_THAT(program.out(), HasSubstr("batch         16 = 1 x 16"));
  EXPECT_FALSE(fs::exists(folder.path() / "out"));
}

TEST(TrainCommand, ExplainPrintsThePlanAsJson) {
  Launched program(train_small({"--explain", "--json", "--strategy", "dp", "--devices", "2"}));
  ASSERT_EQ(program.wait(std::chrono::seconds(60)).code, 0) << program.err();
  const Json plan = parse_json(program.out(), "out");
  EXPECT_EQ(plan["batch_size"], 16);
  EXPECT_EQ(plan["samples_per_step"], 16);
  EXPECT_EQ(plan["machine_devices"], Json::array({"cpu"}));
  EXPECT_THAT(plan["memory"].get<std::string>(), HasSubstr("estimated on meta"));
  EXPECT_EQ(plan["layers"][0]["type"], "Linear") << plan["layers"];
  EXPECT_TRUE(plan["remarks"].is_array());
}

}  // namespace
}  // namespace muster
