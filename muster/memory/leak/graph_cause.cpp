#include "muster/memory/leak/graph_cause.h"

#include <algorithm>
#include <string>
#include <utility>

#include "muster/base/text.h"
#include "muster/memory/allocator/names.h"

namespace muster::memory {
namespace {

std::string place_text(const std::string& scope, const std::string& op) {
  const std::string what = op.empty() ? "a custom autograd function" : op;
  return scope.empty() ? what : concat(what, " in scope \"", scope, "\"");
}

std::string end_text(const Survey& survey) {
  if (survey.graph_ends.empty()) return "an unknown operator";
  const GraphEnd& end = survey.graph_ends.front();
  return place_text(name_of(end.maker.first), name_of(end.maker.second));
}

/// How many nodes of earlier iterations a backward ran, in the last of them.
int64_t last_of(const Series& series) {
  return series.values().empty() ? 0 : series.values().back();
}

bool explain_create_graph(const Survey& survey, LeakFinding& finding) {
  const bool in_grad = !survey.grad_with_graph.empty();
  if (!in_grad && 2 * survey.old_in_backward <= survey.old_nodes) return false;
  if (in_grad) {
    finding.because = concat("the .grad of \"",
                             survey.grad_with_graph.front(),
                             "\" carries a graph itself (create_graph=true), which holds the "
                             "parameter that holds the .grad: a cycle");
    finding.fix =
        "torch::autograd::grad(…, create_graph) instead of backward(create_graph), or "
        "zero_grad() that drops .grad (set_to_none) before the next backward";
  } else {
    finding.because = "most of the surviving nodes were made within backwards (create_graph=true)";
    finding.fix = "detach() what is kept of a gradient penalty; drop its graph behind the step";
  }
  return true;
}

bool explain_carried_state(const Survey& survey, LeakFinding& finding) {
  const int64_t ran = last_of(survey.earlier_nodes_run);
  if (ran == 0) return false;
  finding.because = concat("the last backward ran ",
                           ran,
                           " nodes of earlier iterations (retain_graph=true): a state is carried "
                           "from one to the next with its graph");
  finding.fix = "detach() the state between iterations (truncated backward), without retain_graph";
  return true;
}

bool explain_chain(const Survey& survey, LeakFinding& finding) {
  if (survey.chained.empty() || survey.chained_ends * 2 < static_cast<int64_t>(survey.ends) ||
      survey.graph_ends.empty())
    return false;
  const auto most = std::max_element(
      survey.chained.begin(), survey.chained.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      });
  const auto& [scope, op] = most->first;
  finding.because = concat(place_text(scope, op),
                           " joins each iteration's graph to those before: it takes a tensor that "
                           "still has the graph of an earlier iteration");
  finding.fix =
      "keep loss.item(), a double, in a sum of losses; detach() before the operator, or a "
      "NoGradGuard around a running average";
  return true;
}

void explain_kept_tensors(const Survey& survey, LeakFinding& finding) {
  const bool custom = !survey.graph_ends.empty() && survey.graph_ends.front().maker.second == 0;
  if (2 * survey.old_in_evaluation > survey.old_nodes) {
    finding.because = concat(
        "results of an evaluation are kept, and it built graphs: the last node "
        "of each is ",
        end_text(survey));
    finding.fix = "torch::NoGradGuard around the evaluation, in each thread that evaluates";
  } else if (custom) {
    finding.because =
        "the last node of each surviving graph is a custom autograd function's: its output, kept "
        "in its own context (saved_data), holds it";
    finding.fix = "ctx->save_for_backward(…) for inputs and outputs, saved_data for numbers only";
  } else {
    finding.because = concat(
        "a tensor that still has its graph is kept in each iteration; the last node of each "
        "surviving graph is ",
        end_text(survey));
    finding.fix =
        "keep t.detach(), or .item() of a number; a hook that captures its own tensor keeps it, "
        "too";
  }
}

}  // namespace

void explain_graph(const Survey& survey, LeakFinding& finding) {
  finding.held_by = "a retained autograd graph";
  if (explain_create_graph(survey, finding) || explain_carried_state(survey, finding) ||
      explain_chain(survey, finding))
    return;
  explain_kept_tensors(survey, finding);
}

}  // namespace muster::memory
