// One rung of promotion-type successive halving.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace muster::tune {

/// The trials that reached a rung, and which of them may go on: the best floor(n / eta) of the n
/// that ever came, less those that went on already. Equal scores: the earlier trial is the better.
/// Everything costs O(log n). Source: Li et al. 2020 ("A System for Massively Parallel
/// Hyperparameter Tuning"), Algorithm 2, get_job.
class PromotionRung {
 public:
  explicit PromotionRung(double eta) : eta_(eta) {}

  /// A trial came. `score`: larger is better, not NaN. Returns its place in the rung. It counts in
  /// n at once, and can be taken once it waits.
  uint32_t add(int64_t number, double score);
  void wait(uint32_t place);

  /// The best trial that may go on and waits, if any; it counts as gone on from now on.
  std::optional<int64_t> promote_best();

  /// The trial at this place does not wait any more: it ended, or went on by itself.
  void leave(uint32_t place);

  size_t size() const { return trials_.size(); }
  size_t top() const { return top_.size(); }  ///< floor(n / eta)

 private:
  using Key = std::pair<double, uint32_t>;  // negative score and place: the less, the better

  Key key_of(uint32_t place) const { return {-trials_[place].score, place}; }
  void enter_top(const Key& key);
  void leave_top();

  double eta_;
  struct Member {
    int64_t number;
    double score;
    bool waits;
  };
  std::vector<Member> trials_;  // by place
  std::vector<Key> top_;        // a heap with its worst in front
  std::vector<Key> rest_;       // a heap with its best in front
  std::set<Key> promotable_;    // those of the top that wait
};

}  // namespace muster::tune
