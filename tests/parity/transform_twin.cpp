// What test_transforms.py compares with torchvision. On standard input stand, one behind the other, a
// line of JSON, {"chain", "seed", "shape", "dtype"}, and the image's bytes; on standard output stands
// for each a line {"shape", "dtype", "bytes"} and the bytes of what the chain makes of it, with
// torchvision's numbers for the seed.
#include <iostream>
#include <string>

#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/data/draws.h"
#include "muster/data/transform/transformed.h"

namespace {

namespace data = muster::data;

at::ScalarType dtype_of(const std::string& name) {
  return name == "uint8" ? at::kByte : name == "float32" ? at::kFloat : at::kDouble;
}
std::string name_of(at::ScalarType dtype) {
  return dtype == at::kByte ? "uint8" : dtype == at::kFloat ? "float32" : "float64";
}

torch::Tensor changed(const muster::Json& head, const torch::Tensor& image) {
  data::Sample sample{.tensors = {{"data", image}}};
  data::DataSpec spec{
      .name = "image", .sample_shape = {image.size(0), 0, 0}, .dtype = image.scalar_type()};
  data::TorchDraws draws = data::torch_draws(head.at("seed").get<uint64_t>());
  for (const data::TransformMaker& maker :
       data::parse_transforms(head.at("chain").get<std::string>())) {
    const auto step = maker(spec);
    step->apply(sample, draws);
    spec = step->spec();
  }
  return sample["data"].contiguous();
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  try {
    std::string line;
    while (std::getline(std::cin, line)) {
      const muster::Json head = muster::parse_json(line, "standard input");
      torch::Tensor image = torch::empty(head.at("shape").get<std::vector<int64_t>>(),
                                         dtype_of(head.at("dtype").get<std::string>()));
      std::cin.read(static_cast<char*>(image.mutable_data_ptr()),
                    static_cast<std::streamsize>(image.nbytes()));
      const torch::Tensor out = changed(head, image);
      const muster::Json answer{{"shape", out.sizes().vec()},
                                {"dtype", name_of(out.scalar_type())},
                                {"bytes", out.nbytes()}};
      std::cout << answer.dump() << '\n';
      std::cout.write(static_cast<const char*>(out.const_data_ptr()),
                      static_cast<std::streamsize>(out.nbytes()));
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
