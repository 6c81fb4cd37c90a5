// Beside Pillow: tests/parity/test_images.py.
//     image_twin make FOLDER   JPEG files of all forms that the tests know, in some sizes
//     image_twin decode FOLDER a path a line -> a line of JSON each; the pixels lie in FOLDER/0.rgb, …
//     image_twin keep FOLDER   the same, and damaged data are kept
#include <filesystem>
#include <fstream>
#include <iostream>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/formats/image/image.h"

#include "tests/formats/image/jpeg_files.h"

namespace {

using namespace muster;

void write(const std::filesystem::path& path, const uint8_t* bytes, size_t count) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(count));
}

void make(const std::filesystem::path& folder) {
  int number = 0;
  for (const test::NamedForm& named : test::jpeg_forms()) {
    for (const auto& [height, width] : {std::pair{61, 83}, {16, 16}, {1, 40}, {33, 2}}) {
      test::JpegForm form = named.form;
      form.height = height;
      form.width = width;
      const auto file = test::jpeg_file(form);
      std::string name = concat(number++, " ", named.name, " ", height, "x", width, ".jpg");
      for (char& letter : name) letter = letter == ':' ? '-' : letter;
      write(folder / name, file.data(), file.size());
    }
  }
}

void decode(const std::filesystem::path& folder, bool keep_damaged) {
  int number = 0;
  for (std::string path; std::getline(std::cin, path); ++number) {
    Json said;
    try {
      const formats::Image image = formats::read_image(path, {.keep_damaged = keep_damaged});
      write(
          folder / concat(number, ".rgb"), image.pixels.get(), static_cast<size_t>(image.bytes()));
      said = {{"height", image.height}, {"width", image.width}, {"complaint", image.complaint}};
    } catch (const Error& error) {
      said = {{"error", error.what()}};
    }
    std::cout << said.dump() << '\n';
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string command = count == 3 ? words[1] : "";
  if (command == "make") {
    make(words[2]);
  } else if (command == "decode" || command == "keep") {
    decode(words[2], command == "keep");
  } else {
    return 2;
  }
}
