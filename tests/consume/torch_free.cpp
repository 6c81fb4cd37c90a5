// A consumer of the torch-free rooms: starts two ranks of a shell command and writes what they said
// as metrics.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>

#include "muster/base.h"
#include "muster/launch.h"
#include "muster/text.h"
#include "muster/track.h"

namespace {

struct Lines : muster::launch::JobObserver {
  std::set<std::string> seen;

  void on_line(int64_t /*rank*/,
               muster::launch::Stream /*stream*/,
               std::string_view line) override {
    seen.emplace(line);
  }
};

void expect(bool holds, const char* what) {
  if (!holds)
    throw muster::internal_error({.refused = what, .rule = "a consumer's program expects it"});
}

void run(const std::string& folder) {
  Lines lines;
  const auto& local = muster::launch::launchers().at("local");
  const muster::launch::JobOutcome outcome =
      local.run({.argv = {"sh", "-c", "echo rank $RANK of $WORLD_SIZE"},
                 .nproc_per_node = 2,
                 .run_id = "consume",
                 .log_dir = folder},
                lines);
  expect(outcome.exit_code == 0, "both ranks end well");
  expect(lines.seen == std::set<std::string>{"rank 0 of 2", "rank 1 of 2"}, "a line of each rank");

  muster::track::MetricsLog(folder, -1, {"loss"}).write({.step = 1, .epoch = 1, .phase = "train"});
  const std::string rows = muster::read_file(folder + "/metrics.csv");
  expect(muster::text::basic_english("A row.").size() == 3, "words of a text");
  expect(rows.starts_with("step,epoch,phase,loss\n"), "the CSV has its header");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    run(argv[1]);
    std::puts("torch-free: ok");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
