// What a study file says in a line: stop criteria, and strategies with their parameters. Any text
// is refused by one usage error, or is what it says: written again it reads back as the same.
#include <string>

#include "muster/base/error.h"
#include "muster/base/params.h"
#include "muster/tune/core/stop_rules.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/search/searcher.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

/// Whether the call ends well; any error but a usage error is a finding.
template <class Call>
bool is_taken(Call&& call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kUsage, "a bad text is a usage error");
    return false;
  }
}

void stop_criterion(std::string_view text) {
  tune::StopCriterion criterion;
  if (!is_taken([&] { criterion = tune::parse_stop_criterion(text, "stop"); })) return;
  require(tune::parse_stop_criterion(tune::criterion_text(criterion), "stop") == criterion,
          "what was written reads back");
}

void scheduler(const std::string& text) {
  std::unique_ptr<tune::Scheduler> made;
  if (!is_taken([&] { made = tune::make_scheduler(text, {}); })) return;
  for (const int64_t t : {1, 2, 1000}) {
    for (const int64_t number : {0, 1, 2}) {
      const auto decision = made->on_report(number, t, static_cast<double>(number));
      require(decision.reason.empty() == (decision.action == tune::Action::kContinue),
              "a decision has its reason");
    }
  }
  require(!made->status().empty(), "a scheduler has a status");
}

void searcher(const std::string& text) {
  static const tune::Space space = {{"x", tune::uniform(0, 1)}, {"n", tune::randint(0, 3)}};
  std::unique_ptr<tune::Searcher> made;
  if (!is_taken([&] { made = tune::make_searcher(text, {.space = space}); })) return;
  const auto suggestion = made->suggest(0, {0.5, 1});
  require(suggestion.point == tune::Point{0.5, 1}, "what is fixed stays");
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string text(fuzz::text_of(data, size));
  fuzz::stop_criterion(text);
  fuzz::scheduler(text);
  fuzz::searcher(text);
  fuzz::scheduler("asha:" + text);
  fuzz::searcher("random_then_grid:" + text);
  return 0;
}
