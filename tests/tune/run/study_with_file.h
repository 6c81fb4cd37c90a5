// A study in a file, for tests that look at what is stored.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "muster/tune/run/study.h"

#include "tests/support/folder.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {

class StudyWithFile : public ::testing::Test {
 protected:
  StudySpec spec(int64_t samples, const std::string& searcher = "random") {
    StudySpec spec = spec_with(samples);
    spec.searcher = searcher;
    spec.storage = folder_.path() / "test.db";
    return spec;
  }
  std::vector<Event> stored() { return read_events(folder_.path() / "test.db", "test"); }
  /// Reports of each trial in the log, which must rise by one.
  std::map<int64_t, int64_t> reports() {
    std::map<int64_t, int64_t> count;
    for (const Event& event : stored()) {
      if (const auto* reported = std::get_if<Reported>(&event.what)) {
        EXPECT_EQ(reported->t, ++count[event.trial]) << "trial " << event.trial;
      }
    }
    return count;
  }

  test::Folder folder_;
};

}  // namespace muster::tune
