// Study databases that somebody else altered. Any bytes are a file of studies or one clear error,
// whether they are looked at or resumed; nothing is read or written outside of it.
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/views/history.h"

#include "tests/fuzz/fuzz.h"

namespace {

using namespace muster;

/// True if it ended well.
template <class Call>
bool tried(Call call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::kInternal, "an altered file is not our fault");
    fuzz::require(!error.text().refused.empty(), "an error says what is refused");
    return false;
  }
}

void look_at(const std::filesystem::path& file) {
  for (const tune::StudySummary& study : tune::studies_of(file)) {
    const auto foreign = tune::read_foreign_trials(file, study.name);
    const tune::StudyFacts facts = tune::facts_of(study, foreign);
    tune::best_of(tune::histories(tune::read_events(file, study.name), foreign, facts), facts);
  }
}

void resume(const std::filesystem::path& file) {
  static const tune::Space space{{"lr", tune::loguniform(1e-4, 1e-1)},
                                 {"l1", tune::sample_from("2 ** randint(2, 9)")},
                                 {"batch_size", tune::choice({2, 4, 8, 16})}};
  const Json description = {{"name", "bench"},
                            {"metric", "loss"},
                            {"mode", "min"},
                            {"scope", "last"},
                            {"searcher", "random"},
                            {"space", space.description()}};
  tune::open_storage(file, space, description)->events();
}

/// One per process; /dev/shm, since SQLite waits for a disk.
const std::filesystem::path& scratch() {
  static const std::filesystem::path path =
      (std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path()) /
      std::filesystem::path("muster-fuzz-" + std::to_string(::getpid()) + ".db");
  return path;
}

void remove_scratch() {
  for (const char* end : {"", "-wal", "-shm", "-journal"})
    std::filesystem::remove(scratch().string() + end);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::ofstream(scratch(), std::ios::binary) << fuzz::text_of(data, size);
  tried([] { look_at(scratch()); });
  static unsigned count = 0;
  if (count++ % 8 == 0) tried([] { resume(scratch()); });
  remove_scratch();
  return 0;
}
