// Which row's messages a text is most like, where no pattern of the catalogue fits it. Private to the room.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace muster::diagnose {

/// The likeliest row of the learned ones.
struct Likeness {
  std::string_view row;    ///< its name; "none" of texts in which nothing failed
  double probability = 0;  ///< by the model, of all rows and "none"
  int known_words = 0;     ///< of the text, that the model knows, without pairs
};

// Note [Likeness]
// Half of what the catalogue misses says a known thing in words of its own ("attempt to allocate … exceeds what the card has
// left"). What messages of a row have in common was learned from those of the corpus and from the patterns: a weight for
// each word and row (multinomial logistic regression over words and pairs, each by its inverse document frequency, of length 1 in all;
// scripts/learn_words.py writes words.txt). It is asked only of a log in which nothing was recognised, and of its end, where programs
// say why they stop; what it finds has low confidence. Logs of healthy runs were learned as a row of
// their own.
Likeness likeliest_row(const std::set<std::string>& words);

/// What the words of one line say for a row, against all others.
double likeness_of_line(std::string_view line, std::string_view row);

/// The text of words.txt (generated from it).
extern const std::string_view kLearnedWords;

}  // namespace muster::diagnose
