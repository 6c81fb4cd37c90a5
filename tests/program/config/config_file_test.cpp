#include "muster/program/config/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::program {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

const std::vector<ConfigKey> kKeys = {{.name = "epochs"},
                                      {.name = "batch-size"},
                                      {.name = "lr"},
                                      {.name = "model", .is_spec = true},
                                      {.name = "schedule", .is_spec = true},
                                      {.name = "data-dir", .is_path = true},
                                      {.name = "top-k"},
                                      {.name = "tag", .separator = '\0'},
                                      {.name = "explain", .is_switch = true},
                                      {.name = "json", .is_switch = true}};

Words words(const std::string& text) { return parse_config(text, "runs/a.toml", kKeys); }

std::string refusal_in(const std::string& text) {
  return refusal_of([&] { words(text); });
}

TEST(ConfigFile, ValuesBecomeTheWordsThatOneWouldType) {
  EXPECT_THAT(words("batch_size = 64\nlr = 1e-3 # small\nepochs = 1_000\n"),
              ElementsAre("--batch-size=64", "--lr=0.001", "--epochs=1000"));
  EXPECT_THAT(words("lr = 3.0\nmodel = \"mlp:hidden=64\""),
              ElementsAre("--lr=3.0", "--model=mlp:hidden=64"));
  EXPECT_THAT(words("lr = -1"), ElementsAre("--lr=-1"));
  EXPECT_THAT(words(""), IsEmpty());
}

TEST(ConfigFile, ATrueSwitchIsThereAndAFalseOneIsNot) {
  EXPECT_THAT(words("explain = true\njson = false"), ElementsAre("--explain"));
  EXPECT_THAT(refusal_in("explain = 1"), HasSubstr("it is true or false"));
}

TEST(ConfigFile, ATableIsASpecInTheOrderOfTheFile) {
  EXPECT_THAT(
      words("[model]\nname = \"mlp\"\nlayers = 3\nhidden = 64\ndropout = 0.5\nbias = true\n"),
      ElementsAre("--model=mlp:layers=3,hidden=64,dropout=0.5,bias=true"));
  EXPECT_THAT(words("model = {hidden = 8, name = \"mlp\"}"), ElementsAre("--model=mlp:hidden=8"));
  EXPECT_THAT(words("schedule.name = \"multi_step\"\nschedule.milestones = [30, 60]"),
              ElementsAre("--schedule=multi_step:milestones=30+60"));
  EXPECT_THAT(words("[model]\nname = \"cnn\""), ElementsAre("--model=cnn"));
  EXPECT_THAT(refusal_in("[model]\nhidden = 64"),
              HasSubstr("runs/a.toml:1:2: table [model]: it has a text `name`"));
  EXPECT_THAT(refusal_in("[model]\nname = \"a:b=1\""), HasSubstr("no colon"));
  EXPECT_THAT(refusal_in("[model]\nname = \"a\"\nb = \"1,c=2\""),
              HasSubstr(":3:1: value of \"model.b\": no comma"));
  EXPECT_THAT(refusal_in("[lr]\nname = \"a\""),
              HasSubstr("a text, a number, true, false or a list"));
}

TEST(ConfigFile, ArraysAreJoinedOrRepeated) {
  EXPECT_THAT(words("top_k = [1, 5]"), ElementsAre("--top-k=1,5"));
  EXPECT_THAT(words("tag = [\"a,b\", \"c\"]"), ElementsAre("--tag=a,b", "--tag=c"));
  EXPECT_THAT(words("tag = []"), IsEmpty());
  EXPECT_THAT(refusal_in("top_k = []"), HasSubstr("a list has one item at least"));
  EXPECT_THAT(refusal_in("top_k = [\"1,2\", \"3\"]"), HasSubstr("no , in it"));
  EXPECT_THAT(refusal_in("top_k = [[1]]"), HasSubstr("a text, a number"));
}

TEST(ConfigFile, PathsAreRelativeToTheFile) {
  EXPECT_THAT(words("data-dir = \"../mnist\""), ElementsAre("--data-dir=mnist"));
  EXPECT_THAT(words("data-dir = \"/mnist\""), ElementsAre("--data-dir=/mnist"));
  EXPECT_THAT(parse_config("data-dir = \"mnist\"", "a.toml", kKeys),
              ElementsAre("--data-dir=mnist"));
}

TEST(ConfigFile, ErrorsSayWhereAndWhat) {
  EXPECT_THAT(refusal_in("lr = 1\nepocs = 3"),
              HasSubstr("runs/a.toml:2:1: unknown key \"epocs\"\nhint: did you mean \"epochs\"?"));
  EXPECT_THAT(refusal_in("lr = 1\nepochs = = 3"), HasSubstr("runs/a.toml:2:10: not valid TOML"));
  EXPECT_THAT(refusal_in("lr = 1\nlr = 2"), HasSubstr("runs/a.toml:2:"));
  EXPECT_THAT(refusal_in("batch_size = 1\nbatch-size = 2"),
              HasSubstr(":2:1: key \"batch-size\": each flag is given once"));
  EXPECT_THAT(refusal_in("lr = 2020-01-01"), HasSubstr("a text, a number"));
  EXPECT_THAT(refusal_in("data-dir = \"\""), HasSubstr("hint: leave the key away"));
  EXPECT_THAT(refusal_in("data-dir = \"a\\u0000b\""), HasSubstr("no zero byte"));
  EXPECT_THAT(refusal_in("lr = \"\xff\""), HasSubstr("not valid TOML"));
}

TEST(ConfigFile, TheCommandLineWins) {
  const test::Folder folder;
  const std::string file = (folder.path() / "a.toml").string();
  write_file_atomic(file, "epochs = 3\nlr = 0.1\n[model]\nname = \"mlp\"\nhidden = 8\n");
  EXPECT_THAT(with_config(Words{"--lr", "1", "--config", file, "--model=cnn"}, kKeys),
              ElementsAre("--epochs=3", "--lr", "1", "--model=cnn"));
  EXPECT_THAT(with_config(Words{"--config=" + file}, kKeys),
              ElementsAre("--epochs=3", "--lr=0.1", "--model=mlp:hidden=8"));
  EXPECT_THAT(with_config(Words{"--lr=1", "--", "--config", "x"}, kKeys),
              ElementsAre("--lr=1", "--", "--config", "x"));
  EXPECT_THAT(refusal_of([&] { with_config(Words{"--config"}, kKeys); }),
              HasSubstr("names a TOML file"));
  EXPECT_THAT(refusal_of([&] {
                with_config(Words{"--config", file, "--config", file}, kKeys);
              }),
              HasSubstr("one config file"));
  EXPECT_THAT(refusal_of([&] {
                with_config(Words{"--config", "missing.toml"}, kKeys);
              }),
              HasSubstr("no such file: missing.toml"));
}

TEST(ConfigFile, KeysComeFromTheCommandItself) {
  const auto app = make_app("x", "x", "");
  int64_t epochs = 0;
  bool explain = false;
  Words tags;
  std::string config, model, dir;
  app->add_option("--epochs", epochs);
  app->add_flag("--explain", explain);
  app->add_option("--tag", tags);
  app->add_option("--config", config);
  app->add_option("-m,--model", model);
  app->add_option("--data-dir", dir);
  const std::string_view specs[] = {"model"}, paths[] = {"data-dir"};
  const auto keys = config_keys(*app, {.specs = specs, .paths = paths});
  const auto args = parse_config(
      "epochs = 4\nexplain = true\ntag = [\"a\", \"b\"]\ndata_dir = \"d\"\n[model]\nname = "
      "\"m\"\nk = 1",
      "runs/x.toml",
      keys);
  Words reversed(args.rbegin(), args.rend());
  app->parse(reversed);
  EXPECT_EQ(epochs, 4);
  EXPECT_TRUE(explain);
  EXPECT_THAT(tags, ElementsAre("a", "b"));
  EXPECT_EQ(model, "m:k=1");
  EXPECT_EQ(dir, "runs/d");
  EXPECT_THAT(refusal_of([&] { parse_config("config = \"a\"", "x", keys); }),
              HasSubstr("unknown key \"config\""));
}

TEST(ConfigToml, ReadsBackAsTheSameArguments) {
  const Words args = {"--epochs=3",
                      "--batch-size=0064",
                      "--lr=0.001",
                      "--data-dir=/a b/\"c\"\\\n",
                      "--tag=a",
                      "--tag=1",
                      "--explain",
                      "--model=mlp:hidden=64,rate=0.5,bias=true,act=relu",
                      "--schedule=one_cycle:max=1e-2"};
  EXPECT_EQ(parse_config(config_toml(args, kKeys), "a.toml", kKeys), args);
  EXPECT_THAT(
      config_toml(args, kKeys),
      HasSubstr(
          "\n[model]\nname = \"mlp\"\nhidden = 64\nrate = 0.5\nbias = true\nact = \"relu\"\n"));
}

// As the one parser of specs reads it: a list in brackets is one value, which no table can hold.
TEST(ConfigToml, ASpecThatATableCannotHoldStaysALine) {
  for (const char* model : {"mlp:scale=[0.5,1]",
                            "mlp:hidden=64, rate=0.5",
                            "mlp:hidden=",
                            "mlp:name=other",
                            "mlp:hidden=1,hidden=2",
                            "mlp:open=[1",
                            "mlp:",
                            ":hidden=1"}) {
    const Words args{concat("--model=", model)};
    const std::string toml = config_toml(args, kKeys);
    EXPECT_EQ(toml, concat("model = \"", model, "\"\n"));
    EXPECT_EQ(parse_config(toml, "a.toml", kKeys), args);
  }
  const Words shared{"--model=mlp:ba=1,a=1,b=1"};  // one name ends as another
  EXPECT_EQ(config_toml(shared, kKeys), "\n[model]\nname = \"mlp\"\nba = 1\na = 1\nb = 1\n");
}

TEST(ConfigToml, TakesFlagsAsTheyAreTyped) {
  const test::Folder folder;
  const auto file = folder.path() / "run.toml";
  write_config_toml(file, Words{"--lr", "-1", "--model", "mlp:odd", "--json", "--lr=2"}, kKeys);
  EXPECT_EQ(read_file(file), "lr = 2\nmodel = \"mlp:odd\"\njson = true\n");
  EXPECT_THAT(config_toml(Words{"--data-dir", "x/../y"}, kKeys),
              HasSubstr((std::filesystem::current_path() / "y").string()));
  for (const Words& bad : {Words{"--lr"}, Words{"3"}, Words{"--no-such=1"}, Words{"--json=1"}})
    EXPECT_THAT(refusal_of([&] { config_toml(bad, kKeys); }), HasSubstr("cannot write")) << bad[0];
  EXPECT_THAT(refusal_of([&] { config_toml(Words{"--lr=\xff"}, kKeys); }), HasSubstr("UTF-8"));
}

// An error that comes later, of the flag or of the library, names the line all the same.
TEST(ConfigFile, ErrorsOfWhatItSaidNameItsPlace) {
  const std::string text =
      "epochs = 0\nlr = 1\n[model]\nname = \"mlp\"\nhidden = \"x\"\n[schedule]\nname = \"s\"\n";
  std::vector<ConfigPlace> places;
  parse_config(text, "a.toml", kKeys, &places);
  constexpr ConfigOwner kOwners[] = {{"model", "model"}, {"schedule", "lr schedule"}};
  const auto said = [&](const std::string& refused) {
    return std::string(placed(usage_error({.refused = refused}), places, kOwners).what());
  };
  EXPECT_EQ(said("--epochs"), "a.toml:1:1: --epochs");
  EXPECT_EQ(said("--lr"), "a.toml:2:1: --lr");
  EXPECT_EQ(said("--lr-schedule"), "--lr-schedule");
  EXPECT_EQ(said("model mlp parameter \"hidden\""), "a.toml:5:1: model mlp parameter \"hidden\"");
  EXPECT_EQ(said("unknown model \"mlp\""), "a.toml:3:2: unknown model \"mlp\"");
  EXPECT_EQ(said("unknown lr schedule \"s\""), "a.toml:6:2: unknown lr schedule \"s\"");
  EXPECT_EQ(said("modelling"), "modelling");
  EXPECT_EQ(said("--output x"), "--output x");
  const Error disk = environment_error({.refused = "--epochs"});
  EXPECT_STREQ(placed(disk, places, kOwners).what(), "--epochs");
}

TEST(ConfigFile, AFlagOfTheCommandLineHasNoPlaceInTheFile) {
  const test::Folder folder;
  const std::string file = (folder.path() / "a.toml").string();
  write_file_atomic(file, "epochs = 3\nlr = 1\n");
  std::vector<ConfigPlace> places;
  with_config(Words{"--config", file, "--epochs=0"}, kKeys, &places);
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].flag, "lr");
}

}  // namespace
}  // namespace muster::program
