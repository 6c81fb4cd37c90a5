// A chain of transforms, as --train-transform takes it: any text is refused by one usage error, or
// its steps, written again, read back as the same.
#include <string>

#include "muster/base/error.h"
#include "muster/formats/transform_chain.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

std::string chain_text(const std::vector<formats::ChainStep>& steps) {
  std::string text;
  for (const formats::ChainStep& step : steps) {
    if (!text.empty()) text += " | ";
    text += step.name;
    if (!step.inside.empty()) text += '(' + chain_text(step.inside) + ')';
    char between = ':';
    for (const auto& [name, value] : step.params) {
      text += between + name + '=' + value;
      between = ',';
    }
  }
  return text;
}

void require_same(const std::vector<formats::ChainStep>& steps,
                  const std::vector<formats::ChainStep>& again) {
  require(again.size() == steps.size(), "as many steps read back");
  for (size_t i = 0; i < steps.size(); ++i) {
    require(!steps[i].name.empty() && again[i].name == steps[i].name &&
                again[i].params == steps[i].params,
            "what was written reads back");
    require_same(steps[i].inside, again[i].inside);
  }
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  std::vector<formats::ChainStep> steps;
  try {
    steps = formats::parse_transform_chain({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad text is a usage error");
    return 0;
  }
  fuzz::require_same(steps, formats::parse_transform_chain(fuzz::chain_text(steps)));
  return 0;
}
