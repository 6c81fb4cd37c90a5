#include "muster/distributed/meet/job_card.h"

#include <algorithm>

#include "muster/base/job_key.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/process_life.h"

namespace muster::distributed {
namespace {

/// Of "rank 2 (…)".
int64_t rank_of_card(const JobCard& card) {
  const std::vector<std::string> words = split(card.who, ' ');
  return words.size() < 2 ? -1 : to_int(words[1]).value_or(-1);
}

}  // namespace

std::string card_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

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

std::string end_in(const JobCard& card) {
  for (const auto& [name, value] : card.facts) {
    const size_t at = name == "the program" ? value.find(kHasEnded) : std::string::npos;
    if (at != std::string::npos)
      return concat(card.who, " ended before the meeting: ", value.substr(at + kHasEnded.size()));
  }
  return "";
}

JobCard job_card(const RankEnv& env,
                 const std::string& program,
                 const std::string& key,
                 const std::string& backend) {
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
                {"the program", program},
                {std::string(kJobKeyEnv), key.empty() ? "not set" : "one with the print " + key}}};
  if (!backend.empty()) card.facts.emplace_back("the backend", backend);
  if (several)
    card.facts.emplace_back("the number of machines", std::to_string(env.group_world_size));
  return card;
}

std::string difference(const JobCard& first, const JobCard& other) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : other.facts) {
    for (const auto& [their_name, their_value] : first.facts) {
      if (name != their_name || card_line(value) == card_line(their_value)) continue;
      const std::string theirs = concat(their_value, " for ", first.who);
      const std::string others = concat(value, " for ", other.who);
      const bool is_lower = rank_of_card(other) < rank_of_card(first);
      parts.push_back(
          concat(name, " is ", is_lower ? others : theirs, " and ", is_lower ? theirs : others));
    }
  }
  return join(parts, "; ");
}

}  // namespace muster::distributed
