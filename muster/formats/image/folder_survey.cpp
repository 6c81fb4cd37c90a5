#include "muster/formats/image/folder_survey.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/class_balance.h"
#include "muster/formats/image/decoders.h"

namespace muster::formats {
namespace {

/// Whether a JPEG of these bytes can hold what it claims, of whatever kind it is: a bit for each block of 8 x 8
/// pixels. Source: ITU-T T.81, F.1.2; see check_claim() of jpeg.cpp, which damaged files are let off.
bool can_hold(const ImageHeader& header, size_t bytes) {
  const int64_t blocks = (header.width + 7) / 8 * ((header.height + 7) / 8);
  return blocks / 8 <= static_cast<int64_t>(bytes);
}

std::string fault_text(const Error& error) {
  const ErrorText& said = error.text();
  return concat(said.refused,
                said.rule.empty() ? "" : ": ",
                said.rule,
                said.value.empty() ? "" : concat(" (got ", said.value, ")"));
}

SurveyedFile survey_image(const ImageSource& images, size_t at, int64_t max_pixels) {
  const ImageOptions lenient{.max_pixels = max_pixels, .keep_damaged = true};
  const std::string name = images.full_name(at);
  SurveyedFile out;
  try {
    const std::string text = images.read(at);
    const std::span<const uint8_t> file(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    out.header = read_image_header(file, name, lenient);
    // As a training does first, which takes no memory for what the file cannot hold.
    try {
      decode_image(file, name, {.max_pixels = max_pixels});
      return out;
    } catch (const Error& error) {
      if (out.header.format != ImageFormat::kJpeg || !can_hold(out.header, file.size())) throw;
      const Image kept = decode_image(file, name, lenient);  // is it no more than damaged?
      out.damage = kept.complaint.empty() ? fault_text(error) : kept.complaint;
    }
  } catch (const Error& error) {
    out.fault = fault_text(error);
  } catch (const std::exception& error) {  // no memory for it
    out.fault = concat(name, ": ", error.what());
  }
  return out;
}

SideRange range_of(std::vector<int64_t> sides) {
  if (sides.empty()) return {};
  std::ranges::sort(sides);
  return {sides.front(), sides[(sides.size() - 1) / 2], sides.back()};
}

}  // namespace

std::vector<SurveyedFile> survey_images(const ImageSource& images,
                                        int64_t threads,
                                        int64_t max_pixels) {
  std::vector<SurveyedFile> out(images.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t at = next++; at < out.size(); at = next++)
      out[at] = survey_image(images, at, max_pixels);
  };
  if (threads == 0) threads = std::thread::hardware_concurrency();
  std::vector<std::thread> others;
  try {
    const int64_t most = std::min(threads, static_cast<int64_t>(out.size()));  // with work to do
    for (int64_t i = 1; i < most; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): those that are there do it
  }
  work();
  for (std::thread& other : others) other.join();
  return out;
}

std::vector<SurveyedFile> survey_files(const ClassFolders& files,
                                       int64_t threads,
                                       int64_t max_pixels) {
  return survey_images(FolderImages(files), threads, max_pixels);
}

double FolderSurvey::imbalance() const {
  std::vector<int64_t> good;
  for (const ClassSurvey& one : classes) good.push_back(one.files - one.bad);
  return class_imbalance(good);
}

FolderSurvey summary_of(const ImageSource& images, const std::vector<SurveyedFile>& surveyed) {
  FolderSurvey out{.files = static_cast<int64_t>(images.size())};
  out.classes.resize(static_cast<size_t>(images.classes()));
  const std::vector<std::string> names = images.class_names();
  for (size_t label = 0; label < out.classes.size(); ++label)
    out.classes[label].name = names.empty() ? std::to_string(label) : names[label];
  std::vector<int64_t> widths, heights;
  for (size_t at = 0; at < surveyed.size(); ++at) {
    const SurveyedFile& file = surveyed[at];
    ClassSurvey& own = out.classes[static_cast<size_t>(images.label(at))];
    ++own.files;
    if (!file.fault.empty()) {
      ++own.bad;
      ++out.bad;
      continue;
    }
    if (!file.damage.empty()) {
      ++own.damaged;
      ++out.damaged;
    }
    const ImageHeader& header = file.header;
    const bool is_jpeg = header.format == ImageFormat::kJpeg;
    ++(is_jpeg ? out.jpegs : out.pngs);
    if (!header.has_palette && header.channels <= 2) ++out.greys;
    if (is_jpeg && header.channels == 4) ++out.cmyks;
    if (!is_jpeg && header.channels % 2 == 0) ++out.alphas;
    if (header.channels == 1 && header.bits == 16) ++out.wide_greys;
    widths.push_back(header.width);
    heights.push_back(header.height);
  }
  out.width = range_of(std::move(widths));
  out.height = range_of(std::move(heights));
  return out;
}

FolderSurvey summary_of(const ClassFolders& files, const std::vector<SurveyedFile>& surveyed) {
  return summary_of(FolderImages(files), surveyed);
}

}  // namespace muster::formats
