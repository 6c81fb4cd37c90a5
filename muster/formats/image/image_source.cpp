#include "muster/formats/image/image_source.h"

#include "muster/formats/image/decoders.h"

namespace muster::formats {

std::string ImageSource::class_name(int64_t number) const {
  const std::vector<std::string> names = class_names();
  return names.empty() ? std::to_string(number) : names[static_cast<size_t>(number)];
}

std::string FolderImages::read(size_t at) const { return read_image_file(files_.path_of(at)); }

}  // namespace muster::formats
