#include "muster/memory/leak/leak_finder.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/allocator/nodes.h"
#include "muster/memory/allocator/operators.h"
#include "muster/memory/leak/outside_verdict.h"
#include "muster/memory/leak/survey.h"
#include "muster/memory/leak/verdict.h"

namespace muster::memory {
namespace {

void check_options(const LeakOptions& options) {
  const auto refuse = [](std::string name, std::string rule, const auto& value) {
    throw usage_error({.refused = "LeakOptions::" + std::move(name),
                       .rule = std::move(rule),
                       .value = concat(value)});
  };
  if (options.warm_up < 0) refuse("warm_up", "a number of iterations", options.warm_up);
  if (options.window < 8 || options.window > 60)
    refuse("window", "8 to 60 iterations", options.window);
  if (!(options.rising > 0.5 && options.rising <= 1))
    refuse("rising", "a share above 0.5 and up to 1", options.rising);
  if (options.least_bytes_per_iteration < 0)
    refuse("least_bytes_per_iteration", "bytes, not below 0", options.least_bytes_per_iteration);
  if (!(options.least_share >= 0 && options.least_share <= 1))
    refuse("least_share", "a share from 0 to 1", options.least_share);
}

std::string rate_text(const LeakFinding& finding) {
  const auto bytes = static_cast<uint64_t>(std::max(0.0, finding.bytes_per_iteration));
  const std::string rate = concat("+", human_bytes(bytes), "/iteration");
  if (finding.nodes_per_iteration < 0.5) return rate;
  const std::string nodes = concat(fixed(finding.nodes_per_iteration, 0), " graph nodes");
  return bytes < 1024 ? concat("+", nodes, "/iteration") : concat(rate, " and ", nodes);
}

}  // namespace

std::string LeakFinding::text() const {
  std::string text;
  if (kind == LeakKind::kEvaluationGraph) {
    text = concat("waste: ",
                  fixed(nodes_per_iteration, 0),
                  " graph nodes per evaluation for nothing, held by ",
                  held_by);
  } else {
    const char* const what = kind == LeakKind::kKernels ? "cache: " : "leak: ";
    text = concat(what, rate_text(*this), ", held by ", held_by);
  }
  if (!scope.empty()) text += concat(", created in scope \"", scope, "\"");
  if (!op.empty()) text += concat(scope.empty() ? ", created by " : " by ", op);
  if (!layer.empty()) text += concat(" (layer ", layer, ")");
  return text + concat(", because ", because, "; fix: ", fix);
}

bool LeakReport::leaks() const {
  return std::any_of(findings.begin(), findings.end(), [](const LeakFinding& finding) {
    return finding.kind != LeakKind::kEvaluationGraph;
  });
}

std::string LeakReport::text() const {
  if (!enough) return concat("too early to tell after ", iteration, " iterations");
  if (findings.empty()) return concat("no leak up to iteration ", iteration);
  std::string text;
  for (const LeakFinding& finding : findings)
    text += concat(text.empty() ? "" : "\n", finding.text());
  return text;
}

struct LeakFinder::Impl {
  Impl(Tracker& watched, const LeakOptions& asked)
      : tracker(watched), options(asked), survey(watched.first_mark() + watched.iteration() - 1) {}

  Tracker& tracker;
  LeakOptions options;
  Recording recording{Level::kLayers};
  NodeCensus census;
  Survey survey;
};

LeakFinder::LeakFinder(Tracker& tracker, const LeakOptions& options) {
  check_options(options);
  impl_ = std::make_unique<Impl>(tracker, options);
  take_chained_operators();  // of others before
  take_backward_nodes();
  set_evaluated_module(&tracker.module());
  const uint32_t first = tracker.iteration() + static_cast<uint32_t>(options.warm_up);
  tracker.at_end([impl = impl_.get(), first](const IterationMemory& iteration) {
    impl->survey.add(iteration,
                     impl->tracker,
                     static_cast<size_t>(impl->options.window),
                     iteration.iteration >= first,
                     kKernelShare * static_cast<double>(impl->options.least_bytes_per_iteration));
  });
}

LeakFinder::~LeakFinder() {
  impl_->tracker.at_end({});
  set_evaluated_module(nullptr);
}

LeakReport LeakFinder::report() const {
  LeakReport report{.iteration = impl_->survey.iteration};
  report.enough = impl_->survey.ends >= static_cast<size_t>(impl_->options.window);
  if (report.enough) report.findings = findings_of(impl_->survey, impl_->options);
  return report;
}

}  // namespace muster::memory
