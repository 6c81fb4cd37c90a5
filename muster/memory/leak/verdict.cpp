#include "muster/memory/leak/verdict.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "muster/base/text.h"
#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/scope.h"
#include "muster/memory/leak/graph_cause.h"
#include "muster/memory/leak/growth.h"
#include "muster/memory/leak/outside_verdict.h"

namespace muster::memory {
namespace {

bool rises(const Series& series, const LeakOptions& options) {
  return mostly_rises(series.values(), options.rising) && median_slope(series.values()) > 0 &&
         keeps_its_growth(series.values());
}

bool survives(uint64_t born, const LeakOptions& options) {
  // Not all of the window: a queue that is filled faster than it is emptied loses its oldest.
  return survivors_throughout(born, kOldAge, 3 * options.window / 5, options.rising);
}

/// Blocks that operators under gradients made, and those of a scope whose nodes survive: a custom
/// function computes without gradients.
bool is_held_by_graphs(const Survey& survey, const MakerKey& maker, const LeakOptions& options) {
  if (is_of_graphs(survey.blocks.at(maker))) return true;
  const auto nodes = survey.nodes.find(maker.first);
  return nodes != survey.nodes.end() && rises(nodes->second.counts, options) &&
         survives(nodes->second.born, options);
}

bool grows(const BlockGroup& group, const LeakOptions& options) {
  return rises(group.bytes, options) && rises(group.counts, options) &&
         survives(group.born, options);
}

/// Groups that grow, of one finding.
struct Growing {
  double bytes = 0, blocks = 0;
  MakerKey top{};
  const BlockGroup* group = nullptr;  // of `top`
  double top_bytes = -1;

  void add(const MakerKey& maker, const BlockGroup& more) {
    const double slope = median_slope(more.bytes.values());
    bytes += slope;
    blocks += median_slope(more.counts.values());
    if (slope <= top_bytes) return;
    top_bytes = slope;
    top = maker;
    group = &more;
  }
};

LeakFinding finding_of(LeakKind kind, const Growing& growing) {
  LeakFinding finding{
      .kind = kind, .bytes_per_iteration = growing.bytes, .blocks_per_iteration = growing.blocks};
  if (growing.group == nullptr) return finding;
  finding.scope = name_of(growing.top.first);
  finding.op = name_of(growing.top.second);
  finding.layer = layer_of(growing.group->layer);
  return finding;
}

bool is_view(const std::string& op) {
  static constexpr const char* kViews[] = {"aten::slice",
                                           "aten::select",
                                           "aten::narrow",
                                           "aten::view",
                                           "aten::as_strided",
                                           "aten::unfold",
                                           "aten::expand",
                                           "aten::split",
                                           "aten::chunk",
                                           "aten::permute",
                                           "aten::t",
                                           "aten::transpose"};
  return std::any_of(std::begin(kViews), std::end(kViews), [&](const char* v) { return op == v; });
}

/// Blocks that handles hold: which handles, the allocator cannot know.
LeakFinding held_by_handles(const Growing& growing) {
  LeakFinding finding = finding_of(LeakKind::kTensors, growing);
  const std::string last = name_of(growing.group->last_op);
  const auto threads = static_cast<double>(growing.group->threads.size());
  const double blocks = std::round(growing.blocks * 10) / 10;
  finding.because = concat(shortest(blocks),
                           blocks == 1 ? " more block lives" : " more blocks live",
                           " after each iteration, and those of nearly every earlier one are still "
                           "there");
  if (threads > 4 && threads > 0.5 * static_cast<double>(growing.group->old)) {
    finding.held_by = "threads that do not end";
    finding.because += concat("; they were made in ", threads, " threads");
    finding.fix = "join the threads, or keep a few of them for all requests";
  } else if (is_view(last)) {
    finding.held_by = "small views, perhaps";
    finding.because += concat(
        "; the last operator that took one was ", last, ", whose result keeps the whole block");
    finding.fix = "keep a .clone() of the part, and let the whole go";
  } else {
    finding.held_by = "handles (a list, a cache, a queue, or a cycle of shared_ptr)";
    if (!last.empty()) finding.because += concat("; the last operator that took one was ", last);
    finding.fix =
        "give the container an end, or keep numbers (.item()) and copies on the host; an object "
        "that holds itself (module and parent, a hook or deleter that captures its tensor) needs a "
        "weak_ptr; memory::release(t) says how many handles are left";
  }
  return finding;
}

/// Of each scope, the groups that grow and are not the graphs'.
void find_handles(const Survey& survey,
                  const LeakOptions& options,
                  bool graphs_grow,
                  std::vector<LeakFinding>& findings) {
  const double least = std::max(static_cast<double>(options.least_bytes_per_iteration),
                                options.least_share * static_cast<double>(survey.live_bytes));
  std::map<uint32_t, Growing> by_scope;
  for (const auto& [maker, group] : survey.blocks) {
    if (!grows(group, options)) continue;
    if (graphs_grow && is_held_by_graphs(survey, maker, options)) continue;
    by_scope[maker.first].add(maker, group);
  }
  for (const auto& [scope, growing] : by_scope) {
    if (growing.bytes < least) continue;
    if (const int64_t limit = allowed_growth(scope); limit > 0) {
      int64_t now = 0;
      for (const auto& [maker, group] : survey.blocks)
        now += maker.first == scope ? group.bytes_now : 0;
      if (now <= limit) continue;
    }
    findings.push_back(held_by_handles(growing));
  }
}

void find_graphs(const Survey& survey, const LeakOptions& options, LeakFinding& finding) {
  Growing growing;
  for (const auto& [maker, group] : survey.blocks) {
    if (grows(group, options) && is_held_by_graphs(survey, maker, options))
      growing.add(maker, group);
  }
  finding = finding_of(LeakKind::kGraph, growing);
  finding.nodes_per_iteration = median_slope(survey.all_nodes.counts.values());
  if (growing.group == nullptr && !survey.graph_ends.empty()) {
    finding.scope = name_of(survey.graph_ends.front().maker.first);
    finding.op = name_of(survey.graph_ends.front().maker.second);
  }
  explain_graph(survey, finding);
}

/// "thread 1", "threads 2, 3", "threads 2, 3, 4, 5 and others".
std::string threads_text(const std::set<uint16_t>& threads) {
  constexpr size_t kTold = 4;
  std::string text = threads.size() == 1 ? "thread" : "threads";
  size_t told = 0;
  for (const uint16_t thread : threads) {
    if (told == kTold) return text + " and others";
    text += concat(told++ == 0 ? " " : ", ", thread);
  }
  return text;
}

/// Scopes in which nodes are made while the model evaluates, none of which ever runs.
void find_evaluations(const Survey& survey, std::vector<LeakFinding>& findings) {
  constexpr int64_t kIterations = 3;
  for (const auto& [scope, count] : survey.evaluations) {
    if (count.iterations < kIterations || survey.ran_backward(scope)) continue;
    LeakFinding finding{.kind = LeakKind::kEvaluationGraph,
                        .nodes_per_iteration = static_cast<double>(count.made) /
                                               static_cast<double>(count.iterations)};
    finding.scope = name_of(scope);
    finding.held_by = "graphs that no backward runs";
    finding.because = concat("the model is in eval() and gradients are on in ",
                             threads_text(count.threads),
                             ", so each evaluation keeps all its activations to its end");
    finding.fix =
        "torch::NoGradGuard (or c10::InferenceMode) around the evaluation, in each thread that "
        "evaluates: the guard is the thread's";
    findings.push_back(std::move(finding));
  }
}

}  // namespace

std::vector<LeakFinding> findings_of(const Survey& survey, const LeakOptions& options) {
  std::vector<LeakFinding> findings;
  const bool graphs_grow =
      rises(survey.all_nodes.counts, options) && survives(survey.all_nodes.born, options);
  if (graphs_grow) find_graphs(survey, options, findings.emplace_back());
  find_handles(survey, options, graphs_grow, findings);
  find_outside(survey, options, graphs_grow, findings);
  find_evaluations(survey, findings);
  std::stable_sort(findings.begin(), findings.end(), [](const auto& a, const auto& b) {
    return a.bytes_per_iteration > b.bytes_per_iteration;
  });
  return findings;
}

}  // namespace muster::memory
