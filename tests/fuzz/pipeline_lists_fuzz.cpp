// Schedules of pipelines from files: any text is refused by one usage error, or makes lists that
// are written and read back as the same; the check accepts or refuses any lists, and what it accepts
// can be lowered, simulated and drawn.
#include <cmath>
#include <string>

#include "muster/base/error.h"
#include "muster/pipeline/draw/gantt.h"
#include "muster/pipeline/draw/text_drawing.h"
#include "muster/pipeline/order/check.h"
#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/simulate/simulator.h"

#include "tests/fuzz/fuzz.h"

namespace {

using namespace muster;
using namespace muster::pipeline;

ActionLists lists_of(std::string_view text) {
  try {
    return parse_csv(text);
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad text is a usage error");
    return {};
  }
}

void run(const ActionLists& lists, Sends sends) {
  const auto stages = equal_stages(lists.placement.stages(), {1, 2, 1, 1, .5, .25});
  const Simulator simulator(lists, sends);
  const Timeline timeline = simulator.run(stages);
  fuzz::require(timeline.step_s() >= 3 * static_cast<double>(lists.micro_batches),
                "a step is no shorter than a stage's work");
  fuzz::require(timeline.bubble() >= -1e-9 && timeline.bubble() < 1, "a bubble is a share");
  fuzz::require(!draw_text(timeline, {.columns = 80}).empty(), "a step is drawn");
  fuzz::require(gantt_svg(timeline, {.title = "fuzz"}).ends_with("</svg>\n"), "a picture ends");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ActionLists lists = lists_of({reinterpret_cast<const char*>(data), size});
  if (lists.ranks.empty()) return 0;
  fuzz::require(parse_csv(to_csv(lists)) == lists, "lists read back");
  const bool waits = !find_fault(lists, {.sends = Sends::kRendezvous});
  if (const auto fault = find_fault(lists)) {
    fuzz::require(!waits, "what runs with sends that wait runs with buffers");
    fuzz::require(!fault->reason.empty() && !fault->text().empty(), "a fault has a reason");
    return 0;
  }
  run(lists, Sends::kBuffered);
  if (waits) run(lists, Sends::kRendezvous);
  for (const int64_t peak : peak_in_flight(lists)) fuzz::require(peak >= 1, "something is held");
  if (lists.has_messages()) return 0;
  for (const Sends sends : {Sends::kBuffered, Sends::kRendezvous}) {
    try {
      run(lower(lists, sends), sends);
    } catch (const Error& error) {  // micro-batches that change places between two stages
      fuzz::require(error.kind() == ErrorKind::kUsage, "what cannot be lowered is a usage error");
    }
  }
  return 0;
}
