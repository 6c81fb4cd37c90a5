// `muster train --device fake:0 --trace`: what the trace shows of copies beside computation.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing_process::Launched;

struct Stretch {
  double begin = 0, end = 0;
  std::string row;
};

/// Of each rank, by name.
std::map<int, std::map<std::string, Stretch>> device_stretches(const Json& trace) {
  std::map<std::pair<int, int>, std::string> rows;
  std::map<int, std::map<std::string, Stretch>> stretches;
  for (const Json& event : trace.at("traceEvents")) {
    const int rank = event.at("pid"), row = event.at("tid");
    if (event.at("name") == "thread_name") rows[{rank, row}] = event.at("args").at("name");
    if (event.at("ph") != "X" || event.at("cat") != "device") continue;
    const double begin = event.at("ts").get<double>();
    stretches[rank][event.at("name")] = {
        begin, begin + event.at("dur").get<double>(), rows[{rank, row}]};
  }
  return stretches;
}

// Two ranks that are threads, with a device each.
TEST(DeviceTrace, ShowsTheCopiesOfTheNextBatchBesideTheStepOnEachDevice) {
  const test::Folder folder;
  const auto file = folder.path() / "trace.json";
  Launched program(test::train_uneven({"--epochs",
                                       "1",
                                       "--output",
                                       folder.path() / "run",
                                       "--strategy",
                                       "dp",
                                       "--devices",
                                       "2",
                                       "--device",
                                       "fake",
                                       "--trace",
                                       file}),
                   {.environment = {"OMP_NUM_THREADS=1"}});
  ASSERT_EQ(program.wait(std::chrono::seconds(120)).code, 0) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("the device's own is on its rows"));
  const auto stretches = device_stretches(parse_json(read_file(file), "trace"));
  ASSERT_EQ(stretches.size(), 2U);
  for (const auto& [rank, of_rank] : stretches) {
    constexpr int64_t kFirst = 10;  // what --trace leaves out
    int64_t steps = kFirst;
    while (of_rank.contains(concat("step ", steps))) ++steps;
    ASSERT_GT(steps, kFirst + 3);
    for (int64_t step = kFirst; step + 1 < steps; ++step) {
      const Stretch compute = of_rank.at(concat("step ", step));
      const auto copy = of_rank.find(concat("batch ", step + 1));
      if (copy == of_rank.end()) continue;  // of this rank there is none in the last step
      EXPECT_THAT(compute.row, HasSubstr(concat(" of fake:", rank)));
      EXPECT_THAT(copy->second.row, HasSubstr("copies, stream "));
      EXPECT_LE(compute.begin, copy->second.begin) << step;
      EXPECT_LE(copy->second.end, compute.end) << step;
    }
  }
}

}  // namespace
}  // namespace muster
