#include "muster/distributed/monitor/verdict.h"

#include <gtest/gtest.h>

namespace muster::distributed {
namespace {

using Kind = diagnose::Diagnosis::Kind;

TEST(Verdict, TravelsAsText) {
  const Verdict verdict{
      .text = "rank 2 is gone\nand more", .hint = "look", .kind = Kind::kGone, .culprits = {2, 5}};
  EXPECT_EQ(verdict_from(verdict_text(verdict)), verdict);
  const Verdict bare{.text = "x", .hint = "", .kind = Kind::kAllThere, .culprits = {}};
  EXPECT_EQ(verdict_from(verdict_text(bare)), bare);
}

TEST(Verdict, IsTakenForWordsInAnyOtherForm) {
  for (const char* text : {"", "\n", "words", "one\ntwo", "a\nb\n99", "a\nb\n1 x", "a\nb\n1 -2"}) {
    const Verdict verdict = verdict_from(text);
    EXPECT_EQ(verdict.text, text);
    EXPECT_TRUE(verdict.culprits.empty());
    EXPECT_EQ(verdict.kind, Kind::kUnknown);
  }
}

}  // namespace
}  // namespace muster::distributed
