#include "muster/distributed/meet/meeting.h"

#include <algorithm>
#include <thread>

#include <c10/util/Exception.h>
#include <errno.h>

#include "muster/base/error.h"
#include "muster/base/job_key.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/distributed/meet/waited_time.h"

namespace muster::distributed {
namespace {

constexpr const char* kCard = "card";
constexpr const char* kOutcome = "outcome";
constexpr const char* kSettled = "settled";
constexpr const char* kOpen = "open";
constexpr const char* kRound = "round";
/// How long the process that serves the store waits for others to hear why the meeting failed.
constexpr auto kLastWords = std::chrono::seconds(3);
/// How long a rank waits before it looks whether one that has not come has ended.
constexpr std::chrono::milliseconds kLookAround(500);

/// What became of a round: a word, and what belongs to it, a line each.
constexpr const char* kAgain = "again";      // another round has begun
constexpr const char* kDiffer = "differ";    // why
constexpr const char* kRefused = "refused";  // who will not come, and what it has ended of
constexpr const char* kLate = "late";        // who did not come; how long they were waited for
constexpr const char* kEnded = "ended";      // who will not come

struct Outcome {
  std::string word;
  std::vector<std::string> lines;
};

Outcome outcome_from(const std::string& text) {
  Outcome outcome{.word = {}, .lines = split(text, '\n')};
  outcome.word = outcome.lines.at(0);
  outcome.lines.erase(outcome.lines.begin());
  outcome.lines.resize(std::max<size_t>(outcome.lines.size(), 2));
  return outcome;
}

[[noreturn]] void refuse(const std::string& why) {
  throw usage_error(
      {.refused = why,
       .rule = "all ranks of a job are started alike, each of them once",
       .hint = "compare the commands on all machines; if another job uses this address, choose "
               "another port (--rdzv-endpoint, --master-port)"});
}

class Meeting {
 public:
  Meeting(c10d::Store& store,
          int64_t rank,
          int64_t world_size,
          const JobCard& card,
          std::chrono::milliseconds timeout,
          StoreServer server,
          const HasEnded& has_ended,
          const Waiting& waiting)
      : store_(store),
        rank_(rank),
        world_size_(world_size),
        card_(card),
        timeout_(timeout),
        server_(server),
        has_ended_(has_ended),
        waiting_(waiting),
        may_begin_again_(server == StoreServer::kLauncher) {}

  int64_t run() {
    const auto deadline = Clock::now() + timeout_;
    while (true) {
      round_ = store_.compareSet(kRound, std::string(), std::string("0"));
      if (round_.empty()) refuse_unreadable("its round");
      const std::string text = attend(deadline);
      if (text.empty()) refuse_unreadable("the outcome");
      const Outcome outcome = outcome_from(text);
      if (outcome.word == kOpen) return to_int(round_).value_or(0);
      if (outcome.word != kAgain) fail(outcome);
      may_begin_again_ = false;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string key(const std::string& name) const { return concat(round_, '/', name); }
  std::string claim_key(int64_t rank) const { return key(concat("claims/", rank)); }

  /// What becomes of this round.
  std::string attend(Clock::time_point deadline) {
    if (may_begin_again_ && is_over()) return begin_again();
    store_.add(key("came"), 1);
    const std::string first = store_.compareSet(key(kCard), std::string(), card_text(card_));
    if (first.empty()) refuse_unreadable("the card of who came first");
    const JobCard theirs = card_from(first);
    if (const std::string why = difference(theirs, card_); !why.empty()) {
      if (may_begin_again_) return begin_again();
      for (const JobCard* card : {&theirs, &card_})
        if (const std::string ended = end_in(*card); !ended.empty()) return end(ended, kRefused);
      return end("ranks of different jobs met: " + why);
    }
    const std::string claimed = store_.compareSet(claim_key(rank_), std::string(), card_.who);
    if (claimed.empty()) refuse_unreadable(concat("the name of rank ", rank_));
    if (claimed != card_.who)
      return may_begin_again_
                 ? begin_again()
                 : end(concat("rank ", rank_, " was started twice: ", claimed, " and ", card_.who));
    if (store_.add(key("fitted"), 1) == world_size_)
      store_.compareSet(key(kOutcome), std::string(), std::string(kOpen));
    const std::string outcome = await(kOutcome, deadline);
    if (outcome != kOpen || server_ != StoreServer::kLauncher) return outcome;
    // One of those who came may have died in an earlier attempt: who is alive says so once more.
    if (store_.add(key("alive"), 1) == world_size_)
      store_.compareSet(key(kSettled), std::string(), std::string(kOpen));
    return await(kSettled, deadline);
  }

  /// Who comes now is of another attempt than those who met here, or could not.
  bool is_over() {
    if (store_.check({key(kSettled)})) return true;
    return store_.check({key(kOutcome)}) && store_.get_to_str(key(kOutcome)) != kOpen;
  }

  /// One of all that want to does it.
  std::string begin_again() {
    const int64_t round = to_int(round_).value_or(0);
    store_.compareSet(kRound, round_, std::to_string(round + 1));
    for (const char* waited_for : {kOutcome, kSettled})
      store_.compareSet(key(waited_for), std::string(), std::string(kAgain));
    return kAgain;
  }

  /// What is said; at the deadline, or when somebody will never come, that.
  std::string await(const char* what, Clock::time_point deadline) {
    while (!is_said(what, deadline)) {
      const auto ended = has_ended_ ? missing(has_ended_) : std::vector<std::string>();
      if (!ended.empty()) return say(what, concat(kEnded, '\n', join(ended, ", ")));
      if (Clock::now() < deadline) {
        if (waiting_.say && Clock::now() >= came_ + waiting_.after) tell_waiting(deadline);
        continue;
      }
      const auto late = missing([](int64_t) { return true; });
      const double seconds = static_cast<double>(timeout_.count()) / 1000.0;
      return say(what, concat(kLate, '\n', join(late, ", "), '\n', seconds, " s"));
    }
    return store_.get_to_str(key(what));
  }

  /// False when it is time to look around.
  bool is_said(const char* what, Clock::time_point deadline) {
    if (has_ended_) return is_seen(what, std::min(deadline, Clock::now() + kLookAround));
    if (waiting_.say) return is_seen(what, std::min(deadline, came_ + waiting_.after));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    try {
      store_.wait({key(what)}, std::max(left, std::chrono::milliseconds(1)));
      return true;
    } catch (const c10::DistNetworkError&) {
      throw;
    } catch (const Error&) {
      throw;
    } catch (const std::exception&) {  // its time is over, unless it is not
      if (Clock::now() + std::chrono::milliseconds(50) < deadline) throw;
      return false;
    }
  }

  void tell_waiting(Clock::time_point deadline) {
    const auto late = missing([](int64_t) { return true; });
    const auto left = std::chrono::ceil<std::chrono::seconds>(deadline - Clock::now());
    if (!late.empty())
      waiting_.say(concat("waiting for ",
                          late.size() == 1 ? "rank " : "ranks ",
                          join(late, ", "),
                          " of ",
                          world_size_,
                          " to come, for ",
                          left.count(),
                          " s more at most; look at what the launcher there says"));
    waiting_.say = nullptr;
  }

  /// By asking again and again, the more seldom the longer this rank has waited: of a wait that is over
  /// c10d prints a warning.
  bool is_seen(const char* what, Clock::time_point until) {
    while (!store_.check({key(what)})) {
      const auto now = Clock::now();
      if (now >= until) return false;
      std::this_thread::sleep_for(std::clamp<Clock::duration>(
          (now - came_) / 16, std::chrono::milliseconds(1), std::chrono::milliseconds(50)));
    }
    return true;
  }

  /// Unless somebody was faster, whose word it then is.
  std::string say(const char* what, const std::string& word) {
    return store_.compareSet(key(what), std::string(), word);
  }

  /// Those of the ranks that did not come of which that holds.
  std::vector<std::string> missing(const HasEnded& holds) {
    std::vector<std::string> ranks;
    for (int64_t other = 0; other < world_size_; ++other)
      if (holds(other) && !store_.check({claim_key(other)})) ranks.push_back(std::to_string(other));
    return ranks;
  }

  /// Who comes to a meeting that is open already changes nothing for the others.
  std::string end(const std::string& why, const char* word = kDiffer) {
    const std::string mine = concat(word, '\n', card_line(why));
    const std::string outcome = store_.compareSet(key(kOutcome), std::string(), mine);
    return outcome == kOpen ? mine : outcome;
  }

  [[noreturn]] void fail(const Outcome& outcome) {
    leave();
    if (outcome.word == kDiffer) refuse(outcome.lines[0]);
    if (outcome.word == kRefused) {
      throw usage_error({.refused = outcome.lines[0],
                         .rule = "a job needs all of its ranks",
                         .hint = "mend what it says, and start all ranks again"});
    }
    if (outcome.word == kEnded) refuse_ended(outcome.lines[0]);
    const std::vector<std::string> late = split(outcome.lines[0], ',');
    const bool am_late = std::any_of(late.begin(), late.end(), [&](const std::string& rank) {
      return to_int(trim(rank)) == rank_;
    });
    throw environment_error(
        {.refused =
             outcome.lines[0].empty()
                 ? "a rank came to the meeting of ranks and ended there"
                 : concat("rank ", outcome.lines[0], " did not come to the meeting of ranks"),
         .rule = concat("the others have waited for ",
                        outcome.lines[1],
                        am_late ? concat("; ", card_.who, " came after that") : ""),
         .hint = "check that all ranks were started and reach rank 0's store"});
  }

  [[noreturn]] void refuse_ended(const std::string& names) const {
    const Error error = environment_error(
        {.refused = concat("rank ", names, " has ended and did not come to the meeting of ranks"),
         .rule = "the others need it",
         .hint =
             "all ranks make the same groups, from the same command line; look at what it says"});
    std::vector<int> ranks;
    for (const std::string& name : split(names, ','))
      ranks.push_back(static_cast<int>(to_int(trim(name)).value_or(0)));
    diagnose::note_failure_of_peers(error.what(), ranks);
    throw error;
  }

  /// Where the name of the meeting holds the job's key, whoever has it signs what it writes.
  [[noreturn]] void refuse_unreadable(const std::string& what) const {
    refuse(concat(
        kJobKeyEnv, " is another one for ", what, " in the meeting of ranks than for ", card_.who));
  }

  /// The process that serves the store goes last.
  void leave() {
    store_.add(key("left"), 1);
    if (server_ != StoreServer::kThisProcess) return;
    WaitedTime waited(std::chrono::milliseconds(100));
    while (store_.add(key("left"), 0) < store_.add(key("came"), 0) && waited.look() < kLastWords)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  c10d::Store& store_;
  const int64_t rank_, world_size_;
  const JobCard& card_;
  const std::chrono::milliseconds timeout_;
  const StoreServer server_;
  const HasEnded& has_ended_;
  Waiting waiting_;  // for nobody once it has heard
  const Clock::time_point came_ = Clock::now();
  /// What is in the way may be an earlier attempt's; not after a round that was begun now.
  bool may_begin_again_;
  std::string round_;
};

}  // namespace

std::string program_name(const std::string& own) {
  return process_environment("MUSTER_PROGRAM")
      .value_or(own.empty() ? ::program_invocation_short_name : own);
}

int64_t meet(c10d::Store& store,
             int64_t rank,
             int64_t world_size,
             const JobCard& card,
             std::chrono::milliseconds timeout,
             StoreServer server,
             const HasEnded& has_ended,
             const Waiting& waiting) {
  const auto cause = [](const std::exception& error) {
    const std::string what = error.what();
    return first_line(what);
  };
  try {
    return Meeting(store, rank, world_size, card, timeout, server, has_ended, waiting).run();
  } catch (const Error&) {
    throw;
  } catch (const c10::DistNetworkError& lost) {
    const bool by_rank_zero = server == StoreServer::kRankZero;
    const Error error =
        environment_error({.refused = "the store of the job is gone",
                           .rule = cause(lost),
                           .hint = "look at what rank 0, which serves it, or its launcher says"});
    if (by_rank_zero) diagnose::note_failure_of_peers(error.what(), {0});
    throw error;
  } catch (const std::exception& error) {
    throw environment_error({.refused = "the ranks could not meet", .rule = cause(error)});
  }
}

}  // namespace muster::distributed
