// Vocabularies in files: our own form, and plain lists of words.
//
// Note [Vocabulary files]
//     muster vocabulary 1
//     default_index 0            or: default_index none
//     tokens 3
//     <unk>
//     new\nline
//     back\\slash
// UTF-8, each line ended by a newline, one token a line in the order of ids. Within a token \n, \r
// and \\ stand for what would not survive as it is; no other escapes. The number of tokens shows a
// file that was cut off.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "muster/text/vocab/vocab.h"

namespace muster::text {

std::string vocab_text(const Vocab& vocab);

/// Throws an environment error that names `name` and the line.
Vocab parse_vocab(std::string_view text, std::string_view name);

/// Readers see the old file or the new one. Throws an environment error.
void save_vocab(const std::filesystem::path& path, const Vocab& vocab);

/// Throws a usage error if there is no such file, an environment error if it is no vocabulary.
Vocab load_vocab(const std::filesystem::path& path);

/// A list with a token a line, as BERT's vocab.txt: white space at the end of a line is left out, and
/// the last line may lack its newline. Throws as load_vocab does, also for a token that is there
/// twice and for an empty line.
Vocab load_word_list(const std::filesystem::path& path);
Vocab parse_word_list(std::string_view text, std::string_view name);

}  // namespace muster::text
