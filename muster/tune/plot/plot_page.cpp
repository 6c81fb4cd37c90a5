#include "muster/tune/plot/plot_page.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "muster/base/json.h"
#include "muster/base/local_time.h"
#include "muster/base/text.h"
#include "muster/track/picture/picture_svg.h"
#include "muster/track/utf8.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/page_texts.h"

namespace muster::tune {
namespace {

using track::escape_xml;

std::string page_head(const std::string& title) {
  return concat(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
      escape_xml(title),
      "</title>\n<style>",
      page_style(),
      track::picture_style(),
      "</style>\n</head>\n<body>\n");
}

std::string definition(std::string_view name, std::string_view value) {
  return concat("<div><dt>", escape_xml(name), "</dt><dd>", escape_xml(value), "</dd></div>\n");
}

/// How many trials there are in each state, and the best result.
std::string tiles_html(const PlotStudy& study) {
  std::string out = "<dl class=\"tiles\">\n";
  if (study.facts.goals.several()) {
    out += definition("on the front", std::to_string(study.front.size()));
  } else if (study.best) {
    out += definition(concat("best ", study.facts.metric), result_text(study.results[*study.best]));
    out += definition("by trial", trial_label(study.trials[*study.best]));
  }
  out += definition("trials", std::to_string(study.trials.size()));
  std::map<std::string, size_t> counts;
  for (const TrialHistory& trial : study.trials) ++counts[std::string(state_word(trial))];
  for (const auto& [state, count] : counts) out += definition(state, std::to_string(count));
  return out + "</dl>\n";
}

/// Of several objectives, instead of a best trial.
std::string front_html(const PlotStudy& study) {
  if (study.front.empty()) return "<p>No trial is on the Pareto front yet.</p>\n";
  std::string out = "<h2>Pareto front</h2>\n<dl class=\"best\">\n";
  for (const size_t i : study.front) {
    out += definition(concat("trial ", trial_label(study.trials[i])),
                      results_text(study.trials[i].goals.results, study.facts.goals.objectives));
  }
  return out + "</dl>\n";
}

std::string best_html(const PlotStudy& study) {
  if (study.facts.goals.several()) return front_html(study);
  if (!study.best)
    return concat("<p>No trial has a ", escape_xml(study.facts.metric), " yet.</p>\n");
  std::string out = concat("<h2>Trial ",
                           trial_label(study.trials[*study.best]),
                           ", the best</h2>\n<dl class=\"best\">\n");
  const Values& values = study.trials[*study.best].values;
  for (size_t p = 0; p < values.size(); ++p) {
    if (!values[p].is_none())
      out += definition(study.facts.parameters[p].name, value_text(values[p]));
  }
  return out + "</dl>\n";
}

std::string pictures_html(const PlotStudy& study,
                          std::span<const PlotEntry* const> kinds,
                          const PlotOptions& options) {
  std::string out = "<div class=\"panels\">\n";
  for (const PlotEntry* kind : kinds) {
    const std::vector<track::Picture> pictures = kind->draw(study, options);
    if (pictures.size() > 1) {
      std::string help(kind->help);
      if (!help.empty()) help[0] = static_cast<char>(std::toupper(help[0]));
      out += concat("<h2>", escape_xml(help), "</h2>\n");
    }
    for (const track::Picture& picture : pictures) {
      out += concat("<div class=\"",
                    picture.width() > kHalfWidth + 1 ? "wide" : "half",
                    "\" data-kind=\"",
                    kind->name,
                    "\">\n",
                    track::picture_svg(picture),
                    "</div>\n");
    }
  }
  return out + "</div>\n";
}

std::string short_value(const Value& value) {
  return value.is_double() ? result_text(value.as_double()) : value_text(value);
}

std::string cell(const std::string& text, bool number) {
  return concat(number ? "<td class=\"n\">" : "<td>", escape_xml(text), "</td>");
}

std::string trial_row(const PlotStudy& study, size_t i) {
  const TrialHistory& trial = study.trials[i];
  std::string out = concat("<tr data-item=\"", i, "\">");
  out += concat("<td class=\"n\" data-v=\"", trial_id(trial), "\">", trial_label(trial), "</td>");
  out += cell(std::string(state_word(trial)), false);
  out += cell(result_text(study.results[i]), true);
  for (const Value& value : trial.values) out += cell(short_value(value), value.is_number());
  out += cell(trial.rows.empty() ? "" : std::to_string(trial.rows.back().t), true);
  out += concat("<td class=\"n\" data-v=\"",
                fixed(trial.run_s, 3),
                "\">",
                trial.run_s > 0 ? human_duration(trial.run_s) : "",
                "</td><td class=\"r\">",
                escape_xml(trial.reason),
                "</td></tr>\n");
  return out;
}

/// Best first; those without a result last, as they began.
std::vector<size_t> rows_of_table(const PlotStudy& study) {
  std::vector<size_t> rows = study.shown;
  std::ranges::stable_sort(rows, std::greater{}, [&](size_t i) {
    return std::isnan(study.merits[i]) ? -1 : study.merits[i];
  });
  return rows;
}

std::string table_html(const PlotStudy& study) {
  if (study.trials.empty()) return "";
  std::string out = "<h2>Trials</h2>\n";
  const std::string note = thinned_note(study, study.shown.size());
  if (!note.empty())
    out += concat("<p class=\"dim\">", escape_xml(note), "; muster study export has all.</p>\n");
  out += "<div class=\"scroll\">\n<table>\n<thead><tr>";
  std::vector<std::string> names = {"trial", "state", study.facts.metric};
  for (const auto& parameter : study.facts.parameters) names.push_back(parameter.name);
  for (const char* name : {"step", "time", "reason"}) names.emplace_back(name);
  for (const std::string& name : names) out += concat("<th>", escape_xml(name), "</th>");
  out += "</tr></thead>\n<tbody>\n";
  for (const size_t i : rows_of_table(study)) out += trial_row(study, i);
  return out + "</tbody>\n</table>\n</div>\n";
}

/// What the script tells of each trial that is drawn: {"names": ["trial", "loss", …], "items":
/// {"12": ["12, PRUNED", "0.31", …]}}; null where there is nothing. Safe within <script>.
std::string trials_json(const PlotStudy& study) {
  Json names = {"trial", study.facts.metric};
  for (const auto& parameter : study.facts.parameters) names.push_back(parameter.name);
  names.push_back("step");
  names.push_back("time");
  Json items = Json::object();
  std::vector<size_t> drawn = study.shown;
  if (study.best) drawn.push_back(*study.best);
  for (const size_t i : drawn) {
    const TrialHistory& trial = study.trials[i];
    Json item = {concat(trial_label(trial), ", ", state_word(trial)),
                 result_text(study.results[i])};
    for (const Value& value : trial.values)
      item.push_back(value.is_none() ? Json() : Json(short_value(value)));
    item.push_back(trial.rows.empty() ? Json() : Json(std::to_string(trial.rows.back().t)));
    item.push_back(trial.run_s > 0 ? Json(human_duration(trial.run_s)) : Json());
    items[std::to_string(i)] = std::move(item);
  }
  const Json json = {{"names", names}, {"items", items}};
  std::string out;
  for (const char c : json.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<')
      out += "\\u003c";
    else if (c == '>')
      out += "\\u003e";
    else if (c == '&')
      out += "\\u0026";
    else
      out += c;
  }
  return out;
}

std::string subtitle(const PlotStudy& study) {
  const bool max = study.facts.mode == Mode::kMax;
  std::string text = concat(study.facts.metric, max ? ": higher is better" : ": lower is better");
  if (study.facts.goals.several()) {
    std::vector<std::string> words;
    for (const Objective& objective : study.facts.goals.objectives)
      words.push_back(objective_text(objective));
    text = concat(join(words, ", "), "; pictures of one metric: ", study.facts.metric);
  }
  for (const Constraint& constraint : study.facts.goals.constraints)
    text += concat("; ", constraint_text(constraint));
  if (!study.scheduler.empty()) text += concat("; scheduler ", study.scheduler);
  const std::string when = local_time(study.now_s, "%Y-%m-%d %H:%M:%S");
  const bool goes = std::ranges::any_of(study.trials, &goes_on);
  if (study.now_s > 0 && !when.empty())
    text += concat("; as of ", when, goes ? ", before its end" : "");
  return text;
}

}  // namespace

std::string plot_page(const PlotStudy& study,
                      std::span<const PlotEntry* const> kinds,
                      const PlotOptions& options) {
  return concat(page_head(study.facts.name),
                "<h1>",
                escape_xml(study.facts.name),
                "</h1>\n<p class=\"dim\">",
                escape_xml(subtitle(study)),
                "</p>\n",
                tiles_html(study),
                best_html(study),
                pictures_html(study, kinds, options),
                table_html(study),
                "<div id=\"tip\"></div>\n<script type=\"application/json\" id=\"trials\">",
                trials_json(study),
                "</script>\n<script>/*<![CDATA[*/",
                page_script(),
                "/*]]>*/</script>\n</body>\n</html>\n");
}

}  // namespace muster::tune
