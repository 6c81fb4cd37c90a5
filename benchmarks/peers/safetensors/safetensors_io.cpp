// The C++ side of benchmarks/peers/safetensors: what peer.py does, by Muster.
//
//     build/bin/safetensors_io FILE MEGABYTES
//
// Writes MEGABYTES of float32 tensors (10 MB each) to FILE, opens it, sums every element, and
// copies all tensors to memory of their own. Prints the seconds of each as one JSON object.
#include <ctime>
#include <filesystem>
#include <iostream>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <sys/resource.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tensor/safetensors.h"

namespace {

using muster::tensor::TensorFile;
using muster::tensor::TensorMemory;

double monotonic_s() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Work>
double seconds(Work work) {
  const double begin = monotonic_s();
  work();
  return monotonic_s() - begin;
}

double total(const TensorFile& file) {
  double sum = 0;
  for (const auto& [name, tensor] : file.tensors) sum += tensor.sum().item<double>();
  return sum;
}

int64_t peak_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

muster::Json measure(const std::filesystem::path& path, int64_t megabytes) {
  muster::Json out;
  {
    TensorFile file;
    for (int64_t i = 0; i < megabytes / 10; ++i)
      file.tensors.emplace_back(muster::concat("layer.", i), at::full({2'500'000}, 0.5));
    out["write"] = seconds([&] { muster::tensor::write_safetensors(path, file, {.sync = false}); });
    out["write, synced"] = seconds([&] { muster::tensor::write_safetensors(path, file); });
  }
  out["open"] = seconds([&] { muster::tensor::read_safetensors(path); });
  double sum = 0;
  out["open and sum"] = seconds([&] { sum = total(muster::tensor::read_safetensors(path)); });
  out["read to own memory"] =
      seconds([&] { muster::tensor::read_safetensors(path, TensorMemory::kOwned); });
  out["sum"] = sum;
  out["peak_kib"] = peak_kib();
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const auto megabytes = argc == 3 ? muster::to_int(argv[2]) : std::nullopt;
  if (!megabytes) {
    std::cerr << "usage: safetensors_io FILE MEGABYTES\n";
    return 2;
  }
  at::set_num_threads(1);
  std::cout << measure(argv[1], *megabytes) << '\n';
}
