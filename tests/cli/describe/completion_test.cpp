// Completions and manual pages hold every flag of every command, as its help shows them.
#include "cli/describe/completion.h"

#include <fstream>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "cli/describe/man_page.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"
#include "tests/tune/written_study.h"

namespace muster::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_process::Launched;
using Words = std::vector<std::string>;

std::string output_of(const Words& words) {
  Launched muster(words);
  EXPECT_EQ(muster.wait().code, 0) << muster.err();
  EXPECT_THAT(muster.err(), IsEmpty());
  return muster.out();
}

/// The first words of the lines below "Commands:".
Words commands_in(const std::string& overview) {
  Words names;
  bool below = false;
  for (const std::string& line : split(overview, '\n')) {
    if (below && line.empty()) break;
    if (below) names.push_back(line.substr(2, line.find(' ', 2) - 2));
    below |= line == "Commands:";
  }
  return names;
}

/// {"train"}, …, {"study", "list"}, …: what the overviews of the program name.
std::vector<Words> all_commands() {
  std::vector<Words> all;
  for (const std::string& name : commands_in(output_of({"--help"}))) {
    if (name != "study") {
      all.push_back({name});
      continue;
    }
    for (const std::string& inner : commands_in(output_of({"study", "--help"})))
      all.push_back({name, inner});
  }
  return all;
}

/// The long flags that begin a line of a command's help.
std::set<std::string> flags_in_help(Words command) {
  command.emplace_back("--help");
  const std::string help = output_of(command);
  std::set<std::string> flags;
  const std::regex flag("\n  (?:-\\w )?(--[a-z][a-z0-9-]*)");
  for (std::sregex_iterator at(help.begin(), help.end(), flag), end; at != end; ++at)
    flags.insert((*at)[1]);
  return flags;
}

/// The part of `text` from the line that begins with `first` to the next one that begins with
/// `next`.
std::string part(const std::string& text, const std::string& first, const std::string& next) {
  const size_t from = text.find("\n" + first);
  EXPECT_NE(from, std::string::npos) << first;
  if (from == std::string::npos) return "";
  return text.substr(from, text.find("\n" + next, from + 1) - from);
}

TEST(Completion, HoldsEveryFlagOfEveryCommand) {
  const std::string bash = output_of({"completion", "bash"}),
                    zsh = output_of({"completion", "zsh"}),
                    fish = output_of({"completion", "fish"});
  const std::vector<Words> all = all_commands();
  EXPECT_GE(all.size(), 13U);
  for (const Words& command : all) {
    const std::string name = join(command, " ");
    const std::string in_bash = part(bash, "    '" + name + "')", "    '");
    const std::set<std::string> flags = flags_in_help(command);
    EXPECT_THAT(flags, Contains("--help")) << name;
    for (const std::string& flag : flags) {
      EXPECT_THAT(in_bash, ::testing::ContainsRegex("[ ']" + flag + "[ ']")) << name;
      EXPECT_THAT(zsh, ::testing::ContainsRegex(flag + "(=)?\\[")) << name;
      EXPECT_THAT(fish, HasSubstr(concat("'__muster_at ", name, "' -l ", flag.substr(2), ' ')));
    }
  }
}

TEST(ManPages, HoldEveryFlagOfEveryCommandAndEveryCommand) {
  const test::Folder folder;
  Launched muster({"man", "--output", folder.path()});
  ASSERT_EQ(muster.wait().code, 0) << muster.err();
  const std::string overview = read_file(folder.path() / "muster.1");
  for (const Words& command : all_commands()) {
    const std::string page = read_file(folder.path() / concat("muster-", command[0], ".1"));
    EXPECT_THAT(overview, HasSubstr(concat("muster\\-", command[0])));
    EXPECT_THAT(page, HasSubstr(".SH NAME\n"));
    for (const std::string& flag : flags_in_help(command)) {
      const std::string escaped = std::regex_replace(flag, std::regex("-"), "\\-");
      EXPECT_THAT(page, HasSubstr("\\fB" + escaped + "\\fR")) << command[0];
    }
  }
  EXPECT_EQ(output_of({"man", "train"}), read_file(folder.path() / "muster-train.1"));
  EXPECT_EQ(output_of({"man"}), overview);
}

/// What bash offers for these words, of which the last one is being typed.
Words offered(const Words& typed) {
  const test::Folder folder;
  const std::filesystem::path script = folder.path() / "script";
  std::string words = test::program_path("muster");
  for (const std::string& word : typed) words += " '" + word + "'";
  std::ofstream(script) << output_of({"completion", "bash"}) << "COMP_WORDS=(" << words
                        << ")\nCOMP_CWORD=" << typed.size()
                        << "\ncompopt() { :; }\n_muster\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  Launched bash({"run", "--no-prefix", "--", "bash", script});
  EXPECT_EQ(bash.wait().code, 0) << bash.err();
  return split(trim(bash.out()), '\n');
}

TEST(Completion, OffersInBashWhatFits) {
  EXPECT_THAT(offered({"tr"}), ::testing::ElementsAre("train"));
  EXPECT_THAT(offered({"train", "--ep"}), ::testing::ElementsAre("--epochs"));
  EXPECT_THAT(offered({"study", "ex"}), ::testing::ElementsAre("export"));
  EXPECT_THAT(offered({"study", "export", "--for"}), ::testing::ElementsAre("--format"));
  EXPECT_THAT(offered({"help", "tu"}), ::testing::ElementsAre("tune"));
  EXPECT_THAT(offered({"list", "launch"}), ::testing::ElementsAre("launchers"));
  EXPECT_THAT(offered({"tune", "--scheduler", "as"}), ::testing::ElementsAre("asha"));
  EXPECT_THAT(offered({"tune", "--scheduler", "=", "as"}), ::testing::ElementsAre("asha"));
}

TEST(Completion, OffersInBashTheWordsOfAnOption) {
  using ::testing::ElementsAre;
  EXPECT_THAT(offered({"train", "--precision", ""}), ElementsAre("32", "bf16-mixed", "16-mixed"));
  EXPECT_THAT(offered({"train", "--test-weights", "=", "b"}), ElementsAre("best"));
  EXPECT_THAT(offered({"train", "--strategy", "a"}), ElementsAre("auto"));
  EXPECT_THAT(offered({"tune", "--mode", "m"}), ElementsAre("max", "min"));
  EXPECT_THAT(offered({"run", "--nproc-per-node", "c"}), ElementsAre("cpu"));
  EXPECT_THAT(offered({"study", "export", "x.db", "--format", "t"}), ElementsAre("tensorboard"));
  EXPECT_THAT(offered({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(offered({"man", "tr"}), ElementsAre("train"));
  EXPECT_THAT(offered({"train", "--resume", "au"}), ElementsAre("auto"));
}

TEST(Completion, OffersInBashFilesAndFoldersAsTheyAreCalled) {
  const test::Folder folder;
  std::filesystem::create_directory(folder.path() / "my run");
  std::ofstream(folder.path() / "my file.toml") << "\n";
  const std::string begun = (folder.path() / "my").string();
  EXPECT_THAT(offered({"train", "--resume", begun}), ::testing::ElementsAre(begun + " run"));
  EXPECT_THAT(offered({"train", "--config", begun}),
              ::testing::UnorderedElementsAre(begun + " run", begun + " file.toml"));
}

// A name of a study is whoever's wrote the file.
TEST(Completion, OffersInBashTheStudiesOfAFileAndRunsNoneOfThem) {
  const test::Folder folder;
  const std::string file = (folder.path() / "a.db").string();
  const std::string trap = "fa $(touch " + (folder.path() / "trapped").string() + ")";
  const tune::Space space = test::small_space();
  for (const std::string& name : {std::string("fashion"), trap, std::string("other")})
    tune::open_storage(file, space, test::description_of(space, name));
  const Words names = offered({"study", "show", file, "--study", "fa"});
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "trapped"));
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("fashion", HasSubstr("fa\\ \\$\\(touch")));
  EXPECT_THAT(offered({"study", "show", file, "--study", "o"}), ::testing::ElementsAre("other"));
  EXPECT_THAT(offered({"study", "show", "no.db", "--study", ""}), ::testing::ElementsAre(""));
}

TEST(Completion, HasTheSameWordsInEveryShell) {
  program::CommandText command{.name = "study x", .help = "x"};
  command.options = {{.flags = {}, .value = "STORAGE"},
                     {.flags = {"--mode"}, .value = "max|min"},
                     {.flags = {"--backend"}, .value = "NAME|auto", .help = "muster list backends"},
                     {.flags = {"--resume"}, .value = "DIR|auto"},
                     {.flags = {"--study"}, .value = "STUDY"}};
  const std::vector<program::CommandText> all{{.name = "study", .help = "studies"}, command};
  const std::string zsh = zsh_completion(all), fish = fish_completion(all);
  EXPECT_THAT(zsh, HasSubstr("'1:STORAGE:_files'"));
  EXPECT_THAT(zsh, HasSubstr("'*--mode=[]:max|min:{compadd - max min}'"));
  EXPECT_THAT(
      zsh, HasSubstr("{compadd - auto; compadd - $(muster list backends --names 2> /dev/null)}"));
  EXPECT_THAT(zsh, HasSubstr("{compadd - auto; _files -/}"));
  EXPECT_THAT(zsh, HasSubstr("{compadd - ${(f)\"$(muster study list $words[2] --names 2"));
  EXPECT_THAT(fish, HasSubstr("-l mode -x -a 'max min' -d ''"));
  EXPECT_THAT(fish, HasSubstr("-a 'auto (muster list backends --names 2> /dev/null)'"));
  EXPECT_THAT(fish, HasSubstr("-l resume -x -a 'auto (__fish_complete_directories)'"));
  EXPECT_THAT(fish, HasSubstr("-a '(muster study list (commandline -opc)[4] --names"));
}

TEST(Completion, RefusesAShellThatItDoesNotKnow) {
  Launched muster({"completion", "fishy"});
  EXPECT_EQ(muster.wait().code, 2);
  EXPECT_THAT(muster.err(), HasSubstr("did you mean \"fish\"?"));
}

// Texts of a command that would end a quotation, a spec or a line of roff.
TEST(Completion, TextsOfCommandsStayText) {
  program::CommandText command{.name = "x",
                               .help = "it's [a] `b`: c",
                               .about = ".SH no heading\n'nor this",
                               .usage = "muster x"};
  command.options.push_back({.flags = {"--y"}, .value = "Z", .help = "it's [a] `b`: c\\d"});
  const std::vector<program::CommandText> all{command};
  EXPECT_THAT(zsh_completion(all), HasSubstr(R"('*--y=[it'\''s (a)  b \: c\d]:Z:')"));
  EXPECT_THAT(fish_completion(all), HasSubstr(R"(-l y -x -d 'it'\''s (a)  b : c\d')"));
  const std::string roff = man_pages(all, "1", "").at(1).roff;
  EXPECT_THAT(roff, HasSubstr("\n\\&.SH no heading\n\\&'nor this\n"));
  EXPECT_THAT(roff, HasSubstr("c\\ed\n"));
}

}  // namespace
}  // namespace muster::cli
