// How large a batch may be: from a few measured steps, not by doubling until memory runs out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::memory {

// Note [Batch size by a line]
// What a training step takes is a part that does not depend on the batch (weights, gradients, the
// optimizer's state) and a part that grows with it (activations). Its peak is therefore flat, as
// long as the first part alone makes it (the optimizer's step, the end of backward), and from some
// batch on a line a + c * batch. How much a forward holds rises from the first sample on, and tells how far away
// the end is at most. Probes are steps that are measured:
//   1. one unit (the ranks' number, say);
//   2. at most 8 units, and no more than must fit if one unit does: (limit / peak of the first);
//   3. half of what the line through these two says would fit; a third of what the forward leaves
//      room for where the peak does not rise as the forward does;
//   4. if the third lies on the line (kOnLine): what the line says, less a margin of the batch. Else
//      halfway there, and
//   5. what the line through the two largest says.
// Only a size that was measured and fitted is ever returned. A peak is the largest of several lines,
// so what two sizes say of a larger one may be too much. When a probe runs out of memory, the next one
// is a third of the way from the largest that fits to it; and where there are no more, and the largest
// that fits is less than kNearEnough of it, a few more halve the way. So do a few more where all have
// fitted and the last line says that the end is far, or has none since a larger size took less: lines
// may bend either way. Where not even one unit fits, what there is below it is searched in the same
// way (BatchLimits::least). Of the sizes measured the fastest is told as well: the smallest whose
// samples per second come within kNearlyAsFast of the best.

/// One measured size.
struct BatchProbe {
  int64_t batch = 0;
  bool fits = true;    ///< false: memory ran out; the rest is nothing then
  double bytes = 0;    ///< the peak, of what `BatchLimits::bytes` is the limit of
  double forward = 0;  ///< bytes held when the forward is over, of the same; 0: not measured
  double seconds = 0;  ///< of one step; 0: not measured
};

struct BatchLimits {
  double bytes = 0;         ///< that there are, for all of the step
  int64_t most = 0;         ///< samples: of the data, or where the caller wants it to end
  int64_t multiple_of = 1;  ///< the batch is this times a whole number
  int64_t least = 0;     ///< multiples of this are tried below that, where it does not fit; 0: none
  double margin = 0.03;  ///< of the predicted batch, that is left away
  int probes = 5;        ///< at most, as long as all fit
  int probes_more = 3;   ///< at most, once one has not fitted, or the end is far
};

struct BatchFound {
  int64_t largest = 0;   ///< that was measured and fits
  int64_t fastest = 0;   ///< of those measured; `largest` where no time was
  bool is_most = false;  ///< it is BatchLimits::most: memory was not what ended it
  double base_bytes = 0, bytes_per_sample = 0;  ///< of the line; 0 with one probe
  std::vector<BatchProbe> probes;               ///< in order
};

/// Asks which size to measure next, and hears what came of it. A pure function of what it hears, so
/// that ranks that hear the same ask for the same.
class BatchFinder {
 public:
  static constexpr double kOnLine = 0.02;        ///< of what the peak has grown by, off the line
  static constexpr double kNearlyAsFast = 0.95;  ///< of the best samples per second
  static constexpr double kNearEnough = 0.95;    ///< of a size that does not fit

  /// Throws a usage error for limits out of range.
  explicit BatchFinder(const BatchLimits& limits);

  /// Nothing when it is over.
  std::optional<int64_t> next() const;
  /// What came of next().
  void tell(const BatchProbe& probe);

  /// Throws an environment error if nothing fitted.
  BatchFound found() const;

 private:
  struct Rise;

  int64_t unit() const;
  bool is_far() const;
  int64_t ceiling() const;
  int64_t in_units(double batch) const;
  int64_t less_margin(double batch) const;
  Rise rise() const;
  bool is_on_line() const;
  std::optional<int64_t> below_failure(const BatchProbe& best) const;

  BatchLimits limits_;
  std::vector<BatchProbe> probes_;
};

/// The finder's sizes, measured one after the other by `measure`.
BatchFound find_batch_size(const BatchLimits& limits,
                           const std::function<BatchProbe(int64_t batch)>& measure);

/// "batch 480 of at most 4000: 4 probes of 1, 8, 247, 480; 12 MiB + 1.5 MiB a sample; fastest 247
/// (1250 samples/s)".
std::string text_of(const BatchFound& found, const BatchLimits& limits);

}  // namespace muster::memory
