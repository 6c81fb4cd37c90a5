// What searcher and scheduler were told, in pieces beside the log: Note [Calls beside the log].
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "muster/base/digest.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/core/study_state.h"

namespace muster::tune {
namespace {

/// Another one whenever a core of this version would go on otherwise from the same outline or calls.
constexpr int64_t kOutlineVersion = 3;

std::string chained(const std::string& chain, const std::string& calls) {
  return std::to_string(digest_of(concat(chain, ' ', digest_of(calls))));
}

}  // namespace

/// Of a donor that is over an outline has no checkpoint.
bool StudyCore::Impl::may_have_outlines() const { return !scheduler->donors_may_be_over(); }

bool StudyCore::Impl::hears() const { return searcher_learns || scheduler->has_history(); }

/// What the calls of searcher and scheduler hang on besides the log.
Json StudyCore::Impl::call_rules(const Json& description) const {
  Json from_checkpoint = Json::array();
  for (const FailurePolicy& policy : spec.failures)
    from_checkpoint.push_back(policy.from_checkpoint);
  return {{"version", kOutlineVersion},
          {"description", description},
          {"from_checkpoint", std::move(from_checkpoint)}};
}

bool StudyCore::needs_calls() const {
  return impl_->searcher.has_history() || impl_->scheduler->has_history();
}

std::string StudyCore::call_rules() const {
  if (!impl_->hears() || !impl_->may_have_outlines()) return "";
  return std::to_string(digest_of(json_text(impl_->call_rules(description()))));
}

bool StudyCore::is_whole(std::span<const CallPiece> pieces) const {
  const std::string rules = call_rules();
  std::string chain = rules;
  int64_t event = 0;
  for (const CallPiece& piece : pieces) {
    chain = chained(chain, piece.calls);
    if (piece.rules != rules || piece.after != event || piece.event <= event ||
        piece.chain != chain)
      return false;
    event = piece.event;
  }
  return true;
}

void StudyCore::keep_calls(int64_t behind) {
  if (!impl_->hears() || !impl_->may_have_outlines()) return impl_->heard.stop();
  impl_->heard.keep_behind(
      behind, impl_->searcher_learns, /*scheduler=*/impl_->scheduler->has_history());
}

std::optional<CallPiece> StudyCore::calls_behind(const CallPiece& before) const {
  const std::string rules = call_rules();
  const bool goes_on = before.event > 0 && before.rules == rules;
  const int64_t after = goes_on ? before.event : 0;
  if (!impl_->heard.keeps() || after < impl_->heard.since() || after >= last_event())
    return std::nullopt;
  CallPiece piece{.after = after, .event = last_event(), .rules = rules};
  piece.calls = impl_->heard.behind(after);
  piece.chain = chained(goes_on ? before.chain : rules, piece.calls);
  return piece;
}

void StudyCore::forget_calls(int64_t event) { impl_->heard.forget_up_to(event); }

}  // namespace muster::tune
