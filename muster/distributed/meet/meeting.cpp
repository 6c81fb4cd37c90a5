#include "muster/distributed/meet/meeting.h"

#include <algorithm>
#include <thread>

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/job_key.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/diagnose/record/process_life.h"
#include "muster/distributed/meet/waited_time.h"

namespace muster::distributed {
namespace {

constexpr const char* kCard = "card";
constexpr const char* kOutcome = "outcome";
constexpr const char* kOpen = "open";
/// How long the process that serves the store waits for others to hear why the meeting failed.
constexpr auto kLastWords = std::chrono::seconds(3);

std::string card_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

/// Lines: who, then "name<tab>value" each.
std::string card_text(const JobCard& card) {
  std::string text = card_line(card.who);
  for (const auto& [name, value] : card.facts) text += concat('\n', name, '\t', card_line(value));
  return text;
}

JobCard card_from(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  JobCard card{.who = lines.at(0), .facts = {}};
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t tab = lines[i].find('\t');
    if (tab != std::string::npos)
      card.facts.emplace_back(lines[i].substr(0, tab), lines[i].substr(tab + 1));
  }
  return card;
}

std::string claim_key(int64_t rank) { return concat("claims/", rank); }

class Meeting {
 public:
  Meeting(c10d::Store& store, int64_t rank, int64_t world_size, const JobCard& card, bool serves)
      : store_(store), rank_(rank), world_size_(world_size), card_(card), serves_(serves) {}

  void run(std::chrono::milliseconds timeout) {
    store_.add("came", 1);
    const std::string first = store_.compareSet(kCard, std::string(), card_text(card_));
    if (const std::string why = difference(card_from(first), card_); !why.empty())
      end("ranks of different jobs met: " + why);
    const std::string claimed = store_.compareSet(claim_key(rank_), std::string(), card_.who);
    if (claimed != card_.who)
      end(concat("rank ", rank_, " was started twice: ", claimed, " and ", card_.who));
    if (store_.add("fitted", 1) == world_size_)
      store_.compareSet(kOutcome, std::string(), std::string(kOpen));
    store_.wait({kOutcome}, timeout);
    const std::string outcome = store_.get_to_str(kOutcome);
    if (outcome == kOpen) return;
    leave();
    refuse(outcome);
  }

  /// Of those that were to come: none if the store cannot be asked.
  std::vector<std::string> missing() {
    std::vector<std::string> ranks;
    for (int64_t other = 0; other < world_size_; ++other) {
      if (store_.compareSet(claim_key(other), std::string(), std::string()).empty())
        ranks.push_back(std::to_string(other));
    }
    return ranks;
  }

  /// The process that serves the store goes last.
  void leave() {
    store_.add("left", 1);
    if (!serves_) return;
    WaitedTime waited(std::chrono::milliseconds(100));
    while (store_.add("left", 0) < store_.add("came", 0) && waited.look() < kLastWords)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

 private:
  /// Who comes to a meeting that is open already changes nothing for the others.
  [[noreturn]] void end(const std::string& why) {
    store_.compareSet(kOutcome, std::string(), why);
    leave();
    refuse(why);
  }

  [[noreturn]] static void refuse(const std::string& why) {
    throw usage_error(
        {.refused = why,
         .rule = "all ranks of a job are started alike, each of them once",
         .hint = "compare the commands on all machines; if another job uses this address, choose "
                 "another port (--rdzv-endpoint, --master-port)"});
  }

  c10d::Store& store_;
  const int64_t rank_, world_size_;
  const JobCard& card_;
  const bool serves_;
};

}  // namespace

JobCard job_card(const RankEnv& env, const std::string& program, const std::string& key) {
  const diagnose::ProcessId process = diagnose::this_process();
  const bool several = env.group_world_size > 1;  // 1 may mean that nobody said so
  JobCard card{
      .who = concat("rank ",
                    env.rank,
                    " (process ",
                    process.pid,
                    " on ",
                    process.hostname,
                    several ? concat(", one of ", env.local_world_size, " there") : "",
                    ")"),
      .facts = {{"the run id", env.run_id},
                {"the world size", std::to_string(env.world_size)},
                {"the number of restarts", std::to_string(env.restart_count)},
                {"the program", program},
                {std::string(kJobKeyEnv), key.empty() ? "not set" : "one with the print " + key}}};
  if (several)
    card.facts.emplace_back("the number of machines", std::to_string(env.group_world_size));
  return card;
}

std::string difference(const JobCard& first, const JobCard& other) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : other.facts) {
    for (const auto& [their_name, their_value] : first.facts) {
      if (name != their_name || card_line(value) == card_line(their_value)) continue;
      parts.push_back(concat(
          name, " is ", their_value, " for ", first.who, " and ", value, " for ", other.who));
    }
  }
  return join(parts, "; ");
}

std::string program_name() {
  return process_environment("MUSTER_PROGRAM").value_or(::program_invocation_short_name);
}

void meet(c10d::Store& store,
          int64_t rank,
          int64_t world_size,
          const JobCard& card,
          std::chrono::milliseconds timeout,
          bool serves) {
  Meeting meeting(store, rank, world_size, card, serves);
  std::string cause;
  try {
    return meeting.run(timeout);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    cause = error.what();
    cause.resize(std::min(cause.size(), cause.find('\n')));
  }
  ErrorText text{.refused = "the store of the job is gone",
                 .rule = cause,
                 .hint = "look at what rank 0, which serves it, or its launcher says"};
  std::vector<int> ended;
  if (!serves) ended.push_back(0);
  try {
    if (const std::vector<std::string> missing = meeting.missing(); !missing.empty()) {
      text = {
          .refused = concat("rank ", join(missing, ", "), " did not come to the meeting of ranks"),
          .rule = concat("the others have waited for ", timeout.count() / 1000.0, " s"),
          .hint = "check that all ranks were started and reach rank 0's store"};
      ended.clear();
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it is gone
  }
  const Error error = environment_error(text);
  diagnose::note_failure_of_peers(error.what(), ended);
  throw error;
}

}  // namespace muster::distributed
