// What crosses to libmuster_nccl.so are C++ objects: one that was built otherwise is not used.
#include <string>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/distributed/nccl/module.h"

#include "tests/support/paths.h"

namespace muster::distributed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class NcclModule : public ::testing::Test {
 protected:
  const std::string file_ = test::program_path("../lib/libmuster_fake_nccl.so");
  void* const handle_ = ::dlopen(file_.c_str(), RTLD_NOW);
};

TEST_F(NcclModule, IsTakenIfItWasBuiltAlike) {
  ASSERT_NE(handle_, nullptr) << ::dlerror();
  const NcclLibrary library = open_nccl(file_.c_str());
  EXPECT_EQ(library.why_not, "");
  EXPECT_NE(library.make, nullptr);
}

TEST_F(NcclModule, IsRefusedIfItWasBuiltForAnotherLibTorchOrMuster) {
  ASSERT_NE(handle_, nullptr) << ::dlerror();
  auto& stamp = *reinterpret_cast<NcclStamp* (*)()>(::dlsym(handle_, kNcclStamp))();
  for (uint32_t* part : {&stamp.seam, &stamp.request_bytes, &stamp.torch_minor}) {
    ++*part;
    const NcclLibrary library = open_nccl(file_.c_str());
    EXPECT_EQ(library.make, nullptr);
    EXPECT_THAT(library.why_not,
                AllOf(HasSubstr("was built for another Muster or LibTorch: LibTorch "),
                      HasSubstr(" there, LibTorch ")));
    --*part;
  }
}

TEST_F(NcclModule, IsRefusedIfItWasBuiltWithTheHeadersOfAnotherNccl) {
  ASSERT_NE(handle_, nullptr) << ::dlerror();
  auto& stamp = *reinterpret_cast<NcclStamp* (*)()>(::dlsym(handle_, kNcclStamp))();
  stamp.nccl_headers = 23004;
  const NcclLibrary library = open_nccl(file_.c_str());
  EXPECT_EQ(library.make, nullptr);
  EXPECT_THAT(
      library.why_not,
      HasSubstr("was built with the headers of NCCL 2.30, and this LibTorch has NCCL 2.28"));
  stamp.nccl_headers = 22809;
}

TEST_F(NcclModule, IsRefusedIfItIsSomethingElseOrNotThere) {
  EXPECT_THAT(open_nccl("libm.so.6").why_not,
              HasSubstr("libm.so.6 is no module of this Muster: it lacks muster_nccl_stamp"));
  EXPECT_THAT(open_nccl("libmuster_nowhere.so").why_not, HasSubstr("libmuster_nowhere.so: "));
}

}  // namespace
}  // namespace muster::distributed
