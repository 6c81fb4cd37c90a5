// A study file is refused by one usage error that names its place, or it is a study whose space can
// be drawn from and described, and whose command can be expanded.
#include "muster/tune/files/study_file.h"

#include "tests/fuzz/study_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  fuzz::check_study_file("folder/fuzz.toml", [&](const std::string& name) {
    return tune::parse_study(fuzz::text_of(data, size), name);
  });
  return 0;
}
