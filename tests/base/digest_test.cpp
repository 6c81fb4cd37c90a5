// The values are of the authors' table of test vectors.
#include "muster/base/digest.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Digest, IsFnv1aOf64Bits) {
  EXPECT_EQ(digest_of(""), 0xcbf29ce484222325);
  EXPECT_EQ(digest_of("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(digest_of("foobar"), 0x85944171f73967e8);
}

TEST(Digest, TakesBytesAboveAsciiUnsigned) {
  EXPECT_NE(digest_of("\xff"), digest_of("\x7f"));
  EXPECT_EQ(digest_of("\xff"), (0xcbf29ce484222325 ^ 0xff) * 0x100000001b3);
}

}  // namespace
}  // namespace muster
