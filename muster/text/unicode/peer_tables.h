// Where `tokenizers` 0.23 has other versions of Unicode than utf8proc: what is in the way of equal ids.
#pragma once

namespace muster::text {

/// P*, Mn and C* less unassigned ones, as the crate unicode_categories has them, by which BERT's
/// steps go: of Unicode 8, with two slips.
bool is_bert_punctuation(char32_t c);
bool is_bert_nonspacing_mark(char32_t c);
bool is_bert_control(char32_t c);

/// M*, as the crate of the normal forms has it: Unicode 9, less some.
bool is_peer_mark(char32_t c);

/// L* and N* of Unicode 16, as Oniguruma and Rust have them.
bool is_peer_letter(char32_t c);
bool is_peer_number(char32_t c);

}  // namespace muster::text
