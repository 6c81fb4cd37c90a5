// Indices that operators are given and their tensors do not have: what a CUDA device says of them is
// "device-side assert triggered", on the CPU they can be named.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/record_function.h>

namespace muster::tensor {

/// An index outside of what it counts.
struct BadIndex {
  std::string op;               ///< "embedding"
  std::string indices;          ///< what the operator calls its tensor of indices: "target"
  std::vector<int64_t> place;   ///< of the first bad one in that tensor: {5}
  int64_t value = 0;            ///< which is there
  int64_t first = 0, last = 0;  ///< what it may be; `last` below `first`: nothing
  std::string counts;           ///< what is counted: "the input has 10 classes"
  int64_t bad = 1, all = 1;     ///< indices outside, of how many
};

/// "target[5] = 10".
std::string place_text(const BadIndex& found);
/// "embedding: indices[0, 3] = 50257 is none of 0 … 50256 (the weight has 50257 rows; 1 of 16 outside)".
std::string text_of(const BadIndex& found);

/// While it lives, the indices of what this thread calls on the CPU are looked at before the operator
/// runs: embedding and embedding_bag, gather, scatter, index_select and their kin, take, index and
/// index_put with tensors, the targets of cross_entropy_loss and nll_loss. The operator runs all the
/// same. Of operators that call each other the outermost is named. One at a time in a thread, and used
/// in that thread; other threads are not watched. It reads each tensor of indices once more: for
/// looking for an error, not for training.
///
///     muster::tensor::IndexWatch watch;
///     try { net->forward(batch); } catch (const c10::Error&) {}
///     if (watch.found()) std::cerr << muster::tensor::text_of(*watch.found()) << '\n';
class IndexWatch {
 public:
  /// Throws a usage error if this thread has one already.
  IndexWatch();
  ~IndexWatch();
  IndexWatch(const IndexWatch&) = delete;
  IndexWatch& operator=(const IndexWatch&) = delete;

  /// The first one so far.
  const std::optional<BadIndex>& found() const { return found_; }

 private:
  static std::unique_ptr<at::ObserverContext> look(const at::RecordFunction& function);

  std::optional<BadIndex> found_;
  at::CallbackHandle handle_;
};

}  // namespace muster::tensor
