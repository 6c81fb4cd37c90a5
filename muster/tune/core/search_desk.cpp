#include "muster/tune/core/search_desk.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

namespace muster::tune {
namespace {

bool is_same_partial(const Point& a, const Point& b) {
  return std::ranges::equal(
      a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

}  // namespace

struct SearchDesk::State {
  explicit State(const Space& given) : space(given) {}

  /// On the thread that thinks.
  void think() {
    std::exception_ptr thrown;
    Searcher::Suggestion suggestion;
    try {
      suggestion = searcher->suggest(number, partial);
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    error = thrown;
    if (!thrown) answer = {.suggestion = std::move(suggestion), .known = known};
    told_since = !waiting.empty();
    for (const auto& tell : std::exchange(waiting, {})) tell(*searcher);
    busy = false;
    idle.notify_all();
  }

  /// The answer is one to this question, and nothing has happened that it should have known.
  bool holds(int64_t wanted, const Point& of) const {
    return answer && number == wanted && is_same_partial(partial, of) &&
           (!told_since || answer->suggestion.kind == Searcher::Suggestion::kPoint);
  }

  const Space space;
  std::unique_ptr<Searcher> searcher;  // whoever is busy calls it, else whoever has the mutex
  std::mutex mutex;
  std::condition_variable idle;
  bool busy = false;  // a question was put and is not answered
  int64_t number = -1, known = 0;
  Point partial;
  std::optional<Answer> answer;
  std::exception_ptr error;
  bool told_since = false;  // the question was put
  std::vector<std::function<void(Searcher&)>> waiting;
};

SearchDesk::SearchDesk(const Space& space,
                       const std::function<std::unique_ptr<Searcher>(const Space& space)>& make,
                       HeardCalls* heard)
    : state_(std::make_shared<State>(space)), heard_(heard) {
  state_->searcher = make(state_->space);
}

/// `call` now, or `later` in its turn: only that one copies what it is told.
template <class Call, class Later>
void SearchDesk::tell(Call call, Later later) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.told_since = true;
  if (state.busy) {
    state.waiting.emplace_back(later());
  } else {
    call(*state.searcher);
  }
}

void SearchDesk::suggested(int64_t number, const Point& point, const std::string& memo) {
  if (heard_ != nullptr) heard_->suggested(number, point, memo);
  tell([&](Searcher& searcher) { searcher.suggested(number, point, memo); },
       [&] {
         return
             [number, point, memo](Searcher& searcher) { searcher.suggested(number, point, memo); };
       });
}

void SearchDesk::reported(int64_t number, int64_t t, double score) {
  if (heard_ != nullptr && heard_->keeps_searcher()) heard_->reported(number, t, score);
  const auto call = [=](Searcher& searcher) { searcher.reported(number, t, score); };
  tell(call, [&] { return call; });
}

void SearchDesk::paused(int64_t number) {
  if (heard_ != nullptr) heard_->paused(number);
  const auto call = [=](Searcher& searcher) { searcher.paused(number); };
  tell(call, [&] { return call; });
}

void SearchDesk::told(const FinishedTrial& trial) {
  if (heard_ != nullptr) heard_->told(trial);
  tell([&](Searcher& searcher) { searcher.told(trial); },
       [&] { return [trial](Searcher& searcher) { searcher.told(trial); }; });
}

bool SearchDesk::is_quick() const { return state_->searcher->is_quick(); }

bool SearchDesk::has_history() const { return state_->searcher->has_history(); }

std::string SearchDesk::introduction() const {
  std::unique_lock lock(state_->mutex);
  state_->idle.wait(lock, [&] { return !state_->busy; });
  return state_->searcher->introduction();
}

Searcher::Suggestion SearchDesk::ask(int64_t number, const Point& partial) {
  std::unique_lock lock(state_->mutex);
  state_->idle.wait(lock, [&] { return !state_->busy; });
  return state_->searcher->suggest(number, partial);
}

std::optional<SearchDesk::Answer> SearchDesk::look(int64_t number,
                                                   const Point& partial,
                                                   int64_t known,
                                                   std::function<void()>& think) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  think = nullptr;
  if (state.busy) return std::nullopt;
  if (state.error) std::rethrow_exception(std::exchange(state.error, nullptr));
  if (state.holds(number, partial)) return std::exchange(state.answer, std::nullopt);
  state.busy = true;
  state.told_since = false;
  state.number = number;
  state.partial = partial;
  state.known = known;
  state.answer.reset();
  think = [state = state_] { state->think(); };
  return std::nullopt;
}

}  // namespace muster::tune
