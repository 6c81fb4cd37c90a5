// The section `normalizer` of a tokenizer file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/text/subword/aligned_text.h"
#include "muster/text/subword/regex.h"
#include "muster/text/subword/section.h"

namespace muster::text {

/// What a normalizer needs while it works, kept from call to call.
struct NormalizerRoom {
  std::vector<Change> changes;
  std::vector<Change> composed;
  std::vector<int> classes;
  std::vector<Match> matches;
};

/// Changes pieces of a text one by one; safe from any threads at once.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// Writes `piece` of `from` anew. `out` may get nothing.
  virtual void apply(const AlignedText& from,
                     const Piece& piece,
                     Rewriter& out,
                     NormalizerRoom& room) const = 0;

  /// Nothing happens to a text of ASCII characters alone.
  virtual bool leaves_ascii() const { return false; }
};

using NormalizerChain = std::vector<std::unique_ptr<const Normalizer>>;

/// In the order in which they work, sequences taken apart. Throws an environment error for a type
/// or a key that Muster does not know.
NormalizerChain read_normalizers(const FileJson& json, const std::string& where);

/// A text by itself, as an added token that is to be found in normalized text.
std::string normalized(const NormalizerChain& chain, std::string_view text);

}  // namespace muster::text
