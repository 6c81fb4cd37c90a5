// Which of a study's trials are best.
#include <cmath>

#include "muster/tune/objective/domination.h"
#include "muster/tune/views/history.h"

namespace muster::tune {

const TrialHistory* best_of(std::span<const TrialHistory> trials, const StudyFacts& facts) {
  const TrialHistory* best = nullptr;
  if (facts.goals.several()) return best;
  for (const bool finished : {true, false}) {
    for (const TrialHistory& trial : trials) {
      const double result = result_of(trial, facts);
      if (trial.state == TrialState::kFailed || is_over(trial.state) != finished ||
          std::isnan(result) || !trial.goals.is_feasible())
        continue;
      if (best == nullptr ||
          score_of(result, facts.mode) > score_of(result_of(*best, facts), facts.mode))
        best = &trial;
    }
    if (best != nullptr) return best;
  }
  return best;
}

std::vector<const TrialHistory*> front_of(std::span<const TrialHistory> trials,
                                          const StudyFacts& facts) {
  if (!facts.goals.several()) {
    const TrialHistory* best = best_of(trials, facts);
    return best == nullptr ? std::vector<const TrialHistory*>() : std::vector{best};
  }
  std::vector<const TrialHistory*> all, front;
  for (const TrialHistory& trial : trials) all.push_back(&trial);
  for (const size_t place : places_on_front(all, facts)) front.push_back(all[place]);
  return front;
}

std::vector<size_t> places_on_front(std::span<const TrialHistory* const> trials,
                                    const StudyFacts& facts) {
  std::vector<size_t> measured;
  std::vector<Losses> losses;
  for (size_t i = 0; i < trials.size(); ++i) {
    const GoalValues& values = trials[i]->goals;
    if (trials[i]->state != TrialState::kComplete || !values.is_feasible() ||
        !values.has_all_results())
      continue;
    measured.push_back(i);
    losses.push_back(scores_of(values.results, facts.goals.objectives));
    for (double& loss : losses.back()) loss = -loss;
  }
  const std::vector<int64_t> ranks = front_ranks(losses, 1);
  std::vector<size_t> front;
  for (size_t i = 0; i < measured.size(); ++i) {
    if (ranks[i] == 0) front.push_back(measured[i]);
  }
  return front;
}

}  // namespace muster::tune
