#include "muster/base/job_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster {
namespace {

// The key of SipHash's paper is 00 01 … 0f, read as little-endian words.
const char* const kPapersKey = "07060504030201000f0e0d0c0b0a0908";

// Aumasson and Bernstein 2012, appendix A, and the first of the reference code's vectors.
TEST(JobKey, TagsAsThePaperDoes) {
  const JobKey key = JobKey::parse(kPapersKey);
  std::string message;
  EXPECT_EQ(key.tag(message), 0x726fdb47dd0e0e31u);
  for (char byte = 0; byte < 15; ++byte) message += byte;
  EXPECT_EQ(key.tag(message), 0xa129ca6149be45e5u);
}

TEST(JobKey, IsANewOneEachTimeAndSurvivesTheEnvironment) {
  const JobKey one = JobKey::make(), other = JobKey::make();
  EXPECT_NE(one, other);
  EXPECT_EQ(JobKey::parse(one.text()), one);
  EXPECT_EQ(JobKey::parse(kPapersKey).text(), kPapersKey);
  EXPECT_NE(one.tag("x"), other.tag("x"));
}

TEST(JobKey, RefusesOtherTextsWithoutShowingThem) {
  for (const char* text : {"", "secret", "0706050403020100 f0e0d0c0b0a0908"}) {
    try {
      JobKey::parse(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("MUSTER_JOB_KEY"));
      EXPECT_THAT(error.what(), ::testing::Not(::testing::HasSubstr("secret")));
    }
  }
}

}  // namespace
}  // namespace muster
