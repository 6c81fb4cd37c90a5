// Tests of this program come in any order, those with a fake accelerator among them: the first recording stands before them all.
#include <gtest/gtest.h>

#include "muster/memory/allocator/cpu_memory.h"

namespace muster::memory {
namespace {

class FirstRecording : public ::testing::Environment {
 public:
  void SetUp() override { const Recording recording(Level::kCounters); }
};

const ::testing::Environment* const kFirstRecording =
    ::testing::AddGlobalTestEnvironment(new FirstRecording);  // gtest deletes it

}  // namespace
}  // namespace muster::memory
