#include "muster/formats/learned_rows.h"

#include <utility>

#include "muster/base/json.h"
#include "muster/formats/learned.h"

namespace muster::formats {

int64_t LearnedRows::width() const {
  int64_t sum = 0;
  for (const Feature& feature : features) sum += feature.width();
  return sum;
}

std::string learned_text(const LearnedRows& learned) {
  Json columns = Json::array();
  for (const Feature& feature : learned.features) {
    Json column = {{"name", feature.column}};
    if (feature.categories.empty()) {
      column["mean"] = feature.mean;
      column["deviation"] = feature.deviation;
    } else {
      column["categories"] = feature.categories;
    }
    columns.push_back(std::move(column));
  }
  Json json = {
      {"classes", learned.classes}, {"target", learned.target}, {"columns", std::move(columns)}};
  if (learned.measured)
    json["number"] = {{"mean", learned.measured->mean}, {"deviation", learned.measured->deviation}};
  return json_text(json);
}

LearnedRows learned_rows(const std::string& text) {
  return parse_learned("what the run's rows were read by", text, [](const Json& json) {
    LearnedRows learned{.target = json.at("target"), .classes = json.at("classes")};
    if (json.contains("number"))
      learned.measured = Feature{.column = learned.target,
                                 .mean = json.at("number").at("mean").get<double>(),
                                 .deviation = json.at("number").at("deviation").get<double>()};
    for (const Json& column : json.at("columns")) {
      Feature feature{.column = column.at("name")};
      if (column.contains("categories")) {
        feature.categories = column.at("categories").get<std::vector<std::string>>();
      } else {
        feature.mean = column.at("mean");
        feature.deviation = column.at("deviation");
      }
      learned.features.push_back(std::move(feature));
    }
    return learned;
  });
}

}  // namespace muster::formats
