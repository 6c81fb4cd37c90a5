#include "cli/doctor/doctor_json.h"

#include <utility>

#include "muster/base/json.h"

namespace muster::cli {
namespace {

using diagnose::CheckResult;
using diagnose::Finding;
using diagnose::LogDiagnosis;
using diagnose::Sighting;

Json sighting_json(const Sighting& sighting) {
  Json json{{"source", sighting.source}, {"line", sighting.line}, {"text", sighting.text}};
  json["rank"] = sighting.rank ? Json(*sighting.rank) : Json();
  return json;
}

Json finding_json(const Finding& finding) {
  Json evidence = Json::array();
  for (const Sighting& sighting : finding.evidence) evidence.push_back(sighting_json(sighting));
  return {{"error", finding.row->name},
          {"number", finding.row->number},
          {"title", finding.row->title},
          {"part", part_word(finding.part)},
          {"confidence", confidence_word(finding.confidence)},
          {"because", finding.because},
          {"cause", finding.cause->why},
          {"cause_is_told", finding.cause_is_told},
          {"next_step", finding.cause->step},
          {"to_prove_it", finding.row->confirm},
          {"more", finding.row->source},
          {"count", finding.count},
          {"ranks", finding.ranks},
          {"evidence", std::move(evidence)}};
}

}  // namespace

Json to_json(std::span<const CheckResult> results) {
  Json json = Json::array();
  for (const CheckResult& result : results) {
    json.push_back({{"check", result.name},
                    {"verdict", verdict_word(result.verdict)},
                    {"value", result.value},
                    {"rule", result.rule},
                    {"hint", result.hint}});
  }
  return json;
}

Json to_json(const LogDiagnosis& diagnosis, std::span<const CheckResult> checks) {
  Json findings = Json::array(), unexplained = Json::array();
  for (const Finding& finding : diagnosis.findings) findings.push_back(finding_json(finding));
  for (const Sighting& line : diagnosis.unexplained) unexplained.push_back(sighting_json(line));
  const Finding* first = diagnosis.first_cause();
  return {{"first_cause", first != nullptr ? Json(first->row->name) : Json()},
          {"findings", std::move(findings)},
          {"unexplained", std::move(unexplained)},
          {"checks", to_json(checks)},
          {"lines", diagnosis.lines},
          {"bytes", diagnosis.bytes}};
}

}  // namespace muster::cli
