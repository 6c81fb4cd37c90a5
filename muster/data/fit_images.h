#pragma once
#include "muster/data/dataset.h"
namespace muster::data { inline std::shared_ptr<const Dataset> fit_images(std::shared_ptr<const Dataset> d,int64_t,int64_t,int64_t){return d;} }
