#include "muster/diagnose/log/line_text.h"

#include <gtest/gtest.h>

namespace muster::diagnose {
namespace {

TEST(LineText, EscapeSequencesGoAndAllOtherBytesStay) {
  EXPECT_EQ(without_escapes("\x1b[1;31mred\x1b[0m, \x1b]0;title\aplain\x1b]8;;x\x1b\\!"),
            "red, plain!");
  EXPECT_EQ(without_escapes("cut \x1b["), "cut ");
  EXPECT_EQ(without_escapes("cut \x1b"), "cut ");
  EXPECT_EQ(without_escapes("\xff\x01"), "\xff\x01");
}

TEST(LineText, QuotationMarksArePlain) {
  EXPECT_EQ(with_plain_quotes(
                "\xe2\x80\x98load\xe2\x80\x99 of \xe2\x80\x9cx\xe2\x80\x9d \xe2\x80\x94 y\xe2\x80"),
            "'load' of \"x\" \xe2\x80\x94 y\xe2\x80");
}

TEST(LineText, LaunchersPrefixesNameTheRank) {
  const auto rank_of = [](std::string_view line) { return line_prefix(line).rank.value_or(-1); };
  EXPECT_EQ(rank_of("[rank3]: Traceback"), 3);
  EXPECT_EQ(rank_of("[rank3]:[E321 02:07:08 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog"), 3);
  EXPECT_EQ(rank_of("[default5]:x"), 5);
  EXPECT_EQ(rank_of("[ 1] text"), 1) << "muster run";
  EXPECT_EQ(rank_of("[12] text"), 12);
  EXPECT_EQ(rank_of("[1,3]<stdout>:host:29881:30401 [0] NCCL INFO"), 3) << "mpirun";
  EXPECT_EQ(rank_of("4: text"), 4) << "srun -l";
  EXPECT_EQ(rank_of("[PG ID 0 PG GUID 0(default_pg) Rank 1] Exception"), 1);
  EXPECT_EQ(rank_of("[E ProcessGroupNCCL.cpp:737] [Rank 6] Watchdog"), 6);
  EXPECT_EQ(rank_of("[2024-03-20 02:13:02,161] [INFO] text"), -1);
  EXPECT_EQ(rank_of("[1/3] Building"), -1);
  EXPECT_EQ(rank_of("[100%] Linking"), -1);
  EXPECT_EQ(rank_of("[12345678901234567890] text"), -1);
  EXPECT_EQ(line_prefix("[rank3]: Traceback").length, 9U);
}

TEST(LineText, WarningsSayThatTheyAreWarnings) {
  EXPECT_TRUE(is_warning_line("[W socket.cpp:401] [c10d] The server"));
  EXPECT_TRUE(is_warning_line("[rank0]:[W1206 18:44:12 x.cpp:1] text"));
  EXPECT_TRUE(is_warning_line("W0522 22:44:21.175000 2029917 run.py:766] text"));
  EXPECT_TRUE(is_warning_line("a.py:52: UserWarning: text"));
  EXPECT_TRUE(is_warning_line("-- Could NOT find CUDA"));
  EXPECT_TRUE(is_warning_line("host:1:2 [0] NCCL INFO NET/Plugin : Plugin load returned 2"));
  EXPECT_FALSE(
      is_warning_line("host:1:2 [0] misc/socket.cc:5 NCCL WARN Net : Call to recv failed"));
  EXPECT_FALSE(is_warning_line("[E socket.cpp:435] [c10d] The server"));
  EXPECT_FALSE(is_warning_line("RuntimeError: Address already in use"));
}

TEST(LineText, FailuresAreNoMeasuresAndNoTestsThatPassed) {
  EXPECT_TRUE(speaks_of_failure("RuntimeError: x"));
  EXPECT_TRUE(speaks_of_failure("a.cu(12): error: no"));
  EXPECT_TRUE(speaks_of_failure("CUBLAS failure in cublasSgemm"));
  EXPECT_TRUE(speaks_of_failure("Error 803: system"));
  EXPECT_TRUE(speaks_of_failure("failed 3 times"));
  EXPECT_TRUE(speaks_of_failure("10 failed"));
  EXPECT_FALSE(speaks_of_failure("step 4 loss 0.5"));
  EXPECT_FALSE(speaks_of_failure("validation error: 0.034"));
  EXPECT_FALSE(speaks_of_failure("Error = 12.5"));
  EXPECT_FALSE(speaks_of_failure("failed: 0"));
  EXPECT_FALSE(speaks_of_failure("12 passed, 0 failed"));
  EXPECT_FALSE(speaks_of_failure("[       OK ] Shapes.MismatchIsAnError (3 ms)"));
  EXPECT_FALSE(speaks_of_failure("test.py::test_error PASSED"));
  EXPECT_FALSE(speaks_of_failure("1/3 Test #1: failed_ranks ....... Passed    0.10 sec"));
  EXPECT_FALSE(
      speaks_of_failure("2/3 Test #12: failed_ranks ....................   Passed    1.2 sec"));
  EXPECT_TRUE(speaks_of_failure("Passed the point where it failed"));
}

}  // namespace
}  // namespace muster::diagnose
