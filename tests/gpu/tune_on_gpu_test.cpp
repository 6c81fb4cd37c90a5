// A study whose trials share a real device.
#include <gmock/gmock.h>

#include "tests/gpu/gpu.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using test::OnGpu;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_process::Launched;

using TuneOnGpu = OnGpu;

// Halves of a device: two trials at a time, each of which sees the device by its UUID.
TEST_F(TuneOnGpu, TwoTrialsAtATimeHaveHalfADeviceEach) {
  const test::Folder folder;
  const std::string storage = folder.path() / "study.db";
  Launched tune({"tune",
                 "--name",
                 "halves",
                 "--metric",
                 "accuracy",
                 "--mode",
                 "max",
                 "--num-samples",
                 "6",
                 "--gpu",
                 "0.5",
                 "--storage",
                 storage,
                 "--param",
                 "lr=loguniform(1e-3, 1e-1)",
                 "--",
                 "sh",
                 "-c",
                 "test -n \"$CUDA_VISIBLE_DEVICES\" && exec \"$0\" train --device cuda --data "
                 "synthetic:samples=220,test_samples=60,size=8,classes=4 --model mlp:hidden=16 "
                 "--batch-size 12 --workers 0 --epochs 2 --lr $1",
                 test::program_path("muster"),
                 "{lr}"});
  EXPECT_EQ(tune.wait(std::chrono::seconds(110)).code, 0) << tune.err();
  EXPECT_TRUE(tune.nothing_left());
  std::puts((tune.out() + tune.err()).c_str());
  Launched shown({"study", "show", storage});
  shown.wait();
  std::puts((shown.out() + shown.err()).c_str());
  EXPECT_THAT(shown.out(), HasSubstr("COMPLETE"));
  EXPECT_THAT(shown.out(), Not(HasSubstr("FAIL")));
}

}  // namespace
}  // namespace muster
