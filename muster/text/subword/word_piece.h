// WordPiece: the longest piece of the vocabulary first, as BERT has it.
#pragma once

#include "muster/text/subword/model.h"

namespace muster::text {

std::unique_ptr<const Model> read_word_piece_model(Section& section);

}  // namespace muster::text
