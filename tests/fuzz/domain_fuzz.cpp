// Any text is a domain or one usage error. A domain is written as a text that is read back as the
// same, its draws are values of it, and what it computes is a value or a usage error. The same text
// as a condition and as a --param flag.
#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/tune/files/study_file.h"
#include "muster/tune/space/distribution.h"
#include "muster/tune/space/space.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

template <class Call>
void attempt(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kUsage, "a bad text is a usage error");
  }
}

void draw(const tune::Space& space) {
  for (int64_t number = 0; number < 8; ++number) {
    const tune::Point point = space.draw({}, 1, number);
    for (size_t d = 0; d < point.size(); ++d) {
      const tune::Dimension& dimension = space.dimensions()[d];
      if (dimension.grid) continue;
      const tune::Value value = tune::value_of(dimension.distribution, point[d]);
      require(tune::number_of(dimension.distribution, value).has_value(), "a draw is a value");
    }
    attempt([&] { tune::to_json(space, space.resolve(space.with_conditions(point))); });
  }
}

void check_space(const tune::Space& space) {
  draw(space);
  if (const auto image = space.image_of(1)) require(image->size() <= 64, "an image is small");
}

/// A usage error of anything here but the making of the space is a finding: no one catches it.
void check_domain(const tune::Domain& domain) {
  const std::string written = domain.text();
  require(tune::Domain::parse(written, "again").text() == written, "what was written reads back");
  std::optional<tune::Space> space;
  attempt([&] {
    space = tune::Space(
        std::vector<tune::Parameter>{{"a", tune::randint(1, 4), ""}, {"x", domain, ""}});
  });
  if (!space) return;
  check_space(*space);
  const tune::Space again = tune::Space::from_description(space->description());
  require(again.description() == space->description(), "a description reads back");
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string text(fuzz::text_of(data, size));
  std::optional<tune::Domain> domain;
  fuzz::attempt([&] { domain = tune::Domain::parse(text, "fuzz"); });
  if (domain) fuzz::check_domain(*domain);
  fuzz::attempt([&] { tune::parse_param_flag(text); });
  fuzz::attempt([&] {
    fuzz::draw(tune::Space(std::vector<tune::Parameter>{
        {"a", tune::randint(1, 4), ""}, {"o", tune::choice({"sgd", "adam"}), ""}, {"x", 1, text}}));
  });
  return 0;
}
