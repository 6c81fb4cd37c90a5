// What every row must have, and the search for many fragments against a plain one.
#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/error_row.h"
#include "muster/diagnose/catalogue/fragment_finder.h"
#include "muster/diagnose/catalogue/out_of_memory_text.h"
#include "muster/diagnose/catalogue/pattern_set.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::diagnose {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<const ErrorRow*> all_rows() {
  std::vector<const ErrorRow*> rows;
  for (const ErrorFamilyEntry* family : error_families()) {
    for (const ErrorRow& row : family->rows) rows.push_back(&row);
  }
  return rows;
}

TEST(Catalogue, HasEachNumberFromOneOnOnceAndNamesOnce) {
  std::set<int> numbers;
  std::set<std::string_view> names;
  for (const ErrorRow* row : all_rows()) {
    EXPECT_TRUE(numbers.insert(row->number).second) << row->number;
    EXPECT_TRUE(names.insert(row->name).second) << row->name;
  }
  EXPECT_EQ(*numbers.begin(), 1);
  EXPECT_EQ(*numbers.rbegin(), static_cast<int>(numbers.size()));
  EXPECT_GE(numbers.size(), 47U);
}

TEST(Catalogue, EachRowSaysWhyAndWhatNextAndWhichChecksThereAre) {
  for (const ErrorRow* row : all_rows()) {
    EXPECT_FALSE(row->title.empty() || row->patterns.empty() || row->confirm.empty()) << row->name;
    const auto is_plain = [](const Cause& cause) { return cause.when.empty() && !cause.holds; };
    EXPECT_TRUE(std::ranges::any_of(row->causes, is_plain)) << row->name;
    EXPECT_NE(row->depth, Depth::kAsRow) << row->name;
    for (const Cause& cause : row->causes) {
      EXPECT_TRUE(cause.why.ends_with('.') && cause.step.size() > 10) << row->name;
    }
    for (const std::string& name : split(row->checks, ',')) {
      if (!trim(name).empty()) EXPECT_NE(checks().find(trim(name)), nullptr) << row->name << name;
    }
  }
}

TEST(Catalogue, APatternOfOneRowIsNotOneOfAnother) {
  std::set<std::string> seen;
  for (const ErrorRow* row : all_rows()) {
    for (const Pattern& pattern : row->patterns) {
      const std::string key =
          concat(small_letters(pattern.text), pattern.holds != nullptr ? row->name : "");
      EXPECT_TRUE(seen.insert(key).second) << row->name << ": " << pattern.text;
      for (const std::string& part : split(pattern.text, '*'))
        EXPECT_FALSE(part.empty()) << row->name << ": " << pattern.text;
    }
  }
}

TEST(FragmentFinder, FindsWhatAPlainSearchFinds) {
  std::mt19937 random(7);
  const auto word = [&](size_t most) {
    std::string text;
    for (size_t i = 1 + random() % most; i > 0; --i) text += "abAB "[random() % 5];
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    FragmentFinder finder;
    std::vector<std::string> fragments;
    for (int i = 0; i < 12; ++i) {
      const std::string fragment = small_letters(word(5));
      if (finder.add(fragment) == fragments.size()) fragments.push_back(fragment);
    }
    finder.build();
    for (int i = 0; i < 5; ++i) {
      const std::string text = word(40);
      std::vector<uint32_t> found = finder.find(text), expected;
      for (uint32_t k = 0; k < fragments.size(); ++k) {
        if (small_letters(text).find(fragments[k]) != std::string::npos) expected.push_back(k);
      }
      std::ranges::sort(found);
      EXPECT_EQ(found, expected) << text;
    }
  }
}

TEST(PatternSet, PartsFollowEachOther) {
  PatternSet patterns;
  patterns.add("one*two");
  patterns.add("TWO");
  patterns.add("two*two");
  patterns.build();
  EXPECT_THAT(patterns.fitting("One and Two"), ElementsAre(0, 1));
  EXPECT_THAT(patterns.fitting("two, one"), ElementsAre(1));
  EXPECT_THAT(patterns.fitting("two two"), ElementsAre(1, 2));
  EXPECT_THAT(patterns.fitting("one"), IsEmpty());
  EXPECT_THAT(patterns.fitting(""), IsEmpty());
}

TEST(OutOfMemoryText, ReadsBothWordings) {
  constexpr double kMiB = 1024.0 * 1024, kGiB = 1024 * kMiB;
  const OutOfMemoryText now = out_of_memory_text(
      "CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a total capacty of 4.00 GiB of "
      "which "
      "41.50 MiB is free. Including non-PyTorch memory, this process has 3.44 GiB memory in use. "
      "Of the "
      "allocated memory 2.50 GiB is allocated by PyTorch, and 1.50 MiB is reserved by PyTorch but "
      "unallocated.");
  EXPECT_EQ(now.asked, 32 * kMiB);
  EXPECT_EQ(now.total, 4 * kGiB);
  EXPECT_EQ(now.free, 41.5 * kMiB);
  EXPECT_EQ(now.allocated, 2.5 * kGiB);
  EXPECT_EQ(now.idle, 1.5 * kMiB);
  EXPECT_EQ(now.own, 3.44 * kGiB);
  const OutOfMemoryText before = out_of_memory_text(
      "CUDA out of memory. Tried to allocate 38.00 MiB (GPU 0; 4.00 GiB total capacity; 3.00 GiB "
      "already "
      "allocated; 0 bytes free; 3.50 GiB reserved in total by PyTorch)");
  EXPECT_EQ(before.free, 0);
  EXPECT_EQ(before.idle, 0.5 * kGiB);
  EXPECT_EQ(before.own, 3.5 * kGiB);
  EXPECT_FALSE(out_of_memory_text("CUDA out of memory").asked.has_value());
  EXPECT_FALSE(read_bytes_text("1.2.3 GiB").has_value());
}

// The sentences are those of LibTorch's CUDACachingAllocator.cpp.
TEST(OutOfMemoryText, ReadsSharesPoolsAndOtherProcesses) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  const OutOfMemoryText text = out_of_memory_text(
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of "
      "which 1.25 GiB is free. Process 2134 has 20.00 GiB memory in use. Process 77 has 512.00 MiB "
      "memory in use. Including non-PyTorch memory, this process has 57.90 GiB memory in use. "
      "60.00 "
      "GiB allowed; Of the allocated memory 50.00 GiB is allocated by PyTorch, with 2.00 GiB "
      "allocated in private pools (e.g., CUDA Graphs), and 7.00 GiB is reserved by PyTorch but "
      "unallocated.");
  EXPECT_EQ(text.allowed, 60 * kGiB);
  EXPECT_EQ(text.in_pools, 2 * kGiB);
  EXPECT_EQ(text.idle, 7 * kGiB);
  EXPECT_TRUE(text.has_own);
  ASSERT_EQ(text.others.size(), 2U);
  EXPECT_EQ(text.others[0].pid, 2134);
  EXPECT_EQ(text.others[0].bytes, 20 * kGiB);
  EXPECT_EQ(text.others[1].pid, 77);
  EXPECT_EQ(text.others[1].bytes, kGiB / 2);
  for (const char* other : {"Process x has 1.00 GiB",
                            "Process 1 had 2.00 GiB",
                            "Process 1 has it",
                            "Process 99999999999999999999 has 1.00 GiB",
                            "Process "})
    EXPECT_TRUE(out_of_memory_text(other).others.empty()) << other;
}

}  // namespace
}  // namespace muster::diagnose
