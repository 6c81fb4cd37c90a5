#include "muster/memory/leak/outside_verdict.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "muster/base/text.h"
#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/scope.h"
#include "muster/memory/leak/growth.h"

namespace muster::memory {
namespace {

/// What a node and a block take of the heap beside tensors' bytes, at most.
constexpr double kHeapBytesPerNode = 2048, kHeapBytesPerBlock = 512;

/// A total has no survivors that could be told from others: it has to rise nearly always.
bool rises_steadily(const Series& series, const LeakOptions& options) {
  return series.values().size() >= static_cast<size_t>(options.window) &&
         mostly_rises(series.values(), std::max(options.rising, 0.9)) &&
         keeps_its_growth(series.values());
}

/// What the kernel counts is noisy: it is told in pages, and some of them late.
bool rises_through_noise(const Series& series, const LeakOptions& options) {
  return series.values().size() >= static_cast<size_t>(options.window) &&
         rises_in_fifths(series.values()) && keeps_its_growth(series.values());
}

double slope_of(const Series& series) { return median_slope(series.values()); }

double least_of(const LeakOptions& options) {
  return static_cast<double>(options.least_bytes_per_iteration);
}

std::string bytes_text(double bytes) {
  return human_bytes(static_cast<uint64_t>(std::max(0.0, bytes)));
}

/// New code in nearly each iteration: kernels are compiled.
bool compiles(const Survey& survey, const LeakOptions& options) {
  const Series& code = survey.outside.code;
  return slope_of(code) > 0 && mostly_rises(code.values(), options.rising) &&
         keeps_its_growth(code.values());
}

/// Growth of the heap that neither graphs nor handles of tensors explain.
double heap_slope(const Survey& survey) {
  double slope = slope_of(survey.outside.heap) -
                 kHeapBytesPerNode * std::max(0.0, slope_of(survey.all_nodes.counts));
  for (const auto& [maker, group] : survey.blocks)
    slope -= kHeapBytesPerBlock * std::max(0.0, slope_of(group.counts));
  return slope;
}

LeakFinding heap_finding(double slope) {
  return {.kind = LeakKind::kHeap,
          .bytes_per_iteration = slope,
          .held_by = "memory that is not a tensor's",
          .because = "the C library's heap grows, and neither tensors nor compiled code do",
          .fix =
              "look at memory given to at::from_blob without a deleter, and at containers; "
              "TorchScript keeps the class of each Module::clone() (deepcopy() makes none), each "
              "CompilationUnit::define(), and under the legacy executor a plan for each kind of "
              "arguments; heaptrack names the call"};
}

LeakFinding kernel_finding(double slope, double code) {
  return {.kind = LeakKind::kKernels,
          .bytes_per_iteration = slope,
          .held_by = "kernels that are compiled for each new shape",
          .because = concat("the C library's heap grows with the code that is made at run time (",
                            bytes_text(code),
                            " of addresses per iteration), and the tensors do not: a cache, which "
                            "has an end, but a far one (oneDNN's and LibTorch's hold 1024 each)"),
          .fix =
              "pad inputs to a few sizes; or begin the program with smaller caches, "
              "ONEDNN_PRIMITIVE_CACHE_CAPACITY=64 LRU_CACHE_CAPACITY=64"};
}

void find_heap(const Survey& survey,
               const LeakOptions& options,
               std::vector<LeakFinding>& findings) {
  const double slope = heap_slope(survey);
  const bool kernels = compiles(survey, options);
  if (slope < least_of(options) * (kernels ? kKernelShare : 1) ||
      !rises_steadily(survey.outside.heap, options))
    return;
  LeakFinding finding =
      kernels ? kernel_finding(slope, slope_of(survey.outside.code)) : heap_finding(slope);
  finding.scope = name_of(survey.outside.scope_of(Gauge::kHeap, slope));
  findings.push_back(std::move(finding));
}

/// What has memory behind it, and is not of the heap. Addresses grow with it: else it is memory that was
/// taken once and is written bit by bit, or the heap's, free and not given back.
void find_mapped(const Survey& survey,
                 const LeakOptions& options,
                 std::vector<LeakFinding>& findings) {
  const Outside& outside = survey.outside;
  const double slope = std::min(slope_of(outside.resident), slope_of(outside.mapped));
  if (slope < least_of(options) || compiles(survey, options) ||
      !rises_through_noise(outside.resident, options) ||
      !rises_through_noise(outside.mapped, options))
    return;
  findings.push_back(
      {.kind = LeakKind::kMapped,
       .bytes_per_iteration = slope,
       .scope = name_of(outside.scope_of(Gauge::kMapped, slope_of(outside.mapped))),
       .held_by = "memory mapped past the heap",
       .because =
           concat("the process's resident memory grows by ",
                  bytes_text(slope_of(outside.resident)),
                  " per iteration beside what the C library's heap has in use, and so do its "
                  "addresses"),
       .fix =
           "look for files that are mapped and not unmapped (munmap in the deleter of "
           "at::from_blob), threads that do not end, and libraries with allocators of their own; "
           "/proc/PID/smaps names the mappings"});
}

/// Bytes of a device that a scope has announced are no leak. Nothing tells them by scope but their
/// growth, so all of the gauge's count.
bool is_announced(uint32_t scope, const Series& series) {
  const int64_t limit = allowed_growth(scope);
  return limit > 0 && series.values().back() <= limit;
}

void find_pinned(const Survey& survey,
                 const LeakOptions& options,
                 std::vector<LeakFinding>& findings) {
  const Series& pinned = survey.outside.pinned;
  const double slope = slope_of(pinned);
  if (slope < least_of(options) || !rises_steadily(pinned, options)) return;
  const uint32_t scope = survey.outside.scope_of(Gauge::kPinned, slope);
  if (is_announced(scope, pinned)) return;
  // Where it is the C library's, it is the same memory.
  std::erase_if(findings, [slope](const LeakFinding& finding) {
    return (finding.kind == LeakKind::kHeap || finding.kind == LeakKind::kMapped) &&
           std::abs(finding.bytes_per_iteration - slope) < slope / 2;
  });
  findings.push_back(
      {.kind = LeakKind::kPinned,
       .bytes_per_iteration = slope,
       .scope = name_of(scope),
       .held_by = "pinned memory",
       .because =
           concat("the pinned memory that its allocator holds has grown at nearly each end, to ",
                  bytes_text(static_cast<double>(pinned.values().back())),
                  "; blocks are powers of two, and one of another size is another block"),
       .fix =
           "keep one buffer of the greatest size and narrow() it, rather than one for each size"});
}

/// What is freed on a device and waits for streams that fall behind further and further.
void find_waiting(const Survey& survey,
                  const LeakOptions& options,
                  std::vector<LeakFinding>& findings) {
  const Series& waiting = survey.outside.waiting;
  const double slope = slope_of(waiting);
  if (slope < least_of(options) || !rises_steadily(waiting, options)) return;
  findings.push_back(
      {.kind = LeakKind::kWaiting,
       .bytes_per_iteration = slope,
       .scope = name_of(survey.outside.scope_of(Gauge::kWaiting, slope)),
       .held_by = "streams that fall behind",
       .because = concat(bytes_text(static_cast<double>(waiting.values().back())),
                         " on ",
                         survey.outside.device->str(),
                         " are freed, and wait for streams that record_stream() named; it was more "
                         "at each end"),
       .fix = "let the main stream wait for the side stream once per iteration "
              "(event.record(side), event.block(main)), or synchronise it every few iterations, so "
              "that it cannot run behind without end"});
}

/// Tensors of a device have no tags: their bytes and their number, which a batch that grows leaves as it
/// is.
void find_device(const Survey& survey,
                 const LeakOptions& options,
                 std::vector<LeakFinding>& findings) {
  const Outside& outside = survey.outside;
  const double slope = slope_of(outside.device_bytes);
  if (slope < least_of(options) || !rises_steadily(outside.device_bytes, options) ||
      !rises_steadily(outside.device_blocks, options))
    return;
  const uint32_t scope = outside.scope_of(Gauge::kDevice, slope);
  if (is_announced(scope, outside.device_bytes)) return;
  const double blocks = slope_of(outside.device_blocks);
  findings.push_back(
      {.kind = LeakKind::kDevice,
       .bytes_per_iteration = slope,
       .blocks_per_iteration = blocks,
       .scope = name_of(scope),
       .held_by = concat("handles of tensors on ", outside.device->str()),
       .because = concat(shortest(std::round(blocks * 10) / 10),
                         " more of its blocks live after each iteration, and no graph grows"),
       .fix =
           "give the list, the cache or the queue an end, or keep numbers (.item()) and copies on "
           "the host (.cpu())"});
}

}  // namespace

void find_outside(const Survey& survey,
                  const LeakOptions& options,
                  bool graphs_grow,
                  std::vector<LeakFinding>& findings) {
  find_heap(survey, options, findings);
  find_mapped(survey, options, findings);
  find_pinned(survey, options, findings);
  find_waiting(survey, options, findings);
  if (!graphs_grow) find_device(survey, options, findings);
}

}  // namespace muster::memory
