// A study whose trials are one shell script, run by the program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/files/study_file.h"
#include "muster/tune/storage/storage.h"

#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::testing_process {

class ShellStudy : public ::testing::Test {
 protected:
  /// Writes the study's file; trials run one at a time and are not waited for when they are told to
  /// end. `more`: lines of the file.
  std::string study(const std::string& script, int64_t samples, const std::string& more = "") {
    write_file_atomic(folder_.path() / "train.sh", script + "\n");
    write_file_atomic(file(),
                      concat("name = \"study\"\nmetric = \"loss\"\nmode = \"min\"\nnum_samples = ",
                             samples,
                             "\nmax_concurrent = 1\nstop_grace = \"0s\"\n"
                             "command = [\"sh\", \"train.sh\"]\n",
                             more,
                             "\n[space]\nlr = \"uniform(0, 1)\"\n"
                             "[resources_per_trial]\ncpu = 0.001\n"));
    return file().string();
  }
  std::filesystem::path file() const { return folder_.path() / "study.toml"; }
  std::filesystem::path storage() const { return folder_.path() / "study.db"; }

  /// Replays the log, which checks every decision.
  tune::StudyCore replayed() const {
    tune::StudyCore core(tune::read_study_file(file()));
    for (const tune::Event& event : tune::read_events(storage(), "study")) core.replay(event);
    return core;
  }

  struct Said {
    int code;
    std::string out, err;
  };
  static Said say(const std::vector<std::string>& words) {
    Launched program(words);
    const int code = program.wait().code;
    return {code, program.out(), program.err()};
  }

  const std::string program_ = concat("'", test::program_path("muster"), "' ");
  static constexpr const char* kReport = "echo '[tune-metric]: {\"loss\": 1}'";
  test::Folder folder_;
};

}  // namespace muster::testing_process
