#include "muster/parallel/pipeline_ranks/tensor_post.h"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "muster/parallel/pipeline/carrier.h"

namespace muster::parallel {
namespace {

using Words = std::vector<int64_t>;

// A head: pipeline, step, given up, number of words about the tensors, and as many of them as fit in.
constexpr int64_t kHeadWords = 64;
constexpr int64_t kFixedWords = 4;

// The words about a tensor; one that is undefined or came before has the first alone.
enum TensorWord { kDtype, kAwaited, kChannelsLast, kWay, kDims, kSizes };
constexpr int64_t kUndefined = -1;
constexpr int64_t kSameAs = -2;  // and below: the same as the first tensor, the second, …

/// Images of several channels are often stored a pixel at a time; what is right for a stage's
/// kernels stays so on the way.
bool is_channels_last(const at::Tensor& tensor) {
  return !tensor.is_contiguous() && tensor.is_contiguous(at::MemoryFormat::ChannelsLast);
}

/// The tensor with its elements in the order of its memory.
at::Tensor in_memory_order(const at::Tensor& tensor) {
  return is_channels_last(tensor) ? tensor.permute({0, 2, 3, 1}) : tensor;
}

/// `way_of`: on which kind of device a tensor goes.
template <class WayOf>
Words words_of(const Handed& handed, WayOf&& way_of) {
  Words words;
  for (size_t i = 0; i < handed.tensors.size(); ++i) {
    const at::Tensor& tensor = handed.tensors[i];
    const bool awaited = i < handed.needs_gradient.size() && handed.needs_gradient[i];
    if (!tensor.defined()) {
      words.push_back(kUndefined);
      continue;
    }
    if (const size_t same = first_same(handed.tensors, i); same < i) {
      words.push_back(kSameAs - static_cast<int64_t>(same));
      continue;
    }
    words.insert(words.end(),
                 {static_cast<int64_t>(tensor.scalar_type()),
                  awaited,
                  is_channels_last(tensor),
                  static_cast<int64_t>(way_of(tensor)),
                  tensor.dim()});
    words.insert(words.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  return words;
}

}  // namespace

TensorPost::TensorPost(distributed::ProcessGroup group, std::chrono::milliseconds timeout)
    : group_(std::move(group)), timeout_(timeout), head_device_(group_.host_device()) {}

bool TensorPost::moves(c10::DeviceType type) const {
  const auto& types = group_.c10d()->getDeviceTypes();
  return std::any_of(types.begin(), types.end(), [&](auto other) { return other.type() == type; });
}

bool TensorPost::make_ready(Handed& handed) const {
  const Tensors given = handed.tensors;
  bool is_any = false;
  for (size_t i = 0; i < given.size(); ++i) {
    at::Tensor& tensor = handed.tensors[i];
    if (!tensor.defined() || !moves(tensor.device().type())) continue;
    is_any = true;
    if (const size_t same = first_same(given, i); same < i)
      tensor = handed.tensors[same];
    else if (!is_channels_last(tensor))
      tensor = tensor.contiguous();
  }
  return is_any;
}

void TensorPost::send_head(int to, int tag, Head head) {
  const auto count = std::ssize(head.words);
  const int64_t inside = std::min(count, kHeadWords - kFixedWords);
  Words fixed(kHeadWords);
  fixed[0] = series_;
  fixed[1] = head.step;
  fixed[2] = head.given_up;
  fixed[3] = count;
  std::copy_n(head.words.begin(), inside, fixed.begin() + kFixedWords);
  group_.send(
      at::from_blob(fixed.data(), kHeadWords, at::kLong).to(head_device_), to, options_for(tag));
  if (inside == count) return;
  group_.send(at::from_blob(head.words.data() + inside, count - inside, at::kLong).to(head_device_),
              to,
              options_for(tag));
}

void TensorPost::take(const at::Tensor& tensor, int from, int tag) {
  try {
    group_.recv(tensor, from, options_for(tag));
  } catch (...) {
    is_late_ = true;
    throw;
  }
}

TensorPost::Head TensorPost::receive_head(int from, int tag) {
  const auto words = [&](int64_t count) {
    const at::Tensor message = at::empty(count, at::device(head_device_).dtype(at::kLong));
    take(message, from, tag);
    const at::Tensor here = message.cpu();
    return Words(here.const_data_ptr<int64_t>(), here.const_data_ptr<int64_t>() + count);
  };
  const Words fixed = words(kHeadWords);
  Head head{.is_ours = fixed[0] == series_, .step = fixed[1], .given_up = fixed[2] != 0};
  const int64_t inside = std::min(fixed[3], kHeadWords - kFixedWords);
  head.words.assign(fixed.begin() + kFixedWords, fixed.begin() + kFixedWords + inside);
  if (fixed[3] > inside) {
    const Words rest = within_letter([&] { return words(fixed[3] - inside); });
    head.words.insert(head.words.end(), rest.begin(), rest.end());
  }
  return head;
}

void TensorPost::send(int to, int tag, const Handed& handed, bool stays_unchanged) {
  const auto way_of = [this](const at::Tensor& tensor) {
    return moves(tensor.device().type()) ? tensor.device().type() : head_device_.type();
  };
  send_head(to, tag, {.step = step_, .words = words_of(handed, way_of)});
  for (size_t i = 0; i < handed.tensors.size(); ++i) {
    const at::Tensor& tensor = handed.tensors[i];
    if (!tensor.defined() || first_same(handed.tensors, i) < i) continue;
    const at::Tensor ordered = in_memory_order(tensor);
    distributed::MessageOptions options = options_for(tag);
    options.stays_unchanged = stays_unchanged;
    group_.send(
        ordered.to(way_of(tensor) == tensor.device().type() ? tensor.device() : head_device_),
        to,
        options);
  }
}

void TensorPost::send_given_up(int to, int tag) {
  send_head(to, tag, {.step = step_, .given_up = true});
}

bool TensorPost::await(int from, int tag) {
  while (true) {
    Head head = receive_head(from, tag);
    if (head.is_ours && head.step == step_) {
      const bool is_there = !head.given_up;
      if (is_there) found_[{from, tag}] = std::move(head);
      return is_there;
    }
    within_letter([&] { return read(head, from, tag, head_device_); });
  }
}

Handed TensorPost::receive(int from, int tag, c10::Device device) {
  const auto found = found_.find({from, tag});
  Handed handed = read(found->second, from, tag, device);
  found_.erase(found);
  return handed;
}

void TensorPost::discard(int from, int tag) {
  if (await(from, tag)) within_letter([&] { return receive(from, tag, head_device_); });
}

void TensorPost::discard_found() {
  while (!found_.empty()) {
    const std::pair<int, int> whose = found_.begin()->first;  // from whom, and the tag
    Head head = std::move(found_.extract(found_.begin()).mapped());
    within_letter([&] { return read(head, whose.first, whose.second, head_device_); });
  }
}

/// Goes on behind the last tensor that was read.
Handed TensorPost::read(Head& head, int from, int tag, c10::Device device) {
  Handed handed;
  // A backend for each kind of device: a tensor is received on the kind that it was sent on.
  const auto way_of = [&](int64_t said) {
    const auto type = static_cast<c10::DeviceType>(said);
    for (const c10::Device own : {device, group_.device(), head_device_})
      if (own.type() == type) return own;
    return c10::Device(type, type == c10::DeviceType::CPU ? -1 : 0);
  };
  while (head.next < head.words.size()) {
    const int64_t* word = &head.words[head.next];
    if (*word == kUndefined) {
      handed.tensors.emplace_back();
      handed.needs_gradient.push_back(false);
      ++head.next;
      continue;
    }
    if (*word <= kSameAs) {
      const auto same = static_cast<size_t>(kSameAs - *word);
      // Where a letter is read again behind a failure, nobody looks at its tensors.
      handed.tensors.push_back(same < handed.tensors.size() ? handed.tensors[same] : at::Tensor());
      handed.needs_gradient.push_back(same < handed.tensors.size() && handed.needs_gradient[same]);
      ++head.next;
      continue;
    }
    const Words sizes(word + kSizes, word + kSizes + word[kDims]);
    const at::Tensor tensor = at::empty(
        sizes,
        at::device(way_of(word[kWay])).dtype(static_cast<at::ScalarType>(word[kDtype])),
        word[kChannelsLast] != 0 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
    take(in_memory_order(tensor), from, tag);
    handed.tensors.push_back(tensor);
    handed.needs_gradient.push_back(word[kAwaited] != 0);
    head.next += static_cast<size_t>(kSizes + word[kDims]);
  }
  return on_device(std::move(handed), device);
}

}  // namespace muster::parallel
