#include "muster/tune/schedule/running_quantile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace muster::tune {
namespace {

template <class Compare>
void push(std::vector<double>& heap, double number, Compare compare) {
  heap.push_back(number);
  std::push_heap(heap.begin(), heap.end(), compare);
}

template <class Compare>
double pop(std::vector<double>& heap, Compare compare) {
  std::pop_heap(heap.begin(), heap.end(), compare);
  const double number = heap.back();
  heap.pop_back();
  return number;
}

}  // namespace

void RunningQuantile::add(double number) {
  if (!low_.empty() && number < low_.front()) {
    push(low_, number, std::less<>());
  } else {
    push(high_, number, std::greater<>());
  }
  // The lower neighbour has rank floor((n - 1) * share), counted from 0.
  const double rank = std::floor(static_cast<double>(size() - 1) * share_);
  const size_t wanted = std::min(size(), static_cast<size_t>(rank) + 1);
  while (low_.size() < wanted) push(low_, pop(high_, std::greater<>()), std::less<>());
  while (low_.size() > wanted) push(high_, pop(low_, std::less<>()), std::greater<>());
}

double RunningQuantile::value() const {
  if (low_.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double place = static_cast<double>(size() - 1) * share_;
  const double part = place - std::floor(place);
  const double a = low_.front();
  const double b = high_.empty() ? a : high_.front();
  // From the nearer side, as numpy does: equal bits matter where a score equals the cutoff.
  const double difference = b - a;
  return part >= 0.5 ? b - difference * (1 - part) : a + difference * part;
}

double RunningQuantile::median() const {
  if (low_.empty()) return std::numeric_limits<double>::quiet_NaN();
  return size() % 2 == 1 ? low_.front() : (low_.front() + high_.front()) / 2;
}

}  // namespace muster::tune
