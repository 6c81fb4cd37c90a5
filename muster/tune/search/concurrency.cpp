#include "muster/tune/search/concurrency.h"

#include <unordered_set>
#include <vector>

#include "muster/base/error.h"

namespace muster::tune {
namespace {

class ConcurrencyLimiter final : public Searcher {
 public:
  ConcurrencyLimiter(std::unique_ptr<Searcher> searcher, size_t max_concurrent, bool batch)
      : searcher_(std::move(searcher)), max_concurrent_(max_concurrent), batch_(batch) {}

  Suggestion suggest(int64_t number, const Point& partial) override {
    if (running_.size() + finished_.size() >= max_concurrent_) return {.kind = Suggestion::kWait};
    return searcher_->suggest(number, partial);
  }

  void suggested(int64_t number, const Point& point, const std::string& memo) override {
    running_.insert(number);
    searcher_->suggested(number, point, memo);
  }

  void reported(int64_t number, int64_t t, double score) override {
    searcher_->reported(number, t, score);
  }
  void paused(int64_t number) override { searcher_->paused(number); }
  bool is_quick() const override { return searcher_->is_quick(); }
  std::string introduction() const override { return searcher_->introduction(); }

  void told(const FinishedTrial& trial) override {
    // Trials that were not suggested here (of another program, say) are news, and fill no place.
    const bool is_ours = running_.erase(trial.number) > 0;
    if (!is_ours || !batch_) return searcher_->told(trial);
    finished_.push_back(trial);
    if (!running_.empty()) return;
    for (const FinishedTrial& finished : finished_) searcher_->told(finished);
    finished_.clear();
  }

 private:
  std::unique_ptr<Searcher> searcher_;
  size_t max_concurrent_;
  bool batch_;
  std::unordered_set<int64_t> running_;
  std::vector<FinishedTrial> finished_;  // of the batch, not told yet
};

}  // namespace

std::unique_ptr<Searcher> limit_concurrency(std::unique_ptr<Searcher> searcher,
                                            int64_t max_concurrent,
                                            bool batch) {
  if (max_concurrent < 1) {
    throw usage_error({.refused = "max_concurrent of a searcher",
                       .rule = "it is at least 1",
                       .value = std::to_string(max_concurrent)});
  }
  return std::make_unique<ConcurrencyLimiter>(
      std::move(searcher), static_cast<size_t>(max_concurrent), batch);
}

}  // namespace muster::tune
