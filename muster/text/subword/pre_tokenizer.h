// The section `pre_tokenizer` of a tokenizer file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/text/subword/aligned_text.h"
#include "muster/text/subword/regex.h"
#include "muster/text/subword/section.h"

namespace muster::text {

/// Parts pieces of a text. One that changes the text as well rewrites it first.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  /// Of the steps that also change the text: true where `rewrite` is to be called.
  virtual bool rewrites(const AlignedText&, const Piece&) const { return false; }
  virtual void rewrite(const AlignedText&, const Piece& piece, Rewriter& out) const {
    out.keep(piece.begin, piece.end);
  }

  /// Puts the parts of `piece` into `out`, in order; what is left out is no part of any token.
  /// `matches` is room to work in.
  virtual void split(const AlignedText& text,
                     const Piece& piece,
                     std::vector<Match>& matches,
                     std::vector<Piece>& out) const = 0;
};

struct PreTokenizerChain {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  bool bytes =
      false;  ///< ends in ByteLevel: the model sees bytes, each as a letter of its alphabet
};

/// Throws an environment error for a type, a key or an order that Muster does not know.
PreTokenizerChain read_pre_tokenizers(const FileJson& json, const std::string& where);

}  // namespace muster::text
