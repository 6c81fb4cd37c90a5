#include "muster/base/kernel_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/folder.h"

namespace muster {
namespace {

using ::testing::Optional;
using ::testing::StartsWith;

TEST(KernelFile, IsReadWholeThoughItHasNoSize) {
  EXPECT_THAT(read_kernel_file("/proc/self/status"), Optional(StartsWith("Name:")));
  EXPECT_GT(read_kernel_file("/proc/cpuinfo").value_or("").size() +
                read_kernel_file("/proc/self/maps").value_or("").size(),
            5000U);  // more than one read takes
}

TEST(KernelFile, ThatIsNotThereOrCannotBeReadIsNothing) {
  const test::Folder folder;
  EXPECT_EQ(read_kernel_file(folder.path() / "none"), std::nullopt);
  EXPECT_EQ(read_kernel_file(folder.path()), std::nullopt);  // is opened, and not read
  // As /proc/PID/stat of a process that has ended since it was opened.
  EXPECT_EQ(read_kernel_file("/proc/self/mem"), std::nullopt);
}

}  // namespace
}  // namespace muster
