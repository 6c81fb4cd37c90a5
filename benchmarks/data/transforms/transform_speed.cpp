// The C++ side of benchmarks/data/transforms: what peer.py does, by Muster.
//
//     build/bin/transform_speed IMAGE HEIGHT WIDTH CHAIN …
//
// IMAGE has 3 x HEIGHT x WIDTH bytes. Applies each chain to it again and again, and prints a JSON
// object: for each chain the processor seconds of one time, and the sum of the result's bytes.
#include <ctime>
#include <iostream>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/data/draws.h"
#include "muster/data/transform/transformed.h"

namespace {

namespace data = muster::data;

double processor_s() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

muster::Json measured(const std::string& chain, const at::Tensor& image) {
  data::DataSpec spec{
      .name = "image", .sample_shape = image.sizes().vec(), .dtype = image.scalar_type()};
  const auto step = data::parse_transforms(chain).at(0)(spec);
  int64_t index = 0;
  const auto once = [&] {
    data::Sample sample{.tensors = {{"data", image}}};
    data::Rng rng(1, 0, index++);
    step->apply(sample, rng);
    return sample["data"].contiguous();
  };
  const auto sum = once().sum().item<int64_t>();
  constexpr double kLongEnough = 0.1;
  int64_t times = 0;
  const double begin = processor_s();
  double now = begin;
  while (now - begin < kLongEnough) {
    for (int i = 0; i < 4; ++i) once();
    times += 4;
    now = processor_s();
  }
  return {{"seconds", (now - begin) / static_cast<double>(times)}, {"sum", sum}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "transform_speed IMAGE HEIGHT WIDTH CHAIN …\n";
    return 2;
  }
  at::set_num_threads(1);
  std::string bytes = muster::read_file(argv[1]);
  const at::Tensor image =
      at::tensor(
          at::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
          at::kByte)
          .view({3, std::stoll(argv[2]), std::stoll(argv[3])});
  muster::Json out;
  for (int i = 4; i < argc; ++i) out[argv[i]] = measured(argv[i], image);
  std::cout << out.dump() << '\n';
  return 0;
}
