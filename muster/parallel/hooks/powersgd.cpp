// Source: Vogels, Karimireddy & Jaggi 2019, "PowerSGD: Practical Low-Rank Gradient Compression for
// Distributed Optimization", algorithm 1; operations and random numbers as in PyTorch's
// powerSGD_hook.
#include "muster/parallel/hooks/powersgd.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include "muster/parallel/hook/half_hook.h"

namespace muster::parallel {
namespace {

// Note [PowerSGD]
// A gradient M [n, m] of each rank is sent as P [n, r] and Q [m, r]:
//     P = sum over ranks of M Q;   P's columns made orthonormal;   Q = mean over ranks of M^T P
// and every rank takes P Q^T for the mean of the Ms. What that leaves out of a rank's own M is kept
// and added to its next gradient. State belongs to parameters, by name, not to buckets as in
// PyTorch: DDP sorts its buckets anew after a resume. For the same reason compression may start
// with the first step here. P travels while backward goes on, Q after it, since the second needs
// the first; both in the order of buckets, the same on all ranks.
// The first Qs are random; as in PyTorch one seed is drawn per bucket, and its numbers go to the
// bucket's matrices in their order. Without find_unused_parameters DDP sorts its buckets anew after
// the first step of a run, also of a resumed one. So that step gets other Qs than the unbroken
// run's if it draws any: where the run is resumed at step `start` (above 0) exactly, or at any
// later one with warm_start=false. Everywhere else a resumed run goes on bit for bit.

constexpr Param kPowersgdParams[] = {
    param<&PowerSgdOptions::rank>("rank", "columns of the thin matrices: more are more exact"),
    param<&PowerSgdOptions::start>("start", "steps that travel uncompressed first"),
    param<&PowerSgdOptions::min_compression_rate>("min_compression_rate",
                                                  "matrices that gain less travel whole"),
    param<&PowerSgdOptions::error_feedback>("error_feedback",
                                            "add what a step lost to the next gradient"),
    param<&PowerSgdOptions::warm_start>("warm_start", "start from the last step's Q"),
    param<&PowerSgdOptions::epsilon>("epsilon", "added to the norms of columns"),
    param<&PowerSgdOptions::seed>("seed", "of the first Qs"),
};

/// Makes the columns orthonormal, in place // [1, n, r], r <= n. A column of zeros stays one.
void orthogonalize(const at::Tensor& matrix, double epsilon) {
  const int64_t columns = matrix.size(2);
  const bool half = matrix.scalar_type() == at::kHalf || matrix.scalar_type() == at::kBFloat16;
  if (columns > 2 && !half) {
    matrix.copy_(std::get<0>(at::linalg_qr(matrix)));
    return;
  }
  for (int64_t i = 0; i < columns; ++i) {  // Gram-Schmidt
    const at::Tensor column = matrix.narrow(2, i, 1);
    at::Tensor norm = at::linalg_vector_norm(column, 2, at::IntArrayRef{1}, /*keepdim=*/true);
    norm = epsilon > 0 ? norm + epsilon : at::where(norm == 0, at::ones_like(norm), norm);
    column.div_(norm);
    if (i + 1 == columns) break;
    const at::Tensor rest = matrix.narrow(2, i + 1, columns - i - 1);
    rest.sub_((column * rest).sum(1, /*keepdim=*/true) * column);
  }
}

/// [n, m], the memory of a gradient; undefined if it has no such form. A gradient in channels-last
/// order has its columns in another order, which changes nothing here.
at::Tensor matrix_of(const at::Tensor& gradient) {
  if (gradient.dim() < 2 || gradient.numel() == 0) return {};
  const int64_t rows = gradient.size(0), columns = gradient.numel() / rows;
  if (gradient.stride(0) != columns || !gradient.is_non_overlapping_and_dense()) return {};
  return gradient.as_strided({rows, columns}, {columns, 1});
}

class PowerSgd final : public CommHook {
 public:
  PowerSgd(distributed::ProcessGroup group, const PowerSgdOptions& options)
      : group_(std::move(group)), options_(options) {}

  void bind(const NamedTensors& parameters) override;
  BucketReduction reduce(c10d::GradBucket& bucket) override;
  NamedTensors state() const override;
  void load_state(const NamedTensors& state) override;

 private:
  /// One compressed gradient of a bucket.
  struct Item {
    std::string name;
    at::Tensor matrix;  // [1, n, m], the bucket's memory
    at::Tensor whole;   // what was to be sent, if errors are kept
    at::Tensor p, q;    // [1, n, r], [1, m, r]
  };
  /// One bucket between its P and its result.
  struct Round {
    at::Tensor buffer;
    std::vector<at::Tensor> rest;  // travel uncompressed
    std::vector<Item> items;
    at::Tensor first, second;  // rest and all P; all Q
    c10::intrusive_ptr<c10d::Work> first_sent, second_sent;
    bool last = false;
  };

  bool worth_it(const at::Tensor& matrix) const;
  int64_t columns_of(const at::Tensor& matrix) const;
  Round sort(c10d::GradBucket& bucket) const;
  void choose_qs(std::vector<Item>& items);
  uint64_t next_seed();
  void send_first(Round& round);
  void send_second(Round& round);
  at::Tensor decompress(Round round);

  distributed::ProcessGroup group_;
  PowerSgdOptions options_;
  std::map<const void*, std::string> names_;
  std::map<std::string, at::Tensor> shapes_;  // parameters by name
  std::deque<Round> rounds_;                  // of the step under way
  int64_t step_ = 0;                          // finished ones
  uint64_t draws_ = 0;                        // numbers taken from the generator
  std::map<std::string, at::Tensor> errors_;  // [n, m], this rank's own
  std::map<std::string, at::Tensor> qs_;      // [m, r], the same on all ranks
};

void PowerSgd::bind(const NamedTensors& parameters) {
  for (const auto& [name, parameter] : parameters) {
    names_[parameter.unsafeGetTensorImpl()] = name;
    shapes_[name] = parameter;
  }
}

int64_t PowerSgd::columns_of(const at::Tensor& matrix) const {
  return std::min({matrix.size(0), matrix.size(1), options_.rank});
}

bool PowerSgd::worth_it(const at::Tensor& matrix) const {
  const auto sent = static_cast<double>((matrix.size(0) + matrix.size(1)) * columns_of(matrix));
  return sent * options_.min_compression_rate < static_cast<double>(matrix.numel());
}

PowerSgd::Round PowerSgd::sort(c10d::GradBucket& bucket) const {
  Round round{.buffer = bucket.getBuffer(), .last = bucket.isLast()};
  const auto gradients = bucket.getGradients();
  const auto parameters = bucket.getParameters();
  std::vector<std::pair<std::vector<int64_t>, std::vector<Item>>> by_shape;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor matrix = matrix_of(gradients[i]);
    if (!matrix.defined() || !worth_it(matrix)) {
      round.rest.push_back(gradients[i]);
      continue;
    }
    const auto shape = matrix.sizes().vec();
    auto same = std::find_if(
        by_shape.begin(), by_shape.end(), [&](const auto& group) { return group.first == shape; });
    if (same == by_shape.end()) same = by_shape.insert(by_shape.end(), {shape, {}});
    same->second.push_back(
        {.name = names_.at(parameters[i].unsafeGetTensorImpl()), .matrix = matrix.unsqueeze(0)});
  }
  // PyTorch's order: equal shapes together. It decides which random numbers go where.
  for (auto& [shape, items] : by_shape) {
    for (Item& item : items) round.items.push_back(std::move(item));
  }
  return round;
}

/// As numpy's RandomState(seed).randint(1_000_000_000): 30 bits of MT19937, again while too large.
uint64_t PowerSgd::next_seed() {
  std::mt19937 generator(static_cast<uint32_t>(options_.seed));
  generator.discard(draws_);
  uint64_t value = 0;
  do {
    value = generator() & 0x3fffffff;
    ++draws_;
  } while (value >= 1'000'000'000);
  return value;
}

void PowerSgd::choose_qs(std::vector<Item>& items) {
  std::vector<Item*> random;
  for (Item& item : items) {
    const auto known = qs_.find(item.name);
    if (options_.warm_start && known != qs_.end()) {
      item.q = known->second.unsqueeze(0);
      orthogonalize(item.q, options_.epsilon);
    } else {
      random.push_back(&item);
    }
  }
  if (random.empty()) return;
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(next_seed());
  for (Item* item : random) {
    const at::Tensor& matrix = item->matrix;
    item->q = at::randn({1, matrix.size(2), columns_of(matrix[0])},
                        generator,
                        at::TensorOptions().dtype(matrix.scalar_type()))
                  .to(matrix.device());
    orthogonalize(item->q, options_.epsilon);
  }
}

BucketReduction PowerSgd::reduce(c10d::GradBucket& bucket) {
  const c10::NoGradGuard no_grad;
  if (bucket.getIndex() == 0) rounds_.clear();  // of a step that failed
  // A complex bucket has a buffer of real numbers; getGradients() would take the wrong ones of it.
  const bool plain = step_ < options_.start || bucket.getBuffer().is_sparse() ||
                     bucket.getParameters().at(0).is_complex();
  Round round = plain ? Round{} : sort(bucket);
  if (round.items.empty()) {
    const auto sent = reduce_uncompressed(group_, bucket);
    return {sent.future(), [this, last = bucket.isLast()](const at::Tensor& mean) {
              if (last) ++step_;
              return mean;
            }};
  }
  rounds_.push_back(std::move(round));
  send_first(rounds_.back());
  return {rounds_.back().first_sent, [this](const at::Tensor&) {
            const c10::NoGradGuard no_grad;
            for (Round& round : rounds_) {
              if (!round.second_sent) send_second(round);
            }
            Round round = std::move(rounds_.front());
            rounds_.pop_front();
            return decompress(std::move(round));
          }};
}

void PowerSgd::send_first(Round& round) {
  for (Item& item : round.items) {
    if (!options_.error_feedback) break;
    const auto error = errors_.find(item.name);
    if (error != errors_.end()) item.matrix.add_(error->second);
    item.whole = item.matrix.clone();
  }
  choose_qs(round.items);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& gradient : round.rest) parts.push_back(gradient.reshape(-1));
  for (Item& item : round.items) parts.push_back(at::bmm(item.matrix, item.q).reshape(-1));
  round.first = at::cat(parts);
  std::vector<at::Tensor> sum{round.first};
  round.first_sent = group_.c10d()->allreduce(sum);
}

void PowerSgd::send_second(Round& round) {
  round.first_sent->wait();
  int64_t from = 0;
  for (const at::Tensor& gradient : round.rest) {
    gradient.copy_(
        round.first.narrow(0, from, gradient.numel()).div(group_.world_size()).view_as(gradient));
    from += gradient.numel();
  }
  std::vector<at::Tensor> parts;
  for (Item& item : round.items) {
    // The sum's scale does not matter: only the directions are kept.
    const int64_t rows = item.matrix.size(1), columns = item.q.size(2);
    item.p = round.first.narrow(0, from, rows * columns).view({1, rows, columns});
    from += rows * columns;
    orthogonalize(item.p, options_.epsilon);
    parts.push_back(at::bmm(item.matrix.transpose(1, 2), item.p).reshape(-1));
  }
  round.second = at::cat(parts);
  std::vector<at::Tensor> sum{round.second};
  round.second_sent = group_.c10d()->allreduce(sum);
}

at::Tensor PowerSgd::decompress(Round round) {
  round.second_sent->wait();
  round.second.div_(group_.world_size());
  int64_t from = 0;
  for (Item& item : round.items) {
    const at::Tensor q = round.second.narrow(0, from, item.q.numel()).view_as(item.q);
    from += q.numel();
    item.matrix.copy_(at::bmm(item.p, q.transpose(1, 2)));
    if (options_.error_feedback) errors_[item.name] = item.whole.sub_(item.matrix).squeeze(0);
    if (options_.warm_start) qs_[item.name] = q.squeeze(0).clone();
  }
  if (round.last) ++step_;
  return round.buffer;
}

NamedTensors PowerSgd::state() const {
  NamedTensors out{{"step", at::full({}, step_, at::kLong)},
                   {"draws", at::full({}, static_cast<int64_t>(draws_), at::kLong)}};
  for (const auto& [name, error] : errors_) out.emplace_back("error/" + name, error.clone());
  for (const auto& [name, q] : qs_) out.emplace_back("q/" + name, q.clone());
  return out;
}

[[noreturn]] void refuse_state(const std::string& name) {
  throw usage_error({.refused = concat("state \"", name, "\" of the communication hook powersgd"),
                     .rule = "it is that of the same parameters, rank and options",
                     .hint = "resume with the hook that the checkpoint was made with"});
}

void PowerSgd::load_state(const NamedTensors& state) {
  std::map<std::string, at::Tensor> errors, qs;
  int64_t step = -1, draws = -1;
  for (const auto& [name, tensor] : state) {
    const size_t slash = name.find('/');
    const auto found = shapes_.find(slash == std::string::npos ? "" : name.substr(slash + 1));
    if (name == "step") {
      step = tensor.item<int64_t>();
    } else if (name == "draws") {
      draws = tensor.item<int64_t>();
    } else if (found == shapes_.end() || found->second.dim() < 2 || tensor.dim() != 2) {
      refuse_state(name);
    } else {
      const int64_t rows = found->second.size(0), columns = found->second.numel() / rows;
      const bool error = name.starts_with("error/");
      const std::vector<int64_t> expected =
          error ? std::vector<int64_t>{rows, columns}
                : std::vector<int64_t>{columns, std::min({rows, columns, options_.rank})};
      if (tensor.sizes() != at::IntArrayRef(expected)) refuse_state(name);
      (error ? errors : qs)[found->first] = tensor.to(found->second.options()).clone();
    }
  }
  if (step < 0 || draws < 0) refuse_state(step < 0 ? "step" : "draws");
  step_ = step;
  draws_ = static_cast<uint64_t>(draws);
  errors_ = std::move(errors);
  qs_ = std::move(qs);
}

std::shared_ptr<CommHook> make_powersgd(const distributed::ProcessGroup& group,
                                        const ParamValues& params) {
  return make_powersgd(
      group,
      resolve_params<PowerSgdOptions>(kPowersgdParams, params, "communication hook powersgd"));
}

}  // namespace

std::shared_ptr<CommHook> make_powersgd(const distributed::ProcessGroup& group,
                                        const PowerSgdOptions& options) {
  if (options.rank < 1 || options.start < 0 || !(options.min_compression_rate >= 0) ||
      !(options.epsilon >= 0)) {
    throw usage_error({.refused = "communication hook powersgd",
                       .rule = "rank is at least 1, the other numbers are not negative",
                       .value = concat("rank=",
                                       options.rank,
                                       ", start=",
                                       options.start,
                                       ", min_compression_rate=",
                                       options.min_compression_rate,
                                       ", epsilon=",
                                       options.epsilon)});
  }
  return std::make_shared<PowerSgd>(group, options);
}

extern constinit const CommHookEntry powersgd_entry{
    "powersgd",
    "thin matrices with error feedback: far fewer bytes, changed gradients",
    kPowersgdParams,
    &make_powersgd,
    /*keeps_errors=*/true};

}  // namespace muster::parallel
