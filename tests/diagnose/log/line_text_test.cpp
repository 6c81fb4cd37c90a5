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
  EXPECT_FALSE(is_warning_line(
      "NotImplementedError: The operator 'aten::isin.Tensor_Tensor_out' is not currently "
      "implemented for the MPS "
      "device. As a temporary fix, you can use the CPU. WARNING: this will be slower"))
      << "a warning behind what is said";
  EXPECT_TRUE(is_warning_line(
      "I0521 10:54:41.204897 2258 xla_bridge.py:660] Unable to initialize backend 'tpu'"))
      << "a note";
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
  EXPECT_TRUE(tells_what_goes_well("ok 12 - worker that crashes is restarted"));
  EXPECT_TRUE(tells_what_goes_well("suite/test_memory.py::test_error[bad_alloc-4]"));
  EXPECT_TRUE(
      tells_what_goes_well("test_peer_access_not_supported (t.T) ... skipped 'one device'"));
  EXPECT_FALSE(tells_what_goes_well("test_peer_access_not_supported (t.T) ... ERROR"));
  EXPECT_FALSE(tells_what_goes_well("not ok 12 - worker that crashes"));
  EXPECT_FALSE(tells_what_goes_well("FAILED suite/test_memory.py::test_error - RuntimeError: x"));
  EXPECT_FALSE(tells_what_goes_well("ERROR suite/test_memory.py::test_error"));
}

TEST(LineText, RowsOfMeasuresAreNoFailuresWhateverTheyMeasure) {
  EXPECT_TRUE(is_row_of_measures("segmentation fault       0.91      0.88      0.89       120"));
  EXPECT_TRUE(is_row_of_measures("| segmentation fault | 0.93 | 0.88 | 0.90 |"));
  EXPECT_TRUE(is_row_of_measures("class 'illegal instruction' precision 0.81 recall 0.77"));
  EXPECT_FALSE(is_row_of_measures("Segmentation fault (core dumped) python train.py 0.1 0.9"));
  EXPECT_FALSE(
      is_row_of_measures("line 28:  8156 Killed   python main.py --lr 0.001 --gamma 0.25"));
  EXPECT_FALSE(is_row_of_measures(" 5/100 [00:01<00:20, 4.5it/s, loss=0.5, acc=0.3]Killed"));
  EXPECT_FALSE(is_row_of_measures("loss nan, accuracy 0.5, rate 0.01")) << "a value that is none";
  EXPECT_FALSE(is_row_of_measures("RuntimeError: expected 0.5, but got 0.7"));
  EXPECT_FALSE(is_row_of_measures("Killed: 9"));
}

TEST(LineText, AMeasureThatIsNanMayBeFiniteAgain) {
  EXPECT_EQ(measure_that_is_nan("epoch 2, loss: nan"), "loss: ");
  EXPECT_EQ(measure_that_is_nan("{\"val_loss2\": NaN}"), "val_loss2\": ");
  EXPECT_EQ(measure_that_is_nan("1/9 [00:01<00:09, loss=nan]"), "loss=");
  EXPECT_EQ(measure_that_is_nan("loss 0.5 nan_count"), "");
  EXPECT_EQ(measure_that_is_nan("nan"), "");
  EXPECT_TRUE(is_finite_again("epoch 3, loss: 0.5", "loss: "));
  EXPECT_FALSE(is_finite_again("epoch 3, val_loss: 0.5", "loss: "));
  EXPECT_FALSE(is_finite_again("best loss: 0.5", "loss: "));
  EXPECT_FALSE(is_finite_again("loss: 0.5, val_loss: nan", "loss: "));
}

TEST(LineText, AMeasureOfAClassIsARowOfItsOwn) {
  EXPECT_TRUE(is_row_of_measures("class out_of_memory AP 0.33"));
  EXPECT_FALSE(is_row_of_measures("Killed: AP 9"));
}

TEST(LineText, ClocksOfPrefixesOrderLines) {
  const auto early =
      glog_time("[rank2]:[E626 05:06:30.930929096 ProcessGroupNCCL.cpp:632] [Rank 2] x");
  const auto late = glog_time("[rank7]:[E626 05:14:36.393067540 ProcessGroupNCCL.cpp:1743] x");
  ASSERT_TRUE(early && late);
  EXPECT_EQ(*late - *early, 485'462'138);
  EXPECT_EQ(glog_time("E0626 05:06:30.930929 140 run.py:869] failed"), early);
  EXPECT_FALSE(glog_time("Error 12 05:06:30.1"));
  EXPECT_FALSE(glog_time("[E ProcessGroupNCCL.cpp:607] [Rank 4] Watchdog"));
  EXPECT_FALSE(glog_time("E626 25:06:30.1 x"));
  EXPECT_FALSE(glog_time("E626 05:06"));
  EXPECT_FALSE(glog_time(""));
}

}  // namespace
}  // namespace muster::diagnose
