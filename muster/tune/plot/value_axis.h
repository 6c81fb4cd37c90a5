// The axis of a hyperparameter or a metric: where a value lies on it, and what its ticks say.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "muster/track/page/axis.h"
#include "muster/tune/space/value.h"

namespace muster::tune {

struct AxisTick {
  double place = 0;  ///< 0 … 1 along the axis
  std::string label;
};

/// Of numbers, by themselves or by their logarithms, or of categories. Immutable.
class ValueAxis {
 public:
  /// Of a parameter that was declared as `domain` ("loguniform(1e-4, 1e-1)"; "" for one of Optuna's,
  /// which is told from its values) and had `values`, those that are nothing left out. Numbers get
  /// room at both ends; categories are in the order of the domain.
  ValueAxis(std::string name,
            const std::string& domain,
            std::span<const Value> values,
            bool log = false);

  /// Of a metric with these finite values: logarithmic if all are above 0 and span over two decades.
  ValueAxis(std::string name, std::span<const double> values);

  const std::string& name() const { return name_; }
  bool is_log() const { return !is_category() && scale_.log; }
  bool is_category() const { return !categories_.empty(); }
  size_t categories() const { return categories_.size(); }

  /// One value in all trials, or none.
  bool is_constant() const { return distinct_ < 2; }

  /// 0 … 1; nothing for a value that is none, and for a number that is not finite.
  std::optional<double> place(const Value& value) const;
  double at(double number) const;

  /// At most `most`, or all categories; rising.
  std::vector<AxisTick> ticks(int most) const;

  /// The share of the axis that a category has; 0 for numbers.
  double slot() const;

 private:
  void set_numbers(std::span<const double> numbers, bool log);
  void keep_few(const std::set<double>& distinct);
  void set_categories(const std::string& domain, std::span<const Value> values);

  std::string name_;
  track::Axis scale_;
  bool whole_ = true;  ///< all numbers are
  size_t distinct_ = 0;
  std::vector<double> few_;  ///< the numbers, if they are whole and few and lie evenly
  std::vector<std::string> categories_;
  std::map<std::string, size_t, std::less<>> slots_;
};

}  // namespace muster::tune
