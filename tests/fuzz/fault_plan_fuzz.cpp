// A fault plan is refused by one usage error, or written again it reads back as the same.
#include <string>

#include "muster/base/error.h"
#include "muster/diagnose/record/fault_plan.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  diagnose::FaultPlan plan;
  try {
    plan = diagnose::parse_fault_plan(fuzz::text_of(data, size));
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad plan is a usage error");
    return 0;
  }
  for (const diagnose::FaultRule& rule : plan) {
    fuzz::require(rule.delay.count() >= 0, "delays are not negative");
    fuzz::require(!rule.at || *rule.at >= 1, "calls count from 1");
  }
  fuzz::require(diagnose::parse_fault_plan(diagnose::fault_plan_text(plan)) == plan,
                "what was written reads back");
  return 0;
}
