#include "benchmarks/tune/schedulers/learning_curves.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::benchmarks {
namespace {

/// Columns of configs.csv and of curves.csv.
enum ConfigColumn {
  kConfig,
  kModel,
  kWidth,
  kLayers,
  kOptimizer,
  kRate,
  kBatch,
  kDecay,
  kConfigColumns
};
enum CurveColumn { kOfConfig, kEpoch, kLoss, kAccuracy, kSeconds, kCurveColumns };

using Row = std::vector<std::string>;

std::vector<Row> rows_of(const std::string& path, size_t columns, const std::string& header) {
  std::ifstream file(path);
  std::string line;
  std::vector<Row> rows;
  std::getline(file, line);
  if (line != header)
    throw usage_error({.refused = path, .rule = "its first line is " + header, .value = line});
  while (std::getline(file, line)) {
    Row row = split(line, ',');
    if (row.size() != columns)
      throw usage_error(
          {.refused = path, .rule = concat("each line has ", columns, " cells"), .value = line});
    rows.push_back(std::move(row));
  }
  return rows;
}

struct Parameters {
  bool is_cnn = false;
  double width = 1, layers = 1, rate = 1, batch = 1, decay = 0;
};

/// Where a network is among those of its model and optimizer.
std::vector<double> place_of(const Parameters& of) {
  const double widths = of.is_cnn ? 3 : 5;  // doublings from the narrowest to the widest
  const double decay = of.decay == 0 ? 0 : of.decay < 5e-4 ? 0.5 : 1;
  return {std::log10(of.rate),  // three decades
          std::log2(of.width) / widths,
          of.is_cnn ? 0 : of.layers / 2,
          std::log2(of.batch) / 4,
          0.3 * decay};
}

double median_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  const size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}

}  // namespace

LearningCurves LearningCurves::read(const std::string& curves, const std::string& configs) {
  LearningCurves table;
  std::map<std::string, size_t> index;
  for (const Row& row : rows_of(configs,
                                kConfigColumns,
                                "config,model,width,layers,optimizer,lr,batch_size,weight_decay")) {
    Network network{.is_cnn = row[kModel] == "cnn", .is_adamw = row[kOptimizer] == "adamw"};
    Parameters of{.is_cnn = network.is_cnn,
                  .width = std::stod(row[kWidth]),
                  .rate = std::stod(row[kRate]) / (network.is_adamw ? 0.05 : 1),
                  .batch = std::stod(row[kBatch]),
                  .decay = std::stod(row[kDecay])};
    if (!network.is_cnn) of.layers = std::stod(row[kLayers]);
    network.place = place_of(of);
    network.kind = concat(row[kModel], ' ', row[kWidth], ' ', row[kLayers]);
    index[row[kConfig]] = table.networks_.size();
    table.networks_.push_back(std::move(network));
  }
  for (const Row& row : rows_of(curves, kCurveColumns, "config,epoch,loss,accuracy,seconds")) {
    const auto at = index.find(row[kOfConfig]);
    if (at == index.end())
      throw usage_error({.refused = curves,
                         .rule = "its configurations are those of " + configs,
                         .value = row[kOfConfig]});
    Network& network = table.networks_[at->second];
    network.accuracy.push_back(std::stod(row[kAccuracy]));
    network.recorded_s = std::stod(row[kSeconds]);
  }
  std::erase_if(table.networks_, [](const Network& network) { return network.accuracy.empty(); });
  if (table.networks_.empty())
    throw usage_error({.refused = curves, .rule = "it has learning curves"});
  table.take_medians();
  return table;
}

void LearningCurves::take_medians() {
  std::map<std::string, std::vector<double>> seconds;
  for (const Network& network : networks_) seconds[network.kind].push_back(network.recorded_s);
  for (Network& network : networks_) network.epoch_s = median_of(seconds[network.kind]);
}

void LearningCurves::count_epochs() {
  for (Network& network : networks_) network.epoch_s = 1;
}

tune::Space LearningCurves::space() {
  using tune::choice;
  using tune::sample_from;
  return tune::Space(std::vector<tune::Parameter>{
      {.name = "model", .domain = choice({"mlp", "cnn"})},
      {.name = "mlp_width", .domain = sample_from("2 ** randint(3, 9)"), .when = "model == 'mlp'"},
      {.name = "layers", .domain = tune::randint(1, 4), .when = "model == 'mlp'"},
      {.name = "cnn_width", .domain = sample_from("2 ** randint(1, 5)"), .when = "model == 'cnn'"},
      {.name = "optimizer", .domain = choice({"sgd", "adamw"})},
      {.name = "lr", .domain = tune::loguniform(1e-3, 1)},  // of adamw: 0.05 of it
      {.name = "batch_size", .domain = sample_from("2 ** randint(4, 9)")},
      {.name = "weight_decay", .domain = choice({0.0, 1e-4, 1e-3})}});
}

size_t LearningCurves::network_of(const tune::Trial& trial, bool once, Taken& taken) const {
  const auto [known, is_new] = taken.of_trial.try_emplace(trial.number, 0);
  if (is_new) {
    const bool is_left = once && taken.networks.size() < networks_.size();
    known->second = nearest(trial, is_left ? taken.networks : std::set<size_t>());
    taken.networks.insert(known->second);
  }
  return known->second;
}

/// Another model or optimizer is further away than anything.
size_t LearningCurves::nearest(const tune::Trial& trial, const std::set<size_t>& but) const {
  const tune::Values& values = trial.values;  // in the order of space()
  Parameters of{.is_cnn = values[0].as_text() == "cnn"};
  of.width = static_cast<double>(values[of.is_cnn ? 3 : 1].as_int());
  if (!of.is_cnn) of.layers = static_cast<double>(values[2].as_int());
  const bool is_adamw = values[4].as_text() == "adamw";
  of.rate = values[5].as_double();
  of.batch = static_cast<double>(values[6].as_int());
  of.decay = values[7].as_double();
  const std::vector<double> place = place_of(of);
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < networks_.size(); ++i) {
    const Network& network = networks_[i];
    if (but.contains(i)) continue;
    double distance = 1e3 * (network.is_cnn != of.is_cnn) + 1e2 * (network.is_adamw != is_adamw);
    for (size_t k = 0; k < place.size(); ++k)
      distance += (place[k] - network.place[k]) * (place[k] - network.place[k]);
    if (distance < least) least = distance, best = i;
  }
  return best;
}

tune::SimulatedTraining LearningCurves::training(bool once, Taken& taken) const {
  using State = tune::SimulatedTraining::State;
  size_t epochs = 0;
  for (const Network& network : networks_) epochs = std::max(epochs, network.accuracy.size());
  const auto network = [this, once, &taken](const tune::Trial& trial) {
    return network_of(trial, once, taken);
  };
  return {.begin = [network](const tune::Trial& trial) -> State {
            return {static_cast<double>(network(trial))};
          },
          .step = [](const tune::Trial&, int64_t, State&) {},
          .metric =
              [this](const tune::Trial&, int64_t t, const State& state) {
                const auto& curve = networks_[static_cast<size_t>(state[0])].accuracy;
                return curve[std::min(static_cast<size_t>(t), curve.size()) - 1];
              },
          .step_s = [this, network](
                        const tune::Trial& trial) { return networks_[network(trial)].epoch_s; },
          .steps = static_cast<int64_t>(epochs)};
}

double LearningCurves::full_training_s() const {
  double sum = 0;
  for (const Network& network : networks_)
    sum += network.epoch_s * static_cast<double>(network.accuracy.size());
  return sum / static_cast<double>(networks_.size());
}

double LearningCurves::best_accuracy() const {
  double best = 0;
  for (const Network& network : networks_) {
    for (const double accuracy : network.accuracy) {
      if (accuracy > best) best = accuracy;  // false for NaN
    }
  }
  return best;
}

}  // namespace muster::benchmarks
