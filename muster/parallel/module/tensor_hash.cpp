#include "muster/parallel/module/tensor_hash.h"

#include <array>
#include <bit>
#include <cstring>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

namespace muster::parallel {
namespace {

constexpr uint64_t kOddA = 0x9e3779b97f4a7c15, kOddB = 0xbf58476d1ce4e5b9,
                   kOddC = 0x94d049bb133111eb;

uint64_t load(const unsigned char* data) {
  uint64_t word = 0;
  std::memcpy(&word, data, sizeof word);
  return word;
}

/// One step of a lane: every bit of `word` changes about half of the result's after two steps.
uint64_t stir(uint64_t lane, uint64_t word) { return std::rotl(lane ^ (word * kOddA), 29) * kOddB; }

/// SplitMix64's last step (Steele et al. 2014): a bijection that spreads every bit.
uint64_t avalanche(uint64_t value) {
  value = (value ^ (value >> 30)) * kOddB;
  value = (value ^ (value >> 27)) * kOddC;
  return value ^ (value >> 31);
}

}  // namespace

uint64_t hash_bytes(const void* data, int64_t size, uint64_t seed) {
  const auto* next = static_cast<const unsigned char*>(data);
  const auto* const end = next + size;
  // Four lanes that do not wait for each other's multiplications.
  std::array<uint64_t, 4> lanes{seed ^ kOddA, seed + kOddB, seed ^ kOddC, seed};
  for (; end - next >= 32; next += 32) {
    for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = stir(lanes[i], load(next + 8 * i));
  }
  uint64_t hash = static_cast<uint64_t>(size) * kOddA;
  for (const uint64_t lane : lanes) hash = avalanche(hash ^ lane) + kOddC;
  for (; end - next >= 8; next += 8) hash = stir(hash, load(next));
  for (; next != end; ++next) hash = stir(hash, *next);
  return avalanche(hash);
}

at::Tensor hash_on_device(const at::Tensor& tensor, uint64_t seed) {
  const c10::NoGradGuard no_grad;
  const auto options = at::TensorOptions().device(tensor.device()).dtype(at::kLong);
  // Sum over i of mix(word[i] + i * odd), modulo 2^64: any order of summation gives the same.
  const at::Tensor words = tensor.contiguous().reshape(-1).view(at::kByte).to(at::kLong);
  at::Tensor mixed = at::arange(words.numel(), options);
  mixed.add_(1).mul_(static_cast<int64_t>(kOddA)).add_(static_cast<int64_t>(seed));
  mixed.bitwise_xor_(words.mul(static_cast<int64_t>(kOddB)));
  mixed.bitwise_xor_(mixed.bitwise_right_shift(31)).mul_(static_cast<int64_t>(kOddC));
  mixed.bitwise_xor_(mixed.bitwise_right_shift(29)).mul_(static_cast<int64_t>(kOddB));
  return mixed.bitwise_xor_(mixed.bitwise_right_shift(32)).sum();
}

at::Tensor hash_tensor(const at::Tensor& tensor, uint64_t seed) {
  return hash_tensors({tensor}, seed)[0];
}

at::Tensor hash_tensors(const std::vector<at::Tensor>& tensors, uint64_t first_seed) {
  if (!tensors.at(0).is_cpu()) {
    std::vector<at::Tensor> hashes;
    for (const at::Tensor& tensor : tensors)
      hashes.push_back(hash_on_device(tensor.detach(), first_seed + hashes.size()));
    return at::stack(hashes);
  }
  at::Tensor hashes = at::empty({static_cast<int64_t>(tensors.size())}, at::kLong);
  auto* next = hashes.data_ptr<int64_t>();
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor whole = tensor.detach().contiguous();
    *next++ = static_cast<int64_t>(
        hash_bytes(whole.const_data_ptr(), static_cast<int64_t>(whole.nbytes()), first_seed++));
  }
  return hashes;
}

}  // namespace muster::parallel
