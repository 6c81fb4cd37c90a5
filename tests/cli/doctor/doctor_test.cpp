// `muster doctor` as a user meets it, and the page of the catalogue.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "cli/doctor/catalogue_page.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using testing_process::Launched;

constexpr const char* kTwoRanks =
    "[rank1]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed "
    "by "
    "peer [127.0.1.1]:39827\n"
    "[rank0]: RuntimeError: Trying to backward through the graph a second time\n";

class Doctor : public ::testing::Test {
 protected:
  std::string log(const std::string& text) {
    write_file_atomic(folder_.path() / "train.log", text);
    return (folder_.path() / "train.log").string();
  }
  test::Folder folder_;
};

TEST_F(Doctor, NamesTheFirstCauseWithPlaceAndNextStep) {
  Launched muster({"doctor", log(kTwoRanks)});
  EXPECT_EQ(muster.wait().code, 0);
  EXPECT_THAT(muster.err(), IsEmpty());
  EXPECT_THAT(muster.out(), StartsWith("first cause: backward goes through a graph a second time"));
  EXPECT_THAT(muster.out(), HasSubstr("train.log:2, rank 0"));
  EXPECT_THAT(muster.out(), HasSubstr("detach()"));
  EXPECT_THAT(muster.out(), HasSubstr("what follows from it:"));
}

TEST_F(Doctor, SaysSoIfNothingIsRecognised) {
  Launched muster({"doctor", log("all is well\nValueError: nobody knows this one\n")});
  EXPECT_EQ(muster.wait().code, 1);
  EXPECT_THAT(muster.out(), StartsWith("nothing recognised"));
  EXPECT_THAT(muster.out(), HasSubstr("nobody knows this one"));
}

TEST_F(Doctor, SaysSoIfALogIsEmpty) {
  Launched muster({"doctor", log("")});
  EXPECT_EQ(muster.wait().code, 1);
  EXPECT_THAT(muster.out(), StartsWith("nothing recognised: the log is empty"));
  EXPECT_THAT(muster.out(), HasSubstr("2>&1"));
}

TEST_F(Doctor, ShowsWhatElseFailedWhereItIsNotSure) {
  Launched muster(
      {"doctor",
       "--no-checks",
       log("ValueError: nobody knows this one\n[default0]: job failed, log is in x\n")});
  EXPECT_EQ(muster.wait().code, 0);
  EXPECT_THAT(muster.out(), HasSubstr("confidence  low"));
  EXPECT_THAT(muster.out(), HasSubstr("other lines that speak of a failure, the last:"));
  EXPECT_THAT(muster.out(), HasSubstr("nobody knows this one"));
}

TEST_F(Doctor, AnswersAScriptInJson) {
  Launched muster({"doctor", "--json", "--no-checks", log(kTwoRanks)});
  EXPECT_EQ(muster.wait().code, 0);
  const Json json = parse_json(muster.out(), "stdout");
  EXPECT_EQ(json.at("first_cause"), "backward-twice");
  EXPECT_EQ(json.at("lines"), 2);
  EXPECT_EQ(json.at("findings").at(1).at("part"), "consequence");
  EXPECT_EQ(json.at("findings").at(1).at("ranks"), Json::array({1}));
}

TEST_F(Doctor, ReadsTheLogsOfAllRanksInAFolder) {
  for (const char* rank : {"0", "1"}) std::filesystem::create_directories(folder_.path() / rank);
  write_file_atomic(folder_.path() / "1" / "stderr.log", "std::bad_alloc\n");
  write_file_atomic(folder_.path() / "0" / "stderr.log", "fine\n");
  Launched muster({"doctor", "--no-checks", "--json", folder_.path().string()});
  EXPECT_EQ(muster.wait().code, 0);
  EXPECT_EQ(parse_json(muster.out(), "stdout").at("findings").at(0).at("ranks"), Json::array({1}));
}

TEST_F(Doctor, ReadsSlurmsLogsOfAFolderAndPassesOverWhatIsNoText) {
  write_file_atomic(folder_.path() / "slurm-12.out", "std::bad_alloc\n");
  write_file_atomic(folder_.path() / "a.out",
                    "\x7f"
                    "ELF CUDA out of memory\n");
  Launched muster({"doctor", "--no-checks", "--json", folder_.path().string()});
  EXPECT_EQ(muster.wait().code, 0);
  EXPECT_EQ(parse_json(muster.out(), "stdout").at("first_cause"), "bad-alloc");
}

TEST_F(Doctor, SaysWhatAFileIsThatIsNoLog) {
  for (const auto& [bytes, says] : std::vector<std::pair<std::string, std::string>>{
           {"\x1f\x8b\x08", "zcat FILE | muster doctor -"},
           {"\x7f"
            "ELF\x02",
            "muster doctor --program FILE"},
           {"PK\x03\x04", "ZIP archive"}}) {
    Launched muster({"doctor", log(bytes)});
    EXPECT_EQ(muster.wait().code, 2);
    EXPECT_THAT(muster.err(), HasSubstr("is no log"));
    EXPECT_THAT(muster.err(), HasSubstr(says));
  }
}

TEST_F(Doctor, RunsAProgramPassesItsOutputOnAndExplainsItsEnd) {
  Launched muster({"doctor", "--", "sh", "-c", "echo out; echo err >&2; kill -KILL $$"});
  EXPECT_EQ(muster.wait().code, 137);
  EXPECT_EQ(muster.out(), "out\n");
  EXPECT_THAT(muster.err(), StartsWith("err\n"));
  EXPECT_THAT(muster.err(), HasSubstr("first cause: the process was killed"));
  EXPECT_THAT(muster.err(), HasSubstr("ended by SIGKILL"));
  Launched fine({"doctor", "run", "--", "sh", "-c", "echo out"});
  EXPECT_EQ(fine.wait().code, 0);
  EXPECT_EQ(fine.out(), "out\n");
  EXPECT_THAT(fine.err(), IsEmpty());
}

TEST_F(Doctor, WaitsForNobodyThatAProgramLeavesBehind) {
  Launched muster({"doctor", "--", "sh", "-c", "sleep 600 & echo $!; exit 3"});
  EXPECT_EQ(muster.wait().code, 3);
  const auto left = to_int(trim(muster.out()));
  ASSERT_TRUE(left.has_value());
  ::kill(static_cast<pid_t>(*left), SIGKILL);
}

TEST_F(Doctor, ChecksThisMachine) {
  Launched muster({"doctor", "--json", "--output", folder_.path().string()});
  muster.wait();
  const Json checks = parse_json(muster.out(), "stdout").at("checks");
  EXPECT_GE(checks.size(), 15U);
  for (const Json& check : checks) {
    EXPECT_FALSE(check.at("value").get<std::string>().empty()) << check.dump();
    EXPECT_TRUE(check.at("verdict") == "ok" || !check.at("hint").get<std::string>().empty())
        << check.dump();
  }
}

TEST_F(Doctor, FitsATerminalOfEightyColumns) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"doctor", log(kTwoRanks)}, {"doctor"}, {"doctor", "--help"}}) {
    Launched muster(words);
    muster.wait();
    for (const std::string& line : split(muster.out(), '\n')) {
      const bool is_address = line.find("https://") != std::string::npos;
      EXPECT_TRUE(is_address || display_width(line) <= 80U) << line;
    }
  }
}

TEST_F(Doctor, RefusesWhatItCannotDo) {
  for (const auto& [words, says] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"doctor", "/no/such/log"}, "cannot read the log /no/such/log"},
           {{"doctor", folder_.path().string()}, "no logs in"},
           {{"doctor", "--checks", "smh"}, "did you mean \"shm\"?"},
           {{"doctor", "--"}, "no program behind --"},
           {{"doctor", "--", "no-such-program"}, "cannot start no-such-program"},
           {{"doctor", "a.log", "--", "true"}, "logs and a program"}}) {
    Launched muster(words);
    EXPECT_EQ(muster.wait().code, 2) << says;
    EXPECT_THAT(muster.err(), HasSubstr(says));
  }
}

TEST(ErrorsPage, IsWhatTheCatalogueSays) {
  EXPECT_EQ(read_file(test::source_path("docs/errors.md")), catalogue_page())
      << "write it anew: muster doctor --catalogue > docs/errors.md";
}

}  // namespace
}  // namespace muster::cli
