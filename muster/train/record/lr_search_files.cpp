#include "muster/train/record/lr_search_files.h"

#include <algorithm>
#include <vector>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/track/page/axis.h"
#include "muster/track/page/line.h"
#include "muster/track/page/panel_svg.h"
#include "muster/track/utf8.h"

namespace muster::train {
namespace {

using track::coordinate;

constexpr double kPlotWidth = 640, kPlotHeight = 400;
constexpr double kPlotLeft = 60, kPlotRight = 20, kPlotTop = 64, kPlotBottom = 48;
constexpr int kPlotTicks = 10;

std::string path_of(std::string_view type, std::string_view data) {
  return concat("<path class=\"", type, "\" d=\"", data, "\"/>\n");
}

/// The drawing of one search.
class LrPlot {
 public:
  explicit LrPlot(const LrFound& found) : found_(found) {
    const auto [low, high] = std::minmax_element(
        found.points.begin(), found.points.end(), [](const LrPoint& a, const LrPoint& b) {
          return a.smoothed < b.smoothed;
        });
    double least = low->smoothed;
    for (const LrPoint& point : found.points) least = std::min(least, point.loss);
    x_ = track::log_axis(found.points.front().lr, found.points.back().lr, kPlotTicks);
    y_ = track::linear_axis(least, high->smoothed, kPlotTicks / 2);
  }

  std::string svg() const { return grid() + curves() + mark(); }

 private:
  static double bottom() { return kPlotHeight - kPlotBottom; }
  double px(double lr) const {
    return kPlotLeft + x_.place(lr) * (kPlotWidth - kPlotLeft - kPlotRight);
  }
  double py(double loss) const {
    // A loss beyond the plot leaves it at the edge.
    return bottom() - std::clamp(y_.place(loss), 0.0, 1.03) * (bottom() - kPlotTop);
  }

  std::string grid() const {
    std::string out;
    for (size_t i = 0; i < y_.ticks.size(); ++i) {
      const double y = py(y_.ticks[i]);
      out += path_of("grid",
                     track::path_data(
                         std::vector<track::Point>{{kPlotLeft, y}, {kPlotWidth - kPlotRight, y}}));
      out += track::svg_text("end dim", kPlotLeft - 8, y + 4, y_.labels[i]);
    }
    for (size_t i = 0; i < x_.ticks.size(); ++i) {
      const double x = px(x_.ticks[i]);
      out += path_of("axis",
                     track::path_data(std::vector<track::Point>{{x, bottom()}, {x, bottom() + 5}}));
      out += track::svg_text("mid dim", x, bottom() + 19, x_.labels[i]);
    }
    out += path_of("axis",
                   track::path_data(std::vector<track::Point>{
                       {kPlotLeft, bottom()}, {kPlotWidth - kPlotRight, bottom()}}));
    out += track::svg_text(
        "mid dim", (kPlotLeft + kPlotWidth - kPlotRight) / 2, kPlotHeight - 10, "learning rate");
    return out + track::svg_text("dim", 16, kPlotTop - 12, "loss, smoothed; pale: of each step");
  }

  std::string curves() const {
    std::vector<track::Point> raw, smoothed;
    for (const LrPoint& point : found_.points) {
      raw.push_back({px(point.lr), py(point.loss)});
      smoothed.push_back({px(point.lr), py(point.smoothed)});
    }
    return path_of("line pale s0", track::path_data(raw)) +
           path_of("line s0", track::path_data(smoothed));
  }

  std::string mark() const {
    const LrPoint& point = found_.points[found_.at];
    const double x = px(point.lr);
    const std::string words = concat("taken: ", track::readable(point.lr));
    const bool is_right = x > kPlotWidth * 0.75;
    return path_of("epoch",
                   track::path_data(std::vector<track::Point>{{x, kPlotTop}, {x, bottom()}})) +
           concat("<circle class=\"c1\" cx=\"",
                  coordinate(x),
                  "\" cy=\"",
                  coordinate(py(point.smoothed)),
                  "\" r=\"4.5\"/>\n") +
           track::svg_text(
               is_right ? "end k c1" : "k c1", is_right ? x - 8 : x + 8, kPlotTop + 12, words);
  }

  const LrFound& found_;
  track::Axis x_, y_;
};

}  // namespace

std::string lr_search_csv(const LrFound& found) {
  std::string out = "lr,loss,smoothed_loss,suggested\n";
  for (size_t i = 0; i < found.points.size(); ++i) {
    const LrPoint& point = found.points[i];
    out += concat(shortest(point.lr),
                  ',',
                  shortest(point.loss),
                  ',',
                  shortest(point.smoothed),
                  ',',
                  i == found.at ? 1 : 0,
                  '\n');
  }
  return out;
}

std::string lr_search_svg(const LrFound& found, const std::string& title) {
  const std::string head = track::escape_xml(concat("Learning-rate search: ", title));
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ",
                coordinate(kPlotWidth),
                ' ',
                coordinate(kPlotHeight),
                "\" width=\"",
                coordinate(kPlotWidth),
                "\" height=\"",
                coordinate(kPlotHeight),
                "\" role=\"img\">\n<title>",
                head,
                "</title>\n<style>",
                track::panel_style(),
                "</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n"
                "<text class=\"head\" x=\"16\" y=\"30\">",
                head,
                "</text>\n",
                LrPlot(found).svg(),
                "</svg>\n");
}

void write_lr_search(const LrFound& found,
                     const std::string& title,
                     const std::filesystem::path& output) {
  write_file_atomic(output / kLrSearchTable, lr_search_csv(found));
  write_file_atomic(output / kLrSearchPlot, lr_search_svg(found, title));
}

}  // namespace muster::train
