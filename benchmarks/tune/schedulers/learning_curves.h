// Learning curves of networks that were trained once (learning_curves/make.py), to be trained again by
// simulated studies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/tune/space/space.h"

#include "tests/tune/simulated_study.h"

namespace muster::benchmarks {

/// A trial is the trained network that is nearest to its parameters, and reports the accuracies that
/// were recorded of that one. So a study sees a function with steps: near a good network there is often
/// that network again. Or, `once`, the nearest one that the study has not trained yet: then it is near a
/// good network as with real training, where none comes twice, but ever further away.
///
/// Nearest: of the same model and optimizer, by Euclid, each parameter in units of its range; lr counts
/// for three, weight_decay for 0.3 of the others. An epoch takes the median time of the networks of the
/// same model, width and layers: single ones were recorded on a machine that stood still at times.
class LearningCurves {
 public:
  /// Both files as make.py writes them (the curves unpacked). Throws a usage error for others.
  static LearningCurves read(const std::string& curves, const std::string& configs);

  /// What make.py draws from, but that both models are as likely.
  static tune::Space space();

  /// Of one study, with which networks each of its trials is; refers to this object.
  struct Taken {
    std::map<int64_t, size_t> of_trial;
    std::set<size_t> networks;
  };
  tune::SimulatedTraining training(bool once, Taken& taken) const;

  /// From now on an epoch of any network takes a second: who trains small ones has no advantage.
  void count_epochs();

  double full_training_s() const;  ///< of one network, on the average
  double best_accuracy() const;    ///< of any network after any epoch
  size_t size() const { return networks_.size(); }

 private:
  struct Network {
    bool is_cnn = false, is_adamw = false;
    std::vector<double> place;  ///< in units of the ranges, weighted
    std::string kind;           ///< model, width, layers
    std::vector<double> accuracy;
    double recorded_s = 0, epoch_s = 0;
  };
  size_t network_of(const tune::Trial& trial, bool once, Taken& taken) const;
  size_t nearest(const tune::Trial& trial, const std::set<size_t>& but) const;
  void take_medians();

  std::vector<Network> networks_;
};

}  // namespace muster::benchmarks
