// Metrics that are made of others: the same however samples are divided.
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/train/metrics/meter.h"

namespace muster {
namespace {

using train::Meter;
using train::Metric;
using train::Reduce;

Meter::List made_metrics() {
  return std::make_shared<const std::vector<Metric>>(std::vector<Metric>{
      {.name = "root",
       .wants_less = true,
       .of = {"square"},
       .formula = [](std::span<const double> values) { return std::sqrt(values[0]); }},
      {.name = "span",
       .of = {"most", "least"},
       .formula = [](std::span<const double> values) { return values[0] - values[1]; }},
      {.name = "square", .is_hidden = true},
      {.name = "least", .reduce = Reduce::kMin, .is_hidden = true},
      {.name = "most", .reduce = Reduce::kMax}});
}

void add_samples(Meter& meter, std::initializer_list<double> samples) {
  double squares = 0, least = *samples.begin(), most = least;
  for (const double sample : samples) {
    squares += sample * sample;
    least = std::min(least, sample);
    most = std::max(most, sample);
  }
  const auto count = static_cast<double>(samples.size());
  meter.add_loss(1, count);
  meter.add(2, squares, count);
  meter.add(3, least, count);
  meter.add(4, most, count);
}

TEST(MetricFormula, IsOfTheSumsOfAllBatchesAndOfAllRanks) {
  Meter whole(made_metrics());
  add_samples(whole, {1, 2, 3, 4, 5, 6});
  const train::Metrics expected = whole.metrics();
  ASSERT_EQ(expected.items().size(), 4U) << "the loss and what is not hidden";
  EXPECT_DOUBLE_EQ(expected["root"], std::sqrt(91.0 / 6));
  EXPECT_EQ(expected["span"], 5);
  EXPECT_EQ(expected["most"], 6);

  Meter one(made_metrics()), other(made_metrics());
  add_samples(one, {1, 2, 3, 4, 5});
  add_samples(other, {6});
  // As evaluate() has it: sums are added, of maxima the greatest is taken.
  std::vector<double> sums = one.sums(), maxima = one.maxima();
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += other.sums()[i];
  for (size_t i = 0; i < maxima.size(); ++i) maxima[i] = std::max(maxima[i], other.maxima()[i]);
  Meter all(made_metrics());
  all.set_sums(sums.data(), maxima.data());
  EXPECT_EQ(all.metrics(), expected);
  one.add(other);
  EXPECT_EQ(one.metrics(), expected);
  Meter read(made_metrics());
  read.load(one.to_json());
  EXPECT_EQ(read.metrics(), expected);
}

TEST(MetricFormula, IsLeftOutWhereWhatItIsMadeOfIsNotThere) {
  Meter meter(made_metrics());
  meter.add_loss(1, 2);
  meter.add(2, 8, 2);
  const train::Metrics seen = meter.metrics();
  EXPECT_EQ(seen["root"], 2);
  EXPECT_EQ(seen.find("span"), nullptr);
  EXPECT_EQ(seen.find("square"), nullptr) << "hidden";
}

TEST(MetricFormula, HiddenOnesAreNotShown) {
  std::vector<std::string> names;
  for (const Metric& metric : train::shown_metrics(*made_metrics())) names.push_back(metric.name);
  EXPECT_EQ(names, (std::vector<std::string>{"root", "span", "most"}));
}

}  // namespace
}  // namespace muster
