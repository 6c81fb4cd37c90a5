#include "muster/parallel/pipeline_ranks/gathered_spans.h"

#include <cstring>
#include <string>
#include <type_traits>

namespace muster::parallel {

std::vector<std::vector<pipeline::Span>> gather_spans(const distributed::ProcessGroup& ranks,
                                                      const std::vector<pipeline::Span>& own,
                                                      std::chrono::milliseconds timeout) {
  static_assert(std::is_trivially_copyable_v<pipeline::Span>);
  std::string bytes(own.size() * sizeof(pipeline::Span), '\0');
  std::memcpy(bytes.data(), own.data(), bytes.size());
  std::vector<std::vector<pipeline::Span>> all;
  for (const std::string& theirs : ranks.all_gather_text(bytes, timeout)) {
    std::vector<pipeline::Span>& spans = all.emplace_back(theirs.size() / sizeof(pipeline::Span));
    std::memcpy(spans.data(), theirs.data(), theirs.size());
  }
  return all;
}

}  // namespace muster::parallel
