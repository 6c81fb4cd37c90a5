// The programs of suite A without Muster's finder, for tools that look at a whole process. See leak_tools.py.
//     leak_tools                    their numbers and names, a line each
//     leak_tools NUMBER ITERATIONS  runs one, and ends with what it holds still held
//     valgrind leak_tools lost ITERATIONS    runs all, and says of each what memcheck calls lost
// A line is "leak NAME", "fixed NAME" or "control NAME".
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_DO_LEAK_CHECK
#define VALGRIND_COUNT_LEAKS(lost, maybe, reachable, suppressed)
#endif

#include "tests/memory/leak/leak_programs.h"

namespace {

using namespace muster::test;  // NOLINT: a program

struct Program {
  std::string name;
  std::function<LeakStep(LeakWorld&)> make;
};

std::vector<Program> all_programs() {
  std::vector<Program> all;
  for (const auto& part : {graph_leak_programs(),
                           other_leak_programs(),
                           outside_leak_programs(),
                           device_leak_programs()}) {
    for (const LeakProgram& one : part) {
      all.push_back(
          {"leak " + one.name, [one](LeakWorld& world) { return one.make(world, true); }});
      all.push_back(
          {"fixed " + one.name, [one](LeakWorld& world) { return one.make(world, false); }});
    }
  }
  for (const auto& part :
       {control_programs(), outside_control_programs(), device_control_programs()}) {
    for (const ControlProgram& one : part) all.push_back({"control " + one.name, one.make});
  }
  return all;
}

/// A program that has run; what it holds goes with it.
struct Run {
  Run(const Program& program, int iterations) : step(program.make(world)) {
    for (int i = 1; i <= iterations; ++i) step(i);
  }
  LeakWorld world;
  LeakStep step;
};

long lost_bytes() {
  [[maybe_unused]] unsigned long lost = 0, maybe = 0, reachable = 0, suppressed = 0;
  VALGRIND_DO_LEAK_CHECK;
  VALGRIND_COUNT_LEAKS(lost, maybe, reachable, suppressed);
  return static_cast<long>(lost);
}

void run_all(int iterations) {
  for (const Program& program : all_programs()) {
    const long before = lost_bytes();
    const Run run(program, iterations);
    std::printf("%ld %s\n", lost_bytes() - before, program.name.c_str());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  torch::manual_seed(5);
  const std::vector<Program> all = all_programs();
  if (argc != 3) {
    for (size_t i = 0; i < all.size(); ++i) std::printf("%zu %s\n", i, all[i].name.c_str());
    return 0;
  }
  const int iterations = std::atoi(argv[2]);
  if (std::string(argv[1]) == "lost")
    run_all(iterations);
  else
    new Run(all.at(std::stoul(argv[1])), iterations);  // held to the end, and beyond it
  return 0;
}
