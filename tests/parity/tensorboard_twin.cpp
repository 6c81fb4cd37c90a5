// Makes the calls of a JSON list on a TensorBoardWriter: tensorboard_twin calls.json FOLDER.
// Each call is [method, arguments…]; see test_tensorboard.py, which makes the same on
// SummaryWriter. "purge_step" of the first call, "open", is null or a step.
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/track/tensorboard/tensorboard.h"

namespace {

using namespace muster;

std::vector<double> numbers(const Json& list) {
  std::vector<double> out;
  for (const Json& item : list) {
    out.push_back(item.is_string() ? std::stod(item.get<std::string>()) : item.get<double>());
  }
  return out;
}

track::HParams hparams(const Json& object) {
  track::HParams out;
  for (const auto& [name, value] : object.items()) {
    if (value.is_boolean()) {
      out.emplace_back(name, value.get<bool>());
    } else if (value.is_string()) {
      out.emplace_back(name, value.get<std::string>());
    } else {
      out.emplace_back(name, value.get<double>());
    }
  }
  return out;
}

void make(track::TensorBoardWriter& writer, const Json& call) {
  const std::string method = call[0];
  if (method == "scalar") {
    writer.add_scalar(
        call[1].get<std::string>(), numbers({call[2]})[0], call[3], call[4].get<double>());
  } else if (method == "text") {
    writer.add_text(
        call[1].get<std::string>(), call[2].get<std::string>(), call[3], call[4].get<double>());
  } else if (method == "histogram") {
    writer.add_histogram(
        call[1].get<std::string>(), numbers(call[2]), call[3], call[4].get<double>());
  } else if (method == "histogram32") {
    const std::vector<double> wide = numbers(call[2]);
    const std::vector<float> values(wide.begin(), wide.end());
    writer.add_histogram(call[1].get<std::string>(), values, call[3], call[4].get<double>());
  } else if (method == "image") {
    const std::vector<uint8_t> pixels = call[3];
    const track::Image image{call[2][0], call[2][1], call[2][2], pixels};
    writer.add_image(call[1].get<std::string>(), image, call[4], call[5].get<double>());
  } else if (method == "hparams") {
    track::Metrics metrics;
    for (const auto& [tag, value] : call[2].items()) metrics.emplace_back(tag, value.get<double>());
    writer.add_hparams(hparams(call[1]), metrics);
  } else if (method == "start_hparams") {
    writer.start_hparams(hparams(call[1]), call[2].get<std::vector<std::string>>());
  } else if (method == "end_hparams") {
    writer.end_hparams(call[1] ? track::RunStatus::kSuccess : track::RunStatus::kFailure);
  } else {
    throw std::invalid_argument("unknown method " + method);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Json calls = parse_json(read_file(argv[1]), argv[1]);
  track::TensorBoardOptions options;
  if (!calls[0][1].is_null()) options.purge_step = calls[0][1].get<int64_t>();
  track::TensorBoardWriter writer(argv[2], options);
  for (size_t i = 1; i < calls.size(); ++i) make(writer, calls[i]);
  std::cout << writer.path().string() << '\n';
}
