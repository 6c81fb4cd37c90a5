#include "muster/diagnose/log/ready_catalogue.h"

namespace muster::diagnose {
namespace {

ReadyCatalogue make_ready_catalogue() {
  ReadyCatalogue ready;
  for (const ErrorFamilyEntry* family : error_families()) {
    for (const ErrorRow& row : family->rows) {
      for (const Pattern& pattern : row.patterns) {
        const bool guess = pattern.depth == Depth::kGuess;
        (guess ? ready.guesses : ready.patterns).add(pattern.text);
        (guess ? ready.guess_meanings : ready.meanings)
            .push_back({.row = ready.rows.size(), .pattern = &pattern});
      }
      for (size_t cause = 0; cause < row.causes.size(); ++cause) {
        if (row.causes[cause].when.empty()) continue;
        ready.patterns.add(row.causes[cause].when);
        ready.meanings.push_back({.row = ready.rows.size(), .cause = cause});
      }
      ready.rows.push_back(&row);
    }
  }
  ready.patterns.build();
  ready.guesses.build();
  return ready;
}

}  // namespace

const ReadyCatalogue& ready_catalogue() {
  static const ReadyCatalogue ready = make_ready_catalogue();
  return ready;
}

}  // namespace muster::diagnose
