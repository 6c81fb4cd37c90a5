// How a call of a decorated backend comes to `around`. For its sources.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>

#include "muster/distributed/monitor/decorated_backend.h"

namespace muster::distributed {

template <class Invoke, class... Arguments>
class PostingOf final : public Posting {
 public:
  PostingOf(Invoke invoke, Arguments&... arguments) : invoke_(invoke), arguments_(arguments...) {}

  Posting::WorkPtr post() override { return std::apply(invoke_, arguments_); }
  std::function<Posting::WorkPtr()> later() const override {
    return [invoke = invoke_,
            copies = std::tuple<std::remove_const_t<Arguments>...>(arguments_)]() mutable {
      return std::apply(invoke, copies);
    };
  }

 private:
  Invoke invoke_;
  std::tuple<Arguments&...> arguments_;
};

template <class Invoke, class... Arguments>
DecoratedBackend::WorkPtr DecoratedBackend::pass(const OpCall& call,
                                                 Invoke invoke,
                                                 Arguments&... arguments) {
  const auto bound = [inner = inner_.get(), invoke](auto&... each) {
    return invoke(*inner, each...);
  };
  PostingOf<decltype(bound), Arguments...> posting(bound, arguments...);
  return around(call, posting);
}

}  // namespace muster::distributed
