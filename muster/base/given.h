// Options that somebody may have given, over those that hold otherwise.
#pragma once

namespace muster {

/// `to` becomes `from` if that is there: an optional with a value, a text or list that is not empty.
template <class To, class From>
void set_if_given(To& to, const From& from) {
  if constexpr (requires { from.has_value(); }) {
    if (from) to = *from;
  } else {
    if (!from.empty()) to = from;
  }
}

}  // namespace muster
