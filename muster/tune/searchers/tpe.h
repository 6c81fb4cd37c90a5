// The tree-structured Parzen estimator: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

struct TpeOptions {
  int64_t startup = 10;          ///< random trials first: until so many have finished
  int64_t candidates = 24;       ///< draws, of which the most promising one is suggested
  double good_share = 0.1;       ///< of finished trials that count as good ("gamma")
  int64_t good_most = 25;        ///< trials that count as good, at most
  double prior_weight = 1;       ///< of "anything may be good", in trials
  int64_t recent = 25;           ///< latest trials with full weight; older ones fade
  bool multivariate = true;      ///< parameters are modelled together
  bool group = false;            ///< conditional ones too, those together that come together
  bool constant_liar = true;     ///< trials under way count as bad, so that others look elsewhere
  std::string failed = "worst";  ///< "worst": failed trials count as bad; "ignore": as nothing
};

/// The searcher as StudySpec::searcher names it: "tpe:candidates=48".
std::string tpe(const TpeOptions& options);

}  // namespace muster::tune
